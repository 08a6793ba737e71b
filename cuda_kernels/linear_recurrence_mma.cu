// SPDX-License-Identifier: Apache-2.0
// linear_recurrence in chunks of 64 steps, on tensor cores: products of all pairs of a chunk's steps take the place of its steps.
//   With G_i the sum of logarithms of a chunk's decays up to step i, f_i and S (before the chunk) as there, q, k and v by rows:
//   A_ij = RLX_SCALE e^(G_i - G_j) q_i k_j for j <= i;  N_ij = f_i e^(G_i - G_j) k_i k_j for j < i;
//   D = V, or (I + N)^-1 diag(f) (V - diag(e^G) K S) with RLX_DELTA: what the steps take in, which one after another would find alike;
//   Y = RLX_SCALE diag(e^G) Q S + A D, + D v, times silu(z);  S <- e^G_63 S + K^T diag(e^(G_63 - G)) D.
//   Without RLX_DELTA the columns of A and the rows of K^T's right side are multiplied by f.
// Layout: as linear_recurrence; rows of q and k are whole pieces of 16 bytes. partial: a record per batch entry, chunk and head: A, with
//   RLX_DELTA (I + N)^-1 diag(f), each by pieces of 16 x 8 on and below the diagonal, as mma wants them; then e^G, e^(G_63 - G) (times f
//   without RLX_DELTA) and e^G_63.
// Grid: RLX_PHASE 1: a group per record, which it writes. RLX_PHASE 2: a group per batch entry, head and 16 columns of S, spread by
//   split_grid, takes the chunks one after another: a warp has 16 keys of S in registers, which the others read in shared memory.
// Specializations: those of linear_recurrence without tiles and RLX_GATE 2; RLX_QUERIES is 1, RLX_KEYS a multiple of 16 up to 128, RLX_X f16 or
//   bf16; RLX_CHUNKS.
// Numerics: sums of logarithms are f64, decays of their differences f32, so that nothing overflows which the step by step form keeps; q k and k k
//   exact products in f32 sums; other products by tf32 as two parts of each f32 factor, 21 bits at least; each chunk's sums are rounded
//   into S as f32. A value that is not finite spoils its column from the chunk's first step on.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/math.inc"
#include "generated/places.inc"

#include "lib/mma.cuh"

RLX_PARAMS(LinearRecurrenceParams);

#define RLX_ELEMENT(dtype, base, i) RLX_CAT(rlx_load_, dtype)(base, rlx_i64(i))

constexpr int kSteps = 64;  // of a chunk
constexpr int kTriangle = (kSteps / 16) * (kSteps / 16 + 1) * 128;
constexpr int kGates = (1 + RLX_DELTA) * kTriangle;  // their place in a record
constexpr int kRecord = kGates + 2 * kSteps + 4;
constexpr int kPiecesOfRow = RLX_KEYS / 8;      // of 16 bytes
constexpr int kRowBytes = RLX_KEYS * 2 + 16;    // in shared memory, so that rows begin in other banks
constexpr int kRowsBytes = kSteps * kRowBytes;  // of a chunk's keys, and of its queries behind them

static_assert(RLX_KEYS % 16 == 0, "depths of a product");

// Piece j of 8 columns of the 16 rows `tile` of a triangle.
RLX_FN constexpr int piece_at(int tile, int j) { return (tile * (tile + 1) + j) * 128; }

RLX_FN rlx_ptr record_at(const RlxParams& p, rlx_i64 batch, rlx_i64 chunk, rlx_i64 head) {
  return RLX_AT(p.partial, ((batch * RLX_CHUNKS + chunk) * RLX_HEADS + head) * kRecord, 4);
}

