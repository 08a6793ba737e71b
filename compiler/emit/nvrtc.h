// SPDX-License-Identifier: Apache-2.0
// NVRTC, NVIDIA's library that compiles CUDA C++, opened at run time: rlxc builds and starts
// without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/support/diagnostics.h"

namespace rlx {

class Nvrtc {
 public:
  // `path`: the library's file or the folder that holds it. Without: the newest of those in the
  // loader's search path and in /usr/local/cuda/lib64. Reports a library that is missing or too
  // old, with what to install.
  static std::unique_ptr<const Nvrtc> open(const std::optional<std::string>& path,
                                           Diagnostics& diagnostics);
  ~Nvrtc();
  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  [[nodiscard]] uint32_t major() const { return major_; }
  [[nodiscard]] uint32_t minor() const { return minor_; }
  [[nodiscard]] std::string version() const;  // "13.0"
  // Compute capabilities that it compiles for, ascending: 90 for 9.0.
  [[nodiscard]] const std::vector<uint32_t>& architectures() const { return architectures_; }

  struct File {
    std::string name;
    const std::string* text = nullptr;
  };
  struct Output {
    bool good = false;
    std::string log;               // the compiler's messages
    std::string ptx;               // empty unless good, as is the next
    std::vector<std::byte> cubin;  // where the options name a real architecture
  };
  // Compiles a text; it sees the files under their names. Thread-safe.
  [[nodiscard]] Output compile(const File& source, const std::vector<File>& includes,
                               const std::vector<std::string>& options) const;

 private:
  struct Functions;
  Nvrtc(void* library, std::unique_ptr<const Functions> functions);
  static std::unique_ptr<const Nvrtc> adopt(void* library, const std::string& file,
                                            Diagnostics& diagnostics);

  void* library_;
  std::unique_ptr<const Functions> functions_;
  uint32_t major_ = 0;
  uint32_t minor_ = 0;
  std::vector<uint32_t> architectures_;
};

}  // namespace rlx
