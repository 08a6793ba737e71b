// SPDX-License-Identifier: Apache-2.0
// rlxrun: flags in, one run, text out.
#include <cstdio>

#include "runtime/base/output_file.h"
#include "tools/plan_file/plan_file.h"
#include "tools/program/terminal.h"
#include "tools/rlxrun/against.h"
#include "tools/rlxrun/chat.h"
#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/options.h"
#include "tools/rlxrun/report.h"
#include "tools/rlxrun/self_test.h"
#include "tools/tune/tune.h"

namespace rlx::tool {
namespace {

void tune_plan(const Options& options) {
  const std::string device = options.device == "auto" ? "cuda" : options.device;
  std::vector<std::byte> index;
  tune::TuneReport report;
  check(tune::tune_file(options.plan_path, device, {}, index, report));
  check_written(write_with_index(options.plan_path, index, options.plan_path));
  std::fputs(tune::report_text(report).c_str(), stderr);
}

ExitCode run_tool(const Options& options) {
  if (options.list_devices) {
    std::string note;
    const std::vector<DeviceFacts> devices = list_devices(note);
    std::fputs((options.json ? devices_json(devices, note) : devices_text(devices, note)).c_str(),
               stdout);
    return ExitCode::Ok;
  }
  if (options.tune == TuneMode::Write) tune_plan(options);
  if (options.chat.is_wanted()) {
    const ChatReport report = run_chat(options);
    if (options.json) std::fputs(chat_json(report).c_str(), stdout);
    return report.was_refused() ? ExitCode::InputRefused : ExitCode::Ok;
  }
  if (options.self_test) {
    const SelfTestReport report = run_self_test(options);
    std::fputs((options.json ? self_test_json(report) : self_test_text(report)).c_str(), stdout);
    return report.passes() ? ExitCode::Ok : ExitCode::Mismatch;
  }
  if (!options.against.empty()) {
    const AgainstReport report = run_against(options);
    std::fputs((options.json ? against_json(report) : against_text(report)).c_str(), stdout);
    return report.divergence ? ExitCode::Mismatch : ExitCode::Ok;
  }
  PlanHandle plan;
  const Report report = run(options, plan);
  std::fputs((options.json ? report_json(report) : report_text(report)).c_str(), stdout);
  if (!options.trace_path.empty()) {
    const std::string trace = trace_json(report);
    check_written(write_file(options.trace_path, std::as_bytes(std::span(trace))));
  }
  if (!options.report_path.empty()) {
    const std::string page = report_page(options, report);
    check_written(write_file(options.report_path, std::as_bytes(std::span(page))));
  }
  return report.matches() && !report.found_nan() ? ExitCode::Ok : ExitCode::Mismatch;
}

int run_rlxrun(int argc, char** argv) {
  const ParsedCommandLine parsed = parse_command_line(argc, argv);
  if (parsed.exit.has_value()) return *parsed.exit;
  try {
    return static_cast<int>(run_tool(parsed.options));
  } catch (const Failure& failure) {
    say_error("rlxrun", failure.what());
    return static_cast<int>(failure.code());
  }
}

}  // namespace
}  // namespace rlx::tool

int main(int argc, char** argv) {
  return rlx::tool::run_program("rlxrun", argc, argv, rlx::tool::run_rlxrun);
}
