// SPDX-License-Identifier: Apache-2.0
// selective_scan (ops.md 10.4): the recurrence of Mamba, a vector of states per channel with a
// decay of its own for each.
#include "compiler/ops/sequences/selective_scan.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/sequences/sequence_tables.h"
#include "compiler/ops/sequences/state_inputs.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

struct SelectiveSizes {
  Dim batch = 0;
  Dim steps = 0;
  int64_t channels = 0;
  int64_t groups = 1;
  int64_t states = 1;
};

// Of inputs that were checked.
SelectiveSizes selective_sizes(const Shape& x, const Shape& b) {
  return {.batch = x[0],
          .steps = x[1],
          .channels = x[2],
          .groups = b.size() == 4 ? static_cast<int64_t>(b[2]) : 1,
          .states = b.back()};
}

bool check_selective_axes(InferContext& ctx) {
  const Shape& x = ctx.shape(kSelectiveX);
  const Shape& b = ctx.shape(kSelectiveB);
  if (x.size() != 3) {
    return ctx.fail(DiagCode::BadRank, "x has shape " + to_string(x) + ", wanted [B, S, C]");
  }
  if (b.size() != 3 && b.size() != 4) {
    return ctx.fail(DiagCode::BadRank,
                    "Bm has shape " + to_string(b) + ", wanted [B, S, N] or [B, S, G, N]");
  }
  if (!check_fixed_size(ctx, x[2], "the number of channels of x") ||
      !check_fixed_size(ctx, b.back(), "the number of states of Bm"))
    return false;
  if (b.back() < 1) return ctx.fail(DiagCode::BadShape, "Bm has no states, wanted one or more");
  if (b.size() == 3) return true;
  if (!check_fixed_size(ctx, b[2], "the number of groups of Bm")) return false;
  if (b[2] >= 1 && static_cast<int64_t>(x[2]) % static_cast<int64_t>(b[2]) == 0) return true;
  return ctx.fail(DiagCode::BadShape, "Bm has " + to_string(b[2]) +
                                          " groups, wanted a divisor of the " + to_string(x[2]) +
                                          " channels of x");
}

bool infer_selective_scan(InferContext& ctx) {
  if (!check_float_input(ctx, kSelectiveX, "x") || !check_selective_axes(ctx)) return false;
  const Shape& x = ctx.shape(kSelectiveX);
  const Shape& b = ctx.shape(kSelectiveB);
  const SelectiveSizes sizes = selective_sizes(x, b);
  Shape grouped = b;
  grouped[0] = sizes.batch;
  grouped[1] = sizes.steps;
  const Shape channels = {sizes.channels};
  const Shape state = {sizes.batch, sizes.channels, sizes.states};
  const auto parameter = [](size_t position, std::string_view name, const Shape& shape) {
    return StateInput{
        .position = position, .name = name, .dtype = InputDType::AsXOrF32, .shapes = {shape}};
  };
  const bool good =
      check_state_inputs(ctx, {{.position = kSelectiveDelta, .name = "delta", .shapes = {x}},
                               parameter(kSelectiveA, "A", {sizes.channels, sizes.states}),
                               {.position = kSelectiveB, .name = "Bm", .shapes = {grouped}},
                               {.position = kSelectiveC, .name = "Cm", .shapes = {grouped}},
                               parameter(kSelectiveD, "D", channels),
                               {.position = kSelectiveZ, .name = "z", .shapes = {x}},
                               parameter(kSelectiveBias, "delta_bias", channels),
                               {.position = kSelectiveState0,
                                .name = "state0",
                                .dtype = InputDType::State,
                                .shapes = {state}}});
  if (!good) return false;
  ctx.set_output(0, ctx.input(kSelectiveX));
  ctx.set_output(1, {state_dtype(ctx.dtype(kSelectiveX)), state});
  return true;
}

// ---- evaluation ----

// The optional vector's element of a channel.
double selective_parameter(EvaluateContext& ctx, size_t position, int64_t channel) {
  return ctx.has_input(position) ? ctx.input(position).floats[static_cast<size_t>(channel)] : 0;
}

double step_size(EvaluateContext& ctx, size_t at, int64_t channel) {
  const double size =
      ctx.input(kSelectiveDelta).floats[at] + selective_parameter(ctx, kSelectiveBias, channel);
  if (!ctx.attrs().flag("delta_softplus")) return size;
  return std::max(size, 0.0) + std::log1p(std::exp(-std::abs(size)));
}

