// SPDX-License-Identifier: Apache-2.0
// y[n, co, o] = bias[co] + sum over c of the group and taps t, places i with i * stride + t * dilation - begin = o, of x[n, c, i] *
//   w[c, co, t]: a transposed convolution, each output gathered once. Outputs of one residue o mod stride (a phase) take the same taps:
//   a phase is an implicit matrix product of weights [Co/g, K] with columns gathered while they are staged, K = C/g * taps of the
//   phase. Spatial dims are D, H, W; those that the op lacks have size 1.
// Layout: w [C, Co/g, D, H, W] and y [N, Co, D, H, W] dense; x has any strides.
// Grid: phases x groups x tiles of (Co/g) x (N * places) workgroups, spread by split_grid; a phase has ceil(out / stride) places.
// Specializations: tile shape (lib/tile.cuh), epilogue (lib/product.cuh); RLX_GROUPS, RLX_GROUP_IN (C/g), RLX_GROUP_OUT (Co/g),
//   RLX_IMAGES; window as in conv_window.h, RLX_BEGIN_* may be negative; RLX_TAP_STEP_D, _H, _W = stride / gcd(stride, dilation): from a
//   tap of a phase to its next; RLX_TAP_MOVE_D, _H, _W = dilation / gcd: so far back in x; RLX_PLACES_D, _H, _W; storage types RLX_X,
//   RLX_W; strides RLX_X_N, RLX_X_C, RLX_X_D, RLX_X_H, RLX_X_W.
// Numerics: f32, f16 and bf16 accumulate in f32, f64 in f64; one rounding at the store. Places beyond the edges of x take part as zeros, so
//   a weight that is NaN or infinite is staged as a tiny number of its sign, and its true terms are added to y where x is.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/scalar.cuh"
#include "lib/product.cuh"
#include "lib/tile.cuh"

RLX_PARAMS(ConvParams);

#define RLX_TAPS (RLX_KERNEL_D * RLX_KERNEL_H * RLX_KERNEL_W)
#define RLX_PLACES (RLX_PLACES_D * RLX_PLACES_H * RLX_PLACES_W)
#define RLX_PIXELS (RLX_OUT_D * RLX_OUT_H * RLX_OUT_W)
#define RLX_COLUMNS (RLX_IMAGES * RLX_PLACES)
#define RLX_PHASES (RLX_STRIDE_D * RLX_STRIDE_H * RLX_STRIDE_W)
#define RLX_TILES_M ((RLX_GROUP_OUT + RLX_TILE_M - 1) / RLX_TILE_M)
#define RLX_TILES_N ((RLX_COLUMNS + RLX_TILE_N - 1) / RLX_TILE_N)
#define RLX_TILES (RLX_TILES_M * RLX_TILES_N)

// NaN or infinite.
RLX_FN bool is_odd(rlx_acc_t weight) { return rlx_is_nan(weight) || rlx_is_inf(weight); }

// One dim of a phase: outputs place * stride + residue take the taps first, first + step, ..; tap j reads x at place + base - j * move.
struct PhaseDim {
  int residue;
  int first;
  int count;
  int base;
};
RLX_FN PhaseDim phase_dim(int residue, int kernel, int stride, int begin, int dilation, int step) {
  PhaseDim dim;
  dim.residue = residue;
  dim.first = 0;
  // residue + begin - first * dilation modulo stride, over numbers that are not negative.
  const int back = stride - dilation % stride;
  while (dim.first < step && (residue + begin + dim.first * back) % stride != 0) ++dim.first;
  dim.count = dim.first < min(step, kernel) ? (kernel - dim.first + step - 1) / step : 0;
  dim.base = (residue + begin - dim.first * dilation) / stride;
  return dim;
}
struct Phase {
  PhaseDim d;
  PhaseDim h;
  PhaseDim w;
  rlx_u32 taps;
};

// The place of a column; `offset` is that of its image.
struct Column {
  RLX_INDEX offset;
  int d;
  int h;
  int w;
  bool inside;
};
RLX_FN Column column_of(rlx_u32 column) {
  const rlx_u32 at = column % rlx_u32(RLX_PLACES);
  Column place;
  place.inside = column < rlx_u32(RLX_COLUMNS);
  place.offset = RLX_INDEX(column / rlx_u32(RLX_PLACES)) * RLX_INDEX(RLX_X_N);
  place.d = int(at / rlx_u32(RLX_PLACES_H * RLX_PLACES_W));
  place.h = int(at / rlx_u32(RLX_PLACES_W) % rlx_u32(RLX_PLACES_H));
  place.w = int(at % rlx_u32(RLX_PLACES_W));
  return place;
}

