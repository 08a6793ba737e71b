// SPDX-License-Identifier: Apache-2.0
// The stable JSON forms: keys say their unit.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tools/program/program.h"
#include "tools/rlxrun/chat.h"
#include "tools/rlxrun/report.h"

namespace rlx::tool {
namespace {

using Json = nlohmann::ordered_json;

Json version_json(const DeviceFacts& device) {
  const uint32_t version = device.api_version;
  if (device.architecture != 0)
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  return std::to_string(version >> 22 & 0x7f) + "." + std::to_string(version >> 12 & 0x3ff) + "." +
         std::to_string(version & 0xfff);
}

Json device_json(const DeviceFacts& device) {
  Json json = {{"id", device.id},
               {"name", device.name},
               {"driver", device.driver},
               {"api_version", version_json(device)},
               {"memory_bytes", device.memory_bytes},
               {"available_bytes", device.available_bytes},
               {"unified_memory", device.unified_memory}};
  if (device.architecture != 0) json["architecture"] = device.architecture;
  return json;
}

Json plan_json(const PlanFacts& plan) {
  return {{"name", plan.name},
          {"producer", plan.producer},
          {"file_bytes", plan.file_bytes},
          {"weights_bytes", plan.weights_bytes},
          {"state_bytes", plan.state_bytes},
          {"arena_bytes", plan.arena_bytes},
          {"io_bytes", plan.io_bytes}};
}

Json summary_json(const Summary& summary) {
  return {
      {"min", summary.min}, {"median", summary.median}, {"p90", summary.p90}, {"p99", summary.p99}};
}

// JSON has no infinities and NaN; they are told as text.
Json number_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json timing_json(const Timing& timing) {
  Json json = {{"open_ms", timing.open_milliseconds},
               {"load_ms", timing.load_milliseconds},
               {"prepare_ms", timing.prepare_milliseconds},
               {"first_run_ms", timing.first_run_milliseconds},
               {"repeat", timing.repeat},
               {"wall_us", summary_json(timing.wall)}};
  if (timing.device.has_value()) json["device_us"] = summary_json(*timing.device);
  return json;
}

Json output_json(const Output& output) {
  Json json = {{"name", output.tensor.name},
               {"dtype", rlx_dtype_name(output.tensor.dtype)},
               {"shape", output.tensor.dims}};
  if (!output.path.empty()) json["file"] = output.path;
  return json;
}

Json comparison_json(const Comparison& comparison) {
  return {{"name", comparison.name},
          {"matches", comparison.wrong_count == 0},
          {"elements", comparison.element_count},
          {"wrong", comparison.wrong_count},
          {"max_error", number_json(comparison.max_error)},
          {"max_relative_error", number_json(comparison.max_relative_error)},
          {"worst_index", comparison.worst_index},
          {"worst_got", number_json(comparison.worst_got)},
          {"worst_expected", number_json(comparison.worst_wanted)}};
}

Json non_finite_json(const std::optional<NonFiniteValue>& found) {
  if (!found) return nullptr;
  Json json = {{"name", found->name},
               {"type", found->type},
               {"index", found->index},
               {"count", found->count},
               {"elements", found->elements}};
  if (!found->step) return json;
  json["step"] = *found->step;
  json["kernel"] = found->kernel;
  json["node"] = found->node;
  return json;
}

Json code_json(const CodeUse& use) {
  return {{"code", use.code}, {"steps", use.steps}};
}

Json step_json(const StepProfile& step) {
  Json json = {{"step", step.step},
               {"kernel", step.kernel},
               {"node", step.node},
               {"wave", step.wave},
               {"us", step.microseconds},
               {"gb_per_s", step.gigabytes_per_second},
               {"tflop_per_s", step.teraflops},
               {"share", step.share}};
  if (!step.code.empty()) json["code"] = step.code;
  return json;
}

template <typename T, typename Convert>
Json array_json(const std::vector<T>& items, Convert convert) {
  Json array = Json::array();
  for (const T& item : items) array.push_back(convert(item));
  return array;
}

Json turn_json(const ChatTurn& turn) {
  if (turn.end == ReplyEnd::Refused) return {{"end", "refused"}, {"refusal", turn.refusal}};
  return {{"prompt_ids", turn.prompt_ids},
          {"ids", turn.ids},
          {"text", turn.text},
          {"end", turn.end == ReplyEnd::Stop ? "stop" : "length"},
          {"kept_tokens", turn.kept_tokens},
          {"prompt_runs", turn.prompt_runs},
          {"shifts", turn.shifts},
          {"drafted_tokens", turn.drafted_tokens},
          {"accepted_tokens", turn.accepted_tokens},
          {"prompt_ms", turn.prompt_milliseconds},
          {"token_us", summary_json(summarize(turn.token_microseconds))},
          {"tokens_per_second", turn.tokens_per_second()}};
}

// Names from files may be any bytes.
std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string report_json(const Report& report) {
  Json json = {{"schema_version", kJsonSchemaVersion},
               {"plan", plan_json(report.plan)},
               {"device", device_json(report.device)},
               {"entry",
                {{"name", report.entry.name},
                 {"steps", report.entry.steps.size()},
                 {"waves", report.entry.wave_count},
                 {"arena_bytes", report.entry.arena_bytes},
                 {"arena_lower_bound_bytes", report.entry.arena_lower_bound}}},
               {"timing", timing_json(report.timing)},
               {"outputs", array_json(report.outputs, output_json)}};
  if (!report.program.empty()) json["program"] = report.program;
  for (const SymbolValue& symbol : report.symbols) json["symbols"][symbol.name] = symbol.value;
  if (!report.codes.empty()) json["codes"] = array_json(report.codes, code_json);
  if (!report.comparisons.empty()) {
    json["matches"] = report.matches();
    json["expected"] = array_json(report.comparisons, comparison_json);
  }
  if (!report.profile.empty()) json["profile"] = array_json(report.profile, step_json);
  if (!report.dumped.empty()) json["dumped"] = report.dumped;
  if (report.non_finite) {
    json["first_nan"] = non_finite_json(report.non_finite->nan);
    json["first_infinity"] = non_finite_json(report.non_finite->infinity);
  }
  if (!report.notes.empty()) json["notes"] = report.notes;
  return dump(json);
}

std::string chat_json(const ChatReport& report) {
  return dump(
      {{"schema_version", kJsonSchemaVersion},
       {"plan", plan_json(report.plan)},
       {"device", device_json(report.device)},
       {"timing", {{"open_ms", report.open_milliseconds}, {"load_ms", report.load_milliseconds}}},
       {"turns", array_json(report.turns, turn_json)}});
}

std::string trace_json(const Report& report) {
  Json events = Json::array();
  events.push_back({{"name", "process_name"},
                    {"ph", "M"},
                    {"pid", 1},
                    {"args", {{"name", report.device.id + " " + report.device.name}}}});
  events.push_back({{"name", "thread_name"},
                    {"ph", "M"},
                    {"pid", 1},
                    {"tid", 1},
                    {"args", {{"name", "steps of " + report.entry.name + ", one after another"}}}});
  double begin = 0;
  for (const StepProfile& step : report.profile) {
    events.push_back({{"name", step.node.empty() ? step.kernel : step.node},
                      {"cat", step.kernel},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", begin},
                      {"dur", step.microseconds},
                      {"args", step_json(step)}});
    begin += step.microseconds;
  }
  return dump({{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}});
}

std::string devices_json(const std::vector<DeviceFacts>& devices, const std::string& note) {
  return dump({{"schema_version", kJsonSchemaVersion},
               {"devices", array_json(devices, device_json)},
               {"note", note}});
}

}  // namespace rlx::tool
