// SPDX-License-Identifier: Apache-2.0
// A run allocates nothing.
#include "tests/vulkan/counting_allocator.h"
#include "tests/vulkan/plan_sketch.h"
#include "tests/vulkan/vulkan_fixture.h"

using namespace rlx;
using namespace rlx::test;

TEST_CASE("a run allocates nothing once its entry is recorded") {
  // Without the validation layer, which allocates for itself.
  std::string why;
  std::shared_ptr<Device> device;
  if (present_devices(why).empty()) {
    std::printf("SKIPPED: %s\n", why.c_str());
    return;
  }
  REQUIRE_OK(open_vulkan_device("vulkan:0", device));
  const auto plan = open_plan(
      {.kernels = {{.name = "region",
                    .body = "F32(p.b).v[i] = F32(p.a).v[i] + 1.0;",
                    .pointers = {fb::AccessMode::Read, fb::AccessMode::Write}}},
       .entries = {
           {.name = "main",
            .values =
                {{.name = "x", .segment = fb::Segment::Io, .elements = 64, .role = Role::Input},
                 {.name = "y", .segment = fb::Segment::Io, .elements = 64, .role = Role::Output}},
            .steps = {{.pointers = {{0, fb::AccessMode::Read}, {1, fb::AccessMode::Write}}}}}}});
  VulkanRun run(device, plan, {.profile = true});
  std::vector<float> x(64, 1.0f);
  std::vector<float> y(64);
  run.write(0, x);
  run.execute();
  bool good = true;
  const uint64_t before = allocations_of_this_thread();
  for (int i = 0; i < 100; ++i) {
    good = good && run.session().write(0, 0, std::as_bytes(std::span(x))).ok() &&
           run.session().submit(0).ok() && run.session().wait(UINT64_MAX).ok() &&
           run.session().read(0, 1, std::as_writable_bytes(std::span(y))).ok();
  }
  CHECK(allocations_of_this_thread() == before);
  CHECK(good);
  CHECK(y[63] == 2.0f);
}
