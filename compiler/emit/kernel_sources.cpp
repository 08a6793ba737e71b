// SPDX-License-Identifier: Apache-2.0
// Reads a folder of kernel sources over the embedded ones.
#include "compiler/emit/kernel_sources.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "compiler/emit/specialized_source.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

std::vector<SourceLanguage> all_languages() {
  std::vector<SourceLanguage> all = {kSharedLanguage};
  all.insert(all.end(), std::begin(kLanguages), std::end(kLanguages));
  return all;
}

bool is_kernel_source(const fs::path& path) {
  const std::string extension = path.extension().string();
  return std::ranges::any_of(all_languages(), [&](const SourceLanguage& language) {
    return extension == language.kernel_extension || extension == language.library_extension;
  });
}

// As find_kernel_text and find_include look for sources: what kernels of every language include may
// have a text of a language's own.
bool is_looked_for(const fs::path& path) {
  const std::string folder = path.parent_path().generic_string();
  const std::string extension = path.extension().string();
  return std::ranges::any_of(all_languages(), [&](const SourceLanguage& language) {
    if (folder == language.folder) return extension == language.kernel_extension;
    return folder == std::string(language.folder) + "/lib" &&
           (extension == language.library_extension ||
            extension == kSharedLanguage.library_extension);
  });
}

// shaders/<kernel>.kernel, shaders/vulkan/<kernel>.comp and ...
std::string places_of_kernels() {
  const std::vector<SourceLanguage> languages = all_languages();
  std::string text;
  for (const SourceLanguage& language : languages) {
    const bool is_last = &language == &languages.back();
    text += text.empty() ? "" : is_last ? " and " : ", ";
    text += std::string(language.folder) + "/<kernel>" + std::string(language.kernel_extension);
  }
  return text;
}

std::optional<std::string> read_text(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) return std::nullopt;
  return text;
}

}  // namespace

KernelSources KernelSources::embedded() {
  KernelSources sources;
  for (const auto& [path, text] : embedded_kernel_sources()) sources.files_.emplace(path, text);
  return sources;
}

std::optional<KernelSources> KernelSources::from_folder(const std::string& folder,
                                                        Diagnostics& diagnostics) {
  KernelSources sources = embedded();
  bool found = false;
  for (const char* part : {"shaders", "cuda_kernels"}) {
    const fs::path root = fs::path(folder) / part;
    std::error_code code;
    if (!fs::is_directory(root, code)) continue;
    found = true;
    fs::recursive_directory_iterator file(root, code);
    for (; !code && file != fs::recursive_directory_iterator(); file.increment(code)) {
      if (!file->is_regular_file() || !is_kernel_source(file->path())) continue;
      const fs::path path = file->path().lexically_relative(folder);
      if (!is_looked_for(path)) {
        diagnostics.error(
            DiagCode::BadOption, {.file = file->path().string(), .position = {}},
            "kernel source lies where none is looked for",
            "kernels are " + places_of_kernels() + "; what they include lies in lib beside them");
        return std::nullopt;
      }
      std::optional<std::string> text = read_text(file->path());
      if (!text) {
        diagnostics.error(DiagCode::FileMissing, {.file = file->path().string(), .position = {}},
                          "kernel source cannot be read");
        return std::nullopt;
      }
      sources.files_.insert_or_assign(path.generic_string(), std::move(*text));
    }
    if (code) {
      diagnostics.error(DiagCode::FileMissing, {.file = root.string(), .position = {}},
                        "folder of kernel sources cannot be read: " + code.message());
      return std::nullopt;
    }
  }
  if (!found) {
    diagnostics.error(DiagCode::FileMissing, {.file = folder, .position = {}},
                      "folder of kernels has neither shaders nor cuda_kernels in it",
                      "give the folder that holds shaders/<kernel>.kernel");
    return std::nullopt;
  }
  return sources;
}

const std::string* KernelSources::find(std::string_view path) const {
  const auto found = files_.find(path);
  return found == files_.end() ? nullptr : &found->second;
}

}  // namespace rlx
