// SPDX-License-Identifier: Apache-2.0
// Casts and shapes of known weights.
#include "compiler/passes/fold_bytes.h"

#include <algorithm>
#include <memory>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/constants.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

constexpr size_t kPieceElements = size_t{1} << 18;

// Each element alone becomes one of the result, so pieces of any length do.
HostBytes cast_in_pieces(const Node& node, const TensorType& from, const TensorType& to,
                         std::span<const std::byte> source, Diagnostics& diagnostics) {
  const auto result = std::make_shared<std::vector<std::byte>>();
  result->reserve(byte_size(to));
  const size_t piece_bytes = kPieceElements * element_bytes(from.dtype);
  for (size_t begin = 0; begin < source.size(); begin += piece_bytes) {
    const auto bytes = source.subspan(begin, std::min(piece_bytes, source.size() - begin));
    const auto count = static_cast<int64_t>(bytes.size() / element_bytes(from.dtype));
    const Tensor piece = Tensor::from_bytes({from.dtype, {count}}, bytes);
    const auto cast = evaluate_node(node, {&piece}, {{to.dtype, {count}}}, diagnostics);
    RLX_CHECK(cast.has_value(), "cast of " + node.name + ": " + diagnostics.text());
    const std::vector<std::byte> made = cast->front().to_bytes();
    result->insert(result->end(), made.begin(), made.end());
  }
  return {.owner = result, .bytes = *result};
}

}  // namespace

std::optional<HostBytes> fold_bytes(const Module& module, const Graph& graph, const Node& node,
                                    Diagnostics& diagnostics) {
  const bool is_cast = node.op == OpId::cast;
  if (!is_cast && find_op(node.op)->view_kind != ViewKind::Reshape) return std::nullopt;
  const Weight* weight = weight_of(module, graph, *node.inputs[0]);
  const auto* host = weight == nullptr ? nullptr : std::get_if<HostBytes>(&weight->data);
  if (host == nullptr) return std::nullopt;
  const TensorType& to = graph.value(node.outputs[0]).type;
  // Evaluation makes any byte of a bool 0 or 1; blocks have no elements to evaluate.
  if (to.dtype == DType::bool_ || block_elements(to.dtype) != 1) return std::nullopt;
  if (is_cast) return cast_in_pieces(node, weight->type, to, host->bytes, diagnostics);
  return *host;
}

}  // namespace rlx
