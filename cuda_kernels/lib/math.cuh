// SPDX-License-Identifier: Apache-2.0
// Transcendental functions and activations in f32, one per op, accurate to ops.md 0.5: own range reductions and
// polynomials. Polynomials are near-minimax (Chebyshev nodes, 40 digits, rounded to f32). The twin of
// shaders/lib/math.glsl, which has the same text, so that both targets give the same values.
#ifndef RLX_LIB_MATH_CUH
#define RLX_LIB_MATH_CUH

#include "lib/scalar.cuh"

// ---- exponentials ----
// (e^r - 1 - r) / r^2 for |r| <= 0.35, to 2^-26.8 of e^r.
RLX_FN float rlx_exp_tail(float r) {
  return 0.5f + r * (0.166665733f + r * (0.0416665487f + r * (0.00836377405f + r * 0.00139269268f)));
}
// e^(x + rest), |rest| <= 2^-10.
RLX_FN float rlx_exp_sum(float x, float rest) {
  if (rlx_is_nan(x)) return x;
  if (x > 88.8f) return RLX_INF;
  if (x < -104.0f) return 0.0f;
  const float n = rlx_native_round(x * 1.44269504f);
  // n * ln2_high is exact (7 and 16 bits).
  RLX_PRECISE float r = ((x - n * 0.693145752f) - n * 1.42860677e-06f) + rest;
  return rlx_scale(1.0f + (r + r * r * rlx_exp_tail(r)), int(n));
}
RLX_BIG_FN float rlx_exp(float x) { return rlx_exp_sum(x, 0.0f); }
// e^x for x <= 0 to a relative 2^-17, 0 below -104 and for NaN: for shares of a sum, which stand in front of their rounding.
RLX_FN float rlx_exp_below(float x) { return rlx_native_exp2((x > -104.0f ? x : -104.0f) * 1.44269504f); }
RLX_BIG_FN float rlx_exp2(float x) {
  if (rlx_is_nan(x)) return x;
  if (x >= 128.0f) return RLX_INF;
  if (x < -150.0f) return 0.0f;
  const float n = rlx_native_round(x);
  const float r = x - n;
  const float q = 0.693147182f + r * (0.240226507f + r * (0.0555035695f +
                  r * (0.00961808302f + r * (0.00133908633f + r * 0.000154531634f))));
  return rlx_scale(1.0f + r * q, int(n));
}
RLX_BIG_FN float rlx_expm1(float x) {
  if (rlx_is_nan(x)) return x;
  if (x > 88.8f) return RLX_INF;
  if (x < -18.0f) return -1.0f;
  const float n = rlx_native_round(x * 1.44269504f);
  RLX_PRECISE float r = (x - n * 0.693145752f) - n * 1.42860677e-06f;
  const float e = r + r * r * rlx_exp_tail(r);
  if (rlx_magnitude_bits(n) == 0u) return e;
  if (n > 126.0f) return rlx_scale(1.0f + e, int(n));
  const float s = rlx_pow2(int(n));
  return s * e + (s - 1.0f);
}

