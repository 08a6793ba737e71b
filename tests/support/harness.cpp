// SPDX-License-Identifier: Apache-2.0
// Compiling and running test graphs.
#include "tests/support/harness.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include "compiler/ops/op_def.h"
#include "compiler/ops/prepare.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/vulkan/vulkan_device.h"
#include "tests/support/dim_json.h"
#include "tests/support/fill.h"

namespace rlx::test {
namespace {

void require_ok(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

// RLX_TEST_DEVICES names devices to test on, as vulkan:0,cuda:0; without it all are.
bool is_wanted(const std::string& id) {
  const char* wanted = std::getenv("RLX_TEST_DEVICES");
  return wanted == nullptr ||
         ("," + std::string(wanted) + ",").find("," + id + ",") != std::string::npos;
}

void add_vulkan_devices(Devices& found) {
  std::string why_none;
  for (const DeviceInfo& info : list_vulkan_devices(why_none)) {
    if (!is_wanted(info.id)) continue;
    std::shared_ptr<Device> device;
    if (Status status = open_vulkan_device(info.id, device, {.validation = true}); !status.ok()) {
      found.note += "without validation: " + status.message() + "\n";
      require_ok(open_vulkan_device(info.id, device, {}));
    }
    found.devices.push_back(std::move(device));
  }
  if (!why_none.empty()) found.note += why_none + "\n";
}

void add_cuda_devices(Devices& found) {
  std::string why_none;
  for (const DeviceInfo& info : list_cuda_devices(why_none)) {
    if (!is_wanted(info.id)) continue;
    std::shared_ptr<Device> device;
    require_ok(open_cuda_device(info.id, device));
    found.devices.push_back(std::move(device));
  }
  if (!why_none.empty()) found.note += why_none + "\n";
}

Devices open_devices() {
  Devices found;
  add_vulkan_devices(found);
  add_cuda_devices(found);
  if (const char* wanted = std::getenv("RLX_TEST_DEVICES"); wanted != nullptr) {
    const std::string names = wanted;
    const auto count = static_cast<size_t>(std::count(names.begin(), names.end(), ',')) + 1;
    if (found.devices.size() != count)
      throw std::runtime_error("RLX_TEST_DEVICES=" + names + " names devices that are not here");
  }
  if (found.devices.empty()) {
    std::cout << "SKIPPED: no device computes; only what needs none is checked: " << found.note
              << "\n";
  }
  return found;
}

AttributeValue attribute_from(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (!value.empty() && value[0].is_string()) return value.get<Strings>();
  for (const nlohmann::json& element : value) {
    if (!element.is_number_integer()) return value.get<Floats>();
  }
  return value.get<Ints>();
}

Attributes attributes_from(const std::string& text) {
  Attributes attributes;
  const nlohmann::json object = nlohmann::json::parse(text);
  for (const auto& [name, value] : object.items()) attributes[name] = attribute_from(value);
  return attributes;
}

ValueId add_case_input(CaseGraph& built, Graph& graph, const CaseTensor& spec, Tensor tensor,
                       const std::string& name) {
  if (!spec.is_param) {
    const ValueId id = graph.add_value({.name = name,
                                        .type = spec.type,
                                        .origin = ValueOrigin::Input,
                                        .weight = {},
                                        .state = {},
                                        .producer = {}});
    graph.inputs.push_back(id);
    built.inputs.push_back(std::move(tensor));
    return id;
  }
  const auto bytes = std::make_shared<const std::vector<std::byte>>(tensor.to_bytes());
  const WeightId weight =
      built.module.add_weight({.name = name,
                               .type = spec.type,
                               .data = HostBytes{.owner = bytes, .bytes = *bytes},
                               .is_constant = true});
  return graph.weight_value(weight, built.module.weight(weight));
}

bool add_case(CaseGraph& built, Graph& graph, const Case& test, const std::string& prefix,
              Diagnostics& diagnostics) {
  Node node{.name = prefix + "node",
            .op = test.op,
            .inputs = {},
            .outputs = {},
            .attributes = attributes_from(test.attributes),
            .region = test.region,
            .place = {.file = test.name, .position = ""},
            .source = ""};
  for (size_t k = 0; k < test.inputs.size(); ++k) {
    if (!test.inputs[k]) {
      node.inputs.emplace_back();
      continue;
    }
    Tensor tensor = fill(*test.inputs[k], test.op + test.name + std::to_string(k));
    node.inputs.emplace_back(add_case_input(built, graph, *test.inputs[k], std::move(tensor),
                                            prefix + "i" + std::to_string(k)));
  }
  built.first_output.push_back(graph.outputs().size());
  for (size_t k = 0; k < test.outputs; ++k) {
    const std::string name = prefix + "o" + std::to_string(k);
    node.outputs.push_back(
        graph.add_value({.name = name, .type = {}, .weight = {}, .state = {}, .producer = {}}));
    graph.add_output(node.outputs.back());
    graph.output_names.push_back(name);
  }
  const NodeId id = graph.add_node(std::move(node));
  KnownValues known;
  return prepare_node(built.module, graph, id, known, diagnostics) &&
         check_and_infer(graph, id, diagnostics);
}

}  // namespace

const Devices& present_devices() {
  static const Devices devices = open_devices();
  return devices;
}

std::vector<std::string> validation_messages() {
  std::vector<std::string> all;
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    const std::vector<std::string> said = vulkan_validation_messages(*device);
    all.insert(all.end(), said.begin(), said.end());
  }
  return all;
}

std::optional<CaseGraph> build_graph(std::span<const Case> cases, Diagnostics& diagnostics) {
  CaseGraph built;
  Graph graph;
  graph.name = "main";
  bool good = true;
  for (size_t i = 0; i < cases.size(); ++i) {
    good = add_case(built, graph, cases[i], "c" + std::to_string(i) + ".", diagnostics) && good;
  }
  built.module.name = "cases";
  built.module.entries.push_back(std::move(graph));
  if (!good) return std::nullopt;
  return built;
}

CompileOptions test_options(int optimisation) {
  CompileOptions options;
  options.optimisation = optimisation;
  std::set<uint32_t> architectures;
  bool vulkan = false;
  for (const std::shared_ptr<Device>& device : present_devices().devices) {
    const uint32_t architecture = device->info().architecture;
    if (architecture != 0) architectures.insert(architecture);
    vulkan = vulkan || architecture == 0;
  }
  const char* profile = std::getenv("RLX_TEST_VULKAN");
  options.targets = {profile != nullptr ? profile : "vulkan"};
  if (!architectures.empty()) {
    if (!vulkan) options.targets.clear();
    options.targets.emplace_back("cuda");
    options.architectures.assign(architectures.begin(), architectures.end());
  }
  if (const char* kernels = std::getenv("RLX_TEST_PREFER"); kernels != nullptr) {
    std::istringstream names(kernels);
    for (std::string name; std::getline(names, name, ',');) options.prefer.push_back(name);
  }
  options.cache_dir = std::string(RLX_BUILD_DIR) + "/kernel-cache";
  options.trust_cache = true;
  if (const char* jobs = std::getenv("RLX_TEST_JOBS"); jobs != nullptr)
    options.jobs = static_cast<uint32_t>(std::stoul(jobs));
  return options;
}

std::shared_ptr<const PlanView> compile_plan(Module module, const CompileOptions& options,
                                             Diagnostics& diagnostics) {
  const auto bytes = compile_to_bytes(std::move(module), options, diagnostics);
  if (!bytes) return nullptr;
  std::shared_ptr<const PlanView> plan;
  require_ok(PlanView::open_memory(*bytes, {.check_weights = true, .copy_memory = true}, plan));
  return plan;
}

TestSession::TestSession(Device& device, std::shared_ptr<const PlanView> plan)
    : plan_(std::move(plan)) {
  require_ok(device.load(*plan_, {}, loaded_));
  require_ok(loaded_->create_session({}, session_));
}

std::vector<Tensor> TestSession::run(uint32_t entry, const std::vector<Tensor>& inputs,
                                     std::byte poison) {
  const fb::Entry& index = plan_->entry(entry, loaded_->target());
  require_ok(session_->poison_arena(poison));
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    require_ok(session_->write(entry, index.inputs()->Get(i), inputs[i].to_bytes()));
  }
  require_ok(session_->submit(entry));
  require_ok(session_->wait(UINT64_MAX));
  std::vector<Tensor> outputs;
  for (uint32_t value_index : *index.outputs()) {
    const fb::Value& value = PlanView::value(index, value_index);
    TensorType type{dtype_from_number(value.dtype()).value(), {}};
    for (uint64_t dim : *value.dims()) type.shape.push_back(static_cast<int64_t>(dim));
    std::vector<std::byte> bytes(value.size_bytes());
    require_ok(session_->read(entry, value_index, bytes));
    outputs.push_back(Tensor::from_bytes(type, bytes));
  }
  return outputs;
}

}  // namespace rlx::test
