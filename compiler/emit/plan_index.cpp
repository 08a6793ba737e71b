// SPDX-License-Identifier: Apache-2.0
// Programs, schedules and kernel codes as plan.fbs tables.
#include "compiler/emit/plan_index.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compiler/dispatch/target_devices.h"
#include "compiler/emit/blob_section.h"
#include "compiler/emit/gemm_table.h"
#include "compiler/emit/kernel_params.h"
#include "compiler/emit/size_table.h"
#include "compiler/emit/specialized_source.h"
#include "compiler/emit/spirv_module.h"
#include "compiler/support/check.h"
#include "compiler/support/checked.h"
#include "runtime/plan/contract.h"
#include "runtime/plan/plan_view.h"
#include "runtime/plan/profiles.h"
#include "runtime/plan/target_row.h"
#include "schema/plan_generated.h"
#include "schema/rounding.h"
#include "schema/tensor_map.h"

namespace rlx {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
using flatbuffers::Vector;

constexpr uint64_t kParamsAlignmentBytes = 16;
constexpr uint64_t kCodeAlignmentBytes = 256;
constexpr uint32_t kVulkanApiVersion = (1u << 22) | (2u << 12);  // VK_MAKE_API_VERSION(0, 1, 2, 0)

// What a program without kernels needs.
constexpr PlanVulkanTarget kLeastVulkan = {
    .present = 1,
    .api_version = kVulkanApiVersion,
    .features = mask_of(Feature::BufferAddress) | mask_of(Feature::ScalarLayout),
    .max_workgroup_invocations = 1,
    .max_shared_bytes = 0,
    .max_params_bytes = 0,
    .max_grid = {1, 1, 1}};

std::vector<uint64_t> dims_of(const Shape& shape) {
  std::vector<uint64_t> dims;
  for (const Dim& dim : shape) dims.push_back(narrow<uint64_t>(dim.bound()));
  return dims;
}

// At the largest value of every symbol.
uint64_t bytes_at_bound(const Dim& bytes) {
  return narrow<uint64_t>(bytes.bound());
}

// Names that the compiler derived may have outgrown the format's limit: the end becomes a hash of
// the whole, at a whole UTF-8 character.
std::string plan_name(const std::string& name) {
  constexpr size_t kMaxNameBytes = 256;
  constexpr size_t kHashBytes = 17;
  if (name.size() <= kMaxNameBytes) return name;
  size_t kept = kMaxNameBytes - kHashBytes;
  while ((static_cast<unsigned char>(name[kept]) & 0xC0u) == 0x80u) --kept;
  std::array<char, kHashBytes + 1> hash{};
  std::snprintf(hash.data(), hash.size(), "~%016llx",
                static_cast<unsigned long long>(XXH3_64bits(name.data(), name.size())));
  return name.substr(0, kept) + hash.data();
}

std::optional<fb::PixelWindow> window_of(const TensorMap& map) {
  if (!map.window) return std::nullopt;
  const PixelWindow& window = *map.window;
  return fb::PixelWindow(window.begin_w, window.begin_h, window.end_w, window.end_h,
                         window.stride_w, window.stride_h);
}

fb::AccessMode mode_of(AccessMode mode) {
  return static_cast<fb::AccessMode>(mode);
}
fb::Segment segment_of(Segment segment) {
  return static_cast<fb::Segment>(segment);
}
static_assert(static_cast<int>(fb::Segment::IndexErrors) == static_cast<int>(Segment::IndexErrors));
static_assert(static_cast<int>(fb::AccessMode::ReadWrite) ==
              static_cast<int>(AccessMode::ReadWrite));
static_assert(static_cast<int>(fb::StepKind::LibraryGemm) ==
              static_cast<int>(StepKind::LibraryGemm));

// Where the code of a kernel's variants was put, and what it became there.
struct PlacedCode {
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;
  uint64_t hash = 0;
};

class IndexBuilder {
 public:
  IndexBuilder(const PlanContent& content, const SegmentLayout& layout)
      : content_(&content),
        layout_(&layout),
        pointers_(content.kernels->kernels.size()),
        profile_uses_(content.kernels->kernels.size(), 0) {}

  PlanIndex build();

