// SPDX-License-Identifier: Apache-2.0
// if, while, loop, scan and call (ops.md 15): the evaluator by hand-made values, every device by
// the evaluator, bit for bit where nothing rounds.
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/api/session.h"
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

Tensor reals(Shape shape, std::vector<double> values) {
  Tensor result = Tensor::zeros({DType::f32, std::move(shape)});
  result.floats = std::move(values);
  return result;
}
Tensor whole(DType dtype, Shape shape, std::vector<int64_t> values) {
  Tensor result = Tensor::zeros({dtype, std::move(shape)});
  result.integers = std::move(values);
  return result;
}

// The evaluator's outputs of one run, and that every device gives them too.
std::vector<Tensor> run_everywhere(const std::string& text, const std::vector<Tensor>& inputs) {
  const Module module = module_from(text);
  Diagnostics diagnostics;
  StateValues states;
  auto wanted = evaluate_entry(module, module.entries[0], inputs, states, {}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(wanted.has_value());
  for (const int level : {0, 2}) {
    for (const ControlFlow control : {ControlFlow::Unrolled, ControlFlow::Regions}) {
      CompileOptions options = test_options(level);
      options.control = control;
      const auto plan = compile_plan(module, options, diagnostics);
      INFO("-O" << level << (control == ControlFlow::Regions ? ", regions\n" : ", unrolled\n")
                << diagnostics.text());
      REQUIRE(plan != nullptr);
      for (const auto& device : present_devices().devices) {
        TestSession session(*device, plan);
        // The second run finds what the first one left, but for states.
        for (int run = 0; run < 2; ++run) {
          REQUIRE(session.session().reset_states().ok());
          const auto got = session.run(0, inputs, std::byte{0xA5});
          REQUIRE(got.size() == wanted->size());
          for (size_t i = 0; i < got.size(); ++i) {
            const Verdict verdict = judge(got[i], (*wanted)[i], Tolerance::Exact);
            INFO("output " << i << " on " << device->info().id << ": " << verdict.fault);
            CHECK(verdict.good);
          }
        }
      }
    }
  }
  CHECK(validation_messages().empty());
  return *wanted;
}

std::string body(const std::string& name, const std::string& inputs, const std::string& nodes,
                 const std::string& outputs) {
  return "\"" + name + R"(": {"inputs": [)" + inputs + R"(], "nodes": [)" + nodes +
         R"(], "outputs": [)" + outputs + "]}";
}

std::string control(const std::string& op, const std::string& inputs, const std::string& outputs,
                    const std::string& bodies, const std::string& attributes = "{}") {
  return R"({"name": "ctl", "op": ")" + op + R"(", "inputs": [)" + inputs + R"(], "outputs": [)" +
         outputs + R"(], "attributes": )" + attributes + R"(, "bodies": {)" + bodies + "}}";
}

// y = pred ? log(x) : -x
const std::string kBranches =
    graph(input("p", "[1]", "bool") + ", " + input("x", "[3]"),
          control("if", R"("p")", R"("y")",
                  body("then", "", node("sqrt", R"("x")", "a"), R"("a")") + ", " +
                      body("else", "", node("neg", R"("x")", "b"), R"("b")")));

// Carries (i, v); body doubles v and adds 1 to i while i < n.
std::string counting(const std::string& bound) {
  return graph(
      input("n", "[]") + ", " + input("v", "[2]"),
      R"({"op": "mul", "inputs": ["n", "zero"], "outputs": ["i"]}, )" +
          control("while", R"("i", "v")", R"("k", "w")",
                  body("cond", R"("i1", "v1")", node("lt", R"("i1", "n")", "c"), R"("c")") + ", " +
                      body("body", R"("i2", "v2")",
                           node("add", R"("i2", "one")", "i3") + ", " +
                               node("add", R"("v2", "v2")", "v3"),
                           R"("i3", "v3")"),
                  R"({"max_iterations": )" + bound + "}"),
      R"("k", "w")");
}
std::string with_constants(std::string text) {
  text.insert(1, R"("constants": [
    {"name": "zero", "dtype": "f32", "shape": [], "data": {"splat": 0}},
    {"name": "one", "dtype": "f32", "shape": [], "data": {"splat": 1}}], )");
  return text;
}

// Loop over rows: carry s = s + i * x, row = s; goes on while the first of s is below 100.
std::string summing(const std::string& trips, const std::string& attributes) {
  return graph(
      input("m", "[]", "i64") + ", " + input("x", "[2]"),
      control("loop", trips + R"(, null, "x")", R"("s", "rows", "count")",
              body("body", R"("i", "go", "s0")",
                   node("cast", R"("i")", "f", R"({"to": "f32"})") + ", " +
                       node("fma", R"("f", "x", "s0")", "s1") + ", " +
                       node("narrow", R"("s1")", "first", R"({"axis": 0, "start": 0, "len": 1})") +
                       ", " + node("lt", R"("first", "hundred")", "on"),
                   R"("on", "s1", "s1")"),
              attributes),
      R"("s", "rows", "count")");
}
std::string with_hundred(std::string text) {
  text.insert(
      1, R"("constants": [{"name": "hundred", "dtype": "f32", "shape": [], "data": {"splat": 100}},
    {"name": "four", "dtype": "i64", "shape": [], "data": {"values": [4]}}], )");
  return text;
}

