// SPDX-License-Identifier: Apache-2.0
// A tensor against what was expected of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/npy/npy.h"
#include "tools/rlxrun/handles.h"

namespace rlx::tool {

// What the user asked for; where nothing, floats get 1e-4 and 1e-5, all other types must be equal.
struct Tolerances {
  std::optional<double> rtol;
  std::optional<double> atol;
};

struct Comparison {
  std::string name;
  uint64_t element_count = 0;
  uint64_t wrong_count = 0;       // |got - wanted| > atol + rtol * |wanted|
  double max_error = 0;           // largest |got - wanted|
  double max_relative_error = 0;  // the same over |wanted|, where wanted is not 0
  // The element furthest beyond its bound, or of the largest error where all are within.
  std::vector<uint64_t> worst_index;
  double worst_got = 0;
  double worst_wanted = 0;
};

// Refuses, by a Failure, an array that cannot be compared with the tensor: another shape or another
// class of type. Floats compare with floats of any width, integers with integers.
void require_comparable(const Tensor& tensor, npy::Element element,
                        const std::vector<uint64_t>& dims);

// NaN equals NaN, infinities of one sign are equal. Refuses what require_comparable does.
Comparison compare(const Tensor& tensor, const std::vector<std::byte>& got,
                   const npy::Array& wanted, const Tolerances& tolerances);

}  // namespace rlx::tool