 private:
  void gather_pointers();
  Offset<fb::Entry> entry(const PlanEntry& entry, size_t program);
  void find_profiles();
  [[nodiscard]] std::optional<uint32_t> profile_of(const Target& target) const;
  // Of SPIR-V of a kernel of the set.
  void note_limits(const KernelCode& code, size_t kernel);
  Offset<fb::Kernel> kernel(size_t index);
  Offset<fb::Kernel> kernel_table(FlatBufferBuilder& builder, size_t index,
                                  std::span<const PlacedCode> placed);
  std::vector<Offset<fb::Weight>> weights();
  std::vector<Offset<fb::State>> states();
  std::vector<Offset<fb::Symbol>> symbols();
  // The plan has no symbols that entries bind differently.
  [[nodiscard]] uint32_t symbol_in_plan(uint32_t symbol) const {
    const std::span<const Symbol> before(content_->module->symbols.data(), symbol);
    return narrow<uint32_t>(
        std::ranges::count_if(before, [](const Symbol& other) { return !other.differs; }));
  }
  [[nodiscard]] std::vector<fb::SizeTerm> in_plan(std::vector<fb::SizeTerm> terms) const {
    for (fb::SizeTerm& term : terms) {
      if (term.op() == fb::SizeOp::Symbol)
        term = fb::SizeTerm(term.value(), symbol_in_plan(term.a()), term.b(), term.op());
    }
    return terms;
  }
  Offset<Vector<Offset<fb::WeightFile>>> weight_files();
  friend class EntryBuilder;

  const PlanContent* content_;
  const SegmentLayout* layout_;
  std::vector<KernelPointers> pointers_;  // per kernel of the set
  std::vector<uint32_t> profile_uses_;    // per kernel of the set: the profiles that run it, a mask
  FlatBufferBuilder builder_;
  BlobSection params_{kParamsAlignmentBytes};
  BlobSection code_{kCodeAlignmentBytes};
  PlanIndex result_;
};

// Builds the tables of one entry: values of the buffers in use, then steps in the schedule's order.
class EntryBuilder {
 public:
  EntryBuilder(IndexBuilder& index, const PlanEntry& entry, size_t program)
      : index_(&index),
        program_(entry.program),
        schedule_(entry.schedule),
        target_(entry.target->kind),
        profile_(index.profile_of(*entry.target)),
        tuned_device_(entry.tuned_device),
        tuned_driver_(entry.tuned_driver),
        program_index_(program),
        value_of_(entry.program->buffers.size()),
        index_error_offsets_(entry.program->buffers.size(), 0) {}

  Offset<fb::Entry> build() {
    number_values();
    const std::vector<Offset<fb::Value>> values = build_values();
    for (uint32_t position = 0; position < schedule_->order.size(); ++position) add_step(position);
    for (const Dim& size : program_->requirements) sizes_.require(size);
    FlatBufferBuilder& builder = index_->builder_;
    const auto name = builder.CreateString(program_->entry);
    const auto inputs = builder.CreateVector(values_of(program_->inputs));
    const auto outputs = builder.CreateVector(values_of(program_->outputs));
    const auto value_list = builder.CreateVector(values);
    const auto step_list = builder.CreateVectorOfStructs(steps_);
    const auto relocation_list = builder.CreateVectorOfStructs(relocations_);
    const auto edge_list = builder.CreateVector(edges_);
    const auto gemm_list = builder.CreateVector(gemms_.build(builder));
    const auto alternative_list = builder.CreateVector(build_alternatives());
    const auto sizes =
        sizes_.empty() ? 0 : builder.CreateVectorOfStructs(index_->in_plan(sizes_.terms()));
    const auto patches = sizes_.empty() ? 0 : builder.CreateVectorOfStructs(sizes_.patches());
    const auto ranges =
        program_->ranges.empty() ? 0 : builder.CreateVectorOfStructs(build_ranges());
    const auto regions = schedule_->regions.empty() ? 0 : builder.CreateVector(build_regions());
    const auto text = [&](const std::string& known) {
      return known.empty() ? 0 : builder.CreateString(known);
    };
    const auto tuned_device = text(tuned_device_);
    const auto tuned_driver = text(tuned_driver_);
    const std::vector<Offset<fb::Assertion>> asserted = build_assertions();
    const auto assertions = asserted.empty() ? 0 : builder.CreateVector(asserted);
    const auto forms = forms_.empty() ? 0 : builder.CreateVectorOfStructs(forms_);
    index_->result_.has_free_sizes |= !sizes_.empty();
    index_->result_.region_count += schedule_->regions.size();
    return fb::CreateEntry(
        builder, name, 1u << static_cast<uint32_t>(target_), inputs, outputs, value_list, step_list,
        relocation_list, edge_list, schedule_->wave_count, schedule_->arena_bytes,
        schedule_->lower_bound_bytes, gemm_list, alternative_list, sizes, patches, ranges,
        profile_ ? flatbuffers::Optional<uint32_t>(*profile_) : flatbuffers::nullopt, regions,
        tuned_device, tuned_driver, assertions, forms);
  }

 private:
  // A record that may take the place of a step.
  struct Other {
    uint32_t position;
    fb::Step record;
  };
  struct Use {
    bool used = false;
    uint32_t first = 0;
    uint32_t last = 0;
  };

