// SPDX-License-Identifier: Apache-2.0
// Conformance of layer_norm and rms_norm (ops.md 4).
#include "tests/support/case.h"

namespace rlx::test {

namespace {

Case norm_case(const std::string& law, const std::string& op,
               std::vector<std::optional<CaseTensor>> inputs, const std::string& attributes = "{}",
               size_t outputs = 1) {
  return {.name = law + " " + to_string(inputs[0]->type),
          .op = op,
          .inputs = std::move(inputs),
          .attributes = attributes,
          .tolerance = Tolerance::Norm,
          .outputs = outputs};
}

void add_layouts(std::vector<Case>& cases, const std::string& op) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    cases.push_back(norm_case(
        "prime row", op, {tensor(dtype, {5, 197}), tensor(dtype, {197}), tensor(dtype, {197})}));
    cases.push_back(
        norm_case("four at a time", op,
                  {tensor(dtype, {5, 384}), tensor(dtype, {384}), tensor(dtype, {384})}));
    cases.push_back(
        norm_case("gamma and beta of another dtype", op,
                  {tensor(dtype, {3, 40}), tensor(DType::f32, {40}), tensor(DType::f16, {40})}));
    cases.push_back(norm_case("a row of several warps, weights", op,
                              {tensor(dtype, {3, 2048}), tensor(dtype, {2048}).param(),
                               tensor(DType::f32, {2048}).param()}));
    cases.push_back(norm_case("the last piece of a row is half full", op,
                              {tensor(dtype, {301, 1000}), tensor(dtype, {1000})}));
  }
  // Few threads to a row, whose last pieces end with it; the last workgroup has fewer rows.
  for (const DType dtype : {DType::f16, DType::bf16}) {
    cases.push_back(norm_case(
        "many short rows", op,
        {tensor(dtype, {17003, 96}), tensor(dtype, {96}).param(), tensor(dtype, {96}).param()}));
    cases.push_back(norm_case("many rows of half a warp", op,
                              {tensor(dtype, {8501, 200}), tensor(DType::f32, {200}).param()}));
  }
  const DType f32 = DType::f32;
  cases.push_back(norm_case("many short rows, statistics", op,
                            {tensor(f32, {17003, 50}), tensor(f32, {50}), tensor(f32, {50})}, "{}",
                            op == "layer_norm" ? 3 : 2));
  cases.push_back(norm_case("T63 no gamma, no beta", op, {tensor(f32, {3, 37})}));
  cases.push_back(norm_case("T63 gamma alone", op, {tensor(f32, {3, 37}), tensor(f32, {37})}));
  cases.push_back(
      norm_case("T63 beta alone", op, {tensor(f32, {3, 37}), std::nullopt, tensor(f32, {37})}));
  cases.push_back(norm_case("T64 two trailing axes", op,
                            {tensor(f32, {5, 7, 11}), tensor(f32, {7, 11}), tensor(f32, {7, 11})},
                            R"({"axis": 1})"));
  cases.push_back(norm_case("T64 axis -2, gamma broadcast", op,
                            {tensor(f32, {5, 7, 11}), tensor(f32, {7, 1}), tensor(f32, {11})},
                            R"({"axis": -2})"));
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    cases.push_back(
        norm_case("gamma and beta of each image", op,
                  {tensor(dtype, {3, 5, 64}), tensor(dtype, {3, 1, 64}), tensor(dtype, {3, 1, 64})},
                  R"({"gamma_offset": 1})"));
    cases.push_back(norm_case(
        "beta of every element, gamma of rows", op,
        {tensor(dtype, {2, 7, 200}), tensor(DType::f32, {7, 1}), tensor(dtype, {2, 7, 200})}));
  }
  cases.push_back(
      norm_case("gamma of the images, beta of the rows of all, two axes", op,
                {tensor(f32, {3, 5, 4, 6}), tensor(f32, {3, 1, 4, 6}), tensor(f32, {5, 1, 1})},
                R"({"axis": 2})"));
  cases.push_back(norm_case("gamma of many rows, read again", op,
                            {tensor(DType::f16, {600, 8200}), tensor(DType::f16, {600, 1})}));
  cases.push_back(norm_case("few long rows with weights of their own, in parts", op,
                            {tensor(f32, {2, 20011}), tensor(f32, {2, 20011}), tensor(f32, {2, 1})},
                            R"({"gamma_offset": 1})"));
  cases.push_back(norm_case("all axes", op, {tensor(f32, {5, 7, 11})}, R"({"axis": 0})"));
  cases.push_back(
      norm_case("many long rows, read again", op, {tensor(f32, {600, 8193}), tensor(f32, {8193})}));
  cases.push_back(norm_case("many long aligned rows, read again", op,
                            {tensor(DType::f16, {600, 8200}), tensor(f32, {8200})}));
  for (const DType dtype : {DType::f32, DType::f16, DType::f64}) {
    cases.push_back(norm_case("few long rows, in parts", op,
                              {tensor(dtype, {2, 20011}), tensor(dtype, {20011})}));
  }
  cases.push_back(norm_case(
      "few long rows over three axes, in parts", op,
      {tensor(f32, {2, 16, 32, 40}), tensor(f32, {16, 1, 1}), tensor(DType::f16, {32, 40})},
      R"({"axis": 1})"));
  cases.push_back(norm_case("statistics of few long rows", op, {tensor(f32, {3, 12000})}, "{}",
                            op == "layer_norm" ? 3 : 2));
  cases.push_back(norm_case("T20 more rows than a grid axis holds", op, {tensor(f32, {70001, 3})}));
  cases.push_back(norm_case("row of one", op, {tensor(f32, {5, 1})}));
  cases.push_back(norm_case("T19 empty", op, {tensor(f32, {0, 7})}));
  cases.push_back(norm_case("T19 empty rows", op, {tensor(f32, {7, 0})}));
  const auto add_typed = [&](DType from, const std::string& to, const Shape& x) {
    cases.push_back(norm_case(to + " of " + std::string(name_of(from)), op,
                              {tensor(from, x), tensor(f32, {x.back()}).param()},
                              R"({"out_dtype": ")" + to + "\"}", op == "layer_norm" ? 3 : 2));
  };
  for (const Shape& x : {Shape{3, 37}, Shape{130, 384}, Shape{3, 2048}, Shape{2, 20000}}) {
    add_typed(f32, "f16", x);
    add_typed(f32, "bf16", x);
    add_typed(DType::f16, "f32", x);
  }
  add_typed(DType::bf16, "f16", {9, 96});
  cases.push_back(norm_case("large eps", op, {tensor(f32, {3, 37})}, R"({"eps": 2.5})"));
  cases.push_back(norm_case("eps 1e-12", op, {tensor(f32, {3, 384})}, R"({"eps": 1e-12})"));
}

}  // namespace

