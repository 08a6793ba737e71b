// SPDX-License-Identifier: Apache-2.0
// Reader of packing problems in CSV.
#include "compiler/lower/arena_csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

namespace rlx {
namespace {

enum Column : size_t { Id, Lower, Upper, Size, Alignment };
constexpr size_t kColumns = 5;
constexpr size_t kRequiredColumns = 4;  // all but the alignment

struct ColumnName {
  std::string_view text;
  Column column;
};
constexpr std::array<ColumnName, 8> kNames = {{{"id", Id},
                                               {"buffer", Id},
                                               {"lower", Lower},
                                               {"start", Lower},
                                               {"upper", Upper},
                                               {"end", Upper},
                                               {"size", Size},
                                               {"alignment", Alignment}}};

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
  std::variant<ArenaCsv, std::string> read(std::string_view text) {
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
    return std::move(problem_);
  }

 private:
  // Each returns what is wrong, or nothing.
  std::string set_columns(std::string_view line) {
    std::array<bool, kColumns> seen{};
    const std::vector<std::string_view> cells = cells_of(line);
    for (const std::string_view cell : cells) {
      const auto known = std::find_if(kNames.begin(), kNames.end(),
                                      [cell](const ColumnName& name) { return name.text == cell; });
      if (known == kNames.end() || seen.at(known->column)) {
        return "column \"" + std::string(cell) + "\", wanted id, lower, upper and size once each";
      }
      seen.at(known->column) = true;
      columns_.push_back(known->column);
    }
    if (cells.size() - (seen[Alignment] ? 1 : 0) != kRequiredColumns) {
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
    std::array<uint64_t, kColumns> numbers{};
    numbers[Alignment] = problem_.alignment_bytes;
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
    if (numbers[Alignment] == 0 ||
        (!problem_.items.empty() && numbers[Alignment] != problem_.alignment_bytes)) {
      return "alignment " + std::to_string(numbers[Alignment]) +
             ", wanted one number above 0 for all items";
    }
    problem_.alignment_bytes = numbers[Alignment];
    problem_.items.push_back({.bytes = numbers[Size],
                              .first = static_cast<uint32_t>(numbers[Lower]),
                              .last = static_cast<uint32_t>(numbers[Upper] - 1)});
    return {};
  }

  bool have_header_ = false;
  std::vector<Column> columns_;
  ArenaCsv problem_;
};

}  // namespace

std::variant<ArenaCsv, std::string> parse_arena_csv(std::string_view text) {
  return Reader().read(text);
}

}  // namespace rlx
