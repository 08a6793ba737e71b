// SPDX-License-Identifier: Apache-2.0
// Chains of reshapes, transposes and cuts as one: cuts of the source, its dims as products of
// factors, these in another order, and dims made of them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"

namespace rlx {

class ViewChain {
 public:
  // What reading the result costs where the source is dense.
  enum class Cost : uint8_t {
    None,     // the elements stand as they did
    Strides,  // a view
    Copy      // dims are made of factors that lie apart
  };

  // No view yet. nullopt of a type with a size that is or may be 0, or of elements in blocks.
  static std::optional<ViewChain> of(const TensorType& source);

  // Adds the view by which a node makes `result`. False, and the chain is spent, for other nodes
  // and where the view takes no factors as they stand: 3 x 4 as 4 x 3, a part of merged dims.
  [[nodiscard]] bool append(const Graph& graph, const Node& node, ValueId result);

  // Adds a transpose.
  void turn(const std::vector<size_t>& perm);

  [[nodiscard]] Cost cost() const;
  // The result's last dim is the source's, whole.
  [[nodiscard]] bool keeps_last_dim() const;
  // The same of a source whose last dim has another size. Precondition: keeps_last_dim().
  [[nodiscard]] ViewChain with_last_dim(const Dim& size) const;

  struct Straight;
  // nullopt where the lines along the last dim stand in the source's order already.
  [[nodiscard]] std::optional<Straight> straight() const;

  // Of the nodes that build() adds: parts, a reshape to factors, their transpose, and a reshape to
  // dims of several.
  [[nodiscard]] std::vector<std::string_view> ops() const;
  // The chain's result, by nodes before `position`.
  ValueId build(Graph& graph, NodeId position, ValueId source) const;
  // Lets `last` end the chain; where nothing is left its readers read the source.
  void build_in_place(Graph& graph, NodeId last, ValueId source) const;

 private:
  struct Factor {
    size_t dim;  // of the source
    Dim size;    // not 1
  };
  struct Cut {
    size_t dim;
    int64_t start;
    int64_t count;
  };
  struct Step {
    const char* op;
    Attributes attributes;
  };

  [[nodiscard]] bool append_reshape(const Shape& target);
  [[nodiscard]] bool append_cut(size_t axis, const Dim& start, const Dim& count);
  void split(size_t factor, const Dim& outer, const Dim& inner);
  [[nodiscard]] Dim elements_inside(size_t factor) const;
  [[nodiscard]] std::vector<size_t> order() const;
  [[nodiscard]] ViewChain joined() const;
  [[nodiscard]] Shape result_shape() const;
  [[nodiscard]] std::vector<Step> steps() const;
  void add_turn(std::vector<Step>& steps) const;

  Shape shape_;  // of the source, cut
  std::vector<Cut> cuts_;
  std::vector<Factor> factors_;              // of shape_, as they lie
  std::vector<std::vector<size_t>> groups_;  // the result's dims, of factors
};

// A chain whose lines stand in the source's order, and what makes the lines of the first chain of
// these.
struct ViewChain::Straight {
  ViewChain chain;
  ViewChain undo;
};

// True for a reshape, a transpose, and parts of an axis that are known.
bool is_chained_view(const Node& node);

// The chain behind which a value stands.
struct FoundChain {
  ViewChain chain;
  ValueId source{};
  std::vector<std::string_view> ops;  // of the nodes, each reshaping one a "reshape"
  bool is_shared = false;             // others read what stands between
};
// The longest one of few nodes; nullopt where the value is no view.
std::optional<FoundChain> chain_before(const Graph& graph, ValueId end);

// Replaces the chain of views that ends with a reshape or transpose by fewer nodes, or by as many
// in the order of ViewChain::ops, where no value is then copied more often; true where it did.
bool merge_views(Graph& graph, NodeId id);

}  // namespace rlx
