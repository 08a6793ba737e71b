// SPDX-License-Identifier: Apache-2.0
// Gradients of graphs against central differences of the f64 evaluator.
#include <cmath>

#include "compiler/passes/differentiate.h"
#include "compiler/passes/training_step.h"
#include "tests/passes/pass_support.h"

namespace rlx::test {
namespace {

// "x" is the value's name, `json` its node's attributes.
std::string step_text(const std::string& op, const std::string& inputs, const std::string& output,
                      const std::string& attributes = "{}") {
  return R"({"op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": [)" + output +
         R"(], "attributes": )" + attributes + "}";
}

struct Problem {
  std::vector<std::string> inputs;  // NAME:SHAPE, f64, or NAME:SHAPE:dtype
  std::string nodes;                // of which one makes "y"
  double low = -1.5;
  double high = 1.5;
};

// The model with a loss that weighs every element of y differently.
Module model_of(const Problem& problem) {
  std::string inputs;
  for (const std::string& text : problem.inputs) {
    const size_t first = text.find(':');
    const size_t second = text.find(':', first + 1);
    const std::string dtype = second == std::string::npos ? "f64" : text.substr(second + 1);
    inputs += (inputs.empty() ? "" : ", ") + std::string(R"({"name": ")") + text.substr(0, first) +
              R"(", "dtype": ")" + dtype + R"(", "shape": )" +
              text.substr(first + 1, second - first - 1) + "}";
  }
  return module_of(R"("inputs": [)" + inputs + R"(], "nodes": [)" + problem.nodes + ", " +
                   step_text("sin", R"("y")", R"("wave")") + ", " +
                   step_text("mul", R"("y", "wave")", R"("weighed")") + ", " +
                   step_text("reduce_sum", R"("weighed")", R"("loss")") +
                   R"(], "outputs": ["loss"])");
}

std::vector<Tensor> values_of(const Graph& graph, const Problem& problem) {
  uint64_t state = 88172645463325252u;
  std::vector<Tensor> tensors;
  for (const ValueId id : graph.inputs) {
    Tensor tensor = Tensor::zeros(graph.value(id).type);
    const auto next = [&state] {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      return static_cast<double>(state % 100000) / 100000;
    };
    for (double& value : tensor.floats) value = problem.low + (problem.high - problem.low) * next();
    for (size_t i = 0; i < tensor.integers.size(); ++i)
      tensor.integers[i] = static_cast<int64_t>(3 * next());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

double loss_of(const Module& module, const std::vector<Tensor>& inputs) {
  StateValues states;
  Diagnostics diagnostics;
  const auto outputs = evaluate_entry(module, module.entries[0], inputs, states, {}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(outputs.has_value());
  return outputs->at(0).floats.at(0);
}

void check_gradients(const Problem& problem) {
  Module module = model_of(problem);
  const Module forward = module;
  Graph& graph = module.entries[0];
  std::vector<ValueId> wanted;
  std::vector<size_t> places;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (!is_float(graph.value(graph.inputs[i]).type.dtype)) continue;
    wanted.push_back(graph.inputs[i]);
    places.push_back(i);
  }
  Diagnostics diagnostics;
  const auto gradients = differentiate(module, graph, graph.outputs()[0], wanted, diagnostics);
  INFO(problem.nodes << "\n" << diagnostics.text());
  REQUIRE(gradients.has_value());
  for (const auto& gradient : *gradients) {
    REQUIRE(gradient.has_value());
    graph.add_output(*gradient);
  }
  INFO(find_fault(module).value_or(""));
  REQUIRE_FALSE(find_fault(module).has_value());
  std::vector<Tensor> inputs = values_of(graph, problem);
  StateValues states;
  const auto outputs = evaluate_entry(module, graph, inputs, states, {}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(outputs.has_value());
  constexpr double kStep = 1e-5;
  for (size_t k = 0; k < places.size(); ++k) {
    const Tensor& got = outputs->at(k + 1);
    std::vector<double>& x = inputs[places[k]].floats;
    REQUIRE(got.floats.size() == x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const double old = x[i];
      x[i] = old + kStep;
      const double above = loss_of(forward, inputs);
      x[i] = old - kStep;
      const double below = loss_of(forward, inputs);
      x[i] = old;
      const double wanted_value = (above - below) / (2 * kStep);
      INFO("input " << places[k] << " element " << i << ": got " << got.floats[i] << ", wanted "
                    << wanted_value);
      CHECK(std::fabs(got.floats[i] - wanted_value) <=
            1e-5 * std::max(1.0, std::fabs(wanted_value)));
    }
  }
}

}  // namespace

TEST_CASE("T156 gradients_of_every_curve_are_differences") {
  for (const char* op :
       {"neg",          "abs",         "sin",    "cos",   "tanh",       "sigmoid", "exp",
        "exp2",         "expm1",       "erf",    "relu",  "leaky_relu", "elu",     "celu",
        "selu",         "gelu",        "silu",   "swish", "gelu_tanh",  "mish",    "softplus",
        "softsign",     "square",      "atan",   "asinh", "sinh",       "cosh",    "hard_swish",
        "hard_sigmoid", "log_sigmoid", "affine", "erfcx", "i0e",        "i1e"}) {
    check_gradients({.inputs = {"x:[3, 5]"}, .nodes = step_text(op, R"("x")", R"("y")")});
  }
  for (const char* op :
       {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma"}) {
    check_gradients({.inputs = {"x:[3, 5]"},
                     .nodes = step_text(op, R"("x")", R"("y")"),
                     .low = 0.4,
                     .high = 2});
  }
  check_gradients({.inputs = {"x:[7]"},
                   .nodes = step_text("ndtri", R"("x")", R"("y")"),
                   .low = 0.1,
                   .high = 0.9});
  for (const char* op : {"tan", "asin", "acos", "atanh", "erfinv"}) {
    check_gradients({.inputs = {"x:[7]"},
                     .nodes = step_text(op, R"("x")", R"("y")"),
                     .low = -0.8,
                     .high = 0.8});
  }
}

TEST_CASE("gradients_of_broadcast_operands_are_sums") {
  for (const char* op : {"add", "sub", "mul", "div", "max", "min", "pow", "atan2", "mod", "fmod"}) {
    check_gradients({.inputs = {"a:[3, 1, 4]", "b:[2, 1]"},
                     .nodes = step_text(op, R"("a", "b")", R"("y")"),
                     .low = 0.3,
                     .high = 1.9});
  }
  check_gradients({.inputs = {"a:[3, 1]", "b:[4]", "c:[3, 4]:i32"},
                   .nodes = step_text("cast", R"("c")", R"("m")", R"({"to": "bool"})") + ", " +
                            step_text("where", R"("m", "a", "b")", R"("y")")});
  check_gradients(
      {.inputs = {"a:[3, 4]", "s:[4]"}, .nodes = step_text("prelu", R"("a", "s")", R"("y")")});
  check_gradients(
      {.inputs = {"a:[3, 4]"},
       .nodes = step_text("clamp", R"("a")", R"("y")", R"({"min": -0.5, "max": 0.7})")});
  check_gradients({.inputs = {"a:[4]", "b:[4]", "c:[4]"},
                   .nodes = step_text("fma", R"("a", "b", "c")", R"("y")")});
}

TEST_CASE("gradients_of_running_and_whole_products_need_no_division") {
  for (const char* attributes :
       {R"({"axis": 1})", R"({"axis": 0})", R"({"axis": 1, "exclusive": true})",
        R"({"axis": 1, "reverse": true})", R"({"axis": 0, "reverse": true, "exclusive": true})"}) {
    check_gradients(
        {.inputs = {"x:[3, 4]"}, .nodes = step_text("cumprod", R"("x")", R"("y")", attributes)});
  }
  for (const char* attributes :
       {R"({"axes": [1]})", R"({"axes": [0, 2], "keep_dims": true})", "{}"}) {
    check_gradients({.inputs = {"x:[2, 3, 4]"},
                     .nodes = step_text("reduce_prod", R"("x")", R"("y")", attributes)});
  }
  // Through a 0: what stands between is not divided away.
  check_gradients(
      {.inputs = {"x:[2, 4]"},
       .nodes =
           step_text("narrow", R"("x")", R"("a")", R"({"axis": 1, "start": 0, "len": 3})") + ", " +
           step_text("narrow", R"("x")", R"("b")", R"({"axis": 1, "start": 3, "len": 1})") + ", " +
           step_text("sub", R"("b", "b")", R"("zero")") + ", " +
           step_text("concat", R"("a", "zero")", R"("c")", R"({"axis": 1})") + ", " +
           step_text("cumprod", R"("c")", R"("d")", R"({"axis": 1, "reverse": true})") + ", " +
           step_text("reduce_prod", R"("c")", R"("e")", R"({"axes": [1], "keep_dims": true})") +
           ", " + step_text("add", R"("d", "e")", R"("y")")});
}

TEST_CASE("gradients_of_running_extremes_go_to_what_is_shown") {
  for (const char* op : {"cummax", "cummin"}) {
    for (const char* attributes : {R"({"axis": 1})", R"({"axis": 0, "reverse": true})"}) {
      check_gradients(
          {.inputs = {"x:[4, 5]"}, .nodes = step_text(op, R"("x")", R"("y")", attributes)});
    }
  }
}

TEST_CASE("gradients_of_systems_of_equations") {
  const std::string shifted = step_text("eye", "", R"("one")", R"({"n": 3, "dtype": "f64"})") +
                              ", " + step_text("affine", R"("one")", R"("big")", R"({"mul": 4})") +
                              ", " + step_text("add", R"("a", "big")", R"("m")") + ", ";
  check_gradients({.inputs = {"a:[3, 3]", "b:[3]"},
                   .nodes = shifted + step_text("dense_solve", R"("m", "b")", R"("y")")});
  check_gradients({.inputs = {"a:[3, 3]", "b:[3, 2]"},
                   .nodes = shifted + step_text("dense_solve", R"("m", "b")", R"("y")")});
  check_gradients({.inputs = {"a:[2, 3, 3]", "b:[2, 3]"},
                   .nodes = shifted + step_text("batched_dense_solve", R"("m", "b")", R"("y")")});
  check_gradients({.inputs = {"a:[2, 3, 3]", "b:[2, 3, 2]"},
                   .nodes = shifted + step_text("batched_dense_solve", R"("m", "b")", R"("y")")});
}

TEST_CASE("gradients_of_pads_that_repeat_the_edge_or_mirror") {
  for (const char* mode : {"reflect", "edge", "wrap"}) {
    for (const char* pads : {"[1, 2, 2, 1]", "[0, -1, 2, 2]"}) {
      check_gradients({.inputs = {"x:[3, 4]"},
                       .nodes = step_text(
                           "pad", R"("x")", R"("y")",
                           std::string(R"({"pads": )") + pads + R"(, "mode": ")" + mode + "\"}")});
    }
  }
}

TEST_CASE("gradients_of_rows_that_are_copied_or_added_by_index") {
  // Rows 2 and 0.
  const std::string index =
      step_text("eye", "", R"("one")", R"({"n": 3, "m": 2, "k": -1, "dtype": "f64"})") + ", " +
      step_text("argmax", R"("one")", R"("i")", R"({"axis": 0})") + ", ";
  check_gradients(
      {.inputs = {"x:[4, 3]", "s:[4, 2]"},
       .nodes = index + step_text("index_copy", R"("x", "i", "s")", R"("y")", R"({"axis": 1})")});
  check_gradients({.inputs = {"x:[3, 2]", "s:[2, 2]"},
                   .nodes = index + step_text("index_add", R"("x", "i", "s")", R"("y")",
                                              R"({"axis": 0, "alpha": 1.5})")});
}

TEST_CASE("gradients_of_resizes_are_their_transposes") {
  for (
      const char* attributes :
      {R"({"sizes": [5, 7], "mode": "linear"})",
       R"({"scales": [2, 1.5], "mode": "nearest", "coord": "asymmetric", "nearest_mode": "floor"})",
       R"({"sizes": [2, 3], "mode": "linear", "antialias": true})",
       R"({"sizes": [6, 5], "mode": "cubic", "coord": "align_corners"})"}) {
    check_gradients({.inputs = {"x:[1, 2, 3, 4]"},
                     .nodes = step_text("resize", R"("x")", R"("y")", attributes)});
  }
}

TEST_CASE("gradients_of_planar_transforms") {
  for (const char* attributes : {"{}", R"({"inverse": true, "norm": "backward"})",
                                 R"({"norm": "ortho"})", R"({"norm": "forward"})"}) {
    check_gradients(
        {.inputs = {"x:[2, 10]"}, .nodes = step_text("fft", R"("x")", R"("y")", attributes)});
  }
  check_gradients(
      {.inputs = {"x:[3, 5, 2]"},
       .nodes = step_text("fft", R"("x")", R"("y")", R"({"axis": 0, "layout": "interleaved"})")});
}

// What reaches x where y is weighed by w: y times w is the loss.
std::vector<double> passed(const std::string& inputs, const std::string& node,
                           const std::vector<std::vector<double>>& values, size_t wrt) {
  Module module =
      module_of(R"("inputs": [)" + inputs + R"(], "nodes": [)" + node + ", " +
                step_text("mul", R"("y", "w")", R"("z")") + ", " +
                step_text("reduce_sum", R"("z")", R"("loss")") + R"(], "outputs": ["loss"])");
  Graph& graph = module.entries[0];
  Diagnostics diagnostics;
  const std::vector<ValueId> wanted = {graph.inputs.at(wrt)};
  const auto gradients = differentiate(module, graph, graph.outputs()[0], wanted, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(gradients.has_value());
  graph.add_output(gradients->at(0).value());
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    tensors.push_back(Tensor::zeros(graph.value(graph.inputs[i]).type));
    tensors.back().floats = values.at(i);
  }
  StateValues states;
  const auto outputs = evaluate_entry(module, graph, tensors, states, {}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(outputs.has_value());
  return outputs->at(1).floats;
}

TEST_CASE("gradients_of_pretended_quantisation_are_those_of_its_estimator") {
  const std::string inputs =
      R"({"name": "x", "dtype": "f64", "shape": [4]}, {"name": "w", "dtype": "f64", "shape": [4]}, {"name": "s", "dtype": "f32", "shape": [1]})";
  const std::vector<std::vector<double>> values = {{-2, -0.5, 0.25, 1}, {1, 2, 3, 4}, {0.5}};
  const auto fixed = [&](const char* ste) {
    return passed(
        inputs,
        step_text("fake_quantize", R"("x", "s")", R"("y")",
                  std::string(R"({"bits": 2, "scale_mode": "fixed", "ste": ")") + ste + "\"}"),
        values, 0);
  };
  CHECK(fixed("identity") == std::vector<double>{1, 2, 3, 4});
  CHECK(fixed("clipped_identity") == std::vector<double>{0, 2, 3, 0});  // beyond 0.5
  CHECK(fixed("hard_tanh") == std::vector<double>{0, 0, 1.5, 0});
  CHECK(fixed("tanh")[2] == Approx(3 * (1 - std::tanh(0.5) * std::tanh(0.5))));
  const std::string learned =
      step_text("fake_quantize_lsq", R"("x", "s")", R"("y")", R"({"bits": 2})");
  CHECK(passed(inputs, learned, values, 0) == std::vector<double>{0, 2, 3, 0});
  // -1, round(-1) + 1 = 0, round(0.5) - 0.5 = -0.5, 1: each times w.
  CHECK(passed(inputs, learned, values, 2) == std::vector<double>{-1 + 0 - 1.5 + 4});
}

TEST_CASE("gradients_of_products") {
  const auto product = [](const char* a, const char* b, const char* attributes) {
    check_gradients({.inputs = {std::string("a:") + a, std::string("b:") + b},
                     .nodes = step_text("matmul", R"("a", "b")", R"("y")", attributes)});
  };
  product("[3, 4]", "[4, 2]", "{}");
  product("[4, 3]", "[4, 2]", R"({"trans_a": true})");
  product("[3, 4]", "[2, 4]", R"({"trans_b": true})");
  product("[4, 3]", "[2, 4]", R"({"trans_a": true, "trans_b": true})");
  product("[2, 3, 4]", "[4, 2]", "{}");
  product("[2, 3, 4]", "[2, 4]", R"({"trans_b": true})");
  product("[2, 1, 3, 4]", "[3, 4, 2]", "{}");
  product("[3, 4]", "[2, 4, 2]", "{}");
  product("[4]", "[4, 2]", "{}");
  product("[3, 4]", "[4]", "{}");
  product("[4]", "[4]", "{}");
  check_gradients({.inputs = {"a:[2, 3, 4]", "b:[4, 2, 5]"},
                   .nodes = step_text("dot_general", R"("a", "b")", R"("y")",
                                      R"({"lhs_contracting": [2], "rhs_contracting": [0],
                                     "lhs_batch": [0], "rhs_batch": [1]})")});
}

TEST_CASE("gradients_of_reductions_and_rows") {
  for (const char* op : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_l1",
                         "reduce_l2", "reduce_sum_square", "reduce_log_sum_exp", "variance"}) {
    check_gradients({.inputs = {"x:[3, 4, 2]"},
                     .nodes = step_text(op, R"("x")", R"("y")", R"({"axes": [0, 2]})")});
  }
  check_gradients({.inputs = {"x:[3, 4]"},
                   .nodes = step_text("reduce_log_sum", R"("x")", R"("y")", R"({"axes": [1]})"),
                   .low = 0.2});
  for (const char* op : {"softmax", "log_softmax"}) {
    check_gradients(
        {.inputs = {"x:[3, 4, 2]"}, .nodes = step_text(op, R"("x")", R"("y")", R"({"axis": 1})")});
  }
  for (const char* op : {"layer_norm", "rms_norm"}) {
    check_gradients({.inputs = {"x:[3, 5]", "g:[5]", "b:[5]"},
                     .nodes = step_text(op, R"("x", "g", "b")", R"("y")")});
  }
  check_gradients(
      {.inputs = {"x:[2, 4, 3]", "g:[4]", "b:[4]"},
       .nodes = step_text("group_norm", R"("x", "g", "b")", R"("y")", R"({"num_groups": 2})")});
  for (const char* op : {"instance_norm", "layer_norm2d"}) {
    check_gradients({.inputs = {"x:[2, 3, 2, 2]", "g:[3]", "b:[3]"},
                     .nodes = step_text(op, R"("x", "g", "b")", R"("y")")});
  }
  check_gradients(
      {.inputs = {"x:[4, 3, 2]", "g:[3]", "b:[3]"},
       .nodes = step_text("variance", R"("x")", R"("v")", R"({"axes": [0, 2], "correction": 0})") +
                ", " + step_text("stop_gradient", R"("v")", R"("vs")") + ", " +
                step_text("reduce_mean", R"("x")", R"("m")", R"({"axes": [0, 2]})") + ", " +
                step_text("stop_gradient", R"("m")", R"("ms")") + ", " +
                step_text("batch_norm", R"("x", "g", "b", "ms", "vs")", R"("y")",
                          R"({"training": true})")});
  for (const char* exclusive : {"false", "true"}) {
    check_gradients(
        {.inputs = {"x:[3, 4]"},
         .nodes = step_text("cumsum", R"("x")", R"("y")",
                            std::string(R"({"axis": 1, "exclusive": )") + exclusive + "}")});
  }
  check_gradients(
      {.inputs = {"x:[3, 6]"}, .nodes = step_text("topk", R"("x")", R"("y")", R"({"k": 2})")});
  check_gradients({.inputs = {"x:[3, 4]"},
                   .nodes = step_text("sort", R"("x")", R"("y", "i")", R"({"axis": 0})")});
}

TEST_CASE("gradients_of_movement") {
  const auto one = [](const char* shape, const char* op, const char* attributes) {
    check_gradients({.inputs = {std::string("x:") + shape},
                     .nodes = step_text(op, R"("x")", R"("y")", attributes)});
  };
  one("[2, 6]", "reshape", R"({"shape": [3, 4]})");
  one("[2, 3, 4]", "transpose", R"({"perm": [2, 0, 1]})");
  one("[2, 3]", "transpose", "{}");
  one("[3, 8]", "slice", R"({"axes": [1], "starts": [1], "ends": [7], "steps": [2]})");
  one("[3, 8]", "slice",
      R"({"axes": [1, 0], "starts": [-1, 1], "ends": [-9, 3], "steps": [-3, 1]})");
  one("[3, 8]", "slice", R"({"axes": [1], "starts": [-3], "ends": [100]})");
  one("[3, 8]", "narrow", R"({"axis": 1, "start": 2, "len": 3})");
  one("[3, 4]", "reverse", R"({"axes": [1]})");
  one("[3, 1]", "expand", R"({"shape": [2, 3, 4]})");
  one("[3, 2]", "tile", R"({"repeats": [2, 3]})");
  one("[3, 2]", "repeat_interleave", R"({"axis": 1, "repeats": 3})");
  one("[1, 2, 3, 2]", "resize_nearest_2x", "{}");
  one("[1, 8, 2, 3]", "depth_to_space", R"({"block": 2})");
  one("[3, 4]", "pad", R"({"pads": [1, 0, 2, -1], "value": 3})");
  one("[3, 4]", "roll", R"({"axes": [1], "shifts": [3]})");
  one("[4, 4]", "trilu", R"({"k": 1})");
  one("[3, 4]", "dropout", R"({"p": 0.4, "training": true, "seed": 7})");
  check_gradients({.inputs = {"a:[2, 3]", "b:[2, 1]"},
                   .nodes = step_text("concat", R"("a", "b")", R"("y")", R"({"axis": 1})")});
  check_gradients({.inputs = {"a:[2, 3]", "b:[2, 3]"},
                   .nodes = step_text("stack", R"("a", "b")", R"("y")", R"({"axis": 1})")});
  check_gradients(
      {.inputs = {"x:[2, 6]"},
       .nodes = step_text("split", R"("x")", R"("p", "q", "r")", R"({"axis": 1, "num": 3})") +
                ", " + step_text("mul", R"("p", "r")", R"("y")")});
  check_gradients({.inputs = {"x:[2, 4, 3]", "i:[3]:i64"},
                   .nodes = step_text("gather", R"("x", "i")", R"("y")", R"({"axis": 1})")});
  check_gradients({.inputs = {"x:[4, 3]", "i:[2, 2]:i32"},
                   .nodes = step_text("embedding", R"("x", "i")", R"("y")")});
  check_gradients({.inputs = {"x:[4, 3]", "i:[2, 3]:i64"},
                   .nodes = step_text("gather_elements", R"("x", "i")", R"("y")")});
  check_gradients({.inputs = {"x:[4, 3]", "i:[2, 1]:i64"},
                   .nodes = step_text("gather_nd", R"("x", "i")", R"("y")")});
  check_gradients(
      {.inputs = {"u:[5, 2]", "i:[5]:i64", "b:[3, 2]"},
       .nodes = step_text("scatter_add", R"("u", "i", "b")", R"("y")", R"({"dim0": 3})")});
}

TEST_CASE("T163 T164 gradients_of_windows") {
  const auto conv = [](const char* x, const char* w, const char* b, const char* attributes) {
    check_gradients(
        {.inputs = {std::string("x:") + x, std::string("w:") + w, std::string("b:") + b},
         .nodes = step_text("conv", R"("x", "w", "b")", R"("y")", attributes)});
  };
  conv("[2, 2, 5, 4]", "[3, 2, 3, 2]", "[3]", R"({"stride": [2, 1], "pads": [1, 0, 1, 1]})");
  conv("[1, 4, 5]", "[2, 2, 3]", "[2]", R"({"groups": 2, "dilation": [2], "pads": [1, 1]})");
  conv("[1, 2, 4, 4]", "[2, 2, 3, 3]", "[2]", R"({"activation": "relu"})");
  check_gradients({.inputs = {"x:[1, 2, 3, 3]", "w:[2, 3, 3, 2]", "b:[3]"},
                   .nodes = step_text("conv_transpose", R"("x", "w", "b")", R"("y")",
                                      R"({"stride": [2, 2], "pads": [1, 0, 0, 1],
                                     "output_padding": [1, 0]})")});
  for (const char* kind : {"max", "min", "mean", "sum"}) {
    check_gradients({.inputs = {"x:[1, 2, 5, 6]"},
                     .nodes = step_text("pool", R"("x")", R"("y")",
                                        std::string(R"({"kernel": [3, 2], "stride": [2, 2],
                                                   "pads": [1, 0, 1, 0], "kind": ")") +
                                            kind + R"("})")});
  }
  for (const char* kind : {"max", "mean"}) {
    check_gradients({.inputs = {"x:[1, 2, 4, 4]"},
                     .nodes = step_text("global_pool", R"("x")", R"("y")",
                                        std::string(R"({"kind": ")") + kind + R"("})")});
    check_gradients(
        {.inputs = {"x:[1, 2, 4, 4]"},
         .nodes = step_text("adaptive_pool", R"("x")", R"("y")",
                            std::string(R"({"out": [2, 2], "kind": ")") + kind + R"("})")});
  }
}

TEST_CASE("T160 gradient_of_cross_entropy") {
  check_gradients({.inputs = {"x:[3, 4]", "t:[3]:i64"},
                   .nodes = step_text("softmax_cross_entropy", R"("x", "t")", R"("y")",
                                      R"({"reduction": "mean", "label_smoothing": 0.2})")});
  check_gradients({.inputs = {"x:[2, 4, 3]", "t:[2, 3]:i64"},
                   .nodes = step_text("softmax_cross_entropy", R"("x", "t")", R"("y")")});
}

TEST_CASE("T81 gradients_of_attention") {
  check_gradients(
      {.inputs = {"q:[1, 4, 3, 2]", "k:[1, 2, 5, 2]", "v:[1, 2, 5, 3]", "b:[1, 1, 3, 5]"},
       .nodes = step_text("attention", R"("q", "k", "v", null, "b")", R"("y")",
                          R"({"num_heads": 4, "num_kv_heads": 2, "head_dim": 2, "v_head_dim": 3,
                              "q_layout": "bhsd", "kv_layout": "bhsd", "causal": true,
                              "softcap": 2})")});
}

TEST_CASE("fused_ops_are_differentiated_by_what_they_are_made_of") {
  check_gradients(
      {.inputs = {"x:[3, 4]", "r:[3, 4]", "g:[4]"},
       .nodes = step_text("fused_residual_rms_norm", R"("x", "r", null, "g")", R"("y")")});
  check_gradients(
      {.inputs = {"a:[3, 4]", "b:[3, 4]"}, .nodes = step_text("glu", R"("a", "b")", R"("y")")});
}

// A layer over three steps of two sequences; `more` are inputs behind the weights, by name.
void check_layer(const std::string& op, int64_t gates, const std::string& more,
                 std::vector<std::string> inputs, const std::string& attributes,
                 const std::string& outputs, int64_t directions = 1) {
  const std::string rows = std::to_string(directions * gates * 3);
  inputs.insert(inputs.begin(), {"x:[2, 3, 2]", "w:[" + rows + ", 2]", "u:[" + rows + ", 3]"});
  check_gradients({.inputs = inputs,
                   .nodes = step_text(op, R"("x", "w", "u")" + more, outputs,
                                      R"({"hidden_size": 3)" + attributes + "}"),
                   .low = -1,
                   .high = 1});
}

TEST_CASE("gradients_of_recurrent_layers") {
  for (const char* activation : {"tanh", "relu"}) {
    check_layer("rnn", 1, R"(, "b", "h")", {"b:[3]", "h:[1, 2, 3]"},
                std::string(R"(, "activation": ")") + activation + "\"", R"("y", "last")");
  }
  check_layer("gru", 3, R"(, "b", "r", "h")", {"b:[9]", "r:[9]", "h:[1, 2, 3]"},
              R"(, "linear_before_reset": true)", R"("y", "last")");
  check_layer("gru", 3, R"(, "b", null, "h")", {"b:[9]", "h:[1, 2, 3]"},
              R"(, "linear_before_reset": false, "direction": "reverse")", R"("y", "last")");
  check_layer("lstm", 4, R"(, "b", "h", "c")", {"b:[12]", "h:[1, 2, 3]", "c:[1, 2, 3]"}, "",
              R"("y", "last", "cell")");
  check_layer("lstm", 4, R"(, null, null, null, null, "p")", {"p:[9]"}, "", R"("y")");
}

TEST_CASE("gradients_of_recurrent_layers_in_both_directions_with_lengths") {
  // Lengths are 0, 1 or 2 of 3 steps.
  const std::string lengths = "n:[2]:i32";
  const std::string both = R"(, "direction": "bidirectional")";
  check_layer("lstm", 4, R"(, null, "h", "c", "n", "p")",
              {"h:[2, 2, 3]", "c:[2, 2, 3]", lengths, "p:[18]"}, both, R"("y", "last", "cell")", 2);
  check_layer("lstm", 4, R"(, null, "h", "c", "n")", {"h:[2, 2, 3]", "c:[2, 2, 3]", lengths}, both,
              R"("y", "last", "cell")", 2);
  for (const char* before : {"true", "false"}) {
    check_layer("gru", 3, R"(, null, null, "h", "n")", {"h:[2, 2, 3]", lengths},
                both + R"(, "linear_before_reset": )" + before, R"("y", "last")", 2);
  }
  check_layer("rnn", 1, R"(, null, "h", "n")", {"h:[2, 2, 3]", lengths}, both, R"("y", "last")", 2);
}

TEST_CASE("gradients_of_selective_scans") {
  check_gradients(
      {.inputs = {"x:[2, 5, 4]", "d:[2, 5, 4]", "a:[4, 3]", "b:[2, 5, 3]", "c:[2, 5, 3]"},
       .nodes = step_text("selective_scan", R"("x", "d", "a", "b", "c")", R"("y")"),
       .low = -1,
       .high = 1});
  check_gradients(
      {.inputs = {"x:[1, 4, 4]", "d:[1, 4, 4]", "a:[4, 2]", "b:[1, 4, 2, 2]", "c:[1, 4, 2, 2]",
                  "e:[4]", "z:[1, 4, 4]", "o:[4]", "s:[1, 4, 2]"},
       .nodes = step_text("selective_scan", R"("x", "d", "a", "b", "c", "e", "z", "o", "s")",
                          R"("v", "last")", R"({"delta_softplus": true})") +
                ", " + step_text("reshape", R"("last")", R"("flat")", R"({"shape": [1, 2, 4]})") +
                ", " + step_text("concat", R"("v", "flat")", R"("y")", R"({"axis": 1})"),
       .low = -1,
       .high = 1});
}

TEST_CASE("all_operators_without_a_gradient_are_listed") {
  Module module =
      module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [1, 4, 1, 4]}], "nodes": [)" +
                step_text("linear_attention", R"("x", "x", "x")", R"("a")",
                          R"({"num_heads": 1, "rule": "linear"})") +
                ", " +
                step_text("gated_deltanet", R"("a", "x", "x")", R"("b")",
                          R"({"num_heads": 1, "rule": "linear"})") +
                ", " + step_text("reduce_sum", R"("b")", R"("c")") + R"(], "outputs": ["c"])");
  Graph& graph = module.entries[0];
  Diagnostics diagnostics;
  const auto gradients =
      differentiate(module, graph, graph.outputs()[0], graph.inputs, diagnostics);
  CHECK_FALSE(gradients.has_value());
  CHECK(diagnostics.text().find("linear_attention \"a\", gated_deltanet \"b\"") !=
        std::string::npos);
}

TEST_CASE("attention_with_sinks_has_no_gradient") {
  Module module = module_of(
      R"("inputs": [{"name": "x", "dtype": "f32", "shape": [1, 2, 3, 4]}, {"name": "sinks", "dtype": "f32", "shape": [2]}],
         "nodes": [)" +
      step_text("attention", R"("x", "x", "x", null, null, null, null, "sinks")", R"("y")",
                R"({"num_heads": 2, "head_dim": 4, "q_layout": "bhsd", "kv_layout": "bhsd"})") +
      ", " + step_text("reduce_sum", R"("y")", R"("c")") + R"(], "outputs": ["c"])");
  Graph& graph = module.entries[0];
  Diagnostics diagnostics;
  const auto gradients =
      differentiate(module, graph, graph.outputs()[0], graph.inputs, diagnostics);
  CHECK_FALSE(gradients.has_value());
  CHECK(diagnostics.text().find("with sinks it has no gradient") != std::string::npos);
}

TEST_CASE("a_loss_is_a_float_scalar") {
  Module module = module_of(R"("inputs": [{"name": "x", "dtype": "f32", "shape": [4]}],
                              "nodes": [)" +
                            step_text("sin", R"("x")", R"("y")") + R"(], "outputs": ["y"])");
  Graph& graph = module.entries[0];
  Diagnostics diagnostics;
  CHECK_FALSE(differentiate(module, graph, graph.outputs()[0], graph.inputs, diagnostics));
  CHECK(diagnostics.text().find("the loss \"y\" is f32[4], wanted a float scalar") !=
        std::string::npos);
}

TEST_CASE("a_training_step_moves_params_and_keeps_what_is_frozen") {
  Module module = module_of(
      R"("params": [{"name": "w", "dtype": "f64", "shape": [3], "data": {"values": [1, 2, 3]}},
                    {"name": "c", "dtype": "f64", "shape": [3], "data": {"values": [2, 2, 2]}}],
         "inputs": [{"name": "x", "dtype": "f64", "shape": [3]}],
         "nodes": [)" +
      step_text("mul", R"("w", "x")", R"("p")") + ", " + step_text("mul", R"("p", "c")", R"("q")") +
      ", " + step_text("reduce_sum", R"("q")", R"("loss")") + R"(], "outputs": ["loss", "p"])");
  Diagnostics diagnostics;
  const TrainingOptions options{
      .loss = "loss", .frozen = {"c"}, .optimizer = Optimizer::Sgd, .lr = 0.5, .accumulate = 2};
  REQUIRE(make_training_step(module, options, diagnostics));
  INFO(find_fault(module).value_or("") << print(module));
  REQUIRE_FALSE(find_fault(module).has_value());
  REQUIRE(module.entries.size() == 3);
  const auto entry = [&](const std::string& name) -> const Graph& {
    for (const Graph& graph : module.entries) {
      if (graph.name == name) return graph;
    }
    FAIL("no entry " << name);
    return module.entries[0];
  };
  StateValues states;
  const auto run = [&](const std::string& name, std::vector<double> x) {
    Tensor tensor = Tensor::zeros({DType::f64, {3}});
    tensor.floats = std::move(x);
    const auto outputs = evaluate_entry(module, entry(name), {tensor}, states, {}, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(outputs.has_value());
    return outputs->at(0).floats.at(0);
  };
  CHECK(run("accumulate", {1, 0, 0}) == 2);
  CHECK_FALSE(states.contains("w"));  // it keeps its weight
  CHECK(run("train", {0, 1, 0}) == 4);
  // The mean of the two gradients, which are 2 x.
  CHECK(states.at("w").floats == std::vector<double>{0.5, 1.5, 3});
  CHECK(run("eval", {1, 1, 1}) == 10);
  CHECK(states.at("optimizer.step").integers == std::vector<int64_t>{1});
  CHECK_FALSE(states.contains("c"));
}

// w is read by bodies alone; the loss is what the branch that is taken gives: after three steps of
// h = w h + x the sum of h, or of h w.
constexpr const char* kParamInBodies = R"("params": [
    {"name": "w", "dtype": "f64", "shape": [2], "data": {"values": [0.5, -2]}}],
  "inputs": [{"name": "h", "dtype": "f64", "shape": [2]},
             {"name": "xs", "dtype": "f64", "shape": [3, 2]},
             {"name": "weighs", "dtype": "bool", "shape": []}],
  "nodes": [
    {"op": "scan", "inputs": ["h", "xs"], "outputs": ["last"], "attributes": {"num_carry": 1},
     "bodies": {"body": {"inputs": ["c", "x"], "nodes": [
       {"op": "mul", "inputs": ["c", "w"], "outputs": ["cw"]},
       {"op": "add", "inputs": ["cw", "x"], "outputs": ["next"]}], "outputs": ["next"]}}},
    {"op": "if", "inputs": ["weighs", "last"], "outputs": ["loss"], "bodies": {
       "then": {"inputs": ["a"], "nodes": [
         {"op": "mul", "inputs": ["a", "w"], "outputs": ["aw"]},
         {"op": "reduce_sum", "inputs": ["aw"], "outputs": ["weighed"]}], "outputs": ["weighed"]},
       "else": {"inputs": ["b"], "nodes": [
         {"op": "reduce_sum", "inputs": ["b"], "outputs": ["plain"]}], "outputs": ["plain"]}}}],
  "outputs": ["loss"])";

std::vector<Tensor> body_inputs(bool weighs) {
  Tensor h = Tensor::zeros({DType::f64, {2}});
  h.floats = {1, 3};
  Tensor xs = Tensor::zeros({DType::f64, {3, 2}});
  xs.floats = {1, -1, 0.5, 2, -1, 0.25};
  Tensor flag = Tensor::zeros({DType::bool_, {}});
  flag.integers = {weighs ? 1 : 0};
  return {h, xs, flag};
}

TEST_CASE("a_param_that_only_bodies_read_has_its_gradient") {
  Module module = module_of(kParamInBodies);
  Diagnostics diagnostics;
  const bool good = add_gradients(module, {.loss = "loss"}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(good);
  const Graph& graph = module.entries[0];
  REQUIRE(graph.outputs().size() == 2);
  CHECK(graph.value(graph.outputs()[0]).name == "loss");
  CHECK(graph.value(graph.outputs()[1]).name == "grad.w");
  for (const bool weighs : {false, true}) {
    StateValues states;
    const auto got = evaluate_entry(module, graph, body_inputs(weighs), states, {}, diagnostics);
    REQUIRE(got.has_value());
    for (size_t i = 0; i < 2; ++i) {
      const auto last = [&](double w, double at) {
        double h = i == 0 ? 1 : 3;
        for (const double x : i == 0 ? std::vector{1.0, 0.5, -1.0} : std::vector{-1.0, 2.0, 0.25})
          h = w * h + x;
        return weighs ? h * at : h;
      };
      const double w = i == 0 ? 0.5 : -2;
      const double wanted = (last(w + 1e-5, w + 1e-5) - last(w - 1e-5, w - 1e-5)) / 2e-5;
      CHECK(got->at(1).floats[i] == Approx(wanted).epsilon(1e-6));
    }
  }
}

TEST_CASE("a_training_step_trains_what_only_bodies_read") {
  Module module = module_of(kParamInBodies);
  Diagnostics diagnostics;
  const TrainingOptions options{.loss = "loss", .optimizer = Optimizer::Sgd, .lr = 0.25};
  const bool good = make_training_step(module, options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(good);
  INFO(find_fault(module).value_or(""));
  REQUIRE_FALSE(find_fault(module).has_value());
  StateValues states;
  const auto run = [&](const std::string& name) {
    for (const Graph& graph : module.entries) {
      if (graph.name != name) continue;
      const auto outputs =
          evaluate_entry(module, graph, body_inputs(false), states, {}, diagnostics);
      REQUIRE(outputs.has_value());
      return outputs->at(0).floats.at(0);
    }
    FAIL("no entry " << name);
    return 0.0;
  };
  const double before = run("eval");
  CHECK(run("train") == before);
  // The gradient of w^3 h + w^2 x0 + w x1 + x2 at 0.5 for 1, 1, 0.5 and at -2 for 3, -1, 2.
  CHECK(states.at("w").floats[0] == Approx(0.5 - 0.25 * (0.75 + 1 + 0.5)));
  CHECK(states.at("w").floats[1] == Approx(-2 - 0.25 * (36 + 4 + 2)));
  CHECK(run("eval") != before);
}

}  // namespace rlx::test
