// SPDX-License-Identifier: Apache-2.0
// What the ops that draw random numbers share (ops.md 0.8): the inputs [seed] and [step], and the
// attributes seed and stream.
#pragma once

#include <limits>

#include "compiler/ops/op_def.h"
#include "compiler/support/philox.h"

namespace rlx {

inline constexpr AttrSpec kSeedAttr = {.name = "seed", .type = AttrType::Int};
inline constexpr AttrSpec kStreamAttr = {
    .name = "stream", .type = AttrType::Int, .minimum = 0, .maximum = 4294967295.0};
// Of the ops that have kernels.
inline constexpr AttrSpec kGivenStreamAttr = {.name = "stream",
                                              .type = AttrType::Int,
                                              .required = true,
                                              .minimum = 0,
                                              .maximum = 4294967295.0};

// That inputs `first` (seed, i64) and the next (step, u32), where they are there, are scalars of
// these types.
bool check_draw(InferContext& ctx, size_t first);

// What a node draws by. Without an input or attribute the seed is 0, the step that of a first run.
struct Draw {
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t stream = 0;
};
Draw draw_of(EvaluateContext& ctx, size_t first);

// The node's seed, step and stream for a node that it becomes.
ValueId seed_of(RewriteContext& ctx, size_t first);
ValueId step_of(RewriteContext& ctx, size_t first);
int64_t stream_of(RewriteContext& ctx);

// That of the run behind one of that step.
int64_t step_after(uint32_t step);
// The same for a node that it becomes.
ValueId step_after(RewriteContext& ctx, size_t first);

// The score of what is never drawn.
inline constexpr double kNoScore = -std::numeric_limits<double>::infinity();

// -ln(-ln v) of entry `index` of a vocabulary's row.
double gumbel_noise(const Draw& draw, uint32_t row, uint64_t index);

}  // namespace rlx
