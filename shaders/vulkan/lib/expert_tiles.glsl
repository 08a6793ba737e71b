// SPDX-License-Identifier: Apache-2.0
// The form of dequant_coop for rows of several experts and dense 16-bit matrices: y[i] = x[i] * W[index[i]] + bias[index[i]], each tile with rows
// of one expert (lib/expert_rows.inc).
// Layout: x [RLX_M, RLX_K], y [RLX_M, RLX_N], bias [RLX_EXPERTS, RLX_N], all dense, x and the matrices of RLX_MATRIX, in whole aligned 16-byte
//   pieces along RLX_K, and of matrices [RLX_K, RLX_N] (RLX_W_ALONG_DEPTH 0) along RLX_N.
// Grid: tiles of rows (at most RLX_TILES_M) x tiles of columns, those of rows first: neighbours have the tiles of one expert and share its columns.
// Specializations: RLX_TILE_M x RLX_TILE_N, shared by RLX_WARPS_M x RLX_WARPS_N subgroups, each of which has RLX_TILE_M / RLX_WARPS_M rows (16 or
//   32) and 32 columns.
// Phases: panels of the next 64 depths travel to registers while those in shared memory are multiplied; then each subgroup's sums pass through a
//   part of shared memory of its own, 16 rows at a time.
// Numerics: f32 sums of the matrix units, one rounding at the store.

#define RLX_TILE_K 64
#define RLX_X_PITCH (RLX_TILE_K / 8 + 1)  // pieces of a row, and one more, so that eight rows touch all banks
#if RLX_W_ALONG_DEPTH
#define RLX_W_ROWS RLX_TILE_N
#define RLX_W_PIECES_OF_ROW (RLX_TILE_K / 8)
#else
#define RLX_W_ROWS RLX_TILE_K
#define RLX_W_PIECES_OF_ROW (RLX_TILE_N / 8)
#endif
#define RLX_W_PITCH (RLX_W_PIECES_OF_ROW + 1)
#define RLX_W_FIRST (RLX_TILE_M * RLX_X_PITCH)
#define RLX_PANEL_PIECES (RLX_W_FIRST + RLX_W_ROWS * RLX_W_PITCH)
#define RLX_X_LOADS ((RLX_TILE_M * (RLX_TILE_K / 8) + RLX_BLOCK_SIZE - 1) / RLX_BLOCK_SIZE)
#define RLX_W_LOADS (RLX_TILE_N * RLX_TILE_K / 8 / RLX_BLOCK_SIZE)
#if RLX_W_LOADS * RLX_BLOCK_SIZE * 8 != RLX_TILE_N * RLX_TILE_K || RLX_TILE_N != 32 * RLX_WARPS_N
#error "whole rounds, and 32 columns to a subgroup"
#endif
#define RLX_MATRICES_M (RLX_TILE_M / RLX_WARPS_M / 16)

// A subgroup's sums: 16 rows of 32 floats, 8 pieces, and two more, so that four rows touch all banks.
#define RLX_SUM_PITCH 10
#define RLX_SUM_PIECES (16 * RLX_SUM_PITCH)
#if RLX_PANEL_PIECES > RLX_WARPS_M * RLX_WARPS_N * RLX_SUM_PIECES
RLX_SHARED rlx_uvec4 panels[RLX_PANEL_PIECES];
#else
RLX_SHARED rlx_uvec4 panels[RLX_WARPS_M * RLX_WARPS_N * RLX_SUM_PIECES];
#endif

