// SPDX-License-Identifier: Apache-2.0
// Several entries of a plan from one model, each with symbols bound in its own way (a bucket of
// shapes).
#pragma once

#include <span>
#include <string>

#include "compiler/import/import.h"

namespace rlx {

// An entry of the plan.
struct EntryRequest {
  std::string name;
  // Of the model; empty: the one of that name or, where dims are given, the only one.
  std::string source;
  DimBindings dims;  // override those of the ImportOptions
};

// load_module once per way to bind, and of each the entries that are asked for, in that order, as
// one module: weights of equal type and data are one, states are one by name. A symbol that
// entries bind differently is none of the module's: the shapes of each entry's inputs say what it
// is for. Reports requests of one name, unknown entries, and states whose types differ.
std::optional<Module> load_entries(const std::string& path, const ImportOptions& options,
                                   std::span<const EntryRequest> requests,
                                   Diagnostics& diagnostics);

}  // namespace rlx
