// SPDX-License-Identifier: Apache-2.0
// kv_append (ops.md 1): rows written into a cache at positions that the device knows, in place
// where the cache is a state.
#include "compiler/ops/indexing/kv_append.h"

#include <algorithm>
#include <array>

#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/places.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

enum AppendInput : uint32_t { kCache, kNew, kPosition };

// The cache as [outer, capacity, inner], with outer = batch * outer_per_batch.
struct AppendView {
  Dim batch = 1;
  Dim outer = 1;
  Dim outer_per_batch = 1;
  Dim capacity = 1;
  Dim inner = 1;
  Dim rows = 1;  // new ones
};

AppendView append_view(const Shape& cache, const Shape& added, int64_t axis) {
  const auto at = static_cast<size_t>(axis);
  return {.batch = cache[0],
          .outer = element_count(Shape(cache.begin(), cache.begin() + axis)),
          .outer_per_batch = element_count(Shape(cache.begin() + 1, cache.begin() + axis)),
          .capacity = cache[at],
          .inner = element_count(Shape(cache.begin() + axis + 1, cache.end())),
          .rows = added[at]};
}

std::optional<int64_t> append_axis(NodeContext& ctx, size_t rank) {
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), rank);
  if (axis == 0) {
    ctx.fail(DiagCode::BadAttribute, "axis is 0, the batch; wanted one behind it");
    return std::nullopt;
  }
  return axis;
}

// Whether new rows are rounded to the cache's dtype as they are stored.
bool converts(DType cache, DType added) {
  return cache != added && is_short_float(cache) && is_short_float(added);
}

bool infer_kv_append(InferContext& ctx) {
  const TensorType& cache = ctx.input(kCache);
  if (!refuse_block_type(ctx, cache.dtype)) return false;
  if (cache.shape.size() < 2) {
    return ctx.fail(DiagCode::BadRank, "cache is " + to_string(cache) + ", wanted rank 2 or more");
  }
  const std::optional<int64_t> axis = append_axis(ctx, cache.shape.size());
  if (!axis) return false;
  const TensorType& added = ctx.input(kNew);
  TensorType wanted = cache;
  if (converts(cache.dtype, added.dtype)) wanted.dtype = added.dtype;
  if (added.shape.size() == wanted.shape.size()) {
    wanted.shape[static_cast<size_t>(*axis)] = added.shape[static_cast<size_t>(*axis)];
  }
  if (added != wanted) {
    return ctx.fail(DiagCode::BadShape,
                    "new is " + to_string(added) + " beside a cache of " + to_string(cache) +
                        "; wanted its dtype and dims, but for axis " + std::to_string(*axis) +
                        ", or f32, f16 and bf16 in any mixture");
  }
  if (!check_append_positions(ctx, kPosition, cache.shape[0])) return false;
  ctx.set_output(0, cache);
  return true;
}

int64_t position_value(const Tensor& positions, int64_t batch) {
  return index_value(positions, positions.type.shape.empty() ? 0 : batch);
}

bool evaluate_kv_append(EvaluateContext& ctx) {
  const Tensor& cache = ctx.input(kCache);
  const Tensor& added = ctx.input(kNew);
  Tensor& y = ctx.output(0);
  y.floats = cache.floats;
  y.integers = cache.integers;
  const std::optional<int64_t> axis = append_axis(ctx, cache.type.shape.size());
  if (!axis) return false;
  const AppendView view = append_view(cache.type.shape, added.type.shape, *axis);
  const bool circular = ctx.attrs().text("mode") == "circular";
  for (int64_t outer = 0; outer < view.outer; ++outer) {
    const int64_t position = position_value(ctx.input(kPosition), outer / view.outer_per_batch);
    for (int64_t i = 0; i < view.rows; ++i) {
      const int64_t row = appended_row(position, i, view.rows, view.capacity, circular);
      if (row < 0) continue;
      const auto from = static_cast<size_t>((outer * view.rows + i) * view.inner);
      const auto to = static_cast<size_t>((outer * view.capacity + row) * view.inner);
      const auto count = static_cast<size_t>(view.inner);
      if (y.is_float()) std::copy_n(added.floats.begin() + from, count, y.floats.begin() + to);
      if (!y.is_float()) std::copy_n(added.integers.begin() + from, count, y.integers.begin() + to);
    }
  }
  return true;
}

std::string append_text(const AxisLoops& loops, const AppendView& view, int64_t word_elements,
                        const std::string& index) {
  const bool contiguous = word_elements > 1 || is_contiguous(loops.inner);
  std::string text = define_line("RLX_INDEX", index);
  text += index_macro("RLX_X_OUTER", in_words(loops.outer, word_elements), 0);
  text +=
      define_line("RLX_X_ROW", "RLX_INDEX(" + integer_text(loops.row_stride / word_elements) + ")");
  text += contiguous ? define_line("RLX_X_COLUMN(i)", "(i)")
                     : index_macro("RLX_X_COLUMN", loops.inner, 0);
  text += define_line("RLX_CAPACITY", "rlx_i64(" + integer_text(view.capacity) + ")");
  return text + define_line("RLX_COUNT",
                            integer_text(view.outer * view.rows * (view.inner / word_elements)));
}

