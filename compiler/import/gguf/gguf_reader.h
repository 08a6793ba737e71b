// SPDX-License-Identifier: Apache-2.0
// Language models of GGUF files, as graphs with an entry for each number of tokens.
#pragma once

#include "compiler/import/import.h"

namespace rlx {

// Reads a GGUF file and, of a model in several, those beside it. Params refer to the files' bytes.
// Unknown architectures, tensor types, rope scalings and tensors are refused by name.
std::optional<SourceGraph> read_gguf_graph(const GraphBytes& bytes, const std::string& file,
                                           const LanguageOptions& options,
                                           Diagnostics& diagnostics);

}  // namespace rlx
