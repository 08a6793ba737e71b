// SPDX-License-Identifier: Apache-2.0
// The graph under construction: every value's type is known as soon as it is made, and small values
// that follow from constants and shapes alone are computed at once.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/import/source_graph.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/numbered_names.h"

namespace rlx::onnx_import {

struct StandIn;
using Inputs = std::vector<std::optional<ValueId>>;

// Of the rows along one axis only the first `count`, an i64 scalar, are there; the others are
// whatever they are.
struct Padding {
  size_t axis = 0;
  ValueId count{};
};

// What integers that depend on counts are where nothing counts and where all rows do.
struct CountRange {
  Tensor none;
  Tensor all;
};

class Builder {
 public:
  // A list of values whose length is known while the model is imported.
  using Sequence = std::vector<ValueId>;
  struct Options {
    // Nodes whose results are known stay in the graph; otherwise constants take their place.
    bool keeps_folded_nodes = false;
  };
  Builder(std::string file, Options options) : file_(std::move(file)), options_(options) {
    graph_.name = "main";
  }

  // Where the next nodes come from: their names start with `stem`.
  void set_origin(std::string stem, SourcePlace place, std::string source);
  [[nodiscard]] const std::string& stem() const { return stem_; }
  [[nodiscard]] const SourcePlace& place() const { return place_; }

  ValueId add_input(const std::string& name, TensorType type);
  // Dense bytes. `is_param`: a weight of the model, not a number of its own.
  ValueId add_constant(const std::string& name, TensorType type, HostBytes data, bool is_param);
  ValueId add_constant(const std::string& name, const Tensor& values);

  // Adds a node and infers its types. Throws Refusal where the op does not take this.
  ValueId emit(std::string_view op, Inputs inputs, Attributes attributes = {});
  std::vector<ValueId> emit_all(std::string_view op, Inputs inputs, Attributes attributes,
                                size_t output_count);

  // A sub-graph of a node: what is emitted between begin_body and end_body, which may read what was
  // made before. Bodies stand inside each other.
  struct Body {
    std::string name;
    std::vector<ValueId> inputs;
    std::vector<ValueId> outputs;
    size_t index = 0;  // of begin_body
  };
  [[nodiscard]] bool is_in_body() const { return open_bodies_.size() > 1; }
  size_t begin_body();
  void end_body();
  // An input of the body that is open.
  ValueId add_body_input(const std::string& name, TensorType type);
  // A node with bodies, whose results are of these types. What it is made of was checked.
  std::vector<ValueId> emit_control(std::string_view op, Inputs inputs, Attributes attributes,
                                    std::vector<Body> bodies, const std::vector<TensorType>& types);

  // Throws Refusal where as many more nodes are more than a graph may have: for what is unrolled,
  // before it is.
  void expect_nodes(uint64_t count) const;
  [[nodiscard]] uint64_t node_count() const { return node_count_; }

  [[nodiscard]] const TensorType& type(ValueId id) const { return graph_.value(id).type; }
  // The elements of a value that is known now, or nullptr.
  const Tensor* known(ValueId id);
  // nullptr: every row counts.
  [[nodiscard]] const Padding* padding(ValueId id) const;
  void set_padding(ValueId id, const Padding& padding);
  void forget_padding(ValueId id) { paddings_.erase(index_of(id)); }
  // What a value stands for, if not for its own type: `row` may be nullptr. Results of nodes get it
  // from what they are made of (stand_ins.h).
  void mark_stand_in(ValueId id, const StandIn* row) { stand_ins_[index_of(id)] = row; }
  [[nodiscard]] const StandIn* stand_in(ValueId id) const {
    const auto found = stand_ins_.find(index_of(id));
    return found == stand_ins_.end() ? nullptr : found->second;
  }
  // A value that stands for a sequence: no operator of rlx reads it.
  ValueId add_sequence(Sequence elements);
  // An optional value that holds none: a sequence without elements, but for those who ask.
  ValueId add_none();
  [[nodiscard]] bool is_none(ValueId id) const { return nones_.contains(index_of(id)); }
  // nullptr: a tensor.
  [[nodiscard]] const Sequence* sequence(ValueId id) const;
  // A number of rows that only the run knows, `most` at most.
  void set_count(ValueId id, int64_t most);
  // nullptr where a value is known, or depends on more than counts.
  const CountRange* counts(ValueId id) const;
  // Whether two values are computed alike from the same ones; numbers that are cut out of others
  // and joined to them are those.
  bool is_same(ValueId a, ValueId b);

  // b - a, where both are one integer of the run and numbers that are known added to it.
  std::optional<int64_t> distance(ValueId a, ValueId b);

  // Inputs of the model on which the elements (not the shape) of a value depend.
  [[nodiscard]] std::set<std::string> inputs_behind(ValueId id) const;
  // A name for a value where it has none of the file's yet.
  void suggest_name(ValueId id, const std::string& name);

  // The nodes and tensors that `outputs` need, as a graph file would have them. A result that is
  // an input, a constant or given twice becomes an identity of its own name.
  struct Output {
    std::string name;
    ValueId value;
  };
  SourceGraph finish(const std::vector<Output>& outputs);

 private:
  struct ConstantInfo {
    HostBytes data;
    bool is_param = false;
  };
  std::optional<std::vector<ValueId>> fold(const Node& node);
  // A node without regard to what its values stand for; `is_padded`: an input of it is.
  std::vector<ValueId> emit_numbers(std::string_view op, Inputs inputs, Attributes attributes,
                                    size_t output_count, bool is_padded);
  ValueId constant_for(ValueId id, int64_t number);
  // What a node gives that depends on counts and known values alone.
  void follow_counts(const Node& node);
  struct Offset {
    ValueId base{};
    int64_t added = 0;
  };
  // One integer as another one and what is added to it.
  Offset offset_of(ValueId id);
  struct Copied {
    ValueId id{};
    std::optional<int64_t> number;  // where it is known
  };
  // Of one integer that is cut out of others and joined to them: the one that it is.
  Copied copied_number(ValueId id);
  std::string fresh_name(const std::string& stem);
  NodeId add_node(Node node);
  [[nodiscard]] std::vector<NodeId> live_nodes(const std::vector<ValueId>& results,
                                               std::vector<bool>& is_needed) const;

  std::string file_;
  Options options_;
  Graph graph_;
  std::string stem_;
  SourcePlace place_;
  std::string source_;
  std::unordered_map<size_t, ConstantInfo> constants_;
  std::unordered_map<size_t, Tensor> known_;
  std::unordered_map<size_t, Padding> paddings_;
  std::unordered_map<size_t, CountRange> counts_;
  std::unordered_map<size_t, Sequence> sequences_;
  std::set<size_t> nones_;
  std::map<size_t, const StandIn*> stand_ins_;
  std::unordered_map<size_t, std::string> names_;  // of the file
  NumberedNames used_names_;
  uint64_t node_count_ = 0;
  // Nodes of bodies stand in graph_ before the node that has the body.
  std::vector<size_t> open_bodies_ = {0};  // the innermost last; 0: the graph itself
  size_t last_body_ = 0;
  std::unordered_map<size_t, size_t> body_of_node_;       // by node; not those of 0
  std::unordered_map<size_t, std::vector<Body>> bodies_;  // by node
};

}  // namespace rlx::onnx_import
