// SPDX-License-Identifier: Apache-2.0
// The nodes of random graphs, kind by kind: layers of networks, their gradients, and rarer
// movements.
#include <algorithm>

#include "tests/fuzz/graph_generator.h"

namespace rlx::test {

void Generator::rare_elementwise() {
  const Index x = any_float();
  if (chance(35)) {
    add(choose<const char*>({"atan2", "pow", "div", "mul"}), {x, partner(x)});
    return;
  }
  if (chance(20)) {
    add("fma", {x, partner(x), partner(x)});
    return;
  }
  add(choose<const char*>({"exp2", "log1p", "rsqrt", "tan", "asin", "acos", "sinh", "cosh", "asinh",
                           "atanh", "celu", "selu", "swish", "hard_sigmoid", "thresholded_relu",
                           "shrink", "log", "log2"}),
      {x});
}

void Generator::rare_movement() {
  const auto found = find([](const Entry& e) { return !e.shape().empty(); });
  const Index x = found ? *found : input(float_dtype(), shape(1, 4));
  const Shape dims = entries_[x].shape();
  const DType dtype = entries_[x].dtype();
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t axis = below(rank);
  const int64_t size = dims[static_cast<size_t>(axis)];
  switch (below(8)) {
    case 0: {
      const auto like =
          find([&](const Entry& e) { return e.dtype() == dtype && e.shape() == dims; });
      add("stack", {x, like && chance(60) ? *like : input(dtype, dims), x},
          {{"axis", below(rank + 1)}});
      break;
    }
    case 1:
      add("narrow", {x}, {{"axis", axis}, {"start", below(size + 1)}, {"len", 1 + below(3)}});
      break;
    case 2:
      add("squeeze", {x}, {{"axes", Ints{axis}}});
      break;
    case 3:
      add("diagonal", {x}, {{"offset", below(3) - 1}, {"axis1", axis}, {"axis2", below(rank)}});
      break;
    case 4: {
      const int64_t batch = below(rank);
      add("reverse_sequence", {x, input(DType::i64, {dims[static_cast<size_t>(batch)]})},
          {{"batch_axis", batch}, {"time_axis", axis}});
      break;
    }
    case 5:
      add("masked_fill", {x, input(DType::bool_, dims), input(dtype, {})});
      break;
    case 6:
      add("cumprod", {x}, {{"axis", axis}, {"exclusive", chance(30)}, {"reverse", chance(30)}});
      break;
    default:
      add("one_hot", {input(choose({DType::i32, DType::i64}), shape(0, 2))},
          {{"depth", 1 + below(9)}, {"dtype", choose<const char*>({"f32", "f16", "i32"})}});
  }
}

void Generator::rows_by_index() {
  const Index x = any_float(1);
  const Shape dims = entries_[x].shape();
  const DType dtype = entries_[x].dtype();
  const int64_t axis = below(static_cast<int64_t>(dims.size()));
  const Dim count = chance_of_symbol(40) ? symbol() : Dim(1 + below(5));
  Shape rows = dims;
  if (chance(30)) {
    rows[0] = count;
    add("scatter_add", {input(dtype, rows), input(DType::i32, {count}), x},
        {{"dim0", written(dims).front()}});
    return;
  }
  if (chance(30)) {
    add("embedding", {x, input(DType::i64, {count, 1 + below(3)})});
    return;
  }
  rows[static_cast<size_t>(axis)] = count;
  add(chance(50) ? "index_add" : "index_copy",
      {x, input(chance(50) ? DType::i32 : DType::i64, {count}), input(dtype, rows)},
      {{"axis", axis}});
}

void Generator::gated() {
  const Index x = any_float(1);
  const DType dtype = entries_[x].dtype();
  const Shape dims = entries_[x].shape();
  const char* activation = choose<const char*>({"silu", "gelu", "relu", "sigmoid"});
  switch (below(5)) {
    case 0:
      add("fused_swiglu", {x}, {{"gate_first", chance(50)}, {"activation", activation}});
      break;
    case 1:
      add("glu", {x, chance(30) ? x : input(dtype, dims)}, {{"activation", activation}});
      break;
    case 2: {
      std::vector<std::optional<Index>> inputs = {x, input(dtype, dims)};
      inputs.emplace_back(chance(50) ? std::optional(input(dtype, {dims.back()})) : std::nullopt);
      inputs.emplace_back(input(dtype, {dims.back()}));
      const bool is_rms = chance(50);
      if (!is_rms) inputs.emplace_back(input(dtype, {dims.back()}));
      add(is_rms ? "fused_residual_rms_norm" : "fused_residual_ln", inputs, {{"eps", 0.01}},
          1 + static_cast<size_t>(chance(50)));
      break;
    }
    case 3: {
      const int64_t head = choose<int64_t>({2, 4, 8});
      const Dim batch = chance_of_symbol(40) ? symbol() : Dim(1 + below(2));
      const Dim steps = chance_of_symbol(60) ? symbol() : Dim(1 + below(9));
      const bool heads_first = chance(50);
      const Dim heads = 1 + below(3);
      const Index q = input(
          dtype, heads_first ? Shape{batch, heads, steps, head} : Shape{batch, steps, heads, head});
      add("rope", {q, input(DType::f32, {steps, head / 2}), input(DType::f32, {steps, head / 2})},
          {{"head_dim", head},
           {"style", chance(50) ? "neox" : "gptj"},
           {"inverse", chance(20)},
           {"layout", heads_first ? "bhsd" : "bshd"}});
      break;
    }
    default: {
      if (dims.size() < 2) return;
      const Dim n = dim();
      const auto last = static_cast<int64_t>(dims.size()) - 1;
      const bool first = chance(50);
      add("dot_general", {x, input(dtype, first ? Shape{dims.back(), n} : Shape{n, dims.back()})},
          {{"lhs_contracting", Ints{last}}, {"rhs_contracting", Ints{first ? 0 : 1}}});
    }
  }
}

void Generator::recurrent() {
  const DType dtype = float_dtype();
  const Dim batch = chance_of_symbol(40) ? symbol() : Dim(1 + below(3));
  const Dim steps = chance_of_symbol(60) ? symbol() : Dim(1 + below(6));
  if (chance(35)) {
    const Dim channels = chance_of_symbol(20) ? symbol() : Dim(1 + below(6));
    const int64_t taps = 2 + below(3);
    add("causal_conv1d",
        {input(dtype, {batch, channels, steps}), input(dtype, {channels, 1, taps}),
         input(dtype, {channels})},
        {{"activation", chance(50) ? "silu" : "none"}}, 1 + static_cast<size_t>(chance(50)));
    return;
  }
  struct Kind {
    const char* op;
    int64_t gates;
    size_t outputs;
  };
  const Kind kind = choose<Kind>({{"lstm", 4, 3}, {"gru", 3, 2}, {"rnn", 1, 2}});
  const int64_t width = 1 + below(5);
  const int64_t hidden = 1 + below(6);
  const char* direction = choose<const char*>({"forward", "reverse", "bidirectional"});
  const int64_t blocks = direction[0] == 'b' ? 2 : 1;
  const int64_t rows = blocks * kind.gates * hidden;
  const bool time_first = chance(50);
  add(kind.op,
      {input(dtype, time_first ? Shape{steps, batch, width} : Shape{batch, steps, width}),
       input(dtype, {rows * width}), input(dtype, {rows * hidden}), input(dtype, {rows})},
      {{"hidden_size", hidden}, {"direction", direction}, {"layout", time_first ? "sbi" : "bsi"}},
      1 + static_cast<size_t>(below(static_cast<int64_t>(kind.outputs))));
}

void Generator::image_layer() {
  const auto found = find([](const Entry& e) {
    return e.known.plain.is_float() && e.shape().size() == 4 && element_count(e.shape()) > 0;
  });
  const Index x = found && chance(70)
                      ? *found
                      : input(float_dtype(), {chance_of_symbol(40) ? symbol() : Dim(1 + below(2)),
                                              choose<int64_t>({2, 4, 8}), extent(), extent()});
  const DType dtype = entries_[x].dtype();
  const Dim channels = entries_[x].shape()[1];
  const auto of_channels = [&] { return input(dtype, {channels}); };
  switch (below(8)) {
    case 0:
      add("instance_norm", {x, of_channels(), of_channels()}, {{"eps", 0.01}});
      break;
    case 1:
      add("layer_norm2d", {x, of_channels(), of_channels()}, {{"eps", 0.01}});
      break;
    case 2:
      add("lrn", {x}, {{"size", 1 + 2 * below(3)}});
      break;
    case 3: {
      add("square", {of_channels()});
      const Index variance = entries_.size() - 1;
      add("batch_norm", {x, of_channels(), of_channels(), of_channels(), variance},
          {{"eps", 0.05}});
      break;
    }
    case 4:
      add("adaptive_pool", {x},
          {{"kind", choose<const char*>({"max", "mean", "sum"})},
           {"out", Ints{1 + below(4), 1 + below(4)}}});
      break;
    case 5:
      add("im2col", {x},
          {{"kernel", Ints{1 + below(2), 1 + below(3)}},
           {"stride", Ints{1 + below(2), 1}},
           {"layout", chance(50) ? "rows" : "unfold"}});
      break;
    case 6:
      add(chance(50) ? "depth_to_space" : "space_to_depth", {x}, {{"block", 2}});
      break;
    default:
      add("resize_nearest_2x", {x});
  }
}

void Generator::gradient() {
  const Index x = any_float(1);
  const DType dtype = entries_[x].dtype();
  const Shape dims = entries_[x].shape();
  const Index dy = chance(20) ? x : input(dtype, dims);
  switch (below(5)) {
    case 0:
      add("activation_backward", {x, dy},
          {{"kind", choose<const char*>({"gelu", "silu", "tanh", "sigmoid", "softplus"})}});
      break;
    case 1:
      add("softmax_backward", {x, dy}, {{"axis", axis_of(entries_[x])}});
      break;
    case 2:
    case 3: {
      const bool is_rms = chance(50);
      add(is_rms ? "rms_norm_backward" : "layer_norm_backward",
          {x, input(dtype, {dims.back()}), dy}, {{"eps", 0.01}},
          1 + static_cast<size_t>(below(is_rms ? 2 : 3)));
      break;
    }
    default:
      Shape to = dims;
      for (Dim& size : to) size = chance(40) ? Dim(1) : size;
      if (chance(30)) to.erase(to.begin());
      add("reduce_to_shape", {x}, {{"shape", written(to)}});
  }
}

}  // namespace rlx::test
