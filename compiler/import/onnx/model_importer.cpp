// SPDX-License-Identifier: Apache-2.0
// A parsed ONNX model walked into a graph: inputs, initializers, nodes in order, functions and
// decided branches in place.
#include "compiler/import/onnx/model_importer.h"

#include <algorithm>
#include <map>

#include "compiler/import/check_source.h"
#include "compiler/import/const_input.h"
#include "compiler/import/impossible_branch.h"
#include "compiler/import/names.h"
#include "compiler/import/onnx/control_flow.h"
#include "compiler/import/onnx/extensions.h"
#include "compiler/import/onnx/input_dims.h"
#include "compiler/import/onnx/node_counts.h"
#include "compiler/import/onnx/op_table.h"
#include "compiler/import/onnx/refusal.h"
#include "compiler/import/weights.h"

namespace rlx::onnx_import {
namespace {

constexpr int64_t kOldestOpset = 1;
constexpr int kMaxCallDepth = 32;  // of functions and branches inside each other

using Opsets = std::map<std::string, int64_t>;  // by domain
using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

std::string named_domain(const std::string& domain) {
  return domain_of(domain).empty() ? "the default domain" : "domain " + in_quotes(domain);
}

template <typename Imports>
Opsets opsets_of(const Imports& imports) {
  Opsets opsets;
  for (const auto& import : imports) opsets[domain_of(import.domain())] = import.version();
  return opsets;
}

// Names of values as the nodes of one graph or function body see them. A name without a value: its
// node was refused.
struct Scope {
  const Scope* outer = nullptr;  // of the graph around a branch; a function sees none
  std::map<std::string, std::optional<ValueId>> values = {};
  Opsets opsets = {};
  bool is_in_function = false;
  AttributeMap call = {};             // the attributes that a function was called with
  std::set<std::string> absent = {};  // a function's inputs that the call leaves out
  std::string path = {};              // "node \"f\" / " before names inside a function or branch
  int depth = 0;

  [[nodiscard]] const std::optional<ValueId>* find(const std::string& name) const {
    const auto found = values.find(name);
    if (found != values.end()) return &found->second;
    return outer != nullptr ? outer->find(name) : nullptr;
  }
};

class ModelImporter {
 public:
  ModelImporter(const std::shared_ptr<const onnx::ModelProto>& model, const std::string& file,
                const OnnxOptions& options, Diagnostics& diagnostics)
      : model_(model),
        file_(file),
        options_(options),
        diagnostics_(&diagnostics),
        builder_(file, {.keeps_folded_nodes = options.keep_symbols}),
        tensors_(options.folder),
        context_{.builder = builder_,
                 .tensors = tensors_,
                 .owner = model,
                 .wanted_inputs = result_.wanted_inputs,
                 .max_counts = options.max_counts,
                 .used_max_counts = used_max_counts_,
                 .reported_counts = reported_counts_} {}

