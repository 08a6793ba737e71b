// SPDX-License-Identifier: Apache-2.0
// A model to be compiled as a user asks for it, from the command line or from Python: names that
// are checked, and what depends on the kind of the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/import/entries.h"
#include "compiler/import/import.h"
#include "compiler/import/keep.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

struct CompileRequest {
  std::string model;  // a file or a checkpoint's folder
  ImportOptions import;
  std::vector<EntryRequest> entries;  // none: all
  std::string tokenizer = {};         // as --tokenizer takes it; none: the model's own
  KeptValues kept;
  std::optional<Precision> precision;      // none: what the model's kind wants
  std::vector<std::string> architectures;  // names of CUDA's; none: the default ones
  CompileOptions options;                  // load_request sets precision and architectures
};

// Names of CUDA's architectures with commas between: all, or those that are taken unless others
// are asked for.
std::string architecture_names(bool only_default);

// What is wrong with the names of architectures, passes and kernels, as a sentence with the names
// that exist; nothing where all is well.
std::optional<std::string> find_misuse(const CompileRequest& request);

// Reads the model with its text, makes the kept values outputs, and completes request.options.
// nullopt where anything was reported. Precondition: find_misuse found nothing.
std::optional<Module> load_request(CompileRequest& request, Diagnostics& diagnostics);

}  // namespace rlx
