// SPDX-License-Identifier: Apache-2.0
// One model as several entries, each with symbols bound in its own way.
#include "compiler/import/entries.h"
#include "tests/import/import_support.h"

namespace rlx::test {
namespace {

// y = x @ w + rows, of a symbolic batch and a param that has it too; `extra`: fields.
std::string batch_graph(const std::string& extra = {}) {
  return R"({"rlx_graph": 1, )" + extra +
         R"("symbols": [{"name": "batch", "min": 1, "max": 64}, {"name": "n", "min": 1, "max": 9}],
      "params": [{"name": "w", "dtype": "f32", "shape": [2, 2], "data": {"values": [1, 2, 3, 4]}},
                 {"name": "rows", "dtype": "f32", "shape": ["batch", 2], "data": {"splat": 1}}],
      "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 2]}],
      "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["p"]},
                {"op": "add", "inputs": ["p", "rows"], "outputs": ["y"]}], "outputs": ["y"]})";
}

std::optional<Module> load(const std::string& text, const std::vector<EntryRequest>& requests,
                           Diagnostics& diagnostics, const DimBindings& dims = {{"n", 1}}) {
  const TemporaryFolder folder;
  return load_entries(folder.write("m.json", text), {.dims = dims}, requests, diagnostics);
}

Module load_good(const std::string& text, const std::vector<EntryRequest>& requests,
                 const DimBindings& dims = {{"n", 1}}) {
  Diagnostics diagnostics;
  std::optional<Module> module = load(text, requests, diagnostics, dims);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  return *module;
}

std::string refusal(const std::string& text, const std::vector<EntryRequest>& requests) {
  Diagnostics diagnostics;
  CHECK_FALSE(load(text, requests, diagnostics).has_value());
  return diagnostics.text();
}

const Shape& input_shape(const Module& module, size_t entry) {
  const Graph& graph = module.entries.at(entry);
  return graph.value(graph.inputs.at(0)).type.shape;
}

TEST_CASE("entries of one model share its weights, whatever their symbols are bound to") {
  const Module module =
      load_good(batch_graph(), {{.name = "one", .source = {}, .dims = {{"batch", 1}}},
                                {.name = "many", .source = {}, .dims = {{"batch", 8}}},
                                {.name = "again", .source = {}, .dims = {{"batch", 1}}}});
  REQUIRE(module.entries.size() == 3);
  CHECK(module.entries[0].name == "one");
  CHECK(module.entries[1].name == "many");
  CHECK(input_shape(module, 0) == Shape{1, 2});
  CHECK(input_shape(module, 1) == Shape{8, 2});
  CHECK(input_shape(module, 2) == Shape{1, 2});
  REQUIRE(module.weights.size() == 3);  // w, and rows of two sizes
  CHECK(module.weights[2].name == "rows@many");
  CHECK(module.weights[2].type.shape == Shape{8, 2});
}

TEST_CASE("a symbol is the module's only where all entries bind it alike") {
  const Module module =
      load_good(batch_graph(), {{.name = "one", .source = {}, .dims = {{"batch", 1}}},
                                {.name = "many", .source = {}, .dims = {{"batch", 8}}}});
  REQUIRE(module.symbols.size() == 2);
  CHECK(module.symbols[0].differs);
  CHECK_FALSE(module.symbols[1].differs);
}

// Nothing but the input has a symbol in its shape.
const char* const kFreeBatch = R"({"rlx_graph": 1,
    "symbols": [{"name": "batch", "min": 1, "max": 64}, {"name": "n", "min": 1, "max": 9}],
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", 2]}],
    "nodes": [{"op": "relu", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]})";

