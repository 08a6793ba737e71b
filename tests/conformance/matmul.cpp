// SPDX-License-Identifier: Apache-2.0
// matmul and fused_matmul_bias_act (ops.md 3.1, 3.3; traps T10, T12, T14, T38 to T42).
#include <array>
#include <bit>
#include <functional>
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

struct Size {
  int64_t m;
  int64_t n;
  int64_t k;
};

std::string text_of(DType dtype, const Size& size) {
  return std::string(name_of(dtype)) + " " + std::to_string(size.m) + "x" + std::to_string(size.n) +
         "x" + std::to_string(size.k);
}

std::string text_of(const Shape& shape) {
  return to_string(shape);
}

Case product(std::string name, const CaseTensor& a, const CaseTensor& b,
             std::string attributes = "{}") {
  return {.name = std::move(name),
          .op = "matmul",
          .inputs = {a, b},
          .attributes = std::move(attributes),
          .tolerance = is_float(a.type.dtype) || a.type.dtype == DType::c64 ? Tolerance::Sum
                                                                            : Tolerance::Exact};
}

CaseTensor filled(const CaseTensor& like, double value) {
  return like.of(std::vector<double>(static_cast<size_t>(element_count(like.type.shape)), value));
}

void add_golden(std::vector<Case>& cases) {
  Case test = product("2x3 by 3x2 against NumPy", tensor(DType::f32, {2, 3}).of({1, 2, 3, 4, 5, 6}),
                      tensor(DType::f32, {3, 2}).of({7, 8, 9, 10, 11, 12}));
  test.golden = {{58, 64, 139, 154}};
  cases.push_back(test);
  Case fused{
      .name = "act(x w + bias) + residual against NumPy",
      .op = "fused_matmul_bias_act",
      .inputs = {tensor(DType::f32, {1, 2}).of({1, -2}),
                 tensor(DType::f32, {2, 2}).of({1, 0, 3, -1}), tensor(DType::f32, {2}).of({0.5, 1}),
                 tensor(DType::f32, {1, 2}).of({10, 20})},
      .attributes = R"({"activation": "relu"})",
      .tolerance = Tolerance::Sum};
  fused.golden = {{10, 23}};
  cases.push_back(fused);
}

// Values that tf32 and f16 cannot hold: a product that rounds its operands misses the bound by far.
void add_full_precision(std::vector<Case>& cases) {
  const CaseTensor matrix = tensor(DType::f32, {512, 512});
  std::vector<double> values(512 * 512);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 1 + static_cast<double>(i % 3 + 1) * 0x1p-13;
  }
  cases.push_back(
      product("T11 f32 operands are not rounded", matrix.of(values), matrix.of(values)));
  cases.push_back({.name = "T11 nor with an activation",
                   .op = "fused_matmul_bias_act",
                   .inputs = {matrix.of(values), matrix.of(values)},
                   .attributes = R"({"activation": "relu"})",
                   .tolerance = Tolerance::Sum});
}

// Every tile edge, one element to either side, primes, and the vector kernel's bounds.
void add_sizes(std::vector<Case>& cases) {
  constexpr std::array kSizes = {
      Size{1, 1, 1},    Size{1, 1, 7},      Size{1, 64, 1},     Size{1, 129, 384}, Size{2, 33, 65},
      Size{3, 128, 96}, Size{4, 100, 31},   Size{100, 4, 64},   Size{77, 1, 256},  Size{129, 2, 63},
      Size{5, 5, 5},    Size{17, 45, 30},   Size{16, 64, 32},   Size{15, 63, 31},  Size{17, 65, 33},
      Size{64, 16, 32}, Size{63, 17, 31},   Size{32, 32, 32},   Size{31, 33, 64},  Size{64, 64, 16},
      Size{65, 63, 17}, Size{128, 128, 16}, Size{127, 129, 15}, Size{131, 137, 67}};
  for (const Size& size : kSizes) {
    const std::string text =
        std::to_string(size.m) + "x" + std::to_string(size.n) + "x" + std::to_string(size.k);
    cases.push_back(product("T39 T40 size " + text, tensor(DType::f32, {size.m, size.k}),
                            tensor(DType::f32, {size.k, size.n})));
    cases.push_back(product(
        "T40 size " + text + " with both operands transposed", tensor(DType::f32, {size.k, size.m}),
        tensor(DType::f32, {size.n, size.k}), R"({"trans_a": true, "trans_b": true})"));
  }
}

