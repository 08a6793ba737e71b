// SPDX-License-Identifier: Apache-2.0
// Element types of ONNX that rlx does not have: in constants, and between quantising and back.
#ifdef RLX_HAS_ONNX
#include <limits>

#include "tests/import/onnx_support.h"

namespace rlx::test {
namespace {

// Of versions of ONNX that the build may not have.
enum : int32_t { kUint4 = 21, kInt4, kFloat4, kFloat8E8m0, kUint2, kInt2 };

// y = DequantizeLinear of constant codes by the scale 2.
std::vector<double> numbers_of(int32_t type, int64_t count, const std::vector<uint8_t>& bytes) {
  onnx::ModelProto model = model_with_input({"1"});
  model.mutable_opset_import(0)->set_version(25);
  onnx::GraphProto& graph = *model.mutable_graph();
  add_tensor<uint8_t>(graph, "codes", type, {count}, bytes);
  add_tensor<float>(graph, "scale", onnx::TensorProto::FLOAT, {}, {2});
  add_node(graph, "DequantizeLinear", {"codes", "scale"}, {"y"});
  graph.add_output()->set_name("y");
  return evaluated(read_good(model), {reals({0})}).at(0).floats;
}

// y: x quantised by the scale 1 to the zero point's type, and back.
onnx::ModelProto there_and_back(int32_t type, const std::vector<uint8_t>& zero) {
  onnx::ModelProto model = model_with_input({"4"});
  model.mutable_opset_import(0)->set_version(25);
  onnx::GraphProto& graph = *model.mutable_graph();
  add_tensor<uint8_t>(graph, "zero", type, {}, zero);
  add_tensor<float>(graph, "scale", onnx::TensorProto::FLOAT, {}, {1});
  add_node(graph, "QuantizeLinear", {"x", "scale", "zero"}, {"codes"});
  add_node(graph, "DequantizeLinear", {"codes", "scale", "zero"}, {"y"});
  graph.add_output()->set_name("y");
  return model;
}

// y: x quantised by the scale 1 to int4, as numbers; its zero point is the value "zero", which
// nodes make of the int4 constants "codes", 1 and 2.
struct Moved {
  onnx::ModelProto model = model_with_input({"4"});
  onnx::GraphProto& graph = *model.mutable_graph();

