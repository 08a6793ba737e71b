// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/weight_set.h"

#include <cmath>
#include <cstring>

#include "compiler/import/names.h"
#include "compiler/ops/lowering/block_weights.h"

namespace rlx::gguf {
namespace {

std::string text_of(const Tensor& tensor) {
  return to_string(TensorType{tensor.dtype, {tensor.shape.begin(), tensor.shape.end()}});
}

std::string text_of(const std::vector<int64_t>& shape) {
  return to_string(Shape(shape.begin(), shape.end()));
}

}  // namespace

const Tensor* WeightSet::find(const std::string& name) {
  const Tensor* tensor = tensors_.read_param(name);
  if (tensor == nullptr && known_missing_.insert(name).second) missing_.push_back(name);
  return tensor;
}

bool WeightSet::fits(const Tensor& tensor, const std::vector<int64_t>& shape) {
  if (tensor.shape == shape) return true;
  keys_.fail(DiagCode::BadShape, "tensor " + in_quotes(tensor.name) + " is " + text_of(tensor) +
                                     ", wanted " + text_of(shape));
  return false;
}

void WeightSet::check_matrix(const Tensor& tensor) {
  if (is_block_type(tensor.dtype) || is_short_float(tensor.dtype)) return;
  keys_.fail(DiagCode::BadDtype, "tensor " + in_quotes(tensor.name) + " is " + text_of(tensor) +
                                     ", wanted blocks or f32, f16 or bf16");
}

const Tensor* WeightSet::matrix(const std::string& name, const std::vector<int64_t>& shape) {
  const Tensor* tensor = find(name);
  if (tensor == nullptr || !fits(*tensor, shape)) return nullptr;
  check_matrix(*tensor);
  return tensor;
}

const Tensor* WeightSet::rows_of(const std::string& name, int64_t columns) {
  const Tensor* tensor = find(name);
  if (tensor == nullptr) return nullptr;
  return matrix(name, {tensor->shape.front(), columns});
}

const Tensor* WeightSet::rows_of(const std::string& name, int64_t count, int64_t columns) {
  const Tensor* tensor = find(name);
  if (tensor == nullptr) return nullptr;
  const int64_t rows = tensor->shape.size() < 2 ? 1 : tensor->shape[tensor->shape.size() - 2];
  return matrix(name, {count, rows, columns});
}

const Tensor* WeightSet::vector(const std::string& name, int64_t size) {
  const Tensor* tensor = find(name);
  if (tensor == nullptr || !fits(*tensor, {size})) return nullptr;
  if (is_short_float(tensor->dtype)) return tensor;
  keys_.fail(DiagCode::BadDtype,
             "tensor " + in_quotes(name) + " is " + text_of(*tensor) + ", wanted f32, f16 or bf16");
  return nullptr;
}

const Tensor* WeightSet::optional_vector(const std::string& name, int64_t size) {
  return has(name) ? vector(name, size) : nullptr;
}

std::vector<double> WeightSet::optional_values(const std::string& name, int64_t size) {
  const Tensor* tensor = tensors_.read(name);
  if (tensor == nullptr || !fits(*tensor, {size})) return {};
  std::vector<double> values;
  for (size_t at = 0; tensor->dtype == DType::f32 && at < tensor->bytes.size(); at += 4) {
    float value = 0;
    std::memcpy(&value, tensor->bytes.data() + at, sizeof value);
    if (std::isfinite(value) && value != 0) values.push_back(value);
  }
  if (values.size() == static_cast<size_t>(size)) return values;
  keys_.fail(DiagCode::BadDtype, "tensor " + in_quotes(name) + " is " + text_of(*tensor) +
                                     ", wanted f32 values that are finite and not 0");
  return {};
}

void WeightSet::finish(const std::string& architecture) {
  if (!missing_.empty()) {
    const std::vector<std::string_view> names(missing_.begin(), missing_.end());
    keys_.fail(DiagCode::BadField,
               "a model of architecture " + in_quotes(architecture) +
                   " wants tensors that the file does not have: " + list_names(names),
               "a file of one tensor per expert, or without a part of the model, is not read");
    return;
  }
  const std::vector<std::string_view> unread = tensors_.unread();
  if (unread.empty() || keys_.has_errors()) return;  // what was refused was not read on
  keys_.fail(DiagCode::UnsupportedOp,
             "the file has tensors that architecture " + in_quotes(architecture) +
                 " does not read: " + list_names(unread),
             "a tensor that is left out would change what the model says");
}

}  // namespace rlx::gguf
