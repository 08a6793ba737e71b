// SPDX-License-Identifier: Apache-2.0
// T24: what the option check_indices tells of each kernel that reads data-dependent indices, on
// every device present. tests/runtime/test_check_indices.cpp has the words of the message.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "runtime/api/session.h"
#include "tests/compile/graph_text.h"

namespace rlx::test {
namespace {

// A case whose input `index_input` holds `outside` indices that lie outside. All of its indices 0
// are inside.
struct IndexCase {
  Case test;
  size_t index_input;
  uint32_t outside;
  std::string kernel;  // that finds them
};

class CheckedSession {
 public:
  CheckedSession(Device& device, std::shared_ptr<const PlanView> plan, SessionOptions options) {
    std::shared_ptr<DevicePlan> loaded;
    succeed(device.load(*plan, {}, loaded));
    succeed(Session::create(plan, loaded, false, options, session_));
  }
  Status run(const Graph& graph, const std::vector<Tensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorType& type = inputs[i].type;
      const std::vector<std::byte> bytes = inputs[i].to_bytes();
      const std::vector<uint64_t> dims(type.shape.begin(), type.shape.end());
      succeed(session_->set_input(
          0, graph.value(graph.inputs[i]).name,
          {.bytes = bytes, .dtype = static_cast<uint32_t>(type.dtype), .dims = dims}));
    }
    return session_->run(0);
  }
  std::vector<Tensor> outputs(const Graph& graph) {
    std::vector<Tensor> outputs;
    for (size_t i = 0; i < graph.outputs().size(); ++i) {
      const TensorType& type = graph.value(graph.outputs()[i]).type;
      std::vector<std::byte> bytes(byte_size(type));
      succeed(session_->read_output(0, graph.output_names[i], bytes));
      outputs.push_back(Tensor::from_bytes(type, bytes));
    }
    return outputs;
  }

 private:
  static void succeed(const Status& status) {
    INFO(status.message());
    REQUIRE(status.ok());
  }
  std::unique_ptr<Session> session_;
};

struct Built {
  CaseGraph graph;
  std::shared_ptr<const PlanView> plan;
  std::vector<Tensor> good;  // inputs whose indices are 0
  std::vector<Tensor> wanted;
};

Built build(const IndexCase& index_case) {
  Diagnostics diagnostics;
  auto graph = build_graph({&index_case.test, 1}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(graph.has_value());
  Built built{.graph = std::move(*graph), .plan = {}, .good = {}, .wanted = {}};
  built.plan = compile_plan(built.graph.module, test_options(2), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(built.plan != nullptr);
  StateValues states;
  auto wanted = evaluate_entry(built.graph.module, built.graph.module.entries[0],
                               built.graph.inputs, states, {}, diagnostics);
  REQUIRE(wanted.has_value());
  built.wanted = std::move(*wanted);
  built.good = built.graph.inputs;
  // Weights and absent inputs are no inputs of the entry.
  const auto& inputs = index_case.test.inputs;
  const auto before = std::count_if(
      inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(index_case.index_input),
      [](const auto& input) { return input && !input->is_param; });
  Tensor& index = built.good.at(static_cast<size_t>(before));
  index = Tensor::zeros(index.type);
  return built;
}

void check_outputs(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted,
                   Tolerance tolerance) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const Verdict verdict = judge(got[i], wanted[i], tolerance);
    INFO("output " << i << ": " << verdict.fault);
    CHECK(verdict.good);
  }
}

void check_told(const Status& status, const IndexCase& index_case) {
  INFO(status.message());
  CHECK(status.code() == RLX_INDEX_OUT_OF_RANGE);
  const auto has = [&](const std::string& text) {
    return status.message().find(text) != std::string::npos;
  };
  const bool one = index_case.outside == 1;
  // A node that was decomposed gives its name to its parts.
  CHECK(has("(" + index_case.kernel + ", node \"c0.node"));
  CHECK(has(": " + std::to_string(index_case.outside) + (one ? " index lies" : " indices lie") +
            " outside"));
}

// Bad, good, bad and good again under the option; bad without it. Values are the operator's own
// always.
void check_case(const IndexCase& index_case) {
  INFO(index_case.test.op << ": " << index_case.test.name);
  const Built built = build(index_case);
  const Graph& graph = built.graph.module.entries[0];
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    INFO(device->info().id);
    CheckedSession checked(*device, built.plan, {.check_indices = true});
    for (int round = 0; round < 2; ++round) {
      const Status bad = checked.run(graph, built.graph.inputs);
      if (index_case.outside == 0) CHECK(bad.ok());
      if (index_case.outside > 0) check_told(bad, index_case);
      check_outputs(checked.outputs(graph), built.wanted, index_case.test.tolerance);
      const Status good = checked.run(graph, built.good);
      INFO(good.message());
      CHECK(good.ok());
    }
    CheckedSession unchecked(*device, built.plan, {});
    CHECK(unchecked.run(graph, built.graph.inputs).ok());
    check_outputs(unchecked.outputs(graph), built.wanted, index_case.test.tolerance);
  }
  CHECK(validation_messages().empty());
}

