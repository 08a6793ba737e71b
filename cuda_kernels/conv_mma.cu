// SPDX-License-Identifier: Apache-2.0
// y[n, o, co] = act(sum over taps t and c of x[n, o * stride + t * dilation - begin, c] * w[co, t, c] + bias[co] +
//   residual[n, o, co]): an implicit matrix product on tensor cores of pixels [M = N * OUT, K = taps * C] with filters [Co, K].
// Layout: channels last. x [N, H, W, C] with strides RLX_X_N, RLX_X_H, RLX_X_W (multiples of 16 bytes), channels dense and a
//   multiple of 16 bytes; w [Co, KERNEL_H, KERNEL_W, C] dense; y and residual [M, Co] with rows RLX_Y_PITCH and
//   RLX_RESIDUAL_PITCH elements apart. All 16-byte aligned.
// Method: steps of 128 bytes along K go through a ring of RLX_STAGES slots of shared memory (asynchronous copies that zero what
//   lies in the pads, 16-byte pieces swizzled by the row); every warp takes a part of the tile and, of each step, a part of K.
//   The parts of K, of the warps and then of the cluster's workgroups, are summed in a fixed order through shared memory. The
//   ring's first filters are fetched before the kernel waits for its predecessors where RLX_PREFETCH 1 says that w is a weight.
// Grid: tiles of filters fastest, then of pixels; RLX_SPLIT workgroups (a cluster) share a tile and divide K.
// Specializations: RLX_TILE_M, RLX_TILE_N, RLX_WARPS_M, RLX_WARPS_N, RLX_WARPS_K, RLX_STAGES, RLX_SPLIT; RLX_IMAGES, RLX_CHANNELS,
//   RLX_FILTERS; window as in conv_window.h (H and W); storage types RLX_X (also of w), RLX_Y (also of the
//   residual), RLX_BIAS; RLX_BIAS and RLX_RESIDUAL are undefined where absent; RLX_ACTIVATION 1: generated/epilogue.inc defines rlx_activate; RLX_PRODUCTS of f32: 3 splits each
//   factor into two tf32 (an error like f32's), 1 rounds it to tf32.
// Numerics: f32 sums; one rounding at the store.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/mma.cuh"

RLX_PARAMS(ConvMmaParams);

#define rlx_acc_t float
#if RLX_ACTIVATION
#include "lib/math.cuh"
#include "generated/epilogue.inc"
#else
#define rlx_activate(value) (value)
#endif

constexpr int kThreads = RLX_BLOCK_X;
constexpr int kBytes = RLX_CAT(rlx_bytes_, RLX_X);
constexpr int kPieceBytes = 16;
constexpr int kPiece = kPieceBytes / kBytes;  // elements
constexpr int kStepBytes = 128;
constexpr int kStep = kStepBytes / kBytes;  // elements of K
constexpr int kPieces = kStepBytes / kPieceBytes;
constexpr int kDepth = RLX_KERNEL_H * RLX_KERNEL_W * RLX_CHANNELS;
constexpr int kPixels = RLX_OUT_H * RLX_OUT_W;
constexpr int kRows = RLX_IMAGES * kPixels;
constexpr int kTilesN = (RLX_FILTERS + RLX_TILE_N - 1) / RLX_TILE_N;
constexpr int kTilesM = (kRows + RLX_TILE_M - 1) / RLX_TILE_M;

// Older architectures have no clusters: there the first workgroup of each tile does all of it.
constexpr int kAllSteps = (kDepth + kStep - 1) / kStep;
#if __CUDA_ARCH__ >= 900
constexpr int kSplit = RLX_SPLIT;
#else
constexpr int kSplit = 1;
#endif
constexpr int kSteps = (kAllSteps + kSplit - 1) / kSplit;
constexpr bool kResident = kSteps <= RLX_STAGES;  // the ring holds everything: no slot is used twice
constexpr int kAhead = kResident ? kSteps : RLX_STAGES - 1;

