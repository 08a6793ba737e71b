// SPDX-License-Identifier: Apache-2.0
// Loops over strided operands split into kept and reduced dims.
#include "compiler/ops/lowering/rows.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/lowering/index_type.h"
#include "schema/rounding.h"

namespace rlx {

namespace {

constexpr uint32_t kThreads = 256;

uint32_t next_power_of_two(int64_t value, uint32_t most) {
  return value >= most ? most : std::bit_ceil(static_cast<uint32_t>(std::max<int64_t>(value, 1)));
}

}  // namespace

LoopDims merged(const LoopDims& dims) {
  LoopDims result;
  for (const LoopDim& dim : dims) {
    if (dim.size == 1) continue;
    const bool joins =
        !result.empty() &&
        std::equal(dim.strides.begin(), dim.strides.end(), result.back().strides.begin(),
                   [&](const Dim& inner, const Dim& outer) { return outer == inner * dim.size; });
    if (joins) {
      result.back() = {.size = result.back().size * dim.size, .strides = dim.strides};
    } else {
      result.push_back(dim);
    }
  }
  return result;
}

RowLoops split_rows(const Shape& shape, const Strides& read, const Strides& written,
                    const Ints& axes) {
  RowLoops loops;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    const LoopDim dim{.size = shape[d], .strides = {read[d], written[d]}};
    (reduced ? loops.reduced : loops.kept).push_back(dim);
  }
  return {.kept = merged(loops.kept), .reduced = merged(loops.reduced)};
}

Strides strides_without(const Shape& shape, const Ints& axes) {
  Strides strides(shape.size(), 0);
  Dim stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end()) continue;
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

LoopDims by_stride(LoopDims dims) {
  std::stable_sort(dims.begin(), dims.end(), [](const LoopDim& a, const LoopDim& b) {
    return std::abs(a.strides[0].bound()) > std::abs(b.strides[0].bound());
  });
  return merged(dims);
}

Dim loop_count(const LoopDims& dims) {
  Dim count = 1;
  for (const LoopDim& dim : dims) count *= dim.size;
  return count;
}

bool is_contiguous(const LoopDims& dims) {
  return dims.empty() || (dims.size() == 1 && dims[0].strides[0] == 1);
}

bool has_free_sizes(const RowLoops& loops) {
  return loop_count(loops.kept).is_free() || loop_count(loops.reduced).is_free();
}

std::string integer_text(const Dim& number) {
  if (number.is_free()) return size_text(number);
  constexpr int64_t kShort = int64_t{1} << 31;
  const int64_t value = number.bound();
  return std::to_string(value) + (value < kShort && value > -kShort ? "" : "L");
}

std::string index_macro(const std::string& name, const LoopDims& dims, size_t operand) {
  std::string sum;
  Dim inner = loop_count(dims);
  for (size_t d = 0; d < dims.size(); ++d) {
    inner /= max(dims[d].size, 1);
    const Dim stride = dims[d].strides[operand];
    if (stride == 0) continue;
    std::string term = "RLX_INDEX(i)";
    if (inner > 1) term += " / RLX_INDEX(" + integer_text(inner) + ")";
    if (d > 0) term += " % RLX_INDEX(" + integer_text(dims[d].size) + ")";
    if (stride != 1) term = "(" + term + ") * RLX_INDEX(" + integer_text(stride) + ")";
    sum += (sum.empty() ? "" : " + ") + term;
  }
  return "#define " + name + "(i) (" + (sum.empty() ? "RLX_INDEX(0)" : sum) + ")\n";
}

std::string index_type(const std::vector<const TensorRef*>& views, int64_t count) {
  int64_t farthest = count;
  for (const TensorRef* view : views) {
    const Dim elements = view->byte_range().length_bytes / element_bytes(view->dtype());
    farthest = std::max(farthest, elements.range().most);
  }
  return index_type(IndexUse::Padded, farthest);
}

RowPlan plan_neighbours(const Dim& row_length, uint32_t elements_per_lane) {
  const uint32_t lanes =
      next_power_of_two(ceil_div(row_length.bound(), elements_per_lane), kThreads);
  return {.by_column = false, .lanes = lanes, .rows = kThreads / lanes};
}

std::optional<RowPlan> plan_side_by_side(const RowLoops& loops, uint32_t columns) {
  const int64_t reduced = loop_count(loops.reduced).bound();
  const int64_t kept = loop_count(loops.kept).bound();
  const auto inner_stride = [](const LoopDims& dims) {
    return dims.empty() ? int64_t{0} : std::abs(dims.back().strides[0].bound());
  };
  const bool rows_are_strided = !loops.reduced.empty() && inner_stride(loops.reduced) != 1;
  if (!rows_are_strided || inner_stride(loops.kept) != 1 || kept <= 1) return std::nullopt;
  const uint32_t rows = next_power_of_two(loops.kept.back().size.bound() / columns, 32);
  const uint32_t lanes = next_power_of_two(reduced, kThreads / rows);
  // A short reduction leaves threads over: they take more rows.
  const uint32_t wide = next_power_of_two(kept / columns, kThreads / lanes);
  return RowPlan{
      .by_column = true, .lanes = lanes, .rows = std::max(rows, wide), .columns = columns};
}

