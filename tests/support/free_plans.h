// SPDX-License-Identifier: Apache-2.0
// Plans with free symbols, for tests that need no kernel.
#pragma once

#include "tests/support/plan_fixture.h"

namespace rlx::test {

// Puts a patch where it belongs in the order.
void add_patch(SpecEntry& entry, fb::Patch patch);

// x, m f32[batch, seq], k f32[2 * seq] -> copies of them y, n, l. batch is 1 to 4, seq 0 to 16.
PlanSpec free_copies_plan();

// free_copies_plan() in two records: one for a seq of 8 to 16, and one for 0 to 7 whose values
// stand in the opposite order.
PlanSpec ranged_copies_plan();

// gemm_plan() with a free symbol "rows" from 0 to 16 in the place of m.
PlanSpec free_gemm_plan();

}  // namespace rlx::test
