// SPDX-License-Identifier: Apache-2.0
// One layer of lstm, gru or rnn for all steps, as recurrence.kernel, on tensor cores, by workgroups that all run at once.
// Layout, formulas and specializations: recurrence.kernel (RLX_CELL 2 and 4 are not here; x and the states are f32, w f16 or bf16).
// Grid: RLX_SHARERS workgroups along x, each with RLX_UNITS units of h and their weights; along y RLX_GROUPS for each direction, each of
//   which takes tiles of RLX_TILE sequences, RLX_GROUPS apart. Those along x do as recurrence.kernel does, a sequence at a time each, where
//   f16 has no room for a weight or a first state (see Numerics), where there is one along x (a device without room for all at once, see
//   RLX_ALL_AT_ONCE), and on an architecture whose workgroups have less shared memory than it wants.
// Workgroup: warp v has depths v * kSliceOctets * 8 and on: of every row of weights the pieces that its lanes multiply, RLX_HELD_PIECES of
//   16 bytes in registers, the others in shared memory where no other thread reads them. The sums of warps meet in shared memory;
//   then each thread has kCells pairs of a unit and a sequence with all gates, whose states stay in shared memory.
// p.exchange: h on its way from those that compute it to those that multiply it: twice, for states after an even and an odd number of
//   steps; [2, directions, RLX_EXCHANGE_ROWS sequences, kOctets] of 8 units: of each pair 8 bytes that are written and read at once, the
//   two rounded to f16, then what that lost, rounded likewise. The lowest bit of the latter says in which round of its place the pair
//   was written: 1 first, 0 next. Who reads a pair sees by itself whether it has come, so nobody waits for all; and who writes h of step
//   t has read h of t - 1 from all others, so that all have read h of t - 2, whose place it takes. Zeros before the first step.
// ptxas: spills because weights take what registers there are: a few words that a thread reads once a step.
// Numerics: h times 2^8 as two parts of f16, 21 bits from 2^-11 on and to 2^-33 absolute below; f32 sums in a fixed order; one rounding
//   into y. Weights of bf16 are f16 times 2^8, exact from 2^-22 on and to 2^-33 absolute below, which is less than a state's tolerance.
//   A first state or a weight of bf16 beyond 255.8, an infinity of either, a weight of f16 that is no finite number: these workgroups
//   notice before their first step, tell each other by what they exchange (`refused`), and multiply in f32 instead, for their sequences.
// Specializations besides: RLX_UNITS (a multiple of 4), RLX_SHARERS, RLX_GROUPS, RLX_TILE (a multiple of 8), RLX_TILES, RLX_TURNS and
//   RLX_MOST_TURNS (tiles of a workgroup, in this run and at most), RLX_HELD_PIECES, RLX_EXCHANGE_ROWS, RLX_SHARED_BYTES (that it
//   may take); RLX_SHORT_BF16: w is bf16.
#include "lib/prelude.inc"
#include "lib/storage.inc"
#include "generated/sizes.inc"

RLX_PARAMS(RecurrenceParams);
// Successors would wait on multiprocessors that this grid is busy with to its end.
#undef RLX_RELEASES_EARLY
#define RLX_RELEASES_EARLY 0

#include "lib/recurrence.inc"

// Of a workgroup on this architecture.
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
#define RLX_ROOM (227 * 1024)
#elif __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 870
#define RLX_ROOM (163 * 1024)
#else
#define RLX_ROOM (99 * 1024)
#endif

#if RLX_SHARED_BYTES <= RLX_ROOM
RLX_ALL_AT_ONCE;

#include "lib/mma.cuh"
#include "lib/recurrent_cell.cuh"

constexpr int kWarps = RLX_BLOCK_SIZE / 32;
constexpr int kRows = RLX_UNITS * RLX_GATES;
constexpr int kRowTiles = (kRows + 15) / 16;
constexpr int kColumnTiles = RLX_TILE / 8;
constexpr int kChunks = (RLX_H + 32 * kWarps - 1) / (32 * kWarps);  // of a warp, 32 depths each
constexpr int kSliceOctets = 4 * kChunks;
constexpr int kOctets = kSliceOctets * kWarps;
constexpr int kOctetBytes = 32;
constexpr int kPieces = kRowTiles * kChunks * 2;
constexpr int kLeft = kPieces - RLX_HELD_PIECES;
constexpr int kCells = (RLX_UNITS * RLX_TILE + RLX_BLOCK_SIZE - 1) / RLX_BLOCK_SIZE;
constexpr int kTileSums = kRowTiles * 16 * 8;  // of 8 sequences, by one warp
constexpr int kSums = kWarps * kColumnTiles * kTileSums;
constexpr int kLeftBytes = kLeft * RLX_BLOCK_SIZE * 16;
constexpr int kStates = RLX_MOST_TURNS * kCells * RLX_BLOCK_SIZE;

