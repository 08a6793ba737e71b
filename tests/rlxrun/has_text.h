// SPDX-License-Identifier: Apache-2.0
// What messages say.
#pragma once

#include <string>

namespace rlx::test {

inline bool has_text(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace rlx::test
