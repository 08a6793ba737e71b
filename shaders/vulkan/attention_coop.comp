// SPDX-License-Identifier: Apache-2.0
// attention on cooperative matrices: y = sum over allowed keys of softmax(s) * v, s = softcap(scale * q . k) + bias; lse = log of
// the sum of exp(s), to which a head's sink adds exp(sink). Scores and weights stay in registers: a running maximum and sum per query are carried over tiles of keys.
// Layout: q [B,H,Sq,D], k [B,G,Sk,D], v [B,G,Sk,Dv], y [B,H,Sq,Dv] by strides, rows contiguous and at multiples of 16 bytes; lse
//   [B,H,Sq] dense; mask and bias [B,H,Sq,Sk] by strides. Query head h reads kv head h / RLX_HEADS_PER_KV.
// Threads: RLX_WARPS subgroups of 32, each with RLX_SUBGROUP_ROWS queries (16 or 32) of its own; tiles of RLX_KEYS keys are shared.
// Grid: one group per (batch, head, tile of queries), tiles with the most keys first, spread by split_grid. RLX_LONGEST_FIRST 1: of
//   all heads, 0: of each head. RLX_SPLITS > 1: so many groups instead of each, which share its keys out in whole tiles; y is then the
//   `partial` of attention_decode, which merges them.
// Specializations: RLX_Q storage type of q, k, v and y, f16 or bf16, as RLX_MATRIX; RLX_D, RLX_DV, multiples of 8 up to 256;
//   RLX_VALUE_BLOCKS = RLX_DV / 16, rounded up; RLX_STAGES 1 or 2 tiles of keys and values in shared memory; RLX_GROUPS, RLX_QUERY_TILES, RLX_HEADS,
//   RLX_HEADS_PER_KV, RLX_SQ, RLX_SK; storage types RLX_MASK, RLX_BIAS, RLX_KV_LEN, RLX_Q_START; RLX_HAS_MASK, RLX_HAS_BIAS,
//   RLX_HAS_KV_LEN, RLX_HAS_Q_START, RLX_HAS_LSE; RLX_SPLITS; RLX_KNOWN_FRAGMENTS; RLX_KV_LEN_STRIDE, RLX_Q_START_STRIDE (0: scalar); RLX_HAS_SINKS, RLX_SINKS
//   (storage type), RLX_SINKS_STRIDE; RLX_CAUSAL, RLX_ALIGN_END,
//   RLX_WINDOW_LEFT, RLX_WINDOW_RIGHT (-1: none).
// generated/attention_coop.inc: RLX_INDEX, the strides RLX_{Q,K,V,Y,MASK,BIAS}_{B,H,S,K}, RLX_ATTENDS(mask value), RLX_SCORE(s) of
//   the product s, and RLX_EXPONENT > 0: a score's weight is 2^(RLX_EXPONENT * score).
// Phases of a tile: keys and values, on their way since the tile before, to shared memory; products with the keys; scores of what is disallowed, in tiles where something
//   is; weights, from sums to left operands in the same registers; weights times values.
// Fragments: the thread of a subgroup that holds an element of a matrix is the device's affair; outside matrices a thread has those that
//   row_of and column_of name. RLX_KNOWN_FRAGMENTS 1: sums and left operands should lie so too, and a subgroup that finds them otherwise
//   takes plain_rows. 0: nothing is known of them, and what leaves a matrix or becomes one passes through shared memory.
// Numerics: products summed in f32; weights rounded to the storage type for the product with v, their sum not; 2^x by the device, for
//   x <= 8: within 3 + 2|x| ulp, below the weights' own rounding. A disallowed key has weight 0; where that meets a value that is not
//   finite, sums are NaN and the subgroup's queries are done again by plain_rows, around disallowed keys. A query without keys gives
//   0 and lse -inf; a NaN score gives NaN.
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/math.inc"
#include "lib/matrices.glsl"
#include "generated/attention_coop.inc"

RLX_PARAMS(AttentionParams);

#define RLX_MINUS_INFINITY rlx_from_bits(0xFF800000u)
#define RLX_INFINITY_BITS 0x7F800000u
#define RLX_ROW_BLOCKS (RLX_SUBGROUP_ROWS / 16)  // matrices of a subgroup along the queries
#define RLX_ROWS_HELD (RLX_ROW_BLOCKS * 2)       // of which a thread holds elements: row_of(0) and row_of(4) of each matrix
#define RLX_KEY_BLOCKS (RLX_KEYS / 16)
#define RLX_TILE_QUERIES (RLX_WARPS * RLX_SUBGROUP_ROWS)
// Matrices along a head, and pieces of eight elements; what of the last matrix lies behind the head is zero in shared memory.
#define RLX_D_BLOCKS ((RLX_D + 15) / 16)
#define RLX_D_PIECES (RLX_D_BLOCKS * 2)
#define RLX_DV_PIECES (RLX_VALUE_BLOCKS * 2)
#define RLX_KEY_LOADS (RLX_KEYS * RLX_D_PIECES / RLX_BLOCK_SIZE)  // pieces of a tile per thread
#define RLX_VALUE_LOADS (RLX_KEYS * RLX_DV_PIECES / RLX_BLOCK_SIZE)
#define RLX_QUERY_LOADS ((RLX_TILE_QUERIES * RLX_D_PIECES + RLX_BLOCK_SIZE - 1) / RLX_BLOCK_SIZE)
#if RLX_KEY_LOADS * RLX_BLOCK_SIZE != RLX_KEYS * RLX_D_PIECES || RLX_VALUE_LOADS * RLX_BLOCK_SIZE != RLX_KEYS * RLX_DV_PIECES
#error "tiles of keys and values are whole rounds of pieces"
#endif

