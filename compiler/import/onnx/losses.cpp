// SPDX-License-Identifier: Apache-2.0
// Losses over classes (axis 1) as gathers and sums.
#include <array>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {
namespace {

// -weight[label] * log_probability[label], zero where the label is the ignored one; then the
// reduction. A mean is over the weights.
ValueId likelihood_loss(NodeReader& n, ValueId log_probabilities) {
  const TensorType type = n.type(log_probabilities);
  if (type.shape.size() < 2) n.refuse_shapes("its input is of shape " + to_string(type.shape));
  const std::string reduction = n.text("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    n.refuse("the reduction \"" + reduction + "\" is unknown");
  const ValueId labels = n.input(1);
  const DType label_dtype = n.type(labels).dtype;
  std::optional<ValueId> is_counted;
  ValueId safe = labels;
  if (n.has("ignore_index")) {
    const ValueId ignored = n.constant_ints(label_dtype, {}, {n.integer("ignore_index", 0)});
    is_counted = n.emit("ne", {labels, ignored});
    safe = n.emit("where", {*is_counted, labels, n.constant_ints(label_dtype, {}, {0})});
  }
  const ValueId picked = n.emit(
      "gather_elements", {log_probabilities, n.emit("unsqueeze", {safe}, {{"axes", Ints{1}}})},
      {{"axis", int64_t{1}}});
  ValueId loss = n.emit("neg", {n.emit("squeeze", {picked}, {{"axes", Ints{1}}})});
  const ValueId zero = n.scalar(type.dtype, 0);
  std::optional<ValueId> weights;
  if (n.has_input(2)) {
    weights = n.emit("gather", {n.input(2), safe}, {{"axis", int64_t{0}}});
  } else if (is_counted) {
    weights = n.cast(*is_counted, type.dtype);
  }
  if (weights && is_counted) weights = n.emit("where", {*is_counted, *weights, zero});
  if (weights) loss = n.emit("mul", {loss, *weights});
  if (is_counted) loss = n.emit("where", {*is_counted, loss, zero});
  if (reduction == "none") return loss;
  if (reduction == "sum") return n.emit("reduce_sum", {loss});
  if (!weights) return n.emit("reduce_mean", {loss});
  return n.emit("div", {n.emit("reduce_sum", {loss}), n.emit("reduce_sum", {*weights})});
}

void negative_log_likelihood(NodeReader& n, const OnnxOp&) {
  n.set_output(0, likelihood_loss(n, n.input(0)));
}

void softmax_cross_entropy(NodeReader& n, const OnnxOp&) {
  const ValueId logs = n.emit("log_softmax", {n.input(0)}, {{"axis", int64_t{1}}});
  n.set_output(0, likelihood_loss(n, logs));
  n.set_output(1, logs);
}

constexpr std::array kLossesRows = {
    OnnxOp{"NegativeLogLikelihoodLoss", negative_log_likelihood},
    OnnxOp{"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
};

}  // namespace

std::span<const OnnxOp> loss_rows() {
  return kLossesRows;
}

}  // namespace rlx::onnx_import
