// SPDX-License-Identifier: Apache-2.0
// Tensors of ONNX files: raw, typed or external data, all little-endian in memory.
#include "compiler/import/onnx/proto_tensor.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>

#include "compiler/import/names.h"
#include "compiler/import/onnx/refusal.h"
#include "compiler/import/weights.h"
#include "compiler/support/checked.h"
#include "schema/rounding.h"

namespace rlx::onnx_import {
namespace {

struct TypeRow {
  std::string_view name;  // as ONNX writes it
  std::optional<DType> dtype;
};

// By the number of TensorProto.DataType.
constexpr std::array<TypeRow, 29> kTypes = {{{"undefined", {}},
                                             {"float", DType::f32},
                                             {"uint8", DType::u8},
                                             {"int8", DType::i8},
                                             {"uint16", {}},
                                             {"int16", DType::i16},
                                             {"int32", DType::i32},
                                             {"int64", DType::i64},
                                             {"string", {}},
                                             {"bool", DType::bool_},
                                             {"float16", DType::f16},
                                             {"double", DType::f64},
                                             {"uint32", DType::u32},
                                             {"uint64", {}},
                                             {"complex64", DType::c64},
                                             {"complex128", {}},
                                             {"bfloat16", DType::bf16},
                                             {"float8e4m3fn", DType::f8e4m3},
                                             {"float8e4m3fnuz", {}},
                                             {"float8e5m2", DType::f8e5m2},
                                             {"float8e5m2fnuz", {}},
                                             {"uint4", {}},
                                             {"int4", {}},
                                             {"float4e2m1", {}},
                                             {"float8e8m0", {}},
                                             {"uint2", {}},
                                             {"int2", {}},
                                             {"float6e2m3", {}},
                                             {"float6e3m2", {}}}};

constexpr uint64_t kMostSparseBytes = uint64_t{1} << 28;

constexpr std::array kStandIns = {
    StandIn{"uint16", DType::i32, 16, 0, 65535},
    StandIn{"uint4", DType::u8, 4, 0, 15},
    StandIn{"int4", DType::i8, 4, -8, 7},
    StandIn{"uint2", DType::u8, 2, 0, 3},
    StandIn{"int2", DType::i8, 2, -2, 1},
    StandIn{"float4e2m1", DType::f8e4m3, 4},
    StandIn{"float8e8m0", DType::bf16, 8},
    StandIn{.name = "uint64", .dtype = DType::i64, .bits = 64, .is_bits = true},
};

[[noreturn]] void fail(DiagCode code, const std::string& message, std::string hint = {}) {
  throw Refusal{.code = code, .message = message, .hint = std::move(hint)};
}

HostBytes owned(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> view(*owner);
  return {.owner = std::move(owner), .bytes = view};
}

// Elements that stand in a wider field of the message: the low bytes of each.
template <typename Field>
std::vector<std::byte> narrowed(const Field& field, uint32_t bytes_each) {
  std::vector<std::byte> bytes(static_cast<size_t>(field.size()) * bytes_each);
  for (int i = 0; i < field.size(); ++i) {
    const auto value = field.Get(i);
    std::memcpy(bytes.data() + static_cast<size_t>(i) * bytes_each, &value, bytes_each);
  }
  return bytes;
}

std::vector<std::byte> typed_bytes(const onnx::TensorProto& tensor, uint32_t bytes_each) {
  switch (tensor.data_type()) {
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::COMPLEX64:
      return narrowed(tensor.float_data(), 4);
    case onnx::TensorProto::DOUBLE:
      return narrowed(tensor.double_data(), 8);
    case onnx::TensorProto::INT64:
      return narrowed(tensor.int64_data(), 8);
    case onnx::TensorProto::UINT32:
      return narrowed(tensor.uint64_data(), 4);
    case onnx::TensorProto::UINT64:
      return narrowed(tensor.uint64_data(), 8);
    default:
      return narrowed(tensor.int32_data(), bytes_each);
  }
}

// The bits of an element in the type that stands for its own.
uint32_t unpacked(const StandIn& type, uint32_t code) {
  switch (type.dtype) {
    case DType::i8: {  // with its sign
      const uint32_t sign = 1U << (type.bits - 1);
      return (code ^ sign) - sign;
    }
    case DType::f8e4m3: {  // of e2m1: 0, 1/2, 1, 3/2, 2, 3, 4 and 6, then with a sign
      constexpr std::array<uint32_t, 8> kMagnitudes = {0x00, 0x30, 0x38, 0x3C,
                                                       0x40, 0x44, 0x48, 0x4C};
      return kMagnitudes.at(code & 7U) | (code & 8U) << 4;
    }
    case DType::bf16:  // of e8m0: 2^(code - 127), 255 NaN
      return code == 0 ? 0x0040U : (code == 255 ? 0x7FC0U : code << 7);
    default:
      return code;
  }
}

std::vector<std::byte> unpacked(const StandIn& type, std::span<const std::byte> packed,
                                int64_t count) {
  const uint32_t bytes_each = block_bytes(type.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * bytes_each);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const size_t bit = i * type.bits;
    uint32_t code = std::to_integer<uint32_t>(packed[bit / 8]) >> bit % 8;
    if (type.bits > 8) code |= std::to_integer<uint32_t>(packed[bit / 8 + 1]) << 8;
    const uint32_t value = unpacked(type, code & ((1U << type.bits) - 1));
    std::memcpy(bytes.data() + i * bytes_each, &value, bytes_each);
  }
  return bytes;
}

// Bools of 0 and 1: any other byte counts as 1.
HostBytes normalised(const HostBytes& data) {
  const auto is_odd = [](std::byte value) { return value > std::byte{1}; };
  if (std::none_of(data.bytes.begin(), data.bytes.end(), is_odd)) return data;
  std::vector<std::byte> bytes(data.bytes.begin(), data.bytes.end());
  for (std::byte& value : bytes) value = value == std::byte{0} ? value : std::byte{1};
  return owned(std::move(bytes));
}

std::string text_of(const onnx::TensorProto& tensor, std::string_view key,
                    const std::string& what) {
  std::optional<std::string> text;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() != key) continue;
    if (text)
      fail(DiagCode::BadField, what + " has two external entries " + in_quotes(std::string(key)));
    text = entry.value();
  }
  return text.value_or("");
}

