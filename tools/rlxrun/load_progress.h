// SPDX-License-Identifier: Apache-2.0
// What a person sees on the terminal while a plan is loaded.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace rlx::tool {

// While it lives, and after the first moments, one line of standard error says what is loaded and
// for how long; it goes away with the object. Nothing where standard error is no terminal.
class LoadProgress {
 public:
  explicit LoadProgress(std::string what);
  LoadProgress(const LoadProgress&) = delete;
  LoadProgress& operator=(const LoadProgress&) = delete;
  ~LoadProgress();

 private:
  void show();

  const std::string what_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace rlx::tool
