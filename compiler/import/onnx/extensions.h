// SPDX-License-Identifier: Apache-2.0
// Nodes of custom domains that registered extensions compute.
#pragma once

#include <string>
#include <string_view>

#include "compiler/import/onnx/node_reader.h"

namespace rlx::onnx_import {

// The extension's op that an operator of a domain is: "acme.box" of domain "acme",
// "acme_vision.box" of domain "acme.vision". Empty: none is registered.
std::string extension_of(std::string_view domain, std::string_view name);

// The node as that op: inputs and outputs in its order, attributes by its names.
void translate_extension(NodeReader& node, const std::string& op);

}  // namespace rlx::onnx_import
