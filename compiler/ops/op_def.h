// SPDX-License-Identifier: Apache-2.0
// An operator: its interface as data and its five behaviours as functions. One OpDef per op, one
// row in ops.def.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/dispatch/builder.h"
#include "compiler/dispatch/program.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"
#include "compiler/ops/node_builder.h"

namespace rlx {

struct Arity {
  uint32_t minimum = 1;
  uint32_t maximum = 1;
};
// The largest value of an integer attribute that a kernel takes in 32 bits.
inline constexpr double kLargestInt = std::numeric_limits<int32_t>::max();
inline constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();

// One attribute: importers refuse any that is not listed, of another type, or out of range. Each
// element of a list is held to the range. choices (strings): the legal words.
struct AttrSpec {
  std::string_view name;
  AttrType type = AttrType::Int;
  // Text of the default as in JSON ("-1", "1e-5", "false", "\"end\"", "[]"); empty: see `required`.
  std::string_view default_text;
  bool required = false;  // an attribute with neither default nor `required` is optional: absence
                          // has a meaning of its own
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  std::span<const std::string_view> choices = {};
  // The attribute is used up by infer (it is in the output's shape or dtype), so lower need not
  // read it.
  bool consumed_by_infer = false;
};

// Reads a node's attributes with the defaults of its OpDef, and remembers which were read.
class AttributeReader {
 public:
  AttributeReader(const struct OpDef& op, const Attributes& attributes);
  [[nodiscard]] bool has(std::string_view name) const;  // written in the node; counts as a read
  [[nodiscard]] int64_t integer(std::string_view name) const;
  [[nodiscard]] double real(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] std::string text(std::string_view name) const;
  [[nodiscard]] Ints integers(std::string_view name) const;
  [[nodiscard]] Floats reals(std::string_view name) const;
  [[nodiscard]] DType dtype(std::string_view name) const;
  // Attributes written in the node that nothing has read and infer does not use up.
  [[nodiscard]] std::vector<std::string> unread() const;

 private:
  const AttributeValue& get(std::string_view name, AttributeValue& scratch) const;
  const struct OpDef* op_;
  const Attributes* attributes_;
  mutable std::set<std::string, std::less<>> read_;
};

// What every behaviour sees of its node.
class NodeContext {
 public:
  NodeContext(const struct OpDef& op, const Node& node, Diagnostics& diagnostics);
  [[nodiscard]] const Node& node() const { return *node_; }
  [[nodiscard]] const AttributeReader& attrs() const { return attrs_; }
  [[nodiscard]] size_t input_count() const { return node_->inputs.size(); }
  [[nodiscard]] bool has_input(size_t i) const {
    return i < node_->inputs.size() && node_->inputs[i].has_value();
  }
  // Adds an error naming op, node and place; returns false so that a behaviour can `return
  // ctx.fail(...)`.
  bool fail(DiagCode code, std::string message, std::string hint = {});
  // Normalises a negative axis; reports and returns nullopt where it is not in [-rank, rank-1].
  std::optional<int64_t> axis(int64_t axis, size_t rank);
  // Normalises a list, reports duplicates.
  std::optional<Ints> axes(const Ints& axes, size_t rank);

 private:
  const Node* node_;
  AttributeReader attrs_;
  Diagnostics* diagnostics_;
};

class InferContext : public NodeContext {
 public:
  InferContext(const struct OpDef& op, const Graph& graph, const Node& node,
               Diagnostics& diagnostics);
  [[nodiscard]] const TensorType& input(size_t i) const;
  [[nodiscard]] const Shape& shape(size_t i) const { return input(i).shape; }
  [[nodiscard]] DType dtype(size_t i) const { return input(i).dtype; }
  [[nodiscard]] ValueOrigin origin(size_t i) const {
    return graph_->value(node().inputs.at(i).value()).origin;
  }
  void set_output(size_t i, TensorType type);
  [[nodiscard]] const std::vector<TensorType>& outputs() const { return outputs_; }
  // Of an op with bodies: inputs that no body captures, and body i.
  [[nodiscard]] const Graph& graph() const { return *graph_; }
  [[nodiscard]] size_t own_input_count() const { return input_count() - node().captures; }
  [[nodiscard]] const Graph& body(size_t i) const { return *node().bodies.at(i); }

