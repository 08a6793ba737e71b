// SPDX-License-Identifier: Apache-2.0
// Running combinations over the threads that share a row; threads lie as lib/reduce.cuh says, which is included first.
// RLX_GROUP_SCAN(name, T, combine, identity) defines `T name(T value, T& total)`: the values of the threads of the row before
// this one, combined in their order (`identity` for the first thread), and those of all its threads in `total`. All threads of the
// workgroup must call it. combine(a, b): a stands before b. A struct T needs its own rlx_shuffle(T, rlx_u32).
// The twin of shaders/lib/scan.glsl.
#ifndef RLX_LIB_SCAN_CUH
#define RLX_LIB_SCAN_CUH

// A function's second result.
#define RLX_OUT(T) T&

// The value of another thread of the warp.
template <typename T>
RLX_FN T rlx_shuffle(T value, rlx_u32 from) {
  return __shfl_sync(0xFFFFFFFFu, value, static_cast<int>(from));
}

#if RLX_BY_COLUMN
#define RLX_GROUP_SCAN(name, T, combine, identity)                                       \
  RLX_FN T name(T value, T& total) {                                                     \
    __shared__ T parts[RLX_BLOCK_SIZE];                                                  \
    const rlx_u32 thread = rlx_thread;                                                   \
    rlx_barrier();                                                                       \
    parts[thread] = value;                                                               \
    for (rlx_u32 distance = 1u; distance < RLX_LANES; distance *= 2u) {                  \
      rlx_barrier();                                                                     \
      T sum = parts[thread];                                                             \
      if (rlx_lane >= distance) {                                                        \
        const T earlier = parts[thread - distance * RLX_ROWS];                           \
        sum = combine(earlier, sum);                                                     \
      }                                                                                  \
      rlx_barrier();                                                                     \
      parts[thread] = sum;                                                               \
    }                                                                                    \
    rlx_barrier();                                                                       \
    total = parts[(RLX_LANES - 1) * RLX_ROWS + rlx_row];                                 \
    T before = identity;                                                                 \
    if (rlx_lane > 0u) before = parts[thread - RLX_ROWS];                                \
    return before;                                                                       \
  }
#else
#define RLX_GROUP_SCAN(name, T, combine, identity)                                       \
  RLX_FN T name(T value, T& total) {                                                     \
    const rlx_u32 width = RLX_LANES < RLX_WARP_SIZE ? RLX_LANES : RLX_WARP_SIZE;         \
    const rlx_u32 self = rlx_thread % RLX_WARP_SIZE;                                     \
    const rlx_u32 place = self % width;                                                  \
    T sum = value;                                                                       \
    RLX_UNROLL for (rlx_u32 distance = 1u; distance < width; distance *= 2u) {           \
      const T earlier = rlx_shuffle(sum, place >= distance ? self - distance : self);    \
      if (place >= distance) sum = combine(earlier, sum);                                \
    }                                                                                    \
    total = rlx_shuffle(sum, self - place + width - 1u);                                 \
    T before = rlx_shuffle(sum, place > 0u ? self - 1u : self);                          \
    if (place == 0u) before = identity;                                                  \
    if (RLX_LANES > RLX_WARP_SIZE) {                                                     \
      __shared__ T parts[RLX_BLOCK_SIZE / RLX_WARP_SIZE];                                \
      const rlx_u32 warp = rlx_thread / RLX_WARP_SIZE;                                   \
      rlx_barrier();                                                                     \
      if (self == 0u) parts[warp] = total;                                               \
      rlx_barrier();                                                                     \
      const rlx_u32 per_row = RLX_LANES / RLX_WARP_SIZE;                                 \
      const rlx_u32 first = warp / per_row * per_row;                                    \
      T all = identity;                                                                  \
      T earlier_warps = identity;                                                        \
      for (rlx_u32 i = 0u; i < per_row; ++i) {                                           \
        if (first + i == warp) earlier_warps = all;                                      \
        const T part = parts[first + i];                                                 \
        all = combine(all, part);                                                        \
      }                                                                                  \
      total = all;                                                                       \
      before = combine(earlier_warps, before);                                           \
    }                                                                                    \
    return before;                                                                       \
  }
#endif

#endif
