// SPDX-License-Identifier: Apache-2.0
// Whose kernel code a caller is willing to run.
#pragma once

#include <cstdint>
#include <string>

namespace rlx {

enum class Trust : uint8_t {
  Any,     // the plan is the caller's own, as a program would be
  Known,   // code and its records are in a list of digests
  Signed,  // all of the plan is signed with a key that the caller pinned
};

struct TrustPolicy {
  Trust kind = Trust::Any;
  std::string public_keys = {};  // Signed: one or more Ed25519 keys in PEM form
  std::string known_code = {};   // Known: see KnownCode::parse
};

}  // namespace rlx
