// SPDX-License-Identifier: Apache-2.0
// A language model's graph from its keys and tensors, whatever files they came in.
#pragma once

#include <optional>
#include <string>

#include "compiler/import/gguf/architecture.h"
#include "compiler/import/gguf/keys.h"
#include "compiler/import/gguf/tensor_table.h"
#include "compiler/import/import.h"

namespace rlx::gguf {

// Keys and tensors have GGUF's names; `first` is the file that `keys` reads. nullopt after an error
// about `file`.
std::optional<SourceGraph> build_language_graph(const Architecture& architecture,
                                                const LanguageOptions& options,
                                                TensorTable& tensors, Keys& keys, const File& first,
                                                const std::string& file, Diagnostics& diagnostics);

}  // namespace rlx::gguf
