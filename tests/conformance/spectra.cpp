// SPDX-License-Identifier: Apache-2.0
// Conformance of log_mel and welch_peaks (ops.md 11.3, 11.4).
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case mel_case(const std::string& law, const CaseTensor& spec, const CaseTensor& filters,
              const std::string& attributes, std::vector<std::vector<double>> golden = {}) {
  return {.name = law + " " + to_string(spec.type),
          .op = "log_mel",
          .inputs = {spec, filters},
          .attributes = attributes,
          .tolerance = Tolerance::Norm,
          .golden = std::move(golden)};
}

void add_log_mel(std::vector<Case>& cases) {
  const CaseTensor filters = tensor(DType::f32, {2, 3}).of({0.5, 0.5, 0, 0, 0.2, 1});
  const CaseTensor two =
      tensor(DType::f32, {2, 8}).of({1, 2, 3, 0, 0, 1, 0, 0, 1e-6, 0, 0, 0, 0, 0, 0, 0});
  cases.push_back(mel_case("T128 17 the quiet frame ends at the loud one's", two, filters, "{}",
                           {{1.11928, 1.25, -0.75, -0.75}}));
  cases.back().golden_tolerance = 1e-5;
  cases.push_back(mel_case("T128 17 each frame by itself", two, filters, R"({"scope": "frame"})",
                           {{1.11928, 1.25, -1.5, -1.5}}));
  cases.back().golden_tolerance = 1e-5;
  const auto mels = [](DType dtype, int64_t count, int64_t bins) {
    return tensor(dtype, {count, bins}).uniform(0, 1);
  };
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    for (const std::string scope : {"clip", "tensor", "frame"}) {
      cases.push_back(mel_case("planar", tensor(t, {2, 5, 36}), mels(t, 7, 10),
                               R"({"scope": ")" + scope + R"("})"));
      if (t == DType::f64) cases.back().tolerance = Tolerance::NormDouble;
    }
  }
  cases.push_back(mel_case("half a spectrum, planar", tensor(DType::f32, {3, 4, 20}),
                           mels(DType::f32, 7, 10), "{}"));
  cases.push_back(mel_case("Whisper's sizes", tensor(DType::c64, {2, 30, 201}),
                           mels(DType::f32, 80, 201), R"({"layout": "c64"})"));
  cases.push_back(mel_case("c64, whole", tensor(DType::c64, {4, 17}), mels(DType::f32, 5, 9),
                           R"({"layout": "c64", "scope": "tensor"})"));
  cases.push_back(mel_case("one frame", tensor(DType::f32, {16}), mels(DType::f32, 3, 5), "{}"));
  cases.push_back(mel_case("silence", tensor(DType::f32, {2, 8}).uniform(0, 0), filters, "{}"));
  cases.push_back(
      mel_case("T19 no frames", tensor(DType::f32, {0, 8}), filters, R"({"scope": "frame"})"));
}

Case welch_case(const std::string& law, const CaseTensor& spec, const std::string& attributes,
                std::vector<std::vector<double>> golden = {}, size_t outputs = 2) {
  return {.name = law + " " + to_string(spec.type),
          .op = "welch_peaks",
          .inputs = {spec},
          .attributes = attributes,
          .tolerance = Tolerance::Norm,
          .outputs = outputs,
          .golden = std::move(golden)};
}

void add_welch_peaks(std::vector<Case>& cases) {
  // Powers of 4 points: 1, 2 (4 + 1), 1 * 9 | 0.25, 0, 4; their mean.
  const CaseTensor two =
      tensor(DType::f32, {2, 8}).of({1, 2, 3, 7, 0, 1, 0, 7, 0.5, 0, 2, 7, 0, 0, 0, 7});
  cases.push_back(welch_case("values", two, R"({"k": 2, "n_segments": 2})", {{2, 1}, {6.5, 5}}));
  cases.push_back(
      welch_case("T130 more peaks than bins", two, R"({"k": 5, "n_segments": 1})",
                 {{1, 2, 0, -1, -1, 2, 0, 1, -1, -1}, {10, 9, 1, 0, 0, 4, 0.25, 0, 0, 0}}));
  cases.push_back(welch_case("packed", two, R"({"k": 4, "n_segments": 2, "packed": true})",
                             {{2, 6.5, 1, 5, 0, 0.625, -1, 0}}, 1));
  // 7 points: bins 0 to 3, of which all but the first stand for two.
  cases.push_back(
      welch_case("T129 the last of 7 points is doubled",
                 tensor(DType::f32, {1, 14}).of({2, 0, 1, 3, 9, 9, 9, 0, 2, 0, 0, 9, 9, 9}),
                 R"({"k": 4, "n_segments": 1})", {{3, 1, 0, 2}, {18, 8, 4, 2}}));
  cases.push_back(welch_case("ties go to the lower bin",
                             tensor(DType::f32, {1, 12}).of({0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0}),
                             R"({"k": 3, "n_segments": 1})", {{1, 2, 3}, {2, 2, 1}}));
  cases.push_back(welch_case("T130 4096 points, 100 peaks", tensor(DType::f32, {6, 8192}),
                             R"({"k": 100, "n_segments": 3})"));
  cases.push_back(welch_case("T130 4096 points, 100 peaks", tensor(DType::f64, {4, 8192}),
                             R"({"k": 100, "n_segments": 2})"));
  cases.push_back(
      welch_case("T19 no items", tensor(DType::f32, {0, 16}), R"({"k": 3, "n_segments": 2})"));
}

}  // namespace

std::vector<Case> spectra_cases() {
  std::vector<Case> cases;
  add_log_mel(cases);
  add_welch_peaks(cases);
  return cases;
}

}  // namespace rlx::test
