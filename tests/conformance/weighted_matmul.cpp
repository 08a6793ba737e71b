// SPDX-License-Identifier: Apache-2.0
// Cases of dequant_matmul, grouped_matmul and dequant_grouped_matmul (T43, T44, T46, T50 to T55).
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

constexpr std::array kBlockTypes = {DType::q4_0,   DType::q4_1,  DType::q5_0, DType::q5_1,
                                    DType::q8_0,   DType::q2_k,  DType::q3_k, DType::q4_k,
                                    DType::q5_k,   DType::q6_k,  DType::q8_k, DType::iq4_nl,
                                    DType::iq4_xs, DType::mxfp4, DType::nvfp4};

std::string scheme_of(DType dtype) {
  return R"({"scheme": ")" + std::string(name_of(dtype)) + R"("})";
}

Case product(std::string name, std::vector<std::optional<CaseTensor>> inputs,
             std::string attributes, std::string op = "dequant_matmul") {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs = std::move(inputs),
          .attributes = std::move(attributes),
          .tolerance = Tolerance::Sum};
}

void add_blocks(std::vector<Case>& cases) {
  for (const DType dtype : kBlockTypes) {
    const CaseTensor w = tensor(dtype, {37, 512}).param();
    cases.push_back(product("T46 T51 M = 1", {tensor(DType::f32, {1, 512}), w}, scheme_of(dtype)));
    cases.push_back(product("T51 M = 19", {tensor(DType::f32, {19, 512}), w}, scheme_of(dtype)));
  }
  const CaseTensor w = tensor(DType::q4_k, {70, 256}).param();
  const std::string q4_k = scheme_of(DType::q4_k);
  const CaseTensor bias = tensor(DType::f32, {70});
  const std::string wide = R"({"scheme": "q4_k", "out_dtype": "f32"})";
  cases.push_back(product("f16 x, f32 y, M = 1", {tensor(DType::f16, {1, 256}), w}, wide));
  cases.push_back(product("f16 x, f32 y, M = 64", {tensor(DType::f16, {64, 256}), w}, wide));
  cases.push_back(product("T51 M = 2, bias",
                          {tensor(DType::f16, {2, 256}), w, std::nullopt, std::nullopt, bias},
                          q4_k));
  cases.push_back(
      product("T51 M = 7 in leading dims, bf16", {tensor(DType::bf16, {7, 1, 256}), w}, q4_k));
  cases.push_back(product("T51 M = 64 in leading dims",
                          {tensor(DType::f16, {2, 32, 256}), w, std::nullopt, std::nullopt, bias},
                          q4_k));
  cases.push_back(product("T51 M = 513", {tensor(DType::f16, {513, 256}), w}, q4_k));
  cases.push_back(product("T50 q8_0 with K = 288",
                          {tensor(DType::f32, {3, 288}), tensor(DType::q8_0, {5, 288}).param()},
                          scheme_of(DType::q8_0)));
  cases.push_back(product("T19 no rows", {tensor(DType::f32, {0, 256}), w}, q4_k));
}

// Rows of 16-bit floats that go to tensor cores where there are some: edges of tiles, depths of an
// odd number of pieces, both ways to make numbers of codes, non-finite x.
void add_rows_of_halves(std::vector<Case>& cases) {
  for (const DType dtype :
       {DType::q4_0, DType::q5_1, DType::q8_0, DType::q2_k, DType::q3_k, DType::q4_k, DType::q5_k,
        DType::q6_k, DType::q8_k, DType::iq4_nl, DType::iq4_xs}) {
    cases.push_back(product("T51 M = 70 of f16",
                            {tensor(DType::f16, {70, 512}), tensor(dtype, {37, 512}).param()},
                            scheme_of(dtype)));
  }
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::q8_0}) {
    cases.push_back(product("T51 M = 33 of bf16, bias",
                            {tensor(DType::bf16, {33, 256}), tensor(dtype, {132, 256}).param(),
                             std::nullopt, std::nullopt, tensor(DType::bf16, {132})},
                            scheme_of(dtype)));
  }
  cases.push_back(product("T50 K = 288, M = 129",
                          {tensor(DType::f16, {129, 288}), tensor(DType::q8_0, {130, 288}).param()},
                          scheme_of(DType::q8_0)));
  for (const int64_t m : {1, 5, 20}) {
    std::vector<double> x(static_cast<size_t>(m * 256), 0.25);
    x[7] = std::numeric_limits<double>::infinity();
    if (m > 1) x[3 * 256 + 100] = std::numeric_limits<double>::quiet_NaN();
    cases.push_back(
        product("T14 x has infinities, M = " + std::to_string(m),
                {tensor(DType::f16, {m, 256}).of(x), tensor(DType::q4_k, {40, 256}).param()},
                scheme_of(DType::q4_k)));
  }
}

