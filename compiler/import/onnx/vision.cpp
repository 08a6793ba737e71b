// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools.
#include <algorithm>
#include <array>
#include <numeric>

#include "compiler/import/onnx/op_table.h"
#include "compiler/import/onnx/windows.h"

namespace rlx::onnx_import {

void max_pool(NodeReader& n, const OnnxOp& row);
void resize(NodeReader& n, const OnnxOp& row);        // resize.cpp
void upsample(NodeReader& n, const OnnxOp& row);      // resize.cpp
void grid_sample(NodeReader& n, const OnnxOp& row);   // resize.cpp
void affine_grid(NodeReader& n, const OnnxOp& row);   // affine_grid.cpp
void max_roi_pool(NodeReader& n, const OnnxOp& row);  // max_roi_pool.cpp

namespace {

// Larger sizes of windows and inputs would not fit products of them.
constexpr int64_t kMostWindow = int64_t{1} << 30;
constexpr int64_t kMostPlanes = int64_t{1} << 24;

Ints spatial_of(const Shape& shape) {
  return shape.size() < 2 ? Ints() : Ints(shape.begin() + 2, shape.end());
}

void conv(NodeReader& n, const OnnxOp&) {
  Attributes attributes = attributes_of(read_windows(n, spatial_of(n.shape(1))));
  attributes.emplace("groups", n.integer("group", 1));
  n.set_output(
      0, n.emit("conv", {n.input(0), n.input(1), n.optional_input(2)}, std::move(attributes)));
}

// output_shape, or automatic pads, decide the pads: what is too much is cut off, the larger half at
// the begin unless SAME_UPPER.
void conv_transpose(NodeReader& n, const OnnxOp&) {
  const Ints kernel = n.integers("kernel_shape", spatial_of(n.shape(1)));
  const size_t rank = kernel.size();
  if (rank == 0 || n.rank(0) != static_cast<int64_t>(rank) + 2)
    n.refuse_shapes("x " + to_string(n.shape(0)) + " does not fit a window of rank " +
                    std::to_string(rank));
  const Ints stride = n.integers("strides", Ints(rank, 1));
  const Ints dilation = n.integers("dilations", Ints(rank, 1));
  Ints output_padding = n.integers("output_padding", Ints(rank, 0));
  Ints pads = n.integers("pads", Ints(2 * rank, 0));
  Ints wanted = n.integers("output_shape", {});
  const std::string automatic = n.text("auto_pad", "NOTSET");
  if (stride.size() != rank || dilation.size() != rank || output_padding.size() != rank ||
      pads.size() != 2 * rank || (!wanted.empty() && wanted.size() < rank))
    n.refuse("an attribute has not one value for each of " + std::to_string(rank) + " axes");
  const std::array<const Ints*, 6> lists = {&kernel,         &stride, &dilation,
                                            &output_padding, &pads,   &wanted};
  for (const Ints* list : lists) {
    if (std::any_of(list->begin(), list->end(),
                    [](int64_t value) { return value < 0 || value > kMostWindow; }))
      n.refuse("an attribute of its windows is out of range");
  }
  if (std::any_of(n.shape(0).begin(), n.shape(0).end(),
                  [](int64_t dim) { return dim < 1 || dim > kMostWindow; }))
    n.refuse_shapes("x is of shape " + to_string(n.shape(0)));
  const bool is_same = automatic.starts_with("SAME");
  if (wanted.empty() && is_same) {
    for (size_t i = 0; i < rank; ++i) wanted.push_back(n.shape(0)[i + 2] * stride[i]);
  }
  if (!wanted.empty()) {
    wanted.erase(wanted.begin(), wanted.end() - static_cast<int64_t>(rank));
    for (size_t i = 0; i < rank; ++i) {
      const int64_t full = stride[i] * (n.shape(0)[i + 2] - 1) + output_padding[i] +
                           dilation[i] * (kernel[i] - 1) + 1;
      const int64_t total = std::max<int64_t>(full - wanted[i], 0);
      output_padding[i] += std::max<int64_t>(wanted[i] - full, 0);
      const int64_t smaller = total / 2;
      pads[i] = automatic == "SAME_UPPER" ? smaller : total - smaller;
      pads[i + rank] = total - pads[i];
    }
  } else if (automatic == "VALID") {
    pads.assign(2 * rank, 0);
  } else if (automatic != "NOTSET" && !automatic.empty()) {
    n.refuse("auto_pad is \"" + automatic + "\"");
  }
  Attributes attributes = {{"kernel", kernel},
                           {"stride", stride},
                           {"dilation", dilation},
                           {"pads", pads},
                           {"output_padding", output_padding},
                           {"groups", n.integer("group", 1)}};
  const ValueId y = n.emit("conv_transpose", {n.input(0), n.input(1), n.optional_input(2)},
                           std::move(attributes));
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (n.type(y).shape[i + 2] != wanted[i])
      n.refuse("output_shape wants " + to_string(wanted[i]) + " where " +
                   to_string(n.type(y).shape[i + 2]) + " come out",
               "give output_padding");
  }
  n.set_output(0, y);
}

// Flat places in the plane become flat places in the whole tensor; column by column where
// storage_order says so.
ValueId whole_indices(NodeReader& n, ValueId plane_indices, bool by_columns) {
  const Shape x = n.shape(0);
  const Ints spatial = spatial_of(x);
  const int64_t plane = element_count(Shape(spatial.begin(), spatial.end()));
  ValueId places = plane_indices;
  const auto scalar = [&](int64_t value) { return n.constant_ints(DType::i64, {}, {value}); };
  if (by_columns && spatial.size() > 1) {
    if (spatial.size() != 2) n.refuse("storage_order 1 is supported in two dims only");
    const ValueId row = n.emit("div", {places, scalar(spatial[1])});
    const ValueId column = n.emit("mod", {places, scalar(spatial[1])});
    places = n.emit("add", {n.emit("mul", {column, scalar(spatial[0])}), row});
  }
  if (x[0] > kMostPlanes || x[1] > kMostPlanes || x[0] * x[1] > kMostPlanes)
    n.refuse("indices of more than 2^24 planes are not supported");
  Ints starts(static_cast<size_t>(x[0] * x[1]));
  for (size_t i = 0; i < starts.size(); ++i) starts[i] = static_cast<int64_t>(i) * plane;
  Shape shape(x.size(), 1);
  shape[0] = x[0];
  shape[1] = x[1];
  return n.emit("add", {places, n.constant_ints(DType::i64, shape, std::move(starts))});
}

}  // namespace

