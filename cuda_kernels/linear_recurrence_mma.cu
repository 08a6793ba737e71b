// SPDX-License-Identifier: Apache-2.0
// linear_recurrence in chunks of 64 steps, on tensor cores: products of all pairs of a chunk's steps take the place of its steps.
//   With G_i the sum of logarithms of a chunk's decays up to step i, f_i and S (before the chunk) as there, q, k and v by rows:
//   A_ij = RLX_SCALE e^(G_i - G_j) q_i k_j for j <= i;  N_ij = f_i e^(G_i - G_j) k_i k_j for j < i;
//   D = V, or (I + N)^-1 diag(f) (V - diag(e^G) K S) with RLX_DELTA: what the steps take in, which one after another would find alike;
//   Y = RLX_SCALE diag(e^G) Q S + A D, + D v, times silu(z);  S <- e^G_63 S + K^T diag(e^(G_63 - G)) D.
//   Without RLX_DELTA the columns of A and the rows of K^T's right side are multiplied by f.
// Layout: as linear_recurrence; rows of q and k are whole pieces of 16 bytes. partial: a record per batch entry, chunk and head: A, with
//   RLX_DELTA (I + N)^-1 diag(f), each by pieces of 16 x 8 on and below the diagonal, as mma wants them, or on sm_90a their parts
//   (lib/recurrence_parts.cuh), rows times powers of two; then e^G, e^(G_63 - G) (times f without RLX_DELTA), what the powers are
//   undone by, and e^G_63.
// Grid: RLX_PHASE 1: a group per record, which it writes. RLX_PHASE 2: a group per batch entry, head and 16 columns of S, spread by
//   split_grid, takes the chunks one after another; where that were more than RLX_GROUPS_AT_ONCE, not 0, as many, each of which takes every
//   so many of these parts in turn. Its last four warps fetch rows, values and records into a ring of up to three stages (of up to 227 KiB on
//   sm_90 and sm_100, as many as fit into 99 KiB elsewhere); the first four take S from chunk to chunk in registers; those between, up to a
//   chunk later, find the results from what these leave in shared memory: by wgmma on sm_90a (lib/recurrence_groups.cuh), by mma elsewhere
//   (lib/recurrence_warps.cuh).
// Specializations: those of linear_recurrence without tiles and RLX_GATE 2; RLX_QUERIES is 1, RLX_KEYS a multiple of 16 up to 128, RLX_X f16 or
//   bf16; RLX_CHUNKS; RLX_Y_PAIRS: any two results from an even column on may be stored at once; RLX_GROUPS_AT_ONCE.
// Numerics: sums of logarithms are f64, decays of their differences f32, so that nothing overflows which the step by step form keeps; q k and k k
//   exact products in f32 sums; other products by parts of each f32 factor, two of tf32 with 21 bits at least or those of
//   lib/recurrence_parts.cuh; each chunk's sums are rounded into S as f32. A value that is not finite spoils its column from the chunk's
//   first step on.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/math.inc"
#include "generated/places.inc"

#include "lib/stream.cuh"
#include "lib/wgmma_few.cuh"

RLX_PARAMS(LinearRecurrenceParams);

#define RLX_ELEMENT(dtype, base, i) RLX_CAT(rlx_load_, dtype)(base, rlx_i64(i))

constexpr int kSteps = 64;  // of a chunk
#if RLX_HAS_WGMMA
#include "lib/recurrence_parts.cuh"
constexpr int kTriangle = kParts * kPackedBytes / 4;
constexpr int kFactors = 3 + RLX_DELTA;  // of each step
#else
constexpr int kTriangle = (kSteps / 16) * (kSteps / 16 + 1) * 128;
constexpr int kFactors = 2;
#endif
constexpr int kGates = (1 + RLX_DELTA) * kTriangle;  // their place in a record
constexpr int kLast = kFactors * kSteps;             // that of e^G_63 behind it
constexpr int kRecord = kGates + kLast + 4;
constexpr int kPiecesOfRow = RLX_KEYS / 8;      // of 16 bytes
constexpr int kRowBytes = RLX_KEYS * 2 + 16;  // in shared memory, so that rows begin in other banks

static_assert(RLX_KEYS % 16 == 0, "depths of a product");

// Piece j of 8 columns of the 16 rows `tile` of a triangle.
RLX_FN constexpr int piece_at(int tile, int j) { return (tile * (tile + 1) + j) * 128; }

RLX_FN rlx_ptr record_at(const RlxParams& p, rlx_i64 batch, rlx_i64 chunk, rlx_i64 head) {
  return RLX_AT(p.partial, ((batch * RLX_CHUNKS + chunk) * RLX_HEADS + head) * kRecord, 4);
}

RLX_FN rlx_vec2 unpack(rlx_u32 word) { return RLX_CAT(RLX_CAT(rlx_unpack_, RLX_X), x2)(word); }

#if RLX_PHASE == 1

