// SPDX-License-Identifier: Apache-2.0
// The tensors that a graph asks for: of the right shape and of types that products, norms and
// tables take. What is missing or wrong is told at once, for all of them.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "compiler/import/gguf/keys.h"
#include "compiler/import/gguf/tensor_table.h"

namespace rlx::gguf {

class WeightSet {
 public:
  WeightSet(TensorTable& tensors, Keys& keys) : tensors_(tensors), keys_(keys) {}

  // A matrix or stack of matrices: blocks, or f32, f16, bf16. nullptr after a fault was noted.
  const Tensor* matrix(const std::string& name, const std::vector<int64_t>& shape);
  // A matrix whose number of rows the file alone tells: [rows, columns].
  const Tensor* rows_of(const std::string& name, int64_t columns);
  // The same of a stack: [count, rows, columns].
  const Tensor* rows_of(const std::string& name, int64_t count, int64_t columns);
  // f32, f16 or bf16.
  const Tensor* vector(const std::string& name, int64_t size);
  // The same, of which the file may have none: nullptr then, too.
  const Tensor* optional_vector(const std::string& name, int64_t size);
  // Values of an f32 tensor that becomes no param; empty where there is none.
  std::vector<double> optional_values(const std::string& name, int64_t size);
  [[nodiscard]] bool has(const std::string& name) { return tensors_.contains(name); }

  [[nodiscard]] bool is_broken() const { return !missing_.empty() || keys_.has_errors(); }

  // Reports what was missing, or tensors that nothing asked for.
  void finish(const std::string& architecture);

 private:
  const Tensor* find(const std::string& name);
  bool fits(const Tensor& tensor, const std::vector<int64_t>& shape);
  void check_matrix(const Tensor& tensor);

  TensorTable& tensors_;
  Keys& keys_;
  std::vector<std::string> missing_;  // each once
  std::unordered_set<std::string> known_missing_;
};

}  // namespace rlx::gguf
