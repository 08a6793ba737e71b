// SPDX-License-Identifier: Apache-2.0
// Gradients and losses of the reference IR: one node an output there, one operator of several
// outputs here.
#include <algorithm>
#include <array>

#include "compiler/import/names.h"
#include "compiler/import/reference_ir/activations.h"
#include "compiler/import/reference_ir/windows.h"

namespace rlx::reference_ir {
namespace gradients {
namespace {

using Results = std::vector<ValueId>;

Attributes eps_of(AliasNode& n) {
  return n.same({"eps"});
}

void want_last_axis(AliasNode& n) {
  if (n.axis(0) + 1 != n.rank(0))
    n.refuse("its axis is " + std::to_string(n.attrs().integer("axis")) + " of rank " +
                 std::to_string(n.rank(0)) + ", wanted the last",
             "the reference systems compute no other");
}

// Output `at` of a gradient whose inputs are x, gamma, dy.
ValueId norm_gradient(AliasNode& n, std::string_view op, std::optional<ValueId> gamma, ValueId dy,
                      size_t at, Attributes attributes) {
  return n.emit_all(op, {n.input(0), gamma, dy}, std::move(attributes), at + 1)[at];
}

Results layer_norm_input(AliasNode& n) {
  want_last_axis(n);
  return {norm_gradient(n, "layer_norm_backward", n.input(1), n.input(2), 0, eps_of(n))};
}
Results layer_norm_gamma(AliasNode& n) {
  want_last_axis(n);
  return {norm_gradient(n, "layer_norm_backward", std::nullopt, n.input(1), 1, eps_of(n))};
}
Results rms_norm_at(AliasNode& n, size_t at) {
  want_last_axis(n);
  return {norm_gradient(n, "rms_norm_backward", n.input(1), n.input(3), at, eps_of(n))};
}
Results rms_norm_input(AliasNode& n) {
  return rms_norm_at(n, 0);
}
Results rms_norm_gamma(AliasNode& n) {
  return rms_norm_at(n, 1);
}
Results rms_norm_beta(AliasNode& n) {
  return rms_norm_at(n, 2);
}
Results group_norm_input(AliasNode& n) {
  return {norm_gradient(n, "group_norm_backward", n.input(1), n.input(3), 0,
                        n.same({"num_groups", "eps"}))};
}
Results group_norm_gamma(AliasNode& n) {
  return {norm_gradient(n, "group_norm_backward", std::nullopt, n.input(1), 1,
                        n.same({"num_groups", "eps"}))};
}
Results group_norm_beta(AliasNode& n) {
  return {norm_gradient(n, "group_norm_backward", std::nullopt, n.input(1), 2,
                        n.same({"num_groups", "eps"}))};
}

ValueId inverse_deviation(AliasNode& n, ValueId variance) {
  const ValueId shifted = n.emit("affine", {variance}, {{"add", n.attrs().real("eps")}});
  return n.emit("rsqrt", {shifted});
}

ValueId batch_norm_gradient(AliasNode& n, std::optional<ValueId> gamma, ValueId mean,
                            ValueId variance, ValueId dy, size_t at) {
  return n.emit_all("batch_norm_backward",
                    {n.input(0), gamma, dy, mean, inverse_deviation(n, variance)},
                    {{"axis", int64_t{-1}}, {"training", false}}, at + 1)[at];
}
Results batch_norm_input(AliasNode& n) {
  return {batch_norm_gradient(n, n.input(1), n.input(2), n.input(3), n.input(4), 0)};
}
Results batch_norm_gamma(AliasNode& n) {
  return {batch_norm_gradient(n, std::nullopt, n.input(1), n.input(2), n.input(3), 1)};
}
Results batch_norm_beta(AliasNode& n) {
  Ints axes;
  for (size_t i = 0; i + 1 < n.rank(0); ++i) axes.emplace_back(static_cast<int64_t>(i));
  if (axes.empty()) return {n.input(0)};
  return {n.emit("reduce_sum", {n.input(0)}, {{"axes", axes}})};
}

Results cumsum(AliasNode& n) {
  return {n.emit("cumsum_backward", {n.input(0)}, n.same({"axis", "exclusive"}))};
}

// The table's rows are those of the declared shape.
Results gather(AliasNode& n) {
  const Shape table = n.needed_shape();
  const int64_t given = n.attrs().integer("axis");
  const auto rank = static_cast<int64_t>(table.size());
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank)
    n.refuse("axis " + std::to_string(given) + " is outside rank " + std::to_string(rank));
  const int64_t dim = table[static_cast<size_t>(axis)];
  return {n.emit("gather_backward", {n.input(0), n.input(1)}, {{"axis", axis}, {"dim", dim}})};
}

Results relu(AliasNode& n) {
  return {n.emit("relu_backward", {n.input(0), n.input(1)})};
}

// Rounding passes its gradient on there.
Results activation(AliasNode& n) {
  const std::string kind = n.attrs().text("kind");
  if (kind == "Round") return {n.input(1)};
  Activation forward = activation_of(kind);
  Attributes attributes = std::move(forward.attributes);
  attributes.emplace("kind", std::string(forward.op));
  return {n.emit("activation_backward", {n.input(0), n.input(1)}, std::move(attributes))};
}

Results max_pool(AliasNode& n) {
  return {n.emit("max_pool_backward", {n.input(0), n.input(1)}, window(n))};
}
Results conv_input(AliasNode& n) {
  Attributes attributes = window(n, {.with_kernel = false});
  attributes.emplace("x_shape", n.needed_shape());
  return {n.emit("conv_backward_input", {n.input(0), n.input(1)}, std::move(attributes))};
}
Results conv_weight(AliasNode& n) {
  Attributes attributes = window(n, {.with_kernel = false});
  attributes.emplace("w_shape", n.needed_shape());
  return {n.emit("conv_backward_weight", {n.input(0), n.input(1)}, std::move(attributes))};
}

// ---- losses: labels are whole numbers in f32 there ----

ValueId labels(AliasNode& n) {
  return is_float(n.dtype(1)) ? n.cast(n.input(1), DType::i32) : n.input(1);
}
Results dense_loss(AliasNode& n) {
  return {n.emit_all("softmax_cross_entropy", {n.input(0), n.input(1)}, {}, 1).front()};
}
Results sparse_loss(AliasNode& n) {
  return {n.emit_all("softmax_cross_entropy", {n.input(0), labels(n)}, {}, 1).front()};
}
Results loss_gradient(AliasNode& n) {
  return {n.emit("softmax_cross_entropy_backward", {n.input(0), labels(n), n.input(2)})};
}

Results log_mel(AliasNode& n) {
  // With m the mels of a frame, those within 8 of the largest pass a quarter of their gradient on.
  const ValueId spectrum = n.input(0);
  const ValueId filters = n.input(1);
  if (n.rank(0) == 0 || n.rank(1) != 2)
    n.refuse("the spectrum is " + to_string(n.type(spectrum)) + " and the filters " +
             to_string(n.type(filters)) + ", wanted [.., 2 n] and [mels, bins]");
  const size_t last = n.rank(0) - 1;
  const int64_t points = static_cast<int64_t>(n.shape(0)[last]) / 2;
  const int64_t bins = n.shape(1)[1];
  const ValueId re = n.narrow(spectrum, last, 0, bins);
  const ValueId im = n.narrow(spectrum, last, points, bins);
  const ValueId power = n.emit("add", {n.emit("square", {re}), n.emit("square", {im})});
  const ValueId energy = n.emit("matmul", {power, filters}, {{"trans_b", true}});
  const ValueId floored = n.emit("clamp", {energy}, {{"min", 1e-10}});
  const ValueId level = n.emit("log10", {floored});
  const ValueId most = n.emit("reduce_max", {level},
                              {{"axes", Ints{static_cast<int64_t>(last)}}, {"keep_dims", true}});
  const ValueId is_kept = n.emit("ge", {level, n.emit("affine", {most}, {{"add", -8.0}})});
  const ValueId is_loud = n.emit("gt", {energy, n.scalar(energy, 1e-10)});
  const ValueId quarter = n.emit("affine", {n.input(2)}, {{"mul", 0.25 / 2.302585092994046}});
  const ValueId slope = n.emit("div", {quarter, floored});
  const ValueId passed =
      n.emit("where", {n.emit("logical_and", {is_kept, is_loud}), slope, n.scalar(slope, 0)});
  const ValueId spread = n.emit("affine", {n.emit("matmul", {passed, filters})}, {{"mul", 2.0}});
  Shape rest = n.shape(0);
  rest[last] = points - bins;
  const ValueId zeros = n.filled({n.type(spread).dtype, rest}, 0);
  return {n.emit("concat", {n.emit("mul", {re, spread}), zeros, n.emit("mul", {im, spread}), zeros},
                 {{"axis", static_cast<int64_t>(last)}})};
}

constexpr AttrSpec kEps{
    .name = "eps", .type = AttrType::Float, .required = true, .consumed_by_infer = true};
constexpr std::array kNorm = {AttrSpec{.name = "axis", .type = AttrType::Int, .default_text = "-1"},
                              kEps};
constexpr std::array kGroups = {
    AttrSpec{
        .name = "num_groups", .type = AttrType::Int, .required = true, .consumed_by_infer = true},
    kEps};
constexpr std::array kEpsAlone = {kEps};
constexpr std::array kCumsum = {
    AttrSpec{.name = "axis", .type = AttrType::Int, .required = true, .consumed_by_infer = true},
    AttrSpec{.name = "exclusive", .type = AttrType::Bool, .consumed_by_infer = true}};
constexpr std::array kGather = {AttrSpec{.name = "axis", .type = AttrType::Int, .required = true}};
constexpr std::array kActivation = {AttrSpec{
    .name = "kind", .type = AttrType::String, .required = true, .choices = kActivationKinds}};
constexpr std::array kPool = {window_list("kernel_size", true), window_list("stride"),
                              window_list("padding")};

constexpr std::array kAliases = {
    Alias{"LayerNormBackwardInput",
          kWgpu,
          "output 0 of `layer_norm_backward`",
          {3, 3},
          kNorm,
          layer_norm_input},
    Alias{"LayerNormBackwardGamma",
          kWgpu,
          "output 1 of `layer_norm_backward`",
          {2, 2},
          kNorm,
          layer_norm_gamma},
    Alias{"RmsNormBackwardInput",
          kWgpu | kCuda,
          "output 0 of `rms_norm_backward`: x, gamma, beta, dy",
          {4, 4},
          kNorm,
          rms_norm_input},
    Alias{"RmsNormBackwardGamma",
          kWgpu | kCuda,
          "output 1 of `rms_norm_backward`",
          {4, 4},
          kNorm,
          rms_norm_gamma},
    Alias{"RmsNormBackwardBeta",
          kWgpu | kCuda,
          "output 2 of `rms_norm_backward`",
          {4, 4},
          kNorm,
          rms_norm_beta},
    Alias{"GroupNormBackwardInput",
          kNone,
          "output 0 of `group_norm_backward`",
          {4, 4},
          kGroups,
          group_norm_input},
    Alias{"GroupNormBackwardGamma",
          kNone,
          "output 1 of `group_norm_backward`: x, dy",
          {2, 2},
          kGroups,
          group_norm_gamma},
    Alias{"GroupNormBackwardBeta",
          kNone,
          "output 2 of `group_norm_backward`: x, dy",
          {2, 2},
          kGroups,
          group_norm_beta},
    Alias{"BatchNormInferenceBackwardInput",
          kNone,
          "output 0 of `batch_norm_backward`: x, gamma, mean, var, dy",
          {5, 5},
          kEpsAlone,
          batch_norm_input},
    Alias{"BatchNormInferenceBackwardGamma",
          kNone,
          "output 1 of `batch_norm_backward`: x, mean, var, dy",
          {4, 4},
          kEpsAlone,
          batch_norm_gamma},
    Alias{"BatchNormInferenceBackwardBeta", kNone, "`reduce_sum`", {1, 1}, {}, batch_norm_beta},
    Alias{"CumsumBackward", kWgpu | kCuda, "`cumsum_backward`", {1, 1}, kCumsum, cumsum},
    Alias{"GatherBackward",
          kWgpu | kCuda,
          "`gather_backward`, `dim` from the declared shape",
          {2, 2},
          kGather,
          gather},
    Alias{"ReluBackward", kAll, "`relu_backward`", {2, 2}, {}, relu},
    Alias{"ActivationBackward",
          kAll,
          "`activation_backward`; `Round` passes its gradient on",
          {2, 2},
          kActivation,
          activation},
    Alias{"MaxPool2dBackward", kCuda, "`max_pool_backward`", {2, 2}, kPool, max_pool},
    Alias{"MaxPool3dBackward", kNone, "`max_pool_backward`", {2, 2}, kPool, max_pool},
    Alias{"Conv2dBackwardInput",
          kCuda,
          "`conv_backward_input`, `x_shape` as declared",
          {2, 2},
          kConvAttrs,
          conv_input},
    Alias{"Conv2dBackwardWeight",
          kCuda,
          "`conv_backward_weight`, `w_shape` as declared",
          {2, 2},
          kConvAttrs,
          conv_weight},
    Alias{"Conv3dBackwardInput", kNone, "`conv_backward_input`", {2, 2}, kConvAttrs, conv_input},
    Alias{"Conv3dBackwardWeight", kNone, "`conv_backward_weight`", {2, 2}, kConvAttrs, conv_weight},
    Alias{"SoftmaxCrossEntropy",
          kNone,
          "`softmax_cross_entropy` of dense targets",
          {2, 2},
          {},
          dense_loss},
    Alias{"SoftmaxCrossEntropyWithLogits",
          kNone,
          "`softmax_cross_entropy` of classes",
          {2, 2},
          {},
          sparse_loss},
    Alias{"SoftmaxCrossEntropyBackward",
          kNone,
          "`softmax_cross_entropy_backward`",
          {3, 3},
          {},
          loss_gradient},
    Alias{"LogMelBackward",
          kWgpu | kCuda,
          "a composition; clamped entries pass nothing on",
          {3, 3},
          {},
          log_mel},
};

}  // namespace
}  // namespace gradients

std::span<const Alias> gradient_aliases() {
  return gradients::kAliases;
}

}  // namespace rlx::reference_ir
