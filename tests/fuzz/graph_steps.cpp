// SPDX-License-Identifier: Apache-2.0
// The nodes of random graphs, kind by kind.
#include <algorithm>

#include "tests/fuzz/graph_generator.h"

namespace rlx::test {

void Generator::unary() {
  const Index x = any_float();
  if (chance(15)) {
    add("cast", {x}, {{"to", choose<const char*>({"f32", "f16", "bf16"})}});
  } else if (chance(15)) {
    add("clamp", {x}, {{"min", -0.5}, {"max", 1.25}});
  } else if (chance(15)) {
    add("affine", {x}, {{"mul", 0.75}, {"add", -0.5}});
  } else {
    add(choose<const char*>(
            {"neg",       "abs",         "relu",     "sigmoid",    "tanh",          "gelu",
             "gelu_tanh", "silu",        "softplus", "sin",        "cos",           "exp",
             "erf",       "square",      "softsign", "hard_swish", "leaky_relu",    "elu",
             "mish",      "log_sigmoid", "atan",     "identity",   "stop_gradient", "reciprocal",
             "sqrt",      "expm1"}),
        {x});
  }
}

void Generator::binary() {
  const Index a = any_float();
  const Index b = partner(a);
  const bool swapped = chance(30);
  add(choose<const char*>({"add", "add", "sub", "mul", "mul", "max", "min", "div", "prelu"}),
      {swapped ? b : a, swapped ? a : b});
}

void Generator::compare() {
  const Index a = any_exact(false);
  const Index b = partner(a);
  if (!entries_[b].known.exact) return;
  if (!add(choose<const char*>({"eq", "ne", "lt", "le", "gt", "ge"}), {a, b})) return;
  const Index condition = entries_.size() - 1;
  if (chance(30)) add("logical_not", {condition});
  if (chance(20)) add("cast", {condition}, {{"to", choose<const char*>({"f32", "i32", "f16"})}});
  const Shape target = entries_[condition].shape();
  const auto x = find([&](const Entry& e) {
    const auto both = broadcast_shapes(e.shape(), target);
    return e.known.plain.is_float() && both && element_count(*both) <= kLargestTensor;
  });
  if (x) add("where", {condition, *x, partner(*x)});
}

void Generator::integers() {
  const DType dtype =
      choose({DType::i32, DType::i64, DType::u8, DType::i8, DType::i16, DType::u32});
  const auto found = find([&](const Entry& e) { return e.dtype() == dtype; });
  const Index a = found ? *found : input(dtype, shape(0, 3));
  add(choose<const char*>({"add", "sub", "mul", "max", "min", "bitwise_and", "bitwise_xor",
                           "floor_div", "div", "mod", "shift_left", "shift_right"}),
      {a, partner(a)});
  if (chance(40)) {
    add("cast", {entries_.size() - 1}, {{"to", choose<const char*>({"f32", "i64", "u8", "bool"})}});
  }
}

void Generator::product() {
  const Index x = any_float(1);
  const Shape dims = entries_[x].shape();
  const DType dtype = entries_[x].dtype();
  const Dim n = dim();
  const bool transposed = chance(40);
  if (dims.size() >= 2 && chance(50)) {
    std::vector<std::optional<Index>> inputs = {
        x, input(dtype, transposed ? Shape{n, dims.back()} : Shape{dims.back(), n})};
    Shape y = dims;
    y.back() = n;
    if (chance(60)) inputs.emplace_back(input(dtype, {n}));
    if (inputs.size() == 3 && chance(40)) inputs.emplace_back(input(dtype, y));
    add("fused_matmul_bias_act", inputs,
        {{"trans_w", transposed},
         {"activation", choose<const char*>({"none", "relu", "gelu", "silu", "tanh"})}});
    return;
  }
  const bool a_transposed = dims.size() >= 2 && chance(25);
  const Dim k = a_transposed ? dims[dims.size() - 2] : dims.back();
  Shape other = transposed ? Shape{n, k} : Shape{k, n};
  if (dims.size() == 3 && chance(50)) other.insert(other.begin(), chance(50) ? dims[0] : Dim(1));
  add("matmul", {x, input(dtype, other)}, {{"trans_a", a_transposed}, {"trans_b", transposed}});
}

void Generator::row_op() {
  const Index x = any_float(1);
  const Json axis = axis_of(entries_[x]);
  const Shape dims = entries_[x].shape();
  if (chance(45)) {
    add(choose<const char*>({"softmax", "log_softmax", "l2_norm"}), {x}, {{"axis", axis}});
    return;
  }
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t first = axis.get<int64_t>() < 0 ? axis.get<int64_t>() + rank : axis.get<int64_t>();
  const Shape row(dims.begin() + first, dims.end());
  std::vector<std::optional<Index>> inputs = {x};
  if (chance(70)) inputs.emplace_back(input(entries_[x].dtype(), row));
  if (inputs.size() == 2 && chance(70)) inputs.emplace_back(input(entries_[x].dtype(), row));
  add(chance(50) ? "layer_norm" : "rms_norm", inputs, {{"axis", axis}, {"eps", 0.01}});
}

void Generator::reduction() {
  const Index x = any_float(1);
  Json attributes = {{"keep_dims", chance(50)}};
  if (!chance(15)) {
    Ints axes;
    for (size_t d = 0; d < entries_[x].shape().size(); ++d) {
      if (chance(50)) axes.push_back(static_cast<int64_t>(d));
    }
    attributes["axes"] = axes;
  }
  add(choose<const char*>({"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_l1",
                           "reduce_l2", "reduce_sum_square", "reduce_log_sum_exp", "variance"}),
      {x}, attributes);
}

void Generator::ordering() {
  if (chance(50)) {
    const Index x = any_float(1);
    add("cumsum", {x},
        {{"axis", axis_of(entries_[x])}, {"exclusive", chance(30)}, {"reverse", chance(30)}});
    return;
  }
  const Index x = any_exact(true);
  const Json axis = axis_of(entries_[x]);
  if (chance(50)) {
    add(chance(50) ? "argmax" : "argmin", {x}, {{"axis", axis}, {"keep_dims", chance(50)}});
  } else if (chance(50)) {
    const auto rank = static_cast<int64_t>(entries_[x].shape().size());
    const auto at = static_cast<size_t>((axis.get<int64_t>() + rank) % rank);
    const int64_t k = below(entries_[x].shape()[at] + 1);
    add("topk", {x}, {{"axis", axis}, {"k", k}, {"largest", chance(50)}}, 2);
  } else {
    add("sort", {x}, {{"axis", axis}, {"descending", chance(50)}}, 2);
  }
}

void Generator::signal() {
  const auto pairs = find([](const Entry& e) {
    return e.known.plain.is_float() && e.shape().size() >= 2 && e.shape().back() == 2;
  });
  Json attributes = {{"norm", "ortho"}, {"layout", "interleaved"}};
  if (chance(60)) attributes["n"] = 1 + below(70);
  if (pairs && chance(60)) {
    attributes["axis"] = below(static_cast<int64_t>(entries_[*pairs].shape().size()) - 1);
    if (chance(50)) {
      add("irfft", {*pairs}, attributes);
    } else {
      attributes["inverse"] = chance(50);
      add("fft", {*pairs}, attributes);
    }
    return;
  }
  const Index x = any_float(1);
  attributes["axis"] = axis_of(entries_[x]);
  attributes["onesided"] = chance(70);
  add("rfft", {x}, attributes);
}

void Generator::complex_numbers() {
  const auto found = find([](const Entry& e) { return e.dtype() == DType::c64; });
  if (!found || chance(15)) {
    const auto real = find([](const Entry& e) { return e.dtype() == DType::f32; });
    if (real && chance(50)) {
      add("complex", {*real, partner(*real)});
    } else {
      input(DType::c64, shape(0, 3));
    }
    return;
  }
  const Index z = *found;
  const Shape dims = entries_[z].shape();
  const auto rank = static_cast<int64_t>(dims.size());
  switch (below(rank == 0 ? 3 : 6)) {
    case 0:
      add(choose<const char*>({"add", "sub", "mul", "mul", "div"}), {z, partner(z)});
      break;
    case 1:
      add(choose<const char*>({"real", "imag", "abs", "complex_norm_sq", "angle"}), {z});
      break;
    case 2:
      // Both have a cut, where an error of rounding is a jump.
      add(entries_[z].known.exact && chance(40) ? choose<const char*>({"log", "sqrt"})
                                                : choose<const char*>({"neg", "exp", "conjugate"}),
          {z});
      break;
    case 3: {
      Ints axes;
      for (int64_t axis = 0; axis < rank; ++axis) {
        if (chance(60)) axes.push_back(axis);
      }
      add(chance(50) ? "reduce_sum" : "reduce_mean", {z},
          {{"axes", axes}, {"keep_dims", chance(50)}});
      break;
    }
    case 4: {
      const bool transposed = chance(40);
      const Dim n = dim();
      add("matmul",
          {z, input(DType::c64, transposed ? Shape{n, dims.back()} : Shape{dims.back(), n})},
          {{"trans_b", transposed}});
      break;
    }
    default: {
      Json attributes = {{"axis", axis_of(entries_[z])}, {"norm", "ortho"}};
      if (chance(60)) attributes["n"] = 1 + below(70);
      add(chance(70) ? "fft" : "irfft", {z}, attributes);
    }
  }
}

void Generator::movement() {
  const auto found = find([](const Entry& e) { return !e.shape().empty(); });
  const Index x = found ? *found : input(float_dtype(), shape(1, 4));
  const Shape dims = entries_[x].shape();
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t axis = below(rank);
  const int64_t size = dims[static_cast<size_t>(axis)];
  if (chance_of_symbol(10)) return resizing(x);
  switch (below(14)) {
    case 0: {
      Ints perm(dims.size());
      for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
      std::shuffle(perm.begin(), perm.end(), random_);
      add("transpose", {x}, {{"perm", perm}});
      break;
    }
    case 1: {
      Ints to = {-1};
      if (element_count(dims) == 0) to = {0, 3};
      for (const int64_t d : {2, 3, 4}) {
        if (element_count(dims) > 0 && element_count(dims) % d == 0 && chance(50)) to = {d, -1};
      }
      add("reshape", {x}, {{"shape", to}});
      break;
    }
    case 2:
    case 3: {
      const bool back = chance(30);
      const int64_t a = below(size + 3) - 1;
      const int64_t b = below(size + 3) - 1;
      add("slice", {x},
          {{"axes", Ints{axis}},
           {"starts", Ints{back ? std::max(a, b) : std::min(a, b)}},
           {"ends", Ints{back ? std::min(a, b) : std::max(a, b)}},
           {"steps", Ints{(back ? -1 : 1) * (1 + below(3))}}});
      break;
    }
    case 4:
      add("reverse", {x}, {{"axes", Ints{axis}}});
      break;
    case 5:
      add("unsqueeze", {x}, {{"axes", Ints{below(rank + 1)}}});
      break;
    case 6:
      add("flatten", {x}, {{"axis", axis}});
      break;
    case 7: {
      Ints to = dims;
      for (Dim& d : to) d = d == 1 && chance(60) ? Dim(1 + below(4)) : d;
      if (chance(30)) to.insert(to.begin(), 1 + below(3));
      add("expand", {x}, {{"shape", to}});
      break;
    }
    case 8: {
      Ints pads(2 * dims.size());
      for (Dim& pad : pads) pad = below(4) - 1;
      add("pad", {x},
          {{"pads", pads}, {"mode", choose<const char*>({"constant", "reflect", "edge", "wrap"})}});
      break;
    }
    case 9:
      add("split", {x}, {{"axis", axis}, {"num", 2}}, 2);
      break;
    case 10: {
      Ints repeats(dims.size());
      for (Dim& r : repeats) r = 1 + below(2);
      add("tile", {x}, {{"repeats", repeats}});
      break;
    }
    case 11:
      add("roll", {x}, {{"shifts", Ints{below(9) - 4}}, {"axes", Ints{axis}}});
      break;
    case 12:
      add("repeat_interleave", {x}, {{"axis", axis}, {"repeats", 1 + below(3)}});
      break;
    default:
      add("trilu", {x}, {{"upper", chance(50)}, {"k", below(5) - 2}});
  }
}

// Movements whose attributes hold symbols.
void Generator::resizing(Index x) {
  Ints sizes = written(entries_[x].shape());
  const auto axis = below(static_cast<int64_t>(sizes.size()));
  const auto at = sizes.begin() + axis;
  switch (below(4)) {
    case 0:
      if (axis > 0) *at *= *(at - 1);
      if (axis > 0) sizes.erase(at - 1);
      add("reshape", {x}, {{"shape", sizes}});
      break;
    case 1:
      sizes.insert(at, 1 + below(2));
      *(sizes.begin() + axis + 1) = -1;
      add("reshape", {x}, {{"shape", sizes}});
      break;
    case 2:
      add("slice", {x},
          {{"axes", Ints{axis}},
           {"starts", Ints{below(2)}},
           {"ends", Ints{chance(50) ? *at - below(2) : symbol()}},
           {"steps", Ints{1 + below(2)}}});
      break;
    default:
      sizes.insert(sizes.begin(), symbol());
      add("expand", {x}, {{"shape", sizes}});
  }
}

void Generator::joining() {
  const auto found = find([](const Entry& e) { return !e.shape().empty(); });
  if (!found) return;
  const Index x = *found;
  const Shape dims = entries_[x].shape();
  const DType dtype = entries_[x].dtype();
  const int64_t axis = below(static_cast<int64_t>(dims.size()));
  std::vector<std::optional<Index>> parts = {x};
  for (int64_t extra = 1 + below(3); extra > 0; --extra) {
    const auto like = find([&](const Entry& e) { return e.dtype() == dtype && e.shape() == dims; });
    Shape other = dims;
    other[static_cast<size_t>(axis)] = chance_of_symbol(30) ? symbol() : Dim(below(4));
    parts.emplace_back(like && chance(60) ? *like : input(dtype, other));
  }
  std::shuffle(parts.begin(), parts.end(), random_);
  add("concat", parts, {{"axis", axis}});
}

void Generator::indexing() {
  const auto found = find([](const Entry& e) { return !e.shape().empty(); });
  if (!found) return;
  const Index x = *found;
  const Shape dims = entries_[x].shape();
  const DType dtype = choose({DType::i32, DType::i64});
  const Json axis = axis_of(entries_[x]);
  const char* oob = chance(50) ? "clamp" : "zero";
  switch (below(3)) {
    case 0:
      add("gather", {x, input(dtype, shape(0, 2))}, {{"axis", axis}, {"oob", oob}});
      break;
    case 1: {
      Shape index = dims;
      for (Dim& size : index) size = chance(50) ? size : Dim(below(size + 1));
      add("gather_elements", {x, input(dtype, index)}, {{"axis", axis}, {"oob", oob}});
      break;
    }
    default:
      add("gather_nd",
          {x, input(dtype, {1 + below(5), 1 + below(static_cast<int64_t>(dims.size()))})},
          {{"oob", oob}});
  }
}

void Generator::scatter() {
  const Index x = any_float(1);
  const Shape dims = entries_[x].shape();
  const DType dtype = entries_[x].dtype();
  const char* reduction = choose<const char*>({"none", "add", "max", "min"});
  if (chance(50)) {
    Shape index = dims;
    for (Dim& size : index) size = chance(50) ? size : Dim(below(size + 1));
    add("scatter_elements", {x, input(DType::i32, index), input(dtype, index)},
        {{"axis", axis_of(entries_[x])}, {"reduction", reduction}});
    return;
  }
  const int64_t updates = 1 + below(6);
  Shape rows(dims.begin() + 1, dims.end());
  rows.insert(rows.begin(), updates);
  add("scatter_nd", {x, input(DType::i64, {updates, 1}), input(dtype, rows)},
      {{"reduction", reduction}});
}

void Generator::vision() {
  const auto found = find([](const Entry& e) {
    return e.known.plain.is_float() && e.shape().size() == 4 && element_count(e.shape()) > 0;
  });
  const DType dtype = float_dtype();
  const Index x =
      found && chance(70)
          ? *found
          : input(dtype, {1 + below(2), choose<int64_t>({1, 2, 3, 4, 8, 16}), extent(), extent()});
  const Dim channels = entries_[x].shape()[1];
  const int64_t kernel = 1 + below(3);
  const Ints pads = {below(2), below(2), below(2), below(2)};
  const Json window = {{"stride", Ints{1 + below(2), 1 + below(2)}}, {"pads", pads}};
  switch (below(6)) {
    case 0:
    case 1: {
      const int64_t groups = chance(70) ? 1 : channels.bound();
      const int64_t out = groups * (1 + below(5));
      Json attributes = window;
      attributes["groups"] = groups;
      if (chance(30)) attributes["activation"] = "relu";
      std::vector<std::optional<Index>> inputs = {
          x, input(entries_[x].dtype(), {out, channels / groups, kernel, kernel})};
      if (chance(50)) inputs.emplace_back(input(entries_[x].dtype(), {out}));
      add("conv", inputs, attributes);
      break;
    }
    case 2: {
      Json attributes = window;
      attributes["kind"] = choose<const char*>({"max", "mean", "sum", "min"});
      attributes["kernel"] = Ints{2, 2};
      attributes["ceil_mode"] = chance(50);
      attributes["count_include_pad"] = chance(50);
      add("pool", {x}, attributes);
      break;
    }
    case 3:
      add("conv_transpose",
          {x, input(entries_[x].dtype(), {channels, 1 + below(4), kernel, kernel})},
          {{"stride", Ints{1 + below(2), 1 + below(2)}}});
      break;
    case 4:
      add("resize", {x},
          {{"mode", choose<const char*>({"nearest", "linear", "cubic"})},
           {"sizes", Ints{1 + below(12), 1 + below(12)}}});
      break;
    default:
      add("global_pool", {x}, {{"kind", chance(50) ? "mean" : "max"}});
  }
}

void Generator::attention() {
  const DType dtype = float_dtype();
  const int64_t groups = 1 + below(2);
  const int64_t heads = groups * (1 + below(2));
  const int64_t width = choose<int64_t>({4, 8, 16, 25, 32});
  const Dim queries = chance_of_symbol(50) ? symbol() : Dim(1 + below(6));
  const Dim keys = queries + (chance_of_symbol(30) ? symbol() : Dim(below(5)));
  const Dim batch = chance_of_symbol(30) ? symbol() : Dim(1 + below(2));
  const auto found = find([&](const Entry& e) {
    return e.known.plain.is_float() && e.shape() == Shape{batch, queries, heads, width};
  });
  const Index q = found ? *found : input(dtype, {batch, queries, heads, width});
  const DType own = entries_[q].dtype();
  const Index k = input(own, {batch, keys, groups, width});
  std::vector<std::optional<Index>> inputs = {
      q, k, chance(20) ? k : input(own, {batch, keys, groups, width})};
  if (chance(25)) {
    inputs.resize(7);
    inputs.emplace_back(input(DType::f32, {heads}));
  }
  add("attention", inputs,
      {{"num_heads", heads},
       {"num_kv_heads", groups},
       {"head_dim", width},
       {"causal", chance(50)},
       {"softcap", chance(25) ? 5.0 : 0.0},
       {"window_left", chance(25) ? 2 : -1}});
}

void Generator::norm_of_channels() {
  const auto found = find([](const Entry& e) {
    return e.known.plain.is_float() && e.shape().size() >= 3 && element_count(e.shape()) > 0;
  });
  const Index x = found ? *found : input(float_dtype(), {2, 4, 5, 3});
  const int64_t channels = entries_[x].shape()[1];
  const DType dtype = entries_[x].dtype();
  const int64_t groups = channels % 2 == 0 ? 2 : 1;
  add("group_norm", {x, input(dtype, {channels}), input(dtype, {channels})},
      {{"num_groups", groups}, {"eps", 0.01}});
}

}  // namespace rlx::test
