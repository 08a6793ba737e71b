// SPDX-License-Identifier: Apache-2.0
// The form of dequant_mma for rows of several experts and dense 16-bit matrices: y[i] = x[i] * W[index[i]] + bias[index[i]]. A workgroup finds
// the rows of its tile once (lib/expert_rows.inc) and multiplies them with RLX_COLUMN_TILES neighbouring tiles of RLX_TILE_N columns.
// Layout: x [RLX_M, RLX_K], y [RLX_M, RLX_N], bias [RLX_EXPERTS, RLX_N], all dense, x and the matrices of RLX_X, in whole aligned 16-byte
//   pieces along RLX_K, and of matrices [RLX_K, RLX_N] (RLX_W_ALONG_DEPTH 0) along RLX_N.
// Grid: tiles of rows (at most RLX_TILES_M) x runs of RLX_COLUMN_TILES tiles of columns, those of rows first: neighbours have the tiles of
//   one expert and share its columns.
// Specializations: RLX_TILE_M x RLX_TILE_N, shared by RLX_WARPS_M x RLX_WARPS_N warps; RLX_STAGES steps of 64 depths are in flight.
// Numerics: f32 sums of the tensor cores, one rounding at the store.

// x [RLX_TILE_M][64] and columns [RLX_TILE_N][64], pieces exchanged so that eight rows touch all banks; or columns [64][RLX_TILE_N], rows
// padded for the same reason.
constexpr rlx_u32 kDepth = 64;
constexpr rlx_u32 kRowBytes = 2 * kDepth;
constexpr rlx_u32 kXBytes = RLX_TILE_M * kRowBytes;
constexpr rlx_u32 kWPitch = RLX_W_ALONG_DEPTH ? kRowBytes : 2 * RLX_TILE_N + 16;
constexpr rlx_u32 kWBytes = kWPitch * (RLX_W_ALONG_DEPTH ? RLX_TILE_N : kDepth);
constexpr rlx_u32 kStageBytes = kXBytes + kWBytes;
constexpr rlx_u32 kSumPitch = RLX_TILE_N + 4;
constexpr rlx_u32 kSumBytes = RLX_TILE_M * kSumPitch * 4;
RLX_DYNAMIC_SHARED(RLX_STAGES * kStageBytes > kSumBytes ? RLX_STAGES * kStageBytes : kSumBytes);

constexpr rlx_u32 kThreads = 32 * RLX_WARPS_M * RLX_WARPS_N;
constexpr rlx_u32 kWarpM = RLX_TILE_M / RLX_WARPS_M;
constexpr rlx_u32 kWarpN = RLX_TILE_N / RLX_WARPS_N;
constexpr rlx_u32 kFragmentsM = kWarpM / 16;
constexpr rlx_u32 kFragmentsN = kWarpN / 8;
static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0, "whole fragments");
constexpr rlx_u32 kSteps = (RLX_K + kDepth - 1) / kDepth;

RLX_FN rlx_u32 piece_at(rlx_u32 row, rlx_u32 piece) { return row * kRowBytes + (piece ^ (row & 7u)) * 16u; }

// A thread copies one piece of every kRowsAtOnce-th row.
constexpr rlx_u32 kRowsAtOnce = kThreads / 8;
constexpr rlx_u32 kXCopies = RLX_TILE_M / kRowsAtOnce;
constexpr rlx_u32 kWPieces = RLX_TILE_N * kDepth / 8;
constexpr rlx_u32 kWCopies = kWPieces / kThreads;
static_assert(kXCopies * kRowsAtOnce == RLX_TILE_M && kWCopies * kThreads == kWPieces, "whole rounds");

