// SPDX-License-Identifier: Apache-2.0
// A parsed ONNX model walked into a graph.
#pragma once

#include <memory>
#include <string>

#include "compiler/import/onnx/onnx_reader.h"
#include "onnx.pb.h"

namespace rlx::onnx_import {

// Every symbol is bound by the options. With options.keep_symbols nodes that follow from shapes
// stay nodes of the graph, so that they follow from other shapes too.
OnnxResult import_model(const std::shared_ptr<const onnx::ModelProto>& model,
                        const std::string& file, const OnnxOptions& options,
                        Diagnostics& diagnostics);

}  // namespace rlx::onnx_import
