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

// Where the sources of a language lie: folder + kernel + extension is a kernel, folder + "lib/..."
// what it includes.
struct SourceLanguage {
  std::string_view folder;
  std::string_view extension;
};
inline constexpr SourceLanguage kGlsl = {.folder = "shaders/", .extension = ".comp"};
inline constexpr SourceLanguage kCuda = {.folder = "cuda_kernels/", .extension = ".cu"};

// "shaders/softmax.comp"
std::string source_path(const Specialization& specialization, const SourceLanguage& language);

// What `#include "name"` in a kernel means: generated/... of the specialization, lib/... of the
// language, or schema/...; nullptr where there is no such file.
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

// All texts that the code of a kernel depends on, as one: its path, macros, source and includes.
// `source` is the text at source_path.
std::string source_inputs(const std::string& source, const Specialization& specialization,
                          const KernelSources& sources, const SourceLanguage& language);

// "RLX_X=f16 RLX_COLS=128 block 256x1x1", for messages and inspect.
std::string describe(const Specialization& specialization);

}  // namespace rlx
