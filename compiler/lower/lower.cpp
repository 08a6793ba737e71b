// SPDX-License-Identifier: Apache-2.0
// Walks a graph and lets each op emit its dispatches.
#include "compiler/lower/lower.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>

#include "compiler/lower/lower_node.h"
#include "compiler/lower/lower_region.h"
#include "compiler/lower/size_order.h"
#include "compiler/lower/state_writes.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/vision/layouts.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

constexpr const char* kFewerGroups = "compute it in parts: fewer rows, or a smaller batch";

// Names every op that cannot be lowered, all in one pass.
bool check_lowerings(const Graph& graph, Diagnostics& diagnostics) {
  bool good = true;
  for (NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    const OpDef* op = find_op(node.op);
    RLX_CHECK(op != nullptr, "lowering unknown op " + node.op);
    for (const auto& body : node.bodies) good = check_lowerings(*body, diagnostics) && good;
    if (op->lower != nullptr || node.op == OpId::loop) continue;
    NodeContext ctx(*op, node, diagnostics);
    good = ctx.fail(DiagCode::UnsupportedOp, "this op has no lowering");
  }
  return good;
}

bool is_empty(const Graph& graph, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&graph](ValueId id) {
    return element_count(graph.value(id).type.shape) == 0;
  });
}

bool has_free_sizes(const Program& program) {
  return std::any_of(program.buffers.begin(), program.buffers.end(),
                     [](const Buffer& buffer) { return buffer.size_bytes.is_free(); });
}

// Memory is laid out and kernels are chosen for the largest values of the symbols, so no size may
// be larger at others. `passed`: texts of sizes that are not. `node`: that makes the value.
bool check_sizes(const Value& value, const Node* node, std::set<std::string>& passed,
                 Diagnostics& diagnostics) {
  for (const Dim& size : value.type.shape) {
    if (!size.is_free() || !passed.insert(to_string(size)).second) continue;
    const std::optional<int64_t> above = value_above_bound(size);
    if (!above) continue;
    diagnostics.add({.code = DiagCode::FreeSize,
                     .place = node != nullptr ? node->place : SourcePlace{},
                     .op = node != nullptr ? node->op : "",
                     .node = node != nullptr ? node->name : "",
                     .message = "the size " + to_string(size) + " of \"" + value.name + "\" is " +
                                std::to_string(*above) + " at some values of its symbols and " +
                                std::to_string(size.bound()) +
                                " at their largest, where it must be largest",
                     .hint = "give its symbols values with --dim NAME=N, or ranges in which it "
                             "does not shrink"});
    return false;
  }
  return true;
}

bool check_sizes(const Graph& graph, Diagnostics& diagnostics) {
  std::set<std::string> passed;
  const auto is_good = [&](ValueId id, const Node* node) {
    return check_sizes(graph.value(id), node, passed, diagnostics);
  };
  for (const ValueId input : graph.inputs) {
    if (!is_good(input, nullptr)) return false;
  }
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    for (const ValueId output : node.outputs) {
      if (!is_good(output, &node)) return false;
    }
  }
  return true;
}

// What a tuner decided at one size would not hold at another.
void forget_alternatives(Program& program) {
  for (Step& step : program.steps) step.alternatives.clear();
}

// The steps of a node some of whose forms were measured say so.
void tell_of_tuning(Program& program, size_t first_step, size_t first_choice) {
  const auto choices = std::span(program.form_choices).subspan(first_choice);
  if (std::ranges::none_of(choices, &FormChoice::is_tuned)) return;
  for (Step& step : std::span(program.steps).subspan(first_step))
    step.reason += (step.reason.empty() ? "" : ", ") + std::string("as tuned");
}

}  // namespace

bool lower_node(LoweringState& state, const Node& node, Diagnostics& diagnostics) {
  const OpDef& op = *find_op(node.op);
  LowerContext ctx(op, state, node, diagnostics);
  const size_t first_step = ctx.program().steps.size();
  const size_t first_choice = ctx.program().form_choices.size();
  if (is_empty(state.graph, node)) {
    for (size_t i = 0; i < node.outputs.size(); ++i) ctx.output(i);
    return true;
  }
  bool is_good = false;
  std::optional<Dim> read;
  try {
    read = free_size_read_by([&] { is_good = op.lower(ctx); });
  } catch (const TooManyGroups& fault) {
    return ctx.fail(DiagCode::Limit, fault.what(), kFewerGroups);
  }
  if (read) report_free_size(diagnostics, node.op, node.name, "every kernel for it", *read);
  if (read || !is_good) return false;
  const std::vector<std::string> unread = ctx.attrs().unread();
  RLX_CHECK(unread.empty(), "lowering of " + node.op + " \"" + node.name + "\" ignored attribute " +
                                unread.front());
  for (ValueId output : node.outputs)
    if (state.joined(output) == nullptr) state.ref(output);
  tell_of_tuning(ctx.program(), first_step, first_choice);
  return true;
}

std::optional<Program> lower_entry(const Module& module, const Graph& graph,
                                   const LowerOptions& options, Diagnostics& diagnostics,
                                   std::vector<StepRegion>* regions) {
  if (!check_lowerings(graph, diagnostics) || !check_sizes(graph, diagnostics)) return std::nullopt;
  Program program;
  program.entry = graph.name;
  program.ranges = graph.ranges;
  program.requirements = graph.requirements;
  LoweringState state(module, graph, options, program);
  const std::optional<Dim> read = free_size_read_by([&] {
    const std::vector<bool> channels_last = channels_last_values(OfferContext(options), graph);
    for (size_t i = 0; i < channels_last.size(); ++i)
      if (channels_last[i]) state.store_channels_last(ValueId(i));
    place_concat_parts(state, diagnostics);
  });
  if (read) {
    report_free_size(diagnostics, {}, "the choice of layouts", *read);
    return std::nullopt;
  }
  bool good = true;
  for (NodeId id : graph.order()) {
    // A node after a failed one would only report second-hand faults.
    const Node& node = graph.node(id);
    if (!good) break;
    RLX_CHECK(node.bodies.empty() || regions != nullptr, "a loop where no region can be");
    good = node.bodies.empty() ? lower_node(state, node, diagnostics)
                               : lower_region(state, node, *regions, diagnostics);
  }
  if (!good) return std::nullopt;
  const std::string at_end = "the copy of an output or a state";
  std::optional<Dim> read_at_end;
  try {
    read_at_end = free_size_read_by([&] {
      state.finish();
      write_states_in_place(program);
    });
  } catch (const TooManyGroups& fault) {
    diagnostics.error(DiagCode::Limit, {}, at_end + ": " + fault.what(), kFewerGroups);
    return std::nullopt;
  }
  if (read_at_end) {
    report_free_size(diagnostics, {}, at_end, *read_at_end);
    return std::nullopt;
  }
  if (has_free_sizes(program)) forget_alternatives(program);
  return program;
}

}  // namespace rlx
