// SPDX-License-Identifier: Apache-2.0
// `rlxc convert IN OUT`.
#include <CLI/CLI.hpp>
#include <memory>

#include "compiler/import/import.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"

namespace rlx {

void add_convert_command(CLI::App& app, Action& action) {
  struct Arguments {
    std::string input;
    std::string output;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("convert", "Rewrite a graph file in its other form, without loss");
  command->add_option("IN", arguments->input, "Graph file: .json or .rlxg")->required();
  command->add_option("OUT", arguments->output, "Graph file to write; its ending chooses the form")
      ->required();
  command->callback([arguments, &action] {
    action = [arguments] {
      Diagnostics diagnostics;
      const bool good = convert_graph(arguments->input, arguments->output, diagnostics);
      const int code = report(diagnostics);
      return good ? kExitOk : code;
    };
  });
}

}  // namespace rlx
