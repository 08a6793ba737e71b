// SPDX-License-Identifier: Apache-2.0
// The form of linear recurrences that takes chunks of steps as products on tensor cores.
#include <algorithm>

#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/sequences/linear_recurrence_forms.h"
#include "schema/rounding.h"

namespace rlx {
namespace {

// The names are those of the kernel.
constexpr int64_t kChunkSteps = 64;
constexpr int64_t kGroupColumns = 16;
constexpr int64_t kMostKeys = 128;
constexpr int64_t kPairThreads = 128;
constexpr int64_t kStateThreads = 384;  // four warps walk, four find results, four fetch
constexpr int64_t kPartWords = (kChunkSteps / 16) * (kChunkSteps / 16 + 1) * 64;

// Enough for each of the kernel's forms of a record.
int64_t record_words(const LinearRecurrence& r) {
  const int64_t parts = r.v.ref.dtype() == DType::bf16 ? 3 : 2;  // of 16 bits, of a triangle
  const int64_t triangles = r.corrects ? 2 : 1;
  return triangles * parts * kPartWords + (2 + triangles) * kChunkSteps + 4;
}

Dim state_groups(const LinearRecurrence& r) {
  return r.batch * r.heads * ceil_div(r.columns, kGroupColumns);
}

// Rows are copied by 16 bytes.
bool has_whole_pieces(const OfferContext& at, const HeadSteps& view) {
  constexpr int64_t kPiece = 8;
  return view.batch % kPiece == 0 && view.step % kPiece == 0 && view.head % kPiece == 0 &&
         at.alignment(view.ref) >= 16;
}

// Results are stored by two columns.
bool has_pairs(const OfferContext& at, const HeadSteps& view, int64_t columns) {
  return columns % 2 == 0 && view.batch % 2 == 0 && view.step % 2 == 0 && view.head % 2 == 0 &&
         at.alignment(view.ref) >= 4;
}

void dispatch_pairs(LowerContext& ctx, const LinearRecurrence& r, const TensorRef& partial) {
  const Dim chunks = ceil_div(r.steps, kChunkSteps);
  const Dim records = r.batch * chunks * r.heads;
  auto dispatch = ctx.dispatch<KernelId::linear_recurrence_mma>();
  describe_recurrence(dispatch, r);
  dispatch.read(&LinearRecurrenceParams::q, r.q.ref, 16)
      .read(&LinearRecurrenceParams::k, r.k.ref, 16)
      .bind(offsetof(LinearRecurrenceParams, partial), partial, AccessMode::Write, 16);
  read_optional(dispatch, "RLX_G", &LinearRecurrenceParams::g, ref_of(r.g));
  read_optional(dispatch, "RLX_B", &LinearRecurrenceParams::beta, ref_of(r.beta));
  read_optional(dispatch, "RLX_A", &LinearRecurrenceParams::a, r.a);
  read_optional(dispatch, "RLX_G_BIAS", &LinearRecurrenceParams::g_bias, r.g_bias);
  dispatch.workgroup({static_cast<uint32_t>(kPairThreads), 1, 1})
      .define("RLX_PHASE", 1)
      .size("RLX_CHUNKS", chunks)
      .generated("places.inc", recurrence_places(r, chunks))
      .grid(split_grid(records))
      .work(byte_size(r.q.ref.type) + byte_size(r.k.ref.type) + byte_size(partial.type),
            records * ((r.corrects ? 2 : 1) * kChunkSteps * kChunkSteps * r.keys))
      .reason("products of all pairs of steps in chunks of " + std::to_string(kChunkSteps));
}

void dispatch_states(LowerContext& ctx, const LinearRecurrence& r, const TensorRef& partial) {
  const Dim chunks = ceil_div(r.steps, kChunkSteps);
  const Dim states = r.batch * r.heads * r.keys * r.columns;
  const int64_t reads = 2 + (r.corrects ? 1 : 0);
  // A workgroup fills a multiprocessor: where there are more groups, it takes several, and fetches
  // ahead from one to the next.
  const int64_t multiprocessors = ctx.target().device.multiprocessors;
  const bool takes_several = multiprocessors > 0 && state_groups(r).bound() > multiprocessors;
  auto dispatch = ctx.dispatch<KernelId::linear_recurrence_mma>();
  describe_recurrence(dispatch, r);
  dispatch.read(&LinearRecurrenceParams::q, r.q.ref, 16)
      .read(&LinearRecurrenceParams::k, r.k.ref, 16)
      .read(&LinearRecurrenceParams::v, r.v.ref)
      .write(&LinearRecurrenceParams::y, r.y.ref)
      .bind(offsetof(LinearRecurrenceParams, partial), partial, AccessMode::Read, 16);
  read_optional(dispatch, "RLX_D", &LinearRecurrenceParams::d, r.d);
  if (r.z) dispatch.read(&LinearRecurrenceParams::z, r.z->ref);
  if (r.state) dispatch.write(&LinearRecurrenceParams::state, *r.state);
  // Each thread reads its part of the states before it writes the same part.
  if (r.state0) {
    dispatch.read(&LinearRecurrenceParams::state0, *r.state0)
        .allow_in_place_state(r.state0->buffer);
  }
  dispatch.workgroup({static_cast<uint32_t>(kStateThreads), 1, 1})
      .define("RLX_PHASE", 2)
      .define("RLX_Y_PAIRS", has_pairs(ctx, r.y, r.columns) ? 1 : 0)
      .size("RLX_CHUNKS", chunks)
      .generated("places.inc", recurrence_places(r, chunks))
      .define("RLX_GROUPS_AT_ONCE", takes_several ? multiprocessors : 0)
      .grid(split_grid(takes_several ? Dim(multiprocessors) : state_groups(r)))
      .work(recurrence_bytes(r) + byte_size(partial.type), 2 * reads * r.steps * states)
      .reason("groups of " + std::to_string(kGroupColumns) + " columns, chunks of " +
              std::to_string(kChunkSteps) + " steps one after another");
}

}  // namespace

std::string mma_recurrence_refusal(const OfferContext& at, const LinearRecurrence& r) {
  const DType x = r.v.ref.dtype();
  if (x != DType::f16 && x != DType::bf16)
    return "q, k and v are " + std::string(name_of(x)) + ", it takes f16 and bf16";
  if (r.gate == RecurrenceGate::ByKey) return "keys have gates of their own";
  if (queries_of(r) > 1) return "several heads of queries read a head of states";
  if (r.keys % 16 != 0 || r.keys > kMostKeys) {
    return std::to_string(r.keys) + " keys, it takes multiples of 16 up to " +
           std::to_string(kMostKeys);
  }
  if (!has_whole_pieces(at, r.q) || !has_whole_pieces(at, r.k))
    return "rows of q or k are no whole pieces of 16 bytes";
  if (r.steps.bound() < kChunkSteps) return "sequences are shorter than a chunk";
  // Where no step reads the states, chunks may go at once. Measured on an H200 with 2 heads.
  constexpr int64_t kFewSteps = 256;
  if (!r.corrects && r.steps.bound() >= kFewSteps &&
      state_groups(r).bound() * 3 < int64_t{at.device().multiprocessors})
    return "chunks one after another would leave most of the device idle";
  return {};
}

// Fitted on an H200 to 64 to 4096 steps of heads of 64 and 128 keys, within a quarter.
double mma_recurrence_microseconds(const OfferContext& at, const LinearRecurrence& r) {
  constexpr double kBegin = 3;                  // of a workgroup that walks, before its first chunk
  const double steps = r.corrects ? 11 : 8;     // however little there is to do
  const double pairs = r.corrects ? 3.5 : 1.3;  // of a multiprocessor, a record's
  const double chunk = 0.3 + (r.corrects ? 1.48 : 0.87) * static_cast<double>(r.keys) / kMostKeys;
  const int64_t multiprocessors = std::max<int64_t>(at.device().multiprocessors, 1);
  const int64_t chunks = ceil_div(r.steps.bound(), kChunkSteps);
  const int64_t records = r.batch.bound() * chunks * r.heads;
  const int64_t turns = ceil_div(state_groups(r).bound(), multiprocessors);
  return steps + pairs * static_cast<double>(records) / static_cast<double>(multiprocessors) +
         kBegin + static_cast<double>(turns) * chunk * static_cast<double>(chunks);
}

bool emit_mma_recurrence(LowerContext& ctx, const LinearRecurrence& r) {
  const Dim records = r.batch * ceil_div(r.steps, kChunkSteps) * r.heads;
  const TensorRef partial = ctx.scratch({DType::f32, {records, record_words(r)}}, "partial");
  dispatch_pairs(ctx, r, partial);
  dispatch_states(ctx, r, partial);
  return true;
}

}  // namespace rlx
