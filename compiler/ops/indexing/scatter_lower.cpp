// SPDX-License-Identifier: Apache-2.0
// Lowering of scattering: the form is chosen by the number of updates and places.
#include "compiler/ops/indexing/scatter_lower.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "compiler/ops/indexing/kv_append.h"
#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/index_type.h"
#include "compiler/ops/lowering/movement.h"
#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/weight_fill.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kDigits = 256;
constexpr int64_t kFewUpdates = 2048;      // each workgroup reads all tuples
constexpr int64_t kWinnersPerUpdate = 16;  // words of scratch worth one pass instead of a sort
constexpr int64_t kMostKeys = std::numeric_limits<uint32_t>::max();

// RLX_PHASE of the kernel.
enum class Phase : uint8_t { Direct, Winner, Write, Count, Scan, Sort, CombineRuns, Finish, Last };

// Everything that the phases of one node share.
struct Scatter {
  const ScatterProblem& problem;
  TensorRef index;
  TensorRef updates;
  TensorRef y;
  int64_t word = 1;   // RLX_WORD_BYTES, to replace
  int64_t width = 1;  // RLX_WIDTH
  int64_t piece = 1;  // elements of a piece
  Dim tiles = 1;
  int64_t rounds = 1;
  int64_t run = 1;  // sorted updates of one thread

  [[nodiscard]] bool replaces() const { return problem.combine == Combine::Replace; }
  [[nodiscard]] const Dim& count() const { return problem.map.tuples; }
  [[nodiscard]] Dim columns() const { return problem.outer * (problem.row / piece); }
  [[nodiscard]] Dim runs() const { return ceil_div(count(), run); }
};

// The type in which values are combined, by its storage dtype: halves in f32.
DType partial_dtype(DType dtype) {
  if (dtype == DType::f64 || dtype == DType::i64 || dtype == DType::u32) return dtype;
  return is_float(dtype) ? DType::f32 : DType::i32;
}

std::string combine_text(Combine combine, DType dtype) {
  switch (combine) {
    case Combine::Add:
      return is_float(dtype) ? "((a) + (b))" : "rlx_add(a, b)";
    case Combine::Mul:
      return is_float(dtype) ? "((a) * (b))" : "rlx_mul(a, b)";
    case Combine::Max:
      return "rlx_max(a, b)";
    case Combine::Min:
      return "rlx_min(a, b)";
    default:
      return "(b)";
  }
}

std::string scaled_text(double alpha, DType dtype) {
  if (alpha == 1) return "(v)";
  const DType partial = partial_dtype(dtype);
  if (is_float(dtype)) return "(" + literal(partial, alpha) + " * (v))";
  return "rlx_mul(" + integer_literal(partial, static_cast<int64_t>(alpha)) + ", v)";
}

// Kernels differ in what their phase reads alone, so that equal ones are shared.
std::string sort_text(const Scatter& scatter) {
  return wide_define("RLX_UPDATES", scatter.count()) +
         wide_define("RLX_PLACES", scatter.problem.places) +
         define_line("RLX_TILES", integer_text(scatter.tiles));
}

std::string combine_phase_text(const Scatter& scatter) {
  const ScatterProblem& problem = scatter.problem;
  const DType dtype = scatter.y.dtype();
  const std::string acc = "RLX_CAT(rlx_t_, " + std::string(name_of(partial_dtype(dtype))) + ")";
  std::string text = sort_text(scatter);
  text += define_line("RLX_COLUMNS", integer_text(scatter.columns()));
  text += define_line("RLX_ROW_PIECES", integer_text(problem.row / scatter.piece));
  text += define_line("RLX_RUN", integer_text(scatter.run));
  text += define_line("RLX_RUNS", integer_text(scatter.runs()));
  text += define_line("RLX_ACC", acc);
  text += define_line("RLX_COMBINE(a, b)", combine_text(problem.combine, dtype));
  return text + define_line("RLX_SCALED(v)", scaled_text(problem.alpha, dtype));
}

using Dispatch = DispatchBuilder<ScatterParams>;

void describe(Dispatch& dispatch, const Scatter& scatter, Phase phase, const Dim& groups) {
  dispatch.workgroup({kThreads, 1, 1})
      .define("RLX_PHASE", static_cast<int64_t>(phase))
      .define("RLX_REPLACE", scatter.replaces() ? 1 : 0)
      .grid(split_grid(groups));
}

