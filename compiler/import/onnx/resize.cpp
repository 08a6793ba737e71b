// SPDX-License-Identifier: Apache-2.0
// Resampling: Resize, Upsample, GridSample.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/import/onnx/node_reader.h"

namespace rlx::onnx_import {

void resize(NodeReader& n, const OnnxOp& row);
void upsample(NodeReader& n, const OnnxOp& row);
void grid_sample(NodeReader& n, const OnnxOp& row);

namespace {

constexpr double kMostScale = 0x1p30;

// What is resized: not the axes that stay whatever the sizes of images are.
struct Sizes {
  Ints axes;
  Floats scales;  // either these,
  Ints sizes;     // or these
};

Sizes from_scales(NodeReader& n, const Ints& axes, const Floats& scales) {
  if (axes.size() != scales.size())
    n.refuse(std::to_string(axes.size()) + " axes have " + std::to_string(scales.size()) +
             " scales");
  Sizes result;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!(scales[i] > 0) || scales[i] > kMostScale)
      n.refuse("a scale is " + std::to_string(scales[i]));
    if (scales[i] == 1) continue;
    result.axes.push_back(axes[i]);
    result.scales.push_back(scales[i]);
  }
  return result;
}

// keep_aspect_ratio_policy: one scale for all axes, sizes rounded from it.
Ints with_one_scale(NodeReader& n, const Ints& axes, Ints sizes, bool largest) {
  double scale = largest ? 0 : std::numeric_limits<double>::infinity();
  const auto size_of = [&](size_t i) {
    return static_cast<double>(n.shape(0)[static_cast<size_t>(axes[i])]);
  };
  for (size_t i = 0; i < axes.size(); ++i) {
    const double own = static_cast<double>(sizes[i]) / size_of(i);
    if (!(own > 0 && own <= kMostScale))
      n.refuse("a size is " + to_string(sizes[i]) + " for " + to_string(size_of(i)));
    scale = largest ? std::max(scale, own) : std::min(scale, own);
  }
  for (size_t i = 0; i < axes.size(); ++i)
    sizes[i] = static_cast<int64_t>(std::floor(size_of(i) * scale + 0.5));
  return sizes;
}

Sizes from_sizes(NodeReader& n, const Ints& axes, Ints sizes, const std::string& policy) {
  if (axes.size() != sizes.size())
    n.refuse(std::to_string(axes.size()) + " axes have " + std::to_string(sizes.size()) + " sizes");
  if (policy == "not_larger" || policy == "not_smaller") {
    sizes = with_one_scale(n, axes, sizes, policy == "not_smaller");
  } else if (policy != "stretch") {
    n.refuse("keep_aspect_ratio_policy is \"" + policy + "\"");
  }
  Sizes result;
  for (size_t i = 0; i < axes.size(); ++i) {
    // An image may have the wanted size by chance, where other bindings of its symbols have not.
    const bool is_spatial = axes[i] >= 2;
    if (!is_spatial && sizes[i] == n.shape(0)[static_cast<size_t>(axes[i])]) continue;
    result.axes.push_back(axes[i]);
    result.sizes.push_back(sizes[i]);
  }
  return result;
}

void emit_resize(NodeReader& n, const Sizes& sizes, Attributes attributes) {
  if (sizes.axes.empty()) {
    n.set_output(0, n.emit("identity", {n.input(0)}));
    return;
  }
  attributes.emplace("axes", sizes.axes);
  if (!sizes.scales.empty()) attributes.emplace("scales", sizes.scales);
  if (!sizes.sizes.empty()) attributes.emplace("sizes", sizes.sizes);
  n.set_output(0, n.emit("resize", {n.input(0)}, std::move(attributes)));
}

