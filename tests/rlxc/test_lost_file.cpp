// SPDX-License-Identifier: Apache-2.0
// A file that is shortened while a program has it mapped.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rlxc/tool_run.h"
#include "tests/support/catch.h"
#include "tools/program/program.h"

namespace rlx::test {
namespace {

int read_shortened(int, char** argv) {
  constexpr size_t kBytes = 8192;
  const int file = ::open(argv[0], O_RDWR);
  if (file < 0 || ::ftruncate(file, kBytes) != 0) return 90;
  void* const mapped = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE, file, 0);
  if (mapped == MAP_FAILED || ::ftruncate(file, 0) != 0) return 91;
  return *static_cast<const volatile char*>(mapped);
}

}  // namespace

TEST_CASE("a file that is shortened while it is mapped ends a program by a sentence") {
  const Workplace place;
  std::string model = place.write("model.bin", "");
  const std::string errors = place.path("errors");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int told = ::open(errors.c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(told, STDERR_FILENO);
    char* arguments[] = {model.data(), nullptr};
    ::_exit(tool::run_program("rlxc", 1, arguments, read_shortened));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
  CHECK(read_file(errors).starts_with("rlxc: error: a file was shortened while it was read"));
}

}  // namespace rlx::test
