// SPDX-License-Identifier: Apache-2.0
// What rlxrun prints for people.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <map>

#include "tools/rlxrun/numbers.h"
#include "tools/rlxrun/report.h"

namespace rlx::tool {
namespace {

__attribute__((format(printf, 2, 3))) void print(std::string& out, const char* format, ...) {
  std::array<char, 512> line;
  std::va_list arguments;
  va_start(arguments, format);
  const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
  va_end(arguments);
  out.append(line.data(),
             std::min<size_t>(static_cast<size_t>(std::max(length, 0)), line.size() - 1));
}

std::string bytes_text(uint64_t bytes) {
  std::string text;
  if (bytes < (1u << 20)) {
    print(text, "%.1f KiB", static_cast<double>(bytes) / 1024);
  } else if (bytes < (uint64_t{1} << 30)) {
    print(text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  } else {
    print(text, "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  }
  return text;
}

std::string time_text(double microseconds) {
  std::string text;
  if (microseconds < 1000) {
    print(text, "%.1f us", microseconds);
  } else {
    print(text, "%.3f ms", microseconds / 1000);
  }
  return text;
}

void append_summary(std::string& out, const char* label, const Summary& summary) {
  print(out, "%s: min %s, median %s, p90 %s, p99 %s\n", label, time_text(summary.min).c_str(),
        time_text(summary.median).c_str(), time_text(summary.p90).c_str(),
        time_text(summary.p99).c_str());
}

void append_timing(std::string& out, const Timing& timing) {
  print(out, "open %.2f ms, load %.2f ms, prepare %.2f ms, first run %.2f ms\n",
        timing.open_milliseconds, timing.load_milliseconds, timing.prepare_milliseconds,
        timing.first_run_milliseconds);
  print(out, "%u timed run%s\n", timing.repeat, timing.repeat == 1 ? "" : "s");
  append_summary(out, "  wall  ", timing.wall);
  if (timing.device.has_value()) append_summary(out, "  device", *timing.device);
}

// The first elements, so that a glance shows whether the output makes sense.
void append_output(std::string& out, const Output& output) {
  constexpr uint64_t kShown = 8;
  out += "output " + output.tensor.name + " " + type_text(output.tensor.dtype, output.tensor.dims);
  if (!output.path.empty()) {
    out += " -> " + output.path + "\n";
    return;
  }
  const NumberClass kind = class_of(output.tensor.dtype);
  const uint64_t count = rlx_dtype_bytes(output.tensor.dtype, 1) == 0
                             ? 0
                             : output.data.size() / rlx_dtype_bytes(output.tensor.dtype, 1);
  if (kind != NumberClass::None && count > 0) out += " =";
  for (uint64_t i = 0; kind != NumberClass::None && i < std::min(count, kShown); ++i) {
    const Number number = number_at(output.data, output.tensor.dtype, i);
    if (kind == NumberClass::Complex) {
      print(out, " %.6g%+.6gi", number.real, number.imaginary);
    } else if (kind == NumberClass::Float) {
      print(out, " %.6g", number.real);
    } else {
      out += " " + std::to_string(number.integer);
    }
  }
  out += kind != NumberClass::None && count > kShown ? " ...\n" : "\n";
}

void append_comparison(std::string& out, const Comparison& comparison) {
  out +=
      "expected " + comparison.name + ": " + (comparison.wrong_count == 0 ? "matches" : "MISMATCH");
  if (comparison.wrong_count != 0) {
    out += ", " + std::to_string(comparison.wrong_count) + " of " +
           std::to_string(comparison.element_count) + " elements differ by more than the tolerance";
  }
  print(out, ", max error %.3g (relative %.3g)", comparison.max_error,
        comparison.max_relative_error);
  if (comparison.max_error != 0) {
    print(out, ", worst at %s: got %.9g, expected %.9g", shape_text(comparison.worst_index).c_str(),
          comparison.worst_got, comparison.worst_wanted);
  }
  out += "\n";
}

struct KernelSum {
  uint32_t steps = 0;
  double microseconds = 0;
  double share = 0;
};

void append_non_finite(std::string& out, const char* what,
                       const std::optional<NonFiniteValue>& found) {
  if (!found) {
    out += std::string("no ") + what + "\n";
    return;
  }
  out += std::string("first ") + what + ": ";
  if (found->step) {
    out += "step " + std::to_string(*found->step) + " (" + found->kernel +
           (found->node.empty() ? "" : " for \"" + found->node + "\"") + "), value ";
  } else {
    out += "input ";
  }
  out += "\"" + found->name + "\" " + found->type + ", " + std::to_string(found->count) + " of " +
         std::to_string(found->elements) + " elements, the first at " +
         std::to_string(found->index) + "\n";
}

void append_profile(std::string& out, const std::vector<StepProfile>& profile) {
  print(out, "\n%5s %5s %10s %9s %9s %6s  %-16s %s\n", "step", "wave", "us", "GB/s", "TFLOP/s",
        "share", "kernel", "node");
  std::map<std::string, KernelSum> kernels;
  for (const StepProfile& step : profile) {
    print(out, "%5u %5u %10.2f %9.1f %9.3f %5.1f%%  %-16s ", step.step, step.wave,
          step.microseconds, step.gigabytes_per_second, step.teraflops, step.share * 100,
          step.kernel.c_str());
    out += step.node + "\n";
    KernelSum& sum = kernels[step.kernel];
    ++sum.steps;
    sum.microseconds += step.microseconds;
    sum.share += step.share;
  }
  std::vector<std::pair<std::string, KernelSum>> sorted(kernels.begin(), kernels.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.microseconds > b.second.microseconds;
  });
  out += "\nby kernel (steps one after another)\n";
  for (const auto& [kernel, sum] : sorted) {
    print(out, "%10.2f us %5.1f%%  %4u x ", sum.microseconds, sum.share * 100, sum.steps);
    out += kernel + "\n";
  }
}

}  // namespace

std::string report_text(const Report& report) {
  const std::string& name = report.plan.name;
  std::string out = "plan " + (name.empty() ? "without a name" : name) + ", entry " +
                    report.entry.name + " on " + report.device.id + " " + report.device.name +
                    (report.program.empty() ? "" : ", its program " + report.program) + "\n";
  std::string symbols;
  for (const SymbolValue& symbol : report.symbols)
    symbols +=
        (symbols.empty() ? "at " : ", ") + symbol.name + " = " + std::to_string(symbol.value);
  if (!symbols.empty()) out += symbols + '\n';
  print(out, "%zu steps in %u waves; weights %s, state %s, arena %s (lower bound %s), io %s\n",
        report.entry.steps.size(), report.entry.wave_count,
        bytes_text(report.plan.weights_bytes).c_str(), bytes_text(report.plan.state_bytes).c_str(),
        bytes_text(report.entry.arena_bytes).c_str(),
        bytes_text(report.entry.arena_lower_bound).c_str(),
        bytes_text(report.plan.io_bytes).c_str());
  for (size_t i = 0; i < report.codes.size(); ++i) {
    print(out, "%s%u x %s", i == 0 ? "code: " : ", ", report.codes[i].steps,
          report.codes[i].code.c_str());
  }
  if (!report.codes.empty()) out += "\n";
  for (const std::string& note : report.notes) out += "note: " + note + "\n";
  for (const Output& output : report.outputs) append_output(out, output);
  for (const Comparison& comparison : report.comparisons) append_comparison(out, comparison);
  for (const std::string& path : report.dumped) out += "dumped " + path + "\n";
  if (report.non_finite) {
    append_non_finite(out, "NaN", report.non_finite->nan);
    append_non_finite(out, "infinity", report.non_finite->infinity);
  }
  append_timing(out, report.timing);
  if (!report.profile.empty()) append_profile(out, report.profile);
  return out;
}

std::string devices_text(const std::vector<DeviceFacts>& devices, const std::string& note) {
  std::string out;
  for (const DeviceFacts& device : devices) {
    out += device.id + "  " + device.name + "  (" + device.driver + ", " +
           bytes_text(device.memory_bytes);
    if (device.available_bytes != 0) out += ", " + bytes_text(device.available_bytes) + " free";
    out += ")\n";
  }
  if (!note.empty()) out += "note: " + note + "\n";
  return out;
}

}  // namespace rlx::tool
