// SPDX-License-Identifier: Apache-2.0
// Tables of rotary embeddings, computed in f64: positions far out would drift otherwise.
#pragma once

#include <cstdint>
#include <vector>

namespace rlx::gguf {

// Angles of pair i at position p: p * base^(-2i / rotated) / factors[i], shrunk by `stretch`; under
// yarn the pairs that turn fast keep theirs, with a ramp between.
struct RopeAngles {
  int64_t rotated = 0;  // elements of a head that rotate
  double base = 10000;
  std::vector<double> factors;  // one per pair, or none
  double stretch = 1;           // linear scaling: by how much the context grew
  bool is_yarn = false;
  double original_context = 0;  // of yarn, as are those below
  double beta_fast = 32;
  double beta_slow = 1;
  double extrapolation = 1;  // share of the ramp
  double magnitude = 1;      // of cos and sin, under any scaling

  bool operator==(const RopeAngles&) const = default;
};

// f32[positions, rotated / 2] each, row by row.
struct RopeTables {
  std::vector<float> cos;
  std::vector<float> sin;
};

// `position_scale`, where not empty, has a factor of cos and sin for each position.
RopeTables rope_tables(const RopeAngles& angles, int64_t positions,
                       const std::vector<double>& position_scale);

}  // namespace rlx::gguf
