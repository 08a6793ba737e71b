// SPDX-License-Identifier: Apache-2.0
// The functions of math.glsl for double, accurate to class transc of ops.md 0.5 with u = 2^-53: only + - * / sqrt and
// conversions are used. Series are polynomials through Chebyshev nodes, computed with 60 digits and rounded to double; each is
// one Horner line per coefficient, its bits and its decimal value. The twin of cuda_kernels/lib/math64.cuh, which has the same
// text; tests/ops compiles this file as C++ and compares it with libm in long double.
#ifndef RLX_LIB_MATH64_GLSL
#define RLX_LIB_MATH64_GLSL

#include "lib/scalar.glsl"

#define RLX_BITS64(high, low) rlx_f64_of(low, high)
#define RLX_INF64 RLX_BITS64(0x7FF00000u, 0u)
#define RLX_NAN64 RLX_BITS64(0x7FF80000u, 0u)

// ---- series ----
// (e^r - 1 - r) / r^2 for |r| <= 0.35, to 2^-57 of itself.
RLX_FN double rlx_exp_tail(double r) {
  double sum = RLX_BITS64(0x3E21F75Au, 0xBA0B1E2Eu);  // 2.0915442297780116e-09
  sum = RLX_BITS64(0x3E5AF529u, 0x06239DE4u) + r * sum;  // 2.5106274733573296e-08
  sum = RLX_BITS64(0x3E927E4Du, 0xA1A3BF04u) + r * sum;  // 2.75572718102198e-07
  sum = RLX_BITS64(0x3EC71DDFu, 0xFEF9E7B1u) + r * sum;  // 2.7557252833516911e-06
  sum = RLX_BITS64(0x3EFA01A0u, 0x1A741B3Cu) + r * sum;  // 2.4801587327007187e-05
  sum = RLX_BITS64(0x3F2A01A0u, 0x1ACA0134u) + r * sum;  // 0.00019841269876864356
  sum = RLX_BITS64(0x3F56C16Cu, 0x16C16212u) + r * sum;  // 0.0013888888888883327
  sum = RLX_BITS64(0x3F811111u, 0x1110FF87u) + r * sum;  // 0.0083333333333255443
  sum = RLX_BITS64(0x3FA55555u, 0x55555556u) + r * sum;  // 0.041666666666666671
  sum = RLX_BITS64(0x3FC55555u, 0x55555557u) + r * sum;  // 0.16666666666666671
  sum = RLX_BITS64(0x3FE00000u, 0x00000000u) + r * sum;  // 0.5
  return sum;
}
// (2 atanh(s) - 2s) / s^3 over z = s^2 for |s| <= 0.1716, to 2^-53.
RLX_FN double rlx_log_series(double z) {
  double sum = RLX_BITS64(0x3FBE7487u, 0x53DCDFB1u);  // 0.11896558568412165
  sum = RLX_BITS64(0x3FBDEADEu, 0xD80AECD1u) + z * sum;  // 0.11686508917312045
  sum = RLX_BITS64(0x3FC111D8u, 0x86E523EFu) + z * sum;  // 0.13335711085008436
  sum = RLX_BITS64(0x3FC3B137u, 0x8F276767u) + z * sum;  // 0.15384573450028968
  sum = RLX_BITS64(0x3FC745D1u, 0x7DAB81FBu) + z * sum;  // 0.18181818615177278
  sum = RLX_BITS64(0x3FCC71C7u, 0x1C63F7E4u) + z * sum;  // 0.22222222219710297
  sum = RLX_BITS64(0x3FD24924u, 0x924929B3u) + z * sum;  // 0.28571428571435858
  sum = RLX_BITS64(0x3FD99999u, 0x99999998u) + z * sum;  // 0.39999999999999991
  sum = RLX_BITS64(0x3FE55555u, 0x55555555u) + z * sum;  // 0.66666666666666663
  return sum;
}
// (sin r - r) / r^3 over z = r^2 for |r| <= pi/4, to 2^-53.
RLX_FN double rlx_sin_series(double z) {
  double sum = RLX_BITS64(0xBD6AB0F2u, 0x5D21FD92u);  // -7.5860947896726206e-13
  sum = RLX_BITS64(0x3DE61217u, 0x03EE57B1u) + z * sum;  // 1.6058521349954986e-10
  sum = RLX_BITS64(0xBE5AE645u, 0x40000F84u) + z * sum;  // -2.5052106167335705e-08
  sum = RLX_BITS64(0x3EC71DE3u, 0xA5455B9Au) + z * sum;  // 2.7557319219150783e-06
  sum = RLX_BITS64(0xBF2A01A0u, 0x1A0198DEu) + z * sum;  // -0.00019841269841264821
  sum = RLX_BITS64(0x3F811111u, 0x11111110u) + z * sum;  // 0.0083333333333333315
  sum = RLX_BITS64(0xBFC55555u, 0x55555555u) + z * sum;  // -0.16666666666666666
  return sum;
}
// (cos r - 1 + r^2/2) / r^4 over z = r^2 for |r| <= pi/4, to 2^-53.
RLX_FN double rlx_cos_series(double z) {
  double sum = RLX_BITS64(0x3D2AB70Au, 0x23137C25u);  // 4.7455370173192583e-14
  sum = RLX_BITS64(0xBDA9394Au, 0xCE29BD7Bu) + z * sum;  // -1.1470455178216906e-11
  sum = RLX_BITS64(0x3E21EED8u, 0xDE33EBE0u) + z * sum;  // 2.0876755754879594e-09
  sum = RLX_BITS64(0xBE927E4Fu, 0xB770E01Du) + z * sum;  // -2.7557319221298089e-07
  sum = RLX_BITS64(0x3EFA01A0u, 0x1A019CE2u) + z * sum;  // 2.480158730158451e-05
  sum = RLX_BITS64(0xBF56C16Cu, 0x16C16C16u) + z * sum;  // -0.0013888888888888887
  sum = RLX_BITS64(0x3FA55555u, 0x55555555u) + z * sum;  // 0.041666666666666664
  return sum;
}
// (asin x - x) / x^3 over z = x^2 for |x| <= 1/2, to 2^-54.
RLX_FN double rlx_asin_series(double z) {
  double sum = RLX_BITS64(0x3F9E529Cu, 0x6FCE9BB4u);  // 0.029612011264955121
  sum = RLX_BITS64(0xBF93B416u, 0xBB7D9257u) + z * sum;  // -0.019241671746743041
  sum = RLX_BITS64(0x3F940619u, 0x2D124629u) + z * sum;  // 0.019554513336123378
  sum = RLX_BITS64(0x3F68F193u, 0x743418FFu) + z * sum;  // 0.0030448799094556773
  sum = RLX_BITS64(0x3F831622u, 0x469CE5ADu) + z * sum;  // 0.0093195607947674456
  sum = RLX_BITS64(0x3F83B49Du, 0xE7121487u) + z * sum;  // 0.0096218429701002816
  sum = RLX_BITS64(0x3F87B027u, 0xEE1DD585u) + z * sum;  // 0.011566459612121669
  sum = RLX_BITS64(0x3F8C990Au, 0xD3D8FDCAu) + z * sum;  // 0.01396378001220357
  sum = RLX_BITS64(0x3F91C4EFu, 0xCE23019Fu) + z * sum;  // 0.017352816540325496
  sum = RLX_BITS64(0x3F96E8BAu, 0x123E494Cu) + z * sum;  // 0.022372157443507221
  sum = RLX_BITS64(0x3F9F1C71u, 0xC7A52BA3u) + z * sum;  // 0.03038194447553234
  sum = RLX_BITS64(0x3FA6DB6Du, 0xB6DAC1E0u) + z * sum;  // 0.044642857142551895
  sum = RLX_BITS64(0x3FB33333u, 0x33333388u) + z * sum;  // 0.075000000000001177
  sum = RLX_BITS64(0x3FC55555u, 0x55555555u) + z * sum;  // 0.16666666666666666
  return sum;
}
// (atan x - x) / x^3 over z = x^2 for |x| <= sqrt(2) - 1, to 2^-53.
RLX_FN double rlx_atan_series(double z) {
  double sum = RLX_BITS64(0xBF8C7A6Bu, 0xC6DDE7F9u);  // -0.013905374533113234
  sum = RLX_BITS64(0x3F9F5BA2u, 0x71A2A8E8u) + z * sum;  // 0.030622995553735516
  sum = RLX_BITS64(0xBFA5030Cu, 0x28013685u) + z * sum;  // -0.041038875468626869
  sum = RLX_BITS64(0x3FA829A0u, 0x9D7F37D9u) + z * sum;  // 0.047192591882420927
  sum = RLX_BITS64(0xBFAAEBCAu, 0xD6415C5Du) + z * sum;  // -0.052580202726567583
  sum = RLX_BITS64(0x3FAE1D8Du, 0xDF459F4Du) + z * sum;  // 0.058819230561140225
  sum = RLX_BITS64(0xBFB1110Cu, 0xE80547D7u) + z * sum;  // -0.066666418691311832
  sum = RLX_BITS64(0x3FB3B13Au, 0xEA53B18Fu) + z * sum;  // 0.076923067291948963
  sum = RLX_BITS64(0xBFB745D1u, 0x73542F7Au) + z * sum;  // -0.090909090668160802
  sum = RLX_BITS64(0x3FBC71C7u, 0x1C6DD2D8u) + z * sum;  // 0.11111111110751482
  sum = RLX_BITS64(0xBFC24924u, 0x924920A3u) + z * sum;  // -0.1428571428571149
  sum = RLX_BITS64(0x3FC99999u, 0x99999997u) + z * sum;  // 0.19999999999999993
  sum = RLX_BITS64(0xBFD55555u, 0x55555555u) + z * sum;  // -0.33333333333333331
  return sum;
}
// erf(x) / x over z = x^2 for |x| <= 1, to 2^-55.
RLX_FN double rlx_erf_series(double z) {
  double sum = RLX_BITS64(0x3D53C01Fu, 0xD3A74542u);  // 2.8067128195611264e-13
  sum = RLX_BITS64(0xBD9B40E7u, 0xABF9F000u) + z * sum;  // -6.1967364287876997e-12
  sum = RLX_BITS64(0x3DD9A0FCu, 0xB5E22C5Bu) + z * sum;  // 9.3237235181530271e-11
  sum = RLX_BITS64(0xBE1517CEu, 0x02F1265Fu) + z * sum;  // -1.2277734486795524e-09
  sum = RLX_BITS64(0x3E4FCBB3u, 0x12B48443u) + z * sum;  // 1.4806027146128752e-08
  sum = RLX_BITS64(0xBE85F73Cu, 0x3BF14B91u) + z * sum;  // -1.6365768648832071e-07
  sum = RLX_BITS64(0x3EBB9E6Cu, 0x38E5CF3Du) + z * sum;  // 1.6462110782018636e-06
  sum = RLX_BITS64(0xBEEF4D25u, 0xBF9AF03Au) + z * sum;  // -1.4925650236967501e-05
  sum = RLX_BITS64(0x3F1F9A32u, 0x6F7AC5B1u) + z * sum;  // 0.00012055332978879483
  sum = RLX_BITS64(0xBF4C02DBu, 0x40035F1Eu) + z * sum;  // -0.0008548327023403001
  sum = RLX_BITS64(0x3F7565BCu, 0xD0E6A2EEu) + z * sum;  // 0.0052239776254416736
  sum = RLX_BITS64(0xBF9B82CEu, 0x31288B47u) + z * sum;  // -0.026866170645131218
  sum = RLX_BITS64(0x3FBCE2F2u, 0x1A042BE2u) + z * sum;  // 0.11283791670955126
  sum = RLX_BITS64(0xBFD81274u, 0x6B0379E7u) + z * sum;  // -0.37612638903183754
  sum = RLX_BITS64(0x3FF20DD7u, 0x50429B6Du) + z * sum;  // 1.1283791670955126
  return sum;
}
// The normal distribution's tail at x >= 0, times e^(x^2 / 2) (x + 5), over t = (x - 5) / (x + 5), to 2^-54.
RLX_FN double rlx_normal_series(double t) {
  double sum = RLX_BITS64(0xBDFA3B76u, 0x5F7E8702u);  // -3.817298417417635e-10
  sum = RLX_BITS64(0xBE13F491u, 0x44C26123u) + t * sum;  // -1.1615537585916113e-09
  sum = RLX_BITS64(0x3E23118Cu, 0x1172EE8Cu) + t * sum;  // 2.2198706307107771e-09
  sum = RLX_BITS64(0x3E473066u, 0xEE2CB773u) + t * sum;  // 1.0798252463713859e-08
  sum = RLX_BITS64(0xBE425DD9u, 0x01595F3Bu) + t * sum;  // -8.5526111012509773e-09
  sum = RLX_BITS64(0xBE72D419u, 0x2FCDDBBFu) + t * sum;  // -7.0141663100849862e-08
  sum = RLX_BITS64(0x3E659185u, 0xFDC5863Eu) + t * sum;  // 4.0174370249566007e-08
  sum = RLX_BITS64(0x3E9D476Au, 0x87F3AC69u) + t * sum;  // 4.3629064090553406e-07
  sum = RLX_BITS64(0xBE9673E5u, 0xD52F5742u) + t * sum;  // -3.3457168518762366e-07
  sum = RLX_BITS64(0xBEC73E12u, 0xB8463E2Eu) + t * sum;  // -2.770718710638578e-06
  sum = RLX_BITS64(0x3ED0B148u, 0x3DC1156Eu) + t * sum;  // 3.9798041733864869e-06
  sum = RLX_BITS64(0x3EF17DF1u, 0x7D6035E3u) + t * sum;  // 1.6681638804574405e-05
  sum = RLX_BITS64(0xBF0A1700u, 0xF85BB0CDu) + t * sum;  // -4.9762456041908822e-05
  sum = RLX_BITS64(0xBF0F2149u, 0x32E80299u) + t * sum;  // -5.9375807143884417e-05
  sum = RLX_BITS64(0x3F41DAF1u, 0xAD3F2F0Bu) + t * sum;  // 0.00054489899275142592
  sum = RLX_BITS64(0xBF4A2503u, 0x7781FACDu) + t * sum;  // -0.0007978693893305411
  sum = RLX_BITS64(0xBF688590u, 0xE97FB0D6u) + t * sum;  // -0.0029933767618698188
  sum = RLX_BITS64(0x3F954B4Du, 0x4F48ACEFu) + t * sum;  // 0.020795066799263514
  sum = RLX_BITS64(0xBFB1B1C2u, 0x54CA42B8u) + t * sum;  // -0.069118638706877955
  sum = RLX_BITS64(0x3FC51F63u, 0x29F01B9Eu) + t * sum;  // 0.165020366170407
  sum = RLX_BITS64(0xBFD410EDu, 0x5F875946u) + t * sum;  // -0.31353315667128745
  sum = RLX_BITS64(0x3FDFB316u, 0x53876F89u) + t * sum;  // 0.49530561596997608
  sum = RLX_BITS64(0xBFE54AD0u, 0x3F27CA18u) + t * sum;  // -0.66538250289005685
  sum = RLX_BITS64(0x3FE89D3Au, 0xBE1F95AEu) + t * sum;  // 0.76919304975006297
  return sum;
}

