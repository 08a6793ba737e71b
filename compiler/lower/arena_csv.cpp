// SPDX-License-Identifier: Apache-2.0
// Reader of packing problems in CSV.
#include "compiler/lower/arena_csv.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

namespace rlx {
namespace {

constexpr std::array<std::string_view, 4> kColumns = {"id", "lower", "upper", "size"};
enum Column : size_t { Id, Lower, Upper, Size };

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  while (true) {
    const size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

std::optional<uint64_t> number_of(std::string_view cell) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (error != std::errc{} || end != cell.data() + cell.size()) return std::nullopt;
  return number;
}

class Reader {
 public:
  std::variant<std::vector<ArenaItem>, std::string> read(std::string_view text) {
    for (size_t line_number = 1; !text.empty(); ++line_number) {
      const size_t newline = text.find('\n');
      std::string_view line = text.substr(0, newline);
      text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      const std::string fault = have_header_ ? add_item(line) : set_columns(line);
      if (!fault.empty()) return "line " + std::to_string(line_number) + ": " + fault;
    }
    if (!have_header_) return std::string("no header line \"id,lower,upper,size\"");
    return std::move(items_);
  }

 private:
  // Each returns what is wrong, or nothing.
  std::string set_columns(std::string_view line) {
    std::array<bool, kColumns.size()> seen{};
    const std::vector<std::string_view> cells = cells_of(line);
    for (const std::string_view cell : cells) {
      size_t column = 0;
      while (column < kColumns.size() && kColumns[column] != cell) ++column;
      if (column == kColumns.size() || seen[column]) {
        return "column \"" + std::string(cell) + "\", wanted id, lower, upper and size once each";
      }
      seen[column] = true;
      columns_.push_back(static_cast<Column>(column));
    }
    if (cells.size() != kColumns.size()) {
      return std::to_string(cells.size()) + " columns, wanted id, lower, upper and size";
    }
    have_header_ = true;
    return {};
  }

  std::string add_item(std::string_view line) {
    const std::vector<std::string_view> cells = cells_of(line);
    if (cells.size() != columns_.size()) {
      return std::to_string(cells.size()) + " cells, wanted " + std::to_string(columns_.size());
    }
    std::array<uint64_t, kColumns.size()> numbers{};
    for (size_t i = 0; i < cells.size(); ++i) {
      if (columns_[i] == Id) continue;  // any text
      const std::optional<uint64_t> number = number_of(cells[i]);
      if (!number) return "\"" + std::string(cells[i]) + "\" is no number";
      numbers[columns_[i]] = *number;
    }
    if (numbers[Lower] >= numbers[Upper] || numbers[Upper] > std::numeric_limits<uint32_t>::max()) {
      return "live from " + std::to_string(numbers[Lower]) + " to " +
             std::to_string(numbers[Upper]) + ", wanted lower < upper < 2^32";
    }
    if (numbers[Size] >= uint64_t{1} << 48) {
      return "size " + std::to_string(numbers[Size]) + ", wanted less than 2^48";
    }
    items_.push_back({.bytes = numbers[Size],
                      .first = static_cast<uint32_t>(numbers[Lower]),
                      .last = static_cast<uint32_t>(numbers[Upper] - 1)});
    return {};
  }

  bool have_header_ = false;
  std::vector<Column> columns_;
  std::vector<ArenaItem> items_;
};

}  // namespace

std::variant<std::vector<ArenaItem>, std::string> parse_arena_csv(std::string_view text) {
  return Reader().read(text);
}

}  // namespace rlx
