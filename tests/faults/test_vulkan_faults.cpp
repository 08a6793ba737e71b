// SPDX-License-Identifier: Apache-2.0
// Every call of the Vulkan driver fails once in every way that it may, and the device is lost at
// each: a named status, nothing left behind, and the next use is as good as the first.
#include <cstdio>

#include "runtime/vulkan/vk_api.h"
#include "runtime/vulkan/vulkan_device.h"
#include "tests/faults/fault_fixture.h"
#include "tests/support/catch.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// Where there is no device every test here counts as skipped.
bool have_vulkan() {
  std::string why_none;
  if (!list_vulkan_devices(why_none).empty()) return true;
  std::printf("SKIPPED: %s\n", why_none.c_str());
  return false;
}

Wanted vulkan_status(const std::string& function, int result) {
  if (function == "vkCreateInstance" && result == VK_ERROR_INCOMPATIBLE_DRIVER)
    return {RLX_NO_DEVICE};
  // A list that grew while it was given is asked for again, and a wait without an end is too.
  if (function.starts_with("vkEnumerate") && result == VK_INCOMPLETE) return {RLX_OK};
  if (function == "vkWaitForFences" && result == VK_TIMEOUT) return {RLX_OK};
  return {vulkan::to_status(static_cast<VkResult>(result), function).code()};
}

}  // namespace

TEST_CASE("a vulkan call that fails is a status, and the next use is as good as the first") {
  if (!have_vulkan()) return;
  const FaultCounts counts = fail_every_call(vulkan_scenario({}), vulkan_status);
  std::printf("%lu calls, %lu faults\n", counts.calls, counts.faults);
  CHECK(counts.faults > 2 * counts.calls);
}

TEST_CASE("a vulkan device is lost at any call, and stays lost until it is opened again") {
  if (!have_vulkan()) return;
  const FaultCounts counts = lose_at_every_call(vulkan_scenario({}));
  CHECK(counts.faults + 5 > counts.calls);
}

TEST_CASE("staging calls that fail are statuses too") {
  if (!have_vulkan()) return;
  const Scenario scenario = vulkan_scenario({.staging_only = true});
  CHECK(lose_at_every_call(scenario).faults > 0);
  CHECK(fail_every_call(scenario, vulkan_status).faults > 0);
}
