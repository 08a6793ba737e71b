// SPDX-License-Identifier: Apache-2.0
// Up to eight vectors x times a weight matrix decoded on the way: y[v, n] = sum over k of x[v, k] * w[n, k] + bias[n]. With RLX_GROUPED
// each vector is a batch entry of its own and index names its expert's matrix; vectors of no expert give zeros.
// Layout: x and y dense; w and its side tensors as in lib/weights.glsl, experts one after another.
// Grid: RLX_OUTPUT_BLOCKS x RLX_BATCHES groups, spread by split_grid.
//   RLX_W_ALONG_DEPTH 1: RLX_ROWS teams of RLX_LANES threads; a team has RLX_TEAM_OUTPUTS lines and shares out k by pieces of 32.
//     RLX_HELD 1: one vector and weights in blocks; each thread keeps x of two pieces in registers, and the group's RLX_GROUP_OUTPUTS lines
//     pass by, RLX_TEAM_OUTPUTS at a time (RLX_BLOCK_SIZE is RLX_K / 64).
//   0: RLX_LANES threads take 8 neighbouring lines each, RLX_SLICES of them share out k.
// Specializations: the above; lib/weights.glsl; RLX_VECTORS, RLX_K, RLX_N, RLX_GROUP_OUTPUTS lines of a group; RLX_X storage type of x,
//   RLX_X_VECTOR 8: eight neighbours are an aligned load; grouped: RLX_I dtype of the index, generated/experts.inc: RLX_EXPERTS,
//   RLX_EXPERT_BYTES; epilogue of lib/product.glsl.
// Numerics: sums in RLX_ACC, in a fixed order; one rounding at the store. Blocks: the codes of a group that shares a scale are multiplied as
//   whole numbers, and scale and offset applied to the group's sums; a result that is not finite is computed again from decoded weights,
//   since 0 * infinity is none of w * x whose w is not 0.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/product.glsl"
#include "lib/weights.glsl"
#if RLX_W_ALONG_DEPTH
#include "lib/reduce.glsl"
#endif
#if RLX_GROUPED
#include "lib/indexing.glsl"
#include "generated/experts.inc"
#endif

RLX_PARAMS(WeightedMatmulParams);

// x[v, k .. k + 7], zero beyond RLX_K.
RLX_FN void load_x(rlx_ptr x, rlx_u32 v, rlx_u32 k, inout rlx_acc_t values[8]) {
  const rlx_i64 at = rlx_i64(v) * rlx_i64(RLX_K) + rlx_i64(k);
#if RLX_X_VECTOR == 8
  RLX_CAT(rlx_load8_, RLX_X)(x, at, values);
#else
  RLX_UNROLL for (rlx_u32 i = 0u; i < 8u; ++i) {
    values[i] = rlx_acc_t(0);
    if (k + i < rlx_u32(RLX_K)) values[i] = RLX_ELEMENT(RLX_X, x, at + rlx_i64(i));
  }
#endif
}

// y and bias, moved to the batch entry and its expert.
struct Target {
  rlx_ptr base;
  rlx_ptr bias;
};
RLX_FN void store_output(rlx_acc_t value, rlx_u32 v, rlx_u32 n, Target to) {
  const rlx_i64 at = rlx_i64(v) * rlx_i64(RLX_N) + rlx_i64(n);
  RLX_CAT(rlx_store_, RLX_Y)(to.base, at, rlx_finish(value, to.bias, rlx_ptr(0), RLX_INDEX(v), RLX_INDEX(n)));
}

#if RLX_W_ALONG_DEPTH
RLX_GROUP_REDUCE(team_sum, rlx_acc_t, RLX_COMBINE_SUM)

#ifdef RLX_W_ELEMENTS
#define RLX_LINE_PIECES (RLX_K / 32)

