// SPDX-License-Identifier: Apache-2.0
// Verifier, rule group 7: the tensor maps of kernels.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/plan/cuda_code.h"
#include "runtime/plan/kernel_sizes.h"
#include "runtime/plan/target_row.h"
#include "runtime/verify/verify_context.h"
#include "schema/tensor_map.h"

namespace rlx {
namespace {

// Limits of cuTensorMapEncodeTiled (CUDA driver API).
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

bool good_lists(const fb::TensorMap& map) {
  const uint32_t rank = map.dims()->size();
  const uint32_t boxes = map.window() != nullptr ? kWindowBoxes : rank;
  return rank >= 1 && rank <= kMaxMapRank && map.strides()->size() == rank - 1 &&
         map.box()->size() == boxes;
}

bool good_sizes(const fb::Kernel& kernel, const fb::TensorMap& map) {
  if (map.sizes() == nullptr) return true;
  uint32_t least_dim = 1;
  for (const fb::MapSize* size : *map.sizes()) {
    const uint32_t dim = size->dim();
    if (dim < least_dim || dim >= map.dims()->size() - 1 || map.dims()->Get(dim) != 0 ||
        map.strides()->Get(dim) != 0 || size->size() >= size_terms(kernel).size()) {
      return false;
    }
    least_dim = dim + 1;
  }
  return true;
}

// The map as it is where every size is 1.
MapShape least_shape(const fb::Kernel& kernel, const fb::TensorMap& map) {
  return shape_of(map, std::vector<uint64_t>(size_terms(kernel).size(), 1));
}

bool good_shape(const fb::TensorMap& map, const MapShape& shape) {
  const uint32_t rank = map.dims()->size();
  const auto fits = [](uint64_t value, uint64_t most) { return value >= 1 && value <= most; };
  const uint32_t given = has_lines_of_range(map) ? rank - 1 : rank;
  return std::all_of(shape.dims.begin(), shape.dims.begin() + given,
                     [&](uint64_t dim) { return fits(dim, kMaxMapDim); }) &&
         std::all_of(shape.strides.begin(), shape.strides.begin() + rank - 1, [](uint64_t stride) {
           return stride > 0 && stride < kMaxMapStride && stride % kMapAlignmentBytes == 0;
         });
}

bool good_window(const fb::TensorMap& map) {
  const fb::PixelWindow& window = *map.window();
  const auto is_corner = [](int32_t corner) {
    return corner >= kLeastWindowCorner && corner <= kMostWindowCorner;
  };
  const auto is_stride = [](uint32_t stride) { return stride >= 1 && stride <= kMaxWindowStride; };
  return map.dims()->size() == kPixelWindowRank && is_corner(window.begin_w()) &&
         is_corner(window.begin_h()) && is_corner(window.end_w()) && is_corner(window.end_h()) &&
         is_stride(window.stride_w()) && is_stride(window.stride_h());
}

// Of each dim there is a place at least.
bool has_places(const fb::TensorMap& map, const MapShape& shape) {
  const fb::PixelWindow* window = map.window();
  const auto has_place = [](int32_t begin, int32_t end, uint64_t size) {
    return int64_t{begin} <= static_cast<int64_t>(size) - 1 + end;
  };
  return window == nullptr || (has_place(window->begin_w(), window->end_w(), shape.dims[1]) &&
                               has_place(window->begin_h(), window->end_h(), shape.dims[2]));
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
std::optional<uint64_t> reach_of(const fb::TensorMap& map, const MapShape& shape) {
  uint64_t reach = shape.dims[0] * map_element_bytes(map.dtype());
  const uint32_t given = map.dims()->size() - (has_lines_of_range(map) ? 1 : 0);
  for (uint32_t i = 1; i < given; ++i) {
    uint64_t step = 0;
    if (__builtin_mul_overflow(shape.dims[i] - 1, shape.strides[i - 1], &step) ||
        step >= uint64_t{1} << 48) {
      return std::nullopt;
    }
    reach += step;
  }
  return reach;
}

std::string reach_text(const std::optional<uint64_t>& reach) {
  return reach ? std::to_string(*reach) : "2^48 and more";
}

// All but what sizes make of it.
bool good_form(const fb::Kernel& kernel, const fb::TensorMap& map) {
  if (map_element_bytes(map.dtype()) == 0 || !good_lists(map) || !good_sizes(kernel, map) ||
      !good_copy(map) || !good_rows(map)) {
    return false;
  }
  const MapShape shape = least_shape(kernel, map);
  return good_shape(map, shape) && (has_sizes(map) || has_places(map, shape));
}

void verify_map(const PlanParts& parts, uint32_t k, uint32_t m, Faults& faults) {
  const fb::Kernel& kernel = *parts.plan.kernels()->Get(k);
  const fb::TensorMap& map = *kernel.maps()->Get(m);
  const fb::KernelAccess* access = access_at(kernel, map.position());
  if (access == nullptr || !good_form(kernel, map) || access->alignment() < kMapAlignmentBytes ||
      !stands_at_begin(kernel, map.position())) {
    return faults.add(VerifyRule::TensorMapForm, kernel_name(parts.plan, k), ", tensor map ", m,
                      " of the pointer at byte ", map.position(),
                      " is none that the copy engine takes");
  }
  if (has_sizes(map)) return;  // How far it reaches, each step says.
  const std::optional<uint64_t> reach = reach_of(map, least_shape(kernel, map));
  if (reach && *reach <= access->min_bytes()) return;
  faults.add(VerifyRule::TensorMapReach, kernel_name(parts.plan, k), ", tensor map ", m,
             " reaches over ", reach_text(reach), " bytes, its pointer is sure to have ",
             access->min_bytes());
}

void verify_step_map(const PlanParts& parts, const StepPlace& place, uint32_t m,
                     std::span<const uint64_t> sizes, Faults& faults) {
  const fb::TensorMap& map = *parts.plan.kernels()->Get(place.step.kernel())->maps()->Get(m);
  const MapShape shape = shape_of(map, sizes);
  if (!good_shape(map, shape) || !has_places(map, shape)) {
    return faults.add(VerifyRule::TensorMapForm, place.name(), ", tensor map ", m,
                      " of the pointer at byte ", map.position(),
                      " is with the step's params none that the copy engine takes");
  }
  const std::span<const fb::Relocation> pointers = place.entry.relocations_of(place.step);
  const auto pointer = std::find_if(
      pointers.begin(), pointers.end(),
      [&map](const fb::Relocation& candidate) { return candidate.position() == map.position(); });
  const std::optional<uint64_t> reach = reach_of(map, shape);
  if (reach && *reach <= pointer->length_bytes()) return;
  faults.add(VerifyRule::TensorMapReach, place.name(), ", tensor map ", m, " reaches over ",
             reach_text(reach), " bytes with the step's params, its pointer has ",
             pointer->length_bytes());
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

void verify_step_maps(const PlanParts& parts, const StepPlace& place,
                      std::span<const uint64_t> sizes, Faults& faults) {
  const fb::Kernel& kernel = *parts.plan.kernels()->Get(place.step.kernel());
  const uint32_t count = kernel.maps() == nullptr ? 0 : kernel.maps()->size();
  for (uint32_t m = 0; m < count && !faults.full(); ++m) {
    if (!has_sizes(*kernel.maps()->Get(m))) continue;
    faults.charge(kWorkPerTable);
    verify_step_map(parts, place, m, sizes, faults);
  }
}

}  // namespace rlx
