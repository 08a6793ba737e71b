// SPDX-License-Identifier: Apache-2.0
// The subcommands of rlxc. Each adds its options to the parser and, when it was chosen, sets what
// is to be done.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace rlx {

// Exit codes of rlxc and rlxrun.
inline constexpr int kExitOk = 0;
inline constexpr int kExitUsage = 1;
inline constexpr int kExitInputRefused = 2;
inline constexpr int kExitResources = 5;
inline constexpr int kExitInternal = 70;

// Does the work of a command and returns the exit code.
using Action = std::function<int()>;

// `rlxc MODEL -o PLAN`, which has no name of its own.
void add_compile_command(CLI::App& app, Action& action);
void add_convert_command(CLI::App& app, Action& action);
void add_inspect_command(CLI::App& app, Action& action);
void add_verify_command(CLI::App& app, Action& action);
void add_ops_command(CLI::App& app, Action& action);
void add_reference_command(CLI::App& app, Action& action);
void add_tune_command(CLI::App& app, Action& action);
void add_bench_arena_command(CLI::App& app, Action& action);

}  // namespace rlx
