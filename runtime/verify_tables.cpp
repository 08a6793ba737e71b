// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 2: the structure of the index, and every index, range, name and enumerator
// in it.
#include <algorithm>

#include "runtime/dtype.h"
#include "runtime/verify_context.h"

namespace rlx {
namespace {

constexpr uint32_t kMaxTableDepth = 16;
constexpr uint32_t kMaxTables = 1u << 22;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxTextBytes = 4096;
constexpr uint32_t kMaxVariantsPerKernel = kPlanMaxCudaArchitectures + 2;
constexpr uint32_t kMaxAccessesPerKernel = kMaxParamsBytes / 8;
constexpr uint64_t kMaxBytes = uint64_t{1} << 48;

// One name of a list whose members must differ.
struct NamedPlace {
  std::string_view name;
  size_t index;
};

void verify_unique(std::string_view what, std::vector<NamedPlace> names, Faults& faults) {
  std::sort(names.begin(), names.end(), [](const NamedPlace& a, const NamedPlace& b) {
    return a.name != b.name ? a.name < b.name : a.index < b.index;
  });
  for (size_t i = 1; i < names.size(); ++i) {
    if (names[i].name != names[i - 1].name) continue;
    faults.add(VerifyRule::NameUnique, what, " ", names[i - 1].index, " and ", names[i].index,
               " are both named ", quoted(names[i].name));
  }
}

template <class Table>
void verify_unique_names(std::string_view what,
                         const flatbuffers::Vector<flatbuffers::Offset<Table>>& tables,
                         Faults& faults) {
  std::vector<NamedPlace> names;
  names.reserve(tables.size());
  for (uint32_t i = 0; i < tables.size(); ++i)
    names.push_back({PlanView::text(tables.Get(i)->name()), i});
  verify_unique(what, std::move(names), faults);
}

bool good_name(const flatbuffers::String* name, size_t max_bytes = kMaxNameBytes) {
  const std::string_view text = PlanView::text(name);
  return !text.empty() && text.size() <= max_bytes && text.find('\0') == std::string_view::npos &&
         is_utf8(text);
}

template <class Table>
void verify_names(std::string_view what,
                  const flatbuffers::Vector<flatbuffers::Offset<Table>>& tables, Faults& faults) {
  for (uint32_t i = 0; i < tables.size(); ++i) {
    if (good_name(tables.Get(i)->name())) continue;
    faults.add(VerifyRule::NameForm, "the name of ", what, " ", i,
               " is not 1 to 256 bytes of UTF-8: ", quoted(PlanView::text(tables.Get(i)->name())));
  }
}

void verify_free_text(std::string_view what, const flatbuffers::String* string, Faults& faults) {
  const std::string_view text = PlanView::text(string);
  if (text.size() <= kMaxTextBytes && is_utf8(text)) return;
  faults.add(VerifyRule::NameForm, "the plan's ", what, " is not UTF-8 of at most ", kMaxTextBytes,
             " bytes");
}

void verify_weights_and_states(const fb::Plan& plan, Faults& faults) {
  for (uint32_t i = 0; i < plan.weights()->size(); ++i) {
    const fb::Weight& weight = *plan.weights()->Get(i);
    if (weight.kind() > fb::WeightKind::MAX || dtype_row(weight.dtype()) == nullptr) {
      faults.add(VerifyRule::EnumRange, "weight ", i, " ", quoted(PlanView::text(weight.name())),
                 " has dtype ", weight.dtype(), " and kind ", static_cast<uint32_t>(weight.kind()),
                 ", one of them unknown");
    }
  }
  for (uint32_t i = 0; i < plan.states()->size(); ++i) {
    const fb::State& state = *plan.states()->Get(i);
    const std::string name = quoted(PlanView::text(state.name()));
    if (state.init() > fb::StateInit::MAX || dtype_row(state.dtype()) == nullptr) {
      faults.add(VerifyRule::EnumRange, "state ", i, " ", name, " has dtype ", state.dtype(),
                 " and initial value ", static_cast<uint32_t>(state.init()),
                 ", one of them unknown");
    }
    const flatbuffers::Optional<uint32_t> weight = state.init_weight();
    const bool wants_weight = state.init() == fb::StateInit::Weight;
    if (weight.has_value() != wants_weight ||
        (wants_weight && weight.value_or(0) >= plan.weights()->size())) {
      faults.add(VerifyRule::ValueIndex, "state ", i, " ", name,
                 wants_weight ? " begins" : " does not begin", " as a weight and names ",
                 weight.has_value() ? std::to_string(weight.value_or(0)) : "none",
                 "; the plan has ", plan.weights()->size(), " weights");
    }
  }
}

void verify_symbols(const fb::Plan& plan, Faults& faults) {
  for (uint32_t i = 0; i < plan.symbols()->size(); ++i) {
    const fb::Symbol& symbol = *plan.symbols()->Get(i);
    const bool range = symbol.minimum() <= symbol.maximum() && symbol.maximum() < kMaxBytes &&
                       symbol.multiple_of() > 0;
    const bool bound =
        !symbol.bound().has_value() ||
        (range && *symbol.bound() >= symbol.minimum() && *symbol.bound() <= symbol.maximum() &&
         *symbol.bound() % symbol.multiple_of() == 0);
    if (range && bound) continue;
    faults.add(VerifyRule::SymbolRange, "symbol ", i, " ", quoted(PlanView::text(symbol.name())),
               " has minimum ", symbol.minimum(), ", maximum ", symbol.maximum(), ", multiple ",
               symbol.multiple_of(), " and bound ",
               symbol.bound().has_value() ? std::to_string(*symbol.bound()) : "(none)",
               ", which do not agree");
  }
}

// Whether two variants read their code in the same way.
bool same_use(const fb::Variant& a, const fb::Variant& b) {
  return a.format() == b.format() && a.architecture() == b.architecture() &&
         PlanView::text(a.entry_point()) == PlanView::text(b.entry_point());
}

void verify_kernels(const PlanParts& parts, Faults& faults) {
  struct CodeRange {
    uint64_t offset;
    uint64_t bytes;
    uint32_t kernel;
    const fb::Variant* variant;
  };
  std::vector<CodeRange> ranges;
  for (uint32_t k = 0; k < parts.plan.kernels()->size() && !faults.full(); ++k) {
    const fb::Kernel& kernel = *parts.plan.kernels()->Get(k);
    if (kernel.variants()->size() > kMaxVariantsPerKernel ||
        kernel.accesses()->size() > kMaxAccessesPerKernel) {
      faults.add(VerifyRule::IndexShared, kernel_name(parts.plan, k), " has ",
                 kernel.variants()->size(), " variants and ", kernel.accesses()->size(),
                 " accesses, at most ", kMaxVariantsPerKernel, " and ", kMaxAccessesPerKernel,
                 " can be used");
      continue;
    }
    for (const fb::KernelAccess* access : *kernel.accesses()) {
      if (access->mode() >= fb::AccessMode::Read && access->mode() <= fb::AccessMode::MAX) continue;
      faults.add(VerifyRule::EnumRange, kernel_name(parts.plan, k), ", access at byte ",
                 access->position(), " has mode ", static_cast<uint32_t>(access->mode()));
    }
    for (const fb::Variant* variant : *kernel.variants()) {
      if (variant->target() > fb::TargetKind::MAX || variant->format() > fb::CodeFormat::MAX) {
        faults.add(VerifyRule::EnumRange, kernel_name(parts.plan, k), " has a variant of target ",
                   static_cast<uint32_t>(variant->target()), " and format ",
                   static_cast<uint32_t>(variant->format()));
      }
      if (!good_name(variant->entry_point())) {
        faults.add(VerifyRule::NameForm, kernel_name(parts.plan, k),
                   " has an entry point that is no name: ",
                   quoted(PlanView::text(variant->entry_point())));
      }
      const bool inside =
          range_inside(variant->code_offset(), variant->code_bytes(), parts.code.size());
      if (!inside || variant->code_bytes() == 0) {
        faults.add(VerifyRule::CodeRange, kernel_name(parts.plan, k), " has code at ",
                   variant->code_offset(), " of ", variant->code_bytes(),
                   " bytes, the code section has ", parts.code.size());
        continue;
      }
      ranges.push_back({variant->code_offset(), variant->code_bytes(), k, variant});
    }
  }
  // Code is either the same or apart, and the same code is used in one way, so that reading all of
  // it once is enough.
  std::sort(ranges.begin(), ranges.end(), [](const CodeRange& a, const CodeRange& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  for (size_t i = 1; i < ranges.size(); ++i) {
    const CodeRange& a = ranges[i - 1];
    const CodeRange& b = ranges[i];
    const bool same = a.offset == b.offset && a.bytes == b.bytes;
    if (same && !same_use(*a.variant, *b.variant)) {
      faults.add(VerifyRule::CodeShared, kernel_name(parts.plan, a.kernel), " and ",
                 kernel_name(parts.plan, b.kernel), " have the same code at byte ", b.offset,
                 " of the code section, but for different formats, architectures or entry points");
    }
    if (same || a.offset + a.bytes <= b.offset) continue;
    faults.add(VerifyRule::CodeRange, "the code of ", kernel_name(parts.plan, a.kernel), " and of ",
               kernel_name(parts.plan, b.kernel), " overlap at byte ", b.offset,
               " of the code section");
  }
}

// FlatBuffers' own verifier does not look at the alignment of records in vectors.
void verify_record_alignment(const fb::Plan& plan, Faults& faults) {
  const auto check = [&faults](const auto* records, const char* what, size_t alignment) {
    const bool aligned = reinterpret_cast<uintptr_t>(records->Data()) % alignment == 0;
    if (records->size() == 0 || aligned) return;
    faults.add(VerifyRule::IndexStructure, what, " do not lie at a multiple of ", alignment,
               " bytes");
  };
  const auto check_entry = [&check](const fb::Entry& entry) {
    check(entry.steps(), "steps", alignof(fb::Step));
    check(entry.relocations(), "relocations", alignof(fb::Relocation));
  };
  for (const fb::Kernel* kernel : *plan.kernels())
    check(kernel->accesses(), "accesses of a kernel", alignof(fb::KernelAccess));
  for (const fb::Entry* entry : *plan.entries()) check_entry(*entry);
  if (plan.inits() == nullptr) return;
  for (const fb::Entry* init : *plan.inits()) check_entry(*init);
}

// Vectors may in principle be shared by several tables of a FlatBuffer, which would let a small
// file describe a huge plan.
void verify_unshared(const PlanParts& parts, Faults& faults) {
  uint64_t bytes = 0;
  const auto add_entry = [&](const fb::Entry& entry) {
    bytes += uint64_t{entry.values()->size()} * sizeof(uint32_t) +
             uint64_t{entry.steps()->size()} * sizeof(fb::Step) +
             uint64_t{entry.relocations()->size()} * sizeof(fb::Relocation) +
             (uint64_t{entry.edges()->size()} + entry.inputs()->size() + entry.outputs()->size()) *
                 sizeof(uint32_t);
    if (entry.gemms() != nullptr) bytes += uint64_t{entry.gemms()->size()} * sizeof(uint32_t);
    if (entry.alternatives() != nullptr)
      bytes += uint64_t{entry.alternatives()->size()} * sizeof(uint32_t);
  };
  for (const fb::Entry* entry : *parts.plan.entries()) add_entry(*entry);
  if (parts.plan.inits() != nullptr) {
    for (const fb::Entry* init : *parts.plan.inits()) add_entry(*init);
  }
  if (bytes <= parts.index_bytes) return;
  faults.add(VerifyRule::IndexShared, "the entries describe ", bytes,
             " bytes of records in an index of ", parts.index_bytes,
             " bytes, so some are used twice");
}

void verify_wave(const EntryParts& entry, size_t s, Faults& faults) {
  const fb::Step& step = entry.steps[s];
  const uint32_t previous = s == 0 ? 0 : entry.steps[s - 1].wave();
  const bool counts_up =
      s == 0 ? step.wave() == 0 : step.wave() == previous || step.wave() == uint64_t{previous} + 1;
  if (counts_up) return;
  faults.add(VerifyRule::WaveOrder, entry.step_name(s), " is in wave ", step.wave(), " after wave ",
             previous);
}

void verify_steps(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  uint64_t relocations = 0;
  uint64_t edges = 0;
  for (size_t s = 0; s < entry.steps.size() && !faults.full(); ++s) {
    verify_step_record(parts, {.entry = entry, .number = s, .step = entry.steps[s]}, faults);
    verify_wave(entry, s, faults);
    relocations += entry.steps[s].relocation_count();
    edges += entry.steps[s].edge_count();
  }
  const uint64_t waves = entry.steps.empty() ? 0 : uint64_t{entry.steps.back().wave()} + 1;
  if (entry.entry.wave_count() != waves) {
    faults.add(VerifyRule::WaveOrder, entry.name(), " says that it has ", entry.entry.wave_count(),
               " waves, its steps have ", waves);
  }
  if (relocations > entry.relocations.size() || edges > entry.edges.size()) {
    faults.add(VerifyRule::IndexShared, entry.name(), " has ", entry.relocations.size(),
               " relocations and ", entry.edges.size(), " edges, its steps use ", relocations,
               " and ", edges, ", so some are used twice");
  }
  for (size_t i = 0; i < entry.relocations.size(); ++i) {
    const fb::Relocation& relocation = entry.relocations[i];
    if (relocation.value() >= entry.value_count()) {
      faults.add(VerifyRule::ValueIndex, entry.name(), ", relocation ", i, " names value ",
                 relocation.value(), ", the entry has ", entry.value_count());
    }
    if (relocation.mode() < fb::AccessMode::Read || relocation.mode() > fb::AccessMode::MAX) {
      faults.add(VerifyRule::EnumRange, entry.name(), ", relocation ", i, " has mode ",
                 static_cast<uint32_t>(relocation.mode()));
    }
  }
}

void verify_values(const EntryParts& entry, Faults& faults) {
  for (uint32_t v = 0; v < entry.value_count() && !faults.full(); ++v) {
    const fb::Value& value = entry.value(v);
    // Names of values in between are made up of other names.
    if (!good_name(value.name(),
                   value.segment() == fb::Segment::Io ? kMaxNameBytes : kMaxTextBytes)) {
      faults.add(VerifyRule::NameForm, entry.value_name(v),
                 " has a name that is empty, too long or no UTF-8");
    }
    if (value.segment() > fb::Segment::MAX || dtype_row(value.dtype()) == nullptr) {
      faults.add(VerifyRule::EnumRange, entry.value_name(v), " has dtype ", value.dtype(),
                 " and segment ", static_cast<uint32_t>(value.segment()), ", one of them unknown");
    }
    if (value.alias_of().has_value() &&
        (*value.alias_of() >= entry.value_count() || *value.alias_of() == v)) {
      faults.add(VerifyRule::ValueIndex, entry.value_name(v), " is an alias of value ",
                 *value.alias_of(), ", the entry has ", entry.value_count(), " values");
    }
    const uint64_t step_count = std::max<uint64_t>(entry.steps.size(), 1);
    if (value.first_step() > value.last_step() || value.last_step() >= step_count) {
      faults.add(VerifyRule::LifetimeRange, entry.value_name(v), " lives from step ",
                 value.first_step(), " to ", value.last_step(), ", the entry has ",
                 entry.steps.size(), " steps");
    }
  }
}

void verify_io(const EntryParts& entry, Faults& faults) {
  std::vector<uint8_t> roles(entry.value_count(), 0);
  const auto verify_list = [&](std::string_view what, const flatbuffers::Vector<uint32_t>& list) {
    std::vector<NamedPlace> names;
    for (uint32_t i = 0; i < list.size() && !faults.full(); ++i) {
      const uint32_t v = list.Get(i);
      if (v >= entry.value_count()) {
        faults.add(VerifyRule::ValueIndex, entry.name(), ", ", what, " ", i, " is value ", v,
                   ", the entry has ", entry.value_count());
        continue;
      }
      if (roles[v]++ != 0 || entry.value(v).segment() != fb::Segment::Io) {
        faults.add(VerifyRule::IoRole, entry.value_name(v), " is ", what, " ", i,
                   roles[v] > 1 ? ", and an input or output already" : ", but no io value");
      }
      names.push_back({PlanView::text(entry.value(v).name()), i});
    }
    verify_unique(text_of(entry.name(), ", ", what), std::move(names), faults);
  };
  verify_list("input", *entry.entry.inputs());
  verify_list("output", *entry.entry.outputs());
  for (uint32_t v = 0; v < entry.value_count(); ++v) {
    if (roles[v] != 0 || entry.value(v).segment() != fb::Segment::Io) continue;
    faults.add(VerifyRule::IoRole, entry.value_name(v),
               " is an io value, but neither an input nor an output");
  }
}

}  // namespace

void verify_step_record(const PlanParts& parts, const StepPlace& place, Faults& faults) {
  const EntryParts& entry = place.entry;
  const fb::Step& step = place.step;
  if (step.kind() > fb::StepKind::MAX) {
    return faults.add(VerifyRule::EnumRange, entry.name(), ", step ", place.number, " is of kind ",
                      static_cast<uint32_t>(step.kind()), ", which this runtime does not know");
  }
  if (step.kind() == fb::StepKind::Dispatch && step.kernel() >= parts.plan.kernels()->size()) {
    faults.add(VerifyRule::KernelIndex, entry.name(), ", step ", place.number, " runs kernel ",
               step.kernel(), ", the plan has ", parts.plan.kernels()->size());
  }
  if (!range_inside(step.relocation_first(), step.relocation_count(), entry.relocations.size())) {
    faults.add(VerifyRule::RelocationList, place.name(), " has relocations ",
               step.relocation_first(), " and ", step.relocation_count(), " more, the entry has ",
               entry.relocations.size());
  }
  if (!range_inside(step.edge_first(), step.edge_count(), entry.edges.size())) {
    faults.add(VerifyRule::EdgeList, place.name(), " has edges ", step.edge_first(), " and ",
               step.edge_count(), " more, the entry has ", entry.edges.size());
  } else {
    for (const uint32_t before : entry.edges_of(step)) {
      if (before < place.number) continue;
      faults.add(VerifyRule::EdgeList, place.name(), " waits for step ", before,
                 ", which is not an earlier one");
    }
  }
  if (!range_inside(step.params_offset(), step.params_bytes(), parts.params.size())) {
    faults.add(VerifyRule::ParamsRange, place.name(), " has params at ", step.params_offset(),
               " of ", step.params_bytes(), " bytes, the params section has ", parts.params.size());
  }
}

void verify_index_structure(std::span<const std::byte> index, Faults& faults) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(index.data()), index.size(),
                                 kMaxTableDepth, kMaxTables);
  if (index.size() >= 8 && fb::VerifyPlanBuffer(verifier)) return;
  faults.add(VerifyRule::IndexStructure, "the index section is no well-formed plan index");
}

void verify_debug_structure(std::span<const std::byte> debug, Faults& faults) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(debug.data()), debug.size(),
                                 kMaxTableDepth, kMaxTables);
  if (debug.size() >= 8 && fb::VerifyDebugBuffer(verifier)) return;
  faults.add(VerifyRule::DebugStructure, "the debug section is no well-formed list of notes");
}

