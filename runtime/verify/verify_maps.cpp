// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 7: the tensor maps of kernels.
#include <algorithm>
#include <optional>

#include "runtime/base/dtype.h"
#include "runtime/plan/cuda_code.h"
#include "runtime/plan/target_row.h"
#include "runtime/verify/verify_context.h"
#include "schema/tensor_map.h"

namespace rlx {
namespace {

// Limits of cuTensorMapEncodeTiled (CUDA driver API).
constexpr uint32_t kMaxMapRank = 5;
constexpr uint64_t kMaxMapDim = uint64_t{1} << 32;
constexpr uint64_t kMaxMapStride = uint64_t{1} << 40;
constexpr uint32_t kMaxBoxDim = 256;
constexpr uint32_t kMapAlignmentBytes = 16;
constexpr uint32_t kWindowBoxes = 2;  // channels and pixels

const fb::KernelAccess* access_at(const fb::Kernel& kernel, uint32_t position) {
  for (const fb::KernelAccess* access : *kernel.accesses()) {
    if (access->position() == position) return access;
  }
  return nullptr;
}

// A map's address is the begin of its pointer's range.
bool stands_at_begin(const fb::Kernel& kernel, uint32_t position) {
  if (kernel.addends() == nullptr) return true;
  return std::none_of(
      kernel.addends()->begin(), kernel.addends()->end(),
      [position](const fb::PointerAddend* row) { return row->position() == position; });
}

// Bytes of an element that the copy engine moves; 0 where it has none such.
uint32_t map_element_bytes(uint8_t dtype) {
  const DTypeRow* row = dtype_row(dtype);
  const bool plain = row != nullptr && row->block_elements == 1 && row->block_bytes <= 8;
  return plain ? row->block_bytes : 0;
}

bool has_lines_of_range(const fb::TensorMap& map) {
  const uint32_t rank = map.dims()->size();
  return rank >= 2 && map.dims()->Get(rank - 1) == kLinesOfRange;
}

bool good_dims(const fb::TensorMap& map) {
  const uint32_t rank = map.dims()->size();
  const uint32_t boxes = map.window() != nullptr ? kWindowBoxes : rank;
  if (rank < 1 || rank > kMaxMapRank || map.strides()->size() != rank - 1 ||
      map.box()->size() != boxes) {
    return false;
  }
  const auto fits = [](uint64_t value, uint64_t most) { return value >= 1 && value <= most; };
  const uint32_t given = has_lines_of_range(map) ? rank - 1 : rank;
  return std::all_of(map.dims()->begin(), map.dims()->begin() + given,
                     [&](uint64_t dim) { return fits(dim, kMaxMapDim); }) &&
         std::all_of(map.strides()->begin(), map.strides()->end(), [](uint64_t stride) {
           return stride > 0 && stride < kMaxMapStride && stride % kMapAlignmentBytes == 0;
         });
}

bool good_window(const fb::TensorMap& map) {
  const fb::PixelWindow& window = *map.window();
  const auto is_corner = [](int32_t corner) {
    return corner >= kLeastWindowCorner && corner <= kMostWindowCorner;
  };
  const auto is_stride = [](uint32_t stride) { return stride >= 1 && stride <= kMaxWindowStride; };
  // Of each dim there is a place at least.
  const auto has_place = [](int32_t begin, int32_t end, uint64_t size) {
    return int64_t{begin} <= static_cast<int64_t>(size) - 1 + end;
  };
  return map.dims()->size() == kPixelWindowRank && is_corner(window.begin_w()) &&
         is_corner(window.begin_h()) && is_corner(window.end_w()) && is_corner(window.end_h()) &&
         is_stride(window.stride_w()) && is_stride(window.stride_h()) &&
         has_place(window.begin_w(), window.end_w(), map.dims()->Get(1)) &&
         has_place(window.begin_h(), window.end_h(), map.dims()->Get(2));
}

// What one copy moves.
bool good_copy(const fb::TensorMap& map) {
  const auto fits = [](uint32_t count, uint32_t most) { return count >= 1 && count <= most; };
  if (map.window() != nullptr) {
    return good_window(map) && fits(map.box()->Get(0), kMaxWindowChannels) &&
           fits(map.box()->Get(1), kMaxWindowPixels);
  }
  return std::all_of(map.box()->begin(), map.box()->end(),
                     [&](uint32_t dim) { return fits(dim, kMaxBoxDim); });
}

bool good_rows(const fb::TensorMap& map) {
  const uint32_t row_bytes = map.box()->Get(0) * map_element_bytes(map.dtype());
  const uint32_t swizzle = map.swizzle_bytes();
  const bool known = swizzle == 0 || swizzle == 32 || swizzle == 64 || swizzle == 128;
  return known && row_bytes % kMapAlignmentBytes == 0 && (swizzle == 0 || row_bytes <= swizzle);
}

// Bytes from the address to behind the last element, of which the range decides to behind that of
// the first line; nullopt from 2^48 on.
std::optional<uint64_t> reach_of(const fb::TensorMap& map) {
  uint64_t reach = map.dims()->Get(0) * map_element_bytes(map.dtype());
  const uint32_t given = map.dims()->size() - (has_lines_of_range(map) ? 1 : 0);
  for (uint32_t i = 1; i < given; ++i) {
    uint64_t step = 0;
    if (__builtin_mul_overflow(map.dims()->Get(i) - 1, map.strides()->Get(i - 1), &step) ||
        step >= uint64_t{1} << 48) {
      return std::nullopt;
    }
    reach += step;
  }
  return reach;
}

void verify_map(const PlanParts& parts, uint32_t k, uint32_t m, Faults& faults) {
  const fb::Kernel& kernel = *parts.plan.kernels()->Get(k);
  const fb::TensorMap& map = *kernel.maps()->Get(m);
  const fb::KernelAccess* access = access_at(kernel, map.position());
  if (access == nullptr || map_element_bytes(map.dtype()) == 0 || !good_dims(map) ||
      !good_copy(map) || !good_rows(map) || access->alignment() < kMapAlignmentBytes ||
      !stands_at_begin(kernel, map.position())) {
    return faults.add(VerifyRule::TensorMapForm, kernel_name(parts.plan, k), ", tensor map ", m,
                      " of the pointer at byte ", map.position(),
                      " is none that the copy engine takes");
  }
  const std::optional<uint64_t> reach = reach_of(map);
  if (reach && *reach <= access->min_bytes()) return;
  faults.add(VerifyRule::TensorMapReach, kernel_name(parts.plan, k), ", tensor map ", m,
             " reaches over ", reach ? std::to_string(*reach) : "2^48 and more",
             " bytes, its pointer is sure to have ", access->min_bytes());
}

}  // namespace

void verify_maps(const PlanParts& parts, uint32_t k, Faults& faults) {
  const fb::Kernel& kernel = *parts.plan.kernels()->Get(k);
  if (kernel.maps() == nullptr || kernel.maps()->size() == 0) return;
  const bool all_take_maps =
      std::all_of(kernel.variants()->begin(), kernel.variants()->end(),
                  [](const fb::Variant* v) { return target_row(v->target()).has_tensor_maps; });
  if (!all_take_maps || kernel.maps()->size() > kMaxTensorMaps) {
    return faults.add(VerifyRule::TensorMapForm, kernel_name(parts.plan, k), " has ",
                      kernel.maps()->size(), " tensor maps, at most ", kMaxTensorMaps,
                      " can be used, and by CUDA code alone");
  }
  faults.charge(kWorkPerTable * uint64_t{kernel.maps()->size()});
  for (uint32_t m = 0; m < kernel.maps()->size() && !faults.full(); ++m)
    verify_map(parts, k, m, faults);
}

}  // namespace rlx
