// SPDX-License-Identifier: Apache-2.0
// What each code means that ends a message of the compiler, or begins one of the verifier.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

struct Explanation {
  std::string code;  // "bad-axis", "V7.4"
  std::string law;   // of the verifier's rules: what holds of every good plan; else empty
  std::string cause;
  std::string example;  // a message with this code
  std::string cure;
};

// One for each code: the compiler's in the order of diag_codes.def, then the verifier's in that of
// verify_rules.def. A code without one does not compile.
std::vector<Explanation> explanations();
// Of the code as it stands in a message, with or without brackets, whatever its case.
std::optional<Explanation> find_explanation(std::string_view code);

// Each ends in a newline.
std::string explanation_text(const Explanation& explanation);
// All of them as a page.
std::string explanations_markdown();

}  // namespace rlx
