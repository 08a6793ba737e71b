// SPDX-License-Identifier: Apache-2.0
// A small network over images whose number, height and width a run gives: windows, resizes and
// pools one behind the other, whose branches meet again. One session walks through sizes up and
// down, and gives what the evaluator gives of a graph of those sizes.
#include "compiler/import/entries.h"
#include "tests/free_dims/free_network.h"
#include "tests/support/temporary_folder.h"

namespace rlx::test {
namespace {

std::string params() {
  struct Row {
    const char* name;
    Shape shape;
    double offset;
  };
  const Row rows[] = {{"stem.w", {6, 3, 3, 3}, 0},
                      {"stem.b", {6}, 0},
                      {"body.w", {6, 6, 3, 3}, 0},
                      {"scale", {6}, 1},
                      {"shift", {6}, 0},
                      {"mean", {6}, 0},
                      {"var", {6}, 1},
                      {"deep.w", {6, 1, 3, 3}, 0},
                      {"down.w", {8, 6, 3, 3}, 0},
                      {"mix.w", {5, 14, 1, 1}, 0},
                      {"up.w", {5, 4, 2, 2}, 0},
                      {"wide.w", {4, 3, 4, 4}, 0},
                      {"head.w", {32, 4}, 0}};
  Numbers numbers;
  std::string text;
  for (const Row& row : rows)
    text += (text.empty() ? "" : ",\n    ") + param(numbers, row.name, row.shape, row.offset);
  return text;
}

std::string network() {
  return R"({
  "rlx_graph": 1,
  "symbols": [{"name": "batch", "min": 1, "max": 8}, {"name": "height", "min": 32, "max": 1280},
              {"name": "width", "min": 32, "max": 1280}],
  "params": [)" +
         params() + R"(],
  "inputs": [{"name": "images", "dtype": "f32", "shape": ["batch", 3, "height", "width"]},
             {"name": "grid", "dtype": "f32", "shape": ["batch", "height / 16", 3, 2]}],
  "nodes": [
    {"name": "stem", "op": "conv", "inputs": ["images", "stem.w", "stem.b"], "outputs": ["stem"],
     "attributes": {"stride": [2, 2], "pads": [1, 1]}},
    {"name": "relu", "op": "relu", "inputs": ["stem"], "outputs": ["relu"]},
    {"name": "body", "op": "conv", "inputs": ["relu", "body.w"], "outputs": ["body"],
     "attributes": {"pads": [1, 1]}},
    {"name": "norm", "op": "batch_norm", "inputs": ["body", "scale", "shift", "mean", "var"],
     "outputs": ["norm"]},
    {"name": "silu", "op": "silu", "inputs": ["norm"], "outputs": ["silu"]},
    {"name": "add", "op": "add", "inputs": ["silu", "relu"], "outputs": ["half"]},
    {"name": "deep", "op": "conv", "inputs": ["half", "deep.w"], "outputs": ["deep"],
     "attributes": {"pads": [1, 1], "groups": 6}},
    {"name": "kept", "op": "narrow", "inputs": ["half"], "outputs": ["kept"],
     "attributes": {"axis": 1, "start": 1, "len": 3}},
    {"name": "join", "op": "concat", "inputs": ["kept", "deep", "relu"], "outputs": ["joined"],
     "attributes": {"axis": 1}},
    {"name": "gate", "op": "tanh", "inputs": ["joined"], "outputs": ["gate"]},
    {"name": "gates", "op": "adaptive_pool", "inputs": ["gate"], "outputs": ["gates"],
     "attributes": {"kind": "mean", "out": [2, 2]}},
    {"name": "pool", "op": "pool", "inputs": ["deep"], "outputs": ["quarter"],
     "attributes": {"kind": "max", "kernel": [3, 3], "stride": [2, 2], "pads": [1, 1]}},
    {"name": "blur", "op": "pool", "inputs": ["quarter"], "outputs": ["blur"],
     "attributes": {"kind": "mean", "kernel": [3, 3], "pads": [1, 1]}},
    {"name": "lrn", "op": "lrn", "inputs": ["blur"], "outputs": ["lrn"], "attributes": {"size": 3}},
    {"name": "down", "op": "conv", "inputs": ["lrn", "down.w"], "outputs": ["eighth"],
     "attributes": {"stride": [2, 2], "pads": [1, 1]}},
    {"name": "nearest", "op": "resize", "inputs": ["eighth"], "outputs": ["nearest"],
     "attributes": {"scales": [2, 2], "coord": "asymmetric", "nearest_mode": "floor"}},
    {"name": "concat", "op": "concat", "inputs": ["nearest", "quarter"], "outputs": ["both"],
     "attributes": {"axis": 1}},
    {"name": "mix", "op": "conv", "inputs": ["both", "mix.w"], "outputs": ["mix"]},
    {"name": "up", "op": "conv_transpose", "inputs": ["mix", "up.w"], "outputs": ["up"],
     "attributes": {"stride": [2, 2]}},
    {"name": "wide", "op": "conv_transpose", "inputs": ["up", "wide.w"], "outputs": ["wide"],
     "attributes": {"stride": [2, 2], "pads": [1, 1]}},
    {"name": "sum", "op": "add", "inputs": ["wide", "images"], "outputs": ["sum"]},
    {"name": "linear", "op": "resize", "inputs": ["sum"], "outputs": ["linear"],
     "attributes": {"mode": "linear", "sizes": ["height / 2 * 3", "width / 2"]}},
    {"name": "sample", "op": "grid_sample", "inputs": ["linear", "grid"], "outputs": ["sampled"]},
    {"name": "blocks", "op": "space_to_depth", "inputs": ["mix"], "outputs": ["blocks"],
     "attributes": {"block": 4}},
    {"name": "four", "op": "adaptive_pool", "inputs": ["eighth"], "outputs": ["four"],
     "attributes": {"kind": "mean", "out": [2, 2]}},
    {"name": "flat", "op": "flatten", "inputs": ["four"], "outputs": ["flat"]},
    {"name": "head", "op": "matmul", "inputs": ["flat", "head.w"], "outputs": ["logits"]}
  ],
  "outputs": ["logits", "linear", "sampled", "blocks", "gates"]
})";
}

