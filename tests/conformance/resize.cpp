// SPDX-License-Identifier: Apache-2.0
// resize (ops.md 9.5; golden values of section 17; traps T114, T115).
#include <array>
#include <numeric>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case resized(std::string name, const CaseTensor& x, const std::string& attributes) {
  const bool sums = attributes.find("linear") != std::string::npos ||
                    attributes.find("cubic") != std::string::npos;
  return {.name = std::move(name),
          .op = "resize",
          .inputs = {x},
          .attributes = "{" + attributes + "}",
          .tolerance = sums ? Tolerance::Sum : Tolerance::Exact};
}

std::string word(const std::string& name, const std::string& text) {
  return "\"" + name + R"(": ")" + text + "\"";
}

void add_golden(std::vector<Case>& cases) {
  const CaseTensor x = tensor(DType::f32, {1, 1, 3}).of({1, 4, 2});
  const auto golden = [&](const std::string& mode, const std::string& coord,
                          std::vector<double> values) {
    Case test = resized("golden " + mode + " " + coord, x,
                        R"("sizes": [5], )" + word("mode", mode) + ", " + word("coord", coord));
    test.golden = {std::move(values)};
    cases.push_back(test);
  };
  golden("linear", "half_pixel", {1, 2.2, 4, 2.8, 2});
  golden("linear", "align_corners", {1, 2.5, 4, 3, 2});
  golden("linear", "asymmetric", {1, 2.8, 3.6, 2.4, 2});
  golden("cubic", "half_pixel", {0.712, 2.308, 4, 2.992, 1.808});
  const auto indices = [&](int64_t from, int64_t to, const std::string& coord,
                           const std::string& nearest, std::vector<double> values) {
    std::vector<double> numbers(static_cast<size_t>(from));
    std::iota(numbers.begin(), numbers.end(), 0);
    Case test = resized("golden indices " + coord + " " + nearest,
                        tensor(DType::f32, {1, 1, from}).of(numbers),
                        R"("sizes": [)" + std::to_string(to) + "], " + word("coord", coord) + ", " +
                            word("nearest_mode", nearest));
    test.golden = {std::move(values)};
    cases.push_back(test);
  };
  indices(5, 3, "asymmetric", "floor", {0, 1, 3});
  indices(5, 3, "half_pixel", "round_prefer_floor", {0, 2, 4});
  indices(4, 6, "half_pixel", "round_prefer_floor", {0, 0, 1, 2, 2, 3});
  indices(4, 6, "half_pixel", "round_prefer_ceil", {0, 1, 1, 2, 3, 3});
  // By hand: triangles of radius 2 around 0.5 and 2.5, scaled to a sum of 1.
  Case halved = resized("golden antialias", tensor(DType::f32, {1, 1, 4}).of({1, 2, 3, 4}),
                        R"("sizes": [2], "mode": "linear", "antialias": true)");
  halved.golden = {{1.7142857, 3.2857143}};
  cases.push_back(halved);
  // The same triangles, a quarter of which lies beyond the border and takes its pixel.
  Case clamped =
      resized("golden antialias that clamps", tensor(DType::f32, {1, 1, 4}).of({1, 2, 3, 4}),
              R"("sizes": [2], "mode": "linear", "antialias": true, "antialias_clamps": true)");
  clamped.golden = {{1.625, 3.375}};
  cases.push_back(clamped);
}

void add_coordinates(std::vector<Case>& cases) {
  for (const char* coord : {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                            "half_pixel_symmetric"}) {
    for (const char* nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
      const std::string rest = ", " + word("coord", coord) + ", " + word("nearest_mode", nearest);
      cases.push_back(resized("T114 2 to 4, " + std::string(coord) + " " + nearest,
                              tensor(DType::f32, {1, 2, 2}), R"("sizes": [4])" + rest));
      cases.push_back(resized("T114 5 to 3, " + std::string(coord) + " " + nearest,
                              tensor(DType::f32, {1, 2, 5}), R"("sizes": [3])" + rest));
    }
    const std::string rest = ", " + word("coord", coord);
    for (const char* mode : {"linear", "cubic"}) {
      cases.push_back(resized("T114 scales 1.7, " + std::string(mode) + " " + coord,
                              tensor(DType::f32, {1, 2, 7, 5}),
                              R"("scales": [1.7, 1.7], )" + word("mode", mode) + rest));
      cases.push_back(resized("T114 sizes of those scales, " + std::string(mode) + " " + coord,
                              tensor(DType::f32, {1, 2, 7, 5}),
                              R"("sizes": [11, 8], )" + word("mode", mode) + rest));
    }
    cases.push_back(resized("T114 to size 1, " + std::string(coord),
                            tensor(DType::f32, {1, 2, 4, 4}),
                            R"("sizes": [1, 1], "mode": "linear")" + rest));
  }
  for (const int64_t size : {1000003, 999983}) {
    cases.push_back(resized("T115 3 to " + std::to_string(size), tensor(DType::f32, {1, 1, 3}),
                            R"("sizes": [)" + std::to_string(size) +
                                R"(], "coord": "asymmetric", "nearest_mode": "floor")"));
  }
  cases.push_back(resized("T115 100003 to 7", tensor(DType::f32, {1, 1, 100003}),
                          R"("sizes": [7], "mode": "linear")"));
}

