// SPDX-License-Identifier: Apache-2.0
// What attention_mma does with rows of scores, whatever way keys and values come: the sizes of its tiles, its products, which keys
// a row may attend to, the running softmax, and the joining of results. Named by the specializations of attention_mma.cu.
// g = lane / 4 and t = lane % 4 are the fragment indices of lib/mma.cuh.
#ifndef RLX_LIB_ATTENTION_MMA_CUH
#define RLX_LIB_ATTENTION_MMA_CUH

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kSplits = 1;
#else
constexpr int kSplits = RLX_SPLITS;
#endif
#define RLX_HALF (RLX_CAT(rlx_bytes_, RLX_X) == 2)
#define RLX_SELECTIVE (RLX_CAUSAL || RLX_WINDOW_LEFT >= 0 || RLX_WINDOW_RIGHT >= 0 || RLX_HAS_MASK || RLX_HAS_BIAS)
#define RLX_MINUS_INFINITY rlx_from_bits(0xFF800000u)

constexpr int kBytes = RLX_CAT(rlx_bytes_, RLX_X);
constexpr int kWordElements = 4 / kBytes;
#if RLX_HAS_KV_LEN
constexpr int kKvLenBytes = RLX_CAT(rlx_bytes_, RLX_KV_LEN);
#endif
constexpr int kRows = RLX_SQ * RLX_FOLD;                     // of one group of heads
constexpr int kMTiles = RLX_M_TILES;                         // 16 rows each
constexpr int kTileRows = 16 * kMTiles * RLX_WARPS_Q;
constexpr int kUsedRows = kTileRows < kRows ? kTileRows : kRows;
constexpr int kNTiles = RLX_STEP_KEYS / 8;                   // 8 keys each
constexpr int kTileKeys = RLX_STEP_KEYS * RLX_WARPS_K;
constexpr int kChunks = (RLX_D / kWordElements + 15) / 16;   // 64 bytes of a q or k row: two depth steps
constexpr int kDepth = RLX_HALF ? 16 : 8;                    // keys of a depth step of the product with v
constexpr int kDepthSteps = RLX_STEP_KEYS / kDepth;
constexpr int kDepthRows = RLX_HALF ? 4 : 2;                 // value rows of a thread in a depth step
// Columns of v by result tile. In order (staged 16-bit values): column c of tile j is 8j + c. Else the tiles of a run of 8 * kVector
// columns interleave, so that a thread reads kVector neighbours: column c of tile kVector * u + e is 8 * kVector * u + kVector * c + e.
constexpr bool kInOrder = RLX_HALF && RLX_STAGED;
constexpr int kVector = RLX_HALF ? (RLX_DV > 32 && (RLX_DV + 63) / 64 * 64 - RLX_DV < 32 ? 8 : 4) : 4;
constexpr int kVectorWords = kVector / kWordElements;
constexpr int kVectors = (RLX_DV + 8 * kVector - 1) / (8 * kVector);
constexpr int kOutTiles = kInOrder ? (RLX_DV + 15) / 16 * 2 : kVectors * kVector;

// Shared memory: stages of keys, then values, rows padded to an odd number of 16-byte units (no bank conflicts); at the end in the
// same place the rows of every warp along the keys, then its {shift, total} by row.
constexpr int kKeyUnits = kChunks * 4;
constexpr int kKeyPitch = (kKeyUnits + 1) * 16;
constexpr int kValueUnits = kOutTiles * 8 * kBytes / 16;
constexpr int kValuePitch = (kValueUnits | 1) * 16;
constexpr int kStageBytes = kTileKeys * (kKeyPitch + kValuePitch);
constexpr int kJoinPitch = RLX_DV + 8;
constexpr int kStatsAt = RLX_WARPS_K * kUsedRows * kJoinPitch;  // in floats, as are those below
constexpr int kGroupStatsAt = kStatsAt + RLX_WARPS_K * kUsedRows * 2;
constexpr int kJoinBytes = (kGroupStatsAt + kUsedRows * 2) * 4;
constexpr int kSharedBytes = RLX_STAGED * kStageBytes > kJoinBytes ? RLX_STAGED * kStageBytes : kJoinBytes;

// ---- where rows and keys stand ----

struct Place {
  RLX_INDEX batch;
  int head;        // first query head of the group
  int first_row;   // of the workgroup's tile
  int position_0;  // of query 0
  int begin;       // keys that some row of the tile may attend to: begin <= key < end
  int end;
};