// s = s + i * x, row = s, as many trips as m says.
std::string summing_counted(int64_t bound, const std::string& condition) {
  return graph(input("m", "[]", "i64") + ", " + input("x", "[2]"),
               control("loop", R"("m", null, "x")", R"("s", "rows", "count")",
                       body("body", R"("i", "go", "s0")",
                            node("identity", R"("go")", "on") + ", " +
                                node("cast", R"("i")", "f", R"({"to": "f32"})") + ", " +
                                node("fma", R"("f", "x", "s0")", "s1"),
                            "\"" + condition + R"(", "s1", "s1")"),
                       R"({"max_iterations": )" + std::to_string(bound) + "}"),
               R"("s", "rows", "count")");
}

using NamedInputs = std::vector<std::pair<std::string, Tensor>>;

// A session whose runs are told of indices that lie outside, and of what does not hold.
std::unique_ptr<Session> checked_session(Device& device,
                                         const std::shared_ptr<const PlanView>& plan) {
  std::shared_ptr<DevicePlan> loaded;
  REQUIRE(device.load(*plan, {}, loaded).ok());
  std::unique_ptr<Session> session;
  SessionOptions options;
  options.check_indices = true;
  REQUIRE(Session::create(plan, loaded, false, options, session).ok());
  return session;
}

Status run_with(Session& session, const NamedInputs& inputs) {
  for (const auto& [name, value] : inputs) {
    const std::vector<std::byte> bytes = value.to_bytes();
    const std::vector<uint64_t> dims(value.type.shape.begin(), value.type.shape.end());
    REQUIRE(
        session
            .set_input(
                0, name,
                {.bytes = bytes, .dtype = static_cast<uint32_t>(value.type.dtype), .dims = dims})
            .ok());
  }
  return session.run(0);
}

Status run_checked(Device& device, const std::shared_ptr<const PlanView>& plan,
                   const NamedInputs& inputs) {
  return run_with(*checked_session(device, plan), inputs);
}

// Whether a run ended with what it asserts.
bool told(const Status& status, const std::string& text) {
  UNSCOPED_INFO(status.message());
  return status.code() == RLX_ASSERTION_FAILED && status.message().find(text) != std::string::npos;
}

Diagnostics refused(const std::string& text) {
  Diagnostics diagnostics;
  const auto source = read_json_graph(text, "test.json", diagnostics);
  if (!source) return diagnostics;
  CHECK_FALSE(bind_module(*source, {}, ".", diagnostics).has_value());
  return diagnostics;
}

}  // namespace

TEST_CASE("an if gives what its branch gives, and nothing of the other shows") {
  const Tensor x = reals({3}, {4, 9, -1});
  const auto taken = run_everywhere(kBranches, {whole(DType::bool_, {1}, {1}), x});
  CHECK(taken[0].floats[0] == 2);
  CHECK(std::isnan(taken[0].floats[2]));
  const auto other = run_everywhere(kBranches, {whole(DType::bool_, {1}, {0}), x});
  CHECK(other[0].floats == std::vector<double>{-4, -9, 1});
}

TEST_CASE("an if whose predicate is known costs its branch alone") {
  std::string text = kBranches;
  text.insert(
      1,
      R"("constants": [{"name": "yes", "dtype": "bool", "shape": [], "data": {"values": [true]}}], )");
  text.replace(text.find(R"("inputs": ["p"])"), 15, R"("inputs": ["yes"])");
  const std::string plain =
      graph(input("p", "[1]", "bool") + ", " + input("x", "[3]"), node("sqrt", R"("x")", "y"));
  CHECK(steps_of(text) == steps_of(plain));
}

TEST_CASE("a while ends with its condition, and what it carries then stays") {
  const Tensor v = reals({2}, {1, -0.5});
  for (const double n : {0.0, 3.0, 8.0}) {
    INFO("n = " << n);
    const auto got = run_everywhere(with_constants(counting("8")), {reals({}, {n}), v});
    CHECK(got[0].floats[0] == n);
    CHECK(got[1].floats[0] == std::exp2(n));
    CHECK(got[1].floats[1] == -0.5 * std::exp2(n));
  }
}

// While i < n: i' = i + step, which nothing else waits for; what is v goes through steps that no
// fusion joins.
std::string early_condition(int64_t bound = 9) {
  return graph(
      input("n", "[]") + ", " + input("step", "[]") + ", " + input("v", "[8]"),
      R"({"op": "mul", "inputs": ["n", "zero"], "outputs": ["i"]}, )" +
          control("while", R"("i", "v")", R"("k", "w")",
                  body("cond", R"("i1", "v1")", node("lt", R"("i1", "n")", "c"), R"("c")") + ", " +
                      body("body", R"("i2", "v2")",
                           node("add", R"("i2", "step")", "i3") + ", " +
                               node("cumsum", R"("v2")", "a", R"({"axis": 0})") + ", " +
                               node("reverse", R"("a")", "b", R"({"axes": [0]})") + ", " +
                               node("cumsum", R"("b")", "d", R"({"axis": 0})") + ", " +
                               node("clamp", R"("d")", "e", R"({"min": -64, "max": 64})"),
                           R"("i3", "e")"),
                  R"({"max_iterations": )" + std::to_string(bound) + "}"),
      R"("k", "w")");
}

