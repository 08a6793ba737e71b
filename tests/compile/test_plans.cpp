// SPDX-License-Identifier: Apache-2.0
// What compiled plans promise: equal bytes, states, generated weights, diagnostics.
#include <array>
#include <cmath>

#include "compiler/dispatch/device_profile.h"
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

// ---- device models ----

namespace {

// y = x * w, [m, k] by [n, k].
Module one_product(int64_t m, int64_t n, int64_t k, const std::string& dtype) {
  const auto shape = [](int64_t a, int64_t b) {
    return "[" + std::to_string(a) + ", " + std::to_string(b) + "]";
  };
  return module_from(R"({"rlx_graph": 1, "inputs": [{"name": "x", "dtype": ")" + dtype +
                     R"(", "shape": )" + shape(m, k) +
                     R"(}], "params": [{"name": "w", "dtype": ")" + dtype + R"(", "shape": )" +
                     shape(n, k) +
                     R"(, "data": {"splat": 0.5}}], "nodes": [
    {"op": "matmul", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"trans_b": true}}],
    "outputs": ["y"]})");
}

CompileOptions options_for(const std::string& target, std::optional<DeviceModel> model = {}) {
  CompileOptions options;
  options.targets = {target};
  if (model) options.device_models = {{.target = target, .name = "mine", .model = *model}};
  return options;
}

StepEstimate only_step(Module module, const CompileOptions& options) {
  Diagnostics diagnostics;
  auto steps = estimate_steps(std::move(module), options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(steps.has_value());
  REQUIRE(steps->size() == 1);
  return steps->front();
}

std::string product_plan(const CompileOptions& options) {
  Diagnostics diagnostics;
  const auto bytes = compile_to_bytes(one_product(512, 512, 16, "f32"), options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(bytes.has_value());
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

}  // namespace

TEST_CASE("a_slow_library_leaves_products_to_our_kernels") {
  DeviceModel model = find_target("cuda")->device;
  CHECK(only_step(one_product(512, 1024, 1024, "f32"), options_for("cuda")).kernel == "matmul_mma");
  model.mma.split_f32_products = 1e3;
  CHECK(only_step(one_product(512, 1024, 1024, "f32"), options_for("cuda", model)).kernel ==
        "library");
  model.library.f32 = 0.01;
  CHECK(only_step(one_product(512, 1024, 1024, "f32"), options_for("cuda", model)).kernel ==
        "matmul_mma");
}

TEST_CASE("estimates_of_chosen_steps_hold_for_any_device") {
  DeviceModel own = find_target("cuda")->device;
  own.library.short_float = 1;
  DeviceModel other = own;
  const StepEstimate mma = only_step(one_product(128, 768, 768, "f16"), options_for("cuda"));
  CHECK(mma.kernel == "matmul_mma");
  CHECK(mma.flops == 2ull * 128 * 768 * 768);
  other.mma.start += 1;
  CHECK(mma.microseconds(other) == Approx(mma.microseconds(own) + 1));
  const StepEstimate wgmma =
      only_step(one_product(4096, 2048, 8192, "bf16"), options_for("cuda", own));
  CHECK(wgmma.kernel == "matmul_wgmma");
  other.wgmma.begin += 2;
  CHECK(wgmma.microseconds(other) == Approx(wgmma.microseconds(own) + 2));
  // A kernel without a model of its own: its bytes at the memory's rate.
  const StepEstimate matvec = only_step(one_product(1, 4096, 4096, "f32"), options_for("vulkan"));
  other.memory_gigabytes_per_second = 1;
  other.step_microseconds = 0;
  CHECK(matvec.microseconds(other) == Approx(static_cast<double>(matvec.bytes) * 1e-3));
}

TEST_CASE("the_model_of_a_target_named_again_gives_the_same_plan_and_another_one_stands_in_it") {
  const std::string plain = product_plan(options_for("vulkan"));
  DeviceModel model = find_target("vulkan")->device;
  CHECK(product_plan(options_for("vulkan", model)) == plain);
  CHECK(plain.find("device model") == std::string::npos);
  model.multiprocessors = 2;
  const std::string other = product_plan(options_for("vulkan", model));
  CHECK(other.find("vulkan: device model mine") != std::string::npos);
  // Two multiprocessors are full with large tiles too.
  CHECK(plain.find("matmul 32x64x16 tile") != std::string::npos);
  CHECK(other.find("matmul 128x128x") != std::string::npos);
}

TEST_CASE("any_model_within_its_ranges_chooses_something") {
  // Graphs for the kernels whose choice goes by a model: products, vectors, attention,
  // convolutions, reductions, softmax, scans.
  const std::string x = R"({"name": "x", "dtype": "f16", "shape": [2, 64, 12, 64]})";
  const auto params = [](const std::string& list) { return R"(, "params": [)" + list + "]"; };
  const auto param = [](const std::string& name, const std::string& dtype,
                        const std::string& shape) {
    return R"({"name": ")" + name + R"(", "dtype": ")" + dtype + R"(", "shape": )" + shape +
           R"(, "data": {"splat": 0.5}})";
  };
  const std::vector<std::string> texts = {
      x + "]" + params(param("k", "f16", "[2, 64, 12, 64]")) + R"(, "nodes": [)" +
          node("attention", R"("x", "k", "k")", "y", R"({"num_heads": 12, "head_dim": 64})"),
      x + "]" + params(param("w", "f16", "[64, 64, 3, 3]")) + R"(, "nodes": [)" +
          node("conv", R"("x", "w")", "y", R"({"pads": [1, 1, 1, 1]})"),
      x + R"(], "nodes": [)" + node("reduce_sum", R"("x")", "y", R"({"axes": [1, 2, 3]})"),
      x + R"(], "nodes": [)" + node("softmax", R"("x")", "y"),
      x + R"(], "nodes": [)" + node("cumsum", R"("x")", "y", R"({"axis": 1})"),
  };
  const int trial = GENERATE(range(0, 24));
  for (const Target& target : all_targets()) {
    DeviceModel model = target.device;
    uint64_t seed = static_cast<uint64_t>(trial) * 977;
    for (const DeviceNumber& number : numbers_of(model, target)) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      const bool most = trial < 2 ? trial == 1 : (seed >> 60) % 2 == 1;
      number.set(most ? number.most : number.least);
    }
    const CompileOptions options = options_for(std::string(target.name), model);
    INFO(target.name << ", trial " << trial);
    std::vector<Module> modules;
    for (const std::string& text : texts)
      modules.push_back(
          module_from(R"({"rlx_graph": 1, "inputs": [)" + text + R"(], "outputs": ["y"]})"));
    for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{
             {1, 512, 4096}, {64, 64, 512}, {128, 3072, 768}, {512, 512, 512}, {2048, 256, 4096}}) {
      modules.push_back(one_product(m, n, k, "f16"));
      modules.push_back(one_product(m, n, k, "f32"));
    }
    for (Module& module : modules) {
      Diagnostics diagnostics;
      const auto steps = estimate_steps(std::move(module), options, diagnostics);
      INFO(diagnostics.text());
      REQUIRE(steps.has_value());
      for (const StepEstimate& step : *steps) CHECK(std::isfinite(step.microseconds(model)));
    }
  }
}

}  // namespace rlx::test
