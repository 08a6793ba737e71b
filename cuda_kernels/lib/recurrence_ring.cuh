// SPDX-License-Identifier: Apache-2.0
// What both forms of linear_recurrence_mma's walk over chunks stand on: a ring of stages with the rows and the record of a chunk each, which
// four warps fill; where a workgroup's part of the tensors is. CUDA only. Named by the specializations of linear_recurrence_mma.cu; behind
// kOwnBytes, what the form keeps in shared memory beside the ring, a multiple of 16, and the places of all in a stage.
#ifndef RLX_LIB_RECURRENCE_RING_CUH
#define RLX_LIB_RECURRENCE_RING_CUH

constexpr int kFetchers = 2 * kSteps;  // threads
#if __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200
constexpr int kRoom = 227 * 1024;
#else
constexpr int kRoom = 99 * 1024;
#endif
constexpr int kSpareBytes = 2048;  // barriers, and that the form's part may begin at a multiple of 1024
constexpr int kStagesOfRoom = (kRoom - kSpareBytes - kOwnBytes) / kStageBytes;
constexpr int kStages = kStagesOfRoom < 3 ? kStagesOfRoom : 3;
static_assert(kStages > 0 && RLX_BLOCK_SIZE == 256 + kFetchers && RLX_KEYS <= 128, "four warps to each role");

RLX_DYNAMIC_SHARED(kOwnBytes + kStages * kStageBytes + 1024);
RLX_SHARED rlx_u64 full[kStages];
RLX_SHARED rlx_u64 empty[kStages];

RLX_FN unsigned char* own_memory() {
  const rlx_u32 address = rlx_shared_address(rlx_shared);
  return rlx_shared + ((address + 1023u & ~1023u) - address);
}

// What the walk reads of a chunk: rows of keys and of queries, the record, and the values of its columns. Chunks are numbered from the
// workgroup's first one on (`turn`), of all groups of columns that it takes one after another.
struct Stage {
  rlx_u32 keys;
  rlx_u32 queries;
  rlx_u32 triangles;
  const float* gates;
  rlx_u32 values;
};
RLX_FN Stage stage_of(int turn) {
  const unsigned char* const first = own_memory() + kOwnBytes + turn % kStages * kStageBytes;
  const rlx_u32 address = rlx_shared_address(first);
  return {address, address + kQueriesPlace, address + kTrianglesPlace, reinterpret_cast<const float*>(first + kGatesPlace),
          address + kValuesPlace};
}

// The form's, called by a warp: starts copies of a record, whose bytes count at the barrier.
RLX_FN void copy_record(const Stage& stage, rlx_ptr record, rlx_u32 barrier, int lane);

// Arrives for a warp, all of whose lanes have done what is to be seen.
RLX_FN void arrive_warp(const rlx_u64& barrier, int lane) {
  __syncwarp();
  if (lane == 0) rlx_mbarrier_arrive(rlx_shared_address(&barrier));
}
// Waits for turn number `turn`, from 0 on, of a barrier.
RLX_FN void wait_turn(const rlx_u64& barrier, int turn) { rlx_mbarrier_wait(rlx_shared_address(&barrier), rlx_u32(turn) % 2u); }
RLX_FN void wait_full(int turn) { wait_turn(full[turn % kStages], turn / kStages); }

RLX_FN void start_ring() {
  RLX_UNROLL for (int stage = 0; stage < kStages; ++stage) {
    rlx_mbarrier_init(rlx_shared_address(&full[stage]), kFetchers + kFetchers / 32 + RLX_STREAM_ARRIVALS);
    rlx_mbarrier_init(rlx_shared_address(&empty[stage]), 8u);
  }
}

// Where a workgroup's part of the tensors is.
struct Place {
  rlx_i64 batch;
  rlx_i64 head;
  int first_column;
};
RLX_FN rlx_i64 state_place(const Place& place, int key, int column) {
  const rlx_i64 matrix = (place.batch * RLX_HEADS + place.head) * (rlx_i64(RLX_KEYS) * RLX_COLUMNS);
  return matrix + key * rlx_i64(RLX_S_KEY) + (place.first_column + column) * rlx_i64(RLX_S_VALUE);
}
RLX_FN float first_state(const RlxParams& p, const Place& place, int key, int column) {
#if RLX_HAS_STATE0
  if (place.first_column + column < RLX_COLUMNS) return rlx_load_f32(p.state0, state_place(place, key, column));
#endif
  return 0.0f;
}
RLX_FN void store_state(const RlxParams& p, const Place& place, int key, int column, float value) {
#if RLX_HAS_STATE
  if (place.first_column + column < RLX_COLUMNS) rlx_store_f32(p.state, state_place(place, key, column), value);
#endif
}

