// SPDX-License-Identifier: Apache-2.0
// layer_norm and rms_norm (ops.md 4).
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/elementwise_region.h"
#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/rows/moments_lower.h"
#include "compiler/ops/rows/norm_lower.h"
#include "compiler/ops/rows/row_tables.h"

namespace rlx {

namespace {

bool is_layer_norm(const NodeContext& ctx) {
  return ctx.node().op == "layer_norm";
}

// x's type, or out_dtype; nullopt after a diagnostic.
std::optional<DType> result_dtype(InferContext& ctx) {
  const DType x = ctx.dtype(0);
  if (!ctx.attrs().has("out_dtype")) return x;
  const DType wanted = ctx.attrs().dtype("out_dtype");
  if (wanted == x || (is_short_float(x) && is_short_float(wanted))) return wanted;
  ctx.fail(DiagCode::BadAttribute,
           "out_dtype is " + std::string(name_of(wanted)) + " beside x of " +
               std::string(name_of(x)) + ", wanted " +
               (is_short_float(x) ? "f32, f16 or bf16" : std::string(name_of(x))));
  return std::nullopt;
}

bool infer_norm(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "x")) return false;
  const Shape& shape = ctx.shape(0);
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), shape.size());
  if (!axis) return false;
  if (ctx.has_input(1) && !check_broadcasts(ctx, 1, "gamma", shape)) return false;
  if (ctx.has_input(2) && !check_broadcasts(ctx, 2, "beta", shape)) return false;
  const std::optional<DType> dtype = result_dtype(ctx);
  if (!dtype) return false;
  ctx.set_output(0, {.dtype = *dtype, .shape = shape});
  Shape statistics = shape;
  std::fill(statistics.begin() + *axis, statistics.end(), 1);
  for (size_t i = 1; i < ctx.node().outputs.size(); ++i) {
    ctx.set_output(i, {.dtype = DType::f32, .shape = statistics});
  }
  return true;
}

// gamma or beta by element of x; `absent` where there is none.
std::vector<double> per_element(const EvaluateContext& ctx, size_t input, double absent) {
  const Shape& shape = ctx.input(0).type.shape;
  std::vector<double> values(static_cast<size_t>(element_count(shape)), absent);
  if (!ctx.has_input(input)) return values;
  const Tensor& given = ctx.input(input);
  const Strides strides =
      broadcast_strides(given.type.shape, dense_strides(given.type.shape), shape);
  const Strides dense = dense_strides(shape);
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < shape.size(); ++d) {
      offset += static_cast<int64_t>(i) / dense[d] % shape[d] * strides[d];
    }
    values[i] = given.floats[static_cast<size_t>(offset)];
  }
  return values;
}

bool evaluate_norm(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Shape& shape = x.type.shape;
  const bool centred = is_layer_norm(ctx);
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), shape.size());
  if (!axis) return false;
  const double eps = ctx.attrs().real("eps");
  const double gamma_offset = ctx.attrs().real("gamma_offset");
  const std::vector<double> gamma = per_element(ctx, 1, 1.0);
  const std::vector<double> beta = per_element(ctx, 2, 0.0);
  const size_t cols = static_cast<size_t>(element_count(Shape(shape.begin() + *axis, shape.end())));
  const size_t rows =
      static_cast<size_t>(element_count(Shape(shape.begin(), shape.begin() + *axis)));
  for (size_t row = 0; row < rows; ++row) {
    const auto begin = x.floats.begin() + static_cast<std::ptrdiff_t>(row * cols);
    double mean = 0;
    for (size_t i = 0; i < cols && centred; ++i) mean += begin[static_cast<std::ptrdiff_t>(i)];
    mean /= static_cast<double>(cols);
    if (!centred) mean = 0;
    double squares = 0;
    for (size_t i = 0; i < cols; ++i) {
      const double centred_value = begin[static_cast<std::ptrdiff_t>(i)] - mean;
      squares += centred_value * centred_value;
    }
    const double inv_std = 1 / std::sqrt(squares / static_cast<double>(cols) + eps);
    for (size_t i = 0; i < cols; ++i) {
      ctx.output(0).floats[row * cols + i] = (begin[static_cast<std::ptrdiff_t>(i)] - mean) *
                                                 inv_std * (gamma[row * cols + i] + gamma_offset) +
                                             beta[row * cols + i];
    }
    if (centred && ctx.output_count() > 1) ctx.output(1).floats[row] = mean;
    const size_t inv_std_output = centred ? 2 : 1;
    if (ctx.output_count() > inv_std_output) ctx.output(inv_std_output).floats[row] = inv_std;
  }
  return true;
}

