// SPDX-License-Identifier: Apache-2.0
// Rows that do not count: which operators keep them apart.
#include "compiler/import/onnx/padding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "compiler/import/names.h"
#include "compiler/import/onnx/refusal.h"
#include "compiler/ops/op_def.h"

namespace rlx::onnx_import {
namespace {

using Words = std::set<std::string_view>;

[[noreturn]] void refuse(std::string_view op, const std::string& why) {
  throw Refusal{.code = DiagCode::UnsupportedOp,
                .message = "as op " + in_quotes(std::string(op)) + " of rlx: " + why,
                .hint = "move it behind the model, to the host, where the count is known"};
}

int64_t attribute_or(const Attributes& attributes, const char* name, int64_t absent) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return absent;
  if (const auto* flag = std::get_if<bool>(&found->second)) return *flag ? 1 : 0;
  const auto* value = std::get_if<int64_t>(&found->second);
  return value == nullptr ? absent : *value;
}

std::optional<Ints> list_of(const Attributes& attributes, const char* name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return std::nullopt;
  const auto* values = std::get_if<Ints>(&found->second);
  return values == nullptr ? std::nullopt : std::optional(*values);
}

size_t normal(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

size_t axis_of(const Attributes& attributes, int64_t absent, size_t rank) {
  return normal(attribute_or(attributes, "axis", absent), rank);
}

const Padding* padding_at(const Builder& builder, const Inputs& inputs, size_t i) {
  return i < inputs.size() && inputs[i] ? builder.padding(*inputs[i]) : nullptr;
}

ValueId with_count(Builder& builder, std::string_view op, ValueId count, int64_t number) {
  return builder.emit(op, {count, count_scalar(builder, number)});
}

// ---- results that keep the axis ----

// One padding of several inputs, each with its axis in the result.
class Agreed {
 public:
  Agreed(Builder& builder, std::string_view op) : builder_(builder), op_(op) {}
  void add(const Padding& padding, size_t axis) {
    if (!found_) {
      found_ = Padding{.axis = axis, .count = padding.count};
    } else if (found_->axis != axis) {
      refuse(op_, "the run decides how many rows of two axes count");
    } else if (!builder_.is_same(found_->count, padding.count)) {
      refuse(op_, "the run decides how many rows count, apart for two of its inputs");
    }
  }
  [[nodiscard]] std::optional<Padding> result() const { return found_; }

 private:
  Builder& builder_;
  std::string_view op_;
  std::optional<Padding> found_;
};

std::optional<Padding> of_elements(Builder& builder, const Node& node) {
  Agreed agreed(builder, node.op);
  const size_t rank = builder.type(node.outputs.front()).shape.size();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Padding* padding = padding_at(builder, node.inputs, i);
    if (padding == nullptr) continue;
    agreed.add(*padding, padding->axis + rank - builder.type(*node.inputs[i]).shape.size());
  }
  return agreed.result();
}

// Of the first input alone, on this axis of the result.
std::optional<Padding> of_first(Builder& builder, const Node& node, size_t axis) {
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (padding_at(builder, node.inputs, i) != nullptr)
      refuse(node.op, "the run decides how many rows of input " + std::to_string(i) + " count");
  }
  const Padding* padding = padding_at(builder, node.inputs, 0);
  return Padding{.axis = axis, .count = padding->count};
}

int64_t product(const Shape& shape, size_t begin, size_t end) {
  return element_count(Shape(shape.begin() + static_cast<ptrdiff_t>(begin),
                             shape.begin() + static_cast<ptrdiff_t>(end)));
}