// Indices 0, 1, ... modulo `size`, every third one outside, alternately above and below.
std::vector<int64_t> every_third_outside(int64_t count, int64_t size) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i)
    indices.push_back(i % 3 != 0 ? i % size : (i % 2 == 0 ? size + i : -size - 1 - i));
  return indices;
}

CaseTensor third_outside(Shape shape, int64_t size) {
  const int64_t count = element_count(shape);
  return tensor(DType::i32, std::move(shape)).of_integers(every_third_outside(count, size));
}

Case make_case(std::string op, std::string name, std::vector<std::optional<CaseTensor>> inputs,
               std::string attributes = "{}", Tolerance tolerance = Tolerance::Exact,
               size_t outputs = 1) {
  return {.name = std::move(name),
          .op = std::move(op),
          .inputs = std::move(inputs),
          .attributes = std::move(attributes),
          .tolerance = tolerance,
          .outputs = outputs};
}

}  // namespace

TEST_CASE("T24 check_indices tells of gather and embedding") {
  const CaseTensor x = tensor(DType::f32, {10, 5});
  const CaseTensor far = tensor(DType::i64, {3}).of_integers({4294967297, INT64_MIN, 1});
  const IndexCase cases[] = {
      {make_case("gather", "rows", {x, tensor(DType::i32, {5}).of({99, -99, -10, 9, 10})}), 1, 3,
       "gather"},
      {make_case(
           "gather", "axis 1, each index once for all that it picks",
           {tensor(DType::f32, {3, 4, 5}), tensor(DType::i32, {2, 3}).of({4, -5, 3, -4, 0, 7})},
           R"({"axis": 1})"),
       1, 3, "gather"},
      {make_case("gather", "zeros", {x, far}, R"({"oob": "zero"})"), 1, 2, "gather"},
      {make_case("gather", "legacy float indices",
                 {x, tensor(DType::f32, {4}).of({2.9, 1e30, -1e30, NAN})}),
       1, 2, "gather"},
      {make_case("gather", "an index of rank 0", {x, tensor(DType::i8, {}).of({-11})}), 1, 1,
       "gather"},
      {make_case("gather", "several words per thread",
                 {tensor(DType::f32, {5, 70000}), third_outside({61}, 5)}),
       1, 21, "gather"},
      {make_case("gather", "unchecked", {x, far}, R"({"checked": false})"), 1, 0, "gather"},
      {make_case("embedding", "ids of u8",
                 {tensor(DType::f16, {12, 64}), tensor(DType::u8, {2, 2}).of({11, 12, 255, 0})}),
       1, 2, "gather"},
      {make_case("embedding", "rows of blocks",
                 {tensor(DType::q8_0, {8, 64}).param(), tensor(DType::i32, {4}).of({8, -9, 7, -8})},
                 "{}", Tolerance::Arith),
       1, 2, "gather"},
      {make_case("gather_elements", "each coordinate",
                 {tensor(DType::f32, {4, 5}), third_outside({3, 5}, 4)}),
       1, 5, "gather_nd"},
      {make_case("gather_nd", "coordinates of tuples, each once for its row",
                 {tensor(DType::f32, {3, 4, 6}),
                  tensor(DType::i32, {4, 2}).of({3, 0, 0, 4, -4, -5, 2, 3})}),
       1, 4, "gather_nd"},
      {make_case("gather_nd", "zeros",
                 {tensor(DType::f32, {3, 4}), tensor(DType::i32, {2, 2}).of({3, 9, 2, 3})},
                 R"({"oob": "zero"})"),
       1, 2, "gather_nd"},
      {make_case(
           "masked_scatter", "what it counts past its source is no index of the graph",
           {tensor(DType::f32, {9}), tensor(DType::bool_, {9}).of({1, 1, 1, 0, 1, 0, 0, 1, 0}),
            tensor(DType::f32, {2})}),
       1, 0, "gather"},
  };
  for (const IndexCase& index_case : cases) check_case(index_case);
}