// ---- logarithms ----
// x = 2^exponent * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); x positive and finite, subnormals by integer arithmetic.
struct RlxLogParts {
  int exponent;
  float f;
};
RLX_FN RlxLogParts rlx_log_parts(float x) {
  rlx_u32 bits = rlx_bits(x);
  int offset = 0;
  if (bits < 0x800000u) {
    bits = rlx_bits(float(bits));
    offset = -149;
  }
  const int e = int(bits - 0x3F3504F3u) >> 23;
  RlxLogParts parts;
  parts.exponent = e + offset;
  parts.f = rlx_from_bits(bits - (rlx_u32(e) << 23)) - 1.0f;
  return parts;
}
// (ln(1+f) - f + f^2/2) / f^3 on [-0.293, 0.415], to 2^-25.
RLX_FN float rlx_log_tail(float f) {
  return 0.333333313f + f * (-0.24999997f + f * (0.200007156f + f * (-0.166678026f + f * (0.142490581f +
         f * (-0.124256872f + f * (0.116854198f + f * (-0.114797339f + f * 0.0697161183f)))))));
}
RLX_FN float rlx_log_near_one(float f) {
  const float square = f * f;
  return f + (square * f * rlx_log_tail(f) - 0.5f * square);
}
// What a logarithm gives where x is not positive and finite.
RLX_FN float rlx_log_edge(float x) {
  if (rlx_is_nan(x)) return x;
  if (rlx_magnitude_bits(x) == 0u) return -RLX_INF;
  return rlx_is_negative(x) ? RLX_NAN : RLX_INF;
}
RLX_FN bool rlx_log_regular(float x) { return rlx_bits(x) - 1u < 0x7F7FFFFFu; }
RLX_BIG_FN float rlx_log(float x) {
  if (!rlx_log_regular(x)) return rlx_log_edge(x);
  const RlxLogParts parts = rlx_log_parts(x);
  const float k = float(parts.exponent);
  return k * 0.693145752f + (rlx_log_near_one(parts.f) + k * 1.42860677e-06f);
}
RLX_BIG_FN float rlx_log2(float x) {
  if (!rlx_log_regular(x)) return rlx_log_edge(x);
  const RlxLogParts parts = rlx_log_parts(x);
  return float(parts.exponent) + rlx_log_near_one(parts.f) * 1.44269504f;
}
RLX_BIG_FN float rlx_log10(float x) {
  if (!rlx_log_regular(x)) return rlx_log_edge(x);
  const RlxLogParts parts = rlx_log_parts(x);
  const float k = float(parts.exponent);
  return k * 0.301025391f + (rlx_log_near_one(parts.f) * 0.434294482f + k * 4.60503907e-06f);
}
RLX_BIG_FN float rlx_log1p(float x) {
  if (rlx_is_nan(x)) return x;
  if (x <= -1.0f) return x == -1.0f ? -RLX_INF : RLX_NAN;
  if (x > 1.0e9f) return rlx_log(x);
  if (x > -0.29f && x < 0.41f) return rlx_log_near_one(x);
  // ln(1 + x) = ln(u) + (what the rounding of u lost) / u
  RLX_PRECISE float u = 1.0f + x;
  RLX_PRECISE float lost = x > 1.0f ? 1.0f - (u - x) : x - (u - 1.0f);
  return rlx_log(u) + lost / u;
}

