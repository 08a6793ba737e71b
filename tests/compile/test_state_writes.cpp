// SPDX-License-Identifier: Apache-2.0
// New values of states: computed in place where nobody can tell, copied where somebody could.
#include <algorithm>
#include <vector>

#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

struct StateCost {
  size_t copies = 0;
  uint64_t arena_bytes = 0;
};

// Runs a few times on every device and compares each output with the evaluator, whose states live
// on alike. What the first target's entry costs.
StateCost check_state_runs(const std::string& text, int level = 2) {
  const Module module = module_from(text);
  const Graph& graph = module.entries[0];
  Diagnostics diagnostics;
  const auto plan = compile_plan(module, test_options(level), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  for (const auto& device : present_devices().devices) {
    TestSession session(*device, plan);
    StateValues states;
    for (int run = 0; run < 4; ++run) {
      std::vector<Tensor> inputs = random_inputs(graph);
      for (Tensor& input : inputs) {
        for (double& value : input.floats) value += run;
      }
      const auto wanted = evaluate_entry(module, graph, inputs, states, {}, diagnostics);
      REQUIRE(wanted.has_value());
      const auto got = session.run(0, inputs, std::byte{0xA5});
      for (size_t i = 0; i < got.size(); ++i) {
        const Verdict verdict = judge(got[i], (*wanted)[i], Tolerance::Norm);
        INFO("-O" << level << " run " << run << " output " << i << " on " << device->info().id
                  << ": " << verdict.fault);
        REQUIRE(verdict.good);
      }
    }
  }
  const fb::Entry& entry = *plan->index().entries()->Get(0);
  const auto copies =
      std::count_if(entry.steps()->begin(), entry.steps()->end(),
                    [](const fb::Step* step) { return step->kind() == fb::StepKind::Copy; });
  return {.copies = static_cast<size_t>(copies), .arena_bytes = entry.arena_bytes()};
}

std::string states_graph(const std::string& nodes, const std::string& outputs) {
  return R"({"rlx_graph": 1, "states": [
      {"name": "p", "dtype": "f32", "shape": [64, 64], "init": "ones"},
      {"name": "m", "dtype": "f32", "shape": [64, 64], "init": "zeros"}],
    "inputs": [{"name": "g", "dtype": "f32", "shape": [64, 64]}, {"name": "b", "dtype": "f32", "shape": []}],
    "nodes": [)" +
         nodes + R"(], "outputs": )" + outputs + "}";
}

std::string written_node(const std::string& op, const std::string& inputs,
                         const std::string& output, const std::string& attributes = "") {
  return R"({"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": [")" + output +
         "\"]" + (attributes.empty() ? "" : R"(, "attributes": )" + attributes) + "}";
}

const std::string kMomentum = written_node("mul", R"("m", "b")", "decayed") + ", " +
                              written_node("add", R"("decayed", "g")", "m_new") + ", " +
                              written_node("sub", R"("p", "m_new")", "p_new");
const std::string kWriteBothStates = ", " + written_node("state_write", R"("m", "m_new")", "mk") +
                                     ", " + written_node("state_write", R"("p", "p_new")", "pk");

std::string sum_of(const std::string& value, const std::string& output) {
  return ", " + written_node("reduce_sum", "\"" + value + "\"", output, R"({"axes": [1]})");
}

constexpr uint64_t kParameterBytes = 64 * 64 * 4;

}  // namespace

TEST_CASE("an_optimiser_updates_its_states_in_place") {
  const std::string text =
      states_graph(kMomentum + kWriteBothStates + sum_of("p_new", "y"), R"(["y"])");
  const StateCost cost = check_state_runs(text);
  CHECK(cost.copies == 0);
  CHECK(cost.arena_bytes < kParameterBytes);
  check_state_runs(text, 0);
}

TEST_CASE("an_old_value_that_is_read_later_keeps_its_copy") {
  const std::string late = ", " + written_node("matmul", R"("p", "p_new")", "z") + sum_of("z", "y");
  CHECK(check_state_runs(states_graph(kMomentum + kWriteBothStates + late, R"(["y"])")).copies ==
        1);
  CHECK(check_state_runs(states_graph(kMomentum + kWriteBothStates, R"(["p"])")).copies >= 1);
}

TEST_CASE("states_that_swap_keep_their_values") {
  const std::string swap = written_node("state_write", R"("p", "m")", "pk") + ", " +
                           written_node("state_write", R"("m", "p")", "mk") + sum_of("p", "y");
  CHECK(check_state_runs(states_graph(swap, R"(["y"])")).copies >= 2);
  const std::string crossed = written_node("add", R"("p", "g")", "a") + ", " +
                              written_node("sub", R"("m", "g")", "c") + ", " +
                              written_node("state_write", R"("p", "c")", "pk") + ", " +
                              written_node("state_write", R"("m", "a")", "mk") + sum_of("p", "y");
  CHECK(check_state_runs(states_graph(crossed, R"(["y"])")).copies >= 1);
}

TEST_CASE("a_state_that_becomes_a_view_of_itself_is_not_written_in_place") {
  const std::string turned = written_node("transpose", R"("p")", "t", R"({"perm": [1, 0]})") +
                             ", " + written_node("add", R"("t", "g")", "n") + ", " +
                             written_node("state_write", R"("p", "n")", "pk") + sum_of("n", "y");
  CHECK(check_state_runs(states_graph(turned, R"(["y"])")).copies == 1);
  const std::string plain = written_node("transpose", R"("p")", "t", R"({"perm": [1, 0]})") + ", " +
                            written_node("state_write", R"("p", "t")", "pk") + ", " +
                            written_node("add", R"("p", "g")", "n") + sum_of("n", "y");
  CHECK(check_state_runs(states_graph(plain, R"(["y"])")).copies >= 1);
  const std::string rolled =
      written_node("narrow", R"("p")", "tail", R"({"axis": 0, "start": 1, "len": 63})") + ", " +
      written_node("narrow", R"("g")", "head", R"({"axis": 0, "start": 0, "len": 1})") + ", " +
      written_node("concat", R"("tail", "head")", "n", R"({"axis": 0})") + ", " +
      written_node("state_write", R"("p", "n")", "pk") + sum_of("n", "y");
  CHECK(check_state_runs(states_graph(rolled, R"(["y"])")).copies >= 1);
}

}  // namespace rlx::test
