// SPDX-License-Identifier: Apache-2.0
// What attention_mma does with rows of scores, whatever way keys and values come: the sizes of its tiles, its products, which keys
// a row may attend to, and the running softmax. Named by the specializations of attention_mma.cu.
// g = lane / 4 and t = lane % 4 are the fragment indices of lib/mma.cuh.
#ifndef RLX_LIB_ATTENTION_MMA_CUH
#define RLX_LIB_ATTENTION_MMA_CUH

#define RLX_HALF (RLX_CAT(rlx_bytes_, RLX_X) == 2)
#define RLX_SELECTIVE (RLX_CAUSAL || RLX_WINDOW_LEFT >= 0 || RLX_WINDOW_RIGHT >= 0 || RLX_HAS_MASK || RLX_HAS_BIAS)
#define kBf16_f32 false
#define kBf16_f16 false
#define kBf16_bf16 true
#define RLX_MINUS_INFINITY rlx_from_bits(0xFF800000u)

constexpr bool kBf16 = RLX_CAT(kBf16_, RLX_X);
constexpr int kBytes = RLX_CAT(rlx_bytes_, RLX_X);
constexpr int kWordElements = 4 / kBytes;
#if RLX_HAS_KV_LEN
constexpr int kKvLenBytes = RLX_CAT(rlx_bytes_, RLX_KV_LEN);
#endif
#define RLX_GROUP_ROWS (RLX_SQ * RLX_FOLD)                   // of one group of heads
constexpr int kMTiles = RLX_M_TILES;                         // 16 rows each
constexpr int kTileRows = 16 * kMTiles * RLX_WARPS_Q;
constexpr int kUsedRows = kTileRows < RLX_MOST_SQ * RLX_FOLD ? kTileRows : RLX_MOST_SQ * RLX_FOLD;
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
constexpr int kGroup = kOutTiles % 4 == 0 ? 4 : 2;  // result tiles whose operands are held at once
// The queries stay in registers, or (long rows) are read again for every step.
constexpr bool kQueriesHeld = kChunks <= 4;

// A staged tile of keys or values is one panel (lib/wgmma.cuh) per 128 bytes of a row; the last may be used in part.
constexpr int kKeyPieces = kChunks * 4;  // 16-byte pieces of a row
constexpr int kValuePieces = kOutTiles * 8 * kBytes / 16;
constexpr int kPanelBytes = kTileKeys * 128;
constexpr int kKeyPanels = (kKeyPieces + 7) / 8;
constexpr int kValuePanels = (kValuePieces + 7) / 8;
constexpr int kStageBytes = (kKeyPanels + kValuePanels) * kPanelBytes;

// Shared memory: the stages, each its keys and then its values; in the same place at the end (counted in floats from there) the
// rows that every warp along the keys found, and their {shift, total}. Behind both what the other workgroups of a cluster send:
// sums and {shift, total} of every piece of four columns that this workgroup writes.
constexpr int kJoinPitch = RLX_DV + 8;
constexpr int kStatsAt = RLX_WARPS_K * kUsedRows * kJoinPitch;
constexpr int kJoinBytes = (kStatsAt + RLX_WARPS_K * kUsedRows * 2) * 4;
constexpr int kStagesBytes = RLX_STAGED * kStageBytes;
constexpr int kOwnBytes = ((kStagesBytes > kJoinBytes ? kStagesBytes : kJoinBytes) + 15) / 16 * 16;
constexpr int kPieces = kUsedRows * (RLX_DV / 4);
constexpr int kPiecesEach = (kPieces + RLX_SPLITS - 1) / RLX_SPLITS;
constexpr int kSentBytes = RLX_SPLITS > 1 ? RLX_SPLITS * kPiecesEach * 24 : 0;
constexpr int kSpareBytes = RLX_STAGED ? 1024 : 0;  // panels begin at multiples of 1024
constexpr int kEverywhereBytes = 99 * 1024;
// Workgroups that share keys are a cluster; where there are none, or not with so much memory, the first one does all.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int kSplits = 1;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
constexpr int kSplits = kOwnBytes + kSentBytes + kSpareBytes <= kEverywhereBytes ? RLX_SPLITS : 1;
#else
constexpr int kSplits = RLX_SPLITS;
#endif
constexpr int kReceivedBytes = kSplits > 1 ? kSentBytes : 0;
constexpr int kSharedBytes = kOwnBytes + kReceivedBytes + kSpareBytes;
static_assert(kSharedBytes <= (kSplits > 1 ? 227 * 1024 : kEverywhereBytes));