// The pieces at `depth` that this thread stages; zeros beyond the arrays and for lines without a row.
RLX_FN void load_pieces(rlx_ptr w, rlx_u32 first_column, rlx_u32 depth, inout rlx_uvec4 x_next[RLX_X_LOADS], inout rlx_uvec4 w_next[RLX_W_LOADS]) {
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_X_LOADS); ++load) {
    const rlx_u32 index = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    const rlx_u32 line = index / rlx_u32(RLX_TILE_K / 8);
    const rlx_u32 k = depth + index % rlx_u32(RLX_TILE_K / 8) * 8u;
    const rlx_u32 row = tile_rows[min(line, rlx_u32(RLX_TILE_M - 1))];
    const bool inside = row != RLX_NO_ROW && k < rlx_u32(RLX_K);
    const rlx_i64 at = inside ? rlx_i64(row) * rlx_i64(RLX_K) + rlx_i64(k) : rlx_i64(0);
    x_next[load] = rlx_operand16(p.x, at * rlx_i64(2)) & rlx_uvec4(inside ? 0xFFFFFFFFu : 0u);
  }
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_W_LOADS); ++load) {
    const rlx_u32 index = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    const rlx_u32 row = index / rlx_u32(RLX_W_PIECES_OF_ROW);
    const rlx_u32 first = index % rlx_u32(RLX_W_PIECES_OF_ROW) * 8u;
#if RLX_W_ALONG_DEPTH
    const rlx_u32 n = first_column + row;
    const rlx_u32 k = depth + first;
    const rlx_i64 place = rlx_i64(n) * rlx_i64(RLX_K) + rlx_i64(k);
#else
    const rlx_u32 n = first_column + first;
    const rlx_u32 k = depth + row;
    const rlx_i64 place = rlx_i64(k) * rlx_i64(RLX_N) + rlx_i64(n);
#endif
    const bool inside = n < rlx_u32(RLX_N) && k < rlx_u32(RLX_K);
    w_next[load] = rlx_operand16(w, inside ? place * rlx_i64(2) : rlx_i64(0)) & rlx_uvec4(inside ? 0xFFFFFFFFu : 0u);
  }
}

RLX_FN void stage_pieces(rlx_uvec4 x_next[RLX_X_LOADS], rlx_uvec4 w_next[RLX_W_LOADS]) {
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_X_LOADS); ++load) {
    const rlx_u32 index = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    const rlx_u32 at = index / rlx_u32(RLX_TILE_K / 8) * rlx_u32(RLX_X_PITCH) + index % rlx_u32(RLX_TILE_K / 8);
    if (index < rlx_u32(RLX_TILE_M * (RLX_TILE_K / 8))) panels[at] = x_next[load];
  }
  RLX_UNROLL for (rlx_u32 load = 0u; load < rlx_u32(RLX_W_LOADS); ++load) {
    const rlx_u32 index = rlx_local_index + load * rlx_u32(RLX_BLOCK_SIZE);
    const rlx_u32 at = index / rlx_u32(RLX_W_PIECES_OF_ROW) * rlx_u32(RLX_W_PITCH) + index % rlx_u32(RLX_W_PIECES_OF_ROW);
    panels[rlx_u32(RLX_W_FIRST) + at] = w_next[load];
  }
}

// Finishes 16 x 32 sums of this subgroup, those from `line` of the tile and `column` of y on.
RLX_FN void store_sums(rlx_u32 warp, rlx_ptr bias, rlx_u32 line, rlx_u32 column) {
  RLX_LOOP for (rlx_u32 unit = rlx_local_index % rlx_u32(RLX_SUBGROUP); unit < 128u; unit += rlx_u32(RLX_SUBGROUP)) {
    const rlx_u32 m = tile_rows[line + unit / 8u];
    const rlx_u32 n = column + unit % 8u * 4u;
    if (m == RLX_NO_ROW || n >= rlx_u32(RLX_N)) continue;
    rlx_acc4_t sums = uintBitsToFloat(panels[warp * rlx_u32(RLX_SUM_PIECES) + unit / 8u * rlx_u32(RLX_SUM_PITCH) + unit % 8u]);
    const rlx_i64 at = rlx_i64(m) * rlx_i64(RLX_N) + rlx_i64(n);
#if RLX_Y_VECTOR == 4
    RLX_UNROLL for (rlx_u32 c = 0u; c < 4u; ++c) sums[c] = rlx_finish(sums[c], bias, p.residual, RLX_INDEX(m), RLX_INDEX(n + c));
    RLX_CAT(rlx_store4_, RLX_Y)(p.y, at, sums);
#else
    RLX_UNROLL for (rlx_u32 c = 0u; c < 4u; ++c) {
      if (n + c < rlx_u32(RLX_N))
        RLX_CAT(rlx_store_, RLX_Y)(p.y, at + rlx_i64(c), rlx_finish(sums[c], bias, p.residual, RLX_INDEX(m), RLX_INDEX(n + c)));
    }
#endif
  }
}

