// SPDX-License-Identifier: Apache-2.0
// One layer of a recurrent network: its interface and its definition on the host.
#include "compiler/ops/sequences/recurrence.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/sequences/recurrence_gradient.h"
#include "compiler/ops/sequences/recurrence_lower.h"

namespace rlx {

CellKind cell_kind(const AttributeReader& attrs) {
  const std::string name = attrs.text("cell");
  const auto* const found = std::find(std::begin(kCellNames), std::end(kCellNames), name);
  return static_cast<CellKind>(found - std::begin(kCellNames));
}

int64_t gates_of(CellKind kind) {
  switch (kind) {
    case CellKind::Lstm:
      return 4;
    case CellKind::Gru:
    case CellKind::GruResetFirst:
      return 3;
    case CellKind::Tanh:
    case CellKind::Relu:
      return 1;
  }
  return 1;
}

SequenceForm sequence_form(const AttributeReader& attrs) {
  const std::string direction = attrs.text("direction");
  return {.directions = direction == "bidirectional" ? 2 : 1,
          .begins_backward = direction == "reverse",
          .time_first = attrs.text("layout") == "sbi"};
}

bool check_sequence_input(InferContext& ctx, size_t input, std::string_view name,
                          const Shape& wanted) {
  if (!ctx.has_input(input)) return true;
  if (!is_float(ctx.dtype(input))) {
    return ctx.fail(DiagCode::BadDtype, std::string(name) + " is " +
                                            std::string(name_of(ctx.dtype(input))) +
                                            ", wanted a float type");
  }
  if (ctx.shape(input) == wanted) return true;
  return ctx.fail(DiagCode::BadShape, std::string(name) + " has shape " +
                                          to_string(ctx.shape(input)) + ", wanted " +
                                          to_string(wanted));
}

bool check_lengths(InferContext& ctx, size_t input, const Dim& batch) {
  if (!ctx.has_input(input)) return true;
  const TensorType& lengths = ctx.input(input);
  if (!is_integer(lengths.dtype)) {
    return ctx.fail(DiagCode::BadDtype, "seq_lens are " + std::string(name_of(lengths.dtype)) +
                                            ", wanted an integer type");
  }
  if (lengths.shape == Shape{batch}) return true;
  return ctx.fail(DiagCode::BadShape, "seq_lens have shape " + to_string(lengths.shape) +
                                          ", wanted " + to_string(Shape{batch}) +
                                          ", one length for each sequence");
}

std::vector<int64_t> lengths_of(const Tensor& lengths, int64_t steps) {
  std::vector<int64_t> result = lengths.integers;
  for (int64_t& length : result) length = std::clamp<int64_t>(length, 0, steps);
  return result;
}

namespace {

double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}

// One sequence in one direction.
class SequenceRun {
 public:
  SequenceRun(LayerValues& layer, int64_t direction, int64_t sequence)
      : layer_(layer),
        direction_(direction),
        sequence_(sequence),
        state_(static_cast<size_t>((direction * layer.batch + sequence) * layer.hidden)),
        z_(static_cast<size_t>(gates_of(layer.cell) * layer.hidden)) {}

  void run() {
    const int64_t length =
        layer_.lengths.empty() ? layer_.steps : layer_.lengths[static_cast<size_t>(sequence_)];
    for (int64_t step = 0; step < length; ++step) {
      const int64_t time = layer_.form.is_backward(direction_) ? length - 1 - step : step;
      advance(time);
      for (int64_t j = 0; j < layer_.hidden; ++j) {
        const int64_t at = place(time) * layer_.form.directions * layer_.hidden;
        layer_.y[static_cast<size_t>(at + direction_ * layer_.hidden + j)] = h(j);
      }
    }
  }

 private:
  // Of sequence and time among all.
  [[nodiscard]] int64_t place(int64_t time) const {
    return layer_.form.time_first ? time * layer_.batch + sequence_
                                  : sequence_ * layer_.steps + time;
  }
  double& h(int64_t j) { return layer_.h[state_ + static_cast<size_t>(j)]; }
  double& c(int64_t j) { return layer_.c[state_ + static_cast<size_t>(j)]; }
  double& z(int64_t gate, int64_t j) { return z_[static_cast<size_t>(gate * layer_.hidden + j)]; }
  [[nodiscard]] double peephole(int64_t which, int64_t j) const {
    if (layer_.peephole.empty()) return 0;
    return layer_.peephole[static_cast<size_t>((direction_ * 3 + which) * layer_.hidden + j)];
  }
  // Row `gate * hidden + j` of the weights times `values`.
  [[nodiscard]] double product(int64_t gate, int64_t j, const std::vector<double>& values) const {
    const int64_t gates = gates_of(layer_.cell);
    const int64_t row = (direction_ * gates + gate) * layer_.hidden + j;
    double sum = 0;
    for (int64_t k = 0; k < layer_.hidden; ++k)
      sum +=
          layer_.w[static_cast<size_t>(row * layer_.hidden + k)] * values[static_cast<size_t>(k)];
    return sum;
  }

