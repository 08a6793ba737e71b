// SPDX-License-Identifier: Apache-2.0
// Values of sizes at a few values of their symbols.
#include "compiler/support/sampled_sizes.h"

namespace rlx {

int64_t SampledSizes::value(const Dim& size) const {
  if (!size.is_free()) return size.bound();
  const auto sampled = [this](const FreeSymbol& symbol) {
    const int64_t above = std::max(symbol.maximum >> halvings_, symbol.minimum) - symbol.minimum;
    return Dim(symbol.minimum + above / symbol.multiple_of * symbol.multiple_of);
  };
  return with_symbols(size, sampled).bound();
}

bool is_narrow(const Dim& size) {
  bool narrow = true;
  for_each_symbol(size, [&narrow](const FreeSymbol& symbol) {
    narrow = narrow && symbol.maximum - symbol.minimum <= symbol.minimum;
  });
  return narrow;
}

}  // namespace rlx
