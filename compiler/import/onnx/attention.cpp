// SPDX-License-Identifier: Apache-2.0
// Attention, opsets 23 to 25, and the cache beside it (ops.md 5.1, 19).
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

// How many keys of each item of the batch there are, as the node says, if it does.
std::optional<ValueId> valid_keys(NodeReader& n) {
  const std::optional<ValueId> valid =
      n.opset() >= 24 ? n.optional_input(kValidKeys) : std::nullopt;
  if (valid && n.rank(kValidKeys) != 1)
    n.refuse_shapes("nonpad_kv_seqlen is " + to_string(n.shape(kValidKeys)) + ", wanted rank 1");
  return valid;
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
  const std::optional<ValueId> valid = valid_keys(n);
  if (valid && o.past_tokens > 0) n.refuse("nonpad_kv_seqlen and past_key exclude each other");
  inputs.push_back(valid);
  attributes.emplace("causal_align", std::string(valid ? "end" : "start"));
  if (o.past_tokens > 0) inputs.push_back(n.constant_ints(DType::i32, {}, {o.past_tokens}));
}

ValueId numbers_from(NodeReader& n, int64_t first, int64_t count, Shape shape) {
  const ValueId start = n.constant_ints(DType::i64, {}, {first});
  const ValueId step = n.constant_ints(DType::i64, {}, {1});
  return n.reshape(n.emit("range", {start, std::nullopt, step}, {{"count", count}}),
                   std::move(shape));
}

// Which keys a query may see by its position, bool [batch or 1, 1, queries, keys]; nullopt: all.
std::optional<ValueId> seen_by_position(NodeReader& n, const Operands& o,
                                        const Attributes& attributes) {
  const ValueId key = numbers_from(n, 0, o.kv_tokens, {1, 1, 1, o.kv_tokens});
  const std::optional<ValueId> valid = valid_keys(n);
  ValueId query =
      numbers_from(n, valid ? -o.q_tokens : o.past_tokens, o.q_tokens, {1, 1, o.q_tokens, 1});
  std::optional<ValueId> seen;
  const auto also = [&](ValueId more) {
    seen = seen ? n.emit("logical_and", {*seen, more}) : more;
  };
  if (valid) {
    const ValueId count = n.reshape(n.cast(*valid, DType::i64), {n.type(*valid).shape[0], 1, 1, 1});
    query = n.emit("add", {query, count});
    also(n.emit("lt", {key, count}));
  }
  if (std::get<bool>(attributes.at("causal"))) also(n.emit("ge", {query, key}));
  const auto within = [&](const char* window, const char* comparison, int64_t sign) {
    const auto size = attributes.find(window);
    if (size == attributes.end()) return;
    const ValueId reach = n.constant_ints(DType::i64, {}, {sign * std::get<int64_t>(size->second)});
    also(n.emit(comparison, {key, n.emit("add", {query, reach})}));
  };
  within("window_left", "ge", -1);
  within("window_right", "le", 1);
  return seen;
}

// What the last output shows.
enum ScoreStage : int64_t { kProducts, kCapped, kMasked, kShares };

ValueId scores_at(NodeReader& n, const Operands& o, const std::optional<ValueId>& mask,
                  const Attributes& attributes, ScoreStage stage) {
  const ValueId q = with_heads_outermost(n, o.q, o.heads);
  ValueId k = with_heads_outermost(n, o.k, o.kv_heads);
  if (o.heads != o.kv_heads)
    k = n.emit("repeat_interleave", {k}, {{"axis", int64_t{1}}, {"repeats", o.heads / o.kv_heads}});
  ValueId scores = n.emit("matmul", {q, k}, {{"trans_b", true}});
  scores = n.emit("affine", {scores}, {{"mul", attributes.at("scale")}});
  const double cap = std::get<double>(attributes.at("softcap"));
  if (stage >= kCapped && cap > 0) {
    const ValueId share = n.emit("affine", {scores}, {{"mul", 1 / cap}});
    scores = n.emit("affine", {n.emit("tanh", {share})}, {{"mul", cap}});
  }
  if (stage < kMasked) return scores;
  const DType dtype = n.type(scores).dtype;
  const auto keep = [&](ValueId seen) {
    const ValueId hidden = n.scalar(dtype, -std::numeric_limits<double>::infinity());
    scores = n.emit("where", {seen, scores, hidden});
  };
  if (mask && n.type(*mask).dtype == DType::bool_) {
    keep(*mask);
  } else if (mask) {
    scores = n.emit("add", {scores, n.cast(*mask, dtype)});
  }
  if (const std::optional<ValueId> seen = seen_by_position(n, o, attributes)) keep(*seen);
  return scores;
}