void max_pool(NodeReader& n, const OnnxOp&) {
  Attributes attributes = attributes_of(read_windows(n, n.required_integers("kernel_shape")));
  attributes.emplace("kind", std::string("max"));
  attributes.emplace("ceil_mode", n.integer("ceil_mode", 0) != 0);
  const bool by_columns = n.integer("storage_order", 0) != 0;
  if (!n.wants_output(1)) {
    n.set_output(0, n.emit("pool", {n.input(0)}, std::move(attributes)));
    return;
  }
  attributes.emplace("index_dtype", std::string("i64"));
  const auto results = n.emit_all("pool", {n.input(0)}, std::move(attributes), 2);
  n.set_output(0, results[0]);
  n.set_output(1, whole_indices(n, results[1], by_columns));
}

namespace {

void average_pool(NodeReader& n, const OnnxOp&) {
  Attributes attributes = attributes_of(read_windows(n, n.required_integers("kernel_shape")));
  attributes.emplace("kind", std::string("mean"));
  attributes.emplace("ceil_mode", n.integer("ceil_mode", 0) != 0);
  attributes.emplace("count_include_pad", n.integer("count_include_pad", 0) != 0);
  n.set_output(0, n.emit("pool", {n.input(0)}, std::move(attributes)));
}

// (sum |x|^p)^(1/p)
void lp_pool(NodeReader& n, const OnnxOp&) {
  const auto p = static_cast<double>(n.integer("p", 2));
  Attributes attributes = attributes_of(read_windows(n, n.required_integers("kernel_shape")));
  attributes.emplace("kind", std::string("sum"));
  attributes.emplace("ceil_mode", n.integer("ceil_mode", 0) != 0);
  const ValueId powers = n.emit("powf", {n.emit("abs", {n.input(0)})}, {{"exponent", p}});
  const ValueId sums = n.emit("pool", {powers}, std::move(attributes));
  n.set_output(0, n.emit("powf", {sums}, {{"exponent", 1 / p}}));
}

void global_pool(NodeReader& n, const OnnxOp& row) {
  n.set_output(0, n.emit("global_pool", {n.input(0)}, {{"kind", std::string(row.target)}}));
}

void global_lp_pool(NodeReader& n, const OnnxOp&) {
  const auto p = static_cast<double>(n.integer("p", 2));
  Ints axes(static_cast<size_t>(std::max<int64_t>(n.rank(0) - 2, 0)));
  std::iota(axes.begin(), axes.end(), 2);
  const ValueId powers = n.emit("powf", {n.emit("abs", {n.input(0)})}, {{"exponent", p}});
  const ValueId sums = n.emit("reduce_sum", {powers}, {{"axes", axes}, {"keep_dims", true}});
  n.set_output(0, n.emit("powf", {sums}, {{"exponent", 1 / p}}));
}

// Elements go back to their places in a plane of zeros; a larger output_shape adds zeros behind.
void max_unpool(NodeReader& n, const OnnxOp&) {
  const Windows windows = read_windows(n, n.required_integers("kernel_shape"));
  const size_t rank = windows.kernel.size();
  Shape inferred = {n.shape(0)[0], n.shape(0)[1]};
  for (size_t i = 0; i < rank; ++i) {
    if (n.shape(0)[i + 2] > kMostWindow || windows.stride[i] > kMostWindow)
      n.refuse("its windows are too large");
    inferred.push_back((n.shape(0)[i + 2] - 1) * windows.stride[i] + windows.kernel[i] -
                       windows.pads[i] - windows.pads[i + rank]);
  }
  // Products of dims are taken below what a tensor may hold.
  double elements = 1;
  for (const int64_t dim : inferred) elements *= static_cast<double>(std::max<int64_t>(dim, 1));
  if (elements > 0x1p46 ||
      std::any_of(inferred.begin(), inferred.end(), [](int64_t dim) { return dim < 0; }))
    n.refuse_shapes("the result would have the shape " + to_string(inferred));
  const int64_t all = element_count(inferred);
  const int64_t count = element_count(n.shape(0));
  const ValueId zeros =
      n.emit("fill", {}, {{"shape", Ints{all}}, {"dtype", std::string(name_of(n.dtype(0)))}});
  ValueId y = n.emit("scatter_elements",
                     {zeros, n.reshape(n.input(1), {count}), n.reshape(n.input(0), {count})});
  y = n.reshape(y, inferred);
  if (n.has_input(2)) {
    const Ints wanted = n.known_ints(2, "the shape");
    if (wanted.size() != inferred.size()) n.refuse("output_shape has another rank");
    Ints pads(2 * inferred.size(), 0);
    for (size_t i = 0; i < inferred.size(); ++i)
      pads[i + inferred.size()] = wanted[i] - inferred[i];
    y = n.emit("pad", {y}, {{"pads", pads}});
  }
  n.set_output(0, y);
}

// The adjoint of unfolding into columns.
void col2im(NodeReader& n, const OnnxOp&) {
  const Ints image = n.known_ints(1, "the image's sizes");
  const size_t rank = image.size();
  n.set_output(0, n.emit("col2im", {n.input(0)},
                         {{"out_hw", image},
                          {"kernel", n.known_ints(2, "the block's sizes")},
                          {"stride", n.integers("strides", Ints(rank, 1))},
                          {"pads", n.integers("pads", Ints(2 * rank, 0))},
                          {"dilation", n.integers("dilations", Ints(rank, 1))},
                          {"layout", std::string("unfold")}}));
}

// Before opset 16 the edges of pixels were at whole numbers, which output_half_pixel still says.
void roi_align(NodeReader& n, const OnnxOp&) {
  const std::string rule =
      n.text("coordinate_transformation_mode", n.opset() < 16 ? "output_half_pixel" : "half_pixel");
  if (rule != "half_pixel" && rule != "output_half_pixel")
    n.refuse("coordinate_transformation_mode is \"" + rule + "\"");
  const std::string mode = n.text("mode", "avg");
  if (mode != "avg" && mode != "max") n.refuse("the mode \"" + mode + "\" is unknown");
  n.set_output(0, n.emit("roi_align", {n.input(0), n.input(1), n.input(2)},
                         {{"output_height", n.integer("output_height", 1)},
                          {"output_width", n.integer("output_width", 1)},
                          {"sampling_ratio", n.integer("sampling_ratio", 0)},
                          {"spatial_scale", n.real("spatial_scale", 1)},
                          {"half_pixel", rule == "half_pixel"},
                          {"mode", mode}}));
}

void deform_conv(NodeReader& n, const OnnxOp&) {
  const Ints kernel = n.integers("kernel_shape", spatial_of(n.shape(1)));
  if (kernel != spatial_of(n.shape(1)))
    n.refuse("kernel_shape is " + to_string(kernel) + ", W is " + to_string(n.shape(1)));
  n.set_output(
      0, n.emit("deform_conv",
                {n.input(0), n.input(1), n.input(2), n.optional_input(4), n.optional_input(3)},
                {{"stride", n.integers("strides", {1, 1})},
                 {"pads", n.integers("pads", {0, 0, 0, 0})},
                 {"dilation", n.integers("dilations", {1, 1})},
                 {"groups", n.integer("group", 1)},
                 {"offset_groups", n.integer("offset_group", 1)}}));
}

constexpr std::array kVisionRows = {
    OnnxOp{"Conv", conv},
    OnnxOp{"ConvTranspose", conv_transpose},
    OnnxOp{"MaxPool", max_pool},
    OnnxOp{"AveragePool", average_pool},
    OnnxOp{"LpPool", lp_pool},
    OnnxOp{"GlobalAveragePool", global_pool, "mean"},
    OnnxOp{"GlobalMaxPool", global_pool, "max"},
    OnnxOp{"GlobalLpPool", global_lp_pool},
    OnnxOp{"MaxUnpool", max_unpool},
    OnnxOp{"Col2Im", col2im},
    OnnxOp{"RoiAlign", roi_align},
    OnnxOp{"MaxRoiPool", max_roi_pool},
    OnnxOp{"DeformConv", deform_conv},
    OnnxOp{"Resize", resize},
    OnnxOp{"Upsample", upsample},
    OnnxOp{"GridSample", grid_sample},
    OnnxOp{"AffineGrid", affine_grid},
};

}  // namespace

std::span<const OnnxOp> vision_rows() {
  return kVisionRows;
}

}  // namespace rlx::onnx_import
