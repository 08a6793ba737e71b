// SPDX-License-Identifier: Apache-2.0
// What data movement refuses, and with which words.
#include "tests/ops/one_node.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

void check_refused(const OneNode& spec, const std::string& words) {
  const Inferred inferred = OneNodeGraph(spec).infer();
  INFO(spec.op << ": " << inferred.diagnostics);
  CHECK_FALSE(inferred.good);
  CHECK(inferred.diagnostics.find(words) != std::string::npos);
}

Shape inferred_shape(const OneNode& spec) {
  const Inferred inferred = OneNodeGraph(spec).infer();
  INFO(spec.op << ": " << inferred.diagnostics);
  REQUIRE(inferred.good);
  return inferred.outputs[0].shape;
}

}  // namespace

TEST_CASE("T90_expand_refuses_what_does_not_broadcast") {
  const auto expand = [](Shape x, Ints shape) {
    return OneNode{.op = "expand", .inputs = {f32(std::move(x))}, .attributes = {{"shape", shape}}};
  };
  check_refused(expand({2, 1}, {3}), "[2, 1] does not broadcast to [3]");
  check_refused(expand({2, 3}, {2, 4}), "does not broadcast");
  check_refused(expand({3}, {-1, 3}), "keeps a dim that");
  CHECK(inferred_shape(expand({2, 3}, {1})) == Shape{2, 3});
  CHECK(inferred_shape(expand({2, 3}, {3})) == Shape{2, 3});
}

TEST_CASE("T91_slices_refuse_steps_of_0_and_windows_outside") {
  check_refused({.op = "slice",
                 .inputs = {f32({5})},
                 .attributes = {{"starts", Ints{0}}, {"ends", Ints{5}}, {"steps", Ints{0}}}},
                "step of axis 0 is 0");
  const Attributes window{{"axis", int64_t{0}}, {"len", int64_t{6}}};
  Attributes late = window;
  late["start"] = int64_t{1};
  check_refused({.op = "narrow", .inputs = {f32({5})}, .attributes = late}, "do not lie inside");
  check_refused({.op = "narrow", .inputs = {f32({5})}, .attributes = window},
                "both or neither of the attribute and the input start");
  const TensorType index{DType::i32, {}};
  check_refused({.op = "narrow", .inputs = {f32({5}), index}, .attributes = window},
                "6 elements do not fit into axis 0");
  check_refused({.op = "narrow",
                 .inputs = {f32({5}), f32({1})},
                 .attributes = {{"axis", int64_t{0}}, {"len", int64_t{2}}}},
                "wanted an integer (or f32, f16) of rank 0");
}

TEST_CASE("T92_pad_refuses_reach_crops_and_values_beyond_the_tensor") {
  const auto pad = [](DType dtype, Ints pads, const std::string& mode, double value) {
    return OneNode{.op = "pad",
                   .inputs = {TensorType{dtype, {3}}},
                   .attributes = {{"pads", pads}, {"mode", mode}, {"value", value}}};
  };
  check_refused(pad(DType::f32, {3, 0}, "reflect", 0), "reaches beyond its 3 elements");
  check_refused(pad(DType::f32, {0, 4}, "wrap", 0), "reaches beyond its 3 elements");
  check_refused(pad(DType::f32, {-2, -2}, "constant", 0), "crop more than the 3 elements");
  check_refused(pad(DType::u8, {1, 0}, "constant", 300), "is no value of u8");
  check_refused(pad(DType::i32, {1, 0}, "constant", 0.5), "is no value of i32");
  CHECK(inferred_shape(pad(DType::u8, {1, 0}, "edge", 300)) == Shape{4});
}

