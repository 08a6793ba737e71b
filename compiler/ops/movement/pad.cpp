// SPDX-License-Identifier: Apache-2.0
// pad and roll (ops.md 6): copies whose source coordinate follows from that of the result. pad:
// constant, reflect, edge and wrap; negative pads crop first, and pads that only crop are views.
#include <algorithm>
#include <bit>
#include <cstring>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/support/check.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

struct AxisPad {
  Dim crop_begin = 0;  // taken off the input
  Dim size = 0;        // what is left of the axis
  Dim before = 0;      // added, >= 0
  Dim after = 0;
};

// The part of a pad that adds; a free one must add or crop at every size.
Dim added_by(const Dim& pad) {
  const bool may_be_both = pad.range().least < 0 && pad.range().most > 0;
  if (may_be_both) return std::max<int64_t>(static_cast<int64_t>(pad), 0);
  return pad.range().least >= 0 ? pad : Dim(0);
}

std::optional<Ints> padded_axes(NodeContext& ctx, size_t rank) {
  if (ctx.attrs().has("axes")) return ctx.axes(ctx.attrs().integers("axes"), rank);
  Ints axes;
  for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

bool check_reach(NodeContext& ctx, const std::string& mode, int64_t axis, const AxisPad& pad) {
  const int64_t widest = std::max(pad.before.range().most, pad.after.range().most);
  if (mode == "constant" || widest == 0) return true;
  const int64_t least = pad.size.range().least;
  const int64_t limit = mode == "reflect" ? least - 1 : least;
  const bool reachable = mode == "edge" ? least > 0 : widest <= limit;
  if (reachable) return true;
  return ctx.fail(DiagCode::BadShape, mode + " pad of " + std::to_string(widest) + " on axis " +
                                          std::to_string(axis) + " reaches beyond its " +
                                          to_string(pad.size) + " elements");
}

std::optional<std::vector<AxisPad>> axis_pads(NodeContext& ctx, const Shape& shape) {
  const Ints pads = ctx.attrs().integers("pads");
  const auto axes = padded_axes(ctx, shape.size());
  if (!axes) return std::nullopt;
  if (pads.size() != 2 * axes->size()) {
    ctx.fail(DiagCode::BadRank, "pads has " + std::to_string(pads.size()) +
                                    " entries, wanted two for each of " +
                                    std::to_string(axes->size()) + " axes");
    return std::nullopt;
  }
  std::vector<AxisPad> result;
  for (const Dim& size : shape) result.push_back({.size = size});
  for (size_t i = 0; i < axes->size(); ++i) {
    AxisPad& pad = result[static_cast<size_t>((*axes)[i])];
    const Dim& begin = pads[i];
    const Dim& end = pads[axes->size() + i];
    pad.before = added_by(begin);
    pad.after = added_by(end);
    pad.crop_begin = pad.before - begin;
    const Dim crop_end = pad.after - end;
    // Free ones, where they crop too much, are refused by the run.
    const bool is_free = pad.crop_begin.is_free() || crop_end.is_free();
    const int64_t least = is_free ? pad.size.bound() : pad.size.range().least;
    if (pad.crop_begin > least || crop_end > least - pad.crop_begin) {
      ctx.fail(DiagCode::BadShape, "pads crop more than the " + to_string(pad.size) +
                                       " elements of axis " + to_string((*axes)[i]));
      return std::nullopt;
    }
    pad.size -= pad.crop_begin + crop_end;
    if (!check_reach(ctx, ctx.attrs().text("mode"), (*axes)[i], pad)) return std::nullopt;
  }
  return result;
}

bool is_constant_used(NodeContext& ctx) {
  return ctx.attrs().text("mode") == "constant";
}

bool infer_pad(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  if (is_constant_used(ctx) && !check_filling(ctx, ctx.dtype(0), "value")) return false;
  const auto pads = axis_pads(ctx, ctx.shape(0));
  if (!pads) return false;
  Shape shape;
  for (const AxisPad& pad : *pads) shape.push_back(pad.before + pad.size + pad.after);
  ctx.set_output(0, {ctx.dtype(0), std::move(shape)});
  return true;
}

// Source index along one axis, or -1 where the constant stands.
int64_t source_index(const std::string& mode, const AxisPad& pad, int64_t i) {
  const int64_t size = pad.size;
  int64_t source = i - pad.before;
  if (source < 0 || source >= size) {
    if (mode == "constant") return -1;
    if (mode == "edge") source = std::clamp<int64_t>(source, 0, size - 1);
    if (mode == "wrap") source = (source + size) % size;
    if (mode == "reflect") source = source < 0 ? -source : 2 * (size - 1) - source;
  }
  return source + pad.crop_begin;
}

bool evaluate_pad(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const std::vector<AxisPad> pads = axis_pads(ctx, x.type.shape).value();
  const std::string mode = ctx.attrs().text("mode");
  const double value = is_constant_used(ctx) ? filling(ctx.attrs(), x.type.dtype, "value") : 0;
  const Strides strides = dense_strides(x.type.shape);
  const Strides out_strides = dense_strides(y.type.shape);
  for (int64_t i = 0; i < y.count(); ++i) {
    int64_t offset = 0;
    bool inside = true;
    for (size_t axis = 0; axis < strides.size(); ++axis) {
      const int64_t coordinate = i / out_strides[axis] % y.type.shape[axis];
      const int64_t source = source_index(mode, pads[axis], coordinate);
      inside = inside && source >= 0;
      offset += source * strides[axis];
    }
    const auto to = static_cast<size_t>(i);
    const auto from = static_cast<size_t>(offset);
    if (!inside) {
      set_element(y, i, value);
    } else if (x.is_float()) {
      y.floats[to] = x.floats[from];
    } else {
      y.integers[to] = x.integers[from];
    }
  }
  return true;
}

// A number of the type of coordinates.
std::string coordinate_literal(const Dim& value) {
  return "rlx_coordinate(" + number_text(value) + ")";
}

// Statements that turn coordinate `c` of an axis into its source coordinate; `inside` turns false
// where the constant stands.
std::string source_code(const std::string& mode, const AxisPad& pad) {
  if (pad.before == 0 && pad.after == 0 && pad.crop_begin == 0) return {};
  const std::string size = coordinate_literal(pad.size);
  const std::string zero = coordinate_literal(0);
  std::string code = "  c -= " + coordinate_literal(pad.before) + ";\n";
  if (pad.before != 0 || pad.after != 0) {
    const std::string last = coordinate_literal(pad.size - 1);
    const std::string below = "  c = c < " + zero + " ? ";
    if (mode == "constant") code += "  inside = inside && c >= " + zero + " && c < " + size + ";\n";
    if (mode == "edge") code += below + zero + " : (c > " + last + " ? " + last + " : c);\n";
    if (mode == "wrap")
      code += below + "c + " + size + " : (c >= " + size + " ? c - " + size + " : c);\n";
    if (mode == "reflect") {
      code += below + "-c : (c > " + last + " ? " + coordinate_literal(2 * (pad.size - 1)) +
              " - c : c);\n";
    }
  }
  return code + "  c += " + coordinate_literal(pad.crop_begin) + ";\n";
}

// The pattern of the constant in the element's raw type.
int64_t constant_bits(DType dtype, double value) {
  Tensor one = Tensor::zeros({dtype, {1}});
  set_element(one, 0, value);
  const std::vector<std::byte> bytes = one.to_bytes();
  int64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  return bits;
}

// y[i] = x[source(i)], or the bits `constant` where the statements make `inside` false. axis_code:
// per axis, what turns coordinate `c` of y into that of x.
void emit_index_map(LowerContext& ctx, const TensorRef& x, const TensorRef& y,
                    const std::vector<std::string>& axis_code, int64_t constant,
                    const std::string& reason) {
  std::string code;
  int64_t largest = 0;
  for (size_t axis = x.shape().size(); axis-- > 0;) {
    const std::string dim = number_text(y.shape()[axis]);
    largest = std::max({largest, x.shape()[axis].range().most, y.shape()[axis].range().most});
    code += "  c = rlx_coordinate(rest % rlx_index(" + dim + "));\n  rest /= rlx_index(" + dim +
            ");\n" + axis_code[axis] + "  offset += rlx_i64(c) * rlx_i64(" +
            number_text(x.strides[axis]) + ");\n";
  }
  const Dim count = element_count(y.shape());
  const std::string raw = raw_type(x.dtype());
  ctx.dispatch<KernelId::pad>()
      .workgroup({kCopyWorkgroup})
      .define("RLX_RAW", raw)
      .define("rlx_index", index_type(IndexUse::Linear, count.range().most + kCopyWorkgroup))
      .define("rlx_coordinate", index_type(IndexUse::Coordinate, largest))
      .generated("sizes.inc",
                 wide_define("RLX_COUNT", count) + wide_define("RLX_CONSTANT", constant))
      .generated("source.inc", code)
      .read(&CopyParams::x, x)
      .write(&CopyParams::y, y)
      .grid(split_grid(ceil_div(count, kCopyWorkgroup)))
      .work(byte_size(x.type) + byte_size(y.type), 0)
      .reason(reason + ", one element of " + raw + " a thread");
}

bool lower_pad(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const std::vector<AxisPad> pads = axis_pads(ctx, x.shape()).value();
  const std::string mode = ctx.attrs().text("mode");
  const double value = filling(ctx.attrs(), x.dtype(), "value");
  const bool grows = std::any_of(pads.begin(), pads.end(), [](const AxisPad& pad) {
    return pad.before != 0 || pad.after != 0;
  });
  if (!grows) {
    TensorRef view = x;
    for (size_t axis = 0; axis < pads.size(); ++axis)
      view = shifted(view, pads[axis].crop_begin * view.strides[axis]);
    view.type = ctx.output_type(0);
    ctx.alias_output(0, std::move(view));
    return true;
  }
  std::vector<std::string> code;
  for (const AxisPad& pad : pads) code.push_back(source_code(mode, pad));
  const int64_t constant = mode == "constant" ? constant_bits(x.dtype(), value) : 0;
  emit_index_map(ctx, x, ctx.output(0), code, constant, mode + " pad");
  return true;
}

// ---- roll(x; shifts, axes) ----

// Per axis, the shift as the distance that elements move up, in [0, size).
std::optional<Ints> axis_shifts(NodeContext& ctx, const Shape& shape) {
  const Ints shifts = ctx.attrs().integers("shifts");
  const auto axes = ctx.axes(ctx.attrs().integers("axes"), shape.size());
  if (!axes) return std::nullopt;
  if (axes->size() != shifts.size()) {
    ctx.fail(DiagCode::BadAttribute, "shifts has " + std::to_string(shifts.size()) +
                                         " entries, axes has " + std::to_string(axes->size()) +
                                         ", wanted equal counts");
    return std::nullopt;
  }
  Ints result(shape.size(), 0);
  for (size_t i = 0; i < shifts.size(); ++i) {
    const auto axis = static_cast<size_t>((*axes)[i]);
    const Dim size = max(shape[axis], 1);
    const int64_t shift = shifts[i];
    result[axis] = shift < 0 ? size - 1 - Dim(-(shift + 1)) % size : Dim(shift) % size;
  }
  return result;
}

bool infer_roll(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0)) || !axis_shifts(ctx, ctx.shape(0))) return false;
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate_roll(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const Shape& shape = x.type.shape;
  const Ints shifts = axis_shifts(ctx, shape).value();
  const Strides strides = dense_strides(shape);
  for (int64_t i = 0; i < x.count(); ++i) {
    int64_t to = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const int64_t coordinate = i / strides[axis] % shape[axis];
      to += (coordinate + shifts[axis]) % shape[axis] * strides[axis];
    }
    if (y.is_float()) {
      y.floats[static_cast<size_t>(to)] = x.floats[static_cast<size_t>(i)];
    } else {
      y.integers[static_cast<size_t>(to)] = x.integers[static_cast<size_t>(i)];
    }
  }
  return true;
}

