// SPDX-License-Identifier: Apache-2.0
// NumPy .npy files (format: numpy.lib.format of NumPy 2). The header is a Python dict literal;
// exactly its three keys with values of their types are accepted.
#include "compiler/import/npy.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "compiler/import/names.h"
#include "compiler/import/source_graph.h"
#include "compiler/support/checked.h"

namespace rlx {
namespace {

constexpr size_t kMaxHeaderBytes = 10'000;  // NumPy's own limit for untrusted files
constexpr std::string_view kMagic = "\x93NUMPY";

struct NpyDType {
  std::string_view code;  // without the byte order
  DType dtype;
  uint32_t swap_bytes;  // unit that byte order swaps; 1: order has no meaning
};
constexpr std::array<NpyDType, 12> kDTypes = {{{"f2", DType::f16, 2},
                                               {"f4", DType::f32, 4},
                                               {"f8", DType::f64, 8},
                                               {"i1", DType::i8, 1},
                                               {"u1", DType::u8, 1},
                                               {"i2", DType::i16, 2},
                                               {"i4", DType::i32, 4},
                                               {"u4", DType::u32, 4},
                                               {"i8", DType::i64, 8},
                                               {"b1", DType::bool_, 1},
                                               {"c8", DType::c64, 4},
                                               {"?", DType::bool_, 1}}};

const NpyDType* find_code(std::string_view code) {
  for (const NpyDType& row : kDTypes) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<uint64_t>> shape;
};

// Reads the dict literal; every step returns false where the text is something else.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  // The header, or what is wrong with it.
  std::variant<Header, std::string> parse() {
    if (!dict())
      return (message_.empty() ? "is not the dict that NumPy writes" : message_) + " at byte " +
             std::to_string(position_) + " of the header";
    if (!header_.descr || !header_.fortran_order || !header_.shape) {
      return std::string("lacks one of the keys 'descr', 'fortran_order', 'shape'");
    }
    return std::move(header_);
  }

 private:
  bool fail(std::string message) {
    message_ = std::move(message);
    return false;
  }
  char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  void skip_space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\t') ++position_;
  }
  bool accept(char c) {
    skip_space();
    if (peek() != c) return false;
    ++position_;
    return true;
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }

  bool dict() {
    if (!accept('{')) return false;
    while (!accept('}')) {
      if (!entry()) return false;
      if (accept(',')) continue;
      if (!accept('}')) return false;
      break;
    }
    skip_space();
    return position_ == text_.size() || fail("has text after its dict");
  }
  bool entry() {
    const std::optional<std::string> key = quoted_text();
    if (!key || !accept(':')) return false;
    if (*key == "descr" && !header_.descr) return descr();
    if (*key == "fortran_order" && !header_.fortran_order) return fortran_order();
    if (*key == "shape" && !header_.shape) return shape();
    return fail("has an unknown or repeated key " + in_quotes(*key));
  }
  std::optional<std::string> quoted_text() {
    skip_space();
    const char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inside = text_.substr(position_ + 1, end - position_ - 1);
    if (inside.find('\\') != std::string_view::npos)
      return std::nullopt;  // NumPy writes no escapes
    position_ = end + 1;
    return std::string(inside);
  }
  bool descr() {
    skip_space();
    if (peek() == '[' || peek() == '(')
      return fail("has a structured dtype, wanted one element type");
    header_.descr = quoted_text();
    return header_.descr.has_value();
  }
  bool fortran_order() {
    if (accept_word("True")) {
      header_.fortran_order = true;
    } else if (accept_word("False")) {
      header_.fortran_order = false;
    }
    return header_.fortran_order.has_value();
  }
  bool shape() {
    if (!accept('(')) return false;
    std::vector<uint64_t> dims;
    bool has_comma = false;
    while (!accept(')')) {
      if (!dims.empty() && !has_comma) return false;
      const std::optional<uint64_t> dim = integer();
      if (!dim) return false;
      dims.push_back(*dim);
      has_comma = accept(',');
    }
    if (dims.size() == 1 && !has_comma) return false;  // "(3)" is a number
    header_.shape = std::move(dims);
    return true;
  }
  std::optional<uint64_t> integer() {
    skip_space();
    uint64_t value = 0;
    const size_t start = position_;
    while (peek() >= '0' && peek() <= '9') {
      const auto scaled = checked_mul(value, 10);
      const auto sum = scaled ? checked_add(*scaled, static_cast<uint64_t>(peek() - '0')) : scaled;
      if (!sum) return std::nullopt;
      value = *sum;
      ++position_;
    }
    if (position_ == start) return std::nullopt;
    return value;
  }

  std::string_view text_;
  size_t position_ = 0;
  std::string message_;
  Header header_;
};

uint64_t read_little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes[i]);
  return value;
}

ParseFault format_fault(std::string message) {
  return {DiagCode::FileFormat, std::move(message)};
}

struct HeaderPlace {
  std::string_view text;
  size_t payload_offset_bytes = 0;
};

