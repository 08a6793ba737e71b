// SPDX-License-Identifier: Apache-2.0
// Checking one graph of the fuzzer, and making a failing one small.
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <stdexcept>

#include "compiler/import/import.h"
#include "compiler/passes/pass.h"
#include "tests/fuzz/fuzz_graph.h"
#include "tests/support/dim_json.h"
#include "tests/support/fill.h"
#include "tests/support/harness.h"

namespace rlx::test {
namespace {

struct Prepared {
  Module module;
  std::vector<Tensor> inputs;
  std::vector<KnownValue> wanted;  // of the outputs
};

std::optional<Module> module_of(const GraphText& text, Diagnostics& diagnostics) {
  const auto source = read_json_graph(text.dump(), "fuzz.json", diagnostics);
  if (!source) return std::nullopt;
  return bind_module(*source, {}, ".", diagnostics);
}

// nullopt where the graph is refused or says nothing (a shrunk graph may turn wild).
std::optional<Prepared> prepare(const GraphText& text, Diagnostics& diagnostics) {
  auto module = module_of(text, diagnostics);
  if (!module) return std::nullopt;
  Prepared prepared{.module = std::move(*module), .inputs = {}, .wanted = {}};
  const Graph& graph = prepared.module.entries[0];
  std::map<ValueId, KnownValue> known;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    KnownValue& entry = known[id];
    entry.plain = fill(tensor(value.type.dtype, value.type.shape), value.name);
    entry.stored = entry.plain;
    for (const double element : entry.plain.floats) {
      entry.scale = std::max(entry.scale, std::fabs(element));
    }
    prepared.inputs.push_back(entry.plain);
  }
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    std::vector<const KnownValue*> inputs;
    for (const auto& input : node.inputs) {
      inputs.push_back(input ? &known.at(*input) : nullptr);
      if (input && !known.at(*input).exact && !is_continuous(node.op)) return std::nullopt;
    }
    std::vector<TensorType> types;
    for (const ValueId output : node.outputs) types.push_back(graph.value(output).type);
    auto values = evaluate_step(node, inputs, types);
    if (!values) return std::nullopt;
    for (size_t i = 0; i < values->size(); ++i) {
      if (is_wild((*values)[i])) return std::nullopt;
      known[node.outputs[i]] = std::move((*values)[i]);
    }
  }
  for (const ValueId id : graph.outputs()) prepared.wanted.push_back(known.at(id));
  return prepared;
}

std::string compare(const Tensor& got, const KnownValue& wanted) {
  const double bound = wanted.bound();
  for (size_t i = 0; i < got.floats.size(); ++i) {
    const double error = std::fabs(got.floats[i] - wanted.plain.floats[i]);
    if (error <= bound || got.floats[i] == wanted.plain.floats[i]) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(got.floats[i]) + ", wanted " +
           std::to_string(wanted.plain.floats[i]) + " within " + std::to_string(bound);
  }
  for (size_t i = 0; i < got.integers.size(); ++i) {
    if (got.integers[i] == wanted.plain.integers[i]) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(got.integers[i]) + ", wanted " +
           std::to_string(wanted.plain.integers[i]);
  }
  return {};
}

std::string check_run(const Prepared& prepared, const std::vector<Tensor>& got,
                      const std::string& way) {
  for (size_t i = 0; i < got.size(); ++i) {
    const std::string fault = compare(got[i], prepared.wanted[i]);
    if (!fault.empty()) return way + ": output " + std::to_string(i) + ": " + fault;
  }
  return {};
}

bool equal_bytes(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].to_bytes() != b[i].to_bytes()) return false;
  }
  return true;
}