  Moved() {
    model.mutable_opset_import(0)->set_version(25);
    add_tensor<uint8_t>(graph, "codes", kInt4, {2}, {0x21});
    add_integers(graph, "places", {0});
    add_tensor<float>(graph, "scale", onnx::TensorProto::FLOAT, {}, {1});
  }
  onnx::ModelProto& finish() {
    add_node(graph, "QuantizeLinear", {"x", "scale", "zero"}, {"quantised"});
    add_node(graph, "Cast", {"quantised"}, {"y"}).add_attribute()->CopyFrom(to_float());
    graph.add_output()->set_name("y");
    return model;
  }
  static onnx::AttributeProto to_float() {
    onnx::AttributeProto to;
    to.set_name("to");
    to.set_type(onnx::AttributeProto::INT);
    to.set_i(onnx::TensorProto::FLOAT);
    return to;
  }
};

// A graph inside a node; ONNX wants types of what goes in and out.
onnx::GraphProto& add_body(onnx::NodeProto& node, const std::string& name,
                           const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs) {
  onnx::GraphProto& body = add_graph(node, name);
  for (const std::string& input : inputs) body.add_input()->set_name(input);
  for (const std::string& output : outputs) body.add_output()->set_name(output);
  return body;
}

}  // namespace

// y = `op` of two constants of that type: [2, 3] by [3], or by [2, 3] turned.
std::vector<int64_t> product_of(const std::string& op, bool is_column) {
  onnx::ModelProto model = model_with_input({"1"});
  onnx::GraphProto& graph = *model.mutable_graph();
  constexpr int64_t kLarge = int64_t{1} << 33;
  add_tensor<int64_t>(graph, "a", onnx::TensorProto::INT64, {2, 3}, {1, 2, 3, kLarge, -1, 0});
  add_tensor<int64_t>(
      graph, "b", onnx::TensorProto::INT64, is_column ? Shape{3} : Shape{2, 3},
      is_column ? std::vector<int64_t>{5, kLarge, 1} : std::vector<int64_t>{1, 0, 1, 3, 2, 1});
  onnx::NodeProto& node = add_node(graph, op, {"a", "b"}, {"y"});
  if (op == "Gemm") add_integer(node, "transB", 1);
  graph.add_output()->set_name("y");
  return evaluated(read_good(model), {reals({0})}).at(0).integers;
}

TEST_CASE("an output that is declared with another type than its node makes is refused") {
  const auto with = [](int32_t type) {
    onnx::ModelProto model = model_with_input({"2"});
    add_node(*model.mutable_graph(), "Shape", {"x"}, {"y"});
    onnx::ValueInfoProto& output = *model.mutable_graph()->add_output();
    output.set_name("y");
    output.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    return model;
  };
  read_good(with(onnx::TensorProto::INT64));
  read_good(with(onnx::TensorProto::UNDEFINED));
  for (const auto& [type, name] : {std::pair(onnx::TensorProto::FLOAT, "float"),
                                   std::pair(onnx::TensorProto::UINT16, "uint16"),
                                   std::pair(onnx::TensorProto::STRING, "string")})
    check_only_error(read_bad(with(type)), DiagCode::BadDtype,
                     std::string("\"y\" is declared as ") + name + ", its node makes i64");
}

TEST_CASE("products of integers are sums of products, exact as they are") {
  constexpr int64_t kLarge = int64_t{1} << 33;
  CHECK(product_of("MatMul", true) == std::vector<int64_t>{8 + 2 * kLarge, 4 * kLarge});
  CHECK(product_of("Gemm", false) == std::vector<int64_t>{4, 10, kLarge, 3 * kLarge - 2});
}

TEST_CASE("constants of packed types are read, the first element in the low bits") {
  using Values = std::vector<double>;
  CHECK(numbers_of(kUint4, 3, {0xF1, 0x07}) == Values{2, 30, 14});
  CHECK(numbers_of(kInt4, 3, {0xF1, 0x08}) == Values{2, -2, -16});
  CHECK(numbers_of(kUint2, 5, {0b11100100, 0b10}) == Values{0, 2, 4, 6, 4});
  CHECK(numbers_of(kInt2, 5, {0b11100100, 0b01}) == Values{0, 2, -4, -2, 2});
  CHECK(numbers_of(kFloat4, 16, {0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE}) ==
        Values{0, 1, 2, 3, 4, 6, 8, 12, -0.0, -1, -2, -3, -4, -6, -8, -12});
  CHECK(numbers_of(onnx::TensorProto::UINT16, 2, {0x34, 0x12, 0xFF, 0xFF}) ==
        Values{2.0 * 0x1234, 2.0 * 0xFFFF});
}

TEST_CASE("scales that are powers of two alone are exact") {
  onnx::ModelProto model = model_with_input({"1"});
  model.mutable_opset_import(0)->set_version(25);
  onnx::GraphProto& graph = *model.mutable_graph();
  add_tensor<uint8_t>(graph, "e", kFloat8E8m0, {5}, {0, 1, 127, 254, 255});
  add_integer(add_node(graph, "Cast", {"e"}, {"y"}), "to", onnx::TensorProto::FLOAT);
  graph.add_output()->set_name("y");
  const std::vector<double> got = evaluated(read_good(model), {reals({0})}).at(0).floats;
  REQUIRE(got.size() == 5);
  CHECK(std::vector(got.begin(), got.begin() + 4) ==
        std::vector<double>{0x1p-127, 0x1p-126, 1, 0x1p127});
  CHECK(std::isnan(got[4]));
}

TEST_CASE("what is quantised to such a type stays within its range") {
  const auto kept = [](int32_t type, const std::vector<uint8_t>& zero) {
    return evaluated(read_good(there_and_back(type, zero)), {reals({-9e4, -3, 2, 9e4})})
        .at(0)
        .floats;
  };
  using Values = std::vector<double>;
  CHECK(kept(kInt4, {1}) == Values{-9, -3, 2, 6});
  CHECK(kept(kUint4, {3}) == Values{-3, -3, 2, 12});
  CHECK(kept(kInt2, {0}) == Values{-2, -2, 1, 1});
  CHECK(kept(kUint2, {1}) == Values{-1, -1, 2, 2});
  CHECK(kept(onnx::TensorProto::UINT16, {0x00, 0x80}) == Values{-32768, -3, 2, 32767});
}

TEST_CASE("a zero point of such a type is one behind what moves it") {
  using Add = void (*)(onnx::GraphProto&);
  for (const Add add : {
           Add([](onnx::GraphProto& graph) {
             add_integers(graph, "shape", {1, 2});
             add_node(graph, "Reshape", {"codes", "shape"}, {"rows"});
             add_node(graph, "Transpose", {"rows"}, {"columns"});
             add_node(graph, "Flatten", {"columns"}, {"flat"});
             add_node(graph, "Identity", {"flat"}, {"same"});
             add_node(graph, "Gather", {"same", "places"}, {"first"});
             add_node(graph, "Squeeze", {"first"}, {"zero"});
           }),
           Add([](onnx::GraphProto& graph) {
             add_integers(graph, "one", {1});
             add_node(graph, "Slice", {"codes", "places", "one"}, {"cut"});
             add_node(graph, "Concat", {"cut", "codes"}, {"longer"});
             add_integer(*graph.mutable_node(1), "axis", 0);
             add_node(graph, "Unsqueeze", {"longer", "places"}, {"row"});
             add_integers(graph, "sizes", {2, 3});
             add_node(graph, "Expand", {"row", "sizes"}, {"rows"});
             add_node(graph, "Tile", {"rows", "sizes"}, {"tiled"});
             add_node(graph, "ReduceMin", {"tiled"}, {"zero"});
             add_integer(*graph.mutable_node(5), "keepdims", 0);
           }),
           // A branch that x chooses, and a loop that carries it, of as many trips as x says.
           Add([](onnx::GraphProto& graph) {
             add_tensor<float>(graph, "none", onnx::TensorProto::FLOAT, {}, {0});
             add_node(graph, "ReduceMin", {"x"}, {"least"});
             add_integer(*graph.mutable_node(0), "keepdims", 0);
             add_node(graph, "Less", {"least", "none"}, {"chooses"});
             onnx::NodeProto& either = add_node(graph, "If", {"chooses"}, {"chosen"});
             add_node(add_body(either, "then_branch", {}, {"a"}), "Identity", {"codes"}, {"a"});
             add_integers(add_body(either, "else_branch", {}, {"b"}), "back", {1, 0});
             onnx::GraphProto& other = *either.mutable_attribute(1)->mutable_g();
             add_node(other, "Gather", {"codes", "back"}, {"b"});
             add_node(graph, "Cast", {"chooses"}, {"trips"});
             add_integer(*graph.mutable_node(3), "to", onnx::TensorProto::INT64);
             onnx::NodeProto& loop =
                 add_node(graph, "Loop", {"trips", "", "chosen"}, {"last", "all"});
             onnx::GraphProto& body =
                 add_body(loop, "body", {"i", "goes", "carry"}, {"on", "kept", "row"});
             add_node(body, "Identity", {"goes"}, {"on"});
             add_node(body, "Identity", {"carry"}, {"kept"});
             add_node(body, "Gather", {"carry", "places"}, {"row"});
             add_node(graph, "Gather", {"last", "places"}, {"first"});
             add_node(graph, "Squeeze", {"first"}, {"zero"});
           }),
       }) {
    Moved moved;
    add(moved.graph);
    OnnxOptions options;
    options.max_iterations = 4;
    const SourceGraph graph = read_good(moved.finish(), options);
    CHECK(evaluated(graph, {reals({-9e4, -1, 2, 9e4})}).at(0).floats ==
          std::vector<double>{-8, 0, 3, 7});
  }
}

TEST_CASE("a function of the model gets and gives such types") {
  Moved moved;
  onnx::FunctionProto& function = *moved.model.add_functions();
  function.set_domain("own");
  function.set_name("First");
  function.add_input("of");
  function.add_output("first");
  function.add_opset_import()->set_version(25);
  add_node(function, "ReduceMin", {"of"}, {"first"});
  add_integer(*function.mutable_node(0), "keepdims", 0);
  auto& domain = *moved.model.add_opset_import();
  domain.set_domain("own");
  domain.set_version(1);
  add_node(moved.graph, "First", {"codes"}, {"zero"}).set_domain("own");
  CHECK(evaluated(read_good(moved.finish()), {reals({-9e4, -1, 2, 9e4})}).at(0).floats ==
        std::vector<double>{-8, 0, 3, 7});
}

TEST_CASE("what computes with such a type, or gives it away, is refused by name") {
  const auto refused = [](const std::string& op, const std::vector<std::string>& inputs) {
    INFO(op);
    Moved moved;
    add_tensor<int8_t>(moved.graph, "wide", onnx::TensorProto::INT8, {2}, {100, 0});
    add_node(moved.graph, op, inputs, {"made"});
    if (op == "Concat") add_integer(*moved.graph.mutable_node(0), "axis", 0);
    add_node(moved.graph, "ReduceMin", {"made"}, {"zero"});
    add_integer(*moved.graph.mutable_node(1), "keepdims", 0);
    return read_bad(moved.finish());
  };
  for (const std::string op : {"Add", "Sub", "Mul", "Div"})
    check_error(refused(op, {"codes", "codes"}), DiagCode::UnsupportedOp, "computes with int4");
  for (const std::string op : {"Abs", "Neg", "BitwiseNot", "ReduceSum"})
    check_error(refused(op, {"codes"}), DiagCode::UnsupportedOp, "computes with int4");
  check_error(refused("Concat", {"codes", "wide"}), DiagCode::UnsupportedOp,
              "joins tensors of int4 and i8");
  // CastLike to one behind views.
  Moved like;
  add_node(like.graph, "Unsqueeze", {"codes", "places"}, {"row"});
  add_node(like.graph, "CastLike", {"x", "row"}, {"narrow"});
  add_node(like.graph, "Cast", {"narrow"}, {"y"}).add_attribute()->CopyFrom(Moved::to_float());
  like.graph.add_output()->set_name("y");
  check_error(read_bad(like.model), DiagCode::UnsupportedOp, "int4");
  // Outputs.
  Moved output;
  add_node(output.graph, "ReduceMin", {"codes"}, {"zero"});
  add_integer(*output.graph.mutable_node(0), "keepdims", 0);
  output.finish();
  output.graph.add_output()->set_name("quantised");
  check_error(read_bad(output.model), DiagCode::UnsupportedOp,
              "output \"quantised\" has the element type int4");
  // Branches that give different ones.
  Moved branches;
  add_tensor<int8_t>(branches.graph, "wide", onnx::TensorProto::INT8, {2}, {100, 0});
  add_tensor<float>(branches.graph, "none", onnx::TensorProto::FLOAT, {}, {0});
  add_node(branches.graph, "ReduceMin", {"x"}, {"least"});
  add_integer(*branches.graph.mutable_node(0), "keepdims", 0);
  add_node(branches.graph, "Less", {"least", "none"}, {"chooses"});
  onnx::NodeProto& either = add_node(branches.graph, "If", {"chooses"}, {"chosen"});
  add_node(add_body(either, "then_branch", {}, {"a"}), "Identity", {"codes"}, {"a"});
  add_node(add_body(either, "else_branch", {}, {"b"}), "Identity", {"wide"}, {"b"});
  add_node(branches.graph, "ReduceMin", {"chosen"}, {"zero"});
  check_error(read_bad(branches.finish()), DiagCode::UnsupportedOp, "of int4 and of i8");
}

// The integers x of 64 bits, as bits, shifted by the bits of the constant "places", and back.
struct Shifts {
  onnx::ModelProto model = model_with_input({"6"});
  onnx::GraphProto& graph = *model.mutable_graph();

