// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM: lstm, gru and rnn, or step by step where their cells are others, for as many
// steps as are known when the model is compiled.
#include <algorithm>
#include <array>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {

void dynamic_quantized_lstm(NodeReader& n, const OnnxOp& row);

namespace {

constexpr int64_t kMostSteps = 512;
constexpr int64_t kMostStepNodes = 32;  // a step is about a dozen nodes

struct Activation {
  std::string_view name;
  std::string_view op;
  std::string_view alpha = {};  // attribute that takes alpha, beta
  std::string_view beta = {};
  double default_alpha = 0;
  double default_beta = 0;
};
constexpr std::array kActivations = {
    Activation{"Relu", "relu"},
    Activation{"Tanh", "tanh"},
    Activation{"Sigmoid", "sigmoid"},
    Activation{"Softsign", "softsign"},
    Activation{"Softplus", "softplus"},
    Activation{"Affine", "affine", "mul", "add", 1, 0},
    Activation{"LeakyRelu", "leaky_relu", "alpha", "", 0.01},
    Activation{"ThresholdedRelu", "thresholded_relu", "alpha", "", 1},
    Activation{"HardSigmoid", "hard_sigmoid", "alpha", "beta", 0.2, 0.5},
    Activation{"Elu", "elu", "alpha", "", 1},
};

struct ChosenActivation {
  std::string_view op;
  Attributes attributes;
};

// One list for both directions, `count` for each.
std::vector<ChosenActivation> read_activations(NodeReader& n, std::vector<std::string> defaults,
                                               size_t directions) {
  const size_t count = defaults.size();
  std::vector<std::string> names;
  for (size_t d = 0; d < directions; ++d)
    names.insert(names.end(), defaults.begin(), defaults.end());
  if (const auto* written = n.attribute("activations"))
    names.assign(written->strings().begin(), written->strings().end());
  if (names.size() != count * directions)
    n.refuse("it has " + std::to_string(names.size()) + " activations, wanted " +
             std::to_string(count * directions));
  const Floats alphas = n.reals("activation_alpha", {});
  const Floats betas = n.reals("activation_beta", {});
  size_t next_alpha = 0;
  size_t next_beta = 0;
  std::vector<ChosenActivation> chosen;
  for (const std::string& name : names) {
    const auto row = std::find_if(kActivations.begin(), kActivations.end(),
                                  [&](const Activation& item) { return item.name == name; });
    if (row == kActivations.end()) n.refuse("the activation \"" + name + "\" is not supported");
    chosen.push_back({.op = row->op, .attributes = {}});
    // Values are taken in order by those activations that have them.
    if (!row->alpha.empty()) {
      chosen.back().attributes.emplace(
          row->alpha, next_alpha < alphas.size() ? alphas[next_alpha++] : row->default_alpha);
    }
    if (!row->beta.empty()) {
      chosen.back().attributes.emplace(
          row->beta, next_beta < betas.size() ? betas[next_beta++] : row->default_beta);
    }
  }
  return chosen;
}

// Inputs of one direction, time first: x [S, B, I]; weights of `gates` blocks of H rows.
struct Direction {
  ValueId x_part;                   // [S, B, gates * H]: x * Wᵀ and the bias that is added to it
  ValueId r;                        // [gates * H, H]
  std::optional<ValueId> r_bias;    // [gates * H], where it stays apart (GRU)
  std::optional<ValueId> peephole;  // [3 * H]
  ValueId h;                        // [B, H]
  std::optional<ValueId> c;
  std::vector<ChosenActivation> activations;
};

// What the three operators say alike.
struct RecurrentNode {
  std::string direction;
  size_t directions = 1;
  bool batch_first = false;
  double clip = 0;
  int64_t gates = 1;
  int64_t hidden = 0;
  std::vector<ChosenActivation> activations;

