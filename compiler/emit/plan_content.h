// SPDX-License-Identifier: Apache-2.0
// What a plan is made of, as the parts of the compiler hand it to the plan writer.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/emit/compile_kernels.h"
#include "compiler/ir/graph.h"
#include "compiler/lower/schedule.h"

namespace rlx {

struct PlanEntry {
  const Program* program = nullptr;
  const Schedule* schedule = nullptr;
};

struct PlanContent {
  const Module* module = nullptr;
  std::vector<PlanEntry> entries;
  std::optional<PlanEntry> init;       // where its program has steps
  const KernelSet* kernels = nullptr;  // gathered from the entries' programs in order, then init's
  const CompiledKernels* compiled = nullptr;  // those kernels
  std::string producer;                // compiler and version
  std::string precision;
  bool debug_section = true;
  std::vector<std::string> pass_log;  // "name: what it changed"

  // The entries, then init where there is one.
  [[nodiscard]] std::vector<PlanEntry> all_entries() const {
    std::vector<PlanEntry> all = entries;
    if (init) all.push_back(*init);
    return all;
  }
};

}  // namespace rlx
