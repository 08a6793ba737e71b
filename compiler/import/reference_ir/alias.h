// SPDX-License-Identifier: Apache-2.0
// Operators of the reference systems' IR (ops.md 18.2) under the names that it gives them: what
// each takes, and which operators of the catalogue express it. A graph names them as any other
// operator; binding puts what expresses them in their place, where the types of their inputs are
// known.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/source_graph.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/prepare.h"

namespace rlx::reference_ir {

// Which of the reference systems claim an operator (ops.md 18.1), as bits.
enum Systems : uint8_t { kNone = 0, kVulkan = 1, kWgpu = 2, kCuda = 4, kAll = 7 };

class AliasNode;

struct Alias {
  std::string_view name;
  uint8_t systems = kNone;
  // What expresses it, for the page; or, without `express`, why nothing does.
  std::string_view as;
  Arity inputs = {};
  std::span<const AttrSpec> attrs = {};
  std::vector<ValueId> (*express)(AliasNode&) = nullptr;  // the results, in the order of outputs
  uint32_t most_outputs = 1;
};

// nullptr: no name of the reference IR.
const Alias* find_alias(std::string_view name);
// All, by name, those of control flow (control.h) among them.
std::vector<const Alias*> all_aliases();
// The attributes as an OpDef's, with `shape` and `dtype`, the declared type of the result, which
// every node of the reference IR has. It lives as long as the process.
const OpDef& interface_of(const Alias& alias);

// One node as what expresses it sees it. Whatever does not fit leaves by refuse().
class AliasNode {
 public:
  using Namer = std::function<std::string(std::string stem)>;  // free names for nodes and values
  AliasNode(const OpDef& face, const Node& node, Module& module, Graph& graph, KnownValues& known,
            Namer namer);

  [[nodiscard]] size_t input_count() const { return node_->inputs.size(); }
  [[nodiscard]] bool has(size_t i) const { return i < input_count() && node_->inputs[i]; }
  [[nodiscard]] ValueId input(size_t i) const;
  [[nodiscard]] std::optional<ValueId> optional(size_t i) const;
  [[nodiscard]] const TensorType& type(ValueId id) const { return graph_->value(id).type; }
  [[nodiscard]] const Shape& shape(size_t i) const { return type(input(i)).shape; }
  [[nodiscard]] DType dtype(size_t i) const { return type(input(i)).dtype; }
  [[nodiscard]] size_t rank(size_t i) const { return shape(i).size(); }
  [[nodiscard]] size_t output_count() const { return node_->outputs.size(); }

  [[nodiscard]] const AttributeReader& attrs() const { return attrs_; }
  // The attributes of these names that the node has, as they are: for operators that call them so.
  [[nodiscard]] Attributes same(std::initializer_list<std::string_view> names) const;
  // The declared type of the result.
  [[nodiscard]] std::optional<Shape> declared_shape() const;
  [[nodiscard]] Shape needed_shape() const;   // refuses where it is not declared
  [[nodiscard]] DType index_dtype() const;    // of indices as results: the declared one, else f32
  [[nodiscard]] size_t axis(size_t i) const;  // attribute `axis` within input i's rank

  ValueId emit(std::string_view op, std::vector<std::optional<ValueId>> inputs,
               Attributes attributes = {});
  std::vector<ValueId> emit_all(std::string_view op, std::vector<std::optional<ValueId>> inputs,
                                Attributes attributes, size_t outputs);
  ValueId cast(ValueId x, DType to);  // nothing where it has that type
  ValueId reshape(ValueId x, const Shape& shape);
  ValueId transpose(ValueId x, const Ints& perm);
  ValueId filled(const TensorType& type, double value);
  ValueId scalar(ValueId like, double value);
  // Elementwise operators of two values, cast to what both can be.
  ValueId binary(std::string_view op, ValueId a, ValueId b);
  ValueId narrow(ValueId x, size_t axis, int64_t start, int64_t length);
  // A weight of bytes as one of another type over the same bytes: packed forms.
  ValueId retyped_weight(ValueId bytes, const TensorType& type);

  [[noreturn]] void refuse(const std::string& message, const std::string& hint = {}) const;

 private:
  const Node* node_;
  AttributeReader attrs_;
  Module* module_;
  Graph* graph_;
  KnownValues* known_;
  Namer namer_;
};

// Calls `make` with the node, whose inputs have their types and are as many as the alias takes,
// once its attributes are known to be good. False where anything was reported.
bool with_alias_node(const Alias& alias, const Node& node, Module& module, Graph& graph,
                     KnownValues& known, AliasNode::Namer namer, Diagnostics& diagnostics,
                     const std::function<void(AliasNode&)>& make);
// Adds to the graph what expresses the node: its results. nullopt where anything was reported.
std::optional<std::vector<ValueId>> express(const Alias& alias, const Node& node, Module& module,
                                            Graph& graph, KnownValues& known,
                                            AliasNode::Namer namer, Diagnostics& diagnostics);

// The families.
std::span<const Alias> elementwise_aliases();
std::span<const Alias> quantised_aliases();
std::span<const Alias> product_aliases();
std::span<const Alias> row_aliases();
std::span<const Alias> attention_aliases();
std::span<const Alias> movement_aliases();
std::span<const Alias> vision_aliases();
std::span<const Alias> sequence_aliases();
std::span<const Alias> custom_aliases();
std::span<const Alias> gradient_aliases();
std::span<const Alias> control_aliases();
std::span<const Alias> missing_aliases();

}  // namespace rlx::reference_ir