  OnnxResult import() {
    Scope scope;
    scope.opsets = opsets_of(model_->opset_import());
    list_functions();
    check_model(scope);
    check_node_count();
    list_gaps(model_->graph().node(), scope.opsets, 0, "");
    list_inputs();
    if (!is_good()) return std::move(result_);
    import_initializers(model_->graph(), scope);
    import_inputs(scope);
    check_options();
    if (!is_good()) return std::move(result_);
    import_nodes(model_->graph().node(), scope);
    finish(scope);
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_good() const { return diagnostics_->error_count() == errors_before_; }
  [[nodiscard]] bool is_full() const {
    return diagnostics_->error_count() >= errors_before_ + kMaxErrors;
  }
  [[nodiscard]] SourcePlace place(std::string position) const {
    return {file_, std::move(position)};
  }
  void error(DiagCode code, const std::string& message, std::string hint = {}) {
    diagnostics_->error(code, place(""), message, std::move(hint));
  }

  void list_functions() {
    for (const onnx::FunctionProto& function : model_->functions()) {
      const FunctionName name = FunctionName::of(function);
      const std::string what =
          "function " + in_quotes(name.name) + " of " + named_domain(name.domain);
      if (!functions_.emplace(name, &function).second)
        error(DiagCode::DuplicateName, what + " is defined twice");
      auto defaults = defaults_of(function);
      if (!defaults) error(DiagCode::Syntax, what + " has a default of an attribute that is none");
      if (defaults) defaults_.emplace(&function, std::move(*defaults));
    }
  }

  // A model of other domains' nodes alone needs no opset of the default one.
  [[nodiscard]] bool needs_default_opset(const Opsets& opsets) const {
    const Nodes& nodes = model_->graph().node();
    return opsets.empty() ||
           std::any_of(nodes.begin(), nodes.end(), [](const onnx::NodeProto& node) {
             return domain_of(node.domain()).empty();
           });
  }

  void check_opset(const Opsets& opsets) {
    const auto found = opsets.find("");
    if (found == opsets.end()) {
      if (needs_default_opset(opsets))
        error(DiagCode::UnsupportedVersion,
              "the model imports no opset of the default domain; the file may be no ONNX model");
    } else if (found->second < kOldestOpset || found->second > kNewestOpset) {
      error(DiagCode::UnsupportedVersion,
            "the model is of opset " + std::to_string(found->second) + "; rlx reads " +
                std::to_string(kOldestOpset) + " to " + std::to_string(kNewestOpset),
            "convert it with onnx.version_converter");
    }
  }

  void check_model(const Scope& scope) {
    check_opset(scope.opsets);
    for (const auto& import : model_->opset_import()) {
      const int64_t taken = scope.opsets.at(domain_of(import.domain()));
      if (import.version() == taken) continue;
      error(DiagCode::UnsupportedVersion, "the model imports " + named_domain(import.domain()) +
                                              " in the versions " +
                                              std::to_string(import.version()) + " and " +
                                              std::to_string(taken) + ", wanted one");
    }
    if (!model_->has_graph()) error(DiagCode::BadField, "the model has no graph");
  }

  // Before anything is put in place: the node with which the model passes the limit.
  void check_node_count() {
    const NodeCounts counts(functions_, model_->graph());
    const Nodes& nodes = model_->graph().node();
    uint64_t sum = 0;
    for (int i = 0; i < nodes.size(); ++i) {
      const uint64_t count = counts.of(nodes.Get(i));
      sum += count;
      if (sum <= kMaxNodes) continue;
      const bool is_call = find_function(nodes.Get(i)) != nullptr;
      const std::string what = is_call ? "the call of function " + in_quotes(nodes.Get(i).op_type())
                                       : std::string("this node");
      report(
          nodes.Get(i), "", i,
          {.code = DiagCode::Limit,
           .message = what + " stands for " +
                      (count == NodeCounts::kMany ? "2^63 or more" : std::to_string(count)) +
                      " nodes; with functions, branches and trips in place a model may have 2^20 "
                      "nodes, and " +
                      std::to_string(sum - count) + " stand before it",
           .hint = ""});
      return;
    }
  }

  // Every node whose operator is not expressed, in functions that are called too.
  void list_gaps(const Nodes& nodes, const Opsets& opsets, int depth, const std::string& path) {
    if (depth > kMaxCallDepth) return;  // import_nodes tells
    for (int i = 0; i < nodes.size() && !is_full(); ++i) {
      const onnx::NodeProto& node = nodes.Get(i);
      const std::string domain = domain_of(node.domain());
      if (find_function(node) != nullptr) {
        if (listed_functions_.insert(FunctionName::called_by(node)).second) {
          const onnx::FunctionProto& function = *find_function(node);
          list_gaps(function.node(), opsets_of(function.opset_import()), depth + 1,
                    path + "function " + in_quotes(node.op_type()) + " ");
        }
        continue;
      }
      if (has_graphs(domain, node.op_type()) || find_onnx_op(domain, node.op_type()) != nullptr ||
          !extension_of(domain, node.op_type()).empty())
        continue;
      const auto version = opsets.find(domain);
      const OnnxGap gap = gap_of(domain, node.op_type());
      report(node, path, i,
             {.code = DiagCode::UnsupportedOp,
              .message = "operator " + in_quotes(node.op_type()) + " of " + named_domain(domain) +
                         ", opset " +
                         (version == opsets.end() ? std::string("not imported")
                                                  : std::to_string(version->second)) +
                         ", is not supported: " + std::string(gap.why),
              .hint = std::string(gap.help)});
    }
  }

  static std::string node_name(const onnx::NodeProto& node) {
    if (!node.name().empty()) return node.name();
    for (const std::string& output : node.output()) {
      if (!output.empty()) return output;
    }
    return node.op_type();
  }

  // Names of files as they are where they are legal.
  static std::string printable(const std::string& name) {
    return name_fault(name) ? in_quotes(name) : name;
  }

  void report(const onnx::NodeProto& node, const std::string& path, int index,
              const Refusal& refusal) {
    diagnostics_->add({.severity = Severity::Error,
                       .code = refusal.code,
                       .place = place(path + "node " + std::to_string(index)),
                       .op = printable(node.op_type()),
                       .node = printable(node_name(node)),
                       .message = refusal.message,
                       .hint = refusal.hint});
  }

  [[nodiscard]] const onnx::FunctionProto* find_function(const onnx::NodeProto& node) const {
    const auto found = functions_.find(FunctionName::called_by(node));
    return found == functions_.end() ? nullptr : found->second;
  }

  void import_initializers(const onnx::GraphProto& graph, Scope& scope) {
    std::set<std::string_view> seen;
    for (const onnx::TensorProto& tensor : graph.initializer())
      import_initializer(tensor.name(), tensor, seen, scope);
    // These are no defaults of inputs.
    for (const onnx::ValueInfoProto& input : graph.input()) seen.insert(input.name());
    for (const onnx::SparseTensorProto& tensor : graph.sparse_initializer())
      import_initializer(tensor.values().name(), tensor, seen, scope);
  }

  // `seen`: names that are taken.
  template <typename TensorMessage>
  void import_initializer(const std::string& name, const TensorMessage& tensor,
                          std::set<std::string_view>& seen, Scope& scope) {
    if (is_full()) return;
    const std::string what = "initializer " + in_quotes(name);
    try {
      if (!seen.insert(name).second)
        throw Refusal{.code = DiagCode::DuplicateName, .message = what + " is given twice"};
      ConstantTensor decoded = tensors_.decode(tensor, model_, what);
      const bool is_param = is_float(decoded.type.dtype) && !decoded.type.shape.empty();
      const ValueId id =
          builder_.add_constant(name, std::move(decoded.type), std::move(decoded.data), is_param);
      if (decoded.stand_in != nullptr) builder_.mark_stand_in(id, decoded.stand_in);
      scope.values[name] = id;
    } catch (const Refusal& refusal) {
      error(refusal.code, refusal.message, refusal.hint);
    }
  }

  void list_inputs() {
    std::set<std::string_view> initialized;
    for (const auto& tensor : model_->graph().initializer()) initialized.insert(tensor.name());
    for (const auto& input : model_->graph().input()) {
      if (!initialized.contains(input.name())) result_.inputs.push_back(input.name());
    }
  }

  void import_inputs(Scope& scope) {
    std::set<std::string_view> seen;
    for (const onnx::ValueInfoProto& input : model_->graph().input()) {
      if (!seen.insert(input.name()).second)
        error(DiagCode::DuplicateName, "input " + in_quotes(input.name()) + " is given twice");
      const bool is_fixed = options_.fixed_inputs.contains(input.name());
      if (is_full()) return;
      try {
        if (scope.values.contains(input.name()) && !is_fixed) {
          check_default(input, scope);  // an initializer is its value
          continue;
        }
        import_input(input, scope);
      } catch (const Refusal& refusal) {
        error(refusal.code, refusal.message, refusal.hint);
      }
    }
  }

  // An initializer that is the value of an input has the input's type, where the model says one.
  void check_default(const onnx::ValueInfoProto& input, const Scope& scope) {
    const std::optional<ValueId>& value = scope.values.at(input.name());
    if (!value || !input.type().has_tensor_type()) return;
    const onnx::TypeProto::Tensor& declared = input.type().tensor_type();
    const TensorType& type = builder_.type(*value);
    const bool is_known = declared.elem_type() != onnx::TensorProto::UNDEFINED &&
                          stand_in_of(declared.elem_type()) == nullptr;
    const std::string what = "input " + in_quotes(input.name());
    const bool is_good =
        (!is_known || dtype_of(declared.elem_type(), what) == type.dtype) &&
        (!declared.has_shape() ||
         std::ranges::equal(declared.shape().dim(), type.shape, [](const auto& dim, int64_t size) {
           return is_open_dim(dim) || dim.dim_value() == size;
         }));
    if (!is_good)
      throw Refusal{.code = DiagCode::BadShape,
                    .message = what + " is declared with another type than its initializer, " +
                               to_string(type)};
  }

  // What the nodes make is of the type that the model declares, where it declares one.
  void check_output(const onnx::ValueInfoProto& output, ValueId value) {
    const int64_t declared = output.type().tensor_type().elem_type();
    if (!output.type().has_tensor_type() || declared == onnx::TensorProto::UNDEFINED) return;
    const DType made = builder_.type(value).dtype;
    if (find_dtype(declared) == made) return;
    error(DiagCode::BadDtype,
          "output " + in_quotes(output.name()) + " is declared as " + onnx_type_name(declared) +
              ", its node makes " + std::string(name_of(made)),
          "declare what is made, or put a Cast behind the node");
  }

  void import_input(const onnx::ValueInfoProto& input, Scope& scope) {
    const std::string what = "input " + in_quotes(input.name());
    if (const auto fault = name_fault(input.name()))
      throw Refusal{.code = DiagCode::BadField, .message = what + ": its name " + *fault};
    if (!input.type().has_tensor_type())
      throw Refusal{.message = what + " is no tensor",
                    .hint = "inputs are tensors: make the elements of a sequence inputs"};
    const onnx::TypeProto::Tensor& tensor = input.type().tensor_type();
    if (options_.fixed_inputs.contains(input.name())) {
      scope.values[input.name()] =
          builder_.add_constant(input.name(), fixed_input(input, tensor, what));
      return;
    }
    TensorType type{dtype_of(tensor.elem_type(), what), input_shape(input, tensor, what)};
    if (const auto fault = type_fault(type))
      throw Refusal{.code = DiagCode::Limit, .message = what + " " + *fault};
    scope.values[input.name()] = builder_.add_input(input.name(), std::move(type));
  }

  Tensor fixed_input(const onnx::ValueInfoProto& input, const onnx::TypeProto::Tensor& tensor,
                     const std::string& what) {
    const DType dtype = dtype_of(tensor.elem_type(), what);
    const auto& given = options_.fixed_inputs.at(input.name());
    if (const auto* values = std::get_if<Tensor>(&given)) {
      if (values->type.dtype == dtype) return *values;
      throw Refusal{.code = DiagCode::BadBinding,
                    .message = what + " is fixed to a tensor of type " + to_string(values->type) +
                               ", wanted " + std::string(name_of(dtype))};
    }
    auto made = const_tensor(std::get<std::string>(given), dtype, known_dims(input, tensor, what));
    if (const auto* fault = std::get_if<std::string>(&made))
      throw Refusal{.code = DiagCode::BadBinding, .message = what + " " + *fault};
    return std::get<Tensor>(std::move(made));
  }

  // What the model or the options say of the shape of an input that is fixed.
  KnownDims known_dims(const onnx::ValueInfoProto& input, const onnx::TypeProto::Tensor& tensor,
                       const std::string& what) {
    if (options_.shapes.contains(input.name())) {
      const Shape shape = input_shape(input, tensor, what);
      return {shape.begin(), shape.end()};
    }
    KnownDims dims;
    for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
      const auto& dim = tensor.shape().dim(axis);
      const std::string name = symbol_of_dim(input.name(), dim, axis);
      const bool is_open = is_open_dim(dim) && !options_.dims.contains(name);
      if (is_open) symbols_.insert(name);
      dims.push_back(is_open ? std::nullopt
                             : std::optional(input_dim(input.name(), dim, axis, what)));
    }
    return dims;
  }

