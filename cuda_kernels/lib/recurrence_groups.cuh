// SPDX-License-Identifier: Apache-2.0
// The walk of linear_recurrence_mma by warpgroups: one takes 16 columns of S from chunk to chunk in registers, and another, up to a chunk
// later, finds the results from what it leaves in shared memory. Both sides of all products stand in shared memory, those that are not
// values of the tensors as parts (lib/recurrence_parts.cuh). Named by the specializations of linear_recurrence_mma.cu; sm_90a only.
// What a chunk waits for: with RLX_DELTA three products one after another, else one, and behind each the largest sum, a power of two for
// it, its parts in shared memory and two barriers.
#ifndef RLX_LIB_RECURRENCE_GROUPS_CUH
#define RLX_LIB_RECURRENCE_GROUPS_CUH

constexpr int kColumns = 16;
// A right side's panel: of 64 keys or steps the parts of 16 columns, the lowest first.
constexpr int kPartBytes = kColumns * int(RLX_PANEL_ROW_BYTES);
constexpr int kPanelBytes = kParts * kPartBytes;
constexpr int kHalves = (RLX_KEYS + 63) / 64;                     // of 64 keys
constexpr int kState = 0;                                     // S before the chunk
constexpr int kFaded = kState + kHalves * kPanelBytes;        // diag(e^(G_63 - G)) D, without RLX_DELTA of this chunk and the next
constexpr int kMissing = kFaded + (2 - RLX_DELTA) * kPanelBytes;  // V - diag(e^G) K S
constexpr int kTaken = kMissing + RLX_DELTA * kPanelBytes;    // D, where it is not V
constexpr int kOwnBytes = kTaken + RLX_DELTA * kPanelBytes;

// A stage: keys and queries in panels of 64 of them, triangles and values in cores of 8 x 8 values.
constexpr int kRowPanelBytes = kSteps * int(RLX_PANEL_ROW_BYTES);
constexpr int kTriangleBytes = kSteps * kSteps * 2;  // of a part
constexpr int kTriangles = (1 + RLX_DELTA) * kParts;
constexpr int kQueriesPlace = kHalves * kRowPanelBytes;
constexpr int kTrianglesPlace = 2 * kQueriesPlace;
constexpr int kValuesPlace = kTrianglesPlace + kTriangles * kTriangleBytes;
constexpr int kGatesPlace = kValuesPlace + kSteps * kColumns * 2;
constexpr int kStageBytes = (kGatesPlace + (kLast + 4) * 4 + 1023) / 1024 * 1024;
RLX_FN rlx_u32 piece_place(int row, int piece) { return rlx_u32(piece / 8 * kRowPanelBytes) + rlx_panel_piece(row, piece % 8); }
RLX_FN rlx_u32 value_place(int row, int column) { return rlx_u32((row / 8 * 2 + column / 8) * 128 + row % 8 * 16 + column % 8 * 2); }

#include "lib/recurrence_ring.cuh"

// Zeros above the diagonals, which no record has.
RLX_FN void start_stages(int thread) {
  const rlx_u32 zeros[4] = {};
  constexpr int kPieces = 192;  // of 16 bytes, of a triangle
  for (int i = thread; i < kStages * kTriangles * kPieces; i += RLX_BLOCK_SIZE) {
    const int piece = i % kPieces;
    const int sixteen = piece < 32 ? 1 : piece < 96 ? 2 : 3;
    const int within = sixteen * 2048 + (piece - sixteen * (sixteen - 1) * 16) * 16;
    rlx_shared_store4(stage_of(i / kPieces / kTriangles).triangles + rlx_u32(i / kPieces % kTriangles * kTriangleBytes + within), zeros);
  }
}

RLX_FN void copy_record(const Stage& stage, rlx_ptr record, rlx_u32 barrier, int lane) {
  static_assert(kTriangles * 4 < 32);
  if (lane < kTriangles * 4) {
    const int sixteen = lane % 4;
    rlx_stream_copy(stage.triangles + rlx_u32(lane / 4 * kTriangleBytes + sixteen * (2048 + 512)),
                    record + lane / 4 * kPackedBytes + packed_columns(sixteen), rlx_u32(2048 - sixteen * 512), barrier, 0u);
  } else if (lane == 31) {
    rlx_stream_copy(rlx_shared_address(stage.gates), record + kGates * 4, (kLast + 4) * 4, barrier, 0u);
  }
}

