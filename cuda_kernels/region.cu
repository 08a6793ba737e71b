// SPDX-License-Identifier: Apache-2.0
// A generated elementwise region: y[i] = element(x1[i], x2[i], ...), operands broadcast by strides, straight-line code.
// Layout: any strides, fixed in the generated text; dense innermost axes are read and written four elements at a time.
// Grid: RLX_COUNT items of one or four elements, RLX_ITEMS per thread, a workgroup's width apart; groups spread by split_grid.
// Specializations: RLX_COUNT, RLX_ITEMS, RLX_INDEX (rlx_u32 or rlx_u64, the type of all indices), generated/element.inc (the function
// rlx_element) and generated/region.inc (statements over `item`), RLX_DOUBLE,
// RLX_FLOAT8, RLX_COMPLEX where functions of doubles, of 8-bit floats (codes in a word), of complex numbers (64 bits) are called;
// RLX_INDEX_ERRORS: elements read indices, and count those outside in their last parameter. Numerics: f16 and bf16 compute in f32 and round once at the store.
#include "lib/prelude.cuh"
#include "lib/storage.cuh"
#include "lib/math.cuh"
#ifdef RLX_DOUBLE
#include "lib/math64.cuh"
#endif
#ifdef RLX_FLOAT8
#include "lib/float8_elements.cuh"
#endif
#ifdef RLX_COMPLEX
#include "lib/complex.cuh"
#endif
#ifdef RLX_INDEX_ERRORS
#include "lib/indexing.cuh"
#endif

RLX_PARAMS(RegionParams);

#include "generated/element.inc"

RLX_MAIN {
#ifdef RLX_INDEX_ERRORS
  rlx_u32 outside = 0u;
#endif
  const RLX_INDEX first = RLX_INDEX(rlx_linear_group) * (RLX_INDEX(RLX_ITEMS) * RLX_BLOCK_X) + rlx_local_x;
  RLX_UNROLL for (rlx_u32 k = 0u; k < RLX_ITEMS; ++k) {
    const RLX_INDEX item = first + RLX_INDEX(k * RLX_BLOCK_X);
    if (item < RLX_COUNT) {
#include "generated/region.inc"
    }
  }
#ifdef RLX_INDEX_ERRORS
  if (outside != 0u) rlx_add_index_errors(p.buffers[RLX_REGION_INDEX_ERRORS], outside);
#endif
}
