// SPDX-License-Identifier: Apache-2.0
// pool and global_pool (ops.md 9.3; traps T107 to T110, T17).
#include <array>
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

constexpr std::array kKinds = {"max", "min", "sum", "mean", "prod"};

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

Case pool(std::string name, const std::string& kind, const CaseTensor& x, const std::string& rest) {
  const bool exact = kind == "max" || kind == "min";
  return {.name = std::move(name),
          .op = "pool",
          .inputs = {x},
          .attributes = R"({"kind": )" + quoted(kind) + ", " + rest + "}",
          .tolerance = exact ? Tolerance::Exact : Tolerance::Sum};
}

CaseTensor ones(const Shape& shape) {
  return tensor(DType::f32, shape)
      .of(std::vector<double>(static_cast<size_t>(element_count(shape)), 1));
}

void add_kinds(std::vector<Case>& cases) {
  for (const char* kind : kKinds) {
    const std::string text(kind);
    for (const DType dtype : kShortFloats) {
      cases.push_back(pool("T108 " + text + " " + std::string(name_of(dtype)), kind,
                           tensor(dtype, {2, 3, 8, 9}).uniform(-1, 1),
                           R"("kernel": [3, 2], "stride": [2, 2], "pads": [1, 0, 1, 1])"));
    }
    cases.push_back(pool("T107 " + text + " without stride moves by 1", kind,
                         tensor(DType::f32, {1, 2, 5, 5}).uniform(-1, 1), R"("kernel": [2, 2])"));
    cases.push_back(pool(text + " 1-d with dilation", kind,
                         tensor(DType::f32, {2, 3, 17}).uniform(-1, 1),
                         R"("kernel": [3], "stride": [2], "dilation": [2], "pads": [1, 2])"));
    cases.push_back(pool(text + " 3-d", kind, tensor(DType::f32, {1, 2, 5, 6, 4}).uniform(-1, 1),
                         R"("kernel": [2, 3, 2])"));
    cases.push_back(pool(text + " large window, a workgroup each", kind,
                         tensor(DType::f32, {2, 2, 12, 14}).uniform(0.9, 1.1),
                         R"("kernel": [11, 12], "pads": [1, 1])"));
    cases.push_back(pool(text + " window without taps", kind, tensor(DType::f32, {1, 1, 3}),
                         R"("kernel": [1], "pads": [2])"));
    cases.push_back(pool(text + " f64", kind, tensor(DType::f64, {1, 2, 6, 6}).uniform(-1, 1),
                         R"("kernel": [3, 3])"));
    cases.push_back(
        pool(text + " empty batch", kind, tensor(DType::f32, {0, 2, 6, 6}), R"("kernel": [3, 3])"));
  }
}

void add_means(std::vector<Case>& cases) {
  for (const bool count_pads : {false, true}) {
    const std::string flag =
        std::string(R"("count_include_pad": )") + (count_pads ? "true" : "false");
    Case corner = pool("T109 corner of a 4x4 of ones, " + flag, "mean", ones({1, 1, 4, 4}),
                       R"("kernel": [3, 3], "stride": [4, 4], "pads": [1, 1], )" + flag);
    corner.golden = {{count_pads ? 4.0 / 9 : 1.0}};
    cases.push_back(corner);
    Case overhang = pool("T110 the overhang of ceil_mode never counts, " + flag, "mean",
                         tensor(DType::f32, {1, 1, 6}).of({1, 2, 3, 4, 5, 6}),
                         R"("kernel": [3], "stride": [2], "ceil_mode": true, )" + flag);
    overhang.golden = {{2, 4, 5.5}};
    cases.push_back(overhang);
  }
  Case dropped = pool("T110 a window that starts beyond the input is dropped", "max",
                      tensor(DType::f32, {1, 1, 4}).of({1, 2, 3, 4}),
                      R"("kernel": [2], "stride": [3], "pads": [1, 1], "ceil_mode": true)");
  dropped.golden = {{1, 4}};
  cases.push_back(dropped);
  cases.push_back(pool("divisor_override", "mean", tensor(DType::f32, {1, 2, 6, 6}),
                       R"("kernel": [2, 2], "divisor_override": 3)"));
}

void add_extremes(std::vector<Case>& cases) {
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::i32, DType::u32, DType::i64}) {
    for (const char* kind : {"max", "min"}) {
      cases.push_back(pool(std::string(kind) + " of " + std::string(name_of(dtype)), kind,
                           tensor(dtype, {1, 2, 6, 7}),
                           R"("kernel": [3, 3], "pads": [1, 1], "stride": [2, 2])"));
      cases.push_back(
          pool(std::string(kind) + " of " + std::string(name_of(dtype)) + " without taps", kind,
               tensor(dtype, {1, 1, 3}), R"("kernel": [1], "pads": [2])"));
    }
  }
  const std::vector<double> with_nan = {1, kNan, 3, 4, 5, -1, 7, 8, 2};
  for (const char* kind : {"max", "min"}) {
    cases.push_back(pool(std::string("T17 NaN wins for ") + kind, kind,
                         tensor(DType::f32, {1, 1, 3, 3}).of(with_nan), R"("kernel": [2, 2])"));
  }
  for (const char* dtype : {"i32", "i64", "u32", "f32"}) {
    Case test = pool(
        std::string("indices as ") + dtype, "max", tensor(DType::f32, {2, 2, 7, 6}).range(0, 3),
        R"("kernel": [3, 3], "stride": [2, 2], "pads": [1, 1], "index_dtype": )" + quoted(dtype));
    test.outputs = 2;
    cases.push_back(test);
  }
  Case large = pool("indices of a large window with ties", "max",
                    tensor(DType::f32, {1, 2, 12, 12}).range(0, 3), R"("kernel": [10, 10])");
  large.outputs = 2;
  cases.push_back(large);
  Case nan = pool("T17 index of the first NaN", "max",
                  tensor(DType::f32, {1, 1, 3, 3}).of(with_nan), R"("kernel": [3, 3])");
  nan.outputs = 2;
  nan.golden = {{kNan}, {1}};
  cases.push_back(nan);
}

void add_global(std::vector<Case>& cases) {
  for (const char* kind : kKinds) {
    for (const Shape& shape : {Shape{2, 3, 7}, Shape{2, 3, 7, 5}, Shape{1, 2, 3, 4, 5}}) {
      const bool exact = std::string(kind) == "max" || std::string(kind) == "min";
      cases.push_back({.name = std::string("global ") + kind + " over " + to_string(shape),
                       .op = "global_pool",
                       .inputs = {tensor(DType::f32, shape).uniform(-1.5, 1.5)},
                       .attributes = R"({"kind": )" + quoted(kind) + "}",
                       .tolerance = exact ? Tolerance::Exact : Tolerance::Sum});
    }
  }
}

}  // namespace

std::vector<Case> pool_cases() {
  std::vector<Case> cases;
  add_kinds(cases);
  add_means(cases);
  add_extremes(cases);
  add_global(cases);
  return cases;
}

}  // namespace rlx::test
