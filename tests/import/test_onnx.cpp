// SPDX-License-Identifier: Apache-2.0
// ONNX models: what becomes of functions, branches, shape arithmetic and external data, what a
// refusal says, and damaged files. The operators themselves are the suite's (tests/onnx).
#ifdef RLX_HAS_ONNX
#include <unistd.h>

#include <random>

#include "compiler/import/import.h"
#include "compiler/ir/graph.h"
#include "compiler/ops/op_id.h"
#include "compiler/passes/pass.h"
#include "compiler/support/check.h"
#include "tests/import/onnx_support.h"

using namespace rlx;
using namespace rlx::test;

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
  add_node(graph, "ImageDecoder", {"x"}, {"a"});
  add_node(graph, "StringSplit", {"x"}, {"b"});
  add_node(graph, "Frobnicate", {"x"}, {"c"}).set_domain("com.example");
  graph.add_output()->set_name("a");
  const Diagnostics found = read_bad(model);
  CHECK(found.error_count() == 3);
  check_error(found, DiagCode::UnsupportedOp,
              "ImageDecoder \"a_node\": operator \"ImageDecoder\" of the default domain, opset 17, "
              "is not supported: images are decoded before the model");
  check_error(found, DiagCode::UnsupportedOp, "rlx has no strings");
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
  REQUIRE(::link(folder.path("outside.bin").c_str(), folder.path("in/twin.bin").c_str()) == 0);
  check_error(read_bad(model_for("twin.bin", "0"), options), DiagCode::FileOutside, "hard links");
}

TEST_CASE("an ONNX model that says two things of one is refused") {
  const auto with_weight = [](const auto& change) {
    onnx::ModelProto model = model_with_input({"2"});
    onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
    tensor.set_name("w");
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(2);
    tensor.add_float_data(1);
    tensor.add_float_data(2);
    add_node(*model.mutable_graph(), "Add", {"x", "w"}, {"y"});
    model.mutable_graph()->add_output()->set_name("y");
    change(model, *model.mutable_graph());
    return model;
  };
  read_good(with_weight([](auto&, auto&) {}));
  // Empty raw data is none.
  read_good(
      with_weight([](auto&, auto& graph) { graph.mutable_initializer(0)->set_raw_data(""); }));
  check_error(read_bad(with_weight([](auto&, auto& graph) {
                graph.mutable_initializer(0)->set_raw_data(std::string(8, '\0'));
              })),
              DiagCode::BadField, "initializer \"w\" has data in more than one place");
  check_error(read_bad(with_weight(
                  [](auto&, auto& graph) { *graph.add_initializer() = graph.initializer(0); })),
              DiagCode::DuplicateName, "initializer \"w\" is given twice");
  check_error(read_bad(with_weight([](auto&, auto& graph) {
                onnx::TensorProto& tensor = *graph.mutable_initializer(0);
                tensor.clear_float_data();
                tensor.set_data_location(onnx::TensorProto::EXTERNAL);
                for (const char* file : {"a.bin", "b.bin"}) {
                  auto& entry = *tensor.add_external_data();
                  entry.set_key("location");
                  entry.set_value(file);
                }
              })),
              DiagCode::BadField, "has two external entries \"location\"");

  // An input whose value an initializer is: with the same type, or another one.
  const auto with_default = [&](int64_t size, int32_t type) {
    return with_weight([&](auto&, auto& graph) {
      onnx::ValueInfoProto& input = *graph.add_input();
      input.set_name("w");
      auto& tensor = *input.mutable_type()->mutable_tensor_type();
      tensor.set_elem_type(type);
      tensor.mutable_shape()->add_dim()->set_dim_value(size);
    });
  };
  read_good(with_default(2, onnx::TensorProto::FLOAT));
  const std::string other =
      "input \"w\" is declared with another type than its initializer, f32[2]";
  check_error(read_bad(with_default(3, onnx::TensorProto::FLOAT)), DiagCode::BadShape, other);
  check_error(read_bad(with_default(2, onnx::TensorProto::INT32)), DiagCode::BadShape, other);

  check_error(
      read_bad(with_weight([](auto& model, auto&) { model.add_opset_import()->set_version(9); })),
      DiagCode::UnsupportedVersion, "the default domain in the versions 17 and 9");
  read_good(with_weight([](auto& model, auto&) { model.add_opset_import()->set_version(17); }));
  check_error(read_bad(with_weight([](auto& model, auto&) {
                for (const char* op : {"Relu", "Neg"}) {
                  onnx::FunctionProto& function = *model.add_functions();
                  function.set_name("F");
                  function.set_domain("own");
                  add_node(function, op, {"a"}, {"b"});
                }
              })),
              DiagCode::DuplicateName, "function \"F\" of domain \"own\" is defined twice");
  check_error(read_bad(with_weight([](auto&, auto& graph) {
                onnx::NodeProto& node = add_node(graph, "LeakyRelu", {"x"}, {"z"});
                add_integer(node, "alpha", 1).set_ref_attr_name("slope");
              })),
              DiagCode::BadAttribute, "refers to one of a function, and stands in none");
}

