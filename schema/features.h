// SPDX-License-Identifier: Apache-2.0
// The rows of features.def as bits of a mask.
#pragma once

#include <cstdint>

namespace rlx {

enum class Feature : uint64_t {
#define RLX_FEATURE(name, bit, text) name = uint64_t{1} << (bit),
#include "schema/features.def"
#undef RLX_FEATURE
};

constexpr uint64_t mask_of(Feature feature) {
  return static_cast<uint64_t>(feature);
}

}  // namespace rlx