  void advance(int64_t time) {
    const int64_t gates = gates_of(layer_.cell);
    const auto begin = layer_.h.begin() + static_cast<std::ptrdiff_t>(state_);
    const std::vector<double> old(begin, begin + static_cast<std::ptrdiff_t>(layer_.hidden));
    const int64_t from =
        (place(time) * layer_.form.directions + direction_) * gates * layer_.hidden;
    for (int64_t i = 0; i < gates * layer_.hidden; ++i)
      z_[static_cast<size_t>(i)] = layer_.x[static_cast<size_t>(from + i)];
    switch (layer_.cell) {
      case CellKind::Lstm:
        return advance_lstm(old);
      case CellKind::Gru:
      case CellKind::GruResetFirst:
        return advance_gru(old);
      case CellKind::Tanh:
      case CellKind::Relu:
        for (int64_t j = 0; j < layer_.hidden; ++j) {
          const double sum = z(0, j) + product(0, j, old);
          h(j) = layer_.cell == CellKind::Tanh ? std::tanh(sum) : sum < 0 ? 0 : sum;
        }
    }
  }

  // Gates i, f, g, o; the peephole of o sees the new c.
  void advance_lstm(const std::vector<double>& old) {
    for (int64_t j = 0; j < layer_.hidden; ++j) {
      const double i = sigmoid_of(z(0, j) + product(0, j, old) + peephole(0, j) * c(j));
      const double f = sigmoid_of(z(1, j) + product(1, j, old) + peephole(2, j) * c(j));
      const double g = std::tanh(z(2, j) + product(2, j, old));
      c(j) = f * c(j) + i * g;
      h(j) = sigmoid_of(z(3, j) + product(3, j, old) + peephole(1, j) * c(j)) * std::tanh(c(j));
    }
  }

  // Gates r, z, n.
  void advance_gru(const std::vector<double>& old) {
    std::vector<double> reset = old;
    for (int64_t j = 0; j < layer_.hidden; ++j) {
      z(0, j) = sigmoid_of(z(0, j) + product(0, j, old));
      z(1, j) = sigmoid_of(z(1, j) + product(1, j, old));
      reset[static_cast<size_t>(j)] *= z(0, j);
    }
    for (int64_t j = 0; j < layer_.hidden; ++j) {
      double inner = 0;
      if (layer_.cell == CellKind::GruResetFirst) {
        inner = product(2, j, reset);
      } else {
        const double bias = layer_.bias.empty()
                                ? 0
                                : layer_.bias[static_cast<size_t>(direction_ * layer_.hidden + j)];
        inner = z(0, j) * (product(2, j, old) + bias);
      }
      const double n = std::tanh(z(2, j) + inner);
      h(j) = (1 - z(1, j)) * n + z(1, j) * h(j);
    }
  }

  LayerValues& layer_;
  int64_t direction_;
  int64_t sequence_;
  size_t state_;
  std::vector<double> z_;
};

}  // namespace

void run_layer(LayerValues& layer) {
  const auto states = static_cast<size_t>(layer.form.directions * layer.batch * layer.hidden);
  if (layer.h.empty()) layer.h.assign(states, 0);
  if (layer.c.empty()) layer.c.assign(states, 0);
  layer.y.assign(states * static_cast<size_t>(layer.steps), 0);
  for (int64_t direction = 0; direction < layer.form.directions; ++direction) {
    for (int64_t sequence = 0; sequence < layer.batch; ++sequence)
      SequenceRun(layer, direction, sequence).run();
  }
}

