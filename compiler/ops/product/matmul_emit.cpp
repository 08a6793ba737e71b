// SPDX-License-Identifier: Apache-2.0
// What the lowerings of products share: alignment, index types, batch offsets, counts.
#include "compiler/ops/product/matmul_emit.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/lowering/index_type.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

bool loads_vectors(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

bool whole_vectors(const Strides& batch, std::initializer_list<Dim> strides) {
  const auto whole = [](const Dim& stride) { return stride.divides_by(kVectorElements); };
  return std::all_of(batch.begin(), batch.end(), whole) &&
         std::all_of(strides.begin(), strides.end(), whole);
}

bool vector_aligned(const OfferContext& at, const TensorRef& ref) {
  return loads_vectors(ref.dtype()) &&
         at.alignment(ref) >= kVectorElements * element_bytes(ref.dtype());
}

// At the largest sizes.
int64_t reach(const Dim& count_a, const Dim& stride_a, const Dim& count_b, const Dim& stride_b) {
  return (count_a.range().most - 1) * std::abs(stride_a.bound()) +
         (count_b.range().most - 1) * std::abs(stride_b.bound());
}

std::string count_text(const Dim& count) {
  return count.is_free() ? "rlx_u32(" + size_text(count) + ")" : to_string(count) + "u";
}

std::string offset_line(const std::string& name, const Strides& strides) {
  std::string text = "const rlx_i64 " + name + " = 0";
  for (size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] == 0) continue;
    text += " + rlx_i64(batch_" + std::to_string(i) + ") * rlx_i64(" +
            (strides[i].is_free() ? size_text(strides[i]) : to_string(strides[i]) + "L") + ")";
  }
  return text + ";\n";
}

// The axis along which the operand lies in whole aligned pieces of so many bytes; nullopt where it
// lies so along none.
std::optional<PieceAxis> piece_axis(const OfferContext& at, const ProductOperand& operand,
                                    const Dim& lines, const Dim& depth, uint32_t piece_bytes) {
  const uint32_t bytes = element_bytes(operand.ref.dtype());
  const auto whole = [&](const Dim& stride) { return (stride * bytes).divides_by(piece_bytes); };
  const bool whole_batches = std::all_of(operand.batch.begin(), operand.batch.end(), whole);
  if (at.alignment(operand.ref) < piece_bytes || !whole_batches) return std::nullopt;
  if ((operand.depth == 1 || depth == 1) && (lines == 1 || whole(operand.line)))
    return PieceAxis::Depth;
  if ((operand.line == 1 || lines == 1) && (depth == 1 || whole(operand.depth)))
    return PieceAxis::Line;
  return std::nullopt;
}

}  // namespace

Dim batch_count(const Product& product) {
  return element_count(product.batch);
}

bool y_in_vectors(const OfferContext& at, const Product& product) {
  const bool whole_lines =
      !product.y_lines || whole_vectors(product.y_lines->batch, {product.y_lines->line});
  return product.n.divides_by(kVectorElements) && vector_aligned(at, product.y) && whole_lines &&
         accumulator_of(product.a.ref.dtype()) == DType::f32;
}

bool added_in_vectors(const OfferContext& at, const AddedOperand& added) {
  return added.n == 1 && vector_aligned(at, added.ref) && whole_vectors(added.batch, {added.m});
}

uint32_t vector_bytes(const TensorRef& ref, bool in_vectors) {
  return in_vectors ? narrow<uint32_t>(kVectorElements) * element_bytes(ref.dtype()) : 0;
}

std::string index_type_of(const Product& product) {
  int64_t farthest = (product.m * product.n).range().most;
  if (product.y_lines)
    farthest = std::max(farthest, reach(product.m, product.y_lines->line, product.n, 1));
  if (product.k > 0) {
    farthest = std::max(farthest, reach(product.m, product.a.line, product.k, product.a.depth));
    farthest = std::max(farthest, reach(product.n, product.b.line, product.k, product.b.depth));
  }
  for (const auto* added : {&product.bias, &product.residual}) {
    if (!*added) continue;
    farthest = std::max(farthest, reach(product.m, (*added)->m, product.n, (*added)->n));
  }
  return index_type(IndexUse::Offset, farthest);
}

std::string batch_source(const Product& product) {
  std::string text;
  Dim inner = 1;
  for (size_t i = product.batch.size(); i-- > 0;) {
    text += "const rlx_u32 batch_" + std::to_string(i) + " = batch / " + count_text(inner) + " % " +
            count_text(product.batch[i]) + ";\n";
    inner *= product.batch[i];
  }
  text += offset_line("a_batch", product.a.batch) + offset_line("b_batch", product.b.batch);
  if (product.bias) text += offset_line("bias_batch", product.bias->batch);
  if (product.residual) text += offset_line("residual_batch", product.residual->batch);
  if (product.y_lines) text += offset_line("y_batch", product.y_lines->batch);
  return text;
}

bool may_replace_residual(const Product& product) {
  if (!product.residual) return false;
  const TensorRef& residual = product.residual->ref;
  const bool other_reader = residual.buffer == product.a.ref.buffer ||
                            residual.buffer == product.b.ref.buffer ||
                            (product.bias && residual.buffer == product.bias->ref.buffer);
  return !product.y_lines && residual.dense() && residual.dtype() == product.y.dtype() &&
         !other_reader && element_count(residual.shape()) == element_count(product.y.shape());
}

std::optional<Pieces> pieces_of(const OfferContext& at, const ProductOperand& operand,
                                const Dim& lines, const Dim& depth, uint32_t least_bytes) {
  for (uint32_t bytes = kWidestAccessBytes; bytes >= least_bytes; bytes /= 2) {
    if (const auto axis = piece_axis(at, operand, lines, depth, bytes))
      return Pieces{.axis = *axis, .bytes = bytes};
  }
  return std::nullopt;
}

Dim least_bytes(const Product& product) {
  Dim bytes = byte_size(product.y.type);
  const auto add = [&](const TensorRef& ref) { bytes += ref.byte_range().length_bytes; };
  if (product.k > 0) {
    add(product.a.ref);
    add(product.b.ref);
  }
  if (product.bias) add(product.bias->ref);
  if (product.residual) add(product.residual->ref);
  return bytes;
}

Dim flops_of(const Product& product) {
  return 2 * product.m * product.n * product.k * batch_count(product);
}

std::string beside_refusal(const FusedProduct& fused) {
  if (fused.norm) return "a norm before it";
  return fused.second ? "a gated pair" : "";
}

std::string reason_of(const Product& product, const std::string& choice) {
  return product.note.empty() ? choice : product.note + ": " + choice;
}

std::string vector_axis(const OfferContext& at, const ProductOperand& operand, const Dim& lines,
                        const Dim& depth) {
  if (!vector_aligned(at, operand.ref)) return "1";
  const Dim line_stride = lines == 1 ? Dim() : operand.line;
  const Dim depth_stride = depth == 1 ? Dim() : operand.depth;
  if (depth_stride == 1 && depth.divides_by(kVectorElements) &&
      whole_vectors(operand.batch, {line_stride})) {
    return "DEPTH";
  }
  if (line_stride == 1 && lines.divides_by(kVectorElements) &&
      whole_vectors(operand.batch, {depth_stride})) {
    return "LINE";
  }
  return "1";
}

}  // namespace rlx
