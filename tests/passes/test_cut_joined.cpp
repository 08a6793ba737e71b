// SPDX-License-Identifier: Apache-2.0
// Parts of joined values are read where they came from; what is cut across them stays.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

// x, z [2, 3, 1], pairs of which are [2, 3, 2]; row [2] and pair [2, 3, 2]
Module with_pairs(const std::string& nodes, const std::string& outputs = R"(["y"])") {
  return module_of(R"("inputs": [)" + input_text("x", "[2, 3, 1]") + ", " +
                   input_text("z", "[2, 3, 1]") + ", " + input_text("row", "[2]") + ", " +
                   input_text("pair", "[2, 3, 2]") + R"(], "nodes": [)" + nodes +
                   R"(], "outputs": )" + outputs);
}

std::string joined_text(const std::string& parts, const std::string& y, int axis = 2) {
  return op_text("concat", parts, y, R"("axis": )" + std::to_string(axis)) + ", ";
}

std::string part_text(const std::string& x, const std::string& y, int start, int length = 1,
                      int axis = -1) {
  return op_text("narrow", '"' + x + '"', y,
                 R"("axis": )" + std::to_string(axis) + R"(, "start": )" + std::to_string(start) +
                     R"(, "len": )" + std::to_string(length));
}

const std::string kJoinedPair = joined_text(R"("x", "z")", "c");

}  // namespace

TEST_CASE("a cut inside one part of a concat reads the part") {
  Module module =
      with_pairs(kJoinedPair + part_text("c", "a", 1) + ", " + op_text("exp", R"("a")", "y"));
  CHECK(apply_keeping_values(cut_joined, module) == 1);
  CHECK(node_lines(module) == Lines{"exp(z)"});
  Module inside = with_pairs(joined_text(R"("x", "pair")", "c") + part_text("c", "a", 2) + ", " +
                             op_text("exp", R"("a")", "y"));
  CHECK(apply_keeping_values(cut_joined, inside) == 1);
  CHECK(node_lines(inside) == Lines{"narrow(pair)", "exp(a.narrow)"});
}

TEST_CASE("a split into the parts of a concat is gone") {
  const std::string halves = R"({"op": "split", "inputs": ["c"], "outputs": ["a", "b"], )"
                             R"("attributes": {"axis": 2, "num": 2}}, )";
  Module module = with_pairs(kJoinedPair + halves + op_text("sub", R"("b", "a")", "y"));
  CHECK(apply_keeping_values(cut_joined, module) == 1);
  CHECK(node_lines(module) == Lines{"sub(z, x)"});
  Module across = with_pairs(joined_text(R"("x", "pair", "z")", "c") + halves +
                             op_text("sub", R"("b", "a")", "y"));
  CHECK(apply(cut_joined, across) == 0);
}

TEST_CASE("what a concat joins again it joins of the first parts") {
  const std::string five = joined_text(R"("x", "pair", "z", "pair")", "c");
  Module nested = with_pairs(kJoinedPair + joined_text(R"("pair", "c", "x")", "d") +
                             op_text("exp", R"("d")", "y"));
  CHECK(apply_keeping_values(cut_joined, nested) == 1);
  CHECK(node_lines(nested) == Lines{"concat(pair, x, z, x)", "exp(d)"});
  // Whole parts, and half of one.
  Module whole = with_pairs(five + part_text("c", "a", 1, 3) + ", " +
                            joined_text(R"("x", "a")", "d") + op_text("exp", R"("d")", "y"));
  CHECK(apply_keeping_values(cut_joined, whole) == 1);
  CHECK(node_lines(whole) == Lines{"concat(x, pair, z)", "exp(d)"});
  Module half = with_pairs(five + part_text("c", "a", 2, 3) + ", " +
                           joined_text(R"("x", "a")", "d") + op_text("exp", R"("d")", "y"));
  CHECK(apply_keeping_values(cut_joined, half) == 1);
  CHECK(node_lines(half) ==
        Lines{"narrow(pair)", "narrow(pair)", "concat(x, d.narrow, z, d.narrow.1)", "exp(d)"});
  // Another axis; a cut that something else reads too.
  check_stays(cut_joined, with_pairs(kJoinedPair + joined_text(R"("pair", "c")", "d", 1) +
                                     op_text("exp", R"("d")", "y")));
  check_stays(cut_joined,
              with_pairs(five + part_text("c", "a", 1, 3) + ", " + joined_text(R"("x", "a")", "y") +
                             op_text("exp", R"("a")", "e"),
                         R"(["y", "e"])"));
}

TEST_CASE("elementwise nodes of which cuts alone are read are computed of parts") {
  // A complex product, whose other factor is no concat, and a sum before the cuts.
  Module module =
      with_pairs(kJoinedPair + op_text("add", R"("c", "pair")", "s") + ", " +
                 op_text("mul", R"("s", "row")", "m") + ", " + part_text("m", "a", 0) + ", " +
                 part_text("m", "b", 1) + ", " + op_text("sub", R"("a", "b")", "y"));
  CHECK(apply_keeping_values(cut_joined, module) >= 2);
  for (const std::string& line : node_lines(module)) CHECK(line.find("concat") != 0);
}

TEST_CASE("cuts across parts, of another axis or of what is read as a whole stay") {
  check_stays(cut_joined,
              with_pairs(joined_text(R"("x", "pair")", "c") + part_text("c", "y", 0, 2)));
  check_stays(cut_joined, with_pairs(kJoinedPair + part_text("c", "y", 1, 1, 1)));
  const std::string sum = kJoinedPair + op_text("add", R"("c", "pair")", "s") + ", ";
  check_stays(cut_joined, with_pairs(sum + part_text("s", "y", 0), R"(["y", "s"])"));
  check_stays(cut_joined,
              with_pairs(sum + part_text("s", "y", 0) + ", " + op_text("exp", R"("s")", "e"),
                         R"(["y", "e"])"));
  check_stays(cut_joined,
              with_pairs(sum + part_text("s", "a", 0, 2) + ", " + part_text("s", "b", 0) + ", " +
                         op_text("add", R"("a", "b")", "y")));
  // Sums over joined values are no elementwise nodes.
  check_stays(cut_joined,
              with_pairs(kJoinedPair + op_text("cumsum", R"("c")", "s", R"("axis": 1)") + ", " +
                         part_text("s", "y", 0)));
  // A triangle goes by places.
  check_stays(cut_joined, with_pairs(kJoinedPair + op_text("trilu", R"("c")", "s") + ", " +
                                     part_text("s", "y", 1)));
}

}  // namespace rlx::test
