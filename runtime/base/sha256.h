// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), for digests by which something from elsewhere is known again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rlx {

using Sha256Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  // Appends bytes to the message.
  void update(std::span<const std::byte> bytes);
  // The digest of the message so far. Ends the message: nothing may follow but the destructor.
  [[nodiscard]] Sha256Digest finish();

 private:
  static constexpr size_t kBlockBytes = 64;
  void compress(const std::byte* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kBlockBytes> pending_{};  // the message's end that fills no block yet
  uint64_t message_bytes_ = 0;
};

// The digest of one message.
Sha256Digest sha256(std::span<const std::byte> message);

// 64 hexadecimal digits in lower case, as sha256sum prints them.
std::string hex_text(const Sha256Digest& digest);
// The digest of such a text; nullopt for any other text.
std::optional<Sha256Digest> digest_of_hex(std::string_view text);

}  // namespace rlx