 private:
  const Graph* graph_;
  std::vector<TensorType> outputs_;
};

// Evaluation on host tensors: plain loops in f64, no code shared with the kernels. Float results
// are not rounded to the dtype (the caller rounds where a device would store); integer results are
// wrapped to the dtype by the op.
class EvaluateContext : public NodeContext {
 public:
  EvaluateContext(const struct OpDef& op, const Node& node, std::vector<const Tensor*> inputs,
                  std::vector<TensorType> output_types, Diagnostics& diagnostics);
  [[nodiscard]] const Tensor& input(size_t i) const { return *inputs_.at(i); }
  [[nodiscard]] const TensorType& output_type(size_t i) const { return output_types_.at(i); }
  [[nodiscard]] size_t output_count() const { return output_types_.size(); }
  // Zero-filled tensor of the inferred type, to be filled in place.
  Tensor& output(size_t i) { return outputs_.at(i); }
  [[nodiscard]] std::vector<Tensor> take_outputs() { return std::move(outputs_); }
  // An index lies outside of what it indexes, which a run counts.
  void report_outside() { has_index_outside_ = true; }
  [[nodiscard]] bool has_index_outside() const { return has_index_outside_; }

 private:
  std::vector<const Tensor*> inputs_;
  std::vector<TensorType> output_types_;
  std::vector<Tensor> outputs_;
  bool has_index_outside_ = false;
};

// A copy of a node, made before the context that reads it.
struct NodeCopy {
  Node original;
};

// Rewriting a node into simpler ops of the same graph. node() is a copy: emit() may move the
// graph's own nodes.
class RewriteContext : private NodeCopy, public NodeContext, public NodeBuilder {
 public:
  RewriteContext(const struct OpDef& op, Module& module, Graph& graph, NodeId id,
                 Diagnostics& diagnostics);
  [[nodiscard]] ValueId input(size_t i) const { return node().inputs.at(i).value(); }
  // This node's output i becomes `value`; the node is removed when all outputs are replaced.
  void replace_output(size_t i, ValueId value);

 private:
  NodeId id_;
  size_t replaced_ = 0;
};

// What an elementwise op writes for one element. Names in the text are locals of the generated
// code; the text is one expression valid in GLSL and CUDA C++, over functions of shaders/lib and
// cuda_kernels/lib with equal names. Compute types: f32, f16, bf16 -> float; f64 -> double; i8, u8,
// i16, i32 -> int; u32 -> uint; i64 -> int64_t; bool -> bool. The result is of the compute type of
// result_dtype(); the caller wraps narrow integers to the dtype.
class ScalarContext {
 public:
  ScalarContext(const struct OpDef& op, const Attributes& attributes,
                std::vector<std::string> operands, std::vector<DType> operand_dtypes, DType result);
  [[nodiscard]] const AttributeReader& attrs() const { return attrs_; }
  [[nodiscard]] size_t operand_count() const { return operands_.size(); }
  [[nodiscard]] const std::string& operand(size_t i) const { return operands_.at(i); }
  [[nodiscard]] DType operand_dtype(size_t i) const { return operand_dtypes_.at(i); }
  [[nodiscard]] DType result_dtype() const { return result_; }

