// SPDX-License-Identifier: Apache-2.0
// Checking one graph with symbols: a plan for all of their values, at many of them.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/passes/pass.h"
#include "runtime/api/session.h"
#include "tests/fuzz/fuzz_graph.h"
#include "tests/support/harness.h"

namespace rlx::test {
namespace {

constexpr size_t kBindings = 8;

int64_t value_at(const SymbolRange& range, int64_t step) {
  const int64_t last = (range.maximum - range.minimum) / range.multiple_of;
  return range.minimum + std::clamp<int64_t>(step, 0, last) * range.multiple_of;
}

// The largest of the range that is no multiple of a number from 2 to 7 but itself, odd or prime.
int64_t unhandy_value(const SymbolRange& range) {
  for (int64_t value = range.maximum; value > range.minimum; value -= range.multiple_of) {
    const int64_t own = value / range.multiple_of;
    if (std::gcd(own, 2 * 3 * 5 * 7) == 1 || own == 3 || own == 5 || own == 7) return value;
  }
  return range.minimum;
}

// The bound, the minimum, the bound again, edges of the range, values that nothing divides, others,
// and the bound at the end: up and down, and back to what was bound before.
std::vector<DimBindings> walk(const FreeDims& ranges, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<DimBindings> walk(kBindings);
  for (const auto& [name, range] : ranges) {
    const int64_t last = (range.maximum - range.minimum) / range.multiple_of;
    for (DimBindings& binding : walk)
      binding[name] = value_at(range, static_cast<int64_t>(random() % (last + 1)));
    walk[0][name] = range.maximum;
    walk[1][name] = range.minimum;
    walk[2][name] = unhandy_value(range);
    walk[3][name] = random() % 2 == 0 ? value_at(range, last - 1) : value_at(range, 1);
    walk[kBindings - 2] = walk[1];
    walk[kBindings - 1] = walk[0];
  }
  return walk;
}

std::string text_of(const DimBindings& binding) {
  std::string text;
  for (const auto& [name, value] : binding) text += " " + name + "=" + std::to_string(value);
  return text;
}

CompileOptions options_of(uint64_t seed) {
  CompileOptions options = test_options(seed % 4 == 1 ? 0 : 2);
  std::vector<std::string> names;
  for (const Pass& pass : all_passes()) {
    if (pass.level > 0) names.emplace_back(pass.name);
  }
  if (seed % 4 == 2) options.disabled_passes = {names[seed / 4 % names.size()]};
  return options;
}

void require(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

void set_inputs(Session& session, const Prepared& prepared) {
  const fb::Entry& record = session.record(0);
  for (uint32_t i = 0; i < prepared.inputs.size(); ++i) {
    const fb::Value& value = PlanView::value(record, record.inputs()->Get(i));
    std::vector<uint64_t> dims;
    for (const Dim& size : prepared.inputs[i].type.shape) dims.push_back(uint64_t{size});
    const std::vector<std::byte> bytes = prepared.inputs[i].to_bytes();
    require(session.set_input(0, PlanView::text(value.name()),
                              {.bytes = bytes, .dtype = value.dtype(), .dims = dims}));
  }
}

std::vector<Tensor> read_outputs(Session& session) {
  Session::BoundEntry bound;
  require(session.bound_entry(0, bound));
  std::vector<Tensor> outputs;
  for (const uint32_t number : *bound.record->outputs()) {
    const fb::Value& value = PlanView::value(*bound.record, number);
    TensorType type{dtype_from_number(value.dtype()).value(), {}};
    for (const uint64_t size : *value.dims()) type.shape.push_back(size);
    std::vector<std::byte> bytes(value.size_bytes());
    require(session.read_output(0, PlanView::text(value.name()), bytes));
    outputs.push_back(Tensor::from_bytes(type, bytes));
  }
  return outputs;
}

// Outputs by the entry's order, where a value is listed once; `wanted` has one for each listing.
std::string check_types(const Prepared& prepared, const std::vector<Tensor>& got) {
  for (size_t i = 0; i < got.size(); ++i) {
    const TensorType& wanted = prepared.wanted[i].plain.type;
    if (got[i].type == wanted) continue;
    return "output " + std::to_string(i) + " is " + to_string(got[i].type) + ", wanted " +
           to_string(wanted);
  }
  return {};
}

void set_symbols(Session& session, const DimBindings& binding) {
  for (const auto& [name, value] : binding)
    require(session.set_symbol(0, name, static_cast<uint64_t>(value)));
}

// Of a binding, the symbols that no shape of an input gives.
DimBindings unsaid_by_inputs(DimBindings binding, const GraphText& graph) {
  for (const auto& input : graph["inputs"]) {
    for (const auto& size : input["shape"]) {
      if (size.is_string()) binding.erase(size.get<std::string>());
    }
  }
  return binding;
}

std::string check_run_at(Session& session, const Prepared& prepared, const DimBindings& named) {
  set_symbols(session, named);
  set_inputs(session, prepared);
  require(session.poison_arena(std::byte{0xFF}));
  require(session.run(0));
  const std::vector<Tensor> got = read_outputs(session);
  const std::string fault = check_types(prepared, got);
  return fault.empty() ? check_run(prepared, got, "values") : fault;
}

// ---- the same bits as a plan of these sizes ----

using Defines = std::map<std::string, std::string, std::less<>>;

// Of a kernel's specialization as the plan tells it: "RLX_A=f32 RLX_ROWS=(n + 1) block 256x1x1".
Defines defines_of(std::string_view text) {
  Defines defines;
  while (!text.empty()) {
    const size_t next = std::min(text.find(" RLX_"), text.find(" block "));
    const std::string_view word = text.substr(0, next);
    const size_t equals = word.find('=');
    defines.emplace(word.substr(0, equals),
                    equals == std::string_view::npos ? "" : word.substr(equals + 1));
    text.remove_prefix(next == std::string_view::npos ? text.size() : next + 1);
  }
  return defines;
}

// But for the sizes that the run gives.
bool has_same_defines(const Defines& free, const Defines& fixed) {
  const auto is_known = [&](const auto& define) {
    const auto& [name, value] = define;
    if (name.starts_with("RLX_SIZES") || value.find("RLX_FREE_SIZE") != std::string::npos)
      return true;
    const auto same = fixed.find(name);
    return same != fixed.end() && same->second == value;
  };
  return std::ranges::all_of(free, is_known) && std::ranges::all_of(fixed, [&](const auto& define) {
           return free.contains(define.first);
         });
}

std::vector<const fb::Step*> steps_of(const Session::BoundEntry& bound) {
  std::vector<const fb::Step*> steps;
  for (const fb::Step* step : *bound.record->steps()) {
    if (step->kind() != fb::StepKind::Skip) steps.push_back(step);
  }
  return steps;
}

bool has_same_kernels(const Session::BoundEntry& free, const Session::BoundEntry& fixed) {
  const std::vector<const fb::Step*> ours = steps_of(free);
  const std::vector<const fb::Step*> theirs = steps_of(fixed);
  return std::ranges::equal(ours, theirs, [&](const fb::Step* a, const fb::Step* b) {
    // A library chooses its own kernels, of free sizes for some of them.
    if (a->kind() != b->kind() || a->kind() == fb::StepKind::LibraryGemm) return false;
    if (a->kind() != fb::StepKind::Dispatch) return true;
    const fb::Kernel& kernel = free.plan->kernel(a->kernel());
    const fb::Kernel& other = fixed.plan->kernel(b->kernel());
    return PlanView::text(kernel.name()) == PlanView::text(other.name()) &&
           has_same_defines(defines_of(PlanView::text(kernel.specialization())),
                            defines_of(PlanView::text(other.specialization())));
  });
}

// Whether a plan of the binding's sizes may have the kernels of the free one: each of its kernels
// is among them. Asked before any is compiled, as most have not.
bool may_have_same_kernels(const Session::BoundEntry& free, const Prepared& prepared,
                           const CompileOptions& options) {
  Diagnostics diagnostics;
  const auto fixed = estimate_steps(prepared.module, options, diagnostics);
  if (!fixed) return true;  // the compilation says why not
  std::set<std::pair<std::string, Defines>> ours;
  for (const fb::Step* step : steps_of(free)) {
    if (step->kind() != fb::StepKind::Dispatch) continue;
    const fb::Kernel& kernel = free.plan->kernel(step->kernel());
    ours.emplace(PlanView::text(kernel.name()),
                 defines_of(PlanView::text(kernel.specialization())));
  }
  return std::ranges::all_of(*fixed, [&](const StepEstimate& step) {
    const Defines theirs = defines_of(step.specialization);
    return step.specialization.empty() || std::ranges::any_of(ours, [&](const auto& kernel) {
             return kernel.first == step.kernel && has_same_defines(kernel.second, theirs);
           });
  });
}

// Of the session's last run, whose sizes `prepared` has.
std::string check_bits(Session& session, const Prepared& prepared,
                       const std::shared_ptr<Device>& device, CompileOptions options,
                       FreeTally& tally) {
  const bool is_cuda = device->info().architecture != 0;
  std::erase_if(options.targets,
                [is_cuda](const std::string& target) { return (target == "cuda") != is_cuda; });
  Session::BoundEntry free_entry;
  require(session.bound_entry(0, free_entry));
  if (!may_have_same_kernels(free_entry, prepared, options)) return {};
  Diagnostics diagnostics;
  const auto plan = compile_plan(prepared.module, options, diagnostics);
  if (!plan) return "a plan of this size is refused: " + diagnostics.text();
  std::shared_ptr<DevicePlan> loaded;
  std::unique_ptr<Session> fixed;
  require(device->load(*plan, {}, loaded));
  require(Session::create(plan, loaded, false, {}, fixed));
  Session::BoundEntry fixed_entry;
  require(fixed->bound_entry(0, fixed_entry));
  if (!has_same_kernels(free_entry, fixed_entry)) return {};
  set_inputs(*fixed, prepared);
  require(fixed->run(0));
  const std::vector<Tensor> got = read_outputs(session);
  const std::vector<Tensor> wanted = read_outputs(*fixed);
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i].to_bytes() != wanted[i].to_bytes())
      return "output " + std::to_string(i) +
             " has other bits than in a plan of this size with the same kernels";
  }
  ++tally.same_kernels;
  return {};
}

