// SPDX-License-Identifier: Apache-2.0
// Seeds, steps and streams of the ops that draw random numbers.
#include "compiler/ops/generation/draw.h"

#include <cmath>

#include "compiler/ops/prepare.h"
#include "schema/philox.h"

namespace rlx {
namespace {

// FNV-1a of 32 bits.
uint32_t stream_of_name(std::string_view name) {
  uint32_t hash = 0x811C9DC5u;
  for (const char letter : name) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x01000193u;
  return hash;
}

bool check_draw_scalar(InferContext& ctx, size_t i, std::string_view role, DType wanted) {
  if (!ctx.has_input(i)) return true;
  const TensorType type{wanted, {}};
  return ctx.input(i) == type ||
         ctx.fail(DiagCode::BadDtype, std::string(role) + " is " + to_string(ctx.input(i)) +
                                          ", wanted " + to_string(type));
}

ValueId scalar_constant(RewriteContext& ctx, std::string_view stem, DType dtype, int64_t value) {
  Tensor tensor = Tensor::zeros({dtype, {}});
  tensor.integers[0] = value;
  return ctx.constant(stem, tensor);
}

}  // namespace

bool check_draw(InferContext& ctx, size_t first) {
  if (!check_draw_scalar(ctx, first, "seed", DType::i64) ||
      !check_draw_scalar(ctx, first + 1, "step", DType::u32))
    return false;
  if (!ctx.has_input(first) || !ctx.attrs().has("seed")) return true;
  return ctx.fail(DiagCode::BadAttribute, "seed is an attribute and an input, wanted one of them");
}

Draw draw_of(EvaluateContext& ctx, size_t first) {
  Draw draw;
  if (ctx.has_input(first)) {
    draw.seed = static_cast<uint64_t>(ctx.input(first).integers[0]);
  } else if (ctx.attrs().has("seed")) {
    draw.seed = static_cast<uint64_t>(ctx.attrs().integer("seed"));
  }
  if (ctx.has_input(first + 1)) draw.step = static_cast<uint32_t>(ctx.input(first + 1).integers[0]);
  if (ctx.attrs().has("stream")) draw.stream = static_cast<uint32_t>(ctx.attrs().integer("stream"));
  return draw;
}

ValueId seed_of(RewriteContext& ctx, size_t first) {
  if (ctx.has_input(first)) return ctx.input(first);
  const int64_t seed = ctx.attrs().has("seed") ? ctx.attrs().integer("seed") : 0;
  return scalar_constant(ctx, "seed", DType::i64, seed);
}

ValueId step_of(RewriteContext& ctx, size_t first) {
  return ctx.has_input(first + 1) ? ctx.input(first + 1)
                                  : scalar_constant(ctx, "step", DType::u32, 0);
}

int64_t step_after(uint32_t step) {
  return step + 1U;
}

ValueId step_after(RewriteContext& ctx, size_t first) {
  return ctx.emit("add", {step_of(ctx, first), scalar_constant(ctx, "one", DType::u32, 1)});
}

int64_t stream_of(RewriteContext& ctx) {
  return ctx.attrs().has("stream") ? ctx.attrs().integer("stream") : 0;
}

double gumbel_noise(const Draw& draw, uint32_t row, uint64_t index) {
  const PhiloxWords words = philox({static_cast<uint32_t>(index / 4), row, draw.step, draw.stream},
                                   philox_key(draw.seed));
  return -std::log(-std::log(double{philox_open_uniform(words[index % 4])}));
}

void prepare_stream(Graph& graph, NodeId id) {
  if (graph.node(id).attributes.contains("stream") || graph.node(id).outputs.empty()) return;
  const int64_t stream = stream_of_name(graph.value(graph.node(id).outputs[0]).name);
  graph.change_node(id, [stream](Node& node) { node.attributes["stream"] = stream; });
}

}  // namespace rlx
