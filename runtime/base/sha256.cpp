// SPDX-License-Identifier: Apache-2.0
// SHA-256 as FIPS 180-4 defines it; names of variables are the standard's.
#include "runtime/base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace rlx {
namespace {

// First 32 bits of the fractional parts of the cube roots of the first 64 primes (4.2.2).
constexpr std::array<uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::string_view kDigits = "0123456789abcdef";

uint32_t big_endian_word(const std::byte* bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return __builtin_bswap32(word);
}

}  // namespace

void Sha256::compress(const std::byte* block) {
  std::array<uint32_t, 64> w;
  for (size_t t = 0; t < 16; ++t) w[t] = big_endian_word(block + t * sizeof(uint32_t));
  for (size_t t = 16; t < w.size(); ++t) {
    const uint32_t sigma0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const uint32_t sigma1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = sigma1 + w[t - 7] + sigma0 + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (size_t t = 0; t < w.size(); ++t) {
    const uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t chosen = (e & f) ^ (~e & g);
    const uint32_t t1 = h + sum1 + chosen + kRoundConstants[t] + w[t];
    const uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + sum0 + majority;
  }
  const std::array<uint32_t, 8> mixed = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state_.size(); ++i) state_[i] += mixed[i];
}

void Sha256::update(std::span<const std::byte> bytes) {
  const size_t held = message_bytes_ % kBlockBytes;
  message_bytes_ += bytes.size();
  if (held != 0) {
    const size_t taken = std::min(bytes.size(), kBlockBytes - held);
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<ptrdiff_t>(held));
    bytes = bytes.subspan(taken);
    if (held + taken < kBlockBytes) return;
    compress(pending_.data());
  }
  for (; bytes.size() >= kBlockBytes; bytes = bytes.subspan(kBlockBytes)) compress(bytes.data());
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
}

Sha256Digest Sha256::finish() {
  const uint64_t length_bits = __builtin_bswap64(message_bytes_ * 8);
  // A one bit, zeros up to the last 8 bytes of a block, and the length (5.1.1).
  std::array<std::byte, kBlockBytes> padding{std::byte{0x80}};
  const size_t held = message_bytes_ % kBlockBytes;
  const size_t room = kBlockBytes - sizeof length_bits;
  update(std::span(padding).first((held < room ? room : room + kBlockBytes) - held));
  update(std::as_bytes(std::span(&length_bits, 1)));

  Sha256Digest digest;
  for (size_t i = 0; i < state_.size(); ++i) {
    const uint32_t word = __builtin_bswap32(state_[i]);
    std::memcpy(digest.data() + i * sizeof word, &word, sizeof word);
  }
  return digest;
}

Sha256Digest sha256(std::span<const std::byte> message) {
  Sha256 hash;
  hash.update(message);
  return hash.finish();
}

std::string hex_text(const Sha256Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    text += kDigits[std::to_integer<unsigned>(byte >> 4)];
    text += kDigits[std::to_integer<unsigned>(byte & std::byte{15})];
  }
  return text;
}

std::optional<Sha256Digest> digest_of_hex(std::string_view text) {
  Sha256Digest digest{};
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    const size_t high = kDigits.find(text[2 * i]);
    const size_t low = kDigits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    digest[i] = static_cast<std::byte>(high << 4 | low);
  }
  return digest;
}

}  // namespace rlx