  // Sigmoids and hyperbolic tangents where the operator's definition has them, and no clipping.
  [[nodiscard]] bool has_activations(const std::vector<std::string>& wanted) const {
    bool same = clip == 0;
    for (size_t i = 0; i < activations.size(); ++i)
      same = same && activations[i].op == wanted[i % wanted.size()];
    return same;
  }
};

void check_recurrent_input(NodeReader& n, size_t i, const Shape& wanted) {
  if (n.shape(i) == wanted) return;
  n.refuse_shapes("input " + std::to_string(i) + " is " + to_string(n.shape(i)) + ", wanted " +
                  to_string(wanted));
}

RecurrentNode read_recurrent(NodeReader& n, int64_t gates, std::vector<std::string> activations) {
  RecurrentNode node{.direction = n.text("direction", "forward"), .gates = gates};
  if (node.direction != "forward" && node.direction != "reverse" &&
      node.direction != "bidirectional")
    n.refuse("the direction \"" + node.direction + "\" is unknown");
  node.directions = node.direction == "bidirectional" ? 2 : 1;
  node.batch_first = n.integer("layout", 0) != 0;
  node.clip = n.real("clip", 0);
  if (n.opset() < 7) n.integer("output_sequence", 0);
  if (n.rank(0) != 3 || n.rank(1) != 3 || n.rank(2) != 3)
    n.refuse_shapes("X, W and R are " + to_string(n.shape(0)) + ", " + to_string(n.shape(1)) +
                    " and " + to_string(n.shape(2)) + ", wanted rank 3");
  node.hidden = n.shape(2)[2];
  if (n.integer("hidden_size", node.hidden) != node.hidden ||
      n.shape(1)[0] != static_cast<int64_t>(node.directions) ||
      n.shape(1)[1] != gates * node.hidden)
    n.refuse_shapes("W " + to_string(n.shape(1)) + " and R " + to_string(n.shape(2)) +
                    " do not fit its directions and hidden_size");
  check_recurrent_input(n, 2,
                        {static_cast<int64_t>(node.directions), gates * node.hidden, node.hidden});
  node.activations = read_activations(n, std::move(activations), node.directions);
  return node;
}

// The node as one of rlx's operators, whose gates stand in another order.
class RecurrentOp {
 public:
  // `order`: ONNX's place of each gate.
  RecurrentOp(NodeReader& n, const RecurrentNode& node, std::vector<int64_t> order)
      : n_(n), node_(node), order_(std::move(order)) {}

  // Inputs behind the weights, in rlx's order.
  std::optional<ValueId> bias(bool of_recurrence) {
    if (!n_.has_input(3)) return std::nullopt;
    const int64_t rows = node_.gates * node_.hidden;
    check_recurrent_input(n_, 3, {static_cast<int64_t>(node_.directions), 2 * rows});
    return in_order(n_.emit(
        "narrow", {n_.input(3)},
        {{"axis", int64_t{1}}, {"start", of_recurrence ? rows : int64_t{0}}, {"len", rows}}));
  }
  std::optional<ValueId> both_biases() {
    if (!n_.has_input(3)) return std::nullopt;
    return n_.emit("add", {*bias(false), *bias(true)});
  }
  std::optional<ValueId> state(size_t i) {
    if (!n_.has_input(i)) return std::nullopt;
    ValueId value = n_.input(i);
    if (node_.batch_first) value = n_.transpose(value, {1, 0, 2});
    return cast(value, n_.dtype(0) == DType::f64 ? DType::f64 : DType::f32);
  }
  std::optional<ValueId> given(size_t i) {
    return n_.has_input(i) ? std::optional(n_.input(i)) : std::nullopt;
  }

  void emit(const std::string& op, Inputs behind_weights, Attributes attributes, size_t outputs) {
    Inputs inputs = {n_.input(0), in_order(n_.input(1)), in_order(n_.input(2))};
    inputs.insert(inputs.end(), behind_weights.begin(), behind_weights.end());
    attributes["hidden_size"] = node_.hidden;
    attributes["direction"] = node_.direction;
    attributes["layout"] = std::string(node_.batch_first ? "bsi" : "sbi");
    const std::vector<ValueId> results = n_.emit_all(op, std::move(inputs), attributes, outputs);
    if (n_.wants_output(0)) n_.set_output(0, sequence(results[0]));
    for (size_t i = 1; i < outputs; ++i) {
      if (!n_.wants_output(i)) continue;
      const ValueId last = node_.batch_first ? n_.transpose(results[i], {1, 0, 2}) : results[i];
      n_.set_output(i, cast(last, n_.dtype(0)));
    }
  }

