// SPDX-License-Identifier: Apache-2.0
// The C API over the null device: right use, wrong use, loss, and what a user is told.
#include <climits>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/api/handles.h"
#include "runtime/device/device_names.h"
#include "runtime/include/rlx.h"
#include "runtime/null/null_device.h"
#include "tests/support/catch.h"
#include "tests/support/drivers.h"
#include "tests/support/plan_fixture.h"

using namespace rlx::test;

namespace {

using Bytes = std::vector<std::byte>;

struct Closer {
  void operator()(rlx_plan* plan) const { rlx_plan_close(plan); }
  void operator()(rlx_device* device) const { rlx_device_close(device); }
  void operator()(rlx_session* session) const { rlx_session_close(session); }
  void operator()(rlx_device_list* list) const { rlx_device_list_close(list); }
};
template <class Handle>
using Owned = std::unique_ptr<Handle, Closer>;

// A plan on a null device that the test controls.
struct Rig {
  explicit Rig(const PlanSpec& spec = small_plan()) : bytes(serialise(spec)) {
    rlx_plan* opened = nullptr;
    REQUIRE(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &opened) == RLX_OK);
    plan.reset(opened);
    device.reset(rlx::make_device_handle(rlx::open_null_device(control)));
  }
  Owned<rlx_session> session(const rlx_session_options* options = nullptr) {
    rlx_session* made = nullptr;
    INFO(rlx_last_error());
    REQUIRE(rlx_session_create(plan.get(), device.get(), options, &made) == RLX_OK);
    return Owned<rlx_session>(made);
  }

  Bytes bytes;
  std::shared_ptr<rlx::NullControl> control = std::make_shared<rlx::NullControl>();
  Owned<rlx_plan> plan;
  Owned<rlx_device> device;
};

// What there is on the rig's devices.
int64_t held(const Rig& rig) {
  const rlx::ObjectCounts& objects = rig.control->objects;
  return objects.of(rlx::ObjectKind::Plan) + objects.of(rlx::ObjectKind::Session) +
         objects.of(rlx::ObjectKind::Memory);
}

constexpr uint32_t kMain = 0;
constexpr uint32_t kEcho = 1;

struct Vector {
  std::vector<float> numbers = std::vector<float>(64);
  explicit Vector(float first = 0) {
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = first + static_cast<float>(i);
  }
  [[nodiscard]] rlx_tensor tensor() const {
    rlx_tensor t = RLX_INIT(rlx_tensor);
    t.data = numbers.data();
    t.size_bytes = numbers.size() * sizeof(float);
    t.dtype = RLX_F32;
    t.rank = 1;
    t.dims[0] = numbers.size();
    return t;
  }
};

rlx_status set_x(rlx_session* session, uint32_t entry, const rlx_tensor& tensor) {
  return rlx_session_set_input(session, entry, "x", &tensor);
}

rlx_status read_y(rlx_session* session, uint32_t entry, Vector& into) {
  return rlx_session_read_output(session, entry, "y", into.numbers.data(), 256);
}

bool error_has(const std::string& text) {
  return std::string(rlx_last_error()).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a_run_carries_an_input_to_an_output") {
  Rig rig;
  const auto session = rig.session();
  const Vector x(3);
  Vector y;
  REQUIRE(set_x(session.get(), kEcho, x.tensor()) == RLX_OK);
  REQUIRE(rlx_session_run(session.get(), kEcho) == RLX_OK);
  REQUIRE(read_y(session.get(), kEcho, y) == RLX_OK);
  CHECK(y.numbers == x.numbers);
  CHECK(std::string(rlx_last_error()).empty());
}

TEST_CASE("steps_run_in_order_and_dispatches_are_counted") {
  Rig rig;
  rig.control->record = true;
  const auto session = rig.session();
  REQUIRE(set_x(session.get(), kMain, Vector().tensor()) == RLX_OK);
  REQUIRE(rlx_session_run(session.get(), kMain) == RLX_OK);
  CHECK(rig.control->steps_run == std::vector<uint32_t>{0, 1, 2, 3, 4, 5});
  CHECK(rig.control->dispatches == 2);
  float z[4] = {};
  REQUIRE(rlx_session_read_output(session.get(), kMain, "z", z, sizeof z) == RLX_OK);
  CHECK(z[3] == 1.0f);
}

