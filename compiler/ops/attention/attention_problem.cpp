// SPDX-License-Identifier: Apache-2.0
// Sizes and layouts of an attention node.
#include "compiler/ops/attention/attention_problem.h"

#include <algorithm>
#include <cmath>

#include "compiler/support/check.h"
#include "compiler/support/sampled_sizes.h"

namespace rlx {

namespace {

std::string type_text(const TensorType& type) {
  return to_string(type);
}

// Sizes of q, k or v under a layout.
struct HeadsSizes {
  Dim batch;
  Dim heads;
  Dim tokens;
  Dim dim;
};

// nullopt where rank or head count do not fit the layout.
std::optional<HeadsSizes> sizes_in(const std::string& layout, const Shape& s, int64_t heads) {
  if (layout == "bsd") {
    if (s.size() != 3 || s[2] % heads != 0) return std::nullopt;
    return HeadsSizes{.batch = s[0], .heads = heads, .tokens = s[1], .dim = s[2] / heads};
  }
  if (s.size() != 4) return std::nullopt;
  if (layout == "bshd")
    return HeadsSizes{.batch = s[0], .heads = s[2], .tokens = s[1], .dim = s[3]};
  return HeadsSizes{.batch = s[0], .heads = s[1], .tokens = s[2], .dim = s[3]};
}

std::string wanted_shape(const std::string& layout, int64_t heads, int64_t dim) {
  if (layout == "bsd") return "[B, S, " + std::to_string(heads * dim) + "]";
  const std::string h = std::to_string(heads);
  const std::string d = std::to_string(dim);
  return layout == "bshd" ? "[B, S, " + h + ", " + d + "]" : "[B, " + h + ", S, " + d + "]";
}

// Checks q, k or v of a given layout and returns its sizes.
std::optional<HeadsSizes> checked_sizes(NodeContext& ctx, const char* name,
                                        const std::string& layout, const TensorType& type,
                                        int64_t heads, int64_t dim) {
  const std::optional<HeadsSizes> sizes = sizes_in(layout, type.shape, heads);
  const std::string wanted = "wanted " + wanted_shape(layout, heads, dim) + " for layout " + layout;
  if (!sizes) {
    ctx.fail(
        type.shape.size() == (layout == "bsd" ? 3U : 4U) ? DiagCode::BadShape : DiagCode::BadRank,
        std::string(name) + " is " + type_text(type) + ", " + wanted);
    return std::nullopt;
  }
  if (sizes->heads != heads || sizes->dim != dim) {
    ctx.fail(DiagCode::BadShape, std::string(name) + " is " + type_text(type) + ", " + wanted,
             "num_heads, num_kv_heads, head_dim, v_head_dim and the layouts tell the shape");
    return std::nullopt;
  }
  return sizes;
}

bool read_packed(NodeContext& ctx, AttentionProblem& problem, const TensorType& q) {
  const int64_t width = (problem.heads + 2 * problem.kv_heads) * problem.head_dim;
  const Shape& s = q.shape;
  const bool three = problem.packed == "3hd";
  if (three && problem.kv_heads != problem.heads) {
    return ctx.fail(DiagCode::BadAttribute,
                    "num_kv_heads is " + std::to_string(problem.kv_heads) +
                        ", wanted num_heads = " + std::to_string(problem.heads) +
                        " with packed \"3hd\"");
  }
  if (problem.v_head_dim != problem.head_dim) {
    return ctx.fail(DiagCode::BadAttribute,
                    "v_head_dim is " + std::to_string(problem.v_head_dim) + ", wanted head_dim = " +
                        std::to_string(problem.head_dim) + " with packed q, k, v");
  }
  const bool fits =
      three ? s.size() == 5 && s[2] == 3 && s[3] == problem.heads && s[4] == problem.head_dim
            : s.size() == 3 && s[2] == width;
  if (!fits) {
    const std::string wanted = three ? "[B, S, 3, " + std::to_string(problem.heads) + ", " +
                                           std::to_string(problem.head_dim) + "]"
                                     : "[B, S, " + std::to_string(width) + "]";
    return ctx.fail(
        s.size() == (three ? 5U : 3U) ? DiagCode::BadShape : DiagCode::BadRank,
        "q is " + type_text(q) + ", wanted " + wanted + " with packed \"" + problem.packed + "\"");
  }
  problem.batch = s[0];
  problem.q_tokens = s[1];
  problem.kv_tokens = s[1];
  return true;
}

bool read_separate(NodeContext& ctx, AttentionProblem& problem, const TensorType& q,
                   const TensorType& k, const TensorType& v) {
  const auto q_sizes =
      checked_sizes(ctx, "q", problem.q_layout, q, problem.heads, problem.head_dim);
  const auto k_sizes =
      checked_sizes(ctx, "k", problem.kv_layout, k, problem.kv_heads, problem.head_dim);
  const auto v_sizes =
      checked_sizes(ctx, "v", problem.kv_layout, v, problem.kv_heads, problem.v_head_dim);
  if (!q_sizes || !k_sizes || !v_sizes) return false;
  if (k_sizes->batch != q_sizes->batch || v_sizes->batch != q_sizes->batch) {
    return ctx.fail(DiagCode::BadShape, "batch sizes of q, k, v are " + to_string(q_sizes->batch) +
                                            ", " + to_string(k_sizes->batch) + ", " +
                                            to_string(v_sizes->batch) + ", wanted equal ones");
  }
  if (k_sizes->tokens != v_sizes->tokens) {
    return ctx.fail(DiagCode::BadShape, "k has " + to_string(k_sizes->tokens) + " tokens and v " +
                                            to_string(v_sizes->tokens) + ", wanted equal counts");
  }
  problem.batch = q_sizes->batch;
  problem.q_tokens = q_sizes->tokens;
  problem.kv_tokens = k_sizes->tokens;
  return true;
}

HeadsView view_in(const std::string& layout, const Strides& s, int64_t dim) {
  if (layout == "bsd") {
    return {.offset = 0, .batch = s[0], .head = s[2] * dim, .token = s[1], .dim = s[2]};
  }
  if (layout == "bshd") {
    return {.offset = 0, .batch = s[0], .head = s[2], .token = s[1], .dim = s[3]};
  }
  return {.offset = 0, .batch = s[0], .head = s[1], .token = s[2], .dim = s[3]};
}

}  // namespace

bool has_free_sizes(const AttentionProblem& problem) {
  return problem.batch.is_free() || problem.q_tokens.is_free() || problem.kv_tokens.is_free();
}

std::vector<AttentionProblem> sampled_problems(const AttentionProblem& problem) {
  return at_sampled_sizes({problem.batch, problem.q_tokens, problem.kv_tokens},
                          [&](const SampledSizes& at) {
                            AttentionProblem fixed = problem;
                            fixed.batch = at.value(problem.batch);
                            fixed.q_tokens = at.value(problem.q_tokens);
                            fixed.kv_tokens = at.value(problem.kv_tokens);
                            return fixed;
                          });
}

Dim most_keys(const AttentionProblem& problem) {
  if (problem.window_left < 0 || (!problem.causal && problem.window_right < 0)) {
    return problem.kv_tokens;
  }
  const int64_t right = problem.causal ? 0 : problem.window_right;
  return min(problem.kv_tokens, problem.window_left + right + problem.q_tokens);
}

std::optional<AttentionProblem> attention_problem(
    NodeContext& ctx, const std::vector<std::optional<TensorType>>& inputs) {
  const AttributeReader& attrs = ctx.attrs();
  AttentionProblem problem;
  problem.heads = attrs.integer("num_heads");
  problem.kv_heads = attrs.has("num_kv_heads") ? attrs.integer("num_kv_heads") : problem.heads;
  problem.head_dim = attrs.integer("head_dim");
  problem.v_head_dim = attrs.has("v_head_dim") ? attrs.integer("v_head_dim") : problem.head_dim;
  problem.q_layout = attrs.text("q_layout");
  problem.kv_layout = attrs.text("kv_layout");
  problem.out_layout = attrs.has("out_layout") ? attrs.text("out_layout") : problem.q_layout;
  problem.packed = attrs.text("packed");
  problem.causal = attrs.flag("causal");
  problem.align_end = attrs.text("causal_align") == "end";
  problem.window_left = attrs.integer("window_left");
  problem.window_right = attrs.integer("window_right");
  problem.scale = attrs.has("scale") ? attrs.real("scale")
                                     : 1 / std::sqrt(static_cast<double>(problem.head_dim));
  problem.softcap = attrs.real("softcap");
  if (problem.heads % problem.kv_heads != 0) {
    ctx.fail(DiagCode::BadAttribute,
             "num_heads is " + std::to_string(problem.heads) +
                 ", wanted a multiple of num_kv_heads = " + std::to_string(problem.kv_heads));
    return std::nullopt;
  }
  const auto has = [&](uint32_t i) { return i < inputs.size() && inputs[i].has_value(); };
  const bool packed = problem.packed != "none";
  if (packed && (has(kAttentionK) || has(kAttentionV))) {
    ctx.fail(DiagCode::BadArity,
             "k and v are given besides packed \"" + problem.packed + "\", wanted null for both");
    return std::nullopt;
  }
  if (!packed && (!has(kAttentionK) || !has(kAttentionV))) {
    ctx.fail(DiagCode::BadArity, "k or v is null, wanted both as packed is \"none\"");
    return std::nullopt;
  }
  const bool fits = packed ? read_packed(ctx, problem, *inputs[kAttentionQ])
                           : read_separate(ctx, problem, *inputs[kAttentionQ], *inputs[kAttentionK],
                                           *inputs[kAttentionV]);
  if (!fits) return std::nullopt;
  return problem;
}

Shape attention_output_shape(const AttentionProblem& p) {
  if (p.out_layout == "bsd") return {p.batch, p.q_tokens, p.heads * p.v_head_dim};
  if (p.out_layout == "bshd") return {p.batch, p.q_tokens, p.heads, p.v_head_dim};
  return {p.batch, p.heads, p.q_tokens, p.v_head_dim};
}

HeadsView attention_view(const AttentionProblem& problem, uint32_t which, const Strides& strides) {
  if (problem.packed == "3hd") {
    return {.offset = which * strides[2],
            .batch = strides[0],
            .head = strides[3],
            .token = strides[1],
            .dim = strides[4]};
  }
  if (problem.packed == "gqa") {
    const int64_t first_head = which == 0 ? 0 : problem.heads + (which - 1) * problem.kv_heads;
    HeadsView view = view_in("bsd", strides, problem.head_dim);
    view.offset = first_head * view.head;
    return view;
  }
  const std::string& layout = which == 0 ? problem.q_layout : problem.kv_layout;
  return view_in(layout, strides, which == 2 ? problem.v_head_dim : problem.head_dim);
}

HeadsView attention_output_view(const AttentionProblem& problem) {
  return view_in(problem.out_layout, dense_strides(attention_output_shape(problem)),
                 problem.v_head_dim);
}

HeadsView attention_mask_view(const AttentionProblem& problem, const Shape& shape,
                              const Strides& strides) {
  if (shape.size() == 2) {
    return {.offset = 0, .batch = strides[0], .head = 0, .token = 0, .dim = strides[1]};
  }
  if (shape.size() == 3) {
    return {.offset = 0, .batch = strides[0], .head = 0, .token = strides[1], .dim = strides[2]};
  }
  const Strides wide = broadcast_strides(
      shape, strides, {problem.batch, problem.heads, problem.q_tokens, problem.kv_tokens});
  return {.offset = 0, .batch = wide[0], .head = wide[1], .token = wide[2], .dim = wide[3]};
}

}  // namespace rlx
