// SPDX-License-Identifier: Apache-2.0
// The generated prologue of a reduction: its fused chain, one element at a time.
#include "compiler/ops/lowering/reduce_chain.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

std::string operand_macro(size_t k) {
  return "RLX_OPERAND_" + std::to_string(k);
}

// The chain's value and the order of axes in which its elements are counted, the last one fastest.
struct Counting {
  Shape shape;
  std::vector<size_t> order;
};

// As the operand stands that has most elements of its own, so that neighbours of the count are its
// neighbours in memory: channels last where images are.
Counting counted(const std::vector<TensorRef>& operands, const Shape& shape) {
  Counting counting{.shape = shape, .order = {}};
  for (size_t d = 0; d < shape.size(); ++d) counting.order.push_back(d);
  const TensorRef* largest = nullptr;
  for (const TensorRef& operand : operands) {
    if (operand.shape() != shape) continue;
    if (largest == nullptr || element_bytes(operand.dtype()) > element_bytes(largest->dtype()))
      largest = &operand;
  }
  if (largest == nullptr) return counting;
  std::stable_sort(counting.order.begin(), counting.order.end(), [largest](size_t a, size_t b) {
    return std::abs(largest->strides[a].bound()) > std::abs(largest->strides[b].bound());
  });
  return counting;
}

Strides counting_strides(const Counting& counting) {
  Strides strides(counting.shape.size(), 1);
  Dim step = 1;
  for (size_t i = counting.order.size(); i-- > 0;) {
    strides[counting.order[i]] = step;
    step *= counting.shape[counting.order[i]];
  }
  return strides;
}

// Of the operand, which broadcasts to the value, in the order of the count.
Strides operand_strides(const TensorRef& operand, const Counting& counting) {
  const Strides strides = broadcast_strides(operand.shape(), operand.strides, counting.shape);
  Strides ordered;
  for (const size_t axis : counting.order) ordered.push_back(strides[axis]);
  return ordered;
}

// Offset in an operand of the element that stands at position i of the count.
std::string offset_macro(size_t k, const TensorRef& operand, const Counting& counting) {
  const Strides strides = operand_strides(operand, counting);
  LoopDims dims;
  for (size_t d = 0; d < strides.size(); ++d) {
    // One operand alone decides what merges.
    dims.push_back(
        {.size = counting.shape[counting.order[d]], .strides = {strides[d], strides[d]}});
  }
  return index_macro(operand_macro(k), merged(dims), 0);
}

// How an operand gives four neighbours of the axis that is counted fastest: as one piece of 16 or 8
// bytes, one value for all, or each by itself.
enum class Four : uint8_t { Piece, Same, Single };

Four four_of(const LowerContext& ctx, const TensorRef& operand, const Counting& counting) {
  if (counting.shape.empty()) return Four::Single;
  const Strides strides = operand_strides(operand, counting);
  if (strides.back() == 0) return Four::Same;
  const DType dtype = operand.dtype();
  bool piece = strides.back() == 1 && is_float(dtype) && dtype != DType::f64 &&
               ctx.alignment(operand) >= 4 * element_bytes(dtype);
  for (size_t d = 0; d + 1 < strides.size(); ++d) piece = piece && strides[d] % 4 == 0;
  return piece ? Four::Piece : Four::Single;
}

struct ChainOperand {
  size_t position;  // in operands
  std::string name;
  DType dtype;
  Four four;

  // Statement that loads the operand `beside` elements after `element`, by itself or (load4) as a
  // piece of four.
  [[nodiscard]] std::string load(const std::string& type, const std::string& local,
                                 const std::string& function, int beside) const {
    return "const " + type + " " + local + " = " + function + std::string(name_of(dtype)) +
           "(p.operands[" + std::to_string(position) + "], " + operand_macro(position) +
           "(element + " + std::to_string(beside) + "));\n";
  }
  [[nodiscard]] std::string load_one(int beside) const {
    return load(std::string(compute_type(dtype)), name, "rlx_load_", beside);
  }
  [[nodiscard]] std::string load_piece() const {
    return load("rlx_vec4", "four_" + name, "rlx_load4_", 0);
  }
};