// What a warp computes.
constexpr int kWarpM = RLX_TILE_M / RLX_WARPS_M;
constexpr int kWarpN = RLX_TILE_N / RLX_WARPS_N;
constexpr int kBlocksM = kWarpM / 16;
constexpr int kBlocksN = kWarpN / 8;
constexpr int kSubSteps = kStepBytes / 32 / RLX_WARPS_K;  // mma depths of a step

// What a thread copies: one 16-byte column of every kRowStride-th row.
constexpr int kRowStride = kThreads / kPieces;
constexpr int kRowsA = RLX_TILE_M / kRowStride;
constexpr int kRowsB = RLX_TILE_N / kRowStride;
static_assert(kThreads == 32 * RLX_WARPS_M * RLX_WARPS_N * RLX_WARPS_K, "warps");
static_assert(kRowsA * kRowStride == RLX_TILE_M && kRowsB * kRowStride == RLX_TILE_N && kRowStride % 8 == 0, "copies");
static_assert(kBlocksM * 16 == kWarpM && kBlocksN % 2 == 0 && kSubSteps * RLX_WARPS_K * 32 == kStepBytes, "fragments");

// Shared memory: the ring, then (in its place) the sums of each part of K; behind both, what the cluster's workgroups send.
constexpr int kBytesA = RLX_TILE_M * kStepBytes;
constexpr int kSlotBytes = kBytesA + RLX_TILE_N * kStepBytes;
constexpr int kRingBytes = RLX_STAGES * kSlotBytes;
constexpr int kSumPitch = RLX_TILE_N + 8;  // words: spreads the rows of a fragment over the banks
constexpr int kPartBytes = RLX_TILE_M * kSumPitch * 4;
constexpr int kSumBytes = RLX_WARPS_K * kPartBytes;
constexpr int kWorkBytes = kRingBytes > kSumBytes ? kRingBytes : kSumBytes;
constexpr int kInboxBytes = RLX_SPLIT > 1 ? RLX_TILE_M * RLX_TILE_N * 4 : 0;
RLX_DYNAMIC_SHARED(kWorkBytes + kInboxBytes);
#if RLX_SPLIT > 1
RLX_CLUSTER(RLX_SPLIT);
#endif

// The epilogue's unit: 16 bytes of y. Each workgroup of a cluster finishes an equal share of the tile's.
constexpr int kUnit = 16 / RLX_CAT(rlx_bytes_, RLX_Y);
constexpr int kUnitsN = RLX_TILE_N / kUnit;
constexpr int kUnitsShare = RLX_TILE_M * kUnitsN / kSplit;
constexpr int kUnitsThread = (kUnitsShare + kThreads - 1) / kThreads;
static_assert(kUnitsShare * kSplit == RLX_TILE_M * kUnitsN, "shares");
static_assert(kThreads % kUnitsN == 0 && RLX_TILE_M % RLX_SPLIT == 0, "a thread's units share their columns");
#ifdef RLX_RESIDUAL
// They travel in registers while the products are computed, where they are few.
constexpr bool kEarlyResidual = kUnitsThread <= 4;
#endif

// ---- copies into the ring ----

struct Pixel {
  int offset;  // of the window's first element, in elements; may lie before x
  int h;       // row and column of the window's first tap
  int w;
};
RLX_FN Pixel pixel_of(int row) {
  const int image = row / kPixels;
  const int pixel = row % kPixels;
  Pixel place;
  place.h = pixel / RLX_OUT_W * RLX_STRIDE_H - RLX_BEGIN_H;
  place.w = pixel % RLX_OUT_W * RLX_STRIDE_W - RLX_BEGIN_W;
  place.offset = image * RLX_X_N + place.h * RLX_X_H + place.w * RLX_X_W;
  if (row >= kRows) place.h = -(1 << 24);  // outside, whatever the tap
  return place;
}

