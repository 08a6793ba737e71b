// SPDX-License-Identifier: Apache-2.0
// Tensor maps from the plan's records.
#include "runtime/cuda/cu_maps.h"

#include <cstring>

#include "runtime/base/dtype.h"
#include "runtime/base/text.h"

namespace rlx::cuda {
namespace {

constexpr uint32_t kMapArchitecture = 90;
constexpr size_t kMostRank = 5;
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

}  // namespace

Status encode_maps(Context& context, const fb::Kernel& kernel, std::span<const std::byte> params,
                   TensorMaps& maps) {
  maps = {};
  if (kernel.maps() == nullptr || context.info.architecture < kMapArchitecture) return {};
  constexpr std::array<uint32_t, kMostRank> kEveryElement = {1, 1, 1, 1, 1};
  for (uint32_t m = 0; m < kernel.maps()->size(); ++m) {
    const fb::TensorMap& map = *kernel.maps()->Get(m);
    uint64_t address = 0;
    std::memcpy(&address, params.data() + map.position(), sizeof address);
    RLX_RETURN_IF_ERROR(
        context.check(context.api.cuTensorMapEncodeTiled(
                          &maps[m], element_type(dtype_row(map.dtype())->block_bytes),
                          map.dims()->size(), reinterpret_cast<void*>(address), map.dims()->data(),
                          map.strides()->data(), map.box()->data(), kEveryElement.data(),
                          CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(map.swizzle_bytes()),
                          CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                      text_of("tensor map ", m, " of kernel ", PlanView::text(kernel.name()))));
  }
  return {};
}

}  // namespace rlx::cuda
