// SPDX-License-Identifier: Apache-2.0
// Checkpoints: folders with config.json, safetensors and tokenizer.json, and hostile ones, each
// refused for what it is. Their logits are tests/gguf/gguf_test.py's.
#include <map>

#include "schema/text_generated.h"
#include "tests/import/import_support.h"

namespace rlx::test {
namespace {

struct StoredTensor {
  std::string dtype = "F32";
  std::vector<int64_t> shape;
};
using StoredTensors = std::map<std::string, StoredTensor>;

std::string list_text(const std::vector<int64_t>& items) {
  std::string text;
  for (const int64_t item : items) text += (text.empty() ? "" : ", ") + std::to_string(item);
  return "[" + text + "]";
}

std::string with_length(const std::string& header, const std::string& data) {
  const uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + data;
}

// A safetensors file of zeros.
std::string stored(const StoredTensors& tensors) {
  std::string header;
  uint64_t at = 0;
  for (const auto& [name, tensor] : tensors) {
    uint64_t bytes = tensor.dtype == "BF16" || tensor.dtype == "F16" ? 2 : 4;
    for (const int64_t dim : tensor.shape) bytes *= static_cast<uint64_t>(dim);
    header += (header.empty() ? "{\"" : ", \"") + name + R"(": {"dtype": ")" + tensor.dtype +
              R"(", "shape": )" + list_text(tensor.shape) + R"(, "data_offsets": [)" +
              std::to_string(at) + ", " + std::to_string(at + bytes) + "]}";
    at += bytes;
  }
  return with_length(header + "}", std::string(at, '\0'));
}

// A model of one layer: 8 wide, two heads, 12 tokens.
StoredTensors small_tensors() {
  StoredTensors tensors = {{"model.embed_tokens.weight", {"BF16", {12, 8}}},
                           {"model.norm.weight", {"BF16", {8}}},
                           {"lm_head.weight", {"F16", {12, 8}}}};
  const std::string layer = "model.layers.0.";
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
    tensors[layer + norm + ".weight"] = {"F32", {8}};
  for (const char* product : {"q_proj", "k_proj", "v_proj", "o_proj"})
    tensors[layer + "self_attn." + product + ".weight"] = {"BF16", {8, 8}};
  tensors[layer + "mlp.gate_proj.weight"] = {"BF16", {16, 8}};
  tensors[layer + "mlp.up_proj.weight"] = {"BF16", {16, 8}};
  tensors[layer + "mlp.down_proj.weight"] = {"BF16", {8, 16}};
  return tensors;
}

// `extra` fields begin with a comma.
std::string small_config(const std::string& extra = {}, const std::string& type = "llama") {
  return R"({"model_type": ")" + type +
         R"(", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
             "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "eos_token_id": [3])" +
         extra + "}";
}

const ImportOptions kFour = {.language = {.context = 32, .chunks = {1, 4}, .cache = DType::f32}};

struct Read {
  std::optional<SourceGraph> graph;
  Diagnostics diagnostics;
};
Read read_at(const std::string& path) {
  Read read;
  read.graph = read_graph_file(path, read.diagnostics, kFour);
  CHECK(read.graph.has_value() != read.diagnostics.has_errors());
  return read;
}

Read read_model(const std::string& config, const std::string& weights) {
  const TemporaryFolder folder;
  folder.write("config.json", config);
  folder.write("model.safetensors", weights);
  return read_at(folder.path());
}

void check_refused(const Read& read, DiagCode code, const std::string& part) {
  REQUIRE_FALSE(read.graph.has_value());
  check_only_error(read.diagnostics, code, part);
}

const SourceNode* find_node(const SourceGraph& graph, const std::string& op) {
  for (const SourceNode& node : graph.entries.front().nodes) {
    if (node.op == op) return &node;
  }
  return nullptr;
}

TEST_CASE("a checkpoint is read by its folder or any of its files") {
  const TemporaryFolder folder;
  folder.write("config.json", small_config());
  folder.write("model.safetensors", stored(small_tensors()));
  const Read read = read_at(folder.path());
  INFO(read.diagnostics.text());
  REQUIRE(read.graph.has_value());
  CHECK(read.graph->entries.size() == 3);
  CHECK(read.graph->params.size() == 12);
  for (const char* file : {"/config.json", "/model.safetensors", "/"}) {
    const Read same = read_at(folder.path() + file);
    REQUIRE(same.graph.has_value());
    CHECK(write_json_graph(*same.graph) == write_json_graph(*read.graph));
  }
  Diagnostics diagnostics;
  CHECK(load_module(folder.path(), kFour, diagnostics).has_value());
  INFO(diagnostics.text());
  CHECK_FALSE(diagnostics.has_errors());
}

TEST_CASE("a checkpoint's rows of q and k are in the order of its authors") {
  const Read read = read_model(small_config(), stored(small_tensors()));
  REQUIRE(read.graph.has_value());
  const SourceNode* rope = find_node(*read.graph, "rope");
  REQUIRE(rope != nullptr);
  CHECK(std::get<std::string>(rope->attributes.at("style")) == "neox");
}

TEST_CASE("a checkpoint whose head is tied has no other") {
  const std::string tied = small_config(R"(, "tie_word_embeddings": true)");
  StoredTensors tensors = small_tensors();
  const Read untied = read_model(tied, stored(tensors));
  REQUIRE(untied.graph.has_value());
  CHECK(untied.graph->params.size() == 12);
  CHECK(untied.diagnostics.text().find("\"lm_head.weight\" and") != std::string::npos);
  tensors["lm_head.weight"].dtype = "BF16";  // zeros as well: the same
  const Read same = read_model(tied, stored(tensors));
  REQUIRE(same.graph.has_value());
  CHECK(same.graph->params.size() == 11);
  CHECK(same.diagnostics.text().empty());
  tensors.erase("lm_head.weight");
  CHECK(read_model(tied, stored(tensors)).graph.has_value());
  check_refused(read_model(small_config(), stored(tensors)), DiagCode::BadField,
                "lacks tensors of a llama: \"lm_head.weight\"");
}

TEST_CASE("shards are read as their index says") {
  const TemporaryFolder folder;
  folder.write("config.json", small_config());
  StoredTensors first = small_tensors();
  StoredTensors second;
  second["lm_head.weight"] = first.at("lm_head.weight");
  first.erase("lm_head.weight");
  folder.write("a.safetensors", stored(first));
  const auto write_index = [&](const std::string& head, const std::string& extra = {}) {
    std::string map;
    for (const auto& [name, tensor] : first) map += '"' + name + R"(": "a.safetensors", )";
    folder.write("model.safetensors.index.json",
                 R"({"weight_map": {)" + map + extra + R"("lm_head.weight": ")" + head + "\"}}");
    return read_at(folder.path());
  };
  check_refused(write_index("b.safetensors"), DiagCode::FileMissing,
                "file \"b.safetensors\", which does not exist");
  folder.write("b.safetensors", stored(second));
  CHECK(write_index("b.safetensors").graph.has_value());
  check_refused(write_index("a.safetensors"), DiagCode::FileFormat,
                "has tensor \"lm_head.weight\" in \"a.safetensors\", which does not have it");
  for (const char* outside : {"../b.safetensors", "/b.safetensors", "x/b.safetensors", "..", ""})
    check_refused(write_index(outside), DiagCode::BadField, "is not in the checkpoint's folder");
  check_refused(write_index("b.safetensors", R"("model.norm.bias": "b.safetensors", )"),
                DiagCode::FileFormat, "\"model.norm.bias\" in \"b.safetensors\"");
  first["lm_head.weight"] = {"F16", {12, 8}};
  folder.write("a.safetensors", stored(first));
  first.erase("lm_head.weight");
  check_refused(write_index("b.safetensors"), DiagCode::FileFormat,
                "file \"a.safetensors\" has tensor \"lm_head.weight\", which the index has in");
}