// What the elements that share scale and offset add to a sum: of a run of theirs, and the sums of x times their codes and of x.
RLX_FN rlx_acc_t group_value(Piece piece, Run run, rlx_acc_t sum, rlx_acc_t x_sum) {
#if defined(RLX_W_mxfp4)
  const rlx_acc_t factor = piece.offset;
#else
  const rlx_acc_t factor = rlx_acc_t(1);
#endif
  const rlx_acc_t scale = run.scale * rlx_code_unit(run);
  const rlx_acc_t offset = RLX_W_OFFSETS != 0 ? run.offset : -(run.zero * run.scale);
  return (scale * sum + offset * x_sum) * factor;
}

// The words of one piece of each of a team's lines; what lies beyond the matrix repeats its end.
RLX_FN void load_pieces(Weights from, rlx_u32 first, rlx_u32 at, inout Words words[RLX_TEAM_OUTPUTS]) {
  const rlx_u32 inside = min(at, rlx_u32(RLX_LINE_PIECES - 1));
  RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) {
    const rlx_ptr block = rlx_block_address(from, min(first + rlx_u32(r), rlx_u32(RLX_N - 1)), inside / rlx_u32(RLX_W_PIECES));
    words[r] = rlx_load_words(block, inside % rlx_u32(RLX_W_PIECES));
  }
}

// The sums of one piece of every line: those of a group that shares scale and offset first.
RLX_FN void add_piece(rlx_ptr x, rlx_u32 block, rlx_u32 piece, inout Piece pieces[RLX_TEAM_OUTPUTS],
                      inout rlx_acc_t acc[RLX_VECTORS][RLX_TEAM_OUTPUTS]) {
  RLX_UNROLL for (rlx_u32 group = 0u; group < rlx_u32(4 / RLX_RUNS_OF_GROUP); ++group) {
    rlx_acc_t sums[RLX_VECTORS][RLX_TEAM_OUTPUTS];
    rlx_acc_t x_sum[RLX_VECTORS];
    RLX_UNROLL for (int v = 0; v < RLX_VECTORS; ++v) {
      x_sum[v] = rlx_acc_t(0);
      RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) sums[v][r] = rlx_acc_t(0);
    }
    RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_RUNS_OF_GROUP); ++i) {
      const rlx_u32 run = group * rlx_u32(RLX_RUNS_OF_GROUP) + i;
      const rlx_u32 k = block * rlx_u32(RLX_W_ELEMENTS) + rlx_run_place(piece, run);
      rlx_acc_t codes[RLX_TEAM_OUTPUTS][8];
      RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) rlx_run_codes(rlx_run(pieces[r], run), codes[r]);
      RLX_UNROLL for (int v = 0; v < RLX_VECTORS; ++v) {
        rlx_acc_t values[8];
        load_x(x, rlx_u32(v), k, values);
        RLX_UNROLL for (int e = 0; e < 8; ++e) {
          x_sum[v] += values[e];
          RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) sums[v][r] += values[e] * codes[r][e];
        }
      }
    }
    RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) {
      const Run run = rlx_run(pieces[r], group * rlx_u32(RLX_RUNS_OF_GROUP));
      RLX_UNROLL for (int v = 0; v < RLX_VECTORS; ++v) acc[v][r] += group_value(pieces[r], run, sums[v][r], x_sum[v]);
    }
  }
}
#endif

// The sum for one output by one thread from decoded weights.
RLX_FN rlx_acc_t decoded_sum(rlx_ptr x, Weights from, rlx_u32 v, rlx_u32 n) {
  rlx_acc_t total = rlx_acc_t(0);
  RLX_LOOP for (rlx_u32 k = 0u; k < rlx_u32(RLX_K); k += 8u) {
    rlx_acc_t w[8];
    rlx_acc_t values[8];
    rlx_depths8(from, k, n, w);
    load_x(x, v, k, values);
    RLX_UNROLL for (int i = 0; i < 8; ++i) total += values[i] * w[i];
  }
  return total;
}

