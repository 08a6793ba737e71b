// SPDX-License-Identifier: Apache-2.0
// Norms and activations that are written out become one node with the same results; what only looks
// like them stays.
#include "tests/passes/graph_text.h"

namespace rlx::test {
namespace {

const std::string kNormNumbers =
    constant_text("one", "[]", "[1]") + ", " + constant_text("two", "[]", "[2]") + ", " +
    constant_text("three", "[]", "[3]") + ", " + constant_text("half", "[]", "[0.5]") + ", " +
    constant_text("minus_half", "[]", "[-0.5]") + ", " + constant_text("eps", "[1]", "[0.125]") +
    ", " + constant_text("g", "[4]", "[1, -2, 0.5, 3]") + ", " +
    constant_text("b", "[1, 1, 4]", "[0.5, 1, -1, 2]") + ", " +
    constant_text("rows", "[3, 1]", "[1, 2, 3]") + ", " +
    constant_text("root", "[]", "[1.41421356]") + ", " +
    constant_text("cubic", "[]", "[0.044715]") + ", " +
    constant_text("slope", "[]", "[0.79788456]") + ", " + constant_text("quick", "[]", "[1.702]");

// x [2, 3, 4]
Module with_x(const std::string& nodes, const std::string& outputs = R"(["y"])",
              const std::string& dtype = "f32") {
  return module_of(R"("inputs": [)" + input_text("x", "[2, 3, 4]", dtype) + ", " +
                   input_text("z", "[2, 3, 4]") + R"(], "params": [)" + kNormNumbers +
                   R"(], "nodes": [)" + nodes + R"(], "outputs": )" + outputs);
}

std::string mean_text(const std::string& x, const std::string& y,
                      const std::string& axes = "[-1]") {
  return op_text("reduce_mean", "\"" + x + "\"", y, R"("keep_dims": true, "axes": )" + axes);
}

const std::string kSquares = op_text("pow", R"("x", "two")", "squares") + ", ";
const std::string kMean = mean_text("squares", "mean") + ", ";
const std::string kSum = op_text("add", R"("mean", "eps")", "variance") + ", ";
const std::string kInverse = op_text("rsqrt", R"("variance")", "inverse") + ", ";
const std::string kNormed = op_text("mul", R"("x", "inverse")", "n") + ", ";
const std::string kStatistics = kSquares + kMean + kSum + kInverse;
const std::string kScaledNorm = op_text("mul", R"("n", "g")", "y");

// d = x - mean(x), and inverse = 1 / sqrt(mean(d * d) + eps)
const std::string kCentred = mean_text("x", "mu") + ", " + op_text("sub", R"("x", "mu")", "d") +
                             ", " + op_text("mul", R"("d", "d")", "squares") + ", " + kMean + kSum;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  REQUIRE(text.find(from) != std::string::npos);
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("an rms_norm is seen in every way to write the inverse root") {
  for (const std::string& inverse :
       {kInverse,
        op_text("sqrt", R"("variance")", "s") + ", " + op_text("reciprocal", R"("s")", "inverse") +
            ", ",
        op_text("sqrt", R"("variance")", "s") + ", " + op_text("div", R"("one", "s")", "inverse") +
            ", ",
        op_text("pow", R"("variance", "minus_half")", "inverse") + ", "}) {
    Module module = with_x(kSquares + kMean + kSum + inverse + kNormed + kScaledNorm);
    CHECK(apply_keeping_values(see_norms, module) == 1);
    CHECK(attribute_of<double>(only_node(module, "rms_norm"), "eps") == 0.125);
    CHECK(node_lines(module) == Lines{"rms_norm(x, g)"});
  }
  Module divided =
      with_x(op_text("mul", R"("x", "x")", "squares") + ", " + kMean + kSum +
             op_text("sqrt", R"("variance")", "s") + ", " + op_text("div", R"("x", "s")", "y"));
  CHECK(apply_keeping_values(see_norms, divided) == 1);
  CHECK(node_lines(divided) == Lines{"rms_norm(x)"});
  Module factor = with_x(kStatistics + op_text("mul", R"("inverse", "g")", "f") + ", " +
                         op_text("mul", R"("x", "f")", "y"));
  CHECK(apply_keeping_values(see_norms, factor) == 1);
  CHECK(node_lines(factor) == Lines{"rms_norm(x, g)"});
}

TEST_CASE("a norm without eps is one") {
  Module module = with_x(kSquares + kMean + op_text("rsqrt", R"("mean")", "inverse") + ", " +
                         kNormed + kScaledNorm);
  CHECK(apply_keeping_values(see_norms, module) == 1);
  CHECK(attribute_of<double>(only_node(module, "rms_norm"), "eps") == 0);
}

TEST_CASE("factors and summands behind a norm become its weights, of whatever they are") {
  const std::string norm = op_text("layer_norm", R"("x")", "n") + ", ";
  const auto with_scales = [&](const std::string& nodes, const std::string& outputs = R"(["y"])") {
    return module_of(R"("inputs": [)" + input_text("x", "[2, 3, 4]") + ", " +
                     input_text("z", "[2, 3, 4]") + ", " + input_text("scale", "[2, 1, 4]") + ", " +
                     input_text("shift", "[2, 3, 1]") + R"(], "params": [)" + kNormNumbers +
                     R"(], "nodes": [)" + nodes + R"(], "outputs": )" + outputs);
  };
  const std::string one_more = op_text("add", R"("scale", "one")", "s") + ", ";
  Module modulated = with_scales(norm + one_more + op_text("mul", R"("n", "s")", "m") + ", " +
                                 op_text("add", R"("shift", "m")", "y"));
  CHECK(apply_keeping_values(see_norms, modulated) == 2);
  CHECK(node_lines(modulated) == Lines{"layer_norm(x, scale, shift)"});
  CHECK(attribute_of<double>(only_node(modulated, "layer_norm"), "gamma_offset") == 1);
  // A residual behind a norm that is written out, with weights of its own.
  Module residual = with_scales(kStatistics + kNormed + op_text("mul", R"("n", "g")", "m") + ", " +
                                op_text("add", R"("m", "z")", "y"));
  CHECK(apply_keeping_values(see_norms, residual) == 2);
  CHECK(node_lines(residual) == Lines{"rms_norm(x, g, z)"});
  // What only the factor's step would compute stays in it; the norm's result read twice stays.
  const std::string curve = op_text("exp", R"("scale")", "s") + ", ";
  for (const std::string& nodes :
       {norm + curve + op_text("mul", R"("n", "s")", "y"),
        norm + op_text("mul", R"("n", "n")", "y"),
        norm + op_text("mul", R"("n", "scale")", "m") + ", " + op_text("add", R"("m", "n")", "y"),
        op_text("layer_norm", R"("x", "g", "b")", "n") + ", " + op_text("add", R"("n", "z")", "y"),
        norm + op_text("sub", R"("n", "z")", "y")})
    check_stays(see_norms, with_scales(nodes));
  check_stays(see_norms, with_scales(norm + op_text("add", R"("n", "z")", "y"), R"(["n", "y"])"));
  // A wider result is none of the norm's.
  check_stays(see_norms, module_of(R"("inputs": [)" + input_text("x", "[1, 4]") + ", " +
                                   input_text("z", "[3, 4]") + R"(], "nodes": [)" + norm +
                                   op_text("add", R"("n", "z")", "y") + R"(], "outputs": ["y"])"));
}

TEST_CASE("casts around a norm go where both ends have one type") {
  const std::string widened = op_text("cast", R"("x")", "w", R"("to": "f32")") + ", " +
                              replaced(kStatistics, "\"x\"", "\"w\"") +
                              op_text("mul", R"("w", "inverse")", "n") + ", ";
  Module module =
      with_x(widened + op_text("cast", R"("n")", "y", R"("to": "f16")"), R"(["y"])", "f16");
  CHECK(apply_keeping_values(see_norms, module, 1e-3) == 1);
  CHECK(node_lines(module) == Lines{"rms_norm(x)"});
  Module wide = with_x(widened + kScaledNorm, R"(["y"])", "f16");
  CHECK(apply_keeping_values(see_norms, wide) == 1);
  CHECK(node_lines(wide) == Lines{"cast(x)", "rms_norm(w, g)"});
}

TEST_CASE("a norm of x less its mean is a layer_norm") {
  Module module =
      with_x(kCentred + op_text("sqrt", R"("variance")", "s") + ", " +
             op_text("div", R"("d", "s")", "n") + ", " + op_text("mul", R"("n", "g")", "scaled") +
             ", " + op_text("add", R"("scaled", "b")", "y"));
  CHECK(apply_keeping_values(see_norms, module) == 1);
  CHECK(node_lines(module) == Lines{"reshape(b)", "layer_norm(x, g, y.reshape)"});
  // As TensorFlow writes it.
  Module factor = with_x(kCentred + kInverse + op_text("mul", R"("inverse", "g")", "f") + ", " +
                         op_text("mul", R"("x", "f")", "scaled") + ", " +
                         op_text("mul", R"("mu", "f")", "moved") + ", " +
                         op_text("sub", R"("b", "moved")", "shift") + ", " +
                         op_text("add", R"("scaled", "shift")", "y"));
  CHECK(apply_keeping_values(see_norms, factor) == 1);
  CHECK(only_node(factor, "layer_norm").inputs.size() == 3);
  CHECK(node_lines(factor).size() == 2);
  // The difference that something else reads is there anyway.
  Module read = with_x(kCentred + kInverse + op_text("mul", R"("d", "inverse")", "y") + ", " +
                           op_text("exp", R"("d")", "more"),
                       R"(["y", "more"])");
  CHECK(apply_keeping_values(see_norms, read) == 1);
  CHECK(only_node(read, "rms_norm").inputs[0] == only_node(read, "exp").inputs[0]);
}

TEST_CASE("a difference that is written twice is one, and that of a variance is centred too") {
  const std::string twice = mean_text("x", "mu") + ", " + op_text("sub", R"("x", "mu")", "d") +
                            ", " + op_text("mul", R"("d", "d")", "squares") + ", " + kMean + kSum +
                            op_text("sub", R"("x", "mu")", "again") + ", " +
                            op_text("sqrt", R"("variance")", "s") + ", ";
  Module module = with_x(twice + op_text("div", R"("again", "s")", "n") + ", " + kScaledNorm);
  CHECK(apply_keeping_values(see_norms, module) == 1);
  CHECK(node_lines(module) == Lines{"layer_norm(x, g)"});
  // Of another tensor, or less its mean over another axis.
  for (const char* other : {R"("z", "mu")", R"("x", "rows")"}) {
    Module stays = with_x(replaced(twice, R"("x", "mu"], "outputs": ["again")",
                                   std::string(other) + R"(], "outputs": ["again")") +
                          op_text("div", R"("again", "s")", "y"));
    check_stays(see_norms, std::move(stays));
  }
  const auto of_variance = [](const std::string& axes, const std::string& correction) {
    return mean_text("x", "mu") + ", " + op_text("sub", R"("x", "mu")", "d") + ", " +
           op_text("variance", R"("x")", "mean",
                   R"("keep_dims": true, "correction": )" + correction + R"(, "axes": )" + axes) +
           ", " + kSum + kInverse + op_text("mul", R"("d", "inverse")", "n") + ", " + kScaledNorm;
  };
  Module biased = with_x(of_variance("[-1]", "0"));
  CHECK(apply_keeping_values(see_norms, biased) == 1);
  CHECK(node_lines(biased) == Lines{"layer_norm(x, g)"});
  check_stays(see_norms, with_x(of_variance("[-1]", "1")));
  check_stays(see_norms, with_x(of_variance("[1, 2]", "0")));
}

TEST_CASE("several of the last axes are normalised together") {
  Module module =
      with_x(replaced(kStatistics, "[-1]", "[1, 2]") + op_text("mul", R"("inverse", "x")", "n") +
             ", " + op_text("mul", R"("rows", "n")", "y"));
  CHECK(apply_keeping_values(see_norms, module) == 1);
  CHECK(attribute_of<int64_t>(only_node(module, "rms_norm"), "axis") == -2);
  CHECK(node_lines(module) == Lines{"rms_norm(x, rows)"});
}

TEST_CASE("a factor behind a norm that is written out may vary over its rows") {
  for (const std::string& factor : {std::string("rows"), std::string("z")}) {
    Module module = with_x(kStatistics + kNormed + op_text("mul", R"("n", ")" + factor + '"', "y"));
    CHECK(apply_keeping_values(see_norms, module) == 2);
    CHECK(node_lines(module) == Lines{"rms_norm(x, " + factor + ")"});
  }
}

TEST_CASE("what only looks like a norm stays as it is") {
  const std::string whole = kStatistics + kNormed + kScaledNorm;
  const auto stays = [](const std::string& nodes, const std::string& outputs = R"(["y"])") {
    check_stays(see_norms, with_x(nodes, outputs));
  };
  stays(replaced(whole, "[-1]", "[1]"));
  stays(replaced(whole, "reduce_mean", "reduce_sum"));
  stays(replaced(whole, R"("x", "two")", R"("x", "three")"));
  stays(replaced(whole, R"("x", "two")", R"("z", "two")"));
  stays(replaced(whole, R"("mean", "eps")", R"("mean", "g")"));
  stays(replaced(whole, "rsqrt", "sqrt"));
  stays(whole, R"(["y", "mean"])");
  stays(whole, R"(["y", "inverse"])");
  stays(whole + ", " + op_text("exp", R"("variance")", "more"), R"(["y", "more"])");
}

TEST_CASE("gelu, silu and swish are seen in every order of their factors") {
  const std::string curve = op_text("div", R"("x", "root")", "t") + ", " +
                            op_text("erf", R"("t")", "e") + ", " +
                            op_text("add", R"("e", "one")", "s") + ", ";
  for (const std::string& nodes :
       {curve + op_text("mul", R"("x", "s")", "a") + ", " + op_text("mul", R"("a", "half")", "y"),
        curve + op_text("mul", R"("half", "s")", "a") + ", " + op_text("mul", R"("x", "a")", "y"),
        curve + op_text("mul", R"("x", "half")", "a") + ", " +
            op_text("mul", R"("s", "a")", "y")}) {
    Module module = with_x(nodes);
    CHECK(apply_keeping_values(see_activations, module) == 1);
    CHECK(node_lines(module) == Lines{"gelu(x)"});
  }
  const std::string inner = op_text("pow", R"("x", "three")", "p") + ", " +
                            op_text("mul", R"("p", "cubic")", "q") + ", " +
                            op_text("add", R"("x", "q")", "r") + ", " +
                            op_text("mul", R"("r", "slope")", "t") + ", ";
  const std::string factored =
      op_text("mul", R"("x", "x")", "p") + ", " + op_text("mul", R"("cubic", "p")", "q") + ", " +
      op_text("add", R"("one", "q")", "r") + ", " + op_text("mul", R"("x", "slope")", "xs") + ", " +
      op_text("mul", R"("xs", "r")", "t") + ", ";
  const std::string bent =
      op_text("tanh", R"("t")", "e") + ", " + op_text("add", R"("one", "e")", "s") + ", " +
      op_text("mul", R"("x", "half")", "a") + ", " + op_text("mul", R"("a", "s")", "y");
  for (const std::string& argument : {inner, factored}) {
    Module module = with_x(argument + bent);
    CHECK(apply_keeping_values(see_activations, module) == 1);
    CHECK(node_lines(module) == Lines{"gelu_tanh(x)"});
    check_stays(see_activations, with_x(replaced(argument, "cubic", "half") + bent));
  }
  Module silu =
      with_x(op_text("sigmoid", R"("x")", "s") + ", " + op_text("mul", R"("s", "x")", "a") + ", " +
             op_text("mul", R"("a", "z")", "y"));
  CHECK(apply_keeping_values(see_activations, silu) == 1);
  CHECK(node_lines(silu) == Lines{"silu(x)", "mul(a.silu, z)"});
  Module quick =
      with_x(op_text("mul", R"("x", "quick")", "t") + ", " + op_text("sigmoid", R"("t")", "s") +
             ", " + op_text("mul", R"("x", "s")", "y"));
  CHECK(apply_keeping_values(see_activations, quick) == 1);
  CHECK(attribute_of<double>(only_node(quick, "swish"), "alpha") == Approx(1.702));
}

TEST_CASE("what only looks like an activation stays as it is") {
  const auto stays = [](const std::string& nodes, const std::string& outputs = R"(["y"])") {
    check_stays(see_activations, with_x(nodes, outputs));
  };
  const std::string gelu =
      op_text("div", R"("x", "root")", "t") + ", " + op_text("erf", R"("t")", "e") + ", " +
      op_text("add", R"("e", "one")", "s") + ", " + op_text("mul", R"("x", "s")", "a") + ", " +
      op_text("mul", R"("a", "half")", "y");
  stays(replaced(gelu, "root", "two"));
  stays(replaced(gelu, R"("a", "half")", R"("a", "three")"));
  stays(replaced(gelu, R"("e", "one")", R"("e", "two")"));
  stays(replaced(gelu, R"("x", "s")", R"("z", "s")"));
  stays(gelu, R"(["y", "s"])");
  stays(op_text("sigmoid", R"("x")", "s") + ", " + op_text("mul", R"("z", "s")", "y"));
  stays(op_text("sigmoid", R"("x")", "s") + ", " + op_text("mul", R"("x", "s")", "y"),
        R"(["y", "s"])");
}

}  // namespace rlx::test
