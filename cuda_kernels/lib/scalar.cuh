// SPDX-License-Identifier: Apache-2.0
// Scalar functions that are exact or rounded once: the twin of shaders/lib/scalar.glsl, which has the same text but for the first block,
// division of f32 and fma. Contraction into fma is harmless but for the functions ending in _rn.
#ifndef RLX_LIB_SCALAR_CUH
#define RLX_LIB_SCALAR_CUH

// ---- what the two languages spell differently ----
#define RLX_PRECISE
// Products and sums rounded once and never contracted into an fma.
RLX_FN float rlx_mul_rn(float a, float b) { return __fmul_rn(a, b); }
RLX_FN float rlx_add_rn(float a, float b) { return __fadd_rn(a, b); }
RLX_FN float rlx_native_sqrt(float x) { return sqrtf(x); }
RLX_FN float rlx_native_rsqrt(float x) { return rsqrtf(x); }
RLX_FN float rlx_native_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
RLX_FN float rlx_native_floor(float x) { return floorf(x); }
RLX_FN float rlx_native_ceil(float x) { return ceilf(x); }
RLX_FN float rlx_native_trunc(float x) { return truncf(x); }
RLX_FN float rlx_native_round(float x) { return rintf(x); }
RLX_FN int rlx_top_bit(rlx_u32 x) { return 31 - __clz(int(x)); }  // of a non-zero word
RLX_FN double rlx_f64_of(rlx_u32 low, rlx_u32 high) { return __hiloint2double(int(high), int(low)); }
RLX_FN rlx_u32 rlx_low_word(double x) { return rlx_u32(__double2loint(x)); }
RLX_FN rlx_u32 rlx_high_word(double x) { return rlx_u32(__double2hiint(x)); }
RLX_FN rlx_i64 rlx_widen(int x) { return rlx_i64(x); }
RLX_FN rlx_i64 rlx_widen(rlx_u32 x) { return rlx_i64(x); }
RLX_FN double rlx_native_sqrt(double x) { return sqrt(x); }
RLX_FN double rlx_native_floor(double x) { return floor(x); }
RLX_FN double rlx_native_ceil(double x) { return ceil(x); }
RLX_FN double rlx_native_trunc(double x) { return trunc(x); }
RLX_FN double rlx_native_round(double x) { return rint(x); }

// ---- bits ----
#define RLX_INF rlx_from_bits(0x7F800000u)
#define RLX_NAN rlx_from_bits(0x7FC00000u)

RLX_FN rlx_u32 rlx_magnitude_bits(float x) { return rlx_bits(x) & 0x7FFFFFFFu; }
RLX_FN bool rlx_is_nan(float x) { return rlx_magnitude_bits(x) > 0x7F800000u; }
RLX_FN bool rlx_is_inf(float x) { return rlx_magnitude_bits(x) == 0x7F800000u; }
RLX_FN bool rlx_is_negative(float x) { return (rlx_bits(x) >> 31) != 0u; }  // the sign bit
RLX_FN bool rlx_truth(float x) { return rlx_magnitude_bits(x) != 0u; }      // NaN is true
RLX_FN float rlx_abs(float x) { return rlx_from_bits(rlx_magnitude_bits(x)); }
RLX_FN float rlx_neg(float x) { return rlx_from_bits(rlx_bits(x) ^ 0x80000000u); }
RLX_FN float rlx_copysign(float magnitude, float sign) {
  return rlx_from_bits(rlx_magnitude_bits(magnitude) | (rlx_bits(sign) & 0x80000000u));
}
RLX_FN float rlx_pow2(int e) { return rlx_from_bits(rlx_u32(e + 127) << 23); }  // 2^e for -126 <= e <= 127
// x * 2^e for |e| <= 252, in two steps so that neither factor overflows.
RLX_FN float rlx_scale(float x, int e) {
  const int half_e = e >> 1;
  return (x * rlx_pow2(half_e)) * rlx_pow2(e - half_e);
}
// The upper 12 bits of the significand: products of two such values are exact.
RLX_FN float rlx_upper(float x) { return rlx_from_bits(rlx_bits(x) & 0xFFFFF000u); }

