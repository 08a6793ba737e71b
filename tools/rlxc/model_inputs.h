// SPDX-License-Identifier: Apache-2.0
// What commands that evaluate a model on the host have in common: an entry, its inputs from files,
// its outputs as arrays.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"
#include "runtime/base/status.h"
#include "tools/npy/npy.h"

namespace rlx {

using Arrays = std::map<std::string, npy::Array>;

// Prints a fault of what was given, and returns kExitInputRefused.
int refuse(const std::string& message);

// The entry of that name; without a name the only one. Null after wrong use was printed.
const Graph* find_graph(const Module& module, const std::string& name);

// Arguments of --inputs: NAME=FILE.npy, FILE.npz, or FILE.npy where the entry has one input.
// Nothing is converted; unknown names, names given twice and other types are refused.
Status read_arguments(const std::vector<std::string>& arguments, const Graph& graph,
                      Arrays& arrays);

// The inputs in the graph's order; nullopt after a missing one was printed.
std::optional<std::vector<Tensor>> gather_inputs(const Graph& graph, const Arrays& arrays);

const std::string& output_name(const Graph& graph, size_t output);

// A tensor as NumPy's type of its dtype, or, of floats, as f64 before rounding.
Status array_of(const std::string& name, const Tensor& tensor, bool float64, npy::Array& array);

}  // namespace rlx