// Few rows of 16-bit floats, whose weights are read once where there are tensor cores: every type,
// with a part of a slice of 256 depths; then several slices and tiles of each warp.
void add_few_rows_of_halves(std::vector<Case>& cases) {
  for (const DType dtype : kBlockTypes) {
    const int64_t k = block_elements(dtype) == 256 ? 768 : 576;
    const CaseTensor w = tensor(dtype, {37, k}).param();
    for (const int64_t m : {2, 3, 5, 8}) {
      cases.push_back(product("T51 M = " + std::to_string(m) + " of f16, few rows",
                              {tensor(DType::f16, {m, k}), w}, scheme_of(dtype)));
    }
  }
  for (const DType dtype : {DType::q4_k, DType::q6_k}) {
    cases.push_back(
        product("T51 M = 8 of f16, many lines of 2304",
                {tensor(DType::f16, {8, 2304}), tensor(dtype, {2203, 2304}).param()},
                R"({"scheme": ")" + std::string(name_of(dtype)) + R"(", "out_dtype": "f32"})"));
  }
}

CaseTensor scales(Shape shape) {
  return tensor(DType::f32, std::move(shape)).uniform(0.01, 0.1);
}
CaseTensor codes(DType dtype, Shape shape) {
  const bool is_signed = dtype == DType::i8;
  return tensor(dtype, std::move(shape)).range(is_signed ? -128 : 0, is_signed ? 127 : 255);
}
// E4M3 scales of moderate size.
CaseTensor small_floats(Shape shape) {
  return tensor(DType::u8, std::move(shape)).range(0x20, 0x48);
}

void add_side_tensors(std::vector<Case>& cases) {
  const std::string bs32 = R"(, "block_size": 32})";
  for (const int64_t m : {3, 21}) {
    for (const int64_t n : {24, 13}) {
      const std::string size = " M = " + std::to_string(m) + ", N = " + std::to_string(n);
      const CaseTensor x = tensor(m == 3 ? DType::f32 : DType::f16, {m, 100});
      const CaseTensor scale = scales({4, n});
      const CaseTensor zero = tensor(DType::f32, {4, n}).uniform(-8, 8);
      const CaseTensor packed = codes(DType::u8, {50 * n});
      cases.push_back(product("T55 K = 100" + size, {x, codes(DType::i8, {100, n}).param(), scale},
                              R"({"scheme": "int8_block")" + bs32));
      cases.push_back(product("K = 100" + size, {x, codes(DType::i8, {100, n}), scale, zero},
                              R"({"scheme": "int8_block_asym")" + bs32));
      cases.push_back(
          product("T54 K = 100" + size, {x, packed, scale}, R"({"scheme": "int4_block")" + bs32));
      cases.push_back(product("K = 100" + size, {x, packed, scale, zero},
                              R"({"scheme": "int4_block_asym")" + bs32));
      cases.push_back(product("T53 no scale" + size, {x, tensor(DType::f8e4m3, {100, n}).param()},
                              R"({"scheme": "fp8_e4m3"})"));
      cases.push_back(product("T53 scale per column" + size,
                              {x, tensor(DType::f8e5m2, {100, n}), scales({n})},
                              R"({"scheme": "fp8_e5m2"})"));
      cases.push_back(product("K = 100" + size, {x, packed, small_floats({7, n})},
                              R"({"scheme": "nvfp4_kn"})"));
      cases.push_back(product("K = 100, global scale" + size,
                              {x, codes(DType::u8, {n, 50}), small_floats({n, 7}), scales({1})},
                              R"({"scheme": "nvfp4_nk"})"));
    }
  }
  cases.push_back(product("nvfp4_nk in whole words, bias",
                          {tensor(DType::f32, {5, 64}), codes(DType::u8, {9, 32}).param(),
                           small_floats({9, 4}), std::nullopt, tensor(DType::f32, {9})},
                          R"({"scheme": "nvfp4_nk"})"));
  Case ends = product(
      "T52 T53 ends of E4M3, one scale",
      {tensor(DType::f32, {1, 1}).of({1}), tensor(DType::u8, {1, 4}).of({0x7E, 0x78, 0x7F, 0x81}),
       tensor(DType::f32, {}).of({0.5})},
      R"({"scheme": "fp8_e4m3"})");
  ends.golden = {{224, 128, std::numeric_limits<double>::quiet_NaN(), -0x1p-10}};
  cases.push_back(ends);
  Case wide = product(
      "T53 infinity and NaN of E5M2",
      {tensor(DType::f32, {1, 1}).of({1}), tensor(DType::u8, {1, 3}).of({0x7C, 0x7D, 0xFC})},
      R"({"scheme": "fp8_e5m2"})");
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  wide.golden = {{kInfinity, std::numeric_limits<double>::quiet_NaN(), -kInfinity}};
  cases.push_back(wide);
  Case nibbles = product(
      "T54 0xF is -1, three columns",
      {tensor(DType::f32, {2, 2}).of({1, 0, 0, 1}), tensor(DType::u8, {3}).of({0x8F, 0x17, 0xF2}),
       tensor(DType::f32, {1, 3}).of({1, 1, 2})},
      R"({"scheme": "int4_block", "block_size": 2})");
  nibbles.golden = {{-1, -8, 14, 1, 2, -2}};
  cases.push_back(nibbles);
}

