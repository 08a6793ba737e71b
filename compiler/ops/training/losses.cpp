// SPDX-License-Identifier: Apache-2.0
// softmax_backward, log_softmax_backward, softmax_cross_entropy and its gradient (ops.md 16.3).
#include <array>
#include <cmath>

#include "compiler/ops/gradient.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/op_def.h"

namespace rlx {
namespace {

// ---- softmax_backward(y, dy), log_softmax_backward(y, dy) ----

bool infer_softmax_backward(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "y")) return false;
  if (!ctx.axis(ctx.attrs().integer("axis"), ctx.shape(0).size())) return false;
  if (ctx.input(1) != ctx.input(0)) {
    return ctx.fail(DiagCode::BadShape, "dy is " + to_string(ctx.input(1)) + ", wanted " +
                                            to_string(ctx.input(0)) + " as y");
  }
  ctx.set_output(0, ctx.input(0));
  return true;
}

bool evaluate_softmax_backward(EvaluateContext& ctx) {
  const Tensor& y = ctx.input(0);
  const Tensor& dy = ctx.input(1);
  const bool logarithm = ctx.node().op == "log_softmax_backward";
  const RowOffsets rows =
      row_offsets(y.type.shape, {*ctx.axis(ctx.attrs().integer("axis"), y.type.shape.size())});
  for (const int64_t base : rows.kept) {
    double sum = 0;
    for (const int64_t offset : rows.reduced) {
      const auto at = static_cast<size_t>(base + offset);
      sum += logarithm ? dy.floats[at] : dy.floats[at] * y.floats[at];
    }
    for (const int64_t offset : rows.reduced) {
      const auto at = static_cast<size_t>(base + offset);
      ctx.output(0).floats[at] = logarithm ? dy.floats[at] - std::exp(y.floats[at]) * sum
                                           : y.floats[at] * (dy.floats[at] - sum);
    }
  }
  return true;
}

bool decompose_softmax_backward(RewriteContext& ctx) {
  const DType dtype = ctx.dtype(ctx.input(0));
  const ValueId y = ctx.widen(ctx.input(0));
  const ValueId dy = ctx.widen(ctx.input(1));
  const Ints axes = {*ctx.axis(ctx.attrs().integer("axis"), ctx.shape(y).size())};
  ValueId dx{};
  if (ctx.node().op == "log_softmax_backward") {
    const ValueId sum = ctx.reduce("reduce_sum", dy, axes);
    dx = ctx.emit("sub", {dy, ctx.emit("mul", {ctx.emit("exp", {y}), sum})});
  } else {
    const ValueId sum = ctx.reduce("reduce_sum", ctx.emit("mul", {y, dy}), axes);
    dx = ctx.emit("mul", {y, ctx.emit("sub", {dy, sum})});
  }
  ctx.replace_output(0, ctx.cast(dx, dtype));
  return true;
}

// ---- softmax_cross_entropy(logits, target, [class_weight]) ----

bool is_backward(const NodeContext& ctx) {
  return ctx.node().op == "softmax_cross_entropy_backward";
}
// Position of the class weights: behind d_loss in the gradient.
size_t weight_input(const NodeContext& ctx) {
  return is_backward(ctx) ? 3 : 2;
}

// logits without the axis of classes.
Shape positions_of(const Shape& logits, int64_t axis) {
  Shape shape = logits;
  shape.erase(shape.begin() + axis);
  return shape;
}

bool check_target(InferContext& ctx, int64_t axis) {
  const TensorType& target = ctx.input(1);
  const Shape positions = positions_of(ctx.shape(0), axis);
  if (is_float(target.dtype) && target.shape == ctx.shape(0)) {
    if (!ctx.attrs().has("ignore_index")) return true;
    return ctx.fail(DiagCode::BadAttribute, "ignore_index is for targets that are class numbers");
  }
  const bool is_index = is_integer(target.dtype) || target.dtype == DType::f32;
  if (is_index && target.shape == positions) return true;
  return ctx.fail(DiagCode::BadShape,
                  "target is " + to_string(target) + ", wanted class numbers of shape " +
                      to_string(positions) + " or floats of shape " + to_string(ctx.shape(0)));
}

bool check_class_weight(InferContext& ctx, int64_t axis) {
  const size_t input = weight_input(ctx);
  if (!ctx.has_input(input)) return true;
  const Shape wanted = {ctx.shape(0)[static_cast<size_t>(axis)]};
  if (is_float(ctx.dtype(input)) && ctx.shape(input) == wanted) return true;
  return ctx.fail(DiagCode::BadShape, "class_weight is " + to_string(ctx.input(input)) +
                                          ", wanted floats of shape " + to_string(wanted));
}

