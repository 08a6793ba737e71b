// SPDX-License-Identifier: Apache-2.0
// An entry as a CUDA graph: one node per step, one edge per dependency that no other edge implies;
// a region is one node, whose own graph has its steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/cuda/cu_context.h"
#include "runtime/cuda/cu_launch.h"
#include "runtime/plan/plan_view.h"

namespace rlx::cuda {

struct GraphOptions {
  // The first steps of the entry; of a region that they reach into but not to its end, the first
  // trip.
  uint32_t step_count = 0;
  // Not empty: the steps run one after another. Events 0 to kCalibrationEvents are recorded right
  // after each other, then one after each step.
  std::span<const CUevent> events;
};
// Gaps between events with nothing in between, by which the cost of recording one is known.
inline constexpr uint32_t kCalibrationEvents = 4;

// Edges of each of the first `step_count` steps without those that others imply: a step that a
// predecessor waits for anyway. None leads to a step that a binding skips, but in a region.
std::vector<std::vector<uint32_t>> reduced_edges(const fb::Entry& entry, uint32_t step_count);
// Those, but of two steps that wait for one and the same alone and are waited for together, the
// second waits for the first where one of them is small, and that one too: in a chain kernels may
// start early. Behind a large one there is no room for them before its end. Llama-1B's shape in
// blocks on an H200: 8 tokens, whose fork stands behind a cast, 936 us without and 895 with it; one
// token, behind a product of 14 MB, 565 and 571.
std::vector<std::vector<uint32_t>> chained_edges(const fb::Entry& entry, uint32_t step_count);

// An executable graph with the nodes that it was made from. Its first launch puts it on the device.
// Never cuGraphUpload: a graph that it put there runs 4 % slower (BERT, 87 steps, on an H200) from
// when it puts another one there; and a launch behind it in the same stream lets all branches but
// the first begin without what it brings, where other processes keep the GPU busy (driver 580.159:
// runs that never end, memory faults, illegal instructions).
class EntryGraph {
 public:
  // The context is current. `capture` is a stream on which nothing runs, for library products.
  static Status create(const StepCode& code, const LinkedEntry& linked, const GraphOptions& options,
                       CUstream capture, EntryGraph& graph);

  // True where relink() suffices after addresses of the step's values changed, or with them the
  // binding of the record that the graph was made of: the step is of the kind that it was, its
  // kernel one that is launched in the same way, and no grid whose workgroups run at once, which is
  // launched in another way where there is no room.
  [[nodiscard]] bool can_relink(const StepCode& code, const fb::Entry& entry, uint32_t step) const;
  [[nodiscard]] bool can_relink_all(const StepCode& code, const fb::Entry& entry) const;
  // The same for some bindings of its record at least.
  [[nodiscard]] bool serves_bindings() const { return serves_bindings_; }
  // Gives a step its present params, grid and range, and the present addresses of its values.
  Status relink(const StepCode& code, const LinkedEntry& linked, uint32_t step);

  [[nodiscard]] CUgraphExec exec() const { return exec_.get(); }
  explicit operator bool() const { return static_cast<bool>(exec_); }

 private:
  friend class GraphBuilder;

  OwnedGraph graph_;
  OwnedGraphExec exec_;
  std::vector<CUgraphNode> nodes_;            // by step: what its successors wait for, if any do
  std::vector<fb::StepKind> kinds_;           // by step
  std::vector<const fb::Variant*> variants_;  // by step: its code, of a dispatch
  bool serves_bindings_ = false;
};

}  // namespace rlx::cuda