TEST_CASE("plan_info_tells_memory_before_load") {
  Rig rig;
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  REQUIRE(rlx_plan_get_info(rig.plan.get(), &info) == RLX_OK);
  CHECK(std::string(info.name) == "fixture");
  CHECK(info.entry_count == 2);
  CHECK(info.weights_bytes == 768);
  CHECK(info.state_bytes == 256);
  CHECK(info.arena_bytes == 512);
  CHECK(info.io_bytes == 768);
  CHECK(info.file_bytes == rig.bytes.size());
  CHECK(rig.control->calls == 0);
}

TEST_CASE("entries_tensors_and_steps_are_described") {
  Rig rig;
  uint32_t entry = 9;
  REQUIRE(rlx_plan_find_entry(rig.plan.get(), "echo", &entry) == RLX_OK);
  CHECK(entry == kEcho);
  CHECK(rlx_plan_find_entry(rig.plan.get(), "decode", &entry) == RLX_INVALID_ARGUMENT);
  CHECK(error_has("no entry \"decode\"; its entries are \"main\" and \"echo\""));
  rlx_entry_info about = RLX_INIT(rlx_entry_info);
  REQUIRE(rlx_plan_get_entry(rig.plan.get(), kMain, &about) == RLX_OK);
  CHECK(about.input_count == 1);
  CHECK(about.output_count == 2);
  rlx_tensor_info tensor = RLX_INIT(rlx_tensor_info);
  REQUIRE(rlx_plan_get_output(rig.plan.get(), kMain, 1, &tensor) == RLX_OK);
  CHECK(std::string(tensor.name) == "z");
  CHECK(tensor.rank == 1);
  CHECK(tensor.dims[0] == 4);
  CHECK(tensor.size_bytes == 16);
  CHECK(rlx_plan_get_output(rig.plan.get(), kMain, 2, &tensor) == RLX_INVALID_ARGUMENT);
}

TEST_CASE("session_describes_what_its_device_runs") {
  Rig rig;
  const auto session = rig.session();
  rlx_program_info program = RLX_INIT(rlx_program_info);
  REQUIRE(rlx_session_get_program(session.get(), kMain, &program) == RLX_OK);
  CHECK(program.target == RLX_TARGET_VULKAN);
  CHECK(program.step_count == 6);
  CHECK(program.wave_count == 4);
  rlx_tensor_info value = RLX_INIT(rlx_tensor_info);
  REQUIRE(rlx_session_get_value(session.get(), kMain, 0, &value) == RLX_OK);
  CHECK(std::string(value.name) == "x");
  CHECK(rlx_session_get_value(session.get(), kMain, program.value_count, &value) ==
        RLX_INVALID_ARGUMENT);
  CHECK(error_has("there is no value"));
  rlx_step_info step = RLX_INIT(rlx_step_info);
  REQUIRE(rlx_session_get_step(session.get(), kMain, 1, &step) == RLX_OK);
  CHECK(std::string(step.kernel) == "region");
  CHECK(std::string(step.node) == "main.node1");
  REQUIRE(rlx_session_get_step(session.get(), kMain, 5, &step) == RLX_OK);
  CHECK(std::string(step.kernel) == "fill");
  CHECK(rlx_session_get_step(session.get(), kMain, 6, &step) == RLX_INVALID_ARGUMENT);
  CHECK(error_has("there is no step 6"));
}

TEST_CASE("preflight_needs_the_first_page_alone") {
  const Rig rig;
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  REQUIRE(rlx_plan_preflight(rig.bytes.data(), 4096, rig.device.get(), &info) == RLX_OK);
  CHECK(info.weights_bytes == 768);
  CHECK(info.file_bytes == rig.bytes.size());
  CHECK(rlx_plan_preflight(rig.bytes.data(), 4095, nullptr, &info) == RLX_INVALID_ARGUMENT);
  Bytes altered = rig.bytes;
  altered[100] ^= std::byte{1};
  CHECK(rlx_plan_preflight(altered.data(), 4096, nullptr, &info) == RLX_INVALID_PLAN);
}

