// SPDX-License-Identifier: Apache-2.0
// Several entries of a plan from one model, each with symbols bound in its own way (a bucket of
// shapes), or for some of the values that a run may give them.
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
// one module: weights of equal type and data are one, states are one by name. Without requests, all
// entries of the model. A symbol that entries bind differently is none of the module's: the shapes
// of each entry's inputs say what it is for. Where the options give symbols several ranges, each
// entry becomes a graph for every combination of these, the one with all maxima first. Reports
// requests of one name, unknown entries, states whose types differ, and a last range of one value.
std::optional<Module> load_entries(const std::string& path, const ImportOptions& options,
                                   std::span<const EntryRequest> requests,
                                   Diagnostics& diagnostics);

}  // namespace rlx
