// SPDX-License-Identifier: Apache-2.0
// y = x * W + bias in tiles (lib/tile.cuh), W decoded on its way to shared memory (lib/weights.cuh): the body of dequant_matmul and
// grouped_matmul. Grid: tiles of m x tiles of n, spread by split_grid.
//   RLX_GROUPED 1: index names each row's expert. The rows of one expert, in their order, fill tiles of m. A group finds its own rows: it
//   counts all rows by expert, walks the experts' tiles up to its number, and lists them. Rows of no expert come last, as those of one
//   more expert, and give zeros. RLX_TILES_M is the most tiles that any index can need.
// Specializations: RLX_M, RLX_N, RLX_K; RLX_X storage type of x, RLX_X_VECTOR 4: four neighbours are an aligned load; grouped: RLX_I dtype
//   of the index, generated/experts.inc: RLX_EXPERTS, RLX_EXPERT_BYTES; epilogue of lib/product.cuh.
// Numerics: weights decoded and sums kept in RLX_ACC; one rounding at the store. The twin of shaders/lib/weighted_tile.glsl.
#ifndef RLX_LIB_WEIGHTED_TILE_CUH
#define RLX_LIB_WEIGHTED_TILE_CUH

#include "lib/tile.cuh"
#include "lib/weights.cuh"

#define RLX_TILES_N ((RLX_N + RLX_TILE_N - 1) / RLX_TILE_N)
#define RLX_NO_ROW 0xFFFFFFFFu

#if RLX_GROUPED
#include "lib/indexing.cuh"
#include "generated/experts.inc"

// tile_rows[line]: the row of x and y that this line of the tile is, or RLX_NO_ROW.
RLX_SHARED rlx_u32 tile_rows[RLX_TILE_M];
RLX_SHARED rlx_u32 thread_counts[RLX_BLOCK_SIZE];
RLX_SHARED rlx_u32 expert_rows[RLX_EXPERTS + 1];
#define RLX_ATOMIC_ADD(place, value) atomicAdd(&(place), value)

// The expert of row m; RLX_EXPERTS where it has none.
RLX_FN rlx_u32 expert_of(rlx_ptr index, rlx_u32 m) {
  const rlx_i64 expert = RLX_CAT(rlx_index_from_, RLX_I)(RLX_CAT(rlx_load_, RLX_I)(index, rlx_i64(m)));
  return expert < rlx_i64(0) || expert >= RLX_EXPERTS ? rlx_u32(RLX_EXPERTS) : rlx_u32(expert);
}

// Rows of an expert among those of this thread: a contiguous share.
#define RLX_THREAD_ROWS ((RLX_M + RLX_BLOCK_SIZE - 1) / RLX_BLOCK_SIZE)

// The sum of the values of the threads before this one.
RLX_FN rlx_u32 sum_before(rlx_u32 own) {
  rlx_barrier();
  thread_counts[rlx_local_index] = own;
  rlx_barrier();
  for (rlx_u32 distance = 1u; distance < rlx_u32(RLX_BLOCK_SIZE); distance *= 2u) {
    const rlx_u32 lower = rlx_local_index >= distance ? thread_counts[rlx_local_index - distance] : 0u;
    rlx_barrier();
    thread_counts[rlx_local_index] += lower;
    rlx_barrier();
  }
  return thread_counts[rlx_local_index] - own;
}

// Fills tile_rows for tile `tile` of all experts' and gives its expert; RLX_EXPERTS + 1 where there are not so many tiles.
RLX_FN rlx_u32 find_rows(rlx_ptr index, rlx_u32 tile) {
  for (rlx_u32 i = rlx_local_index; i < rlx_u32(RLX_TILE_M); i += rlx_u32(RLX_BLOCK_SIZE)) tile_rows[i] = RLX_NO_ROW;
  for (rlx_u32 i = rlx_local_index; i <= rlx_u32(RLX_EXPERTS); i += rlx_u32(RLX_BLOCK_SIZE)) expert_rows[i] = 0u;
  rlx_barrier();
  for (rlx_u32 m = rlx_local_index; m < rlx_u32(RLX_M); m += rlx_u32(RLX_BLOCK_SIZE)) {
    RLX_ATOMIC_ADD(expert_rows[expert_of(index, m)], 1u);
  }
  rlx_barrier();
  rlx_u32 expert = 0u;
  rlx_u32 first_tile = 0u;
  for (; expert <= rlx_u32(RLX_EXPERTS); ++expert) {
    const rlx_u32 tiles = (expert_rows[expert] + rlx_u32(RLX_TILE_M - 1)) / rlx_u32(RLX_TILE_M);
    if (tile < first_tile + tiles) break;
    first_tile += tiles;
  }
  if (expert > rlx_u32(RLX_EXPERTS)) return expert;
  const rlx_u32 begin = min(rlx_local_index * rlx_u32(RLX_THREAD_ROWS), rlx_u32(RLX_M));
  const rlx_u32 end = min(begin + rlx_u32(RLX_THREAD_ROWS), rlx_u32(RLX_M));
  rlx_u32 own = 0u;
  for (rlx_u32 m = begin; m < end; ++m) own += expert_of(index, m) == expert ? 1u : 0u;
  const rlx_u32 first = (tile - first_tile) * rlx_u32(RLX_TILE_M);
  rlx_u32 rank = sum_before(own);
  for (rlx_u32 m = begin; m < end; ++m) {
    if (expert_of(index, m) == expert) {
      if (rank >= first && rank < first + rlx_u32(RLX_TILE_M)) tile_rows[rank - first] = m;
      ++rank;
    }
  }
  rlx_barrier();
  return expert;
}
#define RLX_ROW(tile, line) tile_rows[line]
#else
RLX_FN rlx_u32 row_of(TilePlace tile, rlx_u32 line) {
  const rlx_u32 m = tile.m * rlx_u32(RLX_TILE_M) + line;
  return m < rlx_u32(RLX_M) ? m : RLX_NO_ROW;
}
#define RLX_ROW(tile, line) row_of(tile, line)
#endif

