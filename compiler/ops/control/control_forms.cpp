// SPDX-License-Identifier: Apache-2.0
#include "compiler/ops/control/control_forms.h"

#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// The odd number nearest to 2^32 over the golden ratio: shifts of small trips lie far apart.
constexpr uint32_t kStreamStep = 0x9E3779B9;

AttributeReader attributes_of(const Node& node) {
  return {*find_op(node.op), node.attributes};
}

Ints axes_of(const AttributeReader& attributes, const char* name, size_t count) {
  if (!attributes.has(name)) return Ints(count, 0);
  return attributes.integers(name);
}

}  // namespace

LoopForm loop_form(const Node& node) {
  const AttributeReader attributes = attributes_of(node);
  LoopForm form{.carries = own_input_count(node) - kLoopFirstCarry};
  form.rows = node.bodies.front()->outputs().size() - 1 - form.carries;
  form.max_iterations = attributes.integer("max_iterations");
  form.has_count = node.outputs.size() == form.carries + form.rows + 1;
  return form;
}

ScanForm scan_form(const Graph& graph, const Node& node) {
  const AttributeReader attributes = attributes_of(node);
  ScanForm form{.carries = static_cast<size_t>(attributes.integer("num_carry")),
                .shared = static_cast<size_t>(attributes.integer("num_bcast")),
                .reverse = attributes.flag("reverse"),
                .saves_trajectory = attributes.flag("save_trajectory"),
                .checkpoints = attributes.integer("num_checkpoints")};
  form.sliced = own_input_count(node) - form.carries - form.shared;
  form.stacked = node.bodies.front()->outputs().size() - form.carries;
  form.x_axes = axes_of(attributes, "x_axes", form.sliced);
  form.y_axes = axes_of(attributes, "y_axes", form.stacked);
  const size_t first = form.carries + form.shared;
  for (size_t i = 0; i < form.sliced; ++i) {
    const Shape& shape = graph.value(*node.inputs[first + i]).type.shape;
    if (form.x_axes[i] < 0) form.x_axes[i] += static_cast<int64_t>(shape.size());
  }
  for (size_t i = 0; i < form.stacked; ++i) {
    const Graph& body = *node.bodies.front();
    const Shape& shape = body.value(body.outputs()[form.carries + i]).type.shape;
    if (form.y_axes[i] < 0) form.y_axes[i] += static_cast<int64_t>(shape.size()) + 1;
  }
  form.length =
      attributes.has("length")
          ? attributes.integer("length")
          : static_cast<int64_t>(
                graph.value(*node.inputs[first]).type.shape[static_cast<size_t>(form.x_axes[0])]);
  return form;
}

int64_t ScanForm::trajectory_rows() const {
  return checkpoints > 0 && checkpoints < length ? checkpoints : length;
}

int64_t ScanForm::step_of_row(int64_t row) const {
  const int64_t rows = trajectory_rows();
  return ceil_div((row + 1) * length, rows) - 1;
}

bool truth_of(const Tensor& tensor) {
  RLX_CHECK(tensor.count() == 1, "a condition of more than one element");
  // NaN counts as true, as everywhere.
  return tensor.is_float() ? !(tensor.floats.front() == 0) : tensor.integers.front() != 0;
}

Node node_of_trip(const Node& node, uint32_t shift) {
  Node result = node;
  const auto stream = result.attributes.find("stream");
  if (shift == 0 || !find_op(node.op)->seed_input || stream == result.attributes.end())
    return result;
  const auto written = static_cast<uint32_t>(std::get<int64_t>(stream->second));
  stream->second = static_cast<int64_t>(written + shift);
  return result;
}

uint32_t shift_of_trip(uint32_t shift, int64_t trip) {
  return shift * kStreamStep + static_cast<uint32_t>(trip) * kStreamStep;
}

}  // namespace rlx
