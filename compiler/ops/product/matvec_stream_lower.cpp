// SPDX-License-Identifier: Apache-2.0
// Plans and dispatches of the matvec_stream kernel.
#include "compiler/ops/product/matvec_stream_lower.h"

#include <algorithm>

#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/product/matmul_emit.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kMostVectors = 8;
// Registers of a thread that hold its part of x, and these with the sums of a stage.
constexpr int64_t kVectorRegisters = 64;
constexpr int64_t kStageRegisters = 72;
// Bytes of the ring. One workgroup on each multiprocessor; the next step's finds room beside it,
// and has filled its own ring before this one is done.
constexpr int64_t kRingBytes = 96 * 1024;
constexpr int64_t kStageBytes = 16 * 1024;
// Few enough that the small steps between two products find registers beside both of them.
constexpr int64_t kConsumers = 256;
constexpr int64_t kWidestRow = 256;  // lanes, unless x needs more registers
// Sums that a thread keeps before they meet, and shared bytes in which they do (two flushes).
constexpr int64_t kBatchSums = 16;
constexpr int64_t kMeetingBytes = 2 * 1024;
// Shared memory of the kernel's own: barriers and alignment.
constexpr int64_t kSpareBytes = 1024;

StreamShape shape_of(const FusedProduct& fused) {
  const Product& product = fused.product;
  return {.m = product.m,
          .n = product.n,
          .k = product.k,
          .gated = fused.second.has_value(),
          .x = product.a.ref.dtype(),
          .w = product.b.ref.dtype()};
}

// Lines of whole aligned pieces, contiguous along the depth.
bool streams_rows(const OfferContext& at, const ProductOperand& operand, int64_t lines,
                  int64_t piece) {
  return operand.depth == 1 && at.alignment(operand.ref) >= kWidestAccessBytes &&
         (lines == 1 || operand.line % piece == 0);
}

bool is_column_vector(const std::optional<AddedOperand>& added) {
  return !added || (added->m == 0 && added->n == 1 && added->batch.empty());
}

bool is_dense_result(const std::optional<AddedOperand>& added, int64_t m, int64_t n) {
  return !added || (added->batch.empty() && (n == 1 || added->n == 1) && (m == 1 || added->m == n));
}

}  // namespace

namespace {

// Lanes and pieces: x of `m` vectors in registers; 0 lanes where it does not fit.
void plan_lanes(StreamPlan& plan, const StreamShape& shape, int64_t piece) {
  const int64_t row_pieces = shape.k / piece;
  const auto pieces = [&] { return ceil_div(row_pieces, plan.lanes); };
  const auto registers = [&] { return shape.m * pieces() * piece; };
  while (plan.lanes < kWidestRow && plan.lanes < row_pieces) plan.lanes *= 2;
  while (plan.lanes < kConsumers && (pieces() > 2 || registers() > kVectorRegisters))
    plan.lanes *= 2;
  plan.pieces = pieces();
  plan.teams = kConsumers / plan.lanes;
  plan.groups_per_multiprocessor = registers() <= 16 ? 2 : 1;
  const int64_t sums = shape.m * (shape.gated ? 2 : 1);
  const bool fits = registers() <= kVectorRegisters && registers() + sums <= kStageRegisters;
  if (!fits) plan.lanes = 0;
}

// Shared bytes where the sums of a flush meet, twice, and those of the squares.
int64_t meeting_bytes(const StreamPlan& plan, const StreamShape& shape, int64_t pair) {
  const int64_t units = plan.flush * plan.batch * plan.stage_units * plan.teams;
  return (2 * units * pair + 1) * shape.m * (plan.lanes / 32) * int64_t{sizeof(float)};
}

}  // namespace

