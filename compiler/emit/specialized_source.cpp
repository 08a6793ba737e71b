// SPDX-License-Identifier: Apache-2.0
// Macros and includes of a kernel's source.
#include "compiler/emit/specialized_source.h"

#include <algorithm>
#include <set>

#include "compiler/emit/needed_functions.h"

namespace rlx {
namespace {

std::string path_in(const SourceLanguage& language, std::string_view name) {
  return std::string(language.folder) + "/" + std::string(name);
}

// The names of a text's #include "..." lines.
std::vector<std::string> include_names(std::string_view text) {
  std::vector<std::string> names;
  for (size_t line = 0; line < text.size();) {
    const size_t end = std::min(text.find('\n', line), text.size());
    const std::string_view words = text.substr(line, end - line);
    line = end + 1;
    const size_t hash = words.find_first_not_of(" \t");
    if (hash == std::string_view::npos || words[hash] != '#') continue;
    const size_t include = words.find("include", hash);
    if (include == std::string_view::npos) continue;
    const size_t open = words.find('"', include);
    if (open == std::string_view::npos) continue;
    const size_t close = words.find('"', open + 1);
    if (close != std::string_view::npos)
      names.emplace_back(words.substr(open + 1, close - open - 1));
  }
  return names;
}

struct IncludeWalk {
  const Specialization& specialization;
  const KernelSources& sources;
  const SourceLanguage& language;
  std::set<std::string> seen;
  std::vector<IncludedFile> files;

  void visit(const std::string& text) {
    for (const std::string& name : include_names(text)) {
      if (!seen.insert(name).second) continue;
      const std::string* included = find_include(name, specialization, sources, language);
      files.push_back({.name = name, .text = included});
      if (included != nullptr) visit(*included);
    }
  }
};

void append_file(const std::string& name, const std::string& text, std::string& all) {
  all += "file " + name + " " + std::to_string(text.size()) + "\n" + text + "\n";
}

}  // namespace

KernelText find_kernel_text(const Specialization& specialization, const KernelSources& sources,
                            const SourceLanguage& language) {
  const std::string name(kernel_row(specialization.kernel).name);
  std::string own = path_in(language, name + std::string(language.kernel_extension));
  if (const std::string* text = sources.find(own)) return {.path = std::move(own), .text = text};
  std::string shared =
      path_in(kSharedLanguage, name + std::string(kSharedLanguage.kernel_extension));
  const std::string* text = sources.find(shared);
  return {.path = std::move(shared), .text = text};
}

const std::string* find_include(const std::string& name, const Specialization& specialization,
                                const KernelSources& sources, const SourceLanguage& language) {
  if (const auto found = specialization.generated.find(name);
      found != specialization.generated.end()) {
    return &found->second;
  }
  if (name.find("..") != std::string::npos) return nullptr;
  if (name.starts_with("lib/")) {
    const std::string* own = sources.find(path_in(language, name));
    return own != nullptr ? own : sources.find(path_in(kSharedLanguage, name));
  }
  if (name.starts_with("schema/")) return sources.find(name);
  return nullptr;
}

std::vector<IncludedFile> included_files(const std::string& text,
                                         const Specialization& specialization,
                                         const KernelSources& sources,
                                         const SourceLanguage& language) {
  IncludeWalk walk{.specialization = specialization,
                   .sources = sources,
                   .language = language,
                   .seen = {},
                   .files = {}};
  walk.visit(text);
  return std::move(walk.files);
}

std::map<std::string, std::string> needed_includes(const std::string& text,
                                                   const Specialization& specialization,
                                                   const KernelSources& sources,
                                                   const SourceLanguage& language) {
  std::vector<IncludedFile> files = included_files(text, specialization, sources, language);
  std::erase_if(files, [](const IncludedFile& file) { return file.text == nullptr; });
  std::vector<std::string_view> texts;
  for (const IncludedFile& file : files) texts.push_back(*file.text);
  std::vector<std::string> needed =
      without_unneeded_functions(define_lines(specialization) + text, texts);
  std::map<std::string, std::string> by_name;
  for (size_t i = 0; i < files.size(); ++i) by_name.emplace(files[i].name, std::move(needed[i]));
  return by_name;
}

std::string define_lines(const Specialization& specialization) {
  std::string text;
  const auto define = [&text](const std::string& name, const std::string& value) {
    text += "#define " + name + " " + value + "\n";
  };
  for (const auto& [name, value] : specialization.defines) define(name, value);
  define("RLX_BLOCK_X", std::to_string(specialization.workgroup.x));
  define("RLX_BLOCK_Y", std::to_string(specialization.workgroup.y));
  define("RLX_BLOCK_Z", std::to_string(specialization.workgroup.z));
  return text;
}

std::string source_inputs(const KernelText& kernel, const Specialization& specialization,
                          const KernelSources& sources, const SourceLanguage& language) {
  std::string all = define_lines(specialization);
  append_file(kernel.path, *kernel.text, all);
  for (const IncludedFile& file : included_files(*kernel.text, specialization, sources, language)) {
    if (file.text != nullptr) append_file(file.name, *file.text, all);
  }
  return all;
}

std::string describe(const Specialization& specialization) {
  std::string text;
  for (const auto& [name, value] : specialization.defines) text += name + "=" + value + " ";
  const Extent3& block = specialization.workgroup;
  return text + "block " + std::to_string(block.x) + "x" + std::to_string(block.y) + "x" +
         std::to_string(block.z);
}

}  // namespace rlx