// Warpgroups multiply where the architecture has wgmma: tiles of 64 rows, keys and values read from their panels.
constexpr bool kWarpgroups = RLX_HAS_WGMMA && kInOrder && RLX_M_TILES == 1 && RLX_WARPS_Q % 4 == 0 && RLX_WARPS_K == 1;
constexpr int kUnitRows = kWarpgroups ? 64 : 16 * kMTiles;  // rows that take the same way through the keys

// ---- where rows and keys stand ----

struct Place {
  RLX_INDEX batch;
  int head;        // first query head of the group
  int first_row;   // of the workgroup's tile
  int position_0;  // of query 0
  int begin;       // keys that some row of the tile may attend to: begin <= key < end
  int end;
};

// The address of a key's row.
template <typename Params>
RLX_FN rlx_ptr k_row(const Params& p, const Place& at, int key) {
  return p.k + rlx_i64(at.batch * RLX_K_B + RLX_INDEX(at.head / RLX_HEADS_PER_KV) * RLX_K_H + RLX_INDEX(key) * RLX_K_S) * kBytes;
}
template <typename Params>
RLX_FN rlx_ptr v_row(const Params& p, const Place& at, int key) {
  return p.v + rlx_i64(at.batch * RLX_V_B + RLX_INDEX(at.head / RLX_HEADS_PER_KV) * RLX_V_H + RLX_INDEX(key) * RLX_V_S) * kBytes;
}
// Element offset of row r in a tensor of these strides over (batch, head, query).
#define RLX_ROW_OFFSET(at, row, name) \
  ((at).batch * name##_B + RLX_INDEX((at).head + (row) % RLX_FOLD) * name##_H + RLX_INDEX((row) / RLX_FOLD) * name##_S)

// begin and end for the rows of the tile.
RLX_FN void find_keys(Place& at, int key_count, int position_0) {
  [[maybe_unused]] const int first_query = at.first_row / RLX_FOLD;
  [[maybe_unused]] const int last_query = (min(at.first_row + kTileRows, RLX_GROUP_ROWS) - 1) / RLX_FOLD;
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
  [[maybe_unused]] const int position = at.position_0 + row / RLX_FOLD;
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

// False where every key of the step is allowed to all rows of the unit.
RLX_FN bool some_disallowed(const Place& at, int unit_row, int first_key) {
#if RLX_HAS_MASK || RLX_HAS_BIAS
  return true;
#else
  const KeyBounds low = bounds_of(at, unit_row);
  const KeyBounds high = bounds_of(at, unit_row + kUnitRows - 1);
  return first_key < high.first || first_key + RLX_STEP_KEYS - 1 > low.last;
#endif
}

// True where no key of the step is allowed to any row of the unit.
RLX_FN bool all_disallowed(const Place& at, int unit_row, int first_key) {
  const KeyBounds low = bounds_of(at, unit_row);
  const KeyBounds high = bounds_of(at, unit_row + kUnitRows - 1);
  return first_key > high.last || first_key + RLX_STEP_KEYS <= low.first;
}

// Bias and mask of a row and key; rows and keys that are not there have those of the last ones.
#if RLX_HAS_BIAS
template <typename Params>
RLX_FN float bias_at(const Params& p, const Place& at, int row, int key) {
  row = min(row, RLX_GROUP_ROWS - 1);
  return RLX_CAT(rlx_load_, RLX_BIAS)(p.bias, RLX_ROW_OFFSET(at, row, RLX_BIAS) + RLX_INDEX(min(key, RLX_SK - 1)) * RLX_BIAS_K);
}
// Of an even key and the next one.
#if RLX_BIAS_PAIRS
RLX_FN rlx_vec2 load_pair_f32(rlx_ptr base, rlx_i64 i) {
  const rlx_uvec2 words = rlx_raw8(base, i * 4);
  return rlx_vec2{rlx_from_bits(words.x), rlx_from_bits(words.y)};
}
RLX_FN rlx_vec2 load_pair_f16(rlx_ptr base, rlx_i64 i) { return rlx_unpack_f16x2(rlx_raw4(base, i * 2)); }
RLX_FN rlx_vec2 load_pair_bf16(rlx_ptr base, rlx_i64 i) { return rlx_unpack_bf16x2(rlx_raw4(base, i * 2)); }
#endif
template <typename Params>
RLX_FN rlx_vec2 bias_pair_at(const Params& p, const Place& at, int row, int key) {
#if RLX_BIAS_PAIRS
  row = min(row, RLX_GROUP_ROWS - 1);
  return RLX_CAT(load_pair_, RLX_BIAS)(p.bias, RLX_ROW_OFFSET(at, row, RLX_BIAS) + RLX_INDEX(min(key, RLX_SK - 2)));
#else
  return rlx_vec2{bias_at(p, at, row, key), bias_at(p, at, row, key + 1)};
#endif
}
#endif
#if RLX_HAS_MASK
template <typename Params>
RLX_FN bool attends_at(const Params& p, const Place& at, int row, int key) {
  row = min(row, RLX_GROUP_ROWS - 1);
  return RLX_ATTENDS(RLX_CAT(rlx_load_, RLX_MASK)(p.mask, RLX_ROW_OFFSET(at, row, RLX_MASK) + RLX_INDEX(min(key, RLX_SK - 1)) * RLX_MASK_K));
}
#endif

template <typename Params>
RLX_FN bool is_allowed(const Params& p, const Place& at, const KeyBounds& bounds, int row, int key) {
  bool allowed = key >= bounds.first && key <= bounds.last;
#if RLX_HAS_MASK
  allowed = allowed && attends_at(p, at, row, key);
#endif
#if RLX_HAS_BIAS
  allowed = allowed && bias_at(p, at, row, key) != RLX_MINUS_INFINITY;
#endif
  return allowed;
}

// ---- memory ----

// 16 or 8 bytes of global memory, zeros where `inside` is false (nothing is read then). Loads stay in the order of the source.
template <int kWords>
RLX_FN void load_words(rlx_u32 (&words)[kWords], rlx_ptr address, bool inside) {
  RLX_UNROLL for (int i = 0; i < kWords; ++i) words[i] = 0u;
  if (!inside) return;
  if constexpr (kWords == 4) {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(address));
  } else if constexpr (kWords == 2) {
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(address));
  } else {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(words[0]) : "l"(address));
  }
}

