// SPDX-License-Identifier: Apache-2.0
// What the norms over channels and batches are made of (ops.md 4): mean and spread of sets of
// elements by the moments kernel, and what is done with them, elementwise. The mean is the sum of
// two numbers, as one alone would be rounded too far away from zero. All of it is f32, or f64 of
// f64, whatever the precision of x.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/elementwise.h"
#include "compiler/ops/region_codegen.h"
#include "compiler/ops/rows.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

DType statistics_type(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

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

// How the moments kernel goes over x.
struct MomentsPlan {
  RowPlan rows;
  uint32_t width = 1;
  int64_t parts = 1;
  int64_t part_length = 1;

  [[nodiscard]] int64_t items() const {
    const int64_t piece = static_cast<int64_t>(rows.lanes) * width;
    return (part_length + piece - 1) / piece;
  }
};

// Elements that a thread reads at once: 8 or 4 where a row's innermost loop and every step between
// its loops and rows allow it.
uint32_t piece_width(const LowerContext& ctx, const TensorRef& x, const RowLoops& loops) {
  const uint32_t bytes = element_bytes(x.dtype());
  if (loops.reduced.empty() || loops.reduced.back().strides[0] != 1 || bytes > 4) return 1;
  for (const uint32_t width : {16 / bytes, uint32_t{4}}) {
    const auto divides = [width](int64_t value) { return value % width == 0; };
    bool whole = divides(loops.reduced.back().size) && ctx.alignment(x) >= width * bytes;
    for (size_t d = 0; d + 1 < loops.reduced.size(); ++d) {
      whole = whole && divides(loops.reduced[d].strides[0]);
    }
    for (const LoopDim& dim : loops.kept) whole = whole && divides(dim.strides[0]);
    if (whole) return width;
  }
  return 1;
}

// A thread holds up to kHeld elements, so long rows go in parts; and in more parts than that where
// few rows would leave the device idle.
MomentsPlan plan_moments(const LowerContext& ctx, const TensorRef& x, const RowLoops& loops) {
  constexpr int64_t kHeld = 32;
  constexpr int64_t kLeastHeld = 8;
  MomentsPlan plan;
  plan.width = piece_width(ctx, x, loops);
  plan.rows = plan_rows(loops, plan.width);
  if (plan.rows.by_column) plan.width = 1;
  const int64_t reduced = loop_count(loops.reduced);
  const int64_t groups = std::max<int64_t>(plan.rows.groups(loop_count(loops.kept)), 1);
  const int64_t most = kHeld * plan.rows.lanes;
  plan.parts = std::max<int64_t>((reduced + most - 1) / most, 1);
  if (plan.parts > 1) {
    const int64_t wanted = 4 * int64_t{ctx.target().device.multiprocessors} / groups;
    const int64_t finest =
        (reduced + kLeastHeld * plan.rows.lanes - 1) / (kLeastHeld * plan.rows.lanes);
    plan.parts = std::max(plan.parts, std::min(wanted, finest));
  }
  const int64_t piece = static_cast<int64_t>(plan.rows.lanes) * plan.width;
  const int64_t length = (reduced + plan.parts - 1) / plan.parts;
  plan.part_length = std::max<int64_t>((length + piece - 1) / piece * piece, 1);
  plan.parts = std::max<int64_t>((reduced + plan.part_length - 1) / plan.part_length, 1);
  return plan;
}

struct MomentsStep {
  TensorRef x;
  RowLoops loops;
  MomentsPlan plan;
  int64_t repeats = 1;
  bool centred = true;
  std::string spread;   // of `squares`
  std::string inv_std;  // of `spread`
};

std::string rows_text(const MomentsStep& step) {
  const int64_t reduced = loop_count(step.loops.reduced);
  const std::string real = "rlx_" + std::string(name_of(statistics_type(step.x.dtype())));
  const std::string quotient = "((a) / " + real + "(" + integer_text(reduced) + "))";
  std::string text = define_line(
      "RLX_INDEX", index_type({&step.x}, loop_count(step.loops.kept) *
                                             std::max<int64_t>(reduced, 3 * step.repeats)));
  text += define_line("RLX_REAL", real);
  text +=
      define_line("RLX_OF_ROW(a)", reduced == 0 ? real + "(rlx_from_bits(0x7FC00000u))" : quotient);
  text +=
      define_line("RLX_OF_PART(a, n)", reduced == 0 ? "RLX_OF_ROW(a)" : "((a) / " + real + "(n))");
  text += define_line("RLX_PART_COUNT(i)",
                      "min(RLX_INDEX(RLX_PART_LENGTH), RLX_INDEX(RLX_REDUCED) - (i) * "
                      "RLX_INDEX(RLX_PART_LENGTH))");
  text += define_line("RLX_SPREAD(squares)", step.spread);
  text += define_line("RLX_INV_STD(spread)", step.inv_std);
  text += index_macro("RLX_X_KEPT", step.loops.kept, 0);
  text += index_macro("RLX_X_REDUCED", step.loops.reduced, 0);
  text += index_macro("RLX_Y_KEPT", step.loops.kept, 1);
  return text;
}

enum class MomentsStage : uint8_t { Whole, Parts, Merge };

void dispatch_moments(LowerContext& ctx, const MomentsStep& step, MomentsStage stage,
                      const std::optional<TensorRef>& partial) {
  const bool merges = stage == MomentsStage::Merge;
  const MomentsPlan& plan = step.plan;
  const int64_t rows = loop_count(step.loops.kept);
  const RowPlan threads = merges ? plan_neighbours(plan.parts, 1) : plan.rows;
  const int64_t groups = threads.groups(rows) * (merges ? 1 : plan.parts);
  auto dispatch = ctx.dispatch<KernelId::moments>();
  dispatch.workgroup({threads.threads(), 1, 1})
      .define("RLX_MERGE", merges ? 1 : 0)
      .define("RLX_LANES", threads.lanes)
      .define("RLX_ROWS", threads.rows)
      .define("RLX_BY_COLUMN", threads.by_column ? 1 : 0)
      .define("RLX_ROW_COUNT", integer_text(rows))
      .define("RLX_REDUCED", integer_text(loop_count(step.loops.reduced)))
      .define("RLX_PARTS", integer_text(plan.parts))
      .define("RLX_PART_LENGTH", integer_text(plan.part_length))
      .define("RLX_REPEATS", integer_text(step.repeats))
      .define("RLX_CENTER", step.centred ? 1 : 0)
      .define("RLX_X", std::string(name_of(step.x.dtype())))
      .define("RLX_Y", std::string(name_of(statistics_type(step.x.dtype()))))
      .define("RLX_WIDTH", merges ? 1 : plan.width)
      .define("RLX_ITEMS", merges ? 1 : plan.items())
      .define("RLX_HAS_MEAN", step.centred ? 1 : 0)
      .define("RLX_HAS_VARIANCE", ctx.has_output(3) ? 1 : 0)
      .generated("rows.inc", rows_text(step))
      .grid(split_grid(static_cast<uint64_t>(groups)))
      .reason(to_string(threads) + (merges ? ", merging " : ", ") + std::to_string(plan.parts) +
              " parts");
  if (merges) {
    dispatch.read(&MomentsParams::partial, *partial).work(byte_size(partial->type), 0);
  } else {
    const uint32_t alignment = plan.width > 1 ? plan.width * element_bytes(step.x.dtype()) : 0;
    const auto elements = static_cast<uint64_t>(element_count(step.x.shape()));
    if (elements > 0) dispatch.read(&MomentsParams::x, step.x, alignment);
    dispatch.work(step.x.byte_range().length_bytes, elements * 5);
  }
  if (stage == MomentsStage::Parts) {
    dispatch.write(&MomentsParams::partial, *partial);
    return;
  }
  if (step.centred) {
    dispatch.write(&MomentsParams::center, ctx.output(0))
        .write(&MomentsParams::rest, ctx.output(1));
  }
  dispatch.write(&MomentsParams::inv_std, ctx.output(step.centred ? 2 : 0));
  if (ctx.has_output(3)) dispatch.write(&MomentsParams::variance, ctx.output(3));
}

bool emit_moments(LowerContext& ctx, const Sets& sets, MomentsStep step) {
  for (size_t i = 0; i < ctx.node().outputs.size(); ++i) ctx.output(i);
  if (element_count(ctx.output_type(0).shape) == 0) return true;
  const std::optional<Strides> strides =
      reshape_strides(step.x.shape(), step.x.strides, sets.shape);
  RLX_CHECK(strides.has_value(), "splitting the channels of " + ctx.node().name);
  Strides written = strides_without(sets.shape, sets.axes);
  for (int64_t& stride : written) stride *= sets.repeats;
  const RowLoops loops = split_rows(sets.shape, *strides, written, sets.axes);
  step.loops = {.kept = by_stride(loops.kept), .reduced = by_stride(loops.reduced)};
  step.repeats = sets.repeats;
  step.plan = plan_moments(ctx, step.x, step.loops);
  if (step.plan.parts == 1) {
    dispatch_moments(ctx, step, MomentsStage::Whole, std::nullopt);
    return true;
  }
  const DType real = statistics_type(step.x.dtype());
  const TensorRef partial = ctx.scratch(
      {.dtype = real, .shape = {loop_count(step.loops.kept), step.plan.parts, 3}}, "partial");
  dispatch_moments(ctx, step, MomentsStage::Parts, partial);
  dispatch_moments(ctx, step, MomentsStage::Merge, partial);
  return true;
}

std::string eps_text(const LowerContext& ctx, DType dtype) {
  return literal(statistics_type(dtype), ctx.attrs().real("eps"));
}

bool lower_moments(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const std::optional<Sets> sets = sets_of(ctx, x.shape());
  if (!sets) return false;
  return emit_moments(
      ctx, *sets,
      {.x = x,
       .loops = {},
       .plan = {},
       .centred = true,
       .spread = "RLX_OF_ROW(squares)",
       .inv_std = "(RLX_REAL(1) / rlx_sqrt((spread) + " + eps_text(ctx, x.dtype()) + "))"});
}

bool lower_inverse_norm(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const std::optional<Sets> sets = sets_of(ctx, x.shape());
  if (!sets) return false;
  const std::string eps = eps_text(ctx, x.dtype());
  const std::string divisor = ctx.attrs().text("mode") == "add"
                                  ? "rlx_sqrt((spread) + " + eps + ")"
                                  : "rlx_max(rlx_sqrt(spread), " + eps + ")";
  return emit_moments(ctx, *sets,
                      {.x = x,
                       .loops = {},
                       .plan = {},
                       .centred = false,
                       .spread = "(squares)",
                       .inv_std = "(RLX_REAL(1) / " + divisor + ")"});
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

constexpr std::string_view kModes[] = {"max", "add"};
constexpr AttrSpec kMomentsAttrs[] = {
    {.name = "axes", .type = AttrType::IntList, .default_text = "[]"},
    {.name = "groups", .type = AttrType::Int, .default_text = "0", .minimum = 0},
    {.name = "eps", .type = AttrType::Float, .default_text = "1e-5", .minimum = 0},
};
constexpr AttrSpec kInverseNormAttrs[] = {
    {.name = "axes", .type = AttrType::IntList, .default_text = "[]"},
    {.name = "eps", .type = AttrType::Float, .default_text = "1e-12", .minimum = 0},
    {.name = "mode", .type = AttrType::String, .default_text = "\"max\"", .choices = kModes},
};

constexpr OpDef kOps[] = {
    {.name = "moments",
     .signature = "moments(x; axes=[], groups=0, eps=1e-5) -> center, rest, inv_std, [variance]",
     .inputs = {1, 1},
     .outputs = {3, 4},
     .attrs = kMomentsAttrs,
     .infer = infer_statistics,
     .evaluate = evaluate_moments,
     .lower = lower_moments},
    {.name = "inverse_norm",
     .signature = "inverse_norm(x; axes=[], eps=1e-12, mode=\"max\") -> factor",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kInverseNormAttrs,
     .infer = infer_statistics,
     .evaluate = evaluate_inverse_norm,
     .lower = lower_inverse_norm},
    {.name = "standardise",
     .signature = "standardise(x, center, rest, inv_std, [gamma], [beta]) -> y",
     .inputs = {4, 6},
     .outputs = {1, 1},
     .attrs = {},
     .infer = infer_applied,
     .evaluate = evaluate_applied,
     .lower = lower_elementwise,
     .scalar = scalar_standardise},
    {.name = "scaled",
     .signature = "scaled(x, factor) -> y",
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attrs = {},
     .infer = infer_applied,
     .evaluate = evaluate_applied,
     .lower = lower_elementwise,
     .scalar = scalar_scaled},
};

}  // namespace

std::span<const OpDef> moments_ops() {
  return kOps;
}

}  // namespace rlx
