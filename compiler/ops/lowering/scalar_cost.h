// SPDX-License-Identifier: Apache-2.0
// How much code the elements of a chain take: what a region may grow to, and how its code is made.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace rlx {

// Of ops without a row in scalar_cost.def.
inline constexpr uint32_t kPlainCost = 24;
// A region's code beyond this would compile for longer than it saves: compilers of kernels and
// drivers put every function in place, and their time grows faster than the code. 8 sines, or the
// 48 steps of a chain of ordinary ones.
inline constexpr uint64_t kMostRegionCost = 4096;
// Functions are put in place, once per element of an item, up to this; code beyond it handles one
// element at a time and calls them. A step of adam with both of its moments is 1,490, three times
// what any other chain of a network of tests/bench has.
inline constexpr uint64_t kMostInlineCost = 1536;

// Instructions of one element of an op with a scalar form.
uint32_t scalar_cost(std::string_view op, std::span<const DType> operands, DType result);

// Instructions of one element of a chain over inputs of these dtypes.
uint64_t chain_cost(std::span<const RegionStep> steps, const std::vector<DType>& inputs);

// Functions of shaders/lib that are large enough to be called.
std::span<const std::string_view> big_functions();

}  // namespace rlx