// A word that others may be writing: read from L2, so that no later read finds an old copy in L1.
RLX_FN rlx_u32 load_past_l1(rlx_ptr address) {
  rlx_u32 word;
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(word) : "l"(address) : "memory");
  return word;
}

// Brings a row into L2.
RLX_FN void prefetch_row(rlx_ptr address, int bytes) {
  RLX_UNROLL for (int at = 0; at < bytes; at += 128) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address + rlx_ptr(at)) : "memory");
  }
}

// ---- products ----

// An operand of a product; of 3xTF32 also what rounding to tf32 left over.
template <int kWords>
struct Operand {
  rlx_u32 high[kWords];
#if !RLX_HALF && RLX_TERMS == 3
  rlx_u32 low[kWords];
#endif
};
using Left = Operand<4>;
using Right = Operand<2>;

template <int kWords>
RLX_FN void split_terms(Operand<kWords>& operand) {
#if !RLX_HALF
  RLX_UNROLL for (int i = 0; i < kWords; ++i) {
    const float whole = rlx_from_bits(operand.high[i]);
#if RLX_TERMS == 3
    // To nearest, ties away from zero. A NaN may lose itself in the high part, but not in the low one.
    operand.high[i] = (operand.high[i] + 0x1000u) & 0xFFFFE000u;
    operand.low[i] = rlx_bits(whole - rlx_from_bits(operand.high[i]));
#else
    operand.high[i] = rlx_tf32(whole);
#endif
  }
#endif
}
RLX_FN Left left_of(rlx_u32 w0, rlx_u32 w1, rlx_u32 w2, rlx_u32 w3) {
  Left left{{w0, w1, w2, w3}};
  split_terms(left);
  return left;
}
RLX_FN Right right_of(rlx_u32 w0, rlx_u32 w1) {
  Right right{{w0, w1}};
  split_terms(right);
  return right;
}

