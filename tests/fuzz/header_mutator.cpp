// SPDX-License-Identifier: Apache-2.0
// Mutations of .npy and .safetensors files whose header keeps the length that the file states:
// RLX_FUZZ_LENGTH_OFFSET and RLX_FUZZ_LENGTH_BYTES say where that little-endian number stands.
// Every fourth mutation is libFuzzer's own, of all bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

constexpr size_t kPrefix = RLX_FUZZ_LENGTH_OFFSET + RLX_FUZZ_LENGTH_BYTES;

uint64_t header_bytes(const uint8_t* data) {
  uint64_t length = 0;
  std::memcpy(&length, data + RLX_FUZZ_LENGTH_OFFSET, RLX_FUZZ_LENGTH_BYTES);
  return length;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  if (seed % 4 == 0 || size < kPrefix || max_size < kPrefix)
    return LLVMFuzzerMutate(data, size, max_size);
  const size_t old = std::min<uint64_t>(header_bytes(data), size - kPrefix);
  const std::vector<uint8_t> payload(data + kPrefix + old, data + size);
  const size_t room = max_size - kPrefix - std::min(payload.size(), max_size - kPrefix);
  const uint64_t length =
      room == 0 ? 0 : LLVMFuzzerMutate(data + kPrefix, std::min(old, room), room);
  std::memcpy(data + RLX_FUZZ_LENGTH_OFFSET, &length, RLX_FUZZ_LENGTH_BYTES);
  const size_t kept = std::min(payload.size(), max_size - kPrefix - length);
  if (kept > 0) std::memcpy(data + kPrefix + length, payload.data(), kept);
  return kPrefix + length + kept;
}
