// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/nonempty_axis.h"

#include "compiler/support/required_size.h"

namespace rlx {

bool require_nonempty_axis(InferContext& ctx, const Shape& from, int64_t axis,
                           std::string_view otherwise, Shape& to) {
  const Dim& size = from[static_cast<size_t>(axis)];
  const Dim count = element_count(to);
  if (size.range().least > 0 || count.range().most == 0) return true;
  if (size.range().most == 0 || to.empty()) {
    return ctx.fail(DiagCode::BadShape, "axis " + std::to_string(axis) + " of " + to_string(from) +
                                            (size == 0 ? " is" : " may be") +
                                            " empty: " + std::string(otherwise));
  }
  // Nothing is wanted where there is nothing.
  to[0] = required_at_least(to[0], size, min(count, 1));
  return true;
}

}  // namespace rlx
