// SPDX-License-Identifier: Apache-2.0
// Tensor maps from the plan's records.
#include "runtime/cuda/cu_maps.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/base/text.h"
#include "runtime/plan/kernel_sizes.h"
#include "schema/tensor_map.h"

namespace rlx::cuda {
namespace {

constexpr uint32_t kMapArchitecture = 90;
// Element types by size: the engine moves bytes. Zeros outside the tensor are zeros of every dtype.
constexpr int kUint8 = 0;
constexpr int kUint16 = 1;
constexpr int kUint32 = 2;
constexpr int kUint64 = 4;

int element_type(uint32_t bytes) {
  switch (bytes) {
    case 1:
      return kUint8;
    case 2:
      return kUint16;
    case 4:
      return kUint32;
    default:
      return kUint64;
  }
}

int swizzle_of(uint32_t bytes) {
  switch (bytes) {
    case 32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case 64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case 128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    default:
      return CU_TENSOR_MAP_SWIZZLE_NONE;
  }
}

// Where the range decides, its lines; it holds one at least.
MapShape shape_at(const fb::TensorMap& map, std::span<const uint64_t> sizes,
                  std::span<const fb::Relocation> relocations) {
  MapShape shape = shape_of(map, sizes);
  const uint32_t rank = map.dims()->size();
  if (rank < 2 || shape.dims[rank - 1] != kLinesOfRange) return shape;
  uint64_t line_bytes = shape.dims[0] * dtype_row(map.dtype())->block_bytes;
  for (uint32_t i = 1; i < rank - 1; ++i) line_bytes += (shape.dims[i] - 1) * shape.strides[i - 1];
  const auto range = std::find_if(
      relocations.begin(), relocations.end(),
      [&map](const fb::Relocation& relocation) { return relocation.position() == map.position(); });
  shape.dims[rank - 1] = (range->length_bytes() - line_bytes) / shape.strides[rank - 2] + 1;
  return shape;
}

CUresult encode_map(const Api& api, const fb::TensorMap& map, void* address, const MapShape& shape,
                    CUtensorMap& encoded) {
  constexpr std::array<uint32_t, kMaxMapRank> kEveryElement = {1, 1, 1, 1, 1};
  const int type = element_type(dtype_row(map.dtype())->block_bytes);
  const int swizzle = swizzle_of(map.swizzle_bytes());
  const fb::PixelWindow* window = map.window();
  if (window == nullptr) {
    return api.cuTensorMapEncodeTiled(
        &encoded, type, map.dims()->size(), address, shape.dims.data(), shape.strides.data(),
        map.box()->data(), kEveryElement.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  }
  const std::array<int, 2> lower = {window->begin_w(), window->begin_h()};
  const std::array<int, 2> upper = {window->end_w(), window->end_h()};
  const std::array<uint32_t, kPixelWindowRank> strides = {1, window->stride_w(), window->stride_h(),
                                                          1};
  return api.cuTensorMapEncodeIm2col(
      &encoded, type, kPixelWindowRank, address, shape.dims.data(), shape.strides.data(),
      lower.data(), upper.data(), map.box()->Get(0), map.box()->Get(1), strides.data(),
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace

Status encode_maps(Context& context, const fb::Kernel& kernel, std::span<const std::byte> params,
                   std::span<const fb::Relocation> relocations, TensorMaps& maps) {
  maps = {};
  if (kernel.maps() == nullptr || context.info.architecture < kMapArchitecture) return {};
  // The verifier has seen that they have values.
  std::vector<uint64_t> sizes;
  static_cast<void>(evaluate_sizes(kernel, params, sizes));
  for (uint32_t m = 0; m < kernel.maps()->size(); ++m) {
    const fb::TensorMap& map = *kernel.maps()->Get(m);
    uint64_t address = 0;
    std::memcpy(&address, params.data() + map.position(), sizeof address);
    RLX_RETURN_IF_ERROR(
        context.check(encode_map(context.api, map, reinterpret_cast<void*>(address),
                                 shape_at(map, sizes, relocations), maps[m]),
                      text_of("tensor map ", m, " of kernel ", PlanView::text(kernel.name()))));
  }
  return {};
}

}  // namespace rlx::cuda
