// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of a free number of lines: kernels of each part of the range, and their
// ends.
#include <set>

#include "compiler/compile.h"
#include "compiler/dispatch/target.h"
#include "runtime/plan/free_sizes.h"
#include "tests/free_dims/free_network.h"

namespace rlx::test {
namespace {

constexpr int64_t kMostLines = 520;

// x[seq, 768] -> relu(x * a + bias) + x * c, of which the first is a deep sum over few columns.
std::string products() {
  Numbers numbers;
  return R"({
  "rlx_graph": 1,
  "symbols": [{"name": "seq", "min": 1, "max": 520}],
  "params": [)" +
         param(numbers, "a", {768, 24}, 0) + ",\n" + param(numbers, "bias", {24}, 0) + ",\n" +
         param(numbers, "c", {768, 24}, 0) + R"(],
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["seq", 768]}],
  "nodes": [
    {"name": "first", "op": "matmul", "inputs": ["x", "a"], "outputs": ["first"]},
    {"name": "biased", "op": "add", "inputs": ["first", "bias"], "outputs": ["biased"]},
    {"name": "relu", "op": "relu", "inputs": ["biased"], "outputs": ["relu"]},
    {"name": "second", "op": "matmul", "inputs": ["x", "c"], "outputs": ["second"]},
    {"name": "y", "op": "add", "inputs": ["second", "relu"], "outputs": ["y"]}
  ],
  "outputs": ["y"]
})";
}

// The least and the largest size, and those around the ends of forms, up and down.
std::vector<DimBindings> walk_of(const fb::Entry& record) {
  std::set<int64_t> sizes = {1, 2, kMostLines};
  for (const fb::StepForm& form : forms_of(record)) {
    const auto end = static_cast<int64_t>(form.most());
    for (const int64_t size : {end - 1, end, end + 1})
      if (size >= 1) sizes.insert(size);
  }
  std::vector<DimBindings> walk;
  for (const int64_t size : sizes) walk.push_back({{"seq", size}});
  walk.insert(walk.end(), {{{"seq", 1}}, {{"seq", kMostLines}}, {{"seq", 1}}});
  return walk;
}

// x[batch, 32, 12, 12] -> a convolution of windows, one of single pixels apart, and one that
// adds the first one's result before its activation.
std::string convolutions() {
  Numbers numbers;
  return R"({
  "rlx_graph": 1,
  "symbols": [{"name": "batch", "min": 1, "max": 48}],
  "params": [)" +
         param(numbers, "a", {64, 32, 3, 3}, 0) + ",\n" + param(numbers, "bias", {64}, 0) + ",\n" +
         param(numbers, "b", {64, 64, 3, 3}, 0) + ",\n" + param(numbers, "c", {128, 64, 1, 1}, 0) +
         R"(],
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 32, 12, 12]}],
  "nodes": [
    {"name": "first", "op": "conv", "inputs": ["x", "a", "bias"], "outputs": ["first"],
     "attributes": {"pads": [1, 1, 1, 1]}},
    {"name": "relu", "op": "relu", "inputs": ["first"], "outputs": ["active"]},
    {"name": "again", "op": "conv", "inputs": ["active", "b"], "outputs": ["again"],
     "attributes": {"pads": [1, 1, 1, 1]}},
    {"name": "sum", "op": "add", "inputs": ["again", "active"], "outputs": ["sum"]},
    {"name": "second", "op": "relu", "inputs": ["sum"], "outputs": ["second"]},
    {"name": "apart", "op": "conv", "inputs": ["second", "c"], "outputs": ["y"],
     "attributes": {"stride": [2, 2]}}
  ],
  "outputs": ["y"]
})";
}

// x[seq, 256] -> rms_norm -> silu(a x) * (b x), rms_norm -> c, whose norms a kernel has within
// itself where there is one line.
std::string normed_products() {
  Numbers numbers;
  return R"({
  "rlx_graph": 1,
  "symbols": [{"name": "seq", "min": 1, "max": 520}],
  "params": [)" +
         param(numbers, "g", {256}, 1) + ",\n" + param(numbers, "a", {136, 256}, 0) + ",\n" +
         param(numbers, "b", {136, 256}, 0) + ",\n" + param(numbers, "g2", {136}, 1) + ",\n" +
         param(numbers, "c", {72, 136}, 0) + R"(],
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["seq", 256]}],
  "nodes": [
    {"name": "n", "op": "rms_norm", "inputs": ["x", "g"], "outputs": ["n"]},
    {"name": "gate", "op": "matmul", "inputs": ["n", "a"], "outputs": ["gate"],
     "attributes": {"trans_b": true}},
    {"name": "up", "op": "matmul", "inputs": ["n", "b"], "outputs": ["up"],
     "attributes": {"trans_b": true}},
    {"name": "silu", "op": "silu", "inputs": ["gate"], "outputs": ["active"]},
    {"name": "gated", "op": "mul", "inputs": ["active", "up"], "outputs": ["gated"]},
    {"name": "n2", "op": "rms_norm", "inputs": ["gated", "g2"], "outputs": ["n2"]},
    {"name": "down", "op": "matmul", "inputs": ["n2", "c"], "outputs": ["y"],
     "attributes": {"trans_b": true}}
  ],
  "outputs": ["y"]
})";
}