  Shifts() {
    graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
        onnx::TensorProto::INT64);
    add_integers(graph, "places", {0, 1, 63, 64, 4, 4});
    cast("x", "bits", onnx::TensorProto::UINT64);
    cast("places", "count", onnx::TensorProto::UINT64);
  }
  void cast(const std::string& from, const std::string& to, int64_t type) {
    add_integer(add_node(graph, "Cast", {from}, {to}), "to", type);
  }
  void shift(const std::string& from, const std::string& to, const std::string& direction) {
    onnx::AttributeProto& attribute =
        *add_node(graph, "BitShift", {from, "count"}, {to}).add_attribute();
    attribute.set_name("direction");
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(direction);
  }
  void result(const std::string& bits) {
    cast(bits, "y", onnx::TensorProto::INT64);
    graph.add_output()->set_name("y");
  }
  std::vector<int64_t> of(const std::vector<int64_t>& x) const {
    Tensor tensor = Tensor::zeros({DType::i64, {static_cast<int64_t>(x.size())}});
    tensor.integers = x;
    return evaluated(read_good(model), {tensor}).at(0).integers;
  }
  // The words of the refusal of a node that reads "bits".
  std::string refusal(const std::string& op, const std::vector<std::string>& inputs) {
    add_node(graph, op, inputs, {"z"});
    graph.add_output()->set_name("z");
    return read_bad(model).text();
  }
};