// Rows of no expert.
RLX_FN void store_zeros(rlx_u32 first_column) {
  RLX_LOOP for (rlx_u32 i = rlx_local_index; i < rlx_u32(RLX_TILE_M * RLX_TILE_N); i += rlx_u32(RLX_BLOCK_SIZE)) {
    const rlx_u32 m = tile_rows[i / rlx_u32(RLX_TILE_N)];
    const rlx_u32 n = first_column + i % rlx_u32(RLX_TILE_N);
    if (m == RLX_NO_ROW || n >= rlx_u32(RLX_N)) continue;
    RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(m) * rlx_i64(RLX_N) + rlx_i64(n), rlx_acc_t(0));
  }
}

RLX_MAIN {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_TILES_M) * rlx_u32((RLX_N + RLX_TILE_N - 1) / RLX_TILE_N)) return;
  const rlx_u32 first_column = group / rlx_u32(RLX_TILES_M) * rlx_u32(RLX_TILE_N);
  const ExpertTile expert = find_expert(p.index, group % rlx_u32(RLX_TILES_M), p.w, p.bias);
  RLX_COUNT_NO_EXPERT(group);
  if (!expert.is_there) return;
  if (expert.is_zero) {
    store_zeros(first_column);
    return;
  }
  const rlx_u32 warp = rlx_local_index / rlx_u32(RLX_SUBGROUP);
  const rlx_u32 warp_m = warp % rlx_u32(RLX_WARPS_M) * rlx_u32(RLX_TILE_M / RLX_WARPS_M);
  const rlx_u32 warp_n = warp / rlx_u32(RLX_WARPS_M) * 32u;

  // Multiply.
  rlx_sum_matrix sums[RLX_MATRICES_M][2];
  RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_MATRICES_M); ++i) {
    RLX_UNROLL for (rlx_u32 j = 0u; j < 2u; ++j) sums[i][j] = rlx_sum_matrix(0.0);
  }
  rlx_uvec4 x_next[RLX_X_LOADS];
  rlx_uvec4 w_next[RLX_W_LOADS];
  load_pieces(expert.w, first_column, 0u, x_next, w_next);
  stage_pieces(x_next, w_next);
  rlx_barrier();
  const rlx_u32 blocks = rlx_u32((RLX_K + RLX_TILE_K - 1) / RLX_TILE_K);
  RLX_LOOP for (rlx_u32 block = 0u; block < blocks; ++block) {
    // The last block is loaded and staged once more: a branch would cost more than that does.
    load_pieces(expert.w, first_column, min(block + 1u, blocks - 1u) * rlx_u32(RLX_TILE_K), x_next, w_next);
    RLX_UNROLL for (rlx_u32 step = 0u; step < rlx_u32(RLX_TILE_K / 16); ++step) {
      rlx_left_matrix left[RLX_MATRICES_M];
      RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_MATRICES_M); ++i) {
        coopMatLoadNV(left[i], panels, (warp_m + i * 16u) * rlx_u32(RLX_X_PITCH) + step * 2u, RLX_X_PITCH, false);
      }
      RLX_UNROLL for (rlx_u32 j = 0u; j < 2u; ++j) {
        const rlx_u32 line = warp_n + j * 16u;
        rlx_right_matrix right;
#if RLX_W_ALONG_DEPTH
        coopMatLoadNV(right, panels, rlx_u32(RLX_W_FIRST) + line * rlx_u32(RLX_W_PITCH) + step * 2u, RLX_W_PITCH, true);
#else
        coopMatLoadNV(right, panels, rlx_u32(RLX_W_FIRST) + step * 16u * rlx_u32(RLX_W_PITCH) + line / 8u, RLX_W_PITCH, false);
#endif
        RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_MATRICES_M); ++i) sums[i][j] = coopMatMulAddNV(left[i], right, sums[i][j]);
      }
    }
    rlx_barrier();
    stage_pieces(x_next, w_next);
    rlx_barrier();
  }

  // Store. Matrices are named by literal numbers (see matmul_coop).
#define RLX_STORE_ROW(i)                                                                                  \
  coopMatStoreNV(sums[i][0], panels, warp * rlx_u32(RLX_SUM_PIECES), RLX_SUM_PITCH, false);               \
  coopMatStoreNV(sums[i][1], panels, warp * rlx_u32(RLX_SUM_PIECES) + 4u, RLX_SUM_PITCH, false);          \
  rlx_subgroup_barrier();                                                                                 \
  store_sums(warp, expert.bias, warp_m + rlx_u32(i * 16), first_column + warp_n);                                \
  rlx_subgroup_barrier();
  RLX_STORE_ROW(0)
#if RLX_MATRICES_M > 1
  RLX_STORE_ROW(1)
#endif
}
