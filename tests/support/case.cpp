// SPDX-License-Identifier: Apache-2.0
// Builders of case tensors.
#include "tests/support/case.h"

#include <utility>

namespace rlx::test {

CaseTensor CaseTensor::uniform(double lowest, double highest) const {
  CaseTensor copy = *this;
  copy.fill = FillKind::Uniform;
  copy.low = lowest;
  copy.high = highest;
  return copy;
}

CaseTensor CaseTensor::range(int64_t lowest, int64_t highest) const {
  CaseTensor copy = uniform(static_cast<double>(lowest), static_cast<double>(highest));
  copy.fill = FillKind::Integers;
  return copy;
}

CaseTensor CaseTensor::edges() const {
  CaseTensor copy = *this;
  copy.fill = FillKind::Edges;
  return copy;
}

CaseTensor CaseTensor::of(std::vector<double> row_major) const {
  CaseTensor copy = *this;
  copy.fill = FillKind::Values;
  copy.values = std::move(row_major);
  return copy;
}

CaseTensor CaseTensor::of_integers(std::vector<int64_t> row_major) const {
  CaseTensor copy = *this;
  copy.fill = FillKind::Values;
  copy.integers = std::move(row_major);
  return copy;
}

CaseTensor CaseTensor::param() const {
  CaseTensor copy = *this;
  copy.is_param = true;
  return copy;
}

CaseTensor tensor(DType dtype, Shape shape) {
  CaseTensor made{.type = {dtype, std::move(shape)}};
  if (dtype == DType::bool_) return made.range(0, 1);
  if (kind_of(dtype) == DTypeKind::Uint) return made.range(0, 20);
  if (is_integer(dtype)) return made.range(-10, 10);
  return made;
}

}  // namespace rlx::test
