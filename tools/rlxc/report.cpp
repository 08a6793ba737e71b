// SPDX-License-Identifier: Apache-2.0
// Diagnostics to stderr and exit codes.
#include "tools/rlxc/report.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "compiler/extension/load_extension.h"
#include "schema/rounding.h"
#include "tools/program/terminal.h"
#include "tools/rlxc/commands.h"

namespace rlx {
namespace {

// As to_string(Diagnostic) writes them.
constexpr std::array<std::string_view, 3> kSeverities = {"note", "warning", "error"};

bool is_usage(DiagCode code) {
  return code == DiagCode::BadOption || code == DiagCode::UnsupportedTarget;
}

}  // namespace

int report(const Diagnostics& diagnostics) {
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    const std::string_view severity = kSeverities.at(static_cast<size_t>(diagnostic.severity));
    const std::string text =
        tool::with_severity(to_string(diagnostic) + "\n", severity, tool::wants_colour());
    std::fputs(text.c_str(), stderr);
  }
  int code = kExitOk;
  for (const Diagnostic& diagnostic : diagnostics.all()) {
    if (diagnostic.severity != Severity::Error) continue;
    if (diagnostic.code == DiagCode::FileWrite || diagnostic.code == DiagCode::MissingLibrary)
      return kExitResources;
    code = std::max(code, is_usage(diagnostic.code) ? kExitUsage : kExitInputRefused);
  }
  return code;
}

int usage_error(const std::string& message) {
  tool::say_error("rlxc", message);
  return kExitUsage;
}

int report_written(const Status& status) {
  if (status.ok()) return kExitOk;
  tool::say_error("rlxc", status.message());
  return kExitResources;
}

bool is_same_file(const std::string& one, const std::string& other) {
  std::error_code failed;
  return std::filesystem::equivalent(one, other, failed) && !failed;
}

std::string size_text(uint64_t bytes) {
  static constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f %s", value, kUnits.at(unit));
  return text.data();
}

std::optional<std::map<std::string, int64_t>> parse_dims(const std::vector<std::string>& arguments,
                                                         const std::string& option) {
  std::map<std::string, int64_t> dims;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    int64_t value = 0;
    const char* end = argument.data() + argument.size();
    const char* digits = argument.data() + std::min(equals + 1, argument.size());
    const bool named = equals != std::string::npos && equals > 0;
    const auto [rest, error] = std::from_chars(digits, end, value);
    if (!named || error != std::errc{} || rest != end) {
      usage_error(option + " \"" + argument + "\" is not NAME=NUMBER");
      return std::nullopt;
    }
    if (!dims.emplace(argument.substr(0, equals), value).second) {
      usage_error(option + " \"" + argument.substr(0, equals) + "\" is given twice");
      return std::nullopt;
    }
  }
  return dims;
}

namespace {

// "16", "1:512" or "32:1024:32".
std::optional<SymbolRange> parse_range(const std::string& text) {
  std::vector<int64_t> numbers;
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ':');) {
    int64_t number = 0;
    const char* end = part.data() + part.size();
    const auto [rest, error] = std::from_chars(part.data(), end, number);
    if (error != std::errc{} || rest != end) return std::nullopt;
    numbers.push_back(number);
  }
  const bool whole = !text.empty() && text.back() != ':';
  if (!whole || numbers.size() < 2 || numbers.size() > 3) return std::nullopt;
  if (numbers.size() == 2) numbers.push_back(1);
  if (numbers[0] < 0 || numbers[1] < numbers[0] || numbers[2] < 1) return std::nullopt;
  return SymbolRange{.minimum = numbers[0], .maximum = numbers[1], .multiple_of = numbers[2]};
}

