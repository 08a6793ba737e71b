// SPDX-License-Identifier: Apache-2.0
// Graphs as the reference systems' own writer puts them.
#include "compiler/reference/evaluate.h"
#include "schema/rounding.h"
#include "tests/import/import_support.h"

namespace rlx::test {
namespace {

// A node: id, op, inputs, dims, dtype.
std::string node(int id, const std::string& op, const std::string& inputs, const std::string& dims,
                 const std::string& dtype = "F32") {
  std::string sizes;
  for (const char c : dims) {
    if (c >= '0' && c <= '9')
      sizes += (sizes.empty() ? "" : ", ") + (R"({"Static": )" + std::string(1, c) + "}");
    if (c == 'b') sizes += std::string(sizes.empty() ? "" : ", ") + R"({"Dynamic": 0})";
  }
  return R"({"id": )" + std::to_string(id) + R"(, "op": )" + op + R"(, "inputs": [)" + inputs +
         R"(], "shape": {"dims": [)" + sizes + R"(], "dtype": ")" + dtype +
         R"("}, "name": null, "origin": null})";
}

std::string graph(const std::vector<std::string>& nodes, const std::string& outputs) {
  std::string list;
  for (const std::string& each : nodes) list += (list.empty() ? "" : ", ") + each;
  return R"({"name": "model", "nodes": [)" + list + R"(], "outputs": [)" + outputs + "]}";
}

Module loaded(const TemporaryFolder& folder, const std::string& json,
              const ImportOptions& options = {}) {
  folder.write("model.json", json);
  Diagnostics diagnostics;
  std::optional<Module> module = load_module(folder.path("model.json"), options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(module.has_value());
  return std::move(*module);
}

std::vector<Tensor> run(const Module& module, const std::vector<std::vector<double>>& inputs,
                        StateValues& states) {
  const Graph& entry = module.entries.at(0);
  std::vector<Tensor> values;
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    values.push_back(Tensor::zeros(entry.value(entry.inputs[i]).type));
    values.back().floats = inputs.at(i);
  }
  Diagnostics diagnostics;
  auto outputs = evaluate_entry(module, entry, values, states, {}, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(outputs.has_value());
  return *outputs;
}

std::string input(int id, const std::string& name, const std::string& dims) {
  return node(id, R"({"Input": {"name": ")" + name + R"("}})", "", dims);
}

void write_weight(const TemporaryFolder& folder, const std::string& name,
                  const std::vector<float>& values, const std::string& shape) {
  std::string header = R"({")" + name + R"(": {"dtype": "F32", "shape": [)" + shape +
                       R"(], "data_offsets": [0, )" + std::to_string(values.size() * 4) + "]}}";
  header.resize(round_up(header.size(), size_t{8}), ' ');
  folder.write("model.safetensors",
               raw_bytes(std::vector<uint64_t>{header.size()}) + header + raw_bytes(values));
}

TEST_CASE(
    "a graph of the reference IR is read as it was written, weights from the file beside it") {
  const TemporaryFolder folder;
  write_weight(folder, "w", {1, 2, 3, 4}, "2, 2");
  const std::string plain =
      graph({input(0, "x", "12"), node(1, R"({"Param": {"name": "w"}})", "", "22"),
             node(2, R"("MatMul")", "0, 1", "12"), node(3, R"({"Activation": "Relu"})", "2", "12"),
             node(4, R"({"Reduce": {"op": "Sum", "axes": [1], "keep_dim": false}})", "3", "1")},
            "4");
  for (const std::string& json :
       {plain, R"({"inner": )" + plain + "}",
        R"({"mir": {"inner": )" + plain + R"(}, "buffers": {"arena_size": 64}})"}) {
    StateValues states;
    const auto outputs = run(loaded(folder, json), {{1, -1}}, states);
    // [1, -1] w = [-2, -2]
    CHECK(outputs.at(0).floats == std::vector<double>{0});
    CHECK(run(loaded(folder, json), {{1, 1}}, states).at(0).floats == std::vector<double>{10});
  }
}

TEST_CASE("regions, constants, enumerations and sizes that are open of the reference IR are read") {
  const TemporaryFolder folder;
  const std::string region =
      R"({"ElementwiseRegion": {"chain": [{"Binary": ["Mul", {"Input": 0}, {"Input": 1}]}, {"Activation": ["Neg", {"Step": 0}]},
          {"Compare": ["Lt", {"Step": 1}, {"Input": 1}]}, {"Where": [{"Step": 2}, {"Step": 1}, {"Input": 0}]}],
          "num_inputs": 2, "scalar_input_mask": 2, "input_modulus": [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "prologue": "None", "prologue_input": 0}})";
  // 2.0 as f32
  const std::string json =
      graph({input(0, "x", "b3"), node(1, R"({"Constant": {"data": [0, 0, 0, 64]}})", "", "1"),
             node(2, region, "0, 1", "b3"), node(3, R"({"Cast": {"to": "F16"}})", "2", "b3", "F16"),
             node(4, R"({"Pad": {"pads": [[0, 0], [1, 0]], "mode": {"Constant": 5.0}}})", "3", "b4",
                  "F16")},
            "4");
  StateValues states;
  const Module module = loaded(folder, json, {.dims = {{"batch", 1}}});
  const auto outputs = run(module, {{-3, 0, 4}}, states);
  CHECK(outputs.at(0).type == TensorType{DType::f16, {1, 4}});
  // -2 x where that is below 2, else x
  CHECK(outputs.at(0).floats == std::vector<double>{5, -3, 0, -8});
}

