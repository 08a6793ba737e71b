// SPDX-License-Identifier: Apache-2.0
// The generated prologue of a reduction: its fused chain, one element at a time.
#include "compiler/ops/reduce_chain.h"

#include "compiler/ops/region_codegen.h"
#include "compiler/ops/rows.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

std::string operand_macro(size_t k) {
  return "RLX_OPERAND_" + std::to_string(k);
}

// Offset in an operand, which broadcasts to `shape`, of the element that stands at position i of
// it.
std::string offset_macro(size_t k, const TensorRef& operand, const Shape& shape) {
  const Strides strides = broadcast_strides(operand.shape(), operand.strides, shape);
  LoopDims dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    // One operand alone decides what merges.
    dims.push_back({.size = shape[d], .strides = {strides[d], strides[d]}});
  }
  return index_macro(operand_macro(k), merged(dims), 0);
}

}  // namespace

ReduceChain reduce_chain(const LowerContext& ctx) {
  const Node& node = ctx.node();
  RLX_CHECK(!node.region.empty() && node.inputs.size() <= kMaxReduceOperands,
            "chain of " + node.name);
  ReduceChain chain{.steps = node.region.size()};
  Shape shape;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    chain.operands.push_back(ctx.input(i));
    shape = broadcast_shapes(shape, ctx.input_type(i).shape).value();
  }
  chain.value.type = {.dtype = node.region.back().dtype, .shape = shape};
  chain.value.strides = dense_strides(shape);
  std::vector<std::string> names;
  std::vector<DType> dtypes;
  chain.prologue = "const RLX_INDEX element = RLX_X_KEPT(kept) + RLX_X_REDUCED(reduced);\n";
  for (size_t k = 0; k < chain.operands.size(); ++k) {
    const DType dtype = chain.operands[k].dtype();
    names.push_back("x" + std::to_string(k));
    dtypes.push_back(dtype);
    chain.macros += offset_macro(k, chain.operands[k], shape);
    chain.prologue += "const " + std::string(compute_type(dtype)) + " " + names[k] +
                      " = rlx_load_" + std::string(name_of(dtype)) + "(p.operands[" +
                      std::to_string(k) + "], " + operand_macro(k) + "(element));\n";
  }
  const GeneratedChain generated = generate_chain(node.region, names, dtypes);
  chain.prologue += generated.text + "value = RLX_VALUE(" + generated.result + ");\n";
  return chain;
}

Tensor evaluate_reduce_chain(const EvaluateContext& ctx) {
  Node chain = ctx.node();
  chain.op = "ew_region";
  chain.attributes.clear();
  std::vector<const Tensor*> inputs;
  Shape shape;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    inputs.push_back(&ctx.input(i));
    shape = broadcast_shapes(shape, ctx.input(i).type.shape).value();
  }
  Diagnostics diagnostics;
  auto results = evaluate_node(chain, inputs, {{chain.region.back().dtype, shape}}, diagnostics);
  RLX_CHECK(results.has_value(), "chain of " + chain.name + ": " + diagnostics.text());
  return std::move(results->front());
}

}  // namespace rlx
