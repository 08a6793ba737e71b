// SPDX-License-Identifier: Apache-2.0
// Status codes as exit codes.
#include "tools/rlxrun/errors.h"

namespace rlx::tool {

ExitCode exit_code_for(rlx_status status) {
  switch (status) {
    case RLX_OK:
      return ExitCode::Ok;
    case RLX_INVALID_ARGUMENT:
    case RLX_IO_ERROR:
    case RLX_INVALID_PLAN:
    case RLX_UNSUPPORTED_VERSION:
    case RLX_INDEX_OUT_OF_RANGE:
    case RLX_UNTRUSTED_PLAN:
      return ExitCode::InputRefused;
    case RLX_UNSUITABLE_DEVICE:
    case RLX_NO_DEVICE:
      return ExitCode::DeviceUnsuitable;
    case RLX_OUT_OF_HOST_MEMORY:
    case RLX_OUT_OF_DEVICE_MEMORY:
    case RLX_DEVICE_LOST:
    case RLX_TIMEOUT:
      return ExitCode::Resources;
    case RLX_INVALID_STATE:
    case RLX_DRIVER_ERROR:
    case RLX_INTERNAL_ERROR:
      return ExitCode::Internal;
  }
  return ExitCode::Internal;
}

void check(rlx_status status) {
  if (status != RLX_OK) throw Failure(exit_code_for(status), rlx_last_error());
}

void check(const Status& status) {
  if (!status.ok()) throw Failure(exit_code_for(status.code()), status.message());
}

void check_written(const Status& status) {
  if (!status.ok()) throw Failure(ExitCode::Resources, status.message());
}

}  // namespace rlx::tool
