// SPDX-License-Identifier: Apache-2.0
// Weights that passes look into, each evaluated once.
#pragma once

#include <map>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace rlx {

class KnownTensors {
 public:
  KnownTensors(const Module& module, const Graph& graph) : module_(module), graph_(graph) {}

  // The elements of a value of the graph; nullptr where it is no weight, too large, or made of
  // random numbers.
  const Tensor* of(ValueId id);

 private:
  [[nodiscard]] bool is_evaluable(const Weight& weight) const;

  const Module& module_;
  const Graph& graph_;
  std::map<WeightId, Tensor> tensors_;
};

// An element as a number, of floats and of integers.
double number_at(const Tensor& tensor, size_t i);

}  // namespace rlx