template <typename Params>
RLX_FN rlx_ptr key_address(const Params& p, const Place& at, RLX_INDEX element) {
  return p.k + rlx_i64(at.batch * RLX_K_B + RLX_INDEX(at.head / RLX_HEADS_PER_KV) * RLX_K_H + element) * kBytes;
}
template <typename Params>
RLX_FN rlx_ptr value_address(const Params& p, const Place& at, RLX_INDEX element) {
  return p.v + rlx_i64(at.batch * RLX_V_B + RLX_INDEX(at.head / RLX_HEADS_PER_KV) * RLX_V_H + element) * kBytes;
}
// Element offset of row r in a tensor of these strides over (batch, head, query).
#define RLX_ROW_OFFSET(at, row, name) \
  ((at).batch * name##_B + RLX_INDEX((at).head + (row) % RLX_FOLD) * name##_H + RLX_INDEX((row) / RLX_FOLD) * name##_S)

// begin and end for the rows of the tile.
RLX_FN void find_keys(Place& at, int key_count, int position_0) {
  const int first_query = at.first_row / RLX_FOLD;
  const int last_query = (min(at.first_row + kTileRows, kRows) - 1) / RLX_FOLD;
  at.position_0 = position_0;
  at.begin = 0;
  at.end = key_count;
#if RLX_WINDOW_LEFT >= 0
  at.begin = max(at.begin, position_0 + first_query - RLX_WINDOW_LEFT);
#endif
#if RLX_WINDOW_RIGHT >= 0
  at.end = min(at.end, position_0 + last_query + RLX_WINDOW_RIGHT + 1);
#endif
#if RLX_CAUSAL
  at.end = min(at.end, position_0 + last_query + 1);
#endif
}

// Reads kv_len and q_start.
template <typename Params>
RLX_FN void read_positions(const Params& p, Place& at) {
  int key_count = RLX_SK;
#if RLX_HAS_KV_LEN
  const rlx_i64 given = rlx_i64(RLX_CAT(rlx_load_, RLX_KV_LEN)(p.kv_len, at.batch * RLX_INDEX(RLX_KV_LEN_STRIDE)));
  key_count = int(min(max(given, rlx_i64(0)), rlx_i64(RLX_SK)));
#endif
#if RLX_HAS_Q_START
  const int position_0 = int(RLX_CAT(rlx_load_, RLX_Q_START)(p.q_start, at.batch * RLX_INDEX(RLX_Q_START_STRIDE)));
#else
  const int position_0 = RLX_ALIGN_END ? key_count - RLX_SQ : 0;
#endif
  find_keys(at, key_count, position_0);
}

// First and last key that causality, windows and kv_len leave to a row.
struct KeyBounds {
  int first;
  int last;
};
RLX_FN KeyBounds bounds_of(const Place& at, int row) {
  const int position = at.position_0 + row / RLX_FOLD;
  KeyBounds bounds{at.begin, at.end - 1};
#if RLX_WINDOW_LEFT >= 0
  bounds.first = max(bounds.first, position - RLX_WINDOW_LEFT);
#endif
#if RLX_WINDOW_RIGHT >= 0
  bounds.last = min(bounds.last, position + RLX_WINDOW_RIGHT);
#endif
#if RLX_CAUSAL
  bounds.last = min(bounds.last, position);
#endif
  return bounds;
}

// False where every key of the step is allowed to all rows of the warp.
RLX_FN bool some_disallowed(const Place& at, int first_row, int first_key) {
#if RLX_HAS_MASK || RLX_HAS_BIAS
  return true;
#else
  const KeyBounds low = bounds_of(at, first_row);
  const KeyBounds high = bounds_of(at, first_row + 16 * kMTiles - 1);
  return first_key < high.first || first_key + RLX_STEP_KEYS - 1 > low.last;
#endif
}

#if RLX_HAS_BIAS
template <typename Params>
RLX_FN float bias_at(const Params& p, const Place& at, int row, int key) {
  if (row >= kRows) return 0.0f;
  return RLX_CAT(rlx_load_, RLX_BIAS)(p.bias, RLX_ROW_OFFSET(at, row, RLX_BIAS) + RLX_INDEX(key) * RLX_BIAS_K);
}
#endif

template <typename Params>
RLX_FN bool is_allowed(const Params& p, const Place& at, const KeyBounds& bounds, int row, int key) {
  if (key < bounds.first || key > bounds.last) return false;
#if RLX_HAS_MASK
  if (row < kRows && !RLX_ATTENDS(RLX_CAT(rlx_load_, RLX_MASK)(p.mask, RLX_ROW_OFFSET(at, row, RLX_MASK) +
                                                                           RLX_INDEX(key) * RLX_MASK_K))) {
    return false;
  }
#endif
#if RLX_HAS_BIAS
  return bias_at(p, at, row, key) != RLX_MINUS_INFINITY;
#else
  return true;
#endif
}

// ---- memory ----

// One or two 8-byte halves, zeros where `inside` is false (the address is not read then).
template <int kWords>
RLX_FN void load_words(rlx_u32 (&words)[kWords], rlx_ptr address, bool inside) {
  RLX_UNROLL for (int i = 0; i < kWords; ++i) words[i] = 0u;
  if constexpr (kWords == 4) {
    if (inside) {
      const rlx_uvec4 read = rlx_raw16(address, 0);
      words[0] = read.x;
      words[1] = read.y;
      words[2] = read.z;
      words[3] = read.w;
    }
  } else {
    if (inside) {
      const rlx_uvec2 read = rlx_raw8(address, 0);
      words[0] = read.x;
      words[1] = read.y;
    }
  }
}

// A word that others may be writing: read from L2, so that no later read finds an old copy in L1.
RLX_FN rlx_u32 load_past_l1(rlx_ptr address) {
  rlx_u32 word;
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(word) : "l"(address) : "memory");
  return word;
}

