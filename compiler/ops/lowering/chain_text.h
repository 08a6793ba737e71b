// SPDX-License-Identifier: Apache-2.0
// The steps of an elementwise chain as text, one string a step: how graph files write them.
//   "add(0, 1)"   "clamp(2; min=0, max=6)"   "cast(3; to=f16)"
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/ir/graph.h"

namespace rlx {

// One step: op, operands by number, attributes behind a semicolon: integers, reals, "inf", "-inf",
// "nan", true, false, or a word. The dtype is left open. nullopt where the text has another form;
// `fault` then says what is wrong with it.
std::optional<RegionStep> parse_step(std::string_view text, std::string& fault);

}  // namespace rlx
