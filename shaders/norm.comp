// SPDX-License-Identifier: Apache-2.0
// layer_norm (RLX_CENTER 1): y = (x - mean) * inv_std * gamma + beta, inv_std = (mean((x - mean)^2) + eps)^(-1/2).
// rms_norm (RLX_CENTER 0):   y = x * inv_std * (gamma + gamma_offset) + beta, inv_std = (mean(x^2) + eps)^(-1/2).
// An absent gamma is 1.
// Layout: a row is RLX_COLS neighbouring elements of x and of y; rows may be strided. generated/rows.inc gives RLX_INDEX,
//   RLX_X_KEPT, RLX_Y_KEPT (element offsets of a row), RLX_GAMMA_AT, RLX_BETA_AT (by position in the row), RLX_REAL (rlx_f32, or
//   rlx_f64 for f64), RLX_MEAN(a) (a / RLX_COLS), RLX_EPS and RLX_GAMMA_OFFSET.
// Grid: one group for each RLX_ROWS rows, spread by split_grid.
// Specializations: RLX_LANES x RLX_ROWS threads (lib/reduce.glsl, neighbours share a row); RLX_ROW_COUNT, RLX_COLS; storage types
//   RLX_X (of x and y), RLX_GAMMA, RLX_BETA; RLX_HAS_GAMMA, RLX_HAS_BETA, RLX_HAS_MEAN, RLX_HAS_INV_STD; RLX_WIDTH 4 or 8: so many
//   elements of x and y at a time; RLX_GAMMA_VECTOR, RLX_BETA_VECTOR 4: gamma or beta likewise, being contiguous; RLX_ITEMS: pieces
//   of RLX_WIDTH elements that a thread keeps in registers, 0: the row is read again; RLX_AFFINE_EARLY 1: gamma and beta do not
//   depend on earlier steps; RLX_AFFINE_LATE 1: they are read behind the sums, which leaves registers for more rows at a time.
// Numerics: mean first, then the centred squares, in f32 (f64 for f64); one rounding at the end. The mean is rounded, which matters
//   far from zero: the mean of what is left after centring corrects it.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/math.glsl"
#include "lib/reduce.glsl"
#include "generated/rows.inc"

RLX_PARAMS(NormParams);

RLX_GROUP_REDUCE(row_sum, RLX_REAL, RLX_COMBINE_SUM)

// Sums of the centred squares and of the centred values.
struct Sums {
  RLX_REAL squares;
  RLX_REAL rest;
};
#if RLX_CENTER
RLX_FN Sums rlx_shuffle_xor(Sums sums, rlx_u32 distance) {
  sums.squares = rlx_shuffle_xor(sums.squares, distance);
  sums.rest = rlx_shuffle_xor(sums.rest, distance);
  return sums;
}
RLX_FN Sums added(Sums a, Sums b) {
  a.squares += b.squares;
  a.rest += b.rest;
  return a;
}
RLX_GROUP_REDUCE(row_sums, Sums, added)
#endif

#define RLX_LOAD(i) RLX_CAT(rlx_load_, RLX_X)(p.x, x_row + (i))

// A piece: RLX_WIDTH neighbouring elements as RLX_REAL.
#if RLX_WIDTH == 8
#define RLX_GET_PIECE(v, dtype, base, at) RLX_CAT(rlx_load8_, dtype)(base, at, v);
#define RLX_PUT_PIECE(v, dtype, base, at) RLX_CAT(rlx_store8_, dtype)(base, at, v);
#elif RLX_WIDTH == 4
#define RLX_GET_PIECE(v, dtype, base, at)                       \
  {                                                             \
    const rlx_vec4 four = RLX_CAT(rlx_load4_, dtype)(base, at); \
    v[0] = four.x;                                              \
    v[1] = four.y;                                              \
    v[2] = four.z;                                              \
    v[3] = four.w;                                              \
  }