RLX_FN bool rlx_is_nan(double x) {
  const rlx_u32 high = rlx_high_word(x) & 0x7FFFFFFFu;
  return high > 0x7FF00000u || (high == 0x7FF00000u && rlx_low_word(x) != 0u);
}
RLX_FN bool rlx_is_inf(double x) {
  return (rlx_high_word(x) & 0x7FFFFFFFu) == 0x7FF00000u && rlx_low_word(x) == 0u;
}
RLX_FN bool rlx_is_negative(double x) { return (rlx_high_word(x) >> 31) != 0u; }
RLX_FN bool rlx_truth(double x) { return ((rlx_high_word(x) & 0x7FFFFFFFu) | rlx_low_word(x)) != 0u; }
RLX_FN double rlx_abs(double x) { return rlx_f64_of(rlx_low_word(x), rlx_high_word(x) & 0x7FFFFFFFu); }
RLX_FN double rlx_neg(double x) { return rlx_f64_of(rlx_low_word(x), rlx_high_word(x) ^ 0x80000000u); }
RLX_FN double rlx_copysign(double magnitude, double sign) {
  return rlx_f64_of(rlx_low_word(magnitude),
                    (rlx_high_word(magnitude) & 0x7FFFFFFFu) | (rlx_high_word(sign) & 0x80000000u));
}

// ---- integers: wrap modulo 2^n; x / 0 = 0, x mod 0 = 0, MIN / -1 = MIN; `bits` is the dtype's width ----
RLX_FN int rlx_add(int a, int b) { return int(rlx_u32(a) + rlx_u32(b)); }
RLX_FN int rlx_sub(int a, int b) { return int(rlx_u32(a) - rlx_u32(b)); }
RLX_FN int rlx_mul(int a, int b) { return int(rlx_u32(a) * rlx_u32(b)); }
RLX_FN int rlx_neg(int x) { return int(0u - rlx_u32(x)); }
RLX_FN int rlx_abs(int x) { return x < 0 ? rlx_neg(x) : x; }
RLX_FN int rlx_sign(int x) { return x > 0 ? 1 : (x < 0 ? -1 : 0); }
RLX_FN int rlx_div(int a, int b) { return b == 0 ? 0 : (b == -1 ? rlx_neg(a) : a / b); }
RLX_FN int rlx_fmod(int a, int b) { return (b == 0 || b == -1) ? 0 : a - a / b * b; }
RLX_FN int rlx_mod(int a, int b) {
  const int r = rlx_fmod(a, b);
  return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r;
}
RLX_FN int rlx_floor_div(int a, int b) {
  const int r = rlx_fmod(a, b);
  return rlx_sub(rlx_div(a, b), (r != 0 && ((r < 0) != (b < 0))) ? 1 : 0);
}
RLX_FN int rlx_max(int a, int b) { return a > b ? a : b; }
RLX_FN int rlx_min(int a, int b) { return a < b ? a : b; }
RLX_FN int rlx_shift_left(int a, int b, int bits) {
  return (b < 0 || b >= bits) ? 0 : int(rlx_u32(a) << rlx_u32(b));
}
RLX_FN int rlx_shift_right(int a, int b, int bits) {
  return (b < 0 || b >= bits) ? (a < 0 ? -1 : 0) : a >> b;
}
RLX_FN int rlx_pow(int a, int b) {
  if (b < 0) return a == 1 ? 1 : (a == -1 ? ((b & 1) != 0 ? -1 : 1) : 0);
  rlx_u32 result = 1u;
  rlx_u32 square = rlx_u32(a);
  for (int n = b; n != 0; n >>= 1) {
    if ((n & 1) != 0) result *= square;
    square *= square;
  }
  return int(result);
}

RLX_FN rlx_u32 rlx_add(rlx_u32 a, rlx_u32 b) { return a + b; }
RLX_FN rlx_u32 rlx_sub(rlx_u32 a, rlx_u32 b) { return a - b; }
RLX_FN rlx_u32 rlx_mul(rlx_u32 a, rlx_u32 b) { return a * b; }
RLX_FN rlx_u32 rlx_neg(rlx_u32 x) { return 0u - x; }
RLX_FN rlx_u32 rlx_abs(rlx_u32 x) { return x; }
RLX_FN rlx_u32 rlx_sign(rlx_u32 x) { return x != 0u ? 1u : 0u; }
RLX_FN rlx_u32 rlx_div(rlx_u32 a, rlx_u32 b) { return b == 0u ? 0u : a / b; }
RLX_FN rlx_u32 rlx_fmod(rlx_u32 a, rlx_u32 b) { return b == 0u ? 0u : a % b; }
RLX_FN rlx_u32 rlx_mod(rlx_u32 a, rlx_u32 b) { return rlx_fmod(a, b); }
RLX_FN rlx_u32 rlx_floor_div(rlx_u32 a, rlx_u32 b) { return rlx_div(a, b); }
RLX_FN rlx_u32 rlx_max(rlx_u32 a, rlx_u32 b) { return a > b ? a : b; }
RLX_FN rlx_u32 rlx_min(rlx_u32 a, rlx_u32 b) { return a < b ? a : b; }
RLX_FN rlx_u32 rlx_shift_left(rlx_u32 a, rlx_u32 b, int bits) { return b >= rlx_u32(bits) ? 0u : a << b; }
RLX_FN rlx_u32 rlx_shift_right(rlx_u32 a, rlx_u32 b, int bits) { return b >= rlx_u32(bits) ? 0u : a >> b; }
RLX_FN rlx_u32 rlx_pow(rlx_u32 a, rlx_u32 b) {
  rlx_u32 result = 1u;
  rlx_u32 square = a;
  for (rlx_u32 n = b; n != 0u; n >>= 1) {
    if ((n & 1u) != 0u) result *= square;
    square *= square;
  }
  return result;
}