// One channel's states over all steps.
void evaluate_channel(EvaluateContext& ctx, const SelectiveSizes& sizes, int64_t batch,
                      int64_t channel, double* state) {
  const double* a = ctx.input(kSelectiveA).floats.data() + channel * sizes.states;
  const int64_t group = channel / (sizes.channels / sizes.groups);
  const int64_t steps = sizes.steps;
  for (int64_t t = 0; t < steps; ++t) {
    const auto at = static_cast<size_t>((batch * steps + t) * sizes.channels + channel);
    const int64_t row = ((batch * steps + t) * sizes.groups + group) * sizes.states;
    const double* b = ctx.input(kSelectiveB).floats.data() + row;
    const double* c = ctx.input(kSelectiveC).floats.data() + row;
    const double x = ctx.input(kSelectiveX).floats[at];
    const double size = step_size(ctx, at, channel);
    double y = selective_parameter(ctx, kSelectiveD, channel) * x;
    for (int64_t n = 0; n < sizes.states; ++n) {
      state[n] = std::exp(size * a[n]) * state[n] + size * b[n] * x;
      y += c[n] * state[n];
    }
    if (ctx.has_input(kSelectiveZ)) {
      const double z = ctx.input(kSelectiveZ).floats[at];
      y *= z / (1 + std::exp(-z));
    }
    ctx.output(0).floats[at] = y;
  }
}

bool evaluate_selective_scan(EvaluateContext& ctx) {
  const SelectiveSizes sizes =
      selective_sizes(ctx.input(kSelectiveX).type.shape, ctx.input(kSelectiveB).type.shape);
  const int64_t lines = static_cast<int64_t>(sizes.batch) * sizes.channels;
  std::vector<double> states(static_cast<size_t>(lines * sizes.states), 0.0);
  if (ctx.has_input(kSelectiveState0)) states = ctx.input(kSelectiveState0).floats;
  for (int64_t i = 0; i < lines; ++i) {
    evaluate_channel(ctx, sizes, i / sizes.channels, i % sizes.channels,
                     states.data() + i * sizes.states);
  }
  if (ctx.output_count() > 1) ctx.output(1).floats = std::move(states);
  return true;
}

// ---- lowering ----

constexpr int64_t kSelectiveThreads = 128;
constexpr int64_t kSelectiveSharedBytes = 24576;
// Steps staged at a time; chunks are multiples of it.
constexpr int64_t kMostStaged = 16;
// Dispatches of the form in chunks; Whole is the other form's only one.
enum class SelectivePhase : uint8_t { Whole, Local, Combine, Replay };

struct SelectiveScan {
  SelectiveSizes sizes;
  TensorRef x;
  TensorRef delta;
  TensorRef a;
  TensorRef b;
  TensorRef c;
  TensorRef y;
  std::optional<TensorRef> d = std::nullopt;
  std::optional<TensorRef> z = std::nullopt;
  std::optional<TensorRef> bias = std::nullopt;
  std::optional<TensorRef> state0 = std::nullopt;
  std::optional<TensorRef> state = std::nullopt;
  bool softplus = false;
  // Of the kernel's header comment.
  int64_t lanes = 1;
  int64_t items = 1;
  int64_t tile = 1;
  bool staged = false;

  [[nodiscard]] int64_t rows() const { return kSelectiveThreads / lanes; }
  [[nodiscard]] DType real() const { return state_dtype(x.dtype()); }
  [[nodiscard]] Dim groups() const { return sizes.batch * ceil_div(sizes.channels, rows()); }
};

constexpr int64_t kSelectiveLanes = 4;

// With `lanes` threads to a channel where its states need no more and are as many. False where a
// thread would hold too many states in registers.
bool choose_selective_tiling(SelectiveScan& scan, int64_t lanes) {
  const int64_t bytes = element_bytes(scan.real());
  const int64_t most_items = 128 / bytes;
  const int64_t states = scan.sizes.states;
  scan.lanes = lanes;
  while (scan.lanes > 1 && scan.lanes / 2 >= states) scan.lanes /= 2;
  while (ceil_div(states, scan.lanes) > most_items) scan.lanes *= 2;
  if (scan.lanes > kSelectiveThreads) return false;
  scan.items = ceil_div(states, scan.lanes);
  // One group of b and c for all rows of a workgroup.
  const bool shares =
      scan.sizes.groups == 1 || (scan.sizes.channels / scan.sizes.groups) % scan.rows() == 0;
  const int64_t least = 2 * scan.rows() * bytes;
  const int64_t staged = least + 2 * scan.items * scan.lanes * bytes;
  scan.staged = shares && staged <= kSelectiveSharedBytes;
  scan.tile =
      std::clamp<int64_t>(kSelectiveSharedBytes / (scan.staged ? staged : least), 1, kMostStaged);
  return true;
}

