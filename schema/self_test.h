// SPDX-License-Identifier: Apache-2.0
// The kind of a plan's section that tools write and judge a machine by. No runtime reads it.
#pragma once

#include <cstdint>

namespace rlx {

inline constexpr uint32_t kSelfTestSection = 8;  // self_test.fbs

}  // namespace rlx
