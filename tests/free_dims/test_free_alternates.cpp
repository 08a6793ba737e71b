// SPDX-License-Identifier: Apache-2.0
// Products of a free number of lines: kernels of each part of the range, and their ends.
#include <set>

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

}  // namespace rlx::test
