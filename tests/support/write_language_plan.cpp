// SPDX-License-Identifier: Apache-2.0
// Writes the tiny language model's plan, for tests of programs.
#include <cstdio>
#include <exception>

#include "runtime/base/output_file.h"
#include "tests/support/tiny_language_model.h"

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  try {
    const std::vector<std::byte> plan = rlx::test::tiny_language_plan(
        std::vector<uint32_t>{1, 8, 16, 32}, rlx::test::TinyText::With);
    const rlx::Status status = rlx::write_file(argv[1], plan);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
    return status.ok() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
