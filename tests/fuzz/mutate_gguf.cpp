// SPDX-License-Identifier: Apache-2.0
// Mutants of GGUF files whose headers stay headers: numbers, types, names and records change, move
// and repeat. Each is read as rlxc reads it, and must give a graph or a refusal with a sentence, in
// a second and 20 MB; parsing alone takes no more at once than the file has.
// rlx_mutate_gguf [COUNT [SEED]]
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "compiler/import/gguf/architecture.h"
#include "compiler/import/gguf/gguf_file.h"
#include "tests/fuzz/import_targets.h"
#include "tests/support/gguf_writer.h"

namespace {

// ---- what operator new is asked for ----

std::atomic<size_t> live_bytes{0};
std::atomic<size_t> most_bytes{0};
std::atomic<size_t> largest_bytes{0};

void raise_to(std::atomic<size_t>& most, size_t bytes) {
  most = std::max(most.load(), bytes);
}

// The size stands before what is given out.
constexpr size_t kBefore = alignof(std::max_align_t);

}  // namespace

// Not inlined: g++ 13 takes what stands before for a place outside the object.
[[gnu::noinline]] void* operator new(size_t bytes) {
  auto* memory = static_cast<char*>(std::malloc(bytes + kBefore));
  if (memory == nullptr) throw std::bad_alloc();
  std::memcpy(memory, &bytes, sizeof bytes);
  raise_to(largest_bytes, bytes);
  raise_to(most_bytes, live_bytes += bytes);
  return memory + kBefore;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  char* begin = static_cast<char*>(memory) - kBefore;
  size_t bytes = 0;
  std::memcpy(&bytes, begin, sizeof bytes);
  live_bytes -= bytes;
  std::free(begin);
}
void operator delete(void* memory, size_t) noexcept {
  operator delete(memory);
}

namespace rlx::fuzz {
namespace {

constexpr double kMostSeconds = 1;  // of a processor
constexpr size_t kMostBytes = 20'000'000;
// Of what parsing may take at once; above it, the file's size.
constexpr size_t kLeastBytes = 4096;

// ---- a header's parts ----

enum class PartKind : uint8_t { Number, Text };

struct Part {
  PartKind kind = PartKind::Number;
  size_t begin = 0;  // of a text, where its length stands
  size_t bytes = 0;
};

struct Header {
  std::vector<Part> parts;
  std::vector<size_t> records;  // where each begins, keys first; one more entry for the end
  size_t key_count = 0;
};

// Of a good file. What it does not understand it leaves out.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  Header read() {
    number(4);
    number(4);
    const uint64_t tensors = number(8);
    header_.key_count = number(8);
    for (uint64_t i = 0; i < header_.key_count; ++i) {
      header_.records.push_back(at_);
      text();
      value(number(4));
    }
    for (uint64_t i = 0; i < tensors; ++i) tensor();
    header_.records.push_back(at_);
    return std::move(header_);
  }

 private:
  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, file_.data() + at_, bytes);
    header_.parts.push_back({PartKind::Number, at_, bytes});
    at_ += bytes;
    return value;
  }
  void text() {
    const size_t begin = at_;
    const uint64_t length = number(8);
    header_.parts.push_back({PartKind::Text, begin, 8 + length});
    at_ += length;
  }
  void value(uint64_t type) {
    constexpr size_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    constexpr uint64_t kText = 8;
    constexpr uint64_t kList = 9;
    if (type == kText) return text();
    if (type != kList) return static_cast<void>(number(kSizes[type]));
    const uint64_t items = number(4);
    const uint64_t count = number(8);
    for (uint64_t i = 0; i < count; ++i) value(items);
  }
  void tensor() {
    header_.records.push_back(at_);
    text();
    const uint64_t rank = number(4);
    for (uint64_t i = 0; i < rank; ++i) number(8);
    number(4);
    number(8);
  }

  const std::string& file_;
  size_t at_ = 0;
  Header header_;
};

// ---- mutants ----

class Mutator {
 public:
  Mutator(const std::string& file, uint64_t seed)
      : file_(file), header_(HeaderReader(file).read()), random_(seed) {}

  std::string mutant() {
    std::string out = file_;
    // Behind what makes a file longer or shorter nothing stands where it did.
    switch (below(8)) {
      case 0:
        move_record(out);
        break;
      case 1:
        replace_text(out);
        break;
      case 2:
        out.resize(below(out.size() + 1));
        break;
      default:
        for (size_t i = 0, count = 1 + below(3); i < count; ++i) change_in_place(out);
    }
    return out;
  }

