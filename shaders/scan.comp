// SPDX-License-Identifier: Apache-2.0
// y[row, i] = x[row, 0] o ... o x[row, i], or without x[row, i] itself (RLX_EXCLUSIVE), o being a sum, a product, or the larger or
// smaller of two; of these the first position of the running extreme goes to indices. NaN is the extreme of both.
// Layout: rows and the positions along them are loop positions; generated/rows.inc turns them into element offsets (RLX_X_KEPT,
//   RLX_X_REDUCED, RLX_Y_KEPT, RLX_Y_REDUCED), so the axis may be any and operands strided. With RLX_REVERSE position 0 is the last.
// Grid: RLX_CHUNKS groups for each RLX_ROWS rows, spread by split_grid. With RLX_CHUNKS > 1 there are two dispatches: the first
//   (RLX_TOTALS) writes the total of each chunk to partial[row * RLX_CHUNKS + chunk], of an extreme its position; in the second each
//   group combines the totals of the chunks before its own and goes on from there.
// Specializations: RLX_LANES x RLX_ROWS threads and RLX_BY_COLUMN (lib/reduce.glsl); RLX_ROW_COUNT, RLX_COLS, RLX_CHUNKS,
//   RLX_CHUNK_LENGTH; RLX_COMBINE (SUM, PROD, MAX, MIN) and RLX_EXTREME (1 for the last two); RLX_ITEMS: neighbouring positions that
//   a thread takes at a time; RLX_WIDTH: 1, or RLX_ITEMS where it reads and writes them as 16 bytes; RLX_WORDS: x and y are 32-bit
//   integers; storage types RLX_X, RLX_Y, RLX_PARTIAL, RLX_I (of indices); RLX_HAS_INDICES.
// generated/rows.inc:  RLX_INDEX (type of offsets), RLX_ACC (type of totals), RLX_IDENTITY, RLX_LIFT(v) (to RLX_ACC).
// Numerics: f16, bf16 and f32 accumulate in f32, f64 in f64, integers modulo 2^32 or 2^64; one rounding; the order of the
//   combination depends on the shape alone.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "lib/prelude.glsl"
#include "lib/storage.glsl"
#include "lib/math.glsl"
#include "lib/reduce.glsl"
#include "lib/scan.glsl"
#include "generated/rows.inc"

RLX_PARAMS(ScanParams);

#define RLX_VALUE RLX_CAT(rlx_t_, RLX_X)
#if RLX_REVERSE
#define RLX_AT_POSITION(i) (RLX_INDEX(RLX_COLS - 1) - (i))
#else
#define RLX_AT_POSITION(i) (i)
#endif
#define RLX_LOAD_X(row_offset, i) RLX_CAT(rlx_load_, RLX_X)(p.x, (row_offset) + RLX_X_REDUCED(RLX_AT_POSITION(i)))

#if RLX_EXTREME
// The extreme of some positions; position -1: of none.
struct RLX_ACC {
  RLX_VALUE value;
  RLX_INDEX position;
};

RLX_FN RLX_ACC candidate(RLX_VALUE value, RLX_INDEX position) {
  RLX_ACC made;
  made.value = value;
  made.position = position;
  return made;
}

RLX_FN RLX_ACC rlx_shuffle(RLX_ACC value, rlx_u32 from) {
  return candidate(rlx_shuffle(value.value, from), rlx_shuffle(value.position, from));
}
RLX_FN RLX_ACC rlx_shuffle_xor(RLX_ACC value, rlx_u32 distance) {
  return candidate(rlx_shuffle_xor(value.value, distance), rlx_shuffle_xor(value.position, distance));
}

