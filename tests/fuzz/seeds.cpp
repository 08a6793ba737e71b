// SPDX-License-Identifier: Apache-2.0
// Writes seeds and dictionaries for the fuzz targets of the importer: ONNX's own small models, what
// they become as graph files, the graphs of the examples, weight files of every element type, text
// sections, and chat templates, those of their tests.
//   rlx_fuzz_seeds OUT [FOLDER...] [TEMPLATES.json]    folders are searched for .onnx and .json
//   files
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "compiler/import/import.h"
#include "compiler/import/model_files.h"
#include "compiler/import/onnx/onnx_reader.h"
#include "compiler/ops/op_def.h"
#include "runtime/text/jinja_builtin.h"
#include "runtime/text/jinja_json.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/text_fixture.h"

using namespace rlx;

namespace {

constexpr size_t kMostBytes = 8192;  // of a seed: small ones are mutated to more effect

struct Seeds {
  std::filesystem::path folder;
  size_t count = 0;

  void add(const std::string& format, const std::string& name, std::string_view bytes) {
    if (bytes.size() > kMostBytes) return;
    std::filesystem::create_directories(folder / format);
    std::ofstream file(folder / format / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    ++count;
  }

  // A graph in each form that a graph file has.
  void add_graph(const std::string& name, const SourceGraph& graph) {
    Diagnostics ignored;
    add("json", name + ".json", write_json_graph(graph));
    if (const auto bytes = write_rlxg_graph(graph, ignored)) add("rlxg", name + ".rlxg", *bytes);
  }
};

std::string name_of(const std::filesystem::path& path) {
  return path.parent_path().filename().string() + "_" + path.stem().string();
}

void add_model(Seeds& seeds, const std::filesystem::path& path) {
  FileResult file = map_file(path.string());
  const auto* mapped = std::get_if<std::shared_ptr<const MappedFile>>(&file);
  if (mapped == nullptr) return;
  const auto bytes = (*mapped)->bytes();
  if (path.extension() == ".onnx") {
    seeds.add("onnx", name_of(path) + ".onnx",
              {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  Diagnostics ignored;
  if (const auto graph =
          read_graph({*mapped, bytes}, path.string(), ignored, {.keep_symbols = true}))
    seeds.add_graph(name_of(path), *graph);
}

void add_npy(Seeds& seeds) {
  constexpr std::array kTypes = {"<f4", "<f2", "<f8", ">f4", "|i1", "|u1", "<i2",
                                 ">i2", "<i4", "<u4", "<i8", "|b1", "<c8"};
  constexpr std::array kVersions = {1, 2, 3};
  for (size_t i = 0; i < kTypes.size(); ++i) {
    const int version = kVersions.at(i % 3);
    const bool fortran = i % 2 == 1;
    std::string header = std::string("{'descr': '") + kTypes.at(i) +
                         "', 'fortran_order': " + (fortran ? "True" : "False") +
                         ", 'shape': (2, 3), }";
    const size_t prefix = version == 1 ? 10 : 12;
    while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string bytes = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
    const auto length = static_cast<uint32_t>(header.size());
    bytes.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
    bytes += header;
    bytes.append(6 * static_cast<size_t>(kTypes.at(i)[2] - '0'), '\1');
    seeds.add(version == 1 ? "npy" : "npy_long", "seed_" + std::to_string(i) + ".npy", bytes);
  }
}

void add_safetensors(Seeds& seeds) {
  struct Row {
    const char* type;
    size_t bytes;
  };
  constexpr std::array kRows = {Row{"F32", 4}, Row{"F16", 2}, Row{"BF16", 2}, Row{"F64", 8},
                                Row{"I8", 1},  Row{"U8", 1},  Row{"I16", 2},  Row{"I32", 4},
                                Row{"U32", 4}, Row{"I64", 8}, Row{"BOOL", 1}, Row{"F8_E4M3", 1},
                                Row{"U64", 8}};
  std::string all = R"({"__metadata__":{"format":"pt"})";
  size_t offset = 0;
  for (const Row& row : kRows) {
    const std::string entry = std::string("\"t") + row.type + R"(":{"dtype":")" + row.type +
                              R"(","shape":[2,3],"data_offsets":[)";
    const auto with_header = [&](const std::string& header, size_t size) {
      const uint64_t length = header.size();
      std::string bytes(reinterpret_cast<const char*>(&length), 8);
      return bytes + header + std::string(size, '\1');
    };
    const size_t size = 6 * row.bytes;
    seeds.add("safetensors", std::string(row.type) + ".safetensors",
              with_header("{" + entry + "0," + std::to_string(size) + "]}}", size));
    all += "," + entry + std::to_string(offset) + "," + std::to_string(offset + size) + "]}";
    offset += size;
    seeds.add("safetensors", std::string("all_to_") + row.type + ".safetensors",
              with_header(all + "}", offset));
  }
}

// A model of each version, one with a tokenizer, and one of several files.
void add_gguf(Seeds& seeds) {
  test::GgufWriter writer = test::small_llama();
  seeds.add("gguf", "llama.gguf", writer.bytes());
  writer.version = 2;
  writer.key("tokenizer.ggml.model", std::string("gpt2"))
      .key("tokenizer.ggml.pre", std::string("smollm"))
      .key("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab"})
      .key("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  seeds.add("gguf", "text.gguf", writer.bytes());
  test::GgufWriter part = test::small_llama();
  part.key("split.no", 0u).key("split.count", 2u).key("split.tensors.count", 11u);
  seeds.add("gguf", "part.gguf", part.bytes());
}

// config.json of checkpoints: its weights are never there.
void add_configs(Seeds& seeds) {
  const std::string sizes =
      R"("hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "eos_token_id": [2, 3],
         "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": true)";
  seeds.add("json", "llama_config.json",
            R"({"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 8,
                "low_freq_factor": 1, "high_freq_factor": 4,
                "original_max_position_embeddings": 32}, )" +
                sizes + "}");
  seeds.add("json", "qwen_config.json",
            R"({"model_type": "qwen3", "head_dim": 4, "rope_parameters": {"rope_theta": 1e6,
                "rope_type": "yarn", "factor": 4, "beta_fast": 32}, )" +
                sizes + "}");
}

void write_gguf_dictionary(const Seeds& seeds) {
  std::ofstream words(seeds.folder / "gguf.dict");
  for (const char* word : {"general.architecture",
                           "general.alignment",
                           "general.type",
                           "llama",
                           "qwen3moe",
                           "gemma3",
                           "phi3",
                           "mistral3",
                           "olmo2",
                           "granite",
                           "block_count",
                           "embedding_length",
                           "attention.head_count",
                           "attention.key_length",
                           "attention.sliding_window",
                           "expert_count",
                           "expert_used_count",
                           "rope.scaling.type",
                           "rope.scaling.factor",
                           "yarn",
                           "linear",
                           "rope_freqs.weight",
                           "output.weight",
                           "ffn_gate_inp.weight",
                           "tokenizer.ggml.token_type",
                           "tokenizer.chat_template"})
    words << '"' << word << "\"\n";
}

// A text section for each kind of tokenizer.
void add_text(Seeds& seeds) {
  const auto add = [&seeds](const std::string& name, const test::TextSpec& spec) {
    const std::vector<std::byte> bytes = test::serialise(spec);
    seeds.add("text", name + ".text", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  for (const fb::WordSplit split : fb::EnumValuesWordSplit()) {
    test::TextSpec pairs = test::small_text();
    pairs.split = split;
    pairs.nfc = split == fb::WordSplit::Qwen2;
    pairs.ignore_merges = split == fb::WordSplit::Llama3;
    add(fb::EnumNameWordSplit(split), pairs);
  }
  for (const fb::TokenizerKind kind : {fb::TokenizerKind::Scores, fb::TokenizerKind::Unigram}) {
    test::TextSpec pieces = {.kind = kind, .add_space_prefix = true, .remove_extra_spaces = true};
    pieces.unknown = static_cast<int32_t>(pieces.add("<unk>", fb::TokenKind::Unknown));
    for (const char* piece : {"\u2581", "a", "aa", "\u2581the", "th", "e", "1", "\u4E16"})
      pieces.add(piece, fb::TokenKind::Normal, -static_cast<float>(pieces.tokens.size()));
    pieces.add("\xFF", fb::TokenKind::Byte);
    pieces.add("<|end|>", fb::TokenKind::Control);
    // A trie of one letter: 'a' becomes "bc".
    std::vector<uint32_t> units(256);
    units[0] = 1U << 10U;
    units[1U ^ 'a'] = 2U << 10U | 1U << 8U | 'a';
    units[1U ^ 'a' ^ 2U] = 1U << 31U;
    const auto trie_bytes = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
    pieces.charsmap.assign(reinterpret_cast<const char*>(&trie_bytes), sizeof trie_bytes);
    pieces.charsmap.append(reinterpret_cast<const char*>(units.data()), trie_bytes);
    pieces.charsmap.append("bc\0", 3);
    add(fb::EnumNameTokenizerKind(kind), pieces);
  }
  test::TextSpec words = {.kind = fb::TokenizerKind::WordPiece, .cleans_text = true};
  words.separates_ideographs = words.strips_accents = words.lower_case = true;
  words.joins_punctuation = true;
  words.most_word_characters = 20;
  words.unknown = static_cast<int32_t>(words.add("[UNK]", fb::TokenKind::Control));
  for (const char* piece : {" a", "a", "aa", " the", "th", "e", " 1", " \u4E16", " ."})
    words.add(piece);
  add(fb::EnumNameTokenizerKind(words.kind), words);
}

// The templates of a file that tests/text/make_template_cases.py wrote.
void add_templates(Seeds& seeds, const std::filesystem::path& path) {
  FileResult file = map_file(path.string());
  const auto* mapped = std::get_if<std::shared_ptr<const MappedFile>>(&file);
  if (mapped == nullptr) return;
  const auto bytes = (*mapped)->bytes();
  const auto read = jinja::read_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const auto* cases = std::get_if<jinja::Value>(&read);
  if (cases == nullptr) return;
  const jinja::Values values(nullptr);
  for (const jinja::Member& member : values.find(cases->dict(), "templates")->dict().members) {
    seeds.add("template", std::string(member.key.text().bytes()), member.value.text().bytes());
  }
  size_t number = 0;
  for (const jinja::Value& entry : values.find(cases->dict(), "language")->list().items) {
    seeds.add("template", "language_" + std::to_string(number++),
              values.find(entry.dict(), "template")->text().bytes());
  }
}

void write_template_dictionary(const Seeds& seeds) {
  std::ofstream words(seeds.folder / "template.dict");
  for (const auto table : {jinja::text_filters(), jinja::list_filters(), jinja::test_table(),
                           jinja::text_methods(), jinja::dict_methods(), jinja::function_table()}) {
    for (const jinja::Builtin& builtin : table) words << "\"" << builtin.name << "\"\n";
  }
  for (const char* word : {"{{",
                           "}}",
                           "{%-",
                           "-%}",
                           "{#",
                           "#}",
                           "if",
                           "elif",
                           "else",
                           "endif",
                           "for",
                           "in",
                           "endfor",
                           "set",
                           "endset",
                           "macro",
                           "endmacro",
                           "call",
                           "endcall",
                           "filter",
                           "endfilter",
                           "with",
                           "endwith",
                           "raw",
                           "endraw",
                           "generation",
                           "endgeneration",
                           "break",
                           "continue",
                           "not",
                           "and",
                           "or",
                           "is",
                           "loop",
                           "caller",
                           "messages",
                           "content",
                           "role",
                           "tools",
                           "namespace(a=1)"}) {
    words << "\"" << word << "\"\n";
  }
}

// Words of each format, in libFuzzer's form: one quoted string a line.
void write_dictionaries(const Seeds& seeds) {
  std::set<std::string> graph_words;
  for (const OpDef* op : all_ops()) {
    graph_words.emplace(op->name);
    for (const AttrSpec& attribute : op->attrs) graph_words.emplace(attribute.name);
  }
  std::ofstream graphs(seeds.folder / "json.dict");
  for (const std::string& word : graph_words) graphs << "\"\\\"" << word << "\\\"\"\n";
  for (const char* word : {"symbols",
                           "params",
                           "constants",
                           "states",
                           "entries",
                           "inputs",
                           "nodes",
                           "outputs",
                           "shape",
                           "dtype",
                           "data",
                           "op",
                           "attributes",
                           "name",
                           "min",
                           "max",
                           "multiple_of",
                           "auto_promote",
                           "null",
                           "true",
                           "false",
                           "inf",
                           "1099511627775",
                           "281474976710655",
                           "9223372036854775807",
                           "1e308"})
    graphs << "\"" << word << "\"\n";
  std::ofstream binary(seeds.folder / "rlxg.dict");
  for (const std::string& word : graph_words) binary << "\"" << word << "\"\n";
  std::ofstream models(seeds.folder / "onnx.dict");
  for (const OnnxOperator& op : onnx_operators()) models << "\"" << op.name << "\"\n";
  std::ofstream arrays(seeds.folder / "npy.dict");
  for (const char* word : {"'descr'", "'fortran_order'", "'shape'", "True", "False", "'<f4'",
                           "'|O'", "(1099511627775,)", "()", "(0, 4611686018427387904)", "'>c8'"})
    arrays << "\"" << word << "\"\n";
  std::ofstream tensors(seeds.folder / "safetensors.dict");
  for (const char* word : {"dtype", "shape", "data_offsets", "__metadata__", "F32", "BF16", "I64",
                           "F8_E5M2", "18446744073709551615", "[0,0]", "1099511627776"})
    tensors << "\"" << word << "\"\n";
  std::ofstream tokens(seeds.folder / "text.dict");
  for (const char* word : {"<|end|>", "<tool>", "\\xE2\\x96\\x81", "the", "\\xFF\\xFF\\xFF\\xFF"})
    tokens << "\"" << word << "\"\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::puts("usage: rlx_fuzz_seeds OUT [FOLDER...] [TEMPLATES.json]");
    return 1;
  }
  Seeds seeds{.folder = argv[1]};
  std::filesystem::create_directories(seeds.folder);
  for (int i = 2; i < argc; ++i) {
    if (std::filesystem::is_regular_file(argv[i])) add_templates(seeds, argv[i]);
    if (!std::filesystem::is_directory(argv[i])) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      const auto extension = entry.path().extension();
      if (extension == ".onnx" || extension == ".json") add_model(seeds, entry.path());
    }
  }
  add_npy(seeds);
  add_safetensors(seeds);
  add_text(seeds);
  add_gguf(seeds);
  add_configs(seeds);
  write_gguf_dictionary(seeds);
  write_dictionaries(seeds);
  write_template_dictionary(seeds);
  std::printf("%zu seeds in %s\n", seeds.count, argv[1]);
  return 0;
}