// Starts copies of a chunk's rows, zeros beyond the sequence. `first`: of the head's row of step 0.
RLX_FN void copy_rows(rlx_u32 shared, rlx_ptr base, rlx_i64 first, rlx_i64 stride, int begin) {
  for (int i = int(rlx_local_index); i < kSteps * kPiecesOfRow; i += RLX_BLOCK_SIZE) {
    const int row = i / kPiecesOfRow;
    const int piece = i % kPiecesOfRow;
    const bool inside = begin + row < RLX_STEPS;
    const rlx_ptr from = RLX_AT(base, first + (inside ? begin + row : begin) * stride + piece * 8, 2);
    rlx_copy16_async(shared + rlx_u32(row * kRowBytes + piece * 16), from, inside ? 16u : 0u);
  }
}

RLX_FN rlx_vec2 unpack(rlx_u32 word) { return RLX_CAT(RLX_CAT(rlx_unpack_, RLX_X), x2)(word); }

#if RLX_PHASE == 1

constexpr int kTileRow = kSteps + 4;
constexpr int kStagedBytes = 2 * kRowsBytes > kTriangle * 4 ? 2 * kRowsBytes : kTriangle * 4;

RLX_DYNAMIC_SHARED(kStagedBytes + RLX_DELTA * kSteps * kTileRow * 4);
RLX_SHARED double sums[kSteps];  // of logarithms
RLX_SHARED float factors[kSteps];

// Logarithm of the decay and factor of a step.
RLX_FN void load_gate(const RlxParams& p, rlx_i64 batch, rlx_i64 head, int t, RLX_INOUT(float) logarithm, RLX_INOUT(float) factor) {
  logarithm = 0.0f;
  factor = 1.0f;
#if RLX_GATE
  float g = RLX_ELEMENT(RLX_G, p.g, batch * RLX_G_BATCH + t * rlx_i64(RLX_G_STEP) + head * RLX_G_HEAD);
#if RLX_GATE == 3
#if RLX_HAS_G_BIAS
  g += RLX_ELEMENT(RLX_G_BIAS, p.g_bias, head);
#endif
#if RLX_SOFTPLUS
  g = rlx_softplus(g, 1.0f);
#endif
  factor = g;
  g *= RLX_ELEMENT(RLX_A, p.a, head);
#endif
  // What is less decays to zero too, but leaves later differences their last bits, and no infinity to subtract.
  logarithm = g < -1e6f ? -1e6f : g;
#endif
#if RLX_DELTA
  factor = RLX_ELEMENT(RLX_B, p.beta, batch * RLX_B_BATCH + t * rlx_i64(RLX_B_STEP) + head * RLX_B_HEAD);
#endif
}

RLX_FN void multiply(float (&d)[4], const rlx_u32 (&a)[4], rlx_u32 b0, rlx_u32 b1) {
  const rlx_u32 b[2] = {b0, b1};
  RLX_CAT(rlx_mma_, RLX_X)(d, a, b);
}

#if RLX_DELTA
// Column `own` of (I + N)^-1, times its factor, to its places in the triangle: by blocks of 16 rows, of which those before it are zero.
RLX_FN void invert(const float* n, float* triangle, int own) {
  const auto at = [&](int block, int row) -> float& {
    return triangle[piece_at(block, own / 8) + (row % 8 * 4 + own % 8 / 2) * 4 + own % 2 * 2 + row / 8];
  };
  RLX_LOOP for (int block = own / 16; block < kSteps / 16; ++block) {
    float x[16];
    RLX_UNROLL for (int i = 0; i < 16; ++i) x[i] = block * 16 + i == own ? factors[own] : 0.0f;
    RLX_LOOP for (int before = own / 16; before < block; ++before) {
      const float* const rows = n + block * 16 * kTileRow + before * 16;
      RLX_UNROLL for (int j = 0; j < 16; j += 4) {
        const float known[4] = {at(before, j), at(before, j + 1), at(before, j + 2), at(before, j + 3)};
        RLX_UNROLL for (int i = 0; i < 16; ++i) {
          const float4 row = *reinterpret_cast<const float4*>(rows + i * kTileRow + j);
          x[i] -= row.x * known[0] + row.y * known[1] + row.z * known[2] + row.w * known[3];
        }
      }
    }
    const float* const rows = n + block * 16 * (kTileRow + 1);
    RLX_UNROLL for (int i = 0; i < 16; ++i) {
      RLX_UNROLL for (int j = 0; j < i; ++j) x[i] -= rows[i * kTileRow + j] * x[j];
      at(block, i) = x[i];
    }
  }
}
#endif

