// SPDX-License-Identifier: Apache-2.0
// llada2_gate (ops.md 13): which experts a token goes to, of the best groups, and by what weights.
// With one group it is a plain top-k gate.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {
namespace {

constexpr double kLeastSum = 1e-20;

struct GateShape {
  int64_t groups = 1;
  int64_t kept_groups = 1;
  int64_t experts = 1;  // of a token
  int64_t group_size = 1;
};

GateShape gate_shape(const AttributeReader& attrs, const Shape& scores) {
  GateShape gate{.groups = attrs.integer("n_group"),
                 .kept_groups = attrs.integer("topk_group"),
                 .experts = attrs.integer("top_k")};
  gate.group_size = static_cast<int64_t>(scores.back()) / gate.groups;
  return gate;
}

bool check_gate_sizes(InferContext& ctx) {
  const Dim& last = ctx.shape(0).back();
  if (last.is_free()) {
    return ctx.fail(DiagCode::FreeSize,
                    "the number of experts is a size of the run, wanted a number");
  }
  const auto experts = static_cast<int64_t>(last);
  const int64_t groups = ctx.attrs().integer("n_group");
  if (experts % groups != 0 || experts == 0) {
    return ctx.fail(DiagCode::BadShape, "scores have " + std::to_string(experts) +
                                            " experts, wanted a multiple of n_group, " +
                                            std::to_string(groups));
  }
  const GateShape gate = gate_shape(ctx.attrs(), ctx.shape(0));
  if (gate.kept_groups > gate.groups) {
    return ctx.fail(DiagCode::BadAttribute, "topk_group is " + std::to_string(gate.kept_groups) +
                                                ", wanted at most n_group, " +
                                                std::to_string(gate.groups));
  }
  if (gate.experts > gate.kept_groups * gate.group_size) {
    return ctx.fail(DiagCode::BadAttribute, "top_k is " + std::to_string(gate.experts) +
                                                ", wanted at most the " +
                                                std::to_string(gate.kept_groups * gate.group_size) +
                                                " experts of topk_group groups");
  }
  return true;
}

bool infer_gate(InferContext& ctx) {
  const TensorType& scores = ctx.input(0);
  if (scores != ctx.input(1) || scores.shape.empty()) {
    return ctx.fail(DiagCode::BadShape, "scores are " + to_string(scores) + " and routing is " +
                                            to_string(ctx.input(1)) +
                                            ", wanted equal types with an axis of experts");
  }
  if (!is_short_float(scores.dtype) && scores.dtype != DType::f32) {
    return ctx.fail(DiagCode::BadDtype, "scores are " + std::string(name_of(scores.dtype)) +
                                            ", wanted f32, f16 or bf16");
  }
  if (!check_gate_sizes(ctx)) return false;
  Shape shape = scores.shape;
  shape.back() = ctx.attrs().integer("top_k");
  ctx.set_output(0, {DType::i32, shape});
  ctx.set_output(1, {scores.dtype, shape});
  return true;
}

// Routing values, NaN lowest.
double rank_of(double routing) {
  return std::isnan(routing) ? -std::numeric_limits<double>::infinity() : routing;
}

// The first `count` places in descending order of their values; of equal ones the lower place.
std::vector<size_t> best_places(const std::vector<double>& values, int64_t count) {
  std::vector<size_t> places(values.size());
  std::iota(places.begin(), places.end(), size_t{0});
  std::stable_sort(places.begin(), places.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  places.resize(static_cast<size_t>(count));
  return places;
}

double group_score(const std::vector<double>& routing, size_t group, size_t size) {
  const auto begin = routing.begin() + static_cast<std::ptrdiff_t>(group * size);
  std::vector<double> values(begin, begin + static_cast<std::ptrdiff_t>(size));
  std::sort(values.begin(), values.end(), std::greater<>());
  return size == 1 ? values[0] : values[0] + values[1];
}

// The chosen experts of one token in descending order of routing.
std::vector<size_t> chosen_experts(const std::vector<double>& routing, const GateShape& gate) {
  const auto size = static_cast<size_t>(gate.group_size);
  std::vector<double> group_scores;
  for (size_t group = 0; group < static_cast<size_t>(gate.groups); ++group)
    group_scores.push_back(group_score(routing, group, size));
  std::vector<size_t> groups = best_places(group_scores, gate.kept_groups);
  std::sort(groups.begin(), groups.end());
  std::vector<size_t> experts;
  std::vector<double> values;
  for (const size_t group : groups) {
    for (size_t i = 0; i < size; ++i) {
      experts.push_back(group * size + i);
      values.push_back(routing[experts.back()]);
    }
  }
  std::vector<size_t> chosen;
  for (const size_t place : best_places(values, gate.experts)) chosen.push_back(experts[place]);
  return chosen;
}

bool evaluate_gate(EvaluateContext& ctx) {
  const Tensor& scores = ctx.input(0);
  const Tensor& routing = ctx.input(1);
  const GateShape gate = gate_shape(ctx.attrs(), scores.type.shape);
  const double scaling = ctx.attrs().real("scaling");
  const bool norms = ctx.attrs().flag("norm_topk") && gate.experts > 1;
  const auto experts = static_cast<size_t>(gate.groups * gate.group_size);
  const auto count = static_cast<size_t>(gate.experts);
  for (size_t token = 0; token * experts < scores.floats.size(); ++token) {
    std::vector<double> values;
    for (size_t i = 0; i < experts; ++i)
      values.push_back(rank_of(routing.floats[token * experts + i]));
    const std::vector<size_t> chosen = chosen_experts(values, gate);
    double sum = kLeastSum;
    for (const size_t expert : chosen) sum += scores.floats[token * experts + expert];
    for (size_t i = 0; i < count; ++i) {
      const double score = scores.floats[token * experts + chosen[i]];
      ctx.output(0).integers[token * count + i] = static_cast<int64_t>(chosen[i]);
      if (ctx.output_count() == 1) continue;
      ctx.output(1).floats[token * count + i] = scaling * (norms ? score / sum : score);
    }
  }
  return true;
}

ValueId gate_constant(RewriteContext& ctx, std::string_view stem, double value) {
  Tensor tensor = Tensor::zeros({DType::f32, {}});
  tensor.floats[0] = value;
  return ctx.constant(stem, tensor);
}

// f32 [tokens, experts].
ValueId token_rows(RewriteContext& ctx, size_t input, const Dim& tokens, const Dim& experts) {
  const ValueId rows = ctx.emit("reshape", {ctx.input(input)}, {{"shape", Ints{tokens, experts}}});
  if (ctx.type(rows).dtype == DType::f32) return rows;
  return ctx.emit("cast", {rows}, {{"to", std::string("f32")}});
}

// Routing of the experts of the best groups, and where they stand among all experts: [tokens,
// kept_groups * group_size], groups in ascending order.
struct KeptExperts {
  ValueId routing{};
  std::optional<ValueId> index = std::nullopt;
};

KeptExperts kept_experts(RewriteContext& ctx, ValueId routing, const GateShape& gate,
                         const Dim& tokens) {
  if (gate.kept_groups == gate.groups) return {.routing = routing};
  const ValueId groups =
      ctx.emit("reshape", {routing}, {{"shape", Ints{tokens, gate.groups, gate.group_size}}});
  const int64_t counted = std::min<int64_t>(2, gate.group_size);
  const ValueId best = ctx.emit("topk", {groups}, {{"k", counted}});
  const ValueId scores = ctx.emit("reduce_sum", {best}, {{"axes", Ints{2}}});
  const ValueId chosen = ctx.emit_all("topk", {scores}, {{"k", gate.kept_groups}}, 2)[1];
  const ValueId ascending = ctx.emit("sort", {chosen});
  // Each group's experts: group * group_size + place.
  Tensor places = Tensor::zeros({DType::i32, {gate.group_size}});
  std::iota(places.integers.begin(), places.integers.end(), int64_t{0});
  Tensor size = Tensor::zeros({DType::i32, {}});
  size.integers[0] = gate.group_size;
  const ValueId first = ctx.emit("mul", {ascending, ctx.constant("group_size", size)});
  const ValueId column =
      ctx.emit("reshape", {first}, {{"shape", Ints{tokens, gate.kept_groups, 1}}});
  const ValueId all = ctx.emit("add", {column, ctx.constant("places", places)});
  const ValueId index =
      ctx.emit("reshape", {all}, {{"shape", Ints{tokens, gate.kept_groups * gate.group_size}}});
  return {.routing = ctx.emit("gather_elements", {routing, index}, {{"axis", int64_t{1}}}),
          .index = index};
}

bool decompose_gate(RewriteContext& ctx) {
  const Shape shape = ctx.type(ctx.input(0)).shape;
  const TensorType weights_type = ctx.type(ctx.node().outputs[0]);
  const GateShape gate = gate_shape(ctx.attrs(), shape);
  const Dim tokens = element_count(Shape(shape.begin(), shape.end() - 1));
  const ValueId scores = token_rows(ctx, 0, tokens, shape.back());
  const ValueId raw = token_rows(ctx, 1, tokens, shape.back());
  const ValueId lowest = gate_constant(ctx, "lowest", -std::numeric_limits<double>::infinity());
  const ValueId routing = ctx.emit("where", {ctx.emit("is_nan", {raw}), lowest, raw});
  const KeptExperts kept = kept_experts(ctx, routing, gate, tokens);
  ValueId chosen = ctx.emit_all("topk", {kept.routing}, {{"k", gate.experts}}, 2)[1];
  if (kept.index)
    chosen = ctx.emit("gather_elements", {*kept.index, chosen}, {{"axis", int64_t{1}}});
  ValueId weights = ctx.emit("gather_elements", {scores, chosen}, {{"axis", int64_t{1}}});
  if (ctx.attrs().flag("norm_topk") && gate.experts > 1) {
    const ValueId sum = ctx.emit("reduce_sum", {weights}, {{"axes", Ints{1}}, {"keep_dims", true}});
    weights = ctx.emit(
        "div", {weights, ctx.emit("add", {sum, gate_constant(ctx, "least_sum", kLeastSum)})});
  }
  weights = ctx.emit("mul", {weights, gate_constant(ctx, "scaling", ctx.attrs().real("scaling"))});
  const DType dtype = ctx.type(ctx.input(0)).dtype;
  if (dtype != DType::f32)
    weights = ctx.emit("cast", {weights}, {{"to", std::string(name_of(dtype))}});
  ctx.replace_output(0, ctx.emit("reshape", {chosen}, {{"shape", weights_type.shape}}));
  if (ctx.node().outputs.size() > 1)
    ctx.replace_output(1, ctx.emit("reshape", {weights}, {{"shape", weights_type.shape}}));
  return true;
}

constexpr AttrSpec gate_count(std::string_view name) {
  return {
      .name = name, .type = AttrType::Int, .required = true, .minimum = 1, .maximum = kLargestInt};
}
constexpr AttrSpec kGate[] = {
    gate_count("n_group"),
    gate_count("topk_group"),
    gate_count("top_k"),
    {.name = "scaling", .type = AttrType::Float, .default_text = "1"},
    {.name = "norm_topk", .type = AttrType::Bool, .default_text = "true"},
};

constexpr OpDef kGateOps[] = {
    {.name = "llada2_gate",
     .signature = "llada2_gate(scores, routing; n_group, topk_group, top_k, scaling=1, "
                  "norm_topk=true) -> indices, [weights]",
     .inputs = {2, 2},
     .outputs = {1, 2},
     .attrs = kGate,
     .infer = infer_gate,
     .evaluate = evaluate_gate,
     .decompose = decompose_gate},
};

}  // namespace

std::span<const OpDef> gate_ops() {
  return kGateOps;
}

}  // namespace rlx
