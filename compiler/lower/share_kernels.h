// SPDX-License-Identifier: Apache-2.0
// Steps that run one kernel where sizes alone would give each a kernel of its own, each of which
// takes a compiler, and a driver, about as long.
#pragma once

#include "compiler/dispatch/program.h"

namespace rlx {

// `program`, with those steps of `worded` for which two kernels or more of the program become one;
// as it is where the two differ in more than kernels, as another choice may leave them.
// Precondition: both are the same graph lowered without and with LowerOptions::offers_words.
void share_kernels(Program& program, const Program& worded);

}  // namespace rlx
