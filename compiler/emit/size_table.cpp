// SPDX-License-Identifier: Apache-2.0
// Expressions of sizes as terms, equal ones once.
#include "compiler/emit/size_table.h"

#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

fb::SizeOp op_of(Dim::Op op) {
  switch (op) {
    case Dim::Op::Symbol:
      return fb::SizeOp::Symbol;
    case Dim::Op::Add:
      return fb::SizeOp::Add;
    case Dim::Op::Subtract:
      return fb::SizeOp::Subtract;
    case Dim::Op::Multiply:
      return fb::SizeOp::Multiply;
    case Dim::Op::Divide:
      return fb::SizeOp::FloorDivide;
    case Dim::Op::Modulo:
      return fb::SizeOp::Modulo;
    case Dim::Op::Min:
      return fb::SizeOp::Min;
    case Dim::Op::Max:
      return fb::SizeOp::Max;
  }
  RLX_CHECK(false, "an operator of sizes");
}

}  // namespace

uint32_t SizeTerms::add(fb::SizeOp op, uint64_t value, uint32_t a, uint32_t b) {
  const auto [place, is_new] =
      numbers_.try_emplace({op, value, a, b}, narrow<uint32_t>(terms_.size()));
  if (is_new) terms_.emplace_back(value, a, b, op);
  return place->second;
}

uint32_t SizeTerms::term(const Dim& size) {
  const Dim::Expression* expression = size.expression();
  if (expression == nullptr) return add(fb::SizeOp::Constant, narrow<uint64_t>(size.bound()), 0, 0);
  if (expression->op == Dim::Op::Symbol) return symbol(expression->symbol.index);
  const uint32_t a = term(expression->a);
  const uint32_t b = term(expression->b);
  return add(op_of(expression->op), 0, a, b);
}

void SizeTable::patch(fb::PatchField field, uint32_t index, uint32_t part, const Dim& size) {
  if (size.is_free()) patches_[{field, index, part}] = terms_.term(size);
}

void SizeTable::patch_symbol(fb::PatchField field, uint32_t index, uint32_t part, uint32_t symbol) {
  patches_[{field, index, part}] = terms_.symbol(symbol);
}

std::vector<fb::Patch> SizeTable::patches() const {
  std::vector<fb::Patch> list;
  for (const auto& [place, size] : patches_) {
    const auto& [field, index, part] = place;
    list.emplace_back(index, part, size, field);
  }
  return list;
}

}  // namespace rlx
