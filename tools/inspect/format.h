// SPDX-License-Identifier: Apache-2.0
// Text building blocks of the views: tables and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rlx::inspect {

// A name from a file between double quotes, control characters shown as \xNN.
std::string name_text(std::string_view name);
// Words from a file, control characters shown as "?": a plan cannot steer the terminal.
std::string plain_text(std::string_view words);
// Words from a file as UTF-8, for JSON: where they are none, bytes outside ASCII shown as "?".
std::string utf8_text(std::string_view words);
// "1 step", "12 steps"
std::string count_text(uint64_t count, std::string_view noun);
// "12,345,678"
std::string grouped(uint64_t number);
// "12,345 bytes", from 64 KiB on also as "(11.8 MiB)"
std::string byte_count(uint64_t bytes);
// "2.41 GFLOP"
std::string flop_count(uint64_t flops);
// "1.043"
std::string three_digits(double number);

enum class Align : uint8_t { Left, Right };

// Columns as wide as their widest cell, two spaces between them, lines indented by `indent` spaces.
class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::Left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // As many cells as columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  [[nodiscard]] std::string text(uint32_t indent) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace rlx::inspect
