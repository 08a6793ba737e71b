// SPDX-License-Identifier: Apache-2.0
// One layer of lstm, gru or rnn for all steps, as recurrence.kernel, by a cluster of RLX_SHARERS workgroups that keep the weights.
// Layout, formulas and specializations: recurrence.kernel (RLX_CELL 2 is not here; x and the states are f32).
// Grid: RLX_SHARERS workgroups along x for each direction and RLX_SEQUENCES sequences. Below sm_90, and where a workgroup has less
//   shared memory (sm_120), the first of each does all of the work as recurrence.kernel does; sm_90 and sm_100 take up to 227 KiB.
// Workgroup: 8 or 16 warps of teams of RLX_TEAM lanes, each with RLX_TEAM_UNITS units of h. Lane l of a team has pieces l, l + RLX_TEAM, ... of
//   16 bytes of every row of its team's weights: RLX_HELD_PIECES in registers, the others in shared memory, where no other thread reads
//   them. Sums meet by shuffles, after which the lanes of a unit and a sequence share out its gates. Each new h goes to every workgroup of the cluster,
//   counted in bytes on a barrier there: no workgroup waits for more than the values it reads. Warps without units leave before the
//   first step. A workgroup alone is no cluster.
// ptxas: spills because weights take what registers there are: a few words that a thread reads once a step.
// Specializations besides: RLX_SHARERS, RLX_TEAM, RLX_TEAM_UNITS, RLX_HELD_PIECES; RLX_SHORT_BF16: w is bf16.
// Numerics: f32 sums in a fixed order; one rounding into y.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "generated/sizes.inc"

RLX_PARAMS(RecurrenceParams);

#include "lib/recurrence.inc"

#if __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000 || __CUDA_ARCH__ == 1030
#include "lib/mbarrier.cuh"
#include "lib/recurrent_cell.cuh"

#if RLX_SHARERS > 1
RLX_CLUSTER(RLX_SHARERS);
#endif

constexpr int kWarps = RLX_BLOCK_SIZE / 32;
constexpr int kGroupUnits = (RLX_H + RLX_SHARERS - 1) / RLX_SHARERS;
constexpr int kPiece = 16 / RLX_CAT(rlx_bytes_, RLX_W);
constexpr int kPieces = (RLX_H + RLX_TEAM * kPiece - 1) / (RLX_TEAM * kPiece);  // of a row, one lane's
constexpr int kDepth = kPieces * RLX_TEAM * kPiece;
constexpr int kRows = RLX_TEAM_UNITS * RLX_GATES;
constexpr int kWarpUnits = 32 / RLX_TEAM * RLX_TEAM_UNITS;
constexpr int kLeft = kRows * kPieces - RLX_HELD_PIECES;
// A GRU has place for a fourth gate, so that lanes divide evenly.
constexpr int kPlaces = RLX_GATES == 1 ? 1 : 4;
constexpr int kPairs = RLX_TEAM_UNITS * RLX_SEQUENCES;  // of a unit and a sequence
constexpr int kSums = kPlaces * kPairs;
constexpr int kPairLanes = RLX_TEAM / kPairs;
constexpr int kGateLanes = RLX_TEAM / kSums;
constexpr int kWeightBytes = kLeft * RLX_BLOCK_SIZE * 16;
constexpr int kStateBytes = RLX_SEQUENCES * kDepth * 4;
constexpr rlx_u32 kStepBytes = RLX_SEQUENCES * RLX_H * 4;

// Where h of a unit stands: the fours that lanes load together lie side by side.
RLX_FN int place_of(int unit) { return unit / 4 % (kPiece / 4) * (kDepth * 4 / kPiece) + unit / kPiece * 4 + unit % 4; }

static_assert(kSums <= RLX_TEAM && RLX_TEAM % kSums == 0, "a lane keeps one sum");
static_assert(kWarps * kWarpUnits >= kGroupUnits, "warps have all units");
static_assert((RLX_SHARERS - 1) * kGroupUnits < RLX_H, "workgroups have one at least");
static_assert(RLX_H % kPiece == 0, "rows are whole pieces");

RLX_DYNAMIC_SHARED(kWeightBytes + 2 * kStateBytes + 16);

#if RLX_SHARERS > 1
// A value to the workgroup's memory at `address` (of the cluster's window), and its bytes to the barrier there.
RLX_FN void send(rlx_u32 address, float value, rlx_u32 barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(address), "r"(rlx_bits(value)),
               "r"(barrier)
               : "memory");
}
// The barrier's phase ends when this many bytes have come.
RLX_FN void expect(rlx_u32 barrier, rlx_u32 bytes) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(barrier), "r"(bytes)
               : "memory");
}
RLX_FN void await(rlx_u32 barrier, rlx_u32 phase) {
  rlx_u32 done = 0;
  while (done == 0u) {
    asm volatile(
        "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
        : "=r"(done)
        : "r"(barrier), "r"(phase)
        : "memory");
  }
}
#endif

