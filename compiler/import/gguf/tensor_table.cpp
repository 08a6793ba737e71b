// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/gguf/tensor_table.h"

#include "compiler/support/check.h"

namespace rlx::gguf {

void TensorTable::add(const File& file, const std::string& name, const HostBytes& bytes) {
  files_.push_back({.name = name, .bytes = bytes});
  for (const Tensor& tensor : file.tensors) {
    const bool is_new = by_name_.emplace(tensor.name, entries_.size()).second;
    RLX_CHECK(is_new, "two tensors " + tensor.name);
    entries_.push_back({.tensor = tensor, .file = files_.size() - 1});
  }
}

void TensorTable::add_made(const Tensor& tensor, const std::string& name,
                           std::shared_ptr<const void> owner) {
  File file;
  file.tensors.push_back(tensor);
  add(file, name, {.owner = std::move(owner), .bytes = {}});
  files_.back().is_file = false;
}

TensorTable::Entry* TensorTable::find(const std::string& name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

const Tensor* TensorTable::read(const std::string& name) {
  Entry* entry = find(name);
  if (entry == nullptr) return nullptr;
  entry->is_read = true;
  return &entry->tensor;
}

const Tensor* TensorTable::read_param(const std::string& name) {
  Entry* entry = find(name);
  if (entry == nullptr) return nullptr;
  entry->is_read = true;
  entry->is_param = true;
  return &entry->tensor;
}

std::vector<SourceTensor> TensorTable::params() const {
  std::vector<SourceTensor> params;
  for (const Entry& entry : entries_) {
    if (!entry.is_param) continue;
    const Origin& origin = files_[entry.file];
    const HostBytes bytes{.owner = origin.bytes.owner, .bytes = entry.tensor.bytes};
    SourceData data = bytes;
    if (origin.is_file) {
      data = RawFile{.path = origin.name,
                     .offset_bytes = entry.tensor.offset_bytes,
                     .mapped = bytes,
                     .file = origin.bytes.bytes};
    }
    params.push_back({.place = {origin.name, ""},
                      .name = entry.tensor.name,
                      .dtype = entry.tensor.dtype,
                      .shape = {entry.tensor.shape.begin(), entry.tensor.shape.end()},
                      .data = data});
  }
  return params;
}

std::vector<std::string_view> TensorTable::unread() const {
  std::vector<std::string_view> names;
  for (const Entry& entry : entries_) {
    if (!entry.is_read) names.push_back(entry.tensor.name);
  }
  return names;
}

}  // namespace rlx::gguf
