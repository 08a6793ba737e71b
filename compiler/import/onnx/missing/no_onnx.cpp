// SPDX-License-Identifier: Apache-2.0
// A build without protobuf and the ONNX schema.
#include "compiler/import/onnx/onnx_reader.h"

namespace rlx {
namespace {

void report(const std::string& file, Diagnostics& diagnostics) {
  diagnostics.error(DiagCode::FileFormat, {file, ""},
                    "this rlxc was built without ONNX, so it cannot read the file",
                    "install libonnx-dev, libprotobuf-dev and protobuf-compiler, and build again");
}

}  // namespace

bool can_read_onnx() {
  return false;
}

std::vector<OnnxOperator> onnx_operators() {
  return {};
}

OnnxResult read_onnx_graph(const GraphBytes&, const std::string& file, const OnnxOptions&,
                           Diagnostics& diagnostics) {
  report(file, diagnostics);
  return {};
}

std::optional<Tensor> read_onnx_tensor(const GraphBytes&, const std::string& file,
                                       Diagnostics& diagnostics) {
  report(file, diagnostics);
  return std::nullopt;
}

}  // namespace rlx
