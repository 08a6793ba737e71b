// SPDX-License-Identifier: Apache-2.0
// Plans that break the rules of index errors.
#include "tests/runtime/verify_fixture.h"

namespace rlx::test {
namespace {

constexpr uint32_t kSteps = 3;

Fixture fixture(VerifyRule rule, std::string what, std::function<void(PlanSpec&)> edit) {
  return {.rule = rule, .what = std::move(what), .edit = std::move(edit), .base = three_words_plan};
}

SpecValue& word(PlanSpec& spec, uint32_t step) {
  std::vector<SpecValue>& values = spec.entries[0].values;
  return values[values.size() - kSteps + step];
}

SpecRelocation& use_of_word(PlanSpec& spec, uint32_t step) {
  return spec.entries[0].steps[step].relocations.back();
}

// A step behind the others that does as `kind` does with a word and the last word but one.
void add_use(PlanSpec& spec, fb::StepKind kind) {
  SpecEntry& main = spec.entries[0];
  const SpecRelocation source{.value = use_of_word(spec, 0).value, .length_bytes = 4};
  SpecRelocation target = source;
  target.value = use_of_word(spec, 1).value;
  target.mode = fb::AccessMode::Write;
  SpecStep step{.kind = kind, .wave = kSteps, .edges = {0, 1, 2}};
  if (kind == fb::StepKind::Copy) {
    target.position = 8;
    step.relocations = {source, target};
  } else {
    step.relocations = {target};
  }
  main.steps.push_back(step);
  for (SpecValue& value : main.values) {
    if (value.segment != fb::Segment::Arena) value.last_step = kSteps;
  }
}

// The init entry runs the kernel too.
void count_in_init(PlanSpec& spec) {
  SpecEntry init{.name = "init", .values = {word(spec, 0)}};
  init.values[0].last_step = 0;
  spec.kernels.push_back(
      {.name = "splat_fill",
       .params_bytes = 8,
       .accesses = {{.alignment = 4, .min_bytes = 4, .mode = fb::AccessMode::ReadWrite}},
       .variants = spec.kernels[0].variants});
  spec.kernels.back().variants[0].code = empty_kernel({.push_constant_words64 = 1});
  init.steps = {{.kernel = 1,
                 .params_bytes = 8,
                 .relocations = {{.length_bytes = 4, .mode = fb::AccessMode::ReadWrite}}}};
  spec.init = init;
}

// The kernel has a second word at byte 32, and every step another one of its own for it.
void give_two_words(PlanSpec& spec) {
  SpecKernel& kernel = spec.kernels[0];
  kernel.params_bytes = 40;
  kernel.accesses.push_back(kernel.accesses.back());
  kernel.accesses.back().position = 32;
  kernel.variants[0].code = empty_kernel({.push_constant_words64 = 5});
  spec.params.resize(48);
  SpecEntry& main = spec.entries[0];
  for (uint32_t s = 0; s < kSteps; ++s) {
    SpecRelocation use = use_of_word(spec, s);
    use.position = 32;
    use.value = static_cast<uint32_t>(main.values.size()) + s;
    main.steps[s].params_bytes = 40;
    main.steps[s].relocations.push_back(use);
  }
  for (uint32_t s = 0; s < kSteps; ++s) {
    SpecValue second = main.values[main.values.size() - kSteps];
    second.name += " too";
    second.offset_bytes += 4 * kSteps;
    main.values.push_back(second);
  }
}

}  // namespace

PlanSpec three_words_plan() {
  return index_plan(kSteps);
}

std::vector<Fixture> index_error_fixtures() {
  using Rule = VerifyRule;
  return {
      fixture(Rule::ValueAlignment, "a word at byte 6",
              [](PlanSpec& spec) { word(spec, 2).offset_bytes = 6; }),
      fixture(Rule::ValueBytes, "a word of 4 bytes that says it is two",
              [](PlanSpec& spec) { word(spec, 1).dims = {2}; }),
      fixture(Rule::SegmentBytes, "more words than the entries need",
              [](PlanSpec& spec) {
                spec.edit_header = [](PlanHeader& h) { h.index_error_bytes += 4; };
              }),
      fixture(Rule::IndexErrorsForm, "a word of f32",
              [](PlanSpec& spec) { word(spec, 1).dtype = 0; }),
      fixture(Rule::IndexErrorsForm, "a word of two",
              [](PlanSpec& spec) {
                word(spec, 2).dims = {2};
                word(spec, 2).size_bytes = 8;
              }),
      fixture(Rule::IndexErrorsForm, "one word for two steps by two names",
              [](PlanSpec& spec) { word(spec, 1).offset_bytes = 0; }),
      fixture(Rule::IndexErrorsStep, "one word for two steps",
              [](PlanSpec& spec) { use_of_word(spec, 1) = use_of_word(spec, 0); }),
      fixture(Rule::IndexErrorsStep, "two words for one step", give_two_words),
      fixture(Rule::IndexErrorsStep, "a word that is only written",
              [](PlanSpec& spec) {
                spec.kernels[0].accesses.back().mode = fb::AccessMode::Write;
                for (uint32_t s = 0; s < kSteps; ++s)
                  use_of_word(spec, s).mode = fb::AccessMode::Write;
              }),
      fixture(Rule::IndexErrorsStep, "a copy between words",
              [](PlanSpec& spec) { add_use(spec, fb::StepKind::Copy); }),
      fixture(Rule::IndexErrorsStep, "a fill of a word",
              [](PlanSpec& spec) { add_use(spec, fb::StepKind::Fill); }),
      fixture(Rule::AssertionForm, "an assertion of no word",
              [](PlanSpec& spec) { spec.entries[0].assertions = {{.word = 0, .text = "t"}}; }),
      fixture(Rule::AssertionForm, "an assertion of a value that is not there",
              [](PlanSpec& spec) {
                const auto count = static_cast<uint32_t>(spec.entries[0].values.size());
                spec.entries[0].assertions = {{.word = count, .text = "t"}};
              }),
      fixture(
          Rule::AssertionForm, "two assertions of one word",
          [](PlanSpec& spec) {
            const uint32_t word = use_of_word(spec, 1).value;
            spec.entries[0].assertions = {{.word = word, .text = "t"}, {.word = word, .text = "u"}};
          }),
      fixture(Rule::AssertionForm, "an assertion that says nothing",
              [](PlanSpec& spec) {
                spec.entries[0].assertions = {{.word = use_of_word(spec, 1).value}};
              }),
      fixture(Rule::AssertionForm, "an assertion of 1025 bytes",
              [](PlanSpec& spec) {
                spec.entries[0].assertions = {
                    {.word = use_of_word(spec, 1).value, .text = std::string(1025, 't')}};
              }),
      fixture(Rule::RelocationRange, "a word that ends at byte 8",
              [](PlanSpec& spec) { use_of_word(spec, 1).offset_bytes = 4; }),
      fixture(Rule::RelocationAlignment, "a kernel that wants a word at a multiple of 8",
              [](PlanSpec& spec) { spec.kernels[0].accesses.back().alignment = 8; }),
      fixture(Rule::InitReach, "an init that counts", count_in_init),
  };
}

}  // namespace rlx::test
