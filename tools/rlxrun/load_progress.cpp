// SPDX-License-Identifier: Apache-2.0
#include "tools/rlxrun/load_progress.h"

#include <chrono>
#include <cstdio>
#include <system_error>
#include <utility>

#include "tools/program/terminal.h"

namespace rlx::tool {
namespace {

constexpr std::chrono::milliseconds kFirst{400};  // shorter loads are told by nobody
constexpr std::chrono::milliseconds kEach{100};

}  // namespace

LoadProgress::LoadProgress(std::string what) : what_(std::move(what)) {
  if (!is_on_terminal()) return;
  try {
    thread_ = std::thread([this] { show(); });
  } catch (const std::system_error&) {
    // Without a thread to spare the load goes on unseen.
  }
}

LoadProgress::~LoadProgress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void LoadProgress::show() {
  const auto begin = std::chrono::steady_clock::now();
  bool has_line = false;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, has_line ? kEach : kFirst, [this] { return is_over_; })) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    std::fprintf(stderr, "\r\033[K%s, %.1f s", what_.c_str(), seconds.count());
    std::fflush(stderr);
    has_line = true;
  }
  if (has_line) std::fputs("\r\033[K", stderr);
}

}  // namespace rlx::tool