// The pieces of filters at `step`; `row` is the thread's first filter of the tile, `column` its piece.
RLX_FN void copy_filters(rlx_ptr w, rlx_u32 slot, int step, int first, int row, int column) {
  const int k = step * kStep + column * kPiece;
  const rlx_u32 to = slot + kBytesA + row * kStepBytes + ((column ^ (row & 7)) * kPieceBytes);
  RLX_UNROLL for (int i = 0; i < kRowsB; ++i) {
    const int filter = first + row + i * kRowStride;
    const bool inside = k < kDepth && filter < RLX_FILTERS;
    const rlx_ptr from = w + rlx_ptr(inside ? rlx_i64(filter) * kDepth + k : 0) * kBytes;
    rlx_copy16_async(to + i * kRowStride * kStepBytes, from, inside ? 16u : 0u);
  }
}

RLX_FN void copy_pixels(rlx_ptr x, rlx_u32 slot, int step, const Pixel (&pixels)[kRowsA], int row, int column) {
  const int k = step * kStep + column * kPiece;
  const int tap = k / RLX_CHANNELS;
  const int tap_h = tap / RLX_KERNEL_W * RLX_DILATION_H;
  const int tap_w = tap % RLX_KERNEL_W * RLX_DILATION_W;
  const int offset = tap_h * RLX_X_H + tap_w * RLX_X_W + k % RLX_CHANNELS;
  const rlx_u32 to = slot + row * kStepBytes + ((column ^ (row & 7)) * kPieceBytes);
  RLX_UNROLL for (int i = 0; i < kRowsA; ++i) {
    const bool inside = k < kDepth && rlx_u32(pixels[i].h + tap_h) < rlx_u32(RLX_IN_H) &&
                        rlx_u32(pixels[i].w + tap_w) < rlx_u32(RLX_IN_W);
    const rlx_ptr from = x + rlx_ptr(rlx_i64(inside ? pixels[i].offset + offset : 0) * kBytes);
    rlx_copy16_async(to + i * kRowStride * kStepBytes, from, inside ? 16u : 0u);
  }
}

// ---- products ----

#if RLX_CAT(rlx_bytes_, RLX_X) == 4
RLX_FN void split_tf32(rlx_u32 word, rlx_u32& high, rlx_u32& low) {
  high = rlx_tf32(rlx_from_bits(word));
  low = rlx_tf32(rlx_from_bits(word) - rlx_from_bits(high));
}
#endif

// d += a * b of one 16 x 8 block over one mma depth.
RLX_FN void multiply_block(float (&d)[4], const rlx_u32 (&a)[4], const rlx_u32 (&b)[2]) {
#if RLX_CAT(rlx_bytes_, RLX_X) == 2
  RLX_CAT(rlx_mma_, RLX_X)(d, a, b);
#else
  rlx_mma_tf32(d, a, b);
#endif
}

// The warp's part of the step in `slot`: blocks of 16 pixels by 8 filters.
RLX_FN void multiply_step(rlx_u32 slot, rlx_u32 warp_m, rlx_u32 warp_n, rlx_u32 warp_k, float (&sums)[kBlocksM][kBlocksN][4]) {
  const rlx_u32 lane = rlx_lane_of_warp;
  const rlx_u32 a_rows = slot + (warp_m * kWarpM + lane % 16u) * kStepBytes;
  const rlx_u32 b_rows = slot + kBytesA + (warp_n * kWarpN + lane % 8u + lane / 16u * 8u) * kStepBytes;
  RLX_UNROLL for (int sub = 0; sub < kSubSteps; ++sub) {
    const rlx_u32 piece = (warp_k * kSubSteps + sub) * 2u;
    const rlx_u32 a_piece = ((piece + lane / 16u) ^ (lane & 7u)) * kPieceBytes;
    const rlx_u32 b_piece = ((piece + lane / 8u % 2u) ^ (lane & 7u)) * kPieceBytes;
    rlx_u32 a[kBlocksM][4];
    rlx_u32 b[kBlocksN / 2][4];
    RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) rlx_load_tiles4(a[i], a_rows + a_piece + i * 16 * kStepBytes);
    RLX_UNROLL for (int j = 0; j < kBlocksN / 2; ++j) rlx_load_tiles4(b[j], b_rows + b_piece + j * 16 * kStepBytes);
#if RLX_CAT(rlx_bytes_, RLX_X) == 4 && RLX_PRODUCTS == 3
    rlx_u32 a_low[kBlocksM][4];
    RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) split_tf32(a[i][e], a[i][e], a_low[i][e]);
    }
