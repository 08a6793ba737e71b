// SPDX-License-Identifier: Apache-2.0
// JSON and flatbuffer say the same: going through either form and back changes nothing.
#include <cmath>
#include <limits>

#include "tests/import/import_support.h"

namespace rlx::test {
namespace {

constexpr const char* kFullGraph = R"({
  "rlx_graph": 1, "name": "everything \"quoted\" é", "producer": "train.py", "auto_promote": true,
  "symbols": [{"name": "batch", "max": 64}, {"name": "seq", "min": 8, "max": 512, "multiple_of": 8}],
  "params": [
    {"name": "w.npy", "dtype": "f32", "shape": [2, 3], "data": {"npy": "w.npy"}},
    {"name": "w.st", "dtype": "bf16", "shape": ["seq", 3], "data": {"safetensors": "w.safetensors", "tensor": "a/b"}},
    {"name": "w.own", "dtype": "f8e4m3", "shape": [3], "data": {"safetensors": "w.safetensors"}},
    {"name": "w.raw", "dtype": "i32", "shape": [3], "data": {"raw": "w.bin", "offset": 18446744073709551615}},
    {"name": "w.splat", "dtype": "f32", "shape": [3], "data": {"splat": -0.0}},
    {"name": "w.nan", "dtype": "f32", "shape": [3], "data": {"splat": "nan"}},
    {"name": "w.uniform", "dtype": "f32", "shape": [3],
     "data": {"random": {"distribution": "uniform", "low": -0.1, "high": 0.1, "seed": 18446744073709551615}}},
    {"name": "w.normal", "dtype": "f32", "shape": [3], "data": {"random": {"distribution": "normal", "std": 0.02, "stream": 7}}}
  ],
  "constants": [
    {"name": "c.f32", "dtype": "f32", "shape": [6], "data": {"values": [0.1, "nan", "inf", "-inf", -0.0, 3e38]}},
    {"name": "c.f64", "dtype": "f64", "shape": [1], "data": {"values": [0.1]}},
    {"name": "c.f16", "dtype": "f16", "shape": [2], "data": {"values": [0.1, 65504]}},
    {"name": "c.bf16", "dtype": "bf16", "shape": [1], "data": {"values": [0.1]}},
    {"name": "c.i64", "dtype": "i64", "shape": [2], "data": {"values": [9223372036854775807, -9223372036854775808]}},
    {"name": "c.bool", "dtype": "bool", "shape": [2], "data": {"values": [true, false]}},
    {"name": "c.c64", "dtype": "c64", "shape": [1], "data": {"values": [[1, -2]]}},
    {"name": "c.q4", "dtype": "q4_0", "shape": [32], "data": {"base64": "AAECAwQFBgcICQoLDA0ODxAR"}},
    {"name": "c.empty", "dtype": "f32", "shape": [0], "data": {"values": []}},
    {"name": "c.payload", "dtype": "f32", "shape": [1], "data": {"base64": "AQDAfw=="}}
  ],
  "states": [
    {"name": "s.zeros", "dtype": "f32", "shape": ["batch"], "init": "zeros"},
    {"name": "s.ones", "dtype": "f32", "shape": ["batch"], "init": "ones"},
    {"name": "s.data", "dtype": "i32", "shape": [2], "init": {"values": [1, 2]}}
  ],
  "entries": [
    {"name": "prefill",
     "inputs": [{"name": "x", "dtype": "f32", "shape": ["batch", "seq", 3]}, {"name": "scalar", "dtype": "i64", "shape": []}],
     "nodes": [
       {"name": "n", "op": "whatever", "inputs": ["x", null, "w.npy"], "outputs": ["y", "z"], "source": "train.py:12",
        "attributes": {"i": -1, "f": 1.0, "f2": 0.1, "z": -0.0, "inf": {"float": "inf"}, "nan": {"float": "nan"},
                       "b": true, "s": "text", "ints": [1, 2], "none": [], "floats": [1.0, -0.0, 2.5e-30],
                       "nofloats": {"floats": []}, "infs": {"floats": ["inf", 1]}, "strings": ["a", "b"],
                       "nostrings": {"strings": []}, "dims": ["seq", 4], "alldims": {"dims": ["seq"]},
                       "numdims": {"dims": [4]}, "nodims": {"dims": []}}},
       {"op": "relu", "outputs": ["r"], "bodies": {
          "else": {"outputs": ["x"]},
          "then": {"inputs": ["a", "b"], "outputs": ["c"], "nodes": [
            {"op": "neg", "inputs": ["a"], "outputs": ["c"], "source": "deep",
             "bodies": {"body": {"nodes": [], "outputs": []}}}]}}}
     ],
     "outputs": ["y", "y", "x"]},
    {"name": "decode", "nodes": [], "outputs": []}
  ]})";

