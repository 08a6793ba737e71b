// SPDX-License-Identifier: Apache-2.0
// By the expression.
#include "compiler/support/size_growth.h"

namespace rlx {

bool grows_only(const Dim& size) {
  const Dim::Expression* expression = size.expression();
  const DimRange range = size.range();
  if (expression == nullptr || range.least == range.most) return true;
  const Dim& a = expression->a;
  const Dim& b = expression->b;
  switch (expression->op) {
    case Dim::Op::Symbol:
      return true;
    case Dim::Op::Add:
    case Dim::Op::Min:
    case Dim::Op::Max:
      return grows_only(a) && grows_only(b);
    case Dim::Op::Multiply:
      return a.range().least >= 0 && b.range().least >= 0 && grows_only(a) && grows_only(b);
    case Dim::Op::Subtract:
    case Dim::Op::Divide:
      return !b.is_free() && grows_only(a);
    case Dim::Op::Modulo:
      return false;
  }
  return false;
}

}  // namespace rlx
