// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/entries.h"

#include <algorithm>
#include <set>

#include "compiler/import/names.h"
#include "compiler/ir/merge_weights.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

bool check_names(std::span<const EntryRequest> requests, Diagnostics& diagnostics) {
  std::set<std::string_view> seen;
  for (const EntryRequest& request : requests) {
    if (seen.insert(request.name).second) continue;
    diagnostics.error(DiagCode::BadOption, {},
                      "two entries are asked for as " + in_quotes(request.name));
  }
  return !diagnostics.has_errors();
}

bool same_text(const Diagnostic& a, const Diagnostic& b) {
  return to_string(a) == to_string(b);
}

// What a later binding reports again was said.
void add_new(const Diagnostics& found, Diagnostics& diagnostics) {
  for (const Diagnostic& diagnostic : found.all()) {
    const bool known = std::ranges::any_of(
        diagnostics.all(),
        [&diagnostic](const Diagnostic& earlier) { return same_text(earlier, diagnostic); });
    if (!known) diagnostics.add(diagnostic);
  }
}

const Graph* find_source(const Module& module, const EntryRequest& request,
                         Diagnostics& diagnostics) {
  const std::string& wanted = request.source.empty() ? request.name : request.source;
  for (const Graph& graph : module.entries) {
    if (graph.name == wanted) return &graph;
  }
  const bool may_rename = request.source.empty() && !request.dims.empty();
  if (may_rename && module.entries.size() == 1) return &module.entries.front();
  std::vector<std::string_view> known;
  for (const Graph& graph : module.entries) known.push_back(graph.name);
  diagnostics.error(
      DiagCode::BadOption, {}, "the model has no entry " + in_quotes(wanted),
      "its entries are: " + list_names(known) +
          (may_rename ? "; name the one to bind, as " + request.name + "=ENTRY:DIM=N" : ""));
  return nullptr;
}

// States are memory that all entries share, so they look alike in all.
bool check_states(const Module& module, const Module& other, const std::string& entry,
                  Diagnostics& diagnostics) {
  RLX_CHECK(module.states.size() == other.states.size(), "states of one model bound twice");
  for (size_t i = 0; i < module.states.size(); ++i) {
    const State& ours = module.states[i];
    const State& theirs = other.states[i];
    if (ours.type == theirs.type) continue;
    diagnostics.error(DiagCode::BadBinding, {},
                      "state " + in_quotes(ours.name) + " is " + to_string(theirs.type) +
                          " in entry " + in_quotes(entry) + ", but " + to_string(ours.type) +
                          " in an entry before it",
                      "entries of one plan share their states: bind what their shapes depend on "
                      "alike, or compile two plans");
  }
  return !diagnostics.has_errors();
}

void drop_symbols_bound_differently(Module& module, const Module& other) {
  std::erase_if(module.symbols, [&other](const Symbol& symbol) {
    return std::ranges::none_of(other.symbols, [&symbol](const Symbol& theirs) {
      return theirs.name == symbol.name && theirs.bound == symbol.bound;
    });
  });
}

void renumber_weights(Graph& graph, const std::vector<WeightId>& ids) {
  for (size_t i = 0; i < graph.value_count(); ++i) {
    std::optional<WeightId>& weight = graph.value(ValueId{narrow<uint32_t>(i)}).weight;
    if (weight) weight = ids.at(index_of(*weight));
  }
}

// Builds the module from the model bound in one way after the other.
class EntryLoader {
 public:
  EntryLoader(const std::string& path, const ImportOptions& options, Diagnostics& diagnostics)
      : path_(path), options_(options), diagnostics_(diagnostics) {}

  // Adds the requests that bind alike; `places` are where their entries go.
  bool add(std::span<const EntryRequest> requests, const std::vector<size_t>& places) {
    ImportOptions options = options_;
    for (const auto& [name, value] : requests[places.front()].dims) options.dims[name] = value;
    Diagnostics found;
    std::optional<Module> loaded = load_module(path_, options, found);
    add_new(found, diagnostics_);
    if (!loaded) return false;
    std::vector<Graph> graphs;
    for (const size_t place : places) {
      const Graph* source = find_source(*loaded, requests[place], diagnostics_);
      if (source == nullptr) continue;
      graphs.push_back(*source);
      graphs.back().name = requests[place].name;
    }
    if (diagnostics_.has_errors()) return false;
    loaded->entries.clear();
    if (!join(std::move(*loaded), graphs)) return false;
    for (size_t i = 0; i < places.size(); ++i) {
      if (entries_.size() <= places[i]) entries_.resize(places[i] + 1);
      entries_[places[i]] = std::move(graphs[i]);
    }
    return true;
  }

  Module take() {
    module_->entries = std::move(entries_);
    return std::move(*module_);
  }

 private:
  // Makes `graphs` read the joint weights.
  bool join(Module loaded, std::vector<Graph>& graphs) {
    if (!module_) {
      module_ = std::move(loaded);
      return true;
    }
    if (!check_states(*module_, loaded, graphs.front().name, diagnostics_)) return false;
    drop_symbols_bound_differently(*module_, loaded);
    const std::vector<WeightId> ids = merge_weights(*module_, loaded, "@" + graphs.front().name);
    for (Graph& graph : graphs) renumber_weights(graph, ids);
    return true;
  }

  const std::string& path_;
  const ImportOptions& options_;
  Diagnostics& diagnostics_;
  std::optional<Module> module_;
  std::vector<Graph> entries_;
};

}  // namespace

std::optional<Module> load_entries(const std::string& path, const ImportOptions& options,
                                   std::span<const EntryRequest> requests,
                                   Diagnostics& diagnostics) {
  RLX_CHECK(!requests.empty(), "no entry is asked for");
  if (!check_names(requests, diagnostics)) return std::nullopt;
  EntryLoader loader(path, options, diagnostics);
  std::vector<bool> is_done(requests.size(), false);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (is_done[i]) continue;
    std::vector<size_t> alike;
    for (size_t j = i; j < requests.size(); ++j) {
      if (requests[j].dims != requests[i].dims) continue;
      is_done[j] = true;
      alike.push_back(j);
    }
    if (!loader.add(requests, alike)) return std::nullopt;
  }
  Module module = loader.take();
  const std::optional<std::string> fault = find_fault(module);
  RLX_CHECK(!fault, "entries of " + path + ": " + *fault);
  return module;
}

}  // namespace rlx