// Shared memory in pieces of 16 bytes: rows of keys and of values, each with one more piece, so that eight rows touch all banks. At
// first the queries pass through it, and, with RLX_KNOWN_FRAGMENTS, two matrices of numbers.
#define RLX_KEY_PITCH (RLX_D_PIECES + 1)
#define RLX_VALUE_PITCH (RLX_DV_PIECES + 1)
#define RLX_VALUES_AT (RLX_KEYS * RLX_KEY_PITCH)
#define RLX_STAGE_PIECES (RLX_VALUES_AT + RLX_KEYS * RLX_VALUE_PITCH)
#define RLX_LEFT_NUMBERS_AT (RLX_TILE_QUERIES * RLX_KEY_PITCH)
#define RLX_SUM_NUMBERS_AT (RLX_LEFT_NUMBERS_AT + 32)
#if RLX_KNOWN_FRAGMENTS
#define RLX_FIRST_PIECES (RLX_SUM_NUMBERS_AT + 64)
#else
#define RLX_FIRST_PIECES RLX_LEFT_NUMBERS_AT
#endif
#if RLX_FIRST_PIECES > RLX_STAGES * RLX_STAGE_PIECES
RLX_SHARED rlx_uvec4 staged[RLX_FIRST_PIECES];
#else
RLX_SHARED rlx_uvec4 staged[RLX_STAGES * RLX_STAGE_PIECES];
#endif

// Loops with branches are not unrolled, and an index that is not known when the code is compiled moves all from registers to
// memory (shaders/README.md): X(i, j) for each matrix of a subgroup's sums, X(i, j, e) for each element of its scores.
#define RLX_EACH_VALUE_BLOCK_1(X, i) X(i, 0)
#define RLX_EACH_VALUE_BLOCK_2(X, i) RLX_EACH_VALUE_BLOCK_1(X, i) X(i, 1)
#define RLX_EACH_VALUE_BLOCK_3(X, i) RLX_EACH_VALUE_BLOCK_2(X, i) X(i, 2)
#define RLX_EACH_VALUE_BLOCK_4(X, i) RLX_EACH_VALUE_BLOCK_3(X, i) X(i, 3)
#define RLX_EACH_VALUE_BLOCK_5(X, i) RLX_EACH_VALUE_BLOCK_4(X, i) X(i, 4)
#define RLX_EACH_VALUE_BLOCK_6(X, i) RLX_EACH_VALUE_BLOCK_5(X, i) X(i, 5)
#define RLX_EACH_VALUE_BLOCK_7(X, i) RLX_EACH_VALUE_BLOCK_6(X, i) X(i, 6)
#define RLX_EACH_VALUE_BLOCK_8(X, i) RLX_EACH_VALUE_BLOCK_7(X, i) X(i, 7)
#define RLX_EACH_VALUE_BLOCK_9(X, i) RLX_EACH_VALUE_BLOCK_8(X, i) X(i, 8)
#define RLX_EACH_VALUE_BLOCK_10(X, i) RLX_EACH_VALUE_BLOCK_9(X, i) X(i, 9)
#define RLX_EACH_VALUE_BLOCK_11(X, i) RLX_EACH_VALUE_BLOCK_10(X, i) X(i, 10)
#define RLX_EACH_VALUE_BLOCK_12(X, i) RLX_EACH_VALUE_BLOCK_11(X, i) X(i, 11)
#define RLX_EACH_VALUE_BLOCK_13(X, i) RLX_EACH_VALUE_BLOCK_12(X, i) X(i, 12)
#define RLX_EACH_VALUE_BLOCK_14(X, i) RLX_EACH_VALUE_BLOCK_13(X, i) X(i, 13)
#define RLX_EACH_VALUE_BLOCK_15(X, i) RLX_EACH_VALUE_BLOCK_14(X, i) X(i, 14)
#define RLX_EACH_VALUE_BLOCK_16(X, i) RLX_EACH_VALUE_BLOCK_15(X, i) X(i, 15)
#define RLX_EACH_VALUE_BLOCK(X, i) RLX_CAT(RLX_EACH_VALUE_BLOCK_, RLX_VALUE_BLOCKS)(X, i)
#define RLX_EACH_ELEMENT(X, i, j) \
  X(i, j, 0) X(i, j, 1) X(i, j, 2) X(i, j, 3) X(i, j, 4) X(i, j, 5) X(i, j, 6) X(i, j, 7)
#if RLX_KEY_BLOCKS == 1
#define RLX_EACH_ROW_SCORE(X, i) RLX_EACH_ELEMENT(X, i, 0)
#elif RLX_KEY_BLOCKS == 2
#define RLX_EACH_ROW_SCORE(X, i) RLX_EACH_ELEMENT(X, i, 0) RLX_EACH_ELEMENT(X, i, 1)
#elif RLX_KEY_BLOCKS == 3
#define RLX_EACH_ROW_SCORE(X, i) RLX_EACH_ELEMENT(X, i, 0) RLX_EACH_ELEMENT(X, i, 1) RLX_EACH_ELEMENT(X, i, 2)
#elif RLX_KEY_BLOCKS == 4
#define RLX_EACH_ROW_SCORE(X, i) \
  RLX_EACH_ELEMENT(X, i, 0) RLX_EACH_ELEMENT(X, i, 1) RLX_EACH_ELEMENT(X, i, 2) RLX_EACH_ELEMENT(X, i, 3)
#else
#error "RLX_EACH_SCORE knows four matrices of keys"
#endif
#if RLX_ROW_BLOCKS == 1
#define RLX_EACH_SUM(X) RLX_EACH_VALUE_BLOCK(X, 0)
#define RLX_EACH_SCORE(X) RLX_EACH_ROW_SCORE(X, 0)
#else
#define RLX_EACH_SUM(X) RLX_EACH_VALUE_BLOCK(X, 0) RLX_EACH_VALUE_BLOCK(X, 1)
#define RLX_EACH_SCORE(X) RLX_EACH_ROW_SCORE(X, 0) RLX_EACH_ROW_SCORE(X, 1)
#endif

