// SPDX-License-Identifier: Apache-2.0
// Cases of scaled_matmul (T52, T53): formats, scales and the sizes at which another form is taken.
#include "schema/rounding.h"
#include "tests/support/case.h"

namespace rlx::test {
namespace {

enum class Scales : uint8_t { One, PerRow, PerBlock };

struct Product {
  int64_t m;
  int64_t n;
  int64_t k;
  std::string a_format = "f8e4m3";
  std::string b_format = "f8e4m3";
  Scales a = Scales::One;
  Scales b = Scales::One;
  int64_t block = 0;
  bool bias = false;
};

CaseTensor codes(const std::string& format, int64_t rows, int64_t k) {
  if (format == "e2m1") return tensor(DType::u8, {rows, k / 2}).range(0, 255);
  return tensor(format == "f8e4m3" ? DType::f8e4m3 : DType::f8e5m2, {rows, k});
}

CaseTensor scales(Scales kind, int64_t rows, const Product& p) {
  if (kind == Scales::One) return tensor(DType::f32, {}).of({0.37});
  if (kind == Scales::PerRow) return tensor(DType::f32, {rows}).uniform(0.1, 2);
  const Shape shape = {rows, ceil_div(p.k, p.block)};
  if (p.block == 16) return tensor(DType::f8e4m3, shape);
  if (p.block == 32) return tensor(DType::u8, shape).range(120, 130);
  return tensor(DType::f32, shape).uniform(0.1, 2);
}

Case product(const std::string& law, const Product& p) {
  std::string attributes =
      R"({"a_format": ")" + p.a_format + R"(", "b_format": ")" + p.b_format + '"';
  if (p.block != 0) attributes += R"(, "block": )" + std::to_string(p.block);
  std::vector<std::optional<CaseTensor>> inputs = {
      codes(p.a_format, p.m, p.k), codes(p.b_format, p.n, p.k).param(), scales(p.a, p.m, p),
      scales(p.b, p.n, p).param()};
  if (p.bias) inputs.emplace_back(tensor(DType::f16, {p.n}));
  return {.name = law + " " + std::to_string(p.m) + "x" + std::to_string(p.n) + "x" +
                  std::to_string(p.k),
          .op = "scaled_matmul",
          .inputs = std::move(inputs),
          .attributes = attributes + "}",
          .tolerance = Tolerance::Sum};
}

void add_golden_scaled(std::vector<Case>& cases) {
  // a decodes to [0.5, -6, 2, 1] and [0, 1.5, 3, -4], b to [1, 2, -0.5, 448].
  Case bytes = product("T53 golden of bytes", {.m = 2, .n = 1, .k = 4, .a_format = "e2m1"});
  bytes.inputs = {tensor(DType::u8, {2, 2}).of({0xF1, 0x24, 0x30, 0xE5}),
                  tensor(DType::u8, {1, 4}).of({0x38, 0x40, 0xB0, 0x7E}),
                  tensor(DType::f32, {2}).of({2, 0.5}), tensor(DType::f32, {1}).of({0.25}),
                  tensor(DType::f32, {1}).of({-1})};
  bytes.golden = {{(0.5 - 12 - 1 + 448) * 0.5 - 1, (3 - 1.5 - 4 * 448) * 0.125 - 1}};
  cases.push_back(std::move(bytes));
}

}  // namespace

std::vector<Case> scaled_matmul_cases() {
  std::vector<Case> cases;
  const auto add = [&cases](const std::string& law, const Product& p) {
    cases.push_back(product(law, p));
  };
  add_golden_scaled(cases);
  for (const int64_t m : {3, 65}) {
    add("T53 one scale", {.m = m, .n = 48, .k = 64});
    add("T53 scales per row, bias", {.m = m,
                                     .n = 37,
                                     .k = 72,
                                     .b_format = "f8e5m2",
                                     .a = Scales::PerRow,
                                     .b = Scales::PerRow,
                                     .bias = true});
    add("T52 4 bits under E4M3", {.m = m,
                                  .n = 40,
                                  .k = 64,
                                  .a_format = "e2m1",
                                  .b_format = "e2m1",
                                  .a = Scales::PerBlock,
                                  .b = Scales::PerBlock,
                                  .block = 16});
    add("8 bits under E8M0", {.m = m,
                              .n = 40,
                              .k = 96,
                              .a_format = "f8e5m2",
                              .a = Scales::PerBlock,
                              .b = Scales::PerBlock,
                              .block = 32,
                              .bias = true});
    add("8 bits under f32",
        {.m = m, .n = 40, .k = 256, .a = Scales::PerBlock, .b = Scales::PerBlock, .block = 128});
    add("T55 a partial last block",
        {.m = m, .n = 24, .k = 200, .a = Scales::PerRow, .b = Scales::PerBlock, .block = 128});
  }
  add("4 bits under E8M0 beside 8 bits per row", {.m = 5,
                                                  .n = 24,
                                                  .k = 64,
                                                  .b_format = "e2m1",
                                                  .a = Scales::PerRow,
                                                  .b = Scales::PerBlock,
                                                  .block = 32});
  add("4 bits, a partial last block",
      {.m = 20, .n = 24, .k = 40, .a_format = "e2m1", .a = Scales::PerBlock, .block = 16});
  add("4 bits, one scale", {.m = 4, .n = 24, .k = 40, .b_format = "e2m1"});
  add("one row, long", {.m = 1, .n = 129, .k = 2056});
  add("T19 K of 0", {.m = 3, .n = 5, .k = 0, .bias = true});
  add("T19 K of 0", {.m = 11, .n = 5, .k = 0});
  add("T19 no rows", {.m = 0, .n = 5, .k = 16});
  Case special =
      product("every code, NaN and infinity too", {.m = 16, .n = 3, .k = 32, .a_format = "f8e5m2"});
  std::vector<double> all(512);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<double>(i % 256);
  special.inputs[0] = tensor(DType::f8e5m2, {16, 32}).of(all);
  cases.push_back(std::move(special));
  return cases;
}

}  // namespace rlx::test
