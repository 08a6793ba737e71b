// SPDX-License-Identifier: Apache-2.0
// Readings of object counts, and their text.
#include "runtime/base/objects.h"

#include <string_view>

#include "runtime/base/text.h"

namespace rlx {
namespace {

constexpr std::array<std::string_view, kObjectKinds> kPlurals = {
#define RLX_OBJECT(kind, plural) plural,
#include "runtime/base/objects.def"
#undef RLX_OBJECT
};

}  // namespace

ObjectCounts::Reading ObjectCounts::read() const noexcept {
  Reading reading{};
  for (size_t i = 0; i < kObjectKinds; ++i) reading[i] = of(static_cast<ObjectKind>(i));
  return reading;
}

std::string objects_text(const ObjectCounts::Reading& reading) {
  std::string text;
  for (size_t i = 0; i < kObjectKinds; ++i) {
    if (reading[i] == 0) continue;
    text += text_of(text.empty() ? "" : ", ", kPlurals[i], " ", reading[i]);
  }
  return text.empty() ? "none" : text;
}

}  // namespace rlx