#if RLX_HELD
// ---- x held in registers ----
#define RLX_HELD_PIECES 2
// Where piece `first + q` of the line is, first being even.
#if RLX_W_ELEMENTS == 32
#define RLX_BLOCK_OF(first, q) ((first) + rlx_u32(q))
#define RLX_PIECE_OF(first, q) 0u
#else
#define RLX_BLOCK_OF(first, q) ((first) / rlx_u32(RLX_W_PIECES))
#define RLX_PIECE_OF(first, q) ((first) % rlx_u32(RLX_W_PIECES) + rlx_u32(q))
#endif
// parts[line * RLX_PART_STRIDE + thread]: the thread's part of the line's sum. RLX_ADDERS threads add up a line; the stride keeps those
// of neighbouring lines to banks of their own.
#define RLX_ADDERS 8
#define RLX_PART_STRIDE (RLX_BLOCK_SIZE + RLX_ADDERS)
RLX_SHARED rlx_acc_t parts[RLX_GROUP_OUTPUTS * RLX_PART_STRIDE];

// x of the thread's pieces, and its sums over what shares a scale.
struct HeldX {
  rlx_acc_t values[RLX_HELD_PIECES][4][8];
  rlx_acc_t sums[RLX_HELD_PIECES / RLX_PIECES_OF_SCALES][4 / RLX_RUNS_OF_GROUP];
};
struct LinePieces {
  Words words[RLX_HELD_PIECES];
};

RLX_FN LinePieces load_line(Weights from, rlx_u32 n, rlx_u32 first) {
  LinePieces line;
  const rlx_ptr start = from.w + rlx_ptr(min(n, rlx_u32(RLX_N - 1))) * rlx_ptr(RLX_K / RLX_W_ELEMENTS * RLX_W_BYTES);
  RLX_UNROLL for (int q = 0; q < RLX_HELD_PIECES; ++q) {
    line.words[q] = rlx_load_words(start + rlx_ptr(RLX_BLOCK_OF(first, q) * rlx_u32(RLX_W_BYTES)), RLX_PIECE_OF(first, q));
  }
  return line;
}

RLX_FN void hold_x(rlx_ptr x, rlx_u32 first, inout HeldX held) {
  RLX_UNROLL for (int q = 0; q < RLX_HELD_PIECES; ++q) {
    const rlx_u32 start = RLX_BLOCK_OF(first, q) * rlx_u32(RLX_W_ELEMENTS);
    RLX_UNROLL for (rlx_u32 run = 0u; run < 4u; ++run) {
      load_x(x, 0u, start + rlx_run_place(RLX_PIECE_OF(first, q), run), held.values[q][run]);
    }
  }
  RLX_UNROLL for (int s = 0; s < RLX_HELD_PIECES / RLX_PIECES_OF_SCALES; ++s) {
    RLX_UNROLL for (int group = 0; group < 4 / RLX_RUNS_OF_GROUP; ++group) {
      held.sums[s][group] = rlx_acc_t(0);
      RLX_UNROLL for (int i = 0; i < RLX_PIECES_OF_SCALES * RLX_RUNS_OF_GROUP; ++i) {
        const int q = s * RLX_PIECES_OF_SCALES + i / RLX_RUNS_OF_GROUP;
        const int run = group * RLX_RUNS_OF_GROUP + i % RLX_RUNS_OF_GROUP;
        RLX_UNROLL for (int e = 0; e < 8; ++e) held.sums[s][group] += held.values[q][run][e];
      }
    }
  }
}

