// SPDX-License-Identifier: Apache-2.0
// The numbers that cost models reckon with where no device is at hand: one set for each target that
// a device is reached by. device_model.def says what each is.
#pragma once

#include <cstdint>

namespace rlx {

// clang-format off
#define RLX_DEVICE_STRUCT(Type) struct Type { bool operator==(const Type&) const = default;
#define RLX_DEVICE_FIELD(type, name, unit, least, most, meaning) type name = 0;
#define RLX_DEVICE_END };
#include "compiler/dispatch/device_model.def"
// clang-format on

// Groups that no lowering of a target reads stay zero for it.
struct DeviceModel {
  // Of one workgroup: what every device of the target has, so that no profile changes it.
  uint64_t shared_bytes = 0;
#define RLX_DEVICE_OWN(type, name, unit, least, most, meaning) type name = 0;
#define RLX_DEVICE_GROUP(Type, name, use, meaning) Type name = {};
#include "compiler/dispatch/device_model.def"
  // Whose driver runs subgroups as vectors of a CPU.
  [[nodiscard]] bool is_cpu() const {
    return lane_tiles.products > 0;
  }
  bool operator==(const DeviceModel&) const = default;
};

}  // namespace rlx
