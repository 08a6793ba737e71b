// SPDX-License-Identifier: Apache-2.0
// grid_sample (ops.md 9.5): x at positions of the plane, or of the volume. It goes on beyond its
// edges, as zeros, as its border or mirrored, and is interpolated as it stands; for linear and
// nearest that equals moving the position inside first.
#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/rows.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 22;  // positions stay exact in f32 pairs
constexpr double kCubic = -0.75;

bool infer_grid_sample(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "x") || !check_float_input(ctx, 1, "grid")) return false;
  const Shape& x = ctx.shape(0);
  const Shape& grid = ctx.shape(1);
  const size_t rank = x.size();
  if ((rank != 4 && rank != 5) || grid.size() != rank || grid[0] != x[0] ||
      grid[rank - 1] != static_cast<int64_t>(rank) - 2) {
    return ctx.fail(DiagCode::BadShape, "x is " + to_string(x) + " and grid " + to_string(grid) +
                                            "; wanted [N, C, H, W] and [N, Ho, Wo, 2], or "
                                            "[N, C, D, H, W] and [N, Do, Ho, Wo, 3]");
  }
  Shape y = {x[0], x[1]};
  y.insert(y.end(), grid.begin() + 1, grid.end() - 1);
  for (size_t d = 2; d < rank; ++d) {
    if (x[d].range().most <= kLargestSize && (x[d] > 0 || element_count(y) == 0)) continue;
    return ctx.fail(DiagCode::BadShape, "axis " + std::to_string(d) + " of x " + to_string(x) +
                                            " has " + to_string(x[d]) + " elements; wanted 1 to " +
                                            std::to_string(kLargestSize));
  }
  ctx.set_output(0, {ctx.dtype(0), y});
  return true;
}

// ---- evaluate_grid_sample ----

enum class Padding : uint8_t { Zeros, Border, Reflection };

struct Sampling {
  Padding padding = Padding::Zeros;
  bool align_corners = false;
  std::string mode;
};

Sampling sampling_of(const NodeContext& ctx) {
  const std::string padding = ctx.attrs().text("padding_mode");
  return {.padding = padding == "zeros"    ? Padding::Zeros
                     : padding == "border" ? Padding::Border
                                           : Padding::Reflection,
          .align_corners = ctx.attrs().flag("align_corners"),
          .mode = ctx.attrs().text("mode")};
}

// As precise as the host has it: weights near 0 are differences.
using Position = long double;

Position moved(const Sampling& sampling, Position p, Position size) {
  if (sampling.padding == Padding::Border) return std::min(std::max(p, Position{0}), size - 1);
  if (sampling.padding == Padding::Zeros) return p;
  const Position low = sampling.align_corners ? 0 : -0.5L;
  const Position span = sampling.align_corners ? size - 1 : size;
  if (span == 0) return std::isfinite(p) ? Position{0} : Position{NAN};
  const Position away = std::fmod(std::abs(p - low), 2 * span);
  const Position inside = (away > span ? 2 * span - away : away) + low;
  return std::min(std::max(inside, Position{0}), size - 1);
}

struct Tap {
  int64_t index = -1;  // -1: a zero
  double weight = 0;
};

Position keys_kernel(Position distance) {
  const Position d = std::abs(distance);
  if (d <= 1) return ((kCubic + 2) * d - (kCubic + 3)) * d * d + 1;
  return d < 2 ? ((kCubic * d - 5 * kCubic) * d + 8 * kCubic) * d - 4 * kCubic : 0;
}