// Row and column of the element `e` that thread `lane` of a subgroup holds.
RLX_FN int row_of(int lane, int e) { return lane / 4 + e / 4 * 8; }
RLX_FN int column_of(int lane, int e) { return lane % 4 * 2 + e % 2 + e / 2 % 2 * 8; }

RLX_FN rlx_u32 pack2(float low, float high) { return RLX_CAT(RLX_CAT(rlx_pack_, RLX_Q), x2)(low, high); }
RLX_FN float zero_if_minus_infinity(float value) { return value == RLX_MINUS_INFINITY ? 0.0f : value; }

// ---- which keys ----

struct Place {
  RLX_INDEX batch;
  RLX_INDEX head;
  int position_0;  // of query 0
  int key_count;   // keys that exist
};

// Keys that a query may attend to but for mask and bias.
struct Bounds {
  int first;
  int last;
};

RLX_FN Place place_of(RLX_INDEX batch, RLX_INDEX head) {
  Place at;
  at.batch = batch;
  at.head = head;
  at.key_count = RLX_SK;
#if RLX_HAS_KV_LEN
  const rlx_i64 given = rlx_i64(RLX_CAT(rlx_load_, RLX_KV_LEN)(p.kv_len, batch * RLX_INDEX(RLX_KV_LEN_STRIDE)));
  at.key_count = int(min(max(given, rlx_i64(0)), rlx_i64(RLX_SK)));
#endif
#if RLX_HAS_Q_START
  at.position_0 = int(RLX_CAT(rlx_load_, RLX_Q_START)(p.q_start, batch * RLX_INDEX(RLX_Q_START_STRIDE)));
#elif RLX_ALIGN_END
  at.position_0 = at.key_count - RLX_SQ;
#else
  at.position_0 = 0;
#endif
  return at;
}

RLX_FN Bounds bounds_of(Place at, int query) {
  const int position = at.position_0 + query;
  Bounds bounds;
  bounds.first = 0;
  bounds.last = at.key_count - 1;
#if RLX_WINDOW_LEFT >= 0
  bounds.first = max(bounds.first, position - RLX_WINDOW_LEFT);
#endif
#if RLX_WINDOW_RIGHT >= 0
  bounds.last = min(bounds.last, position + RLX_WINDOW_RIGHT);
#endif
#if RLX_CAUSAL
  bounds.last = min(bounds.last, position);
#endif
  return bounds;
}

struct Score {
  float value;
  bool is_allowed;
};

// From the product of query and key; without branches, so that the loads of many scores travel together.
RLX_FN Score score_of(float product, Place at, int query, int key) {
  const Bounds bounds = bounds_of(at, query);
  Score score;
  score.value = RLX_SCORE(product);
  score.is_allowed = query < RLX_SQ && key >= bounds.first && key <= bounds.last;
#if RLX_HAS_MASK || RLX_HAS_BIAS
  const RLX_INDEX read_query = RLX_INDEX(score.is_allowed ? query : 0);
  const RLX_INDEX read_key = RLX_INDEX(score.is_allowed ? key : 0);
#endif
#if RLX_HAS_MASK
  const bool attends = RLX_ATTENDS(RLX_CAT(rlx_load_, RLX_MASK)(
      p.mask, at.batch * RLX_MASK_B + at.head * RLX_MASK_H + read_query * RLX_MASK_S + read_key * RLX_MASK_K));
  score.is_allowed = score.is_allowed && attends;
#endif
#if RLX_HAS_BIAS
  const float bias = RLX_CAT(rlx_load_, RLX_BIAS)(
      p.bias, at.batch * RLX_BIAS_B + at.head * RLX_BIAS_H + read_query * RLX_BIAS_S + read_key * RLX_BIAS_K);
  score.is_allowed = score.is_allowed && bias != RLX_MINUS_INFINITY;
  score.value += bias;
#endif
  return score;
}

// ---- memory ----

// Eight elements of a row of queries, keys or values, of a head of so many pieces; from row `end` on those of the row before: nothing comes of them, as their
// scores are disallowed or their results not stored, and whatever else changed what is loaded would wait for it.
RLX_FN rlx_uvec4 load_piece(rlx_ptr base, RLX_INDEX head_base, RLX_INDEX row_stride, int row, int end, int piece, int pieces) {
  const int read_piece = pieces % 2 == 0 ? piece : min(piece, pieces - 1);
  const RLX_INDEX at = head_base + RLX_INDEX(max(min(row, end - 1), 0)) * row_stride + RLX_INDEX(read_piece * 8);
  return rlx_operand16(base, rlx_i64(at) * 2);
}

// A loaded piece as it stands in shared memory: zero behind the head.
RLX_FN rlx_uvec4 in_head(rlx_uvec4 loaded, int piece, int pieces) {
  return pieces % 2 == 0 || piece < pieces ? loaded : rlx_uvec4(0u);
}

// The pieces of the tile of keys and values from `tile` on that this thread stages.
RLX_FN void load_tile(RLX_INDEX k_base, RLX_INDEX v_base, int tile, int end, inout rlx_uvec4 keys[RLX_KEY_LOADS],
                      inout rlx_uvec4 values[RLX_VALUE_LOADS]) {
  RLX_UNROLL for (int load = 0; load < RLX_KEY_LOADS; ++load) {
    const int i = int(rlx_local_index) + load * RLX_BLOCK_SIZE;
    keys[load] = load_piece(p.k, k_base, RLX_K_S, tile + i / RLX_D_PIECES, end, i % RLX_D_PIECES, RLX_D / 8);
  }
  RLX_UNROLL for (int load = 0; load < RLX_VALUE_LOADS; ++load) {
    const int i = int(rlx_local_index) + load * RLX_BLOCK_SIZE;
    values[load] = load_piece(p.v, v_base, RLX_V_S, tile + i / RLX_DV_PIECES, end, i % RLX_DV_PIECES, RLX_DV / 8);
  }
}

