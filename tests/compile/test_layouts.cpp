// SPDX-License-Identifier: Apache-2.0
// The choice of layouts: what lies channels last, and where copies remain.
#include "compiler/lower/lower.h"
#include "compiler/passes/pass.h"
#include "tests/compile/graph_text.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

// The ops of the program's steps on a target; a copy of another layout is of the op that asks.
std::vector<std::string> step_ops(const std::string& text, const char* target) {
  Module module = module_from(text);
  module.entries.at(0).output_names = {"y"};
  Diagnostics diagnostics;
  std::vector<std::string> log;
  for (const PassStage stage : {PassStage::Neutral, PassStage::PerTarget}) {
    REQUIRE(run_passes(module, stage, {.target = find_target(target)}, diagnostics, log));
  }
  const LowerOptions options{.target = find_target(target)};
  const auto program = lower_entry(module, module.entries.at(0), options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(program.has_value());
  std::vector<std::string> ops;
  for (const Step& step : program->steps) ops.push_back(step.op);
  return ops;
}

// x [1,16,6,5], filters w [16,16,3,3]; conv, max pool, b + exp(b), conv.
std::string image(const std::string& dtype) {
  const std::string typed = R"("dtype": ")" + dtype + R"(", "shape": )";
  return R"({"rlx_graph": 1, "inputs": [{"name": "x", )" + typed +
         R"([1, 16, 6, 5]}], "params": [{"name": "w", )" + typed +
         R"([16, 16, 1, 1], "data": {"splat": 0.5}}], "nodes": [
    {"op": "conv", "inputs": ["x", "w"], "outputs": ["a"]},
    {"op": "pool", "inputs": ["a"], "outputs": ["b"], "attributes": {"kind": "max", "kernel": [3, 3], "pads": [1, 1]}},
    {"op": "exp", "inputs": ["b"], "outputs": ["c"]},
    {"op": "add", "inputs": ["b", "c"], "outputs": ["d"]},
    {"op": "conv", "inputs": ["d", "w"], "outputs": ["y"]}], "outputs": ["y"]})";
}

// 1x1, exp, 3x3 of several groups, 1x1; and where that gives "d", another 1x1.
std::string around_groups(const std::string& filters, int64_t groups, const std::string& last) {
  const std::string more =
      last == "d" ? R"(, {"op": "conv", "inputs": ["d", "w"], "outputs": ["y"]})" : "";
  return R"({"rlx_graph": 1, "inputs": [
    {"name": "x", "dtype": "f16", "shape": [1, 16, 8, 8]}], "params": [
    {"name": "w", "dtype": "f16", "shape": [16, 16, 1, 1], "data": {"splat": 0.5}},
    {"name": "v", "dtype": "f16", "shape": )" +
         filters + R"(, "data": {"splat": 0.5}}], "nodes": [
    {"op": "conv", "inputs": ["x", "w"], "outputs": ["a"]},
    {"op": "exp", "inputs": ["a"], "outputs": ["b"]},
    {"op": "conv", "inputs": ["b", "v"], "outputs": ["c"], "attributes": {"groups": )" +
         std::to_string(groups) + R"(, "pads": [1, 1]}},
    {"op": "conv", "inputs": ["c", "w"], "outputs": [")" +
         last + "\"]}" + more + R"(], "outputs": ["y"]})";
}

using Ops = std::vector<std::string>;

}  // namespace

TEST_CASE("images_between_convolutions_stay_channels_last") {
  // A copy of x in front of the first conv, and one behind the last: the output is dense.
  const char* target = GENERATE("cuda", "vulkan-nvidia");
  CHECK(step_ops(image("f16"), target) == Ops{"conv", "conv", "pool", "ew_region", "conv", "conv"});
}

TEST_CASE("images_beside_grouped_convolutions_stay_channels_last") {
  // A copy of x in front and of y behind; nothing between.
  const char* target = GENERATE("cuda", "vulkan-nvidia");
  CHECK(step_ops(around_groups("[16, 8, 3, 3]", 2, "d"), target) ==
        Ops{"conv", "conv", "conv", "conv", "conv", "conv"});
  CHECK(step_ops(around_groups("[16, 8, 3, 3]", 2, "y"), target) ==
        Ops{"conv", "conv", "conv", "conv", "conv"});
}

TEST_CASE("depthwise_convolutions_follow_the_layout_of_matrix_units") {
  // A copy of x in front and of y behind; nothing between.
  const char* target = GENERATE("cuda", "vulkan-nvidia");
  CHECK(step_ops(around_groups("[16, 1, 3, 3]", 16, "y"), target) ==
        Ops{"conv", "conv", "conv", "conv", "conv"});
}

TEST_CASE("rows_of_pixels_stay_channels_last_into_a_transpose") {
  // A copy of x: the next conv reads what the first wrote, the transpose is a view, whose result is
  // copied to the output.
  const std::string text = R"({"rlx_graph": 1, "inputs": [
    {"name": "x", "dtype": "f16", "shape": [1, 256, 600]}], "params": [
    {"name": "w", "dtype": "f16", "shape": [256, 256, 3], "data": {"splat": 0.5}}], "nodes": [
    {"op": "conv", "inputs": ["x", "w"], "outputs": ["a"], "attributes": {"activation": "gelu"}},
    {"op": "conv", "inputs": ["a", "w"], "outputs": ["b"]},
    {"op": "transpose", "inputs": ["b"], "outputs": ["c"], "attributes": {"perm": [0, 2, 1]}},
    {"op": "exp", "inputs": ["c"], "outputs": ["y"]}], "outputs": ["y"]})";
  const char* target = GENERATE("cuda", "vulkan-nvidia");
  CHECK(step_ops(text, target) == Ops{"conv", "conv", "conv", "output"});
}

