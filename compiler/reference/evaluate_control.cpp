// SPDX-License-Identifier: Apache-2.0
#include "compiler/reference/evaluate_control.h"

#include "compiler/ops/control/control_forms.h"
#include "compiler/ops/op_id.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

using Tensors = std::vector<Tensor>;

// Elements before and behind an axis of a shape.
struct AxisView {
  size_t outer = 1;
  size_t inner = 1;
};

AxisView axis_view(const Shape& shape, int64_t axis) {
  AxisView view;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (static_cast<int64_t>(i) == axis) continue;
    (static_cast<int64_t>(i) < axis ? view.outer : view.inner) *=
        static_cast<size_t>(static_cast<int64_t>(shape[i]));
  }
  return view;
}

// Calls copy(place in the whole, place in the row) for each run of elements of row `index`.
template <typename Copy>
void for_each_run(const Shape& whole, int64_t axis, int64_t index, const Copy& copy) {
  const AxisView view = axis_view(whole, axis);
  const auto rows = static_cast<size_t>(static_cast<int64_t>(whole[static_cast<size_t>(axis)]));
  for (size_t o = 0; o < view.outer; ++o) {
    copy((o * rows + static_cast<size_t>(index)) * view.inner, o * view.inner, view.inner);
  }
}

Tensor row_of(const Tensor& whole, int64_t axis, int64_t index) {
  TensorType type = whole.type;
  type.shape.erase(type.shape.begin() + static_cast<ptrdiff_t>(axis));
  Tensor row = Tensor::zeros(type);
  for_each_run(whole.type.shape, axis, index, [&](size_t from, size_t to, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (!whole.floats.empty()) row.floats[to + i] = whole.floats[from + i];
      if (!whole.integers.empty()) row.integers[to + i] = whole.integers[from + i];
    }
  });
  return row;
}

void set_row(Tensor& whole, int64_t axis, int64_t index, const Tensor& row) {
  for_each_run(whole.type.shape, axis, index, [&](size_t to, size_t from, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (!whole.floats.empty()) whole.floats[to + i] = row.floats[from + i];
      if (!whole.integers.empty()) whole.integers[to + i] = row.integers[from + i];
    }
  });
}

Tensor scalar(DType dtype, int64_t value) {
  Tensor tensor = Tensor::zeros({dtype, {}});
  tensor.integers.front() = value;
  return tensor;
}

// One node under evaluation.
class ControlNode {
 public:
  ControlNode(const Graph& graph, const Node& node, const std::vector<const Tensor*>& inputs,
              uint32_t shift, const RunBody& run, Diagnostics& diagnostics)
      : graph_(graph),
        node_(node),
        inputs_(inputs),
        shift_(shift),
        run_(run),
        context_(*find_op(node.op), node, diagnostics) {}

  std::optional<Tensors> evaluate() {
    if (node_.op == OpId::if_) return run_branch();
    if (node_.op == OpId::while_) return run_while();
    if (node_.op == OpId::loop) return run_loop();
    if (node_.op == OpId::scan) return run_scan();
    RLX_CHECK(node_.op == OpId::call, "an op with bodies without a meaning: " + node_.op);
    return run_(*node_.bodies.front(), inputs_from(0), shift_);
  }

 private:
  // Inputs from the first-th on, captured ones too.
  [[nodiscard]] Tensors inputs_from(size_t first) const {
    return inputs_between(first, inputs_.size());
  }
  [[nodiscard]] Tensors inputs_between(size_t first, size_t end) const {
    Tensors tensors;
    for (size_t i = first; i < end; ++i) tensors.push_back(*inputs_[i]);
    return tensors;
  }
  [[nodiscard]] Tensors captured() const { return inputs_from(own_input_count(node_)); }

  std::optional<Tensors> run_trip(size_t body, Tensors inputs, const Tensors& behind,
                                  int64_t trip) {
    inputs.insert(inputs.end(), behind.begin(), behind.end());
    return run_(*node_.bodies.at(body), std::move(inputs), shift_of_trip(shift_, trip));
  }

  std::optional<Tensors> fail_at_bound(int64_t bound) {
    context_.fail(DiagCode::Limit,
                  "it reached its bound of " + std::to_string(bound) +
                      " trips, and its condition still holds",
                  "give it a larger max_iterations, or a condition that ends it");
    return std::nullopt;
  }

  std::optional<Tensors> run_branch() {
    const size_t branch = truth_of(*inputs_[0]) ? kThen : kElse;
    return run_(*node_.bodies.at(branch), inputs_from(1), shift_);
  }

