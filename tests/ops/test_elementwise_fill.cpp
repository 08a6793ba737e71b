// SPDX-License-Identifier: Apache-2.0
// Philox, its mappings, and weights made by them.
#include <cmath>
#include <cstring>

#include "compiler/ops/lowering/weight_fill.h"
#include "compiler/support/philox.h"
#include "tests/support/catch.h"

namespace rlx {
namespace {

Weight random_weight(DType dtype, Shape shape, RandomData data) {
  return {.name = "w", .type = {dtype, std::move(shape)}, .data = data};
}

}  // namespace

TEST_CASE("T135 Philox gives the known answers") {
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("seed 42 gives the uniforms and normals of ops.md") {
  const PhiloxWords words = philox_block(42, 0, 0, 0);
  CHECK(words == PhiloxWords{0x9ceaf053, 0x77f5493b, 0x12bf50ad, 0x5742b3d7});
  CHECK(philox_uniform(words[0]) == Approx(0.61295986).epsilon(1e-7));
  CHECK(philox_uniform(words[3]) == Approx(0.34086150).epsilon(1e-7));
  const std::array<double, 4> normals = philox_normals(words);
  CHECK(normals[0] == Approx(-0.9701897).epsilon(1e-6));
  CHECK(normals[1] == Approx(0.1940190).epsilon(1e-6));
  CHECK(normals[2] == Approx(-1.2356201).epsilon(1e-6));
  CHECK(normals[3] == Approx(1.9239270).epsilon(1e-6));
}

TEST_CASE("seed 7, stream 1, step 2 gives the golden row") {
  CHECK(philox_block(7, 1, 2, 0) == PhiloxWords{0xbcffe4ae, 0x6ecfdd94, 0xf9b6b7d6, 0x37adedbb});
  CHECK(philox_block(7, 1, 2, 1)[0] == 0x0eef8516);
}

TEST_CASE("T137 uniforms stay below high, also after rounding to 16 bits") {
  for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const UniformRange range = uniform_range(dtype, 1, 1.5);
    const double highest = uniform_value(dtype, range, 0xFFFFFFFF);
    CHECK(highest < 1.5);
    CHECK(highest == round_to(dtype, highest));
    CHECK(uniform_value(dtype, range, 0) == 1);
  }
  CHECK(uniform_value(DType::f16, uniform_range(DType::f16, 1, 1.5), 0xFFFFFFFF) == 1.5 - 0x1p-10);
}

TEST_CASE("random integers cover the closed range of their dtype") {
  const Weight weight = random_weight(DType::i8, {4096}, {.a = -3, .b = 3, .seed = 5});
  bool seen[7] = {};
  for (int64_t value : evaluate_weight_fill(weight).integers) {
    REQUIRE((value >= -3 && value <= 3));
    seen[value + 3] = true;
  }
  for (bool one : seen) CHECK(one);
  CHECK(integer_span(DType::u8, -5, 1000).count_minus_one == 255);
  CHECK(integer_span(DType::i64, -1e18, 1e18).needs_pair());
}

TEST_CASE("normals have their mean and deviation") {
  const Weight weight = random_weight(
      DType::f32, {40000},
      {.distribution = RandomData::Distribution::Normal, .a = 2, .b = 0.5, .seed = 9});
  double sum = 0;
  double squares = 0;
  for (double value : evaluate_weight_fill(weight).floats) {
    sum += value - 2;
    squares += (value - 2) * (value - 2);
  }
  CHECK(std::fabs(sum / 40000) < 0.01);
  CHECK(std::sqrt(squares / 40000) == Approx(0.5).epsilon(0.02));
}

TEST_CASE("a splat holds its value in the dtype, and is one dispatch") {
  const Weight weight{
      .name = "w", .type = {DType::bf16, {3, 7}}, .data = SplatData{.value = 1.001}};
  CHECK(evaluate_weight_fill(weight).floats.at(20) == 1.0);
  const Weight bytes{.name = "w", .type = {DType::u8, {2}}, .data = SplatData{.value = 300}};
  CHECK(evaluate_weight_fill(bytes).integers.at(1) == 255);
  Program program;
  const BufferId buffer = program.add_buffer({.name = "w",
                                              .type = weight.type,
                                              .size_bytes = 42,
                                              .segment = Segment::Weights,
                                              .weight = WeightId{0},
                                              .state = {},
                                              .input_index = {},
                                              .output_index = {}});
  lower_weight_fill(program,
                    {.buffer = buffer,
                     .offset_bytes = 0,
                     .type = weight.type,
                     .strides = dense_strides(weight.type.shape)},
                    weight);
  REQUIRE(program.steps.size() == 1);
  CHECK(program.kernels.at(0).kernel == KernelId::splat_fill);
  SplatParams params;
  REQUIRE(program.steps[0].params.size() == sizeof(params));
  std::memcpy(&params, program.steps[0].params.data(), sizeof(params));
  CHECK(params.word0 == 0x3F803F80u);
  CHECK(params.bytes_low == 42);
}

}  // namespace rlx