// ---- power ----
struct RlxPair {
  float high;
  float low;
};
// ln(x) as high + low with about 28 bits, x positive and finite.
RLX_FN RlxPair rlx_log_pair(float x) {
  const RlxLogParts parts = rlx_log_parts(x);
  const float f = parts.f;
  const float f1 = rlx_upper(f);
  RLX_PRECISE float f2 = f - f1;
  // f^2 / 2 = half + half_rest, half exact.
  const float half_square = 0.5f * rlx_mul_rn(f1, f1);
  const float half_rest = 0.5f * f2 * (f + f1);
  RLX_PRECISE float near = f - half_square;
  RLX_PRECISE float near_rest = (f - near) - half_square;
  const float k = float(parts.exponent);
  const float whole = rlx_mul_rn(k, 0.693145752f);
  RLX_PRECISE float sum = whole + near;
  RLX_PRECISE float part = sum - whole;
  RLX_PRECISE float sum_rest = (whole - (sum - part)) + (near - part);
  RLX_PRECISE float low = (sum_rest + near_rest) + ((f * f * f * rlx_log_tail(f) - half_rest) + k * 1.42860677e-06f);
  RlxPair pair;
  RLX_PRECISE float high = sum + low;
  pair.high = high;
  RLX_PRECISE float high_rest = (sum - high) + low;
  pair.low = high_rest;
  return pair;
}
// x^y for x >= 0 (not NaN), y not NaN, neither giving one of pow's special cases except by value.
RLX_FN float rlx_pow_magnitude(float x, float y) {
  if (rlx_magnitude_bits(y) == 0u || rlx_bits(x) == 0x3F800000u) return 1.0f;
  if (rlx_magnitude_bits(x) == 0u) return rlx_is_negative(y) ? RLX_INF : 0.0f;
  if (rlx_is_inf(x)) return rlx_is_negative(y) ? 0.0f : RLX_INF;
  if (rlx_is_inf(y)) return (x > 1.0f) != rlx_is_negative(y) ? RLX_INF : 0.0f;
  const RlxPair l = rlx_log_pair(x);
  const float rough = y * l.high;
  if (!(rlx_abs(rough) < 110.0f)) return rough > 0.0f ? RLX_INF : 0.0f;
  // y * l.high = product + rest.
  const float y1 = rlx_upper(y);
  const float l1 = rlx_upper(l.high);
  RLX_PRECISE float y2 = y - y1;
  RLX_PRECISE float l2 = l.high - l1;
  const float product = rlx_mul_rn(y, l.high);
  const float rest_1 = rlx_add_rn(rlx_add_rn(rlx_mul_rn(y1, l1), -product), rlx_mul_rn(y1, l2));
  const float rest_2 = rlx_add_rn(rest_1, rlx_mul_rn(y2, l1));
  return rlx_exp_sum(product, rlx_add_rn(rest_2, rlx_mul_rn(y2, l2)) + y * l.low);
}
RLX_BIG_FN float rlx_pow(float x, float y) {
  if (rlx_magnitude_bits(y) == 0u || rlx_bits(x) == 0x3F800000u) return 1.0f;
  if (rlx_is_nan(x)) return x;
  if (rlx_is_nan(y)) return y;
  const float magnitude = rlx_pow_magnitude(rlx_abs(x), y);
  if (!rlx_is_negative(x)) return magnitude;
  // Floats from 2^24 on are even whole numbers.
  const float y_size = rlx_abs(y);
  const bool whole = rlx_native_trunc(y_size) == y_size;
  // Half of the smallest normal number may be flushed to zero, so evenness counts for whole numbers only.
  const bool even = whole && (y_size >= 16777216.0f || rlx_native_trunc(y_size * 0.5f) == y_size * 0.5f);
  if (!whole && rlx_magnitude_bits(x) != 0u && !rlx_is_inf(x)) return RLX_NAN;
  return whole && !even ? -magnitude : magnitude;
}
RLX_BIG_FN float rlx_pow(float x, rlx_i64 n) {
  if (n == rlx_i64(0)) return 1.0f;
  if (rlx_is_nan(x)) return x;
  const float magnitude = rlx_pow_magnitude(rlx_abs(x), rlx_f32_from(n));
  return rlx_is_negative(x) && (n & rlx_i64(1)) != rlx_i64(0) ? -magnitude : magnitude;
}

