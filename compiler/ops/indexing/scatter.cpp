// SPDX-License-Identifier: Apache-2.0
// scatter_add, scatter_elements, scatter_nd, index_copy and index_add (ops.md 8): updates written
// or combined into a copy of the base, always with the same bits.
#include <cmath>

#include "compiler/ops/gradient.h"
#include "compiler/ops/indexing/scatter_lower.h"
#include "compiler/ops/lowering/movement.h"

namespace rlx {
namespace {

Combine combine_from(std::string_view reduction) {
  if (reduction == "add") return Combine::Add;
  if (reduction == "mul") return Combine::Mul;
  if (reduction == "max") return Combine::Max;
  return reduction == "min" ? Combine::Min : Combine::Replace;
}

// Bases and updates are of one dtype that the combination takes.
bool check_payload(InferContext& ctx, DType dtype, size_t updates, Combine combine) {
  if (!refuse_block_type(ctx, dtype)) return false;
  if (ctx.dtype(updates) != dtype) {
    return ctx.fail(DiagCode::BadDtype, "updates are " + std::string(name_of(ctx.dtype(updates))) +
                                            " beside a base of " + std::string(name_of(dtype)));
  }
  if (combine == Combine::Replace || is_float(dtype) || is_integer(dtype)) return true;
  return ctx.fail(DiagCode::BadDtype, "values are " + std::string(name_of(dtype)) +
                                          ", wanted floats or integers to combine");
}

bool check_shape(InferContext& ctx, const std::string& what, const Shape& got,
                 const Shape& wanted) {
  if (got == wanted) return true;
  return ctx.fail(DiagCode::BadShape,
                  what + " is " + to_string(got) + ", wanted " + to_string(wanted));
}

Shape joined(Shape front, const Shape& back, size_t from) {
  front.insert(front.end(), back.begin() + static_cast<std::ptrdiff_t>(from), back.end());
  return front;
}

// The plain map of one index per update.
PlaceMap one_axis(const Dim& size, const Dim& tuples) {
  return {.base = {}, .axes = {{.size = size, .stride = 1}}, .tuples = tuples};
}

// ---- scatter_add(updates, idx, [base]; dim0) ----

constexpr ScatterOperands add_operands(bool has_base) {
  return {.base = has_base ? std::optional<size_t>(2) : std::nullopt, .index = 1, .updates = 0};
}

bool infer_add(InferContext& ctx) {
  const Shape& updates = ctx.shape(0);
  const Shape& index = ctx.shape(1);
  if (!check_index_dtype(ctx, 1)) return false;
  const DType dtype = ctx.has_input(2) ? ctx.dtype(2) : ctx.dtype(0);
  if (!check_payload(ctx, dtype, 0, Combine::Add)) return false;
  if (updates.size() < index.size() || !std::equal(index.begin(), index.end(), updates.begin())) {
    return ctx.fail(DiagCode::BadShape, "updates are " + to_string(updates) +
                                            ", wanted the dims of index " + to_string(index) +
                                            " and then those of a row");
  }
  const Shape y = joined({ctx.attrs().integer("dim0")}, updates, index.size());
  if (ctx.has_input(2) && !check_shape(ctx, "base", ctx.shape(2), y)) return false;
  ctx.set_output(0, {dtype, y});
  return true;
}

ScatterProblem add_problem(const Shape& y, const Shape& index) {
  return {.map = one_axis(y[0], element_count(index)),
          .places = y[0],
          .row = element_count(Shape(y.begin() + 1, y.end())),
          .combine = Combine::Add};
}

bool evaluate_add(EvaluateContext& ctx) {
  return evaluate_scatter(ctx, add_problem(ctx.output_type(0).shape, ctx.input(1).type.shape),
                          add_operands(ctx.has_input(2)));
}

bool lower_add(LowerContext& ctx) {
  return lower_scatter(ctx, add_problem(ctx.output_type(0).shape, ctx.input_type(1).shape),
                       add_operands(ctx.has_input(2)));
}

// ---- scatter_elements(x, idx, updates; axis, reduction), scatter_nd(x, idx, updates; reduction)

constexpr ScatterOperands kScatterOperands = {.base = 0, .index = 1, .updates = 2};

bool infer_scatter_elements(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  const Shape& index = ctx.shape(1);
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), x.size());
  if (!axis || !check_index_dtype(ctx, 1)) return false;
  if (!check_payload(ctx, ctx.dtype(0), 2, combine_from(ctx.attrs().text("reduction")))) {
    return false;
  }
  if (index.size() != x.size()) {
    return ctx.fail(DiagCode::BadRank,
                    "index " + to_string(index) + " and x " + to_string(x) + " differ in rank");
  }
  // A run that made the index larger would write beyond x.
  const DecidedOrders decided;
  for (size_t d = 0; d < x.size(); ++d) {
    if (static_cast<int64_t>(d) == *axis || index[d] <= x[d]) continue;
    return ctx.fail(DiagCode::BadShape, "index " + to_string(index) + " is larger than x " +
                                            to_string(x) + " in axis " + std::to_string(d));
  }
  if (!check_shape(ctx, "updates", ctx.shape(2), index)) return false;
  ctx.set_output(0, ctx.input(0));
  return true;
}

