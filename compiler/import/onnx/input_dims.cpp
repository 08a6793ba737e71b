// SPDX-License-Identifier: Apache-2.0
// Which dims have a size, and the names of those that have none.
#include "compiler/import/onnx/input_dims.h"

namespace rlx::onnx_import {

bool is_open_dim(const onnx::TensorShapeProto::Dimension& dim) {
  return !dim.has_dim_value() || dim.dim_value() == -1;
}

std::string symbol_of_dim(const std::string& input, const onnx::TensorShapeProto::Dimension& dim,
                          int axis) {
  return dim.dim_param().empty() ? input + "." + std::to_string(axis) : dim.dim_param();
}

}  // namespace rlx::onnx_import