RLX_SHARED rlx_u64 has_state;   // S before the chunk stands in its place
RLX_SHARED rlx_u64 has_taken;   // D does
RLX_SHARED rlx_u64 read_state;  // they have been used by the other warpgroup
RLX_SHARED rlx_u64 read_taken;
RLX_SHARED float state_factor;  // what S's power is undone by
RLX_SHARED float taken_factor;
// Of each warp the largest of what it has of S and of right sides, as larger() has it.
constexpr int kMostState = 0;
constexpr int kMostMissing = 4;
constexpr int kMostFaded = 8;
constexpr int kMostTaken = 12;
alignas(16) RLX_SHARED int most_of[16];

RLX_FN void start_states() {
  rlx_mbarrier_init(rlx_shared_address(&has_state), 4u);
  rlx_mbarrier_init(rlx_shared_address(&has_taken), 4u);
  rlx_mbarrier_init(rlx_shared_address(&read_state), 4u);
  rlx_mbarrier_init(rlx_shared_address(&read_taken), 4u);
}

// A lane's elements of 64 rows by 16 columns, e from 0 to 7, are of row 16 w + g + e / 2 % 2 * 8 and column e / 4 * 8 + 2t + e % 2. A sum has
// those of each order of parts, the highest order first, because products of low parts are added to the first registers of a sum only.
struct Sum {
  float orders[kParts * 8];
  RLX_FN float of(int e) const {
    float sum = orders[e];
    RLX_UNROLL for (int i = 1; i < kParts; ++i) sum = orders[i * 8 + e] + kPartWeight * sum;
    return sum;
  }
};
RLX_FN int row_of(int warp, int lane, int e) { return warp * 16 + lane / 4 + e / 2 % 2 * 8; }
RLX_FN int column_of(int lane, int e) { return e / 4 * 8 + lane % 4 * 2 + e % 2; }

// What the warpgroup's threads have written is seen by them and by its products behind this.
RLX_FN void group_barrier() {
  rlx_fence_async_shared();
  asm volatile("barrier.sync 1, 128;" ::: "memory");
}

// The powers of two of tiles, of which a lane has these elements: note_most, a barrier, power_at.
template <int kCount>
RLX_FN void note_most(const float (&x)[kCount], int place, int warp, int lane) {
  if (kBf16) return;
  int most = 0;
  int other = 0;
  RLX_UNROLL for (int e = 0; e < kCount; e += 2) {
    most = larger(most, x[e]);
    other = larger(other, x[e + 1]);
  }
  most = __reduce_max_sync(0xFFFFFFFFu, max(most, other));
  if (lane == 0) most_of[place + warp] = most;
}
RLX_FN void noted_barrier() {
  if (!kBf16) asm volatile("barrier.sync 1, 128;" ::: "memory");
}
RLX_FN float power_at(int place) {
  if (kBf16) return 1.0f;
  const int4 most = *reinterpret_cast<const int4*>(most_of + place);
  return power_of(max(max(most.x, most.y), max(most.z, most.w)));
}

// Puts a lane's elements of 64 rows, which are depths there, times `power` into a panel.
RLX_FN void store_parts(rlx_u32 panel, const float* x, float power, int warp, int lane) {
  rlx_u32 words[kParts][4];
  RLX_UNROLL for (int i = 0; i < 4; ++i) {
    rlx_u32 two[kParts];
    parts_of(two, x[2 * i] * power, x[2 * i + 1] * power);
    RLX_UNROLL for (int part = 0; part < kParts; ++part) words[part][i] = two[part];
  }
  const rlx_u32 to = panel + rlx_panel_piece(rlx_u32(lane / 16 * 8 + lane % 8), rlx_u32(warp * 2 + lane / 8 % 2));
  RLX_UNROLL for (int part = 0; part < kParts; ++part) rlx_store_tiles4_transposed(to + rlx_u32((kParts - 1 - part) * kPartBytes), words[part]);
}

