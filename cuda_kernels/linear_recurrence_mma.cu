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
//   split_grid, takes the chunks one after another. One warp fetches rows and records into a ring of up to three stages (of up to 227 KiB on
//   sm_90 and sm_100, as many as fit into 99 KiB elsewhere); of each 8 columns two warps take S from chunk to chunk in registers, and two
//   others, up to a chunk later, find the results from what those leave in shared memory.
// Specializations: those of linear_recurrence without tiles and RLX_GATE 2; RLX_QUERIES is 1, RLX_KEYS a multiple of 16 up to 128, RLX_X f16 or
//   bf16; RLX_CHUNKS.
// Numerics: sums of logarithms are f64, decays of their differences f32, so that nothing overflows which the step by step form keeps; q k and k k
//   exact products in f32 sums; other products by tf32 as two parts of each f32 factor, 21 bits at least; each chunk's sums are rounded
//   into S as f32. A value that is not finite spoils its column from the chunk's first step on.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/math.inc"
#include "generated/places.inc"

#include "lib/stream.cuh"

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

RLX_FN rlx_vec2 unpack(rlx_u32 word) { return RLX_CAT(RLX_CAT(rlx_unpack_, RLX_X), x2)(word); }

#if RLX_PHASE == 1

constexpr int kTileRow = kSteps + 4;
constexpr int kStagedBytes = 2 * kRowsBytes > kTriangle * 4 ? 2 * kRowsBytes : kTriangle * 4;

RLX_DYNAMIC_SHARED(kStagedBytes + RLX_DELTA * kSteps * kTileRow * 4);
RLX_SHARED double sums[kSteps];  // of logarithms
RLX_SHARED float factors[kSteps];

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

RLX_FN float decay_of(double logarithm) {
  const float x = float(logarithm);
  return rlx_is_nan(x) ? x : rlx_exp2_straight(1.44269504f * x);
}

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
      const float decay = RLX_GATE && column <= row ? decay_of(sums[row] - sums[column]) : 1.0f;
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
    rlx_store_f32(record, kGates + thread, decay_of(sum));
    rlx_store_f32(record, kGates + kSteps + thread, decay_of(last - sum) * (RLX_DELTA ? 1.0f : factors[thread]));
    if (thread == 0) rlx_store_f32(record, kGates + 2 * kSteps, decay_of(last));
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

// What the walk reads of a chunk: rows of keys and of queries, and the record.
constexpr int kStageBytes = 2 * kRowsBytes + kRecord * 4;
struct Columns {
  float s[2][kColumns * kStateRow];     // before this chunk and before the next
  float missing[kColumns * kStepRow];   // V - diag(e^G) K S
  float taken[2][kColumns * kStepRow];  // D, of this chunk and the next
  float faded[kColumns * kStepRow];     // diag(e^(G_63 - G)) D
};
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
constexpr int kRoom = 227 * 1024;
#else
constexpr int kRoom = 99 * 1024;
#endif
constexpr int kSpareBytes = 1024;  // barriers
constexpr int kStagesOfRoom = (kRoom - kSpareBytes - int(sizeof(Columns))) / kStageBytes;
constexpr int kStages = kStagesOfRoom < 3 ? kStagesOfRoom : 3;
static_assert(kStages > 0 && RLX_BLOCK_SIZE == 288 && RLX_KEYS <= 128, "a walker has 4 tiles of keys");

struct Shared {
  unsigned char stages[kStages][kStageBytes];
  Columns columns;
};
RLX_DYNAMIC_SHARED(sizeof(Shared));
// Of a stage. The others are of 8 columns each, and of chunks by turns.
RLX_SHARED rlx_u64 full[kStages];
RLX_SHARED rlx_u64 empty[kStages];
RLX_SHARED rlx_u64 has_state[2][2];  // S before the chunk stands in its place
RLX_SHARED rlx_u64 has_taken[2][2];  // D does
RLX_SHARED rlx_u64 has_read[2][2];   // both have been used

// Of four floats the parts for mma. What the high part cuts off is exact.
RLX_FN rlx_u32 high_part(float x) { return __float_as_uint(x) & 0xFFFFE000u; }
RLX_FN rlx_u32 low_part(float x) { return __float_as_uint(x - __uint_as_float(high_part(x))); }

