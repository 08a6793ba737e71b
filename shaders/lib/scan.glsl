// SPDX-License-Identifier: Apache-2.0
// Running combinations over the threads that share a row; threads lie as lib/reduce.glsl says, which is included first.
// RLX_GROUP_SCAN(name, T, combine, identity) defines `T name(T value, out T total)`: the values of the threads of the row before
// this one, combined in their order (`identity` for the first thread), and those of all its threads in `total`. All threads of the
// workgroup must call it. combine(a, b): a stands before b. A struct T needs its own rlx_shuffle(T, uint).
// The twin of cuda_kernels/lib/scan.cuh.
#ifndef RLX_LIB_SCAN_GLSL
#define RLX_LIB_SCAN_GLSL

// A function's second result.
#define RLX_OUT(T) out T

// The value of another thread of the subgroup.
float rlx_shuffle(float value, uint from) { return subgroupShuffle(value, from); }
int rlx_shuffle(int value, uint from) { return subgroupShuffle(value, from); }
uint rlx_shuffle(uint value, uint from) { return subgroupShuffle(value, from); }
double rlx_shuffle(double value, uint from) { return packDouble2x32(subgroupShuffle(unpackDouble2x32(value), from)); }
int64_t rlx_shuffle(int64_t value, uint from) {
  return int64_t(pack64(subgroupShuffle(unpack32(uint64_t(value)), from)));
}
uint64_t rlx_shuffle(uint64_t value, uint from) { return pack64(subgroupShuffle(unpack32(value), from)); }

#if RLX_BY_COLUMN
#define RLX_GROUP_SCAN(name, T, combine, identity)                                       \
  RLX_SHARED T name##_parts[RLX_BLOCK_SIZE];                                             \
  RLX_FN T name(T value, out T total) {                                                  \
    const uint thread = rlx_thread;                                                      \
    rlx_barrier();                                                                       \
    name##_parts[thread] = value;                                                        \
    for (uint distance = 1u; distance < uint(RLX_LANES); distance *= 2u) {               \
      rlx_barrier();                                                                     \
      T sum = name##_parts[thread];                                                      \
      if (rlx_lane >= distance) {                                                        \
        const T earlier = name##_parts[thread - distance * uint(RLX_ROWS)];              \
        sum = combine(earlier, sum);                                                     \
      }                                                                                  \
      rlx_barrier();                                                                     \
      name##_parts[thread] = sum;                                                        \
    }                                                                                    \
    rlx_barrier();                                                                       \
    total = name##_parts[uint(RLX_LANES - 1) * uint(RLX_ROWS) + rlx_row];                \
    T before = identity;                                                                 \
    if (rlx_lane > 0u) before = name##_parts[thread - uint(RLX_ROWS)];                   \
    return before;                                                                       \
  }
#else
#define RLX_GROUP_SCAN(name, T, combine, identity)                                       \
  RLX_SHARED T name##_parts[RLX_BLOCK_SIZE];                                             \
  RLX_FN T name(T value, out T total) {                                                  \
    const uint width = min(uint(RLX_LANES), gl_SubgroupSize);                            \
    const uint self = gl_SubgroupInvocationID;                                           \
    const uint place = self % width;                                                     \
    T sum = value;                                                                       \
    for (uint distance = 1u; distance < width; distance *= 2u) {                         \
      const T earlier = rlx_shuffle(sum, place >= distance ? self - distance : self);    \
      if (place >= distance) sum = combine(earlier, sum);                                \
    }                                                                                    \
    total = rlx_shuffle(sum, self - place + width - 1u);                                 \
    T before = rlx_shuffle(sum, place > 0u ? self - 1u : self);                          \
    if (place == 0u) before = identity;                                                  \
    if (uint(RLX_LANES) > gl_SubgroupSize) {                                             \
      rlx_barrier();                                                                     \
      if (self == 0u) name##_parts[gl_SubgroupID] = total;                               \
      rlx_barrier();                                                                     \
      const uint per_row = uint(RLX_LANES) / gl_SubgroupSize;                            \
      const uint first = gl_SubgroupID / per_row * per_row;                              \
      T all = identity;                                                                  \
      T earlier_groups = identity;                                                       \
      for (uint i = 0u; i < per_row; ++i) {                                              \
        if (first + i == gl_SubgroupID) earlier_groups = all;                            \
        const T part = name##_parts[first + i];                                          \
        all = combine(all, part);                                                        \
      }                                                                                  \
      total = all;                                                                       \
      before = combine(earlier_groups, before);                                          \
    }                                                                                    \
    return before;                                                                       \
  }
#endif

#endif