// The taps along one axis at grid value g; none where the position is no number.
std::vector<Tap> taps_of(const Sampling& sampling, double g, int64_t size) {
  const auto n = static_cast<Position>(size);
  const Position at = g;
  const Position p = sampling.align_corners ? (at + 1) / 2 * (n - 1) : ((at + 1) * n - 1) / 2;
  const auto tap = [&](Position i, Position weight) {
    const bool inside = i >= 0 && i <= n - 1;
    return Tap{.index = inside ? static_cast<int64_t>(i) : -1,
               .weight = static_cast<double>(weight)};
  };
  if (sampling.mode == "cubic") {
    if (std::isnan(p) || (std::isinf(p) && sampling.padding == Padding::Reflection)) return {};
    if (std::isinf(p)) return {tap(moved(sampling, p, n), 1)};
    std::vector<Tap> taps;
    for (Position i = std::floor(p) - 1; i < std::floor(p) + 3; ++i)
      taps.push_back(tap(moved(sampling, i, n), keys_kernel(i - p)));
    return taps;
  }
  const Position place = moved(sampling, p, n);
  if (std::isnan(p) || std::isnan(place)) return {};
  if (std::isinf(place)) return {tap(place, 1)};
  if (sampling.mode == "nearest") return {tap(std::nearbyint(place), 1)};
  const Position first = std::floor(place);
  return {tap(first, 1 - (place - first)), tap(first + 1, place - first)};
}

// What the taps of an image's axes give together, outermost axis first.
struct Taps {
  const Tensor& x;
  std::span<const std::vector<Tap>> axes;
  Tensor& y;
  size_t to;

  // Adds what lies in x at `place`, a row-major index of the axes before `axis`.
  void add(size_t axis, int64_t place, double weight) const {
    if (axis == axes.size()) {
      const double term = weight * x.floats[static_cast<size_t>(place)];
      y.floats[to] += term;
      y.magnitudes[to] += std::abs(term);
      return;
    }
    const int64_t size = x.type.shape[axis + 2];
    for (const Tap& tap : axes[axis]) {
      if (tap.index >= 0) add(axis + 1, place * size + tap.index, weight * tap.weight);
    }
  }
};

bool evaluate_grid_sample(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Tensor& grid = ctx.input(1);
  Tensor& y = ctx.output(0);
  const Sampling sampling = sampling_of(ctx);
  const size_t axes = x.type.shape.size() - 2;
  int64_t pixels = 1;
  for (size_t d = 1; d <= axes; ++d) pixels *= grid.type.shape[d];
  y.magnitudes.assign(y.floats.size(), 0);
  const int64_t taps_each = sampling.mode == "cubic" ? 4 : 2;
  y.terms = axes == 3 ? taps_each * taps_each * taps_each : taps_each * taps_each;
  std::vector<std::vector<Tap>> taps(axes);
  for (int64_t o = 0; o < y.count(); ++o) {
    const int64_t image = o / pixels;
    const auto at = static_cast<size_t>(image / x.type.shape[1] * pixels + o % pixels) * axes;
    for (size_t d = 0; d < axes; ++d)
      taps[d] = taps_of(sampling, grid.floats[at + axes - 1 - d], x.type.shape[d + 2]);
    const auto to = static_cast<size_t>(o);
    if (std::any_of(taps.begin(), taps.end(), [](const auto& axis) { return axis.empty(); }))
      y.floats[to] = NAN;
    Taps{.x = x, .axes = taps, .y = y, .to = to}.add(0, image, 1);
  }
  return true;
}

// ---- lower_grid_sample ----

// Channels that share a thread, while that leaves enough threads.
int64_t channels_together(const LowerContext& ctx, const Dim& channels, const Dim& count) {
  constexpr int64_t kMostChannels = 8;
  const int64_t enough = int64_t{ctx.target().device.multiprocessors} * 2048;
  int64_t together = 1;
  while (together < kMostChannels && together < channels && count / (2 * together) >= enough)
    together *= 2;
  return together;
}

