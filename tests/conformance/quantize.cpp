// SPDX-License-Identifier: Apache-2.0
// Cases of quantize, dequantize, fake_quantize and fake_quantize_lsq (T26, T58, T59).
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case coded(std::string name, std::string op, std::vector<std::optional<CaseTensor>> inputs,
           std::string attributes, std::vector<double> golden = {}) {
  Case test{.name = std::move(name),
            .op = std::move(op),
            .inputs = std::move(inputs),
            .attributes = std::move(attributes)};
  if (test.op != "quantize") test.tolerance = Tolerance::ArithDiv;
  if (!golden.empty()) test.golden = {std::move(golden)};
  return test;
}

CaseTensor row(std::vector<double> values) {
  return tensor(DType::f32, {static_cast<int64_t>(values.size())}).of(std::move(values));
}

CaseTensor steps(DType dtype, Shape shape) {
  return tensor(dtype, std::move(shape)).uniform(0.05, 0.3);
}

void add_quantize(std::vector<Case>& cases) {
  cases.push_back(coded("T26 T58 half to even, both limits, NaN to the zero point", "quantize",
                        {row({2.5, -2.5, 1.5, 200, -200, kNan, kInfinity, -kInfinity})},
                        R"({"scales": [1.0], "zero_points": [3]})",
                        {5, 1, 5, 127, -128, 3, 127, -128}));
  cases.push_back(coded("T58 true division by 0.1", "quantize",
                        {row({0.25, 0.37, -0.25}), row({0.1}), tensor(DType::u8, {}).of({128})},
                        R"({"to": "u8"})", {130, 132, 126}));
  cases.push_back(
      coded("i32 codes beyond 2^24 with a zero point", "quantize",
            {row({16777216, 3e9, -3e9, kNan, 7}), row({1}), tensor(DType::i32, {1}).of({-5})},
            R"({"to": "i32"})", {16777211, 2147483647, -2147483648.0, -5, 2}));
  cases.push_back(coded(
      "T58 per axis -1", "quantize",
      {tensor(DType::f16, {5, 4}), steps(DType::f32, {4}), tensor(DType::i8, {4}).range(-9, 9)},
      R"({"axis": -1})"));
  cases.push_back(coded("axis 1 of rank 4, by attributes", "quantize",
                        {tensor(DType::bf16, {2, 3, 5, 2})},
                        R"({"axis": 1, "scales": [0.1, 0.2, 0.07], "to": "i16"})"));
  cases.push_back(coded("whole blocks along axis 0", "quantize",
                        {tensor(DType::f32, {12, 5}), steps(DType::f16, {3, 5}),
                         tensor(DType::u8, {3, 5}).range(100, 140)},
                        R"({"axis": 0, "block_size": 4, "to": "u8"})"));
  cases.push_back(coded("a partial last block", "quantize",
                        {tensor(DType::f32, {3, 10, 2}), steps(DType::f32, {3, 3, 2})},
                        R"({"axis": 1, "block_size": 4})"));
  for (const std::string to : {"f8e4m3", "f8e5m2"}) {
    cases.push_back(coded("8-bit floats, one scale", "quantize",
                          {tensor(DType::f32, {515}).edges(), row({0.037})},
                          R"({"to": ")" + to + R"("})"));
    cases.push_back(coded("8-bit floats per axis", "quantize",
                          {tensor(DType::bf16, {5, 12}), steps(DType::f32, {5})},
                          R"({"axis": 0, "to": ")" + to + R"("})"));
  }
  cases.push_back(coded("golden of 8-bit floats", "quantize",
                        {row({0.25, -3, 1000, kNan, 0.001}), row({0.5})}, R"({"to": "f8e4m3"})",
                        {0x30, 0xCC, 0x7E, 0x7F, 0x01}));
  cases.push_back(
      coded("f64", "quantize", {tensor(DType::f64, {7}), tensor(DType::f64, {}).of({0.1})}, "{}"));
  cases.push_back(coded(
      "rank 8 in blocks", "quantize",
      {tensor(DType::f32, {1, 2, 1, 2, 1, 4, 1, 2}), steps(DType::f32, {1, 2, 1, 2, 1, 2, 1, 2})},
      R"({"axis": 5, "block_size": 2})"));
  cases.push_back(coded("T19 nothing", "quantize", {tensor(DType::f32, {0, 4}), row({1})}, "{}"));
}

