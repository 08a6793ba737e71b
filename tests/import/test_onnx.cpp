// SPDX-License-Identifier: Apache-2.0
// ONNX models: what becomes of functions, branches, shape arithmetic and external data, what a
// refusal says, and damaged files. The operators themselves are the suite's (tests/onnx).
#ifdef RLX_HAS_ONNX
#include <onnx.pb.h>
#include <unistd.h>

#include <random>

#include "compiler/import/onnx/onnx_reader.h"
#include "compiler/support/check.h"
#include "tests/import/import_support.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// Opset 17, one float input "x".
onnx::ModelProto model_with_input(const std::vector<std::string>& dims) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  onnx::ValueInfoProto& input = *graph.add_input();
  input.set_name("x");
  auto& tensor = *input.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(onnx::TensorProto::FLOAT);
  tensor.mutable_shape();
  for (const std::string& dim : dims) {
    auto& added = *tensor.mutable_shape()->add_dim();
    if (dim.find_first_not_of("0123456789") == std::string::npos && !dim.empty()) {
      added.set_dim_value(std::stoll(dim));
    } else if (!dim.empty()) {
      added.set_dim_param(dim);
    }
  }
  return model;
}

template <typename Owner>
onnx::NodeProto& add_node(Owner& graph, const std::string& op,
                          const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  node.set_name(outputs.front() + "_node");
  for (const std::string& input : inputs) node.add_input(input);
  for (const std::string& output : outputs) node.add_output(output);
  return node;
}

onnx::AttributeProto& add_integer(onnx::NodeProto& node, const std::string& name, int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
  return attribute;
}

void add_integers(onnx::GraphProto& graph, const std::string& name,
                  const std::vector<int64_t>& values) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor.add_int64_data(value);
}

std::optional<SourceGraph> read(const onnx::ModelProto& model, Diagnostics& diagnostics,
                                const OnnxOptions& options = {}) {
  return read_onnx_graph(bytes_of(model.SerializeAsString()), "m.onnx", options, diagnostics).graph;
}

SourceGraph read_good(const onnx::ModelProto& model, const OnnxOptions& options = {}) {
  Diagnostics diagnostics;
  std::optional<SourceGraph> graph = read(model, diagnostics, options);
  INFO(diagnostics.text());
  REQUIRE(graph.has_value());
  return *graph;
}

Diagnostics read_bad(const onnx::ModelProto& model, const OnnxOptions& options = {}) {
  Diagnostics diagnostics;
  CHECK_FALSE(read(model, diagnostics, options).has_value());
  return diagnostics;
}

std::string ops_of(const SourceGraph& graph) {
  std::string ops;
  for (const SourceNode& node : graph.entries.front().nodes)
    ops += (ops.empty() ? "" : " ") + node.op;
  return ops;
}

}  // namespace

