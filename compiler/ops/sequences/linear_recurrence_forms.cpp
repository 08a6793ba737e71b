// SPDX-License-Identifier: Apache-2.0
// What the kernels of linear recurrences are told alike.
#include "compiler/ops/sequences/linear_recurrence_forms.h"

#include <algorithm>
#include <vector>

#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/rows.h"
#include "compiler/ops/sequences/state_inputs.h"

namespace rlx {
namespace {

// That a group may have beside those of the matrix.
constexpr int64_t kMostGroupColumns = 256;

}  // namespace

int64_t queries_of(const LinearRecurrence& r) {
  return std::max<int64_t>(r.query_heads / r.heads, 1);
}

std::string recurrence_places(const LinearRecurrence& r, const Dim& chunks) {
  std::vector<TensorRef> views = {r.q.ref, r.k.ref, r.v.ref, r.y.ref};
  for (const std::optional<HeadSteps>& other : {r.g, r.beta, r.z}) {
    if (other) views.push_back(other->ref);
  }
  const Dim states =
      (r.batch + 1) * (chunks + 1) * r.heads * (r.keys + 1) * (r.columns + kMostGroupColumns);
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
  return text + define_line("RLX_SCALE", literal(state_dtype(r.v.ref.dtype()), r.scale));
}

void read_optional(RecurrenceDispatch& dispatch, const std::string& name,
                   rlx_ptr LinearRecurrenceParams::*field, const std::optional<TensorRef>& ref) {
  if (!ref) return;
  dispatch.define(name, std::string(name_of(ref->dtype()))).read(field, *ref);
}

std::optional<TensorRef> ref_of(const std::optional<HeadSteps>& at) {
  return at ? std::optional(at->ref) : std::nullopt;
}

void describe_recurrence(RecurrenceDispatch& dispatch, const LinearRecurrence& r) {
  const auto flag = [](bool is_set) { return is_set ? 1 : 0; };
  dispatch.size("RLX_BATCH", r.batch)
      .size("RLX_STEPS", r.steps)
      .define("RLX_HEADS", r.heads)
      .define("RLX_KEYS", r.keys)
      .define("RLX_COLUMNS", r.columns)
      .define("RLX_HEADS_PER_QUERY", std::max<int64_t>(r.heads / r.query_heads, 1))
      .define("RLX_HEADS_PER_KEY", r.heads / r.key_heads)
      .define("RLX_X", std::string(name_of(r.v.ref.dtype())))
      .define("RLX_S_KEY", r.key_major ? r.columns : 1)
      .define("RLX_S_VALUE", r.key_major ? 1 : r.keys)
      .define("RLX_GATE", static_cast<int64_t>(r.gate))
      .define("RLX_SOFTPLUS", flag(r.softplus))
      .define("RLX_DELTA", flag(r.corrects))
      .define("RLX_HAS_D", flag(r.d.has_value()))
      .define("RLX_HAS_Z", flag(r.z.has_value()))
      .define("RLX_HAS_G_BIAS", flag(r.g_bias.has_value()))
      .define("RLX_HAS_STATE0", flag(r.state0.has_value()))
      .define("RLX_HAS_STATE", flag(r.state.has_value()));
}

Dim recurrence_bytes(const LinearRecurrence& r) {
  Dim bytes = byte_size(r.q.ref.type) + byte_size(r.k.ref.type) + byte_size(r.v.ref.type) +
              byte_size(r.y.ref.type);
  for (const std::optional<HeadSteps>& other : {r.g, r.beta, r.z}) {
    if (other) bytes += byte_size(other->ref.type);
  }
  const Dim states =
      r.batch * r.heads * r.keys * r.columns * element_bytes(state_dtype(r.v.ref.dtype()));
  return bytes + (r.state0 ? states : Dim(0)) + (r.state ? states : Dim(0));
}

}  // namespace rlx
