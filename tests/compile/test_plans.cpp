// SPDX-License-Identifier: Apache-2.0
// What compiled plans promise: equal bytes, states, generated weights, diagnostics.
#include <cmath>

#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

const char* const kCounter = R"({"rlx_graph": 1,
  "states": [{"name": "count", "dtype": "f32", "shape": [3], "init": {"values": [1, 2, 3]}},
             {"name": "last", "dtype": "f32", "shape": [3], "init": "zeros"}],
  "inputs": [{"name": "x", "dtype": "f32", "shape": [3]}],
  "nodes": [{"op": "add", "inputs": ["count", "x"], "outputs": ["next"]},
            {"op": "state_write", "inputs": ["count", "next"], "outputs": ["written"]},
            {"op": "state_write", "inputs": ["last", "count"], "outputs": ["kept"]},
            {"op": "mul", "inputs": ["count", "x"], "outputs": ["y"]}],
  "outputs": ["y", "written", "last"]})";

const char* const kRandom = R"({"rlx_graph": 1,
  "params": [{"name": "u", "dtype": "f32", "shape": [1003], "data": {"random": {"distribution": "uniform", "low": -2, "high": 3, "seed": 42, "stream": 0}}},
             {"name": "n", "dtype": "f16", "shape": [515], "data": {"random": {"distribution": "normal", "mean": 1, "std": 2, "seed": 7}}},
             {"name": "s", "dtype": "bf16", "shape": [33], "data": {"splat": 0.5}}],
  "inputs": [],
  "nodes": [],
  "outputs": ["u", "n", "s"]})";

}  // namespace

TEST_CASE("T37_states_change_at_the_end_of_a_run") {
  const Module module = module_from(kCounter);
  Diagnostics diagnostics;
  const auto plan = compile_plan(module, test_options(2), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  for (const auto& device : present_devices().devices) {
    TestSession session(*device, plan);
    StateValues states;
    for (int run = 0; run < 3; ++run) {
      const auto inputs = random_inputs(module.entries[0]);
      const auto wanted =
          evaluate_entry(module, module.entries[0], inputs, states, {}, diagnostics);
      const auto got = session.run(0, inputs, std::byte{0xFF});
      for (size_t i = 0; i < got.size(); ++i) {
        const Verdict verdict = judge(got[i], (*wanted)[i], Tolerance::Norm);
        INFO("run " << run << " output " << i << ": " << verdict.fault);
        CHECK(verdict.good);
      }
    }
  }
}

TEST_CASE("generated_weights_are_those_of_the_catalogue") {
  const Module module = module_from(kRandom);
  const Tensor uniform = weight_tensor(module, module.weights[0]);
  // ops.md 0.8: seed 42, stream 0, step 0 gives these u(w).
  const double known[] = {0.61295986, 0.46858650, 0.07323170, 0.34086150};
  for (size_t i = 0; i < 4; ++i) CHECK(std::fabs(uniform.floats[i] - (-2 + 5 * known[i])) < 1e-6);
  Diagnostics diagnostics;
  const auto plan = compile_plan(module, test_options(2), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  for (const auto& device : present_devices().devices) {
    TestSession session(*device, plan);
    const auto got = session.run(0, {}, std::byte{0});
    CHECK(judge(got[0], uniform, Tolerance::Exact).good);
    CHECK(judge(got[1], weight_tensor(module, module.weights[1]), Tolerance::Norm).good);
    CHECK(judge(got[2], weight_tensor(module, module.weights[2]), Tolerance::Exact).good);
  }
}

TEST_CASE("equal_sources_give_equal_bytes_whatever_the_jobs") {
  for (const char* text : {kCounter, kRandom}) {
    CompileOptions one = test_options(2);
    one.jobs = 1;
    one.cache_dir.clear();
    CompileOptions two = test_options(2);
    two.jobs = 2;
    CHECK(compiled(module_from(text), one) == compiled(module_from(text), two));
  }
}

TEST_CASE("an_unknown_target_is_refused_by_name") {
  CompileOptions options = test_options(2);
  options.targets = {"metal"};
  Diagnostics diagnostics;
  CHECK_FALSE(compile_to_bytes(module_from(kCounter), options, diagnostics).has_value());
  CHECK(diagnostics.text().find("target \"metal\" is unknown") != std::string::npos);
  CHECK(diagnostics.all()[0].code == DiagCode::UnsupportedTarget);
}

TEST_CASE("a_state_written_twice_is_refused") {
  Diagnostics diagnostics;
  const Module module = module_from(R"({"rlx_graph": 1,
    "states": [{"name": "s", "dtype": "f32", "shape": [2], "init": "zeros"}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [2]}, {"name": "z", "dtype": "f32", "shape": [2]}],
    "nodes": [{"name": "first", "op": "state_write", "inputs": ["s", "x"], "outputs": ["a"]},
              {"name": "second", "op": "state_write", "inputs": ["s", "z"], "outputs": ["b"]}],
    "outputs": ["a", "b"]})");
  CHECK_FALSE(compile_to_bytes(module, test_options(0), diagnostics).has_value());
  CHECK(diagnostics.text().find("state_write \"second\": state \"s\" is written twice") !=
        std::string::npos);
}

