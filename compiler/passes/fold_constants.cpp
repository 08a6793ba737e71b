// SPDX-License-Identifier: Apache-2.0
// Constant folding: by bytes or through the reference evaluator where every input is known, into
// weights that the init entry computes where some input is large or made on the device.
#include <algorithm>
#include <map>

#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/chain.h"
#include "compiler/passes/constants.h"
#include "compiler/passes/fold_bytes.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

// A result may be larger than its inputs by this factor, or stay below this size; otherwise the
// plan would swell.
constexpr uint64_t kGrowthLimit = 2;
constexpr uint64_t kSmallBytes = 64 * 1024;
// f64 evaluation needs 8 bytes an element: beyond this the device does the work, once.
constexpr int64_t kMostElements = int64_t{1} << 26;

// What the inputs of a node are made of.
enum class InputKind : uint8_t {
  Varying,    // some input is no weight
  Known,      // weights whose bytes the compiler has
  Generated,  // weights, some of which are made on the device
};

InputKind inputs_of(const Module& module, const Graph& graph, const Node& node) {
  InputKind kind = InputKind::Known;
  for (const std::optional<ValueId>& input : node.inputs) {
    if (!input) continue;
    const Weight* weight = weight_of(module, graph, *input);
    if (weight == nullptr) return InputKind::Varying;
    if (!is_known(*weight)) kind = InputKind::Generated;
  }
  return kind;
}

bool keeps_plan_small(const Graph& graph, const Node& node) {
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  for (const std::optional<ValueId>& input : node.inputs) {
    if (input) input_bytes += byte_size(graph.value(*input).type);
  }
  for (ValueId output : node.outputs) output_bytes += byte_size(graph.value(output).type);
  return output_bytes <= std::max(kGrowthLimit * input_bytes, kSmallBytes);
}

bool evaluable(const Graph& graph, const Node& node) {
  if (find_op(node.op)->evaluate == nullptr) return false;
  const auto evaluates = [&graph](ValueId id) {
    return block_elements(graph.value(id).type.dtype) == 1;
  };
  const bool inputs_fit =
      std::all_of(node.inputs.begin(), node.inputs.end(),
                  [&](const std::optional<ValueId>& id) { return !id || evaluates(*id); });
  return inputs_fit && std::all_of(node.outputs.begin(), node.outputs.end(), evaluates);
}

bool has_large_inputs(const Graph& graph, const Node& node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&graph](const std::optional<ValueId>& id) {
                       return id && element_count(graph.value(*id).type.shape) > kMostElements;
                     });
}

bool is_view(const Node& node) {
  return find_op(node.op)->view_kind != ViewKind::None;
}

// Whether a reader of the value, or of a view of it, wants dense bytes.
bool is_read_densely(const Graph& graph, ValueId id) {
  const std::vector<NodeId> readers = graph.readers(id);
  return std::any_of(readers.begin(), readers.end(), [&graph](NodeId reader) {
    const Node& node = graph.node(reader);
    if (is_view(node)) return is_read_densely(graph, node.outputs[0]);
    return !find_op(node.op)->reads_strides && !is_elementwise(node);
  });
}

bool is_computable(const Node& node) {
  return node.outputs.size() == 1 && node.region.empty() && find_op(node.op)->lower != nullptr;
}

// nullopt after an error, or where an index lies outside.
std::optional<std::vector<ValueId>> evaluate_on_host(Module& module, Graph& graph, const Node& node,
                                                     Diagnostics& diagnostics) {
  std::vector<Tensor> inputs;
  inputs.reserve(node.inputs.size());
  std::vector<const Tensor*> pointers;
  for (const std::optional<ValueId>& input : node.inputs) {
    if (input) inputs.push_back(weight_tensor(module, *weight_of(module, graph, *input)));
    pointers.push_back(input ? &inputs.back() : nullptr);
  }
  std::vector<TensorType> types;
  for (ValueId output : node.outputs) types.push_back(graph.value(output).type);
  auto outputs = evaluate_to_fold(node, pointers, types, diagnostics);
  if (!outputs) return std::nullopt;
  std::vector<ValueId> results;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    results.push_back(
        add_constant(module, graph, graph.value(node.outputs[i]).name + ".const", (*outputs)[i]));
  }
  return results;
}

