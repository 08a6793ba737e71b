// SPDX-License-Identifier: Apache-2.0
// A workgroup's tile of a product: panels of A (RLX_TILE_M lines) and B (RLX_TILE_N lines), RLX_TILE_K deep, staged in shared
// memory as [depth][line] in accumulator precision; every thread keeps RLX_THREAD_M x RLX_THREAD_N sums in registers.
//   Staging goes by blocks of 4 lines x 4 depths, so a panel that is contiguous along either axis is read four elements at a
//   time and written to shared memory as whole vectors, without bank conflicts.
//   RLX_DEPTH_GROUPS groups of threads hold the same tile and share out the depth; rlx_join_depth_groups adds their sums.
//   RLX_STAGES 2: the next panels are stored while the present ones are read.
// The twin of cuda_kernels/lib/tile.cuh.
#ifndef RLX_LIB_TILE_GLSL
#define RLX_LIB_TILE_GLSL

#include "lib/tile_place.glsl"

#define RLX_THREADS_M (RLX_TILE_M / RLX_THREAD_M)
#define RLX_THREADS_N (RLX_TILE_N / RLX_THREAD_N)
#define RLX_TILE_THREADS (RLX_THREADS_M * RLX_THREADS_N)
#define RLX_VECTORS_M (RLX_THREAD_M / 4)
#define RLX_VECTORS_N (RLX_THREAD_N / 4)
#define RLX_GROUP_DEPTH (RLX_TILE_K / RLX_DEPTH_GROUPS)

// Vectors per depth row, and per stage.
#define RLX_A_PITCH (RLX_TILE_M / 4)
#define RLX_B_PITCH (RLX_TILE_N / 4)
#define RLX_STAGE_VECTORS (RLX_TILE_K * (RLX_A_PITCH + RLX_B_PITCH))
#define RLX_JOIN_VECTORS ((RLX_DEPTH_GROUPS - 1) * RLX_TILE_M * RLX_TILE_N / 4)

#define RLX_A_BLOCKS (RLX_A_PITCH * RLX_TILE_K / 4)
#define RLX_B_BLOCKS (RLX_B_PITCH * RLX_TILE_K / 4)
#define RLX_BLOCK_LOADS ((RLX_A_BLOCKS + RLX_B_BLOCKS + RLX_BLOCK_SIZE - 1) / RLX_BLOCK_SIZE)

#if RLX_STAGES * RLX_STAGE_VECTORS > RLX_JOIN_VECTORS
RLX_SHARED rlx_acc4_t rlx_staged[RLX_STAGES * RLX_STAGE_VECTORS];
#else
RLX_SHARED rlx_acc4_t rlx_staged[RLX_JOIN_VECTORS];
#endif

// Where a block lies in its panel. Eight neighbouring threads take neighbouring lines: their stores fill whole bank rows, and
// together with the depths a warp reads whole memory sectors along either axis.
struct BlockPlace {
  rlx_u32 line4;   // first line / 4
  rlx_u32 depth4;  // first depth / 4
};
RLX_FN BlockPlace rlx_block_place(rlx_u32 block, rlx_u32 pitch) {
  const rlx_u32 together = min(pitch, 8u);
  const rlx_u32 depths = rlx_u32(RLX_TILE_K / 4);
  BlockPlace place;
  place.line4 = block % together + block / (together * depths) * together;
  place.depth4 = block / together % depths;
  return place;
}

// values[i]: depth i of lines 0..3.
RLX_FN void rlx_stage_block(rlx_u32 block, rlx_u32 stage, rlx_acc4_t values[4]) {
  rlx_u32 base = stage * rlx_u32(RLX_STAGE_VECTORS);
  rlx_u32 pitch = rlx_u32(RLX_A_PITCH);
  if (block >= rlx_u32(RLX_A_BLOCKS)) {
    block -= rlx_u32(RLX_A_BLOCKS);
    base += rlx_u32(RLX_TILE_K * RLX_A_PITCH);
    pitch = rlx_u32(RLX_B_PITCH);
  }
  const BlockPlace place = rlx_block_place(block, pitch);
  RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {
    rlx_staged[base + (place.depth4 * 4u + i) * pitch + place.line4] = values[i];
  }
}

