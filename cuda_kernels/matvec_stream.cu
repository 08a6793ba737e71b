// SPDX-License-Identifier: Apache-2.0
// Few vectors x times a matrix w that is read once, at the speed of memory:
//   sum[v, n] = scale[v] * sum over k of x[v, k] * gamma[k] * w[n, k], and
//   y[v, n] = act(sum[v, n] + bias[n]) + residual[v, n], or of a gated pair (RLX_GATED)
//   y[v, n] = act(sum[v, n] + bias[n]) * (sum2[v, n] + bias2[n]) + residual[v, n], where sum2 is that of w2.
//   RLX_NORM 1: gamma[k] stands for gamma[k] + RLX_GAMMA_OFFSET (1 where there is none) and scale[v] for
//   (mean over k of x[v, k]^2 + RLX_EPS)^(-1/2), which is rms_norm; else both are 1.
// Layout: w [RLX_N, RLX_K] with rows RLX_W_LINE apart, each a whole number of aligned 16-byte pieces; x [RLX_M, RLX_K] with rows
//   RLX_X_LINE apart, aligned alike; y and residual dense; gamma, bias, bias2 vectors.
// Grid: RLX_GROUPS workgroups, one for each multiprocessor; each takes its share of neighbouring outputs.
// Workgroup: RLX_TEAMS teams of RLX_LANES threads multiply; one warp behind them copies. Rows of w come in stages of
//   RLX_STAGE_UNITS outputs per team, RLX_DEPTH of them in a ring in shared memory, filled before the steps that this one waits for
//   are complete; at most RLX_PACE are under way at a time, so that what other workgroups read at that moment (the next x above all)
//   does not queue up behind them. A team's threads have the same RLX_PIECES 16-byte pieces of all its rows, so x stays in registers.
//   A thread keeps the sums of RLX_BATCH stages; then they meet in shared memory, and after RLX_FLUSH batches become results.
// Specializations: the above; RLX_W_EARLY 1: w does not depend on earlier steps, so its first stages are loaded before the wait
//   for them; storage types RLX_X, RLX_W, RLX_Y, RLX_GAMMA, RLX_BIAS, RLX_BIAS2, RLX_RESIDUAL (undefined where absent);
//   RLX_ACTIVATION with generated/epilogue.inc, as in lib/product.inc.
// Numerics: f32 sums in a fixed order; the scale multiplies the sum; one rounding.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/stream.cuh"
#define RLX_ACC f32
#define RLX_INDEX rlx_i64
#if RLX_ACTIVATION
#include "lib/math.inc"
#define rlx_acc_t rlx_f32
#include "generated/epilogue.inc"
#else
#define rlx_activate(value) (value)
#endif

RLX_PARAMS(MatvecStreamParams);

#if RLX_GATED
#define RLX_PAIR 2
#else
#define RLX_PAIR 1
#endif
#define RLX_W_BYTES RLX_CAT(rlx_bytes_, RLX_W)
#define RLX_X_BYTES RLX_CAT(rlx_bytes_, RLX_X)
#define RLX_PIECE (16 / RLX_W_BYTES)                    // elements of a piece
#define RLX_ROW_PIECES (RLX_K / RLX_PIECE)              // pieces of a row
#define RLX_CONSUMERS (RLX_TEAMS * RLX_LANES)
#define RLX_STAGE_OUTPUTS (RLX_TEAMS * RLX_STAGE_UNITS)
#define RLX_ROW_BYTES (RLX_K * RLX_W_BYTES)
#define RLX_HALF_BYTES (RLX_STAGE_OUTPUTS * RLX_ROW_BYTES)  // of a stage: its rows of w, or those of w2
#define RLX_STAGE_BYTES (RLX_HALF_BYTES * RLX_PAIR)
#define RLX_STAGE_SUMS (RLX_STAGE_UNITS * RLX_PAIR * RLX_M)  // of one thread: [unit][pair][vector]
#define RLX_BATCH_SUMS (RLX_BATCH * RLX_STAGE_SUMS)
#define RLX_TEAM_WARPS (RLX_LANES / 32)
#define RLX_FLUSH_STAGES (RLX_FLUSH * RLX_BATCH)
#define RLX_FLUSH_UNITS (RLX_FLUSH_STAGES * RLX_STAGE_OUTPUTS)

