// SPDX-License-Identifier: Apache-2.0
// fourier: a Fourier transform along one axis by tables (transform.h), in one dispatch, or in two
// or four with scratch between.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <set>

#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/signal/transform.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

constexpr size_t kWindow = 1;
constexpr size_t kTwiddles = 2;
constexpr size_t kChirp = 3;
constexpr size_t kResponse = 4;
constexpr uint32_t kFourierOptional[] = {kWindow, kChirp, kResponse};

Transform transform_of(const AttributeReader& attrs) {
  return {.points = attrs.integers("points").at(0),
          .axis = static_cast<size_t>(attrs.integer("axis")),
          .inverse = attrs.flag("inverse"),
          .divisor = divisor(attrs.text("divisor")),
          .from = signal_form(attrs.text("from")),
          .to = signal_form(attrs.text("to")),
          .half = attrs.flag("half"),
          .bins = attrs.integers("bins").at(0),
          .hop = attrs.integer("hop"),
          .frame = attrs.integers("frame").at(0)};
}

DType arithmetic_of(DType x) {
  return x == DType::f64 ? DType::f64 : DType::f32;
}

bool check_table(InferContext& ctx, size_t input, bool wanted, const Dim& entries) {
  const TensorType type = {arithmetic_of(ctx.dtype(0)), {entries, 2}};
  if (ctx.has_input(input) == wanted && (!wanted || ctx.input(input) == type)) return true;
  return ctx.fail(DiagCode::BadShape,
                  "table " + std::to_string(input) + " is " +
                      (ctx.has_input(input) ? to_string(ctx.input(input)) : "not there") +
                      ", wanted " + (wanted ? to_string(type) : "none"));
}

bool infer_fourier(InferContext& ctx) {
  const Transform transform = transform_of(ctx.attrs());
  const std::optional<Shape> shape = complex_shape(ctx, ctx.input(0), transform.from);
  if (!shape || !ctx.axis(static_cast<int64_t>(transform.axis), shape->size())) return false;
  const std::optional<TensorType> y = transform_type(ctx, transform, *shape);
  if (!y) return false;
  const TransformPlan plan = plan_of(transform, arithmetic_of(ctx.dtype(0))).value();
  if (!check_table(ctx, kTwiddles, true, roots_table(plan).entries) ||
      !check_table(ctx, kChirp, plan.chirps, transform.points) ||
      !check_table(ctx, kResponse, plan.chirps, plan.points))
    return false;
  // Bins of a length that the run gives are all or, with half of them, as many as its ranges show.
  if (transform.bins > transform.points || transform.frame > transform.points) {
    return ctx.fail(DiagCode::BadAttribute, to_string(transform.bins) + " bins and a frame of " +
                                                to_string(transform.frame) +
                                                ", wanted at most the " +
                                                to_string(transform.points) + " points");
  }
  if (ctx.has_input(kWindow) &&
      (!is_float(ctx.dtype(kWindow)) || ctx.shape(kWindow) != Shape{transform.frame})) {
    return ctx.fail(DiagCode::BadShape, "the window is " + to_string(ctx.input(kWindow)) +
                                            ", wanted a float for each of the " +
                                            to_string(transform.frame) + " of a frame");
  }
  ctx.set_output(0, *y);
  return true;
}

bool evaluate_fourier(EvaluateContext& ctx) {
  ctx.output(0) =
      transformed(ctx.input(0), transform_of(ctx.attrs()),
                  ctx.has_input(kWindow) ? &ctx.input(kWindow) : nullptr, ctx.output_type(0));
  return true;
}

// ---- lower_fourier ----

// One side of a dispatch: how complex elements lie in a tensor, in units of real numbers.
struct Side {
  TensorRef ref;
  SignalForm form = SignalForm::Interleaved;
  Strides kept;       // of the dims beside the transformed one
  Dim step = 2;       // between elements
  Dim imaginary = 1;  // from the real part to the imaginary one
  Dim count = 1;      // elements that there are
  int64_t point = 1;  // elements between the points of a row
  int64_t inner = 0;  // elements between neighbouring rows (RLX_INNER)

