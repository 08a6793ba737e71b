// SPDX-License-Identifier: Apache-2.0
// Sizes as elements of tensors: a symbol is the last element of a ramp that ends there, what is
// made of symbols is computed.
#include "compiler/ops/lowering/size_values.h"

#include <string_view>

#include "compiler/ir/count_attribute.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

ValueId emit_number(RewriteContext& ctx, int64_t number, Shape shape) {
  Tensor one = Tensor::zeros({DType::i64, std::move(shape)});
  one.integers[0] = number;
  return ctx.constant("number", one);
}

ValueId emit_symbol(RewriteContext& ctx, const Dim& symbol) {
  const ValueId count = ctx.emit("ramp", {emit_number(ctx, 0, {}), emit_number(ctx, 1, {})},
                                 {{"count", count_attribute(symbol + 1)}});
  return ctx.emit("slice", {count},
                  {{"axes", Ints{0}}, {"starts", Ints{symbol}}, {"ends", Ints{symbol + 1}}});
}

std::string_view op_of(Dim::Op op) {
  switch (op) {
    case Dim::Op::Add:
      return "add";
    case Dim::Op::Subtract:
      return "sub";
    case Dim::Op::Multiply:
      return "mul";
    case Dim::Op::Divide:
      return "floor_div";
    case Dim::Op::Modulo:
      return "mod";
    case Dim::Op::Min:
      return "min";
    case Dim::Op::Max:
      return "max";
    case Dim::Op::Symbol:
      break;
  }
  RLX_CHECK(false, "an operator of sizes");
}

}  // namespace

ValueId emit_size(RewriteContext& ctx, const Dim& size) {
  const Dim::Expression* expression = size.expression();
  if (expression == nullptr) return emit_number(ctx, size.bound(), {1});
  if (expression->op == Dim::Op::Symbol) return emit_symbol(ctx, size);
  const ValueId a = emit_size(ctx, expression->a);
  const ValueId b = emit_size(ctx, expression->b);
  return ctx.emit(op_of(expression->op), {a, b});
}

}  // namespace rlx
