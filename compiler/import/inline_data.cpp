// SPDX-License-Identifier: Apache-2.0
// Inline tensor data of the JSON form.
#include "compiler/import/inline_data.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/support/check.h"
#include "compiler/support/shape.h"

namespace rlx {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::array<int8_t, 256> alphabet_values() {
  std::array<int8_t, 256> values;
  values.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    values[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int8_t>(i);
  }
  return values;
}

template <typename T>
void append_bytes(std::vector<std::byte>& out, T value) {
  const size_t start = out.size();
  out.resize(start + sizeof(T));
  std::memcpy(out.data() + start, &value, sizeof(T));
}

template <typename T>
T load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// The type that one list item stands for: a c64 element is two f32 items.
DType item_dtype(DType dtype) {
  return dtype == DType::c64 ? DType::f32 : dtype;
}

std::string item_text(const JsonValue& value) {
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag ? "true" : "false";
  if (const auto* integer = value.integer()) return std::to_string(*integer);
  if (const auto* large = std::get_if<uint64_t>(&value.data)) return std::to_string(*large);
  if (const auto* real = std::get_if<double>(&value.data)) return real_text(*real);
  return std::string(kind_text(value));
}

// Encodes one item; a fault is the end of a sentence "value 3 ...".
std::optional<std::string> append_float(std::vector<std::byte>& out, DType dtype,
                                        const JsonValue& item) {
  std::optional<double> value = real_from_json(item);
  if (const auto* integer = item.integer()) value = static_cast<double>(*integer);
  if (const auto* large = std::get_if<uint64_t>(&item.data)) value = static_cast<double>(*large);
  if (!value) {
    return "is " + item_text(item) + ", wanted a number, \"nan\", \"inf\" or \"-inf\"";
  }
  if (std::isfinite(*value) && !std::isfinite(round_to(dtype, *value))) {
    return "(" + item_text(item) + ") does not fit " + std::string(name_of(dtype));
  }
  switch (dtype) {
    case DType::f64:
      append_bytes(out, *value);
      break;
    case DType::f32:
      append_bytes(out, static_cast<float>(*value));
      break;
    case DType::f16:
      append_bytes(out, f16_from_double(*value));
      break;
    default:
      append_bytes(out, bf16_from_double(*value));
      break;
  }
  return std::nullopt;
}

std::optional<std::string> append_integer(std::vector<std::byte>& out, DType dtype,
                                          const JsonValue& item) {
  const auto* flag = std::get_if<bool>(&item.data);
  const bool is_flag = dtype == DType::bool_ && flag != nullptr;
  const bool is_large = std::holds_alternative<uint64_t>(item.data);
  if (!is_flag && !is_large && item.integer() == nullptr) {
    return "is " + item_text(item) + ", wanted " +
           (dtype == DType::bool_ ? "true, false, 0 or 1" : "an integer");
  }
  const int64_t value = is_flag ? (*flag ? 1 : 0) : is_large ? 0 : *item.integer();
  const IntegerRange range = integer_range(dtype);
  if (is_large || value < range.lowest || value > range.highest) {
    return "(" + item_text(item) + ") does not fit " + std::string(name_of(dtype));
  }
  const size_t start = out.size();
  out.resize(start + element_bytes(dtype));
  std::memcpy(out.data() + start, &value, element_bytes(dtype));  // little-endian host
  return std::nullopt;
}

class ValueEncoder {
 public:
  ValueEncoder(DType dtype, const SourceDims& shape) : dtype_(dtype), dims_(shape) {
    if (dtype == DType::c64) dims_.push_back(int64_t{2});
  }

  // True where encoding went well; otherwise `fault` says what is wrong.
  bool flat(const JsonArray& values) {
    bytes.reserve(values.size() * element_bytes(item_dtype(dtype_)));
    for (const JsonValue& value : values) {
      if (!item(value)) return false;
    }
    return true;
  }
  bool nested(const JsonArray& values, size_t level) {
    if (level == dims_.size()) return fail("values are nested deeper than the shape");
    const auto* wanted = std::get_if<int64_t>(&dims_[level]);
    if (wanted && static_cast<uint64_t>(*wanted) != values.size()) {
      return fail("a list of values at depth " + std::to_string(level) + " has " +
                  std::to_string(values.size()) + " items, the shape wants " +
                  std::to_string(*wanted));
    }
    if (level + 1 == dims_.size()) return flat(values);
    for (const JsonValue& value : values) {
      const JsonArray* inner = value.array();
      if (inner == nullptr) {
        return fail("values at depth " + std::to_string(level + 1) + " hold " + item_text(value) +
                    ", wanted an array: nest them as the shape is, or not at all");
      }
      if (!nested(*inner, level + 1)) return false;
    }
    return true;
  }

  std::vector<std::byte> bytes;
  std::string fault;

 private:
  bool fail(std::string message) {
    fault = std::move(message);
    return false;
  }
  bool item(const JsonValue& value) {
    const DType dtype = item_dtype(dtype_);
    const std::optional<std::string> wrong =
        is_float(dtype) ? append_float(bytes, dtype, value) : append_integer(bytes, dtype, value);
    if (wrong) return fail("value " + std::to_string(count_) + " " + *wrong);
    ++count_;
    return true;
  }