// d[i] += a * b[i], so ordered that no product waits for the one before it. 3xTF32 sums in f32 rounded to nearest: the tensor core
// truncates, so it only sums within one product.
template <int kCount>
RLX_FN void multiply_add(float (*d)[4], const Left& a, const Right (&b)[kCount]) {
#if RLX_HALF
  RLX_UNROLL for (int i = 0; i < kCount; ++i) RLX_CAT(rlx_mma_, RLX_X)(d[i], a.high, b[i].high);
#elif RLX_TERMS == 1
  RLX_UNROLL for (int i = 0; i < kCount; ++i) rlx_mma_tf32(d[i], a.high, b[i].high);
#else
  constexpr int kAtOnce = kCount % 8 == 0 ? 8 : kCount % 4 == 0 ? 4 : kCount % 2 == 0 ? 2 : 1;
  RLX_UNROLL for (int first = 0; first < kCount; first += kAtOnce) {
    float product[kAtOnce][4];
    RLX_UNROLL for (int i = 0; i < kAtOnce; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) product[i][e] = 0.0f;
      rlx_mma_tf32(product[i], a.low, b[first + i].high);
    }
    RLX_UNROLL for (int i = 0; i < kAtOnce; ++i) rlx_mma_tf32(product[i], a.high, b[first + i].low);
    RLX_UNROLL for (int i = 0; i < kAtOnce; ++i) rlx_mma_tf32(product[i], a.high, b[first + i].high);
    RLX_UNROLL for (int i = 0; i < kAtOnce; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) d[first + i][e] += product[i][e];
    }
  }
#endif
}

// Words of the queries' left operands (not yet split into terms: that would take twice the registers). Zeros behind the last row
// and column. Words of chunk c in depth order: from shared memory k comes as words t, t + 4, t + 8, t + 12 of the chunk, straight
// from memory as words 4t to 4t + 3.
struct Queries {
  rlx_ptr rows[kMTiles][2];   // of rows g and g + 8
  bool is_there[kMTiles][2];  // ptxas 13.0 tested a row of 0 too early: a warp without rows read from it
  rlx_u32 words[kMTiles][2 * kChunks][4];

  template <typename Params>
  RLX_FN Queries(const Params& p, const Place& at, int first_row) {
    RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
      RLX_UNROLL for (int h = 0; h < 2; ++h) {
        const int row = first_row + 16 * m + 8 * h + int(rlx_lane_of_warp / 4);
        rows[m][h] = p.q + rlx_i64(RLX_ROW_OFFSET(at, row, RLX_Q)) * kBytes;
        is_there[m][h] = row < RLX_GROUP_ROWS;
      }
      if constexpr (kQueriesHeld) {
        RLX_UNROLL for (int c = 0; c < kChunks; ++c) load(m, c);
      }
    }
  }

  // The left operand of depth steps 2c and 2c + 1.
  RLX_FN Left of(int m, int step) {
    if (!kQueriesHeld && step % 2 == 0) load(m, step / 2);
    const rlx_u32(&w)[4] = words[m][step];
    return left_of(w[0], w[1], w[2], w[3]);
  }

 private:
  RLX_FN void load(int m, int c) {
    const int t = rlx_lane_of_warp % 4;
    RLX_UNROLL for (int h = 0; h < 2; ++h) {
      rlx_u32 read[4];
#if RLX_STAGED
      RLX_UNROLL for (int i = 0; i < 4; ++i) {
        const int byte = (16 * c + 4 * i + t) * 4;
        rlx_u32 word[1];
        load_words(word, rows[m][h] + byte, is_there[m][h] && byte < RLX_D * kBytes);
        read[i] = word[0];
      }
#else
      const int byte = (16 * c + 4 * t) * 4;
      load_words(read, rows[m][h] + byte, is_there[m][h] && byte < RLX_D * kBytes);
#endif
      RLX_UNROLL for (int i = 0; i < 4; ++i) words[m][2 * c + i / 2][i % 2 * 2 + h] = read[i];
    }
  }
};

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

RLX_FN void clear(float (&s)[kMTiles][kNTiles][4]) {
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
    RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
      RLX_UNROLL for (int i = 0; i < 4; ++i) s[m][n][i] = 0.0f;
    }
  }
}

// What bias and mask say of a step's scores, in their order. All of it is asked for at once, beside the products: a load behind
// each score's own test was waited for score by score (four steps of 64 keys and a bias on an H200: 36 us, now 12).
struct ScoreFacts {
#if RLX_HAS_BIAS
  float bias[kMTiles][kNTiles][4];
#endif
#if RLX_HAS_MASK
  rlx_u32 attends[kMTiles];  // a bit for each score of a tile
  static_assert(kNTiles * 4 <= 32);
#endif

