// SPDX-License-Identifier: Apache-2.0
// Importers of com.microsoft's fused and quantised operators, as rows of microsoft.cpp name them.
#pragma once

#include "compiler/import/onnx/node_reader.h"
#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {

void quantized_binary(NodeReader& n, const OnnxOp& row);
void quantized_unary(NodeReader& n, const OnnxOp& row);
void quantized_softmax(NodeReader& n, const OnnxOp& row);
void quantized_concat(NodeReader& n, const OnnxOp& row);
void quantized_average_pool(NodeReader& n, const OnnxOp& row);
void quantized_conv(NodeReader& n, const OnnxOp& row);
void nhwc_max_pool(NodeReader& n, const OnnxOp& row);
void quantized_mean(NodeReader& n, const OnnxOp& row);
void quantized_where(NodeReader& n, const OnnxOp& row);
void quantized_gemm(NodeReader& n, const OnnxOp& row);
void dynamic_quantized_matmul(NodeReader& n, const OnnxOp& row);
void matmul_integer_to_float(NodeReader& n, const OnnxOp& row);
void fused_conv(NodeReader& n, const OnnxOp& row);
void nhwc_conv(NodeReader& n, const OnnxOp& row);
void fused_gemm(NodeReader& n, const OnnxOp& row);
void channels_last_group_norm(NodeReader& n, const OnnxOp& row);
void bias_split_gelu(NodeReader& n, const OnnxOp& row);
void bias_add(NodeReader& n, const OnnxOp& row);
void gather_blocks(NodeReader& n, const OnnxOp& row);

}  // namespace rlx::onnx_import
