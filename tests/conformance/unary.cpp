// SPDX-License-Identifier: Apache-2.0
// Conformance of the unary ops: every op on every float dtype, all f16 values, and the traps of
// ops.md 20.
#include <limits>
#include <string>

#include "tests/conformance/elementwise.h"

namespace rlx::test {
namespace {

std::vector<double> all_f16_values() {
  std::vector<double> values(65536);
  for (uint32_t bits = 0; bits < 65536; ++bits)
    values[bits] = double_from_f16(static_cast<uint16_t>(bits));
  return values;
}

Case unary(const std::string& law, const UnaryOp& op, CaseTensor x) {
  return {.name = law + " " + op.name + " " + std::string(name_of(x.type.dtype)),
          .op = op.name,
          .inputs = {std::move(x)},
          .attributes = op.attributes,
          .tolerance = op.tolerance};
}

void add_floats(std::vector<Case>& cases) {
  const std::vector<double> halves = all_f16_values();
  for (const UnaryOp& op : unary_float_ops()) {
    cases.push_back(unary("all values of", op, tensor(DType::f16, {65536}).of(halves)));
    cases.push_back(unary("edges of", op, tensor(DType::f32, {4099}).edges()));
    cases.push_back(unary("edges of", op, tensor(DType::bf16, {1021}).edges()));
    cases.push_back(unary("values around 0 of", op, tensor(DType::f32, {37, 53}).uniform(-4, 4)));
    cases.push_back(unary("values around 1 of", op, tensor(DType::f32, {997}).uniform(0.9, 1.1)));
    cases.push_back(
        unary("T16 large values of", op, tensor(DType::f32, {1009}).uniform(-1048576, 1048576)));
    cases.push_back(unary("edges of", op, tensor(DType::f64, {127}).edges()));
    cases.push_back(unary("values around 0 of", op, tensor(DType::f64, {503}).uniform(-4, 4)));
    cases.push_back(
        unary("T16 large values of", op, tensor(DType::f64, {251}).uniform(-1048576, 1048576)));
  }
}

void add_integers(std::vector<Case>& cases) {
  for (const char* name :
       {"neg", "abs", "sign", "floor", "round", "square", "relu", "bitwise_not"}) {
    for (DType dtype : kIntegerDTypes) {
      cases.push_back(unary("wraps at the ends of", {name}, tensor(dtype, {257}).edges()));
    }
  }
  cases.push_back(unary("negation of", {"logical_not"}, tensor(DType::bool_, {131})));
}

void add_shapes(std::vector<Case>& cases) {
  for (const Shape& shape : std::vector<Shape>{
           {}, {1}, {3}, {5}, {0}, {4, 0, 3}, {1, 1, 1}, {2, 3, 1, 2, 3, 2, 1, 2}, {127, 129}}) {
    cases.push_back(unary("T19 T20 shape " + to_string(shape) + " of", {"exp", Tolerance::Transc},
                          tensor(DType::f32, shape)));
    cases.push_back(
        unary("shape " + to_string(shape) + " of", {"neg"}, tensor(DType::bf16, shape)));
  }
  cases.push_back(unary("several items per thread of", {"abs"}, tensor(DType::u8, {2500003})));
  cases.push_back(unary("several items per thread of", {"square", Tolerance::Arith},
                        tensor(DType::f16, {9000001})));
}

Case golden(const std::string& law, const UnaryOp& op, std::vector<double> x,
            std::vector<double> y) {
  const auto count = static_cast<int64_t>(x.size());
  Case test = unary(law, op, tensor(DType::f32, {count}).of(std::move(x)));
  test.golden = {std::move(y)};
  return test;
}

void add_golden(std::vector<Case>& cases) {
  struct Row {
    const char* name;
    std::vector<double> y;
  };
  const std::vector<Row> rows = {
      {"gelu", {-0.1586553, 0.3457312, 2.99595}},    {"gelu_tanh", {-0.158808, 0.345714, 2.996363}},
      {"silu", {-0.2689414, 0.3112297, 2.857722}},   {"mish", {-0.3034015, 0.3752452, 2.986535}},
      {"softplus", {0.3132617, 0.974077, 3.048587}}, {"selu", {-1.111331, 0.5253505, 3.152103}},
      {"hard_swish", {-0.3333333, 0.2916667, 3}}};
  for (const Row& row : rows) {
    cases.push_back(
        golden("T28 golden values of", {row.name, Tolerance::Transc}, {-1, 0.5, 3}, row.y));
  }
  cases.push_back(golden("T26 ties go to even in", {"round"}, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5},
                         {-2, -2, -0.0, 0, 2, 2}));
  cases.push_back(golden("T28 far tail of", {"gelu", Tolerance::Transc},
                         {-10, -kInfinity, kInfinity, kNan}, {-7.6e-23, 0, kInfinity, kNan}));
  cases.push_back(golden("T16 large angles of", {"sin", Tolerance::Transc}, {1000, 1048576},
                         {0.82687954, 0.33049314}));
  cases.push_back(golden("T16 large angles of", {"cos", Tolerance::Transc}, {20000, 1000},
                         {0.81319969, 0.56237908}));
  cases.push_back(golden("T16 small result of", {"exp", Tolerance::Transc},
                         {-80, kInfinity, -kInfinity}, {1.8048514e-35, kInfinity, 0}));
  cases.push_back(golden("T16 near 1 of", {"log", Tolerance::Transc}, {0.99999994, 0, -1},
                         {-5.9604645e-8, -kInfinity, kNan}));
  cases.push_back(golden("T16 near 0 of", {"atan", Tolerance::Transc}, {1e-3, kInfinity},
                         {9.9999967e-4, 1.5707963}));
  cases.push_back(golden("T16 saturation of", {"tanh", Tolerance::Transc}, {9, 100, -kInfinity},
                         {0.99999997, 1, -1}));
  cases.push_back(
      golden("T17 NaN through", {"relu", Tolerance::Arith}, {kNan, -3, 2}, {kNan, 0, 2}));
  cases.push_back(golden("T29 golden values of", {"erf", Tolerance::Transc}, {-1, 0.5, 3},
                         {-0.8427008, 0.5204999, 0.9999779}));
  // To all digits of f64, from Python's math.
  const auto golden64 = [&cases](const UnaryOp& op, std::vector<double> x, std::vector<double> y) {
    const auto count = static_cast<int64_t>(x.size());
    cases.push_back(unary("golden values of", op, tensor(DType::f64, {count}).of(std::move(x))));
    cases.back().golden = {std::move(y)};
    cases.back().golden_tolerance = 1e-15;
  };
  const Tolerance transc = Tolerance::Transc;
  golden64({"exp", transc}, {-0.7, 1.0, 20.5},
           {0.4965853037914095, 2.718281828459045, 799902177.4755054});
  golden64({"log", transc}, {0.3, 1.0000001, 7e+200},
           {-1.2039728043259361, 9.999999505838704e-08, 462.46292874786445});
  golden64({"sin", transc}, {0.5, 100000.0, 1e+22},
           {0.479425538604203, 0.03574879797201651, -0.8522008497671888});
  golden64({"tanh", transc}, {-0.01, 0.9, 3.0},
           {-0.00999966667999946, 0.7162978701990245, 0.9950547536867305});
  golden64({"erf", transc}, {-1.5, 0.25, 3.5},
           {-0.9661051464753108, 0.2763263901682369, 0.9999992569016276});
  // From mpmath.
  golden64({"lgamma", transc}, {0.5, 10.25, -1.5},
           {0.5723649429247001, 13.368023671476045, 0.860047015376481});
  golden64({"digamma", Tolerance::TranscOfTerms}, {0.25, 10.5, -0.75},
           {-4.2274535333762655, 2.3030010342976865, -2.894120200042932});
  golden64({"trigamma", transc}, {0.25, 12.5, -0.75},
           {17.19732915450711, 0.08328522460157838, 18.975106932284888});
  golden64({"erfinv", transc}, {-0.5, 0.125, 0.99999},
           {-0.4769362762044699, 0.11123545184094996, 3.123413274341571});
  golden64({"erfcx", transc}, {-1.5, 0.75, 40.0},
           {18.653886256262734, 0.5069376502931449, 0.014100335983377814});
  golden64({"ndtri", transc}, {1e-30, 0.025, 0.75},
           {-11.464024688443615, -1.9599639845400543, 0.6744897501960817});
  golden64({"i0e", transc}, {-0.5, 10.0, 100.0},
           {0.6450352704491501, 0.1278333371634286, 0.03994437929909668});
  golden64({"i1e", transc}, {-0.5, 10.0, 100.0},
           {-0.1564208031848717, 0.12126268138445552, 0.03974415302513025});
  // Where they have no value, and where f32 has none of p or of 1 - p left.
  cases.push_back(golden("edges of", {"lgamma", transc}, {0, -3, -kInfinity, kInfinity, 1e36},
                         {kInfinity, kInfinity, kInfinity, kInfinity, 8.18930602e+37}));
  cases.push_back(golden("edges of", {"digamma", Tolerance::TranscOfTerms},
                         {0, -0.0, -3, kInfinity}, {-kInfinity, kInfinity, kNan, kInfinity}));
  cases.push_back(golden("edges of", {"ndtri", transc}, {0, 1, 1e-37, 0.5, 1.5},
                         {-kInfinity, kInfinity, -12.7845567, 0, kNan}));
  cases.push_back(
      golden("edges of", {"erfinv", transc}, {1, -1, 1.5}, {kInfinity, -kInfinity, kNan}));
  cases.push_back(golden("T30 constant exponent of", {"powf", Tolerance::Pow, R"({"exponent": 3})"},
                         {-2, 2, 0}, {-8, 8, 0}));
}

void add_flags(std::vector<Case>& cases) {
  for (const char* attributes :
       {R"({})", R"({"detect_negative": false})", R"({"detect_positive": false})",
        R"({"detect_negative": false, "detect_positive": false})"}) {
    cases.push_back(unary(std::string("edges with ") + attributes,
                          {"is_inf", Tolerance::Exact, attributes},
                          tensor(DType::f32, {211}).edges()));
  }
  for (DType dtype : kFloatDTypes)
    cases.push_back(unary("edges of", {"is_nan"}, tensor(dtype, {211}).edges()));
}

void add_complex(std::vector<Case>& cases) {
  const auto add = [&cases](const char* op, CaseTensor x, Tolerance tolerance) {
    cases.push_back({.name = std::string("complex ") + op,
                     .op = op,
                     .inputs = {std::move(x)},
                     .tolerance = tolerance});
  };
  add("neg", tensor(DType::c64, {515}).edges(), Tolerance::Arith);
  add("abs", tensor(DType::c64, {515}).edges(), Tolerance::ArithDiv);
  add("abs", tensor(DType::c64, {6}).of({3, -4, 3e30, 4e30, 3e-30, 4e-30, 0, 0, 0, -2, 5, 0}),
      Tolerance::ArithDiv);
  cases.back().golden = {{5, 5e30, 5e-30, 0, 2, 5}};
  // Against NumPy.
  const CaseTensor some =
      tensor(DType::c64, {7}).of({1, 2, -3, 0.5, 0.6, 0.8, -0.0, -2, 1e-30, 2e-30, 0, 0, -4, 0});
  add("exp", some, Tolerance::Transc);
  cases.back().golden = {{-1.13120438, 2.47172667, 0.043692263, 0.0238691921, 1.26948241,
                          1.30710807, -0.416146837, -0.909297427, 1, 2e-30, 1, 0, 0.0183156389, 0}};
  add("log", some, Tolerance::Transc);
  cases.back().golden = {{0.804718956, 1.10714872, 1.11231178, 2.97644398, 2.38418577e-08,
                          0.927295206, 0.693147181, -1.57079633, -68.2728338, 1.10714872,
                          -kInfinity, 0, 1.38629436, 3.14159265}};
  add("sqrt", some, Tolerance::ArithDiv);
  cases.back().golden = {{1.27201965, 0.786151378, 0.143842388, 1.73801342, 0.894427204,
                          0.447213595, 1, -1, 1.27201965e-15, 7.86151379e-16, 0, 0, 0, 2}};
  for (const char* op : {"exp", "log", "sqrt"}) {
    add(op, tensor(DType::c64, {2053}).edges(), Tolerance::Transc);
    add(op, tensor(DType::c64, {5, 411}), Tolerance::Transc);
  }
  // e^re overflows, or its half, where a part of the result need not.
  add("exp",
      tensor(DType::c64, {6}).of({89, 1.5707964, 100, 3.1415927, -110, 1, 176, 0.5, 88, 20, 95, 0}),
      Tolerance::Transc);
  add("log", tensor(DType::c64, {4}).of({3e38, 3e38, 1.0000001, 1e-5, 0.7071068, -0.7071067, 2, 0}),
      Tolerance::Transc);
  add("sqrt", tensor(DType::c64, {3}).of({3e38, 3e38, -1, -0.0, -1e-30, 2e-38}),
      Tolerance::ArithDiv);
}

}  // namespace