// ---- exponentials ----
RLX_FN double rlx_pow2_f64(int e) { return RLX_BITS64(rlx_u32(e + 1023) << 20, 0u); }  // 2^e for -1022 <= e <= 1023
// x * 2^e for |e| <= 2044, in two steps so that neither factor overflows.
RLX_FN double rlx_scale(double x, int e) {
  const int half_e = e >> 1;
  return (x * rlx_pow2_f64(half_e)) * rlx_pow2_f64(e - half_e);
}
// x - n ln 2; n * the high part (40 bits) is exact.
RLX_FN double rlx_exp_rest(double x, double n) {
  RLX_PRECISE double r = (x - n * RLX_BITS64(0x3FE62E42u, 0xFEFA4000u)) - n * RLX_BITS64(0xBD48432Au, 0x1B0E2634u);
  return r;
}
// e^(x + rest), |rest| <= 2^-10.
RLX_FN double rlx_exp_sum(double x, double rest) {
  if (rlx_is_nan(x)) return x;
  if (x > double(710.0f)) return RLX_INF64;
  if (x < double(-746.0f)) return double(0.0f);
  const double n = rlx_native_round(x * RLX_BITS64(0x3FF71547u, 0x652B82FEu));
  const double r = rlx_exp_rest(x, n) + rest;
  return rlx_scale(double(1.0f) + (r + r * r * rlx_exp_tail(r)), int(n));
}
RLX_BIG_FN double rlx_exp(double x) { return rlx_exp_sum(x, double(0.0f)); }
// As accurate as rlx_exp: what f32 saves here, f64 has no instruction for.
RLX_FN double rlx_exp_below(double x) { return rlx_exp(x); }
RLX_BIG_FN double rlx_exp2(double x) {
  if (rlx_is_nan(x)) return x;
  if (x >= double(1024.0f)) return RLX_INF64;
  if (x < double(-1076.0f)) return double(0.0f);
  const double n = rlx_native_round(x);
  const double r = (x - n) * RLX_BITS64(0x3FE62E42u, 0xFEFA39EFu);
  return rlx_scale(double(1.0f) + (r + r * r * rlx_exp_tail(r)), int(n));
}
RLX_BIG_FN double rlx_expm1(double x) {
  if (rlx_is_nan(x)) return x;
  if (x > double(710.0f)) return RLX_INF64;
  if (x < double(-40.0f)) return double(-1.0f);
  const double n = rlx_native_round(x * RLX_BITS64(0x3FF71547u, 0x652B82FEu));
  const double r = rlx_exp_rest(x, n);
  const double e = r + r * r * rlx_exp_tail(r);
  if (!rlx_truth(n)) return e;
  if (n > double(1020.0f)) return rlx_scale(double(1.0f) + e, int(n));
  const double s = rlx_pow2_f64(int(n));
  return s * e + (s - double(1.0f));
}

