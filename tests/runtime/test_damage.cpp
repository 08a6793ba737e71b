// SPDX-License-Identifier: Apache-2.0
// Damaged plans: truncated, altered, flipped bit by bit. Refused, or the same answer.
#include <cstring>
#include <random>
#include <vector>

#include "runtime/plan/plan_view.h"
#include "runtime/verify/verify.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"

using rlx::PlanHeader;
using rlx::PlanView;
using rlx::verify_plan;
using namespace rlx::test;

namespace {

using Bytes = std::vector<std::byte>;

// True if a byte belongs to the header page or to a section other than the weights.
std::vector<uint8_t> metadata_map(const Bytes& plan) {
  std::vector<uint8_t> map(plan.size(), 0);
  std::fill_n(map.begin(), rlx::kPlanHeaderBytes, 1);
  const PlanHeader header = header_of(plan);
  for (uint32_t i = 0; i < header.section_count; ++i) {
    const rlx::PlanSection& section = header.sections[i];
    if (section.kind == static_cast<uint32_t>(rlx::SectionKind::Weights)) continue;
    std::fill_n(map.begin() + static_cast<ptrdiff_t>(section.offset_bytes), section.size_bytes, 1);
  }
  return map;
}

}  // namespace

TEST_CASE("a_plan_truncated_anywhere_is_refused") {
  const Bytes plan = serialise(small_plan());
  for (size_t i = 0; i < 200; ++i) {
    const size_t length = plan.size() * i / 200;
    // A copy of its own, so that a sanitizer sees any read past its end.
    const Bytes part(plan.begin(), plan.begin() + static_cast<ptrdiff_t>(length));
    INFO(length << " of " << plan.size() << " bytes");
    const auto faults = verify_plan(part);
    REQUIRE(faults.size() == 1);
    const bool told = faults[0].rule == rlx::VerifyRule::FileLength ||
                      faults[0].rule == rlx::VerifyRule::FileBytes;
    CHECK(told);
  }
}

TEST_CASE("an_altered_section_is_named") {
  const Bytes plan = serialise(small_plan());
  const PlanHeader header = header_of(plan);
  REQUIRE(header.section_count == 5);
  for (uint32_t i = 0; i < header.section_count; ++i) {
    Bytes altered = plan;
    altered[header.sections[i].offset_bytes + header.sections[i].size_bytes / 2] ^= std::byte{0x10};
    const auto faults = verify_plan(altered, {.check_weights = true});
    REQUIRE(faults.size() == 1);
    CHECK(faults[0].rule == rlx::VerifyRule::SectionChecksum);
    const std::string offset = "at byte " + std::to_string(header.sections[i].offset_bytes);
    CHECK(faults[0].message.find(offset) != std::string::npos);
  }
}

TEST_CASE("every_flipped_bit_of_the_metadata_is_refused") {
  const Bytes plan = serialise(small_plan());
  const std::vector<uint8_t> is_metadata = metadata_map(plan);
  size_t accepted = 0;
  Bytes flipped = plan;
  for (size_t byte = 0; byte < plan.size(); ++byte) {
    if (is_metadata[byte] == 0) continue;
    for (int bit = 0; bit < 8; ++bit) {
      flipped[byte] ^= std::byte(1 << bit);
      accepted += verify_plan(flipped).empty() ? 1 : 0;
      flipped[byte] = plan[byte];
    }
  }
  CHECK(accepted == 0);
}

TEST_CASE("resealed_mutants_are_judged_without_harm") {
  const Bytes plan = serialise(small_plan());
  const PlanHeader header = header_of(plan);
  std::mt19937_64 random(20260101);
  size_t refused = 0;
  constexpr size_t kMutants = 20000;
  for (size_t i = 0; i < kMutants; ++i) {
    Bytes mutant = plan;
    const rlx::PlanSection& section = header.sections[random() % 4];  // all but the weights
    const size_t edits = 1 + random() % 3;
    for (size_t e = 0; e < edits; ++e) {
      const size_t at = section.offset_bytes + random() % section.size_bytes;
      mutant[at] =
          random() % 2 == 0 ? std::byte(random()) : mutant[at] ^ std::byte(1u << random() % 8);
    }
    reseal(mutant);
    refused += verify_plan(mutant).empty() ? 0 : 1;
  }
  // Most bytes matter; names, notes and padding do not.
  CHECK(refused > kMutants / 5);
}

TEST_CASE("resealed_headers_are_judged_without_harm") {
  const Bytes plan = serialise(small_plan());
  std::mt19937_64 random(7);
  for (size_t i = 0; i < 20000; ++i) {
    Bytes mutant = plan;
    for (size_t e = 0; e < 1 + random() % 3; ++e)
      mutant[random() % sizeof(PlanHeader)] = std::byte(random());
    reseal(mutant);
    (void)verify_plan(mutant);
  }
  SUCCEED();
}