std::string to_string(const RowPlan& plan) {
  const std::string each =
      plan.columns > 1 ? "times " + std::to_string(plan.columns) + " " : std::string();
  return plan.by_column
             ? std::to_string(plan.rows) + " " + each + "neighbouring rows side by side, " +
                   std::to_string(plan.lanes) + " threads deep"
             : std::to_string(plan.lanes) + " threads per row, " + std::to_string(plan.rows) +
                   " rows per workgroup";
}

bool rows_divide(const OfferContext& at, const TensorRef& view, const RowLoops& loops,
                 size_t operand, uint32_t width) {
  if (loops.reduced.size() != 1 || loops.reduced[0].strides[operand] != 1) return false;
  if (!loops.reduced[0].size.divides_by(width)) return false;
  if (at.alignment(view) < width * element_bytes(view.dtype())) return false;
  return std::all_of(loops.kept.begin(), loops.kept.end(),
                     [&](const LoopDim& dim) { return dim.strides[operand].divides_by(width); });
}

uint32_t vector_width(const OfferContext& at, const TensorRef& view, const RowLoops& loops,
                      size_t operand, uint32_t width) {
  if (!is_float(view.dtype()) || view.dtype() == DType::f64) return 1;
  return rows_divide(at, view, loops, operand, width) ? width : 1;
}

int64_t items_per_lane(const RowPlan& plan, const Dim& row_length, uint32_t width) {
  constexpr int64_t kRegisters = 32;
  const int64_t piece = static_cast<int64_t>(plan.lanes) * width;
  const int64_t items = ceil_div(row_length.bound(), piece);
  return items * width <= kRegisters ? items : 0;
}

int64_t busy_groups(const OfferContext& at) {
  constexpr int64_t kGroupsPerMultiprocessor = 4;
  return kGroupsPerMultiprocessor * at.device().multiprocessors;
}

RowPlan plan_in_registers(const OfferContext& at, const Dim& row_count, const Dim& row_length,
                          uint32_t width) {
  constexpr uint32_t kWarp = 32;
  constexpr uint32_t kLeastLanes = 4;
  constexpr uint32_t kGroupThreads = 128;
  const auto of_lanes = [](uint32_t lanes) {
    return RowPlan{
        .by_column = false, .lanes = lanes, .rows = std::max<uint32_t>(1, kGroupThreads / lanes)};
  };
  RowPlan plan = of_lanes(kWarp);
  while (plan.lanes < kThreads && items_per_lane(plan, row_length, width) == 0)
    plan = of_lanes(2 * plan.lanes);
  while (plan.lanes <= kWarp && plan.lanes > kLeastLanes) {
    const RowPlan half = of_lanes(plan.lanes / 2);
    if (items_per_lane(half, row_length, width) == 0) break;
    if (half.groups(row_count).bound() < busy_groups(at)) break;
    plan = half;
  }
  return plan;
}

RowChunks split_into_chunks(int64_t row_length, int64_t groups, int64_t wanted_groups,
                            int64_t piece, int64_t least_pieces) {
  const int64_t most = std::min(wanted_groups / groups, row_length / (piece * least_pieces));
  if (most <= 1) return {.count = 1, .length = row_length};
  const int64_t length = round_up(ceil_div(row_length, most), piece);
  return {.count = ceil_div(row_length, length), .length = length};
}

std::string define_line(const std::string& name, const std::string& text) {
  return "#define " + name + " " + text + "\n";
}

RowOffsets row_offsets(const Shape& shape, const Ints& axes) {
  const Strides strides = dense_strides(shape);
  RowOffsets offsets{.kept = {0}, .reduced = {0}};
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    std::vector<int64_t>& list = reduced ? offsets.reduced : offsets.kept;
    std::vector<int64_t> longer;
    longer.reserve(list.size() * static_cast<size_t>(shape[d]));
    for (const int64_t base : list) {
      for (int64_t i = 0; i < shape[d]; ++i) longer.push_back(base + i * strides[d]);
    }
    list = std::move(longer);
  }
  return offsets;
}

bool check_float_input(InferContext& ctx, size_t input, const std::string& what) {
  if (is_float(ctx.dtype(input))) return true;
  return ctx.fail(DiagCode::BadDtype, what + " is " + std::string(name_of(ctx.dtype(input))) +
                                          ", wanted f32, f16, bf16 or f64");
}

bool check_broadcasts(InferContext& ctx, size_t input, const std::string& what,
                      const Shape& target) {
  if (!check_float_input(ctx, input, what)) return false;
  if (broadcast_shapes(ctx.shape(input), target) == target) return true;
  return ctx.fail(DiagCode::BadShape, what + " has shape " + to_string(ctx.shape(input)) +
                                          ", wanted one that broadcasts to " + to_string(target));
}

}  // namespace rlx
