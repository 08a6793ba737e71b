// SPDX-License-Identifier: Apache-2.0
// Conformance of fused elementwise regions.
#include <string>
#include <utility>

#include "tests/conformance/elementwise.h"

namespace rlx::test {
namespace {

Case region(std::string law, std::vector<CaseTensor> inputs, std::vector<RegionStep> steps,
            Tolerance tolerance) {
  Case test{.name = std::move(law),
            .op = "ew_region",
            .inputs = {},
            .tolerance = tolerance,
            .region = std::move(steps)};
  for (CaseTensor& input : inputs) test.inputs.emplace_back(std::move(input));
  return test;
}

RegionStep step(std::string op, std::vector<uint32_t> operands, DType dtype = DType::f32,
                Attributes attributes = {}) {
  return {.op = std::move(op),
          .attributes = std::move(attributes),
          .operands = std::move(operands),
          .dtype = dtype};
}

// The few attributes that unary_float_ops uses are single numbers: {"name": value, ...}.
Attributes parse_numbers(const std::string& text) {
  Attributes attributes;
  for (size_t quote = text.find('"'); quote != std::string::npos; quote = text.find('"', quote)) {
    const size_t end = text.find('"', quote + 1);
    const size_t colon = text.find(':', end);
    attributes[text.substr(quote + 1, end - quote - 1)] = std::stod(text.substr(colon + 1));
    quote = colon;
  }
  return attributes;
}

void add_unary(std::vector<Case>& cases) {
  for (const UnaryOp& op : unary_float_ops()) {
    cases.push_back(
        region("T27 T33 " + op.name + " " + op.attributes + " inside a region",
               {tensor(DType::f32, {131}).edges()},
               {step(op.name, {0}, DType::f32, parse_numbers(op.attributes)), step("neg", {1})},
               op.tolerance));
  }
}

void add_broadcasts(std::vector<Case>& cases) {
  cases.push_back(region("T22 [4,1] + [4,3] in a region",
                         {tensor(DType::f32, {4, 1}), tensor(DType::f32, {4, 3})},
                         {step("add", {0, 1}), step("relu", {2})}, Tolerance::Arith));
  cases.push_back(region("T22 [1,3,1,2] + [2,3,5,2] in a region",
                         {tensor(DType::f32, {1, 3, 1, 2}), tensor(DType::f32, {2, 3, 5, 2})},
                         {step("add", {0, 1}), step("neg", {2})}, Tolerance::Arith));
  cases.push_back(region(
      "T23 the steps' shapes grow",
      {tensor(DType::f32, {1, 4}), tensor(DType::f32, {4, 1}), tensor(DType::f32, {3, 1, 1})},
      {step("mul", {0, 1}), step("max", {3, 2})}, Tolerance::Arith));
  cases.push_back(region("bias and activation over rows",
                         {tensor(DType::f32, {37, 128}), tensor(DType::f32, {128})},
                         {step("add", {0, 1}), step("gelu", {2})}, Tolerance::Transc));
  cases.push_back(region("scale per row, rows not a multiple of 4",
                         {tensor(DType::f16, {37, 129}), tensor(DType::f16, {37, 1})},
                         {step("mul", {0, 1}, DType::f16), step("abs", {2}, DType::f16)},
                         Tolerance::Arith));
  cases.push_back(region("T19 nothing to do", {tensor(DType::f32, {0, 4}), tensor(DType::f32, {4})},
                         {step("add", {0, 1}), step("neg", {2})}, Tolerance::Arith));
  cases.push_back(
      region("rank 8",
             {tensor(DType::f32, {2, 1, 2, 3, 1, 2, 2, 4}), tensor(DType::f32, {2, 1, 2, 2, 1, 4})},
             {step("sub", {0, 1}), step("neg", {2})}, Tolerance::Arith));
}

void add_types(std::vector<Case>& cases) {
  Case rounded =
      region("T2 a cast to f16 inside a region rounds", {tensor(DType::f32, {1}).of({1 + 0x1p-12})},
             {step("cast", {0}, DType::f16, {{"to", "f16"}}),
              step("cast", {1}, DType::f32, {{"to", "f32"}})},
             Tolerance::Exact);
  rounded.golden = {{1.0}};
  cases.push_back(std::move(rounded));
  cases.push_back(region("compare and where inside a region",
                         {tensor(DType::f32, {211}).edges(), tensor(DType::f32, {211})},
                         {step("gt", {0, 1}, DType::bool_), step("where", {2, 0, 1})},
                         Tolerance::Exact));
  cases.push_back(
      region("narrow integers wrap between steps",
             {tensor(DType::i8, {517}).edges(), tensor(DType::i8, {517}).edges()},
             {step("add", {0, 1}, DType::i8), step("cast", {2}, DType::i32, {{"to", "i32"}}),
              step("square", {3}, DType::i32)},
             Tolerance::Exact));
  cases.push_back(region("unsigned bytes wrap between steps",
                         {tensor(DType::u8, {517}).edges(), tensor(DType::u8, {517}).edges()},
                         {step("sub", {0, 1}, DType::u8), step("shift_right", {2, 1}, DType::u8),
                          step("cast", {3}, DType::f32, {{"to", "f32"}})},
                         Tolerance::Exact));
  cases.push_back(region(
      "i64 and f32 in one region", {tensor(DType::i64, {97}), tensor(DType::f32, {97})},
      {step("cast", {0}, DType::f32, {{"to", "f32"}}), step("mul", {1, 2})}, Tolerance::Arith));
  for (const char* op : {"abs", "sign"}) {
    cases.push_back(
        region(std::string("a 32-bit value extended to 64 bits keeps its sign for ") + op,
               {tensor(DType::i32, {97}).edges()},
               {step("cast", {0}, DType::i64, {{"to", "i64"}}), step(op, {1}, DType::i64)},
               Tolerance::Exact));
    cases.push_back(
        region(std::string("an unsigned value extended to 64 bits stays positive for ") + op,
               {tensor(DType::u32, {97}).edges()},
               {step("cast", {0}, DType::i64, {{"to", "i64"}}), step(op, {1}, DType::i64)},
               Tolerance::Exact));
  }
  cases.push_back(
      region("bool in, bool out",
             {tensor(DType::bool_, {97}), tensor(DType::bool_, {97}), tensor(DType::f32, {97})},
             {step("logical_and", {0, 1}, DType::bool_), step("is_nan", {2}, DType::bool_),
              step("logical_xor", {3, 4}, DType::bool_)},
             Tolerance::Exact));
  cases.push_back(region(
      "bf16 chain rounds once at the end", {tensor(DType::bf16, {260}), tensor(DType::bf16, {260})},
      {step("mul", {0, 1}, DType::bf16), step("abs", {2}, DType::bf16)}, Tolerance::Arith));
  cases.push_back(region("functions that are called", {tensor(DType::f32, {130})},
                         {step("sin", {0}), step("cos", {1}), step("sin", {2}), step("cos", {3})},
                         Tolerance::Transc));
  cases.push_back(region("an input read twice", {tensor(DType::f32, {64})},
                         {step("mul", {0, 0}), step("add", {1, 0})}, Tolerance::Norm));
}

void add_many_inputs(std::vector<Case>& cases) {
  std::vector<CaseTensor> inputs;
  std::vector<RegionStep> steps;
  for (uint32_t i = 0; i < 15; ++i) inputs.push_back(tensor(DType::f32, {3, 40}).uniform(1, 2));
  for (uint32_t i = 1; i < 15; ++i) steps.push_back(step("max", {i == 1 ? 0 : 13 + i, i}));
  cases.push_back(region("15 inputs", std::move(inputs), std::move(steps), Tolerance::Arith));
}

// Chains as graph files write them.
void add_texts(std::vector<Case>& cases) {
  cases.push_back(
      {.name = "T22 a chain of a graph file",
       .op = "ew_region",
       .inputs = {tensor(DType::f32, {4, 1}), tensor(DType::f32, {4, 3})},
       .attributes =
           R"j({"chain": ["add(0, 1)", "clamp(2; min=-0.5, max=inf)", "cast(3; to=f16)"]})j",
       .tolerance = Tolerance::Arith});
  cases.push_back({.name = "T22 a modulus of a suffix is its broadcast",
                   .op = "ew_region",
                   .inputs = {tensor(DType::f32, {3, 5}), tensor(DType::f32, {5})},
                   .attributes = R"j({"chain": ["mul(0, 1)"], "input_modulus": [0, 5]})j",
                   .tolerance = Tolerance::Arith});
  for (const DType dtype : {DType::f32, DType::f64}) {
    cases.push_back({.name = "a remainder of zero has the divisor's sign",
                     .op = "ew_region",
                     .inputs = {tensor(dtype, {4}).of({0.0, -0.0, -6.0, 6.0}),
                                tensor(dtype, {4}).of({-2, 2, 3, -3})},
                     .attributes = R"j({"chain": ["mod(0, 1)", "reciprocal(2)"]})j",
                     .tolerance = Tolerance::Exact});
  }
  cases.push_back({.name = "an input at half the height and width",
                   .op = "ew_region",
                   .inputs = {tensor(DType::f32, {1, 2, 4, 6}), tensor(DType::f32, {1, 2, 2, 3})},
                   .attributes = R"j({"chain": ["add(0, 1)", "relu(2)"], "upsample_input": 1})j",
                   .tolerance = Tolerance::Arith});
  cases.push_back({.name = "an upsampled input alone",
                   .op = "ew_region",
                   .inputs = {tensor(DType::f16, {1, 1, 1, 2}).of({1, 2})},
                   .attributes = R"j({"chain": ["neg(0)"], "upsample_input": 0})j",
                   .golden = {{-1, -1, -2, -2, -1, -1, -2, -2}}});
  cases.push_back({.name = "positions inside a region",
                   .op = "ew_region",
                   .inputs = {tensor(DType::f32, {3, 5, 8})},
                   .attributes = R"j({"chain": ["neg(0)", "trilu(1; k=1, upper=false)"]})j"});
  cases.push_back(
      {.name = "one chain over three slices",
       .op = "batch_ew_region",
       .inputs = {tensor(DType::f32, {2, 5}), tensor(DType::f32, {5}), tensor(DType::f32, {2, 5}),
                  tensor(DType::f32, {5}), tensor(DType::f32, {2, 5}), tensor(DType::f32, {5})},
       .attributes = R"j({"chain": ["add(0, 1)", "relu(2)"], "slices": 3})j",
       .tolerance = Tolerance::Arith});
  cases.push_back(
      {.name = "a slice over itself",
       .op = "batch_ew_region",
       .inputs = {tensor(DType::i64, {3}).of({1, 2, 3}), tensor(DType::i64, {3}).of({4, 5, 6})},
       .attributes = R"j({"chain": ["mul(0, 0)"], "slices": 2})j",
       .golden = {{1, 4, 9, 16, 25, 36}}});
}

}  // namespace

std::vector<Case> ew_region_cases() {
  std::vector<Case> cases;
  add_unary(cases);
  add_broadcasts(cases);
  add_types(cases);
  add_many_inputs(cases);
  add_texts(cases);
  return cases;
}

}  // namespace rlx::test