RLX_FN rlx_i64 rlx_add(rlx_i64 a, rlx_i64 b) { return rlx_i64(rlx_u64(a) + rlx_u64(b)); }
RLX_FN rlx_i64 rlx_sub(rlx_i64 a, rlx_i64 b) { return rlx_i64(rlx_u64(a) - rlx_u64(b)); }
RLX_FN rlx_i64 rlx_mul(rlx_i64 a, rlx_i64 b) { return rlx_i64(rlx_u64(a) * rlx_u64(b)); }
RLX_FN rlx_i64 rlx_neg(rlx_i64 x) { return rlx_i64(rlx_u64(0) - rlx_u64(x)); }
RLX_FN rlx_i64 rlx_abs(rlx_i64 x) { return x < rlx_i64(0) ? rlx_neg(x) : x; }
RLX_FN rlx_i64 rlx_sign(rlx_i64 x) {
  return x > rlx_i64(0) ? rlx_i64(1) : (x < rlx_i64(0) ? rlx_i64(-1) : rlx_i64(0));
}
RLX_FN rlx_i64 rlx_div(rlx_i64 a, rlx_i64 b) {
  return b == rlx_i64(0) ? rlx_i64(0) : (b == rlx_i64(-1) ? rlx_neg(a) : a / b);
}
RLX_FN rlx_i64 rlx_fmod(rlx_i64 a, rlx_i64 b) {
  return (b == rlx_i64(0) || b == rlx_i64(-1)) ? rlx_i64(0) : a - a / b * b;
}
RLX_FN rlx_i64 rlx_mod(rlx_i64 a, rlx_i64 b) {
  const rlx_i64 r = rlx_fmod(a, b);
  return (r != rlx_i64(0) && ((r < rlx_i64(0)) != (b < rlx_i64(0)))) ? r + b : r;
}
RLX_FN rlx_i64 rlx_floor_div(rlx_i64 a, rlx_i64 b) {
  const rlx_i64 r = rlx_fmod(a, b);
  const bool down = r != rlx_i64(0) && ((r < rlx_i64(0)) != (b < rlx_i64(0)));
  return rlx_sub(rlx_div(a, b), down ? rlx_i64(1) : rlx_i64(0));
}
RLX_FN rlx_i64 rlx_max(rlx_i64 a, rlx_i64 b) { return a > b ? a : b; }
RLX_FN rlx_i64 rlx_min(rlx_i64 a, rlx_i64 b) { return a < b ? a : b; }
RLX_FN rlx_i64 rlx_shift_left(rlx_i64 a, rlx_i64 b, int bits) {
  return (b < rlx_i64(0) || b >= rlx_i64(bits)) ? rlx_i64(0) : rlx_i64(rlx_u64(a) << rlx_u32(b));
}
RLX_FN rlx_i64 rlx_shift_right(rlx_i64 a, rlx_i64 b, int bits) {
  if (b < rlx_i64(0) || b >= rlx_i64(bits)) return a < rlx_i64(0) ? rlx_i64(-1) : rlx_i64(0);
  return a >> rlx_u32(b);
}
RLX_FN rlx_i64 rlx_pow(rlx_i64 a, rlx_i64 b) {
  if (b < rlx_i64(0)) {
    const rlx_i64 odd = (b & rlx_i64(1)) != rlx_i64(0) ? rlx_i64(-1) : rlx_i64(1);
    return a == rlx_i64(1) ? rlx_i64(1) : (a == rlx_i64(-1) ? odd : rlx_i64(0));
  }
  rlx_u64 result = rlx_u64(1);
  rlx_u64 square = rlx_u64(a);
  for (rlx_u64 n = rlx_u64(b); n != rlx_u64(0); n >>= 1) {
    if ((n & rlx_u64(1)) != rlx_u64(0)) result *= square;
    square *= square;
  }
  return rlx_i64(result);
}

