// SPDX-License-Identifier: Apache-2.0
// lower_precision: what becomes f16 or bf16 and what stays.
#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

Module lowered(const std::string& body, const std::string& precision = "f16") {
  Module module = module_of(body);
  PassOptions options;
  options.precision = precision;
  apply(lower_precision, module, options);
  return module;
}

DType result_of(const Module& module, const std::string& op) {
  return module.entries[0].value(only_node(module, op).outputs[0]).type.dtype;
}

}  // namespace

TEST_CASE("inputs and outputs stay f32, what lies between does not") {
  const std::string precision = GENERATE("f16", "bf16");
  const Module module =
      lowered(R"("params": [{"name": "w", "dtype": "f32", "shape": [3, 4], "data": {"splat": 0.5}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [2, 3]}],
    "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["p"]}, {"op": "exp", "inputs": ["p"], "outputs": ["y"]}],
    "outputs": ["y", "x"])",
              precision);
  CHECK(node_lines(module) == Lines{"cast(x)", "cast(w)",
                                    "matmul(x." + precision + ", w." + precision + ")", "exp(p)",
                                    "cast(y)"});
  CHECK(output_lines(module) == Lines{"y.f32 : f32[2, 4]", "x : f32[2, 3]"});
  CHECK(name_of(result_of(module, "matmul")) == precision);
}

TEST_CASE("a leaf is cast once for all its readers, an output widened once") {
  const Module module = lowered(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [2]}],
    "nodes": [{"op": "exp", "inputs": ["x"], "outputs": ["a"]}, {"op": "mul", "inputs": ["x", "a"], "outputs": ["y"]}],
    "outputs": ["y", "y"])");
  CHECK(node_lines(module) == Lines{"cast(x)", "exp(x.f16)", "mul(x.f16, a)", "cast(y)"});
  CHECK(module.entries[0].outputs()[0] == module.entries[0].outputs()[1]);
}

TEST_CASE("states keep their type and are read through a cast") {
  const Module module = lowered(R"("states": [{"name": "s", "dtype": "f32", "shape": [2]}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [2]}],
    "nodes": [{"op": "add", "inputs": ["s", "x"], "outputs": ["v"]}, {"op": "state_write", "inputs": ["s", "v"], "outputs": ["n"]},
              {"op": "mul", "inputs": ["n", "v"], "outputs": ["y"]}],
    "outputs": ["y", "n"])");
  CHECK(module.states[0].type.dtype == DType::f32);
  CHECK(node_lines(module) == Lines{"cast(s)", "cast(x)", "add(s.f16, x.f16)", "cast(v)",
                                    "state_write(s, v.f32)", "cast(n)", "mul(n.f16, v)",
                                    "cast(y)"});
  CHECK(output_lines(module)[1] == "n : f32[2]");
}

TEST_CASE("integers, f64 and f16 of the model keep their types") {
  const Module module = lowered(
      R"("inputs": [{"name": "i", "dtype": "i32", "shape": [2]}, {"name": "d", "dtype": "f64", "shape": [2]},
      {"name": "h", "dtype": "f16", "shape": [2]}],
    "nodes": [{"op": "neg", "inputs": ["i"], "outputs": ["a"]}, {"op": "neg", "inputs": ["d"], "outputs": ["b"]},
              {"op": "neg", "inputs": ["h"], "outputs": ["c"]}],
    "outputs": ["a", "b", "c"])",
      "bf16");
  CHECK(node_lines(module).size() == 3);
  CHECK(output_lines(module) == Lines{"a : i32[2]", "b : f64[2]", "c : f16[2]"});
}

TEST_CASE("results asked to be f32 are low, and a bitcast still sees 32 bits") {
  const Module module = lowered(R"("inputs": [{"name": "i", "dtype": "i32", "shape": [2]}],
    "nodes": [{"op": "cast", "inputs": ["i"], "outputs": ["a"], "attributes": {"to": "f32"}}, {"op": "exp", "inputs": ["a"], "outputs": ["e"]},
              {"op": "bitcast", "inputs": ["e"], "outputs": ["bits"], "attributes": {"to": "i32"}},
              {"op": "bitcast", "inputs": ["i"], "outputs": ["f"], "attributes": {"to": "f32"}},
              {"op": "add", "inputs": ["f", "a"], "outputs": ["y"]}],
    "outputs": ["bits", "y"])");
  CHECK(result_of(module, "exp") == DType::f16);
  CHECK(result_of(module, "add") == DType::f16);
  CHECK(output_lines(module) == Lines{"bits : i32[2]", "y.f32 : f32[2]"});
}

TEST_CASE("indices given as f32 are not rounded") {
  const Module module = lowered(
      R"("inputs": [{"name": "x", "dtype": "f32", "shape": [5, 2]}, {"name": "i", "dtype": "f32", "shape": [3]}],
    "nodes": [{"op": "gather", "inputs": ["x", "i"], "outputs": ["y"]}, {"op": "cast", "inputs": ["i"], "outputs": ["j"], "attributes": {"to": "i32"}}],
    "outputs": ["y", "j"])",
      "bf16");
  CHECK(node_lines(module) == Lines{"cast(x)", "gather(x.bf16, i)", "cast(i)", "cast(y)"});
}

TEST_CASE("statistics that are f32 by definition meet low precision through a cast") {
  const Module module = lowered(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [2, 4]}],
    "nodes": [{"op": "layer_norm", "inputs": ["x"], "outputs": ["n", "mean", "inv"]}, {"op": "mul", "inputs": ["n", "inv"], "outputs": ["y"]}],
    "outputs": ["y", "mean"])");
  CHECK(result_of(module, "mul") == DType::f16);
  CHECK(output_lines(module)[1].starts_with("mean : f32"));
}

TEST_CASE("mixed: halves meet weights of halves, and all else stays f32") {
  const Module module = lowered(
      R"("params": [{"name": "a", "dtype": "q8_0", "shape": [4, 32], "data": {"base64": ")" +
          std::string(182, 'A') + R"(=="}},
    {"name": "b", "dtype": "f16", "shape": [4, 32], "data": {"splat": 0.5}},
    {"name": "c", "dtype": "f32", "shape": [4, 32], "data": {"splat": 0.5}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [2, 32]}],
    "nodes": [{"op": "dequant_matmul", "inputs": ["x", "a"], "outputs": ["p"], "attributes": {"scheme": "q8_0"}},
              {"op": "matmul", "inputs": ["x", "b"], "outputs": ["q"], "attributes": {"trans_b": true}},
              {"op": "matmul", "inputs": ["x", "c"], "outputs": ["r"], "attributes": {"trans_b": true}},
              {"op": "add", "inputs": ["p", "q"], "outputs": ["y"]}],
    "outputs": ["y", "r"])",
      "mixed");
  // Blocks wait for the target: round-operands.
  CHECK(node_lines(module) ==
        Lines{"dequant_matmul(x, a)", "cast(x)", "matmul(x.f16, b)", "matmul(x, c)", "add(p, q)"});
  CHECK(output_lines(module) == Lines{"y : f32[2, 4]", "r : f32[2, 4]"});
  CHECK(result_of(module, "dequant_matmul") == DType::f32);
}

TEST_CASE("precision f32 changes nothing") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [2]}],
    "nodes": [{"op": "exp", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"])");
  const std::string before = print(module);
  CHECK(apply(lower_precision, module) == 0);
  CHECK(print(module) == before);
}

}  // namespace rlx::test
