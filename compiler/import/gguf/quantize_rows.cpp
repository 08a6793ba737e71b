// SPDX-License-Identifier: Apache-2.0
// The bytes of tensors in their new types, a slab at a time.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "compiler/import/gguf/quantize.h"
#include "compiler/import/names.h"
#include "compiler/ops/lowering/block_weights.h"
#include "compiler/support/block_encoder.h"
#include "compiler/support/blocks.h"
#include "schema/rounding.h"

namespace rlx::gguf {
namespace {

constexpr uint64_t kSlabElements = uint64_t{1} << 24;
constexpr uint64_t kTakenElements = uint64_t{1} << 16;  // what a thread takes at once

template <typename T>
T element(std::span<const std::byte> bytes, uint64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// Values of dense floats, or of blocks, as f32.
float value_of(const Tensor& tensor, uint64_t index) {
  if (tensor.dtype == DType::f32) return element<float>(tensor.bytes, index);
  if (tensor.dtype == DType::f16)
    return static_cast<float>(double_from_f16(element<uint16_t>(tensor.bytes, index)));
  if (tensor.dtype == DType::bf16)
    return static_cast<float>(double_from_bf16(element<uint16_t>(tensor.bytes, index)));
  return static_cast<float>(
      decode_block_element(tensor.dtype, tensor.bytes, static_cast<int64_t>(index)).value());
}

void put_dense(DType type, std::span<const float> values, std::span<std::byte> out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits =
        type == DType::f16 ? f16_from_double(values[i]) : bf16_from_double(values[i]);
    std::memcpy(out.data() + i * sizeof(bits), &bits, sizeof(bits));
  }
}

// Why values cannot be written, as the end of a sentence about a tensor.
using Fault = std::optional<std::string>;

Fault write_values(DType type, std::span<const float> values, std::span<std::byte> out) {
  if (type == DType::f32) {
    std::memcpy(out.data(), values.data(), values.size_bytes());
    return std::nullopt;
  }
  const std::string too_large = "has numbers too large for " + std::string(name_of(type));
  if (is_short_float(type)) {
    put_dense(type, values, out);
    const auto overflows = [&](float value) { return std::isinf(round_to(type, value)); };
    return std::ranges::any_of(values, overflows) ? Fault(too_large) : std::nullopt;
  }
  return encode_blocks(type, values, out) ? std::nullopt : Fault(too_large + "'s scales");
}

// Elements first .. first + count, whole blocks of both types.
Fault write_elements(const PlannedTensor& tensor, uint64_t first, uint64_t count,
                     std::span<std::byte> out) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    values[i] = value_of(*tensor.from, first + i);
    if (!std::isfinite(values[i]))
      return "has a number that is not finite, element " + std::to_string(first + i);
  }
  return write_values(tensor.type, values, out);
}

// A run of elements of a tensor, in pieces that threads take one after another.
class Slab {
 public:
  Slab(const PlannedTensor& tensor, uint64_t first, uint64_t count)
      : tensor_(tensor), first_(first), count_(count) {
    bytes_.resize(bytes_of(count));
  }

  Fault encode(uint32_t threads) {
    const uint64_t pieces = ceil_div(count_, kTakenElements);
    std::vector<std::thread> others;
    for (uint64_t i = 1; i < std::min<uint64_t>(threads, pieces); ++i)
      others.emplace_back([this] { take_pieces(); });
    take_pieces();
    for (std::thread& other : others) other.join();
    return fault_;
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  [[nodiscard]] uint64_t bytes_of(uint64_t elements) const {
    return elements / block_elements(tensor_.type) * block_bytes(tensor_.type);
  }

  // The fault of the first piece that has one is told, whatever the threads' order.
  void take_pieces() {
    for (uint64_t at = 0; (at = next_.fetch_add(kTakenElements)) < count_;) {
      const uint64_t count = std::min(kTakenElements, count_ - at);
      const auto out = std::span(bytes_).subspan(bytes_of(at), bytes_of(count));
      const Fault fault = write_elements(tensor_, first_ + at, count, out);
      if (!fault) continue;
      const std::scoped_lock lock(mutex_);
      if (!fault_ || at < faulty_) fault_ = fault;
      faulty_ = std::min(faulty_, at);
    }
  }

  const PlannedTensor& tensor_;
  uint64_t first_;
  uint64_t count_;
  std::vector<std::byte> bytes_;
  std::atomic<uint64_t> next_ = 0;
  std::mutex mutex_;
  Fault fault_;
  uint64_t faulty_ = UINT64_MAX;
};

}  // namespace

bool Quantization::write(const Sink& sink, uint32_t threads, Diagnostics& diagnostics) const {
  for (const PlannedTensor& tensor : tensors_) {
    if (!tensor.why_kept.empty()) {
      if (!sink(tensor.offset_bytes, tensor.from->bytes)) return false;
      continue;
    }
    const uint64_t elements = tensor.from->bytes.size() / block_bytes(tensor.from->dtype) *
                              block_elements(tensor.from->dtype);
    uint64_t at = tensor.offset_bytes;
    for (uint64_t first = 0; first < elements; first += kSlabElements) {
      Slab slab(tensor, first, std::min(kSlabElements, elements - first));
      if (const Fault fault = slab.encode(threads)) {
        diagnostics.error(DiagCode::BadDtype, {parts_.front().path, ""},
                          "tensor " + in_quotes(tensor.from->name) + " " + *fault,
                          "PART=TYPE in --type gives this tensor a type of its own");
        return false;
      }
      if (!sink(at, slab.bytes())) return false;
      at += slab.bytes().size();
    }
  }
  return true;
}

}  // namespace rlx::gguf
