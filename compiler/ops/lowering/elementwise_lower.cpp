// SPDX-License-Identifier: Apache-2.0
// Lowering of an elementwise node or an ew_region to one region dispatch.
#include <algorithm>
#include <iterator>
#include <map>

#include "compiler/ops/lowering/elementwise.h"
#include "compiler/ops/lowering/elementwise_region.h"
#include "compiler/ops/lowering/lower_context.h"
#include "compiler/ops/lowering/positions.h"
#include "compiler/ops/lowering/region_codegen.h"
#include "compiler/ops/lowering/scalar_cost.h"
#include "compiler/support/blocks.h"
#include "compiler/support/check.h"

namespace rlx {
namespace {

// Ops whose expressions for f64 need nothing but lib/scalar.
constexpr std::string_view kPlainDoubleOps[] = {
    "neg",        "abs",          "sign",        "floor",
    "ceil",       "trunc",        "round",       "sqrt",
    "rsqrt",      "reciprocal",   "square",      "relu",
    "leaky_relu", "softsign",     "affine",      "thresholded_relu",
    "shrink",     "hard_sigmoid", "hard_swish",  "is_nan",
    "is_inf",     "add",          "sub",         "mul",
    "div",        "max",          "min",         "eq",
    "ne",         "lt",           "le",          "gt",
    "ge",         "where",        "clamp",       "prelu",
    "fma",        "cast",         "standardise", "scaled",
    "ramp",       "eye",          "trilu",       "one_hot_at"};

// The node as a chain: its own region, whose last steps are its outputs, or itself as the only
// step.
std::vector<RegionStep> steps_of(LowerContext& ctx) {
  const Node& node = ctx.node();
  if (!node.region.empty()) return node.region;
  RegionStep step{.op = node.op,
                  .attributes = node.attributes,
                  .operands = {},
                  .dtype = ctx.output_type(0).dtype};
  for (uint32_t i = 0; i < node.inputs.size(); ++i) step.operands.push_back(i);
  return {step};
}

// True where a step calls a function of doubles.
bool calls_double_functions(const LowerContext& ctx, const std::vector<RegionStep>& steps) {
  const size_t inputs = ctx.input_count();
  const auto is_double = [&](uint32_t operand) {
    if (operand >= inputs) return steps[operand - inputs].dtype == DType::f64;
    return ctx.has_input(operand) && ctx.input_type(operand).dtype == DType::f64;
  };
  return std::any_of(steps.begin(), steps.end(), [&](const RegionStep& step) {
    const bool doubles = step.dtype == DType::f64 ||
                         std::any_of(step.operands.begin(), step.operands.end(), is_double);
    return doubles && !has_plain_double_form(step.op);
  });
}

// True where the node reads, writes or passes through a dtype that `matches`.
template <typename Predicate>
bool meets_dtype(const LowerContext& ctx, const std::vector<RegionStep>& steps,
                 const Predicate& matches) {
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (ctx.has_input(i) && matches(ctx.input_type(i).dtype)) return true;
  }
  return std::any_of(steps.begin(), steps.end(),
                     [&](const RegionStep& step) { return matches(step.dtype); });
}

bool same_operand(const RegionOperand& a, const RegionOperand& b) {
  return a.view.buffer == b.view.buffer && a.view.offset_bytes == b.view.offset_bytes &&
         a.view.type == b.view.type && a.view.strides == b.view.strides;
}

// The kernel's operands, each distinct view once, and for every input of the node the name of the
// local that holds it; a missing optional input has an empty name.
struct RegionInputs {
  std::vector<RegionOperand> operands;
  std::vector<std::string> names;
  std::vector<DType> dtypes;
};

RegionInputs gather_inputs(LowerContext& ctx) {
  RegionInputs inputs;
  std::map<BufferId, std::vector<size_t>> seen;  // operands by the buffer that they lie in
  std::map<ValueId, size_t> joined;              // the first parts of values that stand in parts
  for (size_t i = 0; i < ctx.input_count(); ++i) {
    if (!ctx.has_input(i)) {
      inputs.names.emplace_back();
      inputs.dtypes.push_back(DType::f32);
      continue;
    }
    inputs.dtypes.push_back(ctx.input_type(i).dtype);
    if (const JoinedParts* parts = ctx.state().joined(*ctx.node().inputs[i])) {
      const auto [first, added] = joined.try_emplace(*ctx.node().inputs[i], inputs.operands.size());
      if (added) append_joined(inputs.operands, *parts, element_storage(ctx.input_type(i).dtype));
      inputs.names.push_back("x" + std::to_string(first->second + 1));
      continue;
    }
    const RegionOperand operand{.view = ctx.input(i),
                                .storage = element_storage(ctx.input_type(i).dtype)};
    std::vector<size_t>& beside = seen[operand.view.buffer];
    const auto found = std::find_if(beside.begin(), beside.end(), [&](size_t other) {
      return same_operand(operand, inputs.operands[other]);
    });
    const size_t index = found == beside.end() ? inputs.operands.size() : *found;
    if (found == beside.end()) {
      beside.push_back(index);
      inputs.operands.push_back(operand);
    }
    inputs.names.push_back("x" + std::to_string(index + 1));
  }
  return inputs;
}

// What rlx_element gives back of the steps, which stand in t0, t1, ...
std::string results_text(const LowerContext& ctx, size_t steps) {
  const size_t outputs = ctx.node().outputs.size();
  const auto step = [&](size_t output) { return "t" + std::to_string(steps - outputs + output); };
  std::string text;
  for (size_t r = 1; r < outputs; ++r) text += "r" + std::to_string(r) + " = " + step(r) + ";\n";
  return text + "return " + step(0) + ";\n";
}

std::vector<RegionOperand> more_outputs(LowerContext& ctx) {
  std::vector<RegionOperand> outputs;
  for (size_t r = 1; r < ctx.node().outputs.size(); ++r) {
    outputs.push_back(
        {.view = ctx.output(r), .storage = element_storage(ctx.output_type(r).dtype)});
  }
  return outputs;
}

}  // namespace

