// SPDX-License-Identifier: Apache-2.0
// Steps for the driver, and runs without a graph. A plan was verified before it came here, so its
// indices, ranges and sizes are used as they are.
#include "runtime/cuda/cu_launch.h"

#include <cstring>
#include <span>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/plan/target_row.h"

namespace rlx::cuda {

bool has_clusters(uint32_t architecture) {
  return target_row(fb::TargetKind::Cuda).has_clusters(architecture);
}

Status KernelLaunch::link(const StepCode& code, const LinkedEntry& linked, const fb::Step& step) {
  const std::span<const std::byte> blob = code.plan.params(step);
  std::memcpy(params_.data(), blob.data(), blob.size());
  for (const fb::Relocation& relocation : PlanView::relocations(*linked.entry, step)) {
    uint64_t address = 0;
    std::memcpy(&address, params_.data() + relocation.position(),
                sizeof address);  // what is to be added
    address += linked.address(relocation);
    std::memcpy(params_.data() + relocation.position(), &address, sizeof address);
  }
  const fb::Variant& variant = *kernel_.variant;
  const uint64_t groups = uint64_t{step.grid_x()} * step.grid_y() * step.grid_z();
  runs_together_ = variant.runs_together() && groups <= kernel_.most_together;
  const bool is_alone = variant.runs_together() && !runs_together_;
  node_ = {.func = kernel_.function,
           .gridDimX = is_alone ? 1 : step.grid_x(),
           .gridDimY = step.grid_y(),
           .gridDimZ = step.grid_z(),
           .blockDimX = variant.workgroup_x(),
           .blockDimY = variant.workgroup_y(),
           .blockDimZ = variant.workgroup_z(),
           .sharedMemBytes = variant.dynamic_shared_bytes(),
           .kernelParams = arguments_.data(),
           .extra = nullptr,
           .kern = nullptr,
           .ctx = nullptr};
  return encode_maps(code.context, code.plan.kernel(step.kernel()), params_,
                     PlanView::relocations(*linked.entry, step), maps_);
}

uint32_t KernelLaunch::cluster(const Context& context) const {
  return has_clusters(context.info.architecture) ? kernel_.variant->cluster_x() : 1;
}

bool fit_one_each(uint64_t workgroups, uint32_t cluster, uint32_t multiprocessors) {
  const uint64_t usable_percent = cluster <= 2 ? 100 : cluster <= 4 ? 90 : 75;
  return workgroups * 100 <= multiprocessors * usable_percent;
}

void KernelLaunch::spread(const Context& context) {
  const uint64_t groups = uint64_t{node_.gridDimX} * node_.gridDimY * node_.gridDimZ;
  if (kernel_.alone_shared_bytes != 0 &&
      fit_one_each(groups, cluster(context), context.multiprocessors))
    node_.sharedMemBytes = kernel_.alone_shared_bytes;
}

CUDA_MEMCPY3D copy_of(const LinkedEntry& linked, const fb::Step& step) {
  const std::span<const fb::Relocation> ranges = PlanView::relocations(*linked.entry, step);
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = linked.address(ranges[0]);
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = linked.address(ranges[1]);
  copy.WidthInBytes = ranges[0].length_bytes();
  copy.Height = 1;
  copy.Depth = 1;
  return copy;
}

CUDA_MEMSET_NODE_PARAMS fill_of(const LinkedEntry& linked, const fb::Step& step) {
  const fb::Relocation& range = PlanView::relocations(*linked.entry, step)[0];
  return {.dst = linked.address(range),
          .pitch = 0,
          .value = step.fill_pattern(),
          .elementSize = sizeof(uint32_t),
          .width = range.length_bytes() / sizeof(uint32_t),
          .height = 1};
}

bool is_empty(const LinkedEntry& linked, const fb::Step& step) {
  return PlanView::relocations(*linked.entry, step)[0].length_bytes() == 0;
}

bool may_start_early(const Context& context, const KernelLaunch& launch) {
  return launch.variant().waits_for_predecessors() && !launch.runs_together() &&
         has_clusters(launch.variant().architecture()) && has_clusters(context.info.architecture);
}

// ---- on a stream ----

namespace {

// What a run puts on a stream, in this order.
class StepLauncher {
 public:
  StepLauncher(const StepCode& code, const LinkedEntry& linked, CUstream stream)
      : code_(code), context_(code.context), api_(context_.api), linked_(linked), stream_(stream) {}

