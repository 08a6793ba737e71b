// SPDX-License-Identifier: Apache-2.0
// rope_append: the rotary embedding of queries and keys, and keys and values appended to their
// caches, in one step. Equals rope of q, rope of k and (with caches) kv_append of both; made by
// fuse-rope, importable.
#include <algorithm>
#include <array>

#include "compiler/ops/indexing/kv_append.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

enum RopeAppendInput : uint32_t {
  kQ,
  kK,
  kV,
  kCosTable,
  kSinTable,
  kRowPositions,
  kKCache,
  kVCache
};

bool appends(const NodeContext& ctx) {
  return ctx.has_input(kKCache);
}

// The axis of a cache [B,S,H,D] or [B,H,S,D] along which rows are appended.
int64_t cache_axis(const NodeContext& ctx) {
  return ctx.attrs().text("kv_layout") == "bshd" ? 1 : 2;
}

// ---- shapes ----

bool check_dtypes(InferContext& ctx) {
  const DType dtype = ctx.dtype(kQ);
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
    return ctx.fail(DiagCode::BadDtype,
                    "q is " + std::string(name_of(dtype)) + ", wanted f32, f16 or bf16");
  }
  for (const RopeAppendInput input : {kK, kV}) {
    if (!ctx.has_input(input) || ctx.dtype(input) == dtype) continue;
    return ctx.fail(DiagCode::BadDtype, "input " + std::to_string(input) + " is " +
                                            std::string(name_of(ctx.dtype(input))) +
                                            " beside q of " + std::string(name_of(dtype)) +
                                            ", wanted one dtype");
  }
  if (ctx.has_input(kKCache) && ctx.has_input(kVCache) &&
      (!is_short_float(ctx.dtype(kKCache)) || ctx.dtype(kKCache) != ctx.dtype(kVCache))) {
    return ctx.fail(DiagCode::BadDtype, "the caches are " +
                                            std::string(name_of(ctx.dtype(kKCache))) + " and " +
                                            std::string(name_of(ctx.dtype(kVCache))) +
                                            ", wanted both f32, both f16 or both bf16");
  }
  for (const RopeAppendInput input : {kCosTable, kSinTable}) {
    if (is_float(ctx.dtype(input)) && ctx.dtype(input) != DType::f64) continue;
    return ctx.fail(DiagCode::BadDtype, "a table is " + std::string(name_of(ctx.dtype(input))) +
                                            ", wanted f32, f16 or bf16");
  }
  return true;
}

bool check_heads(InferContext& ctx) {
  const Shape& q = ctx.shape(kQ);
  const Shape& k = ctx.shape(kK);
  if (q.size() != 4 || k.size() != 4 || q.back() % 2 != 0) {
    return ctx.fail(DiagCode::BadShape, "q is " + to_string(q) + " and k " + to_string(k) +
                                            ", wanted [batch, tokens, heads, even head_dim]");
  }
  if (k[0] != q[0] || k[1] != q[1] || k[3] != q[3]) {
    return ctx.fail(DiagCode::BadShape, "k is " + to_string(k) + " beside q " + to_string(q) +
                                            ", wanted equal dims but for the heads");
  }
  if (ctx.has_input(kV) && ctx.shape(kV) != k) {
    return ctx.fail(DiagCode::BadShape,
                    "v is " + to_string(ctx.shape(kV)) + ", wanted " + to_string(k) + " as k");
  }
  return true;
}

bool check_tables(InferContext& ctx) {
  const Shape& cos = ctx.shape(kCosTable);
  const bool fits = cos.size() == 2 && cos[0].range().least > 0 && cos[1] >= ctx.shape(kQ)[3] / 2 &&
                    cos == ctx.shape(kSinTable);
  if (fits) return true;
  return ctx.fail(DiagCode::BadShape, "cos is " + to_string(cos) + " and sin " +
                                          to_string(ctx.shape(kSinTable)) +
                                          ", wanted equal [positions, head_dim / 2 or more]");
}

bool check_caches(InferContext& ctx) {
  if (ctx.has_input(kV) != ctx.has_input(kKCache) ||
      ctx.has_input(kKCache) != ctx.has_input(kVCache)) {
    return ctx.fail(DiagCode::BadArity, "wanted v, k_cache and v_cache together, or none of them");
  }
  if (!appends(ctx)) return true;
  if (!ctx.has_input(kRowPositions)) return ctx.fail(DiagCode::BadArity, "caches need positions");
  const Shape& k = ctx.shape(kK);
  const Shape by_head = {k[0], k[2], k[1], k[3]};
  const auto axis = static_cast<size_t>(cache_axis(ctx));
  for (const RopeAppendInput input : {kKCache, kVCache}) {
    Shape cache = ctx.shape(input);
    if (cache.size() == 4) cache[axis] = k[1];
    if (cache == (axis == 1 ? k : by_head)) continue;
    return ctx.fail(DiagCode::BadShape, "a cache is " + to_string(ctx.shape(input)) + ", wanted " +
                                            to_string(axis == 1 ? k : by_head) +
                                            " with any size of axis " + std::to_string(axis));
  }
  return true;
}

