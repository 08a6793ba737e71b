// SPDX-License-Identifier: Apache-2.0
// One session that runs its plan again and again and compares what comes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/npy/npy.h"
#include "tools/rlxrun/handles.h"

namespace rlx::soak {

struct Seeds {
  uint64_t seed = 0;
  int64_t seeded_max = 8;
};

// What the first run of a plan gave: the bytes of each output of each entry.
struct FirstRun {
  std::vector<std::vector<std::vector<std::byte>>> wanted;

  [[nodiscard]] uint64_t hash() const;
};

// An output that differs from the first run's.
struct Mismatch {
  std::string output;
  uint64_t bytes_differing = 0;
  uint64_t first_byte = 0;
  std::vector<std::byte> got;
  const std::vector<std::byte>* wanted = nullptr;  // of the FirstRun
};

// Seeded inputs, and states at their initial values before every run: all runs are equal. The
// entries of a plan take turns. For one thread at a time. Throws a tool::Failure where the library
// refuses.
class Replayer {
 public:
  // The plan and the device must outlive it.
  Replayer(rlx_plan* plan, rlx_device* device, const Seeds& seeds);

  // Runs every entry over an arena filled with `poison`, and gives all outputs.
  FirstRun first_run(uint8_t poison);
  // Runs an entry and compares as many bytes of its outputs as `compare_bytes` allows per run on
  // average, in turn: where they are few all of them, every time. Appends those that differ.
  void replay(const FirstRun& first, uint64_t compare_bytes, std::vector<Mismatch>& mismatches);

  [[nodiscard]] uint32_t output_count() const;
  [[nodiscard]] uint64_t outputs_compared() const { return outputs_compared_; }

 private:
  struct Entry {
    tool::EntryView view;
    std::vector<npy::Array> inputs;
    uint64_t largest_bytes = 0;  // of an output
    size_t next_output = 0;      // whose turn it is
  };

  void set_inputs(const Entry& entry);
  void run(const Entry& entry);
  void read(const Entry& entry, size_t output, std::vector<std::byte>& bytes);

  tool::SessionHandle session_;
  std::vector<Entry> entries_;
  bool has_states_ = false;
  size_t next_entry_ = 0;
  uint64_t credit_bytes_ = 0;  // that may be compared
  uint64_t outputs_compared_ = 0;
  std::vector<std::byte> scratch_;
};

}  // namespace rlx::soak