// Brings a row of whole 16-byte units into L2.
RLX_FN void prefetch_row(rlx_ptr address, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes) : "memory");
#endif
}

// ---- products ----

// A left operand; of 3xTF32 also what rounding to tf32 left over.
struct Left {
  rlx_u32 high[4];
#if !RLX_HALF && RLX_TERMS == 3
  rlx_u32 low[4];
#endif
};

RLX_FN Left left_of(rlx_u32 w0, rlx_u32 w1, rlx_u32 w2, rlx_u32 w3) {
  Left left{{w0, w1, w2, w3}};
#if !RLX_HALF
  RLX_UNROLL for (int i = 0; i < 4; ++i) {
    const float whole = rlx_from_bits(left.high[i]);
    left.high[i] = rlx_tf32(whole);
#if RLX_TERMS == 3
    left.low[i] = rlx_bits(whole - rlx_from_bits(left.high[i]));
#endif
  }
#endif
  return left;
}

// d += a * b. 3xTF32 sums in f32 rounded to nearest: the tensor core truncates, so it only sums within one product.
RLX_FN void multiply_add(float (&d)[4], const Left& a, rlx_u32 b0, rlx_u32 b1) {
#if RLX_HALF
  const rlx_u32 b[2] = {b0, b1};
  RLX_CAT(rlx_mma_, RLX_X)(d, a.high, b);
#else
  const rlx_u32 high[2] = {rlx_tf32(rlx_from_bits(b0)), rlx_tf32(rlx_from_bits(b1))};
#if RLX_TERMS == 3
  const rlx_u32 low[2] = {rlx_bits(rlx_from_bits(b0) - rlx_from_bits(high[0])),
                          rlx_bits(rlx_from_bits(b1) - rlx_from_bits(high[1]))};
  float product[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  rlx_mma_tf32(product, a.low, high);
  rlx_mma_tf32(product, a.high, low);
  rlx_mma_tf32(product, a.high, high);
  RLX_UNROLL for (int i = 0; i < 4; ++i) d[i] += product[i];
#else
  rlx_mma_tf32(d, a.high, high);
#endif
#endif
}

// Scores of key tile n: the two depth steps of chunk c, whose words of k are at hand.
RLX_FN void multiply_chunk(float (&s)[kMTiles][kNTiles][4], const Left (&q)[kMTiles][2 * kChunks], const rlx_u32 (&k)[4], int n,
                           int c) {
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) multiply_add(s[m][n], q[m][2 * c], k[0], k[1]);
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) multiply_add(s[m][n], q[m][2 * c + 1], k[2], k[3]);
}

