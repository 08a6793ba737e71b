// SPDX-License-Identifier: Apache-2.0
// Reading the window attributes of conv and pool.
#include "compiler/ops/lowering/conv_window.h"

#include <algorithm>

#include "compiler/support/required_size.h"

namespace rlx {
namespace {

// A list attribute with one value per spatial dim, or one for all; `otherwise` where it is absent
// or empty.
std::optional<Ints> dim_list(NodeContext& ctx, const char* name, size_t rank, int64_t otherwise) {
  Ints values = ctx.attrs().integers(name);
  if (values.size() <= 1) values.assign(rank, values.empty() ? Dim(otherwise) : values[0]);
  if (values.size() == rank) return values;
  ctx.fail(DiagCode::BadRank, std::string(name) + " has " + std::to_string(values.size()) +
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
  ctx.fail(DiagCode::BadRank, "pads has " + std::to_string(pads.size()) + " values; wanted " +
                                  std::to_string(2 * rank) + " (begins, then ends) or " +
                                  std::to_string(rank) + " (symmetric)");
  return std::nullopt;
}

// What a free size is wherever it has a value: a run that makes it negative is refused. Where it is
// 0 at most, the number 0 would refuse none.
Dim not_negative(const Dim& size) {
  return size.is_free() && size.range().most > 0 ? max(size, 0) : size;
}

// Rounds down; below 0 too, where the number is fixed.
Dim floor_div(const Dim& a, int64_t b) {
  const Dim quotient = a / b;
  return !a.is_free() && a.bound() % b < 0 ? quotient - 1 : quotient;
}

// Less the last window where it would start beyond the input and its begin pad. None does where the
// end pad is short.
Dim without_beyond(const Window& window, size_t d, int64_t reach, const Dim& count) {
  const int64_t stride = window.stride[d];
  if (window.end[d].range().most + stride <= reach) return count;
  const Dim limit = ceil_div(window.in[d] + window.begin[d], stride);
  return count - min(max(count, limit) - limit, 1);
}

Dim windows_of(const Window& window, size_t d, int64_t reach, WindowRounding rounding) {
  const int64_t stride = window.stride[d];
  const bool is_floor = rounding == WindowRounding::Floor;
  // Rounded up, a window may begin inside and reach beyond the end.
  const Dim padded = window.in[d] + window.begin[d] + window.end[d] + (is_floor ? 0 : stride - 1);
  const Dim whole = floor_div(not_negative(padded - reach), stride) + 1;
  const Dim count = is_floor ? whole : without_beyond(window, d, reach, whole);
  return count.is_free() ? count : required_at_least(count, padded, reach);
}

bool set_output_size(NodeContext& ctx, Window& window, size_t d, WindowRounding rounding) {
  const int64_t reach = window.dilation[d] * (window.kernel[d] - 1) + 1;
  window.out[d] = windows_of(window, d, reach, rounding);
  if (window.out[d] > 0) return true;
  const Dim padded = window.in[d] + window.begin[d] + window.end[d];
  return ctx.fail(DiagCode::BadShape,
                  "the window reaches over " + std::to_string(reach) + " elements of spatial dim " +
                      std::to_string(d + window.rank - kSpatialDims) + ", which has " +
                      to_string(padded) + " with its pads",
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

namespace {

template <typename Number>
FixedWindow fixed_window(const Window& window, const Number& number) {
  FixedWindow fixed{.rank = window.rank,
                    .kernel = window.kernel,
                    .stride = window.stride,
                    .dilation = window.dilation};
  for (size_t d = 0; d < kSpatialDims; ++d) {
    fixed.in[d] = number(window.in[d]);
    fixed.begin[d] = number(window.begin[d]);
    fixed.end[d] = number(window.end[d]);
    fixed.out[d] = number(window.out[d]);
  }
  return fixed;
}

}  // namespace

FixedWindow numbers_of(const Window& window) {
  return fixed_window(window, [](const Dim& size) { return static_cast<int64_t>(size); });
}

FixedWindow largest_of(const Window& window) {
  return fixed_window(window, [](const Dim& size) { return size.bound(); });
}

bool has_free_sizes(const Window& window) {
  for (const auto* sizes : {&window.in, &window.begin, &window.end, &window.out}) {
    if (std::any_of(sizes->begin(), sizes->end(), [](const Dim& size) { return size.is_free(); }))
      return true;
  }
  return false;
}

Dim size_of_result(const Dim& size) {
  return not_negative(size - 1) + 1;
}

std::array<Dim, kSpatialDims> spatial_strides(const Strides& strides) {
  std::array<Dim, kSpatialDims> result{};
  const size_t rank = strides.size() - 2;
  for (size_t i = 0; i < rank; ++i) result[kSpatialDims - rank + i] = strides[2 + i];
  return result;
}

}  // namespace rlx