  Shape input_shape(const onnx::ValueInfoProto& input, const onnx::TypeProto::Tensor& tensor,
                    const std::string& what) {
    if (const auto given = options_.shapes.find(input.name()); given != options_.shapes.end())
      return checked_shape(given->second, tensor, what);
    if (!tensor.has_shape()) {
      throw Refusal{.code = DiagCode::UnboundSymbol,
                    .message = what + " has no shape",
                    .hint = "give it with --input-shape " + input.name() + "=2x3"};
    }
    Shape shape;
    for (int axis = 0; axis < tensor.shape().dim_size(); ++axis) {
      shape.push_back(input_dim(input.name(), tensor.shape().dim(axis), axis, what));
    }
    return shape;
  }

  int64_t input_dim(const std::string& input, const onnx::TensorShapeProto::Dimension& dim,
                    int axis, const std::string& what) {
    if (!is_open_dim(dim)) {
      if (dim.dim_value() >= 0 && dim.dim_value() <= kMaxDim) return dim.dim_value();
      throw Refusal{.code = DiagCode::BadShape,
                    .message = what + " has the dim " + std::to_string(dim.dim_value())};
    }
    const std::string name = symbol_of_dim(input, dim, axis);
    symbols_.insert(name);
    const auto given = options_.dims.find(name);
    if (given != options_.dims.end()) {
      if (given->second >= 0 && given->second <= kMaxDim) return given->second;
      throw Refusal{
          .code = DiagCode::BadBinding,
          .message = "symbol " + in_quotes(name) + " is bound to " + std::to_string(given->second)};
    }
    throw Refusal{.code = DiagCode::UnboundSymbol,
                  .message = "dim " + std::to_string(axis) + " of " + what + ", symbol " +
                             in_quotes(name) + ", has no value",
                  .hint = "give it with --dim " + name + "=N, leave it to the run with --dim " +
                          name + "=MIN:MAX, or give the whole shape with --input-shape " + input +
                          "=..."};
  }

