// SPDX-License-Identifier: Apache-2.0
// Attention that is written out becomes an attention node with the same results; what only looks
// like it stays.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

const std::string kNumbers =
    constant_text("eighth", "[]", "[0.125]") + ", " + constant_text("two", "[]", "[2]") + ", " +
    constant_text("zero", "[]", "[0]") + ", " + constant_text("cap", "[]", "[5]") + ", " +
    constant_text("big", "[]", "[-1e30]") + ", " + constant_text("low", "[]", "[-1e9]") + ", " +
    constant_text("near", "[]", "[-1e4]") + ", " + constant_text("minus_inf", "[]", R"(["-inf"])") +
    ", " + constant_text("lower", "[3, 3]", "[1, 0, 0, 1, 1, 0, 1, 1, 1]", "bool") + ", " +
    constant_text("upper", "[1, 1, 3, 3]", R"([0, "-inf", "-inf", 0, 0, "-inf", 0, 0, 0])") + ", " +
    constant_text("sink", "[1, 2, 1, 1]", "[0.5, -1]") + ", " +
    constant_text("column", "[2, 2, 3, 1]",
                  "[0.5, 0.5, 0.5, -1, -1, -1, 0.5, 0.5, 0.5, -1, -1, -1]") +
    ", " + constant_text("by_token", "[1, 2, 3, 1]", "[0.5, 1, 0.5, -1, -1, 2]") + ", " +
    constant_text("other", "[3, 3]", "[1, 0, 0, 1, 1, 0, 1, 0, 1]", "bool");

// x [2, 3, 16] as q, k, v of 2 heads of 8: [2, 2, 3, 8]; kt with the last two axes swapped.
const std::string kHeads = op_text("reshape", R"("x")", "q4", R"("shape": [2, 3, 2, 8])") + ", " +
                           op_text("transpose", R"("q4")", "q", R"("perm": [0, 2, 1, 3])") + ", " +
                           op_text("reshape", R"("z")", "k4", R"("shape": [2, 3, 2, 8])") + ", " +
                           op_text("transpose", R"("k4")", "kt", R"("perm": [0, 2, 3, 1])") + ", " +
                           op_text("reshape", R"("w")", "v4", R"("shape": [2, 3, 2, 8])") + ", " +
                           op_text("transpose", R"("v4")", "v", R"("perm": [0, 2, 1, 3])") + ", ";
const std::string kEnd = ", " + op_text("softmax", R"("masked")", "p", R"("axis": -1)") + ", " +
                         op_text("matmul", R"("p", "v")", "y4") + ", " +
                         op_text("transpose", R"("y4")", "yt", R"("perm": [0, 2, 1, 3])") + ", " +
                         op_text("reshape", R"("yt")", "y", R"("shape": [2, 3, 16])");
const std::string kProduct = op_text("matmul", R"("q", "kt")", "qk");
const std::string kScores = kProduct + ", " + op_text("mul", R"("qk", "eighth")", "scores");

Module written_module(const std::string& nodes, const std::string& outputs = R"(["y"])") {
  return module_of(R"("inputs": [)" + input_text("x", "[2, 3, 16]") + ", " +
                   input_text("z", "[2, 3, 16]") + ", " + input_text("w", "[2, 3, 16]") + ", " +
                   input_text("bias", "[2, 1, 1, 3]") + ", " +
                   input_text("keep", "[2, 1, 1, 3]", "bool") + R"(], "params": [)" + kNumbers +
                   R"(], "nodes": [)" + nodes + R"(], "outputs": )" + outputs);
}

// From scores to `masked` by these nodes.
Module masked_module(const std::string& nodes) {
  return written_module(kHeads + kScores + ", " + nodes + kEnd);
}

}  // namespace

TEST_CASE("products, scale and softmax become attention over the heads as they were before views") {
  Module module = written_module(kHeads + kProduct + ", " +
                                 op_text("mul", R"("qk", "eighth")", "masked") + kEnd);
  CHECK(apply_keeping_values(see_attention, module) == 1);
  const Node& seen = only_node(module, "attention");
  CHECK(attribute_of<int64_t>(seen, "num_heads") == 2);
  CHECK(attribute_of<int64_t>(seen, "head_dim") == 8);
  CHECK(attribute_of<double>(seen, "scale") == 0.125);
  CHECK(node_lines(module) == Lines{"reshape(x)", "reshape(z)", "reshape(w)",
                                    "attention(q4, k4, v4)", "reshape(y4.attention)"});
}

