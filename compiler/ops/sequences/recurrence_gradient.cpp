// SPDX-License-Identifier: Apache-2.0
// The gradient of one layer of lstm, gru or rnn, written with other operators.
#include "compiler/ops/sequences/recurrence_gradient.h"

#include <vector>

#include "compiler/ops/sequences/recurrence.h"

namespace rlx {
namespace {

enum RecurrenceInput : uint32_t {
  kLayerX,
  kLayerW,
  kLayerBias,
  kLayerH0,
  kLayerC0,
  kLayerLengths,
  kLayerPeephole
};

// A step stands for about so many nodes; a graph shall not become longer than control flow may.
constexpr int64_t kMostSteps = 4096;

struct LayerSizes {
  CellKind cell = CellKind::Lstm;
  SequenceForm form;
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t hidden = 0;
  int64_t gates = 1;
};

LayerSizes layer_sizes(GradientContext& ctx) {
  const Shape& x = ctx.shape(ctx.input(kLayerX));
  const CellKind cell = cell_kind(ctx.attrs());
  const SequenceForm form = sequence_form(ctx.attrs());
  return {.cell = cell,
          .form = form,
          .steps = static_cast<int64_t>(x[form.time_axis()]),
          .batch = static_cast<int64_t>(x[form.batch_axis()]),
          .hidden = static_cast<int64_t>(ctx.shape(ctx.input(kLayerW))[2]),
          .gates = gates_of(cell)};
}

// What a direction gives for its part of the inputs.
struct LayerGradients {
  ValueId x;                             // [steps, batch, gates * hidden]
  ValueId w;                             // [gates * hidden, hidden]
  ValueId h0;                            // [batch, hidden]
  std::optional<ValueId> c0 = {};        // [batch, hidden]
  std::optional<ValueId> bias = {};      // [hidden]
  std::optional<ValueId> peephole = {};  // [3 * hidden]
};

// One direction of a layer; tensors of all steps are [steps, batch, ..], in the layer's type.
class DirectionGradient {
 public:
  DirectionGradient(GradientContext& ctx, const LayerSizes& sizes, int64_t direction)
      : ctx_(ctx),
        sizes_(sizes),
        direction_(direction),
        type_(ctx.dtype(ctx.input(kLayerX))),
        w_(own_block(ctx.input(kLayerW), {sizes.gates * sizes.hidden, sizes.hidden})) {
    x_ = own_steps(ctx.input(kLayerX), sizes.gates * sizes.hidden);
    y_ = own_steps(ctx.output(0), sizes.hidden);
    dy_ = own_steps(ctx.gradient(0), sizes.hidden);
    dh_ = last_gradient(1);
    if (ctx.has_input(kLayerLengths)) active_ = steps_within(ctx.input(kLayerLengths));
    dy_ = masked(dy_, 0);
    before_ = states_before(y_, first_state(kLayerH0));
  }

  LayerGradients run() {
    switch (sizes_.cell) {
      case CellKind::Lstm:
        return lstm();
      case CellKind::Gru:
        return gru();
      case CellKind::GruResetFirst:
        return gru_reset_first();
      case CellKind::Tanh:
      case CellKind::Relu:
        break;
    }
    return plain();
  }

 private:
  // ---- parts of tensors ----

