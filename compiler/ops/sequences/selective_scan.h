// SPDX-License-Identifier: Apache-2.0
// What the definition of selective_scan and its gradient share.
#pragma once

#include <cstdint>

#include "compiler/ops/gradient.h"

namespace rlx {

enum SelectiveInput : uint32_t {
  kSelectiveX,
  kSelectiveDelta,
  kSelectiveA,
  kSelectiveB,
  kSelectiveC,
  kSelectiveD,
  kSelectiveZ,
  kSelectiveBias,
  kSelectiveState0
};

// Decays and states of all steps are held at once: [batch, steps, channels, states].
bool selective_scan_gradient(GradientContext& ctx);

}  // namespace rlx
