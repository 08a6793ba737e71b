// SPDX-License-Identifier: Apache-2.0
// A kernel's source text under a specialization, in either language: macros, includes, and the
// texts that its code depends on.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/emit/kernel_sources.h"

namespace rlx {

// What a language has of its own: folder + kernel + extension is a kernel, folder + "lib/..." what
// kernels include. What the folder lacks is text of both languages: shaders/<kernel>.kernel and
// shaders/lib/....
struct SourceLanguage {
  std::string_view folder;
  std::string_view extension;
};
inline constexpr SourceLanguage kGlsl = {.folder = "shaders/vulkan/", .extension = ".comp"};
inline constexpr SourceLanguage kCuda = {.folder = "cuda_kernels/", .extension = ".cu"};

// A kernel's text and where it lies: the language's own, or else that of both languages.
struct KernelText {
  std::string path;                   // "shaders/softmax.kernel"
  const std::string* text = nullptr;  // of the sources; nullptr: neither is there
};
KernelText find_kernel_text(const Specialization& specialization, const KernelSources& sources,
                            const SourceLanguage& language);

// What `#include "name"` in a kernel means: generated/... of the specialization, lib/... of the
// language or else of both languages, or schema/...; nullptr where there is no such file.
const std::string* find_include(const std::string& name, const Specialization& specialization,
                                const KernelSources& sources, const SourceLanguage& language);
inline constexpr std::string_view kNoSuchInclude =
    "no such file; kernels include lib/..., schema/kernel_params.h and generated/... only";

// A file by the name under which it is included.
struct IncludedFile {
  std::string name;
  const std::string* text = nullptr;  // of the specialization or the sources; nullptr: no such file
};
// Everything that a text includes, and what that includes, each once, in the order in which they
// are met. Includes in parts that #if leaves out count too: the list may be too long, never too
// short.
std::vector<IncludedFile> included_files(const std::string& text,
                                         const Specialization& specialization,
                                         const KernelSources& sources,
                                         const SourceLanguage& language);

// #define lines of the specialization: its own and RLX_BLOCK_X, RLX_BLOCK_Y, RLX_BLOCK_Z.
std::string define_lines(const Specialization& specialization);

// All texts that the code of a kernel depends on, as one: its path, macros, text and includes.
// There is a text.
std::string source_inputs(const KernelText& kernel, const Specialization& specialization,
                          const KernelSources& sources, const SourceLanguage& language);

// "RLX_X=f16 RLX_COLS=128 block 256x1x1", for messages and inspect.
std::string describe(const Specialization& specialization);

}  // namespace rlx