// ---- trigonometry ----
// x = quadrant * pi/2 + r, |r| <= pi/4.
struct RlxAngle {
  rlx_u32 quadrant;
  float r;
};
// 32 bits of 2/pi, preceded by 31 zero bits and the point: word 0 is empty, word i holds binary places 32i - 31 to 32i.
RLX_FN rlx_u32 rlx_two_over_pi(int i) {
  return i == 0 ? 0u : (i == 1 ? 0xA2F9836Eu : (i == 2 ? 0x4E441529u : (i == 3 ? 0xFC2757D1u :
         (i == 4 ? 0xF534DDC0u : (i == 5 ? 0xDB629599u : (i == 6 ? 0x3C439041u : 0xFE5163ABu))))));
}
// Payne and Hanek in integers: the 24-bit significand times the 96 bits of 2/pi that matter modulo 4.
RLX_FN RlxAngle rlx_reduce_large(float x) {
  const rlx_u32 bits = rlx_magnitude_bits(x);
  const rlx_u64 m = rlx_u64((bits & 0x7FFFFFu) | 0x800000u);
  // x = m * 2^e; places up to e - 2 of 2/pi give multiples of 4. `position` is the window's first bit in the table.
  const int position = int(bits >> 23) - 150 - 1 + 31;
  const int word = position >> 5;
  const rlx_u32 shift = rlx_u32(position & 31);
  const rlx_u64 t01 = (rlx_u64(rlx_two_over_pi(word)) << 32) | rlx_u64(rlx_two_over_pi(word + 1));
  const rlx_u64 t12 = (rlx_u64(rlx_two_over_pi(word + 1)) << 32) | rlx_u64(rlx_two_over_pi(word + 2));
  const rlx_u64 t23 = (rlx_u64(rlx_two_over_pi(word + 2)) << 32) | rlx_u64(rlx_two_over_pi(word + 3));
  const rlx_u64 mask = rlx_u64(0xFFFFFFFFu);
  const rlx_u64 w2 = (t01 >> (32u - shift)) & mask;
  const rlx_u64 w1 = (t12 >> (32u - shift)) & mask;
  const rlx_u64 w0 = (t23 >> (32u - shift)) & mask;
  const rlx_u64 p0 = m * w0;
  const rlx_u64 p1 = m * w1 + (p0 >> 32);
  const rlx_u64 p2 = m * w2 + (p1 >> 32);
  // The product modulo 2^96: two bits of quadrant, then the fraction, 64 bits of which are kept.
  const rlx_u64 top = ((p2 & mask) << 32) | (p1 & mask);
  RlxAngle angle;
  angle.quadrant = rlx_u32(top >> 62);
  rlx_u64 fraction = (top << 2) | ((p0 & mask) >> 30);
  bool negative = false;
  if ((fraction >> 63) != rlx_u64(0)) {
    angle.quadrant += 1u;
    fraction = rlx_u64(0) - fraction;
    negative = true;
  }
  const float size = float(rlx_u32(fraction >> 32)) * rlx_pow2(-32) + float(rlx_u32(fraction & mask)) * rlx_pow2(-64);
  angle.r = (negative ? -size : size) * 1.57079637f;
  if (rlx_is_negative(x)) {
    angle.r = -angle.r;
    angle.quadrant = 0u - angle.quadrant;
  }
  return angle;
}
// x finite. Below 2^11 the multiple of pi/2 has 11 bits, so that its product with each 13-bit part of pi/2 is exact.
RLX_FN RlxAngle rlx_reduce_angle(float x) {
  if (rlx_abs(x) >= 2048.0f) return rlx_reduce_large(x);
  const float n = rlx_native_round(x * 0.636619747f);
  RLX_PRECISE float r = x - n * 1.57055664f;
  RLX_PRECISE float r2 = r - n * 0.000239670277f;
  RLX_PRECISE float r3 = r2 - n * 1.58906914e-08f;
  RLX_PRECISE float r4 = r3 - n * 2.56334407e-12f;
  RlxAngle angle;
  angle.quadrant = rlx_u32(int(n));
  angle.r = r4;
  return angle;
}
RLX_FN float rlx_sin_poly(float r) {
  const float s = r * r;
  return r + r * s * (-0.166666672f + s * (0.00833333191f + s * (-0.000198400827f + s * 2.72493139e-06f)));
}
RLX_FN float rlx_cos_poly(float r) {
  const float s = r * r;
  const float tail = s * s * (0.0416666679f + s * (-0.00138888881f + s * (2.48005963e-05f - s * 2.73004474e-07f)));
  return (1.0f - 0.5f * s) + tail;
}
RLX_BIG_FN float rlx_sin(float x) {
  if (rlx_magnitude_bits(x) >= 0x7F800000u) return RLX_NAN;
  const RlxAngle angle = rlx_reduce_angle(x);
  const float size = (angle.quadrant & 1u) != 0u ? rlx_cos_poly(angle.r) : rlx_sin_poly(angle.r);
  return (angle.quadrant & 2u) != 0u ? -size : size;
}
RLX_BIG_FN float rlx_cos(float x) {
  if (rlx_magnitude_bits(x) >= 0x7F800000u) return RLX_NAN;
  const RlxAngle angle = rlx_reduce_angle(x);
  const float size = (angle.quadrant & 1u) != 0u ? rlx_sin_poly(angle.r) : rlx_cos_poly(angle.r);
  return ((angle.quadrant + 1u) & 2u) != 0u ? -size : size;
}
RLX_BIG_FN float rlx_tan(float x) {
  if (rlx_magnitude_bits(x) >= 0x7F800000u) return RLX_NAN;
  const RlxAngle angle = rlx_reduce_angle(x);
  const float s = rlx_sin_poly(angle.r);
  const float c = rlx_cos_poly(angle.r);
  return (angle.quadrant & 1u) != 0u ? -rlx_div(c, s) : s / c;
}
// asin on [-1/2, 1/2].
RLX_FN float rlx_asin_poly(float x) {
  const float s = x * x;
  return x + x * s * (0.166666657f + s * (0.0750009418f + s * (0.0445994027f +
         s * (0.0311006624f + s * (0.0171492379f + s * 0.0336908475f)))));
}
RLX_BIG_FN float rlx_asin(float x) {
  const float size = rlx_abs(x);
  if (!(size <= 1.0f)) return RLX_NAN;
  if (size <= 0.5f) return rlx_asin_poly(x);
  const float half_angle = rlx_asin_poly(rlx_sqrt((1.0f - size) * 0.5f));
  return rlx_copysign(1.57079637f - (2.0f * half_angle + 4.371139e-08f), x);
}
RLX_BIG_FN float rlx_acos(float x) {
  const float size = rlx_abs(x);
  if (!(size <= 1.0f)) return RLX_NAN;
  if (size <= 0.5f) return 1.57079637f - (rlx_asin_poly(x) + 4.371139e-08f);
  const float angle = 2.0f * rlx_asin_poly(rlx_sqrt((1.0f - size) * 0.5f));
  return rlx_is_negative(x) ? 3.14159274f - (angle + 8.742278e-08f) : angle;
}
// atan of a positive ratio a / b, either part may be infinite or zero (not both).
RLX_FN float rlx_atan_ratio(float a, float b) {
  float numerator = a;
  float denominator = b;
  float start = 0.0f;
  float rest = 0.0f;
  if (a > b * 2.41421366f) {
    numerator = -b;
    denominator = a;
    start = 1.57079637f;
    rest = -4.371139e-08f;
  } else if (a > b * 0.414213568f) {
    numerator = a - b;
    denominator = a + b;
    start = 0.785398185f;
    rest = -2.1855695e-08f;
  }
  const float z = rlx_div(numerator, denominator);
  const float s = z * z;
  const float tail = z * s * (-0.333333313f + s * (0.199995399f + s * (-0.142639562f +
                     s * (0.107437313f - s * 0.0645192787f))));
  return start + (z + (tail + rest));
}
RLX_BIG_FN float rlx_atan(float x) {
  if (rlx_is_nan(x)) return x;
  return rlx_copysign(rlx_atan_ratio(rlx_abs(x), 1.0f), x);
}
RLX_BIG_FN float rlx_atan2(float y, float x) {
  if (rlx_is_nan(x)) return x;
  if (rlx_is_nan(y)) return y;
  float a = rlx_abs(y);
  float b = rlx_abs(x);
  if (rlx_is_inf(a) && rlx_is_inf(b)) {
    a = 1.0f;
    b = 1.0f;
  }
  // Far from the ends of the exponent range, so that sums and products of the two neither overflow nor vanish.
  const float larger = a > b ? a : b;
  const float s = larger > 1.0e37f ? rlx_pow2(-24) : (larger < 1.0e-30f ? rlx_pow2(48) : 1.0f);
  const bool both_zero = rlx_magnitude_bits(a) == 0u && rlx_magnitude_bits(b) == 0u;
  const float angle = both_zero ? 0.0f : rlx_atan_ratio(a * s, b * s);
  return rlx_copysign(rlx_is_negative(x) ? 3.14159274f - (angle + 8.742278e-08f) : angle, y);
}

