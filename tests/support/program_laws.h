// SPDX-License-Identifier: Apache-2.0
// Laws of a program's frame, for each of its commands: what cannot be printed, and memory that runs
// out, end it with its exit code and never with a signal or with success.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/bin_folder.h"
#include "tests/support/catch.h"

namespace rlx::test {

// What `sh -c` says of a command: its exit code, or 128 and the signal; and what it printed.
struct ShellResult {
  int code = -1;
  std::string text;
};

inline ShellResult shell(const std::string& command, const std::string& redirection = "") {
  ShellResult result;
  FILE* pipe = ::popen(("{ " + command + "\n} " + redirection).c_str(), "r");
  REQUIRE(pipe != nullptr);
  char part[4096];
  for (size_t count = 0; (count = std::fread(part, 1, sizeof part, pipe)) > 0;)
    result.text.append(part, count);
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

// `command` (program and arguments) prints and ends with 0; with no way to print it ends with 5.
inline void check_unwritable_output(const std::string& command) {
  INFO(command);
  const ShellResult good = shell(command + " 2>/dev/null");
  REQUIRE(good.code == 0);
  REQUIRE_FALSE(good.text.empty());
  for (const char* output : {">/dev/full", ">&-", ">&- <&-"}) {
    const ShellResult result = shell(command + " 2>&1 " + output);
    INFO(output << ": " << result.text);
    CHECK(result.code == 5);
  }
  // Standard error first to where it can be read.
  for (const char* output : {">/dev/full", ">&-"}) {
    const ShellResult result = shell("{ " + command + " 2>&3 " + output + "; } 3>&1");
    INFO(output << ": " << result.text);
    CHECK(result.code == 5);
    CHECK(result.text.find("cannot write standard output") != std::string::npos);
  }
  // Neither stream: still the code.
  CHECK(shell(command + " >&- 2>&-").code == 5);
  CHECK(shell(command + " >/dev/full 2>/dev/full").code == 5);
}

// Lets allocations fail, each of the first ones and then fewer and fewer: 5, or a result that is
// right to the last byte.
inline void check_failing_allocations(const std::string& command) {
  const std::string library = bin_folder() + "/../lib/librlx_fail_malloc.so";
  if (!std::filesystem::exists(library)) {
    std::printf("SKIPPED: %s: no failing allocations in this build\n", command.c_str());
    return;
  }
  const std::string good = shell(command + " 2>/dev/null").text;
  const auto code_of = [&](const std::string& which) {
    const ShellResult result = shell(
        "RLX_FAIL_ALLOCATION=" + which + " LD_PRELOAD=" + library + " " + command + " 2>/dev/null",
        "2>/dev/null");
    INFO(command << ", allocation " << which << " fails: " << result.code);
    CHECK((result.code == 5 || (result.code == 0 && result.text == good)));
    return result.code;
  };
  int failed = 0;
  for (size_t k = 1; k < 100000; k += 1 + k / 12) {
    const int code = code_of(std::to_string(k) + "+");
    static_cast<void>(code_of(std::to_string(k)));
    if (code == 0) break;
    ++failed;
  }
  CHECK(failed > 5);
}

}  // namespace rlx::test