bool lower_kv_append(LowerContext& ctx) {
  const std::optional<int64_t> axis = append_axis(ctx, ctx.output_type(0).shape.size());
  if (!axis) return false;
  const bool circular = ctx.attrs().text("mode") == "circular";
  const TensorRef added = ctx.input(kNew);
  const TensorRef position = ctx.input(kPosition);
  const TensorRef y = appended_cache(ctx, kCache, 0);
  const AppendView view = append_view(y.shape(), added.shape(), *axis);
  const Dim moved = view.outer * view.rows * view.inner;
  if (moved == 0) return true;
  const AxisLoops loops = axis_loops(added, *axis);
  const bool is_rounded = converts(y.dtype(), added.dtype());
  const int64_t word = is_rounded ? element_bytes(added.dtype())
                                  : row_word_bytes(ctx, added, loops, ctx.alignment(y), view.inner);
  const int64_t word_elements = word / element_bytes(added.dtype());
  const Dim threads = view.outer * view.rows * (view.inner / word_elements);
  const std::string index = index_type({&added, &y}, moved.range().most);
  auto dispatch = ctx.dispatch<KernelId::kv_append>();
  if (is_rounded) {
    dispatch.define("RLX_X", std::string(name_of(added.dtype())))
        .define("RLX_CACHE", std::string(name_of(y.dtype())));
  }
  dispatch.workgroup({kCopyWorkgroup, 1, 1})
      .define("RLX_ROTATE", 0)
      .define("RLX_WORD_BYTES", word)
      .size("RLX_ROW_WORDS", view.inner / word_elements)
      .size("RLX_NEW_ROWS", view.rows)
      .size("RLX_OUTER_PER_BATCH", view.outer_per_batch)
      .define("RLX_POSITIONS", std::string(name_of(position.dtype())))
      .size("RLX_POSITION_STRIDE", position.strides.empty() ? Dim() : position.strides[0])
      .define("RLX_CIRCULAR", circular ? 1 : 0)
      .generated("append.inc", append_text(loops, view, word_elements, index))
      .read(&AppendParams::x, added, static_cast<uint32_t>(word))
      .read(&AppendParams::positions, position)
      .count_index_errors()
      .bind(offsetof(AppendParams, y), y, AccessMode::ReadWrite,
            static_cast<uint32_t>(word_elements * element_bytes(y.dtype())))
      .grid(split_grid(ceil_div(threads, kCopyWorkgroup)))
      .work(2 * byte_size(added.type) + byte_size(position.type), 0)
      .reason("rows of " + to_string(view.inner * element_bytes(y.dtype())) +
              (is_rounded ? " bytes, rounded" : " bytes in words of " + std::to_string(word)));
  return true;
}

// ---- who else reads a cache ----

bool writes_state(const Graph& graph, ValueId state) {
  const std::vector<NodeId> readers = graph.readers(state);
  return std::any_of(readers.begin(), readers.end(), [&](NodeId id) {
    return graph.node(id).op == "state_write" && graph.node(id).inputs[0] == state;
  });
}

// True where nothing but `node`, once, reads the value; being the target of a state_write is no
// read.
bool read_once(const Graph& graph, ValueId value) {
  if (graph.is_output(value)) return false;
  size_t reads = 0;
  const std::vector<NodeId> readers = graph.readers(value);
  for (auto reader = readers.begin(); reader != readers.end(); ++reader) {
    const Node& node = graph.node(*reader);
    const bool is_counted = reader != readers.begin() && *(reader - 1) == *reader;
    if (is_counted) continue;
    const auto uses = std::count(node.inputs.begin(), node.inputs.end(), std::optional(value));
    const bool target = node.op == "state_write" && node.inputs[0] == value;
    reads += static_cast<size_t>(uses) - (target ? 1 : 0);
  }
  return reads == 1;
}

bool is_append_result(const Graph& graph, const Value& value) {
  if (value.origin != ValueOrigin::Node) return false;
  const std::span<const CacheOperand> operands = cache_operands(graph.node(*value.producer).op);
  return std::any_of(operands.begin(), operands.end(), [&value](const CacheOperand& operand) {
    return operand.output == value.output_index;
  });
}

// True where input `input` is the node's only one in its buffer.
bool alone_in_buffer(LowerContext& ctx, size_t input) {
  const BufferId buffer = ctx.input(input).buffer;
  size_t inputs = 0;
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    inputs += ctx.has_input(i) && ctx.input(i).buffer == buffer ? 1 : 0;
  }
  return inputs == 1;
}

