// SPDX-License-Identifier: Apache-2.0
// Parallel compilation of kernels with a cache.
#include "compiler/emit/compile_kernels.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <thread>
#include <unordered_set>
#include <variant>

#include "compiler/emit/code_cache.h"
#include "compiler/emit/cuda_code.h"
#include "compiler/emit/kernel_sources.h"
#include "compiler/emit/specialized_source.h"
#include "compiler/emit/vulkan_code.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

constexpr size_t kNodesInMessage = 3;

// What every compilation of a kernel set shares.
struct Tools {
  const KernelSources& sources;
  const CodeCache* cache = nullptr;  // nullptr: none
  const CompileKernelsOptions& options;
  const Nvrtc* nvrtc = nullptr;  // nullptr: no CUDA code is wanted
  std::vector<const CudaArchitecture*> architectures;
};

// One call of a target's compiler: a kernel's SPIR-V, or its cubin for one architecture, there with
// PTX where that is wanted.
struct Job {
  const KernelSet::Kernel* kernel = nullptr;
  size_t kernel_index = 0;
  TargetKind target{};
  const CudaArchitecture* architecture = nullptr;  // of CUDA
  bool with_ptx = false;
};

struct JobResult {
  std::variant<std::vector<KernelCode>, KernelFault> result = KernelFault{};
  uint32_t cache_hits = 0;
  std::exception_ptr failure;  // an internal error, raised again on the calling thread
};

KernelCodeOptions code_options(const Job& job) {
  return {.native_halves = job.kernel->native_halves};
}

// Inputs of a job's code as text, all that its cache key depends on; nullopt where the kernel has
// no source.
std::optional<std::string> inputs_of(const Job& job, const Tools& tools) {
  const Specialization& specialization = job.kernel->specialization;
  switch (job.target) {
    case TargetKind::Vulkan:
      return vulkan_code_inputs(specialization, tools.sources, code_options(job));
    case TargetKind::Cuda:
      return cuda_code_inputs(*tools.nvrtc, specialization, tools.sources, *job.architecture);
  }
  return std::nullopt;
}

// The cache's keys of the codes of a job, in their order; none without a cache.
std::vector<std::string> keys_of(const Job& job, const Tools& tools) {
  if (tools.cache == nullptr) return {};
  const std::optional<std::string> inputs = inputs_of(job, tools);
  if (!inputs) return {};
  std::vector<std::string> keys = {CodeCache::key_of(*inputs)};
  if (job.with_ptx) keys.push_back(CodeCache::key_of("ptx\n" + *inputs));
  return keys;
}

using Compiled = std::variant<std::vector<KernelCode>, KernelFault>;

Compiled compile_for_vulkan(const Job& job, const Tools& tools) {
  KernelResult result =
      compile_vulkan(job.kernel->specialization, tools.sources, code_options(job));
  if (auto* fault = std::get_if<KernelFault>(&result)) return std::move(*fault);
  std::vector<KernelCode> codes;
  codes.push_back(std::get<KernelCode>(std::move(result)));
  return codes;
}

Compiled compile_for_cuda(const Job& job, const Tools& tools) {
  auto result =
      compile_cuda(*tools.nvrtc, job.kernel->specialization, tools.sources, *job.architecture);
  if (auto* fault = std::get_if<KernelFault>(&result)) return std::move(*fault);
  auto& code = std::get<CudaCode>(result);
  std::vector<KernelCode> codes;
  codes.push_back(std::move(code.cubin));
  if (job.with_ptx) codes.push_back(std::move(code.ptx));
  return codes;
}

Compiled compile(const Job& job, const Tools& tools) {
  switch (job.target) {
    case TargetKind::Vulkan:
      return compile_for_vulkan(job, tools);
    case TargetKind::Cuda:
      return compile_for_cuda(job, tools);
  }
  return KernelFault{};
}