// One element of a staged vector.
RLX_FN void rlx_stage_value(rlx_u32 vector, rlx_u32 component, rlx_acc_t value) { rlx_staged[vector][component] = value; }

// Turns four lines of four depths into four depths of four lines.
RLX_FN void rlx_transpose_block(inout rlx_acc4_t v[4]) {
  const rlx_acc4_t line0 = v[0];
  const rlx_acc4_t line1 = v[1];
  const rlx_acc4_t line2 = v[2];
  const rlx_acc4_t line3 = v[3];
  v[0] = rlx_acc4_t(line0.x, line1.x, line2.x, line3.x);
  v[1] = rlx_acc4_t(line0.y, line1.y, line2.y, line3.y);
  v[2] = rlx_acc4_t(line0.z, line1.z, line2.z, line3.z);
  v[3] = rlx_acc4_t(line0.w, line1.w, line2.w, line3.w);
}

// RLX_PANEL_LOADER defines load_panel(base, line, depth, depth_end, values) for a strided matrix: values[i] becomes depth
// `depth + i` of lines line..line+3, zero beyond the edges. `vector` is 1, LINE or DEPTH.
#define RLX_PANEL_LOADER(load_panel, dtype, lines, line_stride, depth_stride, vector)                        \
  RLX_FN void load_panel(rlx_ptr base, rlx_u32 line, rlx_u32 depth, rlx_u32 depth_end, inout rlx_acc4_t values[4]) {  \
    RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) values[i] = rlx_acc4_splat(0);                                 \
    const RLX_INDEX at = RLX_INDEX(line) * (line_stride) + RLX_INDEX(depth) * (depth_stride);                \
    RLX_CAT(RLX_PANEL_LOAD_, vector)(dtype, lines, line_stride, depth_stride)                                \
  }
// Element by element.
#define RLX_PANEL_LOAD_1(dtype, lines, line_stride, depth_stride)                                            \
  RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {                                                                \
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {                                                              \
      if (depth + i < depth_end && line + j < rlx_u32(lines)) {                                                 \
        values[i][j] = RLX_ELEMENT(dtype, base,                                                              \
                                   at + RLX_INDEX(j) * (line_stride) + RLX_INDEX(i) * (depth_stride));       \
      }                                                                                                      \
    }                                                                                                        \
  }
// Vectors along the lines: `lines` is a multiple of 4.
#define RLX_PANEL_LOAD_LINE(dtype, lines, line_stride, depth_stride)                                         \
  if (line < rlx_u32(lines)) {                                                                                  \
    RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {                                                              \
      if (depth + i < depth_end) values[i] = RLX_CAT(rlx_operand4_, dtype)(base, at + RLX_INDEX(i) * (depth_stride)); \
    }                                                                                                        \
  }
// Vectors along the depth: every range of depths is a multiple of 4.
#define RLX_PANEL_LOAD_DEPTH(dtype, lines, line_stride, depth_stride)                                        \
  if (depth < depth_end) {                                                                                   \
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {                                                              \
      if (line + j < rlx_u32(lines)) values[j] = RLX_CAT(rlx_operand4_, dtype)(base, at + RLX_INDEX(j) * (line_stride)); \
    }                                                                                                        \
  }                                                                                                          \
  rlx_transpose_block(values);

// Place of a thread in the tile: row and column of its first vector, and its depth group.
struct TileThread {
  rlx_u32 row;
  rlx_u32 column;
  rlx_u32 depth_group;
};
RLX_FN TileThread rlx_tile_thread(rlx_u32 thread) {
  TileThread place;
  place.depth_group = thread / rlx_u32(RLX_TILE_THREADS);
  thread %= rlx_u32(RLX_TILE_THREADS);
#if RLX_THREADS_N % 8 == 0 && RLX_THREADS_M % 4 == 0
  // 32 neighbours cover 4 x 8 vectors, so that their reads of shared memory touch few different vectors.
  const rlx_u32 bundle = thread / 32u;
  const rlx_u32 across = rlx_u32(RLX_THREADS_N / 8);
  place.row = bundle / across * 4u + thread % 32u / 8u;
  place.column = bundle % across * 8u + thread % 8u;
#else
  place.row = thread / rlx_u32(RLX_THREADS_N);
  place.column = thread % rlx_u32(RLX_THREADS_N);
#endif
  return place;
}