// Where gamma or beta lie: strides over x's dims from `first` on.
LoopDims affine_dims(const std::optional<TensorRef>& affine, const Shape& x, size_t first,
                     size_t end) {
  LoopDims dims;
  if (!affine) return dims;
  const Strides strides = broadcast_strides(affine->shape(), affine->strides, x);
  for (size_t d = first; d < end; ++d) dims.push_back({.size = x[d], .strides = {strides[d], 0}});
  return dims;
}

// "#define NAME_KEPT(row) ...", "#define NAME_AT(i) ...": offsets of a row's gamma or beta, and in
// it by position.
std::string affine_macros(const std::string& name, const std::optional<TensorRef>& affine,
                          const Shape& x, size_t axis) {
  return index_macro(name + "_KEPT", merged(affine_dims(affine, x, 0, axis)), 0) +
         index_macro(name + "_AT", merged(affine_dims(affine, x, axis, x.size())), 0);
}

// What the table of forms is asked of.
struct NormOperands {
  TensorRef x;
  TensorRef y;
  std::optional<TensorRef> gamma;
  std::optional<TensorRef> beta;
  RowLoops loops;
  Ints axes;
  Shape normalised;
  bool centred = false;  // a layer_norm
  double eps = 0;
  double gamma_offset = 0;
  std::optional<TensorRef> mean;  // that are wanted
  std::optional<TensorRef> inv_std;

  [[nodiscard]] bool gives_statistics() const { return mean || inv_std; }
};

std::string rows_text(const NormOperands& operands) {
  const DType real = operands.x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Dim cols = element_count(operands.normalised);
  const std::string type = "rlx_" + std::string(name_of(real));
  std::vector<const TensorRef*> views = {&operands.x, &operands.y};
  if (operands.gamma) views.push_back(&*operands.gamma);
  if (operands.beta) views.push_back(&*operands.beta);
  std::string text =
      define_line("RLX_INDEX", index_type(views, element_count(operands.x.shape()).range().most));
  text += define_line("RLX_REAL", type);
  text += define_line("RLX_MEAN(a)", cols == 0
                                         ? type + "(rlx_from_bits(0x7FC00000u))"
                                         : "rlx_div(a, " + type + "(" + integer_text(cols) + "))");
  text += define_line("RLX_EPS", literal(real, operands.eps));
  text += define_line("RLX_GAMMA_OFFSET", literal(real, operands.gamma_offset));
  text += index_macro("RLX_X_KEPT", operands.loops.kept, 0);
  text += index_macro("RLX_Y_KEPT", operands.loops.kept, 1);
  const Shape& x = operands.x.shape();
  const auto axis = static_cast<size_t>(operands.axes.front());
  text += affine_macros("RLX_GAMMA", operands.gamma, x, axis);
  text += affine_macros("RLX_BETA", operands.beta, x, axis);
  return text;
}

std::string dtype_or(const std::optional<TensorRef>& ref, const TensorRef& fallback) {
  return std::string(name_of(ref ? ref->dtype() : fallback.dtype()));
}

// Elements of x and y that a thread moves at a time.
uint32_t piece_width(const OfferContext& at, const NormOperands& operands) {
  const auto both = [&](uint32_t width) {
    return std::min(vector_width(at, operands.x, operands.loops, 0, width),
                    vector_width(at, operands.y, operands.loops, 1, width));
  };
  const bool half = is_half(operands.x.dtype()) && is_half(operands.y.dtype());
  return std::max(half ? both(8) : 1, both(4));
}

// 4 where pieces of gamma or beta can be read as a whole: contiguous and aligned in every row;
// else 1.
int64_t affine_vector(const LowerContext& ctx, const std::optional<TensorRef>& affine,
                      const NormOperands& operands, uint32_t width) {
  if (!affine || width == 1) return 1;
  const Shape& x = operands.x.shape();
  const auto axis = operands.axes.front();
  const Strides strides = broadcast_strides(affine->shape(), affine->strides, x);
  const uint32_t bytes = std::min<uint32_t>(16, width * element_bytes(affine->dtype()));
  const bool contiguous =
      is_dense(operands.normalised, Strides(strides.begin() + axis, strides.end())) &&
      std::all_of(strides.begin(), strides.begin() + axis, [&](const auto& stride) {
        return stride * element_bytes(affine->dtype()) % bytes == 0;
      });
  const bool known = is_float(affine->dtype()) && affine->dtype() != DType::f64;
  return contiguous && known && ctx.alignment(*affine) >= bytes ? 4 : 1;
}

