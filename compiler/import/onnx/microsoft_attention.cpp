// SPDX-License-Identifier: Apache-2.0
// Attention, MultiHeadAttention and GroupQueryAttention of the domain com.microsoft.
#include <array>
#include <cmath>
#include <limits>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {
namespace {

// q as [batch, tokens, heads * dim]; k and v likewise, or [batch, heads, tokens, dim].
struct FusedHeads {
  ValueId q{};
  ValueId k{};
  ValueId v{};
  bool kv_outermost = false;  // heads before tokens
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t v_head_dim = 0;
  std::optional<ValueId> mask;
  std::optional<ValueId> bias;
  std::optional<ValueId> kv_len;
  std::optional<ValueId> sinks;
  bool is_causal = false;
};

ValueId columns(NodeReader& n, ValueId x, const Dim& first, const Dim& count) {
  const auto axis = static_cast<int64_t>(n.type(x).shape.size()) - 1;
  return n.emit("slice", {x},
                {{"axes", Ints{axis}}, {"starts", Ints{first}}, {"ends", Ints{first + count}}});
}

// [batch, tokens, heads * dim] as [batch, heads, tokens, dim].
ValueId heads_outermost(NodeReader& n, ValueId x, int64_t heads) {
  const Shape shape = n.type(x).shape;
  return n.transpose(n.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

void put_heads_outermost(NodeReader& n, FusedHeads& o) {
  if (o.kv_outermost) return;
  o.k = heads_outermost(n, o.k, o.kv_heads);
  o.v = heads_outermost(n, o.v, o.kv_heads);
  o.kv_outermost = true;
}

Attributes attributes_of(NodeReader& n, const FusedHeads& o) {
  const double scale = n.real("scale", 0);
  return {{"num_heads", o.heads},
          {"num_kv_heads", o.kv_heads},
          {"head_dim", o.head_dim},
          {"v_head_dim", o.v_head_dim},
          {"q_layout", std::string("bsd")},
          {"kv_layout", std::string(o.kv_outermost ? "bhsd" : "bsd")},
          {"scale", scale == 0 ? 1 / std::sqrt(static_cast<double>(o.head_dim)) : scale}};
}

// With the past before them, keys end where queries end.
void set_attention(NodeReader& n, const FusedHeads& o, Attributes attributes) {
  attributes.emplace("causal", o.is_causal);
  Inputs inputs = {o.q, o.k, o.v, o.mask, o.bias, o.kv_len};
  if (o.sinks) inputs.insert(inputs.end(), {std::nullopt, o.sinks});
  n.set_output(0, n.emit("attention", std::move(inputs), std::move(attributes)));
}

// Counts of keys, or what holds where keys count: [batch], [batch, keys] or, for each query, one
// axis more.
void take_mask(NodeReader& n, size_t input, FusedHeads& o, const Dim& keys) {
  if (!n.has_input(input)) return;
  const Shape shape = n.shape(input);
  const Dim batch = n.type(o.q).shape[0];
  const ValueId mask = n.input(input);
  if (shape == Shape{batch}) {
    o.kv_len = mask;
  } else if ((shape.size() == 2 || shape.size() == 3) && shape.back() == keys) {
    o.mask = n.emit("ne", {mask, n.scalar(n.type(mask).dtype, 0)});
  } else {
    n.refuse_shapes("the mask is " + to_string(shape) +
                    ", wanted counts of keys [batch], or [batch, keys] or [batch, queries, keys]");
  }
}

// The end of each sequence's keys, then the begin of each.
void take_ends_and_begins(NodeReader& n, size_t input, FusedHeads& o, const Dim& keys) {
  const Dim batch = n.type(o.q).shape[0];
  const DType dtype = n.dtype(input);
  const auto half = [&](const Dim& start) {
    const ValueId part =
        n.emit("slice", {n.input(input)},
               {{"axes", Ints{0}}, {"starts", Ints{start}}, {"ends", Ints{start + batch}}});
    return n.reshape(part, {batch, 1});
  };
  const ValueId places =
      n.emit("ramp", {n.scalar(dtype, 0), n.scalar(dtype, 1)}, {{"count", int64_t{keys}}});
  o.mask =
      n.emit("logical_and", {n.emit("lt", {places, half(0)}), n.emit("ge", {places, half(batch)})});
}

void take_bias(NodeReader& n, size_t input, FusedHeads& o) {
  if (!n.has_input(input)) return;
  if (n.rank(input) != 4)
    n.refuse_shapes("attention_bias is " + to_string(n.shape(input)) + ", wanted rank 4");
  o.bias = n.input(input);
}

// x * weights + bias in columns of q, k and v; the past as [2, batch, heads, tokens, dim].
void packed_attention(NodeReader& n, const OnnxOp&) {
  enum : size_t { kX, kWeights, kBias, kMask, kPast, kScores, kPastLength };
  if (n.integer("do_rotary", 0) != 0 || n.integer("past_present_share_buffer", 0) != 0 ||
      n.has_input(kPastLength))
    n.refuse("do_rotary and past_present_share_buffer are not supported");
  n.integer("rotary_embedding_dim", 0);
  n.real("mask_filter_value", -10000);
  FusedHeads o;
  o.heads = o.kv_heads = n.required_integer("num_heads");
  const int64_t width = n.shape(kWeights)[1];
  Ints sizes = n.integers("qkv_hidden_sizes", {});
  if (sizes.empty()) sizes = {width / 3, width / 3, width / 3};
  const bool fits = sizes.size() == 3 && sizes[0] == sizes[1] && o.heads >= 1 &&
                    sizes[0] + sizes[1] + sizes[2] == width && sizes[0] % o.heads == 0 &&
                    sizes[2] % o.heads == 0;
  if (!fits)
    n.refuse_shapes("weights of " + std::to_string(width) + " columns are not q, k and v of " +
                    std::to_string(o.heads) + " heads");
  ValueId all = n.emit("matmul", {n.input(kX), n.input(kWeights)});
  if (n.has_input(kBias)) all = n.emit("add", {all, n.input(kBias)});
  o.q = columns(n, all, 0, sizes[0]);
  o.k = columns(n, all, sizes[0], sizes[1]);
  o.v = columns(n, all, sizes[0] + sizes[1], sizes[2]);
  o.head_dim = sizes[0] / o.heads;
  o.v_head_dim = sizes[2] / o.heads;
  Dim keys = n.shape(kX)[1];
  if (n.has_input(kPast) || n.wants_output(1)) put_heads_outermost(n, o);
  if (n.has_input(kPast)) {
    const Shape past = n.shape(kPast);
    const auto half = [&](int64_t which) {
      const ValueId part = n.emit("narrow", {n.input(kPast)},
                                  {{"axis", int64_t{0}}, {"start", which}, {"len", int64_t{1}}});
      return n.reshape(part, {past[1], past[2], past[3], past[4]});
    };
    o.k = n.emit("concat", {half(0), o.k}, {{"axis", int64_t{2}}});
    o.v = n.emit("concat", {half(1), o.v}, {{"axis", int64_t{2}}});
    keys = keys + past[3];
  }
  if (n.wants_output(1)) n.set_output(1, n.emit("stack", {o.k, o.v}, {{"axis", int64_t{0}}}));
  if (n.has_input(kMask) && n.shape(kMask) == Shape{n.type(o.q).shape[0] * 2}) {
    take_ends_and_begins(n, kMask, o, keys);
  } else {
    take_mask(n, kMask, o, keys);
  }
  take_bias(n, kScores, o);
  o.is_causal = n.integer("unidirectional", 0) != 0;
  set_attention(n, o, attributes_of(n, o));
}

struct MultiHeadInput {
  enum : size_t {
    kQuery,
    kKey,
    kValue,
    kAllBias,
    kPadding,
    kScoreBias,
    kPastKey,
    kPastValue,
    kPastLength,
    kCacheTable
  };
};

// q, k and v as they are, or packed: [batch, tokens, heads, 3, dim], keys with values as 2.
void read_multi_head(NodeReader& n, FusedHeads& o) {
  const auto part = [&](size_t input, int64_t which) {
    const Shape shape = n.shape(input);
    const ValueId slice = n.emit("narrow", {n.input(input)},
                                 {{"axis", int64_t{3}}, {"start", which}, {"len", int64_t{1}}});
    return n.reshape(slice, {shape[0], shape[1], shape[2] * shape[4]});
  };
  if (!n.has_input(MultiHeadInput::kKey)) {
    if (n.rank(MultiHeadInput::kQuery) != 5) n.refuse("key is wanted where query is not packed");
    o.q = part(MultiHeadInput::kQuery, 0);
    o.k = part(MultiHeadInput::kQuery, 1);
    o.v = part(MultiHeadInput::kQuery, 2);
    return;
  }
  o.q = n.input(MultiHeadInput::kQuery);
  if (n.rank(MultiHeadInput::kKey) == 5) {
    o.k = part(MultiHeadInput::kKey, 0);
    o.v = part(MultiHeadInput::kKey, 1);
    return;
  }
  if (!n.has_input(MultiHeadInput::kValue)) n.refuse("value is wanted where key is not packed");
  o.k = n.input(MultiHeadInput::kKey);
  o.v = n.input(MultiHeadInput::kValue);
  o.kv_outermost = n.rank(MultiHeadInput::kKey) == 4;
}

void add_bias(NodeReader& n, FusedHeads& o) {
  if (!n.has_input(MultiHeadInput::kAllBias)) return;
  const ValueId bias = n.input(MultiHeadInput::kAllBias);
  const Dim q = n.type(o.q).shape[2];
  const Dim v = n.shape(MultiHeadInput::kAllBias)[0] - q - q;
  const auto add = [&](ValueId x, const Dim& first, const Dim& count) {
    return n.emit("add", {x, columns(n, bias, first, count)});
  };
  o.q = add(o.q, 0, q);
  if (o.kv_outermost) return;  // keys and values of another run have theirs
  o.k = add(o.k, q, q);
  o.v = add(o.v, q + q, v);
}

void multi_head_attention(NodeReader& n, const OnnxOp&) {
  if (n.has_input(MultiHeadInput::kPastLength) || n.has_input(MultiHeadInput::kCacheTable) ||
      n.wants_output(3))
    n.refuse("a shared buffer of the past, beams and the output qk are not supported");
  n.real("mask_filter_value", -10000);
  FusedHeads o;
  o.heads = o.kv_heads = n.required_integer("num_heads");
  read_multi_head(n, o);
  add_bias(n, o);
  if (o.heads < 1 || n.type(o.q).shape.size() != 3 || n.type(o.q).shape[2] % o.heads != 0)
    n.refuse_shapes("query " + to_string(n.shape(MultiHeadInput::kQuery)) + " does not fall into " +
                    std::to_string(o.heads) + " heads");
  o.head_dim = n.type(o.q).shape[2] / o.heads;
  const Shape v = n.type(o.v).shape;
  o.v_head_dim = o.kv_outermost ? v[3] : v[2] / o.heads;
  if (n.has_input(MultiHeadInput::kPastKey) || n.wants_output(1) || n.wants_output(2))
    put_heads_outermost(n, o);
  if (n.has_input(MultiHeadInput::kPastKey)) {
    o.k = n.emit("concat", {n.input(MultiHeadInput::kPastKey), o.k}, {{"axis", int64_t{2}}});
    o.v = n.emit("concat", {n.input(MultiHeadInput::kPastValue), o.v}, {{"axis", int64_t{2}}});
  }
  if (n.wants_output(1)) n.set_output(1, o.k);
  if (n.wants_output(2)) n.set_output(2, o.v);
  take_mask(n, MultiHeadInput::kPadding, o, n.type(o.k).shape[o.kv_outermost ? 2 : 1]);
  take_bias(n, MultiHeadInput::kScoreBias, o);
  o.is_causal = n.integer("unidirectional", 0) != 0;
  const Dim keys = n.type(o.k).shape[o.kv_outermost ? 2 : 1];
  if (o.is_causal && !n.has_input(MultiHeadInput::kPastKey) && keys != n.type(o.q).shape[1])
    n.refuse_shapes("it is unidirectional with " + to_string(n.type(o.q).shape[1]) +
                        " queries and " + to_string(keys) +
                        " keys, and no past says where they stand",
                    "give the mask as attention_bias");
  set_attention(n, o, attributes_of(n, o));
}

struct GroupInput {
  enum : size_t {
    kQuery,
    kKey,
    kValue,
    kPastKey,
    kPastValue,
    kLastKeys,
    kTotal,
    kCos,
    kSin,
    kPositions,
    kBias,
    kSinks
  };
};

// Where the new tokens of each sequence stand: behind its past, whose length is known from the
// number of its keys.
struct GroupPlaces {
  bool is_first = false;             // there is no past
  std::optional<ValueId> past;       // [batch]
  std::optional<ValueId> positions;  // of tokens, for rope; none: 0, 1 ..
};

GroupPlaces group_places(NodeReader& n, ValueId key_count, const Dim& tokens, int64_t total) {
  GroupPlaces places;
  places.is_first = tokens == total;
  if (places.is_first) return places;
  const ValueId count = n.constant_ints(DType::i32, {}, {static_cast<int64_t>(tokens)});
  places.past = n.emit("sub", {key_count, count});
  Ints ahead;
  for (int64_t i = 0; i < static_cast<int64_t>(tokens); ++i) ahead.push_back(i);
  const Dim batch = n.type(key_count).shape[0];
  places.positions = n.emit("add", {n.reshape(*places.past, {batch, 1}),
                                    n.constant_ints(DType::i32, {1, tokens}, ahead)});
  return places;
}

ValueId rotated(NodeReader& n, ValueId x, int64_t head_dim, const GroupPlaces& places) {
  const int64_t width = n.shape(GroupInput::kCos)[1];
  const bool interleaved = n.integer("rotary_interleaved", 0) != 0;
  std::optional<ValueId> positions = places.positions;
  if (n.has_input(GroupInput::kPositions)) positions = n.input(GroupInput::kPositions);
  return n.emit("rope", {x, n.input(GroupInput::kCos), n.input(GroupInput::kSin), positions},
                {{"head_dim", head_dim},
                 {"n_rot", 2 * width},
                 {"style", std::string(interleaved ? "gptj" : "neox")},
                 {"layout", std::string("bsd")}});
}

// The cache with the new rows behind the past of each sequence; longer where it has no room.
ValueId appended(NodeReader& n, size_t past, ValueId added, const GroupPlaces& places,
                 int64_t total) {
  if (places.is_first) return added;
  if (!n.has_input(past)) n.refuse("past_key and past_value are wanted where keys precede");
  ValueId cache = n.input(past);
  Shape room = n.shape(past);
  if (room[2] < total) {
    room[2] = total - room[2];
    const ValueId zeros = n.emit("fill", {},
                                 {{"shape", Ints(room)},
                                  {"value", 0.0},
                                  {"dtype", std::string(name_of(n.type(cache).dtype))}});
    cache = n.emit("concat", {cache, zeros}, {{"axis", int64_t{2}}});
  }
  return n.emit("kv_append", {cache, added, *places.past}, {{"axis", int64_t{2}}});
}

void read_grouped(NodeReader& n, FusedHeads& o) {
  o.heads = n.required_integer("num_heads");
  o.kv_heads = n.required_integer("kv_num_heads");
  const int64_t width = n.shape(GroupInput::kQuery)[2];
  const bool is_packed = !n.has_input(GroupInput::kKey);
  const int64_t all_heads = is_packed ? o.heads + 2 * o.kv_heads : o.heads;
  if (o.heads < 1 || o.kv_heads < 1 || o.heads % o.kv_heads != 0 || width % all_heads != 0)
    n.refuse_shapes("query " + to_string(n.shape(GroupInput::kQuery)) + " does not fall into " +
                    std::to_string(o.heads) + " heads that share " + std::to_string(o.kv_heads));
  o.head_dim = o.v_head_dim = width / all_heads;
  o.q = n.input(GroupInput::kQuery);
  if (is_packed) {
    const int64_t q = o.heads * o.head_dim;
    const int64_t kv = o.kv_heads * o.head_dim;
    o.k = columns(n, o.q, q, kv);
    o.v = columns(n, o.q, q + kv, kv);
    o.q = columns(n, o.q, 0, q);
  } else {
    o.k = n.input(GroupInput::kKey);
    o.v = n.input(GroupInput::kValue);
  }
}

void group_query_attention(NodeReader& n, const OnnxOp&) {
  if (n.wants_output(3)) n.refuse("the output qk is not supported");
  for (const char* name : {"qk_output", "k_quant_type", "v_quant_type", "kv_cache_bit_width"}) {
    if (n.has(name)) n.refuse(std::string(name) + " is not supported");
  }
  FusedHeads o;
  read_grouped(n, o);
  // A smooth softmax has one key more, of score 0.
  const bool is_smooth = n.integer("smooth_softmax", 0) == 1;
  if (n.has_input(GroupInput::kSinks)) {
    o.sinks = n.cast(n.input(GroupInput::kSinks), DType::f32);
  } else if (is_smooth) {
    o.sinks = n.constant_reals(DType::f32, {o.heads}, Floats(static_cast<size_t>(o.heads), 0));
  }
  const Dim tokens = n.shape(GroupInput::kQuery)[1];
  const int64_t total =
      n.known_int(GroupInput::kTotal, "the number of keys (total_sequence_length)");
  const Dim batch = n.shape(GroupInput::kQuery)[0];
  const ValueId last = n.reshape(n.cast(n.input(GroupInput::kLastKeys), DType::i32), {batch});
  o.kv_len = n.emit("add", {last, n.constant_ints(DType::i32, {}, {1})});
  const GroupPlaces places = group_places(n, *o.kv_len, tokens, total);
  if (n.integer("do_rotary", 0) != 0) {
    o.q = rotated(n, o.q, o.head_dim, places);
    o.k = rotated(n, o.k, o.head_dim, places);
  }
  for (const size_t unused :
       {size_t{GroupInput::kCos}, size_t{GroupInput::kSin}, size_t{GroupInput::kPositions},
        size_t{GroupInput::kPastKey}, size_t{GroupInput::kPastValue}})
    n.ignore_input(unused);
  n.integer("rotary_interleaved", 0);
  put_heads_outermost(n, o);
  o.k = appended(n, GroupInput::kPastKey, o.k, places, total);
  o.v = appended(n, GroupInput::kPastValue, o.v, places, total);
  if (n.wants_output(1)) n.set_output(1, o.k);
  if (n.wants_output(2)) n.set_output(2, o.v);
  take_bias(n, GroupInput::kBias, o);
  o.is_causal = true;
  Attributes attributes = attributes_of(n, o);
  attributes.emplace("softcap", n.real("softcap", 0));
  const int64_t window = n.integer("local_window_size", -1);
  if (window > 0) attributes.emplace("window_left", window - 1);
  // The first tokens stand at 0, whatever is behind the last one that counts.
  if (places.is_first) attributes.emplace("causal_align", std::string("start"));
  set_attention(n, o, std::move(attributes));
}

constexpr std::array kMicrosoftAttentionRows = {
    OnnxOp{"Attention", packed_attention},
    OnnxOp{"GroupQueryAttention", group_query_attention},
    OnnxOp{"MultiHeadAttention", multi_head_attention},
};

}  // namespace

std::span<const OnnxOp> microsoft_attention_rows() {
  return kMicrosoftAttentionRows;
}

}  // namespace rlx::onnx_import