  template <typename Params>
  RLX_FN ScoreFacts(const Params& p, const Place& at, int first_row, int first_key) {
#if RLX_HAS_BIAS || RLX_HAS_MASK
    RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
#if RLX_HAS_MASK
      attends[m] = 0u;
#endif
      RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
        RLX_UNROLL for (int h = 0; h < 2; ++h) {
          const int row = first_row + 16 * m + 8 * h + int(rlx_lane_of_warp / 4);
          const int key = first_key + 8 * n + 2 * int(rlx_lane_of_warp % 4);
#if RLX_HAS_BIAS
          const rlx_vec2 pair = bias_pair_at(p, at, row, key);
          bias[m][n][2 * h] = pair.x;
          bias[m][n][2 * h + 1] = pair.y;
#endif
#if RLX_HAS_MASK
          RLX_UNROLL for (int c = 0; c < 2; ++c)
            attends[m] |= rlx_u32(attends_at(p, at, row, key + c)) << (4 * n + 2 * h + c);
#endif
        }
      }
    }
#endif
  }
};

// Products to scores: soft-cap, bias, and -inf for what is not allowed.
RLX_FN void finish_scores(float (&s)[kMTiles][kNTiles][4], [[maybe_unused]] const ScoreFacts& facts, const Place& at, int first_row,
                          int first_key, bool partial) {
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
      const KeyBounds bounds = bounds_of(at, first_row + 16 * m + 8 * h + g);
      RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
        RLX_UNROLL for (int c = 0; c < 2; ++c) {
          const int key = first_key + 8 * n + 2 * t + c;
          float score = s[m][n][2 * h + c];
          bool allowed = key >= bounds.first && key <= bounds.last;
#if RLX_HAS_MASK
          allowed = allowed && (facts.attends[m] >> (4 * n + 2 * h + c) & 1u) != 0u;
#endif
#if RLX_HAS_BIAS
          const float bias = facts.bias[m][n][2 * h + c];
          allowed = allowed && bias != RLX_MINUS_INFINITY;
          score += bias;
#endif
          s[m][n][2 * h + c] = allowed ? score : RLX_MINUS_INFINITY;
        }
      }
    }
  }
}

// Scores to weights relative to 2^shift. The shift of a row is its maximum, or up to kSlack below it: then what was summed before
// need not be brought to a new one.
constexpr float kSlack = 8.0f;
RLX_FN void weigh(Rows& rows, float (&s)[kMTiles][kNTiles][4]) {
  bool moves = false;
  float wanted[kMTiles][2];
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
    RLX_UNROLL for (int h = 0; h < 2; ++h) {
      float highest = RLX_MINUS_INFINITY;
      RLX_UNROLL for (int n = 0; n < kNTiles; ++n) highest = fmaxf(highest, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
      wanted[m][h] = fmaxf(rows.shift[m][h], quad_max(highest) * RLX_EXPONENT);
      moves = moves || wanted[m][h] > rows.shift[m][h] + kSlack;
    }
  }
  if (__any_sync(0xFFFFFFFFu, moves)) {
    RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
      RLX_UNROLL for (int h = 0; h < 2; ++h) {
        const float decay = power_of_2(rows.shift[m][h] - finite_or_0(wanted[m][h]));
        rows.shift[m][h] = wanted[m][h];
        rows.total[m][h] *= decay;
        RLX_UNROLL for (int j = 0; j < kOutTiles; ++j) {
          rows.out[m][j][2 * h] *= decay;
          rows.out[m][j][2 * h + 1] *= decay;
        }
      }
    }
  }
  RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
    RLX_UNROLL for (int h = 0; h < 2; ++h) {
      const float reference = finite_or_0(rows.shift[m][h]);
      float sum[2] = {0.0f, 0.0f};
      RLX_UNROLL for (int n = 0; n < kNTiles; ++n) {
        RLX_UNROLL for (int c = 0; c < 2; ++c) {
          float& weight = s[m][n][2 * h + c];
          weight = power_of_2(fmaf(weight, RLX_EXPONENT, -reference));
          sum[c] += weight;
        }
      }
      rows.total[m][h] += sum[0] + sum[1];
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

// out += weights * v row by row, each with the values of the keys allowed to it alone: some others are not finite.
template <typename Params>
RLX_FN void accumulate_selectively(float (*out)[4], const Left& weights, const rlx_u32 (&b)[kGroup][2],
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
    RLX_UNROLL for (int j = 0; j < kGroup; ++j) {
      float sum[1][4] = {{0.0f, 0.0f, 0.0f, 0.0f}};
      const Right kept[1] = {right_of(b[j][0] & keep[0], b[j][1] & keep[1])};
      multiply_add<1>(sum, weights, kept);
      RLX_UNROLL for (int i = 0; i < 4; ++i) {
        if (g + i / 2 * 8 == r) out[j][i] += sum[0][i];
      }
    }
  }
}

