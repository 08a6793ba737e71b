// SPDX-License-Identifier: Apache-2.0
// Laws of attention's layouts, diagnostics and tiling.
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

// q [2,5,4,8], k and v [2,7,2,8], then `more` inputs; attributes over four query heads and two kv
// heads of 8.
OneNode attention(Attributes attributes = {}, std::vector<std::optional<TensorType>> more = {}) {
  attributes.emplace("num_heads", int64_t{4});
  attributes.emplace("num_kv_heads", int64_t{2});
  attributes.emplace("head_dim", int64_t{8});
  OneNode node{
      .op = "attention",
      .inputs = {TensorType{DType::f32, {2, 5, 4, 8}}, TensorType{DType::f32, {2, 7, 2, 8}},
                 TensorType{DType::f32, {2, 7, 2, 8}}},
      .attributes = std::move(attributes)};
  node.inputs.insert(node.inputs.end(), more.begin(), more.end());
  return node;
}

bool refused(const OneNode& node, const std::string& code, const std::string& part) {
  const Inferred result = infer(node);
  UNSCOPED_INFO(result.diagnostics);
  return !result.good && contains(result.diagnostics, "[" + code + "]") &&
         contains(result.diagnostics, part);
}

}  // namespace

TEST_CASE("attention_output_follows_its_layout") {
  CHECK(infer(attention()).outputs[0].shape == Shape{2, 5, 4, 8});
  CHECK(infer(attention({{"out_layout", std::string("bhsd")}})).outputs[0].shape ==
        Shape{2, 4, 5, 8});
  CHECK(infer(attention({{"out_layout", std::string("bsd")}})).outputs[0].shape == Shape{2, 5, 32});
}

TEST_CASE("attention_refuses_what_does_not_fit") {
  CHECK(refused(attention({{"num_kv_heads", int64_t{3}}}), "bad-attribute",
                "multiple of num_kv_heads = 3"));
  CHECK(refused(attention({{"num_kv_heads", int64_t{4}}}), "bad-shape", "k is f32[2, 7, 2, 8]"));
  CHECK(refused(attention({{"head_dim", int64_t{16}}}), "bad-shape", "wanted [B, S, 4, 16]"));
  CHECK(refused(attention({{"v_head_dim", int64_t{4}}}), "bad-shape", "v is f32[2, 7, 2, 8]"));
  CHECK(refused(attention({{"head_dim", int64_t{513}}}), "bad-attribute", "head_dim"));
  CHECK(refused(attention({{"q_layout", std::string("bsd")}}), "bad-rank", "layout bsd"));
  CHECK(refused(attention({{"kv_layout", std::string("sbhd")}}), "bad-attribute", "kv_layout"));
  CHECK(refused(attention({{"window_left", int64_t{-2}}}), "bad-attribute", "window_left"));
  CHECK(refused(attention({{"softcap", -1.0}}), "bad-attribute", "softcap"));
  OneNode packed = attention({{"packed", std::string("3hd")}});
  packed.inputs.resize(1);
  CHECK(refused(packed, "bad-attribute", "num_kv_heads is 2"));
  CHECK(refused(attention({{"packed", std::string("gqa")}}), "bad-arity", "k and v are given"));
  OneNode without_v = attention();
  without_v.inputs[2] = std::nullopt;
  CHECK(refused(without_v, "bad-arity", "k or v is null"));
  OneNode short_v = attention();
  short_v.inputs[2]->shape = {2, 6, 2, 8};
  CHECK(refused(short_v, "bad-shape", "k has 7 tokens and v 6"));
}

TEST_CASE("attention_masks_have_one_meaning_per_rank") {
  const auto mask = [](Shape shape, DType dtype = DType::bool_) {
    return attention({}, {TensorType{dtype, std::move(shape)}});
  };
  CHECK(infer(mask({2, 7})).good);
  CHECK(infer(mask({2, 5, 7})).good);
  CHECK(infer(mask({1, 4, 1, 7})).good);
  CHECK(refused(mask({5, 7}), "bad-shape", "wanted [2, 7]"));
  CHECK(refused(mask({7}), "bad-rank", "wanted rank 2, 3 or 4"));
  CHECK(refused(mask({1, 2, 1, 7}), "bad-shape", "broadcasts"));
  CHECK(refused(attention({}, {std::nullopt, TensorType{DType::f32, {5, 7}}}), "bad-rank",
                "bias is f32[5, 7]"));
  CHECK(refused(attention({}, {std::nullopt, TensorType{DType::i32, {1, 1, 5, 7}}}), "bad-dtype",
                "bias is i32"));
  CHECK(refused(attention({}, {std::nullopt, std::nullopt, TensorType{DType::i32, {3}}}),
                "bad-shape", "kv_len is i32[3]"));
  CHECK(refused(attention({}, {std::nullopt, std::nullopt, TensorType{DType::f32, {2}}}),
                "bad-dtype", "kv_len is f32"));
}

TEST_CASE("attention_is_one_dispatch_without_a_score_matrix") {
  const Program program = lower(attention());
  REQUIRE(program.steps.size() == 1);
  for (const Buffer& buffer : program.buffers) CHECK(buffer.type.shape.size() == 4);
}

TEST_CASE("few_queries_split_their_keys_over_the_group") {
  const auto decode = [](int64_t queries) {
    OneNode node = attention();
    node.inputs[0]->shape[1] = queries;
    return lower(node);
  };
  CHECK(kernel_of(decode(1), 0).defines.at("RLX_SPLIT") == "1");
  CHECK(kernel_of(decode(5), 0).defines.at("RLX_SPLIT") == "0");
}

TEST_CASE("attention_reads_transposed_heads_without_a_copy") {
  const Program program =
      OneNodeGraph(attention()).lower({{.input = 0, .strides = {160, 8, 40, 1}}});
  CHECK(program.steps.size() == 1);
}

}  // namespace rlx::test