JobResult run_job(const Job& job, const Tools& tools) {
  const std::vector<std::string> keys = keys_of(job, tools);
  std::vector<KernelCode> cached;
  for (const std::string& key : keys) {
    if (std::optional<KernelCode> code = tools.cache->load(key)) cached.push_back(std::move(*code));
  }
  const auto hits = narrow<uint32_t>(cached.size());
  if (!keys.empty() && cached.size() == keys.size())
    return {.result = std::move(cached), .cache_hits = hits, .failure = {}};
  JobResult done{.result = compile(job, tools), .cache_hits = 0, .failure = {}};
  if (const auto* codes = std::get_if<std::vector<KernelCode>>(&done.result)) {
    for (size_t i = 0; i < keys.size(); ++i) tools.cache->store(keys[i], codes->at(i));
  }
  return done;
}

// The jobs of a kernel for one target.
void append_jobs(const Job& job, const Tools& tools, std::vector<Job>& jobs) {
  switch (job.target) {
    case TargetKind::Vulkan:
      jobs.push_back(job);
      return;
    case TargetKind::Cuda:
      for (const CudaArchitecture* architecture : tools.architectures) {
        const bool lowest = architecture == tools.architectures.front();
        Job& added = jobs.emplace_back(job);
        added.architecture = architecture;
        added.with_ptx = lowest && !architecture->specific();
      }
      return;
  }
}

// In the order of CompiledKernels::variants but for PTX, which comes with the lowest architecture.
std::vector<Job> list_jobs(const KernelSet& set, const Tools& tools) {
  std::vector<Job> jobs;
  for (size_t k = 0; k < set.kernels.size(); ++k) {
    const KernelSet::Kernel& kernel = set.kernels[k];
    for (const TargetKind target : kTargetKinds) {
      if (!contains(kernel.targets, target)) continue;
      append_jobs({.kernel = &kernel, .kernel_index = k, .target = target}, tools, jobs);
    }
  }
  return jobs;
}

std::vector<JobResult> run_jobs(const std::vector<Job>& jobs, const Tools& tools) {
  std::vector<JobResult> results(jobs.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next.fetch_add(1); i < results.size(); i = next.fetch_add(1)) {
      try {
        results[i] = run_job(jobs[i], tools);
      } catch (...) {
        results[i].failure = std::current_exception();
      }
    }
  };
  const size_t thread_count = tools.options.jobs != 0
                                  ? tools.options.jobs
                                  : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  threads.reserve(std::min(thread_count, results.size()));
  for (size_t i = 1; i < std::min(thread_count, results.size()); ++i) {
    try {
      threads.emplace_back(work);
    } catch (const std::system_error&) {
      break;  // The system gives no more threads: those that run do the work.
    }
  }
  work();
  for (std::thread& thread : threads) thread.join();
  return results;
}

// The first few nodes of a kernel: `for matmul "a", matmul "b" and 7 more`.
std::string nodes_text(const KernelSet::Kernel& kernel) {
  std::string nodes;
  for (size_t i = 0; i < std::min(kernel.nodes.size(), kNodesInMessage); ++i) {
    nodes += (i == 0 ? "" : ", ") + kernel.nodes[i];
  }
  if (kernel.nodes.size() > kNodesInMessage) {
    nodes += " and " + std::to_string(kernel.nodes.size() - kNodesInMessage) + " more";
  }
  return nodes;
}

// `kernel "matmul" for matmul "a"`
std::string kernel_text(const KernelSet::Kernel& kernel) {
  return "kernel \"" + std::string(kernel_row(kernel.specialization.kernel).name) + "\" for " +
         nodes_text(kernel);
}

void report_fault(const Job& job, const std::string& message, const KernelSources& sources,
                  Diagnostics& diagnostics) {
  std::string text = kernel_text(*job.kernel);
  if (job.architecture != nullptr) text += " (" + std::string(job.architecture->name) + ")";
  text += " does not compile:\n" + message;
  while (text.ends_with('\n')) text.pop_back();
  const Specialization& specialization = job.kernel->specialization;
  const KernelText source = find_kernel_text(specialization, sources, language_of(job.target));
  diagnostics.error(DiagCode::Kernel, {.file = source.path, .position = {}}, text,
                    "specialization: " + describe(specialization));
}