TEST_CASE("a checkpoint without weights, or without config.json, is refused") {
  const TemporaryFolder folder;
  check_refused(read_at(folder.path()), DiagCode::FileMissing, "config.json");
  // What kFour asks for is a language model's all the same.
  for (const char* text : {"", "null", "[]"}) {
    folder.write("config.json", text);
    const Read read = read_at(folder.path());
    CHECK_FALSE(read.diagnostics.text().find("bad-option") != std::string::npos);
  }
  folder.write("config.json", small_config());
  check_refused(read_at(folder.path()), DiagCode::FileMissing,
                "neither model.safetensors nor model.safetensors.index.json");
}

TEST_CASE("safetensors that lie about sizes are refused") {
  const std::string config = small_config();
  const auto check = [&](const std::string& weights, DiagCode code, const std::string& part) {
    check_refused(read_model(config, weights), code, part);
  };
  const std::string good = stored(small_tensors());
  check(good.substr(0, 6), DiagCode::FileSize, "ends before its header");
  check(std::string(8, '\xFF') + good.substr(8), DiagCode::FileFormat, "wants a header of");
  check(good.substr(0, good.size() - 4), DiagCode::FileSize, "the file holds");
  check(good + "1234", DiagCode::FileSize, "bytes of data, its tensors take");
  const std::string overlap = R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                                  "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})";
  check(with_length(overlap, std::string(12, '\0')), DiagCode::FileFormat, "inside another tensor");
  const std::string wraps =
      R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 8], "data_offsets": [0, 0]}})";
  check(with_length(wraps, ""), DiagCode::FileSize, "more than 2^48");
}