  // Buffers that a step accesses and all inputs and outputs become values, in the order of the
  // buffers.
  void number_values() {
    uses_.resize(program_->buffers.size());
    for (uint32_t position = 0; position < schedule_->order.size(); ++position) {
      for (const Access& access : program_->steps.at(schedule_->order[position]).accesses) {
        Use& use = uses_.at(index_of(access.buffer));
        if (!use.used) use.first = position;
        use.last = position;
        use.used = true;
      }
    }
    for (const StepRegion& region : schedule_->regions) stretch_uses(region);
    for (size_t b = 0; b < program_->buffers.size(); ++b) {
      if (uses_[b].used || program_->buffers[b].segment == Segment::Io)
        value_of_[b] = value_count_++;
    }
    place_index_errors();
  }

  // What lives into a region lives to its end; its words live as long as the entry.
  void stretch_uses(const StepRegion& region) {
    for (Use& use : uses_) {
      const bool is_apart = !use.used || use.last < region.first_step || use.first >= region.end();
      if (is_apart || (region.holds(use.first) && region.holds(use.last))) continue;
      use.first = std::min(use.first, region.first_step);
      use.last = std::max(use.last, region.end() - 1);
    }
    for (const std::optional<BufferId>& word : {region.word, std::optional(region.counter)}) {
      if (word)
        uses_.at(index_of(*word)) = {
            .used = true, .first = 0, .last = narrow<uint32_t>(schedule_->order.size()) - 1};
    }
  }

  std::vector<Offset<fb::Region>> build_regions() {
    std::vector<Offset<fb::Region>> tables;
    for (const StepRegion& region : schedule_->regions) {
      const auto name = index_->builder_.CreateString(plan_name(region.name));
      flatbuffers::Optional<uint32_t> word = flatbuffers::nullopt;
      if (region.word) word = value_of_.at(index_of(*region.word)).value();
      tables.push_back(fb::CreateRegion(index_->builder_, name, region.first_step,
                                        region.step_count, region.most_trips, word,
                                        value_of_.at(index_of(region.counter)).value()));
    }
    return tables;
  }

  std::vector<Offset<fb::Assertion>> build_assertions() {
    std::vector<Offset<fb::Assertion>> tables;
    for (size_t b = 0; b < program_->buffers.size(); ++b) {
      const std::string& told = program_->buffers[b].assertion;
      if (!value_of_[b] || told.empty()) continue;
      const auto told_in_plan = index_->builder_.CreateString(told);
      tables.push_back(fb::CreateAssertion(index_->builder_, *value_of_[b], told_in_plan));
    }
    return tables;
  }

  // The words of the steps in use, one after another.
  void place_index_errors() {
    uint64_t bytes = 0;
    for (size_t b = 0; b < program_->buffers.size(); ++b) {
      if (!value_of_[b] || program_->buffers[b].segment != Segment::IndexErrors) continue;
      index_error_offsets_[b] = bytes;
      bytes += kIndexErrorBytes;
    }
    index_->result_.index_error_bytes = std::max(index_->result_.index_error_bytes, bytes);
  }

  std::vector<Offset<fb::Value>> build_values() {
    std::vector<Offset<fb::Value>> values;
    uint64_t io_bytes = 0;
    for (size_t b = 0; b < program_->buffers.size(); ++b) {
      if (!value_of_[b]) continue;
      const Buffer& buffer = program_->buffers[b];
      RLX_CHECK(buffer.size_bytes == byte_size(buffer.type), "size of buffer " + buffer.name);
      if (buffer.segment == Segment::Io)
        io_bytes += round_up(bytes_at_bound(buffer.size_bytes), kArenaAlignmentBytes);
      values.push_back(build_value(b));
    }
    index_->result_.io_bytes = std::max(index_->result_.io_bytes, io_bytes);
    index_->result_.arena_bytes = std::max(index_->result_.arena_bytes, schedule_->arena_bytes);
    return values;
  }

  Offset<fb::Value> build_value(size_t b) {
    const Buffer& buffer = program_->buffers[b];
    FlatBufferBuilder& builder = index_->builder_;
    // Only what lies in the arena comes and goes.
    const bool transient = buffer.segment == Segment::Arena;
    const auto steps = narrow<uint32_t>(schedule_->order.size());
    const uint32_t first = transient ? uses_[b].first : 0;
    const uint32_t last = transient ? uses_[b].last : (steps == 0 ? 0 : steps - 1);
    flatbuffers::Optional<uint32_t> alias = flatbuffers::nullopt;
    if (transient && schedule_->in_place_of.at(b)) {
      alias = value_of_.at(index_of(*schedule_->in_place_of[b])).value();
    }
    patch_value(value_of_[b].value(), buffer);
    const auto name = builder.CreateString(plan_name(buffer.name));
    const auto dims = builder.CreateVector(dims_of(buffer.type.shape));
    // What a binding changes must be stored, even where it is 0 at the largest sizes.
    builder.ForceDefaults(buffer.size_bytes.is_free());
    const auto value = fb::CreateValue(builder, name, static_cast<uint8_t>(buffer.type.dtype), dims,
                                       segment_of(buffer.segment), offset_of(b),
                                       bytes_at_bound(buffer.size_bytes), first, last, alias);
    builder.ForceDefaults(false);
    return value;
  }