void add_grouped(std::vector<Case>& cases) {
  const auto grouped = [&cases](std::string name, std::vector<std::optional<CaseTensor>> inputs,
                                std::string attributes = "{}") {
    cases.push_back(
        product(std::move(name), std::move(inputs), std::move(attributes), "grouped_matmul"));
  };
  const CaseTensor w = tensor(DType::f32, {3, 24, 40}).param();
  const CaseTensor transposed = tensor(DType::f16, {3, 40, 24}).param();
  const CaseTensor few = tensor(DType::i32, {5}).of({2, -1, 0, 3, 2});
  grouped("T43 T44 five rows, two of no expert", {tensor(DType::f32, {5, 24}), w, few});
  grouped("T43 T44 five rows, transposed, bias",
          {tensor(DType::f16, {5, 24}), transposed, few, tensor(DType::f32, {3, 40})},
          R"({"trans_w": true})");
  const CaseTensor many = tensor(DType::i64, {50}).range(-1, 3);
  grouped("T44 fifty rows, unsorted",
          {tensor(DType::f32, {50, 24}), w, many, tensor(DType::bf16, {3, 40})});
  grouped("T44 fifty rows, transposed", {tensor(DType::bf16, {50, 24}), transposed, many},
          R"({"trans_w": true})");
  grouped("T44 all to one expert, leading dims",
          {tensor(DType::f16, {2, 35, 24}), w, tensor(DType::u8, {2, 35}).range(1, 1)});
  grouped("T40 odd sizes", {tensor(DType::f32, {33, 7}), tensor(DType::f32, {2, 7, 13}),
                            tensor(DType::i8, {33}).range(0, 1)});
  grouped("T40 odd sizes, transposed",
          {tensor(DType::f32, {33, 7}), tensor(DType::bf16, {2, 13, 7}),
           tensor(DType::u32, {33}).range(0, 1)},
          R"({"trans_w": true})");
  grouped("f64", {tensor(DType::f64, {20, 9}), tensor(DType::f64, {2, 9, 5}),
                  tensor(DType::i32, {20}).range(0, 1)});
  grouped("f64, few rows",
          {tensor(DType::f64, {2, 9}), tensor(DType::f64, {2, 5, 9}),
           tensor(DType::f32, {2}).of({1, 0})},
          R"({"trans_w": true})");
  grouped("T44 M = 4097", {tensor(DType::f16, {4097, 16}), tensor(DType::f16, {6, 16, 8}),
                           tensor(DType::i32, {4097}).range(-1, 5)});
  grouped("T44 M = 1", {tensor(DType::f32, {1, 24}), w, tensor(DType::i32, {1}).of({1})});
  grouped("T19 no rows", {tensor(DType::f32, {0, 24}), w, tensor(DType::i32, {0})});
  // Tiles of rows on tensor cores: experts of few, some and many rows, of one and a half tiles of
  // columns, and of depths that end within a step.
  for (const int64_t m : {45, 190, 700}) {
    const CaseTensor index = tensor(DType::i32, {m}).range(-1, 3);
    grouped("T44 tiles of rows", {tensor(DType::f16, {m, 88}), tensor(DType::f16, {3, 88, 200}),
                                  index, tensor(DType::f32, {3, 200})});
    grouped("T44 tiles of rows, transposed",
            {tensor(DType::bf16, {m, 136}), tensor(DType::bf16, {3, 307, 136}), index},
            R"({"trans_w": true})");
  }
  grouped("T44 many experts of few rows",
          {tensor(DType::f16, {260, 64}), tensor(DType::f16, {130, 64, 16}).param(),
           tensor(DType::i32, {260}).range(0, 129)});
  grouped("T14 an infinity in one row",
          {tensor(DType::f16, {40, 64}).of([] {
             std::vector<double> x(40 * 64, 0.5);
             x[70] = std::numeric_limits<double>::infinity();
             return x;
           }()),
           tensor(DType::f16, {2, 64, 24}), tensor(DType::i32, {40}).range(0, 1)});
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::q8_0, DType::q4_1}) {
    for (const int64_t m : {70, 300}) {
      cases.push_back(product("T44 tiles of rows of blocks",
                              {tensor(DType::f16, {m, 256}), tensor(dtype, {3, 148, 256}).param(),
                               tensor(DType::i32, {m}).range(-1, 3), tensor(DType::f32, {3, 148})},
                              scheme_of(dtype), "dequant_grouped_matmul"));
    }
  }
  for (const int64_t m : {4, 40}) {
    for (const DType dtype : {DType::q4_k, DType::q6_k, DType::mxfp4}) {
      cases.push_back(product("T43 T44 rows of blocks",
                              {tensor(DType::f32, {m, 256}), tensor(dtype, {3, 20, 256}).param(),
                               tensor(DType::i32, {m}).range(-1, 3), tensor(DType::f32, {3, 20})},
                              scheme_of(dtype), "dequant_grouped_matmul"));
    }
  }
}

