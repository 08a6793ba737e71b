// SPDX-License-Identifier: Apache-2.0
// Plans and dispatches of the matvec_stream kernel.
#include "compiler/ops/matvec_stream_lower.h"

#include <algorithm>

#include "compiler/ops/region_codegen.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

constexpr int64_t kPieceBytes = 16;
constexpr int64_t kMostVectors = 8;
// Registers of a thread that hold its part of x.
constexpr int64_t kVectorRegisters = 64;
// Bytes under way per workgroup. One workgroup on each multiprocessor; the next step's finds room
// beside it, and has loaded as much before this one is done.
constexpr int64_t kRingBytes = 96 * 1024;
constexpr int64_t kThreads = 256;
// Rows of a stage: enough that a stage's reduction is spread over its lanes, few enough that stages
// are short.
constexpr int64_t kStageRows = 4;
constexpr int64_t kMostStageSums = 32;
// Shared bytes in which the warps' sums meet, of two flushes.
constexpr int64_t kSumBytes = 8 * 1024;
constexpr int64_t kMostFlushOutputs = 64;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

bool is_short_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

StreamShape shape_of(const StreamedProduct& streamed) {
  const Product& product = streamed.product;
  return {.m = product.m,
          .n = product.n,
          .k = product.k,
          .gated = streamed.second.has_value(),
          .x = product.a.ref.dtype(),
          .w = product.b.ref.dtype()};
}

// Lines of whole aligned pieces, contiguous along the depth.
bool streams_rows(const LowerContext& ctx, const ProductOperand& operand, int64_t lines,
                  int64_t piece) {
  return operand.depth == 1 && ctx.alignment(operand.ref) >= kPieceBytes &&
         (lines == 1 || operand.line % piece == 0);
}

bool is_column_vector(const std::optional<AddedOperand>& added) {
  return !added || (added->m == 0 && added->n == 1 && added->batch.empty());
}

bool is_dense_result(const std::optional<AddedOperand>& added, int64_t m, int64_t n) {
  return !added || (added->batch.empty() && (n == 1 || added->n == 1) && (m == 1 || added->m == n));
}

}  // namespace

std::optional<StreamPlan> plan_stream(const StreamShape& shape, const DeviceModel& device) {
  const int64_t piece = kPieceBytes / element_bytes(shape.w);
  if (shape.m < 1 || shape.m > kMostVectors || shape.n < 1 || shape.k < piece ||
      shape.k % piece != 0)
    return std::nullopt;
  const int64_t row_pieces = shape.k / piece;
  const int64_t pair = shape.gated ? 2 : 1;
  StreamPlan plan;
  const auto registers = [&] { return shape.m * ceil_div(row_pieces, plan.lanes) * piece; };
  while (plan.lanes < kThreads && plan.lanes < row_pieces) plan.lanes *= 2;
  while (plan.lanes < 2 * kThreads && registers() > kVectorRegisters) plan.lanes *= 2;
  if (registers() > kVectorRegisters) return std::nullopt;
  plan.pieces = ceil_div(row_pieces, plan.lanes);
  plan.teams = std::max<int64_t>(1, kThreads / plan.lanes);
  plan.groups = std::min<int64_t>(device.multiprocessors, ceil_div(shape.n, plan.teams));

  const auto stage_bytes = [&] {
    return plan.stage_units * pair * plan.pieces * plan.threads() * kPieceBytes;
  };
  plan.stage_units = std::max<int64_t>(1, kStageRows / (pair * plan.pieces));
  while (plan.stage_units > 1 && plan.stage_units * pair * shape.m > kMostStageSums)
    plan.stage_units /= 2;
  const int64_t ring =
      std::min<int64_t>(kRingBytes, static_cast<int64_t>(device.shared_bytes) - kSumBytes);
  if (2 * stage_bytes() > ring) return std::nullopt;
  plan.depth = ring / stage_bytes();

  const int64_t unit_sum_bytes = 2 * pair * shape.m * (plan.lanes / 32) * int64_t{sizeof(float)};
  const int64_t units =
      std::min({kMostFlushOutputs, plan.threads() / shape.m, kSumBytes / unit_sum_bytes});
  plan.flush = std::max<int64_t>(1, units / (plan.teams * plan.stage_units));
  if (plan.teams * plan.stage_units * shape.m > plan.threads()) return std::nullopt;
  return plan;
}

