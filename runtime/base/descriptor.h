// SPDX-License-Identifier: Apache-2.0
// Owner of a file descriptor.
#pragma once

#include <string>
#include <utility>

namespace rlx {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] bool is_open() const { return value_ >= 0; }

 private:
  int value_ = -1;
};

// The system's sentence for an errno; safe between threads.
std::string system_reason(int error);

}  // namespace rlx