// ---- logarithms ----
// x = 2^exponent * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); x positive and finite, subnormals by integer arithmetic.
struct RlxLogParts64 {
  int exponent;
  double f;
};
RLX_FN RlxLogParts64 rlx_log_parts(double x) {
  double normal = x;
  int offset = 0;
  if (rlx_high_word(x) < 0x00100000u) {
    normal = rlx_f64_from(rlx_i64((rlx_u64(rlx_high_word(x)) << 32) | rlx_u64(rlx_low_word(x))));
    offset = -1074;
  }
  const rlx_u32 high = rlx_high_word(normal);
  const int e = int(high - 0x3FE6A09Eu) >> 20;
  RlxLogParts64 parts;
  parts.exponent = e + offset;
  parts.f = RLX_BITS64(high - (rlx_u32(e) << 20), rlx_low_word(normal)) - double(1.0f);
  return parts;
}
// ln(1 + f) = 2 atanh(s) = f - s (f - s^2 series), s = f / (2 + f).
RLX_FN double rlx_log_near_one(double f) {
  const double s = f / (double(2.0f) + f);
  const double z = s * s;
  return f - s * (f - z * rlx_log_series(z));
}
// What a logarithm gives where x is not positive and finite.
RLX_FN double rlx_log_edge(double x) {
  if (rlx_is_nan(x)) return x;
  if (!rlx_truth(x)) return -RLX_INF64;
  return rlx_is_negative(x) ? RLX_NAN64 : RLX_INF64;
}
RLX_FN bool rlx_log_regular(double x) { return x > double(0.0f) && x < RLX_INF64; }
RLX_BIG_FN double rlx_log(double x) {
  if (!rlx_log_regular(x)) return rlx_log_edge(x);
  const RlxLogParts64 parts = rlx_log_parts(x);
  const double k = double(parts.exponent);
  return k * RLX_BITS64(0x3FE62E42u, 0xFEFA4000u) + (rlx_log_near_one(parts.f) + k * RLX_BITS64(0xBD48432Au, 0x1B0E2634u));
}
RLX_BIG_FN double rlx_log2(double x) {
  if (!rlx_log_regular(x)) return rlx_log_edge(x);
  const RlxLogParts64 parts = rlx_log_parts(x);
  return double(parts.exponent) + rlx_log_near_one(parts.f) * RLX_BITS64(0x3FF71547u, 0x652B82FEu);
}
RLX_BIG_FN double rlx_log10(double x) {
  if (!rlx_log_regular(x)) return rlx_log_edge(x);
  const RlxLogParts64 parts = rlx_log_parts(x);
  const double k = double(parts.exponent);
  const double near = rlx_log_near_one(parts.f) * RLX_BITS64(0x3FDBCB7Bu, 0x1526E50Eu);
  return k * RLX_BITS64(0x3FD34413u, 0x509F8000u) + (near + k * RLX_BITS64(0xBD380433u, 0xB83B532Au));
}
RLX_BIG_FN double rlx_log1p(double x) {
  if (rlx_is_nan(x)) return x;
  if (x <= double(-1.0f)) return x == double(-1.0f) ? -RLX_INF64 : RLX_NAN64;
  if (x > double(1.0e18f)) return rlx_log(x);
  if (x > double(-0.29f) && x < double(0.41f)) return rlx_log_near_one(x);
  // ln(1 + x) = ln(u) + (what the rounding of u lost) / u
  RLX_PRECISE double u = double(1.0f) + x;
  RLX_PRECISE double lost = x > double(1.0f) ? double(1.0f) - (u - x) : x - (u - double(1.0f));
  return rlx_log(u) + lost / u;
}

