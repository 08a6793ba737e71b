// SPDX-License-Identifier: Apache-2.0
// GGUF: magic, version, counts of tensors and keys, the keys, what each tensor is, padding, data.
#include "compiler/import/gguf/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <unordered_set>
#include <utility>

#include "compiler/import/gguf/tensor_types.h"
#include "compiler/import/names.h"
#include "compiler/import/source_graph.h"
#include "compiler/support/checked.h"

namespace rlx::gguf {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kLeastKeyBytes = 8 + 1 + 4 + 1;         // length, name, type, value
constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 4 + 8;  // length, name, rank, type, offset
constexpr std::string_view kAlignmentKey = "general.alignment";

static_assert(std::endian::native == std::endian::little, "values are read as they stand");

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Bytes of one item; 0 of those whose size differs from item to item.
constexpr std::array<uint32_t, 13> kValueBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr std::array<std::string_view, 13> kValueNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

uint32_t bytes_of(ValueType type) {
  return kValueBytes.at(static_cast<size_t>(type));
}

Value unsigned_value(uint64_t value) {
  if (std::in_range<int64_t>(value)) return static_cast<int64_t>(value);
  return value;
}

// A number or bool at `from`.
Value scalar_value(ValueType type, const std::byte* from) {
  switch (type) {
    case ValueType::U8:
      return int64_t{load<uint8_t>(from)};
    case ValueType::I8:
      return int64_t{load<int8_t>(from)};
    case ValueType::U16:
      return int64_t{load<uint16_t>(from)};
    case ValueType::I16:
      return int64_t{load<int16_t>(from)};
    case ValueType::U32:
      return int64_t{load<uint32_t>(from)};
    case ValueType::I32:
      return int64_t{load<int32_t>(from)};
    case ValueType::I64:
      return load<int64_t>(from);
    case ValueType::U64:
      return unsigned_value(load<uint64_t>(from));
    case ValueType::F32:
      return double{load<float>(from)};
    case ValueType::F64:
      return load<double>(from);
    default:
      return load<uint8_t>(from) != 0;
  }
}

// A fault found on the way; caught where the file's reading began.
struct Stop {
  ParseFault fault;
};

[[noreturn]] void stop(std::string message, DiagCode code = DiagCode::FileFormat) {
  throw Stop{{code, std::move(message)}};
}

std::string at_byte(uint64_t position) {
  return " at byte " + std::to_string(position);
}

// The part of the file in front of the tensors' bytes, from front to back.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] uint64_t position() const { return position_; }
  [[nodiscard]] uint64_t left() const { return bytes_.size() - position_; }
  // The bytes from here to where `end`, a later place in the same file, is.
  [[nodiscard]] std::span<const std::byte> until(const Cursor& end) const {
    return bytes_.subspan(position_, end.position_ - position_);
  }

  std::span<const std::byte> take(uint64_t count, std::string_view what) {
    if (count > left()) {
      stop("wants " + std::to_string(count) + " bytes for " + std::string(what) +
               at_byte(position_) + ", " + std::to_string(left()) + " are left",
           DiagCode::FileSize);
    }
    const auto taken = bytes_.subspan(position_, count);
    position_ += count;
    return taken;
  }

  template <typename T>
  T number(std::string_view what) {
    return load<T>(take(sizeof(T), what).data());
  }