TEST_CASE("T7_a_wrong_input_name_lists_the_right_ones") {
  Rig rig;
  const auto session = rig.session();
  const Vector numbers;
  const rlx_tensor tensor = numbers.tensor();
  CHECK(rlx_session_set_input(session.get(), kMain, "image", &tensor) == RLX_INVALID_ARGUMENT);
  CHECK(error_has("entry \"main\" has no input \"image\"; its inputs are \"x\""));
  Vector y;
  CHECK(rlx_session_read_output(session.get(), kMain, "logits", y.numbers.data(), 256) ==
        RLX_INVALID_ARGUMENT);
  CHECK(error_has("its outputs are \"y\" and \"z\""));
}

TEST_CASE("T7_a_wrong_tensor_is_told_got_and_wanted") {
  Rig rig;
  const auto session = rig.session();
  const Vector x;
  rlx_tensor tensor = x.tensor();
  tensor.dtype = RLX_I32;
  CHECK(set_x(session.get(), kMain, tensor) == RLX_INVALID_ARGUMENT);
  CHECK(error_has("got i32[64], wanted f32[64]"));
  tensor = x.tensor();
  tensor.rank = 2;
  tensor.dims[0] = 8;
  tensor.dims[1] = 8;
  CHECK(set_x(session.get(), kMain, tensor) == RLX_INVALID_ARGUMENT);
  CHECK(error_has("got f32[8,8], wanted f32[64]"));
  tensor = x.tensor();
  tensor.size_bytes = 252;
  CHECK(set_x(session.get(), kMain, tensor) == RLX_INVALID_ARGUMENT);
  CHECK(error_has("got 252 bytes, wanted 256"));
  tensor = x.tensor();
  tensor.rank = 9;
  CHECK(set_x(session.get(), kMain, tensor) == RLX_INVALID_ARGUMENT);
  tensor = x.tensor();
  tensor.data = nullptr;
  CHECK(set_x(session.get(), kMain, tensor) == RLX_INVALID_ARGUMENT);
  tensor = x.tensor();
  tensor.struct_size = 8;
  CHECK(set_x(session.get(), kMain, tensor) == RLX_INVALID_ARGUMENT);
  CHECK(error_has("struct_size 8"));
}

TEST_CASE("T7_an_input_never_set_stops_the_run_before_the_launch") {
  Rig rig;
  const auto session = rig.session();
  CHECK(rlx_session_run(session.get(), kMain) == RLX_INVALID_STATE);
  CHECK(error_has("input \"x\" of entry \"main\" was never set"));
  CHECK(rig.control->runs == 0);
}

TEST_CASE("an_output_is_there_only_after_a_run") {
  Rig rig;
  const auto session = rig.session();
  Vector y;
  REQUIRE(set_x(session.get(), kEcho, Vector().tensor()) == RLX_OK);
  CHECK(read_y(session.get(), kEcho, y) == RLX_INVALID_STATE);
  REQUIRE(rlx_session_run(session.get(), kEcho) == RLX_OK);
  CHECK(rlx_session_read_output(session.get(), kEcho, "y", y.numbers.data(), 128) ==
        RLX_INVALID_ARGUMENT);
  CHECK(error_has("got room for 128 bytes, wanted 256"));
  CHECK(read_y(session.get(), kEcho, y) == RLX_OK);
}

TEST_CASE("entries_take_the_shared_io_from_each_other") {
  Rig rig;
  const auto session = rig.session();
  REQUIRE(set_x(session.get(), kEcho, Vector().tensor()) == RLX_OK);
  REQUIRE(rlx_session_run(session.get(), kEcho) == RLX_OK);
  REQUIRE(set_x(session.get(), kMain, Vector().tensor()) == RLX_OK);
  Vector y;
  CHECK(read_y(session.get(), kEcho, y) == RLX_INVALID_STATE);
  CHECK(rlx_session_run(session.get(), kEcho) == RLX_INVALID_STATE);
  CHECK(error_has("never set since entry \"main\" used the memory"));
}

