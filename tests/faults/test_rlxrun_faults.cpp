// SPDX-License-Identifier: Apache-2.0
// rlxrun as it is shipped, beside drivers that fail: it ends with the exit code of what went wrong
// and says so, and never by a signal.
#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "runtime/vulkan/vulkan_device.h"
#include "tests/faults/fault_fixture.h"
#include "tests/support/bin_folder.h"
#include "tests/support/catch.h"

using namespace rlx;
using namespace rlx::test;

namespace {

namespace fs = std::filesystem;

// A folder in which the loader finds the stand-ins under the drivers' names, and a plan.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("rlx_faults_" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
    fs::create_symlink(RLX_CUDA_STAND_IN, path_ / "libcuda.so.1");
    fs::create_symlink(RLX_CUDA_STAND_IN, path_ / "libcublasLt.so.13");
    fs::create_symlink(RLX_VULKAN_STAND_IN, path_ / "libvulkan.so.1");
    const std::vector<std::byte> plan = serialise(to_spec(full_sketch()));
    std::ofstream(plan_path(), std::ios::binary)
        .write(reinterpret_cast<const char*>(plan.data()),
               static_cast<std::streamsize>(plan.size()));
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string path() const { return path_.string(); }
  [[nodiscard]] std::string plan_path() const { return (path_ / "full.plan").string(); }

 private:
  fs::path path_;
};

struct Ended {
  int code = -1;  // -1: by a signal
  std::string text;
};

Ended run(const Folder& folder, const std::string& device, const std::string& environment) {
  const std::string command = "ASAN_OPTIONS=detect_leaks=0 LD_LIBRARY_PATH=" + folder.path() + " " +
                              environment + " " + bin_folder() + "/rlxrun " + folder.plan_path() +
                              " --entry main --seeded --device " + device + " 2>&1 >/dev/null";
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Ended ended;
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) ended.text += buffer.data();
  const int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) < 128) ended.code = WEXITSTATUS(status);
  return ended;
}

std::string fault(uint64_t call, int choice, bool lose = false) {
  return "RLX_FAULT_AT=" + std::to_string(call) + " RLX_FAULT_CHOICE=" + std::to_string(choice) +
         (lose ? " RLX_FAULT_LOSE=1" : "");
}

void check_code(const Ended& ended, std::initializer_list<int> codes) {
  INFO(ended.text);
  CHECK(std::find(codes.begin(), codes.end(), ended.code) != codes.end());
  CHECK((ended.code == 0 || ended.text.find("rlxrun: ") != std::string::npos));
}

std::string real_loader() {
  void* library = ::dlopen(VulkanOptions().loader.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  link_map* map = nullptr;
  REQUIRE(::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0);
  return map->l_name;
}

constexpr int kDeviceUnsuitable = 3;
constexpr int kResources = 5;
constexpr int kInternal = 70;

}  // namespace

TEST_CASE("rlxrun ends with the exit code of what cuda refused") {
  const Folder folder;
  check_code(run(folder, "cuda", ""), {0});
  // Before there is a context: no device, not ready, unknown.
  check_code(run(folder, "cuda", fault(1, 0)), {kDeviceUnsuitable});
  // In it: memory, not supported, unknown, lost.
  for (uint64_t call = 40; call < 140; call += 9) {
    check_code(run(folder, "cuda", fault(call, 0)), {0, kResources});
    check_code(run(folder, "cuda", fault(call, 1)), {0, kDeviceUnsuitable});
    check_code(run(folder, "cuda", fault(call, 2)), {0, kResources, kInternal});
    check_code(run(folder, "cuda", fault(call, 0, true)), {0, kResources});
  }
}

TEST_CASE("rlxrun ends with the exit code of what vulkan refused") {
  std::string why_none;
  if (list_vulkan_devices(why_none).empty()) {
    std::printf("SKIPPED: %s\n", why_none.c_str());
    return;
  }
  const Folder folder;
  const std::string real = "RLX_FAULT_REAL=" + real_loader() + " ";
  check_code(run(folder, "vulkan", real), {0});
  for (uint64_t call = 1; call < 80; call += 7) {
    check_code(run(folder, "vulkan", real + fault(call, 0)),
               {0, kDeviceUnsuitable, kResources, kInternal});
    check_code(run(folder, "vulkan", real + fault(call, 0, true)), {0, kResources});
  }
}
