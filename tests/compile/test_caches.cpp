// SPDX-License-Identifier: Apache-2.0
// Caches in states: appended to in place where nobody can tell, copied where somebody could.
#include <algorithm>

#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

// Runs `runs` times on every device, with the run's number as position p, and compares each output
// with the evaluator, whose states live on alike. Returns the number of copies in the plan's steps.
size_t check_runs(const std::string& text, int runs) {
  const Module module = module_from(text);
  const Graph& graph = module.entries[0];
  Diagnostics diagnostics;
  const auto plan = compile_plan(module, test_options(2), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  for (const auto& device : present_devices().devices) {
    TestSession session(*device, plan);
    StateValues states;
    for (int run = 0; run < runs; ++run) {
      std::vector<Tensor> inputs = random_inputs(graph);
      inputs[0].integers = {run};
      for (Tensor& input : inputs) {
        for (double& value : input.floats) value += run;
      }
      const auto wanted = evaluate_entry(module, graph, inputs, states, {}, diagnostics);
      REQUIRE(wanted.has_value());
      const auto got = session.run(0, inputs, std::byte{0xA5});
      for (size_t i = 0; i < got.size(); ++i) {
        const Verdict verdict = judge(got[i], (*wanted)[i], Tolerance::Exact);
        INFO("run " << run << " output " << i << " on " << device->info().id << ": "
                    << verdict.fault);
        REQUIRE(verdict.good);
      }
    }
  }
  const auto& steps = *plan->index().entries()->Get(0)->steps();
  return static_cast<size_t>(std::count_if(steps.begin(), steps.end(), [](const fb::Step* step) {
    return step->kind() == fb::StepKind::Copy;
  }));
}

// A cache of `capacity` rows of 4, one row x per run at p; `nodes` use its new value "grown".
std::string growing(int capacity, const std::string& mode, const std::string& nodes,
                    const std::string& outputs) {
  return R"({"rlx_graph": 1, "states": [{"name": "cache", "dtype": "f32", "shape": [2, )" +
         std::to_string(capacity) + R"(, 4], "init": "ones"}],
    "inputs": [{"name": "p", "dtype": "i32", "shape": []}, {"name": "x", "dtype": "f32", "shape": [2, 1, 4]}],
    "nodes": [{"op": "kv_append", "inputs": ["cache", "x", "p"], "outputs": ["grown"],
               "attributes": {"axis": 1, "mode": ")" +
         mode + "\"}}" + nodes + R"(], "outputs": )" + outputs + "}";
}

const std::string kWrite =
    R"(, {"op": "state_write", "inputs": ["cache", "grown"], "outputs": ["kept"]})";
const std::string kSum =
    R"(, {"op": "reduce_max", "inputs": ["grown"], "outputs": ["y"], "attributes": {"axes": [2]}})";

}  // namespace

TEST_CASE("T155_a_thousand_appends_to_a_state_copy_nothing") {
  CHECK(check_runs(growing(700, "linear", kWrite + kSum, R"(["y"])"), 1000) == 0);
}

TEST_CASE("T155_circular_appends_to_a_state_copy_nothing") {
  CHECK(check_runs(growing(5, "circular", kWrite + kSum, R"(["y"])"), 12) == 0);
}

TEST_CASE("T37_a_view_of_the_old_cache_keeps_its_values") {
  const std::string view =
      R"(, {"op": "reshape", "inputs": ["cache"], "outputs": ["r"], "attributes": {"shape": [24]}},
           {"op": "narrow", "inputs": ["r"], "outputs": ["old"], "attributes": {"axis": 0, "start": 3, "len": 9}})";
  CHECK(check_runs(growing(3, "linear", kWrite + kSum + view, R"(["y", "old"])"), 4) > 0);
  CHECK(check_runs(growing(3, "linear", kWrite + kSum, R"(["cache", "y"])"), 4) > 0);
}

TEST_CASE("an_append_that_is_not_written_back_leaves_the_state") {
  CHECK(check_runs(growing(3, "linear", kSum, R"(["y"])"), 4) > 0);
}

TEST_CASE("appends_in_a_row_share_the_state") {
  const std::string twice =
      R"(, {"op": "affine", "inputs": ["p"], "outputs": ["q"], "attributes": {"add": 2}})";
  const std::string second =
      R"(, {"op": "neg", "inputs": ["x"], "outputs": ["z"]},
           {"op": "kv_append", "inputs": ["grown", "z", "p"], "outputs": ["again"],
            "attributes": {"axis": 1, "mode": "circular"}},
           {"op": "state_write", "inputs": ["cache", "again"], "outputs": ["kept"]})";
  CHECK(check_runs(growing(4, "linear", second, R"(["again"])"), 6) == 1);  // the output
  // The first result is read after the second append.
  CHECK(check_runs(growing(4, "linear", second + kSum, R"(["again", "y"])"), 6) > 1);
}

TEST_CASE("the_old_cache_can_become_another_state") {
  const std::string text =
      R"({"rlx_graph": 1, "states": [{"name": "cache", "dtype": "f32", "shape": [1, 3, 4]},
      {"name": "before", "dtype": "f32", "shape": [1, 3, 4]}],
    "inputs": [{"name": "p", "dtype": "i32", "shape": []}, {"name": "x", "dtype": "f32", "shape": [1, 1, 4]}],
    "nodes": [{"op": "kv_append", "inputs": ["cache", "x", "p"], "outputs": ["grown"]},
              {"op": "state_write", "inputs": ["cache", "grown"], "outputs": ["kept"]},
              {"op": "state_write", "inputs": ["before", "cache"], "outputs": ["was"]}],
    "outputs": ["before", "was"]})";
  check_runs(text, 4);
}