// Shapes for which the compiler chooses each of its larger or narrower tiles
// (tests/ops/test_matmul.cpp asserts which).
void add_tiles(std::vector<Case>& cases) {
  const auto tiled = [&](const std::string& tile, int64_t m, int64_t n, int64_t k) {
    cases.push_back(product(
        tile + " tile, " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k),
        tensor(DType::f32, {m, k}), tensor(DType::f32, {k, n})));
  };
  tiled("128x128", 2048, 2048, 16);
  tiled("128x128", 1900, 1900, 18);
  tiled("64x128", 1408, 1924, 16);
  tiled("64x128", 1407, 1923, 15);
  tiled("32x64", 512, 512, 16);
  tiled("32x64", 509, 511, 15);
  tiled("16x32", 64, 64, 400);
  tiled("16x32", 63, 61, 399);
  tiled("64x64", 1500, 1500, 16);
  tiled("64x64", 1499, 1501, 15);
  tiled("16x64", 16, 8448, 64);
  tiled("16x64", 13, 8447, 63);
  tiled("16x128", 16, 34000, 16);
  tiled("16x128", 15, 34001, 15);
  tiled("64x16", 8448, 16, 64);
  tiled("64x16", 8447, 13, 63);
}

// Operands in whole 16-byte pieces, for tensor cores where the target has them: every tile that the
// model chooses, edges to either side of it, clusters (long k), both layouts of each operand.
void add_tensor_core_tiles(std::vector<Case>& cases) {
  constexpr std::array kSizes = {Size{128, 384, 384},  Size{120, 392, 376}, Size{136, 376, 392},
                                 Size{128, 1152, 384}, Size{40, 72, 520},   Size{128, 384, 1536},
                                 Size{24, 1000, 2048}, Size{8, 8, 72},      Size{256, 768, 64}};
  for (const DType dtype : kShortFloats) {
    for (const Size& size : kSizes) {
      const std::string text = text_of(dtype, size);
      cases.push_back(product("T39 pieces " + text, tensor(dtype, {size.m, size.k}),
                              tensor(dtype, {size.k, size.n}).param()));
      cases.push_back(product("T40 pieces " + text + " transposed b",
                              tensor(dtype, {size.m, size.k}),
                              tensor(dtype, {size.n, size.k}).param(), R"({"trans_b": true})"));
      if (size.k > 400) continue;
      cases.push_back(product("T40 pieces " + text + " transposed a",
                              tensor(dtype, {size.k, size.m}), tensor(dtype, {size.k, size.n}),
                              R"({"trans_a": true})"));
    }
    cases.push_back(product("T38 pieces, batches of " + std::string(name_of(dtype)),
                            tensor(dtype, {3, 2, 40, 72}), tensor(dtype, {3, 1, 72, 48})));
    cases.push_back(product("T39 pieces, a result of odd width, " + std::string(name_of(dtype)),
                            tensor(dtype, {33, 64}), tensor(dtype, {49, 64}),
                            R"({"trans_b": true})"));
    for (const int64_t n : {205, 330}) {
      cases.push_back(product("T39 large tiles, a result of " + std::to_string(n) + " columns, " +
                                  std::string(name_of(dtype)),
                              tensor(dtype, {270, 136}), tensor(dtype, {n, 136}).param(),
                              R"({"trans_b": true})"));
      cases.push_back({.name = "large tiles, bias and GELU",
                       .op = "fused_matmul_bias_act",
                       .inputs = {tensor(dtype, {270, 136}), tensor(dtype, {n, 136}).param(),
                                  tensor(dtype, {n}).param()},
                       .attributes = R"({"trans_w": true, "activation": "gelu"})",
                       .tolerance = Tolerance::Sum});
    }
  }
}