// What depth `k` stands for: a channel and a tap of the phase. `w_at` is the weight of the first co; d, h, w: where x is read,
// from the column's place.
struct Depth {
  RLX_INDEX w_at;
  RLX_INDEX x_at;
  int d;
  int h;
  int w;
  bool inside;
};
RLX_FN Depth depth_of(rlx_u32 k, Phase phase) {
  const rlx_u32 channel = k / phase.taps;
  const rlx_u32 tap = k - channel * phase.taps;
  const rlx_u32 row = tap / rlx_u32(phase.w.count);
  const int tap_w = int(tap - row * rlx_u32(phase.w.count));
  const int tap_d = int(row / rlx_u32(phase.h.count));
  const int tap_h = int(row - rlx_u32(tap_d) * rlx_u32(phase.h.count));
  const int kernel_d = phase.d.first + tap_d * RLX_TAP_STEP_D;
  const int kernel_h = phase.h.first + tap_h * RLX_TAP_STEP_H;
  const int kernel_w = phase.w.first + tap_w * RLX_TAP_STEP_W;
  Depth depth;
  depth.inside = channel < rlx_u32(RLX_GROUP_IN);
  depth.w_at = RLX_INDEX(channel) * RLX_INDEX(RLX_GROUP_OUT) * RLX_INDEX(RLX_TAPS) +
               RLX_INDEX((kernel_d * RLX_KERNEL_H + kernel_h) * RLX_KERNEL_W + kernel_w);
  depth.x_at = RLX_INDEX(channel) * RLX_INDEX(RLX_X_C);
  depth.d = phase.d.base - tap_d * RLX_TAP_MOVE_D;
  depth.h = phase.h.base - tap_h * RLX_TAP_MOVE_H;
  depth.w = phase.w.base - tap_w * RLX_TAP_MOVE_W;
  return depth;
}

RLX_FN rlx_acc_t weight_at(rlx_ptr w, Depth depth, rlx_u32 co) {
  if (!depth.inside || co >= rlx_u32(RLX_GROUP_OUT)) return rlx_acc_t(0);
  return RLX_ELEMENT(RLX_W, w, depth.w_at + RLX_INDEX(co) * RLX_INDEX(RLX_TAPS));
}
RLX_FN rlx_acc_t staged_weight(rlx_acc_t weight) {
  return is_odd(weight) ? rlx_copysign(rlx_acc_t(rlx_from_bits(0x0D800000u)), weight) : weight;  // 2^-100
}

RLX_FN bool reads_x(Depth depth, Column column) {
  const int d = column.d + depth.d;
  const int h = column.h + depth.h;
  const int w = column.w + depth.w;
  const bool in_image = rlx_u32(d) < rlx_u32(RLX_IN_D) && rlx_u32(h) < rlx_u32(RLX_IN_H) && rlx_u32(w) < rlx_u32(RLX_IN_W);
  return column.inside && depth.inside && in_image;
}
RLX_FN rlx_acc_t pixel_at(rlx_ptr x, Depth depth, Column column) {
  if (!reads_x(depth, column)) return rlx_acc_t(0);
  const int d = column.d + depth.d;
  const int h = column.h + depth.h;
  const int w = column.w + depth.w;
  const RLX_INDEX at = column.offset + depth.x_at + RLX_INDEX(d) * RLX_INDEX(RLX_X_D) + RLX_INDEX(h) * RLX_INDEX(RLX_X_H) +
                       RLX_INDEX(w) * RLX_INDEX(RLX_X_W);
  return RLX_ELEMENT(RLX_X, x, at);
}

// What the weights that are NaN or infinite add to an output: 0 where none reaches it, else no finite number.
RLX_FN rlx_acc_t odd_terms(rlx_ptr w, rlx_ptr x, Phase phase, Column column, rlx_u32 co) {
  rlx_acc_t sum = rlx_acc_t(0);
  for (rlx_u32 k = 0u; k < rlx_u32(RLX_GROUP_IN) * phase.taps; ++k) {
    const Depth depth = depth_of(k, phase);
    const rlx_acc_t weight = weight_at(w, depth, co);
    if (is_odd(weight) && reads_x(depth, column)) sum += weight * pixel_at(x, depth, column);
  }
  return sum;
}

// The output of a column and the group's first channel. `inside`: there is one.
struct Output {
  rlx_i64 at;
  bool inside;
};
RLX_FN Output output_of(rlx_u32 at, Column column, Phase phase, rlx_u32 group) {
  const int d = column.d * RLX_STRIDE_D + phase.d.residue;
  const int h = column.h * RLX_STRIDE_H + phase.h.residue;
  const int w = column.w * RLX_STRIDE_W + phase.w.residue;
  const rlx_i64 image = rlx_i64(at / rlx_u32(RLX_PLACES));
  const rlx_i64 plane = (image * rlx_i64(RLX_GROUPS) + rlx_i64(group)) * rlx_i64(RLX_GROUP_OUT);
  const rlx_i64 pixel = (rlx_i64(d) * rlx_i64(RLX_OUT_H) + rlx_i64(h)) * rlx_i64(RLX_OUT_W) + rlx_i64(w);
  Output result;
  result.at = plane * rlx_i64(RLX_PIXELS) + pixel;
  result.inside = column.inside && d < RLX_OUT_D && h < RLX_OUT_H && w < RLX_OUT_W;
  return result;
}

