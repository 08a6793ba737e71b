// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: fft, rfft and stft, whose complex numbers are pairs along a last axis.
#include <array>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {
namespace {

// The first half of the bins along an axis: what onesided asks of complex signals.
ValueId first_half(NodeReader& n, ValueId y, int64_t axis) {
  const Dim points = n.type(y).shape[static_cast<size_t>(axis)];
  return n.emit("narrow", {y},
                {{"axis", axis}, {"start", int64_t{0}}, {"len", int64_t{points} / 2 + 1}});
}

void dft(NodeReader& n, const OnnxOp&) {
  const bool is_inverse = n.integer("inverse", 0) != 0;
  const bool is_onesided = n.integer("onesided", 0) != 0;
  const int64_t rank = n.rank(0);
  int64_t axis = n.opset() >= 20 ? -2 : n.integer("axis", 1);
  if (n.opset() >= 20 && n.has_input(2)) axis = n.known_int(2, "the axis");
  axis = n.axis(axis, rank);
  const int64_t parts = rank < 2 ? 0 : int64_t{n.shape(0).back()};
  if (axis == rank - 1 || (parts != 1 && parts != 2))
    n.refuse_shapes("x " + to_string(n.shape(0)) + " has no last axis of 1 or 2 beside axis " +
                    std::to_string(axis));
  if (is_inverse && is_onesided && parts != 2)
    n.refuse_shapes("an inverse of one side wants pairs along the last axis of x " +
                    to_string(n.shape(0)));
  Attributes attributes = {{"axis", axis}, {"layout", std::string("interleaved")}};
  if (n.has_input(1)) {
    const int64_t points = n.known_int(1, "the length");
    if (points < 1)
      n.refuse_shapes("a transform of " + std::to_string(points) + " points, wanted 1 or more");
    attributes["n"] = points;
  }
  ValueId x = n.input(0);
  if (is_inverse && is_onesided) {
    attributes["norm"] = std::string("backward");
    const ValueId y = n.emit("irfft", {x}, attributes);
    Shape shape = n.type(y).shape;
    shape.push_back(1);
    n.set_output(0, n.reshape(y, shape));
    return;
  }
  if (parts == 1 && !is_inverse) {
    Shape shape = n.shape(0);
    shape.pop_back();
    attributes["onesided"] = is_onesided;
    n.set_output(0, n.emit("rfft", {n.reshape(x, shape)}, attributes));
    return;
  }
  if (parts == 1) x = n.emit("pad", {x}, {{"pads", Ints{0, 1}}, {"axes", Ints{rank - 1}}});
  attributes["inverse"] = is_inverse;
  attributes["norm"] = std::string("backward");
  const ValueId y = n.emit("fft", {x}, attributes);
  n.set_output(0, is_onesided ? first_half(n, y, axis) : y);
}

// c64 of f32 pairs along the last axis, which it loses.
ValueId complex_signal(NodeReader& n, ValueId x) {
  Shape shape = n.type(x).shape;
  shape.pop_back();
  const auto part = [&](int64_t start) {
    return n.reshape(
        n.emit("narrow", {x}, {{"axis", int64_t{-1}}, {"start", start}, {"len", int64_t{1}}}),
        shape);
  };
  return n.emit("complex", {part(0), part(1)});
}

void stft(NodeReader& n, const OnnxOp&) {
  const bool is_onesided = n.integer("onesided", 1) != 0;
  const int64_t step = n.known_int(1, "the step between frames");
  const int64_t rank = n.rank(0);
  const int64_t parts = rank == 3 ? int64_t{n.shape(0)[2]} : 1;
  if ((rank != 2 && rank != 3) || (parts != 1 && parts != 2) || step < 1)
    n.refuse_shapes("the signal is " + to_string(n.shape(0)) + ", wanted [batch, length, 1 or 2]");
  const Dim length = n.shape(0)[1];
  Dim points = n.has_input(2) ? n.shape(2).at(0) : length;
  if (n.has_input(3)) points = n.known_int(3, "the length of a frame");
  const bool is_complex = parts == 2;
  if (is_complex && n.dtype(0) != DType::f32)
    n.refuse("a complex signal of " + std::string(name_of(n.dtype(0))) + ", wanted f32");
  const ValueId x =
      is_complex ? complex_signal(n, n.input(0)) : n.reshape(n.input(0), {n.shape(0)[0], length});
  Inputs inputs = {x};
  if (n.has_input(2)) inputs.push_back(n.input(2));
  const ValueId y = n.emit("stft", inputs,
                           {{"frame_len", int64_t{points}},
                            {"hop", step},
                            {"onesided", is_onesided && !is_complex},
                            {"layout", std::string("interleaved")}});
  n.set_output(0, is_onesided && is_complex ? first_half(n, y, 2) : y);
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
