// SPDX-License-Identifier: Apache-2.0
// One entry of a graph file: names resolved, nodes in order, types inferred.
#pragma once

#include <string_view>
#include <unordered_map>

#include "compiler/import/symbols.h"

namespace rlx {

// A param, constant or state as entries see it. Neither id: it could not be read, which was
// reported.
struct Leaf {
  std::string_view role;  // "param", "constant", "state"
  std::optional<WeightId> weight;
  std::optional<StateId> state;
};
using Leaves = std::unordered_map<std::string_view, Leaf>;

// What every entry of a module shares. `module` already holds the weights and states; packed forms
// add weights.
struct EntryContext {
  Module& module;
  const Leaves& leaves;
  SymbolTable& symbols;
  bool auto_promote = false;
  Diagnostics& diagnostics;
};

// Builds the graph of an entry; faults become diagnostics, and what depends on a faulty node is
// skipped in silence.
Graph bind_entry(const SourceEntry& source, EntryContext context);

}  // namespace rlx
