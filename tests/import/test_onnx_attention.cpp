// SPDX-License-Identifier: Apache-2.0
// Attention of ONNX: what becomes of layouts, masks, caches and positions, and what is refused.
#ifdef RLX_HAS_ONNX
#include <onnx.pb.h>

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

TEST_CASE("products before the softmax are an output, shares behind it are not") {
  const auto scores = [](int64_t mode) {
    return AttentionModel(23, kByHeads, 4).with("qk_matmul_output_mode", mode);
  };
  CHECK(contains(ops_of(scores(0).good()), "matmul"));
  CHECK(contains(scores(3).refusal(), "qk_matmul_output of mode 3"));
  CHECK(contains(scores(2).with("is_causal", 1).refusal(), "masked by position"));
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
  CHECK(contains(AttentionModel(23, kByHeads).with("softmax_precision", 11).refusal(),
                 "computes in f32"));
}
#endif
