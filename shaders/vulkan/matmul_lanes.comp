// SPDX-License-Identifier: Apache-2.0
// y[m, n] = act(sum over k of a[m, k] * b[k, n] + bias[m, n]) + residual[m, n], for every batch entry: by tiles that eight lanes keep in
// registers, for drivers that run subgroups as vectors of a CPU, where a load costs as much as tens of multiplications and a barrier more.
// Layout: as in matmul.kernel. RLX_WINDOWS 1 or 2: the lines of a are the windows of images [images, C, H, W], their depths taps (h, w), each
//   with all channels; 1: channels are neighbours and even in number, pixels aligned for vectors of four; 2: any strides, element by element.
// Grid: tiles of RLX_TILE_M x RLX_TILE_N x batches groups, of eight threads each, spread by split_grid.
// Specializations: RLX_VECTORS: fours of columns of a thread; RLX_ODD_DEPTHS: 1 where the depths (of a
//   tap, with RLX_WINDOWS 1) may be odd in number; epilogue (lib/product.inc); RLX_M, RLX_N, RLX_K, RLX_BATCHES, the operands' types,
//   strides and vectors, and generated/batch.inc as in matmul.kernel. RLX_ACC is f32 or i32. RLX_WINDOWS: the window as in conv_window.h
//   (H and W; RLX_FEW_LINES 1: below 2^21 lines), RLX_CHANNELS, RLX_X_N, RLX_X_C, RLX_X_H, RLX_X_W, and no strides of a.
// Phases: at each two depths a lane loads those of four rows of a, which it gives to the others, and of its columns of b (four depths took
//   LLVM three times as long, for 5 % of the time). The sums then pass through shared memory, each lane's own, so that the epilogue is a loop.
// Numerics: f32, f16 and bf16 accumulate in f32, i8 and u8 in i32, depth by depth; pads are zeros that are multiplied; one rounding at the
//   store.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "lib/scalar.inc"
#include "lib/product.inc"
#include "lib/lines.inc"

RLX_PARAMS(MatmulParams);

#define RLX_LANES 8
#define RLX_TILE_M (4 * RLX_LANES)
#define RLX_TILE_N (4 * RLX_LANES * RLX_VECTORS)
#define RLX_TILES_M ((RLX_M + RLX_TILE_M - 1) / RLX_TILE_M)
#define RLX_TILES_N ((RLX_N + RLX_TILE_N - 1) / RLX_TILE_N)
#define RLX_TILES (RLX_TILES_M * RLX_TILES_N)

#include "lib/lane_loads.glsl"
#include "lib/tile_place.inc"

RLX_LANE_LOADER(load_columns, RLX_B, RLX_N, RLX_B_LINE, RLX_B_DEPTH, RLX_B_VECTOR)