bool infer_cross_entropy(InferContext& ctx) {
  if (!check_float_input(ctx, 0, "logits")) return false;
  const Shape& logits = ctx.shape(0);
  const std::optional<int64_t> axis = ctx.axis(ctx.attrs().integer("axis"), logits.size());
  if (!axis || !check_target(ctx, *axis) || !check_class_weight(ctx, *axis)) return false;
  const bool whole = ctx.attrs().text("reduction") != "none";
  const Shape loss = whole ? Shape{} : positions_of(logits, *axis);
  if (!is_backward(ctx)) {
    ctx.set_output(0, {ctx.dtype(0), loss});
    if (ctx.node().outputs.size() > 1) ctx.set_output(1, ctx.input(0));
    return true;
  }
  if (!is_float(ctx.dtype(2)) || (ctx.shape(2) != loss && !ctx.shape(2).empty())) {
    return ctx.fail(DiagCode::BadShape, "d_loss is " + to_string(ctx.input(2)) +
                                            ", wanted floats of shape " + to_string(loss) +
                                            " or a scalar");
  }
  ctx.set_output(0, ctx.input(0));
  return true;
}

// One position: what its classes count, by the definition of ops.md.
struct Position {
  std::vector<double> wanted;  // t'
  double sum = 0;              // of t'
  double weight = 1;           // what a mean divides by
  bool counts = true;
};

class Targets {
 public:
  explicit Targets(const EvaluateContext& ctx, size_t classes)
      : target_(ctx.input(1)), classes_(classes), smoothing_(ctx.attrs().real("label_smoothing")) {
    if (ctx.has_input(weight_input(ctx))) weights_ = ctx.input(weight_input(ctx)).floats;
    if (ctx.attrs().has("ignore_index")) ignored_ = ctx.attrs().integer("ignore_index");
  }
  [[nodiscard]] bool dense(const Shape& logits) const {
    return target_.is_float() && target_.type.shape == logits;
  }
  [[nodiscard]] double weight(size_t c) const { return weights_.empty() ? 1 : weights_[c]; }

  // place(c): the element of class c in the logits.
  template <typename Place>
  Position at(size_t position, bool is_dense, const Place& place) const {
    Position result{.wanted = std::vector<double>(classes_, 0.0)};
    const double spread = smoothing_ / static_cast<double>(classes_);
    if (is_dense) {
      for (size_t c = 0; c < classes_; ++c)
        result.wanted[c] = weight(c) * ((1 - smoothing_) * target_.floats[place(c)] + spread);
    } else {
      const int64_t value = target_.is_float() ? static_cast<int64_t>(target_.floats[position])
                                               : target_.integers[position];
      result.counts = value != ignored_ && value >= 0 && value < static_cast<int64_t>(classes_);
      result.weight = result.counts ? weight(static_cast<size_t>(value)) : 0;
      for (size_t c = 0; c < classes_ && result.counts; ++c) {
        const bool hit = static_cast<int64_t>(c) == value;
        result.wanted[c] = (hit ? (1 - smoothing_) * weight(c) : 0) + spread * weight(c);
      }
    }
    for (const double t : result.wanted) result.sum += t;
    return result;
  }

 private:
  const Tensor& target_;
  size_t classes_;
  double smoothing_;
  std::vector<double> weights_;
  std::optional<int64_t> ignored_;
};

double log_sum_exp(const Tensor& logits, int64_t base, const std::vector<int64_t>& offsets) {
  double top = -std::numeric_limits<double>::infinity();
  for (const int64_t offset : offsets)
    top = std::max(top, logits.floats[static_cast<size_t>(base + offset)]);
  double sum = 0;
  for (const int64_t offset : offsets)
    sum += std::exp(logits.floats[static_cast<size_t>(base + offset)] - top);
  return top + std::log(sum);
}