bool streams(const Target& target, const StreamShape& shape) {
  return target.offers(KernelId::matvec_stream) && is_short_float(shape.x) &&
         is_short_float(shape.w) && plan_stream(shape, target.device).has_value();
}

bool stream_fits(const LowerContext& ctx, const StreamedProduct& streamed) {
  const Product& product = streamed.product;
  if (!product.batch.empty() || !streams(ctx.target(), shape_of(streamed))) return false;
  const int64_t piece = kPieceBytes / element_bytes(product.b.ref.dtype());
  if (!streams_rows(ctx, product.a, product.m, piece) ||
      !streams_rows(ctx, product.b, product.n, piece))
    return false;
  if (streamed.second) {
    const bool alike = streamed.second->line == product.b.line &&
                       streamed.second->ref.dtype() == product.b.ref.dtype();
    if (!alike || !streams_rows(ctx, *streamed.second, product.n, piece)) return false;
  }
  return is_column_vector(product.bias) && is_column_vector(streamed.second_bias) &&
         is_dense_result(product.residual, product.m, product.n);
}

namespace {

using StreamDispatch = DispatchBuilder<MatvecStreamParams>;

// Weights may be read before the steps that this one depends on are complete.
bool reads_weights_only(const LowerContext& ctx, const StreamedProduct& streamed) {
  const auto is_weight = [&ctx](const TensorRef& ref) {
    return ctx.segment_of(ref) == Segment::Weights;
  };
  return is_weight(streamed.product.b.ref) &&
         (!streamed.second || is_weight(streamed.second->ref)) &&
         (!streamed.norm || !streamed.norm->gamma || is_weight(*streamed.norm->gamma));
}

void define_operands(const LowerContext& ctx, StreamDispatch& dispatch,
                     const StreamedProduct& streamed) {
  const Product& product = streamed.product;
  dispatch.define("RLX_M", product.m)
      .define("RLX_N", product.n)
      .define("RLX_K", product.k)
      .define("RLX_X", std::string(name_of(product.a.ref.dtype())))
      .define("RLX_W", std::string(name_of(product.b.ref.dtype())))
      .define("RLX_Y", std::string(name_of(product.y.dtype())))
      .define("RLX_X_LINE", product.m == 1 ? product.k : product.a.line)
      .define("RLX_W_LINE", product.n == 1 ? product.k : product.b.line)
      .define("RLX_W_EARLY", reads_weights_only(ctx, streamed) ? 1 : 0)
      .define("RLX_GATED", streamed.second ? 1 : 0)
      .define("RLX_NORM", streamed.norm ? 1 : 0)
      .define("RLX_ACTIVATION", product.activation.none() ? 0 : 1)
      .read(&MatvecStreamParams::x, product.a.ref, kPieceBytes)
      .read(&MatvecStreamParams::w, product.b.ref, kPieceBytes);
  if (!product.activation.none())
    dispatch.generated("epilogue.inc", activation_source(product.activation, DType::f32));
  if (streamed.second) dispatch.read(&MatvecStreamParams::w2, streamed.second->ref, kPieceBytes);
  if (!streamed.norm) return;
  dispatch.define("RLX_EPS", literal(DType::f32, streamed.norm->eps))
      .define("RLX_GAMMA_OFFSET", literal(DType::f32, streamed.norm->gamma_offset));
  if (!streamed.norm->gamma) return;
  dispatch.define("RLX_GAMMA", std::string(name_of(streamed.norm->gamma->dtype())))
      .read(&MatvecStreamParams::gamma, *streamed.norm->gamma);
}

// True where a thread's write may take the place of the residual that it read: no other operand is
// there.
bool residual_may_go(const StreamedProduct& streamed) {
  const Product& product = streamed.product;
  const TensorRef& residual = product.residual->ref;
  const auto elsewhere = [&residual](const TensorRef& ref) {
    return ref.buffer != residual.buffer;
  };
  return residual.dense() && residual.dtype() == product.y.dtype() && elsewhere(product.a.ref) &&
         elsewhere(product.b.ref) && (!streamed.second || elsewhere(streamed.second->ref)) &&
         (!product.bias || elsewhere(product.bias->ref)) &&
         (!streamed.second_bias || elsewhere(streamed.second_bias->ref)) &&
         (!streamed.norm || !streamed.norm->gamma || elsewhere(*streamed.norm->gamma)) &&
         element_count(residual.shape()) == element_count(product.y.shape());
}

void bind_epilogue(StreamDispatch& dispatch, const StreamedProduct& streamed) {
  const Product& product = streamed.product;
  const auto bind = [&dispatch](const char* name, rlx_ptr MatvecStreamParams::*field,
                                const std::optional<AddedOperand>& added) {
    if (added)
      dispatch.define(name, std::string(name_of(added->ref.dtype()))).read(field, added->ref);
  };
  bind("RLX_BIAS", &MatvecStreamParams::bias, product.bias);
  bind("RLX_BIAS2", &MatvecStreamParams::bias2, streamed.second_bias);
  bind("RLX_RESIDUAL", &MatvecStreamParams::residual, product.residual);
  dispatch.write(&MatvecStreamParams::y, product.y);
  if (product.residual && residual_may_go(streamed)) dispatch.allow_in_place(product.residual->ref);
}

uint64_t bytes_of(const StreamedProduct& streamed) {
  const Product& product = streamed.product;
  uint64_t bytes = byte_size(product.y.type) + product.a.ref.byte_range().length_bytes +
                   product.b.ref.byte_range().length_bytes;
  if (streamed.second) bytes += streamed.second->ref.byte_range().length_bytes;
  if (product.residual) bytes += product.residual->ref.byte_range().length_bytes;
  return bytes;
}

std::string reason_of(const StreamedProduct& streamed, const StreamPlan& plan, int64_t ring_bytes) {
  std::string text = streamed.product.note.empty() ? "" : streamed.product.note + ": ";
  text += "matvec_stream: m=" + std::to_string(streamed.product.m);
  if (streamed.norm) text += ", rms_norm first";
  if (streamed.second) text += ", gated pair";
  return text + ", " + std::to_string(plan.groups) + " workgroups with " +
         std::to_string(ring_bytes / 1024) + " KiB under way";
}

}  // namespace

