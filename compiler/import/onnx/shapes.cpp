// SPDX-License-Identifier: Apache-2.0
// Operators about shapes: what they give is known when the model is compiled.
#include <algorithm>
#include <array>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {
namespace {

// The shape of the first input; of an axis of which the run decides how many rows count, their
// number.
ValueId dims_of(NodeReader& n) {
  const ValueId x = n.input(0);
  const Padding* padding = n.builder().padding(x);
  if (padding == nullptr) return n.emit("shape_of", {x});
  const auto axis = static_cast<ptrdiff_t>(padding->axis);
  const Shape shape = n.type(x).shape;
  const auto part = [&](auto begin, auto end) {
    return n.constant_ints(DType::i64, {end - begin}, Ints(begin, end));
  };
  return n.emit("concat",
                {part(shape.begin(), shape.begin() + axis), n.reshape(padding->count, {1}),
                 part(shape.begin() + axis + 1, shape.end())},
                {{"axis", int64_t{0}}});
}

// Shape from `start` up to `end`.
void shape(NodeReader& n, const OnnxOp&) {
  const int64_t rank = n.rank(0);
  const auto clamped = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  const int64_t start = clamped(n.integer("start", 0));
  const int64_t end = std::max(start, clamped(n.integer("end", rank)));
  const ValueId dims = dims_of(n);
  if (start == 0 && end == rank) {
    n.set_output(0, dims);
  } else if (start == end) {
    n.set_output(0, n.constant_ints(DType::i64, {0}, {}));
  } else {
    n.set_output(0, n.emit("narrow", {dims},
                           {{"axis", int64_t{0}}, {"start", start}, {"len", end - start}}));
  }
}

void size(NodeReader& n, const OnnxOp&) {
  if (n.builder().padding(n.input(0)) != nullptr) {
    n.set_output(0, n.emit("reduce_prod", {dims_of(n)}, {{"keep_dims", false}}));
    return;
  }
  n.set_output(0, n.emit("size_of", {n.input(0)}));
}

// Of a result whose size depends on counts: the axis on which it does.
void set_counted_output(NodeReader& n, ValueId y, const NodeReader::Sizes& sizes) {
  n.set_output(0, y);
  for (size_t i = 0; i < sizes.counts.size(); ++i) {
    if (!sizes.counts[i]) continue;
    const size_t axis = n.type(y).shape.size() - sizes.counts.size() + i;
    const Padding* padding = n.builder().padding(y);
    if (padding != nullptr && padding->axis == axis) continue;
    if (padding != nullptr) n.refuse("the run decides how many rows of two axes count");
    n.builder().set_padding(y, {.axis = axis, .count = *sizes.counts[i]});
  }
}

void reshape(NodeReader& n, const OnnxOp&) {
  const bool zero_is_empty = n.integer("allowzero", 0) != 0;
  const NodeReader::Sizes sizes = n.sizes(1, "the shape");
  const ValueId y =
      n.emit("reshape", {n.input(0)}, {{"shape", sizes.most}, {"zero_copies_dim", !zero_is_empty}});
  if (!sizes.are_known() && n.builder().padding(y) == nullptr)
    n.refuse("the run decides the shape, and how many elements there are does not depend on it");
  n.set_output(0, y);
}

// Axes as an attribute, or since opset 13 as an input; nothing where neither is given.
std::optional<Ints> axes_of(NodeReader& n) {
  if (n.opset() >= 13) {
    if (!n.has_input(1)) return std::nullopt;
    return n.known_ints(1, "the axes");
  }
  if (!n.has("axes")) return std::nullopt;
  return n.integers("axes", {});
}

void squeeze(NodeReader& n, const OnnxOp&) {
  const std::optional<Ints> axes = axes_of(n);
  n.set_output(0,
               n.emit("squeeze", {n.input(0)}, axes ? Attributes{{"axes", *axes}} : Attributes{}));
}

void unsqueeze(NodeReader& n, const OnnxOp&) {
  const std::optional<Ints> axes = axes_of(n);
  if (!axes) n.refuse("it has no axes");
  n.set_output(0, n.emit("unsqueeze", {n.input(0)}, {{"axes", *axes}}));
}

// The axis may be the rank itself: everything before it.
void flatten(NodeReader& n, const OnnxOp&) {
  const int64_t rank = n.rank(0);
  const int64_t written = n.integer("axis", 1);
  const int64_t axis = written == rank ? rank : n.axis(written, rank);
  const Shape dims = n.shape(0);
  const auto count = [](auto begin, auto end) { return element_count(Shape(begin, end)); };
  n.set_output(0, n.emit("reshape", {n.input(0)},
                         {{"shape", Ints{count(dims.begin(), dims.begin() + axis),
                                         count(dims.begin() + axis, dims.end())}}}));
}

void expand(NodeReader& n, const OnnxOp&) {
  const NodeReader::Sizes sizes = n.sizes(1, "the shape");
  const Ints& wanted = sizes.most;
  const auto shape = broadcast_shapes(n.shape(0), Shape(wanted.begin(), wanted.end()));
  if (!shape)
    n.refuse_shapes("a tensor of shape " + to_string(n.shape(0)) + " does not expand to " +
                    to_string(Shape(wanted.begin(), wanted.end())));
  set_counted_output(
      n, n.emit("expand", {n.input(0)}, {{"shape", Ints(shape->begin(), shape->end())}}), sizes);
}

void constant(NodeReader& n, const OnnxOp&) {
  if (const onnx::TensorProto* tensor = n.tensor("value")) {
    n.set_output(0, n.decode(*tensor, "the value"));
  } else if (const onnx::SparseTensorProto* sparse = n.sparse_tensor("sparse_value")) {
    n.set_output(0, n.decode(*sparse, "the value"));
  } else if (n.has("value_float")) {
    n.set_output(0, n.scalar(DType::f32, n.real("value_float", 0)));
  } else if (n.has("value_int")) {
    n.set_output(0, n.constant_ints(DType::i64, {}, {n.integer("value_int", 0)}));
  } else if (n.has("value_floats")) {
    const Floats values = n.reals("value_floats", {});
    n.set_output(0, n.constant_reals(DType::f32, {static_cast<int64_t>(values.size())}, values));
  } else if (n.has("value_ints")) {
    const Ints values = n.integers("value_ints", {});
    n.set_output(0, n.constant_ints(DType::i64, {static_cast<int64_t>(values.size())}, values));
  } else if (n.has("value_string") || n.has("value_strings")) {
    n.refuse("its value is of strings, which rlx has not");
  } else {
    n.refuse("it has no value");
  }
}

void constant_of_shape(NodeReader& n, const OnnxOp&) {
  const NodeReader::Sizes sizes = n.sizes(0, "the shape");
  const onnx::TensorProto* tensor = n.tensor("value");
  ValueId value = n.scalar(DType::f32, 0);
  if (tensor != nullptr) value = n.reshape(n.decode(*tensor, "the value"), {});
  set_counted_output(n, n.emit("expand", {value}, {{"shape", sizes.most}}), sizes);
}

constexpr std::array kShapesRows = {
    OnnxOp{"Shape", shape},
    OnnxOp{"Size", size},
    OnnxOp{"Reshape", reshape},
    OnnxOp{"Squeeze", squeeze},
    OnnxOp{"Unsqueeze", unsqueeze},
    OnnxOp{"Flatten", flatten},
    OnnxOp{"Expand", expand},
    OnnxOp{"Constant", constant},
    OnnxOp{"ConstantOfShape", constant_of_shape},
};

}  // namespace

std::span<const OnnxOp> shape_rows() {
  return kShapesRows;
}

}  // namespace rlx::onnx_import
