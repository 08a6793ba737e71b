// SPDX-License-Identifier: Apache-2.0
// Costs of elementwise ops by the table.
#include "compiler/ops/lowering/scalar_cost.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace rlx {
namespace {

struct CostRow {
  std::string_view op;
  uint32_t f64;
  uint32_t f32;
  uint32_t other;
  std::string_view function;
};

constexpr std::array kCostRows = {
#define RLX_SCALAR_COST(op, f64, f32, other, function) CostRow{#op, f64, f32, other, function},
#include "compiler/ops/lowering/scalar_cost.def"
#undef RLX_SCALAR_COST
};

const CostRow* row_of(std::string_view op) {
  static const auto rows = [] {
    std::unordered_map<std::string_view, const CostRow*> by_op;
    for (const CostRow& row : kCostRows) by_op.emplace(row.op, &row);
    return by_op;
  }();
  const auto found = rows.find(op);
  return found == rows.end() ? nullptr : found->second;
}

// As the expression computes: f64 where an operand or the result is, else f32 where all are floats.
uint32_t cost_in(const CostRow& row, std::span<const DType> operands, DType result) {
  const auto is_double = [](DType dtype) { return dtype == DType::f64; };
  if (is_double(result) || std::any_of(operands.begin(), operands.end(), is_double)) return row.f64;
  const bool floats = is_float(result) && std::all_of(operands.begin(), operands.end(), is_float);
  return floats ? row.f32 : row.other;
}

}  // namespace

uint32_t scalar_cost(std::string_view op, std::span<const DType> operands, DType result) {
  const CostRow* row = row_of(op);
  return row == nullptr ? kPlainCost : std::max(cost_in(*row, operands, result), uint32_t{1});
}

uint64_t chain_cost(std::span<const RegionStep> steps, const std::vector<DType>& inputs) {
  std::vector<DType> dtypes = inputs;
  uint64_t cost = 0;
  std::vector<DType> operands;
  for (const RegionStep& step : steps) {
    operands.clear();
    for (const uint32_t operand : step.operands) operands.push_back(dtypes.at(operand));
    cost += scalar_cost(step.op, operands, step.dtype);
    dtypes.push_back(step.dtype);
  }
  return cost;
}

std::span<const std::string_view> big_functions() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> big;
    for (const CostRow& row : kCostRows) {
      if (!row.function.empty() && std::find(big.begin(), big.end(), row.function) == big.end())
        big.push_back(row.function);
    }
    return big;
  }();
  return names;
}

}  // namespace rlx