 private:
  ValueId cast(ValueId value, DType dtype) {
    if (n_.type(value).dtype == dtype) return value;
    return n_.emit("cast", {value}, {{"to", std::string(name_of(dtype))}});
  }

  // [directions, gates * hidden, ..] with its gates in rlx's order.
  ValueId in_order(ValueId value) {
    if (std::is_sorted(order_.begin(), order_.end())) return value;
    Inputs parts;
    for (const int64_t gate : order_) {
      parts.emplace_back(
          n_.emit("narrow", {value},
                  {{"axis", int64_t{1}}, {"start", gate * node_.hidden}, {"len", node_.hidden}}));
    }
    return n_.emit("concat", std::move(parts), {{"axis", int64_t{1}}});
  }

  // [S, D, B, H], or [B, S, D, H], of [.., D * H].
  ValueId sequence(ValueId y) {
    const Shape shape = n_.type(y).shape;
    const auto directions = static_cast<int64_t>(node_.directions);
    y = n_.reshape(y, {shape[0], shape[1], directions, node_.hidden});
    return node_.batch_first ? y : n_.transpose(y, {0, 2, 1, 3});
  }

  NodeReader& n_;
  const RecurrentNode& node_;
  std::vector<int64_t> order_;
};

// Other cells, unrolled.
class UnrolledRecurrence {
 public:
  UnrolledRecurrence(NodeReader& n, const RecurrentNode& node)
      : n_(n),
        gates_(node.gates),
        directions_(node.directions),
        is_reverse_(node.direction == "reverse"),
        batch_first_(node.batch_first),
        clip_(node.clip),
        hidden_(node.hidden),
        activations_(node.activations) {
    x_ = batch_first_ ? n.transpose(n.input(0), {1, 0, 2}) : n.input(0);
    steps_ = n.type(x_).shape[0];
    batch_ = n.type(x_).shape[1];
    if (steps_ * static_cast<int64_t>(directions_) > kMostSteps)
      n.refuse("a sequence of " + std::to_string(steps_) +
               " steps is not supported; steps are "
               "unrolled, up to " +
               std::to_string(kMostSteps) + " of them");
    n.builder().expect_nodes(
        static_cast<uint64_t>(steps_ * static_cast<int64_t>(directions_) * kMostStepNodes));
  }

  // `keep_r_bias`: the recurrent bias stays apart. `state_c`, `peephole`: inputs that hold these, 0
  // where there are none.
  struct Parts {
    bool keep_r_bias = false;
    size_t state_c = 0;
    size_t peephole = 0;
  };
  Direction direction(size_t d, Parts parts) {
    const ValueId w = row(1, d);
    const size_t count = activations_.size() / directions_;
    const auto first = activations_.begin() + static_cast<int64_t>(d * count);
    Direction result{.x_part = n_.emit("matmul", {x_, w}, {{"trans_b", true}}),
                     .r = row(2, d),
                     .r_bias = {},
                     .peephole = {},
                     .h = state(5, d),
                     .c = {},
                     .activations = {first, first + static_cast<int64_t>(count)}};
    if (n_.has_input(3)) {
      check_recurrent_input(n_, 3, {static_cast<int64_t>(directions_), 2 * gates_ * hidden_});
      const ValueId bias = row(3, d);
      const ValueId of_w = cut(bias, 0, 0, gates_ * hidden_);
      const ValueId of_r = cut(bias, 0, gates_ * hidden_, gates_ * hidden_);
      if (parts.keep_r_bias) result.r_bias = of_r;
      const ValueId sum = parts.keep_r_bias ? of_w : n_.emit("add", {of_w, of_r});
      result.x_part = n_.emit("add", {result.x_part, sum});
    }
    if (parts.state_c != 0) result.c = state(parts.state_c, d);
    if (parts.peephole != 0 && n_.has_input(parts.peephole)) {
      check_recurrent_input(n_, parts.peephole, {static_cast<int64_t>(directions_), 3 * hidden_});
      result.peephole = row(parts.peephole, d);
    }
    return result;
  }