// The queries as left operands; zeros behind the last row and column. Words of chunk c in depth order: from shared memory k comes
// as words t, t + 4, t + 8, t + 12 of the chunk, straight from memory as words 4t to 4t + 3.
template <typename Params>
RLX_FN void load_queries(Left (&q)[kMTiles][2 * kChunks], const Params& p, const Place& at, int first_row) {
  const int g = rlx_lane_of_warp / 4;
  const int t = rlx_lane_of_warp % 4;
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
    RLX_UNROLL for (int c = 0; c < kChunks; ++c) {
      rlx_u32 words[2][4];
      RLX_UNROLL for (int h = 0; h < 2; ++h) {
        const int row = first_row + 16 * m + 8 * h + g;
#if RLX_STAGED
        RLX_UNROLL for (int i = 0; i < 4; ++i) {
          const int d = (16 * c + 4 * i + t) * kWordElements;
          words[h][i] = 0u;
          if (row < kRows && d < RLX_D) words[h][i] = rlx_raw4(p.q, rlx_i64(RLX_ROW_OFFSET(at, row, RLX_Q) + RLX_INDEX(d)) * kBytes);
        }
#else
        const int d = (16 * c + 4 * t) * kWordElements;
        load_words(words[h], p.q + rlx_i64(RLX_ROW_OFFSET(at, row, RLX_Q) + RLX_INDEX(d)) * kBytes, row < kRows && d < RLX_D);
#endif
      }
      q[m][2 * c] = left_of(words[0][0], words[1][0], words[0][1], words[1][1]);
      q[m][2 * c + 1] = left_of(words[0][2], words[1][2], words[0][3], words[1][3]);
    }
  }
}

// ---- running softmax ----

// Rows g (h = 0) and g + 8 (h = 1) of each tile: `out` is the sum of weight * v, `total` this thread's share of the sum of weights,
// both relative to 2^shift.
struct Rows {
  float shift[kMTiles][2];
  float total[kMTiles][2];
  float out[kMTiles][kOutTiles][4];
};

RLX_FN void clear(Rows& rows) {
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
    RLX_UNROLL for (int h = 0; h < 2; ++h) {
      rows.shift[m][h] = RLX_MINUS_INFINITY;
      rows.total[m][h] = 0.0f;
    }
    RLX_UNROLL for (int j = 0; j < kOutTiles; ++j) {
      RLX_UNROLL for (int i = 0; i < 4; ++i) rows.out[m][j][i] = 0.0f;
    }
  }
}

RLX_FN float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// 2^(shift - reference), where a row that has seen no key has shift -inf.
RLX_FN float finite_or_0(float shift) { return shift == RLX_MINUS_INFINITY ? 0.0f : shift; }

RLX_FN float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xFFFFFFFFu, x, 2));
}
RLX_FN float quad_sum(float x) {
  x += __shfl_xor_sync(0xFFFFFFFFu, x, 1);
  return x + __shfl_xor_sync(0xFFFFFFFFu, x, 2);
}

// Products to scores: soft-cap, bias, and -inf for what is not allowed.
template <typename Params>
RLX_FN void finish_scores(float (&s)[kMTiles][kNTiles][4], const Params& p, const Place& at, int first_row, int first_key,
                          bool partial) {
  const int g = rlx_lane_of_warp / 4;
  const int t = rlx_lane_of_warp % 4;
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
    RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
      RLX_UNROLL for (int i = 0; i < 4; ++i) s[m][n][i] = RLX_SCORE(s[m][n][i]);
    }
  }
  if (!partial) return;
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
    RLX_UNROLL for (int h = 0; h < 2; ++h) {
      const int row = first_row + 16 * m + 8 * h + g;
      const KeyBounds bounds = bounds_of(at, row);
      RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
        RLX_UNROLL for (int c = 0; c < 2; ++c) {
          const int key = first_key + 8 * n + 2 * t + c;
          float& score = s[m][n][2 * h + c];
          if (!is_allowed(p, at, bounds, row, key)) {
            score = RLX_MINUS_INFINITY;
          } else {
#if RLX_HAS_BIAS
            score += bias_at(p, at, row, key);
#endif
          }
        }
      }
    }
  }
}

// Scores to weights relative to the row's maximum so far, to which what was summed before is brought.
RLX_FN void weigh(Rows& rows, float (&s)[kMTiles][kNTiles][4]) {
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
    RLX_UNROLL for (int h = 0; h < 2; ++h) {
      float highest = RLX_MINUS_INFINITY;
      RLX_UNROLL for (int n = 0; n < kNTiles; ++n) highest = fmaxf(highest, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
      const float shift = fmaxf(rows.shift[m][h], quad_max(highest) * RLX_EXPONENT);
      const float reference = finite_or_0(shift);
      const float decay = power_of_2(rows.shift[m][h] - reference);
      rows.shift[m][h] = shift;
      float sum = 0.0f;
      RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
        RLX_UNROLL for (int c = 0; c < 2; ++c) {
          float& weight = s[m][n][2 * h + c];
          weight = power_of_2(fmaf(weight, RLX_EXPONENT, -reference));
          sum += weight;
        }
      }
      rows.total[m][h] = fmaf(rows.total[m][h], decay, sum);
      RLX_UNROLL for (int j = 0; j < kOutTiles; ++j) {
        rows.out[m][j][2 * h] *= decay;
        rows.out[m][j][2 * h + 1] *= decay;
      }
    }
  }
}