bool lower_roll(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const Ints shifts = axis_shifts(ctx, x.shape()).value();
  std::vector<std::string> code;
  bool moves = false;
  for (size_t axis = 0; axis < shifts.size(); ++axis) {
    code.emplace_back();
    if (shifts[axis] == 0) continue;
    moves = true;
    code.back() = "  c -= " + coordinate_literal(shifts[axis]) + ";\n  c += c < " +
                  coordinate_literal(0) + " ? " + coordinate_literal(x.shape()[axis]) + " : " +
                  coordinate_literal(0) + ";\n";
  }
  if (moves) {
    emit_index_map(ctx, x, ctx.output(0), code, 0, "roll");
  } else {
    ctx.alias_output(0, x);
  }
  return true;
}

constexpr std::string_view kPadModes[] = {"constant", "reflect", "edge", "wrap"};
const AttrSpec kPadAttrs[] = {
    {.name = "pads",
     .type = AttrType::IntList,
     .required = true,
     .minimum = -1099511627776.0,
     .maximum = 1099511627776.0},
    {.name = "mode",
     .type = AttrType::String,
     .default_text = "\"constant\"",
     .choices = kPadModes},
    {.name = "value", .type = AttrType::Float, .default_text = "0"},
    {.name = "axes", .type = AttrType::IntList},
};
const AttrSpec kRollAttrs[] = {{.name = "shifts", .type = AttrType::IntList, .required = true},
                               {.name = "axes", .type = AttrType::IntList, .required = true}};

