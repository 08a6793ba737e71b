// SPDX-License-Identifier: Apache-2.0
// Norms whose parameters go by channel, and l2_norm (ops.md 4): group_norm, instance_norm,
// layer_norm2d. They have no kernel of their own: the statistics come from the moments kernel and
// the rest is elementwise, so that it joins what stands around it.
#include <cmath>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

enum class Norm : uint8_t { Group, Instance, Layer2d };

Norm norm_of(const NodeContext& ctx) {
  if (ctx.node().op == "group_norm") return Norm::Group;
  return ctx.node().op == "instance_norm" ? Norm::Instance : Norm::Layer2d;
}

// ---- shapes ----

bool check_channel_vector(InferContext& ctx, size_t input, const char* name, const Dim& channels) {
  if (!ctx.has_input(input)) return true;
  if (!check_float_input(ctx, input, name)) return false;
  if (ctx.shape(input) == Shape{channels}) return true;
  return ctx.fail(DiagCode::BadShape,
                  std::string(name) + " has shape " + to_string(ctx.shape(input)) + "; wanted " +
                      to_string(Shape{channels}) + ", one value per channel of x " +
                      to_string(ctx.shape(0)));
}

bool infer_channel_norm(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "x")) return false;
  const Shape& x = ctx.shape(0);
  if (norm_of(ctx) == Norm::Layer2d ? x.size() != 4 : x.size() < 2) {
    return ctx.fail(DiagCode::BadRank,
                    "x has rank " + std::to_string(x.size()) + "; wanted [N, C, " +
                        (norm_of(ctx) == Norm::Layer2d ? "H, W]" : "spatial..]"));
  }
  bool good = check_channel_vector(ctx, 1, "gamma", x[1]);
  good = check_channel_vector(ctx, 2, "beta", x[1]) && good;
  if (norm_of(ctx) == Norm::Group && x[1] % ctx.attrs().integer("num_groups") != 0) {
    good =
        ctx.fail(DiagCode::BadShape,
                 "num_groups=" + std::to_string(ctx.attrs().integer("num_groups")) +
                     " does not divide the " + to_string(x[1]) + " channels of x " + to_string(x));
  }
  if (good) ctx.set_output(0, ctx.input(0));
  return good;
}

// ---- evaluate_channel_norm: plain loops over the sets of elements that are normalised together
// ----

struct SetLoops {
  int64_t groups = 1;  // of an image
  int64_t group_channels = 1;
  int64_t pixels = 1;      // that are sets of their own
  int64_t set_pixels = 1;  // of one set
};

SetLoops loops_of(const NodeContext& ctx, const Shape& x) {
  const int64_t plane = element_count(Shape(x.begin() + 2, x.end()));
  if (norm_of(ctx) == Norm::Layer2d)
    return {.groups = 1, .group_channels = x[1], .pixels = plane, .set_pixels = 1};
  const int64_t groups =
      norm_of(ctx) == Norm::Instance ? x[1] : Dim(ctx.attrs().integer("num_groups"));
  return {.groups = groups,
          .group_channels = groups == 0 ? 0 : x[1] / groups,
          .pixels = 1,
          .set_pixels = plane};
}

void normalise_set(EvaluateContext& ctx, const std::vector<size_t>& elements, int64_t channels,
                   int64_t plane) {
  const std::vector<double>& x = ctx.input(0).floats;
  const auto n = static_cast<double>(elements.size());
  double mean = 0;
  for (const size_t i : elements) mean += x[i] / n;
  double variance = 0;
  for (const size_t i : elements) variance += (x[i] - mean) * (x[i] - mean) / n;
  for (const size_t i : elements) {
    const size_t c = i / static_cast<size_t>(plane) % static_cast<size_t>(channels);
    double value = (x[i] - mean) / std::sqrt(variance + ctx.attrs().real("eps"));
    if (ctx.has_input(1)) value *= ctx.input(1).floats[c];
    if (ctx.has_input(2)) value += ctx.input(2).floats[c];
    ctx.output(0).floats[i] = value;
  }
}

