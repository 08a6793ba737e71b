// SPDX-License-Identifier: Apache-2.0
// What a kernel makes of the words of a step's params: its sizes, and the dims of tensor maps that
// are such.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/plan/free_sizes.h"
#include "schema/plan_generated.h"

namespace rlx {

std::span<const fb::SizeTerm> size_terms(const fb::Kernel& kernel);

// Evaluates sizes that the verifier let pass; a word of the params counts for a value of a symbol.
std::optional<SizeFault> evaluate_sizes(const fb::Kernel& kernel, std::span<const std::byte> params,
                                        std::vector<uint64_t>& sizes);

inline constexpr uint32_t kMaxMapRank = 5;  // cuTensorMapEncodeTiled (CUDA driver API)

struct MapShape {
  std::array<uint64_t, kMaxMapRank> dims{};  // the last may be kLinesOfRange
  std::array<uint64_t, kMaxMapRank - 1> strides{};
};

inline bool has_sizes(const fb::TensorMap& map) {
  return map.sizes() != nullptr && map.sizes()->size() > 0;
}

// Of a map whose lists are as long as its rank wants; `sizes` are those of its kernel. A stride of
// more than 64 bits is 0.
MapShape shape_of(const fb::TensorMap& map, std::span<const uint64_t> sizes);

}  // namespace rlx