void add_layouts(std::vector<Case>& cases) {
  const DType f32 = DType::f32;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const std::string text(name_of(dtype));
    cases.push_back(resized("linear 2x, rows of 16 bytes, " + text, tensor(dtype, {2, 3, 6, 8}),
                            R"("scales": [2, 2], "mode": "linear")"));
    cases.push_back(resized("cubic, " + text, tensor(dtype, {1, 3, 5, 7}),
                            R"("sizes": [9, 16], "mode": "cubic")"));
    cases.push_back(resized("antialias, axis by axis, " + text, tensor(dtype, {1, 2, 21, 24}),
                            R"("sizes": [5, 8], "mode": "cubic", "antialias": true)"));
  }
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64, DType::u8, DType::i16, DType::i32,
                            DType::i64, DType::bool_}) {
    cases.push_back(resized("nearest copies " + std::string(name_of(dtype)),
                            tensor(dtype, {1, 2, 4, 8}), R"("sizes": [7, 16])"));
  }
  cases.push_back(resized("linear, one spatial dim", tensor(f32, {2, 3, 11}),
                          R"("sizes": [17], "mode": "linear")"));
  cases.push_back(resized("linear, three spatial dims", tensor(f32, {1, 2, 3, 4, 5}),
                          R"("sizes": [5, 6, 7], "mode": "linear")"));
  cases.push_back(resized("nearest, three spatial dims", tensor(f32, {1, 2, 3, 4, 5}),
                          R"("sizes": [5, 2, 7])"));
  cases.push_back(resized("one axis inside", tensor(f32, {2, 5, 3, 8}),
                          R"("sizes": [7], "mode": "linear", "axes": [1])"));
  cases.push_back(resized("axes in any order, the last not among them", tensor(f32, {3, 4, 6}),
                          R"("sizes": [7, 5], "mode": "linear", "axes": [1, 0])"));
  // Columns that stay: 16 bytes of them at once, and one at a time.
  cases.push_back(resized("linear, three axes and columns that stay", tensor(f32, {2, 3, 2, 8}),
                          R"("sizes": [3, 4, 5], "mode": "linear", "axes": [0, 1, 2])"));
  cases.push_back(resized("linear, three axes and odd columns that stay", tensor(f32, {2, 3, 2, 7}),
                          R"("sizes": [3, 4, 5], "mode": "linear", "axes": [0, 1, 2])"));
  for (const DType dtype : {DType::f16, DType::f64, DType::u8, DType::i64}) {
    cases.push_back(resized("nearest, columns that stay, " + std::string(name_of(dtype)),
                            tensor(dtype, {2, 3, 4, 32}), R"("sizes": [5, 7], "axes": [1, 2])"));
  }
  cases.push_back(resized("linear, half columns that stay", tensor(DType::f16, {2, 3, 4, 16}),
                          R"("sizes": [5, 7], "mode": "linear", "axes": [1, 2])"));
  cases.push_back(resized("more than three axes", tensor(f32, {2, 3, 2, 3}),
                          R"("sizes": [3, 4, 3, 5], "mode": "linear", "axes": [0, 1, 2, 3])"));
  cases.push_back(resized("an axis that stays is left alone", tensor(f32, {1, 2, 6, 5}).edges(),
                          R"("sizes": [6, 5], "mode": "linear")"));
  cases.push_back(resized("axes whose scale is 1 are left alone", tensor(f32, {2, 3, 4, 5}),
                          R"("scales": [1, 1, 2, 1.5], "mode": "cubic", "axes": [0, 1, 2, 3])"));
  cases.push_back(resized("T20 wide rows by a thread each", tensor(DType::f16, {16, 16, 32, 32}),
                          R"("sizes": [64, 64], "mode": "linear")"));
  cases.push_back(resized("T19 no images", tensor(f32, {0, 2, 3, 3}), R"("sizes": [4, 4])"));
  cases.push_back(
      resized("rank 1", tensor(f32, {9}), R"("sizes": [4], "mode": "linear", "axes": [0])"));
}

void add_filters(std::vector<Case>& cases) {
  const CaseTensor x = tensor(DType::f32, {1, 2, 6, 7});
  cases.push_back(
      resized("cubic_a -0.5", x, R"("sizes": [9, 5], "mode": "cubic", "cubic_a": -0.5)"));
  cases.push_back(resized("cubic without what lies outside", x,
                          R"("sizes": [9, 11], "mode": "cubic", "exclude_outside": true)"));
  cases.push_back(
      resized("linear antialias", x, R"("sizes": [2, 3], "mode": "linear", "antialias": true)"));
  cases.push_back(
      resized("cubic antialias that clamps", x,
              R"("sizes": [2, 3], "mode": "cubic", "antialias": true, "antialias_clamps": true)"));
  cases.push_back(resized("antialias that enlarges", x,
                          R"("sizes": [9, 9], "mode": "cubic", "antialias": true)"));
  cases.push_back(resized("antialias by scales", x,
                          R"("scales": [0.4, 0.6], "mode": "linear", "antialias": true)"));
}

}  // namespace

std::vector<Case> resize_cases() {
  std::vector<Case> cases;
  add_golden(cases);
  add_coordinates(cases);
  add_layouts(cases);
  add_filters(cases);
  return cases;
}

}  // namespace rlx::test
