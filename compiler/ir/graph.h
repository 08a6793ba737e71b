// SPDX-License-Identifier: Apache-2.0
// The compiler's graph: typed values and named nodes of one entry, and the module that holds the
// entries together with the weights, constants and states that they share. Sizes are numbers, or
// expressions over the module's free symbols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "compiler/ir/attributes.h"
#include "compiler/ir/ids.h"
#include "compiler/ir/node_sequence.h"
#include "compiler/ir/weight_index.h"
#include "compiler/support/diagnostics.h"
#include "compiler/support/shape.h"

namespace rlx {

// Bytes of a weight: dense, row-major, little-endian; `owner` keeps them alive (a mapped file or a
// vector).
struct HostBytes {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};
// Every element is `value`, rounded to the dtype.
struct SplatData {
  double value = 0;
};
// Philox of ops.md 0.8 with step 0; the counter is the element index. Uniform: low + (high - low) *
// u(w), computed in f32. Normal: mean + std * n (ops.md 12.2), computed in f32. Then rounded once
// to the dtype.
struct RandomData {
  enum class Distribution : uint8_t { Uniform, Normal };
  Distribution distribution = Distribution::Uniform;
  double a = 0;  // low or mean
  double b = 1;  // high or std
  uint64_t seed = 0;
  uint32_t stream = 0;
};
// The only output of a node over weights that stand before this one in the module; some of them are
// made on the device, or are too large to be evaluated by the compiler. The init entry computes it
// once, after the weights are uploaded.
struct ComputedData {
  std::string op;  // row of ops.def
  Attributes attributes;
  std::vector<std::optional<WeightId>> inputs;
  bool operator==(const ComputedData&) const = default;
};
using WeightData = std::variant<HostBytes, SplatData, RandomData, ComputedData>;

// A param or a constant; shared by all entries.
struct Weight {
  std::string name;
  TensorType type;
  WeightData data;
  bool is_constant = false;  // written as a constant in the source, or made by folding
};

// Persistent tensor; `init` absent: zeros.
struct State {
  std::string name;
  TensorType type;
  std::optional<WeightId> init;
};

struct Symbol {
  std::string name;
  int64_t minimum = 1;
  int64_t maximum = 1;
  int64_t multiple_of = 1;
  int64_t bound = 1;     // value it was bound to; of a free one the maximum
  bool is_free = false;  // a run gives it a value
  bool differs = false;  // entries bind it to different values: of the whole it says nothing
};

// The values of a free symbol that a graph is for, where these are some of the module's.
struct GraphRange {
  uint32_t symbol = 0;  // of the module's symbols
  int64_t minimum = 1;
  int64_t maximum = 1;
  int64_t multiple_of = 1;
};

// One scalar operation of a fused elementwise region. Operand i < inputs of the node is the node's
// input i; operand inputs + j is step j.
struct RegionStep {
  std::string op;
  Attributes attributes;
  std::vector<uint32_t> operands;
  DType dtype = DType::f32;  // of the result
};

class Graph;

struct Node {
  std::string name;
  std::string op;  // row of ops.def
  std::vector<std::optional<ValueId>> inputs;
  std::vector<ValueId> outputs;
  Attributes attributes;
  std::vector<RegionStep> region;  // the chain of an ew_region; otherwise empty
  SourcePlace place;
  std::string source;  // the author's note, e.g. "train.py:12"
  // The sub-graphs of an op of control flow, in the order of OpDef::bodies. They are never edited:
  // passes put new ones in their place. A body knows weights and states as an entry does; every
  // other value of the graph around it is one of its inputs.
  std::vector<std::shared_ptr<const Graph>> bodies = {};
  // So many of the last inputs are what the bodies capture: they are the last inputs of each body.
  uint32_t captures = 0;
};

// The node's i-th input; none where it is left out or behind the last.
inline std::optional<ValueId> input_at(const Node& node, size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : std::nullopt;
}

enum class ValueOrigin : uint8_t { Input, Weight, State, Node };

struct Value {
  std::string name;
  TensorType type;  // filled by infer for results of nodes
  ValueOrigin origin = ValueOrigin::Node;
  std::optional<WeightId> weight;  // origin Weight
  std::optional<StateId> state;    // origin State
  std::optional<NodeId> producer;  // origin Node
  uint32_t output_index = 0;       // which output of the producer
};

// One entry. Nodes stand in a topological order after import. Every value knows who reads it, and
// every name is indexed, so that an edit costs what it touches and not the size of the graph.
class Graph {
 public:
  std::string name;  // entry's name
  std::vector<ValueId> inputs;
  // Names of the outputs as the user wrote them, one per output: passes may replace the values
  // behind them.
  std::vector<std::string> output_names;
  // Ascending by symbol. Graphs of one name are one entry, for different values of the symbols.
  std::vector<GraphRange> ranges;
  // Sizes of the graph as it was imported that some values of the symbols do not have
  // (required_at_least): a run at these is refused, whatever becomes of the nodes.
  std::vector<Dim> requirements;

  ValueId add_value(Value value);
  // Adds a node and sets producer and output_index of its outputs.
  NodeId add_node(Node node);
  // Adds a node right before `position` in execution order.
  NodeId insert_node_before(NodeId position, Node node);

