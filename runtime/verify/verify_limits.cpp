// SPDX-License-Identifier: Apache-2.0
// Verifier, rule groups 8 and 10: grids, workgroups, shared memory and params within the targets'
// limits; code for every target.
#include <algorithm>
#include <array>
#include <vector>

#include "runtime/plan/profiles.h"
#include "runtime/plan/target_row.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

void verify_variant_limits(const PlanParts& parts, uint32_t k, const fb::Variant& variant,
                           Faults& faults) {
  const TargetLimits limits = target_row(variant.target()).limits(parts.header);
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
  TargetCode code;
};

std::vector<WantedVariant> wanted_variants(const PlanHeader& header) {
  std::vector<WantedVariant> wanted;
  for (const TargetRow& row : target_rows()) {
    if (!row.is_in(header)) continue;
    for (const TargetCode& code : row.code(header))
      wanted.push_back({.target = row.kind, .code = code});
  }
  return wanted;
}

// Per kernel: the targets of the entries that run it.
std::vector<uint32_t> targets_of_kernels(const PlanParts& parts) {
  std::vector<uint32_t> targets(parts.plan.kernels()->size(), 0);
  for (const EntryParts& entry : parts.entries) {
    for (const StepPlace& place : all_places(entry)) {
      if (place.step.kind() == fb::StepKind::Dispatch)
        targets[place.step.kernel()] |= entry.entry.targets();
    }
    for_each_form(entry, [&](const StepPlace& place) {
      targets[place.step.kernel()] |= entry.entry.targets();
    });
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
             (!target_row(want.target).has_architectures ||
              (want.code.format == variant->format() &&
               want.code.architecture == variant->architecture()));
    });
    const bool unclaimed = row == wanted.end();
    if (!unclaimed && counts[static_cast<size_t>(row - wanted.begin())]++ == 0) continue;
    faults.add(VerifyRule::VariantUnclaimed, kernel_name(parts.plan, k), " has code for ",
               code_text(variant->target(), variant->format(), variant->architecture()),
               unclaimed ? ", a target that the header does not name" : " twice");
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool runs_there = (targets >> static_cast<uint32_t>(wanted[i].target) & 1) != 0;
    if (counts[i] > 0 || !runs_there) continue;
    faults.add(VerifyRule::VariantMissing, kernel_name(parts.plan, k), " has no code for ",
               code_text(wanted[i].target, wanted[i].code.format, wanted[i].code.architecture),
               ", a target of an entry that runs it");
  }
}

}  // namespace

void verify_entry_grids(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  faults.charge(kWorkPerRecord * entry.steps.size());
  const flatbuffers::Optional<uint32_t> profile = entry.entry.profile();
  const bool is_open = profile.has_value() && *profile < parts.header.profile_count;
  const PlanHeader header = is_open ? header_of_profile(parts.header, *profile) : parts.header;
  for (const StepPlace& place : all_places(entry)) {
    if (faults.full()) return;
    if (place.step.kind() != fb::StepKind::Dispatch) continue;
    for (const TargetRow& row : target_rows()) {
      if (entry.serves(row.kind)) verify_grid(place, row.limits(header), faults);
    }
  }
}

void verify_limits(const PlanParts& parts, Faults& faults) {
  for (uint32_t k = 0; k < parts.plan.kernels()->size() && !faults.full(); ++k) {
    faults.charge(kWorkPerTable * uint64_t{parts.plan.kernels()->Get(k)->variants()->size()});
    for (const fb::Variant* variant : *parts.plan.kernels()->Get(k)->variants()) {
      if (target_row(variant->target()).is_in(parts.header))
        verify_variant_limits(parts, k, *variant, faults);
    }
  }
  for (const EntryParts& entry : parts.entries) verify_entry_grids(parts, entry, faults);
}

void verify_completeness(const PlanParts& parts, Faults& faults) {
  verify_records(parts, faults);
  const std::vector<WantedVariant> wanted = wanted_variants(parts.header);
  const std::vector<uint32_t> targets = targets_of_kernels(parts);
  for (uint32_t k = 0; k < parts.plan.kernels()->size() && !faults.full(); ++k)
    verify_variants(parts, k, targets[k], wanted, faults);
  verify_profile_code(parts, faults);
}

}  // namespace rlx