bool has_alternates(const fb::Entry& record) {
  return std::ranges::any_of(forms_of(record),
                             [](const fb::StepForm& form) { return form.kernel() == kSkipForm; });
}

}  // namespace

TEST_CASE("products of few and of many lines have kernels of their own", "[alternates]") {
  const std::string text = products();
  const Module network = bound_to(text, {}, {{"seq", {1, kMostLines, 1}}});
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    CompileOptions options = options_of(*device);
    std::vector<std::string> targets = options.targets;
    if (targets.front() == "vulkan") targets.emplace_back("vulkan-cpu");
    for (const std::string& target : targets) {
      INFO(target);
      options.targets = {target};
      const std::shared_ptr<const PlanView> plan = plan_of(network, options);
      CHECK(has_alternates(plan->entry(0)));
      check_on(*device, plan, text, walk_of(plan->entry(0)));
    }
  }
  CHECK(validation_messages().empty());
}

TEST_CASE("convolutions of few and of many images have tiles of their own", "[alternates]") {
  const std::string text = convolutions();
  const Module network = bound_to(text, {}, {{"batch", {1, 48, 1}}});
  for (const Target& target : all_targets()) {
    INFO(target.name);
    CompileOptions options;
    options.targets = {std::string(target.name)};
    Diagnostics diagnostics;
    const auto steps = estimate_steps(network, options, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(steps.has_value());
  }
  std::vector<DimBindings> walk;
  for (const int64_t images : {1, 2, 3, 5, 7, 10, 14, 15, 21, 22, 28, 29, 42, 43, 48, 1, 48, 1})
    walk.push_back({{"batch", images}});
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    const std::shared_ptr<const PlanView> plan = plan_of(network, options_of(*device));
    // Kernels without matrix units serve all sizes by one tile.
    if (options_of(*device).targets.front() != "vulkan") CHECK(has_alternates(plan->entry(0)));
    check_on(*device, plan, text, walk);
  }
  CHECK(validation_messages().empty());
}

TEST_CASE("a norm before products of few and of many lines is right", "[alternates]") {
  const std::string text = normed_products();
  const Module network = bound_to(text, {}, {{"seq", {1, kMostLines, 1}}});
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    for (const Precision precision : {Precision::F32, Precision::F16}) {
      CompileOptions options = options_of(*device);
      options.precision = precision;
      const std::shared_ptr<const PlanView> plan = plan_of(network, options);
      check_on(*device, plan, text, walk_of(plan->entry(0)),
               precision == Precision::F32 ? 1e-5 : 4e-3);
    }
  }
  CHECK(validation_messages().empty());
}

TEST_CASE("attention and products of free sizes have kernels on every target", "[alternates]") {
  const std::string text = R"({"rlx_graph": 1,
    "symbols": [{"name": "batch", "min": 1, "max": 8}, {"name": "seq", "min": 1, "max": 256},
                {"name": "keys", "min": 1, "max": 512}],
    "inputs": [{"name": "x", "dtype": "TYPE", "shape": ["batch", "seq", 12, 32]},
               {"name": "k", "dtype": "TYPE", "shape": ["batch", "keys", 12, 32]},
               {"name": "s", "dtype": "TYPE", "shape": ["batch", "seq", 384]}],
    "params": [{"name": "w", "dtype": "TYPE", "shape": [384, 384], "data": {"splat": 0.5}}],
    "nodes": [
      {"op": "attention", "inputs": ["x", "x", "x"], "outputs": ["own"],
       "attributes": {"num_heads": 12, "head_dim": 32}},
      {"op": "attention", "inputs": ["x", "k", "k"], "outputs": ["other"],
       "attributes": {"num_heads": 12, "head_dim": 32}},
      {"op": "matmul", "inputs": ["s", "w"], "outputs": ["y"]}],
    "outputs": ["own", "other", "y"]})";
  for (const std::string dtype : {"f32", "f16"}) {
    std::string typed = text;
    for (size_t at = typed.find("TYPE"); at != std::string::npos; at = typed.find("TYPE"))
      typed.replace(at, 4, dtype);
    for (const Target& target : all_targets()) {
      INFO(target.name << " " << dtype);
      CompileOptions options;
      options.targets = {std::string(target.name)};
      Diagnostics diagnostics;
      const auto steps = estimate_steps(
          bound_to(typed, {}, {{"batch", {1, 8, 1}}, {"seq", {1, 256, 1}}, {"keys", {1, 512, 1}}}),
          options, diagnostics);
      INFO(diagnostics.text());
      CHECK(steps.has_value());
    }
  }
}

}  // namespace rlx::test
