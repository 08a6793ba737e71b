// SPDX-License-Identifier: Apache-2.0
// Sets of threads as bits of words, and atomics on integers, whose results do not depend on the order.
// The twin of shaders/lib/sets.glsl.
#ifndef RLX_LIB_SETS_CUH
#define RLX_LIB_SETS_CUH

// Number of the lowest bit of a word that is not 0, and the number of its bits.
RLX_FN rlx_u32 rlx_low_bit(rlx_u32 bits) { return rlx_u32(__ffs(int(bits)) - 1); }
RLX_FN rlx_u32 rlx_bit_count(rlx_u32 bits) { return rlx_u32(__popc(bits)); }

// On a 32-bit word of shared memory.
#define RLX_SHARED_ADD(word, value) atomicAdd(&(word), value)
#define RLX_SHARED_OR(word, value) atomicOr(&(word), value)

// On element i of the array of words at `base`.
RLX_FN void rlx_atomic_max_u32(rlx_ptr base, rlx_i64 i, rlx_u32 value) { atomicMax(&rlx_at<rlx_u32>(base, i * 4), value); }

#endif