// The thread's part of a line: the codes that share a scale are summed first.
RLX_FN rlx_acc_t line_part(HeldX held, LinePieces line, rlx_u32 first) {
  rlx_acc_t total = rlx_acc_t(0);
  Piece pieces[RLX_HELD_PIECES];
  RLX_UNROLL for (int q = 0; q < RLX_HELD_PIECES; ++q) {
    pieces[q] = rlx_piece(line.words[q], RLX_PIECE_OF(first, q));
  }
  RLX_UNROLL for (int s = 0; s < RLX_HELD_PIECES / RLX_PIECES_OF_SCALES; ++s) {
    RLX_UNROLL for (int group = 0; group < 4 / RLX_RUNS_OF_GROUP; ++group) {
      rlx_acc_t sum = rlx_acc_t(0);
      RLX_UNROLL for (int i = 0; i < RLX_PIECES_OF_SCALES * RLX_RUNS_OF_GROUP; ++i) {
        const int q = s * RLX_PIECES_OF_SCALES + i / RLX_RUNS_OF_GROUP;
        const int run = group * RLX_RUNS_OF_GROUP + i % RLX_RUNS_OF_GROUP;
        rlx_acc_t codes[8];
        rlx_run_codes(rlx_run(pieces[q], rlx_u32(run)), codes);
        RLX_UNROLL for (int e = 0; e < 8; ++e) sum += held.values[q][run][e] * codes[e];
      }
      const Piece scaled = pieces[s * RLX_PIECES_OF_SCALES];
      total += group_value(scaled, rlx_run(scaled, rlx_u32(group * RLX_RUNS_OF_GROUP)), sum, held.sums[s][group]);
    }
  }
  return total;
}

RLX_FN void multiply(rlx_ptr x, Weights from, rlx_u32 block, Target to) {
  const rlx_u32 first = block * rlx_u32(RLX_GROUP_OUTPUTS);
  const rlx_u32 piece = rlx_local_index * rlx_u32(RLX_HELD_PIECES);
  LinePieces next[RLX_TEAM_OUTPUTS];
  RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) next[r] = load_line(from, first + rlx_u32(r), piece);
  HeldX held;
  hold_x(x, piece, held);
  RLX_LOOP for (rlx_u32 line = 0u; line < rlx_u32(RLX_GROUP_OUTPUTS); line += rlx_u32(RLX_TEAM_OUTPUTS)) {
    LinePieces now[RLX_TEAM_OUTPUTS] = next;
    RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) {
      const rlx_u32 ahead = min(line + rlx_u32(RLX_TEAM_OUTPUTS + r), rlx_u32(RLX_GROUP_OUTPUTS - 1));
      next[r] = load_line(from, first + ahead, piece);
    }
    // In a block of its own, so that drivers leave those loads before it.
    if (first + line < rlx_u32(RLX_N)) {
      RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) {
        parts[(line + rlx_u32(r)) * rlx_u32(RLX_PART_STRIDE) + rlx_local_index] = line_part(held, now[r], piece);
      }
    }
  }
  // First each adder's own parts, then those sums.
  rlx_barrier();
  const rlx_u32 adder = rlx_local_index % rlx_u32(RLX_ADDERS);
  for (rlx_u32 line = rlx_local_index / rlx_u32(RLX_ADDERS); line < rlx_u32(RLX_GROUP_OUTPUTS);
       line += rlx_u32(RLX_BLOCK_SIZE / RLX_ADDERS)) {
    const rlx_u32 start = line * rlx_u32(RLX_PART_STRIDE) + adder;
    rlx_acc_t sum = parts[start];
    RLX_UNROLL for (rlx_u32 i = 1u; i < rlx_u32(RLX_BLOCK_SIZE / RLX_ADDERS); ++i) sum += parts[start + i * rlx_u32(RLX_ADDERS)];
    parts[start] = sum;
  }
  rlx_barrier();
  for (rlx_u32 line = rlx_local_index; line < rlx_u32(RLX_GROUP_OUTPUTS); line += rlx_u32(RLX_BLOCK_SIZE)) {
    const rlx_u32 n = first + line;
    if (n < rlx_u32(RLX_N)) {
      rlx_acc_t total = rlx_acc_t(0);
      RLX_UNROLL for (rlx_u32 i = 0u; i < rlx_u32(RLX_ADDERS); ++i) total += parts[line * rlx_u32(RLX_PART_STRIDE) + i];
      if ((rlx_bits(total) & 0x7F800000u) == 0x7F800000u) total = decoded_sum(x, from, 0u, n);
      store_output(total, 0u, n, to);
    }
  }
}

