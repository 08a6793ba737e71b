// SPDX-License-Identifier: Apache-2.0
// Plans of the matvec kernel: along k or along the outputs, and how many ranges of k.
#include "compiler/ops/product/matmul_vectors.h"

#include <algorithm>

#include "compiler/ops/product/matmul_emit.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kDepthsAtOnce = 4;  // that a thread along the outputs loads

int64_t splits_for(const FullDevice& full, int64_t groups, int64_t steps) {
  return std::clamp<int64_t>(int64_t{full.matvec_groups} / std::max<int64_t>(groups, 1), 1,
                             std::max<int64_t>(steps / 4, 1));
}

void plan_along_depth(VectorPlan& plan, const LowerContext& ctx, const ProductOperand& w, int64_t k,
                      int64_t batches, bool in_vectors) {
  const FullDevice& full = ctx.target().device.full;
  plan.chunk = in_vectors ? kVectorElements : 1;
  const bool half = w.ref.dtype() == DType::f16 || w.ref.dtype() == DType::bf16;
  const auto whole = [](int64_t stride) { return stride % 8 == 0; };
  if (in_vectors && half && ctx.alignment(w.ref) >= kWidestAccessBytes && whole(k) &&
      (plan.outputs == 1 || whole(w.line)) && std::all_of(w.batch.begin(), w.batch.end(), whole)) {
    plan.chunk = 8;
  }
  const int64_t chunks = ceil_div(k, plan.chunk);
  while (plan.lanes < 256 && plan.lanes * 8 <= chunks &&
         plan.outputs * batches * plan.lanes < int64_t{full.matvec_threads})
    plan.lanes *= 2;
  plan.rows = std::max<int64_t>(1, 128 / plan.lanes);
  plan.team_outputs = plan.outputs * batches < full.matvec_groups * plan.rows ? 1 : 2;
  plan.blocks = ceil_div(plan.outputs, plan.rows * plan.team_outputs);
  const int64_t steps = ceil_div(chunks, plan.lanes);
  plan.splits = splits_for(full, plan.blocks * batches, steps);
  plan.split_k = ceil_div(steps, plan.splits) * plan.lanes * plan.chunk;
}

void plan_along_outputs(VectorPlan& plan, const FullDevice& full, int64_t k, int64_t batches,
                        bool in_vectors) {
  plan.chunk = in_vectors ? kVectorElements : 1;
  plan.lanes = in_vectors ? 8 : 32;
  plan.rows = 256 / plan.lanes;
  while (plan.rows > 4 && plan.rows > k) plan.rows /= 2;
  // Enough outputs for all threads need no slices of a depth that a thread loads at once.
  const int64_t threads = ceil_div(plan.outputs, plan.chunk) * batches;
  while (plan.rows > 1 && plan.rows * kDepthsAtOnce > k && threads * 8 >= full.matvec_threads)
    plan.rows /= 2;
  while (plan.lanes * plan.rows < 128) plan.lanes *= 2;
  plan.blocks = ceil_div(plan.outputs, plan.lanes * plan.chunk);
  const int64_t steps = ceil_div(k, plan.rows * kDepthsAtOnce);
  plan.splits = splits_for(full, plan.blocks * batches, steps);
  plan.split_k = ceil_div(steps, plan.splits) * plan.rows * kDepthsAtOnce;
}

}  // namespace

VectorPlan plan_vectors(const LowerContext& ctx, const Product& product) {
  VectorPlan plan;
  plan.swapped = product.n < product.m;
  plan.vectors = std::min(product.m, product.n);
  plan.outputs = std::max(product.m, product.n);
  const ProductOperand& x = plan.swapped ? product.b : product.a;
  const ProductOperand& w = plan.swapped ? product.a : product.b;
  const int64_t batches = element_count(product.batch);
  const std::string axis = vector_axis(ctx, w, plan.outputs, product.k);
  plan.along_depth = plan.outputs > 1 ? w.line != 1 : w.depth == 1 || product.k == 1;
  if (plan.outputs > 1 && w.line == 1 && w.depth == 1) plan.along_depth = axis != "LINE";
  plan.x_in_vectors = vector_axis(ctx, x, plan.vectors, product.k) == "DEPTH";
  if (plan.along_depth) {
    plan_along_depth(plan, ctx, w, product.k, batches, axis == "DEPTH");
  } else {
    plan_along_outputs(plan, ctx.target().device.full, product.k, batches, axis == "LINE");
  }
  plan.splits = ceil_div(product.k, plan.split_k);
  return plan;
}

std::string to_string(const VectorPlan& plan, int64_t batches) {
  std::string text = std::string("matvec: ") + (plan.swapped ? "n=" : "m=") +
                     std::to_string(plan.vectors) + ", weights along " +
                     (plan.along_depth ? "k" : "the outputs") + ", ";
  if (plan.splits > 1) text += "split-k " + std::to_string(plan.splits) + ", ";
  return text + std::to_string(plan.blocks * plan.splits * batches) + " workgroups";
}

void define_plan(DispatchBuilder<MatmulParams>& dispatch, const VectorPlan& plan) {
  dispatch.workgroup({narrow<uint32_t>(plan.lanes * plan.rows), 1, 1})
      .define("RLX_SWAPPED", plan.swapped ? 1 : 0)
      .define("RLX_ALONG_DEPTH", plan.along_depth ? 1 : 0)
      .define("RLX_VECTORS", plan.vectors)
      .define("RLX_CHUNK", plan.chunk)
      .define("RLX_LANES", plan.lanes)
      .define("RLX_SPLITS", plan.splits);
  if (plan.along_depth) {
    dispatch.define("RLX_BY_COLUMN", 0)
        .define("RLX_ROWS", plan.rows)
        .define("RLX_TEAM_OUTPUTS", plan.team_outputs)
        .define("RLX_X_VECTOR", plan.x_in_vectors ? kVectorElements : 1);
  } else {
    dispatch.define("RLX_SLICES", plan.rows);
  }
}

}  // namespace rlx