// Operands whose rows are whole pieces of 8, 4 or 2 bytes alone.
void add_narrow_pieces(std::vector<Case>& cases) {
  constexpr std::array kSizes = {Size{68, 84, 196}, Size{70, 90, 58}, Size{40, 33, 197},
                                 Size{132, 260, 1004}, Size{196, 72, 384}};
  for (const DType dtype : kShortFloats) {
    for (const Size& size : kSizes) {
      const std::string text = text_of(dtype, size);
      cases.push_back(product("T39 narrow pieces " + text, tensor(dtype, {size.m, size.k}),
                              tensor(dtype, {size.k, size.n}).param()));
      cases.push_back(product(
          "T40 narrow pieces " + text + ", both transposed", tensor(dtype, {2, size.k, size.m}),
          tensor(dtype, {2, size.n, size.k}), R"({"trans_a": true, "trans_b": true})"));
    }
  }
}

// f32 products in parts: what parts of a float cannot hold by themselves.
void add_extreme_floats(std::vector<Case>& cases) {
  constexpr int64_t kDepth = 64;
  const auto sized = [](int64_t lines, double value) {
    return std::vector<double>(static_cast<size_t>(lines * kDepth), value);
  };
  const auto add = [&](const std::string& name, const std::vector<double>& a,
                       const std::vector<double>& b) {
    cases.push_back(product("f32 parts: " + name, tensor(DType::f32, {16, kDepth}).of(a),
                            tensor(DType::f32, {16, kDepth}).of(b), R"({"trans_b": true})"));
  };
  std::vector<double> a = sized(16, 1.0);
  a[5] = kInfinity;
  a[3 * kDepth + 7] = kNan;
  a[4 * kDepth + 9] = -kInfinity;
  a[4 * kDepth + 10] = kInfinity;
  add("infinities and NaN", a, sized(16, 0.3));
  a = sized(16, 0.0);
  a[2 * kDepth + 1] = std::numeric_limits<float>::max();
  add("the largest float", a, sized(16, 0.5));
  a = sized(16, 0.0);
  std::vector<double> b = sized(16, 0.0);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>((1.0 + static_cast<double>(i * 37 % 101) / 101) * 0x1p-118);
    b[i] = static_cast<float>((1.0 + static_cast<double>(i * 53 % 97) / 97) * 0x1p100);
  }
  add("small by large", a, b);
  a = sized(16, 1.0);
  a[2 * kDepth + 3] = std::bit_cast<double>(~uint64_t{0} >> 1);
  add("a NaN all of whose bits are ones", a, sized(16, 0.3));
}

// f32 sums that tensor cores cut off, of parts that leave the most over.
void add_deep_floats(std::vector<Case>& cases) {
  constexpr double kWorst = 1 + 0x1p-10 - 0x1p-23;  // all that a part of 11 bits leaves over
  for (const char* attributes : {R"({"trans_b": true})", "{}"}) {
    const bool transposed = attributes[1] == '"';
    const auto add = [&](const std::string& name, int64_t m, int64_t n, int64_t k,
                         const std::function<CaseTensor(const CaseTensor&)>& fill) {
      cases.push_back(product("f32 parts: " + name + (transposed ? ", transposed" : ""),
                              fill(tensor(DType::f32, {m, k})),
                              fill(tensor(DType::f32, transposed ? Shape{n, k} : Shape{k, n})),
                              attributes));
    };
    const auto positive = [](const CaseTensor& t) { return t.uniform(0.5, 1.5); };
    const auto worst = [](const CaseTensor& t) { return filled(t, kWorst); };
    add("positive sums of 8192", 40, 72, 8192, positive);
    add("the worst of parts, k=40", 72, 136, 40, worst);
    // By warpgroups where there are such.
    add("positive sums of 264", 1032, 520, 264, positive);
    add("the worst of parts", 1160, 900, 260, worst);
  }
}

