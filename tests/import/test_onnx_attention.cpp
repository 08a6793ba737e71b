// SPDX-License-Identifier: Apache-2.0
// Attention and FlexAttention of ONNX, and the cache beside them: what becomes of layouts, masks,
// caches and positions, and what is refused.
#ifdef RLX_HAS_ONNX
#include <onnx.pb.h>

#include <cmath>

#include "compiler/import/onnx/onnx_reader.h"
#include "tests/import/onnx_support.h"

using namespace rlx;
using namespace rlx::test;

namespace {

struct Input {
  std::string name;
  Shape shape;  // empty: the operator goes without it
  int32_t type = onnx::TensorProto::FLOAT;
};

// One Attention node; its outputs are y, pk, pv and s, as many as are asked for.
struct AttentionModel {
  AttentionModel(int64_t opset, const std::vector<Input>& inputs, size_t output_count = 1) {
    model.set_ir_version(10);
    model.add_opset_import()->set_version(opset);
    onnx::GraphProto& graph = *model.mutable_graph();
    onnx::NodeProto* node = graph.add_node();
    node->set_op_type("Attention");
    for (const Input& input : inputs) {
      node->add_input(input.shape.empty() ? "" : input.name);
      if (input.shape.empty()) continue;
      onnx::ValueInfoProto& added = *graph.add_input();
      added.set_name(input.name);
      auto& tensor = *added.mutable_type()->mutable_tensor_type();
      tensor.set_elem_type(input.type);
      for (const int64_t dim : input.shape) tensor.mutable_shape()->add_dim()->set_dim_value(dim);
    }
    const std::vector<std::string> names = {"y", "pk", "pv", "s"};
    for (size_t i = 0; i < output_count; ++i) {
      node->add_output(names[i]);
      graph.add_output()->set_name(names[i]);
    }
  }

  AttentionModel& with(const std::string& name, int64_t value) {
    onnx::AttributeProto& attribute = *model.mutable_graph()->mutable_node(0)->add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
    return *this;
  }

  [[nodiscard]] std::optional<SourceGraph> read(Diagnostics& diagnostics) const {
    return read_onnx_graph(bytes_of(model.SerializeAsString()), "m.onnx", {}, diagnostics).graph;
  }
  [[nodiscard]] SourceGraph good() const {
    Diagnostics diagnostics;
    std::optional<SourceGraph> graph = read(diagnostics);
    INFO(diagnostics.text());
    REQUIRE(graph.has_value());
    return *graph;
  }
  [[nodiscard]] std::string refusal() const {
    Diagnostics diagnostics;
    CHECK_FALSE(read(diagnostics).has_value());
    return diagnostics.text();
  }

