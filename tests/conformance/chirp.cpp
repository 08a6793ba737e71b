// SPDX-License-Identifier: Apache-2.0
// Cases of chirp, the tables of a Fourier transform whose length the run gives.
#include <string>

#include "tests/support/case.h"

namespace rlx::test {

std::vector<Case> chirp_cases() {
  std::vector<Case> cases;
  const auto chirp = [&cases](const std::string& law, int64_t points, int64_t convolved,
                              const std::string& dtype, std::vector<std::vector<double>> golden) {
    cases.push_back({.name = law,
                     .op = "chirp",
                     .attributes = R"({"points": )" + std::to_string(points) +
                                   R"(, "convolved": )" + std::to_string(convolved) +
                                   R"(, "dtype": ")" + dtype + "\"}",
                     .tolerance = Tolerance::Sum,
                     .golden = std::move(golden)});
  };
  // [np.exp(-1j * np.pi * k * k / 3) for k in range(3)]
  chirp("values", 3, 0, "f32", {{1, 0, 0.5, -0.8660254, -0.5, 0.8660254}});
  // Their conjugates around the begin of 8 points, each an eighth of them.
  chirp("T124 around the begin", 3, 8, "f32",
        {{0.125, 0, 0.0625, 0.10825318, -0.0625, -0.10825318, 0, 0, 0, 0, 0, 0, -0.0625,
          -0.10825318, 0.0625, 0.10825318}});
  for (const std::string dtype : {"f32", "f64"}) {
    for (const int64_t points : {1, 2, 5, 64, 997, 4099}) {
      chirp("T124", points, 0, dtype, {});
      chirp("T124 around the begin", points, 16384, dtype, {});
    }
    chirp("squares of 46 bits", 8388607, 0, dtype, {});
  }
  return cases;
}

}  // namespace rlx::test
