// SPDX-License-Identifier: Apache-2.0
// New nodes of a graph, each with its types inferred: what decompositions and gradients are built
// with.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"

namespace rlx {

class NodeBuilder {
 public:
  using Inputs = std::vector<std::optional<ValueId>>;

  // Whom new nodes are named after and where they stand.
  struct Site {
    std::string stem;                     // of their names
    std::optional<NodeId> node = {};      // whose place in the source they take
    std::optional<NodeId> position = {};  // they stand before it; none: at the end
  };

  NodeBuilder(Module& module, Graph& graph, Site site);

  [[nodiscard]] Graph& graph() { return *graph_; }
  [[nodiscard]] Module& module() { return *module_; }
  [[nodiscard]] const TensorType& type(ValueId id) const { return graph_->value(id).type; }
  [[nodiscard]] const Shape& shape(ValueId id) const { return type(id).shape; }
  [[nodiscard]] DType dtype(ValueId id) const { return type(id).dtype; }

  // Adds a node and infers its types. Its result is a fresh value.
  ValueId emit(std::string_view op, Inputs inputs, Attributes attributes = {});
  // The same for an op with several results.
  std::vector<ValueId> emit_all(std::string_view op, Inputs inputs, Attributes attributes,
                                size_t output_count);
  // A constant of the module, e.g. a table: dense values of a float or integer dtype, rounded to it
  // once.
  ValueId constant(std::string_view stem, const Tensor& values);

  // ---- nodes that many compositions want; one that would change nothing is left out ----

  ValueId cast(ValueId x, DType to);
  // In the type that sums and curves are computed in: f64 stays, other floats become f32.
  ValueId widen(ValueId x);
  ValueId affine(ValueId x, double mul, double add = 0);
  ValueId reshape(ValueId x, const Shape& shape);
  ValueId expand(ValueId x, const Shape& shape);
  ValueId transpose(ValueId x, const Ints& axes);
  // The last two axes change places.
  ValueId turn(ValueId x);
  enum class Axes : uint8_t { Keep, Drop };
  ValueId reduce(std::string_view op, ValueId x, const Ints& axes, Axes reduced = Axes::Keep);
  // The sum over the axes that broadcasting from `shape` to x's made: the gradient of what was
  // broadcast.
  ValueId sum_to(ValueId x, const Shape& shape);
  // Elements of one value.
  ValueId filled(const TensorType& type, double value);
  // A scalar that broadcasts.
  ValueId scalar(DType dtype, double value) { return filled({dtype, {}}, value); }

 private:
  Module* module_;
  Graph* graph_;
  Site site_;
};

// All axes of a rank from `first` on.
Ints axes_from(size_t first, size_t rank);

}  // namespace rlx