// Row of the tile held by acc[i][...], and first column held by acc[...][j].
#define RLX_TILE_ROW(place, i) ((rlx_u32((i) / 4) * rlx_u32(RLX_THREADS_M) + (place).row) * 4u + rlx_u32((i) % 4))
#define RLX_TILE_COLUMN(place, j) ((rlx_u32(j) * rlx_u32(RLX_THREADS_N) + (place).column) * 4u)

#define RLX_SUMS acc[RLX_THREAD_M][RLX_VECTORS_N]

// Adds the staged panels' products to the thread's sums. All depths in a row: as a loop of four at a time the driver (NVIDIA 580) loads
// before each four what they multiply, and waits.
RLX_FN void rlx_multiply_stage(rlx_u32 stage, TileThread place, inout rlx_acc4_t RLX_SUMS) {
  const rlx_u32 depth_first = place.depth_group * rlx_u32(RLX_GROUP_DEPTH);
  rlx_u32 a_at = stage * rlx_u32(RLX_STAGE_VECTORS) + depth_first * rlx_u32(RLX_A_PITCH) + place.row;
  rlx_u32 b_at = stage * rlx_u32(RLX_STAGE_VECTORS) + rlx_u32(RLX_TILE_K * RLX_A_PITCH) +
              depth_first * rlx_u32(RLX_B_PITCH) + place.column;
  RLX_UNROLL for (rlx_u32 depth = 0u; depth < rlx_u32(RLX_GROUP_DEPTH); depth += 4u) {
    RLX_UNROLL for (rlx_u32 step = 0u; step < 4u; ++step) {
      rlx_acc4_t a[RLX_VECTORS_M];
      rlx_acc4_t b[RLX_VECTORS_N];
      RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_VECTORS_M); ++i) {
        a[i] = rlx_staged[a_at + step * rlx_u32(RLX_A_PITCH) + i * rlx_u32(RLX_THREADS_M)];
      }
      RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) {
        b[j] = rlx_staged[b_at + step * rlx_u32(RLX_B_PITCH) + j * rlx_u32(RLX_THREADS_N)];
      }
      RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_THREAD_M); ++i) {
        RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) {
          acc[i][j] += rlx_acc4_splat(a[i / 4u][i % 4u]) * b[j];
        }
      }
    }
    a_at += 4u * rlx_u32(RLX_A_PITCH);
    b_at += 4u * rlx_u32(RLX_B_PITCH);
  }
}

// Adds the sums of all depth groups, in order, in the threads of group 0. All threads call it after their last stage.
RLX_FN void rlx_join_depth_groups(TileThread place, rlx_u32 thread, inout rlx_acc4_t RLX_SUMS) {
#if RLX_DEPTH_GROUPS > 1
  rlx_barrier();
  const rlx_u32 lane = thread % rlx_u32(RLX_TILE_THREADS);
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_THREAD_M); ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) {
      const rlx_u32 slot = (i * rlx_u32(RLX_VECTORS_N) + j) * rlx_u32(RLX_TILE_THREADS) + lane;
      if (place.depth_group > 0u) {
        rlx_staged[(place.depth_group - 1u) * rlx_u32(RLX_TILE_M * RLX_TILE_N / 4) + slot] = acc[i][j];
      }
    }
  }
  rlx_barrier();
  if (place.depth_group > 0u) return;
  RLX_UNROLL for (rlx_u32 group = 0u; group < rlx_u32(RLX_DEPTH_GROUPS - 1); ++group) {
    RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_THREAD_M); ++i) {
      RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) {
        const rlx_u32 slot = (i * rlx_u32(RLX_VECTORS_N) + j) * rlx_u32(RLX_TILE_THREADS) + lane;
        acc[i][j] += rlx_staged[group * rlx_u32(RLX_TILE_M * RLX_TILE_N / 4) + slot];
      }
    }
  }
#endif
}

#endif
