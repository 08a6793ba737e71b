// SPDX-License-Identifier: Apache-2.0
// Steps of several shapes that run one kernel.
#include <set>

#include "compiler/lower/lower.h"
#include "compiler/lower/share_kernels.h"
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

// y<i> = conv of x<i> [1, channels, size, size] with `filters` windows of 1 x 1, and relu.
struct ConvShape {
  int64_t channels;
  int64_t filters;
  int64_t size;
};

std::string convolutions(const std::vector<ConvShape>& shapes) {
  std::string inputs;
  std::string params;
  std::string nodes;
  std::string outputs;
  const auto append = [](std::string& list, const std::string& item) {
    list += (list.empty() ? "" : ", ") + item;
  };
  const auto dims = [](const std::vector<int64_t>& sizes) {
    std::string text;
    for (const int64_t size : sizes) text += (text.empty() ? "[" : ", ") + std::to_string(size);
    return text + "]";
  };
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto& [channels, filters, size] = shapes[i];
    const std::string n = std::to_string(i);
    append(inputs, input("x" + n, dims({1, channels, size, size}), "f16"));
    append(params, R"({"name": "w)" + n + R"(", "dtype": "f16", "shape": )" +
                       dims({filters, channels, 1, 1}) +
                       R"(, "data": {"random": {"distribution": "uniform", "low": -0.1, )" +
                       R"("high": 0.1, "seed": 3}}})");
    append(nodes, node("conv", "\"x" + n + "\", \"w" + n + "\"", "c" + n));
    append(nodes, node("relu", "\"c" + n + "\"", "y" + n));
    append(outputs, "\"y" + n + "\"");
  }
  return R"({"rlx_graph": 1, "inputs": [)" + inputs + R"(], "params": [)" + params +
         R"(], "nodes": [)" + nodes + R"(], "outputs": [)" + outputs + "]}";
}

// Of the steps that run it for CUDA.
std::vector<std::string> specializations(const std::string& text, const std::string& kernel,
                                         bool share_kernels) {
  CompileOptions options;
  options.targets = {"cuda"};
  options.share_kernels = share_kernels;
  Diagnostics diagnostics;
  const auto steps = estimate_steps(module_from(text), options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(steps.has_value());
  std::vector<std::string> found;
  for (const StepEstimate& step : *steps) {
    if (step.kernel == kernel) found.push_back(step.specialization);
  }
  return found;
}

size_t distinct(const std::vector<std::string>& texts) {
  return std::set<std::string>(texts.begin(), texts.end()).size();
}

}  // namespace

TEST_CASE("convolutions_of_close_shapes_run_one_kernel") {
  const std::string text =
      convolutions({{256, 64, 14}, {512, 64, 14}, {256, 128, 13}, {512, 96, 7}});
  const auto own = specializations(text, "conv_mma", false);
  const auto shared = specializations(text, "conv_mma", true);
  REQUIRE(own.size() == 4);
  REQUIRE(shared.size() == 4);
  CHECK(distinct(own) == 4);
  CHECK(distinct(shared) < 4);
}

TEST_CASE("a_convolution_alone_keeps_its_kernel") {
  const std::string alone = convolutions({{256, 64, 14}});
  CHECK(specializations(alone, "conv_mma", true) == specializations(alone, "conv_mma", false));
  // Nor do two of one shape need another one.
  const std::string twice = convolutions({{256, 64, 14}, {256, 64, 14}});
  CHECK(specializations(twice, "conv_mma", true) == specializations(twice, "conv_mma", false));
}

TEST_CASE("a_step_says_whose_kernel_it_shares") {
  Module module = module_from(convolutions({{256, 64, 14}, {256, 64, 13}}));
  module.entries[0].output_names = {"y0", "y1"};
  LowerOptions options{.target = find_target("cuda")};
  Diagnostics diagnostics;
  auto program = lower_entry(module, module.entries[0], options, diagnostics);
  options.offers_words = true;
  const auto worded = lower_entry(module, module.entries[0], options, diagnostics);
  REQUIRE(program.has_value());
  REQUIRE(worded.has_value());
  share_kernels(*program, *worded);
  std::vector<std::string> reasons;
  for (const Step& step : program->steps) {
    if (step.op == "conv" && step.kernel &&
        program->kernels[index_of(*step.kernel)].kernel == KernelId::conv_mma)
      reasons.push_back(step.reason);
  }
  REQUIRE(reasons.size() == 2);
  INFO(reasons[0] << "\n" << reasons[1]);
  CHECK(reasons[0].ends_with("sizes as words"));
  CHECK(reasons[1].find("sizes as words, shares the kernel of step ") != std::string::npos);
}

TEST_CASE("shared_kernels_give_the_bits_of_kernels_per_shape") {
  std::string inputs;
  std::string nodes;
  std::string outputs;
  for (const std::string n : {"0", "1", "2"}) {
    const int64_t k = 64 + 32 * std::stoi(n);
    const std::string depth = std::to_string(k);
    inputs += (inputs.empty() ? "" : ", ") + input("a" + n, "[33, " + depth + "]") + ", " +
              input("b" + n, "[" + depth + ", " + std::to_string(k + 8) + "]");
    nodes +=
        (nodes.empty() ? "" : ", ") + node("matmul", "\"a" + n + "\", \"b" + n + "\"", "y" + n);
    outputs += (outputs.empty() ? "\"y" : ", \"y") + n + "\"";
  }
  for (const std::string& text : {convolutions({{256, 64, 14}, {512, 64, 14}, {256, 128, 13}}),
                                  graph(inputs, nodes, outputs)}) {
    const Module module = module_from(text);
    const std::vector<Tensor> given = random_inputs(module.entries[0]);
    CompileOptions options = test_options(2);
    Diagnostics diagnostics;
    const auto shared = compile_plan(module, options, diagnostics);
    options.share_kernels = false;
    const auto own = compile_plan(module, options, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(shared != nullptr);
    REQUIRE(own != nullptr);
    for (const auto& device : present_devices().devices) {
      INFO(device->info().id);
      const auto got = TestSession(*device, shared).run(0, given, std::byte{0xA5});
      const auto wanted = TestSession(*device, own).run(0, given, std::byte{0xA5});
      REQUIRE(got.size() == wanted.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i].to_bytes() == wanted[i].to_bytes());
    }
  }
}

}  // namespace rlx::test