std::variant<HeaderPlace, ParseFault> find_header(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.substr(0, kMagic.size()) != kMagic)
    return format_fault("is not a .npy file: its first bytes are not \"\\x93NUMPY\"");
  if (file.size() < 10) return ParseFault{DiagCode::FileSize, "ends inside its header"};
  const auto major = static_cast<uint32_t>(file[6]);
  const auto minor = static_cast<uint32_t>(file[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return format_fault("has .npy version " + std::to_string(major) + "." + std::to_string(minor) +
                        ", wanted 1.0, 2.0 or 3.0");
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t start = 8 + length_bytes;
  if (file.size() < start) return ParseFault{DiagCode::FileSize, "ends inside its header"};
  const uint64_t length = read_little_endian(file.subspan(8, length_bytes));
  if (length > kMaxHeaderBytes) {
    return format_fault("has a header of " + std::to_string(length) + " bytes, at most " +
                        std::to_string(kMaxHeaderBytes) + " are read");
  }
  if (!range_fits(start, length, file.size()))
    return ParseFault{DiagCode::FileSize, "ends inside its header"};
  return HeaderPlace{text.substr(start, length), start + length};
}

std::variant<NpyView, ParseFault> view_of(const Header& header) {
  NpyView view;
  const std::string& descr = *header.descr;
  if (descr.find('O') != std::string::npos) {
    return format_fault("holds Python objects (dtype " + in_quotes(descr) + "), wanted numbers");
  }
  const bool has_order =
      !descr.empty() && std::string_view("<>|=").find(descr.front()) != std::string_view::npos;
  const char order = has_order ? descr.front() : '|';
  const NpyDType* row = find_code(std::string_view(descr).substr(has_order ? 1 : 0));
  if (row == nullptr || (order == '|' && row->swap_bytes > 1) || order == '=') {
    return format_fault(
        "has dtype " + in_quotes(descr) +
        ", wanted f2, f4, f8, i1, i2, i4, i8, u1, u4, b1 or c8 with byte order < or >");
  }
  view.type.dtype = row->dtype;
  view.is_big_endian = order == '>' && row->swap_bytes > 1;
  view.is_fortran_order = *header.fortran_order;
  if (header.shape->size() > kMaxRank) {
    return format_fault("has rank " + std::to_string(header.shape->size()) + ", at most " +
                        std::to_string(kMaxRank) + " is read");
  }
  uint64_t bytes = element_bytes(row->dtype);
  for (const uint64_t dim : *header.shape) {
    if (dim > static_cast<uint64_t>(kMaxDim))
      return format_fault("has a dim of " + std::to_string(dim) + ", wanted less than 2^40");
    view.type.shape.push_back(static_cast<int64_t>(dim));
  }
  for (const uint64_t dim : *header.shape) {
    const auto product = checked_mul(bytes, std::max<uint64_t>(dim, 1));
    if (!product || *product > kMaxTensorBytes)
      return format_fault("has shape " + to_string(view.type.shape) + ", more than 2^48 bytes");
    bytes = *product;
  }
  return view;
}

}  // namespace

std::variant<NpyView, ParseFault> parse_npy(std::span<const std::byte> file) {
  const auto place = find_header(file);
  if (const auto* fault = std::get_if<ParseFault>(&place)) return *fault;
  const HeaderPlace& found = std::get<HeaderPlace>(place);
  const auto header = HeaderParser(found.text).parse();
  if (const auto* message = std::get_if<std::string>(&header)) {
    return format_fault("has a .npy header that " + *message);
  }
  auto view = view_of(std::get<Header>(header));
  auto* good = std::get_if<NpyView>(&view);
  if (good == nullptr) return view;
  const auto payload = file.subspan(found.payload_offset_bytes);
  const uint64_t wanted = byte_size(good->type);
  if (payload.size() != wanted) {
    return ParseFault{DiagCode::FileSize, "holds " + std::to_string(payload.size()) +
                                              " bytes after its header, its own shape " +
                                              to_string(good->type) + " wants " +
                                              std::to_string(wanted)};
  }
  good->payload = payload;
  return view;
}

HostBytes npy_bytes(const NpyView& view, std::shared_ptr<const void> owner) {
  const bool is_reordered = view.is_fortran_order && view.type.shape.size() > 1;
  if (!is_reordered && !view.is_big_endian) return {std::move(owner), view.payload};
  const size_t element = element_bytes(view.type.dtype);
  const Shape& shape = view.type.shape;
  Strides source_strides(shape.size(), 1);  // in elements: dense, the first dim fastest
  for (size_t i = 1; i < shape.size(); ++i)
    source_strides[i] = source_strides[i - 1] * shape[i - 1];
  if (!is_reordered) source_strides = dense_strides(shape);

  auto bytes = std::make_shared<std::vector<std::byte>>(view.payload.size());
  std::vector<int64_t> index(shape.size(), 0);
  int64_t source = 0;
  for (size_t target = 0; target < bytes->size(); target += element) {
    std::memcpy(bytes->data() + target, view.payload.data() + static_cast<size_t>(source) * element,
                element);
    for (size_t axis = shape.size(); axis-- > 0;) {
      source += source_strides[axis];
      if (++index[axis] < shape[axis]) break;
      source -= source_strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  if (view.is_big_endian) {
    const size_t unit = view.type.dtype == DType::c64 ? 4 : element;
    for (size_t i = 0; i < bytes->size(); i += unit) {
      std::reverse(bytes->begin() + static_cast<std::ptrdiff_t>(i),
                   bytes->begin() + static_cast<std::ptrdiff_t>(i + unit));
    }
  }
  const std::span<const std::byte> result(*bytes);
  return {std::move(bytes), result};
}

}  // namespace rlx