// A thread with a channel of its own adds its states without asking others, but chunks must still
// keep the device busy.
SelectiveScan scan_in_chunks(const OfferContext& at, const SelectiveScan& whole) {
  constexpr int64_t kLeastSteps = 64;
  SelectiveScan scan = whole;
  for (int64_t lanes = 1; lanes <= kSelectiveLanes; lanes *= 2) {
    choose_selective_tiling(scan, lanes);
    const int64_t chunks = scan.sizes.steps.bound() / kLeastSteps;
    if (scan.groups().bound() * chunks >= 2 * int64_t{at.device().multiprocessors}) break;
  }
  return scan;
}

int64_t chunk_steps(const OfferContext& at, const SelectiveScan& scan) {
  return steps_of_chunk(at, scan.groups(), scan.sizes.steps, kMostStaged);
}

std::string selective_places(const SelectiveScan& scan, const Dim& chunks) {
  std::vector<TensorRef> views = {scan.x, scan.delta, scan.b, scan.c, scan.y};
  if (scan.z) views.push_back(*scan.z);
  const SelectiveSizes& sizes = scan.sizes;
  const Dim counted =
      (sizes.batch + 1) * (chunks + 1) * (sizes.channels + kSelectiveThreads) * (sizes.states + 1) +
      kSelectiveThreads;
  std::string text = define_line("RLX_INDEX", sequence_index(views, counted));
  const auto add = [&text](const std::string& name, const std::optional<TensorRef>& ref) {
    text += stride_line(name + "_BATCH", ref ? axis_stride(*ref, 0) : Dim(0));
    text += stride_line(name + "_STEP", ref ? axis_stride(*ref, 1) : Dim(0));
  };
  add("RLX_X", scan.x);
  add("RLX_DELTA", scan.delta);
  add("RLX_Z", scan.z);
  add("RLX_Y", scan.y);
  const auto add_grouped = [&](const std::string& name, const TensorRef& ref) {
    add(name, ref);
    text += stride_line(name + "_GROUP", ref.shape().size() == 4 ? axis_stride(ref, 2) : Dim(0));
  };
  add_grouped("RLX_B", scan.b);
  add_grouped("RLX_C", scan.c);
  return text;
}

using SelectiveDispatch = DispatchBuilder<SelectiveScanParams>;

void bind_selective(SelectiveDispatch& dispatch, const SelectiveScan& scan, SelectivePhase phase,
                    const std::optional<TensorRef>& partial) {
  dispatch.read(&SelectiveScanParams::a, scan.a);
  if (partial) {
    dispatch.bind(offsetof(SelectiveScanParams, partial), *partial,
                  phase == SelectivePhase::Local    ? AccessMode::Write
                  : phase == SelectivePhase::Replay ? AccessMode::Read
                                                    : AccessMode::ReadWrite);
  }
  if (phase == SelectivePhase::Whole || phase == SelectivePhase::Combine) {
    if (scan.state) dispatch.write(&SelectiveScanParams::state, *scan.state);
    // Each thread reads its part of the states before it writes the same part.
    if (scan.state0) {
      dispatch.read(&SelectiveScanParams::state0, *scan.state0)
          .allow_in_place_state(scan.state0->buffer);
    }
  }
  if (phase == SelectivePhase::Combine) return;
  dispatch.read(&SelectiveScanParams::x, scan.x)
      .read(&SelectiveScanParams::delta, scan.delta)
      .read(&SelectiveScanParams::b, scan.b);
  if (scan.bias) dispatch.read(&SelectiveScanParams::delta_bias, *scan.bias);
  if (phase == SelectivePhase::Local) return;
  dispatch.read(&SelectiveScanParams::c, scan.c).write(&SelectiveScanParams::y, scan.y);
  if (scan.d) dispatch.read(&SelectiveScanParams::d, *scan.d);
  if (scan.z) dispatch.read(&SelectiveScanParams::z, *scan.z);
}

