// SPDX-License-Identifier: Apache-2.0
// The rows of targets: told apart by name, by mark in the header and by the formats of their code.
#include <set>

#include "runtime/plan/target_row.h"
#include "tests/support/catch.h"

using namespace rlx;

TEST_CASE("every_format_of_code_is_one_target's") {
  for (const fb::CodeFormat format : fb::EnumValuesCodeFormat()) {
    size_t owners = 0;
    for (const TargetRow& row : target_rows()) {
      for (const fb::CodeFormat own : row.formats) owners += own == format ? 1 : 0;
    }
    CHECK(owners == 1);
    CHECK_FALSE(format_text(format).empty());
  }
  CHECK(target_of(fb::CodeFormat::SpirV) == fb::TargetKind::Vulkan);
  CHECK(target_of(fb::CodeFormat::Ptx) == fb::TargetKind::Cuda);
}

TEST_CASE("targets_are_told_apart_by_flag_and_by_name") {
  std::set<std::string_view> texts;
  for (const TargetRow& row : target_rows()) {
    CHECK(&target_row(row.kind) == &row);
    CHECK(texts.insert(row.flag).second);
    CHECK(texts.insert(row.name).second);
  }
}

TEST_CASE("a_header_names_the_targets_that_are_in_it") {
  PlanHeader header{};
  CHECK(targets_of(header) == 0);
  header.cuda = {.present = 1,
                 .ptx_architecture = 80,
                 .minimum_driver = 0,
                 .architecture_count = 1,
                 .architectures = {90}};
  const TargetRow& cuda = target_row(fb::TargetKind::Cuda);
  CHECK(targets_of(header) == cuda.mask());
  CHECK(cuda.fault(header).empty());
  CHECK(cuda.code(header).size() == 2);
  header.cuda.architecture_count = kPlanMaxCudaArchitectures + 1;
  CHECK_FALSE(cuda.fault(header).empty());
  header.vulkan.present = 1;
  CHECK(targets_of(header) == (cuda.mask() | target_row(fb::TargetKind::Vulkan).mask()));
  CHECK(target_row(fb::TargetKind::Vulkan).fault(header) == "the Vulkan target has a limit of 0");
}
