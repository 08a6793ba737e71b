// SPDX-License-Identifier: Apache-2.0
// `rlxc ops`: the catalogue of operators, read from the OpDefs.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/ops/op_def.h"
#include "tools/rlxc/commands.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;

std::string arity_text(const Arity& arity) {
  if (arity.minimum == arity.maximum) return std::to_string(arity.minimum);
  if (arity.maximum == kUnlimited) return std::to_string(arity.minimum) + " or more";
  return std::to_string(arity.minimum) + " to " + std::to_string(arity.maximum);
}

// "int, default -1, in [-8, 7]".
std::string attribute_text(const AttrSpec& spec) {
  std::string text(name_of(spec.type));
  if (spec.required) text += ", required";
  if (!spec.default_text.empty()) text += ", default " + std::string(spec.default_text);
  if (!spec.required && spec.default_text.empty()) text += ", optional";
  const auto number = [](double value) { return Json(value).dump(); };
  if (std::isfinite(spec.minimum) && std::isfinite(spec.maximum)) {
    text += ", in [" + number(spec.minimum) + ", " + number(spec.maximum) + "]";
  } else if (std::isfinite(spec.minimum)) {
    text += ", at least " + number(spec.minimum);
  } else if (std::isfinite(spec.maximum)) {
    text += ", at most " + number(spec.maximum);
  }
  for (size_t i = 0; i < spec.choices.size(); ++i) {
    text += (i == 0 ? ", one of " : " | ") + std::string(spec.choices[i]);
  }
  return text;
}

void print_text() {
  for (const OpDef* op : all_ops()) {
    std::printf("%.*s\n", static_cast<int>(op->signature.size()), op->signature.data());
    std::printf("    inputs %s, outputs %s\n", arity_text(op->inputs).c_str(),
                arity_text(op->outputs).c_str());
    for (const AttrSpec& spec : op->attrs) {
      std::printf("    %.*s: %s\n", static_cast<int>(spec.name.size()), spec.name.data(),
                  attribute_text(spec).c_str());
    }
  }
}

Json arity_json(const Arity& arity) {
  return {{"minimum", arity.minimum},
          {"maximum", arity.maximum == kUnlimited ? Json() : Json(arity.maximum)}};
}

Json attribute_json(const AttrSpec& spec) {
  Json json = {{"name", spec.name}, {"type", name_of(spec.type)}, {"required", spec.required}};
  if (!spec.default_text.empty()) {
    const Json value = Json::parse(spec.default_text, nullptr, false);
    json["default"] = value.is_discarded() ? Json(spec.default_text) : value;
  }
  if (std::isfinite(spec.minimum)) json["minimum"] = spec.minimum;
  if (std::isfinite(spec.maximum)) json["maximum"] = spec.maximum;
  if (!spec.choices.empty())
    json["choices"] = std::vector<std::string>(spec.choices.begin(), spec.choices.end());
  return json;
}

void print_json() {
  Json ops = Json::array();
  for (const OpDef* op : all_ops()) {
    Json attributes = Json::array();
    for (const AttrSpec& spec : op->attrs) attributes.push_back(attribute_json(spec));
    ops.push_back({{"name", op->name},
                   {"signature", op->signature},
                   {"inputs", arity_json(op->inputs)},
                   {"outputs", arity_json(op->outputs)},
                   {"attributes", attributes},
                   {"elementwise", op->scalar != nullptr}});
  }
  std::printf("%s\n", ops.dump(2).c_str());
}

}  // namespace

void add_ops_command(CLI::App& app, Action& action) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("ops", "List the operators with their attributes");
  command->add_flag("--json", *json, "As JSON");
  command->callback([json, &action] {
    action = [json] {
      if (*json)
        print_json();
      else
        print_text();
      return kExitOk;
    };
  });
}

}  // namespace rlx