void define_selective(SelectiveDispatch& dispatch, const SelectiveScan& scan) {
  const SelectiveSizes& sizes = scan.sizes;
  const auto flag = [](bool is_set) { return is_set ? 1 : 0; };
  const auto type_of = [](const std::optional<TensorRef>& ref) {
    return std::string(name_of(ref ? ref->dtype() : DType::f32));
  };
  dispatch.define("RLX_LANES", scan.lanes)
      .define("RLX_ROWS", scan.rows())
      .define("RLX_BY_COLUMN", 0)
      .define("RLX_ITEMS", scan.items)
      .define("RLX_TILE", scan.tile)
      .define("RLX_STAGED", flag(scan.staged))
      .size("RLX_BATCH", sizes.batch)
      .size("RLX_STEPS", sizes.steps)
      .define("RLX_CHANNELS", sizes.channels)
      .define("RLX_STATES", sizes.states)
      .define("RLX_CHANNELS_PER_GROUP", sizes.channels / sizes.groups)
      .define("RLX_X", std::string(name_of(scan.x.dtype())))
      .define("RLX_S", std::string(name_of(scan.real())))
      .define("RLX_A", type_of(scan.a))
      .define("RLX_D", type_of(scan.d))
      .define("RLX_DELTA_BIAS", type_of(scan.bias))
      .define("RLX_DOUBLE", flag(scan.real() == DType::f64))
      .define("RLX_SOFTPLUS", flag(scan.softplus))
      .define("RLX_HAS_D", flag(scan.d.has_value()))
      .define("RLX_HAS_Z", flag(scan.z.has_value()))
      .define("RLX_HAS_DELTA_BIAS", flag(scan.bias.has_value()))
      .define("RLX_HAS_STATE0", flag(scan.state0.has_value()))
      .define("RLX_HAS_STATE", flag(scan.state.has_value()));
}

// The bytes of what the step is bound to, each once.
StepWork selective_work(const SelectiveScan& scan) {
  const auto bytes_of = [](const std::optional<TensorRef>& ref) {
    return ref ? static_cast<uint64_t>(ref->byte_range().length_bytes.bound()) : uint64_t{0};
  };
  StepWork work;
  for (const std::optional<TensorRef>& ref :
       {std::optional(scan.x), std::optional(scan.delta), std::optional(scan.b),
        std::optional(scan.c), std::optional(scan.y), scan.z, scan.state0, scan.state})
    work.bytes += bytes_of(ref);
  work.flops =
      static_cast<uint64_t>((element_count(scan.x.shape()) * scan.sizes.states).bound()) * 7;
  return work;
}

void dispatch_selective(LowerContext& ctx, const SelectiveScan& scan, SelectivePhase phase,
                        int64_t chunk_length, const std::optional<TensorRef>& partial) {
  constexpr std::array<const char*, 4> kReasons = {"", ": states of each chunk",
                                                   ": states before each chunk", ": results"};
  const SelectiveSizes& sizes = scan.sizes;
  const bool whole = phase == SelectivePhase::Whole;
  const bool combines = phase == SelectivePhase::Combine;
  const Dim chunks = whole ? Dim(1) : ceil_div(sizes.steps, chunk_length);
  const Dim states = sizes.batch * sizes.channels * sizes.states;
  const Dim state_bytes = states * element_bytes(scan.real());
  const Dim sequence_bytes = byte_size(scan.x.type) * (phase == SelectivePhase::Local ? 2 : 3);
  auto dispatch = ctx.dispatch<KernelId::selective_scan>();
  define_selective(dispatch, scan);
  bind_selective(dispatch, scan, phase, partial);
  dispatch.workgroup({static_cast<uint32_t>(kSelectiveThreads), 1, 1})
      .define("RLX_PHASE", static_cast<int64_t>(phase))
      .size("RLX_CHUNKS", chunks)
      .define("RLX_CHUNK_LENGTH", whole ? integer_text(sizes.steps) : std::to_string(chunk_length))
      .generated("places.inc", selective_places(scan, chunks))
      .grid(split_grid(combines ? ceil_div(states, kSelectiveThreads) : scan.groups() * chunks))
      .work((combines ? Dim(0) : sequence_bytes) + state_bytes * chunks,
            combines ? 3 * states * chunks : 7 * sizes.steps * states)
      .reason(std::to_string(scan.rows()) + " channels to a group" +
              (whole ? "" : ", chunks of " + std::to_string(chunk_length) + " steps") +
              kReasons.at(static_cast<size_t>(phase)));
}

bool emit_whole_scan(LowerContext& ctx, const SelectiveScan& scan) {
  dispatch_selective(ctx, scan, SelectivePhase::Whole, 0, std::nullopt);
  return true;
}