std::string places(const Scatter& scatter) {
  const Dim positions = max(scatter.count(), kThreads) * scatter.columns();
  return place_text(scatter.problem.map, scatter.index.dtype(), positions);
}

std::string no_places(const Scatter& scatter) {
  const Dim positions = max(scatter.count(), kThreads) * scatter.columns();
  return define_line("RLX_INDEX", index_type(IndexUse::Place, positions.range().most));
}

// A phase that moves pieces; `with_index`: it reads the tuples.
void describe_moving(Dispatch& dispatch, const Scatter& scatter, Phase phase, const Dim& groups,
                     bool with_index) {
  describe(dispatch, scatter, phase, groups);
  dispatch.define("RLX_WORD_BYTES", scatter.word)
      .define("RLX_WIDTH", scatter.width)
      .define("RLX_Y", std::string(name_of(scatter.y.dtype())))
      .generated("place.inc", with_index ? places(scatter) : no_places(scatter))
      .generated("scatter.inc", combine_phase_text(scatter));
  if (with_index) dispatch.read(&ScatterParams::index, scatter.index);
}

void bind_pieces(Dispatch& dispatch, const Scatter& scatter) {
  const int64_t bytes = scatter.piece * element_bytes(scatter.y.dtype());
  dispatch.read(&ScatterParams::updates, scatter.updates, static_cast<uint32_t>(bytes))
      .bind(offsetof(ScatterParams, y), scatter.y, AccessMode::ReadWrite,
            static_cast<uint32_t>(bytes));
}

Dim moved_bytes(const Scatter& scatter) {
  const Dim updates = byte_size(scatter.updates.type);
  return (scatter.replaces() ? 2 : 3) * updates + byte_size(scatter.index.type);
}

std::string piece_reason(const Scatter& scatter) {
  return std::to_string(scatter.piece * element_bytes(scatter.y.dtype())) + " bytes per thread";
}

// ---- few updates ----

bool emit_direct(LowerContext& ctx, const Scatter& scatter) {
  const Dim slices = ceil_div(scatter.columns(), kThreads);
  Dispatch dispatch = ctx.dispatch<KernelId::scatter>();
  describe_moving(dispatch, scatter, Phase::Direct, scatter.count() * slices, true);
  bind_pieces(dispatch, scatter);
  dispatch.size("RLX_SLICES", slices)
      .count_index_errors()
      .work(moved_bytes(scatter), 0)
      .reason(to_string(scatter.count()) + " updates: each workgroup looks for its duplicates, " +
              piece_reason(scatter));
  return true;
}

// ---- replace: the highest update of each place ----

void fill_zeros(LowerContext& ctx, const TensorRef& target) {
  lower_weight_fill(ctx.program(), target,
                    {.name = ctx.node().name, .type = target.type, .data = SplatData{.value = 0}});
}

bool emit_winners(LowerContext& ctx, const Scatter& scatter) {
  const TensorRef winners =
      ctx.scratch({.dtype = DType::u32, .shape = {scatter.problem.places}}, "winners");
  fill_zeros(ctx, winners);
  {
    Dispatch dispatch = ctx.dispatch<KernelId::scatter>();
    describe(dispatch, scatter, Phase::Winner, ceil_div(scatter.count(), kThreads));
    dispatch.generated("place.inc", places(scatter))
        .generated("scatter.inc", sort_text(scatter))
        .read(&ScatterParams::index, scatter.index)
        .count_index_errors()
        .bind(offsetof(ScatterParams, scratch), winners, AccessMode::ReadWrite)
        .work(byte_size(scatter.index.type), 0)
        .reason("the last update of each place, by integer maxima");
  }
  Dispatch dispatch = ctx.dispatch<KernelId::scatter>();
  const Dim groups = ceil_div(scatter.count() * scatter.columns(), kThreads);
  describe_moving(dispatch, scatter, Phase::Write, groups, true);
  bind_pieces(dispatch, scatter);
  dispatch.read(&ScatterParams::scratch, winners)
      .work(moved_bytes(scatter), 0)
      .reason("the last update of each place is written, " + piece_reason(scatter));
  return true;
}

