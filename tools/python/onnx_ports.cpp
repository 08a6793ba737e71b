// SPDX-License-Identifier: Apache-2.0
#include "tools/python/onnx_ports.h"

#ifdef RLX_HAS_ONNX
#include <onnx.pb.h>

#include <algorithm>
#include <limits>
#endif

namespace rlx::python {

#ifdef RLX_HAS_ONNX
namespace {

OnnxPort port_of(const onnx::ValueInfoProto& info) {
  const onnx::TypeProto::Tensor& tensor = info.type().tensor_type();
  OnnxPort port{.name = info.name(), .element_type = tensor.elem_type()};
  for (const onnx::TensorShapeProto::Dimension& dim : tensor.shape().dim()) {
    if (dim.has_dim_value()) {
      port.dims.emplace_back(dim.dim_value());
    } else if (!dim.dim_param().empty()) {
      port.dims.emplace_back(dim.dim_param());
    } else {
      port.dims.emplace_back();
    }
  }
  return port;
}

OnnxMetadata metadata_of(const onnx::ModelProto& model) {
  OnnxMetadata metadata{.producer_name = model.producer_name(),
                        .graph_name = model.graph().name(),
                        .domain = model.domain(),
                        .description = model.doc_string(),
                        .graph_description = model.graph().doc_string(),
                        .version = model.model_version()};
  for (const onnx::StringStringEntryProto& entry : model.metadata_props())
    metadata.custom.emplace_back(entry.key(), entry.value());
  return metadata;
}

}  // namespace

std::optional<OnnxPorts> onnx_ports(std::span<const char> model) {
  onnx::ModelProto parsed;
  const bool fits = model.size() <= static_cast<size_t>(std::numeric_limits<int>::max());
  if (!fits || !parsed.ParseFromArray(model.data(), static_cast<int>(model.size())) ||
      !parsed.has_graph())
    return std::nullopt;
  OnnxPorts ports{.metadata = metadata_of(parsed)};
  const auto& fixed = parsed.graph().initializer();
  for (const onnx::ValueInfoProto& input : parsed.graph().input()) {
    const bool has_data = std::any_of(fixed.begin(), fixed.end(), [&](const auto& tensor) {
      return tensor.name() == input.name();
    });
    if (!has_data) ports.inputs.push_back(port_of(input));
  }
  for (const onnx::ValueInfoProto& output : parsed.graph().output())
    ports.outputs.push_back(port_of(output));
  return ports;
}
#else
std::optional<OnnxPorts> onnx_ports(std::span<const char>) {
  return std::nullopt;
}
#endif

}  // namespace rlx::python
