// SPDX-License-Identifier: Apache-2.0
// Elementwise operators of ONNX.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "compiler/import/onnx/op_table.h"
#include "compiler/import/onnx/stand_ins.h"

namespace rlx::onnx_import {
namespace {

void unary(NodeReader& n, const OnnxOp& row) {
  n.set_output(0, n.emit(row.target, {n.input(0)}));
}

// A unary operator with float attributes of the same names in rlx; defaults are ONNX's.
struct RealAttribute {
  std::string_view name;
  double absent;
};
void with_reals(NodeReader& n, const OnnxOp& row, std::initializer_list<RealAttribute> list) {
  Attributes attributes;
  for (const RealAttribute& item : list)
    attributes.emplace(item.name, n.real(item.name, item.absent));
  n.set_output(0, n.emit(row.target, {n.input(0)}, std::move(attributes)));
}

void with_alpha_hundredth(NodeReader& n, const OnnxOp& row) {
  with_reals(n, row, {{"alpha", 0.01}});
}
void with_alpha_one(NodeReader& n, const OnnxOp& row) {
  with_reals(n, row, {{"alpha", 1.0}});
}
void selu(NodeReader& n, const OnnxOp& row) {
  with_reals(n, row, {{"alpha", 1.6732632423543772}, {"gamma", 1.0507009873554805}});
}
void hard_sigmoid(NodeReader& n, const OnnxOp& row) {
  with_reals(n, row, {{"alpha", 0.2}, {"beta", 0.5}});
}
void shrink(NodeReader& n, const OnnxOp& row) {
  with_reals(n, row, {{"bias", 0.0}, {"lambd", 0.5}});
}

void gelu(NodeReader& n, const OnnxOp&) {
  const std::string form = n.text("approximate", "none");
  if (form != "none" && form != "tanh") n.refuse("the approximation \"" + form + "\" is unknown");
  n.set_output(0, n.emit(form == "tanh" ? "gelu_tanh" : "gelu", {n.input(0)}));
}

void is_inf(NodeReader& n, const OnnxOp&) {
  n.set_output(0, n.emit("is_inf", {n.input(0)},
                         {{"detect_negative", n.integer("detect_negative", 1) != 0},
                          {"detect_positive", n.integer("detect_positive", 1) != 0}}));
}

// Opset 6: b is laid against a from `axis` on, unless it has a's shape already.
ValueId legacy_broadcast(NodeReader& n) {
  const bool broadcasts = n.integer("broadcast", 0) != 0;
  const int64_t rank = n.rank(0);
  const int64_t axis = n.integer("axis", -1);
  if (!broadcasts || !n.has("axis")) return n.input(1);
  Shape shape = n.shape(1);
  const int64_t first = n.axis(axis, std::max<int64_t>(rank, 1));
  const int64_t behind = rank - first - static_cast<int64_t>(shape.size());
  if (behind < 0)
    n.refuse_shapes("the second input does not fit behind axis " + std::to_string(axis));
  shape.insert(shape.end(), static_cast<size_t>(behind), 1);
  return n.reshape(n.input(1), shape);
}

void binary(NodeReader& n, const OnnxOp& row) {
  const ValueId b = n.opset() < 7 ? legacy_broadcast(n) : n.input(1);
  n.set_output(0, n.emit(row.target, {n.input(0), b}));
}

// The result has the type of the base; the power is computed in the float type where one is.
void pow(NodeReader& n, const OnnxOp&) {
  const DType result = n.dtype(0);
  const DType exponent = n.dtype(1);
  DType common = result;
  if (!is_float(result) && is_float(exponent)) common = exponent;
  const ValueId b = n.opset() < 7 ? legacy_broadcast(n) : n.input(1);
  ValueId power = b;
  if (common != exponent) {
    power = n.emit("cast", {b}, {{"to", std::string(name_of(common))}});
  }
  n.set_output(0, n.cast(n.emit("pow", {n.cast(n.input(0), common), power}), result));
}

void mod(NodeReader& n, const OnnxOp&) {
  const bool keeps_sign = n.integer("fmod", 0) != 0;
  if (!keeps_sign && is_float(n.dtype(0)) && n.opset() < 28)
    n.refuse("floats need the attribute fmod = 1 before opset 28");
  n.set_output(0, n.emit(keeps_sign ? "fmod" : "mod", {n.input(0), n.input(1)}));
}

// Of an unsigned number that an i64 has the bits of: without its sign after the first place.
ValueId logical_shift_right(NodeReader& n, const StandIn& type) {
  const auto number = [&](int64_t value) { return n.constant_ints(DType::i64, {}, {value}); };
  const auto bits_of = [&](size_t i) {
    return n.emit("cast", {n.input(i)}, {{"to", std::string("i64")}});
  };
  const ValueId x = bits_of(0);
  const ValueId places = bits_of(1);
  const ValueId halved = n.emit("bitwise_and", {n.emit("shift_right", {x, number(1)}),
                                                number(std::numeric_limits<int64_t>::max())});
  const ValueId rest = n.emit("shift_right", {halved, n.emit("sub", {places, number(1)})});
  const ValueId y = n.emit("where", {n.emit("eq", {places, number(0)}), x, rest});
  n.builder().mark_stand_in(y, &type);
  return y;
}

void bit_shift(NodeReader& n, const OnnxOp&) {
  const std::string direction = n.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    n.refuse("the direction is \"" + direction + "\", wanted LEFT or RIGHT");
  const StandIn* type = n.builder().stand_in(n.input(0));
  if (type != n.builder().stand_in(n.input(1)) && type != nullptr && type->is_bits)
    n.refuse("it shifts " + std::string(type->name) + " by another type");
  if (type != nullptr && type->is_bits && direction == "RIGHT")
    return n.set_output(0, logical_shift_right(n, *type));
  n.set_output(
      0, n.emit(direction == "LEFT" ? "shift_left" : "shift_right", {n.input(0), n.input(1)}));
}

void swiglu(NodeReader& n, const OnnxOp&) {
  const ValueId gate = n.emit("swish", {n.input(0)}, {{"alpha", n.real("alpha", 1)}});
  n.set_output(0, n.emit("mul", {gate, n.input(1)}));
}

// Any number of inputs, from the left.
ValueId fold_left(NodeReader& n, std::string_view op) {
  ValueId result = n.input(0);
  for (size_t i = 1; i < n.input_count(); ++i) result = n.emit(op, {result, n.input(i)});
  return result;
}

void variadic(NodeReader& n, const OnnxOp& row) {
  const ValueId result = fold_left(n, row.target);
  n.set_output(0, n.input_count() == 1 ? n.emit("identity", {result}) : result);
}

void mean(NodeReader& n, const OnnxOp&) {
  const ValueId sum = fold_left(n, "add");
  const auto count = static_cast<double>(n.input_count());
  n.set_output(0, n.emit("div", {sum, n.scalar(n.type(sum).dtype, count)}));
}

void where(NodeReader& n, const OnnxOp&) {
  n.set_output(0, n.emit("where", {n.input(0), n.input(1), n.input(2)}));
}

void clip(NodeReader& n, const OnnxOp&) {
  if (n.opset() >= 11) {
    n.set_output(0, n.emit("clamp", {n.input(0), n.optional_input(1), n.optional_input(2)}));
    return;
  }
  Attributes bounds;
  if (n.has("min")) bounds.emplace("min", n.real("min", 0));
  if (n.has("max")) bounds.emplace("max", n.real("max", 0));
  n.set_output(0, n.emit("clamp", {n.input(0)}, std::move(bounds)));
}

// Integers keep their low bits; what leaves an 8-bit float's range saturates unless the node says
// otherwise.
void cast_to(NodeReader& n, DType to) {
  const bool saturates = n.integer("saturate", 1) != 0;
  n.text("round_mode", "up");  // of a type that rlx does not have
  Attributes attributes = {{"to", std::string(name_of(to))}};
  const bool is_narrow_float = to == DType::f8e4m3 || to == DType::f8e5m2;
  if (is_narrow_float ? !saturates : !is_float(n.dtype(0)))
    attributes.emplace("overflow", std::string("wrap"));
  n.set_output(0, n.emit("cast", {n.input(0)}, std::move(attributes)));
}

// Integers to the bits of a type.
void cast_to_bits(NodeReader& n, const StandIn& type) {
  n.integer("saturate", 1);
  n.text("round_mode", "up");
  if (!has_bits(n.dtype(0)))
    n.refuse("it casts " + std::string(name_of(n.dtype(0))) + " to " + std::string(type.name) +
             ", of which rlx has the bits alone");
  const ValueId y = n.emit("cast", {n.input(0)}, {{"to", std::string(name_of(type.dtype))}});
  n.builder().mark_stand_in(y, &type);
  n.set_output(0, y);
}

void cast(NodeReader& n, const OnnxOp&) {
  const int64_t to = n.required_integer("to");
  const StandIn* type = stand_in_of(to);
  if (type != nullptr && type->is_bits) return cast_to_bits(n, *type);
  cast_to(n, dtype_of(to, "the result"));
}

void cast_like(NodeReader& n, const OnnxOp&) {
  refuse_stand_in(n.builder(), n.input(1), "input 1");
  cast_to(n, n.dtype(1));
}

void bit_cast(NodeReader& n, const OnnxOp&) {
  refuse_stand_in(n.builder(), n.input(0), "input 0");
  const DType to = dtype_of(n.required_integer("to"), "the result");
  n.set_output(0, n.emit("bitcast", {n.input(0)}, {{"to", std::string(name_of(to))}}));
}

// Opset 6 and older slopes lie along the channels.
void prelu(NodeReader& n, const OnnxOp&) {
  ValueId slope = n.input(1);
  const int64_t rank = n.rank(0);
  if (n.opset() < 7 && n.rank(1) == 1 && rank > 2) {
    Shape shape(static_cast<size_t>(rank) - 1, 1);
    shape.front() = n.shape(1).front();
    slope = n.reshape(slope, shape);
  }
  n.set_output(0, n.emit("prelu", {n.input(0), slope}));
}

// Training drops what the session's seed draws, or the file's.
void training_dropout(NodeReader& n, double ratio) {
  Attributes attributes{{"p", ratio}, {"training", true}};
  if (n.has("seed")) attributes["seed"] = n.integer("seed", 0);
  const std::vector<ValueId> results =
      n.emit_all("dropout", {n.input(0)}, std::move(attributes), 2);
  n.set_output(0, results[0]);
  if (n.wants_output(1)) n.set_output(1, results[1]);
}

// Inference passes its input through; a mask of it is all ones.
void dropout(NodeReader& n, const OnnxOp&) {
  if (n.opset() >= 12) {
    const bool trains = n.has_input(2) && n.known_int(2, "the training mode") != 0;
    const double ratio = n.has_input(1) && trains ? n.known_real(1, "the ratio") : 0.5;
    if (trains && ratio != 0) {
      training_dropout(n, ratio);
      return;
    }
    n.integer("seed", 0);
  } else {
    n.real("ratio", 0.5);
    if (n.opset() < 7 && n.integer("is_test", 0) == 0)
      n.refuse("it trains, which needs random numbers at run time");
  }
  const ValueId x = n.input(0);
  n.set_output(0, n.emit("identity", {x}));
  if (!n.wants_output(1)) return;
  const DType mask = n.opset() >= 10 ? DType::bool_ : n.type(x).dtype;
  const Shape shape = n.type(x).shape;
  n.set_output(1, n.emit("fill", {},
                         {{"shape", Ints(shape.begin(), shape.end())},
                          {"value", 1.0},
                          {"dtype", std::string(name_of(mask))}}));
}

constexpr std::array kElementwiseRows = {
    OnnxOp{"Abs", unary, "abs"},
    OnnxOp{"Acos", unary, "acos"},
    OnnxOp{"Acosh", unary, "acosh"},
    OnnxOp{"Asin", unary, "asin"},
    OnnxOp{"Asinh", unary, "asinh"},
    OnnxOp{"Atan", unary, "atan"},
    OnnxOp{"Atanh", unary, "atanh"},
    OnnxOp{"BitwiseNot", unary, "bitwise_not"},
    OnnxOp{"Ceil", unary, "ceil"},
    OnnxOp{"Cos", unary, "cos"},
    OnnxOp{"Cosh", unary, "cosh"},
    OnnxOp{"Erf", unary, "erf"},
    OnnxOp{"Exp", unary, "exp"},
    OnnxOp{"Floor", unary, "floor"},
    OnnxOp{"HardSwish", unary, "hard_swish"},
    OnnxOp{"IsNaN", unary, "is_nan"},
    OnnxOp{"Log", unary, "log"},
    OnnxOp{"Mish", unary, "mish"},
    OnnxOp{"Neg", unary, "neg"},
    OnnxOp{"Not", unary, "logical_not"},
    OnnxOp{"Reciprocal", unary, "reciprocal"},
    OnnxOp{"Relu", unary, "relu"},
    OnnxOp{"Round", unary, "round"},
    OnnxOp{"Sigmoid", unary, "sigmoid"},
    OnnxOp{"Sign", unary, "sign"},
    OnnxOp{"Sin", unary, "sin"},
    OnnxOp{"Sinh", unary, "sinh"},
    OnnxOp{"Softplus", unary, "softplus"},
    OnnxOp{"Softsign", unary, "softsign"},
    OnnxOp{"Sqrt", unary, "sqrt"},
    OnnxOp{"Tan", unary, "tan"},
    OnnxOp{"Tanh", unary, "tanh"},
    OnnxOp{"LeakyRelu", with_alpha_hundredth, "leaky_relu"},
    OnnxOp{"Elu", with_alpha_one, "elu"},
    OnnxOp{"Celu", with_alpha_one, "celu"},
    OnnxOp{"ThresholdedRelu", with_alpha_one, "thresholded_relu"},
    OnnxOp{"Swish", with_alpha_one, "swish"},
    OnnxOp{"Selu", selu, "selu"},
    OnnxOp{"HardSigmoid", hard_sigmoid, "hard_sigmoid"},
    OnnxOp{"Shrink", shrink, "shrink"},
    OnnxOp{"Gelu", gelu},
    OnnxOp{"SwiGLU", swiglu},
    OnnxOp{"IsInf", is_inf},
    OnnxOp{"Add", binary, "add"},
    OnnxOp{"Sub", binary, "sub"},
    OnnxOp{"Mul", binary, "mul"},
    OnnxOp{"Div", binary, "div"},
    OnnxOp{"And", binary, "logical_and"},
    OnnxOp{"Or", binary, "logical_or"},
    OnnxOp{"Xor", binary, "logical_xor"},
    OnnxOp{"Equal", binary, "eq"},
    OnnxOp{"Greater", binary, "gt"},
    OnnxOp{"GreaterOrEqual", binary, "ge"},
    OnnxOp{"Less", binary, "lt"},
    OnnxOp{"LessOrEqual", binary, "le"},
    OnnxOp{"BitwiseAnd", binary, "bitwise_and"},
    OnnxOp{"BitwiseOr", binary, "bitwise_or"},
    OnnxOp{"BitwiseXor", binary, "bitwise_xor"},
    OnnxOp{"Pow", pow},
    OnnxOp{"Mod", mod},
    OnnxOp{"BitShift", bit_shift},
    OnnxOp{"Max", variadic, "max"},
    OnnxOp{"Min", variadic, "min"},
    OnnxOp{"Sum", variadic, "add"},
    OnnxOp{"Mean", mean},
    OnnxOp{"Where", where},
    OnnxOp{"Clip", clip},
    OnnxOp{"Cast", cast},
    OnnxOp{"CastLike", cast_like},
    OnnxOp{"BitCast", bit_cast},
    OnnxOp{"PRelu", prelu},
    OnnxOp{"Dropout", dropout},
};

}  // namespace

std::span<const OnnxOp> elementwise_rows() {
  return kElementwiseRows;
}

}  // namespace rlx::onnx_import
