// SPDX-License-Identifier: Apache-2.0
// auto_promote (ops.md 0.3, T1): which dtypes meet in which, and what the loader inserts.
#include <array>

#include "compiler/import/promote.h"
#include "tests/import/import_support.h"

namespace rlx::test {
namespace {

constexpr DType kNumbers[] = {DType::f64, DType::f32, DType::f16,  DType::bf16,
                              DType::i64, DType::i32, DType::u32,  DType::i16,
                              DType::i8,  DType::u8,  DType::bool_};

// y = op(a, b, ...) of inputs with these dtypes.
std::string promoted_graph(const std::string& op, const std::vector<std::string>& dtypes,
                           const std::string& flag = R"("auto_promote": true, )") {
  std::string inputs;
  std::string names;
  for (size_t i = 0; i < dtypes.size(); ++i) {
    const std::string name = std::string(1, static_cast<char>('a' + i));
    inputs += (i == 0 ? "" : ", ") + (R"({"name": ")" + name) + R"(", "dtype": ")" + dtypes[i] +
              R"(", "shape": [2]})";
    names += (i == 0 ? "\"" : ", \"") + name + "\"";
  }
  return R"({"rlx_graph": 1, )" + flag + R"("inputs": [)" + inputs + R"(], "nodes": [{"op": ")" +
         op + R"(", "inputs": [)" + names + R"(], "outputs": ["y"]}], "outputs": ["y"]})";
}

// dtypes of the last node's inputs, and the nodes before it.
struct Bound {
  std::vector<DType> operands;
  size_t casts = 0;
  DType result = DType::f32;
};
Bound bound_of(const std::string& json) {
  const Module module = bind_good(json);
  const Graph& graph = module.entries.at(0);
  Bound bound;
  bound.casts = graph.order().size() - 1;
  for (const auto& input : graph.node(graph.order().back()).inputs)
    bound.operands.push_back(graph.value(*input).type.dtype);
  bound.result = graph.value(graph.outputs().at(0)).type.dtype;
  return bound;
}

TEST_CASE("T1 promotion is symmetric, idempotent and absorbs") {
  for (const DType a : kNumbers) {
    for (const DType b : kNumbers) {
      const std::optional<DType> both = promoted(a, b);
      INFO(name_of(a) << " with " << name_of(b));
      REQUIRE(both.has_value());
      CHECK(both == promoted(b, a));
      CHECK(promoted(*both, a) == both);
      CHECK(promoted(*both, b) == both);
      if (is_float(a) || is_float(b)) CHECK(is_float(*both));
    }
    CHECK(promoted(a, DType::f64) == DType::f64);
    CHECK(promoted(a, DType::c64) == DType::c64);
    CHECK(promoted(DType::c64, a) == DType::c64);
    CHECK_FALSE(promoted(a, DType::q8_0).has_value());
    CHECK_FALSE(promoted(a, DType::f8e4m3).has_value());
  }
}

TEST_CASE("T1 promotion follows the table") {
  struct Row {
    DType a, b, both;
  };
  constexpr std::array<Row, 17> kRows = {{{DType::f16, DType::bf16, DType::f32},
                                          {DType::f16, DType::f32, DType::f32},
                                          {DType::bf16, DType::f64, DType::f64},
                                          {DType::i8, DType::i32, DType::i32},
                                          {DType::u8, DType::u32, DType::u32},
                                          {DType::u8, DType::i8, DType::i16},
                                          {DType::u8, DType::i16, DType::i16},
                                          {DType::u8, DType::i64, DType::i64},
                                          {DType::u32, DType::i32, DType::i64},
                                          {DType::u32, DType::i8, DType::i64},
                                          {DType::u32, DType::i64, DType::i64},
                                          {DType::i64, DType::f16, DType::f16},
                                          {DType::i32, DType::bf16, DType::bf16},
                                          {DType::bool_, DType::f32, DType::f32},
                                          {DType::bool_, DType::u8, DType::u8},
                                          {DType::i64, DType::f64, DType::f64},
                                          {DType::bool_, DType::bool_, DType::bool_}}};
  for (const Row& row : kRows) {
    INFO(name_of(row.a) << " with " << name_of(row.b));
    CHECK(promoted(row.a, row.b) == row.both);
  }
}

