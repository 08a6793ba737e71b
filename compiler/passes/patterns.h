// SPDX-License-Identifier: Apache-2.0
// What the passes that see written-out operators ask of nodes.
#pragma once

#include <optional>

#include "compiler/ir/graph.h"

namespace rlx {

// x * factor, as mul, div or affine write it; of the type of x.
struct Scaled {
  ValueId x{};
  double factor = 1;
};
std::optional<Scaled> scaled_of(const Module& module, const Graph& graph, const Node& node);

// x + shift, as add, sub or affine write it; of the type of x.
struct Shifted {
  ValueId x{};
  double shift = 0;
};
std::optional<Shifted> shifted_of(const Module& module, const Graph& graph, const Node& node);

// The exponent to which a node raises its first input, as pow, powf, square or a product with
// itself write it; nullopt of other nodes.
std::optional<double> power_of(const Module& module, const Graph& graph, const Node& node);

// The axes of a transpose; without the attribute it reverses them.
std::vector<size_t> permutation_of(const Graph& graph, const Node& node);

// True for a cast from one float type to another.
bool is_float_cast(const Graph& graph, const Node& node);

// True for a node that gives the elements of its input another shape: reshape, squeeze, unsqueeze,
// flatten.
bool is_reshaping(const Node& node);

// An attribute, or its default.
int64_t node_integer(const Node& node, const char* name);
double node_real(const Node& node, const char* name);
bool node_flag(const Node& node, const char* name);
std::string node_text(const Node& node, const char* name);

// The attribute "axis", counted from the front.
size_t axis_of(const Node& node, size_t rank);

// Where a narrow, or a slice of one axis without steps, begins; counted from the end if negative.
// nullopt of other nodes, and where a tensor says it.
struct CutStart {
  size_t axis = 0;
  Dim start;
};
std::optional<CutStart> cut_start_of(const Graph& graph, const Node& node);

// Elements `start` up to `end` of one axis of x, of fixed size: a narrow, or a slice of one axis
// without steps.
struct Cut {
  ValueId x{};
  size_t axis = 0;
  int64_t start = 0;
  int64_t end = 0;
};
std::optional<Cut> cut_of(const Graph& graph, ValueId id);

// Adds nodes before one that they are to replace, and infers them.
class NodeEmitter {
 public:
  NodeEmitter(Graph& graph, NodeId position) : graph_(graph), position_(position) {}

  ValueId emit(const char* op, std::vector<std::optional<ValueId>> inputs,
               Attributes attributes = {});
  // Each gives the value itself where it is so already.
  ValueId reshape(ValueId value, const Shape& shape);
  ValueId expand(ValueId value, const Shape& shape);
  ValueId cast(ValueId value, DType dtype);
  [[nodiscard]] const TensorType& type(ValueId value) const { return graph_.value(value).type; }

 private:
  Graph& graph_;
  NodeId position_;
};

}  // namespace rlx
