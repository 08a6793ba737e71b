// SPDX-License-Identifier: Apache-2.0
// The numbers of device models by name, and the built-in profiles.
#include "compiler/dispatch/device_profile.h"

#include <algorithm>

#include "compiler/dispatch/device_models.h"

namespace rlx {
namespace {

struct NumberFacts {
  std::string_view name;
  std::string_view unit;
  double least;
  double most;
  std::string_view meaning;
};

bool reads_group(const Target& target, DeviceGroupUse use) {
  switch (use) {
    case DeviceGroupUse::Every:
      return true;
    case DeviceGroupUse::Lanes:
      return target.offers(KernelId::matmul_lanes);
    case DeviceGroupUse::Library:
      return target.library_gemm;
    case DeviceGroupUse::TensorCores:
      return target.offers(KernelId::matmul_mma);
    case DeviceGroupUse::CooperativeMatrices:
      return target.cooperative_matrices;
  }
  return false;
}

// visit_numbers(group, visit) for each struct of device_model.def: visit(facts, place).
// clang-format off
#define RLX_DEVICE_STRUCT(Type) \
  template <typename Visit> void visit_numbers(Type& group, const Visit& visit) {
#define RLX_DEVICE_FIELD(type, name, unit, least, most, meaning) \
  visit(NumberFacts{#name, unit, least, most, meaning}, &group.name);
#define RLX_DEVICE_END }
#include "compiler/dispatch/device_model.def"
// clang-format on

// What fit_device.py said of kLavapipe.
std::vector<DeviceFit> lavapipe_fits() {
  std::vector<DeviceFit> fits = {
      {.number = "memory_gigabytes_per_second",
       .samples = 3,
       .median_before = 0.99,
       .worst_before = 1.00,
       .median_after = 0.06,
       .worst_after = 0.21},
      {.number = "step_microseconds",
       .samples = 1,
       .median_before = 0.89,
       .worst_before = 0.89,
       .median_after = 0.00,
       .worst_after = 0.00},
  };
  for (const char* number :
       {"thread_tiles.products", "thread_tiles.step", "thread_tiles.single_stage_step"}) {
    fits.push_back({.number = number,
                    .samples = 7,
                    .median_before = 0.99,
                    .worst_before = 1.00,
                    .median_after = 0.10,
                    .worst_after = 0.25});
  }
  return fits;
}

}  // namespace

const DeviceColumn* DeviceProfile::column(std::string_view target) const {
  const auto found = std::find_if(columns.begin(), columns.end(), [&](const DeviceColumn& column) {
    return column.target == target;
  });
  return found == columns.end() ? nullptr : &*found;
}

std::string DeviceNumber::path() const {
  return (group.empty() ? "" : std::string(group) + ".") + std::string(name);
}

double DeviceNumber::value() const {
  return std::visit([](const auto* at) { return static_cast<double>(*at); }, place);
}

void DeviceNumber::set(double value) const {
  std::visit([value](auto* at) { *at = static_cast<std::remove_pointer_t<decltype(at)>>(value); },
             place);
}

std::vector<DeviceNumber> numbers_of(DeviceModel& model, const Target& target) {
  std::vector<DeviceNumber> numbers;
  const auto add = [&](std::string_view group, const NumberFacts& facts, auto* place) {
    numbers.push_back({.group = group,
                       .name = facts.name,
                       .unit = facts.unit,
                       .meaning = facts.meaning,
                       .least = facts.least,
                       .most = facts.most,
                       .place = place});
  };
#define RLX_DEVICE_OWN(type, name, unit, least, most, meaning) \
  add("", {#name, unit, least, most, meaning}, &model.name);
#define RLX_DEVICE_GROUP(Type, name, use, meaning) \
  if (reads_group(target, DeviceGroupUse::use))    \
    visit_numbers(model.name,                      \
                  [&](const NumberFacts& facts, auto* place) { add(#name, facts, place); });
#include "compiler/dispatch/device_model.def"
  return numbers;
}

std::vector<DeviceProfile> built_in_profiles() {
  const std::string h200 = "one NVIDIA H200, driver 580.159, 2026-11 (tests/bench/results)";
  const std::string lavapipe =
      "lavapipe of Mesa 22.3.6 (LLVM 15.0.6) on two busy CPU cores, 2026-11-22, by fit_device.py; "
      "numbers without a fit are h200's, to the scale of their group";
  const std::string card =
      "not measured: the data sheet of a GeForce RTX 4070 (46 multiprocessors, 504 GB/s, 29 "
      "TFLOP/s "
      "of f32, 58 of f16 summed in f32), times the shares of their limits that an H200 reaches";
  return {
      {.name = "h200",
       .columns = {{.target = "vulkan", .fitted_from = h200, .model = kH200Vulkan},
                   {.target = "vulkan-khr-coop",
                    .fitted_from = h200 + ", as vulkan-nvidia",
                    .model = kH200VulkanCoop},
                   {.target = "vulkan-nvidia", .fitted_from = h200, .model = kH200VulkanCoop},
                   {.target = "vulkan-cpu",
                    .fitted_from = "not an H200's: lavapipe's",
                    .model = kLavapipe},
                   {.target = "cuda", .fitted_from = h200, .model = kH200Cuda}}},
      {.name = "generic-cuda",
       .columns = {{.target = "cuda", .fitted_from = card, .model = kGenericCuda}}},
      {.name = "generic-vulkan",
       .columns = {{.target = "vulkan", .fitted_from = card, .model = kGenericVulkan},
                   {.target = "vulkan-khr-coop", .fitted_from = card, .model = kGenericVulkanCoop},
                   {.target = "vulkan-nvidia", .fitted_from = card, .model = kGenericVulkanCoop}}},
      {.name = "lavapipe",
       .columns = {{.target = "vulkan",
                    .fitted_from = lavapipe,
                    .model = kLavapipe,
                    .fits = lavapipe_fits()},
                   {.target = "vulkan-cpu",
                    .fitted_from = lavapipe,
                    .model = kLavapipe,
                    .fits = lavapipe_fits()}}},
  };
}

}  // namespace rlx
