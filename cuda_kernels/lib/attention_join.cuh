// SPDX-License-Identifier: Apache-2.0
// How attention_mma joins what its warps along the keys and the workgroups of a cluster found, in fixed order, and writes it.
// Behind lib/attention_mma.cuh, whose sizes and places it stands on.
#ifndef RLX_LIB_ATTENTION_JOIN_CUH
#define RLX_LIB_ATTENTION_JOIN_CUH

// The two halves of a barrier of the cluster: arriving, and waiting for what all did before they arrived.
RLX_FN void enter_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
RLX_FN void wait_for_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The column of v that stands in column c of tile j, where tiles interleave; tiles j + 1, ... have the next ones.
RLX_FN int run_column(int j, int c) { return j / kVector * kVector * 8 + kVector * c + j % kVector; }

// Writes the warp's rows to shared memory.
RLX_FN void leave_rows(const Rows& rows, float* joined, int warp_q, int warp_k) {
  const int g = rlx_lane_of_warp / 4;
  const int t = rlx_lane_of_warp % 4;
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
    RLX_UNROLL for (int h = 0; h < 2; ++h) {
      const float total = quad_sum(rows.total[m][h]);
      const int row = (warp_q * kMTiles + m) * 16 + 8 * h + g;
      if (row >= kUsedRows) continue;
      if (t == 0) {
        *reinterpret_cast<float2*>(joined + kStatsAt + (warp_k * kUsedRows + row) * 2) = float2{rows.shift[m][h], total};
      }
      float* const place = joined + (warp_k * kUsedRows + row) * kJoinPitch;
      const float(&out)[kOutTiles][4] = rows.out[m];
      if constexpr (kInOrder) {
        RLX_UNROLL for (int j = 0; j < kOutTiles; ++j) {
          const int d = 8 * j + 2 * t;
          if (d < RLX_DV) *reinterpret_cast<float2*>(place + d) = float2{out[j][2 * h], out[j][2 * h + 1]};
        }
      } else {
        RLX_UNROLL for (int j = 0; j < kOutTiles; j += 4) {
          RLX_UNROLL for (int c = 0; c < 2; ++c) {
            const int i = 2 * h + c;
            const int d = run_column(j, 2 * t + c);
            if (d < RLX_DV) *reinterpret_cast<float4*>(place + d) = float4{out[j][i], out[j + 1][i], out[j + 2][i], out[j + 3][i]};
          }
        }
      }
    }
  }
}

// 1 / total, or 0 where the row has no key.
RLX_FN float inverse_of(float total) {
  if (total == 0.0f) return 0.0f;
#if RLX_HALF
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(total));
  return inverse;
#else
  return 1.0f / total;
#endif
}

// The sink of a row's head as attention.kernel's add_sink takes it in; shifts are powers of 2.
template <typename Params>
RLX_FN void add_sink(const Params& p, const Place& at, int row, float& shift, float& total, float& share) {
#if RLX_HAS_SINKS
  const float sink = 1.44269504f * float(RLX_CAT(rlx_load_, RLX_SINKS)(p.sinks, rlx_i64(at.head + row % RLX_FOLD) * RLX_SINKS_STRIDE));
  const float new_shift = fmaxf(shift, sink);
  share = power_of_2(shift - finite_or_0(new_shift));
  total = total * share + power_of_2(sink - finite_or_0(new_shift));
  shift = new_shift;
#endif
}

template <typename Params>
RLX_FN void write_lse(const Params& p, const Place& at, int row, float shift, float total) {
#if RLX_HAS_LSE
  rlx_store_f32(p.lse, (rlx_i64(at.batch) * RLX_HEADS + (at.head + row % RLX_FOLD)) * RLX_SQ + row / RLX_FOLD,
                total == 0.0f ? RLX_MINUS_INFINITY : 0.693147182f * (shift + rlx_log2(total)));
#endif
}

#if RLX_HALF
// Four words of each lane of a quad, transposed: word i becomes the word t of lane i.
RLX_FN void transpose_quad(rlx_u32 (&w)[4]) {
  RLX_UNROLL for (int step = 1; step <= 2; step *= 2) {
    const bool high = (rlx_lane_of_warp & step) != 0;
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      const int low_word = step == 1 ? 2 * i : i;
      const rlx_u32 received = __shfl_xor_sync(0xFFFFFFFFu, high ? w[low_word] : w[low_word + step], step);
      w[low_word] = high ? received : w[low_word];
      w[low_word + step] = high ? w[low_word + step] : received;
    }
  }
}
#endif

