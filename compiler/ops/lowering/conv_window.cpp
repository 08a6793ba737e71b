// SPDX-License-Identifier: Apache-2.0
// Reading the window attributes of conv and pool.
#include "compiler/ops/lowering/conv_window.h"

namespace rlx {
namespace {

// A list attribute with one value per spatial dim, or one for all; `otherwise` where it is absent
// or empty.
std::optional<Ints> dim_list(NodeContext& ctx, const char* name, size_t rank, int64_t otherwise) {
  Ints values = ctx.attrs().integers(name);
  if (values.size() <= 1) values.assign(rank, values.empty() ? Dim(otherwise) : values[0]);
  if (values.size() == rank) return values;
  ctx.fail(DiagCode::BadAttribute, std::string(name) + " has " + std::to_string(values.size()) +
                                       " values; wanted " + std::to_string(rank) +
                                       ", one per spatial dim");
  return std::nullopt;
}

// [b1.., e1..]; a list of `rank` values is symmetric, one value is for every side.
std::optional<Ints> pad_list(NodeContext& ctx, size_t rank) {
  Ints pads = ctx.attrs().integers("pads");
  if (pads.size() <= 1) pads.assign(2 * rank, pads.empty() ? 0 : pads[0]);
  if (pads.size() == rank) pads.insert(pads.end(), pads.begin(), pads.end());
  if (pads.size() == 2 * rank) return pads;
  ctx.fail(DiagCode::BadAttribute, "pads has " + std::to_string(pads.size()) + " values; wanted " +
                                       std::to_string(2 * rank) + " (begins, then ends) or " +
                                       std::to_string(rank) + " (symmetric)");
  return std::nullopt;
}

int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

bool set_output_size(NodeContext& ctx, Window& window, size_t d, WindowRounding rounding) {
  const int64_t reach = window.dilation[d] * (window.kernel[d] - 1) + 1;
  const int64_t padded = window.in[d] + window.begin[d] + window.end[d];
  const int64_t stride = window.stride[d];
  const int64_t rounded_up = rounding == WindowRounding::Ceil ? stride - 1 : 0;
  window.out[d] = floor_div(padded - reach + rounded_up, stride) + 1;
  // With ceil the last window may start beyond the input and its begin pad: it is dropped.
  const bool starts_beyond = (window.out[d] - 1) * stride >= window.in[d] + window.begin[d];
  if (rounding == WindowRounding::Ceil && starts_beyond) --window.out[d];
  if (window.out[d] > 0) return true;
  return ctx.fail(DiagCode::BadShape,
                  "the window reaches over " + std::to_string(reach) + " elements of spatial dim " +
                      std::to_string(d + window.rank - kSpatialDims) + ", which has " +
                      std::to_string(padded) + " with its pads",
                  "raise the pads or shrink kernel or dilation");
}

}  // namespace

std::optional<Window> read_window(NodeContext& ctx, const Shape& in, const Ints& kernel,
                                  WindowRounding rounding) {
  const size_t rank = in.size();
  const std::optional<Ints> stride = dim_list(ctx, "stride", rank, 1);
  const std::optional<Ints> dilation = dim_list(ctx, "dilation", rank, 1);
  const std::optional<Ints> pads = pad_list(ctx, rank);
  if (!stride || !dilation || !pads) return std::nullopt;
  Window window{.rank = rank};
  bool good = true;
  for (size_t i = 0; i < rank; ++i) {
    const size_t d = kSpatialDims - rank + i;
    window.in[d] = in[i];
    window.kernel[d] = kernel[i];
    window.stride[d] = (*stride)[i];
    window.dilation[d] = (*dilation)[i];
    window.begin[d] = (*pads)[i];
    window.end[d] = (*pads)[rank + i];
    good = set_output_size(ctx, window, d, rounding) && good;
  }
  if (!good) return std::nullopt;
  return window;
}

std::array<int64_t, kSpatialDims> spatial_strides(const Strides& strides) {
  std::array<int64_t, kSpatialDims> result{};
  const size_t rank = strides.size() - 2;
  for (size_t i = 0; i < rank; ++i) result[kSpatialDims - rank + i] = strides[2 + i];
  return result;
}

}  // namespace rlx
