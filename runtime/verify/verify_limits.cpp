// SPDX-License-Identifier: Apache-2.0
// Verifier, rule groups 8 and 10: grids, workgroups, shared memory and params within the targets'
// limits; code for every target.
#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

// CUDA's limits hold for all architectures since 5.0 (CUDA C++ Programming Guide, table of
// technical specifications).
constexpr std::array<uint32_t, 3> kCudaMaxGrid = {2147483647u, 65535u, 65535u};
constexpr std::array<uint32_t, 3> kCudaMaxBlock = {1024, 1024, 64};
constexpr uint32_t kCudaMaxThreads = 1024;
constexpr uint32_t kCudaMaxSharedBytes = 227 * 1024;

struct TargetLimits {
  std::array<uint32_t, 3> grid;
  std::array<uint32_t, 3> block;
  uint32_t threads;
  uint32_t shared_bytes;
  uint32_t params_bytes;
};

TargetLimits vulkan_limits(const PlanVulkanTarget& target) {
  const uint32_t threads = target.max_workgroup_invocations;
  return {.grid = {target.max_grid[0], target.max_grid[1], target.max_grid[2]},
          .block = {threads, threads, threads},
          .threads = threads,
          .shared_bytes = target.max_shared_bytes,
          .params_bytes = std::min(target.max_params_bytes, kMaxParamsBytes)};
}

TargetLimits cuda_limits() {
  return {.grid = kCudaMaxGrid,
          .block = kCudaMaxBlock,
          .threads = kCudaMaxThreads,
          .shared_bytes = kCudaMaxSharedBytes,
          .params_bytes = kMaxParamsBytes};
}

void verify_variant_limits(const PlanParts& parts, uint32_t k, const fb::Variant& variant,
                           Faults& faults) {
  const bool is_vulkan = variant.target() == fb::TargetKind::Vulkan;
  const TargetLimits limits = is_vulkan ? vulkan_limits(parts.header.vulkan) : cuda_limits();
  const std::array<uint64_t, 3> block = {variant.workgroup_x(), variant.workgroup_y(),
                                         variant.workgroup_z()};
  bool fits = true;
  for (size_t axis = 0; axis < 3; ++axis)
    fits = fits && block[axis] >= 1 && block[axis] <= limits.block[axis];
  if (!fits || block[0] * block[1] * block[2] > limits.threads) {
    faults.add(VerifyRule::WorkgroupLimit, kernel_name(parts.plan, k), " has a workgroup of ",
               block[0], " x ", block[1], " x ", block[2], ", at least 1 and at most ",
               limits.threads, " in all are possible");
  }
  if (variant.shared_bytes() > limits.shared_bytes) {
    faults.add(VerifyRule::SharedLimit, kernel_name(parts.plan, k), " uses ",
               variant.shared_bytes(), " bytes of shared memory, the target allows ",
               limits.shared_bytes);
  }
  if (parts.plan.kernels()->Get(k)->params_bytes() > limits.params_bytes) {
    faults.add(VerifyRule::ParamsLimit, kernel_name(parts.plan, k), " takes ",
               parts.plan.kernels()->Get(k)->params_bytes(), " bytes of params, the target allows ",
               limits.params_bytes);
  }
}

void verify_grid(const StepPlace& place, const TargetLimits& limits, Faults& faults) {
  const fb::Step& step = place.step;
  const std::array<uint32_t, 3> grid = {step.grid_x(), step.grid_y(), step.grid_z()};
  bool fits = true;
  for (size_t axis = 0; axis < 3; ++axis)
    fits = fits && grid[axis] >= 1 && grid[axis] <= limits.grid[axis];
  if (fits) return;
  faults.add(VerifyRule::GridLimit, place.name(), " has a grid of ", grid[0], " x ", grid[1], " x ",
             grid[2], ", the target allows 1 to ", limits.grid[0], " x ", limits.grid[1], " x ",
             limits.grid[2]);
}

// A piece of code that a plan for these targets needs once per kernel.
struct WantedVariant {
  fb::TargetKind target;
  fb::CodeFormat format;
  uint32_t architecture;
};

std::vector<WantedVariant> wanted_variants(const PlanHeader& header) {
  std::vector<WantedVariant> wanted;
  if (header.vulkan.present != 0)
    wanted.push_back({fb::TargetKind::Vulkan, fb::CodeFormat::SpirV, 0});
  if (header.cuda.present == 0) return wanted;
  for (uint32_t i = 0; i < header.cuda.architecture_count; ++i) {
    wanted.push_back({fb::TargetKind::Cuda, fb::CodeFormat::Cubin, header.cuda.architectures[i]});
  }
  if (header.cuda.ptx_architecture != 0) {
    wanted.push_back({fb::TargetKind::Cuda, fb::CodeFormat::Ptx, header.cuda.ptx_architecture});
  }
  return wanted;
}

std::string variant_text(fb::TargetKind target, fb::CodeFormat format, uint32_t architecture) {
  if (target == fb::TargetKind::Vulkan) return "Vulkan";
  return text_of(format == fb::CodeFormat::Ptx ? "PTX for compute_" : "CUDA sm_", architecture);
}

// Per kernel: the targets of the entries that run it.
std::vector<uint32_t> targets_of_kernels(const PlanParts& parts) {
  std::vector<uint32_t> targets(parts.plan.kernels()->size(), 0);
  for (const EntryParts& entry : parts.entries) {
    for (const StepPlace& place : all_places(entry)) {
      if (place.step.kind() == fb::StepKind::Dispatch)
        targets[place.step.kernel()] |= entry.entry.targets();
    }
  }
  return targets;
}