// The compiler may not move what touches a sum across these.
template <int kCount>
RLX_FN void hold(float (&sums)[kCount]) {
  RLX_UNROLL for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}
RLX_FN void begin_products(Sum& sum) {
  hold(sum.orders);
  rlx_wgmma_fence();
}
RLX_FN void finish_products(Sum& sum) {
  rlx_wgmma_wait<0>();
  hold(sum.orders);
}

// Rows of keys or queries times S.
RLX_FN void multiply_rows(Sum& sum, rlx_u32 rows, rlx_u32 state) {
  const rlx_u64 left = rlx_panel_descriptor(rows);
  const rlx_u64 right = rlx_panel_descriptor(state);
  RLX_UNROLL for (int step = 0; step < RLX_KEYS / 16; ++step) {
    rlx_wgmma_few<kParts * 16, kBf16, false, false>(sum.orders, left + rlx_u64(step / 4 * (kRowPanelBytes / 16) + step % 4 * 2),
                                                    right + rlx_u64(step / 4 * (kPanelBytes / 16) + step % 4 * 2), step > 0);
  }
  rlx_wgmma_commit();
}

RLX_FN rlx_u64 triangle_at(rlx_u32 triangle, int part, int step) {
  return rlx_core_descriptor(triangle + rlx_u32(part * kTriangleBytes + step * 2048), 128u, 256u);
}
// A triangle times a panel: each part with those parts with which it makes an order that counts.
RLX_FN void multiply_triangle(Sum& sum, rlx_u32 triangle, rlx_u32 panel) {
  const rlx_u64 right = rlx_panel_descriptor(panel);
  RLX_UNROLL for (int step = 0; step < kSteps / 16; ++step) {
    const auto at = [&](int part) { return right + rlx_u64(part * (kPartBytes / 16) + step * 2); };
    rlx_wgmma_few<kParts * 16, kBf16, false, false>(sum.orders, triangle_at(triangle, 0, step), at(0), step > 0);
    rlx_wgmma_few<(kParts - 1) * 16, kBf16, false, false>(sum.orders, triangle_at(triangle, 1, step), at(1), true);
    if constexpr (kParts == 3) rlx_wgmma_few<16, kBf16, false, false>(sum.orders, triangle_at(triangle, 2, step), at(2), true);
  }
  rlx_wgmma_commit();
}
// A part of a triangle times values of the tensor.
RLX_FN void multiply_values(float (&d)[8], rlx_u32 triangle, int part, rlx_u32 values) {
  RLX_UNROLL for (int step = 0; step < kSteps / 16; ++step) {
    rlx_wgmma_few<16, kBf16, false, true>(d, triangle_at(triangle, part, step), rlx_core_descriptor(values + rlx_u32(step * 512), 256u, 128u),
                                          step > 0);
  }
}

RLX_FN void load_values(float (&v)[8], const Stage& stage, int warp, int lane) {
  RLX_UNROLL for (int e = 0; e < 8; e += 2) {
    const float2 pair = values_of(stage, row_of(warp, lane, e), column_of(lane, e));
    v[e] = pair.x;
    v[e + 1] = pair.y;
  }
}

