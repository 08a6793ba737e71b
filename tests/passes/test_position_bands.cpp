// SPDX-License-Identifier: Apache-2.0
// Windows of positions at free lengths become attributes, in all the ways in which exporters write
// them; what is nearly a window stays a mask. At lengths below, at and above the window the mask
// and the attributes give the same.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

constexpr int64_t kLongest = 9;

// Attention of q to itself under the value `mask`, or with one axis of keys more than queries.
struct Masked {
  std::string nodes;
  std::string keys = "seq";
  std::string outputs = R"("out")";
  std::string more;  // attributes of the attention
};

std::string graph_of(const Masked& masked) {
  const bool is_square = masked.keys == "seq";
  const std::string key_shape = R"([2, 2, ")" + masked.keys + R"(", 8])";
  const std::string k = is_square ? R"("q")" : R"("k")";
  return R"({"rlx_graph": 1, "symbols": [{"name": "seq", "min": 1, "max": 9})" +
         std::string(is_square ? "" : R"(, {"name": "past", "min": 1, "max": 5})") +
         R"(], "inputs": [)" + input_text("q", R"([2, 2, "seq", 8])") + ", " +
         (is_square ? "" : input_text("k", key_shape) + ", ") +
         input_text("keep", R"([2, 1, 1, ")" + masked.keys + R"("])", "bool") + ", " +
         input_text("width", "[]", "i64") + R"(], "params": [)" +
         constant_text("zero", "[]", "[0]", "i64") + ", " +
         constant_text("one", "[]", "[1]", "i64") + ", " +
         constant_text("two", "[]", "[2]", "i64") + ", " +
         constant_text("three", "[]", "[3]", "i64") + ", " +
         constant_text("far", "[]", "[1000]", "i64") + ", " +
         constant_text("none", "[]", "[0]", "bool") + ", " +
         constant_text("minus_one", "[1]", "[-1]", "i64") + ", " +
         constant_text("unit", "[]", "[1]") + ", " + constant_text("nothing", "[]", "[0]") + ", " +
         constant_text("low", "[]", "[-1e9]") + R"(], "nodes": [)" +
         op_text("ramp", R"("zero", "one")", "at", R"("count": "seq")") + ", " +
         op_text("ramp", R"("zero", "one")", "key_at", R"("count": ")" + masked.keys + R"(")") +
         ", " + op_text("reshape", R"("at")", "i", R"("shape": ["seq", 1])") + ", " +
         op_text("reshape", R"("key_at")", "j", R"("shape": [1, ")" + masked.keys + R"("])") +
         ", " + op_text("sub", R"("i", "j")", "apart") + ", " + masked.nodes + ", " +
         op_text("attention", R"("q", )" + k + ", " + k + R"(, "mask")", "out",
                 R"("num_heads": 2, "head_dim": 8, "q_layout": "bhsd", "kv_layout": "bhsd")" +
                     masked.more) +
         R"(], "outputs": [)" + masked.outputs + "]}";
}