// The weights that stand for the results of a node over weights. nullopt where an input is no
// weight, or neither way is open to the node.
std::optional<std::vector<ValueId>> results_over_weights(Module& module, Graph& graph,
                                                         const Node& node,
                                                         Diagnostics& diagnostics) {
  switch (inputs_of(module, graph, node)) {
    case InputKind::Varying:
      return std::nullopt;
    case InputKind::Known:
      if (auto bytes = fold_bytes(module, graph, node, diagnostics)) {
        const Value& output = graph.value(node.outputs[0]);
        return std::vector<ValueId>{
            add_constant(module, graph, output.name + ".const", output.type, std::move(*bytes))};
      }
      if (!evaluable(graph, node)) return std::nullopt;
      if (!has_large_inputs(graph, node)) return evaluate_on_host(module, graph, node, diagnostics);
      // A view that nobody has to copy costs nothing.
      if (is_view(node) && !is_read_densely(graph, node.outputs[0])) return std::nullopt;
      [[fallthrough]];
    case InputKind::Generated:
      if (!is_computable(node)) return std::nullopt;
      return std::vector<ValueId>{add_computed(module, graph, node)};
  }
  RLX_CHECK(false, "kind of the inputs of " + node.name);
}

void replace_results(Graph& graph, const Node& node, const std::vector<ValueId>& results) {
  for (size_t i = 0; i < node.outputs.size(); ++i) graph.replace_uses(node.outputs[i], results[i]);
}

// A weight of the type and the making of `wanted`: one that an earlier node or entry left, or a new
// one. Its name is a wish: the model may have a weight of that name.
WeightId generated_weight(Module& module, Graph& graph, Weight wanted) {
  const std::optional<WeightId> known = module.weight_index.made_alike(module.weights, wanted);
  if (known) return *known;
  wanted.name = fresh_weight_name(module, graph, wanted.name);
  return module.add_weight(std::move(wanted));
}

// cast(generated weight) between floats: the generator rounds to the other type itself.
bool fold_generated_cast(Module& module, Graph& graph, const Node& node) {
  if (node.op != OpId::cast) return false;
  const Weight* weight = weight_of(module, graph, *node.inputs[0]);
  const TensorType type = graph.value(node.outputs[0]).type;
  const bool random = weight != nullptr && std::holds_alternative<RandomData>(weight->data);
  if (!random || !is_float(type.dtype)) return false;
  // Only widening to or rounding from f32 is the same as generating: the generator computes in f32.
  if (weight->type.dtype != DType::f32) return false;
  const Weight cast{.name = weight->name + "." + std::string(name_of(type.dtype)),
                    .type = type,
                    .data = weight->data};
  const WeightId id = generated_weight(module, graph, cast);
  graph.replace_uses(node.outputs[0], graph.weight_value(id, module.weight(id)));
  return true;
}

// A view of a generated weight that others read too would be a second copy of it in device memory.
bool doubles_weight(const Module& module, const Graph& graph, const Node& node) {
  return is_view(node) && inputs_of(module, graph, node) == InputKind::Generated &&
         graph.reader_count(*node.inputs[0]) > 1 &&
         byte_size(graph.value(node.outputs[0]).type) > kSmallBytes;
}

// What nodes over weights became. Entries of one module that do the same to a weight, as the
// buckets of one model do, evaluate it once and hold one result.
class FoldedNodes {
 public:
  // Makes the readers of `node` read what an equal node became; false where there was none.
  bool reuse(const Module& module, Graph& graph, const Node& node) const {
    const auto found = folded_.find(key_of(graph, node));
    if (found == folded_.end() || !node.region.empty()) return false;
    for (const Folded& folded : found->second) {
      if (folded.attributes != node.attributes || !fits(module, graph, node, folded)) continue;
      std::vector<ValueId> results;
      for (const WeightId id : folded.results)
        results.push_back(graph.weight_value(id, module.weight(id)));
      replace_results(graph, node, results);
      return true;
    }
    return false;
  }

