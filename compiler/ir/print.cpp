// SPDX-License-Identifier: Apache-2.0
// Stable text form of a module.
#include <string>

#include "compiler/ir/graph.h"

namespace rlx {
namespace {

struct DataText {
  const Module& module;
  std::string operator()(const HostBytes& data) const {
    return std::to_string(data.bytes.size()) + " bytes";
  }
  std::string operator()(const SplatData& data) const {
    return "splat " + to_string(AttributeValue(data.value));
  }
  std::string operator()(const RandomData& data) const {
    const bool uniform = data.distribution == RandomData::Distribution::Uniform;
    return std::string(uniform ? "uniform " : "normal ") + to_string(AttributeValue(data.a)) + " " +
           to_string(AttributeValue(data.b)) + " seed " + std::to_string(data.seed) + " stream " +
           std::to_string(data.stream);
  }
  std::string operator()(const ComputedData& data) const;
};

std::string attributes_text(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes) {
    text += (text.empty() ? "" : ", ") + name + "=" + to_string(value);
  }
  return text.empty() ? "" : " {" + text + "}";
}

std::string DataText::operator()(const ComputedData& data) const {
  std::string text = data.op + "(";
  for (size_t i = 0; i < data.inputs.size(); ++i) {
    if (i > 0) text += ", ";
    text += data.inputs[i] ? module.weight(*data.inputs[i]).name : "null";
  }
  return text + ")" + attributes_text(data.attributes);
}

std::string region_text(const Node& node) {
  std::string text;
  for (size_t i = 0; i < node.region.size(); ++i) {
    const RegionStep& step = node.region[i];
    text += "    step " + std::to_string(node.inputs.size() + i) + " = " + step.op + "(";
    for (size_t k = 0; k < step.operands.size(); ++k) {
      text += (k > 0 ? ", " : "") + std::to_string(step.operands[k]);
    }
    text +=
        ")" + attributes_text(step.attributes) + " : " + std::string(name_of(step.dtype)) + "\n";
  }
  return text;
}

std::string values_text(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (const ValueId id : values) text += (text.empty() ? "" : ", ") + graph.value(id).name;
  return "(" + text + ")";
}

std::string node_text(const Graph& graph, const Node& node, const std::string& indent);

std::string bodies_text(const Node& node, const std::string& indent) {
  std::string text;
  for (const auto& body : node.bodies) {
    text += indent + "body " + body->name + values_text(*body, body->inputs) + "\n";
    for (const NodeId id : body->order()) text += node_text(*body, body->node(id), indent + "  ");
    text += indent + "  return " + values_text(*body, body->outputs()) + "\n";
  }
  return text;
}

std::string node_text(const Graph& graph, const Node& node, const std::string& indent) {
  std::string text = indent;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Value& output = graph.value(node.outputs[i]);
    text += (i > 0 ? ", " : "") + output.name + " : " + to_string(output.type);
  }
  text += " = " + node.op + "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (i > 0) text += ", ";
    text += node.inputs[i] ? graph.value(*node.inputs[i]).name : "null";
  }
  text += ")" + attributes_text(node.attributes);
  if (node.outputs.empty() || node.name != graph.value(node.outputs[0]).name) {
    text += " \"" + node.name + "\"";
  }
  return text + "\n" + region_text(node) + bodies_text(node, indent + "  ");
}

}  // namespace

std::string print(const Module& module, const Graph& graph) {
  std::string text = "entry " + graph.name + "(";
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Value& input = graph.value(graph.inputs[i]);
    text += (i > 0 ? ", " : "") + input.name + " : " + to_string(input.type);
  }
  text += ")\n";
  for (size_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId(i));
    if (value.origin == ValueOrigin::Weight && value.name != module.weight(*value.weight).name) {
      text += "  " + value.name + " = weight " + module.weight(*value.weight).name + "\n";
    }
  }
  for (NodeId id : graph.order()) text += node_text(graph, graph.node(id), "  ");
  text += "  return (";
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    text += (i > 0 ? ", " : "") + graph.value(graph.outputs()[i]).name;
  }
  return text + ")\n";
}

std::string print(const Module& module) {
  std::string text = "module " + module.name + "\n";
  for (const Symbol& symbol : module.symbols) {
    if (symbol.differs) continue;
    text += "symbol " + symbol.name + " = " + std::to_string(symbol.bound) + " in [" +
            std::to_string(symbol.minimum) + ", " + std::to_string(symbol.maximum) +
            "] multiple of " + std::to_string(symbol.multiple_of) + "\n";
  }
  for (const Weight& weight : module.weights) {
    text += (weight.is_constant ? "constant " : "param ") + weight.name + " : " +
            to_string(weight.type) + " = " + std::visit(DataText{module}, weight.data) + "\n";
  }
  for (const State& state : module.states) {
    text += "state " + state.name + " : " + to_string(state.type) + " = " +
            (state.init ? module.weight(*state.init).name : "zeros") + "\n";
  }
  for (const Graph& graph : module.entries) text += print(module, graph);
  return text;
}

}  // namespace rlx
