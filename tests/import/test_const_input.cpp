// SPDX-License-Identifier: Apache-2.0
// Inputs that the user makes constants: --const.
#include "compiler/import/const_input.h"
#include "tests/import/import_support.h"
#ifdef RLX_HAS_ONNX
#include "tests/import/onnx_support.h"
#endif

using namespace rlx;
using namespace rlx::test;

namespace {

Tensor made(const std::string& text, DType dtype, const KnownDims& dims) {
  auto tensor = const_tensor(text, dtype, dims);
  if (const auto* fault = std::get_if<std::string>(&tensor)) FAIL(*fault);
  return std::get<Tensor>(tensor);
}

std::string fault_of(const std::string& text, DType dtype, const KnownDims& dims) {
  auto tensor = const_tensor(text, dtype, dims);
  return std::holds_alternative<Tensor>(tensor) ? "" : std::get<std::string>(tensor);
}

bool tells(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

// y = x * scale, over f32[2] and f32[].
const std::string kScaled =
    R"({"rlx_graph": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [2]},
                                   {"name": "scale", "dtype": "f32", "shape": []}],
        "nodes": [{"op": "mul", "inputs": ["x", "scale"], "outputs": ["y"]}], "outputs": ["y"]})";

std::optional<SourceGraph> read_with(const std::string& json, const ConstInputs& constants,
                                     Diagnostics& diagnostics) {
  return read_graph(bytes_of(json), "model.json", diagnostics, {.constants = constants});
}

// An .npy file of version 1.0.
std::string npy_of(const std::string& descr, const std::string& shape, const std::string& payload) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         payload;
}

}  // namespace

TEST_CASE("a number is every element, a list each of them") {
  CHECK(made("16000", DType::i64, {}).integers == std::vector<int64_t>{16000});
  CHECK(made("9007199254740993", DType::i64, {1}).integers ==
        std::vector<int64_t>{9007199254740993});
  CHECK(made("0.5", DType::f32, {2, 2}).floats == std::vector<double>(4, 0.5));
  CHECK(made("false", DType::bool_, {}).integers == std::vector<int64_t>{0});
  CHECK(made("-inf", DType::f16, {1}).floats.front() < -1e300);
  CHECK(made("[1, 2, 3]", DType::i32, {3}).integers == std::vector<int64_t>{1, 2, 3});
  CHECK(made("[[1, 2], [3, 4]]", DType::f32, {2, 2}).floats == std::vector<double>{1, 2, 3, 4});
  CHECK(made("[1, 2, 3]", DType::i64, {std::nullopt}).type.shape == Shape{3});
}

TEST_CASE("values that do not fit the input are told") {
  CHECK(tells(fault_of("maybe", DType::f32, {}), "no number"));
  CHECK(tells(fault_of("{}", DType::f32, {}), "no number"));
  CHECK(tells(fault_of("300", DType::u8, {}), "does not fit"));
  CHECK(tells(fault_of("1.5", DType::i64, {}), "does not fit"));
  CHECK(tells(fault_of("[1, 2]", DType::f32, {3}), "2 values"));
  CHECK(tells(fault_of("1", DType::f32, {std::nullopt}), "--dim"));
  CHECK(tells(fault_of("1", DType::f32, {int64_t{1} << 30}), ".npy"));
  CHECK(tells(fault_of("missing.npy", DType::f32, {}), "missing.npy"));
}

TEST_CASE("a file gives the values and the open dims of an input") {
  const TemporaryFolder folder;
  const std::string path = folder.write("v.npy", npy_of("<f4", "(2,)", raw_bytes<float>({3, 4})));
  const Tensor tensor = made(path, DType::f32, {std::nullopt});
  CHECK(tensor.type.shape == Shape{2});
  CHECK(tensor.floats == std::vector<double>{3, 4});
  CHECK(tells(fault_of(path, DType::f32, {3}), "f32[2], wanted f32[3]"));
  CHECK(tells(fault_of(path, DType::i32, {2}), "wanted i32[2]"));
}

TEST_CASE("an input with a value is a constant of the graph") {
  Diagnostics diagnostics;
  const auto graph = read_with(kScaled, {{"scale", "3"}}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(graph);
  CHECK(graph->entries.front().inputs.size() == 1);
  const auto module = bind_module(*graph, {}, ".", diagnostics);
  REQUIRE(module);
  REQUIRE(module->weights.size() == 1);
  CHECK(module->weights.front().is_constant);
}

TEST_CASE("a value for no input, or one that does not fit, is refused with its name") {
  Diagnostics unknown;
  CHECK_FALSE(read_with(kScaled, {{"scael", "3"}}, unknown));
  check_only_error(unknown, DiagCode::BadBinding, "its inputs are \"scale\", \"x\"");
  Diagnostics wrong;
  CHECK_FALSE(read_with(kScaled, {{"x", "[1, 2, 3]"}}, wrong));
  check_only_error(wrong, DiagCode::BadBinding, "input \"x\"");
}

#ifdef RLX_HAS_ONNX
namespace {

// y = x "count" times, which is an input of the model.
onnx::ModelProto tiled_by_input() {
  onnx::ModelProto model = model_with_input({"5"});
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::ValueInfoProto& count = *graph.add_input();
  count.set_name("count");
  count.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::INT64);
  count.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(-1);
  add_node(graph, "Tile", {"x", "count"}, {"y"});
  graph.add_output()->set_name("y");
  return model;
}

}  // namespace

TEST_CASE("what an ONNX model must know may be given with --const, which its refusal says") {
  const onnx::ModelProto model = tiled_by_input();
  check_error(read_bad(model, {.shapes = {{"count", {1}}}}), DiagCode::UnsupportedOp,
              "--const count=VALUE");
  const SourceGraph graph = read_good(model, {.fixed_inputs = {{"count", "[3]"}}});
  CHECK(graph.entries.front().inputs.size() == 1);
  check_error(read_bad(model, {.fixed_inputs = {{"count", "[3.5]"}}}), DiagCode::BadBinding,
              "input \"count\" has a value that does not fit");
  check_error(read_bad(model, {.fixed_inputs = {{"count", "[3]"}, {"cuont", "1"}}}),
              DiagCode::BadBinding, "--const names \"cuont\"");
}

TEST_CASE("a dim of -1 is open") {
  onnx::ModelProto model = model_with_input({"5"});
  auto& tensor = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  tensor.mutable_shape()->mutable_dim(0)->set_dim_value(-1);
  add_node(*model.mutable_graph(), "Relu", {"x"}, {"y"});
  model.mutable_graph()->add_output()->set_name("y");
  check_error(read_bad(model), DiagCode::UnboundSymbol, "--dim x.0=N");
  CHECK(read_good(model, {.dims = {{"x.0", 4}}}).entries.front().inputs.front().shape ==
        SourceDims{4});
  CHECK(read_good(model, {.shapes = {{"x", {7}}}}).entries.front().inputs.front().shape ==
        SourceDims{7});
  const SourceGraph open = read_good(model, {.keep_symbols = true});
  CHECK(open.entries.front().inputs.front().shape == SourceDims{"x.0"});
  tensor.mutable_shape()->mutable_dim(0)->set_dim_value(-2);
  check_error(read_bad(model), DiagCode::BadShape, "has the dim -2");
}
#endif
