// SPDX-License-Identifier: Apache-2.0
// `rlxc self-test`: puts inputs and the outputs that they must give into a plan.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "compiler/import/import.h"
#include "compiler/reference/evaluate.h"
#include "runtime/plan/plan_view.h"
#include "tools/rlxc/commands.h"
#include "tools/rlxc/model_inputs.h"
#include "tools/rlxc/report.h"
#include "tools/rlxrun/inputs.h"
#include "tools/rlxrun/self_test.h"
#include "tools/rlxrun/usual_bound.h"

namespace rlx {
namespace {

struct SelfTestArguments {
  std::string plan;
  std::string model;
  std::vector<std::string> inputs;
  bool seeded = false;
  std::string entry;
  ImportArguments import;
};

// What no file gives, as `rlxrun --seeded` makes it.
void add_seeded(const Graph& graph, Arrays& arrays) {
  constexpr int64_t kBelow = 8;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    if (arrays.contains(value.name)) continue;
    const tool::Tensor tensor{
        .name = value.name,
        .dtype = static_cast<uint32_t>(value.type.dtype),
        .dims = std::vector<uint64_t>(value.type.shape.begin(), value.type.shape.end()),
        .size_bytes = static_cast<uint64_t>(byte_size(value.type))};
    arrays[value.name] = tool::seeded_array(tensor, 0, kBelow);
  }
}

// The values at which the model was evaluated of the symbols that the plan leaves free. Says what
// is missing.
std::optional<std::vector<tool::SymbolValue>> free_symbols(
    const PlanView& plan, const std::map<std::string, int64_t>& dims) {
  std::vector<tool::SymbolValue> symbols;
  for (const fb::Symbol* symbol : *plan.index().symbols()) {
    if (symbol->bound()) continue;
    const std::string name(PlanView::text(symbol->name()));
    const auto given = dims.find(name);
    if (given == dims.end()) {
      usage_error("the plan leaves symbol \"" + name + "\" to each run: --dim " + name +
                  "=N says for which value the test is");
      return std::nullopt;
    }
    symbols.push_back({.name = name, .value = static_cast<uint64_t>(given->second)});
  }
  return symbols;
}

// The case of one run of the reference evaluator, with the bounds that the plan's types call for.
Status make_case(const PlanView& plan, const Graph& graph, const Arrays& inputs,
                 const std::vector<Tensor>& outputs, tool::SelfTestCase& made) {
  made.entry = graph.name;
  for (const ValueId id : graph.inputs)
    made.inputs.emplace_back(graph.value(id).name, inputs.at(graph.value(id).name));
  for (size_t i = 0; i < outputs.size(); ++i) {
    tool::ExpectedArray expected{.name = output_name(graph, i), .array = {}, .bound = {}};
    RLX_RETURN_IF_ERROR(array_of(expected.name, outputs[i], true, expected.array));
    expected.bound = tool::usual_bound(static_cast<uint32_t>(outputs[i].type.dtype),
                                       PlanView::text(plan.index().precision()), expected.array);
    made.outputs.push_back(std::move(expected));
  }
  return {};
}

// A case of the same entry and sizes gives way to the new one.
int add_case(const std::string& path, const PlanView& plan, tool::SelfTestCase made) {
  std::vector<tool::SelfTestCase> cases;
  if (const Status status = tool::read_self_test(path, plan, cases); !status.ok())
    return refuse(status.message());
  const auto is_same = [&](const tool::SelfTestCase& old) {
    return old.entry == made.entry &&
           std::equal(old.symbols.begin(), old.symbols.end(), made.symbols.begin(),
                      made.symbols.end(),
                      [](const tool::SymbolValue& a, const tool::SymbolValue& b) {
                        return a.name == b.name && a.value == b.value;
                      });
  };
  std::erase_if(cases, is_same);
  cases.push_back(std::move(made));
  if (const Status status = tool::write_self_test(path, plan, cases); !status.ok())
    return report_written(status);
  std::printf("%s: self-test of %zu case%s\n", path.c_str(), cases.size(),
              cases.size() == 1 ? "" : "s");
  return kExitOk;
}

int self_test(const SelfTestArguments& arguments) {
  std::shared_ptr<const PlanView> plan;
  if (const Status status = PlanView::open_file(arguments.plan, {}, plan); !status.ok())
    return refuse(status.message());
  const auto import = parse_model_options(arguments.import);
  if (!import) return kExitUsage;
  const auto symbols = free_symbols(*plan, import->dims);
  if (!symbols) return kExitUsage;
  Diagnostics diagnostics;
  if (!load_extensions(arguments.import, diagnostics)) return report(diagnostics);
  const std::optional<Module> module = load_module(arguments.model, *import, diagnostics);
  if (!module) return report(diagnostics);
  const Graph* graph = find_graph(*module, arguments.entry);
  if (graph == nullptr) return kExitUsage;
  Arrays arrays;
  if (const Status status = read_arguments(arguments.inputs, *graph, arrays); !status.ok())
    return refuse(status.message());
  if (arguments.seeded) add_seeded(*graph, arrays);
  const std::optional<std::vector<Tensor>> inputs = gather_inputs(*graph, arrays);
  if (!inputs) return kExitInputRefused;
  StateValues states;
  const auto outputs = evaluate_entry(*module, *graph, *inputs, states, {}, diagnostics);
  const int code = report(diagnostics);
  if (!outputs) return code != kExitOk ? code : kExitInternal;
  tool::SelfTestCase made;
  made.symbols = *symbols;
  if (const Status status = make_case(*plan, *graph, arrays, *outputs, made); !status.ok())
    return refuse(status.message());
  return add_case(arguments.plan, *plan, std::move(made));
}

}  // namespace

void add_self_test_command(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<SelfTestArguments>();
  CLI::App* command = app.add_subcommand(
      "self-test",
      "Put inputs into a plan, and the outputs that the f64 evaluator expects of them, by which "
      "rlxrun --self-test judges a machine");
  command->add_option("PLAN", arguments->plan, "Plan file, which is written anew")->required();
  command->add_option("--model", arguments->model, "The model that the plan was compiled from")
      ->required()
      ->type_name("FILE");
  command->add_option("--inputs", arguments->inputs,
                      "NAME=FILE.npy, FILE.npz, or FILE.npy for a single input");
  command->add_flag("--seeded", arguments->seeded, "Random values for inputs that no file gives");
  command->add_option("--entry", arguments->entry, "Entry to test (default: the only one)");
  add_import_options(*command, arguments->import);
  command->add_flag("--auto-promote", arguments->import.auto_promote,
                    "Cast operands of elementwise ops to a common type");
  command->footer(
      "A case of the same entry and sizes is replaced; others stay. Sizes and constants must be "
      "those of the plan.");
  command->callback(
      [arguments, &action] { action = [arguments] { return self_test(*arguments); }; });
}

}  // namespace rlx
