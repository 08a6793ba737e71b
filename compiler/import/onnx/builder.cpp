// SPDX-License-Identifier: Apache-2.0
// The graph under construction.
#include "compiler/import/onnx/builder.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/import/names.h"
#include "compiler/import/onnx/padding.h"
#include "compiler/import/onnx/refusal.h"
#include "compiler/import/onnx/stand_ins.h"
#include "compiler/import/weights.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/support/blocks.h"

namespace rlx::onnx_import {
namespace {

// Values with more elements are left to the device and to the compiler's own folding.
constexpr int64_t kMostKnownElements = 4096;

bool is_one_integer(const TensorType& type) {
  return kind_of(type.dtype) == DTypeKind::Int && element_count(type.shape) == 1;
}

bool can_be_known(const TensorType& type) {
  const DTypeKind kind = kind_of(type.dtype);
  const bool has_elements = kind != DTypeKind::Storage || is_float8(type.dtype);
  return kind != DTypeKind::Complex && has_elements &&
         element_count(type.shape) <= kMostKnownElements;
}

[[noreturn]] void refuse(const Diagnostics& faults, const std::string& op) {
  Refusal refusal{.code = DiagCode::UnsupportedOp, .message = "", .hint = ""};
  for (const Diagnostic& fault : faults.all()) {
    if (fault.severity != Severity::Error) continue;
    refusal.code = fault.code;
    refusal.hint = fault.hint;
    refusal.message = "as op " + in_quotes(op) + " of rlx: " + fault.message;
    break;
  }
  throw refusal;
}

SourceAttribute source_of(const AttributeValue& value) {
  return std::visit([](const auto& typed) -> SourceAttribute { return typed; }, value);
}

SourceDims dims_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

HostBytes owned(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> view(*owner);
  return {.owner = std::move(owner), .bytes = view};
}

}  // namespace

void Builder::set_origin(std::string stem, SourcePlace place, std::string source) {
  stem_ = std::move(stem);
  place_ = std::move(place);
  source_ = std::move(source);
}

ValueId Builder::add_input(const std::string& name, TensorType type) {
  const ValueId id =
      graph_.add_value({.name = name, .type = std::move(type), .origin = ValueOrigin::Input});
  graph_.inputs.push_back(id);
  suggest_name(id, name);
  return id;
}

ValueId Builder::add_constant(const std::string& name, TensorType type, HostBytes data,
                              bool is_param) {
  const ValueId id =
      graph_.add_value({.name = name, .type = std::move(type), .origin = ValueOrigin::Weight});
  constants_.emplace(index_of(id), ConstantInfo{.data = std::move(data), .is_param = is_param});
  suggest_name(id, name);
  return id;
}

ValueId Builder::add_constant(const std::string& name, const Tensor& values) {
  const ValueId id = add_constant(name, values.type, owned(values.to_bytes()), false);
  if (can_be_known(values.type)) {
    Tensor rounded = values;
    rounded.round_to_dtype();
    known_.emplace(index_of(id), std::move(rounded));
  }
  return id;
}

ValueId Builder::emit(std::string_view op, Inputs inputs, Attributes attributes) {
  return emit_all(op, std::move(inputs), std::move(attributes), 1).front();
}

std::vector<ValueId> Builder::emit_all(std::string_view op, Inputs inputs, Attributes attributes,
                                       size_t output_count) {
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  for (const auto& input : inputs) {
    if (input && sequence(*input) != nullptr)
      throw Refusal{.code = DiagCode::UnsupportedOp,
                    .message = "it gives or reads a sequence where a tensor is wanted",
                    .hint =
                        "take an element with SequenceAt, or join them with "
                        "ConcatFromSequence"};
  }
  const bool is_padded = std::any_of(inputs.begin(), inputs.end(), [this](const auto& input) {
    return input && padding(*input) != nullptr;
  });
  if (is_padded) {
    auto results = emit_on_filled_rows(*this, op, inputs, attributes, output_count);
    if (results) return std::move(*results);
  }
  const std::vector<const StandIn*> stand_ins =
      stand_ins_of_results(*this, op, inputs, attributes, output_count);
  std::vector<ValueId> results =
      emit_numbers(op, std::move(inputs), std::move(attributes), output_count, is_padded);
  for (size_t i = 0; i < results.size(); ++i) {
    if (stand_ins[i] != nullptr) mark_stand_in(results[i], stand_ins[i]);
  }
  return results;
}

std::vector<ValueId> Builder::emit_numbers(std::string_view op, Inputs inputs,
                                           Attributes attributes, size_t output_count,
                                           bool is_padded) {
  expect_nodes(1);
  ++node_count_;
  Node node{.name = stem_,
            .op = std::string(op),
            .inputs = std::move(inputs),
            .attributes = std::move(attributes),
            .place = place_,
            .source = source_};
  for (size_t i = 0; i < output_count; ++i) node.outputs.push_back(graph_.add_value({}));
  const NodeId id = add_node(std::move(node));
  Diagnostics faults;
  if (!check_and_infer(graph_, id, faults)) refuse(faults, std::string(op));
  const std::vector<ValueId> outputs = graph_.node(id).outputs;
  for (const ValueId output : outputs) {
    if (const auto fault = type_fault(type(output)))
      throw Refusal{.code = DiagCode::Limit, .message = "the output " + *fault, .hint = ""};
  }
  if (is_padded) {
    // A copy: what finds the padding adds nodes.
    const Node copy = graph_.node(id);
    if (const auto kept = padding_of_results(*this, copy)) {
      for (const ValueId output : outputs) set_padding(output, *kept);
    }
  }
  auto folded = fold(graph_.node(id));
  if (folded) return std::move(*folded);
  if (outputs.size() == 1 && is_one_integer(type(outputs[0]))) {
    if (const std::optional<int64_t> number = copied_number(outputs[0]).number)
      return {constant_for(outputs[0], *number)};
  }
  follow_counts(graph_.node(id));
  return outputs;
}

// One integer that is known in the place of a node's result.
ValueId Builder::constant_for(ValueId id, int64_t number) {
  Tensor tensor = Tensor::zeros(type(id));
  tensor.integers.front() = number;
  if (!options_.keeps_folded_nodes) return add_constant(stem_ + ".value", tensor);
  known_.emplace(index_of(id), std::move(tensor));
  return id;
}

const Padding* Builder::padding(ValueId id) const {
  const auto found = paddings_.find(index_of(id));
  return found == paddings_.end() ? nullptr : &found->second;
}

void Builder::set_padding(ValueId id, const Padding& padding) {
  paddings_.insert_or_assign(index_of(id), padding);
}

ValueId Builder::add_sequence(Sequence elements) {
  const ValueId id = graph_.add_value({.type = {DType::bool_, {}}});
  sequences_.emplace(index_of(id), std::move(elements));
  return id;
}

ValueId Builder::add_none() {
  const ValueId id = add_sequence({});
  nones_.insert(index_of(id));
  return id;
}

const Builder::Sequence* Builder::sequence(ValueId id) const {
  const auto found = sequences_.find(index_of(id));
  return found == sequences_.end() ? nullptr : &found->second;
}

void Builder::set_count(ValueId id, int64_t most) {
  CountRange range{.none = Tensor::zeros(type(id)), .all = Tensor::zeros(type(id))};
  range.all.integers.assign(range.all.integers.size(), most);
  counts_.insert_or_assign(index_of(id), std::move(range));
}

const CountRange* Builder::counts(ValueId id) const {
  const auto found = counts_.find(index_of(id));
  return found == counts_.end() ? nullptr : &found->second;
}

namespace {

// The place of element `at` of a cut along the only axis; nullopt where it cuts otherwise.
std::optional<int64_t> place_before_cut(const Node& node, int64_t at, int64_t length) {
  const auto integer = [&](const char* name, int64_t absent) {
    const auto found = node.attributes.find(name);
    return found == node.attributes.end() ? absent : std::get<int64_t>(found->second);
  };
  if (node.op == "narrow") {
    if (node.inputs.size() > 1) return std::nullopt;
    const int64_t start = integer("start", 0);
    return at + (start < 0 ? start + length : start);
  }
  const auto list = [&](const char* name, int64_t absent) {
    const auto found = node.attributes.find(name);
    if (found == node.attributes.end()) return Ints{absent};
    return std::get<Ints>(found->second);
  };
  const Ints starts = list("starts", 0);
  const Ints steps = list("steps", 1);
  if (starts.size() != 1 || steps.size() != 1 || steps[0] < 1) return std::nullopt;
  const int64_t start = starts[0];
  return std::clamp<int64_t>(start < 0 ? start + length : start, 0, length) +
         at * static_cast<int64_t>(steps[0]);
}

}  // namespace

Builder::Copied Builder::copied_number(ValueId id) {
  constexpr int kMostNodes = 64;
  const std::set<std::string_view> views = {"reshape", "squeeze", "unsqueeze", "flatten",
                                            "identity"};
  ValueId found = id;  // the last of one element
  int64_t at = 0;      // of the elements of id, which stand in a row
  for (int i = 0; i < kMostNodes; ++i) {
    const Value& value = graph_.value(id);
    if (is_one_integer(value.type)) found = id;
    if (const Tensor* numbers = known(id); numbers != nullptr && at < numbers->count())
      return {.id = found, .number = numbers->integers[static_cast<size_t>(at)]};
    if (!value.producer) break;
    const Node& node = graph_.node(*value.producer);
    if (node.inputs.empty() || !node.inputs[0]) break;
    const TensorType& before = graph_.value(*node.inputs[0]).type;
    const bool is_row = before.shape.size() == 1;
    const bool is_widened = node.op == "cast" && kind_of(before.dtype) == DTypeKind::Int &&
                            kind_of(value.type.dtype) == DTypeKind::Int &&
                            element_bytes(before.dtype) <= element_bytes(value.type.dtype);
    if (views.contains(node.op) || is_widened) {
      id = *node.inputs[0];
    } else if ((node.op == "narrow" || node.op == "slice") && is_row) {
      const auto place = place_before_cut(node, at, before.shape[0]);
      if (!place) break;
      at = *place;
      id = *node.inputs[0];
    } else if (node.op == "gather" && is_row) {
      const Tensor* index = known(*node.inputs[1]);
      if (index == nullptr || at >= index->count()) break;
      const int64_t place = index->integers[static_cast<size_t>(at)];
      at = place < 0 ? place + static_cast<int64_t>(before.shape[0]) : place;
      id = *node.inputs[0];
    } else if (node.op == "concat" && value.type.shape.size() == 1) {
      for (const auto& part : node.inputs) {
        id = *part;
        const int64_t length = graph_.value(id).type.shape[0];
        if (at < length) break;
        at -= length;
      }
    } else {
      break;
    }
  }
  return {.id = found, .number = std::nullopt};
}

Builder::Offset Builder::offset_of(ValueId id) {
  constexpr int kMostNodes = 16;
  Offset offset{.base = copied_number(id).id};
  for (int i = 0; i < kMostNodes; ++i) {
    const Value& value = graph_.value(offset.base);
    const Node* node = value.producer ? &graph_.node(*value.producer) : nullptr;
    if (node == nullptr || (node->op != "add" && node->op != "sub")) break;
    const auto known_at = [&](size_t k) -> std::optional<int64_t> {
      const Tensor* found = known(*node->inputs[k]);
      if (found == nullptr || !is_one_integer(found->type)) return std::nullopt;
      return found->integers.front();
    };
    const std::optional<int64_t> second = known_at(1);
    const std::optional<int64_t> first = node->op == "add" ? known_at(0) : std::nullopt;
    if (!first && !second) break;
    const int64_t number = second ? *second : *first;
    if (std::abs(number) > kMaxDim) break;
    offset.added += node->op == "sub" ? -number : number;
    offset.base = copied_number(*node->inputs[second ? 0 : 1]).id;
  }
  return offset;
}

std::optional<int64_t> Builder::distance(ValueId a, ValueId b) {
  if (!is_one_integer(type(a)) || !is_one_integer(type(b))) return std::nullopt;
  const Offset first = offset_of(a);
  const Offset second = offset_of(b);
  if (!is_same(first.base, second.base)) return std::nullopt;
  return second.added - first.added;
}

bool Builder::is_same(ValueId a, ValueId b) {
  constexpr size_t kMostPairs = 4096;
  std::vector<std::pair<ValueId, ValueId>> open = {{a, b}};
  std::set<std::pair<size_t, size_t>> seen;
  while (!open.empty()) {
    const auto [given, wanted] = open.back();
    open.pop_back();
    ValueId left = given;
    ValueId right = wanted;
    if (is_one_integer(type(given)) && is_one_integer(type(wanted))) {
      const Copied one = copied_number(given);
      const Copied other = copied_number(wanted);
      if (one.number && other.number) {
        if (one.number != other.number) return false;
        continue;
      }
      left = one.id;
      right = other.id;
    }
    if (left == right || !seen.insert({index_of(left), index_of(right)}).second) continue;
    if (seen.size() > kMostPairs) return false;
    const Tensor* first = known(left);
    const Tensor* second = known(right);
    if (first != nullptr && second != nullptr) {
      if (first->type == second->type && first->integers == second->integers &&
          first->floats == second->floats)
        continue;
      return false;
    }
    if (!graph_.value(left).producer || !graph_.value(right).producer) return false;
    const Node& one = graph_.node(*graph_.value(left).producer);
    const Node& other = graph_.node(*graph_.value(right).producer);
    const OpDef* op = find_op(one.op);
    if (op == nullptr || op->has_effect || op->seed_input || !op->bodies.empty() ||
        one.op != other.op || one.attributes != other.attributes ||
        one.inputs.size() != other.inputs.size() || one.outputs.size() != other.outputs.size())
      return false;
    const auto position = [](const Node& node, ValueId id) {
      return std::find(node.outputs.begin(), node.outputs.end(), id) - node.outputs.begin();
    };
    if (position(one, left) != position(other, right)) return false;
    for (size_t i = 0; i < one.inputs.size(); ++i) {
      if (one.inputs[i].has_value() != other.inputs[i].has_value()) return false;
      if (one.inputs[i]) open.emplace_back(*one.inputs[i], *other.inputs[i]);
    }
  }
  return true;
}

NodeId Builder::add_node(Node node) {
  const NodeId id = graph_.add_node(std::move(node));
  if (open_bodies_.back() != 0) body_of_node_.emplace(index_of(id), open_bodies_.back());
  return id;
}

size_t Builder::begin_body() {
  open_bodies_.push_back(++last_body_);
  return last_body_;
}

void Builder::end_body() {
  open_bodies_.pop_back();
}

ValueId Builder::add_body_input(const std::string& name, TensorType type) {
  const ValueId id = graph_.add_value({.type = std::move(type), .origin = ValueOrigin::Input});
  suggest_name(id, name);
  return id;
}

std::vector<ValueId> Builder::emit_control(std::string_view op, Inputs inputs,
                                           Attributes attributes, std::vector<Body> bodies,
                                           const std::vector<TensorType>& types) {
  const auto check = [&](ValueId id) {
    if (sequence(id) != nullptr)
      throw Refusal{.code = DiagCode::UnsupportedOp,
                    .message = "it takes or gives a sequence where only the run knows what it does",
                    .hint = "carry a tensor, or let its condition and its trips be known"};
    if (padding(id) == nullptr) return;
    throw Refusal{.code = DiagCode::UnsupportedOp,
                  .message = "as op " + in_quotes(std::string(op)) +
                             " of rlx: the run decides how many rows of a value count that it "
                             "takes or gives",
                  .hint = "let its bodies read the value instead, or move it behind the model"};
  };
  for (const auto& input : inputs) {
    if (input) check(*input);
  }
  for (const Body& body : bodies) {
    for (const ValueId output : body.outputs) check(output);
  }
  expect_nodes(1);
  ++node_count_;
  Node node{.name = stem_,
            .op = std::string(op),
            .inputs = std::move(inputs),
            .attributes = std::move(attributes),
            .place = place_,
            .source = source_};
  for (const TensorType& type : types) node.outputs.push_back(graph_.add_value({.type = type}));
  const std::vector<ValueId> outputs = node.outputs;
  const NodeId id = add_node(std::move(node));
  bodies_.emplace(index_of(id), std::move(bodies));
  return outputs;
}

void Builder::expect_nodes(uint64_t count) const {
  if (count <= kMaxNodes && node_count_ + count <= kMaxNodes) return;
  throw Refusal{.code = DiagCode::Limit,
                .message = "in its place stand " + std::to_string(count) +
                           " nodes; a graph may have 2^20, and " + std::to_string(node_count_) +
                           " stand before them",
                .hint = ""};
}

const Tensor* Builder::known(ValueId id) {
  if (const auto found = known_.find(index_of(id)); found != known_.end()) return &found->second;
  const auto constant = constants_.find(index_of(id));
  if (constant == constants_.end() || !can_be_known(type(id))) return nullptr;
  Tensor values = Tensor::from_bytes(type(id), constant->second.data.bytes);
  return &known_.emplace(index_of(id), std::move(values)).first->second;
}

// The outputs of a node as constants, where all that they depend on is known.
std::optional<std::vector<ValueId>> Builder::fold(const Node& node) {
  const OpDef* op = find_op(node.op);
  if (op == nullptr || op->evaluate == nullptr || op->has_effect || op->seed_input)
    return std::nullopt;
  std::vector<TensorType> types;
  for (const ValueId output : node.outputs) {
    types.push_back(type(output));
    if (!can_be_known(types.back())) return std::nullopt;
  }
  std::vector<Tensor> shapes(node.inputs.size());
  std::vector<const Tensor*> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i]) {
      inputs.push_back(nullptr);
      continue;
    }
    shapes[i].type = type(*node.inputs[i]);
    inputs.push_back(op->shape_only ? &shapes[i] : known(*node.inputs[i]));
    if (inputs.back() == nullptr) return std::nullopt;
  }
  // The maps hold their elements in place, so the pointers stay good.
  Diagnostics faults;
  auto results = evaluate_to_fold(node, inputs, types, faults);
  if (!results) return std::nullopt;
  if (options_.keeps_folded_nodes) {
    for (size_t i = 0; i < results->size(); ++i) {
      (*results)[i].round_to_dtype();
      known_.emplace(index_of(node.outputs[i]), std::move((*results)[i]));
    }
    return std::nullopt;
  }
  std::vector<ValueId> folded;
  for (size_t i = 0; i < results->size(); ++i) {
    folded.push_back(add_constant(stem_ + ".value", (*results)[i]));
  }
  return folded;
}