  void add(const Graph& graph, const Node& node, const std::vector<ValueId>& results) {
    Folded folded{.attributes = node.attributes, .results = {}};
    for (const ValueId result : results) folded.results.push_back(*graph.value(result).weight);
    folded_[key_of(graph, node)].push_back(std::move(folded));
  }

 private:
  struct Folded {
    Attributes attributes;
    std::vector<WeightId> results;
  };
  using Key = std::pair<std::string, std::vector<std::optional<WeightId>>>;  // what it does, inputs

  static Key key_of(const Graph& graph, const Node& node) {
    Key key{node.op, {}};
    for (const auto& [name, value] : node.attributes)
      key.first += " " + name + "=" + to_string(value);
    for (const std::optional<ValueId>& input : node.inputs)
      key.second.push_back(input ? graph.value(*input).weight : std::nullopt);
    return key;
  }

  static bool fits(const Module& module, const Graph& graph, const Node& node,
                   const Folded& folded) {
    return std::ranges::equal(node.outputs, folded.results, [&](ValueId output, WeightId result) {
      return graph.value(output).type == module.weight(result).type;
    });
  }

  std::map<Key, std::vector<Folded>> folded_;
};

// Constants that stay nodes of an entry, because that costs a run less than to load what the init
// entry made of them: a view that nobody copies takes no bytes of the plan and of the device, and a
// chain computes its elements in registers. What reads them may still be made once.
class KeptConstants {
 public:
  // Chains of them are walked by recursion, so they end.
  static constexpr uint32_t kMostDeep = 64;

  [[nodiscard]] bool is_constant(const Module& module, const Graph& graph, ValueId id) const {
    return weight_of(module, graph, id) != nullptr || depths_.contains(id);
  }
  [[nodiscard]] bool has_room_above(const Node& node) const { return depth_of(node) < kMostDeep; }
  void keep(const Node& node) { depths_[node.outputs[0]] = depth_of(node) + 1; }

 private:
  [[nodiscard]] uint32_t depth_of(const Node& node) const {
    uint32_t depth = 0;
    for (const std::optional<ValueId>& input : node.inputs) {
      const auto found = input ? depths_.find(*input) : depths_.end();
      if (found != depths_.end()) depth = std::max(depth, found->second);
    }
    return depth;
  }

  std::map<ValueId, uint32_t> depths_;  // how many of them stand on one another
};

// What folding an entry goes by.
struct FoldState {
  FoldedNodes& folded;
  KeptConstants kept = {};
};

// Whether each reader may compute the value itself, in registers, instead of loading it. An output
// of the entry is written at every run: from its inputs, which are smaller, or from a copy.
bool is_read_in_chains(const Graph& graph, ValueId id) {
  const std::vector<NodeId> readers = graph.readers(id);
  return std::ranges::all_of(
      readers, [&graph](NodeId reader) { return is_elementwise(graph.node(reader)); });
}

bool costs_least_in_place(const Graph& graph, const Node& node) {
  const ValueId result = node.outputs[0];
  if (is_view(node)) return !is_read_densely(graph, result);
  return is_elementwise(node) && is_read_in_chains(graph, result);
}

Node over_weights(Module& module, Graph& graph, Node node);

// The weight that stands for a constant. What only the init entry reads is no weight of the device.
ValueId as_weight(Module& module, Graph& graph, ValueId id) {
  if (weight_of(module, graph, id) != nullptr) return id;
  const Node& kept = graph.node(*graph.value(id).producer);
  return add_computed(module, graph, over_weights(module, graph, kept));
}