bool has_plain_double_form(std::string_view op) {
  return std::find(std::begin(kPlainDoubleOps), std::end(kPlainDoubleOps), op) !=
         std::end(kPlainDoubleOps);
}

bool lower_elementwise(LowerContext& ctx) {
  const std::vector<RegionStep> steps = steps_of(ctx);
  RegionInputs inputs = gather_inputs(ctx);
  const bool counts_outside = std::any_of(
      steps.begin(), steps.end(), [](const RegionStep& step) { return reads_index(step.op); });
  const size_t most = kMaxRegionOperands - (counts_outside ? 1 : 0);
  if (inputs.operands.size() > most) {
    return ctx.fail(DiagCode::Limit,
                    "a region of " + std::to_string(inputs.operands.size()) + " inputs" +
                        (counts_outside ? ", one of them indices" : "") + ", wanted at most " +
                        std::to_string(most),
                    "split the region");
  }
  // generate_chain checks that each step uses all of its attributes.
  const GeneratedChain chain = generate_chain(steps, inputs.names, inputs.dtypes);
  for (const auto& [name, value] : ctx.node().attributes) {
    RLX_CHECK(ctx.attrs().has(name), "attribute " + name + " of " + ctx.node().name);
  }
  const std::string subject =
      steps.size() == 1 ? "one op" : "region of " + std::to_string(steps.size()) + " ops";
  emit_region(ctx.program(), ctx.new_step(),
              {.output = ctx.output(0),
               .output_storage = element_storage(ctx.output_type(0).dtype),
               .operands = std::move(inputs.operands),
               .element_text = chain.text + results_text(ctx, steps.size()),
               .more_outputs = more_outputs(ctx),
               .coordinates = chain.coordinates,
               .counts_outside = counts_outside,
               .operations = steps.size(),
               .cost = chain_cost(steps, inputs.dtypes),
               .subject = subject,
               .double_functions = calls_double_functions(ctx, steps),
               .float8_functions = meets_dtype(ctx, steps, is_float8),
               .complex_functions =
                   meets_dtype(ctx, steps, [](DType dtype) { return dtype == DType::c64; }),
               .random_functions =
                   std::any_of(steps.begin(), steps.end(),
                               [](const RegionStep& step) { return draws_random(step.op); }),
               .words = ctx.word_use()});
  return true;
}

}  // namespace rlx