  void patch_value(uint32_t value, const Buffer& buffer) {
    for (uint32_t axis = 0; axis < buffer.type.shape.size(); ++axis)
      sizes_.patch(fb::PatchField::ValueDim, value, axis, buffer.type.shape[axis]);
    sizes_.patch(fb::PatchField::ValueBytes, value, 0, buffer.size_bytes);
  }

  // Parts by their numbers in plan.fbs.
  void patch_gemm(const LibraryGemm& gemm) {
    const uint32_t number = gemms_.add(gemm);
    const std::array parts{gemm.m,
                           gemm.n,
                           gemm.k,
                           gemm.batch,
                           gemm.a_pitch,
                           gemm.b_pitch,
                           gemm.y_pitch,
                           gemm.residual_pitch,
                           gemm.a_batch_stride,
                           gemm.b_batch_stride,
                           gemm.y_batch_stride,
                           gemm.residual_batch_stride};
    for (uint32_t part = 0; part < parts.size(); ++part)
      sizes_.patch(fb::PatchField::Gemm, number, part, parts[part]);
  }

  void patch_step(uint32_t position, const Step& step) {
    const std::array<Dim, 3> grid{step.grid.x, step.grid.y, step.grid.z};
    for (uint32_t axis = 0; step.runs_at_bound() && axis < grid.size(); ++axis)
      sizes_.patch(fb::PatchField::Grid, position, axis, grid[axis]);
    for (const SizeWord& word : step.sizes)
      sizes_.patch_symbol(fb::PatchField::ParamsWord, position, word.position, word.symbol);
    if (step.gemm) patch_gemm(*step.gemm);
    sizes_.patch(fb::PatchField::BytesMoved, position, 0, step.bytes_moved);
    sizes_.patch(fb::PatchField::Flops, position, 0, step.flops);
  }

  uint64_t offset_of(size_t b) const {
    const Buffer& buffer = program_->buffers[b];
    switch (buffer.segment) {
      case Segment::Weights: {
        const auto placed = index_->layout_->index_of_weight.at(index_of(buffer.weight.value()));
        return index_->layout_->weights.at(placed.value()).offset_bytes;
      }
      case Segment::State:
        return index_->layout_->states.at(index_of(buffer.state.value())).offset_bytes;
      case Segment::Arena:
        return schedule_->buffer_offsets.at(b);
      case Segment::Io:
        return 0;
      case Segment::IndexErrors:
        return index_error_offsets_.at(b);
    }
    RLX_CHECK(false, "segment of buffer " + buffer.name);
    return 0;
  }

  void add_step(uint32_t position) {
    const Step& step = program_->steps.at(schedule_->order[position]);
    const auto edge_first = narrow<uint32_t>(edges_.size());
    const std::vector<uint32_t>& before = schedule_->edges.at(position);
    edges_.insert(edges_.end(), before.begin(), before.end());
    steps_.push_back(record_of(step, position, edge_first));
    for (const Step& other : step.alternatives)
      others_.push_back({.position = position, .record = record_of(other, position, edge_first)});
    add_forms(position, step);
  }

  // By the sizes up to which they serve: where the step is skipped, its forms, and itself where it
  // is a form of a skipped step.
  void add_forms(uint32_t position, const Step& step) {
    if (step.served && step.served->above) {
      const uint32_t size = sizes_.term(step.served->size);
      forms_.emplace_back(narrow<uint64_t>(*step.served->above), position, kSkipForm, size, size,
                          size, size);
    }
    for (const StepForm& form : step.forms) add_form(position, form);
    if (step.runs_at_bound()) return;
    add_form(position, {.size = step.served->size,
                        .most = *step.served->most,
                        .kernel = step.kernel.value(),
                        .grid = step.grid});
  }

  void add_form(uint32_t position, const StepForm& form) {
    forms_.emplace_back(narrow<uint64_t>(form.most), position, kernel_of(form.kernel),
                        sizes_.term(form.size), sizes_.term(form.grid.x), sizes_.term(form.grid.y),
                        sizes_.term(form.grid.z));
    if (target_ == TargetKind::Vulkan) note_limits(form.grid);
  }

