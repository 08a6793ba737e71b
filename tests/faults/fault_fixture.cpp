// SPDX-License-Identifier: Apache-2.0
// The use of a device, and the loops over its calls.
#include "tests/faults/fault_fixture.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "runtime/api/handles.h"
#include "runtime/cuda/cuda_device.h"
#include "tests/support/catch.h"
#include "tests/support/sketches.h"

namespace rlx::test {
namespace {

SketchValue io(const char* name, Role role) {
  return {.name = name, .segment = kIo, .elements = kCount, .role = role};
}

SketchEntry main_entry() {
  SketchEntry entry{.name = "main"};
  entry.values = {
      io("x", Role::Input),
      {.name = "w", .segment = fb::Segment::Weights, .elements = kCount},
      {.name = "g", .segment = fb::Segment::Weights, .elements = kCount, .offset_bytes = 4096},
      {.name = "h", .elements = kCount},
      io("y", Role::Output),
      {.name = "errors", .segment = fb::Segment::IndexErrors, .elements = 1},
  };
  entry.steps = {
      dispatch(0, 0, {{0, kRead}, {1, kRead}, {3, kWrite}}),
      dispatch(0, 1, {{3, kRead}, {2, kRead}, {4, kWrite}}),
      {.kernel = 2, .grid = 1, .wave = 2, .pointers = {{1, kRead, 0, 1}, {5, kReadWrite}}}};
  return entry;
}

SketchEntry state_entry() {
  SketchEntry entry{.name = "states"};
  const auto state = [](const char* name, uint64_t offset_bytes) {
    return SketchValue{.name = name,
                       .segment = fb::Segment::State,
                       .elements = kCount,
                       .offset_bytes = offset_bytes};
  };
  entry.values = {state("s", 0),           state("ones", 4096),
                  state("copy", 8192),     io("count", Role::Output),
                  io("one", Role::Output), io("filled", Role::Output)};
  entry.steps = {dispatch(3, 0, {{0, kReadWrite}, {3, kWrite}}),
                 {.kind = fb::StepKind::Copy, .pointers = {{1, kRead}, {4, kWrite}}},
                 {.kind = fb::StepKind::Fill, .pointers = {{5, kWrite}}, .fill_pattern = 7},
                 {.kind = fb::StepKind::Copy,
                  .wave = 1,
                  .pointers = {{2, kRead, 0, 500}, {5, kWrite, 500, 500}}}};
  return entry;
}

struct Handles {
  rlx_plan* plan = nullptr;
  rlx_device* device = nullptr;
  rlx_session* session = nullptr;