TEST_CASE("tensors of a checkpoint are all read, or the checkpoint is refused by name") {
  const std::string config = small_config();
  StoredTensors tensors = small_tensors();
  tensors["model.layers.0.self_attn.q_proj.bias"] = {"F32", {8}};
  tensors["score.weight"] = {"F32", {2, 8}};
  check_refused(read_model(config, stored(tensors)), DiagCode::UnsupportedOp,
                "not read of a llama: \"model.layers.0.self_attn.q_proj.bias\", \"score.weight\"");
  tensors = small_tensors();
  tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {2}};
  CHECK(read_model(config, stored(tensors)).graph.has_value());
  check_refused(read_model(small_config(R"(, "attention_bias": true)"), stored(small_tensors())),
                DiagCode::BadField, "\"model.layers.0.self_attn.o_proj.bias\"");
  check_refused(read_model(small_config("", "qwen2"), stored(small_tensors())), DiagCode::BadField,
                "\"model.layers.0.self_attn.v_proj.bias\"");
  tensors = small_tensors();
  tensors["model.norm.weight"].dtype = "I32";
  check_refused(read_model(config, stored(tensors)), DiagCode::BadDtype,
                "tensor \"model.norm.weight\" is of type I32, wanted F32, F16 or BF16");
  tensors["model.norm.weight"] = {"F32", {9}};
  check_refused(read_model(config, stored(tensors)), DiagCode::BadShape, "wanted [8]");
  tensors["model.norm.weight"] = {"F32", {1, 1, 8}};
  check_refused(read_model(config, stored(tensors)), DiagCode::BadShape, "of rank 3");
}

