// SPDX-License-Identifier: Apache-2.0
// Sets of threads as bits of words, and atomics on integers, whose results do not depend on the order.
// The twin of cuda_kernels/lib/sets.cuh.
#ifndef RLX_LIB_SETS_GLSL
#define RLX_LIB_SETS_GLSL

// Number of the lowest bit of a word that is not 0, and the number of its bits.
RLX_FN rlx_u32 rlx_low_bit(rlx_u32 bits) { return rlx_u32(findLSB(bits)); }
RLX_FN rlx_u32 rlx_bit_count(rlx_u32 bits) { return rlx_u32(bitCount(bits)); }

// On a 32-bit word of shared memory.
#define RLX_SHARED_ADD(word, value) atomicAdd(word, value)
#define RLX_SHARED_OR(word, value) atomicOr(word, value)

// On element i of the array of words at `base`.
RLX_FN void rlx_atomic_max_u32(rlx_ptr base, rlx_i64 i, rlx_u32 value) { atomicMax(U32(RLX_AT(base, i, 4)).v, value); }

#endif
