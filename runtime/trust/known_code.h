// SPDX-License-Identifier: Apache-2.0
// A caller's list of kernel code that may run.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/base/sha256.h"
#include "runtime/base/status.h"

namespace rlx {

class KnownCode {
 public:
  // Lines that begin with a SHA-256 digest, as `rlxc inspect --known` prints them; what follows it,
  // empty lines and lines that begin with # are for readers. One digest at least. An error names
  // the line.
  static Status parse(std::string_view list, KnownCode& known);
  [[nodiscard]] bool contains(const Sha256Digest& digest) const;

 private:
  std::vector<Sha256Digest> digests_;  // ascending
};

}  // namespace rlx