 private:
  size_t below(size_t count) { return random_() % count; }

  uint64_t number(uint64_t old) {
    constexpr uint64_t kEdges[] = {0,
                                   1,
                                   2,
                                   3,
                                   4,
                                   8,
                                   9,
                                   12,
                                   13,
                                   31,
                                   32,
                                   64,
                                   255,
                                   4096,
                                   65535,
                                   65536,
                                   0x7F800000,
                                   0x7FC00000,
                                   0xFF800000,
                                   INT32_MAX,
                                   UINT32_MAX,
                                   uint64_t{1} << 32,
                                   uint64_t{1} << 40,
                                   uint64_t{1} << 48,
                                   uint64_t{1} << 61,
                                   uint64_t{1} << 62,
                                   INT64_MAX,
                                   uint64_t{1} << 63,
                                   UINT64_MAX - 31,
                                   UINT64_MAX};
    switch (below(5)) {
      case 0:
        return old + below(5) - 2;
      case 1:
        return random_();
      case 2:
        return old ^ (uint64_t{1} << below(64));
      default:
        return kEdges[below(std::size(kEdges))];
    }
  }

  void change_in_place(std::string& out) {
    const Part& part = header_.parts[below(header_.parts.size())];
    if (part.kind == PartKind::Text && part.bytes > 8) {
      out[part.begin + 8 + below(part.bytes - 8)] = static_cast<char>(random_());
      return;
    }
    if (part.kind == PartKind::Text) return;
    uint64_t value = 0;
    std::memcpy(&value, out.data() + part.begin, part.bytes);
    value = number(value);
    std::memcpy(out.data() + part.begin, &value, part.bytes);
  }

  // A record dropped, or repeated where another one of its kind stands; mostly with a count that
  // fits.
  void move_record(std::string& out) {
    const size_t count = header_.records.size() - 1;
    const size_t from = below(count);
    const std::string record =
        file_.substr(header_.records[from], header_.records[from + 1] - header_.records[from]);
    const bool is_key = from < header_.key_count;
    const bool repeats = below(2) == 0;
    if (repeats) {
      const size_t to = is_key ? below(header_.key_count + 1)
                               : header_.key_count + below(count - header_.key_count + 1);
      out.insert(header_.records[to], record);
    } else {
      out.erase(header_.records[from], record.size());
    }
    if (below(8) == 0) return;
    const size_t place = is_key ? 16 : 8;
    uint64_t held = 0;
    std::memcpy(&held, out.data() + place, sizeof held);
    held += repeats ? 1 : UINT64_MAX;
    std::memcpy(out.data() + place, &held, sizeof held);
  }

  // A text by another one of the file, or by one that is empty, long, or no UTF-8.
  void replace_text(std::string& out) {
    std::vector<Part> texts;
    for (const Part& part : header_.parts) {
      if (part.kind == PartKind::Text) texts.push_back(part);
    }
    const Part& part = texts[below(texts.size())];
    const Part& other = texts[below(texts.size())];
    std::string text = file_.substr(other.begin + 8, other.bytes - 8);
    const std::string strange[] = {"", std::string(300, 'n'), "\xFF\xC0", std::string(3, '\0')};
    if (below(4) == 0) text = strange[below(std::size(strange))];
    out.replace(part.begin, part.bytes, test::gguf_text(text));
  }

  const std::string& file_;
  Header header_;
  std::mt19937_64 random_;
};

// ---- seeds ----

void add_tensors(test::GgufWriter& writer, const gguf::Architecture& row) {
  writer.zeros("token_embd.weight", {8, 12}).zeros("output_norm.weight", {8});
  const auto add = [&writer](const std::string& name, const std::vector<uint64_t>& dims) {
    writer.zeros("blk.0." + name + ".weight", dims);
  };
  const bool has_norms_after = row.norms != gguf::NormPlaces::Before;
  if (row.norms != gguf::NormPlaces::After) {
    add("attn_norm", {8});
    add(std::string(row.ffn_norm), {8});
  }
  if (has_norms_after) add("post_attention_norm", {8});
  if (has_norms_after) add("post_ffw_norm", {8});
  for (const char* norm : {"attn_q_norm", "attn_k_norm"}) {
    if (row.qk_norm != gguf::QkNorm::None)
      add(norm, {row.qk_norm == gguf::QkNorm::Heads ? 4U : 8U});
  }
  if (row.is_packed) add("attn_qkv", {8, 24});
  for (const char* name : {"attn_q", "attn_k", "attn_v"}) {
    if (!row.is_packed) add(name, {8, 8});
  }
  add("attn_output", {8, 8});
  if (row.has_sinks) add("attn_sinks", {2});
  if (!row.is_packed) add("ffn_gate", {8, 16});
  add("ffn_up", {8, row.is_packed ? 32U : 16U});
  add("ffn_down", {16, 8});
}

