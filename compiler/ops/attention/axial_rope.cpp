// SPDX-License-Identifier: Apache-2.0
// axial_rope2d (ops.md 5.3): rotary embedding over a grid, half of each head by x, half by y. It is
// rope in GPT-J pairs with one row of angles per token.
#include <array>
#include <cmath>

#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

struct AxialProblem {
  int64_t end_x = 1;
  int64_t grid = 1;  // positions of the grid
  int64_t head_dim = 4;
  int64_t heads = 1;
  int64_t repeat = 1;
  int64_t excluded = 0;  // tokens at the end that are copied
  double theta = 10000;
  bool tiled = true;  // the grid restarts, instead of each position standing `repeat` times

  [[nodiscard]] int64_t rotated() const { return grid * repeat; }  // tokens
  // The angle of pair i of a head at token t.
  [[nodiscard]] double angle(int64_t token, int64_t pair) const {
    const int64_t position = tiled ? token % grid : token / repeat;
    const int64_t quarter = head_dim / 4;
    const int64_t along = pair < quarter ? position % end_x : position / end_x;
    const auto exponent = static_cast<double>(-4 * (pair % quarter));
    return static_cast<double>(along) * std::pow(theta, exponent / static_cast<double>(head_dim));
  }
};

AxialProblem problem_of(const NodeContext& ctx) {
  const AttributeReader& attrs = ctx.attrs();
  return {.end_x = attrs.integer("end_x"),
          .grid = attrs.integer("end_x") * attrs.integer("end_y"),
          .head_dim = attrs.integer("head_dim"),
          .heads = attrs.integer("num_heads"),
          .repeat = attrs.integer("repeat_factor"),
          .excluded = attrs.integer("n_exclude"),
          .theta = attrs.real("theta"),
          .tiled = attrs.text("repeat_mode") == "tile"};
}

bool infer_axial_rope(InferContext& ctx) {
  const AxialProblem problem = problem_of(ctx);
  const TensorType& x = ctx.input(0);
  if (!is_float(x.dtype) || x.dtype == DType::f64) {
    return ctx.fail(DiagCode::BadDtype, "x is " + to_string(x) + ", wanted f32, f16 or bf16");
  }
  if (problem.head_dim % 4 != 0) {
    return ctx.fail(DiagCode::BadAttribute,
                    "head_dim is " + std::to_string(problem.head_dim) + ", wanted a multiple of 4");
  }
  if (problem.theta <= 0) {
    return ctx.fail(DiagCode::BadAttribute, "theta is not above 0");
  }
  const int64_t tokens = problem.rotated() + problem.excluded;
  const int64_t columns = problem.heads * problem.head_dim;
  if (x.shape.size() != 3 || x.shape[1] != tokens || x.shape[2] != columns) {
    return ctx.fail(DiagCode::BadShape, "x is " + to_string(x) +
                                            ", wanted [batch, end_x * end_y * repeat_factor + "
                                            "n_exclude, num_heads * head_dim] = [batch, " +
                                            std::to_string(tokens) + ", " +
                                            std::to_string(columns) + "]");
  }
  ctx.set_output(0, x);
  return true;
}

bool evaluate_axial_rope(EvaluateContext& ctx) {
  const AxialProblem problem = problem_of(ctx);
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  y.floats = x.floats;
  y.magnitudes.assign(y.floats.size(), 0);
  y.terms = 2;
  const int64_t tokens = x.type.shape[1];
  for (int64_t row = 0; row < x.type.shape[0] * tokens; ++row) {
    const int64_t token = row % tokens;
    if (token >= problem.rotated()) continue;
    for (int64_t pair = 0; pair < problem.heads * problem.head_dim / 2; ++pair) {
      const double angle = problem.angle(token, pair % (problem.head_dim / 2));
      const double c = std::cos(angle);
      const double s = std::sin(angle);
      const auto a = static_cast<size_t>(row * problem.heads * problem.head_dim + 2 * pair);
      y.floats[a] = x.floats[a] * c - x.floats[a + 1] * s;
      y.floats[a + 1] = x.floats[a + 1] * c + x.floats[a] * s;
      y.magnitudes[a] = std::abs(x.floats[a] * c) + std::abs(x.floats[a + 1] * s);
      y.magnitudes[a + 1] = std::abs(x.floats[a + 1] * c) + std::abs(x.floats[a] * s);
    }
  }
  return true;
}

bool decompose_axial_rope(RewriteContext& ctx) {
  const AxialProblem problem = problem_of(ctx);
  const int64_t pairs = problem.head_dim / 2;
  Tensor cos = Tensor::zeros({DType::f32, {problem.rotated(), pairs}});
  Tensor sin = cos;
  for (int64_t i = 0; i < cos.count(); ++i) {
    const double angle = problem.angle(i / pairs, i % pairs);
    cos.floats[static_cast<size_t>(i)] = std::cos(angle);
    sin.floats[static_cast<size_t>(i)] = std::sin(angle);
  }
  const auto tokens = [&](int64_t start, int64_t count) {
    return ctx.emit("narrow", {ctx.input(0)},
                    {{"axis", int64_t{1}}, {"start", start}, {"len", count}});
  };
  const bool split = problem.excluded > 0;
  const ValueId x = split ? tokens(0, problem.rotated()) : ctx.input(0);
  ValueId y = ctx.emit("rope", {x, ctx.constant("cos", cos), ctx.constant("sin", sin)},
                       {{"head_dim", problem.head_dim}, {"style", "gptj"}, {"layout", "bsd"}});
  if (split) {
    y = ctx.emit("concat", {y, tokens(problem.rotated(), problem.excluded)},
                 {{"axis", int64_t{1}}});
  }
  ctx.replace_output(0, y);
  return true;
}

constexpr std::string_view kAxialRopeModes[] = {"tile", "interleave"};
constexpr std::array kAxialRopeAttrs = {
    AttrSpec{.name = "end_x", .type = AttrType::Int, .required = true, .minimum = 1},
    AttrSpec{.name = "end_y", .type = AttrType::Int, .required = true, .minimum = 1},
    AttrSpec{.name = "head_dim", .type = AttrType::Int, .required = true, .minimum = 1},
    AttrSpec{.name = "num_heads", .type = AttrType::Int, .required = true, .minimum = 1},
    AttrSpec{.name = "theta", .type = AttrType::Float, .default_text = "10000"},
    AttrSpec{.name = "repeat_factor", .type = AttrType::Int, .default_text = "1", .minimum = 1},
    AttrSpec{.name = "repeat_mode",
             .type = AttrType::String,
             .default_text = "\"tile\"",
             .choices = kAxialRopeModes},
    AttrSpec{.name = "n_exclude", .type = AttrType::Int, .default_text = "0", .minimum = 0},
};
constexpr std::array kAxialRopeOps = {
    OpDef{.name = "axial_rope2d",
          .signature = "axial_rope2d(x; end_x, end_y, head_dim, num_heads, theta=10000, "
                       "repeat_factor=1, repeat_mode=\"tile\", n_exclude=0) -> y",
          .attrs = kAxialRopeAttrs,
          .infer = infer_axial_rope,
          .evaluate = evaluate_axial_rope,
          .decompose = decompose_axial_rope},
};

}  // namespace

std::span<const OpDef> axial_rope_ops() {
  return kAxialRopeOps;
}

}  // namespace rlx