// Runs a plan on every device, with each of the bytes as what the arena held before, all of that
// `repeats` times.
std::string run_everywhere(const Prepared& prepared, const std::vector<std::byte>& bytes,
                           const std::string& way, std::span<const int> poisons, int repeats) {
  std::shared_ptr<const PlanView> plan;
  const Status opened =
      PlanView::open_memory(bytes, {.check_weights = true, .copy_memory = true}, plan);
  if (!opened.ok()) return way + ": the verifier refuses it: " + opened.message();
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    const std::string where = way + " on " + device->info().id;
    try {
      TestSession session(*device, plan);
      std::vector<Tensor> first;
      for (size_t run = 0; run < poisons.size() * static_cast<size_t>(repeats); ++run) {
        const auto poison = std::byte(poisons[run % poisons.size()]);
        const std::vector<Tensor> got = session.run(0, prepared.inputs, poison);
        const std::string fault = check_run(prepared, got, where);
        if (!fault.empty()) return fault;
        if (first.empty()) first = got;
        if (!equal_bytes(first, got)) {
          return where + ": other bits in run " + std::to_string(run) +
                 "; what the arena held before shows, or the order of the work";
        }
      }
    } catch (const std::runtime_error& error) {
      return where + ": " + error.what();
    }
  }
  return {};
}

std::vector<std::string> fusion_passes() {
  std::vector<std::string> names;
  for (const Pass& pass : all_passes()) {
    if (pass.level > 0) names.emplace_back(pass.name);
  }
  return names;
}

std::string check_prepared(const Prepared& prepared, uint64_t seed, int repeats) {
  const std::vector<std::string> passes = fusion_passes();
  CompileOptions without = test_options(2);
  without.disabled_passes = {passes[seed % passes.size()]};
  static constexpr int kOnePoison[] = {0xFF};
  static constexpr int kAllPoisons[] = {0x00, 0xFF, 0xA5};
  struct Way {
    std::string name;
    CompileOptions options;
    std::span<const int> poisons;
  };
  const Way ways[] = {{"-O0", test_options(0), kOnePoison},
                      {"without " + without.disabled_passes[0], without, kOnePoison},
                      {"-O2", test_options(2), kAllPoisons}};
  std::optional<std::vector<std::byte>> plan;
  for (const Way& way : ways) {
    Diagnostics diagnostics;
    plan = compile_to_bytes(prepared.module, way.options, diagnostics);
    if (!plan) return way.name + ": " + diagnostics.text();
    const std::string fault = run_everywhere(prepared, *plan, way.name, way.poisons, repeats);
    if (!fault.empty()) return fault;
  }
  Diagnostics diagnostics;
  const auto again = compile_to_bytes(prepared.module, test_options(2), diagnostics);
  if (again != plan) return "a second compilation gives other bytes";
  return {};
}

// ---- shrinking ----

GraphText types_of(const GraphText& text) {
  GraphText types = GraphText::object();
  Diagnostics diagnostics;
  const auto module = module_of(text, diagnostics);
  if (!module) return types;
  const Graph& graph = module->entries[0];
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(static_cast<uint32_t>(i)));
    types[value.name] = {{"dtype", std::string(name_of(value.type.dtype))},
                         {"shape", value.type.shape}};
  }
  return types;
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

// With one node less: its outputs become inputs.
GraphText with_cut(const GraphText& text, size_t node) {
  const GraphText types = types_of(text);
  GraphText cut = text;
  for (const auto& name : text["nodes"][node]["outputs"]) {
    const std::string key = name;
    if (!types.contains(key)) return text;
    cut["inputs"].push_back(
        {{"name", key}, {"dtype", types[key]["dtype"]}, {"shape", types[key]["shape"]}});
  }
  cut["nodes"].erase(node);
  return without_dead(cut);
}

}  // namespace

std::string check_graph(const GraphText& graph, uint64_t seed, int repeats, bool* says_nothing) {
  Diagnostics diagnostics;
  const auto prepared = prepare(graph, diagnostics);
  if (says_nothing != nullptr) *says_nothing = !prepared && !diagnostics.has_errors();
  if (!prepared) return diagnostics.has_errors() ? "refused: " + diagnostics.text() : "";
  try {
    return check_prepared(*prepared, seed, repeats);
  } catch (const std::exception& error) {
    return std::string("internal error: ") + error.what();
  }
}

GraphText shrink_graph(GraphText graph, uint64_t seed, int repeats) {
  const auto fails = [seed, repeats](const GraphText& candidate) {
    return !candidate["nodes"].empty() && !check_graph(candidate, seed, repeats).empty();
  };
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
