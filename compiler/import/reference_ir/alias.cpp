// SPDX-License-Identifier: Apache-2.0
// The node that an alias is expressed by, and the table of all aliases.
#include "compiler/import/reference_ir/alias.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "compiler/import/names.h"
#include "compiler/import/promote.h"
#include "compiler/import/weights.h"

namespace rlx::reference_ir {
namespace {

// Why a node cannot be expressed; it never leaves express().
struct Refusal {
  DiagCode code = DiagCode::UnsupportedOp;
  std::string message;
  std::string hint;
};

constexpr std::array kDeclared = {AttrSpec{.name = "dtype", .type = AttrType::DTypeName},
                                  AttrSpec{.name = "shape", .type = AttrType::IntList}};

std::span<const Alias> family(size_t i) {
  switch (i) {
    case 0:
      return elementwise_aliases();
    case 1:
      return quantised_aliases();
    case 2:
      return product_aliases();
    case 3:
      return row_aliases();
    case 4:
      return attention_aliases();
    case 5:
      return movement_aliases();
    case 6:
      return vision_aliases();
    case 7:
      return sequence_aliases();
    case 8:
      return custom_aliases();
    case 9:
      return gradient_aliases();
    case 10:
      return control_aliases();
    default:
      return missing_aliases();
  }
}
constexpr size_t kFamilies = 12;

using Table = std::map<std::string_view, const Alias*>;

const Table& table() {
  static const Table rows = [] {
    Table made;
    for (size_t i = 0; i < kFamilies; ++i) {
      for (const Alias& alias : family(i)) made.emplace(alias.name, &alias);
    }
    return made;
  }();
  return rows;
}

struct Interface {
  std::vector<AttrSpec> attrs;
  OpDef op;
};

Refusal refusal_of(const Diagnostics& faults, std::string_view op) {
  for (const Diagnostic& fault : faults.all()) {
    if (fault.severity != Severity::Error) continue;
    return {.code = fault.code,
            .message = "as op " + in_quotes(op) + " of rlx: " + fault.message,
            .hint = fault.hint};
  }
  return {.message = "as op " + in_quotes(op) + " of rlx: refused", .hint = {}};
}

}  // namespace

const Alias* find_alias(std::string_view name) {
  const auto found = table().find(name);
  return found == table().end() ? nullptr : found->second;
}

std::vector<const Alias*> all_aliases() {
  std::vector<const Alias*> all;
  for (const auto& [name, alias] : table()) all.push_back(alias);
  return all;
}

const OpDef& interface_of(const Alias& alias) {
  static const std::map<std::string_view, std::unique_ptr<Interface>> faces = [] {
    std::map<std::string_view, std::unique_ptr<Interface>> made;
    for (const auto& [name, row] : table()) {
      auto face = std::make_unique<Interface>();
      face->attrs.assign(row->attrs.begin(), row->attrs.end());
      for (const AttrSpec& spec : kDeclared) {
        if (std::ranges::find(face->attrs, spec.name, &AttrSpec::name) == face->attrs.end())
          face->attrs.push_back(spec);
      }
      face->op.name = row->name;
      face->op.signature = row->name;
      face->op.inputs = row->inputs;
      face->op.outputs = {1, row->most_outputs};
      face->op.attrs = face->attrs;
      made.emplace(name, std::move(face));
    }
    return made;
  }();
  return faces.at(alias.name)->op;
}

AliasNode::AliasNode(const OpDef& face, const Node& node, Module& module, Graph& graph,
                     KnownValues& known, Namer namer)
    : node_(&node),
      attrs_(face, node.attributes),
      module_(&module),
      graph_(&graph),
      known_(&known),
      namer_(std::move(namer)) {}

void AliasNode::refuse(const std::string& message, const std::string& hint) const {
  throw Refusal{.message = message, .hint = hint};
}

ValueId AliasNode::input(size_t i) const {
  if (!has(i)) refuse("input " + std::to_string(i) + " is missing");
  return *node_->inputs[i];
}

std::optional<ValueId> AliasNode::optional(size_t i) const {
  return has(i) ? node_->inputs[i] : std::nullopt;
}

Attributes AliasNode::same(std::initializer_list<std::string_view> names) const {
  Attributes attributes;
  for (const std::string_view name : names) {
    const auto found = node_->attributes.find(name);
    if (found != node_->attributes.end()) attributes.emplace(name, found->second);
  }
  return attributes;
}

std::optional<Shape> AliasNode::declared_shape() const {
  if (!attrs_.has("shape")) return std::nullopt;
  const Ints ints = attrs_.integers("shape");
  return Shape(ints.begin(), ints.end());
}

Shape AliasNode::needed_shape() const {
  const std::optional<Shape> shape = declared_shape();
  if (!shape) {
    refuse("its result's size does not follow from its inputs",
           "give it as attribute \"shape\", which the reference IR's nodes have");
  }
  return *shape;
}

DType AliasNode::index_dtype() const {
  return attrs_.has("dtype") ? attrs_.dtype("dtype") : DType::f32;
}

size_t AliasNode::axis(size_t i) const {
  const auto size = static_cast<int64_t>(rank(i));
  const int64_t given = attrs_.integer("axis");
  if (given < -size || given >= size) {
    refuse("axis " + std::to_string(given) + " is outside rank " + std::to_string(size));
  }
  return static_cast<size_t>(given < 0 ? given + size : given);
}

ValueId AliasNode::emit(std::string_view op, std::vector<std::optional<ValueId>> inputs,
                        Attributes attributes) {
  return emit_all(op, std::move(inputs), std::move(attributes), 1).front();
}

std::vector<ValueId> AliasNode::emit_all(std::string_view op,
                                         std::vector<std::optional<ValueId>> inputs,
                                         Attributes attributes, size_t outputs) {
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  Node made{.name = namer_(node_->name + "." + std::string(op)),
            .op = std::string(op),
            .inputs = std::move(inputs),
            .attributes = std::move(attributes),
            .place = node_->place,
            .source = node_->source};
  for (size_t i = 0; i < outputs; ++i) {
    made.outputs.push_back(graph_->add_value(
        {.name = i == 0 ? made.name : namer_(made.name + "." + std::to_string(i))}));
  }
  const std::vector<ValueId> results = made.outputs;
  const NodeId id = graph_->add_node(std::move(made));
  Diagnostics faults;
  if (!prepare_node(*module_, *graph_, id, *known_, faults) ||
      !check_and_infer(*graph_, id, faults)) {
    throw refusal_of(faults, op);
  }
  for (const ValueId result : results) {
    if (const auto fault = type_fault(type(result)))
      throw Refusal{.code = DiagCode::Limit, .message = "its result " + *fault, .hint = {}};
  }
  return results;
}

ValueId AliasNode::cast(ValueId x, DType to) {
  if (type(x).dtype == to) return x;
  return emit("cast", {x}, {{"to", std::string(name_of(to))}});
}

ValueId AliasNode::reshape(ValueId x, const Shape& wanted) {
  if (type(x).shape == wanted) return x;
  return emit("reshape", {x}, {{"shape", Ints(wanted.begin(), wanted.end())}});
}

ValueId AliasNode::transpose(ValueId x, const Ints& perm) {
  return emit("transpose", {x}, {{"perm", perm}});
}

ValueId AliasNode::filled(const TensorType& wanted, double value) {
  return emit("fill", {},
              {{"shape", Ints(wanted.shape.begin(), wanted.shape.end())},
               {"value", value},
               {"dtype", std::string(name_of(wanted.dtype))}});
}

ValueId AliasNode::scalar(ValueId like, double value) {
  return filled({type(like).dtype, {}}, value);
}

ValueId AliasNode::binary(std::string_view op, ValueId a, ValueId b) {
  if (const std::optional<DType> common = promoted(type(a).dtype, type(b).dtype)) {
    a = cast(a, *common);
    b = cast(b, *common);
  }
  return emit(op, {a, b});
}

ValueId AliasNode::narrow(ValueId x, size_t axis, int64_t start, int64_t length) {
  return emit("narrow", {x},
              {{"axis", static_cast<int64_t>(axis)}, {"start", start}, {"len", length}});
}

ValueId AliasNode::retyped_weight(ValueId bytes, const TensorType& wanted) {
  const std::optional<WeightId> id = graph_->value(bytes).weight;
  const auto* host = id ? std::get_if<HostBytes>(&module_->weight(*id).data) : nullptr;
  if (host == nullptr) {
    refuse("packed weights are wanted as a param with its bytes",
           "their blocks are read where they lie");
  }
  const Weight& whole = module_->weight(*id);
  const bool is_constant = whole.is_constant;
  const std::string name = namer_(whole.name + "." + std::string(name_of(wanted.dtype)));
  const HostBytes data = *host;
  const WeightId made = module_->add_weight({name, wanted, data, is_constant});
  return graph_->add_value(
      {.name = name, .type = wanted, .origin = ValueOrigin::Weight, .weight = made});
}

bool with_alias_node(const Alias& alias, const Node& node, Module& module, Graph& graph,
                     KnownValues& known, AliasNode::Namer namer, Diagnostics& diagnostics,
                     const std::function<void(AliasNode&)>& make) {
  const auto report = [&](DiagCode code, std::string message, std::string hint) {
    diagnostics.add({.severity = Severity::Error,
                     .code = code,
                     .place = node.place,
                     .op = node.op,
                     .node = node.name,
                     .message = std::move(message),
                     .hint = std::move(hint)});
    return false;
  };
  const OpDef& face = interface_of(alias);
  const size_t inputs = node.inputs.size();
  if (inputs < face.inputs.minimum || inputs > face.inputs.maximum) {
    const std::string most = face.inputs.maximum == kUnlimited ? " or more"
                             : face.inputs.maximum == face.inputs.minimum
                                 ? ""
                                 : " to " + std::to_string(face.inputs.maximum);
    return report(DiagCode::BadArity,
                  "it has " + std::to_string(inputs) + " inputs, wanted " +
                      std::to_string(face.inputs.minimum) + most,
                  {});
  }
  if (!check_attributes(face, node, diagnostics)) return false;
  try {
    AliasNode made(face, node, module, graph, known, std::move(namer));
    make(made);
    return true;
  } catch (const Refusal& refusal) {
    return report(refusal.code, refusal.message, refusal.hint);
  }
}

std::optional<std::vector<ValueId>> express(const Alias& alias, const Node& node, Module& module,
                                            Graph& graph, KnownValues& known,
                                            AliasNode::Namer namer, Diagnostics& diagnostics) {
  if (alias.express == nullptr) {
    diagnostics.add(
        {.severity = Severity::Error,
         .code = DiagCode::UnsupportedOp,
         .place = node.place,
         .op = node.op,
         .node = node.name,
         .message = "this operator of the reference IR is not read: " + std::string(alias.as),
         .hint = "`rlxc ops --reference` lists those that are"});
    return std::nullopt;
  }
  std::vector<ValueId> results;
  const bool is_good = with_alias_node(
      alias, node, module, graph, known, std::move(namer), diagnostics, [&](AliasNode& made) {
        results = alias.express(made);
        if (node.outputs.size() > results.size() || node.outputs.empty()) {
          made.refuse("it has " + std::to_string(node.outputs.size()) + " outputs, wanted 1" +
                      (results.size() > 1 ? " to " + std::to_string(results.size()) : ""));
        }
        if (made.attrs().has("dtype"))
          results[0] = made.cast(results[0], made.attrs().dtype("dtype"));
        const std::optional<Shape> declared = made.declared_shape();
        const TensorType& type = made.type(results[0]);
        if (declared && type.shape != *declared) {
          made.refuse("its result is " + to_string(type) + ", but the node declares " +
                      to_string(*declared));
        }
        const std::vector<std::string> unread = made.attrs().unread();
        if (!unread.empty())
          made.refuse("attribute " + in_quotes(unread.front()) + " has no use here");
      });
  if (!is_good) return std::nullopt;
  return results;
}

}  // namespace rlx::reference_ir