TEST_CASE("an entry with several ranges is a graph for each combination, the largest first") {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.json", kFreeBatch);
  Diagnostics diagnostics;
  const std::optional<Module> module =
      load_entries(path,
                   {.ranged_dims = {{"batch", {{1, 2, 1}, {4, 32, 4}}},
                                    {"n", {{1, 1, 1}, {2, 3, 1}, {5, 9, 1}}}}},
                   {}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  REQUIRE(module->entries.size() == 6);
  const auto range = [&](size_t entry, size_t symbol) {
    const GraphRange& found = module->entries[entry].ranges.at(symbol);
    return std::vector<int64_t>{found.symbol, found.minimum, found.maximum, found.multiple_of};
  };
  CHECK(range(0, 0) == std::vector<int64_t>{0, 4, 32, 4});
  CHECK(range(0, 1) == std::vector<int64_t>{1, 5, 9, 1});
  CHECK(range(5, 0) == std::vector<int64_t>{0, 1, 2, 1});
  CHECK(range(5, 1) == std::vector<int64_t>{1, 1, 1, 1});
  for (const Graph& graph : module->entries) CHECK(graph.name == "main");
  CHECK(input_shape(*module, 0)[0].bound() == 32);
  CHECK(module->symbols[0].minimum == 1);
  CHECK(module->symbols[0].maximum == 32);
  CHECK(module->symbols[0].multiple_of == 1);
  CHECK(module->symbols[1].is_free);
}

TEST_CASE("a last range of one value is refused") {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.json", kFreeBatch);
  Diagnostics diagnostics;
  CHECK_FALSE(load_entries(path, {.dims = {{"n", 1}}, .ranged_dims = {{"batch", {{1, 2}, {8, 8}}}}},
                           {}, diagnostics)
                  .has_value());
  CHECK(diagnostics.text().find("the last range of symbol \"batch\" has one value, 8") !=
        std::string::npos);
}

TEST_CASE("dims of an entry go before those of all entries") {
  const Module module = load_good(kFreeBatch,
                                  {{.name = "default", .source = "main", .dims = {}},
                                   {.name = "own", .source = {}, .dims = {{"batch", 5}}}},
                                  {{"n", 1}, {"batch", 3}});
  CHECK(input_shape(module, 0) == Shape{3, 2});
  CHECK(input_shape(module, 1) == Shape{5, 2});
}

TEST_CASE("a scan whose steps a run counts is refused for that alone") {
  const std::string text = R"({"rlx_graph": 1, "symbols": [{"name": "n", "min": 1, "max": 16}],
    "inputs": [{"name": "h", "dtype": "f32", "shape": [2]}, {"name": "xs", "dtype": "f32", "shape": ["n", 2]}],
    "nodes": [{"op": "scan", "inputs": ["h", "xs"], "outputs": ["last"], "attributes": {"num_carry": 1, "length": "n"},
               "bodies": {"body": {"inputs": ["c", "x"], "outputs": ["next"], "nodes": [
                 {"op": "add", "inputs": ["c", "x"], "outputs": ["next"]}]}}}],
    "outputs": ["last"]})";
  const TemporaryFolder folder;
  const std::string path = folder.write("m.json", text);
  Diagnostics diagnostics;
  CHECK_FALSE(load_module(path, {.free_dims = {{"n", {1, 16, 1}}}}, diagnostics).has_value());
  check_only_error(diagnostics, DiagCode::FreeSize,
                   "the size n is free, and its body needs a number");
}

TEST_CASE("an input in blocks has a last dim of whole blocks at every size") {
  const std::string text = R"({"rlx_graph": 1, "symbols": [{"name": "n", "min": 1, "max": 640}],
    "inputs": [{"name": "x", "dtype": "q8_0", "shape": [2, "n"]}],
    "nodes": [{"op": "dequantize_weights", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["y"]})";
  const TemporaryFolder folder;
  const std::string path = folder.write("m.json", text);
  Diagnostics diagnostics;
  CHECK_FALSE(load_module(path, {.free_dims = {{"n", {1, 640, 1}}}}, diagnostics).has_value());
  CHECK(diagnostics.text().find("its last dim must hold whole blocks of 32 elements") !=
        std::string::npos);
  Diagnostics fine;
  CHECK(load_module(path, {.free_dims = {{"n", {32, 640, 32}}}}, fine).has_value());
  INFO(fine.text());
  CHECK_FALSE(fine.has_errors());
}

