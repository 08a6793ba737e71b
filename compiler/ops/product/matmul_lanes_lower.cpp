// SPDX-License-Identifier: Apache-2.0
// From a product over strided views to a dispatch of matmul_lanes.
#include "compiler/ops/product/matmul_lanes_lower.h"

#include <cmath>

#include "compiler/ops/product/matmul_emit.h"
#include "compiler/ops/product/product_words.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// One instance of shaders/vulkan/matmul_lanes.comp.
struct LaneTile {
  uint32_t vectors = 1;   // fours of columns of a lane
  double efficiency = 1;  // against the wide tile
  static constexpr uint32_t kLanes = 8;
  static constexpr uint32_t kRows = 4 * kLanes;

  [[nodiscard]] uint32_t columns() const { return 4 * kLanes * vectors; }
};

struct LaneSize {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batches = 1;
};

struct LaneChoice {
  LaneTile tile;
  double microseconds = 0;
};

LaneSize lane_size(const Product& product) {
  return {.m = product.m.bound(),
          .n = product.n.bound(),
          .k = product.k.bound(),
          .batches = batch_count(product).bound()};
}

double lane_microseconds(const LaneSize& size, const LaneTile& tile, const DeviceModel& device) {
  const int64_t tiles =
      ceil_div(size.m, LaneTile::kRows) * ceil_div(size.n, tile.columns()) * size.batches;
  const double rounds = std::ceil(static_cast<double>(tiles) / device.multiprocessors);
  const double products =
      static_cast<double>(LaneTile::kRows) * tile.columns() * static_cast<double>(size.k);
  return device.step_microseconds +
         rounds * products / (device.lane_tiles.products * tile.efficiency);
}

LaneChoice choose_lane_tile(const LaneSize& size, const DeviceModel& device) {
  constexpr LaneTile kWide = {.vectors = 2};
  constexpr LaneTile kNarrow = {.vectors = 1, .efficiency = 0.8};
  const double wide = lane_microseconds(size, kWide, device);
  const double narrow = lane_microseconds(size, kNarrow, device);
  return narrow < wide ? LaneChoice{kNarrow, narrow} : LaneChoice{kWide, wide};
}

// As many lines are places of images by floats' division (rlx_small_quotient).
constexpr int64_t kFewLines = int64_t{1} << 21;

using LaneDispatch = DispatchBuilder<MatmulParams>;

// ---- sizes as words, so that products of other sizes run the same instance ----

// What the kernel is told of a product, and with it of windows.
struct LaneProblem {
  Product product;
  std::optional<WindowLines> lines;
  Dim images = 0;  // of windows
};

bool takes_words(const LaneProblem& problem) {
  return takes_words(problem.product) && (!problem.lines || !has_free_sizes(problem.lines->window));
}

// The lines and depths of windows are made of the words that lead the kernel through the images.
void put_window_words(SizeWords& words, LaneProblem& problem) {
  Product& product = problem.product;
  Window& window = problem.lines->window;
  product.a.batch = words_of(words, product.a.batch);
  problem.images = words.word(product.m / window.out_count());
  const Dim channels = product.k / window.taps();
  for (Dim& size : window.in) size = words.word(size);
  for (Dim& size : window.out) size = words.word(size);
  product.m = problem.images * window.out_count();
  product.k = words.word(channels) * window.taps();
  TensorRef& x = product.a.ref;
  x.strides = words_of(words, x.strides);
}

LaneProblem in_words(SizeWords& words, LaneProblem problem) {
  if (problem.lines) {
    put_window_words(words, problem);
    put_words_beside_lines(words, problem.product);
  } else {
    problem.product = in_words(words, problem.product);
  }
  return problem;
}

// The windows' channel 0 is x's first element, whatever C is.
Dim window_reach(const LaneProblem& problem) {
  const Window& window = problem.lines->window;
  const Strides& strides = problem.product.a.ref.strides;
  const std::array<Dim, kSpatialDims> spatial = spatial_strides(strides);
  return reach_of(problem.images, strides[0]) +
         reach_of(problem.product.k / window.taps(), strides[1]) +
         reach_of(window.in[0], spatial[0]) + reach_of(window.in[1], spatial[1]) +
         reach_of(window.in[2], spatial[2]);
}

void put_reaches(LaneProblem& problem) {
  Product& product = problem.product;
  if (!problem.lines) {
    put_reaches(product);
    return;
  }
  product.a.ref =
      reached(product.a.ref, reach_of(product.batch, product.a.batch) + window_reach(problem));
  put_reaches_beside_lines(product);
}

// ---- the dispatch ----