TEST_CASE("T6_movement_refuses_axes_and_counts_that_do_not_fit") {
  check_refused({.op = "transpose", .inputs = {f32({2, 3})}, .attributes = {{"perm", Ints{0, 0}}}},
                "listed twice");
  check_refused({.op = "reverse", .inputs = {f32({2, 3})}, .attributes = {{"axes", Ints{2}}}},
                "axis 2 is out of range for rank 2");
  check_refused({.op = "tile", .inputs = {f32({2, 3})}, .attributes = {{"repeats", Ints{2}}}},
                "wanted one for each of 2 axes");
  check_refused({.op = "roll",
                 .inputs = {f32({2, 3})},
                 .attributes = {{"shifts", Ints{1, 2}}, {"axes", Ints{0}}}},
                "wanted equal counts");
  check_refused({.op = "diagonal",
                 .inputs = {f32({2, 3})},
                 .attributes = {{"axis1", int64_t{1}}, {"axis2", int64_t{-1}}}},
                "listed twice");
  check_refused({.op = "depth_to_space",
                 .inputs = {f32({1, 6, 2, 2})},
                 .attributes = {{"block", int64_t{2}}}},
                "does not divide the channels");
  check_refused({.op = "space_to_depth",
                 .inputs = {f32({1, 6, 2, 3})},
                 .attributes = {{"block", int64_t{2}}}},
                "does not divide the width");
  check_refused(
      {.op = "stack", .inputs = {f32({2}), f32({3})}, .attributes = {{"axis", int64_t{0}}}},
      "wanted equal types");
  check_refused({.op = "reverse_sequence",
                 .inputs = {f32({2, 3}), TensorType{DType::i32, {3}}},
                 .attributes = {{"batch_axis", int64_t{0}}, {"time_axis", int64_t{1}}}},
                "one length for each of axis 0");
}

TEST_CASE("range_wants_bounds_that_are_known_or_a_count") {
  const TensorType bound{DType::f32, {}};
  check_refused({.op = "range", .inputs = {bound, bound, bound}},
                "known only at run time, so the number of elements is not known");
  check_refused({.op = "range", .inputs = {bound, std::nullopt, bound}},
                "both or neither of limit");
  CHECK(inferred_shape({.op = "range",
                        .inputs = {bound, std::nullopt, bound},
                        .attributes = {{"count", int64_t{7}}}}) == Shape{7});
}

TEST_CASE("values_that_the_dtype_does_not_hold_are_refused") {
  check_refused(
      {.op = "fill", .attributes = {{"shape", Ints{2}}, {"value", 1e12}, {"dtype", "i32"}}},
      "is no value of i32");
  check_refused(
      {.op = "fill", .attributes = {{"shape", Ints{2}}, {"value", 1e18}, {"dtype", "i64"}}},
      "that a real attribute holds exactly");
  check_refused({.op = "one_hot",
                 .inputs = {TensorType{DType::i32, {2}}},
                 .attributes = {{"depth", int64_t{3}}, {"on", -1.0}, {"dtype", "u8"}}},
                "is no value of u8");
}

TEST_CASE("chains_of_graph_files_are_checked_step_by_step") {
  const auto region = [](Strings chain) {
    return OneNode{.op = "ew_region",
                   .inputs = {f32({2, 3}), f32({3})},
                   .attributes = {{"chain", std::move(chain)}}};
  };
  CHECK(inferred_shape(region({"add(0, 1)", "clamp(2; min=-1, max=inf)"})) == Shape{2, 3});
  check_refused(region({"add(0, 1"}), "no \")\" at the end");
  check_refused(region({"add(0, x)"}), "an operand is no number");
  check_refused(region({"add(0, 2)"}), "reads operand 2");
  check_refused(region({"matmul(0, 1)"}), "wanted an elementwise op");
  check_refused(region({"gelu(0; alpha=2)"}), "alpha");
  check_refused(region({}), "no steps");
  check_refused(region({"trilu(0)", "add(2, 1)", "ramp(3, 3; count=3)"}), "wanted rank 0");
  OneNode modulus = region({"add(0, 1)"});
  modulus.attributes["input_modulus"] = Ints{0, 2};
  check_refused(modulus, "wanted 0, or the size of a shape that ends [2, 3]");
  OneNode upsampled = region({"add(0, 1)"});
  upsampled.attributes["upsample_input"] = int64_t{2};
  check_refused(upsampled, "upsample_input is 2, wanted one of the region's 2 inputs");
  upsampled.attributes["upsample_input"] = int64_t{0};
  check_refused(upsampled, "wanted rank 4");
  check_refused({.op = "batch_ew_region",
                 .inputs = {f32({2}), f32({2}), f32({2})},
                 .attributes = {{"chain", Strings{"neg(0)"}}, {"slices", int64_t{2}}}},
                "3 inputs do not divide into 2 equal slices");
}

TEST_CASE("a_step_that_depends_on_positions_has_the_shape_of_its_region") {
  check_refused({.op = "ew_region",
                 .inputs = {f32({4, 4}), f32({2, 4, 4})},
                 .attributes = {{"chain", Strings{"trilu(0)", "add(2, 1)"}}}},
                "inside a region of shape [2, 4, 4]");
}

}  // namespace rlx::test