void add_dequantize(std::vector<Case>& cases) {
  cases.push_back(
      coded("T58 u8 with a zero point", "dequantize",
            {tensor(DType::u8, {3}).of({0, 128, 255}), row({0.5}), tensor(DType::u8, {}).of({128})},
            "{}", {-64, 0, 63.5}));
  cases.push_back(coded("i32 minus zero point wraps", "dequantize",
                        {tensor(DType::i32, {2}).of({2147483647, -2147483648.0})},
                        R"({"scales": [1.0], "zero_points": [-1]})",
                        {-2147483648.0, -2147483647.0}));
  cases.push_back(coded("per axis to f16", "dequantize",
                        {tensor(DType::i8, {4, 6}).range(-128, 127), steps(DType::f32, {4}),
                         tensor(DType::i8, {4}).range(-9, 9)},
                        R"({"axis": 0, "to": "f16"})"));
  cases.push_back(coded("i16 in blocks, the last one partial", "dequantize",
                        {tensor(DType::i16, {2, 11}).range(-999, 999), steps(DType::bf16, {2, 3})},
                        R"({"axis": -1, "block_size": 4, "to": "bf16"})"));
  cases.push_back(coded("to f64", "dequantize", {tensor(DType::i32, {5}).range(-99999, 99999)},
                        R"({"scales": [0.25], "to": "f64"})"));
  cases.push_back(coded("every 8-bit float per axis", "dequantize",
                        {tensor(DType::f8e4m3, {5, 64}).edges(), steps(DType::f32, {5})},
                        R"({"axis": 0})"));
  cases.push_back(coded("8-bit floats in blocks to f16", "dequantize",
                        {tensor(DType::f8e5m2, {3, 12}), steps(DType::f16, {3, 3})},
                        R"({"axis": 1, "block_size": 4, "to": "f16"})"));
  cases.push_back(coded("golden of 8-bit floats", "dequantize",
                        {tensor(DType::f8e4m3, {4}).of({0x38, 0xC4, 0x7E, 0x01}), row({0.5})}, "{}",
                        {0.5, -1.5, 224, 0x1p-10}));
}

void add_fake(std::vector<Case>& cases) {
  cases.push_back(coded("per batch, 4 bits", "fake_quantize", {row({-1.4, 0.31, 0.69, 1.11})},
                        R"({"bits": 4})", {-1.4, 0.4, 0.6, 1.2}));
  Case channels = coded("T59 a channel of zeros", "fake_quantize",
                        {tensor(DType::f32, {2, 3}).of({1, -2.1, 4, 0, 0, 0})}, R"({"axis": 0})");
  channels.outputs = 2;
  channels.golden = {{32 * 4 / 127.0, -67 * 4 / 127.0, 4, 0, 0, 0}, {4 / 127.0, 1e-12}};
  cases.push_back(channels);
  const CaseTensor x = tensor(DType::f16, {4, 3, 5});
  Case seeded = coded("T59 state 0 seeds, others move", "fake_quantize", {x, row({0, 0.01, 0.5})},
                      R"({"axis": 1, "scale_mode": "ema", "decay": 0.9, "bits": 6})");
  seeded.outputs = 2;
  cases.push_back(seeded);
  Case fixed =
      coded("fixed scales, negative ones raised", "fake_quantize", {x, row({-1, 0.02, 0.5})},
            R"({"axis": -2, "scale_mode": "fixed", "bits": 2})");
  fixed.outputs = 2;
  cases.push_back(fixed);
  cases.push_back(coded("learned scale", "fake_quantize_lsq", {x, row({0.1})}, R"({"bits": 3})"));
  cases.push_back(coded("learned scales of an axis, bf16", "fake_quantize_lsq",
                        {tensor(DType::bf16, {6, 7}), steps(DType::f32, {7})}, R"({"axis": 1})"));
  cases.push_back(
      coded("f64", "fake_quantize_lsq", {tensor(DType::f64, {9}), row({0.1})}, R"({"bits": 8})"));
}

}  // namespace

std::vector<Case> quantize_cases() {
  std::vector<Case> cases;
  add_quantize(cases);
  add_dequantize(cases);
  add_fake(cases);
  return cases;
}

}  // namespace rlx::test