// ---- power ----
struct RlxPair64 {
  double high;
  double low;
};
// ln(x) as high + low with about 56 bits, x positive and finite.
RLX_FN RlxPair64 rlx_log_pair(double x) {
  const RlxLogParts64 parts = rlx_log_parts(x);
  const double f = parts.f;
  RLX_PRECISE double u = double(2.0f) + f;
  RLX_PRECISE double u_rest = f - (u - double(2.0f));
  const double s = f / u;
  const double s_rest = (rlx_fma(-s, u, f) - s * u_rest) / u;
  const double z = s * s;
  RLX_PRECISE double t = f - z * rlx_log_series(z);
  RLX_PRECISE double product = s * t;
  const double product_rest = rlx_fma(s, t, -product) + s_rest * t;
  RLX_PRECISE double near = f - product;
  RLX_PRECISE double near_rest = (f - near) - product;
  const double k = double(parts.exponent);
  RLX_PRECISE double whole = k * RLX_BITS64(0x3FE62E42u, 0xFEFA4000u);
  RLX_PRECISE double sum = whole + near;
  RLX_PRECISE double part = sum - whole;
  RLX_PRECISE double sum_rest = (whole - (sum - part)) + (near - part);
  RLX_PRECISE double low = (sum_rest + near_rest) + (k * RLX_BITS64(0xBD48432Au, 0x1B0E2634u) - product_rest);
  RLX_PRECISE double high = sum + low;
  RLX_PRECISE double high_rest = (sum - high) + low;
  RlxPair64 pair;
  pair.high = high;
  pair.low = high_rest;
  return pair;
}
// x^y for x >= 0 (not NaN), y not NaN.
RLX_FN double rlx_pow_magnitude(double x, double y) {
  if (!rlx_truth(y) || x == double(1.0f)) return double(1.0f);
  if (!rlx_truth(x)) return rlx_is_negative(y) ? RLX_INF64 : double(0.0f);
  if (rlx_is_inf(x)) return rlx_is_negative(y) ? double(0.0f) : RLX_INF64;
  if (rlx_is_inf(y)) return (x > double(1.0f)) != rlx_is_negative(y) ? RLX_INF64 : double(0.0f);
  const RlxPair64 l = rlx_log_pair(x);
  RLX_PRECISE double product = y * l.high;
  if (!(rlx_abs(product) < double(800.0f))) return product > double(0.0f) ? RLX_INF64 : double(0.0f);
  // Exponents beyond 2^900 times a logarithm below 1 would overflow in the splitting of fma: x^y is 1 or far from it there.
  const double rest = rlx_abs(y) < double(1.0e30f) ? rlx_fma(y, l.high, -product) : double(0.0f);
  return rlx_exp_sum(product, rest + y * l.low);
}
RLX_BIG_FN double rlx_pow(double x, double y) {
  if (!rlx_truth(y) || x == double(1.0f)) return double(1.0f);
  if (rlx_is_nan(x)) return x;
  if (rlx_is_nan(y)) return y;
  const double magnitude = rlx_pow_magnitude(rlx_abs(x), y);
  if (!rlx_is_negative(x)) return magnitude;
  // Doubles from 2^53 on are even whole numbers.
  const double y_size = rlx_abs(y);
  const bool whole = rlx_native_trunc(y_size) == y_size;
  const double y_half = y_size * double(0.5f);
  const bool even = whole && (y_size >= double(9007199254740992.0f) || rlx_native_trunc(y_half) == y_half);
  if (!whole && rlx_truth(x) && !rlx_is_inf(x)) return RLX_NAN64;
  return whole && !even ? -magnitude : magnitude;
}
RLX_BIG_FN double rlx_pow(double x, rlx_i64 n) {
  if (n == rlx_i64(0)) return double(1.0f);
  if (rlx_is_nan(x)) return x;
  const double magnitude = rlx_pow_magnitude(rlx_abs(x), rlx_f64_from(n));
  return rlx_is_negative(x) && (n & rlx_i64(1)) != rlx_i64(0) ? -magnitude : magnitude;
}

