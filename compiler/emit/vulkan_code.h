// SPDX-License-Identifier: Apache-2.0
// A kernel instance to SPIR-V: shaderc compiles, SPIRV-Tools optimises and validates, and the facts
// are read back and checked.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compiler/emit/kernel_code.h"
#include "compiler/emit/kernel_sources.h"

namespace rlx {

// While one lives, what shaderc makes of GLSL's built-in declarations serves all kernels; else each
// makes it anew.
class SharedDeclarations {
 public:
  SharedDeclarations();
  ~SharedDeclarations();
  SharedDeclarations(const SharedDeclarations&) = delete;
  SharedDeclarations& operator=(const SharedDeclarations&) = delete;

 private:
  struct Holder;
  std::unique_ptr<Holder> holder_;
};

// Compiles a kernel under the specialization. Thread-safe; the same arguments give the
// same words.
KernelResult compile_vulkan(const Specialization& specialization, const KernelSources& sources,
                            const KernelCodeOptions& options);

// Everything that the result of compile_vulkan depends on, as one text: sources with all their
// includes, defines, options, and versions of the tools. nullopt where the kernel has no source.
std::optional<std::string> vulkan_code_inputs(const Specialization& specialization,
                                              const KernelSources& sources,
                                              const KernelCodeOptions& options);

}  // namespace rlx
