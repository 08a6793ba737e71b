// SPDX-License-Identifier: Apache-2.0
// Replaces the global operators; apart from their users, so that the compiler sees no half of a
// pair.
#include "tests/support/counting_allocator.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace {

thread_local uint64_t allocation_count = 0;
thread_local int driver_depth = 0;
std::atomic<uint64_t> until_failure{0};  // 0: none fails
std::atomic<bool> failed{false};

bool is_to_fail() {
  if (until_failure.load(std::memory_order_relaxed) == 0 || driver_depth > 0) return false;
  if (until_failure.fetch_sub(1) != 1) return false;
  failed = true;
  return true;
}

struct Start {
  void* (*body)(void*);
  void* argument;
};

void* run_in_driver(void* start) {
  const Start taken = *static_cast<Start*>(start);
  std::free(start);
  driver_depth = 1;
  return taken.body(taken.argument);
}

}  // namespace

namespace rlx::test {

uint64_t allocations_of_this_thread() {
  return allocation_count;
}

void fail_allocation(uint64_t number) {
  failed = false;
  until_failure = number;
}

bool allocation_failed() {
  return failed;
}

void in_driver(int step) {
  driver_depth += step;
}

}  // namespace rlx::test

void* operator new(std::size_t size_bytes, const std::nothrow_t&) noexcept {
  ++allocation_count;
  if (is_to_fail()) return nullptr;
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

// In place of the system's, for a driver's own threads.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*body)(void*), void* argument) {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (driver_depth == 0) return real(thread, attributes, body, argument);
  auto* start = static_cast<Start*>(std::malloc(sizeof(Start)));
  if (start == nullptr) return EAGAIN;
  *start = {.body = body, .argument = argument};
  const int result = real(thread, attributes, run_in_driver, start);
  if (result != 0) std::free(start);
  return result;
}
