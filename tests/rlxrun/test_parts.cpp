// SPDX-License-Identifier: Apache-2.0
// The parts of rlxrun that need no device: numbers, seeds, comparison, percentiles.
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/catch.h"
#include "tools/rlxrun/compare.h"
#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/inputs.h"
#include "tools/rlxrun/numbers.h"
#include "tools/rlxrun/options.h"
#include "tools/rlxrun/stats.h"

using namespace rlx;
using namespace rlx::tool;

namespace {

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

Tensor tensor(uint32_t dtype, std::vector<uint64_t> dims) {
  uint64_t count = 1;
  for (const uint64_t dim : dims) count *= dim;
  return {.name = "y",
          .dtype = dtype,
          .dims = std::move(dims),
          .size_bytes = rlx_dtype_bytes(dtype, count)};
}

npy::Array array_f32(const std::vector<float>& values) {
  return {.element = npy::Element::F32, .dims = {values.size()}, .data = bytes_of(values)};
}

}  // namespace

TEST_CASE("every f16 pattern survives decoding and encoding") {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const std::vector<std::byte> data =
        bytes_of(std::vector<uint16_t>{static_cast<uint16_t>(bits)});
    const double value = number_at(data, RLX_F16, 0).real;
    if (std::isnan(value)) continue;
    REQUIRE(to_f16(static_cast<float>(value)) == bits);
  }
}

TEST_CASE("f16 and bf16 round to nearest, ties to even") {
  CHECK(to_f16(1.0f + 0x1p-11f) == 0x3c00);
  CHECK(to_f16(1.0f + 3 * 0x1p-11f) == 0x3c02);
  CHECK(to_f16(65519.0f) == 0x7bff);
  CHECK(to_f16(65520.0f) == 0x7c00);
  CHECK(to_f16(0x1p-25f) == 0);
  CHECK(to_f16(0x1.8p-25f) == 1);
  CHECK(to_bf16(1.0f + 0x1p-8f) == 0x3f80);
  CHECK(to_bf16(1.0f + 3 * 0x1p-8f) == 0x3f82);
  CHECK(to_bf16(std::numeric_limits<float>::infinity()) == 0x7f80);
}

TEST_CASE("seeded inputs depend on name and seed only, are finite and not zero") {
  for (const uint32_t dtype : {RLX_F32, RLX_F16, RLX_BF16, RLX_F64, RLX_F8E4M3, RLX_F8E5M2, RLX_I8,
                               RLX_U8, RLX_I16, RLX_I32, RLX_U32, RLX_I64, RLX_BOOL, RLX_C64}) {
    INFO(rlx_dtype_name(dtype));
    Tensor wanted = tensor(dtype, {1000});
    const npy::Array first = seeded_array(wanted, 0, 5);
    CHECK(first.data == seeded_array(wanted, 0, 5).data);
    CHECK(first.data != seeded_array(wanted, 1, 5).data);
    wanted.name = "z";
    CHECK(first.data != seeded_array(wanted, 0, 5).data);
    bool any = false;
    for (uint64_t i = 0; i < 1000; ++i) {
      const Number number = number_at(first.data, dtype, i);
      REQUIRE(std::isfinite(number.real));
      any = any || number.real != 0;
      const NumberClass kind = class_of(dtype);
      if (kind == NumberClass::Integer) REQUIRE((number.integer >= 0 && number.integer < 5));
    }
    CHECK(any);
  }
}

TEST_CASE("comparison finds the worst element and where it is") {
  npy::Array wanted = array_f32({1, 2, 3, 4, 5, 6});
  wanted.dims = {2, 3};
  const Comparison same = compare(tensor(RLX_F32, {2, 3}), wanted.data, wanted, {});
  CHECK(same.wrong_count == 0);
  CHECK(same.max_error == 0);
  const Comparison off = compare(tensor(RLX_F32, {2, 3}),
                                 bytes_of(std::vector<float>{1, 2, 3, 4, 5.5, 6.001f}), wanted, {});
  CHECK(off.wrong_count == 2);
  CHECK(off.max_error == 0.5);
  CHECK(off.worst_index == std::vector<uint64_t>{1, 1});
  CHECK(off.worst_got == 5.5);
  CHECK(off.worst_wanted == 5);
  CHECK(compare(tensor(RLX_F32, {2, 3}), bytes_of(std::vector<float>{1, 2, 3, 4, 5.5, 6.001f}),
                wanted, {.atol = 0.6})
            .wrong_count == 0);
}

TEST_CASE("comparison knows NaN, infinities and exact integers") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor three = tensor(RLX_F32, {3});
  CHECK(
      compare(three, bytes_of(std::vector<float>{nan, inf, -inf}), array_f32({nan, inf, -inf}), {})
          .wrong_count == 0);
  CHECK(compare(three, bytes_of(std::vector<float>{0, inf, nan}), array_f32({nan, -inf, 1}), {})
            .wrong_count == 3);
  // Doubles cannot tell these two apart.
  const int64_t large = (int64_t{1} << 62) + 1;
  const npy::Array wanted{
      .element = npy::Element::I64, .dims = {1}, .data = bytes_of(std::vector<int64_t>{large - 1})};
  CHECK(compare(tensor(RLX_I64, {1}), bytes_of(std::vector<int64_t>{large}), wanted, {})
            .wrong_count == 1);
  CHECK(compare(tensor(RLX_I64, {1}), bytes_of(std::vector<int64_t>{large}), wanted, {.atol = 1})
            .wrong_count == 0);
}

TEST_CASE("comparison takes floats of another width and refuses another kind") {
  const npy::Array wide{
      .element = npy::Element::F64, .dims = {1}, .data = bytes_of(std::vector<double>{0.5})};
  CHECK(compare(tensor(RLX_F16, {1}), bytes_of(std::vector<uint16_t>{0x3800}), wide, {})
            .wrong_count == 0);
  CHECK_THROWS_AS(compare(tensor(RLX_I32, {1}), bytes_of(std::vector<int32_t>{1}), wide, {}),
                  Failure);
  CHECK_THROWS_WITH(compare(tensor(RLX_F32, {2}), bytes_of(std::vector<float>{1, 2}), wide, {}),
                    "expected \"y\": got f64[1], wanted f32[2]");
}

TEST_CASE("percentiles are values that were measured") {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  const Summary summary = summarize(samples);
  CHECK(summary.min == 1);
  CHECK(summary.median == 50);
  CHECK(summary.p90 == 90);
  CHECK(summary.p99 == 99);
  CHECK(summarize({3}).p99 == 3);
  CHECK(summarize({}).median == 0);
}

TEST_CASE("indices are checked unless that is turned off, and refused like other inputs") {
  const auto checks = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "rlxrun");
    const ParsedCommandLine parsed =
        parse_command_line(static_cast<int>(arguments.size()), arguments.data());
    REQUIRE_FALSE(parsed.exit.has_value());
    return parsed.options.check_indices;
  };
  CHECK_FALSE(checks({"a.plan"}).has_value());
  CHECK(checks({"a.plan", "--check-indices"}) == true);
  CHECK(checks({"a.plan", "--no-check-indices"}) == false);
  CHECK(exit_code_for(RLX_INDEX_OUT_OF_RANGE) == ExitCode::InputRefused);
}
