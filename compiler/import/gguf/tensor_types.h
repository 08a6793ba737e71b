// SPDX-License-Identifier: Apache-2.0
// GGML's element types by their numbers in GGUF files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compiler/support/dtype.h"

namespace rlx::gguf {

// The element type of that number; nullopt where rlx has none.
std::optional<DType> find_dtype(uint32_t type);

// The number of an element type; nullopt where GGUF has none.
std::optional<uint32_t> type_number(DType dtype);

// GGML's name of a type, or "type 77" where it is not known.
std::string type_name(uint32_t type);

}  // namespace rlx::gguf
