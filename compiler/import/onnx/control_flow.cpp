// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/onnx/control_flow.h"

#include <algorithm>
#include <cmath>

#include "compiler/import/impossible_branch.h"
#include "compiler/import/names.h"
#include "compiler/import/onnx/node_counts.h"
#include "compiler/import/onnx/padding.h"
#include "compiler/import/onnx/refusal.h"
#include "compiler/import/onnx/stand_ins.h"

namespace rlx::onnx_import {
namespace {

// Trips that are put one behind the other; a loop of more is a node.
constexpr int64_t kMostTrips = int64_t{1} << 16;
constexpr int64_t kNoBound = (int64_t{1} << 31) - 1;  // as a trip count, and what is larger
constexpr int64_t kOldestScan = 9;  // before, scans went over batches of sequences

using Values = std::vector<ValueId>;

const onnx::GraphProto& graph_of(NodeReader& reader, std::string_view name) {
  const onnx::AttributeProto* attribute = reader.attribute(name);
  if (attribute == nullptr || !attribute->has_g())
    reader.refuse("attribute " + in_quotes(name) + " is no graph");
  return attribute->g();
}

// The truth of a condition of one element, where it is known.
std::optional<bool> known_truth(NodeReader& reader, ValueId id) {
  const Tensor* known = reader.builder().known(id);
  if (known == nullptr || known->is_float() || known->count() != 1) return std::nullopt;
  return known->integers.front() != 0;
}

void check_condition(NodeReader& reader, ValueId id, const std::string& what) {
  const TensorType& type = reader.type(id);
  if (type.dtype == DType::bool_ && element_count(type.shape) == 1) return;
  reader.refuse(what + " is " + to_string(type) + ", wanted one bool");
}

void check_counts(NodeReader& reader, const onnx::GraphProto& graph, size_t inputs,
                  size_t least_outputs) {
  if (static_cast<size_t>(graph.input_size()) != inputs)
    reader.refuse("its graph has " + std::to_string(graph.input_size()) + " inputs, wanted " +
                  std::to_string(inputs));
  if (static_cast<size_t>(graph.output_size()) < least_outputs)
    reader.refuse("its graph has " + std::to_string(graph.output_size()) + " outputs, wanted " +
                  std::to_string(least_outputs) + " at least");
}

void set_outputs(NodeReader& reader, const Values& values) {
  if (reader.output_count() > values.size())
    reader.refuse("it has " + std::to_string(reader.output_count()) + " outputs, its graph gives " +
                  std::to_string(values.size()));
  for (size_t i = 0; i < reader.output_count(); ++i) reader.set_output(i, values[i]);
}

struct BodyInput {
  TensorType type;
  const StandIn* stand_in = nullptr;
};

// A graph as a body with these inputs.
Builder::Body body_of(NodeReader& reader, const ControlFlow& control, std::string name,
                      const onnx::GraphProto& graph, const std::vector<BodyInput>& inputs) {
  Builder& builder = reader.builder();
  Builder::Body body{.name = std::move(name), .index = builder.begin_body()};
  try {
    for (size_t i = 0; i < inputs.size(); ++i) {
      body.inputs.push_back(
          builder.add_body_input(graph.input(static_cast<int>(i)).name(), inputs[i].type));
      builder.mark_stand_in(body.inputs.back(), inputs[i].stand_in);
    }
    body.outputs = control.put(graph, body.inputs);
  } catch (...) {
    builder.end_body();
    throw;
  }
  builder.end_body();
  return body;
}

// Results of a loop stand for what its body gives: carries, which stand for that before it too, and
// rows.
void mark_results(Builder& builder, const Values& results, const Values& carries,
                  const Values& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    builder.mark_stand_in(results[i], i < carries.size()
                                          ? common_stand_in(builder, carries[i], given[i])
                                          : builder.stand_in(given[i]));
  }
}

// A branch that only the run decides on, or what is wrong with its shapes.
struct Branch {
  std::string name;
  const onnx::GraphProto& graph;
  Builder::Body body = {};
  std::optional<Diagnostics> faults = {};

