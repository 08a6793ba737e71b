// SPDX-License-Identifier: Apache-2.0
// Binding symbols and making shapes and attributes concrete.
#include "compiler/import/symbols.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/import/names.h"
#include "compiler/support/dim_expression.h"
#include "compiler/support/free_size.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

std::vector<std::string_view> names_of(const std::vector<SourceSymbol>& symbols) {
  std::vector<std::string_view> names;
  for (const SourceSymbol& symbol : symbols) names.push_back(symbol.name);
  return names;
}

std::string range_text(const SourceSymbol& symbol) {
  std::string text =
      "from " + std::to_string(symbol.minimum) + " to " + std::to_string(symbol.maximum);
  if (symbol.multiple_of != 1) text += ", a multiple of " + std::to_string(symbol.multiple_of);
  return text;
}

std::optional<double> special_real(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

// The double equal to an integer, where there is one.
std::optional<double> exact_real(int64_t value) {
  constexpr int64_t kExact = int64_t{1} << 53;
  if (value < -kExact || value > kExact) return std::nullopt;
  return static_cast<double>(value);
}

AttributeValue real_of(const SourceAttribute& value, AttributeValue unchanged) {
  std::optional<double> real;
  if (const auto* integer = std::get_if<int64_t>(&value)) real = exact_real(*integer);
  if (const auto* text = std::get_if<std::string>(&value)) real = special_real(*text);
  return real ? AttributeValue(*real) : unchanged;
}

AttributeValue reals_of(const SourceAttribute& value, AttributeValue unchanged) {
  const auto* ints = std::get_if<Ints>(&value);
  if (ints == nullptr) return unchanged;
  Floats floats;
  for (const int64_t item : *ints) {
    const std::optional<double> real = exact_real(item);
    if (!real) return unchanged;
    floats.push_back(*real);
  }
  return floats;
}

// A value as it was written; a dim list as texts.
AttributeValue as_written(const SourceAttribute& value) {
  const auto* dims = std::get_if<SourceDims>(&value);
  if (dims == nullptr) {
    return std::visit(
        [](const auto& typed) -> AttributeValue {
          if constexpr (std::is_same_v<std::decay_t<decltype(typed)>, SourceDims>) {
            return Strings();
          } else {
            return typed;
          }
        },
        value);
  }
  Strings texts;
  for (const SourceDim& dim : *dims) {
    const auto* size = std::get_if<int64_t>(&dim);
    texts.push_back(size ? std::to_string(*size) : std::get<std::string>(dim));
  }
  return texts;
}

}  // namespace

SymbolTable::SymbolTable(const SourceGraph& graph, const DimBindings& dims,
                         const FreeDims& free_dims, Diagnostics& diagnostics)
    : graph_(graph), diagnostics_(diagnostics) {
  for (const SourceSymbol& symbol : graph.symbols) add(symbol, dims, free_dims);
  for (const auto& [name, value] : dims) check_names(name, std::to_string(value));
  for (const auto& [name, range] : free_dims) {
    check_names(name, std::to_string(range.minimum) + ":" + std::to_string(range.maximum));
  }
}

void SymbolTable::check_names(const std::string& name, const std::string& given) {
  if (values_.contains(name)) return;
  const std::vector<std::string_view> names = names_of(graph_.symbols);
  diagnostics_.error(
      DiagCode::BadBinding, {graph_.file, ""},
      "--dim " + name + "=" + given + " names no symbol of the graph",
      names.empty() ? "the graph has no symbols" : "its symbols are " + list_names(names));
}

void SymbolTable::add(const SourceSymbol& symbol, const DimBindings& dims,
                      const FreeDims& free_dims) {
  Symbol record{.name = symbol.name,
                .minimum = symbol.minimum,
                .maximum = symbol.maximum,
                .multiple_of = symbol.multiple_of,
                .bound = symbol.minimum};
  std::optional<Dim> value;
  const auto asked = free_dims.find(symbol.name);
  if (asked == free_dims.end()) {
    value = bind(symbol, dims);
    if (value) record.bound = value->bound();
  } else if (const std::optional<SymbolRange> range = free(symbol, asked->second)) {
    record.minimum = range->minimum;
    record.maximum = record.bound = range->maximum;
    record.multiple_of = range->multiple_of;
    record.is_free = range->minimum != range->maximum;
    value = record.is_free ? Dim::of({.index = static_cast<uint32_t>(bound_.size()),
                                      .name = symbol.name,
                                      .minimum = range->minimum,
                                      .maximum = range->maximum,
                                      .multiple_of = range->multiple_of})
                           : Dim(range->minimum);
  }
  values_.emplace(symbol.name, std::move(value));
  bound_.push_back(std::move(record));
}

std::optional<SymbolRange> SymbolTable::free(const SourceSymbol& symbol, SymbolRange asked) {
  const int64_t multiple = std::lcm(asked.multiple_of, symbol.multiple_of);
  const SymbolRange range{.minimum = round_up(asked.minimum, multiple),
                          .maximum = asked.maximum / multiple * multiple,
                          .multiple_of = multiple};
  if (asked.minimum >= symbol.minimum && asked.maximum <= symbol.maximum &&
      range.minimum <= range.maximum)
    return range;
  diagnostics_.error(
      DiagCode::BadBinding, symbol.place,
      "symbol " + in_quotes(symbol.name) + " is to be free from " + std::to_string(asked.minimum) +
          " to " + std::to_string(asked.maximum) +
          (asked.multiple_of == 1 ? std::string()
                                  : " in steps of " + std::to_string(asked.multiple_of)) +
          ", wanted values " + range_text(symbol));
  return std::nullopt;
}