  // `step` at a position of the schedule, whose edges begin at edge_first. Adds its relocations.
  fb::Step record_of(const Step& step, uint32_t position, uint32_t edge_first) {
    const auto relocation_first = narrow<uint32_t>(relocations_.size());
    std::vector<Access> accesses = step.accesses;
    std::stable_sort(accesses.begin(), accesses.end(),
                     [](const Access& a, const Access& b) { return a.position < b.position; });
    for (const Access& access : accesses) {
      const auto number = narrow<uint32_t>(relocations_.size());
      sizes_.patch(fb::PatchField::RelocationOffset, number, 0, access.range_offset_bytes);
      sizes_.patch(fb::PatchField::RelocationLength, number, 0, access.range_bytes);
      relocations_.emplace_back(value_of_.at(index_of(access.buffer)).value(), access.position,
                                bytes_at_bound(access.range_offset_bytes),
                                bytes_at_bound(access.range_bytes), mode_of(access.mode));
    }
    patch_step(position, step);
    const bool dispatch = step.kind == StepKind::Dispatch;
    const uint64_t params_offset = dispatch ? index_->params_.add(params_of(step)) : 0;
    const auto params_bytes = dispatch ? narrow<uint32_t>(step.params.size()) : 0;
    if (dispatch && target_ == TargetKind::Vulkan) note_limits(step);
    const bool runs = step.runs_at_bound();
    const Grid grid = runs ? step.grid : Grid{};
    return {runs ? static_cast<fb::StepKind>(step.kind) : fb::StepKind::Skip,
            runs ? code_of(step) : 0,
            narrow<uint32_t>(grid.x.bound()),
            narrow<uint32_t>(grid.y.bound()),
            narrow<uint32_t>(grid.z.bound()),
            schedule_->wave.at(position),
            params_offset,
            params_bytes,
            relocation_first,
            narrow<uint32_t>(accesses.size()),
            edge_first,
            narrow<uint32_t>(schedule_->edges.at(position).size()),
            step.fill_pattern,
            bytes_at_bound(step.bytes_moved),
            bytes_at_bound(step.flops)};
  }

  // What the record's `kernel` is: a kernel of the plan, a gemm of the entry, or 0.
  uint32_t code_of(const Step& step) {
    if (step.kind == StepKind::LibraryGemm) return gemms_.add(step.gemm.value());
    if (step.kind != StepKind::Dispatch) return 0;
    return kernel_of(step.kernel.value());
  }

  [[nodiscard]] uint32_t kernel_of(KernelInstanceId instance) const {
    const auto& instances = index_->content_->kernels->index_of_instance.at(program_index_);
    return instances.at(index_of(instance)).value();
  }

  std::vector<Offset<fb::Alternative>> build_alternatives() {
    std::vector<Offset<fb::Alternative>> tables;
    for (const Other& other : others_) {
      tables.push_back(fb::CreateAlternative(index_->builder_, other.position, &other.record));
    }
    return tables;
  }

  [[nodiscard]] std::vector<fb::SymbolRange> build_ranges() const {
    std::vector<fb::SymbolRange> records;
    for (const GraphRange& range : program_->ranges) {
      records.emplace_back(narrow<uint64_t>(range.minimum), narrow<uint64_t>(range.maximum),
                           narrow<uint64_t>(range.multiple_of),
                           index_->symbol_in_plan(range.symbol));
    }
    return records;
  }

  [[nodiscard]] int64_t maximum_of(uint32_t symbol) const {
    const auto own =
        std::ranges::find(program_->ranges, symbol, [](const GraphRange& r) { return r.symbol; });
    return own != program_->ranges.end() ? own->maximum
                                         : index_->content_->module->symbols.at(symbol).maximum;
  }

  // The step's params; a pointer into the middle of its range (a view that runs backwards) holds
  // its distance from there.
  [[nodiscard]] std::vector<std::byte> params_of(const Step& step) const {
    std::vector<std::byte> params = step.params;
    for (const Access& access : step.accesses) {
      const auto addend = static_cast<uint64_t>(access.offset_bytes - access.range_offset_bytes);
      RLX_CHECK(access.offset_bytes >= access.range_offset_bytes &&
                    range_fits(access.position, sizeof addend, params.size()),
                step.op + " \"" + step.node + "\": pointer outside its range or its params");
      std::memcpy(params.data() + access.position, &addend, sizeof addend);
    }
    for (const SizeWord& word : step.sizes) {
      const auto largest = narrow<uint32_t>(maximum_of(word.symbol));
      std::memcpy(params.data() + word.position, &largest, sizeof largest);
    }
    return params;
  }

  void note_limits(const Step& step) {
    const auto note = [&step](PlanVulkanTarget& target) {
      target.max_params_bytes =
          std::max(target.max_params_bytes, narrow<uint32_t>(step.params.size()));
    };
    note(index_->result_.vulkan);
    if (profile_) note(index_->result_.profiles[*profile_].vulkan);
    note_limits(step.grid);
  }

