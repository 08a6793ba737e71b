// SPDX-License-Identifier: Apache-2.0
// LinearAttention and CausalConvWithState of opset 27 (ops.md 10.6, 10.7, 19).
#include <array>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {
namespace {

enum LinearInput : size_t {
  kLinearQuery,
  kLinearKey,
  kLinearValue,
  kLinearPast,
  kLinearDecay,
  kLinearBeta
};
enum CausalInput : size_t { kCausalX, kCausalWeight, kCausalBias, kCausalPast };

// States are carried in f32: those of the model are cast on their way in and out.
std::optional<ValueId> past_state(NodeReader& n, size_t input) {
  if (!n.has_input(input)) return std::nullopt;
  return n.cast(n.input(input), DType::f32);
}

// The state has the type of the one before it, or where there is none, that of x.
void set_present_state(NodeReader& n, ValueId state, size_t past) {
  if (n.wants_output(1)) n.set_output(1, n.cast(state, n.dtype(n.has_input(past) ? past : 0)));
}

// [batch, steps, heads * size] as [batch, steps, heads, size].
ValueId with_heads(NodeReader& n, size_t input, int64_t heads, const std::string& name) {
  const Shape& shape = n.shape(input);
  if (shape.size() != 3 || !shape[2].divides_by(heads)) {
    n.refuse_shapes(name + " is " + to_string(shape) + ", wanted [batch, steps, heads * size] of " +
                    std::to_string(heads) + " heads");
  }
  return n.reshape(n.input(input), {shape[0], shape[1], heads, shape[2] / heads});
}

// By head as it is, by key with an axis of keys.
ValueId read_decay(NodeReader& n, int64_t heads) {
  const Shape& shape = n.shape(kLinearDecay);
  if (shape.size() == 3 && shape[2] == heads) return n.input(kLinearDecay);
  return with_heads(n, kLinearDecay, heads, "decay");
}

ValueId read_beta(NodeReader& n, int64_t heads) {
  const Shape& shape = n.shape(kLinearBeta);
  if (shape.size() != 3 || !(shape[2] == 1) || heads == 1) return n.input(kLinearBeta);
  return n.emit("expand", {n.input(kLinearBeta)}, {{"shape", Ints{shape[0], shape[1], heads}}});
}

void linear_attention(NodeReader& n, const OnnxOp&) {
  const int64_t query_heads = n.required_integer("q_num_heads");
  const int64_t heads = n.required_integer("kv_num_heads");
  if (heads < 1 || query_heads < 1 || query_heads % heads != 0) {
    n.refuse("q_num_heads is " + std::to_string(query_heads) + " and kv_num_heads " +
             std::to_string(heads) + ", wanted a multiple of the second");
  }
  n.integer("chunk_size", 64);  // a hint of how to compute it
  const std::string rule = n.text("update_rule", "gated_delta");
  Attributes attributes = {{"num_heads", heads}, {"rule", rule}};
  if (const double scale = n.real("scale", 0); scale != 0) attributes.emplace("scale", scale);
  Inputs inputs = {with_heads(n, kLinearQuery, query_heads, "query"),
                   with_heads(n, kLinearKey, heads, "key"),
                   with_heads(n, kLinearValue, heads, "value")};
  inputs.push_back(n.has_input(kLinearDecay) ? std::optional(read_decay(n, heads)) : std::nullopt);
  inputs.push_back(n.has_input(kLinearBeta) ? std::optional(read_beta(n, heads)) : std::nullopt);
  inputs.push_back(past_state(n, kLinearPast));
  const std::vector<ValueId> results =
      n.emit_all("gated_deltanet", std::move(inputs), std::move(attributes), 2);
  const Shape y = n.type(results[0]).shape;
  if (n.wants_output(0)) n.set_output(0, n.reshape(results[0], {y[0], y[1], y[2] * y[3]}));
  set_present_state(n, results[1], kLinearPast);
}

void causal_conv_with_state(NodeReader& n, const OnnxOp&) {
  const std::string activation = n.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    n.refuse("the activation \"" + activation + "\" is unknown, wanted none, silu or swish");
  const std::vector<ValueId> results =
      n.emit_all("causal_conv1d",
                 {n.input(kCausalX), n.input(kCausalWeight), n.optional_input(kCausalBias),
                  past_state(n, kCausalPast)},
                 {{"activation", std::string(activation == "none" ? "none" : "silu")}}, 2);
  if (n.wants_output(0)) n.set_output(0, results[0]);
  set_present_state(n, results[1], kCausalPast);
}

constexpr std::array kStateSpaceRows = {
    OnnxOp{"CausalConvWithState", causal_conv_with_state},
    OnnxOp{"LinearAttention", linear_attention},
};

}  // namespace

std::span<const OnnxOp> state_space_rows() {
  return kStateSpaceRows;
}

}  // namespace rlx::onnx_import
