// SPDX-License-Identifier: Apache-2.0
// Data movement that costs nothing: parts of concats are written by their producers, slices are
// read where they lie, and what follows from positions is computed where it is read.
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

std::string node_of_many(const std::string& op, const std::string& inputs,
                         const std::string& outputs, const std::string& attributes = "{}") {
  return R"({"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": [)" + outputs +
         R"(], "attributes": )" + attributes + "}";
}

// Bytes of the plan with its weights, compiled at level 2 for the tests' targets.
size_t plan_bytes(const std::string& text) {
  return compiled(module_from(text), test_options(2)).size();
}

uint64_t arena_bytes(const std::string& text) {
  Diagnostics diagnostics;
  CompileSummary summary;
  const auto plan = compile_to_bytes(module_from(text), test_options(2), diagnostics, &summary);
  INFO(diagnostics.text());
  REQUIRE(plan.has_value());
  return summary.arena_bytes;
}

}  // namespace

TEST_CASE("a_large_expand_of_a_constant_that_readers_would_copy_is_made_by_init") {
  const std::string text =
      R"({"rlx_graph": 1, "constants": [{"name": "a", "dtype": "f32", "shape": [64], "data": {"values": [)" +
      std::string("1") +
      [] {
        std::string values;
        for (int i = 1; i < 64; ++i) values += ", " + std::to_string(i % 7 - 3);
        return values;
      }() +
      R"(]}}], "inputs": [)" + input("x", "[300, 64]") + R"(], "nodes": [)" +
      node("expand", R"("a")", "e", R"({"shape": [300, 64]})") + ", " +
      node("cumsum", R"("e")", "s", R"({"axis": 0})") + ", " + node("mul", R"("s", "x")", "y") +
      R"(], "outputs": ["y"]})";
  CHECK(steps_of(text) == 1);
  check_on_devices(text);
}

TEST_CASE("nodes_over_a_large_expand_of_a_constant_are_computed_once") {
  const auto model = [](const std::string& data) {
    return R"({"rlx_graph": 1, "params": [{"name": "a", "dtype": "f32", "shape": [64], "data": )" +
           data + R"(}], "inputs": [)" + input("x", "[300, 64]") + R"(], "nodes": [)" +
           node("expand", R"("a")", "e", R"({"shape": [300, 64]})") + ", " +
           node("exp", R"("e")", "p") + ", " + node("cumsum", R"("p")", "s", R"({"axis": 1})") +
           ", " + node("reduce_sum", R"("e")", "t", R"({"axes": [0]})") + ", " +
           node("add", R"("s", "x")", "z") + ", " + node("mul", R"("z", "t")", "y") +
           R"(], "outputs": ["y"]})";
  };
  for (const char* data :
       {R"({"splat": 0.25})",
        R"({"random": {"distribution": "uniform", "low": 0, "high": 1, "seed": 3}})"}) {
    INFO(data);
    CHECK(steps_of(model(data)) == 1);
    check_on_devices(model(data));
  }
}

TEST_CASE("producers_write_the_parts_of_a_concat_on_an_inner_axis") {
  const std::string parts = graph(
      input("x", "[3, 8]") + ", " + input("z", "[3, 4]"),
      node_of_many("exp", R"("x")", R"("a")") + ", " + node_of_many("square", R"("z")", R"("b")") +
          ", " + node_of_many("concat", R"("a", "b")", R"("y")", R"({"axis": 1})"));
  check_on_devices(parts);
  CHECK(steps_of(parts) == 2);
  const std::string repeated = graph(
      input("x", "[3, 2, 5]") + ", " + input("z", "[3, 1, 5]"),
      node_of_many("exp", R"("x")", R"("a")") + ", " + node_of_many("square", R"("z")", R"("b")") +
          ", " + node_of_many("concat", R"("a", "b", "a")", R"("i")", R"({"axis": 1})") + ", " +
          node_of_many("neg", R"("x")", R"("c")") + ", " +
          node_of_many("concat", R"("c", "i")", R"("y")", R"({"axis": 1})"));
  check_on_devices(repeated);
  CHECK(steps_of(repeated) == 4);  // three producers, and a copy for the second "a"
}

TEST_CASE("a_part_that_a_product_reads_stays_in_one_piece") {
  const std::string text =
      graph(input("x", "[6, 8]") + ", " + input("w", "[8, 4]"),
            node_of_many("exp", R"("x")", R"("a")") + ", " +
                node_of_many("matmul", R"("a", "w")", R"("b")") + ", " +
                node_of_many("concat", R"("a", "b")", R"("y")", R"({"axis": 1})"));
  check_on_devices(text);
  CHECK(steps_of(text) == 3);  // exp, its copy, and the product, which is written where it belongs
}

