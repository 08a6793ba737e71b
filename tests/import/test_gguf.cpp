// SPDX-License-Identifier: Apache-2.0
// GGUF files: what is read of them, and hostile ones, each refused for what it is.
#include <chrono>

#include "compiler/import/gguf/gguf_file.h"
#include "compiler/import/gguf/rope_tables.h"
#include "compiler/import/model_files.h"
#include "schema/text_generated.h"
#include "tests/import/import_support.h"
#include "tests/support/gguf_writer.h"

namespace rlx::test {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ40 = 2;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;

std::span<const std::byte> view(const std::string& bytes) {
  return std::as_bytes(std::span(bytes));
}

ParseFault fault_of(const std::string& bytes) {
  auto parsed = gguf::parse(view(bytes));
  REQUIRE(std::holds_alternative<ParseFault>(parsed));
  return std::get<ParseFault>(parsed);
}

gguf::File good_file(const std::string& bytes) {
  auto parsed = gguf::parse(view(bytes));
  if (const auto* fault = std::get_if<ParseFault>(&parsed)) FAIL(fault->message);
  return std::get<gguf::File>(std::move(parsed));
}

void check_fault(const std::string& bytes, DiagCode code, const std::string& part) {
  const ParseFault fault = fault_of(bytes);
  INFO(fault.message);
  CHECK(fault.code == code);
  CHECK(fault.message.find(part) != std::string::npos);
}

// A file that says how many tensors and keys it has, with `rest` behind.
std::string counted(uint64_t tensors, uint64_t keys, const std::string& rest = {}) {
  return "GGUF" + raw_value<uint32_t>(3) + raw_value(tensors) + raw_value(keys) + rest;
}

// Of reading a model: all diagnostics.
Diagnostics read_model(const std::string& bytes, const ImportOptions& options = {}) {
  Diagnostics diagnostics;
  const auto graph = read_graph(bytes_of(bytes), "model.gguf", diagnostics, options);
  CHECK(graph.has_value() != diagnostics.has_errors());
  return diagnostics;
}

SourceGraph good_model(const std::string& bytes, const ImportOptions& options = {}) {
  Diagnostics diagnostics;
  auto graph = read_graph(bytes_of(bytes), "model.gguf", diagnostics, options);
  INFO(diagnostics.text());
  REQUIRE(graph.has_value());
  return std::move(*graph);
}

const ImportOptions kDecodeAndFour = {
    .language = {.context = 32, .chunks = {1, 4}, .cache = DType::f32}};

TEST_CASE("GGUF keys and tensors are read as views, shapes outermost first") {
  GgufWriter writer;
  writer.key("count", 7u).key("part", 0.5f).key("name", std::string("a model"));
  writer.raw_key("low", 11, raw_value<int64_t>(-3)).raw_key("yes", 7, raw_value<uint8_t>(1));
  writer.key("words", std::vector<std::string>{"one", "", "three"});
  writer.tensor("w", {3, 2}, kF32, raw_bytes(std::vector<float>{1, 2, 3, 4, 5, 6}));
  writer.tensor("q", {64}, kQ40, std::string(36, 'x'));
  for (const uint32_t version : {2u, 3u}) {
    writer.version = version;
    const std::string bytes = writer.bytes();
    const gguf::File file = good_file(bytes);
    CHECK(file.version == version);
    CHECK(std::get<int64_t>(file.keys.at("count")) == 7);
    CHECK(std::get<double>(file.keys.at("part")) == 0.5);
    CHECK(std::get<std::string_view>(file.keys.at("name")) == "a model");
    CHECK(std::get<int64_t>(file.keys.at("low")) == -3);
    CHECK(std::get<bool>(file.keys.at("yes")));
    gguf::Strings words(std::get<gguf::Array>(file.keys.at("words")));
    CHECK(words.next() == "one");
    CHECK(words.next() == "");
    CHECK(words.next() == "three");
    CHECK(words.next() == std::nullopt);
    REQUIRE(file.tensors.size() == 2);
    CHECK(file.tensors[0].shape == std::vector<int64_t>{2, 3});
    CHECK(file.tensors[0].bytes.data() == view(bytes).data() + file.tensors[0].offset_bytes);
    CHECK(file.tensors[1].dtype == DType::q4_0);
    CHECK(file.tensors[1].bytes.size() == 36);
  }
}

TEST_CASE("GGUF of other versions and byte orders are refused by name") {
  GgufWriter writer = small_llama();
  writer.version = 1;
  check_fault(writer.bytes(), DiagCode::UnsupportedVersion, "GGUF of version 1");
  writer.version = 0x03000000;
  check_fault(writer.bytes(), DiagCode::UnsupportedVersion, "big-endian");
  writer.version = 4;
  check_fault(writer.bytes(), DiagCode::UnsupportedVersion, "versions 2 and 3");
}

TEST_CASE("GGUF counts and lengths beyond the file are refused before anything is made") {
  constexpr uint64_t kHuge = uint64_t{1} << 40;
  check_fault(counted(kHuge, 0), DiagCode::FileSize, "1099511627776 tensors");
  check_fault(counted(0, kHuge), DiagCode::FileSize, "1099511627776 keys");
  check_fault(counted(UINT64_MAX, UINT64_MAX), DiagCode::FileSize, "tensors");
  const std::string long_key = raw_value(uint64_t{1} << 50) + std::string(64, 'k');
  check_fault(counted(0, 1, long_key), DiagCode::FileSize, "1125899906842624 bytes");
  const auto array = [](uint32_t type, uint64_t count) {
    return GgufWriter()
        .raw_key("a", kArray, raw_value(type) + raw_value(count) + std::string(64, '\0'))
        .bytes();
  };
  check_fault(array(0, uint64_t{1} << 60), DiagCode::FileSize, "1152921504606846976 items");
  check_fault(array(kString, uint64_t{1} << 61), DiagCode::FileSize, "items");
  check_fault(array(kString, UINT64_MAX), DiagCode::FileSize, "items");
  check_fault(array(13, 1), DiagCode::FileFormat, "of type 13");
}

TEST_CASE("GGUF arrays inside arrays are refused, however many") {
  std::string nested;
  for (int i = 0; i < 200'000; ++i) nested += raw_value(kArray) + raw_value<uint64_t>(1);
  check_fault(GgufWriter().raw_key("a", kArray, nested).bytes(), DiagCode::FileFormat,
              "an array of arrays");
}

TEST_CASE("GGUF alignments other than powers of two are refused") {
  for (const uint32_t alignment : {0u, 3u, 48u}) {
    GgufWriter writer;
    writer.key("general.alignment", alignment).zeros("w", {4});
    check_fault(writer.bytes(), DiagCode::FileFormat, "wanted a power of two");
  }
  GgufWriter text;
  text.key("general.alignment", std::string("32")).zeros("w", {4});
  check_fault(text.bytes(), DiagCode::FileFormat, "a string, wanted a power of two");
  GgufWriter wide;
  wide.key("general.alignment", 1u << 31).zeros("w", {4});
  check_fault(wide.bytes(), DiagCode::FileSize, "padding");
}

TEST_CASE("GGUF shapes that wrap, and tensors outside the file, are refused") {
  const auto record = [](const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    return GgufWriter().record("w", dims, type, offset).bytes() + std::string(64, '\0');
  };
  const uint64_t wide = uint64_t{1} << 39;
  check_fault(record({wide, wide}, kF32, 0), DiagCode::Limit, "2^48");
  check_fault(record({wide, wide, wide, wide}, kF32, 0), DiagCode::Limit, "2^48");
  check_fault(record({0, uint64_t{1} << 62}, kF32, 0), DiagCode::Limit, "dim 0");
  check_fault(record({4, uint64_t{1} << 62}, kF32, 0), DiagCode::Limit, "dim 4611686018427387904");
  check_fault(record({4, 0}, kF32, 0), DiagCode::Limit, "dim 0");
  check_fault(record({UINT64_MAX}, kF32, 0), DiagCode::Limit, "dim -1");
  check_fault(record({33}, kQ40, 0), DiagCode::BadShape, "whole blocks of 32");
  check_fault(record({4}, kF32, UINT64_MAX - 31), DiagCode::FileSize, "at offset");
  check_fault(record({4}, kF32, 64), DiagCode::FileSize, "at offset 64");
  check_fault(record({4}, kF32, 8), DiagCode::FileFormat, "multiple of the alignment 32");
  const std::string many = gguf_text("w") + raw_value(UINT32_MAX) + std::string(64, '\0');
  check_fault(counted(1, 0, many), DiagCode::Limit, "rank 4294967295");
  check_fault(record({}, kF32, 0), DiagCode::Limit, "rank 0");
}

TEST_CASE("GGUF names twice and tensors on the same bytes are refused") {
  check_fault(GgufWriter().key("a", 1u).key("a", 2u).bytes(), DiagCode::DuplicateName,
              "key \"a\" twice");
  check_fault(GgufWriter().zeros("w", {4}).zeros("w", {4}).bytes(), DiagCode::DuplicateName,
              "tensor \"w\" twice");
  GgufWriter writer;
  writer.zeros("a", {16}).record("b", {4}, kF32, 32);
  check_fault(writer.bytes(), DiagCode::FileFormat, "\"a\" and \"b\" on the same bytes");
}

TEST_CASE("all GGUF tensor types that rlx lacks are named at once") {
  GgufWriter writer;
  writer.record("a", {256}, 16, 0).record("b", {32}, 9, 0).record("c", {32}, 77, 0);
  writer.record("d", {256}, 16, 0);
  check_fault(writer.bytes(), DiagCode::UnknownDtype,
              "q8_1 (1 tensor, \"b\"), iq2_xxs (2 tensors, the first \"a\"), type 77");
}

TEST_CASE("a GGUF file cut anywhere is refused") {
  GgufWriter writer = small_llama();
  writer.key("tokens", std::vector<std::string>{"a", "b"});
  const std::string bytes = writer.bytes();
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 500) {
    INFO(size << " bytes");
    CHECK(std::holds_alternative<ParseFault>(gguf::parse(view(bytes.substr(0, size)))));
  }
}

TEST_CASE("sixty thousand GGUF tensors take no longer than they should") {
  GgufWriter writer;
  for (int i = 0; i < 60'000; ++i) writer.zeros("tensor." + std::to_string(i), {1});
  const std::string bytes = writer.bytes();
  const auto start = std::chrono::steady_clock::now();
  CHECK(good_file(bytes).tensors.size() == 60'000);
  // A few hundredths of a second; quadratic work would take minutes.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
}

TEST_CASE("a GGUF model has an entry for each number of tokens, over shared caches") {
  const SourceGraph graph = good_model(small_llama().bytes(), kDecodeAndFour);
  REQUIRE(graph.entries.size() == 3);
  CHECK(graph.entries[0].name == "decode");
  CHECK(graph.entries[1].name == "prefill_4");
  CHECK(graph.entries[1].inputs[0].shape == std::vector<SourceDim>{int64_t{1}, int64_t{4}});
  CHECK(graph.entries[1].outputs == Strings{"logits", "next"});
  // Its token and its position are states.
  CHECK(graph.entries[2].name == "step");
  CHECK(graph.entries[2].inputs.empty());
  REQUIRE(graph.states.size() == 5);
  CHECK(graph.states[0].name == "blk.0.k_cache");
  CHECK(graph.states[2].name == "step.token");
  CHECK(graph.states[0].shape ==
        std::vector<SourceDim>{int64_t{1}, int64_t{2}, int64_t{32}, int64_t{4}});
  CHECK(graph.params.size() == 11);
  ImportOptions verifying = kDecodeAndFour;
  verifying.language.verify = 3;
  const SourceGraph with_drafts = good_model(small_llama().bytes(), verifying);
  REQUIRE(with_drafts.entries.size() == 4);
  CHECK(with_drafts.entries[3].name == "verify_3");
  CHECK(with_drafts.entries[3].inputs.size() == 3);
  CHECK(with_drafts.entries[3].outputs == Strings{"next"});
  Diagnostics diagnostics;
  const auto module = bind_module(graph, {}, "/nonexistent", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  CHECK(module->entries.size() == 3);
}

TEST_CASE("params of a GGUF model are the file's own bytes, under any name of the file") {
  const TemporaryFolder folder;
  const std::string path = folder.write("model.gguf", small_llama().bytes());
  std::filesystem::create_symlink(path, folder.path("link.gguf"));
  FileResult mapped = map_file(folder.path("link.gguf"));
  const auto file = std::get<std::shared_ptr<const MappedFile>>(mapped);
  Diagnostics diagnostics;
  const auto graph =
      read_graph({file, file->bytes()}, folder.path("link.gguf"), diagnostics, kDecodeAndFour);
  REQUIRE(graph.has_value());
  const auto module = bind_module(*graph, {}, folder.path(), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  const auto bytes = data_of(*module, "blk.0.attn_q.weight");
  CHECK(bytes.data() > file->bytes().data());
  CHECK(bytes.data() + bytes.size() <= file->bytes().data() + file->bytes().size());
  // By which a plan may leave them there.
  REQUIRE(module->files.size() == 1);
  CHECK(module->files[0].name == "link.gguf");
  CHECK(module->files[0].bytes.data() == file->bytes().data());
  CHECK(module->files[0].bytes.size() == file->bytes().size());
}

TEST_CASE("a converted GGUF model refers to the file's bytes and binds to the same module") {
  const TemporaryFolder folder;
  const std::string path = folder.write("model.gguf", small_llama().bytes());
  for (const std::string name : {"model.json", "model.rlxg"}) {
    Diagnostics diagnostics;
    const auto text = convert_graph(path, folder.path(name), diagnostics, kDecodeAndFour);
    INFO(diagnostics.text());
    REQUIRE(text.has_value());
    folder.write(name, *text);
    CHECK((name != "model.json" ||
           text->find("{\"raw\": \"model.gguf\", \"offset\": ") != std::string::npos));
    const auto converted = load_module(folder.path(name), {}, diagnostics);
    const auto direct = load_module(path, kDecodeAndFour, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(converted.has_value());
    REQUIRE(direct.has_value());
    CHECK(print(*converted) == print(*direct));
  }
}

TEST_CASE("GGUF tensors that nothing reads, and those that lack, are told by name") {
  GgufWriter more = small_llama();
  more.zeros("blk.0.attn_q_norm.weight", {4}).zeros("blk.1.ffn_up.weight", {8, 16});
  check_error(read_model(more.bytes()), DiagCode::UnsupportedOp,
              "\"blk.0.attn_q_norm.weight\", \"blk.1.ffn_up.weight\"");
  GgufWriter none;
  add_small_llama_keys(none);
  none.zeros("token_embd.weight", {8, 12});
  const Diagnostics missing = read_model(none.bytes());
  check_error(missing, DiagCode::BadField, "\"blk.0.attn_norm.weight\", \"blk.0.attn_q.weight\"");
  check_error(missing, DiagCode::BadField, "\"output_norm.weight\"");
}

TEST_CASE("GGUF tensors of other shapes and types are told by name") {
  GgufWriter writer;
  add_small_llama_keys(writer);
  writer.zeros("output.weight", {8, 13});
  writer.tensor("blk.0.attn_q.bias", {8}, 24, std::string(8, '\0'));
  add_small_llama_tensors(writer);
  const Diagnostics diagnostics = read_model(writer.bytes());
  check_error(diagnostics, DiagCode::BadShape,
              "tensor \"output.weight\" is f32[13, 8], wanted [12, 8]");
  check_error(diagnostics, DiagCode::BadDtype, "\"blk.0.attn_q.bias\" is i8[8]");
}

TEST_CASE("a GGUF bias is added wherever the file has one") {
  GgufWriter writer = small_llama();
  writer.zeros("blk.0.attn_q.bias", {8}).zeros("blk.0.ffn_down.bias", {8});
  const SourceGraph graph = good_model(writer.bytes(), kDecodeAndFour);
  CHECK(graph.params.size() == 13);
}

TEST_CASE("GGUF architectures and rope scalings that are not read are refused by name") {
  GgufWriter mamba;
  add_small_llama_keys(mamba, "mamba2");
  const Diagnostics unknown = read_model(mamba.bytes());
  check_only_error(unknown, DiagCode::UnsupportedOp, "architecture \"mamba2\" is not read");
  check_error(unknown, DiagCode::UnsupportedOp, "\"llama\", \"qwen2\"");
  GgufWriter none;
  none.zeros("w", {4});
  check_error(read_model(none.bytes()), DiagCode::UnsupportedOp, "general.architecture");
  GgufWriter projector = small_llama();
  projector.key("general.type", std::string("mmproj"));
  check_only_error(read_model(projector.bytes()), DiagCode::UnsupportedOp, "no language model");
  GgufWriter scaled = small_llama();
  scaled.key("llama.rope.scaling.type", std::string("dynamic"));
  check_only_error(read_model(scaled.bytes()), DiagCode::UnsupportedOp,
                   "rope scaling \"dynamic\" is not read");
}

TEST_CASE("GGUF keys that ask for what is not done are refused, unknown ones told") {
  GgufWriter clamped = small_llama();
  clamped.key("llama.attention.clamp_kqv", 8.0f).key("llama.logit_scale", 0.5f);
  const Diagnostics refused = read_model(clamped.bytes());
  check_error(refused, DiagCode::UnsupportedOp, "llama.attention.clamp_kqv");
  check_error(refused, DiagCode::UnsupportedOp, "llama.logit_scale");
  GgufWriter harmless = small_llama();
  harmless.key("llama.attention.clamp_kqv", 0.0f).key("llama.novelty", 1u);
  const Diagnostics told = read_model(harmless.bytes());
  CHECK(told.error_count() == 0);
  check_error(told, DiagCode::BadField, "keys that nothing reads: \"llama.novelty\"");
  GgufWriter text = small_llama();
  text.key("llama.rope.freq_base", std::string("high"));
  check_error(read_model(text.bytes()), DiagCode::BadField, "is a string, wanted a finite real");
  std::string endless = small_llama().bytes();
  const std::string epsilon = raw_value(1e-5f);
  endless.replace(endless.find(epsilon), epsilon.size(),
                  raw_value(std::numeric_limits<float>::infinity()));
  const Diagnostics one = read_model(endless);
  check_error(one, DiagCode::BadField, "wanted a finite real");
  CHECK(one.error_count() == 1);
  constexpr uint32_t kF64 = 12;
  for (const auto& [value, text] : {std::pair(1e300, "1e+300"), std::pair(-1e-300, "-1e-300")}) {
    GgufWriter beyond = small_llama();
    beyond.raw_key("llama.attention.scale", kF64, raw_value(value));
    check_only_error(read_model(beyond.bytes()), DiagCode::Limit,
                     std::string("\"llama.attention.scale\" is ") + text + ", which f32");
  }
}

TEST_CASE("GGUF keys that say other sizes than the tensors are refused") {
  const auto with = [](const std::string& name, uint32_t value) {
    GgufWriter writer = small_llama();
    writer.key("llama." + name, value);
    return read_model(writer.bytes());
  };
  check_only_error(with("vocab_size", 13), DiagCode::BadShape,
                   "\"llama.vocab_size\" is 13, tensor \"token_embd.weight\" has 12 rows");
  check_only_error(with("feed_forward_length", 15), DiagCode::BadShape,
                   "is 15, tensor \"blk.0.ffn_down.weight\" has 16 columns");
  CHECK_FALSE(with("vocab_size", 12).has_errors());
  CHECK_FALSE(with("feed_forward_length", 16).has_errors());
}

TEST_CASE("what follows from a fault in a GGUF file is not told as well") {
  GgufWriter heads;
  heads.key("general.architecture", std::string("llama")).key("llama.block_count", 1u);
  heads.key("llama.embedding_length", 8u).key("llama.attention.head_count", 0u);
  heads.key("llama.attention.head_count_kv", 2u).key("llama.context_length", 64u);
  heads.key("llama.rope.dimension_count", 4u).key("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  add_small_llama_tensors(heads);
  check_only_error(read_model(heads.bytes()), DiagCode::Limit, "head_count\" is 0, wanted 1");
  GgufWriter narrow = small_llama();
  narrow.zeros("rope_freqs.weight", {3});
  check_only_error(read_model(narrow.bytes()), DiagCode::BadShape, "\"rope_freqs.weight\"");
}

TEST_CASE("GGUF sizes that cannot be are refused") {
  const auto with = [](const std::string& name, uint32_t value) {
    GgufWriter writer = small_llama();
    writer.key("llama." + name, value);
    return read_model(writer.bytes());
  };
  check_error(with("attention.head_count_kv", 3), DiagCode::BadShape, "2 heads over 3");
  check_error(with("attention.key_length", 5000), DiagCode::Limit, "wanted 1 to 512");
  check_error(with("rope.dimension_count", 3), DiagCode::BadShape, "odd number");
  GgufWriter empty;
  empty.key("general.architecture", std::string("llama")).key("llama.block_count", 1u << 31);
  const Diagnostics missing = read_model(empty.bytes());
  check_error(missing, DiagCode::Limit, "\"llama.block_count\" is 2147483648");
  check_error(missing, DiagCode::BadField, "key \"llama.embedding_length\" is missing");
}

TEST_CASE("--ctx and --chunks are for language models, and within their range") {
  const auto chosen = [](std::optional<int64_t> context, std::vector<int64_t> chunks) {
    return read_model(small_llama().bytes(),
                      {.language = {.context = context, .chunks = std::move(chunks)}});
  };
  check_error(chosen(0, {}), DiagCode::BadOption, "--ctx is 0, wanted 1 to 2^20");
  check_error(chosen(16, {1, 17}), DiagCode::BadOption, "--chunks wants");
  check_error(chosen(16, {2, 2}), DiagCode::BadOption, "--chunks wants");
  check_error(chosen(100, {1}), DiagCode::BadOption, "the model was made for 64 tokens");
  for (const int64_t verify : {1, 17}) {
    check_error(read_model(small_llama().bytes(),
                           {.language = {.context = 16, .chunks = {}, .verify = verify}}),
                DiagCode::BadOption, "wanted 2 to 16");
  }
  Diagnostics diagnostics;
  CHECK_FALSE(read_graph(bytes_of(relu_graph()), "model.json", diagnostics, kDecodeAndFour));
  check_only_error(diagnostics, DiagCode::BadOption, "are for language models");
}

TEST_CASE("without --ctx caches have the model's length, at most 4096, which is told") {
  GgufWriter writer;
  add_small_llama_keys(writer);
  add_small_llama_tensors(writer);
  const SourceGraph small = good_model(writer.bytes());
  CHECK(std::get<int64_t>(small.states[0].shape[2]) == 64);
  CHECK(small.entries.size() == 4);  // 1, 8 and 32 tokens and a step: more than 64 do not fit
}

// ---- models in several files ----

std::string part(uint16_t number, uint16_t count, uint32_t tensors, GgufWriter writer) {
  writer.raw_key("split.no", 2, raw_value(number)).raw_key("split.count", 2, raw_value(count));
  return writer.key("split.tensors.count", tensors).bytes();
}

TEST_CASE("a GGUF model in several files is read by its first one") {
  const TemporaryFolder folder;
  GgufWriter first;
  add_small_llama_keys(first);
  GgufWriter second;
  add_small_llama_tensors(second);
  const std::string path = folder.write("m-00001-of-00002.gguf", part(0, 2, 11, first));
  Diagnostics diagnostics;
  CHECK_FALSE(load_module(path, kDecodeAndFour, diagnostics).has_value());
  check_only_error(diagnostics, DiagCode::FileMissing, "part 2 of the model does not exist");
  const std::string other = folder.write("m-00002-of-00002.gguf", part(1, 2, 11, second));
  Diagnostics fine;
  const auto module = load_module(path, kDecodeAndFour, fine);
  INFO(fine.text());
  CHECK(module.has_value());
  Diagnostics wrong;
  CHECK_FALSE(load_module(other, kDecodeAndFour, wrong).has_value());
  check_only_error(wrong, DiagCode::FileFormat, "-00001-of-00002.gguf");
}

TEST_CASE("GGUF parts that do not belong together are refused") {
  const TemporaryFolder folder;
  GgufWriter first;
  add_small_llama_keys(first);
  GgufWriter second;
  add_small_llama_tensors(second);
  const std::string path = folder.write("m-00001-of-00002.gguf", part(0, 2, 12, first));
  folder.write("m-00002-of-00002.gguf", part(0, 2, 12, second));
  Diagnostics wrong;
  CHECK_FALSE(load_module(path, kDecodeAndFour, wrong).has_value());
  check_only_error(wrong, DiagCode::FileFormat, "says that it is part 1 of 2");
  folder.write("m-00002-of-00002.gguf", part(1, 2, 12, second));
  Diagnostics few;
  CHECK_FALSE(load_module(path, kDecodeAndFour, few).has_value());
  check_only_error(few, DiagCode::FileFormat, "have 11 tensors, the first one says 12");
}

// ---- text ----

const fb::Text* text_of(const SourceGraph& graph) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(graph.text.data()),
                                 graph.text.size());
  REQUIRE(fb::VerifyTextBuffer(verifier));
  return fb::GetText(graph.text.data());
}

std::string token_of(const fb::Text& text, uint32_t id) {
  const uint32_t begin = id == 0 ? 0 : text.token_ends()->Get(id - 1);
  return {reinterpret_cast<const char*>(text.token_bytes()->data()) + begin,
          text.token_ends()->Get(id) - begin};
}

GgufWriter with_tokens() {
  GgufWriter writer = small_llama();
  writer.key("tokenizer.ggml.model", std::string("gpt2"));
  writer.key("tokenizer.ggml.pre", std::string("smollm"));
  writer.key("tokenizer.ggml.tokens",
             std::vector<std::string>{"<|im_end|>", "a", "b", "ab", "\xC4\xA0",
                                      "\xC4\xA0"
                                      "ab",
                                      "\xC3\xA9"});
  writer.raw_key("tokenizer.ggml.token_type", kArray,
                 raw_value<uint32_t>(5) + raw_value<uint64_t>(7) +
                     raw_bytes(std::vector<int32_t>{3, 1, 1, 1, 1, 1, 1}));
  writer.key("tokenizer.ggml.merges", std::vector<std::string>{"a b", "\xC4\xA0 ab"});
  writer.key("tokenizer.ggml.eos_token_id", 1u).key("tokenizer.ggml.bos_token_id", 0u);
  writer.key("tokenizer.chat_template", std::string("{{ messages }}"));
  return writer.key("tokenizer.chat_template.tools", std::string("{{ tools }}"));
}

TEST_CASE("a GGUF model's tokens, merges and templates travel with it") {
  const SourceGraph graph = good_model(with_tokens().bytes(), kDecodeAndFour);
  const fb::Text& text = *text_of(graph);
  CHECK(text.kind() == fb::TokenizerKind::BytePairs);
  CHECK(text.split() == fb::WordSplit::DigitsGpt2);
  REQUIRE(text.token_ends()->size() == 7);
  CHECK(token_of(text, 0) == "<|im_end|>");
  CHECK(token_of(text, 5) == " ab");
  CHECK(token_of(text, 6) == "\xE9");  // of Latin-1's e with an acute: a byte, not a character
  REQUIRE(text.merges()->size() == 2);
  CHECK(text.merges()->Get(1)->left() == 4);
  CHECK(text.merges()->Get(1)->right() == 3);
  CHECK(text.merges()->Get(1)->joined() == 5);
  REQUIRE(text.stop_ids()->size() == 2);
  CHECK(text.stop_ids()->Get(0) == 0);
  CHECK(text.stop_ids()->Get(1) == 1);
  CHECK_FALSE(text.add_begin());
  CHECK(text.begin() == 0);
  CHECK(text.context_tokens() == 32);
  REQUIRE(text.templates()->size() == 2);
  CHECK(text.templates()->Get(1)->name()->str() == "tools");
  CHECK(text.templates()->Get(0)->source()->str() == "{{ messages }}");
}

TEST_CASE("a converted model keeps its tokens and templates; a broken buffer of them is refused") {
  const TemporaryFolder folder;
  const std::string path = folder.write("model.gguf", with_tokens().bytes());
  const SourceGraph direct = good_model(with_tokens().bytes(), kDecodeAndFour);
  for (const std::string name : {"model.json", "model.rlxg"}) {
    Diagnostics diagnostics;
    const auto text = convert_graph(path, folder.path(name), diagnostics, kDecodeAndFour);
    INFO(diagnostics.text());
    REQUIRE(text.has_value());
    folder.write(name, *text);
    const auto converted = load_module(folder.path(name), {}, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(converted.has_value());
    CHECK(converted->text == direct.text);
  }
  for (const std::string bytes : {"AAAA", "/////w==", "EAAAAA=="}) {
    Diagnostics diagnostics;
    const std::string broken =
        R"({"rlx_graph": 1, "inputs": [], "nodes": [], "outputs": [], "text": {"base64": ")" +
        bytes + "\"}}";
    CHECK_FALSE(load_module(folder.write("broken.json", broken), {}, diagnostics).has_value());
    check_only_error(diagnostics, DiagCode::BadField, "is no buffer of text.fbs");
  }
}

GgufWriter with_words(std::string word) {
  GgufWriter writer = small_llama();
  writer.key("tokenizer.ggml.model", std::string("bert"));
  writer.key("tokenizer.ggml.pre", std::string("jina-v2-en"));
  writer.key("tokenizer.ggml.tokens",
             std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", std::move(word), "ing",
                                      "\xE2\x96\x81[unused1]"});
  return writer.raw_key("tokenizer.ggml.token_type", kArray,
                        raw_value<uint32_t>(5) + raw_value<uint64_t>(7) +
                            raw_bytes(std::vector<int32_t>{3, 3, 3, 3, 1, 1, 1}));
}

TEST_CASE("BERT's tokens of a GGUF file: words behind a mark, ids by their keys or names") {
  GgufWriter writer = with_words("\xE2\x96\x81work");
  const SourceGraph graph = good_model(writer.bytes(), kDecodeAndFour);
  const fb::Text& text = *text_of(graph);
  CHECK(text.kind() == fb::TokenizerKind::WordPiece);
  CHECK(token_of(text, 3) == "[SEP]");
  CHECK(token_of(text, 4) == " work");
  CHECK(token_of(text, 5) == "ing");
  CHECK(text.unknown() == 1);
  CHECK(text.begin() == 2);
  CHECK(text.add_begin());
  CHECK(text.end() == 3);
  CHECK(text.add_end());
  CHECK(text.cleans_text());
  CHECK(text.separates_ideographs());
  CHECK(text.strips_accents());
  CHECK(text.lower_case());
  CHECK(text.joins_punctuation());
  CHECK(text.most_word_characters() == 100);
  writer.key("tokenizer.ggml.cls_token_id", 0u).key("tokenizer.ggml.seperator_token_id", 2u);
  writer.raw_key("tokenizer.ggml.add_sep_token", 7, raw_value<uint8_t>(0));
  writer.raw_key("tokenizer.ggml.normalizer.strip_accents", 7, raw_value<uint8_t>(0));
  const SourceGraph told = good_model(writer.bytes(), kDecodeAndFour);
  CHECK(text_of(told)->begin() == 0);
  CHECK(text_of(told)->end() == 2);
  CHECK_FALSE(text_of(told)->add_end());
  CHECK(text_of(told)->lower_case());
  CHECK_FALSE(text_of(told)->strips_accents());
}

TEST_CASE("words with capitals keep them where a GGUF file does not say otherwise") {
  GgufWriter writer = with_words("\xE2\x96\x81Work");
  const SourceGraph cased = good_model(writer.bytes(), kDecodeAndFour);
  CHECK_FALSE(text_of(cased)->lower_case());
  CHECK_FALSE(text_of(cased)->strips_accents());
  writer.raw_key("tokenizer.ggml.normalizer.lowercase", 7, raw_value<uint8_t>(1));
  const SourceGraph told = good_model(writer.bytes(), kDecodeAndFour);
  CHECK(text_of(told)->lower_case());
  CHECK(text_of(told)->strips_accents());
}

TEST_CASE("a GGUF tokenizer that is not read is told, and the model runs on ids") {
  GgufWriter writer = small_llama();
  writer.key("tokenizer.ggml.model", std::string("rwkv"));
  const Diagnostics diagnostics = read_model(writer.bytes());
  CHECK(diagnostics.error_count() == 0);
  check_error(diagnostics, DiagCode::BadField, "tokenizer \"rwkv\" is not read");
  GgufWriter unknown = small_llama();
  unknown.key("tokenizer.ggml.model", std::string("gpt2"));
  unknown.key("tokenizer.ggml.pre", std::string("novel"));
  check_error(read_model(unknown.bytes()), DiagCode::BadField, "cuts words by \"novel\"");
  GgufWriter many = with_tokens();
  many.key("tokenizer.ggml.eot_token_id", 7u);
  check_error(read_model(many.bytes()), DiagCode::Limit, "wanted -1 to 6");
  GgufWriter number = with_tokens();
  number.key("tokenizer.chat_template.rag", 7u);
  check_only_error(read_model(number.bytes()), DiagCode::BadField,
                   "\"tokenizer.chat_template.rag\" is an integer, wanted a string");
}

// ---- angles ----

TEST_CASE("rope factors divide angles, and linear scaling stretches them") {
  gguf::RopeAngles angles{.rotated = 4, .base = 100, .factors = {1, 4}, .stretch = 2};
  const gguf::RopeTables tables = gguf::rope_tables(angles, 3, {});
  REQUIRE(tables.cos.size() == 6);
  CHECK(tables.cos[2 * 2] == Approx(std::cos(2.0 / 2)));
  CHECK(tables.sin[2 * 2 + 1] == Approx(std::sin(2.0 * 0.1 / 4 / 2)));
}

}  // namespace
}  // namespace rlx::test