  [[nodiscard]] DType real() const {
    return form == SignalForm::Complex ? DType::f32 : ref.dtype();
  }
};

// What a dispatch does to its points besides.
struct Leg {
  int64_t points = 1;
  int64_t inner_rows = 1;
  int64_t roots_at = 0;  // of its passes
  Dim size = 1;          // elements that are transformed, over all rows of RLX_INNER
  bool half = false;     // those of x are half a spectrum
  int64_t fold = 0;      // RLX_FOLD
  bool window = false;
  bool conjugate_x = false;
  bool chirp_before = false;
  bool responds = false;  // RLX_CHIRP: to the spectrum and back
  bool conjugate_v = false;
  bool turn_far = false;                             // RLX_AFTER 2
  std::optional<size_t> table_after = std::nullopt;  // an input of the node
  bool conjugate_y = false;
  Divisor divisor = Divisor::One;
  Dim divided = 1;  // the length that the divisor is of
};

// The transformed axis apart.
struct Signal {
  Side side;
  Shape kept;
};

Signal signal_of(const TensorRef& ref, SignalForm form, const Transform& transform, bool frames) {
  Shape shape = ref.shape();
  Strides strides = ref.strides;
  Signal signal{.side = {.ref = ref, .form = form}, .kept = {}};
  if (form == SignalForm::Complex) {
    for (Dim& stride : strides) stride *= 2;
  } else if (form == SignalForm::Interleaved) {
    signal.side.imaginary = strides.back();
    shape.pop_back();
    strides.pop_back();
  } else if (form == SignalForm::Planar) {
    shape.back() /= 2;
    signal.side.imaginary = shape.back() * strides.back();
  }
  size_t axis = transform.axis;
  if (frames) {
    const Dim length = shape.back();
    shape.back() = (length - transform.frame) / transform.hop + 1;
    shape.push_back(transform.frame);
    strides.push_back(strides.back());
    strides[strides.size() - 2] *= transform.hop;
  }
  if (transform.hop > 0) axis = shape.size() - 1;
  signal.side.step = strides[axis];
  signal.side.count = shape[axis];
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
  signal.kept = shape;
  signal.side.kept = strides;
  return signal;
}

// Scratch of `elements` complex numbers for each row.
Side scratch_side(LowerContext& ctx, const Shape& kept, int64_t elements, DType dtype) {
  Shape shape = kept;
  shape.push_back(elements);
  shape.push_back(2);
  Side side{.ref = ctx.scratch({dtype, shape}, "spectrum")};
  side.kept = side.ref.strides;
  side.kept.resize(kept.size());
  side.count = elements;
  return side;
}

// Both parts of an element, or two real elements that are folded, are 8 bytes that lie together,
// aligned.
bool has_pairs(const OfferContext& at, const Side& side, bool folded) {
  if (side.form == SignalForm::Complex) return true;
  const auto is_even = [](const Dim& stride) { return stride.divides_by(2); };
  const bool together = side.form == SignalForm::Interleaved
                            ? side.imaginary == 1 && is_even(side.step)
                            : folded && side.form == SignalForm::Real && side.step == 1;
  return together && side.real() == DType::f32 && at.alignment(side.ref) >= 8 &&
         std::all_of(side.kept.begin(), side.kept.end(), is_even);
}

LoopDims row_loops(const Shape& kept, const Side& x, const Side& y) {
  LoopDims loops;
  for (size_t d = 0; d < kept.size(); ++d)
    loops.push_back({.size = kept[d], .strides = {x.kept[d], y.kept[d]}});
  return merged(loops);
}

// Neighbouring rows are nearer in memory than neighbouring points.
bool lies_side_by_side(const Side& side, const Leg& leg, const LoopDims& rows, size_t operand) {
  const int64_t step = side.step.bound();
  const int64_t across = leg.inner_rows > 1 ? side.inner * step
                         : rows.empty()     ? 0
                                            : rows.back().strides[operand].bound();
  return across != 0 && std::abs(across) < std::abs(side.point * step);
}

constexpr int64_t kMostThreads = 1024;

