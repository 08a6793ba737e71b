// SPDX-License-Identifier: Apache-2.0
// The .npy format: header grammar, element types, byte and axis order.
#include "tools/npy/npy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/output_file.h"
#include "runtime/include/rlx.h"
#include "schema/rounding.h"
#include "tools/npy/npy_reader.h"

namespace rlx::npy {
namespace {

constexpr uint64_t kMaxHeaderBytes = 10000;
constexpr size_t kMaxRank = RLX_MAX_RANK;
constexpr uint64_t kMaxDim = uint64_t{1} << 40;
constexpr uint64_t kMaxBytes = uint64_t{1} << 48;
constexpr std::string_view kMagic = "\x93NUMPY";

struct ElementRow {
  Element element;
  std::string_view name;
  std::string_view code;  // NumPy's kind and size, without the byte order
  uint32_t size_bytes;
  uint32_t swap_bytes;  // unit of byte order: half of a complex number
};
constexpr std::array<ElementRow, 14> kElements = {{{Element::F32, "f32", "f4", 4, 4},
                                                   {Element::F16, "f16", "f2", 2, 2},
                                                   {Element::F64, "f64", "f8", 8, 8},
                                                   {Element::I8, "i8", "i1", 1, 1},
                                                   {Element::U8, "u8", "u1", 1, 1},
                                                   {Element::I16, "i16", "i2", 2, 2},
                                                   {Element::U16, "u16", "u2", 2, 2},
                                                   {Element::I32, "i32", "i4", 4, 4},
                                                   {Element::U32, "u32", "u4", 4, 4},
                                                   {Element::I64, "i64", "i8", 8, 8},
                                                   {Element::Bool, "bool", "b1", 1, 1},
                                                   {Element::C64, "c64", "c8", 8, 4},
                                                   {Element::Raw8, "raw8", "V1", 1, 1},
                                                   {Element::Raw16, "raw16", "V2", 2, 2}}};

const ElementRow& row_of(Element element) {
  return kElements[static_cast<size_t>(element)];
}

// Which elements are a tensor of a dtype; the first is the one that is written.
struct Carrier {
  uint32_t dtype;
  Element element;
};
constexpr std::array<Carrier, 17> kCarriers = {{{RLX_F32, Element::F32},
                                                {RLX_F16, Element::F16},
                                                {RLX_BF16, Element::U16},
                                                {RLX_BF16, Element::Raw16},
                                                {RLX_F64, Element::F64},
                                                {RLX_I8, Element::I8},
                                                {RLX_U8, Element::U8},
                                                {RLX_I16, Element::I16},
                                                {RLX_I32, Element::I32},
                                                {RLX_U32, Element::U32},
                                                {RLX_I64, Element::I64},
                                                {RLX_BOOL, Element::Bool},
                                                {RLX_C64, Element::C64},
                                                {RLX_F8E4M3, Element::U8},
                                                {RLX_F8E4M3, Element::Raw8},
                                                {RLX_F8E5M2, Element::U8},
                                                {RLX_F8E5M2, Element::Raw8}}};

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<uint64_t> dims;
};

// The header's text: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  // Empty on success, else what is wrong.
  std::string parse(Header& header) {
    if (!take('{')) return "the header does not begin with {";
    bool has_descr = false, has_order = false, has_shape = false;
    while (!take('}')) {
      std::string key;
      if (!take_string(key) || !take(':')) return "a key of the header is malformed";
      bool* seen = key == "descr"           ? &has_descr
                   : key == "fortran_order" ? &has_order
                   : key == "shape"         ? &has_shape
                                            : nullptr;
      if (seen == nullptr) return "unknown key '" + key + "' in the header";
      if (*seen) return "the key '" + key + "' stands twice in the header";
      *seen = true;
      if (key == "descr" && peek() == '[')
        return "its dtype is structured; save each field as an array of its own";
      const bool good = key == "descr"           ? take_string(header.descr)
                        : key == "fortran_order" ? take_bool(header.fortran_order)
                                                 : take_shape(header.dims);
      if (!good) return "the value of '" + key + "' in the header is malformed";
      if (!take(',') && peek() != '}') return "the header is malformed after '" + key + "'";
    }
    if (peek() != '\0') return "bytes follow the header's closing }";
    if (!has_descr || !has_order || !has_shape)
      return "the header lacks descr, fortran_order or shape";
    return {};
  }

 private:
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  bool take_word(std::string_view word) {
    peek();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  bool take_string(std::string& value) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return false;
    value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value.find('\\') == std::string::npos;
  }

  bool take_bool(bool& value) {
    value = take_word("True");
    return value || take_word("False");
  }

