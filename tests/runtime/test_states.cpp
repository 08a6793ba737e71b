// SPDX-License-Identifier: Apache-2.0
// The C API's states over the null device.
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "runtime/include/rlx.h"
#include "tests/support/catch.h"
#include "tests/support/plan_fixture.h"

using namespace rlx::test;

namespace {

constexpr uint32_t kElements = 64;
constexpr uint32_t kEchoEntry = 1;

// keeping_plan() with its state as f32[4,4,4].
PlanSpec cube_plan() {
  PlanSpec spec = keeping_plan();
  spec.states[0].dims = {4, 4, 4};
  return spec;
}

struct Rig {
  struct Options {
    bool profile = false;
  };
  Rig() : Rig(Options{}) {}
  explicit Rig(Options options) : bytes(serialise(cube_plan())), profile(options.profile) {
    REQUIRE(rlx_plan_open_memory(bytes.data(), bytes.size(), nullptr, &plan) == RLX_OK);
    REQUIRE(rlx_device_open("null", &device) == RLX_OK);
    session = make();
  }
  ~Rig() {
    rlx_session_close(session);
    rlx_device_close(device);
    rlx_plan_close(plan);
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  [[nodiscard]] rlx_session* make() const {
    rlx_session_options options = RLX_INIT(rlx_session_options);
    options.profile = profile ? 1 : 0;
    rlx_session* made = nullptr;
    REQUIRE(rlx_session_create(plan, device, &options, &made) == RLX_OK);
    return made;
  }

  std::vector<std::byte> bytes;
  bool profile = false;
  rlx_plan* plan = nullptr;
  rlx_device* device = nullptr;
  rlx_session* session = nullptr;
};

rlx_tensor tensor_of(const std::vector<float>& data, const std::vector<uint64_t>& dims) {
  rlx_tensor tensor = RLX_INIT(rlx_tensor);
  tensor.data = data.data();
  tensor.size_bytes = data.size() * sizeof(float);
  tensor.rank = static_cast<uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), tensor.dims);
  return tensor;
}

rlx_state_range range_of(uint32_t axis, uint64_t begin, uint64_t count) {
  rlx_state_range range = RLX_INIT(rlx_state_range);
  range.axis = axis;
  range.begin = begin;
  range.count = count;
  return range;
}

std::vector<float> iota(float first, size_t count = kElements) {
  std::vector<float> data(count);
  std::iota(data.begin(), data.end(), first);
  return data;
}

std::vector<float> read_state(rlx_session* session, const rlx_state_range* range = nullptr,
                              size_t count = kElements) {
  std::vector<float> data(count);
  INFO(rlx_last_error());
  REQUIRE(rlx_session_read_state(session, "kept", range, data.data(), count * sizeof(float)) ==
          RLX_OK);
  return data;
}

rlx_status write_state(rlx_session* session, const std::vector<float>& data,
                       const std::vector<uint64_t>& dims = {4, 4, 4},
                       const rlx_state_range* range = nullptr) {
  const rlx_tensor tensor = tensor_of(data, dims);
  return rlx_session_write_state(session, "kept", range, &tensor);
}

rlx_status run(rlx_session* session, float first) {
  const std::vector<float> x = iota(first);
  const rlx_tensor tensor = tensor_of(x, {kElements});
  REQUIRE(rlx_session_set_input(session, kEchoEntry, "x", &tensor) == RLX_OK);
  return rlx_session_run(session, kEchoEntry);
}

bool error_says(const std::string& piece) {
  INFO(rlx_last_error());
  return std::string(rlx_last_error()).find(piece) != std::string::npos;
}

}  // namespace

