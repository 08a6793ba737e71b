// SPDX-License-Identifier: Apache-2.0
// Axes that must have an element where the result has any: to clamp an index to, to choose from.
#pragma once

#include <string_view>

#include "compiler/ops/op_def.h"

namespace rlx {

inline constexpr std::string_view kNothingToClampTo = "there is nothing to clamp to";

// Refuses an empty axis of `from` where an element of `to` comes from it; `otherwise` ends the
// sentence, "there is nothing to ...". Where the run decides, the first dim of `to` needs that of
// it.
bool require_nonempty_axis(InferContext& ctx, const Shape& from, int64_t axis,
                           std::string_view otherwise, Shape& to);

}  // namespace rlx