  bool take_number(uint64_t& value) {
    peek();
    const size_t begin = at_;
    value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = value * 10 + static_cast<uint64_t>(text_[at_] - '0');
      if (value >= kMaxDim) return false;
      ++at_;
    }
    if (at_ == begin) return false;
    take_word("L");  // NumPy under Python 2 wrote long integers so
    return true;
  }

  bool take_shape(std::vector<uint64_t>& dims) {
    if (!take('(')) return false;
    bool comma = true;
    while (!take(')')) {
      uint64_t dim = 0;
      if (!comma || !take_number(dim) || dims.size() == kMaxRank) return false;
      dims.push_back(dim);
      comma = take(',');
    }
    return dims.size() != 1 || comma;
  }

  std::string_view text_;
  size_t at_ = 0;
};

uint64_t read_little(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  return value;
}

// Reads up to the data and gives the header's text.
Status read_header(ByteReader& bytes, std::string_view name, std::string& text) {
  std::array<std::byte, 12> preamble{};
  if (bytes.left_bytes() < 10) return fault(name, "this is no .npy file: it is too short");
  RLX_RETURN_IF_ERROR(bytes.read(std::span(preamble).first(8)));
  if (std::memcmp(preamble.data(), kMagic.data(), kMagic.size()) != 0)
    return fault(name, "this is no .npy file: it does not begin with \\x93NUMPY");
  const unsigned major = std::to_integer<unsigned>(preamble[6]);
  const unsigned minor = std::to_integer<unsigned>(preamble[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return fault(name, ".npy version " + std::to_string(major) + "." + std::to_string(minor) +
                           " is unknown; 1.0, 2.0 and 3.0 are read");
  }
  const auto length = std::span(preamble).subspan(8, major == 1 ? 2 : 4);
  if (bytes.left_bytes() < length.size()) return fault(name, "the file ends in its header");
  RLX_RETURN_IF_ERROR(bytes.read(length));
  const uint64_t header_bytes = read_little(length);
  if (header_bytes > kMaxHeaderBytes) {
    return fault(name, "its header claims " + std::to_string(header_bytes) + " bytes; at most " +
                           std::to_string(kMaxHeaderBytes) + " are read");
  }
  if (bytes.left_bytes() < header_bytes) {
    return fault(name, "the file ends in its header: " + std::to_string(header_bytes) +
                           " bytes wanted, " + std::to_string(bytes.left_bytes()) + " there");
  }
  text.resize(header_bytes);
  return bytes.read(std::as_writable_bytes(std::span(text)));
}

Status find_element(const std::string& descr, std::string_view name, const ElementRow*& row,
                    bool& big_endian) {
  constexpr std::string_view kOrders = "<>|=";
  const bool has_order = !descr.empty() && kOrders.find(descr[0]) != std::string_view::npos;
  const std::string_view code = std::string_view(descr).substr(has_order ? 1 : 0);
  if (!code.empty() && code[0] == 'O') {
    return fault(name,
                 "it holds Python objects (dtype " + descr + "); save it with a numeric dtype");
  }
  const auto found = std::find_if(kElements.begin(), kElements.end(),
                                  [&](const ElementRow& each) { return each.code == code; });
  if (found == kElements.end()) {
    return fault(
        name,
        "dtype '" + descr +
            "' has no counterpart here; convert it to one of f4 f2 f8 i1 u1 i2 i4 u4 i8 b1 c8 "
            "(u2 for bf16)");
  }
  row = &*found;
  big_endian = descr[0] == '>';
  return {};
}

void swap_bytes(std::span<std::byte> data, size_t unit) {
  for (size_t i = 0; i + unit <= data.size(); i += unit)
    std::reverse(data.begin() + static_cast<ptrdiff_t>(i),
                 data.begin() + static_cast<ptrdiff_t>(i + unit));
}

// Elements from first-axis-fastest to last-axis-fastest order.
std::vector<std::byte> to_row_major(std::span<const std::byte> source,
                                    const std::vector<uint64_t>& dims, size_t element_size) {
  std::vector<std::byte> target(source.size());
  const size_t count = source.size() / element_size;
  std::vector<uint64_t> index(dims.size(), 0);
  std::vector<uint64_t> strides(dims.size());
  uint64_t stride = 1;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    strides[axis] = stride;
    stride *= dims[axis];
  }
  uint64_t from = 0;
  for (size_t to = 0; to < count; ++to) {
    std::memcpy(target.data() + to * element_size, source.data() + from * element_size,
                element_size);
    for (size_t axis = dims.size(); axis-- > 0;) {
      from += strides[axis];
      if (++index[axis] < dims[axis]) break;
      from -= strides[axis] * dims[axis];
      index[axis] = 0;
    }
  }
  return target;
}

