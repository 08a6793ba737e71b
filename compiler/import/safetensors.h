// SPDX-License-Identifier: Apache-2.0
// Safetensors files: a JSON header and one block of tensor bytes.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "compiler/import/npy.h"

namespace rlx {

struct SafetensorsTensor {
  std::string dtype_text;      // as written, "BF16"
  std::optional<DType> dtype;  // nullopt: a type that rlx does not have
  std::vector<uint64_t> shape;
  std::span<const std::byte> bytes;
};

using SafetensorsView = std::map<std::string, SafetensorsTensor, std::less<>>;

// Checks the whole header: offsets in bounds, no overlap, no hole, sizes equal to shape x dtype.
std::variant<SafetensorsView, ParseFault> parse_safetensors(std::span<const std::byte> file);

}  // namespace rlx