TEST_CASE(
    "a state that a node of the reference IR overwrites is the plan's, or a further output, and "
    "later readers see the new one") {
  const TemporaryFolder folder;
  const std::string delta =
      R"({"GatedDeltaNet": {"state_size": 1, "carry_state": true, "gate_per_channel": false}})";
  const auto model = [&](const std::string& state) {
    return graph({input(0, "x", "1111"), input(1, "g", "111"), state,
                  node(3, delta, "0, 0, 0, 1, 1, 2", "1111"),
                  node(4, R"({"Activation": "Neg"})", "2", "1111")},
                 "3, 4");
  };
  // g = beta = 0: the state stays; g = 0, beta = 1: s' = s + k (v - s k).
  const Module with_input = loaded(folder, model(input(2, "s", "1111")));
  StateValues states;
  auto outputs = run(with_input, {{1}, {0}, {0.5}}, states);
  REQUIRE(outputs.size() == 3);
  CHECK(outputs[1].floats == std::vector<double>{-0.5});
  CHECK(outputs[2].floats == std::vector<double>{0.5});

  write_weight(folder, "s", {0.25}, "1, 1, 1, 1");
  const Module with_param =
      loaded(folder, model(node(2, R"({"Param": {"name": "s"}})", "", "1111")));
  REQUIRE(with_param.states.size() == 1);
  outputs = run(with_param, {{1}, {0}}, states);
  CHECK(outputs[1].floats == std::vector<double>{-0.25});
}

TEST_CASE("sub-graphs of the reference IR take their inputs in the order of their nodes") {
  const TemporaryFolder folder;
  const std::string body = graph(
      {input(0, "c", "2"), input(1, "t", "2"), node(2, R"({"Binary": "Sub"})", "0, 1", "2")}, "2");
  const std::string scan =
      R"({"Scan": {"body": )" + body +
      R"(, "length": 3, "save_trajectory": false, "num_bcast": 0, "num_xs": 1, "num_checkpoints": 0}})";
  const std::string json =
      graph({input(0, "h", "2"), input(1, "x", "32"), node(2, scan, "0, 1", "2")}, "2");
  StateValues states;
  CHECK(run(loaded(folder, json), {{10, 20}, {1, 2, 3, 4, 5, 6}}, states).at(0).floats ==
        std::vector<double>{1, 8});
}

// A cache of 3 rows of 2, what it is with a new row behind, and the sum that is asked.
std::string with_cache() {
  return graph(
      {input(0, "past", "132"), input(1, "new", "112"),
       node(2, R"({"Concat": {"axis": 1}})", "0, 1", "142"),
       node(3, R"({"Reduce": {"op": "Sum", "axes": [0, 1, 2], "keep_dim": false}})", "2", "")},
      "3, 2");
}