  void note_limits(const Grid& grid) {
    const auto note = [&grid](PlanVulkanTarget& target) {
      target.max_grid[0] = std::max(target.max_grid[0], narrow<uint32_t>(grid.x.bound()));
      target.max_grid[1] = std::max(target.max_grid[1], narrow<uint32_t>(grid.y.bound()));
      target.max_grid[2] = std::max(target.max_grid[2], narrow<uint32_t>(grid.z.bound()));
    };
    note(index_->result_.vulkan);
    if (profile_) note(index_->result_.profiles[*profile_].vulkan);
  }

  std::vector<uint32_t> values_of(const std::vector<BufferId>& buffers) const {
    std::vector<uint32_t> values;
    for (const BufferId buffer : buffers) values.push_back(value_of_.at(index_of(buffer)).value());
    return values;
  }

  IndexBuilder* index_;
  const Program* program_;
  const Schedule* schedule_;
  TargetKind target_;
  std::optional<uint32_t> profile_;
  std::string tuned_device_;
  std::string tuned_driver_;
  size_t program_index_;
  std::vector<std::optional<uint32_t>> value_of_;  // per buffer
  uint32_t value_count_ = 0;
  std::vector<uint64_t> index_error_offsets_;  // per buffer
  std::vector<Use> uses_;                      // per buffer
  std::vector<fb::Step> steps_;
  std::vector<Other> others_;
  std::vector<fb::StepForm> forms_;
  GemmTable gemms_;
  SizeTable sizes_;
  std::vector<fb::Relocation> relocations_;
  std::vector<uint32_t> edges_;
};

void IndexBuilder::gather_pointers() {
  const std::vector<PlanEntry> entries = content_->all_entries();
  for (size_t e = 0; e < entries.size(); ++e) {
    const std::optional<uint32_t> profile = profile_of(*entries[e].target);
    for_each_kernel(*entries[e].program, [&](KernelInstanceId instance, const Step& step) {
      const auto kernel = content_->kernels->index_of_instance.at(e).at(index_of(instance));
      if (profile) profile_uses_.at(kernel.value()) |= 1u << *profile;
      for (const Access& access : step.accesses)
        add_access(pointers_.at(kernel.value()), step, access);
    });
  }
}

void note_limits(const KernelCode& code, PlanVulkanTarget& target) {
  target.features |= code.features;
  target.max_shared_bytes = std::max(target.max_shared_bytes, code.shared_bytes);
  target.max_workgroup_invocations = std::max(
      target.max_workgroup_invocations, code.workgroup.x * code.workgroup.y * code.workgroup.z);
}

void IndexBuilder::note_limits(const KernelCode& code, size_t kernel) {
  rlx::note_limits(code, result_.vulkan);
  for (uint32_t profile = 0; profile < result_.profiles.size(); ++profile) {
    if ((profile_uses_[kernel] >> profile & 1) != 0)
      rlx::note_limits(code, result_.profiles[profile].vulkan);
  }
}

// The targets of one kind, where there are several.
void IndexBuilder::find_profiles() {
  std::vector<const Target*> found;
  for (const PlanEntry& entry : content_->all_entries()) {
    if (entry.target->kind != TargetKind::Vulkan) continue;
    if (std::ranges::find(found, entry.target) == found.end()) found.push_back(entry.target);
  }
  if (found.size() < 2) return;
  RLX_CHECK(found.size() <= kPlanMaxProfiles, "profiles of a plan");
  for (const Target* target : found) {
    PlanProfile& profile = result_.profiles.emplace_back(
        PlanProfile{.name = {},
                    .target = static_cast<uint32_t>(target->kind),
                    .device_type = static_cast<uint32_t>(made_for(*target)),
                    .vulkan = kLeastVulkan});
    RLX_CHECK(target->name.size() < sizeof profile.name, "name of a target");
    target->name.copy(profile.name, target->name.size());
  }
}

std::optional<uint32_t> IndexBuilder::profile_of(const Target& target) const {
  for (uint32_t i = 0; i < result_.profiles.size(); ++i) {
    if (profile_name(result_.profiles[i]) == target.name) return i;
  }
  return std::nullopt;
}

Offset<fb::Variant> variant_table(FlatBufferBuilder& builder, const KernelCode& code,
                                  const PlacedCode& placed) {
  const auto entry_point = builder.CreateSharedString(code.entry_point);
  return fb::CreateVariant(builder, target_of(code.format), code.format, code.architecture,
                           placed.offset_bytes, placed.size_bytes, placed.hash, entry_point,
                           code.workgroup.x, code.workgroup.y, code.workgroup.z, code.subgroup_size,
                           code.shared_bytes, code.features, code.dynamic_shared_bytes,
                           code.cluster_x, code.waits_for_predecessors, code.runs_together);
}

Offset<fb::Kernel> IndexBuilder::kernel_table(FlatBufferBuilder& builder, size_t index,
                                              std::span<const PlacedCode> placed) {
  const Specialization& specialization = content_->kernels->kernels[index].specialization;
  const std::vector<KernelCode>& codes = content_->compiled->variants[index];
  const KernelRow& row = kernel_row(specialization.kernel);
  KernelPointers pointers = pointers_[index];
  KernelWords words = words_of(row, pointers);
  add_size_words(specialization, words);
  std::vector<fb::KernelAccess> accesses;
  std::vector<fb::PointerAddend> addends;
  for (const auto& [position, pointer] : pointers) {
    accesses.emplace_back(position, pointer.alignment_bytes, pointer.min_bytes,
                          mode_of(pointer.mode));
    if (pointer.addend_bytes != 0) addends.emplace_back(position, pointer.addend_bytes);
  }
  std::vector<Offset<fb::Variant>> variants;
  for (size_t i = 0; i < codes.size(); ++i) {
    variants.push_back(variant_table(builder, codes[i], placed[i]));
    result_.has_together |= codes[i].runs_together;
  }
  SizeTerms sizes;
  std::vector<Offset<fb::TensorMap>> maps;
  for (const TensorMap& map : specialization.maps) {
    const std::optional<fb::PixelWindow> window = window_of(map);
    std::vector<fb::MapSize> map_sizes;
    for (const MapSize& size : map.sizes) map_sizes.emplace_back(size.dim, sizes.term(size.size));
    maps.push_back(fb::CreateTensorMapDirect(
        builder, map.position, static_cast<uint8_t>(map.dtype), &map.dims, &map.strides, &map.box,
        map.swizzle_bytes, window ? &*window : nullptr, map_sizes.empty() ? nullptr : &map_sizes));
    result_.has_lines_of_range |= map.dims.back() == kLinesOfRange;
    result_.has_pixel_window |= window.has_value();
    result_.has_map_sizes |= !map_sizes.empty();
  }
  const auto name = builder.CreateString(row.name.data(), row.name.size());
  const auto access_list = builder.CreateVectorOfStructs(accesses);
  const auto variant_list = builder.CreateVector(variants);
  const auto text = builder.CreateString(describe(specialization));
  const auto map_list = builder.CreateVector(maps);
  const auto count_list = words.counts.empty() ? 0 : builder.CreateVectorOfStructs(words.counts);
  const auto plain_list = words.plain.empty() ? 0 : builder.CreateVector(words.plain);
  const auto addend_list = addends.empty() ? 0 : builder.CreateVectorOfStructs(addends);
  std::vector<fb::KernelReach> reaches;
  for (const KernelReach& reach : specialization.reaches)
    reaches.emplace_back(reach.position, sizes.term(reach.bytes));
  result_.has_free_sizes |= !reaches.empty();
  const auto size_list = sizes.all().empty() ? 0 : builder.CreateVectorOfStructs(sizes.all());
  const auto reach_list = reaches.empty() ? 0 : builder.CreateVectorOfStructs(reaches);
  return fb::CreateKernel(builder, name, params_bytes(specialization), access_list, variant_list,
                          text, row.order_dependent, map_list, count_list, plain_list, addend_list,
                          size_list, reach_list);
}

Offset<fb::Kernel> IndexBuilder::kernel(size_t index) {
  const std::vector<KernelCode>& codes = content_->compiled->variants[index];
  std::vector<PlacedCode> placed(codes.size());
  // The contract does not depend on where the code will lie.
  FlatBufferBuilder draft;
  draft.Finish(kernel_table(draft, index, placed));
  const auto& record = *flatbuffers::GetRoot<fb::Kernel>(draft.GetBufferPointer());
  const KernelContract contract(record);
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i].format == CodeFormat::SpirV) note_limits(codes[i], index);
    const fb::Variant& variant = *record.variants()->Get(static_cast<uint32_t>(i));
    const auto code = with_contract(variant.format(), codes[i].bytes, contract.of(variant));
    RLX_CHECK(code.has_value(), "code of " + std::string(PlanView::text(record.name())) +
                                    " has no place for its contract");
    placed[i] = {.offset_bytes = code_.add(*code),
                 .size_bytes = code->size(),
                 .hash = XXH3_64bits(code->data(), code->size())};
  }
  return kernel_table(builder_, index, placed);
}