bool evaluate_channel_norm(EvaluateContext& ctx) {
  const Shape& shape = ctx.input(0).type.shape;
  const SetLoops loops = loops_of(ctx, shape);
  const int64_t plane = element_count(Shape(shape.begin() + 2, shape.end()));
  for (int64_t image = 0; image < shape[0]; ++image) {
    for (int64_t set = 0; set < loops.groups * loops.pixels; ++set) {
      const int64_t group = set / loops.pixels;
      std::vector<size_t> elements;
      for (int64_t c = 0; c < loops.group_channels; ++c) {
        const int64_t channel = image * shape[1] + group * loops.group_channels + c;
        for (int64_t p = 0; p < loops.set_pixels; ++p) {
          elements.push_back(static_cast<size_t>(channel * plane + set % loops.pixels + p));
        }
      }
      normalise_set(ctx, elements, shape[1], plane);
    }
  }
  return true;
}

// ---- decompose_channel_norm ----

// A vector by channel, shaped to broadcast against x of `rank` dims.
ValueId by_channel(RewriteContext& ctx, ValueId vector, size_t rank) {
  if (rank == 2) return vector;
  Ints shape(rank - 1, 1);
  shape[0] = ctx.type(vector).shape[0];
  return ctx.emit("reshape", {vector}, {{"shape", shape}});
}

Attributes statistics_attributes(const RewriteContext& ctx, size_t rank) {
  Attributes attributes = {{"eps", ctx.attrs().real("eps")}};
  if (norm_of(ctx) == Norm::Group) {
    attributes["groups"] = ctx.attrs().integer("num_groups");
    return attributes;
  }
  Ints axes;
  for (size_t d = 2; d < rank; ++d) axes.push_back(static_cast<int64_t>(d));
  attributes["axes"] = norm_of(ctx) == Norm::Layer2d ? Ints{1} : axes;
  return attributes;
}

bool decompose_channel_norm(RewriteContext& ctx) {
  const TensorType x = ctx.type(ctx.input(0));
  const size_t rank = x.shape.size();
  const std::vector<ValueId> moments =
      ctx.emit_all("moments", {ctx.input(0)}, statistics_attributes(ctx, rank), 3);
  std::vector<std::optional<ValueId>> operands = {ctx.input(0), moments[0], moments[1], moments[2]};
  if (ctx.has_input(1)) {
    operands.emplace_back(by_channel(ctx, ctx.input(1), rank));
  } else if (ctx.has_input(2)) {
    Tensor one = Tensor::zeros({DType::f32, {1}});
    one.floats[0] = 1;
    operands.emplace_back(ctx.constant("one", one));
  }
  if (ctx.has_input(2)) operands.emplace_back(by_channel(ctx, ctx.input(2), rank));
  ctx.replace_output(0, ctx.emit("standardise", std::move(operands)));
  return true;
}

// ---- l2_norm ----

bool infer_l2(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "x")) return false;
  if (!ctx.axis(ctx.attrs().integer("axis"), ctx.shape(0).size())) return false;
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate_l2(EvaluateContext& ctx) {
  const Tensor& x = ctx.input(0);
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), x.type.shape.size());
  if (!axis) return false;
  const double eps = ctx.attrs().real("eps");
  const bool add = ctx.attrs().text("mode") == "add";
  const RowOffsets offsets = row_offsets(x.type.shape, {*axis});
  for (const int64_t kept : offsets.kept) {
    double squares = 0;
    const auto at = [kept](int64_t i) { return static_cast<size_t>(kept + i); };
    for (const int64_t i : offsets.reduced) squares += x.floats[at(i)] * x.floats[at(i)];
    const double norm = std::sqrt(squares);
    const double divisor = add ? std::sqrt(squares + eps) : norm < eps ? eps : norm;
    for (const int64_t i : offsets.reduced) ctx.output(0).floats[at(i)] = x.floats[at(i)] / divisor;
  }
  return true;
}

