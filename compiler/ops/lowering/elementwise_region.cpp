// SPDX-License-Identifier: Apache-2.0
// One dispatch of the region kernel: index arithmetic, vector width and loads as text, and the
// binding of its buffers.
#include "compiler/ops/lowering/elementwise_region.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <span>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/lowering/elementwise_loops.h"
#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/scalar_cost.h"
#include "compiler/support/blocks.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr uint32_t kBlock = 256;
constexpr uint32_t kVectorWidth = 4;

// One buffer of the region; number 0 is the output, then come the operands, then further outputs.
struct Stream {
  uint32_t number = 0;
  ElementStorage storage;
  TensorRef view;  // broadcast to the loops' shape, rebased to its lowest element, all strides >= 0
  Strides strides;    // per loop, in elements, signed
  Dim start = 0;      // index of the first element, from the lowest
  bool wide = false;  // four neighbours in one access
  // Of a part of an operand: coordinates of the loop that it begins and ends at, and the elements
  // that it would have before it.
  struct Part {
    size_t first = 0;  // the stream with which the operand begins
    size_t loop = 0;
    int64_t begin = 0;
    int64_t end = 0;
    Dim before = 0;
  };
  std::optional<Part> part = {};

  [[nodiscard]] bool continues() const { return part && part->begin > 0; }
};

// Where an element stands along one axis of the output.
struct Coordinate {
  std::string name;  // coordinate_name() of the axis
  Strides steps;     // per loop: 1 for the axis' own, else 0; an axis of size 1 has no loop
};

struct RegionPlan {
  bool counts_outside = false;
  LoopNest loops;
  std::vector<Stream> streams;
  size_t operands_end = 1;  // the first stream behind the operands
  std::vector<Coordinate> coordinates;
  uint32_t width = 1;
  std::string width_reason;
  int64_t farthest = 0;  // of all numbers of elements
  Dim items = 0;         // threads' pieces of work, `width` elements each
  bool has_tail = false;

  [[nodiscard]] bool wide_index() const { return is_wide_index(IndexUse::Linear, farthest); }
};

std::string index_type(const RegionPlan& plan) {
  return index_type(IndexUse::Linear, plan.farthest);
}
std::string index_number(const RegionPlan& plan, const Dim& size) {
  if (size.is_free()) return "RLX_INDEX(" + size_text(size) + ")";
  const int64_t value = size.bound();
  if (!plan.wide_index()) return std::to_string(value) + "u";
  // GLSL takes no 64-bit literal in a define.
  const std::string low = "rlx_u64(" + std::to_string(value & 0xFFFFFFFF) + "u)";
  return value >> 32 == 0 ? low
                          : "((rlx_u64(" + std::to_string(value >> 32) + "u) << 32) | " + low + ")";
}

// Strides have the same sign at every size.
Dim magnitude(const Dim& stride) {
  return stride < 0 ? -stride : stride;
}

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

bool calls_functions(const Region& region) {
  return region.cost > kMostInlineCost;
}

// The streams of the operand that begins with this one.
std::span<const Stream> parts_of(const RegionPlan& plan, size_t first) {
  size_t end = first + 1;
  while (end < plan.operands_end && plan.streams[end].continues()) ++end;
  return std::span(plan.streams).subspan(first, end - first);
}

