// SPDX-License-Identifier: Apache-2.0
// Control flow as data flow: bodies stand in place of their nodes (ops.md 15). What a predicate
// that only the run knows decides is computed both ways, and `where` takes one; loops are unrolled,
// and a trip that is not taken leaves what is carried as it is, bit for bit. Loops and branches
// that are worth it stay loops, of a form of their own (make_regions.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/control/control_forms.h"
#include "compiler/ops/control/region_form.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/prepare.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"

namespace rlx {

// Nodes that may stand in place of one: more is no data flow any more, and takes minutes to
// compile.
inline constexpr size_t kMostNodes = size_t{1} << 16;

using BodyValues = std::vector<ValueId>;
using StateWrites = std::map<StateId, ValueId>;  // the new values of states

// Where the nodes of a body are put.
struct BodyPlace {
  std::string path;                    // before the names of its nodes
  uint32_t shift = 0;                  // of its random streams
  std::optional<ValueId> active = {};  // what it computes counts where this holds; none: always
  StateWrites* writes = nullptr;
};

class BodyInliner {
 public:
  // `control`: which nodes stay loops; in bodies of these none does.
  BodyInliner(Module& module, Graph& graph, ControlFlow control, Diagnostics& diagnostics)
      : module_(module), graph_(graph), control_(control), diagnostics_(diagnostics) {}

  size_t run() {
    if (has_free_sizes()) control_ = ControlFlow::Unrolled;
    size_t changed = 0;
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      if (graph_.node(id).bodies.empty()) continue;
      if (!replace(id)) return changed;
      ++changed;
    }
    keep_states();
    return changed;
  }

 private:
  // False where anything was reported.
  bool replace(NodeId id) {
    const Node node = graph_.node(id);
    position_ = id;
    root_ = &node;
    added_ = 0;
    StateWrites writes;
    const std::optional<BodyValues> outputs = expand(node, {.path = node.name, .writes = &writes});
    if (!outputs) return false;
    for (const auto& [state, value] : writes)
      emit("state_write", {state_value(state), value}, node.name);
    assert_bounds(node.name);
    for (size_t i = 0; i < outputs->size(); ++i) hand_over(node, i, (*outputs)[i]);
    graph_.remove_node(id);
    return true;
  }