std::optional<StreamPlan> plan_stream(const StreamShape& shape, const DeviceModel& device) {
  const int64_t piece = kWidestAccessBytes / element_bytes(shape.w);
  const bool fits = shape.m >= 1 && shape.m <= kMostVectors && shape.n >= 1 && shape.k >= piece;
  if (!fits || shape.k % piece != 0) return std::nullopt;
  const int64_t pair = shape.gated ? 2 : 1;
  StreamPlan plan;
  plan_lanes(plan, shape, piece);
  if (plan.lanes == 0) return std::nullopt;
  plan.groups = std::min<int64_t>(device.multiprocessors, ceil_div(shape.n, plan.teams));

  const int64_t unit_bytes = plan.teams * shape.k * element_bytes(shape.w) * pair;
  while (2 * plan.stage_units * unit_bytes <= kStageBytes &&
         2 * plan.stage_units * pair * shape.m <= kBatchSums) {
    plan.stage_units *= 2;
  }
  plan.stage_bytes = plan.stage_units * unit_bytes;
  const int64_t stages = ceil_div(ceil_div(shape.n, plan.groups), plan.teams * plan.stage_units);
  plan.batch = std::clamp<int64_t>(kBatchSums / (plan.stage_units * pair * shape.m), 1, stages);
  const auto outputs = [&] { return plan.flush * plan.batch * plan.stage_units * plan.teams; };
  if (outputs() * shape.m > kConsumers) return std::nullopt;
  for (;;) {
    ++plan.flush;
    if (meeting_bytes(plan, shape, pair) <= kMeetingBytes && outputs() * shape.m <= kConsumers)
      continue;
    --plan.flush;
    break;
  }
  const int64_t ring =
      std::min<int64_t>(kRingBytes, static_cast<int64_t>(device.shared_bytes) - kSpareBytes -
                                        meeting_bytes(plan, shape, pair));
  plan.depth = ring / plan.stage_bytes;
  if (plan.depth < 2) return std::nullopt;
  plan.pace = std::clamp<int64_t>(device.stream.pace_bytes / plan.stage_bytes, 1, plan.depth);
  return plan;
}

std::string stream_refusal(const OfferContext& at, const FusedProduct& fused) {
  const Product& product = fused.product;
  if (product.m > kMostVectors) return "more than " + std::to_string(kMostVectors) + " vectors";
  if (!product.batch.empty()) return "a batch";
  if (product.y_lines) return "a result whose lines stand apart";
  const StreamShape shape = shape_of(fused);
  if (!is_short_float(shape.x) || !is_short_float(shape.w))
    return "operands of " + std::string(name_of(shape.x)) + " and " + std::string(name_of(shape.w));
  if (!plan_stream(shape, at.device())) return "rows that registers or shared memory do not hold";
  const int64_t piece = kWidestAccessBytes / element_bytes(product.b.ref.dtype());
  const bool rows = streams_rows(at, product.a, product.m, piece) &&
                    streams_rows(at, product.b, product.n, piece) &&
                    (!fused.second || streams_rows(at, *fused.second, product.n, piece));
  if (!rows) return "operands that are no rows of aligned 16-byte pieces";
  if (fused.second && (fused.second->line != product.b.line ||
                       fused.second->ref.dtype() != product.b.ref.dtype())) {
    return "a second matrix unlike the first";
  }
  if (!is_column_vector(product.bias) || !is_column_vector(fused.second_bias))
    return "a bias that is no vector over n";
  return is_dense_result(product.residual, product.m, product.n) ? ""
                                                                 : "a residual that is no rows";
}

