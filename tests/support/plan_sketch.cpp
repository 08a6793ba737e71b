// SPDX-License-Identifier: Apache-2.0
// Sketches to plan descriptions: GLSL compiled, PTX put together, lifetimes, sizes and relocations
// derived.
#include "tests/support/plan_sketch.h"

#include <algorithm>
#include <cstring>
#include <shaderc/shaderc.hpp>
#include <stdexcept>

#include "schema/features.h"
#include "schema/rounding.h"
#include "tests/support/catch.h"
#include "tests/support/cubin.h"

namespace rlx::test {
namespace {

constexpr uint64_t kFeatures =
    mask_of(Feature::BufferAddress) | mask_of(Feature::ScalarLayout) | mask_of(Feature::Int64);

std::vector<std::byte> compile(const SketchKernel& kernel) {
  std::string source =
      "#version 460\n"
      "#extension GL_EXT_buffer_reference : require\n"
      "#extension GL_EXT_scalar_block_layout : require\n"
      "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n"
      "layout(local_size_x = 64) in;\n"
      "layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32 { float v[]; };\n"
      "layout(push_constant, scalar) uniform Params {\n";
  for (size_t i = 0; i < kernel.pointers.size(); ++i) {
    source += std::string("uint64_t ") + static_cast<char>('a' + i) + ";\n";
  }
  if (kernel.counted) source += "uint count;\n";
  source += "} p;\nvoid main() { uint i = gl_GlobalInvocationID.x;\n" + kernel.body + "\n}\n";
  shaderc::CompileOptions options;
  options.SetTargetEnvironment(shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
  const auto result = shaderc::Compiler().CompileGlslToSpv(source, shaderc_compute_shader,
                                                           kernel.name.c_str(), options);
  if (result.GetCompilationStatus() != shaderc_compilation_status_success) {
    throw std::runtime_error(result.GetErrorMessage());
  }
  return {reinterpret_cast<const std::byte*>(result.cbegin()),
          reinterpret_cast<const std::byte*>(result.cend())};
}

// Programmatic launch exists from here on.
constexpr uint32_t kWaitingArchitecture = 90;

uint32_t params_bytes(const SketchKernel& kernel) {
  return static_cast<uint32_t>(8 * kernel.pointers.size() + (kernel.counted ? 8 : 0));
}

std::string ptx_text(const SketchKernel& kernel, uint32_t architecture) {
  std::string params;
  std::string loads;
  std::string stores;
  for (size_t k = 0; k < kernel.pointers.size(); ++k) {
    const std::string name(1, static_cast<char>('a' + k));
    loads += "  ld.param.u64 %p" + name + ", [params+" + std::to_string(8 * k) +
             "];\n  add.u64 %p" + name + ", %p" + name + ", %at;\n";
    if (kernel.pointers[k] != fb::AccessMode::Write)
      loads += "  ld.global.f32 %" + name + ", [%p" + name + "];\n";
    if (kernel.pointers[k] != fb::AccessMode::Read)
      stores += "  st.global.f32 [%p" + name + "], %" + name + ";\n";
  }
  const bool waits = architecture >= kWaitingArchitecture;
  return ".version " + std::string(waits ? "7.8" : "7.0") + "\n.target sm_" +
         std::to_string(architecture) + "\n.address_size 64\n" + ptx_contract_line() +
         ".visible .entry main(.param .align 8 .b8 params[" + std::to_string(params_bytes(kernel)) +
         "]) .reqntid 64, 1, 1 {\n"
         "  .reg .f32 %a, %b, %c, %d;\n"
         "  .reg .u64 %pa, %pb, %pc, %pd, %at;\n"
         "  .reg .u32 %i, %group, %count;\n"
         "  .reg .pred %outside;\n" +
         (waits ? "  griddepcontrol.launch_dependents;\n  griddepcontrol.wait;\n" : "") +
         "  mov.u32 %i, %tid.x;\n"
         "  mov.u32 %group, %ctaid.x;\n"
         "  mad.lo.u32 %i, %group, 64, %i;\n" +
         (kernel.counted ? "  ld.param.u32 %count, [params+" +
                               std::to_string(8 * kernel.pointers.size()) + "];\n"
                         : "  mov.u32 %count, " + std::to_string(kernel.elements) + ";\n") +
         "  setp.ge.u32 %outside, %i, %count;\n"
         "  @%outside bra done;\n"
         "  mul.wide.u32 %at, %i, 4;\n" +
         loads + "  " + kernel.ptx + "\n" + stores + "done:\n  ret;\n}\n";
}

SpecVariant ptx_variant(const SketchKernel& kernel, uint32_t architecture) {
  const std::string text = ptx_text(kernel, architecture);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.c_str());
  return {.target = fb::TargetKind::Cuda,
          .format = fb::CodeFormat::Ptx,
          .architecture = architecture,
          .code = {bytes, bytes + text.size() + 1},  // with the zero at its end
          .waits_for_predecessors = architecture >= kWaitingArchitecture};
}

SpecKernel to_spec(const SketchKernel& kernel, uint32_t cuda_architecture) {
  SpecKernel spec{.name = kernel.name, .params_bytes = params_bytes(kernel)};
  for (uint32_t i = 0; i < kernel.pointers.size(); ++i) {
    spec.accesses.push_back(
        {.position = i * 8, .alignment = 4, .min_bytes = 4, .mode = kernel.pointers[i]});
    if (kernel.counted) {
      spec.accesses.back().min_bytes = 0;
      spec.counts.emplace_back(static_cast<uint32_t>(8 * kernel.pointers.size()), 1, 4, i * 8);
    }
  }
  spec.variants.push_back({.code = compile(kernel), .features = kFeatures});
  if (!kernel.ptx.empty()) spec.variants.push_back(ptx_variant(kernel, cuda_architecture));
  return spec;
}

// Arena values live from their first to their last use, all others throughout.
void set_lifetimes(const SketchEntry& entry, SpecEntry& spec) {
  for (uint32_t v = 0; v < spec.values.size(); ++v) {
    SpecValue& value = spec.values[v];
    value.last_step = static_cast<uint32_t>(entry.steps.size()) - 1;
    if (value.segment != fb::Segment::Arena) continue;
    value.first_step = value.last_step;
    value.last_step = 0;
    for (uint32_t s = 0; s < entry.steps.size(); ++s) {
      for (const SketchPointer& pointer : entry.steps[s].pointers) {
        if (pointer.value != v) continue;
        value.first_step = std::min(value.first_step, s);
        value.last_step = std::max(value.last_step, s);
      }
    }
  }
}

// Where the params of counted kernels stand, all else in their section being 0.
constexpr uint64_t kCountedParams = 128;

SpecStep to_spec(const SketchStep& step, const SketchEntry& entry,
                 const std::vector<SketchKernel>& kernels) {
  const bool dispatch = step.kind == fb::StepKind::Dispatch;
  SpecStep spec{.kind = step.kind,
                .kernel = step.kernel,
                .wave = step.wave,
                .fill_pattern = step.fill_pattern};
  if (dispatch) {
    spec.grid = {step.grid, 1, 1};
    spec.params_bytes = params_bytes(kernels[step.kernel]);
    if (kernels[step.kernel].counted) spec.params_offset = kCountedParams;
  }
  for (uint32_t i = 0; i < step.pointers.size(); ++i) {
    const SketchPointer& pointer = step.pointers[i];
    const uint64_t elements =
        pointer.elements != 0 ? pointer.elements : entry.values[pointer.value].elements;
    spec.relocations.push_back({.value = pointer.value,
                                .position = i * 8,
                                .offset_bytes = pointer.first_element * 4,
                                .length_bytes = elements * 4,
                                .mode = pointer.mode});
  }
  return spec;
}

SpecEntry to_spec(const SketchEntry& entry, const std::vector<SketchKernel>& kernels) {
  SpecEntry spec{.name = entry.name};
  for (uint32_t i = 0; i < entry.values.size(); ++i) {
    const SketchValue& value = entry.values[i];
    constexpr uint8_t kU32 = 8;
    const bool counts = value.segment == fb::Segment::IndexErrors;
    spec.values.push_back({.name = value.name,
                           .dtype = counts ? kU32 : uint8_t{0},
                           .dims = {value.elements},
                           .segment = value.segment,
                           .offset_bytes = value.offset_bytes,
                           .size_bytes = value.elements * uint64_t{4}});
    if (value.role == Role::Input) spec.inputs.push_back(i);
    if (value.role == Role::Output) spec.outputs.push_back(i);
    if (value.segment == fb::Segment::Arena) {
      spec.arena_bytes = std::max(
          spec.arena_bytes,
          round_up(value.offset_bytes + value.elements * uint64_t{4}, kArenaAlignmentBytes));
    }
  }
  set_lifetimes(entry, spec);
  for (const SketchStep& step : entry.steps) {
    SpecStep& added = spec.steps.emplace_back(to_spec(step, entry, kernels));
    for (uint32_t earlier = 0; earlier + 1 < spec.steps.size(); ++earlier) {
      if (spec.steps[earlier].wave < added.wave) added.edges.push_back(earlier);
    }
  }
  return spec;
}

void add_weight(const SketchWeight& weight, PlanSpec& spec) {
  const uint64_t size_bytes = weight.data.size() * 4;
  spec.weights.push_back(
      {.name = weight.name,
       .dims = {weight.data.size()},
       .kind = weight.generated ? fb::WeightKind::Generated : fb::WeightKind::Inline,
       .offset_bytes = weight.offset_bytes,
       .size_bytes = size_bytes});
  const uint64_t end = weight.offset_bytes + size_bytes;
  spec.weights_bytes = std::max(spec.weights_bytes, round_up(end, kArenaAlignmentBytes));
  if (weight.generated) return;
  spec.weight_bytes.resize(std::max<uint64_t>(spec.weight_bytes.size(), end));
  std::memcpy(spec.weight_bytes.data() + weight.offset_bytes, weight.data.data(), size_bytes);
}

void add_state(const SketchState& state, PlanSpec& spec) {
  const uint64_t size_bytes = state.elements * uint64_t{4};
  spec.states.push_back({.name = state.name,
                         .dims = {state.elements},
                         .offset_bytes = state.offset_bytes,
                         .size_bytes = size_bytes,
                         .init = state.init});
  if (state.init == fb::StateInit::Weight) spec.states.back().init_weight = state.init_weight;
  spec.state_bytes =
      std::max(spec.state_bytes, round_up(state.offset_bytes + size_bytes, kArenaAlignmentBytes));
}

}  // namespace

PlanSpec to_spec(const PlanSketch& sketch) {
  PlanSpec spec;
  spec.name = sketch.name;
  for (const SketchWeight& weight : sketch.weights) add_weight(weight, spec);
  for (const SketchState& state : sketch.states) add_state(state, spec);
  for (const SketchKernel& kernel : sketch.kernels)
    spec.kernels.push_back(to_spec(kernel, sketch.cuda_architecture));
  if (std::all_of(sketch.kernels.begin(), sketch.kernels.end(),
                  [](const SketchKernel& kernel) { return !kernel.ptx.empty(); })) {
    spec.cuda = {.present = 1,
                 .ptx_architecture = sketch.cuda_architecture,
                 .minimum_driver = 12030,
                 .architecture_count = 0,
                 .architectures = {}};
  }
  for (const SketchEntry& entry : sketch.entries)
    spec.entries.push_back(to_spec(entry, sketch.kernels));
  if (!sketch.init.empty()) spec.init = to_spec(sketch.init[0], sketch.kernels);
  spec.params.resize(2 * kCountedParams);  // zero but for counts: the rest of them are pointers
  for (const SketchKernel& kernel : sketch.kernels) {
    if (!kernel.counted) continue;
    std::memcpy(spec.params.data() + kCountedParams + 8 * kernel.pointers.size(), &kernel.elements,
                sizeof kernel.elements);
  }
  spec.vulkan = {.present = 1,
                 .api_version = 1u << 22 | 2u << 12,
                 .features = kFeatures | sketch.extra_features,
                 .max_workgroup_invocations = kSketchWorkgroup,
                 .max_shared_bytes = sketch.max_shared_bytes,
                 .max_params_bytes = 128,
                 .max_grid = {65535, 65535, 65535}};
  return spec;
}

std::shared_ptr<const PlanView> open_spec(const PlanSpec& spec) {
  std::shared_ptr<const PlanView> view;
  const Status status =
      PlanView::open_memory(serialise(spec), {.check_weights = true, .copy_memory = true}, view);
  INFO(status.message());
  REQUIRE(status.ok());
  return view;
}

std::shared_ptr<const PlanView> open_plan(const PlanSketch& sketch) {
  return open_spec(to_spec(sketch));
}

}  // namespace rlx::test