TEST_CASE("T1 operands of several dtypes meet in their common one") {
  check_on_devices(R"({"rlx_graph": 1, "auto_promote": true,
    "params": [{"name": "scale", "dtype": "bf16", "shape": [4], "data": {"values": [0.5, -2, 3, 1]}}],
    "inputs": [{"name": "h", "dtype": "f16", "shape": [3, 4]}, {"name": "n", "dtype": "i32", "shape": [3, 1]},
               {"name": "u", "dtype": "u32", "shape": [3, 4]}, {"name": "f", "dtype": "f64", "shape": []}],
    "nodes": [{"op": "mul", "inputs": ["h", "scale"], "outputs": ["p"]},
              {"op": "sub", "inputs": ["n", "u"], "outputs": ["d"]},
              {"op": "gt", "inputs": ["d", "h"], "outputs": ["g"]},
              {"op": "where", "inputs": ["g", "n", "p"], "outputs": ["w"]},
              {"op": "max", "inputs": ["w", "f"], "outputs": ["m"]}],
    "outputs": ["p", "d", "g", "w", "m"]})");
}

TEST_CASE("precision_f16_keeps_inputs_and_outputs_f32") {
  const Module module = module_from(R"({"rlx_graph": 1,
    "params": [{"name": "w", "dtype": "f32", "shape": [16, 16], "data": {"random": {"distribution": "normal", "mean": 0, "std": 0.25, "seed": 1}}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [4, 16]}],
    "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["p"]},
              {"op": "gelu", "inputs": ["p"], "outputs": ["g"]},
              {"op": "layer_norm", "inputs": ["g"], "outputs": ["y"]}],
    "outputs": ["y"]})");
  const auto inputs = random_inputs(module.entries[0]);
  Diagnostics diagnostics;
  StateValues states;
  const auto wanted = evaluate_entry(module, module.entries[0], inputs, states, {}, diagnostics);
  for (const Precision precision : {Precision::F16, Precision::Bf16}) {
    CompileOptions options = test_options(2);
    options.precision = precision;
    const auto plan = compile_plan(module, options, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(plan != nullptr);
    for (const auto& device : present_devices().devices) {
      const auto got = TestSession(*device, plan).run(0, inputs, std::byte{0});
      CHECK(got[0].type.dtype == DType::f32);
      const double allowed = precision == Precision::F16 ? 0.02 : 0.15;
      for (size_t i = 0; i < got[0].floats.size(); ++i) {
        CHECK(std::fabs(got[0].floats[i] - (*wanted)[0].floats[i]) < allowed);
      }
    }
  }
}

}  // namespace rlx::test
