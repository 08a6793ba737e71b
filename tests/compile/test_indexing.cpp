// SPDX-License-Identifier: Apache-2.0
// Gathers that read views in place, and scatters that write where their base dies.
#include <algorithm>

#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

// Inputs x f32[6, 8], u f32[5, 8], i i32[5]; the nodes make the outputs.
std::string graph_of(const std::string& nodes, const std::string& outputs) {
  return R"({"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [6, 8]},
    {"name": "u", "dtype": "f32", "shape": [5, 8]}, {"name": "i", "dtype": "i32", "shape": [5]}],
    "nodes": [)" +
         nodes + R"(], "outputs": )" + outputs + "}";
}

const std::string kExp = node("exp", R"("x")", "e");
const std::string kAdd = node("index_add", R"("e", "i", "u")", "s", R"({"axis": 0})");
const std::string kRowSum = node("reduce_sum", R"("s")", "y", R"({"axes": [1]})");

// Copies that level 2 emits for the first of the tests' targets.
size_t copies_in(const std::string& text) {
  CompileOptions options = test_options(2);
  options.targets.resize(1);
  Diagnostics diagnostics;
  const auto plan = compile_plan(module_from(text), options, diagnostics);
  REQUIRE(plan != nullptr);
  const auto& steps = *plan->index().entries()->Get(0)->steps();
  return static_cast<size_t>(std::count_if(steps.begin(), steps.end(), [](const fb::Step* step) {
    return step->kind() == fb::StepKind::Copy;
  }));
}

size_t checked_copies(const std::string& text) {
  check_on_devices(text);
  return copies_in(text);
}

}  // namespace

TEST_CASE("gathers_read_views_without_a_copy") {
  const std::string turned = node("transpose", R"("x")", "t", R"({"perm": [1, 0]})");
  const std::string part = node("narrow", R"("x")", "t", R"({"axis": 1, "start": 4, "len": 4})");
  const std::string wide = node("expand", R"("x")", "t", R"({"shape": [3, 6, 8]})");
  for (const std::string& view : {turned, part, wide}) {
    for (const std::string axis : {R"({"axis": 0})", R"({"axis": 1})"}) {
      const std::string text =
          graph_of(view + ", " + node("gather", R"("t", "i")", "y", axis), R"(["y"])");
      check_on_devices(text);
      CHECK(steps_of(text) == 1);
    }
  }
  check_on_devices(graph_of(node("reverse", R"("x")", "t", R"({"axes": [0, 1]})") + ", " +
                                node("gather", R"("t", "i")", "y"),
                            R"(["y"])"));
}

TEST_CASE("T32_conditions_indices_and_targets_may_be_views_with_an_offset") {
  const std::string part = node("narrow", R"("i")", "j", R"({"axis": 0, "start": 2, "len": 3})");
  const std::string back = node("reverse", R"("j")", "k", R"({"axes": [0]})");
  const std::string rows = node("narrow", R"("u")", "v", R"({"axis": 0, "start": 2, "len": 3})");
  const std::string gather = node("gather", R"("x", "k")", "y");
  check_on_devices(graph_of(part + ", " + back + ", " + gather, R"(["y"])"));
  const std::string scatter = node("index_add", R"("x", "k", "v")", "y", R"({"axis": 0})");
  check_on_devices(graph_of(part + ", " + back + ", " + rows + ", " + scatter, R"(["y"])"));
  const std::string above = node("gt", R"("x", "x2")", "c");
  const std::string turned = node("reverse", R"("x")", "x2", R"({"axes": [1]})");
  const std::string inner =
      node("slice", R"("c")", "d", R"({"axes": [0, 1], "starts": [1, 7], "ends": [6, -9],
                                       "steps": [1, -1]})");
  const std::string where = node("where", R"("d", "u", "z")", "y");
  const std::string zeros = node("neg", R"("u")", "z");
  check_on_devices(
      graph_of(turned + ", " + above + ", " + inner + ", " + zeros + ", " + where, R"(["y"])"));
}

// In the program that makes weights nobody counts the indices that lie outside.
TEST_CASE("a_one_hot_of_weights_is_made_once") {
  const std::string text = R"({"rlx_graph": 1,
    "params": [{"name": "i", "dtype": "i32", "shape": [4], "data": {"values": [1, -1, 69, 5000]}},
               {"name": "t", "dtype": "f32", "shape": [5000, 8], "data": {"splat": 0.5}}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": [4, 8]}],
    "nodes": [{"op": "one_hot", "inputs": ["i"], "outputs": ["h"], "attributes": {"depth": 5000}},
              {"op": "matmul", "inputs": ["h", "t"], "outputs": ["m"]},
              {"op": "add", "inputs": ["m", "x"], "outputs": ["y"]}],
    "outputs": ["y"]})";
  check_on_devices(text);
  CHECK(steps_of(text) == 1);
}

