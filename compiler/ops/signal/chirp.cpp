// SPDX-License-Identifier: Apache-2.0
// chirp: the tables of a Fourier transform whose length the run gives (transform.h), by positions.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

bool infer_chirp(InferContext& ctx) {
  const DType dtype = ctx.attrs().dtype("dtype");
  const Dim points = ctx.attrs().integers("points").at(0);
  const int64_t convolved = ctx.attrs().integer("convolved");
  if (dtype != DType::f32 && dtype != DType::f64) {
    return ctx.fail(DiagCode::BadDtype,
                    "dtype is " + std::string(name_of(dtype)) + ", wanted f32 or f64");
  }
  if (convolved > 0 && convolved < 2 * points.range().most - 1) {
    return ctx.fail(DiagCode::BadAttribute, "a convolution of " + std::to_string(convolved) +
                                                " points, wanted at least twice the " +
                                                to_string(points) + " but for one");
  }
  ctx.set_output(0, {dtype, {convolved > 0 ? Dim(convolved) : points, 2}});
  return true;
}

bool evaluate_chirp(EvaluateContext& ctx) {
  const int64_t points = ctx.attrs().integer("points");
  const int64_t convolved = ctx.attrs().integer("convolved");
  const auto divisor = static_cast<long double>(std::max<int64_t>(convolved, 1));
  Tensor& y = ctx.output(0);
  y.magnitudes.assign(y.floats.size(), static_cast<double>(1 / divisor));
  for (int64_t i = 0; i < y.type.shape[0].bound(); ++i) {
    const int64_t k = convolved > 0 ? std::min(i, convolved - i) : i;
    if (k >= points) continue;
    const long double angle = std::numbers::pi_v<long double> *
                              static_cast<long double>(k * k % (2 * points)) /
                              static_cast<long double>(points);
    const auto place = static_cast<size_t>(2 * i);
    y.floats[place] = static_cast<double>(std::cos(angle) / divisor);
    y.floats[place + 1] =
        static_cast<double>((convolved > 0 ? std::sin(angle) : -std::sin(angle)) / divisor);
  }
  return true;
}

// The imaginary part is the cosine of one quarter of a turn more, that of the conjugate of three.
std::string scalar_chirp(const ScalarContext& ctx) {
  const DType dtype = ctx.result_dtype();
  const int64_t convolved = ctx.attrs().integer("convolved");
  const std::string points = "rlx_i64(" + integer_text(ctx.attrs().integers("points").at(0)) + ")";
  const std::string place = coordinate_name(2);
  const auto element = [&](const std::string& k, int quarters) {
    return "rlx_chirp(" + k + ", " + points + ", rlx_i32(" + coordinate_name(1) + ") * " +
           std::to_string(quarters) + ", " + literal(dtype, std::numbers::pi / 2) + ")";
  };
  if (convolved == 0) return element(place, 1);
  const std::string k =
      "rlx_min(" + place + ", rlx_i64(" + std::to_string(convolved) + ") - " + place + ")";
  return "(" + k + " < " + points + " ? " + element(k, 3) + " * " +
         literal(dtype, 1 / static_cast<double>(convolved)) + " : " + literal(dtype, 0) + ")";
}

constexpr AttrSpec kChirpAttrs[] = {
    {.name = "points",
     .type = AttrType::Int,
     .required = true,
     .minimum = 1,
     .maximum = kLargestInt},
    {.name = "convolved",
     .type = AttrType::Int,
     .default_text = "0",
     .minimum = 0,
     .maximum = kLargestInt},
    {.name = "dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"f32\"",
     .consumed_by_infer = true},
};

constexpr OpDef kChirpOps[] = {
    {.name = "chirp",
     .signature = "chirp(; points, convolved=0, dtype=\"f32\") -> y",
     .inputs = {0, 0},
     .outputs = {1, 1},
     .attrs = kChirpAttrs,
     .infer = infer_chirp,
     .evaluate = evaluate_chirp,
     .lower = lower_elementwise,
     .scalar = scalar_chirp},
};

}  // namespace

std::span<const OpDef> chirp_ops() {
  return kChirpOps;
}

}  // namespace rlx
