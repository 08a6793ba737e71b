// SPDX-License-Identifier: Apache-2.0
// How the kernel linear_recurrence shares a head's matrix of states out over threads.
#include "compiler/ops/sequences/linear_recurrence.h"

#include <algorithm>
#include <array>
#include <vector>

#include "compiler/ops/lowering/offers.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/sequences/linear_recurrence_forms.h"
#include "compiler/ops/sequences/sequence_tables.h"
#include "compiler/ops/sequences/state_inputs.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

constexpr int64_t kRecurrenceThreads = 128;
// Threads that share out the keys of a column: few, as each step sums over them.
constexpr int64_t kLeastLanes = 8;
constexpr int64_t kRecurrenceSharedBytes = 24576;
constexpr int64_t kMostTile = 16;

// The names are those of the kernel's header comment.
struct RecurrenceTiling {
  int64_t lanes = 1;
  int64_t items = 1;
  int64_t values = 1;
  int64_t tile = 1;
  bool staged = true;

  [[nodiscard]] int64_t rows() const { return kRecurrenceThreads / lanes; }
  [[nodiscard]] int64_t columns() const { return rows() * values; }
};

// None where a thread would hold too many keys in registers.
std::optional<RecurrenceTiling> choose_recurrence_tiling(const LinearRecurrence& r) {
  const bool wide = r.v.ref.dtype() == DType::f64;
  const int64_t bytes = wide ? 8 : 4;
  const int64_t most_items = wide ? 16 : 32;
  RecurrenceTiling tiling;
  tiling.lanes = kLeastLanes;
  while (tiling.lanes > 1 && tiling.lanes / 2 >= r.keys) tiling.lanes /= 2;
  while (ceil_div(r.keys, tiling.lanes) > most_items) tiling.lanes *= 2;
  if (tiling.lanes > kRecurrenceThreads) return std::nullopt;
  tiling.items = std::max<int64_t>(ceil_div(r.keys, tiling.lanes), 1);
  tiling.values = r.columns > tiling.rows() ? 2 : 1;
  const int64_t keys = tiling.items * tiling.lanes;
  const int64_t queries = queries_of(r);
  const int64_t least = bytes * ((1 + queries) * tiling.columns() + 2);
  const int64_t key_rows = 1 + queries + (r.gate == RecurrenceGate::ByKey ? 1 : 0);
  const int64_t staged = least + bytes * key_rows * keys;
  tiling.staged = staged <= kRecurrenceSharedBytes;
  const int64_t of_step = tiling.staged ? staged : least;
  tiling.tile = std::clamp<int64_t>(kRecurrenceSharedBytes / of_step, 1, kMostTile);
  if (!r.steps.is_free()) tiling.tile = std::min(tiling.tile, std::max<int64_t>(r.steps, 1));
  return tiling;
}

Dim recurrence_groups(const LinearRecurrence& r, const RecurrenceTiling& tiling) {
  return r.batch * r.heads * ceil_div(r.columns, tiling.columns());
}

// Decays of a head in a chunk that are kept beside its states.
int64_t kept_decays(const LinearRecurrence& r) {
  if (r.gate == RecurrenceGate::None) return 0;
  return r.gate == RecurrenceGate::ByKey ? r.keys : 1;
}

// Dispatches of the form in chunks; Whole is the other form's only one.
enum class RecurrencePhase : uint8_t { Whole, Local, Combine, Replay };

