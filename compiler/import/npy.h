// SPDX-License-Identifier: Apache-2.0
// NumPy .npy files, versions 1.0, 2.0 and 3.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/diagnostics.h"
#include "compiler/support/shape.h"

namespace rlx {

// A checked view of the bytes of one file.
struct NpyView {
  TensorType type;
  bool is_fortran_order = false;
  bool is_big_endian = false;
  std::span<const std::byte> payload;  // exactly byte_size(type)
};

// Why the bytes are refused: FileFormat or FileSize, and the end of a sentence that names the file.
struct ParseFault {
  DiagCode code = DiagCode::FileFormat;
  std::string message;
};

std::variant<NpyView, ParseFault> parse_npy(std::span<const std::byte> file);

// The array as dense, row-major, little-endian bytes: the payload itself where it is that already
// (`owner` keeps it alive), converted otherwise.
HostBytes npy_bytes(const NpyView& view, std::shared_ptr<const void> owner);

}  // namespace rlx