// Vectors of so many lines that a thread may keep its part of x in registers while several pass by.
void add_long_lists_of_lines(std::vector<Case>& cases) {
  for (const DType dtype : {DType::q4_1, DType::q2_k, DType::q3_k, DType::q4_k, DType::q5_k}) {
    cases.push_back(product("T46 16 rows, many lines of 2048",
                            {tensor(DType::f16, {16, 2048}), tensor(dtype, {2, 514, 2048}).param(),
                             tensor(DType::i32, {16}).range(-1, 2), tensor(DType::f32, {2, 514})},
                            scheme_of(dtype), "dequant_grouped_matmul"));
  }
  const CaseTensor w = tensor(DType::q4_k, {4003, 4096}).param();
  const CaseTensor bias = tensor(DType::bf16, {4003});
  std::vector<double> x(4096, 0.25);
  x[77] = std::numeric_limits<double>::infinity();
  cases.push_back(product("T51 many lines of 4096, bias",
                          {tensor(DType::f32, {1, 4096}), w, std::nullopt, std::nullopt, bias},
                          scheme_of(DType::q4_k)));
  cases.push_back(
      product("T14 x has an infinity, many lines",
              {tensor(DType::bf16, {1, 4096}).of(x), w, std::nullopt, std::nullopt, bias},
              scheme_of(DType::q4_k)));
}

}  // namespace

std::vector<Case> weighted_matmul_cases() {
  std::vector<Case> cases;
  add_blocks(cases);
  add_rows_of_halves(cases);
  add_few_rows_of_halves(cases);
  add_side_tensors(cases);
  add_grouped(cases);
  add_long_lists_of_lines(cases);
  return cases;
}

}  // namespace rlx::test