TEST_CASE("config.json that asks for what is not read is refused by name, all at once") {
  const std::string weights = stored(small_tensors());
  const auto check = [&](const std::string& extra, DiagCode code, const std::string& part) {
    INFO(extra);
    check_refused(read_model(small_config(extra), weights), code, part);
  };
  constexpr auto kUnsupported = DiagCode::UnsupportedOp;
  check(R"(, "hidden_act": "gelu")", kUnsupported, "\"gelu\"");
  check(R"(, "use_sliding_window": true)", kUnsupported, "\"use_sliding_window\"");
  check(R"(, "quantization_config": {"bits": 4})", kUnsupported, "\"quantization_config\"");
  check(R"(, "partial_rotary_factor": 0.5)", kUnsupported, "\"partial_rotary_factor\"");
  check(R"(, "layer_types": ["sliding_attention"])", kUnsupported, "\"layer_types\"");
  check(R"(, "rope_scaling": {"type": "longrope"})", kUnsupported, "rope scaling \"longrope\"");
  check(R"(, "rope_scaling": {"type": "yarn", "factor": 4, "mscale": 1})", kUnsupported,
        "rope scaling \"yarn\" with \"mscale\"");
  check(R"(, "rope_scaling": {"type": "linear"})", DiagCode::BadField, "wants \"factor\"");
  check(R"(, "rope_scaling": 4)", DiagCode::BadField, "wanted an object");
  check(R"(, "head_dim": "x")", DiagCode::BadField, "\"head_dim\" is a string");
  check(R"(, "vocab_size": 11)", DiagCode::BadShape, "vocab_size\" is 11, tensor");
  check(R"(, "vocab_size": "x")", DiagCode::BadField, "\"vocab_size\" is a string");
  check(R"(, "intermediate_size": 8)", DiagCode::BadShape, "feed_forward_length\" is 8, tensor");
  check(R"(, "vocab_size": 12, "bos_token_id": 12)", DiagCode::BadField,
        "\"bos_token_id\" is 12, wanted 0 to 11");
  check(R"(, "bos_token_id": -1)", DiagCode::BadField, "\"bos_token_id\" is -1");
  check_refused(read_model(small_config("", "bert"), weights), kUnsupported, "\"bert\"");
  check_refused(read_model("{}", weights), kUnsupported, "\"model_type\" is missing");
  const Read empty = read_model(R"({"model_type": "llama"})", weights);
  CHECK(empty.diagnostics.error_count() == 5);
  check_refused(read_model(R"({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2,
                               "num_hidden_layers": 100000000000, "max_position_embeddings": 64,
                               "rms_norm_eps": 1e-5})",
                           weights),
                DiagCode::Limit, "\"num_hidden_layers\" is 100000000000");
  const Read told = read_model(small_config(R"(, "residual_multiplier": 2)"), weights);
  CHECK(told.diagnostics.text().find("nothing reads: \"residual_multiplier\"") !=
        std::string::npos);
}

// ---- text ----

// `parts`: pre_tokenizer, and what else begins with a comma.
std::string small_tokenizer(const std::string& parts, const std::string& merges = R"("a b")") {
  return R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [)" + merges +
         R"(]}, "added_tokens": [{"id": 4, "content": "<|im_end|>", "special": true},
                                 {"id": 3, "content": "<tool>", "special": false}],
            "pre_tokenizer": )" +
         parts + "}";
}
constexpr const char* kBytes = R"({"type": "ByteLevel", "add_prefix_space": false})";

Read read_with(const std::string& tokenizer, const std::string& settings = {}) {
  const TemporaryFolder folder;
  folder.write("config.json", small_config());
  folder.write("model.safetensors", stored(small_tensors()));
  folder.write("tokenizer.json", tokenizer);
  if (!settings.empty()) folder.write("tokenizer_config.json", settings);
  return read_at(folder.path());
}

// The model is read, its tokenizer is not.
void check_unread(const std::string& tokenizer, const std::string& why) {
  INFO(tokenizer);
  const Read read = read_with(tokenizer);
  REQUIRE(read.graph.has_value());
  CHECK(read.graph->text.empty());
  INFO(read.diagnostics.text());
  CHECK(read.diagnostics.text().find(why) != std::string::npos);
}

TEST_CASE("a checkpoint's tokenizer and templates travel with the graph") {
  const std::string settings =
      R"({"eos_token": {"content": "<|im_end|>"}, "bos_token": "a", "chat_template": "{{ x }}"})";
  for (const char* merge : {R"("a b")", R"(["a", "b"])"}) {
    const Read read = read_with(small_tokenizer(kBytes, merge), settings);
    INFO(read.diagnostics.text());
    REQUIRE(read.graph.has_value());
    const fb::Text& text = *fb::GetText(read.graph->text.data());
    CHECK(text.split() == fb::WordSplit::Gpt2);
    CHECK(text.token_ends()->size() == 5);
    CHECK(text.token_kinds()->Get(3) == fb::TokenKind::UserDefined);
    CHECK(text.token_kinds()->Get(4) == fb::TokenKind::Control);
    REQUIRE(text.merges()->size() == 1);
    CHECK(text.merges()->Get(0)->joined() == 2);
    CHECK(text.begin() == 0);
    CHECK_FALSE(text.add_begin());
    CHECK(text.end() == 4);
    REQUIRE(text.stop_ids()->size() == 2);  // tokenizer_config.json's, and config.json's
    CHECK(text.stop_ids()->Get(0) == 3);
    CHECK(text.templates()->Get(0)->source()->str() == "{{ x }}");
  }
}

