// SPDX-License-Identifier: Apache-2.0
// Index arithmetic and accesses as text: single elements, or four in one access.
#include "compiler/ops/lowering/region_text.h"

#include <algorithm>
#include <cstdlib>
#include <span>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// Strides have the same sign at every size.
Dim magnitude(const Dim& stride) {
  return stride < 0 ? -stride : stride;
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

}  // namespace

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

}  // namespace rlx