// The rows of the axis stay rows of one axis, or become several each, or several of them one.
std::optional<Padding> of_reshape(Builder& builder, const Node& node) {
  const Padding padding = *padding_at(builder, node.inputs, 0);
  const Shape& from = builder.type(*node.inputs[0]).shape;
  const Shape& to = builder.type(node.outputs[0]).shape;
  const int64_t before = product(from, 0, padding.axis);
  const int64_t rows = from[padding.axis];
  size_t axis = 0;
  int64_t outer = 1;
  while (axis < to.size() && (outer < before || (outer == before && to[axis] == 1 && rows != 1)))
    outer *= static_cast<int64_t>(to[axis++]);
  if (outer == before && axis < to.size()) {
    const int64_t length = to[axis];
    if (length == rows) return Padding{.axis = axis, .count = padding.count};
    if (rows > 0 && length % rows == 0)
      return Padding{.axis = axis,
                     .count = with_count(builder, "mul", padding.count, length / rows)};
    if (length > 0 && rows % length == 0)
      return Padding{.axis = axis,
                     .count = with_count(builder, "div", padding.count, rows / length)};
  }
  refuse(node.op, "axis " + std::to_string(padding.axis) + " of " + to_string(from) +
                      ", of whose rows the run decides how many count, is no axis of " +
                      to_string(to));
}

std::optional<Padding> of_transpose(Builder& builder, const Node& node) {
  const Padding padding = *padding_at(builder, node.inputs, 0);
  const size_t rank = builder.type(*node.inputs[0]).shape.size();
  Ints perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  perm = list_of(node.attributes, "perm").value_or(perm);
  for (size_t i = 0; i < rank; ++i) {
    if (normal(perm[i], rank) == padding.axis) return Padding{.axis = i, .count = padding.count};
  }
  return std::nullopt;
}

// Which axis the padded one becomes where `dropped` axes are gone.
size_t without(size_t axis, const Ints& dropped, size_t rank) {
  size_t left = axis;
  for (const int64_t drop : dropped) {
    if (normal(drop, rank) < axis) --left;
  }
  return left;
}

std::optional<Padding> of_reduction(Builder& builder, const Node& node, const Ints& axes,
                                    bool keeps_dims) {
  const Padding padding = *padding_at(builder, node.inputs, 0);
  const size_t rank = builder.type(*node.inputs[0]).shape.size();
  const size_t axis = keeps_dims ? padding.axis : without(padding.axis, axes, rank);
  return Padding{.axis = axis, .count = padding.count};
}

// Rows `start` up to `end` of the padded axis, every `step`-th.
ValueId cut_count(Builder& builder, std::string_view op, const Padding& padding, int64_t start,
                  int64_t end, int64_t step, int64_t rows) {
  if (start < 0 || end < 0 || step < 1)
    refuse(op, "it counts from the end of rows of which the run decides how many count");
  ValueId count = padding.count;
  if (end < rows) count = smaller_count(builder, count, count_scalar(builder, end));
  if (start > 0) {
    count = with_count(builder, "sub", count, start);
    count = with_count(builder, "max", count, 0);
  }
  if (step > 1)
    count = with_count(builder, "div", with_count(builder, "add", count, step - 1), step);
  return count;
}

std::optional<Padding> of_slice(Builder& builder, const Node& node) {
  const Padding padding = *padding_at(builder, node.inputs, 0);
  const Shape& shape = builder.type(*node.inputs[0]).shape;
  const int64_t rows = shape[padding.axis];
  if (node.op == "narrow") {
    if (axis_of(node.attributes, 0, shape.size()) != padding.axis) return padding;
    if (node.inputs.size() > 1) refuse(node.op, "the run decides how many of the rows count");
    const int64_t start = attribute_or(node.attributes, "start", 0);
    const int64_t length = attribute_or(node.attributes, "len", 0);
    return Padding{.axis = padding.axis,
                   .count = cut_count(builder, node.op, padding, start, start + length, 1, rows)};
  }
  const Ints starts = list_of(node.attributes, "starts").value_or(Ints());
  const Ints ends = list_of(node.attributes, "ends").value_or(Ints());
  const std::optional<Ints> axes = list_of(node.attributes, "axes");
  const std::optional<Ints> steps = list_of(node.attributes, "steps");
  for (size_t i = 0; i < starts.size() && i < ends.size(); ++i) {
    if ((axes ? normal((*axes)[i], shape.size()) : i) != padding.axis) continue;
    const int64_t step = steps ? static_cast<int64_t>((*steps)[i]) : 1;
    return Padding{.axis = padding.axis,
                   .count = cut_count(builder, node.op, padding, starts[i], ends[i], step, rows)};
  }
  return padding;
}