// ---- sorted updates ----

// (place, update) pairs sorted by place, equal places by update: a stable radix sort.
TensorRef emit_sort(LowerContext& ctx, const Scatter& scatter) {
  const TensorType pairs{.dtype = DType::i64, .shape = {scatter.count()}};
  const TensorRef counts =
      ctx.scratch({.dtype = DType::u32, .shape = {kDigits * (scatter.tiles + 1)}}, "counts");
  const int bits = std::bit_width(static_cast<uint64_t>(scatter.problem.places.range().most));
  TensorRef sorted;
  for (int shift = 0; shift < bits; shift += 8) {
    const bool first = shift == 0;
    const TensorRef from = sorted;
    sorted = ctx.scratch(pairs, "pairs");
    const auto read_keys = [&](Dispatch& dispatch, Phase phase) {
      describe(dispatch, scatter, phase, scatter.tiles);
      dispatch.define("RLX_FIRST_PASS", first ? 1 : 0)
          .define("RLX_SHIFT", shift)
          .define("RLX_ROUNDS", scatter.rounds)
          .generated("place.inc", first ? places(scatter) : "")
          .generated("scatter.inc", sort_text(scatter));
      if (first) dispatch.read(&ScatterParams::index, scatter.index);
      if (!first) dispatch.read(&ScatterParams::x, from);
    };
    const std::string digit = "digit " + std::to_string(shift / 8) + " of the places, ";
    {
      Dispatch dispatch = ctx.dispatch<KernelId::scatter>();
      read_keys(dispatch, Phase::Count);
      if (first) dispatch.count_index_errors();
      dispatch.write(&ScatterParams::scratch, counts)
          .work(byte_size(pairs), 0)
          .reason(digit + "counted per tile of " + std::to_string(scatter.rounds * kThreads));
    }
    {
      Dispatch dispatch = ctx.dispatch<KernelId::scatter>();
      describe(dispatch, scatter, Phase::Scan, kDigits);
      dispatch.generated("place.inc", "")
          .generated("scatter.inc", define_line("RLX_TILES", integer_text(scatter.tiles)))
          .bind(offsetof(ScatterParams, scratch), counts, AccessMode::ReadWrite)
          .work(2 * byte_size(counts.type), 0)
          .reason(digit + "prefix sums over the tiles");
    }
    Dispatch dispatch = ctx.dispatch<KernelId::scatter>();
    read_keys(dispatch, Phase::Sort);
    dispatch.read(&ScatterParams::scratch, counts)
        .write(&ScatterParams::order, sorted)
        .work(2 * byte_size(pairs), 0)
        .reason(digit + "stable");
  }
  return sorted;
}

void emit_sorted_replace(LowerContext& ctx, const Scatter& scatter) {
  const TensorRef order = emit_sort(ctx, scatter);
  Dispatch dispatch = ctx.dispatch<KernelId::scatter>();
  const Dim groups = ceil_div(scatter.count() * scatter.columns(), kThreads);
  describe_moving(dispatch, scatter, Phase::Last, groups, false);
  bind_pieces(dispatch, scatter);
  dispatch.read(&ScatterParams::order, order)
      .work(moved_bytes(scatter), 0)
      .reason("the last update of each place is written, " + piece_reason(scatter));
}

void emit_sorted_combine(LowerContext& ctx, const Scatter& scatter) {
  const TensorRef order = emit_sort(ctx, scatter);
  const DType dtype = partial_dtype(scatter.y.dtype());
  const TensorRef partials = ctx.scratch(
      {.dtype = dtype, .shape = {2 * scatter.runs(), scatter.columns() * scatter.width}},
      "partials");
  const Dim groups = ceil_div(scatter.runs() * scatter.columns(), kThreads);
  const auto define_partial = [&](Dispatch& dispatch) {
    dispatch.define("RLX_PARTIAL", std::string(name_of(dtype)));
  };
  {
    Dispatch dispatch = ctx.dispatch<KernelId::scatter>();
    describe_moving(dispatch, scatter, Phase::CombineRuns, groups, false);
    bind_pieces(dispatch, scatter);
    define_partial(dispatch);
    dispatch.read(&ScatterParams::order, order)
        .write(&ScatterParams::scratch, partials)
        .work(moved_bytes(scatter), element_count(scatter.updates.shape()))
        .reason("runs of " + std::to_string(scatter.run) + " sorted updates, " +
                piece_reason(scatter));
  }
  Dispatch dispatch = ctx.dispatch<KernelId::scatter>();
  describe_moving(dispatch, scatter, Phase::Finish, groups, false);
  define_partial(dispatch);
  dispatch.read(&ScatterParams::order, order)
      .read(&ScatterParams::scratch, partials)
      .bind(offsetof(ScatterParams, y), scatter.y, AccessMode::ReadWrite,
            static_cast<uint32_t>(scatter.piece * element_bytes(scatter.y.dtype())))
      .work(0, 0)
      .reason("places whose updates lie in several runs");
}