// The blocks of the panels at `depth` that this thread stages; columns[load] are those of its block. True where a weight is odd.
RLX_FN bool load_blocks(rlx_ptr w, rlx_ptr x, Phase phase, Column columns[RLX_BLOCK_LOADS][4], rlx_u32 tile_m, rlx_u32 depth,
                        rlx_acc4_t next[RLX_BLOCK_LOADS][4]) {
  bool odd = false;
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_BLOCK_LOADS); ++load) {
    const rlx_u32 block = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    if (block < rlx_u32(RLX_A_BLOCKS)) {
      const BlockPlace place = rlx_block_place(block, rlx_u32(RLX_A_PITCH));
      RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {
        const Depth line = depth_of(depth + place.depth4 * 4u + i, phase);
        RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {
          const rlx_acc_t weight = weight_at(w, line, tile_m * rlx_u32(RLX_TILE_M) + place.line4 * 4u + j);
          odd = odd || is_odd(weight);
          next[load][i][j] = staged_weight(weight);
        }
      }
    } else if (block < rlx_u32(RLX_A_BLOCKS + RLX_B_BLOCKS)) {
      const BlockPlace place = rlx_block_place(block - rlx_u32(RLX_A_BLOCKS), rlx_u32(RLX_B_PITCH));
      RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {
        const Depth line = depth_of(depth + place.depth4 * 4u + i, phase);
        RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) next[load][i][j] = pixel_at(x, line, columns[load][j]);
      }
    }
  }
  return odd;
}

RLX_FN void stage_blocks(rlx_u32 stage, rlx_acc4_t next[RLX_BLOCK_LOADS][4]) {
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_BLOCK_LOADS); ++load) {
    const rlx_u32 block = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    if (block < rlx_u32(RLX_A_BLOCKS + RLX_B_BLOCKS)) rlx_stage_block(block, stage, next[load]);
  }
}

RLX_MAIN {
  const rlx_u32 linear = rlx_u32(rlx_linear_group);
  if (linear >= rlx_u32(RLX_TILES) * rlx_u32(RLX_GROUPS) * rlx_u32(RLX_PHASES)) return;
  const TilePlace tile = rlx_tile_place(linear % rlx_u32(RLX_TILES), rlx_u32(RLX_TILES_M), rlx_u32(RLX_TILES_N));
  const rlx_u32 group = linear / rlx_u32(RLX_TILES) % rlx_u32(RLX_GROUPS);
  const int residue = int(linear / rlx_u32(RLX_TILES) / rlx_u32(RLX_GROUPS));
  Phase phase;
  phase.d = phase_dim(residue / (RLX_STRIDE_H * RLX_STRIDE_W), RLX_KERNEL_D, RLX_STRIDE_D, RLX_BEGIN_D, RLX_DILATION_D, RLX_TAP_STEP_D);
  phase.h = phase_dim(residue / RLX_STRIDE_W % RLX_STRIDE_H, RLX_KERNEL_H, RLX_STRIDE_H, RLX_BEGIN_H, RLX_DILATION_H, RLX_TAP_STEP_H);
  phase.w = phase_dim(residue % RLX_STRIDE_W, RLX_KERNEL_W, RLX_STRIDE_W, RLX_BEGIN_W, RLX_DILATION_W, RLX_TAP_STEP_W);
  phase.taps = rlx_u32(phase.d.count) * rlx_u32(phase.h.count) * rlx_u32(phase.w.count);
  const rlx_ptr w = RLX_AT(p.w, rlx_i64(group) * rlx_i64(RLX_GROUP_IN) * rlx_i64(RLX_GROUP_OUT) * rlx_i64(RLX_TAPS),
                           RLX_CAT(rlx_bytes_, RLX_W));
  const rlx_ptr x = RLX_AT(p.x, rlx_i64(group) * rlx_i64(RLX_GROUP_IN) * rlx_i64(RLX_X_C), RLX_CAT(rlx_bytes_, RLX_X));
  const TileThread place = rlx_tile_thread(rlx_local_index);
  // A phase without taps has no depth: its outputs are the bias.
  const rlx_u32 steps = (rlx_u32(RLX_GROUP_IN) * phase.taps + rlx_u32(RLX_TILE_K - 1)) / rlx_u32(RLX_TILE_K);

  Column columns[RLX_BLOCK_LOADS][4];
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_BLOCK_LOADS); ++load) {
    const rlx_u32 block = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    const rlx_u32 first = tile.n * rlx_u32(RLX_TILE_N) +
                       rlx_block_place(block < rlx_u32(RLX_A_BLOCKS) ? 0u : block - rlx_u32(RLX_A_BLOCKS), rlx_u32(RLX_B_PITCH)).line4 * 4u;
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) columns[load][j] = column_of(first + j);
  }

  // Multiply: the panels of the next step travel to registers while the present ones are used.
  rlx_acc4_t RLX_SUMS;
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_THREAD_M); ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) acc[i][j] = rlx_acc4_splat(0);
  }
  rlx_acc4_t next[RLX_BLOCK_LOADS][4];
  bool odd = false;
  if (steps > 0u) {
    odd = load_blocks(w, x, phase, columns, tile.m, 0u, next);
    stage_blocks(0u, next);
  }
  rlx_barrier();
  for (rlx_u32 step = 0u; step < steps; ++step) {
    const rlx_u32 stage = step % rlx_u32(RLX_STAGES);
    const bool more = step + 1u < steps;
    if (more && load_blocks(w, x, phase, columns, tile.m, (step + 1u) * rlx_u32(RLX_TILE_K), next)) odd = true;
    rlx_multiply_stage(stage, place, acc);
#if RLX_STAGES == 1
    rlx_barrier();
#endif
    if (more) stage_blocks((step + 1u) % rlx_u32(RLX_STAGES), next);
    rlx_barrier();
  }
  // Whether any thread has seen an odd weight, told in the panels, which are not read any more.
  if (rlx_local_index == 0u) rlx_stage_value(0u, 0u, rlx_acc_t(0));
  rlx_barrier();
  if (odd) rlx_stage_value(0u, 0u, rlx_acc_t(1));
  rlx_barrier();
  const bool adds_odd_terms = rlx_staged[0][0] != rlx_acc_t(0);
  rlx_join_depth_groups(place, rlx_local_index, acc);
  if (place.depth_group > 0u) return;

  // Store.