TEST_CASE("the scale may stand on either operand, on both, or divide") {
  for (const std::string& nodes :
       {op_text("mul", R"("q", "eighth")", "qs") + ", " +
            op_text("matmul", R"("qs", "kt")", "masked"),
        op_text("mul", R"("q", "two")", "qs") + ", " + op_text("div", R"("kt", "two")", "ks") +
            ", " + op_text("matmul", R"("qs", "ks")", "qk") + ", " +
            op_text("affine", R"("qk")", "masked", R"("mul": 0.125)"),
        op_text("affine", R"("q")", "qs", R"("mul": 0.0625)") + ", " +
            op_text("mul", R"("two", "kt")", "ks") + ", " +
            op_text("matmul", R"("qs", "ks")", "masked")}) {
    Module module = written_module(kHeads + nodes + kEnd);
    CHECK(apply_keeping_values(see_attention, module) == 1);
    CHECK(attribute_of<double>(only_node(module, "attention"), "scale") == 0.125);
  }
}

TEST_CASE("what is added to scores becomes the bias, and is scaled with them") {
  Module module = masked_module(op_text("add", R"("scores", "bias")", "masked"));
  CHECK(apply_keeping_values(see_attention, module) == 1);
  CHECK(node_lines(module)[3] == "attention(q4, k4, v4, null, bias)");
  Module scaled = masked_module(op_text("add", R"("bias", "scores")", "sum") + ", " +
                                op_text("mul", R"("sum", "two")", "masked"));
  CHECK(apply_keeping_values(see_attention, scaled) == 1);
  CHECK(attribute_of<double>(only_node(scaled, "affine"), "mul") == 2);
  CHECK(attribute_of<double>(only_node(scaled, "attention"), "scale") == 0.25);
}

TEST_CASE("a condition with minus infinity becomes the mask, with a finite number the bias") {
  Module module = masked_module(op_text("where", R"("keep", "scores", "minus_inf")", "masked"));
  CHECK(apply(see_attention, module) == 1);
  CHECK(node_lines(module)[3] == "attention(q4, k4, v4, keep)");
  Module inverted = masked_module(op_text("where", R"("keep", "minus_inf", "scores")", "masked"));
  CHECK(apply(see_attention, inverted) == 1);
  CHECK(only_node(inverted, "logical_not").inputs[0] == only_node(module, "attention").inputs[3]);
  Module finite = masked_module(op_text("where", R"("keep", "scores", "big")", "masked"));
  CHECK(apply_keeping_values(see_attention, finite) == 1);
  CHECK_FALSE(only_node(finite, "attention").inputs[3].has_value());
  CHECK(only_node(finite, "attention").inputs[4].has_value());
}

TEST_CASE("a where that makes the bias is a condition too") {
  Module module = masked_module(op_text("where", R"("keep", "zero", "minus_inf")", "made") + ", " +
                                op_text("add", R"("scores", "made")", "masked"));
  CHECK(apply(see_attention, module) == 1);
  CHECK(node_lines(module)[3] == "attention(q4, k4, v4, keep)");
}

TEST_CASE("a triangle becomes the causal attribute, whatever it is made of") {
  for (const std::string& nodes : {op_text("where", R"("lower", "scores", "minus_inf")", "masked"),
                                   op_text("where", R"("lower", "scores", "low")", "masked"),
                                   op_text("add", R"("scores", "upper")", "masked"),
                                   op_text("where", R"("lower", "zero", "low")", "made") + ", " +
                                       op_text("add", R"("made", "scores")", "masked")}) {
    Module module = masked_module(nodes);
    CHECK(apply_keeping_values(see_attention, module) == 1);
    const Node& seen = only_node(module, "attention");
    CHECK(attribute_of<bool>(seen, "causal"));
    CHECK(seen.inputs.size() == 3);
  }
  Module other = masked_module(op_text("where", R"("other", "scores", "minus_inf")", "masked"));
  CHECK(apply_keeping_values(see_attention, other) == 1);
  CHECK_FALSE(only_node(other, "attention").attributes.contains("causal"));
  CHECK(only_node(other, "attention").inputs.size() == 4);
}