void verify_tables(const PlanParts& parts, Faults& faults) {
  const fb::Plan& plan = parts.plan;
  verify_record_alignment(plan, faults);
  verify_unshared(parts, faults);
  if (!faults.empty()) return;
  if (plan.entries()->size() == 0) faults.add(VerifyRule::EntryMissing, "the plan has no entry");
  verify_names("entry", *plan.entries(), faults);
  verify_names("weight", *plan.weights(), faults);
  verify_unique_names("weights", *plan.weights(), faults);
  verify_names("state", *plan.states(), faults);
  verify_unique_names("states", *plan.states(), faults);
  verify_names("symbol", *plan.symbols(), faults);
  verify_unique_names("symbols", *plan.symbols(), faults);
  verify_names("kernel", *plan.kernels(), faults);
  verify_free_text("name", plan.name(), faults);
  verify_free_text("producer", plan.producer(), faults);
  verify_free_text("precision", plan.precision(), faults);
  verify_weights_and_states(plan, faults);
  verify_symbols(plan, faults);
  verify_kernels(parts, faults);
}

void verify_entry_tables(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  verify_values(entry, faults);
  if (!faults.empty()) return;
  verify_io(entry, faults);
  verify_steps(parts, entry, faults);
  verify_gemm_tables(parts, entry, faults);
}

}  // namespace rlx