// ---- remainders ----
RLX_FN rlx_u64 rlx_bits_of(double x) { return (rlx_u64(rlx_high_word(x)) << 32) | rlx_u64(rlx_low_word(x)); }
// Exact remainder with the sign of a: long division of the significands, 11 bits of quotient at a time.
RLX_BIG_FN double rlx_fmod(double a, double b) {
  if (rlx_is_nan(a) || rlx_is_nan(b) || rlx_is_inf(a) || !rlx_truth(b)) return RLX_NAN64;
  const rlx_u64 fraction = (rlx_u64(1) << 52) - rlx_u64(1);
  const rlx_u64 a_bits = rlx_bits_of(rlx_abs(a));
  const rlx_u64 b_bits = rlx_bits_of(rlx_abs(b));
  if (a_bits < b_bits) return a;
  const int a_exponent = int(a_bits >> 52);
  const int b_exponent = int(b_bits >> 52);
  const rlx_u64 divisor = (b_bits & fraction) | (b_exponent == 0 ? rlx_u64(0) : rlx_u64(1) << 52);
  rlx_u64 rest = ((a_bits & fraction) | (a_exponent == 0 ? rlx_u64(0) : rlx_u64(1) << 52)) % divisor;
  const int unit = b_exponent == 0 ? 1 : b_exponent;
  int left = (a_exponent == 0 ? 1 : a_exponent) - unit;
  while (left > 0 && rest != rlx_u64(0)) {
    const int chunk = left < 11 ? left : 11;
    rest = (rest << rlx_u32(chunk)) % divisor;
    left -= chunk;
  }
  const rlx_u32 sign = rlx_high_word(a) & 0x80000000u;
  if (rest == rlx_u64(0)) return RLX_BITS64(sign, 0u);
  // The rest counts units of 2^(unit - 1075): normalise it by bits, so that subnormal results survive.
  int exponent = unit;
  while ((rest >> 52) == rlx_u64(0) && exponent > 1) {
    rest = rest << 1;
    exponent -= 1;
  }
  if ((rest >> 52) == rlx_u64(0)) exponent = 0;
  const rlx_u64 bits = (rest & fraction) | (rlx_u64(rlx_u32(exponent)) << 52);
  return RLX_BITS64(sign | rlx_u32(bits >> 32), rlx_u32(bits & rlx_u64(0xFFFFFFFFu)));
}
// Remainder with the sign of b.
RLX_BIG_FN double rlx_mod(double a, double b) {
  const double r = rlx_fmod(a, b);
  if (rlx_is_nan(r) || !rlx_truth(r)) return r;
  return rlx_is_negative(r) != rlx_is_negative(b) ? r + b : r;
}
RLX_BIG_FN double rlx_floor_div(double a, double b) { return rlx_floor(a / b); }

