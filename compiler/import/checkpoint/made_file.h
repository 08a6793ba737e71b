// SPDX-License-Identifier: Apache-2.0
// Keys as a GGUF file would have them, made of what other files say.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/gguf/gguf_file.h"

namespace rlx::checkpoint {

class MadeFile {
 public:
  MadeFile() = default;
  MadeFile(const MadeFile&) = delete;  // the file views what this owns
  MadeFile& operator=(const MadeFile&) = delete;

  void integer(const std::string& key, int64_t value) { set(key, value); }
  void real(const std::string& key, double value) { set(key, value); }
  void flag(const std::string& key, bool value) { set(key, value); }
  void text(const std::string& key, std::string value) {
    set(key, std::string_view(keep(std::move(value))));
  }
  void texts(const std::string& key, const std::vector<std::string>& items);
  void integers(const std::string& key, const std::vector<int32_t>& items);
  void reals(const std::string& key, const std::vector<float>& items);
  void bytes(const std::string& key, const std::string& items);

  [[nodiscard]] const gguf::File& file() const { return file_; }

 private:
  const std::string& keep(std::string bytes) { return kept_.emplace_back(std::move(bytes)); }
  void set(const std::string& key, gguf::Value value) { file_.keys[keep(key)] = value; }
  void array(const std::string& key, gguf::ValueType type, uint64_t count, std::string bytes);

  std::deque<std::string> kept_;
  gguf::File file_;
};

}  // namespace rlx::checkpoint