// How a workgroup is divided.
struct FourierGroup {
  int64_t lanes = 1;  // threads of a row
  int64_t held = 1;   // points of a thread
  int64_t rows = 1;
  int64_t pitch = 1;
  bool spread = false;
  bool split = false;  // RLX_SPLIT

  [[nodiscard]] int64_t threads() const { return lanes * rows; }
};

// The threads of a row that make least work for butterflies that are too few for them; of those
// the most.
void divide_row(FourierGroup& group, int64_t points, const std::vector<TransformPass>& passes) {
  constexpr int64_t kMostLanes = 256;
  constexpr int64_t kMostHeld = 16;
  const auto held_by = [&](int64_t lanes) {
    int64_t held = 0;
    for (const TransformPass& pass : passes)
      held = std::max(held, ceil_div(points, pass.radix * lanes) * pass.radix);
    return held;
  };
  const auto work_of = [&](int64_t lanes) {
    int64_t work = 0;
    for (const TransformPass& pass : passes)
      work += ceil_div(points, pass.radix * lanes) * pass.radix * lanes;
    return work;
  };
  const int64_t most_held = std::max(kMostHeld, held_by(kMostLanes));
  group.lanes = kMostLanes;
  for (int64_t lanes = kMostLanes; lanes > 0 && held_by(lanes) <= most_held; --lanes) {
    if (work_of(lanes) < work_of(group.lanes)) group.lanes = lanes;
  }
  group.held = held_by(group.lanes);
}

// Rows with whole points, or parts of them, in shared memory.
FourierGroup rows_together(const OfferContext& at, FourierGroup group, const Leg& leg,
                           int64_t least_rows, bool side_by_side, DType arithmetic) {
  constexpr int64_t kThreads = 128;        // small groups, which wait for fewer threads
  constexpr int64_t kAcrossThreads = 256;  // of rows side by side, more only for the least rows
  constexpr int64_t kGap = 16;             // points from one gap to the next
  const int64_t part = element_bytes(arithmetic);
  const int64_t bytes = group.split ? part : 2 * part;
  const int64_t banks = group.split ? 2 * kGap : kGap;
  const int64_t most = static_cast<int64_t>(at.device().shared_bytes) / bytes;  // points
  const int64_t gaps = leg.points / kGap;
  group.spread =
      std::has_single_bit(static_cast<uint64_t>(leg.points)) && leg.points + gaps <= most;
  const int64_t dense = leg.points + (group.spread ? gaps : 0);
  const auto pitch_of = [&](int64_t rows) {
    // Threads beside each other begin in different banks.
    if (rows == 1) return dense;
    if (!group.spread) return dense + 1 - dense % 2;
    const int64_t apart = side_by_side ? std::max<int64_t>(1, banks / rows) : group.lanes % banks;
    return dense + (apart + banks - dense % banks) % banks;
  };
  const auto fits = [&](int64_t rows) {
    const int64_t threads = !side_by_side       ? kThreads
                            : rows > least_rows ? kAcrossThreads
                                                : kMostThreads;
    return rows * group.lanes <= threads && rows * pitch_of(rows) <= most;
  };
  group.rows = kAcrossThreads;
  while (group.rows > 1 && !fits(group.rows)) group.rows /= 2;
  group.pitch = pitch_of(group.rows);
  return group;
}

FourierGroup group_of(const OfferContext& at, const Leg& leg,
                      const std::vector<TransformPass>& passes, const Dim& row_count,
                      bool side_by_side, DType arithmetic) {
  constexpr int64_t kLeastThreads = 32;
  constexpr int64_t kSegmentBytes = 64;  // of rows side by side
  FourierGroup group;
  divide_row(group, leg.points, passes);
  // Rows side by side share what they load; others may go to more groups.
  const int64_t least_rows =
      side_by_side ? kSegmentBytes / (2 * static_cast<int64_t>(element_bytes(arithmetic))) : 1;
  const auto together = [&](bool split) {
    group.split = split;
    return rows_together(at, group, leg, least_rows, side_by_side, arithmetic);
  };
  const FourierGroup whole = together(false);
  const FourierGroup split = together(true);
  const bool splits = whole.rows < least_rows && whole.rows < split.rows && leg.fold != 1;
  group = splits ? split : whole;
  while (group.rows > least_rows && group.threads() > kLeastThreads &&
         ceil_div(row_count, group.rows).bound() < at.device().multiprocessors)
    group.rows /= 2;
  return group;
}