void add_dtypes(std::vector<Case>& cases) {
  for (const DType a : kShortFloats) {
    for (const DType b : kShortFloats) {
      const std::string name = std::string(name_of(a)) + " by " + std::string(name_of(b));
      cases.push_back(product(name, tensor(a, {37, 40}), tensor(b, {40, 52})));
      cases.push_back(product("T39 m=1 " + name, tensor(a, {1, 72}), tensor(b, {24, 72}).param(),
                              R"({"trans_b": true})"));
    }
    cases.push_back(product("T39 one output, " + std::string(name_of(a)), tensor(a, {1, 33}),
                            tensor(a, {33, 1})));
    cases.push_back(product("out_dtype f16 of " + std::string(name_of(a)), tensor(a, {9, 20}),
                            tensor(a, {20, 12}), R"({"out_dtype": "f16"})"));
  }
  cases.push_back(product("f64", tensor(DType::f64, {19, 33}), tensor(DType::f64, {33, 21})));
  cases.push_back(product("f64 m=1", tensor(DType::f64, {1, 33}), tensor(DType::f64, {33, 21})));
  cases.push_back(product("f64 n=2 transposed", tensor(DType::f64, {40, 33}),
                          tensor(DType::f64, {2, 33}), R"({"trans_b": true})"));
  for (const DType a : {DType::i8, DType::u8}) {
    for (const DType b : {DType::i8, DType::u8}) {
      const auto range = [](const CaseTensor& t) {
        return t.type.dtype == DType::i8 ? t.range(-128, 127) : t.range(0, 255);
      };
      const std::string name =
          std::string(name_of(a)) + " by " + std::string(name_of(b)) + " is exact in i32";
      cases.push_back(product(name, range(tensor(a, {18, 50})), range(tensor(b, {50, 35}))));
      cases.push_back(
          product("T39 m=1 " + name, range(tensor(a, {1, 50})), range(tensor(b, {50, 35}))));
    }
  }
}

void add_batches(std::vector<Case>& cases) {
  const auto batched = [&](const std::string& name, const Shape& a, const Shape& b,
                           const std::string& attributes) {
    cases.push_back(product("T38 " + name + " " + text_of(a) + " by " + text_of(b),
                            tensor(DType::f32, a), tensor(DType::f32, b), attributes));
  };
  batched("one matrix for the batch", {3, 7, 12}, {12, 20}, "{}");
  batched("unit batch of b", {3, 7, 12}, {1, 12, 20}, "{}");
  batched("unit batch of a", {1, 7, 12}, {3, 12, 20}, "{}");
  batched("batch dims cross", {2, 1, 9, 11}, {1, 3, 11, 8}, "{}");
  batched("ranks differ", {9, 11}, {2, 3, 11, 8}, "{}");
  batched("batch of single rows", {6, 1, 16}, {16, 24}, "{}");
  batched("batch of vectors", {2, 3, 1, 16}, {2, 3, 16, 24}, "{}");
  batched("trans_a", {2, 12, 7}, {2, 12, 20}, R"({"trans_a": true})");
  batched("trans_b", {2, 7, 12}, {2, 20, 12}, R"({"trans_b": true})");
  batched("vector by matrix", {12}, {12, 20}, "{}");
  batched("matrix by vector", {7, 12}, {12}, "{}");
  batched("vector by vector", {12}, {12}, "{}");
  batched("vector by batch", {12}, {3, 12, 20}, "{}");
  batched("batch by vector", {3, 7, 12}, {12}, "{}");
  cases.push_back(product("T38 mixed dtypes compute every batch entry",
                          tensor(DType::f32, {4, 8, 16}), tensor(DType::bf16, {4, 16, 24})));
}