std::vector<Offset<fb::Weight>> IndexBuilder::weights() {
  std::vector<Offset<fb::Weight>> tables;
  for (const PlacedWeight& placed : layout_->weights) {
    const Weight& weight = content_->module->weight(placed.id);
    const auto name = builder_.CreateString(plan_name(weight.name));
    const auto dims = builder_.CreateVector(dims_of(weight.type.shape));
    tables.push_back(fb::CreateWeight(builder_, name, static_cast<uint8_t>(weight.type.dtype), dims,
                                      placed.kind, placed.offset_bytes, byte_size(weight.type),
                                      placed.file, placed.file_offset_bytes));
  }
  return tables;
}

// None where all weights are the plan's own.
Offset<Vector<Offset<fb::WeightFile>>> IndexBuilder::weight_files() {
  if (layout_->files.empty()) return {};
  std::vector<Offset<fb::WeightFile>> tables;
  for (const ModelFile* file : layout_->files) {
    const auto name = builder_.CreateString(file->name);
    const uint64_t start = std::min<uint64_t>(file->bytes.size(), kWeightFileStartBytes);
    tables.push_back(fb::CreateWeightFile(builder_, name, file->bytes.size(),
                                          XXH3_64bits(file->bytes.data(), file->bytes.size()),
                                          XXH3_64bits(file->bytes.data(), start)));
  }
  return builder_.CreateVector(tables);
}

