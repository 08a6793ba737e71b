// SPDX-License-Identifier: Apache-2.0
// Weights that are not bytes of a file: splats and seeded random values.
#include "compiler/ops/lowering/weight_fill.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/support/check.h"
#include "compiler/support/philox.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr uint32_t kBlock = 256;

uint32_t low_word(uint64_t value) {
  return static_cast<uint32_t>(value);
}
uint32_t high_word(uint64_t value) {
  return static_cast<uint32_t>(value >> 32);
}
uint32_t float_word(double value) {
  return std::bit_cast<uint32_t>(static_cast<float>(value));
}

Step fill_step(const Weight& weight, const char* op) {
  Step step;
  step.node = weight.name;
  step.op = op;
  return step;
}

Grid grid_for(const Dim& threads) {
  return split_grid(ceil_div(threads, kBlock));
}

Tensor splat_tensor(const TensorType& type, double value) {
  Tensor tensor = Tensor::zeros(type);
  if (tensor.is_float()) {
    std::fill(tensor.floats.begin(), tensor.floats.end(), round_to(type.dtype, value));
    return tensor;
  }
  const IntegerRange range = integer_range(type.dtype);
  int64_t whole = 0;
  if (type.dtype == DType::bool_) {
    whole = value != 0 ? 1 : 0;
  } else if (value >= static_cast<double>(range.highest)) {
    whole = range.highest;
  } else if (value <= static_cast<double>(range.lowest)) {
    whole = range.lowest;
  } else if (!std::isnan(value)) {
    whole = static_cast<int64_t>(value);
  }
  std::fill(tensor.integers.begin(), tensor.integers.end(), whole);
  return tensor;
}

void lower_splat(Program& program, const TensorRef& target, const Weight& weight, double value) {
  const Dim bytes = byte_size(target.type);
  const uint64_t fixed_bytes = bytes.is_free() ? 0 : static_cast<uint64_t>(bytes.bound());
  const std::vector<std::byte> one = splat_tensor({target.dtype(), {}}, value).to_bytes();
  uint32_t words[2] = {};
  for (size_t i = 0; i < sizeof(words); i += one.size()) {
    std::memcpy(reinterpret_cast<std::byte*>(words) + i, one.data(), one.size());
  }
  const Grid grid = grid_for(ceil_div(bytes, kFillAlignmentBytes));
  DispatchBuilder<SplatParams> dispatch(program, KernelId::splat_fill, fill_step(weight, "splat"));
  dispatch.workgroup({kBlock})
      .write(&SplatParams::y, target, kFillAlignmentBytes)
      .set(&SplatParams::bytes_low, low_word(fixed_bytes))
      .set(&SplatParams::bytes_high, high_word(fixed_bytes))
      .set(&SplatParams::word0, words[0])
      .set(&SplatParams::word1, words[1])
      .grid(grid)
      .work(bytes, 0)
      .reason("splat, 16 bytes per thread");
  if (bytes.is_free()) dispatch.size("RLX_BYTES", bytes);
}

// RLX_KIND of rng_fill: what becomes of a block's words.
enum class RandomKind : uint8_t { Uniform = 0, Normal = 1, Integer = 2, WideInteger = 3 };

RandomKind kind_of_random(DType dtype, const RandomData& data) {
  if (data.distribution == RandomData::Distribution::Normal) return RandomKind::Normal;
  if (is_float(dtype)) return RandomKind::Uniform;
  return integer_span(dtype, data.a, data.b).needs_pair() ? RandomKind::WideInteger
                                                          : RandomKind::Integer;
}

// value0..3 of RandomParams.
std::array<uint32_t, 4> random_words(DType dtype, RandomKind kind, const RandomData& data) {
  if (kind == RandomKind::Uniform) {
    const UniformRange range = uniform_range(dtype, data.a, data.b);
    return {float_word(range.low), float_word(range.span), float_word(range.high),
            float_word(range.below)};
  }
  if (kind == RandomKind::Normal) return {float_word(data.a), float_word(data.b), 0, 0};
  const IntegerSpan span = integer_span(dtype, data.a, data.b);
  const auto low = static_cast<uint64_t>(span.low);
  return {low_word(low), high_word(low), low_word(span.count_minus_one),
          high_word(span.count_minus_one)};
}

