// SPDX-License-Identifier: Apache-2.0
// Standard streams, signals and memory of a program.
#include "tools/program/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

namespace rlx::tool {
namespace {

// Set where an allocation failed. Streams of the standard library swallow the exception and end
// their text early, so that success could be claimed of half a text.
std::atomic<bool> memory_ran_out = false;

// What ends the program where an exception finds no handler; the standard library's, which tells
// its name.
std::terminate_handler end_by_mistake = std::abort;

[[noreturn]] void note_out_of_memory() {
  memory_ran_out = true;
  throw std::bad_alloc();
}

// Libraries let exceptions out of functions that promise none (CLI11's searches by name do): where
// memory ran out, that ends the program too, and not as a mistake.
void end_without_memory() {
  if (!memory_ran_out) end_by_mistake();
  static constexpr std::string_view kMessage = "error: out of memory\n";
  static_cast<void>(!::write(STDERR_FILENO, kMessage.data(), kMessage.size()));
  ::_exit(static_cast<int>(ExitCode::Resources));
}

// What the program is called on standard error, for end_at_lost_mapping.
const char* program_name = "";

// Files are mapped; one that is shortened meanwhile, or whose disk fails, has no bytes to give, and
// no place in the program could go on without them. Other SIGBUS are mistakes.
void end_at_lost_mapping(int signal, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) {
    std::signal(signal, SIG_DFL);
    return;  // the instruction is tried again
  }
  static constexpr std::string_view kMessage =
      ": error: a file was shortened while it was read, or its disk fails; run again when it is "
      "whole\n";
  static_cast<void>(!::write(STDERR_FILENO, program_name, std::strlen(program_name)));
  static_cast<void>(!::write(STDERR_FILENO, kMessage.data(), kMessage.size()));
  ::_exit(static_cast<int>(ExitCode::InputRefused));
}

void catch_lost_mappings(const char* name) {
  program_name = name;
  struct sigaction action = {};
  action.sa_sigaction = end_at_lost_mapping;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

// Gives each closed standard stream a descriptor that can be neither read nor written: what the
// program prints fails as it should, and does not land in the next file that it opens.
void occupy_closed_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) static_cast<void>(::open("/", O_PATH));
  }
}

int out_of_memory(const char* name) {
  std::fprintf(stderr, "%s: error: out of memory\n", name);
  return static_cast<int>(ExitCode::Resources);
}

// What the system has too little of for the moment.
bool is_shortage(const std::error_code& code) {
  return code == std::errc::resource_unavailable_try_again ||
         code == std::errc::not_enough_memory || code == std::errc::too_many_files_open ||
         code == std::errc::too_many_files_open_in_system;
}

int run_body(const char* name, int argc, char** argv, int (*body)(int, char**)) noexcept {
  try {
    return body(argc, argv);
  } catch (const std::bad_alloc&) {
    return out_of_memory(name);
  } catch (const std::system_error& error) {
    const bool shortage = is_shortage(error.code());
    std::fprintf(stderr, "%s: %s: %s\n", name, shortage ? "error" : "internal error", error.what());
    return static_cast<int>(shortage ? ExitCode::Resources : ExitCode::Internal);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: internal error: %s\n", name, error.what());
  } catch (...) {
    std::fprintf(stderr, "%s: internal error: an unknown exception\n", name);
  }
  return static_cast<int>(ExitCode::Internal);
}

}  // namespace

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
    case RLX_ASSERTION_FAILED:
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

int run_program(const char* name, int argc, char** argv, int (*body)(int, char**)) noexcept {
  occupy_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  catch_lost_mappings(name);
  std::set_new_handler(note_out_of_memory);
  end_by_mistake = std::set_terminate(end_without_memory);
  const int code = run_body(name, argc, argv, body);
  errno = 0;
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  const int why = errno;
  if (code != static_cast<int>(ExitCode::Ok)) return code;
  if (memory_ran_out) return out_of_memory(name);
  if (is_written) return code;
  std::fprintf(stderr, "%s: error: cannot write standard output%s%s\n", name, why == 0 ? "" : ": ",
               why == 0 ? "" : std::strerror(why));
  return static_cast<int>(ExitCode::Resources);
}

}  // namespace rlx::tool