// The warpgroup that takes S from chunk to chunk.
RLX_FN void walk(const RlxParams& p, const Place& place, int first_turn, int warp, int lane) {
  const rlx_u32 own = rlx_shared_address(own_memory());
  const auto has_keys = [&](int half) { return half * 64 + warp * 16 < RLX_KEYS; };
  float s[kHalves * 8];
  const auto key_of = [&](int e) { return e / 8 * 64 + row_of(warp, lane, e % 8); };
  float undo_state = 0.0f;
  // S before a chunk, for all who read it.
  const auto publish = [&](int turn) {
    note_most(s, kMostState, warp, lane);
    noted_barrier();
    const float power = power_at(kMostState);
    undo_state = inverse_of(power);
    if (turn > 0) wait_turn(read_state, turn - 1);
    RLX_UNROLL for (int half = 0; half < kHalves; ++half) {
      if (has_keys(half)) store_parts(own + kState + rlx_u32(half * kPanelBytes), s + half * 8, power, warp, lane);
    }
    if (warp == 0 && lane == 0) state_factor = undo_state;
    group_barrier();
    arrive_warp(has_state, lane);
  };
  RLX_UNROLL for (int e = 0; e < kHalves * 8; ++e) s[e] = has_keys(e / 8) ? first_state(p, place, key_of(e), column_of(lane, e % 8)) : 0.0f;
  // Starts the product of a chunk's keys, by steps, with what is in a panel. Sums of keys beyond are of what stands there, and nobody reads them.
  Sum added[kHalves];
  const auto multiply_columns = [&](rlx_u32 keys, rlx_u32 panel) {
    RLX_UNROLL for (int half = 0; half < kHalves; ++half) hold(added[half].orders);
    rlx_wgmma_fence();
    RLX_UNROLL for (int step = 0; step < kSteps / 16; ++step) {
      RLX_UNROLL for (int half = 0; half < kHalves; ++half) {
        rlx_wgmma_few<kParts * 16, kBf16, true, false>(
            added[half].orders, rlx_panel_descriptor(keys) + rlx_u64((half * kRowPanelBytes + step * 16 * int(RLX_PANEL_ROW_BYTES)) / 16),
            rlx_panel_descriptor(panel) + rlx_u64(step * 2), step > 0);
      }
    }
    rlx_wgmma_commit();
  };
  const auto update = [&](float total, float undo) {
    rlx_wgmma_wait<0>();
    RLX_UNROLL for (int half = 0; half < kHalves; ++half) hold(added[half].orders);
    RLX_UNROLL for (int e = 0; e < kHalves * 8; ++e) s[e] = has_keys(e / 8) ? total * s[e] + added[e / 8].of(e % 8) * undo : 0.0f;
  };
  const auto fade = [&](float (&faded)[8], const float (&d)[8], const Stage& stage) {
    RLX_UNROLL for (int e = 0; e < 8; ++e) faded[e] = d[e] * stage.gates[kSteps + row_of(warp, lane, e)];
    note_most(faded, kMostFaded, warp, lane);
  };
  wait_full(first_turn);

#if RLX_DELTA
  publish(first_turn);
  RLX_LOOP for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const int turn = first_turn + chunk;
    const Stage stage = stage_of(turn);
    Sum sum;
    begin_products(sum);
    multiply_rows(sum, stage.keys, own + kState);
    float d[8];
    load_values(d, stage, warp, lane);
    finish_products(sum);
    RLX_UNROLL for (int e = 0; e < 8; ++e) d[e] -= stage.gates[row_of(warp, lane, e)] * undo_state * sum.of(e);
    note_most(d, kMostMissing, warp, lane);
    noted_barrier();
    const float power = power_at(kMostMissing);
    store_parts(own + kMissing, d, power, warp, lane);
    group_barrier();
    begin_products(sum);
    multiply_triangle(sum, stage.triangles + kParts * kTriangleBytes, own + kMissing);
    finish_products(sum);
    RLX_UNROLL for (int e = 0; e < 8; ++e) d[e] = stage.gates[3 * kSteps + row_of(warp, lane, e)] * inverse_of(power) * sum.of(e);
    note_most(d, kMostTaken, warp, lane);
    float faded[8];
    fade(faded, d, stage);
    noted_barrier();
    const float faded_power = power_at(kMostFaded);
    store_parts(own + kFaded, faded, faded_power, warp, lane);
    const float total = stage.gates[kLast];
    group_barrier();
    multiply_columns(stage.keys, own + kFaded);
    if (turn > 0) wait_turn(read_taken, turn - 1);
    const float taken_power = power_at(kMostTaken);
    store_parts(own + kTaken, d, taken_power, warp, lane);
    if (warp == 0 && lane == 0) taken_factor = inverse_of(taken_power);
    rlx_fence_async_shared();
    arrive_warp(has_taken, lane);
    if (chunk + 1 < RLX_CHUNKS) wait_full(turn + 1);
    update(total, inverse_of(faded_power));
    arrive_warp(empty[turn % kStages], lane);
    if (chunk + 1 < RLX_CHUNKS) publish(turn + 1);
  }
