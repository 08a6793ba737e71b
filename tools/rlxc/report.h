// SPDX-License-Identifier: Apache-2.0
// What the commands of rlxc say and return: diagnostics, sizes, NAME=VALUE arguments.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/entries.h"
#include "compiler/import/import.h"
#include "compiler/import/keep.h"
#include "compiler/support/diagnostics.h"
#include "runtime/base/status.h"

namespace CLI {
class App;
}

namespace rlx {

// Prints all diagnostics to stderr and returns the exit code they call for: wrong use, refused
// input, or a file that cannot be written. Without errors kExitOk.
int report(const Diagnostics& diagnostics);

// Prints "rlxc: error: <message>" and returns kExitUsage.
int usage_error(const std::string& message);

// Of writing an output: prints why it failed. kExitOk or kExitResources.
int report_written(const Status& status);

// Whether two paths name one file that there is: an output that would replace what it is made of.
bool is_same_file(const std::string& one, const std::string& other);

// "3.4 MiB", "512 B".
std::string size_text(uint64_t bytes);

// Arguments of --dim: NAME=NUMBER, each name once. Reports to stderr, as a fault of `option`;
// nullopt where one is wrong.
std::optional<std::map<std::string, int64_t>> parse_dims(const std::vector<std::string>& arguments,
                                                         const std::string& option = "--dim");

// Arguments of --entry: NAME, NAME:DIM=NUMBER,... or NAME=SOURCE:DIM=NUMBER,.... Reports as
// parse_dims.
std::optional<std::vector<EntryRequest>> parse_entries(const std::vector<std::string>& arguments);

// --keep NAME,... and --keep-all.
void add_keep_options(CLI::App& command, KeptValues& kept);

// Arguments of --input-shape: NAME=2x3x4, each name once; NAME= is a scalar. Reports as parse_dims.
std::optional<std::map<std::string, Shape>> parse_shapes(const std::vector<std::string>& arguments);

// Arguments of --const and --state: NAME=VALUE, each name once. Reports as parse_dims.
std::optional<std::map<std::string, std::string>> parse_pairs(
    const std::string& option, const std::vector<std::string>& arguments);

// All options of commands that read a model.
struct ImportArguments {
  std::vector<std::string> dims;
  std::vector<std::string> shapes;
  std::vector<std::string> constants;
  std::vector<std::string> states;
  std::optional<int64_t> max_iterations;
  std::vector<std::string> max_counts;
  std::optional<int64_t> context;
  std::vector<int64_t> chunks;
  std::optional<int64_t> verify;
  bool auto_promote = false;
  std::vector<std::string> extensions;  // folders
};
// --dim, --input-shape, --const, --state, --max-iterations, --max-count, --ctx, --chunks, --verify
// and --extension.
void add_import_options(CLI::App& command, ImportArguments& arguments);
std::optional<ImportOptions> parse_import_options(const ImportArguments& arguments);
// The same for commands that make no plan, where a symbol has one range at most.
std::optional<ImportOptions> parse_model_options(const ImportArguments& arguments);
// Makes the ops of --extension known; false where anything was reported.
bool load_extensions(const ImportArguments& arguments, Diagnostics& diagnostics);

}  // namespace rlx