// ---- trigonometry ----
// x = quadrant * pi/2 + r, |r| <= pi/4.
struct RlxAngle64 {
  rlx_u32 quadrant;
  double r;
};
// 32 bits of 2/pi, preceded by 31 zero bits and the point: word 0 is empty, word i holds binary places 32i - 31 to 32i.
RLX_FN rlx_u32 rlx_two_over_pi_wide(int i) {
  if (i < 8) return i < 4 ? (i < 2 ? (i < 1 ? 0x00000000u : 0xA2F9836Eu) : (i < 3 ? 0x4E441529u : 0xFC2757D1u))
    : (i < 6 ? (i < 5 ? 0xF534DDC0u : 0xDB629599u) : (i < 7 ? 0x3C439041u : 0xFE5163ABu));
  if (i < 16) return i < 12 ? (i < 10 ? (i < 9 ? 0xDEBBC561u : 0xB7246E3Au) : (i < 11 ? 0x424DD2E0u : 0x06492EEAu))
    : (i < 14 ? (i < 13 ? 0x09D1921Cu : 0xFE1DEB1Cu) : (i < 15 ? 0xB129A73Eu : 0xE88235F5u));
  if (i < 24) return i < 20 ? (i < 18 ? (i < 17 ? 0x2EBB4484u : 0xE99C7026u) : (i < 19 ? 0xB45F7E41u : 0x3991D639u))
    : (i < 22 ? (i < 21 ? 0x835339F4u : 0x9C845F8Bu) : (i < 23 ? 0xBDF9283Bu : 0x1FF897FFu));
  if (i < 32) return i < 28 ? (i < 26 ? (i < 25 ? 0xDE05980Fu : 0xEF2F118Bu) : (i < 27 ? 0x5A0A6D1Fu : 0x6D367ECFu))
    : (i < 30 ? (i < 29 ? 0x27CB09B7u : 0x4F463F66u) : (i < 31 ? 0x9E5FEA2Du : 0x7527BAC7u));
  return i < 35 ? (i < 33 ? 0xEBE5F17Bu : (i < 34 ? 0x3D0739F7u : 0x8A5292EAu))
    : (i < 37 ? (i < 36 ? 0x6BFB5FB1u : 0x1F8D5D08u) : (i < 38 ? 0x56033046u : 0xFC7B6BABu));
}
// Payne and Hanek in integers: the 53-bit significand times the 192 bits of 2/pi that matter modulo 4.
RLX_FN RlxAngle64 rlx_reduce_large(double x) {
  const rlx_u32 high = rlx_high_word(x) & 0x7FFFFFFFu;
  const rlx_u64 m_low = rlx_u64(rlx_low_word(x));
  const rlx_u64 m_high = rlx_u64((high & 0xFFFFFu) | 0x100000u);
  // x = m * 2^e; places up to e - 2 of 2/pi give multiples of 4. `position` is the window's first bit in the table.
  const int position = int(high >> 20) - 1075 - 1 + 31;
  const int word = position >> 5;
  const rlx_u32 shift = rlx_u32(position & 31);
  const rlx_u64 mask = rlx_u64(0xFFFFFFFFu);
  // Product modulo 2^192, least word first.
  rlx_u32 product[6];
  rlx_u64 carry = rlx_u64(0);
  rlx_u64 last = rlx_u64(0);
  for (int i = 0; i < 6; ++i) {
    const int from = word + 5 - i;
    const rlx_u64 two = (rlx_u64(rlx_two_over_pi_wide(from)) << 32) | rlx_u64(rlx_two_over_pi_wide(from + 1));
    const rlx_u64 window = (two >> (32u - shift)) & mask;
    const rlx_u64 low = m_low * window + (carry & mask);
    const rlx_u64 sum = (low & mask) + (m_high * last & mask);
    product[i] = rlx_u32(sum & mask);
    carry = (carry >> 32) + (low >> 32) + (m_high * last >> 32) + (sum >> 32);
    last = window;
  }
  RlxAngle64 angle;
  angle.quadrant = product[5] >> 30;
  const bool negative = (product[5] & 0x20000000u) != 0u;
  if (negative) angle.quadrant += 1u;
  // The fraction behind the quadrant, 160 bits of it, turned positive; sums of its words are exact but for the last rounding.
  double size = double(0.0f);
  rlx_u32 borrow = 1u;
  for (int i = 1; i < 6; ++i) {
    rlx_u32 bits = (product[i] << 2) | (product[i - 1] >> 30);
    if (negative) {
      bits = ~bits + borrow;
      borrow = borrow != 0u && bits == 0u ? 1u : 0u;
    }
    size = size + double(bits) * rlx_pow2_f64(32 * i - 192);
  }
  angle.r = (negative ? -size : size) * RLX_BITS64(0x3FF921FBu, 0x54442D18u);
  if (rlx_is_negative(x)) {
    angle.r = -angle.r;
    angle.quadrant = 0u - angle.quadrant;
  }
  return angle;
}
// x finite. Below 2^22 the multiple of pi/2 has 22 bits, so that its product with each 30-bit part of pi/2 is exact.
RLX_FN RlxAngle64 rlx_reduce_angle(double x) {
  if (rlx_abs(x) >= double(4194304.0f)) return rlx_reduce_large(x);
  const double n = rlx_native_round(x * RLX_BITS64(0x3FE45F30u, 0x6DC9C883u));
  RLX_PRECISE double r = x - n * RLX_BITS64(0x3FF921FBu, 0x54800000u);
  RLX_PRECISE double r2 = r - n * RLX_BITS64(0xBE0DE973u, 0xDC800000u);
  RLX_PRECISE double r3 = r2 - n * RLX_BITS64(0xBC19D9CCu, 0xEB800000u);
  RLX_PRECISE double r4 = r3 - n * RLX_BITS64(0xBA21FC8Fu, 0x8CBB5BF7u);
  RlxAngle64 angle;
  angle.quadrant = rlx_u32(int(n));
  angle.r = r4;
  return angle;
}
RLX_FN double rlx_sin_poly(double r) {
  const double z = r * r;
  return r + r * z * rlx_sin_series(z);
}
RLX_FN double rlx_cos_poly(double r) {
  const double z = r * r;
  return (double(1.0f) - double(0.5f) * z) + z * z * rlx_cos_series(z);
}
RLX_FN bool rlx_is_finite(double x) { return !rlx_is_nan(x) && !rlx_is_inf(x); }
RLX_BIG_FN double rlx_sin(double x) {
  if (!rlx_is_finite(x)) return RLX_NAN64;
  const RlxAngle64 angle = rlx_reduce_angle(x);
  const double size = (angle.quadrant & 1u) != 0u ? rlx_cos_poly(angle.r) : rlx_sin_poly(angle.r);
  return (angle.quadrant & 2u) != 0u ? -size : size;
}
RLX_BIG_FN double rlx_cos(double x) {
  if (!rlx_is_finite(x)) return RLX_NAN64;
  const RlxAngle64 angle = rlx_reduce_angle(x);
  const double size = (angle.quadrant & 1u) != 0u ? rlx_sin_poly(angle.r) : rlx_cos_poly(angle.r);
  return ((angle.quadrant + 1u) & 2u) != 0u ? -size : size;
}
RLX_BIG_FN double rlx_tan(double x) {
  if (!rlx_is_finite(x)) return RLX_NAN64;
  const RlxAngle64 angle = rlx_reduce_angle(x);
  const double s = rlx_sin_poly(angle.r);
  const double c = rlx_cos_poly(angle.r);
  return (angle.quadrant & 1u) != 0u ? -(c / s) : s / c;
}
#define RLX_HALF_PI64 RLX_BITS64(0x3FF921FBu, 0x54442D18u)
#define RLX_HALF_PI64_REST RLX_BITS64(0x3C91A626u, 0x33145C07u)
#define RLX_PI64 RLX_BITS64(0x400921FBu, 0x54442D18u)
#define RLX_PI64_REST RLX_BITS64(0x3CA1A626u, 0x33145C07u)
// asin on [-1/2, 1/2].
RLX_FN double rlx_asin_poly(double x) {
  const double z = x * x;
  return x + x * z * rlx_asin_series(z);
}
RLX_BIG_FN double rlx_asin(double x) {
  const double size = rlx_abs(x);
  if (!(size <= double(1.0f))) return RLX_NAN64;
  if (size <= double(0.5f)) return rlx_asin_poly(x);
  const double half_angle = rlx_asin_poly(rlx_sqrt((double(1.0f) - size) * double(0.5f)));
  return rlx_copysign(RLX_HALF_PI64 - (double(2.0f) * half_angle - RLX_HALF_PI64_REST), x);
}
RLX_BIG_FN double rlx_acos(double x) {
  const double size = rlx_abs(x);
  if (!(size <= double(1.0f))) return RLX_NAN64;
  if (size <= double(0.5f)) return RLX_HALF_PI64 - (rlx_asin_poly(x) - RLX_HALF_PI64_REST);
  const double angle = double(2.0f) * rlx_asin_poly(rlx_sqrt((double(1.0f) - size) * double(0.5f)));
  return rlx_is_negative(x) ? RLX_PI64 - (angle - RLX_PI64_REST) : angle;
}
// atan of a positive ratio a / b, either part may be infinite or zero (not both).
RLX_FN double rlx_atan_ratio(double a, double b) {
  double numerator = a;
  double denominator = b;
  double start = double(0.0f);
  double rest = double(0.0f);
  if (a > b * RLX_BITS64(0x4003504Fu, 0x333F9DE6u)) {
    numerator = -b;
    denominator = a;
    start = RLX_HALF_PI64;
    rest = RLX_HALF_PI64_REST;
  } else if (a > b * RLX_BITS64(0x3FDA8279u, 0x99FCEF32u)) {
    numerator = a - b;
    denominator = a + b;
    start = double(0.5f) * RLX_HALF_PI64;
    rest = double(0.5f) * RLX_HALF_PI64_REST;
  }
  const double t = numerator / denominator;
  const double z = t * t;
  return start + (t + (t * z * rlx_atan_series(z) + rest));
}
RLX_BIG_FN double rlx_atan(double x) {
  if (rlx_is_nan(x)) return x;
  return rlx_copysign(rlx_atan_ratio(rlx_abs(x), double(1.0f)), x);
}
RLX_BIG_FN double rlx_atan2(double y, double x) {
  if (rlx_is_nan(x)) return x;
  if (rlx_is_nan(y)) return y;
  double a = rlx_abs(y);
  double b = rlx_abs(x);
  if (rlx_is_inf(a) && rlx_is_inf(b)) {
    a = double(1.0f);
    b = double(1.0f);
  }
  // Far from the ends of the exponent range, so that sums and products of the two neither overflow nor vanish.
  const double larger = a > b ? a : b;
  const bool huge_values = larger > rlx_pow2_f64(1000);
  const double s = huge_values ? rlx_pow2_f64(-60) : (larger < rlx_pow2_f64(-900) ? rlx_pow2_f64(120) : double(1.0f));
  const bool both_zero = !rlx_truth(a) && !rlx_truth(b);
  const double angle = both_zero ? double(0.0f) : rlx_atan_ratio(a * s, b * s);
  return rlx_copysign(rlx_is_negative(x) ? RLX_PI64 - (angle - RLX_PI64_REST) : angle, y);
}