std::vector<Case> norm_cases() {
  std::vector<Case> cases;
  add_layouts(cases, "layer_norm");
  add_layouts(cases, "rms_norm");
  const CaseTensor x = tensor(DType::f32, {4}).of({1, 2, 4, -3});
  Case golden = norm_case("golden", "layer_norm", {x}, R"({"eps": 1e-5})");
  golden.golden = {{0, 0.392232, 1.176696, -1.568928}};
  cases.push_back(golden);
  golden = norm_case("golden", "rms_norm", {x}, R"({"eps": 1e-5})");
  golden.golden = {{0.3651481, 0.7302963, 1.460593, -1.095444}};
  cases.push_back(golden);
  const CaseTensor far = tensor(DType::f32, {3, 512}).uniform(9999, 10001);
  cases.push_back(norm_case("T62 far from zero", "layer_norm", {far}));
  cases.push_back(norm_case("T62 far from zero, long row", "layer_norm",
                            {tensor(DType::f32, {1, 20000}).uniform(9999, 10001)}));
  cases.push_back(
      norm_case("mean and inv_std", "layer_norm", {tensor(DType::f32, {5, 70})}, "{}", 3));
  cases.push_back(norm_case("mean and inv_std", "layer_norm", {tensor(DType::f16, {5, 3, 70})},
                            R"({"axis": 1})", 3));
  cases.push_back(norm_case("mean alone", "layer_norm", {tensor(DType::f32, {5, 70})}, "{}", 2));
  cases.push_back(norm_case("inv_rms", "rms_norm", {tensor(DType::f32, {5, 70})}, "{}", 2));
  cases.push_back(
      norm_case("T65 gamma_offset 1 and beta", "rms_norm",
                {tensor(DType::f32, {5, 70}), tensor(DType::f32, {70}), tensor(DType::f32, {70})},
                R"({"gamma_offset": 1})"));
  cases.push_back(norm_case("T65 gamma_offset 1 in parts", "rms_norm",
                            {tensor(DType::f32, {2, 9000}), tensor(DType::f32, {9000})},
                            R"({"gamma_offset": 1})"));
  return cases;
}

}  // namespace rlx::test
