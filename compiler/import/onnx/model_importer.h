// SPDX-License-Identifier: Apache-2.0
// A parsed ONNX model walked into a graph.
#pragma once

#include <memory>
#include <string>

#include "compiler/import/onnx/onnx_reader.h"
#include "onnx.pb.h"

namespace rlx::onnx_import {

OnnxResult import_model(const std::shared_ptr<const onnx::ModelProto>& model,
                        const std::string& file, const OnnxOptions& options,
                        Diagnostics& diagnostics);

}  // namespace rlx::onnx_import
