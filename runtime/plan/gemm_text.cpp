// SPDX-License-Identifier: Apache-2.0
// Words of library products.
#include "runtime/plan/gemm_text.h"

#include <array>

#include "runtime/base/dtype.h"
#include "runtime/base/text.h"

namespace rlx {
namespace {

// By fb::GemmEpilogue.
constexpr std::array<std::string_view, 6> kEpilogues = {
    "", ", bias", ", relu", ", bias and relu", ", gelu_tanh", ", bias and gelu_tanh"};

}  // namespace

std::string gemm_text(const fb::LibraryGemm& gemm) {
  std::string text = text_of(gemm.m(), " x ", gemm.n(), " x ", gemm.k());
  if (gemm.batch() > 1) text += text_of(", ", gemm.batch(), " times,");
  text += text_of(" of ", dtype_row(gemm.a_dtype())->name);
  if (gemm.y_dtype() != gemm.a_dtype()) text += text_of(" to ", dtype_row(gemm.y_dtype())->name);
  if (gemm.compute() == fb::GemmCompute::Tf32) text += " as tf32";
  if (gemm.a_transposed()) text += ", a transposed";
  if (gemm.b_transposed()) text += ", b transposed";
  text += kEpilogues[static_cast<size_t>(gemm.epilogue())];
  return gemm.has_residual() ? text + ", residual" : text;
}

}  // namespace rlx
