// SPDX-License-Identifier: Apache-2.0
// What the norms over channels and batches are made of (ops.md 4): mean and spread of sets of
// elements by the moments kernel, and what is done with them, elementwise. The mean is the sum of
// two numbers, as one alone would be rounded too far away from zero. All of it is f32, or f64 of
// f64, whatever the precision of x.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/rows/moments_lower.h"

namespace rlx {
namespace {

bool is_moments(const NodeContext& ctx) {
  return ctx.node().op == "moments";
}

// The sets of elements: rows of `shape`, a view of x whose channels may be split into [groups,
// channels of a group]. Results of a set stand `repeats` times, once for each channel of its group.
struct Sets {
  Shape shape;
  Ints axes;
  int64_t repeats = 1;
};

std::optional<Sets> sets_of(NodeContext& ctx, const Shape& x) {
  const int64_t groups = is_moments(ctx) ? ctx.attrs().integer("groups") : 0;
  if (groups == 0) {
    const std::optional<Ints> axes = ctx.axes(ctx.attrs().integers("axes"), x.size());
    if (!axes) return std::nullopt;
    return Sets{.shape = x, .axes = *axes};
  }
  if (x.size() < 2 || x[1] % groups != 0) {
    ctx.fail(DiagCode::BadShape, "x is " + to_string(x) +
                                     "; wanted [N, C, ..] with C divisible by " +
                                     std::to_string(groups) + " groups");
    return std::nullopt;
  }
  Sets sets{.shape = x, .axes = {}, .repeats = x[1] / groups};
  sets.shape[1] = groups;
  sets.shape.insert(sets.shape.begin() + 2, sets.repeats);
  for (size_t d = 2; d < sets.shape.size(); ++d) sets.axes.push_back(static_cast<int64_t>(d));
  return sets;
}

bool infer_statistics(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "x")) return false;
  const std::optional<Sets> sets = sets_of(ctx, ctx.shape(0));
  if (!sets) return false;
  Shape shape = ctx.shape(0);
  if (sets->shape == shape) {
    for (const int64_t axis : sets->axes) shape[static_cast<size_t>(axis)] = 1;
  } else {
    std::fill(shape.begin() + 2, shape.end(), 1);
  }
  for (size_t i = 0; i < ctx.node().outputs.size(); ++i) {
    ctx.set_output(i, {.dtype = statistics_type(ctx.dtype(0)), .shape = shape});
  }
  return true;
}

// ---- evaluate ----

void repeat(Tensor& output, size_t set, int64_t repeats, double value) {
  const auto count = static_cast<size_t>(repeats);
  std::fill_n(output.floats.begin() + static_cast<std::ptrdiff_t>(set * count), count, value);
}

bool evaluate_moments(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const std::optional<Sets> sets = sets_of(ctx, x.type.shape);
  if (!sets) return false;
  const RowOffsets offsets = row_offsets(sets->shape, sets->axes);
  const auto n = static_cast<double>(offsets.reduced.size());
  for (size_t set = 0; set < offsets.kept.size(); ++set) {
    const auto at = [&](int64_t i) { return x.floats[static_cast<size_t>(offsets.kept[set] + i)]; };
    double mean = 0;
    for (const int64_t i : offsets.reduced) mean += at(i);
    mean /= n;
    double squares = 0;
    for (const int64_t i : offsets.reduced) squares += (at(i) - mean) * (at(i) - mean);
    const double center = round_to(ctx.output_type(0).dtype, mean);
    repeat(ctx.output(0), set, sets->repeats, center);
    repeat(ctx.output(1), set, sets->repeats, mean - center);
    repeat(ctx.output(2), set, sets->repeats, 1 / std::sqrt(squares / n + ctx.attrs().real("eps")));
    if (ctx.output_count() > 3) repeat(ctx.output(3), set, sets->repeats, squares / n);
  }
  return true;
}

bool evaluate_inverse_norm(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const std::optional<Sets> sets = sets_of(ctx, x.type.shape);
  if (!sets) return false;
  const double eps = ctx.attrs().real("eps");
  const bool add = ctx.attrs().text("mode") == "add";
  const RowOffsets offsets = row_offsets(sets->shape, sets->axes);
  for (size_t set = 0; set < offsets.kept.size(); ++set) {
    double squares = 0;
    for (const int64_t i : offsets.reduced) {
      const double value = x.floats[static_cast<size_t>(offsets.kept[set] + i)];
      squares += value * value;
    }
    const double norm = std::sqrt(squares);
    ctx.output(0).floats[set] = add ? 1 / std::sqrt(squares + eps) : 1 / (norm < eps ? eps : norm);
  }
  return true;
}

// ---- lower ----

bool lower_moments(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const std::optional<Sets> sets = sets_of(ctx, x.shape());
  if (!sets) return false;
  MomentsProblem problem = variance_problem(x, sets->shape, sets->axes, ctx.attrs().real("eps"));
  problem.repeats = sets->repeats;
  MomentsResults results{.center = ctx.output(0), .rest = ctx.output(1), .inv_std = ctx.output(2)};
  if (ctx.has_output(3)) results.variance = ctx.output(3);
  return element_count(ctx.output_type(0).shape) == 0 || emit_moments(ctx, problem, results);
}

bool lower_inverse_norm(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const std::optional<Sets> sets = sets_of(ctx, x.shape());
  if (!sets) return false;
  const std::string eps = literal(statistics_type(x.dtype()), ctx.attrs().real("eps"));
  const std::string divisor = ctx.attrs().text("mode") == "add"
                                  ? "rlx_sqrt((spread) + " + eps + ")"
                                  : "rlx_max(rlx_sqrt(spread), " + eps + ")";
  const MomentsProblem problem{.x = x,
                               .shape = sets->shape,
                               .axes = sets->axes,
                               .centred = false,
                               .spread = "(squares)",
                               .inv_std = "(RLX_REAL(1) / " + divisor + ")"};
  const MomentsResults results{.inv_std = ctx.output(0)};
  return element_count(ctx.output_type(0).shape) == 0 || emit_moments(ctx, problem, results);
}