constexpr int kRowsBytes = kSteps * kRowBytes;  // of a chunk's keys, and of its queries behind them
constexpr int kTileRow = kSteps + 4;
constexpr int kTileBytes = kSteps * kTileRow * 4;
// Rows of keys and queries, in whose place (I + N)^-1 and products on the way to it stand later.
constexpr int kStagedBytes = RLX_DELTA && kTileBytes > kRowsBytes ? 2 * kTileBytes : 2 * kRowsBytes;

RLX_DYNAMIC_SHARED(kStagedBytes + RLX_DELTA * kTileBytes);
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
// Four elements of a row of a tile, added to a sum times what the rows of another from `row` on have in their place.
RLX_FN void multiply_four(float4& sum, float4 four, const float* row) {
  const float factors_of[4] = {four.x, four.y, four.z, four.w};
  RLX_UNROLL for (int i = 0; i < 4; ++i) {
    const float4 right = *reinterpret_cast<const float4*>(row + i * kTileRow);
    sum.x += factors_of[i] * right.x;
    sum.y += factors_of[i] * right.y;
    sum.z += factors_of[i] * right.z;
    sum.w += factors_of[i] * right.w;
  }
}

// (I + N)^-1 into x on and below the diagonal's blocks of 16 x 16: these by their columns, others X_ij = -X_ii (sum of N_ik X_kj), those of
// equal distance from the diagonal at once.
RLX_FN void invert(const float* n, float* x, float* products, int thread) {
  if (thread < kSteps) {
    const int first = thread / 16 * 16;
    float column[16];
    RLX_UNROLL for (int i = 0; i < 16; ++i) {
      column[i] = first + i == thread ? 1.0f : 0.0f;
      RLX_UNROLL for (int j = 0; j < i; j += 4) {
        const float4 four = *reinterpret_cast<const float4*>(n + (first + i) * kTileRow + first + j);
        const float row[4] = {four.x, four.y, four.z, four.w};
        RLX_UNROLL for (int m = 0; m < 4; ++m) {
          if (j + m < i) column[i] -= row[m] * column[j + m];
        }
      }
      x[(first + i) * kTileRow + thread] = column[i];
    }
  }
  rlx_barrier();
  RLX_LOOP for (int distance = 1; distance < kSteps / 16; ++distance) {
    const int count = (kSteps / 16 - distance) * 64;  // of four elements
    RLX_LOOP for (int item = thread; item < count; item += RLX_BLOCK_SIZE) {
      const int begin = item / 64 * 16;
      const int column = begin + item % 4 * 4;
      const int row = begin + distance * 16 + item / 4 % 16;
      float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      _Pragma("unroll 4") for (int depth = begin; depth < begin + distance * 16; depth += 4)
        multiply_four(sum, *reinterpret_cast<const float4*>(n + row * kTileRow + depth), x + depth * kTileRow + column);
      *reinterpret_cast<float4*>(products + row * kTileRow + column) = sum;
    }
    rlx_barrier();
    RLX_LOOP for (int item = thread; item < count; item += RLX_BLOCK_SIZE) {
      const int begin = item / 64 * 16;
      const int column = begin + item % 4 * 4;
      const int block = begin + distance * 16;
      const int row = block + item / 4 % 16;
      float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      RLX_UNROLL for (int depth = 0; depth < 16; depth += 4) {
        multiply_four(sum, *reinterpret_cast<const float4*>(x + row * kTileRow + block + depth),
                      products + (block + depth) * kTileRow + column);
      }
      *reinterpret_cast<float4*>(x + row * kTileRow + column) = make_float4(-sum.x, -sum.y, -sum.z, -sum.w);
    }
    rlx_barrier();
  }
}
#endif

