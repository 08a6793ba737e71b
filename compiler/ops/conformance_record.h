// SPDX-License-Identifier: Apache-2.0
// What the tables of tests/conformance found, device by device: which dtypes of which operator have
// run where, and how close to their bounds the results came. The data is conformance.def, which
// tools/record_conformance writes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace rlx {

struct ConformanceDevice {
  std::string_view target;  // as --target
  std::string_view name;    // as the driver says it
  std::string_view driver;
  std::string_view date;  // of the latest run, YYYY-MM-DD
};

struct ConformanceRun {
  uint32_t cases = 0;      // that ran and were right; 0: none ran
  double worst_ratio = 0;  // largest error over its bound; 0 where results must be exact
};

inline constexpr size_t kConformanceDevices = 0
#define RLX_CONFORMANCE_DEVICE(...) +1
#define RLX_CONFORMANCE(...)
#include "compiler/ops/conformance.def"
#undef RLX_CONFORMANCE
#undef RLX_CONFORMANCE_DEVICE
    ;

struct ConformanceRow {
  std::string_view op;
  std::string_view dtype;  // of the first input; "-" where there is none
  std::array<ConformanceRun, kConformanceDevices> runs;  // as conformance_devices()
};

// The first one ran every case of the tables; a test compares its counts with them.
std::span<const ConformanceDevice> conformance_devices();
// Sorted by op, then dtype.
std::span<const ConformanceRow> conformance_rows();
std::span<const ConformanceRow> conformance_rows(std::string_view op);

}  // namespace rlx