std::optional<int64_t> SymbolTable::bind(const SourceSymbol& symbol, const DimBindings& dims) {
  const auto given = dims.find(symbol.name);
  if (given == dims.end() && symbol.minimum != symbol.maximum) {
    diagnostics_.error(DiagCode::UnboundSymbol, symbol.place,
                       "symbol " + in_quotes(symbol.name) + " has no value",
                       "give it with --dim " + symbol.name + "=N, N " + range_text(symbol) +
                           ", or leave it to the run with --dim " + symbol.name + "=MIN:MAX");
    return std::nullopt;
  }
  const int64_t value = given == dims.end() ? symbol.minimum : given->second;
  if (value >= symbol.minimum && value <= symbol.maximum && value % symbol.multiple_of == 0)
    return value;
  diagnostics_.error(DiagCode::BadBinding, symbol.place,
                     "symbol " + in_quotes(symbol.name) + " is bound to " + std::to_string(value) +
                         ", wanted a value " + range_text(symbol));
  return std::nullopt;
}

std::optional<Shape> SymbolTable::resolve(const SourceDims& dims, const SourcePlace& place,
                                          const std::string& what) {
  Shape shape;
  bool is_good = true;
  for (const SourceDim& dim : dims) {
    if (const auto* size = std::get_if<int64_t>(&dim)) {
      shape.push_back(*size);
      continue;
    }
    const std::optional<Dim> value = evaluate(std::get<std::string>(dim), place, what);
    is_good = is_good && value.has_value();
    if (value) shape.push_back(*value);
  }
  if (!is_good) return std::nullopt;
  return shape;
}

std::optional<Dim> SymbolTable::evaluate(const std::string& text, const SourcePlace& place,
                                         const std::string& what) {
  bool is_unbound = false;
  const auto lookup = [&](const std::string& name) -> std::optional<Dim> {
    const auto found = values_.find(name);
    if (found == values_.end()) return std::nullopt;
    is_unbound = is_unbound || !found->second;
    return found->second.value_or(1);
  };
  const std::variant<Dim, DimFault> value = evaluate_dim(text, lookup);
  if (is_unbound) return std::nullopt;  // which was reported
  if (const auto* size = std::get_if<Dim>(&value)) return *size;
  const DimFault& fault = std::get<DimFault>(value);
  if (!fault.symbol) {
    diagnostics_.error(DiagCode::BadField, place,
                       what + ": " + in_quotes(text) + " " + fault.message,
                       "symbols, integers, + - * / and parentheses make an expression");
    return std::nullopt;
  }
  const std::vector<std::string_view> names = names_of(graph_.symbols);
  const std::string near = nearest_hint(*fault.symbol, names);
  diagnostics_.error(
      DiagCode::UnboundSymbol, place,
      what + " uses symbol " + in_quotes(*fault.symbol) + ", which the graph does not declare",
      near.empty() ? "declare it in \"symbols\"" : near);
  return std::nullopt;
}

std::optional<AttributeValue> SymbolTable::resolve(const SourceNode& node, const std::string& name,
                                                   AttrType type, const SourceAttribute& value) {
  const std::string what = "attribute " + in_quotes(name) + " of node " + in_quotes(node.name);
  std::optional<SourceDims> dims;  // a value that may hold symbols, where the op wants integers
  if (const auto* list = std::get_if<SourceDims>(&value)) dims = *list;
  if (const auto* names = std::get_if<Strings>(&value)) dims.emplace(names->begin(), names->end());
  if (type == AttrType::IntList && dims) {
    const std::optional<Ints> ints = resolve(*dims, node.place, what);
    return ints ? std::optional<AttributeValue>(*ints) : std::nullopt;
  }
  const auto* symbol = std::get_if<std::string>(&value);
  // A word that is no symbol stays a string, which the op refuses.
  const bool has_value =
      symbol && (values_.contains(*symbol) || symbol->find_first_of("+-*/('") != std::string::npos);
  if ((type == AttrType::Int || type == AttrType::IntList) && has_value) {
    const std::optional<Dim> size = evaluate(*symbol, node.place, what);
    if (!size) return std::nullopt;
    // A number that the run gives is a list of one; ops that want it now say so.
    if (type == AttrType::IntList || size->is_free()) return Ints{*size};
    return AttributeValue(size->bound());
  }
  // One number stands for a list of one.
  const auto* integer = std::get_if<int64_t>(&value);
  if (type == AttrType::IntList && integer) return Ints{*integer};
  if (type == AttrType::FloatList && integer) return reals_of(Ints{*integer}, as_written(value));
  if (const auto* real = std::get_if<double>(&value); type == AttrType::FloatList && real)
    return Floats{*real};
  if (type == AttrType::Float) return real_of(value, as_written(value));
  if (type == AttrType::FloatList) return reals_of(value, as_written(value));
  const auto* ints = std::get_if<Ints>(&value);
  if (type == AttrType::StringList && ints && ints->empty()) return Strings();
  return as_written(value);
}

std::optional<Attributes> SymbolTable::resolve(const SourceNode& node, const OpDef& op) {
  Attributes attributes;
  bool is_good = true;
  for (const auto& [name, value] : node.attributes) {
    const auto spec =
        std::find_if(op.attrs.begin(), op.attrs.end(),
                     [&name = name](const AttrSpec& row) { return row.name == name; });
    const auto resolved = spec == op.attrs.end() ? std::optional(as_written(value))
                                                 : resolve(node, name, spec->type, value);
    is_good = is_good && resolved.has_value();
    if (resolved) attributes.emplace(name, *resolved);
  }
  if (!is_good) return std::nullopt;
  return attributes;
}

}  // namespace rlx