struct Right {
  rlx_u32 high[2];
  rlx_u32 low[2];
};
// Depths 2t and 2t + 1 of column g are at the places t and t + 4 of mma, and those of the left side too.
RLX_FN Right right_of(float2 x) {
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

// A warp's two tiles of 16 rows of a chunk: 0 and 3, or 1 and 2, so that triangles give each as many pieces.
RLX_FN int tile_of(int part, int i) { return i == 0 ? part : 3 - part; }

// Loops here stay loops: unrolled, the code of the roles together no longer stays in the instruction cache, whose misses then are all of
// the time. What a round of products reads is loaded in front of the round before.

// Rows of keys or queries times 8 columns of S.
RLX_FN void multiply_rows(float (&d)[2][4], rlx_u32 rows, const float* s, int part, int lane) {
  Sums sums[2] = {no_sums(), no_sums()};
  const rlx_u32 left = rows + rlx_u32(lane % 16 * kRowBytes + lane / 16 * 16);
  const float* const right = s + lane / 4 * kStateRow + lane % 4 * 2;
  rlx_u32 words[2][4];
  float2 pairs[2];
  const auto load = [&](int depth) {
    RLX_UNROLL for (int i = 0; i < 2; ++i) rlx_load_tiles4(words[i], left + rlx_u32(tile_of(part, i) * 16 * kRowBytes + depth * 2));
    RLX_UNROLL for (int half = 0; half < 2; ++half) pairs[half] = *reinterpret_cast<const float2*>(right + depth + half * 8);
  };
  load(0);
  RLX_LOOP for (int depth = 0; depth < RLX_KEYS; depth += 16) {
    Left a[2][2];
    Right b[2];
    RLX_UNROLL for (int half = 0; half < 2; ++half) {
      b[half] = right_of(pairs[half]);
      RLX_UNROLL for (int i = 0; i < 2; ++i) a[i][half] = left_of(words[i][2 * half], words[i][2 * half + 1]);
    }
    load(min(depth + 16, RLX_KEYS - 16));
    RLX_UNROLL for (int half = 0; half < 2; ++half) {
      RLX_UNROLL for (int i = 0; i < 2; ++i) rlx_mma_tf32(sums[i].high[half], a[i][half].values, b[half].high);
    }
    RLX_UNROLL for (int half = 0; half < 2; ++half) {
      RLX_UNROLL for (int i = 0; i < 2; ++i) rlx_mma_tf32(sums[i].low[half], a[i][half].values, b[half].low);
    }
  }
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    RLX_UNROLL for (int e = 0; e < 4; ++e) d[i][e] = sums[i].of(e);
  }
}

// The rows of a triangle times 8 columns of `right`, added to d.
RLX_FN void multiply_triangle(float (&d)[2][4], const float* triangle, const float* right, int part, int lane) {
  const float* const columns = right + lane / 4 * kStepRow + lane % 4 * 2;
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    const int tile = tile_of(part, i);
    const float* const rows = triangle + piece_at(tile, 0) + lane * 4;
    Sums sums = no_sums();
    float lows[2][4] = {};
    float4 pieces[2];
    float2 pairs[2];
    const auto load = [&](int j) {
      RLX_UNROLL for (int half = 0; half < 2; ++half) {
        pieces[half] = *reinterpret_cast<const float4*>(rows + (j + half) * 128);
        pairs[half] = *reinterpret_cast<const float2*>(columns + (j + half) * 8);
      }
    };
    load(0);
    RLX_LOOP for (int j = 0; j < 2 * tile + 2; j += 2) {
      Left high[2];
      Left low[2];
      Right b[2];
      RLX_UNROLL for (int half = 0; half < 2; ++half) {
        const float4 a = pieces[half];
        high[half] = {{high_part(a.x), high_part(a.y), high_part(a.z), high_part(a.w)}};
        low[half] = {{low_part(a.x), low_part(a.y), low_part(a.z), low_part(a.w)}};
        b[half] = right_of(pairs[half]);
      }
      load(min(j + 2, 2 * tile));
      RLX_UNROLL for (int half = 0; half < 2; ++half) rlx_mma_tf32(sums.high[half], high[half].values, b[half].high);
      RLX_UNROLL for (int half = 0; half < 2; ++half) rlx_mma_tf32(sums.low[half], high[half].values, b[half].low);
      RLX_UNROLL for (int half = 0; half < 2; ++half) rlx_mma_tf32(lows[half], low[half].values, b[half].high);
    }
    RLX_UNROLL for (int e = 0; e < 4; ++e) d[i][e] += sums.of(e) + (lows[0][e] + lows[1][e]);
  }
}

