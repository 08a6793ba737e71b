// SPDX-License-Identifier: Apache-2.0
// im2col and col2im (ops.md 9.4).
#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case moved(const std::string& name, const std::string& op, const CaseTensor& x,
           const std::string& attributes) {
  return {
      .name = name + ", " + to_string(x.type),
      .op = op,
      .inputs = {x},
      .attributes = "{" + attributes + "}",
      .tolerance = op == "im2col" || is_integer(x.type.dtype) ? Tolerance::Exact : Tolerance::Sum};
}

}  // namespace

std::vector<Case> im2col_cases() {
  std::vector<Case> cases;
  const DType f32 = DType::f32;
  const std::string window =
      R"("kernel": [3, 2], "stride": [2, 1], "pads": [1, 0, 2, 1], "dilation": [1, 2])";
  for (const char* layout : {"rows", "unfold", "pixels"}) {
    const std::string rest = window + R"(, "layout": ")" + layout + "\"";
    for (const DType dtype :
         {DType::f32, DType::f16, DType::bf16, DType::f64, DType::u8, DType::i64, DType::bool_}) {
      cases.push_back(moved(layout, "im2col", tensor(dtype, {2, 3, 6, 7}), rest));
    }
    cases.push_back(moved(
        std::string(layout) + ", 16 bytes at a time", "im2col", tensor(DType::f16, {1, 4, 8, 8}),
        R"("kernel": [3, 3], "pads": [1, 1], "layout": ")" + std::string(layout) + "\""));
    const std::string more = R"("out_hw": [6, 7], )" + rest;
    // Places: 4 by 6.
    const Shape columns = std::string(layout) == "unfold" ? Shape{2, 18, 24} : Shape{48, 18};
    for (const DType dtype :
         {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::i32, DType::i64}) {
      cases.push_back(moved(layout, "col2im", tensor(dtype, columns), more));
    }
  }
  cases.push_back(moved("one dim", "im2col", tensor(f32, {2, 3, 9}), R"("kernel": [4])"));
  cases.push_back(moved("three dims", "im2col", tensor(f32, {1, 2, 3, 4, 5}),
                        R"("kernel": [2, 3, 2], "pads": [0, 1, 0])"));
  cases.push_back(
      moved("T19 no images", "im2col", tensor(f32, {0, 3, 5, 5}), R"("kernel": [3, 3])"));
  cases.push_back(moved("one dim", "col2im", tensor(f32, {2, 12, 6}),
                        R"("out_hw": [9], "kernel": [4], "layout": "unfold")"));
  cases.push_back(moved("pixels that no window reaches", "col2im", tensor(f32, {1, 2, 3}),
                        R"("out_hw": [9], "kernel": [1], "stride": [4], "layout": "unfold")"));
  cases.push_back(moved("T19 no columns", "col2im", tensor(f32, {0, 18}),
                        R"("out_hw": [5, 5], "kernel": [3, 3])"));
  Case rows = moved("golden", "im2col", tensor(f32, {1, 1, 2, 3}).of({1, 2, 3, 4, 5, 6}),
                    R"("kernel": [2, 2])");
  rows.golden = {{1, 2, 4, 5, 2, 3, 5, 6}};
  cases.push_back(rows);
  Case sums = moved("golden", "col2im", tensor(f32, {2, 4}).of({1, 2, 4, 5, 2, 3, 5, 6}),
                    R"("out_hw": [2, 3], "kernel": [2, 2])");
  sums.golden = {{1, 4, 3, 4, 10, 6}};
  cases.push_back(sums);
  return cases;
}

}  // namespace rlx::test
