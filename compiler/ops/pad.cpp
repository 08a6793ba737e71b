// SPDX-License-Identifier: Apache-2.0
// pad (ops.md 6): constant, reflect, edge and wrap; negative pads crop first.
#include <algorithm>
#include <bit>
#include <cstring>

#include "compiler/ops/lower_context.h"
#include "compiler/ops/movement.h"

namespace rlx {
namespace {

struct AxisPad {
  int64_t crop_begin = 0;  // taken off the input
  int64_t size = 0;        // what is left of the axis
  int64_t before = 0;      // added, >= 0
  int64_t after = 0;
};

std::optional<Ints> padded_axes(NodeContext& ctx, size_t rank) {
  if (ctx.attrs().has("axes")) return ctx.axes(ctx.attrs().integers("axes"), rank);
  Ints axes;
  for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

bool check_reach(NodeContext& ctx, const std::string& mode, int64_t axis, const AxisPad& pad) {
  const int64_t widest = std::max(pad.before, pad.after);
  if (mode == "constant" || widest == 0) return true;
  const int64_t limit = mode == "reflect" ? pad.size - 1 : pad.size;
  const bool reachable = mode == "edge" ? pad.size > 0 : widest <= limit;
  if (reachable) return true;
  return ctx.fail(DiagCode::BadShape, mode + " pad of " + std::to_string(widest) + " on axis " +
                                          std::to_string(axis) + " reaches beyond its " +
                                          std::to_string(pad.size) + " elements");
}

std::optional<std::vector<AxisPad>> axis_pads(NodeContext& ctx, const Shape& shape) {
  const Ints pads = ctx.attrs().integers("pads");
  const auto axes = padded_axes(ctx, shape.size());
  if (!axes) return std::nullopt;
  if (pads.size() != 2 * axes->size()) {
    ctx.fail(DiagCode::BadAttribute, "pads has " + std::to_string(pads.size()) +
                                         " entries, wanted two for each of " +
                                         std::to_string(axes->size()) + " axes");
    return std::nullopt;
  }
  std::vector<AxisPad> result;
  for (int64_t size : shape) result.push_back({.size = size});
  for (size_t i = 0; i < axes->size(); ++i) {
    AxisPad& pad = result[static_cast<size_t>((*axes)[i])];
    const int64_t begin = pads[i];
    const int64_t end = pads[axes->size() + i];
    pad.crop_begin = std::max<int64_t>(-begin, 0);
    const int64_t crop_end = std::max<int64_t>(-end, 0);
    if (pad.crop_begin > pad.size || crop_end > pad.size - pad.crop_begin) {
      ctx.fail(DiagCode::BadShape, "pads crop more than the " + std::to_string(pad.size) +
                                       " elements of axis " + std::to_string((*axes)[i]));
      return std::nullopt;
    }
    pad.size -= pad.crop_begin + crop_end;
    pad.before = std::max<int64_t>(begin, 0);
    pad.after = std::max<int64_t>(end, 0);
    if (!check_reach(ctx, ctx.attrs().text("mode"), (*axes)[i], pad)) return std::nullopt;
  }
  return result;
}

bool infer_pad(InferContext& ctx) {
  if (!refuse_block_type(ctx, ctx.dtype(0))) return false;
  if (kind_of(ctx.dtype(0)) == DTypeKind::Complex && ctx.attrs().real("value") != 0) {
    return ctx.fail(DiagCode::UnsupportedOp, "constant pad of c64 takes value 0 only");
  }
  const auto pads = axis_pads(ctx, ctx.shape(0));
  if (!pads) return false;
  Shape shape;
  for (const AxisPad& pad : *pads) shape.push_back(pad.before + pad.size + pad.after);
  ctx.set_output(0, {ctx.dtype(0), std::move(shape)});
  return true;
}

// Source index along one axis, or -1 where the constant stands.
int64_t source_index(const std::string& mode, const AxisPad& pad, int64_t i) {
  int64_t source = i - pad.before;
  if (source < 0 || source >= pad.size) {
    if (mode == "constant") return -1;
    if (mode == "edge") source = std::clamp<int64_t>(source, 0, pad.size - 1);
    if (mode == "wrap") source = (source + pad.size) % pad.size;
    if (mode == "reflect") source = source < 0 ? -source : 2 * (pad.size - 1) - source;
  }
  return source + pad.crop_begin;
}

int64_t constant_integer(DType dtype, double value) {
  const IntegerRange range = integer_range(dtype);
  if (value != value) return 0;
  if (value <= static_cast<double>(range.lowest)) return range.lowest;
  if (value >= static_cast<double>(range.highest)) return range.highest;
  return static_cast<int64_t>(value);
}

bool evaluate_pad(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const std::vector<AxisPad> pads = axis_pads(ctx, x.type.shape).value();
  const std::string mode = ctx.attrs().text("mode");
  const double value = ctx.attrs().real("value");
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
    if (x.is_float()) {
      y.floats[to] = inside ? x.floats[from] : round_to(x.type.dtype, value);
    } else {
      y.integers[to] = inside ? x.integers[from] : constant_integer(x.type.dtype, value);
    }
  }
  return true;
}

// Statements that turn coordinate `c` of an axis into its source coordinate; `inside` turns false
// where the constant stands.
std::string source_code(const std::string& mode, const AxisPad& pad) {
  const std::string size = std::to_string(pad.size);
  std::string code = "  c -= " + std::to_string(pad.before) + ";\n";
  if (pad.before != 0 || pad.after != 0) {
    const std::string last = std::to_string(pad.size - 1);
    if (mode == "constant") code += "  inside = inside && c >= 0 && c < " + size + ";\n";
    if (mode == "edge") code += "  c = c < 0 ? 0 : (c > " + last + " ? " + last + " : c);\n";
    if (mode == "wrap") {
      code += "  c = c < 0 ? c + " + size + " : (c >= " + size + " ? c - " + size + " : c);\n";
    }
    if (mode == "reflect") {
      code += "  c = c < 0 ? -c : (c > " + last + " ? " + std::to_string(2 * (pad.size - 1)) +
              " - c : c);\n";
    }
  }
  return code;
}

// The pattern of the constant in the element's raw type.
int64_t constant_bits(DType dtype, double value) {
  Tensor one = Tensor::zeros({dtype, {1}});
  if (one.is_float()) {
    one.floats[0] = value;
  } else {
    one.integers[0] = constant_integer(dtype, value);
  }
  const std::vector<std::byte> bytes = one.to_bytes();
  int64_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  return bits;
}

bool lower_pad(LowerContext& ctx) {
  const TensorRef x = ctx.input(0);
  const TensorRef y = ctx.output(0);
  const std::vector<AxisPad> pads = axis_pads(ctx, x.shape()).value();
  const std::string mode = ctx.attrs().text("mode");
  const double value = ctx.attrs().real("value");
  std::string code;
  for (size_t axis = x.shape().size(); axis-- > 0;) {
    const std::string dim = std::to_string(y.shape()[axis]);
    code += "  c = int(rest % rlx_index(" + dim + "));\n  rest /= rlx_index(" + dim + ");\n" +
            source_code(mode, pads[axis]) + "  offset += rlx_i64(c + " +
            std::to_string(pads[axis].crop_begin) + ") * rlx_i64(" +
            std::to_string(x.strides[axis]) + ");\n";
  }
  const bool complex_type = kind_of(x.dtype()) == DTypeKind::Complex;
  const auto count = static_cast<uint64_t>(element_count(y.shape()));
  const std::string raw = raw_type(x.dtype());
  const int64_t constant = complex_type ? 0 : constant_bits(x.dtype(), value);
  ctx.dispatch<KernelId::pad>()
      .workgroup({kCopyWorkgroup})
      .define("RLX_RAW", raw)
      .define("rlx_index", index_type(count + kCopyWorkgroup))
      .generated("sizes.inc", wide_define("RLX_COUNT", static_cast<int64_t>(count)) +
                                  wide_define("RLX_CONSTANT", constant))
      .generated("source.inc", code)
      .read(&CopyParams::x, x)
      .write(&CopyParams::y, y)
      .grid(split_grid((count + kCopyWorkgroup - 1) / kCopyWorkgroup))
      .work(byte_size(x.type) + byte_size(y.type), 0)
      .reason(mode + " pad, one element of " + raw + " a thread");
  return true;
}

constexpr std::string_view kModes[] = {"constant", "reflect", "edge", "wrap"};
const AttrSpec kPadAttrs[] = {
    {.name = "pads",
     .type = AttrType::IntList,
     .required = true,
     .minimum = -1099511627776.0,
     .maximum = 1099511627776.0},
    {.name = "mode", .type = AttrType::String, .default_text = "\"constant\"", .choices = kModes},
    {.name = "value", .type = AttrType::Float, .default_text = "0"},
    {.name = "axes", .type = AttrType::IntList},
};

const OpDef kPads[] = {{.name = "pad",
                        .signature = "pad(x; pads, mode=\"constant\", value=0, axes) -> y",
                        .attrs = kPadAttrs,
                        .infer = infer_pad,
                        .evaluate = evaluate_pad,
                        .lower = lower_pad}};

}  // namespace

std::span<const OpDef> pad_ops() {
  return kPads;
}

}  // namespace rlx