// ---- hyperbolic functions ----
RLX_BIG_FN float rlx_sinh(float x) {
  const float size = rlx_abs(x);
  if (rlx_is_nan(x)) return x;
  if (size > 80.0f) {
    const float half_power = rlx_exp(0.5f * size);
    return rlx_copysign((0.5f * half_power) * half_power, x);
  }
  const float e = rlx_expm1(size);
  return rlx_copysign(0.5f * (e + e / (e + 1.0f)), x);
}
RLX_BIG_FN float rlx_cosh(float x) {
  const float size = rlx_abs(x);
  if (size > 80.0f) {
    const float half_power = rlx_exp(0.5f * size);
    return (0.5f * half_power) * half_power;
  }
  const float e = rlx_exp(size);
  return 0.5f * (e + 1.0f / e);
}
RLX_BIG_FN float rlx_tanh(float x) {
  const float size = rlx_abs(x);
  if (rlx_is_nan(x)) return x;
  if (size > 10.0f) return rlx_copysign(1.0f, x);
  const float e = rlx_expm1(2.0f * size);
  return rlx_copysign(e / (e + 2.0f), x);
}
RLX_BIG_FN float rlx_asinh(float x) {
  const float size = rlx_abs(x);
  if (rlx_is_nan(x) || rlx_is_inf(x)) return x;
  if (size > 1.0e6f) return rlx_copysign(rlx_log(size) + 0.693147182f, x);
  const float square = size * size;
  return rlx_copysign(rlx_log1p(size + square / (1.0f + rlx_sqrt(1.0f + square))), x);
}
RLX_BIG_FN float rlx_acosh(float x) {
  if (rlx_is_nan(x)) return x;
  if (x < 1.0f) return RLX_NAN;
  if (x > 1.0e6f) return rlx_log(x) + 0.693147182f;
  const float t = x - 1.0f;
  return rlx_log1p(t + rlx_sqrt(2.0f * t + t * t));
}
RLX_BIG_FN float rlx_atanh(float x) {
  const float size = rlx_abs(x);
  if (!(size <= 1.0f)) return RLX_NAN;
  if (size == 1.0f) return rlx_copysign(RLX_INF, x);
  return rlx_copysign(0.5f * rlx_log1p(rlx_div(2.0f * size, 1.0f - size)), x);
}

