// SPDX-License-Identifier: Apache-2.0
// Graphs of the fuzzer with nodes left out.
#include <algorithm>
#include <set>

#include "tests/fuzz/fuzz_graph.h"
#include "tests/support/dim_json.h"

namespace rlx::test {
namespace {

GraphText types_of(const GraphText& text) {
  GraphText types = GraphText::object();
  Diagnostics diagnostics;
  const auto module = module_of(text, {}, ranges_of(text), diagnostics);
  if (!module) return types;
  const Graph& graph = module->entries[0];
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(static_cast<uint32_t>(i)));
    types[value.name] = {{"dtype", std::string(name_of(value.type.dtype))},
                         {"shape", value.type.shape}};
  }
  return types;
}

// Whether graph files can hold the sizes: they know neither min and max nor modulo.
bool is_written(const GraphText& shape) {
  return std::none_of(shape.begin(), shape.end(), [](const GraphText& size) {
    return size.is_string() && size.get<std::string>().find_first_of("%,") != std::string::npos;
  });
}

// Without the nodes and inputs that no output needs.
GraphText without_dead(const GraphText& text) {
  std::set<std::string> live;
  for (const auto& name : text["outputs"]) live.insert(name);
  GraphText nodes = GraphText::array();
  for (auto node = text["nodes"].rbegin(); node != text["nodes"].rend(); ++node) {
    bool read = false;
    for (const auto& name : (*node)["outputs"]) read = read || live.contains(name);
    if (!read) continue;
    for (const auto& name : (*node)["inputs"]) {
      if (!name.is_null()) live.insert(name);
    }
    nodes.insert(nodes.begin(), *node);
  }
  GraphText kept = text;
  kept["nodes"] = nodes;
  kept["inputs"] = GraphText::array();
  for (const auto& input : text["inputs"]) {
    if (live.contains(input["name"])) kept["inputs"].push_back(input);
  }
  return kept;
}

}  // namespace

bool is_needed(const GraphText& text, size_t node) {
  const GraphText types = types_of(text);
  const auto has_elements = [&](const GraphText& name) {
    const std::string key = name;
    if (!types.contains(key)) return true;
    const GraphText& shape = types[key]["shape"];
    return std::find(shape.begin(), shape.end(), GraphText(0)) == shape.end();
  };
  std::set<std::string> live;
  for (const auto& name : text["outputs"]) live.insert(name);
  for (size_t i = text["nodes"].size(); i-- > node;) {
    const GraphText& outputs = text["nodes"][i]["outputs"];
    const bool needed = std::any_of(outputs.begin(), outputs.end(), [&](const GraphText& name) {
      return live.contains(name) && has_elements(name);
    });
    if (i == node) return needed;
    for (const auto& name : text["nodes"][i]["inputs"]) {
      if (needed && !name.is_null()) live.insert(name);
    }
  }
  return true;
}

GraphText with_cut(const GraphText& text, size_t node) {
  const GraphText types = types_of(text);
  GraphText cut = text;
  for (const auto& name : text["nodes"][node]["outputs"]) {
    const std::string key = name;
    if (!types.contains(key) || !is_written(types[key]["shape"])) return text;
    cut["inputs"].push_back(
        {{"name", key}, {"dtype", types[key]["dtype"]}, {"shape", types[key]["shape"]}});
  }
  cut["nodes"].erase(node);
  return without_dead(cut);
}

GraphText shrink_graph(GraphText graph, const std::function<bool(const GraphText&)>& fails) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = 0; graph["outputs"].size() > 1 && i < graph["outputs"].size(); ++i) {
      GraphText candidate = graph;
      candidate["outputs"].erase(i);
      candidate = without_dead(candidate);
      if (!fails(candidate)) continue;
      graph = candidate;
      smaller = true;
      --i;
    }
    for (size_t i = 0; i < graph["nodes"].size(); ++i) {
      const GraphText candidate = with_cut(graph, i);
      if (candidate["nodes"].size() >= graph["nodes"].size() || !fails(candidate)) continue;
      graph = candidate;
      smaller = true;
      --i;
    }
  }
  return graph;
}

}  // namespace rlx::test
