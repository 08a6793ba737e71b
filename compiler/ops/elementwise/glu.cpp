// SPDX-License-Identifier: Apache-2.0
// fused_swiglu and glu (ops.md 5.4): up * activation(gate), the two as halves of one tensor or as
// two tensors.
#include <array>

#include "compiler/ops/evaluate_op.h"
#include "compiler/ops/lowering/matmul_activation.h"
#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

bool is_packed(const NodeContext& ctx) {
  return ctx.node().op == "fused_swiglu";
}

bool infer_glu(InferContext& ctx) {
  if (!read_activation(ctx, false)) return false;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (is_float(ctx.dtype(i))) continue;
    return ctx.fail(DiagCode::BadDtype, "input " + std::to_string(i) + " is " +
                                            to_string(ctx.input(i)) + ", wanted a float dtype");
  }
  TensorType y = ctx.input(0);
  if (is_packed(ctx)) {
    if (y.shape.empty() || y.shape.back() % 2 != 0) {
      return ctx.fail(DiagCode::BadShape,
                      "x is " + to_string(y) + ", wanted an even last dim: its halves are the two");
    }
    y.shape.back() /= 2;
  } else if (ctx.input(1) != y) {
    return ctx.fail(DiagCode::BadShape,
                    "up is " + to_string(ctx.input(1)) + ", wanted " + to_string(y) + " as gate");
  }
  if (ctx.attrs().has("cast_to")) y.dtype = ctx.attrs().dtype("cast_to");
  if (!is_float(y.dtype)) {
    return ctx.fail(DiagCode::BadAttribute,
                    "cast_to is " + std::string(name_of(y.dtype)) + ", wanted a float dtype");
  }
  ctx.set_output(0, y);
  return true;
}

std::vector<double> activated(const Activation& activation, DType dtype,
                              std::vector<double> values) {
  if (activation.none()) return values;
  Tensor x;
  x.type = {dtype, {static_cast<int64_t>(values.size())}};
  x.floats = std::move(values);
  return evaluate_op(activation.op, {&x}, activation.attributes, {x.type})[0].floats;
}

bool evaluate_glu(EvaluateContext& ctx) {
  const std::optional<Activation> activation = read_activation(ctx, false);
  if (!activation) return false;
  const Tensor& x = ctx.input(0);
  std::vector<double> gate = x.floats;
  std::vector<double> up;
  if (is_packed(ctx)) {
    const auto columns = static_cast<size_t>(ctx.output_type(0).shape.back());
    const bool gate_first = ctx.attrs().flag("gate_first");
    gate.clear();
    for (size_t i = 0; i < x.floats.size(); ++i) {
      const bool first = i % (2 * columns) < columns;
      (first == gate_first ? gate : up).push_back(x.floats[i]);
    }
  } else {
    up = ctx.input(1).floats;
  }
  gate = activated(*activation, x.type.dtype, std::move(gate));
  for (size_t i = 0; i < up.size(); ++i) ctx.output(0).floats[i] = up[i] * gate[i];
  return true;
}

bool decompose_glu(RewriteContext& ctx) {
  const std::optional<Activation> activation = read_activation(ctx, false);
  if (!activation) return false;
  ValueId gate = ctx.input(0);
  ValueId up = gate;
  if (is_packed(ctx)) {
    const int64_t columns = ctx.type(gate).shape.back() / 2;
    const int64_t gate_start = ctx.attrs().flag("gate_first") ? 0 : columns;
    const auto half = [&](int64_t start) {
      return ctx.emit("narrow", {ctx.input(0)},
                      {{"axis", int64_t{-1}}, {"start", start}, {"len", columns}});
    };
    gate = half(gate_start);
    up = half(columns - gate_start);
  } else {
    up = ctx.input(1);
  }
  const DType from = ctx.type(gate).dtype;
  const DType to = ctx.attrs().has("cast_to") ? ctx.attrs().dtype("cast_to") : from;
  // One rounding, at the end.
  const Attributes compute = {
      {"to", std::string(from == DType::f64 || to == DType::f64 ? "f64" : "f32")}};
  gate = ctx.emit("cast", {gate}, compute);
  up = ctx.emit("cast", {up}, compute);
  if (!activation->none()) gate = ctx.emit(activation->op, {gate}, activation->attributes);
  ValueId y = ctx.emit("mul", {up, gate});
  if (to != ctx.type(y).dtype) y = ctx.emit("cast", {y}, {{"to", std::string(name_of(to))}});
  ctx.replace_output(0, y);
  return true;
}

constexpr AttrSpec kActivation{
    .name = "activation", .type = AttrType::String, .default_text = "\"silu\""};
constexpr AttrSpec kCastTo{.name = "cast_to", .type = AttrType::DTypeName};
constexpr std::array kPackedAttrs = {
    AttrSpec{.name = "gate_first", .type = AttrType::Bool, .default_text = "false"}, kActivation,
    kCastTo};
constexpr std::array kPairAttrs = {kActivation, kCastTo};

constexpr std::array kGluOps = {
    OpDef{.name = "fused_swiglu",
          .signature = "fused_swiglu(x; gate_first=false, activation=\"silu\", cast_to) -> y",
          .attrs = kPackedAttrs,
          .infer = infer_glu,
          .evaluate = evaluate_glu,
          .decompose = decompose_glu},
    OpDef{.name = "glu",
          .signature = "glu(gate, up; activation=\"silu\", cast_to) -> y",
          .inputs = {2, 2},
          .attrs = kPairAttrs,
          .infer = infer_glu,
          .evaluate = evaluate_glu,
          .decompose = decompose_glu},
};

}  // namespace

std::span<const OpDef> glu_ops() {
  return kGluOps;
}

}  // namespace rlx