TEST_CASE("shifts of unsigned integers of 64 bits are those of their bits") {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  Shifts right;
  right.shift("bits", "shifted", "RIGHT");
  right.result("shifted");
  CHECK(right.of({-5, -2, kLeast, -1, -256, 256}) ==
        std::vector<int64_t>{-5, std::numeric_limits<int64_t>::max(), 1, 0, (int64_t{1} << 60) - 16,
                             16});
  Shifts left;
  left.shift("bits", "shifted", "LEFT");
  left.result("shifted");
  CHECK(left.of({-5, -2, 3, -1, -1, 256}) == std::vector<int64_t>{-5, -4, kLeast, 0, -16, 4096});

  // An arithmetic shift, as PyTorch writes it: of 1s from the top, where x is below 0.
  Shifts arithmetic;
  onnx::GraphProto& graph = arithmetic.graph;
  onnx::TensorProto& ones = *graph.add_initializer();
  ones.set_name("ones");
  ones.set_data_type(onnx::TensorProto::UINT64);
  ones.add_uint64_data(~uint64_t{0});
  add_tensor<int64_t>(graph, "zero", onnx::TensorProto::INT64, {}, {0});
  add_node(graph, "Less", {"x", "zero"}, {"is_below"});
  arithmetic.shift("ones", "kept", "RIGHT");
  add_node(graph, "BitwiseNot", {"kept"}, {"sign"});
  arithmetic.shift("bits", "shifted", "RIGHT");
  add_node(graph, "BitwiseOr", {"shifted", "sign"}, {"signed"});
  add_node(graph, "Where", {"is_below", "signed", "shifted"}, {"chosen"});
  arithmetic.model.mutable_opset_import(0)->set_version(18);
  arithmetic.result("chosen");
  CHECK(arithmetic.of({-5, -7, kLeast, -1, -256, 250}) ==
        std::vector<int64_t>{-5, -4, -1, -1, -16, 15});
}