RLX_FN void stage_tile(rlx_uvec4 keys[RLX_KEY_LOADS], rlx_uvec4 values[RLX_VALUE_LOADS], int stage) {
  RLX_UNROLL for (int load = 0; load < RLX_KEY_LOADS; ++load) {
    const int i = int(rlx_local_index) + load * RLX_BLOCK_SIZE;
    staged[stage + i / RLX_D_PIECES * RLX_KEY_PITCH + i % RLX_D_PIECES] = in_head(keys[load], i % RLX_D_PIECES, RLX_D / 8);
  }
  RLX_UNROLL for (int load = 0; load < RLX_VALUE_LOADS; ++load) {
    const int i = int(rlx_local_index) + load * RLX_BLOCK_SIZE;
    staged[stage + RLX_VALUES_AT + i / RLX_DV_PIECES * RLX_VALUE_PITCH + i % RLX_DV_PIECES] =
        in_head(values[load], i % RLX_DV_PIECES, RLX_DV / 8);
  }
}

// Queries of the group, all of a thread's under way at a time, and, with RLX_KNOWN_FRAGMENTS, the numbers of places, row * 16 + column, as a left operand and as sums.
RLX_FN void stage_first(RLX_INDEX q_base, int first_query) {
  rlx_uvec4 pieces[RLX_QUERY_LOADS];
  RLX_UNROLL for (int load = 0; load < RLX_QUERY_LOADS; ++load) {
    const int i = int(rlx_local_index) + load * RLX_BLOCK_SIZE;
    pieces[load] = load_piece(p.q, q_base, RLX_Q_S, first_query + i / RLX_D_PIECES, RLX_SQ, i % RLX_D_PIECES, RLX_D / 8);
  }
  RLX_UNROLL for (int load = 0; load < RLX_QUERY_LOADS; ++load) {
    const int i = int(rlx_local_index) + load * RLX_BLOCK_SIZE;
    if (RLX_TILE_QUERIES * RLX_D_PIECES % RLX_BLOCK_SIZE == 0 || i < RLX_TILE_QUERIES * RLX_D_PIECES)
      staged[i / RLX_D_PIECES * RLX_KEY_PITCH + i % RLX_D_PIECES] = in_head(pieces[load], i % RLX_D_PIECES, RLX_D / 8);
  }
#if RLX_KNOWN_FRAGMENTS
  for (int i = int(rlx_local_index); i < 64; i += RLX_BLOCK_SIZE) {
    const rlx_vec4 four = rlx_vec4(float(4 * i), float(4 * i + 1), float(4 * i + 2), float(4 * i + 3));
    staged[RLX_SUM_NUMBERS_AT + i] = floatBitsToUint(four);
    if (i < 32) {
      const float n = float(8 * i);
      staged[RLX_LEFT_NUMBERS_AT + i] = rlx_uvec4(pack2(n, n + 1.0f), pack2(n + 2.0f, n + 3.0f), pack2(n + 4.0f, n + 5.0f),
                                                  pack2(n + 6.0f, n + 7.0f));
    }
  }
#endif
}

// ---- elements of matrices ----

// RLX_TAKE(matrix, values, first): values[first + e] becomes the element of sums at (row_of(lane, e), column_of(lane, e)).
// RLX_SCALE(matrix, i, factors): sums whose rows are the i-th 16 of the subgroup, times the factors of the rows held.
// RLX_GIVE(values, matrix): RLX_TAKE the other way, to a left operand.
#if RLX_KNOWN_FRAGMENTS
#define RLX_TAKE(matrix, values, first) RLX_UNROLL for (int e = 0; e < RLX_MATRIX_SHARE; ++e) values[(first) + e] = matrix[e];
#define RLX_SCALE(matrix, i, factors) \
  RLX_UNROLL for (int e = 0; e < RLX_MATRIX_SHARE; ++e) matrix[e] *= factors[RLX_ROW_AT(i, e)];
#define RLX_GIVE(values, matrix) \
  RLX_UNROLL for (int e = 0; e < RLX_MATRIX_SHARE; ++e) matrix[e] = RLX_CAT(rlx_element_, RLX_Q)(values[e]);

// True where the elements of sums and left operands lie as row_of and column_of say. stage_first went before.
RLX_FN bool fragments_are_known(int lane) {
  rlx_left_matrix left;
  rlx_sum_matrix sum;
  coopMatLoadNV(left, staged, RLX_LEFT_NUMBERS_AT, 2, false);
  coopMatLoadNV(sum, staged, RLX_SUM_NUMBERS_AT, 4, false);
  rlx_u32 other = 0u;
  RLX_UNROLL for (int e = 0; e < RLX_MATRIX_SHARE; ++e) {
    const float number = float(row_of(lane, e) * 16 + column_of(lane, e));
    other |= RLX_CAT(rlx_value_, RLX_Q)(left[e]) == number ? 0u : 1u;
    other |= sum[e] == number ? 0u : 1u;
  }
  return subgroupOr(other) == 0u;
}
#else
// A subgroup's matrix on its way: 16 rows, f32 or of the storage type, each with one more piece, so that eight rows touch all banks.
#define RLX_PASS_PITCH 5
#define RLX_PASS_AT (rlx_local_index / rlx_u32(RLX_SUBGROUP) * rlx_u32(16 * RLX_PASS_PITCH))
RLX_SHARED rlx_uvec4 passing[RLX_WARPS * 16 * RLX_PASS_PITCH];

