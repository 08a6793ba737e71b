// SPDX-License-Identifier: Apache-2.0
// operator new of this executable counts.
#pragma once

#include <cstdint>

namespace rlx::test {

// How often this thread has called operator new.
uint64_t allocations_of_this_thread();

}  // namespace rlx::test
