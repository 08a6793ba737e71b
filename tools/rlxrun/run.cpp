// SPDX-License-Identifier: Apache-2.0
// The course of a run: check the inputs, then touch the device, then measure.
#include "tools/rlxrun/run.h"

#include <algorithm>
#include <map>

#include "tools/npy/array_folder.h"
#include "tools/rlxrun/errors.h"
#include "tools/rlxrun/inputs.h"
#include "tools/rlxrun/opening.h"
#include "tools/rlxrun/profiler_ranges.h"
#include "tools/rlxrun/states.h"

namespace rlx::tool {
namespace {

std::vector<Output> read_outputs(rlx_session* session, const EntryView& entry) {
  std::vector<Output> outputs;
  for (const Tensor& tensor : entry.outputs) {
    Output output{.tensor = tensor, .data = std::vector<std::byte>(tensor.size_bytes), .path = {}};
    check(rlx_session_read_output(session, entry.index, tensor.name.c_str(), output.data.data(),
                                  output.data.size()));
    outputs.push_back(std::move(output));
  }
  return outputs;
}

void note_carrier(const std::string& path, const Tensor& tensor, std::vector<std::string>& notes) {
  if (tensor.dtype == RLX_BF16) notes.push_back(path + " holds bf16 bits as u16");
}

void write_outputs(const std::string& path, std::vector<Output>& outputs,
                   std::vector<std::string>& notes) {
  npy::ArrayFolder folder;
  check_written(npy::ArrayFolder::open(path, folder));
  for (Output& output : outputs) {
    check_written(
        folder.write(output.tensor.name, to_array(output.tensor, output.data), output.path));
    note_carrier(output.path, output.tensor, notes);
  }
}

std::vector<Comparison> compare_outputs(const Matched& expected, const std::vector<Output>& outputs,
                                        const Options& options) {
  std::vector<Comparison> comparisons;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!expected.given[i]) continue;
    comparisons.push_back(compare(outputs[i].tensor, outputs[i].data, expected.arrays[i],
                                  {.rtol = options.rtol, .atol = options.atol}));
  }
  return comparisons;
}

std::vector<CodeUse> codes_of(const EntryView& entry) {
  std::map<std::string, uint32_t> counts;
  for (const rlx_step_info& step : entry.steps) {
    if (*step.code != '\0') ++counts[step.code];
  }
  std::vector<CodeUse> codes;
  for (const auto& [code, steps] : counts) codes.push_back({.code = code, .steps = steps});
  return codes;
}

// States change with each run, so the timed runs begin from the same values as the first one, the
// warm-up notwithstanding. A single run without warm-up is the first one itself.
void measure(rlx_session* session, uint32_t entry, const Options& options, const States& states,
             const ProfilerRanges& ranges, Timing& timing) {
  timing.repeat = options.repeat;
  if (options.repeat == 1 && options.warmup == 0) {
    timing.wall = summarize({timing.first_run_milliseconds * 1000});
    return;
  }
  begin_states(session, states);
  for (uint32_t i = 0; i < options.warmup; ++i) {
    const ProfilerRanges::Range range(ranges, "warm-up " + std::to_string(i));
    check(rlx_session_run(session, entry));
  }
  if (options.warmup > 0) begin_states(session, states);
  std::vector<double> wall;
  std::vector<double> device;
  wall.reserve(options.repeat);
  device.reserve(options.repeat);
  for (uint32_t i = 0; i < options.repeat; ++i) {
    const ProfilerRanges::Range range(ranges, "run " + std::to_string(i));
    const Stopwatch watch;
    check(rlx_session_run(session, entry));
    wall.push_back(watch.microseconds());
    double microseconds = 0;
    if (wants_device_times(options))
      check(rlx_session_last_run_microseconds(session, &microseconds));
    device.push_back(microseconds);
  }
  timing.wall = summarize(std::move(wall));
  if (wants_device_times(options)) timing.device = summarize(std::move(device));
}

std::vector<StepProfile> profile_steps(rlx_session* session, const EntryView& entry,
                                       const Options& options, const States& states,
                                       const ProfilerRanges& ranges) {
  std::vector<std::vector<double>> samples(entry.steps.size());
  std::vector<rlx_step_time> times(entry.steps.size());
  begin_states(session, states);
  for (uint32_t i = 0; i < options.repeat; ++i) {
    const ProfilerRanges::Range range(ranges, "profile " + std::to_string(i));
    uint32_t count = 0;
    check(rlx_session_profile(session, entry.index, times.data(),
                              static_cast<uint32_t>(times.size()), &count));
    for (uint32_t j = 0; j < count; ++j) samples[times[j].step].push_back(times[j].microseconds);
  }
  std::vector<StepProfile> profile;
  double total = 0;
  for (uint32_t i = 0; i < entry.steps.size(); ++i) {
    const rlx_step_info& step = entry.steps[i];
    const double microseconds = summarize(std::move(samples[i])).median;
    total += microseconds;
    const double per_second = microseconds > 0 ? 1e6 / microseconds : 0;
    profile.push_back(
        {.step = i,
         .kernel = step.kernel,
         .code = step.code,
         .node = step.node,
         .wave = step.wave,
         .microseconds = microseconds,
         .gigabytes_per_second = static_cast<double>(step.bytes_moved) * per_second / 1e9,
         .teraflops = static_cast<double>(step.flops) * per_second / 1e12});
  }
  for (StepProfile& step : profile) step.share = total > 0 ? step.microseconds / total : 0;
  return profile;
}

