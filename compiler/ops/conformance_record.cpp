// SPDX-License-Identifier: Apache-2.0
// The record of conformance as tables.
#include "compiler/ops/conformance_record.h"

#include <algorithm>

namespace rlx {
namespace {

#define RLX_CONFORMANCE(...)
#define RLX_CONFORMANCE_DEVICE(target, name, driver, date) {target, name, driver, date},
constexpr ConformanceDevice kDevices[] = {
#include "compiler/ops/conformance.def"
};
#undef RLX_CONFORMANCE_DEVICE
#undef RLX_CONFORMANCE

#define RLX_CONFORMANCE_DEVICE(...)
#define RLX_CONFORMANCE(op, dtype, ...) {op, dtype, {{__VA_ARGS__}}},
constexpr ConformanceRow kRows[] = {
#include "compiler/ops/conformance.def"
};
#undef RLX_CONFORMANCE
#undef RLX_CONFORMANCE_DEVICE

constexpr bool before(const ConformanceRow& a, const ConformanceRow& b) {
  return a.op != b.op ? a.op < b.op : a.dtype < b.dtype;
}
static_assert(std::is_sorted(std::begin(kRows), std::end(kRows), before));

}  // namespace

std::span<const ConformanceDevice> conformance_devices() {
  return kDevices;
}

std::span<const ConformanceRow> conformance_rows() {
  return kRows;
}

std::span<const ConformanceRow> conformance_rows(std::string_view op) {
  const auto first = std::find_if(std::begin(kRows), std::end(kRows),
                                  [op](const ConformanceRow& row) { return row.op == op; });
  const auto last = std::find_if(first, std::end(kRows),
                                 [op](const ConformanceRow& row) { return row.op != op; });
  return {first, last};
}

}  // namespace rlx