#define RLX_PUT_PIECE(v, dtype, base, at)        \
  {                                              \
    rlx_vec4 four;                               \
    four.x = v[0];                               \
    four.y = v[1];                               \
    four.z = v[2];                               \
    four.w = v[3];                               \
    RLX_CAT(rlx_store4_, dtype)(base, at, four); \
  }
#else
#define RLX_GET_PIECE(v, dtype, base, at) v[0] = RLX_REAL(RLX_CAT(rlx_load_, dtype)(base, at));
#define RLX_PUT_PIECE(v, dtype, base, at) RLX_CAT(rlx_store_, dtype)(base, at, v[0]);
#endif
// The same of gamma or beta, which need not be contiguous.
#define RLX_GET_AFFINE_1(v, dtype, base, offset, at) \
  RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) v[j] = RLX_REAL(RLX_CAT(rlx_load_, dtype)(base, offset(at + j)));
#define RLX_GET_AFFINE_4(v, dtype, base, offset, at) RLX_GET_PIECE(v, dtype, base, at)

#if RLX_HAS_GAMMA
#define RLX_GET_GAMMA(v, at) RLX_CAT(RLX_GET_AFFINE_, RLX_GAMMA_VECTOR)(v, RLX_GAMMA, p.gamma, RLX_GAMMA_AT, at)
#else
#define RLX_GET_GAMMA(v, at) RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) v[j] = RLX_REAL(1);
#endif
#if RLX_HAS_BETA
#define RLX_GET_BETA(v, at) RLX_CAT(RLX_GET_AFFINE_, RLX_BETA_VECTOR)(v, RLX_BETA, p.beta, RLX_BETA_AT, at)
#else
#define RLX_GET_BETA(v, at) RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) v[j] = RLX_REAL(0);
#endif

RLX_MAIN_PREFETCH {
  const RLX_INDEX row = RLX_INDEX(rlx_linear_group) * RLX_INDEX(RLX_ROWS) + RLX_INDEX(rlx_row);
  const bool inside = row < RLX_INDEX(RLX_ROW_COUNT);
  const RLX_INDEX kept = inside ? row : RLX_INDEX(0);
  const RLX_INDEX x_row = RLX_X_KEPT(kept);
  const RLX_INDEX y_row = RLX_Y_KEPT(kept);
  const RLX_INDEX first = RLX_INDEX(rlx_lane) * RLX_WIDTH;
  const RLX_INDEX step = RLX_INDEX(RLX_LANES) * RLX_WIDTH;
  RLX_REAL mean = RLX_REAL(0);

#if RLX_ITEMS > 0
  // The row's pieces in registers; places behind its end hold 0. gamma and beta come along, before their row's sums
  // are known, unless they are to be late.
  RLX_REAL held[RLX_ITEMS][RLX_WIDTH];
#if !RLX_AFFINE_LATE
  RLX_REAL gamma[RLX_ITEMS][RLX_WIDTH];
  RLX_REAL beta[RLX_ITEMS][RLX_WIDTH];
#endif
#if RLX_AFFINE_EARLY
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k) * step;
    if (i < RLX_INDEX(RLX_COLS)) {
      RLX_GET_GAMMA(gamma[k], i)
      RLX_GET_BETA(beta[k], i)
    }
  }
#endif
  rlx_wait_for_predecessors();
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k) * step;
    RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) held[k][j] = RLX_REAL(0);
    if (i < RLX_INDEX(RLX_COLS)) {
      RLX_GET_PIECE(held[k], RLX_X, p.x, x_row + i)
    }
  }
#if !RLX_AFFINE_EARLY && !RLX_AFFINE_LATE
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k) * step;
    if (i < RLX_INDEX(RLX_COLS)) {
      RLX_GET_GAMMA(gamma[k], i)
      RLX_GET_BETA(beta[k], i)
    }
  }
#endif
#if RLX_CENTER
  // Mean.
  RLX_REAL sum = RLX_REAL(0);
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) sum += held[k][j];
  }
  mean = RLX_MEAN(row_sum(sum));
