// SPDX-License-Identifier: Apache-2.0
// The host decoders of block types and 8-bit floats against ops.md 0.10 and the golden blocks of
// its section 17.
#include <array>
#include <cmath>
#include <vector>

#include "compiler/support/blocks.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

struct Golden {
  DType dtype;
  std::vector<size_t> halves;  // positions of d, then of m or dmin
  std::vector<int64_t> elements;
  std::vector<double> values;
};

const std::vector<int64_t> kOf32 = {0, 1, 15, 16, 17, 31};
const std::vector<int64_t> kOf64 = {0, 7, 8, 15, 16, 31, 40, 63};
const std::vector<int64_t> kOf256 = {0, 1, 16, 31, 33, 63, 64, 100, 127, 128, 161, 200, 255};

std::vector<std::byte> golden_block(const Golden& golden) {
  std::vector<std::byte> bytes(block_bytes(golden.dtype));
  for (size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<std::byte>(37 * k + 11);
  const std::array<int, 2> high = {0x34, 0x30};
  for (size_t i = 0; i < golden.halves.size(); ++i) {
    bytes[golden.halves[i]] = std::byte{0};
    bytes[golden.halves[i] + 1] = static_cast<std::byte>(high.at(i));
  }
  if (golden.dtype == DType::mxfp4) bytes[0] = std::byte{125};
  if (golden.dtype == DType::nvfp4) {
    const std::array<int, 4> scales = {0x38, 0x40, 0x2c, 0x05};
    for (size_t i = 0; i < scales.size(); ++i) bytes[i] = static_cast<std::byte>(scales.at(i));
  }
  return bytes;
}

const std::vector<Golden> kGolden = {
    {DType::q4_0, {0}, kOf32, {-.75, .5, -2, -.75, -.25, 0}},
    {DType::q4_1, {0, 2}, kOf32, {3.875, 1.125, 2.625, 2.375, 3.125, 3.125}},
    {DType::q5_0, {0}, kOf32, {2.25, -.5, -3, 3.5, 0, .25}},
    {DType::q5_1, {0, 2}, kOf32, {4.875, 6.125, 7.625, 4.875, 1.375, 1.375}},
    {DType::q8_0, {0}, kOf32, {21.25, 30.5, -32, -22.75, -13.5, -12}},
    {DType::iq4_nl, {0}, kOf32, {-8.75, 6.25, -31.75, -8.75, -2.5, .25}},
    // Of numpy in the package gguf 0.19.
    {DType::iq4_xs,
     {0},
     kOf256,
     {16.25, -.25, 16.25, 8.75, -1.75, -43.75, 195, 10, 49, -146.25, 3.5, 285, -4}},
    {DType::mxfp4, {}, kOf32, {0, .75, -.375, .375, .75, .75}},
    {DType::nvfp4, {}, kOf64, {-6, 1, -.5, -1, 12, -4, -1.5, .0048828125}},
    {DType::q2_k,
     {80, 82},
     kOf256,
     {8.25, 0, -.375, -.375, -.625, 1.625, 2.625, 5, 10.5, 1.875, -.875, 2, 1.125}},
    {DType::q3_k, {108}, kOf256, {20.25, -27, -24, 16, 11, 2.5, 8.5, 0, 18, .5, 0, 6.25, 10.5}},
    {DType::q4_k,
     {0, 2},
     kOf256,
     {78.875, -6.375, 78.875, 40.125, 5, 10, 105.125, 23.75, 20.25, 105.75, 176.25, 34.625,
      12.125}},
    {DType::q5_k,
     {0, 2},
     kOf256,
     {202.875, -6.375, 202.875, 40.125, -1, 20, 105.125, 58.75, -.75, 261.75, 86.25, 34.625,
      27.125}},
    {DType::q6_k,
     {208},
     kOf256,
     {-357.75, 424, -108, -24, -168, -145, -760, 630.75, 375, -87.75, -488, 272.25, -15}},
};

}  // namespace

TEST_CASE("block_types_decode_the_golden_blocks") {
  for (const Golden& golden : kGolden) {
    const std::vector<std::byte> bytes = golden_block(golden);
    for (size_t i = 0; i < golden.elements.size(); ++i) {
      INFO(name_of(golden.dtype) << " element " << golden.elements[i]);
      CHECK(decode_block_element(golden.dtype, bytes, golden.elements[i]).value() ==
            golden.values[i]);
    }
  }
}

TEST_CASE("T49_q8_k_is_292_bytes_of_scale_codes_and_ignored_sums") {
  std::vector<std::byte> bytes(292, std::byte{0xFF});
  bytes[0] = bytes[1] = std::byte{0};
  bytes[2] = std::byte{0x80};
  bytes[3] = std::byte{0x3E};  // 0.25
  bytes[4 + 255] = std::byte{0x80};
  CHECK(block_bytes(DType::q8_k) == bytes.size());
  CHECK(decode_block_element(DType::q8_k, bytes, 0).value() == -0.25);
  CHECK(decode_block_element(DType::q8_k, bytes, 255).value() == -32);
}

TEST_CASE("T48_scales_of_q6_k_are_signed") {
  std::vector<std::byte> bytes(210, std::byte{0});
  bytes[192] = std::byte{0xFD};
  bytes[209] = std::byte{0x3C};  // 1
  CHECK(decode_block_element(DType::q6_k, bytes, 0).value() == 96);
}

TEST_CASE("T52_8_bit_floats_have_their_own_ends") {
  CHECK(double_from_e4m3(0x7E) == 448);
  CHECK(double_from_e4m3(0x78) == 256);
  CHECK(double_from_e4m3(0x01) == 0x1p-9);
  CHECK(std::isnan(double_from_e4m3(0x7F)));
  CHECK(std::isnan(double_from_e4m3(0xFF)));
  CHECK(double_from_e5m2(0x7B) == 57344);
  CHECK(std::isinf(double_from_e5m2(0xFC)));
  CHECK(std::isnan(double_from_e5m2(0x7D)));
}

TEST_CASE("8_bit_floats_round_to_the_nearest_even_code") {
  for (int code = 0; code < 0x7E; ++code) {
    const double here = double_from_e4m3(static_cast<uint8_t>(code));
    const double next = double_from_e4m3(static_cast<uint8_t>(code + 1));
    CHECK(e4m3_from_double(here, true) == code);
    CHECK(e4m3_from_double(-here, true) == (code | 0x80));
    CHECK(e4m3_from_double((here + next) / 2, true) == code + (code & 1));
  }
  CHECK(e4m3_from_double(1e9, true) == 0x7E);
  CHECK(e4m3_from_double(464, false) == 0x7E);
  CHECK(e4m3_from_double(465, false) == 0x7F);
  CHECK(e5m2_from_double(61440, false) == 0x7C);
  CHECK(e5m2_from_double(61440, true) == 0x7B);
}

}  // namespace rlx::test