// Warns of a kernel whose threads keep registers or arrays in memory without saying why.
void report_local_memory(const KernelSet::Kernel& kernel, const std::vector<KernelCode>& variants,
                         const KernelSources& sources, Diagnostics& diagnostics) {
  uint32_t most_bytes = 0;
  std::string architectures;
  for (const KernelCode& code : variants) {
    if (code.format != CodeFormat::Cubin) continue;
    const uint32_t local_bytes = unexplained_local_bytes(code, kernel.specialization, sources);
    if (local_bytes == 0) continue;
    most_bytes = std::max(most_bytes, local_bytes);
    architectures += (architectures.empty() ? "sm_" : ", sm_") + std::to_string(code.architecture);
  }
  if (most_bytes == 0) return;
  diagnostics.warning(
      DiagCode::Kernel,
      {.file = find_kernel_text(kernel.specialization, sources, language_of(TargetKind::Cuda)).path,
       .position = {}},
      kernel_text(kernel) + " is slower than it could be: its threads keep up to " +
          std::to_string(most_bytes) + " bytes of registers or arrays in memory (" + architectures +
          ")",
      "specialization: " + describe(kernel.specialization));
}

// Reports the numbers that are no architecture's.
void check_known(const std::vector<uint32_t>& numbers, Diagnostics& diagnostics) {
  std::string known;
  for (const CudaArchitecture& architecture : all_cuda_architectures())
    known += (known.empty() ? "" : ", ") + std::to_string(architecture.number);
  for (const uint32_t number : numbers) {
    if (find_cuda_architecture(number) != nullptr) continue;
    diagnostics.error(DiagCode::BadOption, {},
                      "CUDA architecture " + std::to_string(number) + " is unknown",
                      "architectures are: " + known);
  }
}

// The architectures asked for, ascending; reports those that rlxc or NVRTC does not know.
std::vector<const CudaArchitecture*> pick_architectures(const CompileKernelsOptions& options,
                                                        const Nvrtc& nvrtc,
                                                        Diagnostics& diagnostics) {
  check_known(options.architectures, diagnostics);
  std::vector<const CudaArchitecture*> picked;
  std::string unknown;
  for (const CudaArchitecture& architecture : all_cuda_architectures()) {
    const bool wanted = options.architectures.empty()
                            ? architecture.by_default
                            : std::ranges::find(options.architectures, architecture.number) !=
                                  options.architectures.end();
    if (!wanted) continue;
    picked.push_back(&architecture);
    if (std::ranges::find(nvrtc.architectures(), architecture.number) !=
        nvrtc.architectures().end()) {
      continue;
    }
    unknown += (unknown.empty() ? "" : ", ") + std::string(architecture.name);
  }
  RLX_CHECK(picked.size() <= kPlanMaxCudaArchitectures, "too many architectures");
  if (!unknown.empty()) {
    diagnostics.error(DiagCode::MissingLibrary, {},
                      "NVRTC " + nvrtc.version() + " does not compile for " + unknown,
                      "use a newer NVRTC (cuda-nvrtc-13-0, or pip's nvidia-cuda-nvrtc), or leave "
                      "the architecture out with --arch");
  }
  return picked;
}

PlanCudaTarget cuda_target(const Tools& tools) {
  PlanCudaTarget target{.present = 1,
                        .ptx_architecture = 0,
                        // Code of a major version runs on drivers of that version and all later
                        // ones (CUDA compatibility guide, minor version compatibility).
                        .minimum_driver = tools.nvrtc->major() * 1000,
                        .architecture_count = narrow<uint32_t>(tools.architectures.size()),
                        .architectures = {}};
  for (size_t i = 0; i < tools.architectures.size(); ++i) {
    target.architectures[i] = tools.architectures[i]->number;
  }
  if (!tools.architectures.front()->specific())
    target.ptx_architecture = tools.architectures.front()->number;
  return target;
}

// Sorts what the jobs made into variants per kernel, PTX last. Reports faults.
bool collect(const std::vector<Job>& jobs, std::vector<JobResult>& results,
             const KernelSources& sources, CompiledKernels& compiled, Diagnostics& diagnostics) {
  std::set<std::pair<size_t, std::string>> told;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (results[i].failure) std::rethrow_exception(results[i].failure);
    if (const auto* fault = std::get_if<KernelFault>(&results[i].result)) {
      // What is wrong for one architecture often is for all: told once.
      if (told.insert({jobs[i].kernel_index, fault->message}).second)
        report_fault(jobs[i], fault->message, sources, diagnostics);
      continue;
    }
    compiled.cache_hits += results[i].cache_hits;
    for (KernelCode& code : std::get<std::vector<KernelCode>>(results[i].result))
      compiled.variants[jobs[i].kernel_index].push_back(std::move(code));
  }
  for (std::vector<KernelCode>& variants : compiled.variants) {
    std::ranges::stable_partition(
        variants, [](const KernelCode& code) { return code.format != CodeFormat::Ptx; });
  }
  return !diagnostics.has_errors();
}

