// SPDX-License-Identifier: Apache-2.0
// Products of f16, bf16 and f32 in every tile of matmul_coop (ops.md 3.1, 3.3; traps T38 to T40):
// sizes for which the model takes it, edges inside it, both layouts of each operand, split k,
// epilogues.
#include <array>
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

struct Size {
  int64_t m;
  int64_t n;
  int64_t k;
};

std::string text_of(const Size& size) {
  return std::to_string(size.m) + "x" + std::to_string(size.n) + "x" + std::to_string(size.k);
}

CaseTensor halves(Shape shape) {
  return tensor(DType::f16, std::move(shape));
}

CaseTensor brains(Shape shape) {
  return tensor(DType::bf16, std::move(shape));
}

Case product(std::string name, const CaseTensor& a, const CaseTensor& b,
             std::string attributes = "{}") {
  return {.name = std::move(name),
          .op = "matmul",
          .inputs = {a, b},
          .attributes = std::move(attributes),
          .tolerance = Tolerance::Sum};
}

// From small tiles to large ones, whole and with edges; long k is split.
void add_matrix_tiles(std::vector<Case>& cases) {
  constexpr std::array kSizes = {Size{16, 16, 16},     Size{15, 24, 40},     Size{33, 32, 128},
                                 Size{64, 64, 2048},   Size{72, 200, 1000},  Size{520, 520, 64},
                                 Size{1000, 1032, 40}, Size{2056, 1800, 24}, Size{1568, 512, 128},
                                 Size{6256, 256, 72}};
  for (const Size& size : kSizes) {
    cases.push_back(
        product("T39 coop " + text_of(size), halves({size.m, size.k}), halves({size.k, size.n})));
    cases.push_back(product("T40 coop " + text_of(size) + " transposed b", halves({size.m, size.k}),
                            halves({size.n, size.k}), R"({"trans_b": true})"));
    if (size.m % 8 != 0) continue;
    cases.push_back(product("T40 coop " + text_of(size) + " transposed a", halves({size.k, size.m}),
                            halves({size.k, size.n}), R"({"trans_a": true})"));
  }
  // Two, three and four panels ahead, whole and with a last one that ends inside.
  for (const Size& size : {Size{40, 72, 256}, Size{72, 40, 376}, Size{48, 136, 512},
                           Size{136, 48, 184}, Size{200, 72, 1528}}) {
    cases.push_back(product("T39 coop, panels ahead " + text_of(size), halves({size.m, size.k}),
                            halves({size.k, size.n})));
    cases.push_back(product("T40 coop, panels ahead " + text_of(size) + ", both transposed",
                            halves({3, size.k, size.m}), halves({3, size.n, size.k}),
                            R"({"trans_a": true, "trans_b": true})"));
  }
  // Rows in whole pieces of 8, 4 or 2 bytes alone.
  for (const Size& size : {Size{68, 84, 196}, Size{70, 90, 58}, Size{40, 33, 197}}) {
    cases.push_back(product("T39 coop, narrow pieces " + text_of(size), halves({size.m, size.k}),
                            halves({size.k, size.n})));
    cases.push_back(product("T40 coop, narrow pieces " + text_of(size) + ", both transposed",
                            halves({2, size.k, size.m}), halves({2, size.n, size.k}),
                            R"({"trans_a": true, "trans_b": true})"));
  }
  // Depths and widths that end inside a piece of eight halves, where memory allows such pieces.
  cases.push_back(product("T39 coop, a width that ends inside a unit", halves({40, 64}),
                          halves({77, 64}), R"({"trans_b": true})"));
}

void add_bf16(std::vector<Case>& cases) {
  for (const Size& size : {Size{15, 24, 40}, Size{33, 32, 128}, Size{72, 200, 1000},
                           Size{64, 64, 2048}, Size{1000, 1032, 40}}) {
    cases.push_back(product("T39 coop bf16 " + text_of(size), brains({size.m, size.k}),
                            brains({size.k, size.n})));
    cases.push_back(product("T40 coop bf16 " + text_of(size) + " transposed b",
                            brains({size.m, size.k}), brains({size.n, size.k}),
                            R"({"trans_b": true})"));
  }
  cases.push_back({.name = "coop bf16 act(x w + bias) + residual",
                   .op = "fused_matmul_bias_act",
                   .inputs = {brains({40, 136}), brains({136, 72}).param(), brains({72}).param(),
                              brains({40, 72})},
                   .attributes = R"({"activation": "relu"})",
                   .tolerance = Tolerance::Sum});
  // Powers of two far outside the range of f16, of which every product is exact.
  constexpr int64_t kDepth = 32;
  std::vector<double> a(static_cast<size_t>(16 * kDepth), 0.0);
  std::vector<double> b(static_cast<size_t>(kDepth * 16), 1.0);
  a[0] = 0x1p120;
  a[kDepth] = 0x1p-120;
  a[2 * kDepth] = std::numeric_limits<double>::infinity();
  a[3 * kDepth] = std::numeric_limits<double>::quiet_NaN();
  cases.push_back(product("coop bf16, values beyond the range of f16", brains({16, kDepth}).of(a),
                          brains({kDepth, 16}).of(b)));
}

