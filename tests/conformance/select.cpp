// SPDX-License-Identifier: Apache-2.0
// Conformance of where, clamp, prelu and fma.
#include <limits>
#include <string>

#include "tests/conformance/elementwise.h"

namespace rlx::test {
namespace {

Case where(const std::string& law, CaseTensor condition, CaseTensor a, CaseTensor b) {
  return {.name = law + " " + to_string(condition.type) + " " + to_string(a.type) + " " +
                  to_string(b.type),
          .op = "where",
          .inputs = {std::move(condition), std::move(a), std::move(b)}};
}

void add_where(std::vector<Case>& cases) {
  for (DType condition :
       {DType::bool_, DType::i32, DType::f32, DType::f16, DType::u8, DType::i64}) {
    cases.push_back(where("T31 condition of any dtype", edges_of(condition, {211}),
                          tensor(DType::f32, {211}), tensor(DType::f32, {211})));
  }
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8,
                      DType::i16, DType::i32, DType::u32, DType::i64, DType::bool_}) {
    cases.push_back(where("T31 NaN in the branch not taken", tensor(DType::bool_, {127}),
                          edges_of(dtype, {127}), edges_of(dtype, {127})));
  }
  cases.push_back(where("T23 T31 three broadcasts", tensor(DType::bool_, {4, 1, 1}),
                        tensor(DType::f32, {1, 3, 1}), tensor(DType::f32, {1, 1, 5})));
  cases.push_back(where("T23 T31 three broadcasts", tensor(DType::bool_, {8}),
                        tensor(DType::f32, {3, 1}), tensor(DType::f32, {})));
  cases.push_back(where("T19 nothing to do", tensor(DType::bool_, {0}), tensor(DType::f32, {0}),
                        tensor(DType::f32, {1})));
  Case truth =
      where("T31 0.5 and NaN count as true", tensor(DType::f32, {4}).of({0.5, kNan, 0, -0.0}),
            tensor(DType::f32, {4}).of({1, 1, kNan, kInfinity}),
            tensor(DType::f32, {4}).of({kNan, kInfinity, 2, 2}));
  truth.golden = {{1, 1, 2, 2}};
  cases.push_back(std::move(truth));
}

Case clamp(const std::string& law, CaseTensor x, const std::string& attributes) {
  return {.name = law + " " + to_string(x.type) + " " + attributes,
          .op = "clamp",
          .inputs = {std::move(x)},
          .attributes = attributes,
          .tolerance = Tolerance::Arith};
}

void add_clamp(std::vector<Case>& cases) {
  for (DType dtype : kFloatDTypes)
    cases.push_back(clamp("T18 edges", tensor(dtype, {517}).edges(), R"({"min": -1.5, "max": 6})"));
  for (DType dtype : kIntegerDTypes) {
    cases.push_back(
        clamp("T18 integers", tensor(dtype, {517}).edges(), R"({"min": 1.5, "max": 6.5})"));
    cases.push_back(clamp("T18 bounds beyond the dtype", tensor(dtype, {517}).edges(),
                          R"({"min": -1e30, "max": 1e30})"));
  }
  cases.push_back(clamp("one bound", tensor(DType::f64, {57}).edges(), R"({"max": 0.1})"));
  cases.push_back(clamp("no bounds", tensor(DType::f32, {57}).edges(), "{}"));
  Case crossed = clamp("T18 lo > hi gives hi, NaN stays", tensor(DType::f32, {3}).of({0, 10, kNan}),
                       R"({"min": 3, "max": 2})");
  crossed.golden = {{2, 2, kNan}};
  cases.push_back(std::move(crossed));
  const auto x = tensor(DType::f32, {5, 7});
  cases.push_back({.name = "T18 bounds as inputs, broadcast",
                   .op = "clamp",
                   .inputs = {x, tensor(DType::f32, {7}).uniform(-1, 0),
                              tensor(DType::f32, {5, 1}).uniform(0, 1)},
                   .tolerance = Tolerance::Arith});
  cases.push_back({.name = "T18 only a maximum as input, minimum as attribute",
                   .op = "clamp",
                   .inputs = {x, std::nullopt, tensor(DType::f32, {}).of({0.25})},
                   .attributes = R"({"min": -0.5})",
                   .tolerance = Tolerance::Arith});
  cases.push_back({.name = "T18 a NaN bound gives NaN",
                   .op = "clamp",
                   .inputs = {x, tensor(DType::f32, {}).of({kNan})},
                   .tolerance = Tolerance::Arith});
  cases.push_back({.name = "T18 integer bounds as inputs",
                   .op = "clamp",
                   .inputs = {tensor(DType::i64, {64}).edges(), tensor(DType::i64, {1}).of({-2}),
                              tensor(DType::i64, {64}).edges()},
                   .tolerance = Tolerance::Exact});
}

void add_prelu(std::vector<Case>& cases) {
  for (DType dtype : kFloatDTypes) {
    cases.push_back({.name = "slope per channel, " + std::string(name_of(dtype)),
                     .op = "prelu",
                     .inputs = {tensor(dtype, {2, 3, 4, 5}).edges(), tensor(dtype, {3, 1, 1})},
                     .tolerance = Tolerance::Arith});
  }
}

void add_fma(std::vector<Case>& cases) {
  const auto add = [&](const std::string& law, CaseTensor a, CaseTensor b, CaseTensor c) {
    cases.push_back({.name = law + " " + to_string(a.type),
                     .op = "fma",
                     .inputs = {std::move(a), std::move(b), std::move(c)},
                     .tolerance = Tolerance::Exact});
  };
  add("one rounding", tensor(DType::f32, {4001}), tensor(DType::f32, {4001}),
      tensor(DType::f32, {4001}));
  add("one rounding", tensor(DType::f64, {1001}), tensor(DType::f64, {1001}),
      tensor(DType::f64, {1001}));
  // (1 + 2^-12)^2 - (1 + 2^-11) leaves the 2^-24 that a rounded product loses.
  Case cancelled{.name = "cancellation keeps the product's last bit",
                 .op = "fma",
                 .inputs = {tensor(DType::f32, {1}).of({1 + 0x1p-12}),
                            tensor(DType::f32, {1}).of({1 + 0x1p-12}),
                            tensor(DType::f32, {1}).of({-1 - 0x1p-11})}};
  cancelled.golden = {{0x1p-24}};
  cancelled.golden_tolerance = 1e-12;
  cases.push_back(std::move(cancelled));
}

}  // namespace

std::vector<Case> select_cases() {
  std::vector<Case> cases;
  add_where(cases);
  add_clamp(cases);
  add_prelu(cases);
  add_fma(cases);
  return cases;
}

}  // namespace rlx::test
