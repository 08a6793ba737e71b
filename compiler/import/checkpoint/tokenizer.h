// SPDX-License-Identifier: Apache-2.0
// A checkpoint's tokenizer.json and chat templates, as the keys that a GGUF file would have.
#pragma once

#include <string>

#include "compiler/import/checkpoint/config.h"
#include "compiler/import/checkpoint/made_file.h"
#include "compiler/support/diagnostics.h"

namespace rlx::checkpoint {

// Byte-level BPE with its merges and added tokens. No keys where the folder has no tokenizer, and
// after a warning where it has one that is not read: a plan runs on ids then. Broken JSON is an
// error.
void read_tokenizer(const std::string& folder, const Config& config, MadeFile& made,
                    Diagnostics& diagnostics);

}  // namespace rlx::checkpoint
