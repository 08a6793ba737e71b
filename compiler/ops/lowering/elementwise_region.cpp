// SPDX-License-Identifier: Apache-2.0
// One dispatch of the region kernel: its buffers, what it may overwrite, its sizes as words.
#include "compiler/ops/lowering/elementwise_region.h"

#include <algorithm>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/region_plan.h"
#include "compiler/ops/lowering/region_text.h"
#include "compiler/support/blocks.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr uint32_t kBlock = 256;

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
