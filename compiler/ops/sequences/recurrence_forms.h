// SPDX-License-Identifier: Apache-2.0
// What the kernels of recurrence have in common: the problem, the form that runs on any device, and
// the defines and pointers that they share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/sequences/recurrence.h"

namespace rlx {

struct Recurrence {
  CellKind cell = CellKind::Lstm;
  SequenceForm form;
  Dim batch;
  Dim steps;
  int64_t hidden = 0;
  TensorRef x;
  TensorRef w;
  TensorRef y;
  // Of inputs 2 to 6 and of the outputs behind y, those that are there.
  std::optional<TensorRef> bias;
  std::optional<TensorRef> h0;
  std::optional<TensorRef> c0;
  std::optional<TensorRef> lengths;
  std::optional<TensorRef> peephole;
  std::optional<TensorRef> h;
  std::optional<TensorRef> c;

  [[nodiscard]] int64_t gates() const { return gates_of(cell); }
  [[nodiscard]] uint64_t weight_bytes() const {  // of one direction
    return static_cast<uint64_t>(gates() * hidden * hidden * element_bytes(w.dtype()));
  }
};

bool has_free_sizes(const Recurrence& problem);

// How the threads of a workgroup divide: `lanes` neighbours share a unit of h.
struct CellPlan {
  uint32_t width = 1;  // depths that a thread loads at once
  uint32_t lanes = 1;
  uint32_t units = 1;  // at once
  int64_t sequences = 1;
};
CellPlan cell_plan(const OfferContext& at, const Recurrence& problem, uint32_t threads);

// Of a workgroup that takes all steps and keeps no weights: why it cannot; empty where it can. Its
// states for `sequences`.
std::string whole_refusal(const OfferContext& at, const Recurrence& problem);
int64_t whole_shared_bytes(const Recurrence& problem, int64_t sequences);

using CellDispatch = DispatchBuilder<RecurrenceParams>;
// What all forms say of the problem, and what those of all steps say besides.
void describe(CellDispatch& dispatch, const Recurrence& problem, const CellPlan& plan);
void describe_states(CellDispatch& dispatch, const Recurrence& problem);

// recurrence_together: all steps by workgroups that run at once, on tensor cores.
std::string together_refusal(const OfferContext& at, const Recurrence& problem);
double together_microseconds(const OfferContext& at, const Recurrence& problem);
bool emit_together(LowerContext& ctx, const Recurrence& problem);

}  // namespace rlx