  ValueId part(ValueId x, int64_t axis, int64_t start, int64_t count) {
    if (start == 0 && ctx_.shape(x)[static_cast<size_t>(axis)] == count) return x;
    return ctx_.emit("narrow", {x}, {{"axis", axis}, {"start", start}, {"len", count}});
  }
  ValueId row(ValueId x, int64_t step) {
    Shape shape = ctx_.shape(x);
    shape.erase(shape.begin());
    return ctx_.reshape(part(x, 0, step, 1), shape);
  }
  ValueId gate(ValueId x, int64_t which, int64_t count = 1) {
    const auto axis = static_cast<int64_t>(ctx_.shape(x).size()) - 1;
    return part(x, axis, which * sizes_.hidden, count * sizes_.hidden);
  }
  ValueId weight_of_gates(int64_t which, int64_t count) {
    return part(w_, 0, which * sizes_.hidden, count * sizes_.hidden);
  }
  ValueId joined(const std::vector<ValueId>& parts, int64_t axis) {
    if (parts.size() == 1) return parts.front();
    return ctx_.emit("concat", {parts.begin(), parts.end()}, {{"axis", axis}});
  }
  ValueId stacked(const std::vector<ValueId>& rows) {
    return ctx_.emit("stack", {rows.begin(), rows.end()}, {{"axis", int64_t{0}}});
  }
  // This direction's block of a tensor whose first axis is directions.
  ValueId own_block(ValueId x, const Shape& shape) {
    return ctx_.cast(ctx_.reshape(part(x, 0, direction_, 1), shape), type_);
  }
  // This direction's part of what has a vector for each step, time first.
  ValueId own_steps(ValueId x, int64_t size) {
    const ValueId own = part(x, 2, direction_ * size, size);
    return ctx_.cast(sizes_.form.time_first ? own : ctx_.transpose(own, {1, 0, 2}), type_);
  }
  // Of a state behind the last step: an output that the node may leave out.
  ValueId last_gradient(size_t output) {
    const Shape shape = {sizes_.batch, sizes_.hidden};
    return ctx_.has_gradient(output) ? own_block(ctx_.gradient(output), shape)
                                     : ctx_.filled({type_, shape}, 0);
  }
  ValueId first_state(uint32_t input) {
    const Shape shape = {sizes_.batch, sizes_.hidden};
    return ctx_.has_input(input) ? own_block(ctx_.input(input), shape)
                                 : ctx_.filled({type_, shape}, 0);
  }

  // ---- arithmetic ----