bool is_weight(const LowerContext& ctx, const std::optional<TensorRef>& affine) {
  return !affine || ctx.segment_of(*affine) == Segment::Weights;
}

RowPlan plan_of(const OfferContext& at, const NormOperands& operands, uint32_t width) {
  return plan_in_registers(at, loop_count(operands.loops.kept), loop_count(operands.loops.reduced),
                           width);
}

// How many pieces of a row its threads hold; 0: they read it again.
int64_t held_pieces(const OfferContext& at, const NormOperands& operands, uint32_t width) {
  return items_per_lane(plan_of(at, operands, width), loop_count(operands.loops.reduced), width);
}

bool emit_norm(LowerContext& ctx, const NormOperands& operands, int64_t items) {
  const TensorRef& x = operands.x;
  const TensorRef& y = operands.y;
  const uint32_t width = piece_width(ctx, operands);
  const Dim rows = loop_count(operands.loops.kept);
  const Dim cols = loop_count(operands.loops.reduced);
  const RowPlan plan = plan_of(ctx, operands, width);
  const int64_t gamma_vector = affine_vector(ctx, operands.gamma, operands, width);
  const int64_t beta_vector = affine_vector(ctx, operands.beta, operands, width);
  const bool early = is_weight(ctx, operands.gamma) && is_weight(ctx, operands.beta);
  const bool late = items > 0 && plan.groups(rows) > busy_groups(ctx);
  const Grid grid = split_grid(plan.groups(rows));
  const auto alignment = [width](const TensorRef& ref) {
    return width > 1 ? width * element_bytes(ref.dtype()) : 0;
  };
  auto dispatch = ctx.dispatch<KernelId::norm>();
  dispatch.workgroup({plan.threads(), 1, 1})
      .define("RLX_LANES", plan.lanes)
      .define("RLX_ROWS", plan.rows)
      .define("RLX_BY_COLUMN", 0)
      .define("RLX_ROW_COUNT", integer_text(rows))
      .define("RLX_COLS", integer_text(cols))
      .define("RLX_CENTER", operands.centred ? 1 : 0)
      .define("RLX_X", std::string(name_of(x.dtype())))
      .define("RLX_Y", std::string(name_of(y.dtype())))
      .define("RLX_GAMMA", dtype_or(operands.gamma, x))
      .define("RLX_BETA", dtype_or(operands.beta, x))
      .define("RLX_HAS_GAMMA", operands.gamma ? 1 : 0)
      .define("RLX_HAS_BETA", operands.beta ? 1 : 0)
      .define("RLX_HAS_MEAN", operands.mean ? 1 : 0)
      .define("RLX_HAS_INV_STD", operands.inv_std ? 1 : 0)
      .define("RLX_WIDTH", width)
      .define("RLX_ITEMS", items)
      .define("RLX_GAMMA_VECTOR", gamma_vector)
      .define("RLX_BETA_VECTOR", beta_vector)
      .define("RLX_AFFINE_EARLY", early && !late ? 1 : 0)
      .define("RLX_AFFINE_LATE", late ? 1 : 0)
      .generated("rows.inc", rows_text(operands))
      .grid(grid.x, grid.y, grid.z)
      .work(x.byte_range().length_bytes + y.byte_range().length_bytes, rows * cols * 8)
      .reason(to_string(plan) + (items > 0 ? ", row in registers" : ", row read again"));
  if (cols > 0) {
    dispatch.read(&NormParams::x, x, alignment(x));
    const auto bytes = [width](const TensorRef& affine, int64_t vector) {
      return vector == 1 ? 0 : std::min<uint32_t>(16, width * element_bytes(affine.dtype()));
    };
    if (operands.gamma) {
      dispatch.read(&NormParams::gamma, *operands.gamma, bytes(*operands.gamma, gamma_vector));
    }
    if (operands.beta) {
      dispatch.read(&NormParams::beta, *operands.beta, bytes(*operands.beta, beta_vector));
    }
    dispatch.write(&NormParams::y, y, alignment(y));
  }
  if (operands.mean) dispatch.write(&NormParams::mean, *operands.mean);
  if (operands.inv_std) dispatch.write(&NormParams::inv_std, *operands.inv_std);
  // Another row's gamma or beta may lie where this one's result would go.
  const bool is_alone = !(operands.gamma && operands.gamma->buffer == x.buffer) &&
                        !(operands.beta && operands.beta->buffer == x.buffer);
  const bool is_alike = x.strides == y.strides && x.dtype() == y.dtype();
  if (!operands.gives_statistics() && is_alike && is_alone) dispatch.allow_in_place(x);
  return true;
}