uint32_t find_value(const std::vector<Tensor>& values, const DumpRequest& request) {
  std::optional<uint32_t> found;
  for (uint32_t i = 0; i < values.size(); ++i) {
    const Tensor& value = values[i];
    const bool fits = request.value.empty()
                          ? value.segment == RLX_ARENA && value.first_step == request.step
                          : value.name == request.value &&
                                (value.segment != RLX_ARENA || (value.first_step <= request.step &&
                                                                request.step <= value.last_step));
    if (!fits) continue;
    if (found.has_value()) {
      throw Failure(ExitCode::InputRefused, "--dump-after " + std::to_string(request.step) +
                                                ": several values fit (\"" + values[*found].name +
                                                "\" and \"" + value.name +
                                                "\"); name one as STEP:VALUE");
    }
    found = i;
  }
  if (!found.has_value()) {
    throw Failure(ExitCode::InputRefused,
                  request.value.empty()
                      ? "--dump-after " + std::to_string(request.step) +
                            ": no value begins at this step; name one as STEP:VALUE"
                      : "--dump-after " + std::to_string(request.step) + ": no value \"" +
                            request.value + "\" lives at this step");
  }
  return *found;
}

void dump_states(rlx_session* session, const Options& options, const States& states,
                 Report& report) {
  const std::vector<DumpedState> dumped = read_states(session, states);
  for (size_t i = 0; i < dumped.size(); ++i) {
    const std::string& path = options.state_dumps[i].path;
    check_written(npy::write_npy(path, to_array(dumped[i].tensor, dumped[i].data)));
    note_carrier(path, dumped[i].tensor, report.notes);
    report.dumped.push_back(path);
  }
}

void dump_values(rlx_session* session, const EntryView& entry, const Options& options,
                 const States& states, const ProfilerRanges& ranges, Report& report) {
  if (options.dumps.empty()) return;
  begin_states(session, states);
  const std::vector<Tensor> values = describe_values(session, entry.index);
  for (const DumpRequest& request : options.dumps) {
    if (request.step >= entry.steps.size()) {
      throw Failure(ExitCode::InputRefused,
                    "--dump-after " + std::to_string(request.step) + ": entry \"" + entry.name +
                        "\" has steps 0 to " + std::to_string(entry.steps.size()) + " (exclusive)");
    }
    const uint32_t value = find_value(values, request);
    const ProfilerRanges::Range range(ranges, step_title(entry, request.step));
    std::vector<std::byte> data(values[value].size_bytes);
    check(rlx_session_read_value(session, entry.index, request.step, value, data.data(),
                                 data.size()));
    check_written(npy::write_npy(request.path, to_array(values[value], data)));
    note_carrier(request.path, values[value], report.notes);
    report.dumped.push_back(request.path);
  }
}

}  // namespace

bool Report::matches() const {
  return std::all_of(comparisons.begin(), comparisons.end(),
                     [](const Comparison& comparison) { return comparison.wrong_count == 0; });
}

Report run(const Options& options, PlanHandle& plan) {
  Report report;
  const ProfilerRanges ranges = options.nvtx ? ProfilerRanges::open() : ProfilerRanges();
  const Stopwatch open_watch;
  plan = open_plan(options);
  report.timing.open_milliseconds = open_watch.milliseconds();
  report.plan = facts_of(plan.get());
  report.entry = describe_entry(plan.get(), options.entry);
  const Matched inputs = load_inputs(options, report.entry.inputs);
  const Matched expected =
      match_files(options.expected, report.entry.outputs, "output", require_comparable);
  const States states = load_states(plan.get(), options);
  report.notes = inputs.notes;
  report.notes.insert(report.notes.end(), states.initial.notes.begin(), states.initial.notes.end());
  report.notes.insert(report.notes.end(), expected.notes.begin(), expected.notes.end());

  const DeviceHandle device = open_wanted_device(options, plan.get(), report.device);

  const Stopwatch load_watch;
  const SessionHandle session = create_session(plan.get(), device.get(), options);
  report.timing.load_milliseconds = load_watch.milliseconds();
  give_inputs(session.get(), report.entry, inputs, options);
  if (!options.states.empty() || !states.loaded.empty() || states.seed)
    begin_states(session.get(), states);
  if (options.poison.has_value()) check(rlx_session_poison_arena(session.get(), *options.poison));

  const Stopwatch prepare_watch;
  {
    const ProfilerRanges::Range range(ranges, "prepare " + report.entry.name);
    check(rlx_session_prepare(session.get(), report.entry.index));
  }
  report.timing.prepare_milliseconds = prepare_watch.milliseconds();
  describe_program(session.get(), report.entry);
  report.codes = codes_of(report.entry);
  report.program = program_of(plan.get(), session.get(), report.entry.index);
  for (const std::string& name : free_symbols(plan.get()))
    report.symbols.push_back({.name = name, .value = symbol_of(session.get(), report.entry, name)});
  if (options.first_nan) {
    report.non_finite = find_non_finite(session.get(), report.entry, ranges);
    if (options.poison) check(rlx_session_poison_arena(session.get(), *options.poison));
  }
  const Stopwatch first_watch;
  {
    const ProfilerRanges::Range range(ranges, "first run");
    check(rlx_session_run(session.get(), report.entry.index));
  }
  report.timing.first_run_milliseconds = first_watch.milliseconds();
  report.outputs = read_outputs(session.get(), report.entry);
  report.comparisons = compare_outputs(expected, report.outputs, options);
  if (!options.outputs_folder.empty())
    write_outputs(options.outputs_folder, report.outputs, report.notes);

  dump_states(session.get(), options, states, report);

  measure(session.get(), report.entry.index, options, states, ranges, report.timing);
  if (!options.save_states.empty()) save_states(session.get(), states, options.save_states);
  if (options.profile || !options.trace_path.empty()) {
    report.profile = profile_steps(session.get(), report.entry, options, states, ranges);
  }
  dump_values(session.get(), report.entry, options, states, ranges, report);
  return report;
}

}  // namespace rlx::tool
