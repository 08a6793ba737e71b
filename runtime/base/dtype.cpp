// SPDX-License-Identifier: Apache-2.0
// Element types as the runtime needs them: names and sizes, from schema/dtype.def.
#include "runtime/base/dtype.h"

#include <iterator>

#include "schema/plan_header.h"

namespace rlx {
namespace {

constexpr uint64_t kMaxDim = uint64_t{1} << 40;
constexpr uint64_t kMaxTensorBytes = uint64_t{1} << 48;

// bool is a word of C++, so its row is named bool_.
constexpr const char* shown_name(const char* row_name) {
  return std::string_view(row_name) == "bool_" ? "bool" : row_name;
}

constexpr DTypeRow kRows[] = {
#define RLX_DTYPE(name, block_elements, block_bytes, kind) \
  {shown_name(#name), block_elements, block_bytes},
#include "schema/dtype.def"
#undef RLX_DTYPE
};

}  // namespace

const DTypeRow* dtype_row(uint32_t dtype) {
  return dtype < std::size(kRows) ? &kRows[dtype] : nullptr;
}

std::optional<uint64_t> tensor_bytes(uint32_t dtype, std::span<const uint64_t> dims) {
  const DTypeRow* row = dtype_row(dtype);
  if (row == nullptr || dims.size() > kMaxRank) return std::nullopt;
  const uint64_t last = dims.empty() ? 1 : dims.back();
  if (last % row->block_elements != 0) return std::nullopt;
  bool empty = false;
  for (const uint64_t dim : dims) {
    if (dim >= kMaxDim) return std::nullopt;
    empty = empty || dim == 0;
  }
  if (empty) return 0;
  uint64_t bytes = last / row->block_elements * row->block_bytes;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    if (bytes >= kMaxTensorBytes / dims[i] + 1) return std::nullopt;
    bytes *= dims[i];
  }
  return bytes < kMaxTensorBytes ? std::optional(bytes) : std::nullopt;
}

}  // namespace rlx