Node over_weights(Module& module, Graph& graph, Node node) {
  for (std::optional<ValueId>& input : node.inputs) {
    if (input) input = as_weight(module, graph, *input);
  }
  return node;
}

// A node over constants that the plan is not to hold: made once, by the init entry, or kept.
bool make_once(Module& module, Graph& graph, const Node& node, KeptConstants& kept) {
  if (!is_computable(node)) return false;
  if (costs_least_in_place(graph, node) && kept.has_room_above(node)) {
    kept.keep(node);
    return false;
  }
  replace_results(graph, node, {add_computed(module, graph, over_weights(module, graph, node))});
  return true;
}

// What was expanded, or the value itself.
ValueId unexpanded(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  const Node* node = value.producer ? &graph.node(*value.producer) : nullptr;
  return node == nullptr || node->op != OpId::expand ? id : unexpanded(graph, *node->inputs[0]);
}

// op(expand(a), expand(b)) as expand(op(a, b)) where the latter computes fewer elements: the two
// new nodes. Nothing where it does not.
std::vector<NodeId> expand_later(Graph& graph, const Node& node) {
  const bool has_small_form = find_op(node.op)->scalar != nullptr && !is_positional(node.op);
  if (!has_small_form || node.outputs.size() != 1) return {};
  const TensorType& type = graph.value(node.outputs[0]).type;
  std::vector<std::optional<ValueId>> inputs = node.inputs;
  Shape shape;
  for (std::optional<ValueId>& input : inputs) {
    if (!input) continue;
    input = unexpanded(graph, *input);
    const std::optional<Shape> both = broadcast_shapes(shape, graph.value(*input).type.shape);
    if (!both) return {};
    shape = *both;
  }
  if (element_count(shape) >= element_count(type.shape)) return {};
  const NodeId position = *graph.value(node.outputs[0]).producer;
  const Ints whole(type.shape.begin(), type.shape.end());
  const ValueId small = add_node_before(graph, position, node.op, node.name + ".unexpanded",
                                        std::move(inputs), node.attributes);
  const ValueId large = add_node_before(graph, position, "expand", node.name + ".expanded", {small},
                                        {{"shape", whole}});
  graph.replace_uses(node.outputs[0], large);
  return {*graph.value(small).producer, *graph.value(large).producer};
}

bool fold(Module& module, Graph& graph, const Node& node, FoldState& state,
          Diagnostics& diagnostics);

// Results of a size that the run gives are no weights, and neither are those made by such a size.
bool takes_free_sizes(const Graph& graph, const Node& node) {
  const auto is_free = [](const Dim& size) { return size.is_free(); };
  const auto holds_free = [&is_free](const auto& attribute) {
    const auto* sizes = std::get_if<Ints>(&attribute.second);
    return sizes != nullptr && std::ranges::any_of(*sizes, is_free);
  };
  return std::ranges::any_of(node.attributes, holds_free) ||
         std::ranges::any_of(node.outputs, [&graph](ValueId id) {
           return element_count(graph.value(id).type.shape).is_free();
         });
}

// A node some of whose inputs are no weights.
bool fold_over_kept(Module& module, Graph& graph, const Node& node, FoldState& state,
                    Diagnostics& diagnostics) {
  const auto is_constant = [&](const std::optional<ValueId>& input) {
    return !input || state.kept.is_constant(module, graph, *input);
  };
  if (!std::ranges::all_of(node.inputs, is_constant)) return false;
  const std::vector<NodeId> later = expand_later(graph, node);
  if (later.empty()) return make_once(module, graph, node, state.kept);
  for (const NodeId id : later) {
    const Node part = graph.node(id);
    if (fold(module, graph, part, state, diagnostics)) graph.remove_node(id);
  }
  return true;
}

