// SPDX-License-Identifier: Apache-2.0
// The kinds of targets, and sets of them.
#pragma once

#include <cstdint>

namespace rlx {

// Numbered as in plan.fbs.
enum class TargetKind : uint8_t {
#define RLX_TARGET(kind, flag, name, folder, kernel, library) kind,
#include "schema/targets.def"
#undef RLX_TARGET
};

inline constexpr TargetKind kTargetKinds[] = {
#define RLX_TARGET(kind, flag, name, folder, kernel, library) TargetKind::kind,
#include "schema/targets.def"
#undef RLX_TARGET
};

// Mask of 1 << TargetKind.
enum class TargetSet : uint32_t {
#define RLX_TARGET(kind, flag, name, folder, kernel, library) \
  kind = 1u << static_cast<uint32_t>(TargetKind::kind),
#include "schema/targets.def"
#undef RLX_TARGET
  None = 0,
  Every = 0
#define RLX_TARGET(kind, flag, name, folder, kernel, library) | kind
#include "schema/targets.def"
#undef RLX_TARGET
};

constexpr TargetSet set_of(TargetKind kind) {
  return static_cast<TargetSet>(1u << static_cast<uint32_t>(kind));
}
constexpr TargetSet operator|(TargetSet a, TargetSet b) {
  return static_cast<TargetSet>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}
constexpr bool contains(TargetSet set, TargetKind kind) {
  return (static_cast<uint32_t>(set) & static_cast<uint32_t>(set_of(kind))) != 0;
}

}  // namespace rlx
