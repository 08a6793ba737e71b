// SPDX-License-Identifier: Apache-2.0
// The memory view: segments, arena against its bound, values, and the lifetimes drawn with
// characters.
#include <algorithm>
#include <string_view>

#include "schema/rounding.h"
#include "tools/inspect/format.h"
#include "tools/inspect/views.h"

namespace rlx::inspect {
namespace {

constexpr std::string_view kMarks =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr uint64_t kMostColumns = 96;
constexpr uint64_t kMostRows = 24;

std::string range_text(uint32_t first, uint32_t last) {
  return first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
}

std::string values_table(const EntryFacts& entry, const std::vector<ValueFacts>& arena) {
  Table table({{"mark"},
               {"segment"},
               {"offset", Align::Right},
               {"bytes", Align::Right},
               {"waves", Align::Right},
               {"steps", Align::Right},
               {"type"},
               {"value"}});
  const auto add = [&](const ValueFacts& value, const std::string& mark) {
    const bool io = value.segment == segment_name(fb::Segment::Io);
    table.add({mark, std::string(value.segment), io ? "-" : grouped(value.offset_bytes),
               grouped(value.size_bytes), range_text(value.first_wave, value.last_wave),
               range_text(value.first_step, value.last_step), value.type,
               name_text(value.name) +
                   (value.alias_of ? " in place of " + name_text(*value.alias_of) : "")});
  };
  for (size_t i = 0; i < arena.size(); ++i) add(arena[i], std::string(1, mark_of(i)));
  for (const ValueFacts& value : entry.values) {
    if (value.segment != segment_name(fb::Segment::Arena)) add(value, "");
  }
  return table.text(2);
}

std::string entry_text(const EntryFacts& entry) {
  const std::vector<ValueFacts> arena = arena_values(entry);
  std::string text = entry_title(entry) + "\n";
  Table table({{"arena"}, {"bytes", Align::Right}});
  table.add({"planned", grouped(entry.arena_bytes)});
  table.add({"lower bound", grouped(entry.lower_bound_bytes)});
  table.add({"gap", grouped(entry.gap_bytes())});
  table.add({"without reuse", grouped(entry.unplanned_bytes)});
  text += table.text(2);
  text += "  arena / lower bound " + three_digits(entry.ratio()) + ", " +
          count_text(arena.size(), "arena value") + ", " + count_text(entry.wave_count, "wave") +
          "\n";
  text += values_table(entry, arena);
  return text + arena_drawing(entry, arena);
}

// Character cells; each shows the value that covers most of it.
class Canvas {
 public:
  Canvas(uint64_t arena_bytes, uint64_t waves)
      : waves_per_column_(ceil_div(waves, kMostColumns)),
        bytes_per_row_(ceil_div(ceil_div(arena_bytes, kMostRows), kArenaAlignmentBytes) *
                       kArenaAlignmentBytes),
        columns_(ceil_div(waves, waves_per_column_)),
        rows_(ceil_div(arena_bytes, bytes_per_row_)),
        cells_(columns_ * rows_) {}

  void paint(const ValueFacts& value, char mark) {
    if (value.size_bytes == 0) return;
    const uint64_t end = value.offset_bytes + value.size_bytes;
    const uint64_t wave_end = uint64_t{value.last_wave} + 1;
    for (uint64_t row = value.offset_bytes / bytes_per_row_; row <= (end - 1) / bytes_per_row_;
         ++row) {
      const uint64_t bytes = std::min(end, (row + 1) * bytes_per_row_) -
                             std::max(value.offset_bytes, row * bytes_per_row_);
      for (uint64_t column = value.first_wave / waves_per_column_;
           column <= value.last_wave / waves_per_column_; ++column) {
        const uint64_t waves = std::min(wave_end, (column + 1) * waves_per_column_) -
                               std::max<uint64_t>(value.first_wave, column * waves_per_column_);
        if (row >= rows_ || column >= columns_) continue;
        Cell& cell = cells_[row * columns_ + column];
        if (bytes * waves <= cell.covered) continue;
        cell = {.covered = bytes * waves, .mark = mark};
      }
    }
  }

  [[nodiscard]] std::string text() const {
    const std::string top = grouped(rows_ * bytes_per_row_);
    std::string text = "  lifetimes: a column is " + count_text(waves_per_column_, "wave") +
                       ", a row is " + byte_count(bytes_per_row_) +
                       "; each row begins at the offset beside it\n";
    for (uint64_t row = rows_; row-- > 0;) {
      const std::string offset = grouped(row * bytes_per_row_);
      text += "  " + std::string(top.size() - offset.size(), ' ') + offset + " |";
      for (uint64_t column = 0; column < columns_; ++column)
        text += cells_[row * columns_ + column].mark;
      text += "|\n";
    }
    return text;
  }

 private:
  struct Cell {
    uint64_t covered = 0;  // bytes x waves
    char mark = '.';
  };
  uint64_t waves_per_column_;
  uint64_t bytes_per_row_;
  uint64_t columns_;
  uint64_t rows_;
  std::vector<Cell> cells_;
};

}  // namespace

char mark_of(size_t arena_value) {
  return kMarks[arena_value % kMarks.size()];
}

std::vector<ValueFacts> arena_values(const EntryFacts& entry) {
  std::vector<ValueFacts> values;
  for (const ValueFacts& value : entry.values) {
    if (value.segment == segment_name(fb::Segment::Arena)) values.push_back(value);
  }
  std::stable_sort(values.begin(), values.end(), [](const ValueFacts& a, const ValueFacts& b) {
    if (a.first_wave != b.first_wave) return a.first_wave < b.first_wave;
    return a.offset_bytes < b.offset_bytes;
  });
  return values;
}

std::string arena_drawing(const EntryFacts& entry, const std::vector<ValueFacts>& values) {
  if (entry.arena_bytes == 0 || entry.wave_count == 0) return {};
  Canvas canvas(entry.arena_bytes, entry.wave_count);
  for (size_t i = 0; i < values.size(); ++i) canvas.paint(values[i], mark_of(i));
  return canvas.text();
}

std::string memory_text(const PlanView& plan) {
  const PlanHeader& header = plan.header();
  Table segments({{"segment"}, {"bytes", Align::Right}});
  segments.add({"weights", grouped(header.weights_bytes)});
  segments.add({"state", grouped(header.state_bytes)});
  segments.add({"arena", grouped(header.arena_bytes)});
  segments.add({"io", grouped(header.io_bytes)});
  segments.add({"index_errors", grouped(header.index_error_bytes)});
  segments.add({"host", grouped(header.host_bytes)});
  std::string text = "plan " + name_text(plan.name()) + "\n" + segments.text(2);
  for (const EntryFacts& entry : entry_facts(plan)) text += entry_text(entry);
  return text;
}

}  // namespace rlx::inspect