// The values of a piece of weights.
#if RLX_SHORT_BF16
#define rlx_f32_from_half rlx_f32_from_bf16
#else
#define rlx_f32_from_half rlx_f32_from_f16
#endif
RLX_FN void unpack(rlx_uvec4 words, float (&value)[kPiece]) {
  const rlx_u32 word[4] = {words.x, words.y, words.z, words.w};
  RLX_UNROLL for (int i = 0; i < kPiece; ++i) {
    value[i] = kPiece == 4 ? rlx_from_bits(word[i]) : rlx_f32_from_half(word[i * 4 / kPiece] >> (i * 128 / kPiece % 32) & 0xFFFFu);
  }
}

// Each exchange halves the sums that a lane still keeps, until it has one, of its pair and gate, from all lanes.
template <int kKept, int kDistance>
RLX_FN void exchange(float (&sums)[kSums], int lane) {
  if constexpr (kDistance > 0) {
    if constexpr (kKept > 1) {
      const bool upper = (lane & kDistance) != 0;
      RLX_UNROLL for (int i = 0; i < kKept / 2; ++i) {
        const float mine = upper ? sums[i + kKept / 2] : sums[i];
        const float theirs = upper ? sums[i] : sums[i + kKept / 2];
        sums[i] = mine + __shfl_xor_sync(0xFFFFFFFFu, theirs, kDistance);
      }
    } else {
      sums[0] += __shfl_xor_sync(0xFFFFFFFFu, sums[0], kDistance);
    }
    exchange<(kKept > 1 ? kKept / 2 : 1), kDistance / 2>(sums, lane);
  }
}

