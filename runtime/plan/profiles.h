// SPDX-License-Identifier: Apache-2.0
// The programs of a plan. A plan has one for each of its kinds of targets, or, of a kind with
// profiles in the header, one for each of these.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "schema/plan_generated.h"
#include "schema/plan_header.h"

namespace rlx {

// "vulkan-nvidia"
std::string_view profile_name(const PlanProfile& profile);

// The header's profiles of a kind of target, by their numbers, ascending; none where the plan has
// one program for it.
std::vector<uint32_t> profiles_of(const PlanHeader& header, fb::TargetKind target);

// The header as it would be if the profile's program were the plan's only one for its kind of
// target.
PlanHeader header_of_profile(const PlanHeader& header, uint32_t profile);

// What runs a record, as a set: a bit for each kind of target that has no profiles, and a bit for
// each profile. A record that names a profile is that one's alone.
uint32_t programs_of(const PlanHeader& header);
uint32_t programs_of(const fb::Entry& record);

}  // namespace rlx