RLX_MAIN {
  const rlx_i64 group = rlx_i64(rlx_linear_group);
  const rlx_i64 head = group % RLX_HEADS;
  const rlx_i64 chunk = group / RLX_HEADS % RLX_CHUNKS;
  const rlx_i64 batch = group / RLX_HEADS / RLX_CHUNKS;
  if (batch >= RLX_BATCH) return;
  const int thread = int(rlx_local_index);
  const int begin = int(chunk) * kSteps;
  const rlx_u32 keys = rlx_shared_address(rlx_shared);
  const rlx_u32 queries = keys + kRowsBytes;
  copy_rows(keys, p.k, batch * RLX_K_BATCH + head / RLX_HEADS_PER_KEY * RLX_K_HEAD, RLX_K_STEP, begin);
  copy_rows(queries, p.q, batch * RLX_Q_BATCH + head / RLX_HEADS_PER_QUERY * RLX_Q_HEAD, RLX_Q_STEP, begin);
  rlx_commit_copies();

  double sum = 0.0;
  if (thread < kSteps) {
    float logarithm = 0.0f;
    float factor = 0.0f;
    if (begin + thread < RLX_STEPS) load_gate(p, batch, head, begin + thread, logarithm, factor);
    factors[thread] = factor;
    sum = logarithm;
    sums[thread] = sum;
  }
  RLX_UNROLL for (int distance = 1; distance < kSteps; distance *= 2) {
    rlx_barrier();
    if (thread < kSteps && thread >= distance) sum += sums[thread - distance];
    rlx_barrier();
    if (thread < kSteps) sums[thread] = sum;
  }
  rlx_wait_copies<0>();
  rlx_barrier();

  // Warp w: 16 rows of both products, up to the diagonal.
  const int tile = int(rlx_warp);
  const int lane = int(rlx_lane_of_warp);
  float of_queries[kSteps / 8][4];
  RLX_UNROLL for (int j = 0; j < kSteps / 8; ++j) of_queries[j][0] = of_queries[j][1] = of_queries[j][2] = of_queries[j][3] = 0.0f;
#if RLX_DELTA
  float of_keys[kSteps / 8][4];
  RLX_UNROLL for (int j = 0; j < kSteps / 8; ++j) of_keys[j][0] = of_keys[j][1] = of_keys[j][2] = of_keys[j][3] = 0.0f;
#endif
  const rlx_u32 left = rlx_u32((tile * 16 + lane % 16) * kRowBytes + lane / 16 * 16);
  const rlx_u32 right = rlx_u32((lane / 16 * 8 + lane % 8) * kRowBytes + lane / 8 % 2 * 16);
  RLX_LOOP for (int depth = 0; depth < RLX_KEYS; depth += 16) {
    rlx_u32 q[4];
    rlx_load_tiles4(q, queries + left + rlx_u32(depth * 2));
#if RLX_DELTA
    rlx_u32 k[4];
    rlx_load_tiles4(k, keys + left + rlx_u32(depth * 2));
#endif
    RLX_UNROLL for (int j = 0; j < kSteps / 16; ++j) {
      if (j > tile) break;
      rlx_u32 b[4];
      rlx_load_tiles4(b, keys + right + rlx_u32(j * 16 * kRowBytes + depth * 2));
      multiply(of_queries[2 * j], q, b[0], b[1]);
      multiply(of_queries[2 * j + 1], q, b[2], b[3]);
#if RLX_DELTA
      multiply(of_keys[2 * j], k, b[0], b[1]);
      multiply(of_keys[2 * j + 1], k, b[2], b[3]);
#endif
    }
  }

  const rlx_ptr record = record_at(p, batch, chunk, head);
#if RLX_DELTA
  float* const n = reinterpret_cast<float*>(rlx_shared + kStagedBytes);
#endif
  RLX_UNROLL for (int j = 0; j < kSteps / 8; ++j) {
    if (j > 2 * tile + 1) break;
    float a[4];
    RLX_UNROLL for (int e = 0; e < 4; ++e) {
      const int row = tile * 16 + lane / 4 + e / 2 * 8;
      const int column = j * 8 + lane % 4 * 2 + e % 2;
      const float decay = RLX_GATE && column <= row ? rlx_exp(float(sums[row] - sums[column])) : 1.0f;
      float value = RLX_SCALE * decay * of_queries[j][e];
      if (!RLX_DELTA) value *= factors[column];
      a[e] = column <= row ? value : 0.0f;
#if RLX_DELTA
      n[row * kTileRow + column] = column < row ? factors[row] * decay * of_keys[j][e] : 0.0f;
#endif
    }
    rlx_at<float4>(record, (piece_at(tile, j) + lane * 4) * 4) = make_float4(a[0], a[2], a[1], a[3]);
  }
  if (thread < kSteps) {
    const double last = sums[kSteps - 1];
    rlx_store_f32(record, kGates + thread, rlx_exp(float(sum)));
    rlx_store_f32(record, kGates + kSteps + thread, rlx_exp(float(last - sum)) * (RLX_DELTA ? 1.0f : factors[thread]));
    if (thread == 0) rlx_store_f32(record, kGates + 2 * kSteps, rlx_exp(float(last)));
  }
#if RLX_DELTA
  rlx_barrier();
  float* const triangle = reinterpret_cast<float*>(rlx_shared);
  if (thread < kSteps) invert(n, triangle, thread);
  rlx_barrier();
  for (int i = thread * 4; i < kTriangle; i += RLX_BLOCK_SIZE * 4)
    rlx_at<float4>(record, (kTriangle + i) * 4) = *reinterpret_cast<const float4*>(triangle + i);
#endif
}

