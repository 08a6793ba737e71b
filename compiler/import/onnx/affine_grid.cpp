// SPDX-License-Identifier: Apache-2.0
// AffineGrid, opset 20 (ops.md 19.2).
#include <cmath>

#include "compiler/import/onnx/node_reader.h"

namespace rlx::onnx_import {

void affine_grid(NodeReader& n, const OnnxOp& row);

namespace {

constexpr int64_t kMostPositions = int64_t{1} << 22;  // along one axis, as grid_sample has them

// The positions along one axis of the image, from -1 to 1: of the outermost pixels, or of the edges
// beyond them. One pixel lies in the middle.
Floats positions(int64_t size, bool align_corners) {
  Floats result;
  const int64_t steps = align_corners ? size - 1 : size;
  for (int64_t i = 0; i < size; ++i) {
    const int64_t twice = align_corners ? 2 * i : 2 * i + 1;
    result.push_back(steps == 0 ? 0
                                : static_cast<double>(twice - steps) / static_cast<double>(steps));
  }
  return result;
}

void check_shapes(NodeReader& n, const Ints& size) {
  const auto rank = static_cast<int64_t>(size.size()) - 2;
  if ((rank != 2 && rank != 3) || n.shape(0) != Shape{size[0], rank, rank + 1})
    n.refuse_shapes("theta is " + to_string(n.shape(0)) + " and the size " + to_string(size) +
                    "; wanted [N, 2, 3] and N, C, H, W, or [N, 3, 4] and N, C, D, H, W");
  for (size_t axis = 2; axis < size.size(); ++axis) {
    if (size[axis] < 1 || size[axis] > kMostPositions)
      n.refuse_shapes("axis " + std::to_string(axis) + " of the grid has the size " +
                      to_string(size[axis]) + "; wanted 1 to " + std::to_string(kMostPositions));
  }
}

}  // namespace

// theta times (x, y, 1) or (x, y, z, 1), of which x changes along the last axis: what each axis
// gives is added to the last column.
void affine_grid(NodeReader& n, const OnnxOp&) {
  const Ints size = n.known_ints(1, "the size of the grid");
  const bool align_corners = n.integer("align_corners", 0) != 0;
  check_shapes(n, size);
  const size_t rank = size.size() - 2;
  const DType dtype = n.dtype(0);
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const ValueId theta = n.cast(n.input(0), wide);
  const auto column = [&](size_t j) {
    const ValueId whole =
        n.emit("narrow", {theta},
               {{"axis", int64_t{2}}, {"start", static_cast<int64_t>(j)}, {"len", int64_t{1}}});
    Shape shape(rank + 2, 1);
    shape.front() = size[0];
    shape.back() = static_cast<int64_t>(rank);
    return n.reshape(whole, shape);
  };
  ValueId grid = column(rank);
  for (size_t j = 0; j < rank; ++j) {
    const size_t axis = rank - 1 - j;
    Shape shape(rank + 2, 1);
    shape[axis + 1] = size[axis + 2];
    const ValueId places = n.constant_reals(wide, shape, positions(size[axis + 2], align_corners));
    grid = n.emit("add", {grid, n.emit("mul", {places, column(j)})});
  }
  n.set_output(0, n.cast(grid, dtype));
}

}  // namespace rlx::onnx_import