  std::string_view text(std::string_view what) {
    const auto length = number<uint64_t>(what);
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

ValueType read_value_type(Cursor& cursor, const std::string& what) {
  const uint64_t position = cursor.position();
  const auto number = cursor.number<uint32_t>(what);
  if (number < kValueBytes.size()) return static_cast<ValueType>(number);
  stop("has " + what + " of type " + std::to_string(number) + at_byte(position) +
       ", GGUF has types 0 to 12");
}

Array read_array(Cursor& cursor, const std::string& what) {
  Array array{.type = read_value_type(cursor, "items of " + what), .count = 0, .bytes = {}};
  if (array.type == ValueType::Array)
    stop("has " + what + ", an array of arrays" + at_byte(cursor.position()) +
         ", which GGUF lacks");
  array.count = cursor.number<uint64_t>(what);
  const uint64_t least = array.type == ValueType::String ? 8 : bytes_of(array.type);
  if (array.count > cursor.left() / least) {
    stop("has " + what + ", an array of " + std::to_string(array.count) + " items" +
             at_byte(cursor.position()) + ", where " + std::to_string(cursor.left()) +
             " bytes are left",
         DiagCode::FileSize);
  }
  if (array.type != ValueType::String) {
    array.bytes = cursor.take(array.count * least, what);
    return array;
  }
  Cursor items = cursor;
  for (uint64_t i = 0; i < array.count; ++i) items.text("an item of " + what);
  array.bytes = cursor.take(items.position() - cursor.position(), what);
  return array;
}

Value read_value(Cursor& cursor, const std::string& what) {
  const ValueType type = read_value_type(cursor, what);
  if (type == ValueType::String) return cursor.text(what);
  if (type == ValueType::Array) return read_array(cursor, what);
  return scalar_value(type, cursor.take(bytes_of(type), what).data());
}

// A count that the bytes behind it can hold.
uint64_t read_count(Cursor& cursor, std::string_view what) {
  return cursor.number<uint64_t>(what);
}

void check_count(const Cursor& cursor, uint64_t count, uint64_t least_bytes,
                 const std::string& what) {
  if (count <= cursor.left() / least_bytes) return;
  stop("says that it has " + std::to_string(count) + " " + what + ", its " +
           std::to_string(cursor.left()) + " bytes can hold " +
           std::to_string(cursor.left() / least_bytes),
       DiagCode::FileSize);
}

void read_keys(Cursor& cursor, uint64_t count, File& file) {
  for (uint64_t i = 0; i < count; ++i) {
    const Cursor begin = cursor;
    const std::string_view key = cursor.text("the name of key " + std::to_string(i));
    if (const auto fault = name_fault(key)) stop("has a key whose name " + *fault, DiagCode::Limit);
    const Value value = read_value(cursor, "key " + in_quotes(key));
    if (!file.keys.emplace(key, value).second)
      stop("has key " + in_quotes(key) + " twice", DiagCode::DuplicateName);
    file.key_records.push_back({key, begin.until(cursor)});
  }
}

uint64_t alignment_of(const File& file) {
  const auto found = file.keys.find(kAlignmentKey);
  if (found == file.keys.end()) return kDefaultAlignment;
  const auto* alignment = std::get_if<int64_t>(&found->second);
  if (alignment != nullptr && *alignment > 0 && std::has_single_bit(uint64_t(*alignment)))
    return static_cast<uint64_t>(*alignment);
  stop("has " + in_quotes(kAlignmentKey) + " " +
       (alignment ? std::to_string(*alignment) : kind_text(found->second)) +
       ", wanted a power of two");
}

// A tensor before its type and its place were looked at.
struct TensorRecord {
  std::string_view name;
  std::vector<int64_t> shape;
  uint32_t type = 0;
  uint64_t offset = 0;  // from the first byte of data
};

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t dim : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

std::vector<int64_t> read_shape(Cursor& cursor, const std::string& what) {
  const auto rank = cursor.number<uint32_t>(what);
  if (rank == 0 || rank > kMaxDims)
    stop("has " + what + " of rank " + std::to_string(rank) + ", wanted 1 to 4", DiagCode::Limit);
  std::vector<int64_t> shape(rank);
  for (uint32_t i = 0; i < rank; ++i) {
    const auto dim = cursor.number<int64_t>(what);
    if (dim < 1 || dim > kMaxDim) {
      stop("has " + what + " with dim " + std::to_string(dim) + ", wanted 1 to 2^40 - 1",
           DiagCode::Limit);
    }
    shape[rank - 1 - i] = dim;
  }
  return shape;
}

TensorRecord read_tensor_record(Cursor& cursor, uint64_t index) {
  TensorRecord record;
  record.name = cursor.text("the name of tensor " + std::to_string(index));
  if (const auto fault = name_fault(record.name))
    stop("has a tensor whose name " + *fault, DiagCode::Limit);
  const std::string what = "tensor " + in_quotes(record.name);
  record.shape = read_shape(cursor, what);
  record.type = cursor.number<uint32_t>(what);
  record.offset = cursor.number<uint64_t>(what);
  return record;
}

std::vector<TensorRecord> read_tensor_records(Cursor& cursor, uint64_t count) {
  std::vector<TensorRecord> records;
  std::unordered_set<std::string_view> names;
  for (uint64_t i = 0; i < count; ++i) {
    records.push_back(read_tensor_record(cursor, i));
    if (!names.insert(records.back().name).second)
      stop("has tensor " + in_quotes(records.back().name) + " twice", DiagCode::DuplicateName);
  }
  return records;
}

// All types that rlx lacks, each with its tensors' number and the first one's name.
void check_types(const std::vector<TensorRecord>& records) {
  struct Lacking {
    uint64_t count = 0;
    std::string_view first;
  };
  std::map<uint32_t, Lacking> lacking;
  for (const TensorRecord& record : records) {
    if (find_dtype(record.type)) continue;
    Lacking& entry = lacking[record.type];
    if (entry.count++ == 0) entry.first = record.name;
  }
  if (lacking.empty()) return;
  std::string list;
  for (const auto& [type, entry] : lacking) {
    list += (list.empty() ? "" : ", ") + type_name(type) + " (" + std::to_string(entry.count) +
            (entry.count == 1 ? " tensor, " : " tensors, the first ") + in_quotes(entry.first) +
            ")";
  }
  stop("has tensors of types that rlx does not have: " + list, DiagCode::UnknownDtype);
}

uint64_t tensor_bytes(const TensorRecord& record, DType dtype) {
  const std::string what = "has tensor " + in_quotes(record.name) + ", " +
                           std::string(rlx::name_of(dtype)) + text_of(record.shape);
  if (record.shape.back() % block_elements(dtype) != 0) {
    stop(what + ", whose rows are not whole blocks of " + std::to_string(block_elements(dtype)) +
             " elements",
         DiagCode::BadShape);
  }
  uint64_t bytes = block_bytes(dtype);
  for (size_t i = 0; i < record.shape.size(); ++i) {
    const bool is_row = i + 1 == record.shape.size();
    const auto count =
        static_cast<uint64_t>(record.shape[i]) / (is_row ? block_elements(dtype) : 1);
    const auto product = checked_mul(bytes, count);
    if (!product || *product > kMaxTensorBytes)
      stop(what + ", more than 2^48 bytes", DiagCode::Limit);
    bytes = *product;
  }
  return bytes;
}

Tensor place_tensor(const TensorRecord& record, std::span<const std::byte> file,
                    uint64_t data_start, uint64_t alignment) {
  const DType dtype = *find_dtype(record.type);
  const uint64_t bytes = tensor_bytes(record, dtype);
  const uint64_t data_bytes = file.size() - data_start;
  if (record.offset % alignment != 0) {
    stop("has tensor " + in_quotes(record.name) + " at offset " + std::to_string(record.offset) +
         ", wanted a multiple of the alignment " + std::to_string(alignment));
  }
  if (!range_fits(record.offset, bytes, data_bytes)) {
    stop("has tensor " + in_quotes(record.name) + " of " + std::to_string(bytes) +
             " bytes at offset " + std::to_string(record.offset) + " of its data, which has " +
             std::to_string(data_bytes),
         DiagCode::FileSize);
  }
  const uint64_t offset = data_start + record.offset;
  return {.name = std::string(record.name),
          .dtype = dtype,
          .shape = record.shape,
          .offset_bytes = offset,
          .bytes = file.subspan(offset, bytes)};
}

void check_overlap(const std::vector<Tensor>& tensors) {
  std::vector<const Tensor*> placed;
  placed.reserve(tensors.size());
  for (const Tensor& tensor : tensors) placed.push_back(&tensor);
  std::sort(placed.begin(), placed.end(),
            [](const Tensor* a, const Tensor* b) { return a->offset_bytes < b->offset_bytes; });
  for (size_t i = 1; i < placed.size(); ++i) {
    const Tensor& before = *placed[i - 1];
    if (before.offset_bytes + before.bytes.size() <= placed[i]->offset_bytes) continue;
    stop("has tensors " + in_quotes(before.name) + " and " + in_quotes(placed[i]->name) +
         " on the same bytes");
  }
}

uint32_t read_version(Cursor& cursor) {
  cursor.take(kMagic.size(), "its magic");
  const auto version = cursor.number<uint32_t>("its version");
  if (version == 2 || version == 3) return version;
  const bool is_swapped = version != 0 && (version & 0xFFFF) == 0;
  stop(is_swapped ? "is a big-endian GGUF file; little-endian ones are read"
                  : "is GGUF of version " + std::to_string(version) + "; versions 2 and 3 are read",
       DiagCode::UnsupportedVersion);
}

File read_file(std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  File file;
  file.version = read_version(cursor);
  const uint64_t tensor_count = read_count(cursor, "its count of tensors");
  const uint64_t key_count = read_count(cursor, "its count of keys");
  check_count(cursor, tensor_count, kLeastTensorBytes, "tensors");
  check_count(cursor, key_count, kLeastKeyBytes, "keys");
  if (tensor_count > kMaxNodes)
    stop("has " + std::to_string(tensor_count) + " tensors, at most 2^20 are read",
         DiagCode::Limit);
  read_keys(cursor, key_count, file);
  const std::vector<TensorRecord> records = read_tensor_records(cursor, tensor_count);
  check_types(records);
  file.alignment = alignment_of(file);
  const uint64_t padding = (file.alignment - cursor.position() % file.alignment) % file.alignment;
  if (!records.empty()) cursor.take(padding, "padding in front of its data");
  for (const TensorRecord& record : records)
    file.tensors.push_back(place_tensor(record, bytes, cursor.position(), file.alignment));
  check_overlap(file.tensors);
  return file;
}

}  // namespace

std::string kind_text(const Value& value) {
  if (const auto* array = std::get_if<Array>(&value))
    return "an array of " + std::string(kValueNames.at(static_cast<size_t>(array->type)));
  if (std::holds_alternative<std::string_view>(value)) return "a string";
  if (std::holds_alternative<bool>(value)) return "a bool";
  return std::holds_alternative<double>(value) ? "a real" : "an integer";
}

std::optional<std::vector<Value>> numbers_of(const Array& array) {
  if (array.type == ValueType::String) return std::nullopt;
  std::vector<Value> values;
  for (size_t at = 0; at < array.bytes.size(); at += bytes_of(array.type))
    values.push_back(scalar_value(array.type, array.bytes.data() + at));
  return values;
}

std::optional<std::string_view> Strings::next() {
  if (bytes_.empty()) return std::nullopt;
  const auto length = load<uint64_t>(bytes_.data());
  const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + sizeof(uint64_t),
                              length);
  bytes_ = bytes_.subspan(sizeof(uint64_t) + length);
  return text;
}

bool has_magic(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() &&
         std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

std::variant<File, ParseFault> parse(std::span<const std::byte> bytes) {
  try {
    return read_file(bytes);
  } catch (const Stop& fault) {
    return fault.fault;
  }
}

}  // namespace rlx::gguf
