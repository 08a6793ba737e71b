// SPDX-License-Identifier: Apache-2.0
// grid_sample (ops.md 9.5).
#include <limits>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case sampled(const std::string& name, const std::string& mode, const std::string& padding,
             bool align, const CaseTensor& x, const CaseTensor& grid) {
  return {.name = name + " " + mode + " " + padding + (align ? " align_corners" : ""),
          .op = "grid_sample",
          .inputs = {x, grid},
          .attributes = R"({"mode": ")" + mode + R"(", "padding_mode": ")" + padding +
                        R"(", "align_corners": )" + (align ? "true" : "false") + "}",
          .tolerance = Tolerance::Sum};
}

}  // namespace

std::vector<Case> grid_sample_cases() {
  std::vector<Case> cases;
  const DType f32 = DType::f32;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  // On the edges, at halves of pixels, outside on both sides, no number at all.
  const CaseTensor places =
      tensor(f32, {1, 2, 7, 2}).of({-1,   -1,  1,    1,        0,    0,   -0.75, 0.25, 0.5, -0.5,
                                    -2.3, 1.7, 3.25, -4.5,     0,    1,   -1.6,  0,    0.2, 1.1,
                                    nan,  0,   0,    infinity, 1.25, 1.5, 9,     -8});
  for (const char* mode : {"linear", "nearest", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const bool align : {false, true}) {
        cases.push_back(sampled("anywhere", mode, padding, align, tensor(f32, {2, 3, 5, 7}),
                                tensor(f32, {2, 4, 6, 2}).uniform(-1.7, 1.7)));
        cases.push_back(
            sampled("edges and halves", mode, padding, align, tensor(f32, {1, 2, 4, 4}), places));
      }
    }
    for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
      cases.push_back(sampled(std::string(name_of(dtype)), mode, "zeros", false,
                              tensor(dtype, {1, 3, 6, 5}),
                              tensor(dtype, {1, 3, 5, 2}).uniform(-1.2, 1.2)));
    }
  }
  cases.push_back(sampled("f16 pixels, f32 grid, large plane", "linear", "border", false,
                          tensor(DType::f16, {1, 2, 200, 300}),
                          tensor(f32, {1, 20, 30, 2}).uniform(-1, 1)));
  cases.push_back(sampled("f64 grid", "linear", "reflection", false, tensor(f32, {1, 2, 9, 8}),
                          tensor(DType::f64, {1, 4, 5, 2}).uniform(-3, 3)));
  // Volumes: x, y and z of each place, then the axes in the order D, H, W.
  const CaseTensor places_in_volume =
      tensor(f32, {1, 1, 2, 4, 3}).of({-1,  -1,   -1,  1,   1, 1, 0, 0, 0,        -0.75, 0.25, 1.1,
                                       0.5, -2.3, 1.7, nan, 0, 0, 0, 0, infinity, 1.25,  -9,   0});
  for (const char* mode : {"linear", "nearest", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const bool align : {false, true}) {
        cases.push_back(sampled("volume", mode, padding, align, tensor(f32, {2, 3, 4, 5, 7}),
                                tensor(f32, {2, 2, 4, 3, 3}).uniform(-1.7, 1.7)));
      }
      cases.push_back(sampled("edges of a volume", mode, padding, false,
                              tensor(f32, {1, 2, 3, 4, 4}), places_in_volume));
    }
  }
  cases.push_back(sampled("f16 volume, f32 grid", "linear", "border", false,
                          tensor(DType::f16, {1, 9, 4, 6, 5}),
                          tensor(f32, {1, 3, 5, 2, 3}).uniform(-1.2, 1.2)));
  cases.push_back(sampled("f64 volume of one slice", "linear", "zeros", true,
                          tensor(DType::f64, {1, 2, 1, 3, 3}),
                          tensor(DType::f64, {1, 2, 2, 2, 3}).uniform(-1.2, 1.2)));
  cases.push_back(sampled("T19 no places in a volume", "linear", "zeros", false,
                          tensor(f32, {1, 2, 3, 3, 3}), tensor(f32, {1, 2, 0, 3, 3})));
  cases.push_back(sampled("one pixel", "linear", "reflection", true, tensor(f32, {1, 2, 1, 1}),
                          tensor(f32, {1, 2, 3, 2}).uniform(-2, 2)));
  cases.push_back(sampled("T19 no places", "linear", "zeros", false, tensor(f32, {1, 2, 3, 3}),
                          tensor(f32, {1, 0, 3, 2})));
  Case golden = sampled("against the formula", "linear", "zeros", true,
                        tensor(f32, {1, 1, 2, 2}).of({1, 2, 3, 4}),
                        tensor(f32, {1, 1, 3, 2}).of({0, 0, -1, 1, 1, 0}));
  golden.golden = {{2.5, 3, 3}};
  cases.push_back(golden);
  Case volume = sampled("volume against the formula", "linear", "zeros", true,
                        tensor(f32, {1, 1, 2, 2, 2}).of({1, 2, 3, 4, 5, 6, 7, 8}),
                        tensor(f32, {1, 1, 1, 4, 3}).of({0, 0, 0, -1, 1, -1, 1, 0, 0, 0, -1, 1}));
  volume.golden = {{4.5, 3, 5, 5.5}};
  cases.push_back(volume);
  return cases;
}

}  // namespace rlx::test
