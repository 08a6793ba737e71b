// SPDX-License-Identifier: Apache-2.0
// Resampling: Resize, Upsample, GridSample.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/import/names.h"
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
  if (coordinates == "tf_half_pixel_for_nn") {
    // (o + 1/2) / scale, which is half_pixel's coordinate plus 1/2.
    if (mode != "nearest" || (nearest != "floor" && nearest != "round_prefer_floor"))
      n.refuse("tf_half_pixel_for_nn is supported with nearest_mode floor and round_prefer_floor");
    coordinates = "half_pixel";
    nearest = nearest == "floor" ? "round_prefer_ceil" : "ceil";
  }
  n.real("extrapolation_value", 0);  // of a region
  return {{"mode", mode},
          {"coord", coordinates},
          {"nearest_mode", nearest},
          {"cubic_a", n.real("cubic_coeff_a", -0.75)},
          {"exclude_outside", n.integer("exclude_outside", 0) != 0},
          {"antialias", n.integer("antialias", 0) != 0},
          {"antialias_clamps", n.integer("exclude_outside", 0) == 0}};
}

// Resizes a region of x (tf_crop_and_resize), which the run may give: its bounds are shares of the
// whole axis, whose first and last element are 0 and 1. What lies outside x is a value of its own.
class RegionResize {
 public:
  explicit RegionResize(NodeReader& n) : n_(n), mode_(mode_of(n, n.text("mode", "nearest"))) {
    nearest_ = n.text("nearest_mode", "round_prefer_floor");
    if (mode_ == "cubic" || n.integer("antialias", 0) != 0)
      n.refuse("tf_crop_and_resize of cubic or antialiased is not supported",
               "cut the region out first, then resize it");
    if (n.text("keep_aspect_ratio_policy", "stretch") != "stretch")
      n.refuse("keep_aspect_ratio_policy with tf_crop_and_resize is not supported");
    n.real("cubic_coeff_a", -0.75);
    n.integer("exclude_outside", 0);
  }