#if RLX_WINDOWS
#ifndef RLX_VOLUMES
#define RLX_VOLUMES 0
#endif
#if RLX_FEW_LINES
#define RLX_LINE_QUOTIENT(n, d) rlx_small_quotient(n, d)
#else
#define RLX_LINE_QUOTIENT(n, d) ((n) / (d))
#endif
// The output pixel that a line is.
struct LanePlace {
  rlx_u32 image;
  int d;
  int h;
  int w;
};
// Of a line, or of the last one where that is behind it.
RLX_FN LanePlace place_of(rlx_u32 line) {
  const rlx_u32 kept = min(line, rlx_u32(RLX_M) - 1u);
  const rlx_u32 row = RLX_LINE_QUOTIENT(kept, rlx_u32(RLX_OUT_W));
  LanePlace place;
#if RLX_VOLUMES
  const rlx_u32 plane = RLX_LINE_QUOTIENT(row, rlx_u32(RLX_OUT_H));
  place.image = RLX_LINE_QUOTIENT(plane, rlx_u32(RLX_OUT_D));
  place.d = int(plane - place.image * rlx_u32(RLX_OUT_D));
  place.h = int(row - plane * rlx_u32(RLX_OUT_H));
#else
  place.image = RLX_LINE_QUOTIENT(row, rlx_u32(RLX_OUT_H));
  place.d = 0;
  place.h = int(row - place.image * rlx_u32(RLX_OUT_H));
#endif
  place.w = int(kept - row * rlx_u32(RLX_OUT_W));
  return place;
}
// The next line's, unless `line` is the last one.
RLX_FN LanePlace next_place(LanePlace place, rlx_u32 line) {
  place.w += line + 1u < rlx_u32(RLX_M) ? 1 : 0;
  const bool ends_row = place.w == RLX_OUT_W;
  place.w = ends_row ? 0 : place.w;
  place.h += ends_row ? 1 : 0;
#if RLX_VOLUMES
  const bool ends_plane = place.h == RLX_OUT_H;
  place.h = ends_plane ? 0 : place.h;
  place.d += ends_plane ? 1 : 0;
  const bool ends_image = place.d == RLX_OUT_D;
  place.d = ends_image ? 0 : place.d;
#else
  const bool ends_image = place.h == RLX_OUT_H;
  place.h = ends_image ? 0 : place.h;
#endif
  place.image += ends_image ? 1u : 0u;
  return place;
}
// The first tap of a line's window, which may lie in the pads.
struct LaneWindow {
  RLX_INDEX at;
  int d;
  int h;
  int w;
};
RLX_FN LaneWindow window_of(LanePlace place) {
  LaneWindow window;
  window.h = place.h * RLX_STRIDE_H - RLX_BEGIN_H;
  window.w = place.w * RLX_STRIDE_W - RLX_BEGIN_W;
  window.at = RLX_INDEX(place.image) * RLX_INDEX(RLX_X_N) + RLX_INDEX(window.h) * RLX_INDEX(RLX_X_H) +
              RLX_INDEX(window.w) * RLX_INDEX(RLX_X_W);
  window.d = 0;
#if RLX_VOLUMES
  window.d = place.d * RLX_STRIDE_D - RLX_BEGIN_D;
  window.at += RLX_INDEX(window.d) * RLX_INDEX(RLX_X_D);
#endif
  return window;
}
// Channel 0 of the pixel under a tap; 0, and not inside, in the pads.
struct LanePixel {
  RLX_INDEX at;
  bool inside;
};
RLX_FN LanePixel pixel_of(LaneWindow window, int plane, int row, int column) {
  const int tap_h = row * RLX_DILATION_H;
  const int tap_w = column * RLX_DILATION_W;
  LanePixel pixel;
  pixel.inside = rlx_u32(window.h + tap_h) < rlx_u32(RLX_IN_H) && rlx_u32(window.w + tap_w) < rlx_u32(RLX_IN_W);
  RLX_INDEX at = window.at;
#if RLX_VOLUMES
  const int tap_d = plane * RLX_DILATION_D;
  pixel.inside = pixel.inside && rlx_u32(window.d + tap_d) < rlx_u32(RLX_IN_D);
  at += RLX_INDEX(tap_d) * RLX_INDEX(RLX_X_D);
#endif
  pixel.at = pixel.inside ? at + RLX_INDEX(tap_h) * RLX_INDEX(RLX_X_H) + RLX_INDEX(tap_w) * RLX_INDEX(RLX_X_W) : RLX_INDEX(0);
  return pixel;
}
// What a depth is where taps have all channels: counted, as a division by the number of channels costs more than what it leads to.
struct LaneDepth {
  rlx_u32 channel;
  int tap_d;
  int tap_h;
  int tap_w;
};
RLX_FN LaneDepth next_depth(LaneDepth depth) {
  depth.channel += 1u;
  const bool ends_pixel = depth.channel == rlx_u32(RLX_CHANNELS);
  depth.channel = ends_pixel ? 0u : depth.channel;
  depth.tap_w += ends_pixel ? 1 : 0;
  const bool ends_row = depth.tap_w == RLX_KERNEL_W;
  depth.tap_w = ends_row ? 0 : depth.tap_w;
  depth.tap_h += ends_row ? 1 : 0;
#if RLX_VOLUMES
  const bool ends_plane = depth.tap_h == RLX_KERNEL_H;
  depth.tap_h = ends_plane ? 0 : depth.tap_h;
  depth.tap_d += ends_plane ? 1 : 0;
#endif
  return depth;
}
#else
RLX_LANE_LOADER(load_rows, RLX_A, RLX_M, RLX_A_LINE, RLX_A_DEPTH, RLX_A_VECTOR)
#endif