TEST_CASE("submit_and_wait_with_a_timeout") {
  Rig rig;
  const auto session = rig.session();
  rig.control->timeouts = 2;
  REQUIRE(set_x(session.get(), kEcho, Vector(1).tensor()) == RLX_OK);
  CHECK(rlx_session_wait(session.get(), 0) == RLX_OK);  // nothing is under way
  REQUIRE(rlx_session_submit(session.get(), kEcho) == RLX_OK);
  CHECK(rlx_session_submit(session.get(), kEcho) == RLX_INVALID_STATE);
  CHECK(error_has("is under way"));
  CHECK(rlx_session_wait(session.get(), 1000) == RLX_TIMEOUT);
  Vector y;
  CHECK(read_y(session.get(), kEcho, y) == RLX_INVALID_STATE);
  CHECK(rlx_session_wait(session.get(), 1000) == RLX_TIMEOUT);
  CHECK(rlx_session_wait(session.get(), RLX_NO_TIMEOUT) == RLX_OK);
  CHECK(read_y(session.get(), kEcho, y) == RLX_OK);
  CHECK(y.numbers[0] == 1);
}

TEST_CASE("as_many_runs_are_queued_as_the_session_was_created_for") {
  Rig rig;
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.queue_depth = 3;
  const auto session = rig.session(&options);
  REQUIRE(set_x(session.get(), kEcho, Vector(1).tensor()) == RLX_OK);
  uint64_t first = 0;
  uint64_t third = 0;
  REQUIRE(rlx_session_enqueue(session.get(), kEcho, &first) == RLX_OK);
  REQUIRE(rlx_session_submit(session.get(), kEcho) == RLX_OK);
  REQUIRE(rlx_session_enqueue(session.get(), kEcho, &third) == RLX_OK);
  CHECK(first == 1);
  CHECK(third == 3);
  uint64_t none = 77;
  CHECK(rlx_session_enqueue(session.get(), kEcho, &none) == RLX_INVALID_STATE);
  CHECK(error_has("the queue of 3 runs is full"));
  CHECK(none == 77);
  CHECK(rig.control->runs == 3);
  CHECK(rlx_session_wait_for(session.get(), 4, RLX_NO_TIMEOUT) == RLX_INVALID_ARGUMENT);
  CHECK(error_has("there is no run 4, the session has submitted 3"));
  REQUIRE(rlx_session_wait_for(session.get(), first, RLX_NO_TIMEOUT) == RLX_OK);
  CHECK(set_x(session.get(), kEcho, Vector(2).tensor()) == RLX_INVALID_STATE);
  Vector y;
  CHECK(read_y(session.get(), kEcho, y) == RLX_INVALID_STATE);
  REQUIRE(rlx_session_submit(session.get(), kEcho) == RLX_OK);
  rig.control->timeouts = 1;
  CHECK(rlx_session_wait_for(session.get(), third, 1000) == RLX_TIMEOUT);
  CHECK(rlx_session_wait_for(session.get(), first, 0) == RLX_OK);  // over long ago
  REQUIRE(rlx_session_wait(session.get(), RLX_NO_TIMEOUT) == RLX_OK);
  REQUIRE(read_y(session.get(), kEcho, y) == RLX_OK);
  CHECK(y.numbers[0] == 1);
  CHECK(rlx_session_enqueue(session.get(), kEcho, nullptr) == RLX_INVALID_ARGUMENT);
  REQUIRE(rlx_session_submit(session.get(), kEcho) == RLX_OK);  // closed with a run under way
}

TEST_CASE("a_failing_queued_run_is_told_and_the_others_end") {
  Rig rig;
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.queue_depth = 2;
  const auto session = rig.session(&options);
  REQUIRE(set_x(session.get(), kEcho, Vector(1).tensor()) == RLX_OK);
  REQUIRE(rlx_session_submit(session.get(), kEcho) == RLX_OK);
  REQUIRE(rlx_session_submit(session.get(), kEcho) == RLX_OK);
  rig.control->fail_at_call = rig.control->calls + 1;
  rig.control->fail_with = RLX_DRIVER_ERROR;
  CHECK(rlx_session_wait(session.get(), RLX_NO_TIMEOUT) == RLX_DRIVER_ERROR);
  CHECK(rlx_session_wait(session.get(), RLX_NO_TIMEOUT) == RLX_OK);
  CHECK(rlx_session_run(session.get(), kEcho) == RLX_OK);
}

