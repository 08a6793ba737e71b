// SPDX-License-Identifier: Apache-2.0
// Expressions of symbols: what they are worth, which texts are none, and which are found from
// samples.
#include "compiler/support/dim_expression.h"
#include "tests/import/import_support.h"
#ifdef RLX_HAS_ONNX
#include "compiler/import/onnx/fit_dims.h"
#include "schema/rounding.h"
#endif

using namespace rlx;
using namespace rlx::test;

namespace {

std::optional<Dim> lookup(const std::string& name) {
  if (name == "batch") return 3;
  if (name == "seq") return 10;
  if (name == "past + 1") return 7;
  return std::nullopt;
}

int64_t value_of(const std::string& text) {
  const auto value = evaluate_dim(text, lookup);
  INFO(text);
  REQUIRE(std::holds_alternative<Dim>(value));
  return std::get<Dim>(value);
}

DimFault fault_of(const std::string& text) {
  const auto value = evaluate_dim(text, lookup);
  INFO(text);
  REQUIRE(std::holds_alternative<DimFault>(value));
  return std::get<DimFault>(value);
}

}  // namespace

TEST_CASE("an expression is worth what arithmetic says") {
  CHECK(value_of("batch") == 3);
  CHECK(value_of(" batch * seq + 2 ") == 32);
  CHECK(value_of("(seq - 1) / 4 * 8") == 16);
  CHECK(value_of("(0 - seq) / 4") == -3);
  CHECK(value_of("seq - batch - 1") == 6);
  CHECK(value_of("past + 1") == 7);  // the whole text is a symbol
  CHECK(value_of("'past + 1' * 2") == 14);
  CHECK(value_of("9223372036854775807") == INT64_MAX);
}

TEST_CASE("what is no expression says why") {
  CHECK(fault_of("batch * sq").symbol == "sq");
  CHECK(fault_of("seq / (batch - 3)").message == "divides by 0");
  CHECK(fault_of("seq / (0 - 1)").message == "divides by -1");
  CHECK(fault_of("9223372036854775807 + 1").message == "exceeds 64 bits");
  CHECK(fault_of("9223372036854775807 * seq").message == "exceeds 64 bits");
  CHECK(fault_of("9223372036854775808").message == "exceeds 64 bits");
  CHECK(fault_of(std::string(40, '(') + "1" + std::string(40, ')')).message ==
        "nests more than 32 parentheses");
  for (const char* text : {"", "seq +", "seq 2", "(seq", "seq)", "-seq", "'seq", "2.5", "seq % 2"})
    CHECK(fault_of(text).message.starts_with("is no expression of symbols at byte"));
}

TEST_CASE("a free size divides where it is never 0") {
  const FreeSymbol any{.name = "any", .minimum = 0, .maximum = 8};
  const FreeSymbol some{.index = 1, .name = "some", .minimum = 1, .maximum = 8};
  const auto free_value = [&](const std::string& text) {
    return evaluate_dim(text, [&](const std::string& name) -> std::optional<Dim> {
      if (name != "any" && name != "some") return std::nullopt;
      return Dim::of(name == "any" ? any : some);
    });
  };
  CHECK(std::get<Dim>(free_value("(any * some) / some")) == Dim::of(any));
  CHECK(std::get<Dim>(free_value("(some + 7) / some")).range().most == 15);
  CHECK(std::get<Dim>(free_value("some + ((some + 3) / 4 * 4 - some)")).divides_by(4));
  CHECK(std::get<Dim>(free_value("(any + some) - any")) == Dim::of(some));
  CHECK(std::get<DimFault>(free_value("any / any")).message == "divides by any, which may be 0");
  CHECK(std::get<DimFault>(free_value("(any - 1) / some")).message ==
        "divides any - 1, which may be -1");
}

TEST_CASE("graphs hold expressions where they hold dims") {
  const std::string text = R"({"rlx_graph": 1, "symbols": [{"name": "n", "max": 64}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["n * 2", 3]}],
    "nodes": [{"op": "reshape", "inputs": ["x"], "outputs": ["y"],
               "attributes": {"shape": {"dims": ["n * 6"]}}},
              {"op": "narrow", "inputs": ["y"], "outputs": ["z"],
               "attributes": {"axis": 0, "start": 0, "len": "(n + 1) / 2"}}],
    "outputs": ["z"]})";
  Diagnostics diagnostics;
  const auto module = bind_module(read_good(text), {{"n", 5}}, ".", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  const Graph& graph = module->entries.front();
  CHECK(graph.value(graph.inputs.front()).type.shape == Shape{10, 3});
  CHECK(graph.value(graph.outputs().front()).type.shape == Shape{3});
}

#ifdef RLX_HAS_ONNX
TEST_CASE("expressions are found from samples, and none where there is none") {
  using onnx_import::Binding;
  std::vector<Binding> bindings;
  for (int64_t a = 1; a <= 20; ++a) bindings.push_back({a, 7});
  for (int64_t b = 1; b <= 70; ++b) bindings.push_back({5, b});
  for (int64_t i = 1; i <= 20; ++i) bindings.push_back({i, 3 * i + 1});
  const std::vector<std::string> symbols = {"a", "b"};
  const auto fit = [&](auto function) {
    std::vector<int64_t> values;
    for (const Binding& binding : bindings) values.push_back(function(binding[0], binding[1]));
    return onnx_import::fit_dim(symbols, bindings, values).value_or("none");
  };
  CHECK(fit([](int64_t a, int64_t b) { return a * b * 12; }) == "a * b * 12");
  CHECK(fit([](int64_t, int64_t b) { return b * b - 3 * b + 1; }) == "b * b - b * 3 + 1");
  CHECK(fit([](int64_t a, int64_t) { return -a; }) == "0 - a");
  CHECK(fit([](int64_t, int64_t b) { return b * (b + 1) / 2; }) == "(b * b + b) / 2");
  CHECK(fit([](int64_t, int64_t b) { return ceil_div(b, 32); }) == "(b + 31) / 32");
  CHECK(fit([](int64_t a, int64_t b) { return (b - 1) / 2 * 49 * a; }) == "(b - 1) / 2 * 49 * a");
  CHECK(fit([](int64_t, int64_t b) { return std::min<int64_t>(b, 60); }) == "none");
  CHECK(fit([](int64_t a, int64_t) { return a % 3; }) == "a - (a / 3) * 3");
  CHECK(fit([](int64_t a, int64_t) { return (4 - a % 4) % 4; }) !=
        "none");  // several expressions are right
  CHECK(fit([](int64_t a, int64_t b) { return (a + 1) / 2 * ((b + 1) / 2); }) == "none");
  // As importers try them: one symbol moves from the first binding.
  bindings = {{5, 7}};
  for (int64_t a = 1; a <= 24; ++a) bindings.push_back({a, 7});
  for (int64_t b = 1; b <= 24; ++b) bindings.push_back({5, b});
  for (int64_t i = 1; i <= 30; ++i) bindings.push_back({i * 7 % 31, i * 11 % 37});
  CHECK(fit([](int64_t a, int64_t b) { return (a + 1) / 2 * ((b + 1) / 2); }) ==
        "((a + 1) / 2) * ((b + 1) / 2)");
  CHECK(fit([](int64_t a, int64_t b) { return (a + 3) / 8 * ((b + 1) / 4) + 1; }) ==
        "1 + ((a + 3) / 8) * ((b + 1) / 4)");
}
#endif