TEST_CASE("two conditions are one mask and the attribute") {
  Module module = masked_module(op_text("logical_and", R"("keep", "lower")", "both") + ", " +
                                op_text("where", R"("both", "scores", "minus_inf")", "masked"));
  CHECK(apply(see_attention, module) == 1);
  CHECK(attribute_of<bool>(only_node(module, "attention"), "causal"));
  CHECK(node_lines(module)[3] == "attention(q4, k4, v4, keep)");
  // A query without keys keeps the mean of all values only where the number stays.
  Module finite = masked_module(op_text("logical_and", R"("keep", "lower")", "both") + ", " +
                                op_text("where", R"("both", "scores", "big")", "masked"));
  CHECK(apply_keeping_values(see_attention, finite) == 1);
  CHECK_FALSE(only_node(finite, "attention").attributes.contains("causal"));
}

TEST_CASE("of masks that leave a query no key together, finite numbers stay") {
  const std::string hidden = op_text("where", R"("keep", "zero", "big")", "made");
  for (const std::string& nodes :
       {op_text("where", R"("lower", "scores", "big")", "first") + ", " + hidden + ", " +
            op_text("add", R"("first", "made")", "masked"),
        hidden + ", " + op_text("add", R"("scores", "made")", "first") + ", " +
            op_text("where", R"("lower", "first", "big")", "masked"),
        op_text("where", R"("lower", "scores", "minus_inf")", "first") + ", " +
            op_text("where", R"("keep", "first", "big")", "masked"),
        op_text("where", R"("keep", "scores", "minus_inf")", "first") + ", " +
            op_text("where", R"("lower", "first", "big")", "masked")}) {
    Module module = masked_module(nodes);
    CHECK(apply_keeping_values(see_attention, module) == 1);
    CHECK_FALSE(only_node(module, "attention").attributes.contains("causal"));
  }
  // A number beside which scores still count is no bias.
  Module near = masked_module(op_text("where", R"("lower", "scores", "near")", "first") + ", " +
                              hidden + ", " + op_text("add", R"("first", "made")", "masked"));
  CHECK(apply(see_attention, near) == 0);
  // Products and tables, as of relative positions, mask nothing.
  Module table = masked_module(op_text("where", R"("lower", "scores", "big")", "first") + ", " +
                               op_text("add", R"("first", "eighth")", "masked"));
  CHECK(apply_keeping_values(see_attention, table) == 1);
  CHECK(attribute_of<bool>(only_node(table, "attention"), "causal"));
}

TEST_CASE("a soft cap stands before the masks") {
  const std::string capped = op_text("div", R"("scores", "cap")", "share") + ", " +
                             op_text("tanh", R"("share")", "bent") + ", " +
                             op_text("mul", R"("bent", "cap")", "capped") + ", ";
  Module module = masked_module(capped + op_text("add", R"("capped", "bias")", "masked"));
  CHECK(apply_keeping_values(see_attention, module) == 1);
  CHECK(attribute_of<double>(only_node(module, "attention"), "softcap") == 5);
  CHECK(attribute_of<double>(only_node(module, "attention"), "scale") == Approx(0.125));
  check_stays(see_attention, masked_module(op_text("add", R"("scores", "bias")", "biased") + ", " +
                                           op_text("tanh", R"("biased")", "masked")));
}

TEST_CASE("a guard against rows without keys goes with them") {
  const std::string end =
      ", " + op_text("softmax", R"("masked")", "p0") + ", " + op_text("is_nan", R"("p0")", "nan") +
      ", " + op_text("where", R"("nan", "zero", "p0")", "p") + kEnd.substr(kEnd.find("}}") + 2);
  Module module =
      written_module(kHeads + kScores + ", " +
                     op_text("where", R"("keep", "scores", "minus_inf")", "masked") + end);
  CHECK(apply_keeping_values(see_attention, module) == 1);
  Module ones =
      written_module(kHeads + kScores + ", " +
                     op_text("where", R"("keep", "scores", "minus_inf")", "masked") + [&] {
                       std::string text = end;
                       return text.replace(text.find("zero"), 4, "two");
                     }());
  check_stays(see_attention, std::move(ones));
}