TEST_CASE("shape arithmetic of exporters disappears") {
  onnx::ModelProto model = model_with_input({"n", "3", "4"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "zero", {0});
  add_integers(graph, "rest", {-1});
  add_node(graph, "Shape", {"x"}, {"shape"});
  add_node(graph, "Gather", {"shape", "zero"}, {"batch"});
  add_node(graph, "Concat", {"batch", "rest"}, {"wanted"}).add_attribute()->CopyFrom([] {
    onnx::AttributeProto axis;
    axis.set_name("axis");
    axis.set_type(onnx::AttributeProto::INT);
    return axis;
  }());
  add_node(graph, "Reshape", {"x", "wanted"}, {"y"});
  graph.add_output()->set_name("y");
  const SourceGraph read = read_good(model, {.dims = {{"n", 5}}});
  CHECK(ops_of(read) == "reshape");
  CHECK(read.constants.empty());
  CHECK(std::get<Ints>(read.entries[0].nodes[0].attributes.at("shape")) == Ints{5, -1});
}

TEST_CASE("symbols need values, and values need symbols") {
  onnx::ModelProto model = model_with_input({"n", ""});
  add_node(*model.mutable_graph(), "Relu", {"x"}, {"y"});
  model.mutable_graph()->add_output()->set_name("y");
  check_error(read_bad(model), DiagCode::UnboundSymbol, "give it with --dim n=N");
  check_error(read_bad(model, {.dims = {{"n", 2}}}), DiagCode::UnboundSymbol, "--dim x.1=N");
  CHECK(ops_of(read_good(model, {.dims = {{"n", 2}, {"x.1", 3}}})) == "relu");
  CHECK(ops_of(read_good(model, {.shapes = {{"x", {2, 3}}}})) == "relu");
  check_error(read_bad(model, {.dims = {{"m", 2}}, .shapes = {{"x", {2, 3}}}}),
              DiagCode::BadBinding, "names no symbol of the model");
  check_error(read_bad(model, {.shapes = {{"x", {2}}}}), DiagCode::BadBinding, "does not fit");
}

TEST_CASE("every operator that is not supported is listed with its reason") {
  onnx::ModelProto model = model_with_input({"4"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_node(graph, "Unique", {"x"}, {"a"});
  add_node(graph, "SequenceConstruct", {"x"}, {"b"});
  add_node(graph, "Frobnicate", {"x"}, {"c"}).set_domain("com.example");
  graph.add_output()->set_name("a");
  const Diagnostics found = read_bad(model);
  CHECK(found.error_count() == 3);
  check_error(found, DiagCode::UnsupportedOp,
              "Unique \"a_node\": operator \"Unique\" of the "
              "default domain, opset 17, is not supported: the "
              "size of its result depends on data");
  check_error(found, DiagCode::UnsupportedOp, "no sequences");
  check_error(found, DiagCode::UnsupportedOp, "domain \"com.example\"");
}

TEST_CASE("attributes and inputs that nothing reads are refused") {
  onnx::ModelProto model = model_with_input({"4"});
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::NodeProto& node = add_node(graph, "Relu", {"x"}, {"y"});
  graph.add_output()->set_name("y");
  add_integer(node, "speed", 3);
  check_error(read_bad(model), DiagCode::UnknownAttribute, "\"speed\" is not understood");
  node.clear_attribute();
  node.add_input("x");
  check_error(read_bad(model), DiagCode::UnsupportedOp, "input 1 is not understood");
}

TEST_CASE("functions and decided branches stand in place") {
  onnx::ModelProto model = model_with_input({"4"});
  onnx::FunctionProto& function = *model.add_functions();
  function.set_name("Twice");
  function.set_domain("local");
  function.add_input("a");
  function.add_output("r");
  function.add_attribute("which");
  function.add_opset_import()->set_version(17);
  onnx::NodeProto& constant = add_node(function, "Constant", {}, {"flag"});
  onnx::AttributeProto& value = *constant.add_attribute();
  value.set_name("value_int");
  value.set_ref_attr_name("which");
  value.set_type(onnx::AttributeProto::INT);
  add_node(function, "Cast", {"flag"}, {"cond"}).add_attribute()->CopyFrom([] {
    onnx::AttributeProto to;
    to.set_name("to");
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(onnx::TensorProto::BOOL);
    return to;
  }());
  onnx::NodeProto& branch = add_node(function, "If", {"cond"}, {"r"});
  for (const auto& [name, op] :
       {std::pair("then_branch", "Sin"), std::pair("else_branch", "Cos")}) {
    onnx::AttributeProto& body = *branch.add_attribute();
    body.set_name(name);
    body.set_type(onnx::AttributeProto::GRAPH);
    add_node(*body.mutable_g(), op, {"a"}, {"inner"});
    body.mutable_g()->add_output()->set_name("inner");
  }
  onnx::GraphProto& graph = *model.mutable_graph();
  model.add_opset_import()->set_domain("local");
  add_integer(add_node(graph, "Twice", {"x"}, {"u"}), "which", 1);
  add_integer(add_node(graph, "Twice", {"u"}, {"v"}), "which", 0);
  for (onnx::NodeProto& node : *graph.mutable_node()) node.set_domain("local");
  graph.add_output()->set_name("v");
  CHECK(ops_of(read_good(model)) == "sin cos");
}

TEST_CASE("functions that call themselves end in a diagnostic") {
  onnx::ModelProto model = model_with_input({"4"});
  onnx::FunctionProto& function = *model.add_functions();
  function.set_name("F");
  function.set_domain("local");
  function.add_input("a");
  function.add_output("r");
  function.add_opset_import()->set_domain("local");
  add_node(function, "F", {"a"}, {"b"}).set_domain("local");
  add_node(function, "F", {"b"}, {"r"}).set_domain("local");
  add_node(*model.mutable_graph(), "F", {"x"}, {"y"}).set_domain("local");
  model.mutable_graph()->add_output()->set_name("y");
  check_error(read_bad(model), DiagCode::Limit, "nested deeper than 32");
}

TEST_CASE("external data stays in the model's folder") {
  const TemporaryFolder folder;
  folder.write("in/weights.bin", raw_bytes<float>({0, 1, 2, 3}));
  folder.write("outside.bin", raw_bytes<float>({1, 2}));
  REQUIRE(::symlink("../outside.bin", folder.path("in/link.bin").c_str()) == 0);
  const auto model_for = [](const std::string& location, const std::string& offset) {
    onnx::ModelProto model = model_with_input({"2"});
    onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name("w");
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(2);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : {std::pair<std::string, std::string>("location", location),
                                     std::pair<std::string, std::string>("offset", offset)}) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    add_node(*model.mutable_graph(), "Add", {"x", "w"}, {"y"});
    model.mutable_graph()->add_output()->set_name("y");
    return model;
  };
  const OnnxOptions options = {.folder = folder.path("in")};
  const SourceGraph good = read_good(model_for("weights.bin", "8"), options);
  const auto& bytes = std::get<HostBytes>(*good.params.front().data).bytes;
  CHECK(std::memcmp(bytes.data(), raw_bytes<float>({2, 3}).data(), 8) == 0);
  check_error(read_bad(model_for("weights.bin", "12"), options), DiagCode::FileSize, "needs 8");
  check_error(read_bad(model_for("weights.bin", "-4"), options), DiagCode::BadField, "no number");
  for (const std::string& bad :
       {std::string("../outside.bin"), folder.path("outside.bin"), std::string("link.bin")})
    check_error(read_bad(model_for(bad, "0"), options), DiagCode::FileOutside, "");
}

TEST_CASE("damaged ONNX files are refused or read, and nothing else") {
  onnx::ModelProto model = model_with_input({"2", "8"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "shape", {4, -1});
  add_node(graph, "Reshape", {"x", "shape"}, {"r"});
  add_integer(add_node(graph, "Softmax", {"r"}, {"s"}), "axis", -1);
  onnx::NodeProto& split = add_node(graph, "Split", {"s"}, {"p", "q"});
  add_integer(split, "axis", 1);
  add_node(graph, "Gemm", {"p", "q"}, {"y"});
  add_integer(*graph.mutable_node(3), "transB", 1);
  graph.add_output()->set_name("y");
  const std::string good = model.SerializeAsString();
  read_good(model);
  const auto try_bytes = [](const std::string& bytes) {
    Diagnostics diagnostics;
    const auto result = read_onnx_graph(bytes_of(bytes), "m.onnx", {}, diagnostics);
    CHECK(result.graph.has_value() != diagnostics.has_errors());
  };
  for (size_t length = 0; length < good.size(); ++length) try_bytes(good.substr(0, length));
  std::mt19937 random(7);  // NOLINT: the same faults in every run
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (uint32_t i = 0; i < 1 + random() % 3; ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    try_bytes(bytes);
  }
}
#endif
