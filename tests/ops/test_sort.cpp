// SPDX-License-Identifier: Apache-2.0
// Laws of the shapes, diagnostics and stages of topk, sort, argsort, nonzero, the scans and argmax.
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

OneNode sort_node(const std::string& op, Shape x, Attributes attributes = {}, size_t outputs = 2,
                  DType dtype = DType::f32) {
  return {.op = op,
          .inputs = {TensorType{dtype, std::move(x)}},
          .attributes = std::move(attributes),
          .outputs = outputs};
}

}  // namespace

TEST_CASE("T6_topk_of_more_than_the_axis_is_refused") {
  CHECK(refused(sort_node("topk", {3, 5}, {{"k", int64_t{6}}}), "bad-shape", "at most 5"));
  CHECK(refused(sort_node("topk", {3, 5}, {{"k", int64_t{-1}}}), "bad-attribute", "k"));
  CHECK(refused(sort_node("topk", {3, 5}, {{"k", int64_t{1}}, {"axis", int64_t{2}}}), "bad-axis",
                "rank 2"));
}

TEST_CASE("index_dtype_of_ordering_is_an_index_type") {
  CHECK(refused(sort_node("sort", {5}, {{"index_dtype", "f16"}}), "bad-attribute", "f16"));
  CHECK(refused(sort_node("nonzero", {5}, {{"max_count", int64_t{1}}, {"index_dtype", "i8"}}),
                "bad-attribute", "i8"));
}

TEST_CASE("T101_ops_of_data_dependent_size_have_a_bound_of_their_own") {
  const Inferred all = infer(sort_node("unique", {4, 5}, {}));
  REQUIRE(all.good);
  CHECK(all.outputs[0].shape == Shape{20});
  const Inferred rows =
      infer(sort_node("unique", {4, 5}, {{"axis", int64_t{0}}, {"max_count", int64_t{3}}}));
  REQUIRE(rows.good);
  CHECK(rows.outputs[0].shape == Shape{3, 5});
  CHECK(refused(sort_node("unique", {4, 65}, {{"axis", int64_t{0}}}), "limit", "65 elements"));
}

TEST_CASE("topk_keeps_k_on_its_axis") {
  const Inferred result =
      infer(sort_node("topk", {7, 9, 3}, {{"k", int64_t{4}}, {"axis", int64_t{1}}}));
  REQUIRE(result.good);
  CHECK(result.outputs[0].shape == Shape{7, 4, 3});
  CHECK(result.outputs[1].dtype == DType::i32);
}

TEST_CASE("few_of_a_long_row_are_selected_without_merging") {
  const Program few = lower(sort_node("topk", {1 << 20}, {{"k", int64_t{50}}}));
  CHECK(few.steps.size() == 3);
  for (size_t i = 0; i < few.steps.size(); ++i) {
    CHECK(kernel_of(few, i).defines.at("RLX_MERGE") == "2");
  }
  const Program all = lower(sort_node("sort", {1 << 14}));
  CHECK(all.steps.size() == 4);
  CHECK(kernel_of(all, 3).defines.at("RLX_MERGE") == "1");
}

TEST_CASE("a_long_row_of_argmax_and_cumsum_is_taken_in_chunks") {
  const Attributes axis = {{"axis", int64_t{0}}};
  CHECK(lower(sort_node("argmax", {1 << 22}, axis, 1)).steps.size() == 2);
  CHECK(lower(sort_node("cumsum", {1 << 22}, axis, 1)).steps.size() == 2);
  CHECK(lower(sort_node("cumsum", {1000}, axis, 1)).steps.size() == 1);
}

TEST_CASE("bool_is_not_summed") {
  CHECK(refused(sort_node("cumsum", {5}, {{"axis", int64_t{0}}}, 1, DType::bool_), "bad-dtype",
                "bool"));
}

}  // namespace rlx::test
