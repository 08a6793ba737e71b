// SPDX-License-Identifier: Apache-2.0
// Real plans, altered and sealed again: what says how far a kernel goes, and whose code it is,
// cannot be changed unseen.
#include <cstddef>
#include <cstring>
#include <set>

#include "runtime/verify/verify.h"
#include "schema/kernel_params.h"
#include "tests/compile/graph_text.h"
#include "tests/emit/cuda_support.h"
#include "tests/support/plan_fixture.h"

namespace rlx::test {
namespace {

using Bytes = std::vector<std::byte>;

// y = softmax(x @ w + b): weights that init fills, and kernels with several pointers.
const char* const kFilled = R"({"rlx_graph": 1,
  "params": [{"name": "w", "dtype": "f32", "shape": [37, 20], "data": {"random": {"distribution": "normal"}}},
             {"name": "b", "dtype": "f32", "shape": [20], "data": {"splat": 0.5}}],
  "inputs": [{"name": "x", "dtype": "f32", "shape": [11, 37]}],
  "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["h"]},
            {"op": "add", "inputs": ["h", "b"], "outputs": ["s"]},
            {"op": "softmax", "inputs": ["s"], "outputs": ["y"], "attributes": {"axis": -1}}],
  "outputs": ["y"]})";

Bytes filled_plan(const std::string& target) {
  CompileOptions options = test_options(2);
  options.targets = {target};
  options.architectures = {80, 90};
  return compiled(module_from(kFilled), options);
}

uint64_t section_offset(const Bytes& plan, SectionKind kind) {
  const PlanHeader header = header_of(plan);
  for (const PlanSection& section : header.sections) {
    if (section.kind == static_cast<uint32_t>(kind)) return section.offset_bytes;
  }
  return 0;
}

const fb::Plan& index_of(const Bytes& plan) {
  return *fb::GetPlan(plan.data() + section_offset(plan, SectionKind::Index));
}

// One more in the word at `position` of the params of init's first step with this kernel.
void count_one_more(Bytes& plan, std::string_view kernel, size_t position) {
  const fb::Plan& index = index_of(plan);
  for (const fb::Step* step : *index.inits()->Get(0)->steps()) {
    const bool found = step->kind() == fb::StepKind::Dispatch &&
                       index.kernels()->Get(step->kernel())->name()->string_view() == kernel;
    if (!found) continue;
    std::byte* place =
        plan.data() + section_offset(plan, SectionKind::Params) + step->params_offset() + position;
    uint32_t word = 0;
    std::memcpy(&word, place, sizeof word);
    ++word;
    std::memcpy(place, &word, sizeof word);
    reseal(plan);
    return;
  }
  FAIL("no step with " << kernel);
}

std::string fault_of(const Bytes& plan, VerifyRule rule) {
  const std::vector<VerifyFault> faults = verify_plan(plan);
  REQUIRE(faults.size() == 1);
  INFO(faults[0].message);
  REQUIRE(faults[0].rule == rule);
  return faults[0].message;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

fb::Variant& variant_of(Bytes& plan, uint32_t kernel, uint32_t variant) {
  return const_cast<fb::Variant&>(*index_of(plan).kernels()->Get(kernel)->variants()->Get(variant));
}

// The plan with the code of `from` for `to`. false where a plan that says so has no room for it in
// its index.
bool exchange_code(Bytes& plan, uint32_t from, uint32_t to, uint32_t v) {
  const fb::Variant& source = variant_of(plan, from, v);
  auto& variant = reinterpret_cast<flatbuffers::Table&>(variant_of(plan, to, v));
  const bool fits =
      variant.SetField<uint64_t>(fb::Variant::VT_CODE_OFFSET, source.code_offset(), 0) &&
      variant.SetField<uint64_t>(fb::Variant::VT_CODE_BYTES, source.code_bytes(), 0) &&
      variant.SetField<uint64_t>(fb::Variant::VT_CODE_HASH, source.code_hash(), 0);
  reseal(plan);
  return fits;
}

void check_exchanges(const Bytes& plan) {
  REQUIRE(verify_plan(plan).empty());
  const uint32_t kernels = index_of(plan).kernels()->size();
  REQUIRE(kernels > 2);
  uint32_t contracts = 0;
  for (uint32_t from = 0; from < kernels; ++from) {
    for (uint32_t to = 0; to < kernels; ++to) {
      const auto& variants = *index_of(plan).kernels()->Get(to)->variants();
      for (uint32_t v = 0; from != to && v < variants.size(); ++v) {
        Bytes altered = plan;
        if (!exchange_code(altered, from, to, v)) continue;
        const std::vector<VerifyFault> faults = verify_plan(altered);
        INFO("code " << v << " of kernel " << from << " for kernel " << to);
        REQUIRE(faults.size() == 1);
        CHECK(contains(faults[0].message, "V9."));
        CHECK(contains(faults[0].message, "kernel " + std::to_string(to) + " \""));
        if (faults[0].rule == VerifyRule::CodeContract) ++contracts;
      }
    }
  }
  CHECK(contracts > 0);
}

}  // namespace

TEST_CASE("a_changed_count_of_a_fill_is_refused_by_name") {
  const Bytes plan = filled_plan("vulkan");
  REQUIRE(verify_plan(plan).empty());
  Bytes altered = plan;
  count_one_more(altered, "splat_fill", offsetof(SplatParams, bytes_low));
  const std::string splat = fault_of(altered, VerifyRule::CountBound);
  CHECK(contains(splat, "the init entry, step "));
  CHECK(contains(splat, "(splat_fill) has the count 81 of 1 bytes each at byte 8 of its params"));
  altered = plan;
  count_one_more(altered, "rng_fill", offsetof(RandomParams, count_high));
  CHECK(contains(fault_of(altered, VerifyRule::CountBound), "(rng_fill) has the count 42949680"));
  // What bounds nothing may be anything.
  altered = plan;
  count_one_more(altered, "rng_fill", offsetof(RandomParams, seed_low));
  count_one_more(altered, "splat_fill", offsetof(SplatParams, word0));
  CHECK(verify_plan(altered).empty());
}

TEST_CASE("genuine_code_of_another_kernel_is_refused_by_name") {
  check_exchanges(filled_plan("vulkan"));
  if (present_nvrtc() != nullptr) check_exchanges(filled_plan("cuda"));
}

TEST_CASE("equal_models_compiled_apart_have_equal_digests_of_code") {
  const auto digests = [](const Bytes& plan) {
    std::shared_ptr<const PlanView> view;
    REQUIRE(PlanView::open_memory(plan, {}, view).ok());
    std::vector<Sha256Digest> all;
    for (const fb::Kernel* kernel : *view->index().kernels()) {
      for (const fb::Variant* variant : *kernel->variants())
        all.push_back(view->code_digest(*kernel, *variant));
    }
    return all;
  };
  const std::vector<Sha256Digest> first = digests(filled_plan("vulkan"));
  CHECK(first == digests(filled_plan("vulkan")));
  CHECK(std::set<Sha256Digest>(first.begin(), first.end()).size() == first.size());
}

}  // namespace rlx::test
