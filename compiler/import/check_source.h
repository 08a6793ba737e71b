// SPDX-License-Identifier: Apache-2.0
// What every reader checks of a graph once its fields are read: limits, names, ranges.
#pragma once

#include "compiler/import/source_graph.h"

namespace rlx {

// Readers stop after this many errors: a hostile file must not fill memory with messages.
inline constexpr size_t kMaxErrors = 1000;

// Reports every breach of the limits of source_graph.h, every name that is not legal, every
// repeated name of a symbol, entry or attribute list, and symbols whose range is empty. False where
// anything was reported.
bool check_source(const SourceGraph& graph, Diagnostics& diagnostics);

}  // namespace rlx