void Builder::follow_counts(const Node& node) {
  const OpDef* op = find_op(node.op);
  if (op == nullptr || op->evaluate == nullptr || op->has_effect || op->seed_input) return;
  std::vector<TensorType> types;
  for (const ValueId output : node.outputs) {
    types.push_back(type(output));
    if (!can_be_known(types.back())) return;
  }
  std::vector<const Tensor*> none;
  std::vector<const Tensor*> all;
  bool depends = false;
  for (const auto& input : node.inputs) {
    const CountRange* range = input ? counts(*input) : nullptr;
    const Tensor* same = input && range == nullptr ? known(*input) : nullptr;
    if (input && range == nullptr && same == nullptr) return;
    depends = depends || range != nullptr;
    none.push_back(range != nullptr ? &range->none : same);
    all.push_back(range != nullptr ? &range->all : same);
  }
  if (!depends) return;
  Diagnostics faults;
  auto least = evaluate_node(node, none, types, faults);
  auto most = evaluate_node(node, all, types, faults);
  if (!least || !most) return;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    counts_.insert_or_assign(index_of(node.outputs[i]), CountRange{.none = std::move((*least)[i]),
                                                                   .all = std::move((*most)[i])});
  }
}

std::set<std::string> Builder::inputs_behind(ValueId id) const {
  std::set<std::string> names;
  std::set<size_t> seen;
  std::vector<ValueId> open = {id};
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    if (!seen.insert(index_of(next)).second) continue;
    const Value& value = graph_.value(next);
    // Inputs of bodies have no names here.
    if (value.origin == ValueOrigin::Input && !value.name.empty()) names.insert(value.name);
    if (!value.producer) continue;
    for (const auto& input : graph_.node(*value.producer).inputs) {
      if (input) open.push_back(*input);
    }
    const auto bodies = bodies_.find(index_of(*value.producer));
    if (bodies == bodies_.end()) continue;
    for (const Body& body : bodies->second)
      open.insert(open.end(), body.outputs.begin(), body.outputs.end());
  }
  return names;
}