struct FreePlan {
  GraphText graph;  // what is left of it
  std::shared_ptr<const PlanView> plan;
};

// Whether the plan has no sizes for the binding, as where a window is larger than an image. Asked
// of a session of its own, whose inputs have no shapes yet.
bool refuses(const FreePlan& free, const std::shared_ptr<DevicePlan>& loaded,
             const DimBindings& binding) {
  std::unique_ptr<Session> session;
  require(Session::create(free.plan, loaded, false, {}, session));
  set_symbols(*session, binding);
  Session::BoundEntry bound;
  return !session->bound_entry(0, bound).ok();
}

// The node that a refusal of this kind names, or that was decomposed into it, by its place in the
// graph's text; nullopt where it names none.
std::optional<size_t> refused_node(const GraphText& graph, const Diagnostics& diagnostics,
                                   DiagCode code) {
  for (const Diagnostic& said : diagnostics.all()) {
    if (said.code != code) continue;
    for (size_t i = 0; i < graph["nodes"].size(); ++i) {
      const std::string name = graph["nodes"][i]["name"];
      if (said.node == name || said.node.starts_with(name + ".")) return i;
    }
  }
  return std::nullopt;
}

// Whether a plan for all sizes may run where one of this size is refused so.
bool is_of_no_account(const GraphText& graph, const Diagnostics& diagnostics) {
  const std::optional<size_t> node = refused_node(graph, diagnostics, DiagCode::BadShape);
  return node && !is_needed(graph, *node);
}

