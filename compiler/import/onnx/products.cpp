// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#include <array>
#include <numeric>
#include <utility>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {

void einsum(NodeReader& n, const OnnxOp& row);       // einsum.cpp
void determinant(NodeReader& n, const OnnxOp& row);  // elimination.cpp

namespace {

ValueId turned(NodeReader& n, ValueId x) {
  Ints perm(n.type(x).shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return n.transpose(x, perm);
}

bool is_product_of_integers(NodeReader& n) {
  return n.dtype(0) == n.dtype(1) && (n.dtype(0) == DType::i32 || n.dtype(0) == DType::i64);
}

// A sum over products of elements, which are no value in memory: the sum's step computes them.
ValueId product_of_integers(NodeReader& n, ValueId a, ValueId b) {
  const bool is_line = n.type(a).shape.size() == 1;
  const bool is_column = n.type(b).shape.size() == 1;
  Shape rows = n.type(a).shape;
  Shape columns = n.type(b).shape;
  if (rows.empty() || columns.empty()) n.refuse_shapes("an operand is a scalar");
  if (is_line) rows.insert(rows.begin(), 1);
  if (is_column) columns.push_back(1);
  if (rows.back() != columns[columns.size() - 2])
    n.refuse_shapes("operands are " + to_string(n.shape(0)) + " and " + to_string(n.shape(1)) +
                    ", whose inner sizes differ");
  rows.push_back(1);
  columns.insert(columns.end() - 2, 1);
  const ValueId products = n.emit("mul", {n.reshape(a, rows), n.reshape(b, columns)});
  const auto depth_axis = static_cast<int64_t>(n.type(products).shape.size()) - 2;
  const ValueId sum =
      n.emit("reduce_sum", {products}, {{"axes", Ints{depth_axis}}, {"keep_dims", false}});
  Shape shape = n.type(sum).shape;
  if (is_column) shape.pop_back();
  if (is_line) shape.erase(is_column ? shape.end() - 1 : shape.end() - 2);
  return n.reshape(sum, shape);
}

void matmul(NodeReader& n, const OnnxOp&) {
  n.set_output(0, is_product_of_integers(n) ? product_of_integers(n, n.input(0), n.input(1))
                                            : n.emit("matmul", {n.input(0), n.input(1)}));
}

ValueId scaled(NodeReader& n, ValueId x, double factor) {
  if (factor == 1) return x;
  if (is_float(n.type(x).dtype)) return n.emit("affine", {x}, {{"mul", factor}});
  return n.emit("mul", {x, n.scalar(n.type(x).dtype, factor)});
}

// alpha * A * B + beta * C; one fused node where nothing is scaled.
void gemm(NodeReader& n, const OnnxOp&) {
  const double alpha = n.real("alpha", 1);
  const double beta = n.real("beta", 1);
  const bool trans_a = n.integer("transA", 0) != 0;
  const bool trans_b = n.integer("transB", 0) != 0;
  n.integer("broadcast", 0);  // opset 6: what opset 7 always does
  if (n.rank(0) != 2 || n.rank(1) != 2)
    n.refuse_shapes("A and B are " + to_string(n.shape(0)) + " and " + to_string(n.shape(1)) +
                    ", wanted matrices");
  const bool has_bias = n.has_input(2) && beta != 0;
  if (!trans_a && alpha == 1 && has_bias && is_float(n.dtype(0))) {
    n.set_output(
        0, n.emit("fused_matmul_bias_act", {n.input(0), n.input(1), scaled(n, n.input(2), beta)},
                  {{"trans_w", trans_b}}));
    return;
  }
  ValueId y = is_product_of_integers(n)
                  ? product_of_integers(n, trans_a ? turned(n, n.input(0)) : n.input(0),
                                        trans_b ? turned(n, n.input(1)) : n.input(1))
                  : n.emit("matmul", {n.input(0), n.input(1)},
                           {{"trans_a", trans_a}, {"trans_b", trans_b}});
  y = scaled(n, y, alpha);
  if (has_bias) y = n.emit("add", {y, scaled(n, n.input(2), beta)});
  n.set_output(0, y);
}

constexpr std::array kProductsRows = {
    OnnxOp{"MatMul", matmul},
    OnnxOp{"Gemm", gemm},
    OnnxOp{"Det", determinant},
    OnnxOp{"Einsum", einsum},
};

}  // namespace

std::span<const OnnxOp> product_rows() {
  return kProductsRows;
}

}  // namespace rlx::onnx_import
