// SPDX-License-Identifier: Apache-2.0
// Operators of the domain com.microsoft around products and convolutions: with an activation, with
// channels last, of quantised tensors.
#include "compiler/import/onnx/microsoft_fused.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "compiler/import/onnx/op_table.h"
#include "compiler/import/onnx/windows.h"

namespace rlx::onnx_import {

std::optional<ValueId> as_scalar(NodeReader& n, size_t i);  // quantize.cpp
// a * b of integers, exact in i32, without their zero points.
ValueId integer_product(NodeReader& n, ValueId a, ValueId b, std::optional<ValueId> za,
                        std::optional<ValueId> zb);   // quantize.cpp
void qlinear_conv(NodeReader& n, const OnnxOp& row);  // quantize.cpp
void max_pool(NodeReader& n, const OnnxOp& row);      // vision.cpp

namespace {

// ---- quantised tensors: input x, its scale behind it, its zero point behind that ----

// `axis`: of which each index may have a scale and zero point of its own.
ValueId reals_of(NodeReader& n, size_t x, std::optional<int64_t> axis = {}) {
  Attributes attributes = {{"to", std::string("f32")}};
  if (axis && n.rank(x + 1) == 1 && n.shape(x + 1)[0] != 1) attributes.emplace("axis", *axis);
  return n.emit("dequantize", {n.input(x), as_scalar(n, x + 1), as_scalar(n, x + 2)},
                std::move(attributes));
}

// The result, quantised by the scale and the zero point at these inputs to the type of `like`.
void set_quantized(NodeReader& n, ValueId y, size_t scale, size_t like) {
  const DType to = n.has_input(scale + 1) ? n.dtype(scale + 1) : n.dtype(like);
  n.set_output(0, n.emit("quantize", {y, as_scalar(n, scale), as_scalar(n, scale + 1)},
                         {{"to", std::string(name_of(to))}}));
}

ValueId channels_first(NodeReader& n, ValueId x) {
  Ints order(n.type(x).shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (order.size() > 2) std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return n.transpose(x, order);
}

ValueId channels_last(NodeReader& n, ValueId x) {
  Ints order(n.type(x).shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (order.size() > 2) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return n.transpose(x, order);
}

// What `translate` makes of the node with channels first, with channels last.
void with_channels_last(NodeReader& n, const OnnxOp& row,
                        void (*translate)(NodeReader&, const OnnxOp&)) {
  n.replace_input(0, channels_first(n, n.input(0)));
  translate(n, row);
  n.set_output(0, channels_last(n, n.outputs().front().value()));
}

// ---- activations behind a product ----

struct Activation {
  std::string_view op;
  // What its parameters are called here, in their order.
  std::vector<std::string> parameters = {};
};

ValueId activated(NodeReader& n, ValueId y, const std::string& name, const Floats& parameters) {
  static const std::map<std::string, Activation, std::less<>> kActivations = {
      {"Relu", {.op = "relu"}},
      {"Tanh", {.op = "tanh"}},
      {"Sigmoid", {.op = "sigmoid"}},
      {"LeakyRelu", {.op = "leaky_relu", .parameters = {"alpha"}}},
      {"Clip", {.op = "clamp", .parameters = {"min", "max"}}},
      {"HardSigmoid", {.op = "hard_sigmoid", .parameters = {"alpha", "beta"}}},
      {"Elu", {.op = "elu", .parameters = {"alpha"}}},
  };
  if (name.empty()) return y;
  const auto found = kActivations.find(name);
  if (found == kActivations.end()) n.refuse("the activation \"" + name + "\" is not supported");
  const Activation& activation = found->second;
  if (parameters.size() > activation.parameters.size())
    n.refuse("the activation " + name + " has " + std::to_string(parameters.size()) +
             " parameters, wanted " + std::to_string(activation.parameters.size()));
  Attributes attributes;
  for (size_t i = 0; i < parameters.size(); ++i)
    attributes.emplace(activation.parameters[i], parameters[i]);
  return n.emit(activation.op, {y}, std::move(attributes));
}

Ints spatial(const Shape& shape) {
  return shape.size() < 2 ? Ints() : Ints(shape.begin() + 2, shape.end());
}

ValueId gemm_of(NodeReader& n, ValueId a, ValueId b) {
  ValueId y =
      n.emit("matmul", {a, b},
             {{"trans_a", n.integer("transA", 0) != 0}, {"trans_b", n.integer("transB", 0) != 0}});
  const double alpha = n.real("alpha", 1);
  return alpha == 1 ? y : n.emit("affine", {y}, {{"mul", alpha}});
}

}  // namespace

void quantized_binary(NodeReader& n, const OnnxOp& row) {
  set_quantized(n, n.emit(row.target, {reals_of(n, 0), reals_of(n, 3)}), 6, 0);
}

void quantized_unary(NodeReader& n, const OnnxOp& row) {
  Attributes attributes;
  if (row.target == "leaky_relu") attributes.emplace("alpha", n.real("alpha", 0.01));
  set_quantized(n, n.emit(row.target, {reals_of(n, 0)}, std::move(attributes)), 3, 0);
}

void quantized_softmax(NodeReader& n, const OnnxOp&) {
  const int64_t rank = n.rank(0);
  const bool is_flat = n.required_integer("opset") < 13;
  const int64_t axis = n.axis(n.integer("axis", -1), rank);
  if (is_flat && axis != rank - 1)
    n.refuse("a softmax over several axes at once (opset below 13) is not supported");
  set_quantized(n, n.emit("softmax", {reals_of(n, 0)}, {{"axis", axis}}), 3, 0);
}

// Scale and zero point of the result, then tensor, scale and zero point of each part.
void quantized_concat(NodeReader& n, const OnnxOp&) {
  if (n.input_count() < 5 || (n.input_count() - 2) % 3 != 0)
    n.refuse("it has " + std::to_string(n.input_count()) +
             " inputs, wanted two and three for each part");
  Inputs parts;
  for (size_t i = 2; i < n.input_count(); i += 3) parts.emplace_back(reals_of(n, i));
  set_quantized(n, n.emit("concat", std::move(parts), {{"axis", n.required_integer("axis")}}), 0,
                2);
}

namespace {

void average_pool_of_quantized(NodeReader& n, const OnnxOp& row) {
  Attributes attributes = {{"kind", std::string("mean")}};
  if (row.target == "pool") {
    attributes.merge(attributes_of(read_windows(n, n.required_integers("kernel_shape"))));
    attributes.emplace("ceil_mode", n.integer("ceil_mode", 0) != 0);
    attributes.emplace("count_include_pad", n.integer("count_include_pad", 0) != 0);
  }
  set_quantized(n, n.emit(row.target, {reals_of(n, 0)}, std::move(attributes)), 3, 0);
}

// As the attribute channels_last says.
void in_either_layout(NodeReader& n, const OnnxOp& row,
                      void (*translate)(NodeReader&, const OnnxOp&)) {
  if (n.integer("channels_last", 0) != 0) return with_channels_last(n, row, translate);
  translate(n, row);
}

}  // namespace

void quantized_average_pool(NodeReader& n, const OnnxOp& row) {
  in_either_layout(n, row, average_pool_of_quantized);
}

void quantized_conv(NodeReader& n, const OnnxOp& row) {
  in_either_layout(n, row, qlinear_conv);
}

void nhwc_max_pool(NodeReader& n, const OnnxOp& row) {
  with_channels_last(n, row, max_pool);
}

void quantized_mean(NodeReader& n, const OnnxOp&) {
  Attributes attributes = {{"keep_dims", n.integer("keepdims", 1) != 0}};
  if (n.has("axes")) attributes.emplace("axes", n.integers("axes", {}));
  set_quantized(n, n.emit("reduce_mean", {reals_of(n, 0)}, std::move(attributes)), 3, 0);
}

void quantized_where(NodeReader& n, const OnnxOp&) {
  set_quantized(n, n.emit("where", {n.input(0), reals_of(n, 1), reals_of(n, 4)}), 7, 1);
}

// The bias is of the product's scale; without a scale of the result it is a float.
void quantized_gemm(NodeReader& n, const OnnxOp&) {
  enum : size_t { kA, kScaleA, kZeroA, kB, kScaleB, kZeroB, kBias, kScaleY };
  const ValueId a = reals_of(n, kA);
  const ValueId b = reals_of(n, kB, n.integer("transB", 0) != 0 ? 0 : 1);
  ValueId y = gemm_of(n, a, b);
  if (n.has_input(kBias)) {
    ValueId scale = n.emit("mul", {*as_scalar(n, kScaleA), *as_scalar(n, kScaleB)});
    const double alpha = n.real("alpha", 1);
    if (alpha != 1) scale = n.emit("affine", {scale}, {{"mul", alpha}});
    y = n.emit("add", {y, n.emit("mul", {n.cast(n.input(kBias), DType::f32), scale})});
  }
  if (!n.has_input(kScaleY)) {
    n.set_output(0, y);
    return;
  }
  set_quantized(n, y, kScaleY, kA);
}

// a is quantised to u8 by its own range first.
void dynamic_quantized_matmul(NodeReader& n, const OnnxOp&) {
  enum : size_t { kA, kB, kScaleB, kZeroB, kBias };
  const ValueId zero = n.scalar(DType::f32, 0);
  const ValueId low = n.emit("min", {n.emit("reduce_min", {n.input(kA)}), zero});
  const ValueId high = n.emit("max", {n.emit("reduce_max", {n.input(kA)}), zero});
  const ValueId scale = n.emit("div", {n.emit("sub", {high, low}), n.scalar(DType::f32, 255)});
  const ValueId place = n.emit("div", {n.emit("sub", {zero, low}), scale});
  const ValueId zero_point = n.cast(
      n.emit("round", {n.emit("clamp", {place}, {{"min", 0.0}, {"max", 255.0}})}), DType::u8);
  const ValueId a =
      n.emit("quantize", {n.input(kA), scale, zero_point}, {{"to", std::string("u8")}});
  const ValueId product = integer_product(n, a, n.input(kB), zero_point, n.optional_input(kZeroB));
  const ValueId factor = n.emit("mul", {scale, *as_scalar(n, kScaleB)});
  ValueId y = n.emit("mul", {n.cast(product, DType::f32), factor});
  if (n.has_input(kBias)) y = n.emit("add", {y, n.input(kBias)});
  n.set_output(0, y);
}

void matmul_integer_to_float(NodeReader& n, const OnnxOp&) {
  enum : size_t { kA, kB, kScaleA, kScaleB, kZeroA, kZeroB, kBias };
  const ValueId product = integer_product(n, n.input(kA), n.input(kB), n.optional_input(kZeroA),
                                          n.optional_input(kZeroB));
  const ValueId factor = n.emit("mul", {*as_scalar(n, kScaleA), *as_scalar(n, kScaleB)});
  ValueId y = n.emit("mul", {n.cast(product, DType::f32), factor});
  if (n.has_input(kBias)) y = n.emit("add", {y, n.input(kBias)});
  n.set_output(0, y);
}

// conv(x, w, bias) + z, then the activation.
void fused_conv(NodeReader& n, const OnnxOp&) {
  Attributes attributes = attributes_of(read_windows(n, spatial(n.shape(1))));
  attributes.emplace("groups", n.integer("group", 1));
  ValueId y = n.emit("conv", {n.input(0), n.input(1), n.optional_input(2)}, std::move(attributes));
  if (n.has_input(3)) y = n.emit("add", {y, n.input(3)});
  n.set_output(0, activated(n, y, n.text("activation", ""), n.reals("activation_params", {})));
}

// x and z [N, spatial, C], w [Co, kernel, C / groups].
void nhwc_conv(NodeReader& n, const OnnxOp& row) {
  for (const size_t i : {1, 3}) {
    if (n.has_input(i)) n.replace_input(i, channels_first(n, n.input(i)));
  }
  with_channels_last(n, row, fused_conv);
}

void fused_gemm(NodeReader& n, const OnnxOp&) {
  ValueId y = gemm_of(n, n.input(0), n.input(1));
  const double beta = n.real("beta", 1);
  if (n.has_input(2) && beta != 0) {
    const ValueId c = n.input(2);
    y = n.emit("add", {y, beta == 1 ? c : n.emit("affine", {c}, {{"mul", beta}})});
  }
  Floats parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (n.has(name)) parameters.push_back(n.real(name, 0));
  }
  n.set_output(0, activated(n, y, n.text("activation", ""), parameters));
}

// Of x [N, H, W, C], with a skip and a bias before it, SiLU behind it where it says so.
void channels_last_group_norm(NodeReader& n, const OnnxOp& row) {
  const bool is_last = n.integer("channels_last", 1) != 0;
  ValueId x = n.input(0);
  if (row.name == "SkipGroupNorm") {
    // One value per channel of an image: [N, C], or [N, 1, 1, C].
    const auto add = [&](size_t i) {
      ValueId other = n.input(i);
      const Shape shape = n.type(other).shape;
      const Shape all = n.type(x).shape;
      if (shape.size() == 2 && all.size() == 4)
        other = n.reshape(
            other, is_last ? Shape{shape[0], 1, 1, shape[1]} : Shape{shape[0], shape[1], 1, 1});
      x = n.emit("add", {x, other});
    };
    add(3);
    if (n.has_input(4)) x = n.emit("add", {x, n.input(4)});
    if (n.wants_output(1)) n.set_output(1, x);
  }
  const ValueId inner = is_last ? channels_first(n, x) : x;
  ValueId y =
      n.emit("group_norm", {inner, n.input(1), n.input(2)},
             {{"num_groups", n.required_integer("groups")}, {"eps", n.real("epsilon", 1e-5)}});
  const int64_t activation = n.required_integer("activation");
  if (activation != 0 && activation != 1)
    n.refuse("activation is " + std::to_string(activation) + ", wanted 0 or 1 (SiLU)");
  if (activation == 1) y = n.emit("silu", {y});
  n.set_output(0, is_last ? channels_last(n, y) : y);
}

// The first half of x + bias times the GELU of the second.
void bias_split_gelu(NodeReader& n, const OnnxOp&) {
  const ValueId sum = n.emit("add", {n.input(0), n.input(1)});
  const auto axis = static_cast<int64_t>(n.type(sum).shape.size()) - 1;
  const std::vector<ValueId> halves =
      n.emit_all("split", {sum}, {{"axis", axis}, {"num", int64_t{2}}}, 2);
  n.set_output(0, n.emit("mul", {halves[0], n.emit("gelu", {halves[1]})}));
}

void bias_add(NodeReader& n, const OnnxOp&) {
  n.set_output(0, n.emit("add", {n.emit("add", {n.input(0), n.input(1)}), n.input(2)}));
}

// Rows of (codes - zero point) * scale, which are the same along blocks of the last axis.
void gather_blocks(NodeReader& n, const OnnxOp&) {
  enum : size_t { kCodes, kRows, kScales, kZeros };
  const int64_t bits = n.integer("bits", 4);
  const int64_t block = n.integer("block_size", 128);
  const int64_t rank = n.rank(kCodes);
  const int64_t axis = n.axis(n.integer("quantize_axis", 1), rank);
  if (n.axis(n.integer("gather_axis", 0), rank) != 0 || axis != rank - 1)
    n.refuse("it wants gather_axis 0 and quantize_axis " + std::to_string(rank - 1));
  if (bits != 4 && bits != 8) n.refuse(std::to_string(bits) + " bits are not supported");
  const DType dtype = n.dtype(kScales);
  const auto rows = [&](size_t i) {
    return n.emit("gather", {n.input(i), n.input(kRows)}, {{"axis", int64_t{0}}});
  };
  // u8 holds two numbers of four bits, the low one first; int4 and uint4 were unpacked when read.
  const bool is_packed =
      n.dtype(kCodes) == DType::u8 && bits == 4 && n.builder().stand_in(n.input(kCodes)) == nullptr;
  const auto numbers = [&](ValueId bytes, const Dim& length) {
    if (!is_packed) return bytes;
    const ValueId low = n.emit("bitwise_and", {bytes, n.scalar(DType::u8, 15)});
    const ValueId high = n.emit("shift_right", {bytes, n.scalar(DType::u8, 4)});
    Shape shape = n.type(bytes).shape;
    const auto last = static_cast<int64_t>(shape.size());
    shape.back() = shape.back() * 2;
    const ValueId all = n.reshape(n.emit("stack", {low, high}, {{"axis", last}}), shape);
    return n.emit("narrow", {all},
                  {{"axis", last - 1}, {"start", int64_t{0}}, {"len", int64_t{length}}});
  };
  const Dim blocks = n.shape(kScales).back();
  const Dim length = is_packed ? n.shape(kCodes).back() * 2 : n.shape(kCodes).back();
  if (block < 1 || blocks != ceil_div(length, block))
    n.refuse_shapes("rows of " + to_string(length) + " numbers have " + to_string(blocks) +
                    " blocks of " + std::to_string(block));
  ValueId w = n.cast(numbers(rows(kCodes), length), dtype);
  // The last block may be shorter.
  const auto last = static_cast<int64_t>(n.type(w).shape.size()) - 1;
  Ints pads(2 * static_cast<size_t>(last + 1), 0);
  pads.back() = blocks * block - length;
  if (pads.back() != 0) w = n.emit("pad", {w}, {{"pads", pads}});
  Shape shape = n.type(w).shape;
  const Shape whole = shape;
  shape.back() = blocks;
  Shape column = shape;
  column.push_back(1);
  shape.push_back(block);
  w = n.reshape(w, shape);
  if (n.has_input(kZeros)) {
    w = n.emit("sub", {w, n.reshape(n.cast(numbers(rows(kZeros), blocks), dtype), column)});
  } else if (n.dtype(kCodes) == DType::u8) {
    w = n.emit("affine", {w}, {{"add", bits == 4 ? -8.0 : -128.0}});
  }
  w = n.emit("mul", {w, n.reshape(rows(kScales), column)});
  w = n.reshape(w, whole);
  if (pads.back() != 0)
    w = n.emit("narrow", {w}, {{"axis", last}, {"start", int64_t{0}}, {"len", length}});
  n.set_output(0, w);
}

}  // namespace rlx::onnx_import
