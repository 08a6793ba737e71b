// SPDX-License-Identifier: Apache-2.0
// The epilogue of conv_mma: from a workgroup's sums, RLX_TILE_M pixels by RLX_TILE_N filters in parts of K, to y. Its unit is 16
// bytes of y; each workgroup of a cluster finishes an equal share of the tile's units.
// Shared memory: the including form says where its sums begin (kSumsAt) and how many bytes it has (kWorkBytes). With RLX_SUMS_AGAIN it
// has exact_sum(p, row of y, filter), the sum by f32 fused multiply-adds.
#ifndef RLX_LIB_CONV_UNITS_CUH
#define RLX_LIB_CONV_UNITS_CUH

RLX_DYNAMIC_SHARED(kWorkBytes);
#if RLX_SPLIT > 1
RLX_CLUSTER(RLX_SPLIT);
#endif

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

// ---- sums ----

RLX_FN float* sum_at(int part, int row, int column) {
  return reinterpret_cast<float*>(rlx_shared + kSumsAt) + part * (kPartBytes / 4) + row * kSumPitch + column;
}

RLX_FN void store_sums(rlx_u32 warp_m, rlx_u32 warp_n, rlx_u32 warp_k, const WarpSums& sums) {
  const int row = int(warp_m * kWarpM + rlx_lane_of_warp / 4u);
  const int column = int(warp_n * kWarpN + rlx_lane_of_warp % 4u * 2u);
  RLX_UNROLL for (int i = 0; i < kBlocksM; ++i) {
    RLX_UNROLL for (int j = 0; j < kBlocksN; ++j) {
      RLX_UNROLL for (int half = 0; half < 2; ++half) {
        *reinterpret_cast<float2*>(sum_at(int(warp_k), row + i * 16 + half * 8, column + j * 8)) =
            make_float2(rlx_sum_of(sums, i, j, 2 * half), rlx_sum_of(sums, i, j, 2 * half + 1));
      }
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
// Joins the parts of the workgroup's warps in the first one, and returns when the cluster's workgroups have done so too.
RLX_FN void publish_sums() {
  constexpr int kRowFours = RLX_TILE_N / 4;
  for (int four = int(rlx_local_index); RLX_WARPS_K > 1 && four < RLX_TILE_M * kRowFours; four += kThreads) {
    const int row = four / kRowFours;
    const int column = four % kRowFours * 4;
    float value[4] = {};
    RLX_UNROLL for (int part = 0; part < RLX_WARPS_K; ++part) add4(value, *reinterpret_cast<const float4*>(sum_at(part, row, column)));
    *reinterpret_cast<float4*>(sum_at(0, row, column)) = make_float4(value[0], value[1], value[2], value[3]);
  }
  rlx_cluster_barrier();
}
// The sums of all the cluster's workgroups for the tile's unit `unit`, which begins at column `column` of y; zeros beyond y.
RLX_FN void load_cluster_unit(int unit, int column, float (&value)[kUnit]) {
  const rlx_u32 own = rlx_shared_address(sum_at(0, unit / kUnitsN, unit % kUnitsN * kUnit));
  RLX_UNROLL for (int e = 0; e < kUnit; ++e) value[e] = 0.0f;
  RLX_UNROLL for (int sharer = 0; sharer < kSplit; ++sharer) {
    const rlx_u32 from = rlx_cluster_address(own, rlx_u32(sharer));
    RLX_UNROLL for (int e = 0; e < kUnit; e += 4) add4(value + e, rlx_cluster_load4(from + e * 4u, column + e < RLX_FILTERS));
  }
}
#endif

// Where the thread's unit `u` of the workgroup's share lies; outside: beyond y. RowOf gives the row of y of a row of the tile,
// RLX_ROWS or more for none.
struct UnitPlace {
  int unit;  // of the share
  int row;   // of y
  int column;
  bool inside;
};
template <typename RowOf>
RLX_FN UnitPlace unit_place(int u, rlx_u32 rank, int first_filter, const RowOf& row_of) {
  UnitPlace place;
  place.unit = int(rlx_local_index) + u * kThreads;
  const int unit = int(rank) * kUnitsShare + place.unit;
  place.row = row_of(unit / kUnitsN);
  place.column = first_filter + unit % kUnitsN * kUnit;
  place.inside = place.unit < kUnitsShare && place.row < RLX_ROWS && place.column < RLX_FILTERS;
  return place;
}

// Every unit lies inside the row and is aligned; otherwise elements travel one by one.
#if RLX_WORDS
constexpr bool kWholeUnits = RLX_WHOLE_UNITS;
#elif defined(RLX_RESIDUAL)
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


// What a thread reads ahead of its sums: the bias of its units' columns, their residuals where they are few.
struct Ahead {
#ifdef RLX_BIAS
  float bias[kUnit];
#endif
#ifdef RLX_RESIDUAL
  Unit residual[kEarlyResidual ? kUnitsThread : 1];
#endif
};

RLX_FN void load_bias(rlx_ptr bias, int first_filter, Ahead& ahead) {
#ifdef RLX_BIAS
  const int column = first_filter + int(rlx_local_index) % kUnitsN * kUnit;
  RLX_UNROLL for (int e = 0; e < kUnit; ++e) ahead.bias[e] = 0.0f;
  if (column < RLX_FILTERS) RLX_LOAD_UNIT(RLX_BIAS, bias, column, column, ahead.bias);
#endif
}

template <typename RowOf>
RLX_FN void load_early_residuals(rlx_ptr residual, rlx_u32 rank, int first_filter, const RowOf& row_of, Ahead& ahead) {
#ifdef RLX_RESIDUAL
  if (!kEarlyResidual) return;
  RLX_UNROLL for (int u = 0; u < kUnitsThread; ++u) {
    const UnitPlace place = unit_place(u, rank, first_filter, row_of);
    if (place.inside) ahead.residual[u] = load_residual(residual, rlx_i64(place.row) * RLX_RESIDUAL_PITCH + place.column, place.column);
  }
#endif
}

// y of the workgroup's units.
template <typename RowOf>
RLX_FN void finish_units(const RlxParams& p, rlx_u32 rank, int first_filter, const RowOf& row_of, Ahead& ahead) {
  RLX_UNROLL for (int u = 0; u < kUnitsThread; ++u) {
    const UnitPlace place = unit_place(u, rank, first_filter, row_of);
    if (!place.inside) continue;
    float value[kUnit];
#if RLX_SPLIT > 1 && __CUDA_ARCH__ >= 900
    load_cluster_unit(int(rank) * kUnitsShare + place.unit, place.column, value);
#else
    load_unit(place.unit, value);
#endif
#if RLX_SUMS_AGAIN
    RLX_UNROLL for (int e = 0; e < kUnit; ++e) {
      if (!rlx_finite(value[e]) && place.column + e < RLX_FILTERS) value[e] = exact_sum(p, place.row, place.column + e RLX_GIVEN_SIZES);
    }
#endif
#ifdef RLX_BIAS
    RLX_UNROLL for (int e = 0; e < kUnit; ++e) value[e] += ahead.bias[e];
#endif
#ifdef RLX_RESIDUAL
    const rlx_i64 from = rlx_i64(place.row) * RLX_RESIDUAL_PITCH + place.column;
    if (!kEarlyResidual) ahead.residual[0] = load_residual(p.residual, from, place.column);
    add_unit(ahead.residual[kEarlyResidual ? u : 0], value);
#endif
    if (RLX_ACTIVATES) {
      RLX_UNROLL for (int e = 0; e < kUnit; ++e) value[e] = rlx_activate(value[e]);
    }
    store_unit(p.y, rlx_i64(place.row) * RLX_Y_PITCH + place.column, place.column, value);
  }
#if RLX_SPLIT > 1 && __CUDA_ARCH__ >= 900
  // Nobody leaves while others read its sums.
  rlx_cluster_arrive();
  rlx_cluster_wait();
#endif
}

#endif