// Two values rounded to the storage type, the first in the low half.
RLX_FN rlx_u32 pack_f16(float low, float high) {
  rlx_u32 word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
RLX_FN rlx_u32 pack_bf16(float low, float high) {
  rlx_u32 word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}

// The weights of depth step kk as a left operand.
RLX_FN Left weights_of(const float (&s)[kNTiles][4], int kk) {
#if RLX_HALF
  const auto pack = [](float low, float high) { return RLX_CAT(pack_, RLX_X)(low, high); };
  return Left{{pack(s[2 * kk][0], s[2 * kk][1]), pack(s[2 * kk][2], s[2 * kk][3]), pack(s[2 * kk + 1][0], s[2 * kk + 1][1]),
               pack(s[2 * kk + 1][2], s[2 * kk + 1][3])}};
#else
  return left_of(rlx_bits(s[kk][0]), rlx_bits(s[kk][2]), rlx_bits(s[kk][1]), rlx_bits(s[kk][3]));
#endif
}

// Sign bits where an exponent is all ones (NaN or infinite): one more carries into them.
#define RLX_EXPONENT_STEP_f32 0x00800000u
#define RLX_EXPONENT_STEP_f16 0x04000400u
#define RLX_EXPONENT_STEP_bf16 0x00800080u
RLX_FN rlx_u32 nonfinite_bits(rlx_u32 word) {
  const rlx_u32 signs = RLX_HALF ? 0x80008000u : 0x80000000u;
  return ((word & ~signs) + RLX_CAT(RLX_EXPONENT_STEP_, RLX_X)) & signs;
}

// The sum of weight * v row by row, each with the values of the keys allowed to it alone: some others are not finite.
template <typename Params>
RLX_FN void accumulate_selectively(float (&out)[kOutTiles][4], const Left& weights, const rlx_u32 (&b)[kOutTiles][2],
                                   const Params& p, const Place& at, int first_row, int first_key) {
  const int g = rlx_lane_of_warp / 4;
  const int t = rlx_lane_of_warp % 4;
  RLX_LOOP for (int r = 0; r < 16; ++r) {
    const KeyBounds bounds = bounds_of(at, first_row + r);
    rlx_u32 keep[2];
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
#if RLX_HALF
      const int key = first_key + 8 * i + 2 * t;
      keep[i] = (is_allowed(p, at, bounds, first_row + r, key) ? 0x0000FFFFu : 0u) |
                (is_allowed(p, at, bounds, first_row + r, key + 1) ? 0xFFFF0000u : 0u);
#else
      keep[i] = is_allowed(p, at, bounds, first_row + r, first_key + 2 * t + i) ? 0xFFFFFFFFu : 0u;
#endif
    }
    RLX_UNROLL for (int j = 0; j < kOutTiles; ++j) {
      float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
      multiply_add(sum, weights, b[j][0] & keep[0], b[j][1] & keep[1]);
      RLX_UNROLL for (int i = 0; i < 4; ++i) {
        if (g + i / 2 * 8 == r) out[j][i] += sum[i];
      }
    }
  }
}

// out += weights * v for depth step kk.
template <typename Params>
RLX_FN void accumulate(Rows& rows, const float (&s)[kMTiles][kNTiles][4], const rlx_u32 (&b)[kOutTiles][2], int kk, const Params& p,
                       const Place& at, int first_row, int first_key, bool partial) {
  Left weights[kMTiles];
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) weights[m] = weights_of(s[m], kk);
#if RLX_SELECTIVE
  if (partial) {
    rlx_u32 nonfinite = 0u;
    RLX_UNROLL for (int j = 0; j < kOutTiles; ++j) nonfinite |= nonfinite_bits(b[j][0]) | nonfinite_bits(b[j][1]);
    if (__any_sync(0xFFFFFFFFu, nonfinite != 0u)) {
      RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
        accumulate_selectively(rows.out[m], weights[m], b, p, at, first_row + 16 * m, first_key + kDepth * kk);
      }
      return;
    }
  }
