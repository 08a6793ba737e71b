// SPDX-License-Identifier: Apache-2.0
// Counts of what a device holds, by kind: raised and lowered by the one owner that each object has,
// read by whoever looks for leaks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace rlx {

enum class ObjectKind : uint8_t {
#define RLX_OBJECT(kind, plural) kind,
#include "runtime/base/objects.def"
#undef RLX_OBJECT
};

inline constexpr size_t kObjectKinds = 0
#define RLX_OBJECT(kind, plural) +1
#include "runtime/base/objects.def"
#undef RLX_OBJECT
    ;

// From any thread. What other threads do meanwhile is in a reading or is not.
class ObjectCounts {
 public:
  // Objects by kind.
  using Reading = std::array<int64_t, kObjectKinds>;

  void add(ObjectKind kind, int64_t count = 1) noexcept {
    counts_[static_cast<size_t>(kind)].fetch_add(count, std::memory_order_relaxed);
  }
  void remove(ObjectKind kind, int64_t count = 1) noexcept { add(kind, -count); }

  [[nodiscard]] Reading read() const noexcept;
  [[nodiscard]] int64_t of(ObjectKind kind) const noexcept {
    return counts_[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<int64_t>, kObjectKinds> counts_{};
};

// "sessions 1, fences 2"; "none" where every count is 0.
std::string objects_text(const ObjectCounts::Reading& reading);

// Counts as one object from its making to its end.
class CountedObject {
 public:
  CountedObject() = default;
  CountedObject(ObjectCounts& counts, ObjectKind kind) : counts_(&counts), kind_(kind) {
    counts_->add(kind_);
  }
  CountedObject(CountedObject&& other) noexcept { swap(other); }
  CountedObject& operator=(CountedObject&& other) noexcept {
    CountedObject taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~CountedObject() {
    if (counts_ != nullptr) counts_->remove(kind_);
  }

 private:
  void swap(CountedObject& other) noexcept {
    std::swap(counts_, other.counts_);
    std::swap(kind_, other.kind_);
  }

  ObjectCounts* counts_ = nullptr;  // null: nothing is counted
  ObjectKind kind_{};
};

}  // namespace rlx
