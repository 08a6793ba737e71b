// SPDX-License-Identifier: Apache-2.0
// rlxc: compiles models to plans, and looks at both.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "compiler/support/check.h"
#include "tools/rlxc/commands.h"

namespace rlx {
namespace {

int run_rlxc(int argc, char** argv) {
  CLI::App app("Compiles a model to a plan: rlxc MODEL -o PLAN", "rlxc");
  app.set_version_flag("--version", "rlxc " RLX_VERSION);
  app.require_subcommand(0, 1);
  Action action;
  add_compile_command(app, action);
  add_convert_command(app, action);
  add_inspect_command(app, action);
  add_verify_command(app, action);
  add_diff_command(app, action);
  add_explain_command(app, action);
  add_ops_command(app, action);
  add_quantize_command(app, action);
  add_reference_command(app, action);
  add_tune_command(app, action);
  add_bench_arena_command(app, action);
  add_device_models_command(app, action);
  add_estimate_command(app, action);
  add_tokenize_command(app, action);
  app.footer(
      "Exit codes: 0 ok, 1 wrong use, 2 input refused, 3 device unsuitable, 5 resources, 70 "
      "internal error.");
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
