// SPDX-License-Identifier: Apache-2.0
// The tensors of a model by name, over all of its files; what nobody reads is told.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/import/gguf/gguf_file.h"
#include "compiler/import/source_graph.h"

namespace rlx::gguf {

class TensorTable {
 public:
  // Adds the tensors of a file, whose names are new. `name` is what a graph beside it would refer
  // to.
  void add(const File& file, const std::string& name, const HostBytes& bytes);
  // The same for one whose bytes stand in no file; `name` is where its parts came from.
  void add_made(const Tensor& tensor, const std::string& name, std::shared_ptr<const void> owner);

  [[nodiscard]] size_t size() const { return entries_.size(); }
  [[nodiscard]] bool contains(const std::string& name) const { return by_name_.contains(name); }
  // Marks the tensor as read; nullptr where there is none.
  const Tensor* read(const std::string& name);
  // The same for one that the graph has as a param.
  const Tensor* read_param(const std::string& name);

  // Params in the files' order: views of the files, which name their bytes, and of made ones.
  [[nodiscard]] std::vector<SourceTensor> params() const;
  [[nodiscard]] std::vector<std::string_view> unread() const;

 private:
  struct Entry {
    Tensor tensor;
    size_t file = 0;
    bool is_read = false;
    bool is_param = false;
  };
  struct Origin {
    std::string name;
    HostBytes bytes;  // the whole file; the owner alone where they may not stay there
    bool is_file = true;
  };
  Entry* find(const std::string& name);

  std::vector<Origin> files_;
  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> by_name_;
};

}  // namespace rlx::gguf