  // The name of a value and the weight that it stands for stay as they were added.
  [[nodiscard]] Value& value(ValueId id) { return values_.at(index_of(id)); }
  [[nodiscard]] const Value& value(ValueId id) const { return values_.at(index_of(id)); }
  [[nodiscard]] const Node& node(NodeId id) const { return nodes_.at(index_of(id)); }
  // Calls change(Node&) and then notes what the node reads and how it is called.
  template <typename Change>
  void change_node(NodeId id, const Change& change) {
    const bool is_live = contains(id);
    if (is_live) forget_uses(id);
    change(nodes_.at(index_of(id)));
    if (is_live) note_uses(id);
    names_.insert(node(id).name);
  }
  // Input i of a node reads another value.
  void set_input(NodeId id, size_t i, ValueId value) {
    change_node(id, [i, value](Node& node) { node.inputs.at(i) = value; });
  }
  [[nodiscard]] size_t value_count() const { return values_.size(); }
  // Execution order of the live nodes; an edit of the graph ends the list's validity.
  [[nodiscard]] const std::vector<NodeId>& order() const { return order_.list(); }
  void set_order(const std::vector<NodeId>& order);
  // False for a removed node.
  [[nodiscard]] bool contains(NodeId id) const { return order_.contains(id); }
  // Of two live nodes.
  [[nodiscard]] bool runs_before(NodeId a, NodeId b) const { return order_.stands_before(a, b); }
  // Moves a node right behind another one.
  void move_behind(NodeId position, NodeId id) { order_.move_behind(position, id); }

  // The entry's results; a value may be listed more than once, and may be an input or a weight.
  [[nodiscard]] const std::vector<ValueId>& outputs() const { return outputs_; }
  void add_output(ValueId id);
  void set_outputs(const std::vector<ValueId>& outputs);
  [[nodiscard]] bool is_output(ValueId id) const { return output_places_.contains(id); }

  void remove_node(NodeId id);
  // Makes every reader of `from` (nodes and graph outputs) read `to`.
  void replace_uses(ValueId from, ValueId to);
  // Nodes that read a value, in execution order, a node twice if it reads it twice; graph outputs
  // are not counted.
  [[nodiscard]] std::vector<NodeId> readers(ValueId id) const;
  // How many readers() lists.
  [[nodiscard]] size_t reader_count(ValueId id) const { return uses_.at(index_of(id)).size(); }
  // The node that alone reads a value, however often; nullopt where none or several do.
  [[nodiscard]] std::optional<NodeId> only_reader(ValueId id) const;
  // The value standing for a weight or state in this entry, made on first use.
  ValueId weight_value(WeightId id, const Weight& weight);
  // A name not yet used by a value or node, made from `stem`.
  [[nodiscard]] std::string fresh_name(const std::string& stem);

  // A fault of the lists of readers and names, which follow every edit; nullopt where they tell
  // what the nodes do.
  [[nodiscard]] std::optional<std::string> find_index_fault() const;

 private:
  // Input `input` of a node.
  struct Use {
    NodeId node;
    uint32_t input;
  };

  void note_uses(NodeId id);
  void forget_uses(NodeId id);
  [[nodiscard]] bool is_noted(NodeId id, uint32_t input) const;

  std::vector<Value> values_;
  std::vector<Node> nodes_;
  NodeSequence order_;
  std::vector<ValueId> outputs_;
  std::unordered_map<ValueId, std::vector<size_t>> output_places_;  // where outputs_ lists a value
  std::vector<std::vector<Use>> uses_;                  // per value, by live nodes, in any order
  std::vector<std::vector<size_t>> use_places_;         // per node and input: where uses_ lists it
  std::unordered_map<WeightId, ValueId> weights_;       // first value of each weight
  std::unordered_set<std::string> names_;               // of values and nodes, removed ones too
  std::unordered_map<std::string, uint64_t> suffixes_;  // per stem: numbers below are taken
};

// A file of the model, mapped: where weights' bytes may lie.
struct ModelFile {
  std::string name;  // relative to the model's folder
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;
};

struct Module {
  std::string name;
  std::string producer;
  std::vector<Symbol> symbols;
  std::vector<Weight> weights;
  std::vector<State> states;
  std::vector<Graph> entries;
  // A language model's tokenizer and chat templates (schema/text.fbs), as they go into the plan.
  std::vector<std::byte> text = {};
  std::vector<ModelFile> files = {};

  [[nodiscard]] Weight& weight(WeightId id) { return weights.at(index_of(id)); }
  [[nodiscard]] const Weight& weight(WeightId id) const { return weights.at(index_of(id)); }
  [[nodiscard]] const State& state(StateId id) const { return states.at(index_of(id)); }
  WeightId add_weight(Weight weight);

  // Of `weights`, which only grow.
  WeightIndex weight_index = {};
};

// Structural check after import and after every pass: ids in range, names unique and not empty,
// every read value made before it is read, one producer per value, types present, lists of readers
// as the nodes say. Linear in the module's size. Returns the first fault as a sentence, or nullopt.
std::optional<std::string> find_fault(const Module& module);

// Stable text form of a module: one line per value and node, no pointers, same text for equal
// modules.
std::string print(const Module& module);
std::string print(const Module& module, const Graph& graph);

}  // namespace rlx