#else

constexpr int kColumns = 16;
constexpr int kStateRow = RLX_KEYS + 8;  // keys of a column of S in shared memory
constexpr int kStepRow = kSteps + 8;     // steps of a column
// With RLX_DELTA half of the warps have rows of keys, half of queries, 32 of each; without, all have 16 of queries. Two warps share rows.
constexpr int kTiles = 1 + RLX_DELTA;
constexpr int kMostPieces = RLX_DELTA ? 4 + 8 : 8;

struct Shared {
  float s[kColumns * kStateRow];
  float missing[kColumns * kStepRow];     // V - diag(e^G) K S
  float taken[2][kColumns * kStepRow];    // D, of this chunk and the one before
  float faded[kColumns * kStepRow];       // diag(e^(G_63 - G)) D
  unsigned char rows[2][2 * kRowsBytes];  // of this chunk and the next
};
RLX_DYNAMIC_SHARED(sizeof(Shared));
static_assert(RLX_BLOCK_SIZE == 256 && RLX_KEYS <= 128, "a warp has 16 keys");

// Of four floats the parts for mma. What the high part cuts off is exact.
RLX_FN rlx_u32 high_part(float x) { return __float_as_uint(x) & 0xFFFFE000u; }
RLX_FN rlx_u32 low_part(float x) { return __float_as_uint(x - __uint_as_float(high_part(x))); }

struct Right {
  rlx_u32 high[2];
  rlx_u32 low[2];
};
// Depths 2t and 2t + 1 of column g are at the places t and t + 4 of mma, and those of the left side too.
RLX_FN Right right_at(const float* pair) {
  const float2 x = *reinterpret_cast<const float2*>(pair);
  return {{high_part(x.x), high_part(x.y)}, {low_part(x.x), low_part(x.y)}};
}
// A left side of 16-bit values, from words of rows g and g + 8.
struct Left {
  rlx_u32 values[4];
};
RLX_FN Left left_of(rlx_u32 upper, rlx_u32 lower) {
  const rlx_vec2 u = unpack(upper);
  const rlx_vec2 l = unpack(lower);
  return {{__float_as_uint(u.x), __float_as_uint(l.x), __float_as_uint(u.y), __float_as_uint(l.y)}};
}