TEST_CASE("a_decode_layer_gives_the_same_at_every_level") {
  const auto weight = [](const std::string& name, const std::string& shape, int stream) {
    return R"({"name": ")" + name + R"(", "dtype": "f32", "shape": )" + shape +
           R"(, "data": {"random": {"distribution": "uniform", "low": -0.2, "high": 0.2, "seed": 9, "stream": )" +
           std::to_string(stream) + "}}}";
  };
  const auto product = [](const std::string& x, const std::string& w, const std::string& y) {
    return R"({"op": "matmul", "inputs": [")" + x + R"(", ")" + w + R"("], "outputs": [")" + y +
           R"("], "attributes": {"trans_b": true}}, )";
  };
  const auto heads = [](const std::string& x, const std::string& y, int count) {
    return R"({"op": "reshape", "inputs": [")" + x + R"("], "outputs": [")" + y +
           R"("], "attributes": {"shape": [1, 1, )" + std::to_string(count) + ", 8]}}, ";
  };
  const auto rope = [](const std::string& x, const std::string& y) {
    return R"({"op": "rope", "inputs": [")" + x + R"(", "cos", "sin", "p"], "outputs": [")" + y +
           R"("], "attributes": {"head_dim": 8}}, )";
  };
  const auto append = [](const std::string& x, const std::string& cache) {
    return R"({"op": "transpose", "inputs": [")" + x + R"("], "outputs": [")" + x +
           R"(t"], "attributes": {"perm": [0, 2, 1, 3]}}, {"op": "kv_append", "inputs": [")" +
           cache + R"(", ")" + x + R"(t", "p"], "outputs": [")" + cache +
           R"(a"]}, {"op": "state_write", "inputs": [")" + cache + R"(", ")" + cache +
           R"(a"], "outputs": [")" + cache + R"(n"]}, )";
  };
  check_on_devices(
      R"({"rlx_graph": 1, "params": [)" + weight("wq", "[64, 48]", 1) + ", " +
      weight("wk", "[16, 48]", 2) + ", " + weight("wv", "[16, 48]", 3) + ", " +
      weight("wo", "[48, 64]", 4) + ", " + weight("wg", "[96, 48]", 5) + ", " +
      weight("wu", "[96, 48]", 6) + ", " + weight("wd", "[48, 96]", 7) + ", " +
      weight("g", "[48]", 8) + ", " + weight("cos", "[9, 4]", 9) + ", " +
      weight("sin", "[9, 4]", 10) + R"(],
    "states": [{"name": "kc", "dtype": "f32", "shape": [1, 2, 9, 8], "init": "ones"},
               {"name": "vc", "dtype": "f32", "shape": [1, 2, 9, 8], "init": "ones"}],
    "constants": [{"name": "p", "dtype": "i32", "shape": [], "data": {"values": [5]}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [1, 1, 48]}],
    "nodes": [{"op": "rms_norm", "inputs": ["x", "g"], "outputs": ["n"]}, )" +
      product("n", "wq", "q") + product("n", "wk", "k") + product("n", "wv", "v") +
      heads("q", "q4", 8) + heads("k", "k4", 2) + heads("v", "v4", 2) + rope("q4", "qr") +
      rope("k4", "kr") + append("kr", "kc") + append("v4", "vc") +
      R"({"op": "attention", "inputs": ["qr", "kcn", "vcn"], "outputs": ["a"],
          "attributes": {"num_heads": 8, "num_kv_heads": 2, "head_dim": 8, "kv_layout": "bhsd"}},
         {"op": "reshape", "inputs": ["a"], "outputs": ["af"], "attributes": {"shape": [1, 1, 64]}}, )" +
      product("af", "wo", "o") + R"({"op": "add", "inputs": ["o", "x"], "outputs": ["s"]},
         {"op": "rms_norm", "inputs": ["s", "g"], "outputs": ["m"]}, )" +
      product("m", "wg", "gate") + product("m", "wu", "up") +
      R"({"op": "silu", "inputs": ["gate"], "outputs": ["ga"]},
         {"op": "mul", "inputs": ["ga", "up"], "outputs": ["gu"]}, )" +
      product("gu", "wd", "d") + R"({"op": "add", "inputs": ["d", "s"], "outputs": ["y"]}],
    "outputs": ["y", "kcn", "vcn"]})");
}

}  // namespace rlx::test
