// SPDX-License-Identifier: Apache-2.0
// One entry of a graph file: names resolved, nodes in order, types inferred.
#include "compiler/import/bind_entry.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "compiler/import/impossible_branch.h"
#include "compiler/import/names.h"
#include "compiler/import/node_order.h"
#include "compiler/import/promote.h"
#include "compiler/import/reference_ir/control.h"
#include "compiler/import/weights.h"
#include "compiler/ir/constants.h"
#include "compiler/ops/op_id.h"
#include "compiler/ops/prepare.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"
#include "compiler/support/required_size.h"

namespace rlx {
namespace {

// Searching the nearest name among many is slow; later misspelt names get no hint.
constexpr size_t kMaxNameHints = 50;

// A value that the entry defines itself. `id` absent: not made yet, or its definition failed.
struct Definition {
  std::string role;  // "input", "output of node \"n\""
  std::optional<size_t> node;
  std::optional<ValueId> id;
};

// What the search for a name came to. `id` absent: its definition failed, or was reported.
struct Found {
  bool is_defined = false;
  std::optional<ValueId> id = std::nullopt;
};

// A value of the graph around a body, and the body's input that stands for it.
struct Capture {
  ValueId outer{};
  ValueId inner{};
};

// Names that a node reads, in its bodies too.
void add_reads(const SourceNode& node, std::vector<std::string_view>& names) {
  for (const auto& input : node.inputs) {
    if (input) names.push_back(*input);
  }
  for (const SourceBody& body : node.bodies) {
    for (const SourceNode& inner : body.nodes) add_reads(inner, names);
    names.insert(names.end(), body.outputs.begin(), body.outputs.end());
  }
}

// Binds the nodes of an entry or of a body.
class EntryBinder {
 public:
  EntryBinder(const SourceEntry& source, EntryContext context)
      : nodes_(source.nodes),
        output_names_(source.outputs),
        place_(source.place),
        what_("entry " + in_quotes(source.name)),
        context_(context) {
    graph_.name = source.name;
  }
  // What is wrong with the body goes to `diagnostics`.
  EntryBinder(const SourceBody& source, const SourceNode& node, EntryBinder& outer,
              Diagnostics& diagnostics)
      : nodes_(source.nodes),
        output_names_(source.outputs),
        place_(source.place),
        what_("body " + in_quotes(source.name) + " of node " + in_quotes(node.name)),
        context_{.module = outer.context_.module,
                 .leaves = outer.context_.leaves,
                 .symbols = outer.context_.symbols,
                 .auto_promote = outer.context_.auto_promote,
                 .diagnostics = diagnostics},
        outer_(&outer) {
    graph_.name = source.name;
  }

  Graph bind(const std::vector<SourceTensor>& inputs) {
    for (const SourceTensor& input : inputs) bind_input(input);
    bind_nodes();
    return std::move(graph_);
  }

  // The body, whose inputs of these names have these types. What it captures is in captures().
  Graph bind(const std::vector<std::string>& inputs, const std::vector<TensorType>& types) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId id =
          graph_.add_value({.name = inputs[i], .type = types[i], .origin = ValueOrigin::Input});
      graph_.inputs.push_back(id);
      define(inputs[i], place_, {.role = "input of " + what_, .node = {}, .id = id});
    }
    bind_nodes();
    return std::move(graph_);
  }
  [[nodiscard]] const std::vector<Capture>& captures() const { return captures_; }

 private:
  void bind_nodes() {
    define_outputs();
    for (const size_t index : sorted_nodes()) bind_node(nodes_[index]);
    bind_outputs();
  }

  // What a name means in the graphs around this one.
  [[nodiscard]] const Definition* find_outside(const std::string& name) const {
    if (outer_ == nullptr) return nullptr;
    const auto found = outer_->definitions_.find(name);
    return found != outer_->definitions_.end() ? &found->second : outer_->find_outside(name);
  }

  void define(const std::string& name, const SourcePlace& place, Definition definition) {
    const auto leaf = context_.leaves.find(name);
    const auto earlier = definitions_.find(name);
    const bool is_leaf = leaf != context_.leaves.end();
    const Definition* first_meaning =
        earlier != definitions_.end() ? &earlier->second : find_outside(name);
    if (!is_leaf && first_meaning == nullptr) {
      definitions_.emplace(name, std::move(definition));
      return;
    }
    const std::string first = is_leaf ? std::string(leaf->second.role) : first_meaning->role;
    context_.diagnostics.error(DiagCode::DuplicateName, place,
                               "value " + in_quotes(name) + " is defined twice: as " + first +
                                   " and as " + definition.role);
  }

