// SPDX-License-Identifier: Apache-2.0
// features.def against Vulkan's feature structs: one visit serves asking and enabling.
#include "runtime/vulkan/vk_features.h"

#include <string_view>

#include "runtime/base/text.h"

namespace rlx::vulkan {
namespace {

// Calls visit(feature, flag) for each flag that stands for a row of features.def, or with others
// for one; the single table of that mapping.
template <typename Core, typename Vulkan11, typename Vulkan12, typename Cooperative,
          typename Bfloat16, typename Visit>
void for_each_flag(Core& core, Vulkan11& vulkan11, Vulkan12& vulkan12, Cooperative& cooperative,
                   Bfloat16& bfloat16, Visit visit) {
  visit(Feature::Float16, vulkan12.shaderFloat16);
  visit(Feature::Float64, core.features.shaderFloat64);
  visit(Feature::Int8, vulkan12.shaderInt8);
  visit(Feature::Int16, core.features.shaderInt16);
  visit(Feature::Int64, core.features.shaderInt64);
  visit(Feature::Storage8, vulkan12.storageBuffer8BitAccess);
  visit(Feature::Storage16, vulkan11.storageBuffer16BitAccess);
  visit(Feature::BufferAddress, vulkan12.bufferDeviceAddress);
  visit(Feature::ScalarLayout, vulkan12.scalarBlockLayout);
  visit(Feature::MemoryModel, vulkan12.vulkanMemoryModel);
  visit(Feature::CooperativeMatrix, cooperative.cooperativeMatrix);
  visit(Feature::NarrowMatrix, cooperative.cooperativeMatrix);
  visit(Feature::CooperativeBf16, bfloat16.shaderBFloat16Type);
  visit(Feature::CooperativeBf16, bfloat16.shaderBFloat16CooperativeMatrix);
}

struct FeatureRow {
  uint64_t mask;
  std::string_view text;
};

constexpr FeatureRow kFeatureRows[] = {
#define RLX_FEATURE(name, bit, text) {uint64_t{1} << (bit), text},
#include "schema/features.def"
#undef RLX_FEATURE
};

}  // namespace

std::string feature_names(uint64_t mask) {
  std::string names;
  const auto append = [&](std::string_view name) {
    names += text_of(names.empty() ? "" : ", ", name);
  };
  for (const FeatureRow& row : kFeatureRows) {
    if ((mask & row.mask) != 0) append(row.text);
    mask &= ~row.mask;
  }
  for (uint32_t bit = 0; bit < 64; ++bit) {
    if ((mask >> bit & 1) != 0)
      append(text_of("feature number ", bit, " (newer than this runtime)"));
  }
  return names;
}

FeatureChain::FeatureChain(Known known)
    : conditional_{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_CONDITIONAL_RENDERING_FEATURES_EXT},
      executables_{
          .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR},
      bfloat16_{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR},
      cooperative_matrix_{.sType =
                              VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR},
      size_control_{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES},
      vulkan12_{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES},
      vulkan11_{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
                .pNext = &vulkan12_},
      core_{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &vulkan11_} {
  if (known.subgroup_size_control) {
    size_control_.pNext = vulkan12_.pNext;
    vulkan12_.pNext = &size_control_;
  }
  if (known.cooperative_matrix) {
    cooperative_matrix_.pNext = vulkan12_.pNext;
    vulkan12_.pNext = &cooperative_matrix_;
  }
  if (known.bfloat16) {
    bfloat16_.pNext = vulkan12_.pNext;
    vulkan12_.pNext = &bfloat16_;
  }
  if (known.conditional) {
    conditional_.pNext = vulkan12_.pNext;
    vulkan12_.pNext = &conditional_;
  }
  if (known.executables) {
    executables_.pNext = vulkan12_.pNext;
    vulkan12_.pNext = &executables_;
  }
}

uint64_t FeatureChain::mask() const {
  uint64_t named = 0;
  uint64_t unset = 0;
  for_each_flag(core_, vulkan11_, vulkan12_, cooperative_matrix_, bfloat16_,
                [&](Feature feature, const VkBool32& flag) {
                  named |= mask_of(feature);
                  if (flag != VK_TRUE) unset |= mask_of(feature);
                });
  return named & ~unset;
}

void FeatureChain::set(uint64_t mask, bool subgroup_size_control, const FeatureChain& supported) {
  // Several features may need one flag.
  for_each_flag(core_, vulkan11_, vulkan12_, cooperative_matrix_, bfloat16_,
                [](Feature, VkBool32& flag) { flag = VK_FALSE; });
  for_each_flag(core_, vulkan11_, vulkan12_, cooperative_matrix_, bfloat16_,
                [&](Feature feature, VkBool32& flag) {
                  if ((mask & mask_of(feature)) != 0) flag = VK_TRUE;
                });
  size_control_.subgroupSizeControl = subgroup_size_control ? VK_TRUE : VK_FALSE;
  size_control_.computeFullSubgroups =
      subgroup_size_control ? supported.size_control_.computeFullSubgroups : VK_FALSE;
  vulkan11_.uniformAndStorageBuffer16BitAccess =
      supported.vulkan11_.uniformAndStorageBuffer16BitAccess;
  vulkan12_.uniformAndStorageBuffer8BitAccess =
      supported.vulkan12_.uniformAndStorageBuffer8BitAccess;
  conditional_.conditionalRendering = supported.conditional_.conditionalRendering;
  executables_.pipelineExecutableInfo = supported.executables_.pipelineExecutableInfo;
  vulkan12_.shaderSubgroupExtendedTypes = supported.vulkan12_.shaderSubgroupExtendedTypes;
  vulkan12_.vulkanMemoryModelDeviceScope = vulkan12_.vulkanMemoryModel == VK_TRUE
                                               ? supported.vulkan12_.vulkanMemoryModelDeviceScope
                                               : VK_FALSE;
}

uint64_t property_features(const VkPhysicalDeviceVulkan11Properties& vulkan11,
                           const VkPhysicalDeviceVulkan12Properties& vulkan12) {
  // What the capabilities ask for that spirv_capabilities.def gives to Feature::Subgroup.
  constexpr VkSubgroupFeatureFlags kOperations =
      VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_VOTE_BIT |
      VK_SUBGROUP_FEATURE_ARITHMETIC_BIT | VK_SUBGROUP_FEATURE_BALLOT_BIT |
      VK_SUBGROUP_FEATURE_SHUFFLE_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT;
  uint64_t mask = 0;
  if ((vulkan11.subgroupSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
      (vulkan11.subgroupSupportedOperations & kOperations) == kOperations) {
    mask |= mask_of(Feature::Subgroup);
  }
  if (vulkan12.shaderSignedZeroInfNanPreserveFloat32 == VK_TRUE)
    mask |= mask_of(Feature::FloatControls32);
  constexpr auto kEachWidth = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL;
  if (vulkan12.shaderRoundingModeRTEFloat16 == VK_TRUE &&
      vulkan12.shaderDenormPreserveFloat16 == VK_TRUE &&
      vulkan12.shaderSignedZeroInfNanPreserveFloat16 == VK_TRUE &&
      vulkan12.roundingModeIndependence == kEachWidth &&
      vulkan12.denormBehaviorIndependence == kEachWidth) {
    mask |= mask_of(Feature::NativeHalves);
  }
  return mask;
}

}  // namespace rlx::vulkan
