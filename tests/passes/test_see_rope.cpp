// SPDX-License-Identifier: Apache-2.0
// Rotary embeddings that are written out become rope with the same results; what only looks like
// one stays.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

// x [2, 2, 3, 8] with heads before tokens, tables of angles [2, 3, 4], tables [2, 1, 3, 8] that say
// nothing about their halves, and half as wide ones.
Module rotating(const std::string& nodes, const std::string& outputs = R"(["y"])") {
  return module_of(R"("inputs": [)" + input_text("x", "[2, 2, 3, 8]") + ", " +
                   input_text("x_by_token", "[2, 3, 2, 8]") + ", " +
                   input_text("angles", "[2, 3, 4]") + ", " + input_text("wide", "[2, 1, 3, 8]") +
                   ", " + input_text("c", "[2, 1, 3, 4]") + ", " + input_text("s", "[2, 1, 3, 4]") +
                   ", " + input_text("by_head", "[2, 2, 3, 4]") + R"(], "params": [)" +
                   constant_text("known", "[3, 8]",
                                 "[1, 2, 3, 4, 1, 2, 3, 4, 0, 1, 0, 2, 0, 1, 0, 2, 5, 6, 7, 8, 5, "
                                 "6, 7, 8]") +
                   ", " +
                   constant_text("unlike", "[3, 8]",
                                 "[1, 2, 3, 4, 1, 2, 3, 4, 0, 1, 0, 2, 0, 1, 0, 2, 5, 6, 7, 8, 5, "
                                 "6, 7, 9]") +
                   R"(], "nodes": [)" + nodes + R"(], "outputs": )" + outputs);
}

std::string slice_text(const std::string& x, const std::string& y, const std::string& first,
                       const std::string& last, const std::string& step = "1") {
  return op_text("slice", "\"" + x + "\"", y,
                 R"("axes": [-1], "starts": [)" + first + R"(], "ends": [)" + last +
                     R"(], "steps": [)" + step + "]");
}

// cos and sin [2, 1, 3, 8] of angles that stand twice in a row.
const std::string kTables = op_text("concat", R"("angles", "angles")", "twice", R"("axis": -1)") +
                            ", " + op_text("cos", R"("twice")", "cos3") + ", " +
                            op_text("sin", R"("twice")", "sin3") + ", " +
                            op_text("unsqueeze", R"("cos3")", "cos", R"("axes": [1])") + ", " +
                            op_text("unsqueeze", R"("sin3")", "sin", R"("axes": [1])") + ", ";

// x * cos + rotate_half(x) * sin
std::string rotated_text(const std::string& x, const std::string& cos, const std::string& sin) {
  return slice_text(x, "x1", "0", "4") + ", " + slice_text(x, "x2", "4", "9223372036854775807") +
         ", " + op_text("neg", R"("x2")", "negated") + ", " +
         op_text("concat", R"("negated", "x1")", "turned", R"("axis": -1)") + ", " +
         op_text("mul", "\"" + x + "\", \"" + cos + "\"", "by_cos") + ", " +
         op_text("mul", "\"turned\", \"" + sin + "\"", "by_sin") + ", " +
         op_text("add", R"("by_cos", "by_sin")", "y");
}

std::string swapped(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  return text.replace(text.find(from), from.size(), to);
}

const Node& seen_rope(Module& module) {
  CHECK(apply_keeping_values(see_rope, module) == 1);
  return only_node(module, "rope");
}

}  // namespace

TEST_CASE("halves that change places are a rope whose tables are made of angles or known") {
  Module module = rotating(kTables + rotated_text("x", "cos", "sin"));
  const Node& rope = seen_rope(module);
  CHECK(attribute_of<std::string>(rope, "style") == "neox");
  CHECK(attribute_of<std::string>(rope, "layout") == "bhsd");
  CHECK_FALSE(rope.attributes.contains("n_rot"));
  Module known = rotating(rotated_text("x", "known", "known"));
  CHECK(apply_keeping_values(see_rope, known) == 1);
  CHECK(node_lines(known) == Lines{"rope(x, known, known)"});
}

TEST_CASE("heads that were turned are rotated as they were made") {
  Module module = rotating(op_text("transpose", R"("x_by_token")", "t", R"("perm": [0, 2, 1, 3])") +
                           ", " + rotated_text("t", "known", "known"));
  CHECK(attribute_of<std::string>(seen_rope(module), "layout") == "bshd");
  CHECK(node_lines(module) == Lines{"rope(x_by_token, known, known)", "transpose(y.rope)"});
}

