// SPDX-License-Identifier: Apache-2.0
// A kernel of the compiler's at free sizes: splat_fill, whose number of bytes is a count in its
// params, moved from init to an entry of its own.
#include <algorithm>
#include <cstddef>

#include "runtime/api/session.h"
#include "schema/kernel_params.h"
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

constexpr uint64_t kElements = 333;

const char* const kSplatSum = R"({"rlx_graph": 1,
  "params": [{"name": "b", "dtype": "f32", "shape": [333], "data": {"splat": 0.5}}],
  "inputs": [{"name": "x", "dtype": "f32", "shape": [333]}],
  "nodes": [{"op": "add", "inputs": ["x", "b"], "outputs": ["y"]}],
  "outputs": ["y"]})";

bool is_splat(const fb::PlanT& plan, const fb::Step& step) {
  return step.kind() == fb::StepKind::Dispatch && plan.kernels[step.kernel()]->name == "splat_fill";
}

// An entry that fills f32[n] by the step with which init fills a weight; n is symbol 0.
std::unique_ptr<fb::EntryT> filling_entry(const fb::PlanT& plan, const fb::EntryT& init) {
  const auto splat =
      std::ranges::find_if(init.steps, [&](const fb::Step& step) { return is_splat(plan, step); });
  REQUIRE(splat != init.steps.end());
  auto entry = std::make_unique<fb::EntryT>();
  entry->name = "fill";
  entry->targets = init.targets;
  entry->outputs = {0};
  auto& y = *entry->values.emplace_back(std::make_unique<fb::ValueT>());
  y.name = "y";
  y.dims = {kElements};
  y.segment = fb::Segment::Io;
  y.size_bytes = kElements * 4;
  fb::Relocation range = init.relocations[splat->relocation_first()];
  range.mutate_value(0);
  range.mutate_offset_bytes(0);
  entry->relocations = {range};
  fb::Step step = *splat;
  step.mutate_wave(0);
  step.mutate_relocation_first(0);
  step.mutate_edge_first(0);
  step.mutate_edge_count(0);
  entry->steps = {step};
  entry->wave_count = 1;
  entry->sizes = {{0, 0, 0, fb::SizeOp::Symbol},
                  {4, 0, 0, fb::SizeOp::Constant},
                  {0, 0, 1, fb::SizeOp::Multiply}};
  entry->patches = {{0, 0, 0, fb::PatchField::ValueDim},
                    {0, 0, 2, fb::PatchField::ValueBytes},
                    {0, 0, 2, fb::PatchField::RelocationLength},
                    {0, offsetof(SplatParams, bytes_low), 2, fb::PatchField::ParamsLong}};
  return entry;
}

std::shared_ptr<const PlanView> free_plan_of(const std::shared_ptr<const PlanView>& plan) {
  fb::PlanT index;
  plan->index().UnPackTo(&index);
  REQUIRE(index.inits.size() == 1);
  auto n = std::make_unique<fb::SymbolT>();
  n->name = "n";
  n->minimum = 1;
  n->maximum = kElements;
  index.symbols.push_back(std::move(n));
  index.entries.push_back(filling_entry(index, *index.inits[0]));
  flatbuffers::FlatBufferBuilder builder;
  builder.ForceDefaults(true);
  fb::FinishPlanBuffer(builder, fb::Plan::Pack(builder, &index));
  const auto* bytes = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  std::shared_ptr<const PlanView> made;
  const Status status = PlanView::with_index(plan, {bytes, bytes + builder.GetSize()}, made);
  INFO(status.message());
  REQUIRE(status.ok());
  return made;
}

// Whether a graph of free n from 1 to 100 compiles for the tests' targets.
void check_compiles(const std::string& inputs, const std::string& nodes,
                    const std::string& output) {
  const std::string text =
      R"({"rlx_graph": 1, "symbols": [{"name": "n", "min": 1, "max": 100}], "inputs": [)" + inputs +
      R"(], "nodes": [)" + nodes + R"(], "outputs": [")" + output + R"("]})";
  Diagnostics diagnostics;
  const auto source = read_json_graph(text, "test.json", diagnostics);
  INFO(text << diagnostics.text());
  REQUIRE(source.has_value());
  const auto module = bind_module(*source, {}, ".", diagnostics, {{"n", {1, 100, 1}}});
  REQUIRE(module.has_value());
  const auto plan = compile_to_bytes(*module, test_options(2), diagnostics);
  INFO(diagnostics.text());
  CHECK(plan.has_value());
}

}  // namespace

