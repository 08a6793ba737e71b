// SPDX-License-Identifier: Apache-2.0
// The products of an entry that the vendor's library computes, as plan.fbs tables.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/dispatch/library_gemm.h"
#include "schema/plan_generated.h"

namespace rlx {

// Collects the gemms of one entry, equal ones once: what is tuned for one step serves all of them.
class GemmTable {
 public:
  // Its number in the table.
  uint32_t add(const LibraryGemm& gemm);
  [[nodiscard]] std::vector<flatbuffers::Offset<fb::LibraryGemm>> build(
      flatbuffers::FlatBufferBuilder& builder) const;

 private:
  std::vector<LibraryGemm> gemms_;
};

}  // namespace rlx