// Of an input, which cannot be cut.
bool is_free_size(const Diagnostics& diagnostics) {
  const auto& all = diagnostics.all();
  return std::ranges::any_of(
      all, [](const Diagnostic& said) { return said.code == DiagCode::FreeSize; });
}

// Compiles the graph, or what takes free sizes of it. No plan where nothing is left; `fault` where
// it is refused otherwise.
FreePlan compile_free(GraphText graph, const CompileOptions& options, FreeTally& tally,
                      std::string& fault) {
  while (!graph["nodes"].empty()) {
    Diagnostics diagnostics;
    auto module = module_of(graph, {}, ranges_of(graph), diagnostics);
    std::shared_ptr<const PlanView> plan;
    if (module) plan = compile_plan(std::move(*module), options, diagnostics);
    if (plan) return {.graph = std::move(graph), .plan = std::move(plan)};
    const std::optional<size_t> node = refused_node(graph, diagnostics, DiagCode::FreeSize);
    ++tally.refusals;
    if (!node) {
      if (!is_free_size(diagnostics)) fault = diagnostics.text();
      break;
    }
    GraphText cut = with_cut(graph, *node);
    if (cut["nodes"].size() >= graph["nodes"].size()) break;
    graph = std::move(cut);
  }
  return {};
}

std::string check_on(const std::shared_ptr<Device>& device, const FreePlan& free, uint64_t seed,
                     FreeTally& tally) {
  constexpr size_t kComparedBinding = 2;  // a size that nothing divides
  size_t next = 0;
  std::shared_ptr<DevicePlan> loaded;
  std::unique_ptr<Session> session;
  require(device->load(*free.plan, {}, loaded));
  require(Session::create(free.plan, loaded, false, {.max_bindings = 3}, session));
  bool by_name = false;
  for (const DimBindings& binding : walk(ranges_of(free.graph), seed)) {
    by_name = !by_name;
    const size_t number = next++;
    Diagnostics diagnostics;
    const auto prepared = prepare(free.graph, binding, diagnostics);
    const std::string place = "on " + device->info().id + " at" + text_of(binding) + ": ";
    if (!prepared && diagnostics.has_errors()) {
      if (!is_of_no_account(free.graph, diagnostics) && !refuses(free, loaded, binding))
        return place + "runs what a plan of this size does not: " + diagnostics.text();
      ++tally.refused_bindings;
      continue;
    }
    if (!prepared) ++tally.silent;
    if (!prepared) continue;
    try {
      const DimBindings named = by_name ? binding : unsaid_by_inputs(binding, free.graph);
      std::string fault = check_run_at(*session, *prepared, named);
      if (fault.empty() && number == kComparedBinding)
        fault = check_bits(*session, *prepared, device, options_of(seed), tally);
      if (!fault.empty()) return place + fault;
    } catch (const std::runtime_error& error) {
      return place + error.what();
    }
    ++tally.bindings;
  }
  return {};
}

}  // namespace

FreeDims ranges_of(const GraphText& text) {
  FreeDims ranges;
  if (!text.contains("symbols")) return ranges;
  for (const auto& symbol : text["symbols"]) {
    ranges[symbol["name"]] = {
        .minimum = symbol["min"], .maximum = symbol["max"], .multiple_of = symbol["multiple_of"]};
  }
  return ranges;
}

std::string check_free_graph(const GraphText& graph, uint64_t seed, FreeTally& tally) {
  try {
    std::string fault;
    const FreePlan free = compile_free(graph, options_of(seed), tally, fault);
    if (!fault.empty()) return "refused: " + fault;
    if (!free.plan) return {};
    ++tally.plans;
    for (const std::shared_ptr<Device>& device : present_devices().devices) {
      fault = check_on(device, free, seed, tally);
      if (!fault.empty()) return fault;
    }
  } catch (const std::exception& error) {
    return std::string("internal error: ") + error.what();
  }
  return {};
}

}  // namespace rlx::test