Module bound(const std::string& graph, const DimBindings& dims, const FreeDims& free_dims) {
  Diagnostics diagnostics;
  const auto source = read_json_graph(graph, "test.json", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(source.has_value());
  auto module = bind_module(*source, dims, ".", diagnostics, free_dims);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  return std::move(*module);
}

Module free_module(const Masked& masked) {
  FreeDims dims = {{"seq", {.minimum = 1, .maximum = kLongest}}};
  if (masked.keys != "seq") dims["past"] = {.minimum = 1, .maximum = 5};
  return bound(graph_of(masked), {}, dims);
}

// `condition`: nodes from the positions i and j on, which end in "window"; the rest of a mask.
std::string with_four_axes(const std::string& condition) {
  return condition + ", " + op_text("unsqueeze", R"("window")", "mask", R"("axes": [0, 1])");
}

std::string both_of(const std::string& first, const std::string& second) {
  return first + ", " + second + ", " + op_text("logical_and", R"("first", "second")", "window");
}

struct Window {
  bool causal = false;
  int64_t left = -1;
  int64_t right = -1;
  std::string align = "end";
};

void check_attributes(const Module& module, const Window& wanted) {
  const Node& node = only_node(module, "attention");
  INFO(print(module));
  CHECK(attribute_of<bool>(node, "causal") == wanted.causal);
  CHECK(attribute_of<int64_t>(node, "window_left") == wanted.left);
  CHECK(attribute_of<int64_t>(node, "window_right") == wanted.right);
  CHECK(attribute_of<std::string>(node, "causal_align") == wanted.align);
}

// The attributes that a mask became at free lengths say at each length what the mask says.
void check_values(const Masked& masked, const Window& window) {
  const std::string attributes =
      std::string(R"(, "causal": )") + (window.causal ? "true" : "false") + R"(, "window_left": )" +
      std::to_string(window.left) + R"(, "window_right": )" + std::to_string(window.right) +
      R"(, "causal_align": ")" + window.align + '"';
  Masked said = masked;
  said.nodes = op_text("unsqueeze", R"("keep")", "unused", R"("axes": [0])");
  said.more = attributes;
  std::string text = graph_of(said);
  const std::string mask = R"(, "mask"])";
  text.erase(text.find(mask), mask.size() - 1);
  for (int64_t seq = 1; seq <= kLongest; ++seq) {
    INFO("seq " << seq);
    DimBindings dims = {{"seq", seq}};
    if (masked.keys != "seq") dims["past"] = 3;
    check_close(outputs_of(bound(text, dims, {})), outputs_of(bound(graph_of(masked), dims, {})));
  }
}

void check_window(const Masked& masked, const Window& wanted) {
  INFO(masked.nodes);
  Module module = free_module(masked);
  CHECK(apply(see_masks, module) == 1);
  check_attributes(module, wanted);
  CHECK(only_node(module, "attention").inputs.size() == 3);
  check_values(masked, wanted);
}

const std::string kNotBehind = op_text("le", R"("j", "i")", "first");
const std::string kFrom =
    op_text("sub", R"("i", "two")", "from") + ", " + op_text("ge", R"("j", "from")", "second");
const std::string kFull = op_text("expand", R"("unit")", "full", R"("shape": ["seq", "seq"])");

std::string triangle_text(const std::string& x, const std::string& y, const std::string& k,
                          bool is_upper) {
  return op_text("trilu", '"' + x + '"', y,
                 R"("k": )" + k + R"(, "upper": )" + (is_upper ? "true" : "false"));
}

}  // namespace

TEST_CASE("a causal window of free length becomes attributes, whatever it is made of") {
  const Window wanted{.causal = true, .left = 2};
  for (const std::string& condition : {
           both_of(kNotBehind, kFrom),
           // The key is behind a bound that counts no more.
           both_of(kNotBehind, op_text("sub", R"("i", "three")", "from") + ", " +
                                   op_text("gt", R"("j", "from")", "second")),
           // Distances.
           both_of(op_text("ge", R"("apart", "zero")", "first"),
                   op_text("lt", R"("apart", "three")", "second")),
           both_of(op_text("abs", R"("apart")", "size") + ", " +
                       op_text("le", R"("size", "two")", "first"),
                   op_text("cast", R"("apart")", "real", R"("to": "f32")") + ", " +
                       op_text("ge", R"("real", "nothing")", "second")),
           // What is left out: the keys behind, or those too far before.
           op_text("gt", R"("j", "i")", "behind") + ", " +
               op_text("gt", R"("apart", "two")", "before") + ", " +
               op_text("logical_or", R"("behind", "before")", "beyond") + ", " +
               op_text("logical_not", R"("beyond")", "window"),
           // A triangle of a triangle, and one without another.
           kFull + ", " + triangle_text("full", "lower", "0", false) + ", " +
               triangle_text("lower", "cut", "-2", true) + ", " +
               op_text("cast", R"("cut")", "window", R"("to": "bool")"),
           both_of(kNotBehind, kFull + ", " + triangle_text("full", "before", "-3", false) + ", " +
                                   op_text("eq", R"("before", "nothing")", "second")),
           // Positions that are gathered, as transformers do, and documents of which there is one.
           op_text("concat", R"("minus_one", "at")", "longer", R"("axis": 0)") + ", " +
               op_text("slice", R"("longer")", "before",
                       R"("axes": [0], "starts": [0], "ends": [-1])") +
               ", " +
               op_text("slice", R"("longer")", "after",
                       R"("axes": [0], "starts": [1], "ends": [9223372036854775807])") +
               ", " + op_text("sub", R"("after", "before")", "step") + ", " +
               op_text("ne", R"("step", "one")", "begins") + ", " +
               op_text("cast", R"("begins")", "begin", R"("to": "i64")") + ", " +
               op_text("cumsum", R"("begin")", "document", R"("axis": 0)") + ", " +
               op_text("gather", R"("document", "i")", "of_query") + ", " +
               op_text("unsqueeze", R"("j")", "index", R"("axes": [2])") + ", " +
               op_text("gather_nd", R"("document", "index")", "of_key") + ", " +
               op_text("eq", R"("of_query", "of_key")", "alike") + ", " +
               op_text("gather", R"("after", "i")", "position") + ", " +
               op_text("sub", R"("position", "two")", "from") + ", " +
               op_text("ge", R"("j", "from")", "near") + ", " +
               op_text("le", R"("j", "position")", "past") + ", " +
               op_text("logical_and", R"("near", "past")", "both") + ", " +
               op_text("logical_and", R"("both", "alike")", "window"),
           // Counted ones as positions.
           op_text("expand", R"("one")", "ones", R"("shape": ["seq"])") + ", " +
               op_text("cumsum", R"("ones")", "count", R"("axis": 0)") + ", " +
               op_text("reshape", R"("count")", "behind", R"("shape": [1, "seq"])") + ", " +
               op_text("sub", R"("behind", "one")", "key") + ", " +
               both_of(op_text("le", R"("key", "i")", "first"),
                       op_text("add", R"("key", "two")", "until") + ", " +
                           op_text("ge", R"("until", "i")", "second")),
           // A choice of which one side never counts.
           kNotBehind + ", " + kFrom + ", " +
               op_text("where", R"("second", "first", "none")", "window"),
       })
    check_window({.nodes = with_four_axes(condition)}, wanted);
}