// Starts the copies of a step's depths; zeros beyond the arrays and for lines without a row.
RLX_FN void copy_step(const RlxParams& p, rlx_ptr w, const rlx_u32 (&rows)[kXCopies], rlx_u32 first_column, rlx_u32 step) {
  const rlx_u32 to = rlx_shared_address(rlx_shared) + step % rlx_u32(RLX_STAGES) * kStageBytes;
  const rlx_u32 row = rlx_local_index / 8u;
  const rlx_u32 piece = rlx_local_index % 8u;
  const rlx_u32 k = step * kDepth + piece * 8u;
  RLX_UNROLL for (rlx_u32 i = 0u; i < kXCopies; ++i) {
    const bool inside = rows[i] != RLX_NO_ROW && k < rlx_u32(RLX_K);
    const rlx_ptr from = p.x + (rlx_u64(rows[i]) * rlx_u64(RLX_K) + k) * 2u;
    rlx_copy16_async(to + piece_at(row + i * kRowsAtOnce, piece), inside ? from : p.x, inside ? 16u : 0u);
  }
  RLX_UNROLL for (rlx_u32 i = 0u; i < kWCopies; ++i) {
#if RLX_W_ALONG_DEPTH
    const rlx_u32 line = row + i * kRowsAtOnce;
    const bool inside = first_column + line < rlx_u32(RLX_N) && k < rlx_u32(RLX_K);
    const rlx_ptr from = w + (rlx_u64(first_column + line) * rlx_u64(RLX_K) + k) * 2u;
    const rlx_u32 at = piece_at(line, piece);
#else
    const rlx_u32 index = rlx_local_index + i * kThreads;
    const rlx_u32 depth = index / (RLX_TILE_N / 8u);
    const rlx_u32 column = index % (RLX_TILE_N / 8u) * 8u;
    const bool inside = first_column + column < rlx_u32(RLX_N) && step * kDepth + depth < rlx_u32(RLX_K);
    const rlx_ptr from = w + (rlx_u64(step * kDepth + depth) * rlx_u64(RLX_N) + (first_column + column)) * 2u;
    const rlx_u32 at = depth * kWPitch + column * 2u;
#endif
    rlx_copy16_async(to + kXBytes + at, inside ? from : w, inside ? 16u : 0u);
  }
}

struct WarpPlace {
  rlx_u32 m;  // first line and column in the tile
  rlx_u32 n;
};

RLX_FN void multiply_step(rlx_u32 step, WarpPlace warp, float (&acc)[kFragmentsM][kFragmentsN][4]) {
  const rlx_u32 lane = rlx_lane_of_warp;
  const rlx_u32 x = rlx_shared_address(rlx_shared) + step % rlx_u32(RLX_STAGES) * kStageBytes;
  const rlx_u32 w = x + kXBytes;
  RLX_UNROLL for (rlx_u32 k = 0u; k < kDepth / 16u; ++k) {
    rlx_u32 a[kFragmentsM][4];
    RLX_UNROLL for (rlx_u32 i = 0u; i < kFragmentsM; ++i) {
      rlx_load_tiles4(a[i], x + piece_at(warp.m + i * 16u + lane % 16u, k * 2u + lane / 16u));
    }
    RLX_UNROLL for (rlx_u32 j = 0u; j < kFragmentsN; j += 2u) {
      rlx_u32 words[4];
#if RLX_W_ALONG_DEPTH
      rlx_load_tiles4(words, w + piece_at(warp.n + j * 8u + lane % 8u + lane / 16u * 8u, k * 2u + lane / 8u % 2u));
#else
      rlx_load_tiles4_transposed(words, w + (k * 16u + lane % 16u) * kWPitch + (warp.n + j * 8u + lane / 16u * 8u) * 2u);
#endif
      const rlx_u32 b[2][2] = {{words[0], words[1]}, {words[2], words[3]}};
      RLX_UNROLL for (rlx_u32 h = 0u; h < 2u; ++h) {
        RLX_UNROLL for (rlx_u32 i = 0u; i < kFragmentsM; ++i) RLX_CAT(rlx_mma_, RLX_X)(acc[i][j + h], a[i], b[h]);
      }
    }
  }
}