TEST_CASE("a trip is whole, however early its condition is known") {
  const Tensor v = reals({8}, {1, 0, -2, 3, 0.5, 4, -1, 2});
  for (const double n : {-3.0, 0.0, 1.0, 2.5, 9.0}) {
    INFO("n = " << n);
    const auto got =
        run_everywhere(with_constants(early_condition()), {reals({}, {n}), reals({}, {1}), v});
    CHECK(got[0].floats[0] == std::max(std::ceil(n), 0.0));
  }
}

TEST_CASE("trips that are computed ahead of a condition show in nothing") {
  const Tensor v = reals({8}, {1, 0, -2, 3, 0.5, 4, -1, 2});
  const std::string text = with_constants(early_condition(68));
  for (const double n : {-3.0, 0.0, 1.0, 2.5, 4.0, 5.0, 67.0, 68.0}) {
    INFO("n = " << n);
    const auto got = run_everywhere(text, {reals({}, {n}), reals({}, {1}), v});
    CHECK(got[0].floats[0] == std::max(std::ceil(n), 0.0));
  }
  Diagnostics diagnostics;
  CompileOptions options = test_options(2);
  options.control = ControlFlow::Regions;
  const auto plan = compile_plan(module_from(text), options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  CHECK(plan->entry(0).regions()->Get(0)->most_trips() == 17);
  for (const auto& device : present_devices().devices) {
    const auto run = [&](double n) {
      return run_checked(*device, plan,
                         {{"n", reals({}, {n})}, {"step", reals({}, {1})}, {"v", v}});
    };
    CHECK(run(68).ok());
    CHECK(told(run(69), "while \"ctl\" reached its bound of 68 trips and would go on"));
  }
}

TEST_CASE("a condition that compares with NaN does not hold") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor v = reals({8}, {1, 0, -2, 3, 0.5, 4, -1, 2});
  const std::string text = with_constants(early_condition());
  const auto none = run_everywhere(text, {reals({}, {nan}), reals({}, {1}), v});
  CHECK(none[1].floats == v.floats);
  const auto one = run_everywhere(text, {reals({}, {4}), reals({}, {nan}), v});
  CHECK(std::isnan(one[0].floats[0]));
  CHECK(one[1].floats != v.floats);
}

TEST_CASE("loops and branches inside a loop run inside each trip of it") {
  // Outer loop of m trips; each trip: three inner trips of d -> d + x where the sum of c is below
  // the limit, else -d.
  const std::string branch =
      control("if", R"("small")", R"("e")",
              body("then", "", node("add", R"("d", "x")", "f"), R"("f")") + ", " +
                  body("else", "", node("neg", R"("d")", "g"), R"("g")"));
  const std::string inner =
      control("scan", R"("c")", R"("q")",
              body("body", R"("d")",
                   node("reduce_sum", R"("d")", "sum", R"({"axes": [0]})") + ", " +
                       node("lt", R"("sum", "limit")", "small") + ", " + branch,
                   R"("e")"),
              R"({"length": 3})");
  const std::string text =
      graph(input("m", "[]", "i32") + ", " + input("x", "[4]") + ", " + input("limit", "[]"),
            control("loop", R"("m", null, "x")", R"("y", "rows", "count")",
                    body("body", R"("i", "go", "c")", inner, R"("go", "q", "q")"),
                    R"({"max_iterations": 5})"),
            R"("y", "rows", "count")");
  for (const int64_t trips : {-7, 0, 1, 5}) {
    INFO("trips " << trips);
    const auto got = run_everywhere(
        text, {whole(DType::i32, {}, {trips}), reals({4}, {1, 2, -0.5, 3}), reals({}, {20})});
    CHECK(got[2].integers[0] == std::max<int64_t>(trips, 0));
  }
}

TEST_CASE("a trip begins with a view of what the one before made") {
  // (a, b, c) -> (reverse(cumsum(a + x)), transpose(cumsum(b)), a part of it, which moves on)
  const std::string text =
      graph(input("m", "[]", "i64") + ", " + input("x", "[4]") + ", " + input("b", "[2, 2]"),
            control("loop", R"("m", null, "x", "b", "x")", R"("y", "z", "w", "rows")",
                    body("body", R"("i", "go", "a0", "b0", "c0")",
                         node("add", R"("a0", "x")", "s") + ", " +
                             node("cumsum", R"("s")", "t", R"({"axis": 0})") + ", " +
                             node("reverse", R"("t")", "a1", R"({"axes": [0]})") + ", " +
                             node("cumsum", R"("b0")", "u", R"({"axis": 1})") + ", " +
                             node("transpose", R"("u")", "b1", R"({"perm": [1, 0]})") + ", " +
                             node("reverse", R"("a0")", "c1", R"({"axes": [0]})"),
                         R"("go", "a1", "b1", "c1", "c0")"),
                    R"({"max_iterations": 4})"),
            R"("y", "z", "w", "rows")");
  for (const int64_t trips : {0, 1, 2, 4}) {
    INFO("trips " << trips);
    const auto got = run_everywhere(text, {whole(DType::i64, {}, {trips}),
                                           reals({4}, {1, 2, -3, 5}), reals({2, 2}, {1, 2, 0, 5})});
    if (trips == 1) CHECK(got[0].floats == std::vector<double>{10, 0, 6, 2});
    if (trips == 1) CHECK(got[1].floats == std::vector<double>{1, 0, 3, 5});
  }
}

TEST_CASE("a while that its bound ends is an error of the evaluator that names it") {
  const Module module = module_from(with_constants(counting("8")));
  Diagnostics diagnostics;
  StateValues states;
  CHECK_FALSE(evaluate_entry(module, module.entries[0], {reals({}, {9}), reals({2}, {1, 1})},
                             states, {}, diagnostics)
                  .has_value());
  CHECK(diagnostics.text().find("while \"ctl\": it reached its bound of 8 trips") !=
        std::string::npos);
}

