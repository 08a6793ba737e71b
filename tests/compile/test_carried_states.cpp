// SPDX-License-Identifier: Apache-2.0
// T116 Ops with a state that is carried along a sequence: runs of one step each, connected by a
// state, are one run of all steps.
#include <algorithm>
#include <vector>

#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

constexpr int64_t kSteps = 7;

// A graph text in which S stands for the number of steps.
struct CarriedGraph {
  std::string text;
  size_t step_axis = 1;  // of y and of inputs with an axis of steps
};

std::string with_steps(std::string text, int64_t steps) {
  for (size_t at = text.find("\"S\""); at != std::string::npos; at = text.find("\"S\""))
    text.replace(at, 3, std::to_string(steps));
  return text;
}

std::string carried_input(const std::string& name, const std::string& shape) {
  return R"({"name": ")" + name + R"(", "dtype": "f32", "shape": )" + shape + "}";
}

std::string carried_graph(const std::string& state_shape, const std::string& inputs,
                          const std::string& node) {
  return R"({"rlx_graph": 1, "states": [{"name": "s", "dtype": "f32", "shape": )" + state_shape +
         R"(, "init": "zeros"}], "inputs": [)" + inputs + R"(], "nodes": [)" + node +
         R"(, {"op": "state_write", "inputs": ["s", "n"], "outputs": ["kept"]}], "outputs": ["y"]})";
}

const CarriedGraph kCausalConv = {
    .text = carried_graph(
        "[3, 6, 3]", carried_input("x", R"([3, 6, "S"])") + ", " + carried_input("w", "[6, 1, 4]"),
        R"({"op": "causal_conv1d", "inputs": ["x", "w", null, "s"], "outputs": ["y", "n"]})"),
    .step_axis = 2};
const CarriedGraph kSelectiveScan = {
    .text = carried_graph(
        "[3, 6, 5]",
        carried_input("x", R"([3, "S", 6])") + ", " + carried_input("d", R"([3, "S", 6])") + ", " +
            carried_input("a", "[6, 5]") + ", " + carried_input("b", R"([3, "S", 5])") + ", " +
            carried_input("c", R"([3, "S", 5])"),
        R"({"op": "selective_scan", "inputs": ["x", "d", "a", "b", "c", null, null, null, "s"],
            "outputs": ["y", "n"]})")};
const CarriedGraph kMamba2 = {
    .text = carried_graph(
        "[3, 2, 6, 5]",
        carried_input("x", R"([3, "S", 2, 6])") + ", " + carried_input("d", R"([3, "S", 2])") +
            ", " + carried_input("a", "[2]") + ", " + carried_input("b", R"([3, "S", 1, 5])") +
            ", " + carried_input("c", R"([3, "S", 1, 5])"),
        R"({"op": "mamba2", "inputs": ["x", "d", "a", "b", "c", null, null, null, "s"],
            "outputs": ["y", "n"]})")};
const CarriedGraph kGatedDeltanet = {
    .text = carried_graph(
        "[3, 2, 6, 5]",
        carried_input("q", R"([3, "S", 2, 6])") + ", " + carried_input("k", R"([3, "S", 2, 6])") +
            ", " + carried_input("v", R"([3, "S", 2, 5])") + ", " +
            carried_input("g", R"([3, "S", 2])") + ", " + carried_input("b", R"([3, "S", 2])"),
        R"({"op": "gated_deltanet", "inputs": ["q", "k", "v", "g", "b", "s"], "outputs": ["y", "n"],
            "attributes": {"num_heads": 2}})")};

// One step of a tensor whose size along `axis` is kSteps; others are as they are.
Tensor step_of(const Tensor& whole, size_t axis, int64_t step) {
  if (whole.type.shape.size() <= axis || !(whole.type.shape[axis] == kSteps)) return whole;
  Tensor part = whole;
  part.type.shape[axis] = 1;
  part.floats.clear();
  const auto inner = static_cast<size_t>(dense_strides(whole.type.shape)[axis]);
  for (size_t i = 0; i < whole.floats.size(); ++i) {
    if (static_cast<int64_t>(i / inner) % kSteps == step) part.floats.push_back(whole.floats[i]);
  }
  return part;
}

// Values in which nothing grows: exponents are of numbers below 0.
std::vector<Tensor> carried_inputs(const Graph& graph) {
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    CaseTensor made = tensor(value.type.dtype, value.type.shape);
    if (value.name == "a" || value.name == "g") made = made.uniform(-2, -0.1);
    if (value.name == "d" || value.name == "k") made = made.uniform(0.1, 0.5);
    inputs.push_back(fill(made, value.name));
  }
  return inputs;
}

// Copies among the steps of the plan of one step.
size_t check_carried(const CarriedGraph& carried) {
  const Module all = module_from(with_steps(carried.text, kSteps));
  const std::vector<Tensor> inputs = carried_inputs(all.entries[0]);
  Diagnostics diagnostics;
  StateValues states;
  const auto wanted = evaluate_entry(all, all.entries[0], inputs, states, {}, diagnostics);
  REQUIRE(wanted.has_value());
  const auto plan =
      compile_plan(module_from(with_steps(carried.text, 1)), test_options(2), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  for (const auto& device : present_devices().devices) {
    TestSession session(*device, plan);
    for (int64_t step = 0; step < kSteps; ++step) {
      std::vector<Tensor> parts;
      for (const Tensor& input : inputs) parts.push_back(step_of(input, carried.step_axis, step));
      const auto got = session.run(0, parts, std::byte{0xA5});
      const Tensor of_step = step_of((*wanted)[0], carried.step_axis, step);
      const Verdict verdict = judge(got[0], of_step, Tolerance::Norm);
      INFO("step " << step << " on " << device->info().id << ": " << verdict.fault);
      REQUIRE(verdict.good);
    }
  }
  const fb::Entry& entry = *plan->index().entries()->Get(0);
  return static_cast<size_t>(
      std::count_if(entry.steps()->begin(), entry.steps()->end(),
                    [](const fb::Step* step) { return step->kind() == fb::StepKind::Copy; }));
}

}  // namespace

TEST_CASE("T116_runs_of_one_step_are_one_run_of_all_and_states_change_in_place") {
  CHECK(check_carried(kSelectiveScan) == 0);
  CHECK(check_carried(kMamba2) == 0);
  CHECK(check_carried(kGatedDeltanet) == 0);
}

TEST_CASE("T116_the_last_inputs_of_a_causal_convolution_are_carried") {
  CHECK(check_carried(kCausalConv) == 1);
}

}  // namespace rlx::test