void add_edges(std::vector<Case>& cases) {
  const auto empty = [&](const Shape& a, const Shape& b) {
    cases.push_back(product("T39 empty " + text_of(a) + " by " + text_of(b), tensor(DType::f32, a),
                            tensor(DType::f32, b)));
  };
  empty({5, 0}, {0, 6});
  empty({1, 0}, {0, 6});
  empty({0, 5}, {5, 6});
  empty({5, 6}, {6, 0});
  empty({0, 3, 4}, {4, 5});
  cases.push_back(
      {.name = "T39 K=0 leaves the bias",
       .op = "fused_matmul_bias_act",
       .inputs = {tensor(DType::f32, {6, 0}), tensor(DType::f32, {0, 5}), tensor(DType::f32, {5})},
       .tolerance = Tolerance::Sum});
  cases.push_back(product("T10 f16 ones over K=8192 reach 8192",
                          filled(tensor(DType::f16, {2, 8192}), 1),
                          filled(tensor(DType::f16, {8192, 5}), 1)));
  cases.push_back(product("T10 f16 ones over K=8192 in tiles",
                          filled(tensor(DType::f16, {8, 8192}), 1),
                          filled(tensor(DType::f16, {8192, 8}), 1)));
  for (const int64_t m : {1, 8}) {
    std::vector<double> b(static_cast<size_t>(4 * 8), 1.0);
    b[2] = kNan;
    b[5] = kInfinity;
    cases.push_back(product("T14 a row of zeros meets NaN and infinity, m=" + std::to_string(m),
                            filled(tensor(DType::f32, {m, 4}), 0),
                            tensor(DType::f32, {4, 8}).of(b)));
  }
  cases.push_back(product("split-k: few outputs, long K", tensor(DType::f32, {8, 4096}),
                          tensor(DType::f32, {4096, 8})));
  cases.push_back(product("split-k: one output, long K", tensor(DType::f32, {1, 20000}),
                          tensor(DType::f32, {20000, 1})));
  cases.push_back(product("split-k: vector, long K along the outputs",
                          tensor(DType::f16, {2, 6000}), tensor(DType::f16, {6000, 12})));
}

Case fused(std::string name, const Shape& x, const Shape& w,
           std::vector<std::optional<CaseTensor>> rest, std::string attributes,
           DType dtype = DType::f32) {
  Case test{.name = std::move(name),
            .op = "fused_matmul_bias_act",
            .inputs = {tensor(dtype, x), tensor(dtype, w)},
            .attributes = std::move(attributes),
            .tolerance = Tolerance::Sum};
  for (auto& input : rest) test.inputs.push_back(std::move(input));
  return test;
}

// 16 bits and enough of them for the largest tiles where the target has such, ragged at every end.
void add_largest_tiles(std::vector<Case>& cases) {
  const auto add = [&](DType dtype, const std::string& activation, bool residual) {
    Case test = fused("T39 largest tiles, " + std::string(name_of(dtype)), {2040, 520}, {1016, 520},
                      {tensor(dtype, {1016})},
                      R"({"trans_w": true, "activation": ")" + activation + "\"}", dtype);
    if (residual) test.inputs.push_back(tensor(dtype, {2040, 1016}));
    cases.push_back(test);
  };
  add(DType::f16, "relu", true);
  add(DType::bf16, "silu", false);
}

// Halves whose product, and what is added to it, is f32, by every kernel that takes them; and the
// other way round.
void add_wider_results(std::vector<Case>& cases) {
  const auto add = [&](DType dtype, DType result, const Shape& x, const Shape& w,
                       const std::string& activation, bool residual) {
    Case test = fused("epilogue in " + std::string(name_of(result)) + " of " +
                          std::string(name_of(dtype)) + ", " + text_of(x) + " by " + text_of(w),
                      x, w, {tensor(result, {w.front()})},
                      R"({"trans_w": true, "activation": ")" + activation + R"(", "out_dtype": ")" +
                          std::string(name_of(result)) + "\"}",
                      dtype);
    if (residual) {
      Shape y = x;
      y.back() = w.front();
      test.inputs.push_back(tensor(result, y));
    }
    cases.push_back(test);
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    add(dtype, DType::f32, {1, 72}, {24, 72}, "none", false);
    add(dtype, DType::f32, {7, 64}, {48, 64}, "gelu", true);
    add(dtype, DType::f32, {130, 136}, {200, 136}, "none", false);
    add(dtype, DType::f32, {270, 136}, {330, 136}, "gelu_tanh", true);
    add(dtype, DType::f32, {270, 136}, {330, 136}, "none", true);
    add(dtype, DType::f32, {3, 9, 20}, {13, 20}, "relu", true);
  }
  add(DType::f32, DType::f16, {33, 40}, {52, 40}, "silu", true);
  add(DType::f32, DType::bf16, {1, 40}, {52, 40}, "none", false);
}

