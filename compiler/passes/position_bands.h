// SPDX-License-Identifier: Apache-2.0
// Conditions on positions of queries and keys that hold for a band of keys beside each query, at
// every size.
#pragma once

#include <functional>
#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/passes/known_tensors.h"

namespace rlx {

// The keys that count for query i: i + least up to i + most, both with them; all on the side where
// there is none.
struct PositionBand {
  bool is_empty = false;  // no key counts for any query
  std::optional<Dim> least;
  std::optional<Dim> most;

  [[nodiscard]] bool is_open() const { return !is_empty && !least && !most; }
};

// Whether a - b is 0 or more at every value of the symbols, as far as the expressions show.
bool is_always_at_least(const Dim& a, const Dim& b);

// The band of a condition that holds where keys count, or inverted where they do not, and that
// broadcasts to [.., queries, keys]. It may be made of positions that are moved, added to each
// other and compared, of triangles, of known numbers, and of conditions that must all hold. nullopt
// where it is something else, or differs between batches or heads.
std::optional<PositionBand> band_of_condition(const Graph& graph, KnownTensors& tensors,
                                              ValueId condition, bool is_inverted,
                                              const Dim& queries, const Dim& keys);

// The same of known elements of a shape: `counts` says it of one by its place.
std::optional<PositionBand> band_of_elements(const Shape& shape,
                                             const std::function<bool(size_t)>& counts,
                                             const Dim& queries, const Dim& keys);

}  // namespace rlx
