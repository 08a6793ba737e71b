// SPDX-License-Identifier: Apache-2.0
// NVRTC for the tests of CUDA code, where it is installed.
#pragma once

#include <iostream>

#include "compiler/emit/nvrtc.h"

namespace rlx::test {

// nullptr where NVRTC is missing, which is said once and counts as a skip.
inline const Nvrtc* present_nvrtc() {
  static const std::unique_ptr<const Nvrtc> nvrtc = [] {
    Diagnostics diagnostics;
    std::unique_ptr<const Nvrtc> opened = Nvrtc::open({}, diagnostics);
    if (opened == nullptr)
      std::cout << "SKIPPED: no CUDA code is compiled: " << diagnostics.text() << "\n";
    return opened;
  }();
  return nvrtc.get();
}

}  // namespace rlx::test