RLX_FN rlx_u32 passing_row(int lane, int e) { return RLX_PASS_AT + rlx_u32(row_of(lane, e) * RLX_PASS_PITCH); }
RLX_FN float passing_value(int lane, int e) {
  const int column = column_of(lane, e);
  return rlx_from_bits(passing[passing_row(lane, e) + rlx_u32(column / 4)][column % 4]);
}
RLX_FN void pass_value(int lane, int e, float value) {
  const int column = column_of(lane, e);
  passing[passing_row(lane, e) + rlx_u32(column / 4)][column % 4] = rlx_bits(value);
}
// Elements e and e + 1 of the storage type; e is even.
RLX_FN void pass_pair(int lane, int e, rlx_u32 pair) {
  const int word = column_of(lane, e) / 2;
  passing[passing_row(lane, e) + rlx_u32(word / 4)][word % 4] = pair;
}

// The threads go on together, so that the matrix that passes next finds the place free.
#define RLX_TAKE(matrix, values, first)                                                                      \
  coopMatStoreNV(matrix, passing, RLX_PASS_AT, RLX_PASS_PITCH, false);                                       \
  rlx_subgroup_barrier();                                                                                    \
  RLX_UNROLL for (int e = 0; e < RLX_MATRIX_SHARE; ++e) values[(first) + e] = passing_value(lane, e);        \
  rlx_subgroup_barrier();
#define RLX_SCALE(matrix, i, factors)                                                                        \
  coopMatStoreNV(matrix, passing, RLX_PASS_AT, RLX_PASS_PITCH, false);                                       \
  rlx_subgroup_barrier();                                                                                    \
  RLX_UNROLL for (int e = 0; e < RLX_MATRIX_SHARE; ++e)                                                      \
    pass_value(lane, e, passing_value(lane, e) * factors[RLX_ROW_AT(i, e)]);                                 \
  rlx_subgroup_barrier();                                                                                    \
  coopMatLoadNV(matrix, passing, RLX_PASS_AT, RLX_PASS_PITCH, false);                                        \
  rlx_subgroup_barrier();
#define RLX_GIVE(values, matrix)                                                                             \
  RLX_UNROLL for (int e = 0; e < RLX_MATRIX_SHARE; e += 2) pass_pair(lane, e, pack2(values[e], values[e + 1])); \
  rlx_subgroup_barrier();                                                                                    \
  coopMatLoadNV(matrix, passing, RLX_PASS_AT, RLX_PASS_PITCH, false);                                        \
  rlx_subgroup_barrier();
#endif

// The head's sink as attention.kernel's add_sink takes it in; shifts are powers of 2.
RLX_FN void add_sink(Place at, inout float shift, inout float total, inout float share) {
#if RLX_HAS_SINKS
  const float sink = 1.44269504f * float(RLX_CAT(rlx_load_, RLX_SINKS)(p.sinks, at.head * RLX_INDEX(RLX_SINKS_STRIDE)));
  const float new_shift = max(shift, sink);
  const float reference = zero_if_minus_infinity(new_shift);
  share = exp2(shift - reference);
  total = total * share + exp2(sink - reference);
  shift = new_shift;
#endif
}

RLX_FN void store_lse(Place at, int query, float shift, float total) {
#if RLX_HAS_LSE
  rlx_store_f32(p.lse, (at.batch * RLX_INDEX(RLX_HEADS) + at.head) * RLX_INDEX(RLX_SQ) + RLX_INDEX(query),
                total == 0.0f ? RLX_MINUS_INFINITY : shift * 0.693147182f + rlx_log(total));
#endif
}

#if RLX_SPLITS > 1
// Where a query's row of `partial` begins: RLX_DV weighted sums, then maximum, sum of weights and two zeros.
RLX_FN rlx_i64 partial_at(Place at, int query, int split) {
  const RLX_INDEX row = (at.batch * RLX_INDEX(RLX_HEADS) + at.head) * RLX_INDEX(RLX_SQ) + RLX_INDEX(query);
  return (rlx_i64(row) * RLX_SPLITS + split) * (RLX_DV + 4);
}
RLX_FN void store_partial_state(Place at, int query, int split, float shift, float total) {
  rlx_store4_f32(p.y, partial_at(at, query, split) + RLX_DV, rlx_vec4(shift * 0.693147182f, total, 0.0f, 0.0f));
}
#endif

// ---- without matrices ----

#define RLX_PLAIN_COLUMNS ((RLX_DV + RLX_SUBGROUP - 1) / RLX_SUBGROUP)  // of a thread

// The product of a query and a key.
RLX_FN float plain_product(RLX_INDEX q_row, RLX_INDEX k_row) {
  float product = 0.0f;
  for (int d = 0; d < RLX_D; d += 4) {
    const rlx_vec4 q = RLX_CAT(rlx_operand4_, RLX_Q)(p.q, rlx_i64(q_row + RLX_INDEX(d)));
    const rlx_vec4 k = RLX_CAT(rlx_operand4_, RLX_Q)(p.k, rlx_i64(k_row + RLX_INDEX(d)));
    product += q.x * k.x + q.y * k.y + q.z * k.z + q.w * k.w;
  }
  return product;
}