// Sums of products with high and low parts, of even and odd depths, added at the end: each product waits for the one before in its sum.
struct Sums {
  float high[2][4];
  float low[2][4];
  RLX_FN float of(int e) const { return (high[0][e] + high[1][e]) + (low[0][e] + low[1][e]); }
};
RLX_FN Sums no_sums() { return {}; }
RLX_FN void multiply(Sums& sums, int half, const Left& a, const Right& b) {
  rlx_mma_tf32(sums.high[half], a.values, b.high);
  rlx_mma_tf32(sums.low[half], a.values, b.low);
}

// Which 16 rows of a chunk a warp has: 0 and 3, or 1 and 2 with RLX_DELTA, so that triangles give each as many pieces.
RLX_FN int tile_of(int part, int i) { return RLX_DELTA ? (i == 0 ? part : 3 - part) : part; }
RLX_FN constexpr int most_pieces(int i) { return RLX_DELTA && i == 0 ? 4 : 8; }

// A warp's pieces of a triangle.
struct Pieces {
  float4 of[kMostPieces];
};
RLX_FN void load_pieces(Pieces& pieces, rlx_ptr triangle, int part, int lane) {
  RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
    const int tile = tile_of(part, i);
    RLX_UNROLL for (int j = 0; j < 8; ++j) {
      if (j < most_pieces(i) && j < 2 * tile + 2) pieces.of[i * 4 + j] = rlx_at<float4>(triangle, (piece_at(tile, j) + lane * 4) * 4);
    }
  }
}
// The triangle's rows times 8 columns of `right`, added to d.
RLX_FN void multiply_pieces(float (&d)[kTiles][4], const Pieces& pieces, const float* right, int part, int lane) {
  Sums sums[kTiles];
  float lows[kTiles][4];
  RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
    sums[i] = no_sums();
    lows[i][0] = lows[i][1] = lows[i][2] = lows[i][3] = 0.0f;
  }
  RLX_UNROLL for (int j = 0; j < 8; ++j) {
    const Right b = right_at(right + lane / 4 * kStepRow + j * 8 + lane % 4 * 2);
    RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
      if (j < most_pieces(i) && j < 2 * tile_of(part, i) + 2) {
        const float4 a = pieces.of[i * 4 + j];
        const Left high = {{high_part(a.x), high_part(a.y), high_part(a.z), high_part(a.w)}};
        const Left low = {{low_part(a.x), low_part(a.y), low_part(a.z), low_part(a.w)}};
        multiply(sums[i], j % 2, high, b);
        rlx_mma_tf32(lows[i], low.values, b.high);
      }
    }
  }
  RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
    RLX_UNROLL for (int e = 0; e < 4; ++e) d[i][e] += sums[i].of(e) + lows[i][e];
  }
}

