// SPDX-License-Identifier: Apache-2.0
// Values [N, C, spatial..] whose elements stand in memory as [N, spatial.., C], and how pixels
// stand.
#pragma once

#include <optional>

#include "compiler/dispatch/program.h"

namespace rlx {

// Strides of the packed channels-last form of a shape of rank 3 or more.
Strides channels_last_strides(const Shape& shape);

// Elements between neighbouring pixels where channels are dense and all pixels of all images stand
// in rows of that length, one after the other; nullopt where they do not.
std::optional<Dim> pixel_pitch(const TensorRef& ref);

// The distance between neighbouring pixels of [N, C, spatial..] where the spatial dims step alike;
// nullopt where they do not. 1 for a single pixel.
std::optional<Dim> pixel_stride(const TensorRef& ref);

}  // namespace rlx