RLX_FN RLX_ACC combined(RLX_ACC a, RLX_ACC b) {
  if (a.position < RLX_INDEX(0)) return b;
  if (b.position < RLX_INDEX(0)) return a;
  const bool a_nan = rlx_nan(a.value);
  const bool b_nan = rlx_nan(b.value);
  bool take_b = RLX_EXTREME_BEFORE(b.value, a.value);
  if (a.value == b.value) take_b = b.position < a.position;
  if (a_nan || b_nan) take_b = b_nan && (!a_nan || b.position < a.position);
  if (take_b) return b;
  return a;
}
#define RLX_IDENTITY candidate(RLX_VALUE(0), RLX_INDEX(-1))
#define RLX_TERM(v, i) candidate(v, i)
#else
#define RLX_COMBINE_OP RLX_CAT(RLX_COMBINE_, RLX_COMBINE)
RLX_FN RLX_ACC combined(RLX_ACC a, RLX_ACC b) { return RLX_COMBINE_OP(a, b); }
#define RLX_TERM(v, i) RLX_LIFT(v)
#endif

#if !RLX_TOTALS
RLX_GROUP_SCAN(scan_row, RLX_ACC, combined, RLX_IDENTITY)
#endif
#if RLX_CHUNKS > 1
RLX_GROUP_REDUCE(total_of_row, RLX_ACC, combined)
#endif

RLX_MAIN {
  const RLX_INDEX group = RLX_INDEX(rlx_linear_group);
  const RLX_INDEX chunk = group % RLX_INDEX(RLX_CHUNKS);
  const RLX_INDEX row = group / RLX_INDEX(RLX_CHUNKS) * RLX_INDEX(RLX_ROWS) + RLX_INDEX(rlx_row);
  const bool inside = row < RLX_INDEX(RLX_ROW_COUNT);
  const RLX_INDEX kept = inside ? row : RLX_INDEX(0);
  const RLX_INDEX x_row = RLX_X_KEPT(kept);
  const RLX_INDEX begin = chunk * RLX_INDEX(RLX_CHUNK_LENGTH);
  const RLX_INDEX end = min(begin + RLX_INDEX(RLX_CHUNK_LENGTH), RLX_INDEX(RLX_COLS));

  RLX_ACC carry = RLX_IDENTITY;
#if RLX_CHUNKS > 1 && !RLX_TOTALS
  // What the chunks before this one come to.
  for (RLX_INDEX k = RLX_INDEX(rlx_lane); k < chunk; k += RLX_INDEX(RLX_LANES)) {
    const RLX_CAT(rlx_t_, RLX_PARTIAL) part =
        RLX_CAT(rlx_load_, RLX_PARTIAL)(p.partial, kept * RLX_INDEX(RLX_CHUNKS) + k);
#if RLX_EXTREME
    const RLX_INDEX position = RLX_INDEX(part);
    const RLX_ACC earlier = candidate(RLX_LOAD_X(x_row, position), position);
#else
    const RLX_ACC earlier = RLX_ACC(part);
#endif
    carry = combined(carry, earlier);
  }
  carry = total_of_row(carry);
#endif

  for (RLX_INDEX start = begin; start < end; start += RLX_INDEX(RLX_LANES * RLX_ITEMS)) {
    const RLX_INDEX first = start + RLX_INDEX(rlx_lane) * RLX_INDEX(RLX_ITEMS);
    // This thread's positions, each with those before it.
    RLX_ACC held[RLX_ITEMS];
#if RLX_WIDTH > 1
    if (first < end) {
#if RLX_REVERSE
      const RLX_INDEX lowest = RLX_AT_POSITION(first) - RLX_INDEX(RLX_ITEMS - 1);
#else
      const RLX_INDEX lowest = first;
#endif
      RLX_VALUE loaded[RLX_ITEMS];
#if RLX_WORDS
      const rlx_uvec4 words = rlx_raw16(p.x, rlx_i64(x_row + lowest) * 4);
      loaded[0] = RLX_VALUE(words.x);
      loaded[1] = RLX_VALUE(words.y);
      loaded[2] = RLX_VALUE(words.z);
      loaded[3] = RLX_VALUE(words.w);
#elif RLX_WIDTH == 8
      RLX_CAT(rlx_load8_, RLX_X)(p.x, x_row + lowest, loaded);
#else
      const rlx_vec4 four = RLX_CAT(rlx_load4_, RLX_X)(p.x, x_row + lowest);
      loaded[0] = four.x;
      loaded[1] = four.y;
      loaded[2] = four.z;
      loaded[3] = four.w;
#endif
      RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
        held[k] = RLX_TERM(loaded[RLX_REVERSE == 1 ? RLX_ITEMS - 1 - k : k], first + RLX_INDEX(k));
      }
    } else {
      RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) held[k] = RLX_IDENTITY;
    }