#else
  // What no chunk before has a part in goes before it is needed.
  const auto prepare = [&](int turn) {
    const Stage stage = stage_of(turn);
    float d[8];
    load_values(d, stage, warp, lane);
    float faded[8];
    fade(faded, d, stage);
    noted_barrier();
    const float power = power_at(kMostFaded);
    store_parts(own + kFaded + rlx_u32(turn % 2 * kPanelBytes), faded, power, warp, lane);
    return inverse_of(power);
  };
  float undo = prepare(first_turn);
  publish(first_turn);
  RLX_LOOP for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const int turn = first_turn + chunk;
    const Stage stage = stage_of(turn);
    multiply_columns(stage.keys, own + kFaded + rlx_u32(turn % 2 * kPanelBytes));
    const float total = stage.gates[kLast];
    float next = 0.0f;
    if (chunk + 1 < RLX_CHUNKS) {
      wait_full(turn + 1);
      next = prepare(turn + 1);
    }
    update(total, undo);
    arrive_warp(empty[turn % kStages], lane);
    undo = next;
    if (chunk + 1 < RLX_CHUNKS) publish(turn + 1);
  }
#endif
  RLX_UNROLL for (int e = 0; e < kHalves * 8; ++e) {
    if (has_keys(e / 8)) store_state(p, place, key_of(e), column_of(lane, e % 8), s[e]);
  }
}

// The warpgroup that finds the results.
RLX_FN void read_out(const RlxParams& p, const Place& place, int first_turn, int warp, int lane) {
  const rlx_u32 own = rlx_shared_address(own_memory());
  RLX_LOOP for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const int turn = first_turn + chunk;
    const Stage stage = stage_of(turn);
    wait_full(turn);
    rlx_fence_async_shared();
    float v[8] = {};
    if (RLX_HAS_D) load_values(v, stage, warp, lane);
    float y[8];
    Sum sum;
#if !RLX_DELTA
    float products[kParts][8];
    RLX_UNROLL for (int part = 0; part < kParts; ++part) hold(products[part]);
    rlx_wgmma_fence();
    RLX_UNROLL for (int part = 0; part < kParts; ++part) multiply_values(products[part], stage.triangles, part, stage.values);
    rlx_wgmma_commit();
    rlx_wgmma_wait<0>();
    RLX_UNROLL for (int part = 0; part < kParts; ++part) hold(products[part]);
    RLX_UNROLL for (int e = 0; e < 8; ++e) {
      float added = products[kParts - 1][e];
      RLX_UNROLL for (int part = kParts - 2; part >= 0; --part) added = products[part][e] + kPartWeight * added;
      y[e] = added * stage.gates[2 * kSteps + row_of(warp, lane, e)];
    }
#endif
    wait_turn(has_state, turn);
    begin_products(sum);
    multiply_rows(sum, stage.queries, own + kState);
    finish_products(sum);
    const float undo_state = state_factor;
    arrive_warp(read_state, lane);
    RLX_UNROLL for (int e = 0; e < 8; ++e) {
      const float read = RLX_SCALE * stage.gates[row_of(warp, lane, e)] * undo_state * sum.of(e);
      y[e] = RLX_DELTA ? read : y[e] + read;
    }
#if RLX_DELTA
    wait_turn(has_taken, turn);
    begin_products(sum);
    multiply_triangle(sum, stage.triangles, own + kTaken);
    finish_products(sum);
    const float undo_taken = taken_factor;
    arrive_warp(read_taken, lane);
    RLX_UNROLL for (int e = 0; e < 8; ++e) y[e] += stage.gates[2 * kSteps + row_of(warp, lane, e)] * undo_taken * sum.of(e);
#endif
    arrive_warp(empty[turn % kStages], lane);
    RLX_UNROLL for (int e = 0; e < 8; e += 2)
      store_results(p, place, chunk * kSteps + row_of(warp, lane, e), column_of(lane, e), {y[e], y[e + 1]}, {v[e], v[e + 1]});
  }
}

#endif
