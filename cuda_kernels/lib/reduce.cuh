// SPDX-License-Identifier: Apache-2.0
// Reductions over the threads that share a row. The workgroup is RLX_LANES x RLX_ROWS threads; RLX_BY_COLUMN tells how they lie:
//   0  the RLX_LANES threads of a row are neighbours (combined by warp shuffles, across warps through shared memory)
//   1  neighbouring threads belong to neighbouring rows (combined through shared memory)
// RLX_GROUP_REDUCE(name, T, combine) defines `T name(T value)`, which gives every thread of a row the same bits. All threads of
// the workgroup must call it. combine(a, b) is commutative. Both sizes are powers of two.
// The twin of shaders/lib/reduce.glsl.
#ifndef RLX_LIB_REDUCE_CUH
#define RLX_LIB_REDUCE_CUH

#define RLX_WARP_SIZE 32u
// Workgroups are one-dimensional.
#define rlx_thread threadIdx.x
#if RLX_BY_COLUMN
#define rlx_lane (rlx_thread / rlx_u32(RLX_ROWS))
#define rlx_row (rlx_thread % rlx_u32(RLX_ROWS))
#else
#define rlx_lane (rlx_thread % rlx_u32(RLX_LANES))
#define rlx_row (rlx_thread / rlx_u32(RLX_LANES))
#endif

// Only full warps shuffle: a workgroup by row has 128 threads or more.
template <typename T>
RLX_FN T rlx_shuffle_xor(T value, rlx_u32 distance) {
  return __shfl_xor_sync(0xFFFFFFFFu, value, distance);
}

RLX_FN bool rlx_nan(float x) { return (__float_as_uint(x) & 0x7FFFFFFFu) > 0x7F800000u; }
RLX_FN bool rlx_nan(double x) { return (__double_as_longlong(x) & 0x7FFFFFFFFFFFFFFFll) > 0x7FF0000000000000ll; }
RLX_FN bool rlx_nan(rlx_i32) { return false; }
RLX_FN bool rlx_nan(rlx_u32) { return false; }
RLX_FN bool rlx_nan(rlx_i64) { return false; }
RLX_FN bool rlx_infinite(float x) { return (__float_as_uint(x) & 0x7FFFFFFFu) == 0x7F800000u; }
RLX_FN bool rlx_infinite(double x) { return (__double_as_longlong(x) & 0x7FFFFFFFFFFFFFFFll) == 0x7FF0000000000000ll; }

RLX_FN float rlx_finite_or_zero(float x) { return rlx_infinite(x) ? 0.0f : x; }
RLX_FN double rlx_finite_or_zero(double x) { return rlx_infinite(x) ? 0.0 : x; }

#define RLX_COMBINE_SUM(a, b) ((a) + (b))
#define RLX_COMBINE_PROD(a, b) ((a) * (b))
// NaN wins.
#define RLX_COMBINE_MAX(a, b) (((a) > (b) || rlx_nan(a)) ? (a) : (b))
#define RLX_COMBINE_MIN(a, b) (((a) < (b) || rlx_nan(a)) ? (a) : (b))
#define RLX_COMBINE_OR(a, b) ((a) | (b))
#define RLX_COMBINE_AND(a, b) ((a) & (b))

#if RLX_BY_COLUMN
#define RLX_GROUP_REDUCE(name, T, combine)                                                  \
  RLX_FN T name(T value) {                                                                  \
    __shared__ T parts[RLX_BLOCK_SIZE];                                                     \
    const rlx_u32 thread = rlx_thread;                                                      \
    rlx_barrier();                                                                          \
    parts[thread] = value;                                                                  \
    for (rlx_u32 half_lanes = RLX_LANES / 2u; half_lanes > 0u; half_lanes /= 2u) {          \
      rlx_barrier();                                                                        \
      if (thread < half_lanes * RLX_ROWS) {                                                 \
        const T other = parts[thread + half_lanes * RLX_ROWS];                              \
        parts[thread] = combine(parts[thread], other);                                      \
      }                                                                                     \
    }                                                                                       \
    rlx_barrier();                                                                          \
    return parts[thread % RLX_ROWS];                                                        \
  }
#elif RLX_LANES > 32
#define RLX_GROUP_REDUCE(name, T, combine)                                                  \
  RLX_FN T name(T value) {                                                                  \
    RLX_UNROLL for (rlx_u32 distance = 1u; distance < RLX_WARP_SIZE; distance *= 2u) {      \
      const T other = rlx_shuffle_xor(value, distance);                                     \
      value = combine(value, other);                                                        \
    }                                                                                       \
    __shared__ T parts[RLX_BLOCK_SIZE / RLX_WARP_SIZE];                                     \
    const rlx_u32 warp = rlx_thread / RLX_WARP_SIZE;                                        \
    rlx_barrier();                                                                          \
    if (rlx_thread % RLX_WARP_SIZE == 0u) parts[warp] = value;                              \
    rlx_barrier();                                                                          \
    const rlx_u32 per_row = RLX_LANES / RLX_WARP_SIZE;                                      \
    const rlx_u32 first = warp / per_row * per_row;                                         \
    value = parts[first];                                                                   \
    for (rlx_u32 i = 1u; i < per_row; ++i) {                                                \
      const T other = parts[first + i];                                                     \
      value = combine(value, other);                                                        \
    }                                                                                       \
    return value;                                                                           \
  }
#else
#define RLX_GROUP_REDUCE(name, T, combine)                                                  \
  RLX_FN T name(T value) {                                                                  \
    RLX_UNROLL for (rlx_u32 distance = 1u; distance < RLX_LANES; distance *= 2u) {          \
      const T other = rlx_shuffle_xor(value, distance);                                     \
      value = combine(value, other);                                                        \
    }                                                                                       \
    return value;                                                                           \
  }
#endif

#endif
