// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention are given: operands as strided heads, and the texts about them.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "compiler/ops/attention/attention_problem.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/offers.h"
#include "compiler/support/blocks.h"

namespace rlx {

// One of q, k, v, y, mask, bias: the tensor with its first element moved to where the view starts.
struct Heads {
  TensorRef ref;
  HeadsView view;
};

struct AttentionOperands {
  Heads q;
  Heads k;
  Heads v;
  Heads y;
  std::optional<Heads> mask;
  std::optional<Heads> bias;
  std::optional<TensorRef> kv_len;   // a scalar or one per batch
  std::optional<TensorRef> q_start;  // likewise
  std::optional<TensorRef> lse;
  std::optional<TensorRef> sinks;  // one per query head
};

// What the table of attention's kernels is asked of.
struct AttentionCall {
  AttentionProblem problem;
  AttentionOperands operands;
};
bool has_free_sizes(const AttentionCall& call);
// Alternates by queries (lowering/alternates.h).
std::optional<Dim> sizing(const AttentionCall& call);
AttentionCall at_size(const AttentionCall& call, int64_t most);
AttentionCall for_sizes(const AttentionCall& call, const ServedSizes& served);
// For the table, to ask before there are places: dense inputs of these types, by position, and a
// result of q's type.
AttentionCall attention_of_types(const AttentionProblem& problem,
                                 const std::vector<std::optional<TensorType>>& inputs);

// Dtype as the kernels' sources name it.
std::string dtype_text(const TensorRef& ref);
// The index type, the strides of all operands, and RLX_ATTENDS(m).
std::string operand_lines(const AttentionProblem& problem, const AttentionOperands& operands);
// How weights follow from products: RLX_SCORE(s) of a product s, and RLX_EXPONENT > 0; a weight is
// 2^(RLX_EXPONENT * score).
std::string weight_lines(const AttentionProblem& problem, const AttentionOperands& operands);
// The first of q, k, v and y whose rows are not made of whole aligned 16-byte pieces; nullptr where
// all are.
const char* misaligned_operand(const OfferContext& at, const AttentionOperands& operands);
// Least bytes that a dispatch moves.
Dim bytes_touched(const AttentionOperands& operands);
Dim flops_of(const AttentionProblem& problem);
StepWork work_of(const AttentionCall& call);

// What both kernels of attention call by the same names: sizes, dtypes, which keys are allowed; and
// the operands bound but for q, k, v and y, the bias for accesses of that alignment (0: elements).
template <typename Params>
void define_attention(DispatchBuilder<Params>& dispatch, const AttentionProblem& problem,
                      const AttentionOperands& o, uint32_t bias_alignment = 0);

// The type of the arithmetic on vectors: f64 where any operand of the scores or of the result is.
DType attention_arithmetic(const AttentionOperands& operands);
// "generated/attention.inc" of the kernels without tensor cores: operand_lines, RLX_SCALE,
// RLX_SOFTCAP(s).
std::string attention_text(const AttentionProblem& problem, const AttentionOperands& operands);
// Whether such a kernel reads or writes four elements at a time: whole pieces of four, each
// aligned.
bool in_fours(const LowerContext& ctx, const Heads& heads, DType real);
// The alignment of such an access, 0 for that of an element.
uint32_t access_alignment(const LowerContext& ctx, const Heads& heads, DType real);
// What these kernels call by the same names beyond define_attention: q, k and v, bound, and the
// text.
template <typename Params>
void define_vector_attention(DispatchBuilder<Params>& dispatch, const LowerContext& ctx,
                             const AttentionProblem& problem, const AttentionOperands& o);

// Of each kernel, as a row of the table has them: why it does not take the call (empty where it
// does), what it takes, and its dispatches.
std::string attention_mma_refusal(const OfferContext& at, const AttentionCall& call);
double attention_mma_time(const OfferContext& at, const AttentionCall& call);
// The same of what is emitted for the queries up to those of `largest`.
double attention_mma_time_of(const OfferContext& at, const AttentionCall& largest,
                             const AttentionCall& call);
bool emit_attention_mma(LowerContext& ctx, const AttentionCall& call);

std::string attention_coop_refusal(const OfferContext& at, const AttentionCall& call);
double attention_coop_bound(const OfferContext& at, const AttentionCall& call);
// The same of what is emitted for the queries up to those of `largest`.
double attention_coop_bound_of(const OfferContext& at, const AttentionCall& largest,
                               const AttentionCall& call);
bool emit_attention_coop(LowerContext& ctx, const AttentionCall& call);

std::string attention_lanes_refusal(const OfferContext& at, const AttentionCall& call);
double attention_lanes_time(const OfferContext& at, const AttentionCall& call);
bool emit_attention_lanes(LowerContext& ctx, const AttentionCall& call);

std::string attention_decode_refusal(const OfferContext& at, const AttentionCall& call);
bool emit_attention_decode(LowerContext& ctx, const AttentionCall& call);

// Where keys are split over workgroups: what each of `splits` found of every row, by
// attention_decode.kernel's layout, and the dispatch of that kernel that merges it.
inline constexpr int64_t kMostSplits = 32;  // that one workgroup merges
TensorRef attention_partial(LowerContext& ctx, const AttentionCall& call, int64_t splits);
void emit_attention_merge(LowerContext& ctx, const AttentionCall& call, int64_t splits,
                          const TensorRef& partial);

std::span<const Offer<AttentionCall>> attention_offers();

// ---- templates ----

template <typename Params>
void define_attention(DispatchBuilder<Params>& dispatch, const AttentionProblem& problem,
                      const AttentionOperands& o, uint32_t bias_alignment) {
  constexpr int64_t kWidestWindow = int64_t{1} << 30;  // positions and windows add up in 32 bits
  dispatch.define("RLX_HEADS", problem.heads)
      .define("RLX_HEADS_PER_KV", problem.heads / problem.kv_heads)
      .size("RLX_SQ", problem.q_tokens)
      .size("RLX_SK", problem.kv_tokens)
      .define("RLX_D", problem.head_dim)
      .define("RLX_DV", problem.v_head_dim)
      .define("RLX_CAUSAL", problem.causal ? 1 : 0)
      .define("RLX_ALIGN_END", problem.align_end ? 1 : 0)
      .define("RLX_WINDOW_LEFT", std::min(problem.window_left, kWidestWindow))
      .define("RLX_WINDOW_RIGHT", std::min(problem.window_right, kWidestWindow));
  const auto masking = [&](const std::string& name, const std::optional<Heads>& heads,
                           rlx_ptr Params::*field, uint32_t alignment) {
    dispatch.define("RLX_HAS_" + name, heads ? 1 : 0);
    if (!heads) return;
    dispatch.define("RLX_" + name, dtype_text(heads->ref));
    if (problem.kv_tokens > 0) dispatch.read(field, heads->ref, alignment);
  };
  masking("MASK", o.mask, &Params::mask, 0);
  masking("BIAS", o.bias, &Params::bias, bias_alignment);
  const auto per_batch = [&](const std::string& name, const std::optional<TensorRef>& ref,
                             rlx_ptr Params::*field) {
    dispatch.define("RLX_HAS_" + name, ref ? 1 : 0);
    if (!ref) return;
    dispatch.define("RLX_" + name, dtype_text(*ref))
        .define("RLX_" + name + "_STRIDE", ref->strides.empty() ? Dim() : ref->strides[0])
        .read(field, *ref);
  };
  per_batch("KV_LEN", o.kv_len, &Params::kv_len);
  per_batch("Q_START", o.q_start, &Params::q_start);
  dispatch.define("RLX_HAS_SINKS", o.sinks ? 1 : 0);
  if (o.sinks) {
    dispatch.define("RLX_SINKS", dtype_text(*o.sinks))
        .define("RLX_SINKS_STRIDE", o.sinks->strides[0])
        .read(&Params::sinks, *o.sinks);
  }
  dispatch.define("RLX_HAS_LSE", o.lse ? 1 : 0);
  if (o.lse) dispatch.write(&Params::lse, *o.lse);
  dispatch.work(bytes_touched(o), flops_of(problem));
}

template <typename Params>
void define_vector_attention(DispatchBuilder<Params>& dispatch, const LowerContext& ctx,
                             const AttentionProblem& problem, const AttentionOperands& o) {
  const DType real = attention_arithmetic(o);
  const auto alignment = [&](const Heads& heads) { return access_alignment(ctx, heads, real); };
  dispatch.define("RLX_DOUBLE", real == DType::f64 ? 1 : 0)
      .define("RLX_Q", dtype_text(o.q.ref))
      .define("RLX_K", dtype_text(o.k.ref))
      .define("RLX_V", dtype_text(o.v.ref))
      .define("RLX_Q_WIDE", in_fours(ctx, o.q, real) ? 1 : 0)
      .define("RLX_K_WIDE", in_fours(ctx, o.k, real) ? 1 : 0)
      .define("RLX_V_WIDE", in_fours(ctx, o.v, real) ? 1 : 0)
      .define("RLX_Y_WIDE", in_fours(ctx, o.y, real) ? 1 : 0)
      .generated("attention.inc", attention_text(problem, o))
      .read(&Params::q, o.q.ref, alignment(o.q));
  if (is_float8(o.k.ref.dtype()) || is_float8(o.v.ref.dtype())) dispatch.define("RLX_FLOAT8", 1);
  if (problem.kv_tokens > 0) {
    dispatch.read(&Params::k, o.k.ref, alignment(o.k)).read(&Params::v, o.v.ref, alignment(o.v));
  }
}

}  // namespace rlx