static_assert(RLX_H % 8 == 0, "rows are whole pieces");
static_assert(RLX_UNITS % 4 == 0 && RLX_TILE % 8 == 0, "the units of a warp's cells and the columns of a product");

RLX_DYNAMIC_SHARED(kLeftBytes + 2 * kSums * 4 + (2 + RLX_HAS_LENGTHS) * kStates * 4);

constexpr float kScale = 256.0f;  // of h, and of weights of bf16
constexpr float kOfSums = RLX_SHORT_BF16 ? 1.0f / (kScale * kScale) : 1.0f / kScale;
constexpr float kMostScaled = 65504.0f;  // of f16
// NaN does fit.
RLX_FN bool fits(float scaled) { return !(rlx_abs(scaled) > kMostScaled); }
// Two weights as f16; false in `all_fit` where one is too large for it.
RLX_FN rlx_u32 short_weights(rlx_u32 word, bool& all_fit) {
#if RLX_SHORT_BF16
  const rlx_vec2 w = rlx_unpack_bf16x2(word);
  all_fit = all_fit && fits(w.x * kScale) && fits(w.y * kScale);
  return rlx_pack_f16x2(w.x * kScale, w.y * kScale);
#else
  all_fit = all_fit && (word & 0x7C00u) != 0x7C00u && (word & 0x7C000000u) != 0x7C000000u;
  return word;
#endif
}

// h of 8 units and a sequence, by pairs.
struct Octet {
  rlx_u32 high[4];
  rlx_u32 low[4];
};
RLX_FN void load_exchanged(Octet& octet, rlx_ptr at) {
  RLX_UNROLL for (int i = 0; i < 4; i += 2) {
    rlx_u64 pairs[2];
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];" : "=l"(pairs[0]), "=l"(pairs[1]) : "l"(at + rlx_ptr(8 * i)) : "memory");
    RLX_UNROLL for (int k = 0; k < 2; ++k) {
      octet.high[i + k] = rlx_u32(pairs[k]);
      octet.low[i + k] = rlx_u32(pairs[k] >> 32);
    }
  }
}
RLX_FN void store_exchanged(rlx_ptr at, rlx_u64 pair) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(at), "l"(pair) : "memory");
}
// Of pairs of the state after `step` steps.
RLX_FN rlx_u32 round_bit(int step) { return step / 2 % 2 == 0 ? 1u : 0u; }

RLX_FN rlx_ptr exchange_row(const RlxParams& p, int step, int direction, int sequence) {
  const rlx_i64 row = rlx_i64(step % 2 * RLX_DIRECTIONS + direction) * RLX_EXCHANGE_ROWS + sequence;
  return p.exchange + rlx_ptr(row * (kOctets * kOctetBytes));
}

// Instead of a pair that no h gives, whose lost parts are less than the others: its workgroup cannot multiply as f16.
constexpr rlx_u64 kRefused = 0x7BFFull << 32;
static_assert(kRefused >> 32 & 1, "in the round of the first states");

// Sends h of a unit after `step` steps; all lanes of a warp, whose lanes 8 apart have the two units of a pair. `row`: of exchange_row.
RLX_FN void send(rlx_ptr row, int unit, bool has_cell, float h, int step, bool refuses) {
  const float scaled = h * kScale;
  const rlx_u32 high = rlx_f16_from_f32(scaled);
  const rlx_u32 low = rlx_f16_from_f32(scaled - rlx_f32_from_f16(high));
  const rlx_u32 second = __shfl_xor_sync(0xFFFFFFFFu, high | low << 16, 8);
  const rlx_u32 highs = high | second << 16;
  const rlx_u32 lows = (low & ~1u) | round_bit(step) | (second & 0xFFFF0000u);
  const int place = unit / 8 * kOctetBytes + unit % 8 / 2 * 8;
  if (has_cell && unit % 2 == 0) store_exchanged(row + rlx_ptr(place), refuses ? kRefused : highs | rlx_u64(lows) << 32);
}
// Whether one of the workgroups that share out the units refuses; all threads, after all have sent. `row`: of any sequence at step 0.
RLX_FN bool refused(rlx_ptr row) {
  bool found = false;
  for (int i = static_cast<int>(rlx_local_index); i < RLX_H / 2; i += RLX_BLOCK_SIZE) {
    rlx_u64 pair = 0u;
    while ((pair >> 32 & 1u) != round_bit(0))
      asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(pair) : "l"(row + rlx_ptr(8 * i)) : "memory");
    found = found || pair == kRefused;
  }
  return __syncthreads_or(found) != 0;
}