  // Walks the steps; `advance(part of x [B, gates * H])` gives the new h and sets the direction's
  // c.
  template <typename Advance>
  void walk(size_t d, Direction& state, Advance advance) {
    const bool backwards = is_reverse_ || d == 1;
    std::vector<ValueId> outputs(static_cast<size_t>(steps_), state.h);
    for (int64_t i = 0; i < steps_; ++i) {
      const int64_t t = backwards ? steps_ - 1 - i : i;
      const ValueId x = n_.reshape(cut(state.x_part, 0, t, 1), {batch_, gates_ * hidden_});
      const ValueId old_h = state.h;
      const std::optional<ValueId> old_c = state.c;
      state.h = advance(x);
      ValueId y = state.h;
      if (n_.has_input(4)) {
        // Behind a row's length its state stays and its output is zero.
        const ValueId lengths = n_.reshape(n_.input(4), {batch_, 1});
        const ValueId is_inside =
            n_.emit("gt", {lengths, n_.scalar(n_.dtype(4), static_cast<double>(t))});
        y = n_.emit("where", {is_inside, state.h, n_.scalar(n_.dtype(0), 0)});
        state.h = n_.emit("where", {is_inside, state.h, old_h});
        if (old_c) state.c = n_.emit("where", {is_inside, *state.c, *old_c});
      }
      outputs[static_cast<size_t>(t)] = y;
    }
    sequences_.push_back(outputs);
    last_h_.push_back(state.h);
    if (state.c) last_c_.push_back(*state.c);
  }

  void finish() {
    if (steps_ == 0) n_.refuse("a sequence without steps is not supported");
    if (n_.wants_output(0)) n_.set_output(0, sequence());
    if (n_.wants_output(1)) n_.set_output(1, last(last_h_));
    if (n_.wants_output(2) && !last_c_.empty()) n_.set_output(2, last(last_c_));
  }

  ValueId activate(const ChosenActivation& activation, ValueId x) {
    if (clip_ > 0) x = n_.emit("clamp", {x}, {{"min", -clip_}, {"max", clip_}});
    return n_.emit(activation.op, {x}, activation.attributes);
  }
  // Gate i of [.., gates * H].
  ValueId gate(ValueId x, int64_t i) {
    return cut(x, static_cast<int64_t>(n_.type(x).shape.size()) - 1, i * hidden_, hidden_);
  }
  ValueId gates(ValueId x, int64_t first, int64_t count) {
    return cut(x, static_cast<int64_t>(n_.type(x).shape.size()) - 1, first * hidden_,
               count * hidden_);
  }
  ValueId cut(ValueId x, int64_t axis, int64_t start, int64_t count) {
    if (start == 0 && count == n_.type(x).shape[static_cast<size_t>(axis)]) return x;
    return n_.emit("narrow", {x}, {{"axis", axis}, {"start", start}, {"len", count}});
  }
  [[nodiscard]] size_t directions() const { return directions_; }

 private:
  // Row d of an input whose first axis is the direction.
  ValueId row(size_t i, size_t d) {
    const Shape shape = n_.shape(i);
    if (shape.empty() || shape[0] != static_cast<int64_t>(directions_))
      n_.refuse_shapes("input " + std::to_string(i) + " is " + to_string(shape) + ", wanted " +
                       std::to_string(directions_) + " directions first");
    return n_.reshape(cut(n_.input(i), 0, static_cast<int64_t>(d), 1),
                      Shape(shape.begin() + 1, shape.end()));
  }

  ValueId state(size_t i, size_t d) {
    if (!n_.has_input(i)) {
      return n_.emit(
          "fill", {},
          {{"shape", Ints{batch_, hidden_}}, {"dtype", std::string(name_of(n_.dtype(0)))}});
    }
    const auto directions = static_cast<int64_t>(directions_);
    check_recurrent_input(
        n_, i,
        batch_first_ ? Shape{batch_, directions, hidden_} : Shape{directions, batch_, hidden_});
    if (!batch_first_) return row(i, d);
    return n_.reshape(cut(n_.input(i), 1, static_cast<int64_t>(d), 1), {batch_, hidden_});
  }

