// SPDX-License-Identifier: Apache-2.0
// Reads a folder of kernel sources over the embedded ones.
#include "compiler/emit/kernel_sources.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace rlx {
namespace {

namespace fs = std::filesystem;

// Kernels and what they include: of both languages, of GLSL, of CUDA C++.
constexpr std::string_view kExtensions[] = {".kernel", ".inc", ".comp", ".glsl", ".cu", ".cuh"};

bool is_kernel_source(const fs::path& path) {
  return std::ranges::find(kExtensions, path.extension().string()) != std::end(kExtensions);
}

// Where sources are looked for (find_kernel_text, find_include).
struct Place {
  std::string_view folder;
  std::string_view extension;
};
constexpr Place kPlaces[] = {{"shaders", ".kernel"},          {"shaders/lib", ".inc"},
                             {"shaders/vulkan", ".comp"},     {"shaders/vulkan/lib", ".inc"},
                             {"shaders/vulkan/lib", ".glsl"}, {"cuda_kernels", ".cu"},
                             {"cuda_kernels/lib", ".inc"},    {"cuda_kernels/lib", ".cuh"}};

bool is_looked_for(const fs::path& path) {
  return std::ranges::any_of(kPlaces, [&](const Place& place) {
    return path.parent_path().generic_string() == place.folder &&
           path.extension().string() == place.extension;
  });
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
        diagnostics.error(DiagCode::BadOption, {.file = file->path().string(), .position = {}},
                          "kernel source lies where none is looked for",
                          "kernels are shaders/<kernel>.kernel, shaders/vulkan/<kernel>.comp and "
                          "cuda_kernels/<kernel>.cu; what they include lies in lib beside them");
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
