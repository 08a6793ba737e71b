// SPDX-License-Identifier: Apache-2.0
#include "tools/rlxrun/non_finite.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/numbers.h"

namespace rlx::tool {
namespace {

class Search {
 public:
  Search(rlx_session* session, const EntryView& entry, const ProfilerRanges& ranges)
      : session_(session),
        entry_(entry),
        ranges_(ranges),
        values_(describe_values(session, entry.index)) {}

  NonFiniteReport run() {
    // Begun where nothing has a bit pattern of its own yet.
    check(rlx_session_poison_arena(session_, 0));
    for (uint32_t step = 0; step < entry_.steps.size() && !is_done(); ++step) {
      const ProfilerRanges::Range range(ranges_, step_title(entry_, step));
      if (step == 0) look_at_all(step, [&](const Tensor& value) { return is_input(value); });
      // What begins with the step goes before what others began, whose memory it may write to.
      look_at_all(
          step, [&](const Tensor& value) { return !is_input(value) && value.first_step == step; });
      look_at_all(step, [&](const Tensor& value) {
        return value.segment == RLX_ARENA && value.first_step < step && step <= value.last_step;
      });
      // Outputs that several steps write.
      if (step + 1 == entry_.steps.size()) {
        look_at_all(step, [&](const Tensor& value) {
          return value.segment == RLX_IO && !is_input(value) && value.first_step < step;
        });
      }
    }
    return report_;
  }

 private:
  [[nodiscard]] bool is_done() const { return report_.nan && report_.infinity; }

  [[nodiscard]] bool is_input(const Tensor& value) const {
    return value.segment == RLX_IO &&
           std::any_of(entry_.inputs.begin(), entry_.inputs.end(),
                       [&](const Tensor& input) { return input.name == value.name; });
  }

  template <typename Wanted>
  void look_at_all(uint32_t step, const Wanted& wanted) {
    for (uint32_t i = 0; i < values_.size() && !is_done(); ++i) {
      const Tensor& value = values_[i];
      const NumberClass number_class = class_of(value.dtype);
      const bool has_floats =
          number_class == NumberClass::Float || number_class == NumberClass::Complex;
      const bool is_written = value.segment == RLX_ARENA || value.segment == RLX_IO;
      if (has_floats && is_written && wanted(value)) look_at(i, step);
    }
  }

  void look_at(uint32_t value, uint32_t step) {
    const Tensor& tensor = values_[value];
    std::vector<std::byte> data(tensor.size_bytes);
    check(rlx_session_read_value(session_, entry_.index, step, value, data.data(), data.size()));
    NonFiniteValue found{.name = tensor.name, .type = type_text(tensor.dtype, tensor.dims)};
    if (!is_input(tensor)) {
      found.step = step;
      found.kernel = entry_.steps[step].kernel;
      found.node = entry_.steps[step].node;
    }
    found.elements = 1;
    for (const uint64_t dim : tensor.dims) found.elements *= dim;
    NonFiniteValue nan = found;
    NonFiniteValue infinity = found;
    const auto count = [](NonFiniteValue& counted, uint64_t index) {
      if (counted.count++ == 0) counted.index = index;
    };
    for (uint64_t i = 0; i < found.elements; ++i) {
      const Number number = number_at(data, tensor.dtype, i);
      if (std::isnan(number.real) || std::isnan(number.imaginary)) count(nan, i);
      if (std::isinf(number.real) || std::isinf(number.imaginary)) count(infinity, i);
    }
    if (!report_.nan && nan.count > 0) report_.nan = std::move(nan);
    if (!report_.infinity && infinity.count > 0) report_.infinity = std::move(infinity);
  }

  rlx_session* session_;
  const EntryView& entry_;
  const ProfilerRanges& ranges_;
  std::vector<Tensor> values_;
  NonFiniteReport report_;
};

}  // namespace

NonFiniteReport find_non_finite(rlx_session* session, const EntryView& entry,
                                const ProfilerRanges& ranges) {
  return Search(session, entry, ranges).run();
}

}  // namespace rlx::tool