// A subgroup's queries one by one, over the group's keys: every thread has a key of 32 for the scores, and every 32nd column of the
// result. What disallowed keys hold is not touched.
RLX_FN void plain_rows(Place at, int first_query, int lane, Bounds keys, int split, RLX_INDEX q_base, RLX_INDEX k_base, RLX_INDEX v_base,
                       RLX_INDEX y_base) {
  RLX_LOOP for (int query = first_query; query < min(first_query + RLX_SUBGROUP_ROWS, RLX_SQ); ++query) {
    Bounds bounds = bounds_of(at, query);
    bounds.first = max(bounds.first, keys.first);
    bounds.last = min(bounds.last, keys.last);
    float shift = RLX_MINUS_INFINITY;
    float total = 0.0f;
    float sums[RLX_PLAIN_COLUMNS];
    RLX_UNROLL for (int c = 0; c < RLX_PLAIN_COLUMNS; ++c) sums[c] = 0.0f;
    RLX_LOOP for (int tile = bounds.first; tile <= bounds.last; tile += RLX_SUBGROUP) {
      const int key = tile + lane;
      const int read_key = min(key, bounds.last);
      const float product = plain_product(q_base + RLX_INDEX(query) * RLX_Q_S, k_base + RLX_INDEX(read_key) * RLX_K_S);
      Score score = score_of(product, at, query, key);
      score.is_allowed = score.is_allowed && key <= bounds.last;  // those behind are another group's
      const float highest = subgroupMax(score.is_allowed ? score.value * RLX_EXPONENT : RLX_MINUS_INFINITY);
      const float new_shift = max(shift, highest);
      const float reference = zero_if_minus_infinity(new_shift);
      const float decay = exp2(shift - reference);
      shift = new_shift;
      const float weight = score.is_allowed ? exp2(score.value * RLX_EXPONENT - reference) : 0.0f;
      total = total * decay + weight;
      RLX_UNROLL for (int c = 0; c < RLX_PLAIN_COLUMNS; ++c) sums[c] *= decay;
      RLX_LOOP for (int other = 0; other < RLX_SUBGROUP; ++other) {
        const float other_weight = subgroupShuffle(weight, rlx_u32(other));
        if (subgroupShuffle(score.is_allowed ? 1u : 0u, rlx_u32(other)) == 0u) continue;
        const RLX_INDEX v_row = v_base + RLX_INDEX(tile + other) * RLX_V_S;
        RLX_UNROLL for (int c = 0; c < RLX_PLAIN_COLUMNS; ++c) {
          const int column = min(c * RLX_SUBGROUP + lane, RLX_DV - 1);
          sums[c] += other_weight * RLX_CAT(rlx_load_, RLX_Q)(p.v, rlx_i64(v_row + RLX_INDEX(column)));
        }
      }
    }
    total = subgroupAdd(total);
#if RLX_SPLITS > 1
    RLX_UNROLL for (int c = 0; c < RLX_PLAIN_COLUMNS; ++c) {
      const int column = c * RLX_SUBGROUP + lane;
      if (column < RLX_DV) rlx_store_f32(p.y, partial_at(at, query, split) + column, sums[c]);
    }
    if (lane == 0) store_partial_state(at, query, split, shift, total);
#else
    float share = 1.0f;
    add_sink(at, shift, total, share);
    const float inverse = total == 0.0f ? 0.0f : share / total;
    RLX_UNROLL for (int c = 0; c < RLX_PLAIN_COLUMNS; ++c) {
      const int column = c * RLX_SUBGROUP + lane;
      const rlx_i64 to = rlx_i64(y_base + RLX_INDEX(query) * RLX_Y_S + RLX_INDEX(column));
      if (column < RLX_DV) RLX_CAT(rlx_store_, RLX_Q)(p.y, to, sums[c] * inverse);
    }
    if (lane == 0) store_lse(at, query, shift, total);
#endif
  }
}

// ---- the kernel ----

#define RLX_SCORE_AT(i, j, e) scores[((i) * RLX_KEY_BLOCKS + (j)) * RLX_MATRIX_SHARE + (e)]
#define RLX_RESULT_AT(i, j, e) results[((i) * RLX_VALUE_BLOCKS + (j)) * RLX_MATRIX_SHARE + (e)]
#define RLX_ROW_AT(i, e) ((i) * 2 + (e) / 4)  // of the rows held, where element e lies
// A row's shift is its maximum or up to this below it, in powers of 2: then sums need not be brought to a new one.
#define RLX_SLACK 8.0f

