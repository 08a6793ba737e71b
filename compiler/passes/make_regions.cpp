// SPDX-License-Identifier: Apache-2.0
// Loops and branches that stay control flow, as ops/control/region_form.h says. Their bodies are
// graphs by themselves: every pass sees them (pass.cpp), and none reaches across their bounds.
#include <limits>
#include <map>
#include <memory>

#include "compiler/passes/body_inliner.h"
#include "schema/plan_regions.h"

namespace rlx {
namespace {

// From here on a plan of the body's steps costs less than one of all trips': a trip by itself costs
// a few microseconds, and unrolled ones are read, scheduled and kept on the device.
constexpr int64_t kLeastTrips = 16;
constexpr int64_t kLeastNodes = 512;  // of all trips
// Of a branch: what it computes takes longer than to decide whether to.
constexpr int64_t kHeavyNodes = 12;
constexpr int64_t kHeavyElements = int64_t{1} << 20;
// To decide of another trip takes as long as some small steps: trips whose number the run gives are
// decided of in groups of up to so many, while a group has no more nodes than this.
constexpr int64_t kMostTogether = 16;
constexpr int64_t kNodesTogether = 128;
// Where the data end a loop, trips behind its end are computed for nothing.
constexpr int64_t kMostAhead = 4;
constexpr int64_t kLeastTripsAhead = 64;
constexpr int64_t kNodesAhead = 16;
constexpr int64_t kElementsAhead = 4096;  // of what is carried
// Stacked rows stand between two axes of their own.
constexpr size_t kMostRowRank = 6;

// What a body takes, with all that is inside it.
struct BodySize {
  int64_t nodes = 0;
  int64_t elements = 0;  // of results and of weights that are read
  bool can_be_region = true;
};

void add(BodySize& size, const BodySize& more, int64_t times) {
  constexpr int64_t kEnough = std::numeric_limits<int32_t>::max();
  size.nodes = std::min(kEnough, size.nodes + std::min(kEnough, more.nodes) * times);
  size.elements = std::min(kEnough, size.elements + std::min(kEnough, more.elements) * times);
  size.can_be_region = size.can_be_region && more.can_be_region;
}

int64_t most_trips(const Graph& graph, const Node& node) {
  if (node.op == OpId::loop) return loop_form(node).max_iterations;
  if (node.op == OpId::scan) return scan_form(graph, node).length;
  if (node.op == OpId::while_) {
    return AttributeReader(*find_op(node.op), node.attributes).integer("max_iterations");
  }
  return 1;
}

bool is_fixed(const Graph& graph, ValueId id) {
  return !element_count(graph.value(id).type.shape).is_free() &&
         std::ranges::none_of(graph.value(id).type.shape,
                              [](const Dim& size) { return size.is_free(); });
}

int64_t elements_of(const Graph& graph, ValueId id) {
  return element_count(graph.value(id).type.shape);
}

BodySize size_of(const Graph& body);

BodySize size_of(const Graph& graph, const Node& node) {
  const OpDef& op = *find_op(node.op);
  // What draws random numbers draws others in each trip; a state is written once in a run.
  BodySize size{.nodes = 1, .can_be_region = !op.seed_input && !op.has_effect};
  for (const ValueId id : node.outputs) {
    size.can_be_region = size.can_be_region && is_fixed(graph, id);
    if (size.can_be_region) size.elements += elements_of(graph, id);
  }
  for (const std::optional<ValueId>& id : node.inputs) {
    if (!id) continue;
    size.can_be_region = size.can_be_region && is_fixed(graph, *id);
    if (size.can_be_region && graph.value(*id).weight) size.elements += elements_of(graph, *id);
  }
  for (const auto& body : node.bodies) {
    if (size.can_be_region) add(size, size_of(*body), most_trips(graph, node));
  }
  return size;
}

BodySize size_of(const Graph& body) {
  BodySize size;
  for (const NodeId id : body.order()) {
    if (!size.can_be_region) break;
    add(size, size_of(body, body.node(id)), 1);
  }
  return size;
}

// The trips of a group; 1: each by itself. Groups are of a loop that its count alone ends: the body
// gives its condition on as it is, or says that it holds.
int64_t trips_together(const Module& module, const Node& node) {
  const Graph& body = *node.bodies[0];
  ValueId condition = body.outputs()[0];
  while (const std::optional<NodeId> producer = body.value(condition).producer) {
    if (body.node(*producer).op != OpId::identity) return 1;
    condition = *body.node(*producer).inputs[0];
  }
  KnownValues known;
  const Tensor* value = known.find(module, body, condition);
  const bool goes_on = condition == body.inputs[1] || (value != nullptr && truth_of(*value));
  const int64_t together =
      std::min(kMostTogether, kNodesTogether / std::max<int64_t>(size_of(body).nodes, 1));
  constexpr int64_t kLeastGroups = 4;
  const bool pays = together >= 4 && loop_form(node).max_iterations >= kLeastGroups * together;
  return goes_on && pays ? together : 1;
}

// Trips of a while that are computed before it is decided whether to go on: those behind its end
// leave what is carried as it is. 1: none.
int64_t trips_ahead(const Node& node, int64_t bound) {
  const Graph& body = *node.bodies[kWhileBody];
  BodySize size = size_of(body);
  add(size, size_of(*node.bodies[kWhileCondition]), 1);
  int64_t carried = 0;
  for (const ValueId id : body.outputs()) carried += elements_of(body, id);
  if (size.nodes > kNodesAhead || carried > kElementsAhead || bound < kLeastTripsAhead) return 1;
  int64_t together = kMostAhead;
  while (bound % together != 0) --together;
  return together;
}

bool has_small_rows(const Graph& body, size_t first) {
  return std::all_of(body.outputs().begin() + static_cast<ptrdiff_t>(first), body.outputs().end(),
                     [&body](ValueId id) {
                       return body.value(id).type.shape.size() <= kMostRowRank &&
                              elements_of(body, id) > 0;
                     });
}

}  // namespace

bool BodyInliner::has_free_sizes() const {
  for (uint32_t i = 0; i < graph_.value_count(); ++i)
    if (!is_fixed(graph_, ValueId(i))) return true;
  return false;
}

bool BodyInliner::becomes_region(const Node& node, const BodyPlace& place) {
  if (control_ == ControlFlow::Unrolled || place.active || node.op == OpId::call) return false;
  const BodySize size = size_of(graph_, node);
  if (!size.can_be_region) return false;
  const bool is_asked = control_ == ControlFlow::Regions;
  if (node.op == OpId::if_) {
    if (known_truth(*node.inputs[0]) || node.outputs.empty()) return false;
    return is_asked || size.nodes >= kHeavyNodes || size.elements >= kHeavyElements;
  }
  const int64_t trips = most_trips(graph_, node);
  if (trips < 2 || trips > static_cast<int64_t>(kMaxRegionSteps) || node.outputs.empty())
    return false;
  if (node.op == OpId::loop) {
    const LoopForm form = loop_form(node);
    if (!has_small_rows(*node.bodies[0], 1 + form.carries)) return false;
  }
  if (node.op == OpId::scan) {
    const ScanForm form = scan_form(graph_, node);
    if (form.saves_trajectory || !has_small_rows(*node.bodies[0], form.carries)) return false;
  }
  return is_asked || (trips > kLeastTrips && size.nodes >= kLeastNodes);
}

std::optional<BodyValues> BodyInliner::expand_region(const Node& node, const BodyPlace& place) {
  if (node.op == OpId::if_) return branch_region(node, place);
  if (node.op == OpId::while_) return while_region(node, place);
  if (node.op == OpId::loop) return loop_region(node, place);
  return scan_region(node, place);
}

// Named apart from what stands for an unrolled loop, so that plans of both kinds can be compared.
ValueId BodyInliner::word_of(ValueId flag_value, const std::string& path) {
  const std::string word = path + ".word";
  return emit("cast", {flag(flag_value, word)}, word, {{"to", std::string("i32")}});
}

std::optional<BodyInliner::Repeated> BodyInliner::repeat(Repeat what, const BodyPlace& place,
                                                         const MakeTrip& make) {
  Graph body;
  const std::string name = graph_.fresh_name(place.path + ".loop");
  body.name = graph_.name + "/" + name;
  const auto add_input = [&body](const std::string& stem, const TensorType& type) {
    const ValueId id =
        body.add_value({.name = body.fresh_name(stem), .type = type, .origin = ValueOrigin::Input});
    body.inputs.push_back(id);
    return id;
  };
  const auto add_like = [&](ValueId outer) {
    return add_input(graph_.value(outer).name, graph_.value(outer).type);
  };
  // A While carries its word as well, so that it is known after the last trip.
  BodyInliner inner(module_, body, ControlFlow::Unrolled, diagnostics_);
  inner.root_ = root_;
  add_input("trip", {DType::i64, {}});
  add_input("going", {DType::bool_, {}});
  if (what.kind == RegionKind::While) add_like(*what.word);
  BodyValues carries;
  for (const ValueId id : what.carries) carries.push_back(add_like(id));
  BodyValues shared;
  BodyValues captured;
  std::map<ValueId, ValueId> known;
  for (const ValueId id : what.shared) {
    const Value& value = graph_.value(id);
    if (!known.contains(id)) {
      // Weights are everybody's.
      known[id] = value.weight ? body.weight_value(*value.weight, module_.weight(*value.weight))
                               : add_like(id);
      if (!value.weight) captured.push_back(id);
    }
    shared.push_back(known[id]);
  }
  // So that the graph around the body knows who reads a state.
  inner.capture_state_ = [&](StateId state) {
    captured.push_back(state_value(state));
    return add_like(captured.back());
  };
  const std::optional<Trip> trip = make(inner, carries, shared);
  if (!trip) return std::nullopt;
  inner.assert_bounds("trip");
  const bool carries_word = what.kind == RegionKind::While;
  if (carries_word && !trip->word) what.kind = RegionKind::Counted;
  const ValueId goes_on = trip->word ? *trip->word : inner.truth(what.kind == RegionKind::Counted);
  body.add_output(goes_on);
  if (carries_word) {
    if (trip->word) {
      body.add_output(*trip->word);
    } else {
      body.inputs.erase(body.inputs.begin() + kRegionFirstInput);
    }
  }
  for (const ValueId id : trip->carries) body.add_output(id);
  for (size_t i = 0; i < body.outputs().size(); ++i)
    body.output_names.push_back("out" + std::to_string(i));

  Node node{.name = name,
            .op = "loop",
            .inputs = {std::nullopt, what.word},
            .outputs = {},
            .attributes = {{"max_iterations", what.trips}},
            .region = {},
            .place = root_->place,
            .source = root_->source};
  if (what.kind == RegionKind::Counted) node.inputs = {number(what.trips), std::nullopt};
  Repeated result;
  const auto add_output = [&](const char* stem) {
    node.outputs.push_back(graph_.add_value({.name = graph_.fresh_name(name + stem)}));
    return node.outputs.back();
  };
  if (what.kind == RegionKind::While) {
    node.inputs.emplace_back(what.word);
    result.word = add_output(".word");
  }
  for (const ValueId id : what.carries) {
    node.inputs.emplace_back(id);
    result.carries.push_back(add_output(".carry"));
  }
  node.inputs.insert(node.inputs.end(), captured.begin(), captured.end());
  node.captures = static_cast<uint32_t>(captured.size());
  node.bodies = {std::make_shared<const Graph>(std::move(body))};
  add(std::move(node));
  return result;
}

// Each branch writes over what stands for the outputs, where it is taken.
std::optional<BodyValues> BodyInliner::branch_region(const Node& node, const BodyPlace& place) {
  const BodyValues inputs = inputs_from(node, 1);
  const ValueId holds = flag(*node.inputs[0], place.path);
  const ValueId other = emit("logical_not", {holds}, place.path);
  BodyValues outputs;
  for (const ValueId id : node.bodies[kThen]->outputs())
    outputs.push_back(zeros(node.bodies[kThen]->value(id).type, place));
  for (const size_t branch : {kThen, kElse}) {
    const Graph& source = *node.bodies[branch];
    BodyPlace inside{.path = branch == kThen ? "then" : "else", .shift = place.shift};
    const auto made = repeat(
        {.kind = RegionKind::Branch,
         .trips = 1,
         .word = word_of(branch == kThen ? holds : other, place.path),
         .carries = outputs,
         .shared = inputs},
        place,
        [&](BodyInliner& body, const BodyValues&, const BodyValues& shared) -> std::optional<Trip> {
          StateWrites writes;
          inside.writes = &writes;
          std::optional<BodyValues> given = body.put(source, shared, inside);
          if (!given) return std::nullopt;
          return Trip{.word = {}, .carries = std::move(*given)};
        });
    if (!made) return std::nullopt;
    outputs = made->carries;
  }
  return outputs;
}

std::optional<BodyValues> BodyInliner::while_region(const Node& node, const BodyPlace& place) {
  const int64_t bound =
      AttributeReader(*find_op(node.op), node.attributes).integer("max_iterations");
  BodyValues carries = inputs_from(node, 0);
  const BodyValues behind(carries.begin() + static_cast<ptrdiff_t>(node.outputs.size()),
                          carries.end());
  carries.resize(node.outputs.size());
  StateWrites writes = *place.writes;
  BodyPlace first = place;
  first.path += ".first";
  first.writes = &writes;
  const std::optional<BodyValues> begins =
      put(*node.bodies[kWhileCondition], joined(carries, behind), first);
  if (!begins) return std::nullopt;
  const std::optional<bool> known = known_truth(begins->front());
  if (known && !*known) return carries;
  const int64_t together = trips_ahead(node, bound);
  const auto made =
      repeat({.kind = RegionKind::While,
              .trips = bound / together,
              .word = word_of(begins->front(), place.path),
              .carries = carries,
              .shared = behind},
             place, [&](BodyInliner& body, const BodyValues& now, const BodyValues& shared) {
               std::optional<Trip> trip = body.while_trip(node, place.shift, now, shared, {});
               for (int64_t t = 1; t < together && trip; ++t)
                 trip = body.while_trip(node, place.shift, trip->carries, shared, trip->word);
               if (!trip) return trip;
               if (body.known_truth(*trip->word).value_or(false)) {
                 fail_endless(node, bound);
                 return std::optional<Trip>();
               }
               trip->word = body.word_of(*trip->word, "trip");
               return trip;
             });
  if (!made) return std::nullopt;
  tell_at_bound(node, bound, *made->word, place);
  return made->carries;
}

std::optional<BodyInliner::Trip> BodyInliner::while_trip(const Node& node, uint32_t shift,
                                                         const BodyValues& now,
                                                         const BodyValues& shared,
                                                         std::optional<ValueId> active) {
  StateWrites writes;
  if (active) active = flag(*active, "trip");
  const BodyPlace inside{.path = "trip", .shift = shift, .active = active, .writes = &writes};
  const std::optional<BodyValues> given =
      put(*node.bodies[kWhileBody], joined(now, shared), inside);
  if (!given) return std::nullopt;
  BodyValues next = now;
  choose_carries(next, *given, 0, active, "trip");
  const std::optional<BodyValues> on =
      put(*node.bodies[kWhileCondition], joined(next, shared), inside);
  if (!on) return std::nullopt;
  return Trip{.word = on->front(), .carries = std::move(next)};
}

std::optional<BodyValues> BodyInliner::loop_region(const Node& node, const BodyPlace& place) {
  const LoopForm form = loop_form(node);
  const BodyValues behind = inputs_from(node, own_input_count(node));
  const std::optional<ValueId> trips = trip_count(node, place);
  const Tensor* known = trips ? known_.find(module_, graph_, *trips) : nullptr;
  const bool is_asked = trips && known == nullptr;
  const bool is_counted = known != nullptr && known->integers.front() <= form.max_iterations;
  const int64_t last = is_counted ? known->integers.front() : form.max_iterations;
  // The run may end it before, or it may want to go on behind its bound.
  Going going;
  const std::string begins = place.path + ".word";
  if (node.inputs[kLoopCondition]) go_on(going, *node.inputs[kLoopCondition], begins);
  const int64_t together =
      is_asked && !going.holds && !going.has_ended ? trips_together(module_, node) : 1;
  if (is_asked) going.holds = both(going.holds, emit("gt", {trips, number(0)}, begins), begins);
  BodyValues carries;
  for (size_t i = 0; i < form.carries; ++i) carries.push_back(*node.inputs[kLoopFirstCarry + i]);
  for (size_t i = 0; i < form.rows; ++i) {
    carries.push_back(
        empty_rows(node.bodies[0]->value(node.bodies[0]->outputs()[1 + form.carries + i]).type,
                   form.max_iterations, place));
  }
  // Which trip it is, where anybody asks.
  const bool has_index =
      reads_first_input(*node.bodies[0]) || form.rows > 0 || form.has_count || is_asked;
  if (has_index) carries.push_back(number(0));
  Repeated made{.word = {}, .carries = carries};
  if (together > 1) {
    const std::optional<BodyValues> counted = trips_in_groups(
        node, place, {.trips = *trips, .together = together, .carries = carries, .shared = behind});
    if (!counted) return std::nullopt;
    made.carries = *counted;
  } else if (!going.has_ended && last > 0) {
    Repeat what{.kind = RegionKind::While,
                .trips = last,
                .word = word_of(going.holds.value_or(truth(true)), place.path),
                .carries = carries,
                .shared = behind};
    if (is_asked) what.shared.push_back(*trips);
    const auto repeated = repeat(
        std::move(what), place,
        [&](BodyInliner& body, const BodyValues& now, const BodyValues& shared) {
          std::optional<Trip> trip = body.loop_trip(node, place.shift, now, shared);
          if (!trip) return trip;
          Going goes;
          body.go_on(goes, *trip->word, "trip");
          if (is_asked) {
            const ValueId more = body.emit("lt", {trip->carries.back(), shared.back()}, "trip");
            goes.holds = body.both(goes.holds, more, "trip");
          }
          if (goes.has_ended) goes.holds = body.truth(false);
          // A loop that its count alone ends, once it has begun, has no word.
          trip->word.reset();
          if (goes.holds || going.holds)
            trip->word = body.word_of(goes.holds.value_or(body.truth(true)), "trip");
          return trip;
        });
    if (!repeated) return std::nullopt;
    made = *repeated;
  }
  const bool is_over = going.has_ended || is_counted;
  if (!is_over && !made.word && together == 1) return fail_endless(node, last);
  BodyValues outputs(made.carries.begin(),
                     made.carries.begin() + static_cast<ptrdiff_t>(form.carries));
  for (size_t i = 0; i < form.rows; ++i)
    outputs.push_back(rows_on_axis(made.carries[form.carries + i], 0, place));
  if (form.has_count) outputs.push_back(made.carries.back());
  if (is_over) return outputs;
  const ValueId goes_on = together > 1 ? emit("gt", {trips, number(last)}, place.path) : *made.word;
  tell_at_bound(node, last, goes_on, place);
  return outputs;
}

std::optional<BodyInliner::Trip> BodyInliner::loop_trip(const Node& node, uint32_t shift,
                                                        const BodyValues& now,
                                                        const BodyValues& shared) {
  const LoopForm form = loop_form(node);
  const bool has_index = now.size() > form.carries + form.rows;
  StateWrites writes;
  const BodyPlace inside{.path = "trip", .shift = shift, .writes = &writes};
  const ValueId index = has_index ? now.back() : number(0);
  const size_t captures = node.bodies[0]->inputs.size() - kRegionFirstInput - form.carries;
  BodyValues arguments = {index, truth(true)};
  arguments.insert(arguments.end(), now.begin(),
                   now.begin() + static_cast<ptrdiff_t>(form.carries));
  arguments.insert(arguments.end(), shared.begin(),
                   shared.begin() + static_cast<ptrdiff_t>(captures));
  const std::optional<BodyValues> given = put(*node.bodies[0], arguments, inside);
  if (!given) return std::nullopt;
  Trip trip{
      .word = given->front(),
      .carries = {given->begin() + 1, given->begin() + 1 + static_cast<ptrdiff_t>(form.carries)}};
  for (size_t i = 0; i < form.rows; ++i) {
    trip.carries.push_back(
        with_row(now[form.carries + i], given->at(1 + form.carries + i), index, "trip"));
  }
  if (has_index) trip.carries.push_back(emit("add", {index, number(1)}, "trip"));
  return trip;
}

std::optional<BodyValues> BodyInliner::trips_in_groups(const Node& node, const BodyPlace& place,
                                                       const CountedTrips& counted) {
  const int64_t most = loop_form(node).max_iterations;
  const std::string begins = place.path + ".word";
  const ValueId count = emit("min", {counted.trips, number(most)}, begins);
  const BodyValues shared = joined(counted.shared, {count});
  BodyValues carries = counted.carries;
  for (const int64_t trips : {counted.together, int64_t{1}}) {
    // Another group begins where the trips behind this one are enough for it.
    const auto has_group = [trips](BodyInliner& graph, ValueId index, ValueId all,
                                   const std::string& path) {
      const ValueId end = graph.emit("add", {index, graph.number(trips)}, path);
      return graph.word_of(graph.emit("le", {end, all}, path), path);
    };
    const auto made =
        repeat({.kind = RegionKind::While,
                .trips = trips > 1 ? most / trips : counted.together - 1,
                .word = has_group(*this, carries.back(), count, begins),
                .carries = carries,
                .shared = shared},
               place, [&](BodyInliner& body, const BodyValues& now, const BodyValues& captured) {
                 std::optional<Trip> trip = Trip{.word = {}, .carries = now};
                 for (int64_t t = 0; t < trips && trip; ++t)
                   trip = body.loop_trip(node, place.shift, trip->carries, captured);
                 if (trip)
                   trip->word = has_group(body, trip->carries.back(), captured.back(), "trip");
                 return trip;
               });
    if (!made) return std::nullopt;
    carries = made->carries;
  }
  return carries;
}

std::optional<BodyValues> BodyInliner::scan_region(const Node& node, const BodyPlace& place) {
  const ScanForm form = scan_form(graph_, node);
  const BodyValues inputs = inputs_from(node, 0);
  BodyValues carries(inputs.begin(), inputs.begin() + static_cast<ptrdiff_t>(form.carries));
  for (size_t i = 0; i < form.stacked; ++i) {
    carries.push_back(
        empty_rows(node.bodies[0]->value(node.bodies[0]->outputs()[form.carries + i]).type,
                   form.length, place));
  }
  // Which step it is, where anybody asks.
  const bool has_step = form.sliced + form.stacked > 0;
  if (has_step) carries.push_back(number(form.step_at(0)));
  const auto made = repeat(
      {.kind = RegionKind::Counted,
       .trips = form.length,
       .word = {},
       .carries = carries,
       .shared = {inputs.begin() + static_cast<ptrdiff_t>(form.carries), inputs.end()}},
      place, [&](BodyInliner& body, const BodyValues& now, const BodyValues& shared) {
        StateWrites writes;
        const BodyPlace inside{.path = "trip", .shift = place.shift, .writes = &writes};
        const ValueId step = now.back();  // where it is carried
        BodyValues arguments(now.begin(), now.begin() + static_cast<ptrdiff_t>(form.carries));
        for (size_t i = 0; i < shared.size(); ++i) {
          const bool is_sliced = i >= form.shared && i < form.shared + form.sliced;
          arguments.push_back(
              is_sliced ? body.row_at(shared[i], form.x_axes[i - form.shared], step, "trip")
                        : shared[i]);
        }
        std::optional<Trip> trip;
        std::optional<BodyValues> given = body.put(*node.bodies[0], arguments, inside);
        if (!given) return trip;
        for (size_t i = 0; i < form.stacked; ++i) {
          ValueId& row = given->at(form.carries + i);
          row = body.with_row(now[form.carries + i], row, step, "trip");
        }
        if (has_step)
          given->push_back(body.emit("add", {step, body.number(form.reverse ? -1 : 1)}, "trip"));
        trip = Trip{.word = {}, .carries = std::move(*given)};
        return trip;
      });
  if (!made) return std::nullopt;
  BodyValues outputs(made->carries.begin(),
                     made->carries.begin() + static_cast<ptrdiff_t>(form.carries));
  for (size_t i = 0; i < form.stacked; ++i)
    outputs.push_back(rows_on_axis(made->carries[form.carries + i], form.y_axes[i], place));
  return outputs;
}

ValueId BodyInliner::empty_rows(const TensorType& row, int64_t trips, const BodyPlace& place) {
  TensorType type = row;
  type.shape.insert(type.shape.begin(), {Dim(1), Dim(trips)});
  return zeros(type, place);
}

ValueId BodyInliner::with_row(ValueId rows, ValueId row, ValueId index, const std::string& path) {
  Shape shape = graph_.value(row).type.shape;
  shape.insert(shape.begin(), {Dim(1), Dim(1)});
  const ValueId line = emit("reshape", {row}, path, {{"shape", Ints(shape.begin(), shape.end())}});
  return emit("kv_append", {rows, line, index}, path, {{"axis", int64_t{1}}});
}

ValueId BodyInliner::rows_on_axis(ValueId rows, int64_t axis, const BodyPlace& place) {
  const Shape& shape = graph_.value(rows).type.shape;
  const Ints side_by_side(shape.begin() + 1, shape.end());
  ValueId result = emit("reshape", {rows}, place.path, {{"shape", side_by_side}});
  if (axis == 0) return result;
  Ints order;
  for (int64_t i = 1; i <= axis; ++i) order.push_back(i);
  order.push_back(0);
  for (size_t i = order.size(); i < side_by_side.size(); ++i)
    order.push_back(static_cast<int64_t>(i));
  return emit("transpose", {result}, place.path, {{"perm", order}});
}

ValueId BodyInliner::row_at(ValueId whole, int64_t axis, ValueId index, const std::string& path) {
  return emit("gather", {whole, index}, path, {{"axis", axis}, {"checked", false}});
}

}  // namespace rlx
