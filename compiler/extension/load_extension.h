// SPDX-License-Identifier: Apache-2.0
// Extensions in: a folder with extension.json becomes ops that models may name "namespace.op".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/extension/extension_files.h"
#include "compiler/ops/extension/extension.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// What a folder holds: its ops in the order of the description.
struct ExtensionFamily {
  ExtensionFiles files;
  std::vector<const Extension*> ops;
  std::string cases;  // path of the table of cases; empty: none
};

// Reads and registers the ops of a folder; those that the same description registered before are
// found again. Everything that is wrong is reported, and then nothing registered.
std::optional<ExtensionFamily> load_extension(const std::string& folder, Diagnostics& diagnostics);

// The families that the compiler brings along; the first call registers them.
const std::vector<ExtensionFamily>& built_in_extensions();

}  // namespace rlx