void bind_recurrence(RecurrenceDispatch& dispatch, const LinearRecurrence& r, RecurrencePhase phase,
                     const std::optional<TensorRef>& partial) {
  if (partial) {
    dispatch.bind(offsetof(LinearRecurrenceParams, partial), *partial,
                  phase == RecurrencePhase::Local    ? AccessMode::Write
                  : phase == RecurrencePhase::Replay ? AccessMode::Read
                                                     : AccessMode::ReadWrite);
  }
  if (phase == RecurrencePhase::Whole || phase == RecurrencePhase::Combine) {
    if (r.state) dispatch.write(&LinearRecurrenceParams::state, *r.state);
    // Each thread reads its part of the states before it writes the same part.
    if (r.state0) {
      dispatch.read(&LinearRecurrenceParams::state0, *r.state0)
          .allow_in_place_state(r.state0->buffer);
    }
  }
  if (phase == RecurrencePhase::Combine) return;
  dispatch.read(&LinearRecurrenceParams::k, r.k.ref).read(&LinearRecurrenceParams::v, r.v.ref);
  read_optional(dispatch, "RLX_G", &LinearRecurrenceParams::g, ref_of(r.g));
  read_optional(dispatch, "RLX_B", &LinearRecurrenceParams::beta, ref_of(r.beta));
  read_optional(dispatch, "RLX_A", &LinearRecurrenceParams::a, r.a);
  read_optional(dispatch, "RLX_G_BIAS", &LinearRecurrenceParams::g_bias, r.g_bias);
  if (phase == RecurrencePhase::Local) return;
  dispatch.read(&LinearRecurrenceParams::q, r.q.ref).write(&LinearRecurrenceParams::y, r.y.ref);
  read_optional(dispatch, "RLX_D", &LinearRecurrenceParams::d, r.d);
  if (r.z) dispatch.read(&LinearRecurrenceParams::z, r.z->ref);
}

void define_tiling(RecurrenceDispatch& dispatch, const RecurrenceTiling& tiling) {
  dispatch.define("RLX_LANES", tiling.lanes)
      .define("RLX_ROWS", tiling.rows())
      .define("RLX_BY_COLUMN", 0)
      .define("RLX_ITEMS", tiling.items)
      .define("RLX_VALUES", tiling.values)
      .define("RLX_TILE", tiling.tile)
      .define("RLX_STAGED", tiling.staged ? 1 : 0);
}

void dispatch_recurrence(LowerContext& ctx, const LinearRecurrence& r, RecurrencePhase phase,
                         int64_t chunk_length, const std::optional<TensorRef>& partial) {
  constexpr std::array<const char*, 4> kReasons = {"", ": states of each chunk",
                                                   ": states before each chunk", ": results"};
  const RecurrenceTiling tiling = choose_recurrence_tiling(r).value();
  const DType real = state_dtype(r.v.ref.dtype());
  const bool whole = phase == RecurrencePhase::Whole;
  const bool combines = phase == RecurrencePhase::Combine;
  const Dim chunks = whole ? Dim(1) : ceil_div(r.steps, chunk_length);
  const Dim states = r.batch * r.heads * r.keys * r.columns;
  const int64_t reads = 1 + queries_of(r) + (r.corrects ? 1 : 0);
  auto dispatch = ctx.dispatch<KernelId::linear_recurrence>();
  describe_recurrence(dispatch, r);
  dispatch.define("RLX_QUERIES", queries_of(r))
      .define("RLX_S", std::string(name_of(real)))
      .define("RLX_DOUBLE", real == DType::f64 ? 1 : 0);
  define_tiling(dispatch, tiling);
  bind_recurrence(dispatch, r, phase, partial);
  dispatch.workgroup({static_cast<uint32_t>(kRecurrenceThreads), 1, 1})
      .define("RLX_PHASE", static_cast<int64_t>(phase))
      .size("RLX_CHUNKS", chunks)
      .define("RLX_CHUNK_LENGTH", whole ? integer_text(r.steps) : std::to_string(chunk_length))
      .generated("places.inc", recurrence_places(r, chunks))
      .grid(split_grid(combines ? ceil_div(states, kRecurrenceThreads)
                                : recurrence_groups(r, tiling) * chunks))
      .work((combines ? Dim(0) : recurrence_bytes(r)) +
                (whole ? Dim(0) : states * chunks * element_bytes(real)),
            combines ? 2 * states * chunks : 2 * reads * r.steps * states)
      .reason("groups of " + std::to_string(tiling.columns()) + " columns, " +
              std::to_string(tiling.items) + " of " + std::to_string(r.keys) +
              " keys to a thread, " +
              (whole ? std::to_string(tiling.tile) + " steps at a time"
                     : "chunks of " + std::to_string(chunk_length) + " steps") +
              kReasons.at(static_cast<size_t>(phase)));
}

