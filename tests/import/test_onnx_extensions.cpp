// SPDX-License-Identifier: Apache-2.0
// Nodes of ONNX models that registered extensions compute.
#ifdef RLX_HAS_ONNX
#include "compiler/extension/load_extension.h"
#include "tests/import/onnx_support.h"

namespace rlx::test {
namespace {

// A node of this domain over an input of distances.
onnx::ModelProto model_of(const std::string& domain, const std::string& op,
                          const std::string& attribute) {
  onnx::ModelProto model = model_with_input({"4", "4"});
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.clear_node();
  graph.clear_output();
  onnx::NodeProto& node = *graph.add_node();
  node.set_domain(domain);
  node.set_op_type(op);
  node.add_input(graph.input(0).name());
  node.add_output("nearest");
  node.add_output("far");
  add_integer(node, attribute, 2);
  graph.add_output()->set_name("far");
  return model;
}

TEST_CASE("a node whose domain is an extension's namespace is its op") {
  built_in_extensions();
  const SourceGraph graph = read_good(model_of("umap", "knn", "k"));
  REQUIRE(graph.entries.at(0).nodes.size() == 1);
  const SourceNode& node = graph.entries.at(0).nodes.at(0);
  CHECK(node.op == "umap.knn");
  CHECK(node.attributes.at("k") == SourceAttribute(int64_t{2}));
  CHECK(node.outputs.size() == 2);
}

TEST_CASE(
    "a node of an extension that it does not fit, or of an unknown domain, is refused by name") {
  built_in_extensions();
  check_error(read_bad(model_of("umap", "knn", "neighbours")), DiagCode::BadAttribute, "\"k\"");
  check_error(read_bad(model_of("umap", "pull", "k")), DiagCode::UnsupportedOp, "--extension DIR");
}

}  // namespace
}  // namespace rlx::test
#endif