#endif
  RLX_UNROLL for (int j = 0; j < kOutTiles; ++j) {
    RLX_UNROLL for (int m = 0; m < kMTiles; ++m) multiply_add(rows.out[m][j], weights[m], b[j][0], b[j][1]);
  }
}

// ---- joining ----

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
      if constexpr (kInOrder) {
        RLX_UNROLL for (int j = 0; j < kOutTiles; ++j) {
          const int d = 8 * j + 2 * t;
          if (d < RLX_DV) *reinterpret_cast<float2*>(place + d) = float2{rows.out[m][j][2 * h], rows.out[m][j][2 * h + 1]};
        }
      } else {
        RLX_UNROLL for (int j = 0; j < kOutTiles; j += 4) {
          RLX_UNROLL for (int c = 0; c < 2; ++c) {
            const int d = j / kVector * kVector * 8 + kVector * (2 * t + c) + j % kVector;
            if (d < RLX_DV) {
              *reinterpret_cast<float4*>(place + d) = float4{rows.out[m][j][2 * h + c], rows.out[m][j + 1][2 * h + c],
                                                             rows.out[m][j + 2][2 * h + c], rows.out[m][j + 3][2 * h + c]};
            }
          }
        }
      }
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
  if (row >= kRows) return;
  const bool no_key = piece.total == 0.0f;
  const float inverse = no_key ? 0.0f : 1.0f / piece.total;
  const float4 y{piece.sum.x * inverse, piece.sum.y * inverse, piece.sum.z * inverse, piece.sum.w * inverse};
  RLX_CAT(rlx_store4_, RLX_X)(p.y, rlx_i64(RLX_ROW_OFFSET(at, row, RLX_Y) + RLX_INDEX(d)), rlx_vec4{y.x, y.y, y.z, y.w});
#if RLX_HAS_LSE
  if (d == 0) {
    rlx_store_f32(p.lse, (rlx_i64(at.batch) * RLX_HEADS + (at.head + row % RLX_FOLD)) * RLX_SQ + row / RLX_FOLD,
                  no_key ? RLX_MINUS_INFINITY : 0.693147182f * (piece.shift + rlx_log2(piece.total)));
  }
#endif
}

constexpr int kPieces = kUsedRows * (RLX_DV / 4);

// Joins what the warps along the keys left; writes the result, or leaves it for join_workgroups.
template <typename Params>
RLX_FN void join_warps(const Params& p, const Place& at, float* joined) {
  for (int i = rlx_local_index; i < kPieces; i += RLX_BLOCK_SIZE) {
    const int row = i / (RLX_DV / 4);
    const int d = i % (RLX_DV / 4) * 4;
    const Piece piece = joined_piece<RLX_WARPS_K>(
        [&](int w) { return *reinterpret_cast<const float2*>(joined + kStatsAt + (w * kUsedRows + row) * 2); },
        [&](int w) { return *reinterpret_cast<const float4*>(joined + (w * kUsedRows + row) * kJoinPitch + d); });
    if (kSplits == 1) {
      write_piece(p, at, piece, at.first_row + row, d);
    } else {
      *reinterpret_cast<float4*>(joined + row * kJoinPitch + d) = piece.sum;
      if (d == 0) *reinterpret_cast<float2*>(joined + kGroupStatsAt + row * 2) = float2{piece.shift, piece.total};
    }
  }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// Joins what the workgroups of the cluster left: each writes every RLX_SPLITS-th piece.
template <typename Params>
RLX_FN void join_workgroups(const Params& p, const Place& at, float* joined, int split) {
  const rlx_u32 base = rlx_shared_address(joined);
  for (int i = split + RLX_SPLITS * rlx_local_index; i < kPieces; i += RLX_SPLITS * RLX_BLOCK_SIZE) {
    const int row = i / (RLX_DV / 4);
    const int d = i % (RLX_DV / 4) * 4;
    const Piece piece = joined_piece<RLX_SPLITS>(
        [&](int w) { return rlx_cluster_load2(rlx_cluster_address(base + (kGroupStatsAt + row * 2) * 4, w)); },
        [&](int w) { return rlx_cluster_load4(rlx_cluster_address(base + (row * kJoinPitch + d) * 4, w)); });
    write_piece(p, at, piece, at.first_row + row, d);
  }
}
#endif

#endif