// What a thread computes of a tile.
struct Cell {
  int column_tile;
  int column;
  int unit;        // of the workgroup's
  bool is_inside;  // of the tile
};
RLX_FN Cell cell_of(int thread, int which) {
  const int i = thread + which * RLX_BLOCK_SIZE;
  return {i / (8 * RLX_UNITS), i % 8, i / 8 % RLX_UNITS, i < RLX_UNITS * RLX_TILE};
}

// False, and nothing is written, where a workgroup refuses.
RLX_FN bool run_together(const RlxParams& p) {
  const int thread = static_cast<int>(rlx_local_index);
  const int lane = thread % 32;
  const int warp = thread / 32;
  const int direction = static_cast<int>(blockIdx.y) / RLX_GROUPS;
  const int group = static_cast<int>(blockIdx.y) % RLX_GROUPS;
  const bool backward = RLX_BACKWARD == 1 || direction == 1;
  const int first_unit = static_cast<int>(blockIdx.x) * RLX_UNITS;
  const int first_octet = warp * kSliceOctets;
  rlx_uvec4* const weights_left = reinterpret_cast<rlx_uvec4*>(rlx_shared) + thread;
  float* const sums_of_warps = reinterpret_cast<float*>(rlx_shared + kLeftBytes);
  float* const h_of_cells = sums_of_warps + 2 * kSums + thread;
  float* const c_of_cells = h_of_cells + kStates;
#if RLX_HAS_LENGTHS
  int* const lengths = reinterpret_cast<int*>(c_of_cells + kStates);
#endif

  bool all_fit = true;
  // Piece 2 * (row tile * kChunks + chunk) of row lane / 4 of the tile, the next one of row lane / 4 + 8.
  rlx_uvec4 held[RLX_HELD_PIECES > 0 ? RLX_HELD_PIECES : 1];
  RLX_UNROLL for (int i = 0; i < kPieces; ++i) {
    const int row = i / (2 * kChunks) * 16 + i % 2 * 8 + lane / 4;
    const int unit = first_unit + row % RLX_UNITS;
    const int octet = first_octet + i / 2 % kChunks * 4 + lane % 4;
    rlx_uvec4 words = rlx_make_uvec4(0u, 0u, 0u, 0u);
    if (row < kRows && unit < RLX_H && octet * 8 < RLX_H) {
      const rlx_i64 line = rlx_i64(direction) * RLX_GATES * RLX_H + rlx_i64(row / RLX_UNITS) * RLX_H + unit;
      words = rlx_raw16(p.w, (line * RLX_H + octet * 8) * 2);
      words = rlx_make_uvec4(short_weights(words.x, all_fit), short_weights(words.y, all_fit), short_weights(words.z, all_fit),
                             short_weights(words.w, all_fit));
    }
    if (i < RLX_HELD_PIECES) {
      held[i < RLX_HELD_PIECES ? i : 0] = words;
    } else {
      weights_left[(i - RLX_HELD_PIECES) * RLX_BLOCK_SIZE] = words;
    }
  }
  const auto piece = [&](int i) {
    return i < RLX_HELD_PIECES ? held[i < RLX_HELD_PIECES ? i : 0] : weights_left[(i - RLX_HELD_PIECES) * RLX_BLOCK_SIZE];
  };

  rlx_u32 outside = 0u;
  for (int turn = 0; turn < RLX_TURNS; ++turn) {
    const int tile = group + turn * RLX_GROUPS;
    if (tile >= RLX_TILES) break;
    RLX_UNROLL for (int i = 0; i < kCells; ++i) {
      const Cell cell = cell_of(thread, i);
      const int unit = first_unit + cell.unit;
      const int sequence = tile * RLX_TILE + cell.column_tile * 8 + cell.column;
      const bool has_cell = cell.is_inside && unit < RLX_H && sequence < RLX_BATCH;
      const rlx_i64 state = (rlx_i64(direction) * RLX_BATCH + sequence) * RLX_H + unit;
      float h = 0.0f;
      float c = 0.0f;
#if RLX_HAS_H0
      if (has_cell) h = rlx_load_f32(p.h0, state);
#endif
#if RLX_HAS_C0
      if (has_cell) c = rlx_load_f32(p.c0, state);
#endif
      const int place = (turn * kCells + i) * RLX_BLOCK_SIZE;
      all_fit = all_fit && fits(h * kScale);
      h_of_cells[place] = h;
      c_of_cells[place] = c;
#if RLX_HAS_LENGTHS
      int length = RLX_STEPS;
      if (has_cell) {
        const rlx_i64 wanted = RLX_CAT(rlx_index_from_, RLX_I)(RLX_CAT(rlx_load_, RLX_I)(p.lengths, rlx_i64(sequence)));
        length = rlx_i32(max(min(wanted, rlx_i64(RLX_STEPS)), rlx_i64(0)));
        outside += direction == 0 && unit == 0 && wanted != rlx_i64(length) ? 1u : 0u;
      }
      lengths[place] = length;
#endif
      RLX_UNUSED(state);
    }
  }
  const bool refuses = __syncthreads_or(!all_fit) != 0;
  for (int turn = 0; turn < RLX_TURNS; ++turn) {
    const int tile = group + turn * RLX_GROUPS;
    if (tile >= RLX_TILES) break;
    RLX_UNROLL for (int i = 0; i < kCells; ++i) {
      const Cell cell = cell_of(thread, i);
      const int unit = first_unit + cell.unit;
      const int sequence = tile * RLX_TILE + cell.column_tile * 8 + cell.column;
      const bool has_cell = cell.is_inside && unit < RLX_H && sequence < RLX_BATCH;
      send(exchange_row(p, 0, direction, sequence), unit, has_cell, h_of_cells[(turn * kCells + i) * RLX_BLOCK_SIZE], 0, refuses);
    }
  }
  if (group >= RLX_TILES) return true;
  if (refused(exchange_row(p, 0, direction, group * RLX_TILE))) return false;
  RLX_COUNT_OUTSIDE(outside);

  int buffer = 0;
  for (int step = 0; step < RLX_STEPS; ++step) {
    const rlx_u32 bit = round_bit(step);
    for (int turn = 0; turn < RLX_TURNS; ++turn) {
      const int tile = group + turn * RLX_GROUPS;
      if (tile >= RLX_TILES) break;
      const int first_sequence = tile * RLX_TILE;

      // Loads of x stand before the sums, whose time hides theirs.
      float x[kCells][RLX_GATES];
      int times[kCells];
      bool runs[kCells];
      RLX_UNROLL for (int i = 0; i < kCells; ++i) {
        const Cell cell = cell_of(thread, i);
        const int unit = first_unit + cell.unit;
        const int sequence = first_sequence + cell.column_tile * 8 + cell.column;
#if RLX_HAS_LENGTHS
        const int length = lengths[(turn * kCells + i) * RLX_BLOCK_SIZE];
#else
        const int length = RLX_STEPS;
#endif
        runs[i] = step < length;
        times[i] = runs[i] && backward ? length - 1 - step : step;
        const bool loads = runs[i] && cell.is_inside && unit < RLX_H && sequence < RLX_BATCH;
        const rlx_i64 from = rlx_i64(sequence) * RLX_X_BATCH + rlx_i64(times[i]) * RLX_X_TIME +
                             rlx_i64(direction) * (RLX_GATES * RLX_H) + unit;
        RLX_UNROLL for (int g = 0; g < RLX_GATES; ++g) x[i][g] = loads ? rlx_load_f32(p.x, from + g * RLX_H) : 0.0f;
      }

      const rlx_ptr rows = exchange_row(p, step, direction, first_sequence) + rlx_ptr(first_octet * kOctetBytes);
      Octet octets[kChunks];
      const auto load = [&](int column_tile, int chunk) {
        Octet& octet = octets[chunk];
        const int place = chunk * 4 + lane % 4;
        if ((first_octet + place) * 8 < RLX_H && first_sequence + column_tile * 8 + lane / 4 < RLX_BATCH) {
          const rlx_ptr at = rows + rlx_ptr(((column_tile * 8 + lane / 4) * kOctets + place) * kOctetBytes);
          load_exchanged(octet, at);
        } else {
          // Behind the rows of w, whose zeros they meet, or of no sequence.
          RLX_UNROLL for (int i = 0; i < 4; ++i) octet.high[i] = octet.low[i] = bit;
        }
      };
      float* const own_sums = sums_of_warps + buffer * kSums + warp * (kColumnTiles * kTileSums) + lane * 2;
      RLX_UNROLL for (int chunk = 0; chunk < kChunks; ++chunk) load(0, chunk);
      RLX_UNROLL for (int column_tile = 0; column_tile < kColumnTiles; ++column_tile) {
        float acc[kRowTiles][4];
        RLX_UNROLL for (int r = 0; r < kRowTiles; ++r) acc[r][0] = acc[r][1] = acc[r][2] = acc[r][3] = 0.0f;
        RLX_UNROLL for (int chunk = 0; chunk < kChunks; ++chunk) {
          // Until this piece of h has come to all lanes; of the later ones what has not is asked for again too.
          while (true) {
            bool has_come[kChunks];
            RLX_UNROLL for (int i = chunk; i < kChunks; ++i) {
              rlx_u32 wrong = 0u;
              RLX_UNROLL for (int k = 0; k < 4; ++k) wrong |= octets[i].low[k] ^ bit;
              has_come[i] = (wrong & 1u) == 0u;
            }
            if (__all_sync(0xFFFFFFFFu, has_come[chunk])) break;
            RLX_UNROLL for (int i = chunk; i < kChunks; ++i) {
              if (!has_come[i]) load(column_tile, i);
            }
          }
          const Octet octet = octets[chunk];
          rlx_uvec4 above[kRowTiles];
          rlx_uvec4 below[kRowTiles];
          RLX_UNROLL for (int r = 0; r < kRowTiles; ++r) {
            above[r] = piece(2 * (r * kChunks + chunk));
            below[r] = piece(2 * (r * kChunks + chunk) + 1);
          }
          const rlx_u32 b[4][2] = {{octet.low[0], octet.low[1]},
                                   {octet.low[2], octet.low[3]},
                                   {octet.high[0], octet.high[1]},
                                   {octet.high[2], octet.high[3]}};
          RLX_UNROLL for (int k = 0; k < 4; ++k) {
            RLX_UNROLL for (int r = 0; r < kRowTiles; ++r) {
              const rlx_uvec4 u = above[r];
              const rlx_uvec4 v = below[r];
              const rlx_u32 a[4] = {k % 2 == 0 ? u.x : u.z, k % 2 == 0 ? v.x : v.z, k % 2 == 0 ? u.y : u.w, k % 2 == 0 ? v.y : v.w};
              rlx_mma_f16(acc[r], a, b[k]);
            }
          }
          if (column_tile + 1 < kColumnTiles) load(column_tile + 1, chunk);
        }
        RLX_UNROLL for (int r = 0; r < kRowTiles; ++r) {
          float2* const to = reinterpret_cast<float2*>(own_sums + column_tile * kTileSums + r * 128);
          to[0] = make_float2(acc[r][0], acc[r][1]);
          to[32] = make_float2(acc[r][2], acc[r][3]);
        }
      }
      rlx_barrier();

      RLX_UNROLL for (int i = 0; i < kCells; ++i) {
        const Cell cell = cell_of(thread, i);
        const int unit = first_unit + cell.unit;
        const int sequence = first_sequence + cell.column_tile * 8 + cell.column;
        const bool has_cell = cell.is_inside && unit < RLX_H && sequence < RLX_BATCH;
        float sums[RLX_GATES];
        RLX_UNROLL for (int g = 0; g < RLX_GATES; ++g) sums[g] = 0.0f;
        if (cell.is_inside) {
          const float* const from =
              sums_of_warps + buffer * kSums + cell.column_tile * kTileSums + cell.unit * 8 + cell.column;
          RLX_UNROLL for (int v = 0; v < kWarps; ++v) {
            RLX_UNROLL for (int g = 0; g < RLX_GATES; ++g)
              sums[g] += from[v * (kColumnTiles * kTileSums) + g * (RLX_UNITS * 8)];
          }
        }
        const int place = (turn * kCells + i) * RLX_BLOCK_SIZE;
        float h = h_of_cells[place];
        float c = c_of_cells[place];
        float new_h = h;
        float new_c = c;
#if RLX_CELL == 0
        float to_gate[4];
        RLX_UNROLL for (int g = 0; g < 4; ++g) to_gate[g] = x[i][g] + sums[g] * kOfSums;
#if RLX_HAS_PEEPHOLE
        const rlx_i64 peephole = rlx_i64(direction) * 3 * RLX_H + unit;
        if (has_cell) {
          to_gate[0] += rlx_load_f32(p.peephole, peephole) * c;
          to_gate[1] += rlx_load_f32(p.peephole, peephole + 2 * RLX_H) * c;
        }
#endif
        new_c = rlx_cell_sigmoid(to_gate[1]) * c + rlx_cell_sigmoid(to_gate[0]) * rlx_cell_tanh(to_gate[2]);
#if RLX_HAS_PEEPHOLE
        if (has_cell) to_gate[3] += rlx_load_f32(p.peephole, peephole + RLX_H) * new_c;
#endif
        new_h = rlx_cell_sigmoid(to_gate[3]) * rlx_cell_tanh(new_c);
#elif RLX_CELL == 1
        float inner = sums[2] * kOfSums;
#if RLX_HAS_BIAS
        if (has_cell) inner += rlx_load_f32(p.bias, rlx_i64(direction) * RLX_H + unit);
#endif
        const float update = rlx_cell_sigmoid(x[i][1] + sums[1] * kOfSums);
        const float fresh = rlx_cell_tanh(x[i][2] + rlx_cell_sigmoid(x[i][0] + sums[0] * kOfSums) * inner);
        new_h = (1.0f - update) * fresh + update * h;
#else
        new_h = rlx_cell_tanh(x[i][0] + sums[0] * kOfSums);
#endif
        if (runs[i]) {
          h = new_h;
          c = new_c;
        }
        if (step + 1 < RLX_STEPS) send(exchange_row(p, step + 1, direction, sequence), unit, has_cell, h, step + 1, false);
        h_of_cells[place] = h;
        c_of_cells[place] = c;
        if (has_cell) {
          const rlx_i64 to = rlx_i64(sequence) * RLX_Y_BATCH + rlx_i64(times[i]) * RLX_Y_TIME + rlx_i64(direction) * RLX_H + unit;
          RLX_CAT(rlx_store_, RLX_Y)(p.y, to, runs[i] ? h : 0.0f);
        }
      }
      buffer = 1 - buffer;
    }
  }

#if RLX_HAS_H || RLX_HAS_C
  for (int turn = 0; turn < RLX_TURNS; ++turn) {
    const int tile = group + turn * RLX_GROUPS;
    if (tile >= RLX_TILES) break;
    RLX_UNROLL for (int i = 0; i < kCells; ++i) {
      const Cell cell = cell_of(thread, i);
      const int unit = first_unit + cell.unit;
      const int sequence = tile * RLX_TILE + cell.column_tile * 8 + cell.column;
      if (!cell.is_inside || unit >= RLX_H || sequence >= RLX_BATCH) continue;
      const rlx_i64 state = (rlx_i64(direction) * RLX_BATCH + sequence) * RLX_H + unit;
#if RLX_HAS_H
      rlx_store_f32(p.h, state, h_of_cells[(turn * kCells + i) * RLX_BLOCK_SIZE]);
#endif
#if RLX_HAS_C
      rlx_store_f32(p.c, state, c_of_cells[(turn * kCells + i) * RLX_BLOCK_SIZE]);
#endif
    }
  }
#endif
  return true;
}

#endif

RLX_MAIN {
#if RLX_SHARED_BYTES <= RLX_ROOM
  if (gridDim.x == RLX_SHARERS && run_together(p)) return;
#endif
  // The sequences of this place along y, shared out over those along x.
  const int direction = static_cast<int>(blockIdx.y) / RLX_GROUPS;
  const int group = static_cast<int>(blockIdx.y) % RLX_GROUPS;
  for (int i = static_cast<int>(blockIdx.x); i < RLX_TURNS * RLX_TILE; i += static_cast<int>(gridDim.x)) {
    const int sequence = (group + i / RLX_TILE * RLX_GROUPS) * RLX_TILE + i % RLX_TILE;
    if (sequence >= RLX_BATCH) break;
    run_recurrence(p, rlx_u64(direction) * RLX_BATCH_TILES + sequence);
    rlx_barrier();
  }
}
