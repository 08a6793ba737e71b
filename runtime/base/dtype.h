// SPDX-License-Identifier: Apache-2.0
// Element types as the runtime needs them: names and sizes, from schema/dtype.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace rlx {

struct DTypeRow {
  const char* name;
  uint32_t block_elements;
  uint32_t block_bytes;
};

// Null for a number that is no dtype.
const DTypeRow* dtype_row(uint32_t dtype);

// Bytes of a dense tensor. None where the dtype or rank is unknown, a dim is 2^40 or more, the last
// dim holds no whole blocks, or the bytes reach 2^48.
std::optional<uint64_t> tensor_bytes(uint32_t dtype, std::span<const uint64_t> dims);

}  // namespace rlx