bool counts_from_end(const Tensor* index) {
  return index != nullptr && std::any_of(index->integers.begin(), index->integers.end(),
                                         [](int64_t i) { return i < 0; });
}

// Rows that are named by their numbers count; numbers that do not count name any.
std::optional<Padding> of_gather(Builder& builder, const Node& node) {
  const Shape& x = builder.type(*node.inputs[0]).shape;
  const size_t index_rank = builder.type(*node.inputs[1]).shape.size();
  Agreed agreed(builder, node.op);
  if (node.op == "gather_nd") {
    const size_t width = builder.type(*node.inputs[1]).shape.back();
    const auto batch = static_cast<size_t>(attribute_or(node.attributes, "batch_dims", 0));
    if (const Padding* padding = padding_at(builder, node.inputs, 0)) {
      if (padding->axis >= batch + width)
        agreed.add(*padding, padding->axis - batch - width + index_rank - 1);
      if (padding->axis < batch) agreed.add(*padding, padding->axis);
    }
    if (const Padding* padding = padding_at(builder, node.inputs, 1)) {
      if (padding->axis + 1 == index_rank)
        refuse(node.op, "the run decides how many coordinates of a place count");
      agreed.add(*padding, padding->axis);
    }
    return agreed.result();
  }
  const size_t axis = axis_of(node.attributes, 0, x.size());
  if (const Padding* padding = padding_at(builder, node.inputs, 0)) {
    if (padding->axis == axis) {
      if (counts_from_end(builder.known(*node.inputs[1])))
        refuse(node.op, "it counts from the end of rows of which the run decides how many count");
    } else if (node.op == "gather_elements" || padding->axis < axis) {
      agreed.add(*padding, padding->axis);
    } else {
      agreed.add(*padding, padding->axis - 1 + index_rank);
    }
  }
  if (const Padding* padding = padding_at(builder, node.inputs, 1))
    agreed.add(*padding, node.op == "gather_elements" ? padding->axis : axis + padding->axis);
  return agreed.result();
}

// Lines of the products: of either operand those that are not multiplied with each other.
std::optional<Padding> of_product(Builder& builder, const Node& node) {
  Agreed agreed(builder, node.op);
  const size_t rank = builder.type(node.outputs[0]).shape.size();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Padding* padding = padding_at(builder, node.inputs, i);
    if (padding == nullptr) continue;
    const size_t own = builder.type(*node.inputs[i]).shape.size();
    if (i < 2 && own < 2) refuse(node.op, "the run decides how many factors of a sum count");
    const bool turned = attribute_or(node.attributes, i == 0 ? "trans_a" : "trans_b", 0) != 0 ||
                        (i == 1 && attribute_or(node.attributes, "trans_w", 0) != 0);
    size_t axis = padding->axis;
    if (i < 2 && turned && axis + 2 >= own) axis = axis + 1 == own ? own - 2 : own - 1;
    agreed.add(*padding, axis + rank - own);
  }
  return agreed.result();
}

// Cells of boxes: the boxes are rows.
std::optional<Padding> of_boxes(Builder& builder, const Node& node) {
  Agreed agreed(builder, node.op);
  for (const size_t i : {1, 2}) {
    if (const Padding* padding = padding_at(builder, node.inputs, i)) agreed.add(*padding, 0);
  }
  return agreed.result();
}

const Words kElements = {"identity", "stop_gradient", "cast",      "bitcast", "where",
                         "clamp",    "prelu",         "fma",       "affine",  "masked_fill",
                         "expand",   "quantize",      "dequantize"};
// The images of a batch do not see each other.
const Words kOfImages = {
    "conv",           "conv_transpose", "pool",          "global_pool",  "adaptive_pool",
    "batch_norm",     "group_norm",     "instance_norm", "layer_norm2d", "lrn",
    "resize",         "resample",       "grid_sample",   "im2col",       "depth_to_space",
    "space_to_depth", "deform_conv"};
const Words kOfRows = {"softmax", "log_softmax", "topk",  "sort",   "argsort",
                       "cumsum",  "cumprod",     "split", "l2_norm"};
