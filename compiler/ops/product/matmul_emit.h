// SPDX-License-Identifier: Apache-2.0
// What the lowerings of products tell their kernels alike: sizes, index type, batch offsets, the
// epilogue's operands (lib/product.inc). Params is any struct with a, b, bias, residual
// and y.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "compiler/dispatch/builder.h"
#include "compiler/ops/product/matmul_lower.h"

namespace rlx {

// Elements that the epilogue moves at once.
inline constexpr int64_t kVectorElements = 4;

Dim batch_count(const Product& product);
// y, or an added tensor, is moved in aligned pieces of four neighbours along n.
bool y_in_vectors(const OfferContext& at, const Product& product);
bool added_in_vectors(const OfferContext& at, const AddedOperand& added);
// The alignment that an access in such pieces asks for; 0 where it moves single elements.
uint32_t vector_bytes(const TensorRef& ref, bool in_vectors);
// "int" where every offset inside a batch entry fits, else "rlx_i64".
std::string index_type_of(const Product& product);
// generated/batch.inc: element offsets of every operand for `batch`.
std::string batch_source(const Product& product);
// True where y may take over the residual's bytes: an element is read and written by one thread.
bool may_replace_residual(const Product& product);

// How matrix units' kernels copy an operand: in whole aligned pieces along one axis.
enum class PieceAxis : uint8_t { Depth, Line };
struct Pieces {
  PieceAxis axis = PieceAxis::Depth;
  uint32_t bytes = kWidestAccessBytes;

  [[nodiscard]] bool by_line() const { return axis == PieceAxis::Line; }
  [[nodiscard]] bool are_widest() const { return bytes == kWidestAccessBytes; }
};
// The widest pieces in which the operand lies; nullopt where those have fewer than `least_bytes`.
std::optional<Pieces> pieces_of(const OfferContext& at, const ProductOperand& operand,
                                const Dim& lines, const Dim& depth, uint32_t least_bytes);
// RLX_A_COPY and RLX_B_COPY, where they are not the widest.
template <typename Params>
void define_copies(DispatchBuilder<Params>& dispatch, const Pieces& a, const Pieces& b) {
  if (!a.are_widest()) dispatch.define("RLX_A_COPY", a.bytes);
  if (!b.are_widest()) dispatch.define("RLX_B_COPY", b.bytes);
}

// Bytes that the product cannot avoid to move, and its multiplications and additions.
Dim least_bytes(const Product& product);
Dim flops_of(const Product& product);
// Why a kernel that computes one product and nothing beside does not take it; empty where it does.
std::string beside_refusal(const FusedProduct& fused);
// The choice, with the product's note before it.
std::string reason_of(const Product& product, const std::string& choice);

// What a kernel does with its sums.
enum class ProductPass : uint8_t {
  Whole = 0,  // the epilogue, then y
  Split = 1,  // partial sums
  Join = 2,   // adds partial sums; the epilogue, then y
};

template <typename Params>
void define_added(const LowerContext& ctx, DispatchBuilder<Params>& dispatch,
                  const std::string& name, const std::optional<AddedOperand>& added) {
  if (!added) return;
  dispatch.define(name, std::string(name_of(added->ref.dtype())))
      .size(name + "_M", added->m)
      .size(name + "_N", added->n)
      .define(name + "_VECTOR", added_in_vectors(ctx, *added) ? kVectorElements : 1);
}

// Everything but RLX_PASS and what belongs to one kernel alone.
template <typename Params>
void define_product(const LowerContext& ctx, DispatchBuilder<Params>& dispatch,
                    const Product& product, ProductPass pass) {
  const DType acc = accumulator_of(product.a.ref.dtype());
  const bool epilogue = pass != ProductPass::Split;
  dispatch.define("RLX_ACC", std::string(name_of(acc)))
      .define("RLX_INDEX", index_type_of(product))
      .define("RLX_Y", std::string(name_of(product.y.dtype())))
      .define("RLX_Y_VECTOR", y_in_vectors(ctx, product) ? kVectorElements : 1)
      .size("RLX_M", product.m)
      .size("RLX_N", product.n)
      .size("RLX_K", product.k)
      .size("RLX_BATCHES", batch_count(product))
      .define("RLX_ACTIVATION", epilogue && !product.activation.none() ? 1 : 0)
      .generated("batch.inc", batch_source(product));
  if (!epilogue) return;
  if (product.y_lines) dispatch.size("RLX_Y_LINE", product.y_lines->line);
  define_added(ctx, dispatch, "RLX_BIAS", product.bias);
  define_added(ctx, dispatch, "RLX_RESIDUAL", product.residual);
  if (product.residual && product.residual_first) dispatch.define("RLX_RESIDUAL_FIRST", 1);
  define_activation(dispatch, product.activation, acc);
}

template <typename Params>
void bind_operands(DispatchBuilder<Params>& dispatch, const Product& product, uint32_t a_alignment,
                   uint32_t b_alignment) {
  if (product.k == 0) return;  // nothing is read
  dispatch.read(&Params::a, product.a.ref, a_alignment)
      .read(&Params::b, product.b.ref, b_alignment);
}

// Binds what the epilogue reads and writes.
template <typename Params>
void bind_epilogue(const LowerContext& ctx, DispatchBuilder<Params>& dispatch,
                   const Product& product) {
  if (product.bias) {
    dispatch.read(&Params::bias, product.bias->ref,
                  vector_bytes(product.bias->ref, added_in_vectors(ctx, *product.bias)));
  }
  if (product.residual) {
    dispatch.read(&Params::residual, product.residual->ref,
                  vector_bytes(product.residual->ref, added_in_vectors(ctx, *product.residual)));
  }
  dispatch.write(&Params::y, product.y, vector_bytes(product.y, y_in_vectors(ctx, product)));
  if (may_replace_residual(product)) dispatch.allow_in_place(product.residual->ref);
}

}  // namespace rlx
