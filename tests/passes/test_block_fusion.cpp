// SPDX-License-Identifier: Apache-2.0
// Products with weights in blocks: what stands around them becomes part of them, and a layer few
// steps.
#include <array>

#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

std::string blocks(const std::string& name, int lines, const std::string& scheme = "q8_0") {
  // Two blocks a line; four characters for three bytes.
  const size_t bytes = static_cast<size_t>(lines) * 2 * (scheme == "q8_0" ? 34 : 18);
  const std::array<std::string, 3> ends = {"", "AA==", "AAA="};
  const std::string base64 = std::string(bytes / 3 * 4, 'A') + ends.at(bytes % 3);
  return R"({"name": ")" + name + R"(", "dtype": ")" + scheme + R"(", "shape": [)" +
         std::to_string(lines) + R"(, 64], "data": {"base64": ")" + base64 + "\"}}";
}

std::string product(const std::string& x, const std::string& w, const std::string& y,
                    const std::string& scheme = "q8_0") {
  return R"({"op": "dequant_matmul", "inputs": [")" + x + "\", \"" + w + R"("], "outputs": [")" +
         y + R"("], "attributes": {"scheme": ")" + scheme + "\"}}";
}

// x [1, lines, 64]; n = rms_norm(x, g); then `nodes`, over weights of q8_0: a [96], b [96], c [96],
// d [64] and, of q4_0, e [96].
Module layer(const std::string& nodes, const std::string& outputs, int lines = 1) {
  return module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [1, )" +
                   std::to_string(lines) + R"(, 64]}], "params": [)" + blocks("a", 96) + ", " +
                   blocks("b", 96) + ", " + blocks("c", 96) + ", " + blocks("d", 64) + ", " +
                   blocks("e", 96, "q4_0") +
                   R"(, {"name": "g", "dtype": "f32", "shape": [64], "data": {"splat": 1}},
    {"name": "s", "dtype": "f32", "shape": [96], "data": {"splat": 2}}], "nodes": [
    {"op": "rms_norm", "inputs": ["x", "g"], "outputs": ["n"], "attributes": {"eps": 0.001}},)" +
                   nodes + R"(], "outputs": )" + outputs);
}

const std::string kGate = product("n", "a", "p") + R"(,
    {"op": "silu", "inputs": ["p"], "outputs": ["gate"]},)" +
                          product("n", "b", "up") + R"(,
    {"op": "mul", "inputs": ["up", "gate"], "outputs": ["y"]})";

DType result_of_value(const Module& module, const std::string& name) {
  for (const NodeId id : module.entries[0].order()) {
    const Value& value = module.entries[0].value(module.entries[0].node(id).outputs[0]);
    if (value.name == name) return value.type.dtype;
  }
  return DType::bool_;
}

size_t fuse_all(Module& module, const char* target) {
  size_t changed = 0;
  for (const PassFunction pass : {fuse_epilogues, fuse_gated, merge_matmuls, fuse_norm})
    changed += apply_for(pass, module, target);
  apply(fold_constants, module);
  return changed;
}

}  // namespace

TEST_CASE("a gated pair of weights in blocks and the norm before it become one product") {
  for (const char* target : {"vulkan", "cuda"}) {
    Module module = layer(kGate, R"(["y"])");
    fuse_all(module, target);
    CHECK(node_lines(module) == Lines{"fused_dequant_matmul(x, a, b, null, g)"});
    const Node& fused = only_node(module, "fused_dequant_matmul");
    CHECK(std::get<bool>(fused.attributes.at("gated")));
    CHECK(std::get<std::string>(fused.attributes.at("activation")) == "silu");
    CHECK(std::get<double>(fused.attributes.at("eps")) == 0.001);
  }
}

TEST_CASE("tiles take a gated pair of weights in blocks, and leave the norm before it") {
  Module module = layer(kGate, R"(["y"])", 40);
  fuse_all(module, "vulkan");
  CHECK(node_lines(module) == Lines{"rms_norm(x, g)", "fused_dequant_matmul(n, a, b)"});
}