// ---- conversions ----
// Float to integer: toward zero, saturating, NaN gives 0.
RLX_FN int rlx_i32_from(float x) {
  if (rlx_is_nan(x)) return 0;
  if (x >= 2147483648.0f) return 0x7FFFFFFF;
  if (x < -2147483648.0f) return int(0x80000000u);
  return int(x);
}
RLX_FN rlx_u32 rlx_u32_from(float x) {
  if (rlx_is_nan(x) || x <= 0.0f) return 0u;
  return x >= 4294967296.0f ? 0xFFFFFFFFu : rlx_u32(x);
}
RLX_FN rlx_i64 rlx_i64_from(float x) {
  if (rlx_is_nan(x)) return rlx_i64(0);
  const rlx_u64 top = rlx_u64(1) << 63;
  if (x >= 9223372036854775808.0f) return rlx_i64(top - rlx_u64(1));
  if (x < -9223372036854775808.0f) return rlx_i64(top);
  // The significand shifted into place: drivers' own 64-bit conversions are not trusted.
  const rlx_u32 magnitude = rlx_magnitude_bits(x);
  const int shift = int(magnitude >> 23) - 150;
  const rlx_u64 significand = rlx_u64((magnitude & 0x7FFFFFu) | 0x800000u);
  if (shift <= -24) return rlx_i64(0);
  const rlx_i64 value = rlx_i64(shift < 0 ? significand >> rlx_u32(-shift) : significand << rlx_u32(shift));
  return rlx_is_negative(x) ? rlx_neg(value) : value;
}
RLX_FN int rlx_i32_from(double x) {
  if (rlx_is_nan(x)) return 0;
  if (x >= double(2147483648.0f)) return 0x7FFFFFFF;
  if (x <= double(-2147483648.0f)) return int(0x80000000u);
  return int(x);
}
RLX_FN rlx_u32 rlx_u32_from(double x) {
  if (rlx_is_nan(x) || x <= double(0.0f)) return 0u;
  return x >= double(4294967296.0f) ? 0xFFFFFFFFu : rlx_u32(x);
}
RLX_FN rlx_i64 rlx_i64_from(double x) {
  if (rlx_is_nan(x)) return rlx_i64(0);
  const rlx_u64 top = rlx_u64(1) << 63;
  if (x >= double(9223372036854775808.0f)) return rlx_i64(top - rlx_u64(1));
  if (x < double(-9223372036854775808.0f)) return rlx_i64(top);
  const rlx_u32 high = rlx_high_word(x) & 0x7FFFFFFFu;
  const int shift = int(high >> 20) - 1075;
  const rlx_u64 significand =
      (rlx_u64((high & 0xFFFFFu) | 0x100000u) << 32) | rlx_u64(rlx_low_word(x));
  if (shift <= -53) return rlx_i64(0);
  const rlx_i64 value = rlx_i64(shift < 0 ? significand >> rlx_u32(-shift) : significand << rlx_u32(shift));
  return rlx_is_negative(x) ? rlx_neg(value) : value;
}

