// SPDX-License-Identifier: Apache-2.0
// Reductions, softmax, running sums, order.
#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/import/onnx/op_table.h"
#include "compiler/import/onnx/padding.h"

namespace rlx::onnx_import {
namespace {

// What there is for floats alone: sums of sizes and squares are exact, roots and logarithms are
// those of f64, cut.
void reduce_integers(NodeReader& n, ValueId& x, std::string& op) {
  if (op == "reduce_l1" || op == "reduce_sum_square") {
    x = op == "reduce_l1" ? n.emit("abs", {x}) : n.emit("mul", {x, x});
    op = "reduce_sum";
  } else if (op == "reduce_l2" || op == "reduce_log_sum" || op == "reduce_log_sum_exp") {
    x = n.cast(x, DType::f64);
  }
}

// Axes became an input with opset 13 (ReduceSum) or 18 (all others). No axes at all mean every
// axis, unless noop_with_empty_axes says none.
void reduce(NodeReader& n, const OnnxOp& row) {
  const int64_t since = row.name == "ReduceSum" ? 13 : 18;
  Ints axes;
  if (n.opset() < since) {
    axes = n.integers("axes", {});
  } else if (n.has_input(1)) {
    axes = n.known_ints(1, "the axes");
  }
  const bool keeps_all = n.integer("noop_with_empty_axes", 0) != 0;
  Attributes attributes = {{"keep_dims", n.integer("keepdims", 1) != 0}};
  if (!axes.empty() || keeps_all) attributes.emplace("axes", axes);
  ValueId x = n.input(0);
  const DType dtype = n.dtype(0);
  std::string op(row.target);
  if (dtype == DType::bool_) {
    if (op != "reduce_max" && op != "reduce_min")
      n.refuse("x is of bool, wanted numbers", "cast it first");
    op = op == "reduce_max" ? "reduce_any" : "reduce_all";
  }
  if (is_integer(dtype)) reduce_integers(n, x, op);
  n.set_output(0, n.cast(n.emit(op, {x}, std::move(attributes)), dtype));
}

void arg_reduce(NodeReader& n, const OnnxOp& row) {
  n.set_output(0, n.emit(row.target, {n.input(0)},
                         {{"axis", n.integer("axis", 0)},
                          {"keep_dims", n.integer("keepdims", 1) != 0},
                          {"select_last", n.integer("select_last_index", 0) != 0},
                          {"index_dtype", std::string("i64")}}));
}

void cumulate(NodeReader& n, const OnnxOp& row) {
  n.set_output(0, n.emit(row.target, {n.input(0)},
                         {{"axis", n.known_int(1, "the axis")},
                          {"exclusive", n.integer("exclusive", 0) != 0},
                          {"reverse", n.integer("reverse", 0) != 0}}));
}

void top_k(NodeReader& n, const OnnxOp&) {
  const NodeReader::Sizes sizes =
      n.opset() < 10 ? NodeReader::Sizes{.most = {n.required_integer("k")}, .counts = {{}}}
                     : n.sizes(1, "k");
  if (sizes.most.size() != 1)
    n.refuse("k has " + std::to_string(sizes.most.size()) + " elements, wanted one");
  const int64_t k = sizes.most.front();
  const Attributes attributes = {{"k", k},
                                 {"axis", n.integer("axis", -1)},
                                 {"largest", n.integer("largest", 1) != 0},
                                 {"sorted", n.integer("sorted", 1) != 0},
                                 {"index_dtype", std::string("i64")}};
  const std::vector<ValueId> results = n.emit_all("topk", {n.input(0)}, attributes, 2);
  if (sizes.counts.front()) {
    const auto axis = static_cast<size_t>(n.axis(n.integer("axis", -1), n.rank(0)));
    for (const ValueId result : results) {
      const Padding* padding = n.builder().padding(result);
      if (padding != nullptr && padding->axis != axis)
        n.refuse("the run decides how many rows of two axes count");
      const ValueId count = padding == nullptr
                                ? *sizes.counts.front()
                                : smaller_count(n.builder(), padding->count, *sizes.counts.front());
      n.builder().set_padding(result, {.axis = axis, .count = count});
    }
  }
  n.set_output(0, results[0]);
  n.set_output(1, results[1]);
}

// A row-wise operator along one axis. Before opset 13 the axes from `axis` on were one.
template <typename Make>
void along_axis(NodeReader& n, Make make) {
  const int64_t rank = n.rank(0);
  const int64_t written = n.integer("axis", n.opset() < 13 ? 1 : -1);
  const int64_t axis = written == rank && n.opset() < 13 ? rank : n.axis(written, rank);
  if (n.opset() >= 13 || axis == rank - 1) {
    n.set_output(0, make(n.input(0), axis));
    return;
  }
  const Shape shape = n.shape(0);
  const int64_t rows = element_count(Shape(shape.begin(), shape.begin() + axis));
  const int64_t columns = element_count(Shape(shape.begin() + axis, shape.end()));
  const ValueId flat = n.reshape(n.input(0), {rows, columns});
  n.set_output(0, n.reshape(make(flat, 1), shape));
}

void softmax(NodeReader& n, const OnnxOp& row) {
  along_axis(n, [&](ValueId x, int64_t axis) { return n.emit(row.target, {x}, {{"axis", axis}}); });
}

// One at the first largest element, zero elsewhere.
void hardmax(NodeReader& n, const OnnxOp&) {
  along_axis(n, [&](ValueId x, int64_t axis) {
    const TensorType type = n.type(x);
    const ValueId index = n.emit("argmax", {x}, {{"axis", axis}});
    return n.emit("one_hot", {index},
                  {{"depth", type.shape[static_cast<size_t>(axis)]},
                   {"axis", axis},
                   {"dtype", std::string(name_of(type.dtype))}});
  });
}

constexpr std::array kReductionsRows = {
    OnnxOp{"ReduceL1", reduce, "reduce_l1"},
    OnnxOp{"ReduceL2", reduce, "reduce_l2"},
    OnnxOp{"ReduceLogSum", reduce, "reduce_log_sum"},
    OnnxOp{"ReduceLogSumExp", reduce, "reduce_log_sum_exp"},
    OnnxOp{"ReduceMax", reduce, "reduce_max"},
    OnnxOp{"ReduceMean", reduce, "reduce_mean"},
    OnnxOp{"ReduceMin", reduce, "reduce_min"},
    OnnxOp{"ReduceProd", reduce, "reduce_prod"},
    OnnxOp{"ReduceSum", reduce, "reduce_sum"},
    OnnxOp{"ReduceSumSquare", reduce, "reduce_sum_square"},
    OnnxOp{"ArgMax", arg_reduce, "argmax"},
    OnnxOp{"ArgMin", arg_reduce, "argmin"},
    OnnxOp{"CumSum", cumulate, "cumsum"},
    OnnxOp{"CumProd", cumulate, "cumprod"},
    OnnxOp{"TopK", top_k},
    OnnxOp{"Softmax", softmax, "softmax"},
    OnnxOp{"LogSoftmax", softmax, "log_softmax"},
    OnnxOp{"Hardmax", hardmax},
};

}  // namespace

std::span<const OnnxOp> reduction_rows() {
  return kReductionsRows;
}

}  // namespace rlx::onnx_import