  void put(NodeReader& reader, const ControlFlow& control) {
    faults = control.faults_of_shapes([&] { body = body_of(reader, control, name, graph, {}); });
  }
  // As one that the run may not take: results of the other one's types, and an assertion.
  void leave_out(NodeReader& reader, const ControlFlow& control, const Branch& other) {
    const std::string told = rlx::leave_out({.op = reader.op(),
                                             .node = reader.builder().stem(),
                                             .name = name,
                                             .place = reader.builder().place(),
                                             .has_free_sizes = control.has_free_sizes},
                                            *faults, control.diagnostics);
    body = {.name = name, .inputs = {}, .outputs = {}, .index = reader.builder().begin_body()};
    reader.emit("assert", {reader.constant(impossible_element(DType::bool_))}, {{"message", told}});
    for (const ValueId output : other.body.outputs) {
      const TensorType& type = reader.type(output);
      body.outputs.push_back(reader.emit("expand",
                                         {reader.constant(impossible_element(type.dtype))},
                                         {{"shape", Ints(type.shape)}}));
      reader.builder().mark_stand_in(body.outputs.back(), reader.builder().stand_in(output));
    }
    reader.builder().end_body();
  }
};

// Both branches. Those that cannot be are reported, with what would leave them out; one of two
// that cannot be at these shapes is left out.
void put_branches(NodeReader& reader, const ControlFlow& control, Branch& taken, Branch& other) {
  Branch* at = &taken;
  try {
    taken.put(reader, control);
    at = &other;
    other.put(reader, control);
    if (taken.faults && other.faults) {
      for (const Branch* branch : {&taken, &other}) {
        for (const Diagnostic& fault : branch->faults->all()) control.diagnostics.add(fault);
      }
      throw SkippedNode();
    }
  } catch (const SkippedNode&) {
    reader.known(
        0, "the condition, which would leave out the branch \"" + at->name + "\" that cannot be");
    throw;
  }
  if (taken.faults) taken.leave_out(reader, control, other);
  if (other.faults) other.leave_out(reader, control, taken);
}

// The axis along which two results of branches end elsewhere, or one of them where the run says;
// nullopt: they end alike.
std::optional<size_t> uneven_axis(NodeReader& reader, ValueId taken, ValueId other) {
  const TensorType& first = reader.type(taken);
  const TensorType& second = reader.type(other);
  std::optional<size_t> axis;
  for (const ValueId id : {taken, other}) {
    if (const Padding* padding = reader.builder().padding(id)) axis = padding->axis;
  }
  if (first == second) return axis;
  if (first.dtype != second.dtype || first.shape.size() != second.shape.size()) return std::nullopt;
  for (size_t i = 0; i < first.shape.size(); ++i) {
    if (first.shape[i] != second.shape[i]) axis = i;
  }
  return axis;
}

// One of two values, which may end elsewhere along one axis: as long as the longer one, with a
// count. nullopt where more than that is different.
std::optional<ValueId> either(NodeReader& reader, ValueId condition, ValueId taken, ValueId other) {
  Builder& builder = reader.builder();
  const std::optional<size_t> axis = uneven_axis(reader, taken, other);
  if (!axis) {
    if (reader.type(taken) != reader.type(other)) return std::nullopt;
    return reader.emit("where", {condition, taken, other});
  }
  const int64_t rows =
      std::max<int64_t>(reader.type(taken).shape[*axis], reader.type(other).shape[*axis]);
  std::vector<ValueId> values;
  std::vector<ValueId> counts;
  for (ValueId id : {taken, other}) {
    const Padding* padding = builder.padding(id);
    if (padding != nullptr && padding->axis != *axis) return std::nullopt;
    const int64_t own = reader.type(id).shape[*axis];
    counts.push_back(padding != nullptr ? padding->count : count_scalar(builder, own));
    id = bare_rows(builder, id);
    if (own < rows) {
      Ints pads(2 * reader.type(id).shape.size(), 0);
      pads[reader.type(id).shape.size() + *axis] = rows - own;
      id = reader.emit("pad", {id}, {{"pads", pads}});
    }
    values.push_back(id);
  }
  if (reader.type(values[0]) != reader.type(values[1])) return std::nullopt;
  const ValueId count = reader.emit("where", {condition, counts[0], counts[1]});
  if (builder.counts(count) == nullptr) builder.set_count(count, rows);
  const ValueId result = reader.emit("where", {condition, values[0], values[1]});
  builder.set_padding(result, {.axis = *axis, .count = count});
  return result;
}

// Both branches in place, where their results end elsewhere along an axis. False where they are
// more different than that.
bool put_uneven_branches(NodeReader& reader, const ControlFlow& control,
                         const onnx::GraphProto& then_graph, const onnx::GraphProto& else_graph) {
  const ValueId condition = reader.reshape(reader.input(0), {});
  const Values taken = control.put(then_graph, {});
  const Values other = control.put(else_graph, {});
  Values results;
  for (size_t i = 0; i < taken.size(); ++i) {
    const std::optional<ValueId> result = either(reader, condition, taken[i], other[i]);
    if (!result) return false;
    results.push_back(*result);
  }
  set_outputs(reader, results);
  return true;
}

void import_if(NodeReader& reader, const ControlFlow& control) {
  const ValueId condition = reader.input(0);
  check_condition(reader, condition, "the condition");
  const onnx::GraphProto& then_graph = graph_of(reader, "then_branch");
  const onnx::GraphProto& else_graph = graph_of(reader, "else_branch");
  if (const std::optional<bool> known = known_truth(reader, condition)) {
    set_outputs(reader, control.put(*known ? then_graph : else_graph, {}));
    return;
  }
  Branch then_branch{.name = "then", .graph = then_graph};
  Branch else_branch{.name = "else", .graph = else_graph};
  put_branches(reader, control, then_branch, else_branch);
  const Builder::Body& taken = then_branch.body;
  const Builder::Body& other = else_branch.body;
  if (taken.outputs.size() != other.outputs.size())
    reader.refuse("its branches give " + std::to_string(taken.outputs.size()) + " and " +
                  std::to_string(other.outputs.size()) + " outputs");
  bool is_uneven = false;
  for (size_t i = 0; i < taken.outputs.size(); ++i) {
    is_uneven = is_uneven || reader.type(taken.outputs[i]) != reader.type(other.outputs[i]) ||
                reader.builder().padding(taken.outputs[i]) != nullptr ||
                reader.builder().padding(other.outputs[i]) != nullptr;
  }
  const bool can_be = !then_branch.faults && !else_branch.faults;
  if (is_uneven && can_be && put_uneven_branches(reader, control, then_graph, else_graph)) return;
  std::vector<TensorType> types;
  for (size_t i = 0; i < taken.outputs.size(); ++i) {
    types.push_back(reader.type(taken.outputs[i]));
    const TensorType& second = reader.type(other.outputs[i]);
    if (types.back() == second) continue;
    // A condition that is known would decide; this says which inputs it depends on.
    reader.known(0, "the condition between output " + std::to_string(i) + " of " +
                        to_string(types.back()) + " and of " + to_string(second));
  }
  const Values results =
      reader.builder().emit_control("if", {condition}, {}, {taken, other}, types);
  for (size_t i = 0; i < results.size(); ++i) {
    reader.builder().mark_stand_in(
        results[i], common_stand_in(reader.builder(), taken.outputs[i], other.outputs[i]));
  }
  set_outputs(reader, results);
}

// One Loop.
class LoopImport {
 public:
  LoopImport(NodeReader& reader, const ControlFlow& control)
      : reader_(reader), control_(control), graph_(graph_of(reader, "body")) {
    trips_ = reader.optional_input(0);
    condition_ = reader.optional_input(1);
    for (size_t i = 2; i < reader.input_count(); ++i) carries_.push_back(reader.any_input(i));
    check_counts(reader, graph_, 2 + carries_.size(), 1 + carries_.size());
    row_count_ = static_cast<size_t>(graph_.output_size()) - 1 - carries_.size();
    if (condition_) check_condition(reader, *condition_, "the condition");
    if (trips_) known_trips_ = count_of(*trips_);
  }

