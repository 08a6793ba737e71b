// SPDX-License-Identifier: Apache-2.0
// Status of a runtime call: a code that says what kind of thing went wrong and a full sentence that
// says which.
#pragma once

#include <string>
#include <utility>

#include "runtime/include/rlx.h"

namespace rlx {

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(rlx_status code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == RLX_OK; }
  [[nodiscard]] rlx_status code() const { return code_; }
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  rlx_status code_ = RLX_OK;
  std::string message_;
};

}  // namespace rlx

// Returns the status from the enclosing function when it is not ok.
#define RLX_RETURN_IF_ERROR(expression)                                      \
  do {                                                                       \
    if (::rlx::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)
