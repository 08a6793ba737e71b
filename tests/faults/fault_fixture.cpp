// SPDX-License-Identifier: Apache-2.0
// The use of a device, and the loops over its calls.
#include "tests/faults/fault_fixture.h"

#include <dlfcn.h>

#include <cstdio>
#include <utility>

#include "runtime/api/handles.h"
#include "tests/support/catch.h"
#include "tests/support/sketches.h"

namespace rlx::test {
namespace {

constexpr uint64_t kBytes = kCount * sizeof(float);

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

rlx_status read_outputs(rlx_session* session, uint32_t entry,
                        std::initializer_list<const char*> names, std::vector<std::byte>& outputs) {
  for (const char* name : names) {
    std::vector<std::byte> bytes(kBytes);
    const rlx_status status =
        rlx_session_read_output(session, entry, name, bytes.data(), bytes.size());
    if (status != RLX_OK) return status;
    outputs.insert(outputs.end(), bytes.begin(), bytes.end());
  }
  return RLX_OK;
}

rlx_status run_all(rlx_session* session, bool profile, std::vector<std::byte>& outputs) {
  const std::vector<float> x = ramp(3);
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = x.data();
  tensor.size_bytes = kBytes;
  tensor.rank = 1;
  tensor.dims[0] = kCount;
  rlx_status status = rlx_session_prepare(session, 0);
  for (int round = 0; round < 2 && status == RLX_OK; ++round) {
    status = rlx_session_set_input(session, 0, "x", &tensor);
    if (status == RLX_OK) status = rlx_session_run(session, 0);
    if (status == RLX_OK) status = read_outputs(session, 0, {"y"}, outputs);
    if (status == RLX_OK) status = rlx_session_run(session, 1);
    if (status == RLX_OK) {
      status = read_outputs(session, 1, {"count", "one", "filled"}, outputs);
    }
  }
  if (status == RLX_OK && profile) {
    rlx_step_time times[8] = {};
    uint32_t count = 0;
    status = rlx_session_profile(session, 1, times, 8, &count);
  }
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
  options.jobs = 1;
  options.profile = scenario.profile ? 1 : 0;
  options.check_indices = 1;
  if (!scenario.pipeline_cache_path.empty())
    options.pipeline_cache_path = scenario.pipeline_cache_path.c_str();
  status = rlx_session_create(handles.plan, handles.device, &options, &handles.session);
  return status == RLX_OK ? run_all(handles.session, scenario.profile, outcome.outputs) : status;
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
  sketch.entries = {main_entry(), state_entry()};
  return sketch;
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
    scenario.control->fail_at = 0;
    if (handles.device != nullptr) {
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
  const bool lost = control.told_lost > 0 && outcome.health != RLX_OK;
  CHECK(outcome.health == (lost ? RLX_DEVICE_LOST : RLX_OK));
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
  REQUIRE(outcome.outputs.size() == 8 * kBytes);
  check_rest(control, outcome);
  return outcome;
}

}  // namespace

FaultCounts fail_every_call(const Scenario& scenario, const ResultStatus& status_of) {
  FaultControl& control = *scenario.control;
  const Outcome wanted = first_use(scenario);
  FaultCounts counts{.calls = control.calls};
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
      const rlx_status status =
          outcome.in_close ? RLX_OK : status_of(control.function.load(), control.result);
      CHECK(outcome.status == status);
      CHECK(outcome.next_session == (outcome.health == RLX_DEVICE_LOST ? RLX_DEVICE_LOST : RLX_OK));
      check_rest(control, outcome);
    }
    check_clean_use(scenario, wanted);
  }
}

FaultCounts lose_at_every_call(const Scenario& scenario) {
  FaultControl& control = *scenario.control;
  const Outcome wanted = first_use(scenario);
  FaultCounts counts{.calls = control.calls};
  for (uint64_t k = 1;; ++k) {
    control.reset();
    control.fail_at = k;
    control.lose = true;
    const Outcome outcome = use(scenario);
    if (!control.reached) return counts;
    ++counts.faults;
    INFO(fault_text(control, k) << ": " << outcome.message);
    // A loss that no call has met yet is nobody's to know.
    const bool told = outcome.status != RLX_OK;
    CHECK(outcome.status == (told ? RLX_DEVICE_LOST : RLX_OK));
    if (told) CHECK(outcome.health == RLX_DEVICE_LOST);
    if (told) CHECK(outcome.next_session == RLX_DEVICE_LOST);
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