// ---- the choice ----

int64_t recurrence_chunk(const OfferContext& at, const LinearRecurrence& r) {
  const RecurrenceTiling tiling = choose_recurrence_tiling(r).value();
  return steps_of_chunk(at, recurrence_groups(r, tiling), r.steps, kMostTile);
}

std::string chunked_refusal(const OfferContext& at, const LinearRecurrence& r) {
  if (r.corrects) return "what a step takes in depends on the states before it";
  return recurrence_chunk(at, r) > 0 ? "" : "whole sequences keep the device busy, or are short";
}

bool emit_chunked_recurrence(LowerContext& ctx, const LinearRecurrence& r) {
  const int64_t length = recurrence_chunk(ctx, r);
  const Dim heads = r.batch * ceil_div(r.steps, length) * r.heads;
  const TensorRef partial = ctx.scratch(
      {state_dtype(r.v.ref.dtype()), {heads, r.keys * r.columns + kept_decays(r)}}, "partial");
  for (const RecurrencePhase phase :
       {RecurrencePhase::Local, RecurrencePhase::Combine, RecurrencePhase::Replay})
    dispatch_recurrence(ctx, r, phase, length, partial);
  return true;
}

bool emit_whole_recurrence(LowerContext& ctx, const LinearRecurrence& r) {
  dispatch_recurrence(ctx, r, RecurrencePhase::Whole, 0, std::nullopt);
  return true;
}

double recurrence_bound(const OfferContext& at, const LinearRecurrence& r) {
  const Dim flops = 6 * r.batch * r.steps * r.heads * r.keys * r.columns;
  return thread_bound_microseconds(at.device(),
                                   {.bytes = static_cast<uint64_t>(recurrence_bytes(r).bound()),
                                    .flops = static_cast<uint64_t>(flops.bound())});
}

constexpr std::array kLinearRecurrenceOffers = {
    // Several times as fast as the others in all that it takes.
    Offer<LinearRecurrence>{.kernel = KernelId::linear_recurrence_mma,
                            .rank = 0,
                            .refusal = mma_recurrence_refusal,
                            .microseconds = mma_recurrence_microseconds,
                            .emit = emit_mma_recurrence,
                            .takes_free_sizes = true},
    // Twice the work, but the groups of the whole form alone would leave the device idle.
    Offer<LinearRecurrence>{.kernel = KernelId::linear_recurrence,
                            .form = "chunks",
                            .rank = 1,
                            .estimate = Estimate::Bound,
                            .refusal = chunked_refusal,
                            .microseconds = recurrence_bound,
                            .emit = emit_chunked_recurrence,
                            .takes_free_sizes = true},
    Offer<LinearRecurrence>{
        .kernel = KernelId::linear_recurrence,
        .form = "whole",
        .rank = 2,
        .estimate = Estimate::Bound,
        .refusal = [](const OfferContext&, const LinearRecurrence&) { return std::string(); },
        .microseconds = recurrence_bound,
        .emit = emit_whole_recurrence,
        .takes_free_sizes = true},
};

}  // namespace

bool lower_linear_recurrence(LowerContext& ctx, const LinearRecurrence& r) {
  const std::optional<RecurrenceTiling> tiling = choose_recurrence_tiling(r);
  if (!tiling) {
    return ctx.fail(DiagCode::Limit, "heads have " + std::to_string(r.keys) +
                                         " keys; registers hold no more than 4096, 2048 of f64");
  }
  if (recurrence_groups(r, *tiling) == 0) return true;
  return lower_by_offers(ctx, std::span<const Offer<LinearRecurrence>>(kLinearRecurrenceOffers), r);
}

std::vector<std::string> linear_recurrence_offer_names() {
  return offer_names(std::span<const Offer<LinearRecurrence>>(kLinearRecurrenceOffers));
}

}  // namespace rlx
