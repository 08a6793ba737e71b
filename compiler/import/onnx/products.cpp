// SPDX-License-Identifier: Apache-2.0
// Matrix products.
#include <array>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {

void einsum(NodeReader& n, const OnnxOp& row);  // einsum.cpp

namespace {

void matmul(NodeReader& n, const OnnxOp&) {
  n.set_output(0, n.emit("matmul", {n.input(0), n.input(1)}));
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
  ValueId y =
      n.emit("matmul", {n.input(0), n.input(1)}, {{"trans_a", trans_a}, {"trans_b", trans_b}});
  y = scaled(n, y, alpha);
  if (has_bias) y = n.emit("add", {y, scaled(n, n.input(2), beta)});
  n.set_output(0, y);
}

constexpr std::array kProductsRows = {
    OnnxOp{"MatMul", matmul},
    OnnxOp{"Gemm", gemm},
    OnnxOp{"Einsum", einsum},
};

}  // namespace

std::span<const OnnxOp> product_rows() {
  return kProductsRows;
}

}  // namespace rlx::onnx_import
