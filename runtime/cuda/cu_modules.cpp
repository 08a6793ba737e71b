// SPDX-License-Identifier: Apache-2.0
// Choice of code, modules loaded by several threads, and the attributes that launches need.
#include "runtime/cuda/cu_modules.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <new>

#include "runtime/base/errors.h"
#include "runtime/base/text.h"
#include "runtime/base/threads.h"
#include "runtime/device/preflight.h"

namespace rlx::cuda {
namespace {

// What a workgroup may use of shared memory without asking for more.
constexpr uint32_t kDefaultSharedBytes = 48 * 1024;
// Clusters up to this size are possible on every device that has clusters.
constexpr uint32_t kPortableCluster = 8;

void mark_used(const fb::Entry& entry, std::vector<bool>& used) {
  for (const fb::Step& step : PlanView::steps(entry)) {
    if (step.kind() == fb::StepKind::Dispatch) used[step.kernel()] = true;
  }
}

// Kernels that some step dispatches, by index.
std::vector<uint32_t> used_kernels(const PlanView& plan) {
  std::vector<bool> marks(plan.index().kernels()->size());
  for (uint32_t i = 0; i < plan.entry_count(); ++i)
    mark_used(plan.entry(i, fb::TargetKind::Cuda), marks);
  if (const fb::Entry* init = plan.init(fb::TargetKind::Cuda)) mark_used(*init, marks);
  std::vector<uint32_t> used;
  for (uint32_t i = 0; i < marks.size(); ++i) {
    if (marks[i]) used.push_back(i);
  }
  return used;
}

std::string kernel_text(const fb::Kernel& kernel) {
  std::string text = text_of("kernel ", quoted(PlanView::text(kernel.name())));
  if (kernel.specialization() != nullptr && kernel.specialization()->size() != 0)
    text += text_of(" (", PlanView::text(kernel.specialization()), ")");
  return text;
}

// Later in this order is better; nullopt where the device cannot run the variant.
bool runs_on(const fb::Variant& variant, uint32_t architecture) {
  if (variant.target() != fb::TargetKind::Cuda) return false;
  if (variant.format() == fb::CodeFormat::Ptx) return variant.architecture() <= architecture;
  return variant.format() == fb::CodeFormat::Cubin &&
         variant.architecture() / 10 == architecture / 10 && variant.architecture() <= architecture;
}

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
    if (!runs_on(*variant, architecture)) continue;
    if (best == nullptr || is_better(*variant, *best)) best = variant;
  }
  return best;
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
    RLX_RETURN_IF_ERROR(context.check(
        context.api.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                       static_cast<int>(variant.dynamic_shared_bytes())),
        text_of(what, ": ", variant.shared_bytes(), " bytes of shared memory on a device with ",
                context.info.max_shared_bytes)));
  }
  if (variant.cluster_x() > kPortableCluster) {
    RLX_RETURN_IF_ERROR(
        context.check(context.api.cuFuncSetAttribute(
                          function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                      text_of(what, ": a cluster of ", variant.cluster_x(), " workgroups")));
  }
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
  for (const uint32_t kernel : used_kernels(plan)) {
    const fb::Variant* variant = choose_variant(plan.kernel(kernel), context.info.architecture);
    if (variant == nullptr) {
      return unsuitable(text_of(kernel_text(plan.kernel(kernel)), " has code for ",
                                architectures_text(plan.header().cuda), "; ", context.text(),
                                " is sm_", context.info.architecture));
    }
    made.kernels_[kernel].variant = variant;
    made.kernels_[kernel].text = variant_text(*variant);
    const auto [place, added] =
        module_of_code.try_emplace(variant->code_offset(), kernels_of_module.size());
    if (added) kernels_of_module.emplace_back();
    kernels_of_module[place->second].push_back(kernel);
  }
  made.modules_.resize(kernels_of_module.size());

  std::vector<Status> results(kernels_of_module.size());
  const auto load_one = [&](size_t i) -> Status {
    RLX_RETURN_IF_ERROR(made.load(context, plan, kernels_of_module[i].front(), made.modules_[i]));
    for (const uint32_t kernel : kernels_of_module[i]) {
      RLX_RETURN_IF_ERROR(
          find_function(context, plan, kernel, made.modules_[i].get(), made.kernels_[kernel]));
    }
    return {};
  };
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    const Current current(context);
    for (size_t i = next.fetch_add(1); i < results.size(); i = next.fetch_add(1)) {
      try {
        results[i] = current.status().ok() ? load_one(i) : current.status();
      } catch (const std::bad_alloc&) {
        results[i] = out_of_host_memory({});
      }
    }
  };
  run_on_threads(std::min(thread_count(jobs), results.size()), work);
  for (Status& result : results) {
    if (!result.ok()) return std::move(result);
  }
  set = std::move(made);
  return {};
}

}  // namespace rlx::cuda
