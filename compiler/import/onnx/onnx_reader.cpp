// SPDX-License-Identifier: Apache-2.0
// ONNX models in.
#include "compiler/import/onnx/onnx_reader.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>

#include "compiler/import/check_source.h"
#include "compiler/import/names.h"
#include "compiler/import/onnx/model_importer.h"
#include "compiler/import/onnx/op_table.h"
#include "compiler/import/onnx/open_symbols.h"
#include "compiler/import/onnx/proto_tensor.h"
#include "compiler/import/onnx/refusal.h"

namespace rlx {
namespace {

constexpr int kMaxDepth = 100;  // of nested messages

// Parses one message of protobuf; nothing is reserved beyond what the bytes hold.
template <typename Message>
bool parse(const GraphBytes& bytes, const std::string& file, std::string_view what,
           Message& message, Diagnostics& diagnostics) {
  if (bytes.bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max())) {
    diagnostics.error(DiagCode::Limit, {file, ""},
                      "the file has " + std::to_string(bytes.bytes.size()) +
                          " bytes; protobuf reads at most 2^31 - 1",
                      "keep its weights in a file of their own (external data)");
    return false;
  }
  const int size = static_cast<int>(bytes.bytes.size());
  google::protobuf::io::ArrayInputStream stream(bytes.bytes.data(), size);
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetRecursionLimit(kMaxDepth);
  if (message.MergePartialFromCodedStream(&coded) && coded.ConsumedEntireMessage() &&
      message.IsInitialized()) {
    return true;
  }
  diagnostics.error(DiagCode::Syntax, {file, "byte " + std::to_string(coded.CurrentPosition())},
                    "the file is no " + std::string(what) +
                        " of ONNX: it is damaged, cut off, or nested deeper than " +
                        std::to_string(kMaxDepth));
  return false;
}

}  // namespace

bool can_read_onnx() {
  return true;
}

std::vector<OnnxOperator> onnx_operators() {
  return onnx_import::onnx_ops();
}

OnnxResult read_onnx_graph(const GraphBytes& bytes, const std::string& file,
                           const OnnxOptions& options, Diagnostics& diagnostics) {
  const auto model = std::make_shared<onnx::ModelProto>();
  OnnxResult result;
  if (!parse(bytes, file, "model", *model, diagnostics)) return result;
  const size_t errors_before = diagnostics.error_count();
  result = options.keep_symbols ? onnx_import::import_open_model(model, file, options, diagnostics)
                                : onnx_import::import_model(model, file, options, diagnostics);
  if (diagnostics.error_count() > errors_before || !result.graph ||
      !check_source(*result.graph, diagnostics)) {
    result.graph.reset();
  }
  return result;
}

std::optional<Tensor> read_onnx_tensor(const GraphBytes& bytes, const std::string& file,
                                       Diagnostics& diagnostics) {
  const auto proto = std::make_shared<onnx::TensorProto>();
  if (!parse(bytes, file, "tensor", *proto, diagnostics)) return std::nullopt;
  if (proto->data_type() == onnx::TensorProto::UINT16)
    proto->set_data_type(onnx::TensorProto::BFLOAT16);
  try {
    onnx_import::TensorDecoder decoder(".");
    const auto decoded = decoder.decode(*proto, proto, "the tensor");
    return Tensor::from_bytes(decoded.type, decoded.data.bytes);
  } catch (const onnx_import::Refusal& refusal) {
    diagnostics.error(refusal.code, {file, ""}, refusal.message, refusal.hint);
    return std::nullopt;
  }
}

}  // namespace rlx