ScatterProblem elements_problem(NodeContext& ctx, const Shape& x, const Shape& index) {
  const auto axis = static_cast<size_t>(*ctx.axis(ctx.attrs().integer("axis"), x.size()));
  const Strides strides = dense_strides(x);
  ScatterProblem problem{.map = {}, .places = element_count(x)};
  problem.map.axes = {{.size = x[axis], .stride = strides[axis]}};
  for (size_t d = 0; d < x.size(); ++d) {
    problem.map.base.push_back({.size = index[d], .strides = {d == axis ? Dim() : strides[d], 0}});
  }
  problem.map.base = merged(problem.map.base);
  problem.map.tuples = element_count(index);
  problem.combine = combine_from(ctx.attrs().text("reduction"));
  return problem;
}

bool infer_scatter_nd(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  const Shape& index = ctx.shape(1);
  if (!check_index_dtype(ctx, 1)) return false;
  if (!check_payload(ctx, ctx.dtype(0), 2, combine_from(ctx.attrs().text("reduction")))) {
    return false;
  }
  if (index.empty() || index.back() > static_cast<int64_t>(x.size())) {
    return ctx.fail(DiagCode::BadShape, "index is " + to_string(index) +
                                            ", wanted tuples of at most " +
                                            std::to_string(x.size()) + " coordinates");
  }
  const Shape wanted =
      joined(Shape(index.begin(), index.end() - 1), x, static_cast<size_t>(index.back()));
  if (!check_shape(ctx, "updates", ctx.shape(2), wanted)) return false;
  ctx.set_output(0, ctx.input(0));
  return true;
}

ScatterProblem nd_problem(NodeContext& ctx, const Shape& x, const Shape& index) {
  const auto coordinates = static_cast<size_t>(index.back());
  ScatterProblem problem;
  problem.map.tuples = element_count(Shape(index.begin(), index.end() - 1));
  const Shape named(x.begin(), x.begin() + index.back());
  const Strides strides = dense_strides(named);
  for (size_t k = 0; k < coordinates; ++k) {
    problem.map.axes.push_back({.size = x[k], .stride = strides[k]});
  }
  problem.places = element_count(named);
  problem.row = element_count(Shape(x.begin() + index.back(), x.end()));
  problem.combine = combine_from(ctx.attrs().text("reduction"));
  return problem;
}

ScatterProblem scatter_problem(NodeContext& ctx, const Shape& x, const Shape& index) {
  return ctx.node().op == "scatter_nd" ? nd_problem(ctx, x, index)
                                       : elements_problem(ctx, x, index);
}

// ---- index_copy(x, idx, src; axis), index_add(x, idx, src; axis, alpha) ----

bool adds(const NodeContext& ctx) {
  return ctx.node().op == "index_add";
}

