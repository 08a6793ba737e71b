// SPDX-License-Identifier: Apache-2.0
// Parallel compilation of kernels with a cache.
#include "compiler/emit/compile_kernels.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <thread>

#include "compiler/emit/code_cache.h"
#include "compiler/emit/kernel_sources.h"
#include "compiler/emit/vulkan_code.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

constexpr size_t kNodesInMessage = 3;

struct CompileResult {
  KernelResult result = KernelFault{};
  bool cached = false;
  std::exception_ptr failure;  // an internal error, raised again on the calling thread
};

CompileResult compile_one(const Specialization& specialization, const KernelSources& sources,
                          const CodeCache* cache, const KernelCodeOptions& options) {
  std::string key;
  if (cache != nullptr) {
    if (const auto inputs = vulkan_code_inputs(specialization, sources, options)) {
      key = CodeCache::key_of(*inputs);
      if (std::optional<KernelCode> code = cache->load(key)) {
        return {.result = std::move(*code), .cached = true, .failure = {}};
      }
    }
  }
  CompileResult compiled{
      .result = compile_vulkan(specialization, sources, options), .cached = false, .failure = {}};
  if (cache != nullptr) {
    if (const auto* code = std::get_if<KernelCode>(&compiled.result)) cache->store(key, *code);
  }
  return compiled;
}

std::vector<CompileResult> compile_all(const KernelSet& set, const KernelSources& sources,
                                       const CodeCache* cache,
                                       const CompileKernelsOptions& options) {
  std::vector<CompileResult> results(set.kernels.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < results.size(); i = next.fetch_add(1)) {
      try {
        results[i] = compile_one(set.kernels[i].specialization, sources, cache, options.code);
      } catch (...) {
        results[i].failure = std::current_exception();
      }
    }
  };
  const size_t jobs =
      options.jobs != 0 ? options.jobs : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(jobs, results.size()); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return results;
}

void report(const KernelSet::Kernel& kernel, const std::string& message, Diagnostics& diagnostics) {
  std::string nodes;
  for (size_t i = 0; i < std::min(kernel.nodes.size(), kNodesInMessage); ++i) {
    nodes += (i == 0 ? "" : ", ") + kernel.nodes[i];
  }
  if (kernel.nodes.size() > kNodesInMessage) {
    nodes += " and " + std::to_string(kernel.nodes.size() - kNodesInMessage) + " more";
  }
  const std::string name(kernel_row(kernel.specialization.kernel).name);
  std::string text = "kernel \"" + name + "\" for " + nodes + " does not compile:\n" + message;
  while (text.ends_with('\n')) text.pop_back();
  diagnostics.error(DiagCode::Kernel, {.file = "shaders/" + name + ".comp", .position = {}}, text,
                    "specialization: " + describe(kernel.specialization));
}

}  // namespace

KernelSet gather_kernels(std::span<const Program* const> programs) {
  KernelSet set;
  std::map<Specialization, uint32_t> known;
  for (const Program* program : programs) {
    std::vector<std::optional<uint32_t>>& indices = set.index_of_instance.emplace_back();
    indices.resize(program->kernels.size());
    for (const Step& step : program->steps) {
      if (!step.kernel) continue;
      const Specialization& specialization = program->kernels.at(index_of(*step.kernel));
      const auto [entry, added] =
          known.try_emplace(specialization, narrow<uint32_t>(set.kernels.size()));
      if (added) set.kernels.push_back({.specialization = specialization, .nodes = {}});
      indices[index_of(*step.kernel)] = entry->second;
      set.kernels[entry->second].nodes.push_back(step.op + " \"" + step.node + "\"");
    }
  }
  return set;
}

std::optional<CompiledKernels> compile_kernels(const KernelSet& set,
                                               const CompileKernelsOptions& options,
                                               Diagnostics& diagnostics) {
  std::optional<KernelSources> sources =
      options.kernels_folder ? KernelSources::from_folder(*options.kernels_folder, diagnostics)
                             : KernelSources::embedded();
  if (!sources) return std::nullopt;
  std::optional<CodeCache> cache;
  if (options.cache_folder) cache.emplace(*options.cache_folder);

  std::vector<CompileResult> results =
      compile_all(set, *sources, cache ? &*cache : nullptr, options);
  CompiledKernels compiled;
  bool good = true;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].failure) std::rethrow_exception(results[i].failure);
    if (const auto* fault = std::get_if<KernelFault>(&results[i].result)) {
      report(set.kernels[i], fault->message, diagnostics);
      good = false;
      continue;
    }
    compiled.codes.push_back(std::get<KernelCode>(std::move(results[i].result)));
    if (results[i].cached) ++compiled.cache_hits;
  }
  if (!good) return std::nullopt;
  return compiled;
}

}  // namespace rlx
