// SPDX-License-Identifier: Apache-2.0
// Plans for tests.
#include "tests/support/plan_fixture.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "runtime/plan/contract.h"
#include "schema/debug_generated.h"
#include "schema/plan_regions.h"
#include "schema/rounding.h"
#include "tests/support/cubin.h"

namespace rlx::test {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

constexpr uint64_t kVectorBytes = 256;  // f32[64]

flatbuffers::Optional<uint32_t> optional_index(const std::optional<uint32_t>& index) {
  return index.has_value() ? flatbuffers::Optional<uint32_t>(*index) : flatbuffers::nullopt;
}

Offset<fb::Value> write_value(FlatBufferBuilder& builder, const SpecValue& value) {
  return fb::CreateValueDirect(builder, value.name.c_str(), value.dtype, &value.dims, value.segment,
                               value.offset_bytes, value.size_bytes, value.first_step,
                               value.last_step, optional_index(value.alias_of));
}

Offset<fb::Entry> write_entry(FlatBufferBuilder& builder, const PlanSpec& spec,
                              const SpecEntry& entry) {
  const uint32_t claimed =
      (spec.vulkan.present != 0 ? 1u : 0u) | (spec.cuda.present != 0 ? 2u : 0u);
  std::vector<Offset<fb::Value>> values;
  for (const SpecValue& value : entry.values) values.push_back(write_value(builder, value));
  std::vector<fb::Step> steps;
  std::vector<fb::Relocation> relocations;
  std::vector<uint32_t> edges;
  const auto record_of = [&](const SpecStep& step) -> fb::Step {
    const auto first_relocation = static_cast<uint32_t>(relocations.size());
    const auto first_edge = static_cast<uint32_t>(edges.size());
    for (const SpecRelocation& r : step.relocations) {
      relocations.emplace_back(r.value, r.position, r.offset_bytes, r.length_bytes, r.mode);
    }
    edges.insert(edges.end(), step.edges.begin(), step.edges.end());
    return {step.kind,
            step.kernel,
            step.grid[0],
            step.grid[1],
            step.grid[2],
            step.wave,
            step.params_offset,
            step.params_bytes,
            step.relocation_first.value_or(first_relocation),
            step.relocation_count.value_or(static_cast<uint32_t>(step.relocations.size())),
            first_edge,
            static_cast<uint32_t>(step.edges.size()),
            step.fill_pattern,
            0,
            0};
  };
  for (const SpecStep& step : entry.steps) steps.push_back(record_of(step));
  std::vector<Offset<fb::LibraryGemm>> gemms;
  for (const fb::LibraryGemmT& gemm : entry.gemms)
    gemms.push_back(fb::CreateLibraryGemm(builder, &gemm));
  std::vector<Offset<fb::Alternative>> alternatives;
  for (const SpecAlternative& alternative : entry.alternatives) {
    const fb::Step other = record_of(alternative.other);
    alternatives.push_back(fb::CreateAlternative(builder, alternative.step, &other));
  }
  std::vector<Offset<fb::Region>> regions;
  for (const SpecRegion& region : entry.regions) {
    regions.push_back(fb::CreateRegionDirect(builder, region.name.c_str(), region.first_step,
                                             region.step_count, region.most_trips,
                                             optional_index(region.word), region.counter));
  }
  std::vector<Offset<fb::Assertion>> assertions;
  for (const SpecAssertion& assertion : entry.assertions) {
    assertions.push_back(
        fb::CreateAssertionDirect(builder, assertion.word, assertion.text.c_str()));
  }
  const uint32_t waves = entry.steps.empty() ? 0 : entry.steps.back().wave + 1;
  return fb::CreateEntryDirect(
      builder, entry.name.c_str(), entry.targets.value_or(claimed), &entry.inputs, &entry.outputs,
      &values, &steps, &relocations, &edges, entry.wave_count.value_or(waves), entry.arena_bytes,
      entry.arena_lower_bound, &gemms, &alternatives, entry.sizes.empty() ? nullptr : &entry.sizes,
      entry.patches.empty() ? nullptr : &entry.patches,
      entry.ranges.empty() ? nullptr : &entry.ranges, optional_index(entry.profile),
      regions.empty() ? nullptr : &regions,
      entry.tuned_device.empty() ? nullptr : entry.tuned_device.c_str(),
      entry.tuned_driver.empty() ? nullptr : entry.tuned_driver.c_str(),
      assertions.empty() ? nullptr : &assertions, entry.forms.empty() ? nullptr : &entry.forms);
}

// Code blobs one behind the other, equal ones once.
class CodeSection {
 public:
  uint64_t place(const std::vector<std::byte>& code) {
    const auto [piece, added] = pieces_.try_emplace(code, round_up(bytes_.size(), 256));
    if (added) {
      bytes_.resize(piece->second);
      bytes_.insert(bytes_.end(), code.begin(), code.end());
    }
    return piece->second;
  }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::map<std::vector<std::byte>, uint64_t> pieces_;
  std::vector<std::byte> bytes_;
};

// The kernel with these codes at these offsets.
Offset<fb::Kernel> write_record(FlatBufferBuilder& builder, const SpecKernel& kernel,
                                const std::vector<std::vector<std::byte>>& codes,
                                const std::vector<uint64_t>& offsets) {
  std::vector<fb::KernelAccess> accesses;
  for (const SpecAccess& access : kernel.accesses) {
    accesses.emplace_back(access.position, access.alignment, access.min_bytes, access.mode);
  }
  std::vector<Offset<fb::Variant>> variants;
  for (size_t i = 0; i < kernel.variants.size(); ++i) {
    const SpecVariant& variant = kernel.variants[i];
    variants.push_back(fb::CreateVariantDirect(
        builder, variant.target, variant.format, variant.architecture,
        variant.code_offset.value_or(offsets[i]), variant.code_bytes.value_or(codes[i].size()),
        variant.code_hash.value_or(XXH3_64bits(codes[i].data(), codes[i].size())),
        variant.entry_point.c_str(), variant.workgroup[0], variant.workgroup[1],
        variant.workgroup[2], 0, variant.shared_bytes, variant.features,
        variant.dynamic_shared_bytes, variant.cluster_x, variant.waits_for_predecessors,
        variant.runs_together));
  }
  std::vector<Offset<fb::TensorMap>> maps;
  for (const fb::TensorMapT& map : kernel.maps) maps.push_back(fb::CreateTensorMap(builder, &map));
  return fb::CreateKernelDirect(builder, kernel.name.c_str(), kernel.params_bytes, &accesses,
                                &variants, nullptr, false, &maps, &kernel.counts,
                                &kernel.plain_words, &kernel.addends,
                                kernel.sizes.empty() ? nullptr : &kernel.sizes,
                                kernel.reaches.empty() ? nullptr : &kernel.reaches);
}

}  // namespace

