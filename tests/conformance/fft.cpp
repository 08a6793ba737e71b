// SPDX-License-Identifier: Apache-2.0
// Conformance of fft, rfft, irfft, fftn, stft and fftfreq (ops.md 11.1). Golden values are NumPy's
// (1.24.2).
#include <string>

#include "tests/support/case.h"

namespace rlx::test {
namespace {

Case fft_case(const std::string& law, const std::string& op, const CaseTensor& x,
              const std::string& attributes = "{}", std::vector<std::vector<double>> golden = {}) {
  return {.name = law + " " + to_string(x.type),
          .op = op,
          .inputs = {x},
          .attributes = attributes,
          .tolerance = Tolerance::Sum,
          .golden = std::move(golden)};
}

std::string points_text(int64_t points) {
  return std::to_string(points) + " points";
}

void add_fft_values(std::vector<Case>& cases) {
  const CaseTensor three = tensor(DType::c64, {3}).of({1, 0, 2, 0, 4, 0});
  cases.push_back(fft_case("17", "fft", three, "{}", {{7, 0, -2, 1.7320508, -2, -1.7320508}}));
  // np.fft.ifft([1+2j, 0, -1j, 3])
  const CaseTensor four = tensor(DType::c64, {4}).of({1, 2, 0, 0, 0, -1, 3, 0});
  cases.push_back(fft_case("T123 backward", "fft", four, R"({"inverse": true, "norm": "backward"})",
                           {{1, 0.25, 0.25, 0, -0.5, 0.25, 0.25, 1.5}}));
  // np.fft.fft([1+2j, 0, -1j, 3], norm="ortho")
  cases.push_back(
      fft_case("ortho", "fft", four, R"({"norm": "ortho"})", {{2, 0.5, 0.5, 3, -1, 0.5, 0.5, 0}}));
  // np.fft.fft([1, 2, -1, 0.5, 3]): planar
  cases.push_back(fft_case("planar", "fft",
                           tensor(DType::f32, {10}).of({1, 2, -1, 0.5, 3, 0, 0, 0, 0, 0}), "{}",
                           {{5.5, 2.9495935, -3.1995935, -3.1995935, 2.9495935, 0, 1.8327344,
                             -0.8387995, 0.8387995, -1.8327344}}));
  // np.fft.rfft([1, 2, 4, -3, 0.5, 1]), np.fft.rfft([1, 2, 4, -3, 0.5, 1], 4)
  const CaseTensor six = tensor(DType::f32, {6}).of({1, 2, 4, -3, 0.5, 1});
  cases.push_back(fft_case("T125 six points have 4 bins", "rfft", six, "{}",
                           {{5.5, 0, 3.25, -3.8971143, -5.75, 2.1650635, 5.5, 0}}));
  cases.push_back(
      fft_case("T125 cropped to n", "rfft", six, R"({"n": 4})", {{4, 0, -3, -5, 6, 0}}));
  // np.fft.irfft([1+9j, 2-1j, 0.5j, 3+2j], 7)
  const CaseTensor half = tensor(DType::c64, {4}).of({1, 9, 2, -1, 0, 0.5, 3, 2});
  cases.push_back(fft_case(
      "T125 irfft of 7", "irfft", half, R"({"n": 7, "norm": "backward"})",
      {{1.5714286, -0.4369506, 1.3374172, -0.8841591, -0.2412698, -0.2371729, -0.1092934}}));
}

// Lengths of every kind, on every layout: in shared memory, as rows and columns, by chirps.
void add_fft_lengths(std::vector<Case>& cases) {
  for (const int64_t n : {1,    2,    3,  4,   5,   6,   7,    8,    9,    12,   15,   16,   35,
                          49,   60,   64, 105, 243, 256, 343,  360,  480,  512,  625,  1000, 1024,
                          2048, 4096, 11, 13,  97,  121, 1021, 2053, 4099, 6561, 8192, 10000}) {
    cases.push_back(fft_case("T124 " + points_text(n), "fft", tensor(DType::c64, {5, n})));
    cases.push_back(fft_case("T124 " + points_text(n), "rfft", tensor(DType::f32, {3, n}),
                             R"({"layout": "interleaved"})"));
    cases.push_back(fft_case("T124 " + points_text(n), "irfft", tensor(DType::c64, {3, n / 2 + 1}),
                             R"({"norm": "backward", "n": )" + std::to_string(n) + "}"));
  }
}

void add_long_ffts(std::vector<Case>& cases) {
  for (const int64_t n : {10007, 16384, 65536, 100000}) {
    cases.push_back(fft_case("T124 " + points_text(n), "fft", tensor(DType::c64, {2, n}),
                             R"({"inverse": true, "norm": "ortho"})"));
    cases.push_back(fft_case("T124 " + points_text(n), "rfft", tensor(DType::f32, {n})));
    cases.push_back(fft_case("T124 " + points_text(n), "irfft", tensor(DType::c64, {n / 2 + 1}),
                             R"({"norm": "backward", "n": )" + std::to_string(n) + "}"));
  }
  for (const int64_t n : {97, 2048, 4096, 10007, 65536}) {
    cases.push_back(fft_case("T124 " + points_text(n), "fft", tensor(DType::f64, {2, n, 2}),
                             R"({"layout": "interleaved"})"));
  }
  for (const std::string inverse : {"true", "false"}) {
    cases.push_back(fft_case("four steps along a middle axis", "fft",
                             tensor(DType::c64, {2, 8192, 3}),
                             R"({"axis": 1, "inverse": )" + inverse + "}"));
    cases.push_back(fft_case("a chirp along a middle axis", "fft", tensor(DType::c64, {3, 131, 5}),
                             R"({"axis": 1, "inverse": )" + inverse + "}"));
    cases.push_back(fft_case(
        "a long chirp along the first axis, padded", "fft", tensor(DType::f16, {4000, 2, 2}),
        R"({"axis": 0, "n": 4999, "layout": "interleaved", "inverse": )" + inverse + "}"));
  }
}

void add_fftns(std::vector<Case>& cases) {
  // np.fft.fftn([[1, 2j], [3, -1]])
  cases.push_back(fft_case("values", "fftn",
                           tensor(DType::c64, {2, 2}).of({1, 0, 0, 2, 3, 0, -1, 0}), "{}",
                           {{3, 2, 5, -2, -1, 2, -3, -2}}));
  cases.push_back(fft_case("all axes", "fftn", tensor(DType::c64, {5, 12, 16})));
  cases.push_back(fft_case("two axes, inverse", "fftn", tensor(DType::c64, {5, 12, 16}),
                           R"({"axes": [0, 1], "inverse": true, "norm": "backward"})"));
  for (const DType t : {DType::f32, DType::f64}) {
    cases.push_back(fft_case("interleaved", "fftn", tensor(t, {3, 24, 17, 2}),
                             R"({"axes": [-1, -2], "norm": "ortho"})"));
  }
  cases.push_back(fft_case("no axes", "fftn", tensor(DType::c64, {3, 2}), R"({"axes": []})"));
}

void add_stfts(std::vector<Case>& cases) {
  const auto add = [&cases](const std::string& law, const CaseTensor& x,
                            const std::optional<CaseTensor>& window, const std::string& attributes,
                            std::vector<std::vector<double>> golden = {}) {
    cases.push_back(fft_case(law, "stft", x, attributes, std::move(golden)));
    if (window) cases.back().inputs.push_back(window);
  };
  // x = np.array([1, 2, 4, -3, 0.5, 1]); [np.fft.rfft(x[f:f + 4] * [1, 2, 1, 0.5]) for f in (0, 2)]
  const CaseTensor six = tensor(DType::f32, {6}).of({1, 2, 4, -3, 0.5, 1});
  const CaseTensor weights = tensor(DType::f32, {4}).of({1, 2, 1, 0.5});
  add("values", six, weights, R"({"frame_len": 4, "hop": 2})",
      {{7.5, 0, -3, -5.5, 2.5, 0, -1, 0, 3.5, 6.5, 10, 0}});
  // y = np.pad(x, 2, mode="reflect"); [np.fft.rfft(y[f:f + 4]) for f in (0, 3, 6)]
  add("centered", six, std::nullopt, R"({"frame_len": 4, "hop": 3, "center": true})",
      {{9, 0, 3, 0, 1, 0, 3.5, 0, 5, -3.5, -5.5, 0, -1, 0, 0, -4, 3, 0}});
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    add("layers of frames", tensor(t, {2, 3, 500}), tensor(t, {25}),
        R"({"frame_len": 25, "hop": 10, "n_fft": 32, "layout": "interleaved"})");
    add("planar, centered", tensor(t, {2, 300}), tensor(t, {64}),
        R"({"frame_len": 64, "hop": 16, "layout": "planar", "center": true, "norm": "ortho"})");
  }
  add("Whisper's frames", tensor(DType::f32, {2, 16000}), tensor(DType::f32, {400}),
      R"({"frame_len": 400, "hop": 160, "center": true})");
  add("a frame of a prime", tensor(DType::f32, {3, 1000}), tensor(DType::f32, {101}),
      R"({"frame_len": 101, "hop": 37})");
  add("both sides", tensor(DType::f32, {3, 1000}), std::nullopt,
      R"({"frame_len": 60, "hop": 60, "onesided": false})");
  add("complex", tensor(DType::c64, {3, 400}), tensor(DType::f32, {50}),
      R"({"frame_len": 50, "hop": 25, "n_fft": 64, "onesided": false})");
  add("zeros around", tensor(DType::f32, {200}), std::nullopt,
      R"({"frame_len": 32, "hop": 8, "center": true, "pad_mode": "constant"})");
  add("frames of 5000 points", tensor(DType::f32, {2, 12000}), tensor(DType::f32, {5000}),
      R"({"frame_len": 5000, "hop": 1500})");
}

void add_fft_layouts(std::vector<Case>& cases) {
  const std::string inverse = R"({"inverse": true, "norm": "backward", "layout": "interleaved"})";
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    cases.push_back(fft_case("planar", "fft", tensor(t, {7, 40})));
    cases.push_back(fft_case("T123 interleaved", "fft", tensor(t, {2, 3, 24, 2}), inverse));
    cases.push_back(fft_case("planar", "rfft", tensor(t, {9, 30}), R"({"layout": "planar"})"));
    cases.push_back(fft_case("padded", "rfft", tensor(t, {9, 30}),
                             R"({"layout": "interleaved", "n": 64, "norm": "ortho"})"));
    cases.push_back(fft_case("cropped, both sides", "rfft", tensor(t, {9, 30}),
                             R"({"layout": "interleaved", "n": 21, "onesided": false})"));
    cases.push_back(fft_case("planar", "irfft", tensor(t, {9, 34}), R"({"norm": "forward"})"));
    cases.push_back(
        fft_case("padded", "irfft", tensor(t, {9, 4, 2}), R"({"layout": "interleaved", "n": 15})"));
    cases.push_back(fft_case("cropped", "irfft", tensor(t, {9, 40, 2}),
                             R"({"layout": "interleaved", "n": 16})"));
  }
  cases.push_back(fft_case("first axis", "fft", tensor(DType::c64, {96, 37}), R"({"axis": 0})"));
  cases.push_back(
      fft_case("middle axis", "fft", tensor(DType::c64, {3, 20, 7}), R"({"axis": -2})"));
  cases.push_back(fft_case("middle axis", "rfft", tensor(DType::f32, {3, 20, 7}),
                           R"({"axis": 1, "layout": "interleaved"})"));
  cases.push_back(fft_case("first axis", "irfft", tensor(DType::c64, {9, 3, 5}), R"({"axis": 0})"));
  cases.push_back(fft_case("T20 rank 8", "fft", tensor(DType::c64, {2, 1, 3, 2, 5, 2, 3, 2}),
                           R"({"axis": 4, "norm": "forward", "inverse": true})"));
  cases.push_back(fft_case("T19 no rows", "fft", tensor(DType::c64, {0, 8})));
  cases.push_back(fft_case("T19 no rows", "rfft", tensor(DType::f32, {3, 0, 8})));
  cases.push_back(
      fft_case("T124 more rows than a grid axis holds", "fft", tensor(DType::c64, {70001, 4})));
}

void add_fftfreq(std::vector<Case>& cases) {
  const auto frequencies = [&cases](const std::string& law, const std::string& attributes,
                                    std::vector<std::vector<double>> golden) {
    cases.push_back(
        {.name = law, .op = "fftfreq", .attributes = attributes, .golden = std::move(golden)});
  };
  // np.fft.fftfreq(4), np.fft.fftfreq(5, 0.1)
  frequencies("T126", R"({"n": 4})", {{0, 0.25, -0.5, -0.25}});
  frequencies("odd", R"({"n": 5, "d": 0.1})", {{0, 2, 4, -4, -2}});
  frequencies("f64", R"({"n": 7, "dtype": "f64"})", {});
  frequencies("f16", R"({"n": 33, "dtype": "f16"})", {});
}

}  // namespace

std::vector<Case> fft_cases() {
  std::vector<Case> cases;
  add_fft_values(cases);
  add_fft_lengths(cases);
  add_fft_layouts(cases);
  add_long_ffts(cases);
  add_fftns(cases);
  add_stfts(cases);
  add_fftfreq(cases);
  return cases;
}

}  // namespace rlx::test
