// SPDX-License-Identifier: Apache-2.0
// From operands and outputs of any strides to loops that go as far as memory goes on.
#include "compiler/ops/lowering/region_plan.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/scalar_cost.h"
#include "compiler/support/blocks.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

uint32_t view_alignment(const Program& program, const TensorRef& view) {
  return std::min(view.alignment_bytes(program.buffer(view.buffer).segment), kWidestAccessBytes);
}

// The same elements read from their lowest address upward, for a pointer that needs no negative
// index.
Stream make_stream(uint32_t number, const TensorRef& ref, const ElementStorage& storage,
                   const Shape& shape) {
  Stream stream{.number = number, .storage = storage, .view = ref, .strides = {}};
  stream.view.strides = broadcast_strides(ref.shape(), ref.strides, shape);
  stream.view.type.shape = shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    Dim& stride = stream.view.strides[i];
    if (stride >= 0) continue;
    const Dim reach = -stride * (max(shape[i], 1) - 1);
    stream.start += reach;
    stream.view.offset_bytes -= reach * storage.bytes;
    stride = -stride;
  }
  return stream;
}

bool can_be_wide(const Program& program, const Stream& stream) {
  if (stream.start != 0 || stream.strides.empty() || stream.strides.back() != 1) return false;
  if (stream.part && stream.part->before % kVectorWidth != 0) return false;
  for (size_t i = 0; i + 1 < stream.strides.size(); ++i) {
    if (stream.strides[i] % kVectorWidth != 0) return false;
  }
  return view_alignment(program, stream.view) >= kVectorWidth * stream.storage.bytes;
}

void choose_width(const Program& program, const Region& region, RegionPlan& plan) {
  const Shape& sizes = plan.loops.sizes;
  const bool has_eight_bytes =
      std::any_of(plan.streams.begin(), plan.streams.end(),
                  [](const Stream& stream) { return stream.storage.bytes == 8; });
  const Dim count = element_count(sizes);
  plan.items = count;
  if (has_eight_bytes) {
    plan.width_reason = "8-byte elements";
  } else if (calls_functions(region)) {
    plan.width_reason = "much code";
  } else if (sizes.empty() || count < kVectorWidth) {
    plan.width_reason = "few elements";
  } else if (sizes.size() > 1 && sizes.back() % kVectorWidth != 0) {
    plan.width_reason = "inner size " + to_string(sizes.back());
  } else if (!can_be_wide(program, plan.streams.front()) ||
             !std::all_of(plan.streams.begin() + static_cast<std::ptrdiff_t>(plan.operands_end),
                          plan.streams.end(),
                          [&](const Stream& output) { return can_be_wide(program, output); })) {
    plan.width_reason = "output not aligned";
  } else {
    plan.width = kVectorWidth;
    plan.has_tail = sizes.back() % kVectorWidth != 0;
    plan.items = ceil_div(count, kVectorWidth);
    for (Stream& stream : plan.streams) stream.wide = can_be_wide(program, stream);
    for (Stream& stream : plan.streams) {
      if (stream.part && !lanes_share_parts(plan, parts_of(plan, stream.part->first)))
        stream.wide = false;
    }
  }
}

// The axes from the output's longest stride to its shortest, so that neighbouring items write
// neighbouring elements whatever the layout.
std::vector<size_t> output_order(const TensorRef& output) {
  std::vector<size_t> axes(output.shape().size());
  std::iota(axes.begin(), axes.end(), size_t{0});
  std::stable_sort(axes.begin(), axes.end(), [&output](size_t a, size_t b) {
    return std::abs(output.strides[a].bound()) > std::abs(output.strides[b].bound());
  });
  return axes;
}

template <typename List>
List reordered(const List& list, const std::vector<size_t>& order) {
  List result;
  for (const size_t axis : order) result.push_back(list[axis]);
  return result;
}

// The output's shape, or the part of it that a part of an operand covers.
Shape covered_shape(const RegionOperand& operand, const Shape& shape) {
  if (!operand.joined) return shape;
  const uint32_t from_end = operand.joined->axis_from_end;
  RLX_CHECK(from_end <= operand.view.shape().size(), "axis of a part");
  Shape covered = shape;
  covered[shape.size() - from_end] = operand.view.shape()[operand.view.shape().size() - from_end];
  return covered;
}