bool evaluate_cross_entropy(EvaluateContext& ctx) {
  const Tensor& logits = ctx.input(0);
  const Shape& shape = logits.type.shape;
  const RowOffsets rows =
      row_offsets(shape, {*ctx.axis(ctx.attrs().integer("axis"), shape.size())});
  const std::string reduction = ctx.attrs().text("reduction");
  const Targets targets(ctx, rows.reduced.size());
  const bool dense = targets.dense(shape);
  std::vector<Position> positions;
  double divisor = 0;
  for (size_t n = 0; n < rows.kept.size(); ++n) {
    positions.push_back(targets.at(
        n, dense, [&](size_t c) { return static_cast<size_t>(rows.kept[n] + rows.reduced[c]); }));
    divisor += positions.back().weight;
  }
  if (reduction != "mean") divisor = 1;
  double whole = 0;
  for (size_t n = 0; n < rows.kept.size(); ++n) {
    const Position& p = positions[n];
    const double lse = log_sum_exp(logits, rows.kept[n], rows.reduced);
    double loss = 0;
    for (size_t c = 0; c < rows.reduced.size(); ++c) {
      const auto at = static_cast<size_t>(rows.kept[n] + rows.reduced[c]);
      if (is_backward(ctx)) {
        const Tensor& d_loss = ctx.input(2);
        const double d = d_loss.floats[d_loss.type.shape.empty() ? 0 : n] / divisor;
        const double softmax = std::exp(logits.floats[at] - lse);
        ctx.output(0).floats[at] = p.counts ? (softmax * p.sum - p.wanted[c]) * d : 0;
      } else {
        if (p.wanted[c] != 0) loss += p.wanted[c] * (lse - logits.floats[at]);
        if (ctx.output_count() > 1) ctx.output(1).floats[at] = logits.floats[at] - lse;
      }
    }
    if (!p.counts) loss = 0;
    whole += loss;
    if (!is_backward(ctx) && reduction == "none") ctx.output(0).floats[n] = loss;
  }
  if (!is_backward(ctx) && reduction != "none") ctx.output(0).floats[0] = whole / divisor;
  return true;
}

// What loss and gradient are composed of.
struct Composed {
  DType real;
  Ints axes;                      // of the classes
  std::optional<ValueId> counts;  // bool, by position with the axis kept: it is no ignored one
  std::optional<ValueId> wanted;  // t' by class; none where picking the class is enough
  ValueId weight{};               // of each position, in a mean
  ValueId index{};                // class numbers in range, with the axis kept; of sparse targets
};

std::optional<ValueId> class_weights(RewriteContext& ctx, DType real, const Shape& logits,
                                     int64_t axis) {
  const size_t input = weight_input(ctx);
  if (!ctx.has_input(input)) return std::nullopt;
  Shape along(logits.size(), 1);
  along[static_cast<size_t>(axis)] = logits[static_cast<size_t>(axis)];
  return ctx.reshape(ctx.cast(ctx.input(input), real), along);
}

void compose_sparse(RewriteContext& ctx, const Shape& logits, int64_t axis,
                    std::optional<ValueId> weights, Composed& made) {
  const Dim classes = logits[static_cast<size_t>(axis)];
  Shape kept = logits;
  kept[static_cast<size_t>(axis)] = 1;
  ValueId target = ctx.input(1);
  if (is_float(ctx.dtype(target))) target = ctx.cast(target, DType::i64);
  const bool is_signed = kind_of(ctx.dtype(target)) == DTypeKind::Int;
  if (element_bytes(ctx.dtype(target)) < 4) target = ctx.cast(target, DType::i32);
  target = ctx.reshape(target, kept);
  const DType index = ctx.dtype(target);
  const auto number = [&](int64_t value) {
    Tensor tensor = Tensor::zeros({index, {}});
    tensor.integers[0] = value;
    return ctx.constant("class", tensor);
  };
  const ValueId last = number(static_cast<int64_t>(classes) - 1);
  ValueId counts = ctx.emit("le", {target, last});
  if (is_signed) counts = ctx.emit("logical_and", {counts, ctx.emit("ge", {target, number(0)})});
  if (ctx.attrs().has("ignore_index")) {
    const ValueId ignored = number(ctx.attrs().integer("ignore_index"));
    counts = ctx.emit("logical_and", {counts, ctx.emit("ne", {target, ignored})});
  }
  made.counts = counts;
  made.index = ctx.emit("where", {counts, target, number(0)});
  const ValueId zero = ctx.scalar(made.real, 0);
  ValueId weight = ctx.scalar(made.real, 1);
  if (weights) {
    const ValueId flat = ctx.reshape(*weights, {classes});
    weight = ctx.emit("gather", {flat, made.index}, {{"axis", int64_t{0}}});
  }
  made.weight = ctx.emit("where", {counts, weight, zero});
}

