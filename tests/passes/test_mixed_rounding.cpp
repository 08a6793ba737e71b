// SPDX-License-Identifier: Apache-2.0
// Precision mixed on matrix units: queries, results and weights that become halves, and what stays.
#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

PassOptions mixed(const char* target) {
  return {.target = find_target(target), .precision = "mixed"};
}

// y = attention of q [1, tokens, 4, 8] over k and v [1, 2, 32, 8] of `cache`; then `nodes`.
Module attention_over(const std::string& cache, int tokens, const std::string& nodes,
                      const std::string& outputs) {
  return module_of(R"("inputs": [{"name": "q", "dtype": "f32", "shape": [1, )" +
                   std::to_string(tokens) + R"(, 4, 8]},
    {"name": "k", "dtype": ")" +
                   cache + R"(", "shape": [1, 2, 32, 8]},
    {"name": "v", "dtype": ")" +
                   cache + R"(", "shape": [1, 2, 32, 8]}], "nodes": [
    {"op": "attention", "inputs": ["q", "k", "v"], "outputs": ["y"],
     "attributes": {"num_heads": 4, "num_kv_heads": 2, "head_dim": 8, "kv_layout": "bhsd"}})" +
                   nodes + R"(], "outputs": )" + outputs);
}

const std::string kRows = R"(, {"op": "reshape", "inputs": ["y"], "outputs": ["rows"],
    "attributes": {"shape": [1, 16, 32]}})";

std::string matrix_of_blocks(const std::string& name, int lines) {
  const std::string base64 = std::string(static_cast<size_t>(lines) * 16 * 34 / 3 * 4, 'A');
  return R"({"name": ")" + name + R"(", "dtype": "q8_0", "shape": [)" + std::to_string(lines) +
         R"(, 512], "data": {"base64": ")" + base64 + "\"}}";
}

// y = x [1, lines, 512] of halves times a [3072, 512], or a gated pair of it and b.
Module product_of_halves(int lines, const std::string& inputs, const std::string& attributes) {
  return module_of(R"("inputs": [{"name": "x", "dtype": "f16", "shape": [1, )" +
                   std::to_string(lines) + R"(, 512]}], "params": [)" +
                   matrix_of_blocks("a", 3072) + ", " + matrix_of_blocks("b", 3072) +
                   R"(], "nodes": [{"op": "fused_dequant_matmul", "inputs": )" + inputs +
                   R"(, "outputs": ["y"], "attributes": {"scheme": "q8_0")" + attributes +
                   R"(}}], "outputs": ["y"])");
}

}  // namespace

TEST_CASE("mixed: attention over caches of halves is one of halves on matrix units") {
  for (const char* target : {"cuda", "vulkan-nvidia"}) {
    Module module = attention_over("f16", 16, kRows + R"(,
    {"op": "cast", "inputs": ["rows"], "outputs": ["h"], "attributes": {"to": "f16"}},
    {"op": "neg", "inputs": ["h"], "outputs": ["z"]})",
                                   R"(["z"])");
    CHECK(apply(round_attention, module, mixed(target)) == 1);
    CHECK(node_lines(module) ==
          Lines{"cast(q)", "attention(q.f16, k, v)", "reshape(y)", "neg(rows)"});
  }
}

TEST_CASE("mixed: who reads attention's result as f32 still does") {
  Module module = attention_over(
      "bf16", 16, kRows + R"(, {"op": "neg", "inputs": ["rows"], "outputs": ["z"]})", R"(["z"])");
  CHECK(apply(round_attention, module, mixed("cuda")) == 1);
  CHECK(node_lines(module) ==
        Lines{"cast(q)", "attention(q.bf16, k, v)", "cast(y)", "reshape(y.f32)", "neg(rows)"});
  CHECK(output_lines(module) == Lines{"z : f32[1, 16, 32]"});
}

TEST_CASE("mixed: attention stays as it is without matrix units, over f32, and as an output") {
  const std::string negated = R"(, {"op": "neg", "inputs": ["y"], "outputs": ["z"]})";
  Module vulkan = attention_over("f16", 16, negated, R"(["z"])");
  CHECK(apply(round_attention, vulkan, mixed("vulkan")) == 0);
  Module wide = attention_over("f32", 16, negated, R"(["z"])");
  CHECK(apply(round_attention, wide, mixed("cuda")) == 0);
  Module output = attention_over("f16", 16, "", R"(["y"])");
  CHECK(apply(round_attention, output, mixed("cuda")) == 0);
  Module exact = attention_over("f16", 16, negated, R"(["z"])");
  CHECK(apply(round_attention, exact, {.target = find_target("cuda"), .precision = "f32"}) == 0);
}

TEST_CASE("mixed: many rows multiply weights that were rounded to halves once") {
  Module many = product_of_halves(4096, R"(["x", "a"])", R"(, "out_dtype": "f32")");
  CHECK(apply(round_weights, many, mixed("cuda")) == 1);
  CHECK(std::get<std::string>(only_node(many, "fused_dequant_matmul").attributes.at("round_w")) ==
        "f16");
  CHECK(output_lines(many) == Lines{"y.rounded : f32[1, 4096, 3072]"});
  CHECK(apply(round_weights, many, mixed("cuda")) == 0);
  Module few = product_of_halves(8, R"(["x", "a"])", "");
  CHECK(apply(round_weights, few, mixed("cuda")) == 0);
  Module threads = product_of_halves(4096, R"(["x", "a"])", "");
  CHECK(apply(round_weights, threads, mixed("vulkan")) == 0);
}

TEST_CASE("mixed: a gated pair that no kernel takes with dense weights becomes two products") {
  const std::string pair = R"(, "gated": true, "activation": "silu")";
  Module whole = product_of_halves(4096, R"(["x", "a", "b"])", pair);
  CHECK(apply(round_weights, whole, mixed("cuda")) == 1);
  CHECK(node_lines(whole) == Lines{"fused_dequant_matmul(x, a, b)"});
  Module two = product_of_halves(4096, R"(["x", "a", "b"])", pair);
  CHECK(apply(round_weights, two, mixed("vulkan-nvidia")) == 1);
  CHECK(node_lines(two) == Lines{"fused_dequant_matmul(x, a)", "fused_dequant_matmul(x, b)",
                                 "mul(y.gate, y.up)", "cast(y.pair)"});
}

}  // namespace rlx::test