static_assert(RLX_K % RLX_PIECE == 0 && RLX_PIECES * RLX_LANES >= RLX_ROW_PIECES, "pieces cover a row");
static_assert(RLX_BATCH_SUMS <= 32, "a lane keeps one sum of a batch");
static_assert(RLX_FLUSH_UNITS * RLX_M <= RLX_CONSUMERS, "a thread finishes one output at a time");
static_assert(RLX_BLOCK_SIZE == RLX_CONSUMERS + 32, "one warp copies");
static_assert(RLX_PACE <= RLX_DEPTH, "no more under way than the ring holds");

RLX_DYNAMIC_SHARED(RLX_DEPTH * RLX_STAGE_BYTES);

// Sums over a warp, of two flushes in turn: the next one's are written while this one's are read.
__shared__ float parts[2][RLX_FLUSH_UNITS * RLX_PAIR * RLX_M][RLX_TEAM_WARPS];
#if RLX_NORM
__shared__ float squares[RLX_M][RLX_TEAM_WARPS];
#endif
__shared__ rlx_u64 full[RLX_DEPTH];
__shared__ rlx_u64 empty[RLX_DEPTH];

// The outputs of this workgroup, and the stages that hold them.
struct Share {
  rlx_u32 begin;
  rlx_u32 end;
  rlx_u32 stages;
};
RLX_FN Share share_of(rlx_u32 group) {
  Share share;
  share.begin = rlx_u32(rlx_u64(group) * RLX_N / RLX_GROUPS);
  share.end = rlx_u32(rlx_u64(group + 1u) * RLX_N / RLX_GROUPS);
  share.stages = (share.end - share.begin + rlx_u32(RLX_STAGE_OUTPUTS - 1)) / rlx_u32(RLX_STAGE_OUTPUTS);
  return share;
}

RLX_FN rlx_u32 slot_of(rlx_u32 stage) { return stage % rlx_u32(RLX_DEPTH); }
// Number of the ring's turn that a stage belongs to, as its barriers count.
RLX_FN rlx_u32 turn_of(rlx_u32 stage) { return stage / rlx_u32(RLX_DEPTH) % 2u; }
RLX_FN rlx_u32 slot_address(rlx_u32 stage) { return rlx_shared_address(rlx_shared) + slot_of(stage) * rlx_u32(RLX_STAGE_BYTES); }

// ---- the copying warp ----

RLX_FN void copy_rows(rlx_ptr w, rlx_u32 first, rlx_u32 rows, rlx_u32 shared, rlx_u32 barrier, rlx_u32 lane) {
  const rlx_ptr from = w + rlx_u64(first) * rlx_u64(RLX_W_LINE * RLX_W_BYTES);
#if RLX_W_LINE == RLX_K
  rlx_stream_copy(shared, from, rows * rlx_u32(RLX_ROW_BYTES), barrier, lane);
#else
  for (rlx_u32 row = 0u; row < rows; ++row) {
    rlx_stream_copy(shared + row * rlx_u32(RLX_ROW_BYTES), from + rlx_u64(row) * rlx_u64(RLX_W_LINE * RLX_W_BYTES),
                    rlx_u32(RLX_ROW_BYTES), barrier, lane);
  }
#endif
}