TEST_CASE("weights in blocks have neither free lines nor a free depth") {
  const TemporaryFolder folder;
  for (const char* shapes :
       {R"([4, "s"]|[64, "s"])", R"([4, 64]|["s", 64])", R"([4, "s"]|[64, 64])"}) {
    const std::string both = shapes;
    const std::string x = both.substr(0, both.find('|'));
    const std::string w = both.substr(both.find('|') + 1);
    const std::string path = folder.write(
        "blocks.json",
        R"({"rlx_graph": 1, "symbols": [{"name": "s", "min": 32, "max": 256, "multiple_of": 32}],
  "inputs": [{"name": "x", "dtype": "f32", "shape": )" +
            x + R"(}, {"name": "w", "dtype": "q4_0", "shape": )" + w +
            R"(}], "outputs": ["y"], "nodes": [{"name": "up", "op": "dequant_matmul",
  "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"scheme": "q4_0"}}]})");
    Diagnostics diagnostics;
    CHECK_FALSE(load_module(path, {.free_dims = {{"s", {32, 256, 32}}}}, diagnostics).has_value());
    INFO(diagnostics.text());
    REQUIRE(diagnostics.all().size() == 1);
    CHECK(diagnostics.all()[0].node == "up");
    CHECK(diagnostics.all()[0].message == "the size s is free, and its shape needs a number");
    CHECK(diagnostics.all()[0].hint.find("--dim NAME=N") != std::string::npos);
  }
}

TEST_CASE("a param of a free size is refused by name") {
  const TemporaryFolder folder;
  Diagnostics diagnostics;
  CHECK_FALSE(load_module(folder.write("m.json", batch_graph()),
                          {.dims = {{"n", 1}}, .free_dims = {{"batch", {1, 8}}}}, diagnostics)
                  .has_value());
  CHECK(diagnostics.text().find("the size of param \"rows\"") != std::string::npos);
}

const char* const kTwoEntries = R"({"rlx_graph": 1, "symbols": [{"name": "n", "min": 1, "max": 9}],
    "states": [{"name": "s", "dtype": "f32", "shape": ["n"], "init": {"splat": 2}}],
    "entries": [{"name": "a", "nodes": [{"op": "relu", "inputs": ["s"], "outputs": ["y"]}], "outputs": ["y"]},
                {"name": "b", "nodes": [{"op": "neg", "inputs": ["s"], "outputs": ["y"]}], "outputs": ["y"]}]})";

TEST_CASE("entries of a model with several are chosen by name, in the order of the requests") {
  const Module module = load_good(kTwoEntries, {{.name = "b", .source = {}, .dims = {}},
                                                {.name = "c", .source = "a", .dims = {}}});
  REQUIRE(module.entries.size() == 2);
  CHECK(module.entries[0].name == "b");
  CHECK(module.entries[0].node(NodeId{0}).op == "neg");
  CHECK(module.entries[1].name == "c");
  CHECK(module.entries[1].node(NodeId{0}).op == "relu");
  CHECK(module.states.size() == 1);
}

TEST_CASE("what cannot be an entry is refused by name") {
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(refusal(kTwoEntries, {{.name = "c", .source = {}, .dims = {}}}),
      "no entry \"c\" [bad-option]\n  hint: its entries are: \"a\", \"b\"");
  has(refusal(kTwoEntries, {{.name = "c", .source = {}, .dims = {{"n", 2}}}}), "as c=ENTRY:DIM=N");
  has(refusal(kTwoEntries,
              {{.name = "a", .source = {}, .dims = {}}, {.name = "a", .source = "b", .dims = {}}}),
      "two entries are asked for as \"a\"");
  has(refusal(kTwoEntries, {{.name = "a", .source = {}, .dims = {{"n", 2}}},
                            {.name = "b", .source = {}, .dims = {{"n", 3}}}}),
      "state \"s\" is f32[3] in entry \"b\", but f32[2] in an entry before it");
  has(refusal(batch_graph(), {{.name = "x", .source = {}, .dims = {{"batch", 65}}}}),
      "bound to 65");
  has(refusal(batch_graph(), {{.name = "x", .source = {}, .dims = {{"bach", 1}}}}),
      "names no symbol");
}

}  // namespace
}  // namespace rlx::test
