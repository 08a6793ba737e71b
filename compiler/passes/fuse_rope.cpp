// SPDX-License-Identifier: Apache-2.0
// The rotary embeddings of an attention's queries and keys become one rope_append, together with
// the kv_append of its keys and values where they go through caches at the same position. Tables
// are by position, heads rotate as a whole, q and k come as [B,S,H,D].
#include <algorithm>
#include <set>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

enum AttentionInput : size_t { kQ, kK, kV };
enum RopeInput : size_t { kRopeX, kCos, kSin, kPositions };
enum AppendInput : size_t { kCache, kNew, kPosition };

std::string text_of(const Node& node, const char* name) {
  return AttributeReader(*find_op(node.op), node.attributes).text(name);
}

// A rope that rope_append can take over.
bool is_plain_rope(const Graph& graph, const Node& node) {
  if (node.op != OpId::rope || text_of(node, "layout") != "bshd" ||
      text_of(node, "table") != "position")
    return false;
  const AttributeReader attributes(*find_op(node.op), node.attributes);
  const TensorType& x = graph.value(*node.inputs[kRopeX]).type;
  const bool whole = !attributes.has("n_rot") || attributes.integer("n_rot") == x.shape[3];
  const std::optional<ValueId> positions = input_at(node, kPositions);
  return whole && x.shape[3] % 2 == 0 && graph.value(*node.inputs[kCos]).type.shape.size() == 2 &&
         (!positions || graph.value(*positions).type.shape.empty());
}

bool rotate_alike(const Node& a, const Node& b) {
  const AttributeReader of_a(*find_op(a.op), a.attributes);
  const AttributeReader of_b(*find_op(b.op), b.attributes);
  return a.inputs[kCos] == b.inputs[kCos] && a.inputs[kSin] == b.inputs[kSin] &&
         input_at(a, kPositions) == input_at(b, kPositions) &&
         of_a.text("style") == of_b.text("style") &&
         of_a.integer("position_offset") == of_b.integer("position_offset") &&
         of_a.flag("inverse") == of_b.flag("inverse");
}

// new -> cache: a kv_append of [B,S,H,D], as it is or transposed to [B,H,S,D].
struct Append {
  const Node* node = nullptr;
  ValueId rows{};   // of type `type`, or [B,H,1,D] where `turned`
  TensorType type;  // [B,S,H,D]
  bool by_head = false;
  bool turned = false;
};

bool swaps_rows_and_heads(const Node& node) {
  return node.op == OpId::transpose && node.attributes.contains("perm") &&
         std::get<Ints>(node.attributes.at("perm")) == Ints{0, 2, 1, 3};
}

// The rows that [B,H,S,D] is the transpose of. One row of every head is its own transpose, for
// which clean-ups leave a reshape of another shape.
std::optional<Append> rows_of_heads(const Graph& graph, const Node& append, ValueId added) {
  Append found{.node = &append, .rows = added, .type = graph.value(added).type, .by_head = true};
  std::swap(found.type.shape[1], found.type.shape[2]);
  const Node* turned = producer_of(graph, added);
  const bool is_row = found.type.shape[1] == 1;
  if (turned != nullptr &&
      (swaps_rows_and_heads(*turned) || (is_row && turned->op == OpId::reshape))) {
    found.rows = *turned->inputs[0];
    if (graph.value(found.rows).type == found.type) return found;
  }
  if (!is_row) return std::nullopt;
  found.rows = added;
  found.turned = true;
  return found;
}