// Waits for the two warps of the same role and columns.
RLX_FN void pair_barrier(int id) { asm volatile("barrier.sync %0, 64;" ::"r"(id) : "memory"); }
// Arrives for a warp, all of whose lanes have done what is to be seen.
RLX_FN void arrive_warp(const rlx_u64& barrier, int lane) {
  __syncwarp();
  if (lane == 0) rlx_mbarrier_arrive(rlx_shared_address(&barrier));
}
// Waits for turn number `turn`, from 0 on, of a barrier.
RLX_FN void wait_turn(const rlx_u64& barrier, int turn) { rlx_mbarrier_wait(rlx_shared_address(&barrier), rlx_u32(turn) % 2u); }

// Where a workgroup's part of the tensors is.
struct Place {
  rlx_i64 batch;
  rlx_i64 head;
  int first_column;
};

// The bits of a value as they stand, and what they say: from inside the tensor always, so that no branch parts loads, and turned into
// floats where they are used, so that none waits before.
RLX_FN rlx_u32 value_bits(const RlxParams& p, const Place& place, int t, int column) {
  const rlx_i64 step = min(t, RLX_STEPS - 1) * rlx_i64(RLX_V_STEP);
  return rlx_load_u16(p.v, place.batch * RLX_V_BATCH + place.head * RLX_V_HEAD + step + min(place.first_column + column, RLX_COLUMNS - 1));
}
RLX_FN float value_of(const Place& place, rlx_u32 bits, int t, int column) {
  const float value = RLX_CAT(rlx_f32_from_, RLX_X)(bits);
  return t < RLX_STEPS && place.first_column + column < RLX_COLUMNS ? value : 0.0f;
}
struct Values {
  rlx_u32 bits[2][4];
};
// Of what multiply_triangle gives a lane.
RLX_FN Values load_values(const RlxParams& p, const Place& place, int chunk, int part, int column, int lane) {
  Values values;
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    RLX_UNROLL for (int e = 0; e < 4; ++e) {
      const int t = chunk * kSteps + tile_of(part, i) * 16 + lane / 4 + e / 2 * 8;
      values.bits[i][e] = value_bits(p, place, t, column + lane % 4 * 2 + e % 2);
    }
  }
  return values;
}

// The warp that fetches chunks. Beyond the sequence it repeats the last rows, which meet nothing but zeros.
RLX_FN void fetch(const RlxParams& p, const Place& place, Shared& shared, int lane) {
  const rlx_i64 q_first = place.batch * RLX_Q_BATCH + place.head / RLX_HEADS_PER_QUERY * RLX_Q_HEAD;
  const rlx_i64 k_first = place.batch * RLX_K_BATCH + place.head / RLX_HEADS_PER_KEY * RLX_K_HEAD;
  for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const int stage = chunk % kStages;
    const rlx_u32 to = rlx_shared_address(shared.stages[stage]);
    const rlx_u32 barrier = rlx_shared_address(&full[stage]);
    if (chunk >= kStages) wait_turn(empty[stage], chunk / kStages - 1);
    const rlx_ptr record = record_at(p, place.batch, chunk, place.head);
    // A bulk copy of each row would be slower than its pieces.
    _Pragma("unroll 8") for (int i = lane; i < kSteps * kPiecesOfRow; i += 32) {
      const rlx_i64 t = min(chunk * kSteps + i / kPiecesOfRow, RLX_STEPS - 1);
      const int piece = i % kPiecesOfRow;
      const rlx_u32 row = to + rlx_u32(i / kPiecesOfRow * kRowBytes + piece * 16);
      rlx_copy16_async(row, RLX_AT(p.k, k_first + t * RLX_K_STEP + piece * 8, 2));
      rlx_copy16_async(row + kRowsBytes, RLX_AT(p.q, q_first + t * RLX_Q_STEP + piece * 8, 2));
    }
    rlx_mbarrier_arrive_after_copies(barrier);
    rlx_stream_announce(barrier, kRecord * 4, rlx_u32(lane));
    rlx_stream_copy(to + 2 * kRowsBytes, record, kRecord * 4, barrier, rlx_u32(lane));
    rlx_stream_close(barrier);
  }
}

