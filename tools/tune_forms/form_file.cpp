// SPDX-License-Identifier: Apache-2.0
// {"rlx_tuned_forms": 1, "target": ..., "device": ..., "driver": ..., "forms": {KEY: FORM},
//  "problems": [{"problem": ..., "nodes": [{"entry": ..., "node": ...}], "us": of the form that is
//    taken, "forms": [{"taken": {KEY: FORM}, "kernels": ..., "estimate_us": ..., "us": ...}]}]}
#include "tools/tune_forms/form_file.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <variant>

#include "compiler/import/model_files.h"
#include "runtime/base/output_file.h"

namespace rlx::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMark = "rlx_tuned_forms";
constexpr int kVersion = 1;

Json variation_json(const Variation& variation) {
  return {{"taken", variation.forms},
          {"kernels", variation.kernels},
          {"estimate_us", variation.estimate},
          {"us", variation.microseconds},
          {"spread_us", variation.spread}};
}

Json problem_json(const TunedProblem& problem) {
  Json forms = Json::array();
  for (const Variation& variation : problem.variations) {
    if (variation.is_timed) forms.push_back(variation_json(variation));
  }
  Json nodes = Json::array();
  for (const NodeName& name : problem.nodes)
    nodes.push_back({{"entry", name.entry}, {"node", name.node}});
  return {{"problem", problem.problem},
          {"nodes", std::move(nodes)},
          {"us", problem.won().microseconds},
          {"forms", std::move(forms)}};
}

}  // namespace

Status write_form_file(const std::string& path, const FormTuneReport& report) {
  Json problems = Json::array();
  for (const TunedProblem& problem : report.problems) problems.push_back(problem_json(problem));
  const Json json = {{kMark, kVersion},           {"target", report.target},
                     {"device", report.device},   {"driver", report.driver},
                     {"forms", report.winners()}, {"problems", std::move(problems)}};
  const std::string text = json.dump(1) + "\n";
  OutputFile file;
  RLX_RETURN_IF_ERROR(OutputFile::create(path, OutputUse::Result, file));
  RLX_RETURN_IF_ERROR(file.write_at(0, std::as_bytes(std::span(text))));
  return file.commit();
}

std::optional<TunedTarget> read_form_file(const std::string& path, Diagnostics& diagnostics) {
  const FileResult file = map_file(path);
  if (const auto* fault = std::get_if<FileFault>(&file)) {
    diagnostics.error(fault->code, {path, ""}, "the file " + fault->message,
                      "rlxc MODEL -o PLAN --tune writes it");
    return std::nullopt;
  }
  const auto bytes = std::get<std::shared_ptr<const MappedFile>>(file)->bytes();
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const Json json = Json::parse(text, text + bytes.size(), nullptr, false);
  const auto is_text = [&](const char* name) {
    return json.contains(name) && json[name].is_string();
  };
  const bool is_known = json.is_object() && json.contains(kMark) && json[kMark] == kVersion &&
                        is_text("target") && is_text("device") && is_text("driver") &&
                        json.contains("forms") && json["forms"].is_object();
  const auto is_form = [](const Json& form) { return form.is_string(); };
  if (!is_known || !std::ranges::all_of(json["forms"], is_form)) {
    diagnostics.error(DiagCode::FileFormat, {path, ""}, "no file of tuned forms of version 1",
                      "rlxc MODEL -o PLAN --tune writes one");
    return std::nullopt;
  }
  return TunedTarget{.target = json["target"],
                     .device = json["device"],
                     .driver = json["driver"],
                     .forms = json["forms"].get<FormTable>()};
}

}  // namespace rlx::tune
