// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry to one format: RLX_FUZZ_TARGET is its function in import_targets.h.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/import_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rlx::fuzz::run_on_copy(rlx::fuzz::RLX_FUZZ_TARGET, std::as_bytes(std::span(data, size)));
  return 0;
}
