// SPDX-License-Identifier: Apache-2.0
// One table of weights for the programs of several targets, or for entries bound one by one.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace rlx {

// Adds the weights of `other` to `module`, except those that are there already: equal in type and
// data. A name that is taken gets `suffix`. Returns per weight of `other` its id in `module`.
std::vector<WeightId> merge_weights(Module& module, const Module& other, const std::string& suffix);

}  // namespace rlx
