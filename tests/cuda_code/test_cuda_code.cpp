// SPDX-License-Identifier: Apache-2.0
// Every CUDA kernel that the conformance tables and the examples need compiles for every
// architecture, without spilling. Needs NVRTC, and no GPU.
#include <iostream>

#include "compiler/emit/cuda_architecture.h"
#include "compiler/emit/nvrtc.h"
#include "compiler/import/import.h"
#include "tests/support/catch.h"
#include "tests/support/harness.h"

namespace rlx::test {

#define RLX_OPS(family, ...) std::vector<Case> family##_cases();
#include "compiler/ops/ops.def"
#undef RLX_OPS

namespace {

constexpr size_t kBatch = 48;  // cases in one plan, as in the conformance tests

// Says once what is missing where NVRTC is.
bool can_compile() {
  static const bool present = [] {
    Diagnostics diagnostics;
    if (Nvrtc::open({}, diagnostics) != nullptr) return true;
    std::cout << "SKIPPED: CUDA kernels are not compiled: " << diagnostics.text() << "\n";
    return false;
  }();
  return present;
}

std::vector<uint32_t> default_architectures() {
  std::vector<uint32_t> numbers;
  for (const CudaArchitecture& architecture : all_cuda_architectures()) {
    if (architecture.by_default) numbers.push_back(architecture.number);
  }
  return numbers;
}

// From sm_90 on a kernel may start before its predecessors are complete, so each waits by itself.
void check_waits(const std::vector<std::byte>& bytes) {
  std::shared_ptr<const PlanView> plan;
  REQUIRE(PlanView::open_memory(bytes, {}, plan).ok());
  for (const fb::Kernel* kernel : *plan->index().kernels()) {
    for (const fb::Variant* variant : *kernel->variants()) {
      INFO(PlanView::text(kernel->name()) << " for sm_" << variant->architecture());
      CHECK(variant->waits_for_predecessors() == (variant->architecture() >= 90));
    }
  }
}

// Warnings count: they tell of kernels that spill.
void check_compiles(Module module, CompileOptions options, const std::string& what) {
  options.targets = {"cuda"};
  Diagnostics diagnostics;
  const auto plan = compile_to_bytes(std::move(module), options, diagnostics);
  INFO(what << "\n" << diagnostics.text());
  REQUIRE(plan.has_value());
  CHECK(diagnostics.all().empty());
  check_waits(*plan);
}

void check_cases_compile(std::span<const Case> cases, const std::vector<uint32_t>& architectures) {
  for (size_t first = 0; first < cases.size(); first += kBatch) {
    Diagnostics diagnostics;
    auto built =
        build_graph(cases.subspan(first, std::min(kBatch, cases.size() - first)), diagnostics);
    INFO(diagnostics.text());
    REQUIRE(built.has_value());
    CompileOptions options = test_options(0);
    options.architectures = architectures;
    check_compiles(std::move(built->module), options,
                   cases[first].op + " from case " + std::to_string(first));
  }
}

// sm_90a has the most code of its own; the others see the first and the last case of each family,
// and the examples.
void check_family(const std::vector<Case>& cases) {
  if (!can_compile()) return;
  check_cases_compile(cases, {90});
  const size_t few = std::min<size_t>(cases.size(), 1);
  check_cases_compile(std::span(cases).first(few), default_architectures());
  check_cases_compile(std::span(cases).last(few), default_architectures());
}

}  // namespace

#define RLX_OPS(family, ...)                                          \
  TEST_CASE("CUDA kernels of " #family " compile", "[" #family "]") { \
    check_family(family##_cases());                                   \
  }
#include "compiler/ops/ops.def"
#undef RLX_OPS

// Their tiles take as much shared memory as every architecture has.
TEST_CASE("CUDA kernels of rows of experts compile for every architecture") {
  if (!can_compile()) return;
  std::vector<Case> cases = weighted_matmul_cases();
  std::erase_if(cases, [](const Case& test) {
    const DType x = test.inputs[0]->type.dtype;
    return test.op != "grouped_matmul" || (x != DType::f16 && x != DType::bf16);
  });
  check_cases_compile(cases, default_architectures());
}

TEST_CASE("CUDA kernels of the examples compile for every architecture and precision") {
  if (!can_compile()) return;
  const std::string model = GENERATE("examples/mnist/mnist.json", "examples/encoder/encoder.json");
  const Precision precision =
      GENERATE(Precision::F32, Precision::Tf32, Precision::F16, Precision::Bf16);
  Diagnostics diagnostics;
  ImportOptions import;
  if (model.find("mnist") != std::string::npos) import.dims = {{ "batch", 8 }};
  std::optional<Module> module = load_module(model, import, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  CompileOptions options = test_options(2);
  options.precision = precision;
  check_compiles(std::move(*module), options, model);
}

TEST_CASE("a plan for both targets has the same bytes whatever the threads") {
  if (!can_compile()) return;
  Diagnostics diagnostics;
  const auto compile = [&](uint32_t jobs) {
    std::optional<Module> module =
        load_module("examples/mnist/mnist.json", {.dims = {{"batch", 8}}}, diagnostics);
    CompileOptions options;
    options.targets = {"vulkan", "cuda"};
    options.architectures = {80, 90};
    options.jobs = jobs;
    return compile_to_bytes(std::move(module.value()), options, diagnostics);
  };
  const auto bytes = compile(1);
  INFO(diagnostics.text());
  REQUIRE(bytes.has_value());
  CHECK(compile(4) == bytes);
  std::shared_ptr<const PlanView> plan;
  REQUIRE(PlanView::open_memory(*bytes, {.check_weights = true}, plan).ok());
  CHECK(plan->header().vulkan.present == 1);
  CHECK(plan->header().cuda.present == 1);
}

}  // namespace rlx::test