// A model of an architecture, or one whose header says all that it may.
std::string seed_of(const gguf::Architecture& row, bool says_much) {
  test::GgufWriter writer;
  const std::string name(row.name);
  test::add_small_llama_keys(writer, name);
  if (says_much) {
    writer.key(name + ".attention.head_count_kv", 2U)
        .key(name + ".attention.key_length", 4U)
        .key(name + ".attention.value_length", 4U)
        .key(name + ".attention.sliding_window", 8U)
        .key(name + ".rope.dimension_count", 4U)
        .key(name + ".rope.scaling.type", std::string("yarn"))
        .key(name + ".rope.scaling.factor", 4.0F)
        .key(name + ".rope.scaling.original_context_length", 16U)
        .key("tokenizer.ggml.model", std::string("gpt2"))
        .key("tokenizer.ggml.pre", std::string("smollm"))
        .key("tokenizer.ggml.tokens",
             std::vector<std::string>{"a", "b", "ab", "c", "d", "e", "f", "g", "h", "i", "j", "k"})
        .key("tokenizer.ggml.merges", std::vector<std::string>{"a b"})
        .key("tokenizer.ggml.eos_token_id", 2U)
        .key("tokenizer.chat_template", std::string("{{ messages[0].content }}"))
        .key("split.no", 0U)
        .key("split.count", 1U);
  }
  add_tensors(writer, row);
  return writer.bytes();
}

std::vector<std::string> all_seeds() {
  std::vector<std::string> seeds;
  for (const gguf::Architecture& row : gguf::all_architectures()) {
    seeds.push_back(seed_of(row, false));
    seeds.push_back(seed_of(row, true));
  }
  return seeds;
}

// ---- judging ----

struct Tally {
  size_t read = 0;
  size_t refused = 0;
  double most_seconds = 0;
  size_t most_bytes = 0;
};

// What is wrong with how the mutant is read; empty: nothing is.
std::string check(const std::string& mutant, Tally& tally) {
  const auto bytes = std::as_bytes(std::span(mutant));
  largest_bytes = 0;
  static_cast<void>(gguf::parse(bytes));
  if (largest_bytes > std::max(mutant.size(), kLeastBytes))
    return "parsing took " + std::to_string(largest_bytes) + " bytes at once";
  const size_t before = live_bytes;
  most_bytes = before;
  const std::clock_t start = std::clock();
  Diagnostics diagnostics;
  const auto graph = read_graph({nullptr, bytes}, "/nonexistent/mutant.gguf", diagnostics);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  tally.most_seconds = std::max(tally.most_seconds, seconds);
  tally.most_bytes = std::max(tally.most_bytes, most_bytes - before);
  ++(graph ? tally.read : tally.refused);
  if (graph.has_value() == diagnostics.has_errors())
    return "a refusal without an error, or the reverse";
  if (!graph && diagnostics.text().size() < 20) return "a refusal without a sentence";
  if (seconds > kMostSeconds) return "took " + std::to_string(seconds) + " s";
  if (most_bytes - before > kMostBytes)
    return "took " + std::to_string(most_bytes - before) + " bytes";
  return {};
}

}  // namespace
}  // namespace rlx::fuzz

int main(int argc, char** argv) {
  using namespace rlx::fuzz;
  const uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20000;
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const std::vector<std::string> seeds = all_seeds();
  Tally tally;
  size_t bad = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const std::string mutant = Mutator(seeds[seed % seeds.size()], seed).mutant();
    std::string fault;
    try {
      fault = check(mutant, tally);
    } catch (const std::exception& error) {
      fault = std::string("threw ") + error.what();
    }
    if (fault.empty()) continue;
    ++bad;
    std::printf("BAD: seed %llu: %s\n", static_cast<unsigned long long>(seed), fault.c_str());
    std::ofstream("bad-mutant-" + std::to_string(seed) + ".gguf", std::ios::binary) << mutant;
  }
  std::printf(
      "%llu mutants of %zu files, %zu read, %zu refused, %zu bad; at most %.3f s, %zu bytes\n",
      static_cast<unsigned long long>(count), seeds.size(), tally.read, tally.refused, bad,
      tally.most_seconds, tally.most_bytes);
  return bad == 0 && tally.read > 0 && tally.refused > 0 ? 0 : 1;
}