// How many of the message's fields hold elements.
int filled_fields(const onnx::TensorProto& tensor) {
  return int{!tensor.raw_data().empty()} + int{tensor.float_data_size() > 0} +
         int{tensor.int32_data_size() > 0} + int{tensor.int64_data_size() > 0} +
         int{tensor.double_data_size() > 0} + int{tensor.uint64_data_size() > 0} +
         int{tensor.string_data_size() > 0};
}

uint64_t number_of(const onnx::TensorProto& tensor, std::string_view key, uint64_t absent,
                   const std::string& what) {
  const std::string text = text_of(tensor, key, what);
  if (text.empty()) return absent;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail(DiagCode::BadField, what + " has the external " + std::string(key) + " " +
                                 in_quotes(text) + ", which is no number");
  return value;
}

template <typename Proto>
TensorType type_of(DType dtype, const Proto& tensor, const std::string& what) {
  TensorType type{dtype, {tensor.dims().begin(), tensor.dims().end()}};
  for (const int64_t dim : type.shape) {
    if (dim < 0) fail(DiagCode::BadShape, what + " has the dim " + std::to_string(dim));
  }
  if (const auto fault = type_fault(type)) fail(DiagCode::Limit, what + " " + *fault);
  return type;
}

// Of i64, as memory of any alignment.
int64_t integer_at(std::span<const std::byte> bytes, size_t i) {
  int64_t value = 0;
  std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
  return value;
}

