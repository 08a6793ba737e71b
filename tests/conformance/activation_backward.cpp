// SPDX-License-Identifier: Apache-2.0
// Conformance of activation_backward and relu_backward (ops.md 16.1). Golden values: PyTorch's
// formulas in f64.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> activation_backward_cases() {
  std::vector<Case> cases;
  struct Kind {
    const char* name;
    double low = -4;
    double high = 4;
    const char* attributes = "";
  };
  const std::array kKinds = {Kind{"neg"},
                             Kind{"abs"},
                             Kind{"sign"},
                             Kind{"floor"},
                             Kind{"ceil"},
                             Kind{"trunc"},
                             Kind{"round"},
                             Kind{"round", -4, 4, R"(, "ste": true)"},
                             Kind{"sqrt", 0.1, 9},
                             Kind{"rsqrt", 0.1, 9},
                             Kind{"reciprocal", 0.2, 4},
                             Kind{"square"},
                             Kind{"exp"},
                             Kind{"exp2"},
                             Kind{"expm1"},
                             Kind{"log", 0.1, 9},
                             Kind{"log2", 0.1, 9},
                             Kind{"log10", 0.1, 9},
                             Kind{"log1p", -0.8, 9},
                             Kind{"sin"},
                             Kind{"cos"},
                             Kind{"tan", -1.4, 1.4},
                             Kind{"asin", -0.9, 0.9},
                             Kind{"acos", -0.9, 0.9},
                             Kind{"atan"},
                             Kind{"sinh"},
                             Kind{"cosh"},
                             Kind{"tanh"},
                             Kind{"asinh"},
                             Kind{"acosh", 1.1, 5},
                             Kind{"atanh", -0.9, 0.9},
                             Kind{"erf"},
                             Kind{"lgamma", 0.1, 30},
                             Kind{"digamma", 0.1, 30},
                             Kind{"erfinv", -0.99, 0.99},
                             Kind{"erfcx"},
                             Kind{"ndtri", 0.001, 0.999},
                             Kind{"i0e", -20, 20},
                             Kind{"i1e", -20, 20},
                             Kind{"sigmoid"},
                             Kind{"log_sigmoid"},
                             Kind{"relu"},
                             Kind{"leaky_relu"},
                             Kind{"leaky_relu", -4, 4, R"(, "alpha": 0.3)"},
                             Kind{"elu"},
                             Kind{"elu", -4, 4, R"(, "alpha": 0.5)"},
                             Kind{"celu", -4, 4, R"(, "alpha": 2)"},
                             Kind{"selu"},
                             Kind{"gelu"},
                             Kind{"gelu_tanh"},
                             Kind{"silu"},
                             Kind{"swish", -4, 4, R"(, "alpha": 1.5)"},
                             Kind{"mish"},
                             Kind{"softplus", -4, 4, R"(, "beta": 2)"},
                             Kind{"softsign"},
                             Kind{"hard_sigmoid"},
                             Kind{"hard_swish"},
                             Kind{"thresholded_relu"},
                             Kind{"shrink"},
                             Kind{"clamp", -4, 4, R"(, "min": -1, "max": 2)"},
                             Kind{"clamp", -4, 4, R"(, "min": 0.5)"},
                             Kind{"affine", -4, 4, R"(, "mul": 3, "add": 1)"},
                             Kind{"powf", 0.2, 4, R"(, "exponent": 2.5)"}};
  const auto add = [&cases](const std::string& law, const Kind& kind, DType dtype,
                            const Shape& shape) {
    cases.push_back(
        {.name = law + " " + kind.name + kind.attributes,
         .op = "activation_backward",
         .inputs = {tensor(dtype, shape).uniform(kind.low, kind.high), tensor(dtype, shape)},
         .attributes = std::string(R"({"kind": ")") + kind.name + "\"" + kind.attributes + "}",
         .tolerance = Tolerance::Norm});
  };
  for (const Kind& kind : kKinds) add("f32", kind, DType::f32, {7, 19});
  for (const Kind& kind : {Kind{"gelu"}, Kind{"silu"}, Kind{"relu"}, Kind{"tanh"}}) {
    for (const DType dtype : {DType::f16, DType::bf16}) add("halves", kind, dtype, {5, 128});
  }
  for (const Kind& kind : {Kind{"gelu_tanh"}, Kind{"gelu"}, Kind{"sigmoid"}, Kind{"mish"},
                           Kind{"lgamma", 0.1, 30}, Kind{"digamma", 0.1, 30}, Kind{"i1e", -20, 20}})
    add("T156 doubles", kind, DType::f64, {3, 11});
  const auto golden = [&cases](const std::string& law, const std::string& kind,
                               std::vector<double> x, std::vector<double> dy,
                               std::vector<double> dx) {
    const Shape shape = {static_cast<int64_t>(x.size())};
    cases.push_back({.name = law,
                     .op = "activation_backward",
                     .inputs = {tensor(DType::f32, shape).of(std::move(x)),
                                tensor(DType::f32, shape).of(std::move(dy))},
                     .attributes = R"({"kind": ")" + kind + R"("})",
                     .tolerance = Tolerance::Norm,
                     .golden = {std::move(dx)}});
  };
  golden("T157 sqrt at 0 gives inf", "sqrt", {0, 4}, {2, 2}, {kInfinity, 0.5});
  golden("gelu", "gelu", {-1, 0.5, 3}, {1, 1, 1}, {-0.08331547, 0.8674951, 1.0119457});
  golden("T156 gelu_tanh", "gelu_tanh", {-1, 0.5, 3}, {1, 1, 1},
         {-0.08296405, 0.8673700, 1.0115838});
  golden("silu", "silu", {-1, 0.5, 3}, {1, 1, 1}, {0.07232949, 0.7399612, 1.0881041});
  golden("what relu stops is no product", "relu", {-1, 0, 2}, {kInfinity, kNan, 3}, {0, 0, 3});
  for (const DType dtype : kShortFloats) {
    cases.push_back({.name = "relu",
                     .op = "relu_backward",
                     .inputs = {tensor(dtype, {3, 5, 7}), tensor(dtype, {3, 5, 7})},
                     .tolerance = Tolerance::Norm});
  }
  return cases;
}

}  // namespace rlx::test