bool infer_rope_append(InferContext& ctx) {
  if (!check_dtypes(ctx) || !check_heads(ctx) || !check_tables(ctx) || !check_caches(ctx))
    return false;
  if (ctx.has_input(kRowPositions) && !ctx.shape(kRowPositions).empty()) {
    return ctx.fail(DiagCode::BadShape,
                    "positions is " + to_string(ctx.shape(kRowPositions)) + ", wanted a scalar");
  }
  if (ctx.has_input(kRowPositions) && !check_append_positions(ctx, kRowPositions, ctx.shape(kQ)[0]))
    return false;
  const size_t outputs = appends(ctx) ? 3 : 2;
  if (ctx.node().outputs.size() != outputs) {
    return ctx.fail(DiagCode::BadArity, "has " + std::to_string(ctx.node().outputs.size()) +
                                            " outputs, wanted " + std::to_string(outputs));
  }
  TensorType queries = ctx.input(kQ);
  if (ctx.attrs().has("q_dtype")) queries.dtype = ctx.attrs().dtype("q_dtype");
  if (!is_short_float(queries.dtype)) {
    return ctx.fail(DiagCode::BadAttribute, "q_dtype is " + std::string(name_of(queries.dtype)) +
                                                ", wanted f32, f16 or bf16");
  }
  ctx.set_output(0, queries);
  ctx.set_output(1, ctx.input(appends(ctx) ? kKCache : kK));
  if (appends(ctx)) ctx.set_output(2, ctx.input(kVCache));
  return true;
}

// ---- evaluation: the composition ----

Tensor evaluate_one(const char* op, const std::vector<const Tensor*>& inputs, Attributes attributes,
                    const TensorType& type) {
  Node node;
  node.name = op;
  node.op = op;
  node.attributes = std::move(attributes);
  for (const Tensor* input : inputs)
    node.inputs.push_back(input ? std::optional(ValueId{0}) : std::nullopt);
  Diagnostics diagnostics;
  auto result = evaluate_node(node, inputs, {type}, diagnostics);
  RLX_CHECK(result.has_value(), diagnostics.text());
  return std::move(result->front());
}

// As numbers of `dtype`, to which they are rounded once.
Tensor rotated(const EvaluateContext& ctx, RopeAppendInput input, DType dtype) {
  const Tensor& x = ctx.input(input);
  return evaluate_one("rope",
                      {&x, &ctx.input(kCosTable), &ctx.input(kSinTable),
                       ctx.has_input(kRowPositions) ? &ctx.input(kRowPositions) : nullptr},
                      {{"head_dim", x.type.shape[3]},
                       {"style", ctx.attrs().text("style")},
                       {"position_offset", ctx.attrs().integer("position_offset")},
                       {"inverse", ctx.attrs().flag("inverse")}},
                      {dtype, x.type.shape});
}

Tensor appended(const EvaluateContext& ctx, RopeAppendInput cache, Tensor rows) {
  if (cache_axis(ctx) == 2) {
    const Shape& s = rows.type.shape;
    rows = evaluate_one("transpose", {&rows}, {{"perm", Ints{0, 2, 1, 3}}},
                        {rows.type.dtype, {s[0], s[2], s[1], s[3]}});
  }
  return evaluate_one("kv_append", {&ctx.input(cache), &rows, &ctx.input(kRowPositions)},
                      {{"axis", cache_axis(ctx)}}, ctx.input(cache).type);
}

bool evaluate_rope_append(EvaluateContext& ctx) {
  ctx.output(0) = rotated(ctx, kQ, ctx.output_type(0).dtype);
  Tensor keys = rotated(ctx, kK, ctx.output_type(1).dtype);
  if (!appends(ctx)) {
    ctx.output(1) = std::move(keys);
    return true;
  }
  ctx.output(1) = appended(ctx, kKCache, std::move(keys));
  ctx.output(2) = appended(ctx, kVCache, ctx.input(kV));
  return true;
}

// ---- lowering ----

// Strides of a view [B,S,H,D], or of a cache by its layout.
struct HeadStrides {
  Dim batch;
  Dim row;
  Dim head;
};
HeadStrides head_strides(const Strides& s, int64_t row_axis) {
  return {.batch = s[0],
          .row = s[static_cast<size_t>(row_axis)],
          .head = s[static_cast<size_t>(3 - row_axis)]};
}

