// SPDX-License-Identifier: Apache-2.0
// lib/storage.inc on every Vulkan device present: conversions against the compiler's own, pattern
// by pattern.
#include <bit>
#include <cmath>
#include <cstring>
#include <iostream>
#include <random>

#include "runtime/include/rlx.h"
#include "tests/emit/copy_program.h"
#include "tests/support/catch.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::vector<std::string> devices() {
  std::vector<std::string> ids;
  rlx_device_list* list = nullptr;
  REQUIRE(rlx_device_list_create(&list) == RLX_OK);
  for (uint32_t i = 0; i < rlx_device_list_count(list); ++i) {
    rlx_device_info info = RLX_INIT(rlx_device_info);
    REQUIRE(rlx_device_list_get(list, i, &info) == RLX_OK);
    if (std::string(info.id).starts_with("vulkan")) ids.emplace_back(info.id);
  }
  if (ids.empty()) std::cout << "SKIPPED: no Vulkan device: " << rlx_device_list_note(list) << "\n";
  rlx_device_list_close(list);
  return ids;
}

// Runs the conversion of `input` (elements of `from`) on a device.
std::vector<std::byte> convert(const std::string& device_id, DType from, DType to,
                               std::span<const std::byte> input) {
  const auto count = static_cast<int64_t>(input.size() / element_bytes(from));
  SmallPlan small;
  small.programs.push_back(
      conversion_program({.dtype = from, .shape = {count}}, {.dtype = to, .shape = {count}}));
  small.finish(kernel_text(convert_body()));
  const std::vector<std::byte> bytes = plan_bytes(small.content);
  rlx_plan* plan = nullptr;
  rlx_device* device = nullptr;
  rlx_session* session = nullptr;
  const auto check = [](rlx_status status) {
    INFO(rlx_last_error());
    REQUIRE(status == RLX_OK);
  };
  check(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &plan));
  check(rlx_device_open(device_id.c_str(), &device));
  check(rlx_session_create(plan, device, nullptr, &session));
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = input.data();
  tensor.size_bytes = input.size();
  tensor.dtype = static_cast<uint32_t>(from);
  tensor.rank = 1;
  tensor.dims[0] = static_cast<uint64_t>(count);
  check(rlx_session_set_input(session, 0, "x", &tensor));
  check(rlx_session_run(session, 0));
  std::vector<std::byte> output(static_cast<size_t>(count) * element_bytes(to));
  check(rlx_session_read_output(session, 0, "y", output.data(), output.size()));
  rlx_session_close(session);
  rlx_plan_close(plan);
  rlx_device_close(device);
  return output;
}

template <typename To>
std::vector<To> values_of(const std::vector<std::byte>& bytes) {
  std::vector<To> values(bytes.size() / sizeof(To));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<uint16_t> all_patterns() {
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  return patterns;
}

// Every 16-bit value, the point half-way to the next one, its neighbours, and random bits.
std::vector<float> halves_and_midpoints(double (*decode)(uint16_t)) {
  std::vector<float> values;
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto value = static_cast<float>(decode(static_cast<uint16_t>(i)));
    const auto next = static_cast<float>(decode(static_cast<uint16_t>(i + 1)));
    const float middle = std::isfinite(next) ? value / 2 + next / 2 : value;
    for (const float each :
         {value, middle, std::nextafter(middle, 1e30f), std::nextafter(middle, -1e30f)}) {
      values.push_back(each);
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  return values;
}

bool is_subnormal32(float value) {
  return value != 0 && std::abs(value) < 0x1p-126f;
}

}  // namespace

TEST_CASE("all 65,536 patterns of f16 and bf16 load as their values, subnormals included") {
  for (const std::string& device : devices()) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      INFO(device << " " << name_of(dtype));
      const std::vector<uint16_t> patterns = all_patterns();
      const auto got =
          values_of<float>(convert(device, dtype, DType::f32, std::as_bytes(std::span(patterns))));
      size_t wrong = 0;
      for (size_t i = 0; i < patterns.size(); ++i) {
        const double wanted =
            dtype == DType::f16 ? double_from_f16(patterns[i]) : double_from_bf16(patterns[i]);
        const bool same = std::isnan(wanted)
                              ? std::isnan(got[i])
                              : std::bit_cast<uint32_t>(static_cast<float>(wanted)) ==
                                    std::bit_cast<uint32_t>(got[i]);
        if (!same && wrong++ < 5) UNSCOPED_INFO(i << " gave " << got[i] << ", wanted " << wanted);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("f32 stores as f16 and bf16 to nearest even, with NaN, infinities and f16 subnormals") {
  for (const std::string& device : devices()) {
    for (const DType dtype : {DType::f16, DType::bf16}) {
      INFO(device << " " << name_of(dtype));
      const bool half = dtype == DType::f16;
      const std::vector<float> values =
          halves_and_midpoints(half ? double_from_f16 : double_from_bf16);
      const auto got =
          values_of<uint16_t>(convert(device, DType::f32, dtype, std::as_bytes(std::span(values))));
      size_t wrong = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t wanted = half ? f16_from_double(values[i]) : bf16_from_double(values[i]);
        const double stored = half ? double_from_f16(got[i]) : double_from_bf16(got[i]);
        bool same = std::isnan(values[i]) ? std::isnan(stored) : got[i] == wanted;
        // f32 subnormals may be flushed to zero of their sign.
        if (is_subnormal32(values[i]) && got[i] == (std::signbit(values[i]) ? 0x8000u : 0u))
          same = true;
        if (!same && wrong++ < 5)
          UNSCOPED_INFO(values[i] << " gave " << got[i] << ", wanted " << wanted);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("f16 round trips keep every pattern that is not NaN") {
  for (const std::string& device : devices()) {
    const std::vector<uint16_t> patterns = all_patterns();
    for (const DType dtype : {DType::f16, DType::bf16}) {
      const auto got =
          values_of<uint16_t>(convert(device, dtype, dtype, std::as_bytes(std::span(patterns))));
      size_t wrong = 0;
      for (size_t i = 0; i < patterns.size(); ++i) {
        const double value =
            dtype == DType::f16 ? double_from_f16(patterns[i]) : double_from_bf16(patterns[i]);
        const double stored =
            dtype == DType::f16 ? double_from_f16(got[i]) : double_from_bf16(got[i]);
        if (std::isnan(value) ? !std::isnan(stored) : got[i] != patterns[i]) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("narrow integers load with their sign and wrap when stored") {
  std::vector<int32_t> values = {0,   1,     -1,    127,    128,   -128,  -129,   255,
                                 256, 32767, 32768, -32769, 65535, 65536, 1 << 30};
  for (const std::string& device : devices()) {
    const std::span<const std::byte> input = std::as_bytes(std::span(values));
    const auto i8 = convert(device, DType::i32, DType::i8, input);
    const auto u8 = convert(device, DType::i32, DType::u8, input);
    const auto i16 = convert(device, DType::i32, DType::i16, input);
    const auto i8_back = values_of<int32_t>(convert(device, DType::i8, DType::i32, i8));
    const auto u8_back = values_of<int32_t>(convert(device, DType::u8, DType::i32, u8));
    const auto i16_back = values_of<int32_t>(convert(device, DType::i16, DType::i32, i16));
    for (size_t i = 0; i < values.size(); ++i) {
      INFO(device << " " << values[i]);
      CHECK(i8_back[i] == static_cast<int8_t>(values[i]));
      CHECK(u8_back[i] == static_cast<uint8_t>(values[i]));
      CHECK(i16_back[i] == static_cast<int16_t>(values[i]));
    }
  }
}
