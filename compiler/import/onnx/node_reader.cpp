// SPDX-License-Identifier: Apache-2.0
// One ONNX node as what translates it sees it.
#include "compiler/import/onnx/node_reader.h"

#include <algorithm>
#include <numeric>

#include "compiler/import/names.h"
#include "compiler/import/onnx/refusal.h"
#include "compiler/support/blocks.h"

namespace rlx::onnx_import {
namespace {

std::string kind_text(const onnx::AttributeProto& attribute) {
  return onnx::AttributeProto::AttributeType_Name(attribute.type());
}

}  // namespace

NodeReader::NodeReader(ModelContext& model, const onnx::NodeProto& proto, int64_t opset,
                       Inputs inputs, AttributeMap attributes)
    : model_(model),
      proto_(proto),
      opset_(opset),
      inputs_(std::move(inputs)),
      attributes_(std::move(attributes)),
      outputs_(static_cast<size_t>(proto.output_size())) {}

void NodeReader::refuse(const std::string& message, std::string hint) const {
  throw Refusal{.code = DiagCode::UnsupportedOp, .message = message, .hint = std::move(hint)};
}

void NodeReader::refuse_shapes(const std::string& message, std::string hint) const {
  throw Refusal{.code = DiagCode::BadShape, .message = message, .hint = std::move(hint)};
}

bool NodeReader::has_input(size_t i) const {
  read_inputs_.insert(i);
  return i < inputs_.size() && inputs_[i];
}

ValueId NodeReader::input(size_t i) const {
  const ValueId id = any_input(i);
  if (model_.builder.sequence(id) == nullptr) return id;
  expect_value(i);
  refuse("input " + std::to_string(i) + " is a sequence, wanted a tensor",
         "take an element with SequenceAt, or join them with ConcatFromSequence");
}

const Builder::Sequence& NodeReader::sequence(size_t i) const {
  expect_value(i);
  if (const Builder::Sequence* found = model_.builder.sequence(any_input(i))) return *found;
  refuse("input " + std::to_string(i) + " is a tensor, wanted a sequence");
}

ValueId NodeReader::any_input(size_t i) const {
  if (has_input(i)) return *inputs_[i];
  throw Refusal{.code = DiagCode::BadArity,
                .message = "input " + std::to_string(i) + " is missing",
                .hint = ""};
}

void NodeReader::expect_value(size_t i) const {
  if (model_.builder.is_none(any_input(i)))
    refuse("input " + std::to_string(i) + " is an optional value that holds none");
}

std::optional<ValueId> NodeReader::optional_input(size_t i) const {
  if (!has_input(i)) return std::nullopt;
  return input(i);
}

const Tensor& NodeReader::known(size_t i, const std::string& what) {
  const ValueId id = input(i);
  if (const Tensor* values = builder().known(id)) return *values;
  const std::set<std::string> inputs = builder().inputs_behind(id);
  model_.wanted_inputs.insert(inputs.begin(), inputs.end());
  std::vector<std::string_view> names(inputs.begin(), inputs.end());
  refuse("input " + std::to_string(i) + " gives " + what +
             ", which must be known when the model is compiled" +
             (names.empty() ? "" : "; it depends on the model's input " + list_names(names)),
         names.size() == 1
             ? "give the input's value with --const " + std::string(names.front()) + "=VALUE"
             : "make it a constant of the model, or let it follow from shapes");
}

const Tensor& NodeReader::known_numbers(size_t i, const std::string& what) {
  if (is_float8(dtype(i)))
    refuse("input " + std::to_string(i) + " gives " + what + " as " +
           std::string(name_of(dtype(i))) + ", wanted integers or wider floats");
  return known(i, what);
}

Ints NodeReader::known_ints(size_t i, const std::string& what) {
  const Tensor& values = known_numbers(i, what);
  if (!values.is_float()) return {values.integers.begin(), values.integers.end()};
  refuse("input " + std::to_string(i) + " gives " + what + " as floats, wanted integers");
}

Floats NodeReader::known_reals(size_t i, const std::string& what) {
  const Tensor& values = known_numbers(i, what);
  if (values.is_float()) return values.floats;
  return {values.integers.begin(), values.integers.end()};
}

int64_t NodeReader::known_int(size_t i, const std::string& what) {
  const Ints values = known_ints(i, what);
  if (values.size() == 1) return values.front();
  refuse("input " + std::to_string(i) + " gives " + what + " with " +
         std::to_string(values.size()) + " elements, wanted one");
}

double NodeReader::known_real(size_t i, const std::string& what) {
  const Floats values = known_reals(i, what);
  if (values.size() == 1) return values.front();
  refuse("input " + std::to_string(i) + " gives " + what + " with " +
         std::to_string(values.size()) + " elements, wanted one");
}

bool NodeReader::Sizes::are_known() const {
  return std::none_of(counts.begin(), counts.end(),
                      [](const auto& count) { return count.has_value(); });
}

NodeReader::Sizes NodeReader::sizes(size_t i, const std::string& what) {
  const ValueId id = input(i);
  const CountRange* found = builder().counts(id);
  if (found == nullptr || found->all.is_float()) {
    Ints values = known_ints(i, what);
    const size_t size = values.size();
    return {.most = std::move(values), .counts = std::vector<std::optional<ValueId>>(size)};
  }
  const CountRange range = *found;
  const auto length = static_cast<int64_t>(range.all.integers.size());
  const ValueId flat = reshape(cast(id, DType::i64), {length});
  Sizes sizes;
  for (int64_t k = 0; k < length; ++k) {
    const int64_t none = range.none.integers[static_cast<size_t>(k)];
    const int64_t all = range.all.integers[static_cast<size_t>(k)];
    sizes.most.push_back(std::max(none, all));
    sizes.counts.emplace_back();
    if (none == all) continue;
    const ValueId element =
        emit("narrow", {flat}, {{"axis", int64_t{0}}, {"start", k}, {"len", int64_t{1}}});
    sizes.counts.back() = reshape(element, {});
  }
  return sizes;
}

ValueId NodeReader::run_number(size_t i, const std::string& what) {
  if (is_float(dtype(i)) || element_count(shape(i)) != 1)
    refuse("input " + std::to_string(i) + " gives " + what + " as " + to_string(type(input(i))) +
           ", wanted one integer");
  return reshape(cast(input(i), DType::i64), {});
}

int64_t NodeReader::count_bound(int64_t natural) {
  std::vector<std::string> names(proto_.output().begin(), proto_.output().end());
  names.push_back(proto_.name());
  int64_t most = natural;
  if (const auto all = model_.max_counts.find(""); all != model_.max_counts.end())
    most = std::min(most, all->second);
  for (const std::string& name : names) {
    const auto found = name.empty() ? model_.max_counts.end() : model_.max_counts.find(name);
    if (found == model_.max_counts.end()) continue;
    model_.used_max_counts.insert(name);
    most = std::min(natural, found->second);
  }
  return most;
}

bool NodeReader::has(std::string_view name) const {
  return attributes_.find(name) != attributes_.end();
}

const onnx::AttributeProto* NodeReader::attribute(std::string_view name) {
  const auto found = attributes_.find(name);
  if (found == attributes_.end()) return nullptr;
  read_.insert(std::string(name));
  return found->second;
}

namespace {

void check_kind(const onnx::AttributeProto& attribute, onnx::AttributeProto::AttributeType wanted) {
  // IR versions before 2 leave the type out.
  if (attribute.type() == wanted || attribute.type() == onnx::AttributeProto::UNDEFINED) return;
  throw Refusal{.code = DiagCode::BadAttribute,
                .message = "attribute " + in_quotes(attribute.name()) + " is of type " +
                           kind_text(attribute) + ", wanted " +
                           onnx::AttributeProto::AttributeType_Name(wanted),
                .hint = ""};
}

}  // namespace

int64_t NodeReader::integer(std::string_view name, int64_t absent) {
  const auto* found = attribute(name);
  if (found == nullptr) return absent;
  check_kind(*found, onnx::AttributeProto::INT);
  return found->i();
}

double NodeReader::real(std::string_view name, double absent) {
  const auto* found = attribute(name);
  if (found == nullptr) return absent;
  check_kind(*found, onnx::AttributeProto::FLOAT);
  return found->f();
}

std::string NodeReader::text(std::string_view name, std::string absent) {
  const auto* found = attribute(name);
  if (found == nullptr) return absent;
  check_kind(*found, onnx::AttributeProto::STRING);
  return found->s();
}

Ints NodeReader::integers(std::string_view name, Ints absent) {
  const auto* found = attribute(name);
  if (found == nullptr) return absent;
  check_kind(*found, onnx::AttributeProto::INTS);
  return {found->ints().begin(), found->ints().end()};
}

Floats NodeReader::reals(std::string_view name, Floats absent) {
  const auto* found = attribute(name);
  if (found == nullptr) return absent;
  check_kind(*found, onnx::AttributeProto::FLOATS);
  return {found->floats().begin(), found->floats().end()};
}

int64_t NodeReader::required_integer(std::string_view name) {
  if (has(name)) return integer(name, 0);
  throw Refusal{.code = DiagCode::MissingAttribute,
                .message = "attribute " + in_quotes(name) + " is missing",
                .hint = ""};
}

Ints NodeReader::required_integers(std::string_view name) {
  if (has(name)) return integers(name, {});
  throw Refusal{.code = DiagCode::MissingAttribute,
                .message = "attribute " + in_quotes(name) + " is missing",
                .hint = ""};
}

const onnx::TensorProto* NodeReader::tensor(std::string_view name) {
  const auto* found = attribute(name);
  if (found == nullptr) return nullptr;
  check_kind(*found, onnx::AttributeProto::TENSOR);
  return &found->t();
}

const onnx::SparseTensorProto* NodeReader::sparse_tensor(std::string_view name) {
  const auto* found = attribute(name);
  if (found == nullptr) return nullptr;
  check_kind(*found, onnx::AttributeProto::SPARSE_TENSOR);
  return &found->sparse_tensor();
}

int64_t NodeReader::axis(int64_t axis, int64_t rank) const {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  throw Refusal{.code = DiagCode::BadAxis,
                .message = "axis " + std::to_string(axis) + " is out of range for rank " +
                           std::to_string(rank),
                .hint = ""};
}

size_t NodeReader::output_count() const {
  size_t count = outputs_.size();
  while (count > 0 && !wants_output(count - 1)) --count;
  return count;
}

bool NodeReader::wants_output(size_t i) const {
  return i < outputs_.size() && !proto_.output(static_cast<int>(i)).empty();
}

void NodeReader::set_output(size_t i, ValueId id) {
  if (i < outputs_.size()) outputs_[i] = id;
}

ValueId NodeReader::constant(const Tensor& values) {
  return builder().add_constant("", values);
}

ValueId NodeReader::constant_ints(DType dtype, Shape shape, Ints values) {
  Tensor tensor;
  tensor.type = {dtype, std::move(shape)};
  tensor.integers = numbers_of(values);
  return constant(tensor);
}

ValueId NodeReader::constant_reals(DType dtype, Shape shape, Floats values) {
  if (!is_float(dtype))
    refuse("it computes in floats, and its input is of type " + std::string(name_of(dtype)));
  Tensor tensor;
  tensor.type = {dtype, std::move(shape)};
  tensor.floats = std::move(values);
  return constant(tensor);
}

ValueId NodeReader::scalar(DType dtype, double value) {
  if (is_float(dtype)) return constant_reals(dtype, {}, {value});
  return constant_ints(dtype, {}, {static_cast<int64_t>(value)});
}

ValueId NodeReader::decode(const onnx::TensorProto& tensor, const std::string& what) {
  return add_decoded(model_.tensors.decode(tensor, model_.owner, what));
}

ValueId NodeReader::decode(const onnx::SparseTensorProto& tensor, const std::string& what) {
  return add_decoded(model_.tensors.decode(tensor, model_.owner, what));
}

ValueId NodeReader::add_decoded(ConstantTensor decoded) {
  const ValueId id =
      builder().add_constant("", std::move(decoded.type), std::move(decoded.data), false);
  if (decoded.stand_in != nullptr) builder().mark_stand_in(id, decoded.stand_in);
  return id;
}

ValueId NodeReader::cast(ValueId x, DType to) {
  if (type(x).dtype == to) return x;
  return emit("cast", {x}, {{"to", std::string(name_of(to))}});
}

ValueId NodeReader::reshape(ValueId x, Shape shape) {
  if (type(x).shape == shape) return x;
  return emit("reshape", {x}, {{"shape", Ints(shape.begin(), shape.end())}});
}

ValueId NodeReader::transpose(ValueId x, Ints perm) {
  Ints same(perm.size());
  std::iota(same.begin(), same.end(), 0);
  if (perm == same) return x;
  return emit("transpose", {x}, {{"perm", std::move(perm)}});
}

void NodeReader::check_all_used() const {
  for (const auto& [name, attribute] : attributes_) {
    if (read_.contains(name)) continue;
    throw Refusal{.code = DiagCode::UnknownAttribute,
                  .message = "attribute " + in_quotes(name) + " is not understood",
                  .hint = ""};
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] && !read_inputs_.contains(i))
      refuse("input " + std::to_string(i) + " is not understood");
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (!wants_output(i) || outputs_[i]) continue;
    refuse("output " + std::to_string(i) + " is not supported");
  }
}

}  // namespace rlx::onnx_import