  void import() {
    if (!put_in_place()) make_node();
  }

 private:
  // The number of trips where it is known; the largest integers mean that there is none.
  std::optional<int64_t> count_of(ValueId id) {
    const Tensor* known = reader_.builder().known(id);
    if (reader_.type(id).dtype != DType::i64 || element_count(reader_.type(id).shape) != 1)
      reader_.refuse("the trip count is " + to_string(reader_.type(id)) + ", wanted one i64");
    if (known == nullptr) return std::nullopt;
    if (known->integers.front() > kMostTrips) {
      trips_.reset();
      if (known->integers.front() < kNoBound) too_many_trips_ = known->integers.front();
    }
    return trips_ ? std::optional(std::max<int64_t>(known->integers.front(), 0)) : std::nullopt;
  }

  ValueId number(int64_t value) { return reader_.constant_ints(DType::i64, {}, {value}); }
  ValueId truth() { return reader_.constant_ints(DType::bool_, {}, {1}); }

  // The trips one behind the other, each with types of its own. False where something that decides
  // how many there are is not known: what was made then is read by nothing.
  bool put_in_place() {
    if (trips_ && !known_trips_) return false;
    std::optional<bool> goes_on = condition_ ? known_truth(reader_, *condition_) : true;
    if (!goes_on) return false;
    Values carries = carries_;
    std::vector<Values> rows(row_count_);
    const uint64_t nodes_before = reader_.builder().node_count();
    for (int64_t t = 0; goes_on == true && (!trips_ || t < *known_trips_); ++t) {
      if (t == kMostTripsInPlace) return false;
      // Loops inside loops are refused by what the first trip took, not when memory is full of
      // them.
      if (t == 1 && trips_)
        reader_.builder().expect_nodes((reader_.builder().node_count() - nodes_before) *
                                       static_cast<uint64_t>(*known_trips_ - 1));
      Values inputs = {number(t), truth()};
      inputs.insert(inputs.end(), carries.begin(), carries.end());
      const Values given = control_.put(graph_, inputs);
      goes_on = known_truth(reader_, given.front());
      const bool is_last = trips_ && t + 1 == *known_trips_;
      if (!goes_on && !is_last) return false;
      for (size_t i = 0; i < carries.size(); ++i) carries[i] = given[1 + i];
      for (size_t i = 0; i < row_count_; ++i) rows[i].push_back(given[1 + carries.size() + i]);
    }
    for (size_t i = 0; i < row_count_; ++i) carries.push_back(stacked(rows[i], i));
    set_outputs(reader_, carries);
    return true;
  }

