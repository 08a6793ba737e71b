// SPDX-License-Identifier: Apache-2.0
// Kernel instances to SPIR-V.
#include "compiler/emit/vulkan_code.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <shaderc/shaderc.hpp>
#include <spirv-tools/libspirv.hpp>
#include <spirv-tools/optimizer.hpp>

#include "compiler/emit/specialized_source.h"
#include "compiler/emit/spirv_matrices.h"
#include "compiler/emit/spirv_module.h"
#include "compiler/ops/lowering/scalar_cost.h"
#include "compiler/support/check.h"
#include "schema/features.h"
#include "schema/kernel_params.h"

namespace rlx {
namespace {

// Part of the key of cached code: raised whenever this file makes something else of the same
// inputs.
constexpr std::string_view kRecipe = "vulkan 1.2 spir-v 1.5 recipe 5";

constexpr const SourceLanguage& kGlsl = language_of(TargetKind::Vulkan);
constexpr spv_target_env kEnvironment = SPV_ENV_VULKAN_1_2;

// Texts as `needed` has them, others as they are.
class Includer final : public shaderc::CompileOptions::IncluderInterface {
 public:
  Includer(const Specialization& specialization, const KernelSources& sources,
           const std::map<std::string, std::string>& needed)
      : specialization_(&specialization), sources_(&sources), needed_(&needed) {}

  shaderc_include_result* GetInclude(const char* requested, shaderc_include_type, const char*,
                                     size_t) override {
    auto result = std::make_unique<Result>();
    const auto found = needed_->find(requested);
    const std::string* text = found != needed_->end()
                                  ? &found->second
                                  : find_include(requested, *specialization_, *sources_, kGlsl);
    // shaderc's convention for a failure: an empty name, and the reason as content.
    result->name = text == nullptr ? "" : requested;
    result->text = text == nullptr ? std::string(kNoSuchInclude) : *text;
    result->source_name = result->name.data();
    result->source_name_length = result->name.size();
    result->content = result->text.data();
    result->content_length = result->text.size();
    return result.release();
  }
  void ReleaseInclude(shaderc_include_result* result) override {
    delete static_cast<Result*>(result);
  }

