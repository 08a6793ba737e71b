// SPDX-License-Identifier: Apache-2.0
// Steps that run one kernel where sizes alone would give each a kernel of its own, each of which
// takes a compiler, and a driver, about as long.
#pragma once

#include <span>

#include "compiler/dispatch/form_choice.h"
#include "compiler/dispatch/program.h"

namespace rlx {

// Forms with which the steps run fewer kernels, by estimates at most 1 % slower all together. For
// keys that are not named the form taken stays.
FormTable forms_with_few_kernels(std::span<const SharedChoice> choices);

// `program`, with those steps of `worded` for which two kernels or more of the program become one.
// Precondition: both are the same graph lowered without and with LowerOptions::offers_words, and
// may take other forms.
void share_kernels(Program& program, const Program& worded);

}  // namespace rlx