  // [S, D, B, H], or [B, S, D, H].
  ValueId sequence() {
    Inputs parts;
    for (int64_t t = 0; t < steps_; ++t) {
      for (const std::vector<ValueId>& outputs : sequences_)
        parts.emplace_back(n_.reshape(outputs[static_cast<size_t>(t)], {1, batch_, hidden_}));
    }
    ValueId y = parts.size() == 1 ? *parts.front()
                                  : n_.emit("concat", std::move(parts), {{"axis", int64_t{0}}});
    y = n_.reshape(y, {steps_, static_cast<int64_t>(directions_), batch_, hidden_});
    return batch_first_ ? n_.transpose(y, {2, 0, 1, 3}) : y;
  }

  // [D, B, H], or [B, D, H].
  ValueId last(const std::vector<ValueId>& states) {
    Inputs parts;
    for (const ValueId state : states) parts.emplace_back(n_.reshape(state, {1, batch_, hidden_}));
    const ValueId y = parts.size() == 1
                          ? *parts.front()
                          : n_.emit("concat", std::move(parts), {{"axis", int64_t{0}}});
    return batch_first_ ? n_.transpose(y, {1, 0, 2}) : y;
  }

  NodeReader& n_;
  int64_t gates_;
  size_t directions_ = 1;
  bool is_reverse_ = false;
  bool batch_first_ = false;
  double clip_ = 0;
  int64_t hidden_ = 0;
  int64_t steps_ = 0;
  int64_t batch_ = 0;
  ValueId x_ = {};
  std::vector<ChosenActivation> activations_;
  std::vector<std::vector<ValueId>> sequences_;
  std::vector<ValueId> last_h_;
  std::vector<ValueId> last_c_;
};

ValueId times_transposed(NodeReader& n, ValueId h, ValueId r) {
  return n.emit("matmul", {h, r}, {{"trans_b", true}});
}

// h = f(x Wᵀ + h Rᵀ + b)
void rnn(NodeReader& n, const OnnxOp&) {
  const RecurrentNode node = read_recurrent(n, 1, {"Tanh"});
  for (const std::string activation : {"tanh", "relu"}) {
    if (!node.has_activations({activation})) continue;
    RecurrentOp op(n, node, {0});
    return op.emit("rnn", {op.both_biases(), op.state(5), op.given(4)},
                   {{"activation", activation}}, 2);
  }
  UnrolledRecurrence run(n, node);
  for (size_t d = 0; d < run.directions(); ++d) {
    Direction s = run.direction(d, {});
    run.walk(d, s, [&](ValueId x) {
      return run.activate(s.activations[0], n.emit("add", {x, times_transposed(n, s.h, s.r)}));
    });
  }
  run.finish();
}

// Gates z, r, h: h' = (1 - z) g(..) + z h; the reset gate weighs h before or after its product.
void gru(NodeReader& n, const OnnxOp&) {
  const bool resets_after = n.integer("linear_before_reset", 0) != 0;
  const RecurrentNode node = read_recurrent(n, 3, {"Sigmoid", "Tanh"});
  if (node.has_activations({"sigmoid", "tanh"})) {
    RecurrentOp op(n, node, {1, 0, 2});
    return op.emit("gru", {op.bias(false), op.bias(true), op.state(5), op.given(4)},
                   {{"linear_before_reset", resets_after}}, 2);
  }
  UnrolledRecurrence run(n, node);
  for (size_t d = 0; d < run.directions(); ++d) {
    Direction s = run.direction(d, {.keep_r_bias = true});
    const ValueId r_zr = run.cut(s.r, 0, 0, n.type(s.r).shape[0] / 3 * 2);
    const ValueId r_h = run.cut(s.r, 0, n.type(s.r).shape[0] / 3 * 2, n.type(s.r).shape[0] / 3);
    const auto with_bias = [&](ValueId product, int64_t first, int64_t count) {
      return s.r_bias ? n.emit("add", {product, run.gates(*s.r_bias, first, count)}) : product;
    };
    run.walk(d, s, [&](ValueId x) {
      const ValueId zr = run.activate(
          s.activations[0],
          n.emit("add", {run.gates(x, 0, 2), with_bias(times_transposed(n, s.h, r_zr), 0, 2)}));
      const ValueId z = run.gate(zr, 0);
      const ValueId r = run.gate(zr, 1);
      ValueId recurrent;
      if (resets_after) {
        recurrent = n.emit("mul", {r, with_bias(times_transposed(n, s.h, r_h), 2, 1)});
      } else {
        recurrent = with_bias(times_transposed(n, n.emit("mul", {r, s.h}), r_h), 2, 1);
      }
      const ValueId candidate =
          run.activate(s.activations[1], n.emit("add", {run.gate(x, 2), recurrent}));
      const ValueId fresh = n.emit("sub", {candidate, n.emit("mul", {z, candidate})});
      return n.emit("add", {fresh, n.emit("mul", {z, s.h})});
    });
  }
  run.finish();
}

// Gates i, o, f, c; a peephole adds c to i and f, and the new c to o.
void lstm(NodeReader& n, const OnnxOp&) {
  const bool couples = n.integer("input_forget", 0) != 0;
  const RecurrentNode node = read_recurrent(n, 4, {"Sigmoid", "Tanh", "Tanh"});
  if (!couples && node.has_activations({"sigmoid", "tanh", "tanh"})) {
    RecurrentOp op(n, node, {0, 2, 3, 1});
    return op.emit("lstm", {op.both_biases(), op.state(5), op.state(6), op.given(4), op.given(7)},
                   {}, 3);
  }
  UnrolledRecurrence run(n, node);
  for (size_t d = 0; d < run.directions(); ++d) {
    Direction s = run.direction(d, {.keep_r_bias = false, .state_c = 6, .peephole = 7});
    const auto peep = [&](ValueId x, int64_t which, ValueId c) {
      if (!s.peephole) return x;
      return n.emit("add", {x, n.emit("mul", {run.gate(*s.peephole, which), c})});
    };
    run.walk(d, s, [&](ValueId x) {
      const ValueId all = n.emit("add", {x, times_transposed(n, s.h, s.r)});
      const ValueId c = *s.c;
      const ValueId i = run.activate(s.activations[0], peep(run.gate(all, 0), 0, c));
      const ValueId f = couples ? n.emit("affine", {i}, {{"mul", -1.0}, {"add", 1.0}})
                                : run.activate(s.activations[0], peep(run.gate(all, 2), 2, c));
      const ValueId candidate = run.activate(s.activations[1], run.gate(all, 3));
      s.c = n.emit("add", {n.emit("mul", {f, c}), n.emit("mul", {i, candidate})});
      const ValueId o = run.activate(s.activations[0], peep(run.gate(all, 1), 1, *s.c));
      return n.emit("mul", {o, n.emit(s.activations[2].op, {*s.c}, s.activations[2].attributes)});
    });
  }
  run.finish();
}

}  // namespace

