// SPDX-License-Identifier: Apache-2.0
// Language models as Hugging Face's libraries keep them: a folder with config.json and safetensors.
#pragma once

#include "compiler/import/import.h"

namespace rlx {

// Reads the checkpoint whose config.json's bytes and path are given, and the files beside it. The
// graph is that of a GGUF file of the model, its params by GGUF's names. Params refer to the files'
// bytes. Model types, tensors and rope scalings that are not read are refused by name.
std::optional<SourceGraph> read_checkpoint(const GraphBytes& config, const std::string& path,
                                           const LanguageOptions& options,
                                           Diagnostics& diagnostics);

}  // namespace rlx
