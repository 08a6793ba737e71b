// SPDX-License-Identifier: Apache-2.0
// One pass over the steps' accesses.
#include "tools/rlxrun/live_values.h"

#include <algorithm>
#include <optional>

namespace rlx::tool {
namespace {

// What is known of a value as the pass goes on.
struct Course {
  std::optional<WholeValue> open;  // written, and not written again after it was read
  bool was_read = false;           // since it was written
};

bool reads(const fb::Relocation& access) {
  return access.mode() == fb::AccessMode::Read || access.mode() == fb::AccessMode::ReadWrite;
}

bool writes(const fb::Relocation& access) {
  return access.mode() == fb::AccessMode::Write || access.mode() == fb::AccessMode::ReadWrite;
}

}  // namespace

std::vector<WholeValue> whole_values(const fb::Entry& record) {
  std::vector<Course> courses(record.values()->size());
  std::vector<WholeValue> whole;
  const std::span<const fb::Step> steps = PlanView::steps(record);
  for (uint32_t step = 0; step < steps.size(); ++step) {
    const std::span<const fb::Relocation> accesses = PlanView::relocations(record, steps[step]);
    for (const fb::Relocation& access : accesses) {
      Course& course = courses[access.value()];
      if (!reads(access) || !course.open) continue;
      course.open->last = step;
      course.was_read = true;
    }
    for (const fb::Relocation& access : accesses) {
      if (!writes(access)) continue;
      Course& course = courses[access.value()];
      if (course.open && course.was_read) whole.push_back(*course.open);
      course.open = WholeValue{.step = step, .last = step, .value = access.value()};
      course.was_read = false;
    }
  }
  for (Course& course : courses) {
    if (!course.open) continue;
    const fb::Segment segment = PlanView::value(record, course.open->value).segment();
    if (segment != fb::Segment::Arena) course.open->last = static_cast<uint32_t>(steps.size()) - 1;
    whole.push_back(*course.open);
  }
  std::erase_if(whole, [&](const WholeValue& one) {
    return PlanView::value(record, one.value).segment() == fb::Segment::IndexErrors;
  });
  std::stable_sort(whole.begin(), whole.end(), [](const WholeValue& a, const WholeValue& b) {
    return a.step < b.step || (a.step == b.step && a.value < b.value);
  });
  return whole;
}

}  // namespace rlx::tool
