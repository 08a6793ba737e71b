// SPDX-License-Identifier: Apache-2.0
// Leaving the translation of one ONNX node early.
#pragma once

#include <string>

#include "compiler/support/diagnostics.h"

namespace rlx::onnx_import {

// Why a node cannot be expressed. Thrown by what translates a node and caught where its nodes are
// walked, which names the node: it never leaves the importer.
struct Refusal {
  DiagCode code = DiagCode::UnsupportedOp;
  std::string message;
  std::string hint;
};

// The node reads a value whose own node was refused: nothing more to say.
struct SkippedNode {};

}  // namespace rlx::onnx_import
