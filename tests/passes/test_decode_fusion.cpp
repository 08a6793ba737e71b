// SPDX-License-Identifier: Apache-2.0
// The fusions that make a decode layer of few steps: gated pairs, norms into products, rope with
// append; and merging over generated weights.
#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

std::string weight(const std::string& name, const std::string& shape, int stream) {
  return R"({"name": ")" + name + R"(", "dtype": "f32", "shape": )" + shape +
         R"(, "data": {"random": {"distribution": "uniform", "low": -0.5, "high": 0.5, "seed": 3, "stream": )" +
         std::to_string(stream) + "}}}";
}

// x [1, lines, 64], weights wg, wu [24, 64] (matrix) and g [64]; n = rms_norm(x, g); then `nodes`.
Module feed_forward(const std::string& nodes, const std::string& outputs, int lines = 1,
                    const std::string& matrix = "[24, 64]") {
  return module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [1, )" +
                   std::to_string(lines) + R"(, 64]}], "params": [)" + weight("wg", matrix, 1) +
                   ", " + weight("wu", matrix, 2) + ", " + weight("g", "[64]", 3) + ", " +
                   weight("wide", "[24, 64]", 4) + R"(], "nodes": [
    {"op": "rms_norm", "inputs": ["x", "g"], "outputs": ["n"], "attributes": {"eps": 0.001}},)" +
                   nodes + R"(], "outputs": )" + outputs);
}

const std::string kPair = R"(
    {"op": "fused_matmul_bias_act", "inputs": ["n", "wg"], "outputs": ["gate"], "attributes": {"trans_w": true, "activation": "silu"}},
    {"op": "matmul", "inputs": ["n", "wu"], "outputs": ["up"], "attributes": {"trans_b": true}},
    {"op": "mul", "inputs": ["up", "gate"], "outputs": ["y"]})";

const std::string kTurnedValues =
    R"({"op": "transpose", "inputs": ["v"], "outputs": ["vt"], "attributes": {"perm": [0, 2, 1, 3]}},)";

// q, k, v as [1, rows, heads, 4] inputs, caches of 5 rows as states; values: vt is v of each head.
Module decode_step(const std::string& key_rope_offset, const std::string& more_nodes,
                   const std::string& outputs, const std::string& cache = "f32",
                   const std::string& rope_positions = R"(, "p")", const std::string& rows = "2",
                   const std::string& values = kTurnedValues) {
  return module_of(R"("inputs": [{"name": "q", "dtype": "f32", "shape": [1, )" + rows +
                   R"(, 4, 4]}, {"name": "k", "dtype": "f32", "shape": [1, )" + rows + R"(, 2, 4]},
    {"name": "v", "dtype": "f32", "shape": [1, )" +
                   rows + R"(, 2, 4]}, {"name": "p", "dtype": "i32", "shape": []},
    {"name": "c", "dtype": "f32", "shape": [8, 2]}, {"name": "s", "dtype": "f32", "shape": [8, 2]}],
    "states": [{"name": "kc", "dtype": ")" +
                   cache + R"(", "shape": [1, 2, 5, 4]}, {"name": "vc", "dtype": ")" + cache +
                   R"(", "shape": [1, 2, 5, 4]}], "nodes": [
    {"op": "rope", "inputs": ["q", "c", "s")" +
                   rope_positions + R"(], "outputs": ["qr"], "attributes": {"head_dim": 4}},
    {"op": "rope", "inputs": ["k", "c", "s")" +
                   rope_positions +
                   R"(], "outputs": ["kr"], "attributes": {"head_dim": 4, "position_offset": )" +
                   key_rope_offset + R"(}},
    {"op": "transpose", "inputs": ["kr"], "outputs": ["kt"], "attributes": {"perm": [0, 2, 1, 3]}},
    {"op": "kv_append", "inputs": ["kc", "kt", "p"], "outputs": ["ka"]},
    {"op": "state_write", "inputs": ["kc", "ka"], "outputs": ["kn"]},
)" + values +
                   R"(
    {"op": "kv_append", "inputs": ["vc", "vt", "p"], "outputs": ["va"]},
    {"op": "state_write", "inputs": ["vc", "va"], "outputs": ["vn"]},)" +
                   more_nodes + R"(
    {"op": "attention", "inputs": ["qr", "kn", "vn"], "outputs": ["y"],
     "attributes": {"num_heads": 4, "num_kv_heads": 2, "head_dim": 4, "kv_layout": "bhsd"}}], "outputs": )" +
                   outputs);
}

}  // namespace