// True where the input dies with this node: no other node reads its bytes from here on, by whatever
// view, and the output has no place of its own.
bool dies_here(LowerContext& ctx, size_t input, size_t output) {
  const Graph& graph = ctx.state().graph;
  const TensorRef view = ctx.input(input);
  const ValueId result = ctx.node().outputs.at(output);
  if (ctx.segment_of(view) != Segment::Arena || !view.dense()) return false;
  if (ctx.state().has_place(result)) return false;
  const NodeId here = *graph.value(result).producer;
  const std::vector<ValueId> values = ctx.state().values_in(view.buffer);
  return std::none_of(values.begin(), values.end(), [&](ValueId id) {
    if (graph.is_output(id)) return true;
    const std::vector<NodeId> readers = graph.readers(id);
    // A state takes its new value at the end of the run.
    return std::any_of(readers.begin(), readers.end(), [&](NodeId reader) {
      return graph.node(reader).op == "state_write" || graph.runs_before(here, reader);
    });
  });
}

bool may_overwrite(LowerContext& ctx, size_t input, size_t output) {
  const Graph& graph = ctx.state().graph;
  const ValueId cache = ctx.node().inputs.at(input).value();
  if (!alone_in_buffer(ctx, input)) return false;
  if (dies_here(ctx, input, output)) return true;
  if (!read_once(graph, cache)) return false;
  const Value& value = graph.value(cache);
  if (value.origin == ValueOrigin::State) return writes_state(graph, cache);
  return is_append_result(graph, value);
}

}  // namespace

TensorRef appended_cache(LowerContext& ctx, size_t input, size_t output) {
  const TensorRef cache = ctx.input(input);
  if (may_overwrite(ctx, input, output)) {
    RLX_CHECK(cache.dense(), "what is overwritten is a dense value, a state or an append's result");
    ctx.state().forget_copies_of(cache.buffer);
    ctx.alias_output(output, cache);
    return cache;
  }
  const TensorRef y = ctx.output(output);
  ctx.copy(cache, y);
  return y;
}

std::span<const CacheOperand> cache_operands(std::string_view op) {
  static constexpr std::array kAppend = {CacheOperand{.input = kCache, .output = 0}};
  static constexpr std::array kRope = {CacheOperand{.input = 6, .output = 1},
                                       CacheOperand{.input = 7, .output = 2}};
  if (op == "kv_append") return kAppend;
  static constexpr std::array<std::string_view, 4> kScatters = {"scatter_nd", "scatter_elements",
                                                                "index_copy", "index_add"};
  if (std::find(kScatters.begin(), kScatters.end(), op) != kScatters.end()) return kAppend;
  if (op == "rope_append") return kRope;
  static constexpr std::array kScatterAdd = {CacheOperand{.input = 2, .output = 0}};
  if (op == "scatter_add") return kScatterAdd;
  return {};
}

bool check_append_positions(InferContext& ctx, size_t input, const Dim& batch) {
  const TensorType& positions = ctx.input(input);
  if (!check_index_dtype(ctx, input)) return false;
  if (positions.shape.empty() || positions.shape == Shape{batch}) return true;
  return ctx.fail(DiagCode::BadShape, "pos is " + to_string(positions) + ", wanted a scalar or [" +
                                          to_string(batch) + "]");
}

int64_t appended_row(int64_t position, int64_t i, int64_t new_rows, int64_t capacity,
                     bool circular) {
  if (circular) {
    if (capacity == 0 || new_rows - i > capacity) return -1;  // a later row takes the place
    const int64_t row = (position % capacity + i % capacity) % capacity;
    return row < 0 ? row + capacity : row;
  }
  const int64_t first = position < 0 ? position + capacity : position;
  const bool inside = first >= -i && first < capacity - i;
  return inside ? first + i : -1;
}

namespace {

constexpr std::string_view kKvAppendModes[] = {"linear", "circular"};
constexpr AttrSpec kKvAppendAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .default_text = "-2"},
    {.name = "mode",
     .type = AttrType::String,
     .default_text = "\"linear\"",
     .choices = kKvAppendModes},
};
constexpr OpDef kKvAppendOps[] = {
    {.name = "kv_append",
     .signature = "kv_append(cache, new, pos; axis=-2, mode=\"linear\") -> cache'",
     .inputs = {3, 3},
     .outputs = {1, 1},
     .attrs = kKvAppendAttrs,
     .infer = infer_kv_append,
     .evaluate = evaluate_kv_append,
     .lower = lower_kv_append,
     .index_inputs = 1u << 2,
     .takes_type_of_first = true},
};

}  // namespace

std::span<const OpDef> kv_append_ops() {
  return kKvAppendOps;
}

}  // namespace rlx