// The steps of all passes (shaders/fft.kernel).
std::string passes_text(const Leg& leg, const std::vector<TransformPass>& passes, bool split) {
  std::string text;
  bool holds = false;  // points that threads may still read
  const auto step = [&](const std::string& name, int64_t radix, const std::string& rest = "") {
    text += name + "(" + std::to_string(radix) + rest + ") ";
  };
  const auto hold = [&](const TransformPass& pass, int64_t part) {
    if (holds) text += "rlx_barrier(); ";
    step("RLX_HOLD", pass.radix, ", " + std::to_string(pass.done) + ", " + std::to_string(part));
    text += "rlx_barrier(); ";
    holds = true;
  };
  const auto exchange = [&](const TransformPass& from, const TransformPass& to) {
    for (int64_t part = 0; part < (split ? 2 : 1); ++part) {
      hold(from, part);
      step("RLX_TAKE", to.radix, ", " + std::to_string(part));
    }
    text += "RLX_TURN_ROWS ";
  };
  const auto transform = [&] {
    for (size_t i = 0; i < passes.size(); ++i) {
      const TransformPass& pass = passes[i];
      if (i > 0) exchange(passes[i - 1], pass);
      step("RLX_PASS", pass.radix,
           ", " + std::to_string(pass.done) + ", " + std::to_string(leg.roots_at + pass.roots_at));
    }
  };
  const TransformPass& first = passes.front();
  const TransformPass& last = passes.back();
  step("RLX_LOAD", first.radix);
  transform();
  if (leg.responds) {
    step("RLX_RESPOND", last.radix);
    if (last.radix != first.radix) exchange(last, first);
    transform();
  }
  if (leg.turn_far) step("RLX_TURN_FAR", last.radix);
  if (leg.fold == 1) {
    hold(last, 0);
    return text + "RLX_UNFOLD";
  }
  step("RLX_STORE", last.radix);
  return text;
}

// The words of lib/butterflies.inc.
std::string roots_text(DType arithmetic) {
  struct Root {
    int64_t radix;
    int64_t m;
  };
  constexpr Root kRoots[] = {{3, 1}, {5, 1}, {5, 2}, {7, 1}, {7, 2}, {7, 3}, {8, 1}, {16, 1}};
  std::string text;
  for (const Root& root : kRoots) {
    const std::string name = std::to_string(root.radix) + "_" + std::to_string(root.m);
    const double angle =
        2 * std::numbers::pi * static_cast<double>(root.m) / static_cast<double>(root.radix);
    text += define_line("RLX_ROOT_RE_" + name, literal(arithmetic, std::cos(angle)));
    text += define_line("RLX_ROOT_IM_" + name, literal(arithmetic, -std::sin(angle)));
  }
  return text;
}

std::string radices_text(const std::vector<TransformPass>& passes) {
  std::set<int64_t> radices;
  for (const TransformPass& pass : passes) radices.insert(pass.radix);
  std::string text;
  for (const int64_t radix : radices) text += "RLX_RADIX(" + std::to_string(radix) + ") ";
  return text;
}

// What y is multiplied by.
std::string scale_text(const Leg& leg, DType arithmetic) {
  if (leg.divisor == Divisor::One || !leg.divided.is_free())
    return literal(arithmetic, transform_scale(leg.divisor, leg.divided.bound()));
  const std::string points = "RLX_REAL(" + integer_text(leg.divided) + ")";
  return "(RLX_REAL(1) / " + (leg.divisor == Divisor::Root ? "rlx_sqrt(" + points + ")" : points) +
         ")";
}

