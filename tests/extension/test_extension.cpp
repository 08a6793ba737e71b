// SPDX-License-Identifier: Apache-2.0
// Registered extensions: what descriptions are refused for, and what their ops do in a graph.
#include <filesystem>
#include <fstream>
#include <memory>

#include "compiler/extension/load_extension.h"
#include "compiler/import/import.h"
#include "compiler/ops/registered_ops.h"
#include "compiler/passes/pass.h"
#include "compiler/reference/evaluate.h"
#include "tests/support/catch.h"

using namespace rlx;

namespace {

namespace fs = std::filesystem;

// A folder that is gone when the test ends.
class Folder {
 public:
  Folder()
      : path_(fs::temp_directory_path() / fs::path("rlx_extension_" + std::to_string(++made_))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  static inline int made_ = 0;
  fs::path path_;
};

constexpr const char* kKernel = "RLX_MAIN { y_store(rlx_local_index, x_load(rlx_local_index)); }\n";

// An extension of one op "copy" whose fields besides inputs and outputs are `rest`.
std::string description(const std::string& space, const std::string& rest,
                        const std::string& size = "\"n\"", const std::string& out = "\"n\"") {
  return R"({"rlx_extension": 1, "namespace": ")" + space +
         R"(", "ops": [{"name": "copy", "inputs": [{"name": "x", "dtype": "f32", "shape": [)" +
         size + R"(]}], "outputs": [{"name": "y", "dtype": "f32", "shape": [)" + out + "]}], " +
         rest + "}]}";
}
const std::string kWithKernel = R"("kernel": {"file": "copy.kernel", "groups": "(n + 63) / 64"})";

std::string errors_of(const std::string& text, const std::string& kernel = kKernel,
                      const std::string& graph = "{}") {
  const Folder folder;
  folder.write("extension.json", text);
  folder.write("copy.kernel", kernel);
  folder.write("copy.json", graph);
  Diagnostics diagnostics;
  CHECK_FALSE(load_extension(folder.path(), diagnostics).has_value());
  return diagnostics.text();
}

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

std::optional<Module> module_of(const std::string& nodes, const std::string& shape,
                                Diagnostics& diagnostics) {
  const std::string text =
      R"({"rlx_graph": 1, "inputs": [{"name": "a", "dtype": "f32", "shape": )" + shape +
      R"(}], "nodes": [)" + nodes + R"(], "outputs": ["b"]})";
  const auto source = read_json_graph(text, "model", diagnostics);
  return source ? bind_module(*source, {}, ".", diagnostics) : std::nullopt;
}

}  // namespace

TEST_CASE("descriptions_are_checked_when_they_are_read") {
  CHECK(has(errors_of("{"), "extension.json:1:"));
  CHECK(has(errors_of(description("t1", kWithKernel + R"(, "kernle": 1)")), "kernle"));
  CHECK(has(errors_of(description("t 1", kWithKernel)), "namespace is \"t 1\""));
  CHECK(has(errors_of(description("t1", R"("summary": "nothing")")),
            "t1.copy has neither a kernel nor a graph"));
  CHECK(has(errors_of(description("t1", R"("kernel": {"file": "none.kernel", "groups": 1})")),
            "none.kernel\" cannot be read"));
  CHECK(has(errors_of(description("t1", R"("kernel": {"file": "../x", "groups": 1})")),
            "stay inside it"));
}

TEST_CASE("expressions_name_only_what_is_bound") {
  CHECK(has(errors_of(description("t2", kWithKernel, "\"n\"", "\"n + m\"")),
            "names \"m\", which is neither a size that an input binds nor an int attribute"));
  CHECK(
      has(errors_of(description("t2", R"("kernel": {"file": "copy.kernel", "groups": "n / / 2"})")),
          "is no expression"));
  CHECK(has(errors_of(description("t2", R"("kernel": {"file": "copy.kernel", "groups": "rows"})")),
            "the number of workgroups, \"rows\", names \"rows\""));
  CHECK(has(errors_of(description(
                "t2", R"("requires": [{"not_negative": "k", "why": "so"}], )" + kWithKernel)),
            "a requirement, \"k\", names \"k\""));
}

TEST_CASE("attributes_and_outputs_that_nothing_uses_are_refused") {
  const std::string unused =
      R"("attributes": [{"name": "gain", "type": "float", "default": 1}], )" + kWithKernel;
  CHECK(has(errors_of(description("t3", unused)), "attribute \"gain\" is used by nothing"));
  CHECK(
      has(errors_of(description("t3", kWithKernel), "RLX_MAIN { }"), "never writes output \"y\""));
  CHECK(has(errors_of(description(
                "t3", R"("kernel": {"file": "copy.kernel", "groups": 1, "defines": {"TILE": 2}})")),
            "the define \"TILE\" does not occur"));
  const std::string wrong =
      R"("attributes": [{"name": "k", "type": "int", "default": 1.5}], )" + kWithKernel;
  CHECK(has(errors_of(description("t3", wrong)), "default"));
}

TEST_CASE("gradients_and_circles_are_checked") {
  const auto gradient = [](const std::string& text) {
    return description("t4", kWithKernel + ", \"gradient\": " + text);
  };
  CHECK(has(errors_of(gradient(R"({"op": "none", "inputs": ["d_y"], "gives": ["x"]})")),
            "there is no op \"t4.none\""));
  CHECK(has(errors_of(gradient(R"({"op": "copy", "inputs": ["d_z"], "gives": ["x"]})")),
            "\"d_z\" is neither an input nor an output"));
  CHECK(has(errors_of(gradient(R"({"op": "copy", "inputs": ["d_y", "x"], "gives": ["x"]})")),
            "2 inputs, which takes 1"));
  CHECK(has(errors_of(description("t4", R"("graph": "copy.json")"), kKernel,
                      R"({"nodes": [{"op": "t4.copy", "inputs": ["x"], "outputs": ["y"]}],
                          "outputs": ["y"]})"),
            "leads back to that op"));
}

TEST_CASE("a_name_is_registered_once") {
  const Folder folder;
  folder.write("extension.json", description("once", kWithKernel));
  folder.write("copy.kernel", kKernel);
  Diagnostics diagnostics;
  CHECK(load_extension(folder.path(), diagnostics).has_value());
  CHECK(load_extension(folder.path(), diagnostics).has_value());
  CHECK(diagnostics.text().empty());
  CHECK(has(errors_of(description("once", kWithKernel)), "there is an op \"once.copy\" already"));
}

TEST_CASE("ops_of_graphs_alone_become_them") {
  const Folder folder;
  folder.write("extension.json",
               description("twice", R"("attributes": [{"name": "times", "type": "float"}],
                                       "graph": "copy.json")"));
  folder.write("copy.json", R"({"nodes": [{"op": "affine", "inputs": ["x"], "outputs": ["y"],
                                           "attributes": {"mul": {"word": "times"}}}],
                                "outputs": ["y"]})");
  Diagnostics diagnostics;
  REQUIRE(load_extension(folder.path(), diagnostics).has_value());
  auto module = module_of(R"({"op": "twice.copy", "inputs": ["a"], "outputs": ["b"],
                              "attributes": {"times": 3}})",
                          "[2]", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  Tensor a = Tensor::zeros({DType::f32, {2}});
  a.floats = {1, -2};
  StateValues states;
  const auto before =
      evaluate_entry(*module, module->entries.front(), {a}, states, {}, diagnostics);
  REQUIRE(before.has_value());
  CHECK(before->front().floats == std::vector<double>{3, -6});
  decompose(*module, {}, diagnostics);
  const Graph& graph = module->entries.front();
  REQUIRE(graph.order().size() == 1);
  CHECK(graph.node(graph.order().front()).op == "affine");
}

