// SPDX-License-Identifier: Apache-2.0
// rope: rotary position embedding (ops.md 5.2).
#include <algorithm>
#include <cmath>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/rows.h"
#include "schema/rounding.h"

namespace rlx {

namespace {

enum RopeInput : uint32_t { kX, kCos, kSin, kPositions };

// x as [B,S,H,D], whatever its layout.
struct RopeSizes {
  Dim batch = 1;
  Dim tokens = 1;
  Dim heads = 1;
  int64_t head_dim = 1;
  int64_t n_rot = 0;
};

struct RopeStrides {
  Dim batch = 0;
  Dim token = 0;
  Dim head = 0;
  Dim dim = 0;
};

std::optional<RopeSizes> rope_sizes(NodeContext& ctx, const TensorType& x) {
  const AttributeReader& attrs = ctx.attrs();
  const std::string layout = attrs.text("layout");
  const Shape& s = x.shape;
  RopeSizes sizes;
  sizes.head_dim = attrs.integer("head_dim");
  sizes.n_rot = attrs.has("n_rot") ? attrs.integer("n_rot") : sizes.head_dim;
  const size_t rank = layout == "bsd" || layout == "shd" ? 3 : 4;
  if (s.size() != rank) {
    ctx.fail(DiagCode::BadRank, "x is " + to_string(x) + ", wanted rank " + std::to_string(rank) +
                                    " for layout " + layout);
    return std::nullopt;
  }
  if (layout == "bsd" ? !s[2].divides_by(sizes.head_dim) : s.back() != sizes.head_dim) {
    ctx.fail(DiagCode::BadShape, "x is " + to_string(x) + ", wanted a last dim " +
                                     (layout == "bsd" ? "divisible by" : "equal to") +
                                     " head_dim = " + std::to_string(sizes.head_dim) +
                                     " for layout " + layout);
    return std::nullopt;
  }
  if (sizes.n_rot % 2 != 0 || sizes.n_rot > sizes.head_dim) {
    ctx.fail(DiagCode::BadAttribute,
             "n_rot is " + std::to_string(sizes.n_rot) +
                 ", wanted an even number from 0 to head_dim = " + std::to_string(sizes.head_dim));
    return std::nullopt;
  }
  if (layout == "bsd") {
    sizes.batch = s[0];
    sizes.tokens = s[1];
    sizes.heads = s[2] / sizes.head_dim;
  } else if (layout == "shd") {
    sizes.tokens = s[0];
    sizes.heads = s[1];
  } else {
    sizes.batch = s[0];
    sizes.tokens = layout == "bshd" ? s[1] : s[2];
    sizes.heads = layout == "bshd" ? s[2] : s[1];
  }
  return sizes;
}

RopeStrides rope_strides(const std::string& layout, const Strides& s, int64_t head_dim) {
  if (layout == "bsd") return {.batch = s[0], .token = s[1], .head = s[2] * head_dim, .dim = s[2]};
  if (layout == "shd") return {.batch = 0, .token = s[0], .head = s[1], .dim = s[2]};
  if (layout == "bshd") return {.batch = s[0], .token = s[1], .head = s[2], .dim = s[3]};
  return {.batch = s[0], .token = s[2], .head = s[1], .dim = s[3]};
}

// True where the table has one row per token, so that positions play no part.
bool rows_are_tokens(const NodeContext& ctx, const Shape& table) {
  return ctx.attrs().text("table") == "token" || table.size() == 3;
}

bool check_float32_or_less(InferContext& ctx, size_t input, const char* name) {
  const DType dtype = ctx.dtype(input);
  if (is_float(dtype) && dtype != DType::f64) return true;
  return ctx.fail(DiagCode::BadDtype, std::string(name) + " is " + std::string(name_of(dtype)) +
                                          ", wanted f32, f16 or bf16");
}

bool check_table(InferContext& ctx, const RopeSizes& sizes) {
  const Shape& cos = ctx.shape(kCos);
  if (cos != ctx.shape(kSin)) {
    return ctx.fail(DiagCode::BadShape, "cos has shape " + to_string(cos) + " and sin " +
                                            to_string(ctx.shape(kSin)) + ", wanted equal shapes");
  }
  if (cos.size() != 2 && cos.size() != 3) {
    return ctx.fail(DiagCode::BadRank, "cos has shape " + to_string(cos) + ", wanted rank 2 or 3");
  }
  if (cos.back() < sizes.n_rot / 2) {
    return ctx.fail(DiagCode::BadShape, "cos has shape " + to_string(cos) +
                                            ", wanted at least n_rot / 2 = " +
                                            std::to_string(sizes.n_rot / 2) + " entries per row");
  }
  if (cos.size() == 3 && (cos[0] != sizes.batch || cos[1] != sizes.tokens)) {
    return ctx.fail(DiagCode::BadShape, "cos has shape " + to_string(cos) + ", wanted [" +
                                            to_string(sizes.batch) + ", " +
                                            to_string(sizes.tokens) + ", W]");
  }
  const bool by_token = ctx.attrs().text("table") == "token";
  if (cos.size() == 2 && by_token && cos[0] != sizes.batch * sizes.tokens) {
    return ctx.fail(DiagCode::BadShape,
                    "cos has " + to_string(cos[0]) + " rows, wanted batch * tokens = " +
                        to_string(sizes.batch * sizes.tokens) + " with table \"token\"");
  }
  if (cos.size() == 2 && cos[0].range().least == 0 && sizes.batch * sizes.tokens > 0) {
    return ctx.fail(DiagCode::BadShape,
                    "cos has " + to_string(cos[0]) + " rows, wanted at least one at every size");
  }
  return true;
}

bool check_positions(InferContext& ctx, const RopeSizes& sizes) {
  const bool by_token = rows_are_tokens(ctx, ctx.shape(kCos));
  if (by_token && ctx.attrs().integer("position_offset") != 0) {
    return ctx.fail(DiagCode::BadAttribute,
                    "position_offset is " + std::to_string(ctx.attrs().integer("position_offset")) +
                        ", wanted 0 as the table has a row per token");
  }
  if (!ctx.has_input(kPositions)) return true;
  if (by_token) {
    return ctx.fail(DiagCode::BadArity,
                    "positions is given, wanted none as the table has a row per token");
  }
  const TensorType& positions = ctx.input(kPositions);
  const bool legacy = positions.dtype == DType::f32 || positions.dtype == DType::f16;
  if (!is_integer(positions.dtype) && !legacy) {
    return ctx.fail(DiagCode::BadDtype, "positions is " + std::string(name_of(positions.dtype)) +
                                            ", wanted an integer type");
  }
  if (positions.shape.empty() || positions.shape == Shape{sizes.tokens} ||
      positions.shape == Shape{sizes.batch, sizes.tokens}) {
    return true;
  }
  return ctx.fail(DiagCode::BadShape, "positions is " + to_string(positions) +
                                          ", wanted a scalar, [" + to_string(sizes.tokens) +
                                          "] or [" + to_string(sizes.batch) + ", " +
                                          to_string(sizes.tokens) + "]");
}

bool infer_rope(InferContext& ctx) {
  if (!check_float32_or_less(ctx, kX, "x") || !check_float32_or_less(ctx, kCos, "cos") ||
      !check_float32_or_less(ctx, kSin, "sin")) {
    return false;
  }
  const std::optional<RopeSizes> sizes = rope_sizes(ctx, ctx.input(kX));
  if (!sizes || !check_table(ctx, *sizes) || !check_positions(ctx, *sizes)) return false;
  ctx.set_output(0, ctx.input(kX));
  return true;
}

int64_t position_of(const EvaluateContext& ctx, int64_t batch, int64_t token, int64_t tokens) {
  const int64_t offset = ctx.attrs().integer("position_offset");
  if (!ctx.has_input(kPositions)) return offset + token;
  const Tensor& positions = ctx.input(kPositions);
  const auto value = [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    return positions.is_float() ? static_cast<int64_t>(std::trunc(positions.floats[at]))
                                : positions.integers[at];
  };
  if (positions.type.shape.empty()) return offset + value(0) + token;
  if (positions.type.shape.size() == 1) return offset + value(token);
  return offset + value(batch * tokens + token);
}

// Rotates or copies one head vector.
void rotate_head(const Tensor& x, Tensor& y, int64_t base, int64_t dim_stride,
                 const RopeSizes& sizes, bool neox, const double* c, const double* s, double sign) {
  const auto at = [&](int64_t d) { return static_cast<size_t>(base + d * dim_stride); };
  for (int64_t d = sizes.n_rot; d < sizes.head_dim; ++d) y.floats[at(d)] = x.floats[at(d)];
  for (int64_t i = 0; i < sizes.n_rot / 2; ++i) {
    const size_t a = at(neox ? i : 2 * i);
    const size_t b = at(neox ? i + sizes.n_rot / 2 : 2 * i + 1);
    const double sine = sign * s[i];
    y.floats[a] = x.floats[a] * c[i] - x.floats[b] * sine;
    y.floats[b] = x.floats[b] * c[i] + x.floats[a] * sine;
    y.magnitudes[a] = std::abs(x.floats[a] * c[i]) + std::abs(x.floats[b] * sine);
    y.magnitudes[b] = std::abs(x.floats[b] * c[i]) + std::abs(x.floats[a] * sine);
  }
}

bool evaluate_rope(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(kX);
  const Tensor& cos = ctx.input(kCos);
  const Tensor& sin = ctx.input(kSin);
  Tensor& y = ctx.output(0);
  const std::optional<RopeSizes> sizes = rope_sizes(ctx, x.type);
  if (!sizes) return false;
  y.magnitudes.assign(y.floats.size(), 0);
  y.terms = 2;
  const RopeStrides strides =
      rope_strides(ctx.attrs().text("layout"), dense_strides(x.type.shape), sizes->head_dim);
  const bool neox = ctx.attrs().text("style") == "neox";
  const double sign = ctx.attrs().flag("inverse") ? -1 : 1;
  const bool by_token = rows_are_tokens(ctx, cos.type.shape);
  const int64_t width = cos.type.shape.back();
  const int64_t tokens = sizes->tokens;
  const int64_t heads = sizes->heads;
  for (int64_t b = 0; b < sizes->batch; ++b) {
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t row =
          by_token ? b * tokens + t
                   : std::clamp<int64_t>(position_of(ctx, b, t, tokens), 0, cos.type.shape[0] - 1);
      const int64_t base = b * strides.batch + t * strides.token;
      for (int64_t h = 0; h < heads; ++h) {
        rotate_head(x, y, base + h * strides.head, strides.dim, *sizes, neox,
                    cos.floats.data() + row * width, sin.floats.data() + row * width, sign);
      }
    }
  }
  return true;
}

std::string stride_lines(const std::string& name, const RopeStrides& strides) {
  const auto line = [&](const char* suffix, const Dim& stride) {
    return define_line("RLX_" + name + suffix, "RLX_INDEX(" + integer_text(stride) + ")");
  };
  return line("_B", strides.batch) + line("_S", strides.token) + line("_H", strides.head) +
         line("_D", strides.dim);
}

// Offset of entry i of a table's row for (batch b, token t, position row r).
std::string table_macro(const std::string& name, const TensorRef& table, bool by_token,
                        const Dim& tokens) {
  const auto term = [](const std::string& index, const Dim& stride) {
    return "(" + index + ") * RLX_INDEX(" + integer_text(stride) + ")";
  };
  const std::string entry = " + " + term("i", table.strides.back());
  std::string row = term("r", table.strides[0]);
  if (table.shape().size() == 3) {
    row = term("b", table.strides[0]) + " + " + term("t", table.strides[1]);
  } else if (by_token) {
    row = term("(b) * RLX_INDEX(" + size_text(tokens) + ") + (t)", table.strides[0]);
  }
  return define_line(name + "(b, t, r, i)", "(" + row + entry + ")");
}

std::string position_macros(const LowerContext& ctx) {
  const std::string offset = integer_text(ctx.attrs().integer("position_offset"));
  std::string text = define_line("RLX_OFFSET", "rlx_i64(" + offset + ")");
  if (!ctx.has_input(kPositions)) return text;
  const TensorRef positions = ctx.input(kPositions);
  const size_t rank = positions.strides.size();
  const Dim batch_stride = rank == 2 ? positions.strides[0] : 0;
  const Dim token_stride = rank == 0 ? Dim() : positions.strides[rank - 1];
  text += define_line("RLX_POSITION_AT(b, t)", "((b) * RLX_INDEX(" + size_text(batch_stride) +
                                                   ") + (t) * RLX_INDEX(" +
                                                   size_text(token_stride) + "))");
  return text + define_line("RLX_POSITION_STEP", rank == 0 ? "rlx_i64(1)" : "rlx_i64(0)");
}

bool lower_rope(LowerContext& ctx) {
  constexpr uint32_t kThreads = 256;
  const TensorRef x = ctx.input(kX);
  const std::optional<RopeSizes> sizes = rope_sizes(ctx, x.type);
  if (!sizes) return false;
  const std::string layout = ctx.attrs().text("layout");
  const bool neox = ctx.attrs().text("style") == "neox";
  const bool inverse = ctx.attrs().flag("inverse");
  const TensorRef cos = ctx.input(kCos);
  const TensorRef sin = ctx.input(kSin);
  const bool by_token = rows_are_tokens(ctx, cos.shape());
  const std::string positions = position_macros(ctx);
  if (sizes->n_rot == 0) {
    ctx.alias_output(0, x);
    return true;
  }
  const TensorRef y = ctx.output(0);
  const int64_t pairs = sizes->n_rot / 2;
  const int64_t tail = sizes->head_dim - sizes->n_rot;
  const Dim count = sizes->batch * sizes->tokens * sizes->heads * (pairs + tail);
  if (count == 0) return true;

  const bool has_positions = ctx.has_input(kPositions);
  std::string text = define_line("RLX_INDEX", index_type({&x, &y, &cos, &sin}, count.range().most));
  text += stride_lines("X", rope_strides(layout, x.strides, sizes->head_dim));
  text += stride_lines("Y", rope_strides(layout, y.strides, sizes->head_dim));
  text += table_macro("RLX_COS_AT", cos, by_token, sizes->tokens);
  text += table_macro("RLX_SIN_AT", sin, by_token, sizes->tokens);
  text += positions;
  const Grid grid = split_grid(ceil_div(count, kThreads));
  auto dispatch = ctx.dispatch<KernelId::rope>();
  dispatch.workgroup({kThreads, 1, 1})
      .define("RLX_COUNT", integer_text(count))
      .size("RLX_TOKENS", sizes->tokens)
      .size("RLX_HEADS", sizes->heads)
      .define("RLX_PAIRS", pairs)
      .define("RLX_TAIL", tail)
      .define("RLX_X", std::string(name_of(x.dtype())))
      .define("RLX_COS", std::string(name_of(cos.dtype())))
      .define("RLX_SIN", std::string(name_of(sin.dtype())))
      .define("RLX_BY_POSITION", by_token ? 0 : 1)
      .size("RLX_TABLE_ROWS", cos.shape()[0])
      .define("RLX_HAS_POSITIONS", has_positions ? 1 : 0)
      .define("RLX_NEOX", neox ? 1 : 0)
      .define("RLX_INVERSE", inverse ? 1 : 0)
      .generated("rope.inc", text)
      .read(&RopeParams::x, x)
      .read(&RopeParams::cos_table, cos)
      .read(&RopeParams::sin_table, sin)
      .write(&RopeParams::y, y)
      .grid(grid.x, grid.y, grid.z)
      .work(2 * byte_size(x.type), count * 6)
      .reason(neox ? "one thread per half-split pair" : "one thread per neighbouring pair");
  if (has_positions) {
    const TensorRef given = ctx.input(kPositions);
    dispatch.define("RLX_POSITIONS", std::string(name_of(given.dtype())))
        .read(&RopeParams::positions, given);
    if (!by_token) dispatch.count_index_errors();
  }
  if (x.strides == y.strides) dispatch.allow_in_place(x);
  return true;
}

constexpr uint32_t kRopeOptional[] = {kPositions};
constexpr std::string_view kRopeStyles[] = {"neox", "gptj"};
constexpr std::string_view kRopeLayouts[] = {"bshd", "bhsd", "bsd", "shd"};
constexpr std::string_view kTables[] = {"position", "token"};

constexpr AttrSpec kRopeAttrs[] = {
    {.name = "head_dim", .type = AttrType::Int, .required = true, .minimum = 1},
    {.name = "n_rot", .type = AttrType::Int, .minimum = 0},
    {.name = "style", .type = AttrType::String, .default_text = "\"neox\"", .choices = kRopeStyles},
    {.name = "layout",
     .type = AttrType::String,
     .default_text = "\"bshd\"",
     .choices = kRopeLayouts},
    {.name = "position_offset", .type = AttrType::Int, .default_text = "0"},
    {.name = "table", .type = AttrType::String, .default_text = "\"position\"", .choices = kTables},
    {.name = "inverse", .type = AttrType::Bool, .default_text = "false"},
};

// cos and sin are tables: they get nothing.
bool rope_gradient(GradientContext& ctx) {
  NodeBuilder::Inputs inputs = ctx.node().inputs;
  inputs[0] = ctx.gradient();
  ctx.give(0, ctx.emit("rope_backward", std::move(inputs), ctx.attributes()));
  return true;
}

constexpr OpDef kRopeOps[] = {
    {.name = "rope",
     .signature =
         "rope(x, cos, sin, [positions]; head_dim, n_rot=head_dim, style=neox, layout=bshd, "
         "position_offset=0, table=position, inverse=false) -> y",
     .inputs = {3, 4},
     .outputs = {1, 1},
     .attrs = kRopeAttrs,
     .infer = infer_rope,
     .evaluate = evaluate_rope,
     .gradient = rope_gradient,
     .lower = lower_rope,
     .optional_inputs = kRopeOptional,
     .keeps_f32 = 1u << 3},
};

}  // namespace

std::span<const OpDef> rope_ops() {
  return kRopeOps;
}

}  // namespace rlx
