// SPDX-License-Identifier: Apache-2.0
// What nodes of control flow say, as inference, the evaluator and inlining read it (ops.md 15).
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ir/tensor.h"
#include "compiler/ops/op_def.h"

namespace rlx {

// Positions of bodies in Node::bodies.
inline constexpr size_t kThen = 0;
inline constexpr size_t kElse = 1;
inline constexpr size_t kWhileCondition = 0;
inline constexpr size_t kWhileBody = 1;

// Inputs of a node that no body captures.
inline size_t own_input_count(const Node& node) {
  return node.inputs.size() - node.captures;
}

// Inputs of a loop: [trip_count], [cond], then what it carries.
inline constexpr size_t kLoopTrips = 0;
inline constexpr size_t kLoopCondition = 1;
inline constexpr size_t kLoopFirstCarry = 2;
// Outputs of its body: cond, carries, then one row of each scan output.
struct LoopForm {
  size_t carries = 0;
  size_t rows = 0;             // results that are stacked
  int64_t max_iterations = 0;  // rows of a stacked result
  bool has_count = false;      // the last output is the number of trips
};
LoopForm loop_form(const Node& node);

// Inputs of a scan: carries, what every step sees, what is cut into steps. Outputs: carries,
// stacked results, and with save_trajectory each carry after the steps.
struct ScanForm {
  size_t carries = 0;
  size_t shared = 0;
  size_t sliced = 0;
  size_t stacked = 0;
  int64_t length = 0;
  bool reverse = false;
  bool saves_trajectory = false;
  int64_t checkpoints = 0;  // rows of a trajectory; 0: all
  Ints x_axes;              // per sliced input, not negative
  Ints y_axes;              // per stacked result, not negative
  // Rows of a trajectory, and the step after which row j is taken.
  [[nodiscard]] int64_t trajectory_rows() const;
  [[nodiscard]] int64_t step_of_row(int64_t row) const;
  // The step that runs as the t-th.
  [[nodiscard]] int64_t step_at(int64_t t) const { return reverse ? length - 1 - t : t; }
};
// Precondition: the node was inferred.
ScanForm scan_form(const Graph& graph, const Node& node);

// Whether a tensor of one element is true.
bool truth_of(const Tensor& tensor);

// A node of a body as trip `shift` of the loops around it runs it: random numbers are drawn from
// a stream of the trip's own.
Node node_of_trip(const Node& node, uint32_t shift);
// The shift of trip t of a loop that itself runs under `shift`.
uint32_t shift_of_trip(uint32_t shift, int64_t trip);

}  // namespace rlx