namespace {

using StreamDispatch = DispatchBuilder<MatvecStreamParams>;

// Weights may be read before the steps that this one depends on are complete.
bool reads_weights_only(const LowerContext& ctx, const FusedProduct& fused) {
  const auto is_weight = [&ctx](const TensorRef& ref) {
    return ctx.segment_of(ref) == Segment::Weights;
  };
  return is_weight(fused.product.b.ref) && (!fused.second || is_weight(fused.second->ref)) &&
         (!fused.norm || !fused.norm->gamma || is_weight(*fused.norm->gamma));
}

void define_operands(const LowerContext& ctx, StreamDispatch& dispatch, const FusedProduct& fused) {
  const Product& product = fused.product;
  dispatch.define("RLX_M", product.m)
      .define("RLX_N", product.n)
      .define("RLX_K", product.k)
      .define("RLX_X", std::string(name_of(product.a.ref.dtype())))
      .define("RLX_W", std::string(name_of(product.b.ref.dtype())))
      .define("RLX_Y", std::string(name_of(product.y.dtype())))
      .define("RLX_X_LINE", product.m == 1 ? product.k : product.a.line)
      .define("RLX_W_LINE", product.n == 1 ? product.k : product.b.line)
      .define("RLX_W_EARLY", reads_weights_only(ctx, fused) ? 1 : 0)
      .define("RLX_GATED", fused.second ? 1 : 0)
      .define("RLX_NORM", fused.norm ? 1 : 0)
      .define("RLX_ACTIVATION", product.activation.none() ? 0 : 1)
      .read(&MatvecStreamParams::x, product.a.ref, kWidestAccessBytes)
      .read(&MatvecStreamParams::w, product.b.ref, kWidestAccessBytes);
  if (!product.activation.none())
    dispatch.generated("epilogue.inc", activation_source(product.activation, DType::f32));
  if (fused.second) dispatch.read(&MatvecStreamParams::w2, fused.second->ref, kWidestAccessBytes);
  if (!fused.norm) return;
  dispatch.define("RLX_EPS", literal(DType::f32, fused.norm->eps))
      .define("RLX_GAMMA_OFFSET", literal(DType::f32, fused.norm->gamma_offset));
  if (!fused.norm->gamma) return;
  dispatch.define("RLX_GAMMA", std::string(name_of(fused.norm->gamma->dtype())))
      .read(&MatvecStreamParams::gamma, *fused.norm->gamma);
}

// True where a thread's write may take the place of the residual that it read: no other operand is
// there.
bool residual_may_go(const FusedProduct& fused) {
  const Product& product = fused.product;
  const TensorRef& residual = product.residual->ref;
  const auto elsewhere = [&residual](const TensorRef& ref) {
    return ref.buffer != residual.buffer;
  };
  return residual.dense() && residual.dtype() == product.y.dtype() && elsewhere(product.a.ref) &&
         elsewhere(product.b.ref) && (!fused.second || elsewhere(fused.second->ref)) &&
         (!product.bias || elsewhere(product.bias->ref)) &&
         (!fused.second_bias || elsewhere(fused.second_bias->ref)) &&
         (!fused.norm || !fused.norm->gamma || elsewhere(*fused.norm->gamma)) &&
         element_count(residual.shape()) == element_count(product.y.shape());
}

void bind_epilogue(StreamDispatch& dispatch, const FusedProduct& fused) {
  const Product& product = fused.product;
  const auto bind = [&dispatch](const char* name, rlx_ptr MatvecStreamParams::*field,
                                const std::optional<AddedOperand>& added) {
    if (added)
      dispatch.define(name, std::string(name_of(added->ref.dtype()))).read(field, added->ref);
  };
  bind("RLX_BIAS", &MatvecStreamParams::bias, product.bias);
  bind("RLX_BIAS2", &MatvecStreamParams::bias2, fused.second_bias);
  bind("RLX_RESIDUAL", &MatvecStreamParams::residual, product.residual);
  dispatch.write(&MatvecStreamParams::y, product.y);
  if (product.residual && residual_may_go(fused)) dispatch.allow_in_place(product.residual->ref);
}

uint64_t bytes_of(const FusedProduct& fused) {
  const Product& product = fused.product;
  uint64_t bytes = byte_size(product.y.type) + product.a.ref.byte_range().length_bytes +
                   product.b.ref.byte_range().length_bytes;
  if (fused.second) bytes += fused.second->ref.byte_range().length_bytes;
  if (product.residual) bytes += product.residual->ref.byte_range().length_bytes;
  return bytes;
}

std::string reason_of(const FusedProduct& fused, const StreamPlan& plan) {
  std::string text = fused.product.note.empty() ? "" : fused.product.note + ": ";
  text += "matvec_stream: m=" + rlx::to_string(fused.product.m);
  if (fused.norm) text += ", rms_norm first";
  if (fused.second) text += ", gated pair";
  return text + ", " + std::to_string(plan.groups) + " workgroups, rings of " +
         std::to_string(plan.depth * plan.stage_bytes / 1024) + " KiB";
}

}  // namespace

// Memory's speed is what the kernel is made to reach.
double stream_bound(const OfferContext& at, const FusedProduct& fused) {
  return thread_bound_microseconds(at.device(), {.bytes = bytes_of(fused), .flops = 0});
}

bool emit_stream(LowerContext& ctx, const FusedProduct& fused) {
  const StreamPlan plan = plan_stream(shape_of(fused), ctx.target().device).value();
  const Product& product = fused.product;
  const int64_t products = fused.second ? 2 : 1;
  auto dispatch = ctx.dispatch<KernelId::matvec_stream>();
  dispatch.workgroup({narrow<uint32_t>(plan.threads()), 1, 1})
      .define("RLX_LANES", plan.lanes)
      .define("RLX_TEAMS", plan.teams)
      .define("RLX_PIECES", plan.pieces)
      .define("RLX_STAGE_UNITS", plan.stage_units)
      .define("RLX_DEPTH", plan.depth)
      .define("RLX_PACE", plan.pace)
      .define("RLX_BATCH", plan.batch)
      .define("RLX_FLUSH", plan.flush)
      .define("RLX_GROUPS", plan.groups)
      .define("RLX_MIN_GROUPS", plan.groups_per_multiprocessor)
      .grid(static_cast<uint64_t>(plan.groups))
      .work(bytes_of(fused), 2 * static_cast<uint64_t>(product.m * product.n) *
                                 static_cast<uint64_t>(product.k * products))
      .reason(reason_of(fused, plan));
  define_operands(ctx, dispatch, fused);
  bind_epilogue(dispatch, fused);
  return true;
}

}  // namespace rlx
