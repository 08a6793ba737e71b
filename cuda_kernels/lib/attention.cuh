// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention share: pieces of four elements, which keys a query attends to, and weights. Included after storage,
// math and generated text. Specializations (attention.comp tells more): RLX_Q, RLX_K, RLX_V, RLX_MASK, RLX_BIAS, RLX_KV_LEN, RLX_Q_START
// storage types; RLX_Q_WIDE, RLX_K_WIDE, RLX_V_WIDE, RLX_Y_WIDE; RLX_HAS_MASK, RLX_HAS_BIAS, RLX_HAS_KV_LEN, RLX_HAS_Q_START;
// RLX_KV_LEN_STRIDE, RLX_Q_START_STRIDE (0: scalar); RLX_SQ, RLX_SK, RLX_D, RLX_DV; RLX_CAUSAL, RLX_ALIGN_END, RLX_WINDOW_LEFT,
// RLX_WINDOW_RIGHT (-1: none); RLX_DOUBLE. Generated: RLX_INDEX, strides, RLX_SCALE, RLX_SOFTCAP(s), RLX_ATTENDS(mask value).
// The twin of shaders/lib/attention.glsl.
#ifndef RLX_LIB_ATTENTION_CUH
#define RLX_LIB_ATTENTION_CUH

// Values, and four neighbours of them.
#if RLX_DOUBLE
#define RLX_REAL rlx_f64
struct alignas(16) rlx_real4 {
  double x;
  double y;
  double z;
  double w;
};
#else
#define RLX_REAL rlx_f32
#define rlx_real4 rlx_vec4
#endif

#define RLX_MINUS_INFINITY RLX_REAL(rlx_from_bits(0xFF800000u))
#define RLX_DISALLOWED RLX_REAL(rlx_from_bits(0x80000000u))
#define RLX_COMBINE_GREATER(a, b) ((a) > (b) ? (a) : (b))

// Elements d..d+3 of a vector of `size` elements, 0 behind its end.
#define RLX_LOAD4_FN(name, dtype, size)                                            \
  RLX_FN rlx_real4 name(rlx_ptr base, RLX_INDEX at, int d) {                       \
    rlx_real4 four;                                                                \
    four.x = RLX_CAT(rlx_load_, dtype)(base, at + RLX_INDEX(d));                   \
    four.y = RLX_REAL(0);                                                          \
    four.z = RLX_REAL(0);                                                          \
    four.w = RLX_REAL(0);                                                          \
    if (d + 1 < (size)) four.y = RLX_CAT(rlx_load_, dtype)(base, at + RLX_INDEX(d + 1)); \
    if (d + 2 < (size)) four.z = RLX_CAT(rlx_load_, dtype)(base, at + RLX_INDEX(d + 2)); \
    if (d + 3 < (size)) four.w = RLX_CAT(rlx_load_, dtype)(base, at + RLX_INDEX(d + 3)); \
    return four;                                                                   \
  }
#if RLX_Q_WIDE
#define load_q(base, at, d) RLX_CAT(rlx_load4_, RLX_Q)(base, (at) + RLX_INDEX(d))
#else
RLX_LOAD4_FN(load_q, RLX_Q, RLX_D)
#endif
#if RLX_K_WIDE
#define load_k(base, at, d) RLX_CAT(rlx_load4_, RLX_K)(base, (at) + RLX_INDEX(d))
#else
RLX_LOAD4_FN(load_k, RLX_K, RLX_D)
#endif
#if RLX_V_WIDE
#define load_v(base, at, d) RLX_CAT(rlx_load4_, RLX_V)(base, (at) + RLX_INDEX(d))
#else
RLX_LOAD4_FN(load_v, RLX_V, RLX_DV)
#endif

#if RLX_DOUBLE
RLX_FN bool is_disallowed(RLX_REAL weight) { return rlx_high_word(weight) == 0x80000000u && rlx_low_word(weight) == 0u; }
RLX_FN bool nonfinite(RLX_REAL x) { return (rlx_high_word(x) & 0x7FF00000u) == 0x7FF00000u; }
#else
RLX_FN bool is_disallowed(RLX_REAL weight) { return rlx_bits(weight) == 0x80000000u; }
RLX_FN bool nonfinite(RLX_REAL x) { return (rlx_bits(x) & 0x7F800000u) == 0x7F800000u; }
#endif

RLX_FN rlx_real4 zero4() {
  rlx_real4 zero;
  zero.x = RLX_REAL(0);
  zero.y = RLX_REAL(0);
  zero.z = RLX_REAL(0);
  zero.w = RLX_REAL(0);
  return zero;
}

RLX_FN RLX_REAL dot_plus(rlx_real4 a, rlx_real4 b, RLX_REAL sum) {
  return sum + (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w);
}

// sum + weight * v
RLX_FN rlx_real4 add_scaled(rlx_real4 sum, RLX_REAL weight, rlx_real4 v) {
  sum.x += weight * v.x;
  sum.y += weight * v.y;
  sum.z += weight * v.z;
  sum.w += weight * v.w;
  return sum;
}