  ValueId add(ValueId a, ValueId b) { return ctx_.emit("add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) { return ctx_.emit("sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return ctx_.emit("mul", {a, b}); }
  ValueId curve(const char* op, ValueId x) { return ctx_.emit(op, {x}); }
  // Slopes of sigmoid and tanh by their values.
  ValueId sigmoid_slope(ValueId s) { return mul(s, ctx_.affine(s, -1, 1)); }
  ValueId tanh_slope(ValueId t) { return ctx_.affine(mul(t, t), -1, 1); }
  // Rows of x times the weights of gates, or times these turned: [.., hidden] to [.., gates].
  ValueId times(ValueId x, ValueId w) { return ctx_.emit("matmul", {x, w}); }
  ValueId times_turned(ValueId x, ValueId w) {
    return ctx_.emit("matmul", {x, w}, {{"trans_b", true}});
  }
  // Sum over steps and sequences of a's column times b's row.
  ValueId weight_gradient(ValueId a, ValueId b) {
    return ctx_.emit("matmul", {flat(a), flat(b)}, {{"trans_a", true}});
  }
  ValueId flat(ValueId x) {
    return ctx_.reshape(x, {sizes_.steps * sizes_.batch, ctx_.shape(x).back()});
  }
  ValueId sum_of_steps(ValueId x) {
    return ctx_.reduce("reduce_sum", x, {0, 1}, NodeBuilder::Axes::Drop);
  }

  // ---- lengths ----

  // [steps, batch, 1]: the step lies within its sequence.
  ValueId steps_within(ValueId lengths) {
    Tensor steps = Tensor::zeros({DType::i64, {sizes_.steps, 1}});
    for (int64_t t = 0; t < sizes_.steps; ++t) steps.integers[static_cast<size_t>(t)] = t;
    const ValueId within =
        ctx_.emit("lt", {ctx_.constant("steps", steps), ctx_.cast(lengths, DType::i64)});
    return ctx_.reshape(within, {sizes_.steps, sizes_.batch, 1});
  }
  // `otherwise` in steps that are no part of their sequence: they pass on what they are given.
  ValueId masked(ValueId x, double otherwise) {
    if (!active_) return x;
    return ctx_.emit("where", {*active_, x, ctx_.scalar(type_, otherwise)});
  }
  // The sum with what reached a step's result where the step only passes it on.
  ValueId with_passed(ValueId sum, ValueId reached, int64_t step) {
    if (!active_) return sum;
    return add(sum, ctx_.emit("where", {row(*active_, step), ctx_.scalar(type_, 0), reached}));
  }

  // ---- steps ----

  [[nodiscard]] bool is_backward() const { return sizes_.form.is_backward(direction_); }
  // Of the i-th step that the forward pass took.
  [[nodiscard]] int64_t time_of(int64_t i) const {
    return is_backward() ? sizes_.steps - 1 - i : i;
  }
  // What each step found, from what each step left and what the first one found.
  ValueId states_before(ValueId left, ValueId first) {
    const ValueId begin = ctx_.reshape(first, {1, sizes_.batch, sizes_.hidden});
    const int64_t others = sizes_.steps - 1;
    if (others == 0) return begin;
    if (!is_backward()) return joined({begin, part(left, 0, 0, others)}, 0);
    ValueId later = part(left, 0, 1, others);
    if (active_) later = ctx_.emit("where", {part(*active_, 0, 1, others), later, begin});
    return joined({later, begin}, 0);
  }
  // What reaches the result of a step.
  ValueId reached(int64_t step) { return add(dh_, row(dy_, step)); }
  // Calls step(time) from the last one that the forward pass took to the first; it returns the
  // gradient of what the gates add up. All of them, by time.
  template <typename Step>
  ValueId backwards(const Step& step) {
    std::vector<ValueId> rows(static_cast<size_t>(sizes_.steps), ValueId{});
    for (int64_t i = sizes_.steps; i-- > 0;)
      rows[static_cast<size_t>(time_of(i))] = step(time_of(i));
    return stacked(rows);
  }

  // ---- cells, by the names of SequenceRun ----

  LayerGradients plain() {
    const ValueId slope =
        masked(sizes_.cell == CellKind::Tanh
                   ? tanh_slope(y_)
                   : ctx_.cast(ctx_.emit("gt", {y_, ctx_.scalar(type_, 0)}), type_),
               0);
    const ValueId dz = backwards([&](int64_t t) {
      const ValueId dh = reached(t);
      const ValueId dz_t = mul(dh, row(slope, t));
      dh_ = with_passed(times(dz_t, w_), dh, t);
      return dz_t;
    });
    return {.x = dz, .w = weight_gradient(dz, before_), .h0 = dh_};
  }

  LayerGradients gru() {
    const ValueId products = times_turned(before_, w_);
    ValueId inner = gate(products, 2);
    if (ctx_.has_input(kLayerBias))
      inner = add(inner, own_block(ctx_.input(kLayerBias), {sizes_.hidden}));
    const ValueId sums = add(gate(x_, 0, 2), gate(products, 0, 2));
    const ValueId r = curve("sigmoid", gate(sums, 0));
    const ValueId z = curve("sigmoid", gate(sums, 1));
    const ValueId n = curve("tanh", add(gate(x_, 2), mul(r, inner)));
    const ValueId n_share = masked(mul(ctx_.affine(z, -1, 1), tanh_slope(n)), 0);
    const ValueId z_share = masked(mul(sub(before_, n), sigmoid_slope(z)), 0);
    const ValueId r_share = mul(inner, sigmoid_slope(r));
    const ValueId kept = masked(z, 1);
    const ValueId dz = backwards([&](int64_t t) {
      const ValueId dh = reached(t);
      const ValueId dn = mul(dh, row(n_share, t));
      const ValueId dr = mul(dn, row(r_share, t));
      const ValueId dz_t = mul(dh, row(z_share, t));
      const ValueId inside = joined({dr, dz_t, mul(dn, row(r, t))}, 1);
      dh_ = add(mul(dh, row(kept, t)), times(inside, w_));
      return joined({dr, dz_t, dn}, 1);
    });
    const ValueId dinner = mul(gate(dz, 2), r);
    const ValueId inside = joined({gate(dz, 0, 2), dinner}, 2);
    LayerGradients result{.x = dz, .w = weight_gradient(inside, before_), .h0 = dh_};
    if (ctx_.wants(kLayerBias)) result.bias = sum_of_steps(dinner);
    return result;
  }

  LayerGradients gru_reset_first() {
    const ValueId w_gates = weight_of_gates(0, 2);
    const ValueId w_new = weight_of_gates(2, 1);
    const ValueId sums = add(gate(x_, 0, 2), times_turned(before_, w_gates));
    const ValueId r = curve("sigmoid", gate(sums, 0));
    const ValueId z = curve("sigmoid", gate(sums, 1));
    const ValueId reset = mul(r, before_);
    const ValueId n = curve("tanh", add(gate(x_, 2), times_turned(reset, w_new)));
    const ValueId n_share = masked(mul(ctx_.affine(z, -1, 1), tanh_slope(n)), 0);
    const ValueId z_share = masked(mul(sub(before_, n), sigmoid_slope(z)), 0);
    const ValueId r_share = mul(before_, sigmoid_slope(r));
    const ValueId kept = masked(z, 1);
    const ValueId dz = backwards([&](int64_t t) {
      const ValueId dh = reached(t);
      const ValueId dn = mul(dh, row(n_share, t));
      const ValueId dreset = times(dn, w_new);
      const ValueId dgates = joined({mul(dreset, row(r_share, t)), mul(dh, row(z_share, t))}, 1);
      dh_ = add(add(mul(dh, row(kept, t)), mul(dreset, row(r, t))), times(dgates, w_gates));
      return joined({dgates, dn}, 1);
    });
    const ValueId dw =
        joined({weight_gradient(gate(dz, 0, 2), before_), weight_gradient(gate(dz, 2), reset)}, 0);
    return {.x = dz, .w = dw, .h0 = dh_};
  }

  // Gates i, f, g, o of all steps, and the cells before and behind each.
  struct LstmValues {
    ValueId i;
    ValueId f;
    ValueId g;
    ValueId o;
    ValueId before;
    ValueId c;
  };

  // Of gates i, o, f, in this order.
  std::optional<ValueId> peephole(int64_t which) {
    if (!ctx_.has_input(kLayerPeephole)) return std::nullopt;
    return gate(own_block(ctx_.input(kLayerPeephole), {3 * sizes_.hidden}), which);
  }
  ValueId with_peephole(ValueId sum, std::optional<ValueId> p, ValueId c) {
    return p ? add(sum, mul(*p, c)) : sum;
  }

  LstmValues lstm_values() {
    const ValueId sums = add(x_, times_turned(before_, w_));
    const ValueId g = curve("tanh", gate(sums, 2));
    const ValueId first = first_state(kLayerC0);
    std::vector<ValueId> cells(static_cast<size_t>(sizes_.steps), ValueId{});
    std::vector<ValueId> found = cells;
    ValueId c = first;
    const bool looks = ctx_.has_input(kLayerPeephole);
    const ValueId i_sums = gate(sums, 0);
    const ValueId f_sums = gate(sums, 1);
    // Without peepholes no gate sees c.
    const ValueId f_all = looks ? f_sums : masked(curve("sigmoid", f_sums), 1);
    const ValueId new_all = looks ? i_sums : masked(mul(curve("sigmoid", i_sums), g), 0);
    for (int64_t k = 0; k < sizes_.steps; ++k) {
      const int64_t t = time_of(k);
      found[static_cast<size_t>(t)] = c;
      ValueId f = row(f_all, t);
      ValueId fresh = row(new_all, t);
      if (looks) {
        f = curve("sigmoid", with_peephole(f, peephole(2), c));
        fresh = mul(curve("sigmoid", with_peephole(fresh, peephole(0), c)), row(g, t));
      }
      ValueId next = add(mul(f, c), fresh);
      if (looks && active_) next = ctx_.emit("where", {row(*active_, t), next, c});
      c = next;
      cells[static_cast<size_t>(t)] = c;
    }
    const ValueId before = stacked(found);
    const ValueId all = stacked(cells);
    return {.i = curve("sigmoid", with_peephole(i_sums, peephole(0), before)),
            .f = curve("sigmoid", with_peephole(f_sums, peephole(2), before)),
            .g = g,
            .o = curve("sigmoid", with_peephole(gate(sums, 3), peephole(1), all)),
            .before = before,
            .c = all};
  }

  LayerGradients lstm() {
    const LstmValues v = lstm_values();
    const ValueId wave = curve("tanh", v.c);
    const ValueId o_share = masked(mul(wave, sigmoid_slope(v.o)), 0);
    const ValueId c_share = masked(mul(v.o, tanh_slope(wave)), 0);
    const ValueId i_share = masked(mul(v.g, sigmoid_slope(v.i)), 0);
    const ValueId f_share = masked(mul(v.before, sigmoid_slope(v.f)), 0);
    const ValueId g_share = masked(mul(v.i, tanh_slope(v.g)), 0);
    const ValueId kept = masked(v.f, 1);
    ValueId dc = last_gradient(2);
    const ValueId dz = backwards([&](int64_t t) {
      const ValueId dh = reached(t);
      const ValueId dout = mul(dh, row(o_share, t));
      const ValueId dcell = with_peephole(add(dc, mul(dh, row(c_share, t))), peephole(1), dout);
      const ValueId din = mul(dcell, row(i_share, t));
      const ValueId dforget = mul(dcell, row(f_share, t));
      const ValueId dz_t = joined({din, dforget, mul(dcell, row(g_share, t)), dout}, 1);
      dc = with_peephole(with_peephole(mul(dcell, row(kept, t)), peephole(0), din), peephole(2),
                         dforget);
      dh_ = with_passed(times(dz_t, w_), dh, t);
      return dz_t;
    });
    LayerGradients result{.x = dz, .w = weight_gradient(dz, before_), .h0 = dh_, .c0 = dc};
    if (ctx_.wants(kLayerPeephole)) {
      result.peephole =
          joined({sum_of_steps(mul(gate(dz, 0), v.before)), sum_of_steps(mul(gate(dz, 3), v.c)),
                  sum_of_steps(mul(gate(dz, 1), v.before))},
                 0);
    }
    return result;
  }

  GradientContext& ctx_;
  const LayerSizes& sizes_;
  int64_t direction_;
  DType type_;
  ValueId w_;
  ValueId x_{};
  ValueId y_{};
  ValueId dy_{};
  ValueId before_{};  // h before each step
  ValueId dh_{};      // what has reached h behind the step that is looked at
  std::optional<ValueId> active_;
};

// No step was taken: states pass as they are.
void give_without_steps(GradientContext& ctx) {
  for (const uint32_t input : {kLayerX, kLayerW, kLayerBias, kLayerPeephole}) {
    if (ctx.wants(input)) ctx.give(input, ctx.filled(ctx.type(ctx.input(input)), 0));
  }
  if (ctx.wants(kLayerH0) && ctx.has_gradient(1)) ctx.give(kLayerH0, ctx.gradient(1));
  if (ctx.wants(kLayerC0) && ctx.has_gradient(2)) ctx.give(kLayerC0, ctx.gradient(2));
}

void give_directions(GradientContext& ctx, const LayerSizes& sizes,
                     const std::vector<LayerGradients>& directions) {
  const auto blocks = [&](auto&& of) {
    NodeBuilder::Inputs parts;
    for (const LayerGradients& gradients : directions) parts.push_back(of(gradients));
    return ctx.emit("stack", parts, {{"axis", int64_t{0}}});
  };
  if (ctx.wants(kLayerX)) {
    NodeBuilder::Inputs parts;
    for (const LayerGradients& gradients : directions) parts.push_back(gradients.x);
    const ValueId x =
        parts.size() == 1 ? *parts[0] : ctx.emit("concat", parts, {{"axis", int64_t{2}}});
    ctx.give(kLayerX, sizes.form.time_first ? x : ctx.transpose(x, {1, 0, 2}));
  }
  if (ctx.wants(kLayerW)) ctx.give(kLayerW, blocks([](const auto& g) { return g.w; }));
  if (ctx.wants(kLayerH0)) ctx.give(kLayerH0, blocks([](const auto& g) { return g.h0; }));
  if (ctx.wants(kLayerC0)) ctx.give(kLayerC0, blocks([](const auto& g) { return *g.c0; }));
  if (ctx.wants(kLayerBias)) ctx.give(kLayerBias, blocks([](const auto& g) { return *g.bias; }));
  if (ctx.wants(kLayerPeephole))
    ctx.give(kLayerPeephole, blocks([](const auto& g) { return *g.peephole; }));
}

}  // namespace

bool recurrence_gradient(GradientContext& ctx) {
  const LayerSizes sizes = layer_sizes(ctx);
  if (sizes.steps == 0 || sizes.batch == 0) {
    give_without_steps(ctx);
    return true;
  }
  if (sizes.steps > kMostSteps) {
    return ctx.fail(DiagCode::Limit,
                    "its gradient goes back over " + std::to_string(sizes.steps) +
                        " steps one by one, of which there may be " + std::to_string(kMostSteps),
                    "train on shorter pieces of the sequences, with the state carried over");
  }
  std::vector<LayerGradients> directions;
  for (int64_t direction = 0; direction < sizes.form.directions; ++direction)
    directions.push_back(DirectionGradient(ctx, sizes, direction).run());
  give_directions(ctx, sizes, directions);
  return true;
}

}  // namespace rlx