// True where no item's lanes lie in two parts.
bool lanes_share_parts(const RegionPlan& plan, std::span<const Stream> parts) {
  return parts.front().part->loop + 1 < plan.loops.sizes.size() ||
         std::all_of(parts.begin(), parts.end(),
                     [](const Stream& part) { return part.part->begin % kVectorWidth == 0; });
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

// Statements that take `item` apart into the loops' coordinates c0, c1, ... (the innermost counts
// elements).
std::string coordinate_text(const RegionPlan& plan) {
  const Shape& sizes = plan.loops.sizes;
  const std::string type = index_type(plan);
  std::string text;
  std::string rest = "item";
  for (size_t i = sizes.size(); i-- > 0;) {
    const bool innermost = i + 1 == sizes.size();
    const Dim pieces = innermost ? ceil_div(sizes[i], plan.width) : sizes[i];
    std::string coordinate = i == 0 ? rest : "(" + rest + " % " + index_number(plan, pieces) + ")";
    if (innermost && plan.width > 1) coordinate += " * " + index_number(plan, plan.width);
    text += "const " + type + " c" + std::to_string(i) + " = " + coordinate + ";\n";
    if (i == 0) break;
    const std::string next = "rest" + std::to_string(i);
    text +=
        "const " + type + " " + next + " = " + rest + " / " + index_number(plan, pieces) + ";\n";
    rest = next;
  }
  return text;
}

std::string index_text(const RegionPlan& plan, const Stream& stream) {
  std::string sum = index_number(plan, stream.start);
  bool empty = stream.start == 0;
  for (size_t i = 0; i < stream.strides.size(); ++i) {
    const Dim& stride = stream.strides[i];
    if (stride == 0) continue;
    const Dim distance = magnitude(stride);
    const std::string size = distance == 1 ? "" : " * " + index_number(plan, distance);
    const std::string term = "c" + std::to_string(i) + size;
    sum = empty && stride > 0 ? term : sum + (stride > 0 ? " + " : " - ") + term;
    empty = false;
  }
  // Wraps round below the part, where the index is not used.
  if (stream.part && stream.part->before != 0)
    sum += (stream.part->before > 0 ? " - " : " + ") +
           index_number(plan, magnitude(stream.part->before));
  return "const " + index_type(plan) + " i" + std::to_string(stream.number) + " = " + sum + ";\n";
}

// An index as i64.
std::string signed_text(const RegionPlan& plan, const std::string& index) {
  return (plan.wide_index() ? "rlx_i64(" : "rlx_widen(") + index + ")";
}

std::string coordinate_local(const RegionPlan& plan, const Coordinate& coordinate) {
  const auto loop = std::find(coordinate.steps.begin(), coordinate.steps.end(), 1);
  const std::string value =
      loop == coordinate.steps.end()
          ? "rlx_i64(0)"
          : signed_text(plan, "c" + std::to_string(loop - coordinate.steps.begin()));
  return "const rlx_i64 " + coordinate.name + " = " + value + ";\n";
}

std::string pointer(const Stream& stream) {
  return "p.buffers[" + std::to_string(stream.number) + "]";
}

std::string load_call(const Stream& stream, const std::string& index) {
  return "rlx_load_" + stream.storage.name + "(" + pointer(stream) + ", rlx_i64(" + index + "))";
}

// Element `lane` of a wide load held in `v<number>`.
std::string lane_text(const Stream& stream, uint32_t lane) {
  static constexpr const char* kLanes[] = {".x", ".y", ".z", ".w"};
  const std::string vector = "v" + std::to_string(stream.number);
  const std::string& name = stream.storage.name;
  if (name == "f32" || name == "f16" || name == "bf16" || name == "u32")
    return vector + kLanes[lane];
  if (name == "i32") return "rlx_i32(" + vector + kLanes[lane] + ")";
  if (stream.storage.bytes == 2) {
    const std::string word = vector + kLanes[lane / 2] + (lane % 2 == 0 ? "" : " >> 16u");
    return name == "i16" ? "rlx_wrap_i16(rlx_i32(" + word + "))" : "((" + word + ") & 0xFFFFu)";
  }
  const std::string word = vector + " >> " + std::to_string(8 * lane) + "u";
  if (name == "i8") return "rlx_wrap_i8(rlx_i32(" + word + "))";
  if (name == "bool") return "(((" + word + ") & 0xFFu) != 0u)";
  return "rlx_i32((" + word + ") & 0xFFu)";
}

// The elements of all lanes, and what must stand before they are read.
struct LaneLoads {
  std::string before;
  std::vector<std::string> values;
};

LaneLoads lane_loads(const RegionPlan& plan, const Stream& stream) {
  const std::string number = std::to_string(stream.number);
  const std::string& name = stream.storage.name;
  LaneLoads loads;
  if (stream.wide) {
    const std::string index = "rlx_i64(i" + number + ")";
    if (name == "f32" || name == "f16" || name == "bf16") {
      loads.before = "const rlx_vec4 v" + number + " = rlx_load4_" + name + "(" + pointer(stream) +
                     ", " + index + ");\n";
    } else {
      static constexpr const char* kTypes[] = {"", "rlx_u32", "rlx_uvec2", "", "rlx_uvec4"};
      loads.before = std::string("const ") + kTypes[stream.storage.bytes] + " v" + number +
                     " = rlx_raw" + std::to_string(kVectorWidth * stream.storage.bytes) + "(" +
                     pointer(stream) + ", " + index + " * " + std::to_string(stream.storage.bytes) +
                     ");\n";
    }
  }
  const Dim stride = stream.strides.empty() ? Dim() : stream.strides.back();
  for (uint32_t lane = 0; lane < plan.width; ++lane) {
    if (stream.wide) {
      loads.values.push_back(lane_text(stream, lane));
      continue;
    }
    const Dim step = stride * lane;
    std::string index = "i" + number;
    if (step != 0) index += (step > 0 ? " + " : " - ") + index_number(plan, magnitude(step));
    loads.values.push_back(load_call(stream, index));
  }
  return loads;
}

// Statements of which those of the part that holds the coordinate run.
template <typename PartText>
std::string by_part(const RegionPlan& plan, std::span<const Stream> parts,
                    const std::string& coordinate, const PartText& text_of) {
  std::string text;
  for (const Stream& part : parts) {
    const bool last = part.number == parts.back().number;
    text += (text.empty() ? "" : " else ");
    text += last ? std::string("{\n")
                 : "if (" + coordinate + " < " + index_number(plan, part.part->end) + ") {\n";
    text += text_of(part) + "}";
  }
  return text + "\n";
}

// Declares the locals x<number>_<lane> of all lanes of an operand in parts.
std::string joined_load_text(const RegionPlan& plan, std::span<const Stream> parts) {
  const Stream& first = parts.front();
  const auto local = [&](uint32_t lane) {
    return "x" + std::to_string(first.number) + "_" + std::to_string(lane);
  };
  std::string text;
  for (uint32_t lane = 0; lane < plan.width; ++lane)
    text += first.storage.compute + " " + local(lane) + " = " + first.storage.compute + "(0);\n";
  const std::string coordinate = "c" + std::to_string(first.part->loop);
  if (lanes_share_parts(plan, parts)) {
    return text + by_part(plan, parts, coordinate, [&](const Stream& part) {
             const LaneLoads loads = lane_loads(plan, part);
             std::string body = loads.before;
             for (uint32_t lane = 0; lane < plan.width; ++lane)
               body += local(lane) + " = " + loads.values[lane] + ";\n";
             return body;
           });
  }
  for (uint32_t lane = 0; lane < plan.width; ++lane) {
    text += by_part(plan, parts, coordinate + " + " + index_number(plan, lane),
                    [&](const Stream& part) {
                      return local(lane) + " = " + lane_loads(plan, part).values[lane] + ";\n";
                    });
  }
  return text;
}

// Declares the locals x<number>_<lane> of all lanes.
std::string wide_load_text(const RegionPlan& plan, const Stream& stream) {
  const LaneLoads loads = lane_loads(plan, stream);
  const std::string number = std::to_string(stream.number);
  const bool repeats = !stream.wide && (stream.strides.empty() || stream.strides.back() == 0);
  std::string text = loads.before;
  for (uint32_t lane = 0; lane < plan.width; ++lane) {
    text += "const " + stream.storage.compute + " x" + number + "_" + std::to_string(lane) + " = " +
            (repeats && lane > 0 ? "x" + number + "_0" : loads.values[lane]) + ";\n";
  }
  return text;
}

// The local that takes an element of an output behind the first.
std::string result_name(const Stream& output) {
  return "y" + std::to_string(output.number) + "of";
}

// Declares these locals, which rlx_element fills.
std::string result_locals(const RegionPlan& plan, const std::string& suffix) {
  std::string text;
  for (size_t k = plan.operands_end; k < plan.streams.size(); ++k) {
    const std::string& type = plan.streams[k].storage.compute;
    text += type + " " + result_name(plan.streams[k]) + suffix + " = " + type + "(0);\n";
  }
  return text;
}

// `suffix` of the operands' locals; `lane`: how many elements, as an i64 expression, the element
// stands behind the item's first; empty: it is the first.
std::string element_call(const RegionPlan& plan, const std::string& suffix,
                         const std::string& lane) {
  std::string text;
  for (size_t k = 1; k < plan.operands_end; ++k)
    if (!plan.streams[k].continues()) text += ", x" + std::to_string(k) + suffix;
  for (const Coordinate& coordinate : plan.coordinates) {
    const bool moves = !lane.empty() && !coordinate.steps.empty() && coordinate.steps.back() == 1;
    text += ", " + coordinate.name + (moves ? " + " + lane : "");
  }
  for (size_t k = plan.operands_end; k < plan.streams.size(); ++k)
    text += ", " + result_name(plan.streams[k]) + suffix;
  if (plan.counts_outside) text += ", " + std::string(kOutsideName);
  return "rlx_element(" + (text.empty() ? text : text.substr(2)) + ")";
}

std::string store_text(const Stream& output, const std::string& index, const std::string& value) {
  return "rlx_store_" + output.storage.name + "(" + pointer(output) + ", rlx_i64(" + index + "), " +
         value + ");\n";
}

// Of the locals `stem`0 to `stem`3.
std::string wide_store_text(const Stream& output, const std::string& stem) {
  const std::string& name = output.storage.name;
  const std::string index = "i" + std::to_string(output.number);
  if (name == "f32" || name == "f16" || name == "bf16") {
    return "rlx_vec4 y;\ny.x = " + stem + "0;\ny.y = " + stem + "1;\ny.z = " + stem +
           "2;\ny.w = " + stem + "3;\nrlx_store4_" + name + "(" + pointer(output) + ", rlx_i64(" +
           index + "), y);\n";
  }
  const std::string at =
      pointer(output) + ", rlx_i64(" + index + ") * " + std::to_string(output.storage.bytes);
  if (output.storage.bytes == 4) {
    return "rlx_uvec4 y;\ny.x = rlx_u32(" + stem + "0);\ny.y = rlx_u32(" + stem +
           "1);\ny.z = rlx_u32(" + stem + "2);\ny.w = rlx_u32(" + stem + "3);\nrlx_put16(" + at +
           ", y);\n";
  }
  if (output.storage.bytes == 2) {
    return "rlx_uvec2 y;\ny.x = (rlx_u32(" + stem + "0) & 0xFFFFu) | (rlx_u32(" + stem +
           "1) << 16);\ny.y = (rlx_u32(" + stem + "2) & 0xFFFFu) | (rlx_u32(" + stem +
           "3) << 16);\nrlx_put8(" + at + ", y);\n";
  }
  std::string word;
  for (uint32_t lane = 0; lane < kVectorWidth; ++lane) {
    const std::string y = stem + std::to_string(lane);
    const std::string byte =
        name == "bool" ? "(" + y + " ? 1u : 0u)" : "(rlx_u32(" + y + ") & 0xFFu)";
    word += lane == 0 ? byte : " | (" + byte + " << " + std::to_string(8 * lane) + ")";
  }
  return "rlx_put4(" + at + ", " + word + ");\n";
}

// One element whose offset from the item's first is `lane`, a local of the index type or empty.
std::string scalar_text(const RegionPlan& plan, const std::string& lane) {
  std::string text;
  const auto index = [&](const Stream& stream) {
    const Dim stride = stream.strides.empty() ? Dim() : stream.strides.back();
    std::string base = "i" + std::to_string(stream.number);
    if (lane.empty() || stride == 0) return base;
    const Dim distance = magnitude(stride);
    const std::string size = distance == 1 ? "" : " * " + index_number(plan, distance);
    return base + (stride > 0 ? " + " : " - ") + lane + size;
  };
  for (size_t k = 1; k < plan.operands_end; ++k) {
    const Stream& stream = plan.streams[k];
    if (stream.continues()) continue;
    const std::string name = "x" + std::to_string(k);
    if (!stream.part) {
      text += "const " + stream.storage.compute + " " + name + " = " +
              load_call(stream, index(stream)) + ";\n";
      continue;
    }
    const bool moves = !lane.empty() && stream.part->loop + 1 == plan.loops.sizes.size();
    std::string coordinate = "c" + std::to_string(stream.part->loop);
    if (moves) coordinate += " + " + lane;
    text += stream.storage.compute + " " + name + " = " + stream.storage.compute + "(0);\n";
    text += by_part(plan, parts_of(plan, k), coordinate, [&](const Stream& part) {
      return name + " = " + load_call(part, index(part)) + ";\n";
    });
  }
  const std::string offset = lane.empty() ? "" : signed_text(plan, lane);
  text += result_locals(plan, "");
  text += store_text(plan.streams[0], index(plan.streams[0]), element_call(plan, "", offset));
  for (size_t k = plan.operands_end; k < plan.streams.size(); ++k) {
    const Stream& output = plan.streams[k];
    text += store_text(output, index(output), result_name(output));
  }
  return text;
}

std::string item_text(const RegionPlan& plan) {
  std::string text = coordinate_text(plan);
  for (const Stream& stream : plan.streams) text += index_text(plan, stream);
  for (const Coordinate& coordinate : plan.coordinates) text += coordinate_local(plan, coordinate);
  if (plan.width == 1) return text + scalar_text(plan, "");
  std::string wide;
  for (size_t k = 1; k < plan.operands_end; ++k) {
    const Stream& stream = plan.streams[k];
    if (stream.continues()) continue;
    wide += stream.part ? joined_load_text(plan, parts_of(plan, k)) : wide_load_text(plan, stream);
  }
  for (uint32_t lane = 0; lane < plan.width; ++lane) {
    const std::string number = std::to_string(lane);
    wide += result_locals(plan, "_" + number);
    wide += "const " + plan.streams[0].storage.compute + " y" + number + " = " +
            element_call(plan, "_" + number, "rlx_i64(" + number + ")") + ";\n";
  }
  wide += wide_store_text(plan.streams[0], "y");
  for (size_t k = plan.operands_end; k < plan.streams.size(); ++k) {
    const Stream& output = plan.streams[k];
    wide += "{\n" + wide_store_text(output, result_name(output) + "_") + "}\n";
  }
  if (!plan.has_tail) return text + wide;
  // A tail exists only where one loop is left, so c0 is the element's number.
  const std::string count = index_number(plan, plan.loops.sizes.back());
  text += "if (c0 + " + index_number(plan, kVectorWidth) + " <= " + count + ") {\n" + wide +
          "} else {\n";
  text += "for (" + index_type(plan) + " lane = " + index_number(plan, 0) + "; c0 + lane < " +
          count + "; ++lane) {\n";
  return text + scalar_text(plan, "lane") + "}\n}\n";
}

std::string element_function(const Region& region) {
  std::string parameters;
  for (size_t k = 0; k < region.operands.size(); ++k) {
    if (region.operands[k].continues()) continue;
    parameters += ", " + region.operands[k].storage.compute + " x" + std::to_string(k + 1);
  }
  for (const uint32_t axis_from_end : region.coordinates)
    parameters += ", rlx_i64 " + coordinate_name(axis_from_end);
  for (size_t r = 0; r < region.more_outputs.size(); ++r) {
    parameters +=
        ", RLX_INOUT(" + region.more_outputs[r].storage.compute + ") r" + std::to_string(r + 1);
  }
  if (region.counts_outside) parameters += ", RLX_INOUT(rlx_u32) " + std::string(kOutsideName);
  if (!parameters.empty()) parameters = parameters.substr(2);
  return "RLX_FN " + region.output_storage.compute + " rlx_element(" + parameters + ") {\n" +
         region.element_text + "}\n";
}

// Pieces of work per thread: more where there are plenty, so that several loads are in flight.
uint32_t items_per_thread(const RegionPlan& plan, uint64_t operations) {
  const uint64_t code_size = (operations + plan.streams.size()) * plan.width;
  if (code_size > 256 || plan.items < (int64_t{1} << 19)) return 1;
  return plan.items < (int64_t{1} << 21) ? 2 : 4;
}

// True where the view holds each element of its bytes exactly once.
bool is_packed(const TensorRef& ref) {
  return ref.byte_range().length_bytes == element_count(ref.shape()) * element_bytes(ref.dtype()) &&
         std::none_of(ref.strides.begin(), ref.strides.end(), [](const Dim& s) { return s <= 0; });
}

// The operands in the segment whose bytes an output of the region may take over: same place in a
// buffer of the same size, and no other operand sees that buffer in another way.
std::vector<BufferId> in_place_operands(const Program& program, const Region& region,
                                        const RegionOperand& output, Segment segment) {
  const TensorRef& y = output.view;
  const Buffer& y_buffer = program.buffer(y.buffer);
  if (!is_packed(y) || y.offset_bytes != 0) return {};
  const auto fits = [&](const RegionOperand& operand) {
    const TensorRef& x = operand.view;
    const bool same_order = x.shape() == y.shape() && x.strides == y.strides;
    const bool both_dense =
        x.dense() && y.dense() && element_count(x.shape()) == element_count(y.shape());
    return x.offset_bytes == 0 && operand.storage.bytes == output.storage.bytes &&
           (same_order || both_dense);
  };
  std::vector<BufferId> buffers;
  for (const RegionOperand& operand : region.operands) {
    const Buffer& buffer = program.buffer(operand.view.buffer);
    if (!fits(operand) || buffer.segment != segment || buffer.size_bytes != y_buffer.size_bytes)
      continue;
    const bool alone = std::all_of(region.operands.begin(), region.operands.end(),
                                   [&](const RegionOperand& other) {
                                     return other.view.buffer != operand.view.buffer || fits(other);
                                   });
    if (alone) buffers.push_back(operand.view.buffer);
  }
  return buffers;
}

Dim distinct_bytes(const Stream& stream) {
  Dim count = 1;
  for (size_t i = 0; i < stream.view.shape().size(); ++i) {
    if (stream.view.strides[i] != 0) count *= stream.view.shape()[i];
  }
  return count * stream.storage.bytes;
}

std::string reason_text(const Region& region, const RegionPlan& plan) {
  const auto inputs = static_cast<size_t>(
      std::count_if(region.operands.begin(), region.operands.end(),
                    [](const RegionOperand& operand) { return !operand.continues(); }));
  std::string text =
      region.subject + ", " + std::to_string(inputs) + (inputs == 1 ? " input" : " inputs");
  if (inputs < region.operands.size())
    text += " in " + std::to_string(region.operands.size()) + " parts where they stand";
  text += ", vector width " + std::to_string(plan.width);
  if (!plan.width_reason.empty()) text += " (" + plan.width_reason + ")";
  if (plan.wide_index()) text += ", 64-bit indices";
  return text;
}

// ---- sizes as words, so that regions of other sizes run the same instance ----

// Loops and strides that a word may stand for.
size_t words_wanted(const RegionPlan& plan) {
  size_t count = plan.loops.sizes.size();
  for (const Stream& stream : plan.streams) {
    count += static_cast<size_t>(std::count_if(stream.strides.begin(), stream.strides.end(),
                                               [](const Dim& stride) { return stride > 1; }));
  }
  return count;
}

bool has_free_sizes(const RegionPlan& plan) {
  const auto is_free = [](const Dim& size) { return size.is_free(); };
  return std::any_of(plan.loops.sizes.begin(), plan.loops.sizes.end(), is_free) ||
         std::any_of(plan.streams.begin(), plan.streams.end(), [&](const Stream& stream) {
           return stream.view.offset_bytes.is_free() ||
                  std::any_of(stream.strides.begin(), stream.strides.end(), is_free);
         });
}

// Words are there in the pointers that the region does not have; what steps backwards, or is a
// part, begins elsewhere for each size. One loop divides by nothing, several divide by their sizes,
// which costs a division where it were a constant.
bool takes_words(const RegionPlan& plan, WordUse use) {
  if (use == WordUse::Never || plan.loops.sizes.empty()) return false;
  if (use != WordUse::Always && plan.loops.sizes.size() > 1) return false;
  if (has_free_sizes(plan) || plan.wide_index()) return false;
  const bool steps_back =
      std::any_of(plan.streams.begin(), plan.streams.end(),
                  [](const Stream& stream) { return stream.start != 0 || stream.part; });
  const size_t used = plan.streams.size() + (plan.counts_outside ? 1 : 0);
  constexpr size_t kWordsOfPointer = sizeof(rlx_ptr) / sizeof(uint32_t);
  return !steps_back && words_wanted(plan) <= (RLX_REGION_BUFFERS - used) * kWordsOfPointer;
}

void put_words(SizeWords& words, RegionPlan& plan) {
  for (Dim& size : plan.loops.sizes) size = words.word(size);
  for (Stream& stream : plan.streams) {
    for (Dim& stride : stream.strides) stride = words.word(stride);
  }
  plan.items = ceil_div(element_count(plan.loops.sizes), plan.width);
}

// What the kernel touches of a stream, by the words that it goes by.
TensorRef touched(const RegionPlan& plan, const Stream& stream) {
  Dim farthest = 0;
  for (size_t i = 0; i < stream.strides.size(); ++i)
    farthest += reach_of(plan.loops.sizes[i], stream.strides[i]);
  return reached(stream.view, farthest);
}

}  // namespace