#elif RLX_CAT(rlx_bytes_, RLX_X) == 4
    RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) a[i][e] = rlx_tf32(rlx_from_bits(a[i][e]));
    }
#endif
    RLX_UNROLL for (int j = 0; j < kBlocksN; ++j) {
      rlx_u32 column[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
#if RLX_CAT(rlx_bytes_, RLX_X) == 4 && RLX_PRODUCTS == 3
      rlx_u32 column_low[2];
      RLX_UNROLL for (int e = 0; e < 2; ++e) split_tf32(column[e], column[e], column_low[e]);
      RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) {
        multiply_block(sums[i][j], a_low[i], column);
        multiply_block(sums[i][j], a[i], column_low);
      }
#elif RLX_CAT(rlx_bytes_, RLX_X) == 4
      RLX_UNROLL for (int e = 0; e < 2; ++e) column[e] = rlx_tf32(rlx_from_bits(column[e]));
#endif
      RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) multiply_block(sums[i][j], a[i], column);
    }
  }
}

// Calls multiply(step) for steps from kStepNumber on, each as soon as its copies, one group per step, are here.
template <int kStepNumber, typename Multiply>
RLX_FN void multiply_resident(const Multiply& multiply) {
  if constexpr (kStepNumber < kSteps) {
    rlx_wait_copies<kSteps - 1 - kStepNumber>();
    rlx_barrier();
    multiply(kStepNumber);
    multiply_resident<kStepNumber + 1>(multiply);
  }
}

// ---- epilogue ----

RLX_FN float* sum_at(int part, int row, int column) {
  return reinterpret_cast<float*>(rlx_shared) + part * (kPartBytes / 4) + row * kSumPitch + column;
}

RLX_FN void store_sums(rlx_u32 warp_m, rlx_u32 warp_n, rlx_u32 warp_k, const float (&sums)[kBlocksM][kBlocksN][4]) {
  const int row = int(warp_m * kWarpM + rlx_lane_of_warp / 4u);
  const int column = int(warp_n * kWarpN + rlx_lane_of_warp % 4u * 2u);
  RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) {
    RLX_UNROLL for (int j = 0; j < kBlocksN; ++j) {
      *reinterpret_cast<float2*>(sum_at(int(warp_k), row + i * 16, column + j * 8)) = make_float2(sums[i][j][0], sums[i][j][1]);
      *reinterpret_cast<float2*>(sum_at(int(warp_k), row + i * 16 + 8, column + j * 8)) = make_float2(sums[i][j][2], sums[i][j][3]);
    }
  }
}

RLX_FN void add4(float* sum, float4 v) {
  sum[0] += v.x;
  sum[1] += v.y;
  sum[2] += v.z;
  sum[3] += v.w;
}

// The sums of the workgroup's warps for the tile's unit `unit`.
RLX_FN void load_unit(int unit, float (&value)[kUnit]) {
  const int row = unit / kUnitsN;
  const int column = unit % kUnitsN * kUnit;
  RLX_UNROLL for (int e = 0; e < kUnit; ++e) value[e] = 0.0f;
  RLX_UNROLL for (int part = 0; part < RLX_WARPS_K; ++part) {
    RLX_UNROLL for (int e = 0; e < kUnit; e += 4) add4(value + e, *reinterpret_cast<const float4*>(sum_at(part, row, column + e)));
  }
}

