// SPDX-License-Identifier: Apache-2.0
// Metadata of a GGUF file by key, of the type that is wanted. What was asked for is remembered, so
// that keys which nothing reads can be told.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/gguf/gguf_file.h"
#include "compiler/support/diagnostics.h"

namespace rlx::gguf {

class Keys {
 public:
  Keys(const File& file, std::string path, Diagnostics& diagnostics)
      : file_(file), place_{std::move(path), ""}, diagnostics_(diagnostics) {}

  // nullptr where the file has no such key.
  const Value* find(const std::string& key);

  // nullopt where the file has no such key, and after an error where it is of another type.
  std::optional<int64_t> integer(const std::string& key);
  std::optional<double> real(const std::string& key);  // of f32's range
  std::optional<bool> flag(const std::string& key);
  std::optional<std::string> text(const std::string& key);  // legal as a note of a graph
  // An integer, or a list of equal ones: what holds for every layer alike.
  std::optional<int64_t> integer_of_layers(const std::string& key);

  // Within [least, most]; an error and `least` otherwise, and where the file has no such key and
  // `fallback` is none.
  int64_t integer_in(const std::string& key, int64_t least, int64_t most,
                     std::optional<int64_t> fallback = std::nullopt);

  // Keys that begin with `prefix` and were not asked for.
  [[nodiscard]] std::vector<std::string_view> unread(std::string_view prefix) const;

  [[nodiscard]] bool has_errors() const { return diagnostics_.has_errors(); }
  void fail(DiagCode code, const std::string& message, const std::string& hint = {});
  void warn(const std::string& message, const std::string& hint = {});

 private:
  std::nullopt_t wrong_type(const std::string& key, const Value& value, std::string_view wanted);

  const File& file_;
  SourcePlace place_;
  Diagnostics& diagnostics_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace rlx::gguf
