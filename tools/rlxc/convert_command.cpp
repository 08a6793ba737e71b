// SPDX-License-Identifier: Apache-2.0
// `rlxc convert IN OUT`.
#include <CLI/CLI.hpp>
#include <memory>

#include "compiler/import/import.h"
#include "runtime/base/output_file.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"

namespace rlx {

void add_convert_command(CLI::App& app, Action& action) {
  struct Arguments {
    std::string input;
    std::string output;
    ImportArguments import;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "convert",
      "Rewrite a graph file in its other form, without loss; or an ONNX or language model as a "
      "graph file");
  command
      ->add_option("IN", arguments->input,
                   "Graph file: .json, .rlxg, .onnx or .gguf; or a checkpoint's folder")
      ->required();
  command->add_option("OUT", arguments->output, "Graph file to write; its ending chooses the form")
      ->required();
  add_import_options(*command, arguments->import);
  command->callback([arguments, &action] {
    action = [arguments] {
      const auto import = parse_model_options(arguments->import);
      if (!import) return kExitUsage;
      Diagnostics diagnostics;
      if (!load_extensions(arguments->import, diagnostics)) return report(diagnostics);
      const std::optional<std::string> graph =
          convert_graph(arguments->input, arguments->output, diagnostics, *import);
      const int code = report(diagnostics);
      if (!graph) return code;
      return report_written(write_file(arguments->output, std::as_bytes(std::span(*graph))));
    };
  });
}

}  // namespace rlx