#if RLX_SPLIT > 1 && __CUDA_ARCH__ >= 900
// Sends every unit's sums to the workgroup that finishes it, and returns when all have arrived. The inbox holds the units of a
// share per sender.
RLX_FN void exchange_sums(rlx_u32 rank) {
  const rlx_u32 inbox = rlx_shared_address(rlx_shared) + kWorkBytes;
  for (int unit = int(rlx_local_index); unit < kUnitsShare * kSplit; unit += kThreads) {
    float value[kUnit];
    load_unit(unit, value);
    const rlx_u32 slot = (rank * kUnitsShare + rlx_u32(unit % kUnitsShare)) * (kUnit * 4u);
    const rlx_u32 to = rlx_cluster_address(inbox + slot, rlx_u32(unit / kUnitsShare));
    RLX_UNROLL for (int e = 0; e < kUnit; e += 4) {
      asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + e * 4u), "f"(value[e]), "f"(value[e + 1]),
                   "f"(value[e + 2]), "f"(value[e + 3])
                   : "memory");
    }
  }
  rlx_cluster_barrier();
}
RLX_FN void load_inbox(int unit, float (&value)[kUnit]) {
  const float* inbox = reinterpret_cast<const float*>(rlx_shared + kWorkBytes) + unit * kUnit;
  RLX_UNROLL for (int e = 0; e < kUnit; ++e) value[e] = 0.0f;
  RLX_UNROLL for (int sender = 0; sender < kSplit; ++sender) {
    RLX_UNROLL for (int e = 0; e < kUnit; e += 4) {
      add4(value + e, *reinterpret_cast<const float4*>(inbox + sender * kUnitsShare * kUnit + e));
    }
  }
}
#endif

// Where the workgroup's unit `u` of its share lies; outside: beyond y.
struct UnitPlace {
  int unit;  // of the share
  int row;   // of y
  int column;
  bool inside;
};
RLX_FN UnitPlace unit_place(int u, int share, int tile_m, int tile_n) {
  UnitPlace place;
  place.unit = int(rlx_local_index) + u * kThreads;
  const int unit = share * kUnitsShare + place.unit;
  place.row = tile_m * RLX_TILE_M + unit / kUnitsN;
  place.column = tile_n * RLX_TILE_N + unit % kUnitsN * kUnit;
  place.inside = place.unit < kUnitsShare && place.row < kRows && place.column < RLX_FILTERS;
  return place;
}

// Every unit lies inside the row and is aligned; otherwise elements travel one by one.
#ifdef RLX_RESIDUAL
constexpr bool kWholeUnits = RLX_FILTERS % kUnit == 0 && RLX_Y_PITCH % kUnit == 0 && RLX_RESIDUAL_PITCH % kUnit == 0;
#else
constexpr bool kWholeUnits = RLX_FILTERS % kUnit == 0 && RLX_Y_PITCH % kUnit == 0;
#endif

// A unit of an array of y's type as it stands in memory.
struct Unit {
  rlx_u32 words[4];
};
#if RLX_CAT(rlx_bytes_, RLX_Y) == 2
RLX_FN Unit pack_unit(const float (&value)[kUnit]) {
  Unit unit;
  RLX_UNROLL for (int i = 0; i < 4; ++i) unit.words[i] = RLX_CAT(RLX_CAT(rlx_pack_, RLX_Y), x2)(value[2 * i], value[2 * i + 1]);
  return unit;
}
RLX_FN void add_unit(const Unit& unit, float (&value)[kUnit]) {
  RLX_UNROLL for (int i = 0; i < 4; ++i) {
    const rlx_vec2 pair = RLX_CAT(RLX_CAT(rlx_unpack_, RLX_Y), x2)(unit.words[i]);
    value[2 * i] += pair.x;
    value[2 * i + 1] += pair.y;
  }
}
#else
RLX_FN Unit pack_unit(const float (&value)[kUnit]) {
  Unit unit;
  RLX_UNROLL for (int i = 0; i < 4; ++i) unit.words[i] = rlx_bits(value[i]);
  return unit;
}
RLX_FN void add_unit(const Unit& unit, float (&value)[kUnit]) {
  RLX_UNROLL for (int i = 0; i < 4; ++i) value[i] += rlx_from_bits(unit.words[i]);
}
#endif