// ---- what is done with them, in the precision of the statistics, rounded once ----

bool infer_applied(InferContext& ctx) {
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (!check_dtype(ctx, i, DTypeSet::Float)) return false;
  }
  const DType wanted = statistics_type(ctx.dtype(0));
  for (size_t i = 1; i < std::min<size_t>(ctx.input_count(), 4); ++i) {
    if (ctx.dtype(i) == wanted) continue;
    return ctx.fail(DiagCode::BadDtype, "input " + std::to_string(i) + " is " +
                                            std::string(name_of(ctx.dtype(i))) + "; wanted " +
                                            std::string(name_of(wanted)) + " beside " +
                                            std::string(name_of(ctx.dtype(0))) + " x");
  }
  const std::optional<Shape> shape = infer_broadcast(ctx);
  if (!shape) return false;
  if (*shape != ctx.shape(0)) {
    return ctx.fail(DiagCode::BadShape, "the inputs broadcast to " + to_string(*shape) +
                                            "; wanted the shape of x, " + to_string(ctx.shape(0)));
  }
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate_applied(EvaluateContext& ctx) {
  const bool standardises = ctx.node().op == "standardise";
  std::vector<const Shape*> shapes;
  for (size_t i = 0; i < ctx.input_count(); ++i) shapes.push_back(&ctx.input(i).type.shape);
  for_each_broadcast(ctx.input(0).type.shape, shapes, [&](int64_t o, const int64_t* in) {
    const auto at = [&](size_t i) { return real_at(ctx.input(i), in[i]); };
    double value = standardises ? (at(0) - at(1) - at(2)) * at(3) : at(0) * at(1);
    if (ctx.input_count() > 4) value *= at(4);
    if (ctx.input_count() > 5) value += at(5);
    ctx.output(0).floats[static_cast<size_t>(o)] = value;
  });
  return true;
}

std::string scalar_applied(const ScalarContext& ctx, const std::string& first, size_t from) {
  const std::string type(compute_type(ctx.result_dtype()));
  std::string text = first;
  for (size_t i = from; i < ctx.operand_count(); ++i) {
    text = "(" + text + (i == 5 ? " + " : " * ") + type + "(" + ctx.operand(i) + "))";
  }
  return text;
}

// The differences stay as written where that can matter: drivers may take the two numbers of the
// mean together.
std::string scalar_standardise(const ScalarContext& ctx) {
  const bool wide = ctx.result_dtype() == DType::f64;
  const std::string& x = ctx.operand(0);
  const std::string& center = ctx.operand(1);
  const std::string& rest = ctx.operand(2);
  return scalar_applied(ctx,
                        wide ? "(" + x + " - " + center + " - " + rest + ")"
                             : "rlx_add_rn(rlx_add_rn(" + x + ", -" + center + "), -" + rest + ")",
                        3);
}

std::string scalar_scaled(const ScalarContext& ctx) {
  return scalar_applied(ctx, ctx.operand(0), 1);
}

constexpr std::string_view kMomentsModes[] = {"max", "add"};
constexpr AttrSpec kMomentsAttrs[] = {
    {.name = "axes", .type = AttrType::IntList, .default_text = "[]"},
    {.name = "groups", .type = AttrType::Int, .default_text = "0", .minimum = 0},
    {.name = "eps", .type = AttrType::Float, .default_text = "1e-5", .minimum = 0},
};
constexpr AttrSpec kInverseNormAttrs[] = {
    {.name = "axes", .type = AttrType::IntList, .default_text = "[]"},
    {.name = "eps", .type = AttrType::Float, .default_text = "1e-12", .minimum = 0},
    {.name = "mode", .type = AttrType::String, .default_text = "\"max\"", .choices = kMomentsModes},
};

constexpr OpDef kMomentsOps[] = {
    {.name = "moments",
     .signature = "moments(x; axes=[], groups=0, eps=1e-5) -> center, rest, inv_std, [variance]",
     .inputs = {1, 1},
     .outputs = {3, 4},
     .attrs = kMomentsAttrs,
     .infer = infer_statistics,
     .evaluate = evaluate_moments,
     .lower = lower_moments,
     .reads_strides = true},
    {.name = "inverse_norm",
     .signature = "inverse_norm(x; axes=[], eps=1e-12, mode=\"max\") -> factor",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kInverseNormAttrs,
     .infer = infer_statistics,
     .evaluate = evaluate_inverse_norm,
     .lower = lower_inverse_norm,
     .reads_strides = true},
    {.name = "standardise",
     .signature = "standardise(x, center, rest, inv_std, [gamma], [beta]) -> y",
     .inputs = {4, 6},
     .outputs = {1, 1},
     .attrs = {},
     .infer = infer_applied,
     .evaluate = evaluate_applied,
     .lower = lower_elementwise,
     .scalar = scalar_standardise,
     .keeps_f32 = 1u << 1 | 1u << 2 | 1u << 3},
    {.name = "scaled",
     .signature = "scaled(x, factor) -> y",
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attrs = {},
     .infer = infer_applied,
     .evaluate = evaluate_applied,
     .lower = lower_elementwise,
     .scalar = scalar_scaled,
     .keeps_f32 = 1u << 1},
};

}  // namespace

std::span<const OpDef> moments_ops() {
  return kMomentsOps;
}

}  // namespace rlx
