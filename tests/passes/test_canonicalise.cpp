// SPDX-License-Identifier: Apache-2.0
// canonicalise: what changes nothing goes, chains of views become one view, shapes become
// constants.
#include <algorithm>

#include "tests/passes/pass_support.h"

namespace rlx::test {

TEST_CASE("identity and stop_gradient pass their input on") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [2, 3]}],
    "nodes": [{"op": "identity", "inputs": ["x"], "outputs": ["a"]},
              {"op": "stop_gradient", "inputs": ["a"], "outputs": ["b"]},
              {"op": "exp", "inputs": ["b"], "outputs": ["y"]}],
    "outputs": ["y", "b"])");
  CHECK(apply_keeping_values(canonicalise, module) == 2);
  CHECK(node_lines(module) == Lines{"exp(x)"});
  CHECK(output_lines(module) == Lines{"y : f32[2, 3]", "x : f32[2, 3]"});
}

TEST_CASE("bounds of clamp that are known become attributes") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [4]},
                                          {"name": "high", "dtype": "f32", "shape": []}],
    "params": [{"name": "zero", "dtype": "f32", "shape": [], "data": {"values": [0]}},
               {"name": "six", "dtype": "f32", "shape": [1], "data": {"values": [6]}},
               {"name": "row", "dtype": "f32", "shape": [4], "data": {"values": [1, 2, 3, 4]}}],
    "nodes": [{"op": "clamp", "inputs": ["x", "zero", "six"], "outputs": ["both"]},
              {"op": "clamp", "inputs": ["x", null, "six"], "outputs": ["one"]},
              {"op": "clamp", "inputs": ["x", "zero", "high"], "outputs": ["unknown"]},
              {"op": "clamp", "inputs": ["x", "row"], "outputs": ["per_element"]},
              {"op": "clamp", "inputs": ["zero", "row"], "outputs": ["wider"]}],
    "outputs": ["both", "one", "unknown", "per_element", "wider"])");
  CHECK(apply_keeping_values(canonicalise, module) == 2);
  CHECK(node_lines(module) ==
        Lines{"clamp(x)", "clamp(x)", "clamp(x, zero, high)", "clamp(x, row)", "clamp(zero, row)"});
}

TEST_CASE("products with one, quotients by one and differences from zero are their operand") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [3]},
                                          {"name": "s", "dtype": "f32", "shape": []}],
    "params": [{"name": "one", "dtype": "f32", "shape": [], "data": {"values": [1]}},
               {"name": "ones", "dtype": "f32", "shape": [3], "data": {"values": [1, 1, 1]}},
               {"name": "zero", "dtype": "f32", "shape": [], "data": {"values": [0]}}],
    "nodes": [{"op": "mul", "inputs": ["ones", "x"], "outputs": ["a"]},
              {"op": "div", "inputs": ["a", "one"], "outputs": ["b"]},
              {"op": "sub", "inputs": ["b", "zero"], "outputs": ["c"]},
              {"op": "exp", "inputs": ["c"], "outputs": ["y"]},
              {"op": "div", "inputs": ["one", "x"], "outputs": ["inverse"]},
              {"op": "sub", "inputs": ["zero", "x"], "outputs": ["negative"]},
              {"op": "add", "inputs": ["x", "zero"], "outputs": ["positive"]},
              {"op": "mul", "inputs": ["s", "ones"], "outputs": ["wide"]}],
    "outputs": ["y", "inverse", "negative", "positive", "wide"])");
  CHECK(apply_keeping_values(canonicalise, module) == 3);
  // x + 0 makes 0 of -0, and a wider result is none of the operand's.
  CHECK(node_lines(module) ==
        Lines{"exp(x)", "div(one, x)", "sub(zero, x)", "add(x, zero)", "mul(s, ones)"});
}

TEST_CASE("casts, reshapes, expands and transposes to the type that is there go") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [3, 3]}],
    "nodes": [{"op": "cast", "inputs": ["x"], "outputs": ["a"], "attributes": {"to": "f32"}},
              {"op": "reshape", "inputs": ["a"], "outputs": ["b"], "attributes": {"shape": [3, -1]}},
              {"op": "expand", "inputs": ["b"], "outputs": ["c"], "attributes": {"shape": [3, 3]}},
              {"op": "transpose", "inputs": ["c"], "outputs": ["d"], "attributes": {"perm": [0, 1]}},
              {"op": "neg", "inputs": ["d"], "outputs": ["y"]}],
    "outputs": ["y"])");
  CHECK(apply_keeping_values(canonicalise, module) == 4);
  CHECK(node_lines(module) == Lines{"neg(x)"});
}