  ValueId stacked(const Values& rows, size_t i) {
    if (!rows.empty())
      return reader_.emit("stack", Inputs(rows.begin(), rows.end()), {{"axis", int64_t{0}}});
    // No trip: a body that nothing reads says what a row would be.
    TensorType type = reader_.type(make_body().outputs[1 + carries_.size() + i]);
    type.shape.insert(type.shape.begin(), 0);
    return reader_.constant(Tensor::zeros(type));
  }

  Builder::Body make_body() {
    std::vector<BodyInput> inputs = {{.type = {DType::i64, {}}}, {.type = {DType::bool_, {}}}};
    for (size_t i = 0; i < carries_.size(); ++i) {
      const ValueId carry = reader_.input(2 + i);  // a sequence is refused
      inputs.push_back(
          {.type = reader_.type(carry), .stand_in = reader_.builder().stand_in(carry)});
    }
    return body_of(reader_, control_, "body", graph_, inputs);
  }

  // Reports what would put its trips in place, where more was known.
  void want_in_place() {
    const std::string why = ", which would put its trips in place one by one";
    if (trips_ && !known_trips_) reader_.known(0, "its trip count" + why);
    if (condition_) reader_.known(1, "its condition" + why);
  }

  // Of a body that cannot be, or gives rows of which only the run knows how many count.
  Builder::Body make_node_body() {
    try {
      Builder::Body body = make_body();
      const bool has_counts = std::ranges::any_of(body.outputs, [this](ValueId output) {
        return reader_.builder().padding(output) != nullptr;
      });
      if (has_counts) want_in_place();
      return body;
    } catch (const SkippedNode&) {
      want_in_place();
      throw;
    }
  }

