// SPDX-License-Identifier: Apache-2.0
// Tensors of the JSON form.
#include "compiler/import/json_tensor.h"

#include <array>
#include <limits>
#include <memory>

#include "compiler/import/inline_data.h"
#include "compiler/import/names.h"

namespace rlx {
namespace {

struct RoleText {
  std::string_view name;
  std::string_view data_field;  // empty: none
};
constexpr std::array<RoleText, 4> kRoles = {
    {{"input", ""}, {"param", "data"}, {"constant", "data"}, {"state", "init"}}};

DType read_dtype(JsonFields& fields, const std::string& what) {
  const std::string text = fields.required_text("dtype");
  const std::optional<DType> dtype = dtype_from_name(text);
  if (dtype || fields.find("dtype") == nullptr || fields.find("dtype")->string() == nullptr) {
    return dtype.value_or(DType::f32);
  }
  std::vector<std::string_view> known;
  for (uint32_t i = 0; dtype_from_number(i); ++i) known.push_back(name_of(*dtype_from_number(i)));
  const std::string hint = nearest_hint(text, known);
  fields.fail(DiagCode::UnknownDtype, what + " has unknown dtype " + in_quotes(text),
              hint.empty()
                  ? "dtypes are f32, f16, bf16, f64, i8, u8, i16, i32, u32, i64, bool, c64 "
                    "and the block types of the catalogue"
                  : hint);
  return DType::f32;
}

// Moves bytes into shared ownership.
SourceData owned_data(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> view(*owner);
  return HostBytes{.owner = std::move(owner), .bytes = view};
}

class DataReader {
 public:
  DataReader(JsonErrors& errors, const JsonValue& value, std::string pointer,
             const SourceTensor& tensor, std::string what)
      : errors_(errors),
        value_(value),
        pointer_(std::move(pointer)),
        tensor_(tensor),
        what_(std::move(what)) {}

  std::optional<SourceData> read() {
    const JsonObject* object = value_.object();
    if (object) {
      for (const Kind& kind : kKinds) {
        if (find_member(*object, kind.key)) return (this->*kind.read)();
      }
    }
    JsonFields fields(errors_, value_, pointer_, what_,
                      {"values", "base64", "npy", "safetensors", "raw", "splat", "random"});
    if (object && object->empty()) {
      fields.fail(DiagCode::BadField, what_ + " is empty",
                  "wanted one of \"values\", \"base64\", \"npy\", \"safetensors\", \"raw\", "
                  "\"splat\", \"random\"");
    }
    return std::nullopt;
  }

 private:
  struct Kind {
    std::string_view key;
    std::optional<SourceData> (DataReader::*read)();
  };
  static const std::array<Kind, 7> kKinds;

  JsonFields fields(std::initializer_list<std::string_view> known) {
    return {errors_, value_, pointer_, what_, known};
  }
  std::optional<SourceData> bytes_or_fault(JsonFields& fields, InlineBytes bytes) {
    if (const auto* fault = std::get_if<std::string>(&bytes)) {
      fields.fail(DiagCode::BadField, what_ + ": " + *fault);
      return std::nullopt;
    }
    return owned_data(std::move(std::get<std::vector<std::byte>>(bytes)));
  }