const Words kNorms = {"layer_norm", "rms_norm"};
const Words kGathers = {"gather", "gather_elements", "gather_nd"};
const Words kProducts = {"matmul", "fused_matmul_bias_act"};

Ints reduced_axes(const Attributes& attributes, size_t rank) {
  Ints all(rank);
  std::iota(all.begin(), all.end(), 0);
  return list_of(attributes, "axes").value_or(all);
}

bool is_reduction(std::string_view op) {
  return op.starts_with("reduce_") || op == "variance";
}

}  // namespace

ValueId count_scalar(Builder& builder, int64_t value) {
  Tensor tensor = Tensor::zeros({DType::i64, {}});
  tensor.integers[0] = value;
  return builder.add_constant("", tensor);
}

ValueId smaller_count(Builder& builder, ValueId a, ValueId b) {
  return builder.is_same(a, b) ? a : builder.emit("min", {a, b});
}

ValueId bare_rows(Builder& builder, ValueId x) {
  if (builder.padding(x) == nullptr) return x;
  const ValueId bare = builder.emit("identity", {x});
  builder.forget_padding(bare);
  return bare;
}

ValueId filled_rows(Builder& builder, ValueId x, double fill) {
  const Padding* found = builder.padding(x);
  if (found == nullptr) return x;
  const Padding padding = *found;
  const TensorType type = builder.type(x);
  Shape along(type.shape.size(), 1);
  along[padding.axis] = type.shape[padding.axis];
  const ValueId numbers = builder.emit("ramp", {count_scalar(builder, 0), count_scalar(builder, 1)},
                                       {{"count", static_cast<int64_t>(type.shape[padding.axis])}});
  const ValueId rows =
      builder.emit("reshape", {numbers}, {{"shape", Ints(along.begin(), along.end())}});
  const ValueId counts = builder.emit("lt", {rows, padding.count});
  Tensor rest = Tensor::zeros({type.dtype, {}});
  if (rest.is_float()) rest.floats[0] = fill;
  if (!rest.is_float()) rest.integers[0] = static_cast<int64_t>(fill);
  const ValueId filled = builder.emit("where", {counts, x, builder.add_constant("", rest)});
  builder.forget_padding(filled);
  return filled;
}

double extreme_of(DType dtype, Extreme extreme) {
  const bool is_least = extreme == Extreme::Least;
  if (is_float(dtype))
    return is_least ? -std::numeric_limits<double>::infinity()
                    : std::numeric_limits<double>::infinity();
  if (dtype == DType::bool_) return is_least ? 0 : 1;
  const auto bits = static_cast<int>(8 * element_bytes(dtype));
  const bool is_unsigned = dtype == DType::u8 || dtype == DType::u32;
  if (is_least) return is_unsigned ? 0 : -std::ldexp(1.0, bits - 1);
  // The largest i64 that a double has.
  if (bits == 64) return 9223372036854774784.0;
  return std::ldexp(1.0, is_unsigned ? bits : bits - 1) - 1;
}