std::vector<UnaryOp> unary_float_ops() {
  const Tolerance exact = Tolerance::Exact;
  const Tolerance transc = Tolerance::Transc;
  std::vector<UnaryOp> ops = {
      {"neg", exact},
      {"abs", exact},
      {"sign", exact},
      {"floor", exact},
      {"ceil", exact},
      {"trunc", exact},
      {"round", exact},
      {"sqrt", Tolerance::ArithDiv},
      {"rsqrt", Tolerance::ArithDiv},
      {"reciprocal", Tolerance::ArithDiv},
      {"square", Tolerance::Arith},
      {"relu", Tolerance::Arith},
      {"leaky_relu", Tolerance::Arith, R"({"alpha": 0.25})"},
      {"elu", transc, R"({"alpha": 0.7})"},
      {"celu", transc, R"({"alpha": 0.7})"},
      {"selu", transc},
      {"swish", transc, R"({"alpha": 1.7})"},
      {"softplus", transc, R"({"beta": 2})"},
      {"hard_sigmoid", transc, R"({"alpha": 0.3, "beta": 0.4})"},
      {"hard_swish", transc},
      {"thresholded_relu", Tolerance::Arith, R"({"alpha": 0.5})"},
      {"shrink", Tolerance::Arith, R"({"lambd": 0.25, "bias": 0.125})"},
      {"affine", Tolerance::Arith, R"({"mul": 1.7, "add": -0.3})"},
      {"powf", Tolerance::Pow, R"({"exponent": 2.5})"},
      {"powf", Tolerance::Pow, R"({"exponent": 2})"},
      {"powf", Tolerance::Pow, R"({"exponent": -3})"},
      {"softsign", transc},
  };
  for (const char* name :
       {"exp",    "exp2",      "expm1", "log",   "log2",        "log10",  "log1p",
        "sin",    "cos",       "tan",   "asin",  "acos",        "atan",   "sinh",
        "cosh",   "tanh",      "asinh", "acosh", "atanh",       "erf",    "sigmoid",
        "gelu",   "gelu_tanh", "silu",  "mish",  "log_sigmoid", "lgamma", "trigamma",
        "erfinv", "erfcx",     "ndtri", "i0e",   "i1e"}) {
    ops.push_back({name, transc});
  }
  ops.push_back({"digamma", Tolerance::TranscOfTerms});
  return ops;
}

std::vector<Case> unary_cases() {
  std::vector<Case> cases;
  add_floats(cases);
  add_integers(cases);
  add_shapes(cases);
  add_golden(cases);
  add_flags(cases);
  add_complex(cases);
  return cases;
}

}  // namespace rlx::test