bool lower_grid_sample(LowerContext& ctx) {
  constexpr uint32_t kThreads = 256;
  const TensorRef x = ctx.input(0);
  const TensorRef grid = ctx.input(1);
  const TensorRef y = ctx.output(0);
  const Sampling sampling = sampling_of(ctx);
  const Dim count = element_count(y.shape());
  if (count == 0) return true;
  const size_t rank = x.shape().size();
  const bool volume = rank == 5;
  const Dim& channels = x.shape()[1];
  const int64_t together = channels_together(ctx, channels, count);
  const Dim blocks = ceil_div(channels, together);
  const Dim plane = y.shape()[rank - 2] * y.shape()[rank - 1];
  const Dim pixels = volume ? y.shape()[2] * plane : plane;
  const Dim items = x.shape()[0] * blocks * pixels;
  const bool wide = x.dtype() == DType::f64 || grid.dtype() == DType::f64;
  const DType acc = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const int64_t taps = sampling.mode == "cubic" ? 4 : (sampling.mode == "linear" ? 2 : 1);
  const int64_t taps_in_all = volume ? taps * taps * taps : taps * taps;
  auto dispatch = ctx.dispatch<KernelId::grid_sample>();
  dispatch.workgroup({kThreads, 1, 1})
      .define("RLX_X", std::string(name_of(x.dtype())))
      .define("RLX_GRID", std::string(name_of(grid.dtype())))
      .define("RLX_REAL", wide ? "rlx_f64" : "rlx_f32")
      .define("RLX_ACC", "rlx_" + std::string(name_of(acc)))
      .define("RLX_TAPS", taps)
      .define("RLX_PADDING", static_cast<int64_t>(sampling.padding))
      .define("RLX_ALIGN", sampling.align_corners ? 1 : 0)
      .define("RLX_VOLUME", volume ? 1 : 0)
      .size("RLX_CHANNELS", channels)
      .define("RLX_TOGETHER", together)
      .size("RLX_BLOCKS", blocks)
      .size("RLX_HEIGHT", x.shape()[rank - 2])
      .size("RLX_WIDTH", x.shape()[rank - 1])
      .size("RLX_OUT_W", y.shape()[rank - 1])
      .define("RLX_PIXELS", integer_text(pixels))
      .define("RLX_COUNT", integer_text(items))
      .define("RLX_LINEAR", index_type(IndexUse::Linear, items.range().most + kThreads))
      .define("RLX_X_N", integer_text(x.strides[0]))
      .define("RLX_X_C", integer_text(x.strides[1]))
      .define("RLX_X_H", integer_text(x.strides[rank - 2]))
      .define("RLX_X_W", integer_text(x.strides[rank - 1]))
      .define("RLX_GRID_N", integer_text(grid.strides[0]))
      .define("RLX_GRID_H", integer_text(grid.strides[rank - 3]))
      .define("RLX_GRID_W", integer_text(grid.strides[rank - 2]))
      .define("RLX_GRID_XY", integer_text(grid.strides[rank - 1]));
  if (volume) {
    dispatch.size("RLX_DEPTH", x.shape()[2])
        .size("RLX_OUT_H", y.shape()[3])
        .define("RLX_X_D", integer_text(x.strides[2]))
        .define("RLX_GRID_D", integer_text(grid.strides[1]));
  }
  dispatch.read(&GatherParams::x, x)
      .read(&GatherParams::index, grid)
      .write(&GatherParams::y, y)
      .grid(split_grid(ceil_div(items, kThreads)))
      .work(x.byte_range().length_bytes + grid.byte_range().length_bytes + byte_size(y.type),
            count * taps_in_all * 2)
      .reason(std::to_string(taps_in_all) + " taps, " + std::to_string(together) +
              " channels per thread");
  return true;
}

constexpr std::string_view kGridSampleModes[] = {"linear", "nearest", "cubic"};
constexpr std::string_view kPaddings[] = {"zeros", "border", "reflection"};
constexpr AttrSpec kGridSampleAttrs[] = {
    {.name = "mode",
     .type = AttrType::String,
     .default_text = "\"linear\"",
     .choices = kGridSampleModes},
    {.name = "padding_mode",
     .type = AttrType::String,
     .default_text = "\"zeros\"",
     .choices = kPaddings},
    {.name = "align_corners", .type = AttrType::Bool, .default_text = "false"},
};

constexpr OpDef kGridSampleOps[] = {
    {.name = "grid_sample",
     .signature = "grid_sample(x, grid; mode=\"linear\", padding_mode=\"zeros\", "
                  "align_corners=false) -> y",
     .inputs = {2, 2},
     .outputs = {1, 1},
     .attrs = kGridSampleAttrs,
     .infer = infer_grid_sample,
     .evaluate = evaluate_grid_sample,
     .lower = lower_grid_sample},
};

}  // namespace

std::span<const OpDef> grid_sample_ops() {
  return kGridSampleOps;
}

}  // namespace rlx