void Builder::suggest_name(ValueId id, const std::string& name) {
  names_.emplace(index_of(id), name);
}

std::string Builder::fresh_name(const std::string& stem) {
  return used_names_.fresh(name_fault(stem + "._999999") ? "value" : stem);
}

// What the results need, in order; marks the values.
std::vector<NodeId> Builder::live_nodes(const std::vector<ValueId>& results,
                                        std::vector<bool>& is_needed) const {
  for (const ValueId id : results) is_needed[index_of(id)] = true;
  const std::vector<NodeId>& order = graph_.order();
  std::vector<NodeId> live;
  std::set<size_t> live_bodies;
  for (size_t i = order.size(); i-- > 0;) {
    const Node& node = graph_.node(order[i]);
    const auto around = body_of_node_.find(index_of(order[i]));
    // What a body asserts is no result.
    const bool asserts = node.op == OpId::assert_ && around != body_of_node_.end() &&
                         live_bodies.contains(around->second);
    if (!asserts && std::none_of(node.outputs.begin(), node.outputs.end(),
                                 [&](ValueId id) { return is_needed[index_of(id)]; })) {
      continue;
    }
    live.push_back(order[i]);
    for (const auto& input : node.inputs) {
      if (input) is_needed[index_of(*input)] = true;
    }
    const auto bodies = bodies_.find(index_of(order[i]));
    if (bodies == bodies_.end()) continue;
    for (const Body& body : bodies->second) {
      live_bodies.insert(body.index);
      for (const ValueId output : body.outputs) is_needed[index_of(output)] = true;
    }
  }
  std::reverse(live.begin(), live.end());
  return live;
}

