// SPDX-License-Identifier: Apache-2.0
// `rlxc ops`: the catalogue of operators, read from the OpDefs and the record of conformance.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/import/onnx/onnx_reader.h"
#include "compiler/import/reference_ir/alias.h"
#include "compiler/ops/conformance_record.h"
#include "compiler/ops/extension/extension.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/registered_ops.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/report.h"

namespace rlx {
namespace {

using Json = nlohmann::ordered_json;

std::string arity_text(const Arity& arity) {
  if (arity.minimum == arity.maximum) return std::to_string(arity.minimum);
  if (arity.maximum == kUnlimited) return std::to_string(arity.minimum) + " or more";
  return std::to_string(arity.minimum) + " to " + std::to_string(arity.maximum);
}

// "int, default -1, in [-8, 7]".
std::string attribute_text(const AttrSpec& spec) {
  std::string text(name_of(spec.type));
  if (spec.required) text += ", required";
  if (!spec.default_text.empty()) text += ", default " + std::string(spec.default_text);
  if (!spec.required && spec.default_text.empty()) text += ", optional";
  const auto number = [](double value) { return Json(value).dump(); };
  if (std::isfinite(spec.minimum) && std::isfinite(spec.maximum)) {
    text += ", in [" + number(spec.minimum) + ", " + number(spec.maximum) + "]";
  } else if (std::isfinite(spec.minimum)) {
    text += ", at least " + number(spec.minimum);
  } else if (std::isfinite(spec.maximum)) {
    text += ", at most " + number(spec.maximum);
  }
  for (size_t i = 0; i < spec.choices.size(); ++i) {
    text += (i == 0 ? ", one of " : " | ") + std::string(spec.choices[i]);
  }
  return text;
}

// All dtypes of an op on one device.
ConformanceRun total_run(std::string_view op, size_t device) {
  ConformanceRun total;
  for (const ConformanceRow& row : conformance_rows(op)) {
    total.cases += row.runs.at(device).cases;
    total.worst_ratio = std::max(total.worst_ratio, row.runs.at(device).worst_ratio);
  }
  return total;
}

// "0.83", "exact", "0.83 (40 of 43 cases)", "not run"; "-" of an op without cases.
std::string run_text(std::string_view op, size_t device) {
  const ConformanceRun run = total_run(op, device);
  if (run.cases == 0) return conformance_rows(op).empty() ? "-" : "not run";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", run.worst_ratio);
  const uint32_t all = total_run(op, 0).cases;
  return (run.worst_ratio == 0 ? std::string("exact") : std::string(text.data())) +
         (run.cases == all
              ? ""
              : " (" + std::to_string(run.cases) + " of " + std::to_string(all) + " cases)");
}

// "f32 4, f16 1": dtypes with the number of their cases.
std::string dtypes_text(std::string_view op) {
  std::string text;
  for (const ConformanceRow& row : conformance_rows(op)) {
    text += (text.empty() ? "" : ", ") + std::string(row.dtype) + " " +
            std::to_string(row.runs[0].cases);
  }
  return text;
}

// Targets on one of whose devices cases of the op ran.
std::string targets_text(std::string_view op) {
  std::vector<std::string_view> targets;
  std::string text;
  for (size_t device = 0; device < kConformanceDevices; ++device) {
    const std::string_view target = conformance_devices()[device].target;
    if (total_run(op, device).cases == 0 || std::ranges::find(targets, target) != targets.end())
      continue;
    targets.push_back(target);
    text += (text.empty() ? "" : ", ") + std::string(target);
  }
  return text;
}

// "llvmpipe" of "llvmpipe (LLVM 15.0.6, 256 bits)".
std::string short_name(const ConformanceDevice& device) {
  return std::string(device.name.substr(0, device.name.find(" (")));
}

void print_conformance(std::string_view op) {
  if (conformance_rows(op).empty()) return;
  std::string runs;
  for (size_t device = 0; device < kConformanceDevices; ++device) {
    const ConformanceDevice& known = conformance_devices()[device];
    runs += (device == 0 ? "" : "; ") + short_name(known) + ", " + std::string(known.target) +
            ": " + run_text(op, device);
  }
  std::printf("    %u cases: %s; targets %s\n    worst error over its bound: %s\n",
              total_run(op, 0).cases, dtypes_text(op).c_str(), targets_text(op).c_str(),
              runs.c_str());
}

// The compiler's own, then registered extensions.
std::vector<const OpDef*> known_ops() {
  std::vector<const OpDef*> ops(all_ops().begin(), all_ops().end());
  const std::vector<const OpDef*> extensions = registered_ops();
  ops.insert(ops.end(), extensions.begin(), extensions.end());
  return ops;
}

void print_text() {
  for (const OpDef* op : known_ops()) {
    std::printf("%.*s\n", static_cast<int>(op->signature.size()), op->signature.data());
    std::printf("    inputs %s, outputs %s\n", arity_text(op->inputs).c_str(),
                arity_text(op->outputs).c_str());
    const Extension* extension = find_extension(op->name);
    if (extension != nullptr && !extension->summary.empty())
      std::printf("    %s\n", extension->summary.c_str());
    print_conformance(op->name);
    for (const AttrSpec& spec : op->attrs) {
      std::printf("    %.*s: %s\n", static_cast<int>(spec.name.size()), spec.name.data(),
                  attribute_text(spec).c_str());
    }
  }
}

// As a model names it: with its domain, where that is not the default one.
std::string onnx_name(const OnnxOperator& op) {
  return op.domain.empty() ? op.name : op.domain + "." + op.name;
}

void print_onnx() {
  for (const OnnxOperator& op : onnx_operators()) std::printf("%s\n", onnx_name(op).c_str());
}

// "6, 13": the definitions in force from the oldest opset that is read as it stands.
std::string opsets_text(const OnnxOperator& op) {
  std::string text;
  for (size_t i = 0; i < op.opsets.size(); ++i) {
    const bool is_superseded = i + 1 < op.opsets.size() && op.opsets[i + 1] <= kOldestWholeOpset;
    if (!is_superseded) text += (text.empty() ? "" : ", ") + std::to_string(op.opsets[i]);
  }
  return text;
}

void print_onnx_markdown() {
  std::puts("<!-- Made by `rlxc ops --onnx --markdown`; a test checks that it is current. -->");
  std::puts("# Operators of ONNX that are read");
  std::printf(
      "\nOf the default domain, in models of opset %lld to %lld, and those of com.microsoft that "
      "onnxruntime's optimizer writes.\nBeside each operator stand the opsets "
      "that defined it: a node is\nread as the newest one that is not newer than the model's says. "
      "In models of older opsets a node is read where its\ndefinition said the same, and refused "
      "by "
      "name where it did not. What a definition allows and rlx lacks (element types,\nattributes, "
      "inputs that must be known when the model is compiled) is refused at the node with its "
      "reason.\n\n| operator | opsets |\n|---|---|\n",
      static_cast<long long>(kOldestWholeOpset), static_cast<long long>(kNewestOpset));
  const std::vector<OnnxOperator> operators = onnx_operators();
  for (const OnnxOperator& op : operators)
    std::printf("| %s | %s |\n", onnx_name(op).c_str(), opsets_text(op).c_str());
  std::printf("\n%zu operators.\n", operators.size());
}

// Whether anything is written for a name: its own operators, or control flow's.
bool is_read(const reference_ir::Alias& alias) {
  const auto control = reference_ir::control_aliases();
  const bool is_control =
      std::ranges::find(control, alias.name, &reference_ir::Alias::name) != control.end();
  return alias.express != nullptr || is_control;
}

void print_reference() {
  for (const reference_ir::Alias* alias : reference_ir::all_aliases()) {
    if (is_read(*alias))
      std::printf("%.*s\n", static_cast<int>(alias->name.size()), alias->name.data());
  }
}

struct ReferenceSystem {
  const char* name;
  char letter;
  uint8_t bit;
};
constexpr ReferenceSystem kReferenceSystems[] = {{"rlx-vulkan", 'V', reference_ir::kVulkan},
                                                 {"rlx-wgpu", 'W', reference_ir::kWgpu},
                                                 {"rlx-cuda", 'C', reference_ir::kCuda}};

void print_reference_markdown() {
  std::puts(
      "<!-- Made by `rlxc ops --reference --markdown`; a test checks that it is current. -->");
  std::puts("# Names of the reference IR that are read");
  std::puts(
      "\nA graph file may name operators as rlx-vulkan, rlx-wgpu and rlx-cuda do "
      "([how](../README.md#reference-graphs)). Beside each name stands what\nexpresses it, and V, "
      "W, C "
      "where these three compute it themselves, on the GPU or on the host. The last table has the "
      "names that are\nrefused, each with its reason.\n\n| name | systems | here |\n|---|---|---|");
  std::vector<const reference_ir::Alias*> refused;
  size_t count = 0;
  for (const reference_ir::Alias* alias : reference_ir::all_aliases()) {
    if (!is_read(*alias)) {
      refused.push_back(alias);
      continue;
    }
    ++count;
    std::string systems;
    for (const ReferenceSystem& system : kReferenceSystems) {
      if ((alias->systems & system.bit) != 0) systems += system.letter;
    }
    std::printf("| `%s` | %s | %s |\n", std::string(alias->name).c_str(), systems.c_str(),
                std::string(alias->as).c_str());
  }
  std::puts("\n| name | why not |\n|---|---|");
  for (const reference_ir::Alias* alias : refused)
    std::printf("| `%s` | %s |\n", std::string(alias->name).c_str(),
                std::string(alias->as).c_str());
  std::printf(
      "\n%zu names are read, %zu are not. Covered, with leaves (`Input`, `Param`, `Constant`):",
      count, refused.size());
  for (const ReferenceSystem& system : kReferenceSystems) {
    size_t claimed = 3;
    size_t read = 3;
    for (const reference_ir::Alias* alias : reference_ir::all_aliases()) {
      if ((alias->systems & system.bit) == 0) continue;
      ++claimed;
      read += is_read(*alias) ? 1 : 0;
    }
    std::printf("%s %s %zu of %zu", system.letter == 'V' ? "" : ",", system.name, read, claimed);
  }
  std::puts(".");
}

Json arity_json(const Arity& arity) {
  return {{"minimum", arity.minimum},
          {"maximum", arity.maximum == kUnlimited ? Json() : Json(arity.maximum)}};
}

Json attribute_json(const AttrSpec& spec) {
  Json json = {{"name", spec.name}, {"type", name_of(spec.type)}, {"required", spec.required}};
  if (!spec.default_text.empty()) {
    const Json value = Json::parse(spec.default_text, nullptr, false);
    json["default"] = value.is_discarded() ? Json(spec.default_text) : value;
  }
  if (std::isfinite(spec.minimum)) json["minimum"] = spec.minimum;
  if (std::isfinite(spec.maximum)) json["maximum"] = spec.maximum;
  if (!spec.choices.empty())
    json["choices"] = std::vector<std::string>(spec.choices.begin(), spec.choices.end());
  return json;
}

Json conformance_json(std::string_view op) {
  Json rows = Json::array();
  for (const ConformanceRow& row : conformance_rows(op)) {
    Json runs = Json::array();
    for (size_t device = 0; device < kConformanceDevices; ++device) {
      const ConformanceDevice& known = conformance_devices()[device];
      if (row.runs.at(device).cases == 0) continue;
      runs.push_back({{"target", known.target},
                      {"device", known.name},
                      {"cases", row.runs.at(device).cases},
                      {"worst_ratio", row.runs.at(device).worst_ratio}});
    }
    rows.push_back({{"dtype", row.dtype}, {"runs", runs}});
  }
  return rows;
}

void print_markdown() {
  std::string head = "| operator | cases by dtype | targets | cases |";
  std::string rule = "|---|---|---|---|";
  std::printf(
      "# Operators\n\n"
      "What `rlxc ops --markdown` prints; `rlxc ops` lists attributes and ranges too. Each "
      "operator "
      "has a table of cases in\n`tests/conformance`, checked against the f64 evaluator and, where "
      "given, against golden values. Dtypes are those of the\nfirst input; an operator without "
      "cases is refused by name, comes from another one while compiling, or changes a state and "
      "has\ntests of its own. The last columns give the largest error seen over its bound, "
      "on:\n\n");
  for (const ConformanceDevice& device : conformance_devices()) {
    std::printf("- %.*s, %.*s: %.*s, %.*s\n", static_cast<int>(device.name.size()),
                device.name.data(), static_cast<int>(device.target.size()), device.target.data(),
                static_cast<int>(device.driver.size()), device.driver.data(),
                static_cast<int>(device.date.size()), device.date.data());
    head += " " + short_name(device) + ", " + std::string(device.target) + " |";
    rule += "---|";
  }
  std::printf("\n%s\n%s\n", head.c_str(), rule.c_str());
  uint32_t cases = 0;
  for (const OpDef* op : all_ops()) {
    std::string line = "| `" + std::string(op->signature) + "` | " + dtypes_text(op->name) + " | " +
                       targets_text(op->name) + " | " +
                       std::to_string(total_run(op->name, 0).cases) + " |";
    for (size_t device = 0; device < kConformanceDevices; ++device)
      line += " " + run_text(op->name, device) + " |";
    cases += total_run(op->name, 0).cases;
    std::printf("%s\n", line.c_str());
  }
  std::printf("\n%zu operators, %u cases.\n", all_ops().size(), cases);
}

void print_json() {
  Json ops = Json::array();
  for (const OpDef* op : known_ops()) {
    Json attributes = Json::array();
    for (const AttrSpec& spec : op->attrs) attributes.push_back(attribute_json(spec));
    ops.push_back({{"name", op->name},
                   {"signature", op->signature},
                   {"inputs", arity_json(op->inputs)},
                   {"outputs", arity_json(op->outputs)},
                   {"attributes", attributes},
                   {"elementwise", op->scalar != nullptr},
                   {"conformance", conformance_json(op->name)}});
  }
  const Json json = {{"schema_version", tool::kJsonSchemaVersion}, {"operators", std::move(ops)}};
  std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace

void add_ops_command(CLI::App& app, Action& action) {
  const auto json = std::make_shared<bool>(false);
  const auto markdown = std::make_shared<bool>(false);
  const auto extensions = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand(
      "ops", "List the operators with their attributes, and what their tests found");
  command->add_flag("--json", *json, "As JSON");
  command
      ->add_flag("--markdown", *markdown,
                 "As the table compiler/ops/OPERATORS.md, or compiler/import/onnx/OPERATORS.md, or "
                 "compiler/import/reference_ir/OPERATORS.md")
      ->excludes("--json");
  const auto onnx = std::make_shared<bool>(false);
  command->add_flag("--onnx", *onnx, "The operators of ONNX that are read")->excludes("--json");
  const auto reference = std::make_shared<bool>(false);
  command->add_flag("--reference", *reference, "The names of the reference IR that are read")
      ->excludes("--json")
      ->excludes("--onnx");
  command
      ->add_option("--extension", extensions->extensions,
                   "Folder with extension.json, whose ops are listed too; may be repeated")
      ->type_name("DIR")
      ->allow_extra_args(false)
      ->excludes("--markdown");
  command->callback([json, markdown, onnx, reference, extensions, &action] {
    action = [json, markdown, onnx, reference, extensions] {
      Diagnostics diagnostics;
      if (!load_extensions(*extensions, diagnostics)) return report(diagnostics);
      if (*reference && *markdown)
        print_reference_markdown();
      else if (*reference)
        print_reference();
      else if (*onnx && *markdown)
        print_onnx_markdown();
      else if (*onnx)
        print_onnx();
      else if (*json)
        print_json();
      else if (*markdown)
        print_markdown();
      else
        print_text();
      return kExitOk;
    };
  });
}

}  // namespace rlx