// Elements [at, at + kUnit) of an array of storage type `dtype` as floats, those from column RLX_FILTERS on as 0. Whole units are
// aligned.
#define RLX_LOAD_UNIT(dtype, base, at, column, value) \
  RLX_UNROLL for (int e = 0; e < kUnit; e += 4) { \
    if (kWholeUnits) { \
      const rlx_vec4 v = RLX_CAT(rlx_load4_, dtype)(base, (at) + e); \
      value[e] = v.x; \
      value[e + 1] = v.y; \
      value[e + 2] = v.z; \
      value[e + 3] = v.w; \
    } else { \
      RLX_UNROLL for (int i = e; i < e + 4; ++i) value[i] = (column) + i < RLX_FILTERS ? RLX_CAT(rlx_load_, dtype)(base, (at) + i) : 0.0f; \
    } \
  }

// The residual's unit at element `at`; beside whole units its words, else its elements one by one.
#ifdef RLX_RESIDUAL
RLX_FN Unit load_residual(rlx_ptr residual, rlx_i64 at, int column) {
  Unit unit;
  if (kWholeUnits) {
    const rlx_uvec4 words = rlx_raw16(residual, at * RLX_CAT(rlx_bytes_, RLX_Y));
    unit = {{words.x, words.y, words.z, words.w}};
    return unit;
  }
  float value[kUnit];
  RLX_UNROLL for (int e = 0; e < kUnit; ++e) value[e] = column + e < RLX_FILTERS ? RLX_CAT(rlx_load_, RLX_Y)(residual, at + e) : 0.0f;
  return pack_unit(value);
}
#endif

RLX_FN void store_unit(rlx_ptr y, rlx_i64 at, int column, const float (&value)[kUnit]) {
  if (!kWholeUnits) {
    RLX_UNROLL for (int e = 0; e < kUnit; ++e) {
      if (column + e < RLX_FILTERS) RLX_CAT(rlx_store_, RLX_Y)(y, at + e, value[e]);
    }
    return;
  }
  const Unit unit = pack_unit(value);
  rlx_put16(y, at * RLX_CAT(rlx_bytes_, RLX_Y), rlx_uvec4{unit.words[0], unit.words[1], unit.words[2], unit.words[3]});
}

