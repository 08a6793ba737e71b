// SPDX-License-Identifier: Apache-2.0
// Numbers of what a module holds, each kind a type of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rlx {

enum class ValueId : uint32_t {};
enum class NodeId : uint32_t {};
enum class WeightId : uint32_t {};
enum class StateId : uint32_t {};

template <typename Id>
constexpr size_t index_of(Id id) {
  return static_cast<size_t>(id);
}

}  // namespace rlx