namespace {

// What changes no result of the reduction; nullopt: nothing does.
std::optional<double> neutral_of(std::string_view op, DType dtype) {
  if (op == "reduce_max" || op == "argmax") return extreme_of(dtype, Extreme::Least);
  if (op == "reduce_min" || op == "argmin") return extreme_of(dtype, Extreme::Largest);
  if (op == "reduce_prod" || op == "reduce_all") return 1;
  if (op == "reduce_log_sum_exp" || op == "softmax" || op == "log_softmax")
    return extreme_of(dtype, Extreme::Least);
  const Words zeros = {"reduce_sum",     "reduce_l1",  "reduce_l2", "reduce_sum_square",
                       "reduce_log_sum", "reduce_any", "cumsum"};
  return zeros.contains(op) ? std::optional(0.0) : std::nullopt;
}

// Sums divided by how many elements counted; 0 where none does, which the standard leaves open:
// what onnxruntime gives, and what PyTorch's EmbeddingBag means where a bag is empty.
std::vector<ValueId> emit_mean(Builder& builder, const Inputs& inputs, const Attributes& attributes,
                               const Ints& axes) {
  const Padding padding = *builder.padding(*inputs[0]);
  const TensorType type = builder.type(*inputs[0]);
  int64_t others = 1;
  for (const int64_t axis : axes) {
    const size_t at = normal(axis, type.shape.size());
    if (at != padding.axis) others *= static_cast<int64_t>(type.shape[at]);
  }
  const ValueId sum = builder.emit("reduce_sum", {filled_rows(builder, *inputs[0], 0)}, attributes);
  const ValueId counted = with_count(builder, "mul", padding.count, others);
  const ValueId number = with_count(builder, "max", counted, 1);
  const ValueId divisor =
      builder.emit("cast", {number}, {{"to", std::string(name_of(type.dtype))}});
  return {builder.emit("div", {sum, divisor})};
}

// Rows of several inputs behind each other, where those of the earlier ones end before they do.
ValueId joined(Builder& builder, ValueId first, ValueId second, size_t axis) {
  const auto rows_of = [&](ValueId x) { return static_cast<int64_t>(builder.type(x).shape[axis]); };
  const auto count_of = [&](ValueId x) {
    const Padding* padding = builder.padding(x);
    return padding != nullptr && padding->axis == axis ? padding->count
                                                       : count_scalar(builder, rows_of(x));
  };
  for (const ValueId x : {first, second}) {
    const Padding* padding = builder.padding(x);
    if (padding != nullptr && padding->axis != axis)
      refuse("concat", "the run decides how many rows of two axes count");
  }
  const ValueId count = count_of(first);
  const ValueId all = builder.emit("add", {count, count_of(second)});
  const int64_t before = rows_of(first);
  const int64_t rows = before + rows_of(second);
  const bool is_whole = builder.padding(first) == nullptr;
  ValueId result = builder.emit("concat", {bare_rows(builder, first), bare_rows(builder, second)},
                                {{"axis", static_cast<int64_t>(axis)}});
  if (!is_whole) {
    const ValueId numbers = builder.emit(
        "ramp", {count_scalar(builder, 0), count_scalar(builder, 1)}, {{"count", rows}});
    const ValueId is_first = builder.emit("lt", {numbers, count});
    const ValueId gap = builder.emit("sub", {count_scalar(builder, before), count});
    const ValueId later = with_count(builder, "min", builder.emit("add", {numbers, gap}), rows - 1);
    const ValueId places = builder.emit("where", {is_first, numbers, later});
    result = builder.emit("gather", {result, places}, {{"axis", static_cast<int64_t>(axis)}});
  }
  builder.set_padding(result, {.axis = axis, .count = all});
  return result;
}

std::vector<ValueId> emit_concat(Builder& builder, const Inputs& inputs, size_t axis) {
  ValueId result = *inputs.front();
  for (size_t i = 1; i < inputs.size(); ++i) result = joined(builder, result, *inputs[i], axis);
  return {result};
}

// Rows in order: those that do not count stand last.
std::vector<ValueId> emit_sorted(Builder& builder, std::string_view op, const Inputs& inputs,
                                 const Attributes& attributes, size_t output_count) {
  const Padding padding = *builder.padding(*inputs[0]);
  const DType dtype = builder.type(*inputs[0]).dtype;
  const bool is_topk = op == "topk";
  const bool descends = is_topk ? attribute_or(attributes, "largest", 1) != 0
                                : attribute_or(attributes, "descending", 0) != 0;
  // NaN is the greatest.
  const double last = descends          ? extreme_of(dtype, Extreme::Least)
                      : is_float(dtype) ? std::numeric_limits<double>::quiet_NaN()
                                        : extreme_of(dtype, Extreme::Largest);
  const std::vector<ValueId> results =
      builder.emit_all(op, {filled_rows(builder, *inputs[0], last)}, attributes, output_count);
  ValueId count = padding.count;
  if (is_topk)
    count = smaller_count(builder, count, count_scalar(builder, attribute_or(attributes, "k", 0)));
  for (const ValueId result : results)
    builder.set_padding(result, {.axis = padding.axis, .count = count});
  return results;
}

// Sums over the padded axis: rows that do not count are zeros on both sides.
std::optional<std::vector<ValueId>> emit_product(Builder& builder, std::string_view op,
                                                 Inputs inputs, const Attributes& attributes) {
  bool is_summed = false;
  for (const size_t i : {0, 1}) {
    const Padding* padding = padding_at(builder, inputs, i);
    if (padding == nullptr) continue;
    const size_t rank = builder.type(*inputs[i]).shape.size();
    const bool turned = attribute_or(attributes, i == 0 ? "trans_a" : "trans_b", 0) != 0 ||
                        (i == 1 && attribute_or(attributes, "trans_w", 0) != 0);
    const size_t summed = rank < 2 ? 0 : ((i == 0) == turned ? rank - 2 : rank - 1);
    if (padding->axis != summed) continue;
    inputs[i] = filled_rows(builder, *inputs[i], 0);
    is_summed = true;
  }
  if (!is_summed) return std::nullopt;
  return builder.emit_all(op, inputs, attributes, 1);
}

std::vector<ValueId> emit_suppression(Builder& builder, const Inputs& inputs, Attributes attributes,
                                      size_t output_count) {
  const Padding* boxes = builder.padding(*inputs[0]);
  const Padding* scores = builder.padding(*inputs[1]);
  const Padding* found = boxes != nullptr ? boxes : scores;
  if ((boxes != nullptr && boxes->axis != 1) || (scores != nullptr && scores->axis != 2) ||
      (boxes != nullptr && scores != nullptr && !builder.is_same(boxes->count, scores->count)))
    refuse("non_max_suppression", "the run decides how many images or classes there are");
  // Boxes that do not count have a score that none passes.
  const ValueId own = builder.emit("identity", {*inputs[1]});
  builder.set_padding(own, {.axis = 2, .count = found->count});
  const DType dtype = builder.type(own).dtype;
  const ValueId filled = filled_rows(builder, own, extreme_of(dtype, Extreme::Least));
  attributes.emplace("score_threshold", -1.0e38);
  return builder.emit_all("non_max_suppression", {bare_rows(builder, *inputs[0]), filled},
                          attributes, output_count);
}

}  // namespace