std::string rlxg_of(const SourceGraph& graph) {
  Diagnostics diagnostics;
  const std::optional<std::string> bytes = write_rlxg_graph(graph, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(bytes.has_value());
  return *bytes;
}

SourceGraph from_rlxg(const std::string& bytes) {
  Diagnostics diagnostics;
  std::optional<SourceGraph> graph = read_rlxg_graph(bytes_of(bytes), "model.rlxg", diagnostics);
  INFO(diagnostics.text());
  REQUIRE(graph.has_value());
  return *graph;
}

TEST_CASE("JSON to flatbuffer to JSON gives the same text") {
  const std::string json = write_json_graph(read_good(kFullGraph));
  CHECK(write_json_graph(from_rlxg(rlxg_of(read_good(kFullGraph)))) == json);
  CHECK(write_json_graph(read_good(json)) == json);
}

TEST_CASE("flatbuffer to JSON to flatbuffer gives the same bytes") {
  const std::string bytes = rlxg_of(read_good(kFullGraph));
  CHECK(rlxg_of(read_good(write_json_graph(from_rlxg(bytes)))) == bytes);
}

TEST_CASE("both forms keep what was written") {
  const SourceGraph graph = from_rlxg(rlxg_of(read_good(write_json_graph(read_good(kFullGraph)))));
  const auto& attributes = graph.entries[0].nodes[0].attributes;
  CHECK(graph.name == "everything \"quoted\" é");
  CHECK(graph.symbols[1].multiple_of == 8);
  CHECK(std::get<SafetensorsFile>(*graph.params[2].data).tensor == "w.own");
  CHECK(std::get<RawFile>(*graph.params[3].data).offset_bytes == UINT64_MAX);
  CHECK(std::signbit(std::get<SplatData>(*graph.params[4].data).value));
  CHECK(std::get<RandomData>(*graph.params[7].data).stream == 7);
  CHECK_FALSE(graph.states[0].data.has_value());
  CHECK(std::get<SplatData>(*graph.states[1].data).value == 1.0);
  CHECK_FALSE(graph.entries[0].nodes[0].inputs[1].has_value());
  CHECK(std::get<double>(attributes.at("f")) == 1.0);
  CHECK(std::signbit(std::get<double>(attributes.at("z"))));
  CHECK(std::isnan(std::get<double>(attributes.at("nan"))));
  CHECK(std::get<Floats>(attributes.at("nofloats")).empty());
  CHECK(std::get<Strings>(attributes.at("nostrings")).empty());
  CHECK(std::get<SourceDims>(attributes.at("alldims")) == SourceDims{"seq"});
  CHECK(std::get<SourceDims>(attributes.at("numdims")) == SourceDims{int64_t{4}});
  CHECK(graph.entries[0].nodes[1].name == "r");
  const SourceBody& body = graph.entries[0].nodes[1].bodies.at(1);
  CHECK(body.name == "then");
  CHECK(body.inputs == std::vector<std::string>{"a", "b"});
  CHECK(body.nodes.at(0).bodies.at(0).name == "body");
  CHECK(body.nodes.at(0).place.position == "/entries/0/nodes/1/bodies/1/nodes/0");
  CHECK(graph.entries[0].outputs == std::vector<std::string>{"y", "y", "x"});
  CHECK(graph.entries[0].nodes[1].place.position == "/entries/0/nodes/1");
}

TEST_CASE("big inline data goes through base64 without loss") {
  SourceGraph graph = read_good(relu_graph());
  auto owner = std::make_shared<std::vector<std::byte>>(100'003);
  for (size_t i = 0; i < owner->size(); ++i) (*owner)[i] = static_cast<std::byte>(i * 7919 >> 3);
  graph.params.push_back({.name = "w",
                          .dtype = DType::u8,
                          .shape = {int64_t{100'003}},
                          .data = HostBytes{owner, *owner}});
  const std::string bytes = rlxg_of(graph);
  const std::string json = write_json_graph(from_rlxg(bytes));
  CHECK(json.find("base64") != std::string::npos);
  CHECK(rlxg_of(read_good(json)) == bytes);
}

TEST_CASE("convert rewrites a graph by the output's name and back") {
  const TemporaryFolder folder;
  const std::string first = folder.write("a.json", kFullGraph);
  Diagnostics diagnostics;
  CHECK(convert_to(folder, first, "b.rlxg", diagnostics));
  CHECK(convert_to(folder, folder.path("b.rlxg"), "c.json", diagnostics));
  CHECK(convert_to(folder, folder.path("c.json"), "d.rlxg", diagnostics));
  CHECK(diagnostics.all().empty());
  CHECK(read_text(folder.path("b.rlxg")) == read_text(folder.path("d.rlxg")));
  CHECK(read_text(folder.path("b.rlxg")).substr(4, 4) == "RLXG");
}

TEST_CASE("convert keeps file references and says so when the folder changes") {
  const TemporaryFolder folder;
  const std::string first = folder.write("a.json", kFullGraph);
  std::filesystem::create_directory(folder.path("other"));
  Diagnostics diagnostics;
  CHECK(convert_graph(first, folder.path("other/b.json"), diagnostics).has_value());
  CHECK_FALSE(diagnostics.has_errors());
  check_error(diagnostics, DiagCode::FileMissing,
              "refers to weight files by paths relative to its folder");
}

TEST_CASE("convert refuses an unknown form and what is no graph") {
  const TemporaryFolder folder;
  const std::string good = folder.write("a.json", relu_graph());
  const auto errors_of = [](const std::string& from, const std::string& to) {
    Diagnostics diagnostics;
    CHECK_FALSE(convert_graph(from, to, diagnostics).has_value());
    return diagnostics;
  };
  check_only_error(errors_of(good, folder.path("b.onnx")), DiagCode::BadOption,
                   "neither .json nor .rlxg");
  check_only_error(errors_of(folder.path("none.json"), folder.path("b.json")),
                   DiagCode::FileMissing, "the file does not exist");
  check_only_error(errors_of(folder.write("empty", ""), folder.path("b.json")),
                   DiagCode::FileFormat, "the file is empty");
  check_only_error(errors_of(folder.write("x.bin", "\x07\x07"), folder.path("b.json")),
                   DiagCode::FileFormat, "the file is not a graph that rlx reads");
  check_only_error(errors_of(folder.write("a.plan", std::string("RLXPLAN\0 and more", 17)),
                             folder.path("b.json")),
                   DiagCode::FileFormat, "the file is a plan, wanted a model");
}

}  // namespace
}  // namespace rlx::test