#endif
  // Squares.
  Sums sums;
  sums.squares = RLX_REAL(0);
  sums.rest = RLX_REAL(0);
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    if (first + RLX_INDEX(k) * step < RLX_INDEX(RLX_COLS)) {
      RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) {
        held[k][j] -= mean;
        sums.squares += held[k][j] * held[k][j];
        sums.rest += held[k][j];
      }
    }
  }
#else
  rlx_wait_for_predecessors();
#if RLX_CENTER
  // Mean.
  RLX_REAL sum = RLX_REAL(0);
  for (RLX_INDEX i = first; i < RLX_INDEX(RLX_COLS); i += step) {
    RLX_REAL piece[RLX_WIDTH];
    RLX_GET_PIECE(piece, RLX_X, p.x, x_row + i)
    RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) sum += piece[j];
  }
  mean = RLX_MEAN(row_sum(sum));
#endif
  // Squares.
  Sums sums;
  sums.squares = RLX_REAL(0);
  sums.rest = RLX_REAL(0);
  for (RLX_INDEX i = first; i < RLX_INDEX(RLX_COLS); i += step) {
    RLX_REAL piece[RLX_WIDTH];
    RLX_GET_PIECE(piece, RLX_X, p.x, x_row + i)
    RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) {
      const RLX_REAL centred = piece[j] - mean;
      sums.squares += centred * centred;
      sums.rest += centred;
    }
  }
#endif
#if RLX_CENTER
  sums = row_sums(sums);
  RLX_REAL variance = RLX_MEAN(sums.squares);
  // What the rounding of the mean left over.
  const RLX_REAL missed = RLX_MEAN(sums.rest);
  variance -= missed * missed;
#else
  const RLX_REAL variance = RLX_MEAN(row_sum(sums.squares));
  const RLX_REAL missed = RLX_REAL(0);
#endif
  const RLX_REAL inv_std = RLX_REAL(1) / sqrt(variance + RLX_EPS);

  // Result.
  if (!inside) return;
#if RLX_ITEMS > 0
  RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
    const RLX_INDEX i = first + RLX_INDEX(k) * step;
    if (i < RLX_INDEX(RLX_COLS)) {
#if RLX_AFFINE_LATE
      RLX_REAL gamma[RLX_WIDTH];
      RLX_REAL beta[RLX_WIDTH];
      RLX_GET_GAMMA(gamma, i)
      RLX_GET_BETA(beta, i)
#define RLX_OF_PIECE(affine, j) affine[j]
#else
#define RLX_OF_PIECE(affine, j) affine[k][j]
#endif
      RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) {
        held[k][j] = (held[k][j] - missed) * inv_std * (RLX_OF_PIECE(gamma, j) + RLX_GAMMA_OFFSET) + RLX_OF_PIECE(beta, j);
      }
      RLX_PUT_PIECE(held[k], RLX_X, p.y, y_row + i)
    }
  }
#else
  for (RLX_INDEX i = first; i < RLX_INDEX(RLX_COLS); i += step) {
    RLX_REAL piece[RLX_WIDTH];
    RLX_REAL gamma[RLX_WIDTH];
    RLX_REAL beta[RLX_WIDTH];
    RLX_GET_PIECE(piece, RLX_X, p.x, x_row + i)
    RLX_GET_GAMMA(gamma, i)
    RLX_GET_BETA(beta, i)
    RLX_UNROLL for (int j = 0; j < RLX_WIDTH; ++j) {
      piece[j] = ((piece[j] - mean) - missed) * inv_std * (gamma[j] + RLX_GAMMA_OFFSET) + beta[j];
    }
    RLX_PUT_PIECE(piece, RLX_X, p.y, y_row + i)
  }
#endif
  if (rlx_lane != 0u) return;
#if RLX_HAS_MEAN
  rlx_store_f32(p.mean, row, rlx_f32(mean + missed));
#endif
#if RLX_HAS_INV_STD
  rlx_store_f32(p.inv_std, row, rlx_f32(inv_std));
#endif
}
