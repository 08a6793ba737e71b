// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/entries.h"

#include <algorithm>
#include <iterator>
#include <numeric>
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

// Every combination of the symbols' ranges, the one with all maxima first.
std::vector<FreeDims> combinations(const RangedDims& ranged) {
  std::vector<FreeDims> all = {{}};
  for (const auto& [name, ranges] : ranged) {
    std::vector<FreeDims> longer;
    for (const FreeDims& before : all) {
      for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
        longer.push_back(before);
        longer.back().emplace(name, *range);
      }
    }
    all = std::move(longer);
  }
  return all;
}

// More are a mistake: each is a program of its own.
constexpr size_t kMaxCombinations = 64;

bool check_combinations(const RangedDims& ranged, Diagnostics& diagnostics) {
  size_t count = 1;
  for (const auto& [name, ranges] : ranged) {
    count *= ranges.size();
    if (count <= kMaxCombinations) continue;
    diagnostics.error(DiagCode::BadOption, {},
                      "--dim gives more than " + std::to_string(kMaxCombinations) +
                          " combinations of ranges, each of which is a program of its own",
                      "use fewer ranges");
    return false;
  }
  return true;
}

// The symbol of the module is for the values of both.
void widen(Symbol& symbol, const Symbol& other) {
  symbol.minimum = std::min(symbol.minimum, other.minimum);
  symbol.maximum = symbol.bound = std::max(symbol.maximum, other.maximum);
  symbol.multiple_of = std::gcd(symbol.multiple_of, other.multiple_of);
}

void renumber_weights(Graph& graph, const std::vector<WeightId>& ids) {
  for (size_t i = 0; i < graph.value_count(); ++i) {
    std::optional<WeightId>& weight = graph.value(ValueId{narrow<uint32_t>(i)}).weight;
    if (weight) weight = ids.at(index_of(*weight));
  }
  for (const NodeId id : graph.order()) {
    if (graph.node(id).bodies.empty()) continue;
    graph.change_node(id, [&ids](Node& node) {
      for (std::shared_ptr<const Graph>& body : node.bodies) {
        const auto renumbered = std::make_shared<Graph>(*body);
        renumber_weights(*renumbered, ids);
        body = renumbered;
      }
    });
  }
}

// An entry for one combination of the ranges.
struct Wanted {
  const EntryRequest* request;
  const FreeDims* ranges;
};

bool load_alike(const Wanted& a, const Wanted& b) {
  return a.ranges == b.ranges && a.request->dims == b.request->dims;
}

// Builds the module from the model bound in one way after the other.
class EntryLoader {
 public:
  EntryLoader(const std::string& path, const ImportOptions& options, Diagnostics& diagnostics)
      : path_(path), options_(options), diagnostics_(diagnostics) {}

  std::optional<Module> load(const EntryRequest& request, const FreeDims& ranges) {
    ImportOptions options = options_;
    for (const auto& [name, value] : request.dims) options.dims[name] = value;
    for (const auto& [name, range] : ranges) options.free_dims[name] = range;
    Diagnostics found;
    std::optional<Module> loaded = load_module(path_, options, found);
    add_new(found, diagnostics_);
    if (loaded && !check_last_ranges(*loaded)) return std::nullopt;
    return loaded;
  }