 private:
  AttributeReader attrs_;
  std::vector<std::string> operands_;
  std::vector<DType> operand_dtypes_;
  DType result_;
};

class LowerContext;     // compiler/ops/lowering/lower_context.h
class GradientContext;  // compiler/ops/gradient.h
class LoweringState;

// Whether the result is a view of the first input, which costs nothing at run time.
enum class ViewKind : uint8_t {
  None,
  View,    // some of its elements, or all in another order
  Reshape  // all of its elements in the same order, under another shape
};

struct OpDef {
  std::string_view name;       // as written in graph files
  std::string_view signature;  // for `rlxc ops`: "softmax(x; axis=-1) -> y"
  Arity inputs;
  Arity outputs;
  std::span<const AttrSpec> attrs;
  bool (*infer)(InferContext&) = nullptr;        // output dtypes and shapes, or a diagnostic
  bool (*evaluate)(EvaluateContext&) = nullptr;  // test oracle and constant folder
  // The op as simpler ops: such nodes of a model are rewritten at once. With `lower` too, later
  // passes make them again where the target has a kernel.
  bool (*decompose)(RewriteContext&) = nullptr;
  // From the gradients of the outputs those of the inputs, by new nodes. An op without it is
  // differentiated through what decompose makes of it; one that has neither has no gradient.
  bool (*gradient)(GradientContext&) = nullptr;
  bool (*lower)(LowerContext&) = nullptr;  // emit dispatches; the target never appears by name
  // Elementwise ops: the expression of one element. Such an op can join a region, and its lower is
  // lower_elementwise.
  std::string (*scalar)(const ScalarContext&) = nullptr;
  // Optional inputs of this op by position: a null input elsewhere is an arity error.
  std::span<const uint32_t> optional_inputs = {};
  // Of an op that draws random numbers, the position of its optional input [seed], behind which is
  // [step]: a model that leaves them out is given the session's. Its result is no function of the
  // other inputs, so import does not fold it.
  std::optional<uint32_t> seed_input = std::nullopt;
  // Of such an op, the position of its last output, which is the step of the next run.
  std::optional<uint32_t> next_step_output = std::nullopt;
  // Never folded or merged with an equal node (state_write).
  bool has_effect = false;
  // The result depends on the inputs' shapes alone: always folded, even where the inputs are not
  // constants.
  bool shape_only = false;
  // lower() takes inputs of any strides as they stand; other ops copy what is not dense.
  // Elementwise ops do, whatever stands here.
  bool reads_strides = false;
  // Why lower() cannot write the node's only result to `place`, a view with gaps or of another
  // order of axes; empty where it can. nullptr: the op writes dense results only; elementwise ops
  // write any.
  std::string (*place_refusal)(const LoweringState& state, const Node& node,
                               const TensorRef& place) = nullptr;
  // Of an op with bodies: their names, in the order of Node::bodies; and the types of the inputs of
  // one of them that stand before what it captures. Such ops are gone before lowering
  // (passes/inline_bodies).
  std::span<const std::string_view> bodies = {};
  bool (*body_inputs)(InferContext&, size_t body, std::vector<TensorType>& types) = nullptr;
  // Bit i: input i holds indices, and the op tells of those that lie outside (check_indices).
  uint32_t index_inputs = 0;
  ViewKind view_kind = ViewKind::None;
  // Bit i: input i stays f32 where the model gives it so, whatever the precision mode: indices,
  // conditions, statistics and exact values.
  uint32_t keeps_f32 = 0;
  // Input 0 is a state or a cache, which keeps its type: input 1 is cast to it, never it to
  // another.
  bool takes_type_of_first = false;
  // With one result, lower() reads and writes images and rows of pixels (rank 4 and 3) of any
  // layout. Elementwise ops do, whatever stands here.
  bool any_layout = false;
};

// Every op, in the order of ops.def.
std::span<const OpDef* const> all_ops();
// nullptr where there is none of that name.
const OpDef* find_op(std::string_view name);
// The op names nearest to a misspelt one, for hints.
std::string suggest_op(std::string_view name);

// Checks arity and attributes of a node against its OpDef (types, ranges, unknown names, required
// ones); every fault becomes a diagnostic. Then runs infer and stores the types. Returns false
// where anything was reported.
bool check_and_infer(Graph& graph, NodeId id, Diagnostics& diagnostics);
// The types that the inputs of each body of a node have, but for those that it captures: arity and
// attributes are checked. nullopt where anything was reported. Precondition: the node's op is
// `op`, its inputs have their types.
std::optional<std::vector<std::vector<TensorType>>> body_input_types(const OpDef& op,
                                                                     const Graph& graph,
                                                                     const Node& node,
                                                                     Diagnostics& diagnostics);
// Attributes alone, for region steps and importers.
bool check_attributes(const OpDef& op, const Node& node, Diagnostics& diagnostics);
// Evaluates one node on host tensors; a null input is nullptr.
std::optional<std::vector<Tensor>> evaluate_node(const Node& node,
                                                 std::vector<const Tensor*> inputs,
                                                 std::vector<TensorType> output_types,
                                                 Diagnostics& diagnostics);
// The same of a node whose results are to stand in its place: nullopt, with nothing reported, where
// an index lies outside too. The node is left to the run then, which tells of it.
std::optional<std::vector<Tensor>> evaluate_to_fold(const Node& node,
                                                    std::vector<const Tensor*> inputs,
                                                    std::vector<TensorType> output_types,
                                                    Diagnostics& diagnostics);

}  // namespace rlx
