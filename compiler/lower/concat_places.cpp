// SPDX-License-Identifier: Apache-2.0
// Where the parts of concats live: each in its slot of the whole, so that producers write there and
// no copy runs.
#include <algorithm>
#include <set>

#include "compiler/dispatch/size_words.h"
#include "compiler/lower/lower_node.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"
#include "schema/kernel_params.h"

namespace rlx {
namespace {

// Runs of as many elements are worth moving the joined axis to the outside; readers and writers
// move along them.
constexpr int64_t kLeastRun = 32;

const OpDef& op_of(const Node& node) {
  return *find_op(node.op);
}

bool is_elementwise(const OpDef& op) {
  return op.lower == lower_elementwise;
}

// Only results of nodes that are nobody's output are written where this entry likes.
bool is_owned(const Graph& graph, ValueId id) {
  return graph.value(id).origin == ValueOrigin::Node && !graph.is_output(id);
}

bool is_read_by_strides(const Graph& graph, ValueId id) {
  const std::vector<NodeId> readers = graph.readers(id);
  return std::all_of(readers.begin(), readers.end(), [&graph](NodeId reader) {
    const OpDef& op = op_of(graph.node(reader));
    return op.reads_strides || is_elementwise(op);
  });
}

// A concat writes its result part by part. Scattered, it leaves the bytes between to its
// neighbours, and nobody may read it before these are written too, not even to copy it beside
// itself.
bool is_whole_at_once(const Graph& graph, ValueId id) {
  return graph.node(*graph.value(id).producer).op != OpId::concat;
}

// Why the value's producer cannot write to a place that is not dense; empty where it can.
std::string writer_refusal(const LoweringState& state, ValueId id, const TensorRef& place) {
  const std::optional<NodeId> producer = state.graph.value(id).producer;
  if (!producer) return "made before";  // init has values without producers
  const Node& node = state.graph.node(*producer);
  const OpDef& op = op_of(node);
  if (is_elementwise(op)) return {};
  if (op.place_refusal == nullptr) return node.op + " writes dense results";
  if (node.outputs.size() != 1) return node.op + " writes several results";
  std::string refusal;
  const bool needs_number =
      free_size_read_by([&] { refusal = op.place_refusal(state, node, place); }).has_value();
  return needs_number ? node.op + " writes sizes that a run gives densely" : refusal;
}

// The value of which `id` is another shape and nothing else reads, or nullopt.
std::optional<ValueId> reshaped_from(const Graph& graph, ValueId id) {
  const std::optional<NodeId> producer = graph.value(id).producer;
  if (!producer) return std::nullopt;
  const Node& node = graph.node(*producer);
  const bool reshapes = find_op(node.op)->view_kind == ViewKind::Reshape;
  if (!reshapes || !is_owned(graph, *node.inputs[0])) return std::nullopt;
  if (graph.reader_count(id) != 1 || graph.reader_count(*node.inputs[0]) != 1) return std::nullopt;
  return node.inputs[0];
}

// A part, the value that it is or reshapes, and its slot; `refusal` tells why it cannot live there.
struct Placing {
  ValueId part{};
  ValueId value{};
  TensorRef slot;
  std::string refusal;
};

Placing placing_of(const LoweringState& state, ValueId part, TensorRef slot) {
  const Graph& graph = state.graph;
  if (!is_owned(graph, part)) {
    const bool is_output = graph.is_output(part);
    return {.part = part,
            .value = part,
            .slot = std::move(slot),
            .refusal = is_output ? "an output of its own" : "no node's result"};
  }
  const bool read_by_strides = is_read_by_strides(graph, part);
  const bool read_once = graph.reader_count(part) == 1;
  Placing placing{.part = part, .value = part, .slot = std::move(slot), .refusal = {}};
  while (const std::optional<ValueId> source = reshaped_from(graph, placing.value)) {
    const TensorType& type = graph.value(*source).type;
    auto strides = reshape_strides(placing.slot.shape(), placing.slot.strides, type.shape);
    if (!strides) break;
    placing.value = *source;
    placing.slot.type = type;
    placing.slot.strides = std::move(*strides);
  }
  if (placing.slot.dense()) {
    placing.slot.strides = dense_strides(placing.slot.shape());
  } else if (!read_by_strides) {
    placing.refusal = "read by an op that would gather it again";
  } else if (!read_once && !is_whole_at_once(graph, placing.value)) {
    placing.refusal = "a concat that others read";
  } else {
    placing.refusal = writer_refusal(state, placing.value, placing.slot);
  }
  return placing;
}

// The slots of a concat's parts within the whole.
std::vector<TensorRef> slots_of(const Graph& graph, const Node& node, const TensorRef& whole,
                                size_t axis) {
  std::vector<TensorRef> slots;
  Dim start = 0;
  for (const std::optional<ValueId>& part : node.inputs) {
    slots.push_back(shifted(whole, start * whole.strides[axis]));
    slots.back().type = graph.value(*part).type;
    start += slots.back().shape()[axis];
  }
  return slots;
}

// What becomes of the parts in such a whole: each value once, at its first slot.
std::vector<Placing> placings_of(const LoweringState& state, const Node& node,
                                 const TensorRef& whole, size_t axis) {
  std::vector<Placing> placings;
  std::set<ValueId> seen;
  std::vector<TensorRef> slots = slots_of(state.graph, node, whole, axis);
  for (size_t i = 0; i < slots.size(); ++i) {
    const ValueId part = *node.inputs[i];
    if (!seen.insert(part).second) continue;
    placings.push_back(placing_of(state, part, std::move(slots[i])));
  }
  return placings;
}

// Bytes of the parts that are copied, at the largest sizes.
int64_t copied_bytes(const std::vector<Placing>& placings) {
  int64_t bytes = 0;
  for (const Placing& placing : placings) {
    if (!placing.refusal.empty()) bytes += byte_size(placing.slot.type).bound();
  }
  return bytes;
}

// Strides of the tensor packed with `axis` outermost: there, the parts of a concat lie one behind
// the other.
Strides outermost_strides(const Shape& shape, size_t axis) {
  Shape turned = shape;
  std::rotate(turned.begin(), turned.begin() + static_cast<int64_t>(axis),
              turned.begin() + static_cast<int64_t>(axis) + 1);
  Strides strides = dense_strides(turned);
  std::rotate(strides.begin(), strides.begin() + 1,
              strides.begin() + static_cast<int64_t>(axis) + 1);
  return strides;
}

// A concat of a few images' channels that has a buffer of its own lies with the channels outermost
// where that costs no copies: parts share no range of bytes then, so that their producers may run
// at once, and a product over pixels takes all images as one.
void choose_strides(LoweringState& state, const Node& node, size_t axis) {
  const Graph& graph = state.graph;
  const ValueId output = node.outputs[0];
  const TensorType& type = graph.value(output).type;
  const auto joined = type.shape.begin() + static_cast<int64_t>(axis);
  const bool one_run = element_count(Shape(type.shape.begin(), joined)) == 1;
  const bool short_runs = element_count(Shape(joined + 1, type.shape.end())) < kLeastRun;
  // Copies are weighed by their numbers of bytes.
  const bool is_free = element_count(type.shape).is_free();
  if (is_free || one_run || short_runs || !is_owned(graph, output) || state.has_place(output) ||
      state.stores_channels_last(output) || !is_read_by_strides(graph, output))
    return;
  TensorRef whole{.buffer = {}, .offset_bytes = 0, .type = type, .strides = {}};
  whole.strides = dense_strides(type.shape);
  const int64_t scattered = copied_bytes(placings_of(state, node, whole, axis));
  whole.strides = outermost_strides(type.shape, axis);
  const std::vector<Placing> turned = placings_of(state, node, whole, axis);
  const bool by_kernels = std::any_of(turned.begin(), turned.end(), [&](const Placing& placing) {
    const std::optional<NodeId> producer = graph.value(placing.value).producer;
    return placing.refusal.empty() && !is_elementwise(op_of(graph.node(*producer)));
  });
  if (by_kernels && copied_bytes(turned) <= scattered) state.store_as(output, whole.strides);
}

// What a region of this shape may bind, that may count indices outside.
size_t most_buffers(const Shape& shape) {
  return RLX_REGION_BUFFERS - 1 - pointers_of_sizes(shape);
}

// The buffers that an elementwise node binds, of a concat that is left apart each part.
size_t buffers_of(const LoweringState& state, const Node& node) {
  const std::set<std::optional<ValueId>> inputs(node.inputs.begin(), node.inputs.end());
  size_t count = node.outputs.size();
  for (const std::optional<ValueId>& input : inputs) {
    if (!input) continue;
    const bool apart = state.is_left_apart(*input);
    count += apart ? state.graph.node(*state.graph.value(*input).producer).inputs.size() : 1;
  }
  return count;
}

// Whether the concat is not made: its parts would have to be copied, and all that reads it computes
// elements, which it can as well of the parts where they stand.
bool is_better_apart(const LoweringState& state, const Node& node, size_t axis) {
  const Graph& graph = state.graph;
  const ValueId output = node.outputs[0];
  const TensorType& type = graph.value(output).type;
  const bool has_other = std::any_of(node.inputs.begin(), node.inputs.end(), [&](const auto& part) {
    const Dim& size = graph.value(*part).type.shape[axis];
    return size.is_free() || size == 0;
  });
  if (has_other || node.inputs.size() < 2 || !is_owned(graph, output) || state.has_place(output))
    return false;
  const std::vector<NodeId> readers = graph.readers(output);
  const bool reads_parts = std::all_of(readers.begin(), readers.end(), [&](NodeId id) {
    const Node& reader = graph.node(id);
    return is_elementwise(op_of(reader)) &&
           buffers_of(state, reader) + node.inputs.size() - 1 <=
               most_buffers(graph.value(reader.outputs[0]).type.shape);
  });
  if (readers.empty() || !reads_parts) return false;
  const TensorRef whole{
      .buffer = {}, .offset_bytes = 0, .type = type, .strides = state.fresh_strides(output)};
  return copied_bytes(placings_of(state, node, whole, axis)) > 0;
}

// Whether the ranges of bytes that writers of the parts declare make up that of the whole: who
// reads the whole reads no byte that no step wrote. They do not where gaps lie between the parts,
// or may at some free sizes.
bool parts_cover(const TensorRef& whole, const std::vector<TensorRef>& slots) {
  const TensorRef::ByteRange range = whole.byte_range();
  Dim covered = range.offset_bytes;
  for (const TensorRef& slot : slots) {
    const TensorRef::ByteRange part = slot.byte_range();
    const Dim end = part.offset_bytes + part.length_bytes;
    // Of free sizes nothing but equality holds at every one.
    const bool is_next = part.offset_bytes == covered;
    const bool is_free = part.offset_bytes.is_free() || covered.is_free() || end.is_free();
    if (!is_next && (is_free || part.offset_bytes > covered)) return false;
    covered = is_next ? end : max(covered, end);
  }
  return covered == range.offset_bytes + range.length_bytes;
}

// Where a later concat of the same parts, and more, has given them places side by side, the parts
// make up this concat as they stand.
void place_whole(LoweringState& state, const Node& node, size_t axis) {
  const Graph& graph = state.graph;
  const ValueId output = node.outputs[0];
  const TensorRef* first = state.place_of(*node.inputs[0]);
  if (first == nullptr || !is_owned(graph, output)) return;
  TensorRef whole = *first;
  whole.type = graph.value(output).type;
  if (whole.dense()) {
    whole.strides = dense_strides(whole.shape());
  } else if (!is_read_by_strides(graph, output)) {
    return;
  }
  const std::vector<TensorRef> slots = slots_of(graph, node, whole, axis);
  for (size_t i = 0; i < slots.size(); ++i) {
    const TensorRef* place = state.place_of(*node.inputs[i]);
    if (place == nullptr || !is_same_place(*place, slots[i])) return;
  }
  if (!parts_cover(whole, slots)) return;
  state.place(output, std::move(whole));
}

}  // namespace

void place_concat_parts(LoweringState& state, Diagnostics& diagnostics) {
  const Graph& graph = state.graph;
  std::vector<NodeId> nodes(graph.order().rbegin(), graph.order().rend());
  for (NodeId id : nodes) {
    const Node& node = graph.node(id);
    if (node.op != OpId::concat) continue;
    const TensorType& type = graph.value(node.outputs[0]).type;
    if (element_count(type.shape) == 0) continue;
    NodeContext ctx(*find_op(node.op), node, diagnostics);
    const auto axis =
        static_cast<size_t>(ctx.axis(ctx.attrs().integer("axis"), type.shape.size()).value());
    place_whole(state, node, axis);
    choose_strides(state, node, axis);
    if (is_better_apart(state, node, axis)) {
      state.leave_apart(node.outputs[0]);
      continue;
    }
    const TensorRef whole = state.allocate(node.outputs[0]);
    for (Placing& placing : placings_of(state, node, whole, axis)) {
      if (placing.refusal.empty()) {
        state.place(placing.value, std::move(placing.slot));
      } else {
        state.refuse_place(placing.part, std::move(placing.refusal));
      }
    }
  }
}

}  // namespace rlx