RLX_MAIN {
  const int thread = static_cast<int>(rlx_local_index);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int rank = static_cast<int>(rlx_cluster_rank());
  const int group = static_cast<int>(blockIdx.x) / RLX_SHARERS;
  const int tile = group % (RLX_BATCH_TILES);
  const int direction = group / (RLX_BATCH_TILES);
  const bool backward = RLX_BACKWARD == 1 || direction == 1;
  const int team_lane = lane % RLX_TEAM;
  const int first_of_warp = rank * kGroupUnits + warp * kWarpUnits;
  const int first_unit = first_of_warp + lane / RLX_TEAM * RLX_TEAM_UNITS;
  const int end_unit = min((rank + 1) * kGroupUnits, RLX_H);
  rlx_uvec4* const weights_left = reinterpret_cast<rlx_uvec4*>(rlx_shared) + thread;
  float* const h_of_steps = reinterpret_cast<float*>(rlx_shared + kWeightBytes);

  rlx_uvec4 held[RLX_HELD_PIECES > 0 ? RLX_HELD_PIECES : 1];
  RLX_UNROLL for (int r = 0; r < kRows; ++r) {
    const int unit = first_unit + r / RLX_GATES;
    const rlx_i64 row = (rlx_i64(direction) * RLX_GATES * RLX_H + rlx_i64(r % RLX_GATES) * RLX_H + unit) * RLX_H;
    RLX_UNROLL for (int i = 0; i < kPieces; ++i) {
      const int piece = team_lane + RLX_TEAM * i;
      rlx_uvec4 words = rlx_make_uvec4(0u, 0u, 0u, 0u);
      if (unit < end_unit && piece * kPiece < RLX_H)
        words = rlx_raw16(p.w, (row + piece * kPiece) * RLX_CAT(rlx_bytes_, RLX_W));
      const int place = i * kRows + r;
      if (place < RLX_HELD_PIECES) {
        held[place < RLX_HELD_PIECES ? place : 0] = words;
      } else {
        weights_left[(place - RLX_HELD_PIECES) * RLX_BLOCK_SIZE] = words;
      }
    }
  }

  // h before the first step; what stands behind RLX_H stays zero.
  const rlx_i64 states = (rlx_i64(direction) * RLX_BATCH + rlx_i64(tile) * RLX_SEQUENCES) * RLX_H;
  for (int i = thread; i < 2 * RLX_SEQUENCES * kDepth; i += RLX_BLOCK_SIZE) {
    float value = 0.0f;
#if RLX_HAS_H0
    const int b = i / kDepth;
    if (b < RLX_SEQUENCES && tile * RLX_SEQUENCES + b < RLX_BATCH && i % kDepth < RLX_H)
      value = rlx_load_f32(p.h0, states + rlx_i64(b) * RLX_H + i % kDepth);
#endif
    h_of_steps[i / kDepth * kDepth + place_of(i % kDepth)] = value;
  }
#if RLX_SHARERS > 1
  const rlx_u32 h_address = rlx_shared_address(h_of_steps);
  const rlx_u32 barriers = h_address + 2 * kStateBytes;
  if (thread == 0) {
    rlx_mbarrier_init(barriers, 1u);
    rlx_mbarrier_init(barriers + 8, 1u);
    expect(barriers, kStepBytes);
    expect(barriers + 8, kStepBytes);
  }
#endif

  // This lane's unit, sequence and gate.
  const int pair = team_lane / kPairLanes;
  const int gate = team_lane / kGateLanes % kPlaces;
  const int own = pair % RLX_SEQUENCES;
  const int unit = first_unit + pair / RLX_SEQUENCES;
  const int sequence = tile * RLX_SEQUENCES + own;
  const bool is_unit = unit < end_unit;
  const bool has_cell = is_unit && sequence < RLX_BATCH;
  const bool has_gate = has_cell && gate < RLX_GATES;
  const int first_lane = lane - team_lane + pair * kPairLanes;
  const bool stores = has_cell && lane == first_lane;
  const rlx_i64 state = states + rlx_i64(own) * RLX_H + unit;
  float h = 0.0f;
  float c = 0.0f;
#if RLX_HAS_H0
  if (has_cell) h = rlx_load_f32(p.h0, state);
#endif
#if RLX_HAS_C0
  if (has_cell) c = rlx_load_f32(p.c0, state);
#endif
#if RLX_HAS_BIAS
  const float bias = has_cell ? rlx_load_f32(p.bias, rlx_i64(direction) * RLX_H + unit) : 0.0f;
#endif
#if RLX_HAS_PEEPHOLE
  float peephole[3] = {0.0f, 0.0f, 0.0f};
  RLX_UNROLL for (int i = 0; i < 3; ++i) {
    if (has_cell) peephole[i] = rlx_load_f32(p.peephole, (rlx_i64(direction) * 3 + i) * RLX_H + unit);
  }
#endif
  int length = RLX_STEPS;
#if RLX_HAS_LENGTHS
  if (sequence < RLX_BATCH) {
    const rlx_i64 wanted = RLX_CAT(rlx_index_from_, RLX_I)(RLX_CAT(rlx_load_, RLX_I)(p.lengths, rlx_i64(sequence)));
    length = rlx_i32(max(min(wanted, rlx_i64(RLX_STEPS)), rlx_i64(0)));
    const bool counts = direction == 0 && unit == 0 && lane == first_lane;
    RLX_COUNT_OUTSIDE(counts && wanted != rlx_i64(length) ? 1u : 0u);
  }
#endif
  const rlx_i64 x_of_sequence =
      rlx_i64(sequence) * RLX_X_BATCH + rlx_i64(direction) * (RLX_GATES * RLX_H) + rlx_i64(gate) * RLX_H + unit;
  const rlx_i64 y_of_sequence = rlx_i64(sequence) * RLX_Y_BATCH + rlx_i64(direction) * RLX_H + unit;
  const auto time_of = [&](int step) { return step < length && backward ? length - 1 - step : step; };
  const auto load_x = [&](int step) {
    return has_gate && step < length ? rlx_load_f32(p.x, x_of_sequence + rlx_i64(time_of(step)) * RLX_X_TIME) : 0.0f;
  };
  // A step is shorter than a load of x takes.
  float x_of_steps[2] = {load_x(0), load_x(1)};
#if RLX_SHARERS > 1
  rlx_cluster_barrier();  // all have begun: their memory may be written
#else
  rlx_barrier();
#endif
#if RLX_SHARERS > 1
  // Nobody waits for a warp without units: it could fall two steps behind and then wait for a phase that is over, or let its workgroup
  // end while others still send to it.
  if (first_of_warp >= end_unit) return;
#endif

  for (int even = 0; even < RLX_STEPS; even += 2) {
    RLX_UNROLL for (int now = 0; now < 2; ++now) {
      const int step = even + now;
      if (step >= RLX_STEPS) break;
      const float x = x_of_steps[now];
#if RLX_SHARERS > 1
      if (step > 0) {
        await(barriers + 8 * now, static_cast<rlx_u32>((step - 1) / 2 % 2));
        if (thread == 0) expect(barriers + 8 * now, kStepBytes);
      }
#endif
      float sums[kSums];
      RLX_UNROLL for (int i = 0; i < kSums; ++i) sums[i] = 0.0f;
      RLX_UNROLL for (int i = 0; i < kPieces; ++i) {
        float near[RLX_SEQUENCES][kPiece];
        RLX_UNROLL for (int b = 0; b < RLX_SEQUENCES; ++b) {
          const float* const from = h_of_steps + (now * RLX_SEQUENCES + b) * kDepth + (team_lane + RLX_TEAM * i) * 4;
          RLX_UNROLL for (int k = 0; k < kPiece; k += 4) {
            const float4 four = *reinterpret_cast<const float4*>(from + k * (kDepth / kPiece));
            near[b][k] = four.x;
            near[b][k + 1] = four.y;
            near[b][k + 2] = four.z;
            near[b][k + 3] = four.w;
          }
        }
        RLX_UNROLL for (int r = 0; r < kRows; ++r) {
          float w[kPiece];
          const int place = i * kRows + r;
          unpack(place < RLX_HELD_PIECES ? held[place < RLX_HELD_PIECES ? place : 0]
                                         : weights_left[(place - RLX_HELD_PIECES) * RLX_BLOCK_SIZE],
                 w);
          RLX_UNROLL for (int b = 0; b < RLX_SEQUENCES; ++b) {
            float& sum = sums[(r / RLX_GATES * RLX_SEQUENCES + b) * kPlaces + r % RLX_GATES];
            RLX_UNROLL for (int k = 0; k < kPiece; ++k) sum += w[k] * near[b][k];
          }
        }
      }
      exchange<kSums, RLX_TEAM / 2>(sums, lane);
      const auto of_gate = [&](float value, int which) {
        return __shfl_sync(0xFFFFFFFFu, value, first_lane + which * kGateLanes);
      };
      float new_h = h;
      float new_c = c;
#if RLX_CELL == 0
      float to_gate = x + sums[0];
#if RLX_HAS_PEEPHOLE
      if (gate < 2) to_gate += (gate == 0 ? peephole[0] : peephole[2]) * c;
#endif
      const float open = rlx_cell_gate(to_gate, gate == 2);
      new_c = of_gate(open, 1) * c + of_gate(open, 0) * of_gate(open, 2);
#if RLX_HAS_PEEPHOLE
      new_h = rlx_cell_sigmoid(of_gate(to_gate, 3) + peephole[1] * new_c) * rlx_cell_tanh(new_c);
#else
      new_h = of_gate(open, 3) * rlx_cell_tanh(new_c);
#endif
#elif RLX_CELL == 1
      const float open = rlx_cell_sigmoid(x + sums[0]);
      float inner = of_gate(sums[0], 2);
#if RLX_HAS_BIAS
      inner += bias;
#endif
      const float fresh = rlx_cell_tanh(of_gate(x, 2) + of_gate(open, 0) * inner);
      const float update = of_gate(open, 1);
      new_h = (1.0f - update) * fresh + update * h;
#else
      const float sum = of_gate(x + sums[0], 0);
#if RLX_CELL == 3
      new_h = rlx_cell_tanh(sum);
#else
      new_h = sum < 0.0f ? 0.0f : sum;
#endif
#endif
      const bool runs = step < length;
      if (runs) {
        h = new_h;
        c = new_c;
      }
      const int place = ((1 - now) * RLX_SEQUENCES + own) * kDepth + place_of(unit);
#if RLX_SHARERS > 1
      if (step + 1 < RLX_STEPS && is_unit) {
        for (int target = lane - first_lane; target < RLX_SHARERS; target += kPairLanes) {
          send(rlx_cluster_address(h_address + static_cast<rlx_u32>(place * 4), static_cast<rlx_u32>(target)), h,
               rlx_cluster_address(barriers + 8 * (1 - now), static_cast<rlx_u32>(target)));
        }
      }
#else
      if (is_unit && lane == first_lane) h_of_steps[place] = h;
      rlx_barrier();
#endif
      x_of_steps[now] = load_x(step + 2);
      if (stores) {
        RLX_CAT(rlx_store_, RLX_Y)(p.y, y_of_sequence + rlx_i64(time_of(step)) * RLX_Y_TIME, runs ? h : 0.0f);
      }
    }
  }
#if RLX_HAS_H
  if (stores) rlx_store_f32(p.h, state, h);
#endif
#if RLX_HAS_C
  if (stores) rlx_store_f32(p.c, state, c);
#endif
}
#else
RLX_MAIN {
  if (blockIdx.x % RLX_SHARERS == 0) run_recurrence(RLX_GIVE_P rlx_u64(blockIdx.x / RLX_SHARERS));
}
#endif