RLX_MAIN {
  constexpr int kGroups = (RLX_COLUMNS + kColumns - 1) / kColumns;
  const rlx_i64 group = rlx_i64(rlx_linear_group);
  const rlx_i64 head = group / kGroups % RLX_HEADS;
  const rlx_i64 batch = group / kGroups / RLX_HEADS;
  if (batch >= RLX_BATCH) return;
  const int first_column = int(group % kGroups) * kColumns;
  Shared& shared = *reinterpret_cast<Shared*>(rlx_shared);
  const rlx_u32 rows = rlx_shared_address(shared.rows);

  const int warp = int(rlx_warp);
  const int lane = int(rlx_lane_of_warp);
  const int upper = lane / 4;     // row of a sum's first two elements; those of the others are 8 more
  const int pair = lane % 4 * 2;  // column of the first and third
  const bool has_keys = RLX_DELTA && warp < 4;
  const int part = RLX_DELTA ? warp / 2 % 2 : warp / 2;
  const int own_columns = warp % 2 * 8;

  const rlx_i64 q_first = batch * RLX_Q_BATCH + head / RLX_HEADS_PER_QUERY * RLX_Q_HEAD;
  const rlx_i64 k_first = batch * RLX_K_BATCH + head / RLX_HEADS_PER_KEY * RLX_K_HEAD;
  const rlx_i64 v_first = batch * RLX_V_BATCH + head * RLX_V_HEAD + first_column;
  // The bits of a value as they stand, and what they say: from inside the tensor always, so that no branch parts loads, and turned into
  // floats where they are used, so that none waits before.
  const auto value_bits = [&](int t, int column) {
    const int last_column = RLX_COLUMNS - 1 - first_column;
    const int last_step = RLX_STEPS - 1;
    return rlx_load_u16(p.v, v_first + min(t, last_step) * rlx_i64(RLX_V_STEP) + min(column, last_column));
  };
  const auto value_of = [&](rlx_u32 bits, int t, int column) {
    const float value = RLX_CAT(rlx_f32_from_, RLX_X)(bits);
    return t < RLX_STEPS && first_column + column < RLX_COLUMNS ? value : 0.0f;
  };

  // States: element e of 8 columns n is of key state_key(e) and column state_column(n, e).
  const bool has_states = warp * 16 < RLX_KEYS;
  float s[2][4];
  const rlx_i64 matrix = (batch * RLX_HEADS + head) * (rlx_i64(RLX_KEYS) * RLX_COLUMNS);
  const auto state_key = [&](int e) { return warp * 16 + upper + e / 2 * 8; };
  const auto state_column = [&](int n, int e) { return n * 8 + pair + e % 2; };
  const auto state_place = [&](int n, int e) {
    return matrix + state_key(e) * rlx_i64(RLX_S_KEY) + (first_column + state_column(n, e)) * rlx_i64(RLX_S_VALUE);
  };
  const auto publish = [&] {
    RLX_UNROLL for (int n = 0; n < 2; ++n) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) shared.s[state_column(n, e) * kStateRow + state_key(e)] = s[n][e];
    }
  };
  if (has_states) {
    RLX_UNROLL for (int n = 0; n < 2; ++n) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) {
        s[n][e] = 0.0f;
#if RLX_HAS_STATE0
        if (first_column + state_column(n, e) < RLX_COLUMNS) s[n][e] = rlx_load_f32(p.state0, state_place(n, e));
#endif
      }
    }
    publish();
  }

  const auto copy_chunk = [&](int chunk) {
    const rlx_u32 to = rows + rlx_u32(chunk % 2 * (2 * kRowsBytes));
    copy_rows(to, p.k, k_first, RLX_K_STEP, chunk * kSteps);
    copy_rows(to + kRowsBytes, p.q, q_first, RLX_Q_STEP, chunk * kSteps);
    rlx_commit_copies();
  };
  if (RLX_CHUNKS > 0) copy_chunk(0);
  rlx_wait_copies<0>();
  rlx_barrier();

  // Of a chunk: that which finds D, or A without RLX_DELTA. It is loaded as soon as the one before has been used.
  const auto left_triangle = [&](int chunk) { return RLX_AT(record_at(p, batch, chunk, head), RLX_DELTA * kTriangle, 4); };
  Pieces pieces;
  if ((has_keys || !RLX_DELTA) && RLX_CHUNKS > 0) load_pieces(pieces, left_triangle(0), part, lane);
  float results[kTiles][4];
  // Adds what the chunk itself takes in and writes the results.
  const auto finish = [&](int chunk) {
    multiply_pieces(results, pieces, shared.taken[chunk % 2] + own_columns * kStepRow, part, lane);
    RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) {
        const int t = chunk * kSteps + tile_of(part, i) * 16 + upper + e / 2 * 8;
        const int column = own_columns + pair + e % 2;
        if (t >= RLX_STEPS || first_column + column >= RLX_COLUMNS) continue;
        float value = results[i][e];
#if RLX_HAS_D
        value += RLX_ELEMENT(RLX_D, p.d, head) * value_of(value_bits(t, column), t, column);
#endif
#if RLX_HAS_Z
        value *= rlx_silu(RLX_ELEMENT(RLX_X, p.z, batch * RLX_Z_BATCH + t * rlx_i64(RLX_Z_STEP) + head * RLX_Z_HEAD + first_column + column));
#endif
        const rlx_i64 to = batch * RLX_Y_BATCH + t * rlx_i64(RLX_Y_STEP) + head * RLX_Y_HEAD + first_column + column;
        RLX_CAT(rlx_store_, RLX_X)(p.y, to, value);
      }
    }
  };

  for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const rlx_u32 stage = rows + rlx_u32(chunk % 2 * (2 * kRowsBytes));
    float* const taken = shared.taken[chunk % 2];

    // Loads stand before the products, whose time hides theirs; the copies, which have until the next chunk, behind them.
    const rlx_ptr record = record_at(p, batch, chunk, head);
    const float total = rlx_load_f32(record, kGates + 2 * kSteps);
    float rise[kTiles][2];
    RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
      RLX_UNROLL for (int e = 0; e < 2; ++e) rise[i][e] = rlx_load_f32(record, kGates + tile_of(part, i) * 16 + upper + e * 8);
    }
