// SPDX-License-Identifier: Apache-2.0
// Objects of the fake driver, and work on its streams.
#include "tests/faults/stand_in/fake_objects.h"

#include <cstring>

namespace rlx::cuda {
namespace {

// Guards the work of all streams; work itself needs no other lock.
std::recursive_mutex work_mutex;

}  // namespace

void misuse(const char* what) {
  test::FaultControl& control = test::fault_control();
  if (control.misuses++ == 0) control.first_misuse = what;
}

FakeObjects& fake_objects() {
  static FakeObjects objects;
  return objects;
}

void FakeObjects::add(void* object, FakeKind kind, uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  objects_[object] = {.kind = kind, .size_bytes = size_bytes};
  ++test::fault_control().live;
}

std::optional<uint64_t> FakeObjects::remove(void* object, FakeKind kind) {
  if (!is(object, kind)) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(object);
  const uint64_t size_bytes = found->second.size_bytes;
  objects_.erase(found);
  --test::fault_control().live;
  return size_bytes;
}

bool FakeObjects::is(const void* object, FakeKind kind) {
  if (kind == FakeKind::Stream && object == kDefaultStream) return true;
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(object);
  if (found != objects_.end() && found->second.kind == kind) return true;
  misuse("a handle that is of no such object");
  return false;
}

bool FakeObjects::is_allocated(const void* address, uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  auto after = objects_.upper_bound(address);
  if (after == objects_.begin()) return false;
  const auto& [base, object] = *--after;
  const auto offset =
      static_cast<uint64_t>(static_cast<const char*>(address) - static_cast<const char*>(base));
  return offset <= object.size_bytes && size_bytes <= object.size_bytes - offset;
}

bool FakeObjects::holds(const void* address, uint64_t size_bytes) {
  if (is_allocated(address, size_bytes)) return true;
  misuse("a range that lies in no allocation");
  return false;
}

std::vector<FakeStream*> FakeObjects::streams() {
  const std::lock_guard lock(mutex_);
  std::vector<FakeStream*> streams = {&default_stream()};
  for (const auto& [object, what] : objects_) {
    if (what.kind == FakeKind::Stream)
      streams.push_back(static_cast<FakeStream*>(const_cast<void*>(object)));
  }
  return streams;
}

FakeStream& default_stream() {
  static FakeStream stream;
  return stream;
}

FakeStream& stream_of(CUstream stream) {
  return stream == kDefaultStream ? default_stream() : *reinterpret_cast<FakeStream*>(stream);
}

CUresult put_work(CUstream stream, FakeWork work) {
  if (!fake_objects().is(stream, FakeKind::Stream)) return kInvalidHandle;
  const std::lock_guard lock(work_mutex);
  stream_of(stream).work.push_back(std::move(work));
  return CUDA_SUCCESS;
}

void finish_stream(CUstream stream) {
  const std::lock_guard lock(work_mutex);
  std::vector<FakeWork> work;
  work.swap(stream_of(stream).work);
  for (const FakeWork& one : work) one();
}

void finish_fake_work() {
  const std::lock_guard lock(work_mutex);
  for (FakeStream* stream : fake_objects().streams())
    finish_stream(reinterpret_cast<CUstream>(stream));
}

void checked_copy(void* target, const void* source, size_t size_bytes) {
  if (fake_objects().holds(target, size_bytes) && fake_objects().holds(source, size_bytes))
    std::memcpy(target, source, size_bytes);
}

}  // namespace rlx::cuda