  int64_t bound() {
    if (known_trips_) return *known_trips_;
    if (control_.max_iterations) return *control_.max_iterations;
    // Says which inputs they depend on.
    const std::string bound = " (or --max-iterations N the most trips)";
    if (trips_) reader_.known(0, "its trip count" + bound);
    if (condition_) reader_.known(1, "its condition" + bound);
    if (too_many_trips_)
      reader_.refuse("it may take " + std::to_string(*too_many_trips_) + " trips, wanted at most " +
                         std::to_string(kMostTrips),
                     "give the most that there may be with --max-iterations N");
    reader_.refuse("how many trips it takes is known only in the run",
                   "give the most that there may be with --max-iterations N");
  }

  void make_node() {
    const int64_t most = bound();
    const Builder::Body body = make_node_body();
    check_condition(reader_, body.outputs.front(), "the body's condition");
    std::vector<TensorType> types;
    for (size_t i = 1; i < body.outputs.size(); ++i) {
      types.push_back(reader_.type(body.outputs[i]));
      const size_t carry = i - 1;
      if (carry >= carries_.size()) {
        types.back().shape.insert(types.back().shape.begin(), most);
      } else if (types.back() != reader_.type(carries_[carry])) {
        reader_.refuse_shapes("carry " + std::to_string(carry) + " is " + to_string(types.back()) +
                                  " after the body, " + to_string(reader_.type(carries_[carry])) +
                                  " before it",
                              "a loop whose end only the run knows carries tensors of one type");
      }
    }
    types.push_back({DType::i64, {}});
    Inputs inputs = {trips_, condition_};
    inputs.insert(inputs.end(), carries_.begin(), carries_.end());
    Values outputs =
        reader_.builder().emit_control("loop", inputs, {{"max_iterations", most}}, {body}, types);
    mark_results(reader_.builder(), outputs, carries_,
                 Values(body.outputs.begin() + 1, body.outputs.end()));
    if (row_count_ > 0) control_.counts.push_back(outputs.back());
    outputs.pop_back();
    set_outputs(reader_, outputs);
  }