TEST_CASE("heads that share keys are seen through expand, repeat and one head for all") {
  const std::string q = input_text("q", "[1, 4, 3, 8]");
  const std::string y = op_text("matmul", R"("qs", "kt")", "scores") + ", " +
                        op_text("softmax", R"("scores")", "p") + ", " +
                        op_text("matmul", R"("p", "vr")", "y");
  const std::string scaled = op_text("affine", R"("q")", "qs", R"("mul": 0.5)") + ", ";
  const auto repeated = [](const std::string& from, const std::string& to) {
    return op_text("unsqueeze", "\"" + from + "\"", from + "5", R"("axes": [2])") + ", " +
           op_text("expand", "\"" + from + "5\"", from + "e", R"("shape": [1, 2, 2, 3, 8])") +
           ", " + op_text("reshape", "\"" + from + "e\"", to, R"("shape": [1, 4, 3, 8])") + ", ";
  };
  const auto interleaved = [](const std::string& from, const std::string& to) {
    return op_text("repeat_interleave", "\"" + from + "\"", to, R"("axis": 1, "repeats": 2)") +
           ", ";
  };
  const std::string turned =
      op_text("transpose", R"("kr")", "kt", R"("perm": [0, 1, 3, 2])") + ", ";
  const std::string grouped =
      q + ", " + input_text("k", "[1, 2, 3, 8]") + ", " + input_text("v", "[1, 2, 3, 8]");
  for (const auto& nodes : {repeated("k", "kr") + repeated("v", "vr"),
                            interleaved("k", "kr") + interleaved("v", "vr")}) {
    Module module = module_of(R"("inputs": [)" + grouped + R"(], "nodes": [)" + scaled + nodes +
                              turned + y + R"(], "outputs": ["y"])");
    CHECK(apply_keeping_values(see_attention, module) == 1);
    CHECK(attribute_of<int64_t>(only_node(module, "attention"), "num_kv_heads") == 2);
    CHECK(node_lines(module) == Lines{"attention(q, k, v)"});
  }
  // Keys that are turned before copies and heads become one axis.
  const std::string turned_copies =
      op_text("unsqueeze", R"("k")", "k5", R"("axes": [2])") + ", " +
      op_text("expand", R"("k5")", "ke", R"("shape": [1, 2, 2, 3, 8])") + ", " +
      op_text("transpose", R"("ke")", "kd", R"("perm": [0, 1, 2, 4, 3])") + ", " +
      op_text("reshape", R"("kd")", "kt", R"("shape": [1, 4, 8, 3])") + ", ";
  Module late = module_of(R"("inputs": [)" + grouped + R"(], "nodes": [)" + scaled + turned_copies +
                          repeated("v", "vr") + y + R"(], "outputs": ["y"])");
  CHECK(apply_keeping_values(see_attention, late) == 1);
  CHECK(attribute_of<int64_t>(only_node(late, "attention"), "num_kv_heads") == 2);
  CHECK(node_lines(late) == Lines{"attention(q, k, v)"});
  Module one = module_of(R"("inputs": [)" + q + ", " + input_text("kr", "[1, 1, 3, 8]") + ", " +
                         input_text("vr", "[1, 1, 3, 8]") + R"(], "nodes": [)" + scaled + turned +
                         y + R"(], "outputs": ["y"])");
  CHECK(apply_keeping_values(see_attention, one) == 1);
  CHECK(attribute_of<int64_t>(only_node(one, "attention"), "num_kv_heads") == 1);
}

TEST_CASE("batch and heads in one axis are told apart by the shapes around them, or are heads") {
  const std::string product = op_text("transpose", R"("k")", "kt", R"("perm": [0, 2, 1])") + ", " +
                              op_text("matmul", R"("q", "kt")", "s3") + ", ";
  const std::string apart =
      product + op_text("reshape", R"("s3")", "s4", R"("shape": [2, 2, 3, 3])") + ", " +
      op_text("add", R"("s4", "bias")", "sum") + ", " +
      op_text("reshape", R"("sum")", "masked", R"("shape": [4, 3, 3])") + ", " +
      op_text("softmax", R"("masked")", "p") + ", " + op_text("matmul", R"("p", "v")", "y");
  const std::string inputs = R"("inputs": [)" + input_text("q", "[4, 3, 8]") + ", " +
                             input_text("k", "[4, 3, 8]") + ", " + input_text("v", "[4, 3, 8]") +
                             ", " + input_text("bias", "[2, 1, 1, 3]") + "], ";
  Module module = module_of(inputs + R"("nodes": [)" + apart + R"(], "outputs": ["y"])");
  CHECK(apply_keeping_values(see_attention, module) == 1);
  CHECK(attribute_of<int64_t>(only_node(module, "attention"), "num_heads") == 2);
  // torch's multi_head_attention_forward: tokens lead.
  Module tokens = module_of(
      R"("inputs": [)" + input_text("a", "[3, 4, 8]") + ", " + input_text("b", "[3, 4, 8]") + ", " +
      input_text("c", "[3, 4, 8]") + R"(], "nodes": [)" +
      op_text("transpose", R"("a")", "q", R"("perm": [1, 0, 2])") + ", " +
      op_text("transpose", R"("b")", "k", R"("perm": [1, 0, 2])") + ", " +
      op_text("transpose", R"("c")", "v", R"("perm": [1, 0, 2])") + ", " + product +
      op_text("softmax", R"("s3")", "p") + ", " + op_text("matmul", R"("p", "v")", "y3") + ", " +
      op_text("transpose", R"("y3")", "yt", R"("perm": [1, 0, 2])") + ", " +
      op_text("reshape", R"("yt")", "y", R"("shape": [12, 8])") + R"(], "outputs": ["y"])");
  CHECK(apply_keeping_values(see_attention, tokens) == 1);
  const Node& seen = only_node(tokens, "attention");
  CHECK(attribute_of<std::string>(seen, "q_layout") == "bshd");
  CHECK(attribute_of<std::string>(seen, "out_layout") == "bshd");
}