void add_activations(std::vector<Case>& cases) {
  constexpr std::array kActivations = {
      "neg",      "abs",      "sign",         "square",     "exp",        "exp2",
      "expm1",    "sin",      "cos",          "tanh",       "atan",       "asinh",
      "erf",      "sigmoid",  "log_sigmoid",  "relu",       "leaky_relu", "elu",
      "celu",     "selu",     "gelu",         "gelu_tanh",  "silu",       "mish",
      "softplus", "softsign", "hard_sigmoid", "hard_swish", "sinh",       "cosh"};
  for (const char* name : kActivations) {
    Case test = fused(std::string("T41 epilogue ") + name, {9, 12}, {12, 20},
                      {tensor(DType::f32, {20}).uniform(-0.5, 0.5)},
                      R"({"activation": ")" + std::string(name) + "\"}");
    test.inputs[0] = tensor(DType::f32, {9, 12}).uniform(-0.9, 0.9);
    test.inputs[1] = tensor(DType::f32, {12, 20}).uniform(-0.9, 0.9);
    // A step has no slope to carry the sum's error over.
    if (std::string(name) == "sign") test.tolerance = Tolerance::Exact;
    cases.push_back(test);
  }
  for (const char* name : {"sqrt", "rsqrt", "reciprocal", "log", "log2", "log10", "log1p"}) {
    Case test = fused(std::string("T41 epilogue ") + name, {9, 12}, {12, 20}, {},
                      R"({"activation": ")" + std::string(name) + "\"}");
    test.inputs[0] = tensor(DType::f32, {9, 12}).uniform(0.1, 1);
    test.inputs[1] = tensor(DType::f32, {12, 20}).uniform(0.1, 1);
    cases.push_back(test);
  }
  cases.push_back(fused("T41 leaky_relu with alpha", {9, 12}, {12, 20}, {},
                        R"({"activation": "leaky_relu", "alpha": 0.3})"));
  cases.push_back(fused("T41 hard_sigmoid with alpha and beta", {9, 12}, {12, 20}, {},
                        R"({"activation": "hard_sigmoid", "alpha": 0.1, "beta": 0.4})"));
  for (const int64_t m : {1, 8, 33, 64}) {
    for (const int64_t n : {32, 45}) {
      cases.push_back(
          fused("T12 gelu agrees for m=" + std::to_string(m) + " n=" + std::to_string(n), {m, 30},
                {30, n}, {tensor(DType::f32, {n})}, R"({"activation": "gelu"})"));
    }
  }
}