void verify_variants(const PlanParts& parts, uint32_t k, uint32_t targets,
                     const std::vector<WantedVariant>& wanted, Faults& faults) {
  std::vector<uint32_t> counts(wanted.size(), 0);
  faults.charge(kWorkPerTable +
                kWorkPerTable * uint64_t{parts.plan.kernels()->Get(k)->variants()->size()});
  for (const fb::Variant* variant : *parts.plan.kernels()->Get(k)->variants()) {
    const auto row = std::find_if(wanted.begin(), wanted.end(), [&](const WantedVariant& want) {
      return want.target == variant->target() &&
             (want.target == fb::TargetKind::Vulkan ||
              (want.format == variant->format() && want.architecture == variant->architecture()));
    });
    const bool unclaimed = row == wanted.end();
    if (!unclaimed && counts[static_cast<size_t>(row - wanted.begin())]++ == 0) continue;
    faults.add(VerifyRule::VariantUnclaimed, kernel_name(parts.plan, k), " has code for ",
               variant_text(variant->target(), variant->format(), variant->architecture()),
               unclaimed ? ", a target that the header does not name" : " twice");
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool runs_there = (targets >> static_cast<uint32_t>(wanted[i].target) & 1) != 0;
    if (counts[i] > 0 || !runs_there) continue;
    faults.add(VerifyRule::VariantMissing, kernel_name(parts.plan, k), " has no code for ",
               variant_text(wanted[i].target, wanted[i].format, wanted[i].architecture),
               ", a target of an entry that runs it");
  }
}

bool same_tensor(const fb::Value& a, const fb::Value& b) {
  return PlanView::text(a.name()) == PlanView::text(b.name()) && a.dtype() == b.dtype() &&
         std::ranges::equal(dims_of(a.dims()), dims_of(b.dims()));
}

bool same_list(const EntryParts& a, const flatbuffers::Vector<uint32_t>& list_a,
               const EntryParts& b, const flatbuffers::Vector<uint32_t>& list_b) {
  if (list_a.size() != list_b.size()) return false;
  for (uint32_t i = 0; i < list_a.size(); ++i) {
    if (!same_tensor(a.value(list_a.Get(i)), b.value(list_b.Get(i)))) return false;
  }
  return true;
}

// The records of one name, or of init.
struct RecordGroup {
  const EntryParts* first = nullptr;
  uint32_t targets = 0;
};

// Adds a record to its group: its targets are new there, and its interface is the group's.
void join_group(const EntryParts& record, RecordGroup& group, uint32_t claimed, Faults& faults) {
  const uint32_t targets = record.entry.targets();
  if (targets == 0 || (targets & ~claimed) != 0 || (targets & group.targets) != 0) {
    faults.add(VerifyRule::EntryTargets, record.name(), " has a record for targets ", targets,
               ", the header claims ", claimed, ", and other records of it serve ", group.targets);
  }
  group.targets |= targets;
  if (group.first == nullptr) group.first = &record;
  const EntryParts& first = *group.first;
  if (same_list(first, *first.entry.inputs(), record, *record.entry.inputs()) &&
      same_list(first, *first.entry.outputs(), record, *record.entry.outputs()))
    return;
  faults.add(VerifyRule::EntryInterface, record.name(),
             " has inputs or outputs that differ from target to target");
}

void verify_records(const PlanParts& parts, Faults& faults) {
  const uint32_t claimed =
      (parts.header.vulkan.present != 0 ? 1u : 0u) | (parts.header.cuda.present != 0 ? 2u : 0u);
  std::map<std::string_view, RecordGroup> groups;
  RecordGroup init;
  for (const EntryParts& record : parts.entries) {
    faults.charge(kWorkPerTable *
                  (uint64_t{record.entry.inputs()->size()} + record.entry.outputs()->size()));
    if (faults.full()) return;
    RecordGroup& group = record.is_init ? init : groups[PlanView::text(record.entry.name())];
    join_group(record, group, claimed, faults);
  }
  for (const auto& [name, group] : groups) {
    if (group.targets == claimed) continue;
    faults.add(VerifyRule::EntryTargets, group.first->name(), " serves targets ", group.targets,
               ", the header claims ", claimed);
  }
}

}  // namespace

void verify_limits(const PlanParts& parts, Faults& faults) {
  for (uint32_t k = 0; k < parts.plan.kernels()->size() && !faults.full(); ++k) {
    faults.charge(kWorkPerTable * uint64_t{parts.plan.kernels()->Get(k)->variants()->size()});
    for (const fb::Variant* variant : *parts.plan.kernels()->Get(k)->variants()) {
      const bool claimed = variant->target() == fb::TargetKind::Vulkan
                               ? parts.header.vulkan.present != 0
                               : parts.header.cuda.present != 0;
      if (claimed) verify_variant_limits(parts, k, *variant, faults);
    }
  }
  for (const EntryParts& entry : parts.entries) {
    faults.charge(kWorkPerRecord * entry.steps.size());
    for (const StepPlace& place : all_places(entry)) {
      if (faults.full()) return;
      if (place.step.kind() != fb::StepKind::Dispatch) continue;
      if (entry.serves(fb::TargetKind::Vulkan))
        verify_grid(place, vulkan_limits(parts.header.vulkan), faults);
      if (entry.serves(fb::TargetKind::Cuda)) verify_grid(place, cuda_limits(), faults);
    }
  }
}

void verify_completeness(const PlanParts& parts, Faults& faults) {
  verify_records(parts, faults);
  const std::vector<WantedVariant> wanted = wanted_variants(parts.header);
  const std::vector<uint32_t> targets = targets_of_kernels(parts);
  for (uint32_t k = 0; k < parts.plan.kernels()->size() && !faults.full(); ++k)
    verify_variants(parts, k, targets[k], wanted, faults);
}

}  // namespace rlx