TEST_CASE("a gated pair becomes one product where the target streams it") {
  Module module = feed_forward(kPair, R"(["y"])");
  CHECK(apply_for(fuse_gated, module, "cuda") == 1);
  const Node& fused = only_node(module, "fused_norm_matmul");
  CHECK(std::get<std::string>(fused.attributes.at("activation")) == "silu");
  // The activated product comes first, whichever side of the mul it was on.
  CHECK(node_lines(module) == Lines{"rms_norm(x, g)", "fused_norm_matmul(n, wg, wu)"});
}

TEST_CASE("weights that are columns become rows where all products behind a norm stream them") {
  const std::string columns = R"(
    {"op": "fused_matmul_bias_act", "inputs": ["n", "wg"], "outputs": ["gate"], "attributes": {"activation": "silu"}},
    {"op": "matmul", "inputs": ["n", "wu"], "outputs": ["up"]},
    {"op": "mul", "inputs": ["up", "gate"], "outputs": ["y"]})";
  Module module = feed_forward(columns, R"(["y"])", 1, "[64, 24]");
  CHECK(apply_for(turn_weights, module, "cuda") == 2);
  CHECK(std::get<bool>(only_node(module, "matmul").attributes.at("trans_b")));
  CHECK(apply_for(fuse_gated, module, "cuda") == 1);
  CHECK(apply_for(fuse_norm, module, "cuda") == 1);
  CHECK(node_lines(module).size() == 1);
  // Rows already; no such kernel; too many lines; the norm is read otherwise.
  Module rows = feed_forward(kPair, R"(["y"])");
  CHECK(apply_for(turn_weights, rows, "cuda") == 0);
  Module vulkan = feed_forward(columns, R"(["y"])", 1, "[64, 24]");
  CHECK(apply_for(turn_weights, vulkan, "vulkan") == 0);
  Module many = feed_forward(columns, R"(["y"])", 200, "[64, 24]");
  CHECK(apply_for(turn_weights, many, "cuda") == 0);
  Module read = feed_forward(columns + R"(, {"op": "exp", "inputs": ["n"], "outputs": ["more"]})",
                             R"(["y", "more"])", 1, "[64, 24]");
  CHECK(apply_for(turn_weights, read, "cuda") == 0);
}

TEST_CASE(
    "a gated pair gives its activation back where the target has no kernel for as many lines") {
  const Lines apart = {"rms_norm(x, g)", "matmul(n, wu)", "fused_matmul_bias_act(n, wg)",
                       "silu(gate.plain)", "mul(up, gate.silu)"};
  const auto check = [&](const char* target, int lines, const std::vector<std::string>& without) {
    Module module = feed_forward(kPair, R"(["y"])", lines);
    CHECK(apply(fuse_gated, module, {.target = find_target(target), .without = without}) == 1);
    CHECK(node_lines(module) == apart);
    // So that both become one product.
    CHECK(apply_for(merge_matmuls, module, target) == 2);
  };
  check("vulkan", 1, {});
  check("cuda", 9, {});
  check("cuda", 256, {});
  check("cuda", 1, {"matvec_stream"});
  Module read = feed_forward(kPair, R"(["y", "gate"])");
  CHECK(apply_for(fuse_gated, read, "cuda") == 0);
}

