// SPDX-License-Identifier: Apache-2.0
// Keys: unsigned integers in the order of ops.md 7.5. NaN is the greatest and all NaN are equal, -0 equals +0.
// rlx_key(value) has 32 bits, or 64 for f64 and i64. Beyond every key stand rlx_no_place and the key of ones: a place that holds
// nothing. The twin of shaders/lib/order.glsl; include lib/storage.cuh and lib/math.cuh first.
#ifndef RLX_LIB_ORDER_CUH
#define RLX_LIB_ORDER_CUH

#define rlx_no_place 0xFFFFFFFFu

RLX_FN rlx_u32 rlx_key(float x) {
  const rlx_u32 magnitude = rlx_magnitude_bits(x);
  if (magnitude > 0x7F800000u) return 0xFFFFFFFFu;
  return rlx_is_negative(x) ? 0x80000000u - magnitude : 0x80000000u + magnitude;
}
RLX_FN rlx_u32 rlx_key(int x) { return rlx_u32(x) ^ 0x80000000u; }
RLX_FN rlx_u32 rlx_key(rlx_u32 x) { return x; }
RLX_FN rlx_u32 rlx_key(bool x) { return x ? 1u : 0u; }
RLX_FN rlx_u64 rlx_key(double x) {
  const rlx_u64 middle = rlx_u64(1) << 63;
  if (rlx_is_nan(x)) return ~rlx_u64(0);
  const rlx_u64 magnitude = (rlx_u64(rlx_high_word(x) & 0x7FFFFFFFu) << 32) | rlx_u64(rlx_low_word(x));
  return rlx_is_negative(x) ? middle - magnitude : middle + magnitude;
}
RLX_FN rlx_u64 rlx_key(rlx_i64 x) { return rlx_u64(x) ^ (rlx_u64(1) << 63); }

#endif