void dispatch_leg(LowerContext& ctx, const TransformPlan& plan, const Leg& leg, const Shape& kept,
                  const Side& x, const Side& y) {
  const DType arithmetic = arithmetic_of(ctx.input_type(0).dtype);
  const LoopDims loops = row_loops(kept, x, y);
  const Dim rows = loop_count(loops) * leg.inner_rows;
  const bool x_side_by_side = lies_side_by_side(x, leg, loops, 0);
  const bool y_side_by_side = lies_side_by_side(y, leg, loops, 1);
  const std::vector<TransformPass> passes = transform_passes(leg.points).value();
  const FourierGroup group =
      group_of(ctx, leg, passes, rows, x_side_by_side || y_side_by_side, arithmetic);
  // Threads change their rows where they exchange points.
  const bool changes = passes.size() > 1 || leg.fold == 1;
  const bool x_pairs = has_pairs(ctx, x, leg.fold == 1 && x.count.range().least >= 2 * leg.points);
  const bool y_pairs = has_pairs(ctx, y, leg.fold == 2 && y.count.range().least >= 2 * leg.points);
  const bool clamps = (leg.size.is_free() || y.count.is_free()) && !leg.half &&
                      x.count.range().least >= 1 && y.count.range().least >= 1;
  const RootsTable table = roots_table(plan);
  const auto numbers = [](const Side& side) {
    return side.ref.byte_range().length_bytes.range().most / element_bytes(side.real());
  };
  const int64_t farthest = std::max({numbers(x), numbers(y), rows.range().most + group.rows});
  const DType window = leg.window ? ctx.input_type(kWindow).dtype : arithmetic;
  std::string text = define_line("RLX_INDEX", index_type(IndexUse::Padded, farthest)) +
                     define_line("RLX_SCALE", scale_text(leg, arithmetic)) +
                     define_line("RLX_PASSES", passes_text(leg, passes, group.split)) +
                     define_line("RLX_RADICES", radices_text(passes)) + roots_text(arithmetic) +
                     index_macro("RLX_X_ROW", loops, 0) + index_macro("RLX_Y_ROW", loops, 1);
  const bool y_complex = y.form != SignalForm::Real;
  auto dispatch = ctx.dispatch<KernelId::fft>();
  dispatch.workgroup({static_cast<uint32_t>(group.threads()), 1, 1})
      .define("RLX_POINTS", leg.points)
      .define("RLX_LANES", group.lanes)
      .define("RLX_ROWS", group.rows)
      .define("RLX_HELD", group.held)
      .define("RLX_PITCH", group.pitch)
      .define("RLX_SPREAD", group.spread ? 1 : 0)
      .define("RLX_SPLIT", group.split ? 1 : 0)
      .define("RLX_ROW_COUNT", integer_text(rows))
      .define("RLX_INNER", leg.inner_rows)
      .define("RLX_FOLD_AT", table.fold_at)
      .define("RLX_FAR_AT", table.far_at)
      .define("RLX_FAR_COUNT", table.near_at - table.far_at)
      .define("RLX_FAR_STEP", plan.columns)
      .define("RLX_X", std::string(name_of(x.real())))
      .define("RLX_Y", std::string(name_of(y.real())))
      .define("RLX_W", std::string(name_of(window)))
      .define("RLX_R", std::string(name_of(arithmetic)))
      .define("RLX_WIDE", arithmetic == DType::f64 ? 1 : 0)
      .define("RLX_SIZE", integer_text(leg.size))
      .define("RLX_SIZE_MOST", leg.size.range().most)
      .define("RLX_CLAMPS", clamps ? 1 : 0)
      .define("RLX_Y_MOST", y.count.range().most)
      .define("RLX_X_FORM", leg.half                     ? 2
                            : x.form == SignalForm::Real ? 0
                                                         : 1)
      .define("RLX_Y_COMPLEX", y_complex ? 1 : 0)
      .define("RLX_X_PAIRS", x_pairs ? 1 : 0)
      .define("RLX_Y_PAIRS", y_pairs ? 1 : 0)
      .define("RLX_FOLD", leg.fold)
      .define("RLX_X_STEP", integer_text(x.step))
      .define("RLX_Y_STEP", integer_text(y.step))
      .define("RLX_X_IMAGINARY", integer_text(x.imaginary))
      .define("RLX_Y_IMAGINARY", integer_text(y.imaginary))
      .define("RLX_X_COUNT", integer_text(x.count))
      .define("RLX_Y_COUNT", integer_text(y.count))
      .define("RLX_X_POINT", x.point)
      .define("RLX_Y_POINT", y.point)
      .define("RLX_X_INNER", x.inner)
      .define("RLX_Y_INNER", y.inner)
      .define("RLX_X_SIDE_BY_SIDE", x_side_by_side ? 1 : 0)
      .define("RLX_Y_SIDE_BY_SIDE", (changes ? y_side_by_side : x_side_by_side) ? 1 : 0)
      .define("RLX_CONJUGATE_X", leg.conjugate_x ? 1 : 0)
      .define("RLX_HAS_WINDOW", leg.window ? 1 : 0)
      .define("RLX_HAS_BEFORE", leg.chirp_before ? 1 : 0)
      .define("RLX_CHIRP", leg.responds ? 1 : 0)
      .define("RLX_CONJUGATE_V", leg.conjugate_v ? 1 : 0)
      .define("RLX_AFTER", leg.turn_far      ? 2
                           : leg.table_after ? 1
                                             : 0)
      .define("RLX_CONJUGATE_Y", leg.conjugate_y ? 1 : 0)
      .generated("rows.inc", text)
      .read(&FftParams::x, x.ref, x_pairs ? 8 : 0)
      .read(&FftParams::twiddles, ctx.input(kTwiddles), 16)
      .write(&FftParams::y, y.ref, y_pairs ? 8 : 0)
      .grid(split_grid(ceil_div(rows, group.rows)))
      .work(x.ref.byte_range().length_bytes + y.ref.byte_range().length_bytes,
            rows * (5 * (leg.responds ? 2 : 1) * leg.points *
                    std::bit_width(static_cast<uint64_t>(leg.points))))
      .reason(std::to_string(leg.points) + " points" +
              (leg.responds ? " to a spectrum and back" : "") + ", " + std::to_string(group.lanes) +
              " threads to a row, " + std::to_string(group.rows) + " rows per workgroup" +
              (group.split ? ", its parts one after the other" : ""));
  if (leg.window) dispatch.read(&FftParams::window, ctx.dense(ctx.input(kWindow)));
  if (leg.chirp_before) dispatch.read(&FftParams::before, ctx.input(kChirp), 8);
  if (leg.responds) dispatch.read(&FftParams::response, ctx.input(kResponse), 8);
  if (leg.table_after) dispatch.read(&FftParams::after, ctx.input(*leg.table_after), 8);
}