#ifdef RLX_BIAS
  const rlx_ptr bias = RLX_AT(p.bias, rlx_i64(group) * rlx_i64(RLX_GROUP_OUT) * rlx_i64(RLX_BIAS_M), RLX_CAT(rlx_bytes_, RLX_BIAS));
#else
  const rlx_ptr bias = 0;
#endif
  const rlx_ptr residual = 0;
  RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS_N); ++j) {
    RLX_UNROLL for (rlx_u32 c = 0u; c < 4u; ++c) {
      const rlx_u32 at = tile.n * rlx_u32(RLX_TILE_N) + RLX_TILE_COLUMN(place, j) + c;
      const Output result = output_of(at, column_of(at), phase, group);
      if (result.inside) {
        RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_THREAD_M); ++i) {
          const rlx_u32 co = tile.m * rlx_u32(RLX_TILE_M) + RLX_TILE_ROW(place, i);
          if (co < rlx_u32(RLX_GROUP_OUT)) {
            RLX_CAT(rlx_store_, RLX_Y)(p.y, result.at + rlx_i64(co) * rlx_i64(RLX_PIXELS),
                                       rlx_finish(acc[i][j][c], bias, residual, RLX_INDEX(co), RLX_INDEX(0)));
          }
        }
      }
    }
  }
  if (!adds_odd_terms) return;
  RLX_LOOP for (rlx_u32 n = 0u; n < rlx_u32(RLX_THREAD_M * RLX_THREAD_N); ++n) {
    const rlx_u32 j = n % rlx_u32(RLX_THREAD_N);
    const rlx_u32 i = n / rlx_u32(RLX_THREAD_N);
    const rlx_u32 at = tile.n * rlx_u32(RLX_TILE_N) + RLX_TILE_COLUMN(place, j / 4u) + j % 4u;
    const rlx_u32 co = tile.m * rlx_u32(RLX_TILE_M) + RLX_TILE_ROW(place, i);
    const Column column = column_of(at);
    const Output result = output_of(at, column, phase, group);
    if (!result.inside || co >= rlx_u32(RLX_GROUP_OUT)) continue;
    const rlx_acc_t odd = odd_terms(w, x, phase, column, co);
    const rlx_i64 y_at = result.at + rlx_i64(co) * rlx_i64(RLX_PIXELS);
    if (is_odd(odd)) RLX_CAT(rlx_store_, RLX_Y)(p.y, y_at, RLX_ELEMENT(RLX_Y, p.y, y_at) + odd);
  }
}