  void bind_input(const SourceTensor& input) {
    const std::string what = "input " + in_quotes(input.name);
    const std::optional<Shape> shape =
        context_.symbols.resolve(input.shape, input.place, "shape of " + what);
    Definition definition{.role = "input", .node = {}, .id = {}};
    if (shape) {
      TensorType type{input.dtype, *shape};
      if (const auto fault = type_fault(type)) {
        context_.diagnostics.error(DiagCode::Limit, input.place, what + " " + *fault);
      } else {
        definition.id = graph_.add_value(
            {.name = input.name, .type = std::move(type), .origin = ValueOrigin::Input});
        graph_.inputs.push_back(*definition.id);
      }
    }
    define(input.name, input.place, std::move(definition));
  }

  void define_outputs() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const SourceNode& node = nodes_[i];
      if (!node_names_.insert(node.name).second) {
        context_.diagnostics.error(DiagCode::DuplicateName, node.place,
                                   "node name " + in_quotes(node.name) + " is used twice");
      }
      for (const std::string& output : node.outputs) {
        define(output, node.place,
               {.role = "output of node " + in_quotes(node.name), .node = i, .id = {}});
      }
    }
  }

  std::vector<size_t> sorted_nodes() {
    std::vector<std::vector<size_t>> producers(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      std::vector<std::string_view> names;
      add_reads(nodes_[i], names);
      for (const std::string_view name : names) {
        const auto found = definitions_.find(std::string(name));
        if (found != definitions_.end() && found->second.node)
          producers[i].push_back(*found->second.node);
      }
    }
    NodeOrder sorted = order_nodes(producers);
    for (const std::vector<size_t>& cycle : sorted.cycles) {
      std::vector<std::string_view> names;
      for (const size_t index : cycle) names.push_back(nodes_[index].name);
      context_.diagnostics.error(
          DiagCode::Cycle, nodes_[cycle.front()].place,
          "these nodes read each other's outputs in a circle: " + list_names(names),
          "a value carried from run to run is a state");
    }
    return std::move(sorted.order);
  }

  void fail(const SourceNode& node, DiagCode code, std::string message, std::string hint) {
    context_.diagnostics.add({.severity = Severity::Error,
                              .code = code,
                              .place = node.place,
                              .op = node.op,
                              .node = node.name,
                              .message = std::move(message),
                              .hint = std::move(hint)});
  }

  // `written`: the node of the file that `source` stands for.
  void bind_node(const SourceNode& source) { bind_node(source, source); }

  // A node on a cycle reads a value that is not made yet, so it is skipped like one whose input
  // failed.
  void bind_node(const SourceNode& source, const SourceNode& written) {
    const reference_ir::ControlFlow control =
        reference_ir::as_control_flow(source, context_.diagnostics);
    if (control.is_refused) return;
    if (control.node) return bind_node(*control.node, written);
    if (const reference_ir::Alias* alias = reference_ir::find_alias(source.op))
      return bind_alias(*alias, source);
    const OpDef* op = find_op(source.op);
    if (op == nullptr) {
      const std::string near = suggest_op(source.op);
      fail(source, DiagCode::UnknownOp, "there is no op " + in_quotes(source.op),
           near.empty() ? "`rlxc ops` lists all ops" : "did you mean " + in_quotes(near) + "?");
    }
    Node node{.name = source.name, .op = source.op, .place = source.place, .source = source.source};
    const bool is_good = read_inputs(source, node) && op != nullptr;
    std::optional<Attributes> attributes =
        op ? context_.symbols.resolve(source, *op) : std::nullopt;
    if (!attributes) return;
    node.attributes = std::move(*attributes);
    if (is_good) {
      if (bind_bodies(source, *op, node)) infer(source, written, std::move(node));
    } else if (op != nullptr) {
      check_attributes(*op, node, context_.diagnostics);
    }
  }

  // The values that a node reads. False where one is unknown or failed.
  bool read_inputs(const SourceNode& source, Node& node) {
    bool is_good = true;
    for (size_t i = 0; i < source.inputs.size(); ++i) {
      if (!source.inputs[i]) {
        node.inputs.emplace_back(std::nullopt);
        continue;
      }
      node.inputs.push_back(find_value(*source.inputs[i], [&](std::string hint) {
        fail(source, DiagCode::UnknownValue,
             "input " + std::to_string(i) + " reads " + in_quotes(*source.inputs[i]) +
                 ", which nothing defines",
             std::move(hint));
      }));
      is_good = is_good && node.inputs.back().has_value();
    }
    return is_good;
  }

  // A node under a name of the reference IR: what expresses it, in its place.
  void bind_alias(const reference_ir::Alias& alias, const SourceNode& source) {
    Node node{.name = source.name, .op = source.op, .place = source.place, .source = source.source};
    const bool is_good = read_inputs(source, node);
    std::optional<Attributes> attributes =
        context_.symbols.resolve(source, reference_ir::interface_of(alias));
    if (!attributes) return;
    node.attributes = std::move(*attributes);
    if (!is_good) {
      check_attributes(reference_ir::interface_of(alias), node, context_.diagnostics);
      return;
    }
    node.outputs.resize(source.outputs.size());  // as many as it has
    const auto namer = [this](std::string stem) { return free_name(std::move(stem)); };
    const std::optional<Dim> read = free_size_read_by([&] {
      if (reference_ir::is_scan_backward(alias.name)) {
        bind_scan_backward(alias, source, node, namer);
        return;
      }
      const auto results = reference_ir::express(alias, node, context_.module, graph_, known_,
                                                 namer, context_.diagnostics);
      for (size_t i = 0; results && i < source.outputs.size(); ++i)
        name_result(source, i, (*results)[i]);
    });
    if (read) report_free_size(context_.diagnostics, source.op, source.name, "its shape", *read);
  }

  void bind_scan_backward(const reference_ir::Alias& alias, const SourceNode& source,
                          const Node& node, const reference_ir::AliasNode::Namer& namer) {
    std::optional<reference_ir::ScanBackward> made;
    reference_ir::with_alias_node(
        alias, node, context_.module, graph_, known_, namer, context_.diagnostics,
        [&](reference_ir::AliasNode& typed) { made = as_scan_backward(typed, source); });
    if (!made) return;
    for (const auto& [name, id] : made->reads)
      define(name, source.place,
             {.role = "part of node " + in_quotes(source.name), .node = {}, .id = id});
    bind_node(made->node, source);
  }

  // Output i of a node is a value that others made: an identity has its name.
  void name_result(const SourceNode& source, size_t i, ValueId value) {
    const ValueId named = graph_.add_value({.name = source.outputs[i]});
    const NodeId id = graph_.add_node({.name = i == 0 ? source.name : free_name(source.name),
                                       .op = "identity",
                                       .inputs = {value},
                                       .outputs = {named},
                                       .place = source.place,
                                       .source = source.source});
    RLX_CHECK(check_and_infer(graph_, id, context_.diagnostics), "identity for " + source.name);
    set_value(source.outputs[i], source, named);
  }

  // What a name of the file means; one that is defined twice, which was reported, keeps its first
  // meaning.
  void set_value(const std::string& name, const SourceNode& written, ValueId id) {
    const auto found = definitions_.find(name);
    if (found == definitions_.end() || !found->second.node) return;
    if (&nodes_[*found->second.node] == &written) found->second.id = id;
  }

  // The bodies of a node whose inputs are all known. False where anything was reported.
  bool bind_bodies(const SourceNode& source, const OpDef& op, Node& node) {
    if (!check_body_names(source, op)) return false;
    if (op.bodies.empty()) return true;
    node.outputs.resize(source.outputs.size());  // as many as it has, for the checks of arity
    std::optional<std::vector<std::vector<TensorType>>> types;
    // What is wrong with the largest value of a free size only follows from that.
    Diagnostics told;
    const std::optional<Dim> read =
        free_size_read_by([&] { types = body_input_types(op, graph_, node, told); });
    if (read) report_free_size(context_.diagnostics, source.op, source.name, "its body", *read);
    for (const Diagnostic& fault : told.all()) {
      if (!read) context_.diagnostics.add(fault);
    }
    node.outputs.clear();
    if (read || !types) return false;
    const size_t errors_before = context_.diagnostics.error_count();
    std::vector<Graph> bodies;
    std::vector<std::vector<Capture>> captures;
    std::vector<Diagnostics> faults(op.bodies.size());
    for (size_t i = 0; i < op.bodies.size(); ++i) {
      const auto body = std::ranges::find(source.bodies, op.bodies[i], &SourceBody::name);
      if (body->inputs.size() != types->at(i).size()) {
        fail(source, DiagCode::BadArity,
             "body " + in_quotes(body->name) + " has " + std::to_string(body->inputs.size()) +
                 " inputs, wanted " + std::to_string(types->at(i).size()),
             {});
        continue;
      }
      EntryBinder binder(*body, source, *this, faults[i]);
      bodies.push_back(binder.bind(body->inputs, types->at(i)));
      captures.push_back(binder.captures());
    }
    if (source.op == OpId::if_ && bodies.size() == faults.size()) {
      for (size_t i = 0; i < faults.size(); ++i) {
        if (!faults[i].has_errors() || faults[1 - i].has_errors() || !is_of_shapes(faults[i]))
          continue;
        const std::string told = leave_out({.op = source.op,
                                            .node = source.name,
                                            .name = std::string(op.bodies[i]),
                                            .place = source.place},
                                           faults[i], context_.diagnostics);
        bodies[i] = impossible_body(bodies[i].name, types->at(i), bodies[1 - i], told);
        captures[i].clear();
        faults[i] = {};
      }
    }
    for (const Diagnostics& of_body : faults) {
      for (const Diagnostic& fault : of_body.all()) context_.diagnostics.add(fault);
    }
    if (context_.diagnostics.error_count() > errors_before) return false;
    join_captures(node, std::move(bodies), captures);
    return true;
  }

  // In place of a branch that cannot be: results of its sibling's types, and an assertion.
  Graph impossible_body(const std::string& name, const std::vector<TensorType>& inputs,
                        const Graph& sibling, const std::string& told) {
    Graph body;
    body.name = name;
    const auto add = [&](const char* op, std::vector<std::optional<ValueId>> read,
                         Attributes attributes) {
      const std::string fresh = body.fresh_name(op);
      const ValueId output = body.add_value({.name = fresh});
      const NodeId id = body.add_node({.name = fresh,
                                       .op = op,
                                       .inputs = std::move(read),
                                       .outputs = {output},
                                       .attributes = std::move(attributes),
                                       .place = place_});
      RLX_CHECK(check_and_infer(body, id, context_.diagnostics), "a branch that cannot be");
      return output;
    };
    for (const TensorType& type : inputs) {
      body.inputs.push_back(body.add_value(
          {.name = body.fresh_name("in"), .type = type, .origin = ValueOrigin::Input}));
    }
    const auto constant = [&](DType dtype) {
      return add_constant(context_.module, body, "impossible", impossible_element(dtype));
    };
    add("assert", {constant(DType::bool_)}, {{"message", told}});
    for (const ValueId output : sibling.outputs()) {
      const TensorType& type = sibling.value(output).type;
      body.add_output(add("expand", {constant(type.dtype)}, {{"shape", Ints(type.shape)}}));
    }
    return body;
  }

  bool check_body_names(const SourceNode& source, const OpDef& op) {
    const std::vector<std::string_view> wanted(op.bodies.begin(), op.bodies.end());
    const std::string hint =
        wanted.empty() ? "it has none" : "its bodies are " + list_names(wanted);
    std::vector<std::string_view> given;
    bool is_good = true;
    for (const SourceBody& body : source.bodies) {
      const bool is_known = std::ranges::find(wanted, body.name) != wanted.end();
      const bool is_twice = std::ranges::find(given, body.name) != given.end();
      given.push_back(body.name);
      if (is_known && !is_twice) continue;
      fail(source, DiagCode::BadField,
           is_twice ? "body " + in_quotes(body.name) + " is given twice"
                    : "the op has no body " + in_quotes(body.name),
           hint);
      is_good = false;
    }
    for (const std::string_view name : wanted) {
      if (std::ranges::find(given, name) != given.end()) continue;
      fail(source, DiagCode::BadField, "body " + in_quotes(name) + " is missing", hint);
      is_good = false;
    }
    return is_good;
  }

  // An input of a body that stands for a value of this graph.
  ValueId add_stand_in(Graph& body, ValueId outer) const {
    const Value& value = graph_.value(outer);
    return body.add_value(
        {.name = body.fresh_name(value.name), .type = value.type, .origin = ValueOrigin::Input});
  }

  // What one body captures is an input of all, behind their own.
  void join_captures(Node& node, std::vector<Graph> bodies,
                     const std::vector<std::vector<Capture>>& captures) {
    std::vector<ValueId> outer;
    for (const std::vector<Capture>& of_body : captures) {
      for (const Capture& capture : of_body) {
        if (std::ranges::find(outer, capture.outer) == outer.end()) outer.push_back(capture.outer);
      }
    }
    for (size_t i = 0; i < bodies.size(); ++i) {
      Graph& body = bodies[i];
      for (const ValueId id : outer) {
        const auto own = std::ranges::find(captures[i], id, &Capture::outer);
        body.inputs.push_back(own != captures[i].end() ? own->inner : add_stand_in(body, id));
      }
      node.bodies.push_back(std::make_shared<const Graph>(std::move(body)));
    }
    node.inputs.insert(node.inputs.end(), outer.begin(), outer.end());
    node.captures = static_cast<uint32_t>(outer.size());
  }

  // Adds a node whose inputs are all known and makes its outputs usable if its types can be
  // inferred.
  void infer(const SourceNode& source, const SourceNode& written, Node node) {
    if (context_.auto_promote) promote_inputs(node);
    clamp_symbolic_k(source, node);
    std::vector<ValueId> outputs;
    for (const std::string& name : source.outputs)
      outputs.push_back(graph_.add_value({.name = name}));
    node.outputs = outputs;
    const NodeId id = graph_.add_node(std::move(node));
    bool is_good = false;
    Diagnostics found;
    const std::optional<Dim> read = free_size_read_by([&] {
      is_good = prepare_node(context_.module, graph_, id, known_, found) &&
                check_and_infer(graph_, id, found);
    });
    if (read) {
      // What was found holds for the largest value alone.
      report_free_size(context_.diagnostics, source.op, source.name, "its shape", *read);
    } else {
      for (const Diagnostic& diagnostic : found.all()) context_.diagnostics.add(diagnostic);
    }
    if (read || !is_good) return;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (const auto fault = type_fault(graph_.value(outputs[i]).type)) {
        fail(source, DiagCode::Limit, "output " + in_quotes(source.outputs[i]) + " " + *fault, {});
        continue;
      }
      set_value(source.outputs[i], written, outputs[i]);
    }
  }

  // A symbol that bounds a topk may exceed the row, of which k is then all.
  void clamp_symbolic_k(const SourceNode& source, Node& node) {
    const auto written = source.attributes.find("k");
    if (node.op != "topk" || written == source.attributes.end() || node.inputs.empty() ||
        !node.inputs[0] || !std::holds_alternative<std::string>(written->second)) {
      return;
    }
    auto* k = std::get_if<int64_t>(&node.attributes["k"]);
    const Shape& shape = graph_.value(*node.inputs[0]).type.shape;
    const auto given = node.attributes.find("axis");
    const auto* axis =
        given == node.attributes.end() ? nullptr : std::get_if<int64_t>(&given->second);
    const auto rank = static_cast<int64_t>(shape.size());
    const int64_t at = axis == nullptr ? rank - 1 : *axis < 0 ? *axis + rank : *axis;
    if (k != nullptr && at >= 0 && at < rank)
      *k = std::min<int64_t>(*k, shape[static_cast<size_t>(at)]);
  }

  void promote_inputs(Node& node) {
    std::vector<std::optional<DType>> dtypes;
    for (const std::optional<ValueId>& input : node.inputs)
      dtypes.push_back(input ? std::optional(graph_.value(*input).type.dtype) : std::nullopt);
    for (const Promotion& promotion : promotions(node.op, dtypes)) {
      const std::string name = free_name(node.name + ".input" + std::to_string(promotion.input));
      const ValueId cast = graph_.add_value({.name = name});
      const NodeId id = graph_.add_node({.name = name,
                                         .op = "cast",
                                         .inputs = {node.inputs[promotion.input]},
                                         .outputs = {cast},
                                         .attributes = {{"to", std::string(name_of(promotion.to))}},
                                         .place = node.place,
                                         .source = node.source});
      RLX_CHECK(check_and_infer(graph_, id, context_.diagnostics), "cast for " + node.name);
      node.inputs[promotion.input] = cast;
    }
  }

  // A name made from `stem` that nothing in the file has.
  std::string free_name(std::string stem) {
    const auto is_taken = [&](const std::string& name) {
      return definitions_.contains(name) || context_.leaves.contains(name) ||
             node_names_.contains(name);
    };
    while (is_taken(stem)) stem += "_";
    node_names_.insert(stem);
    return stem;
  }

  void bind_outputs() {
    bool has_effect = false;
    for (const NodeId id : graph_.order()) {
      const OpDef* op = find_op(graph_.node(id).op);
      has_effect = has_effect || (op && (op->has_effect || !op->bodies.empty()));
    }
    if (outer_ == nullptr && output_names_.empty() && !has_effect &&
        !context_.diagnostics.has_errors()) {
      context_.diagnostics.error(DiagCode::BadField, place_,
                                 what_ + " has no outputs and writes no state");
    }
    for (const std::string& output : output_names_) {
      const std::optional<ValueId> id = find_value(output, [&](std::string hint) {
        context_.diagnostics.error(
            DiagCode::UnknownValue, place_,
            "output " + in_quotes(output) + " of " + what_ + " is defined by nothing",
            std::move(hint));
      });
      if (id) graph_.add_output(*id);
    }
  }

  // The value of that name. nullopt: its definition failed earlier, or there is none, which
  // `report_unknown` tells.
  template <typename Report>
  std::optional<ValueId> find_value(const std::string& name, Report report_unknown) {
    const Found found = find_name(name);
    if (!found.is_defined) report_unknown(name_hint(name));
    return found.id;
  }

  Found find_name(const std::string& name) {
    if (const auto found = definitions_.find(name); found != definitions_.end())
      return {.is_defined = true, .id = found->second.id};
    if (const auto found = leaf_values_.find(name); found != leaf_values_.end())
      return {.is_defined = true, .id = found->second};
    const auto leaf = context_.leaves.find(name);
    if (leaf != context_.leaves.end())
      return {.is_defined = true, .id = leaf_value(name, leaf->second)};
    return outer_ != nullptr ? capture(name) : Found{};
  }

  // A name of the graph around this body.
  Found capture(const std::string& name) {
    if (const auto found = captured_.find(name); found != captured_.end())
      return {.is_defined = true, .id = found->second};
    const Found outer = outer_->find_name(name);
    if (!outer.id) return outer;
    const ValueId inner = outer_->add_stand_in(graph_, *outer.id);
    captures_.push_back({.outer = *outer.id, .inner = inner});
    captured_.emplace(name, inner);
    return {.is_defined = true, .id = inner};
  }

  std::optional<ValueId> leaf_value(const std::string& name, const Leaf& leaf) {
    if (!leaf.weight && !leaf.state) return std::nullopt;
    const ValueId id =
        graph_.add_value({.name = name,
                          .type = leaf.weight ? context_.module.weight(*leaf.weight).type
                                              : context_.module.state(*leaf.state).type,
                          .origin = leaf.weight ? ValueOrigin::Weight : ValueOrigin::State,
                          .weight = leaf.weight,
                          .state = leaf.state});
    leaf_values_.emplace(name, id);
    return id;
  }

  std::string name_hint(const std::string& name) {
    if (hint_count_++ >= kMaxNameHints) return {};
    std::vector<std::string_view> names;
    for (const auto& [key, leaf] : context_.leaves) names.push_back(key);
    for (const EntryBinder* binder = this; binder != nullptr; binder = binder->outer_) {
      for (const auto& [key, definition] : binder->definitions_) names.push_back(key);
    }
    std::sort(names.begin(), names.end());  // the hint must not depend on hash order
    return nearest_hint(name, names);
  }

  const std::vector<SourceNode>& nodes_;
  const std::vector<std::string>& output_names_;
  const SourcePlace& place_;
  std::string what_;  // "entry "main"", for messages
  EntryContext context_;
  EntryBinder* outer_ = nullptr;  // of the graph around a body
  Graph graph_;
  std::vector<Capture> captures_;
  std::unordered_map<std::string, ValueId> captured_;
  std::unordered_map<std::string, Definition> definitions_;
  std::unordered_map<std::string, ValueId> leaf_values_;  // of leaves that the entry reads
  std::unordered_set<std::string> node_names_;            // of the file, and of casts
  KnownValues known_;
  size_t hint_count_ = 0;
};

// By their texts: equal sizes may have other requirements.
void find_requirements(const Graph& graph, std::map<std::string, Dim>& found) {
  for (size_t i = 0; i < graph.value_count(); ++i) {
    for (const Dim& size : graph.value(ValueId(i)).type.shape) {
      if (has_requirement(size)) found.emplace(to_string(size), size);
    }
  }
  for (const NodeId id : graph.order()) {
    for (const auto& body : graph.node(id).bodies) find_requirements(*body, found);
  }
}

}  // namespace

Graph bind_entry(const SourceEntry& source, EntryContext context) {
  Graph graph = EntryBinder(source, context).bind(source.inputs);
  std::map<std::string, Dim> requirements;
  find_requirements(graph, requirements);
  for (const auto& [text, size] : requirements) graph.requirements.push_back(size);
  return graph;
}

}  // namespace rlx