TEST_CASE("a gated pair stays where something else reads a half, and where types differ") {
  Module read = layer(kGate, R"(["y", "gate"])");
  CHECK(apply_for(fuse_epilogues, read, "vulkan") == 1);
  CHECK(apply_for(fuse_gated, read, "vulkan") == 0);
  Module differ = layer(product("n", "a", "p") + "," + product("n", "e", "up", "q4_0") +
                            R"(, {"op": "mul", "inputs": ["up", "p"], "outputs": ["y"]})",
                        R"(["y"])");
  CHECK(apply_for(fuse_gated, differ, "vulkan") == 0);
}

TEST_CASE("bias, activation and residual go into a product with blocks") {
  Module module = layer(product("x", "d", "p") + R"(,
    {"op": "relu", "inputs": ["p"], "outputs": ["q"]}, {"op": "add", "inputs": ["x", "q"], "outputs": ["y"]})",
                        R"(["y", "n"])");
  CHECK(apply_for(fuse_epilogues, module, "vulkan") == 1);
  CHECK(node_lines(module) ==
        Lines{"rms_norm(x, g)", "fused_dequant_matmul(x, d, null, null, null, null, x)"});
  Module biased = layer(product("n", "a", "p") + R"(,
    {"op": "add", "inputs": ["p", "s"], "outputs": ["y"]})",
                        R"(["y"])");
  CHECK(apply_for(fuse_epilogues, biased, "vulkan") == 1);
  CHECK(node_lines(biased) ==
        Lines{"rms_norm(x, g)", "fused_dequant_matmul(n, a, null, null, null, s)"});
}

TEST_CASE("up to three matrices in blocks of one type are read where they are, in one product") {
  Module module = layer(product("n", "a", "p") + "," + product("n", "e", "r", "q4_0") + "," +
                            product("n", "b", "q") + "," + product("n", "c", "t") + "," +
                            product("n", "d", "last") + R"(,
    {"op": "concat", "inputs": ["p", "q", "t", "r", "last"], "outputs": ["y"], "attributes": {"axis": 2}})",
                        R"(["y"])");
  CHECK(apply_for(merge_matmuls, module, "vulkan") == 3);
  CHECK(node_lines(module) == Lines{"rms_norm(x, g)", "fused_dequant_matmul(n, a, b, c)",
                                    "narrow(p.joined)", "narrow(p.joined)", "narrow(p.joined)",
                                    "dequant_matmul(n, e)", "dequant_matmul(n, d)",
                                    "concat(p.part, q.part, t.part, r, last)"});
  Module chain = layer(product("n", "d", "h") + "," + product("n", "d", "k") + "," +
                           product("h", "a", "p") + "," + product("h", "b", "q") + R"(,
    {"op": "concat", "inputs": ["p", "q", "k"], "outputs": ["y"], "attributes": {"axis": 2}})",
                       R"(["y"])");
  CHECK(apply_for(merge_matmuls, chain, "vulkan") == 4);
}

TEST_CASE(
    "mixed: rows become f16 before tensor cores, and where a product with blocks makes them") {
  const auto rounded = [](Module& module, const char* target) {
    return apply(round_operands, module, {.target = find_target(target), .precision = "mixed"});
  };
  Module cuda = layer(product("n", "a", "p") + "," + product("n", "d", "q"), R"(["p", "q"])", 40);
  CHECK(rounded(cuda, "cuda") == 2);
  CHECK(node_lines(cuda) ==
        Lines{"rms_norm(x, g)", "cast(n)", "dequant_matmul(n.f16, a)", "dequant_matmul(n.f16, d)"});
  CHECK(output_lines(cuda) == Lines{"p : f32[1, 40, 96]", "q : f32[1, 40, 64]"});
  Module vulkan = layer(product("n", "a", "p") + "," + product("n", "d", "q"), R"(["p", "q"])", 40);
  CHECK(rounded(vulkan, "vulkan") == 0);
  Module made = layer(product("x", "d", "h") + "," + product("h", "a", "p"), R"(["p", "n"])");
  CHECK(rounded(made, "vulkan") == 1);
  CHECK(node_lines(made) ==
        Lines{"rms_norm(x, g)", "dequant_matmul(x, d)", "dequant_matmul(h, a)"});
  CHECK(result_of_value(made, "h") == DType::f16);
  CHECK(output_lines(made)[0] == "p : f32[1, 1, 96]");
}

}  // namespace rlx::test