TEST_CASE("a window on both sides, of free length, has both attributes") {
  const Window wanted{.left = 2, .right = 2};
  const std::string size = op_text("abs", R"("apart")", "size") + ", ";
  check_window({.nodes = with_four_axes(size + op_text("le", R"("size", "two")", "window"))},
               wanted);
  check_window({.nodes = with_four_axes(size + op_text("gt", R"("size", "two")", "far_off") + ", " +
                                        op_text("logical_not", R"("far_off")", "window"))},
               wanted);
  // With what holds for all positions.
  check_window({.nodes = with_four_axes(both_of(size + op_text("lt", R"("size", "three")", "first"),
                                                op_text("ge", R"("i", "zero")", "second")))},
               wanted);
}

TEST_CASE("one side of a window, another base and the other side are what they say") {
  check_window({.nodes = with_four_axes(kFrom + ", " +
                                        op_text("logical_and", R"("second", "second")", "window"))},
               {.left = 2});
  check_window({.nodes = with_four_axes(op_text("sub", R"("j", "one")", "base") + ", " +
                                        op_text("le", R"("base", "i")", "window"))},
               {.right = 1});
  check_window(
      {.nodes = with_four_axes(both_of(op_text("le", R"("i", "j")", "first"),
                                       op_text("ge", R"("apart", "minus_one")", "second")))},
      {.left = 0, .right = 1});
}

TEST_CASE("a window that is wider than every length is none") {
  check_window(
      {.nodes = with_four_axes(both_of(kNotBehind, op_text("lt", R"("apart", "far")", "second")))},
      {.causal = true});
  // So are parts of positions that begin behind all of them.
  check_window({.nodes = with_four_axes(both_of(
                    kNotBehind, op_text("floor_div", R"("i", "far")", "part") + ", " +
                                    op_text("floor_div", R"("j", "far")", "key_part") + ", " +
                                    op_text("eq", R"("part", "key_part")", "second")))},
               {.causal = true});
}

