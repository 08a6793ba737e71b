// SPDX-License-Identifier: Apache-2.0
// Graphs whose sizes a run gives, as text: one session walks through sizes up and down, and gives
// what the evaluator gives of a graph of those sizes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "compiler/import/import.h"
#include "compiler/reference/evaluate.h"
#include "runtime/api/session.h"
#include "tests/support/catch.h"
#include "tests/support/harness.h"

namespace rlx::test {

// Numbers in (-1, 1), the same on every machine.
class Numbers {
 public:
  double next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<double>(state_ >> 40U) / static_cast<double>(uint64_t{1} << 23U) - 1;
  }

 private:
  uint64_t state_ = 7;
};

inline std::string param(Numbers& numbers, const std::string& name, const Shape& shape,
                         double offset) {
  std::string values;
  for (int64_t i = 0; i < element_count(shape); ++i) {
    const auto thousandths = std::lround((offset + 0.4 * numbers.next()) * 1000);
    values += (i == 0 ? "" : ", ") + std::to_string(static_cast<double>(thousandths) / 1000);
  }
  return R"({"name": ")" + name + R"(", "dtype": "f32", "shape": )" + to_string(shape) +
         R"(, "data": {"values": [)" + values + "]}}";
}

inline CompileOptions options_of(const Device& device) {
  CompileOptions options = test_options(2);
  options.targets = {device.info().architecture == 0 ? options.targets.front() : "cuda"};
  return options;
}

inline Module bound_to(const std::string& text, const DimBindings& dims,
                       const FreeDims& free_dims) {
  Diagnostics diagnostics;
  const auto source = read_json_graph(text, "network.json", diagnostics);
  REQUIRE(source);
  auto module = bind_module(*source, dims, ".", diagnostics, free_dims);
  INFO(diagnostics.text());
  REQUIRE(module);
  return std::move(*module);
}

inline std::vector<Tensor> inputs_of(const Graph& graph) {
  Numbers numbers;
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs) {
    Tensor tensor = Tensor::zeros(graph.value(id).type);
    for (double& value : tensor.floats) value = static_cast<float>(numbers.next());
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

inline void run_with(Session& session, const std::vector<Tensor>& inputs) {
  const fb::Entry& entry = session.record(0);
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    std::vector<uint64_t> dims;
    for (const Dim& size : inputs[i].type.shape) dims.push_back(static_cast<uint64_t>(size));
    const std::vector<std::byte> bytes = inputs[i].to_bytes();
    const fb::Value& value = PlanView::value(entry, entry.inputs()->Get(i));
    const Status set = session.set_input(0, PlanView::text(value.name()),
                                         {.bytes = bytes, .dtype = value.dtype(), .dims = dims});
    INFO(set.message());
    REQUIRE(set.ok());
  }
  REQUIRE(session.poison_arena(std::byte{0xA5}).ok());
  const Status run = session.run(0);
  INFO(run.message());
  REQUIRE(run.ok());
}

inline void check_output(Session& session, uint32_t number, const fb::Value& value,
                         const Tensor& wanted, double tolerance) {
  INFO("output " << number << " of " << to_string(wanted.type));
  std::vector<std::byte> bytes(value.size_bytes());
  REQUIRE(session.read_output(0, PlanView::text(value.name()), bytes).ok());
  REQUIRE(bytes.size() == wanted.floats.size() * sizeof(float));
  double largest = 1;
  double error = 0;
  for (size_t i = 0; i < wanted.floats.size(); ++i) {
    float got = 0;
    std::memcpy(&got, &bytes[i * sizeof got], sizeof got);
    largest = std::max(largest, std::abs(wanted.floats[i]));
    const double apart = std::abs(got - wanted.floats[i]);
    error = apart <= error ? error : apart;  // NaN stays
  }
  CHECK(error <= tolerance * largest);
}

inline void check_at(Session& session, const std::string& text, const DimBindings& sizes,
                     double tolerance) {
  std::string at;
  for (const auto& [name, size] : sizes) at += name + " " + std::to_string(size) + " ";
  INFO(at);
  const Module fixed = bound_to(text, sizes, {});
  const std::vector<Tensor> inputs = inputs_of(fixed.entries[0]);
  Diagnostics diagnostics;
  StateValues states;
  const auto wanted = evaluate_entry(fixed, fixed.entries[0], inputs, states, {}, diagnostics);
  REQUIRE(wanted);
  run_with(session, inputs);
  Session::BoundEntry bound;
  REQUIRE(session.bound_entry(0, bound).ok());
  for (uint32_t i = 0; i < wanted->size(); ++i) {
    const fb::Value& value = PlanView::value(*bound.record, bound.record->outputs()->Get(i));
    check_output(session, i, value, (*wanted)[i], tolerance);
  }
}

inline std::shared_ptr<const PlanView> plan_of(const Module& network,
                                               const CompileOptions& options) {
  Diagnostics diagnostics;
  auto plan = compile_plan(network, options, diagnostics);
  INFO(diagnostics.text());
  REQUIRE(plan);
  return plan;
}

// In one session, which keeps two bindings. The tolerance is of the largest value.
inline void check_on(Device& device, const std::shared_ptr<const PlanView>& plan,
                     const std::string& text, const std::vector<DimBindings>& walk,
                     double tolerance = 1e-5) {
  std::shared_ptr<DevicePlan> loaded;
  std::unique_ptr<Session> session;
  REQUIRE(device.load(*plan, {}, loaded).ok());
  REQUIRE(Session::create(plan, loaded, false, {.max_bindings = 2}, session).ok());
  for (const DimBindings& sizes : walk) check_at(*session, text, sizes, tolerance);
}

inline void check_everywhere(const std::string& text, const Module& network,
                             const std::vector<DimBindings>& walk) {
  for (const std::shared_ptr<Device>& device : present_devices().devices)
    check_on(*device, plan_of(network, options_of(*device)), text, walk);
  CHECK(validation_messages().empty());
}

}  // namespace rlx::test