TEST_CASE("a_graph_that_disagrees_with_its_description_is_told") {
  const Folder folder;
  folder.write("extension.json",
               description("wider", R"("graph": "copy.json")", "\"n\"", "\"n * 2\""));
  folder.write("copy.json", R"({"nodes": [{"op": "neg", "inputs": ["x"], "outputs": ["y"]}],
                                "outputs": ["y"]})");
  Diagnostics diagnostics;
  REQUIRE(load_extension(folder.path(), diagnostics).has_value());
  auto module =
      module_of(R"({"op": "wider.copy", "inputs": ["a"], "outputs": ["b"]})", "[2]", diagnostics);
  REQUIRE(module.has_value());
  decompose(*module, {}, diagnostics);
  CHECK(has(diagnostics.text(), "makes y f32[2], its description f32[4]"));
}

TEST_CASE("nodes_are_held_to_the_description") {
  const Folder folder;
  folder.write("extension.json",
               description("held",
                           R"("attributes": [{"name": "k", "type": "int", "default": 1}],
                                      "requires": [{"not_negative": "n - k", "why": "k fits"}], )" +
                               kWithKernel,
                           "\"n\"", "\"n * 4611686018427387904\""));
  folder.write("copy.kernel", kKernel);
  Diagnostics loading;
  REQUIRE(load_extension(folder.path(), loading).has_value());
  const auto errors = [](const std::string& attributes, const std::string& shape) {
    Diagnostics diagnostics;
    module_of(R"({"op": "held.copy", "inputs": ["a"], "outputs": ["b"], "attributes": )" +
                  attributes + "}",
              shape, diagnostics);
    return diagnostics.text();
  };
  CHECK(has(errors("{}", "[2, 2]"), "wanted rank 1"));
  CHECK(has(errors(R"({"k": 3})", "[2]"), "n - k is -1, wanted 0 or more: k fits"));
  CHECK(has(errors(R"({"q": 3})", "[2]"), "attribute \"q\" is unknown"));
  CHECK(has(errors("{}", "[2]"), "exceeds 64 bits"));
}

TEST_CASE("built_in_families_are_there") {
  built_in_extensions();
  CHECK(is_registered("umap.knn"));
  CHECK_FALSE(is_registered("relu"));
}