TEST_CASE("tuples_name_places_of_views") {
  const std::string index = node("reshape", R"("i")", "j", R"({"shape": [5, 1]})") + ", ";
  const std::string turned = node("transpose", R"("x")", "t", R"({"perm": [1, 0]})") + ", ";
  const std::string nd = node("gather_nd", R"("t", "j")", "y");
  const std::string elements = node("gather_elements", R"("t", "j")", "y", R"({"axis": 1})");
  CHECK(steps_of(graph_of(index + turned + nd, R"(["y"])")) == 1);
  check_on_devices(graph_of(index + turned + nd, R"(["y"])"));
  check_on_devices(graph_of(index + turned + elements, R"(["y"])"));
  const std::string back = node("reverse", R"("x")", "t", R"({"axes": [0, 1]})") + ", ";
  check_on_devices(graph_of(index + back + nd, R"(["y"])"));
}

TEST_CASE("T106_a_base_that_dies_is_written_in_place") {
  CHECK(checked_copies(graph_of(kExp + ", " + kAdd + ", " + kRowSum, R"(["y"])")) == 0);
}

TEST_CASE("T106_a_base_that_is_a_view_with_an_offset_is_written_in_place") {
  const std::string part = node("narrow", R"("e")", "p", R"({"axis": 0, "start": 2, "len": 4})");
  const std::string add = node("index_add", R"("p", "i", "u")", "s", R"({"axis": 0})");
  CHECK(checked_copies(graph_of(kExp + ", " + part + ", " + add + ", " + kRowSum, R"(["y"])")) ==
        0);
}

TEST_CASE("T106_a_base_that_is_read_again_is_copied") {
  const std::string later = node("mul", R"("e", "s")", "z");
  CHECK(checked_copies(graph_of(kExp + ", " + kAdd + ", " + later, R"(["z"])")) == 1);
  // By a view that was taken before.
  const std::string view = node("reshape", R"("e")", "r", R"({"shape": [48]})");
  const std::string old = node("reduce_sum", R"("r")", "z", R"({"axes": [0]})");
  CHECK(checked_copies(graph_of(kExp + ", " + view + ", " + kAdd + ", " + kRowSum + ", " + old,
                                R"(["y", "z"])")) == 1);
  CHECK(checked_copies(graph_of(kExp + ", " + kAdd + ", " + kRowSum, R"(["e", "y"])")) == 1);
}

TEST_CASE("T106_updates_that_lie_beside_the_base_are_not_overwritten") {
  const std::string halves = node("narrow", R"("e")", "b", R"({"axis": 0, "start": 0, "len": 5})") +
                             ", " +
                             node("narrow", R"("e")", "v", R"({"axis": 0, "start": 1, "len": 5})");
  const std::string add = node("index_add", R"("b", "i", "v")", "s", R"({"axis": 0})");
  CHECK(checked_copies(graph_of(kExp + ", " + halves + ", " + add + ", " + kRowSum, R"(["y"])")) ==
        1);
}

TEST_CASE("copies_of_views_of_the_old_base_are_not_those_of_the_new_one") {
  // Both products want the transposed operand in rows.
  const auto product = [](const std::string& x, const std::string& turned, const std::string& y) {
    return node("transpose", '"' + x + '"', turned, R"({"perm": [1, 0]})") + ", " +
           node("kv_append", '"' + turned + R"(", "u8", "zero")", y, R"({"axis": 1})");
  };
  const std::string extra = node("narrow", R"("u")", "n", R"({"axis": 0, "start": 0, "len": 1})") +
                            ", " + node("transpose", R"("n")", "u8", R"({"perm": [1, 0]})") + ", " +
                            node("narrow", R"("i")", "o", R"({"axis": 0, "start": 0, "len": 1})") +
                            ", " + node("reshape", R"("o")", "zero", R"({"shape": []})");
  check_on_devices(graph_of(kExp + ", " + extra + ", " + product("e", "t1", "a") + ", " + kAdd +
                                ", " + product("s", "t2", "b"),
                            R"(["a", "b"])"));
}

TEST_CASE("a_state_is_scattered_into_in_place") {
  const std::string text = R"({"rlx_graph": 1,
    "states": [{"name": "c", "dtype": "f32", "shape": [7, 4], "init": "ones"}],
    "inputs": [{"name": "j", "dtype": "i32", "shape": [3, 1]}, {"name": "v", "dtype": "f32", "shape": [3, 4]}],
    "nodes": [)" + node("scatter_nd", R"("c", "j", "v")", "d", R"({"reduction": "max"})") +
                           ", " + node("state_write", R"("c", "d")", "k") + ", " +
                           node("reduce_sum", R"("d")", "y", R"({"axes": [0]})") +
                           R"(], "outputs": ["y"]})";
  CHECK(checked_copies(text) == 0);
}

}  // namespace rlx::test
