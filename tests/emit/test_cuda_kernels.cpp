// SPDX-License-Identifier: Apache-2.0
// Compiling the kernels of a plan for CUDA: architectures, variants, cache, and what is said where
// NVRTC or an architecture is missing.
#include "compiler/emit/compile_kernels.h"
#include "compiler/emit/cuda_architecture.h"
#include "tests/emit/cuda_support.h"
#include "tests/emit/kernel_folder.h"
#include "tests/support/catch.h"

using namespace rlx;
using namespace rlx::test;

namespace {

struct CudaKernels {
  TemporaryFolder folder;
  KernelSet set;
  Diagnostics diagnostics;

  explicit CudaKernels(TargetSet targets)
      : set(kernel_set({specialization({{"VALUE", "1u"}}), specialization({{"VALUE", "2u"}})},
                       targets)) {
    folder.write("shaders/pad.kernel", kernel_text("rlx_store_u32(p.y, 0, VALUE);"));
  }

  std::optional<CompiledKernels> compile(std::vector<uint32_t> architectures, uint32_t jobs = 2,
                                         std::optional<std::string> cache = {}) {
    return compile_kernels(set,
                           {.jobs = jobs,
                            .cache_folder = std::move(cache),
                            .kernels_folder = folder.path(),
                            .architectures = std::move(architectures)},
                           diagnostics);
  }
};

struct Wanted {
  CodeFormat format;
  uint32_t architecture;
  bool operator==(const Wanted&) const = default;
};

std::vector<Wanted> formats_of(const std::vector<KernelCode>& variants) {
  std::vector<Wanted> formats;
  for (const KernelCode& code : variants) formats.push_back({code.format, code.architecture});
  return formats;
}

}  // namespace

TEST_CASE("a kernel for both targets has SPIR-V, a cubin per architecture, and the lowest's PTX") {
  if (present_nvrtc() == nullptr) return;
  CudaKernels kernels(TargetSet::Vulkan | TargetSet::Cuda);
  kernels.set.kernels[1].targets = TargetSet::Cuda;
  const auto compiled = kernels.compile({80, 90});
  INFO(kernels.diagnostics.text());
  REQUIRE(compiled.has_value());
  CHECK(formats_of(compiled->variants[0]) == std::vector<Wanted>{{CodeFormat::SpirV, 0},
                                                                 {CodeFormat::Cubin, 80},
                                                                 {CodeFormat::Cubin, 90},
                                                                 {CodeFormat::Ptx, 80}});
  CHECK(formats_of(compiled->variants[1]) == std::vector<Wanted>{{CodeFormat::Cubin, 80},
                                                                 {CodeFormat::Cubin, 90},
                                                                 {CodeFormat::Ptx, 80}});
  CHECK(compiled->cuda.present == 1);
  CHECK(compiled->cuda.architecture_count == 2);
  CHECK(compiled->cuda.architectures[1] == 90);
  CHECK(compiled->cuda.ptx_architecture == 80);
  CHECK(compiled->cuda.minimum_driver == present_nvrtc()->major() * 1000);
}

TEST_CASE("code for one architecture alone has no PTX") {
  if (present_nvrtc() == nullptr) return;
  const auto compiled = CudaKernels(TargetSet::Cuda).compile({90});
  REQUIRE(compiled.has_value());
  CHECK(formats_of(compiled->variants[0]) == std::vector<Wanted>{{CodeFormat::Cubin, 90}});
  CHECK(compiled->cuda.ptx_architecture == 0);
}

TEST_CASE("CUDA code does not depend on the number of threads or on the cache") {
  if (present_nvrtc() == nullptr) return;
  CudaKernels kernels(TargetSet::Cuda);
  const std::string cache = kernels.folder.path() + "/cache";
  const CompiledKernels reference = kernels.compile({80, 90}, 1).value();
  CHECK(kernels.compile({80, 90}, 4)->variants == reference.variants);
  const CompiledKernels cold = kernels.compile({80, 90}, 2, cache).value();
  CHECK(cold.cache_hits == 0);
  CHECK(cold.variants == reference.variants);
  const CompiledKernels warm = kernels.compile({80, 90}, 2, cache).value();
  CHECK(warm.cache_hits == 6);
  CHECK(warm.variants == reference.variants);
}

