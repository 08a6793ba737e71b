// SPDX-License-Identifier: Apache-2.0
// Up to which number a kernel's indices have 32 bits.
#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/lower_context.h"
#include "tests/support/catch.h"

namespace rlx::test {

TEST_CASE("indices_have_32_bits_as_far_as_what_kernels_add_fits") {
  struct Row {
    IndexUse use;
    int64_t farthest;
    const char* narrow;
    const char* wide;
  };
  for (const Row& row : {Row{IndexUse::Linear, (int64_t{1} << 31) - 1, "rlx_u32", "rlx_u64"},
                         Row{IndexUse::Offset, kCountLimit, "int", "rlx_i64"},
                         Row{IndexUse::Padded, (int64_t{1} << 30) - 1, "rlx_i32", "rlx_i64"},
                         Row{IndexUse::Place, (int64_t{1} << 30) - 1, "rlx_u32", "rlx_i64"},
                         Row{IndexUse::Coordinate, (int64_t{1} << 29) - 1, "int", "rlx_i64"}}) {
    CHECK(index_type(row.use, 0) == row.narrow);
    CHECK(index_type(row.use, row.farthest) == row.narrow);
    CHECK_FALSE(is_wide_index(row.use, row.farthest));
    CHECK(index_type(row.use, row.farthest + 1) == row.wide);
    CHECK(is_wide_index(row.use, row.farthest + 1));
  }
}

}  // namespace rlx::test