// Values of a step in columns `column` and the next, an even one. They come this way and not by loads of those who use them, because a
// fence waits for a thread's loads from memory.
RLX_FN float2 values_of(const Stage& stage, int row, int column) {
  return unpack(rlx_shared_load1(stage.values + value_place(row, column)));
}

// What a step's result is at last. `value`: the step's own.
RLX_FN float finished(const RlxParams& p, const Place& place, int t, int column, float result, float value) {
#if RLX_HAS_D
  result += RLX_ELEMENT(RLX_D, p.d, place.head) * value;
#endif
#if RLX_HAS_Z
  const rlx_i64 gate = place.batch * RLX_Z_BATCH + t * rlx_i64(RLX_Z_STEP) + place.head * RLX_Z_HEAD + place.first_column + column;
  result *= rlx_silu(RLX_ELEMENT(RLX_X, p.z, gate));
#endif
  return result;
}
// Results in columns `column` and the next, an even one.
RLX_FN void store_results(const RlxParams& p, const Place& place, int t, int column, float2 results, float2 values) {
  if (t >= RLX_STEPS || place.first_column + column >= RLX_COLUMNS) return;
  const rlx_i64 to = place.batch * RLX_Y_BATCH + t * rlx_i64(RLX_Y_STEP) + place.head * RLX_Y_HEAD + place.first_column + column;
  const float first = finished(p, place, t, column, results.x, values.x);
#if RLX_Y_PAIRS
  rlx_at<rlx_u32>(p.y, to * 2) = RLX_CAT(RLX_CAT(rlx_pack_, RLX_X), x2)(first, finished(p, place, t, column + 1, results.y, values.y));
#else
  RLX_CAT(rlx_store_, RLX_X)(p.y, to, first);
  if (place.first_column + column + 1 >= RLX_COLUMNS) return;
  RLX_CAT(rlx_store_, RLX_X)(p.y, to + 1, finished(p, place, t, column + 1, results.y, values.y));
#endif
}

// The warps that fetch chunks. Beyond the sequence they repeat the last rows, which meet nothing but zeros.
RLX_FN void fetch(const RlxParams& p, const Place& place, int first_turn, int thread) {
  const rlx_i64 q_first = place.batch * RLX_Q_BATCH + place.head / RLX_HEADS_PER_QUERY * RLX_Q_HEAD;
  const rlx_i64 k_first = place.batch * RLX_K_BATCH + place.head / RLX_HEADS_PER_KEY * RLX_K_HEAD;
  const rlx_i64 v_first = place.batch * RLX_V_BATCH + place.head * RLX_V_HEAD + place.first_column;
  const int value_row = thread / 2;
  const int value_column = thread % 2 * 8;
  RLX_LOOP for (int chunk = 0; chunk < RLX_CHUNKS; ++chunk) {
    const int turn = first_turn + chunk;
    // Loads of values, zeros beyond the tensor, are under way while the stage is still in use.
    rlx_u32 bits[8];
    const rlx_i64 from = v_first + rlx_i64(chunk * kSteps + value_row) * RLX_V_STEP + value_column;
    const int inside = chunk * kSteps + value_row < RLX_STEPS ? RLX_COLUMNS - place.first_column - value_column : 0;
    RLX_UNROLL for (int i = 0; i < 8; ++i) bits[i] = i < inside ? rlx_load_u16(p.v, from + i) : 0u;
    const Stage stage = stage_of(turn);
    const rlx_u32 barrier = rlx_shared_address(&full[turn % kStages]);
    if (turn >= kStages) wait_turn(empty[turn % kStages], turn / kStages - 1);
    if (thread < 32) {
      rlx_stream_announce(barrier, kRecord * 4, rlx_u32(thread));
      copy_record(stage, record_at(p, place.batch, chunk, place.head), barrier, thread);
      rlx_stream_close(barrier);
    }
    // A bulk copy of each row would be slower than its pieces.
    _Pragma("unroll 8") for (int i = thread; i < kSteps * kPiecesOfRow; i += kFetchers) {
      const rlx_i64 t = min(chunk * kSteps + i / kPiecesOfRow, RLX_STEPS - 1);
      const int piece = i % kPiecesOfRow;
      const rlx_u32 row = piece_place(i / kPiecesOfRow, piece);
      rlx_copy16_async(stage.keys + row, RLX_AT(p.k, k_first + t * RLX_K_STEP + piece * 8, 2));
      rlx_copy16_async(stage.queries + row, RLX_AT(p.q, q_first + t * RLX_Q_STEP + piece * 8, 2));
    }
    rlx_mbarrier_arrive_after_copies(barrier);
    const rlx_u32 words[4] = {bits[0] | bits[1] << 16, bits[2] | bits[3] << 16, bits[4] | bits[5] << 16, bits[6] | bits[7] << 16};
    rlx_shared_store4(stage.values + value_place(value_row, value_column), words);
    arrive_warp(full[turn % kStages], thread % 32);
  }
}

#endif