  static Shape checked_shape(const Shape& shape, const onnx::TypeProto::Tensor& tensor,
                             const std::string& what) {
    bool is_good =
        !tensor.has_shape() || tensor.shape().dim_size() == static_cast<int>(shape.size());
    for (size_t i = 0; is_good && tensor.has_shape() && i < shape.size(); ++i) {
      const auto& dim = tensor.shape().dim(static_cast<int>(i));
      is_good = is_open_dim(dim) || dim.dim_value() == shape[i];
    }
    if (is_good) return shape;
    throw Refusal{.code = DiagCode::BadBinding,
                  .message = what + " is given the shape " + to_string(shape) +
                             ", which does not fit the model's"};
  }

  // Bindings of what the model does not have.
  void check_options() {
    std::set<std::string> inputs;
    for (const auto& input : model_->graph().input()) inputs.insert(input.name());
    for (const auto& [name, shape] : options_.shapes) {
      if (!inputs.contains(name))
        error(DiagCode::BadBinding,
              "--input-shape names " + in_quotes(name) + ", which is no input of the model");
    }
    for (const auto& [name, value] : options_.fixed_inputs) {
      if (inputs.contains(name)) continue;
      const std::vector<std::string_view> names(inputs.begin(), inputs.end());
      error(DiagCode::BadBinding,
            "--const names " + in_quotes(name) + ", which is no input of the model",
            names.empty() ? "the model has none" : "its inputs are " + list_names(names));
    }
    for (const auto& [name, value] : options_.dims) {
      if (symbols_.contains(name)) continue;
      const std::vector<std::string_view> names(symbols_.begin(), symbols_.end());
      error(DiagCode::BadBinding,
            "--dim " + name + "=" + std::to_string(value) + " names no symbol of the model",
            names.empty() ? "the model has none" : "its symbols are " + list_names(names));
    }
  }