  std::optional<SourceData> values() {
    JsonFields f = fields({"values"});
    return bytes_or_fault(f, encode_values(f.array("values"), tensor_.dtype, tensor_.shape));
  }
  std::optional<SourceData> base64() {
    JsonFields f = fields({"base64"});
    return bytes_or_fault(f, decode_base64(f.text("base64")));
  }
  std::optional<SourceData> npy() {
    JsonFields f = fields({"npy"});
    return NpyFile{.path = f.text("npy")};
  }
  std::optional<SourceData> safetensors() {
    JsonFields f = fields({"safetensors", "tensor"});
    const std::string name = f.find("tensor") ? f.text("tensor") : tensor_.name;
    return SafetensorsFile{.path = f.text("safetensors"), .tensor = name};
  }
  std::optional<SourceData> raw() {
    JsonFields f = fields({"raw", "offset"});
    return RawFile{.path = f.text("raw"), .offset_bytes = f.unsigned_integer("offset", 0)};
  }
  std::optional<SourceData> splat() {
    JsonFields f = fields({"splat"});
    if (const auto* flag = std::get_if<bool>(&f.find("splat")->data))
      return SplatData{*flag ? 1.0 : 0.0};
    return SplatData{f.real("splat", 0)};
  }
  std::optional<SourceData> random() {
    const JsonValue& inner = *fields({"random"}).find("random");
    const JsonObject* object = inner.object();
    const JsonValue* kind = object ? find_member(*object, "distribution") : nullptr;
    const bool is_normal = kind && kind->string() && *kind->string() == "normal";
    using Known = std::initializer_list<std::string_view>;
    JsonFields f(errors_, inner, pointer_ + "/random", "random data",
                 is_normal ? Known{"distribution", "mean", "std", "seed", "stream"}
                           : Known{"distribution", "low", "high", "seed", "stream"});
    const std::string distribution = f.required_text("distribution");
    if (!is_normal && distribution != "uniform" && kind && kind->string()) {
      f.fail(DiagCode::BadField, what_ + " has unknown distribution " + in_quotes(distribution) +
                                     ", wanted \"uniform\" or \"normal\"");
    }
    const uint64_t stream = f.unsigned_integer("stream", default_stream(tensor_.name));
    if (stream > std::numeric_limits<uint32_t>::max()) {
      f.fail(DiagCode::BadField,
             what_ + " has stream " + std::to_string(stream) + ", wanted at most 2^32 - 1");
    }
    return RandomData{.distribution = is_normal ? RandomData::Distribution::Normal
                                                : RandomData::Distribution::Uniform,
                      .a = f.real(is_normal ? "mean" : "low", 0),
                      .b = f.real(is_normal ? "std" : "high", 1),
                      .seed = f.unsigned_integer("seed", 0),
                      .stream = static_cast<uint32_t>(stream)};
  }

  JsonErrors& errors_;
  const JsonValue& value_;
  std::string pointer_;
  const SourceTensor& tensor_;
  std::string what_;
};

const std::array<DataReader::Kind, 7> DataReader::kKinds = {{
    {"values", &DataReader::values},
    {"base64", &DataReader::base64},
    {"npy", &DataReader::npy},
    {"safetensors", &DataReader::safetensors},
    {"raw", &DataReader::raw},
    {"splat", &DataReader::splat},
    {"random", &DataReader::random},
}};

}  // namespace

uint32_t default_stream(std::string_view name) {
  uint32_t hash = 0x811c9dc5;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x01000193;
  return hash;
}

SourceDims read_json_dims(JsonFields& fields, const JsonArray& items, const std::string& what) {
  SourceDims dims;
  for (const JsonValue& item : items) {
    if (const auto* size = item.integer()) {
      dims.emplace_back(*size);
    } else if (const auto* symbol = item.string()) {
      dims.emplace_back(*symbol);
    } else {
      fields.fail(DiagCode::BadField, what + " holds " + std::string(kind_text(item)) +
                                          ", wanted integers and names of symbols");
      return {};
    }
  }
  return dims;
}

SourceTensor read_json_tensor(JsonErrors& errors, const JsonValue& value,
                              const std::string& pointer, TensorRole role) {
  const RoleText& text = kRoles.at(static_cast<size_t>(role));
  const JsonValue* name = value.object() ? find_member(*value.object(), "name") : nullptr;
  const std::string what =
      std::string(text.name) + (name && name->string() ? " " + in_quotes(*name->string()) : "");
  using Known = std::initializer_list<std::string_view>;
  JsonFields fields(errors, value, pointer, what,
                    text.data_field.empty() ? Known{"name", "dtype", "shape"}
                                            : Known{"name", "dtype", "shape", text.data_field});
  const size_t errors_before = errors.diagnostics.error_count();
  SourceTensor tensor;
  tensor.place = {errors.file, pointer};
  tensor.name = fields.required_text("name");
  tensor.dtype = read_dtype(fields, what);
  tensor.shape = read_json_dims(fields, fields.required_array("shape"), "shape of " + what);
  const JsonValue* data = fields.find(text.data_field);
  if (text.data_field.empty() || data == nullptr) return tensor;
  if (errors.diagnostics.error_count() > errors_before)
    return tensor;  // data needs dtype and shape
  const std::string* word = data->string();
  if (role == TensorRole::State && word && *word == "zeros") return tensor;
  if (role == TensorRole::State && word && *word == "ones") {
    tensor.data = SplatData{1.0};
    return tensor;
  }
  if (role == TensorRole::State && word) {
    fields.fail(DiagCode::BadField, "init of " + what + " is " + in_quotes(*word) +
                                        ", wanted \"zeros\", \"ones\" or an object as in \"data\"");
    return tensor;
  }
  tensor.data = DataReader(errors, *data, pointer + "/" + std::string(text.data_field), tensor,
                           std::string(text.data_field) + " of " + what)
                    .read();
  return tensor;
}

}  // namespace rlx