TEST_CASE("what reads unsigned integers of 64 bits as numbers is refused by name") {
  const std::string bits_alone = "uint64, of which rlx has the bits alone";
  for (const std::string op : {"Max", "Add", "Greater", "Div"})
    CHECK(Shifts().refusal(op, {"bits", "count"}).find(bits_alone) != std::string::npos);
  CHECK(Shifts().refusal("ReduceMax", {"bits"}).find(bits_alone) != std::string::npos);
  CHECK(Shifts().refusal("Gather", {"x", "bits"}).find(bits_alone) != std::string::npos);
  for (const int32_t type : {onnx::TensorProto::FLOAT, onnx::TensorProto::COMPLEX64}) {
    Shifts to_other;
    to_other.cast("bits", "y", type);
    to_other.graph.add_output()->set_name("y");
    CHECK(read_bad(to_other.model).text().find(bits_alone) != std::string::npos);
  }
  Shifts from_float;
  from_float.cast("x", "f", onnx::TensorProto::FLOAT);
  from_float.cast("f", "g", onnx::TensorProto::UINT64);
  from_float.result("g");
  CHECK(read_bad(from_float.model).text().find("it casts f32 to uint64") != std::string::npos);
  Shifts mixed;
  add_integer(add_node(mixed.graph, "Cast", {"count"}, {"bare"}), "to", onnx::TensorProto::INT64);
  mixed.graph.mutable_node(1)->set_output(0, "counted");
  mixed.graph.mutable_node(2)->set_input(0, "counted");
  mixed.graph.mutable_node(2)->set_output(0, "count");
  mixed.shift("bits", "shifted", "RIGHT");
  mixed.result("shifted");
  CHECK(read_bad(mixed.model).text().find("by another type") != std::string::npos);
  Shifts given;
  given.graph.add_output()->set_name("bits");
  CHECK(read_bad(given.model).text().find("element type uint64") != std::string::npos);
}

TEST_CASE("beyond that they are refused by name") {
  check_error(read_bad(there_and_back(kFloat4, {0})), DiagCode::UnsupportedOp, "float4e2m1");
  onnx::ModelProto like = model_with_input({"4"});
  like.mutable_opset_import(0)->set_version(25);
  add_tensor<uint8_t>(*like.mutable_graph(), "like", kInt2, {1}, {0});
  add_node(*like.mutable_graph(), "CastLike", {"x", "like"}, {"y"});
  like.mutable_graph()->add_output()->set_name("y");
  check_error(read_bad(like), DiagCode::UnsupportedOp, "int2");
  onnx::ModelProto cut = there_and_back(kUint2, {1});
  cut.mutable_graph()->mutable_initializer(0)->set_raw_data("");
  check_error(read_bad(cut), DiagCode::FileSize, "needs 1 bytes and has 0");
}

}  // namespace rlx::test
#endif