  // Adds what loads alike: `places` of `all` are where its entries go.
  bool add(std::span<const Wanted> all, const std::vector<size_t>& places) {
    const Wanted& first = all[places.front()];
    std::optional<Module> loaded = load(*first.request, *first.ranges);
    if (!loaded) return false;
    std::vector<Graph> graphs;
    for (const size_t place : places) {
      const Graph* source = find_source(*loaded, *all[place].request, diagnostics_);
      if (source == nullptr) continue;
      graphs.push_back(*source);
      graphs.back().name = all[place].request->name;
      graphs.back().ranges = ranges_of(*loaded);
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
  // The combination with all maxima comes first; its dims say where the symbols are.
  bool check_last_ranges(const Module& loaded) {
    if (module_) return true;
    for (const Symbol& symbol : loaded.symbols) {
      if (!options_.ranged_dims.contains(symbol.name) || symbol.is_free) continue;
      diagnostics_.error(DiagCode::BadBinding, {},
                         "the last range of symbol " + in_quotes(symbol.name) + " has one value, " +
                             std::to_string(symbol.bound),
                         "let the last range have several, or make an entry for this value with "
                         "--entry NAME:" +
                             symbol.name + "=" + std::to_string(symbol.bound));
    }
    return !diagnostics_.has_errors();
  }

  [[nodiscard]] std::vector<GraphRange> ranges_of(const Module& loaded) const {
    std::vector<GraphRange> ranges;
    for (size_t i = 0; i < loaded.symbols.size(); ++i) {
      const Symbol& symbol = loaded.symbols[i];
      if (!options_.ranged_dims.contains(symbol.name)) continue;
      ranges.push_back({.symbol = narrow<uint32_t>(i),
                        .minimum = symbol.minimum,
                        .maximum = symbol.maximum,
                        .multiple_of = symbol.multiple_of});
    }
    return ranges;
  }

  // Makes `graphs` read the joint weights.
  bool join(Module loaded, std::vector<Graph>& graphs) {
    if (!module_) {
      module_ = std::move(loaded);
      return true;
    }
    if (!check_states(*module_, loaded, graphs.front().name, diagnostics_)) return false;
    join_symbols(loaded);
    // Graphs of one name come in several ranges.
    std::string suffix = "@" + graphs.front().name;
    if (!graphs.front().ranges.empty()) suffix += "." + std::to_string(++joined_);
    const std::vector<WeightId> ids = merge_weights(*module_, loaded, suffix);
    for (Graph& graph : graphs) renumber_weights(graph, ids);
    std::ranges::move(loaded.files, std::back_inserter(module_->files));
    return true;
  }

  void join_symbols(const Module& loaded) {
    RLX_CHECK(module_->symbols.size() == loaded.symbols.size(), "symbols of one model");
    for (size_t i = 0; i < loaded.symbols.size(); ++i) {
      Symbol& ours = module_->symbols[i];
      const Symbol& theirs = loaded.symbols[i];
      RLX_CHECK(ours.name == theirs.name, "symbols of one model");
      if (options_.ranged_dims.contains(ours.name)) {
        widen(ours, theirs);
      } else {
        ours.differs = ours.differs || ours.bound != theirs.bound;
      }
    }
  }

  const std::string& path_;
  const ImportOptions& options_;
  Diagnostics& diagnostics_;
  std::optional<Module> module_;
  std::vector<Graph> entries_;
  size_t joined_ = 0;
};

// Requests for every entry of the model.
std::optional<std::vector<EntryRequest>> all_entries(EntryLoader& loader, const FreeDims& ranges) {
  const std::optional<Module> module = loader.load({}, ranges);
  if (!module) return std::nullopt;
  std::vector<EntryRequest> requests;
  for (const Graph& graph : module->entries)
    requests.push_back({.name = graph.name, .source = "", .dims = {}});
  return requests;
}

}  // namespace

std::optional<Module> load_entries(const std::string& path, const ImportOptions& options,
                                   std::span<const EntryRequest> requests,
                                   Diagnostics& diagnostics) {
  if (requests.empty() && options.ranged_dims.empty())
    return load_module(path, options, diagnostics);
  if (!check_names(requests, diagnostics)) return std::nullopt;
  if (!check_combinations(options.ranged_dims, diagnostics)) return std::nullopt;
  const std::vector<FreeDims> ranges = combinations(options.ranged_dims);
  EntryLoader loader(path, options, diagnostics);
  std::vector<EntryRequest> every;
  if (requests.empty()) {
    auto found = all_entries(loader, ranges.front());
    if (!found) return std::nullopt;
    every = std::move(*found);
    requests = every;
  }
  std::vector<Wanted> wanted;
  for (const EntryRequest& request : requests) {
    for (const FreeDims& combination : ranges) wanted.push_back({&request, &combination});
  }
  std::vector<bool> is_done(wanted.size(), false);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (is_done[i]) continue;
    std::vector<size_t> alike;
    for (size_t j = i; j < wanted.size(); ++j) {
      if (!load_alike(wanted[i], wanted[j])) continue;
      is_done[j] = true;
      alike.push_back(j);
    }
    if (!loader.add(wanted, alike)) return std::nullopt;
  }
  Module module = loader.take();
  const std::optional<std::string> fault = find_fault(module);
  RLX_CHECK(!fault, "entries of " + path + ": " + *fault);
  return module;
}

}  // namespace rlx
