// SPDX-License-Identifier: Apache-2.0
// Dims computed from symbols, as graph files write them: "batch * 12", "(height + 31) / 32 * 7".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "compiler/support/dim.h"

namespace rlx {

// Why a text has no value: `symbol` where the name is no symbol, otherwise the end of a sentence
// about the text.
struct DimFault {
  std::optional<std::string> symbol;
  std::string message;
};

// The value of a symbol, or the free symbol; nullopt where there is none of that name.
using SymbolLookup = std::function<std::optional<Dim>(const std::string& name)>;

// Integers, symbols, + - * and / with parentheses; / rounds toward minus infinity. A symbol whose
// name is no identifier stands in single quotes: 'past + 1'. A text that is a symbol's whole name
// means that symbol. Arithmetic beyond 64 bits, a division by zero or by a negative number, at any
// value of the free symbols, and more than 32 parentheses inside each other are faults.
std::variant<Dim, DimFault> evaluate_dim(std::string_view text, const SymbolLookup& lookup);

// A symbol as it stands in an expression: with quotes where it needs them. nullopt where it cannot
// stand in one (its name holds a quote).
std::optional<std::string> symbol_in_expression(std::string_view name);

}  // namespace rlx
