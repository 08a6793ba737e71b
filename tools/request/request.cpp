// SPDX-License-Identifier: Apache-2.0
#include "tools/request/request.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>

#include "compiler/emit/cuda_architecture.h"
#include "compiler/extension/load_extension.h"
#include "compiler/import/checkpoint/tokenizer.h"
#include "compiler/lower/offer_names.h"
#include "compiler/passes/pass.h"
#include "schema/text_generated.h"
#include "tools/request/check_text.h"

namespace rlx {
namespace {

// What is wrong with --arch and --nvrtc; nothing where all is well.
std::optional<std::string> find_architecture_misuse(const CompileRequest& request) {
  const std::vector<std::string>& targets = request.options.targets;
  const bool is_cuda = std::find(targets.begin(), targets.end(), "cuda") != targets.end();
  if (!request.options.nvrtc.empty() && !is_cuda)
    return "--nvrtc names the compiler for --target cuda, which is not asked for";
  if (request.architectures.empty()) return std::nullopt;
  if (!is_cuda) return "--arch names architectures for --target cuda, which is not asked for";
  for (const std::string& name : request.architectures) {
    if (find_cuda_architecture(name) == nullptr) {
      return "there is no architecture \"" + name + "\"; architectures are " +
             architecture_names(false);
    }
  }
  return std::nullopt;
}

// Compute capabilities, each once, ascending.
std::vector<uint32_t> architecture_numbers(const std::vector<std::string>& names) {
  std::vector<uint32_t> numbers;
  for (const CudaArchitecture& architecture : all_cuda_architectures()) {
    if (std::find(names.begin(), names.end(), architecture.name) != names.end())
      numbers.push_back(architecture.number);
  }
  return numbers;
}

std::optional<std::string> find_pass_misuse(const std::string& name) {
  std::string names;
  for (const Pass& pass : all_passes()) {
    if (pass.name == name) return std::nullopt;
    names += (names.empty() ? "" : ", ") + std::string(pass.name);
  }
  return "there is no pass \"" + name + "\"; passes are " + names;
}

// A name that no table of kernels has would be left out, or preferred, in vain.
std::optional<std::string> find_offer_misuse(const std::string& option,
                                             const std::vector<std::string>& names) {
  const std::vector<std::string> known = all_offer_names();
  for (const std::string& name : names) {
    if (std::binary_search(known.begin(), known.end(), name)) continue;
    std::string list;
    for (const std::string& each : known) list += (list.empty() ? "" : ", ") + each;
    return option + " \"" + name + "\": no kernel of that name is chosen among others; these are " +
           list;
  }
  return std::nullopt;
}

// Whether the file is a language model's, by its first bytes; what cannot be read is refused later.
bool is_gguf(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;
  std::array<char, 4> begin = {};
  std::ifstream stream(file, std::ios::binary);
  stream.read(begin.data(), begin.size());
  return detect_format(std::as_bytes(std::span(begin))) == GraphFormat::Gguf;
}

// Weights of a language model have so few bits that f16 beside them changes no token.
Precision precision_of(const CompileRequest& request) {
  const Precision usual = is_gguf(request.model) ? Precision::Mixed : Precision::F32;
  return request.precision.value_or(usual);
}

// Of a language model's caches.
DType cache_type(Precision precision) {
  if (precision == Precision::Bf16) return DType::bf16;
  const bool is_low = precision == Precision::F16 || precision == Precision::Mixed;
  return is_low ? DType::f16 : DType::f32;
}

}  // namespace

std::string architecture_names(bool only_default) {
  std::string names;
  for (const CudaArchitecture& architecture : all_cuda_architectures()) {
    if (only_default && !architecture.by_default) continue;
    names += (names.empty() ? "" : ",") + std::string(architecture.name);
  }
  return names;
}

std::optional<std::string> find_misuse(const CompileRequest& request) {
  if (auto misuse = find_architecture_misuse(request)) return misuse;
  if (!request.options.dump_after.empty()) {
    if (auto misuse = find_pass_misuse(request.options.dump_after)) return misuse;
  }
  for (const std::string& name : request.options.disabled_passes) {
    if (auto misuse = find_pass_misuse(name)) return misuse;
  }
  const CompileOptions& options = request.options;
  if (auto misuse = find_offer_misuse("--without", options.without)) return misuse;
  if (auto misuse = find_offer_misuse("--prefer", options.prefer)) return misuse;
  for (const std::string& name : options.prefer) {
    if (std::ranges::find(options.without, name) != options.without.end())
      return "--prefer \"" + name + "\": --without leaves it out";
  }
  return std::nullopt;
}

std::optional<Module> load_request(CompileRequest& request, Diagnostics& diagnostics) {
  built_in_extensions();
  request.options.precision = precision_of(request);
  request.options.architectures = architecture_numbers(request.architectures);
  request.import.language.cache = cache_type(request.options.precision);
  std::optional<Module> module =
      load_entries(request.model, request.import, request.entries, diagnostics);
  if (!module) return std::nullopt;
  if (!request.tokenizer.empty()) {
    const int64_t context =
        module->text.empty() ? 0 : fb::GetText(module->text.data())->context_tokens();
    auto text = checkpoint::read_tokenizer_section(request.tokenizer, context, diagnostics);
    if (!text) return std::nullopt;
    module->text = std::move(*text);
  }
  const std::string& text_file = request.tokenizer.empty() ? request.model : request.tokenizer;
  check_text(module->text, {text_file, ""}, diagnostics);
  if (diagnostics.has_errors() || !keep_values(*module, request.kept, diagnostics))
    return std::nullopt;
  return module;
}

}  // namespace rlx