  onnx::ModelProto model;
};

const SourceNode& attention_of(const SourceGraph& graph) {
  for (const SourceNode& node : graph.entries.front().nodes) {
    if (node.op == "attention") return node;
  }
  FAIL("no attention");
  return graph.entries.front().nodes.front();
}

std::string text(const SourceNode& node, const std::string& name) {
  return std::get<std::string>(node.attributes.at(name));
}
int64_t number(const SourceNode& node, const std::string& name) {
  return std::get<int64_t>(node.attributes.at(name));
}
bool has_input(const SourceNode& node, size_t i) {
  return i < node.inputs.size() && node.inputs[i].has_value();
}

// Of 2 queries, 3 keys, 4 heads that share 2, dims 8 and 16.
const std::vector<Input> kByHeads = {
    {"q", {1, 4, 2, 8}}, {"k", {1, 2, 3, 8}}, {"v", {1, 2, 3, 16}}};
const std::vector<Input> kByTokens = {{"q", {1, 2, 32}}, {"k", {1, 3, 16}}, {"v", {1, 3, 32}}};

std::vector<Input> with(std::vector<Input> inputs, const std::vector<Input>& more) {
  inputs.insert(inputs.end(), more.begin(), more.end());
  return inputs;
}

Tensor floats(const Shape& shape, std::vector<double> values) {
  Tensor result = reals(std::move(values));
  result.type.shape = shape;
  return result;
}

Tensor counts(std::vector<int64_t> values) {
  Tensor result = Tensor::zeros({DType::i64, {static_cast<int64_t>(values.size())}});
  result.integers = std::move(values);
  return result;
}

Tensor bools(const Shape& shape, std::vector<int64_t> values) {
  Tensor result = Tensor::zeros({DType::bool_, shape});
  result.integers = std::move(values);
  return result;
}

// Of kByHeads.
std::vector<Tensor> operands() {
  std::vector<Tensor> result;
  for (const Input& input : kByHeads) {
    std::vector<double> values(static_cast<size_t>(element_count(input.shape)));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::sin(static_cast<double>(i * (result.size() + 1)));
    result.push_back(floats(input.shape, std::move(values)));
  }
  return result;
}

// Shares [1, 4, 2, 3] times v [1, 2, 3, 16], two heads of the former for one of the latter.
std::vector<double> times_values(const Tensor& shares, const Tensor& v) {
  std::vector<double> y;
  for (size_t row = 0; row < 8; ++row) {
    for (size_t column = 0; column < 16; ++column) {
      double sum = 0;
      for (size_t key = 0; key < 3; ++key)
        sum += shares.floats[row * 3 + key] * v.floats[(row / 4 * 3 + key) * 16 + column];
      y.push_back(sum);
    }
  }
  return y;
}

bool contains(const std::string& all, const std::string& part) {
  INFO(all);
  return all.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("ranks 4 and 3 of ONNX attention are its layouts, and head counts may differ") {
  const SourceGraph graph = AttentionModel(23, kByHeads).with("is_causal", 1).good();
  CHECK(ops_of(graph) == "attention");
  const SourceNode& by_heads = attention_of(graph);
  CHECK(text(by_heads, "q_layout") == "bhsd");
  CHECK(text(by_heads, "kv_layout") == "bhsd");
  CHECK(text(by_heads, "causal_align") == "start");
  CHECK(std::get<bool>(by_heads.attributes.at("causal")));
  CHECK(number(by_heads, "num_heads") == 4);
  CHECK(number(by_heads, "num_kv_heads") == 2);
  CHECK(number(by_heads, "v_head_dim") == 16);

  const SourceGraph tokens =
      AttentionModel(23, kByTokens).with("q_num_heads", 4).with("kv_num_heads", 2).good();
  const SourceNode& by_tokens = attention_of(tokens);
  CHECK(text(by_tokens, "q_layout") == "bsd");
  CHECK(number(by_tokens, "head_dim") == 8);
  CHECK(number(by_tokens, "v_head_dim") == 16);
  CHECK(std::get<double>(by_tokens.attributes.at("scale")) == Approx(0.35355339059));
}

TEST_CASE("a mask of bool selects, one of floats is added, and a short one hides the keys beyond") {
  const auto masked = [](int64_t opset, const Shape& shape, int32_t type) {
    return AttentionModel(opset, with(kByHeads, {{"m", shape, type}})).good();
  };
  const SourceGraph selects = masked(23, {2, 3}, onnx::TensorProto::BOOL);
  CHECK(has_input(attention_of(selects), 3));
  CHECK_FALSE(has_input(attention_of(selects), 4));
  CHECK(ops_of(selects) == "reshape attention");
  const SourceGraph adds = masked(23, {4, 2, 3}, onnx::TensorProto::FLOAT);
  CHECK_FALSE(has_input(attention_of(adds), 3));
  CHECK(has_input(attention_of(adds), 4));
  CHECK(contains(ops_of(masked(24, {2, 2}, onnx::TensorProto::FLOAT)), "concat"));
  CHECK_FALSE(contains(ops_of(masked(24, {2, 1}, onnx::TensorProto::FLOAT)), "concat"));
}

TEST_CASE("the past stands before the keys, and queries follow it") {
  const std::vector<Input> inputs =
      with(kByTokens, {{"m", {}}, {"ok", {1, 2, 5, 8}}, {"ov", {1, 2, 5, 16}}});
  const SourceGraph graph = AttentionModel(23, inputs, 3)
                                .with("q_num_heads", 4)
                                .with("kv_num_heads", 2)
                                .with("is_causal", 1)
                                .good();
  const SourceNode& attention = attention_of(graph);
  CHECK(text(attention, "q_layout") == "bsd");
  CHECK(text(attention, "kv_layout") == "bhsd");
  CHECK(attention.inputs.at(1) == "pk");
  CHECK(has_input(attention, 6));  // q_start
  CHECK(graph.entries.front().outputs == std::vector<std::string>{"y", "pk", "pv"});
}

TEST_CASE("valid keys of each row end the keys, and windows are those of opset 25") {
  const std::vector<Input> inputs =
      with(kByHeads, {{"m", {}}, {"ok", {}}, {"ov", {}}, {"n", {1}, onnx::TensorProto::INT64}});
  const SourceGraph graph = AttentionModel(24, inputs).with("is_causal", 1).good();
  CHECK(has_input(attention_of(graph), 5));
  CHECK(text(attention_of(graph), "causal_align") == "end");
  const SourceGraph window = AttentionModel(25, kByHeads).with("left_window_size", 2).good();
  CHECK(number(attention_of(window), "window_left") == 2);
  CHECK_FALSE(attention_of(window).attributes.contains("window_right"));
  CHECK(contains(AttentionModel(24, kByHeads).with("left_window_size", 2).refusal(),
                 "\"left_window_size\" is not understood"));
}

TEST_CASE("the last output shows scores and shares, which times the values are the result") {
  const Tensor mask = bools({2, 3}, {1, 0, 1, 0, 0, 1});
  const Tensor keys = counts({1});
  const Input bool_mask = {"m", {2, 3}, onnx::TensorProto::BOOL};
  const Input valid = {"n", {1}, onnx::TensorProto::INT64};
  struct Row {
    std::string law;
    AttentionModel model;
    std::vector<Tensor> more;
    size_t hidden;  // of the 24 scores
  };
  const std::vector<Input> counted = with(kByHeads, {{"m", {}}, {"ok", {}}, {"ov", {}}, valid});
  const std::vector<Row> rows = {
      {"all keys", AttentionModel(25, kByHeads, 4), {}, 0},
      {"causal", AttentionModel(25, kByHeads, 4).with("is_causal", 1), {}, 12},
      {"a mask", AttentionModel(25, with(kByHeads, {bool_mask}), 4), {mask}, 12},
      {"valid keys, the first query before all",
       AttentionModel(25, counted, 4).with("is_causal", 1),
       {keys},
       20},
      {"a window", AttentionModel(25, kByHeads, 4).with("left_window_size", 0), {}, 4},
      {"from both sides",
       AttentionModel(25, kByHeads, 4).with("left_window_size", 0).with("right_window_size", 1),
       {},
       8},
  };
  for (const Row& row : rows) {
    INFO(row.law);
    std::vector<Tensor> inputs = operands();
    inputs.insert(inputs.end(), row.more.begin(), row.more.end());
    const auto at = [&](int64_t mode) {
      AttentionModel model = row.model;
      return evaluated(model.with("qk_matmul_output_mode", mode).good(), inputs);
    };
    const std::vector<Tensor> shares = at(3);
    check_near(shares.at(0).floats, times_values(shares.at(3), inputs[2]));
    const std::vector<double> scores = at(2).at(3).floats;
    const std::vector<double> products = at(0).at(3).floats;
    size_t hidden = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const bool is_hidden = std::isinf(scores[i]);
      hidden += is_hidden ? 1 : 0;
      if (is_hidden) {
        CHECK(shares[3].floats[i] == 0);
      } else {
        CHECK(scores[i] == products[i]);
      }
    }
    CHECK(hidden == row.hidden);
  }
}

TEST_CASE("a softmax of doubles beside operands of floats is done step by step") {
  for (const bool by_heads : {true, false}) {
    const auto model = [&] {
      AttentionModel made(23, by_heads ? kByHeads : kByTokens);
      return by_heads ? made : made.with("q_num_heads", 4).with("kv_num_heads", 2);
    };
    const SourceGraph apart = model().with("softmax_precision", 11).good();
    CHECK_FALSE(contains(ops_of(apart), "attention"));
    std::vector<Tensor> inputs = operands();
    if (!by_heads) {
      const std::vector<Shape> shapes = {{1, 2, 32}, {1, 3, 16}, {1, 3, 32}};
      for (size_t i = 0; i < inputs.size(); ++i) inputs[i].type.shape = shapes[i];
    }
    const Tensor wanted = evaluated(model().good(), inputs).at(0);
    const Tensor got = evaluated(apart, inputs).at(0);
    CHECK(got.type == wanted.type);
    check_near(got.floats, wanted.floats);
  }
}

TEST_CASE("FlexAttention puts its graphs before and behind the softmax") {
  const auto doubles = [](onnx::NodeProto& node, const std::string& graph_name) {
    onnx::GraphProto& graph = add_graph(node, graph_name);
    graph.add_input()->set_name("s");
    add_tensor<float>(graph, "two", onnx::TensorProto::FLOAT, {}, {2});
    add_node(graph, "Mul", {"s", "two"}, {"d"});
    graph.add_output()->set_name("d");
  };
  const auto flex = [&](const std::vector<Input>& inputs, const std::vector<std::string>& graphs) {
    AttentionModel made(25, inputs);
    onnx::NodeProto& node = *made.model.mutable_graph()->mutable_node(0);
    node.set_op_type("FlexAttention");
    node.set_domain("ai.onnx.preview");
    onnx::OperatorSetIdProto& preview = *made.model.add_opset_import();
    preview.set_domain("ai.onnx.preview");
    preview.set_version(1);
    for (const std::string& graph : graphs) doubles(node, graph);
    return made;
  };
  const auto plain = [](double scale) {
    AttentionModel made(23, kByHeads);
    onnx::AttributeProto& attribute = *made.model.mutable_graph()->mutable_node(0)->add_attribute();
    attribute.set_name("scale");
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(scale));
    return evaluated(made.good(), operands()).at(0).floats;
  };
  const double scale = 1 / std::sqrt(8.0);
  check_near(evaluated(flex(kByHeads, {}).good(), operands()).at(0).floats, plain(scale));
  check_near(evaluated(flex(kByHeads, {"score_mod"}).good(), operands()).at(0).floats,
             plain(2 * scale));
  std::vector<double> twice = plain(scale);
  for (double& value : twice) value *= 2;
  check_near(evaluated(flex(kByHeads, {"prob_mod"}).good(), operands()).at(0).floats, twice);
  CHECK(contains(flex(kByTokens, {}).refusal(), "wanted rank 4"));
}