// The steps that a node's outputs reduce are its last ones.
std::string result_local(const Node& node, size_t result) {
  return "t" + std::to_string(node.region.size() - node.outputs.size() + result);
}

// Statements that set the values of all results, `beside` of `each` neighbours.
std::string results_text(const Node& node, size_t each, size_t beside) {
  std::string text;
  for (size_t r = 0; r < node.outputs.size(); ++r) {
    text += "values[" + std::to_string(r * each + beside) + "] = RLX_VALUE(" +
            result_local(node, r) + ");\n";
  }
  return text;
}

std::string four_elements(const Node& node, const std::vector<ChainOperand>& operands,
                          const GeneratedChain& generated) {
  std::string text;
  for (const ChainOperand& operand : operands) {
    if (operand.four == Four::Same) text += operand.load_one(0);
    if (operand.four == Four::Piece) text += operand.load_piece();
  }
  for (size_t i = 0; i < 4; ++i) {
    const std::string component(1, "xyzw"[i]);
    text += "{\n";
    for (const ChainOperand& operand : operands) {
      if (operand.four == Four::Single) text += operand.load_one(static_cast<int>(i));
      if (operand.four == Four::Piece) {
        text += "const float " + operand.name + " = four_" + operand.name + "." + component + ";\n";
      }
    }
    text += generated.text + results_text(node, 4, i) + "}\n";
  }
  return text;
}

}  // namespace

ReduceChain reduce_chain(const LowerContext& ctx) {
  const Node& node = ctx.node();
  RLX_CHECK(!node.region.empty() && node.outputs.size() <= node.region.size() &&
                node.inputs.size() + node.outputs.size() <= kMaxReduceOperands + 1,
            "chain of " + node.name);
  ReduceChain chain{.steps = node.region.size()};
  Shape shape;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    chain.operands.push_back(ctx.input(i));
    shape = broadcast_shapes(shape, ctx.input_type(i).shape).value();
  }
  chain.value.type = {.dtype = node.region.back().dtype, .shape = shape};
  const Counting counting = counted(chain.operands, shape);
  chain.value.strides = counting_strides(counting);
  const std::string element =
      "const RLX_INDEX element = RLX_X_KEPT(kept) + RLX_X_REDUCED(reduced);\n";
  std::vector<ChainOperand> operands;
  std::vector<std::string> names;
  std::vector<DType> dtypes;
  chain.prologue = element;
  for (size_t k = 0; k < chain.operands.size(); ++k) {
    const TensorRef& operand = chain.operands[k];
    names.push_back("x" + std::to_string(k));
    dtypes.push_back(operand.dtype());
    operands.push_back({.position = k,
                        .name = names.back(),
                        .dtype = operand.dtype(),
                        .four = four_of(ctx, operand, counting)});
    chain.in_pieces.push_back(operands.back().four == Four::Piece);
    chain.macros += offset_macro(k, operand, counting);
    chain.prologue += operands.back().load_one(0);
  }
  const GeneratedChain generated = generate_chain(node.region, names, dtypes);
  chain.prologue += generated.text + results_text(node, 1, 0);
  const bool any_piece =
      std::any_of(operands.begin(), operands.end(),
                  [](const ChainOperand& operand) { return operand.four == Four::Piece; });
  if (any_piece && shape[counting.order.back()] % 4 == 0) {
    chain.prologue_of_four = element + four_elements(node, operands, generated);
  }
  return chain;
}

Tensor evaluate_reduce_chain(const EvaluateContext& ctx, size_t result) {
  Node chain = ctx.node();
  chain.region.resize(chain.region.size() - chain.outputs.size() + result + 1);
  chain.outputs = {ctx.node().outputs[result]};
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