// ---- hyperbolic functions ----
RLX_BIG_FN double rlx_sinh(double x) {
  const double size = rlx_abs(x);
  if (rlx_is_nan(x)) return x;
  if (size > double(700.0f)) {
    const double half_power = rlx_exp(double(0.5f) * size);
    return rlx_copysign((double(0.5f) * half_power) * half_power, x);
  }
  const double e = rlx_expm1(size);
  return rlx_copysign(double(0.5f) * (e + e / (e + double(1.0f))), x);
}
RLX_BIG_FN double rlx_cosh(double x) {
  const double size = rlx_abs(x);
  if (size > double(700.0f)) {
    const double half_power = rlx_exp(double(0.5f) * size);
    return (double(0.5f) * half_power) * half_power;
  }
  const double e = rlx_exp(size);
  return double(0.5f) * (e + double(1.0f) / e);
}
RLX_BIG_FN double rlx_tanh(double x) {
  const double size = rlx_abs(x);
  if (rlx_is_nan(x)) return x;
  if (size > double(22.0f)) return rlx_copysign(double(1.0f), x);
  const double e = rlx_expm1(double(2.0f) * size);
  return rlx_copysign(e / (e + double(2.0f)), x);
}
RLX_BIG_FN double rlx_asinh(double x) {
  const double size = rlx_abs(x);
  if (rlx_is_nan(x) || rlx_is_inf(x)) return x;
  if (size > double(1.0e9f)) return rlx_copysign(rlx_log(size) + RLX_BITS64(0x3FE62E42u, 0xFEFA39EFu), x);
  const double square = size * size;
  return rlx_copysign(rlx_log1p(size + square / (double(1.0f) + rlx_sqrt(double(1.0f) + square))), x);
}
RLX_BIG_FN double rlx_acosh(double x) {
  if (rlx_is_nan(x)) return x;
  if (x < double(1.0f)) return RLX_NAN64;
  if (x > double(1.0e9f)) return rlx_log(x) + RLX_BITS64(0x3FE62E42u, 0xFEFA39EFu);
  const double t = x - double(1.0f);
  return rlx_log1p(t + rlx_sqrt(double(2.0f) * t + t * t));
}
RLX_BIG_FN double rlx_atanh(double x) {
  const double size = rlx_abs(x);
  if (!(size <= double(1.0f))) return RLX_NAN64;
  if (size == double(1.0f)) return rlx_copysign(RLX_INF64, x);
  return rlx_copysign(double(0.5f) * rlx_log1p(double(2.0f) * size / (double(1.0f) - size)), x);
}