// The transform of plan.points points with what `leg` adds at its begin and at its end: whole, or
// as columns, twiddled, and then rows.
void emit_legs(LowerContext& ctx, const TransformPlan& plan, Leg leg, const Shape& kept,
               const Side& x, const Side& y) {
  leg.points = plan.points;
  if (plan.columns == 1) {
    dispatch_leg(ctx, plan, leg, kept, x, y);
    return;
  }
  const int64_t columns = plan.columns;
  const int64_t rows = plan.rows();
  const RootsTable table = roots_table(plan);
  const Side between = scratch_side(ctx, kept, plan.points, arithmetic_of(ctx.input_type(0).dtype));
  // Point n = columns * n1 + n2 to k1 along n1, then to k = k1 + rows * k2 along n2.
  Side from = x;
  from.point = columns;
  from.inner = 1;
  Side to = between;
  to.point = columns;
  to.inner = 1;
  Leg down = leg;
  down.points = rows;
  down.inner_rows = columns;
  down.roots_at = table.rows_at;
  down.conjugate_v = false;
  down.table_after = std::nullopt;
  down.turn_far = true;
  down.conjugate_y = false;
  down.divisor = Divisor::One;
  dispatch_leg(ctx, plan, down, kept, from, to);

  from = between;
  from.inner = columns;
  to = y;
  to.point = rows;
  to.inner = 1;
  Leg along = leg;
  along.points = columns;
  along.inner_rows = rows;
  along.roots_at = table.columns_at;
  along.size = plan.points;
  along.half = false;
  along.window = false;
  along.conjugate_x = false;
  along.chirp_before = false;
  dispatch_leg(ctx, plan, along, kept, from, to);
}