// y = the innermost Relu of loops inside loops, each of as many trips.
onnx::ModelProto nested_loops(int levels, int64_t trips, const std::string& trip_count) {
  onnx::ModelProto model = model_with_input({"1"});
  onnx::GraphProto* graph = model.mutable_graph();
  add_integers(*graph, "trips", {trips});
  add_integers(*graph, "zero", {0});
  add_node(*graph, "Add", {"trips", "zero"}, {"sum"});
  graph->add_output()->set_name("y");
  for (int level = 0; level < levels; ++level) {
    const bool is_outer = level == 0;
    onnx::NodeProto& loop =
        add_node(*graph, "Loop", {trip_count, "", is_outer ? "x" : "a"}, {is_outer ? "y" : "b"});
    onnx::AttributeProto& attribute = *loop.add_attribute();
    attribute.set_name("body");
    attribute.set_type(onnx::AttributeProto::GRAPH);
    graph = attribute.mutable_g();
    for (const char* input : {"i", "on", "a"}) graph->add_input()->set_name(input);
    for (const char* output : {"on", "b"}) graph->add_output()->set_name(output);
  }
  add_node(*graph, "Relu", {"a"}, {"b"});
  return model;
}

TEST_CASE("loops inside loops are counted before a trip is put in place, or by the first one") {
  check_error(read_bad(nested_loops(20, 2, "trips")), DiagCode::Limit,
              "this node stands for 2097151 nodes");
  check_error(read_bad(nested_loops(12, 4096, "trips")), DiagCode::Limit, "2^63 or more");
  check_error(read_bad(nested_loops(3, 300, "sum")), DiagCode::Limit,
              "in its place stand 26910000 nodes");
  CHECK(read_good(nested_loops(3, 2, "trips")).entries.at(0).nodes.size() == 8);
  read_good(nested_loops(1, 5000, "trips"));  // a node with a body
}

TEST_CASE("the limits of reliability.md hold in ONNX models") {
  const auto with_shape = [](const std::vector<std::string>& dims) {
    onnx::ModelProto model = model_with_input(dims);
    add_node(*model.mutable_graph(), "Relu", {"x"}, {"y"});
    model.mutable_graph()->add_output()->set_name("y");
    return model;
  };
  check_error(read_bad(with_shape(std::vector<std::string>(9, "1"))), DiagCode::Limit,
              "has rank 9");
  check_error(read_bad(with_shape({"1099511627776"})), DiagCode::BadShape, "dim 1099511627776");
  check_error(read_bad(with_shape({"1099511627775", "1024"})), DiagCode::Limit,
              "more than 2^48 bytes");

  onnx::ModelProto named = with_shape({"1"});
  named.mutable_graph()->mutable_output(0)->set_name(std::string(257, 'y'));
  *named.mutable_graph()->mutable_node(0)->mutable_output(0) = std::string(257, 'y');
  check_error(read_bad(named), DiagCode::BadField, "257 bytes long");
  named.mutable_graph()->mutable_output(0)->set_name("\xff");
  *named.mutable_graph()->mutable_node(0)->mutable_output(0) = "\xff";
  check_error(read_bad(named), DiagCode::BadField, "not valid UTF-8");

  // Each level of a graph in an attribute nests three messages.
  onnx::ModelProto deep = with_shape({"1"});
  onnx::GraphProto* graph = deep.mutable_graph();
  for (int level = 0; level < 40; ++level) graph = graph->add_node()->add_attribute()->mutable_g();
  check_error(read_bad(deep), DiagCode::Syntax, "nested deeper than 100");
}

