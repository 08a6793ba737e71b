// SPDX-License-Identifier: Apache-2.0
// The mappings of ops.md 0.8 and 12.2 of Philox (schema/philox.h) on the host, equal to
// shaders/rng_fill.kernel: bit for bit for words, uniforms and integers, to 2e-6 for normals.
#pragma once

#include <array>
#include <cstdint>

#include "compiler/support/dtype.h"
#include "schema/philox.h"

namespace rlx {

// The words of one block of a tensor's stream: key from `seed`, counter (low32(block),
// high32(block), step, stream).
PhiloxWords philox_block(uint64_t seed, uint32_t stream, uint32_t step, uint64_t block);

// Box-Muller of a block in f64: element i of a stream uses normals[i % 4].
std::array<double, 4> philox_normals(const PhiloxWords& words);

// What a uniform fill computes per element, fixed on the host for kernel and evaluator alike.
struct UniformRange {
  float low = 0;
  float span = 1;  // high - low, rounded once
  float high = 1;
  float below =
      1;  // the largest value of the dtype below `high`; a result that reaches `high` becomes this
};
UniformRange uniform_range(DType dtype, double low, double high);
// low + span * u in f32 with two roundings, then rounded to the dtype, kept below `high`.
double uniform_value(DType dtype, const UniformRange& range, uint32_t word);

// Integers of [low, high], both included and clamped to the dtype's range. `count_minus_one` = high
// - low. Up to 2^32 values come from one word (low + floor(word * count / 2^32)); more from the
// word pair of block element / 2 in the same way.
struct IntegerSpan {
  int64_t low = 0;
  uint64_t count_minus_one = 0;
  [[nodiscard]] bool needs_pair() const { return count_minus_one > 0xFFFFFFFFu; }
};
IntegerSpan integer_span(DType dtype, double low, double high);
// Element `index` of a stream of integers.
int64_t integer_value(const IntegerSpan& span, uint64_t seed, uint32_t stream, uint32_t step,
                      uint64_t index);

}  // namespace rlx
