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

// An entry as one target runs it. Targets of one kind become profiles of the plan.
struct PlanEntry {
  const Program* program = nullptr;
  const Schedule* schedule = nullptr;
  const Target* target = nullptr;
  // On what a tuner chose its kernels; empty where none did.
  std::string tuned_device = {};
  std::string tuned_driver = {};
};

struct PlanContent {
  const Module* module = nullptr;      // weights, states and symbols of all targets
  std::vector<PlanEntry> entries;      // per target the entries of the module
  std::vector<PlanEntry> inits;        // per target, where its program has steps
  const KernelSet* kernels = nullptr;  // gathered from the entries' programs in order, then inits'
  const CompiledKernels* compiled = nullptr;  // those kernels
  std::string producer;                       // compiler and version
  std::string precision;
  bool debug_section = true;
  bool external_weights = false;      // weights that are bytes of the model's files stay there
  std::vector<std::string> pass_log;  // "name: what it changed"

  // The entries, then the inits: the records of the plan in their order.
  [[nodiscard]] std::vector<PlanEntry> all_entries() const {
    std::vector<PlanEntry> all = entries;
    all.insert(all.end(), inits.begin(), inits.end());
    return all;
  }
};

}  // namespace rlx