bool infer_index(InferContext& ctx) {
  const Shape& x = ctx.shape(0);
  const Shape& index = ctx.shape(1);
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), x.size());
  if (!axis || !check_index_dtype(ctx, 1)) return false;
  const Combine combine = adds(ctx) ? Combine::Add : Combine::Replace;
  if (!check_payload(ctx, ctx.dtype(0), 2, combine)) return false;
  if (index.size() != 1) {
    return ctx.fail(DiagCode::BadRank, "index is " + to_string(index) + ", wanted rank 1");
  }
  Shape wanted = x;
  wanted[static_cast<size_t>(*axis)] = index[0];
  if (!check_shape(ctx, "src", ctx.shape(2), wanted)) return false;
  if (adds(ctx) && !is_float(ctx.dtype(0))) {
    const double alpha = ctx.attrs().real("alpha");
    const IntegerRange range = integer_range(ctx.dtype(0));
    const bool fits =
        alpha >= static_cast<double>(range.lowest) && alpha < static_cast<double>(range.highest);
    if (std::floor(alpha) != alpha || !fits) {
      return ctx.fail(DiagCode::BadAttribute, "alpha is " + std::to_string(alpha) +
                                                  ", wanted a whole number that " +
                                                  std::string(name_of(ctx.dtype(0))) + " holds");
    }
  }
  ctx.set_output(0, ctx.input(0));
  return true;
}

ScatterProblem index_problem(NodeContext& ctx, const Shape& x, const Shape& index) {
  const int64_t axis = *ctx.axis(ctx.attrs().integer("axis"), x.size());
  const Dim& size = x[static_cast<size_t>(axis)];
  return {.map = one_axis(size, index[0]),
          .outer = element_count(Shape(x.begin(), x.begin() + axis)),
          .places = size,
          .row = element_count(Shape(x.begin() + axis + 1, x.end())),
          .combine = adds(ctx) ? Combine::Add : Combine::Replace,
          .alpha = adds(ctx) ? ctx.attrs().real("alpha") : 1};
}

template <auto problem>
bool evaluate_with(EvaluateContext& ctx) {
  return evaluate_scatter(ctx, problem(ctx, ctx.input(0).type.shape, ctx.input(1).type.shape),
                          kScatterOperands);
}

template <auto problem>
bool lower_with(LowerContext& ctx) {
  return lower_scatter(ctx, problem(ctx, ctx.input_type(0).shape, ctx.input_type(1).shape),
                       kScatterOperands);
}

constexpr std::string_view kReductions[] = {"none", "add", "mul", "max", "min"};
// ---- gradients ----

bool scatter_add_gradient(GradientContext& ctx) {
  const ValueId dy = ctx.gradient();
  // An index outside writes nothing, so it reads zeros.
  if (ctx.wants(0)) {
    ctx.give(0, ctx.emit("gather", {dy, ctx.input(1)},
                         {{"axis", int64_t{0}}, {"oob", std::string("zero")}}));
  }
  ctx.give(2, dy);
  return true;
}

bool scatter_gradient(GradientContext& ctx) {
  if (ctx.attrs().text("reduction") != "add") {
    return ctx.fail(DiagCode::UnknownOp,
                    "reduction \"" + ctx.attrs().text("reduction") + "\" has no gradient",
                    "add to zeros");
  }
  const bool elements = ctx.node().op == "scatter_elements";
  Attributes attributes = {{"oob", std::string("zero")}};
  if (elements) attributes["axis"] = ctx.attrs().integer("axis");
  ctx.give(0, ctx.gradient());
  if (ctx.wants(2)) {
    ctx.give(2, ctx.emit(elements ? "gather_elements" : "gather_nd", {ctx.gradient(), ctx.input(1)},
                         std::move(attributes)));
  }
  return true;
}