TEST_CASE("T24 check_indices tells of scatter, whatever its form") {
  const CaseTensor x = tensor(DType::f32, {6, 8});
  const CaseTensor many = third_outside({3000}, 50);
  const IndexCase cases[] = {
      {make_case("scatter_elements", "few updates, each coordinate",
                 {x, third_outside({2, 8}, 6), tensor(DType::f32, {2, 8})}),
       1, 6, "scatter"},
      {make_case(
           "index_add", "few updates of long rows",
           {tensor(DType::f32, {4, 1000}), third_outside({5}, 4), tensor(DType::f32, {5, 1000})},
           R"({"axis": 0})", Tolerance::Sum),
       1, 2, "scatter"},
      {make_case("scatter_nd", "tuples",
                 {tensor(DType::f32, {3, 4}), tensor(DType::i32, {3, 2}).of({3, 4, 0, -5, 2, 3}),
                  tensor(DType::f32, {3})}),
       1, 3, "scatter"},
      {make_case("scatter_add", "sorted updates", {tensor(DType::f32, {3000, 4}), many},
                 R"({"dim0": 50})", Tolerance::Sum),
       1, 1000, "scatter"},
      {make_case("index_copy", "the last update of each place",
                 {tensor(DType::f32, {50, 4}), many, tensor(DType::f32, {3000, 4})},
                 R"({"axis": 0})"),
       1, 1000, "scatter"},
      {make_case("index_copy", "sorted updates, the last of each place",
                 {tensor(DType::f32, {100000}), third_outside({3000}, 100000),
                  tensor(DType::f32, {3000})},
                 R"({"axis": 0})"),
       1, 1000, "scatter"},
  };
  for (const IndexCase& index_case : cases) check_case(index_case);
}

TEST_CASE("T24 check_indices tells of one_hot") {
  const IndexCase cases[] = {
      {make_case("one_hot", "last axis", {tensor(DType::i32, {5}).of({3, -4, 4, -5, 0})},
                 R"({"depth": 4})"),
       0, 2, "region"},
      {make_case("one_hot", "first axis, 64 bits",
                 {tensor(DType::i64, {2, 3}).of_integers({0, 7, 6, -8, -7, 4294967296})},
                 R"({"depth": 7, "axis": 0})"),
       0, 3, "region"},
      {make_case("one_hot", "legacy float indices, wide rows",
                 {tensor(DType::f32, {3}).of({69.5, 70, -71})}, R"({"depth": 70})"),
       0, 2, "region"},
      {make_case("one_hot", "unsigned bytes to bool", {tensor(DType::u8, {4}).of({0, 255, 3, 4})},
                 R"({"depth": 4, "dtype": "bool"})"),
       0, 2, "region"},
  };
  for (const IndexCase& index_case : cases) check_case(index_case);
}

TEST_CASE("T24 check_indices tells of positions") {
  const CaseTensor cache = tensor(DType::f32, {2, 2, 8, 4});
  const CaseTensor rows = tensor(DType::f32, {2, 2, 3, 4});
  const CaseTensor position = tensor(DType::i32, {2}).of({6, -1});
  const CaseTensor heads = tensor(DType::f32, {2, 3, 4, 8});
  const CaseTensor keys = tensor(DType::f32, {2, 3, 2, 8});
  const CaseTensor table = tensor(DType::f32, {16, 4}).uniform(-1, 1);
  const CaseTensor caches = tensor(DType::f32, {2, 2, 9, 8});
  const auto scalar = [](int64_t value) { return tensor(DType::i32, {}).of_integers({value}); };
  const IndexCase cases[] = {
      {make_case("kv_append", "rows beyond the capacity", {cache, rows, position}), 2, 3,
       "kv_append"},
      {make_case("kv_append", "a circular cache has no outside", {cache, rows, position},
                 R"({"mode": "circular"})"),
       2, 0, "kv_append"},
      {make_case("rope", "positions of tokens",
                 {heads, table, table, tensor(DType::i64, {2, 3}).of({0, 16, 15, -1, 99, 3})},
                 R"({"head_dim": 8})", Tolerance::Norm),
       3, 3, "rope"},
      {make_case("rope", "a first position", {heads, table, table, scalar(15)},
                 R"({"head_dim": 8})", Tolerance::Norm),
       3, 4, "rope"},
      {make_case("rope_append", "queries and keys",
                 {heads, keys, std::nullopt, table, table, scalar(14)}, "{}", Tolerance::Norm, 2),
       5, 2, "kv_append"},
      {make_case("rope_append", "caches of 9 rows, tables of 16",
                 {heads, keys, keys, table, table, scalar(14), caches, caches},
                 R"({"kv_layout": "bhsd"})", Tolerance::Norm, 3),
       5, 8, "kv_append"},
  };
  for (const IndexCase& index_case : cases) check_case(index_case);
}