// Integer to float, nearest even: both parts are exact, the sum rounds once.
RLX_FN float rlx_f32_from(int x) { return float(x >> 8) * 256.0f + float(x & 255); }
RLX_FN float rlx_f32_from(rlx_u32 x) { return float(x >> 8) * 256.0f + float(x & 255u); }
// 64 bits: the top 24 bits (25 after a carry) as an exact float, rounded by hand. to_odd: a lost bit sets the last one instead, so
// that a second rounding to a 16-bit float comes out right.
RLX_FN float rlx_f32_from_u64(rlx_u64 x, bool to_odd) {
  const rlx_u32 high = rlx_u32(x >> 32);
  if (high == 0u && rlx_u32(x) < 0x1000000u) return float(rlx_u32(x));
  const int top = high != 0u ? 32 + rlx_top_bit(high) : rlx_top_bit(rlx_u32(x));
  const int shift = top - 23;
  rlx_u32 kept = rlx_u32(x >> rlx_u32(shift));
  const rlx_u64 lost = x & ((rlx_u64(1) << rlx_u32(shift)) - rlx_u64(1));
  const rlx_u64 middle = rlx_u64(1) << rlx_u32(shift - 1);
  if (to_odd) {
    kept |= lost != rlx_u64(0) ? 1u : 0u;
  } else if (lost > middle || (lost == middle && (kept & 1u) != 0u)) {
    kept += 1u;
  }
  return float(kept) * rlx_pow2(shift);
}
RLX_FN float rlx_f32_from(rlx_i64 x) {
  const float magnitude = rlx_f32_from_u64(rlx_u64(rlx_abs(x)), false);
  return x < rlx_i64(0) ? -magnitude : magnitude;
}
RLX_FN float rlx_f32_odd_from(rlx_i64 x) {
  const float magnitude = rlx_f32_from_u64(rlx_u64(rlx_abs(x)), true);
  return x < rlx_i64(0) ? -magnitude : magnitude;
}
RLX_FN float rlx_f32_odd_from(int x) { return rlx_f32_odd_from(rlx_widen(x)); }
RLX_FN float rlx_f32_odd_from(rlx_u32 x) { return rlx_f32_odd_from(rlx_widen(x)); }
RLX_FN double rlx_f64_from(rlx_i64 x) {
  return double(int(x >> 32)) * double(4294967296.0f) + double(rlx_u32(rlx_u64(x) & rlx_u64(0xFFFFFFFFu)));
}
// f64 to f32 such that a second rounding to a 16-bit float comes out right.
RLX_FN float rlx_f32_odd_from(double x) {
  const float near = float(x);
  const double back = double(near);
  if (rlx_is_nan(x) || back == x) return near;
  const rlx_u32 bits = rlx_bits(near) - (rlx_abs(back) > rlx_abs(x) ? 1u : 0u);
  return rlx_from_bits(bits | 1u);
}

// ---- exact and nearly exact float functions ----
RLX_FN float rlx_sign(float x) {
  return rlx_is_nan(x) ? x : (rlx_magnitude_bits(x) == 0u ? 0.0f : rlx_copysign(1.0f, x));
}
// These four keep the sign of their argument, which also keeps -0.
RLX_FN float rlx_floor(float x) { return rlx_is_nan(x) ? x : rlx_copysign(rlx_native_floor(x), x); }
RLX_FN float rlx_ceil(float x) { return rlx_is_nan(x) ? x : rlx_copysign(rlx_native_ceil(x), x); }
RLX_FN float rlx_trunc(float x) { return rlx_is_nan(x) ? x : rlx_copysign(rlx_native_trunc(x), x); }
RLX_FN float rlx_round(float x) { return rlx_is_nan(x) ? x : rlx_copysign(rlx_native_round(x), x); }
RLX_FN float rlx_max(float a, float b) {
  return rlx_is_nan(a) ? a : (rlx_is_nan(b) ? b : (a > b ? a : b));
}
RLX_FN float rlx_min(float a, float b) {
  return rlx_is_nan(a) ? a : (rlx_is_nan(b) ? b : (a < b ? a : b));
}
RLX_FN float rlx_clamp(float x, float low, float high) { return rlx_min(rlx_max(x, low), high); }
RLX_FN float rlx_div(float a, float b) { return a / b; }  // rounded to nearest
RLX_FN float rlx_sqrt(float x) {
  if (x < 0.0f) return RLX_NAN;
  return rlx_magnitude_bits(x) == 0u || !(x < RLX_INF) ? x : rlx_native_sqrt(x);
}
RLX_FN float rlx_rsqrt(float x) {
  if (x < 0.0f) return RLX_NAN;
  return rlx_magnitude_bits(x) == 0u ? RLX_INF : (rlx_is_inf(x) ? 0.0f : rlx_native_rsqrt(x));
}
// Exact remainder with the sign of a: long division of the significands, 32 bits of quotient at a time.
RLX_BIG_FN float rlx_fmod(float a, float b) {
  if (rlx_is_nan(a) || rlx_is_nan(b) || rlx_is_inf(a) || rlx_magnitude_bits(b) == 0u) return RLX_NAN;
  const rlx_u32 a_bits = rlx_magnitude_bits(a);
  const rlx_u32 b_bits = rlx_magnitude_bits(b);
  if (a_bits < b_bits) return a;
  const int a_exponent = a_bits < 0x800000u ? 1 : int(a_bits >> 23);
  const int b_exponent = b_bits < 0x800000u ? 1 : int(b_bits >> 23);
  const rlx_u64 divisor = rlx_u64(b_bits < 0x800000u ? b_bits : ((b_bits & 0x7FFFFFu) | 0x800000u));
  rlx_u64 rest = rlx_u64(a_bits < 0x800000u ? a_bits : ((a_bits & 0x7FFFFFu) | 0x800000u)) % divisor;
  int left = a_exponent - b_exponent;
  while (left > 0 && rest != rlx_u64(0)) {
    const int chunk = left < 32 ? left : 32;
    rest = (rest << rlx_u32(chunk)) % divisor;
    left -= chunk;
  }
  const rlx_u32 sign = rlx_bits(a) & 0x80000000u;
  const rlx_u32 r = rlx_u32(rest);
  if (r == 0u) return rlx_from_bits(sign);
  // The rest counts units of 2^(b_exponent - 150): normalise it by bits, so that subnormal results survive.
  const int shift = rlx_min(23 - rlx_top_bit(r), b_exponent - 1);
  const rlx_u32 significand = r << rlx_u32(shift);
  const rlx_u32 exponent = significand < 0x800000u ? 0u : rlx_u32(b_exponent - shift);
  return rlx_from_bits(sign | (exponent << 23) | (significand & 0x7FFFFFu));
}
// Remainder with the sign of b.
RLX_BIG_FN float rlx_mod(float a, float b) {
  const float r = rlx_fmod(a, b);
  if (rlx_is_nan(r) || rlx_magnitude_bits(r) == 0u) return r;
  return rlx_is_negative(r) != rlx_is_negative(b) ? r + b : r;
}
// Exact below 2^20: above 2^23 every float is whole; elsewhere the rounded quotient may have crossed a whole number.
RLX_BIG_FN float rlx_floor_div(float a, float b) {
  const float quotient = rlx_div(a, b);
  if (rlx_is_nan(quotient) || rlx_is_inf(b) || rlx_abs(quotient) >= 8388608.0f) return rlx_floor(quotient);
  // Quarters, as a minus the remainder may overflow.
  const float s = rlx_abs(a) > 8.0e37f ? 0.25f : 1.0f;
  RLX_PRECISE float whole = rlx_div(a * s - rlx_mod(a, b) * s, b * s);
  return rlx_copysign(rlx_round(whole), quotient);
}
// a * b + c with one rounding.
RLX_FN float rlx_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }

