// SPDX-License-Identifier: Apache-2.0
// Ops that no row of ops.def names: registered extensions (compiler/extension reads them).
#pragma once

#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace rlx {

// Makes an op known to find_op for the rest of the process; `op` lives as long. Done before models
// are read, by one thread. False where there is an op of that name.
bool register_op(const OpDef& op);
bool is_registered(std::string_view name);
// In the order of their names.
std::vector<const OpDef*> registered_ops();

}  // namespace rlx
