// SPDX-License-Identifier: Apache-2.0
// rlxc: compiles models to plans, and looks at both.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <new>

#include "compiler/support/check.h"
#include "tools/rlxc/commands.h"

namespace {

int run(const rlx::Action& action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    std::fputs("rlxc: error: out of memory\n", stderr);
    return rlx::kExitResources;
  } catch (const rlx::InternalError& error) {
    std::fprintf(stderr,
                 "rlxc: internal error: %s\n  hint: this is a mistake of rlxc, not of the model\n",
                 error.what());
    return rlx::kExitInternal;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rlxc: internal error: %s\n", error.what());
    return rlx::kExitInternal;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compiles a model to a plan: rlxc MODEL -o PLAN", "rlxc");
  app.set_version_flag("--version", "rlxc " RLX_VERSION);
  app.require_subcommand(0, 1);
  rlx::Action action;
  rlx::add_compile_command(app, action);
  rlx::add_convert_command(app, action);
  rlx::add_inspect_command(app, action);
  rlx::add_verify_command(app, action);
  rlx::add_ops_command(app, action);
  rlx::add_reference_command(app, action);
  rlx::add_tune_command(app, action);
  rlx::add_bench_arena_command(app, action);
  app.footer(
      "Exit codes: 0 ok, 1 wrong use, 2 input refused, 3 device unsuitable, 5 resources, 70 "
      "internal error.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? rlx::kExitOk : rlx::kExitUsage;
  }
  return run(action);
}
