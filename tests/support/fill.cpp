// SPDX-License-Identifier: Apache-2.0
// Deterministic test data from splitmix64.
#include "tests/support/fill.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "compiler/support/blocks.h"
#include "compiler/support/check.h"
#include "compiler/support/complex_bits.h"

namespace rlx::test {
namespace {

class Random {
 public:
  explicit Random(const std::string& seed) {
    for (char c : seed) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  uint64_t bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - unit()));
    return radius * std::cos(2 * std::numbers::pi * unit());
  }

 private:
  uint64_t state_ = 0xcbf29ce484222325u;
};

std::vector<double> special_floats(DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> values = {
      0.0, -0.0, 1,   -1,   kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(),
      0.5, -0.5, 1.5, -2.5, 10,        -10};
  const bool half = dtype == DType::f16;
  const double largest = half ? 65504 : dtype == DType::bf16 ? 0x1.fep127 : 0x1.fffffep127;
  const double smallest_normal = half ? 0x1p-14 : 0x1p-126;
  for (double value : {largest, smallest_normal, 100.0, 1000.0, 20000.0, 88.0, 1e-3}) {
    values.push_back(value);
    values.push_back(-value);
  }
  // f16 subnormals must survive (ops.md 0.4-8); f32's may be flushed.
  if (half) values.insert(values.end(), {0x1p-24, -0x1p-24, 0x1.8p-20});
  return values;
}

std::vector<int64_t> special_integers(DType dtype) {
  const IntegerRange range = integer_range(dtype);
  std::vector<int64_t> values = {0, 1, range.lowest, range.highest, range.highest - 1, 2, 3, 7};
  if (range.lowest < 0) values.insert(values.end(), {-1, -2, -3, range.lowest + 1});
  return values;
}

double float_element(const CaseTensor& spec, size_t i, Random& random) {
  if (spec.fill == FillKind::Uniform) return spec.low + (spec.high - spec.low) * random.unit();
  if (spec.fill == FillKind::Integers) {
    return std::floor(spec.low + (spec.high - spec.low + 1) * random.unit());
  }
  if (spec.fill == FillKind::Edges) {
    const std::vector<double> special = special_floats(spec.type.dtype);
    // Two operands of one shape meet in every pairing sooner or later: each draws its own order.
    if (random.bits() % 4 != 0) return special[random.bits() % special.size()];
    return 4 * random.normal();
  }
  if (spec.fill == FillKind::Values) return spec.values.at(i);
  return random.normal();
}

// Bits of element i of a c64; Values are pairs of a real and an imaginary part.
int64_t complex_element(const CaseTensor& spec, size_t i, Random& random) {
  CaseTensor parts = spec;
  parts.type.dtype = DType::f32;
  const double re = float_element(parts, 2 * i, random);
  const double im = float_element(parts, 2 * i + 1, random);
  return complex_to_bits({re, im});
}

int64_t integer_element(const CaseTensor& spec, size_t i, Random& random) {
  if (spec.type.dtype == DType::c64) return complex_element(spec, i, random);
  if (spec.fill == FillKind::Values) {
    return spec.integers.empty() ? static_cast<int64_t>(spec.values.at(i)) : spec.integers.at(i);
  }
  if (is_float8(spec.type.dtype)) {
    if (spec.fill == FillKind::Edges) return static_cast<int64_t>(random.bits() & 0xFF);
    return float8_from_double(spec.type.dtype, random.normal(), true);
  }
  const IntegerRange range = integer_range(spec.type.dtype);
  if (spec.fill == FillKind::Edges) {
    const std::vector<int64_t> special = special_integers(spec.type.dtype);
    return std::clamp(special[random.bits() % special.size()], range.lowest, range.highest);
  }
  const double drawn = std::floor(spec.low + (spec.high - spec.low + 1) * random.unit());
  return std::clamp(static_cast<int64_t>(drawn), range.lowest, range.highest);
}

// Where a block type keeps its scales (ops.md 0.10): random bytes there would often be NaN or huge.
enum class ScaleKind : uint8_t { Half, Single, PowerOfTwo, SmallFloat };
struct BlockScale {
  DType dtype;
  ScaleKind kind;
  std::vector<size_t> positions;
};
const BlockScale& scales_of(DType dtype) {
  static const std::vector<BlockScale> rows = {
      {DType::q4_0, ScaleKind::Half, {0}},
      {DType::q4_1, ScaleKind::Half, {0, 2}},
      {DType::q5_0, ScaleKind::Half, {0}},
      {DType::q5_1, ScaleKind::Half, {0, 2}},
      {DType::q8_0, ScaleKind::Half, {0}},
      {DType::q2_k, ScaleKind::Half, {80, 82}},
      {DType::q3_k, ScaleKind::Half, {108}},
      {DType::q4_k, ScaleKind::Half, {0, 2}},
      {DType::q5_k, ScaleKind::Half, {0, 2}},
      {DType::q6_k, ScaleKind::Half, {208}},
      {DType::q8_k, ScaleKind::Single, {0}},
      {DType::iq4_nl, ScaleKind::Half, {0}},
      {DType::iq4_xs, ScaleKind::Half, {0}},
      {DType::mxfp4, ScaleKind::PowerOfTwo, {0}},
      {DType::nvfp4, ScaleKind::SmallFloat, {0, 1, 2, 3}},
  };
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [dtype](const BlockScale& row) { return row.dtype == dtype; });
  RLX_CHECK(found != rows.end(), "scales of " + std::string(name_of(dtype)));
  return *found;
}

void write_scale(std::byte* at, ScaleKind kind, Random& random) {
  const double value = 0.05 * random.normal();
  switch (kind) {
    case ScaleKind::Half: {
      const uint16_t bits = f16_from_double(value);
      std::memcpy(at, &bits, sizeof(bits));
      return;
    }
    case ScaleKind::Single: {
      const auto single = static_cast<float>(value);
      std::memcpy(at, &single, sizeof(single));
      return;
    }
    case ScaleKind::PowerOfTwo:
      *at = static_cast<std::byte>(117 + random.bits() % 14);
      return;
    case ScaleKind::SmallFloat:
      *at = static_cast<std::byte>(random.bits() % 0x60);
      return;
  }
}

// Random codes under moderate scales; the bytes themselves where values are given.
void fill_blocks(const CaseTensor& spec, Tensor& tensor, Random& random) {
  for (size_t i = 0; i < tensor.blocks.size(); ++i) {
    tensor.blocks[i] = spec.fill == FillKind::Values
                           ? static_cast<std::byte>(static_cast<int>(spec.values.at(i)))
                           : static_cast<std::byte>(random.bits());
  }
  if (tensor.blocks.empty() || spec.fill == FillKind::Values) return;
  const BlockScale& scales = scales_of(spec.type.dtype);
  const size_t size = block_bytes(spec.type.dtype);
  for (size_t first = 0; first < tensor.blocks.size(); first += size) {
    for (const size_t at : scales.positions)
      write_scale(&tensor.blocks[first + at], scales.kind, random);
  }
}

}  // namespace

Tensor fill(const CaseTensor& spec, const std::string& seed) {
  Random random(seed);
  Tensor tensor = Tensor::zeros(spec.type);
  for (size_t i = 0; i < tensor.floats.size(); ++i) {
    tensor.floats[i] = float_element(spec, i, random);
  }
  for (size_t i = 0; i < tensor.integers.size(); ++i) {
    tensor.integers[i] = integer_element(spec, i, random);
  }
  fill_blocks(spec, tensor, random);
  tensor.round_to_dtype();
  return tensor;
}

}  // namespace rlx::test
