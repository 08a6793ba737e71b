// SPDX-License-Identifier: Apache-2.0
// The choice among a plan's programs, by the header alone.
#include "runtime/device/choose_profile.h"

#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/device/device_names.h"
#include "runtime/plan/profiles.h"
#include "runtime/plan/target_row.h"

namespace rlx {
namespace {

// A device that is for no target runs the plan's first one.
fb::TargetKind target_on(const PlanHeader& header, const DeviceInfo& device) {
  if (device.target.has_value()) return *device.target;
  const auto first =
      std::ranges::find_if(target_rows(), [&](const TargetRow& row) { return row.is_in(header); });
  return first->kind;
}

// The lower, the better.
int rank_on(const PlanProfile& profile, const DeviceInfo& device) {
  if (profile.device_type == static_cast<uint32_t>(DeviceType::Any)) return 1;
  return device.is_software ? 0 : 2;
}

std::vector<uint32_t> best_first(const PlanHeader& header, const DeviceInfo& device) {
  std::vector<uint32_t> profiles = profiles_of(header, target_on(header, device));
  std::ranges::reverse(profiles);
  std::ranges::stable_sort(
      profiles, {}, [&](uint32_t profile) { return rank_on(header.profiles[profile], device); });
  return profiles;
}

std::string names_of(const PlanHeader& header, const std::vector<uint32_t>& profiles) {
  std::string names;
  for (const uint32_t profile : profiles)
    names += text_of(names.empty() ? "" : ", ", profile_name(header.profiles[profile]));
  return names;
}

Status refuse_name(const PlanHeader& header, const DeviceInfo& device, std::string_view name,
                   const std::vector<uint32_t>& profiles) {
  const std::string_view target = target_row(target_on(header, device)).name;
  return {RLX_INVALID_ARGUMENT,
          profiles.empty()
              ? text_of("the program ", quoted(name), " was asked for, the plan has only one for ",
                        target, ", which has no name; leave the choice out")
              : text_of("the plan has no program ", quoted(name), " for ", target, "; it has ",
                        names_of(header, profiles))};
}

// The named one; where the device does not run it, the error says which it would.
Status check_named(const PlanHeader& header, const SuitsCheck& suits, uint32_t named,
                   const std::vector<uint32_t>& profiles) {
  const Status status = suits(header_of_profile(header, named));
  if (status.ok()) return status;
  std::vector<uint32_t> others;
  for (const uint32_t profile : profiles) {
    if (suits(header_of_profile(header, profile)).ok()) others.push_back(profile);
  }
  return {status.code(),
          text_of("program ", quoted(profile_name(header.profiles[named])), ": ", status.message(),
                  others.empty() ? "; no other of the plan's programs runs there either"
                                 : "; it runs the plan's program ",
                  others.empty() ? "" : names_of(header, others))};
}

}  // namespace

Status choose_profile(const PlanHeader& header, const DeviceInfo& device, const SuitsCheck& suits,
                      std::string_view name, std::optional<uint32_t>& profile) {
  const std::vector<uint32_t> profiles = best_first(header, device);
  if (!name.empty()) {
    const auto named = std::ranges::find_if(
        profiles, [&](uint32_t p) { return profile_name(header.profiles[p]) == name; });
    if (named == profiles.end()) return refuse_name(header, device, name, profiles);
    RLX_RETURN_IF_ERROR(check_named(header, suits, *named, profiles));
    profile = *named;
    return {};
  }
  profile = std::nullopt;
  if (profiles.empty()) return {};
  Status first;
  std::string refusals;
  for (const uint32_t candidate : profiles) {
    const Status status = suits(header_of_profile(header, candidate));
    if (status.ok()) {
      profile = candidate;
      return {};
    }
    if (first.ok()) first = status;
    refusals += text_of(refusals.empty() ? "" : "; ", "program ",
                        quoted(profile_name(header.profiles[candidate])), ": ", status.message());
  }
  return {first.code(),
          text_of("none of the plan's programs runs on ", device_text(device), ": ", refusals)};
}

Status choose_profile(const PlanHeader& header, const Device& device, std::string_view name,
                      std::optional<uint32_t>& profile) {
  const SuitsCheck suits = [&](const PlanHeader& own) { return device.check_suits(own); };
  return choose_profile(header, device.info(), suits, name, profile);
}

Status check_any_suits(const PlanHeader& header, const Device& device) {
  if (profiles_of(header, target_on(header, device.info())).empty())
    return device.check_suits(header);
  std::optional<uint32_t> profile;
  return choose_profile(header, device, {}, profile);
}

}  // namespace rlx
