// SPDX-License-Identifier: Apache-2.0
// Which sizes of subgroups a pipeline can have on a device.
#include "runtime/vulkan/vk_context.h"
#include "tests/support/catch.h"

using namespace rlx;

namespace {

bool gives_32(uint32_t least, uint32_t most, bool control) {
  vulkan::PhysicalDevice device;
  device.min_subgroup_size = least;
  device.max_subgroup_size = most;
  device.subgroup_size_control = control;
  return device.gives_subgroups_of(32);
}

}  // namespace

TEST_CASE("a_pipeline_has_subgroups_of_32_where_all_do_or_the_device_lets_it_choose") {
  CHECK(gives_32(32, 32, false));
  CHECK(gives_32(32, 32, true));
  CHECK(gives_32(32, 64, true));
  CHECK(gives_32(8, 32, true));
  CHECK_FALSE(gives_32(32, 64, false));
  CHECK_FALSE(gives_32(8, 32, false));
  CHECK_FALSE(gives_32(64, 64, true));
  CHECK_FALSE(gives_32(4, 16, true));
}

TEST_CASE("sizes_that_are_no_power_of_two_are_given_nowhere") {
  vulkan::PhysicalDevice device;
  device.min_subgroup_size = 4;
  device.max_subgroup_size = 64;
  device.subgroup_size_control = true;
  CHECK(device.gives_subgroups_of(16));
  for (const uint32_t size : {5u, 12u, 33u, 48u}) CHECK_FALSE(device.gives_subgroups_of(size));
}