#define RLX_X_LOADS ((RLX_A_BLOCKS + RLX_BLOCK_SIZE - 1) / RLX_BLOCK_SIZE)
#define RLX_W_RUNS (RLX_TILE_N * RLX_TILE_K / 8)
#define RLX_W_LOADS ((RLX_W_RUNS + RLX_BLOCK_SIZE - 1) / RLX_BLOCK_SIZE)

// Blocks of 4 lines x 4 depths of x.
RLX_FN void load_x(rlx_ptr x, TilePlace tile, rlx_u32 depth, rlx_acc4_t (&next)[RLX_X_LOADS][4]) {
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_X_LOADS); ++load) {
    const rlx_u32 block = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) next[load][j] = rlx_acc4_splat(0);
    if (block < rlx_u32(RLX_A_BLOCKS)) {
      const BlockPlace place = rlx_block_place(block, rlx_u32(RLX_A_PITCH));
      const rlx_u32 k = depth + place.depth4 * 4u;
      RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {
        const rlx_u32 row = RLX_ROW(tile, place.line4 * 4u + j);
        const rlx_i64 at = rlx_i64(row) * rlx_i64(RLX_K) + rlx_i64(k);
        rlx_acc4_t value = rlx_acc4_splat(0);
        if (row != RLX_NO_ROW) {
#if RLX_X_VECTOR == 4
          if (k < rlx_u32(RLX_K)) value = RLX_CAT(rlx_load4_, RLX_X)(x, at);
#else
          RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {
            if (k + i < rlx_u32(RLX_K)) value[i] = RLX_ELEMENT(RLX_X, x, at + rlx_i64(i));
          }
#endif
        }
        next[load][j] = value;
      }
      rlx_transpose_block(next[load]);
    }
  }
}
RLX_FN void stage_x(rlx_u32 stage, rlx_acc4_t next[RLX_X_LOADS][4]) {
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_X_LOADS); ++load) {
    const rlx_u32 block = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    if (block < rlx_u32(RLX_A_BLOCKS)) rlx_stage_block(block, stage, next[load]);
  }
}

// Runs of 8 depths of a line, or of 8 lines of a depth. Neighbouring threads stage neighbouring lines.
RLX_FN void load_w(Weights from, TilePlace tile, rlx_u32 depth, rlx_acc_t (&next)[RLX_W_LOADS][8]) {
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_W_LOADS); ++load) {
    const rlx_u32 run = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    if (run < rlx_u32(RLX_W_RUNS)) {
#if RLX_W_ALONG_DEPTH
      const rlx_u32 k = depth + run / rlx_u32(RLX_TILE_N) * 8u;
      rlx_depths8(from, k, tile.n * rlx_u32(RLX_TILE_N) + run % rlx_u32(RLX_TILE_N), next[load]);
#else
      const rlx_u32 n = tile.n * rlx_u32(RLX_TILE_N) + run % rlx_u32(RLX_TILE_N / 8) * 8u;
      rlx_columns8(from, depth + run / rlx_u32(RLX_TILE_N / 8), n, next[load]);
#endif
    }
  }
}
RLX_FN void stage_w(rlx_u32 stage, rlx_acc_t next[RLX_W_LOADS][8]) {
  const rlx_u32 base = stage * rlx_u32(RLX_STAGE_VECTORS) + rlx_u32(RLX_TILE_K * RLX_A_PITCH);
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_W_LOADS); ++load) {
    const rlx_u32 run = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    if (run < rlx_u32(RLX_W_RUNS)) {
#if RLX_W_ALONG_DEPTH
      const rlx_u32 line = run % rlx_u32(RLX_TILE_N);
      const rlx_u32 depth = run / rlx_u32(RLX_TILE_N) * 8u;
      RLX_UNROLL for (rlx_u32 i = 0u; i < 8u; ++i) {
        rlx_stage_value(base + (depth + i) * rlx_u32(RLX_B_PITCH) + line / 4u, line % 4u, next[load][i]);
      }
#else
      const rlx_u32 at = base + run / rlx_u32(RLX_TILE_N / 8) * rlx_u32(RLX_B_PITCH) + run % rlx_u32(RLX_TILE_N / 8) * 2u;
      rlx_staged[at] = rlx_acc4_t(next[load][0], next[load][1], next[load][2], next[load][3]);
      rlx_staged[at + 1u] = rlx_acc4_t(next[load][4], next[load][5], next[load][6], next[load][7]);
#endif
    }
  }
}