#else
RLX_FN void multiply(rlx_ptr x, Weights from, rlx_u32 block, Target to) {
  const rlx_u32 first = (block * rlx_u32(RLX_ROWS) + rlx_row) * rlx_u32(RLX_TEAM_OUTPUTS);
  rlx_acc_t acc[RLX_VECTORS][RLX_TEAM_OUTPUTS];
  RLX_UNROLL for (int v = 0; v < RLX_VECTORS; ++v) {
    RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) acc[v][r] = rlx_acc_t(0);
  }
#ifdef RLX_W_ELEMENTS
  Words words[RLX_TEAM_OUTPUTS];
  load_pieces(from, first, rlx_lane, words);
  for (rlx_u32 at = rlx_lane; at < rlx_u32(RLX_LINE_PIECES); at += rlx_u32(RLX_LANES)) {
    const rlx_u32 piece = at % rlx_u32(RLX_W_PIECES);
    Piece pieces[RLX_TEAM_OUTPUTS];
    RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) pieces[r] = rlx_piece(words[r], piece);
    // The next ones travel meanwhile.
    load_pieces(from, first, at + rlx_u32(RLX_LANES), words);
    add_piece(x, at / rlx_u32(RLX_W_PIECES), piece, pieces, acc);
  }
#else
  for (rlx_u32 k = 8u * rlx_lane; k < rlx_u32(RLX_K); k += rlx_u32(8 * RLX_LANES)) {
    rlx_acc_t w[RLX_TEAM_OUTPUTS][8];
    RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) rlx_depths8(from, k, first + rlx_u32(r), w[r]);
    RLX_UNROLL for (int v = 0; v < RLX_VECTORS; ++v) {
      rlx_acc_t values[8];
      load_x(x, rlx_u32(v), k, values);
      RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) {
        RLX_UNROLL for (int i = 0; i < 8; ++i) acc[v][r] += values[i] * w[r][i];
      }
    }
  }
#endif
  // Lane v * RLX_TEAM_OUTPUTS + r has output (v, r).
  rlx_acc_t own = rlx_acc_t(0);
  RLX_UNROLL for (int v = 0; v < RLX_VECTORS; ++v) {
    RLX_UNROLL for (int r = 0; r < RLX_TEAM_OUTPUTS; ++r) {
      const rlx_acc_t total = team_sum(acc[v][r]);
      own = rlx_lane == rlx_u32(v * RLX_TEAM_OUTPUTS + r) ? total : own;
    }
  }
  const rlx_u32 n = first + rlx_lane % rlx_u32(RLX_TEAM_OUTPUTS);
  if (rlx_lane < rlx_u32(RLX_VECTORS * RLX_TEAM_OUTPUTS) && n < rlx_u32(RLX_N)) {
    const rlx_u32 v = rlx_lane / rlx_u32(RLX_TEAM_OUTPUTS);
#ifdef RLX_W_ELEMENTS
    if ((rlx_bits(own) & 0x7F800000u) == 0x7F800000u) own = decoded_sum(x, from, v, n);
#endif
    store_output(own, v, n, to);
  }
}
#endif

#else
// parts[j * RLX_BLOCK_SIZE + slice * RLX_LANES + lane], of one vector at a time.
RLX_SHARED rlx_acc_t parts[8 * RLX_BLOCK_SIZE];

