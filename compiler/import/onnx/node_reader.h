// SPDX-License-Identifier: Apache-2.0
// One ONNX node as what translates it sees it. Everything that is asked for and not there, or not
// known before the run, throws a Refusal that says so.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/onnx/builder.h"
#include "compiler/import/onnx/onnx_reader.h"
#include "compiler/import/onnx/proto_tensor.h"
#include "onnx.pb.h"

namespace rlx::onnx_import {

using AttributeMap = std::map<std::string, const onnx::AttributeProto*, std::less<>>;

// What nodes of one graph or function body share.
struct ModelContext {
  Builder& builder;
  TensorDecoder& tensors;
  std::shared_ptr<const void> owner;  // keeps the model's message alive
  std::set<std::string>& wanted_inputs;
  const MaxCounts& max_counts;
  std::set<std::string>& used_max_counts;  // keys of max_counts that nodes have
  std::vector<ValueId>& reported_counts;   // of the node that is read
};

class NodeReader {
 public:
  NodeReader(ModelContext& model, const onnx::NodeProto& proto, int64_t opset, Inputs inputs,
             AttributeMap attributes);

  [[nodiscard]] const std::string& op() const { return proto_.op_type(); }
  [[nodiscard]] int64_t opset() const { return opset_; }
  Builder& builder() { return model_.builder; }

  // Inputs.
  [[nodiscard]] size_t input_count() const { return inputs_.size(); }
  [[nodiscard]] bool has_input(size_t i) const;                  // asking counts as reading it
  void ignore_input(size_t i) const { read_inputs_.insert(i); }  // it has no meaning here
  // A tensor.
  ValueId input(size_t i) const;
  [[nodiscard]] std::optional<ValueId> optional_input(size_t i) const;
  // What is read as this input from here on.
  void replace_input(size_t i, ValueId id) {
    inputs_.resize(std::max(inputs_.size(), i + 1));
    inputs_[i] = id;
  }
  // A tensor or a sequence.
  [[nodiscard]] ValueId any_input(size_t i) const;
  // Refuses an input that is an optional value without one.
  void expect_value(size_t i) const;
  [[nodiscard]] const Builder::Sequence& sequence(size_t i) const;
  [[nodiscard]] const TensorType& type(ValueId id) const { return model_.builder.type(id); }
  [[nodiscard]] const Shape& shape(size_t i) const { return type(input(i)).shape; }
  [[nodiscard]] DType dtype(size_t i) const { return type(input(i)).dtype; }
  [[nodiscard]] int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
  // The elements of an input that must be known before the run, of 8-bit floats their codes; `what`
  // says what it gives ("its axes").
  const Tensor& known(size_t i, const std::string& what);
  Ints known_ints(size_t i, const std::string& what);
  Floats known_reals(size_t i, const std::string& what);
  int64_t known_int(size_t i, const std::string& what);
  double known_real(size_t i, const std::string& what);
  // Sizes that are known, or are the most that there may be where they depend on counts of rows.
  struct Sizes {
    Ints most;
    // By element, where it depends on a count, what it is in the run: an i64 scalar.
    std::vector<std::optional<ValueId>> counts;
    [[nodiscard]] bool are_known() const;
  };
  Sizes sizes(size_t i, const std::string& what);
  // A number that the run gives, as an i64 scalar.
  ValueId run_number(size_t i, const std::string& what);
  // The most rows that a result may have whose count the data decide: the definition's, or fewer
  // where the user says so by the node's name or an output's.
  int64_t count_bound(int64_t natural);
  // How many rows there are, also of those that found no place: an output of the model.
  void report_count(ValueId count) { model_.reported_counts.push_back(count); }

  // Attributes; the defaults are ONNX's.
  [[nodiscard]] bool has(std::string_view name) const;
  int64_t integer(std::string_view name, int64_t absent);
  double real(std::string_view name, double absent);
  std::string text(std::string_view name, std::string absent);
  Ints integers(std::string_view name, Ints absent);
  Floats reals(std::string_view name, Floats absent);
  int64_t required_integer(std::string_view name);
  Ints required_integers(std::string_view name);
  const onnx::TensorProto* tensor(std::string_view name);
  const onnx::SparseTensorProto* sparse_tensor(std::string_view name);
  const onnx::AttributeProto* attribute(std::string_view name);  // any; counts as read
  // An axis in [-rank, rank), made non-negative.
  int64_t axis(int64_t axis, int64_t rank) const;

  // Results.
  [[nodiscard]] size_t output_count() const;  // positions up to the last named one
  [[nodiscard]] bool wants_output(size_t i) const;
  void set_output(size_t i, ValueId id);
  [[nodiscard]] const std::vector<std::optional<ValueId>>& outputs() const { return outputs_; }

  // Nodes of rlx.
  ValueId emit(std::string_view op, Inputs inputs, Attributes attributes = {}) {
    return model_.builder.emit(op, std::move(inputs), std::move(attributes));
  }
  std::vector<ValueId> emit_all(std::string_view op, Inputs inputs, Attributes attributes,
                                size_t count) {
    return model_.builder.emit_all(op, std::move(inputs), std::move(attributes), count);
  }
  ValueId constant(const Tensor& values);
  ValueId constant_ints(DType dtype, Shape shape, Ints values);
  ValueId constant_reals(DType dtype, Shape shape, Floats values);
  ValueId scalar(DType dtype, double value);
  ValueId decode(const onnx::TensorProto& tensor, const std::string& what);
  ValueId decode(const onnx::SparseTensorProto& tensor, const std::string& what);

  // Shorthands.
  ValueId cast(ValueId x, DType to);  // nothing where it has that type
  ValueId reshape(ValueId x, Shape shape);
  ValueId transpose(ValueId x, Ints perm);  // nothing where it is the identity

  [[noreturn]] void refuse(const std::string& message, std::string hint = {}) const;
  // Of shapes that do not fit what the node does: sizes at which it could be.
  [[noreturn]] void refuse_shapes(const std::string& message, std::string hint = {}) const;
  // After the translation: every attribute and input was read, every named output set.
  void check_all_used() const;

 private:
  // As known; not of codes.
  const Tensor& known_numbers(size_t i, const std::string& what);
  ValueId add_decoded(ConstantTensor decoded);

  ModelContext& model_;
  const onnx::NodeProto& proto_;
  int64_t opset_;
  Inputs inputs_;
  AttributeMap attributes_;
  std::set<std::string, std::less<>> read_;
  mutable std::set<size_t> read_inputs_;
  std::vector<std::optional<ValueId>> outputs_;
};

// A row of the table: how one operator of ONNX is expressed.
struct OnnxOp {
  std::string_view name;
  void (*translate)(NodeReader&, const OnnxOp& row);
  std::string_view target = {};  // for rows whose translation is one op of rlx
};

}  // namespace rlx::onnx_import
