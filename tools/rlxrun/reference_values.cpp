// SPDX-License-Identifier: Apache-2.0
#include "tools/rlxrun/reference_values.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/rlxrun/errors.h"

namespace rlx::tool {
namespace {

std::string compiler_path() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = self.parent_path() / "rlxc";
  return !error && std::filesystem::exists(beside, error) ? beside.string() : "rlxc";
}

// Exit code of the command, whose standard output goes to our standard error.
int run(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int failed =
      posix_spawnp(&child, command[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    throw Failure(ExitCode::Resources,
                  "--against cpu-reference needs rlxc beside rlxrun or on the "
                  "PATH: " +
                      std::string(std::strerror(failed)));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(ExitCode::Internal);
}

}  // namespace

ReferenceFolder::~ReferenceFolder() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

void ReferenceFolder::evaluate(const std::string& model, const std::string& entry,
                               const std::vector<SymbolValue>& symbols,
                               const std::vector<std::pair<std::string, npy::Array>>& inputs) {
  std::error_code error;
  std::string pattern =
      (std::filesystem::temp_directory_path(error) / "rlxrun-reference-XXXXXX").string();
  if (error || ::mkdtemp(pattern.data()) == nullptr)
    throw Failure(ExitCode::Resources, "cannot make a temporary folder " + pattern);
  folder_ = pattern;
  values_ = folder_ + "/values";
  std::vector<std::string> command = {compiler_path(), "reference",  model,      "--outputs",
                                      values_,         "--keep-all", "--float64"};
  if (!entry.empty()) command.insert(command.end(), {"--entry", entry});
  for (const SymbolValue& symbol : symbols)
    command.insert(command.end(), {"--dim", symbol.name + "=" + std::to_string(symbol.value)});
  if (!inputs.empty()) command.emplace_back("--inputs");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string path = folder_ + "/" + std::to_string(i) + ".npy";
    check_written(npy::write_npy(path, inputs[i].second));
    command.push_back(inputs[i].first + "=" + path);
  }
  const int code = run(command);
  if (code == 0) return;
  throw Failure(static_cast<ExitCode>(code),
                "--against cpu-reference: rlxc reference " + model + " ended with exit code " +
                    std::to_string(code) +
                    "; what only its own options can say, say there: rlxc reference ... --keep-all "
                    "--outputs DIR, then --against DIR");
}

}  // namespace rlx::tool