TEST_CASE("a row that is fed goes to its place in the cache, the rest stays") {
  const TemporaryFolder folder;
  const Module module = loaded(folder, with_cache(), {.states = {{"past", "n2,row=pos,axis=1"}}});
  REQUIRE(module.states.size() == 1);
  StateValues states;
  const Graph& entry = module.entries.at(0);
  const auto step = [&](double row, int64_t at) {
    Tensor fresh = Tensor::zeros({DType::f32, {1, 1, 2}});
    fresh.floats = {row, row};
    Tensor position = Tensor::zeros({DType::i32, {}});
    position.integers = {at};
    Diagnostics diagnostics;
    return evaluate_entry(module, entry, {fresh, position}, states, {}, diagnostics)
        ->at(0)
        .floats.at(0);
  };
  CHECK(step(1, 2) == 2);
  CHECK(step(10, 0) == 22);
  CHECK(step(100, 2) == 222);
  CHECK(states.at("past").floats == std::vector<double>{10, 10, 0, 0, 100, 100});
}

TEST_CASE("first rows that are fed replace those of the cache, as many as the run says") {
  const TemporaryFolder folder;
  const std::string json = graph({input(0, "past", "132"), input(1, "new", "132"),
                                  node(2, R"({"Binary": "Add"})", "0, 1", "132")},
                                 "2");
  const Module module = loaded(folder, json, {.states = {{"past", "n2,rows=count,axis=1"}}});
  StateValues states;
  Tensor fresh = Tensor::zeros({DType::f32, {1, 3, 2}});
  fresh.floats = {1, 1, 2, 2, 3, 3};
  Tensor count = Tensor::zeros({DType::i32, {}});
  count.integers = {2};
  for (int i = 0; i < 2; ++i) {
    Diagnostics diagnostics;
    REQUIRE(evaluate_entry(module, module.entries.at(0), {fresh, count}, states, {}, diagnostics)
                .has_value());
  }
  CHECK(states.at("past").floats == std::vector<double>{2, 2, 4, 4, 0, 0});
}

TEST_CASE("a feed of another form is refused") {
  for (const char* feed : {"n2,row=pos", "n2,axis=1", "n2,row=pos,rows=count,axis=1",
                           "n2,row=,axis=1", "n2,row=pos,axis=one"}) {
    const TemporaryFolder folder;
    folder.write("model.json", with_cache());
    Diagnostics diagnostics;
    CHECK_FALSE(load_module(folder.path("model.json"), {.states = {{"past", feed}}}, diagnostics)
                    .has_value());
    check_error(diagnostics, DiagCode::BadBinding, "wanted OUTPUT, OUTPUT,row=INPUT,axis=N");
  }
}

TEST_CASE("graphs of the reference IR that are broken are refused where they are") {
  const auto refused = [](const std::string& json, DiagCode code, const std::string& part) {
    const TemporaryFolder folder;
    folder.write("model.json", json);
    Diagnostics diagnostics;
    CHECK_FALSE(load_module(folder.path("model.json"), {}, diagnostics).has_value());
    check_error(diagnostics, code, part);
  };
  refused(graph({input(0, "x", "2"), node(1, R"({"Activation": "Relu"})", "7", "2")}, "1"),
          DiagCode::BadField, "node 7 is not there");
  refused(graph({input(0, "x", "2"), node(1, R"({"Activation": "Sinus"})", "0", "2")}, "1"),
          DiagCode::BadAttribute, "Sinus");
  refused(graph({input(0, "x", "2"), node(1, R"("Telepathy")", "0", "2")}, "1"),
          DiagCode::UnknownOp, "Telepathy");
  refused(graph({input(0, "x", "2"), node(1, R"({"Activation": "Relu"})", "0", "3")}, "1"),
          DiagCode::UnsupportedOp, "declares [3]");
  refused(graph({node(0, R"({"Param": {"name": "w"}})", "", "2"),
                 node(1, R"({"Activation": "Relu"})", "0", "2")},
                "1"),
          DiagCode::FileMissing, "model.safetensors");
  refused(graph({input(0, "x", "2"), node(1, R"({"Cast": {"to": "F128"}})", "0", "2")}, "1"),
          DiagCode::BadField, "f128");
  refused(graph({node(0, R"({"Constant": {"data": [1, 2, 3]}})", "", "1"),
                 node(1, R"({"Activation": "Relu"})", "0", "1")},
                "1"),
          DiagCode::FileSize, "constant0");
}

}  // namespace
}  // namespace rlx::test