std::optional<std::vector<ValueId>> emit_on_filled_rows(Builder& builder, std::string_view op,
                                                        const Inputs& inputs,
                                                        const Attributes& attributes,
                                                        size_t output_count) {
  if (kProducts.contains(op)) return emit_product(builder, op, inputs, attributes);
  if (op == "non_max_suppression")
    return emit_suppression(builder, inputs, attributes, output_count);
  if (op == "concat") {
    const size_t axis = axis_of(attributes, 0, builder.type(*inputs.front()).shape.size());
    const bool is_along = std::any_of(inputs.begin(), inputs.end(), [&](const auto& input) {
      const Padding* padding = builder.padding(*input);
      return padding != nullptr && padding->axis == axis;
    });
    if (is_along) return emit_concat(builder, inputs, axis);
    return std::nullopt;
  }
  const Padding* padding = padding_at(builder, inputs, 0);
  if (op == "compress" && padding_at(builder, inputs, 1) != nullptr) {
    return builder.emit_all(op,
                            {bare_rows(builder, *inputs[0]), filled_rows(builder, *inputs[1], 0)},
                            attributes, output_count);
  }
  if (padding == nullptr) return std::nullopt;
  const TensorType type = builder.type(*inputs[0]);
  const size_t rank = type.shape.size();
  if (op == "nonzero")
    return builder.emit_all(op, {filled_rows(builder, *inputs[0], 0)}, attributes, output_count);
  const bool is_ordering = op == "topk" || op == "sort" || op == "argsort";
  if (is_ordering && axis_of(attributes, -1, rank) == padding->axis)
    return emit_sorted(builder, op, inputs, attributes, output_count);
  if (is_reduction(op)) {
    const Ints axes = reduced_axes(attributes, rank);
    const bool is_reduced = std::any_of(axes.begin(), axes.end(), [&](int64_t axis) {
      return normal(axis, rank) == padding->axis;
    });
    if (!is_reduced) return std::nullopt;
    if (op == "reduce_mean" && is_float(type.dtype))
      return emit_mean(builder, inputs, attributes, axes);
  } else if (op == "argmax" || op == "argmin") {
    if (attributes.contains("axis") && axis_of(attributes, 0, rank) != padding->axis)
      return std::nullopt;
  } else if (op == "softmax" || op == "log_softmax" || op == "cumsum") {
    if (axis_of(attributes, -1, rank) != padding->axis) return std::nullopt;
    const Padding kept = *padding;
    const ValueId result = builder.emit(
        op, {filled_rows(builder, *inputs[0], neutral_of(op, type.dtype).value_or(0))}, attributes);
    builder.set_padding(result, kept);
    return std::vector<ValueId>{result};
  } else {
    return std::nullopt;
  }
  const std::optional<double> neutral = neutral_of(op, type.dtype);
  if (!neutral) refuse(op, "the run decides how many of the elements that it reads count");
  return builder.emit_all(op, {filled_rows(builder, *inputs[0], *neutral)}, attributes,
                          output_count);
}