TEST_CASE("a gated pair of columns is turned where a kernel takes it as rows") {
  const std::string columns = R"(
    {"op": "fused_matmul_bias_act", "inputs": ["n", "wg"], "outputs": ["gate"], "attributes": {"activation": "silu"}},
    {"op": "matmul", "inputs": ["n", "wu"], "outputs": ["up"]},
    {"op": "mul", "inputs": ["up", "gate"], "outputs": ["y"]})";
  Module module = feed_forward(columns, R"(["y"])", 1, "[64, 24]");
  CHECK(apply_for(fuse_gated, module, "cuda") == 1);
  CHECK(only_node(module, "fused_norm_matmul").inputs.size() == 3);
  Module many = feed_forward(columns, R"(["y"])", 9, "[64, 24]");
  CHECK(apply_for(fuse_gated, many, "cuda") == 1);
  CHECK_FALSE(std::get<bool>(only_node(many, "fused_matmul_bias_act").attributes.at("trans_w")));
}

TEST_CASE("a gated pair of 16 bits and many lines becomes one product in large tiles") {
  const auto matrix = [](const std::string& name, const std::string& shape, int stream) {
    std::string text = weight(name, shape, stream);
    return text.replace(text.find("f32"), 3, "f16");
  };
  const auto pair = [&](const std::string& shape) {
    return module_of(
        R"("inputs": [{"name": "n", "dtype": "f16", "shape": [256, 64]}], "params": [)" +
        matrix("wg", shape, 1) + ", " + matrix("wu", shape, 2) + R"(], "nodes": [)" +
        kPair.substr(kPair.find('{')) + R"(], "outputs": ["y"])");
  };
  Module module = pair("[128, 64]");
  CHECK(apply_for(fuse_gated, module, "cuda") == 1);
  CHECK(node_lines(module) == Lines{"fused_norm_matmul(n, wg, wu)"});
  // Columns that are no whole 16-byte pieces are for other kernels.
  Module odd = pair("[100, 64]");
  apply_for(fuse_gated, odd, "cuda");
  CHECK(node_lines(odd) != Lines{"fused_norm_matmul(n, wg, wu)"});
}

TEST_CASE("a norm goes into every product that reads it") {
  Module module = feed_forward(kPair, R"(["y"])");
  CHECK(apply_for(fuse_norm, module, "cuda") == 1);
  CHECK(node_lines(module) == Lines{"fused_norm_matmul(x, wg, null, g)",
                                    "fused_norm_matmul(x, wu, null, g)",
                                    "mul(up.normed, gate.normed)"});
  Module gated = feed_forward(kPair, R"(["y"])");
  CHECK(apply_for(fuse_gated, gated, "cuda") == 1);
  CHECK(apply_for(fuse_norm, gated, "cuda") == 1);
  const Node& fused = only_node(gated, "fused_norm_matmul");
  CHECK(std::get<std::string>(fused.attributes.at("norm")) == "rms");
  CHECK(std::get<double>(fused.attributes.at("eps")) == 0.001);
}

TEST_CASE("a norm that something else reads, or as another operand, stays") {
  const std::string product =
      R"({"op": "matmul", "inputs": ["n", "wide"], "outputs": ["p"], "attributes": {"trans_b": true}})";
  Module output = feed_forward(product, R"(["p", "n"])");
  CHECK(apply_for(fuse_norm, output, "cuda") == 0);
  Module read = feed_forward(product + R"(, {"op": "neg", "inputs": ["n"], "outputs": ["m"]})",
                             R"(["p", "m"])");
  CHECK(apply_for(fuse_norm, read, "cuda") == 0);
  Module vulkan = feed_forward(product, R"(["p"])");
  CHECK(apply_for(fuse_norm, vulkan, "vulkan") == 0);
}