TEST_CASE("a_queue_that_cannot_be_is_refused") {
  Rig rig;
  rlx_session* session = nullptr;
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.queue_depth = 1025;
  CHECK(rlx_session_create(rig.plan.get(), rig.device.get(), &options, &session) ==
        RLX_INVALID_ARGUMENT);
  CHECK(error_has("options.queue_depth is 1025, at most 1024"));
  options.queue_depth = 2;
  options.check_indices = 1;
  CHECK(rlx_session_create(rig.plan.get(), rig.device.get(), &options, &session) ==
        RLX_INVALID_ARGUMENT);
  CHECK(error_has("with check_indices"));
}

TEST_CASE("bound_buffers_are_used_in_place") {
  Rig rig;
  const auto session = rig.session();
  alignas(16) float in[64];
  alignas(16) float out[64] = {};
  for (int i = 0; i < 64; ++i) in[i] = static_cast<float>(i) * 2;
  const auto address = [](const void* memory) { return reinterpret_cast<uint64_t>(memory); };
  REQUIRE(rlx_session_bind_input(session.get(), kEcho, "x", address(in), sizeof in) == RLX_OK);
  REQUIRE(rlx_session_bind_output(session.get(), kEcho, "y", address(out), sizeof out) == RLX_OK);
  REQUIRE(rlx_session_run(session.get(), kEcho) == RLX_OK);
  CHECK(std::memcmp(in, out, sizeof in) == 0);
  Vector y;
  CHECK(read_y(session.get(), kEcho, y) == RLX_INVALID_STATE);
  CHECK(set_x(session.get(), kEcho, Vector().tensor()) == RLX_INVALID_STATE);
  CHECK(rlx_session_bind_output(session.get(), kEcho, "y", address(in) + 16, 256) ==
        RLX_INVALID_ARGUMENT);
  CHECK(error_has("overlaps"));
  CHECK(rlx_session_bind_output(session.get(), kEcho, "y", address(out) + 4, 256) ==
        RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_bind_output(session.get(), kEcho, "y", address(out), 128) ==
        RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_bind_output(session.get(), kEcho, "y", UINT64_MAX - 15, 256) ==
        RLX_INVALID_ARGUMENT);
  REQUIRE(rlx_session_bind_output(session.get(), kEcho, "y", 0, 0) == RLX_OK);
  REQUIRE(rlx_session_run(session.get(), kEcho) == RLX_OK);
  REQUIRE(read_y(session.get(), kEcho, y) == RLX_OK);
  CHECK(y.numbers[1] == 2);
  REQUIRE(rlx_session_bind_input(session.get(), kEcho, "x", 0, 0) == RLX_OK);
  CHECK(rlx_session_run(session.get(), kEcho) == RLX_INVALID_STATE);
}

TEST_CASE("states_persist_and_reset") {
  const PlanSpec spec = keeping_plan();
  Rig rig(spec);
  const auto session = rig.session();
  Vector y;
  const auto run = [&](float first) {
    REQUIRE(set_x(session.get(), kEcho, Vector(first).tensor()) == RLX_OK);
    REQUIRE(rlx_session_run(session.get(), kEcho) == RLX_OK);
    REQUIRE(read_y(session.get(), kEcho, y) == RLX_OK);
    return y.numbers[0];
  };
  CHECK(run(500) == 64);  // begins as weight "v", 64 and up
  CHECK(run(600) == 500);
  REQUIRE(rlx_session_reset_states(session.get()) == RLX_OK);
  CHECK(run(700) == 64);
}

TEST_CASE("generated_weights_are_filled_by_init") {
  Rig rig;
  const auto session = rig.session();
  float g[64] = {};
  REQUIRE(set_x(session.get(), kMain, Vector().tensor()) == RLX_OK);
  REQUIRE(rlx_session_read_value(session.get(), kMain, 2, 4, g, sizeof g) == RLX_OK);
  CHECK(g[63] == 2.0f);
  Vector y;
  CHECK(read_y(session.get(), kMain, y) == RLX_INVALID_STATE);
}