// ---- the same for double ----
RLX_FN double rlx_sign(double x) {
  return rlx_is_nan(x) ? x : (rlx_truth(x) ? rlx_copysign(double(1.0f), x) : double(0.0f));
}
RLX_FN double rlx_floor(double x) { return rlx_is_nan(x) ? x : rlx_copysign(rlx_native_floor(x), x); }
RLX_FN double rlx_ceil(double x) { return rlx_is_nan(x) ? x : rlx_copysign(rlx_native_ceil(x), x); }
RLX_FN double rlx_trunc(double x) { return rlx_is_nan(x) ? x : rlx_copysign(rlx_native_trunc(x), x); }
RLX_FN double rlx_round(double x) { return rlx_is_nan(x) ? x : rlx_copysign(rlx_native_round(x), x); }
RLX_FN double rlx_max(double a, double b) {
  return rlx_is_nan(a) ? a : (rlx_is_nan(b) ? b : (a > b ? a : b));
}
RLX_FN double rlx_min(double a, double b) {
  return rlx_is_nan(a) ? a : (rlx_is_nan(b) ? b : (a < b ? a : b));
}
RLX_FN double rlx_clamp(double x, double low, double high) { return rlx_min(rlx_max(x, low), high); }
RLX_FN double rlx_div(double a, double b) { return a / b; }
RLX_FN double rlx_softsign(double x) {
  return rlx_is_inf(x) ? rlx_copysign(double(1.0f), x) : x / (double(1.0f) + rlx_abs(x));
}
RLX_FN double rlx_sqrt(double x) {
  if (x < double(0.0f)) return double(RLX_NAN);
  return !rlx_truth(x) || !(x < double(RLX_INF)) ? x : rlx_native_sqrt(x);
}
RLX_FN double rlx_rsqrt(double x) { return rlx_truth(x) ? double(1.0f) / rlx_sqrt(x) : double(RLX_INF); }
RLX_FN double rlx_fma(double a, double b, double c) { return __fma_rn(a, b, c); }

#endif
