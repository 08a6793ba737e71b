// SPDX-License-Identifier: Apache-2.0
// The JSON views put into report.html, which draws them.
#include "tools/inspect/html.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "tools/inspect/format.h"
#include "tools/inspect/inspect.h"
#include "tools/report_page.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;

// Inside a script element only "</" and "<!--" could end the text.
std::string script_text(const Json& json) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

// A script element for each part, so that the page reads what it wants.
std::string data_scripts(const Json& data) {
  std::string scripts;
  for (const auto& [part, content] : data.items())
    scripts += "<script type=\"application/json\" data-part=\"" + part + "\">" +
               script_text(content) + "</script>";
  return scripts;
}

Json profile_json(const MeasuredSteps& measured) {
  Json steps = Json::array();
  for (const double microseconds : measured.microseconds)
    steps.push_back({{"microseconds", microseconds}});
  return {{"entry", inspect::utf8_text(measured.entry)},
          {"device", inspect::utf8_text(measured.device)},
          {"steps", std::move(steps)}};
}

Status fault(const std::string& message) {
  return {RLX_INVALID_ARGUMENT, "the profile " + message + "; rlxrun --profile --json prints one"};
}

}  // namespace

Status parse_profile(const std::string& json, MeasuredSteps& measured) {
  const Json parsed = Json::parse(json, nullptr, false);
  if (!parsed.is_object()) return fault("is no JSON object");
  const auto text_at = [&](const char* outer, const char* inner) -> std::optional<std::string> {
    const auto found = parsed.find(outer);
    if (found == parsed.end() || !found->is_object()) return std::nullopt;
    const auto text = found->find(inner);
    if (text == found->end() || !text->is_string()) return std::nullopt;
    return text->get<std::string>();
  };
  const auto entry = text_at("entry", "name");
  const auto device = text_at("device", "name");
  const auto steps = parsed.find("profile");
  if (!entry || !device) return fault("names no entry, or no device");
  if (steps == parsed.end() || !steps->is_array()) return fault("has no \"profile\"");
  MeasuredSteps read{.entry = *entry, .device = *device, .microseconds = {}};
  for (const Json& step : *steps) {
    const auto time = step.is_object() ? step.find("us") : step.end();
    if (!step.is_object() || time == step.end() || !time->is_number())
      return fault("has a step without \"us\"");
    read.microseconds.push_back(time->get<double>());
  }
  measured = std::move(read);
  return {};
}

std::string report_html(const PlanView& shown, const PlanView& file,
                        const std::optional<MeasuredSteps>& measured) {
  const Json data = {{"summary", inspect_json(shown, InspectView::Summary)},
                     {"memory", inspect_json(shown, InspectView::Memory)},
                     {"steps", inspect_json(shown, InspectView::Steps)},
                     {"why", inspect_json(shown, InspectView::Why)},
                     {"sizes", inspect_json(file, InspectView::Sizes)},
                     {"profile", measured ? profile_json(*measured) : Json()}};
  std::string page = kReportPage;
  constexpr std::string_view kMark = "RLX_DATA";
  page.replace(page.find(kMark), kMark.size(), data_scripts(data));
  return page;
}

}  // namespace rlx