// ---- error function and activations ----
// exp(-x^2 / 2): the square as an exact part and a rest.
RLX_FN float rlx_gauss(float x) {
  const float x1 = rlx_upper(x);
  RLX_PRECISE float x2 = x - x1;
  const float square = rlx_mul_rn(x1, x1);
  if (square > 230.0f) return 0.0f;
  return rlx_exp(-0.5f * square) * rlx_exp(-0.5f * x2 * (x + x1));
}
// The tail of the normal distribution beyond x over t * exp(-x^2 / 2), for t = 1 / (1 + 0.3 x).
RLX_FN float rlx_normal_tail_factor(float t) {
  return 0.119687751f + t * (0.119550116f + t * (0.1104232f + t * (0.07748577f + t * (0.0988308415f +
         t * (-0.084481284f + t * (0.197921649f + t * (-0.232835487f + t * (0.114402115f - t * 0.0209846701f))))))));
}
// Normal distribution's tail: the integral of the density from x to infinity for x >= 0, to about 3 units of the last place.
RLX_FN float rlx_normal_tail(float x) {
  if (x > 15.0f) return 0.0f;
  const float t = 1.0f / (1.0f + 0.3f * x);
  return t * rlx_normal_tail_factor(t) * rlx_gauss(x);
}
RLX_BIG_FN float rlx_erf(float x) {
  if (rlx_is_nan(x)) return x;
  const float size = rlx_abs(x);
  if (size > 4.0f) return rlx_copysign(1.0f, x);
  if (size > 1.0f) return rlx_copysign(1.0f - 2.0f * rlx_normal_tail(size * 1.41421354f), x);
  const float s = x * x;
  return x * (1.12837923f + s * (-0.376126379f + s * (0.112837821f + s * (-0.0268654302f + s * (0.00522103161f +
         s * (-0.000848408032f + s * (0.000112659589f - s * 9.66704465e-06f)))))));
}
// x times the normal distribution's integral up to x. Unlike rlx_normal_tail, whose relative error counts, the tail needs few
// units of 2^-24 only: the device's own 2^x and 1 / x do, and no case of x takes a branch.
RLX_BIG_FN float rlx_gelu(float x) {
  float t;
  float gauss;
  asm("rcp.approx.f32 %0, %1;" : "=f"(t) : "f"(1.0f + 0.3f * rlx_abs(x)));
  asm("ex2.approx.f32 %0, %1;" : "=f"(gauss) : "f"(-0.72134752f * (x * x)));
  const float tail = t * rlx_normal_tail_factor(t) * gauss;
  return x >= 0.0f ? x * (1.0f - tail) : fmaxf(x, -20.0f) * tail;  // at -20 the tail is 0; NaN stays in the tail
}
RLX_BIG_FN float rlx_sigmoid(float x) {
  if (rlx_is_nan(x)) return x;
  const float e = rlx_exp(-rlx_abs(x));
  return rlx_is_negative(x) ? e / (1.0f + e) : 1.0f / (1.0f + e);
}
RLX_BIG_FN float rlx_log_sigmoid(float x) {
  if (rlx_is_nan(x)) return x;
  return (x < 0.0f ? x : 0.0f) - rlx_log1p(rlx_exp(-rlx_abs(x)));
}
// x * gate where a gate of 0 wins over an infinite x.
RLX_FN float rlx_gated(float x, float gate) { return rlx_magnitude_bits(gate) == 0u ? 0.0f : x * gate; }
// 1/2 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3).
RLX_BIG_FN float rlx_gelu_tanh(float x) {
  if (rlx_is_nan(x)) return x;
  return rlx_gated(x, rlx_sigmoid(1.59576917f * x * (1.0f + 0.044715f * (x * x))));
}
RLX_BIG_FN float rlx_swish(float x, float alpha) {
  if (rlx_is_nan(x)) return x;
  return rlx_gated(x, rlx_sigmoid(alpha * x));
}
RLX_BIG_FN float rlx_silu(float x) {
  if (rlx_is_nan(x)) return x;
  return rlx_gated(x, rlx_sigmoid(x));
}
// tanh(ln(1 + e^x)) = (e^2x + 2e^x) / (e^2x + 2e^x + 2)
RLX_BIG_FN float rlx_mish(float x) {
  if (rlx_is_nan(x) || x > 20.0f) return x;
  const float e = rlx_exp(x);
  const float n = e * (e + 2.0f);
  return rlx_gated(x, n / (n + 2.0f));
}
RLX_BIG_FN float rlx_softplus(float x, float beta) {
  if (rlx_is_nan(x)) return x;
  const float z = beta * x;
  return rlx_div((z > 0.0f ? z : 0.0f) + rlx_log1p(rlx_exp(-rlx_abs(z))), beta);
}
RLX_BIG_FN float rlx_elu(float x, float alpha) { return x > 0.0f ? x : alpha * rlx_expm1(x); }
RLX_BIG_FN float rlx_celu(float x, float alpha) {
  if (rlx_is_nan(x)) return x;
  const float tail = alpha * rlx_expm1(rlx_div(x, alpha));
  return (x > 0.0f ? x : 0.0f) + (tail < 0.0f ? tail : 0.0f);
}
RLX_BIG_FN float rlx_selu(float x, float alpha, float gamma) {
  return gamma * (x > 0.0f ? x : alpha * rlx_expm1(x));
}
RLX_FN float rlx_softsign(float x) {
  return rlx_is_inf(x) ? rlx_copysign(1.0f, x) : rlx_div(x, 1.0f + rlx_abs(x));
}

#endif