TEST_CASE("neighbours that change places are a rope of pairs") {
  const std::string tables =
      op_text("repeat_interleave", R"("angles")", "twice", R"("axis": -1, "repeats": 2)") +
      kTables.substr(kTables.find("}}") + 2);
  const std::string nodes =
      tables + slice_text("x", "x1", "0", "8", "2") + ", " + slice_text("x", "x2", "1", "8", "2") +
      ", " + op_text("neg", R"("x2")", "negated") + ", " +
      op_text("unsqueeze", R"("negated")", "first", R"("axes": [-1])") + ", " +
      op_text("unsqueeze", R"("x1")", "second", R"("axes": [-1])") + ", " +
      op_text("concat", R"("first", "second")", "pairs", R"("axis": -1)") + ", " +
      op_text("reshape", R"("pairs")", "turned", R"("shape": [2, 2, 3, 8])") + ", " +
      op_text("mul", R"("cos", "x")", "by_cos") + ", " +
      op_text("mul", R"("sin", "turned")", "by_sin") + ", " +
      op_text("add", R"("by_sin", "by_cos")", "y");
  Module module = rotating(nodes);
  CHECK(attribute_of<std::string>(seen_rope(module), "style") == "gptj");
  // Tables of halves beside pairs.
  check_stays(see_rope, rotating(kTables + nodes.substr(tables.size())));
}

TEST_CASE("halves by themselves are a rope with tables of half the width") {
  const std::string nodes =
      R"({"op": "split", "inputs": ["x"], "outputs": ["x1", "x2"], "attributes": {"axis": -1, "num": 2}}, )" +
      op_text("mul", R"("x1", "c")", "a") + ", " + op_text("mul", R"("s", "x2")", "b") + ", " +
      op_text("sub", R"("a", "b")", "y1") + ", " + op_text("mul", R"("x1", "s")", "d") + ", " +
      op_text("mul", R"("x2", "c")", "e") + ", " + op_text("add", R"("e", "d")", "y2") + ", " +
      op_text("concat", R"("y1", "y2")", "y", R"("axis": -1)");
  Module module = rotating(nodes);
  CHECK(attribute_of<std::string>(seen_rope(module), "style") == "neox");
  check_stays(see_rope, rotating(swapped(nodes, R"("x1", "s")", R"("x1", "c")")));
  check_stays(see_rope, rotating(swapped(nodes, R"("a", "b")", R"("b", "a")")));
  check_stays(see_rope, rotating(swapped(nodes, R"("y1", "y2")", R"("y2", "y1")")));
  check_stays(see_rope, rotating(nodes, R"(["y", "y2"])"));
}

TEST_CASE("dims behind the rotated ones stay with the rope") {
  const std::string nodes =
      slice_text("x", "front", "0", "4") + ", " + slice_text("x", "back", "4", "8") + ", " +
      slice_text("front", "x1", "0", "2") + ", " + slice_text("front", "x2", "2", "4") + ", " +
      op_text("neg", R"("x2")", "negated") + ", " +
      op_text("concat", R"("negated", "x1")", "turned", R"("axis": -1)") + ", " +
      slice_text("angles", "few", "0", "2") + ", " +
      swapped(kTables, R"("angles", "angles")", R"("few", "few")") +
      op_text("mul", R"("front", "cos")", "by_cos") + ", " +
      op_text("mul", R"("turned", "sin")", "by_sin") + ", " +
      op_text("add", R"("by_cos", "by_sin")", "rotated") + ", " +
      op_text("concat", R"("rotated", "back")", "y", R"("axis": -1)");
  Module module = rotating(nodes);
  const Node& rope = seen_rope(module);
  CHECK(attribute_of<int64_t>(rope, "n_rot") == 4);
  CHECK(attribute_of<int64_t>(rope, "head_dim") == 8);
  CHECK(module.entries.at(0).value(*rope.inputs[0]).name == "x");
  // Other dims behind them.
  Module other = rotating(swapped(nodes, R"("rotated", "back")", R"("rotated", "front")"));
  CHECK_FALSE(seen_rope(other).attributes.contains("n_rot"));
}

TEST_CASE("what only looks like a rope stays as it is") {
  const std::string whole = kTables + rotated_text("x", "cos", "sin");
  check_stays(see_rope, rotating(rotated_text("x", "wide", "wide")));
  check_stays(see_rope, rotating(rotated_text("x", "known", "unlike")));
  check_stays(see_rope, rotating(swapped(whole, R"("op": "neg")", R"("op": "abs")")));
  check_stays(see_rope, rotating(swapped(whole, R"("negated", "x1")", R"("x1", "negated")")));
  check_stays(see_rope, rotating(swapped(whole, R"("by_cos", "by_sin")", R"("by_cos", "wide")")));
  check_stays(see_rope, rotating(whole, R"(["y", "turned"])"));
  check_stays(see_rope, rotating(whole, R"(["y", "by_cos"])"));
  // Tokens that a half has in the other order.
  check_stays(
      see_rope,
      rotating(swapped(whole, R"("axes": [-1], "starts": [0], "ends": [4], "steps": [1])",
                       R"("axes": [2, 3], "starts": [-1, 0], "ends": [-9, 4], "steps": [-1, 1])")));
  // A table for each head.
  check_stays(see_rope,
              rotating(op_text("concat", R"("by_head", "by_head")", "t", R"("axis": -1)") + ", " +
                       rotated_text("x", "t", "t")));
}

}  // namespace rlx::test