// Rows that are written take nothing of x, where they are not added to it.
bool index_gradient(GradientContext& ctx) {
  const int64_t axis = ctx.attrs().integer("axis");
  const ValueId dy = ctx.gradient();
  if (ctx.wants(2)) {
    const ValueId rows =
        ctx.emit("gather", {dy, ctx.input(1)}, {{"axis", axis}, {"oob", std::string("zero")}});
    ctx.give(2, ctx.affine(rows, adds(ctx) ? ctx.attrs().real("alpha") : 1));
  }
  if (adds(ctx)) {
    ctx.give(0, dy);
  } else if (ctx.wants(0)) {
    const ValueId zeros = ctx.filled({ctx.dtype(dy), ctx.shape(ctx.input(2))}, 0);
    ctx.give(0, ctx.emit("index_copy", {dy, ctx.input(1), zeros}, {{"axis", axis}}));
  }
  return true;
}

constexpr AttrSpec kReduction = {.name = "reduction",
                                 .type = AttrType::String,
                                 .default_text = "\"none\"",
                                 .choices = kReductions};
constexpr AttrSpec kAxis = {.name = "axis", .type = AttrType::Int, .default_text = "0"};
constexpr AttrSpec kRequiredAxis = {.name = "axis", .type = AttrType::Int, .required = true};
constexpr AttrSpec kAddAttrs[] = {{.name = "dim0",
                                   .type = AttrType::Int,
                                   .required = true,
                                   .minimum = 0,
                                   .consumed_by_infer = true}};
constexpr AttrSpec kScatterElementsAttrs[] = {kAxis, kReduction};
constexpr AttrSpec kScatterNdAttrs[] = {kReduction};
constexpr AttrSpec kCopyAttrs[] = {kRequiredAxis};
constexpr AttrSpec kIndexAddAttrs[] = {
    kRequiredAxis, {.name = "alpha", .type = AttrType::Float, .default_text = "1"}};
constexpr uint32_t kAddOptional[] = {2};

constexpr OpDef kScatterOps[] = {
    {.name = "scatter_add",
     .signature = "scatter_add(updates, index, [base]; dim0) -> y",
     .inputs = {2, 3},
     .attrs = kAddAttrs,
     .infer = infer_add,
     .evaluate = evaluate_add,
     .gradient = scatter_add_gradient,
     .lower = lower_add,
     .optional_inputs = kAddOptional,
     .index_inputs = 1u << 1},
    {.name = "scatter_elements",
     .signature = "scatter_elements(x, index, updates; axis=0, reduction=\"none\") -> y",
     .inputs = {3, 3},
     .attrs = kScatterElementsAttrs,
     .infer = infer_scatter_elements,
     .evaluate = evaluate_with<scatter_problem>,
     .gradient = scatter_gradient,
     .lower = lower_with<scatter_problem>,
     .index_inputs = 1u << 1},
    {.name = "scatter_nd",
     .signature = "scatter_nd(x, index, updates; reduction=\"none\") -> y",
     .inputs = {3, 3},
     .attrs = kScatterNdAttrs,
     .infer = infer_scatter_nd,
     .evaluate = evaluate_with<scatter_problem>,
     .gradient = scatter_gradient,
     .lower = lower_with<scatter_problem>,
     .index_inputs = 1u << 1},
    {.name = "index_copy",
     .signature = "index_copy(x, index, src; axis) -> y",
     .inputs = {3, 3},
     .attrs = kCopyAttrs,
     .infer = infer_index,
     .evaluate = evaluate_with<index_problem>,
     .gradient = index_gradient,
     .lower = lower_with<index_problem>,
     .index_inputs = 1u << 1},
    {.name = "index_add",
     .signature = "index_add(x, index, src; axis, alpha=1) -> y",
     .inputs = {3, 3},
     .attrs = kIndexAddAttrs,
     .infer = infer_index,
     .evaluate = evaluate_with<index_problem>,
     .gradient = index_gradient,
     .lower = lower_with<index_problem>,
     .index_inputs = 1u << 1},
};

}  // namespace

std::span<const OpDef> scatter_ops() {
  return kScatterOps;
}

}  // namespace rlx
