// SPDX-License-Identifier: Apache-2.0
// Attention as one node takes the views around it in; what only looks like them stays.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

// q [2, 4, 3, 8] and k, v [2, 2, 5, 8], whose heads are repeated for q's; x by token.
const std::string kInputs =
    R"("inputs": [)" + input_text("q", "[2, 4, 3, 8]") + ", " + input_text("k", "[2, 2, 5, 8]") +
    ", " + input_text("v", "[2, 2, 5, 8]") + ", " + input_text("x", "[2, 3, 4, 8]") + ", " +
    input_text("y", "[2, 5, 4, 8]") + ", " + input_text("z", "[2, 5, 4, 8]") + "]";

Module module_of_query(const std::string& nodes, const std::string& outputs = R"(["out"])") {
  return module_of(kInputs + R"(, "nodes": [)" + nodes + R"(], "outputs": )" + outputs);
}

// name -> wide: each head twice, side by side (at 2) or one row of heads after the other (at 1).
std::string repeat_text(const std::string& name, const std::string& wide, int axis = 2) {
  const std::string apart = axis == 2 ? "[2, 2, 1, 5, 8]" : "[2, 1, 2, 5, 8]";
  const std::string quoted = '"' + name + '"';
  return op_text("reshape", quoted, name + "_apart", R"("shape": )" + apart) + ", " +
         op_text("expand", '"' + name + R"(_apart")", name + "_copies",
                 R"("shape": [2, 2, 2, 5, 8])") +
         ", " + op_text("reshape", '"' + name + R"(_copies")", wide, R"("shape": [2, 4, 5, 8])") +
         ", ";
}

std::string swap_text(const std::string& from, const std::string& to,
                      const std::string& perm = "[0, 2, 1, 3]") {
  return op_text("transpose", '"' + from + '"', to, R"("perm": )" + perm);
}

std::string query_text(const std::string& inputs, const std::string& output,
                       const std::string& layouts = R"("q_layout": "bhsd", "kv_layout": "bhsd")") {
  return op_text("attention", inputs, output, R"("num_heads": 4, "head_dim": 8, )" + layouts);
}

}  // namespace

TEST_CASE("heads that were repeated are read once") {
  Module module = module_of_query(repeat_text("k", "kk") + repeat_text("v", "vv") +
                                  query_text(R"("q", "kk", "vv")", "out"));
  CHECK(apply_keeping_values(turn_attention, module) == 1);
  CHECK(node_lines(module) == Lines{"attention(q, k, v)"});
  CHECK(attribute_of<int64_t>(only_node(module, "attention"), "num_kv_heads") == 2);
}

TEST_CASE("repeat_interleave repeats heads too") {
  const std::string twice = R"("axis": 1, "repeats": 2)";
  Module module = module_of_query(op_text("repeat_interleave", R"("k")", "kk", twice) + ", " +
                                  op_text("repeat_interleave", R"("v")", "vv", twice) + ", " +
                                  query_text(R"("q", "kk", "vv")", "out"));
  CHECK(apply_keeping_values(turn_attention, module) == 1);
  CHECK(node_lines(module) == Lines{"attention(q, k, v)"});
}

TEST_CASE("exchanged axes of heads and tokens go into the layouts, at either end") {
  Module module = module_of_query(
      swap_text("x", "q4") + ", " + swap_text("y", "k4") + ", " + swap_text("z", "v4") + ", " +
      query_text(R"("q4", "k4", "v4")", "a") + ", " + swap_text("a", "out"));
  CHECK(apply_keeping_values(turn_attention, module) == 1);
  CHECK(node_lines(module) == Lines{"attention(x, y, z)"});
  const Node& node = only_node(module, "attention");
  CHECK(attribute_of<std::string>(node, "q_layout") == "bshd");
  CHECK(attribute_of<std::string>(node, "kv_layout") == "bshd");
  CHECK(attribute_of<std::string>(node, "out_layout") == "bshd");
}