std::string stride_text(const std::string& name, const HeadStrides& strides,
                        const std::string& type) {
  const auto line = [&](const char* suffix, const Dim& stride) {
    return define_line("RLX_" + name + suffix, type + "(" + integer_text(stride) + ")");
  };
  return line("_B", strides.batch) + line("_S", strides.row) + line("_H", strides.head);
}

// A view whose heads are contiguous.
TensorRef head_rows(LowerContext& ctx, RopeAppendInput input) {
  const TensorRef ref = ctx.input(input);
  return ref.strides[3] == 1 ? ref : ctx.dense_input(input);
}

TensorRef table_rows(LowerContext& ctx, RopeAppendInput input) {
  const TensorRef ref = ctx.input(input);
  return ref.strides[1] == 1 ? ref : ctx.dense_input(input);
}

struct Operands {
  TensorRef q;
  TensorRef k;
  std::optional<TensorRef> v;
  TensorRef cos;
  TensorRef sin;
  TensorRef y_q;
  TensorRef y_k;
  std::optional<TensorRef> y_v;
  int64_t row_axis = 1;  // of y_k and y_v
};

Operands operands_of(LowerContext& ctx) {
  Operands operands{.q = head_rows(ctx, kQ),
                    .k = head_rows(ctx, kK),
                    .v = std::nullopt,
                    .cos = table_rows(ctx, kCosTable),
                    .sin = table_rows(ctx, kSinTable),
                    .y_q = ctx.output(0),
                    .y_k = appends(ctx) ? appended_cache(ctx, kKCache, 1) : ctx.output(1),
                    .y_v = std::nullopt,
                    .row_axis = 1};
  if (!appends(ctx)) return operands;
  operands.v = head_rows(ctx, kV);
  operands.y_v = appended_cache(ctx, kVCache, 2);
  operands.row_axis = cache_axis(ctx);
  return operands;
}

// Every view that the kernel reads or writes by pairs.
std::vector<const TensorRef*> views_of(const Operands& operands) {
  std::vector<const TensorRef*> views = {&operands.q,   &operands.k,   &operands.cos,
                                         &operands.sin, &operands.y_q, &operands.y_k};
  if (operands.v) views.push_back(&*operands.v);
  if (operands.y_v) views.push_back(&*operands.y_v);
  return views;
}

// 4 where four neighbouring pairs are aligned loads and stores everywhere.
uint32_t pair_width(const LowerContext& ctx, const Operands& operands, int64_t pairs, bool neox) {
  if (!neox || pairs % 4 != 0) return 1;
  for (const TensorRef* view : views_of(operands)) {
    if (ctx.alignment(*view) < 4 * element_bytes(view->dtype())) return 1;
    const bool whole = std::all_of(view->strides.begin(), view->strides.end() - 1,
                                   [](const Dim& stride) { return stride.divides_by(4); });
    if (!whole) return 1;
  }
  return 4;
}

std::string append_text(const LowerContext& ctx, const Operands& operands, const Dim& threads) {
  const std::string index = index_type(views_of(operands), threads.range().most);
  const Dim capacity = operands.y_k.shape()[static_cast<size_t>(operands.row_axis)];
  std::string text = define_line("RLX_INDEX", index);
  text += define_line("RLX_CAPACITY", "rlx_i64(" + integer_text(capacity) + ")");
  text += define_line("RLX_OFFSET",
                      "rlx_i64(" + integer_text(ctx.attrs().integer("position_offset")) + ")");
  text += define_line("RLX_COUNT", integer_text(threads));
  text += stride_text("Q", head_strides(operands.q.strides, 1), "RLX_INDEX");
  text += stride_text("K", head_strides(operands.k.strides, 1), "RLX_INDEX");
  text += stride_text("YQ", head_strides(operands.y_q.strides, 1), "RLX_INDEX");
  text += stride_text("YK", head_strides(operands.y_k.strides, operands.row_axis), "rlx_i64");
  if (!operands.v) return text;
  text += stride_text("V", head_strides(operands.v->strides, 1), "RLX_INDEX");
  return text +
         stride_text("YV", head_strides(operands.y_v->strides, operands.row_axis), "rlx_i64");
}