// Writes the result of rows that one warp has whole.
template <typename Params>
RLX_FN void write_rows(const Params& p, const Place& at, const Rows& rows, int warp_q) {
  const int g = rlx_lane_of_warp / 4;
  const int t = rlx_lane_of_warp % 4;
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
    RLX_UNROLL for (int h = 0; h < 2; ++h) {
      const int row = at.first_row + (warp_q * kMTiles + m) * 16 + 8 * h + g;
      float shift = rows.shift[m][h];
      float total = quad_sum(rows.total[m][h]);
      float share = 1.0f;
      add_sink(p, at, row, shift, total, share);
      const float inverse = inverse_of(total) * share;
      const bool exists = row < RLX_GROUP_ROWS;
      const rlx_i64 place = rlx_i64(RLX_ROW_OFFSET(at, row, RLX_Y));
      if (exists && t == 0) write_lse(p, at, row, shift, total);
      const float(&out)[kOutTiles][4] = rows.out[m];
#if RLX_HALF && RLX_STAGED
      // Lane t takes the eight columns of tile j + t.
      RLX_UNROLL for (int j = 0; j < kOutTiles; j += 4) {
        rlx_u32 words[4] = {0u, 0u, 0u, 0u};
        RLX_UNROLL for (int i = 0; i < 4; ++i) {
          if (j + i < kOutTiles) {
            words[i] = RLX_CAT(pack_, RLX_X)(out[j + i][2 * h] * inverse, out[j + i][2 * h + 1] * inverse);
          }
        }
        transpose_quad(words);
        const int d = 8 * (j + t);
        if (exists && d < RLX_DV) rlx_put16(p.y, (place + d) * kBytes, rlx_uvec4{words[0], words[1], words[2], words[3]});
      }
#else
      RLX_UNROLL for (int j = 0; j < kOutTiles; j += 4) {
        RLX_UNROLL for (int c = 0; c < 2; ++c) {
          const int i = 2 * h + c;
          const int d = run_column(j, 2 * t + c);
          const rlx_vec4 four{out[j][i] * inverse, out[j + 1][i] * inverse, out[j + 2][i] * inverse, out[j + 3][i] * inverse};
          if (exists && d < RLX_DV) RLX_CAT(rlx_store4_, RLX_X)(p.y, place + d, four);
        }
      }
#endif
    }
  }
}

// Four neighbouring elements of a row and the row's statistics, gathered from `count` holders.
struct Piece {
  float4 sum;
  float shift;
  float total;
};
template <int kCount, typename Stats, typename Sum>
RLX_FN Piece joined_piece(Stats stats, Sum sum) {
  Piece piece{float4{0.0f, 0.0f, 0.0f, 0.0f}, RLX_MINUS_INFINITY, 0.0f};
  float2 held[kCount];
  RLX_UNROLL for (int i = 0; i < kCount; ++i) {
    held[i] = stats(i);
    piece.shift = fmaxf(piece.shift, held[i].x);
  }
  const float reference = finite_or_0(piece.shift);
  RLX_UNROLL for (int i = 0; i < kCount; ++i) {
    const float share = power_of_2(held[i].x - reference);
    const float4 part = sum(i);
    piece.total = fmaf(held[i].y, share, piece.total);
    piece.sum.x = fmaf(part.x, share, piece.sum.x);
    piece.sum.y = fmaf(part.y, share, piece.sum.y);
    piece.sum.z = fmaf(part.z, share, piece.sum.z);
    piece.sum.w = fmaf(part.w, share, piece.sum.w);
  }
  return piece;
}

template <typename Params>
RLX_FN void write_piece(const Params& p, const Place& at, const Piece& piece, int row, int d) {
  if (row >= RLX_GROUP_ROWS) return;
  float shift = piece.shift;
  float total = piece.total;
  float share = 1.0f;
  add_sink(p, at, row, shift, total, share);
  const float inverse = inverse_of(total) * share;
  RLX_CAT(rlx_store4_, RLX_X)(p.y, rlx_i64(RLX_ROW_OFFSET(at, row, RLX_Y) + RLX_INDEX(d)),
                              rlx_vec4{piece.sum.x * inverse, piece.sum.y * inverse, piece.sum.z * inverse, piece.sum.w * inverse});
  if (d == 0) write_lse(p, at, row, shift, total);
}

// Joins what the warps along the keys left. Writes the result, or sends piece i to workgroup i % RLX_SPLITS of the cluster.
template <typename Params>
RLX_FN void join_warps(const Params& p, const Place& at, const float* joined, rlx_u32 received, int split) {
  for (int i = rlx_local_index; i < kPieces; i += RLX_BLOCK_SIZE) {
    const int row = i / (RLX_DV / 4);
    const int d = i % (RLX_DV / 4) * 4;
    const Piece piece = joined_piece<RLX_WARPS_K>(
        [&](int w) { return *reinterpret_cast<const float2*>(joined + kStatsAt + (w * kUsedRows + row) * 2); },
        [&](int w) { return *reinterpret_cast<const float4*>(joined + (w * kUsedRows + row) * kJoinPitch + d); });
    if constexpr (kSplits == 1) {
      write_piece(p, at, piece, at.first_row + row, d);
    } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
      const rlx_u32 place = split * kPiecesEach + i / RLX_SPLITS;
      const rlx_u32 sum = rlx_cluster_address(received + place * 16, i % RLX_SPLITS);
      const rlx_u32 stats = rlx_cluster_address(received + RLX_SPLITS * kPiecesEach * 16 + place * 8, i % RLX_SPLITS);
      asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(sum), "f"(piece.sum.x), "f"(piece.sum.y),
                   "f"(piece.sum.z), "f"(piece.sum.w)
                   : "memory");
      asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(stats), "f"(piece.shift), "f"(piece.total) : "memory");
#endif
    }
  }
}

// Joins what the workgroups of the cluster sent, and writes it.
template <typename Params>
RLX_FN void join_workgroups(const Params& p, const Place& at, const unsigned char* received, int split) {
  const float4* const sums = reinterpret_cast<const float4*>(received);
  const float2* const stats = reinterpret_cast<const float2*>(received + RLX_SPLITS * kPiecesEach * 16);
  for (int i = rlx_local_index; i < kPiecesEach; i += RLX_BLOCK_SIZE) {
    const int piece_index = i * RLX_SPLITS + split;
    if (piece_index >= kPieces) return;
    const Piece piece = joined_piece<RLX_SPLITS>([&](int w) { return stats[w * kPiecesEach + i]; },
                                                 [&](int w) { return sums[w * kPiecesEach + i]; });
    write_piece(p, at, piece, at.first_row + piece_index / (RLX_DV / 4), piece_index % (RLX_DV / 4) * 4);
  }
}

#endif
