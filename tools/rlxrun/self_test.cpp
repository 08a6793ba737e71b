// SPDX-License-Identifier: Apache-2.0
// Runs the cases of a plan's self-test and judges what came out.
#include "tools/rlxrun/self_test.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/program/program.h"
#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/inputs.h"

namespace rlx::tool {
namespace {

using Json = nlohmann::ordered_json;

Matched match_inputs(const SelfTestCase& one, const EntryView& entry) {
  Matched matched;
  for (const Tensor& wanted : entry.inputs) {
    const auto found = std::find_if(one.inputs.begin(), one.inputs.end(),
                                    [&](const auto& input) { return input.first == wanted.name; });
    if (found == one.inputs.end()) {
      throw Failure(ExitCode::InputRefused, "the plan's self-test has no input \"" + wanted.name +
                                                "\"; rlxc self-test writes it anew");
    }
    require_same_type("input", wanted, found->second.element, found->second.dims);
    matched.arrays.push_back(found->second);
    matched.given.push_back(true);
  }
  return matched;
}

JudgedCase judge(rlx_session* session, const rlx_plan* plan, const SelfTestCase& one,
                 const Options& options) {
  EntryView entry = describe_entry(plan, one.entry);
  Options with_symbols = options;
  with_symbols.symbols = one.symbols;
  check(rlx_session_reset_states(session));
  give_inputs(session, entry, match_inputs(one, entry), with_symbols);
  check(rlx_session_run(session, entry.index));
  describe_program(session, entry);
  JudgedCase judged{.entry = one.entry, .symbols = one.symbols, .comparisons = {}};
  for (const ExpectedArray& expected : one.outputs) {
    const auto output =
        std::find_if(entry.outputs.begin(), entry.outputs.end(),
                     [&](const Tensor& tensor) { return tensor.name == expected.name; });
    if (output == entry.outputs.end()) {
      throw Failure(ExitCode::InputRefused, "the plan's self-test expects output \"" +
                                                expected.name + "\", which the plan lacks");
    }
    std::vector<std::byte> data(output->size_bytes);
    check(rlx_session_read_output(session, entry.index, output->name.c_str(), data.data(),
                                  data.size()));
    judged.comparisons.push_back(compare(*output, data, expected.array, expected.bound));
  }
  return judged;
}

std::string symbols_text(const std::vector<SymbolValue>& symbols) {
  std::string text;
  for (const SymbolValue& symbol : symbols)
    text += (text.empty() ? " at " : ", ") + symbol.name + " = " + std::to_string(symbol.value);
  return text;
}

std::string short_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

}  // namespace

bool SelfTestReport::passes() const {
  return std::all_of(cases.begin(), cases.end(), [](const JudgedCase& one) {
    return std::all_of(one.comparisons.begin(), one.comparisons.end(),
                       [](const Comparison& comparison) { return comparison.wrong_count == 0; });
  });
}

SelfTestReport run_self_test(const Options& options) {
  const PlanHandle plan = open_plan(options);
  std::shared_ptr<const PlanView> view;
  check(PlanView::open_file(options.plan_path, {.weights_folder = options.weights_folder}, view));
  std::vector<SelfTestCase> cases;
  check(read_self_test(options.plan_path, *view, cases));
  if (cases.empty()) {
    throw Failure(ExitCode::InputRefused,
                  "the plan has no self-test; rlxc self-test PLAN --model MODEL writes one");
  }
  SelfTestReport report{.plan = std::string(view->name()), .device = {}, .cases = {}};
  const DeviceHandle device = open_wanted_device(options, plan.get(), report.device);
  const SessionHandle session = create_session(plan.get(), device.get(), options);
  for (const SelfTestCase& one : cases)
    report.cases.push_back(judge(session.get(), plan.get(), one, options));
  return report;
}

std::string self_test_text(const SelfTestReport& report) {
  std::string text = "self-test of plan " + report.plan + " on " + report.device.id + " " +
                     report.device.name + "\n";
  for (const JudgedCase& one : report.cases) {
    for (const Comparison& comparison : one.comparisons) {
      text += "entry " + one.entry + symbols_text(one.symbols) + ", output " + comparison.name +
              ": " + (comparison.wrong_count == 0 ? "right" : "WRONG") + ", max error " +
              short_text(comparison.max_error);
      if (comparison.wrong_count != 0) {
        text += ", " + std::to_string(comparison.wrong_count) + " of " +
                std::to_string(comparison.element_count) + " elements, worst at " +
                shape_text(comparison.worst_index) + ": got " + short_text(comparison.worst_got) +
                ", expected " + short_text(comparison.worst_wanted);
      }
      text += "\n";
    }
  }
  return text + (report.passes() ? "passed\n" : "FAILED: rlxrun --against names the step\n");
}

std::string self_test_json(const SelfTestReport& report) {
  Json json = {{"schema_version", kJsonSchemaVersion},
               {"plan", report.plan},
               {"device", report.device.id},
               {"passes", report.passes()},
               {"cases", Json::array()}};
  for (const JudgedCase& one : report.cases) {
    Json outputs = Json::array();
    for (const Comparison& comparison : one.comparisons) {
      outputs.push_back(
          {{"name", comparison.name},
           {"elements", comparison.element_count},
           {"wrong", comparison.wrong_count},
           {"max_error",
            std::isfinite(comparison.max_error) ? Json(comparison.max_error) : Json("inf")},
           {"worst_index", comparison.worst_index}});
    }
    Json symbols = Json::object();
    for (const SymbolValue& symbol : one.symbols) symbols[symbol.name] = symbol.value;
    json["cases"].push_back(
        {{"entry", one.entry}, {"symbols", std::move(symbols)}, {"outputs", std::move(outputs)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rlx::tool