RLX_FN void store_row(rlx_ptr y, rlx_ptr bias, rlx_u32 row, rlx_u32 column, rlx_acc4_t sums, bool is_zero) {
  RLX_UNROLL for (rlx_u32 c = 0u; c < 4u; ++c) {
    if (column + c < rlx_u32(RLX_N)) {
      const rlx_acc_t value = rlx_finish(sums[c], bias, rlx_ptr(0), RLX_INDEX(row), RLX_INDEX(column + c));
      RLX_CAT(rlx_store_, RLX_Y)(y, rlx_i64(row) * rlx_i64(RLX_N) + rlx_i64(column + c), is_zero ? rlx_acc_t(0) : value);
    }
  }
}

RLX_MAIN {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_TILES_M) * rlx_u32(RLX_TILES_N)) return;
  TilePlace tile = rlx_tile_place(group, rlx_u32(RLX_TILES_M), rlx_u32(RLX_TILES_N));
  Weights from;
  from.w = p.w;
  from.scale = p.scale;
  from.zero = p.zero;
  rlx_ptr bias = p.bias;
  bool is_zero = false;
#if RLX_GROUPED
  const rlx_u32 expert = find_rows(p.index, tile.m);
  RLX_COUNT_OUTSIDE(group == 0u && rlx_local_index == 0u ? expert_rows[RLX_EXPERTS] : 0u);
  if (expert > rlx_u32(RLX_EXPERTS)) return;
  is_zero = expert == rlx_u32(RLX_EXPERTS);
  const rlx_i64 matrix = is_zero ? rlx_i64(0) : rlx_i64(expert);
  from.w += rlx_ptr(matrix * RLX_EXPERT_BYTES);
#ifdef RLX_BIAS
  bias = RLX_AT(p.bias, matrix * rlx_i64(RLX_N), RLX_CAT(rlx_bytes_, RLX_BIAS));
#endif
#endif
  const TileThread place = rlx_tile_thread(rlx_local_index);
  const rlx_u32 steps = is_zero ? 0u : rlx_u32((RLX_K + RLX_TILE_K - 1) / RLX_TILE_K);

  // Multiply: what the next step stages travels to registers while the present panels are used.
  rlx_acc4_t RLX_SUMS;
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_THREAD_M); ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) acc[i][j] = rlx_acc4_splat(0);
  }
  rlx_acc4_t next_x[RLX_X_LOADS][4];
  rlx_acc_t next_w[RLX_W_LOADS][8];
  if (steps > 0u) {
    load_x(p.x, tile, 0u, next_x);
    load_w(from, tile, 0u, next_w);
    stage_x(0u, next_x);
    stage_w(0u, next_w);
  }
  rlx_barrier();
  for (rlx_u32 step = 0u; step < steps; ++step) {
    const rlx_u32 stage = step % rlx_u32(RLX_STAGES);
    const bool more = step + 1u < steps;
    if (more) {
      load_x(p.x, tile, (step + 1u) * rlx_u32(RLX_TILE_K), next_x);
      load_w(from, tile, (step + 1u) * rlx_u32(RLX_TILE_K), next_w);
    }
    rlx_multiply_stage(stage, place, acc);
#if RLX_STAGES == 1
    rlx_barrier();
#endif
    if (more) {
      stage_x((step + 1u) % rlx_u32(RLX_STAGES), next_x);
      stage_w((step + 1u) % rlx_u32(RLX_STAGES), next_w);
    }
    rlx_barrier();
  }
  rlx_join_depth_groups(place, rlx_local_index, acc);
  if (place.depth_group > 0u) return;

  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_THREAD_M); ++i) {
    const rlx_u32 row = RLX_ROW(tile, RLX_TILE_ROW(place, i));
    if (row != RLX_NO_ROW) {
      RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) {
        store_row(p.y, bias, row, tile.n * rlx_u32(RLX_TILE_N) + RLX_TILE_COLUMN(place, j), acc[i][j], is_zero);
      }
    }
  }
}

#endif
