// SPDX-License-Identifier: Apache-2.0
// Functions of probability that libm lacks, as definitions: what the reference evaluator computes.
// In long double by recurrences, series and Newton's method (Abramowitz and Stegun 6, 7, 9, 26),
// rounded once; they share nothing with the kernels' polynomials.
#pragma once

namespace rlx {

double log_gamma(double x);  // ln|Gamma(x)|: inf at 0 and at negative whole numbers
double digamma(double x);    // -inf at 0, inf at -0, NaN at negative whole numbers and -inf
double trigamma(double x);   // inf at 0 and at negative whole numbers, NaN at -inf
// The terms that digamma is the sum of where x < 0, by their sizes: psi(1 - x) and pi / tan(pi x).
// Elsewhere its own size.
double digamma_terms(double x);

double inverse_erf(double x);
double inverse_normal(double p);  // x whose normal distribution up to x is p
double scaled_erfc(double x);     // e^(x^2) erfc(x)

// Modified Bessel functions of the first kind, times e^-|x|.
double scaled_bessel_i0(double x);
double scaled_bessel_i1(double x);

}  // namespace rlx