  std::optional<Tensors> run_while() {
    const int64_t bound = context_.attrs().integer("max_iterations");
    Tensors carries = inputs_between(0, node_.outputs.size());
    const Tensors behind = inputs_from(node_.outputs.size());
    for (int64_t trip = 0;; ++trip) {
      const auto condition = run_trip(kWhileCondition, carries, behind, trip);
      if (!condition) return std::nullopt;
      if (!truth_of(condition->front())) return carries;
      if (trip == bound) return fail_at_bound(bound);
      auto next = run_trip(kWhileBody, std::move(carries), behind, trip);
      if (!next) return std::nullopt;
      carries = std::move(*next);
    }
  }

  std::optional<Tensors> run_loop() {
    const LoopForm form = loop_form(node_);
    std::optional<int64_t> trips;
    if (inputs_[kLoopTrips] != nullptr) trips = inputs_[kLoopTrips]->integers.front();
    bool goes_on = inputs_[kLoopCondition] == nullptr || truth_of(*inputs_[kLoopCondition]);
    Tensors carries = inputs_between(kLoopFirstCarry, own_input_count(node_));
    Tensors stacked;
    for (size_t i = 0; i < form.rows; ++i) {
      stacked.push_back(Tensor::zeros(graph_.value(node_.outputs[form.carries + i]).type));
    }
    int64_t trip = 0;
    for (; goes_on && (!trips || trip < *trips); ++trip) {
      if (trip == form.max_iterations) return fail_at_bound(form.max_iterations);
      Tensors inputs = {scalar(DType::i64, trip), scalar(DType::bool_, 1)};
      inputs.insert(inputs.end(), carries.begin(), carries.end());
      auto given = run_trip(0, std::move(inputs), captured(), trip);
      if (!given) return std::nullopt;
      goes_on = truth_of(given->front());
      carries.assign(given->begin() + 1, given->begin() + 1 + static_cast<ptrdiff_t>(form.carries));
      for (size_t i = 0; i < form.rows; ++i) {
        set_row(stacked[i], 0, trip, given->at(1 + form.carries + i));
      }
    }
    carries.insert(carries.end(), stacked.begin(), stacked.end());
    if (form.has_count) carries.push_back(scalar(DType::i64, trip));
    return carries;
  }

  std::optional<Tensors> run_scan() {
    const ScanForm form = scan_form(graph_, node_);
    const size_t first_sliced = form.carries + form.shared;
    Tensors carries = inputs_between(0, form.carries);
    Tensors stacked;
    for (size_t i = form.carries; i < node_.outputs.size(); ++i) {
      stacked.push_back(Tensor::zeros(graph_.value(node_.outputs[i]).type));
    }
    int64_t row = 0;
    for (int64_t t = 0; t < form.length; ++t) {
      const int64_t step = form.step_at(t);
      Tensors inputs = carries;
      const Tensors shared = inputs_between(form.carries, first_sliced);
      inputs.insert(inputs.end(), shared.begin(), shared.end());
      for (size_t i = 0; i < form.sliced; ++i) {
        inputs.push_back(row_of(*inputs_[first_sliced + i], form.x_axes[i], step));
      }
      auto given = run_trip(0, std::move(inputs), captured(), t);
      if (!given) return std::nullopt;
      for (size_t i = 0; i < form.stacked; ++i) {
        set_row(stacked[i], form.y_axes[i], step, given->at(form.carries + i));
      }
      given->resize(form.carries);
      carries = std::move(*given);
      if (!form.saves_trajectory || form.step_of_row(row) != t) continue;
      for (size_t i = 0; i < form.carries; ++i) {
        set_row(stacked[form.stacked + i], 0, row, carries[i]);
      }
      ++row;
    }
    carries.insert(carries.end(), stacked.begin(), stacked.end());
    return carries;
  }

  const Graph& graph_;
  const Node& node_;
  const std::vector<const Tensor*>& inputs_;
  uint32_t shift_;
  const RunBody& run_;
  NodeContext context_;
};

}  // namespace

std::optional<std::vector<Tensor>> evaluate_control(const Graph& graph, const Node& node,
                                                    const std::vector<const Tensor*>& inputs,
                                                    uint32_t shift, const RunBody& run,
                                                    Diagnostics& diagnostics) {
  return ControlNode(graph, node, inputs, shift, run, diagnostics).evaluate();
}

}  // namespace rlx
