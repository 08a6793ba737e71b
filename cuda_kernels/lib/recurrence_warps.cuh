// SPDX-License-Identifier: Apache-2.0
// The walk of linear_recurrence_mma by warps: of each 8 columns two warps take S from chunk to chunk in registers, and two others, up to a
// chunk later, find the results from what those leave in shared memory. Named by the specializations of linear_recurrence_mma.cu.
#ifndef RLX_LIB_RECURRENCE_WARPS_CUH
#define RLX_LIB_RECURRENCE_WARPS_CUH

constexpr int kColumns = 16;
constexpr int kStateRow = RLX_KEYS + 8;  // keys of a column of S in shared memory
constexpr int kStepRow = kSteps + 8;     // steps of a column

struct Columns {
  float s[2][16 * kStateRow];     // before this chunk and before the next
  float missing[16 * kStepRow];   // V - diag(e^G) K S
  float taken[2][16 * kStepRow];  // D, of this chunk and the next
  float faded[16 * kStepRow];     // diag(e^(G_63 - G)) D
};
constexpr int kOwnBytes = sizeof(Columns);

// A stage.
constexpr int kValueRowBytes = kColumns * 2 + 16;
constexpr int kQueriesPlace = kSteps * kRowBytes;
constexpr int kTrianglesPlace = 2 * kQueriesPlace;
constexpr int kGatesPlace = kTrianglesPlace + kGates * 4;
constexpr int kValuesPlace = kTrianglesPlace + kRecord * 4;
constexpr int kStageBytes = kValuesPlace + kSteps * kValueRowBytes;
RLX_FN rlx_u32 piece_place(int row, int piece) { return rlx_u32(row * kRowBytes + piece * 16); }
RLX_FN rlx_u32 value_place(int row, int column) { return rlx_u32(row * kValueRowBytes + column * 2); }

#include "lib/recurrence_ring.cuh"

RLX_FN void start_stages(int thread) {}
RLX_FN void copy_record(const Stage& stage, rlx_ptr record, rlx_u32 barrier, int lane) {
  rlx_stream_copy(stage.triangles, record, kRecord * 4, barrier, rlx_u32(lane));
}

// Of four floats the parts for mma. What the high part cuts off is exact.
RLX_FN rlx_u32 high_part(float x) { return __float_as_uint(x) & 0xFFFFE000u; }
RLX_FN rlx_u32 low_part(float x) { return __float_as_uint(x - __uint_as_float(high_part(x))); }

// A left side of 16-bit values, from words of rows g and g + 8: depths 2t and 2t + 1 are at the places t and t + 4 of mma, and those of the
// right side too.
struct Left {
  rlx_u32 values[4];
};
RLX_FN Left left_of(rlx_u32 upper, rlx_u32 lower) {
  const rlx_vec2 u = unpack(upper);
  const rlx_vec2 l = unpack(lower);
  return {{__float_as_uint(u.x), __float_as_uint(l.x), __float_as_uint(u.y), __float_as_uint(l.y)}};
}

// Each is of 8 columns, and of chunks by turns.
RLX_SHARED rlx_u64 has_state[2][2];  // S before the chunk stands in its place
RLX_SHARED rlx_u64 has_taken[2][2];  // D does
RLX_SHARED rlx_u64 has_read[2][2];   // both have been used

RLX_FN void start_states() {
  RLX_UNROLL for (int i = 0; i < 4; ++i) {
    rlx_mbarrier_init(rlx_shared_address(&has_state[i / 2][i % 2]), 2u);
    rlx_mbarrier_init(rlx_shared_address(&has_taken[i / 2][i % 2]), 2u);
    rlx_mbarrier_init(rlx_shared_address(&has_read[i / 2][i % 2]), 2u);
  }
}

