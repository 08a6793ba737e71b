// SPDX-License-Identifier: Apache-2.0
// Quantisation and integer products.
#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/import/onnx/op_table.h"
#include "compiler/import/onnx/stand_ins.h"
#include "compiler/import/onnx/windows.h"
#include "compiler/support/blocks.h"

namespace rlx::onnx_import {

// A scale or a zero point: of one element, a scalar. microsoft_fused.cpp reads them so too.
std::optional<ValueId> as_scalar(NodeReader& n, size_t i);
void quantize(NodeReader& n, const OnnxOp& row);
void dequantize(NodeReader& n, const OnnxOp& row);
void qlinear_conv(NodeReader& n, const OnnxOp& row);
// (a - za)(b - zb), exact in i32. za: one, or one for each row of a; zb: one, or one for each
// column of b.
ValueId integer_product(NodeReader& n, ValueId a, ValueId b, std::optional<ValueId> za,
                        std::optional<ValueId> zb);

namespace {

std::string text(DType dtype) {
  return std::string(name_of(dtype));
}

// One scale for all, or one per index along `axis`, or per block along it.
Attributes scale_axis(NodeReader& n) {
  const int64_t axis = n.integer("axis", 1);
  const int64_t block = n.integer("block_size", 0);
  Attributes attributes;
  if (n.rank(1) == 0 || (n.rank(1) == 1 && n.shape(1) == Shape{1} && block == 0)) return attributes;
  attributes.emplace("axis", n.axis(axis, n.rank(0)));
  if (block != 0) attributes.emplace("block_size", block);
  return attributes;
}

}  // namespace

std::optional<ValueId> as_scalar(NodeReader& n, size_t i) {
  if (!n.has_input(i)) return std::nullopt;
  return n.shape(i) == Shape{1} ? n.reshape(n.input(i), {}) : n.input(i);
}

namespace {

// Of codes that are floats only their type counts: they are 0, or -0.
std::optional<ValueId> zero_point(NodeReader& n) {
  if (!n.has_input(2) || !is_float8(n.dtype(2))) return as_scalar(n, 2);
  const auto& codes = n.known(2, "the zero points").integers;
  if (std::any_of(codes.begin(), codes.end(), [](int64_t code) { return (code & 0x7f) != 0; }))
    n.refuse("its zero points are of " + text(n.dtype(2)) + " and not 0",
             "add what they shift the values by behind the node");
  return std::nullopt;
}

}  // namespace

void quantize(NodeReader& n, const OnnxOp&) {
  const int64_t wanted = n.integer("output_dtype", 0);
  n.integer("saturate", 1);
  const StandIn* stand_in = n.has_input(2) ? n.builder().stand_in(n.input(2)) : stand_in_of(wanted);
  if (stand_in != nullptr && stand_in->most == 0)
    n.refuse("it makes " + std::string(stand_in->name) + ", which rlx has in constants alone");
  DType to = DType::u8;
  if (wanted != 0) to = stand_in != nullptr ? stand_in->dtype : dtype_of(wanted, "the result");
  if (n.has_input(2)) to = n.dtype(2);
  Attributes attributes = scale_axis(n);
  attributes.emplace("to", text(to));
  ValueId y =
      n.emit("quantize", {n.input(0), as_scalar(n, 1), zero_point(n)}, std::move(attributes));
  if (stand_in != nullptr) {
    y = n.emit("clamp", {y}, {{"min", stand_in->least}, {"max", stand_in->most}});
    n.builder().mark_stand_in(y, stand_in);
  }
  n.set_output(0, y);
}

void dequantize(NodeReader& n, const OnnxOp&) {
  const int64_t wanted = n.opset() >= 23 ? n.integer("output_dtype", 0) : 0;
  if (wanted == 0)
    refuse_stand_in(n.builder(), n.input(1), "the scale, whose type the result has,");
  Attributes attributes = scale_axis(n);
  attributes.emplace("to", text(wanted != 0 ? dtype_of(wanted, "the result") : n.dtype(1)));
  n.set_output(
      0, n.emit("dequantize", {n.input(0), as_scalar(n, 1), zero_point(n)}, std::move(attributes)));
}

namespace {

// scale = (max(x, 0) - min(x, 0)) / 255, zero point = saturate(round(-min / scale)), both of the
// whole tensor.
void dynamic_quantize(NodeReader& n, const OnnxOp&) {
  const ValueId zero = n.scalar(DType::f32, 0);
  const ValueId low = n.emit("min", {n.emit("reduce_min", {n.input(0)}), zero});
  const ValueId high = n.emit("max", {n.emit("reduce_max", {n.input(0)}), zero});
  const ValueId scale = n.emit("div", {n.emit("sub", {high, low}), n.scalar(DType::f32, 255)});
  const ValueId place = n.emit("div", {n.emit("sub", {zero, low}), scale});
  const ValueId zero_point = n.cast(
      n.emit("round", {n.emit("clamp", {place}, {{"min", 0.0}, {"max", 255.0}})}), DType::u8);
  n.set_output(0, n.emit("quantize", {n.input(0), scale, zero_point}, {{"to", text(DType::u8)}}));
  n.set_output(1, scale);
  n.set_output(2, zero_point);
}

// mult = x_scale * w_scale / y_scale in f32, one or one per output channel.
Floats multipliers(NodeReader& n, size_t x, size_t w, size_t y) {
  const auto x_scale = static_cast<float>(n.known_real(x, "the scale of a"));
  const auto y_scale = static_cast<float>(n.known_real(y, "the scale of the result"));
  Floats multipliers;
  for (const double w_scale : n.known_reals(w, "the scales of b"))
    multipliers.push_back(x_scale * static_cast<float>(w_scale) / y_scale);
  return multipliers;
}

// Inputs: a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point, [bias].
Attributes requantize(NodeReader& n) {
  refuse_stand_in(n.builder(), n.input(7), "the zero point of the result");
  return {{"x_zp", n.known_int(2, "the zero point of a")},
          {"w_zp", n.known_ints(5, "the zero points of b")},
          {"out_zp", n.known_int(7, "the zero point of the result")},
          {"mult", multipliers(n, 1, 4, 6)},
          {"out_dtype", text(n.dtype(7))}};
}

// a and b in i32 without their zero points, multiplied, then scaled, rounded and saturated: what
// qmatmul does for matrices, for batches of them.
void qlinear_batches(NodeReader& n) {
  const auto centre = [&](size_t x, size_t zero_point) {
    return n.emit("sub",
                  {n.cast(n.input(x), DType::f32), n.cast(*as_scalar(n, zero_point), DType::f32)});
  };
  const auto depth = static_cast<double>(n.shape(0).back());
  if (depth * 255 * 255 > 0x1p24)
    n.refuse("batches of products over more than 258 elements are not supported");
  // Products of 9-bit integers over so few elements are exact in f32.
  const ValueId product = n.emit("matmul", {centre(0, 2), centre(3, 5)});
  const Floats mult = multipliers(n, 1, 4, 6);
  const ValueId factor = n.constant_reals(
      DType::f32, mult.size() == 1 ? Shape{} : Shape{static_cast<int64_t>(mult.size())}, mult);
  refuse_stand_in(n.builder(), n.input(7), "the zero point of the result");
  const DType to = n.dtype(7);
  const ValueId rounded = n.emit("round", {n.emit("mul", {product, factor})});
  n.set_output(0, n.cast(n.emit("add", {rounded, n.cast(*as_scalar(n, 7), DType::f32)}), to));
}

void qlinear_matmul(NodeReader& n, const OnnxOp&) {
  if (n.rank(3) > 2) {
    qlinear_batches(n);
    return;
  }
  n.set_output(0, n.emit("qmatmul", {n.input(0), n.input(3)}, requantize(n)));
}

Ints window_of(NodeReader& n, size_t i) {
  return n.rank(i) < 2 ? Ints() : Ints(n.shape(i).begin() + 2, n.shape(i).end());
}

}  // namespace

void qlinear_conv(NodeReader& n, const OnnxOp&) {
  Attributes attributes = requantize(n);
  attributes.merge(attributes_of(read_windows(n, window_of(n, 3))));
  attributes.emplace("groups", n.integer("group", 1));
  n.set_output(
      0, n.emit("qconv2d", {n.input(0), n.input(3), n.optional_input(8)}, std::move(attributes)));
}

namespace {

// x - zero point, exact in i16; x itself where there is none.
ValueId centred(NodeReader& n, size_t x, size_t zero_point, Shape shape) {
  if (!n.has_input(zero_point)) return n.input(x);
  const Tensor* known = n.builder().known(n.input(zero_point));
  if (known != nullptr && std::all_of(known->integers.begin(), known->integers.end(),
                                      [](int64_t value) { return value == 0; }))
    return n.input(x);
  ValueId zero = n.cast(n.input(zero_point), DType::i16);
  if (!n.shape(zero_point).empty() && n.shape(zero_point) != Shape{1})
    zero = n.reshape(zero, std::move(shape));
  return n.emit("sub", {n.cast(n.input(x), DType::i16), zero});
}

void conv_integer(NodeReader& n, const OnnxOp&) {
  Attributes attributes = attributes_of(read_windows(n, window_of(n, 1)));
  attributes.emplace("groups", n.integer("group", 1));
  Shape per_channel(static_cast<size_t>(n.rank(1)), 1);
  if (!per_channel.empty()) per_channel.front() = -1;
  const ValueId x = centred(n, 0, 2, {});
  const ValueId w = centred(n, 1, 3, per_channel);
  n.set_output(0, n.emit("conv_integer", {x, w}, std::move(attributes)));
}

}  // namespace

// a b - za colsum(b) - zb rowsum(a) + K za zb
ValueId integer_product(NodeReader& n, ValueId a, ValueId b, std::optional<ValueId> za,
                        std::optional<ValueId> zb) {
  ValueId y = n.emit("matmul", {a, b});
  const auto wide = [&](std::optional<ValueId> zero) -> std::optional<ValueId> {
    if (!zero) return std::nullopt;
    const Tensor* known = n.builder().known(*zero);
    if (known != nullptr && std::all_of(known->integers.begin(), known->integers.end(),
                                        [](int64_t value) { return value == 0; }))
      return std::nullopt;
    return n.cast(*zero, DType::i32);
  };
  const auto sums = [&](ValueId x, int64_t axis) {
    return n.emit("reduce_sum", {n.cast(x, DType::i32)},
                  {{"axes", Ints{axis}}, {"keep_dims", true}});
  };
  if (n.type(a).shape.size() < 2 || n.type(b).shape.size() < 2)
    n.refuse("a vector as operand is not supported");
  za = wide(za);
  zb = wide(zb);
  // One zero point per row of a stands in a column.
  if (za && n.type(*za).shape.size() == 1 && n.type(*za).shape[0] != 1)
    za = n.reshape(*za, {n.type(*za).shape[0], 1});
  if (za) y = n.emit("sub", {y, n.emit("mul", {*za, sums(b, -2)})});
  if (zb) y = n.emit("sub", {y, n.emit("mul", {*zb, sums(a, -1)})});
  if (za && zb) {
    const ValueId depth = n.scalar(DType::i32, static_cast<double>(n.type(a).shape.back()));
    y = n.emit("add", {y, n.emit("mul", {n.emit("mul", {*za, *zb}), depth})});
  }
  return y;
}

namespace {

void matmul_integer(NodeReader& n, const OnnxOp&) {
  n.set_output(
      0, integer_product(n, n.input(0), n.input(1), n.optional_input(2), n.optional_input(3)));
}

constexpr std::array kQuantizeRows = {
    OnnxOp{"QuantizeLinear", quantize},
    OnnxOp{"DequantizeLinear", dequantize},
    OnnxOp{"DynamicQuantizeLinear", dynamic_quantize},
    OnnxOp{"QLinearMatMul", qlinear_matmul},
    OnnxOp{"QLinearConv", qlinear_conv},
    OnnxOp{"ConvInteger", conv_integer},
    OnnxOp{"MatMulInteger", matmul_integer},
};

}  // namespace

std::span<const OnnxOp> quantize_rows() {
  return kQuantizeRows;
}

}  // namespace rlx::onnx_import
