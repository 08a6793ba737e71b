// SPDX-License-Identifier: Apache-2.0
// Stand-ins for driver libraries: what a test asks of one and learns from it.
//
// A stand-in is a library in the driver's place. It was preferred to a Vulkan layer because it also
// sees the calls before an instance exists, and because the same few lines then do for CUDA, which
// has no layers. librlx and rlxrun stay as they are: a test names the library in the options of the
// device, or lets the loader of a child process find it by LD_LIBRARY_PATH under the driver's name.
#pragma once

#include <atomic>
#include <cstdint>

namespace rlx::test {

struct FaultControl {
  // Asked. Calls that can fail are numbered from 1 on; polls in a row are one call. 0: none fails.
  std::atomic<uint64_t> fail_at{0};
  std::atomic<uint32_t> choice{0};  // which of the errors that the call may return
  std::atomic<bool> lose{false};    // instead of failing the call: the device is lost at it
  // Told when a thread enters the driver (1) and when it leaves it (-1). Null: nobody wants to
  // know.
  std::atomic<void (*)(int)> in_driver{nullptr};

  // Learnt.
  std::atomic<uint64_t> calls{0};
  std::atomic<bool> reached{false};           // the call of number fail_at
  std::atomic<uint32_t> choices{0};           // how many errors that call may return
  std::atomic<int> result{0};                 // what it returned
  std::atomic<const char*> function{""};      // its name
  std::atomic<bool> lost{false};              // the device is lost now
  std::atomic<uint64_t> told_lost{0};         // calls that said so
  std::atomic<uint64_t> misuses{0};           // calls that the driver's rules forbid
  std::atomic<const char*> first_misuse{""};  // what was wrong with the first
  std::atomic<uint64_t> graphs{0};            // executable ones that were made
  std::atomic<uint64_t> graph_launches{0};
  std::atomic<uint64_t> early_starts{0};  // edges behind which kernels start early
  std::atomic<int64_t> live{0};           // objects that exist, where the stand-in knows

  // Asks for nothing and forgets what was learnt, but for what exists.
  void reset() {
    fail_at = 0;
    choice = 0;
    lose = false;
    calls = 0;
    reached = false;
    choices = 0;
    result = 0;
    function = "";
    lost = false;
    told_lost = 0;
    misuses = 0;
    first_misuse = "";
    graphs = 0;
    graph_launches = 0;
    early_starts = 0;
  }
};

}  // namespace rlx::test

// The library's own.
extern "C" __attribute__((visibility("default"))) rlx::test::FaultControl* rlx_fault_control();
