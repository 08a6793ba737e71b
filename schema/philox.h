// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 and its uniforms (ops.md 0.8), bit for bit those of shaders/rng_fill.kernel.
#pragma once

#include <array>
#include <cstdint>

namespace rlx {

using PhiloxWords = std::array<uint32_t, 4>;

// Ten rounds of the counter under the key.
constexpr PhiloxWords philox(PhiloxWords c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

constexpr std::array<uint32_t, 2> philox_key(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

// [0, 1): 24 bits of the word.
constexpr float philox_uniform(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}
// (0, 1): odd multiples of 2^-24, for use under a log.
constexpr float philox_open_uniform(uint32_t word) {
  return static_cast<float>(2 * (word >> 9) + 1) * 0x1p-24f;
}

}  // namespace rlx
