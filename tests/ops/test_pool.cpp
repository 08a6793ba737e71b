// SPDX-License-Identifier: Apache-2.0
// Laws of pool's and batch_norm's shapes and diagnostics.
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

OneNode pool(Shape x, Attributes attributes, const std::string& kind = "max", size_t outputs = 1) {
  attributes["kind"] = kind;
  return {.op = "pool",
          .inputs = {TensorType{DType::f32, std::move(x)}},
          .attributes = std::move(attributes),
          .outputs = outputs};
}

OneNode batch_norm(Shape x, Shape gamma, Attributes attributes = {}) {
  const auto f32 = [](Shape shape) { return TensorType{DType::f32, std::move(shape)}; };
  return {.op = "batch_norm",
          .inputs = {f32(std::move(x)), f32(gamma), f32(gamma), f32(gamma), f32(gamma)},
          .attributes = std::move(attributes)};
}

}  // namespace

TEST_CASE("pool_output_size_follows_ceil_mode") {
  CHECK(infer(pool({1, 2, 6}, {{"kernel", Ints{3}}, {"stride", Ints{2}}})).outputs[0].shape ==
        Shape{1, 2, 2});
  CHECK(infer(pool({1, 2, 6}, {{"kernel", Ints{3}}, {"stride", Ints{2}}, {"ceil_mode", true}}))
            .outputs[0]
            .shape == Shape{1, 2, 3});
  CHECK(infer(pool({1, 2, 4}, {{"kernel", Ints{2}},
                               {"stride", Ints{3}},
                               {"pads", Ints{1, 1}},
                               {"ceil_mode", true}}))
            .outputs[0]
            .shape == Shape{1, 2, 2});
}

TEST_CASE("pool_gives_indices_of_the_wanted_dtype_for_max_only") {
  const Attributes attributes = {{"kernel", Ints{2}}, {"index_dtype", std::string("i64")}};
  CHECK(infer(pool({1, 2, 6}, attributes, "max", 2)).outputs[1].dtype == DType::i64);
  CHECK(refused(pool({1, 2, 6}, attributes, "mean", 2), "bad-arity", "only kind \"max\""));
}

TEST_CASE("pool_refuses_wrong_windows_and_dtypes") {
  CHECK(refused(pool({1, 2, 6, 6}, {{"kernel", Ints{2}}}), "bad-rank", "kernel has 1 values"));
  CHECK(refused(pool({1, 2, 3}, {{"kernel", Ints{5}}}), "bad-shape", "reaches over 5"));
  CHECK(refused(pool({2, 3}, {{"kernel", Ints{1}}}), "bad-rank", "x has rank 2"));
  CHECK(refused(pool({1, 2, 6}, {{"kernel", Ints{2}}}, "median"), "bad-attribute", "median"));
  OneNode integers = pool({1, 2, 6}, {{"kernel", Ints{2}}}, "mean");
  integers.inputs[0] = TensorType{DType::i32, {1, 2, 6}};
  CHECK(refused(integers, "bad-dtype", "i32"));
}

TEST_CASE("batch_norm_refuses_wrong_channel_counts_and_momentum") {
  CHECK(infer(batch_norm({2, 3, 4}, {3})).good);
  CHECK(infer(batch_norm({2, 3, 4}, {4}, {{"axis", int64_t{-1}}})).good);
  CHECK(refused(batch_norm({2, 3, 4}, {4}), "bad-shape", "gamma has shape [4]"));
  CHECK(infer(batch_norm({2, 3, 4}, {3}, {{"training", true}})).good);
  CHECK(refused(batch_norm({2, 3, 4}, {3}, {{"momentum", 1.5}}), "bad-attribute", "momentum"));
  CHECK(refused(batch_norm({2, 3, 4}, {3}, {{"axis", int64_t{3}}}), "bad-axis", "3"));
}

}  // namespace rlx::test