TEST_CASE("a_plan_lists_its_states") {
  const Rig rig;
  REQUIRE(rlx_plan_state_count(rig.plan) == 1);
  CHECK(rlx_plan_state_count(nullptr) == 0);
  rlx_tensor_info info = RLX_INIT(rlx_tensor_info);
  REQUIRE(rlx_plan_get_state(rig.plan, 0, &info) == RLX_OK);
  CHECK(std::string(info.name) == "kept");
  CHECK(info.dtype == RLX_F32);
  CHECK(info.rank == 3);
  CHECK(info.dims[2] == 4);
  CHECK(info.size_bytes == 256);
  CHECK(info.segment == RLX_STATE);
  CHECK(rlx_plan_get_state(rig.plan, 1, &info) == RLX_INVALID_ARGUMENT);
  CHECK(error_says("there is no state 1, the plan has 1"));
  CHECK(rlx_plan_get_state(nullptr, 0, &info) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_plan_get_state(rig.plan, 0, nullptr) == RLX_INVALID_ARGUMENT);
}

TEST_CASE("a_state_is_saved_and_restored") {
  const Rig rig;
  CHECK(read_state(rig.session) == iota(64));  // begins as weight "v"
  REQUIRE(run(rig.session, 500) == RLX_OK);
  const std::vector<float> saved = read_state(rig.session);
  CHECK(saved == iota(500));
  REQUIRE(run(rig.session, 600) == RLX_OK);
  REQUIRE(write_state(rig.session, saved) == RLX_OK);
  REQUIRE(run(rig.session, 700) == RLX_OK);
  std::vector<float> y(kElements);
  REQUIRE(rlx_session_read_output(rig.session, kEchoEntry, "y", y.data(), 256) == RLX_OK);
  CHECK(y == saved);
}

TEST_CASE("a_range_of_an_axis_is_read_and_written") {
  const Rig rig;
  std::vector<float> all = iota(0);
  REQUIRE(write_state(rig.session, all) == RLX_OK);
  const rlx_state_range outer = range_of(0, 1, 2);
  CHECK(read_state(rig.session, &outer, 32) == iota(16, 32));
  const rlx_state_range middle = range_of(1, 3, 1);
  CHECK(read_state(rig.session, &middle, 16) ==
        std::vector<float>{12, 13, 14, 15, 28, 29, 30, 31, 44, 45, 46, 47, 60, 61, 62, 63});
  const rlx_state_range inner = range_of(2, 0, 1);
  CHECK(read_state(rig.session, &inner, 16)[5] == 20);
  const rlx_state_range none = range_of(1, 4, 0);
  CHECK(read_state(rig.session, &none, 0).empty());
  REQUIRE(write_state(rig.session, iota(1000, 16), {4, 1, 4}, &middle) == RLX_OK);
  for (size_t i = 0; i < 16; ++i) all[i / 4 * 16 + 12 + i % 4] = 1000 + static_cast<float>(i);
  CHECK(read_state(rig.session) == all);
}

TEST_CASE("what_is_wrong_with_a_range_or_tensor_is_told_and_nothing_is_written") {
  const Rig rig;
  const std::vector<float> before = read_state(rig.session);
  std::vector<float> data(kElements);
  const auto read = [&](const rlx_state_range& range, uint64_t bytes) {
    return rlx_session_read_state(rig.session, "kept", &range, data.data(), bytes);
  };
  CHECK(read(range_of(3, 0, 1), 64) == RLX_INVALID_ARGUMENT);
  CHECK(error_says("state \"kept\" has 3 axes, there is no axis 3"));
  CHECK(read(range_of(1, 3, 2), 64) == RLX_INVALID_ARGUMENT);
  CHECK(error_says("has 4 indices on axis 1, got 2 from 3 on"));
  CHECK(read(range_of(1, UINT64_MAX, 2), 64) == RLX_INVALID_ARGUMENT);
  CHECK(read(range_of(1, 0, 1), 60) == RLX_INVALID_ARGUMENT);
  CHECK(error_says("got room for 60 bytes, wanted 64 for f32[4,1,4]"));
  rlx_state_range unset = range_of(0, 0, 1);
  unset.struct_size = 0;
  CHECK(read(unset, 64) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_read_state(rig.session, "keep", nullptr, data.data(), 256) ==
        RLX_INVALID_ARGUMENT);
  CHECK(error_says("the plan has no state \"keep\"; its states are \"kept\""));
  CHECK(write_state(rig.session, iota(0), {64}) == RLX_INVALID_ARGUMENT);
  CHECK(error_says("got f32[64], wanted f32[4,4,4]"));
  CHECK(write_state(rig.session, iota(0, 60)) == RLX_INVALID_ARGUMENT);
  CHECK(error_says("got 240 bytes, wanted 256"));
  CHECK(rlx_session_read_state(rig.session, nullptr, nullptr, data.data(), 256) ==
        RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_write_state(rig.session, "kept", nullptr, nullptr) == RLX_INVALID_ARGUMENT);
  CHECK(read_state(rig.session) == before);
}

