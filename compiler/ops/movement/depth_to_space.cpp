// SPDX-License-Identifier: Apache-2.0
// depth_to_space and space_to_depth (ops.md 6): blocks of pixels as channels, by reshape, transpose
// and reshape.
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"

namespace rlx {
namespace {

bool check_image(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  if (ctx.shape(0).size() == 4) return true;
  return ctx.fail(DiagCode::BadRank,
                  "input 0 is " + to_string(ctx.shape(0)) + ", wanted rank 4 (NCHW)");
}

// `wanted` says of what the block must be a divisor.
bool check_whole(InferContext& ctx, const Dim& size, int64_t parts, const std::string& wanted) {
  if (size.divides_by(parts)) return true;
  return ctx.fail(DiagCode::BadShape, "block " + std::to_string(ctx.attrs().integer("block")) +
                                          " does not divide " + wanted + " of " +
                                          to_string(ctx.shape(0)));
}

bool infer_depth_to_space(InferContext& ctx) {
  if (!check_image(ctx)) return false;
  const Shape& x = ctx.shape(0);
  const int64_t block = ctx.attrs().integer("block");
  if (!check_whole(ctx, x[1], block * block, "the channels")) return false;
  ctx.set_output(0, {ctx.dtype(0), {x[0], x[1] / (block * block), x[2] * block, x[3] * block}});
  return true;
}

bool infer_space_to_depth(InferContext& ctx) {
  if (!check_image(ctx)) return false;
  const Shape& x = ctx.shape(0);
  const int64_t block = ctx.attrs().integer("block");
  const bool whole =
      check_whole(ctx, x[2], block, "the height") && check_whole(ctx, x[3], block, "the width");
  if (!whole) return false;
  ctx.set_output(0, {ctx.dtype(0), {x[0], x[1] * block * block, x[2] / block, x[3] / block}});
  return true;
}

// How far apart, in channels of the deep image, neighbours of the wide image stand.
struct BlockChannels {
  int64_t row = 0;
  int64_t column = 0;
  int64_t channel = 0;
};

// dcr: channel = (row, column, c); crd: (c, row, column).
BlockChannels block_channels(const std::string& mode, int64_t block, int64_t channels) {
  if (mode == "crd") return {.row = block, .column = 1, .channel = block * block};
  return {.row = block * channels, .column = channels, .channel = 1};
}

// Copies the wide image [n, c, h * block, w * block] from or to the deep one [n, c * block^2, h,
// w].
void copy_blocks(const Tensor& x, Tensor& y, const Shape& wide, int64_t block,
                 const BlockChannels& channels, bool to_wide) {
  const int64_t height = wide[2] / block;
  const int64_t width = wide[3] / block;
  const int64_t count = element_count(wide);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t column = i % wide[3];
    const int64_t row = i / wide[3] % wide[2];
    const int64_t c = i / wide[3] / wide[2] % wide[1];
    const int64_t n = i / wide[3] / wide[2] / wide[1];
    const int64_t channel =
        row % block * channels.row + column % block * channels.column + c * channels.channel;
    const int64_t deep =
        ((n * wide[1] * block * block + channel) * height + row / block) * width + column / block;
    const auto from = static_cast<size_t>(to_wide ? deep : i);
    const auto to = static_cast<size_t>(to_wide ? i : deep);
    if (y.is_float()) {
      y.floats[to] = x.floats[from];
    } else {
      y.integers[to] = x.integers[from];
    }
  }
}

bool evaluate_depth_to_space(EvaluateContext& ctx) {
  const Shape& wide = ctx.output_type(0).shape;
  const int64_t block = ctx.attrs().integer("block");
  copy_blocks(ctx.input(0), ctx.output(0), wide, block,
              block_channels(ctx.attrs().text("mode"), block, wide[1]), true);
  return true;
}

bool evaluate_space_to_depth(EvaluateContext& ctx) {
  const Shape& wide = ctx.input(0).type.shape;
  const int64_t block = ctx.attrs().integer("block");
  copy_blocks(ctx.input(0), ctx.output(0), wide, block, block_channels("dcr", block, wide[1]),
              false);
  return true;
}

// The pieces of the axes, their new order, and the result's shape.
void replace_by(RewriteContext& ctx, Ints pieces, Ints order) {
  const ValueId split = ctx.emit("reshape", {ctx.input(0)}, {{"shape", std::move(pieces)}});
  const ValueId moved = ctx.emit("transpose", {split}, {{"perm", std::move(order)}});
  const Shape shape = ctx.type(ctx.node().outputs[0]).shape;
  ctx.replace_output(0, ctx.emit("reshape", {moved}, {{"shape", shape}}));
}

bool decompose_depth_to_space(RewriteContext& ctx) {
  const Shape x = ctx.type(ctx.input(0)).shape;
  const int64_t block = ctx.attrs().integer("block");
  const Dim channels = x[1] / (block * block);
  if (ctx.attrs().text("mode") == "crd") {
    replace_by(ctx, {x[0], channels, block, block, x[2], x[3]}, {0, 1, 4, 2, 5, 3});
  } else {
    replace_by(ctx, {x[0], block, block, channels, x[2], x[3]}, {0, 3, 4, 1, 5, 2});
  }
  return true;
}

bool decompose_space_to_depth(RewriteContext& ctx) {
  const Shape x = ctx.type(ctx.input(0)).shape;
  const int64_t block = ctx.attrs().integer("block");
  replace_by(ctx, {x[0], x[1], x[2] / block, block, x[3] / block, block}, {0, 3, 5, 1, 2, 4});
  return true;
}

constexpr int64_t kMostBlock = 1 << 20;  // its square is a number of channels
constexpr std::string_view kDepthToSpaceModes[] = {"dcr", "crd"};
const AttrSpec kDepthAttrs[] = {
    {.name = "block",
     .type = AttrType::Int,
     .required = true,
     .minimum = 1,
     .maximum = static_cast<double>(kMostBlock)},
    {.name = "mode",
     .type = AttrType::String,
     .default_text = "\"dcr\"",
     .choices = kDepthToSpaceModes},
};
const AttrSpec kSpaceAttrs[] = {{.name = "block",
                                 .type = AttrType::Int,
                                 .required = true,
                                 .minimum = 1,
                                 .maximum = static_cast<double>(kMostBlock)}};

const OpDef kBlocks[] = {
    {.name = "depth_to_space",
     .signature = "depth_to_space(x; block, mode=\"dcr\") -> y",
     .attrs = kDepthAttrs,
     .infer = infer_depth_to_space,
     .evaluate = evaluate_depth_to_space,
     .decompose = decompose_depth_to_space},
    {.name = "space_to_depth",
     .signature = "space_to_depth(x; block) -> y",
     .attrs = kSpaceAttrs,
     .infer = infer_space_to_depth,
     .evaluate = evaluate_space_to_depth,
     .decompose = decompose_space_to_depth},
};

}  // namespace

std::span<const OpDef> depth_to_space_ops() {
  return kBlocks;
}

}  // namespace rlx
