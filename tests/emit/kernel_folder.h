// SPDX-License-Identifier: Apache-2.0
// Folders of kernel sources and programs of one kernel, for the tests of emit.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "compiler/dispatch/program.h"
#include "compiler/emit/compile_kernels.h"

namespace rlx::test {

// A fresh folder that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rlx-emit-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string path() const { return path_.string(); }
  // Writes a file below the folder and returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

 private:
  std::filesystem::path path_;
};

// A kernel of either language that uses CopyParams (p.x, p.y) around `body`.
inline std::string kernel_text(const std::string& body, const std::string& globals = "") {
  return "#include \"lib/prelude.inc\"\n"
         "#include \"lib/storage.inc\"\n"
         "RLX_PARAMS(CopyParams);\n" +
         globals + "\nRLX_MAIN {\n" + body + "\n}\n";
}

// y[i] = convert(x[i]) for RLX_COUNT elements, with storage types RLX_X and RLX_Y.
inline std::string convert_body() {
  return "  const rlx_u64 i = rlx_linear_group * RLX_BLOCK_SIZE + rlx_local_index;\n"
         "  if (i >= RLX_COUNT) return;\n"
         "  RLX_CAT(rlx_store_, RLX_Y)(p.y, rlx_i64(i),\n"
         "      RLX_CAT(rlx_t_, RLX_Y)(RLX_CAT(rlx_load_, RLX_X)(p.x, rlx_i64(i))));";
}

inline Specialization specialization(std::map<std::string, std::string> defines = {}) {
  return {.kernel = KernelId::pad,
          .defines = std::move(defines),
          .generated = {},
          .workgroup = {.x = 64, .y = 1, .z = 1}};
}

// Kernels for some targets.
inline KernelSet kernel_set(const std::vector<Specialization>& specializations,
                            TargetSet targets = TargetSet::Vulkan) {
  KernelSet set;
  set.targets = targets;
  for (const Specialization& each : specializations) {
    set.kernels.push_back({.specialization = each,
                           .nodes = {"pad \"n" + std::to_string(set.kernels.size()) + "\""},
                           .targets = targets});
  }
  return set;
}

}  // namespace rlx::test
