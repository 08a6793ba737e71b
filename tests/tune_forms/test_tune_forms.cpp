// SPDX-License-Identifier: Apache-2.0
// Laws of tuning a model's forms: on a device whose times say nothing, and by a table.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/null/null_device.h"
#include "tests/compile/graph_text.h"
#include "tests/support/temporary_folder.h"
#include "tools/tune_forms/form_file.h"
#include "tools/tune_forms/tune_forms.h"

namespace rlx::test {
namespace {

// y = a b, twice: one problem.
std::string products() {
  return graph(input("a", "[64, 512]") + "," + input("b", "[512, 512]"),
               node("matmul", R"("a", "b")", "m") + "," + node("matmul", R"("m", "b")", "y"));
}

CompileOptions vulkan_options() {
  CompileOptions options = test_options(2);
  options.targets = {"vulkan"};
  return options;
}

// The first problem's choices as estimates make them.
std::vector<FormChoice> choices_of(const CompileOptions& options) {
  Diagnostics diagnostics;
  CompileSummary summary;
  REQUIRE(compile_to_bytes(module_from(products()), options, diagnostics, &summary));
  return summary.form_choices;
}

}  // namespace

TEST_CASE("equal_times_leave_what_estimates_choose") {
  const auto control = std::make_shared<NullControl>();
  control->dispatch_microseconds = 5;
  const std::shared_ptr<Device> device = open_null_device(control);
  Diagnostics diagnostics;
  tune::FormTuneReport report;
  const Status status = tune::tune_forms(module_from(products()), vulkan_options(), *device,
                                         {.runs = 3}, diagnostics, report);
  INFO(status.message());
  REQUIRE(status.ok());
  CHECK(report.rounds > 1);
  CHECK(report.winners().empty());
  REQUIRE(report.problems.size() == 1);
  CHECK(report.problems[0].nodes.size() == 2);
  CHECK(report.problems[0].chosen().microseconds == 10);
}

TEST_CASE("forms_are_not_tuned_at_free_sizes") {
  Module module = module_from(products());
  module.symbols.push_back({.name = "rows", .maximum = 64, .is_free = true});
  Diagnostics diagnostics;
  tune::FormTuneReport report;
  const Status status =
      tune::tune_forms(module, vulkan_options(), *open_null_device(), {}, diagnostics, report);
  CHECK(status.code() == RLX_INVALID_ARGUMENT);
  CHECK(status.message().find("--dim rows=") != std::string::npos);
}

TEST_CASE("a_summary_has_estimates_at_the_largest_of_free_sizes") {
  Diagnostics diagnostics;
  const auto source = read_json_graph(
      R"({"rlx_graph": 1, "symbols": [{"name": "rows", "min": 1, "max": 64}], "inputs": [)" +
          input("a", R"(["rows", 512])") + R"(], "nodes": [)" + node("exp", R"("a")", "y") +
          R"(], "outputs": ["y"]})",
      "test.json", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(source.has_value());
  auto module =
      bind_module(*source, {}, ".", diagnostics, {{"rows", {.minimum = 1, .maximum = 64}}});
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  CompileSummary summary;
  REQUIRE(compile_to_bytes(*module, vulkan_options(), diagnostics, &summary));
  REQUIRE(summary.estimates.size() == 1);
  CHECK(summary.estimates[0].bytes == 2 * 64 * 512 * sizeof(float));
}

TEST_CASE("two_targets_of_one_device_are_refused") {
  CompileOptions options = vulkan_options();
  options.targets = {"vulkan", "vulkan-cpu"};
  Diagnostics diagnostics;
  tune::FormTuneReport report;
  const Status status = tune::tune_forms(module_from(products()), options, *open_null_device(), {},
                                         diagnostics, report);
  CHECK(status.code() == RLX_INVALID_ARGUMENT);
  CHECK(status.message().find("--target") != std::string::npos);
}

TEST_CASE("a_table_beats_estimates_and_gives_the_same_plan_again") {
  CompileOptions options = vulkan_options();
  const std::vector<FormChoice> choices = choices_of(options);
  const auto open = std::ranges::find_if(
      choices, [](const FormChoice& choice) { return choice.close.size() > 1; });
  REQUIRE(open != choices.end());
  const std::string& other = open->close[1].name;
  REQUIRE(other != open->taken);

  const std::vector<std::byte> plain = compiled(module_from(products()), options);
  options.tuned = {
      {.target = "vulkan", .device = "a device", .driver = "1", .forms = {{open->key(), other}}}};
  const std::vector<std::byte> tuned = compiled(module_from(products()), options);
  CHECK(tuned != plain);
  CHECK(tuned == compiled(module_from(products()), options));
  for (const FormChoice& choice : choices_of(options)) {
    if (choice.key() == open->key()) CHECK(choice.taken == other);
  }
  // For another target, or about forms that there are not, a table says nothing.
  options.tuned.front().target = "cuda";
  CHECK(compiled(module_from(products()), options) == plain);
}

TEST_CASE("a_file_keeps_the_winners_and_every_time") {
  const TemporaryFolder folder;
  const std::string path = folder.path("plan.tuned.json");
  tune::FormTuneReport report;
  report.target = "vulkan";
  report.device = "a device";
  report.driver = "1";
  report.problems.push_back({.problem = "p",
                             .nodes = {{.entry = "main", .node = "y"}},
                             .variations = {{.microseconds = 3, .is_timed = true},
                                            {.forms = {{"tile: p", "b"}}, .is_timed = true}},
                             .winner = 1});
  REQUIRE(tune::write_form_file(path, report).ok());
  Diagnostics diagnostics;
  const auto read = tune::read_form_file(path, diagnostics);
  REQUIRE(read.has_value());
  CHECK(read->target == "vulkan");
  CHECK(read->device == "a device");
  CHECK(read->driver == "1");
  CHECK(read->forms == FormTable{{"tile: p", "b"}});
}

TEST_CASE("what_is_no_file_of_forms_is_refused") {
  const TemporaryFolder folder;
  const std::string path = folder.path("plan.tuned.json");
  for (
      const char* text :
      {"", "[]", "{}", R"({"rlx_tuned_forms": 2})",
       R"({"rlx_tuned_forms": 1, "target": "cuda", "device": "d", "driver": "1"})",
       R"({"rlx_tuned_forms": 1, "target": "cuda", "device": "d", "driver": "1", "forms": {"k": 1}})"}) {
    std::ofstream(path) << text;
    Diagnostics diagnostics;
    CHECK(!tune::read_form_file(path, diagnostics).has_value());
    CHECK(diagnostics.has_errors());
  }
  Diagnostics diagnostics;
  CHECK(!tune::read_form_file(folder.path("none"), diagnostics).has_value());
}

}  // namespace rlx::test
