// SPDX-License-Identifier: Apache-2.0
// rlxrun: flags in, one run, text out.
#include <cstdio>
#include <exception>
#include <new>

#include "tools/npy/file.h"
#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/options.h"
#include "tools/rlxrun/report.h"
#include "tools/tune/tune.h"

namespace rlx::tool {
namespace {

void tune_plan(const Options& options) {
  const std::string device = options.device == "auto" ? "cuda" : options.device;
  tune::TuneReport report;
  const Status status = tune::tune_file(options.plan_path, options.plan_path, device, {}, report);
  check(status);
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
  PlanHandle plan;
  const Report report = run(options, plan);
  std::fputs((options.json ? report_json(report) : report_text(report)).c_str(), stdout);
  if (!options.trace_path.empty()) {
    const std::string trace = trace_json(report);
    const Status status = npy::write_file(options.trace_path, std::as_bytes(std::span(trace)));
    if (!status.ok()) throw Failure(ExitCode::Resources, status.message());
  }
  return report.matches() ? ExitCode::Ok : ExitCode::Mismatch;
}

}  // namespace
}  // namespace rlx::tool

int main(int argc, char** argv) {
  using namespace rlx::tool;
  const ParsedCommandLine parsed = parse_command_line(argc, argv);
  if (parsed.exit.has_value()) return *parsed.exit;
  try {
    return static_cast<int>(run_tool(parsed.options));
  } catch (const Failure& failure) {
    std::fprintf(stderr, "rlxrun: error: %s\n", failure.what());
    return static_cast<int>(failure.code());
  } catch (const std::bad_alloc&) {
    std::fputs("rlxrun: error: out of host memory\n", stderr);
    return static_cast<int>(ExitCode::Resources);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rlxrun: internal error: %s\n", error.what());
    return static_cast<int>(ExitCode::Internal);
  }
}
