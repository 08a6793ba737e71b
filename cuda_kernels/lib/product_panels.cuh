// SPDX-License-Identifier: Apache-2.0
// The panels of matmul_mma in shared memory, and how its threads copy an operand's there.
// The including kernel has kElementBytes, kChunk (elements of a 16-byte piece), kThreads; RLX_K, RLX_TILE_K; RLX_INDEX.
#ifndef RLX_LIB_PRODUCT_PANELS_CUH
#define RLX_LIB_PRODUCT_PANELS_CUH

// One operand's panel in shared memory. Along the depth: [lines][RLX_TILE_K] with the pieces of a row exchanged so that eight
// rows touch all banks (rows are 128 bytes or more). Along the lines: [RLX_TILE_K][lines], rows padded for the same reason.
template <rlx_u32 kLines, bool kByLine>
struct Panel {
  static constexpr rlx_u32 kRows = kByLine ? RLX_TILE_K : kLines;
  static constexpr rlx_u32 kRowChunks = (kByLine ? kLines : RLX_TILE_K) / kChunk;
  static constexpr rlx_u32 kPitch = kRowChunks * 16 + (kByLine ? kElementBytes * 8 : 0);
  static constexpr rlx_u32 kBytes = kRows * kPitch;
  static_assert(kByLine || kRowChunks % 8 == 0, "rows of whole 128 bytes");

  // Byte position of a piece.
  static RLX_FN rlx_u32 at(rlx_u32 row, rlx_u32 chunk) {
    return row * kPitch + (kByLine ? chunk : (chunk ^ (row & 7u))) * 16u;
  }
};

// A piece of halves by single elements, those from element `first` on, of which `count` exist, `stride` apart: no asynchronous copy
// is that narrow.
RLX_FN void copy_halves(rlx_u32 shared, rlx_ptr base, RLX_INDEX first, RLX_INDEX stride, rlx_u32 count) {
  rlx_u32 words[4] = {};
  RLX_UNROLL for (rlx_u32 e = 0; e < 8u; ++e) {
    const rlx_u32 bits = e < count ? rlx_u32(rlx_load_u16(base, rlx_i64(first + RLX_INDEX(e) * stride))) : 0u;
    words[e / 2u] |= bits << (e % 2u * 16u);
  }
  rlx_shared_store4(shared, words);
}

// Copies one operand's panels, block after block of depth, each thread its pieces.
template <typename P, bool kByLine, rlx_u32 kCopyBytes>
struct PanelCopies {
  static constexpr rlx_u32 kRowStep = kThreads / P::kRowChunks;
  // A thread's pieces lie one below the other: what they come from and go to differs by constants.
  static constexpr bool kInColumn = !kByLine && kCopyBytes == 16 && kThreads % P::kRowChunks == 0 && kRowStep % 8 == 0;
  static constexpr rlx_u32 kPieces = (P::kRows * P::kRowChunks + kThreads - 1) / kThreads;

  rlx_ptr base;
  rlx_u32 line;   // of the panels' first
  rlx_u32 depth;  // of the first block
  rlx_u32 lines;  // of the array
  rlx_i64 line_stride;
  rlx_i64 depth_stride;
  rlx_ptr source;  // in a column: of the first piece of the first block

  // Before anything is copied.
  RLX_FN void begin() {
    if constexpr (kInColumn) {
      const RLX_INDEX row = RLX_INDEX(line + rlx_local_index / P::kRowChunks) * RLX_INDEX(line_stride);
      source = RLX_AT(RLX_AT(RLX_AT(base, depth, kElementBytes), rlx_local_index % P::kRowChunks, 16), row, kElementBytes);
    }
  }

  RLX_FN void copy(rlx_u32 shared, rlx_u32 block) const {
    if constexpr (kInColumn) {
      copy_column(shared, block);
    } else {
      copy_pieces(shared, depth + block * RLX_TILE_K);
    }
  }

