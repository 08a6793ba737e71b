// SPDX-License-Identifier: Apache-2.0
// A kernel's sizes at a step's params.
#include "runtime/plan/kernel_sizes.h"

#include <algorithm>
#include <cstring>

#include "schema/plan_header.h"

namespace rlx {

std::span<const fb::SizeTerm> size_terms(const fb::Kernel& kernel) {
  if (kernel.sizes() == nullptr) return {};
  return {reinterpret_cast<const fb::SizeTerm*>(kernel.sizes()->Data()), kernel.sizes()->size()};
}

std::optional<SizeFault> evaluate_sizes(const fb::Kernel& kernel, std::span<const std::byte> params,
                                        std::vector<uint64_t>& sizes) {
  const std::span<const fb::SizeTerm> terms = size_terms(kernel);
  std::array<uint64_t, kMaxParamsBytes> words{};  // by position
  if (kernel.plain_words() != nullptr) {
    for (const uint32_t position : *kernel.plain_words()) {
      uint32_t word = 0;
      std::memcpy(&word, params.data() + position, sizeof word);
      words[position] = word;
    }
  }
  sizes.resize(terms.size());
  return evaluate_sizes(terms, words, sizes);
}

MapShape shape_of(const fb::TensorMap& map, std::span<const uint64_t> sizes) {
  MapShape shape;
  std::copy(map.dims()->begin(), map.dims()->end(), shape.dims.begin());
  std::copy(map.strides()->begin(), map.strides()->end(), shape.strides.begin());
  if (map.sizes() == nullptr) return shape;
  for (const fb::MapSize* size : *map.sizes()) {
    const uint32_t dim = size->dim();
    shape.dims[dim] = sizes[size->size()];
    if (__builtin_mul_overflow(shape.strides[dim - 1], shape.dims[dim], &shape.strides[dim]))
      shape.strides[dim] = 0;
  }
  return shape;
}

}  // namespace rlx