RLX_FN void copy_stages(const RlxParams& p, Share share, rlx_u32 lane) {
  for (rlx_u32 stage = 0u; stage < share.stages; ++stage) {
    if (stage >= rlx_u32(RLX_PACE)) rlx_mbarrier_wait(rlx_shared_address(&full[slot_of(stage - rlx_u32(RLX_PACE))]), turn_of(stage - rlx_u32(RLX_PACE)));
    if (stage >= rlx_u32(RLX_DEPTH)) rlx_mbarrier_wait(rlx_shared_address(&empty[slot_of(stage)]), turn_of(stage) ^ 1u);
    const rlx_u32 first = share.begin + stage * rlx_u32(RLX_STAGE_OUTPUTS);
    const rlx_u32 rows = min(rlx_u32(RLX_STAGE_OUTPUTS), share.end - first);
    const rlx_u32 barrier = rlx_shared_address(&full[slot_of(stage)]);
    rlx_stream_announce(barrier, rows * rlx_u32(RLX_ROW_BYTES * RLX_PAIR), lane);
    copy_rows(p.w, first, rows, slot_address(stage), barrier, lane);
#if RLX_GATED
    copy_rows(p.w2, first, rows, slot_address(stage) + rlx_u32(RLX_HALF_BYTES), barrier, lane);
#endif
    rlx_stream_close(barrier);
  }
}

// ---- the multiplying teams ----

// The place of a multiplying thread.
struct Place {
  rlx_u32 team;
  rlx_u32 lane;  // of the team
};

// The consumers' barrier: the copying warp is not part of it.
RLX_FN void join_teams() { asm volatile("bar.sync 1, %0;" ::"n"(RLX_CONSUMERS) : "memory"); }

#define RLX_UNPACK_f16(word) rlx_unpack_f16x2(word)
#define RLX_UNPACK_bf16(word) rlx_unpack_bf16x2(word)
// The elements of a 16-byte piece of w.
RLX_FN void unpack_piece(const rlx_u32 (&words)[4], float (&values)[RLX_PIECE]) {
  RLX_UNROLL for (int i = 0; i < 4; ++i) {
#if RLX_W_BYTES == 4
    values[i] = __uint_as_float(words[i]);
#else
    const rlx_vec2 two = RLX_CAT(RLX_UNPACK_, RLX_W)(words[i]);
    values[2 * i] = two.x;
    values[2 * i + 1] = two.y;
#endif
  }
}

// Elements k to k + RLX_PIECE - 1 of a vector of x.
RLX_FN void load_x(rlx_ptr x, rlx_i64 at, float (&values)[RLX_PIECE]) {
#if RLX_X_BYTES == 2 && RLX_PIECE == 8
  const rlx_uvec4 raw = rlx_raw16(x, at * 2);
  const rlx_u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
  RLX_UNROLL for (int i = 0; i < 4; ++i) {
    const rlx_vec2 two = RLX_CAT(RLX_UNPACK_, RLX_X)(words[i]);
    values[2 * i] = two.x;
    values[2 * i + 1] = two.y;
  }
#else
  RLX_UNROLL for (int i = 0; i < RLX_PIECE; i += 4) {
    const rlx_vec4 four = RLX_CAT(rlx_load4_, RLX_X)(x, at + i);
    values[i] = four.x;
    values[i + 1] = four.y;
    values[i + 2] = four.z;
    values[i + 3] = four.w;
  }
#endif
}

// The least power of two that is not below `count`.
RLX_FN constexpr int padded(int count) { return count <= 1 ? 1 : 2 * padded((count + 1) / 2); }