TEST_CASE("T24 check_indices tells of experts and lengths") {
  const CaseTensor w = tensor(DType::f32, {4, 24, 20});
  const CaseTensor blocks = tensor(DType::q4_0, {4, 20, 64}).param();
  const CaseTensor few = tensor(DType::i32, {5}).of({0, 4, -1, 3, 2});
  const IndexCase cases[] = {
      {make_case("grouped_matmul", "few rows; experts do not count from the end",
                 {tensor(DType::f32, {5, 24}), w, few}, "{}", Tolerance::Sum),
       2, 2, "dequant_matvec"},
      {make_case("grouped_matmul", "tiles",
                 {tensor(DType::f32, {90, 24}), w, third_outside({90}, 4)}, "{}", Tolerance::Sum),
       2, 30, "grouped_matmul"},
      {make_case("dequant_grouped_matmul", "few rows of blocks",
                 {tensor(DType::f32, {5, 64}), blocks, few}, R"({"scheme": "q4_0"})",
                 Tolerance::Sum),
       2, 2, "dequant_matvec"},
      {make_case("dequant_grouped_matmul", "tiles of blocks",
                 {tensor(DType::f32, {90, 64}), blocks, third_outside({90}, 4)},
                 R"({"scheme": "q4_0"})", Tolerance::Sum),
       2, 30, "grouped_matmul"},
      {make_case("reverse_sequence", "lengths from 0 to the axis' own are none",
                 {tensor(DType::f32, {4, 5, 3}), tensor(DType::i32, {4}).of({6, -1, 5, 0})},
                 R"({"batch_axis": 0, "time_axis": 1})"),
       1, 2, "reverse_sequence"},
      {make_case("reverse_sequence", "words, time first",
                 {tensor(DType::f16, {5, 2, 8}), tensor(DType::i64, {2}).of({5, 99})},
                 R"({"batch_axis": 1, "time_axis": 0})"),
       1, 1, "reverse_sequence"},
  };
  for (const IndexCase& index_case : cases) check_case(index_case);
}

namespace {

std::string chain_graph(const std::string& nodes) {
  return R"({"rlx_graph": 1, "inputs": [{"name": "i", "dtype": "i32", "shape": [5]},
    {"name": "x", "dtype": "f32", "shape": [6, 7]}], "nodes": [)" +
         nodes + R"(], "outputs": ["y"]})";
}

// The message of a run with these inputs, the same on every device.
std::string message_of_run(const std::string& text, const std::vector<Tensor>& inputs) {
  const Module module = module_from(text);
  Diagnostics diagnostics;
  const auto plan = compile_plan(module, test_options(2), diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan != nullptr);
  std::optional<std::string> message;
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    CheckedSession session(*device, plan, {.check_indices = true});
    const Status status = session.run(module.entries[0], inputs);
    CHECK(message.value_or(status.message()) == status.message());
    message = status.message();
  }
  return message.value_or("");
}

std::string message_of(const std::string& nodes, const std::vector<int64_t>& indices) {
  return message_of_run(chain_graph(nodes),
                        {fill(tensor(DType::i32, {5}).of_integers(indices), "i"),
                         fill(tensor(DType::f32, {6, 7}), "x")});
}

