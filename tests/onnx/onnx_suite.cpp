// SPDX-License-Identifier: Apache-2.0
// ONNX's backend tests as a conformance suite: every test is right, or refused as the list of
// refusals says.
#include <fnmatch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <map>
#include <sstream>

#include "compiler/import/onnx/onnx_reader.h"
#include "tests/onnx/onnx_case.h"
#include "tests/support/harness.h"

using namespace rlx;
using namespace rlx::test;

namespace {

struct Options {
  std::string suite = "/usr/share/libonnx-testdata/data";
  std::string refusals = "tests/onnx/refusals.txt";
  std::vector<std::string> filters = {"*"};
  bool verbose = false;
};

// A pattern of the list for test names, and why they are refused, or, after "!", why their data is
// wrong; of the suites whose newest opset lies in the range.
struct Refusal {
  bool is_wrong_data = false;
  std::string pattern;
  int64_t first_opset = 0;
  int64_t last_opset = std::numeric_limits<int64_t>::max();
  std::string reason;
  size_t line = 0;
  size_t uses = 0;
};

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

// "[!]PATTERN[@OPSET | @FIRST- | @-LAST | @FIRST-LAST]"
Refusal parse_refusal(std::string word) {
  Refusal refusal;
  refusal.is_wrong_data = word.front() == '!';
  if (refusal.is_wrong_data) word.erase(0, 1);
  const size_t at = word.find('@');
  refusal.pattern = word.substr(0, at);
  if (at == std::string::npos) return refusal;
  const std::string range = word.substr(at + 1);
  const size_t dash = range.find('-');
  const std::string first = range.substr(0, dash);
  const std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
  if (!first.empty()) refusal.first_opset = std::stoll(first);
  if (!last.empty()) refusal.last_opset = std::stoll(last);
  return refusal;
}

// Lines "pattern..." under "# reason" headings, without those of suites of other opsets; blank
// lines end nothing.
std::vector<Refusal> read_refusals(const std::string& path, int64_t opset) {
  std::vector<Refusal> refusals;
  std::ifstream file(path);
  std::string line;
  std::string reason;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (line.starts_with("# ")) reason = line.substr(2);
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    std::string word;
    while (words >> word) {
      Refusal refusal = parse_refusal(word);
      if (opset < refusal.first_opset || opset > refusal.last_opset) continue;
      refusal.reason = reason;
      refusal.line = number;
      refusals.push_back(std::move(refusal));
    }
  }
  return refusals;
}

// The test whose model this file is, if it is one: model.onnx beside its data set, or a light
// network beside its outputs.
std::optional<OnnxCase> case_of(const std::filesystem::path& file, const std::string& suite) {
  if (file.extension() != ".onnx") return std::nullopt;
  const std::filesystem::path folder = file.parent_path();
  if (file.filename() == "model.onnx") {
    const std::string data = (folder / "test_data_set_0").string();
    return OnnxCase{.name = std::filesystem::relative(folder, suite).string(),
                    .model = file.string(),
                    .inputs = data + "/input",
                    .outputs = data + "/output"};
  }
  const std::string stem = (folder / file.stem()).string();
  if (!std::filesystem::exists(stem + "_output_0.pb")) return std::nullopt;
  return OnnxCase{.name = std::filesystem::relative(stem, suite).string(),
                  .model = file.string(),
                  .inputs = {},
                  .outputs = stem + "_output",
                  // The rule that ONNX's own test of this network has.
                  .rtol = file.stem() == "light_densenet121" ? 2e-3 : 1e-3,
                  .is_network = true};
}

std::vector<OnnxCase> list_cases(const std::string& suite) {
  std::vector<OnnxCase> cases;
  if (!std::filesystem::is_directory(suite)) return cases;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(suite)) {
    const std::optional<OnnxCase> found = case_of(entry.path(), suite);
    if (found) cases.push_back(*found);
  }
  std::sort(cases.begin(), cases.end(),
            [](const OnnxCase& a, const OnnxCase& b) { return a.name < b.name; });
  return cases;
}

bool is_chosen(const OnnxCase& test, const std::vector<std::string>& filters) {
  return std::any_of(filters.begin(), filters.end(),
                     [&](const std::string& filter) { return matches(filter, test.name); });
}