// The statistics by the moments kernel, the rest as one region.
bool emit_in_parts(LowerContext& ctx, const NormOperands& operands) {
  const bool centred = operands.centred;
  const TensorRef& x = operands.x;
  const DType real = statistics_type(x.dtype());
  TensorType type{.dtype = real, .shape = x.shape()};
  for (const int64_t axis : operands.axes) type.shape[static_cast<size_t>(axis)] = 1;
  const auto place = [&](const std::optional<TensorRef>& wanted, const char* name) {
    return wanted ? *wanted : ctx.scratch(type, name);
  };
  const double eps = operands.eps;
  MomentsResults results{.inv_std = place(operands.inv_std, "inv_std")};
  if (centred) {
    results.center = place(operands.mean, "mean");
    results.rest = ctx.scratch(type, "rest");
  }
  const MomentsProblem moments = centred ? variance_problem(x, x.shape(), operands.axes, eps)
                                         : mean_square_problem(x, x.shape(), operands.axes, eps);
  if (!emit_moments(ctx, moments, results)) return false;
  Region region{.output = operands.y,
                .output_storage = element_storage(operands.y.dtype()),
                .operands = {},
                .element_text = {},
                .operations = 6,
                .subject = "norm of rows in parts"};
  const auto operand = [&region, real](const TensorRef& view) {
    region.operands.push_back({.view = view, .storage = element_storage(view.dtype())});
    return std::string(compute_type(real)) + "(x" + std::to_string(region.operands.size()) + ")";
  };
  const auto minus = [real](const std::string& a, const std::string& b) {
    return real == DType::f64 ? "(" + a + " - " + b + ")" : "rlx_add_rn(" + a + ", -" + b + ")";
  };
  std::string text = operand(x);
  if (centred) text = minus(minus(text, operand(*results.center)), operand(*results.rest));
  text += " * " + operand(results.inv_std);
  const double offset = operands.gamma_offset;
  if (operands.gamma) {
    text += " * (" + operand(*operands.gamma) + " + " + literal(real, offset) + ")";
  } else if (offset != 0) {
    text += " * " + literal(real, 1 + offset);
  }
  if (operands.beta) text += " + " + operand(*operands.beta);
  region.element_text = "return " + text + ";\n";
  region.words = ctx.word_use();
  emit_region(ctx.program(), ctx.new_step(), region);
  return true;
}

// ---- the choice ----

std::string parts_refusal(const OfferContext& at, const NormOperands& operands) {
  if (operands.x.dtype() == DType::f64 && operands.gives_statistics())
    return "f64 whose statistics are wanted, which are f32";
  if (has_free_sizes(operands.loops)) return "rows that a run may make too few or too short";
  if (held_pieces(at, operands, 1) > 0) return "rows that fit registers";
  const RowPlan plan = plan_of(at, operands, 1);
  const int64_t enough = 2 * int64_t{at.device().multiprocessors};
  return plan.groups(loop_count(operands.loops.kept)) < enough ? "" : "enough rows";
}

// Of so many readings of x, in so many steps.
double norm_bound(const OfferContext& at, const NormOperands& operands, uint32_t readings,
                  uint32_t steps) {
  const auto elements = static_cast<uint64_t>(element_count(operands.x.shape()).bound());
  const auto bytes = static_cast<uint64_t>(
      (readings * operands.x.byte_range().length_bytes + operands.y.byte_range().length_bytes)
          .bound());
  return thread_bound_microseconds(at.device(), {.bytes = bytes, .flops = 8 * elements}) +
         (steps - 1) * at.device().step_microseconds;
}

