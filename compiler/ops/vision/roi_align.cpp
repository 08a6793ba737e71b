// SPDX-License-Identifier: Apache-2.0
// roi_align: boxes of images as cells of samples (ONNX RoiAlign-22, torchvision).
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kLargestRoiImage = int64_t{1} << 22;  // positions keep fractions in f32

bool infer_roi_align(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "x") || !check_float_input(ctx, 1, "rois")) return false;
  const Shape& x = ctx.shape(0);
  const Shape& rois = ctx.shape(1);
  if (x.size() != 4 || rois.size() != 2 || rois[1] != 4 || ctx.shape(2) != Shape{rois[0]}) {
    return ctx.fail(DiagCode::BadShape, "x is " + to_string(x) + ", rois " + to_string(rois) +
                                            " and images " + to_string(ctx.shape(2)) +
                                            "; wanted [N, C, H, W], [K, 4] and [K]");
  }
  if (!is_integer(ctx.dtype(2))) {
    return ctx.fail(DiagCode::BadDtype,
                    "images is " + std::string(name_of(ctx.dtype(2))) + ", wanted an integer type");
  }
  for (const size_t d : {0, 2, 3}) {
    if (x[d] > 0 && x[d].range().most <= kLargestRoiImage) continue;
    return ctx.fail(DiagCode::BadShape, "axis " + std::to_string(d) + " of x " + to_string(x) +
                                            " has " + to_string(x[d]) + " elements; wanted 1 to " +
                                            std::to_string(kLargestRoiImage));
  }
  ctx.set_output(0, {ctx.dtype(0),
                     {rois[0], x[1], ctx.attrs().integer("output_height"),
                      ctx.attrs().integer("output_width")}});
  return true;
}

// ---- evaluate_roi_align ----

// Sizes of cells decide how many samples there are, so they are rounded as the kernel rounds them.
using CellSize = float;

// One axis of the samples of one cell.
struct RoiSample {
  int64_t low = 0;
  int64_t high = 0;
  double low_weight = 0;
  double high_weight = 0;
  double position = 0;
  bool is_inside = false;
};

RoiSample roi_sample_at(double at, int64_t size) {
  RoiSample sample;
  sample.is_inside = at >= -1 && at <= static_cast<double>(size);
  const double place = std::clamp(at, 0.0, static_cast<double>(size - 1));
  sample.position = std::abs(at);
  sample.low = static_cast<int64_t>(place);
  sample.high = std::min(sample.low + 1, size - 1);
  sample.high_weight = place - static_cast<double>(sample.low);
  sample.low_weight = 1 - sample.high_weight;
  return sample;
}

struct RoiAxis {
  int64_t size = 0;   // of the image
  int64_t cells = 0;  // of the result
  int64_t samples = 0;
  double scale = 1;
  bool is_half = true;
};

// Per cell its samples.
std::vector<std::vector<RoiSample>> roi_samples_of(const RoiAxis& axis, double low, double high) {
  const double start = low * axis.scale - (axis.is_half ? 0.5 : 0);
  double length = high * axis.scale - (axis.is_half ? 0.5 : 0) - start;
  if (!axis.is_half) length = std::max(length, 1.0);
  const double cell = length / static_cast<double>(axis.cells);
  int64_t count = axis.samples;
  if (count == 0) {
    const double most = 2 * static_cast<double>(axis.size) + 64;
    count = static_cast<int64_t>(
        std::min(std::ceil(std::max<double>(static_cast<CellSize>(cell), 0)), most));
  }
  std::vector<std::vector<RoiSample>> cells(static_cast<size_t>(axis.cells));
  for (size_t c = 0; c < cells.size(); ++c) {
    for (int64_t i = 0; i < count; ++i) {
      const double part = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
      cells[c].push_back(roi_sample_at(start + (static_cast<double>(c) + part) * cell, axis.size));
    }
  }
  return cells;
}

