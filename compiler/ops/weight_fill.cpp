// SPDX-License-Identifier: Apache-2.0
// Weights that are not bytes of a file: splats and seeded random values.
#include "compiler/ops/weight_fill.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/region_codegen.h"
#include "compiler/support/check.h"
#include "compiler/support/philox.h"

namespace rlx {
namespace {

constexpr uint32_t kBlock = 256;

std::string word_text(uint32_t word) { return std::to_string(word) + "u"; }
std::string float_text(float value) { return word_text(std::bit_cast<uint32_t>(value)); }
// GLSL takes no 64-bit literal in a define.
std::string count_text(uint64_t count) {
  return "((rlx_u64(" + word_text(static_cast<uint32_t>(count >> 32)) + ") << 32) | rlx_u64(" +
         word_text(static_cast<uint32_t>(count)) + "))";
}

Step fill_step(const Weight& weight, const char* op) {
  Step step;
  step.node = weight.name;
  step.op = op;
  return step;
}

Extent3 grid_for(uint64_t threads) { return split_grid((threads + kBlock - 1) / kBlock); }

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
  const uint64_t bytes = byte_size(target.type);
  const std::vector<std::byte> one = splat_tensor({target.dtype(), {}}, value).to_bytes();
  uint32_t words[2] = {};
  for (size_t i = 0; i < sizeof(words); i += one.size()) {
    std::memcpy(reinterpret_cast<std::byte*>(words) + i, one.data(), one.size());
  }
  const Extent3 grid = grid_for((bytes + 15) / 16);
  DispatchBuilder<FillParams> dispatch(program, KernelId::splat_fill, fill_step(weight, "splat"));
  dispatch.workgroup({kBlock})
      .define("RLX_WORD0", word_text(words[0]))
      .define("RLX_WORD1", word_text(words[1]))
      .define("RLX_BYTES", count_text(bytes))
      .write(&FillParams::y, target, 16)
      .grid(grid.x, grid.y, grid.z)
      .work(bytes, 0)
      .reason("splat, 16 bytes per thread");
}

// RLX_KIND of rng_fill: what becomes of a block's words.
enum class RandomKind : uint8_t { Uniform = 0, Normal = 1, Integer = 2, WideInteger = 3 };

RandomKind kind_of_random(DType dtype, const RandomData& data) {
  if (data.distribution == RandomData::Distribution::Normal) return RandomKind::Normal;
  if (is_float(dtype)) return RandomKind::Uniform;
  return integer_span(dtype, data.a, data.b).needs_pair() ? RandomKind::WideInteger : RandomKind::Integer;
}

void lower_random(Program& program, const TensorRef& target, const Weight& weight, const RandomData& data) {
  const DType dtype = target.dtype();
  const RandomKind kind = kind_of_random(dtype, data);
  const auto count = static_cast<uint64_t>(element_count(target.shape()));
  const uint64_t per_block = kind == RandomKind::WideInteger ? 2 : 4;
  const Extent3 grid = grid_for((count + per_block - 1) / per_block);
  DispatchBuilder<FillParams> dispatch(program, KernelId::rng_fill, fill_step(weight, "random"));
  dispatch.workgroup({kBlock})
      .define("RLX_Y", std::string(name_of(dtype)))
      .define("RLX_KIND", static_cast<int64_t>(kind))
      .define("RLX_FLOAT", is_float(dtype) ? 1 : 0)
      .define("RLX_SEED0", word_text(static_cast<uint32_t>(data.seed)))
      .define("RLX_SEED1", word_text(static_cast<uint32_t>(data.seed >> 32)))
      .define("RLX_STREAM", word_text(data.stream))
      .define("RLX_STEP", "0u")
      .define("RLX_COUNT", count_text(count))
      .write(&FillParams::y, target)
      .grid(grid.x, grid.y, grid.z)
      .work(byte_size(target.type), count * 40)
      .reason("Philox, one block per thread");
  if (kind == RandomKind::Uniform) {
    const UniformRange range = uniform_range(dtype, data.a, data.b);
    dispatch.define("RLX_LOW", float_text(range.low)).define("RLX_SPAN", float_text(range.span));
    dispatch.define("RLX_HIGH", float_text(range.high)).define("RLX_BELOW", float_text(range.below));
    dispatch.define("RLX_ROUND", dtype == DType::f16 || dtype == DType::bf16 ? "rlx_round_" + std::string(name_of(dtype)) : "rlx_f32");
  } else if (kind == RandomKind::Normal) {
    dispatch.define("RLX_MEAN", float_text(static_cast<float>(data.a))).define("RLX_STD", float_text(static_cast<float>(data.b)));
    if (!is_float(dtype)) {
      const IntegerRange range = integer_range(dtype);
      dispatch.define("RLX_LEAST", integer_literal(DType::i64, range.lowest));
      dispatch.define("RLX_MOST", integer_literal(DType::i64, range.highest));
    }
  } else {
    const IntegerSpan span = integer_span(dtype, data.a, data.b);
    const auto low = static_cast<uint64_t>(span.low);
    dispatch.define("RLX_LOW0", word_text(static_cast<uint32_t>(low))).define("RLX_LOW1", word_text(static_cast<uint32_t>(low >> 32)));
    dispatch.define("RLX_SPAN0", word_text(static_cast<uint32_t>(span.count_minus_one)));
    dispatch.define("RLX_SPAN1", word_text(static_cast<uint32_t>(span.count_minus_one >> 32)));
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
    for (uint64_t i = 0; i < count; ++i) tensor.integers[i] = integer_value(span, data.seed, data.stream, 0, i);
    return tensor;
  }
  const UniformRange range = kind == RandomKind::Uniform ? uniform_range(type.dtype, data.a, data.b) : UniformRange{};
  for (uint64_t i = 0; i < count; i += 4) {
    const PhiloxWords words = philox_block(data.seed, data.stream, 0, i / 4);
    const std::array<double, 4> normals = kind == RandomKind::Normal ? philox_normals(words) : std::array<double, 4>{};
    for (uint64_t k = 0; k < 4 && i + k < count; ++k) {
      if (kind == RandomKind::Uniform) {
        tensor.floats[i + k] = uniform_value(type.dtype, range, words[k]);
      } else if (tensor.is_float()) {
        tensor.floats[i + k] = normal_value(type.dtype, data, normals[k]);
      } else {
        const IntegerRange held = integer_range(type.dtype);
        const double value = normal_value(type.dtype, data, normals[k]);
        tensor.integers[i + k] = static_cast<int64_t>(
            std::min(std::max(value, static_cast<double>(held.lowest)), static_cast<double>(held.highest)));
      }
    }
  }
  return tensor;
}

}  // namespace

void lower_weight_fill(Program& program, const TensorRef& target, const Weight& weight) {
  RLX_CHECK(target.dense() && target.offset_bytes == 0, "fill of a view of " + weight.name);
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
  if (const auto* splat = std::get_if<SplatData>(&weight.data)) return splat_tensor(weight.type, splat->value);
  const auto* random = std::get_if<RandomData>(&weight.data);
  RLX_CHECK(random != nullptr, "values of " + weight.name + ", whose bytes are in a file");
  return random_tensor(weight.type, *random);
}

}  // namespace rlx
