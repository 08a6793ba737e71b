// SPDX-License-Identifier: Apache-2.0
// Choice of code, modules loaded by several threads, and the attributes that launches need.
#include "runtime/cuda/cu_modules.h"

#include <algorithm>
#include <map>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/base/threads.h"
#include "runtime/cuda/cu_preflight.h"
#include "runtime/device/device_names.h"
#include "runtime/plan/plan_kernels.h"

namespace rlx::cuda {
namespace {

// What a workgroup may use of shared memory without asking for more.
constexpr uint32_t kDefaultSharedBytes = 48 * 1024;
// Clusters up to this size are possible on every device that has clusters.
constexpr uint32_t kPortableCluster = 8;
constexpr int kAllShared = 100;  // percent

bool is_better(const fb::Variant& a, const fb::Variant& b) {
  if (a.format() != b.format()) return a.format() == fb::CodeFormat::Cubin;
  return a.architecture() > b.architecture();
}

Status load_module(Context& context, std::span<const std::byte> code, const std::string& what,
                   OwnedModule& module) {
  std::array<char, 4096> log = {};
  int options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log.data(), reinterpret_cast<void*>(uintptr_t{log.size() - 1})};
  CUmodule handle = nullptr;
  const CUresult result = context.api.cuModuleLoadDataEx(&handle, code.data(), 2, options, values);
  if (result != CUDA_SUCCESS) {
    const Status status = context.check(result, "loading " + what);
    return log[0] == '\0' ? status
                          : Status(status.code(), text_of(status.message(), ": ", log.data()));
  }
  module = OwnedModule(context, handle);
  return {};
}

}  // namespace

const fb::Variant* choose_variant(const fb::Kernel& kernel, uint32_t architecture) {
  const fb::Variant* best = nullptr;
  for (const fb::Variant* variant : *kernel.variants()) {
    const bool runs = variant->target() == fb::TargetKind::Cuda &&
                      runs_on(variant->format(), variant->architecture(), architecture);
    if (!runs) continue;
    if (best == nullptr || is_better(*variant, *best)) best = variant;
  }
  return best;
}

uint32_t alone_shared_bytes(uint32_t shared_bytes, uint32_t dynamic_bytes,
                            uint32_t multiprocessor_bytes, uint32_t most_bytes) {
  // Enough, as each workgroup takes some more than it asks for.
  const uint32_t half = multiprocessor_bytes / 2;
  if (shared_bytes >= half || half > most_bytes) return 0;
  return half - (shared_bytes - dynamic_bytes);
}

std::string variant_text(const fb::Variant& variant) {
  if (variant.format() == fb::CodeFormat::Ptx)
    return text_of("PTX for sm_", variant.architecture(), ", compiled by the driver");
  return text_of("sm_", variant.architecture(), " cubin");
}

Status ModuleSet::load(Context& context, const PlanView& plan, uint32_t kernel,
                       OwnedModule& module) {
  const fb::Variant& variant = *kernels_[kernel].variant;
  const std::string what = text_of(kernel_text(plan.kernel(kernel)), ", ", variant_text(variant));
  return load_module(context, plan.code(variant), what, module);
}