bool emit_chunked_scan(LowerContext& ctx, const SelectiveScan& whole) {
  const SelectiveScan scan = scan_in_chunks(ctx, whole);
  const int64_t length = chunk_steps(ctx, scan);
  const SelectiveSizes& sizes = scan.sizes;
  const Dim chunks = ceil_div(sizes.steps, length);
  const TensorRef partial = ctx.scratch(
      {scan.real(), {sizes.batch * chunks * sizes.channels, sizes.states + 1}}, "partial");
  for (const SelectivePhase phase :
       {SelectivePhase::Local, SelectivePhase::Combine, SelectivePhase::Replay})
    dispatch_selective(ctx, scan, phase, length, partial);
  return true;
}

double selective_bound(const OfferContext& at, const SelectiveScan& scan) {
  return thread_bound_microseconds(at.device(), selective_work(scan));
}

constexpr std::array kSelectiveOffers = {
    // Twice the work, but the groups of the whole form alone would leave the device idle.
    Offer<SelectiveScan>{.kernel = KernelId::selective_scan,
                         .form = "chunks",
                         .rank = 0,
                         .estimate = Estimate::Bound,
                         .refusal =
                             [](const OfferContext& at, const SelectiveScan& scan) {
                               return std::string(chunk_steps(at, scan_in_chunks(at, scan)) > 0
                                                      ? ""
                                                      : "whole sequences keep the device busy, or "
                                                        "are short");
                             },
                         .microseconds = selective_bound,
                         .emit = emit_chunked_scan,
                         .takes_free_sizes = true},
    Offer<SelectiveScan>{
        .kernel = KernelId::selective_scan,
        .form = "whole",
        .rank = 1,
        .estimate = Estimate::Bound,
        .refusal = [](const OfferContext&, const SelectiveScan&) { return std::string(); },
        .microseconds = selective_bound,
        .emit = emit_whole_scan,
        .takes_free_sizes = true},
};

bool lower_selective_scan(LowerContext& ctx) {
  const auto along = [&ctx](size_t i) { return sequence_input(ctx, i); };
  const auto parameter = [&ctx](size_t i) {
    return ctx.has_input(i) ? std::optional(ctx.dense_input(i)) : std::nullopt;
  };
  SelectiveScan scan{.sizes = selective_sizes(ctx.input_type(kSelectiveX).shape,
                                              ctx.input_type(kSelectiveB).shape),
                     .x = along(kSelectiveX),
                     .delta = along(kSelectiveDelta),
                     .a = ctx.dense_input(kSelectiveA),
                     .b = along(kSelectiveB),
                     .c = along(kSelectiveC),
                     .y = ctx.output(0),
                     .d = parameter(kSelectiveD),
                     .bias = parameter(kSelectiveBias),
                     .state0 = parameter(kSelectiveState0),
                     .softplus = ctx.attrs().flag("delta_softplus")};
  if (ctx.has_input(kSelectiveZ)) scan.z = along(kSelectiveZ);
  if (ctx.has_output(1)) scan.state = ctx.output(1);
  if (!choose_selective_tiling(scan, kSelectiveLanes)) {
    return ctx.fail(DiagCode::Limit, "channels have " + std::to_string(scan.sizes.states) +
                                         " states; registers hold no more than 4096, 2048 of f64");
  }
  if (scan.groups() == 0) return true;
  return lower_by_offers(ctx, std::span<const Offer<SelectiveScan>>(kSelectiveOffers), scan);
}

constexpr AttrSpec kSelectiveAttrs[] = {
    {.name = "delta_softplus", .type = AttrType::Bool, .default_text = "false"},
};
constexpr uint32_t kSelectiveOptional[] = {kSelectiveD, kSelectiveZ, kSelectiveBias,
                                           kSelectiveState0};

constexpr OpDef kSelectiveOps[] = {
    {.name = "selective_scan",
     .signature = "selective_scan(x, delta, A, Bm, Cm, [D], [z], [delta_bias], [state0]; "
                  "delta_softplus=false) -> y, [state]",
     .inputs = {5, 9},
     .outputs = {1, 2},
     .attrs = kSelectiveAttrs,
     .infer = infer_selective_scan,
     .evaluate = evaluate_selective_scan,
     .gradient = selective_scan_gradient,
     .lower = lower_selective_scan,
     .optional_inputs = kSelectiveOptional,
     .reads_strides = true,
     .keeps_f32 =
         1u << kSelectiveA | 1u << kSelectiveD | 1u << kSelectiveBias | 1u << kSelectiveState0},
};

}  // namespace

std::vector<std::string> selective_scan_offer_names() {
  return offer_names(std::span<const Offer<SelectiveScan>>(kSelectiveOffers));
}

std::span<const OpDef> selective_scan_ops() {
  return kSelectiveOps;
}

}  // namespace rlx
