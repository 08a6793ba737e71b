// SPDX-License-Identifier: Apache-2.0
// The integer types in which kernels count and address.
#include "compiler/ops/lowering/index_type.h"

#include <algorithm>
#include <array>

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {
namespace {

struct IndexRow {
  const char* narrow;
  const char* wide;
  int64_t farthest;  // of 32 bits
};

// In the order of IndexUse.
constexpr std::array kIndexRows = {
    IndexRow{"rlx_u32", "rlx_u64", (int64_t{1} << 31) - 1},
    IndexRow{"int", "rlx_i64", kCountLimit},
    IndexRow{"rlx_i32", "rlx_i64", (int64_t{1} << 30) - 1},
    IndexRow{"rlx_u32", "rlx_i64", (int64_t{1} << 30) - 1},
    IndexRow{"int", "rlx_i64", (int64_t{1} << 29) - 1},
};

const IndexRow& row_of(IndexUse use) {
  return kIndexRows.at(static_cast<size_t>(use));
}

}  // namespace

int64_t most_of(std::initializer_list<Dim> sizes) {
  int64_t most = 0;
  for (const Dim& size : sizes) most = std::max(most, size.range().most);
  return most;
}

bool is_wide_index(IndexUse use, int64_t farthest) {
  return farthest > row_of(use).farthest;
}

std::string index_type(IndexUse use, int64_t farthest) {
  return is_wide_index(use, farthest) ? row_of(use).wide : row_of(use).narrow;
}

}  // namespace rlx
