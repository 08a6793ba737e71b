// SPDX-License-Identifier: Apache-2.0
// Functions of ONNX models: attributes that have defaults, and several functions of one name.
#ifdef RLX_HAS_ONNX
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "tests/import/onnx_support.h"

namespace rlx::test {
namespace {

// Fields that the onnx.proto of the build may not know, by their numbers.
constexpr uint32_t kFunctionDefaults = 11;
constexpr uint32_t kFunctionOverload = 13;
constexpr uint32_t kNodeOverload = 8;

template <typename Message>
void append_field(Message& message, uint32_t number, const std::string& bytes) {
  std::string field;
  {
    google::protobuf::io::StringOutputStream stream(&field);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.WriteTag(number << 3 | 2);
    out.WriteVarint32(static_cast<uint32_t>(bytes.size()));
    out.WriteString(bytes);
  }
  REQUIRE(message.MergeFromString(field));
}

onnx::FunctionProto& add_function(onnx::ModelProto& model, const std::string& name) {
  onnx::FunctionProto& function = *model.add_functions();
  function.set_name(name);
  function.set_domain("local");
  function.add_input("a");
  function.add_output("r");
  function.add_opset_import()->set_version(17);
  return function;
}

onnx::NodeProto& call(onnx::ModelProto& model, const std::string& name, const std::string& input,
                      const std::string& output) {
  onnx::NodeProto& node = add_node(*model.mutable_graph(), name, {input}, {output});
  node.set_domain("local");
  return node;
}

// A softmax over the axis that the call says, or over axis 0; `damage` is added to the default.
onnx::ModelProto model_with_default(const std::string& damage = {}) {
  onnx::ModelProto model = model_with_input({"2", "3"});
  model.add_opset_import()->set_domain("local");
  onnx::FunctionProto& function = add_function(model, "Share");
  onnx::AttributeProto& axis = *add_node(function, "Softmax", {"a"}, {"r"}).add_attribute();
  axis.set_name("axis");
  axis.set_ref_attr_name("along");
  axis.set_type(onnx::AttributeProto::INT);
  onnx::AttributeProto along;
  along.set_name("along");
  along.set_type(onnx::AttributeProto::INT);
  along.set_i(0);
  append_field(function, kFunctionDefaults, along.SerializeAsString() + damage);
  model.mutable_graph()->add_output()->set_name("y");
  return model;
}

int64_t axis_of(const onnx::ModelProto& model) {
  const SourceGraph graph = read_good(model);
  return std::get<int64_t>(graph.entries.front().nodes.front().attributes.at("axis"));
}

}  // namespace

TEST_CASE("an attribute of a function has its default where a call does not give it") {
  onnx::ModelProto absent = model_with_default();
  call(absent, "Share", "x", "y");
  CHECK(axis_of(absent) == 0);
  onnx::ModelProto given = model_with_default();
  add_integer(call(given, "Share", "x", "y"), "along", 1);
  CHECK(axis_of(given) == 1);
  onnx::ModelProto unknown = model_with_default();
  add_integer(call(unknown, "Share", "x", "y"), "across", 1);
  check_error(read_bad(unknown), DiagCode::UnknownAttribute,
              "\"across\" is none of the function's");
}

TEST_CASE("a call names one of several functions of a name by its overload") {
  onnx::ModelProto model = model_with_input({"2"});
  model.add_opset_import()->set_domain("local");
  for (const auto& [overload, op] : {std::pair("", "Sin"), std::pair("other", "Cos")}) {
    onnx::FunctionProto& function = add_function(model, "F");
    add_node(function, op, {"a"}, {"r"});
    append_field(function, kFunctionOverload, overload);
  }
  append_field(call(model, "F", "x", "t"), kNodeOverload, "other");
  call(model, "F", "t", "y");
  model.mutable_graph()->add_output()->set_name("y");
  CHECK(ops_of(read_good(model)) == "cos sin");
  append_field(*model.mutable_graph()->mutable_node(1), kNodeOverload, "third");
  check_error(read_bad(model), DiagCode::UnsupportedOp, "beyond the functions of the model");
  model.mutable_functions(1)->CopyFrom(model.functions(0));
  check_error(read_bad(model), DiagCode::DuplicateName, "is defined twice");
}

}  // namespace rlx::test
#endif
