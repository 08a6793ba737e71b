// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/keep.h"

#include <set>
#include <string_view>

#include "compiler/import/names.h"

namespace rlx {
namespace {

bool report_unknown(const Module& module, const std::set<std::string_view>& unknown,
                    Diagnostics& diagnostics) {
  std::vector<std::string_view> known;
  for (const Graph& graph : module.entries) {
    for (const NodeId id : graph.order()) {
      for (const ValueId value : graph.node(id).outputs) known.push_back(graph.value(value).name);
    }
  }
  for (const std::string_view name : unknown) {
    diagnostics.error(DiagCode::BadOption, {},
                      "--keep: no node of the model gives a value " + in_quotes(name),
                      nearest_hint(name, known));
  }
  return unknown.empty();
}

}  // namespace

bool keep_values(Module& module, const KeptValues& kept, Diagnostics& diagnostics) {
  const std::set<std::string_view> wanted(kept.names.begin(), kept.names.end());
  std::set<std::string_view> unknown = wanted;
  for (Graph& graph : module.entries) {
    for (const NodeId node : graph.order()) {
      for (const ValueId id : graph.node(node).outputs) {
        const std::string& name = graph.value(id).name;
        if (!kept.all && !wanted.contains(name)) continue;
        unknown.erase(name);
        if (!graph.is_output(id)) graph.add_output(id);
      }
    }
  }
  return report_unknown(module, unknown, diagnostics);
}

}  // namespace rlx
