// SPDX-License-Identifier: Apache-2.0
// adaptive_pool (ops.md 9.3).
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case pooled(const std::string& name, const std::string& kind, const CaseTensor& x,
            const std::string& out) {
  const bool exact = kind == "max" || kind == "min";
  return {.name = kind + ", " + name + ", " + to_string(x.type),
          .op = "adaptive_pool",
          .inputs = {x},
          .attributes = R"({"kind": ")" + kind + R"(", "out": )" + out + "}",
          .tolerance = exact ? Tolerance::Exact : Tolerance::Sum};
}

}  // namespace

std::vector<Case> adaptive_pool_cases() {
  std::vector<Case> cases;
  const DType f32 = DType::f32;
  for (const char* kind : {"max", "min", "sum", "mean", "prod"}) {
    const auto some = [](const Shape& shape) {
      return tensor(DType::f32, shape).uniform(0.5, 1.5);
    };
    cases.push_back(pooled("windows that overlap", kind, some({2, 3, 10, 7}), "[4, 3]"));
    cases.push_back(pooled("equal windows", kind, some({2, 3, 8, 6}), "[4, 2]"));
    cases.push_back(pooled("one window", kind, some({2, 3, 5, 7}), "[1, 1]"));
    cases.push_back(pooled("more windows than elements", kind, some({1, 2, 3}), "[7]"));
    cases.push_back(pooled("three dims, axis by axis", kind, some({1, 2, 9, 11, 13}), "[2, 3, 4]"));
  }
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    cases.push_back(pooled("windows that overlap", "mean", tensor(dtype, {1, 2, 11, 7}), "[4, 5]"));
    cases.push_back(pooled("windows that overlap", "max", tensor(dtype, {1, 2, 11, 7}), "[4, 5]"));
  }
  for (const DType dtype : {DType::i8, DType::u32, DType::i64})
    cases.push_back(pooled("integers", "max", tensor(dtype, {1, 2, 7, 5}), "[3, 2]"));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  cases.push_back(
      pooled("T17 NaN wins", "max", tensor(f32, {1, 1, 5}).of({1, nan, 3, 4, 5}), "[2]"));
  cases.push_back(pooled("T19 no images", "mean", tensor(f32, {0, 2, 5, 5}), "[3, 3]"));
  Case golden =
      pooled("against the formula", "mean", tensor(f32, {1, 1, 5}).of({1, 2, 3, 4, 5}), "[3]");
  golden.golden = {{1.5, 3, 4.5}};
  cases.push_back(golden);
  return cases;
}

}  // namespace rlx::test