Ints all_axes(NodeReader& n) {
  Ints axes(static_cast<size_t>(n.rank(0)));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

std::string mode_of(NodeReader& n, const std::string& mode) {
  if (mode == "nearest" || mode == "linear" || mode == "cubic") return mode;
  n.refuse("the mode \"" + mode + "\" is unknown");
}

// The first version and Upsample: o / scale, rounded down.
Attributes first_rules(NodeReader& n) {
  return {{"mode", mode_of(n, n.text("mode", "nearest"))},
          {"coord", std::string("asymmetric")},
          {"nearest_mode", std::string("floor")}};
}

Attributes rules(NodeReader& n) {
  const std::string mode = mode_of(n, n.text("mode", "nearest"));
  std::string coordinates = n.text("coordinate_transformation_mode", "half_pixel");
  std::string nearest = n.text("nearest_mode", "round_prefer_floor");
  if (coordinates == "tf_crop_and_resize") {
    n.refuse("coordinate_transformation_mode tf_crop_and_resize is not supported",
             "cut the region out first, then resize it");
  }
  if (coordinates == "tf_half_pixel_for_nn") {
    // (o + 1/2) / scale, which is half_pixel's coordinate plus 1/2.
    if (mode != "nearest" || (nearest != "floor" && nearest != "round_prefer_floor"))
      n.refuse("tf_half_pixel_for_nn is supported with nearest_mode floor and round_prefer_floor");
    coordinates = "half_pixel";
    nearest = nearest == "floor" ? "round_prefer_ceil" : "ceil";
  }
  n.real("extrapolation_value", 0);  // of tf_crop_and_resize
  return {{"mode", mode},
          {"coord", coordinates},
          {"nearest_mode", nearest},
          {"cubic_a", n.real("cubic_coeff_a", -0.75)},
          {"exclude_outside", n.integer("exclude_outside", 0) != 0},
          {"antialias", n.integer("antialias", 0) != 0},
          {"antialias_clamps", n.integer("exclude_outside", 0) == 0}};
}

}  // namespace

void resize(NodeReader& n, const OnnxOp&) {
  if (n.opset() < 11) {
    emit_resize(n, from_scales(n, all_axes(n), n.known_reals(1, "the scales")), first_rules(n));
    return;
  }
  Ints axes = n.integers("axes", all_axes(n));
  for (Dim& axis : axes) axis = n.axis(axis, n.rank(0));
  const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  Attributes attributes = rules(n);
  // An input of no elements stands for a missing one in older models.
  n.ignore_input(1);  // a region, of tf_crop_and_resize
  const bool has_sizes = n.has_input(3) && n.shape(3) != Shape{0};
  if (has_sizes && n.has_input(2) && n.shape(2) != Shape{0}) n.refuse("it has scales and sizes");
  const Sizes sizes = has_sizes ? from_sizes(n, axes, n.known_ints(3, "the sizes"), policy)
                                : from_scales(n, axes, n.known_reals(2, "the scales"));
  const bool aligns = std::get<std::string>(attributes.at("coord")) == "align_corners";
  for (size_t i = 0; aligns && i < sizes.scales.size(); ++i) {
    const double size =
        static_cast<double>(n.shape(0)[static_cast<size_t>(sizes.axes[i])]) * sizes.scales[i];
    if (std::fabs(size - std::round(size)) < 1e-4 * size) continue;
    n.refuse("align_corners to a size of " + std::to_string(size) +
                 ": ONNX's reference uses the fraction, runtimes do not",
             "give sizes instead of scales");
  }
  emit_resize(n, sizes, std::move(attributes));
}

void upsample(NodeReader& n, const OnnxOp&) {
  const Floats scales = n.opset() < 9 ? n.reals("scales", {}) : n.known_reals(1, "the scales");
  emit_resize(n, from_scales(n, all_axes(n), scales), first_rules(n));
}

void grid_sample(NodeReader& n, const OnnxOp&) {
  std::string mode = n.text("mode", n.opset() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  n.set_output(0, n.emit("grid_sample", {n.input(0), n.input(1)},
                         {{"mode", mode},
                          {"padding_mode", n.text("padding_mode", "zeros")},
                          {"align_corners", n.integer("align_corners", 0) != 0}}));
}

}  // namespace rlx::onnx_import
