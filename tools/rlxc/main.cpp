// SPDX-License-Identifier: Apache-2.0
// rlxc: compiles models to plans, and looks at both.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <string>

#include "compiler/extension/load_extension.h"
#include "compiler/support/check.h"
#include "tools/describe/describe.h"
#include "tools/rlxc/commands.h"

namespace rlx {
namespace {

struct Example {
  const char* command;  // "" for compiling
  const char* text;
};

// Shown at the end of each command's --help.
constexpr Example kExamples[] = {
    {"", "rlxc model.onnx -o model.plan --target vulkan,cuda --dim batch=1:32"},
    {"bench-arena", "rlxc bench-arena model.json --dim batch=8"},
    {"check", "rlxc check model.plan --driver radeon_icd.json --gpu NAVI21"},
    {"check-extension", "rlxc check-extension examples/extension"},
    {"convert", "rlxc convert model.onnx model.rlxg"},
    {"device-models", "rlxc device-models h200"},
    {"diff", "rlxc diff before.plan after.plan"},
    {"estimate", "rlxc estimate model.json --target cuda --device-model h200"},
    {"explain", "rlxc explain bad-shape"},
    {"inspect", "rlxc inspect model.plan --steps"},
    {"keygen", "rlxc keygen -o release.pem"},
    {"ops", "rlxc ops --onnx"},
    {"quantize", "rlxc quantize model.gguf small.gguf --type q4_k,output=q6_k"},
    {"reference", "rlxc reference model.json --inputs x=x.npy --outputs expected"},
    {"self-test", "rlxc self-test model.plan --model model.json --dim batch=4 --inputs x=x.npy"},
    {"sign", "rlxc sign model.plan --key release.pem"},
    {"tokenize", "rlxc tokenize chat.plan --text \"Hello\""},
    {"tune", "rlxc tune model.plan"},
    {"verify", "rlxc verify model.plan"},
};

void add_examples(CLI::App& app) {
  for (const Example& example : kExamples) {
    CLI::App* command = *example.command == '\0' ? &app : app.get_subcommand(example.command);
    const std::string before = command->get_footer();
    command->footer(before + (before.empty() ? "" : "\n") + "Example: " + example.text);
  }
}

int run_rlxc(int argc, char** argv) {
  built_in_extensions();
  CLI::App app("Compiles a model to a plan: rlxc MODEL -o PLAN", "rlxc");
  app.set_version_flag("--version", "rlxc " RLX_VERSION);
  app.require_subcommand(0, 1);
  Action action;
  add_compile_command(app, action);
  add_check_command(app, action);
  add_convert_command(app, action);
  add_inspect_command(app, action);
  add_verify_command(app, action);
  add_diff_command(app, action);
  add_explain_command(app, action);
  add_keygen_command(app, action);
  add_ops_command(app, action);
  add_quantize_command(app, action);
  add_reference_command(app, action);
  add_self_test_command(app, action);
  add_sign_command(app, action);
  add_tune_command(app, action);
  add_bench_arena_command(app, action);
  add_device_models_command(app, action);
  add_estimate_command(app, action);
  add_tokenize_command(app, action);
  add_check_extension_command(app, action);
  app.footer(
      "Exit codes: 0 ok, 1 wrong use, 2 input refused, 3 device unsuitable, 5 resources, 70 "
      "internal error.");
  add_examples(app);
  tool::add_describe_flags(app);
  tool::refuse_empty_values(app, std::array<std::string_view, 1>{"--text"});
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) == 0) return kExitOk;
    // 1 is what diff answers of plans that differ.
    return app.got_subcommand("diff") ? kExitInputRefused : kExitUsage;
  }
  try {
    return action();
  } catch (const InternalError& error) {
    std::fprintf(stderr,
                 "rlxc: internal error: %s\n  hint: this is a mistake of rlxc, not of the model\n",
                 error.what());
    return kExitInternal;
  }
}

}  // namespace
}  // namespace rlx

int main(int argc, char** argv) {
  return rlx::tool::run_program("rlxc", argc, argv, rlx::run_rlxc);
}