// A lane's four rows of a, as lines of the product from `first` on; with RLX_WINDOWS their windows, and the pixels under a tap.
struct LaneRows {
  rlx_u32 first;
#if RLX_WINDOWS
  LaneWindow windows[4];
  LanePixel pixels[4];
  LaneDepth depth;  // at which the next load begins, with RLX_WINDOWS 2
#endif
};
RLX_FN LaneRows rows_from(rlx_u32 first) {
  LaneRows rows;
  rows.first = first;
#if RLX_WINDOWS
  LanePlace place = place_of(first);
  RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {
    rows.windows[j] = window_of(place);
    place = next_place(place, first + j);
  }
  rows.depth.channel = 0u;
  rows.depth.tap_d = 0;
  rows.depth.tap_h = 0;
  rows.depth.tap_w = 0;
#endif
  return rows;
}
RLX_FN void turn_to_tap(RLX_INOUT(LaneRows) rows, rlx_u32 tap) {
#if RLX_WINDOWS == 1
  int row = int(tap / rlx_u32(RLX_KERNEL_W));
  const int column = int(tap % rlx_u32(RLX_KERNEL_W));
  int plane = 0;
#if RLX_VOLUMES
  plane = row / RLX_KERNEL_H;
  row -= plane * RLX_KERNEL_H;
#endif
  RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) rows.pixels[j] = pixel_of(rows.windows[j], plane, row, column);
#endif
}
// values[i] becomes depth `depth + i`, of the tap with RLX_WINDOWS 1.
RLX_FN void load_lane_rows(rlx_ptr a, LaneRows rows, rlx_u32 depth, rlx_u32 depths, RLX_INOUT_ARRAY(rlx_acc4_t, values, [2])) {
#if RLX_WINDOWS == 1
  RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {
    const rlx_vec2 pair = RLX_CAT(rlx_operand2_, RLX_A)(a, rows.pixels[j].at + RLX_INDEX(depth));
    values[0][j] = rows.pixels[j].inside ? pair.x : 0.0;
    values[1][j] = rows.pixels[j].inside ? pair.y : 0.0;
  }
#elif RLX_WINDOWS == 2
  // A pixel behind the last tap is inside of x, or taken for its first one.
  LaneDepth at = rows.depth;
  RLX_UNROLL for (rlx_u32 i = 0u; i < 2u; ++i) {
    const RLX_INDEX channel = RLX_INDEX(at.channel) * RLX_INDEX(RLX_X_C);
    rlx_acc4_t loaded = rlx_acc4_splat(0);
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {
      const LanePixel pixel = pixel_of(rows.windows[j], at.tap_d, at.tap_h, at.tap_w);
      const rlx_acc_t value = RLX_ELEMENT(RLX_A, a, pixel.at + channel);
      loaded[j] = pixel.inside ? value : rlx_acc_t(0);
    }
    values[i] = RLX_LANE_KEPT(i, loaded);
    at = next_depth(at);
  }
#else
  load_rows(a, rows.first, depth, depths, values);
#endif
}

#if RLX_WINDOWS == 1
#define RLX_TAPS (RLX_KERNEL_D * RLX_KERNEL_H * RLX_KERNEL_W)
#define RLX_DEPTHS (RLX_CHANNELS)
#else
#define RLX_TAPS 1
#define RLX_DEPTHS (RLX_K)
#endif

shared rlx_acc4_t rlx_sums[RLX_TILE_M * RLX_VECTORS * RLX_LANES];

RLX_MAIN {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_TILES) * rlx_u32(RLX_BATCHES)) return;
  const TilePlace tile = rlx_tile_place(group % rlx_u32(RLX_TILES), rlx_u32(RLX_TILES_M), rlx_u32(RLX_TILES_N));
  const rlx_u32 batch = group / rlx_u32(RLX_TILES);
