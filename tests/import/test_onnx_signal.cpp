// SPDX-License-Identifier: Apache-2.0
// ONNX's DFT and STFT: which transforms they become, at fixed and at open sizes.
#ifdef RLX_HAS_ONNX
#include "tests/import/onnx_support.h"

namespace rlx::test {
namespace {

// A transform of x; constants are initializers of one i64 each, "" leaves the input out.
onnx::ModelProto transform_model(
    const std::string& op, const std::vector<std::string>& dims,
    const std::vector<std::optional<int64_t>>& constants,
    const std::vector<std::pair<std::string, int64_t>>& attributes = {}, int64_t opset = 17) {
  onnx::ModelProto model = model_with_input(dims);
  model.mutable_opset_import(0)->set_version(opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  std::vector<std::string> inputs = {"x"};
  for (const std::optional<int64_t>& constant : constants) {
    inputs.push_back(constant ? "c" + std::to_string(inputs.size()) : "");
    if (!constant) continue;
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(inputs.back());
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_int64_data(*constant);
  }
  onnx::NodeProto& node = add_node(graph, op, inputs, {"y"});
  for (const auto& [name, value] : attributes) add_integer(node, name, value);
  graph.add_output()->set_name("y");
  return model;
}

const SourceNode& transform_in(const SourceGraph& graph, const std::string& op) {
  for (const SourceNode& node : graph.entries.front().nodes) {
    if (node.op == op) return node;
  }
  FAIL("no " + op + " in " + ops_of(graph));
  return graph.entries.front().nodes.front();
}

template <typename T>
bool has_attribute(const SourceNode& node, const std::string& name, const T& value) {
  const auto found = node.attributes.find(name);
  return found != node.attributes.end() && std::get<T>(found->second) == value;
}

}  // namespace

TEST_CASE("a DFT of real numbers is an rfft of its length, and one of pairs an fft") {
  const SourceGraph real =
      read_good(transform_model("DFT", {"3", "10", "1"}, {16}, {{"onesided", 1}}));
  CHECK(ops_of(real) == "reshape rfft");
  CHECK(has_attribute(transform_in(real, "rfft"), "n", int64_t{16}));
  CHECK(has_attribute(transform_in(real, "rfft"), "onesided", true));
  CHECK(has_attribute(transform_in(real, "rfft"), "axis", int64_t{1}));
  const SourceGraph pairs =
      read_good(transform_model("DFT", {"3", "10", "7", "2"}, {}, {{"inverse", 1}, {"axis", 2}}));
  CHECK(ops_of(pairs) == "fft");
  CHECK(has_attribute(transform_in(pairs, "fft"), "norm", std::string("backward")));
  CHECK(has_attribute(transform_in(pairs, "fft"), "inverse", true));
  const SourceGraph inverse =
      read_good(transform_model("DFT", {"3", "10", "1"}, {}, {{"inverse", 1}}));
  CHECK(ops_of(inverse) == "pad fft");
}

TEST_CASE("the inverse of one side is an irfft of its length, and of pairs alone") {
  const SourceGraph whole =
      read_good(transform_model("DFT", {"3", "9", "2"}, {}, {{"inverse", 1}, {"onesided", 1}}));
  CHECK(ops_of(whole) == "irfft reshape");
  CHECK(has_attribute(transform_in(whole, "irfft"), "norm", std::string("backward")));
  const SourceGraph sized =
      read_good(transform_model("DFT", {"3", "9", "2"}, {15}, {{"inverse", 1}, {"onesided", 1}}));
  CHECK(has_attribute(transform_in(sized, "irfft"), "n", int64_t{15}));
  CHECK(read_bad(transform_model("DFT", {"3", "9", "1"}, {}, {{"inverse", 1}, {"onesided", 1}}))
            .text()
            .find("wants pairs") != std::string::npos);
}

TEST_CASE("the axis of a DFT is an input from opset 20 on, the last but one without") {
  const SourceGraph last = read_good(transform_model("DFT", {"3", "10", "7", "2"}, {}, {}, 20));
  CHECK(has_attribute(transform_in(last, "fft"), "axis", int64_t{2}));
  const SourceGraph first =
      read_good(transform_model("DFT", {"3", "10", "7", "2"}, {std::nullopt, -4}, {}, 20));
  CHECK(has_attribute(transform_in(first, "fft"), "axis", int64_t{0}));
}

TEST_CASE("a DFT of open sizes is one, and no numbers or pairs are refused by name") {
  const OnnxOptions open = {.keep_symbols = true};
  CHECK(ops_of(read_good(transform_model("DFT", {"batch", "64", "2"}, {}), open)) == "fft");
  CHECK(ops_of(read_good(transform_model("DFT", {"3", "length", "2"}, {32}), open)) == "fft");
  CHECK(ops_of(read_good(transform_model("DFT", {"3", "length", "1"}, {}), open)) ==
        "reshape rfft");
  const SourceGraph half = read_good(
      transform_model("DFT", {"3", "length", "2"}, {}, {{"inverse", 1}, {"onesided", 1}}), open);
  CHECK(ops_of(half) == "irfft reshape");
  CHECK(read_bad(transform_model("DFT", {"3", "4", "3"}, {})).text().find("last axis of 1 or 2") !=
        std::string::npos);
  CHECK(read_bad(transform_model("DFT", {"3", "4", "2"}, {0})).text().find("0 points") !=
        std::string::npos);
}

TEST_CASE("an STFT reads its frames from the signal") {
  const SourceGraph real =
      read_good(transform_model("STFT", {"2", "100", "1"}, {8, std::nullopt, 32}));
  CHECK(ops_of(real) == "reshape stft");
  CHECK(has_attribute(transform_in(real, "stft"), "frame_len", int64_t{32}));
  CHECK(has_attribute(transform_in(real, "stft"), "hop", int64_t{8}));
  const SourceGraph pairs = read_good(
      transform_model("STFT", {"2", "100", "2"}, {8, std::nullopt, 32}, {{"onesided", 0}}));
  CHECK(has_attribute(transform_in(pairs, "stft"), "onesided", false));
  CHECK(transform_in(pairs, "complex").inputs.size() == 2);
  const SourceGraph open = read_good(
      transform_model("STFT", {"2", "length", "1"}, {8, std::nullopt, 32}), {.keep_symbols = true});
  CHECK(ops_of(open) == "reshape stft");
  CHECK(read_bad(transform_model("STFT", {"2", "20", "1"}, {8, std::nullopt, 32}))
            .text()
            .find("20 points") != std::string::npos);
}

}  // namespace rlx::test
#endif
