// SPDX-License-Identifier: Apache-2.0
// Building of message texts.
#include "runtime/base/text.h"

#include <cstring>

#include "runtime/base/dtype.h"
#include "schema/control_characters.h"

namespace rlx {
namespace {

constexpr size_t kMaxQuotedBytes = 256;
constexpr size_t kMaxListed = 32;
constexpr uint64_t kBytesPerMebibyte = uint64_t{1} << 20;

// Bytes of the UTF-8 sequence that starts here; 0 where there is none.
size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if ((first & 0xF0) == 0xE0) {
    if (!follows(1) || !follows(2)) return 0;
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool too_large = first == 0xF4 && byte(1) >= 0x90;
    return overlong || too_large ? 0 : 4;
  }
  return 0;
}

// Of a sequence that utf8_sequence() measured.
uint32_t code_point_of(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0);
  uint32_t code_point = byte(0) & (0x7Fu >> sequence.size());
  for (size_t i = 1; i < sequence.size(); ++i) code_point = code_point << 6 | (byte(i) & 0x3Fu);
  return code_point;
}

// How many bytes at the beginning are printable ASCII, eight at a time: most names are nothing
// else.
size_t printable_prefix(std::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  constexpr uint64_t kHigh = 0x8080808080808080;
  size_t done = 0;
  for (uint64_t word = 0; text.size() - done >= sizeof word; done += sizeof word) {
    std::memcpy(&word, text.data() + done, sizeof word);
    const uint64_t delete_bytes = word ^ (0x7F * kOnes);
    const uint64_t odd = word | (word - 0x20 * kOnes) | (delete_bytes - kOnes);
    if ((odd & kHigh) != 0) break;
  }
  return done;
}

}  // namespace

bool is_plain_text(std::string_view text) {
  while (true) {
    text.remove_prefix(printable_prefix(text));
    if (text.empty()) return true;
    const size_t length = utf8_sequence(text);
    if (length == 0 || is_control_character(code_point_of(text.substr(0, length)))) return false;
    text.remove_prefix(length);
  }
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_sequence(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string Quoted::operator()(std::string_view name) const {
  static constexpr char kHex[] = "0123456789abcdef";
  const bool shortened = name.size() > kMaxQuotedBytes;
  if (shortened) name = name.substr(0, kMaxQuotedBytes);
  std::string out = "\"";
  while (!name.empty()) {
    const size_t length = utf8_sequence(name);
    const auto first = static_cast<unsigned char>(name[0]);
    const bool plain = length > 0 && first != '"' && first != '\\' &&
                       !is_control_character(code_point_of(name.substr(0, length)));
    if (plain) {
      out += name.substr(0, length);
    } else {
      out += "\\x";
      out += kHex[first >> 4];
      out += kHex[first & 15];
    }
    name.remove_prefix(plain ? length : 1);
  }
  out += shortened ? "...\"" : "\"";
  return out;
}

std::string tensor_text(uint32_t dtype, std::span<const uint64_t> dims) {
  const DTypeRow* row = dtype_row(dtype);
  std::string out = row == nullptr ? text_of("dtype ", dtype) : std::string(row->name);
  out += '[';
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(dims[i]);
  }
  out += ']';
  return out;
}

std::string bytes_text(uint64_t bytes) {
  std::string out = text_of(bytes, bytes == 1 ? " byte" : " bytes");
  if (bytes < kBytesPerMebibyte / 16) return out;
  const uint64_t tenths =
      bytes / kBytesPerMebibyte * 10 + bytes % kBytesPerMebibyte * 10 / kBytesPerMebibyte;
  return text_of(out, " (", tenths / 10, ".", tenths % 10, " MiB)");
}

std::string list_text(std::span<const std::string_view> names) {
  if (names.empty()) return "none";
  std::string out;
  const size_t shown = names.size() < kMaxListed ? names.size() : kMaxListed;
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) out += i + 1 == names.size() ? " and " : ", ";
    out += quoted(names[i]);
  }
  if (shown < names.size()) out += text_of(" and ", names.size() - shown, " more");
  return out;
}

}  // namespace rlx