#if RLX_DELTA
    rlx_u32 values[kTiles][4];
    float fall[kTiles][2];
    if (has_keys) {
      RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
        RLX_UNROLL for (int e = 0; e < 2; ++e) fall[i][e] = rlx_load_f32(record, kGates + kSteps + tile_of(part, i) * 16 + upper + e * 8);
        RLX_UNROLL for (int e = 0; e < 4; ++e)
          values[i][e] = value_bits(chunk * kSteps + tile_of(part, i) * 16 + upper + e / 2 * 8, own_columns + pair + e % 2);
      }
    }
#else
    rlx_u32 values[kSteps * kColumns / RLX_BLOCK_SIZE];
    float fall[kSteps * kColumns / RLX_BLOCK_SIZE];
    RLX_UNROLL for (int i = 0; i < kSteps * kColumns / RLX_BLOCK_SIZE; ++i) {
      const int element = int(rlx_local_index) + i * RLX_BLOCK_SIZE;
      values[i] = value_bits(chunk * kSteps + element / kColumns, element % kColumns);
      fall[i] = rlx_load_f32(record, kGates + kSteps + element / kColumns);
    }
#endif
    if (chunk + 1 < RLX_CHUNKS) copy_chunk(chunk + 1);

    // Rows of keys or queries times S.
    Sums read[kTiles];
    RLX_UNROLL for (int i = 0; i < kTiles; ++i) read[i] = no_sums();
    const rlx_u32 left = stage + rlx_u32((has_keys ? 0 : kRowsBytes) + lane % 16 * kRowBytes + lane / 16 * 16);
    const float* const right = shared.s + (own_columns + upper) * kStateRow + pair;
    _Pragma("unroll 4") for (int depth = 0; depth < RLX_KEYS; depth += 16) {
      const Right b[2] = {right_at(right + depth), right_at(right + depth + 8)};
      RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
        rlx_u32 words[4];
        rlx_load_tiles4(words, left + rlx_u32(tile_of(part, i) * 16 * kRowBytes + depth * 2));
        RLX_UNROLL for (int half = 0; half < 2; ++half) multiply(read[i], half, left_of(words[2 * half], words[2 * half + 1]), b[half]);
      }
    }