namespace {

// How many workgroups all multiprocessors hold; 0 where the device does not launch such grids.
Status find_most_together(Context& context, const fb::Variant& variant, CUfunction function,
                          uint64_t& most) {
  const Api& api = context.api;
  CUdevice device = 0;
  int launches = 0;
  int groups = 0;
  const uint32_t threads = variant.workgroup_x() * variant.workgroup_y() * variant.workgroup_z();
  RLX_RETURN_IF_ERROR(context.check(api.cuCtxGetDevice(&device), "cuCtxGetDevice"));
  RLX_RETURN_IF_ERROR(context.check(
      api.cuDeviceGetAttribute(&launches, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, device),
      "cuDeviceGetAttribute"));
  RLX_RETURN_IF_ERROR(context.check(
      api.cuOccupancyMaxActiveBlocksPerMultiprocessor(&groups, function, static_cast<int>(threads),
                                                      variant.dynamic_shared_bytes()),
      "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
  most = launches == 0 ? 0 : static_cast<uint64_t>(groups) * context.multiprocessors;
  return {};
}

// The kernel's function, with what it needs beyond the defaults allowed to it.
Status find_function(Context& context, const PlanView& plan, uint32_t kernel, CUmodule module,
                     LoadedKernel& loaded) {
  const fb::Variant& variant = *loaded.variant;
  const std::string what = kernel_text(plan.kernel(kernel));
  CUfunction function = nullptr;
  RLX_RETURN_IF_ERROR(context.check(
      context.api.cuModuleGetFunction(&function, module, variant.entry_point()->c_str()),
      "finding " + what));
  if (variant.shared_bytes() > kDefaultSharedBytes) {
    if (variant.waits_for_predecessors()) {
      loaded.alone_shared_bytes =
          alone_shared_bytes(variant.shared_bytes(), variant.dynamic_shared_bytes(),
                             context.multiprocessor_shared_bytes, context.info.max_shared_bytes);
    }
    const uint32_t most = std::max(variant.dynamic_shared_bytes(), loaded.alone_shared_bytes);
    RLX_RETURN_IF_ERROR(context.check(
        context.api.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                       static_cast<int>(most)),
        text_of(what, ": ", variant.shared_bytes(), " bytes of shared memory on a device with ",
                context.info.max_shared_bytes)));
    // Where kernels divide a multiprocessor's memory in other ways, the next one does not start
    // beside the one before.
    if (variant.waits_for_predecessors()) {
      RLX_RETURN_IF_ERROR(context.check(
          context.api.cuFuncSetAttribute(
              function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, kAllShared),
          what + ": how its multiprocessors divide their memory"));
    }
  }
  if (variant.cluster_x() > kPortableCluster) {
    RLX_RETURN_IF_ERROR(
        context.check(context.api.cuFuncSetAttribute(
                          function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                      text_of(what, ": a cluster of ", variant.cluster_x(), " workgroups")));
  }
  if (variant.runs_together())
    RLX_RETURN_IF_ERROR(find_most_together(context, variant, function, loaded.most_together));
  loaded.function = function;
  return {};
}

}  // namespace

Status ModuleSet::create(Context& context, const PlanView& plan, uint32_t jobs, ModuleSet& set) {
  ModuleSet made;
  made.kernels_.resize(plan.index().kernels()->size());
  // Kernels by the piece of code that they share, in the order of the plan.
  std::map<uint64_t, size_t> module_of_code;
  std::vector<std::vector<uint32_t>> kernels_of_module;
  for (const uint32_t kernel : used_kernels(plan, fb::TargetKind::Cuda)) {
    const fb::Variant* variant = choose_variant(plan.kernel(kernel), context.info.architecture);
    if (variant == nullptr) {
      return unsuitable(text_of(kernel_text(plan.kernel(kernel)), " has code for ",
                                architectures_text(plan.header().cuda), "; ",
                                device_text(context.info), " is sm_", context.info.architecture));
    }
    made.kernels_[kernel].variant = variant;
    made.kernels_[kernel].text = variant_text(*variant);
    const auto [place, added] =
        module_of_code.try_emplace(variant->code_offset(), kernels_of_module.size());
    if (added) kernels_of_module.emplace_back();
    kernels_of_module[place->second].push_back(kernel);
  }
  made.modules_.resize(kernels_of_module.size());

  RLX_RETURN_IF_ERROR(for_each_index(kernels_of_module.size(), jobs, [&](size_t i) -> Status {
    const Current current(context);
    RLX_RETURN_IF_ERROR(current.status());
    RLX_RETURN_IF_ERROR(made.load(context, plan, kernels_of_module[i].front(), made.modules_[i]));
    for (const uint32_t kernel : kernels_of_module[i]) {
      RLX_RETURN_IF_ERROR(
          find_function(context, plan, kernel, made.modules_[i].get(), made.kernels_[kernel]));
    }
    return {};
  }));
  set = std::move(made);
  return {};
}

}  // namespace rlx::cuda