// t' of every class.
ValueId wanted_of(RewriteContext& ctx, const Shape& logits, int64_t axis,
                  std::optional<ValueId> weights, bool dense, const Composed& made) {
  const double smoothing = ctx.attrs().real("label_smoothing");
  const double spread =
      smoothing / static_cast<double>(static_cast<int64_t>(logits[static_cast<size_t>(axis)]));
  ValueId hit{};
  if (dense) {
    hit = ctx.cast(ctx.input(1), made.real);
  } else {
    const ValueId flat = ctx.reshape(made.index, positions_of(logits, axis));
    hit = ctx.emit("one_hot", {flat},
                   {{"depth", static_cast<int64_t>(logits[static_cast<size_t>(axis)])},
                    {"axis", axis},
                    {"dtype", std::string(name_of(made.real))}});
  }
  ValueId wanted = ctx.affine(hit, 1 - smoothing, spread);
  if (weights) wanted = ctx.emit("mul", {wanted, *weights});
  if (!made.counts) return wanted;
  return ctx.emit("where", {*made.counts, wanted, ctx.scalar(made.real, 0)});
}

// The divisor of a mean, a scalar.
ValueId mean_divisor(RewriteContext& ctx, const Shape& logits, int64_t axis, const Composed& made) {
  Shape kept = logits;
  kept[static_cast<size_t>(axis)] = 1;
  const ValueId weights = made.counts ? made.weight : ctx.filled({made.real, kept}, 1);
  return ctx.reduce("reduce_sum", weights, axes_from(0, logits.size()), NodeBuilder::Axes::Drop);
}

bool decompose_cross_entropy(RewriteContext& ctx) {
  const ValueId given = ctx.input(0);
  const Shape logits = ctx.shape(given);
  const DType dtype = ctx.dtype(given);
  const int64_t axis = *ctx.axis(ctx.attrs().integer("axis"), logits.size());
  const std::string reduction = ctx.attrs().text("reduction");
  const bool dense = is_float(ctx.dtype(ctx.input(1))) && ctx.shape(ctx.input(1)) == logits;
  const bool smooth = ctx.attrs().real("label_smoothing") != 0;
  const ValueId wide = ctx.widen(given);
  Composed made{.real = ctx.dtype(wide), .axes = {axis}};
  const std::optional<ValueId> weights = class_weights(ctx, made.real, logits, axis);
  if (!dense) compose_sparse(ctx, logits, axis, weights, made);
  if (is_backward(ctx)) {
    const ValueId wanted = wanted_of(ctx, logits, axis, weights, dense, made);
    const ValueId softmax = ctx.emit("softmax", {wide}, {{"axis", axis}});
    const ValueId sum = ctx.reduce("reduce_sum", wanted, made.axes);
    ValueId d = ctx.cast(ctx.input(2), made.real);
    if (!ctx.shape(d).empty()) {
      Shape kept = logits;
      kept[static_cast<size_t>(axis)] = 1;
      d = ctx.reshape(d, kept);
    }
    if (reduction == "mean") d = ctx.emit("div", {d, mean_divisor(ctx, logits, axis, made)});
    const ValueId scaled = dense || smooth || weights ? ctx.emit("mul", {softmax, sum}) : softmax;
    ValueId dx = ctx.emit("mul", {ctx.emit("sub", {scaled, wanted}), d});
    if (made.counts) dx = ctx.emit("where", {*made.counts, dx, ctx.scalar(made.real, 0)});
    ctx.replace_output(0, ctx.cast(dx, dtype));
    return true;
  }
  const ValueId log_prob = ctx.emit("log_softmax", {wide}, {{"axis", axis}});
  const ValueId zero = ctx.scalar(made.real, 0);
  ValueId loss{};
  if (!dense && !smooth) {
    loss = ctx.emit("neg", {ctx.emit("gather_elements", {log_prob, made.index}, {{"axis", axis}})});
    if (weights) {
      loss = ctx.emit("where", {ctx.emit("eq", {made.weight, zero}), zero,
                                ctx.emit("mul", {loss, made.weight})});
    }
  } else {
    const ValueId wanted = wanted_of(ctx, logits, axis, weights, dense, made);
    const ValueId terms = ctx.emit(
        "where", {ctx.emit("eq", {wanted, zero}), zero, ctx.emit("mul", {wanted, log_prob})});
    loss = ctx.emit("neg", {ctx.reduce("reduce_sum", terms, made.axes)});
  }
  if (made.counts) loss = ctx.emit("where", {*made.counts, loss, zero});
  if (reduction == "none") {
    loss = ctx.reshape(loss, positions_of(logits, axis));
  } else {
    loss = ctx.reduce("reduce_sum", loss, axes_from(0, logits.size()), NodeBuilder::Axes::Drop);
    if (reduction == "mean") loss = ctx.emit("div", {loss, mean_divisor(ctx, logits, axis, made)});
  }
  const bool gives_log_prob = ctx.node().outputs.size() > 1;
  ctx.replace_output(0, ctx.cast(loss, dtype));
  if (gives_log_prob) ctx.replace_output(1, ctx.cast(log_prob, dtype));
  return true;
}

