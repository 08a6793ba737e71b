// SPDX-License-Identifier: Apache-2.0
// The one narrow interface to a device. A device knows bytes, code blobs and grids, never an op.
// Everything it is given comes from a verified PlanView, so it checks nothing again.
//
// Lifetimes: Device > DevicePlan > DeviceSession (shared_ptr inside the implementations keeps the
// parent alive). Threads: Device and DevicePlan may be used by many threads; a DeviceSession by one
// at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/objects.h"
#include "runtime/base/status.h"

namespace rlx {

namespace fb {
enum class TargetKind : uint8_t;
struct Entry;
struct Step;
}  // namespace fb

class PlanView;
struct PlanHeader;

inline constexpr uint32_t kDefaultMaxBindings = 8;

struct DeviceInfo {
  std::optional<fb::TargetKind> target;  // whose code it runs; none: of every plan the first one's
  std::string id;                        // "vulkan:0", "cuda:0", "null"
  std::string name;                      // as the driver says it
  std::string driver;                    // name and version
  uint32_t api_version = 0;              // VK_MAKE_API_VERSION, or CUDA driver version
  uint64_t features = 0;                 // mask of features.def
  uint64_t memory_bytes = 0;
  uint64_t available_bytes = 0;  // 0 where the driver does not say
  uint32_t subgroup_size = 0;
  uint32_t max_workgroup_invocations = 0;
  uint32_t max_shared_bytes = 0;
  uint32_t max_params_bytes = 0;
  uint32_t max_grid[3] = {0, 0, 0};
  bool unified_memory = false;
  bool is_software = false;   // runs on the host, in its memory
  uint32_t architecture = 0;  // CUDA: 90 for compute capability 9.0; else 0
};

struct LoadOptions {
  uint32_t jobs = 0;  // threads that create pipelines; 0: one per core
  std::string
      pipeline_cache_path;  // empty: none. Read where its identity fits, rewritten where it missed.
  // Empty: none. Where there is no path, a file of the plan, program, driver and device in this
  // folder, which is made where it is missing and left alone where others may write to it.
  std::string pipeline_cache_folder;
  uint64_t memory_budget_bytes =
      0;                 // 0: none. More than this is refused before the first allocation.
  bool profile = false;  // sessions can time steps
  // Refuse a plan with a library product for which no tuner chose an algorithm on this device and
  // library.
  bool require_tuned = false;
};

// One way in which the device's library computes a product.
struct GemmAlgorithm {
  std::array<std::byte, 64> bytes{};  // as the library serialises it; fb::LibraryGemm::algorithm
  uint64_t workspace_bytes = 0;
  double microseconds =
      0;  // median of one execution in place, the step's operands filled with random numbers
};

// How a loaded plan computes one of its library products.
struct GemmReport {
  std::string entry;
  uint32_t step = 0;
  bool tuned = false;  // by the plan's record; else by the library's heuristic
  std::string note;  // why the plan's record was not used: "tuned on NVIDIA L40S"; "" where it was
                     // used or there is none
};

struct SessionOptions {
  // CUDA: a CUstream of the device's context, on which the session's work is put; the caller keeps
  // it. Null: the session makes its own.
  void* stream = nullptr;
  // The host reads the counts of indices that lie outside (DeviceSession::index_errors).
  bool check_indices = false;
  // Bindings of free symbols that stay recorded, at least 1; the one used least recently goes
  // first.
  uint32_t max_bindings = kDefaultMaxBindings;
  // Runs that may be under way at once, at least 1; they run one after another.
  uint32_t queue_depth = 1;
};

// Memory owned by the caller that stands for one input, output or state. Vulkan: a device address
// (and the VkBuffer for layers); CUDA: a CUdeviceptr.
struct ExternalBuffer {
  uint64_t device_address = 0;
  uint64_t size_bytes = 0;
};

struct StepTime {
  uint32_t step = 0;
  double microseconds = 0;
};

// Bytes of a state, inside it: pieces of one size whose begins lie `stride_bytes` apart.
struct StatePart {
  uint32_t state = 0;        // of the plan's states
  uint64_t begin_bytes = 0;  // of the first piece, in the state
  uint64_t piece_bytes = 0;
  uint64_t stride_bytes = 0;
  uint64_t pieces = 0;
};

// State, arena and io of one user of a plan, with every entry recorded on first use or by
// prepare().
class DeviceSession {
 public:
  virtual ~DeviceSession() = default;
  // An entry runs with every free symbol at its maximum until it is bound to other values, one for
  // each symbol of the plan. True where a binding to these is kept, and is the present one now.
  virtual bool use_binding(uint32_t entry, std::span<const uint64_t> symbols) = 0;
  // The same for a new binding; `bound` is made for the entry by PlanView::bind. Not recorded yet.
  virtual Status add_binding(uint32_t entry, std::span<const uint64_t> symbols,
                             std::shared_ptr<const PlanView> bound) = 0;
  // The plan and the entry's record in it at the present binding, until the next call of these.
  [[nodiscard]] virtual const PlanView& bound_view(uint32_t entry) const = 0;
  [[nodiscard]] virtual const fb::Entry& bound_record(uint32_t entry) const = 0;
  // Records an entry so that the first run costs no more than the others.
  virtual Status prepare(uint32_t entry) = 0;
  // Host bytes to an input value, io to host bytes from an output value; no more than the value's
  // size_bytes at the maximum.
  virtual Status write(uint32_t entry, uint32_t value, std::span<const std::byte> bytes) = 0;
  virtual Status read(uint32_t entry, uint32_t value, std::span<std::byte> bytes) = 0;
  // An input or output lives in the caller's memory from now on; size 0 gives it back to the
  // session's own.
  virtual Status bind(uint32_t entry, uint32_t value, ExternalBuffer buffer) = 0;
  // Puts a run behind those that are under way.
  virtual Status submit(uint32_t entry) = 0;
  // Waits for the oldest submit that was not waited for; timeout in nanoseconds, UINT64_MAX for
  // none. Spins briefly, then blocks.
  virtual Status wait(uint64_t timeout_nanoseconds) = 0;
  // Runs the entry once with a timestamp around each step (steps run one after another) and returns
  // the times.
  // The states are afterwards what they were before.
  virtual Status profile(uint32_t entry, std::vector<StepTime>& times) = 0;
  // Device time of the last submit in microseconds, once no run is under way and where
  // LoadOptions::profile was set; otherwise 0.
  virtual double last_run_microseconds() const = 0;
  // All states but those in the caller's memory begin anew.
  virtual Status reset_states() = 0;
  // Between dense host memory and the part of a state, which lies in the session's own memory.
  virtual Status read_state(const StatePart& part, std::span<std::byte> bytes) = 0;
  virtual Status write_state(const StatePart& part, std::span<const std::byte> bytes) = 0;
  // From another session of the same plan on this device, which is idle too; without the host.
  virtual Status copy_state(uint32_t state, const DeviceSession& from) = 0;
  // A state lives in the caller's memory from now on, with what this holds; size 0 gives it back to
  // the session's own, with what that held last.
  virtual Status bind_state(uint32_t state, ExternalBuffer buffer) = 0;
  // Any live value of the entry after `step`, by running up to and including it. For debugging. The
  // states are afterwards what they were before.
  virtual Status read_after(uint32_t entry, uint32_t step, uint32_t value,
                            std::span<std::byte> bytes) = 0;
  // Fills the whole arena with a byte. For tests that nothing reads stale bytes.
  virtual Status poison_arena(std::byte pattern) = 0;
  // The segment of index errors, where SessionOptions::check_indices was set and the plan has one;
  // otherwise empty. Zero at first; kernels add to it, and the host may read and clear it between
  // runs.
  [[nodiscard]] virtual std::span<uint32_t> index_errors() = 0;
  // Times up to `most` algorithms that the library's heuristic offers for a LibraryGemm step and
  // that fit its workspace, fastest first. Arena and io hold anything afterwards, states what they
  // held before.
  virtual Status time_algorithms(uint32_t entry, uint32_t step, uint32_t most,
                                 std::vector<GemmAlgorithm>& algorithms) {
    (void)entry, (void)step, (void)most, (void)algorithms;
    return {RLX_UNSUITABLE_DEVICE, "this device has no library of products to tune"};
  }
};

// Weights and code of one plan on one device.
class DevicePlan {
 public:
  virtual ~DevicePlan() = default;
  // Whose entry records its sessions run.
  [[nodiscard]] virtual fb::TargetKind target() const = 0;
  virtual Status create_session(const SessionOptions& options,
                                std::unique_ptr<DeviceSession>& session) = 0;
  // Which of the plan's code, or which library, a step runs here: "sm_90 cubin"; "" where the plan
  // leaves no choice. Lives as long as this.
  [[nodiscard]] virtual const char* code_text(const fb::Step& step) const {
    (void)step;
    return "";
  }
  // One record per LibraryGemm step of every entry that this device runs.
  [[nodiscard]] virtual std::vector<GemmReport> gemm_reports() const { return {}; }
  // Device, driver and library as fb::LibraryGemm's tuned_* fields name them; library "" where
  // there is none.
  struct TuningIdentity {
    std::string device;
    std::string driver;
    std::string library;
  };
  [[nodiscard]] virtual TuningIdentity tuning_identity() const { return {}; }
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual const DeviceInfo& info() const = 0;
  // Ok, or why nothing can run any more: RLX_DEVICE_LOST once any call on the device, its plans or
  // sessions has met its loss.
  [[nodiscard]] virtual Status health() const = 0;
  // What exists on the device now, of its plans and sessions too.
  [[nodiscard]] virtual const ObjectCounts& objects() const = 0;
  // Whether a plan of this header can be loaded, as far as the header says. Of one with profiles
  // of the device's target: all of them together (choose_profile.h takes them apart).
  [[nodiscard]] virtual Status check_suits(const PlanHeader& header) const = 0;
  // Uploads weights, creates pipelines or modules, runs the plan's init entry. The view must
  // outlive the DevicePlan.
  virtual Status load(const PlanView& plan, const LoadOptions& options,
                      std::shared_ptr<DevicePlan>& loaded) = 0;
};

}  // namespace rlx
