// SPDX-License-Identifier: Apache-2.0
// What compiler and runtime agree on about tensor maps (plan.fbs) beside their fields.
#pragma once

#include <cstdint>

namespace rlx {

// As the last of two or more dims: as many lines as the range of the map's pointer holds. The range
// is then all of these lines, and the pointer's least bytes are at least one.
inline constexpr uint64_t kLinesOfRange = 0;
// Of the format: older ones have no such maps.
inline constexpr uint16_t kPlanMinorLinesOfRange = 4;

// Of the format: older ones have no maps of sizes that a step's params give.
inline constexpr uint16_t kPlanMinorMapSizes = 7;

// A map with a PixelWindow: limits of cuTensorMapEncodeIm2col (CUDA driver API).
inline constexpr uint16_t kPlanMinorPixelWindow = 5;
inline constexpr uint32_t kPixelWindowRank = 4;
inline constexpr uint32_t kMaxWindowPixels = 1024;  // of a copy
inline constexpr uint32_t kMaxWindowChannels = 256;
inline constexpr int32_t kLeastWindowCorner = -128;
inline constexpr int32_t kMostWindowCorner = 127;
inline constexpr uint32_t kMaxWindowStride = 8;
inline constexpr uint32_t kMaxWindowOffset = 255;  // that the kernel adds along a dim

}  // namespace rlx
