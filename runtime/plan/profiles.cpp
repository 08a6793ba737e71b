// SPDX-License-Identifier: Apache-2.0
// The programs of a plan, by its header and its records.
#include "runtime/plan/profiles.h"

#include <algorithm>

#include "runtime/plan/target_row.h"

namespace rlx {
namespace {

constexpr uint32_t kFirstProfileBit = static_cast<uint32_t>(fb::TargetKind::MAX) + 1;
static_assert(kFirstProfileBit + kPlanMaxProfiles <= 32);

}  // namespace

std::string_view profile_name(const PlanProfile& profile) {
  const char* end = std::find(std::begin(profile.name), std::end(profile.name), '\0');
  return {profile.name, static_cast<size_t>(end - profile.name)};
}

std::vector<uint32_t> profiles_of(const PlanHeader& header, fb::TargetKind target) {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < header.profile_count; ++i) {
    if (header.profiles[i].target == static_cast<uint32_t>(target)) found.push_back(i);
  }
  return found;
}

PlanHeader header_of_profile(const PlanHeader& header, uint32_t profile) {
  PlanHeader own = header;
  const PlanProfile& chosen = header.profiles[profile];
  own.vulkan = chosen.vulkan;
  own.profile_count = 0;
  for (uint32_t i = 0; i < header.profile_count; ++i) {
    if (header.profiles[i].target != chosen.target)
      own.profiles[own.profile_count++] = header.profiles[i];
  }
  std::fill(own.profiles + own.profile_count, std::end(own.profiles), PlanProfile{});
  return own;
}

uint32_t programs_of(const PlanHeader& header) {
  uint32_t programs = targets_of(header);
  for (uint32_t i = 0; i < header.profile_count; ++i) {
    programs &= ~(1u << header.profiles[i].target);
    programs |= 1u << (kFirstProfileBit + i);
  }
  return programs;
}

uint32_t programs_of(const fb::Entry& record) {
  const flatbuffers::Optional<uint32_t> profile = record.profile();
  return profile.has_value() ? 1u << (kFirstProfileBit + *profile) : record.targets();
}

}  // namespace rlx
