// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/rope_tables.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rlx::gguf {
namespace {

// The pair that turns `turns` times within the original context (arXiv 2309.00071, 3.2).
double pair_of_turns(const RopeAngles& angles, double turns) {
  return static_cast<double>(angles.rotated) *
         std::log(angles.original_context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(angles.base));
}

// How much of each pair's angle stays as it was: 1 for pairs that turn fast, 0 for slow ones.
std::vector<double> kept_shares(const RopeAngles& angles) {
  std::vector<double> shares(static_cast<size_t>(angles.rotated / 2), 0.0);
  if (!angles.is_yarn) return shares;
  const double first = std::max(0.0, std::floor(pair_of_turns(angles, angles.beta_fast)));
  const double last = std::min(static_cast<double>(angles.rotated - 1),
                               std::ceil(pair_of_turns(angles, angles.beta_slow)));
  for (size_t i = 0; i < shares.size(); ++i) {
    const double ramp = (static_cast<double>(i) - first) / std::max(0.001, last - first);
    shares[i] = (1 - std::clamp(ramp, 0.0, 1.0)) * angles.extrapolation;
  }
  return shares;
}

// Radians per position of each pair.
std::vector<double> speeds_of(const RopeAngles& angles) {
  const std::vector<double> kept = kept_shares(angles);
  std::vector<double> speeds(kept.size());
  for (size_t i = 0; i < speeds.size(); ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(angles.rotated);
    double speed = std::pow(angles.base, exponent);
    if (!angles.factors.empty()) speed /= angles.factors[i];
    speeds[i] = speed / angles.stretch * (1 - kept[i]) + speed * kept[i];
  }
  return speeds;
}

}  // namespace

RopeTables rope_tables(const RopeAngles& angles, int64_t positions,
                       const std::vector<double>& position_scale) {
  const std::vector<double> speeds = speeds_of(angles);
  RopeTables tables;
  for (int64_t position = 0; position < positions; ++position) {
    const double magnitude =
        angles.magnitude *
        (position_scale.empty() ? 1.0 : position_scale[static_cast<size_t>(position)]);
    for (const double speed : speeds) {
      const double angle = static_cast<double>(position) * speed;
      tables.cos.push_back(static_cast<float>(std::cos(angle) * magnitude));
      tables.sin.push_back(static_cast<float>(std::sin(angle) * magnitude));
    }
  }
  return tables;
}

}  // namespace rlx::gguf