bool fold(Module& module, Graph& graph, const Node& node, FoldState& state,
          Diagnostics& diagnostics) {
  const OpDef& op = *find_op(node.op);
  // Without inputs only an elementwise op is known to depend on nothing else.
  if (op.has_effect || op.evaluate == nullptr || (node.inputs.empty() && op.scalar == nullptr))
    return false;
  if (takes_free_sizes(graph, node)) return false;
  if (fold_generated_cast(module, graph, node)) return true;
  if (inputs_of(module, graph, node) == InputKind::Varying)
    return fold_over_kept(module, graph, node, state, diagnostics);
  if (!keeps_plan_small(graph, node)) return make_once(module, graph, node, state.kept);
  if (doubles_weight(module, graph, node)) {
    if (is_computable(node)) state.kept.keep(node);
    return false;
  }
  if (state.folded.reuse(module, graph, node)) return true;
  const auto results = results_over_weights(module, graph, node, diagnostics);
  if (!results) {
    if (is_view(node) && is_computable(node)) state.kept.keep(node);
    return false;
  }
  state.folded.add(graph, node, *results);
  replace_results(graph, node, *results);
  return true;
}

}  // namespace

ValueId add_computed(Module& module, Graph& graph, const Node& node) {
  RLX_CHECK(node.outputs.size() == 1 && node.region.empty(), "computed weight of " + node.name);
  ComputedData data{.op = node.op, .attributes = node.attributes, .inputs = {}};
  for (const std::optional<ValueId>& input : node.inputs) {
    data.inputs.push_back(input ? graph.value(*input).weight : std::nullopt);
    RLX_CHECK(!input || data.inputs.back(), "an input of " + node.name + " is no weight");
  }
  const Value& output = graph.value(node.outputs[0]);
  const WeightId id = generated_weight(module, graph,
                                       {.name = output.name + ".made",
                                        .type = output.type,
                                        .data = std::move(data),
                                        .is_constant = true});
  return graph.weight_value(id, module.weight(id));
}

bool fold_weights(Module& module, Graph& graph, const Node& node, Diagnostics& diagnostics) {
  const auto results = results_over_weights(module, graph, node, diagnostics);
  if (results) replace_results(graph, node, *results);
  return results.has_value();
}

const Weight* weight_of(const Module& module, const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.origin == ValueOrigin::Weight ? &module.weight(*value.weight) : nullptr;
}

bool is_known(const Weight& weight) {
  return !std::holds_alternative<RandomData>(weight.data) &&
         !std::holds_alternative<ComputedData>(weight.data);
}

std::optional<double> known_number(const Module& module, const Graph& graph, ValueId id) {
  const ValueId small = unexpanded(graph, id);
  const Weight* weight = weight_of(module, graph, small);
  if (weight == nullptr || !is_float(weight->type.dtype)) return std::nullopt;
  const auto* host = std::get_if<HostBytes>(&weight->data);
  const auto* splat = std::get_if<SplatData>(&weight->data);
  const Dim count = element_count(weight->type.shape);
  if (count == 0 || (host == nullptr && splat == nullptr)) return std::nullopt;
  const TensorType one{.dtype = weight->type.dtype, .shape = {1}};
  if (splat != nullptr) {
    Tensor number = Tensor::zeros(one);
    number.floats[0] = splat->value;
    number.round_to_dtype();
    return number.floats[0];
  }
  const size_t bytes = element_bytes(one.dtype);
  const std::span<const std::byte> first = host->bytes.first(bytes);
  for (size_t at = bytes; at < host->bytes.size(); at += bytes) {
    if (!std::ranges::equal(host->bytes.subspan(at, bytes), first)) return std::nullopt;
  }
  return Tensor::from_bytes(one, first).floats[0];
}

size_t fold_constants(Module& module, const PassOptions&, Diagnostics& diagnostics) {
  size_t changed = 0;
  FoldedNodes folded;
  for (Graph& graph : module.entries) {
    FoldState state{.folded = folded};
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      const Node node = graph.node(id);
      if (!fold(module, graph, node, state, diagnostics)) continue;
      graph.remove_node(id);
      ++changed;
    }
  }
  return changed;
}

}  // namespace rlx