TEST_CASE("a_live_value_is_read_after_a_step") {
  Rig rig;
  const auto session = rig.session();
  const Vector x(7);
  float a[64] = {};
  REQUIRE(set_x(session.get(), kMain, x.tensor()) == RLX_OK);
  REQUIRE(rlx_session_read_value(session.get(), kMain, 0, 6, a, sizeof a) == RLX_OK);
  CHECK(a[0] == 7);
  CHECK(rlx_session_read_value(session.get(), kMain, 4, 6, a, sizeof a) == RLX_INVALID_ARGUMENT);
  CHECK(error_has("lives from step 0 to 1"));
  CHECK(rlx_session_read_value(session.get(), kMain, 9, 6, a, sizeof a) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_read_value(session.get(), kMain, 0, 99, a, sizeof a) == RLX_INVALID_ARGUMENT);
}

TEST_CASE("profiling_gives_a_time_for_each_step") {
  Rig rig;
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.profile = 1;
  const auto session = rig.session(&options);
  REQUIRE(set_x(session.get(), kMain, Vector().tensor()) == RLX_OK);
  rlx_step_time times[6] = {};
  uint32_t count = 0;
  CHECK(rlx_session_profile(session.get(), kMain, times, 5, &count) == RLX_INVALID_ARGUMENT);
  REQUIRE(rlx_session_profile(session.get(), kMain, times, 6, &count) == RLX_OK);
  CHECK(count == 6);
  CHECK(times[5].step == 5);
  const auto plain = rig.session();
  CHECK(rlx_session_profile(plain.get(), kMain, times, 6, &count) == RLX_INVALID_STATE);
}

TEST_CASE("weights_are_loaded_once_for_sessions_of_one_device") {
  Rig rig;
  {
    const auto first = rig.session();
    const auto second = rig.session();
    CHECK(rig.control->loads == 1);
    const Owned<rlx_device> other(rlx::make_device_handle(rlx::open_null_device(rig.control)));
    rlx_session* third = nullptr;
    REQUIRE(rlx_session_create(rig.plan.get(), other.get(), nullptr, &third) == RLX_OK);
    CHECK(rig.control->loads == 2);
    rlx_session_close(third);
  }
  CHECK(held(rig) == 0);
}

TEST_CASE("handles_close_in_any_order") {
  Rig rig;
  auto session = rig.session();
  rig.plan.reset();
  rig.device.reset();
  REQUIRE(set_x(session.get(), kEcho, Vector().tensor()) == RLX_OK);
  CHECK(rlx_session_run(session.get(), kEcho) == RLX_OK);
  session.reset();
  CHECK(held(rig) == 0);
}

TEST_CASE("a_budget_is_refused_before_anything_is_allocated") {
  Rig rig;
  rlx_session_options options = RLX_INIT(rlx_session_options);
  options.memory_budget_bytes = 2303;
  rlx_session* session = nullptr;
  CHECK(rlx_session_create(rig.plan.get(), rig.device.get(), &options, &session) ==
        RLX_OUT_OF_DEVICE_MEMORY);
  CHECK(session == nullptr);
  CHECK(error_has("needs 2304 bytes"));
  CHECK(rig.control->calls == 0);
  options.memory_budget_bytes = 2304;
  CHECK(rig.session(&options) != nullptr);
}

TEST_CASE("every_failing_driver_call_leaves_a_usable_program") {
  uint64_t calls = 0;
  const auto use = [](Rig& rig) -> rlx_status {
    rlx_session* made = nullptr;
    rlx_status status = rlx_session_create(rig.plan.get(), rig.device.get(), nullptr, &made);
    const Owned<rlx_session> session(made);
    const Vector x_numbers(2);
    const rlx_tensor x = x_numbers.tensor();
    Vector y;
    if (status == RLX_OK) status = rlx_session_set_input(session.get(), kEcho, "x", &x);
    if (status == RLX_OK) status = rlx_session_run(session.get(), kEcho);
    if (status == RLX_OK) status = read_y(session.get(), kEcho, y);
    if (status == RLX_OK && y.numbers[0] != 2) status = RLX_INTERNAL_ERROR;
    return status;
  };
  {
    Rig rig;
    REQUIRE(use(rig) == RLX_OK);
    calls = rig.control->calls;
  }
  for (const rlx_status code : {RLX_OUT_OF_DEVICE_MEMORY, RLX_DRIVER_ERROR, RLX_DEVICE_LOST}) {
    for (uint64_t k = 1; k <= calls; ++k) {
      INFO("call " << k << " fails with " << rlx_status_name(code));
      Rig rig;
      rig.control->fail_with = code;
      rig.control->fail_at_call = k;
      CHECK(use(rig) == code);
      CHECK(held(rig) == 0);
      const bool lost = code == RLX_DEVICE_LOST;
      CHECK(rlx_device_health(rig.device.get()) == (lost ? RLX_DEVICE_LOST : RLX_OK));
      CHECK(use(rig) == (lost ? RLX_DEVICE_LOST : RLX_OK));
      rig.control->fail_at_call = 0;
      rig.device.reset(rlx::make_device_handle(rlx::open_null_device(rig.control)));
      CHECK(use(rig) == RLX_OK);
    }
  }
}