TEST_CASE("a device tells of a loop that its bound ends, where indices are checked") {
  Diagnostics diagnostics;
  CompileOptions options = test_options(2);
  SECTION("unrolled") {}
  SECTION("as a region") {
    options.control = ControlFlow::Regions;
  }
  const auto loop =
      compile_plan(module_from(with_hundred(summing(R"("m")", R"({"max_iterations": 5})"))),
                   options, diagnostics);
  const auto counted =
      compile_plan(module_from(with_constants(counting("8"))), options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(loop != nullptr);
  REQUIRE(counted != nullptr);
  for (const auto& device : present_devices().devices) {
    const auto run_while = [&](double n) {
      return run_checked(*device, counted, {{"n", reals({}, {n})}, {"v", reals({2}, {1, 1})}});
    };
    const auto run_loop = [&](int64_t m) {
      return run_checked(*device, loop,
                         {{"m", whole(DType::i64, {}, {m})}, {"x", reals({2}, {1, 1})}});
    };
    CHECK(run_while(8).ok());
    CHECK(run_loop(5).ok());
    CHECK(told(run_while(9), "while \"ctl\" reached its bound of 8 trips and would go on"));
    CHECK(told(run_loop(6), "loop \"ctl\" reached its bound of 5 trips and would go on"));
  }
}

TEST_CASE("a loop inside another one that reaches its bound in any trip is told of once") {
  // In each step t the inner loop goes on while k < t.
  const std::string inner =
      R"({"name": "inner", "op": "while", "inputs": ["zero", "c"], "outputs": ["k", "d"],
          "attributes": {"max_iterations": 3}, "bodies": {)" +
      body("cond", R"("a", "b")", node("lt", R"("a", "t")", "q"), R"("q")") + ", " +
      body("body", R"("e", "f")",
           node("add", R"("e", "one")", "e2") + ", " + node("add", R"("f", "one")", "f2"),
           R"("e2", "f2")") +
      "}}";
  const std::string text = with_constants(
      graph(input("h", "[4]") + ", " + input("x", "[5]"),
            control("scan", R"("h", "x")", R"("l", "y")",
                    body("body", R"("c", "t")", inner, R"("d", "k")"), R"({"num_carry": 1})"),
            R"("l", "y")"));
  for (const ControlFlow control : {ControlFlow::Unrolled, ControlFlow::Regions}) {
    CompileOptions options = test_options(2);
    options.control = control;
    Diagnostics diagnostics;
    const auto plan = compile_plan(module_from(text), options, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(plan != nullptr);
    REQUIRE(plan->entry(0).assertions() != nullptr);
    CHECK(plan->entry(0).assertions()->size() == 1);
    for (const auto& device : present_devices().devices) {
      const auto run = [&](double t) {
        return run_checked(*device, plan,
                           {{"h", reals({4}, {0, 0, 0, 0})}, {"x", reals({5}, {1, 0, 2, t, 1})}});
      };
      CHECK(run(3).ok());
      CHECK(told(run(4), R"(while "inner" in "ctl" reached its bound of 3 trips)"));
    }
  }
}

TEST_CASE("a loop takes as many trips as its count and its condition say") {
  const std::string text = with_hundred(summing(R"("m")", R"({"max_iterations": 5})"));
  const Tensor x = reals({2}, {3, 1});
  for (const int64_t trips : {-2, 0, 1, 4, 5}) {
    INFO("trips " << trips);
    const auto got = run_everywhere(text, {whole(DType::i64, {}, {trips}), x});
    double s = 3;
    const int64_t taken = std::max<int64_t>(trips, 0);
    for (int64_t t = 0; t < 5; ++t) {
      if (t < taken) s += static_cast<double>(t) * 3;
      CHECK(got[1].floats[static_cast<size_t>(2 * t)] == (t < taken ? s : 0));
    }
    CHECK(got[0].floats[0] == s);
    CHECK(got[2].integers[0] == taken);
  }
  // 60 + 0 + 60 = 120 ends it after two trips.
  const auto ended = run_everywhere(text, {whole(DType::i64, {}, {5}), reals({2}, {60, 1})});
  CHECK(ended[2].integers[0] == 2);
  CHECK(ended[0].floats == std::vector<double>{120, 2});
}

TEST_CASE("trips that a count alone ends are taken in groups, and the rest one by one") {
  for (const int64_t trips : {-1, 0, 1, 15, 16, 17, 47, 69, 70}) {
    INFO("trips " << trips);
    const auto got = run_everywhere(summing_counted(70, "on"),
                                    {whole(DType::i64, {}, {trips}), reals({2}, {3, 1})});
    const int64_t taken = std::max<int64_t>(trips, 0);
    const int64_t sum = taken * (taken - 1) / 2;
    CHECK(got[0].floats == std::vector<double>{3.0 + 3.0 * static_cast<double>(sum),
                                               1.0 + static_cast<double>(sum)});
    CHECK(got[2].integers[0] == taken);
  }
  Diagnostics diagnostics;
  CompileOptions options = test_options(2);
  options.control = ControlFlow::Regions;
  const auto plan = compile_plan(module_from(summing_counted(70, "go")), options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  REQUIRE(plan->entry(0).regions() != nullptr);
  REQUIRE(plan->entry(0).regions()->size() == 2);
  CHECK(plan->entry(0).regions()->Get(0)->most_trips() == 4);
  CHECK(plan->entry(0).regions()->Get(1)->most_trips() == 15);
  for (const auto& device : present_devices().devices) {
    const auto run_loop = [&](int64_t m) {
      return run_checked(*device, plan,
                         {{"m", whole(DType::i64, {}, {m})}, {"x", reals({2}, {1, 1})}});
    };
    CHECK(run_loop(70).ok());
    CHECK(told(run_loop(71), "loop \"ctl\" reached its bound of 70 trips and would go on"));
  }
}

TEST_CASE("a loop whose count is known has rows of that many trips") {
  const auto got = run_everywhere(with_hundred(summing(R"("four")", "{}")),
                                  {whole(DType::i64, {}, {0}), reals({2}, {3, 1})});
  CHECK(got[1].type.shape == Shape{4, 2});
  CHECK(got[0].floats == std::vector<double>{3 + 3 * 6, 1 + 6});
  CHECK(got[2].integers[0] == 4);
}

TEST_CASE("a scan carries, cuts and stacks along the axes that it is given") {
  // c' = 2 c + x_t + b; y_t = c'.
  const std::string body_text =
      body("body", R"("c", "b0", "xt")",
           node("add", R"("c", "c")", "d") + ", " + node("add", R"("d", "b0")", "e") + ", " +
               node("add", R"("e", "xt")", "f"),
           R"("f", "f")");
  for (const bool reverse : {false, true}) {
    INFO("reverse " << reverse);
    const std::string text = graph(
        input("c0", "[2]") + ", " + input("b", "[]") + ", " + input("x", "[2, 3]"),
        control(
            "scan", R"("c0", "b", "x")", R"("last", "y", "all")", body_text,
            std::string(
                R"({"num_bcast": 1, "x_axes": [1], "y_axes": [-1], "save_trajectory": true, "reverse": )") +
                (reverse ? "true" : "false") + "}"),
        R"("last", "y", "all")");
    const auto got = run_everywhere(
        text, {reals({2}, {1, 0}), reals({}, {10}), reals({2, 3}, {1, 2, 3, 4, 5, 6})});
    std::vector<double> c = {1, 0};
    for (int t = 0; t < 3; ++t) {
      const int step = reverse ? 2 - t : t;
      for (size_t row = 0; row < 2; ++row) {
        c[row] = 2 * c[row] + 10 + static_cast<double>(3 * row + static_cast<size_t>(step) + 1);
        CHECK(got[1].floats[3 * row + static_cast<size_t>(step)] == c[row]);
        CHECK(got[2].floats[2 * static_cast<size_t>(t) + row] == c[row]);
      }
    }
    CHECK(got[0].floats == c);
  }
}

TEST_CASE("a scan of no steps gives what it began with") {
  const std::string text =
      graph(input("c0", "[2]") + ", " + input("x", "[0, 2]"),
            control("scan", R"("c0", "x")", R"("last", "y")",
                    body("body", R"("c", "xt")", node("add", R"("c", "xt")", "d"), R"("d", "d")")),
            R"("last", "y")");
  const auto got = run_everywhere(text, {reals({2}, {1, 2}), reals({0, 2}, {})});
  CHECK(got[0].floats == std::vector<double>{1, 2});
  CHECK(got[1].type.shape == Shape{0, 2});
}

TEST_CASE("control flow inside control flow sees every graph around it") {
  // A call of a scan whose body has an if over a captured input.
  const std::string inner =
      control("if", R"("flag")", R"("u")",
              body("then", "", node("add", R"("c", "xt")", "t"), R"("t")") + ", " +
                  body("else", "", node("sub", R"("c", "xt")", "t"), R"("t")"));
  const std::string scan =
      control("scan", R"("a", "x")", R"("last")",
              body("body", R"("c", "xt")", node("gt", R"("xt", "limit")", "flag") + ", " + inner,
                   R"("u")"));
  const std::string text =
      graph(input("a0", "[]") + ", " + input("x", "[4]") + ", " + input("limit", "[]"),
            control("call", R"("a0")", R"("y")", body("body", R"("a")", scan, R"("last")")));
  const auto got =
      run_everywhere(text, {reals({}, {100}), reals({4}, {1, 5, 2, 7}), reals({}, {3})});
  CHECK(got[0].floats[0] == 100 - 1 + 5 - 2 + 7);
}

TEST_CASE("a state that branches write has the value of the one that is taken") {
  const std::string text =
      R"({"rlx_graph": 1,
    "states": [{"name": "s", "dtype": "f32", "shape": [2], "init": "zeros"},
               {"name": "r", "dtype": "f32", "shape": [2], "init": "ones"}],
    "inputs": [{"name": "p", "dtype": "i32", "shape": []}, {"name": "x", "dtype": "f32", "shape": [2]}],
    "nodes": [)" +
      control(
          "if", R"("p")", R"("y")",
          body("then", "",
               node("add", R"("s", "x")", "n") + ", " + node("state_write", R"("s", "n")", "k"),
               R"("k")") +
              ", " +
              body("else", "",
                   node("sub", R"("s", "x")", "m") + ", " + node("state_write", R"("r", "x")", "q"),
                   R"("m")")) +
      R"(], "outputs": ["y"]})";
  const Module module = module_from(text);
  const Tensor x = reals({2}, {1, 2});
  Diagnostics diagnostics;
  StateValues states;
  const std::vector<int64_t> taken = {1, 1, 0, 1};
  std::vector<std::vector<Tensor>> wanted;
  for (const int64_t p : taken) {
    auto run = evaluate_entry(module, module.entries[0], {whole(DType::i32, {}, {p}), x}, states,
                              {}, diagnostics);
    REQUIRE(run.has_value());
    wanted.push_back(std::move(*run));
  }
  CHECK(wanted[2][0].floats == std::vector<double>{1, 2});
  CHECK(states["s"].floats == std::vector<double>{3, 6});
  CHECK(states["r"].floats == std::vector<double>{1, 2});
  CompileOptions options = test_options(2);
  SECTION("computed both ways") {}
  SECTION("where regions can be") {
    options.control = ControlFlow::Regions;
  }
  const auto plan = compile_plan(module, options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  for (const auto& device : present_devices().devices) {
    TestSession session(*device, plan);
    for (size_t i = 0; i < taken.size(); ++i) {
      const auto got = session.run(0, {whole(DType::i32, {}, {taken[i]}), x}, std::byte{0xA5});
      CHECK(got[0].floats == wanted[i][0].floats);
    }
  }
}

TEST_CASE("a loop reads what a state held before the run, wherever the graph writes it") {
  const std::string loop = control(
      "loop", R"("m", null, "x")", R"("y")",
      body("body", R"("i", "go", "c")",
           node("add", R"("c", "s")", "d") + ", " + node("cumsum", R"("d")", "e", R"({"axis": 0})"),
           R"("go", "e")"),
      R"({"max_iterations": 6})");
  const std::string write =
      node("add", R"("s", "x")", "n") + ", " + node("state_write", R"("s", "n")", "k");
  for (const bool writes_first : {false, true}) {
    INFO("writes first: " << writes_first);
    const std::string text = R"({"rlx_graph": 1,
    "states": [{"name": "s", "dtype": "f32", "shape": [2], "init": "ones"}],
    "inputs": [{"name": "m", "dtype": "i64", "shape": []}, {"name": "x", "dtype": "f32", "shape": [2]}],
    "nodes": [)" + (writes_first ? write + ", " + loop : loop + ", " + write) +
                             R"(], "outputs": ["y", "k"]})";
    const Module module = module_from(text);
    CompileOptions options = test_options(2);
    options.control = ControlFlow::Regions;
    Diagnostics diagnostics;
    const auto plan = compile_plan(module, options, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(plan != nullptr);
    REQUIRE(plan->entry(0).regions() != nullptr);
    for (const auto& device : present_devices().devices) {
      TestSession session(*device, plan);
      StateValues states;
      for (const int64_t trips : {3, 0, 6, 2}) {
        const std::vector<Tensor> inputs = {whole(DType::i64, {}, {trips}), reals({2}, {1, 2})};
        const auto wanted =
            evaluate_entry(module, module.entries[0], inputs, states, {}, diagnostics);
        REQUIRE(wanted.has_value());
        const auto got = session.run(0, inputs, std::byte{0xA5});
        CHECK(got[0].floats == wanted->at(0).floats);
        CHECK(got[1].floats == wanted->at(1).floats);
      }
    }
  }
}

TEST_CASE("nobody is told of indices of a branch that is not taken") {
  CompileOptions options = test_options(2);
  SECTION("computed both ways") {}
  SECTION("as a region") {
    options.control = ControlFlow::Regions;
  }
  const std::string text =
      graph(input("p", "[]", "bool") + ", " + input("x", "[4]") + ", " + input("i", "[2]", "i32"),
            control("if", R"("p")", R"("y")",
                    body("then", "", node("gather", R"("x", "i")", "g"), R"("g")") + ", " +
                        body("else", "",
                             node("narrow", R"("x")", "h", R"({"axis": 0, "start": 1, "len": 2})"),
                             R"("h")")));
  Diagnostics diagnostics;
  const auto plan = compile_plan(module_from(text), options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  const auto run = [&](Device& device, int64_t p) {
    return run_checked(device, plan,
                       {{"p", whole(DType::bool_, {}, {p})},
                        {"x", reals({4}, {1, 2, 3, 4})},
                        {"i", whole(DType::i32, {2}, {1, 77})}});
  };
  for (const auto& device : present_devices().devices) {
    CHECK_FALSE(run(*device, 1).ok());
    CHECK(run(*device, 0).ok());
  }
}

// y = p ? what three elements cannot be : n, and the state counts runs.
std::string impossible_branch(const std::string& then_nodes,
                              const std::string& else_nodes = node("add", R"("x", "s")", "b")) {
  return R"({"rlx_graph": 1,
    "states": [{"name": "s", "dtype": "f32", "shape": [3], "init": "zeros"}],
    "inputs": [{"name": "p", "dtype": "bool", "shape": []}, {"name": "x", "dtype": "f32", "shape": [3]}],
    "nodes": [)" +
         control("if", R"("p")", R"("y")",
                 body("then", "", then_nodes, R"("a")") + ", " +
                     body("else", "", else_nodes, R"("b")")) +
         ", " + node("state_write", R"("s", "y")", "new") + R"(], "outputs": ["y", "new"]})";
}
const std::string kImpossible =
    node("reshape", R"("x")", "r", R"({"shape": [2, 2]})") + ", " + node("neg", R"("r")", "a");

TEST_CASE("a branch that cannot be at these sizes is left out, and a run that takes it says so") {
  const std::string text = impossible_branch(kImpossible);
  Diagnostics diagnostics;
  const auto source = read_json_graph(text, "test.json", diagnostics);
  REQUIRE(source.has_value());
  const auto module = bind_module(*source, {}, ".", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  CHECK(
      diagnostics.text().find(
          R"(warning: if "ctl": branch "then" cannot be at these sizes and is left out: reshape)") !=
      std::string::npos);
  const std::string why =
      R"(if "ctl" takes branch "then", which cannot be at these sizes: reshape)";
  const Tensor x = reals({3}, {1, 2, -3});
  const NamedInputs taken = {{"p", whole(DType::bool_, {}, {1})}, {"x", x}};
  const NamedInputs other = {{"p", whole(DType::bool_, {}, {0})}, {"x", x}};
  StateValues states;
  Diagnostics evaluated;
  REQUIRE(evaluate_entry(*module, module->entries[0], {other[0].second, x}, states, {}, evaluated)
              .has_value());
  CHECK_FALSE(
      evaluate_entry(*module, module->entries[0], {taken[0].second, x}, states, {}, evaluated)
          .has_value());
  CHECK(evaluated.text().find(why) != std::string::npos);
  for (const ControlFlow control : {ControlFlow::Unrolled, ControlFlow::Regions}) {
    CompileOptions options = test_options(2);
    options.control = control;
    const auto plan = compile_plan(*module, options, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(plan != nullptr);
    for (const auto& device : present_devices().devices) {
      const auto session = checked_session(*device, plan);
      CHECK(run_with(*session, other).ok());
      for (int run = 0; run < 2; ++run) CHECK(told(run_with(*session, taken), why));
      // The state is as it was.
      CHECK(run_with(*session, other).ok());
      std::array<float, 3> y{};
      REQUIRE(session->read_output(0, "y", std::as_writable_bytes(std::span(y))).ok());
      CHECK(y == std::array<float, 3>{2, 4, -6});
    }
  }
}

TEST_CASE("in a loop a branch that cannot be is told of where a trip takes it") {
  // s = s + x, or in trips from m on what cannot be.
  const std::string text = graph(
      input("m", "[]", "i64") + ", " + input("x", "[3]"),
      control(
          "loop", R"("four", null, "x")", R"("y")",
          body(
              "body", R"("i", "go", "c")",
              node("ge", R"("i", "m")", "p") +
                  R"(, {"name": "inner", "op": "if", "inputs": ["p"], "outputs": ["d"], "bodies": {)" +
                  body("then", "", kImpossible, R"("a")") + ", " +
                  body("else", "", node("add", R"("c", "x")", "b"), R"("b")") + "}}",
              R"("go", "d")")),
      R"("y")");
  Diagnostics diagnostics;
  const auto plan = compile_plan(module_from(with_hundred(text)), test_options(2), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  for (const auto& device : present_devices().devices) {
    const auto run = [&](int64_t m) {
      return run_checked(*device, plan,
                         {{"m", whole(DType::i64, {}, {m})}, {"x", reals({3}, {1, 2, 3})}});
    };
    CHECK(run(4).ok());
    CHECK(told(run(3), R"(if "inner" takes branch "then", which cannot be at these sizes)"));
  }
}

TEST_CASE("of a branch that is left out shapes alone are excused, and of one branch alone") {
  const auto refusal = [](const std::string& nodes) {
    return refused(impossible_branch(nodes)).text();
  };
  CHECK(refusal(node("nagate", R"("x")", "a")).find("[unknown-op]") != std::string::npos);
  CHECK(refusal(kImpossible + ", " + node("neg", R"("x")", "z", R"({"axis": 1})"))
            .find("[unknown-attribute]") != std::string::npos);
  const std::string seven = node("reshape", R"("x")", "b", R"({"shape": [7]})");
  CHECK(refused(impossible_branch(kImpossible, seven)).error_count() == 2);
}

TEST_CASE("what control flow cannot be is refused by name") {
  const std::string then_body = body("then", "", node("neg", R"("x")", "a"), R"("a")");
  const std::string x = input("p", "[]", "bool") + ", " + input("x", "[3]");
  const auto refusal = [&](const std::string& nodes) { return refused(graph(x, nodes)).text(); };
  const auto holds = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  holds(refusal(
            control("if", R"("p")", R"("y")",
                    then_body + ", " +
                        body("else", "",
                             node("narrow", R"("x")", "b", R"({"axis": 0, "start": 0, "len": 2})"),
                             R"("b")"))),
        R"(output 0 is f32[3] in "then", f32[2] in "else")");
  holds(refusal(control("if", R"("p")", R"("y")", then_body)), R"(body "else" is missing)");
  holds(refusal(control("neg", R"("x")", R"("y")", then_body)), R"(the op has no body "then")");
  holds(
      refusal(control("if", R"("x")", R"("y")", then_body + ", " + body("else", "", "", R"("x")"))),
      "the predicate is f32[3], wanted one element");
  holds(refusal(control(
            "while", R"("x")", R"("y")",
            body("cond", R"("c")", "", R"("p")") + ", " + body("body", R"("d")", "", R"("d")"))),
        "max_iterations");
  holds(refusal(control(
            "while", R"("x")", R"("y")",
            body("cond", R"("c")", "", R"("p")") + ", " + body("body", R"("d")", "", R"("p")"),
            R"({"max_iterations": 3})")),
        "carry 0 is bool[] after the body, f32[3] before it");
  holds(refusal(control("loop", R"("p", null, "x")", R"("y")",
                        body("body", R"("i", "g", "d")", "", R"("g", "d")"))),
        "trip_count is bool[], wanted one i64 or i32");
  holds(refusal(control("scan", R"("x")", R"("y")", body("body", R"("d")", "", R"("d")"))),
        "its length is not known");
  holds(refusal(control("call", R"("x")", R"("y")", body("body", R"("x")", "", R"("x")"))),
        R"(value "x" is defined twice)");
  holds(refusal(control("call", R"("x")", R"("y")", body("body", R"("d")", "", R"("nothing")"))),
        R"(output "nothing" of body "body" of node "ctl" is defined by nothing)");
}

TEST_CASE("a loop that goes on for certain when its bound is reached is refused") {
  const std::string text = graph(
      input("x", "[2]"),
      control("loop", R"(null, null, "x")", R"("y")",
              body("body", R"("i", "go", "d")", node("add", R"("d", "d")", "e"), R"("go", "e")"),
              R"({"max_iterations": 7})"));
  Diagnostics diagnostics;
  CHECK_FALSE(compile_to_bytes(module_from(text), test_options(2), diagnostics).has_value());
  CHECK(diagnostics.text().find("it reaches its bound of 7 trips") != std::string::npos);
}

TEST_CASE("trips of a loop draw different random numbers, those of the evaluator") {
  const std::string text = graph(
      input("x", "[3]"),
      control("scan", R"("x")", R"("last", "y")",
              body("body", R"("c")", node("rng_uniform", "", "u", R"({"shape": [3], "seed": 5})"),
                   R"("c", "u")"),
              R"({"length": 3})"),
      R"("last", "y")");
  const auto got = run_everywhere(text, {reals({3}, {0, 0, 0})});
  CHECK(got[1].floats[0] != got[1].floats[3]);
  CHECK(got[1].floats[3] != got[1].floats[6]);
}

// Four nodes, as often as the length says.
std::string thousand_trips(const std::string& length) {
  return graph(input("x", "[64]"),
               control("scan", R"("x")", R"("last")",
                       body("body", R"("c")",
                            node("add", R"("c", "x")", "d") + ", " +
                                node("cumsum", R"("d")", "e", R"({"axis": 0})") + ", " +
                                node("reverse", R"("e")", "f", R"({"axes": [0]})") + ", " +
                                node("clamp", R"("f")", "g", R"({"min": -1, "max": 1})"),
                            R"("g")"),
                       R"({"length": )" + length + "}"),
               R"("last")");
}

TEST_CASE("a loop of a thousand trips is one plan", "[.large]") {
  CHECK(steps_of(thousand_trips("1000")) >= 1000);
}

TEST_CASE("a loop of a thousand trips is a region of a few steps") {
  const Module module = module_from(thousand_trips("1000"));
  CompileOptions options = test_options(2);
  options.control = ControlFlow::Auto;
  Diagnostics diagnostics;
  const auto plan = compile_plan(module, options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  const fb::Entry& entry = plan->entry(0);
  CHECK(PlanView::steps(entry).size() < 12);
  REQUIRE(entry.regions() != nullptr);
  CHECK(entry.regions()->Get(0)->most_trips() == 1000);
  CHECK_FALSE(entry.regions()->Get(0)->word().has_value());
}

TEST_CASE("an entry with free sizes has no regions, not even of loops without such") {
  std::string text = graph(
      input("x", R"(["n"])") + ", " + input("z", "[8]"),
      node("neg", R"("x")", "y") + ", " +
          control("scan", R"("z")", R"("last")",
                  body("body", R"("c")", node("cumsum", R"("c")", "e", R"({"axis": 0})"), R"("e")"),
                  R"({"length": 3})"),
      R"("y", "last")");
  text.insert(1, R"("symbols": [{"name": "n", "min": 1, "max": 100}], )");
  CompileOptions options = test_options(2);
  options.control = ControlFlow::Regions;
  Diagnostics diagnostics;
  const auto source = read_json_graph(text, "test.json", diagnostics);
  REQUIRE(source.has_value());
  for (const bool is_free : {false, true}) {
    const DimBindings dims = is_free ? DimBindings{} : DimBindings{{"n", 5}};
    const FreeDims free_dims = is_free ? FreeDims{{"n", {1, 100, 1}}} : FreeDims{};
    const auto module = bind_module(*source, dims, ".", diagnostics, free_dims);
    REQUIRE(module.has_value());
    const auto plan = compile_plan(*module, options, diagnostics);
    INFO(diagnostics.text());
    REQUIRE(plan != nullptr);
    CHECK((plan->entry(0).regions() == nullptr) == is_free);
  }
}

TEST_CASE("a branch that is not taken does not run, and a loop ends with its condition") {
  // Each step of a region writes to what it carries: with no trip the carried values stay.
  const std::string text = with_constants(counting("8"));
  CompileOptions options = test_options(2);
  options.control = ControlFlow::Regions;
  Diagnostics diagnostics;
  const auto plan = compile_plan(module_from(text), options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  const auto* regions = plan->entry(0).regions();
  REQUIRE(regions != nullptr);
  CHECK(regions->Get(0)->most_trips() == 8);
  CHECK(regions->Get(0)->word().has_value());
}

}  // namespace rlx::test
