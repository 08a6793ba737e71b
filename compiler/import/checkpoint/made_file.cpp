// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/checkpoint/made_file.h"

#include <span>
#include <utility>

namespace rlx::checkpoint {

void MadeFile::array(const std::string& key, gguf::ValueType type, uint64_t count,
                     std::string bytes) {
  const std::string& kept = keep(std::move(bytes));
  set(key, gguf::Array{.type = type, .count = count, .bytes = std::as_bytes(std::span(kept))});
}

void MadeFile::texts(const std::string& key, const std::vector<std::string>& items) {
  std::string bytes;
  for (const std::string& item : items) {
    const uint64_t size = item.size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes += item;
  }
  array(key, gguf::ValueType::String, items.size(), std::move(bytes));
}

void MadeFile::integers(const std::string& key, const std::vector<int32_t>& items) {
  array(key, gguf::ValueType::I32, items.size(),
        {reinterpret_cast<const char*>(items.data()), items.size() * sizeof(int32_t)});
}

void MadeFile::reals(const std::string& key, const std::vector<float>& items) {
  array(key, gguf::ValueType::F32, items.size(),
        {reinterpret_cast<const char*>(items.data()), items.size() * sizeof(float)});
}

void MadeFile::bytes(const std::string& key, const std::string& items) {
  array(key, gguf::ValueType::U8, items.size(), items);
}

}  // namespace rlx::checkpoint