// A pair of warps that takes 8 columns of S from chunk to chunk.
RLX_FN void walk(const RlxParams& p, const Place& place, Shared& shared, int part, int half, int lane) {
  Columns& columns = shared.columns;
  const int column = half * 8;
  const int upper = lane / 4;     // row of a sum's first two elements; those of the others are 8 more
  const int pair = lane % 4 * 2;  // column of the first and third
  const int own_states = column * kStateRow;
  const int own_steps = column * kStepRow;

  // Tile i of 16 keys is number part + 2 i.
  constexpr int kKeyTiles = (RLX_KEYS / 16 + 1) / 2;
  const auto has_keys = [&](int i) { return (part + 2 * i) * 16 < RLX_KEYS; };
  float s[kKeyTiles][4];
  const auto key_of = [&](int i, int e) { return (part + 2 * i) * 16 + upper + e / 2 * 8; };
  const auto column_of = [&](int e) { return column + pair + e % 2; };
  const auto state_place = [&](int i, int e) {
    const rlx_i64 matrix = (place.batch * RLX_HEADS + place.head) * (rlx_i64(RLX_KEYS) * RLX_COLUMNS);
    return matrix + key_of(i, e) * rlx_i64(RLX_S_KEY) + (place.first_column + column_of(e)) * rlx_i64(RLX_S_VALUE);
  };
  // S before chunk `chunk`, for all who read it.
  const auto publish = [&](int chunk) {
    RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) {
        if (has_keys(i)) columns.s[chunk % 2][column_of(e) * kStateRow + key_of(i, e)] = s[i][e];
      }
    }
    arrive_warp(has_state[half][chunk % 2], lane);
    pair_barrier(1 + half);
  };
  RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
    RLX_UNROLL for (int e = 0; e < 4; ++e) {
      s[i][e] = 0.0f;
#if RLX_HAS_STATE0
      if (has_keys(i) && place.first_column + column_of(e) < RLX_COLUMNS) s[i][e] = rlx_load_f32(p.state0, state_place(i, e));
#endif
    }
  }
  Values values;
  if (RLX_CHUNKS > 0) values = load_values(p, place, 0, part, column, lane);
  publish(0);

  for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const int stage = chunk % kStages;
    const rlx_u32 keys = rlx_shared_address(shared.stages[stage]);
    const float* const record = reinterpret_cast<const float*>(shared.stages[stage] + 2 * kRowsBytes);
    float* const taken = columns.taken[chunk % 2];
    wait_turn(full[stage], chunk / kStages);

    float d[2][4];
#if RLX_DELTA
    multiply_rows(d, keys, columns.s[chunk % 2] + own_states, part, lane);
#endif
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) {
        const int row = tile_of(part, i) * 16 + upper + e / 2 * 8;
        const float value = value_of(place, values.bits[i][e], chunk * kSteps + row, column_of(e));
#if RLX_DELTA
        columns.missing[column_of(e) * kStepRow + row] = value - record[kGates + row] * d[i][e];
        d[i][e] = 0.0f;
#else
        d[i][e] = value;
#endif
      }
    }
    // Those of the next chunk have all of this one's time.
    values = load_values(p, place, chunk + 1, part, column, lane);
#if RLX_DELTA
    pair_barrier(1 + half);
    multiply_triangle(d, record + kTriangle, columns.missing + own_steps, part, lane);
#endif
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) {
        const int row = tile_of(part, i) * 16 + upper + e / 2 * 8;
        taken[column_of(e) * kStepRow + row] = d[i][e];
        columns.faded[column_of(e) * kStepRow + row] = d[i][e] * record[kGates + kSteps + row];
      }
    }
    arrive_warp(has_taken[half][chunk % 2], lane);
    pair_barrier(1 + half);

    Sums sums[kKeyTiles] = {};
    rlx_u32 words[kKeyTiles][4];
    float2 pairs[2];
    const auto load = [&](int depth) {
      RLX_UNROLL for (int j = 0; j < 2; ++j)
        pairs[j] = *reinterpret_cast<const float2*>(columns.faded + own_steps + upper * kStepRow + depth + j * 8 + pair);
      RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
        const int row = depth + lane / 16 * 8 + lane % 8;
        rlx_load_tiles4_transposed(words[i], keys + rlx_u32(row * kRowBytes + (min((part + 2 * i) * 16, RLX_KEYS - 16) + lane / 8 % 2 * 8) * 2));
      }
    };
    load(0);
    RLX_LOOP for (int depth = 0; depth < kSteps; depth += 16) {
      const Right b[2] = {right_of(pairs[0]), right_of(pairs[1])};
      Left a[kKeyTiles][2];
      RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
        RLX_UNROLL for (int j = 0; j < 2; ++j) a[i][j] = left_of(words[i][2 * j], words[i][2 * j + 1]);
      }
      load(min(depth + 16, kSteps - 16));
      RLX_UNROLL for (int j = 0; j < 2; ++j) {
        RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) rlx_mma_tf32(sums[i].high[j], a[i][j].values, b[j].high);
        RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) rlx_mma_tf32(sums[i].low[j], a[i][j].values, b[j].low);
      }
    }
    const float total = record[kGates + 2 * kSteps];
    RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) s[i][e] = total * s[i][e] + sums[i].of(e);
    }
    arrive_warp(empty[stage], lane);
    if (chunk > 0) wait_turn(has_read[half][(chunk - 1) % 2], (chunk - 1) / 2);
    publish(chunk + 1);
  }
