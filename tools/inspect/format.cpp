// SPDX-License-Identifier: Apache-2.0
// Text building blocks of the views.
#include "tools/inspect/format.h"

#include <algorithm>
#include <cstdio>

#include "runtime/base/text.h"

namespace rlx::inspect {
namespace {

std::string fixed(double number, int digits) {
  char text[400];  // the largest double has 309 digits before the point
  const int length = std::snprintf(text, sizeof text, "%.*f", digits, number);
  // A C locale may write a comma; the views do not depend on it.
  std::string result(text, static_cast<size_t>(length));
  std::replace(result.begin(), result.end(), ',', '.');
  return result;
}

}  // namespace

std::string name_text(std::string_view name) {
  return rlx::quoted(name);
}

std::string plain_text(std::string_view words) {
  std::string text(words);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = '?';
  }
  return text;
}

std::string utf8_text(std::string_view words) {
  std::string text(words);
  if (is_utf8(text)) return text;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return text;
}

std::string count_text(uint64_t count, std::string_view noun) {
  return grouped(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number);
  for (size_t i = digits.size(); i > 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

std::string byte_count(uint64_t bytes) {
  constexpr double kMebi = 1024.0 * 1024.0;
  std::string text = grouped(bytes) + (bytes == 1 ? " byte" : " bytes");
  if (bytes >= 64 * 1024) text += " (" + fixed(static_cast<double>(bytes) / kMebi, 1) + " MiB)";
  return text;
}

std::string flop_count(uint64_t flops) {
  if (flops < 100'000) return grouped(flops) + " FLOP";
  if (flops < 100'000'000) return fixed(static_cast<double>(flops) / 1e6, 2) + " MFLOP";
  return fixed(static_cast<double>(flops) / 1e9, 2) + " GFLOP";
}

std::string three_digits(double number) {
  return fixed(number, 3);
}

std::string Table::text(uint32_t indent) const {
  std::vector<size_t> widths;
  for (size_t column = 0; column < columns_.size(); ++column) {
    size_t width = columns_[column].title.size();
    for (const auto& row : rows_) width = std::max(width, row[column].size());
    widths.push_back(width);
  }
  std::string text;
  const auto add_line = [&](auto cell_of) {
    std::string line(indent, ' ');
    for (size_t column = 0; column < columns_.size(); ++column) {
      const std::string& cell = cell_of(column);
      const std::string padding(widths[column] - cell.size(), ' ');
      if (column > 0) line += "  ";
      line += columns_[column].align == Align::Right ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](size_t column) -> const std::string& { return columns_[column].title; });
  for (const auto& row : rows_) {
    add_line([&](size_t column) -> const std::string& { return row[column]; });
  }
  return text;
}

}  // namespace rlx::inspect
