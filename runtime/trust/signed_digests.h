// SPDX-License-Identifier: Apache-2.0
// What a plan's signature vouches for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/sha256.h"
#include "runtime/base/status.h"
#include "runtime/trust/libcrypto.h"
#include "schema/plan_header.h"
#include "schema/plan_signature.h"

namespace rlx {

// SHA-256 of everything that a plan's run depends on.
struct PlanDigests {
  std::vector<Sha256Digest> sections;  // in the order of the header's table, without the signature
  std::vector<Sha256Digest> weight_files;  // in the order of the index
};

// Bytes of a signature section with so many digests.
uint64_t signature_section_bytes(size_t digest_count);

// What a signature is of (schema/plan_signature.h). `page` is the header page as it is in the file.
std::vector<std::byte> signed_message(std::span<const std::byte> page, const PlanDigests& digests);

// The section, for a message signed by this key.
std::vector<std::byte> signature_section(const PublicKey& key, const SignatureBytes& signature,
                                         const PlanDigests& digests);

// The digests in a signature section that one of the keys vouches for, together with the header
// page. RLX_UNTRUSTED_PLAN, with a sentence that begins with `plan`, for any other section.
Status read_signature(const LibCrypto& library, std::span<const PublicKey> keys,
                      std::span<const std::byte> page, std::span<const std::byte> section,
                      const std::string& plan, PlanDigests& digests);

}  // namespace rlx
