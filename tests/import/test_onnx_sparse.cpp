// SPDX-License-Identifier: Apache-2.0
// Sparse tensors of ONNX models, which become dense ones.
#ifdef RLX_HAS_ONNX
#include "tests/import/onnx_support.h"

namespace rlx::test {
namespace {

constexpr int32_t kFloat = onnx::TensorProto::FLOAT;

template <typename T>
void fill(onnx::TensorProto& tensor, const std::string& name, int32_t type, const Shape& shape,
          const std::vector<T>& values) {
  tensor.set_name(name);
  tensor.set_data_type(type);
  for (const int64_t dim : shape) tensor.add_dims(dim);
  tensor.set_raw_data(raw_bytes(values));
}

onnx::SparseTensorProto sparse(const std::vector<int64_t>& dims, const std::vector<float>& values,
                               const Shape& index_shape, const std::vector<int64_t>& indices) {
  onnx::SparseTensorProto tensor;
  for (const int64_t dim : dims) tensor.add_dims(dim);
  fill(*tensor.mutable_values(), "s", kFloat, {static_cast<int64_t>(values.size())}, values);
  fill(*tensor.mutable_indices(), "", onnx::TensorProto::INT64, index_shape, indices);
  return tensor;
}

// y = x + s
onnx::ModelProto with_initializer(const onnx::SparseTensorProto& tensor) {
  onnx::ModelProto model = model_with_input({"1"});
  onnx::GraphProto& graph = *model.mutable_graph();
  *graph.add_sparse_initializer() = tensor;
  add_node(graph, "Add", {"x", "s"}, {"y"});
  graph.add_output()->set_name("y");
  return model;
}

// y = x + the constant, which has no attribute yet.
onnx::ModelProto with_constant() {
  onnx::ModelProto model = model_with_input({"1"});
  onnx::GraphProto& graph = *model.mutable_graph();
  add_node(graph, "Constant", {}, {"s"});
  add_node(graph, "Add", {"x", "s"}, {"y"});
  graph.add_output()->set_name("y");
  return model;
}

onnx::AttributeProto& attribute_of(onnx::ModelProto& model, const std::string& name,
                                   onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& attribute = *model.mutable_graph()->mutable_node(0)->add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

Tensor sum_of(const onnx::ModelProto& model) {
  return evaluated(read_good(model), {reals({0})}).at(0);
}

}  // namespace

TEST_CASE("a sparse initializer or constant has zeros where the file has nothing") {
  const std::vector<double> wanted = {0, 0, 5, 7, 0, 0};
  const Tensor flat = sum_of(with_initializer(sparse({2, 3}, {5, 7}, {2}, {2, 3})));
  CHECK(flat.type.shape == Shape{2, 3});
  CHECK(flat.floats == wanted);
  CHECK(sum_of(with_initializer(sparse({2, 3}, {5, 7}, {2, 2}, {0, 2, 1, 0}))).floats == wanted);

  onnx::ModelProto constant = with_constant();
  *attribute_of(constant, "sparse_value", onnx::AttributeProto::SPARSE_TENSOR)
       .mutable_sparse_tensor() = sparse({2, 3}, {5, 7}, {2}, {2, 3});
  CHECK(sum_of(constant).floats == wanted);

  // One of zeros alone may leave out its indices.
  onnx::SparseTensorProto zeros = sparse({2}, {}, {0}, {});
  CHECK(sum_of(with_initializer(zeros)).floats == std::vector<double>{0, 0});
  zeros.clear_indices();
  CHECK(sum_of(with_initializer(zeros)).floats == std::vector<double>{0, 0});
}

TEST_CASE("a sparse tensor whose indices are none of it is refused") {
  const auto refused = [](const onnx::SparseTensorProto& tensor, DiagCode code,
                          const std::string& text) {
    check_error(read_bad(with_initializer(tensor)), code, text);
  };
  refused(sparse({2, 3}, {5, 7}, {2}, {2, 6}), DiagCode::BadField, "the index 6 along 6 elements");
  refused(sparse({2, 3}, {5, 7}, {2, 2}, {0, 2, 1, 3}), DiagCode::BadField, "index 3 along 3");
  refused(sparse({2, 3}, {5, 7}, {2}, {-1, 3}), DiagCode::BadField, "the index -1");
  refused(sparse({2, 3}, {5, 7}, {2}, {3, 2}), DiagCode::BadField, "do not rise");
  refused(sparse({2, 3}, {5, 7}, {2}, {3, 3}), DiagCode::BadField, "do not rise");
  refused(sparse({2, 3}, {5, 7}, {3}, {1, 2, 3}), DiagCode::BadShape, "wanted i64[2] or i64[2, 2]");
  refused(sparse({-2, 3}, {5, 7}, {2}, {1, 2}), DiagCode::BadShape, "the dim -2");
  refused(sparse({0, 3}, {5}, {1}, {0}), DiagCode::BadField, "the index 0 along 0");
  onnx::SparseTensorProto square = sparse({2, 3}, {5, 7}, {2}, {2, 3});
  square.mutable_values()->add_dims(1);
  refused(square, DiagCode::BadShape, "wanted rank 1");
  square.clear_values();
  refused(square, DiagCode::UnknownDtype, "undefined");
  onnx::SparseTensorProto missing = sparse({2, 3}, {5, 7}, {2}, {2, 3});
  missing.clear_indices();
  refused(missing, DiagCode::UnknownDtype, "the indices of initializer \"s\"");
  onnx::SparseTensorProto scales = sparse({2}, {}, {0}, {});
  scales.mutable_values()->set_data_type(24);
  refused(scales, DiagCode::UnknownDtype, "float8e8m0, which has no zero");

  onnx::ModelProto twice = with_initializer(sparse({1}, {5}, {1}, {0}));
  add_tensor<float>(*twice.mutable_graph(), "s", kFloat, {1}, {1});
  check_error(read_bad(twice), DiagCode::DuplicateName, "initializer \"s\" is given twice");
  onnx::ModelProto given = with_initializer(sparse({1}, {5}, {1}, {0}));
  given.mutable_graph()->add_input()->CopyFrom(given.graph().input(0));
  given.mutable_graph()->mutable_input(1)->set_name("s");
  check_error(read_bad(given), DiagCode::DuplicateName, "initializer \"s\" is given twice");
}

TEST_CASE("zeros that a few bytes ask for are bounded, for all sparse tensors together") {
  check_error(read_bad(with_initializer(sparse({int64_t{1} << 37}, {5}, {1}, {0}))),
              DiagCode::Limit, "a model's sparse tensors may have 268435456");
  check_error(read_bad(with_initializer(sparse({int64_t{1} << 39, 1024}, {5}, {1}, {0}))),
              DiagCode::Limit, "more than 2^48 bytes");
  // The second one of 160 MiB each.
  onnx::ModelProto both = with_initializer(sparse({40, 1 << 20}, {5}, {1}, {0}));
  onnx::SparseTensorProto second = both.graph().sparse_initializer(0);
  second.mutable_values()->set_name("t");
  *both.mutable_graph()->add_sparse_initializer() = second;
  check_error(read_bad(both), DiagCode::Limit, "initializer \"t\"");
}

TEST_CASE("a constant says what its value is, and why it has none") {
  CHECK(read_bad(with_constant()).text().find("it has no value") != std::string::npos);
  onnx::ModelProto text = with_constant();
  attribute_of(text, "value_string", onnx::AttributeProto::STRING).set_s("a");
  CHECK(read_bad(text).text().find("its value is of strings") != std::string::npos);
}

}  // namespace rlx::test
#endif
