// SPDX-License-Identifier: Apache-2.0
// ONNX models whose symbolic dims stay symbols of the graph.
#pragma once

#include "compiler/import/onnx/model_importer.h"

namespace rlx::onnx_import {

// Imports a model and keeps the symbols that options.dims does not bind. Translations compute with
// numbers, so the model is imported for many bindings: the graphs must agree in all but integer
// attributes, and each integer that differs must follow from the symbols by an expression
// (fit_dims.h) that holds at every binding tried. A symbol's range in the graph is the one that was
// tried; a binding outside it is refused. What follows by no expression is refused with the node,
// the attribute and the symbols.
OnnxResult import_open_model(const std::shared_ptr<const onnx::ModelProto>& model,
                             const std::string& file, const OnnxOptions& options,
                             Diagnostics& diagnostics);

}  // namespace rlx::onnx_import
