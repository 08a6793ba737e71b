// SPDX-License-Identifier: Apache-2.0
// How rlxrun fails: a sentence and an exit code.
#pragma once

#include <stdexcept>
#include <string>

#include "runtime/base/status.h"
#include "runtime/include/rlx.h"
#include "tools/program/program.h"

namespace rlx::tool {

class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// Throws a Failure with rlx_last_error() unless the call went well.
void check(rlx_status status);
// The same for reading files.
void check(const Status& status);
// The same for writing: what cannot be written is a matter of resources, whatever the reason.
void check_written(const Status& status);

}  // namespace rlx::tool
