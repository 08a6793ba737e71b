// SPDX-License-Identifier: Apache-2.0
// A checkpoint's tokenizer.json and chat templates, as the keys that a GGUF file would have, or as
// a plan carries them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/checkpoint/config.h"
#include "compiler/import/checkpoint/made_file.h"
#include "compiler/support/diagnostics.h"

namespace rlx::checkpoint {

// Byte-level BPE, pieces by merges or scores, and BERT's words, with their added tokens. No keys
// where the folder has no tokenizer, and after a warning where it has one that is not read: a plan
// runs on ids then. Broken JSON is an error.
void read_tokenizer(const std::string& folder, const Config& config, MadeFile& made,
                    Diagnostics& diagnostics);

// The text section (schema/text.fbs) of a tokenizer.json, given by its path or its folder's, or of
// a GGUF file, for a model of any kind whose caches hold `context` rows, 0 without any; truncation
// and padding are left to the caller. nullopt after an error, which a tokenizer that is not read is
// too.
std::optional<std::vector<std::byte>> read_tokenizer_section(const std::string& path,
                                                             int64_t context,
                                                             Diagnostics& diagnostics);

}  // namespace rlx::checkpoint
