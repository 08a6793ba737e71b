// SPDX-License-Identifier: Apache-2.0
// The elementwise ops that depend on positions.
#include "compiler/ops/lowering/positions.h"

#include <algorithm>
#include <iterator>

namespace rlx {
namespace {

enum class Positions : uint8_t { Last, LastTwo, AxisAttribute };

struct PositionalOp {
  std::string_view op;
  Positions positions;
  bool is_random = false;
};

constexpr PositionalOp kPositional[] = {
    {"ramp", Positions::Last},
    {"eye", Positions::LastTwo},
    {"trilu", Positions::LastTwo},
    {"chirp", Positions::LastTwo},
    {"one_hot_at", Positions::AxisAttribute},  // -1 where absent
    {"random_bits", Positions::Last, true},
    {"random_uniform", Positions::Last, true},
    {"random_normal", Positions::Last, true},
    {"add_gumbel", Positions::LastTwo, true},
};

const PositionalOp* find_positional(std::string_view op) {
  const auto found = std::find_if(std::begin(kPositional), std::end(kPositional),
                                  [op](const PositionalOp& row) { return row.op == op; });
  return found == std::end(kPositional) ? nullptr : found;
}

}  // namespace

bool is_positional(std::string_view op) {
  return find_positional(op) != nullptr;
}

bool reads_index(std::string_view op) {
  const PositionalOp* row = find_positional(op);
  return row != nullptr && row->positions == Positions::AxisAttribute;
}

bool draws_random(std::string_view op) {
  const PositionalOp* row = find_positional(op);
  return row != nullptr && row->is_random;
}

std::set<uint32_t> positions_read(std::string_view op, const Attributes& attributes) {
  const PositionalOp* row = find_positional(op);
  if (row == nullptr) return {};
  if (row->positions == Positions::Last) return {1};
  if (row->positions == Positions::LastTwo) return {1, 2};
  const auto axis = attributes.find("axis");
  if (axis == attributes.end()) return {1};
  return {static_cast<uint32_t>(-std::get<int64_t>(axis->second))};
}

}  // namespace rlx