  DType dtype_;
  SourceDims dims_;
  size_t count_ = 0;
};

std::string shortest(float value) {
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string shortest(double value) {
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string with_point(std::string text) {
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

template <typename T>
std::string float_json(T value) {
  return std::isfinite(value) ? with_point(shortest(value)) : any_real_json(value);
}

std::string element_text(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::f32:
      return float_json(load<float>(bytes));
    case DType::f16:
      return float_json(static_cast<float>(double_from_f16(load<uint16_t>(bytes))));
    case DType::bf16:
      return float_json(static_cast<float>(double_from_bf16(load<uint16_t>(bytes))));
    case DType::f64:
      return float_json(load<double>(bytes));
    case DType::i8:
      return std::to_string(load<int8_t>(bytes));
    case DType::u8:
      return std::to_string(load<uint8_t>(bytes));
    case DType::i16:
      return std::to_string(load<int16_t>(bytes));
    case DType::i32:
      return std::to_string(load<int32_t>(bytes));
    case DType::u32:
      return std::to_string(load<uint32_t>(bytes));
    case DType::i64:
      return std::to_string(load<int64_t>(bytes));
    case DType::bool_:
      return load<uint8_t>(bytes) != 0 ? "true" : "false";
    default:
      RLX_CHECK(false, "text of a " + std::string(name_of(dtype)) + " element");
  }
}

}  // namespace

InlineBytes decode_base64(std::string_view text) {
  static const std::array<int8_t, 256> kValues = alphabet_values();
  if (text.size() % 4 != 0) {
    return "base64 text has " + std::to_string(text.size()) + " characters, not a multiple of 4";
  }
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool is_last = i + 4 == text.size();
    const size_t padding = !is_last ? 0 : text[i + 3] != '=' ? 0 : text[i + 2] != '=' ? 1 : 2;
    uint32_t bits = 0;
    for (size_t j = 0; j < 4; ++j) {
      const int8_t value =
          j >= 4 - padding ? int8_t{0} : kValues[static_cast<uint8_t>(text[i + j])];
      if (value < 0) return "base64 text has a wrong character at " + std::to_string(i + j);
      bits = bits << 6 | static_cast<uint32_t>(value);
    }
    if ((bits & ((1u << (8 * padding)) - 1)) != 0)
      return "base64 text ends in unused bits that are not zero";
    for (size_t j = 0; j < 3 - padding; ++j) {
      bytes.push_back(static_cast<std::byte>(bits >> (16 - 8 * j) & 255));
    }
  }
  return bytes;
}

std::string encode_base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (j < count ? static_cast<uint32_t>(bytes[i + j]) : 0);
    }
    for (size_t j = 0; j < 4; ++j) {
      text += j <= count ? kAlphabet[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

InlineBytes encode_values(const JsonArray& values, DType dtype, const SourceDims& shape) {
  if (kind_of(dtype) == DTypeKind::Storage) {
    return "dtype " + std::string(name_of(dtype)) +
           " has no list of values: give its bytes as base64 or in a file";
  }
  ValueEncoder encoder(dtype, shape);
  const bool is_nested = !values.empty() && values.front().array() != nullptr;
  const bool good = is_nested ? encoder.nested(values, 0) : encoder.flat(values);
  if (!good) return encoder.fault;
  return std::move(encoder.bytes);
}

std::optional<std::string> values_text(DType dtype, std::span<const std::byte> bytes) {
  if (kind_of(dtype) == DTypeKind::Storage) return std::nullopt;
  const DType item = item_dtype(dtype);
  const size_t size = element_bytes(item);
  if (bytes.size() % size != 0) return std::nullopt;
  std::string text = "[";
  for (size_t i = 0; i < bytes.size(); i += size) {
    if (i > 0) text += ", ";
    text += element_text(item, bytes.subspan(i, size));
  }
  text += "]";
  Diagnostics ignored;
  const std::optional<JsonValue> read = parse_json(text, {}, ignored);
  RLX_CHECK(read && read->array(), "reading back " + text.substr(0, 80));
  const InlineBytes again = encode_values(*read->array(), dtype, {});
  const auto* same = std::get_if<std::vector<std::byte>>(&again);
  if (same == nullptr || same->size() != bytes.size() ||
      (!bytes.empty() && std::memcmp(same->data(), bytes.data(), bytes.size()) != 0)) {
    return std::nullopt;
  }
  return text;
}

std::string real_text(double value) {
  return with_point(shortest(value));
}

std::string any_real_json(double value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  return real_text(value);
}

std::optional<double> real_from_json(const JsonValue& value) {
  if (const auto* real = std::get_if<double>(&value.data)) return *real;
  if (const auto* integer = value.integer()) {
    constexpr int64_t kExact = int64_t{1} << 53;
    if (*integer < -kExact || *integer > kExact) return std::nullopt;
    return static_cast<double>(*integer);
  }
  const std::string* text = value.string();
  if (text == nullptr) return std::nullopt;
  if (*text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (*text == "inf") return std::numeric_limits<double>::infinity();
  if (*text == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

}  // namespace rlx
