// SPDX-License-Identifier: Apache-2.0
// Attributes of convolutions and pools of the reference IR: lists of one number an axis, pads alike
// on both sides.
#pragma once

#include <array>

#include "compiler/import/reference_ir/alias.h"

namespace rlx::reference_ir {

// The attributes that rlx calls kernel, stride, pads, dilation and groups, of those that the node
// has. `with_kernel`: operators that take it from their weights get it only where it is asked for.
struct WindowOptions {
  bool with_kernel = true;
};
Attributes window(AliasNode& node, WindowOptions options = {});

constexpr AttrSpec window_list(std::string_view name, bool required = false) {
  return {.name = name, .type = AttrType::IntList, .required = required, .minimum = 0};
}
inline constexpr std::array kConvAttrs = {
    window_list("kernel_size"), window_list("stride"), window_list("padding"),
    window_list("dilation"),
    AttrSpec{.name = "groups", .type = AttrType::Int, .default_text = "1", .minimum = 1}};

}  // namespace rlx::reference_ir
