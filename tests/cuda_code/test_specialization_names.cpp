// SPDX-License-Identifier: Apache-2.0
// Names that travel from lowerings to the texts of kernels as strings: what a lowering gives stands
// in the text, and what an #if of the text asks for is given or defined. Needs no device.
#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>

#include "compiler/emit/specialized_source.h"
#include "compiler/lower/lower.h"
#include "compiler/passes/pass.h"
#include "tests/support/catch.h"
#include "tests/support/harness.h"

namespace rlx::test {

#define RLX_OPS(family, ...) std::vector<Case> family##_cases();
#include "compiler/ops/ops.def"
#undef RLX_OPS

namespace {

constexpr size_t kCasesAtOnce = 48;

using Names = std::set<std::string>;

// Names that a kernel is given and has no use for.
struct Unused {
  KernelId kernel;
  const char* names;  // regular expression
  const char* reason;
};
constexpr const char* kDepth = "RLX_(X|IN|OUT|KERNEL|STRIDE|DILATION|BEGIN)_D";
constexpr const char* kWindow = "windows have three dims, of which the kernel has the last two";
constexpr const char* kEmitter = "the emitter reads it: the type of cooperative matrices";
constexpr const char* kCalls = "Vulkan's emitter and CUDA's prelude read it";
constexpr Unused kUnused[] = {
    {KernelId::conv_depthwise, kDepth, kWindow},
    {KernelId::conv_depthwise_channels, "RLX_X_C", "channels are neighbours there"},
    {KernelId::region, "RLX_CALLS", kCalls},
    {KernelId::matmul_wgmma, kDepth, kWindow},
    {KernelId::matmul_wgmma, "RLX_KERNEL_H", "it is given the number of taps"},
    {KernelId::attention_coop, "RLX_MATRIX", kEmitter},
    {KernelId::attention_decode, "RLX_HEADS", "sizes that every kernel of attention is given"},
    {KernelId::attention_lanes, "RLX_HEADS", "sizes that every kernel of attention is given"},
    {KernelId::dequant_coop, "RLX_GROUPED", "sizes that every kernel of such products is given"},
    {KernelId::dequant_coop, "RLX_MATRIX", kEmitter},
    {KernelId::dequant_matvec, "RLX_MIN_GROUPS", "bounds registers: Vulkan knows no such bound"},
};

// Given by the emitter; by kernels with free sizes, which no case has; for the device model of a
// CPU, which no case is compiled for.
constexpr std::array<const char*, 7> kGivenElsewhere = {
    "RLX_NATIVE_HALVES", "RLX_SIZES",        "RLX_SIZES_IN_POINTERS", "RLX_BYTES",
    "RLX_PERIODIC",      "RLX_PAIRED_LOADS", "RLX_FEW_THREADS"};

// What a file says of names, its comments left out.
struct FileNames {
  Names words;    // RLX_... and rlx_..., wherever they stand
  Names defined;  // by #define
  Names asked;    // in the conditions of #if, #ifdef and the like
};

void add_words(const std::string& text, const std::regex& pattern, Names& names) {
  const std::sregex_iterator end;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern); it != end; ++it)
    names.insert(it->str());
}

FileNames read_names(const std::string& text) {
  static const std::regex kComment("//[^\n]*");
  static const std::regex kWord(R"(\b(?:RLX|rlx)_\w+)");
  static const std::regex kFlag(R"(\bRLX_\w+)");
  static const std::regex kDirective(R"(#[ \t]*(\w+)[ \t]*((?:\\\n|[^\n])*))");
  FileNames names;
  const std::string code = std::regex_replace(text, kComment, "");
  add_words(code, kWord, names.words);
  const std::sregex_iterator end;
  for (std::sregex_iterator it(code.begin(), code.end(), kDirective); it != end; ++it) {
    const std::string directive = (*it)[1];
    const std::string rest = (*it)[2];
    if (directive == "define")
      names.defined.insert(rest.substr(0, rest.find_first_of(" \t(")));
    else if (directive.find("if") != std::string::npos)
      add_words(rest, kFlag, names.asked);
  }
  return names;
}

class NameCheck {
 public:
  void add(const Specialization& specialization, const SourceLanguage& language) {
    if (!seen_[language.folder].insert(specialization).second) return;
    const std::vector<FileNames> files = files_of(specialization, language);
    const auto stands = [&files](const std::string& name) {
      return std::any_of(files.begin(), files.end(),
                         [&name](const FileNames& file) { return file.words.contains(name); });
    };
    const std::string kernel(kernel_row(specialization.kernel).name);
    for (const auto& [name, value] : specialization.defines) {
      given_.insert(name);
      if (!stands(name) && !is_known_unused(specialization.kernel, name))
        faults_.insert(kernel + " is given " + name + ", which its text does not have");
    }
    for (const FileNames& file : files) {
      given_.insert(file.defined.begin(), file.defined.end());
      asked_.insert(file.asked.begin(), file.asked.end());
    }
  }

