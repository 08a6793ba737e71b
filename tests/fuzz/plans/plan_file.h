// SPDX-License-Identifier: Apache-2.0
// A plan file taken apart: header, and sections as bytes of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "schema/plan_header.h"

namespace rlx::test {

struct FileSection {
  SectionKind kind{};
  uint32_t flags = 0;
  std::vector<std::byte> bytes;
};

struct PlanFile {
  PlanHeader header{};
  std::vector<FileSection> sections;

  // Null where there is none.
  [[nodiscard]] FileSection* section(SectionKind kind);
  [[nodiscard]] const FileSection* section(SectionKind kind) const;
};

// `plan` is one that the verifier takes.
PlanFile split_plan(std::span<const std::byte> plan);

// The file, with the section table and the sizes of file and host memory that it now has; its
// checksums are those of no plan yet (reseal() makes them right).
std::vector<std::byte> join_plan(const PlanFile& file);

}  // namespace rlx::test
