// SPDX-License-Identifier: Apache-2.0
// MaxRoiPool: the largest element of each bin, first along the rows of an image, then along its
// columns.
#include <cmath>
#include <limits>

#include "compiler/import/onnx/node_reader.h"

namespace rlx::onnx_import {

void max_roi_pool(NodeReader& n, const OnnxOp& row);

namespace {

// An axis of the image: its size, how many bins a box has along it, and the columns of the boxes
// that hold its first and last line.
struct PooledAxis {
  int64_t axis;
  Dim size;
  int64_t bins;
  int64_t first_column;
};

// 0, 1 .. count - 1 as `shape`.
ValueId ramp(NodeReader& n, DType dtype, const Dim& count, Shape shape) {
  const ValueId numbers =
      n.emit("range", {n.scalar(dtype, 0), std::nullopt, n.scalar(dtype, 1)}, {{"count", count}});
  return n.reshape(numbers, std::move(shape));
}

// [boxes, bins, size]: whether a line belongs to a bin. Corners are rounded, halves away from zero;
// a box has one line at least.
ValueId bins_of(NodeReader& n, const PooledAxis& along, double scale) {
  const DType dtype = n.dtype(1);
  const auto corner = [&](int64_t column) {
    const ValueId at = n.emit("narrow", {n.input(1)},
                              {{"axis", int64_t{1}}, {"start", column}, {"len", int64_t{1}}});
    const ValueId scaled =
        n.emit("affine", {n.reshape(at, {n.shape(1)[0], 1, 1})}, {{"mul", scale}});
    const ValueId size =
        n.emit("floor", {n.emit("affine", {n.emit("abs", {scaled})}, {{"add", 0.5}})});
    return n.emit("mul", {n.emit("sign", {scaled}), size});
  };
  const ValueId begin = corner(along.first_column);
  const ValueId end = corner(along.first_column + 2);
  const ValueId lines = n.emit("affine", {n.emit("sub", {end, begin})}, {{"add", 1.0}});
  const ValueId step = n.emit("div", {n.emit("max", {lines, n.scalar(dtype, 1)}),
                                      n.scalar(dtype, static_cast<double>(along.bins))});
  const ValueId bin = ramp(n, dtype, along.bins, {1, along.bins, 1});
  const ValueId next = n.emit("affine", {bin}, {{"add", 1.0}});
  const ValueId low = n.emit("add", {n.emit("floor", {n.emit("mul", {bin, step})}), begin});
  const ValueId high = n.emit("add", {n.emit("ceil", {n.emit("mul", {next, step})}), begin});
  const ValueId line = ramp(n, dtype, along.size, {1, 1, along.size});
  return n.emit("logical_and", {n.emit("ge", {line, low}), n.emit("lt", {line, high})});
}

}  // namespace

void max_roi_pool(NodeReader& n, const OnnxOp&) {
  const Ints pooled = n.required_integers("pooled_shape");
  const double scale = n.real("spatial_scale", 1);
  if (n.rank(0) != 4 || n.rank(1) != 2 || n.shape(1)[1] != 5)
    n.refuse_shapes("X and rois are " + to_string(n.shape(0)) + " and " + to_string(n.shape(1)) +
                    ", wanted [N, C, H, W] and [boxes, 5]");
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1)
    n.refuse("pooled_shape is " + to_string(pooled) + ", wanted two numbers of 1 or more");
  const Shape image = n.shape(0);
  const Dim boxes = n.shape(1)[0];
  const DType dtype = n.dtype(0);
  const ValueId images = n.emit("narrow", {n.input(1)},
                                {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"len", int64_t{1}}});
  ValueId x = n.emit("gather", {n.input(0), n.cast(n.reshape(images, {boxes}), DType::i64)},
                     {{"axis", int64_t{0}}});
  const ValueId nothing = n.scalar(dtype, -std::numeric_limits<double>::infinity());
  for (const PooledAxis& along :
       {PooledAxis{2, image[2], pooled[0], 2}, PooledAxis{3, image[3], pooled[1], 1}}) {
    const ValueId is_inside = bins_of(n, along, scale);
    // [boxes, 1, H bins, H, 1], then [boxes, 1, 1, W bins, W]
    Shape mask = {boxes, 1, along.bins, along.size};
    mask.insert(along.axis == 2 ? mask.end() : mask.begin() + 2, Dim(1));
    const ValueId wide = n.emit("unsqueeze", {x}, {{"axes", Ints{along.axis}}});
    const ValueId kept = n.emit("where", {n.reshape(is_inside, mask), wide, nothing});
    x = n.emit("reduce_max", {kept}, {{"axes", Ints{along.axis + 1}}});
  }
  n.set_output(0, n.emit("where", {n.emit("eq", {x, nothing}), n.scalar(dtype, 0), x}));
}

}  // namespace rlx::onnx_import