RLX_FN void multiply(rlx_ptr x, Weights from, rlx_u32 block, Target to) {
  const rlx_u32 lane = rlx_local_index % rlx_u32(RLX_LANES);
  const rlx_u32 slice = rlx_local_index / rlx_u32(RLX_LANES);
  const rlx_u32 block_first = block * rlx_u32(RLX_LANES * 8);
  rlx_acc_t acc[RLX_VECTORS][8];
  RLX_UNROLL for (int v = 0; v < RLX_VECTORS; ++v) {
    RLX_UNROLL for (int j = 0; j < 8; ++j) acc[v][j] = rlx_acc_t(0);
  }
  for (rlx_u32 k = slice; k < rlx_u32(RLX_K); k += rlx_u32(RLX_SLICES)) {
    rlx_acc_t w[8];
    rlx_columns8(from, k, block_first + lane * 8u, w);
    RLX_UNROLL for (int v = 0; v < RLX_VECTORS; ++v) {
      const rlx_acc_t value = RLX_ELEMENT(RLX_X, x, rlx_i64(v) * rlx_i64(RLX_K) + rlx_i64(k));
      RLX_UNROLL for (int j = 0; j < 8; ++j) acc[v][j] += value * w[j];
    }
  }
  RLX_UNROLL for (int v = 0; v < RLX_VECTORS; ++v) {
    rlx_barrier();
    RLX_UNROLL for (int j = 0; j < 8; ++j) parts[rlx_u32(j * RLX_BLOCK_SIZE) + rlx_local_index] = acc[v][j];
    rlx_barrier();
    for (rlx_u32 i = rlx_local_index; i < rlx_u32(8 * RLX_LANES); i += rlx_u32(RLX_BLOCK_SIZE)) {
      rlx_acc_t total = rlx_acc_t(0);
      for (rlx_u32 s = 0u; s < rlx_u32(RLX_SLICES); ++s) {
        total += parts[i % 8u * rlx_u32(RLX_BLOCK_SIZE) + s * rlx_u32(RLX_LANES) + i / 8u];
      }
      if (block_first + i < rlx_u32(RLX_N)) store_output(total, rlx_u32(v), block_first + i, to);
    }
  }
}
#endif

RLX_MAIN {
  const rlx_u32 group = rlx_u32(rlx_linear_group);
  if (group >= rlx_u32(RLX_OUTPUT_BLOCKS) * rlx_u32(RLX_BATCHES)) return;
  const rlx_u32 block = group % rlx_u32(RLX_OUTPUT_BLOCKS);
  const rlx_i64 batch = rlx_i64(group / rlx_u32(RLX_OUTPUT_BLOCKS));
  const rlx_i64 plane = rlx_i64(RLX_VECTORS) * rlx_i64(RLX_N);
  Weights from;
  from.w = p.w;
  from.scale = p.scale;
  from.zero = p.zero;
  Target to;
  to.bias = p.bias;
  to.base = RLX_AT(p.y, batch * plane, RLX_CAT(rlx_bytes_, RLX_Y));
#if RLX_GROUPED
  const rlx_i64 expert = RLX_CAT(rlx_index_from_, RLX_I)(RLX_CAT(rlx_load_, RLX_I)(p.index, batch));
  if (expert < rlx_i64(0) || expert >= RLX_EXPERTS) {
    RLX_COUNT_OUTSIDE(block == 0u && rlx_local_index == 0u ? 1u : 0u);
    // All groups of the vector leave together; each zeroes its own lines.
    const rlx_u32 lines = rlx_u32(RLX_GROUP_OUTPUTS);
    for (rlx_u32 i = rlx_local_index; i < lines && block * lines + i < rlx_u32(RLX_N); i += rlx_u32(RLX_BLOCK_SIZE)) {
      RLX_CAT(rlx_store_, RLX_Y)(to.base, rlx_i64(block * lines + i), RLX_CAT(rlx_t_, RLX_Y)(0));
    }
    return;
  }
  from.w += rlx_ptr(expert * RLX_EXPERT_BYTES);
#ifdef RLX_BIAS
  to.bias = RLX_AT(p.bias, expert * rlx_i64(RLX_N), RLX_CAT(rlx_bytes_, RLX_BIAS));
#endif
#endif
  multiply(RLX_AT(p.x, batch * rlx_i64(RLX_VECTORS) * rlx_i64(RLX_K), RLX_CAT(rlx_bytes_, RLX_X)), from, block, to);
}
