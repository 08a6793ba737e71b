// SPDX-License-Identifier: Apache-2.0
// Replaces the global operators; apart from their users, so that the compiler sees no half of a
// pair.
#include "tests/support/counting_allocator.h"

#include <cstdlib>
#include <new>

namespace {

thread_local uint64_t allocation_count = 0;

}  // namespace

namespace rlx::test {

uint64_t allocations_of_this_thread() {
  return allocation_count;
}

}  // namespace rlx::test

void* operator new(std::size_t size_bytes, const std::nothrow_t&) noexcept {
  ++allocation_count;
  return std::malloc(size_bytes == 0 ? 1 : size_bytes);
}
void* operator new(std::size_t size_bytes) {
  if (void* memory = operator new(size_bytes, std::nothrow); memory != nullptr) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
