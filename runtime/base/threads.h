// SPDX-License-Identifier: Apache-2.0
// Work done by several threads at once.
#pragma once

#include <cstddef>
#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace rlx {

// Runs `work` on this thread and on up to `count` - 1 more at once, and returns when all have
// ended. Where the system gives fewer threads, or no memory for one more, those that run must do
// the work. `work` throws nothing.
template <class Work>
void run_on_threads(size_t count, const Work& work) {
  std::vector<std::thread> helpers;
  try {
    helpers.reserve(count);
    for (size_t i = 1; i < count; ++i) helpers.emplace_back(std::cref(work));
  } catch (const std::system_error&) {
  } catch (const std::bad_alloc&) {
  }
  work();
  for (std::thread& helper : helpers) helper.join();
}

// How many threads `jobs` stands for: 0 is one per core.
inline size_t thread_count(size_t jobs) {
  if (jobs != 0) return jobs;
  const size_t cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : cores;
}

}  // namespace rlx