// Two parts, a concat of them that a product reads, and a larger concat of parts and product.
std::string grown_concat(const std::string& first, const std::string& second, int64_t axis) {
  const std::string along = R"({"axis": )" + std::to_string(axis) + "}";
  return graph(input("x", "[2, 8]") + ", " + input("w", axis == 0 ? "[8, 8]" : "[16, 8]"),
               node_of_many("exp", R"("x")", R"("a")") + ", " +
                   node_of_many("neg", R"("x")", R"("b")") + ", " +
                   node_of_many("concat", first, R"("h")", along) + ", " +
                   node_of_many("matmul", R"("h", "w")", R"("c")") + ", " +
                   node_of_many("concat", second, R"("y")", along));
}

TEST_CASE("parts_that_lie_side_by_side_in_a_larger_concat_make_up_a_smaller_one") {
  for (const char* second : {R"("a", "b", "c")", R"("c", "a", "b")"}) {
    INFO(second);
    const std::string text = grown_concat(R"("a", "b")", second, 0);
    check_on_devices(text);
    CHECK(steps_of(text) == 3);  // exp, neg and the product
    CHECK(arena_bytes(text) == 0);
  }
  // "a" has its place at the front, "b" apart from it: both are copied, and "a" once more.
  const std::string twice = grown_concat(R"("a", "b")", R"("a", "a", "b", "c")", 0);
  check_on_devices(twice);
  CHECK(steps_of(twice) == 6);
}

TEST_CASE("parts_in_another_order_or_with_gaps_between_are_joined_by_copies") {
  const std::string turned = grown_concat(R"("b", "a")", R"("a", "b", "c")", 0);
  check_on_devices(turned);
  CHECK(steps_of(turned) == 5);
  const std::string with_gaps = grown_concat(R"("a", "b")", R"("a", "b", "c")", 1);
  check_on_devices(with_gaps);
  CHECK(steps_of(with_gaps) > 3);
}

TEST_CASE("stacked_tiled_and_repeated_tensors_are_written_where_they_are_read") {
  const std::string stacked = graph(
      input("x", "[3, 4]"), node_of_many("exp", R"("x")", R"("a")") + ", " +
                                node_of_many("neg", R"("x")", R"("b")") + ", " +
                                node_of_many("stack", R"("a", "b")", R"("y")", R"({"axis": -1})"));
  check_on_devices(stacked);
  CHECK(steps_of(stacked) == 2);
  const std::string tiled = graph(
      input("x", "[3, 4]"),
      node_of_many("tile", R"("x")", R"("a")", R"({"repeats": [1, 2]})") + ", " +
          node_of_many("repeat_interleave", R"("x")", R"("b")", R"({"axis": 1, "repeats": 3})") +
          ", " + node_of_many("concat", R"("a", "b")", R"("y")", R"({"axis": 1})"));
  check_on_devices(tiled);
  CHECK(steps_of(tiled) == 2);
}

TEST_CASE("slices_splits_and_diagonals_are_read_where_they_lie") {
  const std::string text = graph(
      input("x", "[4, 9]"),
      node_of_many("split", R"("x")", R"("a", "b")", R"({"axis": 1, "sizes": [4, 5]})") + ", " +
          node_of_many("narrow", R"("b")", R"("c")", R"({"axis": 1, "start": 1, "len": 4})") +
          ", " + node_of_many("reverse", R"("c")", R"("d")", R"({"axes": [1]})") + ", " +
          node_of_many("add", R"("a", "d")", R"("e")") + ", " +
          node_of_many("diagonal", R"("e")", R"("g")") + ", " +
          node_of_many("neg", R"("g")", R"("y")"));
  check_on_devices(text);
  CHECK(steps_of(text) == 2);
}

TEST_CASE("a_reshape_that_copies_writes_the_output_itself") {
  const std::string shuffled =
      graph(input("x", "[2, 12, 6, 10]"),
            node_of_many("depth_to_space", R"("x")", R"("y")", R"({"block": 2})"));
  check_on_devices(shuffled);
  CHECK(steps_of(shuffled) == 1);
  CHECK(arena_bytes(shuffled) == 0);
  const std::string flat =
      graph(input("x", "[33, 65]"),
            node_of_many("transpose", R"("x")", R"("t")") + ", " +
                node_of_many("reshape", R"("t")", R"("y")", R"({"shape": [-1]})"));
  check_on_devices(flat);
  CHECK(steps_of(flat) == 1);
  CHECK(arena_bytes(flat) == 0);
}