TEST_CASE("of one token an exchange is a reshape, before which rope stands too") {
  const std::string rope =
      op_text("rope", R"("t", "c", "c")", "r", R"("head_dim": 8, "layout": "bhsd")") + ", ";
  const auto of_tokens = [&](int tokens, const std::string& nodes) {
    const std::string n = std::to_string(tokens);
    return module_of(R"("inputs": [)" + input_text("t", "[2, 4, " + n + ", 8]") + ", " +
                     input_text("x", "[2, " + n + ", 4, 8]") + ", " +
                     input_text("k", "[2, 4, 5, 8]") + ", " + input_text("v", "[2, 4, 5, 8]") +
                     ", " + input_text("c", "[" + n + ", 8]") + R"(], "nodes": [)" + nodes +
                     R"(], "outputs": ["out"])");
  };
  Module roped = of_tokens(1, rope + query_text(R"("r", "k", "v")", "out"));
  CHECK(apply_keeping_values(turn_attention, roped) == 2);
  CHECK(attribute_of<std::string>(only_node(roped, "rope"), "layout") == "bshd");
  CHECK(attribute_of<std::string>(only_node(roped, "attention"), "q_layout") == "bshd");
  Module reshaped = of_tokens(1, op_text("reshape", R"("x")", "q4", R"("shape": [2, 4, 1, 8])") +
                                     ", " + query_text(R"("q4", "k", "v")", "out"));
  CHECK(apply_keeping_values(turn_attention, reshaped) == 1);
  CHECK(node_lines(reshaped) == Lines{"attention(x, k, v)"});
  check_stays(turn_attention, of_tokens(3, rope + query_text(R"("r", "k", "v")", "out")));
  check_stays(turn_attention,
              of_tokens(3, op_text("reshape", R"("x")", "q4", R"("shape": [2, 4, 3, 8])") + ", " +
                               query_text(R"("q4", "k", "v")", "out")));
}

TEST_CASE("what only looks like repeats or an exchange stays") {
  for (const std::string& nodes : {
           // Heads in another order.
           repeat_text("k", "kk", 1) + repeat_text("v", "vv", 1) +
               query_text(R"("q", "kk", "vv")", "out"),
           // Keys alone.
           repeat_text("k", "kk") + swap_text("z", "v4") + ", " +
               query_text(R"("q", "kk", "v4")", "out"),
           // A repeat along another axis of as many elements.
           op_text("repeat_interleave", R"("k")", "kw", R"("axis": 2, "repeats": 2)") + ", " +
               op_text("repeat_interleave", R"("v")", "vw", R"("axis": 2, "repeats": 2)") + ", " +
               op_text("reshape", R"("kw")", "kk", R"("shape": [2, 4, 5, 8])") + ", " +
               op_text("reshape", R"("vw")", "vv", R"("shape": [2, 4, 5, 8])") + ", " +
               query_text(R"("q", "kk", "vv")", "out"),
           // Other axes of as many elements.
           swap_text("q", "q1", "[0, 1, 3, 2]") + ", " +
               op_text("reshape", R"("q1")", "q2", R"("shape": [2, 4, 3, 8])") + ", " +
               op_text("concat", R"("k", "k")", "kk", R"("axis": 1)") + ", " +
               op_text("concat", R"("v", "v")", "vv", R"("axis": 1)") + ", " +
               query_text(R"("q2", "kk", "vv")", "out"),
       }) {
    Module module = module_of_query(nodes);
    CHECK(apply_keeping_values(turn_attention, module) == 0);
  }
}

TEST_CASE("a result that is read as it stands, or is an output, keeps its layout") {
  const std::string swaps =
      swap_text("y", "k4", "[0, 2, 1, 3]") + ", " + swap_text("z", "v4") + ", ";
  Module shared =
      module_of_query(swaps + query_text(R"("q", "k4", "v4")", "a") + ", " + swap_text("a", "out"),
                      R"(["out", "a"])");
  CHECK(apply_keeping_values(turn_attention, shared) == 1);
  const Node& node = only_node(shared, "attention");
  CHECK(attribute_of<std::string>(node, "out_layout") == "bhsd");
  CHECK(attribute_of<std::string>(node, "kv_layout") == "bshd");
  CHECK(only_node(shared, "transpose").inputs[0] == node.outputs[0]);
}

}  // namespace rlx::test