  void import_nodes(const Nodes& nodes, Scope& scope) {
    for (int i = 0; i < nodes.size() && !is_full(); ++i) {
      const onnx::NodeProto& node = nodes.Get(i);
      try {
        import_node(node, scope, i);
        continue;
      } catch (const Refusal& refusal) {
        report(node, scope.path, i, refusal);
      } catch (const SkippedNode&) {
      }
      for (const std::string& output : node.output()) scope.values[output] = std::nullopt;
    }
  }

  Inputs inputs_of(const onnx::NodeProto& node, const Scope& scope) {
    Inputs inputs;
    for (const std::string& name : node.input()) {
      if (name.empty() || scope.absent.contains(name)) {
        inputs.emplace_back(std::nullopt);
        continue;
      }
      const std::optional<ValueId>* found = scope.find(name);
      if (found == nullptr)
        throw Refusal{
            .code = DiagCode::UnknownValue,
            .message = "it reads " + in_quotes(name) + ", which nothing before it defines"};
      if (!found->has_value()) throw SkippedNode();
      inputs.push_back(*found);
    }
    return inputs;
  }

  // The attributes as written; inside a function those that name a parameter of the call become
  // the call's, or are absent.
  static AttributeMap attributes_of(const onnx::NodeProto& node, const Scope& scope) {
    AttributeMap attributes;
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      const onnx::AttributeProto* meant = &attribute;
      if (!attribute.ref_attr_name().empty()) {
        if (!scope.is_in_function)
          throw Refusal{.code = DiagCode::BadAttribute,
                        .message = "attribute " + in_quotes(attribute.name()) +
                                   " refers to one of a function, and stands in none"};
        const auto given = scope.call.find(attribute.ref_attr_name());
        if (given == scope.call.end()) continue;
        meant = given->second;
      }
      if (!attributes.emplace(attribute.name(), meant).second)
        throw Refusal{.code = DiagCode::BadAttribute,
                      .message = "attribute " + in_quotes(attribute.name()) + " is given twice"};
    }
    return attributes;
  }