  // A run in which an assertion of a body does not hold leaves all states as they were.
  void keep_states() {
    if (!holds_) return;
    position_.reset();
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      const Node node = graph_.node(id);
      if (node.op != OpId::state_write) continue;
      root_ = &node;
      graph_.change_node(id, [&node](Node& read) {
        read.op = name_of(OpId::identity);
        read.inputs = {node.inputs[1]};
      });
      const ValueId kept = choose(holds_, *node.inputs[1], *node.inputs[0], node.name);
      emit("state_write", {node.inputs[0], kept}, node.name);
    }
  }

  // Who read an output of the node reads `value`; an output of the entry keeps its name.
  void hand_over(const Node& node, size_t output, ValueId value) {
    const ValueId old = node.outputs[output];
    if (!graph_.is_output(old)) return graph_.replace_uses(old, value);
    add({.name = graph_.fresh_name(node.name + ".output"),
         .op = "identity",
         .inputs = {value},
         .outputs = {old},
         .attributes = {},
         .region = {},
         .place = root_->place,
         .source = root_->source});
  }

  // ---- what is known, and small nodes ----

  std::optional<bool> known_truth(ValueId id) {
    const Tensor* known = known_.find(module_, graph_, id);
    return known != nullptr ? std::optional(truth_of(*known)) : std::nullopt;
  }

  ValueId emit(const char* op, std::vector<std::optional<ValueId>> inputs, const std::string& path,
               Attributes attributes = {}) {
    const std::string name = graph_.fresh_name(path + "." + op);
    const ValueId output = graph_.add_value({.name = name});
    add({.name = name,
         .op = op,
         .inputs = std::move(inputs),
         .outputs = {output},
         .attributes = std::move(attributes),
         .place = root_->place,
         .source = root_->source});
    return output;
  }

  void add(Node node) {
    const NodeId id = insert(std::move(node));
    Diagnostics faults;
    RLX_CHECK(check_and_infer(graph_, id, faults), faults.text());
    ++added_;
  }

  // Before the node that is being replaced, or at the end of a body that is being made.
  NodeId insert(Node node) {
    return position_ ? graph_.insert_node_before(*position_, std::move(node))
                     : graph_.add_node(std::move(node));
  }

  ValueId constant(const std::string& stem, const Tensor& tensor) {
    return add_constant(module_, graph_, stem, tensor);
  }

  // The i64 scalar of that value.
  ValueId number(int64_t value) {
    const auto found = numbers_.find(value);
    if (found != numbers_.end()) return found->second;
    Tensor tensor = Tensor::zeros({DType::i64, {}});
    tensor.integers.front() = value;
    return numbers_[value] = constant("number." + std::to_string(value), tensor);
  }

  ValueId truth(bool value) {
    if (truths_[value ? 1 : 0]) return *truths_[value ? 1 : 0];
    Tensor tensor = Tensor::zeros({DType::bool_, {}});
    tensor.integers.front() = value ? 1 : 0;
    return *(truths_[value ? 1 : 0] = constant(value ? "true" : "false", tensor));
  }

  // A condition of one element as a bool of rank 0.
  ValueId flag(ValueId id, const std::string& path) {
    if (graph_.value(id).type.dtype != DType::bool_)
      id = emit("cast", {id}, path, {{"to", std::string("bool")}});
    if (!graph_.value(id).type.shape.empty()) id = emit("reshape", {id}, path, {{"shape", Ints{}}});
    return id;
  }

  ValueId both(std::optional<ValueId> a, ValueId b, const std::string& path) {
    return a ? emit("logical_and", {*a, b}, path) : b;
  }

  // `taken` where the flag holds; without one, always.
  ValueId choose(std::optional<ValueId> holds, ValueId taken, ValueId other,
                 const std::string& path) {
    return !holds || taken == other ? taken : emit("where", {*holds, taken, other}, path);
  }

  ValueId state_value(StateId state) {
    const auto found = states_.find(state);
    if (found != states_.end()) return found->second;
    if (capture_state_) return states_[state] = capture_state_(state);
    // A state has one value in a graph: see V4.1.
    for (uint32_t i = 0; i < graph_.value_count(); ++i) {
      const Value& value = graph_.value(ValueId(i));
      if (value.origin == ValueOrigin::State && value.state == state)
        return states_[state] = ValueId(i);
    }
    const State& known = module_.state(state);
    return states_[state] = graph_.add_value({.name = graph_.fresh_name(known.name),
                                              .type = known.type,
                                              .origin = ValueOrigin::State,
                                              .state = state});
  }

  // The state's value after what was written so far.
  ValueId written(const StateWrites& writes, StateId state) {
    const auto found = writes.find(state);
    return found != writes.end() ? found->second : state_value(state);
  }

  // ---- bodies ----

  // A body's value in the graph.
  ValueId mapped(const Graph& body, std::vector<std::optional<ValueId>>& map, ValueId id) {
    std::optional<ValueId>& known = map.at(index_of(id));
    if (known) return *known;
    const Value& value = body.value(id);
    RLX_CHECK(value.weight || value.state, "a body reads \"" + value.name + "\" before it is made");
    known = value.weight ? graph_.weight_value(*value.weight, module_.weight(*value.weight))
                         : state_value(*value.state);
    return *known;
  }

  // The body's outputs, where its inputs are these; nullopt where anything was reported.
  std::optional<BodyValues> put(const Graph& body, const BodyValues& inputs,
                                const BodyPlace& place) {
    std::vector<std::optional<ValueId>> map(body.value_count());
    for (size_t i = 0; i < inputs.size(); ++i) map[index_of(body.inputs[i])] = inputs[i];
    std::vector<StateId> written_here;
    for (const NodeId id : body.order()) {
      Node node = node_of_trip(body.node(id), place.shift);
      for (std::optional<ValueId>& input : node.inputs) {
        if (input) input = mapped(body, map, *input);
      }
      std::optional<BodyValues> outputs;
      if (node.op == OpId::state_write) {
        outputs = write_state(node, place, written_here);
      } else if (!node.bodies.empty()) {
        BodyPlace inner = place;
        inner.path += "." + node.name;
        outputs = expand(node, inner);
      } else {
        outputs = copy(body, std::move(node), place);
      }
      if (!outputs) return std::nullopt;
      const BodyValues& own = body.node(id).outputs;
      for (size_t i = 0; i < own.size(); ++i) map[index_of(own[i])] = outputs->at(i);
    }
    BodyValues outputs;
    for (const ValueId id : body.outputs()) outputs.push_back(mapped(body, map, id));
    return outputs;
  }

  std::optional<BodyValues> write_state(const Node& node, const BodyPlace& place,
                                        std::vector<StateId>& written_here) {
    const StateId state = *graph_.value(*node.inputs[0]).state;
    if (std::ranges::find(written_here, state) != written_here.end()) {
      NodeContext(*find_op(node.op), node, diagnostics_)
          .fail(DiagCode::BadShape,
                "state \"" + module_.state(state).name + "\" is written twice in one body",
                "keep one state_write for each state");
      return std::nullopt;
    }
    written_here.push_back(state);
    (*place.writes)[state] = *node.inputs[1];
    return BodyValues{*node.inputs[1]};
  }

  // A node of a body, whose inputs are values of the graph already.
  std::optional<BodyValues> copy(const Graph& body, Node node, const BodyPlace& place) {
    if (!has_room()) return std::nullopt;
    guard_indices(node, place);
    const bool asserts = node.op == OpId::assert_;
    if (asserts) guard_assertion(node, place);
    BodyValues outputs;
    for (const ValueId id : node.outputs) {
      const Value& value = body.value(id);
      outputs.push_back(graph_.add_value(
          {.name = graph_.fresh_name(place.path + "." + value.name), .type = value.type}));
    }
    node.outputs = outputs;
    node.name = graph_.fresh_name(place.path + "." + node.name);
    insert(std::move(node));
    ++added_;
    if (asserts) holds_ = both(holds_, outputs.front(), place.path);
    return outputs;
  }

  // Indices of what does not count are 0, so that nobody is told of them.
  void guard_indices(Node& node, const BodyPlace& place) {
    const uint32_t indices = find_op(node.op)->index_inputs;
    for (size_t i = 0; place.active && i < node.inputs.size(); ++i) {
      if ((indices >> i & 1) == 0 || !node.inputs[i]) continue;
      const ValueId index = *node.inputs[i];
      const ValueId first = zero(type_of(index));
      node.inputs[i] = choose(place.active, index, first, place.path);
    }
  }

  // What does not count asserts nothing.
  void guard_assertion(Node& node, const BodyPlace& place) {
    if (!place.active) return;
    const bool wanted = AttributeReader(*find_op(node.op), node.attributes).flag("wanted");
    const ValueId x = flag(*node.inputs[0], place.path);
    node.inputs[0] = choose(place.active, x, truth(wanted), place.path);
  }

  bool has_room() {
    if (added_ < kMostNodes) return true;
    return NodeContext(*find_op(root_->op), *root_, diagnostics_)
        .fail(DiagCode::Limit,
              "its bodies, loops unrolled, stand for more than " + std::to_string(kMostNodes) +
                  " nodes",
              "give its loops a smaller max_iterations or length");
  }

  // ---- nodes that stay control flow (make_regions.cpp) ----

  // A body as it is being made: whether there is another trip, where the run decides, and what is
  // carried into it.
  struct Trip {
    std::optional<ValueId> word;
    BodyValues carries;
  };
  using MakeTrip = std::function<std::optional<Trip>(BodyInliner& body, const BodyValues& carries,
                                                     const BodyValues& shared)>;
  struct Repeat {
    RegionKind kind = RegionKind::Counted;
    int64_t trips = 0;
    std::optional<ValueId> word;  // i32[]: whether there is a first trip; not of Counted
    BodyValues carries;
    BodyValues shared;
  };
  // What the loop gives: of While the word after its end, and what is carried.
  struct Repeated {
    std::optional<ValueId> word;
    BodyValues carries;
  };

  // Entries with free sizes have no regions (V16.1).
  [[nodiscard]] bool has_free_sizes() const;
  [[nodiscard]] bool becomes_region(const Node& node, const BodyPlace& place);
  std::optional<BodyValues> expand_region(const Node& node, const BodyPlace& place);
  std::optional<BodyValues> branch_region(const Node& node, const BodyPlace& place);
  std::optional<BodyValues> while_region(const Node& node, const BodyPlace& place);
  std::optional<BodyValues> loop_region(const Node& node, const BodyPlace& place);
  // A trip of a while in a region's body: what it carries after it and, as its word, the condition
  // then. Where `active` does not hold, what it carries stays.
  std::optional<Trip> while_trip(const Node& node, uint32_t shift, const BodyValues& now,
                                 const BodyValues& shared, std::optional<ValueId> active);
  // A trip of a loop in a region's body: what it carries after it, and as its word the condition
  // that the loop's body gives. `shared` begins with what that captures.
  std::optional<Trip> loop_trip(const Node& node, uint32_t shift, const BodyValues& now,
                                const BodyValues& shared);
  // As many trips as the run asks for, first in groups, then the rest one by one; no more than the
  // loop's bound. Its trip's index is carried last.
  struct CountedTrips {
    ValueId trips{};
    int64_t together = 1;
    BodyValues carries;
    BodyValues shared;
  };
  std::optional<BodyValues> trips_in_groups(const Node& node, const BodyPlace& place,
                                            const CountedTrips& counted);
  std::optional<BodyValues> scan_region(const Node& node, const BodyPlace& place);
  // Makes the body by `make`, then the node; without a word from it a While is Counted.
  std::optional<Repeated> repeat(Repeat what, const BodyPlace& place, const MakeTrip& make);
  // A flag as a word.
  ValueId word_of(ValueId flag, const std::string& path);
  // Rows that a loop writes one after another: [1, trips, row...], at first 0.
  ValueId empty_rows(const TensorType& row, int64_t trips, const BodyPlace& place);
  ValueId with_row(ValueId rows, ValueId row, ValueId index, const std::string& path);
  // The rows as the node gives them, side by side on an axis.
  ValueId rows_on_axis(ValueId rows, int64_t axis, const BodyPlace& place);
  // Row `index`, which the run knows, of an axis, which goes.
  ValueId row_at(ValueId whole, int64_t axis, ValueId index, const std::string& path);

  // ---- the ops ----

  // What stands in place of a node, whose inputs are values of the graph.
  std::optional<BodyValues> expand(const Node& node, const BodyPlace& place) {
    if (becomes_region(node, place)) return expand_region(node, place);
    if (node.op == OpId::if_) return expand_if(node, place);
    if (node.op == OpId::while_) return expand_while(node, place);
    if (node.op == OpId::loop) return expand_loop(node, place);
    if (node.op == OpId::scan) return expand_scan(node, place);
    RLX_CHECK(node.op == OpId::call, "an op with bodies that is not inlined: " + node.op);
    return put(*node.bodies.front(), inputs_from(node, 0), place);
  }

  static BodyValues inputs_from(const Node& node, size_t first) {
    BodyValues values;
    for (size_t i = first; i < node.inputs.size(); ++i) values.push_back(*node.inputs[i]);
    return values;
  }

  std::optional<BodyValues> expand_if(const Node& node, const BodyPlace& place) {
    const BodyValues inputs = inputs_from(node, 1);
    if (const std::optional<bool> known = known_truth(*node.inputs[0]))
      return put(*node.bodies[*known ? kThen : kElse], inputs, place);
    const ValueId holds = flag(*node.inputs[0], place.path);
    BodyPlace taken = place;
    taken.path += ".then";
    taken.active = both(place.active, holds, taken.path);
    BodyPlace other = place;
    other.path += ".else";
    other.active = both(place.active, emit("logical_not", {holds}, other.path), other.path);
    StateWrites taken_writes = *place.writes;
    StateWrites other_writes = *place.writes;
    taken.writes = &taken_writes;
    other.writes = &other_writes;
    const std::optional<BodyValues> yes = put(*node.bodies[kThen], inputs, taken);
    const std::optional<BodyValues> no =
        yes ? put(*node.bodies[kElse], inputs, other) : std::nullopt;
    if (!no) return std::nullopt;
    BodyValues outputs;
    for (size_t i = 0; i < yes->size(); ++i) {
      outputs.push_back(choose(holds, (*yes)[i], (*no)[i], place.path));
    }
    join_writes(holds, taken_writes, other_writes, place);
    return outputs;
  }

  // A state that either branch wrote has the new value of the one that is taken.
  void join_writes(ValueId holds, const StateWrites& taken, const StateWrites& other,
                   const BodyPlace& place) {
    StateWrites all = taken;
    all.insert(other.begin(), other.end());
    for (const auto& [state, value] : all) {
      (*place.writes)[state] =
          choose(holds, written(taken, state), written(other, state), place.path);
    }
  }

  // Where trip t of a loop stands; it writes states to a map of its own.
  static BodyPlace trip_place(const BodyPlace& place, int64_t trip, std::optional<ValueId> active,
                              StateWrites& writes) {
    BodyPlace result = place;
    result.path += "." + std::to_string(trip);
    result.shift = shift_of_trip(place.shift, trip);
    result.active = active;
    result.writes = &writes;
    return result;
  }

  // What a trip wrote counts where the trip does.
  void end_trip(const StateWrites& writes, std::optional<ValueId> holds, const BodyPlace& trip,
                const BodyPlace& place) {
    for (const auto& [state, value] : writes) {
      (*place.writes)[state] = choose(holds, value, written(*place.writes, state), trip.path);
    }
  }

  // Of a loop that runs while conditions hold: the flag that they do, or nothing where it is known
  // that they do; and whether it is known that one does not.
  struct Going {
    std::optional<ValueId> holds;
    bool has_ended = false;
  };
  void go_on(Going& going, ValueId condition, const std::string& path) {
    if (const std::optional<bool> known = known_truth(condition)) {
      going.has_ended = going.has_ended || !*known;
    } else {
      going.holds = both(going.holds, flag(condition, path), path);
    }
  }

  std::optional<ValueId> active_in(const BodyPlace& place, const Going& going,
                                   const std::string& path) {
    return going.holds ? both(place.active, *going.holds, path) : place.active;
  }

  void choose_carries(BodyValues& carries, const BodyValues& given, size_t first,
                      std::optional<ValueId> holds, const std::string& path) {
    for (size_t i = 0; i < carries.size(); ++i) {
      carries[i] = choose(holds, given.at(first + i), carries[i], path);
    }
  }

  std::nullopt_t fail_endless(const Node& node, int64_t bound) {
    NodeContext(*find_op(node.op), node, diagnostics_)
        .fail(DiagCode::Limit,
              "it reaches its bound of " + std::to_string(bound) +
                  " trips, and its condition still holds",
              "give it a larger max_iterations, or a condition that ends it");
    return std::nullopt;
  }

  // Where a condition, as a flag or a word, says that the loop would go on behind its bound,
  // whoever checks indices is told; what it gives is what it carried there.
  void tell_at_bound(const Node& node, int64_t bound, ValueId goes_on, const BodyPlace& place) {
    if (place.active) goes_on = both(place.active, flag(goes_on, place.path), place.path);
    std::string name = node.op + " \"" + node.name + "\"";
    if (node.name != root_->name) name += " in \"" + root_->name + "\"";
    const std::string message = name + " reached its bound of " + std::to_string(bound) +
                                " trips and would go on: compile it with a larger max_iterations";
    const auto [told, is_first] = beyond_bounds_.try_emplace(message, goes_on);
    if (is_first) return;
    // In another trip of a loop around it: they are told of together.
    told->second =
        emit("logical_or", {flag(told->second, place.path), flag(goes_on, place.path)}, place.path);
  }

  // What tell_at_bound found out so far, as assertions.
  void assert_bounds(const std::string& path) {
    for (const auto& [message, goes_on] : std::exchange(beyond_bounds_, {}))
      emit("assert", {goes_on}, path, {{"message", message}, {"wanted", false}});
  }

  static BodyValues joined(BodyValues values, const BodyValues& more) {
    values.insert(values.end(), more.begin(), more.end());
    return values;
  }

  std::optional<BodyValues> expand_while(const Node& node, const BodyPlace& place) {
    const NodeContext context(*find_op(node.op), node, diagnostics_);
    const int64_t bound = context.attrs().integer("max_iterations");
    BodyValues carries = inputs_from(node, 0);
    const BodyValues behind(carries.begin() + static_cast<ptrdiff_t>(node.outputs.size()),
                            carries.end());
    carries.resize(node.outputs.size());
    Going going;
    for (int64_t t = 0;; ++t) {
      StateWrites writes = *place.writes;
      BodyPlace trip = trip_place(place, t, active_in(place, going, place.path), writes);
      const BodyValues inputs = joined(carries, behind);
      const std::optional<BodyValues> condition = put(*node.bodies[kWhileCondition], inputs, trip);
      if (!condition) return std::nullopt;
      go_on(going, condition->front(), trip.path);
      if (going.has_ended) return carries;
      if (t == bound && !going.holds) return fail_endless(node, bound);
      if (t == bound) {
        tell_at_bound(node, bound, *going.holds, place);
        return carries;
      }
      trip.active = active_in(place, going, trip.path);
      const std::optional<BodyValues> given = put(*node.bodies[kWhileBody], inputs, trip);
      if (!given) return std::nullopt;
      choose_carries(carries, *given, 0, going.holds, trip.path);
      end_trip(writes, going.holds, trip, place);
    }
  }

  // The i64 scalar that a loop counts to; nullopt where it has none.
  std::optional<ValueId> trip_count(const Node& node, const BodyPlace& place) {
    std::optional<ValueId> trips = node.inputs[kLoopTrips];
    if (!trips) return std::nullopt;
    if (graph_.value(*trips).type.dtype != DType::i64)
      trips = emit("cast", {trips}, place.path, {{"to", std::string("i64")}});
    if (!graph_.value(*trips).type.shape.empty())
      trips = emit("reshape", {trips}, place.path, {{"shape", Ints{}}});
    return trips;
  }

  // Per trip, whether the count lets it run.
  ValueId counted_trips(ValueId trips, int64_t most, const BodyPlace& place) {
    Tensor indices = Tensor::zeros({DType::i64, {most}});
    std::iota(indices.integers.begin(), indices.integers.end(), int64_t{0});
    return emit("lt", {constant("trips", indices), trips}, place.path);
  }

  static bool reads_first_input(const Graph& body) {
    return body.reader_count(body.inputs[0]) > 0 || body.is_output(body.inputs[0]);
  }

  [[nodiscard]] DType type_of(ValueId id) const { return graph_.value(id).type.dtype; }

  std::optional<BodyValues> expand_loop(const Node& node, const BodyPlace& place) {
    const LoopForm form = loop_form(node);
    const BodyValues behind = inputs_from(node, own_input_count(node));
    const std::optional<ValueId> trips = trip_count(node, place);
    const Tensor* known = trips ? known_.find(module_, graph_, *trips) : nullptr;
    const bool is_asked = trips && known == nullptr;
    const int64_t last = known != nullptr ? known->integers.front() : form.max_iterations;
    BodyValues carries;
    for (size_t i = 0; i < form.carries; ++i) carries.push_back(*node.inputs[kLoopFirstCarry + i]);
    std::vector<BodyValues> rows(form.rows);
    std::optional<ValueId> count;
    if (form.has_count) count = number(0);
    const std::optional<ValueId> counted =
        is_asked ? std::optional(counted_trips(*trips, form.max_iterations, place)) : std::nullopt;
    Going going;
    if (node.inputs[kLoopCondition]) go_on(going, *node.inputs[kLoopCondition], place.path);
    int64_t t = 0;
    for (; t < std::min(last, form.max_iterations) && !going.has_ended; ++t) {
      // What is decided by the count alone hangs on no other trip.
      Going now = going;
      if (counted) now.holds = both(going.holds, step_of(*counted, 0, t, place), place.path);
      StateWrites writes = *place.writes;
      const BodyPlace trip = trip_place(place, t, active_in(place, now, place.path), writes);
      const ValueId index = number(reads_first_input(*node.bodies[0]) ? t : 0);
      const BodyValues inputs = joined(joined({index, truth(true)}, carries), behind);
      const std::optional<BodyValues> given = put(*node.bodies[0], inputs, trip);
      if (!given) return std::nullopt;
      choose_carries(carries, *given, 1, now.holds, trip.path);
      for (size_t i = 0; i < form.rows; ++i) {
        const ValueId row = given->at(1 + form.carries + i);
        rows[i].push_back(now.holds ? choose(now.holds, row, zero(type_of(row)), trip.path) : row);
      }
      if (count) count = choose(now.holds, number(t + 1), *count, trip.path);
      end_trip(writes, now.holds, trip, place);
      go_on(going, given->front(), trip.path);
    }
    const bool is_over = going.has_ended || (trips && !is_asked && last <= t);
    if (is_asked)
      going.holds = both(going.holds, emit("gt", {trips, number(t)}, place.path), place.path);
    if (!is_over && !going.holds) return fail_endless(node, t);
    for (size_t i = 0; i < form.rows; ++i) {
      const TensorType& row = output_type(node, 1 + form.carries + i);
      while (static_cast<int64_t>(rows[i].size()) < form.max_iterations)
        rows[i].push_back(zeros(row, place));
      carries.push_back(stacked(rows[i], row, 0, place));
    }
    if (count) carries.push_back(*count);
    if (!is_over) tell_at_bound(node, t, *going.holds, place);
    return carries;
  }

  std::optional<BodyValues> expand_scan(const Node& node, const BodyPlace& place) {
    const ScanForm form = scan_form(graph_, node);
    BodyValues carries = inputs_from(node, 0);
    const BodyValues shared(carries.begin() + static_cast<ptrdiff_t>(form.carries),
                            carries.begin() + static_cast<ptrdiff_t>(form.carries + form.shared));
    const BodyValues behind = inputs_from(node, own_input_count(node));
    carries.resize(form.carries);
    std::vector<BodyValues> rows(form.stacked, BodyValues(static_cast<size_t>(form.length)));
    std::vector<BodyValues> trajectory(form.saves_trajectory ? form.carries : 0);
    int64_t saved = 0;
    for (int64_t t = 0; t < form.length; ++t) {
      const int64_t step = form.step_at(t);
      StateWrites writes = *place.writes;
      const BodyPlace trip = trip_place(place, t, place.active, writes);
      BodyValues inputs = joined(carries, shared);
      for (size_t i = 0; i < form.sliced; ++i) {
        const ValueId whole = *node.inputs[form.carries + form.shared + i];
        inputs.push_back(step_of(whole, form.x_axes[i], step, trip));
      }
      const std::optional<BodyValues> given =
          has_room() ? put(*node.bodies[0], joined(std::move(inputs), behind), trip) : std::nullopt;
      if (!given) return std::nullopt;
      choose_carries(carries, *given, 0, std::nullopt, trip.path);
      for (size_t i = 0; i < form.stacked; ++i) {
        rows[i][static_cast<size_t>(step)] = given->at(form.carries + i);
      }
      end_trip(writes, std::nullopt, trip, place);
      if (!form.saves_trajectory || form.step_of_row(saved) != t) continue;
      for (size_t i = 0; i < form.carries; ++i) trajectory[i].push_back(carries[i]);
      ++saved;
    }
    for (size_t i = 0; i < form.stacked; ++i) {
      const TensorType& row = output_type(node, form.carries + i);
      carries.push_back(stacked(rows[i], row, form.y_axes[i], place));
    }
    for (size_t i = 0; i < trajectory.size(); ++i) {
      carries.push_back(stacked(trajectory[i], output_type(node, i), 0, place));
    }
    return carries;
  }

  // Of the first body's output.
  static const TensorType& output_type(const Node& node, size_t i) {
    const Graph& body = *node.bodies.front();
    return body.value(body.outputs().at(i)).type;
  }

  ValueId zero(DType dtype) {
    const auto found = zeros_.find(dtype);
    if (found != zeros_.end()) return found->second;
    return zeros_[dtype] = constant("zero", Tensor::zeros({dtype, {}}));
  }

  ValueId zeros(const TensorType& type, const BodyPlace& place) {
    const ValueId scalar = zero(type.dtype);
    if (type.shape.empty()) return scalar;
    return emit("expand", {scalar}, place.path, {{"shape", Ints(type.shape)}});
  }

  // Row `step` of an axis, which goes.
  ValueId step_of(ValueId whole, int64_t axis, int64_t step, const BodyPlace& trip) {
    const ValueId row =
        emit("narrow", {whole}, trip.path, {{"axis", axis}, {"start", step}, {"len", int64_t{1}}});
    return emit("squeeze", {row}, trip.path, {{"axes", Ints{axis}}});
  }

  // Rows of that type side by side on a new axis.
  ValueId stacked(const BodyValues& rows, const TensorType& row, int64_t axis,
                  const BodyPlace& place) {
    if (!rows.empty()) {
      return emit("stack", std::vector<std::optional<ValueId>>(rows.begin(), rows.end()),
                  place.path, {{"axis", axis}});
    }
    TensorType type = row;
    type.shape.insert(type.shape.begin() + static_cast<ptrdiff_t>(axis), 0);
    return constant("none", Tensor::zeros(type));
  }

  Module& module_;
  Graph& graph_;
  ControlFlow control_;
  Diagnostics& diagnostics_;
  KnownValues known_;
  std::optional<NodeId> position_;  // what is put stands before it; none: at the end
  const Node* root_ = nullptr;      // the node of the graph that is being replaced
  size_t added_ = 0;                // nodes in its place so far
  std::map<int64_t, ValueId> numbers_;
  std::map<DType, ValueId> zeros_;
  std::array<std::optional<ValueId>, 2> truths_;
  std::map<StateId, ValueId> states_;
  std::function<ValueId(StateId)> capture_state_;  // of a closed body: from the graph around it
  std::map<std::string, ValueId> beyond_bounds_;   // by what is told where one holds
  std::optional<ValueId> holds_;  // the assertions of bodies; none: no body asserts
};

}  // namespace rlx
