// SPDX-License-Identifier: Apache-2.0
// Masks of attention nodes that say what an attribute says are read no more; others stay.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

// Constants over 3 queries and 3 or 4 keys, a condition that varies, and positions.
const std::string kConstants =
    constant_text("lower", "[1, 1, 3, 3]", "[1, 0, 0, 1, 1, 0, 1, 1, 1]", "bool") + ", " +
    constant_text("ahead", "[3, 4]", "[1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1]", "bool") + ", " +
    constant_text("first", "[3, 4]", "[1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0]", "bool") + ", " +
    constant_text("band", "[3, 3]", "[1, 0, 0, 1, 1, 0, 0, 1, 1]", "bool") + ", " +
    constant_text("open", "[1, 1, 1, 3]", "[1, 1, 1]", "bool") + ", " +
    constant_text("other", "[1, 1, 3, 3]", "[1, 0, 0, 1, 1, 0, 1, 0, 1]", "bool") + ", " +
    constant_text("upper", "[1, 1, 3, 3]", R"([0, "-inf", "-inf", 0, 0, "-inf", 0, 0, 0])") + ", " +
    constant_text("slope", "[1, 1, 3, 3]", R"([0, "-inf", "-inf", 1, 0, "-inf", 2, 1, 0])");

Module module_with(const std::string& nodes, const std::string& outputs = R"(["out"])") {
  return module_of(R"("inputs": [)" + input_text("q", "[2, 4, 3, 8]") + ", " +
                   input_text("k", "[2, 4, 3, 8]") + ", " + input_text("longer", "[2, 4, 4, 8]") +
                   ", " + input_text("keep", "[2, 1, 1, 3]", "bool") + ", " +
                   input_text("lengths", "[2]", "i32") + R"(], "params": [)" + kConstants +
                   R"(], "nodes": [)" + nodes + R"(], "outputs": )" + outputs);
}

std::string attention_text(const std::string& inputs, const std::string& more = "") {
  return op_text(
      "attention", inputs, "out",
      R"("num_heads": 4, "head_dim": 8, "q_layout": "bhsd", "kv_layout": "bhsd")" + more);
}

}  // namespace

TEST_CASE("a mask that is a triangle becomes causal") {
  Module module = module_with(attention_text(R"("q", "k", "k", "lower")"));
  CHECK(apply_keeping_values(see_masks, module) == 1);
  CHECK(node_lines(module) == Lines{"attention(q, k, k)"});
  CHECK(attribute_of<bool>(only_node(module, "attention"), "causal"));
}

TEST_CASE("triangles of more keys than queries say where they are aligned") {
  for (const auto& [name, align] : {std::pair{"ahead", "end"}, std::pair{"first", "start"}}) {
    const std::string quoted = std::string("\"") + name + '"';
    Module module = module_with(op_text("unsqueeze", quoted, "four", R"("axes": [0, 1])") + ", " +
                                attention_text(R"("q", "longer", "longer", "four")"));
    // The view of a constant is one once it is folded.
    apply_keeping_values(fold_constants, module);
    CHECK(apply_keeping_values(see_masks, module) == 1);
    CHECK(attribute_of<std::string>(only_node(module, "attention"), "causal_align") == align);
  }
}

TEST_CASE("a band becomes causal and a window") {
  Module module = module_with(op_text("unsqueeze", R"("band")", "four", R"("axes": [0, 1])") +
                              ", " + attention_text(R"("q", "k", "k", "four")"));
  apply_keeping_values(fold_constants, module);
  CHECK(apply_keeping_values(see_masks, module) == 1);
  const Node& node = only_node(module, "attention");
  CHECK(attribute_of<bool>(node, "causal"));
  CHECK(attribute_of<int64_t>(node, "window_left") == 1);
}

TEST_CASE("a mask that leaves every key is dropped, and so is a triangle of a causal node") {
  Module open = module_with(attention_text(R"("q", "k", "k", "open")"));
  CHECK(apply_keeping_values(see_masks, open) == 1);
  CHECK_FALSE(attribute_of<bool>(only_node(open, "attention"), "causal"));
  Module twice = module_with(attention_text(R"("q", "k", "k", "lower")", R"(, "causal": true)"));
  CHECK(apply_keeping_values(see_masks, twice) == 1);
  CHECK(node_lines(twice) == Lines{"attention(q, k, k)"});
}

TEST_CASE("of conditions that must all hold the unknown ones stay the mask") {
  Module module = module_with(op_text("logical_and", R"("lower", "keep")", "both") + ", " +
                              op_text("logical_and", R"("both", "open")", "all") + ", " +
                              attention_text(R"("q", "k", "k", "all")"));
  CHECK(apply_keeping_values(see_masks, module) == 1);
  CHECK(node_lines(module) == Lines{"attention(q, k, k, keep)"});
  CHECK(attribute_of<bool>(only_node(module, "attention"), "causal"));
}

TEST_CASE("a bias of -inf above a triangle becomes causal") {
  Module module = module_with(attention_text(R"("q", "k", "k", null, "upper")"));
  CHECK(apply_keeping_values(see_masks, module) == 1);
  CHECK(node_lines(module) == Lines{"attention(q, k, k)"});
}

TEST_CASE("a mask that the init entry would make is evaluated") {
  // 300 x 300 positions: more bytes than a plan is to hold.
  const std::string positions = R"("count": 300)";
  Module module = module_of(
      R"("inputs": [)" + input_text("q", "[1, 1, 300, 8]") + R"(], "params": [)" +
      constant_text("zero", "[]", "[0]", "i64") + ", " + constant_text("one", "[]", "[1]", "i64") +
      R"(], "nodes": [)" + op_text("ramp", R"("zero", "one")", "at", positions) + ", " +
      op_text("unsqueeze", R"("at")", "keys", R"("axes": [0, 1, 2])") + ", " +
      op_text("unsqueeze", R"("at")", "queries", R"("axes": [0, 1, 3])") + ", " +
      op_text("sub", R"("queries", "keys")", "apart") + ", " +
      op_text("ge", R"("apart", "zero")", "mask") + ", " +
      op_text("attention", R"("q", "q", "q", "mask")", "out",
              R"("num_heads": 1, "head_dim": 8, "q_layout": "bhsd", "kv_layout": "bhsd")") +
      R"(], "outputs": ["out"])");
  apply_keeping_values(fold_constants, module);
  CHECK(apply_keeping_values(see_masks, module) == 1);
  CHECK(node_lines(module) == Lines{"attention(q, q, q)"});
}

TEST_CASE("masks that almost say so stay") {
  for (const std::string& nodes : {
           attention_text(R"("q", "k", "k", "other")"),
           attention_text(R"("q", "k", "k", "keep")"),
           attention_text(R"("q", "k", "k", null, "slope")"),
           // Positions that only the run knows.
           attention_text(R"("q", "k", "k", "lower", null, "lengths")"),
           attention_text(R"("q", "k", "k", "lower", null, null, "lengths")"),
           op_text("logical_or", R"("lower", "keep")", "either") + ", " +
               attention_text(R"("q", "k", "k", "either")"),
       })
    check_stays(see_masks, module_with(nodes));
  // A triangle from the first key, where the node counts from the last one.
  Module module =
      module_with(op_text("unsqueeze", R"("first")", "four", R"("axes": [0, 1])") + ", " +
                  attention_text(R"("q", "longer", "longer", "four")", R"(, "causal": true)"));
  apply_keeping_values(fold_constants, module);
  CHECK(apply_keeping_values(see_masks, module) == 0);
}

}  // namespace rlx::test