TEST_CASE("what_follows_from_positions_joins_the_region_that_reads_it") {
  const std::string masked = graph(
      input("x", "[2, 70, 70]") + ", " + input("i", "[2, 70]", "i32"),
      node_of_many("exp", R"("x")", R"("e")") + ", " + node_of_many("trilu", R"("e")", R"("t")") +
          ", " + node_of_many("one_hot", R"("i")", R"("h")", R"({"depth": 70})") + ", " +
          node_of_many("add", R"("t", "h")", R"("s")") + ", " +
          node_of_many("fill", "", R"("f")", R"({"shape": [2, 70, 70], "value": 0.5})") + ", " +
          node_of_many("mul", R"("s", "f")", R"("y")"));
  check_on_devices(masked);
  CHECK(steps_of(masked) == 1);
  const std::string diagonal =
      graph(input("x", "[300, 300]"), node_of_many("eye", "", R"("i")", R"({"n": 300})") + ", " +
                                          node_of_many("add", R"("x", "i")", R"("y")"));
  check_on_devices(diagonal);
  CHECK(steps_of(diagonal) == 1);
  const std::string summed =
      graph(input("x", "[3, 70, 70]"),
            node_of_many("trilu", R"("x")", R"("t")", R"({"k": -3})") + ", " +
                node_of_many("reduce_sum", R"("t")", R"("y")", R"({"axes": [-1]})"));
  check_on_devices(summed);
}

TEST_CASE("scalars_of_a_run_join_the_region_that_reads_them") {
  const std::string text =
      graph(input("x", "[40, 3]") + ", " + input("s", "[]") + ", " + input("k", "[1]"),
            node_of_many("exp", R"("s")", R"("e")") + ", " +
                node_of_many("mul", R"("e", "k")", R"("f")") + ", " +
                node_of_many("mul", R"("x", "f")", R"("y")"));
  check_on_devices(text);
  CHECK(steps_of(text) == 1);
}

TEST_CASE("large_constants_of_one_value_take_no_room_in_the_plan") {
  const std::string inputs = input("x", "[2048, 2048]");
  const std::string filled =
      graph(inputs, node_of_many("fill", "", R"("f")", R"({"shape": [2048, 2048], "value": 3})") +
                        ", " + node_of_many("eye", "", R"("i")", R"({"n": 2048})") + ", " +
                        node_of_many("add", R"("f", "i")", R"("s")") + ", " +
                        node_of_many("mul", R"("s", "x")", R"("y")"));
  CHECK(plan_bytes(filled) < (size_t{1} << 20));
  CHECK(steps_of(filled) == 1);
  const std::string numbers =
      R"("constants": [{"name": "zero", "dtype": "f32", "shape": [], "data": {"values": [0]}},
                       {"name": "end", "dtype": "f32", "shape": [], "data": {"values": [4000000]}},
                       {"name": "one", "dtype": "f32", "shape": [], "data": {"values": [1]}}], )";
  const std::string counted =
      R"({"rlx_graph": 1, )" + numbers + R"("inputs": [)" + input("x", "[4000000]") +
      R"(], "nodes": [)" + node_of_many("range", R"("zero", "end", "one")", R"("r")") + ", " +
      node_of_many("add", R"("r", "x")", R"("y")") + R"(], "outputs": ["y"]})";
  CHECK(plan_bytes(counted) < (size_t{1} << 20));
  CHECK(steps_of(counted) == 1);
}

TEST_CASE("a_range_counts_the_size_of_a_tensor") {
  const std::string numbers =
      R"("constants": [{"name": "zero", "dtype": "i64", "shape": [], "data": {"values": [0]}},
                       {"name": "one", "dtype": "i64", "shape": [], "data": {"values": [1]}}], )";
  check_on_devices(R"({"rlx_graph": 1, )" + numbers + R"("inputs": [)" + input("x", "[3, 7]") +
                   R"(], "nodes": [)" + node_of_many("size_of", R"("x")", R"("n")") + ", " +
                   node_of_many("range", R"("zero", "n", "one")", R"("r")") + ", " +
                   node_of_many("cast", R"("r")", R"("c")", R"({"to": "f32"})") + ", " +
                   node_of_many("reshape", R"("c")", R"("s")", R"({"shape": [3, 7]})") + ", " +
                   node_of_many("add", R"("s", "x")", R"("y")") + R"(], "outputs": ["y"]})");
}

TEST_CASE("a_window_whose_start_the_run_gives_reads_no_more_than_its_rows") {
  const std::string text =
      graph(input("x", "[64, 32]") + ", " + input("s", "[]", "i32"),
            node_of_many("narrow", R"("x", "s")", R"("y")", R"({"axis": 0, "len": 4})"));
  check_on_devices(text);
  CHECK(steps_of(text) <= 3);
  CHECK(arena_bytes(text) <= 1024);
}

}  // namespace rlx::test
