// SPDX-License-Identifier: Apache-2.0
// operator new of this executable counts, and fails where a test wants it to.
#pragma once

#include <cstdint>

namespace rlx::test {

// How often this thread has called operator new.
uint64_t allocations_of_this_thread();

// The allocation of this number from now on fails, counted over all threads that are not inside a
// driver; 0: none. Drivers are not asked to bear it.
void fail_allocation(uint64_t number);
// Whether that allocation was asked for.
bool allocation_failed();
// This thread enters a driver (1) or leaves it (-1). Threads that are begun there stay there.
void in_driver(int step);

}  // namespace rlx::test
