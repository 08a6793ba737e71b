// SPDX-License-Identifier: Apache-2.0
// roi_align: golden values of torchvision 0.29 and, of the largest sample, onnxruntime 1.32.
#include <cmath>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

std::vector<double> sines(size_t count) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<double>(i)));
  return values;
}

Case aligned(const std::string& name, const CaseTensor& x, const CaseTensor& rois,
             const CaseTensor& images, const std::string& attributes,
             std::vector<std::vector<double>> golden = {}) {
  return {.name = name,
          .op = "roi_align",
          .inputs = {x, rois, images},
          .attributes = attributes,
          .tolerance = Tolerance::Sum,
          .golden = std::move(golden)};
}

}  // namespace

std::vector<Case> roi_align_cases() {
  const DType f32 = DType::f32;
  const CaseTensor waves = tensor(f32, {1, 2, 4, 4}).of(sines(32));
  const CaseTensor two = tensor(f32, {2, 4}).of({0.5, 0.25, 2.75, 3.5, -1, 1, 2, 2.5});
  const CaseTensor first = tensor(DType::i64, {2}).of({0, 0});
  std::vector<Case> cases = {
      aligned("half pixels, as torchvision", waves, two, first,
              R"({"output_height": 2, "output_width": 2, "sampling_ratio": 2})",
              {{-0.2825732, 0.1119284, 0.2999049, 0.0417746, 0.1976928, -0.2136785, -0.2599174,
                0.0514259, -0.2919923, -0.5855966, 0.1672740, 0.0129825, 0.3342419, 0.5309999,
                -0.1118160, 0.1040862}}),
      aligned(
          "whole pixels, as torchvision", waves, two, first,
          R"({"output_height": 2, "output_width": 2, "sampling_ratio": 2, "half_pixel": false})",
          {{-0.2832067, -0.0717584, 0.3766780, 0.3485738, 0.2542789, -0.0131936, -0.4180578,
            -0.2602377, -0.1234167, -0.4026899, 0.6759994, 0.1826151, 0.2461414, 0.3978697,
            -0.6349338, -0.0119465}}),
  };
  const CaseTensor many =
      tensor(f32, {5, 4}).of({1.2, 2.3, 17.5, 11.2, 0.1,  0.2,  3.3, 3.7,  4.4, 4.41,
                              4.9, 4.7, -6.3, -5.1, 30.7, 40.9, 9.3, 12.2, 2.6, 3.4});
  const CaseTensor images = tensor(DType::i32, {5}).of({0, 1, -1, 1, 0});
  for (const char* attributes :
       {R"({"output_height": 3, "output_width": 5, "spatial_scale": 0.7})",
        R"({"output_height": 3, "output_width": 2, "mode": "max", "sampling_ratio": 3})",
        R"({"output_height": 1, "output_width": 4, "half_pixel": false, "mode": "max"})"}) {
    cases.push_back(aligned(std::string("samples by size ") + attributes,
                            tensor(f32, {2, 3, 9, 13}), many, images, attributes));
  }
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    const CaseTensor rois = dtype == DType::f64 ? tensor(dtype, {2, 4}).of(two.values) : two;
    cases.push_back(aligned(std::string(name_of(dtype)), tensor(dtype, {2, 3, 6, 5}), rois,
                            tensor(DType::i64, {2}).of({1, 0}),
                            R"({"output_height": 2, "output_width": 3, "sampling_ratio": 2})"));
  }
  cases.push_back(aligned("T19 no boxes", tensor(f32, {1, 2, 3, 3}), tensor(f32, {0, 4}),
                          tensor(DType::i64, {0}), R"({"output_height": 2})"));
  return cases;
}

}  // namespace rlx::test
