// SPDX-License-Identifier: Apache-2.0
// A kernel's source text under a specialization, in a target's language: macros, includes, and the
// texts that its code depends on.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/emit/kernel_sources.h"

namespace rlx {

// What a target's language has of its own: folder/<kernel>.<extension> is a kernel, folder/lib/...
// what kernels include. What the folder lacks is text of every language: shaders/<kernel>.kernel
// and shaders/lib/....
struct SourceLanguage {
  std::string_view folder;
  std::string_view kernel_extension;
  std::string_view library_extension;  // of what only this language includes
};
inline constexpr SourceLanguage kLanguages[] = {
// by TargetKind
#define RLX_TARGET(kind, flag, name, folder, kernel, library) {folder, kernel, library},
#include "schema/targets.def"
#undef RLX_TARGET
};
constexpr const SourceLanguage& language_of(TargetKind target) {
  return kLanguages[static_cast<size_t>(target)];
}
inline constexpr SourceLanguage kSharedLanguage = {
    .folder = "shaders", .kernel_extension = ".kernel", .library_extension = ".inc"};

// A kernel's text and where it lies: the language's own, or else that of every language.
struct KernelText {
  std::string path;                   // "shaders/softmax.kernel"
  const std::string* text = nullptr;  // of the sources; nullptr: neither is there
};
KernelText find_kernel_text(const Specialization& specialization, const KernelSources& sources,
                            const SourceLanguage& language);

// What `#include "name"` in a kernel means: generated/... of the specialization, lib/... of the
// language or else of every language, or schema/...; nullptr where there is no such file.
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

// Those of them that there are, by name, without the functions that the text does not need
// (needed_functions.h).
std::map<std::string, std::string> needed_includes(const std::string& text,
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