TEST_CASE("a tokenizer whose template begins with a token does so") {
  const std::string frame = R"(, "post_processor": {"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]})";
  const Read read = read_with(small_tokenizer(kBytes + frame));
  REQUIRE(read.graph.has_value());
  const fb::Text& text = *fb::GetText(read.graph->text.data());
  CHECK(text.add_begin());
  CHECK_FALSE(text.add_end());
  CHECK(text.begin() == 0);
}

TEST_CASE("a tokenizer frames text as RoBERTa's, and by one token behind it at most") {
  const Read read = read_with(
      small_tokenizer(kBytes + std::string(R"(, "post_processor": {"type": "RobertaProcessing",
                   "sep": ["b", 1], "cls": ["a", 0], "trim_offsets": true})")));
  REQUIRE(read.graph.has_value());
  REQUIRE_FALSE(read.graph->text.empty());
  const fb::Text& text = *fb::GetText(read.graph->text.data());
  CHECK(text.add_begin());
  CHECK(text.begin() == 0);
  CHECK(text.add_end());
  CHECK(text.end() == 1);
  const Read two = read_with(small_tokenizer(
      kBytes + std::string(R"(, "post_processor": {"type": "TemplateProcessing", "single": [
                   {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "a"}},
                   {"SpecialToken": {"id": "b"}}]})")));
  REQUIRE(two.graph.has_value());
  CHECK(two.graph->text.empty());
  CHECK(two.diagnostics.text().find("puts two tokens behind text") != std::string::npos);
}

TEST_CASE("tokenizers that are not read leave ids alone, and say why") {
  check_unread(R"({"model": {"type": "WordLevel"}})", "of type \"WordLevel\"");
  check_unread(small_tokenizer(R"({"type": "Metaspace", "replacement": "_"})"), "by another sign");
  check_unread(small_tokenizer(R"({"type": "Metaspace", "replacement": "▁"})"), "before it merges");
  check_unread(small_tokenizer("null"), "neither is byte-level nor marks spaces");
  check_unread(small_tokenizer(R"({"type": "Whitespace"})"), "cut by \"Whitespace\"");
  check_unread(small_tokenizer(kBytes + std::string(R"(, "normalizer": {"type": "Lowercase"})")),
               "normalizes text by \"Lowercase\"");
  check_unread(small_tokenizer(R"({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "x+"}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})"),
               "cuts words by \"x+\"");
  check_unread(small_tokenizer(R"({"type": "ByteLevel", "add_prefix_space": true})"),
               "puts a space in front of text");
  check_unread(
      small_tokenizer(R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})"),
      "does not cut text into words");
  check_unread(small_tokenizer(kBytes + std::string(R"(, "normalizer": {"type": "NFC"})")),
               "cuts words by ByteLevel's own pattern, brings text into form C");
  check_unread(small_tokenizer(kBytes, "3"), "a merge that is not of two parts");
  check_unread(small_tokenizer(kBytes, R"("a c")"), "merge \"a c\" speaks of");
  check_unread(R"({"model": {"type": "BPE", "vocab": {"a": 16000000}, "merges": []},
            "pre_tokenizer": )" +
                   std::string(kBytes) + "}",
               "of 1 tokens with id 16000000");
  check_unread(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []},
            "pre_tokenizer": )" +
                   std::string(kBytes) + "}",
               "two tokens of id 0");
}