// Which element of an axis each place of the padded one shows.
std::vector<int64_t> shown_elements(const std::string& mode, int64_t size, int64_t before,
                                    int64_t behind) {
  const int64_t first = std::max<int64_t>(0, -before);
  const int64_t count = size - first - std::max<int64_t>(0, -behind);
  const int64_t around = mode == "reflect" ? std::max<int64_t>(1, 2 * (count - 1)) : count;
  std::vector<int64_t> shown;
  for (int64_t at = -std::max<int64_t>(before, 0); at < count + std::max<int64_t>(behind, 0);
       ++at) {
    int64_t from = std::clamp<int64_t>(at, 0, std::max<int64_t>(count - 1, 0));
    if (mode != "edge" && around > 0) {
      from = (at % around + around) % around;
      if (from >= count) from = around - from;
    }
    shown.push_back(first + from);
  }
  return shown;
}

// Every place passes its gradient to the element that it shows.
bool mirrored_gradient(GradientContext& ctx, const Ints& axes, const Ints& pads) {
  const Shape x = ctx.shape(ctx.input(0));
  ValueId dx = ctx.gradient();
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i];
    const Dim size = x[static_cast<size_t>(axis)];
    if (size.is_free()) {
      return ctx.fail(
          DiagCode::UnknownOp,
          "mode \"" + ctx.attrs().text("mode") + "\" has no gradient along an axis of a free size",
          "bind the size, or pad by constants");
    }
    const std::vector<int64_t> shown =
        shown_elements(ctx.attrs().text("mode"), size, pads[i], pads[i + axes.size()]);
    Tensor index = Tensor::zeros({DType::i64, {static_cast<int64_t>(shown.size())}});
    index.integers = shown;
    dx = ctx.emit("gather_backward", {dx, ctx.constant("shown", index)},
                  {{"axis", axis}, {"dim", size.bound()}});
  }
  ctx.give(0, dx);
  return true;
}