  NodeReader& reader_;
  const ControlFlow& control_;
  const onnx::GraphProto& graph_;
  std::optional<ValueId> trips_;
  std::optional<ValueId> condition_;
  std::optional<int64_t> too_many_trips_;  // a count that is known, and that no loop may have
  std::optional<int64_t> known_trips_;
  Values carries_;
  size_t row_count_ = 0;
};

// Per input or output that is cut into steps: its axis, not negative, and whether it goes
// backwards.
struct Steps {
  Ints axes;
  std::vector<bool> backwards;
};

Steps steps_of(NodeReader& reader, const std::string& prefix, const std::vector<int64_t>& ranks) {
  const Ints directions = reader.integers(prefix + "_directions", Ints(ranks.size(), 0));
  Steps steps{.axes = reader.integers(prefix + "_axes", Ints(ranks.size(), 0)), .backwards = {}};
  if (directions.size() != ranks.size() || steps.axes.size() != ranks.size())
    reader.refuse(prefix + "_axes and " + prefix + "_directions want " +
                  std::to_string(ranks.size()) + " numbers each");
  for (size_t i = 0; i < ranks.size(); ++i) {
    steps.axes[i] = reader.axis(steps.axes[i], ranks[i]);
    if (directions[i] != 0 && directions[i] != 1)
      reader.refuse(prefix + "_directions holds " + to_string(directions[i]) + ", wanted 0 or 1");
    steps.backwards.push_back(directions[i] == 1);
  }
  return steps;
}

void import_scan(NodeReader& reader, const ControlFlow& control) {
  if (reader.opset() < kOldestScan)
    reader.refuse("before opset 9 it goes over batches of sequences",
                  "convert the model to opset 9 or newer");
  const onnx::GraphProto& graph = graph_of(reader, "body");
  const int64_t sliced = reader.required_integer("num_scan_inputs");
  if (sliced < 1 || static_cast<size_t>(sliced) > reader.input_count())
    reader.refuse("num_scan_inputs is " + std::to_string(sliced) + ", of " +
                  std::to_string(reader.input_count()) + " inputs");
  const size_t carries = reader.input_count() - static_cast<size_t>(sliced);
  check_counts(reader, graph, reader.input_count(), carries);
  std::vector<int64_t> ranks;
  for (size_t i = carries; i < reader.input_count(); ++i) {
    if (reader.rank(i) == 0) reader.refuse_shapes("input " + std::to_string(i) + " is a scalar");
    ranks.push_back(reader.rank(i));
  }
  const Steps xs = steps_of(reader, "scan_input", ranks);
  Inputs inputs;
  std::vector<BodyInput> body_inputs;
  Values carried;
  int64_t length = 0;
  for (size_t i = 0; i < reader.input_count(); ++i) {
    ValueId input = reader.input(i);
    TensorType type = reader.type(input);
    if (i >= carries) {
      const int64_t axis = xs.axes[i - carries];
      const int64_t rows = type.shape[static_cast<size_t>(axis)];
      if (i > carries && rows != length)
        reader.refuse_shapes("input " + std::to_string(i) + " has " + std::to_string(rows) +
                             " steps, input " + std::to_string(carries) + " has " +
                             std::to_string(length));
      length = rows;
      type.shape.erase(type.shape.begin() + static_cast<ptrdiff_t>(axis));
      if (xs.backwards[i - carries])
        input = reader.emit("reverse", {input}, {{"axes", Ints{axis}}});
    }
    inputs.emplace_back(input);
    if (i < carries) carried.push_back(input);
    body_inputs.push_back({.type = std::move(type), .stand_in = reader.builder().stand_in(input)});
  }
  const Builder::Body body = body_of(reader, control, "body", graph, body_inputs);
  std::vector<TensorType> results;
  ranks.clear();
  for (size_t i = 0; i < body.outputs.size(); ++i) {
    results.push_back(reader.type(body.outputs[i]));
    if (i >= carries) ranks.push_back(static_cast<int64_t>(results[i].shape.size()) + 1);
    if (i < carries && results[i] != body_inputs[i].type)
      reader.refuse_shapes("carry " + std::to_string(i) + " is " + to_string(results[i]) +
                           " after the body, " + to_string(body_inputs[i].type) + " before it");
  }
  const Steps ys = steps_of(reader, "scan_output", ranks);
  for (size_t i = carries; i < results.size(); ++i) {
    Shape& shape = results[i].shape;
    const int64_t axis = ys.axes[i - carries];
    shape.insert(shape.begin() + static_cast<ptrdiff_t>(axis), length);
  }
  Values outputs = reader.builder().emit_control("scan", inputs,
                                                 {{"num_carry", static_cast<int64_t>(carries)},
                                                  {"length", length},
                                                  {"x_axes", xs.axes},
                                                  {"y_axes", ys.axes}},
                                                 {body}, results);
  mark_results(reader.builder(), outputs, carried, body.outputs);
  for (size_t i = carries; i < outputs.size(); ++i) {
    if (!ys.backwards[i - carries]) continue;
    outputs[i] = reader.emit("reverse", {outputs[i]}, {{"axes", Ints{ys.axes[i - carries]}}});
  }
  set_outputs(reader, outputs);
}

// What the graph makes of x, whose type it keeps; x where there is none.
ValueId modified(NodeReader& reader, const ControlFlow& control, std::string_view graph_name,
                 ValueId x) {
  if (!reader.has(graph_name)) return x;
  const onnx::GraphProto& graph = graph_of(reader, graph_name);
  check_counts(reader, graph, 1, 1);
  const ValueId y = control.put(graph, {x}).front();
  if (reader.type(y) != reader.type(x))
    reader.refuse("its graph " + std::string(graph_name) + " makes " + to_string(reader.type(y)) +
                  " of " + to_string(reader.type(x)));
  return y;
}

void import_flex_attention(NodeReader& reader, const ControlFlow& control) {
  enum : size_t { kQ, kK, kV };
  for (const size_t input : {kQ, kK, kV}) {
    if (reader.rank(input) != 4)
      reader.refuse_shapes("input " + std::to_string(input) + " is " +
                           to_string(reader.shape(input)) + ", wanted rank 4");
  }
  const DType dtype = reader.dtype(kQ);
  const DType natural = dtype == DType::f64 ? DType::f64 : DType::f32;
  const DType wide =
      reader.has("softmax_precision")
          ? dtype_of(reader.required_integer("softmax_precision"), "softmax_precision")
          : natural;
  const int64_t heads = reader.shape(kQ)[1];
  const int64_t kv_heads = reader.shape(kK)[1];
  if (kv_heads < 1 || heads % kv_heads != 0)
    reader.refuse_shapes(std::to_string(heads) + " heads of Q do not share " +
                         std::to_string(kv_heads) + " heads of K evenly");
  const auto of_each_head = [&](size_t input) {
    const Attributes repeats = {{"axis", int64_t{1}}, {"repeats", heads / kv_heads}};
    return heads == kv_heads ? reader.input(input)
                             : reader.emit("repeat_interleave", {reader.input(input)}, repeats);
  };
  const double size = static_cast<double>(reader.shape(kQ)[3]);
  const double scale = reader.real("scale", 1 / std::sqrt(size));
  // Halves are multiplied as they are.
  const bool widens = wide == DType::f32 && (dtype == DType::f16 || dtype == DType::bf16);
  const DType multiplied = widens ? dtype : wide;
  const ValueId q = reader.cast(reader.input(kQ), multiplied);
  const ValueId k = reader.cast(of_each_head(kK), multiplied);
  const ValueId products =
      reader.emit("matmul", {q, k}, {{"trans_b", true}, {"out_dtype", std::string(name_of(wide))}});
  const ValueId scores = reader.emit("affine", {products}, {{"mul", scale}});
  const ValueId shares = reader.emit("softmax", {modified(reader, control, "score_mod", scores)});
  const ValueId used = modified(reader, control, "prob_mod", shares);
  reader.set_output(0, reader.emit("matmul", {reader.cast(used, dtype), of_each_head(kV)}));
}

}  // namespace