// Gives the alignment that reads of a ask for; 0 where they ask for none.
uint32_t define_lane_rows(const LowerContext& ctx, LaneDispatch& dispatch, const Product& product) {
  const std::string axis = vector_axis(ctx, product.a, product.m, product.k);
  dispatch.define("RLX_WINDOWS", 0)
      .size("RLX_A_LINE", product.a.line)
      .size("RLX_A_DEPTH", product.a.depth)
      .define("RLX_A_VECTOR", axis)
      .define("RLX_ODD_DEPTHS", product.k.divides_by(2) ? 0 : 1);
  return vector_bytes(product.a.ref, axis != "1");
}

uint32_t define_lane_windows(LaneDispatch& dispatch, const Product& product,
                             const WindowLines& lines) {
  const TensorRef& x = product.a.ref;
  define_window(dispatch, lines.window);
  dispatch.define("RLX_WINDOWS", lines.in_pieces ? 1 : 2)
      .define("RLX_FEW_LINES", product.m.range().most < kFewLines ? 1 : 0)
      .size("RLX_CHANNELS", product.k / lines.window.taps())
      .size("RLX_X_C", x.strides[1])
      .define("RLX_ODD_DEPTHS", lines.in_pieces || product.k.divides_by(2) ? 0 : 1);
  define_image(dispatch, x.strides);
  return vector_bytes(x, lines.in_pieces);
}

bool emit_lane_tiles(LowerContext& ctx, const LaneProblem& given) {
  const LaneSize size = lane_size(given.product);
  const LaneTile tile = choose_lane_tile(size, ctx.device()).tile;
  const Dim groups = ceil_div(given.product.m, LaneTile::kRows) *
                     ceil_div(given.product.n, tile.columns()) * batch_count(given.product);
  SizeWords words;
  LaneProblem problem = takes_words(given) ? in_words(words, given) : given;
  const Product& product = problem.product;
  auto dispatch = ctx.dispatch<KernelId::matmul_lanes>();
  define_product(ctx, dispatch, product, ProductPass::Whole);
  const uint32_t a_bytes = problem.lines ? define_lane_windows(dispatch, product, *problem.lines)
                                         : define_lane_rows(ctx, dispatch, product);
  const std::string b_axis = vector_axis(ctx, product.b, product.n, product.k);
  words.give(dispatch);
  dispatch.workgroup({LaneTile::kLanes, 1, 1})
      .define("RLX_VECTORS", tile.vectors)
      .define("RLX_A", std::string(name_of(product.a.ref.dtype())))
      .define("RLX_B", std::string(name_of(product.b.ref.dtype())))
      .size("RLX_B_LINE", product.b.line)
      .size("RLX_B_DEPTH", product.b.depth)
      .define("RLX_B_VECTOR", b_axis)
      .grid(split_grid(groups))
      .work(least_bytes(given.product), flops_of(given.product))
      .estimate(
          [size, tile](const DeviceModel& device) { return lane_microseconds(size, tile, device); })
      .reason(reason_of(product, "eight lanes: " + std::to_string(LaneTile::kRows) + "x" +
                                     std::to_string(tile.columns()) + " tile, " +
                                     to_string(groups) + " workgroups"));
  if (takes_words(given)) put_reaches(problem);
  bind_operands(dispatch, product, a_bytes, vector_bytes(product.b.ref, b_axis != "1"));
  bind_epilogue(ctx, dispatch, product);
  if (may_replace_residual(given.product)) dispatch.allow_in_place(given.product.residual->ref);
  return true;
}

}  // namespace

bool is_for_lanes(const DeviceModel& device) {
  return device.is_cpu();
}

std::string lanes_refusal(const OfferContext&, const FusedProduct& fused) {
  if (std::string beside = beside_refusal(fused); !beside.empty()) return beside;
  return accumulator_of(fused.product.a.ref.dtype()) == DType::f64 ? "sums of f64" : "";
}

double lanes_time(const OfferContext& at, const FusedProduct& fused) {
  return choose_lane_tile(lane_size(fused.product), at.device()).microseconds;
}

bool emit_lanes(LowerContext& ctx, const FusedProduct& fused) {
  return emit_lane_tiles(ctx, {.product = fused.product, .lines = {}});
}

bool emit_lanes(LowerContext& ctx, const Product& product, const WindowLines& lines) {
  return emit_lane_tiles(ctx, {.product = product, .lines = lines});
}

double window_lanes_time(const OfferContext& at, const Dim& m, int64_t n, int64_t k,
                         int64_t batches) {
  const LaneSize size{.m = m.bound(), .n = n, .k = k, .batches = batches};
  return choose_lane_tile(size, at.device()).microseconds;
}

}  // namespace rlx
