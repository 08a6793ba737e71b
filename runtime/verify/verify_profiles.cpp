// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 15: profiles of the header, and the records and code that are theirs.
#include <algorithm>
#include <array>
#include <iterator>

#include "runtime/plan/profiles.h"
#include "runtime/plan/target_row.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

constexpr uint32_t kFewestOfAKind = 2;

std::string place(const PlanHeader& header, uint32_t profile) {
  return text_of("profile ", profile, " ", quoted(profile_name(header.profiles[profile])));
}

bool is_good_name(const PlanProfile& profile) {
  const std::string_view name = profile_name(profile);
  const bool padded = std::all_of(profile.name + name.size(), std::end(profile.name),
                                  [](char c) { return c == '\0'; });
  return !name.empty() && name.size() < sizeof profile.name && padded && is_plain_text(name);
}

bool is_within(const PlanVulkanTarget& part, const PlanVulkanTarget& all) {
  bool fits = (part.features & ~all.features) == 0 && part.api_version <= all.api_version &&
              part.max_workgroup_invocations <= all.max_workgroup_invocations &&
              part.max_shared_bytes <= all.max_shared_bytes &&
              part.max_params_bytes <= all.max_params_bytes;
  for (size_t axis = 0; axis < std::size(part.max_grid); ++axis)
    fits = fits && part.max_grid[axis] <= all.max_grid[axis];
  return fits;
}

void verify_profile(const PlanHeader& header, uint32_t number, Faults& faults) {
  const PlanProfile& profile = header.profiles[number];
  if (!is_good_name(profile)) {
    return faults.add(VerifyRule::ProfileFields, "profile ", number, " has a name that is no text ",
                      "of 1 to ", sizeof profile.name - 1,
                      " bytes: ", quoted(profile_name(profile)));
  }
  for (uint32_t other = 0; other < number; ++other) {
    if (profile_name(header.profiles[other]) != profile_name(profile)) continue;
    return faults.add(VerifyRule::ProfileFields, "profiles ", other, " and ", number,
                      " are both named ", quoted(profile_name(profile)));
  }
  constexpr auto kKind = static_cast<uint32_t>(fb::TargetKind::Vulkan);
  if (profile.target != kKind || header.vulkan.present == 0 ||
      profile.device_type > static_cast<uint32_t>(DeviceType::Processor)) {
    return faults.add(VerifyRule::ProfileFields, place(header, number), " is of target ",
                      profile.target, " and device type ", profile.device_type,
                      ", wanted a target of the plan that has profiles and a known device type");
  }
  if (profiles_of(header, fb::TargetKind::Vulkan).size() < kFewestOfAKind) {
    return faults.add(VerifyRule::ProfileFields, place(header, number),
                      " is the only one of its target");
  }
  const TargetRow& row = target_row(fb::TargetKind::Vulkan);
  const PlanHeader own = header_of_profile(header, number);
  if (profile.vulkan.present != 1 || !row.fault(own).empty() ||
      !is_within(profile.vulkan, header.vulkan)) {
    faults.add(VerifyRule::ProfileFields, place(header, number), " needs ",
               profile.vulkan.present == 1 ? row.fault(own) : "nothing",
               ", wanted limits and features that the header's part for ", row.name, " includes");
  }
}

// Code that a profile runs needs no more than the profile says.
class ProfileCode {
 public:
  ProfileCode(const PlanParts& parts, Faults& faults)
      : parts_(parts), faults_(faults), checked_(parts.plan.kernels()->size(), 0) {}

  void verify(const EntryParts& record) {
    const flatbuffers::Optional<uint32_t> profile = record.entry.profile();
    if (!profile.has_value()) return;
    faults_.charge(kWorkPerRecord * (record.steps.size() + forms_of(record.entry).size()));
    for (const StepPlace& place : all_places(record)) {
      if (place.step.kind() == fb::StepKind::Dispatch) verify_once(place.step.kernel(), *profile);
    }
    for_each_form(record,
                  [&](const StepPlace& place) { verify_once(place.step.kernel(), *profile); });
  }

 private:
  void verify_once(uint32_t kernel, uint32_t profile) {
    if ((checked_[kernel] >> profile & 1) != 0) return;
    checked_[kernel] |= 1u << profile;
    verify_kernel(kernel, profile);
  }

  void verify_kernel(uint32_t number, uint32_t profile) {
    const fb::Kernel& kernel = *parts_.plan.kernels()->Get(number);
    const PlanVulkanTarget& needs = parts_.header.profiles[profile].vulkan;
    faults_.charge(kWorkPerTable * uint64_t{kernel.variants()->size()});
    for (const fb::Variant* variant : *kernel.variants()) {
      if (variant->target() != fb::TargetKind::Vulkan || faults_.full()) continue;
      // Each factor was found to be within the limits of all profiles.
      const uint64_t invocations =
          uint64_t{variant->workgroup_x()} * variant->workgroup_y() * variant->workgroup_z();
      if ((variant->features() & ~needs.features) == 0 &&
          variant->shared_bytes() <= needs.max_shared_bytes &&
          kernel.params_bytes() <= needs.max_params_bytes &&
          invocations <= needs.max_workgroup_invocations)
        continue;
      faults_.add(VerifyRule::ProfileNeeds, kernel_name(parts_.plan, number), " needs features ",
                  variant->features(), ", ", variant->shared_bytes(), " bytes of shared memory, ",
                  kernel.params_bytes(), " of params and ", invocations, " invocations, ",
                  place(parts_.header, profile), ", which runs it, declares ", needs.features, ", ",
                  needs.max_shared_bytes, ", ", needs.max_params_bytes, " and ",
                  needs.max_workgroup_invocations);
    }
  }

  const PlanParts& parts_;
  Faults& faults_;
  std::vector<uint32_t> checked_;  // by kernel: the profiles, as a mask
};

}  // namespace

void verify_header_profiles(const PlanHeader& header, Faults& faults) {
  if (header.profile_count == 0) return;
  if (header.profile_count > kPlanMaxProfiles || header.reserved != 0 ||
      header.minor < kPlanMinorProfiles) {
    return faults.add(VerifyRule::ProfileFields, "the header of format ", header.major, ".",
                      header.minor, " says ", header.profile_count, " profiles, at most ",
                      kPlanMaxProfiles, " have room from minor ", kPlanMinorProfiles, " on");
  }
  for (uint32_t i = 0; i < header.profile_count && !faults.full(); ++i)
    verify_profile(header, i, faults);
}

void verify_record_profile(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  const flatbuffers::Optional<uint32_t> profile = entry.entry.profile();
  const PlanHeader& header = parts.header;
  if (!profile.has_value()) {
    for (uint32_t i = 0; i < header.profile_count; ++i) {
      if ((entry.entry.targets() >> header.profiles[i].target & 1) == 0) continue;
      return faults.add(VerifyRule::ProfileRecord, entry.name(), " has a record for targets ",
                        entry.entry.targets(), " that names none of the header's profiles of them");
    }
    return;
  }
  if (*profile < header.profile_count &&
      entry.entry.targets() == 1u << header.profiles[*profile].target)
    return;
  faults.add(VerifyRule::ProfileRecord, entry.name(), " has a record for targets ",
             entry.entry.targets(), " that names profile ", *profile, ", the header has ",
             header.profile_count, ", each for one target");
}

void verify_profile_code(const PlanParts& parts, Faults& faults) {
  if (parts.header.profile_count == 0) return;
  ProfileCode code(parts, faults);
  for (const EntryParts& record : parts.entries) {
    if (faults.full()) return;
    code.verify(record);
  }
}

}  // namespace rlx
