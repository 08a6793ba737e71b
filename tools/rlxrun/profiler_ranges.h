// SPDX-License-Identifier: Apache-2.0
// Ranges that a profiler shows beside what devices and drivers do: NVIDIA's tools extension (NVTX).
#pragma once

#include <string>

namespace rlx::tool {

class ProfilerRanges {
 public:
  // Nobody is told of ranges.
  ProfilerRanges() = default;
  // Those of the profiler under which the program runs, as Nsight Systems does: the library that
  // NVTX_INJECTION64_PATH names. Without one, those of libnvToolsExt.so.1. Throws a Failure where
  // there is neither.
  static ProfilerRanges open();

  // From its making to its end. Ranges of a thread lie inside each other.
  class Range {
   public:
    Range(const ProfilerRanges& ranges, const std::string& name);
    ~Range();
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;

   private:
    const ProfilerRanges& ranges_;
  };

  // As NVTX has them: begins a range in the thread; ends the last one that began.
  using Push = int (*)(const char* name);
  using Pop = int (*)();

 private:
  Push push_ = nullptr;
  Pop pop_ = nullptr;
};

}  // namespace rlx::tool