TEST_CASE("a_lost_device_is_lost_for_all_its_sessions") {
  Rig rig;
  const auto first = rig.session();
  const auto second = rig.session();
  REQUIRE(set_x(first.get(), kEcho, Vector().tensor()) == RLX_OK);
  rig.control->fail_with = RLX_DEVICE_LOST;
  rig.control->fail_at_call = rig.control->calls + 1;
  CHECK(rlx_session_run(first.get(), kEcho) == RLX_DEVICE_LOST);
  CHECK(set_x(second.get(), kEcho, Vector().tensor()) == RLX_DEVICE_LOST);
  CHECK(error_has("was lost"));
  rlx_session* third = nullptr;
  CHECK(rlx_session_create(rig.plan.get(), rig.device.get(), nullptr, &third) == RLX_DEVICE_LOST);
}

TEST_CASE("null_arguments_are_refused") {
  Rig rig;
  const auto owner = rig.session();
  rlx_session* s = owner.get();
  rlx_plan* no_plan = nullptr;
  rlx_plan_info info = RLX_INIT(rlx_plan_info);
  const Vector numbers;
  const rlx_tensor x = numbers.tensor();
  CHECK(rlx_plan_open_file(nullptr, nullptr, &no_plan) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_plan_open_file("x", nullptr, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_plan_open_memory(nullptr, 5, nullptr, &no_plan) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_plan_get_info(nullptr, &info) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_plan_get_info(rig.plan.get(), nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_plan_preflight(nullptr, 4096, nullptr, &info) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_plan_get_entry(nullptr, 0, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_plan_find_entry(rig.plan.get(), nullptr, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_plan_get_input(rig.plan.get(), 0, 0, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_get_program(nullptr, 0, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_get_value(nullptr, 0, 0, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_get_step(nullptr, 0, 0, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_device_open(nullptr, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_device_get_info(nullptr, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_device_health(nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_device_list_get(nullptr, 0, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_device_list_count(nullptr) == 0);
  rlx_session* none = nullptr;
  CHECK(rlx_session_create(nullptr, rig.device.get(), nullptr, &none) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_create(rig.plan.get(), nullptr, nullptr, &none) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_create(rig.plan.get(), rig.device.get(), nullptr, nullptr) ==
        RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_set_input(nullptr, 0, "x", &x) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_set_input(s, 0, nullptr, &x) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_set_input(s, 0, "x", nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_set_input(s, 9, "x", &x) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_run(nullptr, 0) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_run(s, 2) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_read_output(s, 0, "y", nullptr, 256) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_read_output(s, 0, nullptr, nullptr, 0) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_profile(s, 0, nullptr, 0, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_last_run_microseconds(s, nullptr) == RLX_INVALID_ARGUMENT);
  rlx_plan_close(nullptr);
  rlx_device_close(nullptr);
  rlx_session_close(nullptr);
  rlx_device_list_close(nullptr);
}

TEST_CASE("options_of_another_version_are_taken_where_nothing_is_lost") {
  const Bytes plan = serialise(small_plan());
  // A newer program's struct: one field more.
  struct Newer {
    rlx_plan_options known = RLX_INIT(rlx_plan_options);
    uint64_t later = 0;
  } newer;
  newer.known.struct_size = sizeof newer;
  rlx_plan* opened = nullptr;
  CHECK(rlx_plan_open_memory(plan.data(), plan.size(), &newer.known, &opened) == RLX_OK);
  rlx_plan_close(opened);
  newer.later = 1;
  CHECK(rlx_plan_open_memory(plan.data(), plan.size(), &newer.known, &opened) ==
        RLX_INVALID_ARGUMENT);
  CHECK(opened == nullptr);
  newer.known.struct_size = 0;
  CHECK(rlx_plan_open_memory(plan.data(), plan.size(), &newer.known, &opened) ==
        RLX_INVALID_ARGUMENT);
  rlx_plan_options bad = RLX_INIT(rlx_plan_options);
  bad.check_weights = 2;
  CHECK(rlx_plan_open_memory(plan.data(), plan.size(), &bad, &opened) == RLX_INVALID_ARGUMENT);
}

TEST_CASE("unknown_devices_are_told") {
  std::string why_none;
  static_cast<void>(rlx::test::present_devices(why_none));
  rlx_device* device = nullptr;
  for (const char* id : {"vulkan:00", "vulkan:01", "cuda:00", "vulkan:+0", "vulkan:", "tpu:0"}) {
    CHECK(rlx_device_open(id, &device) == RLX_NO_DEVICE);
    CHECK(device == nullptr);
  }
  CHECK(error_has("no device \"tpu:0\""));
  CHECK(device == nullptr);
  CHECK(rlx_device_open("null", &device) == RLX_OK);
  rlx_device_info info = RLX_INIT(rlx_device_info);
  REQUIRE(rlx_device_get_info(device, &info) == RLX_OK);
  CHECK(std::string(info.id) == "null");
  rlx_device_close(device);
}

TEST_CASE("dtypes_have_names_and_sizes") {
  CHECK(std::string(rlx_dtype_name(RLX_BOOL)) == "bool");
  CHECK(std::string(rlx_dtype_name(RLX_F32)) == "f32");
  CHECK(rlx_dtype_name(1000) == nullptr);
  CHECK(rlx_dtype_bytes(RLX_F64, 3) == 24);
  CHECK(rlx_dtype_bytes(14, 31) == 0);
  CHECK(rlx_dtype_bytes(14, 32) == 18);
  CHECK(rlx_dtype_bytes(RLX_F64, UINT64_MAX) == 0);
  CHECK(std::string(rlx_status_name(RLX_DEVICE_LOST)) == "device lost");
  for (const int number : {-1, RLX_ASSERTION_FAILED + 1, 99, INT_MAX, INT_MIN}) {
    CHECK(std::string(rlx_status_name(number)) == "unknown status");
  }
}

TEST_CASE("errors_belong_to_their_thread") {
  CHECK(rlx_device_open("tpu:0", nullptr) == RLX_INVALID_ARGUMENT);
  std::string other = "unset";
  std::thread([&] { other = rlx_last_error(); }).join();
  CHECK(other.empty());
  CHECK(error_has("argument device is NULL"));
}

TEST_CASE("threads_share_a_plan_with_a_session_each") {
  Rig rig;
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      rlx_session* made = nullptr;
      if (rlx_session_create(rig.plan.get(), rig.device.get(), nullptr, &made) != RLX_OK) return;
      const Owned<rlx_session> session(made);
      const Vector x(static_cast<float>(t) * 100);
      const rlx_tensor tensor = x.tensor();
      Vector y;
      bool all = true;
      for (int i = 0; i < 50; ++i) {
        all = all && rlx_session_set_input(made, kEcho, "x", &tensor) == RLX_OK &&
              rlx_session_run(made, kEcho) == RLX_OK && read_y(made, kEcho, y) == RLX_OK &&
              y.numbers == x.numbers;
      }
      right += all ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(right == 8);
  CHECK(held(rig) == 0);
}

TEST_CASE("a_device_has_one_name") {
  CHECK(rlx::device_number("vulkan", "vulkan") == 0u);
  CHECK(rlx::device_number("vulkan:0", "vulkan") == 0u);
  CHECK(rlx::device_number("cuda:10", "cuda") == 10u);
  for (const char* id :
       {"", "vulkan:", "vulkan:00", "vulkan:01", "vulkan:+1", "vulkan:-1", "vulkan: 1", "vulkan:1 ",
        "vulkan:0x0", "vulkan0", "vulkan:18446744073709551616"}) {
    INFO(id);
    CHECK_FALSE(rlx::device_number(id, "vulkan").has_value());
  }
}