bool evaluate_roi_align(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const Tensor& rois = ctx.input(1);
  Tensor& y = ctx.output(0);
  const int64_t channels = x.type.shape[1];
  const bool is_half = ctx.attrs().flag("half_pixel");
  const bool takes_largest = ctx.attrs().text("mode") == "max";
  const RoiAxis rows{.size = x.type.shape[2],
                     .cells = y.type.shape[2],
                     .samples = ctx.attrs().integer("sampling_ratio"),
                     .scale = ctx.attrs().real("spatial_scale"),
                     .is_half = is_half};
  RoiAxis columns = rows;
  columns.size = x.type.shape[3];
  columns.cells = y.type.shape[3];
  y.magnitudes.assign(y.floats.size(), 0);
  y.terms = 4;
  size_t at = 0;
  for (int64_t k = 0; k < rois.type.shape[0]; ++k) {
    const double* roi = rois.floats.data() + k * 4;
    const auto ys = roi_samples_of(rows, roi[1], roi[3]);
    const auto xs = roi_samples_of(columns, roi[0], roi[2]);
    const int64_t images = x.type.shape[0];
    const int64_t written = ctx.input(2).integers[static_cast<size_t>(k)];
    const int64_t image =
        std::clamp<int64_t>(written < 0 ? written + images : written, 0, images - 1);
    for (int64_t c = 0; c < channels; ++c) {
      const double* plane = x.floats.data() + (image * channels + c) * rows.size * columns.size;
      for (const std::vector<RoiSample>& y_samples : ys) {
        for (const std::vector<RoiSample>& x_samples : xs) {
          double total = 0;
          bool is_first = true;
          for (const RoiSample& row : y_samples) {
            for (const RoiSample& column : x_samples) {
              std::array<double, 4> terms{};
              // What the roundings of a position move the value by, over their size.
              double moved = 0;
              if (row.is_inside && column.is_inside) {
                const auto pixel = [&](int64_t i, int64_t j) {
                  return plane[i * columns.size + j];
                };
                terms = {row.low_weight * column.low_weight * pixel(row.low, column.low),
                         row.low_weight * column.high_weight * pixel(row.low, column.high),
                         row.high_weight * column.low_weight * pixel(row.high, column.low),
                         row.high_weight * column.high_weight * pixel(row.high, column.high)};
                const auto [low, high] =
                    std::minmax({pixel(row.low, column.low), pixel(row.low, column.high),
                                 pixel(row.high, column.low), pixel(row.high, column.high)});
                moved = (row.position + column.position + 1) * (high - low);
              }
              const double largest = *std::max_element(terms.begin(), terms.end());
              total = !takes_largest ? total + terms[0] + terms[1] + terms[2] + terms[3]
                      : is_first     ? largest
                                     : std::max(total, largest);
              is_first = false;
              for (const double term : terms) moved += std::abs(term);
              y.magnitudes[at] =
                  takes_largest ? std::max(y.magnitudes[at], moved) : y.magnitudes[at] + moved;
            }
          }
          const auto count = static_cast<double>(y_samples.size() * x_samples.size());
          const double divisor = takes_largest ? 1 : std::max(count, 1.0);
          y.magnitudes[at] /= divisor;
          y.floats[at++] = total / divisor;
        }
      }
    }
  }
  return true;
}

// ---- lower_roi_align ----