#if RLX_DELTA
    float own[kTiles][4];
    RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) own[i][e] = read[i].of(e) * rise[i][e / 2];
    }
    if (has_keys) {
      RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
        RLX_UNROLL for (int e = 0; e < 4; ++e) {
          const int row = tile_of(part, i) * 16 + upper + e / 2 * 8;
          const int column = own_columns + pair + e % 2;
          shared.missing[column * kStepRow + row] = value_of(values[i][e], chunk * kSteps + row, column) - own[i][e];
        }
      }
    }
    rlx_barrier();
    if (has_keys) {
      float d[kTiles][4];
      RLX_UNROLL for (int i = 0; i < kTiles; ++i) d[i][0] = d[i][1] = d[i][2] = d[i][3] = 0.0f;
      multiply_pieces(d, pieces, shared.missing + own_columns * kStepRow, part, lane);
      if (chunk + 1 < RLX_CHUNKS) load_pieces(pieces, left_triangle(chunk + 1), part, lane);
      RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
        RLX_UNROLL for (int e = 0; e < 4; ++e) {
          const int place = (own_columns + pair + e % 2) * kStepRow + tile_of(part, i) * 16 + upper + e / 2 * 8;
          taken[place] = d[i][e];
          shared.faded[place] = d[i][e] * fall[i][e / 2];
        }
      }
    } else {
      if (chunk > 0) finish(chunk - 1);
      load_pieces(pieces, record, part, lane);
      RLX_UNROLL for (int i = 0; i < kTiles; ++i) {
        RLX_UNROLL for (int e = 0; e < 4; ++e) results[i][e] = RLX_SCALE * own[i][e];
      }
    }
#else
    RLX_UNROLL for (int e = 0; e < 4; ++e) results[0][e] = read[0].of(e) * (RLX_SCALE * rise[0][e / 2]);
    RLX_UNROLL for (int i = 0; i < kSteps * kColumns / RLX_BLOCK_SIZE; ++i) {
      const int element = int(rlx_local_index) + i * RLX_BLOCK_SIZE;
      const int place = element % kColumns * kStepRow + element / kColumns;
      const float value = value_of(values[i], chunk * kSteps + element / kColumns, element % kColumns);
      taken[place] = value;
      shared.faded[place] = value * fall[i];
    }
#endif
    rlx_barrier();

    if (has_states) {
      Sums added[2] = {no_sums(), no_sums()};
      const rlx_u32 keys = stage + rlx_u32((lane / 16 * 8 + lane % 8) * kRowBytes + (warp * 16 + lane / 8 % 2 * 8) * 2);
      RLX_UNROLL for (int depth = 0; depth < kSteps; depth += 16) {
        rlx_u32 words[4];
        rlx_load_tiles4_transposed(words, keys + rlx_u32(depth * kRowBytes));
        RLX_UNROLL for (int half = 0; half < 2; ++half) {
          const Left a = left_of(words[2 * half], words[2 * half + 1]);
          RLX_UNROLL for (int n = 0; n < 2; ++n)
            multiply(added[n], half, a, right_at(shared.faded + (n * 8 + upper) * kStepRow + depth + half * 8 + pair));
        }
      }
      RLX_UNROLL for (int n = 0; n < 2; ++n) {
        RLX_UNROLL for (int e = 0; e < 4; ++e) s[n][e] = total * s[n][e] + added[n].of(e);
      }
      publish();
    }
#if !RLX_DELTA
    finish(chunk);
    if (chunk + 1 < RLX_CHUNKS) load_pieces(pieces, left_triangle(chunk + 1), part, lane);
#endif
    rlx_wait_copies<0>();
    rlx_barrier();
  }
#if RLX_DELTA
  if (!has_keys && RLX_CHUNKS > 0) finish(RLX_CHUNKS - 1);
#endif
#if RLX_HAS_STATE
  if (has_states) {
    RLX_UNROLL for (int n = 0; n < 2; ++n) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) {
        if (first_column + state_column(n, e) < RLX_COLUMNS) rlx_store_f32(p.state, state_place(n, e), s[n][e]);
      }
    }
  }
#endif
}
#endif