  // Lines beyond the array's stay what they were: what is made of them is not stored.
  RLX_FN void copy_column(rlx_u32 shared, rlx_u32 block) const {
    const rlx_u32 row = rlx_local_index / P::kRowChunks;
    const rlx_u32 chunk = rlx_local_index % P::kRowChunks;
    const rlx_u32 place = shared + P::at(row, chunk);
    const bool all_exist = lines % P::kRows == 0u;
    rlx_ptr from = source + rlx_ptr(block) * rlx_ptr(RLX_TILE_K * kElementBytes);
    rlx_u32 bytes = 16;
    if (RLX_K % RLX_TILE_K != 0) {
      const rlx_u32 at_depth = depth + block * RLX_TILE_K + chunk * kChunk;
      bytes = at_depth < rlx_u32(RLX_K) ? min(16u, (rlx_u32(RLX_K) - at_depth) * kElementBytes) : 0u;
      if (bytes == 0u) from = source - rlx_ptr(chunk * 16u);
    }
    RLX_UNROLL for (rlx_u32 piece = 0; piece < kPieces; ++piece) {
      const rlx_u32 below = piece * kRowStep;
      const bool is_in_panel = below + kRowStep <= P::kRows || row + below < P::kRows;
      const bool exists = is_in_panel && (all_exist || line + row + below < lines);
      rlx_copy16_async_if(exists, place + below * P::kPitch, RLX_AT(from, below * line_stride, kElementBytes), bytes);
    }
  }

  // Zeros beyond the array's lines.
  RLX_FN void copy_pieces(rlx_u32 shared, rlx_u32 first_depth) const {
    const bool whole_lines = lines % (kByLine ? P::kRowChunks * kChunk : P::kRows) == 0u;
    RLX_UNROLL for (rlx_u32 piece = 0; piece < kPieces; ++piece) {
      const rlx_u32 index = rlx_local_index + piece * kThreads;
      if (P::kRows * P::kRowChunks % kThreads != 0 && index >= P::kRows * P::kRowChunks) break;
      const rlx_u32 row = index / P::kRowChunks;
      const rlx_u32 chunk = index % P::kRowChunks;
      if constexpr (kCopyBytes == 2) {
        const rlx_u32 at_line = line + (kByLine ? chunk * kChunk : row);
        const rlx_u32 at_depth = first_depth + (kByLine ? row : chunk * kChunk);
        const rlx_u32 lines_left = at_line < lines ? lines - at_line : 0u;
        const rlx_u32 depth_left = at_depth < rlx_u32(RLX_K) ? rlx_u32(RLX_K) - at_depth : 0u;
        const bool across = kByLine ? depth_left > 0u : lines_left > 0u;
        const RLX_INDEX first = RLX_INDEX(at_line) * RLX_INDEX(line_stride) + RLX_INDEX(at_depth) * RLX_INDEX(depth_stride);
        copy_halves(shared + P::at(row, chunk), base, first, RLX_INDEX(kByLine ? line_stride : depth_stride),
                    across ? (kByLine ? lines_left : depth_left) : 0u);
        continue;
      }
      RLX_UNROLL for (rlx_u32 part = 0; part < 16u; part += kCopyBytes) {
        const rlx_u32 along = chunk * kChunk + part / kElementBytes;
        rlx_u32 at_line = line + (kByLine ? along : row);
        rlx_u32 at_depth = first_depth + (kByLine ? row : along);
        rlx_u32 bytes = kCopyBytes;
        if (!whole_lines) {
          const rlx_u32 left = at_line < lines ? lines - at_line : 0u;
          bytes = kByLine ? min(bytes, left * kElementBytes) : left > 0u ? bytes : 0u;
        }
        if (RLX_K % RLX_TILE_K != 0) {
          const rlx_u32 left = at_depth < rlx_u32(RLX_K) ? rlx_u32(RLX_K) - at_depth : 0u;
          bytes = kByLine ? (left > 0u ? bytes : 0u) : min(bytes, left * kElementBytes);
        }
        if (bytes == 0u) at_line = at_depth = 0u;
        const RLX_INDEX element = RLX_INDEX(at_line) * RLX_INDEX(line_stride) + RLX_INDEX(at_depth) * RLX_INDEX(depth_stride);
        rlx_copy_async<kCopyBytes>(shared + P::at(row, chunk) + part, RLX_AT(base, element, kElementBytes), bytes);
      }
    }
  }
};

#endif