namespace {

bool check_weights(InferContext& ctx, int64_t gates, int64_t directions) {
  const Shape& w = ctx.shape(1);
  const bool fits = w.size() == 3 && w[0] == directions && w[1] == w[2] * gates && w[2] > 0;
  if (!is_float(ctx.dtype(1)) || !fits) {
    return ctx.fail(DiagCode::BadShape, "w is " + to_string(ctx.input(1)) + ", wanted floats [" +
                                            std::to_string(directions) + ", " +
                                            std::to_string(gates) + " * hidden, hidden]");
  }
  if (w[2].is_free()) {
    return ctx.fail(DiagCode::FreeSize, "hidden, the last dim of w, is a size of the run",
                    "give w a fixed shape");
  }
  return true;
}

bool infer_recurrence(InferContext& ctx) {
  const CellKind cell = cell_kind(ctx.attrs());
  const SequenceForm form = sequence_form(ctx.attrs());
  const int64_t gates = gates_of(cell);
  const TensorType x = ctx.input(0);
  if ((x.dtype != DType::f32 && x.dtype != DType::f64) || x.shape.size() != 3) {
    return ctx.fail(DiagCode::BadShape, "x is " + to_string(x) + ", wanted f32 or f64 of rank 3");
  }
  if (!check_weights(ctx, gates, form.directions)) return false;
  const Dim hidden = ctx.shape(1)[2];
  if (x.shape[2] != hidden * (form.directions * gates)) {
    return ctx.fail(DiagCode::BadShape, "x is " + to_string(x) + " beside w " +
                                            to_string(ctx.input(1)) +
                                            ", wanted a last dim of directions * gates * hidden, " +
                                            to_string(hidden * (form.directions * gates)));
  }
  const Dim batch = x.shape[form.batch_axis()];
  const Shape state = {form.directions, batch, hidden};
  if (!check_sequence_input(ctx, 2, "bias", {form.directions, hidden}) ||
      !check_sequence_input(ctx, 3, "h0", state) || !check_sequence_input(ctx, 4, "c0", state) ||
      !check_lengths(ctx, 5, batch) ||
      !check_sequence_input(ctx, 6, "peephole", {form.directions, hidden * 3})) {
    return false;
  }
  for (const size_t input : {size_t{2}, size_t{3}, size_t{4}, size_t{6}}) {
    if (!ctx.has_input(input) || ctx.dtype(input) == x.dtype) continue;
    return ctx.fail(DiagCode::BadDtype, "input " + std::to_string(input) + " is " +
                                            std::string(name_of(ctx.dtype(input))) +
                                            ", wanted the type of x");
  }
  const bool is_lstm = cell == CellKind::Lstm;
  if ((ctx.has_input(2) && cell != CellKind::Gru) ||
      ((ctx.has_input(4) || ctx.has_input(6)) && !is_lstm)) {
    return ctx.fail(
        DiagCode::BadAttribute,
        "bias is for gru, c0 and peephole are for lstm; the cell is " + ctx.attrs().text("cell"));
  }
  const DType y = ctx.attrs().dtype("dtype");
  if (!is_float(y)) {
    return ctx.fail(DiagCode::BadAttribute,
                    "dtype is " + std::string(name_of(y)) + ", wanted a float type");
  }
  Shape shape = x.shape;
  shape[2] = hidden * form.directions;
  ctx.set_output(0, {y, shape});
  ctx.set_output(1, {x.dtype, state});
  if (is_lstm) ctx.set_output(2, {x.dtype, state});
  return true;
}

bool evaluate_recurrence(EvaluateContext& ctx) {
  const auto floats = [&ctx](size_t input) {
    return ctx.has_input(input) ? ctx.input(input).floats : std::vector<double>();
  };
  const Shape& x = ctx.input(0).type.shape;
  const SequenceForm form = sequence_form(ctx.attrs());
  LayerValues layer{.cell = cell_kind(ctx.attrs()),
                    .form = form,
                    .batch = static_cast<int64_t>(x[form.batch_axis()]),
                    .steps = static_cast<int64_t>(x[form.time_axis()]),
                    .hidden = static_cast<int64_t>(ctx.input(1).type.shape[2]),
                    .x = floats(0),
                    .w = floats(1),
                    .bias = floats(2),
                    .h = floats(3),
                    .c = floats(4),
                    .lengths = {},
                    .peephole = floats(6),
                    .y = {}};
  if (ctx.has_input(5)) layer.lengths = lengths_of(ctx.input(5), layer.steps);
  run_layer(layer);
  ctx.output(0).floats = layer.y;
  if (ctx.output_count() > 1) ctx.output(1).floats = layer.h;
  if (ctx.output_count() > 2) ctx.output(2).floats = layer.c;
  return true;
}

constexpr AttrSpec kRecurrence[] = {
    {.name = "cell", .type = AttrType::String, .required = true, .choices = kCellNames},
    {.name = "direction",
     .type = AttrType::String,
     .default_text = "\"forward\"",
     .choices = kDirections},
    {.name = "layout",
     .type = AttrType::String,
     .default_text = "\"bsi\"",
     .choices = kSequenceLayouts},
    {.name = "dtype",
     .type = AttrType::DTypeName,
     .default_text = "\"f32\"",
     .consumed_by_infer = true},
};
constexpr uint32_t kRecurrenceOptional[] = {2, 3, 4, 5, 6};

constexpr OpDef kRecurrenceOps[] = {
    {.name = "recurrence",
     .signature = "recurrence(x, w, [bias], [h0], [c0], [seq_lens], [peephole]; cell, "
                  "direction=forward, layout=bsi, dtype=f32) -> y, [h_n], [c_n]",
     .inputs = {2, 7},
     .outputs = {1, 3},
     .attrs = kRecurrence,
     .infer = infer_recurrence,
     .evaluate = evaluate_recurrence,
     .gradient = recurrence_gradient,
     .lower = lower_recurrence,
     .optional_inputs = kRecurrenceOptional,
     .keeps_f32 = 0b1011101},
};

}  // namespace

std::span<const OpDef> recurrence_ops() {
  return kRecurrenceOps;
}

}  // namespace rlx