// Along this axis alone.
Strides axis_steps(const Shape& shape, uint32_t axis_from_end) {
  RLX_CHECK(axis_from_end >= 1 && axis_from_end <= shape.size(), "axis of a coordinate");
  Strides steps(shape.size(), 0);
  steps[shape.size() - axis_from_end] = 1;
  return steps;
}

Stream::Part part_of(const RegionOperand& operand, const Strides& steps, const Strides& strides) {
  const auto loop = static_cast<size_t>(std::find(steps.begin(), steps.end(), 1) - steps.begin());
  const Shape& shape = operand.view.shape();
  const int64_t begin = operand.joined->begin;
  return {.loop = loop,
          .begin = begin,
          .end = begin + static_cast<int64_t>(shape[shape.size() - operand.joined->axis_from_end]),
          .before = strides.at(loop) * begin};
}

}  // namespace

bool calls_functions(const Region& region) {
  return region.cost > kMostInlineCost;
}

std::span<const Stream> parts_of(const RegionPlan& plan, size_t first) {
  size_t end = first + 1;
  while (end < plan.operands_end && plan.streams[end].continues()) ++end;
  return std::span(plan.streams).subspan(first, end - first);
}

bool lanes_share_parts(const RegionPlan& plan, std::span<const Stream> parts) {
  return parts.front().part->loop + 1 < plan.loops.sizes.size() ||
         std::all_of(parts.begin(), parts.end(),
                     [](const Stream& part) { return part.part->begin % kVectorWidth == 0; });
}

RegionPlan make_plan(const Program& program, const Region& region) {
  RegionPlan plan;
  plan.counts_outside = region.counts_outside;
  const Shape& shape = region.output.shape();
  plan.streams.push_back(make_stream(0, region.output, region.output_storage, shape));
  for (const RegionOperand& operand : region.operands) {
    plan.streams.push_back(make_stream(static_cast<uint32_t>(plan.streams.size()), operand.view,
                                       operand.storage, covered_shape(operand, shape)));
  }
  plan.operands_end = plan.streams.size();
  for (const RegionOperand& output : region.more_outputs) {
    plan.streams.push_back(make_stream(static_cast<uint32_t>(plan.streams.size()), output.view,
                                       output.storage, shape));
  }
  const std::vector<size_t> order = output_order(region.output);
  std::vector<Strides> strides{reordered(region.output.strides, order)};
  for (const RegionOperand& operand : region.operands) {
    strides.push_back(reordered(broadcast_strides(operand.view.shape(), operand.view.strides,
                                                  covered_shape(operand, shape)),
                                order));
  }
  for (const RegionOperand& output : region.more_outputs)
    strides.push_back(reordered(output.view.strides, order));
  // A coordinate counts like a tensor that steps along its axis alone, which keeps that axis a loop
  // of its own.
  for (const uint32_t axis_from_end : region.coordinates) {
    strides.push_back(reordered(axis_steps(shape, axis_from_end), order));
    plan.coordinates.push_back({.name = coordinate_name(axis_from_end), .steps = {}});
  }
  for (const RegionOperand& operand : region.operands) {
    if (operand.joined)
      strides.push_back(reordered(axis_steps(shape, operand.joined->axis_from_end), order));
  }
  plan.loops = coalesce_loops(reordered(shape, order), strides);
  for (size_t k = 0; k < plan.coordinates.size(); ++k) {
    plan.coordinates[k].steps = plan.loops.strides[plan.streams.size() + k];
  }
  plan.farthest = element_count(shape).range().most;
  for (size_t k = 0; k < plan.streams.size(); ++k) {
    plan.streams[k].strides = plan.loops.strides[k];
    const int64_t bytes = plan.streams[k].view.byte_range().length_bytes.range().most;
    plan.farthest = std::max(plan.farthest, bytes / plan.streams[k].storage.bytes);
  }
  size_t next_axis = plan.streams.size() + plan.coordinates.size();
  size_t first = 0;
  for (size_t k = 0; k < region.operands.size(); ++k) {
    if (!region.operands[k].joined) continue;
    Stream& stream = plan.streams[k + 1];
    if (!region.operands[k].continues()) first = k + 1;
    stream.part = part_of(region.operands[k], plan.loops.strides[next_axis++], stream.strides);
    stream.part->first = first;
  }
  choose_width(program, region, plan);
  return plan;
}

}  // namespace rlx