  static int64_t opset_of(const onnx::NodeProto& node, const Scope& scope) {
    const auto version = scope.opsets.find(domain_of(node.domain()));
    return version == scope.opsets.end() ? 1 : version->second;
  }

  // Where the next nodes come from.
  void set_origin(const onnx::NodeProto& node, const Scope& scope, int index) {
    const std::string name = node_name(node);
    builder_.set_origin(name_fault(name) ? "node" : name,
                        place(scope.path + "node " + std::to_string(index)),
                        node.op_type() + "-" + std::to_string(opset_of(node, scope)));
  }

  void import_node(const onnx::NodeProto& node, Scope& scope, int index) {
    const std::string domain = domain_of(node.domain());
    const int64_t opset = opset_of(node, scope);
    Inputs inputs = inputs_of(node, scope);
    AttributeMap attributes = attributes_of(node, scope);
    set_origin(node, scope, index);
    if (const onnx::FunctionProto* function = find_function(node)) {
      call_function(*function, node, std::move(inputs), std::move(attributes), scope);
      return;
    }
    NodeReader reader(context_, node, opset, std::move(inputs), std::move(attributes));
    if (has_graphs(domain, node.op_type())) {
      import_control(reader, node, scope, index);
    } else {
      translate(reader, domain, node);
    }
    take_reported_counts(node);
    reader.check_all_used();
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      define(scope, node.output(i), reader.outputs().at(static_cast<size_t>(i)).value());
    }
  }

  // What a node found without a place for it; inside a body it is no output of the model.
  void take_reported_counts(const onnx::NodeProto& node) {
    for (const ValueId count : reported_counts_) {
      if (!builder_.is_in_body())
        counts_.push_back({.name = node_name(node) + ".count", .value = count});
    }
    reported_counts_.clear();
  }

  static void translate(NodeReader& reader, const std::string& domain,
                        const onnx::NodeProto& node) {
    const OnnxOp* row = find_onnx_op(domain, node.op_type());
    if (const std::string op = row ? std::string() : extension_of(domain, node.op_type());
        !op.empty())
      return translate_extension(reader, op);
    if (row == nullptr)
      throw Refusal{.message = std::string(gap_of(domain, node.op_type()).why),
                    .hint = std::string(gap_of(domain, node.op_type()).help)};
    row->translate(reader, *row);
  }

  void define(Scope& scope, const std::string& name, ValueId id) {
    const auto earlier = scope.values.find(name);
    if (earlier != scope.values.end() && earlier->second)
      throw Refusal{.code = DiagCode::DuplicateName,
                    .message = "value " + in_quotes(name) + " is defined twice"};
    scope.values[name] = id;
    if (scope.depth == 0) builder_.suggest_name(id, name);
  }