TEST_CASE("products over generated weights merge, whatever their op") {
  Module module = feed_forward(R"(
    {"op": "matmul", "inputs": ["n", "wg"], "outputs": ["a"], "attributes": {"trans_b": true}},
    {"op": "fused_matmul_bias_act", "inputs": ["n", "wu"], "outputs": ["b"], "attributes": {"trans_w": true}},
    {"op": "sub", "inputs": ["a", "b"], "outputs": ["y"]})",
                               R"(["y"])");
  CHECK(apply_for(merge_matmuls, module, "vulkan") == 2);
  CHECK(node_lines(module) == Lines{"rms_norm(x, g)", "concat(wg, wu)",
                                    "fused_matmul_bias_act(n, wg.joined)", "narrow(a.joined)",
                                    "narrow(a.joined)", "sub(a.part, b.part)"});
}

TEST_CASE("ropes of queries and keys and the appends to their caches become one node") {
  Module module = decode_step("0", "", R"(["y"])");
  CHECK(apply_for(fuse_rope, module, "vulkan") == 1);
  apply(remove_dead, module);
  CHECK(node_lines(module) == Lines{"rope_append(q, k, v, c, s, p, kc, vc)",
                                    "state_write(kc, ka.joined)", "state_write(vc, va.joined)",
                                    "attention(qr.joined, kn, vn)"});
}

TEST_CASE("tables with a row for each token join the appends at any position") {
  Module module = decode_step("0", "", R"(["y"])", "f32", "");
  CHECK(apply_for(fuse_rope, module, "vulkan") == 1);
  apply(remove_dead, module);
  CHECK(node_lines(module) == Lines{"rope_append(q, k, v, c, s, p, kc, vc)",
                                    "state_write(kc, ka.joined)", "state_write(vc, va.joined)",
                                    "attention(qr.joined, kn, vn)"});
  CHECK(std::get<std::string>(only_node(module, "rope_append").attributes.at("table")) == "token");
}

TEST_CASE("a row whose heads were turned by a reshape is appended with the ropes") {
  const std::string by_head =
      R"({"op": "reshape", "inputs": ["v"], "outputs": ["vt"], "attributes": {"shape": [1, 2, 1, 4]}},)";
  // Of another shape than the heads', as clean-ups leave it.
  const std::string flat =
      R"({"op": "reshape", "inputs": ["v"], "outputs": ["vf"], "attributes": {"shape": [1, 8]}},
         {"op": "reshape", "inputs": ["vf"], "outputs": ["vt"], "attributes": {"shape": [1, 2, 1, 4]}},)";
  Module module = decode_step("0", "", R"(["y"])", "f16", R"(, "p")", "1", by_head);
  CHECK(apply_for(fuse_rope, module, "cuda") == 1);
  apply(remove_dead, module);
  CHECK(node_lines(module).front() == "rope_append(q, k, v, c, s, p, kc, vc)");
  Module other = decode_step("0", "", R"(["y"])", "f16", R"(, "p")", "1", flat);
  CHECK(apply_for(fuse_rope, other, "cuda") == 1);
  apply(remove_dead, other);
  CHECK(node_lines(other) == Lines{"reshape(v)", "reshape(vf)", "reshape(vt)",
                                   "rope_append(q, k, vt.row, c, s, p, kc, vc)",
                                   "state_write(kc, ka.joined)", "state_write(vc, va.joined)",
                                   "attention(qr.joined, kn, vn)"});
}

