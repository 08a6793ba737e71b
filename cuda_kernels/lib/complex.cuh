// SPDX-License-Identifier: Apache-2.0
// Complex numbers of two f32 as the 64 bits in which memory holds them: the real part in the low word, the imaginary part in the high
// one. Products and sums by complex algebra; rlx_complex_div is (a conj b) / |b|^2 and rlx_complex_abs the modulus, both scaled by powers
// of two so that no step overflows before the result does.
// The twin of shaders/lib/complex.glsl.
#ifndef RLX_LIB_COMPLEX_CUH
#define RLX_LIB_COMPLEX_CUH

#include "lib/scalar.cuh"

RLX_FN float rlx_real(rlx_i64 z) { return rlx_from_bits(rlx_u32(rlx_u64(z) & rlx_u64(0xFFFFFFFFu))); }
RLX_FN float rlx_imaginary(rlx_i64 z) { return rlx_from_bits(rlx_u32(rlx_u64(z) >> 32)); }
RLX_FN rlx_i64 rlx_complex(float re, float im) {
  return rlx_i64((rlx_u64(rlx_bits(im)) << 32) | rlx_u64(rlx_bits(re)));
}
RLX_FN bool rlx_complex_truth(rlx_i64 z) { return rlx_truth(rlx_real(z)) || rlx_truth(rlx_imaginary(z)); }
RLX_FN bool rlx_complex_eq(rlx_i64 a, rlx_i64 b) {
  return rlx_real(a) == rlx_real(b) && rlx_imaginary(a) == rlx_imaginary(b);
}

RLX_FN rlx_i64 rlx_complex_neg(rlx_i64 z) { return rlx_complex(rlx_neg(rlx_real(z)), rlx_neg(rlx_imaginary(z))); }
RLX_FN rlx_i64 rlx_complex_add(rlx_i64 a, rlx_i64 b) {
  return rlx_complex(rlx_real(a) + rlx_real(b), rlx_imaginary(a) + rlx_imaginary(b));
}
RLX_FN rlx_i64 rlx_complex_sub(rlx_i64 a, rlx_i64 b) {
  return rlx_complex(rlx_real(a) - rlx_real(b), rlx_imaginary(a) - rlx_imaginary(b));
}
RLX_FN rlx_i64 rlx_complex_mul(rlx_i64 a, rlx_i64 b) {
  const float re = rlx_real(a) * rlx_real(b) - rlx_imaginary(a) * rlx_imaginary(b);
  const float im = rlx_real(a) * rlx_imaginary(b) + rlx_imaginary(a) * rlx_real(b);
  return rlx_complex(re, im);
}

// The exponent of the larger part: -127 where both are zero or subnormal, 128 where one is infinite or NaN.
RLX_FN int rlx_complex_exponent(rlx_i64 z) {
  const rlx_u32 re = rlx_magnitude_bits(rlx_real(z));
  const rlx_u32 im = rlx_magnitude_bits(rlx_imaginary(z));
  return int((re > im ? re : im) >> 23) - 127;
}
RLX_FN rlx_i64 rlx_complex_div(rlx_i64 a, rlx_i64 b) {
  const int a_exponent = rlx_complex_exponent(a);
  const int b_exponent = rlx_complex_exponent(b);
  const float re = rlx_scale(rlx_real(a), -a_exponent);
  const float im = rlx_scale(rlx_imaginary(a), -a_exponent);
  const float b_re = rlx_scale(rlx_real(b), -b_exponent);
  const float b_im = rlx_scale(rlx_imaginary(b), -b_exponent);
  const float square = b_re * b_re + b_im * b_im;
  const int exponent = rlx_min(rlx_max(a_exponent - b_exponent, -252), 252);
  return rlx_complex(rlx_scale(rlx_div(re * b_re + im * b_im, square), exponent),
                     rlx_scale(rlx_div(im * b_re - re * b_im, square), exponent));
}
RLX_FN float rlx_complex_abs(rlx_i64 z) {
  if (rlx_is_inf(rlx_real(z)) || rlx_is_inf(rlx_imaginary(z))) return RLX_INF;
  const int exponent = rlx_complex_exponent(z);
  if (exponent > 127) return RLX_NAN;
  const float re = rlx_scale(rlx_real(z), -exponent);
  const float im = rlx_scale(rlx_imaginary(z), -exponent);
  return rlx_scale(rlx_sqrt(re * re + im * im), exponent);
}

#endif
