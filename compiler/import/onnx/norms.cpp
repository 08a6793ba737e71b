// SPDX-License-Identifier: Apache-2.0
// Normalisation.
#include <array>
#include <numeric>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {
namespace {

// Statistics of the batch in training, of the node otherwise. ONNX's momentum weighs the old value,
// and its running variance is the biased one.
void batch_norm(NodeReader& n, const OnnxOp&) {
  if (n.opset() < 9 && n.integer("spatial", 1) == 0)
    n.refuse("statistics for every element (spatial = 0) are not supported");
  const double momentum = n.real("momentum", 0.9);
  bool trains = n.integer("training_mode", 0) != 0;
  if (n.opset() < 14) trains = n.output_count() > 1;
  if (n.opset() < 7) {
    n.integers("consumed_inputs", {});  // where an old runtime could write in place
    trains = n.integer("is_test", 0) == 0;
  }
  Attributes attributes = {{"eps", n.real("epsilon", 1e-5)}};
  const Inputs inputs = {n.input(0), n.input(1), n.input(2), n.input(3), n.input(4)};
  if (!trains) {
    n.set_output(0, n.emit("batch_norm", inputs, std::move(attributes)));
    return;
  }
  attributes.emplace("training", true);
  attributes.emplace("momentum", 1 - momentum);
  attributes.emplace("unbiased", false);
  const std::vector<ValueId> results = n.emit_all("batch_norm", inputs, attributes, 3);
  for (size_t i = 0; i < 3; ++i) n.set_output(i, results[i]);
}

void instance_norm(NodeReader& n, const OnnxOp&) {
  n.set_output(0, n.emit("instance_norm", {n.input(0), n.input(1), n.input(2)},
                         {{"eps", n.real("epsilon", 1e-5)}}));
}

void layer_norm(NodeReader& n, const OnnxOp&) {
  if (n.integer("stash_type", 1) != 1)
    n.refuse("statistics in another type than float (stash_type) are not supported");
  const size_t count = n.output_count();
  const std::vector<ValueId> results =
      n.emit_all("layer_norm", {n.input(0), n.input(1), n.optional_input(2)},
                 {{"axis", n.integer("axis", -1)}, {"eps", n.real("epsilon", 1e-5)}}, count);
  for (size_t i = 0; i < count; ++i) n.set_output(i, results[i]);
}

void rms_norm(NodeReader& n, const OnnxOp&) {
  if (n.integer("stash_type", 1) != 1)
    n.refuse("statistics in another type than float (stash_type) are not supported");
  n.set_output(0, n.emit("rms_norm", {n.input(0), n.input(1)},
                         {{"axis", n.integer("axis", -1)}, {"eps", n.real("epsilon", 1e-5)}}));
}

// Opset 18 gives scale and bias per group, opset 21 per channel.
void group_norm(NodeReader& n, const OnnxOp&) {
  const int64_t groups = n.required_integer("num_groups");
  if (n.integer("stash_type", 1) != 1)
    n.refuse("statistics in another type than float (stash_type) are not supported");
  if (n.rank(0) < 2 || groups < 1 || n.shape(0)[1] % groups != 0)
    n.refuse_shapes("x " + to_string(n.shape(0)) + " has no channels that fall into " +
                    std::to_string(groups) + " groups");
  const auto per_channel = [&](size_t i) {
    if (n.opset() >= 21) return n.input(i);
    return n.emit("repeat_interleave", {n.input(i)},
                  {{"axis", int64_t{0}}, {"repeats", n.shape(0)[1] / groups}});
  };
  n.set_output(0, n.emit("group_norm", {n.input(0), per_channel(1), per_channel(2)},
                         {{"num_groups", groups}, {"eps", n.real("epsilon", 1e-5)}}));
}

void lrn(NodeReader& n, const OnnxOp&) {
  n.set_output(0, n.emit("lrn", {n.input(0)},
                         {{"size", n.required_integer("size")},
                          {"alpha", n.real("alpha", 1e-4)},
                          {"beta", n.real("beta", 0.75)},
                          {"bias", n.real("bias", 1)}}));
}

// (x - mean) / (sqrt(variance) + 1e-9)
void mean_variance_norm(NodeReader& n, const OnnxOp&) {
  const Ints axes = n.integers("axes", {0, 2, 3});
  const Attributes over = {{"axes", axes}, {"keep_dims", true}};
  const ValueId center = n.emit("sub", {n.input(0), n.emit("reduce_mean", {n.input(0)}, over)});
  Attributes biased = over;
  biased.emplace("correction", int64_t{0});
  const ValueId deviation = n.emit("sqrt", {n.emit("variance", {n.input(0)}, biased)});
  n.set_output(0, n.emit("div", {center, n.emit("affine", {deviation}, {{"add", 1e-9}})}));
}

void lp_norm(NodeReader& n, const OnnxOp&) {
  const int64_t p = n.integer("p", 2);
  const int64_t axis = n.integer("axis", -1);
  if (p == 2) {
    n.set_output(0, n.emit("l2_norm", {n.input(0)}, {{"axis", axis}}));
    return;
  }
  if (p != 1) n.refuse("p is " + std::to_string(p) + ", wanted 1 or 2");
  // A row of zeros stays one.
  constexpr double kLeast = 1e-30;
  const ValueId norm =
      n.emit("reduce_l1", {n.input(0)}, {{"axes", Ints{axis}}, {"keep_dims", true}});
  const ValueId sum = n.dtype(0) == DType::f16 ? norm : n.emit("clamp", {norm}, {{"min", kLeast}});
  n.set_output(0, n.emit("div", {n.input(0), sum}));
}

constexpr std::array kNormsRows = {
    OnnxOp{"BatchNormalization", batch_norm},
    OnnxOp{"InstanceNormalization", instance_norm},
    OnnxOp{"LayerNormalization", layer_norm},
    OnnxOp{"RMSNormalization", rms_norm},
    OnnxOp{"GroupNormalization", group_norm},
    OnnxOp{"LRN", lrn},
    OnnxOp{"MeanVarianceNormalization", mean_variance_norm},
    OnnxOp{"LpNormalization", lp_norm},
};

}  // namespace

std::span<const OnnxOp> norm_rows() {
  return kNormsRows;
}

}  // namespace rlx::onnx_import
