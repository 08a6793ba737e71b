// SPDX-License-Identifier: Apache-2.0
#include "tools/rlxrun/usual_bound.h"

#include <algorithm>
#include <cmath>

#include "tools/rlxrun/numbers.h"

namespace rlx::tool {
namespace {

// Relative, for what one type rounds away over a deep model; wide where products are computed in
// narrower types, as the plan's precision says. 0: equal.
double tolerance_of(uint32_t dtype, std::string_view precision) {
  struct TypeRow {
    uint32_t dtype;
    double rtol;
  };
  struct PrecisionRow {
    std::string_view precision;
    double rtol;
  };
  static constexpr TypeRow kTypes[] = {{RLX_F64, 1e-10}, {RLX_F32, 1e-4},  {RLX_C64, 1e-4},
                                       {RLX_F16, 1e-2},  {RLX_BF16, 5e-2}, {RLX_F8E4M3, 0.2},
                                       {RLX_F8E5M2, 0.4}};
  static constexpr PrecisionRow kPrecisions[] = {
      {"tf32", 1e-2}, {"f16", 1e-2}, {"mixed", 1e-2}, {"bf16", 5e-2}};
  double rtol = 0;
  for (const TypeRow& row : kTypes) {
    if (row.dtype == dtype) rtol = row.rtol;
  }
  if (rtol == 0) return 0;
  for (const PrecisionRow& row : kPrecisions) {
    if (row.precision == precision) rtol = std::max(rtol, row.rtol);
  }
  return rtol;
}

// Root of the mean square of the finite elements: how large a value is as a whole.
double size_of(const npy::Array& array, uint32_t like) {
  const uint32_t dtype = npy::carries(array.element, like) ? like : dtype_of(array.element);
  double sum = 0;
  uint64_t count = 0;
  for (uint64_t i = 0; i < array.element_count(); ++i) {
    const Number number = number_at(array.data, dtype, i);
    const double square = number.real * number.real + number.imaginary * number.imaginary;
    if (!std::isfinite(square)) continue;
    sum += square;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

}  // namespace

Tolerances usual_bound(uint32_t dtype, std::string_view precision, const npy::Array& expected) {
  const double rtol = tolerance_of(dtype, precision);
  return {.rtol = rtol, .atol = rtol == 0 ? 0 : rtol * size_of(expected, dtype)};
}

}  // namespace rlx::tool
