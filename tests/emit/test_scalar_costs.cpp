// SPDX-License-Identifier: Apache-2.0
// The table of costs of elementwise ops against the code that they become.
#include <algorithm>
#include <cstring>
#include <set>

#include "compiler/emit/kernel_sources.h"
#include "compiler/emit/spirv_words.h"
#include "compiler/emit/vulkan_code.h"
#include "compiler/ops/lowering/elementwise_region.h"
#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/scalar_cost.h"
#include "compiler/ops/op_def.h"
#include "tests/support/catch.h"

using namespace rlx;

namespace {

const KernelSources& kernels() {
  static const KernelSources sources = KernelSources::embedded();
  return sources;
}

struct Words {
  size_t instructions = 0;  // of all functions
  size_t functions = 0;
};

Words words_of(const Program& program) {
  const KernelResult result = compile_vulkan(program.kernels.at(0), kernels(), KernelCodeOptions{});
  if (const auto* fault = std::get_if<KernelFault>(&result)) FAIL(fault->message);
  const std::vector<std::byte>& bytes = std::get<KernelCode>(result).bytes;
  std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
  std::memcpy(words.data(), bytes.data(), bytes.size());
  Words found;
  for_each_instruction(words, [&found](const Instruction& instruction) {
    found.functions += instruction.op == spv::OpFunction ? 1 : 0;
    found.instructions += found.functions > 0 ? 1 : 0;
  });
  return found;
}

TensorRef tensor(Program& program, DType dtype) {
  const TensorType type{dtype, {3}};  // too few for four at a time
  const BufferId buffer = program.add_buffer({.name = "b" + std::to_string(program.buffers.size()),
                                              .type = type,
                                              .size_bytes = byte_size(type),
                                              .weight = {},
                                              .state = {},
                                              .input_index = {},
                                              .output_index = {}});
  return {.buffer = buffer, .offset_bytes = 0, .type = type, .strides = {1}};
}

Region region_of(Program& program, const std::vector<RegionStep>& steps,
                 const std::vector<DType>& inputs) {
  const DType result = steps.empty() ? inputs[0] : steps.back().dtype;
  Region region{.output = tensor(program, result),
                .output_storage = element_storage(result),
                .operands = {},
                .element_text = "return x1;\n",
                .subject = "test"};
  std::vector<std::string> names;
  bool doubles = false;
  for (const DType dtype : inputs) {
    region.operands.push_back({.view = tensor(program, dtype), .storage = element_storage(dtype)});
    names.push_back("x" + std::to_string(names.size() + 1));
    doubles = doubles || dtype == DType::f64;
  }
  region.double_functions = doubles || result == DType::f64;
  region.complex_functions = result == DType::c64;
  if (steps.empty()) return region;
  const GeneratedChain chain = generate_chain(steps, names, inputs);
  region.element_text = chain.text + "return " + chain.result + ";\n";
  region.cost = chain_cost(steps, inputs);
  return region;
}

Words words_of(const std::vector<RegionStep>& steps, const std::vector<DType>& inputs) {
  Program program;
  emit_region(program, {}, region_of(program, steps, inputs));
  return words_of(program);
}

// Attributes that an op cannot do without, or whose defaults make less of it.
Attributes attributes_of(std::string_view op) {
  if (op == "powf") return {{"exponent", 2.5}};
  if (op == "affine") return {{"mul", 1.1}, {"add", 0.3}};
  if (op == "cast") return {{"to", std::string("f16")}};
  return {};
}

// The op over operands of one dtype as the step of a chain; nullopt where it does not take them.
std::optional<RegionStep> step_of(const OpDef& op, DType dtype) {
  Graph graph;
  Node node{.name = "n", .op = std::string(op.name), .attributes = attributes_of(op.name)};
  RegionStep step{.op = node.op, .attributes = node.attributes, .operands = {}};
  // A clamp is two comparisons with all its operands only.
  const uint32_t count = op.name == "clamp" ? 3 : op.inputs.minimum;
  for (uint32_t i = 0; i < count; ++i) {
    node.inputs.emplace_back(graph.add_value(
        {.name = "x" + std::to_string(i), .type = {dtype, {3}}, .origin = ValueOrigin::Input}));
    step.operands.push_back(i);
  }
  const ValueId result = graph.add_value({.name = "y"});
  node.outputs = {result};
  const NodeId id = graph.add_node(std::move(node));
  Diagnostics diagnostics;
  if (!check_and_infer(graph, id, diagnostics)) return std::nullopt;
  step.dtype = graph.value(result).type.dtype;
  return step;
}

}  // namespace

TEST_CASE("the table says what elementwise ops cost") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64}) {
    const auto plain = static_cast<int64_t>(words_of({}, {dtype}).instructions);
    for (const OpDef* op : all_ops()) {
      if (op->scalar == nullptr || is_positional(op->name)) continue;
      const std::optional<RegionStep> step = step_of(*op, dtype);
      if (!step) continue;
      const std::vector<DType> operands(step->operands.size(), dtype);
      // Each operand is a load of its own, of five instructions and more.
      const auto measured = static_cast<int64_t>(words_of({*step}, operands).instructions) - plain;
      const auto cost = static_cast<int64_t>(scalar_cost(op->name, operands, step->dtype));
      INFO(op->name << " of " << name_of(dtype) << ": measured " << measured << ", the table says "
                    << cost);
      CHECK(measured <= cost + cost / 4 + 16);
      if (cost > kPlainCost) CHECK(measured >= cost - cost / 4 - 16);
    }
  }
}

TEST_CASE("a region of much code calls its functions, whose code is there once") {
  const auto sines = [](size_t count) {
    std::vector<RegionStep> steps;
    for (uint32_t i = 0; i < count; ++i)
      steps.push_back({.op = "sin", .attributes = {}, .operands = {i}, .dtype = DType::f32});
    return words_of(steps, {DType::f32});
  };
  const Words two = sines(2);
  CHECK(two.functions == 1);
  const Words eight = sines(8);
  CHECK(eight.functions == 2);
  CHECK(eight.instructions < two.instructions);
  CHECK(sines(48).instructions < eight.instructions + 160);
}

TEST_CASE("the kernels mark the functions that the table says are big") {
  const std::set<std::string_view> wanted(big_functions().begin(), big_functions().end());
  std::set<std::string> marked;
  for (const char* path :
       {"shaders/lib/math.inc", "shaders/lib/math64.inc", "shaders/lib/scalar.inc",
        "shaders/lib/special.inc", "shaders/lib/special64.inc"}) {
    const std::string* text = kernels().find(path);
    REQUIRE(text != nullptr);
    const std::string mark = "\nRLX_BIG_FN ";
    for (size_t at = text->find(mark); at != std::string::npos; at = text->find(mark, at + 1)) {
      const size_t name = text->find(' ', at + mark.size()) + 1;
      marked.insert(text->substr(name, text->find('(', name) - name));
    }
  }
  CHECK(std::set<std::string_view>(marked.begin(), marked.end()) == wanted);
}
