// SPDX-License-Identifier: Apache-2.0
// Block-typed tensors on the host.
#include "compiler/ops/lowering/block_weights.h"

namespace rlx {

std::vector<BlockElement> decode_blocks(const Tensor& tensor) {
  const auto count = static_cast<size_t>(tensor.count());
  std::vector<BlockElement> elements(count);
  for (size_t i = 0; i < count; ++i) {
    elements[i] = decode_block_element(tensor.type.dtype, tensor.blocks, static_cast<int64_t>(i));
  }
  return elements;
}

}  // namespace rlx