ElementStorage element_storage(DType dtype) {
  const bool is_code = is_float8(dtype);
  return {.name = is_code               ? "u8"
                  : dtype == DType::c64 ? "i64"
                                        : std::string(name_of(dtype)),
          .compute = std::string(compute_type(dtype)),
          .bytes = element_bytes(dtype)};
}

ElementStorage raw_storage(uint32_t bytes) {
  switch (bytes) {
    case 1:
      return {.name = "u8", .compute = "rlx_i32", .bytes = 1};
    case 2:
      return {.name = "u16", .compute = "rlx_u32", .bytes = 2};
    case 4:
      return {.name = "u32", .compute = "rlx_u32", .bytes = 4};
    case 8:
      return {.name = "i64", .compute = "rlx_i64", .bytes = 8};
    default:
      RLX_CHECK(false, "raw elements of " + std::to_string(bytes) + " bytes");
  }
}

void append_joined(std::vector<RegionOperand>& operands, const JoinedParts& parts,
                   const ElementStorage& storage) {
  int64_t begin = 0;
  for (const TensorRef& part : parts.parts) {
    const auto from_end = static_cast<uint32_t>(part.shape().size() - parts.axis);
    operands.push_back({.view = part,
                        .storage = storage,
                        .joined = JoinedAt{.axis_from_end = from_end, .begin = begin}});
    begin += static_cast<int64_t>(part.shape()[parts.axis]);
  }
}

