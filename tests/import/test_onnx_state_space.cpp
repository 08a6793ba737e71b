// SPDX-License-Identifier: Apache-2.0
// LinearAttention and CausalConvWithState of ONNX: what becomes of heads, gates and states, and
// what is refused.
#ifdef RLX_HAS_ONNX
#include <onnx.pb.h>

#include "tests/import/onnx_support.h"

using namespace rlx;
using namespace rlx::test;

namespace {

struct StateInput {
  std::string name;  // empty: the operator goes without it
  std::vector<std::string> dims = {};
  int32_t type = onnx::TensorProto::FLOAT;
};

// One node with the outputs y and state.
onnx::ModelProto state_model(const std::string& op, const std::vector<StateInput>& inputs) {
  onnx::ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(27);
  onnx::GraphProto& graph = *model.mutable_graph();
  std::vector<std::string> names;
  for (const StateInput& input : inputs) {
    names.push_back(input.name);
    if (input.name.empty()) continue;
    onnx::ValueInfoProto& added = *graph.add_input();
    added.set_name(input.name);
    auto& tensor = *added.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(input.type);
    for (const std::string& dim : input.dims) {
      auto& size = *tensor.mutable_shape()->add_dim();
      if (dim.find_first_not_of("0123456789") == std::string::npos) {
        size.set_dim_value(std::stoll(dim));
      } else {
        size.set_dim_param(dim);
      }
    }
  }
  add_node(graph, op, names, {"y", "state"});
  graph.add_output()->set_name("y");
  graph.add_output()->set_name("state");
  return model;
}

onnx::AttributeProto& add_state_text(onnx::ModelProto& model, const std::string& name,
                                     const std::string& value) {
  onnx::AttributeProto& attribute = *model.mutable_graph()->mutable_node(0)->add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(value);
  return attribute;
}

onnx::ModelProto linear_model(const std::vector<StateInput>& inputs, int64_t query_heads,
                              int64_t heads) {
  onnx::ModelProto model = state_model("LinearAttention", inputs);
  onnx::NodeProto& node = *model.mutable_graph()->mutable_node(0);
  add_integer(node, "q_num_heads", query_heads);
  add_integer(node, "kv_num_heads", heads);
  return model;
}

const SourceNode& state_node(const SourceGraph& graph, const std::string& op) {
  for (const SourceNode& node : graph.entries.front().nodes) {
    if (node.op == op) return node;
  }
  FAIL("no " + op);
  return graph.entries.front().nodes.front();
}

std::string state_text(const SourceNode& node, const std::string& name) {
  return std::get<std::string>(node.attributes.at(name));
}

// 4 query heads and 2 others of 8 keys and 16 values.
const std::vector<StateInput> kHeads = {
    {"q", {"1", "5", "32"}}, {"k", {"1", "5", "16"}}, {"v", {"1", "5", "32"}}};

std::vector<StateInput> with_more(std::vector<StateInput> inputs,
                                  const std::vector<StateInput>& more) {
  inputs.insert(inputs.end(), more.begin(), more.end());
  return inputs;
}

}  // namespace

TEST_CASE("LinearAttention unpacks its heads and keeps its default rule and scale") {
  const SourceGraph graph = read_good(linear_model(
      with_more(kHeads,
                {{"past", {"1", "2", "8", "16"}}, {"g", {"1", "5", "2"}}, {"b", {"1", "5", "2"}}}),
      4, 2));
  const SourceNode& node = state_node(graph, "gated_deltanet");
  CHECK(std::get<int64_t>(node.attributes.at("num_heads")) == 2);
  CHECK(state_text(node, "rule") == "gated_delta");
  CHECK(node.attributes.count("scale") == 0);
  CHECK(node.inputs.size() == 6);
  CHECK(ops_of(graph) == "reshape reshape reshape gated_deltanet reshape");
}

TEST_CASE("a decay by key gets an axis of keys, and one beta serves all heads") {
  const SourceGraph graph = read_good(linear_model(
      with_more(kHeads, {{""}, {"g", {"1", "5", "16"}}, {"b", {"1", "5", "1"}}}), 4, 2));
  CHECK(ops_of(graph) == "reshape reshape reshape reshape expand gated_deltanet reshape");
}

TEST_CASE("states of halves are cast on their way in and out") {
  std::vector<StateInput> inputs = with_more(kHeads, {{"past", {"1", "2", "8", "16"}}});
  for (StateInput& input : inputs) input.type = onnx::TensorProto::FLOAT16;
  onnx::ModelProto model = linear_model(inputs, 4, 2);
  add_state_text(model, "update_rule", "linear");
  CHECK(ops_of(read_good(model)) == "reshape reshape reshape cast gated_deltanet reshape cast");
}

TEST_CASE("lengths and batches of LinearAttention may be symbols") {
  onnx::ModelProto model = linear_model({{"q", {"batch", "steps", "32"}},
                                         {"k", {"batch", "steps", "16"}},
                                         {"v", {"batch", "steps", "32"}}},
                                        4, 2);
  add_state_text(model, "update_rule", "linear");
  CHECK(ops_of(read_good(model, {.dims = {{"batch", 2}, {"steps", 3}}})) ==
        "reshape reshape reshape gated_deltanet reshape");
}

TEST_CASE("LinearAttention is refused by name where heads or inputs do not fit") {
  CHECK(read_bad(linear_model(kHeads, 3, 2)).text().find("q_num_heads is 3") != std::string::npos);
  CHECK(read_bad(linear_model(kHeads, 5, 5)).text().find("of 5 heads") != std::string::npos);
  CHECK(read_bad(linear_model(kHeads, 4, 2)).text().find("wants the input g") != std::string::npos);
  onnx::ModelProto linear = linear_model(with_more(kHeads, {{""}, {"g", {"1", "5", "2"}}}), 4, 2);
  add_state_text(linear, "update_rule", "linear");
  CHECK(read_bad(linear).text().find("no use for g") != std::string::npos);
}

TEST_CASE("CausalConvWithState is causal_conv1d, and swish is silu") {
  onnx::ModelProto model = state_model(
      "CausalConvWithState",
      {{"x", {"2", "6", "9"}}, {"w", {"6", "1", "4"}}, {""}, {"past", {"2", "6", "3"}}});
  add_state_text(model, "activation", "swish");
  const SourceGraph graph = read_good(model);
  CHECK(ops_of(graph) == "causal_conv1d");
  const SourceNode& node = state_node(graph, "causal_conv1d");
  CHECK(state_text(node, "activation") == "silu");
  CHECK_FALSE(node.inputs[2].has_value());
  CHECK(node.inputs[3].has_value());
}

TEST_CASE("CausalConvWithState knows three activations") {
  onnx::ModelProto model =
      state_model("CausalConvWithState", {{"x", {"2", "6", "9"}}, {"w", {"6", "1", "4"}}});
  add_state_text(model, "activation", "relu");
  CHECK(read_bad(model).text().find("\"relu\" is unknown") != std::string::npos);
}
#endif