Status payload_bytes(const Header& header, std::string_view name, uint64_t element_size,
                     uint64_t& bytes) {
  bytes = element_size;
  for (const uint64_t dim : header.dims) {
    if (dim != 0 && bytes > kMaxBytes / dim)
      return fault(name, "its shape is larger than any tensor");
    bytes *= dim;
  }
  return {};
}

}  // namespace

uint64_t Array::element_count() const {
  return data.size() / element_bytes(element);
}

uint32_t element_bytes(Element element) {
  return row_of(element).size_bytes;
}

std::string_view element_name(Element element) {
  return row_of(element).name;
}

bool carries(Element element, uint32_t dtype) {
  return std::any_of(kCarriers.begin(), kCarriers.end(), [&](const Carrier& carrier) {
    return carrier.dtype == dtype && carrier.element == element;
  });
}

std::optional<Element> element_for(uint32_t dtype) {
  const auto found = std::find_if(kCarriers.begin(), kCarriers.end(),
                                  [&](const Carrier& carrier) { return carrier.dtype == dtype; });
  return found == kCarriers.end() ? std::nullopt : std::optional(found->element);
}

Status read_array(ByteReader& bytes, std::string_view label, std::string_view array_name,
                  const Wanted& wanted, Array& array) {
  std::string text;
  RLX_RETURN_IF_ERROR(read_header(bytes, label, text));
  Header header;
  if (const std::string wrong = HeaderParser(text).parse(header); !wrong.empty())
    return fault(label, wrong);
  const ElementRow* row = nullptr;
  bool big_endian = false;
  RLX_RETURN_IF_ERROR(find_element(header.descr, label, row, big_endian));
  uint64_t data_bytes = 0;
  RLX_RETURN_IF_ERROR(payload_bytes(header, label, row->size_bytes, data_bytes));
  if (bytes.left_bytes() != data_bytes) {
    return fault(label, "dtype and shape say " + std::to_string(data_bytes) +
                            " bytes of data, the file holds " + std::to_string(bytes.left_bytes()));
  }
  Array made{.element = row->element, .dims = std::move(header.dims), .data = {}};
  if (wanted) RLX_RETURN_IF_ERROR(wanted(array_name, made.element, made.dims));
  made.data.resize(data_bytes);
  RLX_RETURN_IF_ERROR(bytes.read(made.data));
  if (header.fortran_order && made.dims.size() > 1)
    made.data = to_row_major(made.data, made.dims, row->size_bytes);
  if (big_endian) swap_bytes(made.data, row->swap_bytes);
  array = std::move(made);
  return {};
}

Status parse(std::span<const std::byte> file, std::string_view name, Array& array) {
  const MemorySource source(file);
  RangeReader bytes(source, 0, file.size());
  return read_array(bytes, name, name, {}, array);
}

Status read_npy(const std::string& path, std::string_view name, const Wanted& wanted,
                Array& array) {
  FileSource source;
  RLX_RETURN_IF_ERROR(source.open(path));
  RangeReader bytes(source, 0, source.size_bytes());
  return read_array(bytes, path, name, wanted, array);
}

Status read_npy(const std::string& path, Array& array) {
  return read_npy(path, path, {}, array);
}

std::vector<std::byte> serialize(const Array& array) {
  const ElementRow& row = row_of(array.element);
  std::string text = "{'descr': '" +
                     std::string(row.swap_bytes == 1 || row.code[0] == 'V' ? "|" : "<") +
                     std::string(row.code) + "', 'fortran_order': False, 'shape': (";
  for (const uint64_t dim : array.dims) text += std::to_string(dim) + ", ";
  if (array.dims.size() > 1) text.resize(text.size() - 2);
  if (array.dims.size() == 1) text.pop_back();
  text += "), }";
  // The format wants the data at a multiple of 64 bytes and a line feed before it.
  constexpr size_t kPreambleBytes = 10;
  const size_t padded = round_up(kPreambleBytes + text.size() + 1, size_t{64});
  text.append(padded - kPreambleBytes - text.size() - 1, ' ');
  text += '\n';

  std::vector<std::byte> file;
  file.reserve(padded + array.data.size());
  const auto append = [&file](const void* bytes, size_t count) {
    const auto* begin = static_cast<const std::byte*>(bytes);
    file.insert(file.end(), begin, begin + count);
  };
  append(kMagic.data(), kMagic.size());
  const std::array<uint8_t, 4> preamble = {1, 0, static_cast<uint8_t>(text.size() & 0xff),
                                           static_cast<uint8_t>(text.size() >> 8)};
  append(preamble.data(), preamble.size());
  append(text.data(), text.size());
  append(array.data.data(), array.data.size());
  return file;
}

Status write_npy(const std::string& path, const Array& array) {
  return write_file(path, serialize(array));
}

}  // namespace rlx::npy