  void build(const Ints& axes) {
    if (n_.shape(1) != Shape{static_cast<int64_t>(2 * axes.size())})
      n_.refuse_shapes("the region is " + to_string(n_.shape(1)) + ", wanted 2 bounds of each of " +
                       std::to_string(axes.size()) + " axes");
    const Ints sizes = sizes_of(axes);
    if (sizes.size() != axes.size())
      n_.refuse(std::to_string(axes.size()) + " axes have " + std::to_string(sizes.size()) +
                " sizes");
    ValueId y = n_.input(0);
    std::optional<ValueId> outside;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (is_whole(i, axes.size()) && sizes[i] == n_.type(y).shape[static_cast<size_t>(axes[i])])
        continue;
      const ValueId at = places(i, axes, sizes[i]);
      const ValueId is_outside =
          n_.emit("logical_or",
                  {n_.emit("lt", {at, number(0)}), n_.emit("gt", {at, number(last(axes[i]))})});
      const ValueId along = as_axis(is_outside, axes[i]);
      outside = outside ? n_.emit("logical_or", {*outside, along}) : along;
      y = resampled(y, at, axes[i]);
    }
    const double value = n_.real("extrapolation_value", 0);
    if (outside) y = n_.emit("where", {*outside, n_.scalar(n_.type(y).dtype, value), y});
    n_.set_output(0, y);
  }

 private:
  ValueId number(double value) { return n_.scalar(DType::f32, value); }
  double last(int64_t axis) {
    return static_cast<double>(n_.shape(0)[static_cast<size_t>(axis)]) - 1;
  }

  ValueId bound(size_t i) {
    const ValueId one =
        n_.emit("narrow", {n_.input(1)},
                {{"axis", int64_t{0}}, {"start", static_cast<int64_t>(i)}, {"len", int64_t{1}}});
    return n_.cast(n_.reshape(one, {}), DType::f32);
  }

  // The region is known to be all of the axis.
  bool is_whole(size_t i, size_t count) {
    const Tensor* region = n_.builder().known(n_.input(1));
    return region != nullptr && region->floats[i] == 0 && region->floats[count + i] == 1;
  }

  Ints sizes_of(const Ints& axes) {
    if (n_.has_input(3) && n_.shape(3) != Shape{0}) {
      if (n_.has_input(2) && n_.shape(2) != Shape{0}) n_.refuse("it has scales and sizes");
      return n_.known_ints(3, "the sizes");
    }
    const Floats scales = n_.known_reals(2, "the scales");
    const Floats region = n_.known_reals(1, "the region, which sizes are scaled from");
    Ints sizes;
    for (size_t i = 0; i < axes.size() && i < scales.size(); ++i) {
      const double size =
          std::floor((last(axes[i]) + 1) * (region[axes.size() + i] - region[i]) * scales[i]);
      if (!(size >= 1 && size <= kMostScale)) n_.refuse("a size is " + std::to_string(size));
      sizes.emplace_back(static_cast<int64_t>(size));
    }
    return sizes;
  }

  // In x, of the places of an axis of the result.
  ValueId places(size_t i, const Ints& axes, int64_t size) {
    if (size < 1) n_.refuse("a size is " + std::to_string(size));
    const ValueId start = bound(i);
    const ValueId end = bound(axes.size() + i);
    const ValueId whole = number(last(axes[i]));
    if (size == 1) {
      const ValueId middle = n_.emit("mul", {n_.emit("add", {start, end}), number(0.5)});
      return n_.reshape(n_.emit("mul", {middle, whole}), {1});
    }
    const ValueId first = n_.emit("mul", {start, whole});
    const ValueId length = n_.emit("mul", {n_.emit("sub", {end, start}), whole});
    const ValueId step = n_.emit("div", {length, number(static_cast<double>(size - 1))});
    return n_.emit("ramp", {first, step}, {{"count", size}});
  }

  ValueId as_axis(ValueId vector, int64_t axis) {
    Shape shape(n_.shape(0).size() - static_cast<size_t>(axis), 1);
    shape[0] = n_.type(vector).shape[0];
    return n_.reshape(vector, shape);
  }

  ValueId taken(ValueId x, ValueId at, int64_t axis) {
    return n_.emit("gather", {x, n_.cast(at, DType::i32)}, {{"axis", axis}});
  }

  ValueId resampled(ValueId x, ValueId at, int64_t axis) {
    const ValueId inside = n_.emit("clamp", {at}, {{"min", 0.0}, {"max", last(axis)}});
    if (mode_ == "nearest") return taken(x, rounded(inside), axis);
    const ValueId below = n_.emit("floor", {inside});
    const ValueId above =
        n_.emit("clamp", {n_.emit("add", {below, number(1)})}, {{"min", 0.0}, {"max", last(axis)}});
    const ValueId share = as_axis(n_.cast(n_.emit("sub", {inside, below}), n_.type(x).dtype), axis);
    const ValueId low = taken(x, below, axis);
    const ValueId step = n_.emit("sub", {taken(x, above, axis), low});
    return n_.emit("add", {low, n_.emit("mul", {step, share})});
  }

  ValueId rounded(ValueId at) {
    if (nearest_ == "floor" || nearest_ == "ceil") return n_.emit(nearest_, {at});
    if (nearest_ == "round_prefer_floor")
      return n_.emit("ceil", {n_.emit("sub", {at, number(0.5)})});
    if (nearest_ == "round_prefer_ceil")
      return n_.emit("floor", {n_.emit("add", {at, number(0.5)})});
    n_.refuse("nearest_mode is " + in_quotes(nearest_));
  }

  NodeReader& n_;
  std::string mode_;
  std::string nearest_;
};

}  // namespace

void resize(NodeReader& n, const OnnxOp&) {
  if (n.opset() < 11) {
    emit_resize(n, from_scales(n, all_axes(n), n.known_reals(1, "the scales")), first_rules(n));
    return;
  }
  Ints axes = n.integers("axes", all_axes(n));
  for (Dim& axis : axes) axis = n.axis(axis, n.rank(0));
  if (n.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize")
    return RegionResize(n).build(axes);
  const std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  Attributes attributes = rules(n);
  // An input of no elements stands for a missing one in older models.
  n.ignore_input(1);  // a region
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
