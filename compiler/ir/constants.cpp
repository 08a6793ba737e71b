// SPDX-License-Identifier: Apache-2.0
// Adding constants to a module.
#include "compiler/ir/constants.h"

namespace rlx {

std::string fresh_weight_name(Module& module, Graph& graph, const std::string& stem) {
  std::string name = graph.fresh_name(stem);
  while (module.weight_index.has_name(module.weights, name)) {
    name.append(".").append(graph.name);
    name = graph.fresh_name(name);
  }
  return name;
}

ValueId add_constant(Module& module, Graph& graph, const std::string& stem, const TensorType& type,
                     HostBytes bytes) {
  const WeightId id = module.add_weight({.name = fresh_weight_name(module, graph, stem),
                                         .type = type,
                                         .data = std::move(bytes),
                                         .is_constant = true});
  return graph.weight_value(id, module.weight(id));
}

ValueId add_constant(Module& module, Graph& graph, const std::string& stem, const Tensor& tensor) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(tensor.to_bytes());
  return add_constant(module, graph, stem, tensor.type, {.owner = bytes, .bytes = *bytes});
}

}  // namespace rlx