// True in all threads of the unit where it is in one.
RLX_FN bool any_of_unit(bool here) {
  if constexpr (kWarpgroups) {
    int any;
    asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %1, 0;\nbarrier.cta.red.or.pred p, %2, 128, p;\nselp.s32 %0, 1, 0, p;\n}"
                 : "=r"(any)
                 : "r"(int(here)), "r"(1u + rlx_warp / 4u)
                 : "memory");
    return any != 0;
  } else {
    return __any_sync(0xFFFFFFFFu, here);
  }
}

// The weights of a whole step, where they take no more registers than the scores did.
struct Weights {
#if RLX_HALF
  Left packed[kMTiles][kDepthSteps];
  RLX_FN explicit Weights(const float (&s)[kMTiles][kNTiles][4]) {
    RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
      RLX_UNROLL for (int kk = 0; kk < kDepthSteps; ++kk) packed[m][kk] = weights_of(s[m], kk);
    }
  }
  RLX_FN const Left& of(int m, int kk) const { return packed[m][kk]; }
#else
  const float (&scores)[kMTiles][kNTiles][4];
  RLX_FN explicit Weights(const float (&s)[kMTiles][kNTiles][4]) : scores(s) {}
  RLX_FN Left of(int m, int kk) const { return weights_of(scores[m], kk); }
#endif
};

// True after out += weights * v over a step with disallowed keys some of whose values are not finite; false where all are finite
// and nothing was done. `values(b, kk, j)` gives the
// right operands of depth step kk and tiles j, j + 1, ...
template <typename Params, typename Values>
RLX_FN bool accumulate_around_nonfinite(Rows& rows, const Weights& weights, Values values, const Params& p,
                                        const Place& at, int first_row, int first_key) {
  rlx_u32 nonfinite = 0u;
  RLX_UNROLL for (int kk = 0; kk < kDepthSteps; ++kk) {
    RLX_UNROLL for (int first = 0; first < kOutTiles; first += kGroup) {
      rlx_u32 b[kGroup][2];
      values(b, kk, first);
      RLX_UNROLL for (int j = 0; j < kGroup; ++j) nonfinite |= nonfinite_bits(b[j][0]) | nonfinite_bits(b[j][1]);
    }
  }
  if (!any_of_unit(nonfinite != 0u)) return false;
  RLX_UNROLL for (int kk = 0; kk < kDepthSteps; ++kk) {
    RLX_UNROLL for (int first = 0; first < kOutTiles; first += kGroup) {
      rlx_u32 b[kGroup][2];
      values(b, kk, first);
      RLX_UNROLL for (int m = 0; m < kMTiles; ++m) {
        accumulate_selectively(rows.out[m] + first, weights.of(m, kk), b, p, at, first_row + 16 * m, first_key + kDepth * kk);
      }
    }
  }
  return true;
}

// out += weights * v over the step.
template <typename Values>
RLX_FN void accumulate(Rows& rows, const Weights& weights, Values values) {
  RLX_UNROLL for (int kk = 0; kk < kDepthSteps; ++kk) {
    RLX_UNROLL for (int first = 0; first < kOutTiles; first += kGroup) {
      rlx_u32 b[kGroup][2];
      values(b, kk, first);
      Right right[kGroup];
      RLX_UNROLL for (int j = 0; j < kGroup; ++j) right[j] = right_of(b[j][0], b[j][1]);
      RLX_UNROLL for (int m = 0; m < kMTiles; ++m) multiply_add<kGroup>(rows.out[m] + first, weights.of(m, kk), right);
    }
  }
}

#endif
