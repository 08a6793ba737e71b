// SPDX-License-Identifier: Apache-2.0
// Adding constants to a module.
#include "compiler/ir/constants.h"

#include <algorithm>

namespace rlx {

std::string fresh_weight_name(const Module& module, const Graph& graph, const std::string& stem) {
  std::string name = graph.fresh_name(stem);
  const auto is_name = [&name](const Weight& weight) { return weight.name == name; };
  while (std::any_of(module.weights.begin(), module.weights.end(), is_name)) {
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