TEST_CASE("T1 the loader casts what differs, and nothing else") {
  const Bound sum = bound_of(promoted_graph("add", {"f16", "bf16"}));
  CHECK(sum.casts == 2);
  CHECK(sum.result == DType::f32);
  const Bound less = bound_of(promoted_graph("lt", {"i64", "f16"}));
  CHECK(less.casts == 1);
  CHECK(less.operands == std::vector<DType>{DType::f16, DType::f16});
  CHECK(less.result == DType::bool_);
  const Bound chosen = bound_of(promoted_graph("where", {"i8", "u32", "i32"}));
  CHECK(chosen.casts == 2);
  CHECK(chosen.operands == std::vector<DType>{DType::i8, DType::i64, DType::i64});
  CHECK(bound_of(promoted_graph("clamp", {"f32", "i32", "bool"})).casts == 2);
  CHECK(bound_of(promoted_graph("fma", {"f32", "f32", "f64"})).result == DType::f64);
  CHECK(bound_of(promoted_graph("mul", {"f32", "f32"})).casts == 0);
  CHECK(bound_of(promoted_graph("pow", {"f16", "i64"})).casts == 0);
  CHECK(bound_of(promoted_graph("pow", {"i64", "f16"})).casts == 1);
}

TEST_CASE("T1 without the flag, and where no dtype fits, the op itself refuses") {
  check_only_error(bind_bad(promoted_graph("add", {"f16", "bf16"}, "")), DiagCode::BadDtype,
                   "add \"y\"");
  check_only_error(bind_bad(promoted_graph("add", {"f16", "bf16"}, R"("auto_promote": false, )")),
                   DiagCode::BadDtype, "add \"y\"");
  check_only_error(bind_bad(promoted_graph("add", {"f32", "f8e4m3"})), DiagCode::BadDtype,
                   "add \"y\"");
  check_only_error(bind_bad(promoted_graph("bitwise_and", {"f32", "i32"})), DiagCode::BadDtype,
                   "bitwise_and \"y\"");
  check_only_error(bind_bad(promoted_graph("matmul", {"f16", "f64"})), DiagCode::BadDtype,
                   "matmul \"y\"");
}

TEST_CASE("T1 the names of casts are free ones") {
  const Module module = bind_good(R"({"rlx_graph": 1, "auto_promote": true,
    "inputs": [{"name": "a", "dtype": "f32", "shape": [2]}, {"name": "b", "dtype": "i32", "shape": [2]}],
    "nodes": [{"op": "add", "inputs": ["a", "b"], "outputs": ["y"]},
              {"op": "relu", "inputs": ["y"], "outputs": ["y.input1"]}], "outputs": ["y.input1"]})");
  CHECK(module.entries.at(0).order().size() == 3);
}

TEST_CASE("auto_promote is a flag of both forms and of the loader") {
  const SourceGraph graph = read_good(promoted_graph("add", {"f16", "f32"}));
  CHECK(graph.auto_promote);
  CHECK(read_good(write_json_graph(graph)).auto_promote);
  Diagnostics diagnostics;
  const auto bytes = write_rlxg_graph(graph, diagnostics);
  REQUIRE(bytes.has_value());
  const auto back = read_rlxg_graph(bytes_of(*bytes), "m.rlxg", diagnostics);
  REQUIRE(back.has_value());
  CHECK(back->auto_promote);
  CHECK_FALSE(read_good(promoted_graph("add", {"f16", "f32"}, "")).auto_promote);

  const TemporaryFolder folder;
  const std::string path = folder.write("m.json", promoted_graph("add", {"f16", "f32"}, ""));
  CHECK_FALSE(load_module(path, {}, diagnostics).has_value());
  Diagnostics fresh;
  CHECK(load_module(path, {.dims = {}, .auto_promote = true}, fresh).has_value());
  Diagnostics bad;
  CHECK_FALSE(
      read_json_graph(promoted_graph("add", {"f16"}, R"("auto_promote": 1, )"), "m.json", bad)
          .has_value());
  check_only_error(bad, DiagCode::BadField, "true or false");
}

}  // namespace
}  // namespace rlx::test
