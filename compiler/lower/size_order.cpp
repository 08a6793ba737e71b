// SPDX-License-Identifier: Apache-2.0
// Whether a free size is largest where its symbols are: shown by its expression, or tried.
#include "compiler/lower/size_order.h"

#include <algorithm>
#include <map>
#include <vector>

#include "compiler/support/size_growth.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kMostTries = 1024;

// Up to `most` values of the symbol from its minimum to its maximum, at equal steps.
std::vector<int64_t> values_of(const FreeSymbol& symbol, int64_t most) {
  const int64_t steps = (symbol.maximum - symbol.minimum) / symbol.multiple_of;
  const int64_t stride = std::max<int64_t>(ceil_div(steps, most - 1), 1);
  std::vector<int64_t> values;
  for (int64_t step = 0; step < steps; step += stride)
    values.push_back(symbol.minimum + step * symbol.multiple_of);
  values.push_back(symbol.maximum);
  return values;
}

}  // namespace

std::optional<int64_t> value_above_bound(const Dim& size) {
  if (grows_only(size)) return std::nullopt;
  std::map<uint32_t, FreeSymbol> symbols;
  for_each_symbol(size, [&symbols](const FreeSymbol& symbol) { symbols[symbol.index] = symbol; });
  int64_t each = kMostTries;  // values of a symbol
  while (each > 2) {
    int64_t tries = 1;
    for (size_t i = 0; i < symbols.size() && tries <= kMostTries; ++i) tries *= each;
    if (tries <= kMostTries) break;
    each /= 2;
  }
  std::map<uint32_t, std::vector<int64_t>> values;
  std::map<uint32_t, size_t> at;
  for (const auto& [index, symbol] : symbols) values[index] = values_of(symbol, each);
  for (bool is_done = false; !is_done;) {
    const auto tried = [&](const FreeSymbol& symbol) {
      return Dim(values.at(symbol.index).at(at[symbol.index]));
    };
    const int64_t value = with_symbols(size, tried).bound();
    if (value > size.bound()) return value;
    is_done = true;
    for (const auto& [index, all] : values) {
      is_done = ++at[index] == all.size();
      if (!is_done) break;
      at[index] = 0;
    }
  }
  return std::nullopt;
}

}  // namespace rlx
