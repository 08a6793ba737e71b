// SPDX-License-Identifier: Apache-2.0
// Conformance of complex_norm_sq, conjugate, complex, real, imag and angle (ops.md 11.2), and of
// what complex products are made of.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> complex_parts_cases() {
  std::vector<Case> cases;
  const CaseTensor known = tensor(DType::c64, {2}).of({3, -4, -0.5, 2});
  const auto add = [&cases](const std::string& law, const std::string& op, const CaseTensor& z,
                            Tolerance tolerance, std::vector<std::vector<double>> golden = {}) {
    cases.push_back({.name = law + " " + to_string(z.type),
                     .op = op,
                     .inputs = {z},
                     .tolerance = tolerance,
                     .golden = std::move(golden)});
  };
  add("values", "complex_norm_sq", known, Tolerance::Sum, {{25, 4.25}});
  add("values", "conjugate", known, Tolerance::Exact, {{3, 4, -0.5, -2}});
  add("values", "real", known, Tolerance::Exact, {{3, -0.5}});
  add("values", "imag", known, Tolerance::Exact, {{-4, 2}});
  add("values", "angle", tensor(DType::c64, {4}).of({1, 2, -3, 0.5, 0, 0, -4, 0}),
      Tolerance::Transc, {{1.10714872, 2.97644398, 0, 3.14159265}});
  add("T127 8 bytes an element", "angle", tensor(DType::c64, {33, 65}).edges(), Tolerance::Transc);
  add("T127 8 bytes an element", "complex_norm_sq", tensor(DType::c64, {33, 65}), Tolerance::Sum);
  for (const std::string op : {"conjugate", "real", "imag"}) {
    add("T127 8 bytes an element", op, tensor(DType::c64, {33, 65}).edges(), Tolerance::Exact);
    add("T19 empty", op, tensor(DType::c64, {0, 3}), Tolerance::Exact);
  }
  cases.push_back(
      {.name = "values",
       .op = "complex",
       .inputs = {tensor(DType::f32, {2}).of({1, 2}), tensor(DType::f32, {2}).of({-3, 0})},
       .golden = {{1, -3, 2, 0}}});
  cases.push_back({.name = "special values",
                   .op = "complex",
                   .inputs = {tensor(DType::f32, {40}).edges(), tensor(DType::f32, {40}).edges()}});
  cases.push_back({.name = "T22 parts of other shapes",
                   .op = "complex",
                   .inputs = {tensor(DType::f32, {3, 1, 5}), tensor(DType::f32, {4, 1})}});
  add("values", "parts_of_complex", known, Tolerance::Exact, {{3, -4, -0.5, 2}});
  add("rows", "parts_of_complex", tensor(DType::c64, {3, 2, 5}).edges(), Tolerance::Exact);
  add("T19 empty", "parts_of_complex", tensor(DType::c64, {0, 3}), Tolerance::Exact);
  add("values", "complex_of_parts", tensor(DType::f32, {4}).of({1, -3, 2, 0}), Tolerance::Exact,
      {{1, -3, 2, 0}});
  add("rows", "complex_of_parts", tensor(DType::f32, {3, 2, 10}).edges(), Tolerance::Exact);
  return cases;
}

}  // namespace rlx::test