void emit(LowerContext& ctx, const Operands& operands) {
  const Shape& q = operands.q.shape();
  const bool neox = ctx.attrs().text("style") == "neox";
  const int64_t pairs = q[3] / 2;
  const uint32_t width = pair_width(ctx, operands, pairs, neox);
  const Dim key_heads = operands.k.shape()[2];
  const Dim slots = q[2] + key_heads * (operands.v ? 2 : 1);
  const Dim threads = q[0] * q[1] * slots * (pairs / width);
  if (threads == 0) return;
  const auto bytes = [width](const TensorRef& ref) { return width * element_bytes(ref.dtype()); };
  const AccessMode written = operands.v ? AccessMode::ReadWrite : AccessMode::Write;
  auto dispatch = ctx.dispatch<KernelId::kv_append>();
  dispatch.workgroup({kCopyWorkgroup, 1, 1})
      .define("RLX_ROTATE", 1)
      .define("RLX_APPEND", operands.v ? 1 : 0)
      .define("RLX_CIRCULAR", 0)
      .define("RLX_WIDTH", width)
      .define("RLX_PAIRS", pairs)
      .define("RLX_NEOX", neox ? 1 : 0)
      .define("RLX_INVERSE", ctx.attrs().flag("inverse") ? 1 : 0)
      .size("RLX_SLOTS", slots)
      .size("RLX_Q_HEADS", q[2])
      .size("RLX_K_HEADS", key_heads)
      .size("RLX_TOKENS", q[1])
      .define("RLX_X", std::string(name_of(operands.q.dtype())))
      .define("RLX_COS", std::string(name_of(operands.cos.dtype())))
      .define("RLX_SIN", std::string(name_of(operands.sin.dtype())))
      .size("RLX_TABLE_ROWS", operands.cos.shape()[0])
      .size("RLX_COS_LINE", operands.cos.strides[0])
      .size("RLX_SIN_LINE", operands.sin.strides[0])
      .generated("append.inc", append_text(ctx, operands, threads))
      .read(&AppendParams::x, operands.k, bytes(operands.k))
      .read(&AppendParams::q, operands.q, bytes(operands.q))
      .read(&AppendParams::cos_table, operands.cos, bytes(operands.cos))
      .read(&AppendParams::sin_table, operands.sin, bytes(operands.sin))
      .write(&AppendParams::y_q, operands.y_q, bytes(operands.y_q))
      .bind(offsetof(AppendParams, y), operands.y_k, written, bytes(operands.y_k))
      .grid(split_grid(ceil_div(threads, kCopyWorkgroup)))
      .work(2 * (byte_size(operands.q.type) + byte_size(operands.k.type) * (operands.v ? 2 : 1)),
            threads * width * 6)
      .reason(std::string(operands.v ? "rotates queries and keys, appends keys and values"
                                     : "rotates queries and keys") +
              ", " + std::to_string(width) + (width == 1 ? " pair" : " pairs") + " a thread");
  if (operands.y_k.dtype() != operands.k.dtype())
    dispatch.define("RLX_CACHE", std::string(name_of(operands.y_k.dtype())));
  if (operands.y_q.dtype() != operands.q.dtype())
    dispatch.define("RLX_QUERIES", std::string(name_of(operands.y_q.dtype())));
  if (ctx.has_input(kRowPositions)) {
    const TensorRef positions = ctx.input(kRowPositions);
    dispatch.define("RLX_POSITIONS", std::string(name_of(positions.dtype())))
        .define("RLX_POSITION_STRIDE", 0)
        .read(&AppendParams::positions, positions)
        .count_index_errors();
  }
  if (!operands.v) return;
  dispatch.read(&AppendParams::v, *operands.v, bytes(*operands.v))
      .bind(offsetof(AppendParams, y_v), *operands.y_v, AccessMode::ReadWrite,
            bytes(*operands.y_v));
}

bool lower_rope_append(LowerContext& ctx) {
  emit(ctx, operands_of(ctx));
  return true;
}

constexpr std::array<uint32_t, 4> kRopeAppendOptional = {kV, kRowPositions, kKCache, kVCache};
constexpr std::string_view kRopeAppendStyles[] = {"neox", "gptj"};
constexpr std::string_view kRopeAppendLayouts[] = {"bshd", "bhsd"};
constexpr AttrSpec kRopeAppendAttrs[] = {
    {.name = "style",
     .type = AttrType::String,
     .default_text = "\"neox\"",
     .choices = kRopeAppendStyles},
    {.name = "position_offset", .type = AttrType::Int, .default_text = "0"},
    {.name = "inverse", .type = AttrType::Bool, .default_text = "false"},
    {.name = "kv_layout",
     .type = AttrType::String,
     .default_text = "\"bhsd\"",
     .choices = kRopeAppendLayouts},
    {.name = "q_dtype", .type = AttrType::DTypeName, .consumed_by_infer = true},
};
constexpr OpDef kRopeAppendOps[] = {
    {.name = "rope_append",
     .signature = "rope_append(q, k, [v], cos, sin, [positions], [k_cache], [v_cache]; style=neox, "
                  "position_offset=0, "
                  "inverse=false, kv_layout=bhsd, q_dtype) -> q', k', [v']",
     .inputs = {5, 8},
     .outputs = {2, 3},
     .attrs = kRopeAppendAttrs,
     .infer = infer_rope_append,
     .evaluate = evaluate_rope_append,
     .lower = lower_rope_append,
     .optional_inputs = kRopeAppendOptional},
};

}  // namespace

std::span<const OpDef> rope_append_ops() {
  return kRopeAppendOps;
}

}  // namespace rlx