// Adds each of kCount sums over the lanes at distances kDistance, kDistance / 2, .. 1. Lanes share out the sums, so that most
// shuffles move different ones: from distance 16 on, a lane receives that of number `owned_sum()` in sums[0]; lanes of equal number
// hold the same bits. A recursion, so that every index is known when the code is made.
template <int kCount, rlx_u32 kDistance>
RLX_FN void share_out_sums(float (&sums)[kCount], rlx_u32 lane) {
  if constexpr (kCount == 1) {
    sums[0] += __shfl_xor_sync(0xFFFFFFFFu, sums[0], kDistance);
    if constexpr (kDistance > 1u) share_out_sums<1, kDistance / 2u>(sums, lane);
  } else {
    constexpr int kHalf = kCount / 2;
    const bool upper = (lane & kDistance) != 0u;
    float kept[kHalf];
    RLX_UNROLL for (int i = 0; i < kHalf; ++i) {
      const float sent = upper ? sums[i] : sums[i + kHalf];
      kept[i] = (upper ? sums[i + kHalf] : sums[i]) + __shfl_xor_sync(0xFFFFFFFFu, sent, kDistance);
    }
    if constexpr (kDistance > 1u) share_out_sums<kHalf, kDistance / 2u>(kept, lane);
    sums[0] = kept[0];
  }
}
// Which sum a lane receives, or kCount where it is none, or another lane's too.
template <int kCount>
RLX_FN rlx_u32 owned_sum(rlx_u32 lane) {
  int count = padded(kCount);
  rlx_u32 owned = 0u;
  bool repeats = false;
  RLX_UNROLL for (rlx_u32 distance = 16u; distance > 0u; distance /= 2u) {
    const bool upper = (lane & distance) != 0u;
    if (count == 1) {
      repeats = repeats || upper;
      continue;
    }
    count /= 2;
    if (upper) owned += rlx_u32(count);
  }
  return repeats || owned >= rlx_u32(kCount) ? rlx_u32(kCount) : owned;
}

// Adds one stage of the ring times the thread's part of x to the sums from `first` on.
RLX_FN void multiply_stage(rlx_u32 slot, Place at, const float (&xs)[RLX_M][RLX_PIECES][RLX_PIECE],
                           float (&sums)[padded(RLX_BATCH_SUMS)], int first) {
  RLX_UNROLL for (int row = 0; row < RLX_STAGE_UNITS * RLX_PAIR; ++row) {
    const rlx_u32 unit = at.team * rlx_u32(RLX_STAGE_UNITS) + rlx_u32(row / RLX_PAIR);
    const rlx_u32 from = slot + unit * rlx_u32(RLX_ROW_BYTES) + rlx_u32(row % RLX_PAIR * RLX_HALF_BYTES) + at.lane * 16u;
    RLX_UNROLL for (int j = 0; j < RLX_PIECES; ++j) {
      rlx_u32 words[4] = {0u, 0u, 0u, 0u};
      float values[RLX_PIECE];
      const bool in_row = (j + 1) * RLX_LANES <= RLX_ROW_PIECES || rlx_u32(j * RLX_LANES) + at.lane < rlx_u32(RLX_ROW_PIECES);
      if (in_row) rlx_shared_load4(words, from + rlx_u32(j * RLX_LANES * 16));
      unpack_piece(words, values);
      RLX_UNROLL for (int i = 0; i < RLX_PIECE; ++i) {
        RLX_UNROLL for (int v = 0; v < RLX_M; ++v) sums[first + row * RLX_M + v] += xs[v][j][i] * values[i];
      }
    }
  }
}

// x, times gamma; the lane's sum of its squares goes to shared memory with its warp's others.
RLX_FN void prepare_x(const RlxParams& p, Place at, const float (&gamma)[RLX_PIECES][RLX_PIECE],
                      float (&xs)[RLX_M][RLX_PIECES][RLX_PIECE]) {
  RLX_UNROLL for (int v = 0; v < RLX_M; ++v) {
    float square = 0.0f;
    RLX_UNROLL for (int j = 0; j < RLX_PIECES; ++j) {
      const rlx_u32 piece = rlx_u32(j * RLX_LANES) + at.lane;
      RLX_UNROLL for (int i = 0; i < RLX_PIECE; ++i) xs[v][j][i] = 0.0f;
      if (piece < rlx_u32(RLX_ROW_PIECES)) load_x(p.x, rlx_i64(v) * RLX_X_LINE + rlx_i64(piece) * RLX_PIECE, xs[v][j]);
#if RLX_NORM
      RLX_UNROLL for (int i = 0; i < RLX_PIECE; ++i) {
        square += xs[v][j][i] * xs[v][j][i];
        xs[v][j][i] *= gamma[j][i];
      }
#endif
    }
#if RLX_NORM
    RLX_UNROLL for (rlx_u32 distance = 16u; distance > 0u; distance /= 2u) {
      square += __shfl_xor_sync(0xFFFFFFFFu, square, distance);
    }
    if (at.team == 0u && at.lane % 32u == 0u) squares[v][at.lane / 32u] = square;
#endif
  }
}

