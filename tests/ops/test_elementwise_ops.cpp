// SPDX-License-Identifier: Apache-2.0
// Inference, diagnostics and f64 evaluation of the elementwise ops.
#include <cmath>
#include <string>
#include <utility>

#include "compiler/ops/op_def.h"
#include "compiler/ops/op_id.h"
#include "tests/support/catch.h"

namespace rlx {
namespace {

struct Inferred {
  bool good = false;
  TensorType type;
  Diagnostics diagnostics;
};

Inferred infer_op(const std::string& op, const std::vector<TensorType>& inputs,
                  Attributes attributes = {}, std::vector<RegionStep> region = {}) {
  Graph graph;
  Node node{.name = "n",
            .op = op,
            .inputs = {},
            .outputs = {},
            .attributes = std::move(attributes),
            .region = std::move(region),
            .place = {},
            .source = {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.emplace_back(graph.add_value({.name = "x" + std::to_string(i),
                                              .type = inputs[i],
                                              .origin = ValueOrigin::Input,
                                              .weight = {},
                                              .state = {},
                                              .producer = {}}));
  }
  node.outputs.push_back(
      graph.add_value({.name = "y", .type = {}, .weight = {}, .state = {}, .producer = {}}));
  const ValueId y = node.outputs[0];
  Inferred result;
  result.good = check_and_infer(graph, graph.add_node(std::move(node)), result.diagnostics);
  result.type = graph.value(y).type;
  return result;
}

Tensor floats(DType dtype, std::vector<double> values) {
  Tensor tensor{.type = {dtype, {static_cast<int64_t>(values.size())}},
                .floats = {},
                .integers = {},
                .magnitudes = {}};
  tensor.floats = std::move(values);
  return tensor;
}

Tensor integers(DType dtype, std::vector<int64_t> values) {
  Tensor tensor{.type = {dtype, {static_cast<int64_t>(values.size())}},
                .floats = {},
                .integers = {},
                .magnitudes = {}};
  tensor.integers = std::move(values);
  return tensor;
}

Tensor evaluate_op(const std::string& op, const std::vector<const Tensor*>& inputs, TensorType type,
                   Attributes attributes = {}) {
  Node node{.name = "n",
            .op = op,
            .inputs = {},
            .outputs = {ValueId{}},
            .attributes = std::move(attributes),
            .region = {},
            .place = {},
            .source = {}};
  for (const Tensor* input : inputs)
    node.inputs.emplace_back(input == nullptr ? std::nullopt : std::optional(ValueId{}));
  Diagnostics diagnostics;
  auto outputs = evaluate_node(node, inputs, {std::move(type)}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(outputs.has_value());
  return std::move(outputs->front());
}

DiagCode first_code(const Inferred& inferred) {
  REQUIRE_FALSE(inferred.good);
  return inferred.diagnostics.all().front().code;
}

}  // namespace

TEST_CASE("op_ids_name_the_ops_of_their_rows") {
  CHECK(std::string("batch_ew_region") == OpId::batch_ew_region);
  CHECK(std::string("mul") != OpId::add);
  CHECK(find_op(name_of(OpId::deform_conv)) == all_ops().back());
}

TEST_CASE("elementwise ops broadcast as NumPy does") {
  CHECK(infer_op("add", {{DType::f32, {1, 4}}, {DType::f32, {4, 1}}}).type ==
        TensorType{DType::f32, {4, 4}});
  CHECK(infer_op("lt", {{DType::i64, {0, 5}}, {DType::i64, {1, 5}}}).type ==
        TensorType{DType::bool_, {0, 5}});
  CHECK(infer_op("where", {{DType::f32, {4, 1, 1}}, {DType::i8, {3, 1}}, {DType::i8, {5}}}).type ==
        TensorType{DType::i8, {4, 3, 5}});
  const Inferred bad = infer_op("add", {{DType::f32, {2, 3}}, {DType::f32, {3, 2}}});
  CHECK(first_code(bad) == DiagCode::BadShape);
  CHECK(bad.diagnostics.text().find("[3, 2]") != std::string::npos);
}

TEST_CASE("T1 mixed and wrong dtypes are refused by name") {
  CHECK(first_code(infer_op("add", {{DType::f32, {2}}, {DType::i32, {2}}})) == DiagCode::BadDtype);
  CHECK(first_code(infer_op("exp", {{DType::i32, {2}}})) == DiagCode::BadDtype);
  CHECK(first_code(infer_op("lt", {{DType::bool_, {2}}, {DType::bool_, {2}}})) ==
        DiagCode::BadDtype);
  CHECK(first_code(infer_op("logical_and", {{DType::i32, {2}}, {DType::i32, {2}}})) ==
        DiagCode::BadDtype);
  CHECK(first_code(infer_op("fma", {{DType::f16, {2}}, {DType::f16, {2}}, {DType::f16, {2}}})) ==
        DiagCode::BadDtype);
  for (const DType dtype : {DType::c64, DType::f8e4m3}) {
    const Inferred alien = infer_op("sin", {{dtype, {2}}});
    CHECK(first_code(alien) == DiagCode::BadDtype);
    CHECK(alien.diagnostics.text().find(name_of(dtype)) != std::string::npos);
  }
  for (const char* op : {"max", "lt", "pow"}) {
    CHECK(first_code(infer_op(op, {{DType::c64, {2}}, {DType::c64, {2}}})) == DiagCode::BadDtype);
  }
  CHECK(first_code(infer_op("add", {{DType::f8e5m2, {2}}, {DType::f8e5m2, {2}}})) ==
        DiagCode::BadDtype);
  CHECK(infer_op("abs", {{DType::c64, {2}}}).type == TensorType{DType::f32, {2}});
}

TEST_CASE("T6 attributes are checked") {
  CHECK(first_code(infer_op("gelu", {{DType::f32, {2}}}, {{"alpha", 1.0}})) ==
        DiagCode::UnknownAttribute);
  CHECK(first_code(infer_op("powf", {{DType::f32, {2}}})) == DiagCode::MissingAttribute);
  CHECK(first_code(infer_op("cast", {{DType::f32, {2}}}, {{"to", "f32"}, {"overflow", "clip"}})) ==
        DiagCode::BadAttribute);
  CHECK(first_code(infer_op("prelu", {{DType::f32, {2, 3}}, {DType::f32, {4, 2, 3}}})) ==
        DiagCode::BadShape);
  CHECK(first_code(infer_op("bitcast", {{DType::f32, {2}}}, {{"to", "i64"}})) ==
        DiagCode::BadDtype);
}

TEST_CASE("golden values of the activations") {
  const std::vector<std::pair<std::string, std::vector<double>>> rows = {
      {"gelu", {-0.1586553, 0.3457312, 2.99595}},    {"gelu_tanh", {-0.158808, 0.345714, 2.996363}},
      {"silu", {-0.2689414, 0.3112297, 2.857722}},   {"mish", {-0.3034015, 0.3752452, 2.986535}},
      {"softplus", {0.3132617, 0.974077, 3.048587}}, {"selu", {-1.111331, 0.5253505, 3.152103}},
      {"hard_swish", {-0.3333333, 0.2916667, 3}}};
  const Tensor x = floats(DType::f64, {-1, 0.5, 3});
  for (const auto& [op, wanted] : rows) {
    const Tensor y = evaluate_op(op, {&x}, x.type);
    for (size_t i = 0; i < wanted.size(); ++i) {
      INFO(op << " element " << i);
      CHECK(y.floats[i] == Approx(wanted[i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("T29 gelu of the evaluator is accurate to f64") {
  const Tensor x = floats(DType::f64, {-10, -1});
  const Tensor y = evaluate_op("gelu", {&x}, x.type);
  CHECK(y.floats[0] == Approx(-7.61985302416047e-23).epsilon(1e-13));
  CHECK(y.floats[1] == Approx(-0.15865525393145705).epsilon(1e-15));
}

TEST_CASE("integers wrap, divide and shift by the rules") {
  const Tensor a = integers(DType::i8, {127, -128, -128, 5, -7});
  const Tensor b = integers(DType::i8, {1, -1, 1, 0, 3});
  CHECK(evaluate_op("add", {&a, &b}, a.type).integers ==
        std::vector<int64_t>{-128, 127, -127, 5, -4});
  CHECK(evaluate_op("div", {&a, &b}, a.type).integers ==
        std::vector<int64_t>{127, -128, -128, 0, -2});
  CHECK(evaluate_op("mod", {&a, &b}, a.type).integers == std::vector<int64_t>{0, 0, 0, 0, 2});
  CHECK(evaluate_op("floor_div", {&a, &b}, a.type).integers ==
        std::vector<int64_t>{127, -128, -128, 0, -3});
  CHECK(evaluate_op("shift_left", {&a, &b}, a.type).integers ==
        std::vector<int64_t>{-2, 0, 0, 5, -56});
  CHECK(evaluate_op("neg", {&a}, a.type).integers == std::vector<int64_t>{-127, -128, -128, -5, 7});
}

TEST_CASE("T2 T3 casts convert exactly") {
  const Tensor x = floats(DType::f32, {1.9, -1.9, 3e9, NAN});
  CHECK(evaluate_op("cast", {&x}, {DType::i32, {4}}, {{"to", "i32"}}).integers ==
        std::vector<int64_t>{1, -1, 2147483647, 0});
  CHECK(evaluate_op("cast", {&x}, {DType::bool_, {4}}, {{"to", "bool"}}).integers ==
        std::vector<int64_t>{1, 1, 1, 1});
  const Tensor i = integers(DType::i16, {200, -1});
  CHECK(evaluate_op("cast", {&i}, {DType::i8, {2}}, {{"to", "i8"}}).integers ==
        std::vector<int64_t>{127, -1});
  CHECK(
      evaluate_op("cast", {&i}, {DType::i8, {2}}, {{"to", "i8"}, {"overflow", "wrap"}}).integers ==
      std::vector<int64_t>{-56, -1});
  CHECK(evaluate_op("cast", {&i}, {DType::u32, {2}}, {{"to", "u32"}, {"overflow", "wrap"}})
            .integers == std::vector<int64_t>{200, 4294967295});
  const Tensor wide = integers(DType::i64, {(int64_t{1} << 53) + 1});
  CHECK(evaluate_op("cast", {&wide}, {DType::f32, {1}}, {{"to", "f32"}}).floats[0] ==
        9007199254740992.0);
}

TEST_CASE("T18 clamp with lo > hi gives hi and NaN stays") {
  const Tensor x = floats(DType::f32, {0, 10, NAN});
  const Tensor y = evaluate_op("clamp", {&x}, x.type, {{"min", 3.0}, {"max", 2.0}});
  CHECK(y.floats[0] == 2);
  CHECK(y.floats[1] == 2);
  CHECK(std::isnan(y.floats[2]));
}

TEST_CASE("a region's steps are checked and its dtype is the last step's") {
  const TensorType x{DType::f32, {4, 1}};
  const TensorType y{DType::f32, {3}};
  const RegionStep add{.op = "add", .attributes = {}, .operands = {0, 1}, .dtype = DType::f32};
  const RegionStep test{.op = "is_nan", .attributes = {}, .operands = {2}, .dtype = DType::bool_};
  CHECK(infer_op("ew_region", {x, y}, {}, {add, test}).type == TensorType{DType::bool_, {4, 3}});
  RegionStep wrong = test;
  wrong.dtype = DType::f32;
  CHECK(first_code(infer_op("ew_region", {x, y}, {}, {add, wrong})) == DiagCode::BadDtype);
  wrong = test;
  wrong.operands = {7};
  CHECK(first_code(infer_op("ew_region", {x, y}, {}, {add, wrong})) == DiagCode::UnknownValue);
  wrong = test;
  wrong.op = "softmax";
  CHECK(first_code(infer_op("ew_region", {x, y}, {}, {add, wrong})) == DiagCode::UnsupportedOp);
  CHECK(first_code(infer_op("ew_region", {x, y})) == DiagCode::BadField);
}

}  // namespace rlx