TEST_CASE("a tokenizer of pieces is read with its rules, its bytes and what its tokens strip") {
  const Read read = read_with(R"({
      "model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "<unk>",
                "vocab": {"<unk>": 0, "<0x41>": 1, "a": 2, "▁": 3, "▁a": 4},
                "merges": ["▁ a"]},
      "added_tokens": [{"id": 5, "content": "<|end|>", "special": true, "rstrip": true},
                       {"id": 4, "content": "▁a", "special": false}],
      "normalizer": {"type": "Sequence", "normalizers": [
          {"type": "Prepend", "prepend": "▁"},
          {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
      "pre_tokenizer": null})");
  INFO(read.diagnostics.text());
  REQUIRE(read.graph.has_value());
  const fb::Text& text = *fb::GetText(read.graph->text.data());
  CHECK(text.kind() == fb::TokenizerKind::Scores);
  CHECK(text.add_space_prefix());
  CHECK_FALSE(text.space_prefix_once());
  CHECK_FALSE(text.space_prefix_at_start());
  CHECK(text.token_kinds()->Get(0) == fb::TokenKind::Unknown);
  CHECK(text.token_kinds()->Get(1) == fb::TokenKind::Byte);
  CHECK(text.token_kinds()->Get(4) ==
        fb::TokenKind::Normal);  // spaces are not marked in typed text
  CHECK(text.token_kinds()->Get(5) == fb::TokenKind::Control);
  CHECK(text.merges()->size() == 1);
  REQUIRE(text.strips_right()->size() == 1);
  CHECK(text.strips_right()->Get(0) == 5);
  CHECK(text.begin() == -1);
}

TEST_CASE("a tokenizer of scored pieces whose unknown one or charsmap is none is not read") {
  const auto with = [](const std::string& unknown, const std::string& normalizer) {
    return R"({"model": {"type": "Unigram", "unk_id": )" + unknown +
           R"(, "vocab": [["<unk>", 0], ["▁a", -1], ["b", -2], ["c", -3]]}, "normalizer": )" +
           normalizer + R"(, "pre_tokenizer": {"type": "Metaspace", "replacement": "▁"}})";
  };
  for (const char* known : {"0", "null"}) {
    const Read read = read_with(with(known, "null"));
    INFO(read.diagnostics.text());
    CHECK_FALSE(read.graph->text.empty());
  }
  for (const char* none : {"4", "-1", "0.5", "\"<unk>\""})
    check_unread(with(none, "null"), "\"unk_id\" is none of its 4 pieces");
  check_unread(with("0", R"({"type": "Precompiled", "precompiled_charsmap": 3})"),
               "charsmap is no text");
}

TEST_CASE("a tokenizer whose template has the text once is read, with any other it is not") {
  const auto framed = [](const std::string& parts) {
    return small_tokenizer(
        kBytes + std::string(R"(, "post_processor": {"type": "TemplateProcessing", "single": [)") +
        parts + "]}");
  };
  const std::string text = R"({"Sequence": {"id": "A"}})";
  const std::string token = R"({"SpecialToken": {"id": "a"}})";
  CHECK_FALSE(read_with(framed(text + "," + token)).graph->text.empty());
  check_unread(framed(text + "," + token + "," + text), "a template with it twice");
  check_unread(framed(token), "a template without it");
}

TEST_CASE("a tokenizer that leaves out merges at random is not read") {
  const auto with = [](const std::string& dropout) {
    return R"({"model": {"type": "BPE", "dropout": )" + dropout +
           R"(, "vocab": {"a": 0, "b": 1, "c": 2, "d": 3}, "merges": []}, "pre_tokenizer": )" +
           kBytes + "}";
  };
  for (const char* none : {"null", "0", "0.0"})
    CHECK_FALSE(read_with(with(none)).graph->text.empty());
  check_unread(with("0.1"), "\"dropout\"");
}

TEST_CASE("pieces of words that white space cuts are read where each word is marked") {
  const auto with = [](const std::string& scheme) {
    return R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["▁a", -1], ["b", -2], ["c", -3]]},
               "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
                   {"type": "Metaspace", "replacement": "▁", "prepend_scheme": ")" +
           scheme + "\"}]}}";
  };
  CHECK_FALSE(read_with(with("always")).graph->text.empty());
  for (const char* scheme : {"first", "never"})
    check_unread(with(scheme), "does not mark each of them");
}