bool emit_sorted(LowerContext& ctx, const Scatter& given) {
  Scatter scatter = given;
  const int64_t most = scatter.count().bound();
  scatter.rounds = std::clamp<int64_t>(most / (kThreads * kThreads), 1, 16);
  scatter.tiles = ceil_div(scatter.count(), scatter.rounds * kThreads);
  const int64_t threads = ctx.device().full.scatter_threads;
  scatter.run = std::clamp<int64_t>(most * scatter.columns().bound() / threads / 4 * 4, 8, 256);
  if (scatter.replaces()) {
    emit_sorted_replace(ctx, scatter);
  } else {
    emit_sorted_combine(ctx, scatter);
  }
  return true;
}

// ---- the choice ----

double moving_bound(const OfferContext& at, const Scatter& scatter) {
  return thread_bound_microseconds(
      at.device(), {.bytes = static_cast<uint64_t>(moved_bytes(scatter).bound()), .flops = 0});
}

constexpr std::array kScatterOffers = {
    // One step where the others take several.
    Offer<Scatter>{.kernel = KernelId::scatter,
                   .form = "direct",
                   .rank = 0,
                   .estimate = Estimate::Bound,
                   .refusal =
                       [](const OfferContext&, const Scatter& scatter) {
                         return scatter.count() <= kFewUpdates
                                    ? std::string()
                                    : "more than " + std::to_string(kFewUpdates) + " updates";
                       },
                   .microseconds = moving_bound,
                   .emit = emit_direct},
    // Three steps.
    Offer<Scatter>{.kernel = KernelId::scatter,
                   .form = "winners",
                   .rank = 1,
                   .estimate = Estimate::Bound,
                   .refusal = [](const OfferContext&, const Scatter& scatter) -> std::string {
                     if (!scatter.replaces()) return "updates that are combined";
                     return scatter.problem.places <= kWinnersPerUpdate * scatter.count()
                                ? ""
                                : "many more places than updates";
                   },
                   .microseconds = moving_bound,
                   .emit = emit_winners},
    // Takes everything; three steps for each digit of the places, and more.
    Offer<Scatter>{.kernel = KernelId::scatter,
                   .form = "sorted",
                   .rank = 2,
                   .estimate = Estimate::Bound,
                   .refusal = [](const OfferContext&, const Scatter&) { return std::string(); },
                   .microseconds = moving_bound,
                   .emit = emit_sorted},
};

// ---- the base ----

TensorRef begun_output(LowerContext& ctx, const ScatterOperands& operands) {
  if (operands.base) return appended_cache(ctx, *operands.base, 0);
  const TensorRef y = ctx.output(0);
  if (ctx.alignment(y) >= kFillAlignmentBytes) {
    fill_zeros(ctx, y);
  } else {
    const TensorRef zeros = ctx.scratch(y.type, "zeros");
    fill_zeros(ctx, zeros);
    ctx.copy(zeros, y);
  }
  return y;
}

// Elements of a row that one thread takes.
void choose_pieces(const LowerContext& ctx, Scatter& scatter) {
  const int64_t element = element_bytes(scatter.y.dtype());
  const int64_t aligned = std::min(ctx.alignment(scatter.updates), ctx.alignment(scatter.y));
  if (scatter.replaces()) {
    scatter.word = std::max(aligned, element);
    while (scatter.word > element && !(scatter.problem.row * element).divides_by(scatter.word)) {
      scatter.word /= 2;
    }
    scatter.piece = scatter.word / element;
    return;
  }
  const DType dtype = scatter.y.dtype();
  const bool narrow = is_float(dtype) && dtype != DType::f64;
  if (narrow && scatter.problem.row.divides_by(4) && aligned >= 4 * element) scatter.width = 4;
  scatter.piece = scatter.width;
}

}  // namespace

