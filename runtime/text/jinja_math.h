// SPDX-License-Identifier: Apache-2.0
// Operators between two values.
#pragma once

#include "runtime/text/jinja_builtin.h"
#include "runtime/text/jinja_tree.h"

namespace rlx::jinja {

// + - * / // % ** as Python has them, whole numbers of 64 bits; a Fault for others.
Value calculate(const Values& values, Operator operation, const Value& a, const Value& b);
// == != < <= > >= in, not in.
bool compare(const Values& values, Operator operation, const Value& a, const Value& b);
Value negated(const Value& value);

}  // namespace rlx::jinja
