// SPDX-License-Identifier: Apache-2.0
// Values of inputs read from a command line, and graphs without those inputs.
#include "compiler/import/const_input.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "compiler/import/inline_data.h"
#include "compiler/import/model_files.h"
#include "compiler/import/names.h"
#include "compiler/import/npy.h"
#include "compiler/import/weights.h"

namespace rlx {
namespace {

using TensorOrFault = std::variant<Tensor, std::string>;

constexpr uint64_t kMostValueBytes = uint64_t{64} << 20;

std::string dims_text(const KnownDims& dims) {
  std::string text = "[";
  for (const std::optional<int64_t>& dim : dims) {
    if (text.size() > 1) text += ", ";
    text += dim ? std::to_string(*dim) : "?";
  }
  return text + "]";
}

bool fits(const Shape& shape, const KnownDims& dims) {
  return std::equal(
      shape.begin(), shape.end(), dims.begin(), dims.end(),
      [](int64_t size, const std::optional<int64_t>& dim) { return dim.value_or(size) == size; });
}

TensorOrFault tensor_of_file(const std::string& path, DType dtype, const KnownDims& dims) {
  FileResult file = map_file(path);
  if (const auto* fault = std::get_if<FileFault>(&file))
    return "is given by " + in_quotes(path) + ", which " + fault->message;
  const auto mapped = std::get<std::shared_ptr<const MappedFile>>(std::move(file));
  const std::variant<NpyView, ParseFault> parsed = parse_npy(mapped->bytes());
  if (const auto* fault = std::get_if<ParseFault>(&parsed))
    return "is given by " + in_quotes(path) + ", which " + fault->message;
  const auto& view = std::get<NpyView>(parsed);
  if (view.type.dtype != dtype || !fits(view.type.shape, dims)) {
    return "is given by " + in_quotes(path) + ", which holds " + to_string(view.type) +
           ", wanted " + std::string(name_of(dtype)) + dims_text(dims);
  }
  const HostBytes bytes = npy_bytes(view, mapped);
  return Tensor::from_bytes(view.type, bytes.bytes);
}

// JSON of what stands on a command line: "nan" and its kind are strings there.
std::optional<JsonValue> value_of(const std::string& text) {
  constexpr std::array kWords = {"nan", "inf", "-inf"};
  const bool is_word = std::find(kWords.begin(), kWords.end(), text) != kWords.end();
  Diagnostics ignored;
  return parse_json(is_word ? "\"" + text + "\"" : text, "", ignored);
}

// The shape of a list or of a number; nullopt where it is open.
std::optional<Shape> shape_of(const JsonValue& value, const KnownDims& dims) {
  const JsonArray* list = value.array();
  Shape shape;
  for (const std::optional<int64_t>& dim : dims) {
    if (!dim && !(list && dims.size() == 1)) return std::nullopt;
    shape.push_back(dim ? *dim : static_cast<int64_t>(list->size()));
  }
  return shape;
}

// One element `count` times.
std::vector<std::byte> repeated(const std::vector<std::byte>& element, uint64_t count) {
  std::vector<std::byte> bytes;
  bytes.reserve(element.size() * count);
  for (uint64_t i = 0; i < count; ++i) bytes.insert(bytes.end(), element.begin(), element.end());
  return bytes;
}

TensorOrFault tensor_of_value(const JsonValue& value, DType dtype, const KnownDims& dims) {
  const std::optional<Shape> shape = shape_of(value, dims);
  if (!shape) {
    return "has the shape " + dims_text(dims) +
           ", whose open dims its value does not decide; bind them with --dim";
  }
  const TensorType type{dtype, *shape};
  if (kind_of(dtype) == DTypeKind::Storage)
    return "of " + std::string(name_of(dtype)) + " takes no value here; give it as an .npy file";
  if (const auto fault = type_fault(type)) return *fault;
  if (byte_size(type) > kMostValueBytes)
    return "of " + to_string(type) + " is too large for a value here; give it as an .npy file";
  const bool is_list = value.array() != nullptr;
  InlineBytes bytes =
      is_list ? encode_values(*value.array(), dtype, SourceDims(shape->begin(), shape->end()))
              : encode_values({value}, dtype, {});
  if (const auto* fault = std::get_if<std::string>(&bytes))
    return "has a value that does not fit: " + *fault;
  auto& elements = std::get<std::vector<std::byte>>(bytes);
  if (!is_list) elements = repeated(elements, static_cast<uint64_t>(element_count(*shape)));
  if (elements.size() != byte_size(type)) {
    return "of " + to_string(type) + " is given " +
           std::to_string(elements.size() / element_bytes(dtype)) + " values";
  }
  return Tensor::from_bytes(type, elements);
}

KnownDims known_dims(const SourceDims& shape) {
  KnownDims dims;
  for (const SourceDim& dim : shape) {
    const auto* size = std::get_if<int64_t>(&dim);
    dims.push_back(size != nullptr ? std::optional(*size) : std::nullopt);
  }
  return dims;
}

SourceData owned(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> view(*owner);
  return HostBytes{.owner = std::move(owner), .bytes = view};
}

// Takes the input of that name out of every entry; the first one, or nullopt after an error.
std::optional<SourceTensor> take_input(SourceGraph& graph, const std::string& name,
                                       Diagnostics& diagnostics) {
  std::optional<SourceTensor> taken;
  std::set<std::string_view> names;
  for (SourceEntry& entry : graph.entries) {
    const auto found = std::find_if(entry.inputs.begin(), entry.inputs.end(),
                                    [&](const SourceTensor& input) { return input.name == name; });
    for (const SourceTensor& input : entry.inputs) names.insert(input.name);
    if (found == entry.inputs.end()) continue;
    if (taken && (taken->dtype != found->dtype || taken->shape != found->shape)) {
      diagnostics.error(DiagCode::BadBinding, found->place,
                        "--const names input " + in_quotes(name) +
                            ", which two entries declare with different types");
      return std::nullopt;
    }
    taken = std::move(*found);
    entry.inputs.erase(found);
  }
  if (!taken) {
    const std::vector<std::string_view> known(names.begin(), names.end());
    diagnostics.error(DiagCode::BadBinding, {graph.file, ""},
                      "--const names " + in_quotes(name) + ", which is no input of the graph",
                      known.empty() ? "the graph has none" : "its inputs are " + list_names(known));
  }
  return taken;
}

}  // namespace

std::variant<Tensor, std::string> const_tensor(const std::string& text, DType dtype,
                                               const KnownDims& dims) {
  if (text.ends_with(".npy")) return tensor_of_file(text, dtype, dims);
  const std::optional<JsonValue> value = value_of(text);
  if (!value || value->object() != nullptr) {
    return "is given " + in_quotes(text) +
           ", which is no number, true, false, list [1, 2] or .npy file";
  }
  return tensor_of_value(*value, dtype, dims);
}

bool fix_inputs(SourceGraph& graph, const ConstInputs& inputs, Diagnostics& diagnostics) {
  for (const auto& [name, text] : inputs) {
    std::optional<SourceTensor> constant = take_input(graph, name, diagnostics);
    if (!constant) return false;
    auto tensor = const_tensor(text, constant->dtype, known_dims(constant->shape));
    if (const auto* fault = std::get_if<std::string>(&tensor)) {
      diagnostics.error(DiagCode::BadBinding, constant->place,
                        "input " + in_quotes(name) + " " + *fault);
      return false;
    }
    const Tensor& values = std::get<Tensor>(tensor);
    constant->shape.assign(values.type.shape.begin(), values.type.shape.end());
    constant->data = owned(values.to_bytes());
    graph.constants.push_back(std::move(*constant));
  }
  return true;
}

}  // namespace rlx