TEST_CASE("a free size stays free, and a triangle of positions is causal at every size") {
  const auto free_module = [](const std::string& k) {
    Diagnostics diagnostics;
    const auto source = read_json_graph(
        R"({"rlx_graph": 1, "symbols": [{"name": "seq", "min": 1, "max": 9}], "inputs": [)" +
            input_text("q", R"([2, 2, "seq", 8])") + ", " + input_text("k", R"([2, 2, "seq", 8])") +
            ", " + input_text("v", R"([2, 2, "seq", 8])") + R"(], "params": [)" +
            constant_text("ones", "[]", "[1]") + ", " + constant_text("zero", "[]", "[0]") + ", " +
            constant_text("minus_inf", "[]", R"(["-inf"])") + R"(], "nodes": [)" +
            op_text("transpose", R"("k")", "kt", R"("perm": [0, 1, 3, 2])") + ", " +
            op_text("matmul", R"("q", "kt")", "scores") + ", " +
            op_text("expand", R"("ones")", "full", R"("shape": ["seq", "seq"])") + ", " +
            op_text("trilu", R"("full")", "tri", R"("upper": false, "k": )" + k) + ", " +
            op_text("eq", R"("tri", "zero")", "hides") + ", " +
            op_text("where", R"("hides", "minus_inf", "zero")", "bias") + ", " +
            op_text("add", R"("scores", "bias")", "masked") + ", " +
            op_text("softmax", R"("masked")", "p") + ", " + op_text("matmul", R"("p", "v")", "y") +
            R"(], "outputs": ["y"]})",
        "test.json", diagnostics);
    INFO(diagnostics.text());
    REQUIRE(source.has_value());
    auto module =
        bind_module(*source, {}, ".", diagnostics, {{"seq", {.minimum = 1, .maximum = 9}}});
    INFO(diagnostics.text());
    REQUIRE(module.has_value());
    return std::move(*module);
  };
  Module module = free_module("0");
  CHECK(apply(see_attention, module) == 1);
  CHECK(attribute_of<bool>(only_node(module, "attention"), "causal"));
  CHECK(only_node(module, "attention").inputs.size() == 3);
  Module shifted = free_module("1");
  CHECK(apply(see_attention, shifted) == 1);
  CHECK_FALSE(only_node(shifted, "attention").attributes.contains("causal"));
}

namespace {

// Scores with a column of sinks, made by `column`, the softmax of `joined`, and `kept` of it.
Module with_sinks(const std::string& column, const std::string& shift, const std::string& kept,
                  const std::string& joined = R"("masked", "sinks")") {
  std::string end = kEnd;
  end.replace(end.find(R"("masked")"), 8, R"("shifted")");
  end.replace(end.find(R"(["p", "v"])"), 10, R"(["kept", "v"])");
  return written_module(
      kHeads + kProduct + ", " + op_text("mul", R"("qk", "eighth")", "masked") + ", " + column +
      ", " + op_text("concat", joined, shift.empty() ? "shifted" : "joined", R"("axis": -1)") +
      (shift.empty() ? "" : ", " + shift) + ", " + kept + end);
}

const std::string kColumn = op_text("expand", R"("sink")", "sinks", R"("shape": [2, 2, 3, 1])");
const std::string kShift =
    op_text("reduce_max", R"("joined")", "top", R"("axes": [3], "keep_dims": true)") + ", " +
    op_text("sub", R"("joined", "top")", "shifted");
const std::string kKept =
    op_text("slice", R"("p")", "kept", R"("axes": [3], "starts": [0], "ends": [-1])");

}  // namespace