#if RLX_HAS_STATE
  RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
    RLX_UNROLL for (int e = 0; e < 4; ++e) {
      if (has_keys(i) && place.first_column + column_of(e) < RLX_COLUMNS) rlx_store_f32(p.state, state_place(i, e), s[i][e]);
    }
  }
#endif
}

// A pair of warps that finds the results of 8 columns.
RLX_FN void read_out(const RlxParams& p, const Place& place, Shared& shared, int part, int half, int lane) {
  Columns& columns = shared.columns;
  const int column = half * 8;
  for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const int stage = chunk % kStages;
    const rlx_u32 queries = rlx_shared_address(shared.stages[stage]) + kRowsBytes;
    const float* const record = reinterpret_cast<const float*>(shared.stages[stage] + 2 * kRowsBytes);
#if RLX_HAS_D
    const Values values = load_values(p, place, chunk, part, column, lane);
#endif
    wait_turn(full[stage], chunk / kStages);
    wait_turn(has_state[half][chunk % 2], chunk / 2);
    float y[2][4];
    multiply_rows(y, queries, columns.s[chunk % 2] + column * kStateRow, part, lane);
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) y[i][e] *= RLX_SCALE * record[kGates + tile_of(part, i) * 16 + lane / 4 + e / 2 * 8];
    }
    wait_turn(has_taken[half][chunk % 2], chunk / 2);
    multiply_triangle(y, record, columns.taken[chunk % 2] + column * kStepRow, part, lane);
    arrive_warp(has_read[half][chunk % 2], lane);
    arrive_warp(empty[stage], lane);

    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) {
        const int t = chunk * kSteps + tile_of(part, i) * 16 + lane / 4 + e / 2 * 8;
        const int own = column + lane % 4 * 2 + e % 2;
        if (t >= RLX_STEPS || place.first_column + own >= RLX_COLUMNS) continue;
        float value = y[i][e];
#if RLX_HAS_D
        value += RLX_ELEMENT(RLX_D, p.d, place.head) * value_of(place, values.bits[i][e], t, own);
#endif
#if RLX_HAS_Z
        const rlx_i64 gate = place.batch * RLX_Z_BATCH + t * rlx_i64(RLX_Z_STEP) + place.head * RLX_Z_HEAD + place.first_column + own;
        value *= rlx_silu(RLX_ELEMENT(RLX_X, p.z, gate));
#endif
        const rlx_i64 to = place.batch * RLX_Y_BATCH + t * rlx_i64(RLX_Y_STEP) + place.head * RLX_Y_HEAD + place.first_column + own;
        RLX_CAT(rlx_store_, RLX_X)(p.y, to, value);
      }
    }
  }
}

RLX_MAIN {
  constexpr int kGroups = (RLX_COLUMNS + kColumns - 1) / kColumns;
  const rlx_i64 group = rlx_i64(rlx_linear_group);
  const Place place = {group / kGroups / RLX_HEADS, group / kGroups % RLX_HEADS, int(group % kGroups) * kColumns};
  if (place.batch >= RLX_BATCH) return;
  Shared& shared = *reinterpret_cast<Shared*>(rlx_shared);
  if (rlx_local_index == 0) {
    RLX_UNROLL for (int stage = 0; stage < kStages; ++stage) {
      rlx_mbarrier_init(rlx_shared_address(&full[stage]), 32u + RLX_STREAM_ARRIVALS);
      rlx_mbarrier_init(rlx_shared_address(&empty[stage]), 8u);
    }
    RLX_UNROLL for (int i = 0; i < 4; ++i) {
      rlx_mbarrier_init(rlx_shared_address(&has_state[i / 2][i % 2]), 2u);
      rlx_mbarrier_init(rlx_shared_address(&has_taken[i / 2][i % 2]), 2u);
      rlx_mbarrier_init(rlx_shared_address(&has_read[i / 2][i % 2]), 2u);
    }
    rlx_fence_async_shared();
  }
  rlx_barrier();
  const int warp = int(rlx_warp);
  const int lane = int(rlx_lane_of_warp);
  if (warp == 8) fetch(p, place, shared, lane);
  else if (warp < 4) walk(p, place, shared, warp / 2, warp % 2, lane);
  else read_out(p, place, shared, warp / 2 % 2, warp % 2, lane);
}
#endif
