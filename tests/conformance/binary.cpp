// SPDX-License-Identifier: Apache-2.0
// Conformance of binary, compare and logical ops: dtypes, edges, broadcasting.
#include <limits>
#include <string>
#include <utility>

#include "tests/conformance/elementwise.h"

namespace rlx::test {
namespace {

struct BinaryOp {
  const char* name;
  Tolerance tolerance = Tolerance::Exact;
};

// max and min are held to class arith: which zero comes out is free.
constexpr BinaryOp kArithmetic[] = {
    {"add", Tolerance::Arith},          {"sub", Tolerance::Arith},
    {"mul", Tolerance::Arith},          {"div", Tolerance::ArithDiv},
    {"max", Tolerance::Arith},          {"min", Tolerance::Arith},
    {"floor_div", Tolerance::ArithDiv}, {"mod", Tolerance::Arith},
    {"fmod", Tolerance::Arith},         {"pow", Tolerance::Pow}};
constexpr const char* kComparisons[] = {"eq", "ne", "lt", "le", "gt", "ge"};

Case binary(const std::string& law, const BinaryOp& op, CaseTensor a, CaseTensor b) {
  const bool real = is_float(a.type.dtype);
  return {.name = law + " " + op.name + " " + to_string(a.type) + " " + to_string(b.type),
          .op = op.name,
          .inputs = {std::move(a), std::move(b)},
          .tolerance = real ? op.tolerance : Tolerance::Exact};
}

void add_floats(std::vector<Case>& cases) {
  const auto add = [&](const BinaryOp& op, DType dtype, int64_t count) {
    cases.push_back(
        binary("edges of", op, tensor(dtype, {count}).edges(), tensor(dtype, {count}).edges()));
  };
  for (DType dtype : kFloatDTypes) {
    for (const BinaryOp& op : kArithmetic) add(op, dtype, 2053);
    add({"atan2", Tolerance::Transc}, dtype, 2053);
    for (const char* name : kComparisons) add({name}, dtype, 2053);
  }
  for (const BinaryOp& op : kArithmetic) add(op, DType::f64, 257);
  add({"atan2", Tolerance::Transc}, DType::f64, 257);
  for (const char* name : kComparisons) add({name}, DType::f64, 257);
  for (const BinaryOp& op : kArithmetic) {
    cases.push_back(binary("moderate values of", op, tensor(DType::f32, {31, 33}).uniform(0.1, 30),
                           tensor(DType::f32, {31, 33}).uniform(-7, 7)));
    cases.push_back(binary("moderate values of", op, tensor(DType::f64, {511}).uniform(0.1, 30),
                           tensor(DType::f64, {511}).uniform(-7, 7)));
  }
}

void add_integers(std::vector<Case>& cases) {
  for (DType dtype : kIntegerDTypes) {
    for (const BinaryOp& op : kArithmetic) {
      cases.push_back(binary("wraps, no division traps:", op, tensor(dtype, {1031}).edges(),
                             tensor(dtype, {1031}).edges()));
    }
    for (const char* name : kComparisons) {
      cases.push_back(
          binary("edges of", {name}, tensor(dtype, {517}).edges(), tensor(dtype, {517}).edges()));
    }
    for (const char* name : {"bitwise_and", "bitwise_or", "bitwise_xor"}) {
      cases.push_back(
          binary("edges of", {name}, tensor(dtype, {517}).edges(), tensor(dtype, {517}).edges()));
    }
    for (const char* name : {"shift_left", "shift_right"}) {
      cases.push_back(binary("amounts in and out of range for", {name},
                             tensor(dtype, {517}).edges(), tensor(dtype, {517}).range(0, 66)));
      cases.push_back(
          binary("edges of", {name}, tensor(dtype, {517}).edges(), tensor(dtype, {517}).edges()));
    }
    cases.push_back(binary("small exponents of", {"pow"}, tensor(dtype, {517}),
                           tensor(dtype, {517}).range(0, 9)));
  }
  for (const char* name : {"logical_and", "logical_or", "logical_xor", "eq", "ne"}) {
    cases.push_back(
        binary("truth table of", {name}, tensor(DType::bool_, {131}), tensor(DType::bool_, {131})));
  }
  for (DType exponent : {DType::i32, DType::i64, DType::u8}) {
    cases.push_back(binary("float base, integer exponent:", {"pow", Tolerance::Pow},
                           tensor(DType::f32, {257}).edges(),
                           tensor(exponent, {257}).range(0, 20)));
  }
}

void add_broadcasts(std::vector<Case>& cases) {
  const std::vector<std::pair<Shape, Shape>> shapes = {
      {{4, 1}, {4, 3}},
      {{1, 3, 1, 2}, {2, 3, 5, 2}},
      {{1, 4}, {4, 1}},
      {{}, {5, 7}},
      {{5, 7}, {}},
      {{}, {}},
      {{1}, {1}},
      {{128}, {33, 128}},
      {{33, 128}, {33, 1}},
      {{3, 1, 5}, {3, 4, 5}},
      {{7, 1, 64}, {7, 9, 64}},
      {{0, 5}, {1, 5}},
      {{3, 0}, {3, 1}},
      {{1001}, {13, 1001}},
      {{2, 1, 2, 3, 1, 2, 2, 4}, {2, 3, 1, 3, 2, 2, 1, 4}},
      {{8, 16, 4}, {16, 1}},
      {{6}, {1, 1, 1, 1, 1, 1, 1, 6}}};
  for (const auto& [a, b] : shapes) {
    cases.push_back(binary("T22 T23 broadcast", {"add", Tolerance::Arith}, tensor(DType::f32, a),
                           tensor(DType::f32, b)));
    cases.push_back(binary("T22 T23 broadcast", {"sub", Tolerance::Arith}, tensor(DType::f16, a),
                           tensor(DType::f16, b)));
    cases.push_back(
        binary("T22 T23 broadcast", {"sub"}, tensor(DType::i8, a), tensor(DType::i8, b)));
    cases.push_back(
        binary("T22 T23 broadcast", {"mul"}, tensor(DType::i64, a), tensor(DType::i64, b)));
    cases.push_back(
        binary("T22 T23 broadcast", {"lt"}, tensor(DType::i16, a), tensor(DType::i16, b)));
  }
}

Case golden(const std::string& law, const BinaryOp& op, std::vector<double> a,
            std::vector<double> b, std::vector<double> y) {
  const auto count = static_cast<int64_t>(a.size());
  Case test = binary(law, op, tensor(DType::f32, {count}).of(std::move(a)),
                     tensor(DType::f32, {count}).of(std::move(b)));
  test.golden = {std::move(y)};
  return test;
}

void add_traps(std::vector<Case>& cases) {
  cases.push_back(golden("T17 NaN wins in", {"max", Tolerance::Arith}, {kNan, 1, 2}, {1, kNan, 3},
                         {kNan, kNan, 3}));
  cases.push_back(golden("T17 NaN wins in", {"min", Tolerance::Arith}, {1, kNan, 2}, {kNan, 1, 3},
                         {kNan, kNan, 2}));
  cases.push_back(golden("T30 special cases of", {"pow", Tolerance::Pow},
                         {-2, -2, 0, kNan, 2, 1, -1, 0}, {3, 0.5, 0, 0, -1, kNan, kInfinity, -1},
                         {-8, kNan, 1, 1, 0.5, 1, 1, kInfinity}));
  cases.push_back(
      golden("T16 long power of", {"pow", Tolerance::Pow}, {1.0001}, {10000}, {2.7184196}));
  cases.back().golden_tolerance = 1e-4;  // 1.0001 is rounded to f32 first
  Case power = binary("T30 integer power with negative exponent", {"pow"},
                      tensor(DType::i32, {5}).of({2, 1, -1, 0, -1}),
                      tensor(DType::i32, {5}).of({-1, -5, -3, -2, -2}));
  power.golden = {{0, 1, -1, 0, 1}};
  cases.push_back(std::move(power));
  const int64_t big = int64_t{1} << 53;
  Case equal =
      binary("T9 eq is exact beyond 2^53", {"eq"}, tensor(DType::i64, {2}).of_integers({big, big}),
             tensor(DType::i64, {2}).of_integers({big + 1, big}));
  equal.golden = {{0, 1}};
  cases.push_back(std::move(equal));
  Case less = binary("T9 lt of u32 is unsigned", {"lt"},
                     tensor(DType::u32, {2}).of_integers({0x80000000, 1}),
                     tensor(DType::u32, {2}).of_integers({1, 0x80000000}));
  less.golden = {{0, 1}};
  cases.push_back(std::move(less));
}

void add_complex(std::vector<Case>& cases) {
  const auto add = [&](const std::string& law, const std::string& op, CaseTensor a, CaseTensor b) {
    cases.push_back(binary(law, {op.c_str()}, std::move(a), std::move(b)));
    cases.back().name = law + " " + to_string(cases.back().inputs[0]->type);
    cases.back().op = op;
    const bool exact = op == "eq" || op == "ne";
    cases.back().tolerance = exact ? Tolerance::Exact : Tolerance::Sum;
  };
  const CaseTensor plain = tensor(DType::c64, {515});
  for (const char* op : {"add", "sub", "mul", "div"}) {
    add("complex", op, plain, plain);
    add("complex row and column", op, tensor(DType::c64, {5, 1}), tensor(DType::c64, {7}));
  }
  for (const char* op : {"eq", "ne"}) {
    add("complex with NaN", op, plain.edges(), plain.edges());
    add("one part differs", op, tensor(DType::c64, {4}).of({1, 2, 1, 2, 0, 0, 1, 2}),
        tensor(DType::c64, {4}).of({1, 2, 1, 3, -0.0, 0, 2, 2}));
  }
  for (const char* op : {"add", "sub"}) add("complex edges", op, plain.edges(), plain.edges());
  add("golden", "mul", tensor(DType::c64, {2}).of({1, 2, 0, 1}),
      tensor(DType::c64, {2}).of({3, -1, 0, 1}));
  cases.back().golden = {{5, 5, -1, 0}};
  add("golden", "div", tensor(DType::c64, {2}).of({5, 5, 1, 0}),
      tensor(DType::c64, {2}).of({3, -1, 0, 2}));
  cases.back().golden = {{1, 2, 0, -0.5}};
  add("parts whose squares overflow or vanish", "div",
      tensor(DType::c64, {3}).of({3e38, 1e38, 1e-30, 2e-30, 3e30, 0}),
      tensor(DType::c64, {3}).of({2e38, 2e38, 3e-30, 1e-30, 0, 1e-8}));
}

}  // namespace

std::vector<Case> binary_cases() {
  std::vector<Case> cases;
  add_floats(cases);
  add_integers(cases);
  add_broadcasts(cases);
  add_traps(cases);
  add_complex(cases);
  return cases;
}

}  // namespace rlx::test
