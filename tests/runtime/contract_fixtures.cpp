// SPDX-License-Identifier: Apache-2.0
// Plans whose params hold more than their kernels declare, and plans whose code belongs to another
// record.
#include <cstring>

#include "runtime/plan/contract.h"
#include "runtime/plan/plan_view.h"
#include "tests/runtime/verify_fixture.h"
#include "tests/support/catch.h"
#include "tests/support/cubin.h"

namespace rlx::test {
namespace {

// Of counted_plan(): positions in the params of its kernel, whose pointers are at 0, 8 and 16.
constexpr uint32_t kWideCount = 24;  // low and high word
constexpr uint32_t kCount = 32;
constexpr uint32_t kPlain = 36;
constexpr uint32_t kParamsBytes = 40;
constexpr uint64_t kOtherParams = 48;  // a second blob, of init and of an alternative

void set_word(PlanSpec& spec, size_t at, uint32_t word) {
  std::memcpy(spec.params.data() + at, &word, sizeof word);
}

void set_params(PlanSpec& spec, size_t at) {
  set_word(spec, at + kWideCount, 64);
  set_word(spec, at + kCount, 16);
  set_word(spec, at + kPlain, 0xDEADBEEF);
}

Fixture counted_fixture(VerifyRule rule, std::string what, std::function<void(PlanSpec&)> edit) {
  return {.rule = rule, .what = std::move(what), .edit = std::move(edit), .base = counted_plan};
}

Fixture form_fixture(std::string what, std::function<void(SpecKernel&)> edit) {
  return counted_fixture(VerifyRule::WordForm, std::move(what),
                         [edit = std::move(edit)](PlanSpec& spec) { edit(spec.kernels[0]); });
}

Fixture count_form_fixture(std::string what, fb::ParamsCount count) {
  return form_fixture(std::move(what),
                      [count](SpecKernel& kernel) { kernel.counts.push_back(count); });
}

Fixture word_fixture(VerifyRule rule, std::string what, size_t at, uint32_t word) {
  return counted_fixture(rule, std::move(what),
                         [at, word](PlanSpec& spec) { set_word(spec, at, word); });
}

std::vector<Fixture> word_fixtures() {
  using Rule = VerifyRule;
  return {
      count_form_fixture("a count at byte 34", {34, 1, 1, 0}),
      count_form_fixture("a count past the params", {36, 2, 1, 0}),
      count_form_fixture("a count on a pointer", {20, 1, 1, 0}),
      count_form_fixture("a count of three words", {24, 3, 1, 0}),
      count_form_fixture("a count of no word", {24, 0, 1, 0}),
      count_form_fixture("a count of nothing", {24, 1, 0, 0}),
      count_form_fixture("a count that bounds what is no pointer", {24, 1, 1, 32}),
      form_fixture("a plain word on a count", [](SpecKernel& k) { k.plain_words = {28}; }),
      form_fixture("a plain word on a pointer", [](SpecKernel& k) { k.plain_words = {8}; }),
      form_fixture("a plain word twice",
                   [](SpecKernel& k) {
                     k.plain_words = {36, 36};
                   }),
      form_fixture("a plain word past the params", [](SpecKernel& k) { k.plain_words = {40}; }),
      word_fixture(Rule::CountBound, "one element too many", kWideCount, 65),
      word_fixture(Rule::CountBound, "a count in the high word", kWideCount + 4, 1),
      word_fixture(Rule::CountBound, "a count of one word", kCount, 17),
      counted_fixture(Rule::CountBound, "a pointer behind the begin of its range",
                      [](PlanSpec& spec) {
                        spec.kernels[0].addends = {{0, 16}};
                        set_word(spec, 0, 16);
                        set_word(spec, kOtherParams, 16);
                      }),
      word_fixture(Rule::PointerAddend, "a pointer that should stand at the begin of its range", 0,
                   16),
      counted_fixture(Rule::PointerAddend, "a pointer at the begin that runs backwards",
                      [](PlanSpec& spec) {
                        spec.kernels[0].addends = {{0, 16}};
                      }),
      counted_fixture(Rule::CountBound, "a product that wraps",
                      [](PlanSpec& spec) {
                        spec.kernels[0].counts[0] = {kWideCount, 2, uint64_t{1} << 58, 0};
                      }),
      counted_fixture(Rule::CountBound, "a larger unit for the second pointer",
                      [](PlanSpec& spec) {
                        spec.kernels[0].counts[1] = {kWideCount, 2, 5, 8};
                      }),
      counted_fixture(Rule::CountBound, "in an alternative",
                      [](PlanSpec& spec) {
                        SpecStep other = spec.entries[0].steps[1];
                        other.params_offset = kOtherParams;
                        spec.entries[0].alternatives = {{.step = 1, .other = other}};
                        spec.init = small_plan().init;
                        set_word(spec, kOtherParams + kWideCount, 65);
                      }),
      word_fixture(Rule::CountBound, "in init", kOtherParams + kWideCount, 65),
      counted_fixture(Rule::WordUndeclared, "no declarations, as before format 1.2",
                      [](PlanSpec& spec) {
                        spec.kernels[0].counts.clear();
                        spec.kernels[0].plain_words.clear();
                      }),
      counted_fixture(Rule::WordUndeclared, "a value that is not declared",
                      [](PlanSpec& spec) { spec.kernels[0].plain_words.clear(); }),
      counted_fixture(Rule::WordUndeclared, "the high word of a count that has one",
                      [](PlanSpec& spec) {
                        spec.kernels[0].counts = {{kWideCount, 1, 4, 0}, {kCount, 1, 16, 16}};
                        set_word(spec, kWideCount + 4, 1);
                      }),
  };
}

// The first kernel's variant without the digest of its record.
Fixture unnamed_fixture(std::string what, size_t variant, std::vector<std::byte> code) {
  return {VerifyRule::CodeContract, std::move(what), [variant, code](PlanSpec& spec) {
            add_cuda(spec);
            spec.kernels[0].variants[variant].code = code;
            spec.kernels[0].variants[variant].names_contract = false;
          }};
}

// The first kernel's code as it was written for a record that differs.
Fixture altered_fixture(std::string what, std::function<void(SpecKernel&)> edit) {
  return {.rule = VerifyRule::CodeContract,
          .what = std::move(what),
          .edit =
              [edit = std::move(edit)](PlanSpec& spec) {
                SpecKernel& kernel = spec.kernels[0];
                SpecVariant& variant = kernel.variants[0];
                variant.code = code_in_plan(kernel, 0);
                variant.names_contract = false;
                edit(kernel);
              },
          .base = counted_plan};
}

std::vector<Fixture> contract_rule_fixtures() {
  return {
      unnamed_fixture("SPIR-V of an older compiler", 0, empty_kernel()),
      unnamed_fixture("a cubin of an older compiler", 1, make_cubin({.has_contract = false})),
      unnamed_fixture("PTX whose place is empty", 2, make_ptx("sm_80", "main")),
      altered_fixture("another name", [](SpecKernel& k) { k.name = "pad"; }),
      altered_fixture("fewer bytes needed", [](SpecKernel& k) { k.accesses[1].min_bytes = 252; }),
      altered_fixture("a smaller alignment", [](SpecKernel& k) { k.accesses[1].alignment = 4; }),
      altered_fixture("a count that counts less",
                      [](SpecKernel& k) {
                        k.counts[0] = {kWideCount, 2, 1, 0};
                      }),
      altered_fixture("a count that is a plain word",
                      [](SpecKernel& k) {
                        k.counts.pop_back();
                        k.plain_words = {kCount, kPlain};
                      }),
      altered_fixture("a feature more",
                      [](SpecKernel& k) { k.variants[0].features |= uint64_t{1} << 7; }),
      altered_fixture("shared memory", [](SpecKernel& k) { k.variants[0].shared_bytes = 64; }),
  };
}

}  // namespace

PlanSpec counted_plan() {
  PlanSpec spec = small_plan();
  SpecKernel& kernel = spec.kernels[0];
  kernel.params_bytes = kParamsBytes;
  kernel.counts = {{kWideCount, 2, 4, 0}, {kWideCount, 2, 2, 8}, {kCount, 1, 16, 16}};
  kernel.plain_words = {kPlain};
  spec.params.resize(kOtherParams + kParamsBytes);
  set_params(spec, 0);
  set_params(spec, kOtherParams);
  for (SpecStep& step : spec.entries[0].steps) {
    if (step.kind == fb::StepKind::Dispatch) step.params_bytes = kParamsBytes;
  }
  // g, which a fill makes in small_plan(), is made from w.
  SpecEntry& init = *spec.init;
  init.values.push_back(spec.entries[0].values[3]);
  init.values[1].last_step = 0;
  SpecStep made = spec.entries[0].steps[1];
  made.wave = 0;
  made.edges.clear();
  made.params_offset = kOtherParams;
  made.relocations[0].value = 0;
  made.relocations[1].value = made.relocations[2].value = 1;
  init.steps = {made};
  return spec;
}

std::vector<Fixture> contract_fixtures() {
  std::vector<Fixture> all = word_fixtures();
  const std::vector<Fixture> contracts = contract_rule_fixtures();
  all.insert(all.end(), contracts.begin(), contracts.end());
  return all;
}

TEST_CASE("genuine_code_under_another_record_is_refused_by_name") {
  // Two kernels of equal params, the second of which is sure of half as many bytes.
  PlanSpec spec = small_plan();
  SpecKernel other = spec.kernels[0];
  other.name = "transpose";
  for (SpecAccess& access : other.accesses) access.min_bytes = 128;
  spec.kernels.push_back(other);
  spec.entries[0].steps[2].kernel = 1;
  REQUIRE(verify_plan(serialise(spec)).empty());

  spec.kernels[1].variants[0].code = code_in_plan(spec.kernels[0], 0);
  spec.kernels[1].variants[0].names_contract = false;
  const std::vector<VerifyFault> faults = verify_plan(serialise(spec));
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].rule == VerifyRule::CodeContract);
  CHECK(faults[0].message.find("kernel 1 \"transpose\"") != std::string::npos);
  CHECK(faults[0].message.find("another record") != std::string::npos);
}

