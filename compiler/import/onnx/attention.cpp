// SPDX-License-Identifier: Apache-2.0
// Attention, opsets 23 to 25 (ops.md 5.1, 19).
#include <array>
#include <cmath>
#include <limits>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {
namespace {

enum Input : size_t { kQ, kK, kV, kMask, kPastKey, kPastValue, kValidKeys };
enum Output : size_t { kY, kPresentKey, kPresentValue, kScores };

constexpr int64_t kDouble = 11;  // TensorProto.DOUBLE

// The operands as they are given to the op.
struct Operands {
  ValueId q{};
  ValueId k{};
  ValueId v{};
  bool heads_outermost = true;  // q: [batch, heads, tokens, dim], else [batch, tokens, heads * dim]
  bool kv_outermost = true;     // k and v likewise
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t v_head_dim = 0;
  int64_t q_tokens = 0;
  int64_t kv_tokens = 0;  // with those of the past
  int64_t past_tokens = 0;
};

int64_t head_count(NodeReader& n, size_t input, std::string_view attribute) {
  const std::string name(attribute);
  if (n.rank(input) == 4) {
    const int64_t heads = n.shape(input)[1];
    const int64_t written = n.integer(attribute, heads);
    if (written != heads)
      n.refuse(name + " is " + std::to_string(written) + ", but input " + std::to_string(input) +
               " has " + std::to_string(heads) + " heads");
    return heads;
  }
  const int64_t heads = n.required_integer(attribute);
  if (heads < 1 || n.shape(input)[2] % heads != 0)
    n.refuse_shapes(name + " " + std::to_string(heads) + " does not divide " +
                    to_string(n.shape(input)));
  return heads;
}

// [batch, tokens, heads * dim] as [batch, heads, tokens, dim].
ValueId with_heads_outermost(NodeReader& n, ValueId x, int64_t heads) {
  const Shape shape = n.type(x).shape;
  if (shape.size() == 4) return x;
  return n.transpose(n.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

Operands read_operands(NodeReader& n) {
  const size_t rank = n.shape(kQ).size();
  const bool ranks_agree = n.shape(kK).size() == rank && n.shape(kV).size() == rank;
  if ((rank != 3 && rank != 4) || !ranks_agree)
    n.refuse_shapes("Q, K and V are " + to_string(n.shape(kQ)) + ", " + to_string(n.shape(kK)) +
                    " and " + to_string(n.shape(kV)) + ", wanted all of rank 3 or all of rank 4");
  Operands o{.q = n.input(kQ), .k = n.input(kK), .v = n.input(kV)};
  o.heads_outermost = o.kv_outermost = rank == 4;
  o.heads = head_count(n, kQ, "q_num_heads");
  o.kv_heads = head_count(n, kK, "kv_num_heads");
  if (o.kv_heads < 1 || o.heads % o.kv_heads != 0)
    n.refuse_shapes(std::to_string(o.heads) + " heads of Q do not share " +
                    std::to_string(o.kv_heads) + " heads of K evenly");
  if (rank == 3 && n.shape(kV)[2] % o.kv_heads != 0)
    n.refuse_shapes("kv_num_heads does not divide " + to_string(n.shape(kV)));
  o.head_dim = rank == 4 ? n.shape(kQ)[3] : n.shape(kQ)[2] / o.heads;
  o.v_head_dim = rank == 4 ? n.shape(kV)[3] : n.shape(kV)[2] / o.kv_heads;
  o.q_tokens = n.shape(kQ)[rank == 4 ? 2 : 1];
  o.kv_tokens = n.shape(kK)[rank == 4 ? 2 : 1];
  return o;
}

// Puts the past before K and V, and gives the whole as the present.
void join_past(NodeReader& n, Operands& o) {
  const bool has_past = n.has_input(kPastKey);
  if (has_past != n.has_input(kPastValue))
    n.refuse("past_key and past_value are given together or not at all");
  if (has_past || n.wants_output(kPresentKey) || n.wants_output(kPresentValue)) {
    o.k = with_heads_outermost(n, o.k, o.kv_heads);
    o.v = with_heads_outermost(n, o.v, o.kv_heads);
    o.kv_outermost = true;
  }
  if (has_past) {
    o.past_tokens = n.shape(kPastKey).size() == 4 ? n.shape(kPastKey)[2] : 0;
    o.k = n.emit("concat", {n.input(kPastKey), o.k}, {{"axis", int64_t{2}}});
    o.v = n.emit("concat", {n.input(kPastValue), o.v}, {{"axis", int64_t{2}}});
    o.kv_tokens += o.past_tokens;
  }
  if (n.wants_output(kPresentKey)) n.set_output(kPresentKey, o.k);
  if (n.wants_output(kPresentValue)) n.set_output(kPresentValue, o.v);
}

// The mask at rank 4; keys that it does not reach are masked.
std::optional<ValueId> read_mask(NodeReader& n, const Operands& o) {
  if (!n.has_input(kMask)) return std::nullopt;
  ValueId mask = n.input(kMask);
  const DType dtype = n.type(mask).dtype;
  if (dtype != DType::bool_ && !is_float(dtype))
    n.refuse("attn_mask is " + std::string(name_of(dtype)) + ", wanted bool or a float type");
  Shape shape = n.type(mask).shape;
  if (shape.size() > 4)
    n.refuse_shapes("attn_mask is " + to_string(shape) + ", wanted rank 4 at most");
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  mask = n.reshape(mask, shape);
  if (shape[3] == 1 || shape[3] >= o.kv_tokens) return mask;  // 1: the same for all keys
  shape[3] = o.kv_tokens - shape[3];
  Shape none(shape.size(), 1);
  const ValueId masked =
      dtype == DType::bool_
          ? n.constant_ints(dtype, none, {0})
          : n.constant_reals(dtype, none, {-std::numeric_limits<double>::infinity()});
  return n.emit("concat", {mask, n.emit("expand", {masked}, {{"shape", Ints(shape)}})},
                {{"axis", int64_t{3}}});
}

// Positions: the first query follows the past, or is the last but so many of the valid keys, or is
// 0.
void place_queries(NodeReader& n, const Operands& o, Inputs& inputs, Attributes& attributes) {
  attributes.emplace("causal", n.integer("is_causal", 0) != 0);
  for (const auto& [theirs, ours] : {std::pair("left_window_size", "window_left"),
                                     std::pair("right_window_size", "window_right")}) {
    const int64_t size = n.opset() >= 25 ? n.integer(theirs, -1) : -1;
    if (size >= 0) attributes.emplace(ours, size);
  }
  std::optional<ValueId> valid_keys;
  if (n.opset() >= 24) valid_keys = n.optional_input(kValidKeys);
  if (valid_keys && o.past_tokens > 0) n.refuse("nonpad_kv_seqlen and past_key exclude each other");
  inputs.push_back(valid_keys);
  attributes.emplace("causal_align", std::string(valid_keys ? "end" : "start"));
  if (o.past_tokens > 0) inputs.push_back(n.constant_ints(DType::i32, {}, {o.past_tokens}));
}

// What the last output shows: scale * Q * K^T (mode 0), after softcap (1), after the mask (2).
void set_scores(NodeReader& n, const Operands& o, const std::optional<ValueId>& mask,
                const Attributes& attributes) {
  const int64_t mode = n.integer("qk_matmul_output_mode", 0);
  if (!n.wants_output(kScores)) return;
  const bool is_masked_by_position =
      std::get<bool>(attributes.at("causal")) || attributes.contains("window_left") ||
      attributes.contains("window_right") || (n.opset() >= 24 && n.has_input(kValidKeys));
  if (mode < 0 || mode > 2 || (mode == 2 && is_masked_by_position))
    n.refuse("qk_matmul_output of mode " + std::to_string(mode) +
                 (is_masked_by_position ? " with keys masked by position" : "") +
                 " is not supported, wanted 0 (products), 1 (after softcap) or 2 (after attn_mask)",
             "it is for debugging: leave that output out");
  const ValueId q = with_heads_outermost(n, o.q, o.heads);
  ValueId k = with_heads_outermost(n, o.k, o.kv_heads);
  if (o.heads != o.kv_heads) {
    k = n.emit("repeat_interleave", {k}, {{"axis", int64_t{1}}, {"repeats", o.heads / o.kv_heads}});
  }
  ValueId scores = n.emit("matmul", {q, k}, {{"trans_b", true}});
  scores = n.emit("affine", {scores}, {{"mul", attributes.at("scale")}});
  const double cap = std::get<double>(attributes.at("softcap"));
  if (mode >= 1 && cap > 0) {
    const ValueId share = n.emit("affine", {scores}, {{"mul", 1 / cap}});
    scores = n.emit("affine", {n.emit("tanh", {share})}, {{"mul", cap}});
  }
  if (mode == 2 && mask) {
    const DType dtype = n.type(scores).dtype;
    scores = n.type(*mask).dtype == DType::bool_
                 ? n.emit("where", {*mask, scores,
                                    n.scalar(dtype, -std::numeric_limits<double>::infinity())})
                 : n.emit("add", {scores, n.cast(*mask, dtype)});
  }
  n.set_output(kScores, scores);
}

void attention(NodeReader& n, const OnnxOp&) {
  Operands o = read_operands(n);
  join_past(n, o);
  if (n.integer("softmax_precision", 0) == kDouble && n.dtype(kQ) != DType::f64)
    n.refuse("softmax_precision is f64, but attention of " + std::string(name_of(n.dtype(kQ))) +
             " computes in f32");
  const std::optional<ValueId> mask = read_mask(n, o);
  const bool is_bias = mask && n.type(*mask).dtype != DType::bool_;
  Inputs inputs = {o.q, o.k, o.v, is_bias ? std::nullopt : mask, is_bias ? mask : std::nullopt};
  const double default_scale = 1 / std::sqrt(static_cast<double>(o.head_dim));
  const std::string q_layout = o.heads_outermost ? "bhsd" : "bsd";
  Attributes attributes = {{"num_heads", o.heads},
                           {"num_kv_heads", o.kv_heads},
                           {"head_dim", o.head_dim},
                           {"v_head_dim", o.v_head_dim},
                           {"q_layout", q_layout},
                           {"kv_layout", std::string(o.kv_outermost ? "bhsd" : "bsd")},
                           {"scale", n.real("scale", default_scale)},
                           {"softcap", n.real("softcap", 0)}};
  place_queries(n, o, inputs, attributes);
  set_scores(n, o, mask, attributes);
  if (n.wants_output(kY))
    n.set_output(kY, n.emit("attention", std::move(inputs), std::move(attributes)));
}

constexpr std::array kAttentionRows = {
    OnnxOp{"Attention", attention},
};

}  // namespace

std::span<const OnnxOp> attention_rows() {
  return kAttentionRows;
}

}  // namespace rlx::onnx_import