namespace {

// The graph for each element of the first sequence: of further inputs it is given the elements of
// sequences and the tensors themselves.
void import_sequence_map(NodeReader& reader, const ControlFlow& control) {
  const onnx::GraphProto& graph = graph_of(reader, "body");
  check_counts(reader, graph, reader.input_count(), 1);
  Builder& builder = reader.builder();
  const size_t count = reader.sequence(0).size();
  std::vector<Builder::Sequence> results(static_cast<size_t>(graph.output_size()));
  for (size_t element = 0; element < count; ++element) {
    Values given;
    for (size_t i = 0; i < reader.input_count(); ++i) {
      const ValueId id = reader.any_input(i);
      const Builder::Sequence* const sequence = builder.sequence(id);
      if (sequence != nullptr && sequence->size() != count)
        reader.refuse("input " + std::to_string(i) + " has " + std::to_string(sequence->size()) +
                      " elements, the first " + std::to_string(count));
      given.push_back(sequence != nullptr ? (*sequence)[element] : id);
    }
    const Values made = control.put(graph, given);
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(made[i]);
  }
  Values sequences;
  for (Builder::Sequence& result : results)
    sequences.push_back(builder.add_sequence(std::move(result)));
  set_outputs(reader, sequences);
}

}  // namespace

void import_with_graphs(NodeReader& reader, const ControlFlow& control) {
  if (reader.op() == "If") return import_if(reader, control);
  if (reader.op() == "SequenceMap") return import_sequence_map(reader, control);
  if (reader.op() == "Scan") return import_scan(reader, control);
  if (reader.op() == "FlexAttention") return import_flex_attention(reader, control);
  LoopImport(reader, control).import();
}

}  // namespace rlx::onnx_import
