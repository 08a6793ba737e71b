// SPDX-License-Identifier: Apache-2.0
// RotaryEmbedding, opset 23 (ops.md 5.2, 19).
#include <array>

#include "compiler/import/onnx/op_table.h"

namespace rlx::onnx_import {
namespace {

// A row for each token, which all of the batch may share. Written where it changes nothing too, so
// that the graph is one for all batches.
ValueId table_of(NodeReader& n, size_t input) {
  const Shape shape = n.shape(input);
  if (n.has_input(3) || shape.size() != 3) return n.input(input);
  return n.emit("expand", {n.input(input)}, {{"shape", Ints{n.shape(0)[0], shape[1], shape[2]}}});
}

// Heads have an axis of their own at rank 4; at rank 3 an attribute says how many there are.
// Tables by position where positions are given, else a row for each token.
void rotary_embedding(NodeReader& n, const OnnxOp&) {
  const int64_t rank = n.rank(0);
  int64_t heads = n.integer("num_heads", 0);
  if (rank == 4) heads = n.shape(0)[1];
  if ((rank != 3 && rank != 4) || heads < 1 || (rank == 3 && n.shape(0)[2] % heads != 0))
    n.refuse_shapes("x is " + to_string(n.shape(0)) + " with num_heads " + std::to_string(heads));
  const int64_t head_dim = rank == 4 ? n.shape(0)[3] : n.shape(0)[2] / heads;
  const int64_t rotated = n.integer("rotary_embedding_dim", 0);
  const bool interleaved = n.integer("interleaved", 0) != 0;
  n.set_output(0, n.emit("rope", {n.input(0), table_of(n, 1), table_of(n, 2), n.optional_input(3)},
                         {{"head_dim", head_dim},
                          {"n_rot", rotated == 0 ? head_dim : rotated},
                          {"style", std::string(interleaved ? "gptj" : "neox")},
                          {"layout", std::string(rank == 3 ? "bsd" : "bhsd")}}));
}

constexpr std::array kRotaryRows = {
    OnnxOp{"RotaryEmbedding", rotary_embedding},
};

}  // namespace

std::span<const OnnxOp> rotary_rows() {
  return kRotaryRows;
}

}  // namespace rlx::onnx_import
