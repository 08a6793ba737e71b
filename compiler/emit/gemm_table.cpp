// SPDX-License-Identifier: Apache-2.0
// LibraryGemm records as plan.fbs tables.
#include "compiler/emit/gemm_table.h"

#include <algorithm>

#include "compiler/support/checked.h"

namespace rlx {
namespace {

static_assert(static_cast<int>(fb::GemmCompute::Tf32) == static_cast<int>(GemmCompute::Tf32));
static_assert(static_cast<int>(fb::GemmEpilogue::BiasGeluTanh) ==
              static_cast<int>(GemmEpilogue::BiasGeluTanh));

uint64_t largest(const Dim& size) {
  return narrow<uint64_t>(size.bound());
}

flatbuffers::Offset<fb::LibraryGemm> gemm_record(flatbuffers::FlatBufferBuilder& builder,
                                                 const LibraryGemm& gemm) {
  fb::LibraryGemmBuilder table(builder);
  table.add_m(largest(gemm.m));
  table.add_n(largest(gemm.n));
  table.add_k(largest(gemm.k));
  table.add_batch(largest(gemm.batch));
  table.add_a_dtype(static_cast<uint8_t>(gemm.a_dtype));
  table.add_b_dtype(static_cast<uint8_t>(gemm.b_dtype));
  table.add_y_dtype(static_cast<uint8_t>(gemm.y_dtype));
  table.add_compute(static_cast<fb::GemmCompute>(gemm.compute));
  table.add_epilogue(static_cast<fb::GemmEpilogue>(gemm.epilogue));
  table.add_a_transposed(gemm.a_transposed);
  table.add_b_transposed(gemm.b_transposed);
  table.add_has_residual(gemm.has_residual);
  table.add_a_pitch(largest(gemm.a_pitch));
  table.add_b_pitch(largest(gemm.b_pitch));
  table.add_y_pitch(largest(gemm.y_pitch));
  table.add_residual_pitch(largest(gemm.residual_pitch));
  table.add_a_batch_stride(largest(gemm.a_batch_stride));
  table.add_b_batch_stride(largest(gemm.b_batch_stride));
  table.add_y_batch_stride(largest(gemm.y_batch_stride));
  table.add_residual_batch_stride(largest(gemm.residual_batch_stride));
  table.add_workspace_bytes(gemm.workspace_bytes);
  return table.Finish();
}

}  // namespace

uint32_t GemmTable::add(const LibraryGemm& gemm) {
  const auto found = std::find(gemms_.begin(), gemms_.end(), gemm);
  const auto index = narrow<uint32_t>(found - gemms_.begin());
  if (found == gemms_.end()) gemms_.push_back(gemm);
  return index;
}

std::vector<flatbuffers::Offset<fb::LibraryGemm>> GemmTable::build(
    flatbuffers::FlatBufferBuilder& builder) const {
  std::vector<flatbuffers::Offset<fb::LibraryGemm>> records;
  for (const LibraryGemm& gemm : gemms_) records.push_back(gemm_record(builder, gemm));
  return records;
}

}  // namespace rlx