// The range in parts: cut at its largest value over FACTOR, at this over FACTOR, and so on. Large
// cuts move up to where tiles of lines end, if one ends nearby: values just below it would have the
// tiles of those above it.
std::vector<SymbolRange> cut(SymbolRange range, int64_t factor_hundredths) {
  const auto first_multiple = [&range](int64_t value) {
    return round_up(value, range.multiple_of);
  };
  std::vector<SymbolRange> parts;
  constexpr int64_t kTileLines = 16;
  constexpr int64_t kLeastMoved = 64;
  const auto below = [&](int64_t value) {
    const int64_t at =
        value / factor_hundredths * 100 + value % factor_hundredths * 100 / factor_hundredths;
    const int64_t moved = round_up(at, kTileLines);
    const bool is_near = moved - at <= (value - at) / 2;
    return at >= kLeastMoved && is_near && range.multiple_of % kTileLines != 0 ? moved : at;
  };
  for (int64_t at = below(range.maximum); at > 0 && at >= first_multiple(range.minimum);
       at = below(at)) {
    // The last part is to have several values (compiler/LIMITS.md).
    const int64_t least = first_multiple(at + 1) + (parts.empty() ? range.multiple_of : 0);
    if (least > range.maximum) continue;
    parts.push_back(
        {.minimum = at + 1, .maximum = range.maximum, .multiple_of = range.multiple_of});
    range.maximum = at;
  }
  parts.push_back(range);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

// "2" or "1.25" in hundredths, from 1.1 on: less would make programs without end.
std::optional<int64_t> parse_factor(const std::string& text) {
  constexpr int64_t kLeast = 110;
  const size_t dot = text.find('.');
  std::string digits = text.substr(0, dot);
  const std::string decimals = dot == std::string::npos ? "00" : text.substr(dot + 1);
  if (digits.empty() || decimals.empty() || decimals.size() > 2) return std::nullopt;
  digits += decimals + std::string(2 - decimals.size(), '0');
  int64_t hundredths = 0;
  const char* end = digits.data() + digits.size();
  const auto [rest, error] = std::from_chars(digits.data(), end, hundredths);
  if (error != std::errc{} || rest != end || hundredths < kLeast) return std::nullopt;
  return hundredths;
}

// "1:512/2": 257:512, 129:256 and so on.
std::optional<std::vector<SymbolRange>> parse_cut_range(const std::string& text) {
  const size_t slash = text.find('/');
  const std::optional<SymbolRange> range = parse_range(text.substr(0, slash));
  if (!range || slash == std::string::npos)
    return range ? std::optional(std::vector<SymbolRange>{*range}) : std::nullopt;
  const std::optional<int64_t> factor = parse_factor(text.substr(slash + 1));
  if (!factor) return std::nullopt;
  return cut(*range, *factor);
}

// "1:16,17:128,129:512": ascending, apart from each other. "8" among them is 8:8.
std::optional<std::vector<SymbolRange>> parse_ranges(const std::string& text) {
  std::vector<SymbolRange> ranges;
  std::stringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const bool is_number = part.find(':') == std::string::npos;
    const auto found = parse_cut_range(is_number ? part + ":" + part : part);
    if (!found) return std::nullopt;
    if (!ranges.empty() && found->front().minimum <= ranges.back().maximum) return std::nullopt;
    ranges.insert(ranges.end(), found->begin(), found->end());
  }
  return text.ends_with(',') ? std::nullopt : std::optional(ranges);
}

// --dim arguments: those with a colon are ranges.
bool take_dims(const std::vector<std::string>& arguments, ImportOptions& options) {
  std::vector<std::string> values;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || argument.find(':', equals) == std::string::npos) {
      values.push_back(argument);
      continue;
    }
    const std::string name = argument.substr(0, equals);
    const auto ranges = parse_ranges(argument.substr(equals + 1));
    if (name.empty() || !ranges) {
      usage_error(
          "--dim \"" + argument +
          "\" is not NAME=NUMBER, NAME=MIN:MAX, NAME=MIN:MAX:STEP, one of these in parts as "
          "NAME=MIN:MAX/FACTOR (1.1 and more, with up to two decimals), or several, ascending and "
          "apart, as in NAME=1:16,17:128");
      return false;
    }
    const bool is_known = options.free_dims.contains(name) || options.ranged_dims.contains(name);
    if (ranges->size() == 1) {
      options.free_dims.emplace(name, ranges->front());
    } else {
      options.ranged_dims.emplace(name, *ranges);
    }
    if (is_known) {
      usage_error("--dim \"" + name + "\" is given twice");
      return false;
    }
  }
  auto dims = parse_dims(values);
  if (!dims) return false;
  for (const auto& [name, value] : *dims) {
    if (!options.free_dims.contains(name) && !options.ranged_dims.contains(name)) continue;
    usage_error("--dim \"" + name + "\" is given twice");
    return false;
  }
  options.dims = std::move(*dims);
  return true;
}

}  // namespace

