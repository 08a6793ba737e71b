// SPDX-License-Identifier: Apache-2.0
// Products and solvers of the reference IR.
#include <array>

#include "compiler/import/reference_ir/activations.h"
#include "compiler/import/reference_ir/alias.h"

namespace rlx::reference_ir {
namespace products {
namespace {

using Results = std::vector<ValueId>;

// Operators of the same name, inputs and attributes but for the writing.
Results same_name(AliasNode& n, std::string_view op,
                  std::initializer_list<std::string_view> attributes = {}) {
  std::vector<std::optional<ValueId>> inputs;
  for (size_t i = 0; i < n.input_count(); ++i) inputs.push_back(n.optional(i));
  return {n.emit(op, std::move(inputs), n.same(attributes))};
}

Results matmul(AliasNode& n) {
  return same_name(n, "matmul");
}
Results dot_general(AliasNode& n) {
  return same_name(n, "dot_general",
                   {"lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch"});
}
Results dense_solve(AliasNode& n) {
  return same_name(n, "dense_solve");
}
Results batched_solve(AliasNode& n) {
  return same_name(n, "batched_dense_solve");
}
Results lora(AliasNode& n) {
  return same_name(n, "lora_matmul", {"scale"});
}
Results grouped(AliasNode& n) {
  return same_name(n, "grouped_matmul");
}

Results fused(AliasNode& n) {
  Attributes attributes;
  if (const std::string kind = n.attrs().text("activation"); kind != "None") {
    Activation activation = activation_of(kind);
    attributes = std::move(activation.attributes);
    attributes.emplace("activation", std::string(activation.op));
  }
  return {n.emit("fused_matmul_bias_act", {n.input(0), n.input(1), n.optional(2)},
                 std::move(attributes))};
}

constexpr AttrSpec list(std::string_view name, std::string_view default_text = {}) {
  return {.name = name,
          .type = AttrType::IntList,
          .default_text = default_text,
          .required = default_text.empty(),
          .consumed_by_infer = true};
}
constexpr std::array kDotGeneral = {list("lhs_contracting"), list("rhs_contracting"),
                                    list("lhs_batch", "[]"), list("rhs_batch", "[]")};
constexpr std::array kLora = {AttrSpec{
    .name = "scale", .type = AttrType::Float, .required = true, .consumed_by_infer = true}};
constexpr std::array<std::string_view, 30> kActivations = [] {
  std::array<std::string_view, 30> words{};
  words[0] = "None";
  for (size_t i = 0; i < kActivationKinds.size(); ++i) words[i + 1] = kActivationKinds[i];
  return words;
}();
constexpr std::array kFused = {AttrSpec{.name = "activation",
                                        .type = AttrType::String,
                                        .default_text = "\"None\"",
                                        .choices = kActivations}};

constexpr std::array kAliases = {
    Alias{"MatMul", kAll, "`matmul`", {2, 2}, {}, matmul},
    Alias{"DotGeneral", kAll, "`dot_general`", {2, 2}, kDotGeneral, dot_general},
    Alias{"DenseSolve", kNone, "`dense_solve`", {2, 2}, {}, dense_solve},
    Alias{"BatchedDenseSolve", kNone, "`batched_dense_solve`", {2, 2}, {}, batched_solve},
    Alias{"LoraMatMul", kAll, "`lora_matmul`", {4, 4}, kLora, lora},
    Alias{"GroupedMatMul", kAll, "`grouped_matmul`", {3, 3}, {}, grouped},
    Alias{"FusedMatMulBiasAct", kAll, "`fused_matmul_bias_act`", {2, 3}, kFused, fused},
};

}  // namespace
}  // namespace products

std::span<const Alias> product_aliases() {
  return products::kAliases;
}

}  // namespace rlx::reference_ir