TEST_CASE("states_are_not_touched_while_a_run_is_under_way") {
  const Rig rig;
  rlx_session* other = rig.make();
  REQUIRE(run(rig.session, 1) == RLX_OK);
  REQUIRE(rlx_session_submit(rig.session, kEchoEntry) == RLX_OK);
  std::vector<float> data(kElements);
  CHECK(rlx_session_read_state(rig.session, "kept", nullptr, data.data(), 256) ==
        RLX_INVALID_STATE);
  CHECK(error_says("is under way"));
  CHECK(write_state(rig.session, iota(0)) == RLX_INVALID_STATE);
  CHECK(rlx_session_copy_state(rig.session, "kept", other) == RLX_INVALID_STATE);
  CHECK(rlx_session_copy_state(other, "kept", rig.session) == RLX_INVALID_STATE);
  CHECK(error_says("in the session to copy from"));
  CHECK(rlx_session_bind_state(rig.session, "kept", 4096, 256) == RLX_INVALID_STATE);
  REQUIRE(rlx_session_wait(rig.session, RLX_NO_TIMEOUT) == RLX_OK);
  rlx_session_close(other);
}

TEST_CASE("a_state_is_copied_between_sessions_of_one_plan_and_device") {
  const Rig rig;
  rlx_session* other = rig.make();
  REQUIRE(run(rig.session, 300) == RLX_OK);
  REQUIRE(rlx_session_copy_state(other, "kept", rig.session) == RLX_OK);
  CHECK(read_state(other) == iota(300));
  REQUIRE(run(rig.session, 400) == RLX_OK);
  CHECK(read_state(other) == iota(300));
  CHECK(rlx_session_copy_state(other, "k", rig.session) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_copy_state(other, "kept", other) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_copy_state(other, "kept", nullptr) == RLX_INVALID_ARGUMENT);
  const Rig stranger;
  CHECK(rlx_session_copy_state(other, "kept", stranger.session) == RLX_INVALID_ARGUMENT);
  CHECK(error_says("another device handle"));
  rlx_session* foreign = nullptr;
  REQUIRE(rlx_session_create(stranger.plan, rig.device, nullptr, &foreign) == RLX_OK);
  CHECK(rlx_session_copy_state(other, "kept", foreign) == RLX_INVALID_ARGUMENT);
  CHECK(error_says("another plan handle"));
  CHECK(read_state(other) == iota(300));
  rlx_session_close(foreign);
  rlx_session_close(other);
}

