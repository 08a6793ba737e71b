// SPDX-License-Identifier: Apache-2.0
// What --against found, for people and for programs.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/program/program.h"
#include "tools/rlxrun/against.h"

namespace rlx::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string value_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// JSON has no infinities and NaN; they are told as text.
Json value_json(double value) {
  return std::isfinite(value) ? Json(value) : Json(value_text(value));
}

std::string divergence_text(const Divergence& divergence) {
  const Comparison& comparison = divergence.comparison;
  std::string text =
      "FIRST DIFFERENCE at step " + std::to_string(divergence.step) + ", " + divergence.kernel;
  if (!divergence.node.empty())
    text += ", node \"" + divergence.node + "\" (" + divergence.op + ")";
  text += ":\n  value \"" + comparison.name + "\" " + divergence.type + ": " +
          std::to_string(comparison.wrong_count) + " of " +
          std::to_string(comparison.element_count) + " elements beyond their bound of " +
          value_text(divergence.atol) + " + " + value_text(divergence.rtol) +
          " * |expected|\n  worst at " + shape_text(comparison.worst_index) + ": got " +
          value_text(comparison.worst_got) + ", expected " + value_text(comparison.worst_wanted) +
          "\n  wrote " + divergence.got_path + " and " + divergence.wanted_path + "\n";
  return text;
}

}  // namespace

std::string against_text(const AgainstReport& report) {
  std::string text = "plan " + report.plan + ", entry " + report.entry + " on " + report.device.id +
                     " " + report.device.name + " against " + report.other + "\n" +
                     std::to_string(report.matched_count) + " of " +
                     std::to_string(report.value_count) + " values of " +
                     std::to_string(report.step_count) + " steps are known on both sides, " +
                     std::to_string(report.compared_count) + " were compared\n";
  if (!report.divergence) return text + "all are within their bounds\n";
  return text + divergence_text(*report.divergence);
}

std::string against_json(const AgainstReport& report) {
  Json json = {{"schema_version", kJsonSchemaVersion},
               {"plan", report.plan},
               {"entry", report.entry},
               {"device", report.device.id},
               {"against", report.other},
               {"steps", report.step_count},
               {"values", report.value_count},
               {"matched", report.matched_count},
               {"compared", report.compared_count},
               {"matches", !report.divergence},
               {"divergence", nullptr}};
  if (report.divergence) {
    const Divergence& divergence = *report.divergence;
    const Comparison& comparison = divergence.comparison;
    json["divergence"] = {{"step", divergence.step},
                          {"kernel", divergence.kernel},
                          {"node", divergence.node},
                          {"op", divergence.op},
                          {"value", comparison.name},
                          {"type", divergence.type},
                          {"wrong", comparison.wrong_count},
                          {"elements", comparison.element_count},
                          {"rtol", divergence.rtol},
                          {"atol", divergence.atol},
                          {"index", comparison.worst_index},
                          {"got", value_json(comparison.worst_got)},
                          {"expected", value_json(comparison.worst_wanted)},
                          {"got_file", divergence.got_path},
                          {"expected_file", divergence.wanted_path}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rlx::tool