void lower_random(Program& program, const TensorRef& target, const Weight& weight,
                  const RandomData& data) {
  const DType dtype = target.dtype();
  const RandomKind kind = kind_of_random(dtype, data);
  const auto count = static_cast<uint64_t>(element_count(target.shape()));
  const uint64_t per_block = kind == RandomKind::WideInteger ? 2 : 4;
  const Grid grid = grid_for(ceil_div(count, per_block));
  const std::array<uint32_t, 4> values = random_words(dtype, kind, data);
  DispatchBuilder<RandomParams> dispatch(program, KernelId::rng_fill, fill_step(weight, "random"));
  dispatch.workgroup({kBlock})
      .define("RLX_Y", std::string(name_of(dtype)))
      .define("RLX_KIND", static_cast<int64_t>(kind))
      .define("RLX_FLOAT", is_float(dtype) ? 1 : 0)
      .write(&RandomParams::y, target)
      .set(&RandomParams::count_low, low_word(count))
      .set(&RandomParams::count_high, high_word(count))
      .set(&RandomParams::seed_low, low_word(data.seed))
      .set(&RandomParams::seed_high, high_word(data.seed))
      .set(&RandomParams::stream, data.stream)
      .set(&RandomParams::value0, values[0])
      .set(&RandomParams::value1, values[1])
      .set(&RandomParams::value2, values[2])
      .set(&RandomParams::value3, values[3])
      .grid(grid)
      .work(byte_size(target.type), count * 40)
      .reason("Philox, one block per thread");
  if (kind == RandomKind::Uniform) {
    const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
    dispatch.define("RLX_ROUND", narrow ? "rlx_round_" + std::string(name_of(dtype)) : "rlx_f32");
  } else if (kind == RandomKind::Normal && !is_float(dtype)) {
    const IntegerRange range = integer_range(dtype);
    dispatch.define("RLX_LEAST", integer_literal(DType::i64, range.lowest));
    dispatch.define("RLX_MOST", integer_literal(DType::i64, range.highest));
  }
}

double normal_value(DType dtype, const RandomData& data, double normal) {
  const double value = static_cast<float>(data.a) + static_cast<float>(data.b) * normal;
  return is_float(dtype) ? round_to(dtype, value) : std::nearbyint(value);
}

Tensor random_tensor(const TensorType& type, const RandomData& data) {
  Tensor tensor = Tensor::zeros(type);
  const RandomKind kind = kind_of_random(type.dtype, data);
  const auto count = static_cast<uint64_t>(tensor.count());
  if (kind == RandomKind::Integer || kind == RandomKind::WideInteger) {
    const IntegerSpan span = integer_span(type.dtype, data.a, data.b);
    for (uint64_t i = 0; i < count; ++i)
      tensor.integers[i] = integer_value(span, data.seed, data.stream, 0, i);
    return tensor;
  }
  const UniformRange range =
      kind == RandomKind::Uniform ? uniform_range(type.dtype, data.a, data.b) : UniformRange{};
  for (uint64_t i = 0; i < count; i += 4) {
    const PhiloxWords words = philox_block(data.seed, data.stream, 0, i / 4);
    const std::array<double, 4> normals =
        kind == RandomKind::Normal ? philox_normals(words) : std::array<double, 4>{};
    for (uint64_t k = 0; k < 4 && i + k < count; ++k) {
      if (kind == RandomKind::Uniform) {
        tensor.floats[i + k] = uniform_value(type.dtype, range, words[k]);
      } else if (tensor.is_float()) {
        tensor.floats[i + k] = normal_value(type.dtype, data, normals[k]);
      } else {
        const IntegerRange held = integer_range(type.dtype);
        const double value = normal_value(type.dtype, data, normals[k]);
        tensor.integers[i + k] = static_cast<int64_t>(std::min(
            std::max(value, static_cast<double>(held.lowest)), static_cast<double>(held.highest)));
      }
    }
  }
  return tensor;
}

}  // namespace

void lower_weight_fill(Program& program, const TensorRef& target, const Weight& weight) {
  RLX_CHECK(target.dense(), "fill of a view of " + weight.name);
  if (element_count(target.shape()) == 0) return;
  if (const auto* splat = std::get_if<SplatData>(&weight.data)) {
    lower_splat(program, target, weight, splat->value);
    return;
  }
  const auto* random = std::get_if<RandomData>(&weight.data);
  RLX_CHECK(random != nullptr, "fill of " + weight.name + ", whose bytes are in a file");
  lower_random(program, target, weight, *random);
}

Tensor evaluate_weight_fill(const Weight& weight) {
  if (const auto* splat = std::get_if<SplatData>(&weight.data))
    return splat_tensor(weight.type, splat->value);
  const auto* random = std::get_if<RandomData>(&weight.data);
  RLX_CHECK(random != nullptr, "values of " + weight.name + ", whose bytes are in a file");
  return random_tensor(weight.type, *random);
}

}  // namespace rlx
