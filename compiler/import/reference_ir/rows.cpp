// SPDX-License-Identifier: Apache-2.0
// Norms, reductions, scans and searches of the reference IR.
#include <algorithm>
#include <array>

#include "compiler/import/names.h"
#include "compiler/import/reference_ir/alias.h"

namespace rlx::reference_ir {
namespace rows {
namespace {

using Results = std::vector<ValueId>;

// Norms of one axis: those of rlx go from an axis to the last, so another axis is moved there.
template <typename Norm>
Results along_last(AliasNode& n, Norm norm) {
  const size_t axis = n.axis(0);
  const size_t rank = n.rank(0);
  if (axis + 1 == rank) return {norm(n.input(0))};
  Ints swap;
  for (size_t i = 0; i < rank; ++i) swap.emplace_back(static_cast<int64_t>(i));
  std::swap(swap[axis], swap[rank - 1]);
  return {n.transpose(norm(n.transpose(n.input(0), swap)), swap)};
}

Attributes eps_of(AliasNode& n) {
  static_cast<void>(n.attrs().has("eps"));
  return n.same({"eps"});
}

Results layer_norm(AliasNode& n) {
  return along_last(n, [&](ValueId x) {
    return n.emit("layer_norm", {x, n.optional(1), n.optional(2)}, eps_of(n));
  });
}

Results rms_norm(AliasNode& n) {
  return along_last(n, [&](ValueId x) {
    return n.emit("rms_norm", {x, n.optional(1), n.optional(2)}, eps_of(n));
  });
}

Results group_norm(AliasNode& n) {
  return {n.emit("group_norm", {n.input(0), n.optional(1), n.optional(2)},
                 n.same({"num_groups", "eps"}))};
}

Results layer_norm2d(AliasNode& n) {
  return {n.emit("layer_norm2d", {n.input(0), n.optional(1), n.optional(2)}, eps_of(n))};
}

Results batch_norm(AliasNode& n) {
  Attributes attributes = eps_of(n);
  attributes.emplace("axis", int64_t{-1});
  return {n.emit("batch_norm", {n.input(0), n.input(1), n.input(2), n.input(3), n.input(4)},
                 std::move(attributes))};
}

// norm(x) * (1 + scale) + shift: the affine part of adaptive norms.
Results ada_layer_norm(AliasNode& n) {
  const bool is_rms = n.attrs().text("norm") == "RmsNorm";
  const ValueId x = n.emit(is_rms ? "rms_norm" : "layer_norm", {n.input(0)}, eps_of(n));
  const ValueId scale = n.emit("affine", {n.input(1)}, {{"add", 1.0}});
  return {n.emit("add", {n.emit("mul", {x, scale}), n.input(2)})};
}

Results gated_residual(AliasNode& n) {
  return {n.emit("add", {n.input(0), n.emit("mul", {n.input(2), n.input(1)})})};
}

Results residual_norm(AliasNode& n, std::string_view op) {
  const bool has_bias = n.attrs().flag("has_bias");
  const size_t wanted = has_bias ? 5 : 4;
  if (n.input_count() != wanted) {
    n.refuse("it has " + std::to_string(n.input_count()) + " inputs, wanted " +
             std::to_string(wanted) + " with has_bias " + (has_bias ? "true" : "false"));
  }
  const size_t gamma = has_bias ? 3 : 2;
  return {n.emit(op,
                 {n.input(0), n.input(1), has_bias ? n.optional(2) : std::nullopt,
                  n.optional(gamma), n.optional(gamma + 1)},
                 eps_of(n))};
}
Results residual_layer_norm(AliasNode& n) {
  return residual_norm(n, "fused_residual_ln");
}
Results residual_rms_norm(AliasNode& n) {
  return residual_norm(n, "fused_residual_rms_norm");
}

Results reduce(AliasNode& n) {
  const std::string kind = n.attrs().text("op");
  std::string op = "reduce_" + kind;
  std::ranges::transform(op, op.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return {
      n.emit(op, {n.input(0)},
             {{"axes", n.attrs().integers("axes")}, {"keep_dims", n.attrs().flag("keep_dim")}})};
}

Results softmax(AliasNode& n) {
  return {n.emit("softmax", {n.input(0)}, n.same({"axis"}))};
}
Results cumsum(AliasNode& n) {
  return {n.emit("cumsum", {n.input(0)}, n.same({"axis", "exclusive"}))};
}
Results cumprod(AliasNode& n) {
  return {n.emit("cumprod", {n.input(0)}, n.same({"axis", "exclusive"}))};
}
Results cummax(AliasNode& n) {
  if (n.attrs().flag("exclusive"))
    n.refuse("exclusive running maxima are not expressed", "shift the result by one");
  return {n.emit_all("cummax", {n.input(0)}, n.same({"axis"}), 1).front()};
}

std::string index_name(AliasNode& n) {
  return std::string(name_of(n.index_dtype()));
}

Results arg_reduce(AliasNode& n, std::string_view op) {
  return {n.emit(op, {n.input(0)},
                 {{"axis", n.attrs().integer("axis")},
                  {"keep_dims", n.attrs().flag("keep_dim")},
                  {"index_dtype", index_name(n)}})};
}
Results argmax(AliasNode& n) {
  return arg_reduce(n, "argmax");
}
Results argmin(AliasNode& n) {
  return arg_reduce(n, "argmin");
}

Results topk(AliasNode& n) {
  return {n.emit_all("topk", {n.input(0)},
                     {{"k", n.attrs().integer("k")}, {"index_dtype", index_name(n)}}, 2)[1]};
}
Results sort(AliasNode& n) {
  return {n.emit_all("sort", {n.input(0)}, n.same({"axis", "descending"}), 1).front()};
}
Results argsort(AliasNode& n) {
  Attributes attributes = n.same({"axis", "descending"});
  attributes.emplace("index_dtype", index_name(n));
  return {n.emit("argsort", {n.input(0)}, std::move(attributes))};
}

constexpr AttrSpec kAxis{.name = "axis", .type = AttrType::Int, .required = true};
constexpr AttrSpec kLastAxis{.name = "axis", .type = AttrType::Int, .default_text = "-1"};
constexpr AttrSpec kGivenAxis{
    .name = "axis", .type = AttrType::Int, .required = true, .consumed_by_infer = true};
constexpr AttrSpec kEps{
    .name = "eps", .type = AttrType::Float, .required = true, .consumed_by_infer = true};
constexpr std::array kNorm = {kLastAxis, kEps};
constexpr std::array kEpsAlone = {kEps};
constexpr std::array kGroups = {
    AttrSpec{
        .name = "num_groups", .type = AttrType::Int, .required = true, .consumed_by_infer = true},
    kEps};
constexpr std::array<std::string_view, 2> kAdaNorms = {"LayerNorm", "RmsNorm"};
constexpr std::array kAda = {AttrSpec{.name = "norm",
                                      .type = AttrType::String,
                                      .default_text = "\"LayerNorm\"",
                                      .choices = kAdaNorms},
                             kEps};
constexpr std::array kResidual = {
    AttrSpec{.name = "has_bias", .type = AttrType::Bool, .default_text = "false"}, kEps};
constexpr std::array<std::string_view, 5> kReductions = {"Sum", "Mean", "Max", "Min", "Prod"};
constexpr std::array kReduce = {
    AttrSpec{.name = "op", .type = AttrType::String, .required = true, .choices = kReductions},
    AttrSpec{.name = "axes", .type = AttrType::IntList, .required = true},
    AttrSpec{.name = "keep_dim", .type = AttrType::Bool, .default_text = "false"}};
constexpr std::array kSoftmax = {AttrSpec{
    .name = "axis", .type = AttrType::Int, .default_text = "-1", .consumed_by_infer = true}};
constexpr std::array kCumulative = {kGivenAxis, AttrSpec{.name = "exclusive",
                                                         .type = AttrType::Bool,
                                                         .default_text = "false",
                                                         .consumed_by_infer = true}};
constexpr std::array kArgReduce = {
    kAxis, AttrSpec{.name = "keep_dim", .type = AttrType::Bool, .default_text = "false"}};
constexpr std::array kTopK = {AttrSpec{.name = "k", .type = AttrType::Int, .required = true}};
constexpr std::array kSort = {kGivenAxis, AttrSpec{.name = "descending",
                                                   .type = AttrType::Bool,
                                                   .default_text = "false",
                                                   .consumed_by_infer = true}};

constexpr std::array kAliases = {
    Alias{"LayerNorm", kAll, "`layer_norm` of one axis", {1, 3}, kNorm, layer_norm},
    Alias{"RmsNorm", kAll, "`rms_norm` of one axis: x, gamma, beta", {1, 3}, kNorm, rms_norm},
    Alias{"GroupNorm", kAll, "`group_norm`", {1, 3}, kGroups, group_norm},
    Alias{"LayerNorm2d", kVulkan | kCuda, "`layer_norm2d`", {1, 3}, kEpsAlone, layer_norm2d},
    Alias{"BatchNormInference",
          kNone,
          "`batch_norm` of the last axis",
          {5, 5},
          kEpsAlone,
          batch_norm},
    Alias{"AdaLayerNorm",
          kNone,
          "`layer_norm` or `rms_norm`, `mul`, `add`",
          {3, 3},
          kAda,
          ada_layer_norm},
    Alias{"GatedResidual", kNone, "`mul` and `add`", {3, 3}, {}, gated_residual},
    Alias{"FusedResidualLN", kAll, "`fused_residual_ln`", {4, 5}, kResidual, residual_layer_norm},
    Alias{"FusedResidualRmsNorm",
          kAll,
          "`fused_residual_rms_norm`",
          {4, 5},
          kResidual,
          residual_rms_norm},
    Alias{
        "Reduce", kAll, "`reduce_sum`, `_mean`, `_max`, `_min`, `_prod`", {1, 1}, kReduce, reduce},
    Alias{"Softmax", kAll, "`softmax`", {1, 1}, kSoftmax, softmax},
    Alias{"Cumsum", kAll, "`cumsum`", {1, 1}, kCumulative, cumsum},
    Alias{"CumProd", kNone, "`cumprod`", {1, 1}, kCumulative, cumprod},
    Alias{"CumMax", kNone, "`cummax`, not `exclusive`", {1, 1}, kCumulative, cummax},
    Alias{"ArgMax", kVulkan, "`argmax`, indices in f32", {1, 1}, kArgReduce, argmax},
    Alias{"ArgMin", kVulkan, "`argmin`, indices in f32", {1, 1}, kArgReduce, argmin},
    Alias{"TopK", kAll, "the indices of `topk`, in f32", {1, 1}, kTopK, topk},
    Alias{"Sort", kNone, "`sort`", {1, 1}, kSort, sort},
    Alias{"ArgSort", kNone, "`argsort`, indices in f32", {1, 1}, kSort, argsort},
};

}  // namespace
}  // namespace rows

std::span<const Alias> row_aliases() {
  return rows::kAliases;
}

}  // namespace rlx::reference_ir