  // With what only all kernels together tell: a name that is not given counts as 0, so one that
  // nobody ever gives is asked for in vain.
  [[nodiscard]] Names faults() const {
    Names faults = faults_;
    for (const std::string& name : asked_) {
      if (!given_.contains(name)) faults.insert("nobody gives " + name + ", which a text asks for");
    }
    return faults;
  }
  // Rows of kUnused that no kernel needed.
  [[nodiscard]] Names idle_rows() const {
    Names idle;
    for (const Unused& row : kUnused) {
      if (!used_rows_.contains(&row))
        idle.insert(std::string(kernel_row(row.kernel).name) + " " + row.names);
    }
    return idle;
  }

 private:
  std::vector<FileNames> files_of(const Specialization& specialization,
                                  const SourceLanguage& language) {
    const KernelText kernel = find_kernel_text(specialization, sources_, language);
    std::vector<FileNames> files = {names_of(kernel.path, *kernel.text)};
    for (const IncludedFile& file :
         included_files(*kernel.text, specialization, sources_, language)) {
      if (file.text == nullptr) continue;  // behind an #if
      const bool is_generated = specialization.generated.contains(file.name);
      files.push_back(is_generated
                          ? read_names(*file.text)
                          : names_of(std::string(language.folder) + file.name, *file.text));
    }
    return files;
  }

  const FileNames& names_of(const std::string& path, const std::string& text) {
    const auto known = files_.find(path);
    if (known != files_.end()) return known->second;
    return files_.emplace(path, read_names(text)).first->second;
  }

  bool is_known_unused(KernelId kernel, const std::string& name) {
    for (const Unused& row : kUnused) {
      if (row.kernel != kernel || !std::regex_match(name, std::regex(row.names))) continue;
      used_rows_.insert(&row);
      return true;
    }
    return false;
  }

  const KernelSources sources_ = KernelSources::embedded();
  std::map<std::string_view, std::set<Specialization>> seen_;
  std::map<std::string, FileNames> files_;
  std::set<const Unused*> used_rows_;
  Names given_ = {kGivenElsewhere.begin(), kGivenElsewhere.end()};  // and defined
  Names asked_;
  Names faults_;
};

std::vector<Program> lowered(Module module, const Target& target) {
  Diagnostics diagnostics;
  std::vector<std::string> log;
  const PassOptions options{.target = &target};
  REQUIRE(run_passes(module, PassStage::Neutral, options, diagnostics, log));
  REQUIRE(run_passes(module, PassStage::PerTarget, options, diagnostics, log));
  std::vector<Program> programs;
  for (const Graph& graph : module.entries) {
    std::optional<Program> program = lower_entry(module, graph, {.target = &target}, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(program.has_value());
    programs.push_back(std::move(*program));
  }
  programs.push_back(lower_init(module, programs, {.target = &target}, diagnostics).value());
  return programs;
}

void check_cases(std::span<const Case> cases, NameCheck& check) {
  Diagnostics diagnostics;
  const auto built = build_graph(cases, diagnostics);
  REQUIRE(built.has_value());
  for (const Target& target : all_targets()) {
    const SourceLanguage& language = language_of(target.kind);
    for (const Program& program : lowered(built->module, target)) {
      for (const Specialization& kernel : program.kernels) check.add(kernel, language);
    }
  }
}

}  // namespace

TEST_CASE("names that lowerings give to kernels and kernels ask for meet each other") {
  NameCheck check;
  for (const auto& cases_of : {
#define RLX_OPS(family, ...) family##_cases,
#include "compiler/ops/ops.def"
#undef RLX_OPS
       }) {
    const std::vector<Case> cases = cases_of();
    for (size_t first = 0; first < cases.size(); first += kCasesAtOnce) {
      const size_t count = std::min(kCasesAtOnce, cases.size() - first);
      check_cases(std::span(cases).subspan(first, count), check);
    }
  }
  CHECK(check.faults() == Names{});
  CHECK(check.idle_rows() == Names{});
}

TEST_CASE("a misspelt name of a specialization is found") {
  NameCheck check;
  check.add({.kernel = KernelId::splat_fill, .defines = {{"RLX_YY", "f32"}}},
            language_of(TargetKind::Vulkan));
  CHECK(check.faults().contains("splat_fill is given RLX_YY, which its text does not have"));
  check.add({.kernel = KernelId::region,
             .defines = {},
             .generated = {{"generated/region.inc",
                            "#if RLX_MISSPELT && defined(RLX_MISTYPED)\n#endif\n"}}},
            language_of(TargetKind::Cuda));
  CHECK(check.faults().contains("nobody gives RLX_MISSPELT, which a text asks for"));
  CHECK(check.faults().contains("nobody gives RLX_MISTYPED, which a text asks for"));
}

}  // namespace rlx::test
