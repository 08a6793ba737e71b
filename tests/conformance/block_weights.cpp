// SPDX-License-Identifier: Apache-2.0
// Cases of dequantize_weights: every block type of ops.md 0.10 on random blocks (T47, T48, T49),
// and its golden blocks of section 17 in tests/ops/test_blocks.cpp.
#include <algorithm>
#include <array>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

constexpr std::array kBlockTypes = {DType::q4_0,   DType::q4_1,  DType::q5_0, DType::q5_1,
                                    DType::q8_0,   DType::q2_k,  DType::q3_k, DType::q4_k,
                                    DType::q5_k,   DType::q6_k,  DType::q8_k, DType::iq4_nl,
                                    DType::iq4_xs, DType::mxfp4, DType::nvfp4};

Case decoded(std::string name, const CaseTensor& w, std::string attributes = "{}") {
  return {.name = std::move(name),
          .op = "dequantize_weights",
          .inputs = {w},
          .attributes = std::move(attributes),
          .tolerance = Tolerance::Arith};
}

}  // namespace

std::vector<Case> block_weights_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kBlockTypes) {
    cases.push_back(decoded("T47 random blocks", tensor(dtype, {3, 512}).param()));
  }
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::q8_0}) {
    cases.push_back(decoded("T45 an expert stack, transposed", tensor(dtype, {2, 3, 256}).param(),
                            R"({"transpose": true, "out_dtype": "f16"})"));
  }
  cases.push_back(
      decoded("to bf16", tensor(DType::q5_k, {2, 256}).param(), R"({"out_dtype": "bf16"})"));
  cases.push_back(
      decoded("to f16", tensor(DType::nvfp4, {2, 128}).param(), R"({"out_dtype": "f16"})"));
  // Large enough that groups bring halves into order in shared memory.
  cases.push_back(decoded("to f16, many blocks of nibbles",
                          tensor(DType::q4_k, {519, 1024}).param(), R"({"out_dtype": "f16"})"));
  cases.push_back(decoded("to bf16, many blocks of bit fields",
                          tensor(DType::q6_k, {1030, 512}).param(), R"({"out_dtype": "bf16"})"));
  cases.push_back(decoded("to f16, many blocks of 32", tensor(DType::q4_1, {5461, 96}).param(),
                          R"({"out_dtype": "f16"})"));
  cases.push_back(decoded("blocks that are no weight", tensor(DType::q3_k, {2, 256})));
  cases.push_back(decoded("T19 no rows", tensor(DType::q4_0, {0, 64}).param()));
  cases.push_back(decoded("a row alone", tensor(DType::q4_1, {64}).param()));
  // One block: d = 2^-24 and codes 0, 15, 7, 8, ...
  std::vector<double> least(18, 0x87);
  least[0] = 1;
  least[1] = 0;
  least[2] = 0xF0;
  Case smallest = decoded("T15 the smallest scale", tensor(DType::q4_0, {32}).of(least));
  std::vector<double> wanted(32, -0x1p-24);
  std::fill(wanted.begin() + 16, wanted.end(), 0.0);
  wanted[0] = -8 * 0x1p-24;
  wanted[16] = 7 * 0x1p-24;
  smallest.golden = {wanted};
  smallest.golden_tolerance = 0;
  cases.push_back(smallest);
  // Exponent 1 is 2^-126, exponent 254 is 2^127.
  std::vector<double> powers(34, 0x21);
  powers[0] = 1;
  powers[17] = 254;
  cases.push_back(decoded("mxfp4 exponents 1 and 254", tensor(DType::mxfp4, {64}).of(powers)));
  return cases;
}

}  // namespace rlx::test