TEST_CASE("without architectures the default ones are compiled for") {
  if (present_nvrtc() == nullptr) return;
  const auto compiled = CudaKernels(TargetSet::Cuda).compile({});
  REQUIRE(compiled.has_value());
  std::vector<uint32_t> numbers;
  for (const KernelCode& code : compiled->variants[0]) {
    if (code.format == CodeFormat::Cubin) numbers.push_back(code.architecture);
  }
  CHECK(numbers == std::vector<uint32_t>{80, 86, 89, 90, 100, 120});
}

TEST_CASE("a CUDA kernel that fails on every architecture is one diagnostic") {
  if (present_nvrtc() == nullptr) return;
  CudaKernels kernels(TargetSet::Cuda);
  kernels.folder.write("cuda_kernels/pad.cu", kernel_text("rlx_store_u32(p.y, 0, nothing);"));
  CHECK_FALSE(kernels.compile({80, 90}).has_value());
  REQUIRE(kernels.diagnostics.error_count() == 2);
  const std::string text = to_string(kernels.diagnostics.all()[0]);
  CHECK(text.find("kernel \"pad\" for pad \"n0\" (sm_80) does not compile") != std::string::npos);
  CHECK(text.find("cuda_kernels/pad.cu(6): error: identifier \"nothing\" is undefined") !=
        std::string::npos);
  CHECK(text.find("[kernel]") != std::string::npos);
}

TEST_CASE("an architecture that is none is named with those that there are") {
  if (present_nvrtc() == nullptr) return;
  CudaKernels kernels(TargetSet::Cuda);
  CHECK_FALSE(kernels.compile({80, 70}).has_value());
  const std::string text = kernels.diagnostics.text();
  CHECK(text.find("CUDA architecture 70 is unknown") != std::string::npos);
  CHECK(text.find("80, 86, 87, 89, 90, 100") != std::string::npos);
}

TEST_CASE("a CUDA kernel that spills is a warning") {
  if (present_nvrtc() == nullptr) return;
  CudaKernels kernels(TargetSet::Cuda);
  kernels.set.kernels.resize(1);
  kernels.folder.write(
      "cuda_kernels/pad.cu",
      kernel_text("int values[100];\n"
                  "for (int i = 0; i < 100; ++i) values[i] = rlx_load_i32(p.x, i);\n"
                  "rlx_store_i32(p.y, 0, values[rlx_load_i32(p.x, 100) % 100]);"));
  CHECK(kernels.compile({80, 90}).has_value());
  REQUIRE(kernels.diagnostics.all().size() == 1);
  const std::string text = to_string(kernels.diagnostics.all()[0]);
  CHECK(text.find("warning: kernel \"pad\" for pad \"n0\" is slower than it could be: its threads "
                  "keep up to 400 bytes of registers or arrays in memory (sm_80, sm_90)") !=
        std::string::npos);
}

TEST_CASE("a missing NVRTC is named with what to install") {
  CudaKernels kernels(TargetSet::Cuda);
  CHECK_FALSE(compile_kernels(kernels.set,
                              {.kernels_folder = kernels.folder.path(),
                               .nvrtc = kernels.folder.path() + "/libnvrtc.so.13"},
                              kernels.diagnostics)
                  .has_value());
  const std::string text = kernels.diagnostics.text();
  CHECK(text.find("--target cuda needs NVRTC") != std::string::npos);
  CHECK(text.find("cuda-nvrtc-13-0") != std::string::npos);
  CHECK(text.find("nvidia-cuda-nvrtc") != std::string::npos);
  CHECK(text.find("--target vulkan needs none") != std::string::npos);
  CHECK(text.find("[missing-library]") != std::string::npos);
}

TEST_CASE("a library that is no NVRTC is named with what it lacks") {
  CudaKernels kernels(TargetSet::Cuda);
  CHECK_FALSE(compile_kernels(kernels.set,
                              {.kernels_folder = kernels.folder.path(), .nvrtc = "libc.so.6"},
                              kernels.diagnostics)
                  .has_value());
  CHECK(kernels.diagnostics.text().find("libc.so.6: error: is no NVRTC") != std::string::npos);
}

TEST_CASE("Vulkan alone needs no NVRTC") {
  CudaKernels kernels(TargetSet::Vulkan);
  CHECK(compile_kernels(kernels.set, {.kernels_folder = kernels.folder.path(), .nvrtc = "/nowhere"},
                        kernels.diagnostics)
            .has_value());
}
