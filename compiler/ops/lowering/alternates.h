// SPDX-License-Identifier: Apache-2.0
// Alternates: a node whose size a run gives may be lowered by several rows of a table, each for a
// part of the size's range. All their steps are in the program; at a binding those of one run.
#pragma once

#include <concepts>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compiler/ops/lowering/forms.h"

namespace rlx {

// A problem whose rows may be chosen by a size:
//   sizing(problem): that size; none where one row serves.
//   at_size(problem, most): as it is where its symbols make the size the largest one up to `most`.
//   for_sizes(problem, served): as it is lowered for these sizes alone.
template <typename Problem>
concept HasAlternates = requires(const Problem& problem, const ServedSizes& served) {
  { sizing(problem) } -> std::same_as<std::optional<Dim>>;
  { at_size(problem, int64_t{}) } -> std::same_as<Problem>;
  { for_sizes(problem, served) } -> std::same_as<Problem>;
};

// Sizes at which rows are compared, from the bound down: those of forms, and the least one.
// The bound alone of a size that may shrink where its symbols grow.
std::vector<int64_t> alternate_sizes(const Dim& size);

// [from][at]: microseconds at size `at` of what is lowered for sizes from `from` down; infinite
// where it does not serve.
using TimesFrom = std::vector<std::vector<double>>;
// At most eight rows that together take little more than `least` at each size. The row `plain`
// serves all where others do not gain clearly: each is kernels to compile, and a step's place.
std::vector<Stretch> choose_alternates(const std::vector<TimesFrom>& times,
                                       std::span<const double> least, size_t plain);

// The sizes of the stretch `number`; sizes as of alternate_sizes().
ServedSizes served_by(const Dim& size, std::span<const int64_t> sizes,
                      std::span<const Stretch> stretches, size_t number);

// The steps from `first_step` on run at these sizes alone, and those that are alternates already at
// what is left of theirs; but not those of `for_all`, whose results other alternates and nodes read
// as well.
void serve(Program& program, size_t first_step, const ServedSizes& served,
           const std::set<size_t>& for_all);

// For at_size(): sizes with the symbols of `by` at the values at which it is the largest that is at
// most `most`, or the least. Others stay free.
class SizesAt {
 public:
  SizesAt(const Dim& by, int64_t most);
  [[nodiscard]] Dim value(const Dim& size) const;
  void fix(Dim& size) const { size = value(size); }
  void fix(std::vector<Dim>& sizes) const;
  void fix(TensorRef& ref) const;

 private:
  std::set<uint32_t> symbols_;
  int64_t steps_;  // from the symbols' least values to their largest
};
// Whether the size, which grows with its symbols, is the least one at one value of these alone.
bool is_least_once(const Dim& size);
// The size as a kernel for these sizes is told it: what does not lie in them need not be right.
Dim within(const ServedSizes& served);

}  // namespace rlx