// The products of the tile's rows with a tile of columns; a barrier ends it.
RLX_FN void multiply_columns(const RlxParams& p, rlx_ptr w, const rlx_u32 (&rows)[kXCopies], rlx_u32 first_column, WarpPlace warp) {
  float acc[kFragmentsM][kFragmentsN][4] = {};
  RLX_UNROLL for (rlx_u32 step = 0u; step < RLX_STAGES - 1u; ++step) {
    if (step < kSteps) copy_step(p, w, rows, first_column, step);
    rlx_commit_copies();
  }
  RLX_LOOP for (rlx_u32 step = 0u; step < kSteps; ++step) {
    rlx_wait_copies<RLX_STAGES - 2>();
    rlx_barrier();
    if (step + RLX_STAGES - 1u < kSteps) copy_step(p, w, rows, first_column, step + RLX_STAGES - 1u);
    rlx_commit_copies();
    multiply_step(step, warp, acc);
  }
  rlx_wait_copies<0>();
  rlx_barrier();
  float* sums = reinterpret_cast<float*>(rlx_shared);
  RLX_UNROLL for (rlx_u32 i = 0u; i < kFragmentsM; ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < kFragmentsN; ++j) {
      RLX_UNROLL for (rlx_u32 half = 0u; half < 2u; ++half) {
        const rlx_u32 row = warp.m + i * 16u + half * 8u + rlx_lane_of_warp / 4u;
        const rlx_u32 column = warp.n + j * 8u + rlx_lane_of_warp % 4u * 2u;
        *reinterpret_cast<float2*>(sums + row * kSumPitch + column) = make_float2(acc[i][j][half * 2u], acc[i][j][half * 2u + 1u]);
      }
    }
  }
  rlx_barrier();
}

RLX_FN void store_columns(const RlxParams& p, rlx_ptr bias, rlx_u32 first_column, bool is_zero) {
  const float* sums = reinterpret_cast<const float*>(rlx_shared);
  RLX_LOOP for (rlx_u32 i = rlx_local_index; i < RLX_TILE_M * RLX_TILE_N / 4u; i += kThreads) {
    const rlx_u32 line = i / (RLX_TILE_N / 4u);
    const rlx_u32 column = i % (RLX_TILE_N / 4u) * 4u;
    const rlx_u32 m = tile_rows[line];
    const rlx_u32 n = first_column + column;
    if (m == RLX_NO_ROW || n >= rlx_u32(RLX_N)) continue;
    float values[4] = {};
    if (!is_zero) {
      RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {
        if (n + j < rlx_u32(RLX_N)) values[j] = rlx_finish(sums[line * kSumPitch + column + j], bias, p.residual, RLX_INDEX(m), RLX_INDEX(n + j));
      }
    }
    const rlx_i64 at = rlx_i64(m) * rlx_i64(RLX_N) + rlx_i64(n);
#if RLX_Y_VECTOR == 4
    RLX_CAT(rlx_store4_, RLX_Y)(p.y, at, rlx_vec4{values[0], values[1], values[2], values[3]});
#else
    RLX_UNROLL for (rlx_u32 j = 0u; j < 4u; ++j) {
      if (n + j < rlx_u32(RLX_N)) RLX_CAT(rlx_store_, RLX_Y)(p.y, at + j, values[j]);
    }
#endif
  }
}

RLX_MAIN {
  constexpr rlx_u32 kColumns = RLX_COLUMN_TILES * RLX_TILE_N;
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_TILES_M) * ((rlx_u32(RLX_N) + kColumns - 1u) / kColumns)) return;
  const ExpertTile expert = find_expert(p.index, group % rlx_u32(RLX_TILES_M), p.w, p.bias);
  RLX_COUNT_NO_EXPERT(group);
  if (!expert.is_there) return;
  rlx_u32 rows[kXCopies];
  RLX_UNROLL for (rlx_u32 i = 0u; i < kXCopies; ++i) rows[i] = tile_rows[rlx_local_index / 8u + i * kRowsAtOnce];
  const WarpPlace warp = {rlx_warp % RLX_WARPS_M * kWarpM, rlx_warp / RLX_WARPS_M * kWarpN};
  const rlx_u32 begin = group / rlx_u32(RLX_TILES_M) * kColumns;
  RLX_LOOP for (rlx_u32 column = begin; column < min(begin + kColumns, rlx_u32(RLX_N)); column += RLX_TILE_N) {
    if (!expert.is_zero) multiply_columns(p, expert.w, rows, column, warp);
    store_columns(p, expert.bias, column, expert.is_zero);
    rlx_barrier();
  }
}
