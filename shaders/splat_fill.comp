// SPDX-License-Identifier: Apache-2.0
// y = one value everywhere: `bytes` bytes of a pattern of two 32-bit words, both in the params.
// Layout: y dense, aligned to 16 bytes. Grid: 16 bytes per thread, groups spread by split_grid; the last thread writes bytes.
// Specializations: none. Numerics: bits.
#version 460
#include "lib/prelude.glsl"
#include "lib/storage.glsl"

RLX_PARAMS(SplatParams);

#define BYTES ((rlx_u64(p.bytes_high) << 32) | rlx_u64(p.bytes_low))

RLX_MAIN {
  const rlx_u64 start = (rlx_linear_group * rlx_u64(RLX_BLOCK_X) + rlx_u64(rlx_local_x)) * rlx_u64(16);
  if (start >= BYTES) return;
  if (start + rlx_u64(16) <= BYTES) {
    rlx_uvec4 words;
    words.x = p.word0;
    words.y = p.word1;
    words.z = p.word0;
    words.w = p.word1;
    rlx_put16(p.y, rlx_i64(start), words);
    return;
  }
  for (rlx_u32 k = 0u; k < rlx_u32(BYTES - start); ++k) {
    const rlx_u32 word = (k & 4u) == 0u ? p.word0 : p.word1;
    rlx_store_u8(p.y, rlx_i64(start + rlx_u64(k)), rlx_i32((word >> (8u * (k & 3u))) & 0xFFu));
  }
}
