// SPDX-License-Identifier: Apache-2.0
// Index tensors of any dtype as 64-bit indices (ops.md 0.6), and words of RLX_WORD_BYTES.
// The twin of cuda_kernels/lib/indexing.cuh.
#ifndef RLX_LIB_INDEXING_GLSL
#define RLX_LIB_INDEXING_GLSL

#include "lib/scalar.glsl"

// Legacy float indices: truncated toward zero, NaN is 0, the rest saturates far outside any tensor.
rlx_i64 rlx_index_from_f32(float value) {
  if ((rlx_bits(value) & 0x7FFFFFFFu) > 0x7F800000u) return rlx_i64(0);
  return rlx_i64(min(max(value, -4.6e18f), 4.6e18f));
}
rlx_i64 rlx_index_from_f16(float value) { return rlx_index_from_f32(value); }
rlx_i64 rlx_index_from_i8(int value) { return rlx_widen(value); }
rlx_i64 rlx_index_from_u8(rlx_t_u8 value) { return rlx_widen(value); }
rlx_i64 rlx_index_from_i16(int value) { return rlx_widen(value); }
rlx_i64 rlx_index_from_i32(int value) { return rlx_widen(value); }
rlx_i64 rlx_index_from_u32(uint value) { return rlx_widen(value); }
rlx_i64 rlx_index_from_i64(rlx_i64 value) { return value; }

// Whether element `at` of an axis of `size` is the one that a one-hot index names; element 0 counts an index that names none.
RLX_FN bool rlx_is_hot(rlx_i64 at, rlx_i64 index, rlx_i64 size, RLX_INOUT(rlx_u32) outside) {
  const rlx_i64 place = index < rlx_i64(0) ? index + size : index;
  if (at == rlx_i64(0) && (place < rlx_i64(0) || place >= size)) ++outside;
  return at == place;
}

// RLX_COUNT_OUTSIDE(count) adds indices that lie outside to the step's word of index errors, where the step has one (RLX_INDEX_ERRORS).
// A thread counts each index that is its own to count, and adds them once, behind its loads and stores: these need not wait for it.
#ifdef RLX_INDEX_ERRORS
RLX_FN void rlx_add_index_errors(rlx_ptr word, rlx_u32 count) { atomicAdd(U32(word).v, count); }
#define RLX_COUNT_OUTSIDE(count) if ((count) != 0u) rlx_add_index_errors(p.index_errors, count)
#else
#define RLX_COUNT_OUTSIDE(count)
#endif

#ifdef RLX_WORD_BYTES
#if RLX_WORD_BYTES == 16
#define RLX_WORD rlx_uvec4
#define RLX_ZERO_WORD rlx_uvec4(0u)
rlx_uvec4 rlx_load_word(rlx_ptr base, rlx_i64 i) { return rlx_raw16(base, i * rlx_i64(16)); }
void rlx_store_word(rlx_ptr base, rlx_i64 i, rlx_uvec4 word) { rlx_put16(base, i * rlx_i64(16), word); }
#elif RLX_WORD_BYTES == 8
#define RLX_WORD rlx_uvec2
#define RLX_ZERO_WORD rlx_uvec2(0u)
rlx_uvec2 rlx_load_word(rlx_ptr base, rlx_i64 i) { return rlx_raw8(base, i * rlx_i64(8)); }
void rlx_store_word(rlx_ptr base, rlx_i64 i, rlx_uvec2 word) { rlx_put8(base, i * rlx_i64(8), word); }
#elif RLX_WORD_BYTES == 4
#define RLX_WORD uint
#define RLX_ZERO_WORD 0u
uint rlx_load_word(rlx_ptr base, rlx_i64 i) { return rlx_load_u32(base, i); }
void rlx_store_word(rlx_ptr base, rlx_i64 i, uint word) { rlx_store_u32(base, i, word); }
#elif RLX_WORD_BYTES == 2
#define RLX_WORD rlx_t_u16
#define RLX_ZERO_WORD rlx_t_u16(0)
rlx_t_u16 rlx_load_word(rlx_ptr base, rlx_i64 i) { return rlx_load_u16(base, i); }
void rlx_store_word(rlx_ptr base, rlx_i64 i, rlx_t_u16 word) { rlx_store_u16(base, i, word); }
#else
#define RLX_WORD rlx_t_u8
#define RLX_ZERO_WORD rlx_t_u8(0)
rlx_t_u8 rlx_load_word(rlx_ptr base, rlx_i64 i) { return rlx_load_u8(base, i); }
void rlx_store_word(rlx_ptr base, rlx_i64 i, rlx_t_u8 word) { rlx_store_u8(base, i, word); }
#endif
#endif

#endif
