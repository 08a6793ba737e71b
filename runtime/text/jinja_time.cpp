// SPDX-License-Identifier: Apache-2.0
// strftime of the proleptic Gregorian calendar, in English.
#include <array>
#include <chrono>

#include "runtime/base/text.h"
#include "runtime/text/jinja_builtin.h"

namespace rlx::jinja {
namespace {

constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr size_t kShortName = 3;

std::string padded(int64_t number, size_t width, char by = '0') {
  const std::string digits = std::to_string(number);
  return std::string(width - std::min(width, digits.size()), by) + digits;
}

class Clock {
 public:
  explicit Clock(int64_t unix_seconds)
      : day_(std::chrono::floor<std::chrono::days>(
            std::chrono::sys_seconds(std::chrono::seconds(unix_seconds)))),
        date_(day_),
        second_(unix_seconds - day_.time_since_epoch().count() * 86400) {}

  // What stands for %letter; `is_short` for %-letter.
  [[nodiscard]] std::string field(char letter, bool is_short) const {
    const size_t two = is_short ? 1 : 2;
    switch (letter) {
      case 'Y':
        return padded(year(), 4);
      case 'y':
        return padded(year() % 100, two);
      case 'm':
        return padded(month(), two);
      case 'd':
        return padded(day(), two);
      case 'e':
        return padded(day(), two, ' ');
      case 'j':
        return padded(day_of_year(), is_short ? 1 : 3);
      case 'H':
        return padded(hour(), two);
      case 'I':
        return padded((hour() + 11) % 12 + 1, two);
      case 'M':
        return padded(second_ / 60 % 60, two);
      case 'S':
        return padded(second_ % 60, two);
      default:
        return word(letter);
    }
  }

 private:
  [[nodiscard]] std::string word(char letter) const {
    const std::string_view month_name = kMonths[static_cast<size_t>(month() - 1)];
    const std::string_view day_name = kDays[std::chrono::weekday(day_).c_encoding()];
    switch (letter) {
      case 'B':
        return std::string(month_name);
      case 'b':
      case 'h':
        return std::string(month_name.substr(0, kShortName));
      case 'A':
        return std::string(day_name);
      case 'a':
        return std::string(day_name.substr(0, kShortName));
      case 'p':
        return hour() < 12 ? "AM" : "PM";
      default:
        return phrase(letter);
    }
  }

  [[nodiscard]] std::string phrase(char letter) const {
    switch (letter) {
      case 'F':
        return field('Y', false) + "-" + field('m', false) + "-" + field('d', false);
      case 'T':
        return field('H', false) + ":" + field('M', false) + ":" + field('S', false);
      case 'Z':
      case 'z':
        return {};  // as of a time without a zone
      case '%':
        return "%";
      default:
        throw Fault{text_of("strftime_now does not know ", quoted(std::string{'%', letter}))};
    }
  }

  [[nodiscard]] int64_t year() const { return static_cast<int>(date_.year()); }
  [[nodiscard]] int64_t month() const { return static_cast<unsigned>(date_.month()); }
  [[nodiscard]] int64_t day() const { return static_cast<unsigned>(date_.day()); }
  [[nodiscard]] int64_t hour() const { return second_ / 3600; }
  [[nodiscard]] int64_t day_of_year() const {
    return (day_ - std::chrono::sys_days(date_.year() / 1 / 1)).count() + 1;
  }

  std::chrono::sys_days day_;
  std::chrono::year_month_day date_;
  int64_t second_;  // of the day
};

}  // namespace

std::string time_text(int64_t unix_seconds, std::string_view format) {
  const Clock clock(unix_seconds);
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      out += format[at];
      continue;
    }
    const bool is_short = at + 1 < format.size() && format[at + 1] == '-';
    at += is_short ? 2 : 1;
    if (at >= format.size()) throw Fault{"a format of strftime_now ends in %"};
    out += clock.field(format[at], is_short);
  }
  return out;
}

}  // namespace rlx::jinja