TEST_CASE("what follows from a ConstantOfShape is left to no run") {
  onnx::ModelProto model = model_with_input({"4", "512"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "size", {512, 256});
  add_node(graph, "ConstantOfShape", {"size"}, {"zeros"});
  add_node(graph, "Exp", {"zeros"}, {"ones"});
  add_node(graph, "MatMul", {"x", "ones"}, {"y"});
  graph.add_output()->set_name("y");
  const SourceGraph source = read_good(model);
  CHECK(ops_of(source) == "expand exp matmul");
  Diagnostics diagnostics;
  auto module = bind_module(source, {}, ".", diagnostics);
  REQUIRE(module.has_value());
  fold_constants(*module, {}, diagnostics);
  remove_dead(*module, {}, diagnostics);
  INFO(diagnostics.text() << print(*module));
  REQUIRE(module->entries[0].order().size() == 1);
  CHECK(module->entries[0].node(module->entries[0].order()[0]).op == OpId::matmul);
}

TEST_CASE("an input that is a result too has another name there") {
  onnx::ModelProto model = model_with_input({"4"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_node(graph, "Neg", {"x"}, {"y"});
  graph.add_output()->set_name("y");
  graph.add_output()->set_name("x");
  const SourceGraph source = read_good(model);
  CHECK(ops_of(source) == "neg identity");
  CHECK(source.entries[0].outputs == std::vector<std::string>{"y", "x.out"});
}

TEST_CASE("a small ONNX model costs little, whatever it asks for") {
  // Elements that a few bytes ask for, a terabyte each: they stay nodes, or are refused by name.
  onnx::ModelProto model = model_with_input({"1"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_integers(graph, "size", {int64_t{1} << 37});
  add_node(graph, "ConstantOfShape", {"size"}, {"zeros"});
  add_node(graph, "Add", {"zeros", "x"}, {"y"});
  graph.add_output()->set_name("y");
  CHECK(ops_of(read_good(model)) == "expand add");

  // Functions that call others twice each are counted before they are put in place: a walk through
  // 2^40 nodes would not end.
  onnx::ModelProto doubling = model_with_input({"1"});
  doubling.add_opset_import()->set_domain("own");
  doubling.mutable_opset_import(1)->set_version(1);
  for (int level = 0; level < 39; ++level) {
    onnx::FunctionProto& function = *doubling.add_functions();
    function.set_name("f" + std::to_string(level));
    function.set_domain("own");
    function.add_input("a");
    function.add_output("c");
    *function.add_opset_import() = doubling.opset_import(0);
    *function.add_opset_import() = doubling.opset_import(1);
    const std::string inner = level == 0 ? "Relu" : "f" + std::to_string(level - 1);
    add_node(function, inner, {"a"}, {"b"}).set_domain(level == 0 ? "" : "own");
    add_node(function, inner, {"b"}, {"c"}).set_domain(level == 0 ? "" : "own");
  }
  add_node(*doubling.mutable_graph(), "f38", {"x"}, {"y"}).set_domain("own");
  doubling.mutable_graph()->add_output()->set_name("y");
  // A call is a node, beside the body in its place.
  check_error(read_bad(doubling), DiagCode::Limit,
              "the call of function \"f38\" stands for 1099511627775 nodes");
  check_error(read_bad(doubling), DiagCode::Limit, "a model may have 2^20 nodes, and 0 stand");
}

TEST_CASE("branches inside each other are counted by the larger one") {
  // Each If holds two of the next depth in both branches.
  onnx::ModelProto model = model_with_input({"1"});
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::TensorProto& condition = *graph.add_initializer();
  condition.set_name("condition");
  condition.set_data_type(onnx::TensorProto::BOOL);
  condition.add_int32_data(1);
  onnx::FunctionProto& function = *model.add_functions();
  function.set_name("Many");
  function.set_domain("own");
  function.add_input("a");
  function.add_output("v100000");
  *function.add_opset_import() = model.opset_import(0);
  for (int i = 0; i < 100000; ++i) {
    add_node(function, "Relu", {i == 0 ? "a" : "v" + std::to_string(i)},
             {"v" + std::to_string(i + 1)});
  }
  model.add_opset_import()->set_domain("own");
  model.mutable_opset_import(1)->set_version(1);
  onnx::NodeProto& choice = add_node(graph, "If", {"condition"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto& attribute = *choice.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    onnx::GraphProto& branch = *attribute.mutable_g();
    branch.set_name(name);
    const int calls = name == std::string("then_branch") ? 1 : 11;
    for (int i = 0; i < calls; ++i) {
      add_node(branch, "Many", {i == 0 ? "x" : "b" + std::to_string(i)},
               {"b" + std::to_string(i + 1)})
          .set_domain("own");
    }
    branch.add_output()->set_name("b" + std::to_string(calls));
  }
  graph.add_output()->set_name("y");
  check_error(read_bad(model), DiagCode::Limit, "this node stands for 1100012 nodes");
}

TEST_CASE("sequences that are unrolled are counted before they are") {
  onnx::ModelProto model = model_with_input({"512", "1", "1"});
  onnx::GraphProto& graph = *model.mutable_graph();
  for (const char* name : {"w", "r"}) {
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const int64_t dim : {1, 1, 1}) tensor.add_dims(dim);
    tensor.add_float_data(1);
  }
  for (int i = 0; i < 2000; ++i) {
    const std::string number = std::to_string(i);
    onnx::NodeProto& node = add_node(graph, "RNN", {"x", "w", "r"}, {"y" + number, "h" + number});
    // Of a cell that is no operator.
    onnx::AttributeProto& activations = *node.add_attribute();
    activations.set_name("activations");
    activations.set_type(onnx::AttributeProto::STRINGS);
    activations.add_strings("Softsign");
    graph.add_output()->set_name("h" + number);
  }
  check_error(read_bad(model), DiagCode::Limit, "in its place stand ");
}

TEST_CASE("rows of a rotary embedding's tables are those of all of a batch where they have one") {
  const auto turned = [](int64_t rows) {
    onnx::ModelProto model = model_with_input({"2", "1", "3", "4"});
    model.mutable_opset_import(0)->set_version(23);
    onnx::GraphProto& graph = *model.mutable_graph();
    std::vector<float> table;
    for (int64_t i = 0; i < rows * 6; ++i) table.push_back(0.25F * static_cast<float>(i % 6));
    for (const char* name : {"cos", "sin"})
      add_tensor<float>(graph, name, onnx::TensorProto::FLOAT, {rows, 3, 2}, table);
    add_node(graph, "RotaryEmbedding", {"x", "cos", "sin"}, {"y"});
    graph.add_output()->set_name("y");
    Tensor x{.type = {DType::f32, {2, 1, 3, 4}}};
    for (int i = 0; i < 24; ++i) x.floats.push_back(i);
    return evaluated(read_good(model), {x}).at(0).floats;
  };
  CHECK(turned(1) == turned(2));
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
