// SPDX-License-Identifier: Apache-2.0
// Kernel instances to cubins and PTX.
#include "compiler/emit/cuda_code.h"

#include <algorithm>
#include <map>

#include "compiler/emit/specialized_source.h"
#include "runtime/plan/cuda_code.h"
#include "runtime/plan/target_row.h"

namespace rlx {
namespace {

// Part of the key of cached code: raised whenever this file makes something else of the same
// inputs.
constexpr std::string_view kRecipe = "cuda recipe 1";

constexpr const SourceLanguage& kCudaLanguage = language_of(TargetKind::Cuda);
constexpr std::string_view kEntryPoint = "rlx_main";
constexpr std::string_view kSpillMarker = "// ptxas: spills because ";

bool has_clusters(uint32_t architecture) {
  return target_row(fb::TargetKind::Cuda).has_clusters(architecture);
}

// Contraction into fma is harmless wherever kernels allow it (lib/scalar.inc); the rest of
// arithmetic is IEEE's.
std::vector<std::string> options_for(const Nvrtc& nvrtc, const CudaArchitecture& architecture) {
  std::vector<std::string> options = {"--gpu-architecture=" + std::string(architecture.name),
                                      "--std=c++17",
                                      "--fmad=true",
                                      "--ftz=false",
                                      "--prec-div=true",
                                      "--prec-sqrt=true"};
  // Since CUDA 12.9 NVRTC has a cache of its own, outside of the folder that rlxc was given.
  // Kernels use none of what "minimal" (CUDA 12.4) leaves out, which takes 3 % of their time.
  if (nvrtc.major() > 12 || (nvrtc.major() == 12 && nvrtc.minor() >= 9)) {
    options.emplace_back("--no-cache");
    options.emplace_back("--minimal");
  }
  return options;
}

std::optional<KernelFault> check_facts(const CubinFacts& facts,
                                       const Specialization& specialization,
                                       const CudaArchitecture& architecture) {
  const uint32_t params = params_bytes(specialization);
  const auto maps = static_cast<uint32_t>(specialization.maps.size());
  if (!takes_arguments(facts, params, maps)) {
    return KernelFault{"takes " + std::to_string(facts.params_bytes) +
                       " bytes of params, but its row of schema/kernels.def names a struct of " +
                       std::to_string(params) + " and its lowering " + std::to_string(maps) +
                       " tensor maps"};
  }
  const Extent3& block = specialization.workgroup;
  const uint32_t threads = block.x * block.y * block.z;
  if (facts.max_threads != threads) {
    return KernelFault{"is bounded to " + std::to_string(facts.max_threads) +
                       " threads, but RLX_BLOCK_X, RLX_BLOCK_Y and RLX_BLOCK_Z say " +
                       std::to_string(threads)};
  }
  const uint64_t shared_bytes = uint64_t{facts.static_shared_bytes} + facts.dynamic_shared_bytes;
  if (shared_bytes > architecture.max_shared_bytes) {
    return KernelFault{"uses " + std::to_string(shared_bytes) + " bytes of shared memory, " +
                       std::string(architecture.name) + " has " +
                       std::to_string(architecture.max_shared_bytes)};
  }
  return std::nullopt;
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.c_str());
  return {first, first + text.size() + 1};  // with the zero byte that the driver wants
}

}  // namespace

std::variant<CudaCode, KernelFault> compile_cuda(const Nvrtc& nvrtc,
                                                 const Specialization& specialization,
                                                 const KernelSources& sources,
                                                 const CudaArchitecture& architecture) {
  const auto [path, kernel] = find_kernel_text(specialization, sources, kCudaLanguage);
  if (kernel == nullptr) return KernelFault{path + ": no such kernel source"};

  // A file that there is not stands as an #error: it may be in a part that #if leaves out.
  const std::string missing = "#error " + std::string(kNoSuchInclude) + "\n";
  const std::map<std::string, std::string> needed =
      needed_includes(*kernel, specialization, sources, kCudaLanguage);
  std::vector<Nvrtc::File> whole;
  std::vector<Nvrtc::File> includes;
  for (const IncludedFile& file : included_files(*kernel, specialization, sources, kCudaLanguage)) {
    whole.push_back({.name = file.name, .text = file.text == nullptr ? &missing : file.text});
    includes.push_back(whole.back());
    if (file.text != nullptr) includes.back().text = &needed.at(file.name);
  }
  const std::string text = define_lines(specialization) + "#line 1 \"" + path + "\"\n" + *kernel;
  const auto compile = [&](const std::vector<Nvrtc::File>& files) {
    return nvrtc.compile({.name = path, .text = &text}, files, options_for(nvrtc, architecture));
  };
  Nvrtc::Output output = compile(includes);
  // For the message of what is wrong, and for names that needed_functions.h does not see.
  if (!output.good) output = compile(whole);
  if (!output.good) return KernelFault{std::move(output.log)};

  std::string wrong = check_cubin(output.cubin, architecture.number);
  if (!wrong.empty()) return KernelFault{"the cubin " + wrong};
  const std::optional<CubinFacts> facts =
      read_cubin(output.cubin, kEntryPoint, architecture.number);
  if (!facts) return KernelFault{"has no RLX_MAIN"};
  if (auto fault = check_facts(*facts, specialization, architecture)) return *fault;

  CudaCode code;
  code.cubin = {
      .format = CodeFormat::Cubin,
      .architecture = architecture.number,
      .bytes = std::move(output.cubin),
      .entry_point = std::string(kEntryPoint),
      .workgroup = specialization.workgroup,
      .shared_bytes = facts->static_shared_bytes + facts->dynamic_shared_bytes,
      .dynamic_shared_bytes = facts->dynamic_shared_bytes,
      .cluster_x = has_clusters(architecture.number) ? facts->cluster_x : 1,
      .waits_for_predecessors = output.ptx.find("griddepcontrol.wait") != std::string::npos,
      .runs_together = facts->runs_together,
      .features = 0};
  code.ptx = code.cubin;
  code.ptx.format = CodeFormat::Ptx;
  code.ptx.bytes = bytes_of(output.ptx);
  return code;
}

std::optional<std::string> cuda_code_inputs(const Nvrtc& nvrtc,
                                            const Specialization& specialization,
                                            const KernelSources& sources,
                                            const CudaArchitecture& architecture) {
  const KernelText kernel = find_kernel_text(specialization, sources, kCudaLanguage);
  if (kernel.text == nullptr) return std::nullopt;
  std::string all = std::string(kRecipe) + "\nnvrtc " + nvrtc.version() + "\n";
  for (const std::string& option : options_for(nvrtc, architecture)) all += option + "\n";
  return all + source_inputs(kernel, specialization, sources, kCudaLanguage);
}

uint32_t unexplained_local_bytes(const KernelCode& cubin, const Specialization& specialization,
                                 const KernelSources& sources) {
  const std::optional<CubinFacts> facts =
      read_cubin(cubin.bytes, cubin.entry_point, cubin.architecture);
  const std::string* text = find_kernel_text(specialization, sources, kCudaLanguage).text;
  const bool explained = text != nullptr && text->find(kSpillMarker) != std::string::npos;
  return facts && !explained ? facts->local_bytes : 0;
}

}  // namespace rlx