TEST_CASE("a square transpose, a narrowing cast and a widening expand stay") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [3, 3]}],
    "nodes": [{"op": "transpose", "inputs": ["x"], "outputs": ["a"]},
              {"op": "cast", "inputs": ["a"], "outputs": ["b"], "attributes": {"to": "f16"}},
              {"op": "expand", "inputs": ["b"], "outputs": ["y"], "attributes": {"shape": [2, 3, 3]}}],
    "outputs": ["y"])");
  CHECK(apply_keeping_values(canonicalise, module) == 0);
  CHECK(node_lines(module) == Lines{"transpose(x)", "cast(a)", "expand(b)"});
}

TEST_CASE("a chain of reshapes reads the first input, and goes where it comes back to its shape") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [2, 6]}],
    "nodes": [{"op": "flatten", "inputs": ["x"], "outputs": ["a"], "attributes": {"axis": 0}},
              {"op": "unsqueeze", "inputs": ["a"], "outputs": ["b"], "attributes": {"axes": [0]}},
              {"op": "reshape", "inputs": ["b"], "outputs": ["c"], "attributes": {"shape": [3, 4]}},
              {"op": "reshape", "inputs": ["c"], "outputs": ["d"], "attributes": {"shape": [2, 6]}}],
    "outputs": ["c", "d"])");
  apply_keeping_values(canonicalise, module);
  apply(remove_dead, module);
  CHECK(node_lines(module) == Lines{"reshape(x)"});
  CHECK(output_lines(module) == Lines{"c : f32[3, 4]", "x : f32[2, 6]"});
}

TEST_CASE("a view of a part of an axis of one that holds nothing holds nothing") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [2, 1]}],
    "nodes": [{"op": "split", "inputs": ["x"], "outputs": ["a", "b"],
               "attributes": {"axis": 1, "num": 2}},
              {"op": "transpose", "inputs": ["b"], "outputs": ["y"], "attributes": {"perm": [0, 1]}}],
    "outputs": ["a", "y"])");
  apply_keeping_values(canonicalise, module);
  CHECK(outputs_of(module)[1].type.shape == Shape{2, 0});
}

TEST_CASE("transposes compose, with the perm written or not") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [2, 3, 4]}],
    "nodes": [{"op": "transpose", "inputs": ["x"], "outputs": ["a"], "attributes": {"perm": [1, 2, 0]}},
              {"op": "transpose", "inputs": ["a"], "outputs": ["b"]},
              {"op": "transpose", "inputs": ["b"], "outputs": ["c"], "attributes": {"perm": [0, 2, 1]}},
              {"op": "transpose", "inputs": ["c"], "outputs": ["d"], "attributes": {"perm": [1, 2, 0]}}],
    "outputs": ["b", "d"])");
  apply_keeping_values(canonicalise, module);
  apply(remove_dead, module);
  CHECK(node_lines(module).front() == "transpose(x)");
  for (const std::string& line : node_lines(module)) CHECK(line == "transpose(x)");
}

TEST_CASE("shape_of and size_of become constants though their input is not") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f16", "shape": [2, 0, 5]}],
    "nodes": [{"op": "shape_of", "inputs": ["x"], "outputs": ["s"]},
              {"op": "size_of", "inputs": ["x"], "outputs": ["n"]},
              {"op": "mul", "inputs": ["s", "n"], "outputs": ["y"]}],
    "outputs": ["y", "s"])");
  CHECK(apply_keeping_values(canonicalise, module) == 2);
  CHECK(node_lines(module) == Lines{"mul(s.const, n.const)"});
  CHECK(outputs_of(module)[1].integers == std::vector<int64_t>{2, 0, 5});
}

TEST_CASE("fixed sizes of a shape that is free elsewhere become constants") {
  const auto with_part = [](const std::string& start) {
    Diagnostics diagnostics;
    const auto source = read_json_graph(
        R"({"rlx_graph": 1, "symbols": [{"name": "n", "min": 1, "max": 8}],
            "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 5]}],
            "nodes": [{"op": "shape_of", "inputs": ["x"], "outputs": ["s"]},
                      {"op": "narrow", "inputs": ["s"], "outputs": ["y"],
                       "attributes": {"axis": 0, "len": 1, "start": )" +
            start + R"(}}], "outputs": ["y"]})",
        "test.json", diagnostics);
    REQUIRE(source.has_value());
    auto module = bind_module(*source, {}, ".", diagnostics, {{"n", {.minimum = 1, .maximum = 8}}});
    INFO(diagnostics.text());
    REQUIRE(module.has_value());
    return std::move(*module);
  };
  Module fixed = with_part("1");
  CHECK(apply(canonicalise, fixed) == 1);
  CHECK(node_lines(fixed).empty());
  CHECK(output_lines(fixed) == Lines{"y.const : i64[1]"});
  // What the run gives is computed by it.
  Module free = with_part("0");
  CHECK(apply(canonicalise, free) == 0);
  CHECK(apply(decompose, free) == 1);
  const Lines lines = node_lines(free);
  CHECK(std::ranges::count_if(
            lines, [](const std::string& line) { return line.starts_with("ramp"); }) == 1);
}

}  // namespace rlx::test
