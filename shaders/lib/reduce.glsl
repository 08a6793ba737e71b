// SPDX-License-Identifier: Apache-2.0
// Reductions over the threads that share a row. The workgroup is RLX_LANES x RLX_ROWS threads; RLX_BY_COLUMN tells how they lie:
//   0  the RLX_LANES threads of a row are neighbours (combined by subgroup shuffles, across subgroups through shared memory)
//   1  neighbouring threads belong to neighbouring rows (combined through shared memory)
// RLX_GROUP_REDUCE(name, T, combine) defines `T name(T value)`, which gives every thread of a row the same bits. All threads of
// the workgroup must call it. combine(a, b) is commutative. Both sizes are powers of two. The subgroup size is not assumed.
// The twin of cuda_kernels/lib/reduce.cuh.
#ifndef RLX_LIB_REDUCE_GLSL
#define RLX_LIB_REDUCE_GLSL

// Numbers threads so that those of a subgroup follow each other, whatever order the driver packs them in.
#define rlx_thread (gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID)
#if RLX_BY_COLUMN
#define rlx_lane (rlx_thread / uint(RLX_ROWS))
#define rlx_row (rlx_thread % uint(RLX_ROWS))
#else
#define rlx_lane (rlx_thread % uint(RLX_LANES))
#define rlx_row (rlx_thread / uint(RLX_LANES))
#endif

float rlx_shuffle_xor(float value, uint distance) { return subgroupShuffleXor(value, distance); }
int rlx_shuffle_xor(int value, uint distance) { return subgroupShuffleXor(value, distance); }
uint rlx_shuffle_xor(uint value, uint distance) { return subgroupShuffleXor(value, distance); }
// 64-bit values travel as two words, so that no extended subgroup types are needed.
double rlx_shuffle_xor(double value, uint distance) {
  return packDouble2x32(subgroupShuffleXor(unpackDouble2x32(value), distance));
}
int64_t rlx_shuffle_xor(int64_t value, uint distance) {
  return int64_t(pack64(subgroupShuffleXor(unpack32(uint64_t(value)), distance)));
}
uint64_t rlx_shuffle_xor(uint64_t value, uint distance) {
  return pack64(subgroupShuffleXor(unpack32(value), distance));
}

bool rlx_nan(float x) { return (floatBitsToUint(x) & 0x7FFFFFFFu) > 0x7F800000u; }
bool rlx_nan(double x) {
  const uvec2 words = unpackDouble2x32(x);
  return (words.y & 0x7FFFFFFFu) + (words.x != 0u ? 1u : 0u) > 0x7FF00000u;
}
bool rlx_nan(int x) { return false; }
bool rlx_nan(uint x) { return false; }
bool rlx_nan(int64_t x) { return false; }
bool rlx_infinite(float x) { return (floatBitsToUint(x) & 0x7FFFFFFFu) == 0x7F800000u; }
bool rlx_infinite(double x) {
  const uvec2 words = unpackDouble2x32(x);
  return (words.y & 0x7FFFFFFFu) == 0x7FF00000u && words.x == 0u;
}

float rlx_finite_or_zero(float x) { return rlx_infinite(x) ? 0.0 : x; }
double rlx_finite_or_zero(double x) { return rlx_infinite(x) ? double(0.0) : x; }

#define RLX_COMBINE_SUM(a, b) ((a) + (b))
#define RLX_COMBINE_PROD(a, b) ((a) * (b))
// NaN wins.
#define RLX_COMBINE_MAX(a, b) (((a) > (b) || rlx_nan(a)) ? (a) : (b))
#define RLX_COMBINE_MIN(a, b) (((a) < (b) || rlx_nan(a)) ? (a) : (b))
#define RLX_COMBINE_OR(a, b) ((a) | (b))
#define RLX_COMBINE_AND(a, b) ((a) & (b))

#if RLX_BY_COLUMN
#define RLX_GROUP_REDUCE(name, T, combine)                                               \
  RLX_SHARED T name##_parts[RLX_BLOCK_SIZE];                                             \
  RLX_FN T name(T value) {                                                               \
    const uint thread = rlx_thread;                                                      \
    rlx_barrier();                                                                       \
    name##_parts[thread] = value;                                                        \
    for (uint half_lanes = uint(RLX_LANES) / 2u; half_lanes > 0u; half_lanes /= 2u) {    \
      rlx_barrier();                                                                     \
      if (thread < half_lanes * uint(RLX_ROWS)) {                                        \
        const T other = name##_parts[thread + half_lanes * uint(RLX_ROWS)];              \
        name##_parts[thread] = combine(name##_parts[thread], other);                     \
      }                                                                                  \
    }                                                                                    \
    rlx_barrier();                                                                       \
    return name##_parts[thread % uint(RLX_ROWS)];                                        \
  }
#else
#define RLX_GROUP_REDUCE(name, T, combine)                                               \
  RLX_SHARED T name##_parts[RLX_BLOCK_SIZE];                                             \
  RLX_FN T name(T value) {                                                               \
    const uint width = min(uint(RLX_LANES), gl_SubgroupSize);                            \
    for (uint distance = 1u; distance < width; distance *= 2u) {                         \
      const T other = rlx_shuffle_xor(value, distance);                                  \
      value = combine(value, other);                                                     \
    }                                                                                    \
    if (uint(RLX_LANES) > gl_SubgroupSize) {                                             \
      rlx_barrier();                                                                     \
      if (gl_SubgroupInvocationID == 0u) name##_parts[gl_SubgroupID] = value;            \
      rlx_barrier();                                                                     \
      const uint per_row = uint(RLX_LANES) / gl_SubgroupSize;                            \
      const uint first = gl_SubgroupID / per_row * per_row;                              \
      value = name##_parts[first];                                                       \
      for (uint i = 1u; i < per_row; ++i) {                                              \
        const T other = name##_parts[first + i];                                         \
        value = combine(value, other);                                                   \
      }                                                                                  \
    }                                                                                    \
    return value;                                                                        \
  }
#endif

#endif