std::optional<Append> append_of(const Graph& graph, ValueId value) {
  const Node* node = producer_of(graph, value);
  // What is written to a state is the value itself.
  if (node != nullptr && node->op == OpId::state_write) node = producer_of(graph, *node->inputs[1]);
  if (node == nullptr || node->op != OpId::kv_append || text_of(*node, "mode") != "linear")
    return std::nullopt;
  const Shape& cache = graph.value(*node->inputs[kCache]).type.shape;
  if (cache.size() != 4 || !graph.value(*node->inputs[kPosition]).type.shape.empty())
    return std::nullopt;
  const int64_t axis = AttributeReader(*find_op(node->op), node->attributes).integer("axis");
  const ValueId added = *node->inputs[kNew];
  if (axis == 1 || axis == -3)
    return Append{.node = node, .rows = added, .type = graph.value(added).type};
  if (axis != 2 && axis != -2) return std::nullopt;
  return rows_of_heads(graph, *node, added);
}

// What becomes one node, and the values that its outputs stand for.
struct RopeGroup {
  const Node* q = nullptr;
  const Node* k = nullptr;
  std::optional<Append> keys;
  std::optional<Append> values;

  [[nodiscard]] std::vector<ValueId> results() const {
    if (!keys) return {q->outputs[0], k->outputs[0]};
    return {q->outputs[0], keys->node->outputs[0], values->node->outputs[0]};
  }
};

// The ropes' tables have a row for each token, and where it goes in the caches is told apart.
bool goes_by_token(const RopeGroup& group) {
  return group.keys && !input_at(*group.k, kPositions);
}

bool appends_alike(const Graph& graph, const RopeGroup& group) {
  const Append& keys = *group.keys;
  const Append& values = *group.values;
  const auto position = keys.node->inputs[kPosition];
  const auto type = [&graph](ValueId id) { return graph.value(id).type; };
  const DType cache = type(*keys.node->inputs[kCache]).dtype;
  return !keys.turned && keys.by_head == values.by_head &&
         cache == type(*values.node->inputs[kCache]).dtype && is_short_float(cache) &&
         position == values.node->inputs[kPosition] &&
         (position == input_at(*group.k, kPositions) || goes_by_token(group)) &&
         type(group.k->outputs[0]) == values.type &&
         keys.node->inputs[kCache] != values.node->inputs[kCache];
}

// True where one of `values` is computed from one of `results`, which nodes make: what runs before
// all of these is computed from none.
bool depend_on(const Graph& graph, std::vector<std::optional<ValueId>> values,
               const std::vector<ValueId>& results) {
  NodeId first = *graph.value(results.front()).producer;
  for (ValueId result : results) {
    const NodeId producer = *graph.value(result).producer;
    if (graph.runs_before(producer, first)) first = producer;
  }
  std::set<ValueId> seen;
  while (!values.empty()) {
    const std::optional<ValueId> value = values.back();
    values.pop_back();
    if (!value || !seen.insert(*value).second) continue;
    if (std::find(results.begin(), results.end(), *value) != results.end()) return true;
    const std::optional<NodeId> producer = graph.value(*value).producer;
    if (!producer || graph.runs_before(*producer, first)) continue;
    const std::vector<std::optional<ValueId>>& inputs = graph.node(*producer).inputs;
    values.insert(values.end(), inputs.begin(), inputs.end());
  }
  return false;
}

std::vector<std::optional<ValueId>> inputs_of(const RopeGroup& group) {
  std::vector<std::optional<ValueId>> inputs = {group.q->inputs[kRopeX], group.k->inputs[kRopeX],
                                                std::nullopt, group.q->inputs[kCos],
                                                group.q->inputs[kSin]};
  const std::optional<ValueId> positions =
      goes_by_token(group) ? group.keys->node->inputs[kPosition] : input_at(*group.q, kPositions);
  if (positions) inputs.push_back(positions);
  if (!group.keys) return inputs;
  inputs[2] = group.values->rows;
  inputs.push_back(group.keys->node->inputs[kCache]);
  inputs.push_back(group.values->node->inputs[kCache]);
  return inputs;
}

