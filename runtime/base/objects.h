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
  CountedObject(CountedObject&& other) noexcept
      : counts_(std::exchange(other.counts_, nullptr)), kind_(other.kind_) {}
  CountedObject& operator=(CountedObject&& other) noexcept {
    std::swap(counts_, other.counts_);
    std::swap(kind_, other.kind_);
    return *this;
  }
  ~CountedObject() {
    if (counts_ != nullptr) counts_->remove(kind_);
  }

 private:
  ObjectCounts* counts_ = nullptr;  // null: nothing is counted
  ObjectKind kind_{};
};

// Owns one handle of a driver or library, and counts it. Parent is what the handle was made from,
// which outlives it: Parent::objects() counts its handles, Parent::end<kDestroy>(handle) ends one.
template <class Parent, class Handle, auto kDestroy, ObjectKind kKind>
class OwnedHandle {
 public:
  OwnedHandle() = default;
  OwnedHandle(Parent& parent, Handle handle)
      : parent_(&parent), handle_(handle), counted_(parent.objects(), kKind) {}
  OwnedHandle(OwnedHandle&& other) noexcept
      : parent_(other.parent_),
        handle_(std::exchange(other.handle_, Handle{})),
        counted_(std::move(other.counted_)) {}
  OwnedHandle& operator=(OwnedHandle&& other) noexcept {
    OwnedHandle taken(std::move(other));
    std::swap(parent_, taken.parent_);
    std::swap(handle_, taken.handle_);
    std::swap(counted_, taken.counted_);
    return *this;
  }
  ~OwnedHandle() {
    if (handle_ != Handle{}) parent_->template end<kDestroy>(handle_);
  }

  [[nodiscard]] Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != Handle{}; }

 private:
  Parent* parent_ = nullptr;
  Handle handle_{};
  CountedObject counted_;
};

}  // namespace rlx
