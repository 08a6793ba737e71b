// SPDX-License-Identifier: Apache-2.0
// What a compiler of kernels answered, for tests that know which of the two it must be.
#pragma once

#include <string>
#include <variant>

#include "compiler/emit/kernel_code.h"
#include "tests/support/catch.h"

namespace rlx::test {

// Fails the test with the compiler's words where it refused the kernel.
template <class Code>
Code code_of(const std::variant<Code, KernelFault>& result) {
  if (const auto* fault = std::get_if<KernelFault>(&result)) FAIL(fault->message);
  return std::get<Code>(result);
}

// Why the kernel was refused.
template <class Code>
std::string fault_of(const std::variant<Code, KernelFault>& result) {
  const auto* fault = std::get_if<KernelFault>(&result);
  return fault == nullptr ? "compiled" : fault->message;
}

}  // namespace rlx::test
