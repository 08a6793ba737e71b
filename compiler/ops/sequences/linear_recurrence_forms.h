// SPDX-License-Identifier: Apache-2.0
// What the forms of linear recurrences have in common: the defines and pointers that their kernels
// share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/sequences/linear_recurrence.h"

namespace rlx {

using RecurrenceDispatch = DispatchBuilder<LinearRecurrenceParams>;

// Heads of queries that read a head of states.
int64_t queries_of(const LinearRecurrence& r);

// Text of generated/places.inc.
std::string recurrence_places(const LinearRecurrence& r, const Dim& chunks);
// Sizes, types, and which operands there are.
void describe_recurrence(RecurrenceDispatch& dispatch, const LinearRecurrence& r);
// An operand that may be absent: its storage type, and the pointer.
void read_optional(RecurrenceDispatch& dispatch, const std::string& name,
                   rlx_ptr LinearRecurrenceParams::*field, const std::optional<TensorRef>& ref);
std::optional<TensorRef> ref_of(const std::optional<HeadSteps>& at);

// Of all operands, each once.
Dim recurrence_bytes(const LinearRecurrence& r);

// linear_recurrence_mma: chunks of steps as products on tensor cores.
std::string mma_recurrence_refusal(const OfferContext& at, const LinearRecurrence& r);
double mma_recurrence_microseconds(const OfferContext& at, const LinearRecurrence& r);
bool emit_mma_recurrence(LowerContext& ctx, const LinearRecurrence& r);

}  // namespace rlx
