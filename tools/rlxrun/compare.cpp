// SPDX-License-Identifier: Apache-2.0
// Element by element, in double.
#include "tools/rlxrun/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/numbers.h"

namespace rlx::tool {
namespace {

constexpr double kFloatRtol = 1e-4;
constexpr double kFloatAtol = 1e-5;

double difference(double got, double wanted) {
  if (std::isnan(got) || std::isnan(wanted)) {
    return std::isnan(got) && std::isnan(wanted) ? 0 : std::numeric_limits<double>::infinity();
  }
  if (std::isinf(got) || std::isinf(wanted))
    return got == wanted ? 0 : std::numeric_limits<double>::infinity();
  return std::fabs(got - wanted);
}

// Exact for 64-bit integers, whose doubles may coincide.
double integer_difference(int64_t got, int64_t wanted) {
  const uint64_t distance = got > wanted
                                ? static_cast<uint64_t>(got) - static_cast<uint64_t>(wanted)
                                : static_cast<uint64_t>(wanted) - static_cast<uint64_t>(got);
  return static_cast<double>(distance);
}

std::vector<uint64_t> unravel(uint64_t flat, const std::vector<uint64_t>& dims) {
  std::vector<uint64_t> index(dims.size());
  for (size_t axis = dims.size(); axis-- > 0;) {
    index[axis] = flat % dims[axis];
    flat /= dims[axis];
  }
  return index;
}

uint32_t dtype_in_file(npy::Element element, uint32_t dtype) {
  return npy::carries(element, dtype) ? dtype : dtype_of(element);
}

}  // namespace

void require_comparable(const Tensor& tensor, npy::Element element,
                        const std::vector<uint64_t>& dims) {
  const NumberClass kind = class_of(tensor.dtype);
  if (can_have_dims(tensor, dims) && kind != NumberClass::None &&
      class_of(dtype_in_file(element, tensor.dtype)) == kind) {
    return;
  }
  throw Failure(ExitCode::InputRefused, "expected \"" + tensor.name + "\": got " +
                                            std::string(npy::element_name(element)) +
                                            shape_text(dims) + ", wanted " + type_text(tensor));
}

Comparison compare(const Tensor& tensor, const std::vector<std::byte>& got,
                   const npy::Array& wanted, const Tolerances& tolerances) {
  require_comparable(tensor, wanted.element, wanted.dims);
  const uint32_t wanted_dtype = dtype_in_file(wanted.element, tensor.dtype);
  const NumberClass kind = class_of(tensor.dtype);
  const bool floats = kind == NumberClass::Float || kind == NumberClass::Complex;
  const double rtol = tolerances.rtol.value_or(floats ? kFloatRtol : 0);
  const double atol = tolerances.atol.value_or(floats ? kFloatAtol : 0);

  Comparison result{.name = tensor.name, .element_count = wanted.element_count()};
  double worst_excess = -std::numeric_limits<double>::infinity();
  uint64_t worst = 0;
  for (uint64_t i = 0; i < result.element_count; ++i) {
    const Number a = number_at(got, tensor.dtype, i);
    const Number b = number_at(wanted.data, wanted_dtype, i);
    const double error =
        floats ? std::max(difference(a.real, b.real), difference(a.imaginary, b.imaginary))
               : integer_difference(a.integer, b.integer);
    const double size = std::max(std::fabs(b.real), std::fabs(b.imaginary));
    const double bound = std::isfinite(size) ? atol + rtol * size : atol;
    if (!(error <= bound)) ++result.wrong_count;
    result.max_error = std::max(result.max_error, error);
    if (size > 0 && std::isfinite(size))
      result.max_relative_error = std::max(result.max_relative_error, error / size);
    if (error - bound > worst_excess) {
      worst_excess = error - bound;
      worst = i;
      result.worst_got = a.real;
      result.worst_wanted = b.real;
    }
  }
  if (result.element_count > 0) result.worst_index = unravel(worst, tensor.dims);
  return result;
}

}  // namespace rlx::tool