// Of the log-probabilities nothing passes on: a loss of them is written as log_softmax.
bool cross_entropy_gradient(GradientContext& ctx) {
  if (ctx.has_gradient(1)) {
    return ctx.fail(DiagCode::UnknownOp, "its second output has no gradient",
                    "compute the log-probabilities by log_softmax");
  }
  if (ctx.wants(1)) {
    return ctx.fail(DiagCode::UnknownOp, "its target has no gradient", "stop it: stop_gradient");
  }
  NodeBuilder::Inputs inputs = {ctx.input(0), ctx.input(1), ctx.gradient()};
  if (ctx.has_input(2)) inputs.push_back(ctx.input(2));
  ctx.give(0, ctx.emit("softmax_cross_entropy_backward", std::move(inputs), ctx.attributes()));
  return true;
}

constexpr AttrSpec kSoftmaxAttrs[] = {
    {.name = "axis", .type = AttrType::Int, .default_text = "-1"}};
constexpr std::array<std::string_view, 3> kReductions = {"none", "mean", "sum"};
constexpr std::array kCrossEntropyAttrs = {
    AttrSpec{.name = "axis", .type = AttrType::Int, .default_text = "1"},
    AttrSpec{.name = "reduction",
             .type = AttrType::String,
             .default_text = "\"none\"",
             .choices = kReductions},
    AttrSpec{.name = "ignore_index", .type = AttrType::Int},
    AttrSpec{.name = "label_smoothing",
             .type = AttrType::Float,
             .default_text = "0",
             .minimum = 0,
             .maximum = 1},
};
constexpr std::array<uint32_t, 1> kLossOptional = {2};
constexpr std::array<uint32_t, 1> kLossBackwardOptional = {3};

constexpr OpDef softmax_backward_op(std::string_view name, std::string_view signature) {
  return {.name = name,
          .signature = signature,
          .inputs = {2, 2},
          .outputs = {1, 1},
          .attrs = kSoftmaxAttrs,
          .infer = infer_softmax_backward,
          .evaluate = evaluate_softmax_backward,
          .decompose = decompose_softmax_backward};
}

constexpr std::array kLossOps = {
    softmax_backward_op("softmax_backward", "softmax_backward(y, dy; axis=-1) -> dx"),
    softmax_backward_op("log_softmax_backward", "log_softmax_backward(y, dy; axis=-1) -> dx"),
    OpDef{.name = "softmax_cross_entropy",
          .signature = "softmax_cross_entropy(logits, target, [class_weight]; axis=1, "
                       "reduction=\"none\", ignore_index, label_smoothing=0) -> loss, [log_prob]",
          .inputs = {2, 3},
          .outputs = {1, 2},
          .attrs = kCrossEntropyAttrs,
          .infer = infer_cross_entropy,
          .evaluate = evaluate_cross_entropy,
          .decompose = decompose_cross_entropy,
          .gradient = cross_entropy_gradient,
          .optional_inputs = kLossOptional,
          .keeps_f32 = 0b10},
    OpDef{.name = "softmax_cross_entropy_backward",
          .signature = "softmax_cross_entropy_backward(logits, target, d_loss, [class_weight]; "
                       "axis=1, reduction=\"none\", ignore_index, label_smoothing=0) -> dlogits",
          .inputs = {3, 4},
          .outputs = {1, 1},
          .attrs = kCrossEntropyAttrs,
          .infer = infer_cross_entropy,
          .evaluate = evaluate_cross_entropy,
          .decompose = decompose_cross_entropy,
          .optional_inputs = kLossBackwardOptional,
          .keeps_f32 = 0b10},
};

}  // namespace

std::span<const OpDef> losses_ops() {
  return kLossOps;
}

}  // namespace rlx
