// SPDX-License-Identifier: Apache-2.0
// Every rule of the verifier: a plan that breaks it alone, made from a valid one.
#include <algorithm>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/verify/verify.h"
#include "schema/spirv_capabilities.h"
#include "schema/tensor_map.h"
#include "tests/runtime/verify_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"

using rlx::all_verify_rules;
using rlx::PlanHeader;
using rlx::rule_text;
using rlx::verify_plan;
using rlx::VerifyFault;
using rlx::VerifyRule;
using namespace rlx::test;
namespace fb = rlx::fb;

namespace {

Bytes broken(const Fixture& fixture) {
  PlanSpec spec = fixture.base();
  if (fixture.edit) fixture.edit(spec);
  Bytes plan = serialise(spec);
  if (fixture.edit_bytes) fixture.edit_bytes(plan);
  return plan;
}

Fixture header_fixture(VerifyRule rule, std::string what, std::function<void(PlanHeader&)> edit) {
  return {rule, std::move(what),
          [edit = std::move(edit)](PlanSpec& spec) { spec.edit_header = edit; }};
}

Fixture main_fixture(VerifyRule rule, std::string what, std::function<void(SpecEntry&)> edit) {
  return {rule, std::move(what),
          [edit = std::move(edit)](PlanSpec& spec) { edit(spec.entries[0]); }};
}

// The lone section of a kind.
rlx::PlanSection& section(PlanHeader& header, rlx::SectionKind kind) {
  return *std::find_if(
      header.sections, header.sections + header.section_count,
      [&](const rlx::PlanSection& s) { return s.kind == static_cast<uint32_t>(kind); });
}

std::vector<Fixture> container_fixtures() {
  using Rule = VerifyRule;
  return {
      {Rule::FileLength, "half a header", {}, [](Bytes& plan) { plan.resize(2048); }},
      {Rule::Magic, "another magic", {}, [](Bytes& plan) { plan[0] = std::byte{'X'}; }},
      header_fixture(Rule::MajorVersion, "a newer major",
                     [](PlanHeader& h) { h.major = rlx::kPlanMajor + 1; }),
      header_fixture(Rule::HeaderBytes, "a larger header",
                     [](PlanHeader& h) { h.header_bytes = 8192; }),
      {Rule::FileBytes, "one byte more", {}, [](Bytes& plan) { plan.push_back(std::byte{0}); }},
      {Rule::HeaderChecksum,
       "another size of the weights",
       {},
       [](Bytes& plan) {
         PlanHeader h = header_of(plan);
         ++h.weights_bytes;
         set_header(plan, h);
       }},
      header_fixture(Rule::HeaderFlags, "an unknown flag", [](PlanHeader& h) { h.flags = 4; }),
      header_fixture(Rule::SectionCount, "17 sections",
                     [](PlanHeader& h) { h.section_count = 17; }),
      header_fixture(Rule::SectionRange, "a section past the end",
                     [](PlanHeader& h) { section(h, rlx::SectionKind::Weights).size_bytes += 1; }),
      header_fixture(Rule::SectionAlignment, "params at an odd place",
                     [](PlanHeader& h) { section(h, rlx::SectionKind::Params).offset_bytes += 1; }),
      header_fixture(Rule::SectionOverlap, "debug notes on the code",
                     [](PlanHeader& h) {
                       section(h, rlx::SectionKind::Debug).offset_bytes =
                           section(h, rlx::SectionKind::Code).offset_bytes;
                     }),
      header_fixture(Rule::SectionDuplicate, "two params sections",
                     [](PlanHeader& h) {
                       section(h, rlx::SectionKind::Weights).kind =
                           static_cast<uint32_t>(rlx::SectionKind::Params);
                     }),
      header_fixture(Rule::SectionMissing, "no index",
                     [](PlanHeader& h) {
                       section(h, rlx::SectionKind::Index).flags = 0;
                       section(h, rlx::SectionKind::Index).kind = 77;
                     }),
      header_fixture(Rule::SectionUnknown, "a critical section of kind 77",
                     [](PlanHeader& h) {
                       h.sections[h.section_count] = {
                           .kind = 77, .flags = rlx::kSectionCritical, .offset_bytes = 4096};
                       ++h.section_count;
                     }),
      {Rule::SectionChecksum,
       "an altered index",
       {},
       [](Bytes& plan) {
         PlanHeader h = header_of(plan);
         plan[section(h, rlx::SectionKind::Index).offset_bytes + 40] ^= std::byte{1};
       }},
      header_fixture(Rule::SectionLimit, "an index of 20 GB",
                     [](PlanHeader& h) {
                       section(h, rlx::SectionKind::Index).size_bytes = uint64_t{20} << 30;
                     }),
      header_fixture(Rule::HeaderProducer, "a producer that moves the cursor",
                     [](PlanHeader& h) { std::strncpy(h.producer, "\x1b[2J", 5); }),
      header_fixture(Rule::HeaderProducer, "a producer without an end",
                     [](PlanHeader& h) { std::memset(h.producer, 'x', sizeof h.producer); }),
      header_fixture(Rule::TargetMissing, "no target", [](PlanHeader& h) { h.vulkan.present = 0; }),
      header_fixture(Rule::TargetFields, "a limit of 0",
                     [](PlanHeader& h) { h.vulkan.max_grid[1] = 0; }),
  };
}

const flatbuffers::Table* table_of(const void* record) {
  return static_cast<const flatbuffers::Table*>(record);
}

const rlx::fb::Plan& index_of(const Bytes& plan) {
  PlanHeader h = header_of(plan);
  return *rlx::fb::GetPlan(plan.data() + section(h, rlx::SectionKind::Index).offset_bytes);
}

// Lets the second offset of a list of tables lead to the first one's table.
template <class ListOf>
void share_records(Bytes& plan, const ListOf& list_of) {
  const uint8_t* offsets = list_of(index_of(plan))->Data();
  uint32_t distance = 0;
  std::memcpy(&distance, offsets, sizeof distance);
  distance -= sizeof distance;
  std::memcpy(plan.data() + (offsets + sizeof distance - reinterpret_cast<uint8_t*>(plan.data())),
              &distance, sizeof distance);
  reseal(plan);
}

// Lets a field lead four bytes before its vector, where a length of one is written.
template <class FieldOf>
void misplace_vector(Bytes& plan, const FieldOf& field_of) {
  const auto [table, field] = field_of(index_of(plan));
  const uint8_t* address = table->GetAddressOf(field);
  std::byte* offset = plan.data() + (address - reinterpret_cast<uint8_t*>(plan.data()));
  uint32_t distance = 0;
  std::memcpy(&distance, offset, sizeof distance);
  distance -= sizeof distance;
  std::memcpy(offset, &distance, sizeof distance);
  const uint32_t one = 1;
  std::memcpy(offset + distance, &one, sizeof one);
  reseal(plan);
}

std::vector<Fixture> table_fixtures() {
  using Rule = VerifyRule;
  return {
      {Rule::IndexStructure,
       "a broken root",
       {},
       [](Bytes& plan) {
         PlanHeader h = header_of(plan);
         const uint64_t at = section(h, rlx::SectionKind::Index).offset_bytes;
         std::memset(plan.data() + at, 0xFF, 4);
         reseal(plan);
       }},
      {Rule::IndexStructure,
       "records four bytes before their place",
       {},
       [](Bytes& plan) {
         misplace_vector(plan, [](const rlx::fb::Plan& index) {
           return std::pair(table_of(index.kernels()->Get(0)), rlx::fb::Kernel::VT_ACCESSES);
         });
       }},
      {Rule::IndexShared, "19 variants of a kernel",
       [](PlanSpec& spec) { spec.kernels[0].variants.resize(19, spec.kernels[0].variants[0]); }},
      {Rule::IndexShared, "a kernel that is two kernels",
       [](PlanSpec& spec) { spec.kernels.push_back(spec.kernels[0]); },
       [](Bytes& plan) {
         share_records(plan, [](const rlx::fb::Plan& index) { return index.kernels(); });
       }},
      {Rule::IndexStructure,
       "dims at 4 of 8 bytes",
       {},
       [](Bytes& plan) {
         misplace_vector(plan, [](const rlx::fb::Plan& index) {
           return std::pair(table_of(index.entries()->Get(0)->values()->Get(6)),
                            rlx::fb::Value::VT_DIMS);
         });
       }},
      {Rule::EntryCount, "2,049 entries",
       [](PlanSpec& spec) {
         spec.entries.resize(2049, spec.entries[1]);
         for (size_t e = 2; e < spec.entries.size(); ++e)
           spec.entries[e].name = "e" + std::to_string(e);
       }},
      {Rule::EntryMissing, "no entry", [](PlanSpec& spec) { spec.entries.clear(); }},
      {Rule::NameForm, "a weight without a name",
       [](PlanSpec& spec) { spec.weights[0].name = ""; }},
      {Rule::NameForm, "a state whose name is no UTF-8",
       [](PlanSpec& spec) { spec.states[0].name = "\xC3("; }},
      {Rule::NameForm, "a weight whose name sets the window's title",
       [](PlanSpec& spec) { spec.weights[0].name = "w\x1b]0;owned\x07"; }},
      {Rule::NameForm, "an entry point with a control character of Latin-1",
       [](PlanSpec& spec) { spec.kernels[0].variants[0].entry_point = "main\xC2\x9B"; }},
      {Rule::NameForm, "a kernel whose name is written from right to left",
       [](PlanSpec& spec) { spec.kernels[0].name = "region\xE2\x80\xAE"; }},
      {Rule::NameForm, "a value whose name has two lines",
       [](PlanSpec& spec) {
         spec.entries[0].values[6].name =
             "a\xE2\x80\xA8"
             "b";
       }},
      {Rule::NameForm, "a symbol whose name ends in a delete",
       [](PlanSpec& spec) { spec.symbols[0].name = "batch\x7F"; }},
      {Rule::NameForm, "a note of two lines",
       [](PlanSpec& spec) { spec.note_reason = "only\none"; }},
      {Rule::NameForm, "a refusal of two lines",
       [](PlanSpec& spec) { spec.offers = {{.kernel = "region", .refusal = "no\nroom"}}; }},
      {Rule::NameForm, "an entry whose name is 257 bytes",
       [](PlanSpec& spec) { spec.entries[0].name.assign(257, 'e'); }},
      main_fixture(Rule::NameUnique, "two outputs of one name",
                   [](SpecEntry& e) { e.values[2].name = "y"; }),
      main_fixture(Rule::EnumRange, "an unknown dtype",
                   [](SpecEntry& e) { e.values[6].dtype = 99; }),
      main_fixture(Rule::EnumRange, "an unknown kind of step",
                   [](SpecEntry& e) { e.steps[1].kind = fb::StepKind(9); }),
      main_fixture(Rule::EnumRange, "a step of kind 5",
                   [](SpecEntry& e) { e.steps[1].kind = static_cast<fb::StepKind>(5); }),
      {Rule::EnumRange, "a state of an unknown dtype",
       [](PlanSpec& spec) {
         spec.state_bytes = 512;
         spec.states.push_back({.name = "strange", .dtype = 99, .offset_bytes = 256});
       }},
      {Rule::EnumRange, "a state that begins as 1, which older minors take for ones",
       [](PlanSpec& spec) {
         spec.states[0].init = static_cast<fb::StateInit>(1);
         spec.states[0].init_weight.reset();
       }},
      {Rule::EnumRange, "a state that begins as 3",
       [](PlanSpec& spec) {
         spec.states[0].init = static_cast<fb::StateInit>(3);
         spec.states[0].init_weight.reset();
       }},
      main_fixture(Rule::EnumRange, "an access that does nothing",
                   [](SpecEntry& e) { e.steps[1].relocations[1].mode = fb::AccessMode::None; }),
      main_fixture(Rule::ValueIndex, "a relocation to value 9",
                   [](SpecEntry& e) { e.steps[1].relocations[1].value = 9; }),
      main_fixture(Rule::ValueIndex, "an input that is value 9",
                   [](SpecEntry& e) { e.inputs.push_back(9); }),
      {Rule::ValueIndex, "a state that begins as weight 3",
       [](PlanSpec& spec) { spec.states[0].init_weight = 3; }},
      main_fixture(Rule::KernelIndex, "kernel 1 of 1", [](SpecEntry& e) { e.steps[1].kernel = 1; }),
      main_fixture(Rule::RelocationList, "relocations past the list",
                   [](SpecEntry& e) { e.steps[5].relocation_first = 13; }),
      main_fixture(Rule::EdgeList, "an edge from a later step",
                   [](SpecEntry& e) { e.steps[1].edges = {2}; }),
      main_fixture(Rule::WaveOrder, "a wave left out",
                   [](SpecEntry& e) {
                     for (size_t s = 3; s < 6; ++s) e.steps[s].wave = 4;
                   }),
      main_fixture(Rule::WaveOrder, "a wrong number of waves",
                   [](SpecEntry& e) { e.wave_count = 9; }),
      main_fixture(Rule::ParamsRange, "params past their section",
                   [](SpecEntry& e) { e.steps[1].params_offset = 9; }),
      {Rule::CodeRange, "code past its section",
       [](PlanSpec& spec) { spec.kernels[0].variants[0].code_offset = 4; }},
      {Rule::CodeShared, "one code under two entry points",
       [](PlanSpec& spec) {
         spec.kernels.push_back(spec.kernels[0]);
         for (SpecKernel& kernel : spec.kernels) kernel.variants[0].names_contract = false;
         spec.kernels[1].variants[0].entry_point = "other";
       }},
      main_fixture(Rule::IoRole, "an input that is a weight",
                   [](SpecEntry& e) {
                     e.inputs = {0, 3};
                   }),
      main_fixture(Rule::IoRole, "an io value without a role",
                   [](SpecEntry& e) { e.outputs = {1}; }),
      main_fixture(Rule::LifetimeRange, "a life past the last step",
                   [](SpecEntry& e) { e.values[8].last_step = 6; }),
      {Rule::SymbolRange, "a minimum above the maximum",
       [](PlanSpec& spec) { spec.symbols[0].minimum = 9; }},
      {Rule::SymbolRange, "a multiple of 0",
       [](PlanSpec& spec) { spec.symbols[0].multiple_of = 0; }},
      {Rule::DebugStructure,
       "broken debug notes",
       {},
       [](Bytes& plan) {
         PlanHeader h = header_of(plan);
         std::memset(plan.data() + section(h, rlx::SectionKind::Debug).offset_bytes, 0xFF, 4);
         reseal(plan);
       }},
  };
}

std::vector<Fixture> size_fixtures() {
  using Rule = VerifyRule;
  return {
      main_fixture(Rule::ValueBytes, "4 bytes short",
                   [](SpecEntry& e) { e.values[7].size_bytes -= 4; }),
      main_fixture(Rule::ValueBytes, "dims that overflow",
                   [](SpecEntry& e) {
                     e.values[7].dims = {uint64_t{1} << 39, uint64_t{1} << 39};
                   }),
      main_fixture(Rule::ValueBytes, "rank 9",
                   [](SpecEntry& e) { e.values[7].dims = {64, 1, 1, 1, 1, 1, 1, 1, 1}; }),
      main_fixture(Rule::ValueSegment, "a value past the arena",
                   [](SpecEntry& e) { e.values[7].offset_bytes = 512; }),
      main_fixture(Rule::ValueAlignment, "a value at byte 16",
                   [](SpecEntry& e) {
                     e.values[7].offset_bytes = 272;
                     e.values[7].dims = {4};
                     e.values[7].size_bytes = 16;
                   }),
      main_fixture(Rule::ValueOwner, "a value across two states' room",
                   [](SpecEntry& e) {
                     e.values[4].offset_bytes = 256;
                     e.values[4].dims = {128};
                     e.values[4].size_bytes = 512;
                   }),
      {Rule::WeightBytes, "a weight 4 bytes short",
       [](PlanSpec& spec) {
         spec.weights.push_back({.name = "short", .dims = {64}, .size_bytes = 252});
       }},
      {Rule::WeightRange, "an inline weight past the section",
       [](PlanSpec& spec) {
         spec.weights.push_back(
             {.name = "far", .dims = {64}, .offset_bytes = 512, .size_bytes = 256});
       }},
      {Rule::WeightOverlap, "a generated weight on an inline one",
       [](PlanSpec& spec) {
         spec.weights.push_back({.name = "on",
                                 .dims = {64},
                                 .kind = fb::WeightKind::Generated,
                                 .offset_bytes = 0,
                                 .size_bytes = 256});
       }},
      {Rule::WeightFile, "a weight in no file",
       [](PlanSpec& spec) {
         spec.weights.push_back({.name = "elsewhere",
                                 .dims = {0},
                                 .kind = fb::WeightKind::External,
                                 .offset_bytes = 0,
                                 .size_bytes = 0});
       }},
      {Rule::WeightFile, "a weight past the end of its file",
       [](PlanSpec& spec) {
         spec.weight_files.push_back({.name = "w.bin", .size_bytes = 100});
         spec.weights.push_back({.name = "elsewhere",
                                 .dims = {0},
                                 .kind = fb::WeightKind::External,
                                 .file_offset = 101});
       }},
      {Rule::WeightFile, "a weight file outside the folder",
       [](PlanSpec& spec) { spec.weight_files.push_back({.name = "a/../../w.bin"}); }},
      {Rule::WeightFile, "a weight file at an absolute path",
       [](PlanSpec& spec) { spec.weight_files.push_back({.name = "/w.bin"}); }},
      {Rule::StateRange, "a state past its segment",
       [](PlanSpec& spec) {
         spec.states.push_back(
             {.name = "far", .dims = {64}, .offset_bytes = 256, .size_bytes = 256});
       }},
      {Rule::StateRange, "two states on the same bytes",
       [](PlanSpec& spec) {
         spec.states.push_back({.name = "twin", .dims = {64}, .size_bytes = 256});
       }},
      {Rule::StateInitial, "a state of 16 bytes that begins as a weight of 256",
       [](PlanSpec& spec) {
         spec.state_bytes = 512;
         spec.states.push_back({.name = "small",
                                .dims = {4},
                                .offset_bytes = 256,
                                .size_bytes = 16,
                                .init = fb::StateInit::Weight,
                                .init_weight = 0});
       }},
      header_fixture(Rule::SegmentBytes, "less io than the entries need",
                     [](PlanHeader& h) { h.io_bytes -= 256; }),
      header_fixture(Rule::SegmentBytes, "more arena than the entries need",
                     [](PlanHeader& h) { h.arena_bytes += 256; }),
      header_fixture(Rule::SegmentBytes, "other host bytes",
                     [](PlanHeader& h) { h.host_bytes -= 1; }),
      main_fixture(Rule::ArenaBound, "a bound above the arena",
                   [](SpecEntry& e) { e.arena_lower_bound = 513; }),
  };
}

// Fills the bytes of one value one word at a time, then copies the whole again and again.
void make_tangle(SpecEntry& entry) {
  constexpr uint32_t kWords = 1300;
  entry = {.name = "main", .outputs = {1}, .arena_bytes = 5376};
  const uint64_t bytes = kWords * 4;
  entry.values = {{.name = "a", .dims = {kWords}, .size_bytes = bytes, .last_step = 2 * kWords - 1},
                  {.name = "y",
                   .dims = {kWords},
                   .segment = fb::Segment::Io,
                   .size_bytes = bytes,
                   .last_step = 2 * kWords - 1}};
  for (uint32_t i = 0; i < kWords; ++i) {
    entry.steps.push_back(
        {.kind = fb::StepKind::Fill,
         .relocations = {
             {.offset_bytes = i * 4, .length_bytes = 4, .mode = fb::AccessMode::Write}}});
  }
  for (uint32_t i = 0; i < kWords; ++i) {
    entry.steps.push_back(
        {.kind = fb::StepKind::Copy,
         .wave = i + 1,
         .relocations = {
             {.length_bytes = bytes},
             {.value = 1, .position = 8, .length_bytes = bytes, .mode = fb::AccessMode::Write}}});
  }
}

std::vector<Fixture> order_fixtures() {
  using Rule = VerifyRule;
  return {
      main_fixture(Rule::LifetimeOverlap, "a still alive where c begins",
                   [](SpecEntry& e) { e.values[6].last_step = 2; }),
      main_fixture(Rule::LifetimeAccess, "b used after its life",
                   [](SpecEntry& e) { e.steps[3].relocations[0].value = 7; }),
      main_fixture(Rule::WeightWritten, "a copy into a weight",
                   [](SpecEntry& e) { e.steps[4].relocations[1].value = 4; }),
      main_fixture(Rule::InputWritten, "a copy into the input",
                   [](SpecEntry& e) { e.steps[4].relocations[1].value = 0; }),
      {Rule::InitReach, "init names a state that it does not use",
       [](PlanSpec& spec) {
         spec.init->values.push_back(spec.entries[0].values[5]);
         spec.init->values[1].last_step = 0;
       }},
      {Rule::InitReach, "init fills a state",
       [](PlanSpec& spec) {
         spec.init->values.push_back(spec.entries[0].values[5]);
         spec.init->values[1].last_step = 0;
         spec.init->steps.push_back(spec.init->steps[0]);
         spec.init->steps[1].relocations[0].value = 1;
         spec.init->values[0].last_step = 1;
         spec.init->values[1].last_step = 1;
       }},
      main_fixture(Rule::ReadCovered, "half of a written",
                   [](SpecEntry& e) {
                     e.steps[0].relocations[0].length_bytes = 128;
                     e.steps[0].relocations[1].length_bytes = 128;
                   }),
      main_fixture(Rule::OutputCovered, "half of z written",
                   [](SpecEntry& e) { e.steps[5].relocations[0].length_bytes = 8; }),
      {Rule::GeneratedCovered, "half of g written",
       [](PlanSpec& spec) { spec.init->steps[0].relocations[0].length_bytes = 128; }},
      {Rule::GeneratedCovered, "no init entry", [](PlanSpec& spec) { spec.init.reset(); }},
      main_fixture(Rule::WaveSeparates, "a barrier taken away",
                   [](SpecEntry& e) {
                     for (size_t s = 3; s < 6; ++s) e.steps[s].wave = 2;
                   }),
      main_fixture(Rule::EdgeSeparates, "an edge taken away",
                   [](SpecEntry& e) { e.steps[2].edges = {}; }),
      main_fixture(Rule::EdgeSeparates, "the edge to the state's writer taken away",
                   [](SpecEntry& e) { e.steps[4].edges = {}; }),
      {Rule::WorkBudget, "1,300 readers of 1,300 pieces",
       [](PlanSpec& spec) {
         make_tangle(spec.entries[0]);
         spec.debug_notes = false;
       }},
  };
}

std::vector<Fixture> param_fixtures() {
  using Rule = VerifyRule;
  return {
      main_fixture(Rule::ParamsBytes, "16 bytes of params for 24",
                   [](SpecEntry& e) { e.steps[1].params_bytes = 16; }),
      main_fixture(Rule::ParamsBytes, "params for a copy",
                   [](SpecEntry& e) { e.steps[0].params_bytes = 8; }),
      {Rule::AccessForm, "a pointer at byte 20",
       [](PlanSpec& spec) { spec.kernels[0].accesses[2].position = 20; }},
      main_fixture(Rule::RelocationPosition, "two pointers in one place",
                   [](SpecEntry& e) { e.steps[1].relocations[2].position = 8; }),
      main_fixture(Rule::RelocationPosition, "a pointer without an address",
                   [](SpecEntry& e) { e.steps[1].relocations.pop_back(); }),
      main_fixture(Rule::RelocationRange, "a range past its value",
                   [](SpecEntry& e) { e.steps[1].relocations[1].length_bytes = 260; }),
      main_fixture(Rule::RelocationRange, "a range that wraps",
                   [](SpecEntry& e) { e.steps[1].relocations[1].offset_bytes = UINT64_MAX - 15; }),
      {Rule::RelocationRange, "a pointer that stands behind its range",
       [](PlanSpec& spec) { spec.params[9] = std::byte{1}; }},
      main_fixture(Rule::RelocationMode, "a write declared as a read",
                   [](SpecEntry& e) { e.steps[1].relocations[0].mode = fb::AccessMode::Read; }),
      main_fixture(Rule::RelocationBytes, "128 bytes for 256",
                   [](SpecEntry& e) { e.steps[1].relocations[2].length_bytes = 128; }),
      {Rule::RelocationAlignment, "an address of alignment 4",
       [](PlanSpec& spec) {
         spec.kernels[0].accesses[2].min_bytes = 16;
         spec.entries[0].steps[1].relocations[2].offset_bytes = 4;
         spec.entries[0].steps[1].relocations[2].length_bytes = 252;
       }},
      main_fixture(Rule::CopyForm, "a copy of two lengths",
                   [](SpecEntry& e) { e.steps[0].relocations[0].length_bytes = 128; }),
      main_fixture(Rule::CopyForm, "a copy onto itself",
                   [](SpecEntry& e) {
                     e.steps[3].relocations[1] = e.steps[3].relocations[0];
                     e.steps[3].relocations[1].mode = fb::AccessMode::Write;
                   }),
      main_fixture(Rule::FillForm, "a fill of 7 bytes",
                   [](SpecEntry& e) { e.steps[5].relocations[0].length_bytes = 7; }),
  };
}

std::vector<Fixture> limit_and_code_fixtures() {
  using Rule = VerifyRule;
  const auto variant_fixture = [](Rule rule, std::string what,
                                  std::function<void(SpecVariant&)> edit) {
    return Fixture{rule, std::move(what),
                   [edit = std::move(edit)](PlanSpec& spec) { edit(spec.kernels[0].variants[0]); }};
  };
  return {
      main_fixture(Rule::GridLimit, "an empty grid", [](SpecEntry& e) { e.steps[1].grid[1] = 0; }),
      main_fixture(Rule::GridLimit, "70,000 workgroups along z",
                   [](SpecEntry& e) { e.steps[1].grid[2] = 70000; }),
      variant_fixture(Rule::WorkgroupLimit, "256 of 128 invocations",
                      [](SpecVariant& v) {
                        v.workgroup = {256, 1, 1};
                      }),
      variant_fixture(Rule::SharedLimit, "20,000 bytes of 16,384",
                      [](SpecVariant& v) { v.shared_bytes = 20000; }),
      {Rule::ParamsLimit, "more params than the target has",
       [](PlanSpec& spec) { spec.vulkan.max_params_bytes = 16; }},
      variant_fixture(Rule::CodeHash, "another hash", [](SpecVariant& v) { v.code_hash = 1; }),
      variant_fixture(Rule::CodeFormat, "PTX for Vulkan",
                      [](SpecVariant& v) { v.format = fb::CodeFormat::Ptx; }),
      variant_fixture(Rule::CodeFeatures, "a feature that the header lacks",
                      [](SpecVariant& v) { v.features |= 2; }),
      variant_fixture(Rule::SpirvForm, "an instruction past the end",
                      [](SpecVariant& v) { v.code[v.code.size() - 2] = std::byte{9}; }),
      variant_fixture(Rule::SpirvForm, "SPIR-V 1.6 for Vulkan 1.2",
                      [](SpecVariant& v) { v.code = empty_kernel({.version = 0x00010600}); }),
      variant_fixture(Rule::SpirvEntry, "another entry point",
                      [](SpecVariant& v) { v.code = empty_kernel({.entry_point = "other"}); }),
      variant_fixture(Rule::SpirvWorkgroup, "another workgroup",
                      [](SpecVariant& v) {
                        v.code = empty_kernel({.local_size = {32, 2, 1}});
                      }),
      variant_fixture(Rule::SpirvParams, "32 bytes of push constants for 24",
                      [](SpecVariant& v) { v.code = empty_kernel({.push_constant_words64 = 4}); }),
      variant_fixture(Rule::SpirvCapability, "a capability without its feature",
                      [](SpecVariant& v) {
                        v.code = empty_kernel({.capabilities = {1, 11, 10}});
                      }),
      variant_fixture(Rule::SpirvCapability, "a capability that plans may not use",
                      [](SpecVariant& v) {
                        v.code = empty_kernel({.capabilities = {1, 11, 5}});
                      }),
      {Rule::VariantMissing, "no code for the claimed sm_90",
       [](PlanSpec& spec) {
         add_cuda(spec);
         spec.kernels[0].variants.erase(spec.kernels[0].variants.begin() + 1);
       }},
      {Rule::VariantUnclaimed, "code for a target that the header does not name",
       [](PlanSpec& spec) {
         add_cuda(spec);
         spec.cuda = {};
       }},
      {Rule::EntryTargets, "two entries of one name for one target",
       [](PlanSpec& spec) { spec.entries.push_back(spec.entries[0]); }},
      {Rule::EntryTargets, "an entry for no target",
       [](PlanSpec& spec) { spec.entries[1].targets = 0; }},
      {Rule::EntryTargets, "an entry for a target that the header does not name",
       [](PlanSpec& spec) { spec.entries[1].targets = 3; }},
      {Rule::EntryTargets, "an entry that only one of two targets has",
       [](PlanSpec& spec) {
         add_cuda(spec);
         spec.entries[1].targets = 1;
       }},
      {Rule::EntryInterface, "an output with another name on the second target",
       [](PlanSpec& spec) {
         add_cuda(spec);
         spec.entries[1].targets = 1;
         spec.entries.push_back(spec.entries[1]);
         spec.entries[2].targets = 2;
         spec.entries[2].values[spec.entries[2].outputs[0]].name = "w";
       }},
      {Rule::VariantUnclaimed, "two codes for Vulkan",
       [](PlanSpec& spec) { spec.kernels[0].variants.push_back(spec.kernels[0].variants[0]); }},
  };
}

std::vector<Fixture> all_fixtures() {
  std::vector<Fixture> all;
  for (auto list :
       {container_fixtures(), table_fixtures(), size_fixtures(), order_fixtures(), param_fixtures(),
        limit_and_code_fixtures(), gemm_fixtures(), cuda_fixtures(), index_error_fixtures(),
        contract_fixtures(), free_fixtures(), profile_fixtures(), region_fixtures()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

}  // namespace

TEST_CASE("valid_plans_have_no_fault") {
  for (const VerifyFault& fault : verify_plan(serialise(small_plan()), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
  for (const VerifyFault& fault : verify_plan(serialise(chain_plan(50)), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
  for (const VerifyFault& fault : verify_plan(serialise(gemm_plan()), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
  for (const VerifyFault& fault : verify_plan(serialise(alternative_plan()), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
  PlanSpec lines_of_range = map_plan();
  lines_of_range.kernels[0].maps[0].dims[1] = rlx::kLinesOfRange;
  lines_of_range.kernels[0].accesses[0].min_bytes = 144;  // one line
  for (const VerifyFault& fault : verify_plan(serialise(lines_of_range), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
  for (const VerifyFault& fault : verify_plan(serialise(map_plan()), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
  for (const VerifyFault& fault : verify_plan(serialise(window_plan()), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
  for (const VerifyFault& fault : verify_plan(serialise(sized_map_plan()), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
  for (const VerifyFault& fault : verify_plan(serialise(three_words_plan()), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
  for (const VerifyFault& fault : verify_plan(serialise(counted_plan()), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
  for (const PlanSpec& spec : {free_plan(), free_gemm_plan()}) {
    for (const VerifyFault& fault : verify_plan(serialise(spec), {.max_faults = 10}))
      FAIL_CHECK(fault.message);
  }
  for (const PlanSpec& spec : {profiled_plan(), region_plan()}) {
    for (const VerifyFault& fault : verify_plan(serialise(spec), {.max_faults = 10}))
      FAIL_CHECK(fault.message);
  }
  PlanSpec both = small_plan();
  add_cuda(both);
  for (const VerifyFault& fault : verify_plan(serialise(both), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
}

TEST_CASE("each_fixture_breaks_its_rule_and_no_other") {
  for (const Fixture& fixture : all_fixtures()) {
    INFO(rule_text(fixture.rule).code << " " << rule_text(fixture.rule).name << ": "
                                      << fixture.what);
    const std::vector<VerifyFault> faults = verify_plan(broken(fixture), {.max_faults = 20});
    CHECK_FALSE(faults.empty());
    for (const VerifyFault& fault : faults) {
      INFO(fault.message);
      CHECK(fault.rule == fixture.rule);
      CHECK(fault.message.starts_with(std::string(rule_text(fixture.rule).code) + ": "));
    }
  }
}

TEST_CASE("every_rule_has_a_fixture") {
  std::set<VerifyRule> covered;
  for (const Fixture& fixture : all_fixtures()) covered.insert(fixture.rule);
  for (const BindingFixture& fixture : binding_fixtures()) covered.insert(fixture.fixture.rule);
  for (size_t i = 0; i < all_verify_rules().size(); ++i) {
    INFO(all_verify_rules()[i].code << " " << all_verify_rules()[i].law);
    CHECK(covered.count(static_cast<VerifyRule>(i)) == 1);
  }
}

TEST_CASE("rule_codes_are_unique") {
  std::set<std::string_view> codes;
  for (const rlx::VerifyRuleText& rule : all_verify_rules()) CHECK(codes.insert(rule.code).second);
}

TEST_CASE("the_first_fault_alone_is_given_where_one_is_asked") {
  PlanSpec spec = small_plan();
  spec.entries[0].values[6].dtype = 99;
  spec.entries[0].values[7].dtype = 99;
  const Bytes plan = serialise(spec);
  CHECK(verify_plan(plan).size() == 1);
  CHECK(verify_plan(plan, {.max_faults = 20}).size() == 2);
}

TEST_CASE("removing_any_edge_or_barrier_of_a_chain_is_refused") {
  const PlanSpec valid = chain_plan(12);
  for (size_t s = 1; s < 12; ++s) {
    PlanSpec spec = valid;
    spec.entries[0].steps[s].edges.clear();
    REQUIRE(verify_plan(serialise(spec)).size() == 1);
    CHECK(verify_plan(serialise(spec))[0].rule == VerifyRule::EdgeSeparates);
    spec = valid;
    for (size_t later = s; later < 12; ++later) --spec.entries[0].steps[later].wave;
    REQUIRE(verify_plan(serialise(spec)).size() == 1);
    CHECK(verify_plan(serialise(spec))[0].rule == VerifyRule::WaveSeparates);
  }
}

TEST_CASE("edges_order_through_other_steps") {
  // Step 200 reuses the bytes that step 0 read, and is joined to it by a path of edges alone.
  PlanSpec spec = chain_plan(201);
  CHECK(verify_plan(serialise(spec)).empty());
  // The path is cut far from either end.
  spec.entries[0].steps[100].edges = {98};
  REQUIRE(verify_plan(serialise(spec)).size() == 1);
  CHECK(verify_plan(serialise(spec))[0].rule == VerifyRule::EdgeSeparates);
}

TEST_CASE("in_place_values_share_bytes_when_declared") {
  PlanSpec spec = small_plan();
  SpecEntry& main = spec.entries[0];
  // c takes b's bytes over in the step that reads b.
  main.values[8].offset_bytes = 256;
  REQUIRE_FALSE(verify_plan(serialise(spec)).empty());
  CHECK(verify_plan(serialise(spec))[0].rule == VerifyRule::LifetimeOverlap);
  main.values[8].alias_of = 7;
  for (const VerifyFault& fault : verify_plan(serialise(spec), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
}

TEST_CASE("an_alias_does_not_cover_a_third_value") {
  PlanSpec spec = small_plan();
  SpecEntry& main = spec.entries[0];
  // c is b's alias, but lies on a, which still lives.
  main.values[6].last_step = 2;
  main.values[8].alias_of = 7;
  REQUIRE_FALSE(verify_plan(serialise(spec)).empty());
  CHECK(verify_plan(serialise(spec))[0].rule == VerifyRule::LifetimeOverlap);
}

TEST_CASE("weights_are_checked_on_request") {
  Bytes plan = serialise(small_plan());
  plan.back() ^= std::byte{1};
  CHECK(verify_plan(plan).empty());
  const std::vector<VerifyFault> faults = verify_plan(plan, {.check_weights = true});
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].rule == VerifyRule::SectionChecksum);
}

TEST_CASE("a_section_of_a_newer_minor_is_skipped") {
  PlanSpec spec = small_plan();
  spec.edit_header = [](PlanHeader& h) {
    h.minor = rlx::kPlanMinor + 1;
    section(h, rlx::SectionKind::Debug).kind = 77;
    section(h, rlx::SectionKind::Params);
  };
  for (const VerifyFault& fault : verify_plan(serialise(spec))) FAIL_CHECK(fault.message);
}

// Kind 5, a self-test of older minors: not even its checksum is read.
TEST_CASE("a_self_test_section_is_skipped_and_refused_where_it_is_critical") {
  PlanSpec spec = small_plan();
  uint32_t flags = 0;
  spec.edit_header = [&](PlanHeader& h) {
    section(h, rlx::SectionKind::Debug).checksum ^= 1;
    section(h, rlx::SectionKind::Debug).flags = flags;
    section(h, rlx::SectionKind::Debug).kind = 5;
  };
  for (const VerifyFault& fault : verify_plan(serialise(spec))) FAIL_CHECK(fault.message);
  flags = rlx::kSectionCritical;
  const std::vector<VerifyFault> faults = verify_plan(serialise(spec));
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].rule == VerifyRule::SectionUnknown);
  CHECK(faults[0].message.find("of kind 5 and marked critical") != std::string::npos);
}

// SPIR-V may declare each capability of the list with its feature, as the compiler takes it to.
TEST_CASE("code_may_declare_every_listed_capability_with_its_features") {
  for (const rlx::SpirvCapability& row : rlx::kSpirvCapabilities) {
    INFO(row.name);
    PlanSpec spec = small_plan();
    SpecVariant& variant = spec.kernels[0].variants[0];
    variant.code = empty_kernel({.capabilities = {1, 11, row.number}});
    spec.vulkan.features |= row.features;
    variant.features |= row.features;
    for (const VerifyFault& fault : verify_plan(serialise(spec))) FAIL_CHECK(fault.message);
    variant.features &= ~row.features;
    CHECK(verify_plan(serialise(spec)).empty() == (row.features == 0));
  }
}

TEST_CASE("a_plan_of_minor_0_has_no_words_of_index_errors_and_opens") {
  PlanSpec spec = small_plan();
  spec.edit_header = [](PlanHeader& h) {
    h.minor = 0;
    REQUIRE(h.index_error_bytes == 0);
  };
  for (const VerifyFault& fault : verify_plan(serialise(spec))) FAIL_CHECK(fault.message);
}

TEST_CASE("a_residual_may_be_y_itself") {
  PlanSpec spec = gemm_plan();
  SpecEntry& main = spec.entries[0];
  // The residual is an arena value that the product turns into its result.
  main.inputs = {0, 1, 2};
  main.values[3].segment = fb::Segment::Arena;
  main.values[3].offset_bytes = 512;
  main.values[3].last_step = 2;
  main.values[5].first_step = main.values[5].last_step = 1;
  for (uint32_t v : {0, 1, 2, 4}) main.values[v].last_step = 2;
  main.arena_bytes = 1536;
  SpecStep product = main.steps[0];
  product.wave = 1;
  product.edges = {0};
  product.relocations[4].value = 3;
  main.steps = {
      {.kind = fb::StepKind::Fill,
       .relocations = {{.value = 3, .length_bytes = 1024, .mode = fb::AccessMode::Write}}},
      product,
      {.kind = fb::StepKind::Copy,
       .wave = 2,
       .relocations =
           {{.value = 3, .length_bytes = 1024},
            {.value = 4, .position = 8, .length_bytes = 1024, .mode = fb::AccessMode::Write}},
       .edges = {1}}};
  for (const VerifyFault& fault : verify_plan(serialise(spec), {.max_faults = 10}))
    FAIL_CHECK(fault.message);
  main.gemms[0].residual_pitch = 40;
  REQUIRE_FALSE(verify_plan(serialise(spec)).empty());
}
