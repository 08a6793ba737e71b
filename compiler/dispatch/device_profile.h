// SPDX-License-Identifier: Apache-2.0
// Device models with a name: a profile is one device, with a model for each target that it was
// fitted for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/dispatch/target.h"

namespace rlx {

// How well a fitted number does: relative errors of the estimates of the runs that it was fitted
// to, with the numbers that the fit began with and with those that it ended with.
struct DeviceFit {
  std::string number;  // "library.short_float"
  uint32_t samples = 0;
  double median_before = 0;
  double worst_before = 0;
  double median_after = 0;
  double worst_after = 0;
};

struct DeviceColumn {
  std::string target;
  std::string fitted_from;  // device, driver and date of the runs, or why there are none
  DeviceModel model;
  std::vector<DeviceFit> fits;  // numbers without one were not fitted to runs of this device
};

struct DeviceProfile {
  std::string name;
  std::vector<DeviceColumn> columns;  // each target at most once

  // nullptr where the profile has none for the target.
  [[nodiscard]] const DeviceColumn* column(std::string_view target) const;
};

// Those that the compiler knows by itself; the first is what targets have unless told otherwise.
std::vector<DeviceProfile> built_in_profiles();

// Which lowerings read a group of numbers.
enum class DeviceGroupUse : uint8_t { Every, Lanes, Library, TensorCores, CooperativeMatrices };

// A number of a model, in place.
struct DeviceNumber {
  std::string_view group;  // empty: of the model itself
  std::string_view name;
  std::string_view unit;
  std::string_view meaning;
  double least;
  double most;
  std::variant<double*, uint32_t*, uint64_t*> place;

  [[nodiscard]] std::string path() const;  // "library.short_float"
  [[nodiscard]] bool whole() const { return place.index() > 0; }
  [[nodiscard]] double value() const;
  // Precondition: least <= value <= most, and whole where the number is.
  void set(double value) const;
};
// The numbers that lowerings for the target read, in the order of device_model.def. They point into
// `model`.
std::vector<DeviceNumber> numbers_of(DeviceModel& model, const Target& target);

}  // namespace rlx
