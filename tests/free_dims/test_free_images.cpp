// SPDX-License-Identifier: Apache-2.0
// A small network over images whose number, height and width a run gives: windows, resizes and
// pools one behind the other, whose branches meet again. One session walks through sizes up and
// down, and gives what the evaluator gives of a graph of those sizes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/import/entries.h"
#include "compiler/reference/evaluate.h"
#include "runtime/api/session.h"
#include "tests/support/catch.h"
#include "tests/support/harness.h"
#include "tests/support/temporary_folder.h"

namespace rlx::test {
namespace {

// Numbers in (-1, 1), the same on every machine.
class Numbers {
 public:
  double next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state_ >> 40U) / static_cast<double>(uint64_t{1} << 23U) - 1;
  }

 private:
  uint64_t state_ = 7;
};

std::string param(Numbers& numbers, const std::string& name, const Shape& shape, double offset) {
  std::string values;
  for (int64_t i = 0; i < element_count(shape); ++i) {
    const auto thousandths = std::lround((offset + 0.4 * numbers.next()) * 1000);
    values += (i == 0 ? "" : ", ") + std::to_string(static_cast<double>(thousandths) / 1000);
  }
  return R"({"name": ")" + name + R"(", "dtype": "f32", "shape": )" + to_string(shape) +
         R"(, "data": {"values": [)" + values + "]}}";
}

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

struct ImageSizes {
  int64_t batch;
  int64_t height;
  int64_t width;
};

CompileOptions options_of(const Device& device) {
  CompileOptions options = test_options(2);
  options.targets = {device.info().architecture == 0 ? "vulkan" : "cuda"};
  return options;
}

Module bound_to(const std::string& text, const DimBindings& dims, const FreeDims& free_dims) {
  Diagnostics diagnostics;
  const auto source = read_json_graph(text, "network.json", diagnostics);
  REQUIRE(source);
  auto module = bind_module(*source, dims, ".", diagnostics, free_dims);
  INFO(diagnostics.text());
  REQUIRE(module);
  return std::move(*module);
}

std::vector<Tensor> inputs_of(const Graph& graph) {
  Numbers numbers;
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs) {
    Tensor tensor = Tensor::zeros(graph.value(id).type);
    for (double& value : tensor.floats) value = static_cast<float>(numbers.next());
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

void run_with(Session& session, const std::vector<Tensor>& inputs) {
  const fb::Entry& entry = session.record(0);
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    std::vector<uint64_t> dims;
    for (const Dim& size : inputs[i].type.shape) dims.push_back(static_cast<uint64_t>(size));
    const std::vector<std::byte> bytes = inputs[i].to_bytes();
    const fb::Value& value = PlanView::value(entry, entry.inputs()->Get(i));
    const Status set = session.set_input(0, PlanView::text(value.name()),
                                         {.bytes = bytes, .dtype = value.dtype(), .dims = dims});
    INFO(set.message());
    REQUIRE(set.ok());
  }
  REQUIRE(session.poison_arena(std::byte{0xA5}).ok());
  const Status run = session.run(0);
  INFO(run.message());
  REQUIRE(run.ok());
}

void check_output(Session& session, uint32_t number, const fb::Value& value, const Tensor& wanted) {
  INFO("output " << number << " of " << to_string(wanted.type));
  std::vector<std::byte> bytes(value.size_bytes());
  REQUIRE(session.read_output(0, PlanView::text(value.name()), bytes).ok());
  REQUIRE(bytes.size() == wanted.floats.size() * sizeof(float));
  double largest = 1;
  double error = 0;
  for (size_t i = 0; i < wanted.floats.size(); ++i) {
    float got = 0;
    std::memcpy(&got, &bytes[i * sizeof got], sizeof got);
    largest = std::max(largest, std::abs(wanted.floats[i]));
    const double apart = std::abs(got - wanted.floats[i]);
    error = apart <= error ? error : apart;  // NaN stays
  }
  CHECK(error <= 1e-5 * largest);
}

void check_at(Session& session, const std::string& text, const ImageSizes& sizes) {
  INFO("batch " << sizes.batch << ", " << sizes.height << " x " << sizes.width);
  const Module fixed = bound_to(
      text, {{"batch", sizes.batch}, {"height", sizes.height}, {"width", sizes.width}}, {});
  const std::vector<Tensor> inputs = inputs_of(fixed.entries[0]);
  Diagnostics diagnostics;
  StateValues states;
  const auto wanted = evaluate_entry(fixed, fixed.entries[0], inputs, states, {}, diagnostics);
  REQUIRE(wanted);
  run_with(session, inputs);
  Session::BoundEntry bound;
  REQUIRE(session.bound_entry(0, bound).ok());
  for (uint32_t i = 0; i < wanted->size(); ++i) {
    const fb::Value& value = PlanView::value(*bound.record, bound.record->outputs()->Get(i));
    check_output(session, i, value, (*wanted)[i]);
  }
}

// In one session of each device, which keeps two bindings.
void check_everywhere(const std::string& text, const Module& network,
                      std::initializer_list<ImageSizes> walk) {
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    Diagnostics diagnostics;
    const auto plan = compile_plan(network, options_of(*device), diagnostics);
    INFO(diagnostics.text());
    REQUIRE(plan);
    std::shared_ptr<DevicePlan> loaded;
    std::unique_ptr<Session> session;
    REQUIRE(device->load(*plan, {}, loaded).ok());
    REQUIRE(Session::create(plan, loaded, false, {.max_bindings = 2}, session).ok());
    for (const ImageSizes& sizes : walk) check_at(*session, text, sizes);
  }
  CHECK(validation_messages().empty());
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
  check_everywhere(
      network(), bound_to(network(), {}, free_dims),
      {ImageSizes{1, 32, 64}, ImageSizes{1, 32, 32}, ImageSizes{2, 64, 32}, ImageSizes{1, 32, 64}});
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
                   {ImageSizes{1, 32, 32}, ImageSizes{2, 32, 32}, ImageSizes{1, 64, 32},
                    ImageSizes{3, 64, 32}, ImageSizes{1, 32, 32}});
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
  check_everywhere(text, bound_to(text, {}, free_dims),
                   {ImageSizes{1, 17, 40}, ImageSizes{2, 1, 3}, ImageSizes{0, 5, 9},
                    ImageSizes{2, 40, 23}, ImageSizes{1, 17, 40}});
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
