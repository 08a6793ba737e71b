// SPDX-License-Identifier: Apache-2.0
// Expressions found from samples: which function of the symbols an integer is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rlx::onnx_import {

// The values of all symbols at one binding.
using Binding = std::vector<int64_t>;

// The expression (dim_expression.h) over `symbols`, which are written as they stand in one, that
// gives values[i] at bindings[i] for every i: a polynomial of degree 2 in each symbol and 3 in all,
// divided by a small number, a constant times symbols times floor((m s + a) / b), or a polynomial
// of symbols and of floor((s + a) / b) where what a symbol alone does to the values is linear but
// for a period b. nullopt where there is none of these.
std::optional<std::string> fit_dim(std::span<const std::string> symbols,
                                   std::span<const Binding> bindings,
                                   std::span<const int64_t> values);

}  // namespace rlx::onnx_import
