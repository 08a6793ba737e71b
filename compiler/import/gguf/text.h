// SPDX-License-Identifier: Apache-2.0
// A language model's tokenizer and chat templates, as a plan carries them (schema/text.fbs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/import/gguf/keys.h"

namespace rlx::gguf {

struct TextOptions {
  int64_t vocabulary = 0;  // rows of the model's logits
  int64_t context = 0;     // rows of its caches
};

// The section's bytes; none where the file has no tokenizer, or after a warning where it has one
// that is not read: the plan runs on ids then. Keys that contradict each other are errors.
std::vector<std::byte> read_text(Keys& keys, const File& file, const TextOptions& options);

}  // namespace rlx::gguf