struct Right {
  rlx_u32 high[2];
  rlx_u32 low[2];
};
RLX_FN Right right_of(float2 x) {
  return {{high_part(x.x), high_part(x.y)}, {low_part(x.x), low_part(x.y)}};
}
// Sums of products with high and low parts, of even and odd depths, added at the end: each product waits for the one before in its sum.
struct Sums {
  float high[2][4];
  float low[2][4];
  RLX_FN float of(int e) const { return (high[0][e] + high[1][e]) + (low[0][e] + low[1][e]); }
};
RLX_FN Sums no_sums() { return {}; }

// A warp's two tiles of 16 rows of a chunk: 0 and 3, or 1 and 2, so that triangles give each as many pieces.
RLX_FN int tile_of(int part, int i) { return i == 0 ? part : 3 - part; }

// Loops here stay loops: unrolled, the code of the roles together no longer stays in the instruction cache, whose misses then are all of
// the time. What a round of products reads is loaded in front of the round before.

// Rows of keys or queries times 8 columns of S.
RLX_FN void multiply_rows(float (&d)[2][4], rlx_u32 rows, const float* s, int part, int lane) {
  Sums sums[2] = {no_sums(), no_sums()};
  const rlx_u32 left = rows + rlx_u32(lane % 16 * kRowBytes + lane / 16 * 16);
  const float* const right = s + lane / 4 * kStateRow + lane % 4 * 2;
  rlx_u32 words[2][4];
  float2 pairs[2];
  const auto load = [&](int depth) {
    RLX_UNROLL for (int i = 0; i < 2; ++i) rlx_load_tiles4(words[i], left + rlx_u32(tile_of(part, i) * 16 * kRowBytes + depth * 2));
    RLX_UNROLL for (int half = 0; half < 2; ++half) pairs[half] = *reinterpret_cast<const float2*>(right + depth + half * 8);
  };
  load(0);
  RLX_LOOP for (int depth = 0; depth < RLX_KEYS; depth += 16) {
    Left a[2][2];
    Right b[2];
    RLX_UNROLL for (int half = 0; half < 2; ++half) {
      b[half] = right_of(pairs[half]);
      RLX_UNROLL for (int i = 0; i < 2; ++i) a[i][half] = left_of(words[i][2 * half], words[i][2 * half + 1]);
    }
    load(min(depth + 16, RLX_KEYS - 16));
    RLX_UNROLL for (int half = 0; half < 2; ++half) {
      RLX_UNROLL for (int i = 0; i < 2; ++i) rlx_mma_tf32(sums[i].high[half], a[i][half].values, b[half].high);
    }
    RLX_UNROLL for (int half = 0; half < 2; ++half) {
      RLX_UNROLL for (int i = 0; i < 2; ++i) rlx_mma_tf32(sums[i].low[half], a[i][half].values, b[half].low);
    }
  }
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    RLX_UNROLL for (int e = 0; e < 4; ++e) d[i][e] = sums[i].of(e);
  }
}

RLX_FN const float* triangle_of(const Stage& stage, int which) { return stage.gates - kGates + which * kTriangle; }

// The rows of a triangle times 8 columns of `right`, added to d.
RLX_FN void multiply_triangle(float (&d)[2][4], const float* triangle, const float* right, int part, int lane) {
  const float* const columns = right + lane / 4 * kStepRow + lane % 4 * 2;
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    const int tile = tile_of(part, i);
    const float* const rows = triangle + piece_at(tile, 0) + lane * 4;
    Sums sums = no_sums();
    float lows[2][4] = {};
    float4 pieces[2];
    float2 pairs[2];
    const auto load = [&](int j) {
      RLX_UNROLL for (int half = 0; half < 2; ++half) {
        pieces[half] = *reinterpret_cast<const float4*>(rows + (j + half) * 128);
        pairs[half] = *reinterpret_cast<const float2*>(columns + (j + half) * 8);
      }
    };
    load(0);
    RLX_LOOP for (int j = 0; j < 2 * tile + 2; j += 2) {
      Left high[2];
      Left low[2];
      Right b[2];
      RLX_UNROLL for (int half = 0; half < 2; ++half) {
        const float4 a = pieces[half];
        high[half] = {{high_part(a.x), high_part(a.y), high_part(a.z), high_part(a.w)}};
        low[half] = {{low_part(a.x), low_part(a.y), low_part(a.z), low_part(a.w)}};
        b[half] = right_of(pairs[half]);
      }
      load(min(j + 2, 2 * tile));
      RLX_UNROLL for (int half = 0; half < 2; ++half) rlx_mma_tf32(sums.high[half], high[half].values, b[half].high);
      RLX_UNROLL for (int half = 0; half < 2; ++half) rlx_mma_tf32(sums.low[half], high[half].values, b[half].low);
      RLX_UNROLL for (int half = 0; half < 2; ++half) rlx_mma_tf32(lows[half], low[half].values, b[half].high);
    }
    RLX_UNROLL for (int e = 0; e < 4; ++e) d[i][e] += sums.of(e) + (lows[0][e] + lows[1][e]);
  }
}

