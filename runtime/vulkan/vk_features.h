// SPDX-License-Identifier: Apache-2.0
// The mapping between features.def and Vulkan's feature structs.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/vulkan/vk_api.h"
#include "schema/features.h"

namespace rlx::vulkan {

// What every Vulkan plan needs, whatever its header says.
inline constexpr uint64_t kRequiredFeatures =
    mask_of(Feature::BufferAddress) | mask_of(Feature::ScalarLayout) | mask_of(Feature::Int64);

// Of which a device has none that does not give subgroups of the matrices' size.
inline constexpr uint64_t kMatrixFeatures = mask_of(Feature::CooperativeMatrix) |
                                            mask_of(Feature::CooperativeBf16) |
                                            mask_of(Feature::NarrowMatrix);

// "16-bit float arithmetic (shaderFloat16), ..." for a mask; bits without a row are named by
// number.
std::string feature_names(uint64_t mask);

// Vulkan's feature structs in a chain: asked from a device, reduced to what rlx uses, and given to
// vkCreateDevice.
class FeatureChain {
 public:
  // Structs that only some devices know.
  struct Known {
    bool subgroup_size_control = false;  // that extension, or Vulkan 1.3
    bool cooperative_matrix = false;     // VK_KHR_cooperative_matrix
    bool bfloat16 = false;               // VK_KHR_shader_bfloat16
    bool conditional = false;            // VK_EXT_conditional_rendering
    bool executables = false;  // VK_KHR_pipeline_executable_properties, where it is wanted
  };
  explicit FeatureChain(Known known);
  FeatureChain(const FeatureChain&) = delete;
  FeatureChain& operator=(const FeatureChain&) = delete;

  VkPhysicalDeviceFeatures2* head() { return &core_; }
  // The features of features.def that are set.
  [[nodiscard]] uint64_t mask() const;
  [[nodiscard]] bool subgroup_size_control() const {
    return size_control_.subgroupSizeControl == VK_TRUE;
  }
  [[nodiscard]] bool full_subgroups() const {
    return size_control_.computeFullSubgroups == VK_TRUE;
  }
  // Dispatches that a word in memory leaves out.
  [[nodiscard]] bool conditional_rendering() const {
    return conditional_.conditionalRendering == VK_TRUE;
  }
  // Sets exactly the features of the mask, subgroup size control where asked, and those companions
  // (wider uses of the same types and scopes, full subgroups, conditional rendering, statistics of
  // pipelines) that `supported` has.
  void set(uint64_t mask, bool subgroup_size_control, const FeatureChain& supported);

 private:
  VkPhysicalDeviceConditionalRenderingFeaturesEXT conditional_;
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables_;
  VkPhysicalDeviceShaderBfloat16FeaturesKHR bfloat16_;
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR cooperative_matrix_;
  VkPhysicalDeviceSubgroupSizeControlFeatures size_control_;
  VkPhysicalDeviceVulkan12Features vulkan12_;
  VkPhysicalDeviceVulkan11Features vulkan11_;
  VkPhysicalDeviceFeatures2 core_;
};

// Features that Vulkan reports as properties and that need no enabling.
uint64_t property_features(const VkPhysicalDeviceVulkan11Properties& vulkan11,
                           const VkPhysicalDeviceVulkan12Properties& vulkan12);

}  // namespace rlx::vulkan