TEST_CASE("whatever_reads_a_free_axis_from_behind_compiles") {
  const std::string reversed = node("reverse", R"("x")", "r", R"({"axes": [1]})") + ", ";
  const std::string rows = input("x", R"([3, "n", 4])");
  check_compiles(rows, reversed + node("reduce_max", R"("r")", "y", R"({"axes": [1]})"), "y");
  check_compiles(rows, reversed + node("softmax", R"("r")", "y", R"({"axis": 1})"), "y");
  check_compiles(rows, reversed + node("exp", R"("r")", "y"), "y");
  check_compiles(rows + ", " + input("w", "[4, 5]"), reversed + node("matmul", R"("r", "w")", "y"),
                 "y");
  // The axis is no longer than 8, but a step along it is as long as the run says.
  const std::string conv = R"({"stride": [1], "pads": [1, 1], "dilation": [1], "groups": 1})";
  check_compiles(input("x", R"([3, 8, "n"])") + ", " + input("w", "[5, 4, 3]"),
                 reversed + node("narrow", R"("r")", "s", R"({"axis": 1, "start": 2, "len": 4})") +
                     ", " + node("conv", R"("s", "w")", "y", conv),
                 "y");
}

TEST_CASE("chains_of_many_inputs_leave_room_for_a_free_size") {
  std::string inputs = input("x0", R"(["n", 4])");
  std::string nodes;
  std::string sum = "x0";
  for (int i = 1; i < 20; ++i) {
    const std::string name = "x" + std::to_string(i);
    inputs += ", " + input(name, R"(["n", 4])");
    nodes += (i > 1 ? ", " : "") +
             node("add", "\"" + sum + "\", \"" + name + "\"", "s" + std::to_string(i));
    sum = "s" + std::to_string(i);
  }
  check_compiles(inputs, nodes, sum);
}

TEST_CASE("parts_that_are_joined_by_one_copy_leave_room_for_free_sizes") {
  std::string inputs;
  std::string names;
  for (int i = 0; i < 31; ++i) {
    const std::string name = "x" + std::to_string(i);
    inputs += (i > 0 ? ", " : "") + input(name, R"(["n", 3, 4])");
    names += (i > 0 ? ", \"" : "\"") + name + "\"";
  }
  check_compiles(inputs, node("concat", names, "y", R"({"axis": 2})"), "y");
}

TEST_CASE("a kernel of the compiler's fills as much as a symbol says") {
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    INFO(device->info().id);
    CompileOptions options = test_options(2);
    options.targets = {device->info().id.substr(0, device->info().id.find(':'))};
    Diagnostics diagnostics;
    const auto fixed = compile_plan(module_from(kSplatSum), options, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(fixed != nullptr);
    const std::shared_ptr<const PlanView> plan = free_plan_of(fixed);
    std::shared_ptr<DevicePlan> loaded;
    std::unique_ptr<Session> session;
    REQUIRE(device->load(*plan, {}, loaded).ok());
    REQUIRE(Session::create(plan, loaded, false, {.max_bindings = 2}, session).ok());
    constexpr uint32_t kFill = 1;
    for (const uint64_t n : {333, 1, 3, 4, 5, 63, 64, 65, 256, 257, 331, 4, 333, 1}) {
      INFO(n);
      REQUIRE(session->set_symbol(kFill, "n", n).ok());
      const Status status = session->run(kFill);
      INFO(status.message());
      REQUIRE(status.ok());
      std::vector<float> y(n);
      REQUIRE(session->read_output(kFill, "y", std::as_writable_bytes(std::span(y))).ok());
      CHECK(y == std::vector<float>(n, 0.5f));
    }
  }
}

}  // namespace rlx::test