constexpr std::array kNormOffers = {
    // Several groups to a row, where one for each would leave the device idle.
    Offer<NormOperands>{
        .kernel = {},
        .form = "norm in parts",
        .rank = 0,
        .estimate = Estimate::Bound,
        .refusal = parts_refusal,
        .microseconds = [](const OfferContext& at,
                           const NormOperands& operands) { return norm_bound(at, operands, 2, 3); },
        .emit = emit_in_parts},
    Offer<NormOperands>{
        .kernel = KernelId::norm,
        .form = "in registers",
        .rank = 1,
        .estimate = Estimate::Bound,
        .refusal =
            [](const OfferContext& at, const NormOperands& operands) {
              const uint32_t width = piece_width(at, operands);
              return std::string(
                  held_pieces(at, operands, width) > 0 ? "" : "rows too long for registers");
            },
        .microseconds = [](const OfferContext& at,
                           const NormOperands& operands) { return norm_bound(at, operands, 1, 1); },
        .emit =
            [](LowerContext& ctx, const NormOperands& operands) {
              const uint32_t width = piece_width(ctx, operands);
              return emit_norm(ctx, operands, held_pieces(ctx, operands, width));
            }},
    // Takes everything.
    Offer<NormOperands>{
        .kernel = KernelId::norm,
        .form = "read again",
        .rank = 2,
        .estimate = Estimate::Bound,
        .refusal = [](const OfferContext&, const NormOperands&) { return std::string(); },
        .microseconds = [](const OfferContext& at,
                           const NormOperands& operands) { return norm_bound(at, operands, 2, 1); },
        .emit = [](LowerContext& ctx,
                   const NormOperands& operands) { return emit_norm(ctx, operands, 0); }},
};

bool lower_norm(LowerContext& ctx) {
  TensorRef x = ctx.input(0);
  const Shape& shape = ctx.input_type(0).shape;
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), shape.size());
  if (!axis) return false;
  const TensorRef y = ctx.output(0);
  const Ints axes = axes_from(static_cast<size_t>(*axis), shape.size());
  const Shape normalised(shape.begin() + *axis, shape.end());
  const Dim rows = element_count(Shape(shape.begin(), shape.begin() + *axis));
  if (rows == 0 || (element_count(shape) == 0 && ctx.node().outputs.size() == 1)) {
    for (size_t i = 1; i < ctx.node().outputs.size(); ++i) ctx.output(i);
    return true;
  }
  RowLoops loops = split_rows(shape, x.strides, y.strides, axes);
  if (!is_contiguous(loops.reduced)) {
    x = ctx.dense_input(0);
    loops = split_rows(shape, x.strides, y.strides, axes);
  }
  NormOperands operands{.x = x,
                        .y = y,
                        .gamma = std::nullopt,
                        .beta = std::nullopt,
                        .loops = loops,
                        .axes = axes,
                        .normalised = normalised,
                        .centred = is_layer_norm(ctx),
                        .eps = ctx.attrs().real("eps"),
                        .gamma_offset = ctx.attrs().real("gamma_offset"),
                        .mean = std::nullopt,
                        .inv_std = std::nullopt};
  const size_t inv_std_output = operands.centred ? 2 : 1;
  if (operands.centred && ctx.has_output(1)) operands.mean = ctx.output(1);
  if (ctx.has_output(inv_std_output)) operands.inv_std = ctx.output(inv_std_output);
  if (ctx.has_input(1)) operands.gamma = ctx.input(1);
  if (ctx.has_input(2)) operands.beta = ctx.input(2);
  return lower_by_offers(ctx, std::span<const Offer<NormOperands>>(kNormOffers), operands);
}

constexpr uint32_t kNormOptional[] = {1, 2};

constexpr AttrSpec kNormAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .default_text = "-1"},
    {.name = "eps", .type = AttrType::Float, .default_text = "1e-5", .minimum = 0},
    {.name = "gamma_offset", .type = AttrType::Float, .default_text = "0"},
    {.name = "out_dtype", .type = AttrType::DTypeName, .consumed_by_infer = true},
};

// gamma is one vector for all rows, without what layer_norm_backward does not know.
bool has_plain_gamma(GradientContext& ctx) {
  if (is_layer_norm(ctx) && ctx.attrs().real("gamma_offset") != 0) return false;
  if (!ctx.has_input(1)) return true;
  const Shape& x = ctx.shape(ctx.input(0));
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), x.size());
  if (!axis) return false;
  const Shape normalised(x.begin() + *axis, x.end());
  return broadcast_shapes(ctx.shape(ctx.input(1)), normalised) == normalised;
}

