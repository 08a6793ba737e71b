// SPDX-License-Identifier: Apache-2.0
// Operators as rewrites name them: a misspelt one does not compile.
#pragma once

#include <cstdint>
#include <string_view>

namespace rlx {

enum class OpId : uint16_t {
#define RLX_OPS(table, ...) __VA_ARGS__,
#include "compiler/ops/ops.def"
#undef RLX_OPS
};

// As nodes and graph files write it.
std::string_view name_of(OpId op);

// Whether a node's `op` is this one.
inline bool operator==(std::string_view name, OpId op) {
  return name == name_of(op);
}

}  // namespace rlx