  Status launch(uint32_t index) {
    const fb::Step& step = PlanView::steps(*linked_.entry)[index];
    if (step.kind() == fb::StepKind::Skip) return {};
    const bool is_behind_kernel =
        std::exchange(is_behind_kernel_, step.kind() == fb::StepKind::Dispatch ||
                                             step.kind() == fb::StepKind::LibraryGemm);
    switch (step.kind()) {
      case fb::StepKind::Dispatch:
        return launch_kernel(step, is_behind_kernel);
      case fb::StepKind::Copy:
        return copy(step);
      case fb::StepKind::Fill:
        return fill(step);
      case fb::StepKind::LibraryGemm:
        return code_.gemms.launch(linked_, index, stream_);
      case fb::StepKind::Skip:
        break;
    }
    return {};
  }

 private:
  Status launch_kernel(const fb::Step& step, bool is_behind_kernel) {
    KernelLaunch launch(code_.modules.at(step.kernel()));
    RLX_RETURN_IF_ERROR(launch.link(code_, linked_, step));
    std::array<CUlaunchAttribute, 3> attributes{};
    unsigned count = 0;
    if (const uint32_t cluster = launch.cluster(context_); cluster > 1) {
      attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attributes[count++].value.clusterDim = {.x = cluster, .y = 1, .z = 1};
    }
    if (launch.runs_together()) {
      attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
      attributes[count++].value.cooperative = 1;
    }
    if (is_behind_kernel && may_start_early(context_, launch)) {
      launch.spread(context_);
      attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    const CUDA_KERNEL_NODE_PARAMS& node = launch.node();
    const CUlaunchConfig config{.gridDimX = node.gridDimX,
                                .gridDimY = node.gridDimY,
                                .gridDimZ = node.gridDimZ,
                                .blockDimX = node.blockDimX,
                                .blockDimY = node.blockDimY,
                                .blockDimZ = node.blockDimZ,
                                .sharedMemBytes = node.sharedMemBytes,
                                .hStream = stream_,
                                .attrs = attributes.data(),
                                .numAttrs = count};
    return context_.check(api_.cuLaunchKernelEx(&config, node.func, node.kernelParams, nullptr),
                          "cuLaunchKernelEx");
  }

  Status copy(const fb::Step& step) {
    if (is_empty(linked_, step)) return {};
    const CUDA_MEMCPY3D copy = copy_of(linked_, step);
    return context_.check(
        api_.cuMemcpyDtoDAsync_v2(copy.dstDevice, copy.srcDevice, copy.WidthInBytes, stream_),
        "cuMemcpyDtoDAsync");
  }

  Status fill(const fb::Step& step) {
    if (is_empty(linked_, step)) return {};
    const CUDA_MEMSET_NODE_PARAMS fill = fill_of(linked_, step);
    return context_.check(api_.cuMemsetD32Async(fill.dst, fill.value, fill.width, stream_),
                          "cuMemsetD32Async");
  }

  const StepCode& code_;
  Context& context_;
  const Api& api_;
  const LinkedEntry& linked_;
  CUstream stream_;
  bool is_behind_kernel_ = false;  // of the same run
};

}  // namespace

bool can_launch_steps(const fb::Entry& entry) {
  return entry.regions() == nullptr || entry.regions()->size() == 0;
}

Status launch_steps(const StepCode& code, const LinkedEntry& linked, CUstream stream) {
  StepLauncher launcher(code, linked, stream);
  const auto count = static_cast<uint32_t>(PlanView::steps(*linked.entry).size());
  for (uint32_t s = 0; s < count; ++s) {
    const Status status = launcher.launch(s);
    if (!status.ok())
      return {status.code(),
              text_of(code.plan.describe_step(*linked.entry, s), ": ", status.message())};
  }
  return {};
}

}  // namespace rlx::cuda