TEST_CASE("a column that the softmax has beside the scores, and that is dropped, is sinks") {
  Module module = with_sinks(kColumn, kShift, kKept);
  CHECK(apply_keeping_values(see_attention, module) == 1);
  CHECK(only_node(module, "attention").inputs.size() == 8);
  Module front = with_sinks(
      kColumn, kShift, op_text("narrow", R"("p")", "kept", R"("axis": 3, "start": 1, "len": 3)"),
      R"("sinks", "masked")");
  CHECK(apply_keeping_values(see_attention, front) == 1);
  CHECK(only_node(front, "attention").inputs.size() == 8);
  Module plain = with_sinks(kColumn, "", kKept);
  CHECK(apply_keeping_values(see_attention, plain) == 1);
  Module known = with_sinks(op_text("identity", R"("column")", "sinks"), kShift, kKept);
  apply(canonicalise, known);
  CHECK(apply_keeping_values(see_attention, known) == 1);
}

TEST_CASE("a column that is no sink for each head stays") {
  SECTION("it is kept, and a key is dropped") {
    check_stays(see_attention, with_sinks(kColumn, kShift,
                                          op_text("slice", R"("p")", "kept",
                                                  R"("axes": [3], "starts": [1], "ends": [4])")));
  }
  SECTION("its numbers differ from token to token") {
    check_stays(see_attention,
                with_sinks(op_text("expand", R"("by_token")", "sinks", R"("shape": [2, 2, 3, 1])"),
                           kShift, kKept));
  }
  SECTION("what is subtracted is the largest of another axis") {
    check_stays(see_attention,
                with_sinks(kColumn,
                           op_text("reduce_max", R"("joined")", "top",
                                   R"("axes": [2], "keep_dims": true)") +
                               ", " + op_text("sub", R"("joined", "top")", "shifted"),
                           kKept));
  }
}

TEST_CASE("what only looks like attention stays as it is") {
  const std::string plain =
      kHeads + kProduct + ", " + op_text("mul", R"("qk", "eighth")", "masked");
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  SECTION("softmax over another axis") {
    check_stays(see_attention,
                written_module(plain + replaced(kEnd, R"("axis": -1)", R"("axis": -2)")));
  }
  SECTION("a mask behind the softmax") {
    check_stays(
        see_attention,
        written_module(plain + replaced(kEnd, R"("matmul", "inputs": ["p")",
                                        R"("mul", "inputs": ["p", "bias"], "outputs": ["pm"]},
      {"op": "matmul", "inputs": ["pm")")));
  }
  SECTION("weights that are an output") {
    check_stays(see_attention, written_module(plain + kEnd, R"(["y", "p"])"));
  }
  SECTION("scores that are an output") {
    check_stays(see_attention, written_module(plain + kEnd, R"(["y", "qk"])"));
  }
  SECTION("scores that something else reads") {
    check_stays(see_attention,
                written_module(plain + ", " + op_text("exp", R"("masked")", "more") + kEnd,
                               R"(["y", "more"])"));
  }
  SECTION("a factor that is no number") {
    check_stays(see_attention, masked_module(op_text("mul", R"("scores", "bias")", "masked")));
  }
  SECTION("a replaced score that still counts") {
    check_stays(see_attention,
                masked_module(op_text("where", R"("keep", "scores", "zero")", "masked")));
    check_stays(see_attention,
                masked_module(op_text("where", R"("keep", "scores", "bias")", "masked")));
  }
  SECTION("products with matrices that the batch shares") {
    check_stays(see_attention,
                module_of(R"("inputs": [)" + input_text("x", "[2, 3, 8]") + ", " +
                          input_text("k", "[8, 4]") + ", " + input_text("v", "[4, 8]") +
                          R"(], "nodes": [)" + op_text("matmul", R"("x", "k")", "scores") + ", " +
                          op_text("softmax", R"("scores")", "p") + ", " +
                          op_text("matmul", R"("p", "v")", "y") + R"(], "outputs": ["y"])"));
  }
  SECTION("weights as the second operand") {
    check_stays(see_attention,
                written_module(plain + replaced(kEnd, R"("p", "v")", R"("kt", "p")")));
  }
}

}  // namespace rlx::test
