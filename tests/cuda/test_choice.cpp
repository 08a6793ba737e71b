// SPDX-License-Identifier: Apache-2.0
// Which code of a kernel runs where, and what a device is told that has none. Needs no GPU.
#include "runtime/cuda/cu_modules.h"
#include "runtime/cuda/cu_preflight.h"
#include "tests/support/catch.h"

using namespace rlx;

namespace {

struct VariantSketch {
  fb::CodeFormat format;
  uint32_t architecture;
};
constexpr VariantSketch kAll[] = {{fb::CodeFormat::Cubin, 80}, {fb::CodeFormat::Cubin, 86},
                                  {fb::CodeFormat::Cubin, 90}, {fb::CodeFormat::Cubin, 100},
                                  {fb::CodeFormat::Ptx, 80},   {fb::CodeFormat::SpirV, 0}};

class KernelSketch {
 public:
  explicit KernelSketch(std::span<const VariantSketch> variants) {
    std::vector<flatbuffers::Offset<fb::Variant>> tables;
    for (const VariantSketch& variant : variants) {
      const auto target =
          variant.format == fb::CodeFormat::SpirV ? fb::TargetKind::Vulkan : fb::TargetKind::Cuda;
      tables.push_back(fb::CreateVariantDirect(builder_, target, variant.format,
                                               variant.architecture, 0, 0, 0, "main"));
    }
    const std::vector<fb::KernelAccess> accesses;
    builder_.Finish(fb::CreateKernelDirect(builder_, "region", 0, &accesses, &tables));
  }
  // "sm_90 cubin", or "none".
  [[nodiscard]] std::string choice(uint32_t architecture) const {
    const auto& kernel = *flatbuffers::GetRoot<fb::Kernel>(builder_.GetBufferPointer());
    const fb::Variant* variant = cuda::choose_variant(kernel, architecture);
    return variant == nullptr ? "none" : cuda::variant_text(*variant);
  }

 private:
  flatbuffers::FlatBufferBuilder builder_;
};

}  // namespace

TEST_CASE("the_nearest_code_of_the_same_generation_is_chosen") {
  const KernelSketch kernel(kAll);
  CHECK(kernel.choice(80) == "sm_80 cubin");
  CHECK(kernel.choice(86) == "sm_86 cubin");
  CHECK(kernel.choice(87) == "sm_86 cubin");
  CHECK(kernel.choice(89) == "sm_86 cubin");
  CHECK(kernel.choice(90) == "sm_90 cubin");
  CHECK(kernel.choice(100) == "sm_100 cubin");
  CHECK(kernel.choice(103) == "sm_100 cubin");
}

TEST_CASE("another_generation_takes_ptx_and_an_older_one_nothing") {
  const KernelSketch kernel(kAll);
  CHECK(kernel.choice(120) == "PTX for sm_80, compiled by the driver");
  CHECK(kernel.choice(75) == "none");
  const KernelSketch without_ptx({kAll, 4});
  CHECK(without_ptx.choice(120) == "none");
  CHECK(without_ptx.choice(90) == "sm_90 cubin");
}

TEST_CASE("a_device_hears_for_what_the_plan_has_code_and_what_it_is") {
  const DeviceInfo device{.target = fb::TargetKind::Cuda,
                          .id = "cuda:0",
                          .name = "Old GPU",
                          .driver = "CUDA 13.0",
                          .api_version = 13000,
                          .memory_bytes = 1 << 20,
                          .architecture = 75};
  PlanHeader header{};
  const Status none = check_device_suits(header, device, cuda::check_target);
  CHECK(none.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(none.message().find("holds no CUDA code") != std::string::npos);
  CHECK(none.message().find("--target cuda") != std::string::npos);

  header.cuda = {.present = 1,
                 .ptx_architecture = 80,
                 .minimum_driver = 12040,
                 .architecture_count = 2,
                 .architectures = {80, 90}};
  const Status old = check_device_suits(header, device, cuda::check_target);
  CHECK(old.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(old.message() ==
        "the plan has code for sm_80, sm_90, PTX for sm_80; device cuda:0 \"Old GPU\" is sm_75; "
        "compile the model with --arch sm_75");

  DeviceInfo fitting = device;
  fitting.architecture = 89;
  CHECK(check_device_suits(header, fitting, cuda::check_target).ok());
  header.cuda.ptx_architecture = 0;
  fitting.architecture = 120;
  CHECK(check_device_suits(header, fitting, cuda::check_target).code() == RLX_UNSUITABLE_DEVICE);

  fitting.architecture = 90;
  fitting.api_version = 12020;
  fitting.driver = "CUDA 12.2";
  const Status driver = check_device_suits(header, fitting, cuda::check_target);
  CHECK(driver.code() == RLX_UNSUITABLE_DEVICE);
  CHECK(driver.message().find("needs a driver for CUDA 12.4") != std::string::npos);
  CHECK(driver.message().find("has CUDA 12.2") != std::string::npos);

  fitting.api_version = 13000;
  header.arena_bytes = 2 << 20;
  const Status memory = check_device_suits(header, fitting, cuda::check_target);
  CHECK(memory.code() == RLX_OUT_OF_DEVICE_MEMORY);
  CHECK(memory.message().find("largest segments: arena") != std::string::npos);
}
