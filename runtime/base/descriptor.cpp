// SPDX-License-Identifier: Apache-2.0
// Closing of file descriptors, and why a call on one failed.
#include "runtime/base/descriptor.h"

#include <unistd.h>

#include <cstring>

namespace rlx {

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

std::string system_reason(int error) {
  char buffer[256] = {};
  // The GNU form of strerror_r may return a static text instead of filling the buffer.
  return strerror_r(error, buffer, sizeof buffer);
}

}  // namespace rlx
