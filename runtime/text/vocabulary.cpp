// SPDX-License-Identifier: Apache-2.0
// The tokens of a language model.
#include "runtime/text/vocabulary.h"

namespace rlx {

void Vocabulary::add(std::string_view bytes, TokenKind kind) {
  bytes_ += bytes;
  ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  kinds_.push_back(kind);
}

}  // namespace rlx
