// SPDX-License-Identifier: Apache-2.0
// A branch that cannot be at the sizes that a model is compiled for, as of an If whose branches are
// for inputs of two lengths. The run may never take it: what stands in its place asserts that.
#pragma once

#include <string>

#include "compiler/ir/tensor.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// Whether all that is wrong is that shapes do not fit.
bool is_of_shapes(const Diagnostics& faults);

struct ImpossibleBranch {
  std::string op;    // of the node that has it, as its file calls it
  std::string node;  // its name
  std::string name;  // "then"
  SourcePlace place;
  // Its shapes are those of one of many sizes: what is said names none.
  bool has_free_sizes = false;
};
// Adds a warning that it is left out, and why. What a run is told that takes it.
// Precondition: is_of_shapes(faults), and there is an error.
std::string leave_out(const ImpossibleBranch& branch, const Diagnostics& faults,
                      Diagnostics& diagnostics);

// What all elements of its results are: NaN where the type has one, else 0. Its `assert` reads that
// of a bool.
Tensor impossible_element(DType dtype);

}  // namespace rlx