void emit_region(Program& program, const Step& origin, const Region& region) {
  if (element_count(region.output.shape()) == 0) return;
  RLX_CHECK(region.operands.size() + region.more_outputs.size() + (region.counts_outside ? 1 : 0) <=
                kMaxRegionOperands,
            "operands of " + origin.node);
  RegionPlan plan = make_plan(program, region);
  const uint32_t items_each = items_per_thread(plan, region.operations);
  const Grid grid = split_grid(ceil_div(plan.items, kBlock * items_each));
  const bool in_words = takes_words(plan, region.words);
  SizeWords words;
  if (in_words) put_words(words, plan);
  DispatchBuilder<RegionParams> dispatch(program, KernelId::region, origin);
  words.give(dispatch);
  Dim bytes = 0;
  for (const Stream& stream : plan.streams) {
    const uint32_t alignment = stream.wide ? kVectorWidth * stream.storage.bytes : 0;
    const bool is_operand = stream.number > 0 && stream.number < plan.operands_end;
    dispatch.bind(stream.number * sizeof(rlx_ptr), in_words ? touched(plan, stream) : stream.view,
                  is_operand ? AccessMode::Read : AccessMode::Write, alignment);
    bytes += distinct_bytes(stream);
  }
  std::vector<RegionOperand> outputs = {{.view = region.output, .storage = region.output_storage}};
  outputs.insert(outputs.end(), region.more_outputs.begin(), region.more_outputs.end());
  const std::vector<BufferId> dying =
      in_place_operands(program, region, outputs.front(), Segment::Arena);
  // Which of several outputs took it over would not be said. Loops carry values in the arena.
  if (!dying.empty() && outputs.size() == 1) {
    dispatch.allow_in_place(dying.front());
    for (const BufferId carried : dying) dispatch.allow_in_place_state(carried);
  }
  for (const RegionOperand& output : outputs) {
    for (const BufferId state : in_place_operands(program, region, output, Segment::State))
      dispatch.allow_in_place_state(state);
  }
  if (region.counts_outside) {
    dispatch.count_index_errors(RLX_REGION_INDEX_ERRORS * sizeof(rlx_ptr));
    dispatch.define("RLX_INDICES", 1);  // where nobody counts (weights that are made) too
  }
  if (region.double_functions) dispatch.define("RLX_DOUBLE", 1);
  if (region.float8_functions) dispatch.define("RLX_FLOAT8", 1);
  if (region.complex_functions) dispatch.define("RLX_COMPLEX", 1);
  if (region.random_functions) dispatch.define("RLX_RANDOM", 1);
  if (calls_functions(region)) dispatch.define("RLX_CALLS", 1);
  dispatch.workgroup({kBlock})
      .define("RLX_INDEX", index_type(plan))
      .define("RLX_COUNT", index_number(plan, plan.items))
      .define("RLX_ITEMS", std::to_string(items_each) + "u")
      .generated("element.inc", element_function(region))
      .generated("region.inc", item_text(plan))
      .grid(grid.x, grid.y, grid.z)
      .work(bytes, region.operations * element_count(region.output.shape()))
      .reason(reason_text(region, plan) + (in_words ? ", sizes as words" : ""));
}

}  // namespace rlx
