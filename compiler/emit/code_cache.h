// SPDX-License-Identifier: Apache-2.0
// Compiled kernels on disk, found by a hash of everything that they depend on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/emit/kernel_code.h"

namespace rlx {

// A folder of files <key>.rlxk. Entries are written to a temporary name and renamed, carry a
// checksum, and hold for every process at once; one that is missing, cut short, altered or of
// another format is a miss. A folder that cannot be written to costs time, never correctness, so it
// is not an error.
class CodeCache {
 public:
  explicit CodeCache(std::string folder);

  // 128-bit content hash of the inputs, in hexadecimal.
  static std::string key_of(std::string_view inputs);

  [[nodiscard]] std::optional<KernelCode> load(const std::string& key) const;
  void store(const std::string& key, const KernelCode& code) const;

 private:
  [[nodiscard]] std::string path_of(const std::string& key) const;
  std::string folder_;
};

}  // namespace rlx
