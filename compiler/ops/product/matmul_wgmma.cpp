// SPDX-License-Identifier: Apache-2.0
// From a large product over rows to one dispatch of matmul_wgmma, and the choice of its tiles.
#include "compiler/ops/product/matmul_wgmma.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <vector>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/lowering/forms.h"
#include "compiler/ops/product/matmul_emit.h"
#include "compiler/ops/product/product_time.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"
#include "compiler/support/sampled_sizes.h"
#include "schema/rounding.h"
#include "schema/tensor_map.h"

namespace rlx {
namespace {

// Tiles have 128 lines; fewer leave most of the device idle, and matmul_mma is made for them, but
// not for gated pairs, of which it makes three steps.
constexpr int64_t kLeastLines = 192;
constexpr int64_t kLeastGatedLines = 33;
constexpr int64_t kLeastColumns = 64;
constexpr int64_t kLeastDepth = 64;
constexpr int64_t kSizeLimit = std::numeric_limits<int32_t>::max() - 4096;
constexpr int64_t kTileLines = 128;
constexpr int64_t kStepDepth = 64;
constexpr int64_t kPieceElements = 8;  // 16 bytes
constexpr uint32_t kThreads = 384;

// ---- tiles ----

struct WgmmaTile {
  int64_t columns;      // of y
  bool pingpong;        // warpgroups take tiles in turn
  bool beside = false;  // a pair's tiles lie beside each other, else below
};
// Where memory decides, estimates are equal and the first tile is taken. ResNet-50's convolutions
// to 256 and 512 channels in a batch of 32, H200: 128 columns in turn take 0.89 to 0.93 of what 64
// do (tests/bench/results/2026-11-27-h200-tuned.md).
constexpr std::array kWindowTiles = {
    WgmmaTile{.columns = 128, .pingpong = true},  WgmmaTile{.columns = 128, .pingpong = false},
    WgmmaTile{.columns = 192, .pingpong = true},  WgmmaTile{.columns = 192, .pingpong = false},
    WgmmaTile{.columns = 256, .pingpong = false}, WgmmaTile{.columns = 64, .pingpong = true},
    WgmmaTile{.columns = 64, .pingpong = false}};
// Other products of few columns have smaller tiles elsewhere.
constexpr std::span kWgmmaTiles = std::span(kWindowTiles).first<5>();
// Beside each other for few lines or an odd number of tiles below each other, of which half a pair
// does nothing. Single products gain nothing by it.
constexpr std::array kGatedTiles = {WgmmaTile{.columns = 64, .pingpong = true},
                                    WgmmaTile{.columns = 128, .pingpong = false},
                                    WgmmaTile{.columns = 64, .pingpong = true, .beside = true}};
// What steps of gated pairs take against others: four layers 768, 1024 and 2048 wide, 40 to 1024
// lines, H200.
constexpr double kGatedInTurn = 1.04;
constexpr double kBeside = 1.04;

template <typename Lines>
Lines pair_count(const Lines& m, int64_t n, const WgmmaTile& tile) {
  const Lines below = ceil_div(m, Lines(kTileLines));
  const int64_t beside = ceil_div(n, tile.columns);
  return tile.beside ? below * ceil_div(beside, int64_t{2}) : ceil_div(below, Lines(2)) * beside;
}

// Workgroups that run at once, by pairs that share what they load.
int64_t pairs_of(const DeviceModel& device) {
  return std::max<int64_t>(1, device.multiprocessors / 2);
}

double multiplied_microseconds(const DeviceModel& device, const TiledSize& size,
                               const WgmmaTile& tile) {
  const WgmmaTimes& times = device.wgmma;
  const int64_t pairs_at_once = pairs_of(device);
  const auto rounds =
      static_cast<double>(ceil_div(pair_count(size.m, size.n, tile), pairs_at_once));
  const auto columns = static_cast<double>(tile.columns);
  const double multiplied = columns * (size.gated ? 2 : 1);
  const double step = times.step * multiplied * (size.gated && tile.pingpong ? kGatedInTurn : 1) *
                      (tile.beside ? kBeside : 1);
  const double products = static_cast<double>(ceil_div(size.k, kStepDepth)) * step;
  if (tile.pingpong) {
    const double rate = size.heavy_activation ? times.one_heavy
                        : size.residual       ? times.one_residual
                                              : times.one;
    const double epilogue = columns * rate;
    return times.begin + rounds * std::max(products, (products + epilogue) / 2) + epilogue / 2;
  }
  const double rate = size.heavy_activation ? times.both_heavy
                      : size.residual       ? times.both_residual
                                            : times.both;
  return times.begin + rounds * (products + columns * rate);
}

// Of pixels, which workgroups copy from the second-level cache again and again: bytes per
// microsecond and multiprocessor that it gives when all ask, measured on an H200
// (tests/bench/results/2026-11-26-h200-windows.md).
constexpr double kCopiedBytes = 55'000;

double copied_microseconds(const DeviceModel& device, const TiledSize& size,
                           const WgmmaTile& tile) {
  constexpr int64_t kRowBytes = 128;
  const int64_t tiles = 2 * pair_count(size.m, size.n, tile);
  const int64_t step_bytes = (kTileLines + tile.columns / 2) * kRowBytes;
  return static_cast<double>(tiles * ceil_div(size.k, kStepDepth) * step_bytes) /
         (kCopiedBytes * static_cast<double>(device.multiprocessors));
}

double wgmma_tile_microseconds(const DeviceModel& device, const TiledSize& size,
                               const WgmmaTile& tile) {
  const double memory = static_cast<double>(size.bytes) / device.memory_gigabytes_per_second * 1e-3;
  const double copying =
      size.of_window ? std::max(memory, copied_microseconds(device, size, tile)) : memory;
  return std::max(multiplied_microseconds(device, size, tile), device.wgmma.begin + copying);
}

std::span<const WgmmaTile> tiles_for(const TiledSize& size) {
  if (size.gated) return kGatedTiles;
  if (size.of_window) return kWindowTiles;
  return kWgmmaTiles;
}

struct WgmmaChoice {
  WgmmaTile tile;
  double microseconds;