TEST_CASE("images_are_resized_channels_last") {
  // A copy of x in front of the first conv, and one behind the last.
  const std::string text = R"({"rlx_graph": 1, "inputs": [
    {"name": "x", "dtype": "f16", "shape": [1, 16, 6, 5]}], "params": [
    {"name": "w", "dtype": "f16", "shape": [16, 16, 1, 1], "data": {"splat": 0.5}}], "nodes": [
    {"op": "conv", "inputs": ["x", "w"], "outputs": ["a"]},
    {"op": "resize", "inputs": ["a"], "outputs": ["b"], "attributes": {"mode": "linear", "sizes": [12, 10]}},
    {"op": "conv", "inputs": ["b", "w"], "outputs": ["y"]}], "outputs": ["y"]})";
  const char* target = GENERATE("cuda", "vulkan-nvidia");
  CHECK(step_ops(text, target) == Ops{"conv", "conv", "resample", "conv", "conv"});
}

TEST_CASE("parts_of_rows_of_pixels_stay_channels_last") {
  // A gated layer with zeros before the rows: a copy of x in front, one behind for the output.
  const std::string text = R"({"rlx_graph": 1, "inputs": [
    {"name": "x", "dtype": "f16", "shape": [1, 64, 16000]}], "params": [
    {"name": "w", "dtype": "f16", "shape": [128, 64, 2], "data": {"splat": 0.5}},
    {"name": "v", "dtype": "f16", "shape": [64, 64, 1], "data": {"splat": 0.5}}], "nodes": [
    {"op": "pad", "inputs": ["x"], "outputs": ["p"], "attributes": {"pads": [1, 0], "axes": [2]}},
    {"op": "conv", "inputs": ["p", "w"], "outputs": ["a"]},
    {"op": "split", "inputs": ["a"], "outputs": ["b", "c"], "attributes": {"axis": 1, "sizes": [64, 64]}},
    {"op": "tanh", "inputs": ["b"], "outputs": ["d"]},
    {"op": "sigmoid", "inputs": ["c"], "outputs": ["e"]},
    {"op": "mul", "inputs": ["d", "e"], "outputs": ["f"]},
    {"op": "conv", "inputs": ["f", "v"], "outputs": ["y"]}], "outputs": ["y"]})";
  CHECK(step_ops(text, "cuda") == Ops{"conv", "conv", "ew_region", "conv", "conv"});
}

TEST_CASE("depthwise_convolutions_between_tokens_are_channels_last") {
  // Tokens as an image, and the image as tokens, are views: the result is copied to the output.
  const std::string text = R"({"rlx_graph": 1, "inputs": [
    {"name": "x", "dtype": "f16", "shape": [2, 64, 16]}], "params": [
    {"name": "w", "dtype": "f16", "shape": [16, 1, 3, 3], "data": {"splat": 0.5}}], "nodes": [
    {"op": "exp", "inputs": ["x"], "outputs": ["e"]},
    {"op": "transpose", "inputs": ["e"], "outputs": ["t"], "attributes": {"perm": [0, 2, 1]}},
    {"op": "reshape", "inputs": ["t"], "outputs": ["i"], "attributes": {"shape": [2, 16, 8, 8]}},
    {"op": "conv", "inputs": ["i", "w"], "outputs": ["c"], "attributes": {"groups": 16, "pads": [1, 1]}},
    {"op": "reshape", "inputs": ["c"], "outputs": ["r"], "attributes": {"shape": [2, 16, 64]}},
    {"op": "transpose", "inputs": ["r"], "outputs": ["s"], "attributes": {"perm": [0, 2, 1]}},
    {"op": "exp", "inputs": ["s"], "outputs": ["y"]}], "outputs": ["y"]})";
  const char* target = GENERATE("cuda", "vulkan");
  CHECK(step_ops(text, target) == Ops{"exp", "conv", "output"});
}

TEST_CASE("patches_are_lines_of_a_product_whose_transpose_is_a_view") {
  // A copy that brings each patch into a line, and the product.
  const std::string text = R"({"rlx_graph": 1, "inputs": [
    {"name": "x", "dtype": "f32", "shape": [2, 3, 64, 64]}], "params": [
    {"name": "w", "dtype": "f32", "shape": [256, 3, 16, 16], "data": {"splat": 0.5}}], "nodes": [
    {"op": "conv", "inputs": ["x", "w"], "outputs": ["a"], "attributes": {"stride": [16, 16]}},
    {"op": "reshape", "inputs": ["a"], "outputs": ["b"], "attributes": {"shape": [2, 256, 16]}},
    {"op": "transpose", "inputs": ["b"], "outputs": ["c"], "attributes": {"perm": [0, 2, 1]}},
    {"op": "exp", "inputs": ["c"], "outputs": ["y"]}], "outputs": ["y"]})";
  CHECK(step_ops(text, "cuda") == Ops{"conv", "conv", "output"});
}

TEST_CASE("images_are_dense_where_no_kernel_wants_channels_last") {
  CHECK(step_ops(image("f32"), "cuda") == Ops{"conv", "pool", "ew_region", "conv"});
  CHECK(step_ops(image("f16"), "vulkan") == Ops{"conv", "pool", "ew_region", "conv"});
}

}  // namespace rlx::test
