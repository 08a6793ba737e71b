// SPDX-License-Identifier: Apache-2.0
// Activations that a model writes out of several ops become one, which products take as their
// epilogue: gelu by erf or by tanh, silu and swish.
#include <algorithm>
#include <cmath>

#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/patterns.h"
#include "compiler/passes/products.h"

namespace rlx {
namespace {

// A product of values that is read as one: number * values[0] * values[1] ...
struct Factors {
  double number = 1;
  std::vector<ValueId> values;
};

struct WrittenActivation {
  const char* op = nullptr;
  ValueId x{};
  Attributes attributes;
};

class ActivationReader {
 public:
  ActivationReader(const Module& module, const Graph& graph) : module_(module), graph_(graph) {}

  std::optional<WrittenActivation> read(ValueId result) {
    const DType dtype = graph_.value(result).type.dtype;
    if (!is_float(dtype)) return std::nullopt;
    // Constants are as near to their formula's as the type can tell.
    tolerance_ = dtype == DType::bf16 ? 1e-2 : dtype == DType::f16 ? 2e-3 : 1e-5;
    const Factors factors = factors_of(result, true);
    if (factors.values.size() != 2) return std::nullopt;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId x = factors.values[i];
      if (graph_.value(x).type != graph_.value(result).type) continue;
      if (auto found = gate(x, factors.values[1 - i], factors.number)) return found;
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] const Node* inner(ValueId id) const {
    return sole_reader(graph_, id) ? producer_of(graph_, id) : nullptr;
  }
  [[nodiscard]] bool is_near(double number, double wanted) const {
    return std::abs(number - wanted) <= tolerance_ * wanted;
  }

  // Through products that nobody else reads; `is_first`: of the value itself.
  [[nodiscard]] Factors factors_of(ValueId id, bool is_first = false) const {
    const Node* node = is_first ? producer_of(graph_, id) : inner(id);
    if (node == nullptr) return {.number = 1, .values = {id}};
    if (const std::optional<Scaled> scaled = scaled_of(module_, graph_, *node)) {
      Factors factors = factors_of(scaled->x);
      factors.number *= scaled->factor;
      return factors;
    }
    if (node->op != OpId::mul) return {.number = 1, .values = {id}};
    Factors factors = factors_of(*node->inputs[0]);
    const Factors others = factors_of(*node->inputs[1]);
    factors.number *= others.number;
    factors.values.insert(factors.values.end(), others.values.begin(), others.values.end());
    return factors;
  }

  // number * x * other
  [[nodiscard]] std::optional<WrittenActivation> gate(ValueId x, ValueId other,
                                                      double number) const {
    const Node* node = inner(other);
    if (node == nullptr) return std::nullopt;
    if (node->op == OpId::sigmoid && number == 1) {
      const std::optional<double> slope = multiple_of(x, *node->inputs[0]);
      if (slope == 1.0) return WrittenActivation{.op = "silu", .x = x, .attributes = {}};
      if (slope) return WrittenActivation{.op = "swish", .x = x, .attributes = {{"alpha", *slope}}};
    }
    const std::optional<Shifted> shifted = shifted_of(module_, graph_, *node);
    const Node* curve = shifted && shifted->shift == 1 ? inner(shifted->x) : nullptr;
    if (curve == nullptr || number != 0.5) return std::nullopt;
    if (curve->op == OpId::erf) {
      const std::optional<double> slope = multiple_of(x, *curve->inputs[0]);
      if (slope && is_near(*slope, std::sqrt(0.5)))
        return WrittenActivation{.op = "gelu", .x = x, .attributes = {}};
    }
    if (curve->op == OpId::tanh && is_gelu_argument(x, *curve->inputs[0]))
      return WrittenActivation{.op = "gelu_tanh", .x = x, .attributes = {}};
    return std::nullopt;
  }

  // a of value = a * x.
  [[nodiscard]] std::optional<double> multiple_of(ValueId x, ValueId value) const {
    if (x == value) return 1;
    const Factors factors = factors_of(value);
    return factors.values == std::vector<ValueId>{x} ? std::optional(factors.number) : std::nullopt;
  }

  // sqrt(2 / pi) * (x + 0.044715 * x^3), or with x in front of the sum.
  [[nodiscard]] bool is_gelu_argument(ValueId x, ValueId value) const {
    constexpr double kCubic = 0.044715;
    const Factors factors = factors_of(value);
    if (!is_near(factors.number, std::sqrt(2 / M_PI))) return false;
    std::vector<ValueId> values = factors.values;
    const bool is_outside = values.size() == 2;
    if (is_outside) {
      const auto at = std::find(values.begin(), values.end(), x);
      if (at == values.end()) return false;
      values.erase(at);
    }
    if (values.size() != 1) return false;
    const Node* sum = inner(values[0]);
    if (sum == nullptr) return false;
    if (is_outside) {
      const std::optional<Shifted> shifted = shifted_of(module_, graph_, *sum);
      return shifted && shifted->shift == 1 && is_power(shifted->x, x, 2, kCubic);
    }
    if (sum->op != OpId::add) return false;
    return (sum->inputs[0] == x && is_power(*sum->inputs[1], x, 3, kCubic)) ||
           (sum->inputs[1] == x && is_power(*sum->inputs[0], x, 3, kCubic));
  }

  // number * x^exponent
  [[nodiscard]] bool is_power(ValueId value, ValueId x, double exponent, double number) const {
    const Factors factors = factors_of(value);
    double degree = 0;
    for (const ValueId factor : factors.values) {
      const Node* node = factor == x ? nullptr : inner(factor);
      const std::optional<double> power = node ? power_of(module_, graph_, *node) : std::nullopt;
      if (factor != x && (!power || node->inputs[0] != x)) return false;
      degree += power.value_or(1);
    }
    return degree == exponent && is_near(factors.number, number);
  }

  const Module& module_;
  const Graph& graph_;
  double tolerance_ = 0;
};

}  // namespace

size_t see_activations(Module& module, const PassOptions& options, Diagnostics& diagnostics) {
  size_t changed = 0;
  for (Graph& graph : module.entries) {
    const std::vector<NodeId> order = graph.order();
    for (NodeId id : order) {
      const Node& node = graph.node(id);
      if (node.op != OpId::mul && node.op != OpId::div && node.op != OpId::affine) continue;
      const ValueId result = node.outputs[0];
      std::optional<WrittenActivation> found = ActivationReader(module, graph).read(result);
      if (!found) continue;
      NodeEmitter emitter(graph, id);
      const ValueId y = emitter.emit(found->op, {found->x}, std::move(found->attributes));
      graph.replace_uses(result, y);
      ++changed;
    }
  }
  // What was seen reads no more: it would stand between other patterns and their values.
  if (changed > 0) remove_dead(module, options, diagnostics);
  return changed;
}

}  // namespace rlx