std::optional<std::vector<EntryRequest>> parse_entries(const std::vector<std::string>& arguments) {
  std::vector<EntryRequest> requests;
  for (const std::string& argument : arguments) {
    const size_t colon = argument.find(':');
    const std::string names = argument.substr(0, colon);
    const size_t equals = names.find('=');
    EntryRequest request;
    request.name = names.substr(0, equals);
    if (equals != std::string::npos) request.source = names.substr(equals + 1);
    if (request.name.empty() || (equals != std::string::npos && request.source.empty())) {
      usage_error("--entry \"" + argument + "\" is not NAME[=ENTRY][:DIM=NUMBER,...]");
      return std::nullopt;
    }
    if (colon != std::string::npos) {
      std::vector<std::string> parts;
      std::stringstream text(argument.substr(colon + 1));
      for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
      auto dims = parse_dims(parts, "--entry " + request.name + ":");
      if (!dims) return std::nullopt;
      request.dims = std::move(*dims);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

void add_keep_options(CLI::App& command, KeptValues& kept) {
  CLI::Option* names =
      command
          .add_option("--keep", kept.names,
                      "Values inside the model that become outputs too, as a,b; what they are "
                      "fused into changes (rlxrun --dump-after looks into an unchanged plan)")
          ->delimiter(',')
          ->allow_extra_args(false);
  command.add_flag("--keep-all", kept.all, "Every node's results become outputs")->excludes(names);
}

std::optional<std::map<std::string, Shape>> parse_shapes(
    const std::vector<std::string>& arguments) {
  std::map<std::string, Shape> shapes;
  for (const std::string& argument : arguments) {
    // The last '=': names of inputs may hold one.
    const size_t equals = argument.rfind('=');
    const bool named = equals != std::string::npos && equals > 0;
    Shape shape;
    const char* end = argument.data() + argument.size();
    const char* at = argument.data() + (named ? equals + 1 : argument.size());
    bool is_good = named;
    while (is_good && at != end) {
      int64_t dim = 0;
      const auto [rest, error] = std::from_chars(at, end, dim);
      is_good = error == std::errc{} && dim >= 0 && (rest == end || *rest == 'x');
      shape.push_back(dim);
      at = rest;
      if (is_good && at != end && ++at == end) is_good = false;  // "2x"
    }
    if (!is_good) {
      usage_error("--input-shape \"" + argument + "\" is not NAME=2x3x4");
      return std::nullopt;
    }
    if (!shapes.emplace(argument.substr(0, equals), shape).second) {
      usage_error("--input-shape \"" + argument.substr(0, equals) + "\" is given twice");
      return std::nullopt;
    }
  }
  return shapes;
}

std::optional<std::map<std::string, std::string>> parse_pairs(
    const std::string& option, const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> pairs;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == argument.size()) {
      usage_error(option + " \"" + argument + "\" is not NAME=VALUE");
      return std::nullopt;
    }
    if (!pairs.emplace(argument.substr(0, equals), argument.substr(equals + 1)).second) {
      usage_error(option + " \"" + argument.substr(0, equals) + "\" is given twice");
      return std::nullopt;
    }
  }
  return pairs;
}

namespace {

// Arguments of --max-count: N for all, or NAME=N.
std::optional<MaxCounts> parse_max_counts(const std::vector<std::string>& arguments) {
  MaxCounts counts;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.rfind('=');
    const bool has_name = equals != std::string::npos;
    const std::string name = has_name ? argument.substr(0, equals) : "";
    const std::string number = has_name ? argument.substr(equals + 1) : argument;
    int64_t most = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), most);
    if (error != std::errc() || end != number.data() + number.size() || most < 1 ||
        (has_name && name.empty())) {
      usage_error("--max-count \"" + argument + "\" is neither a number from 1 on nor NAME=N");
      return std::nullopt;
    }
    if (!counts.emplace(name, most).second) {
      usage_error("--max-count " + (has_name ? "of \"" + name + "\"" : "of all") +
                  " is given twice");
      return std::nullopt;
    }
  }
  return counts;
}

}  // namespace