  Handles() = default;
  ~Handles() {
    rlx_session_close(session);
    rlx_device_close(device);
    rlx_plan_close(plan);
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
};

// Sets every input of the entry to numbers of its own, runs it and appends its outputs.
rlx_status run_entry(rlx_plan* plan, rlx_session* session, uint32_t entry,
                     std::vector<std::byte>& outputs) {
  rlx_entry_info info = RLX_INIT(rlx_entry_info);
  rlx_status status = rlx_plan_get_entry(plan, entry, &info);
  for (uint32_t i = 0; i < info.input_count && status == RLX_OK; ++i) {
    rlx_tensor_info wanted = RLX_INIT(rlx_tensor_info);
    status = rlx_plan_get_input(plan, entry, i, &wanted);
    const std::vector<float> numbers(wanted.size_bytes / sizeof(float) + 1, 1.0f + i);
    rlx_tensor tensor = RLX_INIT(rlx_tensor);
    tensor.data = numbers.data();
    tensor.size_bytes = wanted.size_bytes;
    tensor.dtype = wanted.dtype;
    tensor.rank = wanted.rank;
    std::copy(std::begin(wanted.dims), std::end(wanted.dims), tensor.dims);
    if (status == RLX_OK) status = rlx_session_set_input(session, entry, wanted.name, &tensor);
  }
  if (status == RLX_OK) status = rlx_session_run(session, entry);
  for (uint32_t o = 0; o < info.output_count && status == RLX_OK; ++o) {
    rlx_tensor_info output = RLX_INIT(rlx_tensor_info);
    status = rlx_plan_get_output(plan, entry, o, &output);
    std::vector<std::byte> bytes(output.size_bytes);
    if (status == RLX_OK)
      status = rlx_session_read_output(session, entry, output.name, bytes.data(), bytes.size());
    if (status == RLX_OK) outputs.insert(outputs.end(), bytes.begin(), bytes.end());
  }
  return status;
}

rlx_status run_all(rlx_plan* plan, rlx_session* session, std::vector<std::byte>& outputs) {
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  rlx_status status = rlx_plan_get_info(plan, &info);
  if (status == RLX_OK) status = rlx_session_prepare(session, 0);
  for (int round = 0; round < 2; ++round) {
    for (uint32_t entry = 0; entry < info.entry_count && status == RLX_OK; ++entry)
      status = run_entry(plan, session, entry, outputs);
  }
  rlx_step_time times[16] = {};
  uint32_t count = 0;
  if (status == RLX_OK)
    status = rlx_session_profile(session, info.entry_count - 1, times, 16, &count);
  if (status == RLX_OK) status = rlx_session_reset_states(session);
  return status;
}

// Opened, loaded and run; the first failure ends it.
rlx_status attempt(const Scenario& scenario, const std::shared_ptr<ObjectCounts>& objects,
                   Handles& handles, Outcome& outcome) {
  rlx_status status =
      rlx_plan_open_memory(scenario.plan.data(), scenario.plan.size(), nullptr, &handles.plan);
  if (status != RLX_OK) return status;
  status = guarded([&]() -> Status {
    std::shared_ptr<Device> opened;
    RLX_RETURN_IF_ERROR(scenario.open(objects, opened));
    handles.device = make_device_handle(std::move(opened));
    return {};
  });
  if (status != RLX_OK) return status;
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.jobs = 4;
  options.profile = 1;
  options.check_indices = 1;
  if (!scenario.pipeline_cache_path.empty())
    options.pipeline_cache_path = scenario.pipeline_cache_path.c_str();
  status = rlx_session_create(handles.plan, handles.device, &options, &handles.session);
  return status == RLX_OK ? run_all(handles.plan, handles.session, outcome.outputs) : status;
}

}  // namespace

PlanSketch full_sketch() {
  PlanSketch sketch = weights_sketch();
  sketch.kernels.push_back({.name = "gather",
                            .body = "if (i < 1) F32(p.b).v[i] = F32(p.a).v[i] + F32(p.b).v[i];",
                            .pointers = {kRead, kReadWrite},
                            .ptx = "add.f32 %b, %a, %b;",
                            .elements = 1});
  sketch.kernels.push_back(state_sketch().kernels[0]);
  sketch.states = state_sketch().states;
  sketch.states[1].init_weight = static_cast<uint32_t>(sketch.weights.size());
  sketch.weights.push_back(
      {.name = "v", .offset_bytes = 8192, .data = std::vector<float>(kCount, 1.0f)});
  sketch.entries = {main_entry(), state_entry()};
  return sketch;
}

Scenario vulkan_scenario(VulkanOptions options) {
  options.loader = RLX_VULKAN_STAND_IN;
  return {
      .control = &open_stand_in(RLX_VULKAN_STAND_IN),
      .plan = serialise(to_spec(full_sketch())),
      .open =
          [options](std::shared_ptr<ObjectCounts> objects,
                    std::shared_ptr<Device>& device) mutable {
            options.objects = std::move(objects);
            return open_vulkan_device("vulkan:0", device, options);
          },
      .pipeline_cache_path = "/tmp/rlx_test_" + std::to_string(::getpid()) + "_fault_pipelines"};
}

Scenario cuda_scenario(std::vector<std::byte> plan) {
  return {.control = &open_stand_in(RLX_CUDA_STAND_IN),
          .plan = std::move(plan),
          .open = [](std::shared_ptr<ObjectCounts> objects, std::shared_ptr<Device>& device) {
            return open_cuda_device("cuda:0", device,
                                    {.library = RLX_CUDA_STAND_IN, .objects = std::move(objects)});
          }};
}

Scenario cuda_scenario() {
  PlanSketch sketch = full_sketch();
  sketch.cuda_architecture = 90;  // kernels that wait for their predecessors themselves
  return cuda_scenario(serialise(to_spec(sketch)));
}

Outcome use(const Scenario& scenario) {
  Outcome outcome;
  const auto objects = std::make_shared<ObjectCounts>();
  if (!scenario.pipeline_cache_path.empty()) std::remove(scenario.pipeline_cache_path.c_str());
  {
    Handles handles;
    outcome.status = attempt(scenario, objects, handles, outcome);
    outcome.message = rlx_last_error();
    outcome.in_close = !scenario.control->reached;
    rlx_session_close(std::exchange(handles.session, nullptr));
    outcome.in_close = outcome.in_close && scenario.control->reached;
    outcome.calls = scenario.control->calls;
    scenario.control->fail_at = 0;
    outcome.opened = handles.device != nullptr;
    outcome.told_lost = scenario.control->told_lost > 0;
    if (outcome.opened) {
      outcome.health = rlx_device_health(handles.device);
      rlx_session* another = nullptr;
      outcome.next_session = rlx_session_create(handles.plan, handles.device, nullptr, &another);
      rlx_session_close(another);
    }
  }
  outcome.remains = objects_text(objects->read());
  return outcome;
}

namespace {

std::string fault_text(const FaultControl& control, uint64_t k) {
  return text_of("call ", k, ", ", control.function.load(), " returned ", control.result.load(),
                 control.lose ? ", lost" : "");
}

// What every use leaves behind.
void check_rest(const FaultControl& control, const Outcome& outcome) {
  CHECK(outcome.remains == "none");
  CHECK(control.live == 0);
  CHECK(std::string(control.first_misuse.load()).empty());
  CHECK((outcome.status == RLX_OK || !outcome.message.empty()));
  const bool lost = outcome.opened && outcome.told_lost;
  CHECK(outcome.health == (lost ? RLX_DEVICE_LOST : RLX_OK));
  // A loss that no call has met yet is met now.
  CHECK((outcome.next_session == outcome.health ||
         (control.told_lost > 0 && outcome.next_session == RLX_DEVICE_LOST)));
}

void check_clean_use(const Scenario& scenario, const Outcome& wanted) {
  FaultControl& control = *scenario.control;
  control.reset();
  const Outcome again = use(scenario);
  INFO(again.message);
  CHECK(again.status == RLX_OK);
  CHECK(again.outputs == wanted.outputs);
  check_rest(control, again);
}

Outcome first_use(const Scenario& scenario) {
  FaultControl& control = *scenario.control;
  control.reset();
  Outcome outcome = use(scenario);
  INFO(outcome.message);
  REQUIRE(outcome.status == RLX_OK);
  REQUIRE(!outcome.outputs.empty());
  check_rest(control, outcome);
  return outcome;
}

}  // namespace

FaultCounts fail_every_call(const Scenario& scenario, const ResultStatus& status_of) {
  FaultControl& control = *scenario.control;
  const Outcome wanted = first_use(scenario);
  FaultCounts counts{.calls = wanted.calls};
  for (uint64_t k = 1;; ++k) {
    uint32_t choices = 1;
    for (uint32_t choice = 0; choice < choices; ++choice) {
      control.reset();
      control.fail_at = k;
      control.choice = choice;
      const Outcome outcome = use(scenario);
      if (!control.reached) return counts;
      choices = control.choices;
      ++counts.faults;
      INFO(fault_text(control, k) << ": " << outcome.message);
      Wanted status = status_of(control.function.load(), control.result);
      if (outcome.in_close) status.status = RLX_OK;
      CHECK((outcome.status == status.status || (status.or_none && outcome.status == RLX_OK)));
      check_rest(control, outcome);
    }
    check_clean_use(scenario, wanted);
  }
}

FaultCounts lose_at_every_call(const Scenario& scenario) {
  FaultControl& control = *scenario.control;
  const Outcome wanted = first_use(scenario);
  FaultCounts counts{.calls = wanted.calls};
  for (uint64_t k = 1;; ++k) {
    control.reset();
    control.fail_at = k;
    control.lose = true;
    const Outcome outcome = use(scenario);
    if (!control.reached) return counts;
    ++counts.faults;
    INFO(fault_text(control, k) << ": " << outcome.message);
    CHECK((outcome.status == RLX_DEVICE_LOST || outcome.status == RLX_OK));
    check_rest(control, outcome);
    check_clean_use(scenario, wanted);
  }
}

FaultControl& open_stand_in(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  INFO((library == nullptr ? dlerror() : ""));
  REQUIRE(library != nullptr);
  const auto control = reinterpret_cast<FaultControl* (*)()>(dlsym(library, "rlx_fault_control"));
  REQUIRE(control != nullptr);
  return *control();
}

}  // namespace rlx::test