bool lower_roi_align(LowerContext& ctx) {
  constexpr uint32_t kThreads = 256;
  const TensorRef x = ctx.input(0);
  const TensorRef rois = ctx.dense_input(1);
  const TensorRef images = ctx.dense_input(2);
  const TensorRef y = ctx.output(0);
  const Dim count = element_count(y.shape());
  if (count == 0) return true;
  const bool is_wide = x.dtype() == DType::f64 || rois.dtype() == DType::f64;
  const DType real = is_wide ? DType::f64 : DType::f32;
  const DType acc = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const int64_t samples = ctx.attrs().integer("sampling_ratio");
  ctx.dispatch<KernelId::roi_align>()
      .workgroup({kThreads, 1, 1})
      .define("RLX_X", std::string(name_of(x.dtype())))
      .define("RLX_ROI", std::string(name_of(rois.dtype())))
      .define("RLX_I", std::string(name_of(images.dtype())))
      .define("RLX_REAL", "rlx_" + std::string(name_of(real)))
      .define("RLX_ACC", "rlx_" + std::string(name_of(acc)))
      .define("RLX_COUNT", integer_text(count))
      .size("RLX_IMAGES", x.shape()[0])
      .size("RLX_CHANNELS", x.shape()[1])
      .size("RLX_HEIGHT", x.shape()[2])
      .size("RLX_WIDTH", x.shape()[3])
      .size("RLX_OUT_H", y.shape()[2])
      .size("RLX_OUT_W", y.shape()[3])
      .define("RLX_X_N", integer_text(x.strides[0]))
      .define("RLX_X_C", integer_text(x.strides[1]))
      .define("RLX_X_H", integer_text(x.strides[2]))
      .define("RLX_X_W", integer_text(x.strides[3]))
      .define("RLX_SCALE", literal(real, ctx.attrs().real("spatial_scale")))
      .define("RLX_HALF", ctx.attrs().flag("half_pixel") ? 1 : 0)
      .define("RLX_SAMPLES", samples)
      .define("RLX_LARGEST", ctx.attrs().text("mode") == "max" ? 1 : 0)
      .define("RLX_LINEAR", index_type(IndexUse::Linear, count.range().most + kThreads))
      .read(&RoiAlignParams::x, x)
      .read(&RoiAlignParams::rois, rois)
      .read(&RoiAlignParams::images, images)
      .write(&RoiAlignParams::y, y)
      .count_index_errors()
      .grid(split_grid(ceil_div(count, kThreads)))
      .work(x.byte_range().length_bytes + byte_size(rois.type) + byte_size(y.type),
            count * 16 * std::max<int64_t>(samples * samples, 1))
      .reason(samples == 0 ? "samples by the boxes' sizes"
                           : std::to_string(samples * samples) + " samples");
  return true;
}

constexpr std::string_view kRoiModes[] = {"avg", "max"};
constexpr AttrSpec kRoiAlignAttrs[] = {
    {.name = "output_height",
     .type = AttrType::Int,
     .default_text = "1",
     .minimum = 1,
     .maximum = kLargestInt,
     .consumed_by_infer = true},
    {.name = "output_width",
     .type = AttrType::Int,
     .default_text = "1",
     .minimum = 1,
     .maximum = kLargestInt,
     .consumed_by_infer = true},
    {.name = "sampling_ratio",
     .type = AttrType::Int,
     .default_text = "0",
     .minimum = 0,
     .maximum = 1024},
    {.name = "spatial_scale", .type = AttrType::Float, .default_text = "1"},
    {.name = "half_pixel", .type = AttrType::Bool, .default_text = "true"},
    {.name = "mode", .type = AttrType::String, .default_text = "\"avg\"", .choices = kRoiModes},
};

constexpr OpDef kRoiAlignOps[] = {
    {.name = "roi_align",
     .signature = "roi_align(x, rois, images; output_height=1, output_width=1, sampling_ratio=0, "
                  "spatial_scale=1, half_pixel=true, mode=\"avg\") -> y",
     .inputs = {3, 3},
     .attrs = kRoiAlignAttrs,
     .infer = infer_roi_align,
     .evaluate = evaluate_roi_align,
     .lower = lower_roi_align,
     .reads_strides = true,
     .index_inputs = 1u << 2,
     .keeps_f32 = 1u << 1},
};

}  // namespace

std::span<const OpDef> roi_align_ops() {
  return kRoiAlignOps;
}

}  // namespace rlx
