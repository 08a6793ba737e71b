// SPDX-License-Identifier: Apache-2.0
// Symbols of a graph bound to numbers, and shapes and attributes made concrete with them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/ops/op_def.h"

namespace rlx {

class SymbolTable {
 public:
  // Binds every symbol: by `dims`, or by itself where its range is one number; those of `free_dims`
  // stay free. Reports symbols of which nothing is said, values and ranges outside a symbol's own,
  // and bindings of no symbol.
  SymbolTable(const SourceGraph& graph, const DimBindings& dims, const FreeDims& free_dims,
              Diagnostics& diagnostics);

  [[nodiscard]] const std::vector<Symbol>& bound() const { return bound_; }

  // The sizes of a shape or dim list. nullopt: a symbol was not bound, or is not declared, or an
  // expression has no value (reported here, as a fault of `what`).
  std::optional<Shape> resolve(const SourceDims& dims, const SourcePlace& place,
                               const std::string& what);

  // The attributes of a node in the types of its op's specs: integers become floats, symbols
  // numbers, "inf" a float. What does not fit a spec keeps its type; check_attributes reports it.
  // nullopt as in resolve.
  std::optional<Attributes> resolve(const SourceNode& node, const OpDef& op);

 private:
  // The value of a symbol or an expression of symbols. nullopt as in resolve.
  std::optional<Dim> evaluate(const std::string& text, const SourcePlace& place,
                              const std::string& what);
  void add(const SourceSymbol& symbol, const DimBindings& dims, const FreeDims& free_dims);
  std::optional<int64_t> bind(const SourceSymbol& symbol, const DimBindings& dims);
  // The range that a run may choose from. nullopt: reported.
  std::optional<SymbolRange> free(const SourceSymbol& symbol, SymbolRange asked);
  void check_names(const std::string& name, const std::string& given);
  std::optional<AttributeValue> resolve(const SourceNode& node, const std::string& name,
                                        AttrType type, const SourceAttribute& value);

  const SourceGraph& graph_;
  Diagnostics& diagnostics_;
  std::vector<Symbol> bound_;
  std::map<std::string, std::optional<Dim>, std::less<>> values_;  // nullopt: could not be bound
};

}  // namespace rlx