SourceGraph Builder::finish(const std::vector<Output>& outputs) {
  SourceGraph source;
  source.file = file_;
  SourceEntry entry;
  entry.place = {file_, ""};
  entry.name = graph_.name;

  // Results have their own names: what already has one (an input, a constant, another result) is
  // copied.
  std::vector<ValueId> results;
  std::set<size_t> taken;
  const auto is_input = [this](const std::string& name) {
    return std::any_of(graph_.inputs.begin(), graph_.inputs.end(),
                       [&](ValueId input) { return graph_.value(input).name == name; });
  };
  for (Output output : outputs) {
    ValueId id = output.value;
    // An input that is a result too.
    if (is_input(output.name)) output.name += ".out";
    if (graph_.value(id).origin != ValueOrigin::Node || !taken.insert(index_of(id)).second) {
      set_origin(output.name, {file_, ""}, "");
      const ValueId copy = graph_.add_value({.type = type(id)});
      Node node{.name = output.name, .op = "identity", .inputs = {id}, .outputs = {copy}};
      node.place = {file_, ""};
      graph_.add_node(std::move(node));
      id = copy;
      taken.insert(index_of(id));
    }
    names_[index_of(id)] = output.name;
    used_names_.insert(output.name);
    results.push_back(id);
    entry.outputs.push_back(output.name);
  }
  for (const ValueId input : graph_.inputs) used_names_.insert(graph_.value(input).name);

  std::vector<bool> is_needed(graph_.value_count(), false);
  const std::vector<NodeId> live = live_nodes(results, is_needed);

  // Names, in the order of the values.
  std::vector<std::string> names(graph_.value_count());
  for (const ValueId id : results) names[index_of(id)] = names_[index_of(id)];
  for (const ValueId id : graph_.inputs) names[index_of(id)] = graph_.value(id).name;
  const auto name_of_value = [&](ValueId id, const std::string& stem) {
    std::string& name = names[index_of(id)];
    if (!name.empty()) return name;
    const auto own = names_.find(index_of(id));
    name = fresh_name(own != names_.end() && !own->second.empty() ? own->second : stem);
    return name;
  };

  for (const ValueId input : graph_.inputs) {
    const Value& value = graph_.value(input);
    entry.inputs.push_back({.place = {file_, ""},
                            .name = value.name,
                            .dtype = value.type.dtype,
                            .shape = dims_of(value.type.shape),
                            .data = {}});
  }
  for (size_t i = 0; i < graph_.value_count(); ++i) {
    const auto constant = constants_.find(i);
    if (!is_needed[i] || constant == constants_.end()) continue;
    const ValueId id{static_cast<uint32_t>(i)};
    SourceTensor tensor{.place = {file_, ""},
                        .name = name_of_value(id, "constant"),
                        .dtype = type(id).dtype,
                        .shape = dims_of(type(id).shape),
                        .data = constant->second.data};
    (constant->second.is_param ? source.params : source.constants).push_back(std::move(tensor));
  }
  NumberedNames node_names;
  std::unordered_map<size_t, std::vector<SourceNode>> nodes_of_body;
  for (const NodeId id : live) {
    const Node& node = graph_.node(id);
    const std::string stem = name_fault(node.name + "._999999") ? "node" : node.name;
    SourceNode written{
        .place = node.place, .name = node_names.fresh(stem), .op = node.op, .source = node.source};
    for (const auto& input : node.inputs) {
      written.inputs.push_back(input ? std::optional(name_of_value(*input, "value"))
                                     : std::nullopt);
    }
    for (const ValueId output : node.outputs)
      written.outputs.push_back(name_of_value(output, written.name + ".out"));
    for (const auto& [name, value] : node.attributes)
      written.attributes.emplace(name, source_of(value));
    // The nodes of its bodies were written before it.
    const auto bodies = bodies_.find(index_of(id));
    for (size_t i = 0; bodies != bodies_.end() && i < bodies->second.size(); ++i) {
      const Body& body = bodies->second[i];
      SourceBody& inner =
          written.bodies.emplace_back(SourceBody{.place = node.place, .name = body.name});
      for (const ValueId input : body.inputs)
        inner.inputs.push_back(name_of_value(input, written.name + ".in"));
      inner.nodes = std::move(nodes_of_body[body.index]);
      for (const ValueId output : body.outputs)
        inner.outputs.push_back(name_of_value(output, written.name + ".out"));
    }
    const auto around = body_of_node_.find(index_of(id));
    (around == body_of_node_.end() ? entry.nodes : nodes_of_body[around->second])
        .push_back(std::move(written));
  }
  source.entries.push_back(std::move(entry));
  return source;
}

}  // namespace rlx::onnx_import
