// SPDX-License-Identifier: Apache-2.0
// c64 elements on the host: the 64 bits that memory holds, real part low, as host tensors carry
// them among their integers.
#pragma once

#include <bit>
#include <complex>
#include <cstdint>

namespace rlx {

inline std::complex<double> complex_from_bits(int64_t bits) {
  const auto word = static_cast<uint64_t>(bits);
  return {std::bit_cast<float>(static_cast<uint32_t>(word)),
          std::bit_cast<float>(static_cast<uint32_t>(word >> 32))};
}

// Each part rounded to f32 once.
inline int64_t complex_to_bits(std::complex<double> value) {
  const auto part = [](double x) {
    return static_cast<uint64_t>(std::bit_cast<uint32_t>(static_cast<float>(x)));
  };
  return static_cast<int64_t>(part(value.imag()) << 32 | part(value.real()));
}

}  // namespace rlx