// Waits for the two warps of the same role and columns.
RLX_FN void pair_barrier(int id) { asm volatile("barrier.sync %0, 64;" ::"r"(id) : "memory"); }

// Those of what multiply_triangle gives a lane.
RLX_FN void load_values(float (&v)[2][4], const Stage& stage, int part, int column, int lane) {
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    RLX_UNROLL for (int e = 0; e < 4; e += 2) {
      const float2 pair = values_of(stage, tile_of(part, i) * 16 + lane / 4 + e / 2 * 8, column + lane % 4 * 2);
      v[i][e] = pair.x;
      v[i][e + 1] = pair.y;
    }
  }
}

// A pair of warps that takes 8 columns of S from chunk to chunk.
RLX_FN void walk(const RlxParams& p, const Place& place, int first_turn, int warp, int lane) {
  Columns& columns = *reinterpret_cast<Columns*>(own_memory());
  const int part = warp / 2;
  const int half = warp % 2;
  const int column = half * 8;
  const int upper = lane / 4;     // row of a sum's first two elements; those of the others are 8 more
  const int pair = lane % 4 * 2;  // column of the first and third
  const int own_states = column * kStateRow;
  const int own_steps = column * kStepRow;

  // Tile i of 16 keys is number part + 2 i.
  constexpr int kKeyTiles = (RLX_KEYS / 16 + 1) / 2;
  const auto has_keys = [&](int i) { return (part + 2 * i) * 16 < RLX_KEYS; };
  float s[kKeyTiles][4];
  const auto key_of = [&](int i, int e) { return (part + 2 * i) * 16 + upper + e / 2 * 8; };
  const auto column_of = [&](int e) { return column + pair + e % 2; };
  // S before a chunk, for all who read it.
  const auto publish = [&](int turn) {
    if (turn > 1) wait_turn(has_read[half][turn % 2], turn / 2 - 1);
    RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) {
        if (has_keys(i)) columns.s[turn % 2][column_of(e) * kStateRow + key_of(i, e)] = s[i][e];
      }
    }
    arrive_warp(has_state[half][turn % 2], lane);
    pair_barrier(1 + half);
  };
  RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
    RLX_UNROLL for (int e = 0; e < 4; ++e) {
      s[i][e] = has_keys(i) ? first_state(p, place, key_of(i, e), column_of(e)) : 0.0f;
    }
  }
  publish(first_turn);

  RLX_LOOP for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const int turn = first_turn + chunk;
    const Stage stage = stage_of(turn);
    float* const taken = columns.taken[turn % 2];
    wait_full(turn);

    float d[2][4];
    load_values(d, stage, part, column, lane);
#if RLX_DELTA
    float read[2][4];
    multiply_rows(read, stage.keys, columns.s[turn % 2] + own_states, part, lane);
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) {
        const int row = tile_of(part, i) * 16 + upper + e / 2 * 8;
        columns.missing[column_of(e) * kStepRow + row] = d[i][e] - stage.gates[ row] * read[i][e];
        d[i][e] = 0.0f;
      }
    }
    pair_barrier(1 + half);
    multiply_triangle(d, triangle_of(stage, 1), columns.missing + own_steps, part, lane);