// The softmax of masked scores, 0 for a query that sees no key.
ValueId shares_of(NodeReader& n, ValueId scores) {
  const DType dtype = n.type(scores).dtype;
  const ValueId highest = n.emit("reduce_max", {scores}, {{"axes", Ints{3}}, {"keep_dims", true}});
  const ValueId none = n.scalar(dtype, -std::numeric_limits<double>::infinity());
  const ValueId blind = n.emit("eq", {highest, none});
  const ValueId zero = n.scalar(dtype, 0);
  const ValueId shares = n.emit("softmax", {n.emit("where", {blind, zero, scores})});
  return n.emit("where", {blind, zero, shares});
}

void set_scores(NodeReader& n, const Operands& o, const std::optional<ValueId>& mask,
                const Attributes& attributes) {
  const int64_t mode = n.integer("qk_matmul_output_mode", kProducts);
  if (mode < kProducts || mode > kShares)
    n.refuse("qk_matmul_output_mode is " + std::to_string(mode) + ", wanted 0 to 3");
  if (!n.wants_output(kScores)) return;
  const ValueId scores = scores_at(n, o, mask, attributes, static_cast<ScoreStage>(mode));
  n.set_output(kScores, mode == kShares ? shares_of(n, scores) : scores);
}

// With a softmax of f64 between products of the operands' type: step by step, as no kernel does it.
ValueId attention_by_doubles(NodeReader& n, const Operands& o, const std::optional<ValueId>& mask,
                             const Attributes& attributes) {
  const ValueId scores = n.cast(scores_at(n, o, mask, attributes, kMasked), DType::f64);
  ValueId v = with_heads_outermost(n, o.v, o.kv_heads);
  if (o.heads != o.kv_heads)
    v = n.emit("repeat_interleave", {v}, {{"axis", int64_t{1}}, {"repeats", o.heads / o.kv_heads}});
  const ValueId y = n.emit("matmul", {n.cast(shares_of(n, scores), n.type(v).dtype), v});
  if (o.heads_outermost) return y;
  const Shape shape = n.type(y).shape;
  return n.reshape(n.transpose(y, {0, 2, 1, 3}), {shape[0], shape[2], o.heads * o.v_head_dim});
}

void attention(NodeReader& n, const OnnxOp&) {
  Operands o = read_operands(n);
  join_past(n, o);
  const bool by_doubles = n.integer("softmax_precision", 0) == kDouble && n.dtype(kQ) != DType::f64;
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
  if (!n.wants_output(kY)) return;
  n.set_output(kY, by_doubles ? attention_by_doubles(n, o, mask, attributes)
                              : n.emit("attention", std::move(inputs), std::move(attributes)));
}

void tensor_scatter(NodeReader& n, const OnnxOp&) {
  enum : size_t { kCache, kUpdate, kRows };
  const std::string mode = n.text("mode", "linear");
  const int64_t axis = n.axis(n.integer("axis", -2), n.rank(kCache));
  const ValueId rows = n.has_input(kRows) ? n.input(kRows) : n.constant_ints(DType::i32, {}, {0});
  n.set_output(0, n.emit("kv_append", {n.input(kCache), n.input(kUpdate), rows},
                         {{"axis", axis}, {"mode", mode}}));
}

constexpr std::array kAttentionRows = {
    OnnxOp{"Attention", attention},
    OnnxOp{"TensorScatter", tensor_scatter},
};

}  // namespace

std::span<const OnnxOp> attention_rows() {
  return kAttentionRows;
}

}  // namespace rlx::onnx_import
