// SPDX-License-Identifier: Apache-2.0
// Work done by several threads at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/base/status.h"

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

// Calls work(i) for every index below `count` on up to `jobs` threads (0: one per core), each index
// once, all of them whatever the others say. The error of the lowest index that has one, Ok
// otherwise; memory that is not there is one too.
template <class Work>
Status for_each_index(size_t count, size_t jobs, const Work& work) {
  std::vector<Status> results(count);
  std::atomic<size_t> next = 0;
  run_on_threads(std::min(thread_count(jobs), count), [&] {
    for (size_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      try {
        results[i] = work(i);
      } catch (const std::bad_alloc&) {
        results[i] = Status(RLX_OUT_OF_HOST_MEMORY, {});
      }
    }
  });
  for (Status& result : results) {
    if (!result.ok()) return std::move(result);
  }
  return {};
}

}  // namespace rlx
