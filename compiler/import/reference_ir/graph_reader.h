// SPDX-License-Identifier: Apache-2.0
// Graphs as the reference systems' own writer puts them: JSON of a graph, or of its modules at the
// two levels that hold one (MIR and LIR). Nodes keep their names and fields, as attributes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "compiler/import/source_graph.h"
#include "compiler/support/diagnostics.h"

namespace rlx::reference_ir {

// JSON with nodes that have an id, and no graph file of rlx.
bool is_reference_graph(std::string_view json);

// Params are tensors of the same name in STEM.safetensors beside `file`. nullopt after at least one
// error.
std::optional<SourceGraph> read_reference_graph(std::string_view json, const std::string& file,
                                                Diagnostics& diagnostics);

}  // namespace rlx::reference_ir