#endif
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) {
        const int row = tile_of(part, i) * 16 + upper + e / 2 * 8;
        taken[column_of(e) * kStepRow + row] = d[i][e];
        columns.faded[column_of(e) * kStepRow + row] = d[i][e] * stage.gates[kSteps + row];
      }
    }
    arrive_warp(has_taken[half][turn % 2], lane);
    pair_barrier(1 + half);

    Sums sums[kKeyTiles] = {};
    rlx_u32 words[kKeyTiles][4];
    float2 pairs[2];
    const auto load = [&](int depth) {
      RLX_UNROLL for (int j = 0; j < 2; ++j)
        pairs[j] = *reinterpret_cast<const float2*>(columns.faded + own_steps + upper * kStepRow + depth + j * 8 + pair);
      RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
        const int row = depth + lane / 16 * 8 + lane % 8;
        rlx_load_tiles4_transposed(words[i], stage.keys + rlx_u32(row * kRowBytes + (min((part + 2 * i) * 16, RLX_KEYS - 16) + lane / 8 % 2 * 8) * 2));
      }
    };
    load(0);
    RLX_LOOP for (int depth = 0; depth < kSteps; depth += 16) {
      const Right b[2] = {right_of(pairs[0]), right_of(pairs[1])};
      Left a[kKeyTiles][2];
      RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
        RLX_UNROLL for (int j = 0; j < 2; ++j) a[i][j] = left_of(words[i][2 * j], words[i][2 * j + 1]);
      }
      load(min(depth + 16, kSteps - 16));
      RLX_UNROLL for (int j = 0; j < 2; ++j) {
        RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) rlx_mma_tf32(sums[i].high[j], a[i][j].values, b[j].high);
        RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) rlx_mma_tf32(sums[i].low[j], a[i][j].values, b[j].low);
      }
    }
    const float total = stage.gates[kLast];
    RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) s[i][e] = total * s[i][e] + sums[i].of(e);
    }
    arrive_warp(empty[turn % kStages], lane);
    if (chunk + 1 < RLX_CHUNKS) publish(turn + 1);
  }
  RLX_UNROLL for (int i = 0; i < kKeyTiles; ++i) {
    RLX_UNROLL for (int e = 0; e < 4; ++e) {
      if (has_keys(i)) store_state(p, place, key_of(i, e), column_of(e), s[i][e]);
    }
  }
}

// A pair of warps that finds the results of 8 columns.
RLX_FN void read_out(const RlxParams& p, const Place& place, int first_turn, int warp, int lane) {
  Columns& columns = *reinterpret_cast<Columns*>(own_memory());
  const int part = warp / 2;
  const int half = warp % 2;
  const int column = half * 8;
  RLX_LOOP for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const int turn = first_turn + chunk;
    const Stage stage = stage_of(turn);
    wait_full(turn);
    float v[2][4] = {};
    if (RLX_HAS_D) load_values(v, stage, part, column, lane);
    wait_turn(has_state[half][turn % 2], turn / 2);
    float y[2][4];
    multiply_rows(y, stage.queries, columns.s[turn % 2] + column * kStateRow, part, lane);
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) y[i][e] *= RLX_SCALE * stage.gates[ tile_of(part, i) * 16 + lane / 4 + e / 2 * 8];
    }
    wait_turn(has_taken[half][turn % 2], turn / 2);
    multiply_triangle(y, triangle_of(stage, 0), columns.taken[turn % 2] + column * kStepRow, part, lane);
    arrive_warp(has_read[half][turn % 2], lane);
    arrive_warp(empty[turn % kStages], lane);

    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; e += 2) {
        const int t = chunk * kSteps + tile_of(part, i) * 16 + lane / 4 + e / 2 * 8;
        store_results(p, place, t, column + lane % 4 * 2, {y[i][e], y[i][e + 1]}, {v[i][e], v[i][e + 1]});
      }
    }
  }
}

#endif
