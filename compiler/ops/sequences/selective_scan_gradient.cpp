// SPDX-License-Identifier: Apache-2.0
// The gradient of selective_scan, written with other operators. The states of all steps, and what
// reaches them, are found by doubling: sums over 1, 2, 4, .. steps, each decayed by those behind.
#include "compiler/ops/sequences/selective_scan.h"

namespace rlx {
namespace {

// Tensors are [batch, steps, groups, channels of a group, states], 1 where they are the same for
// all, in the type that states have.
class SelectiveGradient {
 public:
  explicit SelectiveGradient(GradientContext& ctx) : ctx_(ctx) {
    const Shape& x = ctx.shape(ctx.input(kSelectiveX));
    const Shape& b = ctx.shape(ctx.input(kSelectiveB));
    batch_ = x[0];
    steps_ = static_cast<int64_t>(x[1]);
    groups_ = b.size() == 4 ? static_cast<int64_t>(b[2]) : 1;
    channels_ = static_cast<int64_t>(x[2]) / groups_;
    states_ = static_cast<int64_t>(b.back());
  }

  void run() {
    if (steps_ == 0) return give_without_steps();
    const ValueId x = by_channel(kSelectiveX);
    const ValueId a = wide(kSelectiveA, {1, 1, groups_, channels_, states_});
    const ValueId b = by_state(kSelectiveB);
    const ValueId c = by_state(kSelectiveC);
    const ValueId raw = raw_size();
    const bool softplus = ctx_.attrs().flag("delta_softplus");
    const ValueId size = softplus ? ctx_.emit("softplus", {raw}) : raw;
    const ValueId decay = ctx_.emit("exp", {mul(size, a)});

    ValueId taken_in = mul(mul(size, x), b);
    if (ctx_.has_input(kSelectiveState0))
      taken_in = add(taken_in, placed(mul(step(decay, 0), state(first_state())), 0));
    const ValueId h = doubled(decay, taken_in, 1);
    ValueId before = moved(h, 1);
    if (ctx_.has_input(kSelectiveState0)) before = add(before, placed(state(first_state()), 0));

    const ValueId dsum = sum_gradient(c, h, x);
    ValueId reaching = mul(dsum, c);
    if (ctx_.has_gradient(1)) reaching = add(reaching, placed(state(ctx_.gradient(1)), steps_ - 1));
    const ValueId dh = doubled(moved(decay, -1), reaching, -1);

    const ValueId in_exponent = mul(mul(dh, before), decay);
    const ValueId by_b = sum(mul(dh, b), {4});
    const ValueId dsize = add(sum(mul(in_exponent, a), {4}), mul(by_b, x));
    const ValueId draw = softplus ? mul(dsize, ctx_.emit("sigmoid", {raw})) : dsize;
    ValueId dx = mul(by_b, size);
    if (ctx_.has_input(kSelectiveD)) dx = add(dx, mul(dsum, parameter(kSelectiveD)));
    give(kSelectiveX, dx);
    give(kSelectiveDelta, draw);
    if (ctx_.wants(kSelectiveA)) give(kSelectiveA, sum(mul(in_exponent, size), {0, 1}));
    if (ctx_.wants(kSelectiveB)) give(kSelectiveB, sum(mul(dh, mul(size, x)), {3}));
    if (ctx_.wants(kSelectiveC)) give(kSelectiveC, sum(mul(dsum, h), {3}));
    if (ctx_.wants(kSelectiveD)) give(kSelectiveD, sum(mul(dsum, x), {0, 1}));
    if (ctx_.wants(kSelectiveBias)) give(kSelectiveBias, sum(draw, {0, 1}));
    if (ctx_.wants(kSelectiveState0)) give(kSelectiveState0, step(mul(decay, dh), 0));
  }

 private:
  ValueId add(ValueId a, ValueId b) { return ctx_.emit("add", {a, b}); }
  ValueId mul(ValueId a, ValueId b) { return ctx_.emit("mul", {a, b}); }
  ValueId sum(ValueId x, const Ints& axes) { return ctx_.reduce("reduce_sum", x, axes); }
  void give(size_t input, ValueId gradient) {
    if (ctx_.wants(input)) ctx_.give(input, ctx_.reshape(gradient, ctx_.shape(ctx_.input(input))));
  }