TEST_CASE("a row copied to an index is appended, wherever the index points; more rows stay") {
  for (const char* index : {"[0]", "[4]", "[-1]", "[7]", "[-9]"}) {
    const auto copy = [index](const std::string& axis) {
      return module_of(R"("inputs": [{"name": "c", "dtype": "f32", "shape": [2, 5, 5]},
        {"name": "r", "dtype": "f32", "shape": [2, 1, 5]}], "constants": [{"name": "i", "dtype": "i64", "shape": [1],
        "data": {"values": )" +
                       std::string(index) + R"(}}], "nodes": [
        {"op": "index_copy", "inputs": ["c", "i", "r"], "outputs": ["y"], "attributes": {"axis": )" +
                       axis + R"(}}], "outputs": ["y"])");
    };
    Module module = copy("1");
    CHECK(apply_keeping_values(see_append, module) == 1);
    CHECK(only_node(module, "kv_append").inputs.size() == 3);
    Module from_end = copy("-2");
    CHECK(apply_keeping_values(see_append, from_end) == 1);
  }
  Module rows = module_of(R"("inputs": [{"name": "c", "dtype": "f32", "shape": [5, 5]},
    {"name": "r", "dtype": "f32", "shape": [2, 5]}, {"name": "i", "dtype": "i64", "shape": [2]}], "nodes": [
    {"op": "index_copy", "inputs": ["c", "i", "r"], "outputs": ["y"], "attributes": {"axis": 0}}], "outputs": ["y"])");
  CHECK(apply(see_append, rows) == 0);
  // A cache's first dim is its batch.
  for (const char* axis : {"0", "-1"}) {
    Module first_dim = module_of(R"("inputs": [{"name": "c", "dtype": "f32", "shape": [5]},
      {"name": "r", "dtype": "f32", "shape": [1]}, {"name": "i", "dtype": "i64", "shape": [1]}], "nodes": [
      {"op": "index_copy", "inputs": ["c", "i", "r"], "outputs": ["y"], "attributes": {"axis": )" +
                                 std::string(axis) + R"(}}], "outputs": ["y"])");
    CHECK(apply(see_append, first_dim) == 0);
  }
}

TEST_CASE("appends to caches of another dtype round what they store, in one node") {
  Module module = decode_step("0", "", R"(["y"])", "f16");
  CHECK(apply_for(fuse_rope, module, "vulkan") == 1);
  apply(remove_dead, module);
  CHECK(node_lines(module) == Lines{"rope_append(q, k, v, c, s, p, kc, vc)",
                                    "state_write(kc, ka.joined)", "state_write(vc, va.joined)",
                                    "attention(qr.joined, kn, vn)"});
}

TEST_CASE("ropes that differ, and keys that something else reads, stay") {
  Module differ = decode_step("1", "", R"(["y"])");
  CHECK(apply_for(fuse_rope, differ, "vulkan") == 0);
  Module read =
      decode_step("0", R"({"op": "neg", "inputs": ["kr"], "outputs": ["m"]},)", R"(["y", "m"])");
  CHECK(apply_for(fuse_rope, read, "vulkan") == 0);
}

TEST_CASE("ropes join without caches, but not across a dependency") {
  const std::string inputs = R"("inputs": [{"name": "q", "dtype": "f32", "shape": [1, 2, 4, 4]},
    {"name": "k", "dtype": "f32", "shape": [1, 2, 2, 4]}, {"name": "c", "dtype": "f32", "shape": [8, 2]},
    {"name": "s", "dtype": "f32", "shape": [8, 2]}], "nodes": [)";
  const std::string attention =
      R"({"op": "attention", "inputs": ["qr", "kr", "k"], "outputs": ["y"],
    "attributes": {"num_heads": 4, "num_kv_heads": 2, "head_dim": 4, "causal": true}}], "outputs": ["y"])";
  const auto rope = [](const std::string& x, const std::string& y) {
    return R"({"op": "rope", "inputs": [")" + x + R"(", "c", "s"], "outputs": [")" + y +
           R"("], "attributes": {"head_dim": 4}}, )";
  };
  Module module = module_of(inputs + rope("q", "qr") + rope("k", "kr") + attention);
  CHECK(apply_for(fuse_rope, module, "vulkan") == 1);
  CHECK(node_lines(module) ==
        Lines{"rope_append(q, k, null, c, s)", "attention(qr.joined, kr.joined, k)"});
  // The queries are made from the rotated keys.
  Module circle = module_of(
      inputs + rope("k", "kr") +
      R"({"op": "concat", "inputs": ["kr", "kr"], "outputs": ["qq"], "attributes": {"axis": 2}}, )" +
      rope("qq", "qr") + attention);
  CHECK(apply_for(fuse_rope, circle, "vulkan") == 0);
}

}  // namespace rlx::test
