// SPDX-License-Identifier: Apache-2.0
// Fourier transforms of known lengths, as products with a table.
#include <array>
#include <cmath>
#include <numbers>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {
namespace {

constexpr int64_t kMostPlaces = int64_t{1} << 24;  // of frames in the signal
constexpr int64_t kMostPoints = 2048;              // the table has up to 4 * n^2 elements

// Rows: real (and imaginary) part of each of n points; columns: real and imaginary part of the
// first `bins` of n frequencies. An inverse divides by n.
struct Transform {
  int64_t points;
  int64_t bins;
  bool is_complex;  // of the input
  bool is_inverse;
};

ValueId table(NodeReader& n, const Transform& t, DType dtype) {
  const int64_t parts = t.is_complex ? 2 : 1;
  Floats values(static_cast<size_t>(t.points * parts * t.bins * 2));
  const double scale = t.is_inverse ? 1 / static_cast<double>(t.points) : 1;
  for (int64_t point = 0; point < t.points; ++point) {
    for (int64_t bin = 0; bin < t.bins; ++bin) {
      const auto turn = static_cast<double>(point * bin % t.points) / static_cast<double>(t.points);
      const double angle = (t.is_inverse ? 2 : -2) * std::numbers::pi * turn;
      const double real = scale * std::cos(angle);
      const double imaginary = scale * std::sin(angle);
      const auto row = static_cast<size_t>(point * parts * t.bins * 2 + bin * 2);
      values[row] = real;
      values[row + 1] = imaginary;
      if (!t.is_complex) continue;
      const auto next = row + static_cast<size_t>(t.bins * 2);
      values[next] = -imaginary;
      values[next + 1] = real;
    }
  }
  return n.constant_reals(dtype, {t.points * parts, t.bins * 2}, std::move(values));
}

void check_points(NodeReader& n, int64_t points) {
  if (points >= 1 && points <= kMostPoints) return;
  n.refuse("a transform of " + std::to_string(points) + " points is not supported, wanted 1 to " +
           std::to_string(kMostPoints));
}

// [.., points, 1 or 2] -> [.., bins, 2] along the last but one axis.
ValueId transform(NodeReader& n, ValueId x, const Transform& t) {
  Shape shape = n.type(x).shape;
  const int64_t parts = shape.back();
  shape.pop_back();
  shape.back() *= parts;
  const ValueId y = n.emit("matmul", {n.reshape(x, shape), table(n, t, n.type(x).dtype)});
  shape.back() = t.bins;
  shape.push_back(2);
  return n.reshape(y, shape);
}

void dft(NodeReader& n, const OnnxOp&) {
  const bool is_inverse = n.integer("inverse", 0) != 0;
  const bool is_onesided = n.integer("onesided", 0) != 0;
  const int64_t rank = n.rank(0);
  int64_t axis = n.opset() >= 20 ? -2 : n.integer("axis", 1);
  if (n.opset() >= 20 && n.has_input(2)) axis = n.known_int(2, "the axis");
  axis = n.axis(axis, rank);
  const int64_t parts = rank < 2 ? 0 : n.shape(0).back();
  if (axis == rank - 1 || (parts != 1 && parts != 2))
    n.refuse("x " + to_string(n.shape(0)) + " has no last axis of 1 or 2 beside axis " +
             std::to_string(axis));
  if (is_inverse && is_onesided) n.refuse("an inverse of one side is not supported");
  const int64_t size = n.shape(0)[static_cast<size_t>(axis)];
  const int64_t points = n.has_input(1) ? n.known_int(1, "the length") : size;
  check_points(n, points);
  ValueId x = n.input(0);
  if (points < size)
    x = n.emit("narrow", {x}, {{"axis", axis}, {"start", int64_t{0}}, {"len", points}});
  if (points > size)
    x = n.emit("pad", {x}, {{"pads", Ints{0, points - size}}, {"axes", Ints{axis}}});
  Ints perm;
  for (int64_t i = 0; i < rank; ++i) perm.push_back(i);
  std::swap(perm[static_cast<size_t>(axis)], perm[static_cast<size_t>(rank) - 2]);
  const ValueId y = transform(n, n.transpose(x, perm),
                              {.points = points,
                               .bins = is_onesided ? points / 2 + 1 : points,
                               .is_complex = parts == 2,
                               .is_inverse = is_inverse});
  n.set_output(0, n.transpose(y, perm));
}

// Frames of the signal, weighed by the window, transformed.
void stft(NodeReader& n, const OnnxOp&) {
  const bool is_onesided = n.integer("onesided", 1) != 0;
  const int64_t step = n.known_int(1, "the step between frames");
  const int64_t rank = n.rank(0);
  const int64_t parts = rank == 3 ? n.shape(0)[2] : 1;
  if ((rank != 2 && rank != 3) || (parts != 1 && parts != 2) || step < 1)
    n.refuse("the signal is " + to_string(n.shape(0)) + ", wanted [batch, length, 1 or 2]");
  const int64_t length = n.shape(0)[1];
  Dim points = n.has_input(2) ? n.shape(2).at(0) : Dim(length);
  if (n.has_input(3)) points = n.known_int(3, "the length of a frame");
  check_points(n, points);
  if (points > length) n.refuse("a frame is longer than the signal");
  const int64_t frames = (length - points) / step + 1;
  if (frames * points > kMostPlaces) n.refuse(std::to_string(frames) + " frames are not supported");
  Ints places;
  for (int64_t frame = 0; frame < frames; ++frame) {
    for (int64_t i = 0; i < points; ++i) places.push_back(frame * step + i);
  }
  const ValueId index = n.constant_ints(DType::i64, {frames, points}, std::move(places));
  const int64_t batch = n.shape(0)[0];
  ValueId x = n.reshape(n.input(0), {batch, length, parts});
  x = n.emit("gather", {x, index}, {{"axis", int64_t{1}}});
  if (n.has_input(2)) x = n.emit("mul", {x, n.reshape(n.input(2), {points, 1})});
  n.set_output(0, transform(n, x,
                            {.points = points,
                             .bins = is_onesided ? points / 2 + 1 : points,
                             .is_complex = parts == 2,
                             .is_inverse = false}));
}

constexpr std::array kSpectralRows = {
    OnnxOp{"DFT", dft},
    OnnxOp{"STFT", stft},
};

}  // namespace

std::span<const OnnxOp> spectral_rows() {
  return kSpectralRows;
}

}  // namespace rlx::onnx_import