// Whether kernels of a target's programs are compiled with native halves. Targets whose code does
// not know them share records with the first one that does.
bool has_native_halves(const Target& target, std::span<const TargetProgram> programs) {
  if (target.kind == TargetKind::Vulkan) return target.native_halves;
  const auto first = std::ranges::find_if(programs, [](const TargetProgram& program) {
    return program.target->kind == TargetKind::Vulkan;
  });
  return first != programs.end() && first->target->native_halves;
}

}  // namespace

KernelSet gather_kernels(std::span<const TargetProgram> programs) {
  KernelSet set;
  std::map<std::pair<Specialization, bool>, uint32_t> known;
  std::vector<std::unordered_set<std::string>> noted;  // nodes of the kernels
  for (const auto& [program, target] : programs) {
    set.targets = set.targets | set_of(target->kind);
    std::vector<std::optional<uint32_t>>& indices = set.index_of_instance.emplace_back();
    indices.resize(program->kernels.size());
    const bool halves = has_native_halves(*target, programs);
    for_each_kernel(*program, [&, &owner = *program, kind = target->kind](KernelInstanceId instance,
                                                                          const Step& step) {
      std::optional<uint32_t>& index = indices[index_of(instance)];
      if (!index) {
        const Specialization& specialization = owner.kernels.at(index_of(instance));
        const auto [entry, added] =
            known.try_emplace({specialization, halves}, narrow<uint32_t>(set.kernels.size()));
        if (added) {
          set.kernels.push_back(
              {.specialization = specialization, .nodes = {}, .native_halves = halves});
        }
        if (added) noted.emplace_back();
        index = entry->second;
      }
      KernelSet::Kernel& kernel = set.kernels[*index];
      kernel.targets = kernel.targets | set_of(kind);
      std::string node = step.op + " \"" + step.node + "\"";
      if (noted[*index].insert(node).second) kernel.nodes.push_back(std::move(node));
    });
  }
  return set;
}

std::optional<CompiledKernels> compile_kernels(const KernelSet& set,
                                               const CompileKernelsOptions& options,
                                               Diagnostics& diagnostics) {
  const std::optional<KernelSources> sources =
      options.kernels_folder ? KernelSources::from_folder(*options.kernels_folder, diagnostics)
                             : KernelSources::embedded();
  if (!sources) return std::nullopt;
  std::optional<CodeCache> cache;
  if (options.cache_folder)
    cache = CodeCache::open(*options.cache_folder, options.cache_trust, diagnostics);
  Tools tools{.sources = *sources,
              .cache = cache ? &*cache : nullptr,
              .options = options,
              .nvrtc = nullptr,
              .architectures = {}};
  CompiledKernels compiled;
  std::unique_ptr<const Nvrtc> nvrtc;
  if (contains(set.targets, TargetKind::Cuda)) {
    nvrtc = Nvrtc::open(options.nvrtc, diagnostics);
    if (nvrtc == nullptr) return std::nullopt;
    tools.nvrtc = nvrtc.get();
    tools.architectures = pick_architectures(options, *nvrtc, diagnostics);
    if (diagnostics.has_errors()) return std::nullopt;
    compiled.cuda = cuda_target(tools);
  }
  std::optional<SharedDeclarations> declarations;
  if (contains(set.targets, TargetKind::Vulkan)) declarations.emplace();
  const std::vector<Job> jobs = list_jobs(set, tools);
  std::vector<JobResult> results = run_jobs(jobs, tools);
  compiled.variants.resize(set.kernels.size());
  if (!collect(jobs, results, *sources, compiled, diagnostics)) return std::nullopt;
  for (size_t k = 0; k < set.kernels.size(); ++k)
    report_local_memory(set.kernels[k], compiled.variants[k], *sources, diagnostics);
  return compiled;
}

}  // namespace rlx