// ---- error function and activations ----
// exp(-x^2 / 2): the square as an exact part and a rest.
RLX_FN double rlx_gauss(double x) {
  const double x1 = rlx_upper(x);
  RLX_PRECISE double x2 = x - x1;
  const double square = x1 * x1;
  if (square > double(1490.0f)) return double(0.0f);
  return rlx_exp(double(-0.5f) * square) * rlx_exp(double(-0.5f) * x2 * (x + x1));
}
// Normal distribution's tail: the integral of the density from x to infinity for x >= 0.
RLX_FN double rlx_normal_tail(double x) {
  if (x > double(38.5f)) return double(0.0f);
  const double shifted = x + double(5.0f);
  return rlx_normal_series((x - double(5.0f)) / shifted) / shifted * rlx_gauss(x);
}
RLX_BIG_FN double rlx_erf(double x) {
  if (rlx_is_nan(x)) return x;
  const double size = rlx_abs(x);
  if (size > double(6.0f)) return rlx_copysign(double(1.0f), x);
  if (size <= double(1.0f)) return x * rlx_erf_series(x * x);
  const double tail = rlx_normal_tail(size * RLX_BITS64(0x3FF6A09Eu, 0x667F3BCDu));
  return rlx_copysign(double(1.0f) - double(2.0f) * tail, x);
}
RLX_BIG_FN double rlx_gelu(double x) {
  if (rlx_is_nan(x)) return x;
  const double tail = rlx_normal_tail(rlx_abs(x));
  if (!rlx_is_negative(x)) return x * (double(1.0f) - tail);
  return rlx_truth(tail) ? x * tail : double(0.0f);
}
RLX_BIG_FN double rlx_sigmoid(double x) {
  if (rlx_is_nan(x)) return x;
  const double e = rlx_exp(-rlx_abs(x));
  return (rlx_is_negative(x) ? e : double(1.0f)) / (double(1.0f) + e);
}
RLX_BIG_FN double rlx_log_sigmoid(double x) {
  if (rlx_is_nan(x)) return x;
  return (x < double(0.0f) ? x : double(0.0f)) - rlx_log1p(rlx_exp(-rlx_abs(x)));
}
// x * gate where a gate of 0 wins over an infinite x.
RLX_FN double rlx_gated(double x, double gate) { return rlx_truth(gate) ? x * gate : double(0.0f); }
// 1/2 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3).
RLX_BIG_FN double rlx_gelu_tanh(double x) {
  if (rlx_is_nan(x)) return x;
  const double cubic = double(1.0f) + RLX_BITS64(0x3FA6E4E2u, 0x6D4801F7u) * (x * x);
  return rlx_gated(x, rlx_sigmoid(RLX_BITS64(0x3FF98845u, 0x33D43651u) * x * cubic));
}
RLX_BIG_FN double rlx_swish(double x, double alpha) { return rlx_is_nan(x) ? x : rlx_gated(x, rlx_sigmoid(alpha * x)); }
RLX_BIG_FN double rlx_silu(double x) { return rlx_is_nan(x) ? x : rlx_gated(x, rlx_sigmoid(x)); }
// tanh(ln(1 + e^x)) = (e^2x + 2e^x) / (e^2x + 2e^x + 2)
RLX_BIG_FN double rlx_mish(double x) {
  if (rlx_is_nan(x) || x > double(40.0f)) return x;
  const double e = rlx_exp(x);
  const double n = e * (e + double(2.0f));
  return rlx_gated(x, n / (n + double(2.0f)));
}
RLX_BIG_FN double rlx_softplus(double x, double beta) {
  if (rlx_is_nan(x)) return x;
  const double z = beta * x;
  return ((z > double(0.0f) ? z : double(0.0f)) + rlx_log1p(rlx_exp(-rlx_abs(z)))) / beta;
}
RLX_BIG_FN double rlx_elu(double x, double alpha) { return x > double(0.0f) ? x : alpha * rlx_expm1(x); }
RLX_BIG_FN double rlx_celu(double x, double alpha) {
  if (rlx_is_nan(x)) return x;
  const double tail = alpha * rlx_expm1(x / alpha);
  return (x > double(0.0f) ? x : double(0.0f)) + (tail < double(0.0f) ? tail : double(0.0f));
}
RLX_BIG_FN double rlx_selu(double x, double alpha, double gamma) {
  return gamma * (x > double(0.0f) ? x : alpha * rlx_expm1(x));
}

#endif
