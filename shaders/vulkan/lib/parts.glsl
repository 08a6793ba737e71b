// SPDX-License-Identifier: Apache-2.0
// An f32 as the sum of three bf16, exactly: x = high + middle + low, where high is x rounded to nearest and middle the leading 8 bits of
// what that leaves, of which low has the rest. |middle| <= 2^-8 |x| and |low| < 2^-15 |x|. Infinities, NaN and what rounds to infinity
// leave a NaN in low.
#ifndef RLX_LIB_PARTS_GLSL
#define RLX_LIB_PARTS_GLSL

// The parts of eight neighbours, two of them in a word.
struct RlxParts {
  rlx_uvec4 of[3];
};

// The leading 16 bits of each.
RLX_FN rlx_uvec4 rlx_leading_halves(rlx_uvec4 first, rlx_uvec4 last) {
  const rlx_uvec4 even = rlx_uvec4(first.xz, last.xz);
  const rlx_uvec4 odd = rlx_uvec4(first.yw, last.yw);
  return (even >> 16u) | (odd & rlx_uvec4(0xFFFF0000u));
}

RLX_FN RlxParts rlx_parts_of(rlx_uvec4 first, rlx_uvec4 last) {
  const rlx_uvec4 mask = rlx_uvec4(0xFFFF0000u);
  const rlx_uvec4 first_high = (first + rlx_uvec4(0x8000u)) & mask;
  const rlx_uvec4 last_high = (last + rlx_uvec4(0x8000u)) & mask;
  const vec4 first_rest = uintBitsToFloat(first) - uintBitsToFloat(first_high);
  const vec4 last_rest = uintBitsToFloat(last) - uintBitsToFloat(last_high);
  const vec4 first_low = first_rest - uintBitsToFloat(floatBitsToUint(first_rest) & mask);
  const vec4 last_low = last_rest - uintBitsToFloat(floatBitsToUint(last_rest) & mask);
  RlxParts parts;
  parts.of[0] = rlx_leading_halves(first_high, last_high);
  parts.of[1] = rlx_leading_halves(floatBitsToUint(first_rest), floatBitsToUint(last_rest));
  parts.of[2] = rlx_leading_halves(floatBitsToUint(first_low), floatBitsToUint(last_low));
  return parts;
}

#endif
