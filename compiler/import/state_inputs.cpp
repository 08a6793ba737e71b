// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/state_inputs.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "compiler/import/names.h"

namespace rlx {
namespace {

// Names of an entry's values.
std::set<std::string_view> names_of(const SourceEntry& entry) {
  std::set<std::string_view> names;
  for (const SourceTensor& input : entry.inputs) names.insert(input.name);
  for (const SourceNode& node : entry.nodes) names.insert(node.outputs.begin(), node.outputs.end());
  return names;
}

class StateMaker {
 public:
  StateMaker(SourceGraph& graph, const std::string& input, const std::string& output,
             Diagnostics& diagnostics)
      : graph_(graph), input_(input), output_(output), diagnostics_(diagnostics) {}

  bool make() {
    std::optional<SourceTensor> state;
    std::set<std::string_view> known;
    for (SourceEntry& entry : graph_.entries) {
      const auto found = std::ranges::find(entry.inputs, input_, &SourceTensor::name);
      for (const SourceTensor& input : entry.inputs) known.insert(input.name);
      if (found == entry.inputs.end()) continue;
      if (state && (state->dtype != found->dtype || state->shape != found->shape))
        return fail("names input " + in_quotes(input_) +
                    ", which two entries declare with different types");
      state = *found;
      entry.inputs.erase(found);
      if (!write(entry)) return false;
    }
    if (state) {
      graph_.states.push_back(std::move(*state));
      return true;
    }
    const std::vector<std::string_view> inputs(known.begin(), known.end());
    return fail("names " + in_quotes(input_) + ", which is no input of the graph",
                inputs.empty() ? "the graph has none" : "its inputs are " + list_names(inputs));
  }

 private:
  bool write(SourceEntry& entry) {
    const auto output = std::ranges::find(entry.outputs, output_);
    if (output == entry.outputs.end()) {
      const std::vector<std::string_view> known(entry.outputs.begin(), entry.outputs.end());
      return fail(
          "names " + in_quotes(output_) + ", which is no output of entry " + in_quotes(entry.name),
          "its outputs are " + list_names(known));
    }
    entry.outputs.erase(output);
    const std::set<std::string_view> taken = names_of(entry);
    std::string name = output_ + ".kept";
    while (taken.contains(name)) name += "_";
    entry.nodes.push_back({.place = entry.place,
                           .name = name,
                           .op = "state_write",
                           .inputs = {input_, output_},
                           .outputs = {name}});
    return true;
  }

  bool fail(const std::string& what, std::string hint = {}) {
    diagnostics_.error(DiagCode::BadBinding, {graph_.file, ""}, "--state " + what, std::move(hint));
    return false;
  }

  SourceGraph& graph_;
  const std::string& input_;
  const std::string& output_;
  Diagnostics& diagnostics_;
};

}  // namespace

bool make_states(SourceGraph& graph, const StateInputs& inputs, Diagnostics& diagnostics) {
  for (const auto& [input, output] : inputs) {
    if (!StateMaker(graph, input, output, diagnostics).make()) return false;
  }
  return true;
}

}  // namespace rlx
