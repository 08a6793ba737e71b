// SPDX-License-Identifier: Apache-2.0
// Plans signed with an Ed25519 key, and the keys.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace rlx {

// A key as two texts in PEM form.
struct KeyTexts {
  std::string private_pem;  // PKCS #8, not encrypted
  std::string public_pem;
};
Status make_key_texts(KeyTexts& texts);

struct SignOptions {
  std::string_view private_pem;
  std::string weights_folder = {};  // as in PlanOptions
};

// Writes the plan at `from` to `to` with a signature over all of it and of the files that hold
// weights of it, in the place of one that it has. Refuses a plan that the verifier refuses, weights
// included. `to` may be `from`. `public_key`: the digits of the key that verifies it.
Status sign_plan(const std::string& from, const SignOptions& options, const std::string& to,
                 std::string& public_key);

}  // namespace rlx