std::vector<Offset<fb::State>> IndexBuilder::states() {
  std::vector<Offset<fb::State>> tables;
  for (const PlacedState& placed : layout_->states) {
    const State& state = content_->module->state(placed.id);
    const auto name = builder_.CreateString(state.name);
    const auto dims = builder_.CreateVector(dims_of(state.type.shape));
    flatbuffers::Optional<uint32_t> weight = flatbuffers::nullopt;
    if (state.init) weight = layout_->index_of_weight.at(index_of(*state.init)).value();
    tables.push_back(fb::CreateState(
        builder_, name, static_cast<uint8_t>(state.type.dtype), dims, placed.offset_bytes,
        byte_size(state.type), state.init ? fb::StateInit::Weight : fb::StateInit::Zeros, weight));
  }
  return tables;
}

std::vector<Offset<fb::Symbol>> IndexBuilder::symbols() {
  std::vector<Offset<fb::Symbol>> tables;
  for (const Symbol& symbol : content_->module->symbols) {
    if (symbol.differs) continue;
    const auto name = builder_.CreateString(symbol.name);
    tables.push_back(fb::CreateSymbol(
        builder_, name, narrow<uint64_t>(symbol.minimum), narrow<uint64_t>(symbol.maximum),
        narrow<uint64_t>(symbol.multiple_of),
        symbol.is_free ? flatbuffers::nullopt
                       : flatbuffers::Optional<uint64_t>(narrow<uint64_t>(symbol.bound))));
  }
  return tables;
}

PlanIndex IndexBuilder::build() {
  if (contains(content_->kernels->targets, TargetKind::Vulkan)) result_.vulkan = kLeastVulkan;
  find_profiles();
  gather_pointers();
  const auto symbol_list = builder_.CreateVector(symbols());
  const auto weight_list = builder_.CreateVector(weights());
  const auto state_list = builder_.CreateVector(states());
  std::vector<Offset<fb::Kernel>> kernels;
  for (size_t i = 0; i < content_->kernels->kernels.size(); ++i) kernels.push_back(kernel(i));
  const auto kernel_list = builder_.CreateVector(kernels);
  std::vector<Offset<fb::Entry>> entries;
  for (size_t i = 0; i < content_->entries.size(); ++i) {
    entries.push_back(EntryBuilder(*this, content_->entries[i], i).build());
  }
  const auto entry_list = builder_.CreateVector(entries);
  std::vector<Offset<fb::Entry>> inits;
  for (size_t i = 0; i < content_->inits.size(); ++i) {
    inits.push_back(EntryBuilder(*this, content_->inits[i], content_->entries.size() + i).build());
  }
  const auto init_list = builder_.CreateVector(inits);
  const auto file_list = weight_files();
  const auto name = builder_.CreateString(content_->module->name);
  const auto producer = builder_.CreateString(content_->producer);
  const auto precision = builder_.CreateString(content_->precision);
  fb::FinishPlanBuffer(builder_,
                       fb::CreatePlan(builder_, name, producer, precision, symbol_list, weight_list,
                                      state_list, kernel_list, entry_list, init_list, file_list));
  const auto* bytes = reinterpret_cast<const std::byte*>(builder_.GetBufferPointer());
  result_.index.assign(bytes, bytes + builder_.GetSize());
  result_.params = params_.take();
  result_.code = code_.take();
  return std::move(result_);
}

}  // namespace

PlanIndex build_plan_index(const PlanContent& content, const SegmentLayout& layout) {
  RLX_CHECK(content.compiled->variants.size() == content.kernels->kernels.size(),
            "code of every kernel");
  return IndexBuilder(content, layout).build();
}

}  // namespace rlx
