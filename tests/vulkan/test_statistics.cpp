// SPDX-License-Identifier: Apache-2.0
// Numbers that drivers tell of pipelines.
#include <algorithm>
#include <string_view>

#include "runtime/vulkan/vk_pipelines.h"
#include "tests/support/catch.h"

using namespace rlx;

namespace {

VkPipelineExecutableStatisticKHR statistic_of(std::string_view name,
                                              VkPipelineExecutableStatisticFormatKHR format) {
  VkPipelineExecutableStatisticKHR statistic = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
  std::ranges::copy(name, statistic.name);
  statistic.format = format;
  return statistic;
}

double told(std::string_view name, uint64_t value) {
  auto statistic = statistic_of(name, VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR);
  statistic.value.u64 = value;
  return vulkan::told_number(statistic);
}

}  // namespace

TEST_CASE("local_memory_is_told_by_the_low_word") {
  CHECK(told("Local Memory Size", 0x0000'0007'0000'0000) == 0);
  CHECK(told("Local Memory Size", 0xFFFF'FFFF'0000'00A0) == 160);
  CHECK(told("Local Memory Size", 48) == 48);
}

TEST_CASE("other_numbers_are_told_whole") {
  CHECK(told("Binary Size", 0x0000'0001'0000'0002) == 4294967298.0);
  CHECK(told("Register Count", 168) == 168);
  auto spills = statistic_of("Spill count", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR);
  spills.value.i64 = -1;
  CHECK(vulkan::told_number(spills) == -1);
  auto share = statistic_of("Occupancy", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR);
  share.value.f64 = 0.5;
  CHECK(vulkan::told_number(share) == 0.5);
  auto flag = statistic_of("Early exit", VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR);
  flag.value.b32 = VK_TRUE;
  CHECK(vulkan::told_number(flag) == 1);
}
