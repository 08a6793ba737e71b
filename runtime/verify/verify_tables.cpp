// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 2: the structure of the index, and every index, range, name and enumerator
// in it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "runtime/base/dtype.h"
#include "runtime/verify/verify_context.h"

namespace rlx {
namespace {

// As graphs may have entries, each for two targets.
constexpr uint32_t kMaxEntryRecords = 2048;
constexpr uint32_t kMaxInits = static_cast<uint32_t>(fb::TargetKind::MAX) + 1 + kPlanMaxProfiles;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxTextBytes = 4096;
constexpr uint32_t kMaxVariantsPerKernel = kPlanMaxCudaArchitectures + 2;
constexpr uint32_t kMaxAccessesPerKernel = kMaxParamsBytes / 8;
constexpr uint32_t kMaxWordsPerKernel = kMaxParamsBytes / 4;
constexpr uint32_t kMaxCountsPerKernel = 64;
constexpr uint32_t kMaxAddendsPerKernel = 64;
constexpr uint64_t kMaxBytes = uint64_t{1} << 48;

// One name of a list whose members must differ.
struct NamedPlace {
  std::string_view name;
  size_t index;
};

// By a table of hashes with linear probing, at most half full. Names that were chosen to meet in it
// use the work up.
void verify_unique(std::string_view what, const std::vector<NamedPlace>& names, Faults& faults) {
  struct Slot {
    uint32_t hash = 0;
    uint32_t place = 0;  // in `names`, from 1 on; 0: free
  };
  std::vector<Slot> slots(std::bit_ceil(2 * names.size() + 1));
  for (size_t i = 0; i < names.size() && !faults.full(); ++i) {
    const std::string_view name = names[i].name;
    const uint64_t full_hash = XXH3_64bits(name.data(), name.size());
    const auto hash = static_cast<uint32_t>(full_hash >> 32);
    size_t at = full_hash & (slots.size() - 1);
    while (slots[at].place != 0 &&
           (slots[at].hash != hash || names[slots[at].place - 1].name != name)) {
      faults.charge(kWorkPerVisit);
      at = (at + 1) & (slots.size() - 1);
      if (faults.full()) return;
    }
    faults.charge(kWorkPerTable + name.size());
    if (slots[at].place == 0) {
      slots[at] = {.hash = hash, .place = static_cast<uint32_t>(i + 1)};
      continue;
    }
    faults.add(VerifyRule::NameUnique, what, " ", names[slots[at].place - 1].index, " and ",
               names[i].index, " are both named ", quoted(name));
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
  verify_unique(what, names, faults);
}

// Its characters were looked at with the structure of the index.
bool good_name(const flatbuffers::String* name, size_t max_bytes = kMaxNameBytes) {
  const std::string_view text = PlanView::text(name);
  return !text.empty() && text.size() <= max_bytes;
}

template <class Table>
void verify_names(std::string_view what,
                  const flatbuffers::Vector<flatbuffers::Offset<Table>>& tables, Faults& faults) {
  for (uint32_t i = 0; i < tables.size() && !faults.full(); ++i) {
    if (good_name(tables.Get(i)->name())) continue;
    faults.add(VerifyRule::NameForm, "the name of ", what, " ", i,
               " is not 1 to 256 bytes of UTF-8: ", quoted(PlanView::text(tables.Get(i)->name())));
  }
}

void verify_free_text(std::string_view what, const flatbuffers::String* string, Faults& faults) {
  const std::string_view text = PlanView::text(string);
  if (text.size() <= kMaxTextBytes) return;
  faults.add(VerifyRule::NameForm, what, " has more than ", kMaxTextBytes, " bytes");
}

void verify_weights_and_states(const fb::Plan& plan, Faults& faults) {
  faults.charge(kWorkPerTable * (uint64_t{plan.weights()->size()} + plan.states()->size()));
  for (uint32_t i = 0; i < plan.weights()->size() && !faults.full(); ++i) {
    const fb::Weight& weight = *plan.weights()->Get(i);
    if (weight.kind() > fb::WeightKind::MAX || dtype_row(weight.dtype()) == nullptr) {
      faults.add(VerifyRule::EnumRange, "weight ", i, " ", quoted(PlanView::text(weight.name())),
                 " has dtype ", weight.dtype(), " and kind ", static_cast<uint32_t>(weight.kind()),
                 ", one of them unknown");
    }
  }
  for (uint32_t i = 0; i < plan.states()->size() && !faults.full(); ++i) {
    const fb::State& state = *plan.states()->Get(i);
    const auto name = [&] { return quoted(PlanView::text(state.name())); };
    if (dtype_row(state.dtype()) == nullptr) {
      faults.add(VerifyRule::EnumRange, "state ", i, " ", name(), " has the unknown dtype ",
                 state.dtype());
    }
    if (state.init() != fb::StateInit::Zeros && state.init() != fb::StateInit::Weight) {
      faults.add(VerifyRule::EnumRange, "state ", i, " ", name(), " begins as ",
                 static_cast<uint32_t>(state.init()), ", which is neither zeros (0) nor a weight (",
                 static_cast<uint32_t>(fb::StateInit::Weight), ")");
    }
    const flatbuffers::Optional<uint32_t> weight = state.init_weight();
    const bool wants_weight = state.init() == fb::StateInit::Weight;
    if (weight.has_value() != wants_weight ||
        (wants_weight && weight.value_or(0) >= plan.weights()->size())) {
      faults.add(VerifyRule::ValueIndex, "state ", i, " ", name(),
                 wants_weight ? " begins" : " does not begin", " as a weight and names ",
                 weight.has_value() ? std::to_string(weight.value_or(0)) : "none",
                 "; the plan has ", plan.weights()->size(), " weights");
    }
  }
}

void verify_symbols(const fb::Plan& plan, Faults& faults) {
  faults.charge(kWorkPerTable * uint64_t{plan.symbols()->size()});
  for (uint32_t i = 0; i < plan.symbols()->size() && !faults.full(); ++i) {
    const fb::Symbol& symbol = *plan.symbols()->Get(i);
    const bool range = symbol.minimum() <= symbol.maximum() && symbol.maximum() < kMaxBytes &&
                       symbol.multiple_of() > 0;
    const auto is_multiple = [&](uint64_t value) { return value % symbol.multiple_of() == 0; };
    const bool agrees =
        range && (symbol.bound().has_value()
                      ? *symbol.bound() >= symbol.minimum() &&
                            *symbol.bound() <= symbol.maximum() && is_multiple(*symbol.bound())
                      : is_multiple(symbol.minimum()) && is_multiple(symbol.maximum()));
    if (agrees) continue;
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
    faults.charge(kWorkPerTable * (1 + uint64_t{kernel.variants()->size()}) +
                  kWorkPerRecord * uint64_t{kernel.accesses()->size()});
    if (kernel.variants()->size() > kMaxVariantsPerKernel ||
        kernel.accesses()->size() > kMaxAccessesPerKernel) {
      faults.add(VerifyRule::IndexShared, kernel_name(parts.plan, k), " has ",
                 kernel.variants()->size(), " variants and ", kernel.accesses()->size(),
                 " accesses, at most ", kMaxVariantsPerKernel, " and ", kMaxAccessesPerKernel,
                 " can be used");
      continue;
    }
    const uint32_t counts = kernel.counts() == nullptr ? 0 : kernel.counts()->size();
    const uint32_t plain = kernel.plain_words() == nullptr ? 0 : kernel.plain_words()->size();
    const uint32_t addends = kernel.addends() == nullptr ? 0 : kernel.addends()->size();
    if (counts > kMaxCountsPerKernel || plain > kMaxWordsPerKernel ||
        addends > kMaxAddendsPerKernel) {
      faults.add(VerifyRule::IndexShared, kernel_name(parts.plan, k), " has ", counts, " counts, ",
                 plain, " plain words and ", addends, " addends, at most ", kMaxCountsPerKernel,
                 ", ", kMaxWordsPerKernel, " and ", kMaxAddendsPerKernel, " can be used");
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
  faults.charge(work_of_sort(ranges.size()));
  if (faults.full()) return;
  std::sort(ranges.begin(), ranges.end(), [](const CodeRange& a, const CodeRange& b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  });
  for (size_t i = 1; i < ranges.size() && !faults.full(); ++i) {
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

void verify_wave(const EntryParts& entry, size_t s, Faults& faults) {
  const fb::Step& step = entry.steps[s];
  const uint32_t previous = s == 0 ? 0 : entry.steps[s - 1].wave();
  const bool counts_up =
      s == 0 ? step.wave() == 0 : step.wave() == previous || step.wave() == uint64_t{previous} + 1;
  if (counts_up) return;
  faults.add(VerifyRule::WaveOrder, entry.step_name(s), " is in wave ", step.wave(), " after wave ",
             previous);
}

// What steps take of the entry's lists they take alone, so that walking it is linear. Alternatives
// have relocations of their own and the edges of their steps.
void verify_lists_unshared(const EntryParts& entry, Faults& faults) {
  uint64_t relocations = 0;
  uint64_t edges = 0;
  uint64_t other_edges = 0;
  for (const StepPlace& place : all_places(entry)) {
    relocations += place.step.relocation_count();
    (place.is_alternative ? other_edges : edges) += place.step.edge_count();
  }
  if (relocations <= entry.relocations.size() &&
      std::max(edges, other_edges) <= entry.edges.size()) {
    return;
  }
  faults.add(VerifyRule::IndexShared, entry.name(), " has ", entry.relocations.size(),
             " relocations and ", entry.edges.size(), " edges, its steps use ", relocations,
             " and ", edges, ", alternatives ", other_edges, " edges, so some are used twice");
}

void verify_relocations(const EntryParts& entry, Faults& faults) {
  for (size_t i = 0; i < entry.relocations.size() && !faults.full(); ++i) {
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

void verify_steps(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  faults.charge(kWorkPerRecord * (entry.steps.size() + entry.relocations.size()));
  verify_lists_unshared(entry, faults);
  if (!faults.empty()) return;
  for (size_t s = 0; s < entry.steps.size() && !faults.full(); ++s) {
    verify_step_record(parts, {.entry = entry, .number = s, .step = entry.steps[s]}, faults);
    verify_wave(entry, s, faults);
  }
  const uint64_t waves = entry.steps.empty() ? 0 : uint64_t{entry.steps.back().wave()} + 1;
  if (entry.entry.wave_count() != waves) {
    faults.add(VerifyRule::WaveOrder, entry.name(), " says that it has ", entry.entry.wave_count(),
               " waves, its steps have ", waves);
  }
  verify_relocations(entry, faults);
}

void verify_values(const EntryParts& entry, Faults& faults) {
  faults.charge(kWorkPerTable * uint64_t{entry.value_count()});
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
    faults.charge(kWorkPerTable * uint64_t{list.size()});
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
    verify_unique(text_of(entry.name(), ", ", what), names, faults);
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
    faults.charge(kWorkPerEdge * step.edge_count());
    for (const uint32_t before : entry.edges_of(step)) {
      if (before < place.number || faults.full()) continue;
      faults.add(VerifyRule::EdgeList, place.name(), " waits for step ", before,
                 ", which is not an earlier one");
    }
  }
  if (!range_inside(step.params_offset(), step.params_bytes(), parts.params.size())) {
    faults.add(VerifyRule::ParamsRange, place.name(), " has params at ", step.params_offset(),
               " of ", step.params_bytes(), " bytes, the params section has ", parts.params.size());
  }
}

void verify_tables(const PlanParts& parts, Faults& faults) {
  const fb::Plan& plan = parts.plan;
  if (plan.entries()->size() == 0) faults.add(VerifyRule::EntryMissing, "the plan has no entry");
  const uint32_t inits = plan.inits() == nullptr ? 0 : plan.inits()->size();
  if (plan.entries()->size() > kMaxEntryRecords || inits > kMaxInits) {
    return faults.add(VerifyRule::EntryCount, "the plan has ", plan.entries()->size(),
                      " records of entries and ", inits, " of init, at most ", kMaxEntryRecords,
                      " and ", kMaxInits, " can be used");
  }
  verify_names("entry", *plan.entries(), faults);
  verify_names("weight", *plan.weights(), faults);
  if (plan.weight_files() != nullptr) verify_names("weight file", *plan.weight_files(), faults);
  verify_unique_names("weights", *plan.weights(), faults);
  verify_names("state", *plan.states(), faults);
  verify_unique_names("states", *plan.states(), faults);
  verify_names("symbol", *plan.symbols(), faults);
  verify_unique_names("symbols", *plan.symbols(), faults);
  verify_names("kernel", *plan.kernels(), faults);
  verify_free_text("the plan's name", plan.name(), faults);
  verify_free_text("the plan's producer", plan.producer(), faults);
  verify_free_text("the plan's precision", plan.precision(), faults);
  verify_weights_and_states(plan, faults);
  verify_symbols(plan, faults);
  verify_kernels(parts, faults);
}

void verify_entry_tables(const PlanParts& parts, const EntryParts& entry, Faults& faults) {
  verify_values(entry, faults);
  verify_record_profile(parts, entry, faults);
  if (!faults.empty()) return;
  verify_io(entry, faults);
  verify_steps(parts, entry, faults);
  verify_gemm_tables(parts, entry, faults);
  if (faults.empty()) verify_form_tables(entry, faults);
  if (faults.empty()) verify_region_tables(parts, entry, faults);
}

}  // namespace rlx