// A warp writes rows of triangle `which` to the record; x[j]: its elements of columns 8j to 8j + 7, as a product has them.
RLX_FN void store_triangle(rlx_ptr record, int which, const float (&x)[kSteps / 8][4], int tile, int lane) {
#if RLX_HAS_WGMMA
  int most[2] = {0, 0};
  RLX_UNROLL for (int j = 0; j < kSteps / 8; ++j) {
    RLX_UNROLL for (int e = 0; e < 4; ++e) most[e / 2] = j > 2 * tile + 1 ? most[e / 2] : larger(most[e / 2], x[j][e]);
  }
  float power[2];
  RLX_UNROLL for (int half = 0; half < 2; ++half) {
    most[half] = max(most[half], __shfl_xor_sync(0xFFFFFFFFu, most[half], 1));
    most[half] = max(most[half], __shfl_xor_sync(0xFFFFFFFFu, most[half], 2));
    power[half] = power_of(most[half]);
    if (lane % 4 == 0) rlx_store_f32(record, kGates + (2 + which) * kSteps + tile * 16 + half * 8 + lane / 4, inverse_of(power[half]));
  }
  RLX_UNROLL for (int j = 0; j < kSteps / 8; ++j) {
    if (j > 2 * tile + 1) break;
    RLX_UNROLL for (int half = 0; half < 2; ++half) {
      rlx_u32 words[kParts];
      parts_of(words, x[j][2 * half] * power[half], x[j][2 * half + 1] * power[half]);
      const int core = packed_columns(j / 2) + ((tile - j / 2) * 4 + half * 2 + j % 2) * 128;
      RLX_UNROLL for (int part = 0; part < kParts; ++part)
        rlx_at<rlx_u32>(record, (which * kParts + part) * kPackedBytes + core + lane * 4) = words[part];
    }
  }
#else
  RLX_UNROLL for (int j = 0; j < kSteps / 8; ++j) {
    if (j > 2 * tile + 1) break;
    rlx_at<float4>(record, (which * kTriangle + piece_at(tile, j) + lane * 4) * 4) = make_float4(x[j][0], x[j][2], x[j][1], x[j][3]);
  }
#endif
}

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
    RLX_UNROLL for (int distance = 1; distance < 32; distance *= 2) {
      const double before = __shfl_up_sync(0xFFFFFFFFu, sum, distance);
      if (thread % 32 >= distance) sum += before;
    }
    sums[thread] = sum;
  }
  rlx_barrier();
  if (thread >= 32 && thread < kSteps) {
    sum += sums[31];
    sums[thread] = sum;
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
    RLX_UNROLL for (int e = 0; e < 4; ++e) {
      const int row = tile * 16 + lane / 4 + e / 2 * 8;
      const int column = j * 8 + lane % 4 * 2 + e % 2;
      const float decay = RLX_GATE && column <= row ? decay_of(sums[row] - sums[column]) : 1.0f;
      float value = RLX_SCALE * decay * of_queries[j][e];
      if (!RLX_DELTA) value *= factors[column];
      of_queries[j][e] = column <= row ? value : 0.0f;
#if RLX_DELTA
      n[row * kTileRow + column] = column < row ? factors[row] * decay * of_keys[j][e] : 0.0f;
#endif
    }
  }
  store_triangle(record, 0, of_queries, tile, lane);
  if (thread < kSteps) {
    const double last = sums[kSteps - 1];
    rlx_store_f32(record, kGates + thread, decay_of(sum));
    rlx_store_f32(record, kGates + kSteps + thread, decay_of(last - sum) * (RLX_DELTA ? 1.0f : factors[thread]));
    if (thread == 0) rlx_store_f32(record, kGates + kLast, decay_of(last));
  }
#if RLX_DELTA
  rlx_barrier();
  float* const x = reinterpret_cast<float*>(rlx_shared);
  invert(n, x, x + kTileBytes / 4, thread);
  RLX_UNROLL for (int j = 0; j < kSteps / 8; ++j) {
    if (j > 2 * tile + 1) break;
    const int column = j * 8 + lane % 4 * 2;
    const float2 upper = *reinterpret_cast<const float2*>(x + (tile * 16 + lane / 4) * kTileRow + column);
    const float2 lower = *reinterpret_cast<const float2*>(x + (tile * 16 + lane / 4 + 8) * kTileRow + column);
    of_keys[j][0] = upper.x * factors[column];
    of_keys[j][1] = upper.y * factors[column + 1];
    of_keys[j][2] = lower.x * factors[column];
    of_keys[j][3] = lower.y * factors[column + 1];
  }
  store_triangle(record, 1, of_keys, tile, lane);
#endif
}

#else

#if RLX_HAS_WGMMA
#include "lib/recurrence_groups.cuh"
#else
#include "lib/recurrence_warps.cuh"
#endif

// Calls role(place, first turn) for each group of columns of this workgroup.
template <class Role>
RLX_FN void for_groups(const Role& role) {
  constexpr int kGroups = (RLX_COLUMNS + kColumns - 1) / kColumns;
  int turn = 0;
  for (rlx_i64 group = rlx_i64(rlx_linear_group);; group += RLX_GROUPS_AT_ONCE) {
    const Place place = {group / kGroups / RLX_HEADS, group / kGroups % RLX_HEADS, int(group % kGroups) * kColumns};
    if (place.batch >= RLX_BATCH) return;
    role(place, turn);
    if (!RLX_GROUPS_AT_ONCE) return;
    turn += RLX_CHUNKS;
  }
}

RLX_MAIN {
  if (rlx_local_index == 0) {
    start_ring();
    start_states();
  }
  start_stages(int(rlx_local_index));
  rlx_fence_async_shared();
  rlx_barrier();
  const int role = int(rlx_warp) / 4;
  const int warp = int(rlx_warp) % 4;
  const int lane = int(rlx_lane_of_warp);
  if (role == 2) {
    rlx_give_registers<104>();
    for_groups([&](const Place& place, int turn) { fetch(p, place, turn, int(rlx_local_index) % 128); });
  } else if (role == 0) {
    rlx_take_registers<200>();
    for_groups([&](const Place& place, int turn) { walk(p, place, turn, warp, lane); });
  } else {
    rlx_take_registers<200>();
    for_groups([&](const Place& place, int turn) { read_out(p, place, turn, warp, lane); });
  }
}
#endif