// What lies between the pads; constants around it pass nothing on.
bool pad_gradient(GradientContext& ctx) {
  const Shape& x = ctx.shape(ctx.input(0));
  Ints pads = ctx.attrs().integers("pads");
  const Ints axes = ctx.attrs().has("axes")
                        ? ctx.axes(ctx.attrs().integers("axes"), x.size()).value()
                        : axes_from(0, x.size());
  if (ctx.attrs().text("mode") != "constant") return mirrored_gradient(ctx, axes, pads);
  for (Dim& pad : pads) pad = -pad;
  ctx.give(0, ctx.emit("pad", {ctx.gradient()}, {{"axes", axes}, {"pads", pads}}));
  return true;
}

bool roll_gradient(GradientContext& ctx) {
  Ints shifts = ctx.attrs().integers("shifts");
  for (Dim& shift : shifts) shift = -shift;
  ctx.give(0, ctx.emit("roll", {ctx.gradient()}, ctx.attributes({{"shifts", shifts}})));
  return true;
}

const OpDef kPads[] = {{.name = "pad",
                        .signature = "pad(x; pads, mode=\"constant\", value=0, axes) -> y",
                        .attrs = kPadAttrs,
                        .infer = infer_pad,
                        .evaluate = evaluate_pad,
                        .gradient = pad_gradient,
                        .lower = lower_pad},
                       {.name = "roll",
                        .signature = "roll(x; shifts, axes) -> y",
                        .attrs = kRollAttrs,
                        .infer = infer_roll,
                        .evaluate = evaluate_roll,
                        .gradient = roll_gradient,
                        .lower = lower_roll}};

}  // namespace

std::span<const OpDef> pad_ops() {
  return kPads;
}

}  // namespace rlx
