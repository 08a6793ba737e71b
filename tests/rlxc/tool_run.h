// SPDX-License-Identifier: Apache-2.0
// Running the built rlxc as a user would, in a folder of its own.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/bin_folder.h"

namespace rlx::test {

struct ToolResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string output;
  std::string errors;
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// A folder that goes away with the object; rlxc keeps its cache in there too.
class Workplace {
 public:
  Workplace() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rlxc-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    folder_ = pattern;
    std::filesystem::create_directory(folder_ / "files");
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;
  ~Workplace() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Path of a file of this workplace; its folder exists.
  [[nodiscard]] std::string path(const std::string& name) const {
    const std::filesystem::path path = folder_ / "files" / name;
    std::filesystem::create_directories(path.parent_path());
    return path.string();
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

  // Starts rlxc; the caller waits for it.
  [[nodiscard]] pid_t start(const std::vector<std::string>& arguments) const {
    const std::string out = (folder_ / "out").string();
    const std::string err = (folder_ / "err").string();
    const std::string cache = "XDG_CACHE_HOME=" + (folder_ / "cache").string();
    const std::string program = rlx::test::bin_folder() + "/rlxc";
    std::vector<const char*> argv = {program.c_str()};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    argv.push_back(nullptr);
    const std::vector<const char*> environment = {cache.c_str(), "LC_ALL=C", nullptr};
    const pid_t child = fork();
    if (child != 0) return child;
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
    execve(program.c_str(), const_cast<char* const*>(argv.data()),
           const_cast<char* const*>(environment.data()));
    _exit(127);
  }

  [[nodiscard]] ToolResult rlxc(const std::vector<std::string>& arguments) const {
    int status = 0;
    waitpid(start(arguments), &status, 0);
    return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .output = read_file(folder_ / "out"),
            .errors = read_file(folder_ / "err")};
  }

 private:
  std::filesystem::path folder_;
};

// y = relu(x @ w + b) with a symbolic batch; `nodes` may be replaced.
inline std::string small_model(const std::string& nodes = R"(
    {"name": "product", "op": "matmul", "inputs": ["x", "w"], "outputs": ["h"]},
    {"name": "sum", "op": "add", "inputs": ["h", "b"], "outputs": ["s"]},
    {"name": "act", "op": "relu", "inputs": ["s"], "outputs": ["y"]})") {
  return R"({"rlx_graph": 1, "name": "small",
  "symbols": [{"name": "batch", "min": 1, "max": 8}],
  "params": [{"name": "w", "dtype": "f32", "shape": [3, 2], "data": {"values": [1, -1, 2, 0.5, -3, 4]}},
             {"name": "b", "dtype": "f32", "shape": [2], "data": {"values": [0.25, -0.5]}}],
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 3]}],
  "nodes": [)" +
         nodes + R"(],
  "outputs": ["y"]})";
}

}  // namespace rlx::test
