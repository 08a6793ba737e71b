// SPDX-License-Identifier: Apache-2.0
// What is behind the opaque handle of rlx_text.h, and what its functions share.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/base/c_frame.h"
#include "runtime/include/rlx_text.h"
#include "runtime/text/text.h"

struct rlx_text {
  std::shared_ptr<const rlx::TextModel> model;
};

namespace rlx {

// What rlx_text_last_error tells this thread.
LastError& text_error() noexcept;

// Gives `found` to a caller who has room for `capacity`: all or none, and `count` always. With no
// room at all the count alone is asked for.
template <class Item>
Status give_all(std::span<const Item> found, std::string_view name, Item* out, size_t capacity,
                size_t* count) {
  if (count == nullptr) return null_argument("count");
  if (out == nullptr && capacity != 0) return null_argument(name);
  *count = found.size();
  if (out == nullptr) return {};
  if (found.size() > capacity) {
    return {RLX_INVALID_ARGUMENT, text_of("there are ", found.size(), " ", name, ", and room for ",
                                          capacity, "; ask for their count first")};
  }
  std::copy(found.begin(), found.end(), out);
  return {};
}

}  // namespace rlx