#else
    RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
      const RLX_INDEX i = first + RLX_INDEX(k);
      held[k] = RLX_IDENTITY;
      if (i < end) held[k] = RLX_TERM(RLX_LOAD_X(x_row, i), i);
    }
#endif
    RLX_UNROLL for (int k = 1; k < RLX_ITEMS; ++k) held[k] = combined(held[k - 1], held[k]);
#if RLX_TOTALS
    carry = combined(carry, held[RLX_ITEMS - 1]);
#else

    RLX_ACC total;
    RLX_ACC before = scan_row(held[RLX_ITEMS - 1], total);
    before = combined(carry, before);
    carry = combined(carry, total);
    const RLX_INDEX y_row = RLX_Y_KEPT(kept);
    if (inside && first < end) {
      RLX_CAT(rlx_t_, RLX_Y) result[RLX_ITEMS];
      RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
#if RLX_EXTREME
        const RLX_ACC best = combined(before, held[k]);
        result[k] = best.value;
#if RLX_HAS_INDICES
        const RLX_INDEX i = first + RLX_INDEX(k);
        if (i < end) {
          RLX_CAT(rlx_store_, RLX_I)(p.indices, y_row + RLX_Y_REDUCED(RLX_AT_POSITION(i)),
                                     RLX_CAT(rlx_t_, RLX_I)(RLX_AT_POSITION(best.position)));
        }
#endif
#elif RLX_EXCLUSIVE
        result[k] = RLX_CAT(rlx_t_, RLX_Y)(before);
        if (k > 0) result[k] = RLX_CAT(rlx_t_, RLX_Y)(combined(before, held[k > 0 ? k - 1 : 0]));
#else
        result[k] = RLX_CAT(rlx_t_, RLX_Y)(combined(before, held[k]));
#endif
      }
#if RLX_WIDTH > 1
#if RLX_REVERSE
      const RLX_INDEX place = y_row + RLX_AT_POSITION(first) - RLX_INDEX(RLX_ITEMS - 1);
      RLX_UNROLL for (int k = 0; k < RLX_ITEMS / 2; ++k) {
        const RLX_CAT(rlx_t_, RLX_Y) swapped = result[k];
        result[k] = result[RLX_ITEMS - 1 - k];
        result[RLX_ITEMS - 1 - k] = swapped;
      }
#else
      const RLX_INDEX place = y_row + first;
#endif
#if RLX_WORDS
      rlx_uvec4 words;
      words.x = rlx_u32(result[0]);
      words.y = rlx_u32(result[1]);
      words.z = rlx_u32(result[2]);
      words.w = rlx_u32(result[3]);
      rlx_put16(p.y, rlx_i64(place) * 4, words);
#elif RLX_WIDTH == 8
      RLX_CAT(rlx_store8_, RLX_Y)(p.y, place, result);
#else
      rlx_vec4 four;
      four.x = result[0];
      four.y = result[1];
      four.z = result[2];
      four.w = result[3];
      RLX_CAT(rlx_store4_, RLX_Y)(p.y, place, four);
#endif
#else
      RLX_UNROLL for (int k = 0; k < RLX_ITEMS; ++k) {
        const RLX_INDEX i = first + RLX_INDEX(k);
        if (i < end) RLX_CAT(rlx_store_, RLX_Y)(p.y, y_row + RLX_Y_REDUCED(RLX_AT_POSITION(i)), result[k]);
      }
#endif
    }
#endif
  }
#if RLX_TOTALS
  carry = total_of_row(carry);
  if (inside && rlx_lane == 0u) {
#if RLX_EXTREME
    const RLX_INDEX result = carry.position;
#else
    const RLX_ACC result = carry;
#endif
    RLX_CAT(rlx_store_, RLX_PARTIAL)(p.partial, row * RLX_INDEX(RLX_CHUNKS) + chunk, RLX_CAT(rlx_t_, RLX_PARTIAL)(result));
  }
#endif
}
