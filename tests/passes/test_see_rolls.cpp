// SPDX-License-Identifier: Apache-2.0
// An axis cut and joined the other way round becomes a roll; what only looks like one stays.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

// x [2, 5, 7]
Module with_volume(const std::string& nodes, const std::string& outputs = R"(["y"])") {
  return module_of(R"("inputs": [)" + input_text("x", "[2, 5, 7]") + ", " +
                   input_text("z", "[2, 5, 7]") + R"(], "nodes": [)" + nodes + R"(], "outputs": )" +
                   outputs);
}

// Elements `start` up to `end` of an axis of x.
std::string cut_text(const std::string& x, const std::string& y, int axis, int start, int end) {
  return op_text("slice", '"' + x + '"', y,
                 R"("axes": [)" + std::to_string(axis) + R"(], "starts": [)" +
                     std::to_string(start) + R"(], "ends": [)" + std::to_string(end) + "]") +
         ", ";
}

std::string rolled_text(const std::string& x, const std::string& y, int axis, int start,
                        int rest = 0) {
  return cut_text(x, y + "_last", axis, start, 100) + cut_text(x, y + "_first", axis, rest, start) +
         op_text("concat", '"' + y + R"(_last", ")" + y + R"(_first")", y,
                 R"("axis": )" + std::to_string(axis));
}

}  // namespace

TEST_CASE("an axis whose first part stands behind the rest is rolled") {
  Module module = with_volume(rolled_text("x", "y", 1, 3));
  CHECK(apply_keeping_values(see_rolls, module) == 1);
  CHECK(node_lines(module) == Lines{"roll(x)"});
  CHECK(attribute_of<Ints>(only_node(module, "roll"), "shifts") == Ints{-3});
  Module parts =
      with_volume(op_text("narrow", R"("x")", "a", R"("axis": -1, "start": -2, "len": 2)") + ", " +
                  op_text("narrow", R"("x")", "b", R"("axis": 2, "start": 0, "len": 5)") + ", " +
                  op_text("concat", R"("a", "b")", "y", R"("axis": 2)"));
  CHECK(apply_keeping_values(see_rolls, parts) == 1);
  CHECK(node_lines(parts) == Lines{"roll(x)"});
}

TEST_CASE("rolls of two axes are one, unless something reads between them") {
  const std::string both = rolled_text("x", "r", 1, 3) + ", " + rolled_text("r", "y", 2, 4);
  Module module = with_volume(both);
  CHECK(apply_keeping_values(see_rolls, module) == 2);
  CHECK(node_lines(module) == Lines{"roll(x)"});
  Module read = with_volume(both, R"(["y", "r"])");
  CHECK(apply_keeping_values(see_rolls, read) == 2);
  CHECK(node_lines(read) == Lines{"roll(x)", "roll(r.roll)"});
  Module same = with_volume(rolled_text("x", "r", 1, 3) + ", " + rolled_text("r", "y", 1, 1));
  CHECK(apply_keeping_values(see_rolls, same) == 2);
  CHECK(node_lines(same) == Lines{"roll(x)", "roll(r.roll)"});
}

TEST_CASE("cuts that are no whole axis, or of two tensors, stay joined") {
  check_stays(see_rolls, with_volume(rolled_text("x", "y", 1, 3, 1)));
  check_stays(see_rolls, with_volume(cut_text("x", "a", 1, 3, 100) + cut_text("z", "b", 1, 0, 3) +
                                     op_text("concat", R"("a", "b")", "y", R"("axis": 1)")));
  check_stays(see_rolls, with_volume(cut_text("x", "a", 1, 0, 3) + cut_text("x", "b", 1, 3, 100) +
                                     op_text("concat", R"("a", "b")", "y", R"("axis": 1)")));
}

}  // namespace rlx::test