// In three parts of bf16 each: layouts, narrow pieces, split depth, values of every size.
void add_parts(std::vector<Case>& cases) {
  const auto singles = [](Shape shape) { return tensor(DType::f32, std::move(shape)); };
  for (const Size& size :
       {Size{15, 24, 40}, Size{33, 32, 128}, Size{72, 200, 1000}, Size{64, 64, 2048},
        Size{520, 520, 64}, Size{1000, 1032, 40}, Size{2056, 1800, 24}, Size{68, 84, 196},
        Size{70, 90, 58}, Size{40, 33, 197}, Size{16, 16, 1}, Size{64, 64, 17}}) {
    cases.push_back(
        product("coop f32 " + text_of(size), singles({size.m, size.k}), singles({size.k, size.n})));
    cases.push_back(product("coop f32 " + text_of(size) + ", both transposed",
                            singles({2, size.k, size.m}), singles({2, size.n, size.k}),
                            R"({"trans_a": true, "trans_b": true})"));
  }
  cases.push_back({.name = "coop f32 act(x w + bias) + residual",
                   .op = "fused_matmul_bias_act",
                   .inputs = {singles({40, 136}), singles({136, 72}).param(), singles({72}).param(),
                              singles({40, 72})},
                   .attributes = R"({"activation": "relu"})",
                   .tolerance = Tolerance::Sum});
  // The largest numbers, whose leading part is infinite; small ones, of which parts are subnormal;
  // what is not finite, also where the depth is split.
  for (const int64_t depth : {32, 4096}) {
    constexpr int64_t kLines = 32;
    std::vector<double> a(static_cast<size_t>(kLines * depth), 0x1.234566p-3);
    const auto at = [&](int64_t line, int64_t k) -> double& {
      return a[static_cast<size_t>(line * depth + k)];
    };
    at(0, 0) = 0x1.fffffep127;
    at(1, 3) = std::numeric_limits<double>::infinity();
    at(2, depth - 1) = std::numeric_limits<double>::quiet_NaN();
    at(3, 5) = -std::numeric_limits<double>::infinity();
    at(3, depth - 2) = std::numeric_limits<double>::infinity();
    for (int64_t k = 0; k < depth; ++k) {
      at(4, k) = 0x1.fedcbap-100;
      at(5, k) = k % 2 == 0 ? 0x1.abcdeep-20 : 0x1.123456p-80;
      at(6, k) = 0x1.fedcbap110;
    }
    cases.push_back(product("coop f32, values of every size, depth " + std::to_string(depth),
                            singles({kLines, depth}).of(a), singles({64, depth}).uniform(-0.5, 0.5),
                            R"({"trans_b": true})"));
  }
}

void add_epilogues(std::vector<Case>& cases) {
  for (const Size& size : {Size{40, 72, 136}, Size{512, 1032, 64}, Size{64, 72, 2048}}) {
    cases.push_back({.name = "coop act(x w + bias) + residual " + text_of(size),
                     .op = "fused_matmul_bias_act",
                     .inputs = {halves({size.m, size.k}), halves({size.k, size.n}).param(),
                                halves({size.n}).param(), halves({size.m, size.n})},
                     .attributes = R"({"activation": "relu"})",
                     .tolerance = Tolerance::Sum});
    cases.push_back(
        {.name = "coop x w + bias, and a residual, in f32 " + text_of(size),
         .op = "fused_matmul_bias_act",
         .inputs = {halves({size.m, size.k}), halves({size.k, size.n}).param(),
                    tensor(DType::f32, {size.n}).param(), tensor(DType::f32, {size.m, size.n})},
         .attributes = R"({"out_dtype": "f32"})",
         .tolerance = Tolerance::Sum});
  }
}

void add_matrix_specials(std::vector<Case>& cases) {
  cases.push_back(product("T38 coop, batches", halves({3, 2, 40, 72}), halves({3, 1, 72, 48})));
  constexpr int64_t kDepth = 64;
  std::vector<double> a(static_cast<size_t>(16 * kDepth), 1.0);
  a[5] = std::numeric_limits<double>::infinity();
  a[3 * kDepth + 7] = std::numeric_limits<double>::quiet_NaN();
  a[4 * kDepth + 9] = -std::numeric_limits<double>::infinity();
  a[4 * kDepth + 10] = std::numeric_limits<double>::infinity();
  a[6 * kDepth + 1] = 65504;    // the largest half
  a[7 * kDepth + 1] = 0x1p-24;  // the smallest
  cases.push_back(product("coop, infinities, NaN, the largest and the smallest half",
                          halves({16, kDepth}).of(a), halves({32, kDepth}).uniform(-0.5, 0.5),
                          R"({"trans_b": true})"));
}

}  // namespace

std::vector<Case> cooperative_matrix_cases() {
  std::vector<Case> cases;
  add_matrix_tiles(cases);
  add_bf16(cases);
  add_parts(cases);
  add_epilogues(cases);
  add_matrix_specials(cases);
  return cases;
}

}  // namespace rlx::test