// The places of a sparse tensor's values in all of its elements, which rise: as they are written,
// or as an index along each axis.
std::vector<size_t> places_of(const ConstantTensor& indices, const Shape& shape, int64_t count,
                              const std::string& what) {
  const auto rank = static_cast<int64_t>(shape.size());
  const bool is_flat = indices.type.shape == Shape{count};
  if (indices.type.dtype != DType::i64 || (!is_flat && indices.type.shape != Shape{count, rank}))
    fail(DiagCode::BadShape, what + " has " + std::to_string(count) + " values and indices of " +
                                 to_string(indices.type) + ", wanted i64" +
                                 to_string(Shape{count}) + " or i64" +
                                 to_string(Shape{count, rank}));
  const Shape sizes = is_flat ? Shape{element_count(shape)} : shape;
  std::vector<size_t> places;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    size_t place = 0;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      const int64_t index = integer_at(indices.data.bytes, i * sizes.size() + axis);
      const int64_t size = sizes[axis];
      if (index < 0 || index >= size)
        fail(DiagCode::BadField, what + " has the index " + std::to_string(index) + " along " +
                                     std::to_string(size) + " elements");
      place = place * static_cast<size_t>(size) + static_cast<size_t>(index);
    }
    if (!places.empty() && place <= places.back())
      fail(DiagCode::BadField, what + " has indices that do not rise");
    places.push_back(place);
  }
  return places;
}

}  // namespace

const StandIn* stand_in_of(int64_t onnx_type) {
  const std::string name = onnx_type_name(onnx_type);
  const auto found = std::find_if(kStandIns.begin(), kStandIns.end(),
                                  [&](const StandIn& row) { return row.name == name; });
  return found == kStandIns.end() ? nullptr : &*found;
}

std::string onnx_type_name(int64_t onnx_type) {
  if (onnx_type < 0 || onnx_type >= static_cast<int64_t>(kTypes.size()))
    return "number " + std::to_string(onnx_type);
  return std::string(kTypes.at(static_cast<size_t>(onnx_type)).name);
}

std::optional<DType> find_dtype(int64_t onnx_type) {
  const bool is_known = onnx_type >= 0 && onnx_type < static_cast<int64_t>(kTypes.size());
  return is_known ? kTypes.at(static_cast<size_t>(onnx_type)).dtype : std::nullopt;
}

DType dtype_of(int64_t onnx_type, const std::string& what) {
  if (const std::optional<DType> dtype = find_dtype(onnx_type)) return *dtype;
  fail(DiagCode::UnknownDtype,
       what + " has the element type " + onnx_type_name(onnx_type) + ", which rlx does not have",
       "rlx has float, float16, bfloat16, double, float8e4m3fn, float8e5m2, int8, uint8, int16, "
       "int32, uint32, int64 and bool, and in constants uint16, int4, uint4, int2, uint2, "
       "float4e2m1 and float8e8m0");
}

HostBytes TensorDecoder::external(const onnx::TensorProto& tensor, uint64_t size_bytes,
                                  const std::string& what) {
  const std::string path = text_of(tensor, "location", what);
  const uint64_t offset = number_of(tensor, "offset", 0, what);
  const uint64_t length = number_of(tensor, "length", size_bytes, what);
  auto found = files_.find(path);
  if (found == files_.end()) {
    FileResult file = folder_.map(path);
    if (const auto* fault = std::get_if<FileFault>(&file))
      fail(fault->code, what + ": the file " + in_quotes(path) + " of its data " + fault->message);
    found = files_.emplace(path, std::get<std::shared_ptr<const MappedFile>>(file)).first;
  }
  const std::span<const std::byte> bytes = found->second->bytes();
  if (length != size_bytes || !range_fits(offset, length, bytes.size())) {
    fail(DiagCode::FileSize, what + " needs " + std::to_string(size_bytes) + " bytes at " +
                                 std::to_string(offset) + " of " + in_quotes(path) +
                                 "; the model says " + std::to_string(length) +
                                 " and the file has " + std::to_string(bytes.size()));
  }
  return {.owner = found->second, .bytes = bytes.subspan(offset, length)};
}

