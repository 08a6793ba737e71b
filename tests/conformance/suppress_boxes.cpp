// SPDX-License-Identifier: Apache-2.0
// suppress_boxes: what non_max_suppression (suppression.cpp) is made of.
#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> suppress_boxes_cases() {
  const DType f32 = DType::f32;
  const CaseTensor boxes =
      tensor(f32, {1, 6, 4}).of({0, 0,  1, 1,  0, 0.1,  1, 1.1,  0, -0.1, 1, 0.9,
                                 0, 10, 1, 11, 0, 10.1, 1, 11.1, 0, 100,  1, 101});
  const CaseTensor scores = tensor(f32, {1, 1, 6}).of({0.9, 0.75, 0.6, 0.95, 0.5, 0.3});
  const CaseTensor order = tensor(DType::i32, {1, 1, 6}).of({5, 1, 0, 2, 4, 3});
  return {{.name = "in the order given",
           .op = "suppress_boxes",
           .inputs = {boxes, scores, order},
           .attributes = R"({"max_per_class": 4, "iou_threshold": 0.5})",
           .tolerance = Tolerance::Exact,
           .golden = {{5, 1, 4, -1}}},
          {.name = "scores that do not pass",
           .op = "suppress_boxes",
           .inputs = {boxes, scores, order},
           .attributes = R"({"max_per_class": 9, "iou_threshold": 0.5, "score_threshold": 0.5})",
           .tolerance = Tolerance::Exact,
           .golden = {{1, 3, -1, -1, -1, -1}}}};
}

}  // namespace rlx::test
