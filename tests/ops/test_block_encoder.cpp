// SPDX-License-Identifier: Apache-2.0
// The encoders of block types: the bits that GGML's ggml_quantize_chunk makes (2026-10, without an
// importance matrix) of the same seeded numbers, as a digest of all blocks.
#include <algorithm>
#include <cmath>
#include <vector>

#include "compiler/support/block_encoder.h"
#include "compiler/support/blocks.h"
#include "tests/support/catch.h"

namespace rlx::test {
namespace {

constexpr size_t kRow = 256;
constexpr size_t kRowsOfKind = 40;

class SplitMix {
 public:
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // In [-1, 1), by steps of 2^-23.
  double uniform() { return static_cast<double>(next() >> 40) * 0x1p-23 - 1; }
  // In [0, count).
  int below(uint64_t count) { return static_cast<int>(next() % count); }

 private:
  uint64_t state_ = 0;
};

// Rows of one kind: their numbers from a random one, the row's own and its place.
double number_of(size_t kind, double drawn, double of_row, int exponent, bool is_rare) {
  switch (kind) {
    case 0:
      return drawn;
    case 1:  // spread
      return drawn * drawn * drawn;
    case 2:  // all of one sign
      return drawn + (of_row < 0 ? -2 : 2);
    case 3:  // most zeros
      return is_rare ? drawn : 0.0;
    case 4:
      return of_row;
    case 5:  // of different sizes in one row, down to subnormals
      return std::ldexp(drawn, exponent);
    case 6:  // few distinct ones, many ties
      return std::round(drawn * 8) / 2;
    case 7:  // subnormals
      return drawn * 0x1p-130;
    case 8:  // beyond what f16 scales hold
      return drawn * 0x1p100;
    default:
      return -0.0;
  }
}

std::vector<float> seeded_numbers() {
  SplitMix random;
  std::vector<float> numbers;
  for (size_t kind = 0; kind < 10; ++kind) {
    for (size_t row = 0; row < kRowsOfKind; ++row) {
      const double of_row = random.uniform();
      int exponent = 0;
      for (size_t i = 0; i < kRow; ++i) {
        if (i % 16 == 0) exponent = 8 - random.below(150);
        const double drawn = random.uniform();
        const bool is_rare = random.below(16) == 0;
        numbers.push_back(static_cast<float>(number_of(kind, drawn, of_row, exponent, is_rare)));
      }
    }
  }
  return numbers;
}

// FNV-1a.
uint64_t digest_of(const std::vector<std::byte>& bytes) {
  uint64_t digest = 0xcbf29ce484222325u;
  for (const std::byte byte : bytes)
    digest = (digest ^ static_cast<uint64_t>(byte)) * 0x100000001b3u;
  return digest;
}

struct EncodedDigest {
  DType dtype;
  uint64_t digest;
};

struct Encoded {
  std::vector<std::byte> bytes;
  bool holds;  // all numbers
};
Encoded encoded(DType dtype, const std::vector<float>& numbers) {
  Encoded blocks;
  blocks.bytes.resize(numbers.size() / block_elements(dtype) * block_bytes(dtype));
  blocks.holds = encode_blocks(dtype, numbers, blocks.bytes);
  return blocks;
}

}  // namespace

TEST_CASE("blocks_are_rounded_as_ggml_rounds_them_bit_for_bit") {
  const std::vector<EncodedDigest> golden = {
      {DType::q4_0, 0x0cabb1e8d45da25bu},   {DType::q4_1, 0xa97c4ccce978a4dcu},
      {DType::q5_0, 0x8d51a3639fecb04fu},   {DType::q5_1, 0x6e583e2071e31645u},
      {DType::q8_0, 0x027afcdd0061899cu},   {DType::q2_k, 0xd794a8da83619cacu},
      {DType::q3_k, 0x5e2f4791397e3953u},   {DType::q4_k, 0xc554573376935fb8u},
      {DType::q5_k, 0xa2a13d24a7a1239au},   {DType::q6_k, 0xeb1463dd51d4465cu},
      {DType::iq4_nl, 0xac4fcafdd68cc710u}, {DType::iq4_xs, 0x8dc8097d832d321cu}};
  const std::vector<float> numbers = seeded_numbers();
  for (const EncodedDigest& type : golden) {
    INFO(name_of(type.dtype));
    CHECK(digest_of(encoded(type.dtype, numbers).bytes) == type.digest);
  }
}

TEST_CASE("encoded_blocks_stand_for_what_they_were_made_of") {
  struct Bound {
    DType dtype;
    double error;  // over the largest number of a row
  };
  const std::vector<Bound> bounds = {
      {DType::q4_0, 0.13},  {DType::q4_1, 0.07}, {DType::q5_0, 0.065},  {DType::q5_1, 0.035},
      {DType::q8_0, 0.005}, {DType::q2_k, 0.5},  {DType::q3_k, 0.26},   {DType::q4_k, 0.1},
      {DType::q5_k, 0.05},  {DType::q6_k, 0.04}, {DType::iq4_nl, 0.15}, {DType::iq4_xs, 0.15}};
  std::vector<float> numbers = seeded_numbers();
  numbers.resize(2 * kRowsOfKind * kRow);  // of the first two kinds
  for (const Bound& bound : bounds) {
    INFO(name_of(bound.dtype));
    const Encoded blocks = encoded(bound.dtype, numbers);
    double largest = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      const double got = decode_block_element(bound.dtype, blocks.bytes, index).value();
      largest = std::max(largest, std::fabs(got - static_cast<double>(numbers[i])));
    }
    CHECK(largest <= bound.error);
    CHECK(largest >= bound.error / 3);
    CHECK(blocks.holds);
  }
}

TEST_CASE("numbers_too_large_for_a_types_scales_are_told") {
  for (const float size : {2e8F, 1e9F, 1e30F}) {
    const std::vector<float> huge(kRow, size);
    for (const DType dtype : {DType::q4_0, DType::q4_1, DType::q8_0, DType::q2_k, DType::q3_k,
                              DType::q4_k, DType::q5_k}) {
      INFO(name_of(dtype) << " of " << size);
      CHECK_FALSE(encoded(dtype, huge).holds);
    }
    for (const DType dtype : {DType::q6_k, DType::iq4_xs}) {
      INFO(name_of(dtype) << " of " << size);
      CHECK(encoded(dtype, huge).holds == (size < 2.5e8F));
    }
  }
  CHECK_FALSE(can_encode(DType::q8_k));
  CHECK_FALSE(can_encode(DType::f16));
}

}  // namespace rlx::test
