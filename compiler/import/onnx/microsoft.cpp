// SPDX-License-Identifier: Apache-2.0
// Operators of the domain com.microsoft that onnxruntime's optimizer writes: activations with a
// bias, norms with a skip, embeddings, products of scaled or packed operands; and those that are
// ones of ONNX.
#include <array>

#include "compiler/import/onnx/microsoft_fused.h"
#include "compiler/import/onnx/op_table.h"
#include "schema/rounding.h"

namespace rlx::onnx_import {

void quantize(NodeReader& n, const OnnxOp& row);                // quantize.cpp
void dequantize(NodeReader& n, const OnnxOp& row);              // quantize.cpp
void dynamic_quantized_lstm(NodeReader& n, const OnnxOp& row);  // recurrent.cpp
void grid_sample(NodeReader& n, const OnnxOp& row);             // resize.cpp
void inverse(NodeReader& n, const OnnxOp& row);                 // elimination.cpp
void pad_by_inputs(NodeReader& n, const OnnxOp& row);           // movement.cpp
void range(NodeReader& n, const OnnxOp& row);                   // generators.cpp
void trilu(NodeReader& n, const OnnxOp& row);                   // movement.cpp

namespace {

void gelu_of_sum(NodeReader& n, const OnnxOp& row) {
  ValueId x = n.input(0);
  if (n.has_input(1)) x = n.emit("add", {x, n.input(1)});
  n.set_output(0, n.emit(row.target, {x}));
}

void quick_gelu(NodeReader& n, const OnnxOp&) {
  n.set_output(0, n.emit("swish", {n.input(0)}, {{"alpha", n.real("alpha", 1.702)}}));
}

// The norm of input + skip (+ bias); a skip may leave out the batch.
void skip_norm(NodeReader& n, const OnnxOp& row) {
  const bool is_centred = row.target == "layer_norm";
  ValueId sum = n.emit("add", {n.input(0), n.input(1)});
  const size_t bias = is_centred ? 4 : 3;
  if (n.has_input(bias)) sum = n.emit("add", {sum, n.input(bias)});
  if (n.wants_output(1) || n.wants_output(2))
    n.refuse("its mean and deviation are for training", "leave these outputs out");
  Inputs inputs = {sum, n.input(2)};
  if (is_centred) inputs.push_back(n.optional_input(3));
  const Attributes attributes = {{"axis", int64_t{-1}}, {"eps", n.real("epsilon", 1e-12)}};
  n.set_output(0, n.emit(row.target, std::move(inputs), attributes));
  if (n.wants_output(3)) n.set_output(3, sum);
}

void simplified_norm(NodeReader& n, const OnnxOp&) {
  if (n.integer("stash_type", 1) != 1)
    n.refuse("statistics in another type than float (stash_type) are not supported");
  const std::vector<ValueId> results = n.emit_all(
      "rms_norm", {n.input(0), n.input(1)},
      {{"axis", n.integer("axis", -1)}, {"eps", n.real("epsilon", 1e-5)}}, n.output_count());
  for (size_t i = 0; i < results.size(); ++i) n.set_output(i, results[i]);
}

struct EmbedInput {
  enum : size_t {
    kIds,
    kSegments,
    kWords,
    kPlaces,
    kSegmentRows,
    kGamma,
    kBeta,
    kMask,
    kPositions
  };
};

// layer_norm(words[ids] + places[positions] + segments[segment_ids])
void embed_norm(NodeReader& n, const OnnxOp&) {
  using In = EmbedInput;
  const auto rows = [&](size_t table, ValueId ids) {
    return n.emit("gather", {n.input(table), ids}, {{"axis", int64_t{0}}});
  };
  n.integer("mask_index_type", 0);
  ValueId sum = rows(In::kWords, n.input(In::kIds));
  if (n.has_input(In::kPositions)) {
    sum = n.emit("add", {sum, rows(In::kPlaces, n.input(In::kPositions))});
  } else {
    const Dim tokens = n.shape(In::kIds)[1];
    if (n.shape(In::kPlaces)[0] < tokens)
      n.refuse_shapes("there are " + to_string(n.shape(In::kPlaces)[0]) + " positions for " +
                      to_string(tokens) + " tokens");
    const ValueId first = n.emit("slice", {n.input(In::kPlaces)},
                                 {{"axes", Ints{0}}, {"starts", Ints{0}}, {"ends", Ints{tokens}}});
    sum = n.emit("add", {sum, first});
  }
  if (n.has_input(In::kSegments))
    sum = n.emit("add", {sum, rows(In::kSegmentRows, n.input(In::kSegments))});
  n.ignore_input(In::kSegmentRows);
  n.set_output(0, n.emit("layer_norm", {sum, n.input(In::kGamma), n.input(In::kBeta)},
                         {{"axis", int64_t{-1}}, {"eps", n.real("epsilon", 1e-12)}}));
  if (n.wants_output(2)) n.set_output(2, sum);
  const bool has_mask = n.has_input(In::kMask);
  if (!n.wants_output(1)) return;
  // How many tokens of each sequence count.
  const Dim batch = n.shape(In::kIds)[0];
  n.set_output(
      1, has_mask
             ? n.cast(n.emit("reduce_sum", {n.input(In::kMask)}, {{"axes", Ints{1}}}), DType::i32)
             : n.emit("fill", {},
                      {{"shape", Ints{batch}}, {"value", 0.0}, {"dtype", std::string("i32")}}));
}

// Tables have a column for each pair; one position is that of the first token.
void packed_rotary(NodeReader& n, const OnnxOp&) {
  if (n.integer("is_packed_batching", 0) != 0) n.refuse("packed batches are not supported");
  if (n.real("scale", 1) != 1) n.refuse("scale is not supported, wanted 1");
  const int64_t rank = n.rank(0);
  if (rank != 3 && rank != 4)
    n.refuse_shapes("x is " + to_string(n.shape(0)) + ", wanted rank 3 or 4");
  const int64_t pairs = n.shape(2)[1];
  const int64_t heads = n.integer("num_heads", 0);
  const int64_t rotated = n.integer("rotary_embedding_dim", 0);
  if (rotated != 0 && rank == 3 && heads == 0)
    n.refuse("num_heads is wanted beside rotary_embedding_dim");
  int64_t head_dim = 2 * pairs;
  if (rank == 4) {
    head_dim = n.shape(0)[3];
  } else if (heads > 0) {
    head_dim = n.shape(0)[2] / heads;
  }
  ValueId positions = n.input(1);
  if (n.shape(1) == Shape{1}) positions = n.reshape(positions, {});
  const bool interleaved = n.integer("interleaved", 0) != 0;
  n.set_output(0, n.emit("rope", {n.input(0), n.input(2), n.input(3), positions},
                         {{"head_dim", head_dim},
                          {"n_rot", rotated == 0 ? head_dim : rotated},
                          {"style", std::string(interleaved ? "gptj" : "neox")},
                          {"layout", std::string(rank == 3 ? "bsd" : "bhsd")}}));
}

// An operand whose batch stands behind its first axis, which is one of the matrices.
ValueId batch_first(NodeReader& n, size_t i, bool is_turned) {
  const int64_t rank = n.rank(i);
  if (!is_turned || rank < 3) return n.input(i);
  Ints order;
  for (int64_t axis = 1; axis + 1 < rank; ++axis) order.push_back(axis);
  order.push_back(0);
  order.push_back(rank - 1);
  return n.transpose(n.input(i), order);
}

void fused_matmul(NodeReader& n, const OnnxOp&) {
  const ValueId a = batch_first(n, 0, n.integer("transBatchA", 0) != 0);
  const ValueId b = batch_first(n, 1, n.integer("transBatchB", 0) != 0);
  const double alpha = n.real("alpha", 1);
  const ValueId y =
      n.emit("matmul", {a, b},
             {{"trans_a", n.integer("transA", 0) != 0}, {"trans_b", n.integer("transB", 0) != 0}});
  n.set_output(0, alpha == 1 ? y : n.emit("affine", {y}, {{"mul", alpha}}));
}

// ---- weights in blocks of 4 or 8 bits ----

enum PackedInput : size_t { kRows, kCodes, kScales, kZeros, kOrder, kBias };

// Bytes [N, M] or [N, blocks, M] as the numbers in them along the last axis: low bits first.
ValueId unpacked(NodeReader& n, ValueId bytes, int64_t bits) {
  if (bits == 8) return bytes;
  const auto mask = static_cast<double>((1 << bits) - 1);
  Inputs parts;
  for (int64_t at = 0; at < 8; at += bits) {
    ValueId part = bytes;
    if (at != 0) part = n.emit("shift_right", {part, n.scalar(DType::u8, static_cast<double>(at))});
    if (at + bits < 8) part = n.emit("bitwise_and", {part, n.scalar(DType::u8, mask)});
    parts.emplace_back(part);
  }
  Shape shape = n.type(bytes).shape;
  const auto last = static_cast<int64_t>(shape.size());
  shape.back() = shape.back() * static_cast<int64_t>(parts.size());
  return n.reshape(n.emit("stack", std::move(parts), {{"axis", last}}), shape);
}

// Numbers of blocks [N, blocks, 1] as what multiplies or shifts codes: those, or, where columns are
// of blocks in another order (g_idx), a number for each column [N, K].
ValueId of_columns(NodeReader& n, ValueId blocks, int64_t columns) {
  if (!n.has_input(kOrder)) return blocks;
  const Shape shape = n.type(blocks).shape;
  const ValueId order = n.emit("narrow", {n.input(kOrder)},
                               {{"axis", int64_t{0}}, {"start", int64_t{0}}, {"len", columns}});
  return n.emit("gather", {n.reshape(blocks, {shape[0], shape[1]}), order}, {{"axis", int64_t{1}}});
}

// What the numbers of each block are counted from, as [N, blocks, 1].
ValueId block_zeros(NodeReader& n, const Shape& blocks, int64_t bits, DType dtype) {
  ValueId zeros = n.input(kZeros);
  if (n.dtype(kZeros) == DType::u8) {
    const Dim line = ceil_div(blocks[1] * bits, 8);
    if (element_count(n.shape(kZeros)) != blocks[0] * line)
      n.refuse("zero_points is " + to_string(n.shape(kZeros)) + ", wanted " +
               to_string(blocks[0] * line) + " bytes");
    zeros = unpacked(n, n.reshape(zeros, {blocks[0], line}), bits);
    zeros = n.emit("narrow", {zeros},
                   {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"len", int64_t{blocks[1]}}});
  }
  return n.cast(n.reshape(zeros, {blocks[0], blocks[1], 1}), dtype);
}

// y = a * w^T, where row i of w has blocks of (codes - zero) * scale.
void matmul_nbits(NodeReader& n, const OnnxOp&) {
  const int64_t columns = n.required_integer("K");
  const int64_t rows = n.required_integer("N");
  const int64_t bits = n.integer("bits", 4);
  const int64_t block = n.required_integer("block_size");
  n.integer("accuracy_level", 0);  // how exactly it may be computed at least
  if (bits != 2 && bits != 4 && bits != 8)
    n.refuse("weights of " + std::to_string(bits) + " bits are not supported, wanted 2, 4 or 8");
  if (rows < 1 || columns < 1 || block < 1)
    n.refuse("N, K and block_size are " + std::to_string(rows) + ", " + std::to_string(columns) +
             " and " + std::to_string(block) + ", wanted 1 or more");
  const int64_t count = ceil_div(columns, block);
  const Shape wanted = {rows, count, block * bits / 8};
  const DType dtype = n.dtype(kScales);
  if (n.dtype(kCodes) != DType::u8 || element_count(n.shape(kCodes)) != element_count(wanted) ||
      element_count(n.shape(kScales)) != rows * count || !is_float(dtype))
    n.refuse("B is " + to_string(n.type(n.input(kCodes))) + " and scales " +
             to_string(n.type(n.input(kScales))) + ", wanted u8" + to_string(wanted) + " and " +
             std::to_string(rows * count) + " floats");
  ValueId w = n.cast(unpacked(n, n.reshape(n.input(kCodes), wanted), bits), dtype);
  const auto whole_rows = [&] {
    w = n.reshape(w, {rows, count * block});
    if (count * block != columns)
      w = n.emit("narrow", {w}, {{"axis", int64_t{1}}, {"start", int64_t{0}}, {"len", columns}});
  };
  if (n.has_input(kOrder)) whole_rows();
  if (n.has_input(kZeros)) {
    w = n.emit("sub", {w, of_columns(n, block_zeros(n, wanted, bits, dtype), columns)});
  } else {
    w = n.emit("affine", {w}, {{"add", -static_cast<double>(1 << (bits - 1))}});
  }
  w = n.emit("mul", {w, of_columns(n, n.reshape(n.input(kScales), {rows, count, 1}), columns)});
  if (!n.has_input(kOrder)) whole_rows();
  const ValueId a = n.input(kRows);
  ValueId y = n.emit("matmul", {a, n.cast(w, n.type(a).dtype)}, {{"trans_b", true}});
  if (n.has_input(kBias)) y = n.emit("add", {y, n.input(kBias)});
  n.set_output(0, y);
}

constexpr std::array kMicrosoftRows = {
    OnnxOp{"BiasAdd", bias_add},
    OnnxOp{"BiasGelu", gelu_of_sum, "gelu"},
    OnnxOp{"BiasSplitGelu", bias_split_gelu},
    OnnxOp{"DequantizeLinear", dequantize},
    OnnxOp{"DynamicQuantizeLSTM", dynamic_quantized_lstm},
    OnnxOp{"DynamicQuantizeMatMul", dynamic_quantized_matmul},
    OnnxOp{"EmbedLayerNormalization", embed_norm},
    OnnxOp{"FastGelu", gelu_of_sum, "gelu_tanh"},
    OnnxOp{"FusedConv", fused_conv},
    OnnxOp{"FusedGemm", fused_gemm},
    OnnxOp{"FusedMatMul", fused_matmul},
    OnnxOp{"GatherBlockQuantized", gather_blocks},
    OnnxOp{"Gelu", gelu_of_sum, "gelu"},
    OnnxOp{"GridSample", grid_sample},
    OnnxOp{"GroupNorm", channels_last_group_norm},
    OnnxOp{"Inverse", inverse},
    OnnxOp{"MatMulIntegerToFloat", matmul_integer_to_float},
    OnnxOp{"MatMulNBits", matmul_nbits},
    OnnxOp{"NhwcConv", nhwc_conv},
    OnnxOp{"NhwcFusedConv", nhwc_conv},
    OnnxOp{"NhwcMaxPool", nhwc_max_pool},
    OnnxOp{"Pad", pad_by_inputs},
    OnnxOp{"QGemm", quantized_gemm},
    OnnxOp{"QLinearAdd", quantized_binary, "add"},
    OnnxOp{"QLinearAveragePool", quantized_average_pool, "pool"},
    OnnxOp{"QLinearConcat", quantized_concat},
    OnnxOp{"QLinearConv", quantized_conv},
    OnnxOp{"QLinearGlobalAveragePool", quantized_average_pool, "global_pool"},
    OnnxOp{"QLinearLeakyRelu", quantized_unary, "leaky_relu"},
    OnnxOp{"QLinearMul", quantized_binary, "mul"},
    OnnxOp{"QLinearReduceMean", quantized_mean},
    OnnxOp{"QLinearSigmoid", quantized_unary, "sigmoid"},
    OnnxOp{"QLinearSoftmax", quantized_softmax},
    OnnxOp{"QLinearWhere", quantized_where},
    OnnxOp{"QuantizeLinear", quantize},
    OnnxOp{"QuickGelu", quick_gelu},
    OnnxOp{"Range", range},
    OnnxOp{"RotaryEmbedding", packed_rotary},
    OnnxOp{"SimplifiedLayerNormalization", simplified_norm},
    OnnxOp{"SkipGroupNorm", channels_last_group_norm},
    OnnxOp{"SkipLayerNormalization", skip_norm, "layer_norm"},
    OnnxOp{"SkipSimplifiedLayerNormalization", skip_norm, "rms_norm"},
    OnnxOp{"Trilu", trilu},
};

}  // namespace

std::span<const OnnxOp> microsoft_rows() {
  return kMicrosoftRows;
}

}  // namespace rlx::onnx_import