// W [D, I, 4H] and R [D, H, 4H] of 8 bits, which have a scale and a zero point for each direction,
// or for each column too. onnxruntime rounds x and h to 8 bits at each step as well; here they stay
// as they are.
void dynamic_quantized_lstm(NodeReader& n, const OnnxOp& row) {
  enum : size_t { kW = 1, kR = 2, kScaleW = 8, kZeroW, kScaleR, kZeroR };
  const auto reals = [&](size_t matrix, size_t scale) {
    if (n.rank(matrix) != 3)
      n.refuse_shapes("input " + std::to_string(matrix) + " is " + to_string(n.shape(matrix)) +
                      ", wanted rank 3");
    const auto line = [&](size_t i) {
      const bool has_columns = n.rank(i) == 2;
      return n.reshape(n.cast(n.input(i), DType::f32),
                       {n.shape(matrix)[0], 1, has_columns ? n.shape(i)[1] : Dim(1)});
    };
    ValueId w = n.cast(n.input(matrix), DType::f32);
    if (n.has_input(scale + 1)) w = n.emit("sub", {w, line(scale + 1)});
    w = n.emit("mul", {w, line(scale)});
    n.replace_input(matrix, n.transpose(w, {0, 2, 1}));
  };
  reals(kW, kScaleW);
  reals(kR, kScaleR);
  lstm(n, row);
}

namespace {

constexpr std::array kRecurrentRows = {
    OnnxOp{"RNN", rnn},
    OnnxOp{"GRU", gru},
    OnnxOp{"LSTM", lstm},
};

}  // namespace

std::span<const OnnxOp> recurrent_rows() {
  return kRecurrentRows;
}

}  // namespace rlx::onnx_import
