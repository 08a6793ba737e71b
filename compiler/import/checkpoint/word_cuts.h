// SPDX-License-Identifier: Apache-2.0
// How a byte-level tokenizer cuts text into words.
#pragma once

#include <string_view>

#include "compiler/import/json_value.h"

namespace rlx::checkpoint {

// The name that GGUF files give the patterns and the normalizer of tokenizer.json, of which `model`
// is a part. Throws NotRead where they have none.
std::string_view name_of_cut(const JsonObject& file, const JsonObject& model);

}  // namespace rlx::checkpoint