struct Count {
  size_t right = 0;
  size_t refused = 0;
  size_t wrong_data = 0;
  size_t failed = 0;
};

// What the row says: right, refused, or what is wrong.
std::string judge_row(const OnnxVerdict& verdict, const Refusal* expected, Count& count) {
  const bool is_right = verdict.stage == OnnxStage::Right;
  if (is_right && expected == nullptr) {
    ++count.right;
    return "right";
  }
  if (verdict.refused && expected != nullptr && !expected->is_wrong_data) {
    ++count.refused;
    return "refused";
  }
  if (verdict.stage == OnnxStage::Compare && expected != nullptr && expected->is_wrong_data) {
    ++count.wrong_data;
    return "differs from wrong data";
  }
  ++count.failed;
  if (is_right)
    return "FAILED: right, though line " + std::to_string(expected->line) +
           " of the refusals expects it refused";
  if (verdict.refused) return "FAILED: refused, and no line of the refusals expects it";
  return "FAILED: neither right nor refused";
}

int run(const Options& options) {
  if (!can_read_onnx()) {
    std::puts("SKIPPED: built without ONNX; 0 failed");
    return 0;
  }
  const std::vector<OnnxCase> cases = list_cases(options.suite);
  if (cases.empty()) {
    std::printf("SKIPPED: no tests under %s (package libonnx-testdata); 0 failed\n",
                options.suite.c_str());
    return 0;
  }
  if (present_devices().devices.empty()) return 0;  // which was said
  const int64_t opset = newest_opset(cases);
  std::printf("a suite of opset %lld\n", static_cast<long long>(opset));
  std::vector<Refusal> refusals = read_refusals(options.refusals, opset);
  std::map<std::string, Count> counts;  // by folder of the suite
  Count all;
  double worst_onnx = 0;
  double worst_norm = 0;
  for (const OnnxCase& test : cases) {
    if (!is_chosen(test, options.filters)) continue;
    if (options.verbose) std::cerr << test.name << std::endl;
    const auto expected =
        std::find_if(refusals.begin(), refusals.end(),
                     [&](const Refusal& refusal) { return matches(refusal.pattern, test.name); });
    if (expected != refusals.end()) ++expected->uses;
    const OnnxVerdict verdict = check_onnx_case(test);
    Count& count = counts[test.name.substr(0, test.name.find('/'))];
    const size_t failed_before = count.failed;
    const std::string row =
        judge_row(verdict, expected == refusals.end() ? nullptr : &*expected, count);
    const bool is_failure = count.failed > failed_before;
    if (verdict.stage == OnnxStage::Right) {
      worst_onnx = std::max(worst_onnx, verdict.onnx_ratio);
      worst_norm = std::max(worst_norm, verdict.norm_ratio);
    }
    if (!is_failure && !options.verbose) continue;
    std::printf("%-60s %-8s %6.2f s  %s\n", test.name.c_str(),
                std::string(name_of(verdict.stage)).c_str(), verdict.seconds, row.c_str());
    if (!verdict.reason.empty()) std::printf("    %s\n", verdict.reason.c_str());
    std::fflush(stdout);
  }
  for (const auto& [folder, count] : counts) {
    std::printf("%-20s %4zu right, %4zu refused, %4zu of wrong data, %4zu failed\n", folder.c_str(),
                count.right, count.refused, count.wrong_data, count.failed);
    all.failed += count.failed;
  }
  const bool is_whole = options.filters == Options().filters;
  for (const Refusal& refusal : refusals) {
    if (!is_whole || refusal.uses > 0) continue;
    std::printf("FAILED: line %zu of the refusals, %s, matches no test\n", refusal.line,
                refusal.pattern.c_str());
    ++all.failed;
  }
  std::printf("worst error: %.3f of ONNX's rule, %.3f of the bound of class norm\n", worst_onnx,
              worst_norm);
  return all.failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs ONNX's backend tests on every device present");
  Options options;
  app.add_option("--suite", options.suite, "Folder of the tests")->capture_default_str();
  app.add_option("--refusals", options.refusals, "List of the tests that are refused")
      ->capture_default_str();
  app.add_flag("-v,--verbose", options.verbose, "Print every test");
  app.add_option("FILTER", options.filters, "Patterns of test names, as node/test_conv*");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
