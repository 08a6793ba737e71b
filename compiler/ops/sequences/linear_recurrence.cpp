// SPDX-License-Identifier: Apache-2.0
// How the kernel linear_recurrence shares a head's matrix of states out over threads.
#include "compiler/ops/sequences/linear_recurrence.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
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

int64_t queries_of(const LinearRecurrence& r) {
  return std::max<int64_t>(r.query_heads / r.heads, 1);
}

// None where a thread would hold too many keys in registers.
std::optional<RecurrenceTiling> choose_recurrence_tiling(const LinearRecurrence& r) {
  const bool wide = r.v.ref.dtype() == DType::f64;
  const int64_t bytes = wide ? 8 : 4;
  const int64_t most_items = wide ? 16 : 32;
  RecurrenceTiling tiling;
  tiling.lanes = std::min<int64_t>(
      kLeastLanes, std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(r.keys, 1))));
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

std::string recurrence_places(const LinearRecurrence& r, DType real) {
  std::vector<TensorRef> views = {r.q.ref, r.k.ref, r.v.ref, r.y.ref};
  for (const std::optional<HeadSteps>& other : {r.g, r.beta, r.z}) {
    if (other) views.push_back(other->ref);
  }
  const Dim states = (r.batch + 1) * r.heads * (r.keys + 1) * (r.columns + kRecurrenceThreads * 2);
  std::string text = define_line("RLX_INDEX", sequence_index(views, states));
  const auto add = [&text](const std::string& name, const std::optional<HeadSteps>& at) {
    text += stride_line(name + "_BATCH", at ? at->batch : Dim(0));
    text += stride_line(name + "_STEP", at ? at->step : Dim(0));
    text += stride_line(name + "_HEAD", at ? at->head : Dim(0));
  };
  add("RLX_Q", r.q);
  add("RLX_K", r.k);
  add("RLX_V", r.v);
  add("RLX_G", r.g);
  add("RLX_B", r.beta);
  add("RLX_Z", r.z);
  add("RLX_Y", r.y);
  return text + define_line("RLX_SCALE", literal(real, r.scale));
}

using RecurrenceDispatch = DispatchBuilder<LinearRecurrenceParams>;

// An operand that may be absent: its storage type, and the pointer.
void read_optional(RecurrenceDispatch& dispatch, const std::string& name,
                   rlx_ptr LinearRecurrenceParams::*field, const std::optional<TensorRef>& ref) {
  if (!ref) return;
  dispatch.define(name, std::string(name_of(ref->dtype()))).read(field, *ref);
}

std::optional<TensorRef> ref_of(const std::optional<HeadSteps>& at) {
  return at ? std::optional(at->ref) : std::nullopt;
}

void bind_recurrence(RecurrenceDispatch& dispatch, const LinearRecurrence& r) {
  dispatch.read(&LinearRecurrenceParams::q, r.q.ref)
      .read(&LinearRecurrenceParams::k, r.k.ref)
      .read(&LinearRecurrenceParams::v, r.v.ref)
      .write(&LinearRecurrenceParams::y, r.y.ref);
  read_optional(dispatch, "RLX_G", &LinearRecurrenceParams::g, ref_of(r.g));
  read_optional(dispatch, "RLX_B", &LinearRecurrenceParams::beta, ref_of(r.beta));
  read_optional(dispatch, "RLX_A", &LinearRecurrenceParams::a, r.a);
  read_optional(dispatch, "RLX_D", &LinearRecurrenceParams::d, r.d);
  read_optional(dispatch, "RLX_G_BIAS", &LinearRecurrenceParams::g_bias, r.g_bias);
  if (r.z) dispatch.read(&LinearRecurrenceParams::z, r.z->ref);
  if (r.state) dispatch.write(&LinearRecurrenceParams::state, *r.state);
  // Each thread reads its part of the states before it writes the same part.
  if (r.state0) {
    dispatch.read(&LinearRecurrenceParams::state0, *r.state0)
        .allow_in_place_state(r.state0->buffer);
  }
}

