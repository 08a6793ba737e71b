// SPDX-License-Identifier: Apache-2.0
// Finds the lines of a text that mean most nearly what a query says.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <numeric>
#include <stdexcept>

#include "encoder.h"

namespace search {
namespace {

constexpr const char* kUsage =
    "usage: search PLAN TEXT [--device vulkan] [--query QUERY]... [--top 3]\n"
    "              [--tokens FILE] [--embeddings FILE] [--time RUNS]\n"
    "Without --query the queries are the lines of the standard input. --tokens writes the ids of "
    "each\nline, --embeddings f32[lines, width], --time the lines per second and ms per query.\n";

struct Options {
  std::vector<std::string> files;  // plan, text
  std::string device = "vulkan";
  std::vector<std::string> queries;
  size_t top = 3;
  std::string tokens;
  std::string embeddings;
  size_t timed_runs = 0;
};

size_t number_of(const std::string& option, const std::string& text) {
  size_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || rest != end)
    throw std::runtime_error(option + " " + text + " is no number");
  return number;
}

Options parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (!argument.starts_with("--")) {
      options.files.push_back(argument);
      continue;
    }
    if (++i == count) throw std::runtime_error(argument + " wants a value");
    const std::string value = arguments[i];
    if (argument == "--device") {
      options.device = value;
    } else if (argument == "--query") {
      options.queries.push_back(value);
    } else if (argument == "--top") {
      options.top = number_of(argument, value);
    } else if (argument == "--tokens") {
      options.tokens = value;
    } else if (argument == "--embeddings") {
      options.embeddings = value;
    } else if (argument == "--time") {
      options.timed_runs = number_of(argument, value);
    } else {
      throw std::runtime_error("there is no option " + argument);
    }
  }
  if (options.files.size() != 2) throw std::runtime_error("PLAN and TEXT are wanted");
  return options;
}

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

std::string text_of(std::span<const Tokens> sentences) {
  std::string text;
  for (const Tokens& sentence : sentences) {
    for (const int64_t id : sentence) text += std::to_string(id) + " ";
    text.back() = '\n';
  }
  return text;
}

double milliseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median_milliseconds(size_t runs, const std::function<void()>& work) {
  std::vector<double> times(runs);
  for (double& time : times) time = milliseconds(work);
  std::ranges::sort(times);
  return times[runs / 2];
}

class Search {
 public:
  Search(const Options& options)
      : options_(options),
        lines_(read_lines(options.files[1])),
        encoder_(options.files[0], options.device) {
    for (const std::string& line : lines_) sentences_.push_back(encoder_.tokens_of(line));
    const double time = milliseconds([this] { embeddings_ = encoder_.embed(sentences_); });
    std::printf("%zu lines embedded on %s in %.1f ms, preparation included\n", lines_.size(),
                encoder_.device_name().c_str(), time);
  }

  void write_files() const {
    if (!options_.tokens.empty()) write_file(options_.tokens, text_of(sentences_));
    if (options_.embeddings.empty()) return;
    const auto* bytes = reinterpret_cast<const char*>(embeddings_.data());
    write_file(options_.embeddings, {bytes, embeddings_.size() * sizeof(float)});
  }

  void answer(const std::string& query) {
    const Tokens tokens = encoder_.tokens_of(query);
    const std::vector<float> wanted = encoder_.embed({&tokens, 1});
    const size_t width = encoder_.width();
    std::vector<float> scores;
    for (size_t line = 0; line < lines_.size(); ++line) {
      scores.push_back(std::inner_product(wanted.begin(), wanted.end(),
                                          embeddings_.data() + line * width, 0.0f));
    }
    std::vector<size_t> order(lines_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order,
                             [&scores](size_t a, size_t b) { return scores[a] > scores[b]; });
    order.resize(std::min(order.size(), options_.top));
    std::printf("? %s\n", query.c_str());
    for (const size_t line : order)
      std::printf("  %.3f  %zu: %s\n", static_cast<double>(scores[line]), line + 1,
                  lines_[line].c_str());
  }

  // Warm: what was embedded before is embedded again.
  void time(const std::string& query) {
    const size_t runs = options_.timed_runs;
    const double all = median_milliseconds(runs, [this] {
      std::vector<Tokens> sentences;
      for (const std::string& line : lines_) sentences.push_back(encoder_.tokens_of(line));
      encoder_.embed(sentences);
    });
    const double one = median_milliseconds(runs, [this, &query] {
      const Tokens tokens = encoder_.tokens_of(query);
      encoder_.embed({&tokens, 1});
    });
    std::printf("%.1f lines per second, %.3f ms per query (medians of %zu)\n",
                static_cast<double>(lines_.size()) * 1e3 / all, one, runs);
  }

 private:
  const Options& options_;
  std::vector<std::string> lines_;
  Encoder encoder_;
  std::vector<Tokens> sentences_;
  std::vector<float> embeddings_;  // a row per line
};

void run(const Options& options) {
  Search search(options);
  search.write_files();
  for (const std::string& query : options.queries) search.answer(query);
  if (options.timed_runs > 0)
    search.time(options.queries.empty() ? "what is this about?" : options.queries.front());
  if (!options.queries.empty() || options.timed_runs > 0) return;
  for (std::string query; std::getline(std::cin, query);) search.answer(query);
}

}  // namespace
}  // namespace search

int main(int argc, char** argv) {
  search::Options options;
  try {
    options = search::parse(argc, argv);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "search: %s\n%s", fault.what(), search::kUsage);
    return 1;
  }
  try {
    search::run(options);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "search: %s\n", fault.what());
    return 2;
  }
  return 0;
}
