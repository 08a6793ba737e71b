// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk, found by a hash of everything that they depend on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "compiler/emit/kernel_code.h"
#include "compiler/support/diagnostics.h"

namespace rlx {

// Whose work a cache may be. Whoever can write an entry decides what code a plan gets.
enum class CacheTrust : uint8_t {
  OnlyOwn,  // the user's own folder and files, to which nobody else may write
  Anyone    // the user named the folder, and answers for it
};

// A folder of files <key>.rlxk. An entry holds its whole key and a checksum: under another name,
// cut short, altered or of another format it is a miss, as is what is no regular file. Entries
// appear whole, for every process at once. A folder that cannot be written to costs time, never
// correctness, so it is not an error.
class CodeCache {
 public:
  // Makes the folder where it is missing. nullopt where there can be none, or, with a warning,
  // where others may write to it and that is not trusted.
  static std::optional<CodeCache> open(const std::string& folder, CacheTrust trust,
                                       Diagnostics& diagnostics);

  // SHA-256 of the inputs and of this compiler's version, in hexadecimal.
  static std::string key_of(std::string_view inputs);

  [[nodiscard]] std::optional<KernelCode> load(const std::string& key) const;
  void store(const std::string& key, const KernelCode& code) const;

 private:
  CodeCache(std::string folder, CacheTrust trust) : folder_(std::move(folder)), trust_(trust) {}
  [[nodiscard]] std::string path_of(const std::string& key) const;

  std::string folder_;
  CacheTrust trust_;
};

}  // namespace rlx