void define_recurrence(RecurrenceDispatch& dispatch, const LinearRecurrence& r,
                       const RecurrenceTiling& tiling, DType real) {
  const auto flag = [](bool is_set) { return is_set ? 1 : 0; };
  dispatch.define("RLX_LANES", tiling.lanes)
      .define("RLX_ROWS", tiling.rows())
      .define("RLX_BY_COLUMN", 0)
      .define("RLX_ITEMS", tiling.items)
      .define("RLX_VALUES", tiling.values)
      .define("RLX_TILE", tiling.tile)
      .define("RLX_STAGED", flag(tiling.staged))
      .size("RLX_BATCH", r.batch)
      .size("RLX_STEPS", r.steps)
      .define("RLX_HEADS", r.heads)
      .define("RLX_KEYS", r.keys)
      .define("RLX_COLUMNS", r.columns)
      .define("RLX_QUERIES", queries_of(r))
      .define("RLX_HEADS_PER_QUERY", std::max<int64_t>(r.heads / r.query_heads, 1))
      .define("RLX_HEADS_PER_KEY", r.heads / r.key_heads)
      .define("RLX_X", std::string(name_of(r.v.ref.dtype())))
      .define("RLX_S", std::string(name_of(real)))
      .define("RLX_S_KEY", r.key_major ? r.columns : 1)
      .define("RLX_S_VALUE", r.key_major ? 1 : r.keys)
      .define("RLX_DOUBLE", flag(real == DType::f64))
      .define("RLX_GATE", static_cast<int64_t>(r.gate))
      .define("RLX_SOFTPLUS", flag(r.softplus))
      .define("RLX_DELTA", flag(r.corrects))
      .define("RLX_HAS_D", flag(r.d.has_value()))
      .define("RLX_HAS_Z", flag(r.z.has_value()))
      .define("RLX_HAS_G_BIAS", flag(r.g_bias.has_value()))
      .define("RLX_HAS_STATE0", flag(r.state0.has_value()))
      .define("RLX_HAS_STATE", flag(r.state.has_value()))
      .generated("places.inc", recurrence_places(r, real));
}

Dim recurrence_bytes(const LinearRecurrence& r, DType real) {
  Dim bytes = byte_size(r.q.ref.type) + byte_size(r.k.ref.type) + byte_size(r.v.ref.type) +
              byte_size(r.y.ref.type);
  for (const std::optional<HeadSteps>& other : {r.g, r.beta, r.z}) {
    if (other) bytes += byte_size(other->ref.type);
  }
  const Dim states = r.batch * r.heads * r.keys * r.columns * element_bytes(real);
  return bytes + (r.state0 ? states : Dim(0)) + (r.state ? states : Dim(0));
}

}  // namespace

bool lower_linear_recurrence(LowerContext& ctx, const LinearRecurrence& r) {
  const std::optional<RecurrenceTiling> tiling = choose_recurrence_tiling(r);
  if (!tiling) {
    return ctx.fail(DiagCode::Limit, "heads have " + std::to_string(r.keys) +
                                         " keys; registers hold no more than 4096, 2048 of f64");
  }
  const DType real = state_dtype(r.v.ref.dtype());
  const Dim groups = r.batch * r.heads * ceil_div(r.columns, tiling->columns());
  // Only the readers of an empty state and of empty results see nothing to do.
  if (groups == 0) return true;
  auto dispatch = ctx.dispatch<KernelId::linear_recurrence>();
  define_recurrence(dispatch, r, *tiling, real);
  bind_recurrence(dispatch, r);
  const int64_t reads = 1 + queries_of(r) + (r.corrects ? 1 : 0);
  dispatch.workgroup({static_cast<uint32_t>(kRecurrenceThreads), 1, 1})
      .grid(split_grid(groups))
      .work(recurrence_bytes(r, real), 2 * reads * r.batch * r.heads * r.steps * r.keys * r.columns)
      .reason("groups of " + std::to_string(tiling->columns()) + " columns, " +
              std::to_string(tiling->items) + " of " + std::to_string(r.keys) +
              " keys to a thread, " + std::to_string(tiling->tile) + " steps at a time");
  return true;
}

}  // namespace rlx