RLX_MAIN {
  const RLX_INDEX group = RLX_INDEX(rlx_linear_group) / RLX_INDEX(RLX_SPLITS);
  const int split = int(RLX_INDEX(rlx_linear_group) % RLX_INDEX(RLX_SPLITS));
  if (group >= RLX_INDEX(RLX_GROUPS)) return;
  const int warp = int(rlx_local_index) / RLX_SUBGROUP;
  const int lane = int(rlx_local_index) % RLX_SUBGROUP;
#if RLX_LONGEST_FIRST
  const RLX_INDEX batch_head = group % RLX_INDEX(RLX_GROUPS / RLX_QUERY_TILES);
  const int query_tile = RLX_QUERY_TILES - 1 - int(group / RLX_INDEX(RLX_GROUPS / RLX_QUERY_TILES));
#else
  const RLX_INDEX batch_head = group / RLX_INDEX(RLX_QUERY_TILES);
  const int query_tile = RLX_QUERY_TILES - 1 - int(group % RLX_INDEX(RLX_QUERY_TILES));
#endif
  const Place at = place_of(batch_head / RLX_INDEX(RLX_HEADS), batch_head % RLX_INDEX(RLX_HEADS));
  const RLX_INDEX kv_head = at.head / RLX_INDEX(RLX_HEADS_PER_KV);
  const RLX_INDEX q_base = at.batch * RLX_Q_B + at.head * RLX_Q_H;
  const RLX_INDEX k_base = at.batch * RLX_K_B + kv_head * RLX_K_H;
  const RLX_INDEX v_base = at.batch * RLX_V_B + kv_head * RLX_V_H;
  const RLX_INDEX y_base = at.batch * RLX_Y_B + at.head * RLX_Y_H;

  // Keys from `begin` to before `end` are some query's of the group; those of the subgroup's first and last query are `low`, `high`.
  const int first_query = query_tile * RLX_TILE_QUERIES;
  const int first_row = first_query + warp * RLX_SUBGROUP_ROWS;
  int begin = bounds_of(at, first_query).first;
  int end = bounds_of(at, min(first_query + RLX_TILE_QUERIES, RLX_SQ) - 1).last + 1;
#if RLX_SPLITS > 1
  const int share = (max(end - begin, 0) + RLX_SPLITS * RLX_KEYS - 1) / (RLX_SPLITS * RLX_KEYS) * RLX_KEYS;
  begin += split * share;
  end = min(begin + share, end);
#endif
  const Bounds low = bounds_of(at, first_row);
  const Bounds high = bounds_of(at, min(first_row + RLX_SUBGROUP_ROWS, RLX_SQ) - 1);

  // The first keys and values travel beside the queries.
  rlx_uvec4 next_keys[RLX_KEY_LOADS];
  rlx_uvec4 next_values[RLX_VALUE_LOADS];
  load_tile(k_base, v_base, begin, end, next_keys, next_values);
  stage_first(q_base, first_query);
  rlx_barrier();
#if RLX_KNOWN_FRAGMENTS
  const bool is_usable = fragments_are_known(lane);
#else
  const bool is_usable = true;
#endif
  rlx_left_matrix queries[RLX_ROW_BLOCKS][RLX_D_BLOCKS];
  RLX_UNROLL for (int i = 0; i < RLX_ROW_BLOCKS; ++i) {
    RLX_UNROLL for (int d = 0; d < RLX_D_BLOCKS; ++d) {
      coopMatLoadNV(queries[i][d], staged,
                    rlx_u32((warp * RLX_SUBGROUP_ROWS + i * 16) * RLX_KEY_PITCH + d * 2), RLX_KEY_PITCH, false);
    }
  }

  float shift[RLX_ROWS_HELD];  // of the exponents of the weights so far
  float total[RLX_ROWS_HELD];  // of this thread's weights
  RLX_UNROLL for (int r = 0; r < RLX_ROWS_HELD; ++r) {
    shift[r] = RLX_MINUS_INFINITY;
    total[r] = 0.0f;
  }
  rlx_sum_matrix sums[RLX_ROW_BLOCKS][RLX_VALUE_BLOCKS];
  RLX_UNROLL for (int i = 0; i < RLX_ROW_BLOCKS; ++i) {
    RLX_UNROLL for (int j = 0; j < RLX_VALUE_BLOCKS; ++j) sums[i][j] = rlx_sum_matrix(0.0);
  }

  int stage = 0;
#if RLX_STAGES == 2
  rlx_barrier();
#endif
  RLX_LOOP for (int tile = begin; tile < end; tile += RLX_KEYS) {
#if RLX_STAGES == 1
    rlx_barrier();
#else
    stage = RLX_STAGE_PIECES - stage;
#endif
    stage_tile(next_keys, next_values, stage);
    rlx_barrier();
    if (tile + RLX_KEYS < end) load_tile(k_base, v_base, tile + RLX_KEYS, end, next_keys, next_values);
    // This branch keeps those loads in front of the products.
    if (first_row >= RLX_SQ || tile > high.last || tile + RLX_KEYS <= low.first) continue;

    // Products.
    float scores[RLX_ROW_BLOCKS * RLX_KEY_BLOCKS * RLX_MATRIX_SHARE];
    {
      rlx_sum_matrix products[RLX_ROW_BLOCKS][RLX_KEY_BLOCKS];
      RLX_UNROLL for (int i = 0; i < RLX_ROW_BLOCKS; ++i) {
        RLX_UNROLL for (int j = 0; j < RLX_KEY_BLOCKS; ++j) products[i][j] = rlx_sum_matrix(0.0);
      }
      RLX_UNROLL for (int d = 0; d < RLX_D_BLOCKS; ++d) {
        RLX_UNROLL for (int j = 0; j < RLX_KEY_BLOCKS; ++j) {
          rlx_right_matrix keys;
          coopMatLoadNV(keys, staged, rlx_u32(stage + j * 16 * RLX_KEY_PITCH + d * 2), RLX_KEY_PITCH, true);
          RLX_UNROLL for (int i = 0; i < RLX_ROW_BLOCKS; ++i) {
            products[i][j] = coopMatMulAddNV(queries[i][d], keys, products[i][j]);
          }
        }
      }
      RLX_UNROLL for (int i = 0; i < RLX_ROW_BLOCKS; ++i) {
        RLX_UNROLL for (int j = 0; j < RLX_KEY_BLOCKS; ++j) {
          RLX_TAKE(products[i][j], scores, (i * RLX_KEY_BLOCKS + j) * RLX_MATRIX_SHARE)
        }
      }
    }

    // Scores.
    const bool all_allowed = tile >= high.first && tile + RLX_KEYS <= low.last + 1;
    if (RLX_HAS_MASK == 0 && RLX_HAS_BIAS == 0 && all_allowed) {
#define RLX_SCORE_HERE(i, j, e) RLX_SCORE_AT(i, j, e) = RLX_SCORE(RLX_SCORE_AT(i, j, e));
      RLX_EACH_SCORE(RLX_SCORE_HERE)
    } else {
#define RLX_ALLOWED_SCORE(i, j, e)                                                                                       \
  {                                                                                                                      \
    const Score score = score_of(RLX_SCORE_AT(i, j, e), at, first_row + i * 16 + row_of(lane, e), tile + j * 16 + column_of(lane, e)); \
    RLX_SCORE_AT(i, j, e) = score.is_allowed ? score.value : RLX_MINUS_INFINITY;                                         \
  }
      RLX_EACH_SCORE(RLX_ALLOWED_SCORE)
    }

    // Weights. Four neighbouring threads hold a row.
    float wanted[RLX_ROWS_HELD];
    rlx_u32 moves = 0u;
    RLX_UNROLL for (int r = 0; r < RLX_ROWS_HELD; ++r) {
      float highest = RLX_MINUS_INFINITY;
      RLX_UNROLL for (int j = 0; j < RLX_KEY_BLOCKS; ++j) {
        RLX_UNROLL for (int e = 0; e < 4; ++e) highest = max(highest, RLX_SCORE_AT(r / 2, j, r % 2 * 4 + e));
      }
      highest = max(highest, subgroupShuffleXor(highest, 1u));
      highest = max(highest, subgroupShuffleXor(highest, 2u));
      wanted[r] = max(shift[r], highest * RLX_EXPONENT);
      moves |= wanted[r] > shift[r] + RLX_SLACK ? 1u : 0u;
    }
    if (subgroupOr(moves) != 0u) {
      float decay[RLX_ROWS_HELD];
      RLX_UNROLL for (int r = 0; r < RLX_ROWS_HELD; ++r) {
        decay[r] = exp2(shift[r] - zero_if_minus_infinity(wanted[r]));
        shift[r] = wanted[r];
        total[r] *= decay[r];
      }
      RLX_UNROLL for (int i = 0; i < RLX_ROW_BLOCKS; ++i) {
        RLX_UNROLL for (int j = 0; j < RLX_VALUE_BLOCKS; ++j) {
          RLX_SCALE(sums[i][j], i, decay)
        }
      }
    }
    rlx_left_matrix weights[RLX_ROW_BLOCKS][RLX_KEY_BLOCKS];
    RLX_UNROLL for (int i = 0; i < RLX_ROW_BLOCKS; ++i) {
      RLX_UNROLL for (int j = 0; j < RLX_KEY_BLOCKS; ++j) {
        float own[RLX_MATRIX_SHARE];
        RLX_UNROLL for (int e = 0; e < RLX_MATRIX_SHARE; ++e) {
          const int r = RLX_ROW_AT(i, e);
          own[e] = exp2(RLX_SCORE_AT(i, j, e) * RLX_EXPONENT - zero_if_minus_infinity(shift[r]));
          total[r] += own[e];
        }
        RLX_GIVE(own, weights[i][j])
      }
    }

    // Weighted sum of the values.
    RLX_UNROLL for (int k = 0; k < RLX_KEY_BLOCKS; ++k) {
      RLX_UNROLL for (int j = 0; j < RLX_VALUE_BLOCKS; ++j) {
        rlx_right_matrix values;
        coopMatLoadNV(values, staged, rlx_u32(stage + RLX_VALUES_AT + k * 16 * RLX_VALUE_PITCH + j * 2), RLX_VALUE_PITCH, false);
        RLX_UNROLL for (int i = 0; i < RLX_ROW_BLOCKS; ++i) sums[i][j] = coopMatMulAddNV(weights[i][k], values, sums[i][j]);
      }
    }
  }

  // Result.
  float inverse[RLX_ROWS_HELD];
  RLX_UNROLL for (int r = 0; r < RLX_ROWS_HELD; ++r) {
    total[r] += subgroupShuffleXor(total[r], 1u);
    total[r] += subgroupShuffleXor(total[r], 2u);
#if RLX_SPLITS > 1
    inverse[r] = 1.0f;
#else
    float share = 1.0f;
    add_sink(at, shift[r], total[r], share);
    inverse[r] = total[r] == 0.0f ? 0.0f : share / total[r];
#endif
  }
  float results[RLX_ROW_BLOCKS * RLX_VALUE_BLOCKS * RLX_MATRIX_SHARE];
  rlx_u32 largest = 0u;
  RLX_UNROLL for (int i = 0; i < RLX_ROW_BLOCKS; ++i) {
    RLX_UNROLL for (int j = 0; j < RLX_VALUE_BLOCKS; ++j) {
      RLX_TAKE(sums[i][j], results, (i * RLX_VALUE_BLOCKS + j) * RLX_MATRIX_SHARE)
      RLX_UNROLL for (int e = 0; e < RLX_MATRIX_SHARE; ++e) largest = max(largest, rlx_bits(RLX_RESULT_AT(i, j, e)) & 0x7FFFFFFFu);
    }
  }
  if (!is_usable || subgroupMax(largest) >= RLX_INFINITY_BITS) {
    Bounds keys;
    keys.first = begin;
    keys.last = end - 1;
    plain_rows(at, first_row, lane, keys, split, q_base, k_base, v_base, y_base);
    return;
  }
#if RLX_SPLITS > 1
#define RLX_PUT_PAIR(query, column, low, high)                                  \
  const rlx_i64 to = partial_at(at, query, split) + rlx_i64(column);            \
  rlx_store_f32(p.y, to, low);                                                  \
  rlx_store_f32(p.y, to + 1, high);
#else
#define RLX_PUT_PAIR(query, column, low, high)                                                \
  const RLX_INDEX to = y_base + RLX_INDEX(query) * RLX_Y_S + RLX_INDEX(column);               \
  rlx_put4(p.y, rlx_i64(to) * 2, pack2(low, high));
#endif
#define RLX_STORE_PAIR(i, j, e)                                                                                          \
  if (first_row + i * 16 + row_of(lane, e) < RLX_SQ && (RLX_DV % 16 == 0 || j * 16 + column_of(lane, e) < RLX_DV)) {       \
    const float factor = inverse[RLX_ROW_AT(i, e)];                                                                      \
    RLX_PUT_PAIR(first_row + i * 16 + row_of(lane, e), j * 16 + column_of(lane, e), RLX_RESULT_AT(i, j, e) * factor,     \
                 RLX_RESULT_AT(i, j, e + 1) * factor)                                                                    \
  }
#define RLX_STORE(i, j) RLX_STORE_PAIR(i, j, 0) RLX_STORE_PAIR(i, j, 2) RLX_STORE_PAIR(i, j, 4) RLX_STORE_PAIR(i, j, 6)
  RLX_EACH_SUM(RLX_STORE)
#if RLX_HAS_LSE || RLX_SPLITS > 1
  RLX_UNROLL for (int r = 0; r < RLX_ROWS_HELD; ++r) {
    const int query = first_row + r / 2 * 16 + row_of(lane, r % 2 * 4);
    if (lane % 4 != 0 || query >= RLX_SQ) continue;
#if RLX_SPLITS > 1
    store_partial_state(at, query, split, shift[r], total[r]);
#else
    store_lse(at, query, shift[r], total[r]);
#endif
  }
#endif
}
