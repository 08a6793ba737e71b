// SPDX-License-Identifier: Apache-2.0
// Hostile flatbuffers: every mutation is read or refused, nothing crashes or hangs.
#include <flatbuffers/flatbuffers.h>

#include <chrono>

#include "compiler/import/rlxg_verify.h"
#include "schema/graph_generated.h"
#include "tests/import/import_support.h"

namespace rlx::test {
namespace {

std::string small_rlxg() {
  const SourceGraph graph =
      read_good(R"({"rlx_graph": 1, "name": "g", "symbols": [{"name": "b", "max": 4}],
      "params": [{"name": "w", "dtype": "f32", "shape": ["b", 2], "data": {"npy": "w.npy"}},
                 {"name": "v", "dtype": "u8", "shape": [4], "data": {"values": [1, 2, 3, 4]}}],
      "states": [{"name": "s", "dtype": "f32", "shape": [1], "init": {"random": {"distribution": "normal"}}}],
      "inputs": [{"name": "x", "dtype": "f32", "shape": ["b"]}],
      "nodes": [{"op": "relu", "inputs": ["x", null], "outputs": ["y"], "source": "here",
                 "attributes": {"i": 3, "l": [1, 2], "f": [0.5], "s": "t", "t": ["u"], "d": ["b", 1]}}],
      "outputs": ["y"]})");
  Diagnostics diagnostics;
  return write_rlxg_graph(graph, diagnostics).value();
}

// Reads, writes and binds; returns whether the bytes were read.
bool survives(const std::string& bytes) {
  Diagnostics diagnostics;
  const std::optional<SourceGraph> graph = read_graph(bytes_of(bytes), "model.rlxg", diagnostics);
  if (!graph) {
    REQUIRE(diagnostics.has_errors());
    return false;
  }
  // A graph that was read goes through the other form and back.
  const std::string json = write_json_graph(*graph);
  Diagnostics again;
  const std::optional<SourceGraph> reread = read_json_graph(json, "model.json", again);
  INFO(again.text());
  REQUIRE(reread.has_value());
  REQUIRE(write_json_graph(*reread) == json);
  static_cast<void>(bind_module(*graph, {{"b", 2}}, "/nonexistent", diagnostics));
  return true;
}

TEST_CASE("a flatbuffer with any byte changed is read or refused") {
  const std::string good = small_rlxg();
  REQUIRE(survives(good));
  size_t read = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int change : {0x01, 0x80, 0xff, 0x10}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      read += survives(bad) ? 1 : 0;
    }
  }
  CHECK(read < good.size() * 4);
}

TEST_CASE("a flatbuffer cut at any byte is refused") {
  const std::string good = small_rlxg();
  for (size_t length = 0; length < good.size(); ++length) {
    Diagnostics diagnostics;
    static_cast<void>(read_graph(bytes_of(good.substr(0, length)), "model.rlxg", diagnostics));
    if (length + 16 < good.size()) CHECK(diagnostics.has_errors());
  }
}

TEST_CASE("a flatbuffer at an odd address is read") {
  auto owner = std::make_shared<std::string>("x" + small_rlxg());
  Diagnostics diagnostics;
  CHECK(read_rlxg_graph({owner, std::as_bytes(std::span(*owner)).subspan(1)}, "m.rlxg", diagnostics)
            .has_value());
}

TEST_CASE("a foreign version, dtype and distribution are refused by name") {
  const auto errors_of = [](uint32_t version, const char* dtype, const char* distribution) {
    flatbuffers::FlatBufferBuilder builder;
    const auto random = fb::CreateRandomDirect(builder, distribution);
    const std::vector<flatbuffers::Offset<fb::Dim>> shape = {fb::CreateDim(builder, 2)};
    const auto tensor =
        fb::CreateTensorDirect(builder, "w", dtype, &shape, fb::Data::Random, random.Union());
    const std::vector<flatbuffers::Offset<fb::Tensor>> params = {tensor};
    const std::vector<flatbuffers::Offset<fb::GraphEntry>> entries;
    fb::FinishGraphBuffer(
        builder, fb::CreateGraphDirect(builder, version, nullptr, nullptr, nullptr, &params,
                                       nullptr, nullptr, &entries));
    Diagnostics diagnostics;
    const std::string bytes(reinterpret_cast<const char*>(builder.GetBufferPointer()),
                            builder.GetSize());
    CHECK_FALSE(read_rlxg_graph(bytes_of(bytes), "m.rlxg", diagnostics).has_value());
    return diagnostics;
  };
  check_only_error(errors_of(9, "f32", "normal"), DiagCode::UnsupportedVersion, "format version 9");
  check_only_error(errors_of(1, "f33", "normal"), DiagCode::UnknownDtype,
                   "m.rlxg:/params/0: error: tensor \"w\" has unknown dtype \"f33\"");
  check_only_error(errors_of(1, "f32", "cauchy"), DiagCode::BadField,
                   "unknown distribution \"cauchy\"");
  check_only_error(errors_of(1, "f32", "normal"), DiagCode::BadField, "the graph has no entries");
}

// A file of `tables` references to one node that lists `strings` references to one input name.
std::string shared_vector_bomb(size_t tables, size_t strings) {
  flatbuffers::FlatBufferBuilder builder;
  const auto name = builder.CreateString("n");
  const auto inputs =
      builder.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>(strings, name));
  const auto node = fb::CreateNode(builder, name, name, inputs, inputs);
  const auto nodes = builder.CreateVector(std::vector<flatbuffers::Offset<fb::Node>>(tables, node));
  const auto no_inputs = builder.CreateVector(std::vector<flatbuffers::Offset<fb::Tensor>>());
  const auto entry = fb::CreateGraphEntry(builder, name, no_inputs, nodes, inputs);
  const auto entries =
      builder.CreateVector(std::vector<flatbuffers::Offset<fb::GraphEntry>>{entry});
  fb::FinishGraphBuffer(builder, fb::CreateGraph(builder, 1, 0, 0, 0, 0, 0, 0, entries));
  return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
}

TEST_CASE("a megabyte of references to one long vector is refused at once") {
  const std::string bomb = shared_vector_bomb(100'000, 100'000);
  const auto start = std::chrono::steady_clock::now();
  CHECK(find_rlxg_fault(bytes_of(bomb).bytes).has_value());
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  CHECK_FALSE(find_rlxg_fault(bytes_of(shared_vector_bomb(3, 3)).bytes).has_value());
}

}  // namespace
}  // namespace rlx::test