DimBindings images(int64_t batch, int64_t height, int64_t width) {
  return {{"batch", batch}, {"height", height}, {"width", width}};
}

// The refusal of a graph of one node over images of a free height.
std::string refusal_of(const std::string& node) {
  const std::string text = R"({"rlx_graph": 1,
  "symbols": [{"name": "height", "min": 1, "max": 64}],
  "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 2, "height", 16]}],
  "nodes": [)" + node + R"(], "outputs": ["y"]})";
  Diagnostics diagnostics;
  const auto source = read_json_graph(text, "one.json", diagnostics);
  REQUIRE(source);
  auto module = bind_module(*source, {}, ".", diagnostics, {{"height", {1, 64, 1}}});
  if (module) {
    CompileOptions options;
    CHECK(!compile_to_bytes(std::move(*module), options, diagnostics));
  }
  return diagnostics.text();
}

}  // namespace

TEST_CASE("images of any number and size go through windows, resizes and pools", "[images]") {
  const FreeDims free_dims = {
      {"batch", {1, 4, 1}}, {"height", {32, 128, 32}}, {"width", {32, 128, 32}}};
  check_everywhere(network(), bound_to(network(), {}, free_dims),
                   {images(1, 32, 64), images(1, 32, 32), images(2, 64, 32), images(1, 32, 64)});
}

TEST_CASE("a size chooses the program that was compiled for its range", "[images]") {
  const TemporaryFolder folder;
  Diagnostics diagnostics;
  const auto module = load_entries(folder.write("network.json", network()),
                                   {.dims = {{"width", 32}},
                                    .free_dims = {{"height", {32, 128, 32}}},
                                    .ranged_dims = {{"batch", {{1, 1, 1}, {2, 4, 1}}}}},
                                   {}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module);
  REQUIRE(module->entries.size() == 2);
  check_everywhere(network(), *module,
                   {images(1, 32, 32), images(2, 32, 32), images(1, 64, 32), images(3, 64, 32),
                    images(1, 32, 32)});
}

// Sizes that stand in no one ratio: the run makes the tables.
TEST_CASE("windows and coordinates follow the sizes of the run", "[images]") {
  const auto node = [](const std::string& op, const std::string& attributes) {
    static int count = 0;
    const std::string name = "y" + std::to_string(count++);
    return R"({"name": ")" + name + R"(", "op": ")" + op +
           R"(", "inputs": ["images"], "outputs": [")" + name + R"("], "attributes": {)" +
           attributes + "}}";
  };
  const std::string text =
      R"({"rlx_graph": 1,
  "symbols": [{"name": "batch", "min": 0, "max": 2}, {"name": "height", "min": 1, "max": 40},
              {"name": "width", "min": 1, "max": 40}],
  "inputs": [{"name": "images", "dtype": "f32", "shape": ["batch", 2, "height", "width"]}],
  "nodes": [)" +
      node("adaptive_pool", R"("kind": "mean", "out": [3, 4])") + ", " +
      node("adaptive_pool", R"("kind": "max", "out": [2, 5])") + ", " +
      node("resize", R"("mode": "linear", "sizes": [24, 9])") + ", " +
      node("resize", R"("mode": "cubic", "sizes": ["width", "height"], "exclude_outside": true)") +
      ", " +
      node("resize", R"("mode": "linear", "sizes": [7, "width + 3"], "coord": "align_corners")") +
      ", " + node("resize", R"("sizes": [11, "height"], "nearest_mode": "ceil")") + ", " +
      node("resize", R"("sizes": [5, 1], "coord": "pytorch_half_pixel", "mode": "linear")") +
      R"(], "outputs": ["y0", "y1", "y2", "y3", "y4", "y5", "y6"]})";
  const FreeDims free_dims = {{"batch", {0, 2, 1}}, {"height", {1, 40, 1}}, {"width", {1, 40, 1}}};
  check_everywhere(
      text, bound_to(text, {}, free_dims),
      {images(1, 17, 40), images(2, 1, 3), images(0, 5, 9), images(2, 40, 23), images(1, 17, 40)});
}

TEST_CASE("sizes that image operators cannot leave to a run are refused by name", "[images]") {
  const std::string resize = refusal_of(
      R"({"name": "to24", "op": "resize", "inputs": ["x"], "outputs": ["y"],
          "attributes": {"mode": "linear", "sizes": [24, 24], "antialias": true}})");
  CHECK(resize.find("\"to24\"") != std::string::npos);
  CHECK(resize.find("the size height is free") != std::string::npos);
  CHECK(resize.find("--dim NAME=N") != std::string::npos);
}

// A slice that takes what a symbol leaves.
TEST_CASE("sizes that shrink where symbols grow are refused by name", "[images]") {
  const std::string rest = refusal_of(
      R"({"name": "rest", "op": "slice", "inputs": ["x"], "outputs": ["y"],
          "attributes": {"axes": [3], "starts": ["height"], "ends": [16]}})");
  CHECK(rest.find("\"rest\"") != std::string::npos);
  CHECK(rest.find("where it must be largest") != std::string::npos);
}

}  // namespace rlx::test
