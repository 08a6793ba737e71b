// SPDX-License-Identifier: Apache-2.0
// A product that the target's vendor library computes: the second kind of work a step can be.
#pragma once

#include <cstdint>

#include "compiler/support/dim.h"
#include "compiler/support/dtype.h"

namespace rlx {

// Byte positions of a LibraryGemm step's accesses, in place of fields of a params struct.
enum class GemmOperand : uint32_t {
  A = 0,
  B = 8,
  Bias = 16,
  Residual = 24,
  Y = 32,
  Workspace = 40
};

enum class GemmCompute : uint8_t {
  F32,   // f32 products and sums; f16 and bf16 operands with f32 sums
  Tf32,  // f32 operands rounded to tf32
};

enum class GemmEpilogue : uint8_t { None, Bias, Relu, BiasRelu, GeluTanh, BiasGeluTanh };

// y[i][m][n] = epilogue(sum over k of a[i][m][k] * b[i][k][n] + bias[n] + residual[i][m][n]), for i
// below `batch`. A residual is added before the activation, so it stands only beside None and Bias.
// Pitches and batch strides count elements; a pitch is the distance of two rows of the matrix as it
// is stored: [m][k], or [k][m] where transposed.
struct LibraryGemm {
  Dim m = 0;
  Dim n = 0;
  Dim k = 0;
  Dim batch = 1;
  DType a_dtype{};  // equal to b_dtype
  DType b_dtype{};
  DType y_dtype{};  // also the residual's and the bias's
  GemmCompute compute = GemmCompute::F32;
  GemmEpilogue epilogue = GemmEpilogue::None;
  bool a_transposed = false;
  bool b_transposed = false;
  bool has_residual = false;
  Dim a_pitch = 0;
  Dim b_pitch = 0;
  Dim y_pitch = 0;
  Dim residual_pitch = 0;
  Dim a_batch_stride = 0;
  Dim b_batch_stride = 0;
  Dim y_batch_stride = 0;
  Dim residual_batch_stride = 0;
  uint64_t workspace_bytes = 0;
  bool operator==(const LibraryGemm&) const = default;
};

}  // namespace rlx