// `parts`: members before the pre-tokenizer, each with a comma behind.
std::string small_words(const std::string& model, const std::string& parts,
                        const std::string& cut = "BertPreTokenizer") {
  return R"({"model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "[CLS]": 1, "work": 2, "##ing": 3}, )" +
         model + "}, " + parts + R"("pre_tokenizer": {"type": ")" + cut + "\"}}";
}
constexpr const char* kWordModel = R"("unk_token": "[UNK]", "continuing_subword_prefix": "##")";
constexpr const char* kWordParts = R"(
    "added_tokens": [{"id": 0, "content": "[UNK]", "special": true, "normalized": false},
                     {"id": 1, "content": "[CLS]", "special": true, "normalized": false}],
    "normalizer": {"type": "BertNormalizer", "lowercase": true, "strip_accents": null,
                   "clean_text": false, "handle_chinese_chars": true},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},)";

TEST_CASE("a tokenizer of words is read with its rules and what it puts around text") {
  const Read read =
      read_with(small_words(std::string(kWordModel) + R"(, "max_input_chars_per_word": 7)",
                            kWordParts + std::string(R"("post_processor": {"type": "BertProcessing",
                                "sep": ["work", 2], "cls": ["[CLS]", 1]},)")));
  INFO(read.diagnostics.text());
  REQUIRE(read.graph.has_value());
  REQUIRE_FALSE(read.graph->text.empty());
  const fb::Text& text = *fb::GetText(read.graph->text.data());
  CHECK(text.kind() == fb::TokenizerKind::WordPiece);
  REQUIRE(text.token_bytes()->size() == 18);
  CHECK(std::string_view(reinterpret_cast<const char*>(text.token_bytes()->data()), 18) ==
        "[UNK][CLS] working");
  CHECK(text.token_kinds()->Get(0) == fb::TokenKind::Control);
  CHECK(text.unknown() == 0);
  CHECK(text.begin() == 1);
  CHECK(text.add_begin());
  CHECK(text.end() == 2);
  CHECK(text.add_end());
  CHECK(text.lower_case());
  CHECK(text.strips_accents());
  CHECK_FALSE(text.cleans_text());
  CHECK(text.separates_ideographs());
  CHECK(text.joins_punctuation());
  CHECK(text.most_word_characters() == 7);
}

TEST_CASE("tokenizers of words with other rules are not read, and say why") {
  check_unread(small_words(R"("unk_token": "[UNK]")", kWordParts),
               "without a \"continuing_subword_prefix");
  check_unread(
      small_words(R"("unk_token": "<unk>", "continuing_subword_prefix": "##")", kWordParts),
      "whose \"unk_token\" is no token");
  check_unread(
      small_words(std::string(kWordModel) + R"(, "max_input_chars_per_word": 0)", kWordParts),
      "\"max_input_chars_per_word\" is no number from 1");
  check_unread(small_words(kWordModel, kWordParts, "Whitespace"), "cuts text by \"Whitespace\"");
  check_unread(small_words(kWordModel, R"("normalizer": {"type": "Lowercase"},)"),
               "normalizes text by \"Lowercase\"");
  check_unread(small_words(kWordModel, R"("decoder": {"type": "ByteLevel"},)"),
               "makes text by \"ByteLevel\"");
  check_unread(small_words(kWordModel, R"("decoder": {"type": "WordPiece", "prefix": "@@"},)"),
               "another \"prefix\" than \"##\"");
  check_unread(small_words(kWordModel,
                           R"("added_tokens": [{"id": 4, "content": "x", "normalized": true}],)"),
               "\"x\" is looked for in normalized text");
  check_unread(small_words(kWordModel, R"("post_processor": {"type": "BertProcessing",
            "sep": ["[SEP]", 9], "cls": ["[CLS]", 1]},)"),
               "ends text with \"[SEP]\", which is no token");
}

TEST_CASE("a tokenizer.json that is no JSON is an error") {
  const Read read = read_with("{");
  CHECK_FALSE(read.graph.has_value());
}

}  // namespace
}  // namespace rlx::test
