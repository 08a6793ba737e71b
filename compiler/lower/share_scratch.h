// SPDX-License-Identifier: Apache-2.0
// One buffer for what several alternates of a node need for themselves, of which a run has one.
#pragma once

#include "compiler/dispatch/program.h"

namespace rlx {

// Buffers of the arena that steps of one alternate alone access become one with those of others of
// the node that serve other sizes, as large as the largest. Those that are left over have no
// accesses.
void share_scratch(Program& program);

}  // namespace rlx