TEST_CASE("queries behind keys of the past stand beside the last keys") {
  // Positions from the past's length on: the last element of a ramp that ends there.
  const std::string positions =
      op_text("ramp", R"("zero", "one")", "counted", R"("count": "past + 1")") + ", " +
      op_text("slice", R"("counted")", "begin",
              R"("axes": [0], "starts": ["past"], "ends": ["past + 1"])") +
      ", " + op_text("add", R"("i", "begin")", "position") + ", ";
  const std::string condition =
      positions + both_of(op_text("le", R"("j", "position")", "first"),
                          op_text("sub", R"("position", "j")", "distance") + ", " +
                              op_text("le", R"("distance", "two")", "second"));
  check_window({.nodes = with_four_axes(condition), .keys = "past + seq"},
               {.causal = true, .left = 2});
  // From the first key on.
  check_window({.nodes = with_four_axes(both_of(kNotBehind, kFrom)), .keys = "past + seq"},
               {.causal = true, .left = 2, .align = "start"});
}

TEST_CASE("beside a condition of the run a window of free length is an attribute") {
  Module module = free_module({.nodes = both_of(kNotBehind, kFrom) + ", " +
                                        op_text("logical_and", R"("window", "keep")", "mask")});
  CHECK(apply(see_masks, module) == 1);
  check_attributes(module, {.causal = true, .left = 2});
  const Node& node = only_node(module, "attention");
  REQUIRE(node.inputs.size() == 4);
  CHECK(module.entries[0].value(*node.inputs[3]).name == "keep");
}

TEST_CASE("a window that is an output too is read no more and stays") {
  const Masked masked{.nodes = with_four_axes(both_of(kNotBehind, kFrom)),
                      .outputs = R"("out", "mask")"};
  Module module = free_module(masked);
  CHECK(apply(see_masks, module) == 1);
  CHECK(only_node(module, "attention").inputs.size() == 3);
  CHECK(output_lines(module) ==
        Lines{"out.attention : f32[2, 2, seq, 8]", "mask : bool[1, 1, seq, seq]"});
}

TEST_CASE("what is nearly a window of free length stays a mask") {
  const std::string narrow =
      op_text("cast", R"("apart")", "small", R"("to": "u8", "overflow": "wrap")") + ", " +
      op_text("cast", R"("two")", "small_two", R"("to": "u8")") + ", " +
      op_text("le", R"("small", "small_two")", "window");
  for (const std::string& condition : {
           // Its width is the run's.
           both_of(kNotBehind, op_text("lt", R"("apart", "width")", "second")),
           // The key itself does not count.
           op_text("lt", R"("j", "i")", "window"),
           both_of(op_text("lt", R"("j", "i")", "first"), kFrom),
           // Another slope.
           op_text("mul", R"("j", "two")", "twice") + ", " +
               op_text("le", R"("twice", "i")", "window"),
           op_text("add", R"("i", "j")", "sum") + ", " + op_text("le", R"("sum", "two")", "window"),
           // One distance alone, and all but one.
           op_text("ne", R"("apart", "two")", "window"),
           // One of two bands.
           kNotBehind + ", " + kFrom + ", " +
               op_text("logical_or", R"("first", "second")", "window"),
           // The first keys count for all.
           both_of(kNotBehind, op_text("sub", R"("i", "two")", "from") + ", " +
                                   op_text("ge", R"("j", "from")", "near") + ", " +
                                   op_text("lt", R"("j", "one")", "sink") + ", " +
                                   op_text("logical_or", R"("near", "sink")", "second")),
           // Parts of positions.
           both_of(kNotBehind, op_text("floor_div", R"("i", "two")", "part") + ", " +
                                   op_text("floor_div", R"("j", "two")", "key_part") + ", " +
                                   op_text("eq", R"("part", "key_part")", "second")),
           // Differences below 0 are large in an unsigned type.
           narrow,
           // Sums of positions.
           op_text("cumsum", R"("at")", "sums", R"("axis": 0)") + ", " +
               op_text("reshape", R"("sums")", "behind", R"("shape": [1, "seq"])") + ", " +
               op_text("le", R"("behind", "i")", "window"),
           // A triangle whose elements vanish in another type.
           op_text("affine", R"("unit")", "half", R"("mul": 0.5)") + ", " +
               op_text("expand", R"("half")", "full", R"("shape": ["seq", "seq"])") + ", " +
               triangle_text("full", "lower", "0", false) + ", " +
               op_text("cast", R"("lower")", "whole", R"("to": "i64")") + ", " +
               op_text("cast", R"("whole")", "window", R"("to": "bool")"),
       }) {
    INFO(condition);
    check_stays(see_masks, free_module({.nodes = with_four_axes(condition)}));
  }
}

}  // namespace rlx::test
