// SPDX-License-Identifier: Apache-2.0
// Plans whose sizes depend on free symbols, and what their terms and patches can get wrong.
#include <cstring>
#include <optional>

#include "tests/runtime/verify_fixture.h"

namespace rlx::test {
namespace {

using fb::PatchField;
using fb::SizeOp;

// Of free_plan(): terms.
constexpr uint32_t kBatchTerm = 0;
constexpr uint32_t kSeqTerm = 1;
constexpr uint32_t kFourTerm = 3;
constexpr uint32_t kBytesTerm = 4;
// Of its kernel: the position of the count, and of a plain word.
constexpr uint32_t kCountWord = 16;
constexpr uint32_t kPlainWord = 20;

Fixture free_fixture(VerifyRule rule, std::string what, std::function<void(SpecEntry&)> edit) {
  return {.rule = rule,
          .what = std::move(what),
          .edit = [edit = std::move(edit)](PlanSpec& spec) { edit(spec.entries[0]); },
          .base = free_plan};
}

Fixture term_fixture(std::string what, fb::SizeTerm term) {
  return free_fixture(VerifyRule::SizeTermForm, std::move(what),
                      [term](SpecEntry& e) { e.sizes.push_back(term); });
}

// A further patch, behind those of its field.
Fixture patch_fixture(VerifyRule rule, std::string what, fb::Patch patch) {
  return free_fixture(rule, std::move(what), [patch](SpecEntry& e) { add_patch(e, patch); });
}

// Of step 1 of free_plan(), the dispatch, up to 8 of seq: its own kernel with a grid of four times
// what seq is.
fb::StepForm good_form(uint64_t most = 8) {
  return {most, 1, 0, kSeqTerm, 7, kFourTerm, kFourTerm};
}

Fixture form_fixture(VerifyRule rule, std::string what, const std::vector<fb::StepForm>& forms) {
  return free_fixture(rule, std::move(what), [forms](SpecEntry& e) { e.forms = forms; });
}

std::vector<Fixture> form_fixtures() {
  using Rule = VerifyRule;
  const auto other_kernel = [](Rule rule, std::string what, std::function<void(SpecKernel&)> edit) {
    return Fixture{.rule = rule,
                   .what = std::move(what),
                   .edit =
                       [edit = std::move(edit)](PlanSpec& spec) {
                         spec.kernels.push_back(SpecKernel(spec.kernels[0]));
                         edit(spec.kernels[1]);
                         spec.entries[0].forms = {{8, 1, 1, kSeqTerm, 7, kFourTerm, kFourTerm}};
                       },
                   .base = free_plan};
  };
  return {
      form_fixture(Rule::FormRecord, "a form of a copy",
                   {{8, 0, 0, kSeqTerm, 7, kFourTerm, kFourTerm}}),
      form_fixture(Rule::FormRecord, "a form of a step that there is not",
                   {{8, 3, 0, kSeqTerm, 7, kFourTerm, kFourTerm}}),
      form_fixture(Rule::FormRecord, "a form's kernel that there is not",
                   {{8, 1, 1, kSeqTerm, 7, kFourTerm, kFourTerm}}),
      form_fixture(Rule::FormRecord, "a form by a size that there is not",
                   {{8, 1, 0, 8, 7, kFourTerm, kFourTerm}}),
      form_fixture(Rule::FormRecord, "a form's grid that there is not",
                   {{8, 1, 0, kSeqTerm, 7, kFourTerm, 8}}),
      form_fixture(Rule::FormRecord, "forms out of order", {good_form(8), good_form(4)}),
      form_fixture(Rule::FormRecord, "a form twice", {good_form(8), good_form(8)}),
      form_fixture(Rule::FormMaximum, "a form at the maximum", {good_form(16)}),
      other_kernel(Rule::ParamsBytes, "a form's kernel of more params",
                   [](SpecKernel& kernel) { kernel.params_bytes = 40; }),
      other_kernel(Rule::RelocationMode, "a form's kernel that writes what the step reads",
                   [](SpecKernel& kernel) { kernel.accesses[1].mode = fb::AccessMode::Write; }),
      other_kernel(Rule::RelocationBytes, "a form's kernel that wants more bytes",
                   [](SpecKernel& kernel) { kernel.accesses[0].min_bytes = 512; }),
      other_kernel(Rule::VariantMissing, "a form's kernel without code",
                   [](SpecKernel& kernel) { kernel.variants.clear(); }),
  };
}

// What is skipped at the maximum is looked at all the same.
std::vector<Fixture> alternate_fixtures() {
  using Rule = VerifyRule;
  const auto fixture = [](Rule rule, std::string what, std::function<void(PlanSpec&)> edit) {
    return Fixture{
        .rule = rule, .what = std::move(what), .edit = std::move(edit), .base = alternates_plan};
  };
  return {
      fixture(Rule::FormRecord, "a form that skips no step",
              [](PlanSpec& spec) {
                spec.entries[0].forms.push_back({8, 4, kSkipForm, 1, 1, 1, 1});
              }),
      fixture(Rule::FormMaximum, "a step that is skipped at the maximum by a form",
              [](PlanSpec& spec) {
                spec.entries[0].forms[1] = {16,       2,        kSkipForm, kSeqTerm,
                                            kSeqTerm, kSeqTerm, kSeqTerm};
              }),
      fixture(Rule::PatchField, "a word of a skipped step that has no forms",
              [](PlanSpec& spec) {
                std::vector<fb::StepForm>& forms = spec.entries[0].forms;
                forms.erase(forms.begin());
              }),
      fixture(Rule::PatchField, "a word of a skipped step that is always skipped",
              [](PlanSpec& spec) {
                spec.entries[0].forms[0] = {8,        1,        kSkipForm, kSeqTerm,
                                            kSeqTerm, kSeqTerm, kSeqTerm};
              }),
      fixture(Rule::PatchField, "a word of a skipped step that is a pointer",
              [](PlanSpec& spec) {
                add_patch(spec.entries[0], {1, 8, kSeqTerm, PatchField::ParamsWord});
              }),
      fixture(Rule::PatchField, "a grid of a skipped step",
              [](PlanSpec& spec) {
                add_patch(spec.entries[0], {1, 1, kSeqTerm, PatchField::Grid});
              }),
      fixture(Rule::RelocationMode, "a skipped step's kernel that writes what it is given to read",
              [](PlanSpec& spec) { spec.kernels[1].accesses[1].mode = fb::AccessMode::Write; }),
      fixture(Rule::VariantMissing, "a skipped step's kernel without code",
              [](PlanSpec& spec) { spec.kernels[1].variants.clear(); }),
  };
}

std::vector<Fixture> term_fixtures() {
  return {
      term_fixture("an unknown operation", {0, 0, 0, static_cast<SizeOp>(10)}),
      term_fixture("a symbol that the plan has not", {0, 2, 0, SizeOp::Symbol}),
      term_fixture("a symbol and a number", {1, 0, 0, SizeOp::Symbol}),
      term_fixture("a number and a term", {1, 1, 0, SizeOp::Constant}),
      term_fixture("itself", {0, 0, 8, SizeOp::Add}),
      term_fixture("a later term", {0, 9, 0, SizeOp::Max}),
      {.rule = VerifyRule::SizeTermForm,
       .what = "a symbol that is bound",
       .edit = [](PlanSpec& spec) { spec.symbols[0].bound = 4; },
       .base = free_plan},
      {.rule = VerifyRule::SymbolRange,
       .what = "a free symbol whose maximum is no multiple",
       .edit = [](PlanSpec& spec) { spec.symbols[1].multiple_of = 3; },
       .base = free_plan},
      free_fixture(VerifyRule::SizeValue, "an overflow at the maximum",
                   [](SpecEntry& e) {
                     e.sizes.emplace_back(uint64_t{1} << 62, 0, 0, SizeOp::Constant);
                     e.sizes.emplace_back(0, 8, kBatchTerm, SizeOp::Multiply);
                   }),
      free_fixture(VerifyRule::SizeValue, "a division by 0",
                   [](SpecEntry& e) {
                     e.sizes.emplace_back(0, 0, 0, SizeOp::Constant);
                     e.sizes.emplace_back(0, kBatchTerm, 8, SizeOp::Modulo);
                   }),
      free_fixture(
          VerifyRule::SizeValue, "a negative number",
          [](SpecEntry& e) { e.sizes.emplace_back(0, kBatchTerm, kBytesTerm, SizeOp::Subtract); }),
      free_fixture(VerifyRule::SizeValue, "a grid of 2^32",
                   [](SpecEntry& e) {
                     e.sizes.emplace_back(uint64_t{1} << 32, 0, 0, SizeOp::Constant);
                     add_patch(e, {1, 1, 8, PatchField::Grid});
                   }),
  };
}

// free_plan() whose kernel reaches 4 bytes for each that its plain word counts, behind the pointer
// to what it reads.
Fixture reach_fixture(VerifyRule rule, std::string what, std::function<void(PlanSpec&)> edit) {
  return {.rule = rule,
          .what = std::move(what),
          .edit =
              [edit = std::move(edit)](PlanSpec& spec) {
                spec.kernels[0].sizes = {{0, kPlainWord, 0, SizeOp::Symbol},
                                         {4, 0, 0, SizeOp::Constant},
                                         {0, 0, 1, SizeOp::Multiply}};
                spec.kernels[0].reaches = {{8, 2}};
                edit(spec);
              },
          .base = free_plan};
}

std::vector<Fixture> reach_fixtures() {
  using Rule = VerifyRule;
  const auto size = [](std::string what, fb::SizeTerm term) {
    return reach_fixture(Rule::ReachForm, std::move(what),
                         [term](PlanSpec& spec) { spec.kernels[0].sizes.push_back(term); });
  };
  const auto reach = [](std::string what, fb::KernelReach further) {
    return reach_fixture(Rule::ReachForm, std::move(what),
                         [further](PlanSpec& spec) { spec.kernels[0].reaches.push_back(further); });
  };
  const auto word = [](std::string what, uint32_t value, fb::SizeTerm last) {
    return reach_fixture(Rule::ReachBound, std::move(what), [value, last](PlanSpec& spec) {
      std::memcpy(spec.params.data() + kPlainWord, &value, sizeof value);
      spec.kernels[0].sizes.back() = last;
    });
  };
  return {
      size("of a count", {0, kCountWord, 0, SizeOp::Symbol}),
      size("of a pointer", {0, 8, 0, SizeOp::Symbol}),
      size("of itself", {0, 0, 3, SizeOp::Add}),
      size("an unknown operation of a kernel", {0, 0, 0, static_cast<SizeOp>(10)}),
      size("a number with an operand", {1, 1, 0, SizeOp::Constant}),
      reach("a pointer that the kernel has not", {16, 2}),
      reach("a pointer twice", {8, 1}),
      reach("a size that the kernel has not", {0, 3}),
      word("an element too far", 65, {0, 0, 1, SizeOp::Multiply}),
      word("a size that is negative", 5, {0, 1, 0, SizeOp::Subtract}),
      word("a division by 0", 0, {0, 1, 0, SizeOp::FloorDivide}),
  };
}

// free_plan() whose kernel sees what it reads as 2 rows of as many pieces of 16 bytes as its plain
// word counts, of which there is room for 8. The code is missing, which later rules tell.
Fixture map_size_fixture(VerifyRule rule, std::string what, uint32_t pieces,
                         std::function<void(fb::TensorMapT&)> edit = {}) {
  return {.rule = rule,
          .what = "a map with sizes: " + std::move(what),
          .edit =
              [pieces, edit = std::move(edit)](PlanSpec& spec) {
                fb::TensorMapT map;
                map.position = 8;
                map.dtype = 1;
                map.dims = {8, 0, 2};
                map.strides = {16, 0};
                map.box = {8, 1, 1};
                map.sizes = {fb::MapSize(1, 0)};
                if (edit) edit(map);
                SpecKernel& kernel = spec.kernels[0];
                kernel.variants = {};
                kernel.accesses[1].alignment = 16;
                kernel.sizes = {{0, kPlainWord, 0, SizeOp::Symbol}};
                kernel.maps = {map};
                std::memcpy(spec.params.data() + kPlainWord, &pieces, sizeof pieces);
              },
          .base = free_plan};
}

std::vector<Fixture> map_size_fixtures() {
  using Rule = VerifyRule;
  using Map = fb::TensorMapT;
  return {
      map_size_fixture(Rule::TensorMapReach, "a piece too many", 9),
      map_size_fixture(Rule::TensorMapForm, "no pieces", 0),
      map_size_fixture(Rule::TensorMapForm, "of the innermost dim", 8,
                       [](Map& m) {
                         m.dims = {0, 8, 2};
                         m.strides = {0, 128};
                         m.sizes = {fb::MapSize(0, 0)};
                       }),
      map_size_fixture(Rule::TensorMapForm, "of the last dim", 8,
                       [](Map& m) { m.sizes = {fb::MapSize(2, 0)}; }),
      map_size_fixture(Rule::TensorMapForm, "of the last dim that a number can name", 8,
                       [](Map& m) { m.sizes = {fb::MapSize(UINT32_MAX, 0)}; }),
      map_size_fixture(Rule::TensorMapForm, "of a dim twice", 8,
                       [](Map& m) { m.sizes.emplace_back(1, 0); }),
      map_size_fixture(Rule::TensorMapForm, "of a dim that has a number", 8,
                       [](Map& m) { m.dims[1] = 8; }),
      map_size_fixture(Rule::TensorMapForm, "a stride beside them", 8,
                       [](Map& m) { m.strides[1] = 128; }),
      map_size_fixture(Rule::TensorMapForm, "one that the kernel has not", 8,
                       [](Map& m) { m.sizes = {fb::MapSize(1, 1)}; }),
  };
}

std::vector<Fixture> patch_fixtures() {
  using Rule = VerifyRule;
  return {
      patch_fixture(Rule::PatchField, "an unknown field", {0, 0, 0, static_cast<PatchField>(10)}),
      patch_fixture(Rule::PatchField, "a size that is not there", {1, 1, 9, PatchField::Grid}),
      patch_fixture(Rule::PatchField, "a value that is not there", {9, 0, 0, PatchField::ValueDim}),
      patch_fixture(Rule::PatchField, "a dim that is not there", {3, 1, 0, PatchField::ValueDim}),
      patch_fixture(Rule::PatchField, "a relocation that is not there",
                    {9, 0, 0, PatchField::RelocationOffset}),
      patch_fixture(Rule::PatchField, "the grid of a copy", {0, 0, 0, PatchField::Grid}),
      patch_fixture(Rule::PatchField, "a fourth axis", {1, 3, 0, PatchField::Grid}),
      patch_fixture(Rule::PatchField, "a pointer of the params", {1, 8, 0, PatchField::ParamsLong}),
      patch_fixture(Rule::PatchField, "half a pointer", {1, 12, 0, PatchField::ParamsWord}),
      patch_fixture(Rule::PatchField, "a word that is not declared",
                    {1, 24, 0, PatchField::ParamsWord}),
      patch_fixture(Rule::PatchField, "a word past the params", {1, 32, 0, PatchField::ParamsWord}),
      patch_fixture(Rule::PatchField, "a word beside its place",
                    {1, kCountWord + 2, 0, PatchField::ParamsWord}),
      patch_fixture(Rule::PatchField, "params of a fill", {2, 0, 0, PatchField::ParamsWord}),
      patch_fixture(Rule::PatchField, "a gemm that is not there", {0, 0, 0, PatchField::Gemm}),
      patch_fixture(Rule::PatchField, "a step that is not there", {9, 0, 0, PatchField::Flops}),
      {.rule = Rule::PatchField,
       .what = "the dims of a state",
       .edit =
           [](PlanSpec& spec) {
             spec.states = {{.name = "s", .dims = {4}, .size_bytes = 16}};
             spec.state_bytes = 256;
             SpecEntry& e = spec.entries[0];
             e.values.push_back({.name = "s",
                                 .dims = {4},
                                 .segment = fb::Segment::State,
                                 .size_bytes = 16,
                                 .last_step = 2});
             add_patch(e, {4, 0, kBatchTerm, PatchField::ValueDim});
           },
       .base = free_plan},
      {.rule = Rule::PatchField,
       .what = "a part that gemms have not",
       .edit =
           [](PlanSpec& spec) {
             add_patch(spec.entries[0], {0, 12, 0, PatchField::Gemm});
           },
       .base = free_gemm_plan},
      {.rule = Rule::PatchStored,
       .what = "a batch of 1 that is not stored",
       .edit =
           [](PlanSpec& spec) {
             spec.stores_defaults = false;
             spec.entries[0].sizes.emplace_back(1, 0, 0, SizeOp::Constant);
             add_patch(spec.entries[0], {0, 3, 2, PatchField::Gemm});
           },
       .base = free_gemm_plan},
      patch_fixture(Rule::PatchOrder, "a dim twice", {3, 0, 1, PatchField::ValueDim}),
      free_fixture(Rule::PatchOrder, "two dims that changed places",
                   [](SpecEntry& e) { std::swap(e.patches[0], e.patches[1]); }),
      patch_fixture(Rule::PatchMaximum, "another grid at the maximum",
                    {1, 1, kBatchTerm, PatchField::Grid}),
      free_fixture(Rule::PatchMaximum, "another count at the maximum",
                   [](SpecEntry& e) {
                     e.patches.back() = {1, kCountWord, kFourTerm, PatchField::ParamsWord};
                   }),
      free_fixture(Rule::FreeEntry, "an alternative",
                   [](SpecEntry& e) { e.alternatives = {{.step = 1, .other = e.steps[1]}}; }),
      {.rule = Rule::FreeInterface,
       .what = "a record for CUDA whose batch is fixed",
       .edit =
           [](PlanSpec& spec) {
             add_cuda(spec);
             spec.entries[0].targets = 1;
             SpecEntry other = spec.entries[0];
             other.targets = 2;
             std::erase_if(other.patches, [](const fb::Patch& patch) {
               return patch.field() == PatchField::ValueDim && patch.index() == 0;
             });
             spec.entries.push_back(other);
           },
       .base = free_plan},
  };
}

// Of values of two dims.
bool is_last_dim(const fb::Patch& patch) {
  return patch.field() == PatchField::ValueDim && patch.part() == 1;
}

std::vector<Fixture> range_fixtures() {
  using Rule = VerifyRule;
  using Edit = std::function<void(SpecEntry & large, SpecEntry & small)>;
  const auto ranged = [](Rule rule, std::string what, Edit edit) {
    return Fixture{.rule = rule,
                   .what = std::move(what),
                   .edit = [edit = std::move(edit)](
                               PlanSpec& spec) { edit(spec.entries[0], spec.entries[1]); },
                   .base = ranged_copies_plan};
  };
  const auto form = [&](std::string what, std::vector<fb::SymbolRange> ranges) {
    return ranged(Rule::RangeForm, std::move(what),
                  [ranges](SpecEntry&, SpecEntry& small) { small.ranges = ranges; });
  };
  return {
      form("a symbol that the plan has not", {{0, 7, 1, 2}}),
      form("more than the symbol's own", {{0, 7, 1, 1}, {1, 5, 1, 0}}),
      form("steps of 0", {{0, 7, 0, 1}}),
      form("a maximum that is no multiple", {{0, 7, 2, 1}}),
      form("a range turned around", {{7, 0, 1, 1}}),
      form("a symbol twice", {{0, 7, 1, 1}, {0, 7, 1, 1}}),
      {.rule = Rule::RangeForm,
       .what = "a symbol that is bound",
       .edit =
           [](PlanSpec& spec) {
             spec.symbols.push_back({.name = "n", .bound = 1});
             spec.entries[1].ranges.emplace_back(1, 1, 1, 2);
           },
       .base = ranged_copies_plan},
      {.rule = Rule::RangeForm,
       .what = "a range of init",
       .edit =
           [](PlanSpec& spec) {
             spec.symbols = {{.name = "n", .minimum = 1, .maximum = 4}};
             spec.init->ranges = {{1, 4, 1, 0}};
           },
       .base = small_plan},
      ranged(Rule::RangeShared, "a value in both",
             [](SpecEntry& large, SpecEntry&) {
               large.ranges = {{7, 16, 1, 1}};
             }),
      ranged(Rule::RangeShared, "a record for all values beside one for some",
             [](SpecEntry& large, SpecEntry&) { large.ranges.clear(); }),
      ranged(Rule::RangeShared, "the smaller one first",
             [](SpecEntry& large, SpecEntry& small) { std::swap(large, small); }),
      ranged(Rule::EntryTargets, "two records of one range",
             [](SpecEntry& large, SpecEntry& small) { small = large; }),
      ranged(Rule::RangeInterface, "an input of another name",
             [](SpecEntry&, SpecEntry& small) { small.values[5].name = "other"; }),
      ranged(Rule::RangeInterface, "inputs in another order",
             [](SpecEntry&, SpecEntry& small) { std::swap(small.inputs[0], small.inputs[1]); }),
      ranged(Rule::RangeInterface, "a number where the larger one has a symbol",
             [](SpecEntry&, SpecEntry& small) {
               small.patches.erase(std::ranges::find_if(small.patches, is_last_dim));
             }),
      ranged(Rule::RangeInterface, "a size that is a symbol's at the maximum alone",
             [](SpecEntry&, SpecEntry& small) {
               const auto seven = static_cast<uint32_t>(small.sizes.size());
               small.sizes.emplace_back(7, 0, 0, fb::SizeOp::Constant);
               std::ranges::find_if(small.patches, is_last_dim)->mutate_size(seven);
             }),
      ranged(Rule::RangeInterface, "an output that only the larger one has",
             [](SpecEntry&, SpecEntry& small) {
               small.outputs.pop_back();
               small.values[0].segment = fb::Segment::Arena;
               small.arena_bytes = 256;
             }),
  };
}

}  // namespace

PlanSpec free_plan() {
  PlanSpec spec = chain_plan(1);
  spec.symbols = {{.name = "batch", .minimum = 1, .maximum = 4},
                  {.name = "seq", .minimum = 0, .maximum = 16}};
  spec.kernels[0] = {.name = "region",
                     .params_bytes = 32,
                     .accesses = {{.position = 0, .alignment = 4, .mode = fb::AccessMode::Write},
                                  {.position = 8, .alignment = 4, .mode = fb::AccessMode::Read}},
                     .variants = {{.code = empty_kernel(), .features = 1u << 4}},
                     .counts = {{kCountWord, 1, 4, 0}, {kCountWord, 1, 4, 8}},
                     .plain_words = {20}};
  const uint32_t count = 64;
  std::memcpy(spec.params.data() + kCountWord, &count, sizeof count);
  const auto io = [](const std::string& name, std::vector<uint64_t> dims, uint64_t bytes) {
    return SpecValue{.name = name,
                     .dims = std::move(dims),
                     .segment = fb::Segment::Io,
                     .size_bytes = bytes,
                     .last_step = 2};
  };
  SpecEntry main{.name = "main", .inputs = {0}, .outputs = {1, 3}, .arena_bytes = 256};
  main.values = {io("x", {4, 16}, 256),
                 io("y", {4, 16}, 256),
                 {.name = "a", .dims = {4, 16}, .size_bytes = 256, .last_step = 1},
                 io("z", {16}, 64)};
  const auto range = [](uint32_t value, uint32_t position, uint64_t bytes, fb::AccessMode mode) {
    return SpecRelocation{
        .value = value, .position = position, .length_bytes = bytes, .mode = mode};
  };
  main.steps = {{.kind = fb::StepKind::Copy,
                 .relocations = {range(0, 0, 256, fb::AccessMode::Read),
                                 range(2, 8, 256, fb::AccessMode::Write)}},
                {.wave = 1,
                 .params_bytes = 32,
                 .relocations = {range(1, 0, 256, fb::AccessMode::Write),
                                 range(2, 8, 256, fb::AccessMode::Read)},
                 .edges = {0}},
                {.kind = fb::StepKind::Fill,
                 .wave = 1,
                 .relocations = {range(3, 0, 64, fb::AccessMode::Write)},
                 .fill_pattern = 0x3f800000}};
  main.sizes = {{0, 0, 0, SizeOp::Symbol},     {0, 1, 0, SizeOp::Symbol},
                {0, 0, 1, SizeOp::Multiply},   {4, 0, 0, SizeOp::Constant},
                {0, 2, 3, SizeOp::Multiply},   {64, 0, 0, SizeOp::Constant},
                {0, 2, 5, SizeOp::CeilDivide}, {0, 1, 3, SizeOp::Multiply}};
  main.patches = {{0, 0, 0, PatchField::ValueDim},
                  {0, 1, 1, PatchField::ValueDim},
                  {1, 0, 0, PatchField::ValueDim},
                  {1, 1, 1, PatchField::ValueDim},
                  {2, 0, 0, PatchField::ValueDim},
                  {2, 1, 1, PatchField::ValueDim},
                  {3, 0, 1, PatchField::ValueDim},
                  {0, 0, 4, PatchField::ValueBytes},
                  {1, 0, 4, PatchField::ValueBytes},
                  {2, 0, 4, PatchField::ValueBytes},
                  {3, 0, 7, PatchField::ValueBytes},
                  {0, 0, 4, PatchField::RelocationLength},
                  {1, 0, 4, PatchField::RelocationLength},
                  {2, 0, 4, PatchField::RelocationLength},
                  {3, 0, 4, PatchField::RelocationLength},
                  {4, 0, 7, PatchField::RelocationLength},
                  {1, 0, 6, PatchField::Grid},
                  {1, kCountWord, 2, PatchField::ParamsWord}};
  spec.entries = {main};
  return spec;
}

PlanSpec formed_plan() {
  PlanSpec spec = free_plan();
  for (int i = 0; i < 2; ++i) spec.kernels.push_back(SpecKernel(spec.kernels[0]));
  spec.entries[0].forms = {{4, 1, 2, kSeqTerm, 7, kFourTerm, kFourTerm},
                           {8, 1, 1, kSeqTerm, kFourTerm, kFourTerm, kSeqTerm}};
  return spec;
}

PlanSpec alternates_plan() {
  PlanSpec spec = free_plan();
  spec.kernels.push_back(SpecKernel(spec.kernels[0]));
  SpecEntry& main = spec.entries[0];
  main.steps.insert(main.steps.begin() + 1, SpecStep(main.steps[1]));
  main.steps[1].kind = fb::StepKind::Skip;
  main.steps[2].wave = main.steps[3].wave = 2;
  main.steps[2].edges = {1};
  for (const uint32_t v : {0, 1, 3}) main.values[v].last_step = 3;
  main.values[2].last_step = 2;
  main.patches.erase(main.patches.begin() + 11, main.patches.end());
  for (const uint32_t relocation : {0, 1, 2, 3, 4, 5})
    main.patches.emplace_back(relocation, 0, kBytesTerm, PatchField::RelocationLength);
  main.patches.emplace_back(6, 0, 7, PatchField::RelocationLength);
  main.patches.emplace_back(2, 0, 6, PatchField::Grid);
  for (const uint32_t step : {1, 2})
    main.patches.emplace_back(step, kCountWord, 2, PatchField::ParamsWord);
  main.forms = {{8, 1, 1, kSeqTerm, 7, kFourTerm, kFourTerm},
                {8, 2, kSkipForm, kSeqTerm, kSeqTerm, kSeqTerm, kSeqTerm}};
  return spec;
}

std::vector<BindingFixture> binding_fixtures() {
  using Rule = VerifyRule;
  using Edit = std::function<void(SpecEntry&)>;
  const auto at = [](std::vector<uint64_t> symbols, Rule rule, std::string what, Edit edit) {
    return BindingFixture{free_fixture(rule, std::move(what), std::move(edit)), std::move(symbols)};
  };
  // Term 9, or 10 where `times` is given: (16 - seq) * times, which is 0 at the maximum.
  const auto add_rest = [](SpecEntry& e, std::optional<uint64_t> times = std::nullopt) {
    e.sizes.emplace_back(16, 0, 0, SizeOp::Constant);
    e.sizes.emplace_back(0, 8, kSeqTerm, SizeOp::Subtract);
    if (!times) return;
    e.sizes.emplace_back(*times, 0, 0, SizeOp::Constant);
    e.sizes.emplace_back(0, 9, 10, SizeOp::Multiply);
  };
  return {
      at({4, 8}, Rule::GridLimit, "a form with a grid of 2^33",
         [](SpecEntry& e) {
           e.sizes.emplace_back(uint64_t{1} << 33, 0, 0, SizeOp::Constant);
           e.forms = {{8, 1, 0, kSeqTerm, 8, kFourTerm, kFourTerm}};
         }),
      at({4, 8}, Rule::SizeValue, "an overflow below the maximum",
         [=](SpecEntry& e) { add_rest(e, uint64_t{1} << 62); }),
      at({1, 16}, Rule::SizeValue, "a negative number below the maximum",
         [](SpecEntry& e) {
           e.sizes.emplace_back(2, 0, 0, SizeOp::Constant);
           e.sizes.emplace_back(0, kBatchTerm, 8, SizeOp::Subtract);
         }),
      at({4, 0}, Rule::SizeValue, "a division by a symbol that is 0",
         [](SpecEntry& e) { e.sizes.emplace_back(0, kBatchTerm, kSeqTerm, SizeOp::FloorDivide); }),
      at({4, 8}, Rule::SizeValue, "a count that exceeds its word",
         [=](SpecEntry& e) {
           add_rest(e, uint64_t{1} << 30);
           add_patch(e, {1, 20, 11, PatchField::ParamsWord});
         }),
      at({4, 8}, Rule::RelocationRange, "a range that leaves its value",
         [=](SpecEntry& e) {
           add_rest(e);
           add_patch(e, {3, 0, 9, PatchField::RelocationOffset});
         }),
      at({4, 8}, Rule::ValueGrowth, "a value that grows where others shrink",
         [=](SpecEntry& e) {
           add_rest(e, 2);
           e.sizes.emplace_back(0, kSeqTerm, 11, SizeOp::Add);
           e.sizes.emplace_back(0, 12, kBatchTerm, SizeOp::Multiply);
           e.sizes.emplace_back(0, 13, kFourTerm, SizeOp::Multiply);
           e.patches[5] = {2, 1, 12, PatchField::ValueDim};
           e.patches[9] = {2, 0, 14, PatchField::ValueBytes};
         }),
      at({4, 8}, Rule::ValueBytes, "bytes that stay as they are",
         [](SpecEntry& e) { e.patches.erase(e.patches.begin() + 7); }),
      at({1, 4}, Rule::CountBound, "a count that stays as it is",
         [](SpecEntry& e) { e.patches.pop_back(); }),
      at({4, 8}, Rule::ReadCovered, "a copy of less than is read",
         [=](SpecEntry& e) {
           add_rest(e, 4);
           e.sizes.emplace_back(0, kBytesTerm, 11, SizeOp::Subtract);
           e.patches[11] = {0, 0, 12, PatchField::RelocationLength};
           e.patches[12] = {1, 0, 12, PatchField::RelocationLength};
         }),
      at({1, 16}, Rule::OutputCovered, "a grid of 0 for something",
         [](SpecEntry& e) {
           e.sizes.emplace_back(0, 2, 5, SizeOp::FloorDivide);
           e.patches[16] = {1, 0, 8, PatchField::Grid};
         }),
      at({4, 8}, Rule::GridLimit, "a grid past the target's limit",
         [=](SpecEntry& e) {
           add_rest(e, 70000);
           e.sizes.emplace_back(1, 0, 0, SizeOp::Constant);
           e.sizes.emplace_back(0, 11, 12, SizeOp::Max);
           add_patch(e, {1, 1, 13, PatchField::Grid});
         }),
      {{.rule = Rule::CountBound,
        .what = "a count of a step that is skipped at the maximum, which stays as it is",
        .edit =
            [](PlanSpec& spec) {
              std::vector<fb::Patch>& patches = spec.entries[0].patches;
              patches.erase(patches.end() - 2);
            },
        .base = alternates_plan},
       {1, 4}},
      {{.rule = Rule::GridLimit,
        .what = "a grid past the target's limit of a step that is skipped at the maximum",
        .edit =
            [=](PlanSpec& spec) {
              SpecEntry& e = spec.entries[0];
              add_rest(e, 70000);
              e.forms[0].mutate_grid_y(11);
            },
        .base = alternates_plan},
       {4, 8}},
      {{.rule = Rule::OutputCovered,
        .what = "steps all of which are skipped",
        .edit = [](PlanSpec& spec) { spec.entries[0].forms[1].mutate_most(9); },
        .base = alternates_plan},
       {4, 9}},
      {{.rule = Rule::GemmPitch,
        .what = "rows that overlap",
        .edit =
            [](PlanSpec& spec) {
              SpecEntry& e = spec.entries[0];
              e.sizes.emplace_back(2, 0, 0, SizeOp::Constant);
              e.sizes.emplace_back(0, 0, 5, SizeOp::Multiply);
              add_patch(e, {0, 6, 6, PatchField::Gemm});
            },
        .base = free_gemm_plan},
       {8}},
  };
}

std::vector<Fixture> free_fixtures() {
  std::vector<Fixture> all = term_fixtures();
  for (const auto& fixtures : {reach_fixtures(), map_size_fixtures(), patch_fixtures(),
                               form_fixtures(), alternate_fixtures(), range_fixtures()})
    all.insert(all.end(), fixtures.begin(), fixtures.end());
  return all;
}

}  // namespace rlx::test