RLX_MAIN_PREFETCH {
  const rlx_u32 linear = rlx_u32(rlx_linear_group);
  const int tile = int(linear / RLX_SPLIT);
  const rlx_u32 rank = linear % RLX_SPLIT;
  if (tile >= kTilesM * kTilesN || rank >= kSplit) return;  // whole clusters
  const int tile_n = tile % kTilesN;
  const int tile_m = tile / kTilesN;
  const int first_step = int(rank) * kSteps;
#if RLX_SPLIT > 1 && __CUDA_ARCH__ >= 900
  // Others may send only when this workgroup runs.
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif

  const rlx_u32 ring = rlx_shared_address(rlx_shared);
  const int row = int(rlx_local_index) / kPieces;
  const int column = int(rlx_local_index) % kPieces;
  Pixel pixels[kRowsA];
  RLX_UNROLL for (int i = 0; i < kRowsA; ++i) pixels[i] = pixel_of(tile_m * RLX_TILE_M + row + i * kRowStride);
  const int first_filter = tile_n * RLX_TILE_N;

#if !RLX_PREFETCH
  rlx_wait_for_predecessors();
#endif
  RLX_UNROLL for (int s = 0; s < kAhead; ++s) {
    copy_filters(p.w, ring + s * kSlotBytes, first_step + s, first_filter, row, column);
  }
#ifdef RLX_BIAS
  const int bias_column = first_filter + int(rlx_local_index) % kUnitsN * kUnit;
  float bias[kUnit] = {};
  if (bias_column < RLX_FILTERS) RLX_LOAD_UNIT(RLX_BIAS, p.bias, bias_column, bias_column, bias);
#endif
#if RLX_PREFETCH
  rlx_wait_for_predecessors();
#endif
  RLX_UNROLL for (int s = 0; s < kAhead; ++s) {
    copy_pixels(p.x, ring + s * kSlotBytes, first_step + s, pixels, row, column);
    rlx_commit_copies();
  }

#ifdef RLX_RESIDUAL
  Unit residual[kEarlyResidual ? kUnitsThread : 1];
  if (kEarlyResidual) {
    RLX_UNROLL for (int u = 0; u < kUnitsThread; ++u) {
      const UnitPlace place = unit_place(u, int(rank), tile_m, tile_n);
      if (place.inside) residual[u] = load_residual(p.residual, rlx_i64(place.row) * RLX_RESIDUAL_PITCH + place.column, place.column);
    }
  }
#endif

  const rlx_u32 warp_m = rlx_warp % RLX_WARPS_M;
  const rlx_u32 warp_n = rlx_warp / RLX_WARPS_M % RLX_WARPS_N;
  const rlx_u32 warp_k = rlx_warp / (RLX_WARPS_M * RLX_WARPS_N);
  float sums[kBlocksM][kBlocksN][4];
  RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) {
    RLX_UNROLL for (int j = 0; j < kBlocksN; ++j) {
      RLX_UNROLL for (int e = 0; e < 4; ++e) sums[i][j][e] = 0.0f;
    }
  }
  if constexpr (kResident) {
    multiply_resident<0>([&](int step) { multiply_step(ring + step * kSlotBytes, warp_m, warp_n, warp_k, sums); });
  } else {
    rlx_u32 slot = 0;
    rlx_u32 next_slot = RLX_STAGES - 1;
    RLX_LOOP for (int step = 0; step < kSteps; ++step) {
      rlx_wait_copies<RLX_STAGES - 2>();
      rlx_barrier();
      if (step + kAhead < kSteps) {
        const rlx_u32 to = ring + next_slot * kSlotBytes;
        copy_filters(p.w, to, first_step + step + kAhead, first_filter, row, column);
        copy_pixels(p.x, to, first_step + step + kAhead, pixels, row, column);
      }
      rlx_commit_copies();
      multiply_step(ring + slot * kSlotBytes, warp_m, warp_n, warp_k, sums);
      slot = slot + 1u == RLX_STAGES ? 0u : slot + 1u;
      next_slot = next_slot + 1u == RLX_STAGES ? 0u : next_slot + 1u;
    }
  }
  rlx_wait_copies<0>();
  rlx_barrier();

  store_sums(warp_m, warp_n, warp_k, sums);
  rlx_barrier();
#if RLX_SPLIT > 1 && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
  exchange_sums(rank);
#endif
  RLX_UNROLL for (int u = 0; u < kUnitsThread; ++u) {
    const UnitPlace place = unit_place(u, int(rank), tile_m, tile_n);
    if (!place.inside) continue;
    float value[kUnit];
#if RLX_SPLIT > 1 && __CUDA_ARCH__ >= 900
    load_inbox(place.unit, value);
#else
    load_unit(place.unit, value);
#endif
#ifdef RLX_BIAS
    RLX_UNROLL for (int e = 0; e < kUnit; ++e) value[e] += bias[e];
#endif
#ifdef RLX_RESIDUAL
    if (!kEarlyResidual) residual[0] = load_residual(p.residual, rlx_i64(place.row) * RLX_RESIDUAL_PITCH + place.column, place.column);
    add_unit(residual[kEarlyResidual ? u : 0], value);
#endif
    RLX_UNROLL for (int e = 0; e < kUnit; ++e) value[e] = rlx_activate(value[e]);
    store_unit(p.y, rlx_i64(place.row) * RLX_Y_PITCH + place.column, place.column, value);
  }
}