TEST_CASE("code_can_be_given_another_contract") {
  const Sha256Digest first = sha256({});
  const Sha256Digest second = sha256(std::as_bytes(std::span("x")));
  const Bytes cubin = make_cubin();
  const Bytes ptx = make_ptx("sm_80", "main");
  for (const auto& [format, code] :
       {std::pair{fb::CodeFormat::SpirV, empty_kernel()}, std::pair{fb::CodeFormat::Cubin, cubin},
        std::pair{fb::CodeFormat::Ptx, ptx}}) {
    const std::optional<Bytes> once = with_contract(format, code, first);
    REQUIRE(once.has_value());
    const std::optional<Bytes> twice = with_contract(format, *once, second);
    REQUIRE(twice.has_value());
    CHECK(*once != *twice);
    CHECK(with_contract(format, *twice, first) == once);
    CHECK_FALSE(with_contract(format, Bytes(3), first).has_value());
  }
  CHECK_FALSE(with_contract(fb::CodeFormat::Cubin, make_cubin({.has_contract = false}), first));
}

TEST_CASE("the_digest_of_code_depends_on_code_and_record") {
  const auto digest_of = [](const PlanSpec& spec) {
    std::shared_ptr<const PlanView> view;
    REQUIRE(PlanView::open_memory(serialise(spec), {.copy_memory = true}, view).ok());
    const fb::Kernel& kernel = view->kernel(0);
    return hex_text(view->code_digest(kernel, *kernel.variants()->Get(0)));
  };
  const PlanSpec spec = small_plan();
  CHECK(digest_of(spec) == digest_of(spec));
  PlanSpec other_record = spec;
  other_record.kernels[0].accesses[0].min_bytes -= 4;
  CHECK(digest_of(other_record) != digest_of(spec));
  PlanSpec other_code = spec;
  other_code.kernels[0].variants[0].code = empty_kernel({.version = 0x00010400});
  CHECK(digest_of(other_code) != digest_of(spec));
  // Where the code lies, and what readers are told, is no part of it.
  PlanSpec moved = spec;
  moved.kernels.insert(moved.kernels.begin() + 1, moved.kernels[0]);
  moved.kernels[1].name = "pad";
  CHECK(digest_of(moved) == digest_of(spec));
}

}  // namespace rlx::test