ConstantTensor TensorDecoder::decode(const onnx::TensorProto& tensor,
                                     const std::shared_ptr<const void>& owner,
                                     const std::string& what) {
  const StandIn* stand_in = stand_in_of(tensor.data_type());
  ConstantTensor result;
  result.stand_in = stand_in;
  result.type = type_of(stand_in != nullptr ? stand_in->dtype : dtype_of(tensor.data_type(), what),
                        tensor, what);
  if (tensor.has_segment()) fail(DiagCode::BadField, what + " is a segment of a tensor");
  const bool is_external = tensor.data_location() == onnx::TensorProto::EXTERNAL;
  if (filled_fields(tensor) + int{is_external} > 1)
    fail(DiagCode::BadField, what + " has data in more than one place");
  const int64_t count = element_count(result.type.shape);
  const uint64_t size_bytes =
      stand_in != nullptr ? ceil_div(static_cast<uint64_t>(count) * stand_in->bits, uint64_t{8})
                          : static_cast<uint64_t>(byte_size(result.type));
  if (is_external) {
    result.data = external(tensor, size_bytes, what);
  } else if (!tensor.raw_data().empty()) {
    result.data = {.owner = owner, .bytes = std::as_bytes(std::span(tensor.raw_data()))};
  } else {
    const uint32_t packed_bytes = stand_in != nullptr && stand_in->bits > 8 ? 2 : 1;
    result.data = owned(
        typed_bytes(tensor, stand_in != nullptr ? packed_bytes : block_bytes(result.type.dtype)));
  }
  if (result.data.bytes.size() != size_bytes) {
    fail(DiagCode::FileSize, what + " of type " + to_string(result.type) + " needs " +
                                 std::to_string(size_bytes) + " bytes and has " +
                                 std::to_string(result.data.bytes.size()));
  }
  if (result.type.dtype == DType::bool_) result.data = normalised(result.data);
  if (stand_in != nullptr && !stand_in->is_bits)
    result.data = owned(unpacked(*stand_in, result.data.bytes, count));
  return result;
}

ConstantTensor TensorDecoder::decode(const onnx::SparseTensorProto& tensor,
                                     const std::shared_ptr<const void>& owner,
                                     const std::string& what) {
  const ConstantTensor values = decode(tensor.values(), owner, "the values of " + what);
  if (values.type.shape.size() != 1)
    fail(DiagCode::BadShape, what + " has values of " + to_string(values.type) + ", wanted rank 1");
  ConstantTensor result;
  result.stand_in = values.stand_in;
  result.type = type_of(values.type.dtype, tensor, what);
  if (values.stand_in != nullptr && values.stand_in->name == "float8e8m0")
    fail(DiagCode::UnknownDtype, what + " is sparse, of float8e8m0, which has no zero");
  std::vector<size_t> places;
  if (tensor.has_indices() || values.type.shape[0] != 0)
    places = places_of(decode(tensor.indices(), owner, "the indices of " + what), result.type.shape,
                       values.type.shape[0], what);
  const auto size_bytes = static_cast<uint64_t>(byte_size(result.type));
  if (size_bytes > kMostSparseBytes - sparse_bytes_)
    fail(DiagCode::Limit,
         what + " of type " + to_string(result.type) + " has " + std::to_string(size_bytes) +
             " bytes with its zeros; a model's sparse tensors may have " +
             std::to_string(kMostSparseBytes) + ", and others have " +
             std::to_string(sparse_bytes_),
         "store it as a dense tensor");
  sparse_bytes_ += size_bytes;
  std::vector<std::byte> bytes(size_bytes);
  const size_t bytes_each = block_bytes(result.type.dtype);
  for (size_t i = 0; i < places.size(); ++i)
    std::memcpy(bytes.data() + places[i] * bytes_each, values.data.bytes.data() + i * bytes_each,
                bytes_each);
  result.data = owned(std::move(bytes));
  return result;
}

}  // namespace rlx::onnx_import