bool has(const std::string& message, const std::string& text) {
  return message.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("T24 check_indices tells of a one_hot inside a region") {
  const std::string nodes =
      R"({"name": "hot", "op": "one_hot", "inputs": ["i"], "outputs": ["h"], "attributes": {"depth": 7}},
         {"name": "narrow", "op": "narrow", "inputs": ["x"], "outputs": ["n"], "attributes": {"axis": 0, "start": 1, "len": 5}},
         {"name": "weighed", "op": "mul", "inputs": ["h", "n"], "outputs": ["m"]},
         {"name": "doubled", "op": "add", "inputs": ["m", "m"], "outputs": ["y"]})";
  CHECK(steps_of(chain_graph(nodes)) == 1);
  if (present_devices().devices.empty()) return;
  const std::string message = message_of(nodes, {7, 6, -8, 0, 100});
  INFO(message);
  CHECK(has(message, "step 0 (region"));
  CHECK(has(message, ": 3 indices lie outside"));
  CHECK(message_of(nodes, {-7, 6, 0, 0, 1}).empty());
}

TEST_CASE("T24 a region with as many inputs as there is room for counts too") {
  // The word takes the place of the fifteenth input: one more makes another step.
  for (const int64_t added : {13, 14}) {
    std::string inputs = R"({"name": "i", "dtype": "i32", "shape": [5]})";
    std::string nodes =
        R"({"op": "one_hot", "inputs": ["i"], "outputs": ["s0"], "attributes": {"depth": 7}})";
    std::vector<Tensor> values = {fill(tensor(DType::i32, {5}).of_integers({7, 0, -8, 1, 2}), "i")};
    for (int64_t k = 1; k <= added; ++k) {
      const std::string x = "x" + std::to_string(k);
      const std::string sum = "s" + std::to_string(k);
      inputs += R"(, {"name": ")" + x + R"(", "dtype": "f32", "shape": [5, 7]})";
      nodes += R"(, {"op": "add", "inputs": ["s)" + std::to_string(k - 1) + R"(", ")" + x +
               R"("], "outputs": [")" + sum + R"("]})";
      values.push_back(fill(tensor(DType::f32, {5, 7}), x));
    }
    const std::string text = R"({"rlx_graph": 1, "inputs": [)" + inputs + R"(], "nodes": [)" +
                             nodes + R"(], "outputs": ["s)" + std::to_string(added) + R"("]})";
    CHECK(steps_of(text) == (added == 13 ? 1 : 2));
    if (present_devices().devices.empty()) return;
    CHECK(has(message_of_run(text, values), ": 2 indices lie outside"));
  }
}

TEST_CASE("T24 check_indices names the first step and counts the others") {
  const std::string nodes =
      R"({"name": "tokens", "op": "embedding", "inputs": ["x", "i"], "outputs": ["a"]},
         {"name": "again", "op": "gather", "inputs": ["x", "i"], "outputs": ["b"], "attributes": {"oob": "zero"}},
         {"name": "both", "op": "add", "inputs": ["a", "b"], "outputs": ["y"]})";
  if (present_devices().devices.empty()) return;
  const std::string message = message_of(nodes, {0, 6, 1, 2, -7});
  INFO(message);
  CHECK(has(message, "entry \"main\", step 0 (gather, node \""));
  CHECK(has(message, ": 2 indices lie outside; so do indices of 1 other step"));
}

TEST_CASE("T19 nothing to index is nothing to check") {
  const IndexCase cases[] = {
      {make_case("gather", "no indices", {tensor(DType::f32, {10, 5}), tensor(DType::i32, {0})}), 1,
       0, "gather"},
      {make_case("gather_nd", "no tuples",
                 {tensor(DType::f32, {3, 4}), tensor(DType::i32, {0, 2})}),
       1, 0, "gather_nd"},
      {make_case("index_add", "no updates",
                 {tensor(DType::f32, {4, 3}), tensor(DType::i32, {0}), tensor(DType::f32, {0, 3})},
                 R"({"axis": 0})"),
       1, 0, "scatter"},
      {make_case("one_hot", "no index", {tensor(DType::i32, {0})}, R"({"depth": 4})"), 0, 0,
       "region"},
      {make_case(
           "grouped_matmul", "no rows",
           {tensor(DType::f32, {0, 24}), tensor(DType::f32, {4, 24, 20}), tensor(DType::i32, {0})},
           "{}", Tolerance::Sum),
       2, 0, "grouped_matmul"},
  };
  for (const IndexCase& index_case : cases) check_case(index_case);
}

}  // namespace rlx::test