  [[nodiscard]] std::string text() const {
    return "128x" + std::to_string(tile.columns) +
           (tile.beside ? " tiles beside each other, " : " tiles, ") +
           (tile.pingpong ? "warpgroups in turn" : "warpgroups side by side");
  }
};
std::vector<std::vector<WgmmaChoice>> candidates_for(const DeviceModel& device,
                                                     std::span<const TiledSize> sizes) {
  const std::span<const WgmmaTile> tiles = tiles_for(sizes.front());
  std::vector<std::vector<WgmmaChoice>> candidates;
  const int64_t n = sizes.front().n;
  for (const WgmmaTile& tile : tiles) {
    // A narrower one does the same with less.
    if (sizes.front().of_window && tile.columns >= n + 64) continue;
    std::vector<WgmmaChoice>& at_sizes = candidates.emplace_back();
    for (const TiledSize& size : sizes)
      at_sizes.push_back({tile, wgmma_tile_microseconds(device, size, tile)});
  }
  return candidates;
}

// ---- what the kernel takes ----

bool good_size(int64_t m, int64_t n, int64_t k) {
  return n >= kLeastColumns && k >= kLeastDepth && k % kPieceElements == 0 &&
         std::max({m, n, k}) < kSizeLimit;
}

bool rows_of_pieces(const OfferContext& at, const ProductOperand& operand) {
  return !operand.line.is_free() && operand.depth == 1 && operand.line > 0 &&
         operand.line < kSizeLimit && operand.line % kPieceElements == 0 &&
         at.alignment(operand.ref) >= kWidestAccessBytes;
}

// Channels of a tap go in steps of their own.
int64_t depth_of_steps(const WindowProduct& product) {
  return product.window.taps() * round_up(product.channels, kStepDepth);
}

// What the copy engine takes (schema/tensor_map.h). Corners lie where the first taps of the
// outermost pixels do, or beyond the last of them by less than a stride, so that no size decides.
int64_t end_corner(const Window& window, size_t d) {
  return window.end[d].bound() - (window.kernel[d] - 1) * window.dilation[d];
}

PixelWindow pixel_window(const Window& window) {
  return {.begin_w = narrow<int32_t>(-window.begin[2].bound()),
          .begin_h = narrow<int32_t>(-window.begin[1].bound()),
          .end_w = narrow<int32_t>(end_corner(window, 2)),
          .end_h = narrow<int32_t>(end_corner(window, 1)),
          .stride_w = narrow<uint32_t>(window.stride[2]),
          .stride_h = narrow<uint32_t>(window.stride[1])};
}

std::string window_refusal(const Window& window) {
  constexpr int64_t kFarthest = kSizeLimit / 256;
  for (const size_t d : {1, 2}) {
    if (window.begin[d].is_free() || window.end[d].is_free()) return "pads that the run gives";
    if (window.in[d].range().least < 1) return "images that may have no pixels";
    const int64_t begin = window.begin[d].bound();
    if (std::max({window.in[d].range().most, window.out[d].range().most, begin}) > kFarthest)
      return "more pixels in a row than it counts";
    const int64_t end = end_corner(window, d);
    if (-begin < kLeastWindowCorner || -begin > kMostWindowCorner || end < kLeastWindowCorner ||
        end > kMostWindowCorner)
      return "windows that begin far beside or far within the image";
    if (window.stride[d] > kMaxWindowStride) return "a stride that the copy engine does not take";
    if ((window.kernel[d] - 1) * window.dilation[d] > kMaxWindowOffset)
      return "taps farther apart than the copy engine reaches";
  }
  return {};
}

// The lines of y may be free, and each map of them then has as many as its range. All else is
// fixed.
std::string free_refusal(const Product& product) {
  if (product.n.is_free() || product.k.is_free()) return "columns or a depth that the run gives";
  return product.m.range().least < 1 ? "a number of lines that may be 0" : "";
}

// Rows of y that are no whole pieces leave element by element, and take little beside the product.
bool has_ragged_rows(const Product& product) {
  return product.n % kPieceElements != 0;
}
std::string ragged_refusal(const FusedProduct& fused) {
  if (!has_ragged_rows(fused.product)) return {};
  if (fused.second || fused.product.residual)
    return "a gated pair or a residual over rows of no whole 16-byte pieces";
  return fused.product.bias && fused.product.n % 2 != 0 ? "a bias over an odd number of columns"
                                                        : "";
}

uint32_t pair_bytes(const TensorRef& ref) {
  return 2 * element_bytes(ref.dtype());
}

bool is_bias_vector(const OfferContext& at, const AddedOperand& bias) {
  return bias.n == 1 && bias.m == 0 && at.alignment(bias.ref) >= pair_bytes(bias.ref) &&
         (is_half(bias.ref.dtype()) || bias.ref.dtype() == DType::f32);
}

bool is_rows(const OfferContext& at, const AddedOperand& added) {
  return !added.m.is_free() && added.n == 1 && added.m > 0 && added.m % 2 == 0 &&
         at.alignment(added.ref) >= pair_bytes(added.ref) &&
         (is_half(added.ref.dtype()) || added.ref.dtype() == DType::f32);
}

// Whether the copy engine brings the residual: as y leaves through it, in y's 16 bits.
bool residual_copied(const LowerContext& ctx, const Product& product) {
  return product.residual && is_half(product.y.dtype()) && is_half(product.residual->ref.dtype()) &&
         product.residual->m % kPieceElements == 0 &&
         ctx.alignment(product.residual->ref) >= kWidestAccessBytes;
}

// ---- shared memory ----

// How a workgroup's shared memory is spent, as the kernel lays it out.
struct SharedPlan {
  uint32_t stages;   // slots of the ring
  uint32_t buffers;  // of a warp for its results and residuals
};

uint32_t bias_bytes(const std::optional<AddedOperand>& bias, const WgmmaTile& tile) {
  return bias ? narrow<uint32_t>(tile.columns) * element_bytes(bias->ref.dtype()) : 0;
}

SharedPlan shared_plan(const FusedProduct& fused, const WgmmaTile& tile, bool copies_residual) {
  constexpr uint32_t kMostStages = 8;
  constexpr uint32_t kMostBytes = 227 * 1024;
  constexpr uint32_t kAlignment = 1024;
  constexpr uint32_t kBarrierBytes = 8;
  constexpr uint32_t kBufferBytes = 16 * 128;
  constexpr uint32_t kWarps = 8;
  const uint32_t buffers = copies_residual ? 3 : 1;
  const auto panel_lines = narrow<uint32_t>(kTileLines + tile.columns * (fused.second ? 2 : 1));
  const uint32_t stage = panel_lines * 128 + 2 * kBarrierBytes;
  uint32_t fixed = kAlignment + kWarps * buffers * kBarrierBytes;
  if (is_half(fused.product.y.dtype())) {
    fixed += kWarps * (buffers * kBufferBytes + bias_bytes(fused.product.bias, tile) +
                       bias_bytes(fused.second_bias, tile));
  }
  return {.stages = std::min(kMostStages, (kMostBytes - fixed) / stage), .buffers = buffers};
}

// ---- the dispatch ----

int64_t y_pitch(const Product& product) {
  return product.y_lines ? int64_t{product.y_lines->line} : int64_t{product.n};
}

uint64_t map_lines(const Dim& lines) {
  return lines.is_free() ? kLinesOfRange : static_cast<uint64_t>(lines);
}

TensorMap pixels_map(const WindowProduct& product) {
  const ProductOperand& x = product.fused.product.a;
  const Dim& width = product.window.in[2];
  const Dim& height = product.window.in[1];
  const uint64_t pitch = static_cast<uint64_t>(int64_t{x.line}) * element_bytes(x.ref.dtype());
  TensorMap map{.position = 0,
                .dtype = x.ref.dtype(),
                .dims = {static_cast<uint64_t>(product.channels), 0, 0, map_lines(product.images)},
                .strides = {pitch, 0, 0},
                .box = {static_cast<uint32_t>(kStepDepth), static_cast<uint32_t>(kTileLines)},
                .swizzle_bytes = 128,
                .window = pixel_window(product.window)};
  if (width.is_free() || height.is_free()) {
    map.sizes = {{.dim = 1, .size = width}, {.dim = 2, .size = height}};
    return map;
  }
  map.dims[1] = static_cast<uint64_t>(width);
  map.dims[2] = static_cast<uint64_t>(height);
  map.strides[1] = map.dims[1] * pitch;
  map.strides[2] = map.dims[2] * map.strides[1];
  return map;
}

// Of filters, tap by tap.
TensorMap taps_map(const WindowProduct& product, int64_t box_lines) {
  const ProductOperand& w = product.fused.product.b;
  const uint64_t bytes = element_bytes(w.ref.dtype());
  const auto channels = static_cast<uint64_t>(product.channels);
  const auto taps = static_cast<uint64_t>(product.window.taps());
  return {.position = 0,
          .dtype = w.ref.dtype(),
          .dims = {channels, taps, static_cast<uint64_t>(int64_t{product.fused.product.n})},
          .strides = {channels * bytes, taps * channels * bytes},
          .box = {static_cast<uint32_t>(kStepDepth), 1, narrow<uint32_t>(box_lines)},
          .swizzle_bytes = 128};
}

TensorMap rows_map(const ProductOperand& operand, const Dim& lines, int64_t depth,
                   int64_t box_lines) {
  const uint64_t bytes = element_bytes(operand.ref.dtype());
  return {.position = 0,
          .dtype = operand.ref.dtype(),
          .dims = {static_cast<uint64_t>(depth), map_lines(lines)},
          .strides = {static_cast<uint64_t>(operand.line) * bytes},
          .box = {static_cast<uint32_t>(kStepDepth), narrow<uint32_t>(box_lines)},
          .swizzle_bytes = 128};
}

// Of chunks of y or of the residual, in which a warp moves them.
TensorMap chunk_map(const Product& product, DType dtype, int64_t pitch) {
  constexpr uint32_t kChunkLines = 16;
  constexpr uint32_t kChunkColumns = 64;
  return {.position = 0,
          .dtype = dtype,
          .dims = {static_cast<uint64_t>(product.n), map_lines(product.m)},
          .strides = {static_cast<uint64_t>(pitch) * element_bytes(dtype)},
          .box = {kChunkColumns, kChunkLines},
          .swizzle_bytes = 128};
}

using WgmmaDispatch = DispatchBuilder<MatmulWgmmaParams>;

void bind_added(WgmmaDispatch& dispatch, const FusedProduct& fused, bool copies_residual) {
  const Product& product = fused.product;
  if (product.bias) {
    dispatch.define("RLX_BIAS", std::string(name_of(product.bias->ref.dtype())))
        .read(&MatmulWgmmaParams::bias, product.bias->ref, pair_bytes(product.bias->ref));
  }
  if (fused.second_bias) {
    dispatch.define("RLX_BIAS2", std::string(name_of(fused.second_bias->ref.dtype())))
        .read(&MatmulWgmmaParams::bias2, fused.second_bias->ref,
              pair_bytes(fused.second_bias->ref));
  }
  if (product.residual) {
    dispatch.define("RLX_RESIDUAL", std::string(name_of(product.residual->ref.dtype())))
        .define("RLX_RESIDUAL_PITCH", product.residual->m)
        .define("RLX_RESIDUAL_FIRST", product.residual_first ? 1 : 0)
        .read(&MatmulWgmmaParams::residual, product.residual->ref,
              copies_residual ? kWidestAccessBytes : pair_bytes(product.residual->ref));
  }
  if (copies_residual) {
    dispatch.map(&MatmulWgmmaParams::residual,
                 chunk_map(product, product.residual->ref.dtype(), product.residual->m));
  }
}

Dim all_bytes(const FusedProduct& fused) {
  Dim bytes = least_bytes(fused.product);
  if (fused.second) bytes += fused.second->ref.byte_range().length_bytes;
  if (fused.second_bias) bytes += fused.second_bias->ref.byte_range().length_bytes;
  return bytes;
}

// Of tens of operations per element.
bool is_heavy_activation(const std::string& op) {
  return !op.empty() && op != "relu" && op != "silu";
}

TiledSize tiled_size(const FusedProduct& fused, const SampledSizes& at) {
  return {.m = at.value(fused.product.m),
          .n = fused.product.n,
          .k = fused.product.k,
          .bytes = at.value(all_bytes(fused)),
          .gated = fused.second.has_value(),
          .residual = fused.product.residual.has_value(),
          .heavy_activation = is_heavy_activation(fused.product.activation.op)};
}
std::vector<TiledSize> tiled_sizes(const FusedProduct& fused) {
  return at_sampled_sizes({fused.product.m},
                          [&fused](const SampledSizes& at) { return tiled_size(fused, at); });
}

// All but the operands.
void finish(WgmmaDispatch& dispatch, LowerContext& ctx, const FusedProduct& fused,
            const TiledSize& size, const WgmmaTile& tile) {
  const Product& product = fused.product;
  const Dim pairs = pair_count(product.m, product.n, tile);
  const Dim groups = 2 * min(pairs, pairs_of(ctx.target().device));
  const bool activated = !product.activation.none();
  const bool copies_residual = residual_copied(ctx, product);
  const SharedPlan shared = shared_plan(fused, tile, copies_residual);
  dispatch.workgroup({kThreads, 1, 1})
      .define("RLX_A", std::string(name_of(product.a.ref.dtype())))
      .define("RLX_Y", std::string(name_of(product.y.dtype())))
      .size("RLX_M", product.m)
      .define("RLX_N", product.n)
      .define("RLX_K", product.k)
      .define("RLX_B_PITCH", product.b.line)
      .define("RLX_Y_PITCH", y_pitch(product))
      .define("RLX_TILE_N", tile.columns)
      .define("RLX_STAGES", int64_t{shared.stages})
      .define("RLX_BUFFERS", int64_t{shared.buffers})
      .define("RLX_RESIDUAL_COPIED", copies_residual ? 1 : 0)
      .define("RLX_PINGPONG", tile.pingpong ? 1 : 0)
      .define("RLX_GATED", size.gated ? 1 : 0)
      .define("RLX_RASTER", 8)
      .define("RLX_BESIDE", tile.beside ? 1 : 0)
      .define("RLX_RAGGED", has_ragged_rows(product) ? 1 : 0)
      .define("RLX_PREFETCH", ctx.segment_of(product.b.ref) == Segment::Weights ? 1 : 0)
      .define("RLX_ACTIVATION", activated ? 1 : 0)
      .define("RLX_UNROLL_CHUNKS", size.heavy_activation ? 0 : 1)
      .define("RLX_SHORT_MATH", is_half(product.y.dtype()) ? 1 : 0);
  if (activated)
    dispatch.generated("epilogue.inc", activation_source(product.activation, DType::f32));
  dispatch.write(&MatmulWgmmaParams::y, product.y, kWidestAccessBytes);
  if (is_half(product.y.dtype()) && !has_ragged_rows(product))
    dispatch.map(&MatmulWgmmaParams::y, chunk_map(product, product.y.dtype(), y_pitch(product)));
  bind_added(dispatch, fused, copies_residual);
  dispatch.grid(groups)
      .work(all_bytes(fused), flops_of(product) * (size.gated ? 2 : 1))
      .estimate([size, tile](const DeviceModel& device) {
        return wgmma_tile_microseconds(device, size, tile);
      })
      .reason((product.note.empty() ? "" : product.note + ": ") + "matmul_wgmma 128x" +
              std::to_string(tile.columns) + (size.gated ? " gated" : "") + " tiles, " +
              std::to_string(pairs.bound()) +
              (tile.beside ? " pairs beside each other, " : " pairs, ") +
              (tile.pingpong ? "warpgroups in turn" : "warpgroups side by side"));
}

void emit_tile(LowerContext& ctx, const FusedProduct& fused, const TiledSize& size,
               const WgmmaTile& tile) {
  const Product& product = fused.product;
  // The workgroups of a pair take turns to copy the panel that they share.
  const int64_t a_box = tile.beside ? 32 : kTileLines;
  const int64_t b_box = tile.beside ? tile.columns : tile.columns / 2;
  auto dispatch = ctx.dispatch<KernelId::matmul_wgmma>();
  dispatch.define("RLX_A_PITCH", product.a.line)
      .read(&MatmulWgmmaParams::a, product.a.ref, kWidestAccessBytes)
      .map(&MatmulWgmmaParams::a, rows_map(product.a, product.m, product.k, a_box))
      .read(&MatmulWgmmaParams::b, product.b.ref, kWidestAccessBytes)
      .map(&MatmulWgmmaParams::b, rows_map(product.b, product.n, product.k, b_box));
  if (fused.second) {
    dispatch.read(&MatmulWgmmaParams::b2, fused.second->ref, kWidestAccessBytes)
        .map(&MatmulWgmmaParams::b2, rows_map(*fused.second, product.n, product.k, b_box));
  }
  finish(dispatch, ctx, fused, size, tile);
}

std::vector<TiledSize> tiled_sizes(const WindowProduct& product) {
  const FusedProduct& fused = product.fused;
  return at_sampled_windows(fused.product.m, [&product, &fused](const SampledSizes& at) {
    TiledSize size = tiled_size(fused, at);
    size.k = depth_of_steps(product);
    size.of_window = true;
    return size;
  });
}

constexpr const char* kNoPieces = "operands that are no rows of aligned 16-byte pieces";

// Lines of y that stand apart are what the copy engine writes.
bool copies_lines(const Product& product) {
  const Dim& line = product.y_lines->line;
  return is_half(product.y.dtype()) && !has_ragged_rows(product) && !line.is_free() &&
         line < kSizeLimit && line % kPieceElements == 0;
}

// All but what a's lines are.
std::string common_refusal(const OfferContext& at, const FusedProduct& fused) {
  const Product& product = fused.product;
  if (fused.norm) return "a norm before it";
  if (std::string refusal = free_refusal(product); !refusal.empty()) return refusal;
  const int64_t least = fused.any_lines ? 1 : fused.second ? kLeastGatedLines : kLeastLines;
  if (product.m < least) return "less than " + std::to_string(least) + " lines";
  if (!good_size(product.m.bound(), product.n, product.k))
    return "too small or no whole 16-byte pieces";
  const DType dtype = product.a.ref.dtype();
  if (!is_half(dtype) || product.b.ref.dtype() != dtype)
    return "operands that are not two of f16 or two of bf16";
  if (!is_half(product.y.dtype()) && product.y.dtype() != DType::f32)
    return "a result of " + std::string(name_of(product.y.dtype()));
  if (!product.batch.empty()) return "a batch";
  if (product.y_lines && !copies_lines(product)) return "a result whose lines stand apart";
  if (!rows_of_pieces(at, product.b) || at.alignment(product.y) < kWidestAccessBytes)
    return kNoPieces;
  if (std::string refusal = ragged_refusal(fused); !refusal.empty()) return refusal;
  if (product.bias && !is_bias_vector(at, *product.bias)) return "a bias that is no vector over n";
  if (product.residual && !is_rows(at, *product.residual)) return "a residual that is no rows";
  if (!fused.second) return {};
  if (fused.second->ref.dtype() != dtype || fused.second->line != product.b.line ||
      !rows_of_pieces(at, *fused.second) ||
      (fused.second_bias && !is_bias_vector(at, *fused.second_bias))) {
    return "a second matrix unlike the first";
  }
  return {};
}

}  // namespace

std::string wgmma_refusal(const OfferContext& at, const FusedProduct& fused) {
  if (fused.product.residual_first) return "a residual before the activation";
  if (!rows_of_pieces(at, fused.product.a)) return kNoPieces;
  return common_refusal(at, fused);
}

std::string wgmma_window_refusal(const OfferContext& at, const WindowProduct& given) {
  const Product& product = given.fused.product;
  if (std::string refusal = window_refusal(given.window); !refusal.empty()) return refusal;
  if (has_ragged_rows(product)) return "filters that are no whole 16-byte pieces";
  if (given.channels % kPieceElements != 0 || !rows_of_pieces(at, product.a)) return kNoPieces;
  return common_refusal(at, given.fused);
}

double wgmma_microseconds(const DeviceModel& device, const TiledSize& size) {
  const auto candidates = candidates_for(device, {&size, 1});
  return least_excess(candidates, [](const WgmmaChoice& choice) { return choice.microseconds; })
      .microseconds;
}

double wgmma_time(const OfferContext& at, const FusedProduct& fused) {
  return mean_over_sizes(tiled_sizes(fused), [&at](const TiledSize& size) {
    return wgmma_microseconds(at.device(), size);
  });
}

double wgmma_window_time(const OfferContext& at, const WindowProduct& product) {
  return mean_over_sizes(tiled_sizes(product), [&at](const TiledSize& size) {
    return wgmma_microseconds(at.device(), size);
  });
}

double wgmma_window_time_of(const OfferContext& at, const WindowProduct& largest,
                            const WindowProduct& product) {
  const auto candidates = candidates_for(at.device(), tiled_sizes(largest));
  const WgmmaTile tile =
      least_excess(candidates, [](const WgmmaChoice& choice) { return choice.microseconds; }).tile;
  return wgmma_tile_microseconds(at.device(), tiled_sizes(product).front(), tile);
}

bool emit_wgmma(LowerContext& ctx, const FusedProduct& fused) {
  const Product& product = fused.product;
  std::vector<TiledSize> sizes = tiled_sizes(fused);
  const TiledSize largest = sizes.front();
  const auto emit = [&](const WgmmaChoice& choice) { emit_tile(ctx, fused, largest, choice.tile); };
  if (!has_free_lines(product)) {
    emit(take_form(ctx, "matmul_wgmma", candidates_for(ctx.device(), sizes)));
    return true;
  }
  sizes.clear();
  for (const int64_t m : form_sizes(product.m))
    sizes.push_back(tiled_size(at_size(fused, m), SampledSizes(0)));
  emit_forms(ctx, "matmul_wgmma", product.m, candidates_for(ctx.device(), sizes), emit);
  return true;
}

bool emit_wgmma_window(LowerContext& ctx, const WindowProduct& given,
                       const WindowProduct& for_tiles) {
  const Product& product = given.fused.product;
  const std::vector<TiledSize> sizes = tiled_sizes(for_tiles);
  const WgmmaTile tile = take_form(ctx, "matmul_wgmma", candidates_for(ctx.device(), sizes)).tile;
  auto dispatch = ctx.dispatch<KernelId::matmul_wgmma>();
  dispatch.define("RLX_WINDOW", 1)
      .define("RLX_CHANNELS", given.channels)
      .define("RLX_TAPS", given.window.taps());
  define_window(dispatch, given.window);
  const int64_t pitch = product.a.line;
  const Dim& width = given.window.in[2];
  dispatch.size("RLX_X_N", given.window.in[1] * width * pitch)
      .size("RLX_X_H", width * pitch)
      .define("RLX_X_W", pitch)
      .read(&MatmulWgmmaParams::a, product.a.ref, kWidestAccessBytes)
      .map(&MatmulWgmmaParams::a, pixels_map(given))
      .read(&MatmulWgmmaParams::b, product.b.ref, kWidestAccessBytes)
      .map(&MatmulWgmmaParams::b, taps_map(given, tile.columns / 2));
  finish(dispatch, ctx, given.fused, sizes.front(), tile);
  return true;
}

}  // namespace rlx
