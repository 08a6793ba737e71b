// SPDX-License-Identifier: Apache-2.0
// GGUF models written in other types: which tensors change, what the new file says, what is
// refused. The rounding itself is tests/ops/test_block_encoder.cpp's.
#include <limits>

#include "compiler/import/gguf/quantize.h"
#include "compiler/support/block_encoder.h"
#include "tests/import/import_support.h"
#include "tests/support/gguf_writer.h"

namespace rlx::test {
namespace {

constexpr uint32_t kTypeF32 = 0;
constexpr uint32_t kTypeF16 = 1;

std::vector<float> ramp(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 61) - 30;
  return values;
}

std::string halves_of(const std::vector<float>& values) {
  std::vector<uint16_t> halves;
  for (const float value : values) halves.push_back(f16_from_double(value));
  return raw_bytes(halves);
}

// Two matrices with rows of 256, one of 32, and what is not rounded.
GgufWriter small_model() {
  GgufWriter writer;
  writer.alignment = 64;
  writer.key("general.architecture", std::string("llama"))
      .key("general.alignment", 64u)
      .key("general.file_type", 1u)
      .key("words", std::vector<std::string>{"a", "bc"});
  writer.tensor("token_embd.weight", {256, 3}, kTypeF16, halves_of(ramp(768)))
      .tensor("output.weight", {256, 3}, kTypeF32, raw_bytes(ramp(768)))
      .tensor("blk.0.attn_q.weight", {32, 4}, kTypeF32, raw_bytes(ramp(128)))
      .zeros("blk.0.attn_norm.weight", {256})
      .zeros("blk.0.attn_q_norm.weight", {256, 2})
      .zeros("blk.0.ffn_gate_inp.weight", {256, 2})
      .zeros("blk.0.attn_q.bias", {256, 2})
      .zeros("blk.0.odd.weight", {8, 2});
  return writer;
}

gguf::QuantizeRules rules_of(const std::string& text) {
  Diagnostics diagnostics;
  auto rules = gguf::parse_quantize_rules(text, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(rules.has_value());
  return std::move(*rules);
}

std::optional<std::string> quantized(const GraphBytes& model, const std::string& path,
                                     const std::string& types, Diagnostics& diagnostics,
                                     uint32_t threads = 1) {
  const auto plan = gguf::Quantization::plan(model, path, rules_of(types), diagnostics);
  if (!plan) return std::nullopt;
  std::string out = plan->header();
  out.resize(plan->size_bytes());
  const auto sink = [&](uint64_t offset_bytes, std::span<const std::byte> bytes) {
    std::memcpy(out.data() + offset_bytes, bytes.data(), bytes.size());
    return true;
  };
  if (!plan->write(sink, threads, diagnostics)) return std::nullopt;
  return out;
}

std::string good(const std::string& model, const std::string& types, uint32_t threads = 1) {
  Diagnostics diagnostics;
  auto out = quantized(bytes_of(model), "model.gguf", types, diagnostics, threads);
  INFO(diagnostics.text());
  REQUIRE(out.has_value());
  return std::move(*out);
}

// The file views the bytes: a temporary's would be gone.
gguf::File parsed(std::string&&) = delete;
gguf::File parsed(const std::string& bytes) {
  auto file = gguf::parse(std::as_bytes(std::span(bytes)));
  if (const auto* fault = std::get_if<ParseFault>(&file)) FAIL(fault->message);
  return std::get<gguf::File>(std::move(file));
}

DType type_of(const gguf::File& file, const std::string& name) {
  for (const gguf::Tensor& tensor : file.tensors) {
    if (tensor.name == name) return tensor.dtype;
  }
  FAIL(name);
  return DType::f32;
}

void check_refused(const std::string& model, const std::string& types, DiagCode code,
                   const std::string& part) {
  Diagnostics diagnostics;
  CHECK_FALSE(quantized(bytes_of(model), "model.gguf", types, diagnostics).has_value());
  check_only_error(diagnostics, code, part);
}

TEST_CASE("quantize writes matrices in the type asked for, and leaves all else as it was") {
  const std::string model = small_model().bytes();
  const std::string out = good(model, "q4_k,q5_0");
  const gguf::File file = parsed(out);
  CHECK(type_of(file, "token_embd.weight") == DType::q4_k);
  CHECK(type_of(file, "output.weight") == DType::q4_k);
  CHECK(type_of(file, "blk.0.attn_q.weight") == DType::q5_0);  // whose rows q4_k does not divide
  for (const char* kept : {"attn_norm.weight", "attn_q_norm.weight", "ffn_gate_inp.weight",
                           "attn_q.bias", "odd.weight"})
    CHECK(type_of(file, std::string("blk.0.") + kept) == DType::f32);
  std::vector<std::byte> wanted(3 * block_bytes(DType::q4_k));
  CHECK(encode_blocks(DType::q4_k, ramp(768), wanted));
  for (const size_t i : {0u, 1u})  // of f16 and of f32
    CHECK(std::equal(wanted.begin(), wanted.end(), file.tensors[i].bytes.begin()));
  CHECK(out == good(model, "q4_k,q5_0", 3));
}

TEST_CASE("quantize keeps the file's keys but those that tell the types") {
  const std::string out = good(small_model().bytes(), "q4_k");
  const gguf::File file = parsed(out);
  CHECK(file.version == 3);
  CHECK(file.alignment == 64);
  CHECK(file.keys.size() == 5);
  CHECK(std::get<std::string_view>(file.keys.at("general.architecture")) == "llama");
  CHECK(std::get<int64_t>(file.keys.at("general.file_type")) == 14);
  CHECK(std::get<int64_t>(file.keys.at("general.quantization_version")) == 2);
  CHECK(std::get<gguf::Array>(file.keys.at("words")).count == 2);
}

TEST_CASE("quantize obeys the first rule whose part a tensor's name contains") {
  const std::string model = small_model().bytes();
  const std::string out = good(model, "q4_0,output=q6_k,attn_q=f16,t=bf16,attn_q=q8_0");
  const gguf::File file = parsed(out);
  CHECK(type_of(file, "output.weight") == DType::q6_k);
  CHECK(type_of(file, "blk.0.attn_q.weight") == DType::f16);
  CHECK(type_of(file, "token_embd.weight") == DType::bf16);
  // Where the rule's blocks do not divide the rows, the plain types follow; that is told.
  Diagnostics diagnostics;
  const auto plain = quantized(bytes_of(model), "m.gguf", "q4_0,attn_q.weight=q6_k", diagnostics);
  CHECK(type_of(parsed(plain.value()), "blk.0.attn_q.weight") == DType::q4_0);
  CHECK(diagnostics.text().find("\"blk.0.attn_q.weight\" gets q4_0, not the q6_k of "
                                "\"attn_q.weight\": its rows of 32 are not whole blocks of 256") !=
        std::string::npos);
}

TEST_CASE("quantize rounds blocks a second time and says so") {
  const std::string once = good(small_model().bytes(), "q8_0");
  Diagnostics diagnostics;
  const auto twice = quantized(bytes_of(once), "model.gguf", "q4_0", diagnostics);
  REQUIRE(twice.has_value());
  CHECK(diagnostics.text().find("3 tensors are in blocks already") != std::string::npos);
  CHECK(type_of(parsed(*twice), "output.weight") == DType::q4_0);
}

TEST_CASE("quantize writes a model of several files as one") {
  const TemporaryFolder folder;
  const auto part = [](uint16_t number, GgufWriter writer) {
    writer.raw_key("split.no", 2, raw_value(number))
        .raw_key("split.count", 2, raw_value<uint16_t>(2));
    return writer.key("split.tensors.count", 2u).bytes();
  };
  GgufWriter first;
  first.zeros("a.weight", {32, 2});
  GgufWriter second;
  second.zeros("b.weight", {32, 2});
  const std::string model = part(0, first);
  const std::string path = folder.write("m-00001-of-00002.gguf", model);
  folder.write("m-00002-of-00002.gguf", part(1, second));
  Diagnostics diagnostics;
  const auto out = quantized(bytes_of(model), path, "q8_0", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(out.has_value());
  const gguf::File file = parsed(*out);
  CHECK(file.tensors.size() == 2);
  CHECK_FALSE(file.keys.contains("split.count"));
  CHECK(type_of(file, "b.weight") == DType::q8_0);
  folder.write("m-00002-of-00002.gguf", part(1, first));
  Diagnostics twice;
  CHECK_FALSE(quantized(bytes_of(model), path, "q8_0", twice).has_value());
  check_only_error(twice, DiagCode::DuplicateName, "tensor \"a.weight\" is in two files");
}

TEST_CASE("quantize refuses types, rules and numbers by name") {
  const auto wrong_rules = [](const std::string& types, const std::string& part) {
    Diagnostics diagnostics;
    CHECK_FALSE(gguf::parse_quantize_rules(types, diagnostics).has_value());
    check_only_error(diagnostics, DiagCode::BadOption, part);
  };
  wrong_rules("q4_k,q4_m", "\"q4_m\", which is no type");
  wrong_rules("mxfp4", "\"mxfp4\", which is read but not made");
  wrong_rules("output=q6_k", "no type for the rest");
  wrong_rules("q4_0,=q6_k", "without a part of a name");
  wrong_rules("", "\"\", which is no type");
  const std::string model = small_model().bytes();
  check_refused(model, "q4_0,lm_head=q6_k", DiagCode::BadOption, "\"lm_head\", the model has none");
  GgufWriter narrow;
  narrow.zeros("a.weight", {8, 2});
  check_refused(narrow.bytes(), "q4_0", DiagCode::BadOption, "no tensor of the model");
  const auto one_value = [](float value) {
    std::vector<float> values = ramp(64);
    values[40] = value;
    return GgufWriter().tensor("a.weight", {32, 2}, kTypeF32, raw_bytes(values)).bytes();
  };
  check_refused(one_value(std::numeric_limits<float>::infinity()), "q4_0", DiagCode::BadDtype,
                "tensor \"a.weight\" has a number that is not finite, element 40");
  check_refused(one_value(1e9F), "q8_0", DiagCode::BadDtype, "too large for q8_0's scales");
  check_refused(one_value(1e9F), "f16", DiagCode::BadDtype, "too large for f16");
}

}  // namespace
}  // namespace rlx::test