std::vector<std::vector<std::byte>> codes_in_plan(const SpecKernel& kernel) {
  std::vector<std::vector<std::byte>> codes;
  for (const SpecVariant& variant : kernel.variants) codes.push_back(variant.code);
  FlatBufferBuilder draft;
  draft.Finish(write_record(draft, kernel, codes, std::vector<uint64_t>(codes.size())));
  const auto& record = *flatbuffers::GetRoot<fb::Kernel>(draft.GetBufferPointer());
  const KernelContract contract(record);
  for (uint32_t i = 0; i < codes.size(); ++i) {
    if (!kernel.variants[i].names_contract) continue;
    const fb::Variant& variant = *record.variants()->Get(i);
    if (auto code = with_contract(variant.format(), codes[i], contract.of(variant)))
      codes[i] = std::move(*code);
  }
  return codes;
}

namespace {

Offset<fb::Kernel> write_kernel(FlatBufferBuilder& builder, const SpecKernel& kernel,
                                CodeSection& code) {
  const std::vector<std::vector<std::byte>> codes = codes_in_plan(kernel);
  std::vector<uint64_t> offsets;
  for (const std::vector<std::byte>& piece : codes) offsets.push_back(code.place(piece));
  return write_record(builder, kernel, codes, offsets);
}

std::vector<std::byte> finished(const FlatBufferBuilder& builder) {
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {data, data + builder.GetSize()};
}

std::vector<std::byte> write_index(const PlanSpec& spec, CodeSection& code) {
  FlatBufferBuilder builder;
  builder.ForceDefaults(spec.stores_defaults);
  std::vector<Offset<fb::Symbol>> symbols;
  for (const SpecSymbol& symbol : spec.symbols) {
    const auto bound = symbol.bound.has_value() ? flatbuffers::Optional<uint64_t>(*symbol.bound)
                                                : flatbuffers::nullopt;
    symbols.push_back(fb::CreateSymbolDirect(builder, symbol.name.c_str(), symbol.minimum,
                                             symbol.maximum, symbol.multiple_of, bound));
  }
  std::vector<Offset<fb::Weight>> weights;
  for (const SpecWeight& weight : spec.weights) {
    weights.push_back(fb::CreateWeightDirect(builder, weight.name.c_str(), weight.dtype,
                                             &weight.dims, weight.kind, weight.offset_bytes,
                                             weight.size_bytes, weight.file, weight.file_offset));
  }
  std::vector<Offset<fb::WeightFile>> weight_files;
  for (const SpecWeightFile& file : spec.weight_files) {
    weight_files.push_back(fb::CreateWeightFileDirect(builder, file.name.c_str(), file.size_bytes,
                                                      file.checksum, file.start_checksum));
  }
  std::vector<Offset<fb::State>> states;
  for (const SpecState& state : spec.states) {
    states.push_back(fb::CreateStateDirect(builder, state.name.c_str(), state.dtype, &state.dims,
                                           state.offset_bytes, state.size_bytes, state.init,
                                           optional_index(state.init_weight)));
  }
  std::vector<Offset<fb::Kernel>> kernels;
  for (const SpecKernel& kernel : spec.kernels)
    kernels.push_back(write_kernel(builder, kernel, code));
  std::vector<Offset<fb::Entry>> entries;
  for (const SpecEntry& entry : spec.entries) entries.push_back(write_entry(builder, spec, entry));
  std::vector<Offset<fb::Entry>> inits;
  if (spec.init.has_value()) inits.push_back(write_entry(builder, spec, *spec.init));
  for (const SpecEntry& init : spec.more_inits) inits.push_back(write_entry(builder, spec, init));
  fb::FinishPlanBuffer(
      builder, fb::CreatePlanDirect(builder, spec.name.c_str(), "fixture 1", "f32", &symbols,
                                    &weights, &states, &kernels, &entries, &inits,
                                    weight_files.empty() ? nullptr : &weight_files));
  return finished(builder);
}

std::vector<std::byte> write_debug(const PlanSpec& spec) {
  FlatBufferBuilder builder;
  std::vector<Offset<fb::EntryNotes>> entries;
  flatbuffers::Optional<uint32_t> choice;
  if (!spec.offers.empty()) choice = spec.choice;
  const auto add_notes = [&](const SpecEntry& entry) {
    std::vector<Offset<fb::StepNote>> notes;
    for (size_t s = 0; s < entry.steps.size(); ++s) {
      const std::string node = entry.name + ".node" + std::to_string(s);
      notes.push_back(fb::CreateStepNoteDirect(builder, node.c_str(), "add", "fixture",
                                               spec.note_reason.c_str(), choice));
    }
    entries.push_back(fb::CreateEntryNotesDirect(builder, &notes));
  };
  for (const SpecEntry& entry : spec.entries) add_notes(entry);
  if (spec.init.has_value()) add_notes(*spec.init);
  for (const SpecEntry& init : spec.more_inits) add_notes(init);
  std::vector<Offset<fb::Offer>> offers;
  for (const SpecOffer& offer : spec.offers) {
    offers.push_back(fb::CreateOfferDirect(
        builder, offer.kernel.c_str(), offer.refusal.empty() ? nullptr : offer.refusal.c_str(),
        offer.microseconds, offer.is_bound, offer.rank, offer.taken));
  }
  std::vector<Offset<fb::Choice>> choices;
  if (!offers.empty()) choices.push_back(fb::CreateChoiceDirect(builder, &offers));
  fb::FinishDebugBuffer(builder,
                        fb::CreateDebugDirect(builder, &entries, nullptr, nullptr, &choices));
  return finished(builder);
}

void add_section(std::vector<std::byte>& plan, PlanHeader& header, SectionKind kind,
                 uint64_t alignment, std::span<const std::byte> bytes) {
  plan.resize(round_up(plan.size(), alignment));
  const bool may_be_skipped = kind == SectionKind::Debug || kind == SectionKind::Text;
  header.sections[header.section_count++] = {.kind = static_cast<uint32_t>(kind),
                                             .flags = may_be_skipped ? 0 : kSectionCritical,
                                             .offset_bytes = plan.size(),
                                             .size_bytes = bytes.size()};
  plan.insert(plan.end(), bytes.begin(), bytes.end());
}

uint64_t io_bytes_of(const SpecEntry& entry) {
  uint64_t bytes = 0;
  for (const SpecValue& value : entry.values) {
    if (value.segment == fb::Segment::Io) bytes += round_up(value.size_bytes, kArenaAlignmentBytes);
  }
  return bytes;
}

SpecValue vector_value(const std::string& name, fb::Segment segment, uint64_t offset,
                       uint32_t first, uint32_t last) {
  return {.name = name,
          .dims = {64},
          .segment = segment,
          .offset_bytes = offset,
          .size_bytes = kVectorBytes,
          .first_step = first,
          .last_step = last};
}

SpecStep copy_step(uint32_t from, uint32_t to, uint32_t wave, std::vector<uint32_t> edges) {
  return {
      .kind = fb::StepKind::Copy,
      .wave = wave,
      .relocations = {{.value = from, .length_bytes = kVectorBytes, .mode = fb::AccessMode::Read},
                      {.value = to,
                       .position = 8,
                       .length_bytes = kVectorBytes,
                       .mode = fb::AccessMode::Write}},
      .edges = std::move(edges)};
}

SpecStep fill_step(uint32_t to, uint64_t bytes, uint32_t wave, uint32_t pattern) {
  return {.kind = fb::StepKind::Fill,
          .wave = wave,
          .relocations = {{.value = to, .length_bytes = bytes, .mode = fb::AccessMode::Write}},
          .fill_pattern = pattern};
}

// y = f(a, b) by kernel 0.
SpecStep binary_step(uint32_t y, uint32_t a, uint32_t b, uint32_t wave,
                     std::vector<uint32_t> edges) {
  return {
      .wave = wave,
      .params_bytes = 24,
      .relocations =
          {{.value = y, .position = 0, .length_bytes = kVectorBytes, .mode = fb::AccessMode::Write},
           {.value = a, .position = 8, .length_bytes = kVectorBytes, .mode = fb::AccessMode::Read},
           {.value = b,
            .position = 16,
            .length_bytes = kVectorBytes,
            .mode = fb::AccessMode::Read}},
      .edges = std::move(edges)};
}

constexpr uint64_t kInt64Feature = 1u << 4;

SpecKernel binary_kernel() {
  return {.name = "region",
          .params_bytes = 24,
          .accesses = {{.position = 0, .min_bytes = kVectorBytes, .mode = fb::AccessMode::Write},
                       {.position = 8, .min_bytes = kVectorBytes, .mode = fb::AccessMode::Read},
                       {.position = 16, .min_bytes = kVectorBytes, .mode = fb::AccessMode::Read}},
          .variants = {{.code = empty_kernel(), .features = kInt64Feature}}};
}

PlanVulkanTarget small_target() {
  return {.present = 1,
          .api_version = 1u << 22 | 2u << 12,
          .features = kInt64Feature | 1u << 7 | 1u << 8,
          .max_workgroup_invocations = 128,
          .max_shared_bytes = 16384,
          .max_params_bytes = 128,
          .max_grid = {65535, 65535, 65535}};
}

void push_float(std::vector<std::byte>& bytes, float number) {
  const size_t at = bytes.size();
  bytes.resize(at + sizeof number);
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

}  // namespace

PlanSpec small_plan() {
  PlanSpec spec;
  spec.symbols = {{.name = "batch", .minimum = 1, .maximum = 8, .multiple_of = 1, .bound = 1}};
  spec.weights = {{.name = "w", .dims = {64}, .offset_bytes = 0, .size_bytes = kVectorBytes},
                  {.name = "v", .dims = {64}, .offset_bytes = 256, .size_bytes = kVectorBytes},
                  {.name = "g",
                   .dims = {64},
                   .kind = fb::WeightKind::Generated,
                   .offset_bytes = 512,
                   .size_bytes = kVectorBytes}};
  for (uint32_t i = 0; i < 128; ++i) push_float(spec.weight_bytes, static_cast<float>(i));
  spec.weights_bytes = 768;
  spec.states = {{.name = "kept",
                  .dims = {64},
                  .size_bytes = kVectorBytes,
                  .init = fb::StateInit::Weight,
                  .init_weight = 1}};
  spec.state_bytes = kVectorBytes;
  spec.kernels = {binary_kernel()};
  spec.params.resize(32);
  spec.vulkan = small_target();

  SpecEntry main{.name = "main",
                 .inputs = {0},
                 .outputs = {1, 2},
                 .arena_bytes = 512,
                 .arena_lower_bound = 512};
  main.values = {
      vector_value("x", fb::Segment::Io, 0, 0, 5),
      vector_value("y", fb::Segment::Io, 0, 0, 5),
      {.name = "z", .dims = {4}, .segment = fb::Segment::Io, .size_bytes = 16, .last_step = 5},
      vector_value("w", fb::Segment::Weights, 0, 0, 5),
      vector_value("g", fb::Segment::Weights, 512, 0, 5),
      vector_value("kept", fb::Segment::State, 0, 0, 5),
      vector_value("a", fb::Segment::Arena, 0, 0, 1),
      vector_value("b", fb::Segment::Arena, 256, 1, 2),
      vector_value("c", fb::Segment::Arena, 0, 2, 4)};
  main.steps = {copy_step(0, 6, 0, {}),       binary_step(7, 6, 3, 1, {0}),
                binary_step(8, 7, 4, 2, {1}), copy_step(8, 1, 3, {2}),
                copy_step(8, 5, 3, {2}),      fill_step(2, 16, 3, 0x3f800000)};
  SpecEntry echo{.name = "echo", .inputs = {0}, .outputs = {1}};
  echo.values = {vector_value("x", fb::Segment::Io, 0, 0, 0),
                 vector_value("y", fb::Segment::Io, 0, 0, 0)};
  echo.steps = {copy_step(0, 1, 0, {})};
  spec.entries = {main, echo};

  SpecEntry init{.name = "init"};
  init.values = {vector_value("g", fb::Segment::Weights, 512, 0, 0)};
  init.steps = {fill_step(0, kVectorBytes, 0, 0x40000000)};
  spec.init = init;
  return spec;
}

PlanSpec keeping_plan() {
  PlanSpec spec = small_plan();
  SpecEntry& echo = spec.entries[1];
  echo.values.push_back(spec.entries[0].values[5]);
  for (SpecValue& value : echo.values) value.last_step = 1;
  echo.steps.push_back(echo.steps[0]);
  echo.steps[0].relocations[0].value = 2;
  echo.steps[1].relocations[1].value = 2;
  echo.steps[1].wave = 1;
  echo.steps[1].edges = {0};
  return spec;
}

PlanSpec profiled_plan() {
  PlanSpec spec = small_plan();
  for (const auto& [name, type] :
       {std::pair{"vulkan", DeviceType::Any}, std::pair{"vulkan-cpu", DeviceType::Processor}}) {
    PlanProfile& profile = spec.profiles.emplace_back(
        PlanProfile{.name = {},
                    .target = static_cast<uint32_t>(fb::TargetKind::Vulkan),
                    .device_type = static_cast<uint32_t>(type),
                    .vulkan = spec.vulkan});
    std::strncpy(profile.name, name, sizeof profile.name - 1);
  }
  spec.more_inits = {*spec.init};
  const std::vector<SpecEntry> first = spec.entries;
  spec.entries.insert(spec.entries.end(), first.begin(), first.end());
  for (size_t e = 0; e < spec.entries.size(); ++e) spec.entries[e].profile = e / first.size();
  spec.init->profile = 0;
  spec.more_inits[0].profile = 1;
  return spec;
}

PlanSpec gemm_plan() {
  constexpr uint8_t kF16 = 1;
  constexpr uint8_t kU8 = 5;
  const auto tensor = [](const std::string& name, std::vector<uint64_t> dims, uint64_t bytes) {
    return SpecValue{.name = name,
                     .dtype = kF16,
                     .dims = std::move(dims),
                     .segment = fb::Segment::Io,
                     .size_bytes = bytes};
  };
  SpecEntry main{.name = "main",
                 .inputs = {0, 1, 2, 3},
                 .outputs = {4},
                 .values = {tensor("a", {16, 8}, 256),
                            tensor("b", {8, 32}, 512),
                            tensor("bias", {32}, 64),
                            tensor("residual", {16, 32}, 1024),
                            tensor("y", {16, 32}, 1024),
                            {.name = "workspace", .dtype = kU8, .dims = {512}, .size_bytes = 512}},
                 .arena_bytes = 512};
  fb::LibraryGemmT gemm;
  gemm.m = 16;
  gemm.n = 32;
  gemm.k = 8;
  gemm.a_dtype = gemm.b_dtype = gemm.y_dtype = kF16;
  gemm.epilogue = fb::GemmEpilogue::Bias;
  gemm.has_residual = true;
  gemm.a_pitch = 8;
  gemm.b_pitch = gemm.y_pitch = gemm.residual_pitch = 32;
  gemm.workspace_bytes = 512;
  main.gemms.push_back(gemm);
  SpecStep step{.kind = fb::StepKind::LibraryGemm};
  for (uint32_t i = 0; i < main.values.size(); ++i) {
    step.relocations.push_back({.value = i,
                                .position = 8 * i,
                                .length_bytes = main.values[i].size_bytes,
                                .mode = i < 4 ? fb::AccessMode::Read : fb::AccessMode::Write});
  }
  main.steps.push_back(std::move(step));
  PlanSpec spec;
  spec.cuda = {
      .present = 1, .ptx_architecture = 80, .minimum_driver = 12000, .architecture_count = 1};
  spec.cuda.architectures[0] = 90;
  spec.entries.push_back(std::move(main));
  return spec;
}

PlanSpec chain_plan(uint32_t steps) {
  PlanSpec spec;
  spec.weights = {{.name = "w", .dims = {64}, .size_bytes = kVectorBytes}};
  for (uint32_t i = 0; i < 64; ++i) push_float(spec.weight_bytes, 1);
  spec.weights_bytes = kVectorBytes;
  spec.kernels = {binary_kernel()};
  spec.params.resize(32);
  spec.vulkan = small_target();
  // Values: 0 x, 1 y, 2 w, then the output of every step but the last, in two slots by turns.
  SpecEntry main{
      .name = "main", .inputs = {0}, .outputs = {1}, .arena_bytes = 512, .arena_lower_bound = 512};
  main.values = {vector_value("x", fb::Segment::Io, 0, 0, steps - 1),
                 vector_value("y", fb::Segment::Io, 0, 0, steps - 1),
                 vector_value("w", fb::Segment::Weights, 0, 0, steps - 1)};
  for (uint32_t s = 0; s < steps; ++s) {
    const bool is_last = s + 1 == steps;
    const uint32_t from = s == 0 ? 0 : 2 + s;
    const uint32_t to = is_last ? 1 : 3 + s;
    if (!is_last) {
      main.values.push_back(vector_value(std::string("v").append(std::to_string(s)),
                                         fb::Segment::Arena, s % 2 * kVectorBytes, s, s + 1));
    }
    main.steps.push_back(binary_step(
        to, from, 2, s, s == 0 ? std::vector<uint32_t>{} : std::vector<uint32_t>{s - 1}));
  }
  spec.entries = {main};
  return spec;
}

PlanSpec region_plan() {
  constexpr uint8_t kU32 = 8;
  PlanSpec spec = chain_plan(4);
  SpecEntry& main = spec.entries[0];
  main.arena_bytes = main.arena_lower_bound = 1024;
  for (uint32_t v = 0; v < 3; ++v) main.values[v].last_step = 4;
  main.values[3] = vector_value("kept", fb::Segment::Arena, 0, 0, 4);
  main.values[4] = vector_value("inside", fb::Segment::Arena, kVectorBytes, 2, 3);
  const SpecValue word{.name = "word",
                       .dtype = kU32,
                       .dims = {1},
                       .offset_bytes = 512,
                       .size_bytes = 4,
                       .last_step = 4};
  main.values[5] = word;
  main.values.push_back(word);
  main.values[6].name = "counter";
  main.values[6].offset_bytes = 768;
  main.steps = {{.kind = fb::StepKind::Fill,
                 .relocations = {{.value = 5, .length_bytes = 4, .mode = fb::AccessMode::Write}},
                 .fill_pattern = 1},
                binary_step(3, 0, 2, 0, {}),
                binary_step(4, 3, 2, 1, {0, 1}),
                binary_step(3, 4, 2, 2, {2}),
                binary_step(1, 3, 2, 3, {3})};
  main.regions = {{.first_step = 2, .step_count = 2, .most_trips = 9, .word = 5, .counter = 6}};
  return spec;
}

void add_cuda(PlanSpec& spec) {
  spec.cuda = {
      .present = 1, .ptx_architecture = 80, .minimum_driver = 12000, .architecture_count = 1};
  spec.cuda.architectures[0] = 90;
  for (SpecKernel& kernel : spec.kernels) {
    kernel.variants.push_back({.target = fb::TargetKind::Cuda,
                               .format = fb::CodeFormat::Cubin,
                               .architecture = 90,
                               .code = make_cubin({.params_bytes = kernel.params_bytes})});
    kernel.variants.push_back({.target = fb::TargetKind::Cuda,
                               .format = fb::CodeFormat::Ptx,
                               .architecture = 80,
                               .code = make_ptx("sm_80", "main")});
  }
}

PlanSpec index_plan(uint32_t steps) {
  constexpr uint8_t kU32 = 8;
  PlanSpec spec = chain_plan(steps);
  SpecKernel& kernel = spec.kernels[0];
  kernel.params_bytes = 32;
  kernel.accesses.push_back(
      {.position = 24, .alignment = 4, .min_bytes = 4, .mode = fb::AccessMode::ReadWrite});
  kernel.variants[0].code = empty_kernel({.push_constant_words64 = 4});
  SpecEntry& main = spec.entries[0];
  for (uint32_t s = 0; s < steps; ++s) {
    const auto word = static_cast<uint32_t>(main.values.size());
    main.values.push_back({.name = std::string("word").append(std::to_string(s)),
                           .dtype = kU32,
                           .dims = {1},
                           .segment = fb::Segment::IndexErrors,
                           .offset_bytes = s * kIndexErrorBytes,
                           .size_bytes = kIndexErrorBytes,
                           .last_step = steps - 1});
    main.steps[s].params_bytes = 32;
    main.steps[s].relocations.push_back({.value = word,
                                         .position = 24,
                                         .length_bytes = kIndexErrorBytes,
                                         .mode = fb::AccessMode::ReadWrite});
  }
  return spec;
}

std::vector<std::byte> code_in_plan(const SpecKernel& kernel, size_t variant) {
  return codes_in_plan(kernel).at(variant);
}

std::vector<std::byte> serialise(const PlanSpec& spec) {
  CodeSection code;
  const std::vector<std::byte> index = write_index(spec, code);
  const std::vector<std::byte> debug = write_debug(spec);
  PlanHeader header{};
  std::memcpy(header.magic, kPlanMagic, sizeof kPlanMagic);
  header.major = kPlanMajor;
  const bool is_free = std::ranges::any_of(
      spec.entries, [](const SpecEntry& entry) { return !entry.patches.empty(); });
  const uint64_t regions = std::accumulate(
      spec.entries.begin(), spec.entries.end(), uint64_t{0},
      [](uint64_t count, const SpecEntry& entry) { return count + entry.regions.size(); });
  header.minor = regions > 0              ? kPlanMinorRegions
                 : !spec.profiles.empty() ? kPlanMinorProfiles
                 : is_free                ? kPlanMinorFree
                                          : kPlanMinorPlain;
  header.profile_count = static_cast<uint32_t>(spec.profiles.size());
  std::ranges::copy(spec.profiles, header.profiles);
  header.header_bytes = kPlanHeaderBytes;
  header.weights_bytes = spec.weights_bytes;
  header.state_bytes = spec.state_bytes;
  for (const SpecEntry& entry : spec.entries) {
    header.arena_bytes = std::max(header.arena_bytes, entry.arena_bytes);
    header.io_bytes = std::max(header.io_bytes, io_bytes_of(entry));
    for (const SpecValue& value : entry.values) {
      if (value.segment != fb::Segment::IndexErrors) continue;
      header.index_error_bytes =
          std::max(header.index_error_bytes, value.offset_bytes + value.size_bytes);
    }
  }
  if (spec.init.has_value())
    header.arena_bytes = std::max(header.arena_bytes, spec.init->arena_bytes);
  header.host_bytes = index.size() + spec.params.size() + code.bytes().size();
  std::strncpy(header.producer, "fixture 1", sizeof header.producer - 1);
  header.vulkan = spec.vulkan;
  header.cuda = spec.cuda;

  std::vector<std::byte> plan(kPlanHeaderBytes);
  add_section(plan, header, SectionKind::Index, 64, index);
  add_section(plan, header, SectionKind::Params, 16, spec.params);
  add_section(plan, header, SectionKind::Code, 256, code.bytes());
  if (spec.debug_notes) add_section(plan, header, SectionKind::Debug, 8, debug);
  add_section(plan, header, SectionKind::Weights, 4096, spec.weight_bytes);
  if (!spec.text.empty()) add_section(plan, header, SectionKind::Text, 8, spec.text);
  if (regions > 0) {
    const auto* count = reinterpret_cast<const std::byte*>(&regions);
    add_section(plan, header, static_cast<SectionKind>(kRegionsSection), 8,
                {count, count + sizeof regions});
    header.sections[header.section_count - 1].flags |= kSectionCritical;
  }
  header.file_bytes = plan.size();
  set_header(plan, header);
  reseal(plan);
  if (spec.edit_header) {
    PlanHeader edited = header_of(plan);
    spec.edit_header(edited);
    set_header(plan, edited);
    edited.header_checksum = 0;
    set_header(plan, edited);
    edited.header_checksum = XXH3_64bits(plan.data(), kPlanHeaderBytes);
    set_header(plan, edited);
  }
  return plan;
}

PlanHeader header_of(std::span<const std::byte> plan) {
  PlanHeader header;
  std::memcpy(&header, plan.data(), sizeof header);
  return header;
}

void set_header(std::vector<std::byte>& plan, const PlanHeader& header) {
  std::memcpy(plan.data(), &header, sizeof header);
}

void reseal(std::vector<std::byte>& plan) {
  PlanHeader header = header_of(plan);
  for (uint32_t i = 0; i < header.section_count && i < kPlanMaxSections; ++i) {
    PlanSection& section = header.sections[i];
    if (section.size_bytes > plan.size() || section.offset_bytes > plan.size() - section.size_bytes)
      continue;
    section.checksum = XXH3_64bits(plan.data() + section.offset_bytes, section.size_bytes);
  }
  header.header_checksum = 0;
  set_header(plan, header);
  header.header_checksum = XXH3_64bits(plan.data(), kPlanHeaderBytes);
  set_header(plan, header);
}

std::vector<std::byte> empty_kernel(const SpirvOptions& options) {
  constexpr uint32_t kVoid = 1, kFunctionType = 2, kMain = 3, kLabel = 4, kWord = 5, kBlock = 6,
                     kPointer = 7, kVariable = 8;
  std::vector<uint32_t> words = {0x07230203, options.version, 0, 9, 0};
  const auto instruction = [&](uint32_t opcode, const std::vector<uint32_t>& operands) {
    words.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | opcode);
    words.insert(words.end(), operands.begin(), operands.end());
  };
  for (const uint32_t capability : options.capabilities) instruction(17, {capability});
  instruction(14, {0, 1});                   // OpMemoryModel Logical GLSL450
  std::vector<uint32_t> entry = {5, kMain};  // GLCompute
  const size_t name_at = entry.size();
  entry.resize(name_at + options.entry_point.size() / 4 + 1);
  std::memcpy(entry.data() + name_at, options.entry_point.data(), options.entry_point.size());
  instruction(15, entry);
  instruction(16, {kMain, 17, options.local_size[0], options.local_size[1], options.local_size[2]});
  const uint32_t members = options.push_constant_words64;
  if (members > 0) instruction(71, {kBlock, 2});  // Block
  for (uint32_t i = 0; i < members; ++i) instruction(72, {kBlock, i, 35, i * 8});
  instruction(19, {kVoid});
  instruction(33, {kFunctionType, kVoid});
  if (members > 0) {
    instruction(21, {kWord, 64, 0});
    std::vector<uint32_t> block = {kBlock};
    block.insert(block.end(), members, kWord);
    instruction(30, block);
    instruction(32, {kPointer, 9, kBlock});
    instruction(59, {kPointer, kVariable, 9});
  }
  instruction(54, {kVoid, kMain, 0, kFunctionType});
  instruction(248, {kLabel});
  instruction(253, {});
  instruction(56, {});
  const auto* bytes = reinterpret_cast<const std::byte*>(words.data());
  return {bytes, bytes + words.size() * sizeof(uint32_t)};
}

}  // namespace rlx::test