TEST_CASE("a_bound_state_is_used_in_place") {
  const Rig rig;
  alignas(256) float memory[2][kElements] = {{7}, {}};
  const auto address = [](const void* bytes) { return reinterpret_cast<uint64_t>(bytes); };
  const uint64_t own = address(memory[0]);
  REQUIRE(run(rig.session, 100) == RLX_OK);
  REQUIRE(rlx_session_bind_state(rig.session, "kept", own, 256) == RLX_OK);
  std::vector<float> y(kElements);
  REQUIRE(run(rig.session, 200) == RLX_OK);
  REQUIRE(rlx_session_read_output(rig.session, kEchoEntry, "y", y.data(), 256) == RLX_OK);
  CHECK(y[0] == 7);
  CHECK(memory[0][63] == 263);
  REQUIRE(rlx_session_reset_states(rig.session) == RLX_OK);
  CHECK(memory[0][0] == 200);
  CHECK(rlx_session_read_state(rig.session, "kept", nullptr, y.data(), 256) == RLX_INVALID_STATE);
  CHECK(error_says("\"kept\" is bound to the caller's memory"));
  CHECK(write_state(rig.session, iota(0)) == RLX_INVALID_STATE);
  CHECK(rlx_session_bind_output(rig.session, kEchoEntry, "y", own + 128, 256) ==
        RLX_INVALID_ARGUMENT);
  CHECK(error_says("overlaps that of state \"kept\""));
  REQUIRE(rlx_session_bind_state(rig.session, "kept", 0, 0) == RLX_OK);
  CHECK(read_state(rig.session) == iota(100));
  CHECK(rlx_session_bind_state(rig.session, "kept", own + 16, 256) == RLX_INVALID_ARGUMENT);
  CHECK(error_says("multiple of 256"));
  CHECK(rlx_session_bind_state(rig.session, "kept", own, 255) == RLX_INVALID_ARGUMENT);
  CHECK(rlx_session_bind_state(rig.session, "no", own, 256) == RLX_INVALID_ARGUMENT);
  REQUIRE(rlx_session_bind_output(rig.session, kEchoEntry, "y", own, 512) == RLX_OK);
  CHECK(rlx_session_bind_state(rig.session, "kept", address(memory[1]), 256) ==
        RLX_INVALID_ARGUMENT);
  CHECK(error_says("overlaps that of \"y\""));
}

TEST_CASE("runs_that_are_no_runs_leave_the_states_as_they_were") {
  const Rig rig(Rig::Options{.profile = true});
  REQUIRE(run(rig.session, 100) == RLX_OK);
  std::vector<float> y(kElements);
  REQUIRE(rlx_session_read_value(rig.session, kEchoEntry, 1, 1, y.data(), 256) == RLX_OK);
  CHECK(read_state(rig.session) == iota(100));
  REQUIRE(write_state(rig.session, iota(200)) == RLX_OK);
  rlx_step_time times[2];
  uint32_t count = 0;
  REQUIRE(rlx_session_profile(rig.session, kEchoEntry, times, 2, &count) == RLX_OK);
  CHECK(read_state(rig.session) == iota(200));
}

TEST_CASE("a_bound_state_is_not_written_by_runs_that_are_no_runs") {
  const Rig rig(Rig::Options{.profile = true});
  alignas(256) float memory[kElements] = {7};
  REQUIRE(run(rig.session, 100) == RLX_OK);
  REQUIRE(rlx_session_bind_state(rig.session, "kept", reinterpret_cast<uint64_t>(memory), 256) ==
          RLX_OK);
  rlx_step_time times[2];
  uint32_t count = 0;
  std::vector<float> y(kElements);
  CHECK(rlx_session_profile(rig.session, kEchoEntry, times, 2, &count) == RLX_INVALID_STATE);
  CHECK(error_says("it would write state \"kept\""));
  CHECK(rlx_session_read_value(rig.session, kEchoEntry, 1, 1, y.data(), 256) == RLX_INVALID_STATE);
  CHECK(memory[0] == 7);
  // The first step only reads it.
  CHECK(rlx_session_read_value(rig.session, kEchoEntry, 0, 1, y.data(), 256) == RLX_OK);
  CHECK(y[0] == 7);
}

TEST_CASE("a seed is refused for a plan that draws no random numbers") {
  const Rig rig;
  CHECK(rlx_session_set_seed(rig.session, 1, 0) == RLX_INVALID_ARGUMENT);
  CHECK(std::string(rlx_last_error()).find("random numbers") != std::string::npos);
  CHECK(rlx_session_set_seed(nullptr, 1, 0) == RLX_INVALID_ARGUMENT);
}