RLX_FN void load_gamma(const RlxParams& p, Place at, float (&gamma)[RLX_PIECES][RLX_PIECE]) {
#if RLX_NORM
  RLX_UNROLL for (int j = 0; j < RLX_PIECES; ++j) {
    const rlx_u32 piece = rlx_u32(j * RLX_LANES) + at.lane;
    RLX_UNROLL for (int i = 0; i < RLX_PIECE; ++i) {
      gamma[j][i] = 1.0f;
#ifdef RLX_GAMMA
      if (piece < rlx_u32(RLX_ROW_PIECES)) {
        gamma[j][i] = RLX_CAT(rlx_load_, RLX_GAMMA)(p.gamma, rlx_i64(piece) * RLX_PIECE + i);
      }
#endif
      gamma[j][i] += RLX_GAMMA_OFFSET;
    }
  }
#endif
}

// What the epilogue of one output adds; loaded before the sums are there.
struct Added {
  float bias = 0.0f;
  float bias2 = 0.0f;
  float residual = 0.0f;
};
RLX_FN Added load_added(const RlxParams& p, rlx_u32 v, rlx_u32 n) {
  Added added;
#ifdef RLX_BIAS
  added.bias = RLX_CAT(rlx_load_, RLX_BIAS)(p.bias, n);
#endif
#ifdef RLX_BIAS2
  added.bias2 = RLX_CAT(rlx_load_, RLX_BIAS2)(p.bias2, n);
#endif
#ifdef RLX_RESIDUAL
  added.residual = RLX_CAT(rlx_load_, RLX_RESIDUAL)(p.residual, rlx_i64(v) * RLX_N + n);
#endif
  return added;
}

// The sum of the team's warps in order.
RLX_FN float whole_sum(const float (&warps)[RLX_TEAM_WARPS]) {
  float total = warps[0];
  RLX_UNROLL for (int warp = 1; warp < RLX_TEAM_WARPS; ++warp) total += warps[warp];
  return total;
}

RLX_FN void finish_output(const RlxParams& p, rlx_u32 buffer, rlx_u32 unit, rlx_u32 v, rlx_u32 n, Added added) {
  float scale = 1.0f;
#if RLX_NORM
  scale = 1.0f / sqrtf(whole_sum(squares[v]) / float(RLX_K) + RLX_EPS);
#endif
  const rlx_u32 row = (unit * rlx_u32(RLX_PAIR)) * rlx_u32(RLX_M) + v;
  float value = rlx_activate(whole_sum(parts[buffer][row]) * scale + added.bias);
#if RLX_GATED
  value *= whole_sum(parts[buffer][row + rlx_u32(RLX_M)]) * scale + added.bias2;
#endif
  RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(v) * RLX_N + n, value + added.residual);
}

