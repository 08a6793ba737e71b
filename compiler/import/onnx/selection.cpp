// SPDX-License-Identifier: Apache-2.0
// Operators whose results have as many rows as the data decide: padded to the most that there may
// be.
#include <algorithm>
#include <array>

#include "compiler/import/onnx/op_table.h"
#include "compiler/import/onnx/padding.h"

namespace rlx::onnx_import {
namespace {

const std::string kIndex = "i64";

// The first result of an op that finds up to `most` rows along an axis, and their count behind it.
void set_found(NodeReader& n, size_t output, ValueId rows, ValueId count, int64_t most,
               int64_t natural, size_t axis) {
  if (most < natural) {
    n.report_count(count);
    count = n.emit("min", {count, count_scalar(n.builder(), most)});
  }
  n.builder().set_count(count, most);
  n.builder().set_padding(rows, {.axis = axis, .count = count});
  n.set_output(output, rows);
}

// With a condition that is known, the places that it takes are.
void known_compress(NodeReader& n) {
  const Ints condition = n.known_ints(1, "the condition");
  Ints places;
  for (size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) places.push_back(static_cast<int64_t>(i));
  }
  ValueId x = n.input(0);
  int64_t axis = 0;
  if (n.has("axis")) {
    axis = n.axis(n.integer("axis", 0), n.rank(0));
  } else {
    x = n.reshape(x, {element_count(n.shape(0))});
  }
  const int64_t size = n.type(x).shape.at(static_cast<size_t>(axis));
  if (!places.empty() && places.back() >= size)
    n.refuse_shapes("the condition is longer than the axis of " + std::to_string(size));
  const auto count = static_cast<int64_t>(places.size());
  const ValueId index = n.constant_ints(DType::i64, {count}, std::move(places));
  n.set_output(0, n.emit("gather", {x, index}, {{"axis", axis}}));
}

void compress(NodeReader& n, const OnnxOp&) {
  if (n.builder().known(n.input(1)) != nullptr) return known_compress(n);
  const int64_t natural = element_count(n.shape(1));
  const int64_t most = n.count_bound(natural);
  Attributes attributes = {{"max_count", most}, {"index_dtype", kIndex}};
  size_t axis = 0;
  if (n.has("axis")) {
    axis = static_cast<size_t>(n.axis(n.integer("axis", 0), n.rank(0)));
    attributes.emplace("axis", static_cast<int64_t>(axis));
  }
  const auto found = n.emit_all("compress", {n.input(0), n.input(1)}, std::move(attributes), 2);
  set_found(n, 0, found[0], found[1], most, natural, axis);
}

// Elements that are known are found now.
void known_non_zero(NodeReader& n) {
  const Tensor& x = n.known(0, "the elements to search");
  const Strides strides = dense_strides(x.type.shape);
  const size_t rank = std::max<size_t>(strides.size(), 1);
  std::vector<Ints> places(rank);
  for (int64_t i = 0; i < x.count(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (x.is_float() ? x.floats[at] == 0 : x.integers[at] == 0) continue;
    int64_t rest = i;
    for (size_t axis = 0; axis < rank; ++axis) {
      const int64_t stride = strides.empty() ? 1 : strides[axis];
      places[axis].push_back(rest / stride);
      rest %= stride;
    }
  }
  const auto count = static_cast<int64_t>(places.front().size());
  Ints all;
  for (const Ints& axis : places) all.insert(all.end(), axis.begin(), axis.end());
  n.set_output(0, n.constant_ints(DType::i64, {static_cast<int64_t>(rank), count}, all));
}

void non_zero(NodeReader& n, const OnnxOp&) {
  if (n.builder().known(n.input(0)) != nullptr) return known_non_zero(n);
  const int64_t natural = element_count(n.shape(0));
  const int64_t most = n.count_bound(natural);
  ValueId x = n.input(0);
  if (n.rank(0) == 0) x = n.reshape(x, {1});
  const auto found = n.emit_all("nonzero", {x}, {{"max_count", most}, {"index_dtype", kIndex}}, 2);
  set_found(n, 0, n.transpose(found[0], {1, 0}), found[1], most, natural, 1);
}

// Y, its rows' first places in x, the row of each row of x, how often each is there.
void unique(NodeReader& n, const OnnxOp&) {
  const bool has_axis = n.has("axis");
  const int64_t axis = has_axis ? n.axis(n.integer("axis", 0), n.rank(0)) : 0;
  const int64_t natural = has_axis ? static_cast<int64_t>(n.shape(0)[static_cast<size_t>(axis)])
                                   : static_cast<int64_t>(element_count(n.shape(0)));
  const int64_t most = n.count_bound(natural);
  Attributes attributes = {
      {"max_count", most}, {"sorted", n.integer("sorted", 1) != 0}, {"index_dtype", kIndex}};
  if (has_axis) attributes.emplace("axis", axis);
  const auto found = n.emit_all("unique", {n.input(0)}, std::move(attributes), 5);
  set_found(n, 0, found[0], found[1], most, natural, static_cast<size_t>(axis));
  const Padding rows = {.axis = 0, .count = n.builder().padding(found[0])->count};
  n.builder().set_padding(found[2], rows);
  n.set_output(1, found[2]);
  n.set_output(2, found[3]);
  n.builder().set_padding(found[4], rows);
  n.set_output(3, found[4]);
}

void non_max_suppression(NodeReader& n, const OnnxOp&) {
  const Shape boxes = n.shape(0);
  const Shape scores = n.shape(1);
  if (boxes.size() != 3 || scores.size() != 3)
    n.refuse_shapes("boxes and scores are " + to_string(boxes) + " and " + to_string(scores) +
                    ", wanted tensors of rank 3");
  const int64_t per_class =
      n.has_input(2) ? n.sizes(2, "the most boxes of a class").most.at(0) : Dim(0);
  const int64_t count_of_boxes = boxes[1];
  const int64_t kept = std::clamp<int64_t>(per_class, 0, count_of_boxes);
  const int64_t natural = kept * static_cast<int64_t>(scores[0] * scores[1]);
  const int64_t most = n.count_bound(natural);
  Attributes attributes = {
      {"max_per_class", kept},
      {"center_point_box", n.integer("center_point_box", 0) != 0},
      {"iou_threshold", n.has_input(3) ? n.known_real(3, "the most that boxes may overlap") : 0.0},
      {"max_count", most},
      {"index_dtype", kIndex}};
  if (n.has_input(4)) attributes.emplace("score_threshold", n.known_real(4, "the least score"));
  const auto found =
      n.emit_all("non_max_suppression", {n.input(0), n.input(1)}, std::move(attributes), 2);
  set_found(n, 0, found[0], found[1], most, natural, 0);
}

constexpr std::array kSelectionRows = {
    OnnxOp{"Compress", compress},
    OnnxOp{"NonZero", non_zero},
    OnnxOp{"Unique", unique},
    OnnxOp{"NonMaxSuppression", non_max_suppression},
};

}  // namespace

std::span<const OnnxOp> selection_rows() {
  return kSelectionRows;
}

}  // namespace rlx::onnx_import