#include "generated/batch.inc"
  const rlx_ptr a = RLX_AT(p.a, a_batch, RLX_CAT(rlx_bytes_, RLX_A));
  const rlx_ptr b = RLX_AT(p.b, b_batch, RLX_CAT(rlx_bytes_, RLX_B));
  const bool in_one_subgroup = rlx_subgroup_size >= rlx_u32(RLX_LANES);
  const rlx_u32 lane = in_one_subgroup ? gl_SubgroupInvocationID : rlx_local_index;
  const rlx_u32 first_row = tile.m * rlx_u32(RLX_TILE_M);
  const rlx_u32 first_column = tile.n * rlx_u32(RLX_TILE_N) + lane * 4u;
  const rlx_u32 depths = rlx_u32(RLX_DEPTHS);

  rlx_acc4_t acc[RLX_TILE_M][RLX_VECTORS];
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_TILE_M); ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS); ++j) acc[i][j] = rlx_acc4_splat(0);
  }
  LaneRows own_rows = rows_from(first_row + lane * 4u);
  RLX_LOOP for (rlx_u32 tap = 0u; tap < rlx_u32(RLX_TAPS); ++tap) {
    turn_to_tap(own_rows, tap);
    const rlx_ptr filters = RLX_AT(b, RLX_INDEX(tap * depths) * RLX_INDEX(RLX_B_DEPTH), RLX_CAT(rlx_bytes_, RLX_B));
    RLX_LOOP for (rlx_u32 depth = 0u; depth < depths; depth += 2u) {
      rlx_acc4_t columns[RLX_VECTORS][2];
      RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS); ++j) {
        load_columns(filters, first_column + j * rlx_u32(4 * RLX_LANES), depth, depths, columns[j]);
      }
      rlx_acc4_t own[2];
      load_lane_rows(a, own_rows, depth, depths, own);
      RLX_UNROLL for (rlx_u32 from = 0u; from < rlx_u32(RLX_LANES); ++from) {
        rlx_acc4_t rows[2];
        if (in_one_subgroup) {
          RLX_UNROLL for (rlx_u32 d = 0u; d < 2u; ++d) rows[d] = subgroupShuffle(own[d], from);
        } else {
          LaneRows other_rows = rows_from(first_row + from * 4u);
#if RLX_WINDOWS == 2
          other_rows.depth = own_rows.depth;
#endif
          turn_to_tap(other_rows, tap);
          load_lane_rows(a, other_rows, depth, depths, rows);
        }
        RLX_UNROLL for (rlx_u32 d = 0u; d < 2u; ++d) {
          RLX_UNROLL for (rlx_u32 i = 0u; i < 4u; ++i) {
            RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS); ++j) acc[from * 4u + i][j] += rows[d][i] * columns[j][d];
          }
        }
      }
#if RLX_WINDOWS == 2
      own_rows.depth = next_depth(next_depth(own_rows.depth));
#endif
    }
  }

  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_TILE_M); ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < rlx_u32(RLX_VECTORS); ++j) {
      rlx_sums[(i * rlx_u32(RLX_VECTORS) + j) * rlx_u32(RLX_LANES) + lane] = acc[i][j];
    }
  }
  const rlx_ptr out_base = RLX_AT(p.y, rlx_y_entry(batch), RLX_CAT(rlx_bytes_, RLX_Y));
#ifdef RLX_BIAS
  const rlx_ptr bias = RLX_AT(p.bias, bias_batch, RLX_CAT(rlx_bytes_, RLX_BIAS));
#else
  const rlx_ptr bias = 0;
#endif
#ifdef RLX_RESIDUAL
  const rlx_ptr residual = RLX_AT(p.residual, residual_batch, RLX_CAT(rlx_bytes_, RLX_RESIDUAL));
#else
  const rlx_ptr residual = 0;
#endif
  const rlx_u32 rows = min(rlx_u32(RLX_TILE_M), rlx_u32(RLX_M) - first_row);
  RLX_LOOP for (rlx_u32 place = 0u; place < rows * rlx_u32(RLX_VECTORS); ++place) {
    const RLX_INDEX m = RLX_INDEX(first_row + place / rlx_u32(RLX_VECTORS));
    const rlx_u32 column = first_column + place % rlx_u32(RLX_VECTORS) * rlx_u32(4 * RLX_LANES);
    const RLX_INDEX n = RLX_INDEX(column);
    const rlx_acc4_t sum = rlx_sums[place * rlx_u32(RLX_LANES) + lane];
#if RLX_Y_VECTOR == 4
    if (column < rlx_u32(RLX_N)) {
      RLX_CAT(rlx_store4_, RLX_Y)(out_base, rlx_y_element(m, n), rlx_finish4(sum, bias, residual, m, n));
    }
#else
    RLX_UNROLL for (rlx_u32 c = 0u; c < 4u; ++c) {
      if (column + c < rlx_u32(RLX_N)) {
        const RLX_INDEX k = RLX_INDEX(c);
        RLX_CAT(rlx_store_, RLX_Y)(out_base, rlx_y_element(m, n + k), rlx_finish(sum[c], bias, residual, m, n + k));
      }
    }
#endif
  }
}