// The sums of the stages from `begin` on, up to RLX_FLUSH batches, into parts[buffer].
RLX_FN void multiply_batches(Share share, Place at, rlx_u32 begin, rlx_u32 own_sum, rlx_u32 buffer,
                             const float (&xs)[RLX_M][RLX_PIECES][RLX_PIECE]) {
  const rlx_u32 end = min(begin + rlx_u32(RLX_FLUSH_STAGES), share.stages);
  for (rlx_u32 first = begin; first < end; first += rlx_u32(RLX_BATCH)) {
    float sums[padded(RLX_BATCH_SUMS)];
    RLX_UNROLL for (int i = 0; i < padded(RLX_BATCH_SUMS); ++i) sums[i] = 0.0f;
    RLX_UNROLL for (int i = 0; i < RLX_BATCH; ++i) {
      const rlx_u32 stage = first + rlx_u32(i);
      if (stage < end) {
        rlx_mbarrier_wait(rlx_shared_address(&full[slot_of(stage)]), turn_of(stage));
        multiply_stage(slot_address(stage), at, xs, sums, i * RLX_STAGE_SUMS);
        __syncwarp();
        if (at.lane % 32u == 0u) rlx_mbarrier_arrive(rlx_shared_address(&empty[slot_of(stage)]));
      }
    }
    share_out_sums<padded(RLX_BATCH_SUMS), 16u>(sums, at.lane % 32u);
    if (own_sum < rlx_u32(RLX_BATCH_SUMS)) {
      const rlx_u32 stage = first - begin + own_sum / rlx_u32(RLX_STAGE_SUMS);
      const rlx_u32 row = (stage * rlx_u32(RLX_TEAMS) + at.team) * rlx_u32(RLX_STAGE_SUMS) + own_sum % rlx_u32(RLX_STAGE_SUMS);
      parts[buffer][row][at.lane / 32u] = sums[0];
    }
  }
}

RLX_FN void multiply_share(const RlxParams& p, Share share, rlx_u32 thread) {
  const Place at = {thread / rlx_u32(RLX_LANES), thread % rlx_u32(RLX_LANES)};
  float gamma[RLX_PIECES][RLX_PIECE];
#if RLX_W_EARLY
  load_gamma(p, at, gamma);
  rlx_wait_for_predecessors();
#else
  load_gamma(p, at, gamma);
#endif
  float xs[RLX_M][RLX_PIECES][RLX_PIECE];
  prepare_x(p, at, gamma, xs);
  const rlx_u32 own_sum = owned_sum<RLX_BATCH_SUMS>(thread % 32u);
  const rlx_u32 own_unit = thread % rlx_u32(RLX_FLUSH_UNITS);
  const rlx_u32 own_vector = thread / rlx_u32(RLX_FLUSH_UNITS);
  rlx_u32 buffer = 0u;
  for (rlx_u32 begin = 0u; begin < share.stages; begin += rlx_u32(RLX_FLUSH_STAGES)) {
    const rlx_u32 own_output = share.begin + begin * rlx_u32(RLX_STAGE_OUTPUTS) + own_unit;
    const bool finishes = own_vector < rlx_u32(RLX_M) && own_output < share.end;
    Added added;
    if (finishes) added = load_added(p, own_vector, own_output);
    multiply_batches(share, at, begin, own_sum, buffer, xs);
    join_teams();
    if (finishes) finish_output(p, buffer, own_unit, own_vector, own_output, added);
    buffer ^= 1u;
  }
}

RLX_MAIN_PREFETCH {
  const rlx_u32 thread = rlx_local_index;
  const Share share = share_of(rlx_group_x);
#if !RLX_W_EARLY
  rlx_wait_for_predecessors();
#endif
  if (thread < rlx_u32(RLX_DEPTH)) {
    rlx_mbarrier_init(rlx_shared_address(&full[thread]), RLX_STREAM_ARRIVALS);
    rlx_mbarrier_init(rlx_shared_address(&empty[thread]), rlx_u32(RLX_CONSUMERS / 32));
    rlx_fence_async_shared();
  }
  rlx_barrier();
  if (thread >= rlx_u32(RLX_CONSUMERS)) {
    copy_stages(p, share, thread - rlx_u32(RLX_CONSUMERS));
  } else {
    multiply_share(p, share, thread);
  }
}
