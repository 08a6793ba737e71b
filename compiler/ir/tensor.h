// SPDX-License-Identifier: Apache-2.0
// Host tensors of the reference evaluator and the constant folder: floats as f64, integers and
// bools as i64.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "compiler/support/shape.h"

namespace rlx {

// A dense host tensor. Exactly one of `floats` (Float dtypes), `integers` (Int, Uint, Bool; the
// codes of 8-bit floats, the bits of c64 as complex_bits.h has them) and `blocks` (the bytes of
// block types) holds the elements. `magnitudes`
// is S = sum of |terms| per element (ops.md 0.5) where the producing op sums, of c64 per part;
// otherwise empty.
// `terms` is the n of class sum(n), the number of summed terms, 0 where the op does not sum.
struct Tensor {
  TensorType type;
  std::vector<double> floats;
  std::vector<int64_t> integers;
  std::vector<std::byte> blocks;
  std::vector<double> magnitudes;
  int64_t terms = 0;

  // Zero-filled tensor of a type; blocks and codes of zero bytes.
  static Tensor zeros(const TensorType& type);
  // Decodes dense little-endian bytes; their count must be byte_size(type). Bool bytes become 0
  // or 1.
  static Tensor from_bytes(const TensorType& type, std::span<const std::byte> bytes);
  // Encodes, rounding floats to the dtype once.
  [[nodiscard]] std::vector<std::byte> to_bytes() const;
  // Rounds every float to the dtype in place (what a device stores).
  void round_to_dtype();

  [[nodiscard]] bool is_float() const { return rlx::is_float(type.dtype); }
  [[nodiscard]] int64_t count() const { return element_count(type.shape); }
};

}  // namespace rlx
