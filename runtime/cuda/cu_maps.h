// SPDX-License-Identifier: Apache-2.0
// Tensor maps: what kernels of newer devices give to the copy engine.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "runtime/cuda/cu_context.h"
#include "runtime/plan/cuda_code.h"
#include "runtime/plan/plan_view.h"

namespace rlx::cuda {

using TensorMaps = std::array<CUtensorMap, kMaxTensorMaps>;

// Makes a kernel's maps for a step whose patched params and relocations these are. Devices before
// compute capability 9.0 have no such engine: there the maps stay empty, and the code reads none.
Status encode_maps(Context& context, const fb::Kernel& kernel, std::span<const std::byte> params,
                   std::span<const fb::Relocation> relocations, TensorMaps& maps);

}  // namespace rlx::cuda
