// SPDX-License-Identifier: Apache-2.0
// rlx_check_pipelines PLAN...: makes the pipelines of plans on the first Vulkan device, one after
// the other, and runs nothing. So a driver that compiles for a GPU that is not there (Mesa's radv
// with RADV_FORCE_FAMILY) shows whether it takes all code, and, with RADV_DEBUG=shaderstats, what
// it makes of it. Standard error gets, for each plan before the driver prints anything of it:
//   plan NAME N          N pipelines follow
//   kernel NAME          N times, in the order in which they are made
// A plan that asks for features which the device lacks is told as "skipped NAME: WHY". Exit code:
// 0, or 1 where a pipeline failed.
#include <cstdio>

#include "runtime/device/device.h"
#include "runtime/plan/plan_kernels.h"
#include "runtime/plan/plan_view.h"
#include "runtime/vulkan/vk_context.h"
#include "runtime/vulkan/vk_pipelines.h"
#include "runtime/vulkan/vk_preflight.h"

namespace rlx::vulkan {
namespace {

int fail(const char* what, const Status& status) {
  std::fprintf(stderr, "FAILED %s: %s\n", what, status.message().c_str());
  return 1;
}

Status first_context(std::shared_ptr<Context>& context) {
  std::shared_ptr<Instance> instance;
  RLX_RETURN_IF_ERROR(Instance::create({}, instance));
  std::vector<VkPhysicalDevice> handles;
  RLX_RETURN_IF_ERROR(instance->physical_devices(handles));
  if (handles.empty()) return Status(RLX_NO_DEVICE, "no Vulkan device");
  PhysicalDevice physical;
  RLX_RETURN_IF_ERROR(describe(instance->api, handles.front(), "vulkan:0", physical));
  std::fprintf(stderr, "device %s; %s\n", physical.info.name.c_str(), physical.info.driver.c_str());
  return Context::create(std::move(instance), std::move(physical), context);
}

int check_plan(Context& context, const char* path) {
  std::shared_ptr<const PlanView> plan;
  if (Status status = PlanView::open_file(path, {}, plan); !status.ok()) return fail(path, status);
  DeviceInfo info = context.physical.info;
  info.memory_bytes = UINT64_MAX;  // nothing is allocated
  if (Status status = check_device_suits(plan->header(), info, check_target); !status.ok()) {
    std::fprintf(stderr, "skipped %s: %s\n", path, status.message().c_str());
    return 0;
  }
  const std::vector<uint32_t> used = used_kernels(*plan, fb::TargetKind::Vulkan);
  std::fprintf(stderr, "plan %s %zu\n", path, used.size());
  for (const uint32_t kernel : used)
    std::fprintf(stderr, "kernel %s\n", kernel_text(plan->kernel(kernel)).c_str());
  PipelineSet pipelines;
  Status status = PipelineSet::create(context, *plan, {.jobs = 1}, pipelines);
  return status.ok() ? 0 : fail(path, status);
}

int check(int count, char** paths) {
  std::shared_ptr<Context> context;
  if (Status status = first_context(context); !status.ok()) return fail("vulkan:0", status);
  int failed = 0;
  for (int i = 1; i < count; ++i) failed |= check_plan(*context, paths[i]);
  return failed;
}

}  // namespace
}  // namespace rlx::vulkan

int main(int argc, char** argv) {
  return rlx::vulkan::check(argc, argv);
}