  // The body of a function in place of its call.
  void call_function(const onnx::FunctionProto& function, const onnx::NodeProto& node,
                     Inputs inputs, AttributeMap attributes, Scope& scope) {
    Scope inner = enter(scope, node);
    inner.outer = nullptr;
    inner.opsets = opsets_of(function.opset_import());
    const std::vector<onnx::AttributeProto>& defaults = defaults_.at(&function);
    for (const auto& [name, value] : attributes) {
      const bool is_known = std::ranges::count(function.attribute(), name) > 0 ||
                            std::ranges::count(defaults, name, &onnx::AttributeProto::name) > 0;
      if (!is_known)
        throw Refusal{.code = DiagCode::UnknownAttribute,
                      .message = "attribute " + in_quotes(name) + " is none of the function's"};
    }
    for (const onnx::AttributeProto& given : defaults) attributes.emplace(given.name(), &given);
    inner.is_in_function = true;
    inner.call = std::move(attributes);
    if (inputs.size() > static_cast<size_t>(function.input_size()))
      throw Refusal{.code = DiagCode::BadArity,
                    .message = "the function has " + std::to_string(function.input_size()) +
                               " inputs, the call " + std::to_string(inputs.size())};
    inputs.resize(static_cast<size_t>(function.input_size()));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& parameter = function.input(static_cast<int>(i));
      if (inputs[i]) inner.values[parameter] = inputs[i];
      if (!inputs[i]) inner.absent.insert(parameter);
    }
    import_nodes(function.node(), inner);
    take_results(function.output(), inner, node, scope);
  }

  void import_control(NodeReader& reader, const onnx::NodeProto& node, Scope& scope, int index) {
    std::vector<ValueId> counts;
    const ControlFlow control{
        .put =
            [&](const onnx::GraphProto& graph, const std::vector<ValueId>& inputs) {
              return put(graph, inputs, node, scope, index);
            },
        .faults_of_shapes =
            [&](const std::function<void()>& make) { return try_out(make, node, scope, index); },
        .diagnostics = *diagnostics_,
        .has_free_sizes = options_.keep_symbols,
        .max_iterations = options_.max_iterations,
        .counts = counts};
    import_with_graphs(reader, control);
    for (const ValueId count : counts) {
      // Inside another body it is no output of the model.
      if (scope.depth == 0) counts_.push_back({.name = node_name(node) + ".count", .value = count});
    }
  }

  // See ControlFlow::faults_of_shapes.
  std::optional<Diagnostics> try_out(const std::function<void()>& make, const onnx::NodeProto& node,
                                     const Scope& scope, int index) {
    Diagnostics found;
    Diagnostics* const outer = std::exchange(diagnostics_, &found);
    const size_t errors = std::exchange(errors_before_, 0);
    bool is_made = true;
    try {
      make();
    } catch (const Refusal& refusal) {
      report(node, scope.path, index, refusal);
      is_made = false;
    } catch (const SkippedNode&) {
      is_made = false;
    }
    diagnostics_ = outer;
    errors_before_ = errors;
    set_origin(node, scope, index);
    if (!is_made && found.has_errors() && is_of_shapes(found)) return found;
    for (const Diagnostic& fault : found.all()) diagnostics_->add(fault);
    if (!is_made) throw SkippedNode();
    return std::nullopt;
  }

  // The nodes of a graph inside a node, which sees the names around it.
  std::vector<ValueId> put(const onnx::GraphProto& graph, const std::vector<ValueId>& inputs,
                           const onnx::NodeProto& node, Scope& scope, int index) {
    Scope inner = enter(scope, node);
    inner.outer = &scope;
    inner.opsets = scope.opsets;
    inner.is_in_function = scope.is_in_function;
    inner.call = scope.call;
    const size_t errors = diagnostics_->error_count();
    list_gaps(graph.node(), inner.opsets, inner.depth, inner.path);
    if (diagnostics_->error_count() > errors) throw SkippedNode();
    for (size_t i = 0; i < inputs.size(); ++i)
      inner.values[graph.input(static_cast<int>(i)).name()] = inputs[i];
    import_initializers(graph, inner);
    import_nodes(graph.node(), inner);
    set_origin(node, scope, index);
    std::vector<ValueId> outputs;
    for (const onnx::ValueInfoProto& output : graph.output()) {
      const std::optional<ValueId>* found = inner.find(output.name());
      if (found == nullptr)
        throw Refusal{
            .code = DiagCode::UnknownValue,
            .message = "its graph does not define its output " + in_quotes(output.name())};
      if (!found->has_value()) throw SkippedNode();
      outputs.push_back(**found);
    }
    return outputs;
  }

  static Scope enter(const Scope& scope, const onnx::NodeProto& node) {
    Scope inner;
    inner.depth = scope.depth + 1;
    inner.path = scope.path + "node " + in_quotes(node_name(node)) + " / ";
    if (inner.depth > kMaxCallDepth)
      throw Refusal{.code = DiagCode::Limit,
                    .message = "functions and branches are nested deeper than " +
                               std::to_string(kMaxCallDepth)};
    return inner;
  }

  template <typename Names>
  void take_results(const Names& names, const Scope& inner, const onnx::NodeProto& node,
                    Scope& scope) {
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      const std::optional<ValueId>* found =
          static_cast<size_t>(i) < static_cast<size_t>(names.size())
              ? inner.find(*(names.begin() + i))
              : nullptr;
      if (found == nullptr)
        throw Refusal{.code = DiagCode::UnknownValue,
                      .message = "its body does not define output " + std::to_string(i)};
      if (!found->has_value()) throw SkippedNode();
      define(scope, node.output(i), **found);
    }
  }

  void finish(const Scope& scope) {
    std::vector<Builder::Output> outputs;
    std::set<std::string_view> seen;
    for (const onnx::ValueInfoProto& output : model_->graph().output()) {
      if (!seen.insert(output.name()).second) continue;
      if (const auto fault = name_fault(output.name())) {
        error(DiagCode::BadField, "an output's name " + *fault);
        continue;
      }
      const std::optional<ValueId>* found = scope.find(output.name());
      if (found == nullptr) {
        error(DiagCode::UnknownValue,
              "output " + in_quotes(output.name()) + " is defined by nothing");
      } else if (found->has_value() && builder_.is_none(**found)) {
        error(DiagCode::UnsupportedOp,
              "output " + in_quotes(output.name()) + " is an optional value that holds none");
      } else if (found->has_value() && builder_.sequence(**found) != nullptr) {
        error(DiagCode::UnsupportedOp, "output " + in_quotes(output.name()) + " is a sequence",
              "make its elements outputs, or join them with ConcatFromSequence");
      } else if (const StandIn* type = found->has_value() ? builder_.stand_in(**found) : nullptr) {
        error(DiagCode::UnsupportedOp,
              "output " + in_quotes(output.name()) + " has the element type " +
                  std::string(type->name) + ", which rlx has in constants alone",
              "cast it to a type that rlx has");
      } else if (found->has_value()) {
        check_output(output, **found);
        outputs.push_back({.name = output.name(), .value = **found});
      }
    }
    if (is_good() && outputs.empty()) error(DiagCode::BadField, "the graph has no outputs");
    for (const auto& [name, most] : options_.max_counts) {
      if (name.empty() || used_max_counts_.contains(name)) continue;
      error(DiagCode::BadBinding,
            "--max-count names " + in_quotes(name) +
                ", which is no node, and no output of one, whose size depends on data");
    }
    if (!is_good()) return;
    for (const Builder::Output& output : std::vector(outputs)) {
      if (const Padding* padding = builder_.padding(output.value))
        counts_.push_back({.name = output.name + ".count", .value = padding->count});
    }
    for (Builder::Output& count : counts_) {
      if (name_fault(count.name)) count.name = "loop.count";
      while (std::ranges::find(outputs, count.name, &Builder::Output::name) != outputs.end())
        count.name += "_";
      outputs.push_back(count);
    }
    result_.graph = builder_.finish(outputs);
    const std::string& name = model_->graph().name();
    result_.graph->name = name_fault(name) ? "model" : name;
    result_.graph->producer =
        text_fault(model_->producer_name(), kMaxNameBytes) ? "" : model_->producer_name();
  }

  std::shared_ptr<const onnx::ModelProto> model_;
  const std::string& file_;
  const OnnxOptions& options_;
  Diagnostics* diagnostics_;  // of a branch on trial, its own
  size_t errors_before_ = diagnostics_->error_count();
  OnnxResult result_;
  Builder builder_;
  TensorDecoder tensors_;
  ModelContext context_;
  Functions functions_;
  std::map<const onnx::FunctionProto*, std::vector<onnx::AttributeProto>> defaults_;
  std::set<FunctionName> listed_functions_;
  std::set<std::string> symbols_;
  std::vector<Builder::Output> counts_;  // of loops and lists whose results are padded
  std::set<std::string> used_max_counts_;
  std::vector<ValueId> reported_counts_;
};

}  // namespace

OnnxResult import_model(const std::shared_ptr<const onnx::ModelProto>& model,
                        const std::string& file, const OnnxOptions& options,
                        Diagnostics& diagnostics) {
  return ModelImporter(model, file, options, diagnostics).import();
}

}  // namespace rlx::onnx_import
