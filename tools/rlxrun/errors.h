// SPDX-License-Identifier: Apache-2.0
// How rlxrun fails: a sentence and an exit code.
#pragma once

#include <stdexcept>
#include <string>

#include "runtime/include/rlx.h"
#include "runtime/status.h"

namespace rlx::tool {

enum class ExitCode : int {
  Ok = 0,
  Usage = 1,
  InputRefused = 2,  // a file, or indices in it that lie outside what they index
  DeviceUnsuitable = 3,
  Mismatch = 4,
  Resources = 5,  // memory, disk, a lost device, a timeout
  Internal = 70,
};

class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// The exit code for a status of the library.
ExitCode exit_code_for(rlx_status status);

// Throws a Failure with rlx_last_error() unless the call went well.
void check(rlx_status status);
// The same for reading files.
void check(const Status& status);

}  // namespace rlx::tool
