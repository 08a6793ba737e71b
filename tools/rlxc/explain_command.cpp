// SPDX-License-Identifier: Apache-2.0
// `rlxc explain`: what a code in a message means, and what to do.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/explain/explain.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"

namespace rlx {
namespace {

struct ExplainArguments {
  std::string code;
  bool markdown = false;
  bool json = false;
};

nlohmann::ordered_json to_json(const std::vector<Explanation>& explained) {
  nlohmann::ordered_json json = {{"schema_version", tool::kJsonSchemaVersion},
                                 {"codes", nlohmann::ordered_json::array()}};
  for (const Explanation& one : explained) {
    nlohmann::ordered_json row = {{"code", one.code}};
    if (!one.law.empty()) row["law"] = one.law;
    row["cause"] = one.cause;
    row["example"] = one.example;
    row["cure"] = one.cure;
    json["codes"].push_back(std::move(row));
  }
  return json;
}

int list_codes() {
  for (const Explanation& one : explanations()) {
    const std::string& text = one.law.empty() ? one.cause : one.law;
    std::printf("%-18s  %s\n", one.code.c_str(), text.c_str());
  }
  return kExitOk;
}

int explain(const ExplainArguments& arguments) {
  if (arguments.markdown) {
    std::fputs(explanations_markdown().c_str(), stdout);
    return kExitOk;
  }
  if (arguments.code.empty()) {
    if (!arguments.json) return list_codes();
    std::printf("%s\n", to_json(explanations()).dump(2).c_str());
    return kExitOk;
  }
  const std::optional<Explanation> found = find_explanation(arguments.code);
  if (!found) {
    return usage_error("there is no code \"" + arguments.code +
                       "\"; rlxc explain without a code lists all");
  }
  if (arguments.json) {
    std::printf("%s\n", to_json({*found}).dump(2).c_str());
  } else {
    std::fputs(explanation_text(*found).c_str(), stdout);
  }
  return kExitOk;
}

}  // namespace

void add_explain_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<ExplainArguments>();
  CLI::App* command =
      app.add_subcommand("explain", "What a code in a message means, and what to do");
  command->add_option("CODE", arguments->code,
                      "As it stands in the message: bad-axis, V7.4 (default: a list of all)");
  command->add_flag("--markdown", arguments->markdown, "All of them as a page");
  command->add_flag("--json", arguments->json, "As JSON");
  command->callback([arguments, &action] { action = [arguments] { return explain(*arguments); }; });
}

}  // namespace rlx
