// SPDX-License-Identifier: Apache-2.0
// What exists in the fake driver.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "tests/faults/stand_in/fake_cuda.h"

namespace rlx::cuda {

inline constexpr CUresult kInvalidContext = 201;
inline constexpr CUresult kInvalidHandle = 400;
inline constexpr CUresult kNotFound = 500;

enum class FakeKind : uint8_t {
  Memory,
  HostMemory,
  Module,
  Stream,
  Event,
  Graph,
  Exec,
  Library,
  Descriptor
};

struct FakeContext {};

struct FakeModule {
  const char* image = nullptr;
};

using FakeWork = std::function<void()>;

// A step of a graph; edges need not be kept, because every node is made after those it waits for.
struct FakeNode {
  int type = 0;
  FakeWork work;
  size_t edges_in = 0;
  size_t edges_out = 0;
  bool starts_early = false;  // an edge into it is programmatic
  bool lets_start = false;    // one out of it is
};

struct FakeGraph {
  FakeGraph() = default;
  ~FakeGraph();
  FakeGraph(const FakeGraph&) = delete;
  FakeGraph& operator=(const FakeGraph&) = delete;

  std::vector<std::unique_ptr<FakeNode>> nodes;
  std::vector<std::unique_ptr<FakeGraph>> bodies;  // of conditional nodes
  std::deque<CUgraph> handed_out;                  // their handles, as callers are given them
  uint64_t conditions = 0;                         // made for its nodes
};

struct FakeExec {
  std::vector<FakeWork> work;
  std::vector<CUgraphNode> nodes;  // whose work it is
};

struct FakeStream {
  std::vector<FakeWork> work;
  FakeGraph* capturing = nullptr;
  std::vector<CUgraphNode> last;  // what the next captured node waits for
};

struct FakeEvent {
  bool happened = true;
  std::chrono::steady_clock::time_point recorded;
  CUstream stream = nullptr;
};

// Remembers the first call that a driver's rules forbid.
void misuse(const char* what);

// From any thread.
class FakeObjects {
 public:
  void add(void* object, FakeKind kind, uint64_t size_bytes);
  // Its size; nullopt, and a misuse, where there is no such object.
  std::optional<uint64_t> remove(void* object, FakeKind kind);
  // False, and a misuse, where there is no such object.
  bool is(const void* object, FakeKind kind);
  // Whether a range lies inside one allocation; false is a misuse.
  bool holds(const void* address, uint64_t size_bytes);
  bool is_allocated(const void* address, uint64_t size_bytes);
  // Every stream that exists.
  std::vector<FakeStream*> streams();

 private:
  struct Object {
    FakeKind kind;
    uint64_t size_bytes;
  };
  std::mutex mutex_;
  std::map<const void*, Object> objects_;
};

FakeObjects& fake_objects();

template <typename Object, typename Handle>
CUresult end_object(Handle handle, FakeKind kind) {
  if (!fake_objects().remove(handle, kind).has_value()) return kInvalidHandle;
  delete reinterpret_cast<Object*>(handle);
  return CUDA_SUCCESS;
}

// CU_STREAM_LEGACY: the default stream, which nobody creates, destroys or captures.
inline const CUstream kDefaultStream = reinterpret_cast<CUstream>(1);
FakeStream& default_stream();
FakeStream& stream_of(CUstream stream);

CUresult put_work(CUstream stream, FakeWork work);
void finish_stream(CUstream stream);
// Both ends lie in allocations of the driver, or nothing is copied.
void checked_copy(void* target, const void* source, size_t size_bytes);

}  // namespace rlx::cuda
