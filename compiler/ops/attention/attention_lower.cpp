// SPDX-License-Identifier: Apache-2.0
// Lowering of attention: one dispatch of the attention kernel, tiled by the sizes.
#include "compiler/ops/attention/attention_lower.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "schema/rounding.h"

namespace rlx {

namespace {

constexpr int64_t kLanes = 8;  // threads side by side: 4 keys and 4 columns each
constexpr int64_t kThreadRows = 16;
constexpr int64_t kColumnsPerBlock = 4 * kLanes;

// How a group shares the work; the names are those of the kernel's header comment.
struct Tiling {
  int64_t queries_per_thread = 1;
  int64_t column_blocks = 1;
  int64_t d4 = 1;
  int64_t dc4 = 1;
  int64_t pitch = 1;
  bool queries_resident = true;
  int64_t stage = 1;

  [[nodiscard]] int64_t tile_queries() const { return queries_per_thread * kThreadRows; }
};

// Shared memory stays within 32 KiB: staged keys 24 KiB or values, weights, queries and 1 KiB of
// reductions together. Doubles take half as many of everything that grows with the tile.
Tiling choose_tiling(const AttentionProblem& problem, DType real, const FullDevice& full) {
  const bool wide = real == DType::f64;
  const int64_t most_queries = wide ? 2 : 4;          // of a thread
  const int64_t accumulators = wide ? 8 : 16;         // pieces of four in registers
  const int64_t resident_pieces = wide ? 256 : 1024;  // 16 KiB, 8 KiB of doubles
  const int64_t chunk = wide ? 4 : 8;                 // pieces of a row at a time
  Tiling tiling;
  tiling.column_blocks = ceil_div(problem.v_head_dim, kColumnsPerBlock);
  tiling.d4 = ceil_div(problem.head_dim, 4);
  for (int64_t queries = most_queries; queries > 1; queries /= 2) {
    const int64_t groups =
        (problem.batch * problem.heads * ceil_div(problem.q_tokens, queries * kThreadRows)).bound();
    if (queries * tiling.column_blocks > accumulators || groups < full.attention_groups) continue;
    tiling.queries_per_thread = queries;
    break;
  }
  // Of six or seven blocks behind heads of 256, masked, LLVM 19.1.7 makes no code: "Cannot emit
  // physreg copy instruction" ends the process of lavapipe.
  if (problem.head_dim == 256 && (tiling.column_blocks == 6 || tiling.column_blocks == 7))
    tiling.column_blocks = 8;
  tiling.dc4 = std::min(tiling.d4, chunk);
  tiling.pitch = tiling.dc4 | 1;
  tiling.queries_resident = tiling.tile_queries() * tiling.d4 <= resident_pieces;
  const int64_t scores_stage = 4 * kLanes * tiling.pitch +
                               (tiling.queries_resident ? 0 : tiling.tile_queries() * tiling.dc4);
  tiling.stage = std::max(scores_stage, 4 * kLanes * kLanes);
  return tiling;
}

// q, k or v in a tensor that holds it under the problem's layout.
Heads heads_in(const AttentionProblem& problem, uint32_t which, const TensorRef& ref) {
  const HeadsView view = attention_view(problem, which, ref.strides);
  const int64_t heads = which == 0 ? problem.heads : problem.kv_heads;
  const Dim tokens = which == 0 ? problem.q_tokens : problem.kv_tokens;
  TensorRef moved{.buffer = ref.buffer,
                  .offset_bytes = ref.offset_bytes + view.offset * element_bytes(ref.dtype()),
                  .type = {.dtype = ref.dtype(),
                           .shape = {problem.batch, heads, tokens,
                                     which == 2 ? problem.v_head_dim : problem.head_dim}},
                  .strides = {view.batch, view.head, view.token, view.dim}};
  return {.ref = moved, .view = view};
}

Heads heads_of(LowerContext& ctx, const AttentionProblem& problem, uint32_t which) {
  const size_t input = problem.packed == "none" ? which : 0;
  const TensorRef ref = ctx.input(input);
  // The head stride of bsd is a multiple of the last stride, so a last stride of 1 is all that the
  // kernel needs.
  const bool is_dense = attention_view(problem, which, ref.strides).dim == 1;
  return heads_in(problem, which, is_dense ? ref : ctx.dense_input(input));
}

Heads results_in(const AttentionProblem& problem, TensorRef y) {
  const HeadsView view = attention_output_view(problem);
  y.type.shape = {problem.batch, problem.heads, problem.q_tokens, problem.v_head_dim};
  y.strides = {view.batch, view.head, view.token, view.dim};
  return {.ref = y, .view = view};
}

Heads mask_in(const AttentionProblem& problem, const TensorRef& ref) {
  return {.ref = ref, .view = attention_mask_view(problem, ref.shape(), ref.strides)};
}

using AttentionDispatch = DispatchBuilder<AttentionParams>;

void define_tiling(AttentionDispatch& dispatch, const AttentionProblem& problem,
                   const Tiling& tiling) {
  const Dim query_tiles = ceil_div(problem.q_tokens, tiling.tile_queries());
  const Dim groups = problem.batch * problem.heads * query_tiles;
  const Grid grid = split_grid(groups);
  dispatch.workgroup({static_cast<uint32_t>(kLanes * kThreadRows), 1, 1})
      .define("RLX_LANES", kLanes)
      .define("RLX_ROWS", kThreadRows)
      .define("RLX_BY_COLUMN", 0)
      .define("RLX_RQ", tiling.queries_per_thread)
      .define("RLX_NV", tiling.column_blocks)
      .define("RLX_D4", tiling.d4)
      .define("RLX_DC4", tiling.dc4)
      .define("RLX_KP", tiling.pitch)
      .define("RLX_STAGE", tiling.stage)
      .define("RLX_Q_RESIDENT", tiling.queries_resident ? 1 : 0)
      .size("RLX_QUERY_TILES", query_tiles)
      .define("RLX_GROUPS", integer_text(groups))
      .grid(grid.x, grid.y, grid.z);
}

std::string reason_of(const Tiling& tiling) {
  return "tiles of " + std::to_string(tiling.tile_queries()) + " queries";
}

bool emit_attention(LowerContext& ctx, const AttentionCall& call) {
  const AttentionProblem& problem = call.problem;
  const AttentionOperands& o = call.operands;
  const bool selective = problem.causal || problem.window_left >= 0 || problem.window_right >= 0 ||
                         o.mask.has_value() || o.bias.has_value();
  const DType real = attention_arithmetic(o);
  const Tiling tiling = choose_tiling(problem, real, ctx.target().device.full);
  auto dispatch = ctx.dispatch<KernelId::attention>();
  define_attention(dispatch, problem, o);
  dispatch.define("RLX_SELECTIVE", selective ? 1 : 0).reason(reason_of(tiling));
  define_tiling(dispatch, problem, tiling);
  define_vector_attention(dispatch, ctx, problem, o);
  dispatch.write(&AttentionParams::y, o.y.ref, access_alignment(ctx, o.y, real));
  return true;
}

std::string stride_lines(const std::string& name, const HeadsView& view, bool with_keys) {
  const auto line = [&](const char* suffix, const Dim& stride) {
    return define_line("RLX_" + name + suffix, "RLX_INDEX(" + integer_text(stride) + ")");
  };
  return line("_B", view.batch) + line("_H", view.head) + line("_S", view.token) +
         (with_keys ? line("_K", view.dim) : "");
}

std::string attends_text(DType dtype) {
  if (dtype == DType::bool_) return "(m)";
  return is_float(dtype) ? "((m) >= 0.5f)" : "((m) > 0)";
}

AttentionOperands operands_of(LowerContext& ctx, const AttentionProblem& problem) {
  const auto optional_input = [&](size_t input) {
    return ctx.has_input(input) ? std::optional(ctx.input(input)) : std::nullopt;
  };
  const auto masking = [&](size_t input) {
    return ctx.has_input(input) ? std::optional(mask_in(problem, ctx.input(input))) : std::nullopt;
  };
  return {.q = heads_of(ctx, problem, 0),
          .k = heads_of(ctx, problem, 1),
          .v = heads_of(ctx, problem, 2),
          .y = results_in(problem, ctx.output(0)),
          .mask = masking(kAttentionMask),
          .bias = masking(kAttentionBias),
          .kv_len = optional_input(kAttentionKvLen),
          .q_start = optional_input(kAttentionQStart),
          .lse = ctx.has_output(1) ? std::optional(ctx.output(1)) : std::nullopt,
          .sinks = optional_input(kAttentionSinks)};
}

// ---- the choice ----

double thread_bound(const OfferContext& at, const AttentionCall& call) {
  return thread_bound_microseconds(at.device(), work_of(call));
}

// Times its bound that a tile of threads takes on a GPU: 128 heads of 36, 256 tokens of f16, 122 to
// 137 us on an H200's Vulkan, where the bound says 21 beside the step itself.
double tiles_time(const OfferContext& at, const AttentionCall& call) {
  constexpr double kOfBound = 5;
  const double step = at.device().step_microseconds;
  const double bound = thread_bound(at, call);
  return at.device().is_cpu() ? bound : step + kOfBound * (bound - step);
}

// The same of what is emitted for the queries up to those of `largest`, of whose tiles the last one
// is not full.
double tiles_time_of(const OfferContext& at, const AttentionCall& largest,
                     const AttentionCall& call) {
  const Tiling tiling =
      choose_tiling(largest.problem, attention_arithmetic(largest.operands), at.device().full);
  const auto queries = static_cast<double>(call.problem.q_tokens.bound());
  const auto computed =
      static_cast<double>(round_up(call.problem.q_tokens.bound(), tiling.tile_queries()));
  const double step = at.device().step_microseconds;
  return step + (tiles_time(at, call) - step) * computed / queries;
}

constexpr std::array kAttentionOffers = {
    // Matrix units are several times faster than threads, so they take what they can.
    Offer<AttentionCall>{.kernel = KernelId::attention_mma,
                         .rank = 0,
                         .refusal = attention_mma_refusal,
                         .microseconds = attention_mma_time,
                         .emit = emit_attention_mma,
                         .takes_free_sizes = true,
                         .microseconds_of = attention_mma_time_of},
    Offer<AttentionCall>{.kernel = KernelId::attention_coop,
                         .rank = 0,
                         .estimate = Estimate::Bound,
                         .refusal = attention_coop_refusal,
                         .microseconds = attention_coop_bound,
                         .emit = emit_attention_coop,
                         .takes_free_sizes = true,
                         .microseconds_of = attention_coop_bound_of},
    // On a CPU loads cost most, and its lanes make them for each other.
    Offer<AttentionCall>{.kernel = KernelId::attention_lanes,
                         .rank = 0,
                         .refusal = attention_lanes_refusal,
                         .microseconds = attention_lanes_time,
                         .emit = emit_attention_lanes,
                         .is_for = [](const DeviceModel& device) { return device.is_cpu(); },
                         .takes_free_sizes = true},
    // Tiles of queries stay mostly empty where it fits.
    Offer<AttentionCall>{.kernel = KernelId::attention_decode,
                         .rank = 1,
                         .estimate = Estimate::Bound,
                         .refusal = attention_decode_refusal,
                         .microseconds = thread_bound,
                         .emit = emit_attention_decode},
    // Takes everything.
    Offer<AttentionCall>{
        .kernel = KernelId::attention,
        .rank = 2,
        .refusal = [](const OfferContext&, const AttentionCall&) { return std::string(); },
        .microseconds = tiles_time,
        .emit = emit_attention,
        .takes_free_sizes = true,
        .microseconds_of = tiles_time_of},
};

}  // namespace

bool has_free_sizes(const AttentionCall& call) {
  return has_free_sizes(call.problem);
}

std::optional<Dim> sizing(const AttentionCall& call) {
  const Dim& queries = call.problem.q_tokens;
  return queries.is_free() ? std::optional(queries) : std::nullopt;
}

AttentionCall at_size(const AttentionCall& call, int64_t most) {
  const SizesAt at(call.problem.q_tokens, most);
  AttentionCall fixed = call;
  for (Dim* size : {&fixed.problem.batch, &fixed.problem.q_tokens, &fixed.problem.kv_tokens})
    at.fix(*size);
  const auto fix_heads = [&at](Heads& heads) {
    at.fix(heads.ref);
    HeadsView& view = heads.view;
    for (Dim* size : {&view.offset, &view.batch, &view.head, &view.token, &view.dim}) at.fix(*size);
  };
  AttentionOperands& o = fixed.operands;
  for (Heads* heads : {&o.q, &o.k, &o.v, &o.y}) fix_heads(*heads);
  for (std::optional<Heads>* heads : {&o.mask, &o.bias})
    if (*heads) fix_heads(**heads);
  for (std::optional<TensorRef>* ref : {&o.kv_len, &o.q_start, &o.lse, &o.sinks})
    if (*ref) at.fix(**ref);
  return fixed;
}

AttentionCall for_sizes(const AttentionCall& call, const ServedSizes& served) {
  AttentionCall part = call;
  part.problem.q_tokens = within(served);
  if (call.problem.kv_tokens == call.problem.q_tokens)
    part.problem.kv_tokens = part.problem.q_tokens;
  return part;
}

DType attention_arithmetic(const AttentionOperands& o) {
  const auto is_double = [](const Heads& heads) { return heads.ref.dtype() == DType::f64; };
  const bool wide =
      is_double(o.q) || is_double(o.k) || is_double(o.v) || (o.bias && is_double(*o.bias));
  return wide ? DType::f64 : DType::f32;
}

std::string attention_text(const AttentionProblem& problem, const AttentionOperands& o) {
  const DType real = attention_arithmetic(o);
  std::string text = operand_lines(problem, o);
  text += define_line("RLX_SCALE", literal(real, problem.scale));
  const std::string cap = literal(real, problem.softcap);
  text += define_line("RLX_SOFTCAP(s)",
                      problem.softcap > 0 ? "(" + cap + " * rlx_tanh((s) / " + cap + "))" : "(s)");
  return text;
}

bool in_fours(const LowerContext& ctx, const Heads& heads, DType real) {
  const DType dtype = heads.ref.dtype();
  if (real == DType::f64 || ctx.alignment(heads.ref) < 4 * element_bytes(dtype)) return false;
  return heads.ref.shape()[3].divides_by(4) && heads.view.batch.divides_by(4) &&
         heads.view.head.divides_by(4) && heads.view.token.divides_by(4);
}

uint32_t access_alignment(const LowerContext& ctx, const Heads& heads, DType real) {
  return in_fours(ctx, heads, real) ? 4 * element_bytes(heads.ref.dtype()) : 0;
}

std::string dtype_text(const TensorRef& ref) {
  return std::string(name_of(ref.dtype()));
}

std::string operand_lines(const AttentionProblem& problem, const AttentionOperands& o) {
  std::vector<const TensorRef*> views = {&o.q.ref, &o.k.ref, &o.v.ref, &o.y.ref};
  if (o.mask) views.push_back(&o.mask->ref);
  if (o.bias) views.push_back(&o.bias->ref);
  std::string text = define_line(
      "RLX_INDEX",
      index_type(views, (problem.batch * problem.heads * (problem.q_tokens + 1)).range().most));
  text += stride_lines("Q", o.q.view, false) + stride_lines("K", o.k.view, false) +
          stride_lines("V", o.v.view, false) + stride_lines("Y", o.y.view, false);
  if (o.mask) {
    text += stride_lines("MASK", o.mask->view, true);
    text += define_line("RLX_ATTENDS(m)", attends_text(o.mask->ref.dtype()));
  }
  if (o.bias) text += stride_lines("BIAS", o.bias->view, true);
  return text;
}

std::string weight_lines(const AttentionProblem& problem, const AttentionOperands& o) {
  const double log2_e = std::log2(std::exp(1.0));
  // A positive factor alone goes into the exponent.
  if (problem.softcap == 0 && problem.scale > 0 && !o.bias) {
    return define_line("RLX_SCORE(s)", "(s)") +
           define_line("RLX_EXPONENT", literal(DType::f32, problem.scale * log2_e));
  }
  const std::string scaled = "((s) * " + literal(DType::f32, problem.scale) + ")";
  const std::string cap = literal(DType::f32, problem.softcap);
  const std::string score =
      problem.softcap > 0 ? "(" + cap + " * rlx_tanh(" + scaled + " / " + cap + "))" : scaled;
  return define_line("RLX_SCORE(s)", score) +
         define_line("RLX_EXPONENT", literal(DType::f32, log2_e));
}

const char* misaligned_operand(const OfferContext& at, const AttentionOperands& o) {
  struct Named {
    const char* name;
    const Heads* heads;
  };
  for (const Named& named :
       {Named{"q", &o.q}, Named{"k", &o.k}, Named{"v", &o.v}, Named{"y", &o.y}}) {
    const Heads& heads = *named.heads;
    const int64_t piece = kWidestAccessBytes / element_bytes(heads.ref.dtype());
    const HeadsView& view = heads.view;
    const bool whole = view.dim == 1 && view.batch.divides_by(piece) &&
                       view.head.divides_by(piece) && view.token.divides_by(piece);
    if (!whole || at.alignment(heads.ref) < kWidestAccessBytes) return named.name;
  }
  return nullptr;
}

Dim bytes_touched(const AttentionOperands& o) {
  Dim bytes = 0;
  for (const Heads* heads : {&o.q, &o.k, &o.v, &o.y}) bytes += byte_size(heads->ref.type);
  if (o.mask) bytes += byte_size(o.mask->ref.type);
  if (o.bias) bytes += byte_size(o.bias->ref.type);
  if (o.sinks) bytes += byte_size(o.sinks->type);
  return bytes;
}

Dim flops_of(const AttentionProblem& problem) {
  return 2 * problem.batch * problem.heads * problem.q_tokens * problem.kv_tokens *
         (problem.head_dim + problem.v_head_dim);
}

StepWork work_of(const AttentionCall& call) {
  return {.bytes = static_cast<uint64_t>(bytes_touched(call.operands).bound()),
          .flops = static_cast<uint64_t>(flops_of(call.problem).bound())};
}

std::span<const Offer<AttentionCall>> attention_offers() {
  return kAttentionOffers;
}

AttentionCall attention_of_types(const AttentionProblem& problem,
                                 const std::vector<std::optional<TensorType>>& inputs) {
  const auto tensor = [&](size_t input) -> std::optional<TensorRef> {
    if (input >= inputs.size() || !inputs[input]) return std::nullopt;
    return dense_ref({}, *inputs[input]);
  };
  const auto masking = [&](size_t input) -> std::optional<Heads> {
    const std::optional<TensorRef> ref = tensor(input);
    return ref ? std::optional(mask_in(problem, *ref)) : std::nullopt;
  };
  const auto heads = [&](uint32_t which) {
    return heads_in(problem, which, tensor(problem.packed == "none" ? which : 0).value());
  };
  const TensorType y = {inputs[kAttentionQ]->dtype, attention_output_shape(problem)};
  return {.problem = problem,
          .operands = {.q = heads(0),
                       .k = heads(1),
                       .v = heads(2),
                       .y = results_in(problem, dense_ref({}, y)),
                       .mask = masking(kAttentionMask),
                       .bias = masking(kAttentionBias),
                       .kv_len = tensor(kAttentionKvLen),
                       .q_start = tensor(kAttentionQStart),
                       .lse = std::nullopt,
                       .sinks = tensor(kAttentionSinks)}};
}

bool lower_attention(LowerContext& ctx) {
  std::vector<std::optional<TensorType>> types;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    types.push_back(ctx.has_input(i) ? std::optional(ctx.input_type(i)) : std::nullopt);
  }
  const std::optional<AttentionProblem> problem = attention_problem(ctx, types);
  if (!problem) return false;
  if (problem->batch * problem->heads * problem->q_tokens == 0) return true;
  return lower_by_offers(ctx, attention_offers(),
                         AttentionCall{*problem, operands_of(ctx, *problem)});
}

}  // namespace rlx
