// SPDX-License-Identifier: Apache-2.0
// The row of each target.
#include "runtime/plan/target_row.h"

#include <algorithm>

#include "runtime/base/text.h"

namespace rlx {
namespace {

bool holds_vulkan(const PlanHeader& header) {
  return header.vulkan.present != 0;
}

std::string vulkan_fault(const PlanHeader& header) {
  const PlanVulkanTarget& target = header.vulkan;
  const bool has_limits = target.max_workgroup_invocations > 0 && target.max_grid[0] > 0 &&
                          target.max_grid[1] > 0 && target.max_grid[2] > 0;
  return has_limits ? "" : "the Vulkan target has a limit of 0";
}

TargetLimits vulkan_limits(const PlanHeader& header) {
  const PlanVulkanTarget& target = header.vulkan;
  const uint32_t threads = target.max_workgroup_invocations;
  return {.grid = {target.max_grid[0], target.max_grid[1], target.max_grid[2]},
          .block = {threads, threads, threads},
          .threads = threads,
          .shared_bytes = target.max_shared_bytes,
          .params_bytes = std::min(target.max_params_bytes, kMaxParamsBytes)};
}

std::vector<TargetCode> vulkan_code(const PlanHeader&) {
  return {{.format = fb::CodeFormat::SpirV, .architecture = 0}};
}

bool holds_cuda(const PlanHeader& header) {
  return header.cuda.present != 0;
}

std::string cuda_fault(const PlanHeader& header) {
  const PlanCudaTarget& target = header.cuda;
  if (target.architecture_count > kPlanMaxCudaArchitectures) {
    return text_of("the CUDA target lists ", target.architecture_count, " architectures, at most ",
                   kPlanMaxCudaArchitectures, " have room");
  }
  if (target.architecture_count == 0 && target.ptx_architecture == 0)
    return "the CUDA target has neither an architecture nor PTX";
  return "";
}

// These hold for all architectures since 5.0 (CUDA C++ Programming Guide, table of technical
// specifications).
TargetLimits cuda_limits(const PlanHeader&) {
  return {.grid = {2147483647u, 65535u, 65535u},
          .block = {1024, 1024, 64},
          .threads = 1024,
          .shared_bytes = 227 * 1024,
          .params_bytes = kMaxParamsBytes};
}

std::vector<TargetCode> cuda_code(const PlanHeader& header) {
  std::vector<TargetCode> code;
  for (uint32_t i = 0; i < header.cuda.architecture_count; ++i) {
    code.push_back({.format = fb::CodeFormat::Cubin, .architecture = header.cuda.architectures[i]});
  }
  if (header.cuda.ptx_architecture != 0)
    code.push_back({.format = fb::CodeFormat::Ptx, .architecture = header.cuda.ptx_architecture});
  return code;
}

constexpr fb::CodeFormat kVulkanFormats[] = {fb::CodeFormat::SpirV};
constexpr fb::CodeFormat kCudaFormats[] = {fb::CodeFormat::Cubin, fb::CodeFormat::Ptx};

constexpr TargetRow kVulkanRow = {.formats = kVulkanFormats,
                                  .is_in = holds_vulkan,
                                  .fault = vulkan_fault,
                                  .limits = vulkan_limits,
                                  .code = vulkan_code};

constexpr TargetRow kCudaRow = {
    .formats = kCudaFormats,
    .has_architectures = true,
    .has_library = true,
    .has_dynamic_shared = true,
    .has_tensor_maps = true,
    .first_with_clusters = 90,  // CUDA C++ Programming Guide, thread block clusters
    .is_in = holds_cuda,
    .fault = cuda_fault,
    .limits = cuda_limits,
    .code = cuda_code};

constexpr TargetRow named(TargetRow row, fb::TargetKind kind, std::string_view flag,
                          std::string_view name) {
  row.kind = kind;
  row.flag = flag;
  row.name = name;
  return row;
}

constexpr TargetRow kRows[] = {
#define RLX_TARGET(kind, flag, name, folder, kernel, library) \
  named(k##kind##Row, fb::TargetKind::kind, flag, name),
#include "schema/targets.def"
#undef RLX_TARGET
};

constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].kind) != i) return false;
  }
  return std::size(kRows) == static_cast<size_t>(fb::TargetKind::MAX) + 1;
}
static_assert(in_order(), "targets.def has a row for each TargetKind of plan.fbs, in its order");

}  // namespace

std::span<const TargetRow> target_rows() {
  return kRows;
}

const TargetRow& target_row(fb::TargetKind kind) {
  return kRows[static_cast<size_t>(kind)];
}

fb::TargetKind target_of(fb::CodeFormat format) {
  return std::ranges::find_if(kRows,
                              [&](const TargetRow& row) {
                                return std::ranges::find(row.formats, format) != row.formats.end();
                              })
      ->kind;
}

uint32_t targets_of(const PlanHeader& header) {
  uint32_t targets = 0;
  for (const TargetRow& row : kRows) targets |= row.is_in(header) ? row.mask() : 0;
  return targets;
}

std::string_view format_text(fb::CodeFormat format) {
  switch (format) {
    case fb::CodeFormat::SpirV:
      return "SPIR-V";
    case fb::CodeFormat::Cubin:
      return "cubin";
    case fb::CodeFormat::Ptx:
      return "PTX";
  }
  return {};
}

std::string code_text(fb::TargetKind target, fb::CodeFormat format, uint32_t architecture) {
  const TargetRow& row = target_row(target);
  if (!row.has_architectures) return std::string(row.name);
  if (format == fb::CodeFormat::Ptx) return text_of("PTX for compute_", architecture);
  return text_of(row.name, " sm_", architecture);
}

}  // namespace rlx