 private:
  struct Result : shaderc_include_result {
    std::string name;
    std::string text;
  };
  const Specialization* specialization_;
  const KernelSources* sources_;
  const std::map<std::string, std::string>* needed_;
};

shaderc::CompileOptions make_options(const Specialization& specialization,
                                     const KernelSources& sources,
                                     const std::map<std::string, std::string>& needed) {
  shaderc::CompileOptions options;
  options.SetSourceLanguage(shaderc_source_language_glsl);
  options.SetTargetEnvironment(shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
  options.SetTargetSpirv(shaderc_spirv_version_1_5);
  // The optimiser runs after float controls are declared, so that it respects them.
  options.SetOptimizationLevel(shaderc_optimization_level_zero);
  options.SetIncluder(std::make_unique<Includer>(specialization, sources, needed));
  return options;
}

// What stands before every kernel's text. The specialization's macros follow, which may have 64-bit
// literals; the other extensions are lib/prelude.inc's.
constexpr std::string_view kHeader =
    "#version 460\n"
    "#extension GL_GOOGLE_include_directive : require\n"
    "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n";

// The whole text that shaderc compiles.
std::string glsl_text(const std::string& kernel, const Specialization& specialization,
                      const KernelCodeOptions& options) {
  std::string text(kHeader);
  if (options.native_halves) text += "#define RLX_NATIVE_HALVES 1\n";
  return text + define_lines(specialization) + "#line 1\n" + kernel;
}

// Collects what SPIRV-Tools says.
spvtools::MessageConsumer collect_into(std::string& text) {
  return [&text](spv_message_level_t level, const char*, const spv_position_t& position,
                 const char* message) {
    if (level > SPV_MSG_WARNING) return;
    text += "word " + std::to_string(position.index) + ": " + message + "\n";
  };
}

std::optional<KernelFault> optimize(std::vector<uint32_t>& words,
                                    const KernelCodeOptions& options) {
  std::string messages;
  spvtools::Optimizer optimizer(kEnvironment);
  optimizer.SetMessageConsumer(collect_into(messages));
  if (options.optimize) optimizer.RegisterPerformancePasses();
  optimizer.RegisterPass(spvtools::CreateStripDebugInfoPass());
  optimizer.RegisterPass(spvtools::CreateCompactIdsPass());
  spvtools::OptimizerOptions settings;
  settings.set_run_validator(false);  // validate() does, with scalar layout
  std::vector<uint32_t> result;
  if (!optimizer.Run(words.data(), words.size(), &result, settings)) {
    return KernelFault{"SPIR-V optimiser: " + messages};
  }
  words = std::move(result);
  return std::nullopt;
}

std::optional<KernelFault> validate(const std::vector<uint32_t>& words) {
  std::string messages;
  spvtools::SpirvTools tools(kEnvironment);
  tools.SetMessageConsumer(collect_into(messages));
  spvtools::ValidatorOptions settings;
  settings.SetScalarBlockLayout(true);
  if (tools.Validate(words.data(), words.size(), settings)) return std::nullopt;
  return KernelFault{"SPIR-V validator: " + messages};
}

std::optional<KernelFault> optimize_and_validate(std::vector<uint32_t>& words,
                                                 const KernelCodeOptions& options) {
  if (auto fault = optimize(words, options)) return fault;
  if (options.native_halves) words = with_half_controls(words);
  return validate(words);
}

// As compiled where the optimiser makes what is not valid: SPIRV-Tools 2025 turns a known value of
// 8 bits that is stored into a constant, which needs Int8 where the store does not.
std::optional<KernelFault> finish(std::vector<uint32_t>& words, const KernelCodeOptions& options) {
  std::vector<uint32_t> optimized = words;
  auto fault = optimize_and_validate(optimized, options);
  if (!fault) {
    words = std::move(optimized);
    return std::nullopt;
  }
  KernelCodeOptions as_compiled = options;
  as_compiled.optimize = false;
  return optimize_and_validate(words, as_compiled) ? fault : std::nullopt;
}

// RLX_MATRIX, f16 or bf16, of kernels with cooperative matrices.
MatrixElement matrix_element(const Specialization& specialization) {
  const auto define = specialization.defines.find("RLX_MATRIX");
  const bool is_bf16 = define != specialization.defines.end() && define->second == "bf16";
  return is_bf16 ? MatrixElement::Bf16 : MatrixElement::F16;
}

// Code with cooperative matrices counts on one size, other code on none.
uint32_t subgroup_size(const ModuleFacts& facts) {
  return (facts.features & mask_of(Feature::CooperativeMatrix)) != 0 ? uint32_t{RLX_MATRIX_SUBGROUP}
                                                                     : 0;
}

std::optional<KernelFault> check_facts(const ModuleFacts& facts,
                                       const Specialization& specialization) {
  if (!facts.unknown_capabilities.empty()) {
    return KernelFault{"needs SPIR-V capability " +
                       std::to_string(facts.unknown_capabilities.front()) +
                       ", for which schema/features.def has no row"};
  }
  if (facts.params_bytes != 0 && facts.params_bytes != params_bytes(specialization)) {
    return KernelFault{
        "reads " + std::to_string(facts.params_bytes) + " bytes of params, but its row of " +
        "schema/kernels.def names a struct of " + std::to_string(params_bytes(specialization))};
  }
  if (facts.workgroup != specialization.workgroup) {
    return KernelFault{
        "declares another workgroup than RLX_BLOCK_X, RLX_BLOCK_Y and RLX_BLOCK_Z say"};
  }
  return std::nullopt;
}

}  // namespace

// Of glslang, which shaderc starts with the first compiler alive and ends with the last.
struct SharedDeclarations::Holder {
  shaderc::Compiler compiler;
};
SharedDeclarations::SharedDeclarations() : holder_(std::make_unique<Holder>()) {}
SharedDeclarations::~SharedDeclarations() = default;

KernelResult compile_vulkan(const Specialization& specialization, const KernelSources& sources,
                            const KernelCodeOptions& options) {
  const auto [path, kernel] = find_kernel_text(specialization, sources, kGlsl);
  if (kernel == nullptr) return KernelFault{path + ": no such kernel source"};

  const std::string text = glsl_text(*kernel, specialization, options);
  const shaderc::Compiler compiler;
  const auto compile = [&, &source_path = path](const std::map<std::string, std::string>& needed) {
    return compiler.CompileGlslToSpv(text.data(), text.size(), shaderc_compute_shader,
                                     source_path.c_str(), "main",
                                     make_options(specialization, sources, needed));
  };
  shaderc::SpvCompilationResult compiled =
      compile(needed_includes(*kernel, specialization, sources, kGlsl));
  // For the message of what is wrong, and for names that needed_functions.h does not see.
  if (compiled.GetCompilationStatus() != shaderc_compilation_status_success) compiled = compile({});
  if (compiled.GetCompilationStatus() != shaderc_compilation_status_success) {
    return KernelFault{compiled.GetErrorMessage()};
  }
  std::vector<uint32_t> words(compiled.cbegin(), compiled.cend());
  if (options.float_controls) words = with_float_controls(words);
  if (specialization.defines.contains("RLX_CALLS")) words = with_calls(words, big_functions());
  if (auto fault = finish(words, options)) return *fault;
  // Behind the validator, which does not know this form yet.
  auto matrices = with_khr_matrices(words, matrix_element(specialization));
  if (auto* why = std::get_if<std::string>(&matrices)) return KernelFault{path + " " + *why};
  words = std::get<std::vector<uint32_t>>(std::move(matrices));
  ModuleFacts facts = reflect_spirv(words);
  if (auto fault = check_facts(facts, specialization)) return *fault;

  KernelCode code{.bytes = std::vector<std::byte>(words.size() * sizeof(uint32_t)),
                  .entry_point = std::move(facts.entry_point),
                  .workgroup = facts.workgroup,
                  .shared_bytes = facts.shared_bytes,
                  .features = facts.features,
                  .subgroup_size = subgroup_size(facts)};
  std::memcpy(code.bytes.data(), words.data(), code.bytes.size());
  return code;
}

std::optional<std::string> vulkan_code_inputs(const Specialization& specialization,
                                              const KernelSources& sources,
                                              const KernelCodeOptions& options) {
  const KernelText kernel = find_kernel_text(specialization, sources, kGlsl);
  if (kernel.text == nullptr) return std::nullopt;
  std::string all(kRecipe);
  all += "\nshaderc " RLX_SHADERC_VERSION "\n";
  all += spvSoftwareVersionDetailsString();
  all += "\nfloat_controls " + std::to_string(options.float_controls ? 1 : 0) + " optimize " +
         std::to_string(options.optimize ? 1 : 0) + " native_halves " +
         std::to_string(options.native_halves ? 1 : 0) + "\n";
  all += source_inputs(kernel, specialization, sources, kGlsl);
  return all;
}

}  // namespace rlx