  ValueId wide(size_t input, const Shape& shape) {
    return ctx_.reshape(ctx_.widen(ctx_.input(input)), shape);
  }
  ValueId by_channel(size_t input) { return wide(input, {batch_, steps_, groups_, channels_, 1}); }
  ValueId by_state(size_t input) { return wide(input, {batch_, steps_, groups_, 1, states_}); }
  ValueId parameter(size_t input) { return wide(input, {1, 1, groups_, channels_, 1}); }
  ValueId first_state() { return ctx_.input(kSelectiveState0); }
  // States of one step.
  ValueId state(ValueId x) {
    return ctx_.reshape(ctx_.widen(x), {batch_, 1, groups_, channels_, states_});
  }
  ValueId raw_size() {
    const ValueId delta = by_channel(kSelectiveDelta);
    return ctx_.has_input(kSelectiveBias) ? add(delta, parameter(kSelectiveBias)) : delta;
  }

  // ---- along the steps ----

  ValueId step(ValueId x, int64_t at) {
    return ctx_.emit("narrow", {x}, {{"axis", int64_t{1}}, {"start", at}, {"len", int64_t{1}}});
  }
  // Zeros before and behind the steps; negative: steps that go.
  ValueId padded(ValueId x, int64_t begin, int64_t end) {
    if (begin == 0 && end == 0) return x;
    return ctx_.emit("pad", {x}, {{"axes", Ints{1}}, {"pads", Ints{begin, end}}});
  }
  // Every step where the one `by` later stood.
  ValueId moved(ValueId x, int64_t by) { return padded(x, by, -by); }
  ValueId placed(ValueId one_step, int64_t at) { return padded(one_step, at, steps_ - 1 - at); }
  // h[t] = sum[t] + decay[t] h[t - direction].
  ValueId doubled(ValueId decay, ValueId sum, int64_t direction) {
    for (int64_t reach = 1; reach < steps_; reach *= 2) {
      sum = add(sum, mul(decay, moved(sum, direction * reach)));
      if (2 * reach < steps_) decay = mul(decay, moved(decay, direction * reach));
    }
    return sum;
  }

  // What reaches the sum over states and D x, before z weighs it; gives z's share.
  ValueId sum_gradient(ValueId c, ValueId h, ValueId x) {
    const ValueId dy =
        ctx_.reshape(ctx_.widen(ctx_.gradient(0)), {batch_, steps_, groups_, channels_, 1});
    if (!ctx_.has_input(kSelectiveZ)) return dy;
    const ValueId z = by_channel(kSelectiveZ);
    if (ctx_.wants(kSelectiveZ)) {
      ValueId y = sum(mul(c, h), {4});
      if (ctx_.has_input(kSelectiveD)) y = add(y, mul(x, parameter(kSelectiveD)));
      give(kSelectiveZ,
           ctx_.emit("activation_backward", {z, mul(dy, y)}, {{"kind", std::string("silu")}}));
    }
    return mul(dy, ctx_.emit("silu", {z}));
  }

  // No step was taken: the state passes as it is.
  void give_without_steps() {
    for (const uint32_t input : {kSelectiveX, kSelectiveDelta, kSelectiveA, kSelectiveB,
                                 kSelectiveC, kSelectiveD, kSelectiveZ, kSelectiveBias}) {
      if (ctx_.wants(input)) give(input, ctx_.filled(ctx_.type(ctx_.input(input)), 0));
    }
    if (ctx_.has_gradient(1)) give(kSelectiveState0, ctx_.gradient(1));
  }

  GradientContext& ctx_;
  Dim batch_ = 0;
  int64_t steps_ = 0;
  int64_t groups_ = 1;
  int64_t channels_ = 1;  // of a group
  int64_t states_ = 1;
};

}  // namespace

bool selective_scan_gradient(GradientContext& ctx) {
  SelectiveGradient(ctx).run();
  return true;
}

}  // namespace rlx