void emit_stream(LowerContext& ctx, const StreamedProduct& streamed) {
  const StreamPlan plan = plan_stream(shape_of(streamed), ctx.target().device).value();
  const int64_t pair = streamed.second ? 2 : 1;
  const int64_t ring_bytes =
      plan.depth * plan.stage_units * pair * plan.pieces * plan.threads() * kPieceBytes;
  const Product& product = streamed.product;
  auto dispatch = ctx.dispatch<KernelId::matvec_stream>();
  dispatch.workgroup({narrow<uint32_t>(plan.threads()), 1, 1})
      .define("RLX_LANES", plan.lanes)
      .define("RLX_TEAMS", plan.teams)
      .define("RLX_PIECES", plan.pieces)
      .define("RLX_STAGE_UNITS", plan.stage_units)
      .define("RLX_DEPTH", plan.depth)
      .define("RLX_FLUSH", plan.flush)
      .define("RLX_GROUPS", plan.groups)
      .grid(static_cast<uint64_t>(plan.groups))
      .work(bytes_of(streamed), 2 * static_cast<uint64_t>(product.m * product.n) *
                                    static_cast<uint64_t>(product.k * pair))
      .reason(reason_of(streamed, plan, ring_bytes));
  define_operands(ctx, dispatch, streamed);
  bind_epilogue(dispatch, streamed);
}

}  // namespace rlx
