// SPDX-License-Identifier: Apache-2.0
// What ties code to its record. A kernel's contract is all that the plan says about how its code is
// launched and what it touches; the SHA-256 of it stands in the code itself, so that neither can be
// exchanged or altered alone (rule V9.18). Code and contract together have one digest, by which a
// caller knows code again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/sha256.h"
#include "schema/plan_generated.h"

namespace rlx {

// The contract of each variant of a kernel. Its bytes: the text "rlx contract 1", then the fields
// of Kernel and of Variant in the order of plan.fbs, each as wide as there, little-endian; before a
// string and a list its length in 32 bits. Left out are what the code decides (where it lies, its
// size and hash) and what is for readers (specialization).
class KernelContract {
 public:
  explicit KernelContract(const fb::Kernel& kernel);
  [[nodiscard]] Sha256Digest of(const fb::Variant& variant) const;
  // Of the part that variants share.
  [[nodiscard]] uint64_t size_bytes() const { return size_bytes_; }

 private:
  Sha256 kernel_;  // the part that variants share
  uint64_t size_bytes_ = 0;
};

// SHA-256 over the contract's digest and the code: what a list of known code holds.
Sha256Digest code_digest(const Sha256Digest& contract, std::span<const std::byte> code);

// The code with the contract's digest in its place (spirv_facts.h, cuda_code.h), instead of what
// stood there. SPIR-V gets a place where it has none; nullopt for CUDA code without one, and for
// what is no code.
std::optional<std::vector<std::byte>> with_contract(fb::CodeFormat format,
                                                    std::span<const std::byte> code,
                                                    const Sha256Digest& contract);

}  // namespace rlx
