// SPDX-License-Identifier: Apache-2.0
// Precision mixed, products with weights in blocks: their f32 operand becomes f16 where tensor
// cores want that, or where it costs no step because such a product makes it. Sums and results that
// others read stay f32.
#include <algorithm>
#include <map>

#include "compiler/ops/op_def.h"
#include "compiler/passes/block_products.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/products.h"
#include "compiler/support/check.h"
#include "compiler/support/free_size.h"

namespace rlx {
namespace {

using In = FusedDequantInput;

class OperandRounding {
 public:
  OperandRounding(Graph& graph, const OfferContext& at) : graph_(graph), at_(at) {}

  size_t run() {
    size_t changed = 0;
    const std::vector<NodeId> order = graph_.order();
    for (const NodeId id : order) {
      const std::optional<BlockProduct> product = rounding_product(id);
      if (!product) continue;
      const ValueId x = product->x();
      if (made_by_product(x)) {
        narrow_producer(x);
      } else if (wants_halves(*product)) {
        read_instead(id, rounded(x, id));
      } else {
        continue;
      }
      ++changed;
    }
    return changed;
  }

 private:
  // A product whose f32 rows may be rounded: what a norm reads is the residual.
  std::optional<BlockProduct> rounding_product(NodeId id) const {
    std::optional<BlockProduct> product = block_product_of(graph_, graph_.node(id));
    const bool fits = product && !product->has_norm() &&
                      graph_.value(product->x()).type.dtype == DType::f32 &&
                      product->inputs[In::kResidual] != product->x();
    return fits ? product : std::nullopt;
  }

  // A result of such a product that nothing reads but as the operand of others.
  bool made_by_product(ValueId x) const {
    const Node* producer = producer_of(graph_, x);
    if (producer == nullptr || graph_.is_output(x) || !block_product_of(graph_, *producer))
      return false;
    return std::ranges::all_of(graph_.readers(x), [&](NodeId reader) {
      const std::optional<BlockProduct> product = rounding_product(reader);
      return product && product->x() == x;
    });
  }

  bool wants_halves(const BlockProduct& product) const {
    const auto on_tensor_cores = [&](DType x) {
      const std::optional<KernelId> kernel = block_kernel(graph_, product, x, at_);
      return kernel == KernelId::dequant_mma || kernel == KernelId::dequant_coop;
    };
    return decided_at_all_sizes([&] {
      return (on_tensor_cores(DType::f16) && !on_tensor_cores(DType::f32)) ||
             gain_by_rounding(graph_, product, DType::f16, DType::f32, at_) != WeightRounding::None;
    });
  }

  // Its readers keep the type of their results.
  void narrow_producer(ValueId x) {
    for (const NodeId reader : graph_.readers(x)) set_result(reader, DType::f32);
    const NodeId producer = *graph_.value(x).producer;
    set_result(producer, DType::f16);
    infer(producer);
    for (const NodeId reader : graph_.readers(x)) infer(reader);
  }

  ValueId rounded(ValueId x, NodeId before) {
    const auto [entry, fresh] = rounded_.try_emplace(x);
    if (fresh) {
      entry->second = add_node_before(graph_, before, "cast", graph_.value(x).name + ".f16", {x},
                                      {{"to", std::string(name_of(DType::f16))}});
    }
    return entry->second;
  }

  void read_instead(NodeId id, ValueId x) {
    set_result(id, graph_.value(graph_.node(id).outputs[0]).type.dtype);
    graph_.set_input(id, 0, x);
    infer(id);
  }

  void set_result(NodeId id, DType dtype) {
    graph_.change_node(
        id, [&](Node& node) { node.attributes["out_dtype"] = std::string(name_of(dtype)); });
  }

  void infer(NodeId id) {
    Diagnostics diagnostics;
    RLX_CHECK(check_and_infer(graph_, id, diagnostics), diagnostics.text());
  }

  Graph& graph_;
  const OfferContext& at_;
  std::map<ValueId, ValueId> rounded_;
};

}  // namespace

size_t round_operands(Module& module, const PassOptions& options, Diagnostics&) {
  if (options.precision != "mixed" || options.target == nullptr) return 0;
  const OfferContext at = offer_context(options);
  size_t changed = 0;
  for (Graph& graph : module.entries) changed += OperandRounding(graph, at).run();
  return changed;
}

}  // namespace rlx
