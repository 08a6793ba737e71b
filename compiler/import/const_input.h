// SPDX-License-Identifier: Apache-2.0
// Inputs of a model that the user makes constants: a sampling rate, a flag, an upper bound.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/import/source_graph.h"
#include "compiler/ir/tensor.h"

namespace rlx {

// By the input's name, what it is: a number, true, false, nan, inf or -inf, which all of its
// elements are; a list "[1, 2, 3]", flat or nested as the shape is; or the path of an .npy file.
using ConstInputs = std::map<std::string, std::string>;

// The declared dims of an input; nullopt where one is open.
using KnownDims = std::vector<std::optional<int64_t>>;

// The tensor that `text` gives for an input of this type, or why it is none: the end of a sentence
// that names the input. A file decides open dims, a flat list the only dim of a rank of 1.
std::variant<Tensor, std::string> const_tensor(const std::string& text, DType dtype,
                                               const KnownDims& dims);

// Makes inputs of a graph constants, in every entry that has them. Reports names of no input,
// values that do not fit, and entries that declare an input of one name differently.
bool fix_inputs(SourceGraph& graph, const ConstInputs& inputs, Diagnostics& diagnostics);

}  // namespace rlx