std::optional<Padding> padding_of_results(Builder& builder, const Node& node) {
  const OpDef* op = find_op(node.op);
  if ((op != nullptr && op->scalar != nullptr) || kElements.contains(node.op))
    return of_elements(builder, node);
  if (kGathers.contains(node.op)) return of_gather(builder, node);
  if (kProducts.contains(node.op)) return of_product(builder, node);
  if (node.op == "roi_align") return of_boxes(builder, node);
  if (node.op == "concat") return of_elements(builder, node);
  const Padding* padding = padding_at(builder, node.inputs, 0);
  if (padding == nullptr)
    refuse(node.op, "the run decides how many rows of an input count, and it cannot tell");
  const size_t rank = builder.type(*node.inputs[0]).shape.size();
  const std::string all = "the run decides how many of the elements that it reads count";
  if (node.op == "reshape" || node.op == "squeeze" || node.op == "unsqueeze" ||
      node.op == "flatten")
    return of_reshape(builder, node);
  if (node.op == "transpose") return of_transpose(builder, node);
  if (node.op == "narrow" || node.op == "slice") return of_slice(builder, node);
  if (kOfImages.contains(node.op)) {
    if (padding->axis != 0) refuse(node.op, all);
    return of_first(builder, node, 0);
  }
  if (kOfRows.contains(node.op)) {
    if (axis_of(node.attributes, -1, rank) == padding->axis) refuse(node.op, all);
    return of_first(builder, node, padding->axis);
  }
  if (kNorms.contains(node.op)) {
    if (padding->axis >= axis_of(node.attributes, -1, rank)) refuse(node.op, all);
    return of_first(builder, node, padding->axis);
  }
  if (is_reduction(node.op))
    return of_reduction(builder, node, reduced_axes(node.attributes, rank),
                        attribute_or(node.attributes, "keep_dims", 0) != 0);
  if (node.op == "argmax" || node.op == "argmin")
    return of_reduction(builder, node, {attribute_or(node.attributes, "axis", 0)},
                        attribute_or(node.attributes, "keep_dims", 0) != 0);
  if (node.op == "tile" || node.op == "pad") {
    const bool is_tile = node.op == "tile";
    const Ints by = list_of(node.attributes, is_tile ? "repeats" : "pads").value_or(Ints());
    const bool is_kept = builder.type(node.outputs[0]).shape[padding->axis] ==
                             builder.type(*node.inputs[0]).shape[padding->axis] &&
                         (is_tile || attribute_or(node.attributes, "axes", -1) == -1);
    if (!is_kept) refuse(node.op, all);
    return of_first(builder, node, padding->axis);
  }
  if (node.op == "one_hot") {
    const size_t axis = axis_of(node.attributes, -1, rank + 1);
    return of_first(builder, node, padding->axis < axis ? padding->axis : padding->axis + 1);
  }
  refuse(node.op, all);
}

}  // namespace rlx::onnx_import