// The gradient of y in x's type.
ValueId gradient_of_norm(GradientContext& ctx) {
  const DType x = ctx.dtype(ctx.input(0));
  const ValueId dy = ctx.gradient();
  return ctx.dtype(dy) == x ? dy : ctx.emit("cast", {dy}, {{"to", std::string(name_of(x))}});
}

// y = n * (gamma + gamma_offset) + beta as three ops, of which n is a norm without weights.
void give_in_parts(GradientContext& ctx) {
  Attributes plain = ctx.attributes({{"gamma_offset", 0.0}});
  plain.erase("out_dtype");
  const double offset = ctx.attrs().real("gamma_offset");
  const ValueId dy = gradient_of_norm(ctx);
  ValueId dn = dy;
  if (ctx.has_input(1)) {
    dn = ctx.emit("mul", {dy, ctx.affine(ctx.input(1), 1, offset)});
    if (ctx.wants(1))
      ctx.give(1, ctx.emit("mul", {dy, ctx.emit(ctx.node().op, {ctx.input(0)}, plain)}));
  } else {
    dn = ctx.affine(dy, 1 + offset);
  }
  Attributes of_backward = plain;
  if (is_layer_norm(ctx)) of_backward.erase("gamma_offset");
  ctx.give(0, ctx.emit_all(ctx.node().op + "_backward", {ctx.input(0), std::nullopt, dn},
                           of_backward, 3)[0]);
  ctx.give(2, dy);
}

bool norm_gradient(GradientContext& ctx) {
  for (size_t i = 1; i < ctx.node().outputs.size(); ++i) {
    if (!ctx.has_gradient(i)) continue;
    return ctx.fail(DiagCode::UnknownOp, "its statistics have no gradient",
                    "compute them by reduce_mean and variance");
  }
  if (!has_plain_gamma(ctx)) {
    give_in_parts(ctx);
    return true;
  }
  Attributes attributes = ctx.attributes();
  attributes.erase("out_dtype");
  if (is_layer_norm(ctx)) attributes.erase("gamma_offset");
  const ValueId dy = gradient_of_norm(ctx);
  const std::vector<ValueId> gradients = ctx.emit_all(
      ctx.node().op + "_backward",
      {ctx.input(0), ctx.has_input(1) ? std::optional(ctx.input(1)) : std::nullopt, dy}, attributes,
      3);
  ctx.give(0, gradients[0]);
  ctx.give(1, gradients[1]);
  ctx.give(2, dy);
  return true;
}

constexpr OpDef kNormOps[] = {
    {.name = "layer_norm",
     .signature = "layer_norm(x, [gamma], [beta]; axis=-1, eps=1e-5, gamma_offset=0, out_dtype) -> "
                  "y, [mean], [inv_std]",
     .inputs = {1, 3},
     .outputs = {1, 3},
     .attrs = kNormAttrs,
     .infer = infer_norm,
     .evaluate = evaluate_norm,
     .gradient = norm_gradient,
     .lower = lower_norm,
     .optional_inputs = kNormOptional},
    {.name = "rms_norm",
     .signature =
         "rms_norm(x, [gamma], [beta]; axis=-1, eps=1e-5, gamma_offset=0, out_dtype) -> y, "
         "[inv_rms]",
     .inputs = {1, 3},
     .outputs = {1, 2},
     .attrs = kNormAttrs,
     .infer = infer_norm,
     .evaluate = evaluate_norm,
     .gradient = norm_gradient,
     .lower = lower_norm,
     .optional_inputs = kNormOptional},
};

}  // namespace

bool emit_rms_norm(LowerContext& ctx, const RmsNorm& norm) {
  const Shape& shape = norm.x.shape();
  const Ints axes = axes_from(shape.size() - 1, shape.size());
  const NormOperands operands{.x = norm.x,
                              .y = norm.y,
                              .gamma = norm.gamma,
                              .beta = std::nullopt,
                              .loops = split_rows(shape, norm.x.strides, norm.y.strides, axes),
                              .axes = axes,
                              .normalised = {shape.back()},
                              .eps = norm.eps,
                              .gamma_offset = norm.gamma_offset,
                              .mean = std::nullopt,
                              .inv_std = std::nullopt};
  return lower_by_offers(ctx, std::span<const Offer<NormOperands>>(kNormOffers), operands);
}

std::vector<std::string> norm_offer_names() {
  return offer_names(std::span<const Offer<NormOperands>>(kNormOffers));
}

std::span<const OpDef> norm_ops() {
  return kNormOps;
}

}  // namespace rlx
