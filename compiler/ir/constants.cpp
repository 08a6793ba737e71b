// SPDX-License-Identifier: Apache-2.0
// Adding constants to a module.
#include "compiler/ir/constants.h"

namespace rlx {

std::string fresh_weight_name(Module& module, Graph& graph, const std::string& stem) {
  std::string name = graph.fresh_name(stem);
  while (module.weight_index.has_name(module.weights, name)) {
    name = graph.fresh_name(name + "." + graph.name);
  }
  return name;
}

ValueId add_constant(Module& module, Graph& graph, const std::string& stem, const Tensor& tensor) {
  const auto bytes = std::make_shared<const std::vector<std::byte>>(tensor.to_bytes());
  const WeightId id = module.add_weight({.name = fresh_weight_name(module, graph, stem),
                                         .type = tensor.type,
                                         .data = HostBytes{.owner = bytes, .bytes = *bytes},
                                         .is_constant = true});
  return graph.weight_value(id, module.weight(id));
}

}  // namespace rlx
