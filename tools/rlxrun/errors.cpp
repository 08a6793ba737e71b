// SPDX-License-Identifier: Apache-2.0
// Statuses as failures.
#include "tools/rlxrun/errors.h"

namespace rlx::tool {

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
