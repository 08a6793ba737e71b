// SPDX-License-Identifier: Apache-2.0
// The section of a plan that says who vouches for it. Runtimes that do not know it skip it.
#pragma once

#include <cstdint>

namespace rlx {

inline constexpr uint32_t kSignatureSection = 9;
inline constexpr uint32_t kSignatureVersion = 1;

// The section: this, then digest_count SHA-256 digests of 32 bytes: of every other section in the
// order of the header's table, then of every file that holds weights in the order of the index.
//
// What is signed: the text kSignatureDomain without its end, the header page with two fields zero
// (its own checksum and that of this section), then these digests.
struct PlanSignature {
  uint32_t version;
  uint32_t digest_count;
  uint8_t public_key[32];  // Ed25519 (RFC 8032); which of a caller's keys it is, no reason to trust
  uint8_t signature[64];
};
static_assert(sizeof(PlanSignature) == 104);

inline constexpr char kSignatureDomain[] = "rlx plan signature 1";

}  // namespace rlx
