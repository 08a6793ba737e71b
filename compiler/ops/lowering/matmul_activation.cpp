// SPDX-License-Identifier: Apache-2.0
// Activations of products: reading the attribute, its device code and its evaluation.
#include "compiler/ops/lowering/matmul_activation.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

const AttrSpec* find_attribute(const OpDef& op, std::string_view name) {
  const auto found = std::find_if(op.attrs.begin(), op.attrs.end(),
                                  [&](const AttrSpec& spec) { return spec.name == name; });
  return found == op.attrs.end() ? nullptr : &*found;
}

std::vector<double> evaluate_unary(const Activation& activation, DType dtype,
                                   std::vector<double> values) {
  Tensor x;
  x.type = {dtype, {static_cast<int64_t>(values.size())}};
  x.floats = std::move(values);
  Node node;
  node.name = "activation";
  node.op = activation.op;
  node.attributes = activation.attributes;
  Diagnostics diagnostics;
  auto result = evaluate_node(node, {&x}, {x.type}, diagnostics);
  RLX_CHECK(result.has_value(), "activation " + activation.op + ": " + diagnostics.text());
  return std::move(result->front().floats);
}

}  // namespace

std::optional<Activation> read_activation(NodeContext& ctx, bool with_parameters) {
  const std::string name = ctx.attrs().text("activation");
  Activation activation;
  const OpDef* op = nullptr;
  if (name != "none" && name != "identity") {
    op = is_activation(name) ? find_op(name) : nullptr;
    if (op == nullptr) {
      const std::string near = suggest_op(name);
      ctx.fail(DiagCode::BadAttribute,
               "activation \"" + name +
                   "\" is not a unary float op; wanted \"none\" or a name such as relu or gelu",
               near.empty() ? std::string() : "nearest op names: " + near);
      return std::nullopt;
    }
    activation.op = name;
  }
  for (const std::string_view parameter : kActivationParameters) {
    if (!with_parameters || !ctx.attrs().has(parameter)) continue;
    if (op == nullptr || find_attribute(*op, parameter) == nullptr) {
      ctx.fail(DiagCode::BadAttribute,
               "activation \"" + name + "\" takes no attribute \"" + std::string(parameter) + "\"");
      return std::nullopt;
    }
    activation.attributes[std::string(parameter)] = ctx.attrs().real(parameter);
  }
  if (op == nullptr) return activation;
  for (const AttrSpec& spec : op->attrs) {
    if (!spec.required || activation.attributes.contains(spec.name)) continue;
    ctx.fail(DiagCode::BadAttribute,
             "activation \"" + name + "\" needs its attribute \"" + std::string(spec.name) +
                 "\", which cannot be given here",
             "write " + name + " as a node of its own; the compiler fuses it");
    return std::nullopt;
  }
  return activation;
}

bool calls_double_functions(const Activation& activation, DType acc) {
  return acc == DType::f64 && !activation.none() && !has_plain_double_form(activation.op);
}

std::string activation_source(const Activation& activation, DType acc) {
  if (activation.none()) return {};
  const std::string expression =
      scalar_expression(activation.op, activation.attributes, {"value"}, {acc}, acc);
  return "RLX_FN rlx_acc_t rlx_activate(rlx_acc_t value) { return " + expression + "; }\n";
}

void apply_activation(const Activation& activation, DType dtype, int64_t terms, ProductSums& sums) {
  if (activation.none() || sums.values.empty()) return;
  const double n = static_cast<double>(std::max<int64_t>(terms, 1));
  const double unit = dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
  const double sum_bound = unit * (8 + 2 * std::sqrt(n));
  // What the evaluation in f64 may be off by itself.
  const double noise = dtype == DType::f64 ? 0x1p-52 : 0x1p-40;
  std::vector<double> low = sums.values;
  std::vector<double> high = sums.values;
  for (size_t i = 0; i < low.size(); ++i) {
    const double step = std::max(sums.magnitudes[i] * sum_bound, std::abs(low[i]) * noise);
    low[i] -= step;
    high[i] += step;
  }
  low = evaluate_unary(activation, dtype, std::move(low));
  high = evaluate_unary(activation, dtype, std::move(high));
  sums.values = evaluate_unary(activation, dtype, std::move(sums.values));
  for (size_t i = 0; i < low.size(); ++i) {
    const double value = sums.values[i];
    const double moved = std::max(std::abs(low[i] - value), std::abs(high[i] - value));
    const double own = (4 + 32 * std::abs(value)) * unit;
    // Beyond the op's domain the slope is no number: the values themselves decide there.
    sums.magnitudes[i] =
        ((std::isfinite(moved) ? moved : 0) + (std::isfinite(own) ? own : 0)) / sum_bound;
  }
}

}  // namespace rlx
