// SPDX-License-Identifier: Apache-2.0
// The frame of a program: exit codes, and what holds whatever happens inside.
#pragma once

#include "runtime/include/rlx.h"

namespace rlx::tool {

// Exit codes of rlxc and rlxrun.
enum class ExitCode : int {
  Ok = 0,
  Usage = 1,
  InputRefused = 2,  // a file, or indices in it that lie outside what they index
  DeviceUnsuitable = 3,
  Mismatch = 4,
  Resources = 5,  // memory, disk, standard output, a lost device, a timeout
  Internal = 70,
};

// The exit code for a status of the library.
ExitCode exit_code_for(rlx_status status);

// Stands as "schema_version" in every object that --json prints. It counts up where a key goes or
// changes its meaning; new keys may come without.
inline constexpr int kJsonSchemaVersion = 1;

// Runs `body` and returns the code to end with: its own, or
//  - Resources where memory ran out, at any point, or where it says Ok and not all that it printed
//    could be written;
//  - Internal where it ended by another exception.
// A file that is shortened while it is mapped ends the process with InputRefused.
// Files that the program opens never take the places of closed standard streams, and a reader that
// goes away, or a limit on the size of files, is an error of the write and ends no process.
int run_program(const char* name, int argc, char** argv, int (*body)(int, char**)) noexcept;

}  // namespace rlx::tool