bool lower_fourier(LowerContext& ctx) {
  const Transform transform = transform_of(ctx.attrs());
  const TensorRef y_ref = ctx.output(0);
  if (element_count(y_ref.shape()) == 0) return true;
  const Signal x = signal_of(ctx.input(0), transform.from, transform, transform.hop > 0);
  Signal y = signal_of(y_ref, transform.to, transform, false);
  RLX_CHECK(x.kept == y.kept, "rows of " + ctx.node().name);
  const DType arithmetic = arithmetic_of(ctx.input_type(0).dtype);
  const TransformPlan plan = plan_of(transform, arithmetic).value();
  const Leg begin{.size = transform.points,
                  .half = transform.half,
                  .window = ctx.has_input(kWindow),
                  .conjugate_x = transform.inverse,
                  .divided = transform.points};
  if (!plan.chirps) {
    Leg whole = begin;
    whole.conjugate_y = transform.inverse;
    whole.divisor = transform.divisor;
    if (plan.folds) whole.fold = transform.half ? 2 : 1;
    emit_legs(ctx, plan, whole, x.kept, x.side, y.side);
    return true;
  }
  // X[k] = w[k] sum_n (x[n] w[n]) conj(w[k - n]), a convolution: its product in the spectrum, and
  // back by the transform of the conjugate.
  if (plan.columns == 1) {
    Leg both = begin;
    both.chirp_before = true;
    both.responds = true;
    both.conjugate_v = true;
    both.table_after = kChirp;
    both.conjugate_y = transform.inverse;
    both.divisor = transform.divisor;
    emit_legs(ctx, plan, both, x.kept, x.side, y.side);
    return true;
  }
  const Side spectrum = scratch_side(ctx, x.kept, plan.points, arithmetic);
  Leg forward = begin;
  forward.chirp_before = true;
  forward.table_after = kResponse;
  forward.conjugate_y = true;
  emit_legs(ctx, plan, forward, x.kept, x.side, spectrum);
  emit_legs(ctx, plan,
            {.size = plan.points,
             .conjugate_v = true,
             .table_after = kChirp,
             .conjugate_y = transform.inverse,
             .divisor = transform.divisor,
             .divided = transform.points},
            x.kept, spectrum, y.side);
  return true;
}

constexpr AttrSpec form_attribute(std::string_view name) {
  return {.name = name, .type = AttrType::String, .required = true, .choices = kSignalForms};
}
constexpr AttrSpec kFourierAttrs[] = {
    {.name = "points",
     .type = AttrType::Int,
     .required = true,
     .minimum = 1,
     .maximum = kLargestInt},
    {.name = "axis", .type = AttrType::Int, .required = true, .minimum = 0},
    {.name = "inverse", .type = AttrType::Bool, .default_text = "false"},
    {.name = "divisor", .type = AttrType::String, .default_text = "\"one\"", .choices = kDivisors},
    form_attribute("from"),
    form_attribute("to"),
    {.name = "half", .type = AttrType::Bool, .default_text = "false"},
    {.name = "bins", .type = AttrType::Int, .required = true, .minimum = 1, .maximum = kLargestInt},
    {.name = "hop",
     .type = AttrType::Int,
     .default_text = "0",
     .minimum = 0,
     .maximum = kLargestInt},
    {.name = "frame",
     .type = AttrType::Int,
     .default_text = "0",
     .minimum = 0,
     .maximum = kLargestInt},
};

constexpr OpDef kFourierOps[] = {
    {.name = "fourier",
     .signature =
         "fourier(x, [window], twiddles, [chirp], [response]; points, axis, inverse=false, "
         "divisor=\"one\", from, to, half=false, bins, hop=0, frame=0) -> y",
     .inputs = {5, 5},
     .outputs = {1, 1},
     .attrs = kFourierAttrs,
     .infer = infer_fourier,
     .evaluate = evaluate_fourier,
     .lower = lower_fourier,
     .optional_inputs = kFourierOptional,
     .reads_strides = true,
     .place_refusal = no_place_refusal,
     .keeps_f32 = ~0u},
};

}  // namespace

std::span<const OpDef> fourier_ops() {
  return kFourierOps;
}

}  // namespace rlx
