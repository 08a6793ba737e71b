// SPDX-License-Identifier: Apache-2.0
// non_max_suppression (ops.md 7.5); golden values of ONNX's backend tests.
#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case suppressed(const std::string& name, const CaseTensor& boxes, const CaseTensor& scores,
                const std::string& attributes, std::vector<std::vector<double>> golden = {}) {
  return {.name = name + " " + to_string(scores.type),
          .op = "non_max_suppression",
          .inputs = {boxes, scores},
          .attributes = attributes,
          .tolerance = Tolerance::Exact,
          .outputs = 2,
          .golden = std::move(golden)};
}

}  // namespace

std::vector<Case> suppression_cases() {
  const DType f32 = DType::f32;
  const CaseTensor corners =
      tensor(f32, {1, 6, 4}).of({0, 0,  1, 1,  0, 0.1,  1, 1.1,  0, -0.1, 1, 0.9,
                                 0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100,  1, 101});
  const CaseTensor flipped =
      tensor(f32, {1, 6, 4}).of({1, 1,  0, 0,  0, 0.1,  1, 1.1,  0, 0.9, 1, -0.1,
                                 0, 10, 1, 11, 1, 10.1, 0, 11.1, 1, 101, 0, 100});
  const CaseTensor centred =
      tensor(f32, {1, 6, 4}).of({0.5, 0.5,  1, 1, 0.5, 0.6,  1, 1, 0.5, 0.4,   1, 1,
                                 0.5, 10.5, 1, 1, 0.5, 10.6, 1, 1, 0.5, 100.5, 1, 1});
  const std::vector<double> written = {0.9, 0.75, 0.6, 0.95, 0.5, 0.3};
  const CaseTensor scores = tensor(f32, {1, 1, 6}).of(written);
  const std::string half = R"({"max_per_class": 3, "iou_threshold": 0.5, "score_threshold": 0)";
  const std::vector<std::vector<double>> three = {{0, 0, 3, 0, 0, 0, 0, 0, 5}, {3}};
  std::vector<double> twice = written;
  twice.insert(twice.end(), written.begin(), written.end());
  std::vector<double> two_images = corners.values;
  two_images.insert(two_images.end(), corners.values.begin(), corners.values.end());
  const std::string pair =
      R"({"max_per_class": 2, "iou_threshold": 0.5, "score_threshold": 0, "index_dtype": "i64")";
  std::vector<Case> cases = {
      suppressed("corners", corners, scores, half + "}", three),
      suppressed("flipped corners", flipped, scores, half + "}", three),
      suppressed("centres", centred, scores, half + R"(, "center_point_box": true})", three),
      suppressed("score threshold", corners, scores,
                 R"({"max_per_class": 3, "iou_threshold": 0.5, "score_threshold": 0.4})",
                 {{0, 0, 3, 0, 0, 0, -1, -1, -1}, {2}}),
      suppressed("two classes", corners, tensor(f32, {1, 2, 6}).of(twice), pair + "}",
                 {{0, 0, 3, 0, 0, 0, 0, 1, 3, 0, 1, 0}, {4}}),
      suppressed("two images", tensor(f32, {2, 6, 4}).of(two_images),
                 tensor(f32, {2, 1, 6}).of(twice), pair + "}",
                 {{0, 0, 3, 0, 0, 0, 1, 0, 3, 1, 0, 0}, {4}}),
      suppressed("cut off", tensor(f32, {2, 6, 4}).of(two_images), tensor(f32, {2, 1, 6}).of(twice),
                 pair + R"(, "max_count": 3})", {{0, 0, 3, 0, 0, 0, 1, 0, 3}, {4}}),
      suppressed("equal boxes and scores, no threshold",
                 tensor(f32, {1, 4, 4}).of({0, 0, 1, 1, 0, 0, 1, 1, 5, 5, 6, 6, 5, 5, 6, 6}),
                 tensor(f32, {1, 1, 4}).of({1, 1, 1, 1}),
                 R"({"max_per_class": 9, "iou_threshold": 0.9})",
                 {{0, 0, 0, 0, 0, 2, -1, -1, -1, -1, -1, -1}, {2}}),
      suppressed("none kept", corners, scores, R"({"max_per_class": 0})", {{}, {0}}),
      suppressed("T19 no boxes", tensor(f32, {2, 0, 4}), tensor(f32, {2, 3, 0}),
                 R"({"max_per_class": 5, "max_count": 2})", {{-1, -1, -1, -1, -1, -1}, {0}}),
      suppressed("many boxes", tensor(f32, {2, 1000, 4}).uniform(0, 20),
                 tensor(f32, {2, 3, 1000}).uniform(0, 1),
                 R"({"max_per_class": 70, "iou_threshold": 0.3, "score_threshold": 0.2})"),
  };
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    cases.push_back(suppressed("dtypes", tensor(dtype, {1, 6, 4}).of(corners.values),
                               tensor(dtype, {1, 1, 6}).of(written), half + "}", three));
  }
  return cases;
}

}  // namespace rlx::test
