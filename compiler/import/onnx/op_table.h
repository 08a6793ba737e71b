// SPDX-License-Identifier: Apache-2.0
// The operators of ONNX that are expressed, by area, and why others are not.
#pragma once

#include <span>
#include <string_view>

#include "compiler/import/onnx/node_reader.h"
#include "compiler/import/onnx/onnx_reader.h"

namespace rlx::onnx_import {

std::span<const OnnxOp> elementwise_rows();
std::span<const OnnxOp> shape_rows();
std::span<const OnnxOp> movement_rows();
std::span<const OnnxOp> selection_rows();
std::span<const OnnxOp> sequence_rows();
std::span<const OnnxOp> reduction_rows();
std::span<const OnnxOp> product_rows();
std::span<const OnnxOp> norm_rows();
std::span<const OnnxOp> vision_rows();
std::span<const OnnxOp> quantize_rows();
std::span<const OnnxOp> generator_rows();
std::span<const OnnxOp> loss_rows();
std::span<const OnnxOp> recurrent_rows();
std::span<const OnnxOp> spectral_rows();
std::span<const OnnxOp> attention_rows();
std::span<const OnnxOp> rotary_rows();
std::span<const OnnxOp> state_space_rows();
// Of the domain com.microsoft.
std::span<const OnnxOp> microsoft_rows();
std::span<const OnnxOp> microsoft_attention_rows();

// The row of an operator; nullptr where it is not expressed. "" is the default domain.
const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name);

// All of them and If, sorted by domain and name, those of the default one with the opsets of
// opsets.def.
std::vector<OnnxOperator> onnx_ops();

// Why an operator is not expressed and what would help.
struct OnnxGap {
  std::string_view why;
  std::string_view help;
};
OnnxGap gap_of(std::string_view domain, std::string_view name);

}  // namespace rlx::onnx_import
