// SPDX-License-Identifier: Apache-2.0
// The subcommands of rlxc. Each adds its options to the parser and, when it was chosen, sets what
// is to be done.
#pragma once

#include <functional>

#include "tools/program/program.h"

namespace CLI {
class App;
}

namespace rlx {

inline constexpr int kExitOk = static_cast<int>(tool::ExitCode::Ok);
inline constexpr int kExitUsage = static_cast<int>(tool::ExitCode::Usage);
inline constexpr int kExitInputRefused = static_cast<int>(tool::ExitCode::InputRefused);
inline constexpr int kExitDeviceUnsuitable = static_cast<int>(tool::ExitCode::DeviceUnsuitable);
inline constexpr int kExitMismatch = static_cast<int>(tool::ExitCode::Mismatch);
inline constexpr int kExitResources = static_cast<int>(tool::ExitCode::Resources);
inline constexpr int kExitInternal = static_cast<int>(tool::ExitCode::Internal);

// Does the work of a command and returns the exit code.
using Action = std::function<int()>;

// `rlxc MODEL -o PLAN`, which has no name of its own.
void add_compile_command(CLI::App& app, Action& action);
void add_check_command(CLI::App& app, Action& action);
void add_convert_command(CLI::App& app, Action& action);
void add_inspect_command(CLI::App& app, Action& action);
void add_verify_command(CLI::App& app, Action& action);
void add_diff_command(CLI::App& app, Action& action);
void add_explain_command(CLI::App& app, Action& action);
void add_keygen_command(CLI::App& app, Action& action);
void add_ops_command(CLI::App& app, Action& action);
void add_quantize_command(CLI::App& app, Action& action);
void add_reference_command(CLI::App& app, Action& action);
void add_self_test_command(CLI::App& app, Action& action);
void add_sign_command(CLI::App& app, Action& action);
void add_tune_command(CLI::App& app, Action& action);
void add_bench_arena_command(CLI::App& app, Action& action);
void add_device_models_command(CLI::App& app, Action& action);
void add_estimate_command(CLI::App& app, Action& action);
void add_tokenize_command(CLI::App& app, Action& action);
void add_check_extension_command(CLI::App& app, Action& action);

}  // namespace rlx