void add_import_options(CLI::App& command, ImportArguments& arguments) {
  command
      .add_option(
          "--dim", arguments.dims,
          "Value of a symbolic dimension, as batch=8, or the values that a run may give it, "
          "as seq=1:512, height=32:1024:32 (multiples of 32), seq=1:16,17:512 (a program for "
          "each range, chosen by value) or seq=1:512/2 (ranges cut at each half; /1.25 at each "
          "1/1.25, from 64 on at multiples of 16); may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--input-shape", arguments.shapes,
                  "Shape of an input of an ONNX model, as x=1x3x224x224; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--const", arguments.constants,
                  "An input that becomes a constant, as sr=16000, training=false, sizes=[1,2] or "
                  "mask=mask.npy; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option(
          "--state", arguments.states,
          "An input that becomes a state of the plan and the output that is its next value, "
          "as state=stateN; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--max-iterations", arguments.max_iterations,
                  "Of an ONNX model's loops whose end only the run knows: the most trips")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 16));
  command
      .add_option("--max-count", arguments.max_counts,
                  "Of an ONNX model's results that are as long as the data decide (NonZero, "
                  "Compress, Unique, NonMaxSuppression): the most rows, of all or as NAME=N of a "
                  "node or its output; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--ctx", arguments.context,
                     "Of a language model: tokens that its caches hold (default: what it "
                     "was made for, at most 4096)");
  command
      .add_option("--chunks", arguments.chunks,
                  "Of a language model: tokens per run, as 1,8,32,128,512 (the default); each "
                  "becomes an entry, decode for 1 and prefill_N for N")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--verify", arguments.verify,
                     "Of a language model: tokens of one more entry, verify_N, that gives the next "
                     "one behind each: what rlxrun --draft needs");
  command
      .add_option("--extension", arguments.extensions,
                  "Folder with extension.json, whose ops the model may name as namespace.op; may "
                  "be repeated")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

bool load_extensions(const ImportArguments& arguments, Diagnostics& diagnostics) {
  for (const std::string& folder : arguments.extensions) {
    if (!load_extension(folder, diagnostics)) return false;
  }
  return true;
}

std::optional<ImportOptions> parse_import_options(const ImportArguments& arguments) {
  ImportOptions options{.auto_promote = arguments.auto_promote};
  if (!take_dims(arguments.dims, options)) return std::nullopt;
  auto shapes = parse_shapes(arguments.shapes);
  if (!shapes) return std::nullopt;
  auto constants = parse_pairs("--const", arguments.constants);
  if (!constants) return std::nullopt;
  auto states = parse_pairs("--state", arguments.states);
  if (!states) return std::nullopt;
  options.states = std::move(*states);
  options.max_iterations = arguments.max_iterations;
  auto max_counts = parse_max_counts(arguments.max_counts);
  if (!max_counts) return std::nullopt;
  options.max_counts = std::move(*max_counts);
  options.input_shapes = std::move(*shapes);
  options.constants = std::move(*constants);
  options.language.context = arguments.context;
  options.language.chunks = arguments.chunks;
  options.language.verify = arguments.verify;
  return options;
}

std::optional<ImportOptions> parse_model_options(const ImportArguments& arguments) {
  std::optional<ImportOptions> options = parse_import_options(arguments);
  if (!options || options->ranged_dims.empty()) return options;
  usage_error("--dim " + options->ranged_dims.begin()->first +
              " has several ranges, which are for programs of a plan; give one");
  return std::nullopt;
}

}  // namespace rlx
