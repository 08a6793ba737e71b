// SPDX-License-Identifier: Apache-2.0
// Host tensors: decoding and encoding of elements.
#include "compiler/ir/tensor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "compiler/support/check.h"

namespace rlx {
namespace {

template <typename T>
T load(std::span<const std::byte> bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
void store(std::vector<std::byte>& bytes, size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

double decode_float(DType dtype, std::span<const std::byte> bytes, size_t i) {
  switch (dtype) {
    case DType::f64:
      return load<double>(bytes, i);
    case DType::f32:
      return load<float>(bytes, i);
    case DType::f16:
      return double_from_f16(load<uint16_t>(bytes, i));
    default:
      return double_from_bf16(load<uint16_t>(bytes, i));
  }
}

void encode_float(DType dtype, std::vector<std::byte>& bytes, size_t i, double value) {
  switch (dtype) {
    case DType::f64:
      return store(bytes, i, value);
    case DType::f32:
      return store(bytes, i, static_cast<float>(value));
    case DType::f16:
      return store(bytes, i, f16_from_double(value));
    default:
      return store(bytes, i, bf16_from_double(value));
  }
}

int64_t decode_integer(DType dtype, std::span<const std::byte> bytes, size_t i) {
  switch (dtype) {
    case DType::i8:
      return load<int8_t>(bytes, i);
    case DType::u8:
    case DType::f8e4m3:
    case DType::f8e5m2:
      return load<uint8_t>(bytes, i);
    case DType::i16:
      return load<int16_t>(bytes, i);
    case DType::i32:
      return load<int32_t>(bytes, i);
    case DType::u32:
      return load<uint32_t>(bytes, i);
    case DType::i64:
    case DType::c64:
      return load<int64_t>(bytes, i);
    default:
      return load<uint8_t>(bytes, i) != 0 ? 1 : 0;
  }
}

// Two's complement truncation: integer ops have wrapped already.
void encode_integer(std::vector<std::byte>& bytes, size_t i, size_t size, int64_t value) {
  std::memcpy(bytes.data() + i * size, &value, size);
}

}  // namespace

static_assert(std::endian::native == std::endian::little);

Tensor Tensor::zeros(const TensorType& type) {
  Tensor tensor;
  tensor.type = type;
  if (block_elements(type.dtype) != 1) {
    tensor.blocks.resize(byte_size(type));
    return tensor;
  }
  const auto count = static_cast<size_t>(element_count(type.shape));
  if (tensor.is_float()) {
    tensor.floats.resize(count);
  } else {
    tensor.integers.resize(count);
  }
  return tensor;
}

Tensor Tensor::from_bytes(const TensorType& type, std::span<const std::byte> bytes) {
  Tensor tensor = zeros(type);
  RLX_CHECK(bytes.size() == byte_size(type), "bytes of " + to_string(type));
  std::copy_n(bytes.begin(), tensor.blocks.size(), tensor.blocks.begin());
  for (size_t i = 0; i < tensor.floats.size(); ++i) {
    tensor.floats[i] = decode_float(type.dtype, bytes, i);
  }
  for (size_t i = 0; i < tensor.integers.size(); ++i) {
    tensor.integers[i] = decode_integer(type.dtype, bytes, i);
  }
  return tensor;
}

std::vector<std::byte> Tensor::to_bytes() const {
  if (block_elements(type.dtype) != 1) return blocks;
  std::vector<std::byte> bytes(byte_size(type));
  for (size_t i = 0; i < floats.size(); ++i) encode_float(type.dtype, bytes, i, floats[i]);
  const size_t size = element_bytes(type.dtype);
  for (size_t i = 0; i < integers.size(); ++i) encode_integer(bytes, i, size, integers[i]);
  return bytes;
}

void Tensor::round_to_dtype() {
  for (double& value : floats) value = round_to(type.dtype, value);
}

}  // namespace rlx