namespace {

double combined(Combine combine, double a, double b) {
  switch (combine) {
    case Combine::Add:
      return a + b;
    case Combine::Mul:
      return a * b;
    case Combine::Max:
      return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    case Combine::Min:
      return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
    default:
      return b;
  }
}

int64_t combined(Combine combine, DType dtype, int64_t a, int64_t b) {
  const auto wide_a = static_cast<uint64_t>(a);
  const auto wide_b = static_cast<uint64_t>(b);
  switch (combine) {
    case Combine::Add:
      return wrap_integer(dtype, static_cast<int64_t>(wide_a + wide_b));
    case Combine::Mul:
      return wrap_integer(dtype, static_cast<int64_t>(wide_a * wide_b));
    case Combine::Max:
      return std::max(a, b);
    case Combine::Min:
      return std::min(a, b);
    default:
      return b;
  }
}

}  // namespace

bool evaluate_scatter(EvaluateContext& ctx, const ScatterProblem& problem,
                      const ScatterOperands& operands) {
  const Tensor& updates = ctx.input(operands.updates);
  Tensor& y = ctx.output(0);
  if (operands.base) {
    y.floats = ctx.input(*operands.base).floats;
    y.integers = ctx.input(*operands.base).integers;
  }
  y.magnitudes.resize(y.floats.size());
  for (size_t i = 0; i < y.floats.size(); ++i) y.magnitudes[i] = std::fabs(y.floats[i]);
  const DType dtype = y.type.dtype;
  const auto whole_alpha = static_cast<int64_t>(problem.alpha);
  const int64_t row = problem.row;
  const int64_t places = problem.places;
  const int64_t tuples = problem.map.tuples;
  const int64_t elements = problem.outer * problem.row;
  if (has_place_outside(problem.map, ctx.input(operands.index))) ctx.report_outside();
  for (int64_t update = 0; update < tuples; ++update) {
    const std::optional<int64_t> place = place_of(problem.map, ctx.input(operands.index), update);
    if (!place) continue;
    for (int64_t i = 0; i < elements; ++i) {
      const int64_t outer = i / row;
      const int64_t column = i % row;
      const auto to = static_cast<size_t>((outer * places + *place) * row + column);
      const auto from = static_cast<size_t>((outer * tuples + update) * row + column);
      if (y.is_float()) {
        const double value = problem.alpha * updates.floats[from];
        y.floats[to] = combined(problem.combine, y.floats[to], value);
        y.magnitudes[to] = problem.combine == Combine::Add ? y.magnitudes[to] + std::fabs(value)
                                                           : std::fabs(y.floats[to]);
        continue;
      }
      const int64_t value = combined(Combine::Mul, DType::i64, whole_alpha, updates.integers[from]);
      y.integers[to] = combined(problem.combine, dtype, y.integers[to], value);
    }
  }
  y.terms = tuples;
  return true;
}

bool lower_scatter(LowerContext& ctx, const ScatterProblem& problem,
                   const ScatterOperands& operands) {
  if (problem.places.range().most >= kMostKeys || problem.map.tuples.range().most >= kMostKeys) {
    return ctx.fail(DiagCode::UnsupportedOp,
                    to_string(problem.map.tuples) + " updates of " + to_string(problem.places) +
                        " places, wanted fewer than 2^32 - 1",
                    "split the updates or y");
  }
  const TensorRef index = ctx.dense_input(operands.index);
  const TensorRef updates = ctx.dense_input(operands.updates);
  const TensorRef y = begun_output(ctx, operands);
  if (element_count(updates.shape()) == 0 || problem.map.tuples == 0) return true;
  Scatter scatter{.problem = problem, .index = index, .updates = updates, .y = y};
  choose_pieces(ctx, scatter);
  return lower_by_offers(ctx, std::span<const Offer<Scatter>>(kScatterOffers), scatter);
}

std::vector<std::string> scatter_offer_names() {
  return offer_names(std::span<const Offer<Scatter>>(kScatterOffers));
}

}  // namespace rlx
