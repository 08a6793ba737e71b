// SPDX-License-Identifier: Apache-2.0
// The kernel that decides, on the device, whether a region takes another trip.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/cuda/cu_context.h"

namespace rlx::cuda {

class RegionKernel {
 public:
  // The context is current. The driver compiles it: it has the function that sets conditions.
  static Status create(Context& context, RegionKernel& kernel);

  // The kernel's params, in its order: sets the condition where fewer than `most_trips` trips have
  // begun and the word, if there is one, is not 0.
  struct Params {
    CUgraphConditionalHandle condition = 0;
    CUdeviceptr word = 0;  // 0: all trips run
    CUdeviceptr counter = 0;
    uint32_t most_trips = 1;
    uint32_t is_first = 0;  // before the first trip, else behind each
  };
  // Adds it to a graph.
  Status add(Context& context, CUgraph graph, std::span<const CUgraphNode> before,
             const Params& params, CUgraphNode& node) const;

 private:
  OwnedModule module_;
  CUfunction function_ = nullptr;
};

}  // namespace rlx::cuda
