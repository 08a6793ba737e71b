// SPDX-License-Identifier: Apache-2.0
// `rlxc quantize IN OUT --type TYPES`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "compiler/import/gguf/quantize.h"
#include "compiler/import/model_files.h"
#include "compiler/import/names.h"
#include "runtime/base/output_file.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"

namespace rlx {
namespace {

using gguf::PlannedTensor;
using gguf::Quantization;

struct QuantizeArguments {
  std::string input;
  std::string output;
  std::string types;
  uint32_t jobs = 0;
};

std::optional<Quantization> plan_file(const QuantizeArguments& arguments,
                                      Diagnostics& diagnostics) {
  const auto rules = gguf::parse_quantize_rules(arguments.types, diagnostics);
  if (!rules) return std::nullopt;
  FileResult file = map_file(arguments.input);
  if (const auto* fault = std::get_if<FileFault>(&file)) {
    diagnostics.error(fault->code, {arguments.input, ""}, "the file " + fault->message);
    return std::nullopt;
  }
  const auto mapped = std::get<std::shared_ptr<const MappedFile>>(std::move(file));
  if (detect_format(mapped->bytes()) != GraphFormat::Gguf) {
    diagnostics.error(DiagCode::FileFormat, {arguments.input, ""},
                      "quantize reads GGUF files, and this is none");
    return std::nullopt;
  }
  return Quantization::plan({.owner = mapped, .bytes = mapped->bytes()}, arguments.input, *rules,
                            diagnostics);
}

// Tensors by what became of them: numbers, sizes, and of those that stay the names.
void show(const Quantization& plan, const QuantizeArguments& arguments) {
  struct Group {
    size_t count = 0;
    uint64_t bytes = 0;
    std::vector<std::string_view> names;
  };
  std::map<std::pair<std::string_view, std::string_view>, Group> groups;
  for (const PlannedTensor& tensor : plan.tensors()) {
    const auto type = tensor.why_kept.empty() ? name_of(tensor.type) : std::string_view();
    Group& group = groups[{tensor.why_kept, type}];
    ++group.count;
    group.bytes += tensor.size_bytes;
    group.names.push_back(tensor.from->name);
  }
  std::printf("%s: %s\n", arguments.output.c_str(), size_text(plan.size_bytes()).c_str());
  for (const auto& [what, group] : groups) {
    const auto& [why, type] = what;
    std::printf(
        "  %s: %zu tensor%s, %s%s\n",
        why.empty() ? std::string(type).c_str() : ("as they were, " + std::string(why)).c_str(),
        group.count, group.count == 1 ? "" : "s", size_text(group.bytes).c_str(),
        why.empty() ? "" : (": " + list_names(group.names)).c_str());
  }
}

int write(const Quantization& plan, const QuantizeArguments& arguments, Diagnostics& diagnostics) {
  OutputFile file;
  Status status = OutputFile::create(arguments.output, OutputUse::Result, file);
  if (status.ok()) status = file.write_at(0, std::as_bytes(std::span(plan.header())));
  if (!status.ok()) return report_written(status);
  const auto sink = [&](uint64_t offset_bytes, std::span<const std::byte> bytes) {
    status = file.write_at(offset_bytes, bytes);
    return status.ok();
  };
  const uint32_t threads =
      arguments.jobs != 0 ? arguments.jobs : std::max(1U, std::thread::hardware_concurrency());
  if (!plan.write(sink, threads, diagnostics))
    return status.ok() ? report(diagnostics) : report_written(status);
  return report_written(file.commit());
}

int quantize(const QuantizeArguments& arguments) {
  if (is_same_file(arguments.input, arguments.output))
    return usage_error("OUT \"" + arguments.output + "\" is the model itself, of other weights");
  Diagnostics diagnostics;
  const auto plan = plan_file(arguments, diagnostics);
  const int code = report(diagnostics);
  if (!plan) return code;
  Diagnostics of_values;
  const int written = write(*plan, arguments, of_values);
  if (written == kExitOk) show(*plan, arguments);
  return written;
}

}  // namespace

void add_quantize_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<QuantizeArguments>();
  CLI::App* command = app.add_subcommand(
      "quantize", "Write a GGUF model with its matrices in other types, rounded as GGML rounds");
  command->add_option("IN", arguments->input, "GGUF file; of several, the first")->required();
  command->add_option("OUT", arguments->output, "GGUF file to write")->required();
  command
      ->add_option("--type", arguments->types,
                   "Type of the matrices, then others for rows that its blocks do not divide; "
                   "PART=TYPE for tensors whose name contains PART: q4_k,q8_0,output=q6_k")
      ->required();
  command->add_option("-j,--jobs", arguments->jobs, "Threads; 0: one per core");
  command->callback(
      [arguments, &action] { action = [arguments] { return quantize(*arguments); }; });
}

}  // namespace rlx