// The same, without touching v where the key is disallowed.
RLX_FN rlx_real4 add_allowed(rlx_real4 sum, RLX_REAL weight, rlx_real4 v) {
  if (is_disallowed(weight)) return sum;
  return add_scaled(sum, weight, v);
}

RLX_FN bool nonfinite4(rlx_real4 v) {
  return nonfinite(v.x) || nonfinite(v.y) || nonfinite(v.z) || nonfinite(v.w);
}

// exp(value - top), where a row that has seen no key has top -inf.
RLX_FN RLX_REAL relative(RLX_REAL value, RLX_REAL top) {
  return rlx_exp(value - (top == RLX_MINUS_INFINITY ? RLX_REAL(0) : top));
}

// Keys that the batch has.
RLX_FN int keys_held(rlx_ptr kv_len, RLX_INDEX batch) {
#if RLX_HAS_KV_LEN
  const rlx_i64 given = rlx_i64(RLX_CAT(rlx_load_, RLX_KV_LEN)(kv_len, batch * RLX_INDEX(RLX_KV_LEN_STRIDE)));
  return int(min(max(given, rlx_i64(0)), rlx_i64(RLX_SK)));
#else
  return RLX_SK;
#endif
}

// The position of query 0 among them.
RLX_FN int position_of_first(rlx_ptr q_start, RLX_INDEX batch, int key_count) {
#if RLX_HAS_Q_START
  return int(RLX_CAT(rlx_load_, RLX_Q_START)(q_start, batch * RLX_INDEX(RLX_Q_START_STRIDE)));
#elif RLX_ALIGN_END
  return key_count - RLX_SQ;
#else
  return 0;
#endif
}

// The keys that queries from this position, or up to it, may attend to, but for masks.
RLX_FN int first_key_of(int position) {
#if RLX_WINDOW_LEFT >= 0
  return max(0, position - RLX_WINDOW_LEFT);
#else
  return 0;
#endif
}
RLX_FN int end_of_keys(int position, int key_count) {
  int end = key_count;
#if RLX_WINDOW_RIGHT >= 0
  end = min(end, position + RLX_WINDOW_RIGHT + 1);
#endif
#if RLX_CAUSAL
  end = min(end, position + 1);
#endif
  return end;
}

// Whether the query at `position` attends to a key that exists. `score`, q . k, becomes scaled, capped and biased.
RLX_FN bool attends(rlx_ptr mask, rlx_ptr bias, RLX_INDEX batch, RLX_INDEX head, int query, int position, int key,
                    RLX_INOUT(RLX_REAL) score) {
  bool allow = true;
#if RLX_CAUSAL
  allow = allow && key <= position;
#endif
#if RLX_WINDOW_LEFT >= 0
  allow = allow && key >= position - RLX_WINDOW_LEFT;
#endif
#if RLX_WINDOW_RIGHT >= 0
  allow = allow && key <= position + RLX_WINDOW_RIGHT;
#endif
#if RLX_HAS_MASK
  if (allow) {
    allow = RLX_ATTENDS(RLX_CAT(rlx_load_, RLX_MASK)(mask, batch * RLX_MASK_B + head * RLX_MASK_H +
                                                     RLX_INDEX(query) * RLX_MASK_S + RLX_INDEX(key) * RLX_MASK_K));
  }
#endif
  score = RLX_SOFTCAP(score * RLX_SCALE);
#if RLX_HAS_BIAS
  if (allow) {
    const RLX_REAL added = RLX_CAT(rlx_load_, RLX_BIAS)(bias, batch * RLX_BIAS_B + head * RLX_BIAS_H +
                                                        RLX_INDEX(query) * RLX_BIAS_S + RLX_INDEX(key) * RLX_BIAS_K);
    allow = added != RLX_MINUS_INFINITY;
    score += added;
  }
#endif
  return allow;
}

// y[at + column ...], four elements of a row, and none behind its end.
RLX_FN void store_y(rlx_ptr y, RLX_INDEX at, int column, rlx_real4 four) {
#if RLX_Y_WIDE
  if (column < RLX_DV) RLX_CAT(rlx_store4_, RLX_Q)(y, at + RLX_INDEX(column), four);
#else
  if (column < RLX_DV) RLX_CAT(rlx_store_, RLX_Q)(y, at + RLX_INDEX(column), RLX_CAT(rlx_t_, RLX_Q)(four.x));
  if (column + 1 < RLX_DV) RLX_CAT(rlx_store_, RLX_Q)(y, at + RLX_INDEX(column + 1), RLX_CAT(rlx_t_, RLX_Q)(four.y));
  if (column + 2 < RLX_DV) RLX_CAT(rlx_store_, RLX_Q)(y, at + RLX_INDEX(column + 2), RLX_CAT(rlx_t_, RLX_Q)(four.z));
  if (column + 3 < RLX_DV) RLX_CAT(rlx_store_, RLX_Q)(y, at + RLX_INDEX(column + 3), RLX_CAT(rlx_t_, RLX_Q)(four.w));
#endif
}

#endif