bool decompose_l2(RewriteContext& ctx) {
  const std::optional<int64_t> axis =
      ctx.axis(ctx.attrs().integer("axis"), ctx.type(ctx.input(0)).shape.size());
  if (!axis) return false;
  const ValueId factor = ctx.emit("inverse_norm", {ctx.input(0)},
                                  {{"axes", Ints{*axis}},
                                   {"eps", ctx.attrs().real("eps")},
                                   {"mode", ctx.attrs().text("mode")}});
  ctx.replace_output(0, ctx.emit("scaled", {ctx.input(0), factor}));
  return true;
}

bool channel_norm_gradient(GradientContext& ctx) {
  const std::vector<ValueId> gradients = ctx.emit_all(
      ctx.node().op + "_backward",
      {ctx.input(0), ctx.has_input(1) ? std::optional(ctx.input(1)) : std::nullopt, ctx.gradient()},
      ctx.attributes(), 3);
  for (size_t i = 0; i < gradients.size(); ++i) ctx.give(i, gradients[i]);
  return true;
}

constexpr uint32_t kChannelNormOptional[] = {1, 2};
constexpr std::string_view kChannelNormModes[] = {"max", "add"};
constexpr AttrSpec kGroupAttrs[] = {
    {.name = "num_groups",
     .type = AttrType::Int,
     .required = true,
     .minimum = 1,
     .maximum = kLargestInt},
    {.name = "eps", .type = AttrType::Float, .default_text = "1e-5", .minimum = 0},
};
constexpr AttrSpec kInstanceAttrs[] = {
    {.name = "eps", .type = AttrType::Float, .default_text = "1e-5", .minimum = 0},
};
constexpr AttrSpec kLayer2dAttrs[] = {
    {.name = "eps", .type = AttrType::Float, .default_text = "1e-6", .minimum = 0},
};
constexpr AttrSpec kL2Attrs[] = {
    {.name = "axis", .type = AttrType::Int, .default_text = "-1"},
    {.name = "eps", .type = AttrType::Float, .default_text = "1e-12", .minimum = 0},
    {.name = "mode",
     .type = AttrType::String,
     .default_text = "\"max\"",
     .choices = kChannelNormModes},
};

constexpr OpDef channel_norm(std::string_view name, std::string_view signature,
                             std::span<const AttrSpec> attrs) {
  return {.name = name,
          .signature = signature,
          .inputs = {1, 3},
          .outputs = {1, 1},
          .attrs = attrs,
          .infer = infer_channel_norm,
          .evaluate = evaluate_channel_norm,
          .decompose = decompose_channel_norm,
          .gradient = channel_norm_gradient,
          .optional_inputs = kChannelNormOptional};
}

constexpr OpDef kChannelNormOps[] = {
    channel_norm("group_norm", "group_norm(x, [gamma], [beta]; num_groups, eps=1e-5) -> y",
                 kGroupAttrs),
    channel_norm("instance_norm", "instance_norm(x, [gamma], [beta]; eps=1e-5) -> y",
                 kInstanceAttrs),
    channel_norm("layer_norm2d", "layer_norm2d(x, [gamma], [beta]; eps=1e-6) -> y", kLayer2dAttrs),
    {.name = "l2_norm",
     .signature = "l2_norm(x; axis=-1, eps=1e-12, mode=\"max\") -> y",
     .inputs = {1, 1},
     .outputs = {1, 1},
     .attrs = kL2Attrs,
     .infer = infer_l2,
     .evaluate = evaluate_l2,
     .decompose = decompose_l2},
};

}  // namespace

std::span<const OpDef> channel_norm_ops() {
  return kChannelNormOps;
}

}  // namespace rlx
