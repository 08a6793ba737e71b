// SPDX-License-Identifier: Apache-2.0
// Dims of a model's inputs.
#pragma once

#include <string>

#include "onnx.pb.h"

namespace rlx::onnx_import {

// True where a dim of an input has no size: a symbol, nothing, or the -1 of older exporters.
bool is_open_dim(const onnx::TensorShapeProto::Dimension& dim);

// The name of a symbolic dim of an input: the model's own, or "input.axis".
std::string symbol_of_dim(const std::string& input, const onnx::TensorShapeProto::Dimension& dim,
                          int axis);

}  // namespace rlx::onnx_import