// Neither input of the joined node is made from one of its outputs, and keys that only the cache
// takes are read nowhere else.
bool is_independent(const Graph& graph, const RopeGroup& group) {
  if (group.keys) {
    const std::optional<NodeId> reader = sole_reader(graph, group.k->outputs[0]);
    const bool goes_to_cache =
        reader && (&graph.node(*reader) == group.keys->node ||
                   (group.keys->by_head && sole_reader(graph, graph.node(*reader).outputs[0])));
    if (!goes_to_cache) return false;
  }
  std::vector<ValueId> results = group.results();
  results.push_back(group.k->outputs[0]);
  return !depend_on(graph, inputs_of(group), results);
}

std::optional<RopeGroup> group_of(const Graph& graph, const Node& attention) {
  if (attention.op != OpId::attention || !input_at(attention, kK) || !input_at(attention, kV))
    return std::nullopt;
  RopeGroup group;
  group.keys = append_of(graph, *attention.inputs[kK]);
  group.values = append_of(graph, *attention.inputs[kV]);
  group.q = producer_of(graph, *attention.inputs[kQ]);
  group.k = producer_of(graph, group.keys ? group.keys->rows : *attention.inputs[kK]);
  if (group.q == nullptr || group.k == nullptr || group.q == group.k) return std::nullopt;
  if (!is_plain_rope(graph, *group.q) || !is_plain_rope(graph, *group.k) ||
      !rotate_alike(*group.q, *group.k))
    return std::nullopt;
  const Shape& q = graph.value(group.q->outputs[0]).type.shape;
  const Shape& k = graph.value(group.k->outputs[0]).type.shape;
  const bool alike =
      q[0] == k[0] && q[1] == k[1] && q[3] == k[3] &&
      graph.value(group.q->outputs[0]).type.dtype == graph.value(group.k->outputs[0]).type.dtype;
  if (!alike || group.keys.has_value() != group.values.has_value()) return std::nullopt;
  if (group.keys && !appends_alike(graph, group)) return std::nullopt;
  return is_independent(graph, group) ? std::optional(group) : std::nullopt;
}

void fuse(Graph& graph, NodeId attention, RopeGroup group) {
  const std::vector<ValueId> old = group.results();
  if (group.values && group.values->turned) {
    group.values->rows =
        add_node_before(graph, attention, "reshape", graph.value(group.values->rows).name + ".row",
                        {group.values->rows}, {{"shape", Ints(group.values->type.shape)}});
  }
  Node node{.name = graph.fresh_name(group.q->name + ".joined"),
            .op = "rope_append",
            .inputs = inputs_of(group),
            .outputs = {},
            .attributes = {},
            .region = {},
            .place = group.q->place,
            .source = group.q->source};
  for (const char* name : {"style", "position_offset", "inverse"}) {
    const auto found = group.q->attributes.find(name);
    if (found != group.q->attributes.end()) node.attributes[name] = found->second;
  }
  if (goes_by_token(group)) node.attributes["table"] = std::string("token");
  if (group.keys) node.attributes["kv_layout"] = std::string(group.keys->by_head ? "bhsd" : "bshd");
  std::vector<NodeId> replaced;
  for (ValueId result : old) {
    replaced.push_back(*graph.value(result).producer);
    const std::string name = graph.fresh_name(graph.value(result).name + ".joined");
    node.outputs.push_back(
        graph.add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}}));
  }
  const std::vector<ValueId> fresh = node.outputs;
  const NodeId id = graph.insert_node_before(attention, std::move(node));
  Diagnostics diagnostics;
  RLX_CHECK(check_and_infer(graph, id, diagnostics), diagnostics.text());
  for (size_t i = 0; i < old.size(); ++i) graph.replace_uses(old[i], fresh[i]);
  for (NodeId node_id : replaced) graph.remove_node(node_id);
  // Other readers of the results, such as state_write, may stand before the new node.
  move_readers_behind(graph, id);
}

}  // namespace

size_t fuse_rope(Module& module, const PassOptions&, Diagnostics&) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      const std::optional<RopeGroup> group = group_of(graph, graph.node(id));
      if (!group) continue;
      fuse(graph, id, *group);
      ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