TEST_CASE("TensorScatter writes rows of a cache, from where each item's index says") {
  AttentionModel made(
      24, {{"cache", {2, 1, 4, 1}}, {"new", {2, 1, 2, 1}}, {"at", {2}, onnx::TensorProto::INT64}});
  onnx::NodeProto& node = *made.model.mutable_graph()->mutable_node(0);
  node.set_op_type("TensorScatter");
  onnx::AttributeProto& mode = *node.add_attribute();
  mode.set_name("mode");
  mode.set_type(onnx::AttributeProto::STRING);
  mode.set_s("circular");
  const auto got = evaluated(made.good(), {floats({2, 1, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                           floats({2, 1, 2, 1}, {-1, -2, -3, -4}), counts({1, 3})});
  CHECK(got.at(0).floats == std::vector<double>{1, -1, -2, 4, -4, 6, 7, -3});
}

TEST_CASE("what ONNX attention cannot mean is refused") {
  CHECK(contains(AttentionModel(23, kByTokens).refusal(), "q_num_heads"));
  CHECK(contains(AttentionModel(23, kByHeads).with("q_num_heads", 3).refusal(), "has 4 heads"));
  CHECK(contains(
      AttentionModel(23, {{"q", {1, 3, 2, 8}}, {"k", {1, 2, 3, 8}}, {"v", {1, 2, 3, 8}}}).refusal(),
      "do not share"));
  CHECK(contains(
      AttentionModel(23, {{"q", {1, 2, 32}}, {"k", {1, 2, 3, 8}}, {"v", {1, 2, 3, 8}}}).refusal(),
      "all of rank 3 or all of rank 4"));
  CHECK(contains(
      AttentionModel(23, with(kByHeads, {{"m", {2, 3}, onnx::TensorProto::INT32}})).refusal(),
      "attn_mask is i32"));
  CHECK(contains(AttentionModel(23, with(kByHeads, {{"m", {}}, {"ok", {1, 2, 5, 8}}})).refusal(),
                 "given together"));
  CHECK(contains(AttentionModel(23, kByHeads, 4).with("qk_matmul_output_mode", 4).refusal(),
                 "wanted 0 to 3"));
  const std::vector<Input> uncounted =
      with(kByHeads, {{"m", {}}, {"ok", {}}, {"ov", {}}, {"n", {1, 1}, onnx::TensorProto::INT64}});
  CHECK(contains(AttentionModel(25, uncounted, 4).with("qk_matmul_output_mode", 3).refusal(),
                 "nonpad_kv_seqlen is [1, 1], wanted rank 1"));
}
#endif
