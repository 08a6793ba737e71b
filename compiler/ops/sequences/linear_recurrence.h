// SPDX-License-Identifier: Apache-2.0
// Lowering of ops whose state is a matrix per head (ops.md 10.5, 10.6) to the kernel
// linear_recurrence.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// Where a tensor's element (batch, step, head) stands, in elements.
struct HeadSteps {
  TensorRef ref;
  Dim batch = 0;
  Dim step = 0;
  Dim head = 0;
};

// What the states are multiplied by before they take in a step.
enum class RecurrenceGate : uint8_t {
  None,
  ByHead,   // e^g
  ByKey,    // e^g of each key
  StepSize  // e^(g a): g is a step size, by which values are multiplied too
};

struct LinearRecurrence {
  Dim batch = 1;
  Dim steps = 1;
  int64_t heads = 1;  // of states and values
  int64_t query_heads = 1;
  int64_t key_heads = 1;
  int64_t keys = 1;
  int64_t columns = 1;
  HeadSteps q = {};
  HeadSteps k = {};
  HeadSteps v = {};
  HeadSteps y = {};
  std::optional<HeadSteps> g = std::nullopt;
  std::optional<HeadSteps> beta = std::nullopt;
  std::optional<HeadSteps> z = std::nullopt;
  std::optional<TensorRef> a = std::nullopt;
  std::optional<TensorRef> d = std::nullopt;
  std::optional<TensorRef> g_bias = std::nullopt;
  std::optional<TensorRef> state0 = std::nullopt;
  std::optional<TensorRef> state = std::nullopt;
  RecurrenceGate gate = RecurrenceGate::None;
  bool corrects = false;  // values are taken in as their difference to what the key reads (delta)
  bool softplus = false;  // of step sizes
  bool key_major = true;  // states are [keys, columns], else [columns, keys]
  double scale = 1;
};

bool lower_linear_recurrence(LowerContext& ctx, const LinearRecurrence& recurrence);

}  // namespace rlx
