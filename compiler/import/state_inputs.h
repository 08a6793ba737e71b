// SPDX-License-Identifier: Apache-2.0
// Inputs of a model that become states of the plan: what one run gives as an output, the next takes
// as the input.
#pragma once

#include <map>
#include <string>

#include "compiler/import/source_graph.h"

namespace rlx {

// By the input's name, the output that is its next value: "present". With feeds of the reference
// systems, which carry rows of an output along an axis into the input: "present,row=pos,axis=1",
// the output's last row to row `pos`; "present,rows=count,axis=1", its first `count` rows to
// theirs. `pos` and `count` are integer inputs of one element, made where the entry has none of
// that name.
using StateInputs = std::map<std::string, std::string>;

// Makes inputs of a graph states, zeros at first, in every entry that has them; the outputs are
// written to them at the end of a run and are outputs no more. Reports names of no input or output,
// and entries that declare an input of one name differently.
bool make_states(SourceGraph& graph, const StateInputs& inputs, Diagnostics& diagnostics);

}  // namespace rlx
