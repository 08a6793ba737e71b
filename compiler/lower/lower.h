// SPDX-License-Identifier: Apache-2.0
// Graph to Program: every node's lower in execution order.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "compiler/dispatch/program.h"
#include "compiler/lower/step_region.h"
#include "compiler/ops/lowering/lower_context.h"

namespace rlx {

// Lowers one entry. All ops without a lowering are reported before any is run; nullopt where
// anything was reported. `regions`: receives those of the program, ascending and apart from each
// other; nullptr: the graph has no loops that become any.
std::optional<Program> lower_entry(const Module& module, const Graph& graph,
                                   const LowerOptions& options, Diagnostics& diagnostics,
                                   std::vector<StepRegion>* regions = nullptr);

// The program that makes every generated weight which some entry's program reads: it fills splats
// and random weights and computes the others from them. No steps where there is none; nullopt where
// anything was reported.
std::optional<Program> lower_init(const Module& module, std::span<const Program> entries,
                                  const LowerOptions& options, Diagnostics& diagnostics);

}  // namespace rlx