void add_fused(std::vector<Case>& cases) {
  for (const DType dtype : kShortFloats) {
    const std::string text(name_of(dtype));
    cases.push_back(fused("bias and residual, " + text, {2, 17, 24}, {24, 36},
                          {tensor(dtype, {36}), tensor(dtype, {2, 17, 36})},
                          R"({"activation": "gelu_tanh"})", dtype));
    cases.push_back(fused("trans_w, " + text, {17, 24}, {36, 24}, {tensor(DType::f32, {36})},
                          R"({"trans_w": true})", dtype));
    cases.push_back(fused("m=1 with bias and residual, " + text, {1, 64}, {64, 40},
                          {tensor(dtype, {40}), tensor(dtype, {1, 40})},
                          R"({"activation": "silu"})", dtype));
  }
  const auto with_bias = [&](const Shape& bias) {
    cases.push_back(fused("T42 bias " + text_of(bias) + " broadcasts", {2, 5, 12}, {12, 8},
                          {tensor(DType::f32, bias)}, "{}"));
  };
  with_bias({8});
  with_bias({1});
  with_bias({});
  with_bias({5, 1});
  with_bias({2, 1, 8});
  with_bias({2, 5, 8});
  cases.push_back(fused("residual without bias broadcasts over rows", {6, 12}, {12, 8},
                        {std::nullopt, tensor(DType::f32, {8})}, "{}"));
  cases.push_back(fused("split-k keeps bias, activation and residual", {8, 2048}, {2048, 12},
                        {tensor(DType::f32, {12}), tensor(DType::f32, {8, 12})},
                        R"({"activation": "tanh"})"));
  cases.push_back(fused("n=3 columns with a bias", {50, 32}, {32, 3},
                        {tensor(DType::f32, {3}), tensor(DType::f32, {50, 3})},
                        R"({"activation": "relu"})"));
  for (const std::string activation : {"relu", "gelu", "silu", "tanh", "mish", "softplus"}) {
    cases.push_back(fused("T41 f64 with " + activation, {7, 12}, {12, 9}, {tensor(DType::f64, {9})},
                          R"({"activation": ")" + activation + "\"}", DType::f64));
  }
  cases.push_back(fused("T41 f64 m=1 with alpha", {1, 300}, {300, 9},
                        {tensor(DType::f64, {9}), tensor(DType::f64, {1, 9})},
                        R"({"activation": "elu", "alpha": 0.3})", DType::f64));
}

void add_complex(std::vector<Case>& cases) {
  const CaseTensor a = tensor(DType::c64, {2, 2}).of({1, 1, 2, -1, 0, -2, 3, 0});
  const CaseTensor b = tensor(DType::c64, {2, 2}).of({2, 0, 0, 1, 1, -1, -1, 0});
  const auto golden = [&](const std::string& attributes, std::vector<double> values) {
    cases.push_back(product("complex, against NumPy", a, b, attributes));
    cases.back().golden = {std::move(values)};
  };
  golden("{}", {3, -1, -3, 2, 3, -7, -1, 0});
  golden(R"({"trans_a": true})", {0, 0, -1, 3, 7, -5, -2, 2});
  golden(R"({"trans_b": true})", {3, 4, 0, 1, 0, -1, -5, -2});
  const auto add = [&](const Shape& left, const Shape& right,
                       const std::string& attributes = "{}") {
    cases.push_back(product("complex " + text_of(left) + " by " + text_of(right),
                            tensor(DType::c64, left), tensor(DType::c64, right), attributes));
  };
  add({65, 130}, {130, 67});
  add({130, 65}, {67, 130}, R"({"trans_a": true, "trans_b": true})");
  add({3, 1, 5, 7}, {4, 7, 6});
  add({7}, {7, 5});
  add({4, 7}, {7});
  add({7}, {7});
  add({2, 0}, {0, 3});
}

}  // namespace

std::vector<Case> matmul_cases() {
  std::vector<Case> cases;
  add_golden(cases);
  add_full_precision(cases);
  add_sizes(cases);
  add_tiles(cases);
  add_tensor_core_tiles(cases);
  add_narrow_pieces(cases);
  add_extreme_floats(cases);
  add_deep_floats(cases);
  add_dtypes(cases);
  add_batches(cases);
  add_edges(cases);
  add_largest_tiles(cases);
  add_wider_results(cases);
  add_activations(cases);
  add_fused(cases);
  add_complex(cases);
  // More tiles than one grid axis may count (65,535), in the flattened batch and in rows.
  cases.push_back(product("more workgroups than a grid axis holds",
                          tensor(DType::f32, {66000, 1, 2}), tensor(DType::f32, {66000, 2, 1})));
  return cases;
}

}  // namespace rlx::test
